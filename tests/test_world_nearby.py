"""The tree of what is near: the same bits as with all boxes in it."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest
import torch

from newtongs import make_state
from newtongs.dynamics.surfaces import FLOOR, Box
from newtongs.world import Body, Shape, Simulation, nearby
from newtongs.world.mujoco_engine import MujocoEngine
from newtongs.world.surroundings import Surroundings

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
    monkeypatch.setattr(nearby, "FEWEST", 1 if near else 10**9)
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
    """MuJoCo's own distances, after a while of tumbling."""
    simulation = made(monkeypatch, near=True)
    for t in TIMES[::6].tolist():
        simulation.run([t])
        engine = engine_of(simulation)
        model, data, watch = engine.model, engine.data, engine.nearby
        watch.anchor[:] = np.inf
        watch.update(data, TICK)
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
    moved = nearby._moved(np.concatenate([shift, now]), np.concatenate([np.zeros(3), q]), 0, 1.0)
    farthest = 2 * np.sin(angle / 2)  # of points at a distance of one, at right angles to the axis
    assert moved == pytest.approx(np.linalg.norm(shift) + farthest, rel=1e-6)


def test_mujocos_own_tree_comes_back(monkeypatch):
    simulation = made(monkeypatch, near=True)
    engine = engine_of(simulation)
    before = engine.model.bvh_nodeid.copy(), engine.model.body_geomnum.copy()
    simulation.run(TIMES[:12])
    assert (engine.model.bvh_nodeid != before[0]).any()
    engine.nearby.forget()
    assert (engine.model.bvh_nodeid == before[0]).all()
    assert (engine.model.body_geomnum == before[1]).all()
