"""Laws that the world must obey: bouncing, sliding, rolling, toppling, momentum, energy, rest.

Tolerances are derived where they can be: contacts are springs stepped at 3840 Hz, so that a law of
ideal impacts is met up to the depth of the contact and the length of a tick.
"""

import math

import numpy as np
import pytest
import torch

from newtongs.base import rotations
from newtongs.base.state import State, make
from newtongs.dynamics import FLOOR, Dynamics, Plane
from newtongs.dynamics.variants import choose
from newtongs.physics import Body, Shape, Simulation, Surroundings, Track
from newtongs.physics.bodies import lowest
from newtongs.physics.colliders import merged

G = 9.81


class Vacuum(Dynamics):
    """Gravity and nothing else."""

    gravity = G

    def __init__(self, gravity=G):
        self.gravity = gravity

    def rates(self, z):
        dz = torch.zeros_like(z)
        State(dz).v[..., 1] = -self.gravity
        return dz


def body(shape, *, p=(0.0, 0.0, 0.0), v=(0.0, 0.0, 0.0), w=(0.0, 0.0, 0.0), q=None, e=0.3, m=1.0,
         **options):  # fmt: skip
    z = make(p=p, v=v, w=w, s=(0.25, 0.25, 0.25), e=e, m=m, mu=0.2)
    if q is not None:
        State(z).q.copy_(torch.as_tensor(q, dtype=torch.float32))
        shape = shape.turned(np.asarray(q, float))
    return Body(z, shape, **options)


def tiles():
    """A floor merged from cells, with steps in it away from the middle: no box is large."""
    filled = np.zeros((24, 3, 24), bool)
    filled[:, :2] = True
    filled[::5, 2, ::7] = True
    filled[6:18, 2, 6:18] = False
    filled[9:12, 0, 11:14] = False
    return Surroundings((), np.array([-1.8, -0.3, -1.8]) + 0.15 * merged(filled))


GROUNDS = {"plane": Surroundings((FLOOR,)), "boxes": tiles()}
SHAPES = {
    "box": Shape.box((0.25, 0.2, 0.3)),
    "ball": Shape.ball(0.25),
    "wedge": Shape.hull(
        np.array([[-0.3, -0.2, -0.2], [0.3, -0.2, -0.2], [0.3, -0.2, 0.2], [-0.3, -0.2, 0.2],
                  [-0.1, 0.25, 0.0], [0.15, 0.25, 0.05]])
    ),
}  # fmt: skip


def bounce(shape, e, drop, ground, gravity=G):
    """Restitution of the first bounce, and the greatest depth."""
    foot = -shape.bounds[0][1]
    one = body(shape, p=(0.02, drop + foot, 0.03), e=e)
    times = torch.arange(1, 3 * 960) / 960
    z = Simulation([one], Vacuum(gravity), ground).run(times)[:, 0]
    height, v = lowest(one, z), State(z).v[:, 1]
    hit = int((height <= 0).nonzero()[0])
    gone = ((height > 0) & (v > 0)).nonzero().squeeze(-1)
    gone = gone[gone > hit]
    if not len(gone):
        return 0.0, -float(height.min())
    up = (v[gone[0]] ** 2 + 2 * gravity * height[gone[0]]).sqrt()
    return float(up) / math.sqrt(2 * gravity * drop), -float(height.min())


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("e", [0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95])
def test_restitution(e, ground):
    for drop in (0.4, 0.8, 1.6):
        assert bounce(SHAPES["box"], e, drop, GROUNDS[ground])[0] == pytest.approx(e, abs=0.02)


@pytest.mark.parametrize("gravity", [1.62, 24.8, 100.0])
@pytest.mark.parametrize("e", [0.1, 0.5, 0.95])
def test_restitution_under_another_gravity(e, gravity):
    drop = 4.0**2 / (2 * gravity)  # the speed at which restitution is exact
    got, _ = bounce(SHAPES["box"], e, drop, GROUNDS["plane"], gravity)
    assert got == pytest.approx(e, abs=0.02)


@pytest.mark.parametrize("gravity", [0.0, 1.62, 24.8])
@pytest.mark.parametrize("engine", ["mujoco", "paper"])
def test_flight_under_another_gravity(engine, gravity):
    """Up to the drag: 5 % of the speed a second, for an object of mass 1."""
    one = body(SHAPES["box"], p=(0, 2, 0), v=(1.0, 0.5, 0))
    model = choose("analytic", "rigid", gravity=gravity)
    t = torch.arange(9, dtype=torch.float64) / 24
    p = State(Simulation([one], model, engine=engine).run(t)[:, 0]).p.double()
    wanted = torch.stack([t, 2 + 0.5 * t - gravity * t**2 / 2, 0 * t], -1)
    drag = 0.05 * (t**2 / 2 + gravity * t**3 / 6)
    tick = gravity * t / (2 * 3840)  # MuJoCo's ticks update velocities first
    assert ((p - wanted).abs() <= (drag + tick).unsqueeze(-1) + 1e-5).all()
    same = model.rollout(one.z0, t)
    assert torch.allclose(State(same).p.double(), p, atol=2e-3)


def test_nothing_falls_without_gravity():
    boxes = [body(SHAPES["box"], p=(0.6 * k, 1.0, 0)) for k in range(2)]
    simulation = Simulation(boxes, choose("analytic", "rigid", gravity=0.0))
    start = simulation.states
    assert torch.equal(simulation.run([2.0])[0], start)
    simulation.push(0, velocity=(2.0, 0, 0))
    z = simulation.run([3.0])[0]
    assert State(z).p[1, 0] > 1.0  # pushed on
    assert momentum(z, State(z).m)[1].abs() < 1e-9


@pytest.mark.parametrize("e", [0.1, 0.35, 0.65, 0.95])
def test_restitution_of_a_ball(e):
    for drop in (0.4, 0.8, 1.6):
        assert bounce(SHAPES["ball"], e, drop, GROUNDS["plane"])[0] == pytest.approx(e, abs=0.02)


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("e", [0.0, 0.5, 0.95])
def test_nothing_sinks_in(shape, e, ground):
    """At 4 units a second: a spring of stiffness k gives way by at most v / sqrt(k), 2.5 %."""
    drop = 4.0**2 / (2 * G)
    depth = bounce(SHAPES[shape], e, drop, GROUNDS[ground])[1]
    assert depth < 0.03 * SHAPES[shape].size


@pytest.mark.parametrize("mu", [0.2, 0.4, 0.7])
@pytest.mark.parametrize("ground", GROUNDS)
def test_sliding_distance(mu, ground):
    v = 1.6
    flat = Shape.box((0.3, 0.06, 0.3))
    one = body(flat, p=(-0.5, 0.06, 0.0), v=(v, 0, 0), friction=mu, e=0.0)
    z = Simulation([one], Vacuum(), GROUNDS[ground]).run([3.0])[0, 0]
    assert float(State(z).p[0] + 0.5) == pytest.approx(v**2 / (2 * mu * G), rel=0.03)
    assert State(z).v.abs().max() == 0


@pytest.mark.parametrize("mu", [0.15, 0.4])
def test_a_sliding_ball_begins_to_roll_at_five_sevenths_of_its_speed(mu):
    v = 3.0
    one = body(Shape.ball(0.25), p=(0, 0.25, 0), v=(v, 0, 0), friction=mu, rolling=0.0, e=0.0)
    z = Simulation([one], Vacuum()).run(torch.arange(1, 480) / 240)[:, 0]
    spin = rotations.rotate(State(z).q, State(z).w)[:, 2]
    slip = (State(z).v[:, 0] + 0.25 * spin) / v
    rolls = int((slip < 0.01).nonzero()[0])
    assert float(State(z).v[rolls, 0]) == pytest.approx(5 / 7 * v, rel=0.05)
    assert float(State(z).v[-1, 0]) == pytest.approx(5 / 7 * v, rel=0.05)  # and goes on


def test_rolling_resistance_stops_a_ball():
    one = body(Shape.ball(0.25), p=(0, 0.25, 0), v=(0.5, 0, 0), e=0.0)
    simulation = Simulation([one])
    simulation.run([20.0])
    assert simulation.asleep.all()


def on_ramp(angle, friction):
    """A tall box at rest on a ramp that rises along x, turned with it."""
    turn = rotations.from_axis_angle(torch.tensor([0.0, 0.0, 1.0]).double(), torch.tensor(angle))
    normal = (-math.sin(angle), math.cos(angle), 0.0)
    half = (0.1, 0.3, 0.1)
    at = [0.3 * n for n in normal]
    one = body(Shape.box(half), p=at, q=turn.numpy(), friction=friction, e=0.0)
    return Simulation([one], Vacuum(), Surroundings((Plane(normal, 0.0),))), normal


@pytest.mark.parametrize(
    ("degrees", "falls"), [(-2.0, False), (-0.2, False), (0.2, True), (2.0, True)]
)
def test_a_box_topples_on_a_ramp_beyond_its_angle_and_not_before(degrees, falls):
    critical = math.atan(0.1 / 0.3)
    simulation, normal = on_ramp(critical + math.radians(degrees), friction=2.0)
    z = simulation.run([3.0])[0, 0]
    up = rotations.rotate(State(z).q, torch.tensor([0.0, 1.0, 0.0]).double())
    tilt = math.degrees(math.acos(min(float(up @ torch.tensor(normal).double()), 1.0)))
    assert (tilt > 30) == falls


@pytest.mark.parametrize(("degrees", "slides"), [(-1.5, False), (1.5, True)])
def test_a_box_slides_down_a_ramp_beyond_the_angle_of_friction(degrees, slides):
    mu = 0.2
    simulation, _ = on_ramp(math.atan(mu) + math.radians(degrees), friction=mu)
    z = simulation.run([2.0])[0, 0]
    assert (float(State(z).p[0]) < -0.2) == slides


def momentum(z, masses):
    return (State(z).v * masses).sum(-2)


@pytest.mark.parametrize("seed", range(6))
def test_momentum_and_energy_of_a_free_pair(seed):
    """In free fall, where gravity is known: the total momentum stays, and energy never grows."""
    g = torch.Generator().manual_seed(seed)
    shapes = [SHAPES["box"], SHAPES["wedge"]]
    quats = torch.nn.functional.normalize(torch.randn(2, 4, generator=g), dim=-1)
    masses = torch.tensor([[1.0], [0.4 + 2 * torch.rand(1, generator=g).item()]]).double()
    pair = [
        body(s, p=(x, 0.02 * x, 0.03), v=(-3 * x, 0.1, 0), w=(1.0, -2.0, 0.5), q=q.numpy(),
             e=0.8, m=float(m))
        for s, x, q, m in zip(shapes, (-0.7, 0.7), quats, masses, strict=True)
    ]  # fmt: skip
    simulation = Simulation(pair, Vacuum(), Surroundings(()))
    times = torch.arange(1, 241) / 240
    z = simulation.run(times)
    centers = centre_velocities(z, pair)
    total = (centers * masses).sum(-2)
    start = (
        centre_velocities(torch.stack([b.z0 for b in pair]).double()[None], pair) * masses
    ).sum(-2)
    fall = torch.zeros(len(times), 3).double()
    fall[:, 1] = -G * times * masses.sum()
    moving = (masses * centers.norm(dim=-1, keepdim=True)).max()
    assert (total - start - fall).abs().max() < 1e-3 * moving
    kinetic = energy(z, pair, masses)
    drift = (total / masses.sum()) ** 2
    inner = kinetic - 0.5 * masses.sum() * drift.sum(-1)  # what is not the common fall
    assert inner[-1] < 0.99 * inner[0]  # they did meet
    assert (inner <= 1.01 * inner[0]).all()


def centre_velocities(z, bodies):
    """Velocities ``(T, K, 3)`` of the centres of mass."""
    out = []
    for k, one in enumerate(bodies):
        x = State(z[:, k].double())
        first = rotations.conjugate(State(one.z0.double()).q).expand_as(x.q)
        arm = rotations.rotate(
            rotations.multiply(x.q, first), torch.from_numpy(one.shape.center).expand_as(x.v)
        )
        spin = rotations.rotate(x.q, x.w)
        out.append(x.v + torch.linalg.cross(spin, arm))
    return torch.stack(out, 1)


def energy(z, bodies, masses):
    """Kinetic energy ``(T,)``."""
    v = centre_velocities(z, bodies)
    total = 0.5 * (masses * v.square()).sum((-1, -2))
    for k, one in enumerate(bodies):
        x = State(z[:, k].double())
        first = State(one.z0.double()).q
        inertia = torch.from_numpy(one.shape.turned(rotations.conjugate(first).numpy()).inertia)
        total = total + 0.5 * masses[k] * torch.einsum("ti,ij,tj->t", x.w, inertia, x.w)
    return total


@pytest.mark.parametrize("shape", SHAPES)
def test_no_bounce_adds_energy(shape):
    q = np.array([0.8, 0.3, -0.4, 0.33])
    one = body(SHAPES[shape], p=(0, 1.0, 0), w=(3, 1, -2), q=q / np.linalg.norm(q), e=0.95,
               friction=0.6)  # fmt: skip
    z = Simulation([one], Vacuum()).run(torch.arange(1, 4 * 240) / 240)
    m = torch.ones(1, 1).double()
    first = State(one.z0.double()).q
    x = State(z[:, 0])
    turn = rotations.multiply(x.q, rotations.conjugate(first).expand_as(x.q))
    height = (
        x.p[:, 1] + rotations.rotate(turn, torch.from_numpy(one.shape.center).expand_as(x.p))[:, 1]
    )
    total = energy(z, [one], m) + G * height
    free = lowest(one, z[:, 0]) > 0
    free[1:] &= free[:-1].clone()  # what was gained is taken back within 1/480 s
    flying = total[free]
    assert free.sum() > 100
    best = torch.cummin(flying, 0).values
    assert (flying <= 1.01 * best).all()


def stack(n, half=0.2, **options):
    return [
        body(
            Shape.box((half, half, half)),
            p=(0.003 * i, half * (2 * i + 1) + 0.002 * i, 0),
            e=0.2,
            **options,
        )
        for i in range(n)
    ]


def test_a_stack_of_five_stays_for_ten_seconds():
    simulation = Simulation(stack(5))
    settled = simulation.run([1.0])[0]
    after = simulation.run([11.0])[0]
    assert (State(after).p - State(settled).p).abs().max() < 0.002
    assert State(after).p[:, 1].tolist() == pytest.approx(
        [0.2 + 0.4 * i for i in range(5)], abs=0.01
    )


def random_pile(seed, n=4):
    g = np.random.default_rng(seed)
    kinds, out = list(SHAPES.values()), []
    for i in range(n):
        q = g.normal(size=4)
        size = g.uniform(0.5, 1.3)
        shape = kinds[g.integers(len(kinds))]
        shape = Shape(
            tuple(size * x for x in shape.pieces), size * shape.center, size**2 * shape.inertia,
            None if shape.radius is None else size * shape.radius,
        )  # fmt: skip
        at = (g.uniform(-0.25, 0.25), 0.45 + 0.6 * i, g.uniform(-0.25, 0.25))
        out.append(
            body(shape, p=at, v=g.uniform(-2, 2, 3), w=g.uniform(-6, 6, 3),
                 q=q / np.linalg.norm(q), e=g.uniform(0, 0.9), m=g.uniform(0.3, 3))
        )  # fmt: skip
    return out


def test_everything_comes_to_rest_and_what_rests_stays_bit_for_bit():
    for seed in range(4):
        simulation = Simulation(random_pile(seed, 5), surroundings=GROUNDS["plane"])
        simulation.run([30.0])  # a ball rolls for long
        assert simulation.asleep.all(), seed
        at_rest = simulation.states
        assert (State(at_rest).v == 0).all()
        assert torch.equal(simulation.run([33.0])[0], at_rest)


@pytest.mark.parametrize(
    "piles",
    [pytest.param(20, marks=pytest.mark.slow), pytest.param(200, marks=pytest.mark.long)],
)
def test_nothing_leaves_the_world_in_random_piles(piles):
    ground = Surroundings((Plane((0.0, 1.0, 0.0), -0.6),), tiles().solids)
    for seed in range(piles):
        bodies = random_pile(1000 + seed, 3)
        z = Simulation(bodies, surroundings=ground).run([0.7, 1.4])
        for k, one in enumerate(bodies):
            assert State(z[:, k]).p.abs().max() < 8, seed
            assert lowest(one, z[:, k]).min() > -0.6 - 0.06 * one.shape.size, seed


@pytest.mark.parametrize("engine", ["mujoco", "paper"])
def test_stepping_in_any_division_gives_the_same_bits(engine):
    times = torch.arange(1, 50, dtype=torch.float64) / 24
    pile = random_pile(3, 3)
    whole = Simulation(pile, engine=engine).run(times)
    for calls in (2, 7, 49):
        simulation = Simulation(pile, engine=engine)
        parts = [simulation.run(part) for part in times.tensor_split(calls)]
        assert torch.equal(torch.cat(parts), whole)


@pytest.mark.parametrize("engine", ["mujoco", "paper"])
def test_snapshot_and_restore(engine):
    simulation = Simulation(random_pile(5, 3), engine=engine)
    simulation.run([0.21])
    moment = simulation.snapshot()
    first = simulation.run([0.5, 1.0, 2.5])
    simulation.push(0, velocity=(3, 3, 3))
    simulation.run([3.0])
    for _ in range(2):
        simulation.restore(moment)
        assert simulation.time == 0.21
        assert torch.equal(simulation.run([0.5, 1.0, 2.5]), first)


def test_a_push_wakes_what_sleeps_and_what_it_hits():
    pair = [body(SHAPES["box"], p=(x, 0.2, 0)) for x in (0.0, 1.0)]
    simulation = Simulation(pair)
    simulation.run([2.0])
    assert simulation.asleep.all()
    simulation.push(0, velocity=(4, 0, 0))
    simulation.step(0.3)
    assert not simulation.asleep.any()
    assert (State(simulation.states).v[:, 0] > 0.2).any()
    simulation.push(1, impulse=(0, 5, 0), spin=(0, 9, 0))
    assert float(State(simulation.states).v[1, 1]) == pytest.approx(5, abs=0.5)
    assert float(State(simulation.states).w[1, 1]) == pytest.approx(9, abs=0.5)


def test_what_starts_asleep_stays_until_it_is_hit():
    """Also where it stands askew, so that it would fall at once if it were awake."""
    q = np.array([0.95, 0.2, 0.1, 0.2])
    askew = body(SHAPES["box"], p=(1.0, 0.5, 0), q=q / np.linalg.norm(q), asleep=True)
    ball = body(SHAPES["ball"], p=(-1.0, 0.5, 0.0), v=(3.0, 2.0, 0), friction=0.1)
    simulation = Simulation([ball, askew])
    start = simulation.states[1]
    assert torch.equal(simulation.run([0.3])[0, 1], start)
    assert not torch.equal(simulation.run([1.2])[0, 1], start)


@pytest.mark.filterwarnings("error")  # MuJoCo has a sentence about it, which means nothing to users
def test_what_should_sleep_but_touches_what_moves_starts_awake():
    row = [body(SHAPES["box"], p=(0.49 * k, 0.2, 0), asleep=k > 0) for k in range(3)]
    away = body(SHAPES["box"], p=(4.0, 0.7, 0), asleep=True)
    simulation = Simulation([*row, away])
    assert simulation.asleep.tolist() == [False, False, False, True]
    start = State(simulation.states).p
    z = simulation.run([1.0])[0]
    assert (State(z).p - start).abs().amax() < 0.02  # pushed apart by what they overlapped


def test_what_is_hit_in_its_sleep_moves_on():
    """Momentum that a sleeping stack of boxes is given is not lost."""
    heavy = body(Shape.ball(0.3), p=(-1.0, 0.3, 0), m=3.0, e=0.4, friction=0.0)
    simulation = Simulation([heavy, *stack(3, friction=0.0)], Vacuum())
    simulation.run([1.0])
    assert simulation.asleep.all()
    simulation.push(0, velocity=(6, 0, 0))
    for _ in range(40):
        z = simulation.step(1 / 120)
        # Without friction nothing takes momentum along the floor.
        assert float(momentum(z, State(z).m)[0]) == pytest.approx(18.0, rel=1e-3)
    assert (State(z).v[1:, 0] > 0.1).any()


def paddle(speed=2.0):
    """A driven block that moves along x, and turns."""
    t = torch.arange(40) / 24
    turn = rotations.from_axis_angle(torch.tensor([0.0, 1.0, 0.0]).expand(40, 3), 0.4 * t)
    p = torch.stack([-1.5 + speed * t, torch.full_like(t, 0.25), torch.zeros_like(t)], -1)
    states = make(p=p, q=turn, s=(0.25, 0.25, 0.25))
    return Body(states[0], SHAPES["box"], track=Track(t, states))


def test_a_driven_body_follows_its_track_and_pushes():
    driven, free = paddle(), body(SHAPES["box"], p=(0, 0.2, 0), friction=0.2)
    z = Simulation([driven, free]).run(torch.arange(1, 37) / 24)
    for k, t in enumerate(torch.arange(1, 37) / 24):
        wanted = State(driven.track.at(float(t)))
        assert torch.allclose(State(z[k, 0]).p, wanted.p, atol=1e-6)
        assert rotations.discrepancy(State(z[k, 0]).q, wanted.q) < 1e-6
    assert State(z[-1, 1]).p[0] > State(z[-1, 0]).p[0]
    assert State(z[-1, 1]).p[0] > 1.0


@pytest.mark.parametrize("model", [None, Vacuum()])
def test_driven_bodies_and_pushes_do_not_depend_on_the_division_either(model):
    """One frame against many, with a track, and with a push of what sleeps."""
    bodies = [paddle(), *(body(SHAPES["box"], p=(0.1 + 0.7 * i, 0.2, 0)) for i in range(2))]
    ends = []
    for frames in (1, 24, 90, 1500):
        simulation = Simulation(bodies, model)
        ends.append(simulation.run((torch.arange(frames) + 1) * 1.5 / frames)[-1])
    assert all(torch.equal(end, ends[0]) for end in ends)
    ends = []
    for frames in (1, 777, 1000):
        simulation = Simulation(bodies[1:], model)
        simulation.run((torch.arange(frames) + 1) * 2.0 / frames)
        simulation.push(0, velocity=(2, 0, 0))
        ends.append(simulation.run(2 + (torch.arange(frames) + 1) * 1.0 / frames)[-1])
    assert all(torch.equal(end, ends[0]) for end in ends)


class Wind(Dynamics):
    """Gravity, and three units of acceleration along x."""

    def rates(self, z):
        dz = Vacuum().rates(z)
        State(dz).v[..., 0] = 3.0
        return dz


def test_the_models_own_forces_are_not_taken_for_a_gain_of_contacts():
    one = body(Shape.box((0.2, 0.2, 0.2)), p=(0, 0.2, 0), friction=0.0)
    z = Simulation([one], Wind()).run(torch.arange(1, 241) / 120)[:, 0]
    assert State(z).v[:, 0].tolist() == pytest.approx(
        (3 * torch.arange(1, 241) / 120).tolist(), rel=0.02
    )


def test_what_a_push_gave_is_kept_over_an_edge():
    """A box that was hit slides off a table: it keeps its speed when it loses the ground."""
    table = Surroundings(
        (Plane((0.0, 1.0, 0.0), -2.0),), np.array([[[-2, -0.2, -1], [0.8, 0.0, 1]]])
    )
    ball = body(SHAPES["ball"], p=(-1.2, 0.25, 0), m=2.0, friction=0.0)
    box = body(SHAPES["box"], p=(-0.3, 0.2, 0), e=0.0, friction=0.0)
    simulation = Simulation([ball, box], Vacuum(), table)
    simulation.run([0.5])
    simulation.push(0, velocity=(2, 0, 0))
    z = simulation.run(0.5 + torch.arange(1, 241) / 120)[:, 1]
    fast = State(z).v[:, 0]
    hit = int((fast > 0.5).nonzero()[0]) + 3
    falling = State(z).p[:, 1] > -1.5
    assert fast[hit:][falling[hit:]].min() > 0.9 * fast[hit]


def test_bystanders_do_not_pay_for_a_driven_body():
    boxes = [body(SHAPES["box"], p=(0.55 * i, 0.2, 0), e=0.6, friction=0.1) for i in range(3)]
    z = Simulation([paddle(4.0), *boxes], Vacuum()).run(torch.arange(1, 240) / 240)
    speed = State(z).v[:, 1:, 0]
    drop = speed[:-1] - speed[1:]
    free = State(z).p[1:, 1:, 0] > State(z).p[1:, :1, 0] + 0.9  # far from the paddle
    assert speed.max() > 2
    assert drop[free].max() < 0.5 * speed.max()


def test_what_starts_a_little_in_the_ground_does_not_hop():
    for name, ground in GROUNDS.items():
        for sunk in (0.002, 0.004, 0.006):
            one = body(Shape.box((0.25, 0.25, 0.25)), p=(0, 0.25 - sunk, 0), e=0.6)
            z = Simulation([one], Vacuum(), ground).run(torch.arange(1, 60) / 120)[:, 0]
            assert State(z).p[:, 1].max() < 0.25 + 0.002, (name, sunk)


@pytest.mark.parametrize(("small", "large"), [(0.9, 0.3), (0.3, 0.9), (0.6, 0.6)])
def test_the_less_bouncy_of_two_decides_whatever_their_sizes(small, large):
    block = body(Shape.box((0.5, 0.5, 0.5)), p=(0, 0.5, 0), e=large, m=1e4)
    ball = body(Shape.ball(0.1), p=(0, 1.1 + 0.8, 0), e=small, m=1.0)
    z = Simulation([block, ball], Vacuum()).run(torch.arange(1, 961) / 960)[:, 1]
    height, v = lowest(ball, z) - 1.0, State(z).v[:, 1]
    hit = int((height <= 0).nonzero()[0])
    gone = ((height > 0) & (v > 0)).nonzero().squeeze(-1)
    out = int(gone[gone > hit][0])
    up = float((v[out] ** 2 + 2 * G * height[out]).sqrt())
    assert up / math.sqrt(2 * G * 0.8) == pytest.approx(min(small, large), abs=0.03)
