"""Shapes as flat Gaussians: evenly spread discs on surfaces, painted and shaded.

A :class:`Surface` knows its area and how to spread ``n`` discs over itself; :func:`fill` divides a
fixed number of Gaussians among surfaces. Everything is deterministic: golden-angle spirals on
bodies of revolution, rows on quadrilaterals, seeded generators where chance is wanted.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch

from ..base import rotations
from ..scene.gaussians import GaussianScene

Array = np.ndarray
Color = tuple[float, float, float]
Paint = Color | Callable[[Array], Array]
"""A colour, or points ``(n, 3)`` to colours ``(n, 3)``."""
Point = Sequence[float]

GOLDEN = (math.sqrt(5) - 1) / 2
OVERLAP = 0.62  # standard deviation of a disc over the distance to its neighbour: no holes
THICKNESS = 0.12  # of a disc, over its standard deviation within the surface
LIGHT = np.array([0.42, 0.78, 0.47]) / np.linalg.norm([0.42, 0.78, 0.47])


@dataclass(frozen=True)
class Discs:
    """``n`` flat Gaussians."""

    means: Array
    """Centres ``(n, 3)``."""
    frames: Array
    """Rotations ``(n, 3, 3)`` whose columns are two tangents and the normal."""
    sigmas: Array
    """Standard deviations ``(n, 3)`` along those columns."""

    def __len__(self) -> int:
        return len(self.means)

    @property
    def normals(self) -> Array:
        """Outward unit normals ``(n, 3)``."""
        return self.frames[..., 2]


@dataclass(frozen=True)
class Surface:
    """Something that ``n`` discs can be spread over, and how it looks."""

    area: float
    """Or, negative, a fixed number of discs."""
    sample: Callable[[int], Discs]
    paint: Paint = (0.5, 0.5, 0.5)
    opacity: float = 0.97
    spacing: float = 1.0
    """Distance between discs relative to the other surfaces of the same :func:`fill`."""
    spread: float = 1.0
    """Factor on the discs' size within the surface."""
    glow: float = 0.0
    """0: shaded by the light; 1: shows its own colour."""
    gloss: float = 0.0
    """Strength of the highlight where the light is mirrored upwards."""

    def but(self, **changed: object) -> "Surface":
        """A copy that looks different."""
        return replace(self, **changed)  # type: ignore[arg-type]

    def moved(self, by: Point = (0, 0, 0), *, yaw: float = 0, scale: float = 1) -> "Surface":
        """Scaled, turned about y by ``yaw`` degrees, then shifted; paint keeps its own coordinates.

        So a prop can be painted where it was modelled and placed afterwards.
        """
        c, s = math.cos(math.radians(yaw)), math.sin(math.radians(yaw))
        turn = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])

        def sample(n: int) -> Discs:
            d = self.sample(n)
            means = scale * d.means @ turn.T + np.asarray(by)
            return Discs(means, turn @ d.frames, scale * d.sigmas)

        paint = self.paint
        if callable(paint):
            own = paint

            def paint(x: Array) -> Array:
                return own((x - np.asarray(by)) @ turn / scale)

        area = self.area * (scale**2 if self.area > 0 else 1)  # a fixed number stays
        return replace(self, area=area, sample=sample, paint=paint)


def frames_of(normals: Array, along: Array | None = None) -> Array:
    """Right-handed frames with the given normals; the first tangent leans towards ``along``."""
    n = normals / np.linalg.norm(normals, axis=-1, keepdims=True)
    if along is None:
        along = np.where(np.abs(n[:, 1:2]) < 0.9, [[0.0, 1.0, 0.0]], [[1.0, 0.0, 0.0]])
    t = along - (along * n).sum(-1, keepdims=True) * n
    t = t / np.linalg.norm(t, axis=-1, keepdims=True)
    return np.stack([t, np.cross(n, t), n], axis=-1)


def round_discs(means: Array, normals: Array, sigma: Array | float) -> Discs:
    """Discs that are circles in their surface."""
    s = np.broadcast_to(np.asarray(sigma, dtype=float), (len(means),))
    return Discs(means, frames_of(normals), np.stack([s, s, THICKNESS * s], axis=-1))


def revolve(profile: Sequence[tuple[float, float]]) -> Surface:
    """A polyline of (radius, height) turned about y, covered by rings of discs.

    Go up the outside for outward normals: from the middle of the bottom to that of the top.
    """
    r, y = _refined(np.array(profile, dtype=float))
    step = np.hypot(np.diff(r), np.diff(y))
    length = np.concatenate([[0], np.cumsum(step)])
    area = float((math.pi * step * (r[1:] + r[:-1])).sum())

    def sample(n: int) -> Discs:
        rings = max(1, round(length[-1] * math.sqrt(n / area)))
        at = (np.arange(rings) + 0.5) / rings * length[-1]
        k = (np.searchsorted(length, at) - 1).clip(0, len(step) - 1)
        radius, height = np.interp(at, length, r), np.interp(at, length, y)
        ring, place, count = _in_rows(radius + 1e-9, n)
        # Neighbouring rings are turned against each other, so that no seam shows.
        angle = 2 * math.pi * (place / count + GOLDEN * ring)
        c, s, k = np.cos(angle), np.sin(angle), k[ring]
        out, up = np.diff(y)[k] / step[k], -np.diff(r)[k] / step[k]
        means = np.stack([radius[ring] * c, height[ring], radius[ring] * s], axis=-1)
        normals = np.stack([out * c, up, out * s], axis=-1)
        around = np.maximum(2 * math.pi * radius[ring] / count, length[-1] / rings / 2)
        sigma = OVERLAP * np.stack([around, np.full(n, length[-1] / rings)], axis=-1)
        sigma = np.concatenate([sigma, THICKNESS * sigma.min(-1, keepdims=True)], axis=-1)
        return Discs(means, frames_of(normals, np.stack([-s, 0 * s, c], axis=-1)), sigma)

    return Surface(area, sample)


def _in_rows(widths: Array, n: int) -> tuple[Array, Array, Array]:
    """``n`` discs over rows of given widths: row, place in it, discs in it, each ``(n,)``."""
    counts = np.diff(np.round(np.concatenate([[0], np.cumsum(widths)]) / widths.sum() * n))
    counts = counts.astype(int)
    row = np.repeat(np.arange(len(widths)), counts)
    place = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
    return row, place, counts[row]


def _refined(profile: Array, steps: int = 40) -> tuple[Array, Array]:
    """A polyline with every segment cut into ``steps``."""
    t = np.linspace(0, 1, steps, endpoint=False)[:, None]
    parts = [a + t * (b - a) for a, b in pairwise(profile)]
    fine = np.concatenate([*parts, profile[-1:]])
    keep = np.concatenate([[True], np.abs(np.diff(fine, axis=0)).sum(-1) > 1e-9])
    return fine[keep, 0], fine[keep, 1]


def cylinder(radius: float, low: float, high: float) -> Surface:
    """A closed cylinder about y."""
    return revolve([(0, low), (radius, low), (radius, high), (0, high)])


def ellipsoid(center: Point, radii: Point | float) -> Surface:
    """A closed ellipsoid."""
    a, b, c = np.broadcast_to(np.asarray(radii, dtype=float), (3,))
    mean = ((a * b) ** 1.6 + (a * c) ** 1.6 + (b * c) ** 1.6) / 3
    area = 4 * math.pi * mean ** (1 / 1.6)  # Thomsen's formula

    def sample(n: int) -> Discs:
        height = 1 - (2 * np.arange(n) + 1) / n
        angle, flat = 2 * math.pi * GOLDEN * np.arange(n), np.sqrt(1 - height**2)
        unit = np.stack([flat * np.cos(angle), height, flat * np.sin(angle)], axis=-1)
        normals = unit / np.array([a, b, c])
        means = np.asarray(center) + unit * np.array([a, b, c])
        return round_discs(means, normals, OVERLAP * math.sqrt(area / n))

    return Surface(area, sample)


def quad(a: Point, b: Point, c: Point, d: Point, *, stretch: float = 1.0) -> Surface:
    """A quadrilateral by its corners in order; the normal is that of a, b, c anticlockwise.

    Discs stand in rows from side ab to side dc, each row with as many as its length deserves, so
    that they end where the quadrilateral ends; ``d = c`` makes a triangle. ``stretch`` makes them
    longer along the rows and the rows as much closer.
    """
    corners = [np.asarray(x, dtype=float) for x in (a, b, c, d)]
    p, q, r, s = corners
    normal = np.cross(q - p, r - p) + np.cross(r - p, s - p)
    area = float(np.linalg.norm(normal)) / 2
    height = float(np.linalg.norm((r + s) - (p + q))) / 2

    def sample(n: int) -> Discs:
        rows = max(1, round(math.sqrt(n / area * stretch) * height))
        v = (np.arange(rows) + 0.5) / rows
        left, right = (x + v[:, None] * (y - x) for x, y in ((p, s), (q, r)))
        width = np.linalg.norm(right - left, axis=-1)
        row, place, count = _in_rows(width, n)
        u = (place + 0.5) / count
        means = left[row] + u[:, None] * (right - left)[row]
        frames = frames_of(
            np.broadcast_to(normal, (n, 3)), np.broadcast_to(right[-1] - left[-1] + q - p, (n, 3))
        )
        su, sv = width[row] / count, np.full(n, height / rows)
        sigma = OVERLAP * np.stack([su, sv, THICKNESS * np.minimum(su, sv)], axis=-1)
        return Discs(means, frames, sigma)

    return Surface(area, sample)


def box(center: Point, size: Point, *, taper: float = 1.0) -> list[Surface]:
    """Six quadrilaterals: front (+z), right, back, left, top, bottom.

    ``taper`` shrinks the top face.
    """
    x, y, z = (0.5 * s for s in size)
    low = [(x, z), (x, -z), (-x, -z), (-x, z)]
    base = [np.add(center, (i, -y, k)) for i, k in low]
    top = [np.add(center, (i * taper, y, k * taper)) for i, k in low]
    faces = [(base[i], base[(i + 1) % 4], top[(i + 1) % 4], top[i]) for i in (3, 0, 1, 2)]
    faces += [(top[3], top[0], top[1], top[2]), (base[2], base[1], base[0], base[3])]
    return [quad(*f) for f in faces]  # type: ignore[arg-type]


def tube(path: Array, radius: float) -> Surface:
    """A round tube along points ``(k, 3)`` of one z."""
    step = np.linalg.norm(np.diff(path, axis=0), axis=-1)
    length = np.concatenate([[0], np.cumsum(step)])
    area = float(length[-1]) * 2 * math.pi * radius

    def sample(n: int) -> Discs:
        at = (np.arange(n) + 0.5) / n * length[-1]
        middle = np.stack([np.interp(at, length, path[:, i]) for i in range(3)], axis=-1)
        k = (np.searchsorted(length, at) - 1).clip(0, len(step) - 1)
        along = np.diff(path, axis=0)[k]
        across = np.broadcast_to((0.0, 0.0, 1.0), along.shape)
        third = np.cross(along, across) / np.linalg.norm(along, axis=-1, keepdims=True)
        angle = 2 * math.pi * np.arange(n)[:, None] * GOLDEN
        normals = np.cos(angle) * across + np.sin(angle) * third
        return round_discs(middle + radius * normals, normals, OVERLAP * math.sqrt(area / n))

    return Surface(area, sample)


def dots(means: Array, sigmas: Array | Point | float) -> Surface:
    """Given points as Gaussians along the axes; ``sigmas`` broadcasts to ``(k, 3)``.

    They always are as many as they are: :func:`fill` gives them their number first.
    """
    s = np.broadcast_to(np.asarray(sigmas, dtype=float), means.shape)
    frames = np.broadcast_to(np.eye(3), (len(means), 3, 3))
    return Surface(-float(len(means)), lambda n: Discs(means[:n], frames[:n], s[:n]))


def fill(total: int, surfaces: Sequence[Surface], *, ambient: float = 0.5) -> GaussianScene:
    """Exactly ``total`` Gaussians over the surfaces, in proportion to area / spacing^2."""
    counts = share(total, surfaces)
    parts = [(s, s.sample(n)) for s, n in zip(surfaces, counts, strict=True) if n]
    colors = np.concatenate([shaded(s, d, ambient) for s, d in parts])
    opacity = np.concatenate([np.full(len(d), s.opacity) for s, d in parts])
    frames = torch.from_numpy(np.concatenate([d.frames for _, d in parts]))
    return GaussianScene.make(
        means=_float(np.concatenate([d.means for _, d in parts])),
        scales=_float(np.concatenate([s.spread * d.sigmas for s, d in parts])),
        quats=rotations.from_matrix(frames).float(),
        opacities=_float(opacity),
        colors=_float(colors),
    )


def share(total: int, surfaces: Sequence[Surface]) -> list[int]:
    """How many Gaussians each surface gets; fixed numbers first, largest remainders last."""
    fixed = np.array([max(0.0, -s.area) for s in surfaces])
    wish = np.array([max(0.0, s.area) / s.spacing**2 for s in surfaces])
    exact = fixed + wish / wish.sum() * (total - fixed.sum())
    counts = np.floor(exact + 1e-9).astype(int)
    order = np.argsort(counts - exact, kind="stable")
    counts[order[: total - counts.sum()]] += 1
    return [int(n) for n in counts]


def shaded(surface: Surface, discs: Discs, ambient: float) -> Array:
    """Colours ``(n, 3)`` in [0, 1]: paint, a soft Lambert term, and a highlight."""
    paint = surface.paint
    base = paint(discs.means) if callable(paint) else np.tile(paint, (len(discs), 1))
    facing = discs.normals @ LIGHT
    diffuse = ambient + (1 - ambient) * (0.5 + 0.5 * facing) ** 1.5 * 1.25
    lit = surface.glow + (1 - surface.glow) * diffuse
    shine = surface.gloss * np.clip(facing, 0, 1) ** 24
    return np.clip(base * lit[:, None] + shine[:, None], 0, 1)


def mix(a: Array | Color, b: Array | Color, t: Array) -> Array:
    """Colours from ``a`` to ``b``, ``t`` (n,) clipped to [0, 1]."""
    t = np.clip(t, 0, 1)[:, None]
    return np.asarray(a) * (1 - t) + np.asarray(b) * t


def mottle(x: Array, *, size: float, seed: int = 0) -> Array:
    """Smooth noise ``(n,)`` around 0, about within [-1, 1], that varies over ``size``."""
    rng, waves = np.random.default_rng(seed), 12
    k = rng.normal(size=(3, waves)) / size * 2
    return np.cos(x @ k + rng.uniform(0, 2 * math.pi, waves)).sum(-1) / math.sqrt(waves) / 1.4


def grain(n: int, seed: int = 0) -> Array:
    """Independent numbers ``(n,)`` in [-1, 1], the same at every call."""
    return np.random.default_rng(seed).uniform(-1, 1, n)


def _float(x: Array) -> torch.Tensor:
    return torch.from_numpy(x).float()
