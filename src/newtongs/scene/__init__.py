"""The Gaussians of a scene: container, cameras, files, grouping, lifting, transform, floor."""

from .animation import Animation
from .cameras import Camera, orbit
from .find.clusters import Cluster, cluster, label
from .find.floor import Floor, find_floor, find_floors
from .find.grouping import (
    assign,
    group_by_masks,
    membership,
    remove,
    select_box,
    select_circle,
    select_sphere,
)
from .find.selection import Selection, select
from .frames import AnimatedScene
from .gaussians import BACKGROUND, GaussianScene, join
from .io.camera_files import load_cameras
from .io.formats import load, save
from .io.lgm import to_lgm
from .lifting import lift, lift_scenes, lift_sequence
from .transform import affine, transform, transform_sequence
from .world_frame import WorldFrame

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
    "find_floors",
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
