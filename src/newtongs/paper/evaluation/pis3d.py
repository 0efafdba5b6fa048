"""PIS-3D: a diagnostic of the prediction alone, one error per motion class.

The first trigger found in the motion's name selects the error. It measures invariance, not
agreement with the target: standing still can score best.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.linalg import vector_norm

from ...base.ranks import Ranks
from ...base.state import State
from ...base.types import StateTensor, X, Y, Z

EPSILON = 1e-6
SLOPE = math.radians(22)
G = 9.81


class Mean:
    """A running mean in double precision."""

    def __init__(self) -> None:
        self.total = 0.0
        self.count = 0

    def add(self, x: Tensor) -> None:
        """Add every entry of ``x``."""
        self.total += x.sum(dtype=torch.float64).item()
        self.count += x.numel()

    @property
    def value(self) -> float:
        """The mean so far; NaN before the first entry."""
        return self.total / self.count if self.count else math.nan


class Diagnostic(ABC):
    """Class error ``E_c``, accumulated over batches of predictions ``(B, T, 22)`` of one class."""

    names: ClassVar[tuple[str, ...]]
    """Means that batches add to."""
    late: ClassVar[tuple[str, ...]] = ()
    """Means that :meth:`settle` adds to once those of all ranks are known."""

    def __init__(self) -> None:
        self.means = {name: Mean() for name in (*self.names, *self.late)}

    def mean(self, name: str, x: Tensor) -> None:
        """``M(x)``: mean over all entries."""
        self.means[name].add(x)

    def settle(self) -> None:  # noqa: B027  (most have nothing to do)
        """Finish what depends on the means of all ranks."""

    def variance(self, name: str, x: Tensor) -> None:
        """``V(x)``: sample variance over time, then mean over sequences; ``x`` is ``(B, T)``."""
        self.mean(name, torch.var(x.double(), dim=-1))

    def __getitem__(self, name: str) -> float:
        return self.means[name].value

    @abstractmethod
    def add(self, x: State, dt: float) -> None:
        """Add a batch."""

    @abstractmethod
    def error(self) -> float:
        """``E_c >= 0``."""


def acceleration(v: Tensor, dt: float) -> Tensor:
    """Central differences of ``v`` (B, T, 3) at the interior frames."""
    return (v[:, 2:] - v[:, :-2]) / (2 * dt)


class Uniform(Diagnostic):
    """Normalised variance of the speed."""

    names = ("var", "mean")

    def add(self, x: State, dt: float) -> None:
        speed = vector_norm(x.v, dim=-1)
        self.variance("var", speed)
        self.mean("mean", speed)

    def error(self) -> float:
        return self["var"] / (self["mean"] ** 2 + EPSILON)


class Ballistic(Diagnostic):
    """Horizontal velocity must not vary, vertical acceleration must be gravity's."""

    names = ("v_x", "v_z", "a_y")

    def add(self, x: State, dt: float) -> None:
        self.variance("v_x", x.v[..., X])
        self.variance("v_z", x.v[..., Z])
        self.mean("a_y", (acceleration(x.v, dt)[..., Y] + G).abs())

    def error(self) -> float:
        return self["v_x"] + self["v_z"] + self["a_y"]


class Orbital(Diagnostic):
    """Radius about the mean position and angular speed must not vary."""

    names = ("radius", "spin")

    def add(self, x: State, dt: float) -> None:
        self.variance("radius", vector_norm(x.p - x.p.mean(1, keepdim=True), dim=-1))
        self.variance("spin", vector_norm(x.w, dim=-1))

    def error(self) -> float:
        return self["radius"] + self["spin"]


class Rotation(Diagnostic):
    """Angular speed must not vary."""

    names = ("spin",)

    def add(self, x: State, dt: float) -> None:
        self.variance("spin", vector_norm(x.w, dim=-1))

    def error(self) -> float:
        return self["spin"]


class Bouncing(Diagnostic):
    """Penetration, plus observed against stated restitution where a bounce was seen."""

    names = ("depth", "e", "ratio")

    def add(self, x: State, dt: float) -> None:
        self.mean("depth", (x.s[..., Y].abs() - x.p[..., Y]).relu())
        self.mean("e", x.e)
        before, after = x.v[:, :-1, Y], x.v[:, 1:, Y]
        flip = (before < 0) & (after > 0)
        self.mean("ratio", after[flip] / -before[flip])

    def error(self) -> float:
        observed = self["ratio"]
        return self["depth"] + (0.0 if math.isnan(observed) else abs(observed - self["e"]))


class Slope(Diagnostic):
    """Horizontal acceleration of a 22-degree slope with the class's mean attenuation."""

    names = ("mu",)
    late = ("off",)

    def __init__(self) -> None:
        super().__init__()
        self.a_x: list[Tensor] = []  # kept: the mean attenuation is known only at the end

    def add(self, x: State, dt: float) -> None:
        self.mean("mu", x.mu)
        self.a_x.append(acceleration(x.v, dt)[..., X].flatten().cpu())

    def off(self) -> Tensor:
        """Difference of each acceleration to the slope's."""
        along = G * math.sin(SLOPE) - self["mu"] * G * math.cos(SLOPE)
        return (torch.cat(self.a_x).double() - along * math.cos(SLOPE)).abs()

    def settle(self) -> None:
        if self.a_x:  # a rank may have none
            self.mean("off", self.off())

    def error(self) -> float:
        return self["off"] if self.means["off"].count else self.off().mean().item()


class Size(Diagnostic):
    """Norm of the scale rate must not vary."""

    names = ("rate",)

    def add(self, x: State, dt: float) -> None:
        self.variance("rate", vector_norm(x.u, dim=-1))

    def error(self) -> float:
        return self["rate"]


class Deformation(Diagnostic):
    """Normalised variance of the volume."""

    names = ("var", "mean")

    def add(self, x: State, dt: float) -> None:
        volume = x.s.prod(-1)
        self.variance("var", volume)
        self.mean("mean", volume)

    def error(self) -> float:
        return self["var"] / (self["mean"] ** 2 + EPSILON)


class Unmatched(Diagnostic):
    """Mean acceleration."""

    names = ("a",)

    def add(self, x: State, dt: float) -> None:
        self.mean("a", vector_norm(acceleration(x.v, dt), dim=-1))

    def error(self) -> float:
        return self["a"]


DISPATCH: tuple[tuple[tuple[str, ...], type[Diagnostic]], ...] = (
    (("uniform",), Uniform),
    (("projectile", "gravity", "acceleration"), Ballistic),
    (("circular", "orbital"), Orbital),
    (("rotation",), Rotation),
    (("bouncing", "collision"), Bouncing),
    (("slope",), Slope),
    (("size",), Size),
    (("deformation",), Deformation),
)


def diagnostic(motion: str) -> Diagnostic:
    """The diagnostic of the first trigger that occurs in the motion's name."""
    for triggers, kind in DISPATCH:
        if any(trigger in motion for trigger in triggers):
            return kind()
    return Unmatched()


class PisSums:
    """PIS-3D of every motion: ``exp(-E_c)``, and its mean weighted by class frequency."""

    def __init__(self, names: tuple[str, ...], dt: float) -> None:
        self.dt = dt
        self.diagnostics = [diagnostic(name) for name in names]
        self.count = [0] * len(names)

    def add(self, predicted: StateTensor, motion: Tensor) -> None:
        """Add a batch of predictions with the motion index ``(B,)`` of each."""
        for index in motion.unique().tolist():
            rows = predicted[motion.to(predicted.device) == index]
            self.diagnostics[index].add(State(rows), self.dt)
            self.count[index] += len(rows)

    def reduce(self, group: Ranks) -> None:
        """Sum over all ranks; each then has the means of all sequences."""
        self.count = group.sum(torch.tensor(self.count)).tolist()
        _reduce([d.means[name] for d in self.diagnostics for name in d.names], group)
        for d in self.diagnostics:
            d.settle()
        _reduce([d.means[name] for d in self.diagnostics for name in d.late], group)

    def motion(self, index: int) -> float:
        """Score of one motion."""
        return math.exp(-self.diagnostics[index].error())

    def total(self) -> float:
        """Score of all sequences."""
        weighted = sum(n * self.motion(i) for i, n in enumerate(self.count) if n)
        return weighted / sum(self.count)


def _reduce(means: Sequence[Mean], group: Ranks) -> None:
    """Sum totals and counts over all ranks, in one exchange."""
    if not means:
        return
    pairs = torch.tensor([(m.total, m.count) for m in means], dtype=torch.float64)
    for mean, (total, count) in zip(means, group.sum(pairs).tolist(), strict=True):
        mean.total, mean.count = total, int(count)
