"""A session of the studio, without a browser: picking, pushing, playing, taking home."""

import json

import pytest
import torch

import newtongs
from newtongs.cli.words import parse_push
from newtongs.errors import InputError
from newtongs.exports import load_animation
from newtongs.pushes import Push
from newtongs.scene import GaussianScene
from newtongs.scene.find.rays import crossings, first_opaque, struck
from newtongs.state import State
from newtongs.studio import Kick, Recipe, Session
from newtongs.studio.pointing import camera_in_scene
from newtongs.studio.recipe import push_words


@pytest.fixture(scope="module")
def park():
    """One session that the tests share, as it was opened; the object lies at its middle."""
    session = Session("sunny_park")
    middle = session.world.to_physics(session.scene.object(0).means.double().mean(0))
    return session, middle


@pytest.fixture
def picked(park):
    session, _ = park
    fresh = Session(Recipe("sunny_park", seconds=0.5), place=session.place)
    fresh.pick("id:0")
    return fresh, State(fresh.now[0]).p.double()


def eye(middle):
    return middle + torch.tensor([0.5, 1.0, 4.0], dtype=torch.float64)


def same(a, b):
    assert a.states.keys() == b.states.keys()
    assert all(torch.equal(a.states[i], b.states[i]) for i in a.states)
    assert torch.equal(a.times, b.times)
    for name in ("means", "quats", "log_scales", "logits", "sh", "ids"):
        assert torch.equal(getattr(a.scene, name), getattr(b.scene, name))
    assert a.about == b.about
    assert a.shadow == b.shadow


# --- rays -----------------------------------------------------------------------------------------


def three_balls(opacity):
    return GaussianScene.make(
        means=[[0, 0, 1], [0, 0, 2], [1, 0, 2]], scales=[0.1] * 3, opacities=[opacity, 0.9, 0.9]
    )


@pytest.mark.parametrize(("opacity", "row"), [(0.9, 0), (0.2, 1)])
def test_the_nearest_opaque_gaussian_is_met_and_faint_ones_are_seen_through(opacity, row):
    assert struck(three_balls(opacity), (0, 0, 0), (0, 0, 1)) == row


def test_nothing_behind_or_beside_a_ray_is_met():
    assert struck(three_balls(0.9), (0, 0, 0), (0, 0, -1)) is None
    assert struck(three_balls(0.9), (0, 1, 0), (0, 0, 1)) is None
    assert struck(three_balls(0.9), (1.05, 0, 0), (0, 0, 0.5)) == 2


def test_a_long_gaussian_is_met_along_its_own_axes():
    turn = torch.tensor([0.5**0.5, 0, 0, 0.5**0.5])  # x to y
    needle = GaussianScene.make(means=[[0, 0, 1]], scales=[[1.0, 0.01, 0.01]], quats=turn[None])
    assert struck(needle, (0, 0.9, 0), (0, 0, 1)) == 0
    assert struck(needle, (0.9, 0, 0), (0, 0, 1)) is None
    found = crossings(needle, (0, 0, 0), (0, 0, 2))
    assert found.distances.tolist() == pytest.approx([0.5])
    assert first_opaque(found.distances[:0], found.alphas[:0]) is None


def test_a_ray_without_a_direction_is_refused():
    with pytest.raises(InputError, match="direction"):
        struck(three_balls(0.9), (0, 0, 0), (0, 0, 0))


# --- picking --------------------------------------------------------------------------------------


def test_a_click_names_the_object_under_it(park):
    session, middle = park
    assert session.point(eye(middle), middle - eye(middle)) == "id:0"


def test_a_click_on_the_floor_or_the_sky_says_so(park):
    session, middle = park
    with pytest.raises(InputError, match="floor or the surroundings"):
        session.point((2.0, 3.0, 2.0), (0, -1, 0))
    with pytest.raises(InputError, match="nothing is under"):
        session.point(eye(middle), (0, 1, 0))


def test_a_capture_without_ids_is_picked_by_clusters(park):
    _, middle = park
    scene = park[0].scene
    plain = scene.replace(ids=torch.full_like(scene.ids, -1))
    place = park[0].place._replace(scene=plain)
    session = Session("sunny_park", place=place)
    word = session.point(eye(middle), middle - eye(middle))
    assert word.startswith("cluster:")
    mask = session.clusters[int(word.split(":")[1])].mask
    assert (mask & (scene.ids == 0)).sum() > 0.9 * (scene.ids == 0).sum()


def test_a_rectangle_selects_what_lies_in_it(park):
    session, middle = park
    camera = camera_in_scene(
        session.world, (middle + torch.tensor([0, 0, 4.0])).tolist(), (0, 1, 0, 0), 0.8, (400, 400)
    )
    assert session.within(camera, (0, 0), (400, 400)) == ["id:0"]
    with pytest.raises(InputError, match="no object lies in the rectangle"):
        session.within(camera, (0, 0), (30, 30))


def test_picking_twice_finds_the_same_and_undo_goes_back(picked):
    session, _ = picked
    assert session.pick("id:0") == 0
    assert len(session.recipe.pushes) == 1
    session.push(0, mass=2.0)
    session.undo()
    assert session.recipe.pushes[0].mass == 1.0
    session.undo()
    assert session.recipe.pushes == ()
    with pytest.raises(InputError, match="nothing to undo"):
        session.undo()


def test_a_selection_that_fails_leaves_all_as_it_was(picked):
    session, _ = picked
    before = session.recipe
    for word in ("id:99", "cluster:zero", "id:0 x", "sphere:0,0,0,1e-9"):
        with pytest.raises(InputError):
            session.pick(word)
        assert session.recipe == before
    assert session.states().shape[1] == 1


# --- what will happen -----------------------------------------------------------------------------


def test_the_session_makes_what_animate_makes(picked):
    session, _ = picked
    session.push(0, velocity=(1.25, 2.1, -0.3), restitution=0.8, friction=0.1, mass=2.0)
    wanted = newtongs.animate("sunny_park", pushes=session.recipe.pushes, seconds=0.5, fps=30)
    same(session.animation(), wanted)


def test_a_new_push_on_the_old_stage_makes_what_a_fresh_session_makes(picked):
    session, _ = picked
    session.states()
    session.push(0, velocity=(0.3, 2.0, 0.1), spin=(1, 0, 0), mass=3.0, friction=0.9)
    same(session.animation(), Session(session.recipe, place=session.place).animation())


@pytest.mark.parametrize("dynamics", ["analytic", "structured", "paper"])
def test_python_lines_make_the_same_animation(picked, dynamics):
    session, _ = picked
    session.choose(dynamics=dynamics)
    named = {}
    exec(session.recipe.python(), named)
    same(session.animation(), named["animation"])


def test_the_command_makes_the_same_animation(picked, tmp_path):
    import shlex

    from newtongs.cli import main

    session, _ = picked
    session.push(0, velocity=(1 / 3, 2.0, -0.1), restitution=0.7)
    words = shlex.split(session.recipe.command())[1:]
    main([*words, "--out", str(tmp_path), "--formats", "json"])
    saved, made = load_animation(tmp_path / "sunny_park.json"), session.animation()
    assert torch.equal(saved.states[0], made.states[0])
    assert torch.equal(saved.scene.means, made.scene.means)


def test_pushes_survive_their_words():
    push = Push(
        select="box:0,0,0,1,1,1",
        velocity=(0.1, -2, 1 / 3),
        mass=2.5,
        friction=0.0,
        restitution=0.25,
    )
    assert parse_push(push_words(push)) == push
    assert parse_push(push_words(Push("masks:a folder"))) == Push("masks:a folder")
    assert parse_push(push_words(Push(motion="free_fall"))) == Push(motion="free_fall")


def test_a_coarse_path_begins_at_the_object_and_follows_the_arrow(picked):
    session, middle = picked
    left, right = [], []
    for out, x in ((left, -1.0), (right, 1.0)):
        session.push(0, velocity=(x, 1.0, 0.0))
        out.append(session.coarse(0))
    assert torch.allclose(left[0][0], middle, atol=1e-5)
    assert left[0][-1, 0] < middle[0] < right[0][-1, 0]
    exact = State(session.states()[:, 0]).p
    assert float((right[0][-1] - exact[-1]).norm()) < 0.3  # units, after half a second


def test_a_motion_takes_the_place_of_a_velocity_and_back(picked):
    session, _ = picked
    session.push(0, motion="free_fall")
    assert session.recipe.pushes[0].velocity is None
    session.push(0, velocity=(1, 0, 0))
    assert session.recipe.pushes[0].motion is None


# --- live -----------------------------------------------------------------------------------------


def test_reset_brings_frame_0_back_bit_for_bit(picked):
    session, _ = picked
    start = session.now.clone()
    first = [session.step().clone() for _ in range(12)]
    assert not torch.equal(first[-1], start)
    assert torch.equal(session.reset(), start)
    assert session.time == 0
    assert all(torch.equal(session.step(), z) for z in first)


def test_live_steps_are_the_frames_of_the_animation(picked):
    session, _ = picked
    steps = [session.step().clone() for _ in range(30)]
    frames = session.states()
    assert all(torch.equal(steps[2 * k - 1], frames[k]) for k in range(1, 16))


def test_a_kick_hits_the_object_where_it_is_now(picked):
    session, middle = picked
    session.push(0, velocity=(2.0, 2.0, 0.0))
    for _ in range(24):
        session.step()
    there = State(session.now[0]).p.double()
    assert session.under(eye(middle), middle - eye(middle)) is None  # it has left
    before = State(session.now[0]).v.clone()
    assert session.kick(eye(there), there - eye(there), 2.0) == 0
    gained = State(session.now[0]).v - before
    assert float(gained.norm()) == pytest.approx(2.0, abs=1e-3)
    assert gained[2] < 0  # along the view
    with pytest.raises(InputError, match="meets no object"):
        session.kick(eye(there), (0, 1, 0), 2.0)


def test_a_live_run_kept_is_an_animation_like_any_other(picked, tmp_path):
    session, _ = picked
    for k in range(40):
        last = session.step().clone()
        if k in (9, 20):
            session.kicked(Kick(session.time, 0, (0.5, 1.0, -0.7)))
    session.keep()
    assert [k.time for k in session.recipe.kicks] == [10 / 60, 21 / 60]
    assert torch.equal(session.states()[-1], last)
    named = {}
    exec(session.recipe.python(), named)
    same(session.animation(), named["animation"])
    with pytest.raises(InputError, match="no command"):
        session.recipe.command()
    session.save(tmp_path / "run.json")
    same(Session.load(tmp_path / "run.json").animation(), session.animation())


def test_there_is_nothing_to_keep_before_a_run(picked):
    with pytest.raises(InputError, match="no live run"):
        picked[0].keep()


# --- take it home ---------------------------------------------------------------------------------


def test_a_project_opens_again_in_the_studio_and_for_replay(picked, tmp_path):
    session, _ = picked
    session.push(0, velocity=(0.7, 1.5, 0.0))
    session.save(tmp_path / "it.json")
    again = Session.load(tmp_path / "it.json")
    assert again.recipe == session.recipe
    assert torch.equal(load_animation(tmp_path / "it.json").states[0], again.animation().states[0])


def test_a_project_of_a_file_finds_it(park, tmp_path, monkeypatch):
    from newtongs.scene import save

    save(park[0].scene, tmp_path / "park.ply")
    monkeypatch.chdir(tmp_path)
    session = Session(Recipe("park.ply", seconds=0.2, up=(0, 1, 0), floor=0.0))
    session.pick("cluster:0")
    (tmp_path / "deeper").mkdir()
    session.save(tmp_path / "deeper" / "it.json")
    monkeypatch.chdir(tmp_path / "deeper")
    assert torch.equal(Session.load("it.json").states(), session.states())


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda tree: tree.pop("studio"), "no project"),
        (lambda tree: tree["studio"].pop("pushes"), "damaged"),
        (lambda tree: tree["studio"].update(surprise=1), "damaged"),
        (lambda tree: tree["studio"].update(dynamics="magic"), "dynamics"),
        (lambda tree: tree["studio"]["pushes"][0].update(mass=-1), "mass"),
        (lambda tree: tree["studio"].update(scene="no_such_scene"), "no_such_scene"),
    ],
)
def test_a_project_that_was_changed_by_hand_is_refused(picked, tmp_path, change, word):
    file = tmp_path / "it.json"
    picked[0].save(file)
    tree = json.loads(file.read_text())
    change(tree)
    file.write_text(json.dumps(tree))
    with pytest.raises(InputError, match=word):
        Session.load(file)


def test_the_camera_of_the_page_sees_what_the_page_sees(park):
    """A point ahead of a camera of the physics frame lands in the middle of its picture."""
    session, middle = park
    position = middle + torch.tensor([0, 0, 3.0], dtype=torch.float64)
    camera = camera_in_scene(session.world, position.tolist(), (0, 1, 0, 0), 0.9, (320, 200))
    pixel, depth = camera.project(session.world.to_scene(middle).float())
    assert pixel.tolist() == pytest.approx([160, 100], abs=1e-2)
    assert float(depth) * session.world.scale == pytest.approx(3.0, rel=1e-4)
    higher = session.world.to_scene(middle + torch.tensor([0, 0.2, 0])).float()
    assert camera.project(higher)[0][1] < 100
