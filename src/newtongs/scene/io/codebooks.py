"""Few values that stand for many: k-means of numbers, and of vectors in two steps.

Numbers are sorted once; after that a step of Lloyd's method costs only as much as there are codes.
Vectors are split coarsely first, and each part by itself: a palette of 65,536 entries is found with
512 comparisons a vector instead of 65,536.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...files import Progress, silent
from ...threads import one_thread

STEPS_1D = 200
STEPS = 6
SAMPLE = 1 << 16  # vectors that the coarse split is made from
BLOCK = 1 << 11  # vectors compared at a time: what they are compared with stays in the cache
ENOUGH, FEW = 16, 4096  # vectors an entry, and at least so many, that a part's entries come from
BINS = 4096
EVEN = 0.3  # codes spread evenly over the range, as a share of the others
MOSTLY = 0.95  # of a sample differ: then it is not worth while to look for repetitions

Floats = npt.NDArray[np.float64]
Result = TypeVar("Result")


def codebook(values: npt.NDArray[np.float32], size: int = 256) -> Floats:
    """Up to ``size`` sorted numbers near which all ``values (n,)`` lie, by least squares."""
    x = np.sort(values.ravel().astype(np.float64))
    known = x[np.concatenate([[True], x[1:] > x[:-1]])]
    if len(known) <= size:  # of a file that was packed before: nothing more is lost
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
    """Up to ``size`` sorted numbers for logarithms of scales, finer for the larger Gaussians.

    Least squares would leave few codes for the few large ones, which fill the picture: an error
    counts by the area of a Gaussian here, and no part of the range is left without codes.
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
    """A first guess: codes as dense as the cube root of the values, best for many codes."""
    density, edges = np.histogram(x, BINS)
    mass = np.concatenate([[0.0], np.cumsum(np.cbrt(density))])
    places = (np.arange(size) + 0.5) / size * mass[-1]
    return np.asarray(np.interp(places, mass, edges))


def nearest_code(values: npt.NDArray[np.float32], codes: Floats) -> npt.NDArray[np.uint8]:
    """Index of the nearest of up to 256 sorted codes, in the shape of ``values``."""
    middles = ((codes[1:] + codes[:-1]) / 2).astype(np.float32)
    return np.searchsorted(middles, values).astype(np.uint8)


def palette(
    x: Tensor, entries: int, seed: int = 0, *, tell: Progress = silent
) -> tuple[Tensor, Tensor]:
    """Vectors ``(up to entries, d)`` and for each of ``x (n, d)`` the index of one near it.

    ``tell`` hears of how many vectors have theirs; ``x`` is never copied as a whole.
    """
    if len(x) <= entries:
        return x, torch.arange(len(x))
    if (known := _repeated(x, entries)) is not None:
        return known
    some = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[:SAMPLE]
    coarse = _kmeans(x[some], round(entries**0.5))
    part = torch.cat(list(_in_threads(lambda y: _nearest(y, coarse), x.split(SAMPLE))))
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
    """What ``work`` makes of each, in order; torch itself keeps to one thread in each of ours.

    Its own would be woken for every small product, which costs more than they give.
    """

    def alone(*args: Any) -> Result:
        with one_thread():
            return work(*args)

    pool = ThreadPoolExecutor(torch.get_num_threads())
    try:
        yield from pool.map(alone, *each)
    finally:
        pool.shutdown(cancel_futures=True)  # whoever interrupts does not wait for the rest


def _repeated(x: Tensor, entries: int) -> tuple[Tensor, Tensor] | None:
    """The palette of vectors that came from one, exactly; None where they are too many."""
    some = _keys(x[:: max(1, len(x) // SAMPLE)])
    if len(np.unique(some)) > MOSTLY * len(some):
        return None
    _, first, label = np.unique(_keys(x), return_index=True, return_inverse=True)
    if len(first) > entries:
        return None
    found, labels = x[torch.from_numpy(first)], torch.from_numpy(label.reshape(-1))
    blocks = zip(x.split(BLOCK), labels.split(BLOCK), strict=True)
    # Two vectors with one key would be a miracle, but not an error of ours.
    return (found, labels) if all(torch.equal(y, found[k]) for y, k in blocks) else None


def _keys(x: Tensor) -> npt.NDArray[np.uint64]:
    """Numbers ``(n,)`` that differ where the bits of rows do: a sum with random weights."""
    weights = np.random.default_rng(0).integers(1, 1 << 63, x.shape[1], np.uint64) * 2 + 1
    bits = (np.ascontiguousarray(y.numpy()).view(np.uint32) for y in x.split(BLOCK))
    return np.concatenate([(b * weights).sum(1, dtype=np.uint64) for b in bits])


def _shares(off: Tensor, part: Tensor, sizes: Tensor, entries: int) -> Tensor:
    """How many entries each part gets: more where more vectors lie, and lie farther apart.

    ``off`` are the squares of some vectors' distances to the centre of their ``part``.
    """
    n = torch.bincount(part, minlength=len(sizes))
    total = torch.zeros(len(sizes), dtype=torch.float64).index_add_(0, part, off.double())
    wish = sizes * (total / n.clamp_min(1)).sqrt()
    spare = entries - len(sizes)  # one for each, and the rest by wish; never more than vectors
    return torch.minimum(1 + (wish / wish.sum().clamp_min(1e-30) * spare).long(), sizes)


def _kmeans(x: Tensor, k: int) -> Tensor:
    """Centres ``(k, d)`` of ``x (n, d)``, made from a sample where that is enough."""
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
