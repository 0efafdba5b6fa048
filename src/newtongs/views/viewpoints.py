"""Picking an unobstructed camera.

The objects are drawn small and white, once in black surroundings and once alone. The ratio of both
is the visible fraction.
"""

import math
from collections.abc import Sequence
from itertools import repeat
from typing import NamedTuple

import torch
from torch import Tensor

from ..base.process import one_thread
from ..render.scenes import render_frames
from ..scene import Camera, GaussianScene, join
from ..scene.animation import Animation
from ..scene.frames import AnimatedScene
from ..scene.gaussians import color_to_sh
from .camera_occlusion import veiled
from .framing import (
    AZIMUTH,
    ELEVATION,
    FIELD,
    default_camera,
    fit_camera,
    is_alone,
    points_of_interest,
    pushed,
    small,
    small_size,
)

MOST = 60_000  # Gaussians in a small picture
LEAST = 0.5  # pixels: an object smaller than this counts as this large
FRAMES = 9  # drawn to compare angles
SHOWN = 0.2  # fraction of an object that must be visible for it to count in a frame
FINE = 0.6  # mean visible fraction from which the usual angle is taken without a search
GAIN = 0.15  # by which another angle must be better
ALIKE = 0.95  # of the best counts as equally good
VEILED = 0.05  # of the picture: with more of it hidden by what is around the camera, that is inside


class Viewpoint(NamedTuple):
    """A viewing direction, and how much of the objects is visible from there."""

    azimuth: float = AZIMUTH
    elevation: float = ELEVATION
    fov: float = FIELD
    seen: float = 1.0
    """Mean over frames of the visible fraction of the objects, 0 to 1."""


# In order of preference: from the side before from above, near the usual direction before opposite.
# A wide field sees as much from nearer, before the wall of a small room and not behind it.
CANDIDATES = [
    Viewpoint((AZIMUTH + turn) % 360, elevation, fov)
    for fov in (FIELD, 75.0, 95.0)
    for elevation in (ELEVATION, 32.0, 52.0)
    for turn in (0, 30, -30, 60, -60, 90, -90, 120, -120, 150, -150, 180)
]


def clear_camera(animation: Animation, size: Sequence[int] = (512, 512)) -> Camera:
    """The default camera, or another direction if too little is visible from there."""
    view = clear_viewpoint(animation, size)
    angles = {"azimuth": view.azimuth, "elevation": view.elevation, "fov": view.fov}
    return default_camera(animation, size, **angles)


def picture_at(
    animation: Animation, time: float, camera: Camera | None, size: Sequence[int]
) -> Tensor:
    """Picture ``(H, W, 3)`` of the frame nearest to a time; this is ``Animation.render``."""
    index = int((animation.times - time).abs().argmin())
    (picture,) = render_frames([animation.frames()[index]], camera or clear_camera(animation, size))
    return picture.color


@one_thread()
def clear_viewpoint(animation: Animation, size: Sequence[int] = (512, 512)) -> Viewpoint:
    """The usual angles if they suffice; otherwise those from which most is visible.

    A camera in a wall, in furniture, or right behind something else does not suffice.
    """
    if not animation.states:
        return Viewpoint()
    silhouette, points = (
        _Silhouette.of(animation, FRAMES, among=False),
        points_of_interest(animation),
    )
    width, height = small_size(*size)

    def at(view: Viewpoint) -> Camera:
        return fit_camera(
            points, animation.world.up, width=width, height=height, fov=view.fov,
            azimuth=view.azimuth, elevation=view.elevation, centered=is_alone(animation),
        )  # fmt: skip

    def looked(view: Viewpoint) -> Viewpoint:
        return view._replace(seen=float(silhouette.seen(at(view)).mean()))

    def is_free(view: Viewpoint) -> bool:
        return veiled(animation, at(view)) < VEILED

    usual = looked(Viewpoint())
    free = is_free(usual)
    if free and usual.seen >= FINE:
        return usual
    views = [usual, *map(looked, CANDIDATES)]
    most = max(view.seen for view in views)
    good = [view for view in views if view.seen >= ALIKE * most]
    fair = sorted((v for v in views if SHOWN <= v.seen < ALIKE * most), key=lambda v: -v.seen)
    best = next(filter(is_free, (*good, *fair)), good[0])
    return best if best.seen > usual.seen + GAIN or not free else usual


@one_thread()
def frames_seen(animation: Animation, cameras: Camera | Sequence[Camera]) -> float:
    """Fraction of the frames, 0 to 1, in which enough of the pushed objects is visible.

    ``cameras`` are one for all frames, or one per frame.
    """
    if not animation.states:
        return 1.0
    silhouette = _Silhouette.of(animation, 2 * FRAMES)
    if isinstance(cameras, Camera):
        parts = silhouette.seen(small(cameras))
    else:
        parts = silhouette.seen([small(cameras[t]) for t in silhouette.frames])
    return float((parts >= SHOWN).double().mean())


# --- a few frames in white and black --------------------------------------------------------------


class _Silhouette(NamedTuple):
    """The pushed objects in white, with everything else in black, and alone.

    Other moving objects are left out when angles are compared (``among`` is False): a ball among
    pins is hidden by them from every direction.
    """

    frames: list[int]
    whole: AnimatedScene
    alone: AnimatedScene

    @classmethod
    def of(cls, animation: Animation, count: int, *, among: bool = True) -> "_Silhouette":
        last, scene = len(animation) - 1, animation.scene
        frames = sorted({round(t) for t in torch.linspace(0, last, count).tolist()})
        ours = torch.isin(scene.ids, torch.tensor(pushed(animation)).to(scene.ids))
        moving = torch.isin(scene.ids, torch.tensor(list(animation.states)).to(scene.ids))
        things, rest = in_grey(scene, ours, 1.0), in_grey(scene, ~(ours if among else moving), 0.0)
        return cls(
            frames, _moving(animation, frames, things, rest), _moving(animation, frames, things)
        )

    def seen(self, cameras: Camera | list[Camera]) -> Tensor:
        """Visible fraction ``(F,)`` of the objects in each frame."""
        shown, whole = (_white(x, cameras) for x in (self.whole, self.alone))
        each = repeat(cameras) if isinstance(cameras, Camera) else cameras
        inside = [_inside(f.means, camera) for f, camera in zip(self.alone, each, strict=False)]
        return torch.tensor(inside) * shown / whole.clamp_min(LEAST)


class Drawn(NamedTuple):
    """Some rows of a scene, for small pictures."""

    rows: Tensor
    scene: GaussianScene


def in_grey(scene: GaussianScene, mask: Tensor, grey: float) -> Drawn:
    """The marked Gaussians in one colour; of very many a subset, enlarged to compensate."""
    rows = mask.nonzero().squeeze(-1)
    few = fewer(scene, rows)
    sh = color_to_sh(torch.full((len(few.rows), 3), grey))
    return few._replace(scene=few.scene.replace(sh=sh))


def fewer(scene: GaussianScene, rows: Tensor, most: int = MOST) -> Drawn:
    """Of ``rows`` that are very many a subset, enlarged to compensate, with plain colours."""
    step = -(-len(rows) // most) or 1
    rows = rows[::step]
    log_scales, thin = scene.log_scales[rows], scene.log_scales[rows].argmin(-1, keepdim=True)
    wider = torch.full_like(log_scales, 0.5 * math.log(step)).scatter_(1, thin, 0.0)
    return Drawn(
        rows,
        GaussianScene(
            scene.means[rows], scene.quats[rows], log_scales + wider, scene.logits[rows],
            scene.sh[rows, :1], scene.ids[rows],
        ),
    )  # fmt: skip


def _moving(animation: Animation, frames: list[int], *parts: Drawn) -> AnimatedScene:
    """A few frames of them. The first is frame 0, which presence needs."""
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
    """Amount of white ``(F,)`` in pixels."""
    film = render_frames(scenes, cameras, backend="ewa", background=(0.0, 0.0, 0.0))
    return torch.stack([picture.color[..., 0].sum() for picture in film])


def _inside(means: Tensor, camera: Camera) -> float:
    """Fraction of the points in front of a camera and inside its picture."""
    (x, y), depth = camera.project(means)[0].unbind(-1), camera.project(means)[1]
    inside = (depth > 0) & (x >= 0) & (x <= camera.width) & (y >= 0) & (y <= camera.height)
    return float(inside.double().mean())
