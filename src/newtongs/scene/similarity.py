"""Putting an object into a scene: similarity transforms, extents, a visible floor."""

import math

import torch

from ..base import rotations
from ..base.errors import InputError
from ..base.state import make
from ..base.types import Quat, Vec3
from .gaussians import AT_A_TIME, BACKGROUND, GaussianScene, quantiles
from .transform import transform
from .world_frame import WorldFrame

SIGMAS = 1.0  # standard deviations to which a Gaussian counts for the extent of an object
VISIBLE = 0.1  # fainter Gaussians are ignored
TAIL = 0.002  # share of an object's Gaussians at either end that count as floaters

DISC_GAUSSIANS = 12_000
PANEL_GAUSSIANS = 10_000
LIGHT, DARK = 0.90, 0.80  # greys of the disc's rings
RINGS = 6


def moved(
    scene: GaussianScene, *, turn: Quat | None = None, scale: float = 1.0, shift: Vec3 | None = None
) -> GaussianScene:
    """All Gaussians transformed to ``scale * R(turn) x + shift``, with their ids."""
    z0 = make()
    z = make(
        p=torch.zeros(3) if shift is None else shift.float(),
        q=rotations.identity(like=z0) if turn is None else turn.float(),
        s=torch.full((3,), float(scale)),
    )
    together = scene.replace(ids=torch.zeros_like(scene.ids))
    return transform(together, z0.double(), z.double(), object=0).replace(ids=scene.ids)


def extent(scene: GaussianScene, direction: Vec3) -> tuple[float, float]:
    """Lowest and highest extent of the opaque Gaussians along a unit ``direction``."""
    opaque = scene.plain
    if (opaque.opacities >= VISIBLE).any():
        opaque = opaque[opaque.opacities >= VISIBLE]
    d = direction.to(opaque.means)
    parts = [opaque[i : i + AT_A_TIME].covariances for i in range(0, len(opaque), AT_A_TIME)]
    wide = torch.cat([torch.einsum("i,nij,j->n", d, each, d) for each in parts])
    reach = SIGMAS * wide.clamp_min(0).sqrt()
    middle = opaque.means @ d
    low, high = quantiles(middle - reach, [TAIL]), quantiles(middle + reach, [1 - TAIL])
    return low.item(), high.item()


def across(up: Vec3) -> tuple[Vec3, Vec3]:
    """Two unit vectors such that ``(a, up, b)`` is right-handed, as x and z with y."""
    world = WorldFrame.of_floor(up, 0.0)
    back = rotations.conjugate(world.rotation)
    x, z = torch.eye(3, dtype=torch.float64)[[0, 2]]
    return rotations.rotate(back, x), rotations.rotate(back, z)


def _length(scene: GaussianScene, direction: Vec3) -> float:
    low, high = extent(scene, direction)
    return high - low


def set_into(
    thing: GaussianScene,
    up: Vec3,
    background: GaussianScene,
    frame: WorldFrame,
    *,
    height: float | None = None,
    size: float | None = None,
    turn: float = 0.0,
) -> GaussianScene:
    """The object upright on the floor in the middle of the background; not joined yet.

    Args:
        thing: the object.
        up: its up direction.
        background: where it is put.
        frame: up and floor of the background.
        height: of the object in the background's units;
        size: or its largest extent; default a tenth of the background's width.
        turn: degrees about up, from z towards x.
    """
    a, b = across(frame.up)
    if size is None:
        size = 0.1 * min(_length(background, d) for d in (a, b))
    own = _length(thing, up)
    if height is None:
        height = size * own / max(own, *(_length(thing, d) for d in across(up)))
    if not height > 0:
        raise InputError(f"the object's height in the background must be positive, got {height}")
    half = math.radians(turn) / 2
    about_up = torch.tensor([math.cos(half), 0.0, math.sin(half), 0.0], dtype=torch.float64)
    upright = rotations.multiply(about_up, WorldFrame.of_floor(up, 0.0).rotation)
    whole = rotations.multiply(rotations.conjugate(frame.rotation), upright)
    placed = moved(thing, turn=whole, scale=height / own)
    low, _ = extent(placed, frame.up)
    way = background.means.double().median(0).values - placed.means.double().mean(0)
    sideways = (way @ a) * a + (way @ b) * b
    return moved(placed, shift=sideways + (frame.floor - low) * frame.up)


def floor_disc(world: WorldFrame, center: Vec3, radius: float) -> GaussianScene:
    """A pale disc of flat Gaussians in the floor, with rings that make heights visible.

    They are small in the middle, where objects lie: a large one whose centre is nearer to the
    camera than an object's feet would be drawn over them.
    """
    index = torch.arange(DISC_GAUSSIANS, dtype=torch.float64) + 0.5
    r = index / DISC_GAUSSIANS
    angle = index * math.pi * (3 - math.sqrt(5))  # the golden angle: evenly spread
    a, b = across(world.up)
    up = world.up
    foot = center.double() - (center.double() @ up) * up + world.floor * up
    spread = radius * r.unsqueeze(-1)
    means = foot + spread * (angle.cos().unsqueeze(-1) * a + angle.sin().unsqueeze(-1) * b)
    sigma = 1.1 * radius * (2 * math.pi / DISC_GAUSSIANS * r).sqrt()  # their spacing
    ring = (r * RINGS).floor() % 2
    grey = torch.where(ring == 0, LIGHT, DARK)
    scales = sigma.unsqueeze(-1) * torch.tensor([1.0, 1e-3, 1.0], dtype=torch.float64)
    return GaussianScene.make(
        means=means.float(),
        scales=scales.float(),
        quats=rotations.conjugate(world.rotation).float().expand(DISC_GAUSSIANS, 4),
        opacities=(0.95 * (1 - r**6)).float(),
        colors=grey.float().unsqueeze(-1).expand(-1, 3),
        ids=BACKGROUND,
    )


def panel(world: WorldFrame, middle: Vec3, a: Vec3, b: Vec3) -> GaussianScene:
    """A rectangle of flat Gaussians in two greys, given in the physics frame.

    ``middle`` ``(3,)`` is its centre, ``a`` and ``b`` are its perpendicular half edges.
    """
    edges = [float(torch.linalg.vector_norm(x)) for x in (a, b)]
    step = 2 * math.sqrt(edges[0] * edges[1] / PANEL_GAUSSIANS)
    counts = [max(round(2 * edge / step), 2) for edge in edges]
    u, v = ((torch.arange(n, dtype=torch.float64) + 0.5) / n * 2 - 1 for n in counts)
    u, v = (x.reshape(-1) for x in torch.meshgrid(u, v, indexing="ij"))
    axes = torch.stack([a / edges[0], torch.linalg.cross(b, a), b / edges[1]], -1)
    axes[:, 1] /= torch.linalg.vector_norm(axes[:, 1])
    turn = rotations.multiply(rotations.conjugate(world.rotation), rotations.from_matrix(axes))
    checks = ((u + 1) * RINGS / 2).floor() + ((v + 1) * RINGS / 2).floor()
    sigma = 0.6 * step / world.scale
    n = len(u)
    return GaussianScene.make(
        means=world.to_scene(middle + u[:, None] * a + v[:, None] * b).float(),
        scales=torch.tensor([sigma, 1e-2 * sigma, sigma]).expand(n, 3),
        quats=turn.float().expand(n, 4),
        opacities=torch.full((n,), 0.95),
        colors=torch.where(checks % 2 == 0, LIGHT, DARK).float().unsqueeze(-1).expand(-1, 3),
        ids=BACKGROUND,
    )
