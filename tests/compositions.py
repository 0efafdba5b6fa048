"""Harder scenes, composed of our own templates and of captures, with what is true of them.

All stand upright on y = 0 as they are made; :func:`posed` turns, enlarges and shifts them. They
hold what real captures hold: several objects, specks, fog, walls and ceilings, plinths, sparse
lawns, furniture with large flat parts. Rules were made for ``RECIPES``. ``HELD_BACK`` were only
run: one that leads to a rule moves up.
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import torch

from newtongs.base import rotations
from newtongs.formats.files import load
from newtongs.samples import named_scene, template
from newtongs.scene.gaussians import GaussianScene, join
from newtongs.scene.similarity import extent, moved

BESIDE = Path(__file__).resolve().parent.parent.parent / "shared" / "assets"
ASSETS = Path(os.environ.get("NEWTONGS_CAPTURES", BESIDE))
Y = (0.0, 1.0, 0.0)
WOOD, GRASS, STONE, PLASTER = (
    (0.55, 0.4, 0.25),
    (0.25, 0.5, 0.2),
    (0.6, 0.6, 0.58),
    (0.85, 0.8, 0.75),
)


@dataclass(frozen=True, eq=False)
class Composed:
    """A scene and the truth about it."""

    scene: GaussianScene
    size: float = 0.9
    """Of the object that is thrown: its height, scene units."""
    up: torch.Tensor | None = None
    """True up ``(3,)``; None for +y."""
    floors: tuple[float, ...] = (0.0,)
    """Heights above ``at`` that are right answers. A table's top and the floor below are both."""
    at: torch.Tensor = field(default_factory=lambda: torch.zeros(3))
    """Below the object, from where heights are measured ``(3,)``."""
    alone: bool = False
    """Whether there is no floor: it lies under the lowest point, and up may be doubted."""
    objects: tuple[tuple[int, ...], ...] = ((0,),)
    """Right answers for the best cluster: ids that it holds together; none if any will do."""


Recipe = Callable[[torch.Generator], Composed]


# --- materials --------------------------------------------------------------------------------


def sheet(corner, a, b, n, random, *, color, sigma=None, rough=0.0, round_=False, **more):
    """``n`` Gaussians on the parallelogram from ``corner`` along ``a`` and ``b``, flat or round."""
    corner, a, b = (torch.tensor(x, dtype=torch.float32) for x in (corner, a, b))
    u, v = torch.rand(2, n, 1, generator=random)
    normal = torch.nn.functional.normalize(torch.linalg.cross(a, b), dim=0)
    means = corner + u * a + v * b + rough * torch.randn(n, 1, generator=random) * normal
    sigma = sigma or 0.7 * math.sqrt(float(a.norm() * b.norm()) / n)
    frame = torch.stack([a / a.norm(), torch.linalg.cross(normal, a / a.norm()), normal], -1)
    thin = sigma if round_ else 0.1 * sigma
    shade = torch.tensor(color) + 0.05 * torch.randn(n, 1, generator=random)
    return GaussianScene.make(
        means=means,
        scales=torch.tensor([sigma, sigma, thin]).expand(n, 3),
        quats=rotations.from_matrix(frame).expand(n, 4),
        colors=shade.clamp(0, 1),
        **more,
    )


def ground(half, n, random, *, color=WOOD, y=0.0, **more):
    """A square floor ``2 half`` wide."""
    return sheet(
        (-half, y, -half), (0, 0, 2 * half), (2 * half, 0, 0), n, random, color=color, **more
    )


def box(low, high, n, random, *, color, open_below=True, **more):
    """The sides of a box as a capture shows them: seen from all sides but from below."""
    (x, y, z), (X, Yt, Z) = low, high
    w, h, d = X - x, Yt - y, Z - z
    faces = [
        ((x, y, z), (w, 0, 0), (0, h, 0)), ((x, y, Z), (w, 0, 0), (0, h, 0)),
        ((x, y, z), (0, 0, d), (0, h, 0)), ((X, y, z), (0, 0, d), (0, h, 0)),
        ((x, Yt, z), (0, 0, d), (w, 0, 0)),
    ]  # fmt: skip
    faces += [] if open_below else [((x, y, z), (w, 0, 0), (0, 0, d))]
    areas = [math.dist((0, 0, 0), a) * math.dist((0, 0, 0), b) for _, a, b in faces]
    counts = [max(int(n * each / sum(areas)), 4) for each in areas]
    return join(*[
        sheet(*face, count, random, color=color, **more)
        for face, count in zip(faces, counts, strict=True)
    ])  # fmt: skip


def specks(n, reach, random, *, low=-1.0):
    """Floaters everywhere around, and ``low`` of the reach below the floor too."""
    x = 2 * torch.rand(n, 3, generator=random) - 1
    x[:, 1] = low + (1 - low) * torch.rand(n, generator=random)
    return GaussianScene.make(
        means=reach * x,
        scales=0.01 * reach * torch.rand(n, 3, generator=random),
        colors=torch.rand(n, 3, generator=random),
        opacities=torch.rand(n, generator=random),
    )


def fog(n, reach, random, *, opacity=0.15):
    """Large faint Gaussians all over the place, some of them opaque."""
    x = torch.randn(n, 3, generator=random) * reach * torch.tensor([1.0, 0.5, 1.0])
    x[:, 1] = x[:, 1].abs()
    return GaussianScene.make(
        means=x,
        scales=0.15 * reach * (0.3 + torch.rand(n, 3, generator=random)),
        colors=torch.full((n, 3), 0.8),
        opacities=(opacity * 2 * torch.rand(n, generator=random)).clamp(0, 0.6),
    )


def sky(radius, n, random):
    """A dome of huge Gaussians far away."""
    d = torch.nn.functional.normalize(torch.randn(n, 3, generator=random), dim=-1)
    d[:, 1] = d[:, 1].abs()
    return GaussianScene.make(
        means=radius * d,
        scales=torch.full((n,), 0.1 * radius),
        colors=torch.tensor([0.6, 0.75, 0.95]).expand(n, 3),
    )


def room(half, height, n, random, *, sides=4, ceiling=True, furniture=()):
    """Floor, walls and a ceiling."""
    w = 2 * half
    up = (0, height, 0)
    walls = [
        ((-half, 0, -half), (w, 0, 0), up), ((-half, 0, -half), (0, 0, w), up),
        ((half, 0, -half), (0, 0, w), up), ((-half, 0, half), (w, 0, 0), up),
    ][:sides]  # fmt: skip
    parts = [ground(half, n, random)]
    parts += [sheet(*wall, n // 2, random, color=PLASTER) for wall in walls]
    if ceiling:
        parts.append(ground(half, n, random, color=PLASTER, y=height))
    return join(*parts, *furniture)


# --- objects ----------------------------------------------------------------------------------


def thing(name, at=(0.0, 0.0), *, height=0.9, y=0.0, turn=0.0, id_=0, dense=1):
    """A template's object standing at ``at`` (x, z); ``dense`` copies it with a little noise."""
    made = template(name).object
    made = join(*[made] * dense)
    if dense > 1:
        random = torch.Generator().manual_seed(dense)
        shaken = made.means + 0.004 * torch.randn(made.means.shape, generator=random)
        made = made.replace(means=shaken, log_scales=made.log_scales - 0.5 * math.log(dense))
    q = (
        rotations.from_axis_angle(torch.tensor([0.0, turn, 0.0]), torch.tensor(turn))
        if turn
        else None
    )
    placed = moved(made, turn=q, scale=height, shift=torch.tensor([at[0], y + 0.5 * height, at[1]]))
    return placed.replace(ids=torch.full_like(placed.ids, id_))


def chair(random, *, id_=0, n=4000, back=0.75):
    """Four legs, a seat, and a large flat backrest."""
    c = {"color": (0.4, 0.2, 0.1), "ids": id_, "open_below": False}
    legs = [
        box((x, 0, z), (x + 0.05, 0.45, z + 0.05), n // 20, random, **c)
        for x in (-0.3, 0.25) for z in (-0.3, 0.25)
    ]  # fmt: skip
    seat = box((-0.3, 0.45, -0.3), (0.3, 0.5, 0.3), n // 5, random, **c)
    rest = box((-0.3, 0.5, -0.3), (0.3, 0.5 + back, -0.26), int(0.6 * n), random, **c)
    return join(*legs, seat, rest)


def table(random, *, y=0.0, half=1.2, height=1.1, n=3000, id_=-1):
    """A top whose upper side is at ``y``, and its legs."""
    c = {"color": WOOD, "ids": id_, "open_below": False}
    legs = [
        box((x, y - height, z), (x + 0.1, y - 0.06, z + 0.1), n // 15, random, **c)
        for x in (-half, half - 0.1) for z in (-half, half - 0.1)
    ]  # fmt: skip
    return join(box((-half, y - 0.06, -half), (half, y, half), n, random, **c), *legs)


# --- compositions -----------------------------------------------------------------------------


def several_objects(r):
    names = ("red_toy_car", "blue_ceramic_mug", "yellow_cone", "red_cube")
    places = ((0, 0), (1.6, 0.4), (-1.3, 1.2), (0.3, -1.7))
    things = [
        thing(n, at, id_=i, height=0.9 - 0.15 * i, turn=i)
        for i, (n, at) in enumerate(zip(names, places, strict=True))
    ]
    lawn = ground(4.0, 6000, r, color=GRASS, rough=0.01)
    return Composed(join(*things, lawn), objects=((0,), (1,), (2,), (3,)))


def floaters(r):
    place = ground(3.0, 5000, r, color=STONE, rough=0.005)
    return Composed(join(thing("green_glass_bottle", dense=4), place, specks(600, 3.0, r)))


def foggy(r):
    place = ground(4.0, 5000, r, color=GRASS, rough=0.01)
    return Composed(join(thing("red_toy_car", dense=4), place, fog(1500, 2.0, r)))


def in_a_room(r):
    things = (thing("red_toy_car", dense=2), thing("yellow_cone", (1.8, 1.2), id_=1))
    shelf = box((-2.9, 0, -2.9), (-1.2, 1.8, -2.4), 1500, r, color=WOOD)
    return Composed(room(3.0, 2.6, 5000, r, furniture=(*things, shelf)), objects=((0,), (1,)))


def chair_alone(r):
    return Composed(chair(r, n=9000), size=1.25, alone=True)


def chair_on_boards(r):
    return Composed(join(chair(r), ground(2.0, 2500, r, rough=0.004)), size=1.25)


def plinth_on_a_lawn(r):
    plinth = box((-0.5, 0, -0.5), (0.5, 1.0, 0.5), 4000, r, color=STONE, ids=1)
    statue = thing("green_glass_bottle", y=1.0, dense=4, height=1.1)
    lawn = ground(4.0, 6000, r, color=GRASS, rough=0.015, round_=True)
    return Composed(join(statue, plinth, lawn), size=1.1, objects=((0,), (0, 1)))


def statue_and_plinth_alone(r):
    plinth = box((-0.5, 0, -0.5), (0.5, 1.0, 0.5), 5000, r, color=STONE, ids=1)
    return Composed(
        join(thing("orange_pyramid", y=1.0, dense=4), plinth), size=1.9, alone=True,
        objects=((0, 1), (0,)),
    )  # fmt: skip


def sparse_lawn(r):
    lawn = ground(4.0, 900, r, color=GRASS, rough=0.03, round_=True, sigma=0.12)
    return Composed(join(thing("black_white_soccer_ball", dense=12), lawn))


def table_in_a_room(r):
    place = room(3.5, 3.6, 4000, r, sides=3)
    place = place.replace(means=place.means - torch.tensor([0.0, 1.1, 0.0]))
    things = (
        thing("blue_ceramic_mug", (0.2, 0.1), height=0.5, dense=2),
        thing("red_cube", (-0.6, 0.3), height=0.35, id_=1),
    )
    return Composed(
        join(*things, table(r), place), size=0.5, floors=(0.0, -1.1), objects=((0,), (1,), (0, 1))
    )


def under_a_sky(r):
    field = ground(9.0, 8000, r, color=GRASS, rough=0.02)
    return Composed(join(thing("red_toy_car", dense=6), field, sky(60.0, 600, r)))


def by_a_large_wall(r):
    floor = ground(1.8, 3000, r)
    wall = sheet((-3, 0, -1.8), (6, 0, 0), (0, 4, 0), 6000, r, color=PLASTER)
    return Composed(join(thing("purple_cylinder", dense=3), floor, wall))


def lamps_under_a_ceiling(r):
    lamps = [
        thing("blue_sphere", at, height=0.35, y=2.1, id_=5 + i)
        for i, at in enumerate(((1, 1), (-1, -1)))
    ]
    things = (thing("orange_pyramid", dense=3), thing("red_cube", (-1.5, 1.0), id_=1))
    return Composed(room(3.0, 2.6, 5000, r, furniture=(*lamps, *things)), objects=((0,), (1,)))


def on_a_carpet(r):
    carpet = sheet((-1.2, 0.02, -0.8), (0, 0, 1.6), (2.4, 0, 0), 2500, r, color=(0.6, 0.1, 0.2))
    toy = thing("red_toy_car", dense=5, y=0.02)
    return Composed(join(toy, carpet, ground(3.0, 3000, r)), floors=(0.0, 0.02))


# --- held back --------------------------------------------------------------------------------


def shelf_by_the_wall(r):
    shelves = [
        box((-1.4, y, -2.4), (1.4, y + 0.05, -1.9), 900, r, color=WOOD, ids=3)
        for y in (0.0, 0.6, 1.2, 1.8)
    ]
    sides = [
        box((x, 0, -2.4), (x + 0.05, 1.85, -1.9), 900, r, color=WOOD, ids=3) for x in (-1.4, 1.35)
    ]
    place = room(2.4, 2.5, 4000, r, sides=2)
    return Composed(
        join(*shelves, *sides, thing("yellow_cone", (0.4, 0.6), dense=3), place),
        objects=((0,), (3,)),
    )


def stool_in_fog(r):
    c = {"color": (0.3, 0.3, 0.35), "ids": 0, "open_below": False}
    legs = [
        box((x, 0, z), (x + 0.06, 0.7, z + 0.06), 300, r, **c)
        for x in (-0.3, 0.24)
        for z in (-0.3, 0.24)
    ]
    seat = box((-0.32, 0.7, -0.32), (0.32, 0.76, 0.32), 2500, r, **c)
    return Composed(
        join(*legs, seat, ground(2.5, 2500, r, rough=0.006), fog(900, 1.5, r)), size=0.76
    )


def two_plinths(r):
    plinths = [
        box((x - 0.35, 0, -0.35), (x + 0.35, h, 0.35), 2500, r, color=STONE, ids=2 + i)
        for i, (x, h) in enumerate(((-0.9, 1.2), (0.9, 0.8)))
    ]
    things = (
        thing("black_white_soccer_ball", (-0.9, 0), y=1.2, height=0.6, dense=3),
        thing("blue_ceramic_mug", (0.9, 0), y=0.8, height=0.6, dense=3, id_=1),
    )
    patch = ground(2.0, 2500, r, color=STONE, rough=0.01)
    return Composed(join(*plinths, *things, patch), size=0.6, objects=((0, 2), (1, 3), (0,), (1,)))


def in_an_open_box(r):
    """Four low walls around a floor of their own: a sandpit, a bathtub."""
    walls = room(1.6, 0.5, 4000, r, ceiling=False)
    return Composed(
        join(thing("red_toy_car", dense=4, height=0.7), walls, specks(200, 2.0, r)), size=0.7
    )


def cluttered_table(r):
    things = [
        thing(n, at, height=h, id_=i, dense=2, turn=float(i))
        for i, (n, at, h) in enumerate((
            ("green_glass_bottle", (0, 0), 0.7), ("red_cube", (0.6, 0.5), 0.3),
            ("blue_sphere", (-0.7, 0.3), 0.3), ("blue_ceramic_mug", (0.5, -0.6), 0.35),
            ("yellow_cone", (-0.5, -0.6), 0.4),
        ))
    ]  # fmt: skip
    below = ground(2.2, 1200, r, y=-1.1, color=STONE)
    ids = tuple((i,) for i in range(5))
    return Composed(join(*things, table(r), below), size=0.7, floors=(0.0, -1.1), objects=ids)


def wide_steps(r):
    steps = [box((-2, 0, -2 + 0.6 * i), (2, 0.2 * (3 - i), -1.4 + 0.6 * i), 1500, r, color=STONE)
             for i in range(3)]  # fmt: skip
    yard = ground(3.5, 5000, r, color=STONE, rough=0.005)
    return Composed(join(*steps, yard, thing("purple_cylinder", (0.0, 1.2), dense=3)))


def armchair_alone(r):
    """Closer to a block: arms and a back on a solid base."""
    c = {"color": (0.3, 0.35, 0.5), "ids": 0}
    parts = [
        box((-0.5, 0, -0.45), (0.5, 0.4, 0.45), 3500, r, **c),
        box((-0.5, 0.4, -0.45), (0.5, 1.0, -0.3), 2500, r, **c),
        box((-0.5, 0.4, -0.3), (-0.38, 0.65, 0.45), 900, r, **c),
        box((0.38, 0.4, -0.3), (0.5, 0.65, 0.45), 900, r, **c),
    ]
    return Composed(join(*parts), size=1.0, alone=True)


def bowling(_):
    return Composed(named_scene("bowling").scene(), size=0.4, objects=())


def kitchen(_):
    return Composed(named_scene("kitchen_table").scene(), size=0.5, floors=(0.0, -1.7), objects=())


def meal_for_four(r):
    """A table with chairs on a carpet that is hardly wider, in a room with two walls."""
    seats = [
        moved(chair(r, n=1500, id_=5 + i), turn=turn_about_y(90.0 * i), shift=torch.tensor(at))
        for i, at in enumerate(((0.0, 0, -1.3), (-1.3, 0, 0.0), (0.0, 0, 1.3), (1.3, 0, 0.0)))
    ]  # fmt: skip
    dishes = [
        thing("blue_ceramic_mug", at, height=0.25, y=0.9, id_=i, dense=2)
        for i, at in enumerate(((0.5, 0.3), (-0.4, 0.1)))
    ]
    carpet = sheet((-2, 0.01, -2), (0, 0, 4), (4, 0, 0), 3000, r, color=(0.6, 0.1, 0.2))
    top = table(r, y=0.9, half=1.0, height=0.9, id_=4)
    return Composed(
        join(*seats, *dishes, top, carpet, room(2.8, 2.5, 4000, r, sides=2, ceiling=False)),
        size=0.9, floors=(0.0, 0.01, 0.9), objects=(),
    )  # fmt: skip


def bench_in_a_park(r):
    c = {"color": WOOD, "ids": 1, "open_below": False}
    bench = [
        box((-1.0, 0.42, -0.2), (1.0, 0.47, 0.2), 1800, r, **c),
        box((-1.0, 0.47, -0.2), (1.0, 0.95, -0.16), 1800, r, **c),
        *[box((x, 0, -0.2), (x + 0.08, 0.42, 0.2), 300, r, **c) for x in (-0.9, 0.82)],
    ]
    ball = thing("black_white_soccer_ball", (0.3, 1.2), height=0.4, dense=2)
    lawn = ground(5.0, 5000, r, color=GRASS, rough=0.02, round_=True)
    return Composed(
        join(*bench, ball, lawn, sky(40.0, 500, r), specks(200, 3.0, r, low=0.0)), size=0.4,
        objects=((0,), (1,)),
    )  # fmt: skip


def carport(r):
    """A roof on posts, nearly as wide as the ground."""
    posts = [
        box((x, 0, z), (x + 0.12, 2.2, z + 0.12), 250, r, color=STONE)
        for x in (-1.9, 1.78) for z in (-1.9, 1.78)
    ]  # fmt: skip
    roof = ground(2.2, 3500, r, y=2.2, color=(0.5, 0.2, 0.15))
    return Composed(
        join(thing("red_toy_car", dense=5, height=1.2), *posts, roof, ground(2.6, 4000, r)),
        size=1.2,
    )


def bed_in_a_chamber(r):
    """A bed that takes most of the room; its cover is level and large."""
    bed = box((-1.2, 0, -1.4), (0.4, 0.5, 0.8), 3500, r, color=(0.7, 0.75, 0.9), ids=1)
    pillow = box((-1.0, 0.5, -1.3), (0.2, 0.65, -0.9), 600, r, color=(0.95, 0.95, 0.95), ids=1)
    toy = thing("orange_pyramid", (0.85, 0.8), height=0.5, dense=2)
    place = room(1.45, 2.4, 3000, r, sides=3, ceiling=False)
    return Composed(
        join(bed, pillow, toy, place), size=0.5, floors=(0.0, 0.5), objects=((0,), (1,))
    )


def desk_by_the_wall(r):
    desk = moved(
        table(r, y=0.75, half=0.8, height=0.75, id_=1), shift=torch.tensor([0.0, 0.0, -1.2])
    )
    screen = box((-0.4, 0.75, -1.6), (0.4, 1.3, -1.54), 900, r, color=(0.1, 0.1, 0.1), ids=2)
    mug = thing("blue_ceramic_mug", (0.5, -1.0), height=0.2, y=0.75, dense=2)
    stool = thing("purple_cylinder", (0.1, 0.2), height=0.5, dense=2, id_=3)
    place = room(2.0, 2.5, 3500, r, sides=2, ceiling=False)
    return Composed(
        join(desk, screen, mug, stool, place), size=0.5, floors=(0.0, 0.75), objects=((3,), (0,))
    )


def market_stall(r):
    """A board with goods under an awning, on cobbles."""
    board = box((-1.5, 0, -0.5), (1.5, 0.8, 0.5), 3000, r, color=WOOD, ids=9)
    awning = sheet((-1.7, 2.2, -0.8), (0, -0.3, 1.9), (3.4, 0, 0), 2500, r, color=(0.8, 0.2, 0.2))
    posts = [box((x, 0, -0.7), (x + 0.06, 2.2, -0.64), 200, r, color=WOOD) for x in (-1.6, 1.54)]
    goods = [
        thing(n, (x, 0.1), height=0.35, y=0.8, id_=i, dense=2)
        for i, (n, x) in enumerate((("blue_sphere", -0.9), ("red_cube", 0.0), ("yellow_cone", 0.8)))
    ]
    cobbles = ground(3.0, 5000, r, color=STONE, rough=0.015)
    return Composed(
        join(board, awning, *posts, *goods, cobbles), size=0.35, floors=(0.0, 0.8), objects=()
    )


def stairs_in_a_hall(r):
    """Eight steps up to a landing along one wall, a ball at their foot."""
    steps = [
        box((-2.4 + 0.3 * i, 0, -2.4), (-2.1 + 0.3 * i, 0.18 * (i + 1), -1.2), 350, r, color=WOOD)
        for i in range(8)
    ]
    landing = box((0.0, 0, -2.4), (2.4, 1.44, -1.2), 2500, r, color=WOOD)
    ball = thing("black_white_soccer_ball", (-0.5, 0.6), height=0.5, dense=3)
    place = room(2.4, 3.2, 4500, r, sides=2)
    return Composed(join(*steps, landing, ball, place), size=0.5)


def turn_about_y(degrees):
    half = math.radians(degrees) / 2
    return torch.tensor([math.cos(half), 0.0, math.sin(half), 0.0])


RECIPES: dict[str, Recipe] = {f.__name__: f for f in (
    several_objects, floaters, foggy, in_a_room, chair_alone, chair_on_boards, plinth_on_a_lawn,
    statue_and_plinth_alone, sparse_lawn, table_in_a_room, under_a_sky, by_a_large_wall,
    lamps_under_a_ceiling, on_a_carpet, cluttered_table, kitchen, desk_by_the_wall,
    stairs_in_a_hall, bed_in_a_chamber,
)}  # fmt: skip
HELD_BACK: dict[str, Recipe] = {f.__name__: f for f in (
    shelf_by_the_wall, stool_in_fog, two_plinths, in_an_open_box, wide_steps, armchair_alone,
    bowling, meal_for_four, bench_in_a_park, carport, market_stall,
)}  # fmt: skip


# --- of captures ------------------------------------------------------------------------------


def captured(name: str, up=(0.0, -1.0, 0.0), *, height=0.9, id_=0) -> GaussianScene:
    """A capture standing on y = 0 with the given height."""
    scene = load(ASSETS / name)
    scene = scene.replace(sh=scene.sh[:, :1])
    low, high = extent(scene, torch.tensor(up).double())
    turn = rotations.normalize(torch.tensor([0.0, 1.0, 0.0, 0.0])) if up[1] < 0 else None
    k = height / (high - low)
    placed = moved(scene, turn=turn, scale=k, shift=torch.tensor([0.0, -k * low, 0.0]))
    middle = placed.means.median(0).values * torch.tensor([1.0, 0.0, 1.0])
    placed = placed.replace(means=placed.means - middle)
    return placed.replace(ids=torch.full_like(placed.ids, id_))


def unicorn_on_sparse_lawn(r):
    lawn = ground(3.0, 1500, r, color=GRASS, rough=0.02, round_=True)
    return Composed(join(captured("unicorn_stuffy.ply"), lawn), objects=((0,),))


def unicorn_in_a_room(r):
    return Composed(room(3.0, 2.6, 6000, r, furniture=(captured("unicorn_stuffy.ply"),)))


def statue_on_a_lawn(r):
    lawn = ground(4.0, 9000, r, color=GRASS, rough=0.01)
    return Composed(join(captured("narcissus.sog", height=2.0), lawn), size=2.0)


def robot_thinned(r):
    """A fiftieth of the robot over its ground."""
    scene = load(ASSETS / "playbot.sog")
    some = torch.randperm(len(scene), generator=r)[:10_000]
    scene = scene[some].replace(sh=scene.sh[some, :1])
    return Composed(scene, size=0.7, up=torch.tensor([0.0, -1.0, 0.0]), floors=(0.019,), objects=())


def unicorn_upside_down_in_a_file(r):
    """The same lawn with y down, as an .spz with the axes of a .ply would be."""
    made = unicorn_on_sparse_lawn(r)
    turn = torch.tensor([0.0, 1.0, 0.0, 0.0])
    return replace(made, scene=moved(made.scene, turn=turn), up=torch.tensor([0.0, -1.0, 0.0]))


OF_CAPTURES: dict[str, Recipe] = {f.__name__: f for f in (
    unicorn_on_sparse_lawn, unicorn_in_a_room, statue_on_a_lawn, robot_thinned,
    unicorn_upside_down_in_a_file,
)}  # fmt: skip


@cache
def composed(name: str, seed: int = 0) -> Composed:
    """A composition by its name."""
    recipe = {**RECIPES, **HELD_BACK, **OF_CAPTURES}[name]
    return recipe(torch.Generator().manual_seed(seed))


# --- poses and judgement ----------------------------------------------------------------------


def any_pose(seed: int) -> tuple[torch.Tensor, float, torch.Tensor]:
    """A rotation, a size from 0.01 to 100 and a shift."""
    random = torch.Generator().manual_seed(seed)
    q = rotations.normalize(torch.randn(4, generator=random, dtype=torch.float64))
    k = float(10 ** (4 * torch.rand((), generator=random) - 2))
    return q, k, 5 * k * torch.randn(3, generator=random, dtype=torch.float64)


def posed(made: Composed, seed: int) -> Composed:
    """The scene turned, enlarged and shifted, and so the truth."""
    q, k, b = any_pose(seed)
    up = torch.tensor(Y).double() if made.up is None else made.up.double()
    up = rotations.rotate(q, up)
    return replace(
        made,
        scene=moved(made.scene, turn=q, scale=k, shift=b),
        size=k * made.size,
        up=up,
        floors=tuple(k * h for h in made.floors),
        at=k * rotations.rotate(q, made.at.double()) + b,
    )


def worsened(made: Composed, seed: int) -> Composed:
    """The scene as a worse capture: part of it, with fewer Gaussians, noise and floaters."""
    r = torch.Generator().manual_seed(seed)
    share, near, noise, loose, azimuth = torch.rand(5, generator=r).tolist()
    scene, up = made.scene, torch.tensor(Y) if made.up is None else made.up.float()
    across = torch.linalg.cross(up, torch.eye(3)[int(up.abs().argmin())])
    turn = rotations.from_axis_angle(up, torch.tensor(2 * math.pi * azimuth))
    away = (scene.means - made.at.float()) @ rotations.rotate(turn, across)
    kept = away < (1 + 3 * near) * made.size  # the rest was not captured
    kept &= torch.rand(len(scene), generator=r) < 0.2 + 0.8 * share
    scene = scene[kept]
    means = scene.means + 0.02 * noise * made.size * torch.randn(len(scene), 3, generator=r)
    scene = scene.replace(means=means)
    n = int(0.1 * loose * len(scene))
    low, high = scene.bounds()
    far = scene[torch.randint(len(scene), (n,), generator=r)]
    at = low + (high - low) * (1.5 * torch.rand(n, 3, generator=r) - 0.25)
    return replace(made, scene=join(scene, far.replace(means=at)))


def degrees_between(a: torch.Tensor, b: torch.Tensor) -> float:
    """Angle between two directions ``(3,)``."""
    a, b = a.double(), b.double()
    return math.degrees(math.atan2(float(torch.linalg.cross(a, b).norm()), float(a @ b)))


def errors(made: Composed, up: torch.Tensor, height: float) -> tuple[float, float]:
    """By how many degrees up is wrong, and the floor under the object over its size."""
    true = torch.tensor(Y).double() if made.up is None else made.up.double()
    feet = [made.at.double() + each * true for each in made.floors]
    miss = min(abs(float(up.double() @ foot) - height) for foot in feet) / made.size
    return degrees_between(up, true), miss
