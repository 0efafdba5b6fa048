"""Whether a camera is inside an object or a wall, and how much of its picture that hides.

A camera that moves around a motion may pass through a lamp or a wall. Gaussians around it, or right
in front of it, then cover the picture as a haze, or completely. So do Gaussians beside it, in the
plane of its lens: splatting projects a Gaussian by a linear map around its centre, which makes it
as large as the picture there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace as changed

import torch
from torch import Tensor

from ..base import rotations
from ..base.process import one_thread
from ..base.state import State
from ..base.types import Vec3
from ..render.scenes import render
from ..scene import Camera, GaussianScene, join
from ..scene.animation import Animation
from ..scene.frames import FIRST, AnimatedScene
from .framing import pushed, small

EXTENT = 3.0  # radius of a Gaussian in standard deviations
REACH = 0.05  # of the distance to the pushed objects: Gaussians nearer than this are in the way


@one_thread()
def veiled(animation: Animation, cameras: Camera | Sequence[Camera]) -> float:
    """The fraction of the picture, 0 to 1, hidden by Gaussians around the camera; the worst frame.

    ``cameras`` are one for all frames, or one per frame. The pushed objects do not count: they are
    the subject.
    """
    if not animation.states:
        return 0.0
    every = [cameras] * len(animation) if isinstance(cameras, Camera) else cameras
    eyes = torch.stack([camera.position.double() for camera in every])
    reach = (REACH * (_middles(animation) - eyes).norm(dim=-1)).tolist()
    still, loose = _unmoved(animation), _loose(animation)
    if isinstance(cameras, Camera):  # the worst frame is the one with the farthest reach
        near = [_near(still, cameras, max(reach))]
        near *= 1 if loose is None else len(every)
    else:
        near = [_near(still, camera, r) for camera, r in zip(every, reach, strict=True)]
    if loose is not None:
        near = [join(near[t], _near(loose[t], c, reach[t])) for t, c in enumerate(every)]
    return max(_covered(scene, camera) for scene, camera in zip(near, every, strict=False))


def _covered(scene: GaussianScene, camera: Camera) -> float:
    """Fraction of a picture that a scene covers."""
    if not len(scene):
        return 0.0
    return float(render(scene, small(camera), backend="ewa").alpha.mean())


def _middles(animation: Animation) -> Vec3:
    """The mean position ``(T, 3)`` of the pushed objects, float64."""
    ways = [State(animation.states[i].double()).p for i in pushed(animation)]
    return torch.stack(ways).mean(0).cpu()


def _unmoved(animation: Animation) -> GaussianScene:
    """Static Gaussians that are present after frame 0, without view-dependent colours."""
    scene, there = animation.scene, ~_of(animation, animation.states)
    if animation.presence is not None:
        there &= animation.presence != FIRST
    return changed(scene, sh=scene.sh[:, :1])[there]


def _loose(animation: Animation) -> AnimatedScene | None:
    """The moving objects that were not pushed; None if there are none."""
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
    """Gaussians that end within ``reach`` of the eye, or lie so close in front of its plane."""
    eye = camera.position.to(scene.means)
    extents = EXTENT * scene.log_scales.amax(-1).exp()
    depths = scene.means @ camera.w2c[2, :3].to(eye) + camera.w2c[2, 3].to(eye)
    beside = (depths > 0) & (depths < reach)
    may_reach = (scene.means - eye).norm(dim=-1) < reach + extents  # few of a large scene
    beside[may_reach] |= gaps(scene[may_reach], eye) < reach
    return scene[beside]


def gaps(scene: GaussianScene, eye: Vec3) -> Tensor:
    """Distance ``(N,)`` of the eye from each Gaussian's surface on the line to its centre.

    Negative inside. A flat Gaussian may be nearer beside that line.
    """
    away = eye.to(scene.means) - scene.means
    local = (rotations.to_matrix(scene.quats).mT @ away.unsqueeze(-1)).squeeze(-1)
    deviations = (local / scene.log_scales.exp()).norm(dim=-1)
    return away.norm(dim=-1) * (1 - EXTENT / deviations.clamp_min(1e-6))
