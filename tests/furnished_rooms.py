"""Rooms with many things and the truth about them: which Gaussians are which thing, up, floor.

Things made by code and captured ones stand on shelves, tables, counters and floors, some of them in
rows that touch. The kitchen is a capture; things made by code stand on its floor and counter.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from compositions import (
    ASSETS,
    GRASS,
    STONE,
    WOOD,
    Composed,
    box,
    captured,
    ground,
    room,
    sheet,
    specks,
    table,
    thing,
)

from newtongs.base import rotations
from newtongs.formats.files import load
from newtongs.scene.gaussians import GaussianScene, join
from newtongs.scene.similarity import moved

NAMES = (
    "red_toy_car", "blue_ceramic_mug", "yellow_cone", "red_cube", "green_glass_bottle",
    "purple_cylinder", "orange_pyramid", "blue_sphere", "black_white_soccer_ball",
)  # fmt: skip
CREAM, TEAL, BRICK = (0.9, 0.86, 0.72), (0.25, 0.6, 0.58), (0.6, 0.3, 0.25)


def row(r, y, xs, z, height, first, *, kinds=NAMES, tint=None):
    """Things side by side on a board at height ``y``, numbered from ``first``."""
    out = []
    for k, x in enumerate(xs):
        name = kinds[int(torch.randint(len(kinds), (), generator=r))]
        tall = height * float(0.7 + 0.5 * torch.rand((), generator=r))
        turn = float(6 * torch.rand((), generator=r))
        one = thing(name, (x, z), height=tall, y=y, turn=turn, id_=first + k)
        if tint is not None:
            one = one.replace(sh=one.sh * 0.3 + tint[k % len(tint)])
        out.append(one)
    return out


def board(r, low, high, color=WOOD, n=1800):
    return box(low, high, n, r, color=color, open_below=False)


def shelf_room(r):
    """Three shelves along a wall, full of things."""
    parts = [room(2.5, 2.6, 9000, r, sides=3)]
    for k, y in enumerate((0.9, 1.4, 1.9)):
        parts.append(board(r, (-2.0, y - 0.05, -2.48), (2.0, y, -2.1), n=2500))
        parts += row(r, y, (-1.6, -0.8, 0.0, 0.8, 1.6), -2.28, 0.26, 5 * k)
    return Composed(join(*parts), size=0.3)


def counter_room(r):
    """A counter along two walls, with cupboard fronts below."""
    parts = [room(2.5, 2.6, 9000, r, sides=2)]
    parts.append(box((-2.5, 0, -2.5), (2.5, 0.9, -1.8), 9000, r, color=TEAL))
    parts.append(box((-2.5, 0, -1.8), (-1.8, 0.9, 1.5), 7000, r, color=CREAM))
    parts += row(r, 0.9, [-1.2 + 0.55 * k for k in range(7)], -2.1, 0.3, 0)
    for k, z in enumerate((-1.2, -0.6, 0.0, 0.6, 1.2)):
        parts += row(r, 0.9, (-2.15,), z, 0.32, 7 + k)
    parts += row(r, 0.0, (-0.6, 0.5, 1.6), 0.9, 0.5, 12)
    return Composed(join(*parts), size=0.3)


def workshop(r):
    """A bench, a wall of shelves, things on the floor, floaters."""
    parts = [room(3.0, 3.0, 11000, r, sides=3, ceiling=False), specks(300, 2.0, r, low=0.0)]
    parts.append(table(r, y=1.0, half=1.0, height=1.0, n=5000))
    parts += row(r, 1.0, (-0.75, -0.25, 0.25, 0.75), 0.45, 0.26, 0)
    parts += row(r, 1.0, (-0.6, 0.0, 0.6), -0.4, 0.26, 4)
    for k, y in enumerate((1.2, 1.8)):
        parts.append(board(r, (-2.0, y - 0.06, -2.98), (2.0, y, -2.5), color=STONE, n=2500))
        parts += row(r, y, (-1.5, -0.5, 0.5, 1.5), -2.75, 0.3, 7 + 4 * k)
    return Composed(join(*parts), size=0.3)


def dining_room(r):
    """A table with cups in the middle of a room, plates of colour, a carpet."""
    parts = [room(3.0, 2.6, 9000, r), table(r, y=0.75, half=1.2, height=0.75, n=6000)]
    parts.append(sheet((-2, 0.01, -2), (0, 0, 4), (4, 0, 0), 5000, r, color=BRICK))
    for k, z in enumerate((-0.9, -0.45, 0.0, 0.45, 0.9)):
        parts += row(r, 0.75, (-0.7, 0.0, 0.7), z, 0.24, 3 * k)
    return Composed(join(*parts), size=0.3, floors=(0.0, 0.01))


def toy_floor(r):
    """Many toys on a floor with two walls; a plush toy among them."""
    parts = [room(2.6, 2.4, 9000, r, sides=2, ceiling=False)]
    places = [(x, z) for x in (-1.6, -0.8, 0.0, 0.8, 1.6) for z in (-1.2, 0.0, 1.2)]
    for k, (x, z) in enumerate(places[:-1]):
        parts += row(r, 0.0, (x,), z, 0.4, k)
    plush = captured("unicorn_stuffy.ply", height=0.7, id_=14)
    parts.append(plush.replace(means=plush.means + torch.tensor([1.6, 0.0, 1.2])))
    return Composed(join(*parts), size=0.4)


def touching_row(r):
    """Things of alternating colours that touch in rows on two long boards."""
    parts = [room(2.0, 2.4, 8000, r, sides=3)]
    tints = [torch.tensor([[c]]) for c in ((1.2, -0.6, -0.6), (-0.6, 0.2, 1.2), (1.0, 1.0, -0.8))]
    kinds = ("blue_ceramic_mug", "purple_cylinder", "red_cube")
    for k, y in enumerate((0.8, 1.4)):
        parts.append(board(r, (-1.8, y - 0.05, -1.98), (1.8, y, -1.5), n=3000))
        xs = [-1.0 + 0.27 * i for i in range(7)]
        parts += row(r, y, xs, -1.75, 0.27, 7 * k, kinds=kinds, tint=tints)
    parts += row(r, 0.0, (0.4,), 0.3, 0.5, 14)
    return Composed(join(*parts), size=0.27)


def two_tables_outdoors(r):
    """Two tables on a lawn, things on them and between."""
    parts = [ground(5.0, 14000, r, color=GRASS, rough=0.01)]
    for k, x in enumerate((-1.8, 1.8)):
        one = table(r, y=0.8, half=0.9, height=0.8, n=4000)
        parts.append(one.replace(means=one.means + torch.tensor([x, 0.0, 0.0])))
        parts += row(r, 0.8, [x + d for d in (-0.6, -0.2, 0.2, 0.6)], 0.3 - 0.5 * k, 0.28, 6 * k)
        parts += row(r, 0.8, [x - 0.4, x + 0.4], -0.3 + 0.6 * k, 0.28, 6 * k + 4)
    parts += row(r, 0.0, (-1.2, 0.1, 1.4), 2.2, 0.6, 12)
    return Composed(join(*parts), size=0.3)


def bookcase(r):
    """A deep case with five boards between side walls; things in every compartment."""
    parts = [room(2.2, 2.6, 8000, r, sides=2)]
    for x in (-1.3, 1.25):
        parts.append(board(r, (x, 0, -2.2), (x + 0.05, 2.2, -1.75), color=STONE, n=2500))
    for k, y in enumerate((0.3, 0.75, 1.2, 1.65, 2.1)):
        parts.append(board(r, (-1.3, y - 0.04, -2.2), (1.3, y, -1.75), color=STONE, n=2500))
        parts += row(r, y, (-0.8, 0.0, 0.8), -1.98, 0.22, 3 * k)
    return Composed(join(*parts), size=0.22)


def boxes_on_a_floor(r):
    """Parcels: closed boxes of small planes, on a floor by a wall."""
    parts = [room(2.8, 2.5, 9000, r, sides=2)]
    for k in range(15):
        x, z = -2.0 + 0.95 * (k % 5), -1.6 + 1.3 * (k // 5)
        w, h, d = (0.2 + 0.25 * torch.rand(3, generator=r)).tolist()
        color = tuple((0.2 + 0.6 * torch.rand(3, generator=r)).tolist())
        parts.append(box((x, 0, z), (x + w, h, z + d), 900, r, color=color, ids=k))
    return Composed(join(*parts), size=0.3)


def kitchen_floor(r):
    """Things on the floor and counter of the captured kitchen; its own things have no number."""
    scene = load(ASSETS / "kitchen.spz")
    turn = rotations.normalize(torch.tensor([0.0, 1.0, 0.0, 0.0]))  # half a turn about x
    scene = moved(scene.replace(sh=scene.sh[:, :1]), turn=turn)
    scene = scene.replace(ids=torch.full_like(scene.ids, -1))
    parts = [scene]
    for k, z in enumerate((-0.2, -0.55, -0.9)):
        parts += row(r, -0.02, (-0.7, -0.25, 0.2, 0.65), z, 0.2, 4 * k)
    parts += row(r, 0.8, (-0.85, 0.45, 0.9), 0.5, 0.16, 12)
    return Composed(join(*parts), size=0.2, floors=(-0.02,))


ROOMS: dict[str, Callable[[torch.Generator], Composed]] = {f.__name__: f for f in (
    shelf_room, counter_room, workshop, dining_room, toy_floor, touching_row, two_tables_outdoors,
    bookcase, boxes_on_a_floor, kitchen_floor,
)}  # fmt: skip


def densified(name: str, count: int, seed: int = 0) -> GaussianScene:
    """A room of ``count`` Gaussians, as a capture has it: y down, colour of degree 3, no ids.

    Every Gaussian is replaced by many smaller ones that cover it.
    """
    made, r = furnished(name, seed).scene, torch.Generator().manual_seed(seed)
    rows = torch.randint(len(made), (count,), generator=r)
    q, down = made.quats[rows], torch.tensor([0.0, 1.0, 0.0, 0.0])
    means = made.means[rows] + rotations.rotate(
        q, made.scales[rows] * torch.randn(count, 3, generator=r)
    )
    sh = 0.03 * torch.randn(count, 16, 3, generator=r)
    sh[:, :1] = made.sh[rows]
    return GaussianScene(
        means=rotations.rotate(down, means), quats=rotations.multiply(down.expand_as(q), q),
        log_scales=made.log_scales[rows] - 0.5 * math.log(count / len(made)),
        logits=made.logits[rows], sh=sh,
    )  # fmt: skip


def furnished(name: str, seed: int = 0) -> Composed:
    """A room by its name, with the ids of its things as truth."""
    made = ROOMS[name](torch.Generator().manual_seed(seed))
    ids = [i for i in made.scene.object_ids if i >= 0]
    return replace(made, objects=tuple((i,) for i in ids))
