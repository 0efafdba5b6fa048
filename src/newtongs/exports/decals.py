"""Contact shadows for files that can only move Gaussians: a sheet of dark ones under each object.

It lies just above the support, follows the object and its heading, and shrinks as the object rises.
It consists of many small Gaussians, because a few large ones would be sorted wrongly relative to
those of the support.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..base import rotations
from ..base.state import State
from ..base.types import Array, Quat, StateTensor, Vec3
from ..scene.animation import Animation, NodeTrack, continuous
from ..scene.gaussians import BACKGROUND, GaussianScene
from ..scene.shadows import (
    DENSITY,
    HIGHEST,
    OVERHEAD,
    STRENGTH,
    Caster,
    casters,
    reach,
    receivers,
    upright_axes,
)  # fmt: skip
from ..scene.similarity import VISIBLE, moved

SIGMA, APART = 0.015, 1.3  # of the object's size: Gaussians of a decal; of that: their spacing
RISEN = 0.3  # of the size: height at which it vanishes; it cannot fade, only shrink
LIFTED = 0.02  # of the size: height of a decal above the support
FLATNESS = 0.05  # thickness of its Gaussians over their width
FAINTEST = 1 / 255  # fainter Gaussians are drawn by no viewer
MOST_GAUSSIANS = 4000  # most Gaussians in a decal
AWAY = 0.5  # of the size: displacement from which the whole shadow is new
UNDER = 0.25  # of the size: the support's height is measured this close to the object's centre
GONE = 0.02  # least scale, of an invisible decal, which is put below the support
SWUNG = 0.1  # below this, an object is so nearly upside down that its heading is undefined


class Decal(NamedTuple):
    """A shadow that moves like an object."""

    scene: GaussianScene
    """Dark Gaussians at their positions in frame 0, at full size."""
    node_track: NodeTrack
    """How they move."""


def decals(animation: Animation) -> dict[int, Decal]:
    """The shadow of each moving object that ever comes near its support, by id."""
    if animation.shadow == "none":
        return {}
    affines = {i: animation.affines(i) for i in animation.states}
    found = casters(animation.scene, affines, animation.world.up)
    support = _Support(animation, found)
    made = {i: _decal(animation, i, caster, support) for i, caster in found.items()}
    return {i: decal for i, decal in made.items() if decal is not None}


class _Support:
    """The static Gaussians that may receive shadows, and their height at any point."""

    def __init__(self, animation: Animation, casting: dict[int, Caster]) -> None:
        from scipy.spatial import cKDTree

        affines = {i: animation.affines(i) for i in animation.states}
        scene, up = animation.scene, animation.world.up
        rows, at = receivers(scene, affines, list(casting.values()), up, animation.presence)
        opaque = (animation.scene.opacities.cpu()[rows] >= VISIBLE).numpy()
        self.at = at[opaque]
        self.tree = cKDTree(self.at[:, :2])

    def below(self, points: Array, size: float) -> float:
        """Height of the support under an object's ``points (P, 3)``; ``-inf`` without one."""
        middle = 0.5 * (points[:, :2].min(0) + points[:, :2].max(0))
        near = self.at[self.tree.query_ball_point(middle, UNDER * size), 2]
        low = points[:, 2].min()
        near = near[(near < low + OVERHEAD * size) & (near > low - HIGHEST * size)]
        return float(np.quantile(near, 0.9)) if len(near) else -math.inf


def _decal(animation: Animation, index: int, caster: Caster, support: _Support) -> Decal | None:
    """An object's decal; None if nothing is ever just below it."""
    grounds = np.array([support.below(points, caster.size) for points in caster.points])
    middles = 0.5 * (caster.points.min(1) + caster.points.max(1))
    heights = np.maximum(caster.points[..., 2].min(1) - grounds, 0)
    scale = np.clip(1 - heights / (RISEN * caster.size), 0, 1)
    if animation.shadow == "new":
        way = np.linalg.norm(middles - middles[0], axis=-1)
        scale *= np.clip(way / (AWAY * caster.size), 0, 1)
    if not (scale > GONE).any():
        return None
    best = int(np.flatnonzero(scale >= scale.max())[-1])  # the last frame on the ground
    places = _on_ground(middles, grounds, caster.size, scale > GONE)
    axes = upright_axes(animation.world.up)
    flat = rotations.conjugate(animation.world.rotation)
    sheet = _sheet(caster, best, places[best], axes, flat)
    p, q = torch.from_numpy(places) @ axes, _headings(animation.states[index], animation.world.up)
    s = torch.from_numpy(np.maximum(scale, GONE))[:, None].expand(-1, 3)
    back = rotations.conjugate(q[best])  # q[0] is the identity
    at_first = moved(sheet, turn=back, shift=p[0] - rotations.rotate(back, p[best]))
    return Decal(at_first, NodeTrack(p, q, s, rotations.conjugate(q[0]), -p[0]))


def _on_ground(middles: Array, grounds: Array, size: float, shown: Array) -> Array:
    """Centre of the decal in each frame ``(T, 3)``: below the support if it is not shown."""
    known = np.where(np.isfinite(grounds), grounds, middles[:, 2] - 2 * size)
    heights = known + np.where(shown, LIFTED, -HIGHEST) * size
    return np.concatenate([middles[:, :2], heights[:, None]], -1)


def _sheet(caster: Caster, frame: int, place: Array, axes: Tensor, flat: Quat) -> GaussianScene:
    """Dark Gaussians in a flat grid under the object in one frame."""
    from ..scene.shadow_kernel import add_cover  # numba takes a moment to import

    size, points = caster.size, caster.points[frame]
    step = APART * SIGMA * size
    low, high = reach(points.min(0), points.max(0), size)
    step = max(step, math.sqrt(float(np.prod((high - low)[:2])) / MOST_GAUSSIANS))
    x, y = (np.arange(a, b, step) for a, b in zip(low[:2], high[:2], strict=True))
    at = np.stack([*(g.ravel() for g in np.meshgrid(x, y)), np.full(len(x) * len(y), place[2])], -1)
    cover = np.zeros(len(at))
    none = np.zeros(len(at))
    add_cover(at - [0, 0, LIFTED * size], none, points, size, cover)
    depth = -np.log(1 - STRENGTH * (1 - np.exp(-DENSITY * cover)))  # optical depth of the sheet
    opacity = 1 - np.exp(-depth * APART**2 / (2 * math.pi))
    kept = opacity > FAINTEST
    n = int(kept.sum())
    sigma = step / APART
    return GaussianScene.make(
        means=(torch.from_numpy(at[kept]) @ axes).float(),
        scales=torch.tensor([sigma, FLATNESS * sigma, sigma]).expand(n, 3),
        quats=flat.float().expand(n, 4),
        opacities=torch.from_numpy(opacity[kept]).float(),
        colors=torch.zeros(n, 3),
        ids=BACKGROUND,
    )


def _headings(z: StateTensor, up: Vec3) -> Quat:
    """Rotations about ``up`` ``(T, 4)`` that follow an object's rotation since the start."""
    q = rotations.normalize(State(z.double()).q)
    since = rotations.multiply(q, rotations.conjugate(q[:1]).expand_as(q))
    twist = torch.stack([since[:, 0], since[:, 1:] @ up.to(q)], -1)
    length = torch.linalg.vector_norm(twist, dim=-1)
    sure = (length > SWUNG).nonzero().squeeze(-1)
    last = torch.searchsorted(sure, torch.arange(len(q)), right=True).sub(1).clamp_min(0)
    twist = (twist / length.clamp_min(1e-9)[:, None])[sure[last]]
    return continuous(torch.cat([twist[:, :1], twist[:, 1:] * up.to(q)], -1))
