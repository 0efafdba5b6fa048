"""The Gaussians of a scene: container, cameras, files, grouping, lifting, transform, floor."""

from .animated import AnimatedScene
from .animation import Animation
from .camera_files import load_cameras
from .cameras import Camera, orbit
from .clusters import Cluster, cluster, label
from .floor_finding import Floor, find_floor
from .formats import load, save
from .gaussians import BACKGROUND, GaussianScene, join
from .grouping import (
    assign,
    group_by_masks,
    membership,
    remove,
    select_box,
    select_circle,
    select_sphere,
)
from .lgm import to_lgm
from .lifting import lift, lift_scenes, lift_sequence
from .selection import Selection, select
from .transform import affine, transform, transform_sequence
from .world import WorldFrame

__all__ = [
    "BACKGROUND",
    "AnimatedScene",
    "Animation",
    "Camera",
    "Cluster",
    "Floor",
    "GaussianScene",
    "Selection",
    "WorldFrame",
    "affine",
    "assign",
    "cluster",
    "find_floor",
    "group_by_masks",
    "join",
    "label",
    "lift",
    "lift_scenes",
    "lift_sequence",
    "load",
    "load_cameras",
    "membership",
    "orbit",
    "remove",
    "save",
    "select",
    "select_box",
    "select_circle",
    "select_sphere",
    "to_lgm",
    "transform",
    "transform_sequence",
]
