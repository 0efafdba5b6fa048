"""Accelerations by numpy: the bits of the dynamics' own."""

import pytest
import torch

from newtongs import make_state
from newtongs.base.state import State
from newtongs.dynamics.config import NNDConfig
from newtongs.dynamics.gaussian_nnd import GaussianNND
from newtongs.physics import mujoco_engine


def states() -> torch.Tensor:
    """Many, float64: of all masses and speeds."""
    torch.manual_seed(0)
    random = torch.rand(200, 7, dtype=torch.float64)
    return torch.stack(
        [
            make_state(
                p=(0.0, 1.0, 0.0), v=(20 * x[:3] - 10).tolist(), w=(50 * x[3:6] - 25).tolist(),
                m=float(x[6] + 0.01),
            ).double()
            for x in random
        ]
    )  # fmt: skip


class Heavier(GaussianNND):
    """Its own terms."""

    def rates(self, z: torch.Tensor) -> torch.Tensor:
        return 2 * super().rates(z)


PLAIN = {"continuous_residual": False, "contact_residual": False}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("kind", "config", "quick"),
    [
        (GaussianNND, NNDConfig(**PLAIN), True),
        (GaussianNND, NNDConfig(**PLAIN, prior=False), False),
        (GaussianNND, NNDConfig(), False),
        (Heavier, NNDConfig(**PLAIN), False),
    ],
)
def test_they_are_those_of_the_dynamics_bit_for_bit(kind, config, quick, dtype):
    dynamics, z = kind(config).to(dtype), states()
    with torch.no_grad():
        dynamics.c_v.fill_(-0.3)  # its sign does not count
    assert mujoco_engine._is_newtons(dynamics) == quick
    rate = State(dynamics.rates(z.to(dtype)).detach().double())
    linear, turning = mujoco_engine.accelerations(dynamics, z)
    assert torch.equal(torch.from_numpy(linear), rate.v)
    assert torch.equal(torch.from_numpy(turning), rate.w)
    assert rate.v.any() == config.prior
