"""A family of one's own beside the 32: it can be drawn, and changes nothing of the benchmark."""

import hashlib

import pytest
import torch

from newtongs import State, motions
from newtongs.base.errors import InputError
from newtongs.paper.datasets import gaussian32, same32, state32
from newtongs.paper.figures import motions as pictures

MASSES = "18cde0009b438dd535a1752906b1b0ebb2fed7a868e93dfbc1f5df98a3ce2b6e"


def sink(z, t):
    """Down, slowly.

    More is not to be said.
    """
    return motions.Path(p=z.p - z.vec(0.0, 0.1 * t, 0.0), v=z.vec(0.0, -0.1, 0.0))


@pytest.fixture(autouse=True)
def _registry_as_before():
    yield
    for name in set(motions.names()) - set(motions.STATE32):
        motions.unregister(name)


@pytest.fixture
def own():
    """The name of a 33rd family."""
    motions.family("sinking", "translation", height=5.0)(sink)
    return "sinking"


def digest(x):
    return hashlib.sha256(x.numpy().tobytes()).hexdigest()


def test_it_is_drawn_like_the_others(own):
    made = motions.generate(own, 50, seed=3)
    x = State(made.states)
    assert x.z.shape == (50, 64, 22)
    assert 5 <= x.p[:, 0, 1].min() < x.p[:, 0, 1].max() <= 5.45
    assert torch.equal(x.v[..., 1], torch.full((50, 64), -0.1))
    assert not made.collision.any()
    assert torch.equal(motions.generate(own, 7, seed=3).states, made.states[:7])
    assert not torch.equal(motions.generate(own, 50, seed=4).states, made.states)
    family = motions.get(own)
    assert (family.index, family.category, family.summary) == (None, "translation", "Down, slowly.")


def test_its_draws_depend_on_its_name_alone(own):
    first = motions.generate(own, 3, seed=3).states
    motions.unregister(own)
    for name in ("another", own):
        motions.family(name, height=5.0)(sink)
    assert torch.equal(motions.generate(own, 3, seed=3).states, first)
    assert not torch.equal(State(motions.generate("another", 3, seed=3).states).m, State(first).m)


def test_the_draws_of_the_32_stay_as_they_are(own):
    """Numbers of torch's CPU generator, which are the same on every machine."""
    drawn = [State(motions.generate(name, 4, seed=7301).states[:, 0]).m for name in motions.STATE32]
    assert digest(torch.stack(drawn)) == MASSES


def test_the_benchmark_stays_as_it_is(own, tmp_path):
    assert motions.names() == (*motions.STATE32, own)
    assert len(motions.STATE32) == len(set(motions.STATE32)) == 32
    assert state32.SplitPlan("val_id", 3).sequences == 96
    with_it = state32.build(tmp_path / "with", splits=["val_id"], per_motion=2)[0]
    assert [item.motion.name for item in same32.members()] == list(motions.STATE32)
    assert len(gaussian32.items()) == 320
    with pytest.raises(InputError, match="unknown motion 'sinking'"):
        gaussian32.items(None, [own])
    motions.unregister(own)
    without = state32.build(tmp_path / "without", splits=["val_id"], per_motion=2)[0]
    assert with_it.read_bytes() == without.read_bytes()


def test_figures_stay_as_they_are(own, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(pictures, "draw_motion", lambda ax, family, *_: drawn.append(family.name))
    pictures.motion_gallery(tmp_path / "all.png")
    assert drawn == list(motions.STATE32)


def test_a_name_is_given_once(own):
    for name in (own, "free_fall"):
        with pytest.raises(
            InputError, match=f"motion '{name}' is already registered; choose another"
        ):
            motions.family(name)(sink)
    assert motions.get("free_fall").generate is not sink


def test_what_is_not_ones_own_stays():
    with pytest.raises(InputError, match="belongs to State-32"):
        motions.unregister("free_fall")
    with pytest.raises(InputError, match="unknown motion 'sinking'"):
        motions.unregister("sinking")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (lambda z, t: z.p, "must return a Path, got Tensor"),
        (lambda z, t: motions.Path(z.p[:2], z.v), r"p has the shape \(2, 5, 1\), expected \(3, 5,"),
        (lambda z, t: motions.Path(z.p, z.v[0]), r"v has the shape \(5, 1\)"),
        (lambda z, t: motions.Path(z.p, z.v, w=z.w * t[:9]), r"w has the shape \(3, 5, 9\)"),
    ],
)
def test_a_path_that_does_not_fit_is_one_line(path, message):
    motions.family("wrong")(path)
    with pytest.raises(InputError, match=f"^motion 'wrong'.*{message}.*$"):
        motions.generate("wrong", 5)
