"""The Gaussians of a scene: container, cameras, files, grouping, lifting, transform."""

from .camera_files import load_cameras
from .cameras import Camera, orbit
from .formats import load, save
from .gaussians import BACKGROUND, GaussianScene, join
from .grouping import membership
from .lifting import lift
from .transform import affine, transform, transform_sequence

__all__ = [
    "BACKGROUND",
    "Camera",
    "GaussianScene",
    "affine",
    "join",
    "lift",
    "load",
    "load_cameras",
    "membership",
    "orbit",
    "save",
    "transform",
    "transform_sequence",
]
