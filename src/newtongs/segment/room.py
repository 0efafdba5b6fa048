"""A capture with several things in it: its planes, and the things that stand on them.

Planes are taken away first (:mod:`.structure`). What is left falls into clusters by distance and
colour (:mod:`.density_tree`). Clusters that share much of their surface are one thing in several
colours; one that touches nothing below but leans on another belongs to that one. What hardly rises
from a plane is the plane's own roughness.

Nothing hovers: if a direction is up, things rest on level planes. The share of them that do tells
which direction it is.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from ..base.process import threads
from ..base.types import Array
from ..scene.gaussians import GaussianScene
from .cutout.cache import last_of
from .density_tree import DensityTree, density_tree
from .structure import Structure, room_structure
from .surface import SurfacePoints, surface_points

COLOR = 4.0  # spacings that count as far as the distance from black to red
APART = 3.0  # spacings, of distance and colour together, between points of different things
LEAST_POINTS = 40  # of a thing
TOUCHING = 2.0  # spacings between points that touch
ONE_THING, LEANING = 0.25, 0.04  # share of a cluster's points that touch another it belongs to
RISES = 1.5  # spacings by which much of a thing rises from the planes
REACH = 2.5  # spacings from a surface point within which a Gaussian belongs to it, or touches
RESTING = 0.3  # share of a thing's lowest points on a level plane from which it surely stands there
ENOUGH = 5  # things from which the share that rests says something
HELD = 0.1  # share of a thing's points under a plane from which it is part of that
CHUNK = 1_000_000  # Gaussians that are labelled at once


class Thing(NamedTuple):
    """Something that stands in a room."""

    points: Array
    """Indices of its surface points."""
    group: int
    """Its largest group in the density tree."""


class Stance(NamedTuple):
    """How things stand if a direction is up; arrays over the things ``(K,)``."""

    rests: Array
    """How surely each rests on a level plane, 0 to 1."""
    plane: Array
    """The plane on which most of its lowest points lie; -1 if none do."""
    held: Array
    """Share of its points right under a level plane: it belongs to that, as a leg to a table."""

    @property
    def free(self) -> Array:
        """Which things ``(K,)`` rest on a plane and are held by none."""
        return (self.rests > 0.5) & (self.held < HELD)


@dataclass(frozen=True, eq=False)
class Room:
    """Planes and things of a capture."""

    points: SurfacePoints
    structure: Structure
    loose: Array
    """Indices of the points that are on no plane."""
    tree: DensityTree
    """Of the loose points."""
    things: list[Thing]

    @cached_property
    def thing_of(self) -> Array:
        """The thing ``(n,)`` of each surface point; -1 for none."""
        out = np.full(len(self.points.x), -1)
        for k, thing in enumerate(self.things):
            out[thing.points] = k
        return out

    def support(self, up: Array) -> float:
        """Share of the things that rest on level planes if this is up; 0 if there are too few."""
        if len(self.things) < ENOUGH:
            return 0.0
        weight = np.sqrt([len(thing.points) for thing in self.things])
        return float(weight @ self.stance(up).rests / weight.sum())

    def stance(self, up: Array) -> Stance:
        """How the things stand if this is up."""
        h, x = self.points.spacing, self.points.x
        of = self.thing_of
        rows = np.flatnonzero(of >= 0)
        rows = rows[np.lexsort((x[rows] @ up, of[rows]))]
        count = np.bincount(of[rows], minlength=len(self.things))
        first, y = np.cumsum(count) - count, x[rows] @ up
        low, high = (y[first + (q * (count - 1)).astype(int)] for q in (0.02, 0.98))
        count_of = lambda mask: np.bincount(thing[mask], minlength=len(count))  # noqa: E731
        thing, plane_of = of[rows], self.structure.of
        level = np.flatnonzero(np.append(self.structure.along(up), False)[plane_of])
        if not len(level):
            nothing = np.zeros(len(count))
            return Stance(nothing, np.full(len(count), -1), nothing)
        d, near = cKDTree(x[level]).query(x[rows], distance_upper_bound=REACH * h)
        touch = np.isfinite(d)
        below = level[near[touch]]
        step = np.full(len(rows), np.inf)
        step[touch] = x[below] @ up - y[touch]
        base = y < low[thing] + np.maximum(0.1 * (high - low)[thing], 1.5 * h)
        on = base & (step < 0.5 * h)
        under = touch & (step > 0.5 * h) & (y > 0.5 * (low + high)[thing])
        rests = count_of(on) / count_of(base).clip(1) / RESTING
        plane = np.full(len(count), -1)
        if on.any():
            planes = plane_of[level[near[on]]]
            votes = np.zeros((len(count), len(self.structure.planes)))
            np.add.at(votes, (thing[on], planes), 1)
            plane = np.where(votes.any(1), votes.argmax(1), -1)
        return Stance(rests.clip(0, 1), plane, count_of(under) / count)

    def label(self, scene: GaussianScene) -> Array:
        """The thing ``(N,)`` of every Gaussian of the scene; -1 for none."""
        tree, reach = cKDTree(self.points.x), REACH * self.points.spacing
        known = np.append(self.thing_of, -1)
        out = np.full(len(scene), -1)
        x = scene.means.numpy()
        for start in range(0, len(x), CHUNK):
            part = np.nan_to_num(x[start : start + CHUNK], posinf=np.inf).clip(-1e30, 1e30)
            _, near = tree.query(part, distance_upper_bound=reach, workers=threads())
            out[start : start + CHUNK] = known[near]
        return out


_points = last_of(surface_points)


def _room(scene: GaussianScene, up: Array | None = None) -> Room | None:
    """Planes and things of a scene on the CPU.

    Args:
        scene: the Gaussians.
        up: if known; then planes that are neither level nor upright are no part of the room.
    """
    points = _points(scene)
    structure = None if points is None else room_structure(points, up)
    if points is None or structure is None or not structure.planes:
        return None
    loose = np.flatnonzero(structure.of < 0)
    features = np.concatenate(
        [points.x[loose] / points.spacing, COLOR * points.colors[loose]], axis=1
    )
    tree = density_tree(features, LEAST_POINTS, APART)
    return Room(points, structure, loose, tree, _things(points, structure, loose, tree))


find_room = last_of(_room)


def _things(
    points: SurfacePoints, structure: Structure, loose: Array, tree: DensityTree
) -> list[Thing]:
    """Clusters of the tree, joined where they are one thing; without roughness of the planes."""
    label = np.full(len(points.x), -1)
    label[loose] = tree.clusters()
    if not (label >= 0).any():
        return []
    _adopt_stray(points, loose, label)
    groups, compact = np.unique(label[loose], return_inverse=True)
    compact = compact - (groups[0] < 0)
    groups = groups[groups >= 0]
    label[loose] = compact
    joined = _joined(points, label, len(groups))
    on = structure.of >= 0
    away, _ = cKDTree(points.x[on]).query(points.x[loose])
    size = np.bincount(compact[compact >= 0], minlength=len(groups))
    out = []
    for root in np.unique(joined):
        members = np.flatnonzero(joined == root)
        mine = np.isin(compact, members)
        if np.quantile(away[mine], 0.75) > RISES * points.spacing:
            largest = int(groups[members[size[members].argmax()]])
            out.append(Thing(loose[mine], largest))
    return out


def _adopt_stray(points: SurfacePoints, loose: Array, label: Array) -> None:
    """Points that fell off every cluster join the nearest one that they touch."""
    stray, known = loose[label[loose] < 0], loose[label[loose] >= 0]
    reach = TOUCHING * points.spacing
    d, near = cKDTree(points.x[known]).query(points.x[stray], distance_upper_bound=reach)
    touches = np.isfinite(d)
    label[stray[touches]] = label[known[near[touches]]]


def _joined(points: SurfacePoints, label: Array, count: int) -> Array:
    """The cluster ``(count,)`` to which each belongs; smaller ones join larger ones."""
    x, near = points.x, points.near
    rows = np.flatnonzero(label >= 0)
    other = label[near[rows]]
    close = np.linalg.norm(x[near[rows]] - x[rows, None], axis=-1) < TOUCHING * points.spacing
    meets = (other >= 0) & (other != label[rows, None]) & close
    touch: dict[int, dict[int, set[int]]] = {k: {} for k in range(count)}
    i, j = np.nonzero(meets)
    for row, mine, theirs in zip(
        rows[i].tolist(), label[rows[i]].tolist(), other[i, j].tolist(), strict=True
    ):
        touch[mine].setdefault(theirs, set()).add(row)
    size = np.bincount(label[rows], minlength=count)
    root = np.arange(count)
    members = {k: int(size[k]) for k in range(count)}
    for k in np.argsort(size, kind="stable").tolist():
        if not touch[k]:
            continue
        host, shared = max(touch[k].items(), key=lambda each: (len(each[1]), -each[0]))
        if len(shared) > ONE_THING * members[k] and host != k:
            for mine, theirs in touch[k].items():
                if mine != host:
                    touch[host].setdefault(mine, set()).update(theirs)
                    touch[mine].setdefault(host, set()).update(touch[mine].pop(k, set()))
            touch[host].pop(k, None)
            members[host] += members.pop(k)
            root[root == k] = host
    return root
