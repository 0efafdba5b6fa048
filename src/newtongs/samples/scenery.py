"""Pieces of scenes: floors, walls and props. y is up, the floor is y = 0.

Things are modelled at the far side of the scene, facing +z, and moved to their place with
:func:`around`.
"""

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from ..scene.gaussians import GaussianScene
from .surfaces import (
    Array,
    Color,
    Discs,
    Paint,
    Surface,
    box,
    dots,
    ellipsoid,
    fill,
    frames_of,
    quad,
    revolve,
)

Things: TypeAlias = list[Surface]

BACKGROUND_GAUSSIANS = 3200
REACH = 11.5  # half the width of a scene: cameras on the paper's orbit stay inside it
WOOD: Color = (0.55, 0.36, 0.20)
STEEL: Color = (0.62, 0.64, 0.67)


def background(*groups: Things) -> GaussianScene:
    """The finished background of all its things."""
    return fill(BACKGROUND_GAUSSIANS, [s for group in groups for s in group], ambient=0.6)


def floor(
    paint: Paint,
    *,
    fine: float = 0.15,
    coarse: float = 0.75,
    outer: float = REACH,
    stretch: float = 1.0,
) -> Things:
    """A square floor, finely covered around the middle and coarsely towards its edge."""

    def sheet(x0: float, x1: float, z0: float, z1: float, spacing: float) -> Surface:
        corners = [(x0, 0.0, z1), (x1, 0.0, z1), (x1, 0.0, z0), (x0, 0.0, z0)]
        return quad(*corners, stretch=stretch).but(paint=paint, spacing=spacing, glow=0.5)

    i, o = 3.4, outer
    m = 0.5 * (i + min(o, 2.2 * i))
    # Smaller discs in the middle: those before an object's foot would reach over it.
    sheets = [sheet(-i, i, -i, i, fine).but(spread=0.92)]
    for low, high, spacing in ((i, m, 0.5 * (fine + coarse) * 0.75), (m, o, coarse)):
        if high - low > 1e-6:
            sheets += [
                sheet(-high, high, low, high, spacing),
                sheet(-high, high, -high, -low, spacing),
            ]
            sheets += [sheet(low, high, -low, low, spacing), sheet(-high, -low, -low, low, spacing)]
    return sheets


def walls(
    paint: Paint,
    *,
    low: float = 0.0,
    high: float = 8.0,
    half: float = REACH,
    spacing: float = 0.95,
    glow: float = 0.7,
) -> Things:
    """Four walls that face the middle."""
    wall = quad((-half, low, -half), (half, low, -half), (half, high, -half), (-half, high, -half))
    return around([wall.but(paint=paint, spacing=spacing, glow=glow)], range(0, 360, 90))


def around(things: Iterable[Surface], yaws: Iterable[float]) -> Things:
    """Copies of things turned about the middle of the scene."""
    kept = list(things)
    return [s.moved(yaw=yaw) for yaw in yaws for s in kept]


def block(
    center: Sequence[float],
    size: Sequence[float],
    paint: Paint,
    *,
    spacing: float = 0.3,
    bottom: bool = False,
) -> Things:
    """A box of one paint; its bottom is left out unless asked for."""
    faces = box(center, size)
    return [f.but(paint=paint, spacing=spacing, glow=0.0) for f in (faces if bottom else faces[:5])]


def panel(
    x: float,
    y: float,
    z: float,
    width: float,
    height: float,
    paint: Paint,
    *,
    spacing: float = 0.3,
    glow: float = 1.0,
) -> Surface:
    """An upright rectangle around (x, y) that faces +z."""
    w, h = width / 2, height / 2
    corners = [(x - w, y - h, z), (x + w, y - h, z), (x + w, y + h, z), (x - w, y + h, z)]
    return quad(*corners).but(paint=paint, spacing=spacing, glow=glow)


def stack(
    x: float,
    y: float,
    z: float,
    profile: Sequence[tuple[float, float]],
    paint: Paint,
    *,
    spacing: float = 0.22,
    opacity: float = 0.97,
    glow: float = 0.0,
) -> Surface:
    """A body of revolution at a place; heights count from ``y``."""
    return (
        revolve(profile)
        .but(paint=paint, spacing=spacing, opacity=opacity, glow=glow)
        .moved((x, y, z))
    )


def ball(
    x: float,
    y: float,
    z: float,
    radii: Sequence[float] | float,
    paint: Paint,
    *,
    spacing: float = 0.25,
    glow: float = 0.0,
    opacity: float = 0.97,
) -> Surface:
    """An ellipsoid at a place."""
    return ellipsoid((x, y, z), radii).but(paint=paint, spacing=spacing, glow=glow, opacity=opacity)


def pole(x: float, z: float, low: float, high: float, radius: float, paint: Paint) -> Surface:
    """An upright rod: a column of long Gaussians."""
    n = max(2, math.ceil((high - low) / max(3.5 * radius, 0.3)))
    y = low + (np.arange(n) + 0.5) / n * (high - low)
    means = np.stack([np.full(n, x), y, np.full(n, z)], axis=-1)
    sigma = (0.6 * radius, 0.55 * (high - low) / n, 0.6 * radius)
    return dots(means, sigma).but(paint=paint, glow=0.6)


def line(
    start: Sequence[float],
    end: Sequence[float],
    paint: Paint,
    *,
    width: float = 0.03,
    step: float = 0.5,
) -> Surface:
    """A thin straight stripe of long Gaussians."""
    a, b = np.asarray(start, dtype=float), np.asarray(end, dtype=float)
    length = float(np.linalg.norm(b - a))
    n = max(1, round(length / step))
    means = a + (np.arange(n)[:, None] + 0.5) / n * (b - a)
    normal = (0.0, 1.0, 0.0) if abs(b[1] - a[1]) < 0.5 * length else (0.0, 0.0, 1.0)
    frames = frames_of(np.tile(normal, (n, 1)), np.tile(b - a, (n, 1)))
    sigma = np.tile((0.6 * length / n, width, 0.3 * width), (n, 1))
    return Surface(-float(n), lambda k: Discs(means[:k], frames[:k], sigma[:k]), paint, glow=0.8)


def grid(size: float, half: int, paint: Paint, *, width: float = 0.03, step: float = 0.5) -> Things:
    """Lines on the floor around ``2 half`` by ``2 half`` squares."""
    reach, y = half * size, 0.006
    at = [k * size for k in range(-half, half + 1)]
    rows = [line((-reach, y, k), (reach, y, k), paint, width=width, step=step) for k in at]
    return rows + [line((k, y, -reach), (k, y, reach), paint, width=width, step=step) for k in at]


def hoop(radius: float, y: float, paint: Paint, *, width: float) -> Surface:
    """A circle of long Gaussians around the middle."""
    n = 90
    a = 2 * math.pi * np.arange(n) / n
    means = np.stack([radius * np.cos(a), np.full(n, y), radius * np.sin(a)], axis=-1)
    along = np.stack([-np.sin(a), 0 * a, np.cos(a)], axis=-1)
    frames = frames_of(np.tile((0.0, 1.0, 0.0), (n, 1)), along)
    sigma = np.tile((0.6 * 2 * math.pi * radius / n, width, 0.3 * width), (n, 1))
    return Surface(-float(n), lambda k: Discs(means[:k], frames[:k], sigma[:k]), paint, glow=0.8)


def shifted(things: Iterable[Surface], x: float, z: float = 0.0) -> Things:
    """Things moved along the floor."""
    return [s.moved((x, 0, z)) for s in things]


def hashed(*index: Array, seed: int = 0) -> Array:
    """A number in [0, 1) for every tuple of whole numbers: the same tile, the same number."""
    mixed = 17.3 * seed + sum(i * k for i, k in zip(index, (127.1, 311.7, 74.7), strict=False))
    return np.asarray(np.abs(np.sin(mixed) * 43758.5453) % 1)


def tile_of(p: Array, size: float, *, joint: float = 0.04) -> tuple[Array, Array, Array]:
    """Column, row and whether on the joint, of floor points on square tiles."""
    i, k = (np.floor(p[:, a] / size) for a in (0, 2))
    edge = np.minimum(*[np.abs(p[:, a] / size - np.round(p[:, a] / size)) for a in (0, 2)])
    return i, k, edge * size < joint
