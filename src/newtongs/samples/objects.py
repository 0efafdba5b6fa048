"""The ten objects, each in a box of height 1 around the origin (y from -0.5 to 0.5)."""

import math
from collections.abc import Callable

import numpy as np

from ..scene.gaussians import GaussianScene
from .surfaces import (
    Array,
    Color,
    Discs,
    Surface,
    box,
    cylinder,
    ellipsoid,
    fill,
    mix,
    mottle,
    quad,
    revolve,
    tube,
)

OBJECT_GAUSSIANS = 1536
FOOT = 0.12  # height over which an object darkens towards the floor it stands on

RED: Color = (0.86, 0.10, 0.10)
GLASS: Color = (0.20, 0.33, 0.44)
RUBBER: Color = (0.07, 0.07, 0.08)
CHROME: Color = (0.74, 0.76, 0.79)


def grounded(*surfaces: Surface, ambient: float = 0.5) -> GaussianScene:
    """The finished object: all its Gaussians, darker near the floor."""
    scene = fill(OBJECT_GAUSSIANS, surfaces, ambient=ambient)
    above = (scene.means[:, 1:2] + 0.5).clamp_min(0)
    colors = scene.colors * (1 - 0.3 * (-above / FOOT).exp())
    return GaussianScene.make(
        means=scene.means, scales=scene.scales, quats=scene.quats,
        opacities=scene.opacities, colors=colors,
    )  # fmt: skip


def red_toy_car() -> GaussianScene:
    """Body, cabin with windows, four wheels, lights, bumpers."""
    return grounded(*_car_body(), *_car_cabin(), *_car_wheels(), *_car_lights(), ambient=0.55)


def _car_body() -> list[Surface]:
    """A wedge of a body: nose at +x, doors and sills drawn on the sides."""
    x0, x1, y0, nose, tail, z = -0.86, 0.86, -0.34, 0.02, 0.08, 0.44
    cowl = 0.10

    def side(p: Array) -> Array:
        color = np.tile(RED, (len(p), 1))
        door = (np.abs(np.abs(p[:, 0] + 0.06) - 0.30) < 0.02) & (p[:, 1] > -0.25)
        arch = np.hypot(np.abs(p[:, 0]) - 0.52, p[:, 1] + 0.28) < 0.235
        color[door] *= 0.55
        color[p[:, 1] < -0.285] = (0.30, 0.05, 0.06)
        color[arch] = (0.05, 0.05, 0.06)
        return color

    def profile(k: float) -> list[tuple[float, float, float]]:
        points = [(x0, y0), (x1, y0), (x1, nose), (0.34, cowl), (-0.62, cowl), (x0, tail)]
        return [(x, y, k) for x, y in points]

    left, right = profile(z), profile(-z)
    middle = [
        quad(left[i], right[i], right[i + 1], left[i + 1]).but(paint=RED, gloss=0.35)
        for i in (1, 2, 4)
    ]
    middle.append(quad(right[0], left[0], left[5], right[5]).but(paint=RED))
    sides = []
    for a, b in ((left, 1), (right, -1)):
        low = quad(*((a[0], a[1], a[2], (x0, nose, a[0][2]))[::b]))
        high = quad(*(((x0, nose, a[0][2]), a[2], a[3], a[4])[::b]))
        sides += [low.but(paint=side, spacing=0.9), high.but(paint=side, spacing=0.9)]
    under = quad(right[0], right[1], left[1], left[0]).but(paint=(0.12, 0.12, 0.13), spacing=1.6)
    return [*middle, *sides, under]


def _car_cabin() -> list[Surface]:
    """Windows in a red frame, under a red roof."""
    y0, y1, z0, z1 = 0.10, 0.5, 0.42, 0.33
    low, high = (-0.66, 0.36), (-0.44, 0.10)

    def window(p: Array) -> Array:
        h = (p[:, 1] - y0) / (y1 - y0)
        front, back = (low[i] + h * (high[i] - low[i]) for i in (1, 0))
        frame = (h < 0.12) | (h > 0.82) | (front - p[:, 0] < 0.07) | (p[:, 0] - back < 0.07)
        frame |= np.abs(p[:, 0] + 0.12) < 0.035
        shine = mix(GLASS, (0.55, 0.72, 0.82), (h - 0.3) * 1.3)
        return np.where(frame[:, None], RED, shine)

    def screen(p: Array) -> Array:
        h = (p[:, 1] - y0) / (y1 - y0)
        frame = (h < 0.1) | (h > 0.86) | (np.abs(p[:, 2]) > z0 - 0.07 - h * (z0 - z1))
        return np.where(frame[:, None], RED, mix(GLASS, (0.60, 0.77, 0.86), h))

    def corner(i: int, k: float, up: bool) -> tuple[float, float, float]:
        return ((high if up else low)[i], y1 if up else y0, k * (z1 if up else z0))

    a, b, c, d = (corner(i, k, False) for i, k in ((0, 1), (1, 1), (1, -1), (0, -1)))
    e, f, g, h = (corner(i, k, True) for i, k in ((0, 1), (1, 1), (1, -1), (0, -1)))
    return [
        quad(a, b, f, e).but(paint=window, spacing=0.85),
        quad(c, d, h, g).but(paint=window, spacing=0.85),
        quad(b, c, g, f).but(paint=screen, spacing=0.85),
        quad(d, a, e, h).but(paint=screen, spacing=0.85),
        quad(e, f, g, h).but(paint=(0.93, 0.13, 0.12), gloss=0.2),
    ]


def _car_wheels() -> list[Surface]:
    """Tyres with bright hubs, turned so that their axle lies along z."""

    def tyre(p: Array) -> Array:
        r = np.hypot(np.abs(p[:, 0]) - 0.52, p[:, 1] + 0.30)
        hub = mix(CHROME, (0.42, 0.43, 0.46), (np.abs(r - 0.07) - 0.02) / 0.01)
        return np.where((r < 0.115)[:, None], hub, RUBBER)

    wheel = revolve(
        [(0, -0.06), (0.17, -0.06), (0.2, -0.035), (0.2, 0.05), (0.17, 0.075), (0, 0.075)]
    )
    return [
        _upright(wheel, (x, -0.30, z)).but(paint=tyre, spacing=0.72)
        for x in (-0.52, 0.52)
        for z in (-0.40, 0.40)
    ]


def _upright(surface: Surface, at: tuple[float, float, float]) -> Surface:
    """A body of revolution with its axis turned from y to z, its top away from the origin."""
    turn = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])
    if at[2] < 0:
        turn = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])

    def sample(n: int) -> Discs:
        d = surface.sample(n)
        return Discs(d.means @ turn.T + at, turn @ d.frames, d.sigmas)

    return Surface(surface.area, sample)


def _car_lights() -> list[Surface]:
    """Head and tail lights, grille and bumpers."""
    out = []
    for z in (-0.30, 0.30):
        out += [
            ellipsoid((0.865, -0.07, z), (0.03, 0.075, 0.09)).but(paint=(1, 0.95, 0.66), glow=1.0)
        ]
        out += [
            ellipsoid((-0.865, -0.03, z), (0.025, 0.055, 0.08)).but(
                paint=(0.55, 0.02, 0.04), glow=0.6
            )
        ]
    for x in (0.86, -0.86):
        out += [f.but(paint=CHROME) for f in box((x, -0.27, 0), (0.09, 0.09, 0.86))[:5]]
    grille = quad((0.872, -0.14, 0.16), (0.872, -0.14, -0.16), (0.872, 0, -0.16), (0.872, 0, 0.16))
    return [*[s.but(spacing=0.7) for s in out], grille.but(paint=(0.16, 0.15, 0.16))]


def blue_ceramic_mug() -> GaussianScene:
    """A hollow body with a pale rim, a white band, and a handle on the +x side."""
    blue, r, x = (0.10, 0.30, 0.74), 0.40, -0.14

    def glaze(p: Array) -> Array:
        band = np.abs(p[:, 1] + 0.18) < 0.045
        rim = p[:, 1] > 0.462
        color = mix(np.array(blue), (0.16, 0.42, 0.86), p[:, 1] + 0.5)
        color[band] = (0.92, 0.94, 0.97)
        color[rim] = (0.80, 0.87, 0.96)
        return color

    wall = revolve(
        [
            (0, -0.5),
            (0.33, -0.5),
            (r - 0.02, -0.47),
            (r, -0.42),
            (r, 0.47),
            (r - 0.02, 0.5),
            (r - 0.05, 0.49),
        ]
    )
    inner = revolve([(r - 0.055, 0.48), (r - 0.06, -0.36), (0.0, -0.40)])
    t = np.radians(np.linspace(-78, 78, 30))
    path = np.stack([r - 0.03 + 0.27 * np.cos(t), 0.02 + 0.30 * np.sin(t), 0 * t], axis=-1)
    return grounded(
        wall.but(paint=glaze, gloss=0.55).moved((x, 0, 0)),
        inner.but(
            paint=lambda p: mix((0.35, 0.45, 0.62), (0.88, 0.92, 0.97), p[:, 1] + 0.45),
            spacing=1.15,
        ).moved((x, 0, 0)),
        tube(path, 0.062).but(paint=blue, gloss=0.4, spacing=0.8).moved((x, 0, 0)),
        ambient=0.45,
    )


def black_white_soccer_ball() -> GaussianScene:
    """Twelve black pentagons on white, with the seams between the hexagons."""
    g = (1 + math.sqrt(5)) / 2
    corners = np.array([(0, i, j * g) for i in (-1, 1) for j in (-1, 1)])
    centers = np.concatenate([np.roll(corners, k, axis=1) for k in range(3)]) / math.hypot(1, g)

    def leather(p: Array) -> Array:
        return _soccer(p @ _tilt(20, 12).T * 2, centers)

    return grounded(ellipsoid((0, 0, 0), 0.5).but(paint=leather, gloss=0.12), ambient=0.6)


def _soccer(d: Array, centers: Array) -> Array:
    """Colours on unit directions ``(n, 3)`` for a ball with pentagons around the 12 centres.

    The ball is an icosahedron whose corners are cut off at a third of the edges. In the barycentric
    coordinates of a face, a pentagon is where one exceeds 2/3, a seam where another vanishes.
    """
    gram = np.full((3, 3), 1 / math.sqrt(5)) + (1 - 1 / math.sqrt(5)) * np.eye(3)
    weights = np.sort(d @ centers.T, axis=-1)[:, :-4:-1] @ np.linalg.inv(gram)
    weights /= weights.sum(-1, keepdims=True)
    color = mix((0.98, 0.98, 0.96), (0.55, 0.55, 0.56), (0.045 - weights[:, 2]) / 0.02)
    color[weights[:, 0] > 0.655] = (0.03, 0.03, 0.04)
    return color


def _tilt(yaw: float, pitch: float) -> Array:
    """A turn about y, then about x, in degrees."""
    a, b = math.radians(yaw), math.radians(pitch)
    about_y = np.array([[math.cos(a), 0, math.sin(a)], [0, 1, 0], [-math.sin(a), 0, math.cos(a)]])
    about_x = np.array([[1, 0, 0], [0, math.cos(b), -math.sin(b)], [0, math.sin(b), math.cos(b)]])
    return about_x @ about_y


def green_glass_bottle() -> GaussianScene:
    """Translucent green glass, a paper label, a neck and a cork."""
    glass, r = (0.07, 0.44, 0.20), 0.215
    shoulder = [(r, 0.06), (r * 0.96, 0.12), (r * 0.82, 0.18), (r * 0.58, 0.23), (0.085, 0.28)]
    body = revolve(
        [(0, -0.5), (r * 0.92, -0.5), (r, -0.46), *shoulder, (0.075, 0.40), (0.075, 0.44)]
    )
    ring = revolve([(0.075, 0.39), (0.098, 0.40), (0.098, 0.435), (0.075, 0.445)])
    label = revolve([(r + 0.006, -0.34), (r + 0.006, 0.0)])

    def paper(p: Array) -> Array:
        color = np.tile((0.95, 0.91, 0.80), (len(p), 1))
        color[(p[:, 1] > -0.035) | (p[:, 1] < -0.305)] = (0.74, 0.58, 0.20)
        leaf = (np.abs(p[:, 1] + 0.17) < 0.07) & (np.sin(3 * np.arctan2(p[:, 2], p[:, 0])) > 0.35)
        color[leaf] = (0.12, 0.42, 0.18)
        return color

    def tint(p: Array) -> Array:
        streak = np.exp(-((np.arctan2(p[:, 2], p[:, 0]) - 1.0) ** 2) / 0.05)
        return mix(np.array(glass), (0.72, 0.95, 0.75), 0.8 * streak + 0.12 * (p[:, 1] > 0.06))

    return grounded(
        body.but(paint=tint, opacity=0.62, gloss=0.35),
        ring.but(paint=(0.10, 0.52, 0.26), opacity=0.9, spacing=0.7),
        label.but(paint=paper, spacing=0.75),
        cylinder(0.066, 0.44, 0.5).but(paint=(0.72, 0.52, 0.32), spacing=0.7),
        ambient=0.6,
    )


def cratered_moon_sphere() -> GaussianScene:
    """Grey rock with dark maria and bright-rimmed craters."""
    rng = np.random.default_rng(11)
    centers = rng.normal(size=(44, 3))
    centers /= np.linalg.norm(centers, axis=-1, keepdims=True)
    sizes = 0.07 + 0.30 * rng.random(44) ** 2.2

    def rock(p: Array) -> Array:
        d = p * 2
        maria = mottle(d, size=1.0, seed=11)
        color = mix((0.80, 0.79, 0.75), (0.40, 0.40, 0.42), (maria - 0.15) * 2.2)
        for c, size in zip(centers, sizes, strict=True):
            far = np.arccos(np.clip(d @ c, -1, 1)) / size
            # Lit from one side: the wall away from the light is bright, the other dark.
            slope = (d - c) @ np.array([0.5, 0.75, 0.4]) / size
            color *= np.where(far < 0.85, 0.74 - 0.30 * slope, 1.0)[:, None].clip(0.35, 1.1)
            color = mix(color, (0.97, 0.96, 0.92), 0.75 * (np.abs(far - 1) < 0.17))
        return color

    return grounded(ellipsoid((0, 0, 0), 0.5).but(paint=rock), ambient=0.42)


def red_cube() -> GaussianScene:
    """A cube with slightly lighter edges, as a painted block has."""

    def block(p: Array) -> Array:
        edge = np.sort(np.abs(p), axis=-1)[:, 1] > 0.455
        return mix((0.84, 0.09, 0.11), (1.0, 0.42, 0.38), 0.75 * edge)

    return grounded(*[f.but(paint=block) for f in box((0, 0, 0), (1, 1, 1))], ambient=0.42)


def blue_sphere() -> GaussianScene:
    """A glossy ball."""
    ball = ellipsoid((0, 0, 0), 0.5).but(paint=(0.10, 0.32, 0.88), gloss=0.95)
    return grounded(ball, ambient=0.38)


def yellow_cone() -> GaussianScene:
    """A traffic cone: yellow with two white bands, on a square foot."""
    r0, r1, y0 = 0.36, 0.055, -0.43

    def plastic(p: Array) -> Array:
        white = (np.abs(p[:, 1] - 0.17) < 0.065) | (np.abs(p[:, 1] + 0.12) < 0.075)
        color = np.tile((1.0, 0.78, 0.03), (len(p), 1))
        color[white] = (0.98, 0.98, 0.96)
        color[p[:, 1] > 0.485] = (0.45, 0.34, 0.02)
        return color

    cone = revolve([(r0 + 0.04, y0), (r0, y0 + 0.03), (r1, 0.49), (r1 * 0.7, 0.5), (0, 0.5)])
    foot = [f.but(paint=(0.95, 0.70, 0.02)) for f in box((0, -0.465, 0), (0.94, 0.07, 0.94))]
    return grounded(
        cone.but(paint=plastic, spacing=0.85), *foot[:5], foot[5].but(spacing=1.5), ambient=0.4
    )


def purple_cylinder() -> GaussianScene:
    """A cylinder with a lighter lid and crisp rims."""
    side = revolve([(0.38, -0.5), (0.40, -0.48), (0.40, 0.47), (0.38, 0.5)])

    def paint(p: Array) -> Array:
        rim = np.abs(p[:, 1]) > 0.455
        return mix((0.50, 0.16, 0.70), (0.78, 0.50, 0.93), 0.7 * rim)

    lid = revolve([(0.385, 0.5), (0, 0.5)]).but(paint=(0.66, 0.34, 0.84))
    base = revolve([(0, -0.5), (0.385, -0.5)]).but(paint=(0.35, 0.10, 0.50), spacing=1.4)
    return grounded(side.but(paint=paint, gloss=0.5), lid, base, ambient=0.4)


def orange_pyramid() -> GaussianScene:
    """Four orange sides, each course of stone a little different."""
    base = [(0.5, -0.5, 0.5), (0.5, -0.5, -0.5), (-0.5, -0.5, -0.5), (-0.5, -0.5, 0.5)]
    apex = (0.0, 0.5, 0.0)

    def stone(p: Array) -> Array:
        course = np.floor((p[:, 1] + 0.5) * 8)
        ridge = np.abs(np.abs(p[:, 0]) - np.abs(p[:, 2])) < 0.035
        color = mix((0.96, 0.47, 0.05), (1.0, 0.60, 0.14), course % 2)
        return mix(color, (1.0, 0.78, 0.40), 0.6 * ridge)

    sides = [quad(base[i], base[(i + 1) % 4], apex, apex).but(paint=stone) for i in (3, 0, 1, 2)]
    under = quad(base[2], base[1], base[0], base[3]).but(paint=(0.62, 0.28, 0.05), spacing=1.5)
    tip = ellipsoid((0, 0.47, 0), (0.022, 0.03, 0.022)).but(paint=(1.0, 0.62, 0.18), spacing=0.5)
    return grounded(*sides, under, tip, ambient=0.4)


OBJECTS: dict[str, Callable[[], GaussianScene]] = {
    make.__name__: make
    for make in (
        red_toy_car, blue_ceramic_mug, black_white_soccer_ball, green_glass_bottle,
        cratered_moon_sphere, red_cube, blue_sphere, yellow_cone, purple_cylinder, orange_pyramid,
    )
}  # fmt: skip
