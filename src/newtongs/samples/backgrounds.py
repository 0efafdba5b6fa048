"""The backgrounds of the ten scenes: rooms, the park, the construction site, and space."""

import math

import numpy as np

from ..scene.gaussians import GaussianScene
from . import props
from .props import LIQUIDS, framed, window
from .scenery import (
    REACH,
    WOOD,
    Things,
    around,
    background,
    ball,
    floor,
    grid,
    hashed,
    hoop,
    line,
    panel,
    shifted,
    stack,
    tile_of,
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


SIDES = (0, 90, 180, 270)


def along_wall(p: Array) -> Array:
    """Horizontal coordinate ``(n,)`` of points on one of the four walls."""
    return np.where(np.abs(p[:, 0]) > np.abs(p[:, 2]), p[:, 2], p[:, 0])


def living_room_table() -> GaussianScene:
    """Planks of a wooden table; windows, a sofa, plants and pictures around it."""
    down, far = -1.25, -REACH + 0.1  # the room's own floor; just before the wall

    def planks(p: Array) -> Array:
        board = p[:, 2] / 0.62
        tone = 0.80 + 0.30 * hashed(np.floor(board))
        tone += 0.07 * mottle(p * (0.35, 1, 3), size=0.6, seed=3)
        tone *= np.where(np.abs(board - np.round(board)) < 0.08, 0.55, 1)
        return np.array((0.66, 0.43, 0.24)) * tone[:, None]

    def warm(p: Array) -> Array:
        return mix((0.95, 0.77, 0.42), (0.82, 0.38, 0.30), p[:, 1] - 2.4)

    def cool(p: Array) -> Array:
        return mix((0.30, 0.52, 0.58), (0.90, 0.93, 0.88), p[:, 1] - 2.6)

    top = floor(planks, outer=5.2, coarse=0.3, stretch=3)
    edge = panel(0, -0.2, 5.2, 10.4, 0.4, (0.42, 0.26, 0.14), glow=0.3)
    couch = props.sofa(-9.4, (0.24, 0.47, 0.52), y=down)
    couch += props.potted_plant(-5.2, down, -9.6, scale=1.3) + props.floor_lamp(4.6, down, -9.2)
    art = framed(-2.6, 3.0, far, 1.8, 2.2, warm, WOOD) + framed(2.2, 3.1, far, 2.8, 1.8, cool, WOOD)
    view = window(-4.8, 3.2, far, 3.6, 3.6) + window(4.8, 3.2, far, 3.6, 3.6)
    wall = walls(lambda p: mix((0.93, 0.89, 0.81), (0.98, 0.95, 0.90), p[:, 1] / 6), low=down)
    return background(
        top, around([edge], SIDES), wall, couch, around(view, (0, 270)), around(couch, (90,)),
        around(art, (90, 180)), around(props.bookcase(down, -10.6), (180,)),
    )  # fmt: skip


def studio_tabletop() -> GaussianScene:
    """A pale round table in a pool of soft light, lamps and cameras around it."""

    def paper(p: Array) -> Array:
        r = np.hypot(p[:, 0], p[:, 2])
        table = mix((0.98, 0.97, 0.96), (0.80, 0.79, 0.81), (r / 4.6) ** 2)
        beyond = mix((0.56, 0.54, 0.59), (0.62, 0.60, 0.65), (r - 4.6) / 5)
        return np.where((r > 4.7)[:, None], beyond, table)

    def backdrop(p: Array) -> Array:
        return mix((0.66, 0.64, 0.69), (0.90, 0.89, 0.92), p[:, 1] / 5)

    return background(
        floor(paper, fine=0.16),
        [hoop(4.65, 0.01, (0.70, 0.68, 0.72), width=0.06)],
        walls(backdrop, spacing=0.8, glow=0.9),
        around(props.softbox(), (24, 114, 204, 294)),
        around(props.tripod(), (335, 65, 155, 245)),
    )


def kitchen_counter() -> GaussianScene:
    """A speckled counter before a warm tiled wall, with pots, jars and fruit."""
    pale, z = (0.99, 0.88, 0.74), -REACH + 0.25

    def stone(p: Array) -> Array:
        speck = grain(len(p), 2)
        tone = 0.93 + 0.04 * mottle(p, size=0.8, seed=2)
        tone += 0.09 * np.where(np.abs(speck) > 0.8, speck, 0)
        return np.array((0.90, 0.86, 0.80)) * tone[:, None]

    def tiles(p: Array) -> Array:
        row = np.floor(p[:, 1])
        tone = 0.90 + 0.18 * hashed(row, np.floor(along_wall(p) / 2 + 0.5 * (row % 2)))
        return np.array((0.91, 0.63, 0.41)) * tone[:, None]

    def upright(x: int, y: int) -> Things:
        return [line((x + y % 2, y, z), (x + y % 2, y + 1, z), pale, width=0.05, step=1)]

    joints = [line((-REACH, y, z), (REACH, y, z), pale, width=0.05, step=1.4) for y in range(5)]
    joints += [s for y in range(4) for x in range(-10, 10, 2) for s in upright(x, y)]
    shelf, fruit, jars = props.kitchen_shelf(), props.fruit_bowl(), props.jars()
    return background(
        floor(stone, fine=0.19, coarse=0.95),
        walls(tiles, spacing=0.85, high=6), around(joints, SIDES),
        props.cooking_pot(-2.4), jars, shelf,
        around(fruit + window(0, 3.6, -REACH + 0.1, 3.6, 3.0), (90,)),
        around(jars + shelf, (180,)), around(fruit + shelf, (270,)),
    )  # fmt: skip


def playroom_floor() -> GaussianScene:
    """Coloured foam tiles, building blocks, stacking rings, a ball, a bear and bunting."""
    foam = np.array(
        [(0.98, 0.83, 0.45), (0.55, 0.80, 0.72), (0.95, 0.62, 0.58), (0.55, 0.72, 0.90)]
    )

    def mat(p: Array) -> Array:
        i, k, joint = tile_of(p, 1.15, joint=0.06)
        return foam[(i + 2 * k).astype(int) % 4] * np.where(joint, 0.8, 1)[:, None]

    def wall(p: Array) -> Array:
        color = mix((0.98, 0.95, 0.86), (0.74, 0.88, 0.92), (p[:, 1] - 2.2) * 3)
        return np.where((np.abs(p[:, 1] - 2.4) < 0.35)[:, None], (0.97, 0.66, 0.50), color)

    flags = [
        panel(
            x, 6 - 0.35 * np.cos(x / 2.2), -REACH + 0.2, 0.7, 0.7, props.BOOKS[i % 5], spacing=0.4
        )
        for i, x in enumerate(np.linspace(-8, 8, 11))
    ]
    tower, rings, bear = props.block_tower(), props.stacking_rings(), props.teddy_bear()
    return background(
        floor(mat, fine=0.16), walls(wall, spacing=0.9), around(flags, SIDES),
        shifted(tower, -1.5), props.beach_ball(), around(bear, (38,)),
        around(rings + shifted(tower, 3.2), (90,)),
        around(shifted(bear, -2.2) + props.beach_ball(), (180,)),
        around(rings + props.beach_ball(), (270,)),
    )  # fmt: skip


def desk_blue_sphere() -> GaussianScene:
    """A grey desk with a screen, a keyboard, lamps, books and pencils."""

    def top(p: Array) -> Array:
        tone = 0.98 + 0.035 * mottle(p * (0.4, 1, 2), size=0.7, seed=6)
        return np.array((0.60, 0.61, 0.63)) * tone[:, None]

    wall = walls(lambda p: mix((0.80, 0.82, 0.85), (0.90, 0.92, 0.94), p[:, 1] / 6))
    view = window(3.5, 4.6, -REACH + 0.1, 4, 3)
    plant, cup, books = (
        props.potted_plant(-1.5, 0, -7, scale=0.9),
        props.pencil_cup(),
        props.book_pile(),
    )
    return background(
        floor(top, fine=0.18), wall, props.screen(), props.keyboard(), props.desk_lamp(), cup,
        around(books + cup + view, (90,)), around(props.desk_lamp() + books, (180,)),
        around(plant + cup + view, (270,)),
    )  # fmt: skip


def lab_table_cylinder() -> GaussianScene:
    """A clean white bench with flasks of coloured liquid, racks of tubes, microscopes."""

    def bench(p: Array) -> Array:
        tone = 0.985 + 0.015 * mottle(p, size=1.2, seed=3)
        return np.array((0.93, 0.95, 0.96)) * tone[:, None]

    def cabinets(p: Array) -> Array:
        door = along_wall(p) / 2.6
        seam = np.abs(door - np.round(door)) < 0.06
        low = np.where(seam[:, None], (0.62, 0.74, 0.76), (0.78, 0.88, 0.89))
        high = mix((0.93, 0.96, 0.97), (0.97, 0.98, 0.99), p[:, 1] / 8)
        return np.where((p[:, 1] < 2.4)[:, None], low, high)

    one, two = props.flask(-2.6, LIQUIDS[0]), props.beaker(-0.6, LIQUIDS[1])
    three, four = props.flask(1.5, LIQUIDS[2]), props.beaker(3.4, LIQUIDS[3])
    rack, microscope = props.tube_rack(), props.microscope()
    return background(
        floor(bench, fine=0.2), grid(1.5, 4, (0.66, 0.80, 0.84), width=0.02, step=0.6),
        walls(cabinets, spacing=0.85), one, two, three, four,
        around(rack + shifted(microscope, 3.4), (90,)),
        around(microscope + shifted(one + four, -0.6), (180,)),
        around(rack + props.flask(3.2, LIQUIDS[4]), (270,)),
    )  # fmt: skip


def display_orange_pyramid() -> GaussianScene:
    """A round stage with golden rings, a curtain behind it and a rope on posts."""

    def stage(p: Array) -> Array:
        r = np.hypot(p[:, 0], p[:, 2])
        disc = mix((0.96, 0.94, 0.91), (0.80, 0.78, 0.76), r / 4.6)
        beyond = mix((0.36, 0.35, 0.40), (0.26, 0.26, 0.32), (r - 4.6) / 6)
        return np.where((r > 4.7)[:, None], beyond, disc)

    def curtain(p: Array) -> Array:
        fold = 0.5 + 0.5 * np.cos(2.4 * along_wall(p))
        return mix((0.16, 0.22, 0.36), (0.30, 0.40, 0.60), fold)

    a = np.radians(np.linspace(0, 360, 168, endpoint=False))
    sag = 1.12 - 0.34 * np.abs(np.cos(4 * a)) ** 0.8
    rope = dots(np.stack([6.2 * np.sin(a), sag, -6.2 * np.cos(a)], -1), (0.11, 0.05, 0.11))
    rings = [hoop(4.65, 0.01, props.GOLD, width=0.07), hoop(2.4, 0.01, props.GOLD, width=0.03)]
    return background(
        floor(stage, fine=0.16), rings, [rope.but(paint=(0.70, 0.14, 0.20), glow=0.6)],
        walls(curtain, spacing=0.62, high=6.5, glow=0.9),
        around(props.rope_post(), np.arange(22.5, 360, 45)),
        around(props.spotlight(), range(20, 380, 40)),
    )  # fmt: skip
