"""The physics frame and animations by their laws: there and back, motion seen from both sides."""

import math

import pytest
import torch

from newtongs.base import rotations
from newtongs.base.errors import InputError
from newtongs.base.state import DIM, State, make
from newtongs.scene.animation import Animation, continuous
from newtongs.scene.gaussians import GaussianScene
from newtongs.scene.transform import affine, transform
from newtongs.scene.world_frame import WorldFrame, shortest_turn
from newtongs.segment.floor.finding import find_floor


def directions(n):
    return torch.nn.functional.normalize(torch.randn(n, 3, dtype=torch.float64), dim=-1)


def random_frame():
    scale = math.exp(float(torch.randn(())))
    return WorldFrame.of_floor(directions(1)[0], float(torch.randn(())), scale=scale)


def random_states(*shape):
    draw = lambda n: torch.randn(*shape, n, dtype=torch.float64)  # noqa: E731
    return make(
        p=draw(3), q=rotations.normalize(draw(4)), v=draw(3), w=draw(3),
        s=draw(3).exp(), u=draw(3), m=draw(1).exp(), e=draw(1).sigmoid(), mu=draw(1).sigmoid(),
    )  # fmt: skip


def random_animation(T=7, n=40):
    scene = GaussianScene.make(
        means=torch.randn(3 * n, 3),
        scales=0.1 * torch.rand(3 * n, 3) + 0.01,
        quats=torch.randn(3 * n, 4),
        ids=torch.arange(3 * n) % 3 - 1,
    )
    states = {i: random_states(T).float() for i in (0, 1)}
    return Animation(scene, torch.arange(T) / 24, states)


# --- the physics frame ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "up", [(0, 1, 0), (0, -1, 0), (0, 0, 1), (1, 0, 0), (0, -1, 1e-7), (0.3, -0.5, 2)]
)
@pytest.mark.parametrize("scale", [1.0, 0.01, 30.0])
def test_floor_to_zero_and_up_to_y(up, scale):
    frame = WorldFrame.of_floor(up, -1.7, scale=scale)
    sky = torch.tensor(up, dtype=torch.float64)
    sky = sky / sky.norm()
    across = torch.randn(50, 3, dtype=torch.float64)
    across = across - (across @ sky)[:, None] * sky
    heights = torch.rand(50, dtype=torch.float64)
    points = across + (heights - 1.7)[:, None] * sky
    assert torch.allclose(frame.to_physics(points)[:, 1], scale * heights, atol=1e-9 * scale)
    assert torch.allclose(frame.up, sky, atol=1e-9)
    assert frame.floor == pytest.approx(-1.7)


def test_the_frame_is_a_similarity_without_mirror():
    frame = random_frame()
    x = torch.randn(4, 3, dtype=torch.float64)
    y = frame.to_physics(x)
    before, after = x[1:] - x[0], y[1:] - y[0]
    assert torch.allclose(after @ after.mT, frame.scale**2 * before @ before.mT, atol=1e-9)
    assert torch.linalg.det(after) / torch.linalg.det(before) == pytest.approx(frame.scale**3)


def test_points_there_and_back():
    for _ in range(20):
        frame, x = random_frame(), torch.randn(30, 3, dtype=torch.float64)
        assert torch.allclose(frame.to_scene(frame.to_physics(x)), x, atol=1e-12)
        assert frame.to_physics(x.float()).dtype == torch.float32


def test_states_there_and_back():
    frame, z = random_frame(), random_states(5, 8)
    assert torch.allclose(frame.state_to_scene(frame.state_to_physics(z)), z, atol=1e-12)
    assert frame.state_to_physics(z.float()).dtype == torch.float32


def test_the_identity_changes_nothing():
    x, z = torch.randn(9, 3), random_states(3)
    frame = WorldFrame.identity()
    assert torch.equal(frame.to_physics(x), x)
    assert torch.equal(frame.state_to_physics(z), z)


def test_material_and_body_rates_are_the_same_in_both():
    frame, z = random_frame(), random_states(6)
    a, b = State(z), State(frame.state_to_physics(z))
    for name in ("w", "m", "e", "mu"):
        assert torch.equal(getattr(a, name), getattr(b, name))


def test_a_motion_is_the_same_seen_from_both_sides():
    """Moving Gaussians in the scene, then mapping, is mapping, then moving them by mapped states.

    The law that makes the physics frame safe: p, q, s of a state must all map rightly for it.
    """
    frame, (z0, z) = random_frame(), random_states(2)
    g = torch.randn(50, 3, dtype=torch.float64)
    y0, y = frame.state_to_physics(z0), frame.state_to_physics(z)
    in_scene = (g - State(z0).p) @ affine(z0, z).mT + State(z).p
    in_physics = (frame.to_physics(g) - State(y0).p) @ affine(y0, y).mT + State(y).p
    assert torch.allclose(frame.to_physics(in_scene), in_physics, atol=1e-9)


def test_rates_are_derivatives_in_both_frames():
    """Velocity and scale rate map as differences of positions and scales do."""
    frame, z = random_frame(), random_states()
    h = 1e-6
    later = make(**{k: getattr(State(z), k) for k in ("q", "v", "w", "u", "m", "e", "mu")},
                 p=State(z).p + h * State(z).v, s=State(z).s + h * State(z).u)  # fmt: skip
    a, b = State(frame.state_to_physics(z)), State(frame.state_to_physics(later))
    assert torch.allclose((b.p - a.p) / h, a.v, atol=1e-6)
    assert torch.allclose((b.s - a.s) / h, a.u, atol=1e-6)


def test_a_found_floor_makes_a_frame():
    d = directions(3000).float()
    scene = GaussianScene.make(means=d + 5, scales=torch.full((3000,), 0.02))
    floor = find_floor(scene)
    frame = WorldFrame.of_floor(floor.up, floor.height, scale=0.5)
    y = frame.to_physics(scene.means)[:, 1]
    assert y.amin() == pytest.approx(0, abs=0.01)
    assert y.amax() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("up", [(0, 0, 0), (1, 2), (float("inf"), 0, 0)])
def test_a_wrong_up_is_one_clear_line(up):
    with pytest.raises(InputError, match="up: expected three numbers"):
        WorldFrame.of_floor(up, 0.0)


def test_a_wrong_scale_is_one_clear_line():
    with pytest.raises(InputError, match="scale must be positive"):
        WorldFrame.of_floor((0, 1, 0), 0.0, scale=0.0)


def test_the_shortest_turn_is_shortest():
    for a, b in zip(directions(30), directions(30), strict=True):
        q = shortest_turn(a, b)
        assert torch.allclose(rotations.rotate(q, a), b, atol=1e-12)
        angle = 2 * math.acos(min(1.0, abs(float(q[0]))))
        assert angle == pytest.approx(math.acos(max(-1.0, min(1.0, float(a @ b)))), abs=1e-6)


def test_the_shortest_turn_half_way_round():
    for a in [*directions(10), *torch.eye(3, dtype=torch.float64)]:
        assert torch.allclose(rotations.rotate(shortest_turn(a, -a), a), -a, atol=1e-12)


# --- animations -------------------------------------------------------------------------------


def test_frame_zero_is_the_scene_bit_for_bit():
    animation = random_animation()
    first = animation.frames()[0]
    for name in ("means", "quats", "log_scales", "logits", "sh", "ids"):
        assert torch.equal(getattr(first, name), getattr(animation.scene, name))


def test_background_never_moves_and_objects_follow_their_own_states():
    animation = random_animation()
    scene, last = animation.scene, animation.frames()[-1]
    still = scene.ids == -1
    assert torch.equal(last.means[still], scene.means[still])
    for i, z in animation.states.items():
        alone = transform(scene, {i: z[0]}, {i: z[-1]})
        assert torch.equal(last.means[scene.ids == i], alone.means[scene.ids == i])


@pytest.mark.parametrize("index", [0, 1])
def test_affines_move_means_as_frames_do(index):
    animation = random_animation()
    A, b = animation.affines(index)
    g = animation.scene.means[animation.scene.ids == index].double()
    for t in range(len(animation)):
        means = animation.frames()[t].means[animation.scene.ids == index]
        assert torch.allclose((g @ A[t].mT + b[t]).float(), means, atol=2e-4)
    assert torch.allclose(A[0], torch.eye(3).double(), atol=1e-12)
    assert torch.allclose(b[0], torch.zeros(3).double(), atol=1e-12)


def test_two_nodes_make_the_affine():
    """T(p_t) R(q_t) S(rho_t) R(inner) T(inner) is x -> A_t x + b_t."""
    animation = random_animation()
    for index in animation.states:
        A, b = animation.affines(index)
        node = animation.node_track(index)
        outer = rotations.to_matrix(node.rotation) * node.scale.unsqueeze(-2)
        both = outer @ rotations.to_matrix(node.inner_rotation)
        assert torch.allclose(both, A, atol=1e-9)
        assert torch.allclose(node.translation + both @ node.inner_translation, b, atol=1e-9)
        assert torch.allclose(node.scale[0], torch.ones(3).double())
        assert ((node.rotation[1:] * node.rotation[:-1]).sum(-1) >= 0).all()


def test_continuous_only_flips_signs():
    angle = torch.linspace(0, 15, 90)
    smooth = rotations.from_axis_angle(torch.tensor([1.0, 2.0, 0.5]).expand(90, 3), angle)
    flips = torch.where(torch.rand(90, 1) < 0.5, -1.0, 1.0)
    flips[0] = 1
    assert torch.equal(continuous(flips * smooth), smooth)


@pytest.mark.parametrize(("frames", "fps"), [(1, 24.0), (2, 24.0), (49, 24.0)])
def test_fps_and_length(frames, fps):
    animation = random_animation(T=frames)
    assert len(animation) == frames
    assert animation.fps == pytest.approx(fps, rel=1e-5)


def test_states_of_another_length_are_one_clear_line():
    animation = random_animation()
    with pytest.raises(InputError, match=rf"states of object 1: expected shape \(7, {DIM}\)"):
        Animation(animation.scene, animation.times, {1: animation.states[1][:3]})
