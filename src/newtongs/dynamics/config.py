"""The configuration of Gaussian-NND."""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from ..base.errors import InputError, unknown_name

SHORTEST = 1e-5  # seconds of a substep; with shorter ones a rollout would never end
Solver: TypeAlias = Literal["rk4", "euler"]  # keys of solvers.SOLVERS


@dataclass(frozen=True)
class NNDConfig:
    """Everything that defines the model besides its weights. The defaults are the paper's."""

    hidden: int = 256
    """Width of the hidden layers of both networks."""
    init: Literal["zero-last", "zero-all"] = "zero-last"
    """Which layers start at zero: the output layers, or (the paper's ablation) every layer."""
    solver: Solver = "rk4"
    """Scheme of one substep."""
    max_dt: float = 1 / 30
    """Longest substep in seconds; a 24 Hz frame takes two."""
    contact: bool = True
    """Whether the floor exists."""
    continuous_residual: bool = True
    """Whether f_theta corrects the accelerations."""
    contact_residual: bool = True
    """Whether h_phi corrects the velocities after a hit."""
    prior: bool = True
    """Whether the analytic terms exist: gravity, damping, scale restoration, and the floor's
    restitution, attenuation and lift. Without them (our ablation) the networks stand alone: f_theta
    is the acceleration, h_phi the change of velocity at a hit. The kinematics (p' = v, q' from w,
    s' = u) define the state and stay; `contact` decides whether hits are detected."""
    bounded: bool = True
    """Whether the networks' outputs pass through tanh, with amplitudes alpha and alpha_imp that
    start at 0.01. Otherwise (our ablation) they are used unchanged, with amplitudes starting at 1:
    networks that stand alone need this, since a bounded correction could never replace gravity."""

    def __post_init__(self) -> None:
        if self.solver not in get_args(Solver):
            raise unknown_name("solver", self.solver, get_args(Solver))
        if self.init not in ("zero-last", "zero-all"):
            raise unknown_name("initialisation", self.init, ("zero-last", "zero-all"))
        if not (self.max_dt >= SHORTEST and math.isfinite(self.max_dt)):
            raise InputError(f"max_dt must be positive, {SHORTEST:g} s or more, got {self.max_dt}")
        if self.hidden < 1:
            raise InputError(f"hidden must be at least 1, got {self.hidden}")
