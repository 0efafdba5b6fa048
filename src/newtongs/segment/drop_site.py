"""Where an object can be put into a scene: what would support it, and what would be in its way."""

import numpy as np
import torch

from ..base.types import Array, Vec3
from ..scene.gaussians import GaussianScene, quantiles
from ..scene.similarity import VISIBLE
from ..scene.world_frame import WorldFrame
from .voxels import SHEET, Grid, density, optical_depth, solid_body

FINENESS = 24  # cells along the object
TALLEST = 600  # cells in a column
THICK = 4  # a surface is at most 1/4 as thick as the object is tall
FULL_DEPTH = 0.7  # optical depth at which a cell counts as occupied
CARRIES = 0.15  # share of the footprint that must be covered for a support
FOOTPRINT = 8  # cells along each side of a footprint under which a surface is searched
UNDER = 0.1  # of the object's height: so near to its foot a surface carries it
FREE = 0.05  # share of it that may be occupied in free space
LOW = 0.5  # of the scene's height: ceilings and treetops, above it, support nothing
GAP = 2  # cells: gaps in the object up to twice this wide are closed
FOOT = 0.2  # of the object's height: a support's Gaussians are thick
BROAD = 0.5  # of the object's size: wider Gaussians are haze
MARGIN = 0.02  # share of the scene's lowest and of its highest Gaussians that are outliers


def support_height(thing: GaussianScene, scene: GaussianScene, frame: WorldFrame) -> float:
    """Height along up, in scene units, of what would support an object at its position.

    It is the highest surface in the lower half of the scene with room for the object above it; the
    floor if there is none.
    """
    flat = WorldFrame.of_floor(frame.up, 0.0)
    low, high = _bounds(thing, flat)
    h = float((high - low).max()) / FINENESS
    near = _near(scene, flat, low, high, h)
    if not len(near):
        return frame.floor
    heights = scene.means[scene.opacities >= VISIBLE].double() @ frame.up
    bottom, top = quantiles(heights, (MARGIN, 1 - MARGIN)).tolist()
    bottom = min(bottom, frame.floor)
    end = bottom + LOW * (top - bottom)
    column = _column(low, high, (bottom, end), h)
    lower = int((end - column.low[1]) / column.h[1]) + 1
    room = max(round(float(high[1] - low[1]) / column.h[1]), 1)
    found = density(near, flat, column)
    sheets = found.weight >= SHEET
    carries = sheets.mean((0, 2))[:lower] >= CARRIES
    level = _highest(carries, (found.depth >= FULL_DEPTH).mean((0, 2)) <= FREE, room)
    if level is None:
        return frame.floor
    part = sheets[:, level]
    within = (found.height[:, level][part] / found.weight[:, level][part]).mean()
    return float(column.low[1] + (level + within) * column.h[1])


def is_carried(thing: GaussianScene, others: Vec3, frame: WorldFrame) -> bool:
    """Whether a surface with points ``others (N, 3)`` is right under an object, like a shelf."""
    flat = WorldFrame.of_floor(frame.up, 0.0)
    low, high = _bounds(thing, flat)
    foot, near = low[1], UNDER * (high[1] - low[1])
    x = flat.to_physics(others).numpy()
    x = x[abs(x[:, 1] - foot) <= near][:, [0, 2]]
    cells = np.floor(FOOTPRINT * (x - low[[0, 2]]) / (high - low)[[0, 2]]).astype(np.int64)
    inside = cells[((cells >= 0) & (cells < FOOTPRINT)).all(-1)]
    return len(np.unique(inside, axis=0)) >= CARRIES * FOOTPRINT**2


def share_inside(thing: GaussianScene, scene: GaussianScene, frame: WorldFrame) -> float:
    """Fraction of an object's volume inside others, ignoring its foot, which may be in haze."""
    flat = WorldFrame.of_floor(frame.up, 0.0)
    low, high = _bounds(thing, flat)
    h = float((high - low).max()) / FINENESS
    grid = Grid.around(low, high, np.full(3, h))
    own = solid_body(optical_depth(thing, flat, grid) >= FULL_DEPTH, GAP)
    other = optical_depth(_near(scene, flat, low, high, h), flat, grid) >= FULL_DEPTH
    other[:, : round(FOOT * (high[1] - low[1]) / h)] = False
    return float((own & other).sum() / max(own.sum(), 1))


def _bounds(thing: GaussianScene, world: WorldFrame) -> tuple[Array, Array]:
    """Lowest and highest corner ``(3,)`` of an object, without outliers."""
    opaque = thing.means[thing.opacities >= VISIBLE]
    x = world.to_physics(opaque if len(opaque) else thing.means).double().numpy()
    low, high = np.quantile(x, [0.002, 0.998], axis=0)
    return low, np.maximum(high, low + 1e-6 * max(1.0, float(np.abs(low).max())))


def _near(
    scene: GaussianScene, world: WorldFrame, low: Array, high: Array, h: float
) -> GaussianScene:
    """The Gaussians that may reach into the column above a box, without haze."""
    size = FINENESS * h
    x, reach = world.to_physics(scene.means), BROAD * size
    a, b = (torch.from_numpy(v) for v in (low - 3 * reach, high + 3 * reach))
    beside = ((x[:, [0, 2]] >= a[[0, 2]]) & (x[:, [0, 2]] <= b[[0, 2]])).all(-1)
    return scene[beside & (scene.scales.amax(-1) < reach)]


def _column(low: Array, high: Array, heights: tuple[float, float], h: float) -> Grid:
    """Cells above the footprint of a box between two heights, with room for the box on top."""
    bottom, top = heights
    tall = top - bottom + 1.5 * float(high[1] - low[1]) + 2 * h
    h_up = max(h, tall / TALLEST)
    base = np.array([low[0], bottom - h_up, low[2]])
    end = np.array([high[0], bottom + tall, high[2]])
    return Grid.around(base, end, np.array([h, h_up, h]))


def _highest(carries: Array, free: Array, room: int) -> int | None:
    """The highest layer that ``carries``, with ``room`` free ones above its own thickness."""
    thick = max(room // THICK, 2)
    tops = np.flatnonzero(carries & ~np.append(carries[1:], False))
    fits = [j for j in tops if j + room <= len(free) and free[j + thick : j + room].all()]
    return int(fits[-1]) if fits else None
