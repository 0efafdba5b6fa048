"""Backgrounds under a sky: the park, the construction site, and space."""

import math

import numpy as np

from ..scene.gaussians import GaussianScene
from . import props
from .scenery import (
    Things,
    around,
    background,
    ball,
    floor,
    grid,
    hashed,
    shifted,
    stack,
    walls,
)
from .surfaces import Array, Color, dots, grain, mix, mottle

GREENS: tuple[Color, ...] = ((0.22, 0.50, 0.18), (0.30, 0.56, 0.18), (0.16, 0.42, 0.20))
STARS = 1350


def sunny_park() -> GaussianScene:
    """Short grass with daisies, a path, trees and hills under a blue sky with clouds and a sun."""

    def lawn(p: Array) -> Array:
        tone = 0.95 + 0.06 * np.sign(np.sin(p[:, 0] * 2.1))
        tone += 0.10 * mottle(p, size=0.5, seed=5) + 0.05 * grain(len(p), 1)
        path = np.abs(p[:, 2] - 6.2 - 0.9 * np.sin(0.4 * p[:, 0])) < 0.75
        grass = np.array((0.36, 0.62, 0.20)) * tone[:, None]
        return np.where(path[:, None], (0.84, 0.77, 0.62), grass)

    wood = []
    for i in range(15):
        near, tall = (float(hashed(np.array(i), seed=seed)) for seed in (0, 4))
        wood += around(
            props.tree(-11.8 - 1.2 * near, 4.2 + 1.8 * tall, GREENS[i % 3]), (24 * i + 5,)
        )
    hill = ball(0, -0.6, -16, (9, 3.4, 2.5), (0.47, 0.68, 0.42), spacing=1.3, glow=0.5)
    sun = ball(6, 9.2, -15, 0.9, (1.0, 0.93, 0.55), glow=1.0, spacing=0.4)
    return background(
        floor(lawn), _grass(), wood, around([hill], range(20, 360, 60)), [sun],
        around(props.cloud(), range(12, 360, 72)), around(props.bench(), (30, 210)),
    )  # fmt: skip


def _grass() -> Things:
    """Single blades and flowers."""
    rng = np.random.default_rng(9)
    x, z = rng.uniform(-3.6, 3.6, (2, 420))
    tone = rng.uniform(0.75, 1.25, (420, 1)) * np.array((0.38, 0.66, 0.22))
    blades = dots(np.stack([x, np.full(420, 0.05), z], -1), (0.014, 0.045, 0.014))
    u, v = rng.uniform(-5, 5, (2, 40))
    petals = np.where(rng.random((40, 1)) < 0.6, (0.99, 0.99, 0.94), (1.0, 0.85, 0.25))
    flowers = dots(np.stack([u, np.full(40, 0.09), v], -1), (0.05, 0.03, 0.05))
    return [
        blades.but(paint=lambda p: tone[: len(p)], glow=0.6),
        flowers.but(paint=lambda p: petals[: len(p)], glow=1.0),
    ]


def construction_floor() -> GaussianScene:
    """Concrete slabs with joints and stains, barriers, barrels, bricks, a scaffold."""

    def concrete(p: Array) -> Array:
        i, k = (np.floor(p[:, a] / 2.2) for a in (0, 2))
        tone = 0.93 + 0.10 * hashed(i, k) + 0.03 * grain(len(p), 5)
        tone += 0.07 * mottle(p, size=0.9, seed=12)
        return np.array((0.66, 0.65, 0.63)) * tone[:, None]

    def haze(p: Array) -> Array:
        return mix((0.78, 0.80, 0.80), (0.70, 0.81, 0.90), p[:, 1] / 5)

    barrier, barrel = props.barrier(), props.barrel()
    wall, pile, scaffold = props.brick_wall(), props.brick_pile(), props.scaffold()
    return background(
        floor(concrete, fine=0.18), grid(2.2, 3, (0.36, 0.35, 0.34)),
        walls(haze, spacing=1.25, half=14, high=9, glow=1.0),
        scaffold, barrier, shifted(barrel, -3.6), pile,
        around(wall + shifted(barrel, 4.2, 0.6), (90,)),
        around(scaffold + shifted(barrier, 2.4), (180,)),
        around(wall[1:] + barrier + pile, (270,)),
    )  # fmt: skip


def orbit_space() -> GaussianScene:
    """Stars on all sides, planets, nebulae, and a faint disc of dust at y = 0."""
    home = ball(0, 0, 0, 2.6, _earth, spacing=0.34)
    ringed = [
        ball(0, 0, 0, 1.3, _bands, spacing=0.26),
        stack(0, 0, 0, [(2.7, 0), (1.7, 0.001)], (0.86, 0.78, 0.62), spacing=0.26, opacity=0.75,
              glow=0.8),
    ]  # fmt: skip
    planets = [home.moved(at) for at in ((6.5, 3.0, -13), (-12, 3.5, 5.5), (13, 3, -1))]
    planets += [s.moved(at) for s in ringed for at in ((-6.5, 4.2, -13), (8, 5, 12))]
    return background(_stars(), _dust(), _nebulae(), planets)


def _stars() -> Things:
    rng = np.random.default_rng(4)
    d = rng.normal(size=(STARS, 3))
    d /= np.linalg.norm(d, axis=-1, keepdims=True)
    size = 0.018 + 0.05 * rng.random((STARS, 1)) ** 5
    tint = mix((0.72, 0.82, 1.0), (1.0, 0.93, 0.78), rng.random(STARS))
    tint *= 0.65 + 0.35 * rng.random((STARS, 1))
    return [dots(d * 18, np.tile(size, 3)).but(paint=lambda p: tint[: len(p)], glow=1.0)]


def _dust() -> Things:
    """A ring of haze and pebbles where other scenes have their floor."""

    def on_plane(n: int, low: float, high: float, seed: int) -> Array:
        rng = np.random.default_rng(seed)
        r, a = np.sqrt(rng.uniform(low**2, high**2, n)), 2 * math.pi * rng.random(n)
        return np.stack([r * np.cos(a), 0 * r, r * np.sin(a)], -1)

    def rings(p: Array) -> Array:
        wave = 0.5 + 0.5 * np.cos(2.6 * np.hypot(p[:, 0], p[:, 2]))
        return mix((0.20, 0.24, 0.42), (0.46, 0.48, 0.66), wave)

    haze = dots(on_plane(800, 0, 7, 1), (0.14, 0.01, 0.14)).but(paint=rings, opacity=0.32, glow=1.0)
    return [haze, dots(on_plane(160, 1, 9, 3), 0.022).but(paint=(0.70, 0.70, 0.78), glow=1.0)]


def _nebulae() -> Things:
    places = np.array([(-11, 3, -12), (12, 6, -9), (10, 2, 13), (-12, 5, 10)], dtype=float)
    tints = ((0.45, 0.25, 0.62), (0.20, 0.38, 0.66), (0.62, 0.28, 0.42), (0.22, 0.48, 0.52))
    spread = np.random.default_rng(6).normal(size=(4, 15, 3)) * (3.0, 1.4, 3.0)
    return [
        dots(place + puffs, 1.9).but(paint=tint, opacity=0.10, glow=1.0)
        for place, puffs, tint in zip(places, spread, tints, strict=True)
    ]


def _earth(p: Array) -> Array:
    land = mottle(p, size=1.6, seed=8) > 0.25
    clouds = mottle(p * (1, 2.2, 1), size=1.1, seed=21)
    ground = np.where(land[:, None], (0.24, 0.50, 0.24), (0.10, 0.32, 0.70))
    return mix(ground, (0.96, 0.97, 1.0), (clouds - 0.35) * 2.5)


def _bands(p: Array) -> Array:
    return mix((0.90, 0.74, 0.50), (0.72, 0.48, 0.30), 0.5 + 0.5 * np.sin(7 * p[:, 1]))
