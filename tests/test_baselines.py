"""The five baselines against plain scalar arithmetic."""

import math

import pytest
import torch

from newtongs import State, make_state
from newtongs.base import rotations
from newtongs.base.errors import InputError
from newtongs.dynamics import BASELINES, get_baseline

TIMES = torch.arange(64, dtype=torch.float64) / 24


@pytest.fixture
def z0():
    g = torch.Generator().manual_seed(0)
    r = torch.rand(8, 18, generator=g, dtype=torch.float64)
    return make_state(
        p=r[:, :3] + 0.5, v=4 * r[:, 3:6] - 2, w=4 * r[:, 6:9] - 2, s=0.2 + 0.2 * r[:, 9:12],
        u=r[:, 12:15] - 0.5, m=0.5 + r[:, 15], e=r[:, 16], mu=r[:, 17],
    )  # fmt: skip


def scalar_reference(z, damping, restore):
    """One object, frame by frame, with Python floats only (Appendix C)."""
    x = State(z)
    p, v, w, s, u = (getattr(x, k).tolist() for k in ("p", "v", "w", "s", "u"))
    q, m, e, mu = x.q, x.m.item(), x.e.item(), x.mu.item()
    h, rows = 1 / 24, []
    for _ in range(63):
        a = [-damping * c / m for c in v]
        a[1] -= 9.81
        v = [c + h * d for c, d in zip(v, a, strict=True)]
        p = [c + h * d for c, d in zip(p, v, strict=True)]
        w = [max(0, 1 - damping * h) * c for c in w]
        if math.hypot(*w) > 1e-6:  # a slower spin has no axis
            q = rotations.multiply(q, rotations.exp(h * torch.tensor(w, dtype=q.dtype)))
        if restore:
            u = [c + h * (-0.25 * (d - 1) - 0.08 * c) for c, d in zip(u, s, strict=True)]
        s = [max(1e-4, c + h * d) for c, d in zip(s, u, strict=True)]
        radius = max(abs(s[1]), 1e-3)
        if p[1] - radius <= 0 and v[1] < 0:
            p[1] = radius
            v = [(1 - mu) * v[0], -e * v[1], (1 - mu) * v[2]]
            w = [(1 - 0.5 * mu) * c for c in w]
        rows.append([*p, *q.tolist(), *v, *w, *s, *u, m, e, mu])
    return torch.tensor(rows, dtype=z.dtype)


@pytest.mark.parametrize(
    ("name", "damping", "restore"),
    [("gravity_bounce_se3", 0.0, False), ("physics_prior_se3", 0.05, True)],
)
def test_stepped_baselines(z0, name, damping, restore):
    out = get_baseline(name)(z0, TIMES)
    bounced = (out[..., 8].diff(dim=1) > 0.5).any(1)
    assert bounced.sum() >= 6
    for row, z in zip(out, z0, strict=True):
        torch.testing.assert_close(
            row[1:], scalar_reference(z, damping, restore), rtol=0, atol=1e-10
        )


@pytest.mark.parametrize("k", [1, 17, 63])
def test_closed_form_baselines(z0, k):
    x, t = State(z0), k / 24
    d = math.exp(-0.35 * t)
    for name, reach, left in (("const_vel_se3", t, 1.0), ("damped_vel_se3", (1 - d) / 0.35, d)):
        y = State(get_baseline(name)(z0, TIMES)[:, k])
        torch.testing.assert_close(y.p, x.p + reach * x.v)
        torch.testing.assert_close(y.s, (x.s + reach * x.u).clamp_min(1e-4))
        torch.testing.assert_close(y.q, rotations.multiply(x.q, rotations.exp(reach * x.w)))
        for rate in ("v", "w", "u"):
            torch.testing.assert_close(getattr(y, rate), left * getattr(x, rate))
    assert torch.equal(get_baseline("hold_z0")(z0, TIMES)[:, k], z0)


@pytest.mark.parametrize("name", BASELINES)
def test_all_start_at_the_projected_state_and_keep_the_material(z0, name):
    out = State(get_baseline(name)(z0, TIMES))
    assert out.z.shape == (8, 64, 22)
    torch.testing.assert_close(out.z[:, 0], z0)
    for field in ("m", "e", "mu"):
        kept = getattr(out, field)
        assert torch.equal(kept, getattr(State(z0), field)[:, None].expand_as(kept))


def test_unknown_baseline_suggests():
    with pytest.raises(InputError, match="did you mean hold_z0"):
        get_baseline("hold_z1")
