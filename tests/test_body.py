"""True-shape contact: the shape itself, laws of the motion, and parity of the compiled path."""

import copy
import itertools
import math

import pytest
import torch

from newtongs import InputError, NNDConfig, State, make_state, rotations
from newtongs.dynamics import GaussianNND, floor, resting
from newtongs.dynamics.backends import predict_bodies, predict_body
from newtongs.dynamics.body import Body, body_gap, body_jump, directions
from newtongs.dynamics.resting import inertia, rollout_body, support
from newtongs.dynamics.rollout import rollout
from newtongs.dynamics.variants import choose
from newtongs.state import project

G = 9.81
TIMES = torch.arange(120, dtype=torch.float64) / 24
SIZES = torch.tensor([0.3, 0.2, 0.15])
CORNERS = torch.cartesian_prod(*(torch.tensor([-a, a]) for a in SIZES))


@pytest.fixture(autouse=True)
def _one_thread():
    """At the size of one object more would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def random_turn():
    return rotations.normalize(torch.randn(4))


def box_and_state(**fields):
    """A box in any orientation, above the floor, whose state's axes are the box's own."""
    q = random_turn()
    z0 = make_state(**{"p": (0, 1.5, 0), "q": q, "s": SIZES, **fields})
    return Body(rotations.rotate(State(z0).q.double(), CORNERS.double())), z0


def ball_and_state(radius=0.27, **fields):
    z0 = make_state(**{"p": (0, 1.5, 0), "s": (radius,) * 3, **fields})
    return Body(radius * directions(290)), z0


def thrown(spin=10.0):
    r = torch.rand(9)
    return {
        "p": (0, 1 + r[0].item(), 0),
        "v": 6 * r[1:4] - 3,
        "w": 2 * spin * r[4:7] - spin,
        "e": 0.3 + 0.4 * r[7],
        "mu": 0.1 + 0.4 * r[8],
    }


def energy(body, z0, z):
    """Kinetic, spin and height, for a unit of mass."""
    x = State(z.double())
    J = inertia(body.local(z0) * x.s[0])
    spin = torch.einsum("ti,ij,tj->t", x.w, J, x.w)
    return 0.5 * x.v.square().sum(-1) + 0.5 * spin + G * x.p[:, 1]


# --- the shape -----------------------------------------------------------------------------------


def test_lowest_follows_the_affine_map():
    """Against the paper's map applied to every point, one state at a time."""
    body, z0 = box_and_state()
    z = torch.stack(
        [make_state(p=torch.randn(3), q=random_turn(), s=0.1 + torch.rand(3)) for _ in range(50)]
    )
    for row, got in zip(z, body.lowest(z0, z), strict=True):
        a, b = State(z0.double()), State(row.double())
        A = rotations.to_matrix(b.q) @ torch.diag(b.s / a.s) @ rotations.to_matrix(a.q).T
        assert got.item() == pytest.approx(-(body.points @ A.T)[:, 1].min().item(), abs=1e-6)
    assert torch.allclose(body.height(z0, z), State(z.double()).p[:, 1] - body.lowest(z0, z))


def test_extreme_points_of_a_cloud():
    """Few of many, and no direction in which they fall short by more than their spacing allows."""
    x = torch.nn.functional.normalize(torch.randn(5000, 3), dim=-1).double() * SIZES.double()
    center = torch.tensor([1.0, 2.0, 3.0])
    body = Body.of_points(x + center, center)
    assert len(body.points) <= 300
    d = torch.nn.functional.normalize(torch.randn(200, 3).double(), dim=-1)
    short = (d @ x.T).amax(1) - (d @ body.points.T).amax(1)
    assert short.min() > -1e-12  # every point is one of the cloud's
    # 300 directions leave none farther than 0.15 rad; the flattest spot has radius 0.3^2 / 0.15.
    assert short.max() < 0.6 * (1 - math.cos(0.15))
    corners = Body.of_points(torch.cat([CORNERS, 0.5 * torch.rand(500, 3) * SIZES]))
    assert sorted(map(tuple, corners.points.tolist())) == sorted(
        map(tuple, CORNERS.double().tolist())
    )


def test_extreme_points_of_gaussians():
    """Surface points of the ellipsoids in every axis direction, by their covariances."""
    n, sigmas = 400, 1.5
    means, quats = torch.randn(n, 3), rotations.normalize(torch.randn(n, 4))
    scales, opacities = 0.05 + torch.rand(n, 3), torch.rand(n)
    opacities[:5], means[:5] = 0.05, 40.0  # haze, far away
    body = Body.of_gaussians(means, quats, scales, opacities, (0.5, 0, 0), sigmas=sigmas)
    R = rotations.to_matrix(quats.double()) * scales.double().unsqueeze(-2)
    reach = sigmas * (R @ R.mT).diagonal(dim1=-2, dim2=-1).sqrt()
    solid = opacities >= 0.3
    low, high = (means - reach)[solid].amin(0), (means + reach)[solid].amax(0)
    shift = torch.tensor([0.5, 0, 0])
    assert torch.allclose(body.points.amin(0), low - shift, atol=1e-6)
    assert torch.allclose(body.points.amax(0), high - shift, atol=1e-6)
    means[10], opacities[10] = torch.tensor([30.0, 0, 0]), 1.0  # one opaque floater
    strict = Body.of_gaussians(means, quats, scales, opacities)
    lenient = Body.of_gaussians(means, quats, scales, opacities, outliers=0.01)
    assert strict.radius > 25
    assert lenient.radius < 8


@pytest.mark.parametrize(
    "points", [torch.zeros(0, 3), torch.zeros(4, 2), torch.full((2, 3), torch.nan)]
)
def test_no_shape_no_body(points):
    with pytest.raises(InputError, match="points"):
        Body(points)


# --- gap and jump in the general rollout ---------------------------------------------------------


@torch.no_grad()
def test_gap_and_jump_stand_in_for_the_floor():
    """For a body as low as the proxy they are the paper's own, up to the speed at the plane."""
    model, z0 = choose("learned"), make_state(p=(0, 0.8, 0), v=(1, 0, 0), s=(0.2, 0.3, 0.2))
    body = Body([[0.0, -0.3, 0.0]])
    falling = make_state(p=(0, 0.3, 0), v=(1, -2, 3), w=(1, 2, 3), s=(0.2, 0.3, 0.2))
    assert body_gap(body, z0)(falling).item() == pytest.approx(floor.gap(falling).item(), abs=1e-7)
    assert torch.allclose(body_jump(body, z0, model)(falling), model.jump(falling), atol=1e-6)
    assert torch.allclose(body_jump(body, z0)(falling), floor.jump(falling), atol=1e-6)
    out = rollout(
        z0, TIMES[:30], model.step, max_dt=1 / 30,
        gap=body_gap(body, z0), jump=body_jump(body, z0, model),
    )  # fmt: skip
    assert torch.equal(out[:7], model.rollout(z0, TIMES[:7]))  # before the first hit
    assert State(out).v[:, 1].max() > 1


def test_a_bounce_returns_the_speed_at_the_plane():
    body = Body([[0.0, -0.3, 0.0]])
    z = make_state(p=(0, 0.28, 0), v=(0, -3, 0), e=0.8)
    v = State(body_jump(body, make_state())(z)).v[1].item()
    assert v == pytest.approx(0.8 * math.sqrt(9 - 2 * G * 0.02), rel=1e-6)


# --- laws ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("e", [0.3, 0.5, 0.75, 0.9])
@pytest.mark.parametrize("height", [0.5, 1.0, 2.0])
def test_restitution_is_the_one_asked_for(e, height):
    """By the highest points between bounces, without air: e^2 times the height before."""
    body, z0 = ball_and_state(p=(0, 0.27 + height, 0), e=e)
    fine = torch.arange(0, 4, 1 / 240)
    model = choose("analytic", "rigid")
    torch.nn.init.zeros_(model.c_v)
    z = predict_body(model, z0, fine, body)
    heights = body.height(z0, z)
    peak = (heights[1:-1] > heights[:-2]) & (heights[1:-1] >= heights[2:])
    peaks = [height, *heights[1:-1][peak].tolist()][:3]
    for before, after in itertools.pairwise(peaks):
        assert math.sqrt(after / before) == pytest.approx(e, rel=0.005)


@pytest.mark.parametrize("dynamics", ["analytic", "structured", "learned"])
@pytest.mark.parametrize("shape", [box_and_state, ball_and_state])
def test_laws_of_a_throw(dynamics, shape):
    model = choose(dynamics, "rigid")
    for _ in range(4):
        body, z0 = shape(**thrown())
        z = predict_body(model, z0, TIMES, body)
        x, height = State(z), body.height(z0, z)
        assert height.min() > -1e-4
        assert torch.equal(z[0], project(z0))
        assert not x.v[-1].any()  # it sleeps
        assert not x.w[-1].any()
        assert height[-1].abs() < 1e-4
        assert torch.equal(x.p[-1], x.p[-5])
        E = energy(body, z0, z)
        given = 0.02 if dynamics == "learned" else 5e-3  # f_theta and h_phi may push
        assert E.diff().max() < given * E[0]


def test_spin_keeps_axis_and_sense_in_flight():
    body, z0 = box_and_state(p=(0, 8, 0), w=(0.0, 0.0, -5.0), q=(1, 0, 0, 0))
    x = State(predict_body(choose("analytic", "rigid"), z0, TIMES[:24], body))
    assert not x.w[:, :2].any()
    assert (x.w[:, 2] < 0).all()
    turned = 2 * torch.atan2(x.q[:, 3], x.q[:, 0])
    expected = -5 * (1 - torch.exp(-0.05 * TIMES[:24])) / 0.05
    assert torch.allclose(torch.cos(turned).double(), torch.cos(expected), atol=1e-4)


def test_a_tilted_box_ends_on_a_face():
    """With toppling; without, it stands as it fell."""
    model = choose("analytic", "rigid")
    for _ in range(6):
        body, z0 = box_and_state(p=(0, 1.0, 0), e=0.4)
        tipped = State(predict_body(model, z0, TIMES, body))
        up = rotations.to_matrix(tipped.q[-1])[1]
        assert up.abs().max() > 0.9999
        stiff = State(predict_body(model, z0, TIMES, body, topple=False))
        assert torch.allclose(stiff.q[-1], State(z0).q, atol=1e-6)
        assert body.height(z0, stiff.z).min() > -1e-4
        assert not stiff.v[-1].any()


@pytest.mark.parametrize("topple", [True, False])
def test_a_ball_rolls_on_the_floor(topple):
    """Neither sinks nor hovers, and what attenuates nothing lets it go on."""
    body, z0 = ball_and_state(p=(0, 0.27, 0), v=(1.0, 0, 0), w=(0, 0, -1 / 0.27), mu=0.0, e=0.5)
    z0 = z0.clone()
    State(z0).p[1] = body.lowest(z0, z0)
    z = predict_body(choose("analytic", "rigid"), z0, TIMES, body, topple=topple)
    height = body.height(z0, z)
    assert height.min() > -1e-5
    assert height.max() < 3e-3  # of facets 0.03 wide
    assert State(z).p[-1, 0].item() == pytest.approx((1 - math.exp(-0.05 * 4.958)) / 0.05, rel=0.01)
    assert State(z).p[:, 1].std() < 2e-3


def test_sliding_does_not_depend_on_the_frame_rate():
    body, z0 = box_and_state(p=(0, 0.2, 0), q=(1, 0, 0, 0), v=(2.0, 0, 1.0), mu=0.1)
    ends = []
    for fps in (24, 30, 60, 100):
        z = predict_body(choose("analytic", "rigid"), z0, torch.arange(3 * fps) / fps, body)
        ends.append(State(z).p[-1, 0].item())
    # Summed in steps of h, a speed that decays at 5 /s goes up to 5 h / 2 less far.
    assert max(ends) < min(ends) * (1 + 5 / 2 / 30)


def test_rest_stays_at_rest_and_can_be_switched_off():
    body, z0 = box_and_state(p=(0, 0.2, 0), q=(1, 0, 0, 0), e=0.9)
    for dynamics in ("analytic", "learned"):
        model = choose(dynamics, "rigid")
        z = predict_body(model, z0, TIMES, body)
        assert (State(z).p - State(z0).p).abs().max() < 5e-3
        assert torch.equal(z[20:], z[20:21].expand_as(z[20:]))
    awake = State(predict_body(model, z0, TIMES, body, rest=False))
    assert awake.v[-24:].abs().amax(0).min() > 0


def test_a_free_scale_stands_on_the_floor():
    body, z0 = box_and_state(e=0.3)
    z = predict_body(choose("learned"), z0, TIMES, body)
    x = State(z)
    assert x.s[-1].min() > 1.5 * SIZES.min()
    assert body.height(z0, z)[-30:].abs().max() < 1e-4


# --- the contact solver --------------------------------------------------------------------------


def test_support_is_the_nearest_admissible_velocity(monkeypatch):
    """Admissible, and no other admissible velocity is nearer in kinetic energy."""
    monkeypatch.setattr(resting, "ITERATIONS", 5000)
    monkeypatch.setattr(resting, "SOLVED", 1e-7)
    for _ in range(20):
        n, room = torch.randn(12, 3).double(), torch.rand(12).double()
        J = inertia(torch.randn(12, 3).double())
        v0, w0 = torch.tensor(-1.0).double(), torch.randn(3).double()
        v, w = support(v0, w0, n, room, torch.linalg.inv(J))
        assert (v + n @ w + room).min() > -1e-4

        def distance(v, w, v0=v0, w0=w0, J=J):
            return (v - v0) ** 2 + torch.einsum("...i,ij,...j", w - w0, J, w - w0)

        others_v = v + 0.1 * torch.randn(20_000).double()
        others_w = w + 0.1 * torch.randn(20_000, 3).double()
        admissible = (others_v[:, None] + others_w @ n.T + room).amin(1) >= 0
        assert distance(others_v, others_w)[admissible].min() > distance(v, w) - 1e-4


# --- the compiled path ---------------------------------------------------------------------------


@pytest.mark.parametrize(("dynamics", "scale"), [("analytic", "free"), ("learned", "rigid")])
@pytest.mark.parametrize(
    "switches", [{}, {"topple": False}, {"rest": False}], ids=["all", "no topple", "no rest"]
)
def test_parity(dynamics, scale, switches):
    pytest.importorskip("numba")
    from newtongs.dynamics.fast_body import rollout_body_cpu

    model = choose(dynamics, scale)
    for shape in (box_and_state, ball_and_state):
        body, z0 = shape(**thrown())
        slow = rollout_body(model, z0, TIMES[:50], body, **switches)
        fast = rollout_body_cpu(model, z0, TIMES[:50], body, **switches)
        exact = rollout_body(
            copy.deepcopy(model).double(), z0.double(), TIMES[:50], body, **switches
        )
        # Contacts amplify float32 rounding: as close to float64 as the reference in float32 is.
        rounding = (slow - exact).abs().max()
        assert rounding < 0.02
        assert (fast - exact).abs().max() < 4 * rounding + 1e-5
        assert (slow - fast)[:20].abs().max() < 5e-5


def test_other_dtypes_take_the_reference():
    body, z0 = box_and_state(**thrown())
    exact = predict_body(choose("analytic").double(), z0.double(), TIMES[:20], body)
    assert exact.dtype == torch.float64
    assert (predict_body(choose("analytic"), z0, TIMES[:20], body) - exact).abs().max() < 1e-4


@torch.no_grad()
def test_no_floor_no_contact():
    model = GaussianNND(NNDConfig(contact=False))
    body, z0 = box_and_state()
    for roll in (rollout_body, predict_body):
        got = roll(model, z0, TIMES[:30], body)
        assert torch.allclose(got, model.rollout(z0, TIMES[:30]), atol=1e-5)


def test_errors_name_the_way_out():
    body, z0 = box_and_state(p=(0, 0.05, 0))
    with pytest.raises(InputError, match=r"below the floor; raise it"):
        predict_body(choose("analytic"), z0, TIMES, body)
    with pytest.raises(InputError, match="one object"):
        predict_body(choose("analytic"), z0.expand(2, -1), TIMES, body)


def test_a_batch_is_each_object_by_itself():
    """Bodies with different numbers of points, at different heights: bit for bit the same."""
    model = choose("learned", "rigid")
    bodies = [Body.of_points(torch.randn(n, 3) * 0.2) for n in (8, 40, 400)]
    z0 = [
        make_state(p=(0, 1.0 + k, 0), s=(0.3, 0.3, 0.3), v=(k, 1, 0), w=(1, 2, k)) for k in range(3)
    ]
    together = predict_bodies(model, z0, TIMES[:40], bodies)
    for z, body, states in zip(z0, bodies, together, strict=True):
        assert torch.equal(states, predict_body(model, z, TIMES[:40], body))
