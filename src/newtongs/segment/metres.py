"""How large a scene is: the metres in a scene unit, told by a room, and the width of the scene.

A capture has no unit. People build rooms alike, though: a ceiling is 2.2 to 3 m above its floor,
and tables, desks and worktops are 0.7 to 0.95 m high. Each alone is compatible with many scales. A
scale is told only if both agree on it with room to spare: a ceiling that spans the whole floor, and
level furniture of which most has that height. Anything else, such as shelves of any height, leaves
the scale open: a wrong one is worse than none.
"""

from typing import NamedTuple

import numpy as np
from scipy.spatial import ConvexHull, Delaunay, QhullError

from ..base.types import Array
from ..scene.gaussians import GaussianScene
from .floor.finding import FloorPlane, plane_axes
from .room import cached_surface
from .structure import Structure, room_structure
from .surface import SurfacePoints

CEILING = (2.2, 2.5, 3.0)  # metres above the floor: lowest, usual, highest
TOPS = (0.7, 0.95)  # metres above the floor of most tables, desks and worktops
AGREED = 1.2  # ratio of the ends of the scales at which both fit: at least
SPANS = 0.5  # area of a ceiling over that of its floor, at least
UNDER = 0.8  # share of the floor that is under it
ABOVE = 0.02  # share of all surfaces above a ceiling, at most
RAISED = (0.1, 0.9)  # of the ceiling's height: where furniture is
BOARD = 0.04  # of the ceiling's height: thickness of a board, whose two faces are one top
LEAST_TOP, MOST_TOPS = 0.05, 0.6  # area of furniture over that of the floor; share at that height


class _Level(NamedTuple):
    """A level surface: its height above the floor and its share of all surfaces."""

    height: float
    area: float


def width(scene: GaussianScene) -> float | None:
    """Diagonal of the box around most of a scene's surfaces, scene units; None without surfaces.

    Single Gaussians far away do not change it.
    """
    surface = cached_surface(scene.to("cpu").plain)
    return None if surface is None else surface.size


def metres_per_unit(scene: GaussianScene, floor: FloorPlane) -> float | None:
    """Metres in a scene unit, if a room tells it for sure; exactly 1 if that agrees with it."""
    if floor.kind != "found" or floor.doubt is not None:
        return None
    surface = cached_surface(scene.to("cpu").plain)
    if surface is None:
        return None
    structure = room_structure(surface, floor.up.numpy())
    found = _ceiling(surface, structure, floor)
    if found is None:
        return None
    ceiling, furniture, least = found
    return _agreed(ceiling, _tops(furniture, ceiling), least)


def _ceiling(
    surface: SurfacePoints, structure: Structure, floor: FloorPlane
) -> tuple[float, list[_Level], float] | None:
    """Height of the ceiling, the level surfaces below it, and the least area of furniture."""
    up = floor.up.numpy()
    level = np.flatnonzero(structure.along(up))
    x = [surface.x[structure.of == k] for k in level]
    heights = np.array([np.median(each @ up) - floor.height for each in x])
    areas = np.array([surface.area[structure.of == k].sum() for k in level])
    ground = abs(heights) <= floor.thickness + surface.spacing
    if not ground.any():
        return None
    spans = np.flatnonzero(~ground & (areas > SPANS * areas[ground].sum()))
    if not len(spans):
        return None
    top = spans[heights[spans].argmax()]
    above = surface.x @ up - floor.height > heights[top] + 2 * surface.spacing
    feet = np.concatenate([each for each, its in zip(x, ground, strict=True) if its])
    if surface.area[above].sum() > ABOVE or not _is_under(feet, x[top], floor):
        return None
    rest = [_Level(float(h), float(a)) for h, a in zip(heights, areas, strict=True)]
    return float(heights[top]), rest, LEAST_TOP * float(areas[ground].sum())


def _is_under(feet: Array, ceiling: Array, floor: FloorPlane) -> bool:
    """Whether most points of the floor lie under a ceiling: a table's or a cupboard's do not."""
    across = plane_axes(floor.up).numpy()
    try:
        flat = ceiling @ across
        outline = Delaunay(flat[ConvexHull(flat).vertices])
    except QhullError:  # all points on a line
        return False
    return bool((outline.find_simplex(feet @ across) >= 0).mean() > UNDER)


def _tops(levels: list[_Level], ceiling: float) -> list[_Level]:
    """The furniture, largest first; the faces of a board are one."""
    out: list[_Level] = []
    low, high = (share * ceiling for share in RAISED)
    for one in sorted(levels, reverse=True):
        if not low < one.height < high:
            continue
        if out and out[-1].height - one.height < BOARD * ceiling:
            out[-1] = out[-1]._replace(area=max(out[-1].area, one.area))
        else:
            out.append(one)
    return sorted(out, key=lambda top: -top.area)


def _agreed(ceiling: float, tops: list[_Level], least: float) -> float | None:
    """The scale at which ceiling and furniture have their usual heights, if they clearly do."""
    if not tops or tops[0].area < least:
        return None
    low = max(CEILING[0] / ceiling, TOPS[0] / tops[0].height)
    high = min(CEILING[2] / ceiling, TOPS[1] / tops[0].height)
    if high < AGREED * low:
        return None
    scale = 1.0 if low < 1 < high else float(np.clip(CEILING[1] / ceiling, low, high))
    usual = sum(top.area for top in tops if TOPS[0] <= scale * top.height <= TOPS[1])
    return scale if usual >= MOST_TOPS * sum(top.area for top in tops) else None
