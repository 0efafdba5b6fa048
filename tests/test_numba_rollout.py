"""The compiled CPU rollout against its specification, the reference rollout in float64."""

import copy
import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import torch

from newtongs import GaussianNND, NNDConfig, State, make_state
from newtongs.base.errors import InputError
from newtongs.base.state import LAYOUT, project
from newtongs.dynamics import floor
from newtongs.dynamics.backends import numba_rollout
from newtongs.dynamics.backends.numba_rollout import rollout_cpu
from newtongs.dynamics.rollout import rollout

TIMES = torch.arange(40, dtype=torch.float64) / 24
UNEVEN = [0.5, 0.513, 0.9, 0.91, 1.2, 1.2 + 1 / 30, 1.7, 2.0]
SWITCHES = [
    {},
    {"solver": "euler"},
    {"max_dt": 1 / 100},
    {"max_dt": 1.0},
    {"contact": False},
    {"continuous_residual": False},
    {"contact_residual": False},
    {"bounded": False},
    {"prior": False},
    {"prior": False, "bounded": False},
    {"prior": False, "bounded": False, "solver": "euler"},
    {"prior": False, "bounded": False, "contact": False},
    {"hidden": 1},
    {"hidden": 256},
]


def some_model(**config):
    """Every weight non-zero, some coefficients negative, and residuals that matter.

    The width is no multiple of what the compiled code works in, and small for the reference's sake.
    """
    model = GaussianNND(NNDConfig(**{"hidden": 37, **config}))
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.1)
    with torch.no_grad():
        model.alpha.fill_(-2.0)
        model.alpha_imp.fill_(0.5)
    return model


def some_states(n=32):
    """Low and falling, spinning fast, some shrinking to the scale floor, not yet projected."""
    g = torch.Generator().manual_seed(5)
    r = torch.rand(n, 22, generator=g)
    return make_state(
        p=r[:, :3] + torch.tensor([0.0, 0.6, 0.0]),
        q=4 * r[:, 3:7] - 2,
        v=4 * r[:, 7:10] - 2,
        w=20 * r[:, 10:13] - 10,
        s=0.2 + 0.3 * r[:, 13:16],
        u=r[:, 16:19] - 0.7,
        m=0.5 + r[:, 19],
        e=0.4 + 0.8 * r[:, 20],
        mu=1.4 * r[:, 21] - 0.2,
    )


@contextmanager
def threads(n):
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def reference(model, z0, times):
    """In float64, and for each row how far its closest call at the floor was from turning out
    otherwise: the test ``p_y <= r_y and v_y < 0`` is a threshold that rounding can cross."""
    model, z0 = copy.deepcopy(model).double(), z0.double()
    margin = torch.full(z0.shape[:-1], torch.inf, dtype=torch.float64)

    def gap(z):
        height = State(z).p[..., 1] - floor.support_radius(z)
        v_y = State(z).v[..., 1]
        # A miss needs one condition to fail clearly, a hit needs both to hold clearly.
        nonlocal margin
        margin = torch.minimum(margin, torch.maximum(height, v_y).abs())
        return floor.gap(z)

    event = {"gap": gap, "jump": model.jump} if model.config.contact else {}
    with torch.no_grad(), threads(1):  # at this size more would only wait for each other
        out = rollout(z0, times, model.step, max_dt=model.config.max_dt, **event)
        assert torch.equal(out, model.rollout(z0, times))
    return out, margin


def assert_same(model, z0, times, got):
    """As close to float64 as the reference in float32 is.

    Both make the same float32 roundings in another order, so their largest errors are of one
    size: allow four times the reference's, field by field, and a last rounding of the result.
    Rows that come closer than 1e-4 to a different contact are left out; errors are below 1e-5.
    """
    exact, margin = reference(model, z0, times)
    with torch.no_grad(), threads(1):
        plain = model.rollout(z0, times)
    clear = margin > 1e-4
    assert clear.double().mean() > 0.75
    assert got.dtype == torch.float32
    assert got.shape == exact.shape
    for name, channels in LAYOUT.items():
        x, y, z = (field[clear][..., channels] for field in (exact, plain, got))
        rounding = (y - x).abs().max().item()
        assert rounding < 1e-5 * max(1, x.abs().max().item())
        tolerance = 4 * rounding + torch.finfo(torch.float32).eps * x.abs().max().item()
        assert (z - x).abs().max().item() <= tolerance, name


# --- the same numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize("config", SWITCHES, ids=str)
@pytest.mark.parametrize("times", [TIMES, UNEVEN], ids=["24 Hz", "uneven"])
def test_parity_under_every_switch(config, times):
    model, z0 = some_model(**config), some_states()
    assert_same(model, z0, times, rollout_cpu(model, z0, times))


@pytest.mark.parametrize("gravity", [0.0, 1.62, 24.8])
def test_parity_under_another_gravity(gravity):
    model, z0 = some_model(), some_states()
    model.gravity = gravity
    assert_same(model, z0, TIMES, rollout_cpu(model, z0, TIMES))


def test_the_parity_inputs_reach_every_branch():
    out = State(reference(some_model(), some_states(), TIMES)[0])
    hits = (out.v[..., 1].diff(dim=1) > 0.5).sum(1)
    assert (hits > 0).double().mean() > 0.9
    assert (out.s == 1e-4).any()  # the scale floor
    assert ((out.s[..., 1] == 1e-4) & (out.p[..., 1] == 1e-3)).any()  # the radius floor, at a hit


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 150])
def test_any_number_of_rows(n):
    """Whole tiles, single rows after them, and more rows than a thread takes at a time."""
    model, z0 = some_model(), some_states(150)
    some = rollout_cpu(model, z0[:n], TIMES[:30])
    rest = [rollout_cpu(model, z, TIMES[:30]) for z in z0[n:]]  # one row, no leading dimension
    assert_same(model, z0, TIMES[:30], torch.cat([some, *(z.unsqueeze(0) for z in rest)]))


def test_many_rows_by_several_callers_leave_the_threads_alone():
    model, z0 = some_model(), some_states(80)
    with threads(3):
        alone = rollout_cpu(model, z0, TIMES[:10])
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda _: rollout_cpu(model, z0, TIMES[:10]), range(8)))
        assert torch.get_num_threads() == 3
    assert all(torch.equal(alone, out) for out in together)


def test_one_thread_gives_the_same():
    model, z0 = some_model(), some_states(40)
    with threads(1):
        one = rollout_cpu(model, z0, TIMES[:20])
    with threads(3):
        three = rollout_cpu(model, z0, TIMES[:20])
    assert_same(model, z0, TIMES[:20], one)
    assert_same(model, z0, TIMES[:20], three)


def test_callers_on_several_threads():
    model, z0 = some_model(), some_states(20)
    alone = rollout_cpu(model, z0, TIMES)
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda _: rollout_cpu(model, z0, TIMES), range(8)))
    assert all(torch.equal(alone, out) for out in together)


def test_leading_dimensions_are_free():
    model, z0 = some_model(), some_states(24)
    flat = rollout_cpu(model, z0, TIMES[:10])
    assert torch.equal(rollout_cpu(model, z0.view(2, 3, 4, 22), TIMES[:10]).view_as(flat), flat)
    columns = z0.t().contiguous().t()  # the same states, strided
    assert torch.equal(rollout_cpu(model, columns, TIMES[:10]), flat)
    assert torch.equal(rollout_cpu(model, z0.tolist(), TIMES[:10].tolist()), flat)
    assert rollout_cpu(model, z0[:0], TIMES[:10]).shape == (0, 10, 22)
    assert rollout_cpu(model, z0[0], [3.0]).shape == (1, 22)


@torch.no_grad()
def test_first_frame_is_exact():
    model, z0 = some_model(), 2 * torch.randn(9, 22)
    State(z0).m.abs_()
    first = rollout_cpu(model, z0, TIMES[:3])[:, 0]
    assert torch.equal(first, project(z0))
    assert torch.equal(first, model.rollout(z0, TIMES[:3])[:, 0])


@torch.no_grad()
def test_the_floor_at_its_thresholds():
    """Equality at both thresholds, where parity of whole rollouts would be a matter of luck."""
    z = make_state(
        p=torch.tensor([0.25, 0.25, 0.25, 0.2501, 9e-4, 1e-3])[:, None].expand(-1, 3),
        v=torch.tensor([-1.0, 0.0, -0.0, -1.0, -1.0, -1.0])[:, None].expand(-1, 3),
        s=torch.tensor([0.25, 0.25, 0.5, 0.25, 1e-4, 1e-4])[:, None].expand(-1, 3),
        q=(1.0, 2.0, 3.0, 4.0),  # not unit: the response is projected, a miss is not
        w=(1.0, 2.0, 3.0),
    )
    model = some_model()
    hit = floor.gap(z) <= 0
    assert hit.tolist() == [True, False, False, False, True, True]
    expected = torch.where(hit[:, None], project(model.jump(z)), z)
    got = torch.nn.functional.pad(z, (0, numba_rollout.WIDTH - 22))
    numba_rollout._floor(got.numpy(), numba_rollout._plain(model))
    # The correction is a sum over the hidden units; elsewhere a few roundings.
    eps = torch.finfo(torch.float32).eps
    torch.testing.assert_close(got[:, :22], expected, rtol=4 * eps, atol=eps * model.config.hidden)
    assert torch.equal(got[~hit, :22], z[~hit])


def test_silu_over_its_range():
    """exp is our own: compare with float64 from where SiLU is denormal to where it is x."""
    x = torch.cat([torch.linspace(-85, 85, 100_001), torch.tensor([-0.0, 1e-30, -1e-30, 1e30])])
    got = x.clone()
    numba_rollout._silu(got.numpy())
    # Roundings: exp's polynomial and scaling 1 each, the sum 1, the quotient 1; -a is exact.
    eps = torch.finfo(torch.float32).eps / 2
    torch.testing.assert_close(
        got.double(), torch.nn.functional.silu(x.double()), rtol=4 * eps, atol=0
    )
    tails = torch.tensor([-1e4, math.nan])
    numba_rollout._silu(tails.numpy())
    assert abs(tails[0]) < 1e-30
    assert tails[1].isnan()


def test_what_does_not_stay_finite_is_refused_alike():
    """A scale that overflows: neither path may give back numbers that look healthy."""
    z0 = make_state(p=(0, 5, 0), u=(1e9, 0, 0), s=(1e9, 1, 1))
    model = some_model(continuous_residual=False, contact_residual=False)
    with torch.no_grad():
        model.k_s.fill_(1e30)
    for run in (model.rollout, lambda *x: rollout_cpu(model, *x)):
        with pytest.raises(InputError, match="channel s_x left all bounds"):
            run(z0, TIMES)


def test_weights_are_read_at_every_call():
    model, z0 = some_model(), some_states(1)
    before = rollout_cpu(model, z0, TIMES[:5])
    with torch.no_grad():
        model.f_theta[2].weight.mul_(2)
    assert not torch.equal(rollout_cpu(model, z0, TIMES[:5]), before)
    assert not before.requires_grad


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("z0", "times"),
    [
        (make_state(), [0.0, 0.2, 0.1]),
        (make_state(), []),
        (make_state(), [0.0, math.nan]),
        (torch.zeros(4, 21), [0.0, 1.0]),
        (torch.tensor(1.0), [0.0, 1.0]),
        (make_state(v=(0, math.nan, 0)), [0.0, 1.0]),
    ],
)
def test_bad_input_is_the_same_error(z0, times):
    model = GaussianNND()
    with pytest.raises(InputError) as expected:
        model.rollout(z0, times)
    with pytest.raises(InputError) as got:
        rollout_cpu(model, z0, times)
    assert str(got.value) == str(expected.value)


def test_other_types_are_sent_to_the_reference():
    with pytest.raises(InputError, match=r"got torch.float64 on cpu; use model.rollout"):
        rollout_cpu(GaussianNND(), make_state().double(), TIMES)
    with pytest.raises(InputError, match=r"got torch.float64 on cpu; use model.rollout"):
        rollout_cpu(GaussianNND().double(), make_state(), TIMES)
