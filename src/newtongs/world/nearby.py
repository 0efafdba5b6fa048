"""Only what can be touched is looked at: thousands of boxes, of which an object is near a few.

MuJoCo holds the fixed shapes in a tree of bounding boxes, and goes down that tree for every object
at every tick; with ten thousand boxes that takes most of the time. So the tree is replaced by a
small one, of the boxes that an object is near to. It is made anew as soon as an object has moved
farther than it was asked how near is near. Which contacts there are, and in which order, does not
depend on the tree: the same simulation comes out, bit for bit.
"""

import math
from typing import Any, NamedTuple, TypeAlias

import mujoco
import numba
import numpy as np
import numpy.typing as npt
import torch

from ..numba_rotations import write_matrix
from ..rotations import to_matrix

Array: TypeAlias = npt.NDArray[Any]

FEWEST = 64  # boxes, from which it pays
AHEAD = 40  # ticks for which an object of constant speed stays near to what it is near to
LEAST = 0.002  # of an object's radius: so far away is near, at least
BOUNDS = 8  # directions tried to tell two shapes apart
BLOCK = 64  # boxes that are passed over at once
ROUNDING = 1e-9
BOX, SPHERE = mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_SPHERE


class _Boxes(NamedTuple):
    """Fixed boxes along the axes."""

    geom: Array
    """Which of MuJoCo's shapes each is ``(n,)``."""
    low: Array
    high: Array
    """Corners ``(n, 3)``, with the margin within which a box is touched."""
    blocks: Array
    """Corners ``(n / BLOCK, 2, 3)`` around boxes that follow each other."""


class _Things(NamedTuple):
    """Convex pieces of the objects, each the points and a radius around them."""

    points: Array
    """``(P, 3)``, in the object's axes."""
    first: Array
    """Of each piece ``(m + 1,)``, where its points begin."""
    radius: Array
    """Of each piece ``(m,)``."""
    piece: Array
    """Of each object ``(K + 1,)``, where its pieces begin."""
    reach: Array
    """Of each object ``(K,)``: distance of its farthest point from its position."""


class _Tree(NamedTuple):
    """MuJoCo's own tree of the fixed shapes: parts of the model that are written."""

    child: Array
    geom: Array
    box: Array
    """Middle and half size ``(n, 6)``."""
    others: Array
    """Leaves that are always there: planes, and what else is no box ``(o,)``."""
    around: Array
    """Their bounding boxes ``(o, 6)``."""
    all: Array
    """A bounding box of everything ``(6,)``."""


class Nearby:
    """Keeps the tree of a model's fixed shapes as small as it may be."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self.boxes, self.things = _boxes(model), _things(model)
        self.tree = _tree(model, self.boxes)
        self.useful = len(self.boxes.geom) >= FEWEST
        k, n = model.nbody - 1, len(self.boxes.geom)
        self.anchor = np.full((k, 7), np.inf)  # poses for which the tree was made
        self.slack = np.zeros(k)  # and how far from there each object may move
        self.lists, self.counts = np.zeros((k, n), np.int32), np.zeros(k, np.int64)
        self.stamps = np.zeros(n, np.bool_)
        self._whole = [x.copy() for x in self.tree[:3]]
        # MuJoCo walks over all shapes of a body to see whether it can touch anything at all, for
        # each pair of bodies. The first few, and not one alone, tell it the same.
        self._number, self._few = model.body_geomnum[:1], max(2, 1 + int(self.tree.others.max()))
        self._all = int(self._number[0])

    def forget(self) -> None:
        """Put MuJoCo's own tree back, for whoever looks for contacts by other ways."""
        self.anchor[:] = np.inf
        self._number[0] = self._all
        for part, whole in zip(self.tree[:3], self._whole, strict=True):
            part[:] = whole

    def update(self, data: mujoco.MjData, tick: float) -> None:
        """Make the tree right for the poses of ``data``; ``tick`` is in seconds."""
        if not self.useful or is_valid(data.qpos, self.anchor, self.slack, self.things.reach):
            return
        _look(
            self.boxes, self.things, data.qpos, data.qvel, AHEAD * tick, self.anchor, self.slack,
            self.lists, self.counts,
        )  # fmt: skip
        _plant(self.tree, self.boxes, self.lists, self.counts, self.stamps)
        self._number[0] = self._few


def _boxes(model: mujoco.MjModel) -> _Boxes:
    fixed = (model.geom_bodyid == 0) & (model.geom_type == BOX)
    along = np.abs(model.geom_quat[:, 0]) == 1
    geom = np.flatnonzero(fixed & along)
    half = model.geom_size[geom] + model.geom_margin[geom, None]
    low, high = model.geom_pos[geom] - half, model.geom_pos[geom] + half
    starts = np.arange(0, len(geom), BLOCK)
    blocks = np.zeros((0, 2, 3))
    if len(geom):
        ends = np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)
        blocks = np.stack(ends, axis=1)
    return _Boxes(geom.astype(np.int32), low, high, blocks)


def _things(model: mujoco.MjModel) -> _Things:
    moving = np.flatnonzero(model.geom_bodyid > 0)
    points = [_points(model, int(g)) for g in moving]
    first = np.concatenate([[0], np.cumsum([len(x) for x in points])]).astype(np.int64)
    radius = np.where(model.geom_type[moving] == SPHERE, model.geom_size[moving, 0], 0.0)
    owner = model.geom_bodyid[moving] - 1  # MuJoCo keeps the shapes of a body together
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


def _tree(model: mujoco.MjModel, boxes: _Boxes) -> _Tree:
    start, end = model.body_bvhadr[0], model.body_bvhadr[0] + model.body_bvhnum[0]
    child, geom = model.bvh_child[start:end], model.bvh_nodeid[start:end]
    box = model.bvh_aabb[start:end]
    others = np.flatnonzero((geom >= 0) & ~np.isin(geom, boxes.geom))
    return _Tree(child, geom, box, geom[others], box[others], box[0].copy())


@numba.njit(cache=True, nogil=True)
def is_valid(qpos: Array, anchor: Array, slack: Array, reach: Array) -> bool:
    """Whether no point of any object has moved farther than it may."""
    valid = True
    for k in range(len(slack)):
        valid &= _moved(qpos, anchor[k], k, reach[k]) <= slack[k]
    return valid


@numba.njit(cache=True, nogil=True, inline="always")
def _moved(qpos: Array, anchor: Array, k: int, reach: float) -> float:
    """No point of object ``k`` is farther than this from where it was; not a number at first."""
    shift = 0.0
    for i in range(3):
        shift += (qpos[7 * k + i] - anchor[i]) ** 2
    w, x, y, z = qpos[7 * k + 3], qpos[7 * k + 4], qpos[7 * k + 5], qpos[7 * k + 6]
    a, b, c, d = anchor[3], anchor[4], anchor[5], anchor[6]
    # The vector part of the turn between: the sine of half its angle, precise where it is small.
    sine = (
        (a * x - w * b - c * z + d * y) ** 2
        + (a * y - w * c - d * x + b * z) ** 2
        + (a * z - w * d - b * y + c * x) ** 2
    )
    norm = (w * w + x * x + y * y + z * z) * (a * a + b * b + c * c + d * d)
    return math.sqrt(shift) + 2 * math.sqrt(sine / norm) * reach


@numba.njit(cache=True, nogil=True)
def _look(
    boxes: _Boxes,
    things: _Things,
    qpos: Array,
    qvel: Array,
    seconds: float,
    anchor: Array,
    slack: Array,
    lists: Array,
    counts: Array,
) -> None:
    """Which boxes each object is near to, for those that have used up half of their slack."""
    turn = np.empty((3, 3))
    for k in range(len(slack)):
        if _moved(qpos, anchor[k], k, things.reach[k]) <= 0.5 * slack[k]:
            continue
        for i in range(7):
            anchor[k, i] = qpos[7 * k + i]
        v = _length(qvel[6 * k], qvel[6 * k + 1], qvel[6 * k + 2])
        w = _length(qvel[6 * k + 3], qvel[6 * k + 4], qvel[6 * k + 5])
        slack[k] = max(seconds * (v + w * things.reach[k]), LEAST * things.reach[k])
        write_matrix(anchor[k, 3:], turn)
        first, last = things.piece[k], things.piece[k + 1]
        points = _placed(things.points, things.first[first], things.first[last], turn, anchor[k])
        counts[k] = _near(
            boxes, points, things.first[first : last + 1], things.radius[first:last],
            slack[k] * (1 + ROUNDING) + ROUNDING, lists[k],
        )  # fmt: skip


@numba.njit(cache=True, nogil=True, inline="always")
def _length(x: float, y: float, z: float) -> float:
    return math.sqrt(x * x + y * y + z * z)


@numba.njit(cache=True, nogil=True)
def _placed(points: Array, start: int, end: int, turn: Array, place: Array) -> Array:
    """Some of the points, turned and moved ``(end - start, 3)``."""
    out = np.empty((end - start, 3))
    for p in range(start, end):
        x, y, z = points[p, 0], points[p, 1], points[p, 2]
        for i in range(3):
            out[p - start, i] = turn[i, 0] * x + turn[i, 1] * y + turn[i, 2] * z + place[i]
    return out


@numba.njit(cache=True, nogil=True)
def _near(
    boxes: _Boxes, points: Array, first: Array, radius: Array, slack: float, out: Array
) -> int:
    """Indices of the boxes that a piece may be closer to than ``slack``; returns how many.

    ``first`` counts from the first point of the first piece.
    """
    n = len(radius)
    low, high = np.full((n, 3), np.inf), np.full((n, 3), -np.inf)
    floor, top = np.full(3, np.inf), np.full(3, -np.inf)
    for j in range(n):
        more = radius[j] + slack
        for p in range(first[j] - first[0], first[j + 1] - first[0]):
            for i in range(3):
                low[j, i] = min(low[j, i], points[p, i] - more)
                high[j, i] = max(high[j, i], points[p, i] + more)
        for i in range(3):
            floor[i], top[i] = min(floor[i], low[j, i]), max(top[i], high[j, i])
    found = 0
    for block in range(len(boxes.blocks)):
        if not _meet(floor, top, boxes.blocks[block, 0], boxes.blocks[block, 1]):
            continue
        for b in range(block * BLOCK, min((block + 1) * BLOCK, len(boxes.low))):
            if not _meet(floor, top, boxes.low[b], boxes.high[b]):
                continue
            for j in range(n):
                if _meet(low[j], high[j], boxes.low[b], boxes.high[b]) and not _apart(
                    points, first[j] - first[0], first[j + 1] - first[0],
                    boxes.low[b], boxes.high[b], radius[j] + slack,
                ):  # fmt: skip
                    out[found] = b
                    found += 1
                    break
    return found


@numba.njit(cache=True, nogil=True, inline="always")
def _meet(low: Array, high: Array, other_low: Array, other_high: Array) -> bool:
    return (
        low[0] <= other_high[0] and high[0] >= other_low[0]
        and low[1] <= other_high[1] and high[1] >= other_low[1]
        and low[2] <= other_high[2] and high[2] >= other_low[2]
    )  # fmt: skip


@numba.njit(cache=True, nogil=True)
def _apart(points: Array, start: int, end: int, low: Array, high: Array, limit: float) -> bool:
    """Whether the hull of some points is surely farther than ``limit`` from a box.

    Gilbert's walk towards the nearest point of their difference. Along any direction, the gap
    between the two is a lower bound of the distance; so no answer is wrong for a step too few.
    """
    vx, vy, vz = 0.0, 0.0, 0.0
    for i in range(start, end):
        vx, vy, vz = vx + points[i, 0], vy + points[i, 1], vz + points[i, 2]
    vx, vy, vz = vx / (end - start), vy / (end - start), vz / (end - start)
    vx -= min(max(vx, low[0]), high[0])
    vy -= min(max(vy, low[1]), high[1])
    vz -= min(max(vz, low[2]), high[2])
    for _ in range(BOUNDS):
        square = vx * vx + vy * vy + vz * vz
        if square <= limit * limit:
            return False
        nearest, least = start, np.inf
        for i in range(start, end):
            along = vx * points[i, 0] + vy * points[i, 1] + vz * points[i, 2]
            if along < least:
                nearest, least = i, along
        wx = points[nearest, 0] - (high[0] if vx > 0 else low[0])
        wy = points[nearest, 1] - (high[1] if vy > 0 else low[1])
        wz = points[nearest, 2] - (high[2] if vz > 0 else low[2])
        gap = vx * wx + vy * wy + vz * wz  # times the length of v
        if gap > limit * math.sqrt(square):
            return True
        # The point nearest to zero between v and w.
        dx, dy, dz = wx - vx, wy - vy, wz - vz
        length = dx * dx + dy * dy + dz * dz
        share = min(max((square - gap) / length, 0.0), 1.0) if length > 0 else 0.0
        vx, vy, vz = vx + share * dx, vy + share * dy, vz + share * dz
    return False


@numba.njit(cache=True, nogil=True)
def _plant(tree: _Tree, boxes: _Boxes, lists: Array, counts: Array, stamps: Array) -> None:
    """Write the tree of what is near: the others on one side, a balanced tree on the other."""
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
    used = _write_others(tree, n > 0)
    if n:
        _write_boxes(tree, boxes, leaves[:n], used)


@numba.njit(cache=True, nogil=True)
def _write_others(tree: _Tree, more: bool) -> int:
    """A chain from the root with one of the others at each link; returns the next free node."""
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


@numba.njit(cache=True, nogil=True)
def _write_boxes(tree: _Tree, boxes: _Boxes, leaves: Array, root: int) -> None:
    """A balanced tree, in the order of the leaves: neighbours stand beside each other."""
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


@numba.njit(cache=True, nogil=True)
def _write_bounds(tree: _Tree, boxes: _Boxes, leaves: Array, spans: Array, root: int) -> None:
    """Bounding boxes from the leaves up: children come after their parents."""
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
