"""Simulating only the boxes that an object can touch, out of thousands.

MuJoCo visits all shapes at every tick, and for every object descends a tree of their bounding
boxes; with ten thousand boxes that takes most of the time. So its model has slots for a few boxes
only. The boxes near an object are written to the slots, with a small tree over them, and are
updated once an object has moved farther than the distance within which boxes were searched. That
distance is small, because MuJoCo tests every box in the tree; so candidates within a larger
distance are searched first and cached. Contacts do not depend on other boxes, and their order is
that of the shapes, which the slots preserve: the simulation is the same bit for bit.
"""

import math
from typing import NamedTuple

import mujoco
import numpy as np
import torch

from ..base.jit import njit
from ..base.numba_rotations import write_matrix
from ..base.rotations import to_matrix
from ..base.types import Array
from .gjk import Scratch, is_apart, make_scratch

FEWEST = 64  # least number of boxes for which it pays off
AHEAD = 8  # ticks for which the list of near boxes is valid at constant speed
LEAST = 2e-4  # of an object's radius: least search distance
LATER = 40  # further ticks for which the candidates are valid, from which near boxes are chosen
BLOCK = 32  # boxes that are skipped at once
CELLS = 1024  # cells along each axis, for the order in space
ROUNDING = 1e-9
FAR = 1e9  # farther than any object
COUNTS = "time", "nbody_awake", "nparent_awake", "ntree_awake", "nv_awake"  # MjData's numbers
SPHERE = mujoco.mjtGeom.mjGEOM_SPHERE


class _Boxes(NamedTuple):
    """Fixed boxes along the axes."""

    geom: Array
    """Index of its shape ``(n,)`` in a model with all boxes: the order of contacts."""
    center: Array
    half: Array
    """Half edges as in MuJoCo ``(n, 3)``, without the margin."""
    bound: Array
    """Radius ``(n,)`` of the ball around each."""
    low: Array
    high: Array
    """Corners ``(n, 3)``, including the margin within which a box is touched."""
    blocks: Array
    """Corners ``(n / BLOCK, 2, 3)`` around blocks of consecutive boxes."""


class _Things(NamedTuple):
    """Convex pieces of the objects, each the points and a radius around them."""

    points: Array
    """``(P, 3)``, in the axes of the object."""
    first: Array
    """Of each piece ``(m + 1,)``, where its points begin."""
    radius: Array
    """Of each piece ``(m,)``."""
    piece: Array
    """Of each object ``(K + 1,)``, where its pieces begin."""
    reach: Array
    """Distance of the farthest point of each object ``(K,)`` from its position."""


class _Pieces(NamedTuple):
    """The pieces of one object at its present pose."""

    points: Array
    """``(P, 3)``."""
    first: Array
    """Of each piece ``(m + 1,)``, where its points begin."""
    radius: Array
    """Of each piece ``(m,)``."""
    low: Array
    high: Array
    """Corners ``(m, 3)`` of the bounding box of each piece."""
    middle: Array
    """Centre of that box ``(m, 3)``."""
    scratch: Scratch


class _Lists(NamedTuple):
    """Boxes near each object, valid while no point of it has moved farther than its slack."""

    anchor: Array
    """Poses ``(K, 7)`` for which the boxes were listed."""
    slack: Array
    """Distance ``(K,)`` that an object may move from there."""
    boxes: Array
    """Indices of the boxes ``(K, n)``."""
    counts: Array
    """Number of boxes ``(K,)``."""

    @classmethod
    def empty(cls, objects: int, boxes: int) -> "_Lists":
        """Empty lists that are valid for no pose."""
        lists, counts = np.zeros((objects, boxes), np.int32), np.zeros(objects, np.int64)
        return cls(np.full((objects, 7), np.inf), np.zeros(objects), lists, counts)


class _Slots(NamedTuple):
    """Slots for boxes: parts of the model that are overwritten."""

    first: int
    """Index of the first slot among MuJoCo's shapes."""
    center: Array
    half: Array
    around: Array
    """Centre and half edges ``(n, 6)``, again."""
    bound: Array


class _Tree(NamedTuple):
    """MuJoCo's own tree of the fixed shapes: parts of the model that are overwritten."""

    child: Array
    geom: Array
    box: Array
    """Centre and half edges ``(n, 6)`` of the bounding boxes."""
    others: Array
    """Permanent leaves ``(o,)``: planes and other shapes that are not boxes."""
    around: Array
    """Their bounding boxes ``(o, 6)``."""
    all: Array
    """A bounding box of everything ``(6,)``."""


class ActiveBoxes:
    """Keeps the boxes near the objects in the slots of a model."""

    def __init__(self, model: mujoco.MjModel, whole: mujoco.MjModel, boxes: int) -> None:
        """``whole`` is the model with all ``boxes``; the same object as ``model`` if they are few.

        The boxes, and the slots, are the last of the fixed shapes.
        """
        self.useful = model is not whole
        self.body_of = model.geom_bodyid - 1
        self.counts = np.zeros(model.nbody - 1, np.int64)
        if not self.useful:
            return
        fixed, all_fixed = (int(m.body_geomnum[0]) for m in (model, whole))
        first = all_fixed - boxes
        self.slots = fixed - first
        self.boxes, self.things = _boxes(whole, np.arange(first, all_fixed)), _things(model)
        self.places = _Slots(
            first, model.geom_pos[first:fixed], model.geom_size[first:fixed],
            model.geom_aabb[first:fixed], model.geom_rbound[first:fixed],
        )  # fmt: skip
        self.tree = _tree(model, first)
        k, n = model.nbody - 1, len(self.boxes.geom)
        self.near, self.candidates = _Lists.empty(k, n), _Lists.empty(k, n)
        self.anchor, self.slack, self.lists, self.counts = self.near  # the lists in the tree
        self.stamps = np.zeros(n, np.bool_)
        # For each pair of bodies MuJoCo loops over all shapes of a body to see whether it can
        # touch anything. A few (more than one) of them give the same answer.
        model.body_geomnum[0] = max(2, first)

    def forget(self) -> None:
        """Invalidate the lists: poses and data have been replaced."""
        if self.useful:
            self.near.anchor[:] = self.candidates.anchor[:] = np.inf

    def update(self, data: mujoco.MjData, tick: float) -> bool:
        """Update the slots for the poses of ``data``; ``tick`` is in seconds.

        Returns False if there are too few slots.
        """
        if not self.useful or is_valid(data.qpos, self.anchor, self.slack, self.things.reach):
            return True
        _look(self.boxes, self.things, data.qpos, data.qvel, tick, self.near, self.candidates)
        place = data.geom_xpos[self.places.first :]
        lists = self.lists, self.counts, self.stamps
        return _plant(self.tree, self.boxes, self.places, place, *lists)


def carry(old: mujoco.MjData, new: mujoco.MjData) -> None:
    """Copy a moment to the data of another model: same objects, another number of slots."""
    for name in dir(new):
        value = getattr(old, name) if not name.startswith("_") else None
        if isinstance(value, np.ndarray) and value.size:
            there = getattr(new, name)
            if value.shape == there.shape:
                there[:] = value
    for name in COUNTS:
        setattr(new, name, getattr(old, name))
    moving = int((old.model.geom_bodyid > 0).sum())  # they come last; those asleep are not updated
    for name in ("geom_xpos", "geom_xmat", "geom_xquat"):
        getattr(new, name)[-moving:] = getattr(old, name)[-moving:]


def _boxes(whole: mujoco.MjModel, geom: Array) -> _Boxes:
    geom = geom[_order(whole.geom_pos[geom])]
    center, size = whole.geom_pos[geom], whole.geom_size[geom]
    half = size + whole.geom_margin[geom, None]
    low, high = center - half, center + half
    starts = np.arange(0, len(geom), BLOCK)
    ends = np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)
    bound, blocks = whole.geom_rbound[geom], np.stack(ends, axis=1)
    return _Boxes(geom.astype(np.int32), center, size, bound, low, high, blocks)


def _order(places: Array) -> Array:
    """Indices ``(n,)`` along a space-filling curve, so that neighbours are consecutive."""
    span = np.ptp(places, axis=0).max() or 1.0
    cells = ((places - places.min(0)) / span * (CELLS - 1)).astype(np.int64)
    codes = np.zeros(len(places), np.int64)
    for bit in range(CELLS.bit_length() - 1):
        for axis in range(3):
            codes |= (cells[:, axis] >> bit & 1) << (3 * bit + axis)
    return np.argsort(codes, kind="stable")


def _things(model: mujoco.MjModel) -> _Things:
    moving = np.flatnonzero(model.geom_bodyid > 0)
    points = [_points(model, int(g)) for g in moving]
    first = np.concatenate([[0], np.cumsum([len(x) for x in points])]).astype(np.int64)
    radius = np.where(model.geom_type[moving] == SPHERE, model.geom_size[moving, 0], 0.0)
    owner = model.geom_bodyid[moving] - 1  # the shapes of a body are consecutive in MuJoCo
    piece = np.searchsorted(owner, np.arange(model.nbody)).astype(np.int64)
    far = [np.linalg.norm(x, axis=-1).max() + r for x, r in zip(points, radius, strict=True)]
    reach = np.maximum.reduceat(far, piece[:-1])
    return _Things(np.concatenate(points), first, radius, piece, reach)


def _points(model: mujoco.MjModel, geom: int) -> Array:
    """Points ``(n, 3)`` of a shape, in the axes of its body."""
    if model.geom_type[geom] == SPHERE:
        return model.geom_pos[geom : geom + 1].copy()
    mesh = model.geom_dataid[geom]
    start = model.mesh_vertadr[mesh]
    points = model.mesh_vert[start : start + model.mesh_vertnum[mesh]].astype(np.float64)
    turn = to_matrix(torch.from_numpy(model.geom_quat[geom])).numpy()
    return model.geom_pos[geom] + points @ turn.T


def _tree(model: mujoco.MjModel, first: int) -> _Tree:
    start, end = model.body_bvhadr[0], model.body_bvhadr[0] + model.body_bvhnum[0]
    child, geom = model.bvh_child[start:end], model.bvh_nodeid[start:end]
    box = model.bvh_aabb[start:end]
    others = np.flatnonzero((geom >= 0) & (geom < first))
    everything = np.array([0.0, 0.0, 0.0, FAR, FAR, FAR])  # boxes may be anywhere
    return _Tree(child, geom, box, geom[others], box[others], everything)


@njit(nogil=True)
def is_valid(qpos: Array, anchor: Array, slack: Array, reach: Array) -> bool:
    """Whether no point of any object has moved farther than its slack."""
    valid = True
    for k in range(len(slack)):
        valid &= _moved(qpos, anchor[k], k, reach[k]) <= slack[k]
    return valid


@njit(nogil=True, inline="always")
def _moved(qpos: Array, anchor: Array, k: int, reach: float) -> float:
    """Upper bound of the distance any point of object ``k`` has moved; NaN at first."""
    shift = 0.0
    for i in range(3):
        shift += (qpos[7 * k + i] - anchor[i]) ** 2
    w, x, y, z = qpos[7 * k + 3], qpos[7 * k + 4], qpos[7 * k + 5], qpos[7 * k + 6]
    a, b, c, d = anchor[3], anchor[4], anchor[5], anchor[6]
    # The vector part of the relative rotation: the sine of half its angle, precise if small.
    sine = (
        (a * x - w * b - c * z + d * y) ** 2
        + (a * y - w * c - d * x + b * z) ** 2
        + (a * z - w * d - b * y + c * x) ** 2
    )
    norm = (w * w + x * x + y * y + z * z) * (a * a + b * b + c * c + d * d)
    return math.sqrt(shift) + 2 * math.sqrt(sine / norm) * reach


@njit(nogil=True)
def _look(
    boxes: _Boxes,
    things: _Things,
    qpos: Array,
    qvel: Array,
    tick: float,
    near: _Lists,
    candidates: _Lists,
) -> None:
    """Update the lists of the objects that have used up half of their slack."""
    for k in range(len(near.slack)):
        reach = things.reach[k]
        if _moved(qpos, near.anchor[k], k, reach) <= 0.5 * near.slack[k]:
            continue
        v = _length(qvel[6 * k], qvel[6 * k + 1], qvel[6 * k + 2])
        w = _length(qvel[6 * k + 3], qvel[6 * k + 4], qvel[6 * k + 5])
        pace = tick * (v + w * reach)
        slack = max(AHEAD * pace, LEAST * reach)
        known = _moved(qpos, candidates.anchor[k], k, reach) + slack <= candidates.slack[k]
        _stay(near, k, qpos, slack)
        near.counts[k] = 0
        if known and not candidates.counts[k]:
            continue
        pieces = _placed(things, k, near.anchor[k])
        if not known:
            _stay(candidates, k, qpos, slack * (1 + LATER / AHEAD))
            candidates.counts[k] = _search(
                boxes, pieces, _widened(candidates.slack[k]), candidates.boxes[k]
            )
        among = candidates.boxes[k, : candidates.counts[k]]
        near.counts[k] = _choose(boxes, pieces, _widened(slack), among, near.boxes[k])


@njit(nogil=True, inline="always")
def _stay(lists: _Lists, k: int, qpos: Array, slack: float) -> None:
    """Store the pose of object ``k``, and how far it may move from there."""
    for i in range(7):
        lists.anchor[k, i] = qpos[7 * k + i]
    lists.slack[k] = slack


@njit(nogil=True, inline="always")
def _widened(slack: float) -> float:
    return slack * (1 + ROUNDING) + ROUNDING


@njit(nogil=True, inline="always")
def _length(x: float, y: float, z: float) -> float:
    return math.sqrt(x * x + y * y + z * z)


@njit(nogil=True)
def _placed(things: _Things, k: int, pose: Array) -> _Pieces:
    """The pieces of object ``k`` at a pose ``(7,)``."""
    begin, end = things.piece[k], things.piece[k + 1]
    first = things.first[begin : end + 1] - things.first[begin]
    points, turn = np.empty((first[-1], 3)), np.empty((3, 3))
    low, high = np.full((end - begin, 3), np.inf), np.full((end - begin, 3), -np.inf)
    write_matrix(pose[3:], turn)
    for j in range(end - begin):
        radius = things.radius[begin + j]
        for p in range(first[j], first[j + 1]):
            own = things.points[things.first[begin] + p]
            for i in range(3):
                x = turn[i, 0] * own[0] + turn[i, 1] * own[1] + turn[i, 2] * own[2] + pose[i]
                points[p, i] = x
                low[j, i], high[j, i] = min(low[j, i], x - radius), max(high[j, i], x + radius)
    middle = 0.5 * (low + high)
    return _Pieces(points, first, things.radius[begin:end], low, high, middle, make_scratch())


@njit(nogil=True)
def _search(boxes: _Boxes, pieces: _Pieces, slack: float, out: Array) -> int:
    """Write the boxes that may be closer to a piece than ``slack`` to ``out``; returns how many."""
    low, high = np.empty(3), np.empty(3)
    for i in range(3):
        low[i], high[i] = pieces.low[:, i].min(), pieces.high[:, i].max()
    found = 0
    for block in range(len(boxes.blocks)):
        if not _meet(low, high, boxes.blocks[block, 0], boxes.blocks[block, 1], slack):
            continue
        for b in range(block * BLOCK, min((block + 1) * BLOCK, len(boxes.low))):
            if _meet(low, high, boxes.low[b], boxes.high[b], slack) and _is_near(
                boxes, b, pieces, slack
            ):
                out[found] = b
                found += 1
    return found


@njit(nogil=True)
def _choose(boxes: _Boxes, pieces: _Pieces, slack: float, among: Array, out: Array) -> int:
    """The same, ``among`` some boxes."""
    found = 0
    for b in among:
        if _is_near(boxes, b, pieces, slack):
            out[found] = b
            found += 1
    return found


@njit(nogil=True)
def _is_near(boxes: _Boxes, b: int, pieces: _Pieces, slack: float) -> bool:
    """Whether any piece may be closer to a box than ``slack``."""
    low, high = boxes.low[b], boxes.high[b]
    for j in range(len(pieces.radius)):
        if _meet(pieces.low[j], pieces.high[j], low, high, slack) and not is_apart(
            pieces.points[pieces.first[j] : pieces.first[j + 1]], low, high, pieces.middle[j],
            pieces.radius[j] + slack, pieces.scratch,
        ):  # fmt: skip
            return True
    return False


@njit(nogil=True, inline="always")
def _meet(low: Array, high: Array, other_low: Array, other_high: Array, slack: float) -> bool:
    return (
        low[0] - slack <= other_high[0] and high[0] + slack >= other_low[0]
        and low[1] - slack <= other_high[1] and high[1] + slack >= other_low[1]
        and low[2] - slack <= other_high[2] and high[2] + slack >= other_low[2]
    )  # fmt: skip


@njit(nogil=True)
def _plant(
    tree: _Tree,
    boxes: _Boxes,
    slots: _Slots,
    place: Array,
    lists: Array,
    counts: Array,
    stamps: Array,
) -> bool:
    """Write slots and tree: permanent leaves on one side, a balanced tree of boxes on the other.

    ``place (n, 3)`` are the slots' centres in MuJoCo's data. Returns False if there are too few.
    """
    most = 0
    for k in range(len(counts)):
        most += counts[k]
    leaves, n = np.empty(most, np.int32), 0
    for k in range(len(counts)):
        for i in range(counts[k]):
            box = lists[k, i]
            if not stamps[box]:
                stamps[box], leaves[n] = True, box
                n += 1
    for i in range(n):
        stamps[leaves[i]] = False
    if n > len(slots.bound):
        return False
    used = _write_others(tree, n > 0)
    if n:
        _write_boxes(tree, boxes, leaves[:n], used)
        _fill(tree, boxes, slots, place, leaves[:n], used)
    return True


@njit(nogil=True)
def _fill(
    tree: _Tree, boxes: _Boxes, slots: _Slots, place: Array, leaves: Array, root: int
) -> None:
    """Write boxes to slots, in the order of the shapes, and the slots' indices to the tree."""
    shapes = np.sort(boxes.geom[leaves])
    for leaf in leaves:
        slot = np.searchsorted(shapes, boxes.geom[leaf])
        slots.bound[slot] = boxes.bound[leaf]
        for i in range(3):
            slots.center[slot, i] = place[slot, i] = boxes.center[leaf, i]
            slots.half[slot, i] = slots.around[slot, 3 + i] = boxes.half[leaf, i]
    for node in range(root, root + 2 * len(leaves) - 1):
        if tree.geom[node] >= 0:
            tree.geom[node] = slots.first + np.searchsorted(shapes, tree.geom[node])


@njit(nogil=True)
def _write_others(tree: _Tree, more: bool) -> int:
    """A chain from the root with a permanent leaf at each link; returns the next free node."""
    left, node = len(tree.others), 0
    for k in range(left):
        last = k == left - 1 and not more
        leaf = node if last else node + 1
        if not last:
            tree.child[node, 0], tree.child[node, 1], tree.geom[node] = leaf, leaf + 1, -1
        tree.child[leaf, 0], tree.child[leaf, 1], tree.geom[leaf] = -1, -1, tree.others[k]
        for i in range(6):
            tree.box[node, i], tree.box[leaf, i] = tree.all[i], tree.around[k, i]
        node = leaf + 1
    return node


@njit(nogil=True)
def _write_boxes(tree: _Tree, boxes: _Boxes, leaves: Array, root: int) -> None:
    """A balanced tree in the order of the leaves, in which neighbours are consecutive."""
    count = 2 * len(leaves) - 1
    spans = np.empty((count, 2), np.int64)
    spans[0, 0], spans[0, 1] = 0, len(leaves)
    made = 1
    for k in range(count):
        start, end, node = spans[k, 0], spans[k, 1], root + k
        if end - start == 1:
            tree.child[node, 0], tree.child[node, 1] = -1, -1
            tree.geom[node] = boxes.geom[leaves[start]]
            continue
        spans[made, 0], spans[made, 1] = start, (start + end) // 2
        spans[made + 1, 0], spans[made + 1, 1] = (start + end) // 2, end
        tree.child[node, 0], tree.child[node, 1] = root + made, root + made + 1
        tree.geom[node] = -1
        made += 2
    _write_bounds(tree, boxes, leaves, spans, root)


@njit(nogil=True)
def _write_bounds(tree: _Tree, boxes: _Boxes, leaves: Array, spans: Array, root: int) -> None:
    """Bounding boxes from the leaves up; children are stored after their parents."""
    low, high = np.empty((len(spans), 3)), np.empty((len(spans), 3))
    for k in range(len(spans) - 1, -1, -1):
        leaf = tree.geom[root + k] >= 0
        a, b = tree.child[root + k, 0] - root, tree.child[root + k, 1] - root
        for i in range(3):
            if leaf:
                low[k, i] = boxes.low[leaves[spans[k, 0]], i]
                high[k, i] = boxes.high[leaves[spans[k, 0]], i]
            else:
                low[k, i], high[k, i] = min(low[a, i], low[b, i]), max(high[a, i], high[b, i])
            tree.box[root + k, i] = 0.5 * (low[k, i] + high[k, i])
            tree.box[root + k, 3 + i] = 0.5 * (high[k, i] - low[k, i]) + ROUNDING
