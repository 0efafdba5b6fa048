"""Places for the boxes that are near: the same bits as with all boxes."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest
import torch

from newtongs import make_state
from newtongs.dynamics.surfaces import FLOOR, Box
from newtongs.physics import Body, Shape, Simulation, active_boxes, mujoco_engine
from newtongs.physics.bodies import Surroundings
from newtongs.physics.mujoco_engine import MujocoEngine

CELL, TICK = 0.1, 1 / 3840
TIMES = torch.arange(1, 49) / 24


def hills(count: int = 20) -> Surroundings:
    """Columns of many heights."""
    random = np.random.default_rng(0)
    x, z = (g.ravel() * CELL - 0.5 * count * CELL for g in np.mgrid[:count, :count])
    low = np.stack([x, 0 * x, z], axis=-1)
    edges = np.stack([0 * x + CELL, 0.05 + 0.2 * random.random(len(x)), 0 * x + CELL], axis=-1)
    return Surroundings(
        (FLOOR, Box((1.2, 0.0, -1.0), (1.4, 1.0, 1.0))), np.stack([low, low + edges], 1)
    )


def crowd() -> list[Body]:
    """A ball and odd pieces, some spinning fast."""
    random = np.random.default_rng(1)
    z0 = make_state(p=(0.0, 0.8, 0.0), s=(0.1, 0.1, 0.1), v=(1.0, 0.0, 0.5))
    bodies = [Body(z0, Shape.ball(0.1))]
    for k in range(4):
        first, second = (Shape.hull(random.normal(0, 0.08, (20, 3)) + shift) for shift in (0, 0.1))
        shape = replace(first, pieces=first.pieces + second.pieces)
        z0 = make_state(
            p=(0.5 * k - 0.8, 0.9, 0.3), s=(0.2, 0.2, 0.2), v=(0.5 * k - 1, 2, 0), w=(1, 8 * k, 3)
        )
        bodies.append(Body(z0, shape))
    return bodies


def engine_of(simulation: Simulation) -> MujocoEngine:
    assert isinstance(simulation._engine, MujocoEngine)
    return simulation._engine


def made(monkeypatch, *, near: bool) -> Simulation:
    monkeypatch.setattr(active_boxes, "FEWEST", 1 if near else 10**9)
    simulation = Simulation(crowd(), surroundings=hills())
    assert engine_of(simulation).nearby.useful == near
    return simulation


def test_it_is_the_same_bit_for_bit(monkeypatch):
    with_all, with_near = (made(monkeypatch, near=near).run(TIMES) for near in (False, True))
    assert torch.equal(with_all, with_near)
    assert (with_all[-1, :, 1] < 0.6).all()  # they have met the hills


def test_pushes_and_restored_moments_are_the_same_too(monkeypatch):
    ends = []
    for near in (False, True):
        simulation = made(monkeypatch, near=near)
        start = simulation.snapshot()
        first = simulation.run(TIMES[:24])
        simulation.push(2, velocity=(0, 3, -1), spin=(0, 0, 20))
        pushed = simulation.run(TIMES[24:])
        simulation.restore(start)
        assert torch.equal(simulation.run(TIMES[:24]), first)
        ends.append(pushed)
    assert torch.equal(*ends)


def test_few_boxes_are_looked_at(monkeypatch):
    simulation = made(monkeypatch, near=True)
    simulation.run(TIMES)
    watch = engine_of(simulation).nearby
    assert 0 < watch.counts.sum() < 0.2 * len(watch.boxes.geom)


def test_nothing_near_is_left_out(monkeypatch):
    """MuJoCo's own distances, in the model with all boxes, after a while of tumbling."""
    simulation = made(monkeypatch, near=True)
    for t in TIMES[::6].tolist():
        simulation.run([t])
        engine = engine_of(simulation)
        model, watch = engine.whole, engine.nearby
        watch.anchor[:] = np.inf
        assert watch.update(engine.data, TICK)
        data = mujoco.MjData(model)
        data.qpos[:] = engine.data.qpos
        mujoco.mj_kinematics(model, data)
        for k in range(len(watch.slack)):
            listed = set(watch.boxes.geom[watch.lists[k, : watch.counts[k]]].tolist())
            for piece in np.flatnonzero(model.geom_bodyid == k + 1).tolist():
                for box in watch.boxes.geom.tolist():
                    far = mujoco.mj_geomDistance(model, data, piece, box, 1.0, None)
                    margin = model.geom_margin[box]
                    assert far - margin > watch.slack[k] or box in listed


@pytest.mark.parametrize("angle", [1e-9, 1e-4, 0.3, 3.0])
def test_how_far_points_have_moved_is_not_underestimated(angle):
    random = np.random.default_rng(2)
    q = random.normal(size=4)
    q /= np.linalg.norm(q)
    axis = random.normal(size=3)
    axis /= np.linalg.norm(axis)
    turn = np.concatenate([[np.cos(angle / 2)], np.sin(angle / 2) * axis])
    now = np.empty(4)
    mujoco.mju_mulQuat(now, turn, q)
    shift = angle * random.normal(size=3)
    moved = active_boxes._moved(
        np.concatenate([shift, now]), np.concatenate([np.zeros(3), q]), 0, 1.0
    )
    farthest = 2 * np.sin(angle / 2)  # of points at a distance of one, at right angles to the axis
    assert moved == pytest.approx(np.linalg.norm(shift) + farthest, rel=1e-6)


def test_slots_hold_boxes_as_mujoco_would_have_them(monkeypatch):
    simulation = made(monkeypatch, near=True)
    simulation.run(TIMES)
    engine = engine_of(simulation)
    model, whole, watch = engine.model, engine.whole, engine.nearby
    lists = [watch.lists[k, :n] for k, n in enumerate(watch.counts)]
    near = np.sort(watch.boxes.geom[np.unique(np.concatenate(lists))])
    slots = watch.places.first + np.arange(len(near))
    assert len(near)
    assert set(slots) <= set(model.bvh_nodeid)
    for name in ("type", "bodyid", "pos", "quat", "size", "aabb", "rbound", "margin", "friction"):
        ours, theirs = getattr(model, f"geom_{name}"), getattr(whole, f"geom_{name}")
        assert np.array_equal(ours[slots], theirs[near]), name
    assert np.array_equal(engine.data.geom_xpos[slots], whole.geom_pos[near])
    assert np.array_equal(model.body_margin, whole.body_margin)


def fallen(monkeypatch, slots: int | None) -> tuple[torch.Tensor, ...]:
    """A crowd that has come to rest but for one, which is pushed; then the same once more."""
    monkeypatch.setattr(mujoco_engine, "SLOTS", slots or 256)
    simulation = made(monkeypatch, near=slots is not None)
    start = simulation.snapshot()
    first = simulation.run(TIMES)
    resting = simulation.run([TIMES[-1] + 0.1 * k for k in range(1, 60)])
    asleep = simulation.asleep
    if slots:
        engine_of(simulation)._widen()  # while some sleep
    later = simulation.snapshot()
    simulation.push(1, velocity=(2.0, 2.0, 0.0))
    pushed = simulation.run([simulation.time + 0.1 * k for k in range(1, 10)])
    if slots == 1:
        assert engine_of(simulation).nearby.slots > 4
    simulation.restore(later)
    simulation.push(1, velocity=(2.0, 2.0, 0.0))
    assert torch.equal(simulation.run([simulation.time + 0.1 * k for k in range(1, 10)]), pushed)
    simulation.restore(start)
    assert torch.equal(simulation.run(TIMES), first)
    return first, resting, pushed, asleep


def test_with_too_few_slots_it_goes_on_with_more_bit_for_bit(monkeypatch):
    with_all, with_one = (fallen(monkeypatch, slots) for slots in (None, 1))
    assert with_all[-1].any()  # some sleep, and must still lie where they lay
    for a, b in zip(with_all, with_one, strict=True):
        assert torch.equal(a, b)


def test_contacts_are_recorded_the_same_with_more_slots(monkeypatch):
    tables = []
    for near in (False, True):
        monkeypatch.setattr(active_boxes, "FEWEST", 1 if near else 10**9)
        monkeypatch.setattr(mujoco_engine, "SLOTS", 1)
        simulation = Simulation(crowd(), surroundings=hills(), record=True)
        simulation.run(TIMES)
        tables.append(simulation.contacts)
    assert len(tables[0].frame) > 10
    for name in ("frame", "first", "second", "impulse"):
        assert np.array_equal(*(np.asarray(getattr(table, name)) for table in tables)), name
