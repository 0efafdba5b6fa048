"""The Gaussians of a scene: container, cameras, files, grouping, lifting, transform."""

from .camera_files import load_cameras
from .cameras import Camera, orbit
from .formats import load, save
from .gaussians import BACKGROUND, GaussianScene, join

__all__ = [
    "BACKGROUND",
    "Camera",
    "GaussianScene",
    "join",
    "load",
    "load_cameras",
    "orbit",
    "save",
]
