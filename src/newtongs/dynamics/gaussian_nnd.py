"""Gaussian-NND (Section 3.3): Newtonian terms plus two small networks, rolled out with contacts."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise

import torch
from torch import Tensor, nn

from ..base.errors import InputError
from ..base.state import DIM, State, as_tensor, project, replace
from ..base.types import StateTensor, Times
from . import floor
from .analytic import Coefficients, G, correction, kinematics, rates
from .config import NNDConfig, Solver
from .rollout import check_initial, intervals, require_mass, rollout, substeps
from .solvers import SOLVERS, STABLE


def residual_network(hidden: int, layers: int, outputs: int, init: str) -> nn.Sequential:
    """SiLU network 22 -> hidden (x layers) -> outputs whose output starts at exactly zero."""
    widths = [DIM] + [hidden] * layers
    modules: list[nn.Module] = []
    for fan_in, fan_out in pairwise(widths):
        modules += [nn.Linear(fan_in, fan_out), nn.SiLU()]
    modules.append(nn.Linear(hidden, outputs))
    network = nn.Sequential(*modules)
    linear = [layer for layer in network if isinstance(layer, nn.Linear)]
    for layer in linear:
        nn.init.zeros_(layer.bias)
        if init == "zero-all" or layer is linear[-1]:
            nn.init.zeros_(layer.weight)
        else:
            nn.init.xavier_uniform_(layer.weight)
    return network


class GaussianNND(nn.Module):
    """Structured hybrid dynamics of one object state, 81,429 parameters.

    ``model.rollout(z0, times)`` maps labelled initial states ``(B, 22)`` and ``T`` times in
    seconds to states ``(B, T, 22)``. Untrained, it is exactly its analytic part.
    """

    def __init__(self, config: NNDConfig | None = None) -> None:
        super().__init__()
        self.config = config or NNDConfig()
        self.gravity = G  # networks are trained at this one
        self.c_v = nn.Parameter(torch.tensor(0.05))
        self.c_w = nn.Parameter(torch.tensor(0.05))
        self.k_s = nn.Parameter(torch.tensor(0.25))
        self.c_s = nn.Parameter(torch.tensor(0.08))
        self.alpha = nn.Parameter(torch.tensor(self.amplitude))
        self.alpha_imp = nn.Parameter(torch.tensor(self.amplitude))
        self.f_theta = residual_network(self.config.hidden, 2, 9, self.config.init)
        self.h_phi = residual_network(self.config.hidden, 1, 6, self.config.init)

    @property
    def amplitude(self) -> float:
        """Initial ``alpha`` and ``alpha_imp``."""
        return 0.01 if self.config.bounded else 1.0

    @property
    def coefficients(self) -> Coefficients:
        """Effective coefficients ``|c_v|, |c_w|, |k_s|, |c_s|``; all zero without the prior."""
        if not self.config.prior:
            zero = torch.zeros_like(self.c_v)
            return Coefficients(zero, zero, zero, zero)
        return Coefficients(
            self.c_v.abs(), self.c_w.abs(), self.k_s.abs(), self.c_s.abs(), self.gravity
        )

    @property
    def scalars(self) -> Tensor:
        """All learned scalars ``(6,)`` as they are used: the coefficients, alpha, alpha_imp."""
        c = self.coefficients
        return torch.stack(
            [torch.as_tensor(x) for x in (c.c_v, c.c_w, c.k_s, c.c_s, self.alpha, self.alpha_imp)]
        )

    @property
    def max_dt(self) -> float:
        """Longest substep in seconds."""
        return self.config.max_dt

    @property
    def like(self) -> Tensor:
        """A tensor with the dtype and on the device that states must have."""
        return self.c_v

    def rates(self, z: StateTensor) -> StateTensor:
        """What :class:`newtongs.dynamics.Dynamics` calls the field."""
        return self.field(z)

    def field(self, z: StateTensor) -> StateTensor:
        """Right-hand side of Eq. 4: the rate of every channel of ``z`` (..., 22)."""
        dz = rates(z, self.coefficients) if self.config.prior else kinematics(z)
        if self.config.continuous_residual:
            r = self.alpha * self.bounded(self.f_theta(z))
            dz = dz + correction(*r.split(3, dim=-1))
        return dz

    def bounded(self, output: Tensor) -> Tensor:
        """A network's output as it is used: its tanh, or unchanged."""
        return torch.tanh(output) if self.config.bounded else output

    def step(self, z: StateTensor, h: float) -> StateTensor:
        """One continuous substep of ``h`` seconds, projected."""
        return SOLVERS[self.config.solver](self.rates, z, h, project)

    def jump(self, z: StateTensor) -> StateTensor:
        """Floor response with the learned correction of the velocities after it."""
        if self.config.prior:
            z = floor.jump(z)
        if not self.config.contact_residual:
            return z
        x = State(z)
        dv, dw = (self.alpha_imp * self.bounded(self.h_phi(z))).split(3, dim=-1)
        return replace(z, v=x.v + dv, w=x.w + dw)

    def rollout(
        self,
        z0: StateTensor,
        times: Times | Sequence[float],
        *,
        velocity: Tensor | Sequence[float] | None = None,
        angular_velocity: Tensor | Sequence[float] | None = None,
        mass: Tensor | float | None = None,
        restitution: Tensor | float | None = None,
        attenuation: Tensor | float | None = None,
    ) -> StateTensor:
        """Predict the states at ``times``.

        Args:
            z0: initial states ``(..., 22)``.
            times: ``(T,)`` increasing seconds; any spacing. The first is the time of ``z0``.
            velocity: replaces the initial linear velocity, ``(3,)`` or ``(..., 3)``.
            angular_velocity: replaces the initial angular velocity, in rad/s.
            mass: replaces the mass.
            restitution: replaces the restitution e in [0, 1].
            attenuation: replaces the tangential attenuation mu in [0, 1].

        Returns:
            States ``(..., T, 22)``; the first is the projected initial state.
        """
        given = {
            "v": velocity, "w": angular_velocity, "m": mass, "e": restitution, "mu": attenuation
        }  # fmt: skip
        if any(value is not None for value in given.values()):
            z0 = replace(z0, **given)
        z0 = as_tensor(z0, "z0")
        if z0.dtype != self.c_v.dtype:
            raise InputError(
                f"z0 is {z0.dtype} and the model {self.c_v.dtype}; "
                f"convert one: z0.to({self.c_v.dtype})"
            )
        self.require_stable(check_initial(z0), intervals(times))
        event = {"gap": floor.gap, "jump": self.jump} if self.config.contact else {}
        return rollout(z0, times, self.step, max_dt=self.config.max_dt, **event)

    forward = rollout

    def require_stable(self, z: StateTensor, dt: Sequence[float]) -> None:
        """Refuse masses so small that drag would make the integration oscillate.

        ``z (..., 22)`` are states, ``dt`` the intervals that will be cut into substeps, in seconds.
        """
        c_v = abs(self.c_v.item()) if self.config.prior else 0.0
        if not z.numel() or State(z).m.amin().item() > c_v * self.config.max_dt:
            return  # the usual case
        require_mass(z, self.least_mass(dt))

    def least_mass(self, dt: Sequence[float]) -> float:
        """The smallest mass whose drag is integrated stably over intervals ``dt`` in seconds."""
        h = max((t / substeps(t, self.config.max_dt) for t in {*dt}), default=0.0)
        return self.least_mass_of_step(h, self.config.solver)

    def least_mass_of_step(self, h: float, solver: Solver) -> float:
        """The smallest mass whose drag a solver integrates stably in a step of ``h`` seconds."""
        c_v = torch.as_tensor(self.coefficients.c_v).detach()
        return float(c_v) * h / STABLE[solver]

    def extra_repr(self) -> str:
        """Shown by ``print(model)``."""
        return ", ".join(f"{k}={v!r}" for k, v in asdict(self.config).items())
