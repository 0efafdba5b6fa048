"""Lifting: the state of a shape that is known, of a shape that was moved, and rates over time."""

import itertools
import math
import warnings

import numpy as np
import pytest
import torch

from newtongs.base import rotations
from newtongs.base.errors import InputError
from newtongs.base.state import LAYOUT, State, make
from newtongs.scene.gaussians import GaussianScene
from newtongs.scene.lifting import lift, lift_scenes, lift_sequence
from newtongs.scene.transform import transform, transform_sequence

DISTINCT = (0.9, 0.5, 0.2)


def cloud(n=400, size=DISTINCT):
    """An object without symmetries: a stretched, turned and skewed heap."""
    x = torch.randn(n, 3, dtype=torch.float64)
    x = (x + 0.3 * x**2) * torch.tensor(size, dtype=torch.float64)
    q = rotations.normalize(torch.randn(4, dtype=torch.float64))
    return GaussianScene.make(
        means=rotations.rotate(q, x) + torch.randn(3, dtype=torch.float64),
        scales=0.05 * torch.rand(n, 3) + 0.01,
        quats=rotations.normalize(torch.randn(n, 4)),
        opacities=torch.rand(n),
        ids=0,
    )


def random_pose(s=DISTINCT):
    q = rotations.normalize(torch.randn(4, dtype=torch.float64))
    return make(p=torch.randn(3, dtype=torch.float64), q=q, s=s).double()


def same_turn(a, b, tolerance):
    """Quaternions up to their sign."""
    a, b = (rotations.normalize(x.double()) for x in (a, b))
    return min(float((a - b).abs().max()), float((a + b).abs().max())) < tolerance


def axes_of(z):
    return rotations.to_matrix(State(z).q.double())


def test_against_a_loop_in_numpy():
    scene, member = cloud(), torch.rand(400)
    z = State(lift(scene, membership=member))
    w = (scene.opacities.double() * member.double()).numpy()
    g = scene.means.double().numpy()
    p = sum(wi * gi for wi, gi in zip(w, g, strict=True)) / w.sum()
    C = sum(wi * np.outer(gi - p, gi - p) for wi, gi in zip(w, g, strict=True)) / w.sum()
    np.testing.assert_allclose(z.p, p, atol=1e-12)
    R = axes_of(z.z).numpy()
    np.testing.assert_allclose(R.T @ C @ R, np.diag((z.s.numpy() / 2) ** 2), atol=1e-12)


def test_paper_mode_order_sign_and_handedness():
    for _ in range(20):
        z = lift(cloud())
        s, R = State(z).s, axes_of(z)
        assert (s.diff() <= 0).all()
        assert torch.linalg.det(R) == pytest.approx(1)
        for axis in R.T[:2]:
            assert axis[axis.abs().argmax()] > 0


def test_a_single_frame_is_at_rest_with_default_material():
    z = State(lift(cloud()))
    assert not torch.cat([z.v, z.w, z.u]).any()
    assert [float(x) for x in (z.m, z.e, z.mu)] == [1.0, 0.75, 0.2]
    z = State(lift(cloud(), material={"m": 3.0, "mu": 0.5}))
    assert [float(x) for x in (z.m, z.e, z.mu)] == [3.0, 0.75, 0.5]


def test_membership_zero_is_as_if_absent():
    scene = cloud()
    member = (torch.arange(400) < 250).double()
    torch.testing.assert_close(lift(scene, membership=member), lift(scene[:250]))


def test_scale_is_twice_the_standard_deviation():
    """Two points at +-a along each axis of a box have variance a^2 / 3."""
    a = torch.tensor([3.0, 2.0, 1.0])
    scene = GaussianScene.make(means=torch.cat([a.diag(), -a.diag()]), scales=torch.ones(6))
    torch.testing.assert_close(State(lift(scene)).s, 2 * a / math.sqrt(3))
    both = State(lift(scene, covariances=True)).s
    torch.testing.assert_close(both, 2 * (a**2 / 3 + 1).sqrt())


def test_points_and_lines_stop_at_the_scale_floor():
    one = GaussianScene.make(means=[[1.0, 2.0, 3.0]], scales=[[1.0, 1.0, 1.0]])
    z = State(lift(one))
    assert z.s.tolist() == pytest.approx([1e-4] * 3)
    assert z.p.tolist() == [1.0, 2.0, 3.0]
    assert torch.isfinite(z.z).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("covariances", [False, True])
def test_lift_of_a_transformed_object_recovers_the_pose(dtype, covariances):
    for _ in range(10):
        scene = cloud()
        fields = ("means", "quats", "log_scales", "logits", "sh")
        scene = scene.replace(**{k: getattr(scene, k).to(dtype) for k in fields})
        z0 = lift(scene, covariances=covariances)
        z = random_pose(s=DISTINCT * np.exp(0.1 * np.random.default_rng(0).normal(size=3)))
        moved = transform(scene, z0, z)
        again = lift(moved, near=State(z).q, covariances=covariances)
        torch.testing.assert_close(State(again).p.double(), State(z).p, atol=1e-4, rtol=0)
        torch.testing.assert_close(State(again).s.double(), State(z).s, atol=1e-4, rtol=0)
        assert same_turn(State(again).q, State(z).q, 1e-4)


def test_paper_mode_recovers_the_pose_up_to_the_names_of_the_axes():
    scene = cloud()
    z0, z = lift(scene), random_pose(s=(0.2, 0.9, 0.5))  # another order than the lifter's
    again = lift(transform(scene, z0, z))
    torch.testing.assert_close(State(again).s.double(), State(z).s[[1, 2, 0]], atol=1e-4, rtol=0)
    overlap = (axes_of(z)[:, [1, 2, 0]].T @ axes_of(again)).abs()
    torch.testing.assert_close(overlap, torch.eye(3).double(), atol=1e-4, rtol=0)


def spinning(frames=30, dt=1 / 24, w=(1.5, -2.0, 1.0), growth=(0.2, 0.1, -0.1)):
    """A state that turns at constant body rate, flies at constant speed and grows linearly."""
    t = torch.arange(frames, dtype=torch.float64).unsqueeze(-1) * dt
    turned = rotations.exp(torch.tensor(w, dtype=torch.float64) * t)
    z0 = random_pose()
    v, u = (torch.tensor(x, dtype=torch.float64) for x in ((1.0, -2.0, 0.5), growth))
    return z0, make(
        p=State(z0).p + v * t,
        q=rotations.multiply(State(z0).q.expand(frames, 4), turned),
        s=State(z0).s + u * t,
        v=v.expand(frames, 3),
        w=torch.tensor(w, dtype=torch.float64).expand(frames, 3),
        u=u.expand(frames, 3),
    ).double()


def moved_means(scene, z):
    """Means of the scene as it follows the states, whatever its own pose is."""
    means, _ = transform_sequence(scene.means, scene.covariances, lift(scene), z)
    return means


def test_tracked_sequence_recovers_states_and_rates():
    scene, (_, z) = cloud(), spinning()
    got = lift_sequence(
        moved_means(scene, z), scene.opacities, tracked=True, near=State(z[0]).q
    ).double()
    # q and -q are the same turn, but the path must be one of the two throughout.
    sign = torch.sign((State(got[0]).q * State(z[0]).q).sum())
    expected = torch.cat([z[:, :3], sign * z[:, LAYOUT["q"]], z[:, 7:]], dim=-1)
    torch.testing.assert_close(got, expected, atol=1e-8, rtol=0)


def test_paper_mode_jumps_where_tracking_does_not():
    scene, (_, z) = cloud(), spinning(frames=60, growth=(0.0, 0.0, 0.0))
    means = moved_means(scene, z)
    spin = State(lift_sequence(means, scene.opacities)).w.norm(dim=-1)
    tracked = State(lift_sequence(means, scene.opacities, tracked=True)).w.norm(dim=-1)
    assert spin.max() > 20
    torch.testing.assert_close(tracked, torch.full_like(tracked, spin.min()), atol=1e-6, rtol=0)


def test_tracking_follows_axes_through_a_change_of_order():
    """One axis outgrows another; names stay, although the lifter orders by length."""
    scene = cloud()
    _, z = spinning(frames=24, w=(0.0, 0.0, 0.3), growth=(-0.6, 0.6, 0.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they meet on the way
        got = lift_sequence(
            moved_means(scene, z), scene.opacities, tracked=True, near=State(z[0]).q
        )
    torch.testing.assert_close(State(got).s, State(z).s, atol=1e-8, rtol=0)
    paper = State(lift_sequence(moved_means(scene, z), scene.opacities)).s
    assert (paper.diff(dim=-1) <= 0).all()


def test_tracking_equals_a_greedy_loop():
    """All namings at once against one frame after the other."""
    means = torch.randn(12, 5, 3, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = axes_of(lift_sequence(means, tracked=True))
        paper = axes_of(lift_sequence(means))
    before = paper[0]
    for t in range(1, 12):
        every = [
            torch.stack([a * paper[t][:, i], b * paper[t][:, j], c * paper[t][:, k]], dim=-1)
            for i, j, k in itertools.permutations(range(3))
            for a, b, c in itertools.product((1, -1), repeat=3)
        ]
        right = [m for m in every if torch.linalg.det(m) > 0]
        assert len(right) == 24
        before = max(right, key=lambda m: float((m * before).sum()))
        torch.testing.assert_close(got[t], before)


def test_rates_are_of_second_order_inside_and_exact_for_uneven_steps():
    """Centres on a parabola: centred differences are exact inside, first order at the ends."""
    t = torch.tensor([0.0, 0.1, 0.25, 0.3, 0.6], dtype=torch.float64)
    shape = cloud().means
    means = shape + (t**2)[:, None, None] * torch.tensor([1.0, -2.0, 0.0])
    v = State(lift_sequence(means, times=t)).v[:, 0]
    torch.testing.assert_close(v[1:-1], 2 * t[1:-1])
    assert v[0] == pytest.approx(0.1)
    assert v[-1] == pytest.approx(0.9)


def test_angular_velocity_is_in_the_body_frame():
    """It satisfies q' = 1/2 q (x) [0, w], also where the axis of rotation moves."""
    scene, times = cloud(), torch.linspace(0, 1, 401, dtype=torch.float64)
    q = torch.stack([torch.ones_like(times), times, times**2, -times], dim=-1)
    z = make(q=rotations.normalize(q), s=DISTINCT).double()
    got = lift_sequence(
        moved_means(scene, z), scene.opacities, times=times, tracked=True, near=State(z[0]).q
    )
    derivative = State(got).q.diff(dim=0) * 400
    middle = rotations.normalize(State(got).q[1:] + State(got).q[:-1])
    w = (State(got).w[1:] + State(got).w[:-1]) / 2
    torch.testing.assert_close(
        rotations.derivative(middle, w)[2:-2], derivative[2:-2], atol=1e-4, rtol=0
    )


def test_weights_may_change_over_time():
    scene, (_, z) = cloud(), spinning(frames=5)
    means, w = moved_means(scene, z), scene.opacities
    fixed = lift_sequence(means, w)
    torch.testing.assert_close(lift_sequence(means, w.expand(5, -1)), fixed)
    member = torch.rand(5, 400, dtype=torch.float64)
    changing = lift_sequence(means, w * member)
    alone = lift(scene.replace(means=means[3]), membership=member[3])
    torch.testing.assert_close(State(changing[3]).p, State(alone).p, atol=1e-6, rtol=0)


def test_frames_may_have_different_numbers():
    scene, (_, z) = cloud(), spinning(frames=4)
    parts = [scene.replace(means=m)[: 400 - 50 * k] for k, m in enumerate(moved_means(scene, z))]
    got = lift_scenes(parts)
    for part, state in zip(parts, got, strict=True):
        torch.testing.assert_close(state[: LAYOUT["q"].stop], lift(part)[: LAYOUT["q"].stop])
    torch.testing.assert_close(State(got).v[0], (State(got).p[1] - State(got).p[0]) * 24)


def test_close_scales_warn_in_tracked_mode_only():
    axes = torch.tensor([2.0, 1.0, 1.0]).diag()
    means = torch.cat([axes, -axes]).expand(3, 6, 3)
    with pytest.warns(UserWarning, match="3 of 3 frames have two scales closer than 1%"):
        lift_sequence(means, tracked=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lift_sequence(means)
        lift_sequence(means * torch.tensor([1.0, 1.0, 0.5]), tracked=True)


def test_one_frame_of_a_sequence_is_at_rest():
    scene = cloud()
    torch.testing.assert_close(lift_sequence(scene.means[None], scene.opacities)[0], lift(scene))


CLOUD = cloud(10)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: lift(CLOUD, membership=torch.zeros(10)), "weights of 10 Gaussians sum to zero"),
        (lambda: lift(CLOUD[:0]), "weights of 0 Gaussians sum to zero"),
        (lambda: lift(CLOUD, membership=torch.ones(9)), r"membership: expected shape \(10,\)"),
        (lambda: lift(CLOUD, membership=-torch.ones(10)), "finite and not negative"),
        (lambda: lift(CLOUD, material={"mass": 1.0}), "unknown material 'mass'"),
        (lambda: lift(CLOUD, near=(1.0, 0.0)), r"near: expected a quaternion of shape \(4,\)"),
        (lambda: lift(CLOUD.replace(means=CLOUD.means * torch.inf)), "not finite"),
        (lambda: lift_sequence(CLOUD.means), r"expected shape \(T, N, 3\)"),
        (lambda: lift_sequence(torch.zeros(2, 4, 3), torch.ones(3)), r"\(4,\) or \(2, 4\)"),
        (lambda: lift_sequence(torch.zeros(2, 4, 3), dt=0), "seconds above zero"),
        (lambda: lift_sequence(torch.zeros(2, 4, 3), times=[1, 1]), "2 increasing numbers"),
        (lambda: lift_sequence(torch.zeros(2, 4, 3), near=(1, 0, 0, 0)), "near needs tracked"),
        (lambda: lift_scenes([]), "at least one frame"),
        (lambda: lift_scenes([CLOUD], memberships=[]), "one per frame, 1, got 0"),
    ],
)
def test_bad_input_is_one_clear_line(call, says):
    with pytest.raises(InputError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("work", "match"),
    [
        (lambda s: lift(s.means), "takes a GaussianScene"),
        (lambda s: lift_scenes(s), "takes a list, one scene per frame"),
        (lambda s: lift(s, material={"m": "heavy"}), "material m"),
        (lambda s: lift(s, material={"e": 1.5}), "material e: expected a number from 0 to 1"),
        (lambda s: lift(s, material={"m": math.nan}), "material m: expected a mass"),
        (lambda s: lift_sequence(s.means.expand(2, -1, -1), dt=math.inf), "dt: expected"),
        (lambda s: lift(s.replace(means=s.means * math.nan)), "isfinite"),
    ],
)
def test_what_cannot_be_lifted_is_refused(work, match):
    with pytest.raises(InputError, match=match):
        work(cloud())
