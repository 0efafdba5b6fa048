"""The smallest expected error of any predictor: the mean of all motions that fit the observation.

For every family we solve for the draws that give the first two observed states (Gauss-Newton on the
16 numbers of a draw, with a finite-difference Jacobian); later states decide whether such a draw is
right. If one fits, its whole sequence is a possible future, weighted by the density of the
observation under that family: the inverse of the volume by which the family's map stretches draws.
A family that fits with fewer free numbers has infinitely more density there, and wins outright. The
weighted mean of the possible futures minimises the expected squared error.

It knows the generator and the split's ranges, so it is not a predictor but a bound: the error that
remains when everything knowable is known. A family that depends only on the magnitude of a number
has two draws for it; four starts find all of them in nearly every case, and a missed one costs a
factor of two in one weight.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ... import motions
from ...base import rotations
from ...base.state import State
from ...base.types import StateTensor, Times
from ...motions.generate import from_uniforms
from ...motions.sampling import NUMBERS_PER_OBJECT

STEPS = 5  # of Gauss-Newton; most maps are piecewise linear and take one
FITTED = 2  # states used in the fit; later ones, which may include contacts, only verify it
DELTA = 1e-4  # finite difference of the Jacobian
FITS = 5e-5  # largest misfit, in standard deviations, that rounding explains
WITHIN = 2e-3  # by which a draw may lie outside [0, 1], for the same reason
HELD = 1e-9
RANK = 1e-6  # singular values below it count as zero
# Starts: signs of v_x and of the vertical spin, and v_y above or below a class's lower bound.
V_X, V_Y, SPIN = 3, 4, 7
STARTS = ((0.8, 0.8, 0.8), (0.2, 0.1, 0.2), (0.8, 0.1, 0.2), (0.2, 0.8, 0.8))


class Fit(NamedTuple):
    """One family's fits to the observed states, from all starts ``(S, B)``."""

    misfit: Tensor
    rank: Tensor
    log_density: Tensor
    states: StateTensor  # (S, B, T, 22)


@dataclass(frozen=True)
class BayesBound:
    """The best prediction from the first ``k`` exact states."""

    ood: bool = False
    """Whether the sequences come from the shifted velocities."""

    def __call__(self, observed: StateTensor, times: Times) -> StateTensor:
        """States ``(B, T, 22)`` of observed ones ``(B, k, 22)``."""
        ranges = motions.VELOCITY_SHIFT if self.ood else motions.IN_DISTRIBUTION
        x = observed.double()
        size = x.flatten(0, 1).std(0).clamp_min(1e-2)
        fits = [fit(name, x, size, ranges, len(times)) for name in motions.STATE32]
        return blend(*(torch.cat(parts) for parts in zip(*fits, strict=True))).to(observed.dtype)


def fit(name: str, x: StateTensor, size: Tensor, ranges: motions.Ranges, frames: int) -> Fit:
    """Fit draws of a family to the states ``x (B, k, 22)``, and compute what follows."""
    batch, k = x.shape[:2]
    u = x.new_full((len(STARTS), batch, NUMBERS_PER_OBJECT), 0.5)
    for row, start in zip(u, STARTS, strict=True):
        row[:, [V_X, V_Y, SPIN]] = torch.tensor(start).to(x)
    u = u.flatten(0, 1)
    wanted = (x / size).flatten(1).repeat(len(STARTS), 1)

    def seen(draws: Tensor, count: int) -> Tensor:
        made = from_uniforms(name, draws, ranges, frames=frames).states
        return (made[:, :count] / size).flatten(1)

    moves = torch.cat([x.new_zeros(1, u.shape[1]), DELTA * torch.eye(u.shape[1]).to(x)])
    for step in range(STEPS + 1):
        count = min(k, FITTED) if step < STEPS else k
        values = seen((u + moves[:, None]).flatten(0, 1), count).unflatten(0, (len(moves), -1))
        jacobian = ((values[1:] - values[0]) / DELTA).permute(1, 2, 0)
        # The normal matrix, 16 by 16: a decomposition of the Jacobian itself is far slower.
        normal = jacobian.mT @ jacobian
        residual = wanted[:, : values.shape[-1]] - values[0]
        if step < STEPS:
            held = HELD * torch.eye(u.shape[1]).to(x)  # keeps numbers without effect unchanged
            change = torch.linalg.solve(normal + held, jacobian.mT @ residual[..., None])
            u = (u + change[..., 0]).clamp(-0.5, 1.5)
    return _finished(name, u, residual, normal, ranges, frames, batch)


def _finished(
    name: str, u: Tensor, residual: Tensor, normal: Tensor, ranges: motions.Ranges,
    frames: int, batch: int,
) -> Fit:  # fmt: skip
    """The fit of draws ``(S B, 16)``; those out of range or found twice are rejected."""
    squares = torch.linalg.eigvalsh(normal).clamp_min(0)
    free = squares > RANK**2 * squares.amax(-1, keepdim=True).clamp_min(1.0) * 1e4
    log_density = -0.5 * torch.where(free, squares.clamp_min(1e-30).log(), 0.0).sum(-1)
    matters = normal.diagonal(dim1=-2, dim2=-1) > 1e-12
    outside = (((u < -WITHIN) | (u > 1 + WITHIN)) & matters).any(-1)
    misfit = torch.where(outside, torch.inf, residual.abs().amax(-1))
    shape = (len(STARTS), batch)
    kept = torch.where(matters, u, 0.0).unflatten(0, shape)
    misfit = misfit.unflatten(0, shape)
    for i in range(1, len(STARTS)):
        same = (kept[:i] - kept[i]).abs().amax(-1) < 1e-3
        misfit[i] = torch.where((same & (misfit[:i] < FITS)).any(0), torch.inf, misfit[i])
    states = from_uniforms(name, u.clamp(0, 1), ranges, frames=frames).states
    return Fit(misfit, free.sum(-1).unflatten(0, shape), log_density.unflatten(0, shape),
               states.unflatten(0, shape))  # fmt: skip


def blend(misfit: Tensor, rank: Tensor, log_density: Tensor, states: StateTensor) -> StateTensor:
    """Mean ``(B, T, 22)`` of the futures ``(S, B, T, 22)`` that fit, weighted by their density.

    If none fits because the solver did not converge, the nearest one is used.
    """
    fits = misfit < FITS
    nearest = misfit == misfit.amin(0)
    fits = torch.where(fits.any(0), fits, nearest & torch.isfinite(misfit))
    fewest = torch.where(fits, rank, 10**6).amin(0)
    weight = torch.where(fits & (rank == fewest), log_density, -torch.inf).softmax(0)
    weight = weight.nan_to_num(1 / len(weight))[..., None, None]
    mean = (weight * states).sum(0)
    first = State(states.gather(0, weight.argmax(0, keepdim=True).expand(1, *states.shape[1:])))
    q = State(states).q
    aligned = torch.where((q * first.q).sum(-1, keepdim=True) < 0, -q, q)
    State(mean).q.copy_(rotations.normalize((weight * aligned).sum(0)))
    return mean
