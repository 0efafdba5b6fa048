"""Whether a camera stands in something, and how much of its picture that takes.

A camera on its way around a motion may go through a lamp or a wall. What it stands in, or has right
before it, then lies over the picture as a haze, or is all of it. So does what is beside it, in the
plane of its lens: splatting projects a Gaussian by a linear map around its centre, which makes it
there as large as the picture.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace as changed

import torch
from torch import Tensor

from .. import rotations
from ..scene import Camera, GaussianScene, join
from ..scene.animation import Animation
from ..scene.frames import FIRST, AnimatedScene
from ..scene.framing import pushed
from ..state import State
from ..threads import one_thread
from ..types import Vec3
from .scenes import render
from .viewpoints import can_tell, small

EXTENT = 3.0  # standard deviations from its centre to where a Gaussian ends
REACH = 0.05  # of the way to the pushed objects: what comes nearer to a camera veils its picture


@one_thread()
def veiled(animation: Animation, cameras: Camera | Sequence[Camera]) -> float:
    """The part of a picture, 0 to 1, that is lost to what the camera stands in; the worst frame's.

    ``cameras`` are one for all frames, or one a frame. The pushed objects veil nothing: they are
    what is looked at.
    """
    if not can_tell(animation):
        return 0.0
    every = [cameras] * len(animation) if isinstance(cameras, Camera) else cameras
    eyes = torch.stack([camera.position.double() for camera in every])
    reach = (REACH * (_middles(animation) - eyes).norm(dim=-1)).tolist()
    still, loose = _unmoved(animation), _loose(animation)
    if isinstance(cameras, Camera):  # its worst frame is that of the farthest reach
        near = [_near(still, cameras, max(reach))] * len(every)
    else:
        near = [_near(still, camera, r) for camera, r in zip(every, reach, strict=True)]
    if loose is not None:
        near = [join(near[t], _near(loose[t], c, reach[t])) for t, c in enumerate(every)]
    return max(_covered(scene, camera) for scene, camera in zip(near, every, strict=True))


def _covered(scene: GaussianScene, camera: Camera) -> float:
    """Part of a picture that a scene takes."""
    if not len(scene):
        return 0.0
    return float(render(scene, small(camera), backend="ewa").alpha.mean())


def _middles(animation: Animation) -> Vec3:
    """The mean position ``(T, 3)`` of the pushed objects, float64."""
    ways = [State(animation.states[i].double()).p for i in pushed(animation)]
    return torch.stack(ways).mean(0).cpu()


def _unmoved(animation: Animation) -> GaussianScene:
    """What follows no state and is there after frame 0, without colours that hang on the side."""
    scene, there = animation.scene, ~_of(animation, animation.states)
    if animation.presence is not None:
        there &= animation.presence != FIRST
    return changed(scene, sh=scene.sh[:, :1])[there]


def _loose(animation: Animation) -> AnimatedScene | None:
    """The objects that were not pushed, on their ways; None without any."""
    ways = {i: z for i, z in animation.states.items() if i not in pushed(animation)}
    if not ways:
        return None
    scene = changed(animation.scene, sh=animation.scene.sh[:, :1])[_of(animation, ways)]
    return AnimatedScene(scene, {i: z[0] for i, z in ways.items()}, ways, form=animation.form)


def _of(animation: Animation, indices: Iterable[int]) -> Tensor:
    """Which Gaussians ``(N,)`` belong to some objects."""
    ids = animation.scene.ids
    return torch.isin(ids, torch.tensor([*indices]).to(ids))


def _near(scene: GaussianScene, camera: Camera, reach: float) -> GaussianScene:
    """What ends within ``reach`` of the eye, or has its centre so little before the lens."""
    eye = camera.position.to(scene.means)
    extents = EXTENT * scene.log_scales.amax(-1).exp()
    depths = scene.means @ camera.w2c[2, :3].to(eye) + camera.w2c[2, 3].to(eye)
    beside = (depths > 0) & (depths < reach)
    may_reach = (scene.means - eye).norm(dim=-1) < reach + extents  # few of a large scene
    beside[may_reach] |= gaps(scene[may_reach], eye) < reach
    return scene[beside]


def gaps(scene: GaussianScene, eye: Vec3) -> Tensor:
    """How far ``(N,)`` an eye is from where each Gaussian ends on the line to its centre.

    Negative inside. What is flat may come nearer beside that line.
    """
    away = eye.to(scene.means) - scene.means
    local = (rotations.to_matrix(scene.quats).mT @ away.unsqueeze(-1)).squeeze(-1)
    deviations = (local / scene.log_scales.exp()).norm(dim=-1)
    return away.norm(dim=-1) * (1 - EXTENT / deviations.clamp_min(1e-6))
