"""A sparse voxel grid over points: which voxels are filled, and which are connected."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from ..base.types import Vec3

BITS = 20  # per axis of a voxel's key; three of them fit into an int64
LAST = 2**BITS - 4  # voxels at either end stay empty, so that neighbours never wrap around
Shifts: TypeAlias = Sequence[tuple[int, int, int]]
# The 27 shifts to a voxel itself and its neighbours, nearest first.
_STEPS = itertools.product((-1, 0, 1), (-1, 0, 1), (-1, 0, 1))
SHIFTS: Shifts = sorted(_STEPS, key=lambda s: sum(map(abs, s)))
FLAT: Shifts = [s for s in SHIFTS if not s[2]]
FORWARD = [s for s in SHIFTS if s > (0, 0, 0)]  # one of each opposite pair


@dataclass(frozen=True, eq=False)
class Voxels:
    """The filled voxels of a cubic grid."""

    origin: Vec3
    """Lowest corner ``(3,)`` of the grid."""
    size: float
    """Edge length of a voxel."""
    keys: Tensor
    """Keys ``(V,)`` of the filled voxels, increasing."""
    of_point: Tensor
    """Index ``(N,)`` of the filled voxel of each point."""
    counts: Tensor
    """Number of points ``(V,)`` in each voxel."""

    @classmethod
    def of(cls, points: Vec3, size: float) -> "Voxels":
        """The voxels of edge ``size`` that contain ``points (N, 3)``."""
        origin = points.amin(0) if len(points) else points.new_zeros(3)
        keys, inverse, counts = torch.unique(
            _keys(points, origin, size), return_inverse=True, return_counts=True
        )
        return cls(origin, size, keys, inverse, counts)

    def nearest(self, points: Vec3, marks: Tensor, shifts: Shifts = SHIFTS) -> Tensor:
        """The mark ``(N,)`` of the voxel of each point, or of its first neighbour that has one.

        ``marks (V,)`` and the result are integers from 0 on, or -1 for none.
        """
        keys, inverse = torch.unique(_keys(points, self.origin, self.size), return_inverse=True)
        found = torch.full_like(keys, -1)
        left = torch.arange(len(keys), device=keys.device)
        for shift in shifts:
            at = self._lookup(keys[left] + _step(shift))
            found[left] = torch.where(at >= 0, marks[at], -1)
            left = left[found[left] < 0]
        return found[inverse]

    def _lookup(self, keys: Tensor) -> Tensor:
        if not len(self.keys):
            return torch.full_like(keys, -1)
        at = torch.searchsorted(self.keys, keys).clamp_max(len(self.keys) - 1)
        return torch.where(self.keys[at] == keys, at, -1)

    def components(self, also: Tensor | None = None) -> Tensor:
        """A label ``(V,)`` for each voxel, equal for voxels connected by faces, edges or corners.

        Labels count from 0 in the order of each component's first voxel. ``also (2, E)`` are
        further pairs of voxels to connect.
        """
        root = torch.arange(len(self.keys), device=self.keys.device)
        root = root if also is None else connected(root, also)
        for shift in FORWARD:  # one after the other: all pairs would take much memory
            there = self._lookup(self.keys + _step(shift))
            here = (there >= 0).nonzero().squeeze(-1)
            root = connected(root, torch.stack([here, there[here]]))
        return torch.unique(root, return_inverse=True)[1]


def connected(root: Tensor, pairs: Tensor) -> Tensor:
    """The smallest index ``(n,)`` in the component of each node when ``pairs (2, E)`` are joined.

    ``root (n,)`` is the same before. Union-find on all pairs at once: each root is attached to the
    smallest root it meets, then all paths are compressed. The number of rounds grows with the
    logarithm of the size.
    """
    a, b = pairs
    while True:
        ra, rb = root[a], root[b]
        apart = ra != rb
        if not apart.any():
            return root
        a, b, ra, rb = a[apart], b[apart], ra[apart], rb[apart]
        low, high = torch.minimum(ra, rb), torch.maximum(ra, rb)
        root = root.scatter_reduce(0, high, low, "amin")
        root = _shortened(root)


def _shortened(root: Tensor) -> Tensor:
    """All paths compressed to one step."""
    while not torch.equal(root, next_root := root[root]):
        root = next_root
    return root


def _keys(points: Vec3, origin: Vec3, size: float) -> Tensor:
    """The key ``(N,)`` of the voxel of each point.

    Points more than a voxel below the origin share a key that is no neighbour of a filled voxel.
    """
    cells = ((points - origin) / size).floor().clamp(-2, LAST).long() + 2
    return (cells[:, 0] << 2 * BITS) + (cells[:, 1] << BITS) + cells[:, 2]


def _step(shift: tuple[int, int, int]) -> int:
    """The difference in keys of a shift."""
    x, y, z = shift
    return (x << 2 * BITS) + (y << BITS) + z
