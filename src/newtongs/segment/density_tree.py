"""Clusters of points at every density: a tree of groups within groups.

HDBSCAN (Campello, Moulavi and Sander, 2013) on a graph of nearest neighbours. The spanning tree of
mutual reachability distances is cut from the longest edge down. A group that splits into two of at
least ``least`` points has two children; smaller pieces fall off. The groups that persist over the
widest range of densities are the clusters, their ancestors are the larger wholes.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial import cKDTree

from ..base.jit import njit
from ..base.process import threads
from ..base.types import Array

GRAPH = 24  # neighbours along which points may be linked
CORE = 6  # the neighbour that measures the density around a point


class DensityTree(NamedTuple):
    """Groups ``0 .. G-1``, parents before children."""

    parent: Array
    """``(G,)``; -1 for those without."""
    chosen: Array
    """Whether each group ``(G,)`` is a cluster: none of its ancestors or descendants is one."""
    group: Array
    """The smallest group of each point ``(n,)``; -1 for stray points."""

    def clusters(self) -> Array:
        """The chosen group of each point ``(n,)``; -1 for none."""
        return self._first_of(self.chosen)

    def _first_of(self, marked: Array) -> Array:
        """For every point, the marked group that contains it; -1 if there is none."""
        at = np.full(len(self.parent) + 1, -1)
        for g in range(len(self.parent)):
            up = at[self.parent[g]] if self.parent[g] >= 0 else -1
            at[g] = g if up < 0 and marked[g] else up
        return at[self.group]


def density_tree(x: Array, least: int, apart: float) -> DensityTree:
    """The tree of points ``(n, d)``.

    Args:
        x: the points.
        least: number of points of the smallest group.
        apart: reachability beyond which points never belong to one cluster, only to one ancestor.
    """
    n = len(x)
    if n < max(least, CORE + 1):
        nothing = np.zeros(0, int)
        return DensityTree(nothing, nothing.astype(bool), np.full(n, -1))
    d, near = cKDTree(x).query(x, k=min(GRAPH + 1, n), workers=threads())
    core = d[:, min(CORE, d.shape[1] - 1)]
    i, j = np.repeat(np.arange(n), d.shape[1] - 1), near[:, 1:].ravel()
    reach = np.maximum(np.maximum(core[i], core[j]), d[:, 1:].ravel())
    # Zero entries of a sparse matrix are no edges: copies of a point are very near instead.
    reach = np.maximum(reach, 1e-9 * max(float(reach.max()), 1e-300))
    low, high = np.minimum(i, j), np.maximum(i, j)
    _, once = np.unique(low * n + high, return_index=True)
    graph = sparse.csr_matrix((reach[once], (low[once], high[once])), shape=(n, n))
    edges = minimum_spanning_tree(graph).tocoo()
    order = np.argsort(edges.data, kind="stable")
    joined = _joined(n, edges.row[order].astype(np.int64), edges.col[order].astype(np.int64))
    parent, birth, death, group = _condensed(n, joined, edges.data[order], least)
    sparsest = 1 / apart
    stability = _stability(parent, birth.clip(sparsest), death.clip(sparsest), group)
    return DensityTree(parent, _chosen(parent, stability), group)


@njit(nogil=True)
def _joined(n: int, a: Array, b: Array) -> Array:
    """The two parts ``(m, 2)`` that each edge joins: points, or ``n`` + an earlier edge."""
    root, node = np.arange(n), np.arange(n)
    out = np.empty((len(a), 2), np.int64)
    for k in range(len(a)):
        i, j = a[k], b[k]
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        while root[j] != j:
            root[j] = root[root[j]]
            j = root[j]
        out[k, 0], out[k, 1] = node[i], node[j]
        root[i] = j
        node[j] = n + k
    return out


@njit(nogil=True)
def _condensed(
    n: int, joined: Array, lengths: Array, least: int
) -> tuple[Array, Array, Array, Array]:
    """Groups from the longest edge down: parent, births, and the point's group and death.

    ``birth (G,)`` is the density (one over length) at which a group separates from its parent;
    ``death (n,)`` the one at which a point leaves its group.
    """
    m = len(joined)
    size = np.ones(n + m, np.int64)
    for k in range(m):
        size[n + k] = size[joined[k, 0]] + size[joined[k, 1]]
    inside = np.full(n + m, -1, np.int64)  # group that a part belongs to when its edge is cut
    whole = np.ones(n + m, np.bool_)
    for k in range(m):
        whole[joined[k, 0]] = whole[joined[k, 1]] = False
    parent = np.full(m + 1, -1, np.int64)
    birth = np.zeros(m + 1)
    death = np.zeros(n)
    group = np.full(n, -1, np.int64)
    count = 0
    for part in range(n, n + m):
        if whole[part] and size[part] >= least:
            inside[part] = count
            count += 1
    for k in range(m - 1, -1, -1):
        here = inside[n + k]
        if here < 0:
            continue
        density = 1.0 / lengths[k]
        one, two = joined[k, 0], joined[k, 1]
        split = size[one] >= least and size[two] >= least
        for part in (one, two):
            if split:
                inside[part] = count
                parent[count], birth[count] = here, density
                count += 1
            elif size[part] >= least:
                inside[part] = here
            else:
                _fall_off(part, here, density, n, joined, group, death)
    return parent[:count], birth[:count], death, group


@njit(nogil=True)
def _fall_off(
    part: int, here: int, density: float, n: int, joined: Array, group: Array, death: Array
) -> None:
    """All points of a part leave their group at this density."""
    stack = [part]
    while len(stack) > 0:
        one = stack.pop()
        if one < n:
            group[one], death[one] = here, density
        else:
            stack.append(joined[one - n, 0])
            stack.append(joined[one - n, 1])


def _stability(parent: Array, birth: Array, death: Array, group: Array) -> Array:
    """How long, in density, the points of each group ``(G,)`` stay together, summed over them."""
    count = len(parent)
    held = group >= 0
    out = np.bincount(group[held], death[held] - birth[group[held]], count)
    points = np.bincount(group[held], minlength=count)
    for g in range(count - 1, -1, -1):  # the points of a child have stayed until its birth
        if parent[g] >= 0:
            out[parent[g]] += points[g] * (birth[g] - birth[parent[g]])
            points[parent[g]] += points[g]
    return out


def _chosen(parent: Array, stability: Array) -> Array:
    """The groups that are more stable than all clusters within them together."""
    best = np.zeros(len(parent))
    chosen, covered = np.zeros((2, len(parent)), bool)
    for g in range(len(parent) - 1, -1, -1):
        chosen[g] = stability[g] >= best[g] and stability[g] > 0
        best[g] = max(stability[g], best[g])
        if parent[g] >= 0:
            best[parent[g]] += best[g]
    for g in range(len(parent)):  # of a group and its ancestors the largest chosen one
        up = parent[g]
        if up >= 0 and (chosen[up] or covered[up]):
            covered[g], chosen[g] = True, False
    return chosen
