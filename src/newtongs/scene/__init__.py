"""The Gaussians of a scene: container, cameras, lifting, transform, world frame, animation."""

from .animation import Animation
from .cameras import Camera, orbit
from .frames import AnimatedScene
from .gaussians import BACKGROUND, GaussianScene, join
from .lifting import lift, lift_scenes, lift_sequence
from .transform import affine, transform, transform_sequence
from .world_frame import WorldFrame

__all__ = [
    "BACKGROUND",
    "AnimatedScene",
    "Animation",
    "Camera",
    "GaussianScene",
    "WorldFrame",
    "affine",
    "join",
    "lift",
    "lift_scenes",
    "lift_sequence",
    "orbit",
    "transform",
    "transform_sequence",
]
