"""Contact shadows: surfaces just below an object are darker.

The light of a capture is unknown, so these are shadows of the sky (ambient occlusion): a point of
the support sees less of it if the object is just above. The object is represented by points spread
over it. For an object of size ``L``, a point at a height ``h`` above the support covers a spot of
width ``(0.09 + 0.3 h / L) L`` with weight ``(1 - 2 h / L)^2``, and nothing above half its size. The
sum ``c`` of all spots leaves ``1 - 0.75 (1 - exp(-0.45 c))`` of the light.

Films and PLY frames darken the support's own Gaussians. Files that can only move Gaussians get a
decal: a sheet of dark ones just above the support, which follows the object and shrinks as it
rises.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from ..base.types import Array, Vec3
from .frames import FIRST, LATER
from .gaussians import GaussianScene
from .similarity import across
from .transform import rows_of

Affines: TypeAlias = Mapping[int, tuple[Tensor, Tensor]]  # by object: A (T, 3, 3), b (T, 3)
ShadowName: TypeAlias = Literal["none", "all", "new"]
"""``all`` shadows; only ``new`` ones, if a capture shows those of its frame 0; or none."""

POINTS = 96  # points that represent an object
CANDIDATES = 4000  # Gaussians that they are chosen from
HIGHEST = 0.5  # of the object's size: above that height it casts none
BLUR, SPREAD = 0.09, 0.3  # width of a spot over the size: at contact, and per height
WIDEST = 3.0  # widths at which a spot ends
STRENGTH, DENSITY = 0.75, 0.45
OVERHEAD = 0.1  # of the size: the support is darkened this far above a point of the object
BALL = 0.65  # diameter of a ball over sqrt(n) d, for n points spread over it
OPAQUE = 0.3  # fainter Gaussians cast none
NEIGHBOURS, LONELY = 8, 4.0  # a floater's 8th neighbour is 4 times as far as the median


class Caster(NamedTuple):
    """An object that casts a shadow."""

    points: Array
    """``(T, POINTS, 3)`` in all frames: along the two horizontal axes, then up."""
    size: float
    """Geometric mean of its largest extent and the diameter of a ball with the same surface."""


def casters(scene: GaussianScene, affines: Affines, up: Vec3) -> dict[int, Caster]:
    """All moving objects by id; a mean ``g`` moves to ``A_t g + b_t``."""
    axes = upright_axes(up)
    return {i: _caster(scene.plain[scene.ids == i], *Ab, axes) for i, Ab in affines.items()}


def upright_axes(up: Vec3) -> Tensor:
    """Rows: two horizontal directions, and up ``(3, 3)``, float64."""
    return torch.stack([*across(up), up.double()])


def _caster(thing: GaussianScene, A: Tensor, b: Tensor, axes: Tensor) -> Caster:
    opaque = thing.means[thing.opacities >= OPAQUE]
    means = (opaque if len(opaque) else thing.means).double().cpu().numpy()
    dense = _without_outliers(means[:: max(1, len(means) // CANDIDATES)])
    points = spread_points(dense, POINTS)
    moved = torch.from_numpy(points) @ A.mT.cpu() + b.unsqueeze(1).cpu()
    largest = float(np.ptp(dense, axis=0).max())
    return Caster((moved @ axes.T).numpy(), math.sqrt(_ball(points) * largest) or 1e-9)


def _ball(points: Array) -> float:
    """Diameter of the ball whose surface area is that over which the points are spread.

    The area is proportional to their number and the square of their mean nearest distance ``d``.
    """
    from scipy.spatial import cKDTree

    d = cKDTree(points).query(points, k=[min(2, len(points))])[0].mean()
    return BALL * math.sqrt(len(points)) * float(d)


def _without_outliers(x: Array) -> Array:
    """The points ``(N, 3)`` without isolated ones: floaters would be chosen first."""
    from scipy.spatial import cKDTree

    if len(x) <= NEIGHBOURS:
        return x
    gap = cKDTree(x).query(x, k=[NEIGHBOURS + 1])[0][:, 0]
    return x[gap <= LONELY * np.median(gap)]


def spread_points(x: Array, count: int) -> Array:
    """At most ``count`` of the points ``(N, 3)``, by farthest-point sampling."""
    chosen = np.empty(min(count, len(x)), int)
    chosen[0] = ((x - x.mean(0)) ** 2).sum(-1).argmax()
    nearest = np.full(len(x), np.inf)
    for k in range(1, len(chosen)):
        nearest = np.minimum(nearest, ((x - x[chosen[k - 1]]) ** 2).sum(-1))
        chosen[k] = nearest.argmax()
    return x[chosen]


# --- the support's own Gaussians -----------------------------------------------------------------


class ContactShadow:
    """Factors on the colours of Gaussians under the objects, frame by frame."""

    def __init__(
        self,
        scene: GaussianScene,
        affines: Affines,
        up: Vec3,
        *,
        kind: ShadowName,
        presence: Tensor | None = None,
    ) -> None:
        """For the objects moved by ``affines``; ``up`` is a unit vector ``(3,)``.

        ``presence (N,)`` says which Gaussians appear later: these never had a shadow.
        """
        casting = casters(scene, affines, up)
        if kind == "new":  # the shadow of what never moves is in the capture
            casting = {i: c for i, c in casting.items() if np.ptp(c.points, axis=0).any()}
        self.casters = list(casting.values())
        self.rows, self.at = receivers(scene, affines, self.casters, up, presence)
        self.wide = _variances(scene, self.rows)
        self.first = self._light(0) if kind == "new" else None
        if self.first is not None and presence is not None:
            self.first[(presence.cpu()[self.rows] == LATER).numpy()] = 1

    def __call__(self, t: int) -> tuple[Tensor, Tensor]:
        """Rows ``(n,)`` darkened in frame ``t``, and factors ``(n,)`` on their colours."""
        light = self._light(t)
        if self.first is not None:
            light = np.minimum(light / self.first, 1)
        dark = np.flatnonzero(light < 1)
        return self.rows[torch.from_numpy(dark)], torch.from_numpy(light[dark])

    def _light(self, t: int) -> Array:
        """Remaining light at every receiver ``(R,)``, float32."""
        from .shadow_kernel import add_cover  # numba takes a moment to import

        cover = np.zeros(len(self.at))
        for caster in self.casters:
            add_cover(self.at, self.wide, caster.points[t], caster.size, cover)
        return (1 - STRENGTH * (1 - np.exp(-DENSITY * cover))).astype(np.float32)


def receivers(
    scene: GaussianScene,
    affines: Affines,
    casting: Sequence[Caster],
    up: Vec3,
    presence: Tensor | None = None,
) -> tuple[Tensor, Array]:
    """Rows of still Gaussians on which shadows may fall, and their positions ``(R, 3)``.

    Gaussians shown only in frame 0 by ``presence (N,)`` are excluded.
    """
    near = torch.zeros(len(scene), dtype=torch.bool)
    at = scene.means.cpu().float() @ upright_axes(up).T.float()
    for caster in casting:
        low, high = reach(caster.points.min((0, 1)), caster.points.max((0, 1)), caster.size)
        near |= ((at >= torch.tensor(low)) & (at <= torch.tensor(high))).all(-1)
    for index in affines:
        near[rows_of(scene, index).cpu()] = False
    if presence is not None:
        near &= presence.cpu() != FIRST
    rows = near.nonzero().squeeze(-1)
    return rows, at[rows].double().numpy()


def _variances(scene: GaussianScene, rows: Tensor) -> Array:
    """Mean squared width ``(R,)`` of Gaussians along their two longer axes."""
    square = scene.log_scales[rows].double().cpu().mul(2).exp()
    return (0.5 * (square.sum(-1) - square.amin(-1))).numpy()


def reach(low: Array, high: Array, size: float) -> tuple[Array, Array]:
    """Corners ``(3,)`` of the box in which points between two corners cast shadows."""
    side = 2 * WIDEST * (BLUR + SPREAD * HIGHEST) * size
    below, above = HIGHEST * size, OVERHEAD * size
    return low - np.array([side, side, below]), high + np.array([side, side, above])
