"""From where a motion is seen: a camera that does not stand inside or behind something.

What is seen of the objects is drawn, small: white objects among black surroundings, beside the
objects alone. The quotient of both is the part that nothing hides.
"""

import math
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import repeat
from typing import NamedTuple

import torch
from torch import Tensor

from ..scene import Camera, GaussianScene, join
from ..scene.animation import Animation
from ..scene.frames import AnimatedScene
from ..scene.framing import (
    AZIMUTH,
    ELEVATION,
    FIELD,
    default_camera,
    fit_camera,
    points_of_interest,
    pushed,
)
from ..scene.gaussians import color_to_sh
from ..threads import one_thread
from .scenes import render_frames

PIXELS = 96  # a side of the pictures that are looked at
MOST = 60_000  # Gaussians in them
LEAST = 0.5  # pixels: less of an object is nothing
FRAMES = 9  # looked at when angles are compared
SHOWN = 0.2  # part of an object that must be seen for it to be seen in a frame
FINE = 0.6  # part seen in the mean, from which the usual angle is taken without a search
GAIN = 0.15  # what another angle must give more
ALIKE = 0.95  # of the best is as good as the best


class Viewpoint(NamedTuple):
    """A side to look from, and how much of the objects is seen from there."""

    azimuth: float = AZIMUTH
    elevation: float = ELEVATION
    fov: float = FIELD
    seen: float = 1.0
    """Mean over frames of the part of the objects that is seen, 0 to 1."""


# In the order in which they are liked: rather from the side than from above, rather near to the
# usual side than opposite. A wide field sees as much from nearer, before the wall of a small room.
CANDIDATES = [
    Viewpoint((AZIMUTH + turn) % 360, elevation, fov)
    for fov in (FIELD, 75.0)
    for elevation in (ELEVATION, 32.0, 52.0)
    for turn in (0, 30, -30, 60, -60, 90, -90, 120, -120, 150, -150, 180)
]


def clear_camera(animation: Animation, size: Sequence[int] = (512, 512)) -> Camera:
    """The default camera, or one from another side where that one would see too little."""
    view = clear_viewpoint(animation, size)
    angles = {"azimuth": view.azimuth, "elevation": view.elevation, "fov": view.fov}
    return default_camera(animation, size, **angles)


@one_thread()
def clear_viewpoint(animation: Animation, size: Sequence[int] = (512, 512)) -> Viewpoint:
    """The usual angles where they are fine; else those from which most is seen."""
    if not can_tell(animation):
        return Viewpoint()
    stage, points = _Stage.of(animation, FRAMES, among=False), points_of_interest(animation)
    width, height = _small_size(*size)

    def looked(view: Viewpoint) -> Viewpoint:
        camera = fit_camera(
            points, animation.world.up, width=width, height=height, fov=view.fov,
            azimuth=view.azimuth, elevation=view.elevation,
        )  # fmt: skip
        return view._replace(seen=float(stage.seen(camera).mean()))

    usual = looked(Viewpoint())
    best = usual if usual.seen >= FINE else _best([usual, *map(looked, CANDIDATES)])
    return best if best.seen > usual.seen + GAIN else usual


def _best(views: Sequence[Viewpoint]) -> Viewpoint:
    """The first that is nearly the best of all: they are in the order in which they are liked."""
    most = max(view.seen for view in views)
    return next(view for view in views if view.seen >= ALIKE * most)


@one_thread()
def frames_seen(animation: Animation, cameras: Camera | Sequence[Camera]) -> float:
    """Part of the frames, 0 to 1, in which enough of the pushed objects is to be seen.

    ``cameras`` are one for all frames, or one a frame.
    """
    if not can_tell(animation):
        return 1.0
    stage = _Stage.of(animation, 2 * FRAMES)
    if isinstance(cameras, Camera):
        parts = stage.seen(small(cameras))
    else:
        parts = stage.seen([small(cameras[t]) for t in stage.frames])
    return float((parts >= SHOWN).double().mean())


def can_tell(animation: Animation) -> bool:
    """Whether something moves, and what draws true covariances is installed."""
    return bool(animation.states) and find_spec("numba") is not None


# --- a few frames in white and black --------------------------------------------------------------


class _Stage(NamedTuple):
    """The pushed objects, white, with everything else, black, and without it.

    What else moves is left out where angles are compared (``among`` is False): a ball among pins is
    hidden by them from every side, and it is they that are looked at then.
    """

    frames: list[int]
    whole: AnimatedScene
    alone: AnimatedScene

    @classmethod
    def of(cls, animation: Animation, count: int, *, among: bool = True) -> "_Stage":
        last, scene = len(animation) - 1, animation.scene
        frames = sorted({round(t) for t in torch.linspace(0, last, count).tolist()})
        ours = torch.isin(scene.ids, torch.tensor(pushed(animation)).to(scene.ids))
        moving = torch.isin(scene.ids, torch.tensor(list(animation.states)).to(scene.ids))
        things, rest = _drawn(scene, ours, 1.0), _drawn(scene, ~(ours if among else moving), 0.0)
        return cls(
            frames, _moving(animation, frames, things, rest), _moving(animation, frames, things)
        )

    def seen(self, cameras: Camera | list[Camera]) -> Tensor:
        """Part ``(F,)`` of the objects that is seen in each frame."""
        shown, whole = (_white(x, cameras) for x in (self.whole, self.alone))
        each = repeat(cameras) if isinstance(cameras, Camera) else cameras
        inside = [_inside(f.means, camera) for f, camera in zip(self.alone, each, strict=False)]
        return torch.tensor(inside) * shown / whole.clamp_min(LEAST)


class _Drawn(NamedTuple):
    """Some rows of a scene, in one colour."""

    rows: Tensor
    scene: GaussianScene


def _drawn(scene: GaussianScene, mask: Tensor, grey: float) -> _Drawn:
    """What is marked, in one colour; of very many Gaussians some, and these so much wider."""
    rows = mask.nonzero().squeeze(-1)
    step = -(-len(rows) // MOST) or 1
    rows = rows[::step]
    log_scales, thin = scene.log_scales[rows], scene.log_scales[rows].argmin(-1, keepdim=True)
    wider = torch.full_like(log_scales, 0.5 * math.log(step)).scatter_(1, thin, 0.0)
    sh = color_to_sh(torch.full((len(rows), 3), grey))
    return _Drawn(
        rows,
        GaussianScene(
            scene.means[rows], scene.quats[rows], log_scales + wider, scene.logits[rows],
            sh, scene.ids[rows],
        ),
    )  # fmt: skip


def _moving(animation: Animation, frames: list[int], *parts: _Drawn) -> AnimatedScene:
    """A few frames of them. The first is frame 0, as presence wants it."""
    scene, presence = join(*(p.scene for p in parts)), animation.presence
    there = set(scene.object_ids)
    states = {i: z for i, z in animation.states.items() if i in there}
    return AnimatedScene(
        scene,
        {i: z[0] for i, z in states.items()},
        {i: z[frames] for i, z in states.items()},
        form=animation.form,
        presence=None if presence is None else torch.cat([presence[p.rows] for p in parts]),
    )


def _white(scenes: AnimatedScene, cameras: Camera | list[Camera]) -> Tensor:
    """How much white there is ``(F,)``, in pixels."""
    film = render_frames(scenes, cameras, backend="ewa", background=(0.0, 0.0, 0.0))
    return torch.stack([picture.color[..., 0].sum() for picture in film])


def _inside(means: Tensor, camera: Camera) -> float:
    """Part of the points that lie before a camera and in its picture."""
    (x, y), depth = camera.project(means)[0].unbind(-1), camera.project(means)[1]
    inside = (depth > 0) & (x >= 0) & (x <= camera.width) & (y >= 0) & (y <= camera.height)
    return float(inside.double().mean())


def _small_size(width: int, height: int) -> tuple[int, int]:
    """A picture of the same form that is quickly drawn."""
    return (
        max(1, round(PIXELS * width / max(width, height))),
        max(1, round(PIXELS * height / max(width, height))),
    )


def small(camera: Camera) -> Camera:
    """The same view in fewer pixels."""
    width, height = _small_size(camera.width, camera.height)
    scale = torch.tensor([[width / camera.width], [height / camera.height], [1.0]])
    return Camera(camera.K * scale.to(camera.K), camera.w2c, width, height)
