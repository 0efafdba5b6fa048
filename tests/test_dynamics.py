"""Verification of the solver, the floor event and Gaussian-NND against closed forms and numpy."""

import math

import numpy as np
import pytest
import torch

from newtongs import GaussianNND, NNDConfig, State, make_state
from newtongs.base import rotations
from newtongs.base.errors import InputError
from newtongs.base.state import project, replace
from newtongs.dynamics import floor, solvers
from newtongs.dynamics.analytic import Coefficients, rates
from newtongs.dynamics.rollout import rollout, substeps

TIMES = torch.arange(64, dtype=torch.float64) / 24


def airborne(n=1, seed=0, dtype=torch.float64):
    """Valid states so high that nothing lands within the test."""
    g = torch.Generator().manual_seed(seed)
    z = torch.randn(n, 22, generator=g, dtype=dtype)
    x = State(z)
    z = replace(z, p=x.p + torch.tensor([0.0, 200.0, 0.0]), s=1 + x.s.abs(), u=0.1 * x.u)
    return project(replace(z, m=0.5 + x.m.abs(), e=0.6, mu=0.3))


# --- solver --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "order"), [("rk4", 4), ("euler", 1)])
def test_order_of_convergence(name, order):
    """Damped oscillator with a known solution: halving h divides the error by 2^order."""
    a = torch.tensor([[0.0, 1.0], [-4.0, -0.3]], dtype=torch.float64)
    z0 = torch.tensor([1.0, 0.5], dtype=torch.float64)
    exact = torch.linalg.matrix_exp(2 * a) @ z0

    def error(n):
        z = z0
        for _ in range(n):
            z = solvers.SOLVERS[name](lambda z: a @ z, z, 2 / n, lambda z: z)
        return (z - exact).norm().item()

    fine = 1 if name == "rk4" else 8
    observed = math.log2(error(64 * fine) / error(128 * fine))
    assert abs(observed - order) < 0.05


def test_every_stage_is_projected():
    seen = []

    def field(z):
        seen.append(State(z).q.norm().item())
        return torch.ones_like(z)

    solvers.rk4(field, airborne()[0], 0.3, project)
    assert len(seen) == 4
    assert max(abs(n - 1) for n in seen) < 1e-12


# --- analytic terms ------------------------------------------------------------------------------


@torch.no_grad()
def test_free_flight_with_drag_is_the_closed_form():
    """v' = g - c v / m and s'' = -k (s - 1) - c s' have elementary solutions."""
    z0 = airborne(50)
    x = State(z0)
    out = State(GaussianNND().double().rollout(z0, TIMES))
    t = TIMES[:, None]
    rate = 0.05 / x.m[:, None]
    g = torch.tensor([0.0, -9.81, 0.0], dtype=torch.float64)
    v0, p0, decay = x.v[:, None], x.p[:, None], torch.exp(-rate * t)
    v = g / rate + (v0 - g / rate) * decay
    p = p0 + g / rate * t + (v0 - g / rate) * (1 - decay) / rate
    # Parameters are float32 numbers (0.05 and so on): about 1e-8 relative.
    torch.testing.assert_close(out.v, v, rtol=1e-7, atol=1e-6)
    torch.testing.assert_close(out.p, p, rtol=1e-7, atol=1e-6)
    omega = math.sqrt(0.25 - 0.04**2)
    a, b = x.s[:, None] - 1, (x.u[:, None] + 0.04 * (x.s[:, None] - 1)) / omega
    s = 1 + torch.exp(-0.04 * t) * (a * torch.cos(omega * t) + b * torch.sin(omega * t))
    torch.testing.assert_close(out.s, s, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(out.w, x.w[:, None] * torch.exp(-0.05 * t), rtol=1e-7, atol=1e-6)


def test_constant_spin_turns_the_body():
    z0 = airborne(20)
    c = Coefficients(c_v=0.0, c_w=0.0, k_s=0.0, c_s=0.0)
    step = lambda z, h: solvers.rk4(lambda z: rates(z, c), z, h, project)  # noqa: E731
    q = State(rollout(z0, TIMES, step, max_dt=1 / 240)).q
    x = State(z0)
    turn = rotations.exp(x.w[:, None] * TIMES[:, None])
    exact = rotations.multiply(x.q[:, None].expand_as(turn), turn)
    torch.testing.assert_close(q, exact, rtol=0, atol=1e-8)


@torch.no_grad()
def test_material_never_changes():
    z0 = airborne(10)
    out = State(GaussianNND().double().rollout(z0, TIMES))
    for name in ("m", "e", "mu"):
        kept = getattr(out, name)
        assert torch.equal(kept, getattr(State(z0), name)[:, None].expand_as(kept))


# --- floor event ---------------------------------------------------------------------------------


def falling(**fields):
    base = {
        "p": (1.0, 0.25, 2.0), "v": (2.0, -3.0, 1.0), "w": (1.0, 2.0, 4.0), "s": (0.2, 0.3, 0.4),
        "u": (0.1, 0.2, 0.3), "m": 2.0, "e": 0.5, "mu": 0.25,
    }  # fmt: skip
    return make_state(**{**base, **fields})


def test_jump_worked_by_hand():
    z = falling()
    assert floor.gap(z) == pytest.approx(-0.05)
    x, y = State(z), State(floor.jump(z))
    torch.testing.assert_close(y.p, torch.tensor([1.0, 0.3, 2.0]))
    torch.testing.assert_close(y.v, torch.tensor([1.5, 1.5, 0.75]))
    torch.testing.assert_close(y.w, 0.875 * x.w)
    for name in ("q", "s", "u", "m", "e", "mu"):
        assert torch.equal(getattr(x, name), getattr(y, name))


@pytest.mark.parametrize(
    ("fields", "hit"),
    [
        ({}, True),
        ({"p": (0.0, 0.3, 0.0)}, True),  # touching counts
        ({"p": (0.0, 0.3001, 0.0)}, False),
        ({"v": (0.0, 0.0, 0.0)}, False),  # resting does not
        ({"v": (0.0, 1.0, 0.0)}, False),
        ({"s": (0.2, 1e-4, 0.2), "p": (0.0, 9e-4, 0.0)}, True),  # radius floor 1e-3
    ],
)
def test_when_contact_is_detected(fields, hit):
    assert bool(floor.gap(falling(**fields)) <= 0) is hit


def test_bouncing_ball_against_scalar_arithmetic():
    """Without damping RK4 is exact between hits: compare with parabolas in plain floats."""
    e, h, r = 0.8, 1 / 48, 0.3
    z0 = make_state(p=(0, 2, 0), v=(1, 0, 0), s=(r, r, r), e=e, mu=0.2).double()
    model = GaussianNND().double()
    with torch.no_grad():
        for c in (model.c_v, model.c_w, model.k_s, model.c_s):
            c.zero_()
        out = State(model.rollout(z0, TIMES))
    e, mu, r = State(z0).e.item(), State(z0).mu.item(), State(z0).s[0].item()
    x, y, vx, vy, bounces = 0.0, 2.0, 1.0, 0.0, 0
    for frame in range(1, 64):
        for _ in range(2):
            x, y, vy = x + h * vx, y + h * vy - 0.5 * 9.81 * h * h, vy - 9.81 * h
            if y <= r and vy < 0:
                y, vy, vx, bounces = r, -e * vy, (1 - mu) * vx, bounces + 1
        assert out.p[frame, 0].item() == pytest.approx(x, abs=1e-9)
        assert out.p[frame, 1].item() == pytest.approx(y, abs=1e-9)
        assert out.v[frame, 1].item() == pytest.approx(vy, abs=1e-9)
    assert bounces >= 3


@torch.no_grad()
def test_contact_can_be_switched_off():
    z0 = make_state(p=(0, 0.5, 0), s=(0.3, 0.3, 0.3))
    through = GaussianNND(NNDConfig(contact=False)).rollout(z0, TIMES)
    assert State(through).p[-1, 1] < -10


# --- the model -----------------------------------------------------------------------------------


def test_parameter_count():
    assert sum(p.numel() for p in GaussianNND().parameters()) == 81_429


def test_initial_values_and_layers():
    model = GaussianNND()
    scalars = [model.c_v, model.c_w, model.k_s, model.c_s, model.alpha, model.alpha_imp]
    assert [round(p.item(), 6) for p in scalars] == [0.05, 0.05, 0.25, 0.08, 0.01, 0.01]
    for network, outputs in ((model.f_theta, 9), (model.h_phi, 6)):
        *hidden, last = [m for m in network if isinstance(m, torch.nn.Linear)]
        assert last.out_features == outputs
        assert not last.weight.any()
        for layer in hidden:
            bound = math.sqrt(6 / (layer.in_features + layer.out_features))
            assert 0.9 * bound < layer.weight.abs().max() <= bound
        assert not any(m.bias.any() for m in (*hidden, last))


def bouncing_batch(n=16, dtype=torch.float32):
    """Low, falling objects that hit the floor several times."""
    g = torch.Generator().manual_seed(3)
    r = torch.rand(n, 12, generator=g, dtype=dtype)
    return make_state(
        p=r[:, :3] + torch.tensor([0.0, 0.4, 0.0]),
        v=4 * r[:, 3:6] - 2,
        w=4 * r[:, 6:9] - 2,
        s=0.2 + 0.1 * r[:, 9:],
    ).to(dtype)


@torch.no_grad()
def test_zero_output_initialisation_is_exactly_the_analytic_rollout():
    z0 = bouncing_batch()
    full = GaussianNND()
    analytic = GaussianNND(NNDConfig(continuous_residual=False, contact_residual=False))
    assert torch.equal(full.rollout(z0, TIMES), analytic.rollout(z0, TIMES))


@torch.no_grad()
@pytest.mark.parametrize("branch", ["continuous_residual", "contact_residual"])
def test_each_branch_matters_once_it_has_weights(branch):
    z0 = bouncing_batch()
    full = GaussianNND()
    for p in full.parameters():
        torch.nn.init.normal_(p, std=0.1)
    without = GaussianNND(NNDConfig(**{branch: False}))
    without.load_state_dict(full.state_dict())
    assert not torch.equal(full.rollout(z0, TIMES), without.rollout(z0, TIMES))


def train_a_little(init, steps=3):
    torch.manual_seed(1)
    model = GaussianNND(NNDConfig(init=init))
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    z0 = bouncing_batch()
    for _ in range(steps):
        optimiser.zero_grad()
        out = State(model.rollout(z0, TIMES[:12]))
        loss = (out.p - 1).square().mean() + out.w.square().mean() + (out.s - 0.3).square().mean()
        loss.backward()
        optimiser.step()
    return model


def test_every_parameter_gets_gradient_after_a_few_steps():
    for name, p in train_a_little("zero-last").named_parameters():
        assert p.grad is not None, name
        assert p.grad.abs().max() > 0, name


def test_zero_all_initialisation_can_learn_only_its_output_bias():
    """The defect that the paper's ablation shows: with all weights zero nothing else moves."""
    model = train_a_little("zero-all")
    for network in (model.f_theta, model.h_phi):
        assert network[-1].bias.grad.abs().max() > 0
        assert all(not layer.weight.any() for layer in network if hasattr(layer, "weight"))


def test_gradient_against_finite_differences():
    torch.manual_seed(0)
    model = GaussianNND(NNDConfig(hidden=8)).double()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.3)
    z0, times = bouncing_batch(4, torch.float64), TIMES[:20]
    weight = torch.randn(4, 20, 22, dtype=torch.float64)
    value = lambda: (weight * model.rollout(z0, times)).sum()  # noqa: E731
    hits = (State(model.rollout(z0, times)).v[..., 1].diff(dim=1) > 1).sum()
    assert hits > 0  # a contact lies on the differentiated path
    value().backward()
    for p in (model.alpha, model.alpha_imp, model.c_v, model.f_theta[0].weight):
        flat, eps = p.data.view(-1), 1e-6
        flat[0] += eps
        up = value().item()
        flat[0] -= 2 * eps
        down = value().item()
        flat[0] += eps
        assert p.grad.view(-1)[0].item() == pytest.approx((up - down) / (2 * eps), rel=1e-5)


# --- the whole model against plain numpy ---------------------------------------------------------
# Section 3.3 and Appendix A once more, one state at a time in float64, sharing nothing with the
# package but the names of the weights.

P, Q, V, W, S, U = (slice(i, j) for i, j in ((0, 3), (3, 7), (7, 10), (10, 13), (13, 16), (16, 19)))
MASS, E, MU = 19, 20, 21


def mlp(weights, name, x):
    mine = (k for k in weights if k.startswith(name) and k.endswith(".weight"))
    *hidden, last = (k.removesuffix(".weight") for k in mine)
    for layer in hidden:
        x = weights[f"{layer}.weight"] @ x + weights[f"{layer}.bias"]
        x = x / (1 + np.exp(-x))
    return weights[f"{last}.weight"] @ x + weights[f"{last}.bias"]


def valid(z):
    z = z.copy()
    z[Q] /= np.sqrt((z[Q] ** 2).sum())
    z[S], z[MASS] = np.maximum(z[S], 1e-4), max(z[MASS], 1e-4)
    z[E], z[MU] = np.clip(z[E], 0, 1), np.clip(z[MU], 0, 1)
    return z


def field(weights, z):
    c_v, c_w, k_s, c_s = (abs(weights[name]) for name in ("c_v", "c_w", "k_s", "c_s"))
    r = weights["alpha"] * np.tanh(mlp(weights, "f_theta", z))
    real, imaginary = z[Q][0], z[Q][1:]
    dz = np.zeros(22)
    dz[P], dz[S] = z[V], z[U]
    dz[Q][0] = -0.5 * imaginary @ z[W]
    dz[Q][1:] = 0.5 * (real * z[W] + np.cross(imaginary, z[W]))
    dz[V] = np.array([0, -9.81, 0]) - c_v * z[V] / z[MASS] + r[0:3]
    dz[W] = -c_w * z[W] + r[3:6]
    dz[U] = -k_s * (z[S] - 1) - c_s * z[U] + r[6:9]
    return dz


def respond(weights, z):
    z = z.copy()
    z[1] = max(abs(z[14]), 1e-3)
    z[V] *= [1 - z[MU], -z[E], 1 - z[MU]]
    z[W] *= 1 - 0.5 * z[MU]
    kick = weights["alpha_imp"] * np.tanh(mlp(weights, "h_phi", z))
    z[V] += kick[0:3]
    z[W] += kick[3:6]
    return z


def reference(weights, z, times):
    """States at ``times`` and the support radius at every hit."""
    z = valid(z)
    states, hits = [z], []
    for dt in np.diff(times):
        n = next(n for n in range(1, 100) if dt / n <= 1 / 30 + 1e-9)
        h = dt / n
        for _ in range(n):
            k_1 = field(weights, z)
            k_2 = field(weights, valid(z + h / 2 * k_1))
            k_3 = field(weights, valid(z + h / 2 * k_2))
            k_4 = field(weights, valid(z + h * k_3))
            z = valid(z + h * (k_1 / 6 + k_2 / 3 + k_3 / 3 + k_4 / 6))
            radius = max(abs(z[14]), 1e-3)
            if z[1] <= radius and z[8] < 0:
                z = valid(respond(weights, z))
                hits.append(radius)
        states.append(z)
    return np.stack(states), hits


@torch.no_grad()
def test_rollout_against_plain_numpy():
    """Saturated networks, every learned scalar negative, inputs outside the valid domain."""
    model = GaussianNND().double()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.2)
    scalars = {"c_v": 0.4, "c_w": 0.3, "k_s": 0.5, "c_s": 0.2, "alpha": 0.8, "alpha_imp": 0.6}
    for name, value in scalars.items():
        getattr(model, name).fill_(-value)
    g = torch.Generator().manual_seed(1)
    z0 = bouncing_batch(6, torch.float64)
    x = State(z0)
    x.q.copy_(torch.randn(6, 4, generator=g))
    x.u.copy_(0.2 * torch.randn(6, 3, generator=g))
    x.m.copy_(torch.tensor([[0.4], [0.7], [1.0], [1.6], [2.5], [4.0]]))
    x.e[1], x.mu[2] = 1.4, -0.3
    x.u[3:5, 1] = -0.8  # these two shrink to the scale floor
    times = np.cumsum([0, *[1 / 24] * 30, 0.02, 0.1, 1 / 30, 0.15])
    out = model.rollout(z0, times).numpy()
    weights = {name: p.numpy() for name, p in model.state_dict().items()}
    radii = []
    for got, z in zip(out, z0.numpy(), strict=True):
        expected, hits = reference(weights, z, times)
        assert len(hits) >= 2
        radii += hits
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-9)
    assert min(radii) == 1e-3
    assert out[..., S].min() == 1e-4


def test_state_after_a_jump_is_projected():
    """The floor's own jump leaves the valid domain by rounding only; another one might not."""
    z0 = make_state(p=(0, 1, 0)).double()
    astray = replace(z0, q=(3.0, 0.0, 4.0, 0.0), s=-1.0 * State(z0).s, m=-2.0, e=3.0, mu=-1.0)
    fell = torch.zeros(())  # a gap of zero: every substep is a hit
    out = rollout(z0, [0.0, 0.1], lambda z, h: z, gap=lambda z: fell, jump=lambda z: astray)
    assert torch.equal(out[1], project(astray))
    assert not torch.equal(out[1], astray)


# --- rollout -------------------------------------------------------------------------------------


def test_first_state_is_the_projected_input():
    z0 = torch.randn(5, 22) * 2
    assert torch.equal(GaussianNND().rollout(z0, TIMES[:1])[:, 0], project(z0))
    State(z0).m.abs_()  # no time is simulated with a mass below zero
    assert torch.equal(GaussianNND().rollout(z0, TIMES[:3])[:, 0], project(z0))


@pytest.mark.parametrize(
    ("dt", "n"), [(1 / 24, 2), (1 / 30, 1), (1 / 60, 1), (0.1, 3), (0.1001, 4), (1.0, 30)]
)
def test_substeps(dt, n):
    assert substeps(dt, 1 / 30) == n
    assert substeps(float(torch.tensor(dt)), 1 / 30) == n


@torch.no_grad()
def test_any_increasing_grid_reaches_the_same_states():
    """Without contact the answer depends on the time, not on the grid."""
    z0 = airborne(5)
    model = GaussianNND().double()
    uneven = [0.0, 0.013, 0.4, 0.41, 1.7, 2.0]
    a = State(model.rollout(z0, uneven))
    b = State(model.rollout(z0, torch.arange(201, dtype=torch.float64) / 100))
    torch.testing.assert_close(a.p[:, -1], b.p[:, -1], rtol=0, atol=1e-6)
    torch.testing.assert_close(a.p[:, 2], b.p[:, 40], rtol=0, atol=1e-6)


@torch.no_grad()
def test_leading_dimensions_are_free():
    z0 = bouncing_batch(6)
    model = GaussianNND()
    flat = model.rollout(z0, TIMES[:10])
    assert flat.shape == (6, 10, 22)
    torch.testing.assert_close(
        model.rollout(z0.view(2, 3, 22), TIMES[:10]), flat.view(2, 3, 10, 22)
    )
    torch.testing.assert_close(model.rollout(z0[0], TIMES[:10]), flat[0])


def test_user_values_replace_the_initial_ones():
    z0 = bouncing_batch(3)
    out = GaussianNND().rollout(
        z0, TIMES[:2], velocity=(1, 2, 3), angular_velocity=(4, 5, 6), mass=2, restitution=0.1,
        attenuation=torch.tensor([0.2, 0.3, 0.4]),
    )  # fmt: skip
    x = State(out[:, 0])
    assert torch.equal(x.v, torch.tensor([1.0, 2, 3]).expand(3, 3))
    assert torch.equal(x.w, torch.tensor([4.0, 5, 6]).expand(3, 3))
    assert (x.m == 2).all()
    assert torch.allclose(x.e, torch.tensor(0.1))
    assert torch.allclose(x.mu[:, 0], torch.tensor([0.2, 0.3, 0.4]))


@torch.no_grad()
def test_euler_and_a_coarser_step_are_less_accurate():
    z0, times = airborne(20), TIMES[:16]
    exact = GaussianNND(NNDConfig(max_dt=1 / 480)).double().rollout(z0, times)

    def error(**config):
        out = GaussianNND(NNDConfig(**config)).double().rollout(z0, times)
        return (out - exact).abs().max().item()

    assert error() < 1e-4
    assert error(solver="euler") > 100 * error()
    assert error(max_dt=1 / 24) > 2 * error()


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([0.0, 0.2, 0.1], r"got \[0.2, 0.1\] at index 1"),
        ([0.0, 0.0], "increasing"),
        ([0.0, math.nan], "increasing"),
        ([], r"expected shape \(T,\)"),
        ([[0.0, 1.0]], r"expected shape \(T,\)"),
    ],
)
def test_bad_times(times, message):
    with pytest.raises(InputError, match=message):
        GaussianNND().rollout(make_state(), times)


def test_bad_states():
    with pytest.raises(InputError, match=r"expected shape \(\.\.\., 22\), got \(4, 21\)"):
        GaussianNND().rollout(torch.zeros(4, 21), TIMES)
    z = make_state()
    z[8] = math.nan
    with pytest.raises(InputError, match="v_y"):
        GaussianNND().rollout(z, TIMES)


@pytest.mark.parametrize(
    ("config", "message"),
    [({"solver": "rk5"}, "rk4"), ({"init": "zero-al"}, "zero-all"), ({"max_dt": 0}, "positive")],
)
def test_bad_configuration(config, message):
    with pytest.raises(InputError, match=message):
        NNDConfig(**config)
