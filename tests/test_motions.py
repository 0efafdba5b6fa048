"""Every family: well formed, deterministic, and true to its row of the paper."""

import math

import pytest
import torch

from newtongs import State, motions, rotations
from newtongs.errors import InputError
from newtongs.motions.operators import Events, centered, forward

N, H, G = 200, 1 / 24, 9.81
T = torch.arange(64) * H
ALL = motions.names()
STEPPED = {
    "bouncing_on_plane", "object_wall_collision", "hybrid_collision_impulse",
    "nonlinear_force_field", "damped_bouncing", "rolling_then_collision", "wind_drag_projectile",
}  # fmt: skip
STOPPING = {"free_fall", "throw_and_land", "vertical_launch", "tumbling_fall"}
HEIGHTS = {
    "free_fall": 3.4, "projectile_motion": 1.8, "3d_acceleration_gravity": 1.9,
    "figure_eight_flight": 1.9, "airplane_flight": 2.3, "helical_flight": 2.0,
    "circular_orbital_motion": 1.6, "orbit_with_precession": 1.6, "spiral_orbit_decay": 1.7,
    "throw_and_land": 1.2, "vertical_launch": 0.8, "wind_drag_projectile": 1.4,
    "spring_oscillation": 1.5, "banked_airplane_turn": 2.1, "tumbling_fall": 3.0,
    "pendulum_damped_oscillation": 1.8, "nonlinear_force_field": 1.8,
}  # fmt: skip


@pytest.fixture(scope="module")
def made():
    """One draw of every family in both profiles, shared by the tests of this file."""
    return {
        (name, ood): motions.generate(name, N, seed=5, ood=ood)
        for name in ALL
        for ood in (False, True)
    }


def close(a, b, tol=2e-5):
    torch.testing.assert_close(a, b.expand_as(a), rtol=tol, atol=tol)


# --- what holds for all --------------------------------------------------------------------------


def test_there_are_32_in_the_papers_order():
    assert len(ALL) == 32
    assert [f.index for f in motions.families()] == list(range(32))
    assert (ALL[0], ALL[2], ALL[26], ALL[31]) == (
        "3d_uniform_motion", "free_fall", "stop_and_go_motion", "scale_pulse",
    )  # fmt: skip
    assert {f.name: f.height for f in motions.families() if f.height is not None} == HEIGHTS
    assert all(f.summary and f.category for f in motions.families())


@pytest.mark.parametrize("ood", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_well_formed(made, name, ood):
    sequences = made[name, ood]
    x = State(sequences.states)
    assert x.z.shape == (N, 64, 22)
    assert x.z.dtype == torch.float32
    assert torch.isfinite(x.z).all()
    close(x.q.norm(dim=-1), torch.ones(()), 1e-6)
    assert torch.equal(x.q[:, 0], rotations.identity(N, like=x.z))
    for constant, low, high in ((x.m, 0.45, 3.625), (x.e, 0.35, 0.96), (x.mu, 0.12, 0.75)):
        assert torch.equal(constant, constant[:, :1].expand_as(constant))
        assert low <= constant.min() < low + 0.1 * (high - low)
        assert high - 0.1 * (high - low) < constant.max() <= high
    close(x.q, rotations.exp(x.w * T[:, None]), 1e-5)
    close(x.u, centered(x.s.permute(2, 0, 1), T).permute(1, 2, 0), 1e-5)
    assert sequences.collision.shape == sequences.impulse.shape == (N, 64)
    assert sequences.normal.shape == (N, 64, 3)


@pytest.mark.parametrize("name", ALL)
def test_deterministic_by_seed_and_prefix_stable(made, name):
    again = motions.generate(name, N, seed=5)
    assert torch.equal(again.states, made[name, False].states)
    assert not torch.equal(motions.generate(name, N, seed=6).states, again.states)
    assert not torch.equal(motions.generate(name, N, seed=5, stream=1).states, again.states)
    few = motions.generate(name, 7, seed=5).states
    torch.testing.assert_close(few, again.states[:7], rtol=1e-5, atol=1e-5)


def test_blocks_are_separate_draws_one_after_the_other():
    both = motions.generate_blocks("damped_bouncing", [(5, 1), (3, 2)]).states
    parts = [motions.generate("damped_bouncing", n, seed=s).states for n, s in ((5, 1), (3, 2))]
    torch.testing.assert_close(both, torch.cat(parts), rtol=1e-6, atol=1e-6)


def test_velocity_range_shift_widens_only_the_velocities(made):
    a, b = (State(made["3d_uniform_motion", ood].states[:, 0]) for ood in (False, True))
    for field in ("p", "s", "m", "e", "mu"):
        assert torch.equal(getattr(a, field), getattr(b, field))
    for x, limit in ((a, 3.2), (b, 5.12)):
        horizontal = x.v[:, (0, 2)].abs()
        assert 0.95 * limit < horizontal.max() <= limit
    for x, top in ((a, 4.8), (b, 7.68)):
        assert 0.4 <= x.v[:, 1].min() < 0.6
        assert 0.95 * top < x.v[:, 1].max() <= top
    for x, limit in ((a, 4.0), (b, 6.4)):
        assert 0.95 * limit < x.w.abs().max() <= limit


# Families that move or rescale frame 0 themselves; their laws below cover it.
SHIFTED = {
    "3d_acceleration_gravity", "spring_oscillation", "figure_eight_flight", "slope_sliding",
    "rolling_with_friction", "bouncing_on_plane", "hybrid_collision_impulse", "damped_bouncing",
    "size_changing", "scale_pulse",
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in ALL if name not in SHIFTED])
def test_initial_heights(name):
    x = State(motions.generate(name, N, seed=1).states[:, 0])
    low, width = (HEIGHTS[name], 0.45) if name in HEIGHTS else (x.s[:, 1], 0.04)
    above = x.p[:, 1] - low
    assert above.min() >= -1e-6
    assert 0.9 * width < above.max() <= width + 1e-6


def test_unknown_name_suggests():
    with pytest.raises(InputError, match="did you mean free_fall"):
        motions.generate("freefall", 3)


@pytest.mark.parametrize(
    "arguments", [{"n": 0}, {"n": 3, "frames": 2}, {"n": 3, "dt": 0.0}, {"n": 3, "seed": -1}]
)
def test_bad_arguments(arguments):
    with pytest.raises(InputError):
        motions.generate("free_fall", **arguments)


def test_other_lengths_and_steps():
    x = motions.generate("two_stage_motion", 5, frames=49, dt=1 / 30).states
    assert x.shape == (5, 49, 22)


def test_difference_operators_are_exact_on_what_they_should_be():
    line, parabola = 3 * T[None] + 1, T[None] ** 2
    close(centered(line, T), torch.tensor(3.0), 1e-4)
    close(forward(line, T), torch.tensor(3.0), 1e-4)
    close(centered(parabola, T)[:, 1:-1], 2 * T[1:-1], 1e-4)
    assert centered(parabola, T)[0, 0].item() == pytest.approx(H, rel=1e-4)
    assert forward(parabola, T)[0, 0].item() == pytest.approx(H, rel=1e-4)
    assert forward(parabola, T)[0, -1] == forward(parabola, T)[0, -2]


# --- each family's own law -----------------------------------------------------------------------
# A law takes the states of N sequences (and their metadata) and checks the paper's row with what
# can be read off them; t has shape (64,), components have shape (N, 64).

LAWS = {}


def law(name):
    def register(check):
        LAWS[name] = check
        return check

    return register


@pytest.mark.parametrize("ood", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_law(made, name, ood):
    sequences = made[name, ood]
    LAWS[name](State(sequences.states), sequences)


def start(x, field):
    return getattr(x, field)[:, :1]


def parts(v):
    return v.unbind(-1)


def is_derivative(x):
    """v = D_h[p]."""
    close(x.v, centered(x.p.permute(2, 0, 1), T).permute(1, 2, 0), 2e-4)


def is_forward_derivative(x):
    close(x.v, forward(x.p.permute(2, 0, 1), T).permute(1, 2, 0), 2e-4)


def s_bar(x):
    return x.s[:, 0].mean(-1, keepdim=True)


def y_f(x):
    return (0.5 * x.s[:, :1, 1]).clamp_min(0.04)


@law("3d_uniform_motion")
def _(x, _m):
    close(x.v, start(x, "v"))
    close(x.p, start(x, "p") + T[:, None] * x.v)


@law("3d_acceleration_gravity")
def _(x, _m):
    a = torch.stack(
        [0.45 + 0.95 * torch.sin(2.3 * T), -4.2 + 1.2 * torch.cos(1.7 * T),
         0.30 + 0.80 * torch.sin(3.1 * T + 0.4)], -1,
    )  # fmt: skip
    close(x.v.diff(dim=1), H * a[1:].expand(N, -1, -1), 1e-4)
    close(x.p.diff(dim=1), H * x.v[:, 1:], 1e-4)
    # Both sums include j = 0: frame 0 already holds one step of each.
    y0 = x.p[:, 0, 1] - H * x.v[:, 0, 1]
    assert ((y0 >= 1.9 - 1e-5) & (y0 <= 2.35 + 1e-5)).all()


@law("projectile_motion")
def _(x, _m):
    close(x.p, start(x, "p") + T[:, None] * start(x, "v") - _half_g(T), 1e-4)
    close(x.v.diff(dim=1)[..., 1], torch.tensor(-G * H), 1e-4)
    assert x.v[:, 0, 1].min() >= 2.2
    assert (x.v[:, 0, 1] == 2.2).any()


def _half_g(t):
    return torch.stack([0 * t, 0.5 * G * t**2, 0 * t], -1)


@law("circular_orbital_motion")
def _(x, _m):
    px, py, pz = parts(x.p)
    close(torch.hypot(px, pz), (0.9 + s_bar(x)) * (1 + 0.22 * torch.sin(2.1 * T)), 1e-4)
    w = start(x, "w")[..., 1]
    assert (w >= 1.2).all()
    close(py - py[:, :1], 0.35 * torch.sin(0.5 * w * T), 1e-4)
    close(torch.atan2(pz, px), torch.atan2(torch.sin(w * T), torch.cos(w * T)), 1e-3)
    close(x.w[..., 0], 0.35 * torch.sin(2 * T).expand(N, -1))
    is_derivative(x)


@law("3d_rotation")
def _(x, _m):
    close(x.p, start(x, "p"))
    assert not x.v.any()
    close(x.w, start(x, "w"))
    assert (x.w[..., 1].max() - x.w[..., 1].min()) > 6
    assert abs(x.w[..., 1].mean() - 1.5) < 0.6


@law("pendulum_damped_oscillation")
def _(x, _m):
    d = torch.exp(-0.22 * T)
    swing = torch.stack(
        [1.15 * d * torch.cos(4.2 * T), 0.45 * d * torch.sin(4.2 * T),
         0.35 * torch.sin(7.14 * T + 0.3)], -1,
    )  # fmt: skip
    close(x.p - start(x, "p"), (swing - swing[0]).expand(N, -1, -1), 1e-4)
    close(x.w[..., 2], (4.2 * d).expand(N, -1))
    is_derivative(x)


@law("slope_sliding")
def _(x, _m):
    theta = math.radians(22)
    px, py, pz = parts(x.p)
    close(py[:, 0], x.s[:, 0, 1])
    close(py - py[:, :1], math.tan(theta) * (px - px[:, :1]), 1e-4)
    close(pz, pz[:, :1])
    along = (px - px[:, :1]) / math.cos(theta)
    a = G * (math.sin(theta) - x.mu[:, 0, 0] * math.cos(theta))
    # Least squares over the whole track: second differences in float32 would be noise.
    fit = torch.linalg.lstsq(torch.stack([T, 0.5 * T**2], -1), along.T).solution
    close(fit[1], a, 1e-3)
    is_derivative(x)


def scaled_by(x, *factors):
    factor = torch.stack(factors, -1)
    close(x.s / start(x, "s"), (factor / factor[0]).expand(N, -1, -1), 1e-4)


@law("size_changing")
def _(x, _m):
    close(x.p, start(x, "p") + T[:, None] * start(x, "v"), 1e-3)
    scaled_by(
        x, 1 + 0.32 * torch.sin(3.1 * T), 1 + 0.28 * torch.cos(2.3 * T + 0.4),
        1 + 0.24 * torch.sin(4.5 * T + 0.2),
    )  # fmt: skip
    assert x.v[..., 1].min() >= 0.75 * 0.4 - 1e-3
    is_derivative(x)


@law("non_rigid_deformation")
def _(x, _m):
    a = 1 + 0.42 * torch.sin(5 * T)
    scaled_by(x, a, 1 / a, 1 + 0.18 * torch.cos(4 * T))
    close(x.p, start(x, "p") + T[:, None] * start(x, "v"), 1e-3)
    assert 0.65 * 0.4 - 1e-3 <= x.v[..., 1].min() < 0.65 * 0.6
    is_derivative(x)


def obeys_floor(x, m, height, acceleration, keep_x, keep_z, e=None, rebound=1.0):
    """Semi-implicit steps between contacts, the stated response and metadata at them."""
    e = x.e[..., 0] if e is None else e
    before = x.v[:, :-1] + H * acceleration
    free = x.p[:, :-1] + H * before
    hit = m.collision[:, 1:]
    floor_hit = hit & (m.normal[:, 1:, 1] == 1)
    assert floor_hit.any()
    quiet = ~hit
    torch.testing.assert_close(x.v[:, 1:][quiet], before[quiet], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(x.p[:, 1:][quiet], free[quiet], rtol=1e-4, atol=1e-4)
    assert not ((free[..., 1] < height - 1e-4) & (before[..., 1] < 0) & quiet).any()
    now, was = x.v[:, 1:][floor_hit], before[floor_hit]
    e_hit = e.expand(N, 64)[:, 1:][floor_hit]
    m_hit = x.m[:, 1:, 0][floor_hit]
    close(x.p[:, 1:, 1][floor_hit], height.expand(N, 63)[floor_hit])
    only = (m.normal[:, 1:, 0] == 0)[floor_hit]
    torch.testing.assert_close(
        now[only, 1], -rebound * e_hit[only] * was[only, 1], rtol=1e-3, atol=1e-3
    )
    for axis, keep in ((0, keep_x), (2, keep_z)):
        kept = keep.expand(N, 63)[floor_hit] * was[:, axis]
        torch.testing.assert_close(now[only, axis], kept[only], rtol=1e-3, atol=1e-3)
    impulse = -(1 + e_hit) * m_hit * was[:, 1]
    torch.testing.assert_close(m.impulse[:, 1:][floor_hit], impulse, rtol=1e-3, atol=1e-3)


def drive(*components):
    return torch.stack(torch.broadcast_tensors(*components), -1)[..., :-1, :]


ZERO = torch.zeros(64)


@law("bouncing_on_plane")
def _(x, m):
    a = drive(0.8 * torch.sin(3.4 * T), ZERO - G, 0.6 * torch.cos(2.1 * T))
    keep = 1 - x.mu[:, :1, 0]
    obeys_floor(x, m, x.s[:, :1, 1], a, keep, keep)
    close(x.p[:, 0, 1], x.s[:, 0, 1] + 0.35)
    assert x.v[:, 0, 1].min() >= 2.4


@law("damped_bouncing")
def _(x, m):
    keep = 1 - 0.45 * x.mu[:, :1, 0]
    hits = m.collision.cumsum(-1) - m.collision.int()  # hits before this frame
    e_b = x.e[..., 0].clamp(0.25, 0.85) * 0.76**hits
    settled = m.collision & (x.v[..., 1] == 0)
    assert settled.any()
    # Where the rebound fell below 0.22 it was set to zero; elsewhere it is the stated one.
    v = x.v[:, :-1, 1] - H * G
    rebound = -e_b[:, 1:] * v
    hit = m.collision[:, 1:]
    expected = torch.where(rebound.abs() < 0.22, 0.0, rebound)
    near = (rebound.abs() - 0.22).abs() < 1e-3
    torch.testing.assert_close(
        x.v[:, 1:, 1][hit & ~near], expected[hit & ~near], rtol=1e-3, atol=1e-3
    )
    close(x.p[:, 1:, 1][hit], y_f(x).expand(N, 63)[hit])
    kept = keep[..., None] * x.v[:, :-1][..., (0, 2)]
    torch.testing.assert_close(x.v[:, 1:][..., (0, 2)][hit], kept[hit], rtol=1e-4, atol=1e-4)
    impulse = -(1 + e_b[:, 1:]) * x.m[:, 1:, 0] * v
    torch.testing.assert_close(m.impulse[:, 1:][hit], impulse[hit], rtol=1e-3, atol=1e-3)
    close(x.p[:, 0, 1], y_f(x)[:, 0] + 1.55)


@law("wind_drag_projectile")
def _(x, m):
    wind = torch.tensor([0.65, 0.0, 0.35])
    air = x.v - wind
    d = (0.20 + 0.08 * x.mu) / x.m
    a = (0.25 + 0.15 * torch.sin(2.4 * T))[:, None] * wind - d * air.norm(
        dim=-1, keepdim=True
    ).clamp_max(8) * air
    a = (a + torch.tensor([0.0, -G, 0.0]))[:, :-1]
    keep = 1 - x.mu[:, :1, 0]
    obeys_floor(x, m, y_f(x), a, keep, keep, rebound=0.25)
    assert x.v[:, 0, 1].min() >= 3.0


@law("nonlinear_force_field")
def _(x, m):
    px, py, pz = parts(x.p)
    a = torch.stack(
        [-1.15 * px + 0.85 * torch.sin(3.2 * T + pz), -0.2 * (py - 1) - 2.2,
         -1.05 * pz + 0.85 * torch.cos(2.7 * T + px)], -1,
    )  # fmt: skip
    a = a - 0.18 * x.v.norm(dim=-1, keepdim=True).clamp_max(8) * x.v
    keep = 1 - x.mu[:, :1, 0]
    s_0y = x.s[:, :1, 1] / 1.15
    obeys_floor(x, m, s_0y, a[:, :-1], keep, keep)
    scaled_by(
        x, 1 + 0.18 * torch.sin(3.7 * T), 1 + 0.15 * torch.cos(2.9 * T),
        1 + 0.12 * torch.sin(4.5 * T + 0.2),
    )  # fmt: skip


@law("hybrid_collision_impulse")
def _(x, m):
    a = drive(0.45 * torch.sin(5 * T), ZERO - G, 0.35 * torch.cos(3 * T))
    mu = x.mu[:, :1, 0]
    obeys_floor(x, m, x.s[:, :1, 1], a, 1 - mu, 1 - 0.5 * mu)
    obeys_wall(x, m, 1.25, a, lambda v_z: v_z + 0.6)
    assert x.v[:, 0, 0].min() >= 1.8
    close(x.w[..., 0], 0.7 * torch.sin(3 * T).expand(N, -1))


def obeys_wall(x, m, at, acceleration, v_z, damping=1.0):
    before = x.v[:, :-1] + H * acceleration
    hit = m.collision[:, 1:] & (m.normal[:, 1:, 0] == -1)
    assert hit.any()
    was, now = before[hit], x.v[:, 1:][hit]
    e, mass = x.e[:, 1:, 0][hit], x.m[:, 1:, 0][hit]
    damped = torch.as_tensor(damping).expand(N, 63)[hit]
    close(x.p[:, 1:, 0][hit] + x.s[:, 1:, 0][hit], torch.tensor(at))
    # A floor hit in the same step changes v_x and v_z before the wall sees them.
    single = (before[hit][:, 1] * now[:, 1]) >= 0
    assert single.any()
    tol = {"rtol": 1e-3, "atol": 1e-3}
    torch.testing.assert_close(now[single, 0], (-e * was[:, 0] * damped)[single], **tol)
    expected = v_z(was[:, 2]) * damped
    torch.testing.assert_close(now[single, 2], expected[single], **tol)
    impulse = -(1 + e) * mass * was[:, 0]
    torch.testing.assert_close(m.impulse[:, 1:][hit][single], impulse[single], **tol)
    # The scalar is the change of momentum along x.
    jump = mass * (now[:, 0] / damped - was[:, 0])
    torch.testing.assert_close(m.impulse[:, 1:][hit][single], jump[single], **tol)


@law("object_wall_collision")
def _(x, m):
    a = torch.tensor([0.0, -2.0, 0.0])
    before = x.v[:, :-1] + H * a
    quiet = ~m.collision[:, 1:]
    close(x.v[:, 1:][quiet], before[quiet], 1e-4)
    hit_mu = x.mu[:, 1:, 0][m.collision[:, 1:]]
    obeys_wall(x, m, 1.1, a, lambda v_z: (1 - hit_mu) * v_z)
    close(x.p[:, 0, 0], torch.tensor(-1.8))
    close(x.v[:, 0, 1:], torch.tensor([0.2, 0.8]))
    assert m.collision.sum(-1).max() == 1


@law("rolling_then_collision")
def _(x, m):
    damping = (1 - 0.55 * x.mu[:, :1, 0] * H).clamp_min(0)
    quiet = ~m.collision[:, 1:]
    close(x.v[:, 1:][quiet], (damping[..., None] * x.v[:, :-1])[quiet], 1e-4)
    obeys_wall(x, m, 1.2, torch.zeros(3), lambda v_z: v_z + 0.35, damping)
    close(x.p[:, 0, 0], torch.tensor(-1.65))
    close(x.v[:, 0, 2], 0.18 * x.v[:, 0, 0])
    close(x.w[..., 2], x.v.norm(dim=-1) / s_bar(x), 1e-4)


@law("rolling_with_friction")
def _(x, _m):
    d = torch.tensor([1.0, 0.0, 0.3]) / math.hypot(1, 0.3)
    a = 1.35 * G * x.mu[:, :1, 0]
    u_0 = x.v[:, :1].norm(dim=-1)
    assert u_0.min() >= 2
    u = (u_0 - a * T).clamp_min(0)
    close(x.v, u[..., None] * d, 1e-4)
    close(x.p[..., 1], x.s[..., 1])
    travelled = ((x.p - start(x, "p")) * d).sum(-1)
    close(travelled, (u_0 * T - 0.5 * a * T**2).clamp_min(0), 1e-3)
    close(x.w[..., 2], u / s_bar(x), 1e-3)
    stopped = u[:, -1] == 0
    assert (travelled[stopped, -1] < travelled[stopped].max(-1).values - 0.1).any()


@law("sliding_then_stop")
def _(x, _m):
    d = torch.tensor([1.0, 0.0, -0.28]) / math.hypot(1, 0.28)
    a = (1.4 * G * x.mu[:, :1, 0]).clamp_min(0.35)
    u_0 = x.v[:, :1].norm(dim=-1)
    assert u_0.min() >= 1.8
    close(x.v, (u_0 - a * T).clamp_min(0)[..., None] * d, 1e-4)
    travelled = ((x.p - start(x, "p")) * d).sum(-1)
    literal = (u_0 * T - 0.5 * a * T**2).clamp_min(0).minimum(u_0**2 / (2 * a))
    close(travelled, literal, 1e-3)
    close(x.p[..., 1], x.p[:, :1, 1])
    assert not x.w.any()


def stops_on_floor(x, m, launch, slide=None):
    """Ballistic until the first sample below y_f, then resting at it."""
    free_y = x.p[:, :1, 1] + T * launch[:, None, 1] - 0.5 * G * T**2
    margin = (free_y - y_f(x)).abs() > 1e-4
    landed = m.collision
    below = (free_y < y_f(x)).cummax(-1).values
    assert torch.equal(landed[margin], below[margin])
    close(x.p[..., 1], torch.where(landed, y_f(x), free_y), 2e-4)
    close(x.v[..., 1], torch.where(landed, 0.0, launch[:, None, 1] - G * T), 2e-4)
    close(m.normal[..., 1], landed.float())
    first = landed & (landed.cumsum(-1) == 1)
    assert first.any(-1).float().mean() > 0.9
    assert torch.equal(m.impulse != 0, first)
    k = first.float().argmax(-1)
    rows = first.any(-1)
    before = (launch[:, 1] - G * T[(k - 1).clamp_min(0)]).abs()
    close(m.impulse.sum(-1)[rows], (x.m[:, 0, 0] * before)[rows], 1e-3)
    if slide is None:
        across = x.p[:, :1][..., (0, 2)] + T[:, None] * launch[:, None][..., (0, 2)]
        close(x.p[..., (0, 2)], across, 2e-4)


@law("free_fall")
def _(x, m):
    assert not x.v[:, 0, 1].any()
    stops_on_floor(x, m, x.v[:, 0])


@law("vertical_launch")
def _(x, m):
    assert x.v[:, 0, 1].min() >= 4.6
    stops_on_floor(x, m, x.v[:, 0])
    close(x.w, torch.tensor([0.35, 0.10, 0.20]))


@law("tumbling_fall")
def _(x, m):
    stops_on_floor(x, m, x.v[:, 0])
    spin = torch.stack(
        [0.5 * torch.sin(2 * T), 0.4 * torch.cos(1.7 * T), 0.45 * torch.sin(2.4 * T)], -1
    )
    close(x.w - start(x, "w"), (spin - spin[0]).expand(N, -1, -1), 1e-4)


@law("throw_and_land")
def _(x, m):
    launch = x.v[:, 0]
    assert launch[:, 1].min() >= 3.8
    stops_on_floor(x, m, launch, slide=True)
    k = m.collision.float().argmax(-1)
    tau = (T - T[k][:, None]) * m.collision
    decay = torch.exp(-2.2 * x.mu[..., 0] * tau)
    for axis in (0, 2):
        u = launch[:, None, axis]
        track = x.p[:, :1, axis] + T * u + tau * u * decay
        close(x.p[..., axis], track, 2e-4)
        close(x.v[..., axis], torch.where(m.collision, u * decay, u), 2e-4)


@law("airplane_flight")
def _(x, _m):
    px, py, pz = (c - c[:, :1] for c in parts(x.p))
    u = x.v[:, :1, 0]
    assert u.min() >= 1.6
    close(px, u * T, 1e-3)
    close(py, 0.18 * torch.sin(2 * math.pi * T / T[-1]).expand(N, -1), 1e-4)
    close(pz, 0.38 * torch.sin(1.6 * T).expand(N, -1), 1e-4)
    close(x.w, torch.tensor([0.0, 0.35, 0.0]))
    is_forward_derivative(x)


@law("helical_flight")
def _(x, _m):
    r, w = 0.72 + 0.2 * s_bar(x), start(x, "w")[..., 1]
    px, py, pz = (c - c[:, :1] for c in parts(x.p))
    close(torch.hypot(px + r, pz), r.expand(N, 64), 1e-4)
    close(py, 0.28 * T + 0.16 * torch.sin(1.7 * w * T), 1e-4)
    assert w.min() >= 2.3
    is_forward_derivative(x)


@law("figure_eight_flight")
def _(x, _m):
    a = 0.95 + 0.15 * s_bar(x)
    px, _, pz = (c - c[:, :1] for c in parts(x.p))
    # On a figure eight z = 2 * 0.55 x sqrt(1 - (x / a)^2): a curve without the time.
    close(pz.square(), (1.1 * px).square() * (1 - (px / a).square()), 1e-3)
    w = torch.acos((x.w[:, 5, 0] / 0.18).clamp(-1, 1)) / T[5]
    assert w.min() >= 1.95 - 1e-2
    close(x.w[..., 1], torch.tensor(0.45))
    is_derivative(x)


@law("spiral_orbit_decay")
def _(x, _m):
    w = start(x, "w")[..., 1]
    px, py, pz = (c - c[:, :1] for c in parts(x.p))
    close(torch.hypot(px + 1.25, pz), torch.linspace(1.25, 0.35, 64).expand(N, -1), 1e-4)
    close(py, 0.16 * torch.sin(1.2 * w * T), 1e-4)
    is_derivative(x)


@law("spring_oscillation")
def _(x, _m):
    phase = torch.tensor([0.0, 0.8, 1.6])
    swing = torch.exp(-0.35 * T)[:, None] * torch.tensor([0.85, 0.42, 0.38])
    swing = swing * torch.sin(4.2 * T[:, None] + phase)
    close(x.p - start(x, "p"), (swing - swing[0]).expand(N, -1, -1), 1e-4)
    rest = x.p[:, 0, 1] - 0.42 * math.sin(0.8)
    assert ((rest >= 1.7 - 1e-5) & (rest <= 2.15 + 1e-5)).all()
    is_derivative(x)


@law("stop_and_go_motion")
def _(x, _m):
    u = x.v.norm(dim=-1)
    go = torch.zeros(64, dtype=torch.bool)
    go[1:11] = go[21:32] = go[42:53] = go[63] = True
    assert torch.equal(u[0] > 0, go)
    close(u, ((1.25 + 0.25 * torch.sin(3.5 * T)) * go).expand(N, -1), 1e-4)
    close(x.p.diff(dim=1), H * x.v[:, 1:], 1e-4)
    close(x.p[..., 1], x.p[:, :1, 1])
    close(x.w[..., 2], u)


@law("two_stage_motion")
def _(x, _m):
    p = x.p - start(x, "p")
    close(p[:, :32], (T[:32, None] * torch.tensor([1.05, 0.0, 0.25])).expand(N, -1, -1), 1e-4)
    tau = T[32:] - T[32]
    centre = p[:, 31:32] + torch.tensor([0.0, 0.0, 0.55])
    orbit = torch.stack(
        [0.55 * torch.sin(2.4 * tau), 0.12 * torch.sin(3.6 * tau), 0.55 * torch.cos(2.4 * tau)], -1
    )
    close(p[:, 32:] - centre, orbit.expand(N, -1, -1), 1e-4)
    close(x.w[:, 32:, 1], torch.tensor(2.4))
    is_derivative(x)


@law("banked_airplane_turn")
def _(x, _m):
    px, py, pz = (c - c[:, :1] for c in parts(x.p))
    close(torch.hypot(px, pz - 1.1), torch.tensor(1.1), 1e-4)
    close(py, 0.16 * torch.sin(0.8 * 1.65 * T).expand(N, -1), 1e-4)
    close(x.w[..., 1], torch.tensor(1.65))
    is_derivative(x)


@law("orbit_with_precession")
def _(x, _m):
    px, py, pz = (c - c[:, :1] for c in parts(x.p))
    close(px + 0.95, (0.95 * torch.cos(2.15 * T) * torch.cos(0.55 * T)).expand(N, -1), 1e-4)
    close(py, 0.42 * torch.sin(2.15 * T).expand(N, -1), 1e-4)
    close(pz, (0.95 * torch.sin(2.15 * T) + 0.35 * torch.sin(0.55 * T)).expand(N, -1), 1e-4)
    is_derivative(x)


@law("scale_pulse")
def _(x, _m):
    px, py, pz = (c - c[:, :1] for c in parts(x.p))
    close(px, 0.12 * torch.sin(1.5 * T).expand(N, -1), 1e-4)
    close(pz + 0.1, 0.10 * torch.cos(1.2 * T).expand(N, -1), 1e-4)
    assert not py.any()
    scaled_by(
        x, 1 + 0.38 * torch.sin(4 * T), 1 + 0.28 * torch.sin(4 * T + 1.2),
        1 + 0.33 * torch.cos(3.2 * T),
    )  # fmt: skip
    is_derivative(x)


# --- event metadata ------------------------------------------------------------------------------


def test_only_families_with_contacts_have_events(made):
    for (name, _), sequences in made.items():
        has_contacts = name in STEPPED | STOPPING
        assert bool(sequences.collision.any()) is has_contacts, name
        assert not sequences.impulse[~sequences.collision].any()
        assert not sequences.normal[~sequences.collision].any()


def test_two_contacts_in_one_step_share_a_flag():
    hit = torch.tensor([[True], [True], [False]])
    floor = Events.at(hit, (0.0, 1.0, 0.0), torch.ones(3, 1))
    wall = Events.at(torch.tensor([[True], [False], [False]]), (-1.0, 0.0, 0.0), -torch.ones(3, 1))
    both = floor.then(wall)
    assert both.collision.flatten().tolist() == [True, True, False]
    assert both.impulse.flatten().tolist() == [-1, 1, 0]
    assert both.normal[:, :, 0].T.tolist() == [[-1, 0, 0], [0, 1, 0], [0, 0, 0]]
