"""What an animation does by itself, and objects named by typed selectors."""

import webbrowser

import pytest
import torch

import newtongs
from newtongs import GaussianNND, NNDConfig, ObjectSpec, Physics
from newtongs.base.errors import InputError, argument
from newtongs.cli import as_flag
from newtongs.dynamics.surfaces import FLOOR
from newtongs.pipeline.prepare import main_frame, prepare
from newtongs.pipeline.source import Source, floor_of, open_source
from newtongs.pipeline.spec import SceneSpec
from newtongs.samples import template
from newtongs.segment.selectors import (
    Box,
    Circle,
    Cluster,
    Grown,
    Id,
    Masks,
    Shrunk,
    Sphere,
    word_of,
)


@pytest.fixture(scope="module")
def animation():
    return newtongs.animate("desk_blue_sphere", velocity=(1, 2, 0), seconds=0.5, fps=8)


@pytest.mark.slow
def test_path_is_in_the_physics_frame(animation):
    path = animation.path(0)
    assert path.shape == (5, 3)
    wanted = animation.world.state_to_physics(animation.states[0])
    assert torch.equal(path, newtongs.State(wanted).p)
    with pytest.raises(InputError, match="no object 3"):
        animation.path(3)


def test_one_file_by_its_ending_and_several_by_name(animation, tmp_path):
    assert animation.save(tmp_path / "fall.glb") == {"glb": tmp_path / "fall.glb"}
    written = animation.save(tmp_path / "new" / "fall", formats=["json", "png"], size=(48, 32))
    assert {path.name for path in written.values()} == {"fall.json", "fall.png"}
    assert all(path.stat().st_size > 100 for path in written.values())
    with pytest.raises(InputError, match=r"unknown ending '.gbl'; did you mean .glb"):
        animation.save(tmp_path / "fall.gbl")


def test_render_draws_the_nearest_frame(animation):
    first, last = (animation.render(t, size=(64, 48)) for t in (0.01, 9.0))
    assert first.shape == (48, 64, 3)
    assert torch.equal(first, animation.render(0.0, size=(64, 48)))
    assert (first - last).abs().max() > 0.1


def test_show_opens_a_page(animation, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    page = animation.show()
    assert opened == [page.as_uri()]
    assert page.read_text().startswith("<!")


@pytest.mark.parametrize(
    ("typed", "word"),
    [
        (Cluster(0), "cluster:0"), (Cluster(0, 2), "cluster:0+2"), (Id(3), "id:3"),
        (Box((-1, 0, 0.1), (1, 2, 3)), "box:-1.0,0.0,0.1,1.0,2.0,3.0"),
        (Sphere((0, 1, 2), 0.3), "sphere:0.0,1.0,2.0,0.3"),
        (Circle((10, 20), 5), "circle:10.0,20.0,5.0"),
        (Circle((10, 20), 5, (1, 2)), "circle:10.0,20.0,5.0,1.0,2.0"),
        (Masks("folder"), "masks:folder"),
        (Grown(0.05, Cluster(1)), "grown:0.05:cluster:1"),
        (Shrunk(0.05, "cluster:1"), "shrunk:0.05:cluster:1"),
    ],
)  # fmt: skip
def test_selectors_are_the_words_of_the_command_line(typed, word):
    assert ObjectSpec(typed).select == word
    assert type(ObjectSpec(typed).select) is str


@pytest.mark.parametrize(
    ("selector", "word"),
    [
        ("auto", "auto"), ("cluster:0+1", "cluster"), ("grown:0.1:shrunk:2:id:3", "id"),
        ("masks:/clusters/auto", "masks"), ("grown:0.1:masks:a:b", "masks"),
    ],
)  # fmt: skip
def test_the_word_of_a_selector(selector, word):
    assert word_of(selector) == word


def test_errors_spell_arguments_for_whoever_reads_them():
    error = InputError(f"give {argument('floor_height', '0.3')} and {argument('up')}")
    assert str(error) == "give floor_height=0.3 and up"
    assert error.spelled(as_flag) == "give --floor 0.3 and --up"


# --- what a setup takes over from an earlier one --------------------------------------------------


SPECS = [
    SceneSpec((ObjectSpec("auto", velocity=(1, 2, 0)),)),
    SceneSpec((ObjectSpec("auto", velocity=(0, 1, 0), mass=2.0),)),
    SceneSpec((ObjectSpec("auto", motion="free_fall"),)),
    SceneSpec((ObjectSpec("auto", motion="free_fall"),), Physics(seed=7302)),
    SceneSpec((ObjectSpec("auto"),), Physics(contact="paper")),
    SceneSpec((ObjectSpec("auto"),), up=torch.tensor([0.0, 1.0, 0.0])),
]


@pytest.mark.slow
def test_a_reused_setup_is_the_one_made_anew():
    source = open_source("desk_blue_sphere")
    fresh = [prepare(source, spec) for spec in SPECS]
    for before in fresh:
        for spec, wanted in zip(SPECS, fresh, strict=True):
            (got,), (want,) = prepare(source, spec, reuse=before).bodies, wanted.bodies
            assert torch.equal(got.z0, want.z0)
            assert (got.shape is None) == (want.shape is None)
    other = prepare("sunny_park", SPECS[0], reuse=fresh[0])
    assert other.source.name == "sunny_park"


def test_a_reused_setup_has_the_floor_of_its_own_model():
    """A model without the floor event falls through; the next one, with it, must not."""
    models = [GaussianNND(NNDConfig(contact=there)) for there in (False, True)]
    specs = [SceneSpec(physics=Physics(model, contact="paper")) for model in models]
    source = open_source("desk_blue_sphere")
    setup = None
    for spec, surfaces in zip((*specs, specs[0]), ((), (FLOOR,), ()), strict=True):
        setup = prepare(source, spec, reuse=setup)
        assert setup.fixed.surroundings.surfaces == surfaces


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objects": []}, "objects: expected at least one"),
        ({"velosity": (1, 2, 3)}, "unknown argument 'velosity'; did you mean velocity"),
        ({"floor": 0.0}, "unknown argument 'floor'; did you mean .*floor_height"),
        ({"velocity": 3}, "velocity: expected three numbers"),
        ({"velocity": "fast"}, "velocity: expected three numbers"),
        ({"physics": "analytic"}, "physics: expected a Physics"),
        ({"solids": [Box((0, 0, 0), (1, 1, 1))]}, "solids: expected Plane and Box of .*surfaces"),
    ],
)
def test_wrong_arguments_are_one_line(options, message):
    with pytest.raises(InputError, match=message):
        newtongs.animate("desk_blue_sphere", **options)


def test_a_setup_keeps_its_objects():
    setup = prepare("desk_blue_sphere", SPECS[4])
    with pytest.raises(InputError, match="objects: expected 1, as in the setup, got 2"):
        setup.with_objects([ObjectSpec(), ObjectSpec()])
    with pytest.raises(InputError, match="objects: expected at least one"):
        SceneSpec(())


def test_the_frame_before_anything_is_picked_knows_a_given_floor():
    source = Source(template("desk_blue_sphere").object, None, ours=False)
    spec = SceneSpec(up=(0, 1, 0), floor_height=-2.0)
    floor = floor_of(source, spec.up, spec.floor_height)
    assert main_frame(source, spec, floor).floor == pytest.approx(-2.0)
    assert prepare(source, spec).frame.floor == pytest.approx(-2.0)
