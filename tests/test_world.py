"""Surfaces, shapes, colliders and the simulation as pieces; the laws are in test_world_laws."""

import json
import math
import struct

import numpy as np
import pytest
import torch

import newtongs
import newtongs.dynamics.search
from newtongs import GaussianNND, InputError, Simulation, State, cli, make_state
from newtongs.base import rotations
from newtongs.dynamics import FLOOR, Box, Dynamics, Plane, floor
from newtongs.dynamics.backends import backend, predictor
from newtongs.dynamics.backends.numba_rollout import rollout_cpu
from newtongs.dynamics.surfaces import touch, turned, upright
from newtongs.dynamics.variants import choose
from newtongs.physics import Body, Shape, Surroundings, Track
from newtongs.physics.bodies import lowest
from newtongs.physics.bounce import damping, rebound
from newtongs.physics.colliders import collider, merged
from newtongs.samples import template
from newtongs.scene import GaussianScene, WorldFrame, join
from newtongs.scene.similarity import moved
from newtongs.segment.voxels import Grid, density, optical_depth

HERE = WorldFrame.identity()


def some_states(n=64, seed=0):
    g = torch.Generator().manual_seed(seed)
    z = make_state(
        p=torch.randn(n, 3, generator=g), v=2 * torch.randn(n, 3, generator=g),
        q=torch.nn.functional.normalize(torch.randn(n, 4, generator=g), dim=-1),
        w=torch.randn(n, 3, generator=g), s=0.2 + 0.2 * torch.rand(n, 3, generator=g),
        e=torch.rand(n, 1, generator=g), mu=torch.rand(n, 1, generator=g),
    )  # fmt: skip
    return z.double()


# --- surfaces ------------------------------------------------------------------------------------


def test_the_floor_is_the_papers_to_the_last_bit():
    z = some_states().float()
    assert torch.equal(FLOOR.gap(z), floor.gap(z))
    model = newtongs.load_pretrained()
    with torch.no_grad():
        assert torch.equal(FLOOR.jump(z, model.jump), model.jump(z))


def test_a_plane_that_is_the_floor_answers_as_the_floor():
    z = some_states()
    plane = Plane((0.0, 2.0, 0.0), 0.0)  # the normal's length does not matter
    assert torch.allclose(plane.gap(z), floor.gap(z))
    assert torch.allclose(plane.jump(z, floor.jump), floor.jump(z))


@pytest.mark.parametrize("seed", range(5))
def test_a_plane_answers_as_the_floor_does_in_its_own_frame(seed):
    """Turn and shift the whole world: floor and states, or plane and states, it is the same."""
    g = torch.Generator().manual_seed(seed)
    q = torch.nn.functional.normalize(torch.randn(4, generator=g).double(), dim=0)
    normal = rotations.rotate(q, torch.tensor([0.0, 1.0, 0.0]).double())
    offset = 0.7
    plane, z = Plane(tuple(normal.tolist()), offset), some_states(seed=seed)
    there = turned(z, q)
    there = newtongs.base.state.replace(there, p=State(there).p + offset * normal)
    assert torch.allclose(plane.gap(there), floor.gap(z), atol=1e-6)
    got, want = plane.jump(there, floor.jump), turned(floor.jump(z), q)
    assert torch.allclose(State(got).p, State(want).p + offset * normal, atol=1e-6)
    assert torch.allclose(State(got).v, State(want).v, atol=1e-6)
    assert torch.allclose(State(got).w, State(want).w, atol=1e-6)
    assert (rotations.discrepancy(State(got).q, State(want).q) < 1e-6).all()


def test_upright_takes_any_direction_up():
    n = torch.nn.functional.normalize(torch.randn(200, 3).double(), dim=-1)
    n = torch.cat([n, torch.eye(3).double(), -torch.eye(3).double()])
    up = rotations.rotate(upright(n), n)
    assert torch.allclose(up, torch.tensor([0.0, 1.0, 0.0]).double().expand_as(up), atol=1e-6)


@pytest.mark.parametrize(
    ("p", "v", "gap"),
    [
        ((0.0, 1.5, 0.0), (0, -1, 0), 0.3),  # above the top
        ((2.0, 0.5, 0.0), (-1, 0, 0), 0.8),  # beside
        ((2.0, 0.5, 0.0), (1, 0, 0), math.inf),  # beside, on its way out
        ((0.0, 0.9, 0.0), (0, -1, 0), -0.3),  # inside, the top is nearest
        ((1.6, 1.8, 0.0), (-1, -1, 0), 0.8),  # off an edge: 3, 4, 5
    ],
)
def test_distance_to_a_box(p, v, gap):
    block = Box((-1.0, -1.0, -1.0), (1.0, 1.0, 1.0))
    z = make_state(p=p, v=v, s=(0.2, 0.2, 0.2)).double()
    assert float(block.gap(z)) == pytest.approx(gap, abs=1e-6)


def test_a_box_throws_back_along_the_face_that_was_hit():
    block = Box((1.0, -1.0, -1.0), (2.0, 1.0, 1.0))
    z = make_state(p=(0.85, 0.1, 0.0), v=(2.0, 0.5, 0.0), s=(0.2, 0.2, 0.2), e=0.5, mu=0.1)
    after = State(touch(z.double()[None], [block], floor.jump))
    assert after.v[0].tolist() == pytest.approx([-1.0, 0.45, 0.0], abs=1e-6)
    assert after.p[0].tolist() == pytest.approx([0.8, 0.1, 0.0], abs=1e-6)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Plane((0, 0, 0), 1), "must not be zero"),
        (lambda: Plane((0, float("nan"), 0), 1), "finite"),
        (lambda: Plane((0, 1), 1), "three numbers"),
        (lambda: Plane((0, 1, 0), float("inf")), "finite"),
        (lambda: Box((0, 0, 0), (1, -1, 1)), "y0 < y1"),
        (lambda: Simulation([]), "at least one object"),
        (lambda: Simulation([Body(make_state())]), "no shape"),
        (lambda: Simulation([Body(make_state(), Shape.ball(1))], engine="bullet"), "mujoco"),
        (lambda: Body(torch.zeros(2, 22)), "one object"),
        (lambda: Body(make_state(p=(0, float("nan"), 0))), "finite"),
        (lambda: Body(make_state(), Shape.ball(1), friction=-1), "friction"),
        (lambda: Shape.ball(0), "positive"),
        (lambda: Shape.box((1, 2)), "half edges"),
        (lambda: Shape.hull(np.zeros((0, 3))), r"\(N, 3\)"),
        (lambda: collider(template("red_cube").object, HERE, size=-1.0), "above zero"),
        (lambda: Track(torch.arange(3), torch.zeros(2, 22)), "a track"),
    ],
)
def test_bad_input_is_one_line(make, said):
    with pytest.raises(InputError, match=said) as error:
        make()
    assert "\n" not in str(error.value)


def test_the_simulation_refuses_what_makes_no_sense():
    simulation = Simulation([Body(make_state(p=(0, 1, 0)), Shape.ball(0.2))])
    for call, said in (
        (lambda: simulation.push(3, velocity=(0, 1, 0)), "no object 3"),
        (lambda: simulation.push(0, velocity=(0, 1)), "three"),
        (lambda: simulation.push(0, velocity="up"), "three numbers"),
        (lambda: simulation.run([]), "at least one"),
        (lambda: simulation.run([0.2, 0.1]), "increase"),
        (lambda: simulation.step(-1), "increase"),
        (lambda: simulation.step(float("nan")), "finite"),
    ):
        with pytest.raises(InputError, match=said):
            call()
    assert simulation.time == 0


def test_a_surface_of_ones_own_needs_the_papers_engine():
    class Ceiling:
        def gap(self, z):
            return torch.where(State(z).v[..., 1] > 0, 2 - State(z).p[..., 1], torch.inf)

        def jump(self, z, response):
            return newtongs.base.state.replace(z, v=-State(z).v)

    thing = Body(make_state(p=(0, 1, 0), v=(0, 6, 0), s=(0.2, 0.2, 0.2)), Shape.ball(0.2))
    around = Surroundings((FLOOR, Ceiling()))
    with pytest.raises(InputError, match="contact='paper'"):
        Simulation([thing], surroundings=around)
    z = Simulation([thing], surroundings=around, engine="paper").run(torch.arange(1, 40) / 24)
    assert State(z).p[..., 1].max() < 2.2


# --- the paper's engine --------------------------------------------------------------------------


@pytest.mark.parametrize("choice", ["learned", "structured", "analytic"])
@pytest.mark.parametrize("scale", ["rigid", "free"])
def test_the_papers_engine_is_the_rollout_bit_for_bit(choice, scale):
    model = choose(choice, scale)
    starts = some_states(5).float()
    times = torch.arange(49, dtype=torch.float64) / 24
    bodies = [Body(z) for z in starts]
    got = Simulation(bodies, model, engine="paper").run(times).transpose(0, 1)
    assert torch.equal(got, predictor(model)(starts, times))


def test_fast_paths_serve_exactly_their_type():
    class Other(GaussianNND):
        def field(self, z):
            return torch.zeros_like(z)

    z, times = some_states(4).float(), torch.arange(10) / 24
    held = predictor(Other(newtongs.NNDConfig(contact=False)))(z, times)
    assert torch.equal(held[:, -1], held[:, 0])
    with pytest.raises(InputError, match="Other"):
        rollout_cpu(Other(), z, times)
    assert backend(GaussianNND()) == "numba"
    assert backend(GaussianNND().double()) is None
    assert backend(Other()) is None


def test_engines_agree_on_what_can_be_set():
    for engine in ("mujoco", "paper"):
        simulation = Simulation([Body(make_state(p=(0, 1, 0)), Shape.ball(0.2))], engine=engine)
        simulation.set(0, make_state(p=(0, 2, 0), m=7.0, s=(0.9, 0.9, 0.9)))
        x = State(simulation.states[0])
        assert (float(x.p[1]), float(x.m), float(x.s[0])) == (2.0, 1.0, 1.0)
        simulation.states[0, 0] = 99  # a copy
        assert simulation.states[0, 0] == 0
    track = Track(torch.arange(2), make_state(p=torch.zeros(2, 3)))
    driven = Simulation([Body(make_state(), Shape.ball(0.2), track=track)])
    with pytest.raises(InputError, match="follows a track"):
        driven.push(0, velocity=(1, 0, 0))


def test_a_subclass_may_override_rates_or_field():
    class Still(GaussianNND):
        def rates(self, z):
            return torch.zeros_like(z)

    for engine in ("mujoco", "paper"):
        one = Body(make_state(p=(0, 3, 0), s=(0.2, 0.2, 0.2)), Shape.ball(0.2))
        simulation = Simulation([one], Still(), engine=engine)
        assert float(State(simulation.step(0.5)).p[0, 1]) == pytest.approx(3, abs=1e-3)


def test_any_model_can_be_rolled_out_and_searched():
    class Fall(Dynamics):
        def rates(self, z):
            dz = torch.zeros_like(z)
            State(dz).p.copy_(State(z).v)
            State(dz).v[..., 1] = -9.81
            return dz

    z0 = make_state(p=(0, 5, 0), v=(1, 0, 0), s=(0.2, 0.2, 0.2))[None]
    found = newtongs.dynamics.search.search(Fall(), "displace 1 0 0", base=z0[0], candidates=512)
    assert found.miss < 2
    path = State(predictor(Fall())(z0, torch.arange(13) / 24))
    assert path.p[0, -1].tolist() == pytest.approx([0.5, 5 - 0.5 * 9.81 * 0.25, 0], abs=1e-4)


# --- shapes --------------------------------------------------------------------------------------


def test_a_round_object_is_a_ball_and_a_cube_is_one_piece():
    ball = Shape.of_gaussians(template("desk_blue_sphere").object, HERE, np.zeros(3))
    assert ball.radius == pytest.approx(0.5, rel=0.05)
    assert ball.inertia[0, 0] == pytest.approx(0.4 * ball.radius**2)
    cube = Shape.of_gaussians(template("red_cube").object, HERE, np.zeros(3))
    assert len(cube.pieces) == 1
    assert cube.volume == pytest.approx(1, rel=0.12)
    assert cube.inertia[1, 1] == pytest.approx(1 / 6, rel=0.12)


def test_a_concave_object_is_cut_into_pieces_that_leave_its_hollow_free():
    g = np.random.default_rng(0)
    x = g.uniform(-0.5, 0.5, (60_000, 3)) * [1, 1, 0.6]
    x = x[(x[:, 0] < 0) | (x[:, 1] < 0)]
    thing = GaussianScene.make(means=x, scales=np.full(len(x), 0.012))
    shape = Shape.of_gaussians(thing, HERE, np.zeros(3))
    assert len(shape.pieces) > 1
    assert shape.volume == pytest.approx(0.75 * 0.6, rel=0.1)
    assert shape.center == pytest.approx([-1 / 12, -1 / 12, 0], abs=0.02)
    hull = Shape.hull(np.concatenate(shape.pieces))
    assert hull.volume > 1.1 * shape.volume


def test_a_sheet_of_paper_has_a_thickness_and_a_point_is_something():
    sheet = Shape.hull(np.array([[0, 0, 0], [1, 0, 0], [1, 0, 1], [0, 0, 1.0]]))
    assert sheet.volume == pytest.approx(0.02, rel=0.1)
    assert Shape.hull(np.zeros((1, 3))).volume > 0
    one = GaussianScene.make(means=torch.zeros(1, 3), scales=torch.full((1,), 0.1))
    assert Shape.of_gaussians(one, HERE, np.zeros(3)).size > 0.05


def test_hull_moments_are_those_of_the_solid():
    half = np.array([0.3, 0.1, 0.2])
    box, hull = Shape.box(half), Shape.hull(Shape.box(half).pieces[0] + [1, 2, 3])
    assert hull.center == pytest.approx([1, 2, 3], abs=1e-9)
    assert hull.inertia == pytest.approx(box.inertia, abs=1e-9)


def test_a_turned_shape_turns_its_inertia_and_its_lowest_point():
    q = rotations.from_axis_angle(
        torch.tensor([0.0, 0.0, 1.0]).double(), torch.tensor(0.5).double()
    )
    shape = Shape.box((0.3, 0.1, 0.2))
    turned_shape = shape.turned(q.numpy())
    body = Body(make_state(), shape)
    z = make_state(q=q.float(), p=(0, 2, 0))
    assert float(lowest(body, z)) == pytest.approx(2 + turned_shape.bounds[0][1], abs=1e-6)
    assert np.trace(turned_shape.inertia) == pytest.approx(np.trace(shape.inertia))


# --- bounce --------------------------------------------------------------------------------------


@pytest.mark.parametrize("e", [0.0, 0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("k", [1e5, 6e5])
def test_damping_gives_the_restitution_asked_for(e, k):
    b = damping(e, k, 1 / 3840)
    assert rebound(4.0, k, b, 1 / 3840) == pytest.approx(e, abs=0.01)


# --- colliders -----------------------------------------------------------------------------------


def sheet(size=2.0, y=0.0, n=8000, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = size * (torch.rand(n, 3, generator=g) - 0.5)
    x[:, 1] = y
    scales = torch.tensor([0.03, 0.003, 0.03]).expand(n, 3)
    return GaussianScene.make(means=x, scales=scales, opacities=torch.full((n,), 0.95))


def top_at(solid, x, z):
    inside = (
        (solid.boxes[:, 0, 0] <= x) & (x < solid.boxes[:, 1, 0])
        & (solid.boxes[:, 0, 2] <= z) & (z < solid.boxes[:, 1, 2])
    )  # fmt: skip
    return solid.boxes[inside, 1, 1].max() if inside.any() else -np.inf


@pytest.mark.parametrize("y", [0.0, 0.005, 0.4, 0.4123, -0.31])
def test_a_table_top_lies_where_it_is(y):
    """Even, without a hole, and right to 0.6 of a cell, which is 1/32 of the objects' size."""
    solid = collider(sheet(y=y), HERE, size=0.5)
    along = np.linspace(-0.9, 0.9, 30)
    tops = np.array([top_at(solid, x, z) for x in along for z in along])
    assert np.abs(tops - y).max() <= 0.61 * solid.cell
    assert np.ptp(tops) == 0
    assert top_at(solid, 1.2, 0) == -np.inf


def test_tufts_and_rims_are_taken_off_the_ground_but_a_block_stays():
    """Low and narrow is nothing to a large object; as wide or as high as a block is."""
    blade = sheet(size=0.04, n=200)
    blade = blade.replace(log_scales=blade.log_scales - math.log(4))
    tuft, rim = (moved(blade, shift=torch.tensor(p)) for p in ([0.5, 0.04, 0.5], [-0.5, 0.02, 0.5]))
    block = moved(sheet(size=0.3, n=2000), shift=torch.tensor([0.5, 0.04, -0.5]))
    post = join(*(
        moved(blade, shift=torch.tensor([-0.5, y, -0.5]))
        for y in np.arange(0.015, 0.2, 0.015)
    ))  # fmt: skip
    solid = collider(join(sheet(), tuft, rim, block, post), HERE, size=0.5)
    assert top_at(solid, 0.5, 0.5) == pytest.approx(0, abs=1e-9)
    assert top_at(solid, -0.5, 0.5) == pytest.approx(0, abs=1e-9)
    assert top_at(solid, 0.5, -0.5) == pytest.approx(0.04, abs=0.61 * solid.cell)
    assert top_at(solid, -0.5, -0.5) > 0.15


def test_the_floor_goes_as_far_as_it_is_seen():
    """Fine cells end twelve sizes from the object; coarse ones go on at the same height."""
    wide = GaussianScene.make(
        means=torch.cartesian_prod(torch.arange(-12, 12.1, 0.5), torch.zeros(1),
                                   torch.arange(-2, 2.1, 0.5)),
        scales=torch.tensor([0.4, 0.004, 0.4]).expand(441, 3),
    )  # fmt: skip
    solid = collider(wide, HERE, size=0.5, objects=[(Shape.ball(0.25), np.array([0, 0.25, 0]))])
    tops = [top_at(solid, x, 0.1) for x in np.arange(-11.5, 11.5, 0.07)]
    assert np.abs(tops).max() <= 1e-9
    assert len(solid.boxes) < 100


@pytest.mark.slow
def test_too_many_boxes_are_fewer_and_coarser_far_away(monkeypatch):
    from newtongs.physics import colliders

    g = torch.Generator().manual_seed(0)
    x = 10 * (torch.rand(20_000, 3, generator=g) - 0.5)
    x[:, 1] = 0.1 * torch.rand(20_000, generator=g)
    rubble = GaussianScene.make(means=x, scales=torch.full((20_000,), 0.06))
    thing = [(Shape.ball(0.25), np.array([0, 0.6, 0]))]
    many = collider(rubble, HERE, size=0.5, objects=thing)
    monkeypatch.setattr(colliders, "MOST_NEAR", len(many.boxes) // 2)
    few = collider(rubble, HERE, size=0.5, objects=thing)
    assert len(few.boxes) < len(many.boxes)
    at = [(a, b) for a in np.arange(-4, 4, 0.5) for b in np.arange(-4, 4, 0.5)]
    near = [(a, b) for a, b in at if abs(a) < 1 and abs(b) < 1]
    assert [top_at(few, *p) for p in near] == [top_at(many, *p) for p in near]
    ground = [np.isfinite([top_at(s, *p) for p in at]).mean() for s in (few, many)]
    assert ground[0] >= ground[1]  # nothing is left out, only coarser


def test_an_object_has_room_in_the_coarse_part_too(monkeypatch):
    """Else it would be thrown out of the boxes that it overlaps."""
    from newtongs.physics import colliders

    monkeypatch.setattr(colliders, "MOST_NEAR", 10)  # the fine part ends inside the object
    x = torch.rand(6000, 3, generator=torch.Generator().manual_seed(0)) - 0.5
    x[:, ::2] *= 4
    matter = GaussianScene.make(means=x, scales=torch.full((6000,), 0.05))
    ball, at = Shape.ball(0.25), np.array([0.0, 0.1, 0.0])
    solid = collider(matter, HERE, size=0.5, objects=[(ball, at)])
    inside = np.random.default_rng(0).normal(size=(500, 3))
    inside = at + 0.2 * inside / np.linalg.norm(inside, axis=1, keepdims=True)
    inside = inside[inside[:, 1] > 0]  # lower down is the ground on which it stands
    low, high = solid.boxes[:, 0], solid.boxes[:, 1]
    hit = ((inside[:, None] > low) & (inside[:, None] < high)).all(-1).any(1)
    assert len(solid.boxes) > 20
    assert not hit.any()


def test_haze_floaters_and_sky_are_not_solid():
    g = torch.Generator().manual_seed(1)
    haze = sheet(y=1.0).replace(logits=torch.full((8000,), -3.0))
    floater = GaussianScene.make(means=torch.tensor([[0.0, 0.7, 0.0]]), scales=torch.tensor([0.01]))
    sky = GaussianScene.make(
        means=torch.randn(50, 3, generator=g) + torch.tensor([0, 3.0, 0]),
        scales=torch.full((50,), 1.0),
    )
    solid = collider(join(sheet(), haze, floater, sky), HERE, size=0.5)
    assert solid.top < 0.1


def test_a_wall_of_wide_thin_gaussians_is_solid():
    g = torch.Generator().manual_seed(1)
    x = 2 * torch.rand(60, 3, generator=g) - 1
    x[:, 2] = -1.0
    wall = GaussianScene.make(means=x, scales=torch.tensor([0.3, 0.3, 0.01]).expand(60, 3))
    solid = collider(join(sheet(), wall), HERE, size=0.5)
    assert solid.top > 0.4


def test_an_object_has_room_and_ground_under_it():
    """What was left of it is taken away, and the hole that it hid is closed."""
    ground = sheet()
    hidden = (ground.means[:, [0, 2]].abs() < 0.2).all(-1)
    remains = moved(sheet(size=0.3, n=2000), shift=torch.tensor([0.0, 0.15, 0.0]))
    shape = Shape.box((0.25, 0.25, 0.25))
    p = np.array([0.0, 0.25, 0.0])
    bare = collider(join(ground[~hidden], remains), HERE, size=0.5)
    roomy = collider(join(ground[~hidden], remains), HERE, size=0.5, objects=[(shape, p)])
    assert top_at(bare, 0.0, 0.0) > 0.1
    assert top_at(roomy, 0.0, 0.0) == pytest.approx(0, abs=0.61 * roomy.cell)
    thing = Body(make_state(p=(0, 0.25, 0), s=(0.25, 0.25, 0.25)), shape)
    end = Simulation([thing], surroundings=Surroundings((), roomy.boxes)).run([1.0])[0, 0]
    assert (State(end).p - State(thing.z0).p).abs().max() < roomy.cell


@pytest.mark.parametrize("seed", range(4))
def test_merged_boxes_are_the_cells_and_nothing_twice(seed):
    filled = np.random.default_rng(seed).random((9, 7, 8)) < 0.6
    again = np.zeros(filled.shape, int)
    for low, high in merged(filled):
        again[tuple(map(slice, low, high))] += 1
    assert (again == filled).all()


def test_directions_and_units_of_the_scene_do_not_matter():
    q = torch.nn.functional.normalize(torch.tensor([0.3, 0.5, -0.2, 0.7]), dim=0)
    scene = sheet(y=0.1)
    there = moved(scene, turn=q, scale=40.0, shift=torch.tensor([3.0, -2.0, 1.0]))
    up = rotations.rotate(q.double(), torch.tensor([0.0, 1.0, 0.0]).double())
    height = float(up @ torch.tensor([3.0, -2.0, 1.0]).double())
    world = WorldFrame.of_floor(up, height, scale=1 / 40)
    solid = collider(there, world, size=0.5)
    assert solid.top == pytest.approx(0.1, abs=0.61 * solid.cell)


def test_optical_depth_of_one_gaussian():
    one = GaussianScene.make(
        means=torch.tensor([[0.05, 0.05, 0.05]]), scales=torch.tensor([[0.2, 0.1, 0.3]]),
        opacities=torch.tensor([0.8]),
    )  # fmt: skip
    grid = Grid.around(np.full(3, -0.4), np.full(3, 0.5), np.full(3, 0.1))
    depth = optical_depth(one, HERE, grid)
    assert depth[4, 4, 4] == pytest.approx(-math.log(1 - 0.8), rel=1e-4)
    d = 0.2**2 / (0.1**2 + 0.1**2 / 4)
    assert depth[4, 6, 4] == pytest.approx(-math.log(1 - 0.8 * math.exp(-d / 2)), rel=1e-3)
    found = density(one, HERE, grid)
    assert np.array_equal(found.depth, depth)
    assert found.height[4, 4, 4] / found.weight[4, 4, 4] == pytest.approx(0.5, abs=1e-3)


# --- the command ---------------------------------------------------------------------------------


def read_glb(path):
    """JSON tree, vertices and triangles, by another reader than the writer's."""
    data = path.read_bytes()
    assert data[:4] == b"glTF"
    (length,) = struct.unpack("<I", data[12:16])
    tree, rest = json.loads(data[20 : 20 + length]), data[28 + length :]
    views = tree["bufferViews"]
    part = [rest[v["byteOffset"] : v["byteOffset"] + v["byteLength"]] for v in views]
    return tree, np.frombuffer(part[0], "<f4").reshape(-1, 3), np.frombuffer(part[1], "<u4")


@pytest.mark.slow
def test_collider_command_writes_the_boxes(tmp_path, capsys):
    cli.main(["collider", "desk_blue_sphere", "--select", "id:0", "--out", str(tmp_path / "c.glb")])
    said = capsys.readouterr().out
    tree, x, faces = read_glb(tmp_path / "c.glb")
    assert (tmp_path / "c.png").read_bytes()[1:4] == b"PNG"
    assert tree["accessors"][0]["count"] == len(x)
    a, b, c = x[faces].reshape(-1, 3, 3).transpose(1, 0, 2)
    volume = (a * np.cross(b, c)).sum() / 6  # positive: seen from outside, anticlockwise
    animation = newtongs.animate("desk_blue_sphere", seconds=0.1)
    assert f"{animation.about.solid_boxes:,} boxes" in said
    assert len(x) == 8 * animation.about.solid_boxes
    low, high = x.reshape(-1, 8, 3).min(1), x.reshape(-1, 8, 3).max(1)
    assert volume == pytest.approx((high - low).prod(-1).sum(), rel=1e-3)
    assert x[:, 1].max() > -0.01


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "SCENE.ply"),
        (["sunny_prak"], "sunny_park"),
        (["sunny_park", "--out", "c.obj"], ".glb"),
        (["sunny_park", "--cell", "0"], "above 0"),
        (["sunny_park", "--select", "id:9"], "no object with id 9"),
    ],
)
def test_collider_command_refuses_in_one_line(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        cli.main(["collider", *words])
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("height", [0, 1e-9])
def test_a_shape_without_volume_is_one_line(height):
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 1], [0, height, 0]])
    flat = Shape((1e-3 * corners,), np.zeros(3), np.eye(3) / 6)
    body = Body(make_state(p=(0, 1.0, 0), s=(0.2, 0.2, 0.2)), flat)
    with pytest.raises(InputError, match="MuJoCo cannot simulate these shapes") as caught:
        Simulation([body])
    assert "\n" not in str(caught.value)
