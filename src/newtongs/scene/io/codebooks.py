"""Few values that stand for many: k-means of numbers, and of vectors in two steps.

Numbers are sorted once; after that a step of Lloyd's method costs only as much as there are codes.
Vectors are split coarsely first, and each part by itself: a palette of 65,536 entries is found with
512 comparisons a vector instead of 65,536.
"""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...threads import one_thread

STEPS_1D = 200
STEPS = 6
SAMPLE = 1 << 16  # vectors that the coarse split is made from
BLOCK = 1 << 15  # vectors compared at a time
BINS = 4096
EVEN = 0.3  # codes spread evenly over the range, as a share of the others
MOSTLY = 0.95  # of a sample differ: then it is not worth while to look for repetitions

Floats = npt.NDArray[np.float64]


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


def palette(x: Tensor, entries: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Vectors ``(up to entries, d)`` and for each of ``x (n, d)`` the index of one near it."""
    if len(x) <= entries:
        return x, torch.arange(len(x))
    if (known := _repeated(x, entries)) is not None:
        return known
    random = torch.Generator().manual_seed(seed)
    coarse = _kmeans(x[torch.randperm(len(x), generator=random)[:SAMPLE]], round(entries**0.5))
    part = _nearest(x, coarse)
    order = part.argsort(stable=True)
    sizes = torch.bincount(part, minlength=len(coarse))
    shares = _shares(x, coarse, part, sizes, entries)
    found, labels, first = [], torch.empty(len(x), dtype=torch.long), 0
    with one_thread():  # the parts are small, and waking others costs more than they give
        for rows, share in zip(order.split(sizes.tolist()), shares.tolist(), strict=True):
            if len(rows):
                y = x[rows]
                centers = _kmeans(y, share)
                labels[rows] = first + _nearest(y, centers)
                found.append(centers)
                first += len(centers)
    return torch.cat(found), labels


def _repeated(x: Tensor, entries: int) -> tuple[Tensor, Tensor] | None:
    """The palette of vectors that came from one, exactly; None where they are too many."""
    rows = np.ascontiguousarray(x.numpy()).view(f"V{x.shape[1] * x.element_size()}").ravel()
    some = rows[:: max(1, len(rows) // SAMPLE)]
    if len(np.unique(some)) > MOSTLY * len(some):
        return None
    _, first, labels = np.unique(rows, return_index=True, return_inverse=True)
    return (x[first], torch.from_numpy(labels.reshape(-1))) if len(first) <= entries else None


def _shares(x: Tensor, coarse: Tensor, part: Tensor, sizes: Tensor, entries: int) -> Tensor:
    """How many entries each part gets: more where more vectors lie, and lie farther apart."""
    off = torch.zeros(len(coarse), dtype=torch.float64)
    for rows in torch.arange(len(x)).split(BLOCK):
        off.index_add_(0, part[rows], (x[rows] - coarse[part[rows]]).square().sum(1).double())
    wish = (off * sizes).sqrt()
    spare = entries - len(coarse)  # one for each, and the rest by wish; never more than vectors
    return torch.minimum(1 + (wish / wish.sum().clamp_min(1e-30) * spare).long(), sizes)


def _kmeans(x: Tensor, k: int) -> Tensor:
    """Centres ``(k, d)`` of ``x (n, d)``."""
    random = torch.Generator().manual_seed(len(x))
    centers = x[torch.randperm(len(x), generator=random)[:k]].clone()
    for _ in range(STEPS if k < len(x) else 0):
        label = _nearest(x, centers)
        counts = torch.bincount(label, minlength=k)[:, None]
        sums = torch.zeros_like(centers).index_add_(0, label, x)
        centers = torch.where(counts > 0, sums / counts.clamp_min(1), centers)
    return centers


def _nearest(x: Tensor, centers: Tensor) -> Tensor:
    """Index of the nearest centre ``(n,)``."""
    half = centers.square().sum(1) / 2
    return torch.cat([(half - block @ centers.mT).argmin(1) for block in x.split(BLOCK)])
