"""Prompt search: goals as text, candidates, the score's meaning, and what a search finds."""

import dataclasses

import pytest
import torch

import newtongs.dynamics.search as searching
from newtongs import InputError, State, make_state
from newtongs.base.state import LAYOUT
from newtongs.cli import as_flag
from newtongs.dynamics import FLOOR, Plane
from newtongs.dynamics.search import PAPER_GOAL, Goal, SearchRanges, draw, search
from newtongs.dynamics.variants import choose, rigid_state
from newtongs.motions import sampling
from newtongs.physics import Body, Shape, Simulation, Surroundings

BASE = make_state(p=(0.3, 0.25, -0.2), s=(0.25, 0.25, 0.25), m=1.2, e=0.6, mu=0.3)
FRAMES = torch.arange(49) / 24


def path(*points, s=None):
    p = torch.tensor(points).float()
    return make_state(p=p, s=torch.ones_like(p) if s is None else s)


# --- goals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "target"),
    [
        ("displace 0.72 0 0", "displace", (0.72, 0, 0)),
        ("  Displace -1e-1, +.5,2. ", "displace", (-0.1, 0.5, 2)),
        ("land at 1 -2.5", "land", (1, -2.5)),
        ("LAND  AT 1,2", "land", (1, 2)),
    ],
)
def test_goals_are_read(text, kind, target):
    assert Goal.parse(text) == Goal(kind, target)


@pytest.mark.parametrize(
    "text",
    ["", "displace", "displace 1 2", "displace 1 2 3 4", "land 1 2", "land at 1", "land at x z",
     "displace 1 2 nan", "displace 12", "fly to 1 2 3", "displace 1 2 3; land at 1 2"],
)  # fmt: skip
def test_other_goals_are_refused_in_one_line(text):
    with pytest.raises(InputError, match="displace dx dy dz") as error:
        Goal.parse(text)
    assert "\n" not in str(error.value)


def test_the_score_by_hand():
    straight = path((0, 1, 0), (0.36, 1, 0), (0.72, 1, 0))
    assert PAPER_GOAL.score(straight).item() == pytest.approx(0, abs=1e-12)
    short = path((0, 1, 0), (0.2, 1, 0), (0.5, 1, 0))
    assert PAPER_GOAL.score(short).item() == pytest.approx(0.22**2)
    hop = path((0, 1, 0), (0.36, 1.3, 0.3), (0.72, 1, 0))
    assert PAPER_GOAL.score(hop).item() == pytest.approx(0.25 * (0.09 + 0.09) / 3)
    grown = path((0, 1, 0), (0.72, 1, 0), s=torch.tensor([[1.0, 1, 1], [2, 1, 1]]))
    assert PAPER_GOAL.score(grown).item() == pytest.approx(0.25 * 0.6931**2, rel=1e-3)
    land = path((5, 5, 5), (1, 1.5, 2.2), s=torch.full((2, 3), 0.5))
    assert Goal("land", (1, 2)).score(land).item() == pytest.approx(1 + 0.04)
    assert Goal("land", (1, 2)).score(land, torch.tensor(1.5)).item() == pytest.approx(0.04)
    stay = path((0, 1, 0), (0, 1, 0.6), (0, 1, 0))
    assert Goal("displace", (0, 0, 0)).score(stay).item() == pytest.approx(0.25 * 0.36 / 3)
    assert PAPER_GOAL.score(torch.full((2, 22), torch.nan)).item() == torch.inf


# --- candidates ----------------------------------------------------------------------------------


def test_the_ranges_are_those_of_state32():
    ours, theirs = SearchRanges(), sampling.IN_DISTRIBUTION
    pairs = {
        "p_xz": "position", "v_xz": "horizontal", "v_y": "vertical", "w": "angular",
        "s": "scale", "m": "mass", "e": "restitution", "mu": "attenuation",
    }  # fmt: skip
    assert {f.name for f in dataclasses.fields(SearchRanges)} == pairs.keys()
    for name, other in pairs.items():
        assert getattr(ours, name) == getattr(theirs, other), name


def test_candidates_fill_their_ranges_and_keep_the_rest():
    z = draw(4000, base=BASE)
    x, r = State(z), SearchRanges()
    for values, (low, high) in [
        (x.v[:, 0], r.v_xz), (x.v[:, 2], r.v_xz), (x.v[:, 1], r.v_y), *((w, r.w) for w in x.w.T)
    ]:  # fmt: skip
        assert low <= values.min() < low + 0.01 * (high - low)
        assert high >= values.max() > high - 0.01 * (high - low)
    for name, channels in LAYOUT.items():
        if name not in ("v", "w"):
            assert torch.equal(z[:, channels], BASE[channels].expand(4000, -1)), name
    whole = State(draw(500))
    assert torch.equal(whole.p[:, 1], whole.s[:, 1])  # on the floor
    assert all(x.std(0).min() > 0 for x in (whole.s, whole.m, whole.e, whole.mu))


def test_draws_are_fixed_by_the_seed():
    assert torch.equal(draw(10, base=BASE), draw(1000, base=BASE)[:10])
    assert not torch.equal(draw(10, base=BASE, seed=1), draw(10, base=BASE))
    assert torch.equal(State(draw(9)).v, State(draw(9, base=BASE)).v)
    spun = State(draw(9, base=BASE, vary=("w",)))
    assert torch.equal(spun.v, State(BASE).v.expand(9, -1))


# --- searches ------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("dynamics", ["analytic", "learned"])
def test_a_search_finds_the_best_of_its_candidates(dynamics):
    """Every candidate rolled out frame by frame by the reference gives the same order."""
    model, n = choose(dynamics), 100
    goal = Goal("displace", (0.7, 0.0, 0.2))
    found = search(model, goal, base=BASE, candidates=n, seconds=1.0)
    z0 = draw(n, base=BASE)
    looks = model.rollout(z0, FRAMES[:25])[:, ::2]
    scores, order = goal.score(looks).sort()
    assert torch.allclose(found.scores, scores[:8], rtol=1e-2)
    assert torch.equal(found.z0, z0[order[0]])
    assert found.score == found.scores[0]


def test_screening_loses_nothing_here(monkeypatch):
    """The winner of all candidates in the substeps of the animation is among those kept."""
    model = choose("analytic", "rigid")
    calls = []
    screened = search(model, base=BASE, candidates=6000, progress=lambda *done: calls.append(done))
    assert calls == [("search", n, 6000) for n in (2048, 4096, 6000)]
    monkeypatch.setattr(searching, "SCREENED", 6000)
    everyone = search(model, base=BASE, candidates=6000)
    assert torch.equal(screened.z0, everyone.z0)


def test_the_paper_goal_is_reached():
    """With an eighth of the candidates; the two seconds include several bounces."""
    model, base = choose("analytic", "rigid"), rigid_state(BASE)
    found = search(model, base=base, candidates=8192)
    moved = State(model.rollout(found.z0, FRAMES)).p
    assert (moved[-1] - moved[0])[0].item() == pytest.approx(0.72, abs=0.05)
    assert (moved[-1] - moved[0]).abs()[[1, 2]].max() < 0.1
    alike = search(model, "displace 0.72 0 0", base=base, candidates=8192)
    assert torch.equal(alike.states, found.states)


def test_the_best_are_played_in_the_world():
    """A wall stands where the model alone would fly: only what was played there can miss it."""
    model, base = choose("analytic", "rigid"), rigid_state(BASE)
    wall = Surroundings((FLOOR, Plane((-1.0, 0.0, 0.0), -1.3)))  # the half-space beyond x = 1.3
    simulation = Simulation([Body(base, Shape.ball(0.25))], model, wall)
    start, calls = simulation.snapshot(), []

    def play(candidates):
        calls.append(len(candidates))
        paths = []
        for z in candidates:
            simulation.restore(start)
            simulation.set(0, z)
            paths.append(simulation.run(FRAMES)[:, 0])
        return torch.stack(paths), torch.full((len(candidates),), 0.25)

    found = search(model, "land at 0.9 -0.6", base=base, candidates=4096, play=play)
    assert calls == [32]
    assert (found.scores.diff() >= 0).all()
    paths, _ = play(found.z0[None])
    missed = (State(paths[0]).p[-1, ::2] - torch.tensor([0.9, -0.6])).norm()
    assert found.miss == pytest.approx(float(missed), abs=1e-6)
    assert found.miss < 0.35


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"goal": "jump"}, "displace dx dy dz"),
        ({"candidates": 0}, "^candidates: expected at least 1, got 0"),
        ({"top": -1}, "^top: expected at least 1, got -1"),
        ({"seconds": 0.0}, "one frame"),
        ({"seconds": float("nan")}, "one frame"),
        ({"vary": ("q",)}, "cannot search 'q'"),
        ({"base": BASE.expand(2, -1)}, "one object"),
    ],
)
def test_errors_name_the_way_out(given, hint):
    with pytest.raises(InputError, match=hint):
        search(choose("analytic"), **{"base": BASE, "candidates": 4, **given})


def test_a_goal_that_cannot_be_read_is_spelled_for_whoever_gave_it():
    with pytest.raises(InputError) as caught:
        Goal.parse("fly to the moon")
    expected = ": expected 'displace dx dy dz' or 'land at x z'"
    assert str(caught.value).startswith(f"goal='fly to the moon'{expected}")
    assert caught.value.spelled(as_flag).startswith(f"--goal 'fly to the moon'{expected}")
