"""Cameras of a film, and whether they see it and stand free."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ..render.veils import veiled
from ..render.viewpoints import frames_seen
from ..scene.animation import Animation
from ..scene.cameras import Camera
from ..scene.framing import default_camera, follow_path, orbit_path
from ..scene.world_frame import WorldFrame
from .draws import ViewDraw
from .spec import Spec

HARDLY_SEEN, IN_SOMETHING = "hardly seen", "camera in something"  # why a view is refused
SMALLEST = 5e-4  # of the picture, 33 pixels of 256 x 256: what takes less is hardly seen
MAKE: dict[str, Any] = {"still": default_camera, "orbit": orbit_path, "follow": follow_path}


def cameras_of(animation: Animation, view: ViewDraw, spec: Spec) -> Camera | list[Camera]:
    """One camera for all frames, or one a frame."""
    made: Camera | list[Camera] = MAKE[view.path](
        animation, spec.size, azimuth=view.azimuth, elevation=view.elevation, fov=spec.cameras.fov
    )
    return made


class Sight(NamedTuple):
    """What a view is worth."""

    seen: float
    """Part of the frames in which enough of the pushed objects is to be seen."""
    veiled: float
    """Part of the picture that is lost to what the camera stands in, in the worst frame."""


def sight(animation: Animation, cameras: Camera | list[Camera]) -> Sight:
    """Looked at in a few small frames, and for all places of the camera."""
    return Sight(frames_seen(animation, cameras), veiled(animation, cameras))


def frames_large(ids: npt.NDArray[np.uint8], pushed: int) -> float:
    """Part of the frames ``(T, H, W)`` in which the first objects take more than a few pixels."""
    sizes = ((ids > 0) & (ids <= pushed)).mean((1, 2))
    return float((sizes >= SMALLEST).mean())


def each(cameras: Camera | list[Camera], frames: int) -> list[Camera]:
    """One a frame."""
    return [cameras] * frames if isinstance(cameras, Camera) else cameras


def in_physics(camera: Camera, world: WorldFrame) -> torch.Tensor:
    """World to camera ``(4, 4)``, float64, for points of the physics frame, in metres.

    A point has the same pixel as in the scene; its depth is in metres too.
    """
    R, t = camera.w2c[:3, :3].double(), camera.w2c[:3, 3].double()
    eye = torch.eye(3, dtype=torch.float64)
    origin = world.to_scene(torch.zeros(3, dtype=torch.float64))
    axes = torch.stack([world.to_scene(e) - origin for e in eye], -1) * world.scale  # a rotation
    out = torch.eye(4, dtype=torch.float64)
    out[:3, :3] = R @ axes
    out[:3, 3] = world.scale * (R @ origin + t)
    return out
