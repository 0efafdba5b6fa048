"""Recorded contacts: momentum is accounted for, and recording changes nothing."""

import numpy as np
import pytest
import torch

from newtongs.base.errors import InputError
from newtongs.base.state import State, make
from newtongs.factory.casts import PHYSICS, make_cast, movable_objects
from newtongs.factory.contacts import floor_contacts
from newtongs.factory.spec import Spec
from newtongs.physics import Body, Shape, Simulation
from newtongs.physics.contacts import SCENE, Contacts
from newtongs.physics.mujoco_engine import TICKS
from newtongs.pipeline.run import frame_times
from newtongs.pipeline.source import floor_of, open_source
from newtongs.pipeline.spec import ObjectSpec

G = 9.81


def ball(**state):
    return Body(make(s=(0.2, 0.2, 0.2), **state), Shape.ball(0.2))


@pytest.fixture(scope="module")
def bowling():
    place = open_source("bowling")
    spec = Spec("test", ("bowling",))
    floor = floor_of(place)
    masks, _ = movable_objects(spec, place, floor)
    cast = make_cast(place, floor, PHYSICS["world"], ["id:0"], spec, "all", masks)
    push = ObjectSpec(velocity=(5.0, 1.0, 0.3), spin=(1.0, 2.0, -10.0), restitution=0.6, mass=2.0)
    setup = cast.setup.with_objects([push])
    return setup.bodies, setup.fixed.surroundings


def followed(bodies, around, times):
    """Frame by frame: states, momenta, sleepers, impulses of applied forces, and contacts."""
    simulation = Simulation(bodies, PHYSICS["world"].model, around, record=True)
    engine = simulation._engine
    applied, note = [np.zeros((len(bodies), 3))], engine.recorder.note

    def counted(data, tick):
        applied[-1] = applied[-1] + data.xfrc_applied[1:, :3] / TICKS
        note(data, tick)

    engine.recorder.note = counted
    states, momenta, asleep = [], [engine.guard.momenta(engine.data)], [simulation.asleep]
    for time in times[1:]:
        states.append(simulation.run([time])[0])
        momenta.append(engine.guard.momenta(engine.data))
        asleep.append(simulation.asleep)
        applied.append(np.zeros((len(bodies), 3)))
    awake = ~torch.stack(asleep).numpy()
    return (
        torch.stack(states), np.diff(momenta, axis=0), awake[1:] & awake[:-1],
        np.array(applied[:-1]), engine.guard.mass, simulation.contacts,
    )  # fmt: skip


def impulses(contacts, frames, bodies):
    """Sum ``(T, K, 3)`` of what each body was given in each frame."""
    out = np.zeros((frames, bodies, 3))
    np.add.at(out, (contacts.frame, contacts.second), contacts.impulse)
    among = contacts.first != SCENE
    np.add.at(out, (contacts.frame[among], contacts.first[among]), -contacts.impulse[among])
    return out


def test_impulses_are_the_change_of_momentum_and_states_stay_as_they_are(bowling):
    bodies, around = bowling
    times = frame_times(2.0, 24.0)
    states, change, awake, applied, mass, found = followed(bodies, around, times)
    plain = Simulation(bodies, PHYSICS["world"].model, around).run(times)
    assert torch.equal(states, plain[1:])
    ticks = np.diff([round(float(t) * TICKS) for t in times]) / TICKS
    weight = mass[None, :, None] * np.array([0.0, -G, 0.0]) * ticks[:, None, None]
    given = impulses(found, len(times) - 1, len(bodies))
    off = np.linalg.norm(change - weight - applied - given, axis=-1)
    size = np.linalg.norm(given, axis=-1)
    counted = awake & (size > 0.05 * np.linalg.norm(weight, axis=-1))  # a graze is no impact
    assert counted.sum() > 100
    assert (off[counted] / size[counted]).max() < 0.01
    assert (found.first >= 0).sum() > 20


def test_a_ball_that_bounces_is_pushed_up_where_it_touches():
    simulation = Simulation([ball(p=(0.3, 1.0, -0.2), v=(0.0, 0.0, 0.0), e=0.5)], record=True)
    simulation.run(frame_times(0.6, 50.0))
    found = simulation.contacts
    assert (found.first == SCENE).all()
    assert (found.second == 0).all()
    np.testing.assert_allclose(found.normal, [[0, 1, 0]] * len(found.frame), atol=1e-9)
    np.testing.assert_allclose(found.point[:, [0, 2]], [[0.3, -0.2]] * len(found.frame), atol=1e-3)
    speed = np.sqrt(2 * G * 0.8)
    np.testing.assert_allclose(found.impulse[:, 1].sum(), 1.5 * speed, rtol=0.05)
    np.testing.assert_allclose(found.start[0], np.sqrt(2 * 0.8 / G), atol=0.01)


def test_two_balls_give_each_other_what_they_take():
    left, right = ball(p=(-0.5, 2.0, 0.0), v=(2.0, 0.0, 0.0)), ball(p=(0.5, 2.0, 0.0))
    simulation = Simulation([left, right], record=True)
    simulation.run(frame_times(0.4, 100.0))
    found = simulation.contacts
    among = (found.first == 0) & (found.second == 1)
    assert among.any()
    np.testing.assert_allclose(found.normal[among][:, 0], 1.0, atol=0.05)
    v = State(simulation.states).v[1, 0]
    np.testing.assert_allclose(found.impulse[among][:, 0].sum(), float(v), rtol=0.02)


def test_the_papers_floor_gives_what_its_event_gives():
    model = PHYSICS["paper"].model
    body = Body(make(p=(0, 1.0, 0), s=(0.3, 0.3, 0.3), v=(1.0, -2.0, 0.5), e=0.75, mu=0.2))
    times = frame_times(1.0, 24.0)
    simulation = Simulation([body], model, engine="paper")
    found = floor_contacts(model, [body], simulation.surroundings.surfaces, times)
    assert len(found.frame) >= 1
    assert (found.impulse[:, 1] > 0).all()
    # Along the floor the event takes a fifth of what there is: against the motion.
    assert (found.impulse[:, 0] < 0).all()
    path = simulation.run(times)[:, 0]
    frame = int(found.frame[0])
    jump = (State(path[frame + 1]).v - State(path[frame]).v)[1]
    np.testing.assert_allclose(found.impulse[0, 1], float(jump), rtol=0.12)  # gravity besides


def test_contacts_must_be_asked_for():
    with pytest.raises(InputError, match="record=True"):
        _ = Simulation([ball(p=(0, 1, 0))]).contacts
    with pytest.raises(InputError, match="expected the engine 'mujoco'"):
        Simulation([ball(p=(0, 1, 0))], engine="paper", record=True)
    assert len(Contacts.none().frame) == 0
    assert Contacts.none().impulse.shape == (0, 3)
