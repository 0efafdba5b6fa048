"""A kitchen table with four objects on it that can be pushed off its edge.

The table's top is the plane y = 0 and has edges; 1.7 below it is a tiled floor. A cereal box is
object 0, a tin object 1, a mug object 2 and an orange object 3. The kitchen has a wall behind the
table (z = -3.5) and one far to the left, and is open to the +z and +x sides, from where it is
seen.

All surfaces are closed and densely covered with thin discs, so that a grid of cells finds them
solid. No shadows of the objects are painted, because they move.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import pairwise

import numpy as np

from ..scene.gaussians import GaussianScene, join
from .bowling import placed, turnable
from .scenery import Things, ball, block, hashed, stack
from .surfaces import (
    Array,
    Color,
    Paint,
    Surface,
    box,
    ellipsoid,
    fill,
    mix,
    mottle,
    quad,
    revolve,
    tube,
)

Range = tuple[float, float]

HALF_X, HALF_Z, THICK = 1.6, 1.0, 0.12  # of the table's top
SKIN = 0.004  # its discs lie that far below y = 0: in the cell below that plane, not between two
BOARDS = 6
JOINT = 0.014
GRAIN = (0.060, 0.020)  # size of a disc along and across the grain
END = 0.26  # width of the cross boards at both ends
ROUNDING = (
    (0.036, 0.0), (0.010, 0.010), (0.0, 0.036), (0.0, 0.084), (0.010, 0.110), (0.036, THICK),
)  # fmt: skip
"""Section of the edge from the top to the underside: distance inward, and depth."""
LEG, FOOT = 0.22, 0.14  # width of a leg above and below
APRON = (0.20, 0.26)  # distance from the edge, and height

FLOOR = -1.7
TILE, TILE_RIM = 0.8, 0.05  # edge of a tile, and of the finer discs along it
LEFT, RIGHT, BACK, NEAR = -6.4, 5.6, -3.5, 4.5
ROOM_TOP = 3.9
SILL = 0.22  # height of the board along the open sides
COUNTER_TOP, COUNTER_FRONT = 0.35, -2.3
COUNTER = (-4.6, RIGHT)  # x
SPLASH_TOP = 1.45
WINDOW = (-2.75, -0.45, 1.05, 2.85)  # x and y of both sides
SUN: Color = (1.0, 0.86, 0.62)

LIFT = 0.001  # of the things above the table: no disc of theirs may reach into it
CEREAL_SIZE = (0.55, 0.80, 0.20)
TIN_RADIUS, TIN_HEIGHT = 0.14, 0.40
MUG_RADIUS, MUG_HEIGHT = 0.15, 0.33
ORANGE_RADIUS = 0.16
SPOTS = ((-0.62, -0.12, 14), (0.30, -0.16, 0), (1.22, -0.42, 0), (0.86, -0.02, 0))
"""Where the things stand: x, z, and by how many degrees each is turned."""

OAK: Color = (0.80, 0.56, 0.33)
DARK_OAK: Color = (0.50, 0.31, 0.16)
CREAM: Color = (0.95, 0.91, 0.83)
PLASTER: Color = (0.93, 0.89, 0.81)
SHADE: Color = (0.25, 0.32, 0.27)
JOINTS: Color = (0.95, 0.95, 0.92)
SAGE: Color = (0.47, 0.58, 0.49)
SLATE: Color = (0.40, 0.50, 0.56)
BRASS: Color = (0.86, 0.68, 0.36)
WHITE: Color = (0.97, 0.96, 0.93)
RED: Color = (0.80, 0.13, 0.10)
STEEL: Color = (0.72, 0.74, 0.77)
DARK: Color = (0.12, 0.12, 0.14)

NAME = (
    ".##. .##. #### .###",
    "#..# #..# .##. #...",
    "#..# #### .##. .##.",
    "#..# #..# .##. ...#",
    ".##. #..# .##. ###.",
)


@cache
def kitchen_table() -> GaussianScene:
    """The whole scene."""
    makers = (cereal_box, tin, mug, orange)
    things = [
        placed(make(turn), (x, 0, z), i)
        for i, (make, (x, z, turn)) in enumerate(zip(makers, SPOTS, strict=True))
    ]
    return join(*things, kitchen())


def covered(things: Iterable[Surface], *, ambient: float = 0.5) -> GaussianScene:
    """Surfaces with discs as far apart as their ``spacing`` says, here a length."""
    kept = [s.but(opacity=0.985) for s in things]
    total = sum(s.area / s.spacing**2 for s in kept)
    return fill(round(total), kept, ambient=ambient)


# --- the objects ----------------------------------------------------------------------------------


def thing(parts: Iterable[Surface], turn: float) -> GaussianScene:
    """An object that stands on the origin, lit independently of its rotation."""
    whole = covered([s.but(glow=0.8).moved(yaw=turn) for s in parts], ambient=0.55)
    rise = LIFT - float(whole.bounds(sigmas=1)[0][1])
    return turnable(placed(whole, (0, rise, 0), 0), edge=0.66, front=1.12)


def cereal_box(turn: float) -> GaussianScene:
    """A carton with a picture on its front and back."""
    face, right, back, left, top, bottom = box((0, CEREAL_SIZE[1] / 2, 0), CEREAL_SIZE)
    pictures = [f.but(paint=carton, spacing=d) for f, d in ((face, 0.015), (back, 0.023))]
    sides = [f.but(paint=facts, spacing=0.018) for f in (right, left)]
    ends = [f.but(paint=RED, spacing=0.02) for f in (top, bottom)]
    return thing([*pictures, *sides, *ends], turn)


def carton(p: Array) -> Array:
    """Sunrays, the name on a red band, and a bowl full of rings."""
    x, y = np.where(p[:, 2] > 0, 1, -1) * p[:, 0], p[:, 1]
    rays = np.sin(18 * np.arctan2(x, y - 0.22)) > 0
    color = mix((0.99, 0.80, 0.20), (0.99, 0.66, 0.10), rays.astype(float))
    color[(np.abs(y - 0.62 - 0.04 * np.cos(5 * x)) < 0.105)] = RED
    color[written(NAME, x, y - 0.64, 0.0242)] = WHITE
    color[y > 0.775] = RED
    return bowl(color, x, y)


def bowl(color: Array, x: Array, y: Array) -> Array:
    """A blue bowl of cereal rings drawn over the colours."""
    low = 0.24
    heap = np.hypot(x / 0.20, (y - low) / 0.15) < 1
    ring = np.hypot((x / 0.062 + 0.5 * (np.floor(y / 0.05) % 2)) % 1 - 0.5, y / 0.05 % 1 - 0.5)
    rings = np.where((np.abs(ring - 0.32) < 0.16)[:, None], (0.72, 0.42, 0.14), (0.98, 0.93, 0.80))
    color = np.where((heap & (y > low))[:, None], rings, color)
    dish = (np.hypot(x / 0.23, (y - low) / 0.19) < 1) & (y <= low)
    color[dish] = (0.13, 0.32, 0.62)
    color[dish & (y > low - 0.03)] = WHITE
    return color


def written(rows: Sequence[str], x: Array, y: Array, size: float) -> Array:
    """Where points lie on the letters, dots of ``size``, around the origin."""
    dots = np.array([[c == "#" for c in row] for row in rows])
    height, width = dots.shape
    i = np.floor(height / 2 - y / size).astype(int)
    k = np.floor(width / 2 + x / size).astype(int)
    inside = (i >= 0) & (i < height) & (k >= 0) & (k < width)
    return inside & dots[i.clip(0, height - 1), k.clip(0, width - 1)]


def facts(p: Array) -> Array:
    """The carton's side: a white table with lines."""
    y, z = p[:, 1], p[:, 2]
    color = np.tile((0.99, 0.72, 0.14), (len(p), 1))
    field = (np.abs(z) < 0.075) & (np.abs(y - 0.36) < 0.26)
    color[field] = WHITE
    color[field & (np.abs(z) < 0.055) & (y / 0.052 % 1 < 0.4)] = (0.35, 0.33, 0.33)
    color[np.abs(y - 0.70) < 0.05] = RED
    color[y > 0.775] = RED
    return color


def tin(turn: float) -> GaussianScene:
    """A tin of tomatoes with bright rims and a paper label."""
    r, h, rim = TIN_RADIUS, TIN_HEIGHT, 0.026
    metal = [
        revolve([(0, 0), (r - 0.004, 0)]), revolve([(r, 0), (r, rim)]),
        revolve([(r, h - rim), (r, h)]), revolve([(r - 0.004, h), (0, h)]),
    ]  # fmt: skip
    label = revolve([(r, rim), (r, h - rim)])
    ends = [part.but(paint=lid, spacing=0.0135) for part in metal]
    return thing([*ends, label.but(paint=label_paint, spacing=0.015)], turn)


def lid(p: Array) -> Array:
    """Bright metal with rings, dark where the rim stands over the lid."""
    r, side = np.hypot(p[:, 0], p[:, 2]), np.abs(p[:, 1] / TIN_HEIGHT - 0.5) < 0.4999
    rings = mix((0.86, 0.87, 0.89), (0.58, 0.60, 0.64), 0.7 * (np.sin(175 * r) > 0.1))
    rings[r > TIN_RADIUS - 0.022] = (0.50, 0.52, 0.56)
    return np.where(side[:, None], (0.88, 0.89, 0.91), rings)


def label_paint(p: Array) -> Array:
    """Green paper with a cream band and two tomatoes."""
    y, angle = p[:, 1] - TIN_HEIGHT / 2, np.arctan2(p[:, 0], p[:, 2])
    color = np.tile((0.10, 0.40, 0.24), (len(p), 1))
    color[np.abs(y) < 0.098] = CREAM
    color[np.abs(np.abs(y) - 0.112) < 0.007] = BRASS
    along = TIN_RADIUS * ((angle - math.radians(30) + math.pi / 2) % math.pi - math.pi / 2)
    far = np.hypot(along / 0.085, (y + 0.012) / 0.072)
    color[far < 1] = (0.86, 0.13, 0.08)
    color[(far < 1) & (np.hypot(along + 0.03, y - 0.015) < 0.018)] = (0.99, 0.55, 0.45)
    color[(np.abs(y - 0.055) < 0.016) & (np.abs(along) < 0.045)] = (0.16, 0.50, 0.16)
    return color


def mug(turn: float) -> GaussianScene:
    """A hollow mug with its handle on the +x side."""
    r, h = MUG_RADIUS, MUG_HEIGHT
    lip = (r - 0.006, h)
    outside = [(0, 0), (r - 0.022, 0), (r - 0.006, 0.010), (r, 0.03), (r, h - 0.008), lip]
    inside = [lip, (r - 0.015, h - 0.006), (r - 0.020, 0.05), (r - 0.04, 0.025), (0, 0.022)]
    t = np.radians(np.linspace(-84, 84, 40))
    path = np.stack([r - 0.02 + 0.10 * np.cos(t), h / 2 + 0.105 * np.sin(t), 0 * t], axis=-1)
    parts = [
        revolve(outside).but(paint=glaze, spacing=0.017),
        revolve(inside).but(paint=tea, spacing=0.022),
        tube(path, 0.022).but(paint=glaze, spacing=0.014),
    ]
    return thing(parts, turn)


def glaze(p: Array) -> Array:
    """Teal above bare clay, with a pale rim."""
    y = p[:, 1]
    color = mix((0.05, 0.36, 0.46), (0.10, 0.50, 0.60), y / MUG_HEIGHT)
    color *= 1 + 0.08 * mottle(p, size=0.05, seed=5)[:, None]
    color[y < 0.055 + 0.008 * np.sin(9 * np.arctan2(p[:, 2], p[:, 0]))] = (0.80, 0.64, 0.48)
    color[y > MUG_HEIGHT - 0.012] = (0.80, 0.86, 0.84)
    return color


def tea(p: Array) -> Array:
    """The inside: cream, darker towards the bottom."""
    return mix((0.52, 0.44, 0.36), CREAM, p[:, 1] / MUG_HEIGHT)


def orange(turn: float) -> GaussianScene:
    """A ball with a pored peel and a green stem."""
    peel = ellipsoid((0, ORANGE_RADIUS, 0), ORANGE_RADIUS)
    return thing([peel.but(paint=rind, spacing=0.0155)], turn)


def rind(p: Array) -> Array:
    """Of an orange, its stem on the upper side towards +z."""
    d = (p - (0, ORANGE_RADIUS, 0)) / ORANGE_RADIUS
    tone = 1 + 0.05 * mottle(d, size=0.5, seed=1) + 0.09 * mottle(d, size=0.09, seed=2)
    color = np.array((0.98, 0.52, 0.06)) * tone[:, None]
    off = np.linalg.norm(d - np.array((0.10, 0.85, 0.52)), axis=-1)
    color = mix(color, (0.72, 0.60, 0.12), (0.30 - off) / 0.2)
    color[off < 0.12] = (0.22, 0.38, 0.10)
    return color


# --- the kitchen ----------------------------------------------------------------------------------


def kitchen() -> GaussianScene:
    """Table, floor, walls and what stands along them."""
    painted = [*table_top(), *floor(), *walls(), *window()]
    lit = [
        *frame_of_table(),
        *sills(),
        *counter(),
        *cupboards(),
        *fridge(),
        *shelf(),
        *on_the_counter(),
    ]
    whole = [*[s.but(glow=1.0) for s in painted], *lit]
    return covered([s.but(spread=1.1) for s in whole], ambient=0.55)


def sheet(x: Range, y: float, z: Range, paint: Paint, disc: tuple[float, float]) -> Surface:
    """A level rectangle facing up, its discs about ``disc`` wide along x and z."""
    corners = [(x[0], y, z[1]), (x[1], y, z[1]), (x[1], y, z[0]), (x[0], y, z[0])]
    return in_rows(corners, (x[1] - x[0], z[1] - z[0]), paint, disc)


def front(x: Range, y: Range, z: float, paint: Paint, disc: tuple[float, float]) -> Surface:
    """An upright rectangle facing +z, its discs about ``disc`` wide along x and y."""
    corners = [(x[0], y[0], z), (x[1], y[0], z), (x[1], y[1], z), (x[0], y[1], z)]
    return in_rows(corners, (x[1] - x[0], y[1] - y[0]), paint, disc)


def in_rows(
    corners: Sequence[Sequence[float]], size: Range, paint: Paint, disc: tuple[float, float]
) -> Surface:
    """A rectangle with whole rows and columns of discs."""
    columns, rows = (max(1, round(length / step)) for length, step in zip(size, disc, strict=True))
    width, height = size[0] / columns, size[1] / rows
    whole = quad(*corners, stretch=width / height)
    return whole.but(paint=paint, spacing=math.sqrt(width * height))


# --- the table ------------------------------------------------------------------------------------


def table_top() -> Things:
    """Boards along x between two cross boards, and the rounded edge around them."""
    inset = ROUNDING[0][0]
    x, z = HALF_X - inset, HALF_Z - inset
    return [*boards(x - END, z), *end_boards(x, z), *rounded_edge(), underside(x, z)]


def boards(x: float, z: float) -> Things:
    """Boards along x with a groove between any two."""
    width, half = 2 * z / BOARDS, JOINT / 2
    parts = []
    for k in range(BOARDS):
        low, high = -z + k * width, -z + (k + 1) * width
        edges = (low + half if k else low, high - half if k < BOARDS - 1 else high)
        parts.append(sheet((-x, x), -SKIN, edges, grain_along(k), GRAIN))
        if k:
            parts.append(sheet((-x, x), -SKIN, (low - half, low + half), groove, GRAIN))
    return parts


def end_boards(x: float, z: float) -> Things:
    """A board across the others at both ends, and the groove before it."""
    parts = []
    for side in (-1, 1):
        seam, start, end = (side * at for at in (x - END, x - END + JOINT, x))
        for a, b, paint in ((start, end, grain_across(side)), (seam, start, groove)):
            parts.append(sheet((min(a, b), max(a, b)), -SKIN, (-z, z), paint, GRAIN[::-1]))
    return parts


def underside(x: float, z: float) -> Surface:
    """The lower face of the top."""
    y = -SKIN - THICK
    corners = [(-x, y, -z), (x, y, -z), (x, y, z), (-x, y, z)]
    return quad(*corners).but(paint=(0.30, 0.19, 0.10), spacing=0.085)


def rounded_edge() -> Things:
    """Bands around the top, mitred at its corners."""
    parts = []
    for (in0, d0), (in1, d1) in pairwise(ROUNDING):
        upper, lower = (rectangle(inset, -SKIN - d) for inset, d in ((in0, d0), (in1, d1)))
        for k in range(4):
            n = (k + 1) % 4
            band = quad(lower[k], lower[n], upper[n], upper[k])
            parts.append(band.but(paint=edge_wood, spacing=0.030))
    return parts


def rectangle(inset: float, y: float) -> list[tuple[float, float, float]]:
    """Corners of the table's outline, ``inset`` from it, anticlockwise from above."""
    x, z = HALF_X - inset, HALF_Z - inset
    return [(-x, y, z), (x, y, z), (x, y, -z), (-x, y, -z)]


def grain_along(board: int) -> Callable[[Array], Array]:
    """Wood whose grain runs along x; every board has its own."""
    return lambda p: sheen(wood(p[:, 0], p[:, 2], board), p)


def grain_across(side: int) -> Callable[[Array], Array]:
    """Wood whose grain runs along z."""
    return lambda p: sheen(wood(p[:, 2], p[:, 0], 20 + side), p)


def wood(along: Array, across: Array, board: int) -> Array:
    """Oak: flames of year rings, fine pores, and a tone of its own for each board."""
    q = np.stack([along, np.zeros_like(along), across], axis=-1)
    bend = mottle(q * (0.7, 1, 1.6), size=0.8, seed=40 + board)
    rings = np.sin(2 * math.pi * (across * 13 + 2.6 * bend + 0.37 * board))
    pores = mottle(q * (0.06, 1, 1), size=0.016, seed=80 + board)
    tone = 0.90 + 0.20 * float(hashed(np.array([board]), seed=4)[0])
    dark = 0.20 + 0.16 * rings + 0.16 * pores
    return mix(OAK, DARK_OAK, dark) * tone


def sheen(color: Array, p: Array) -> Array:
    """The window's light on the table: paler towards the back and the left."""
    near = np.exp(-(((p[:, 0] + 0.9) / 1.5) ** 2) - ((p[:, 2] + 1.5) / 1.3) ** 2)
    lit = color * (0.93 + 0.12 * near)[:, None]
    return mix(lit, (1.0, 0.95, 0.86), 0.30 * near)


def groove(p: Array) -> Array:
    """The line between two boards."""
    return np.tile((0.30, 0.18, 0.09), (len(p), 1))


def edge_wood(p: Array) -> Array:
    """The edge of the top: worn pale above, dark below."""
    along = np.where(np.abs(p[:, 0]) > HALF_X - 0.04, p[:, 2], p[:, 0])
    q = np.stack([along, 8 * p[:, 1], 0 * along], axis=-1)
    streak = 0.5 * mottle(q * (0.25, 1, 1), size=0.10, seed=6)
    lit = mix((0.46, 0.29, 0.15), (0.88, 0.66, 0.42), 1 + (p[:, 1] + SKIN) / 0.11)
    right = np.where(p[:, 0] > HALF_X - 0.02, 0.86, 1.0)
    return lit * (right * (1 + 0.12 * streak))[:, None]


def frame_of_table() -> Things:
    """Four legs that taper towards the floor, and the apron between them."""
    inset, height = APRON
    x, z, y = HALF_X - inset, HALF_Z - inset, -SKIN - THICK - height / 2
    parts = [s for i in (-1, 1) for k in (-1, 1) for s in leg(i * x, k * z)]
    for side in (-1, 1):
        for at, size in (
            ((0, y, side * z), (2 * x, height, 0.06)),
            ((side * x, y, 0), (0.06, height, 2 * z)),
        ):
            faces = box(at, size)
            parts += [f.but(paint=rail, spacing=0.065) for f in (*faces[:4], faces[5])]
    return parts


def leg(x: float, z: float) -> Things:
    """A leg of square section, from the top to the floor."""
    high = -SKIN - THICK
    size = (FOOT, high - FLOOR, FOOT)
    faces = box((x, (high + FLOOR) / 2, z), size, taper=LEG / FOOT)[:4]
    return [f.but(paint=rail, spacing=0.052) for f in faces]


def rail(p: Array) -> Array:
    """Wood of the frame: dark under the top."""
    streak = mottle(p * (3, 0.4, 3), size=0.12, seed=9)
    shade = np.clip((-p[:, 1] - THICK) / 0.45, 0, 1)
    return mix(DARK_OAK, (0.74, 0.50, 0.29), 0.25 + 0.55 * shade + 0.10 * streak)


# --- floor and walls ------------------------------------------------------------------------------


def floor() -> Things:
    """Square tiles, light and dark by turns, from under the cupboards to the near edge."""
    columns, rows = round((RIGHT - LEFT) / TILE), round((NEAR - BACK) / TILE)
    return [s for i in range(columns) for k in range(1, rows) for s in floor_tile(i, k)]


def floor_tile(i: int, k: int) -> Things:
    """The tile in a column and a row, with finer discs along its rim for sharp edges."""
    x, z, rim = LEFT + i * TILE, BACK + k * TILE, TILE_RIM
    step = TILE / (6 if z < -1.2 else 7 if z < 0 else 10)  # finer where it is seen from near
    base = np.array(CREAM if (i + k) % 2 else SLATE)
    tone = 0.95 + 0.10 * float(hashed(np.array([i]), np.array([k]), seed=3)[0])

    def glazed(p: Array) -> Array:
        veins = 1 + 0.05 * mottle(p, size=0.35, seed=12)
        return floor_light(base * (tone * veins)[:, None], p)

    def part(x0: float, x1: float, z0: float, z1: float) -> Surface:
        return sheet((x + x0, x + x1), FLOOR, (z + z0, z + z1), glazed, (step, step))

    inner = TILE - rim
    return [
        part(rim, inner, rim, inner), part(0, TILE, 0, rim), part(0, TILE, inner, TILE),
        part(0, rim, rim, inner), part(inner, TILE, rim, inner),
    ]  # fmt: skip


def floor_light(color: Array, p: Array) -> Array:
    """Shade under the table and along the cupboards, sun from the window."""
    x, z = p[:, 0], p[:, 2]
    off = np.hypot(np.maximum(np.abs(x) - 1.25, 0), np.maximum(np.abs(z) - 0.65, 0))
    shade = 0.52 * np.exp(-((off / 0.55) ** 2))
    shade += 0.35 * np.exp(-np.maximum(z - COUNTER_FRONT, 0) / 0.35)
    shade += 0.20 * np.exp(-(x - LEFT) / 0.5)
    lit = color * (0.98 - shade.clip(0, 0.75))[:, None]
    return lit * (1 + 0.35 * sunlit(x, z)[:, None] * np.array(SUN))


def sunlit(x: Array, z: Array) -> Array:
    """One where the sun falls through the window onto the floor, else zero, softly."""
    rise = (z + 3.5) / 1.35  # along the way from the window down to the floor
    y, x0 = FLOOR + rise, x + 0.42 * (z + 3.5)
    left, right, low, high = WINDOW
    u, v = (x0 - left) / (right - left), (y - low) / (high - low)
    inside = smooth_box(u) * smooth_box(v)
    bars = np.exp(-(((u - 0.5) / 0.05) ** 2)) + np.exp(-(((v - 0.5) / 0.05) ** 2))
    return np.asarray(inside * (1 - bars.clip(0, 1)))


def smooth_box(u: Array) -> Array:
    """One inside [0, 1], zero outside, over a soft edge."""
    return np.asarray(1 / (1 + np.exp(-(0.5 - np.abs(u - 0.5)) / 0.03)))


def sills() -> Things:
    """A low board along the two open sides of the floor, which keeps in the room what falls."""
    y, thick, back, paint = FLOOR + SILL, 0.12, COUNTER_FRONT, (0.86, 0.82, 0.74)
    inner, width = RIGHT - thick, RIGHT - thick - LEFT
    right = box((RIGHT - thick / 2, y - SILL / 2, (NEAR + back) / 2), (thick, SILL, NEAR - back))
    near = box((LEFT + width / 2, y - SILL / 2, NEAR - thick / 2), (width, SILL, thick))
    return [
        sheet((inner, RIGHT), y, (back, NEAR), paint, (thick, thick)),
        sheet((LEFT, inner), y, (NEAR - thick, NEAR), paint, (thick, thick)),
        *[f.but(paint=paint, spacing=0.125) for f in (right[1], right[3], near[0], near[2])],
    ]


def walls() -> Things:
    """Plaster around the window, tiles above the worktop, and a plain wall to the left."""
    left, right, _, high = WINDOW
    coarse = (0.165, 0.165)
    behind = [
        front((LEFT, left), (SPLASH_TOP, ROOM_TOP), BACK, plaster, coarse),
        front((right, RIGHT), (SPLASH_TOP, ROOM_TOP), BACK, plaster, coarse),
        front((left, right), (high, ROOM_TOP), BACK, plaster, coarse),
    ]
    side = front((-NEAR, -BACK), (FLOOR, ROOM_TOP), LEFT, plaster_aside, (0.175, 0.175))
    return [*behind, *[s.moved(yaw=90) for s in (side, *picture())], *splash()]


def picture() -> Things:
    """A pear in a wooden frame, modelled facing +z where the left wall is before its turn."""
    x, y, z, width, height = -0.6, 1.35, LEFT + 0.18, 1.2, 1.5

    def pear(p: Array) -> Array:
        u, v = p[:, 0] - x, p[:, 1] - y
        fruit = np.hypot(u / 0.30, (v + 0.18) / 0.28) < 1
        fruit |= np.hypot(u / 0.17, (v - 0.12) / 0.26) < 1
        color = np.where(fruit[:, None], (0.78, 0.76, 0.28), (0.93, 0.90, 0.82))
        color[(np.abs(u - 0.03) < 0.03) & (np.abs(v - 0.43) < 0.09)] = DARK_OAK
        return color

    sides = (x - width / 2, x + width / 2), (y - height / 2, y + height / 2)
    return framed_panel(*sides, z, 0.1, DARK_OAK, pear, 0.075)


def plaster(p: Array) -> Array:
    """A warm wall, darker towards the floor and the corner."""
    tone = 0.97 + 0.025 * mottle(p, size=1.2, seed=14)
    tone -= 0.12 * np.exp(-(p[:, 0] - LEFT) / 0.5) + 0.16 * np.exp(-(p[:, 1] - FLOOR) / 0.7)
    return np.array(PLASTER) * tone[:, None]


def plaster_aside(p: Array) -> Array:
    """The wall to the left, before it is turned there: its corner is at the +x end."""
    tone = 0.93 + 0.025 * mottle(p, size=1.2, seed=15)
    tone -= 0.12 * np.exp((p[:, 0] + BACK) / 0.5) + 0.14 * np.exp(-(p[:, 1] - FLOOR) / 0.7)
    return np.array(PLASTER) * tone[:, None]


def splash() -> Things:
    """Glazed tiles between worktop and wall cupboards, and the pale joints between them."""
    rows, count, z = 3, 28, BACK + 0.02
    height, width = (SPLASH_TOP - COUNTER_TOP) / rows, (COUNTER[1] - COUNTER[0]) / count
    parts = []
    for row in range(rows):
        y = COUNTER_TOP + row * height
        for i in range(count):
            x = COUNTER[0] + i * width
            parts.append(wall_tile((x, x + width), (y, y + height), i, row))
            parts.append(front((x - 0.011, x + 0.011), (y, y + height), z, JOINTS, (0.13, 0.13)))
        high = (y + height - 0.011, y + height + 0.011)
        parts.append(front(COUNTER, high, z, JOINTS, (0.13, 0.13)))
    return parts


def wall_tile(x: Range, y: Range, i: int, row: int) -> Surface:
    """One tile in a tone of its own."""
    tone = 0.90 + 0.14 * float(hashed(np.array([i]), np.array([row]), seed=8)[0])
    r, g, b = (float(min(1.0, tone * c)) for c in (0.78, 0.87, 0.85))
    return front(x, y, BACK, (r, g, b), (0.14, 0.14))


def window() -> Things:
    """A garden behind a white frame with a cross, and a sill."""
    left, right, low, high = WINDOW
    x, y, width, height = (left + right) / 2, (low + high) / 2, right - left, high - low
    bars = [
        ((x, low), (width + 0.2, 0.10)), ((x, high), (width + 0.2, 0.10)),
        ((left, y), (0.10, height)), ((right, y), (0.10, height)),
        ((x, y), (0.07, height)), ((x, y + 0.12), (width, 0.06)),
    ]  # fmt: skip
    parts = [front((left, right), (low, high), BACK - 0.1, garden, (0.12, 0.12))]
    for at, (w, h) in bars:
        parts += block((*at, BACK + 0.03), (w, h, 0.1), WHITE, spacing=0.1)[:4]
    parts += block((x, low - 0.07, BACK + 0.12), (width + 0.36, 0.05, 0.24), WHITE, spacing=0.07)
    return [*parts, *curtains()]


def garden(p: Array) -> Array:
    """Bright sky over blurred trees and a lawn."""
    x, y = p[:, 0], p[:, 1]
    tops = 1.75 + 0.22 * np.sin(2.1 * x) + 0.16 * np.sin(4.7 * x + 1)
    sky = mix((0.95, 0.98, 1.0), (0.60, 0.81, 0.98), (y - 1.6) / 1.3)
    tree = mix((0.36, 0.56, 0.28), (0.62, 0.78, 0.42), 0.5 + 0.6 * mottle(p, size=0.25, seed=3))
    color = mix(tree, sky, (y - tops) / 0.12)
    return mix((0.66, 0.83, 0.42), color, (y - 1.30) / 0.12)


def curtains() -> Things:
    """Short red curtains to both sides of the window, under a brass rod."""
    left, right, _, high = WINDOW
    y, z = (high - 1.75, high + 0.12), BACK + 0.16
    sides = [
        front((x - 0.24, x + 0.24), y, z, cloth, (0.045, 0.15)) for x in (left - 0.12, right + 0.12)
    ]
    rod = np.array([(left - 0.5, high + 0.15, z), (right + 0.5, high + 0.15, z)])
    return [*sides, tube(rod, 0.025).but(paint=BRASS, spacing=0.06)]


def cloth(p: Array) -> Array:
    """Folds of a warm red."""
    fold = 0.5 + 0.5 * np.sin(p[:, 0] * 42 + 0.8 * np.sin(3 * p[:, 1]))
    return mix((0.62, 0.20, 0.14), (0.90, 0.44, 0.32), fold)


# --- along the walls ------------------------------------------------------------------------------


def counter() -> Things:
    """Cupboards under a wooden worktop along the back wall."""
    (left, right), z = COUNTER, COUNTER_FRONT
    foot, under = FLOOR + 0.2, COUNTER_TOP - 0.1
    count = 11
    width = (right - left) / count
    parts = [front((left, right), (FLOOR, foot), z - 0.12, (0.10, 0.10, 0.10), (0.16, 0.1))]
    for i in range(count):
        x = (left + i * width, left + (i + 1) * width)
        parts += oven(x, (foot, under), z) if i == 6 else door(x, (foot, under), z, handle=i % 2)
    side = [(right, foot, z), (right, foot, BACK), (right, under, BACK), (right, under, z)]
    parts.append(quad(*side).but(paint=SAGE, spacing=0.13))
    return parts + worktop(under)


def worktop(under: float) -> Things:
    """A slab of pale wood from end to end."""
    left, right = COUNTER
    size = (right - left + 0.04, COUNTER_TOP - under, COUNTER_FRONT - BACK + 0.06)
    middle = ((left + right) / 2, (COUNTER_TOP + under) / 2, (COUNTER_FRONT + BACK) / 2 + 0.03)
    faces = box(middle, size)
    paint = (0.84, 0.69, 0.50)
    near = [f.but(paint=paint, spacing=0.1) for f in (faces[0], faces[1], faces[3])]
    return [*near, faces[4].but(paint=paint, spacing=0.16)]


def door(x: Range, y: Range, z: float, *, handle: int) -> Things:
    """A panelled door: its frame, the panel in it, a dark gap around, and a knob."""
    rim, gap = 0.14, 0.012
    (x0, x1), (y0, y1), far = x, y, 0.16
    knob = x1 - rim / 2 if handle else x0 + rim / 2
    return [
        *framed_panel(x, y, z, rim, SAGE, inset_panel),
        front((x1 - gap, x1 + gap), y, z + 0.02, SHADE, (far, far)),
        front(x, (y0 - gap, y0 + gap), z + 0.02, SHADE, (far, far)),
        ball(knob, y1 - 2 * rim, z + 0.04, 0.035, BRASS, spacing=0.03),
    ]


def framed_panel(
    x: Range, y: Range, z: float, rim: float, frame: Paint, paint: Paint, spacing: float = 0.15
) -> Things:
    """A rectangle within a frame ``rim`` wide, none over another."""
    (x0, x1), (y0, y1), disc = x, y, (spacing, spacing)
    return [
        front(x, (y0, y0 + rim), z, frame, disc),
        front(x, (y1 - rim, y1), z, frame, disc),
        front((x0, x0 + rim), (y0 + rim, y1 - rim), z, frame, disc),
        front((x1 - rim, x1), (y0 + rim, y1 - rim), z, frame, disc),
        front((x0 + rim, x1 - rim), (y0 + rim, y1 - rim), z - 0.015, paint, disc),
    ]


def inset_panel(p: Array) -> Array:
    """The panel of a door, darker along its upper edge, where the frame shades it."""
    rise = (p[:, 1].max() - p[:, 1]) / 0.15
    return mix(SHADE, np.array(SAGE) * 1.06, 0.4 + rise)


def oven(x: Range, y: Range, z: float) -> Things:
    """A steel front with a dark glass and a handle."""
    (x0, x1), (y0, y1) = x, y
    bar = np.array([(x0 + 0.12, y1 - 0.36, z + 0.08), (x1 - 0.12, y1 - 0.36, z + 0.08)])
    knobs = [
        ball(x0 + 0.18 + 0.2 * k, y1 - 0.14, z + 0.03, 0.04, DARK, spacing=0.03) for k in range(4)
    ]
    return [
        *framed_panel(x, (y0, y1 - 0.28), z, 0.13, STEEL, (0.07, 0.08, 0.10)),
        front(x, (y1 - 0.28, y1), z, STEEL, (0.1, 0.1)),
        tube(bar, 0.025).but(paint=WHITE, spacing=0.035),
        *knobs,
    ]


def cupboards() -> Things:
    """Wall cupboards to the right of the window, with a hood between them."""
    parts: Things = []
    low, high, z = SPLASH_TOP, 3.0, BACK + 0.6
    for left, right, handle in ((0.35, 1.25, 1), (2.35, 3.3, 1), (3.3, 4.25, 0), (4.25, 5.2, 0)):
        parts += door((left, right), (low, high), z, handle=handle)
        middle = ((left + right) / 2, (low + high) / 2, BACK + 0.3)
        body = box(middle, (right - left, high - low, 0.6))
        parts += [f.but(paint=SAGE, spacing=0.15) for f in (body[1], body[3], body[4], body[5])]
    hood = box((1.8, 1.75, BACK + 0.33), (1.0, 0.5, 0.66), taper=0.45)
    pipe = box((1.8, 2.7, BACK + 0.16), (0.42, 1.5, 0.3))
    return parts + [f.but(paint=STEEL, spacing=0.12) for f in (*hood, *pipe[:4])]


def fridge() -> Things:
    """A red fridge in the far corner."""
    x, z, paint = (LEFT + 0.25, COUNTER[0] - 0.05), -2.15, (0.86, 0.36, 0.27)
    middle, depth = (x[0] + x[1]) / 2, z - BACK
    faces = box((middle, 0.15, BACK + depth / 2), (x[1] - x[0], 3.7, depth))
    shell = [f.but(paint=paint, spacing=0.15, gloss=0.2) for f in faces[:2]]
    shell += [f.but(paint=paint, spacing=0.16) for f in faces[3:5]]
    seam = front(x, (0.885, 0.915), z + 0.025, (0.40, 0.14, 0.10), (0.1, 0.1))
    grips = [
        np.array([(x[1] - 0.18, y, z + 0.08), (x[1] - 0.18, y + 0.4, z + 0.08)]) for y in (0.3, 1.1)
    ]
    return [*shell, seam, *[tube(g, 0.03).but(paint=WHITE, spacing=0.04) for g in grips]]


def shelf() -> Things:
    """A board with four jars to the left of the window."""
    x, y, z = -3.95, 1.95, BACK + 0.2
    parts = block((x, y, z), (1.6, 0.07, 0.4), OAK, spacing=0.09, bottom=True)
    colors: Sequence[Color] = (
        (0.93, 0.80, 0.50), (0.70, 0.34, 0.22), (0.96, 0.93, 0.87), (0.42, 0.52, 0.34),
    )  # fmt: skip
    cover = [(0.115, 0), (0.115, 0.06), (0, 0.07)]
    for i, color in enumerate(colors):
        at = x - 0.57 + 0.38 * i
        parts.append(stack(at, y + 0.035, z, jar(0.13, 0.36), color, spacing=0.065))
        parts.append(stack(at, y + 0.395, z, cover, DARK_OAK, spacing=0.065))
    return parts


def jar(radius: float, height: float) -> list[tuple[float, float]]:
    """Outline of a jar."""
    return [(0, 0), (radius, 0), (radius, 0.9 * height), (0.85 * radius, height), (0, height)]


def on_the_counter() -> Things:
    """A pot on the hob, a plant by the window, a bread board and a kettle."""
    y, z = COUNTER_TOP, -3.0
    pot = [(0, 0), (0.30, 0), (0.31, 0.30), (0.29, 0.32), (0, 0.38)]
    hob = sheet((1.2, 2.4), y + 0.012, (-3.3, -2.5), DARK, (0.12, 0.12))
    board = front((2.75, 3.35), (y, y + 0.85), BACK + 0.15, (0.62, 0.40, 0.22), (0.08, 0.08))
    parts = [
        hob,
        stack(1.6, y + 0.02, z, pot, (0.90, 0.46, 0.14), spacing=0.07),
        ball(1.6, y + 0.44, z, 0.06, DARK, spacing=0.035),
        board,
        *[stack(0.05 + 0.36 * i, y, -3.15, jar(0.14, 0.30 + 0.08 * i), c, spacing=0.07)
          for i, c in enumerate((WHITE, (0.36, 0.50, 0.58)))],
    ]  # fmt: skip
    return [*parts, *plant(-1.2, y, -3.1), *kettle(-3.9, y, -2.95)]


def plant(x: float, y: float, z: float) -> Things:
    """Herbs in a clay pot."""
    clay = [(0, 0), (0.15, 0), (0.20, 0.30), (0.17, 0.31), (0, 0.28)]
    parts = [stack(x, y, z, clay, (0.78, 0.44, 0.29), spacing=0.065)]
    for i, angle in enumerate(np.radians(range(0, 360, 45))):
        green = (0.22 + 0.06 * (i % 2), 0.48 + 0.06 * (i % 3), 0.20)
        at = (x + 0.15 * math.cos(angle), y + 0.40 + 0.10 * (i % 3), z + 0.15 * math.sin(angle))
        parts.append(ball(*at, (0.11, 0.15, 0.11), green, spacing=0.08))
    return [*parts, ball(x, y + 0.55, z, (0.14, 0.18, 0.14), (0.30, 0.58, 0.24), spacing=0.07)]


def kettle(x: float, y: float, z: float) -> Things:
    """A cream kettle with a handle."""
    body = [(0, 0), (0.24, 0), (0.25, 0.10), (0.15, 0.40), (0.10, 0.44), (0, 0.46)]
    t = np.radians(np.linspace(0, 180, 20))
    path = np.stack([x + 0.16 * np.cos(t), y + 0.42 + 0.2 * np.sin(t), z + 0 * t], axis=-1)
    return [
        stack(x, y, z, body, CREAM, spacing=0.07),
        tube(path, 0.025).but(paint=DARK, spacing=0.03),
    ]
