"""Layout, views, projection and the loader."""

import numpy as np
import pytest
import torch

from newtongs import state
from newtongs.errors import InputError
from newtongs.state import State


def test_layout_is_the_papers():
    """Zero-based slices of Appendix A: 0-2, 3-6, 7-9, 10-12, 13-15, 16-18, 19-21."""
    z = torch.arange(22.0)
    x = State(z)
    views = [x.p, x.q, x.v, x.w, x.s, x.u, x.m, x.e, x.mu]
    assert torch.equal(torch.cat(views), z)
    assert [len(v) for v in views] == [3, 4, 3, 3, 3, 3, 1, 1, 1]
    assert len(state.CHANNELS) == len(set(state.CHANNELS)) == state.DIM == 22


def test_views_write_through():
    z = torch.zeros(4, 22)
    State(z).v[...] = 1
    assert z.sum() == 12


def test_pack_inverts_the_views():
    x = State(torch.randn(3, 5, 22))
    assert torch.equal(state.pack(x.p, x.q, x.v, x.w, x.s, x.u, x.m, x.e, x.mu), x.z)


def test_projection():
    z = torch.randn(100, 22) * 3
    x, y = State(z), State(state.project(z))
    torch.testing.assert_close(y.q.norm(dim=-1), torch.ones(100))
    torch.testing.assert_close(y.q * x.q.norm(dim=-1, keepdim=True), x.q)
    assert torch.equal(y.s, x.s.clamp_min(1e-4))
    assert torch.equal(y.m, x.m.clamp_min(1e-4))
    assert torch.equal(y.e, x.e.clamp(0, 1))
    assert torch.equal(y.mu, x.mu.clamp(0, 1))
    for name in ("p", "v", "w", "u"):
        assert torch.equal(getattr(x, name), getattr(y, name))
    torch.testing.assert_close(state.project(y.z), y.z)


def test_make_broadcasts_and_defaults():
    x = State(state.make(p=torch.zeros(5, 3), e=torch.linspace(0, 1, 5), v=(1, 2, 3)))
    assert x.z.shape == (5, 22)
    assert torch.equal(x.e[:, 0], torch.linspace(0, 1, 5))
    assert torch.equal(x.q[0], torch.tensor([1.0, 0, 0, 0]))
    assert (x.m == 1).all()
    assert torch.allclose(x.mu, torch.tensor(0.2))


def test_replace_broadcasts_one_state_over_many_velocities():
    z = state.make()
    many = state.replace(z, v=torch.randn(7, 3), m=2.0, w=None)
    assert many.shape == (7, 22)
    assert (State(many).m == 2).all()


@pytest.mark.parametrize("call", [lambda: state.make(vel=(1, 2, 3)), lambda: state.make(v=(1, 2))])
def test_wrong_fields_are_named(call):
    with pytest.raises(InputError, match=r"no field 'vel'|'v' has 3 components"):
        call()


def test_loader_adds_a_batch_and_keeps_22_channels():
    data = np.arange(6 * 30, dtype=np.float64).reshape(6, 30)
    z = state.as_states(data)
    assert z.shape == (1, 6, 22)
    assert z.dtype == torch.float32
    assert z.is_contiguous()
    assert torch.equal(z[0, 1], torch.arange(30.0, 52.0))
    assert state.as_states(torch.zeros(2, 6, 22)).shape == (2, 6, 22)


@pytest.mark.parametrize("shape", [(22,), (4, 21), (2, 2, 2, 22)])
def test_loader_refuses_other_shapes(shape):
    with pytest.raises(InputError, match=r"expected shape \(T, C\) or \(B, T, C\)"):
        state.as_states(torch.zeros(shape))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_loader_names_the_bad_channel(value):
    z = torch.zeros(2, 3, 22)
    z[1, 2, 14] = value
    with pytest.raises(InputError, match=r"s_y at index \(1, 2\)"):
        state.as_states(z)
