"""The Gaussians of a scene: container, cameras, files, grouping, lifting, transform, floor."""

from .animation import Animation
from .camera_files import load_cameras
from .cameras import Camera, orbit
from .clusters import Cluster, cluster, label
from .floor_finding import Floor, find_floor
from .formats import load, save
from .gaussians import BACKGROUND, GaussianScene, join
from .grouping import membership
from .lifting import lift
from .selection import Selection, select
from .transform import affine, transform, transform_sequence
from .world import WorldFrame

__all__ = [
    "BACKGROUND",
    "Animation",
    "Camera",
    "Cluster",
    "Floor",
    "GaussianScene",
    "Selection",
    "WorldFrame",
    "affine",
    "cluster",
    "find_floor",
    "join",
    "label",
    "lift",
    "load",
    "load_cameras",
    "membership",
    "orbit",
    "save",
    "select",
    "transform",
    "transform_sequence",
]
