"""A bowling hall: a ball and the ten pins it can knock over, as one scene with eleven objects.

The ball is object 0 and rolls along +x; the pins are objects 1 to 10, numbered as bowlers do. y is
up, and all of the floor is level with the lane at y = 0, but for shallow gutters. The hall is open
on the +z side, from where it is meant to be seen.

Light painted on a rolling ball would roll with it. The moving objects are therefore shaded by
spherical harmonics about their normals, as a lamp at the camera would: see :func:`turnable`.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

import numpy as np
import torch

from ..base import rotations
from ..scene import sh
from ..scene.gaussians import GaussianScene, color_to_sh, join
from .scenery import Things, block, hashed
from .surfaces import (
    GOLDEN,
    OVERLAP,
    Array,
    Color,
    Discs,
    Paint,
    Surface,
    ellipsoid,
    fill,
    frames_of,
    mix,
    mottle,
    quad,
    revolve,
    round_discs,
)

Profile = list[tuple[float, float]]

SHELL_GAUSSIANS = 1800  # of the ball, less those where its holes are
COLLAR_GAUSSIANS = 360  # in and around the three holes
PIN_GAUSSIANS = 1400
HALL_GAUSSIANS = 11_000

BALL_RADIUS = 0.18
BALL_START = (-2.1, BALL_RADIUS, 0.0)
HOLES = ((-15, 42), (21, 42), (3, 8))  # degrees from z towards x, and above the horizon
HOLE_RADIUS, COLLAR_RADIUS = 0.024, 0.042

PIN_HEIGHT, PIN_RADIUS = 0.55, 0.10
PIN_DISTANCE = 0.42
SPOTS = tuple(
    (0.75 + row * PIN_DISTANCE * math.sqrt(0.75), 0.0, (place - row / 2) * PIN_DISTANCE)
    for row in range(4)
    for place in range(row + 1)
)
"""Where the pins stand: the head pin first, each row from the bowler's left (-z) to the right."""
# Height and diameter of a regulation pin in inches, its foot a little wider; above, an arc.
REGULATION = (
    (0.0, 2.45), (0.75, 3.00), (2.25, 3.906), (3.375, 4.51), (4.5, 4.766), (5.875, 4.563),
    (7.25, 3.703), (8.625, 2.472), (9.375, 1.965), (10.0, 1.797), (10.875, 1.870), (11.75, 2.094),
    (12.625, 2.406), (13.5, 2.547),
)  # fmt: skip
REGULATION_HEIGHT = 15.0
STRIPES = ((0.338, 0.357), (0.372, 0.391))  # heights between which the neck is red
NECK = (0.312, 0.417)  # and between which it is finely covered

LANE_START, LANE_END, LANE_HALF = -2.5, 2.5, 0.9  # x of the foul line and the pit; half the width
BOARDS = 19
BOARD = 2 * LANE_HALF / BOARDS
GUTTER = (
    (0.0, 0.0), (0.012, -0.03), (0.045, -0.055), (0.10, -0.065), (0.155, -0.055), (0.188, -0.03),
    (0.20, 0.0),
)  # fmt: skip
"""Its section: distance from the lane and height."""
RAIL = (1.10, 1.15, 1.25, 1.30)  # z of the edges of steel, rail and steel between two gutters
NEXT_LANE = (1.5, 3.3)  # z
HALL_START, HALL_END, HALL_BACK = -7.0, 2.9, -1.9  # x of both ends, z of the wall along the lane
HALL_TOP = 3.0
LAMPS = tuple(-5.6 + 1.6 * k for k in range(6))  # x of those on the wall
LAMP_HEIGHT = 1.72

DUSK: Color = (0.050, 0.062, 0.110)
WHITE: Color = (0.97, 0.96, 0.93)
RED: Color = (0.80, 0.05, 0.08)
MAPLE: Color = (0.92, 0.67, 0.39)
WALNUT: Color = (0.22, 0.11, 0.06)
STEEL: Color = (0.62, 0.66, 0.74)
BLUE: Color = (0.12, 0.16, 0.36)
STRIPED = (
    (0.0, 0.08, (0.30, 0.34, 0.50)), (0.08, 0.16, BLUE), (0.16, 0.67, BLUE), (0.67, 0.75, BLUE),
    (0.75, 0.83, (0.99, 0.82, 0.45)), (0.83, 0.88, BLUE), (0.88, 0.96, (0.97, 0.53, 0.22)),
    (0.96, 1.01, BLUE), (1.01, 1.09, (0.86, 0.20, 0.22)), (1.09, 1.17, BLUE),
    (1.17, HALL_TOP, BLUE),
)  # fmt: skip
"""Bands of the wall: from which height to which, and the colour."""
RACKED: tuple[Color, ...] = (
    (0.90, 0.16, 0.20), (0.97, 0.60, 0.12), (0.10, 0.62, 0.60), (0.55, 0.22, 0.75),
    (0.92, 0.82, 0.20),
)  # fmt: skip


@cache
def bowling() -> GaussianScene:
    """The whole scene."""
    one = pin()
    pins = [placed(one, spot, i) for i, spot in enumerate(SPOTS, start=1)]
    return join(placed(ball(), BALL_START, 0), *pins, hall())


def placed(thing: GaussianScene, at: Sequence[float], index: int) -> GaussianScene:
    """An object at its place, as object ``index``."""
    shift = thing.means.new_tensor(list(at))
    return thing.replace(means=thing.means + shift, ids=torch.full_like(thing.ids, index))


def turnable(scene: GaussianScene, *, edge: float, front: float) -> GaussianScene:
    """Discs shaded as by a lamp at the camera, which looks the same however they are turned.

    With x the cosine between normal and eye, a colour c becomes ``c (edge + (front - edge) x)``:
    the part with x is of degree 1 in the direction from which a disc is seen.
    """
    functions = sh.basis(-rotations.to_matrix(scene.quats)[..., 2], 1)[:, 1:, None]
    c = scene.colors
    linear = functions / sh.C1**2 * ((front - edge) * c)[:, None]
    return scene.replace(sh=torch.cat([color_to_sh(edge * c), linear], dim=1))


def ball() -> GaussianScene:
    """A marbled ball around the origin; its holes are near +z, where they stay in sight."""
    shell = ellipsoid((0, 0, 0), BALL_RADIUS).but(paint=marble, glow=1.0, opacity=0.99, spread=1.12)
    axes = np.array([direction(*angles) for angles in HOLES])
    collars = [shell.but(sample=collar(axis), area=1.0) for axis in axes]
    whole = fill(SHELL_GAUSSIANS, [shell])
    rise = whole.means.double() @ torch.from_numpy(axes).T
    kept = whole[rise.amax(-1) < math.sqrt(BALL_RADIUS**2 - COLLAR_RADIUS**2)]
    return turnable(join(kept, fill(COLLAR_GAUSSIANS, collars)), edge=0.6, front=1.3)


def marble(p: Array) -> Array:
    """Blue clouds with pale veins, and dark holes."""
    d = p / BALL_RADIUS
    cloud = mix((0.02, 0.06, 0.34), (0.05, 0.27, 0.80), 0.5 + 0.7 * mottle(d, size=0.7, seed=8))
    phase = d @ np.array((3.4, 2.2, -1.2)) + 2.2 * mottle(d, size=1.0, seed=4)
    color = mix(cloud, (0.72, 0.90, 1.0), 1.1 - np.abs(np.sin(phase)) / 0.24)
    for angles in HOLES:
        off = np.linalg.norm(d - direction(*angles), axis=-1)
        color[off < HOLE_RADIUS / BALL_RADIUS] = (0.012, 0.014, 0.03)
    return color


def direction(azimuth: float, elevation: float) -> tuple[float, float, float]:
    """A unit vector, ``azimuth`` degrees from z towards x."""
    a, b = math.radians(azimuth), math.radians(elevation)
    return math.cos(b) * math.sin(a), math.sin(b), math.cos(b) * math.cos(a)


def collar(axis: Array) -> Callable[[int], Discs]:
    """Fine discs on the ball around ``axis``, for a hole with a sharp edge."""
    first, second, _ = frames_of(axis[None])[0].T

    def sample(n: int) -> Discs:
        r = COLLAR_RADIUS * np.sqrt((np.arange(n) + 0.5) / n)[:, None]
        turn = 2 * math.pi * GOLDEN * np.arange(n)[:, None]
        flat = r * np.cos(turn) * first + r * np.sin(turn) * second
        means = flat + np.sqrt(BALL_RADIUS**2 - r**2) * axis
        return round_discs(means, means, OVERLAP * COLLAR_RADIUS * math.sqrt(math.pi / n))

    return sample


def pin() -> GaussianScene:
    """A pin that stands on the origin: white, two red stripes around its neck, a flat base."""
    outline = pin_profile()
    heights = sorted({0.0, *NECK, *STRIPES[0], *STRIPES[1], PIN_HEIGHT})
    parts = [revolve([(0, 0), outline[0]]).but(paint=(0.80, 0.78, 0.74))]
    for low, high in pairwise(heights):
        paint: Paint = RED if (low, high) in STRIPES else lacquer
        fine = NECK[0] <= low < NECK[1]
        part = revolve(between(outline, low, high))
        parts.append(part.but(paint=paint, spacing=0.6 if fine else 1.0))
    whole = [s.but(opacity=0.99, glow=0.75, spread=1.15) for s in parts]
    return turnable(fill(PIN_GAUSSIANS, whole, ambient=0.55), edge=0.68, front=1.1)


def lacquer(p: Array) -> Array:
    """White, and worn at the foot."""
    return mix((0.62, 0.58, 0.52), WHITE, 0.15 + p[:, 1] / 0.055)


def pin_profile() -> Profile:
    """Radius and height from the rim of the base to the tip, in small steps."""
    inches, diameters = np.array(REGULATION).T
    y = np.linspace(0, inches[-1], 120)
    r = smooth(y, inches, diameters / 2)
    angle = np.linspace(0, math.pi / 2, 30)[1:]
    y = np.concatenate([y, inches[-1] + (REGULATION_HEIGHT - inches[-1]) * np.sin(angle)])
    r = np.concatenate([r, r[-1] * np.cos(angle)])
    r, y = r * PIN_RADIUS / r.max(), y * PIN_HEIGHT / REGULATION_HEIGHT
    return list(zip(r.tolist(), y.tolist(), strict=True))


def smooth(x: Array, knots: Array, values: Array) -> Array:
    """The cubic through given values whose slope at a knot is that between its neighbours."""
    slope = np.gradient(values, knots)
    k = (np.searchsorted(knots, x, side="right") - 1).clip(0, len(knots) - 2)
    h = knots[k + 1] - knots[k]
    t = (x - knots[k]) / h
    a, b, da, db = values[k], values[k + 1], slope[k] * h, slope[k + 1] * h
    cubic: Array = a + t * (da + t * (3 * (b - a) - 2 * da - db + t * (2 * (a - b) + da + db)))
    return cubic


def between(profile: Profile, low: float, high: float) -> Profile:
    """The part of a rising profile between two heights."""
    r, y = np.array(profile).T
    ends = [(float(np.interp(h, y, r)), h) for h in (low, high)]
    return [ends[0], *[point for point in profile if low < point[1] < high], ends[1]]


def hall() -> GaussianScene:
    """Lane, gutters, floor, walls, and balls on a rack; most Gaussians where the lane is."""
    painted = [*lane(), *gutters(), *next_lane(), *floor(), *walls()]
    things = [*[s.but(glow=1.0) for s in painted], *rack()]
    return fill(HALL_GAUSSIANS, [s.but(opacity=0.98) for s in things], ambient=0.3)


def dimmed(color: Array | Color, p: Array) -> Array:
    """A colour on the floor in the light of the hall: dusk away from the lane."""
    x, z = p[:, 0], p[:, 2]
    along, off = np.maximum(np.abs(x - 0.2) - 2.2, 0) / 2.8, np.maximum(np.abs(z) - 1.0, 0) / 1.8
    return mix(DUSK, color, np.exp(-(along**2) - off**2))


def flat(color: Color) -> Paint:
    """Paint of one colour for the floor."""
    return lambda p: dimmed(color, p)


def sheet(
    x: tuple[float, float], z: tuple[float, float], paint: Paint, spacing: float, stretch: float = 1
) -> Surface:
    """A rectangle of the floor; its discs stand in rows along x, ``stretch`` as long as wide."""
    corners = [(x[0], 0, z[1]), (x[1], 0, z[1]), (x[1], 0, z[0]), (x[0], 0, z[0])]
    return quad(*corners, stretch=stretch).but(paint=paint, spacing=spacing)


def lane() -> Things:
    """Boards from the dark foul line to a dark tail plank, and the approach before them."""
    line, tail = LANE_START + 0.06, LANE_END - 0.09
    wide = (-RAIL[2], NEXT_LANE[1])
    return [
        *boards(line, line + 0.2, 0.035, 0.5),  # short discs: the long ones would end unevenly
        *boards(line + 0.2, tail - 0.2, 0.042, 2),
        *boards(tail - 0.2, tail, 0.035, 0.5),
        sheet((HALL_START, LANE_START), wide, wood, 0.14, 3),
        sheet((LANE_START, line), wide, flat(WALNUT), 0.04, 0.5),
        sheet((tail, LANE_END), (-LANE_HALF, LANE_HALF), flat(WALNUT), 0.04, 0.5),
    ]


def boards(start: float, end: float, spacing: float, stretch: float) -> Things:
    """A length of the lane, board by board."""
    edges = [LANE_HALF * (2 * k / BOARDS - 1) for k in range(BOARDS + 1)]
    return [sheet((start, end), z, wood, spacing, stretch) for z in pairwise(edges)]


def wood(p: Array) -> Array:
    """Maple boards of many tones, darts to aim at, and dark spots where the pins stand."""
    x, z = p[:, 0], p[:, 2]
    place = (z + LANE_HALF) / BOARD
    board = np.floor(place)
    plank = np.floor(x / 2.1 + 5 * hashed(board, seed=2))
    tone = 0.84 + 0.24 * hashed(board, plank) + 0.05 * mottle(p * (0.5, 1, 9), size=0.5, seed=3)
    tone *= 1 - 0.5 * (place - board - 0.5) ** 2  # darker towards the joints
    for spot in SPOTS:
        tone *= 1 - 0.35 * np.exp(-((x - spot[0]) ** 2 + (z - spot[2]) ** 2) / (2 * 0.05**2))
    return dimmed(mix(np.array(MAPLE) * tone[:, None], WALNUT, 0.85 * darts(x, z)), p)


def darts(x: Array, z: Array) -> Array:
    """One where one of seven darts is, each a board wide, else zero."""
    found = np.zeros(len(x))
    for k in range(-3, 4):
        behind = (-0.35 - 0.2 * abs(k) - x) / 0.34  # from its tip
        half = BOARD * (0.15 + 0.45 * behind)
        found += (behind > 0) & (behind < 1) & (np.abs(z - 2 * k * BOARD) < half)
    return found


def gutters() -> Things:
    """A trough on either side, and beyond it a rail that is level with the lane."""
    out = []
    for side in (-1, 1):
        out += trough(side, LANE_HALF, 0.055)
        a, b, c, _ = (side * z for z in RAIL)
        out += [rail(a, b, flat(STEEL), 0.045), rail(b, c, flat((0.14, 0.18, 0.32)), 0.06)]
    return out


def next_lane() -> Things:
    """The gutter and the boards of another lane, at the +z side."""
    return [
        rail(RAIL[2], RAIL[3], flat(STEEL), 0.045),
        *trough(1, RAIL[3], 0.07),
        sheet((LANE_START, LANE_END), NEXT_LANE, wood, 0.10, 2.5),
    ]


def trough(side: int, start: float, spacing: float) -> Things:
    """A gutter that begins at the distance ``start`` from the middle."""
    deepest = min(y for _, y in GUTTER)

    def gray(p: Array) -> Array:
        return dimmed(mix((0.34, 0.36, 0.42), (0.16, 0.17, 0.22), p[:, 1] / deepest), p)

    points = [(side * (start + z), y) for z, y in GUTTER]
    return [band(a, b, gray, spacing) for a, b in pairwise(points)]


def rail(z0: float, z1: float, paint: Paint, spacing: float) -> Surface:
    """A level band along the lane."""
    return band((z0, 0.0), (z1, 0.0), paint, spacing)


def band(a: tuple[float, float], b: tuple[float, float], paint: Paint, spacing: float) -> Surface:
    """A band along the lane between two points (z, y) of its section, facing up."""
    (z0, y0), (z1, y1) = sorted((a, b))
    near = [(LANE_START, y1, z1), (LANE_END, y1, z1)]
    far = [(LANE_END, y0, z0), (LANE_START, y0, z0)]
    return quad(*near, *far, stretch=4).but(paint=paint, spacing=spacing)


def floor() -> Things:
    """Dark carpet around the lanes."""

    def carpet(p: Array) -> Array:
        tone = 1 + 0.1 * mottle(p, size=0.6, seed=5)
        return dimmed(np.array((0.15, 0.18, 0.30)) * tone[:, None], p)

    near = NEXT_LANE[1]
    return [
        sheet((HALL_START, HALL_END), (near, near + 1.6), carpet, 0.25),
        sheet((HALL_START, HALL_END), (HALL_BACK, -RAIL[2]), carpet, 0.12, 2),
        sheet((LANE_END, HALL_END), (-RAIL[2], near), carpet, 0.11),
    ]


def walls() -> Things:
    """A striped wall with lamps along the lane, and a plain one behind the pins."""
    stripes = [stripe(*given) for given in STRIPED]
    y, z = HALL_TOP, (HALL_BACK, RAIL[0])
    end = quad((HALL_END, 0, z[0]), (HALL_END, 0, z[1]), (HALL_END, y, z[1]), (HALL_END, y, z[0]))
    lamps = [ellipsoid((x, LAMP_HEIGHT, HALL_BACK + 0.06), (0.05, 0.10, 0.05)) for x in LAMPS]
    return [
        *stripes,
        end.but(paint=lambda p: fading((0.09, 0.11, 0.24), p), spacing=0.17),
        *[lamp.but(paint=(1.0, 0.93, 0.78), spacing=0.04) for lamp in lamps],
    ]


def stripe(low: float, high: float, color: Color) -> Surface:
    """A band of the wall along the lane; narrow ones are finely covered."""
    a, b, z = HALL_START - 2, HALL_END, HALL_BACK
    wall = (a, low, z), (b, low, z), (b, high, z), (a, high, z)

    def paint(p: Array) -> Array:
        return fading(color, p) + lamplight(p) * (0.35 + np.array(color))

    if high - low < 0.1:
        return quad(*wall, stretch=8).but(paint=paint, spacing=0.09)
    return quad(*wall, stretch=3).but(paint=paint, spacing=0.16)


def fading(color: Color, p: Array) -> Array:
    """A colour on a wall: dusk above, and far from the pins."""
    along = np.maximum(np.abs(p[:, 0] - 0.6) - 1.5, 0) / 3.5
    above = np.maximum(p[:, 1] - 1, 0) / 1.6
    return mix(DUSK, color, np.exp(-(along**2) - above**2))


def lamplight(p: Array) -> Array:
    """Warm cones above and below every lamp, weaker the farther from the pins."""
    off = np.abs(p[:, 1] - LAMP_HEIGHT)
    wide, fall = 0.10 + 0.42 * off, np.exp(-off / 0.5)
    cones = [
        np.exp(-(((p[:, 0] - x) / wide) ** 2)) * fall * math.exp(-((x / 6) ** 2)) for x in LAMPS
    ]
    warm: Array = np.sum(cones, axis=0)[:, None] * np.array((0.85, 0.64, 0.40))
    return warm


def rack() -> Things:
    """More balls, on a bench by the wall."""
    x, z = -2.8, HALL_BACK + 0.32
    balls = [ellipsoid((x + 0.40 * (k - 2), 0.44, z), 0.16) for k in range(len(RACKED))]
    legs = [
        leg
        for side in (-0.9, 0.9)
        for leg in block((x + side, 0.10, z), (0.10, 0.20, 0.24), (0.20, 0.22, 0.28), spacing=0.08)
    ]
    return [
        *[b.but(paint=c, gloss=0.8, spacing=0.045) for b, c in zip(balls, RACKED, strict=True)],
        *block((x, 0.24, z), (2.1, 0.09, 0.30), (0.42, 0.44, 0.52), spacing=0.07),
        *legs,
    ]
