"""States that overflow: refused at the edge with the channel's name, never a wrong number."""

import os
import re

import pytest
import torch
from export_samples import bouncing, random_scene
from harness import extremes

from newtongs import GaussianNND
from newtongs.base.errors import InputError
from newtongs.base.state import CHANNELS, State, make
from newtongs.dynamics.backends.numba_rollout import rollout_cpu
from newtongs.dynamics.config import NNDConfig
from newtongs.dynamics.variants import choose
from newtongs.forecast import load_pretrained_context
from newtongs.forecast.fitting import continued, predict
from newtongs.physics import Body, Shape, Simulation, Track
from newtongs.physics.guards import SleepGuard
from newtongs.pipeline.bodies import _loose_body
from newtongs.pipeline.spec import ObjectSpec
from newtongs.scene.animation import Animation

TIMES = torch.arange(9) / 24


@pytest.mark.parametrize("channel", range(19))
@pytest.mark.parametrize("value", [2e9, -3e38])
def test_the_edge_names_the_channel(channel, value):
    z = make().repeat(3, 1)
    z[1, channel] = value
    said = re.escape(f"channel {CHANNELS[channel]} at index (1,) is {value:g}; up to 1e+09 can be")
    model = GaussianNND()
    for run in (lambda: model.rollout(z, TIMES), lambda: rollout_cpu(model, z, TIMES)):
        with pytest.raises(InputError, match=said):
            run()
    with pytest.raises(InputError, match=f"channel {CHANNELS[channel]} at"):
        Body(z[1], Shape.ball(0.2))


def test_context_predicts_what_the_edge_takes_and_refuses_the_rest():
    """A scale that doubles in a millisecond has no number after a second."""
    model = load_pretrained_context()
    z = make(s=(1e-4, 0.2, 0.2), u=(9e8, -9e8, 9e8), v=(0, 1e9, 0), w=(0, 9e8, 0))
    for z0, times in ((z, TIMES), (z, torch.arange(100) / 24)):
        assert torch.isfinite(predict(model, z0, times)).all()
        assert torch.isfinite(model.likeliest(z0[None], times)).all()
    with pytest.raises(InputError, match="channel u_x at index"):
        predict(model, make(u=(2e9, 0, 0)), TIMES)
    with pytest.raises(InputError, match="a track's scales must be above zero"):
        continued(model, -z[None], TIMES[:1], TIMES)


def test_no_rotation_is_refused():
    z = make()
    z[3:7] = 0
    with pytest.raises(InputError, match=r"channels q at index .* are 0"):
        GaussianNND().rollout(z, TIMES)


@pytest.mark.parametrize("solver", ["rk4", "euler"])
def test_masses_that_drag_throws_about_are_refused(solver):
    """Below the least mass a decay grows from step to step; above it, it decays."""
    model = GaussianNND(NNDConfig(solver=solver))
    least = model.least_mass([1 / 24])
    assert 1e-4 < least < 1e-3
    z = make(v=(1.0, 0, 0), m=0.95 * least)
    for run in (model.rollout, lambda *x: rollout_cpu(model, *x)):
        with pytest.raises(InputError, match=r"channel m at index .* a mass below .* cannot be"):
            run(z.unsqueeze(0), TIMES)
    ends = model.rollout(make(v=(1.0, 0, 0), m=1.05 * least), torch.arange(240) / 24)
    assert ends[-1].abs().amax() < 1e3


def test_a_model_that_runs_away_is_refused():
    """A network of its own may push without bounds; the last frame tells."""
    model = GaussianNND(NNDConfig(bounded=False))
    with torch.no_grad():
        model.f_theta[-1].bias.fill_(3e38)
        model.alpha.fill_(1e5)
    for run in (model.rollout, lambda *x: rollout_cpu(model, *x)):
        with pytest.raises(InputError, match=r"from index \(0,\) channel \w+ left all bounds"):
            run(make().unsqueeze(0), TIMES)


@pytest.mark.parametrize(("engine", "m"), [("paper", 2e-4), ("mujoco", 1.0)])
def test_a_simulation_that_runs_away_is_refused(engine, m, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    z = make(p=(0, 3, 0), v=(9e7, 9e7, 0), w=(9e7, 9e7, 0), m=m)
    with pytest.raises(InputError, match=r"cannot be simulated|left all bounds"):
        Simulation([Body(z, Shape.box((0.2, 0.1, 0.3)))], engine=engine).run(TIMES)
    assert capfd.readouterr().err == ""
    assert os.listdir(tmp_path) == []  # MuJoCo keeps a log of its own unless told not to


def test_mujoco_refuses_at_once_what_would_leave_its_bounds():
    for z, said in (
        (make(v=(0, 2e8, 0)), r"object 1: channel v_y is 2e\+08; up to 1e\+08 can be simulated"),
        (make(p=(-3e8, 0, 0)), "object 1: channel p_x is -3e"),
        (make(v=(1, 0, 0), m=5e-4), "object 1: channel m .* a mass below 0.000521 cannot be"),
    ):
        bodies = [Body(make(), Shape.ball(0.2)), Body(z, Shape.ball(0.2))]
        with pytest.raises(InputError, match=said):
            Simulation(bodies)
    at_rest = Track(torch.tensor([0.0, 1.0]), make(p=(3e8, 0, 0)).repeat(2, 1))
    Simulation([Body(make(p=(3e8, 0, 0)), Shape.ball(0.2), track=at_rest)])


def test_nothing_is_set_or_pushed_beyond_bounds():
    simulation = Simulation([Body(make(p=(0, 1, 0)), Shape.ball(0.2))])
    before = simulation.states
    for change in (
        lambda: simulation.push(0, velocity=(0, 2e8, 0)),
        lambda: simulation.set(0, make(p=(2e8, 0, 0))),
        lambda: simulation.set(0, torch.zeros(22)),
        lambda: simulation.set(0, torch.full((22,), torch.nan)),
        lambda: simulation.set(0, torch.zeros(3)),
    ):
        with pytest.raises(InputError, match=r"channel|expected"):
            change()
        assert (simulation.states == before).all()


def test_a_rotation_that_is_set_may_have_any_length():
    turned = make(p=(0, 1, 0), q=(0.6, 0, 0.8, 0))
    paths = []
    for length in (1.0, 0.1, 30.0):
        simulation = Simulation([Body(make(), Shape.box((0.2, 0.1, 0.3)))])
        z = turned.clone()
        z[3:7] *= length
        simulation.set(0, z)
        paths.append(simulation.run(TIMES[1:]))
    torch.testing.assert_close(paths[1], paths[0])
    torch.testing.assert_close(paths[2], paths[0])


def test_what_is_small_beside_what_is_pushed_is_not_too_light():
    pushed = Body(make(p=(0, 1, 0), s=(1, 1, 1)), Shape.box((1.0, 1.0, 1.0)))
    crumb = Shape.box((0.02, 0.02, 0.02))
    loose = _loose_body(make(p=(2, 0.01, 0), s=(0.02, 0.02, 0.02)), crumb, pushed)
    for dynamics in ("analytic", "learned"):
        assert torch.isfinite(
            Simulation([pushed, loose], choose(dynamics, "rigid")).run(TIMES)
        ).all()


@pytest.mark.parametrize("channel", range(6))
def test_rates_that_are_no_numbers_are_seen_at_once(channel):
    rates = torch.ones(2, 6).double()
    rates[1, channel] = torch.nan
    still = torch.zeros(2, dtype=torch.bool).numpy()
    assert SleepGuard(2, 10).count(rates.flatten().numpy(), still, 8) == float("inf")
    assert SleepGuard(1, 10).count(rates[0].numpy(), still[:1], 8) == pytest.approx(3**0.5)


def test_drag_of_the_least_mass_decays_in_mujoco():
    ball = Body(make(p=(0, 50, 0), v=(5.0, 0, 0), m=5.3e-4), Shape.ball(0.2))
    v = State(Simulation([ball]).run(TIMES[1:])).v[:, 0, 0].abs()
    assert (v[1:] < v[:-1]).all()


def test_no_animation_holds_what_is_no_number():
    t, z = bouncing(5)
    broken = z.clone()
    broken[3, 7] = torch.inf
    scene = random_scene(5, ids=0)
    with pytest.raises(InputError, match=r"states of object 0: channel v_x at index \(3,\) is inf"):
        Animation(scene, t, {0: broken})
    for times in (t.flip(0), torch.zeros(5), torch.full((5,), torch.nan)):
        with pytest.raises(InputError, match="times of an animation"):
            Animation(scene, times, {0: z})


def test_masses_of_pushes():
    for mass in (0.0, -1.0, float("nan"), 1e300):
        with pytest.raises(InputError, match="mass"):
            ObjectSpec(mass=mass)


@pytest.mark.slow
def test_a_slice_of_the_extreme_states():
    counts, _ = extremes.walked(3000, chunk=3000, share=10)
    for name, count in counts.items():
        assert not count.lost, name
        assert not count.wrongly, name
        assert count.refused + count.finite > 0, name
    assert counts["analytic: reference"].finite > 1000
