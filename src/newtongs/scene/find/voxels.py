"""A sparse voxel grid over points: which voxels are filled, and which of them hang together."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from ...types import Vec3

BITS = 20  # of a voxel's number along each axis; three of them fit an int64
LAST = 2**BITS - 4  # voxels on either side stay free, so that neighbours never wrap around
Shifts: TypeAlias = Sequence[tuple[int, int, int]]
# The 27 shifts to a voxel and its neighbours, the nearest first.
_STEPS = itertools.product((-1, 0, 1), (-1, 0, 1), (-1, 0, 1))
SHIFTS: Shifts = sorted(_STEPS, key=lambda s: sum(map(abs, s)))
FLAT: Shifts = [s for s in SHIFTS if not s[2]]
FORWARD = [s for s in SHIFTS if s > (0, 0, 0)]  # one of each pair of opposite ones


@dataclass(frozen=True, eq=False)
class Voxels:
    """The filled voxels of a cubic grid."""

    origin: Vec3
    """Corner ``(3,)`` of the grid."""
    size: float
    """Edge of a voxel."""
    keys: Tensor
    """Numbers ``(V,)`` of the filled voxels, increasing."""
    of_point: Tensor
    """Which filled voxel ``(N,)`` each point lies in."""
    counts: Tensor
    """Points ``(V,)`` in each."""

    @classmethod
    def of(cls, points: Vec3, size: float) -> "Voxels":
        """The voxels of edge ``size`` that hold ``points (N, 3)``."""
        origin = points.amin(0) if len(points) else points.new_zeros(3)
        keys, inverse, counts = torch.unique(
            _keys(points, origin, size), return_inverse=True, return_counts=True
        )
        return cls(origin, size, keys, inverse, counts)

    def nearest(self, points: Vec3, marks: Tensor, shifts: Shifts = SHIFTS) -> Tensor:
        """The mark ``(N,)`` of the voxel each point lies in, or of its first neighbour with one.

        ``marks (V,)`` are whole numbers from 0 on, -1 for a voxel without; so is the answer.
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
        """A label ``(V,)`` of each voxel, equal for those joined through faces, edges, corners.

        Labels count from 0 in the order of each component's first voxel. ``also (2, E)`` are
        pairs of voxels to be joined besides.
        """
        pairs = [] if also is None else [also]
        for shift in FORWARD:
            there = self._lookup(self.keys + _step(shift))
            here = (there >= 0).nonzero().squeeze(-1)
            pairs.append(torch.stack([here, there[here]]))
        roots = connected(len(self.keys), torch.cat(pairs, dim=1))
        return torch.unique(roots, return_inverse=True)[1]


def connected(n: int, pairs: Tensor) -> Tensor:
    """The smallest number in the component of each of ``n`` things joined by ``pairs (2, E)``.

    Union-find on all pairs at once: roots hang themselves under the smallest root they meet, then
    every path is cut short. The number of rounds grows with the logarithm of the size.
    """
    root = torch.arange(n, device=pairs.device)
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
    """Every path cut down to one step."""
    while not torch.equal(root, next_root := root[root]):
        root = next_root
    return root


def _keys(points: Vec3, origin: Vec3, size: float) -> Tensor:
    """One number ``(N,)`` for the voxel of each point.

    What lies below the origin by more than a voxel shares one that no filled voxel neighbours.
    """
    cells = ((points - origin) / size).floor().clamp(-2, LAST).long() + 2
    return (cells[:, 0] << 2 * BITS) + (cells[:, 1] << BITS) + cells[:, 2]


def _step(shift: tuple[int, int, int]) -> int:
    """What a shift adds to a key."""
    x, y, z = shift
    return (x << 2 * BITS) + (y << BITS) + z
