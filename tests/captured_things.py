"""A thing on something as a capture has it: an open shell, a hole below it, a dark crease, fuzz."""

import math

import torch

from newtongs.scene import GaussianScene
from newtongs.scene.gaussians import join
from newtongs.scene.similarity import moved
from newtongs.segment.floor.finding import FloorPlane

RADIUS, HEIGHT = 0.25, 0.6
GREY, RED, BLACK = (0.6, 0.62, 0.58), (0.8, 0.2, 0.15), (0.03, 0.03, 0.03)


def random(n, columns, seed):
    return torch.rand(n, columns, generator=torch.Generator().manual_seed(seed))


def painted(means, scales, color, *, noise=0.02, opacity=0.95, seed=0):
    n = len(means)
    colors = torch.tensor(color) + noise * (2 * random(n, 3, seed) - 1)
    return GaussianScene.make(
        means=means, scales=torch.as_tensor(scales).expand(n, 3), colors=colors.clamp(0, 1),
        opacities=torch.full((n,), opacity),
    )  # fmt: skip


def slab(half, y=0.0, hole=None, slope=0.0, seed=1):
    """A square top of fine Gaussians, without what no camera saw of it."""
    n = int((2 * half / 0.02) ** 2)
    x = half * (2 * random(n, 3, seed) - 1)
    x[:, 1] = y + 0.002 * (2 * random(n, 1, seed + 1)[:, 0] - 1) + slope * x[:, 0]
    if hole is not None:
        x = x[x[:, ::2].norm(dim=-1) > hole]
    return painted(x, [0.016, 0.002, 0.016], GREY, seed=seed)


def ring(radius, y, n, seed):
    angle = 2 * math.pi * random(n, 1, seed)[:, 0]
    return torch.stack([radius * angle.cos(), torch.full((n,), float(y)), radius * angle.sin()], -1)


def shell(y=0.0, n=6000):
    """A cylinder with a lid and without a bottom."""
    side = ring(RADIUS, 0, n, 3)
    side[:, 1] = y + HEIGHT * random(n, 1, 4)[:, 0]
    lid = ring(1, y + HEIGHT, n // 3, 5) * torch.tensor([1.0, 1, 1])
    lid[:, ::2] *= RADIUS * random(len(lid), 1, 6).sqrt()
    return painted(torch.cat([side, lid]), [0.01, 0.01, 0.01], RED)


def capture(kind="floor", slope=0.0):
    """A scene, a mask of each of its parts, and its floor.

    ``kind`` is what the thing stands on: the floor, a plinth or a table above one.
    """
    y = 0.0 if kind == "floor" else 0.8
    half = {"floor": 1.5, "plinth": 0.45, "table": 0.9}[kind]
    dark = ring(1, y + 0.2, 60, 7) * torch.tensor([0.1, 1, 0.1])
    crease = ring(RADIUS + 0.01, y, 400, 8)
    crease[:, 1] += slope * crease[:, 0]
    parts = {
        "thing": shell(y),
        "inside": painted(dark, [0.03, 0.03, 0.03], BLACK),
        "crease": painted(crease, [0.012, 0.004, 0.012], BLACK),
        "support": slab(half, y, hole=RADIUS, slope=slope),
    }
    if kind != "floor":
        parts["floor"] = slab(1.5, seed=11)
    of = torch.cat([torch.full((len(s),), i) for i, s in enumerate(parts.values())])
    floor = FloorPlane(
        torch.tensor([0.0, 1, 0]).double(), 0.0, 0.5, "found", 0.01, "the floor at zero"
    )
    return join(*parts.values()), {name: of == i for i, name in enumerate(parts)}, floor


def greedy(scene, parts):
    """A selection that took some of the support along and missed the inside."""
    near = scene.means[:, ::2].norm(dim=-1) < RADIUS + 0.08
    return parts["thing"] | ((parts["support"] | parts["crease"]) & near)


def turned(scene, floor, turn, scale, shift):
    """Scene and floor in other coordinates."""
    from newtongs.base import rotations

    up = rotations.rotate(turn.double(), floor.up)
    height = scale * floor.height + float(shift.double() @ up)
    there = FloorPlane(up, height, floor.share, "found", scale * floor.thickness, floor.description)
    return moved(scene, turn=turn, scale=scale, shift=shift), there
