"""Layout, views, projection, the loader, and what the public edge takes in their place."""

import math

import numpy as np
import pytest
import torch

from newtongs import GaussianNND, motions
from newtongs.base import state
from newtongs.base.errors import InputError
from newtongs.base.state import State
from newtongs.dynamics import BASELINES
from newtongs.dynamics.rollout import intervals, substeps


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


# --- the public edge -----------------------------------------------------------------------------

TIMES = torch.arange(5) / 24


@pytest.mark.parametrize(
    "call",
    [
        lambda: state.make(p=torch.zeros(5, 3), v=torch.zeros(4, 3)),
        lambda: state.replace(state.make(p=torch.zeros(5, 3)), v=torch.zeros(4, 3)),
        lambda: GaussianNND().rollout(torch.zeros(5, 22), TIMES, velocity=torch.zeros(4, 3)),
    ],
)
def test_fields_that_do_not_broadcast(call):
    with pytest.raises(InputError, match=r"must agree, got p \(5, 3\).*v \(4, 3\)"):
        call()


@pytest.mark.parametrize("value", ["fast", [[1, 2], [3]], object()])
def test_fields_that_are_no_numbers(value):
    with pytest.raises(InputError, match="field 'v': expected an array of numbers, got"):
        state.make(v=value)
    with pytest.raises(InputError, match="z0: expected an array of numbers, got"):
        GaussianNND().rollout(value, TIMES)


@pytest.mark.parametrize("name", ["model", "model with a velocity", *BASELINES])
def test_initial_states_as_arrays_and_lists(name):
    model = GaussianNND()
    predict = BASELINES.get(name, model.rollout)
    if name == "model with a velocity":
        predict = lambda z0, times: model.rollout(z0, times, velocity=(1, 0, 0))  # noqa: E731
    z0 = state.make(p=torch.rand(3, 3), v=(1, 2, 3))
    expected = predict(z0, TIMES)
    for other in (z0.numpy(), z0.numpy().astype(np.float64), z0.tolist()):
        assert torch.equal(predict(other, TIMES), expected)
    with pytest.raises(InputError, match=r"expected shape \(\.\.\., 22\)|22 channels"):
        predict(3.0, TIMES)


def test_double_precision_stays():
    z0 = state.make(p=(0, 1, 0)).double()
    assert GaussianNND().double().rollout(z0, TIMES).dtype == torch.float64
    for predict in BASELINES.values():
        assert predict(z0, TIMES).dtype == torch.float64


@pytest.mark.parametrize("rate", [24, 30, 60])
def test_rounded_grids_take_the_same_number_of_substeps_everywhere(rate):
    times = torch.arange(300) / rate
    assert times.dtype == torch.float32
    assert {substeps(dt, 1 / rate) for dt in intervals(times)} == {1}
    assert {substeps(dt, 1 / (2 * rate)) for dt in intervals(times)} == {2}


def test_a_late_grid_takes_one_substep():
    """Before 512 s a float32 step is off by at most 2**-15 s, a little less than the slack."""
    times = 510 + torch.arange(60) / 30
    assert {substeps(dt, 1 / 30) for dt in intervals(times)} == {1}


@pytest.mark.parametrize(
    ("times", "place"),
    [
        ([0, 0.2, math.inf], r"\[0.2, inf\] at index 1"),
        ([-math.inf, 0], r"\[-inf, 0.0\] at index 0"),
        ([0, 1, math.nan, 3], r"\[1.0, nan\] at index 1"),
        ([0, 1, 2, 2], r"\[2.0, 2.0\] at index 2"),
        ([math.nan], r"\[nan\] at index 0"),
    ],
)
def test_bad_times_are_named_where_they_stand(times, place):
    with pytest.raises(InputError, match=place):
        intervals(times)


def test_one_time_is_a_grid():
    assert intervals([2.0]) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dt": math.inf}, "dt must be a positive number of seconds, got inf"),
        ({"dt": math.nan}, "got nan"),
        ({"dt": -1.0}, "got -1"),
        ({"device": "cuda:99"}, "device 'cuda:99' is not available here"),
        ({"device": "meta"}, "device 'meta' is not available here"),
    ],
)
def test_what_motions_refuse(arguments, message):
    with pytest.raises(InputError, match=message):
        motions.generate("free_fall", 2, **arguments)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_motions_on_a_gpu_that_is_not_there():
    with pytest.raises(InputError, match="device 'cuda' is not available here; use cpu"):
        motions.generate("free_fall", 2, device="cuda")
