"""Vector quantisation: k-means of numbers, and of vectors in two steps.

Numbers are sorted once; the cost of an iteration then depends only on the number of codes. Vectors
are first clustered coarsely, then within each part: a palette of 65,536 entries takes 512
comparisons per vector instead of 65,536.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..base.files import silent
from ..base.process import one_thread
from ..base.types import Progress

STEPS_1D = 200
STEPS = 6
SAMPLE = 1 << 16  # vectors from which the coarse clusters are computed
BLOCK = 1 << 11  # vectors compared at a time, so that the centres stay in the cache
ENOUGH, FEW = 16, 4096  # vectors per entry, and least number, from which entries are computed
BINS = 4096
EVEN = 0.3  # uniformly spread codes relative to the others
MOSTLY = 0.95  # share of distinct vectors in a sample above which repetitions are not searched

Floats = npt.NDArray[np.float64]
Result = TypeVar("Result")


def codebook(values: npt.NDArray[np.float32], size: int = 256) -> Floats:
    """Up to ``size`` sorted codes for ``values (n,)``, by least squares."""
    x = np.sort(values.ravel().astype(np.float64))
    known = x[np.concatenate([[True], x[1:] > x[:-1]])]
    if len(known) <= size:  # from a file that was quantised before: lossless
        return known
    sums = np.concatenate([[0.0], np.cumsum(x - x.mean())])
    codes = _spread(x, size)
    for _ in range(STEPS_1D):
        ends = np.searchsorted(x, (codes[1:] + codes[:-1]) / 2)
        ends = np.concatenate([[0], ends, [len(x)]])
        counts = np.diff(ends)
        means = np.diff(sums[ends]) / np.maximum(counts, 1) + x.mean()
        better = np.where(counts > 0, means, codes)
        if np.array_equal(better, codes):
            break
        codes = better
    return np.sort(codes)


def size_codebook(log_scales: npt.NDArray[np.float32], size: int = 256) -> Floats:
    """Up to ``size`` sorted codes for logarithms of scales, denser for larger Gaussians.

    Least squares would leave few codes for the few large ones, which fill the picture: here errors
    are weighted by the area of a Gaussian, and every part of the range gets codes.
    """
    x = log_scales.ravel().astype(np.float64)
    known = np.unique(x)
    if len(known) <= size:
        return known
    density, edges = np.histogram(x, BINS)
    wish = np.cbrt(density * np.exp(2 * (edges[1:] - edges[-1])))
    mass = np.concatenate([[0.0], np.cumsum(wish / wish.sum() + EVEN / BINS)])
    places = (np.arange(size) + 0.5) / size * mass[-1]
    return np.asarray(np.interp(places, mass, edges))


def _spread(x: Floats, size: int) -> Floats:
    """Initial codes with a density proportional to the cube root of that of the values."""
    density, edges = np.histogram(x, BINS)
    mass = np.concatenate([[0.0], np.cumsum(np.cbrt(density))])
    places = (np.arange(size) + 0.5) / size * mass[-1]
    return np.asarray(np.interp(places, mass, edges))


def nearest_code(values: npt.NDArray[np.float32], codes: Floats) -> npt.NDArray[np.uint8]:
    """Index of the nearest of up to 256 sorted codes, in the shape of ``values``."""
    middles = ((codes[1:] + codes[:-1]) / 2).astype(np.float32)
    return np.searchsorted(middles, values).astype(np.uint8)


class Stacked:
    """Rows of several matrices, one below the other, copied only as they are asked for."""

    def __init__(self, parts: Sequence[tuple[Tensor, Tensor | None]]) -> None:
        """Matrices ``(N, d)``, each with the rows ``(n,)`` to take of it; None for all."""
        self.parts = [(x, torch.arange(len(x)) if rows is None else rows) for x, rows in parts]
        self.ends = list(accumulate(len(rows) for _, rows in self.parts))
        self.shape = self.ends[-1], parts[0][0].shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: slice | Tensor) -> Tensor:
        at = torch.arange(*index.indices(len(self))) if isinstance(index, slice) else index
        out = self.parts[0][0].new_empty(len(at), self.shape[1])
        for (x, rows), end in zip(self.parts, self.ends, strict=True):
            its = (at < end) & (at >= end - len(rows))
            out[its] = x[rows[at[its] - (end - len(rows))]]
        return out


Vectors: TypeAlias = Tensor | Stacked


def _blocks(x: Vectors, size: int) -> Iterator[Tensor]:
    """The rows, so many at a time."""
    return (x[start : start + size] for start in range(0, len(x), size))


def palette(
    x: Vectors, entries: int, seed: int = 0, *, tell: Progress = silent
) -> tuple[Tensor, Tensor]:
    """Up to ``entries`` vectors, and for each of ``x (n, d)`` the index of a near one.

    ``tell`` reports the number of vectors done; ``x`` is never copied as a whole.
    """
    if len(x) <= entries:
        return x[:], torch.arange(len(x))
    if (known := _repeated(x, entries)) is not None:
        return known
    some = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[:SAMPLE]
    coarse = _kmeans(x[some], round(entries**0.5))
    starts = range(0, len(x), SAMPLE)
    part = torch.cat(list(_in_threads(lambda i: _nearest(x[i : i + SAMPLE], coarse), starts)))
    sizes = torch.bincount(part, minlength=len(coarse))
    shares = _shares((x[some] - coarse[part[some]]).square().sum(1), part[some], sizes, entries)
    groups = part.argsort(stable=True).split(sizes.tolist())
    found, labels, first, done = [], torch.empty(len(x), dtype=torch.long), 0, 0

    def divide(rows: Tensor, share: int) -> tuple[Tensor, Tensor]:
        centers = _kmeans(y := x[rows], share)
        return centers, _nearest(y, centers)

    divided = _in_threads(divide, groups, shares.tolist())
    for rows, (centers, label) in zip(groups, divided, strict=True):
        labels[rows] = first + label
        found.append(centers)
        first, done = first + len(centers), done + len(rows)
        tell("colours", done, len(x))
    return torch.cat(found), labels


def _in_threads(work: Callable[..., Result], *each: Iterable[Any]) -> Iterator[Result]:
    """Map ``work`` in threads, in order, each of which restricts torch to one thread.

    Torch would start threads for every small product, which costs more than it saves.
    """

    def alone(*args: Any) -> Result:
        with one_thread():
            return work(*args)

    pool = ThreadPoolExecutor(torch.get_num_threads())
    try:
        yield from pool.map(alone, *each)
    finally:
        pool.shutdown(cancel_futures=True)  # an interrupt does not wait for the rest


def _repeated(x: Vectors, entries: int) -> tuple[Tensor, Tensor] | None:
    """The exact palette of vectors with repetitions; None if too many differ."""
    some = _keys(x[:: max(1, len(x) // SAMPLE)])
    if len(np.unique(some)) > MOSTLY * len(some):
        return None
    _, first, label = np.unique(_keys(x), return_index=True, return_inverse=True)
    if len(first) > entries:
        return None
    found, labels = x[torch.from_numpy(first)], torch.from_numpy(label.reshape(-1))
    blocks = zip(_blocks(x, BLOCK), labels.split(BLOCK), strict=True)
    # Verified, although equal keys of different vectors are extremely unlikely.
    return (found, labels) if all(torch.equal(y, found[k]) for y, k in blocks) else None


def _keys(x: Vectors) -> npt.NDArray[np.uint64]:
    """Hashes ``(n,)`` of the bits of rows: sums with random weights."""
    weights = np.random.default_rng(0).integers(1, 1 << 63, x.shape[1], np.uint64) * 2 + 1
    bits = (np.ascontiguousarray(y.numpy()).view(np.uint32) for y in _blocks(x, BLOCK))
    return np.concatenate([(b * weights).sum(1, dtype=np.uint64) for b in bits])


def _shares(off: Tensor, part: Tensor, sizes: Tensor, entries: int) -> Tensor:
    """Number of entries of each part: more for parts with more vectors and larger spread.

    ``off`` are squared distances of some vectors from the centre of their ``part``.
    """
    n = torch.bincount(part, minlength=len(sizes))
    total = torch.zeros(len(sizes), dtype=torch.float64).index_add_(0, part, off.double())
    wish = sizes * (total / n.clamp_min(1)).sqrt()
    spare = entries - len(sizes)  # one each, the rest in proportion; never more than vectors
    return torch.minimum(1 + (wish / wish.sum().clamp_min(1e-30) * spare).long(), sizes)


def _kmeans(x: Tensor, k: int) -> Tensor:
    """Centres ``(k, d)`` of ``x (n, d)``, computed from a sample if that suffices."""
    random = torch.Generator().manual_seed(len(x))
    if k < len(x):
        x = x[torch.randperm(len(x), generator=random)[: max(k * ENOUGH, FEW)]]
    centers = x[:k].clone()
    for _ in range(STEPS if k < len(x) else 0):
        label = _nearest(x, centers)
        counts = torch.bincount(label, minlength=k)[:, None]
        sums = torch.zeros_like(centers).index_add_(0, label, x)
        centers = torch.where(counts > 0, sums / counts.clamp_min(1), centers)
    return centers


def _nearest(x: Tensor, centers: Tensor) -> Tensor:
    """Index of the nearest centre ``(n,)``."""
    half, towards = centers.square().sum(1) / 2, -centers.mT.contiguous()
    found = torch.empty(len(x), dtype=torch.long)
    for label, block in zip(found.split(BLOCK), x.split(BLOCK), strict=True):
        torch.argmin(torch.addmm(half, block, towards), 1, out=label)
    return found
