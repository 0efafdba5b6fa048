"""Props in the scenes.

Each is modelled at the far side, facing +z, at about the distance it is seen from.
"""

import math
from collections.abc import Sequence

import numpy as np

from .scenery import STEEL, WOOD, Things, ball, block, hashed, line, panel, pole, stack
from .surfaces import Array, Color, Paint, Surface, mix

DARK: Color = (0.16, 0.16, 0.18)
GOLD: Color = (0.86, 0.70, 0.36)
WHITE: Color = (0.97, 0.96, 0.93)
FUR: Color = (0.66, 0.46, 0.30)
BOOKS: tuple[Color, ...] = (
    (0.75, 0.27, 0.24), (0.22, 0.42, 0.62), (0.92, 0.74, 0.32), (0.33, 0.55, 0.42),
    (0.55, 0.38, 0.58),
)  # fmt: skip
LIQUIDS: tuple[Color, ...] = (
    (0.25, 0.72, 0.52), (0.95, 0.52, 0.25), (0.32, 0.55, 0.92), (0.93, 0.35, 0.50),
    (0.93, 0.80, 0.25), (0.58, 0.40, 0.82),
)  # fmt: skip


def sky_view(p: Array) -> Array:
    """What is seen through a window: pale sky above, green below."""
    return mix((0.66, 0.82, 0.62), (0.72, 0.87, 0.98), (p[:, 1] - 2.4) / 0.8)


def window(x: float, y: float, z: float, width: float, height: float) -> Things:
    """A window with a cross of bars."""
    z1, w, h = z + 0.15, width / 2, height / 2
    return [
        panel(x, y, z, width, height, sky_view, spacing=0.35),
        *border(x, y, z1, width, height, WHITE),
        line((x, y - h, z1), (x, y + h, z1), WHITE, width=0.06),
        line((x - w, y, z1), (x + w, y, z1), WHITE, width=0.06),
    ]


def framed(
    x: float, y: float, z: float, width: float, height: float, paint: Paint, color: Color,
    *, spacing: float = 0.25,
) -> Things:  # fmt: skip
    """A picture in a frame."""
    picture = panel(x, y, z, width, height, paint, spacing=spacing)
    return [picture, *border(x, y, z + 0.1, width, height, color)]


def border(x: float, y: float, z: float, width: float, height: float, color: Color) -> Things:
    """Four bars around a rectangle."""
    w, h = width / 2 + 0.05, height / 2 + 0.05
    corners = [(x - w, y - h, z), (x + w, y - h, z), (x + w, y + h, z), (x - w, y + h, z)]
    pairs = zip(corners, [*corners[1:], corners[0]], strict=True)
    return [line(a, b, color, width=0.07) for a, b in pairs]


def sofa(z: float, color: Color, *, y: float = 0.0) -> Things:
    """Seat, back, arms and two cushions, 5 wide."""
    r, g, b = (min(1.0, 1.15 * c) for c in color)
    return [
        *block((0, y + 0.45, z), (5, 0.9, 1.7), color),
        *block((0, y + 1.15, z - 0.7), (5, 1.5, 0.5), color),
        *block((-2.6, y + 0.75, z), (0.5, 1.4, 1.8), (r, g, b)),
        *block((2.6, y + 0.75, z), (0.5, 1.4, 1.8), (r, g, b)),
        ball(-1.3, y + 1.25, z - 0.3, (0.6, 0.5, 0.25), (0.95, 0.72, 0.26)),
        ball(1.3, y + 1.25, z - 0.3, (0.6, 0.5, 0.25), (0.93, 0.90, 0.84)),
    ]


def potted_plant(x: float, y: float, z: float, *, scale: float = 1.0) -> Things:
    """A terracotta pot with upright leaves."""
    profile = [(0, 0), (0.35, 0), (0.5, 0.8), (0.42, 0.8), (0, 0.75)]
    parts = [stack(0, 0, 0, profile, (0.74, 0.40, 0.26))]
    for i, a in enumerate(np.linspace(0, 2 * math.pi, 6, endpoint=False)):
        green = (0.18, 0.47 + 0.05 * (i % 2), 0.22)
        at = (0.55 * math.cos(a), 1.5 + 0.45 * (i % 3), 0.55 * math.sin(a))
        parts.append(ball(*at, (0.28, 0.62, 0.28), green))
    return [s.moved((x, y, z), scale=scale) for s in parts]


def floor_lamp(x: float, y: float, z: float) -> Things:
    """A pole with a bright shade."""
    shade = stack(x, y + 3.55, z, [(0.75, 0), (0.5, 1.0)], (1.0, 0.93, 0.72), glow=1.0)
    return [pole(x, z, y, y + 3.65, 0.06, STEEL), shade]


def bookcase(y: float, z: float) -> Things:
    """A low cabinet with a row of books on it."""
    parts = block((0, y + 1.4, z), (4.4, 2.8, 1.0), (0.86, 0.80, 0.70), spacing=0.4)
    for i in range(7):
        size = (0.24, 0.7 + 0.08 * (i % 3), 0.6)
        parts += block((-1.7 + 0.3 * i, y + 3.15, z + 0.1), size, BOOKS[i % 5], spacing=0.25)
    return parts


def softbox() -> Things:
    """A studio lamp on a stand."""
    legs = [line((0, 0.7, -8.5), (x, 0, -8.2), DARK, width=0.05) for x in (-0.6, 0.6)]
    light = framed(0, 2.9, -8.4, 2.4, 2.0, (1.0, 0.99, 0.94), DARK)
    return [*light, pole(0, -8.6, 0, 1.9, 0.07, DARK), *legs]


def tripod() -> Things:
    """A camera on three legs."""
    lens = stack(0, 1.7, -7.6, [(0, 0), (0.26, 0), (0.26, 0.4), (0, 0.4)], DARK, spacing=0.15)
    feet = ((-0.7, -7.6), (0.7, -7.6), (0, -8.6))
    legs = [line((0, 1.6, -8.0), (x, 0, z), DARK, width=0.05, step=0.4) for x, z in feet]
    return [*block((0, 1.9, -8.0), (0.9, 0.6, 0.5), DARK, spacing=0.2), lens, *legs]


def tree(z: float, height: float, leaves: Color) -> Things:
    """A trunk under three puffs of leaves."""
    crown = 0.30 * height

    def foliage(p: Array) -> Array:
        light = 0.5 + 0.5 * np.tanh((p[:, 1] - 0.7 * height) / crown)
        return np.asarray(leaves) * (0.62 + 0.6 * light)[:, None]

    def puff(x: float, y: float, k: float) -> Surface:
        radii = (k * crown, 0.85 * k * crown, k * crown)
        return ball(x * crown, y * height, z, radii, foliage, spacing=0.5)

    trunk = pole(0, z, 0, 0.55 * height, 0.05 * height, (0.36, 0.25, 0.16))
    return [trunk, puff(0, 0.72, 1.0), puff(-0.55, 0.56, 0.72), puff(0.55, 0.58, 0.75)]


def bench() -> Things:
    """A park bench."""
    seat = block((0, 0.5, -7.2), (2.4, 0.12, 0.7), WOOD, spacing=0.25)
    back = block((0, 0.95, -7.5), (2.4, 0.5, 0.1), WOOD, spacing=0.25)
    return [*seat, *back, *[pole(x, -7.2, 0, 0.5, 0.06, STEEL) for x in (-1, 1)]]


def cloud() -> Things:
    """Three white puffs, high and far."""
    puffs = ((0.0, 0.0, 1.5), (0.9, 0.4, 1.2), (-1.3, -0.4, 1.2))
    return [
        ball(x, 7.6 + y, -15, (r, 0.75, 0.8), (1, 1, 1), spacing=0.8, glow=1.0, opacity=0.8)
        for x, y, r in puffs
    ]


def cooking_pot(x: float) -> Things:
    """A red pot with a lid."""
    profile = [(0, 0), (0.8, 0), (0.85, 1.1), (0.75, 1.15), (0, 1.3)]
    return [stack(x, 0, -8.4, profile, (0.78, 0.20, 0.16)), ball(x, 1.4, -8.4, 0.13, DARK)]


def jars() -> Things:
    """Three storage jars and a wooden board."""
    colors: Sequence[Color] = ((0.95, 0.90, 0.80), (0.86, 0.64, 0.30), (0.60, 0.34, 0.20))
    parts = block((4.3, 0.55, -8.6), (1.4, 1.1, 0.2), WOOD, spacing=0.25)
    for i, color in enumerate(colors):
        h = 0.9 + 0.1 * i
        profile = [(0, 0), (0.36, 0), (0.36, h), (0.3, h + 0.1), (0, h + 0.15)]
        parts.append(stack(0.2 + i, 0, -8.6, profile, color))
    return parts


def kitchen_shelf() -> Things:
    """A wall shelf with four pots."""
    parts = block((0, 3.2, -10.9), (8, 0.16, 0.9), (0.50, 0.31, 0.17), bottom=True)
    colors: Sequence[Color] = (
        (0.93, 0.93, 0.90), (0.33, 0.52, 0.48), (0.90, 0.70, 0.34), (0.75, 0.30, 0.22),
    )  # fmt: skip
    profile = [(0, 0), (0.42, 0), (0.42, 0.75), (0, 0.8)]
    places = zip((-3, -1.8, 1.2, 2.8), colors, strict=True)
    return parts + [stack(x, 3.28, -10.9, profile, color) for x, color in places]


def fruit_bowl() -> Things:
    """Three fruits in a white bowl."""
    profile = [(0, 0), (0.5, 0), (1.0, 0.5), (0.9, 0.52), (0, 0.2)]
    fruits: Sequence[tuple[float, Color]] = (
        (0.3, (0.90, 0.22, 0.15)), (2.4, (0.98, 0.62, 0.12)), (4.4, (0.55, 0.75, 0.22)),
    )  # fmt: skip
    return [stack(0, 0, -8.2, profile, (0.93, 0.91, 0.87))] + [
        ball(0.35 * math.cos(a), 0.6, -8.2 + 0.35 * math.sin(a), 0.32, c) for a, c in fruits
    ]


def block_tower() -> Things:
    """Three building blocks under a roof."""
    return [
        *block((-0.75, 0.5, -7), (1, 1, 1), (0.95, 0.76, 0.20)),
        *block((0.75, 0.5, -7), (1, 1, 1), (0.25, 0.58, 0.86)),
        *block((0, 1.5, -7), (1, 1, 1), (0.35, 0.72, 0.38)),
        stack(0, 2.0, -7, [(0.6, 0), (0, 1.0)], (0.60, 0.38, 0.75)),
    ]


def stacking_rings() -> Things:
    """A rainbow of rings on a peg."""
    colors: Sequence[Color] = (
        (0.90, 0.30, 0.28), (0.97, 0.60, 0.20), (0.97, 0.85, 0.30), (0.45, 0.75, 0.40),
        (0.32, 0.60, 0.88),
    )  # fmt: skip
    parts = [ball(0, 2.0, -7, 0.3, (0.62, 0.42, 0.78))]
    for i, color in enumerate(colors):
        r = 0.95 - 0.13 * i
        profile = [(0, 0), (r, 0), (r + 0.07, 0.18), (r, 0.34), (0, 0.35)]
        parts.append(stack(0, 0.36 * i, -7, profile, color))
    return parts


def beach_ball() -> Things:
    """A ball of red, white and blue wedges."""
    colors = np.array([(0.95, 0.35, 0.33), WHITE, (0.28, 0.58, 0.86)])

    def wedges(p: Array) -> Array:
        turn = np.arctan2(p[:, 2] + 7.2, p[:, 0] - 3.4) / (math.pi / 3)
        return colors[np.floor(turn).astype(int) % 3]

    return [ball(3.4, 0.85, -7.2, 0.85, wedges, spacing=0.2)]


def teddy_bear() -> Things:
    """A sitting bear."""
    eyes = [ball(x, 2.05, -6.88, 0.07, (0.1, 0.08, 0.07), spacing=0.12) for x in (-0.18, 0.18)]
    limbs = []
    for k in (-1, 1):
        limbs += [
            ball(0.42 * k, 2.4, -7.4, 0.2, FUR),
            ball(0.6 * k, 0.25, -6.9, (0.25, 0.25, 0.4), FUR),
            ball(0.75 * k, 1.1, -7.2, (0.22, 0.45, 0.22), FUR),
        ]
    body = [ball(0, 0.8, -7.4, (0.75, 0.8, 0.6), FUR), ball(0, 1.95, -7.4, 0.55, FUR)]
    return [*body, *limbs, *eyes, ball(0, 1.85, -6.9, 0.2, (0.90, 0.78, 0.62))]


def screen() -> Things:
    """A monitor that shows hills at sunset."""

    def picture(p: Array) -> Array:
        hill = p[:, 1] < 1.5 + 0.5 * np.sin(1.2 * p[:, 0])
        sky = mix((0.98, 0.72, 0.50), (0.36, 0.50, 0.80), (p[:, 1] - 1.2) / 2)
        return np.where(hill[:, None], (0.28, 0.56, 0.55), sky)

    return [
        *framed(0, 2.1, -7.0, 4.4, 2.5, picture, DARK, spacing=0.2),
        *block((0, 0.4, -7.3), (0.5, 0.8, 0.2), (0.22, 0.22, 0.24), spacing=0.2),
        *block((0, 0.05, -7.2), (1.8, 0.1, 0.9), (0.22, 0.22, 0.24), spacing=0.25),
    ]


def keyboard() -> Things:
    """Pale keys on a dark board."""

    def keys(p: Array) -> Array:
        gaps = [np.abs(p[:, a] * 3 - np.round(p[:, a] * 3)) < 0.16 for a in (0, 2)]
        return np.where((gaps[0] | gaps[1])[:, None], (0.30, 0.31, 0.33), (0.90, 0.90, 0.91))

    return block((0, 0.08, -5.2), (3.6, 0.16, 1.3), keys, spacing=0.14)


def book_pile() -> Things:
    """Five books, not quite straight."""
    parts: Things = []
    for i in range(5):
        size = (2.4 - 0.12 * i, 0.32, 1.7)
        parts += block((0.1 * math.sin(3 * i), 0.17 + 0.34 * i, -6.8), size, BOOKS[i], spacing=0.28)
    return parts


def pencil_cup() -> Things:
    """Four pencils in a cup."""
    cup = stack(2.6, 0, -6.4, [(0, 0), (0.45, 0), (0.45, 1.1), (0.4, 1.1)], (0.30, 0.33, 0.40))
    return [cup] + [
        pole(2.6 + 0.2 * math.cos(a), -6.4 + 0.2 * math.sin(a), 0.9, 1.9 + 0.15 * i, 0.05, BOOKS[i])
        for i, a in enumerate((0.2, 1.7, 3.0, 4.6))
    ]


def desk_lamp() -> Things:
    """A yellow lamp."""
    yellow = (0.93, 0.71, 0.23)
    return [
        stack(-3.4, 0, -6.8, [(0, 0), (0.7, 0), (0.7, 0.12), (0, 0.15)], yellow),
        pole(-3.4, -6.8, 0.1, 2.7, 0.06, yellow),
        stack(-2.9, 2.5, -6.8, [(0.7, 0), (0.22, 0.7), (0, 0.72)], yellow),
        ball(-2.9, 2.5, -6.8, 0.26, (1.0, 0.97, 0.82), glow=1.0),
    ]


def barrier() -> Things:
    """Two red and white boards on posts, with warning lights."""
    red = (0.88, 0.20, 0.12)
    # Each stripe is a panel of its own, so that its edges are sharp.
    boards = [
        panel(-1.8 + 0.6 * i, y, -7.4, 0.6, h, (red, WHITE)[i % 2], spacing=0.2, glow=0.8)
        for y, h in ((1.05, 0.5), (0.45, 0.3))
        for i in range(7)
    ]
    for x in (-1.7, 1.7):
        boards.append(pole(x, -7.55, 0, 1.5, 0.09, STEEL))
        boards.append(ball(x, 1.62, -7.4, 0.16, (1.0, 0.66, 0.10), glow=1.0, spacing=0.14))
    return boards


def barrel() -> Things:
    """An orange barrel with white bands."""

    def bands(p: Array) -> Array:
        white = np.abs((p[:, 1] - 0.5) % 0.6 - 0.3) < 0.12
        return np.where(white[:, None], WHITE, (0.96, 0.47, 0.08))

    return [stack(0, 0, -7.6, [(0, 0), (0.55, 0), (0.5, 1.5), (0, 1.52)], bands, spacing=0.2)]


def bricks(p: Array) -> Array:
    """Courses of bricks with mortar."""
    row = np.floor(p[:, 1] / 0.4)
    along = p[:, 0] / 0.9 + 0.5 * (row % 2)
    bed = np.abs(p[:, 1] / 0.4 - np.round(p[:, 1] / 0.4)) < 0.13
    joint = bed | (np.abs(along - np.round(along)) < 0.08)
    tone = 0.85 + 0.3 * hashed(row, np.floor(along))
    return np.where(
        joint[:, None], (0.78, 0.74, 0.68), np.array((0.70, 0.33, 0.22)) * tone[:, None]
    )


def brick_wall() -> Things:
    """A half-built wall in three steps."""
    steps = ((-3.3, 4.4, 2.4), (1.4, 5.0, 1.6), (5.4, 3.0, 0.8))
    return [panel(x, h / 2, -9.6, w, h, bricks, spacing=0.26, glow=0.6) for x, w, h in steps]


def brick_pile() -> Things:
    """Loose bricks."""
    layers = ((0.3, (1.8, 0.6, 1.1)), (0.8, (1.2, 0.4, 0.9)))
    return [s for y, size in layers for s in block((3.4, y, -7.8), size, bricks, spacing=0.22)]


def scaffold() -> Things:
    """Poles and planks."""
    parts: Things = [pole(x, -10.2, 0, 5.5, 0.08, (0.45, 0.50, 0.56)) for x in (-4, -2, 0, 2, 4)]
    for y in (1.8, 3.6, 5.4):
        parts += block(
            (0, y, -10.2), (8.4, 0.12, 0.5), (0.72, 0.55, 0.30), spacing=0.4, bottom=True
        )
    return parts


def flask(x: float, color: Color) -> Things:
    """A conical flask, half full."""
    neck = [(0.58, 0.66), (0.2, 1.35), (0.2, 2.0), (0.26, 2.05)]
    liquid = [(0, 0), (0.9, 0), (0.55, 0.65), (0, 0.66)]
    return [
        stack(x, 0, -7.2, liquid, color, opacity=0.9),
        stack(x, 0, -7.2, neck, (0.85, 0.92, 0.94), opacity=0.45),
    ]


def beaker(x: float, color: Color) -> Things:
    """A beaker, more than half full."""
    rim = [(0.6, 0.91), (0.6, 1.5), (0.66, 1.55)]
    return [
        stack(x, 0, -7.0, [(0, 0), (0.6, 0), (0.6, 0.9), (0, 0.91)], color, opacity=0.9),
        stack(x, 0, -7.0, rim, (0.86, 0.93, 0.95), opacity=0.45),
    ]


def tube_rack() -> Things:
    """Six test tubes in a wooden rack."""
    parts = [pole(-1.3 + 0.52 * i, -7.2, 0.1, 1.6, 0.15, c) for i, c in enumerate(LIQUIDS)]
    parts += [pole(x, -7.2, 0, 1.1, 0.07, WOOD) for x in (-1.55, 1.55)]
    for y in (0.35, 1.05):
        parts += block((0, y, -7.2), (3.2, 0.12, 0.6), WOOD, spacing=0.22, bottom=True)
    return parts


def microscope() -> Things:
    """Foot, arm, stage and a tube above it."""
    pale, dark = (0.86, 0.88, 0.91), (0.20, 0.24, 0.30)
    tube = [(0, 0), (0.14, 0), (0.24, 0.4), (0.24, 1.2), (0.32, 1.3), (0.32, 1.6), (0, 1.6)]
    return [
        *block((0, 0.12, -7.2), (1.5, 0.24, 1.7), dark, spacing=0.22),
        *block((0.55, 1.35, -7.6), (0.35, 2.4, 0.5), pale, spacing=0.2),
        *block((0.2, 2.5, -7.3), (1.0, 0.35, 0.6), pale, spacing=0.2),
        *block((0, 0.9, -7.1), (1.2, 0.12, 1.0), dark, spacing=0.2),
        stack(-0.25, 1.15, -7.1, tube, dark, spacing=0.18),
    ]


def rope_post() -> Things:
    """A golden post on a round foot."""
    foot = stack(0, 0, -6.2, [(0, 0), (0.35, 0), (0.35, 0.06), (0, 0.1)], GOLD)
    return [foot, pole(0, -6.2, 0, 1.25, 0.07, GOLD), ball(0, 1.35, -6.2, 0.13, GOLD, spacing=0.13)]


def spotlight() -> Things:
    """A lamp near the ceiling."""
    return [
        stack(0, 5.6, -9.5, [(0.45, 0), (0.3, 0.8), (0, 0.82)], DARK),
        ball(0, 5.6, -9.5, (0.42, 0.1, 0.42), (1.0, 0.95, 0.78), glow=1.0),
    ]
