"""Dual numbers in time: they make the velocity the exact derivative of the position.

Forward-mode differentiation written by hand, for the few operations of the decoder.
``torch.func.jvp`` gives the same values but cannot be compiled everywhere.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class Dual(NamedTuple):
    """A value and its time derivative."""

    x: Tensor
    dx: Tensor

    def plus(self, other: "Dual") -> "Dual":
        """Sum."""
        return Dual(self.x + other.x, self.dx + other.dx)

    def times(self, other: "Dual") -> "Dual":
        """Product rule."""
        return Dual(self.x * other.x, self.dx * other.x + self.x * other.dx)

    def scaled(self, factor: Tensor | float) -> "Dual":
        """Multiply by something that does not depend on time."""
        return Dual(self.x * factor, self.dx * factor)

    def shifted(self, constant: Tensor | float) -> "Dual":
        """Add something that does not depend on time."""
        return Dual(self.x + constant, self.dx)

    def at(self, index: int | slice) -> "Dual":
        """An entry of the last dimension."""
        return Dual(self.x[..., index], self.dx[..., index])

    def unsqueeze(self, dim: int) -> "Dual":
        """As for a tensor."""
        return Dual(self.x.unsqueeze(dim), self.dx.unsqueeze(dim))


def tanh(a: Dual) -> Dual:
    """Hyperbolic tangent."""
    y = torch.tanh(a.x)
    return Dual(y, (1 - y * y) * a.dx)


def exp(a: Dual) -> Dual:
    """Exponential."""
    y = torch.exp(a.x)
    return Dual(y, y * a.dx)


def sine_cosine(a: Dual) -> tuple[Dual, Dual]:
    """Sine and cosine."""
    s, c = torch.sin(a.x), torch.cos(a.x)
    return Dual(s, c * a.dx), Dual(c, -s * a.dx)


def silu(a: Dual) -> Dual:
    """``x sigmoid(x)``."""
    sigma = torch.sigmoid(a.x)
    return Dual(a.x * sigma, sigma * (1 + a.x * (1 - sigma)) * a.dx)


def saturated(a: Dual) -> Dual:
    """``x / (1 + x)`` for positive x: a ratio of times, kept below one."""
    below = 1 / (1 + a.x)
    return Dual(a.x * below, below * below * a.dx)


def linear(a: Dual, weight: Tensor, bias: Tensor | None = None) -> Dual:
    """A matrix product over the last dimension."""
    return Dual(functional.linear(a.x, weight, bias), functional.linear(a.dx, weight))


def where(condition: Tensor, a: Dual, b: Dual) -> Dual:
    """Choose by a condition whose own time dependence is ignored."""
    return Dual(torch.where(condition, a.x, b.x), torch.where(condition, a.dx, b.dx))


def stack(parts: Sequence[Dual]) -> Dual:
    """Stack along a new last dimension, after broadcasting."""
    x = torch.broadcast_tensors(*(part.x for part in parts))
    dx = torch.broadcast_tensors(*(part.dx for part in parts))
    shape = x[0]
    return Dual(torch.stack(x, -1), torch.stack([d.expand_as(shape) for d in dx], -1))
