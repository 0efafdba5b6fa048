"""A capture with several things in it: its planes, and the things that stand on them.

Planes are taken away first (:mod:`.structure`). What is left is sampled again, finer, and falls
into clusters by distance and colour (:mod:`.density_tree`). Clusters that share much of their
surface are one thing in several colours. What hardly rises from a plane is the plane's own
roughness.

Nothing hovers: if a direction is up, things rest on level planes. The share of them that do tells
which direction it is.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from scipy.spatial import cKDTree

from ..base.process import threads
from ..base.rotations import to_matrix
from ..base.types import Array
from ..scene.gaussians import GaussianScene
from .cutout.cache import last_of
from .density_tree import DensityTree, density_tree
from .scene_sample import SOLID_OPACITY
from .structure import ALIGNED, LONG, LONG_PART, Structure, room_structure
from .surface import FLAT, SurfacePoints, surface_points

COLOR = 4.0  # spacings that count as far as the distance from black to red
APART = 3.0  # spacings, of distance and colour together, between points of different things
LEAST_POINTS = 40  # of a thing
TOUCHING = 2.0  # spacings between points that touch
ONE_THING, LEANING = 0.25, 0.04  # share of a cluster's points that touch what it belongs to
RISES = 1.5  # spacings of the planes by which much of a thing rises from them
REACH = 2.5  # spacings within which a Gaussian belongs to a point, and a thing touches a plane
ON_PLANE = 0.3  # spacings from a point of a plane, across it, within which a Gaussian is its own
STANDS = 0.5  # how surely a thing must rest on a plane to count as standing on it
RESTING = 0.3  # share of a thing's lowest points on a level plane from which it surely stands there
ENOUGH = 3  # separate things from which the share that rests says something
HELD = 0.5  # share of a thing's top under a plane from which it is part of that
COVERING = 0.5  # share of its plane from which a thing and what carries it are one
CHUNK = 1_000_000  # Gaussians that are looked up at once


class Thing(NamedTuple):
    """Something that stands in a room."""

    points: Array
    """Indices of its points among the loose ones."""
    group: int
    """Its largest group in the density tree."""


class Stance(NamedTuple):
    """How things stand if a direction is up; arrays over the things ``(K,)``."""

    rests: Array
    """How surely each rests on a level plane, 0 to 1."""
    plane: Array
    """The plane on which most of its lowest points lie; -1 if none do."""
    held: Array
    """Share of its top right under a level plane, were its points spread evenly over its height:
    it belongs to that, as a leg to a table or a cupboard to the shelf that closes it."""
    covers: Array
    """Share of its plane that is under it: a cabin covers the chassis that carries it."""

    @property
    def free(self) -> Array:
        """Which things ``(K,)`` rest on a plane, and are part of none."""
        return (self.rests > STANDS) & (self.held < HELD) & (self.covers < COVERING)


@dataclass(frozen=True, eq=False)
class Room:
    """Planes and things of a capture."""

    surface: SurfacePoints
    """All of it."""
    structure: Structure
    """The planes, and the plane of every surface point."""
    loose: SurfacePoints
    """What is on no plane, finer."""
    tree: DensityTree
    """Of the loose points."""
    things: list[Thing]

    @property
    def near(self) -> float:
        """Distance within which a thing touches a plane, scene units."""
        return REACH * self.surface.spacing

    @cached_property
    def thing_of(self) -> Array:
        """The thing ``(n,)`` of each loose point; -1 for none."""
        out = np.full(len(self.loose.x), -1)
        for k, thing in enumerate(self.things):
            out[thing.points] = k
        return out

    @property
    def apart(self) -> int:
        """Number of separate things: the parts of one object touch each other."""
        if not self.things:
            return 0
        joined = _joined(self.loose, self.thing_of, np.zeros(len(self.things)))
        return len(np.unique(joined[joined >= 0]))

    def support(self, up: Array) -> float:
        """Share of the things that rest on level planes if this is up."""
        weight = np.sqrt([len(thing.points) for thing in self.things])
        return float(weight @ self.stance(up).rests / weight.sum())

    def stance(self, up: Array) -> Stance:
        """How the things stand if this is up."""
        h, x, of = self.surface.spacing, self.loose.x, self.thing_of
        k = len(self.things)
        rows = np.flatnonzero(of >= 0)
        rows = rows[np.lexsort((x[rows] @ up, of[rows]))]
        y, thing = x[rows] @ up, of[rows]
        count = np.bincount(thing, minlength=k)
        first = np.cumsum(count) - count
        low, high = (y[first + (q * (count - 1)).astype(int)] for q in (0.02, 0.98))
        level = np.flatnonzero(np.append(self.structure.along(up), False)[self.structure.of])
        if not len(level):
            return Stance(np.zeros(k), np.full(k, -1), np.zeros(k), np.zeros(k))
        d, near = cKDTree(self.surface.x[level]).query(x[rows], distance_upper_bound=self.near)
        touch = np.isfinite(d)
        step = np.full(len(rows), np.inf)  # from the thing up to the plane
        step[touch] = self.surface.x[level[near[touch]]] @ up - y[touch]
        base = y < low[thing] + np.maximum(0.1 * (high - low)[thing], h)
        on = base & (step < 0.5 * h)
        under = touch & (step > 0.5 * h) & (y > 0.5 * (low + high)[thing])
        votes = np.zeros((k, len(self.structure.planes)))
        np.add.at(votes, (thing[on], self.structure.of[level[near[on]]]), 1)
        rests = votes.sum(1) / np.bincount(thing[base], minlength=k).clip(1) / RESTING
        held = np.bincount(thing[under], minlength=k) / count * (high - low) / self.near
        plane = np.where(votes.any(1), votes.argmax(1), -1)
        return Stance(rests.clip(0, 1), plane, held, self._covers(up, plane))

    def _covers(self, up: Array, plane: Array) -> Array:
        """Share of the ``plane (K,)`` of each thing that is under it, seen along ``up``."""
        of, out = self.thing_of, np.zeros(len(plane))
        x, top = (p.x - (p.x @ up)[:, None] * up for p in (self.loose, self.surface))
        carrier = np.append(plane, -1)[of]
        for k in np.unique(plane[plane >= 0]):
            on, ours = np.flatnonzero(carrier == k), self.structure.of == k
            reach = TOUCHING * self.loose.spacing
            _, near = cKDTree(x[on]).query(top[ours], distance_upper_bound=reach)
            out += np.bincount(of[on[near[near < len(on)]]], minlength=len(out)) / ours.sum()
        return out

    def label(self, scene: GaussianScene) -> Array:
        """The thing ``(N,)`` of every Gaussian of the scene, faint ones too; -1 for none."""
        marked = np.flatnonzero(self.thing_of >= 0)
        out = np.full(len(scene), -1)
        if not len(marked):
            return out
        tree, reach = cKDTree(self.loose.x[marked]), REACH * self.loose.spacing
        known = np.append(self.thing_of[marked], -1)
        rows = torch.isfinite(scene.means).all(-1).nonzero().squeeze(-1)
        for part in rows.split(CHUNK):
            x = scene.means[part].double().numpy()
            _, near = tree.query(x, distance_upper_bound=reach, workers=threads())
            part = part[torch.from_numpy(near < len(marked))]
            mine = ~_on_planes(scene[part], self.surface, self.structure)
            out[part.numpy()[mine]] = known[near[near < len(marked)][mine]]
        return out


cached_surface = last_of(surface_points)


def find_room(scene: GaussianScene, up: Array | None = None, *, part: bool = False) -> Room | None:
    """Planes and things of a scene, on the CPU; None if it has no planes.

    Args:
        scene: the Gaussians.
        up: if known; then planes that are neither level nor upright are no part of the room.
        part: whether the scene is a piece of furniture; then only planes that are long compared
            with it carry anything.
    """
    scene = scene.plain  # parts of it are copied
    surface = surface_points(scene) if part else cached_surface(scene)
    if surface is None:
        return None
    structure = room_structure(surface, up, LONG_PART if part else LONG)
    if not structure.planes:
        return None
    rows = _loose(scene, surface, structure)
    loose = surface_points(scene[rows])
    if loose is None:
        return None
    loose = loose._replace(rows=rows.numpy()[loose.rows])
    features = np.concatenate([loose.x / loose.spacing, COLOR * loose.colors], axis=1)
    tree = density_tree(features, LEAST_POINTS, APART)
    groups, label = np.unique(_with_stray(loose, tree.clusters()), return_inverse=True)
    if groups[-1] < 0:
        return Room(surface, structure, loose, tree, [])
    label = label - int(groups[0] < 0)
    label = _joined(loose, label, np.full(len(groups), ONE_THING))
    room = Room(surface, structure, loose, tree, _things(tree, label))
    if up is not None:  # nothing hovers: what does not stand leans on what it touches
        least = np.where(room.stance(up).rests > STANDS, ONE_THING, LEANING)
        room = replace(room, things=_things(tree, _joined(loose, room.thing_of, least)))
    return _without_low_ones(room)


def _loose(scene: GaussianScene, surface: SurfacePoints, structure: Structure) -> torch.Tensor:
    """Rows of the opaque Gaussians on no plane."""
    solid = (scene.opacities >= SOLID_OPACITY) & torch.isfinite(scene.means).all(-1)
    parts = solid.nonzero().squeeze(-1).split(CHUNK)
    kept = [torch.from_numpy(~_on_planes(scene[rows], surface, structure)) for rows in parts]
    return torch.cat([rows[each] for rows, each in zip(parts, kept, strict=True)])


def _on_planes(scene: GaussianScene, surface: SurfacePoints, structure: Structure) -> Array:
    """Mask ``(N,)`` of Gaussians that lie in a plane: near it, and no disc that stands up on it."""
    x = scene.means.double().numpy()
    _, near = cKDTree(surface.x).query(x, workers=threads())
    n = surface.normals[near]
    plane = structure.of[near]
    thickness = np.append([p.thickness for p in structure.planes], 0.0)[plane]
    off = abs(((x - surface.x[near]) * n).sum(-1))
    sigma, order = scene.scales.sort(dim=-1)
    axes = to_matrix(scene.quats)
    short = axes.gather(2, order[:, None, :1].expand(-1, 3, 1)).squeeze(-1).double().numpy()
    stands = (sigma[:, 0] < FLAT * sigma[:, 1]).numpy() & (abs((short * n).sum(-1)) < 1 - ALIGNED)
    return np.asarray(
        (plane >= 0) & (off < np.maximum(thickness, ON_PLANE * surface.spacing)) & ~stands
    )


# --- things ---------------------------------------------------------------------------------------


def _things(tree: DensityTree, label: Array) -> list[Thing]:
    """A thing for every label, with the largest of the tree's clusters in it."""
    out, cluster = [], tree.clusters()
    for k in range(int(label.max()) + 1):
        points = np.flatnonzero(label == k)
        if len(points):
            out.append(Thing(points, int(np.bincount(cluster[points] + 1)[1:].argmax())))
    return out


def _without_low_ones(room: Room) -> Room:
    """The room without the roughness of its planes.

    What hardly rises from a plane is the foot of what it touches, or part of the plane.
    """
    planes = room.surface.x[room.structure.of >= 0]
    away, _ = cKDTree(planes).query(room.loose.x, workers=threads())
    high = RISES * room.surface.spacing
    low = np.array([np.quantile(away[thing.points], 0.75) <= high for thing in room.things], bool)
    label = _joined(room.loose, room.thing_of, np.where(low, LEANING, np.inf))
    return replace(
        room, things=_things(room.tree, np.where(np.append(low, True)[label], -1, label))
    )


def _with_stray(loose: SurfacePoints, label: Array) -> Array:
    """Labels ``(n,)`` in which points that fell off every cluster join the one they touch."""
    stray, known = np.flatnonzero(label < 0), np.flatnonzero(label >= 0)
    reach = TOUCHING * loose.spacing
    d, near = cKDTree(loose.x[known]).query(loose.x[stray], distance_upper_bound=reach)
    out = label.copy()
    out[stray[np.isfinite(d)]] = label[known[near[np.isfinite(d)]]]
    return out


def _joined(loose: SurfacePoints, label: Array, least: Array) -> Array:
    """Labels ``(n,)`` in which small clusters are joined to larger ones that they touch.

    ``least (K,)`` is the share of a cluster's points that must touch the other.
    """
    rows = np.flatnonzero(label >= 0)
    other = label[loose.near[rows]]
    far = np.linalg.norm(loose.x[loose.near[rows]] - loose.x[rows, None], axis=-1)
    i, j = np.nonzero(
        (other >= 0) & (other != label[rows, None]) & (far < TOUCHING * loose.spacing)
    )
    touch: list[dict[int, set[int]]] = [{} for _ in least]
    pairs = zip(label[rows[i]].tolist(), other[i, j].tolist(), rows[i].tolist(), strict=True)
    for mine, theirs, row in pairs:
        touch[mine].setdefault(theirs, set()).add(row)
    size = np.bincount(label[rows], minlength=len(least))
    root = np.arange(len(least) + 1)
    for k in np.argsort(size, kind="stable").tolist():
        if not touch[k]:
            continue
        host, shared = max(touch[k].items(), key=lambda each: (len(each[1]), -each[0]))
        if len(shared) <= least[k] * size[k]:
            continue
        for theirs, points in touch[k].items():  # what touched the one touches the host now
            if theirs != host:
                touch[host].setdefault(theirs, set()).update(points)
                touch[theirs].setdefault(host, set()).update(touch[theirs].pop(k, set()))
        touch[host].pop(k, None)
        touch[k] = {}
        size[host] += size[k]
        root[root == k] = host
    root[-1] = -1
    return root[label]
