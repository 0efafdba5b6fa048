"""A session of the studio, without a browser: picking, pushing, playing, taking home."""

import json
import os
from pathlib import Path

import pytest
import torch

import newtongs
from newtongs.base.errors import InputError
from newtongs.base.state import State
from newtongs.cli.push_text import parse_push
from newtongs.exports import load_animation
from newtongs.pipeline.source import Source
from newtongs.pipeline.spec import ObjectSpec, Physics
from newtongs.scene import GaussianScene
from newtongs.scene.world_frame import WorldFrame
from newtongs.segment.objects.rays import crossings, first_opaque, struck
from newtongs.studio import Kick, Recipe, Session
from newtongs.studio.pointing import camera_in_scene, ground_in_scene, met, plane_through
from newtongs.studio.recipe import depends_on_floor, joined, push_words, refuse_files, resized
from newtongs.studio.server import require_own_address


@pytest.fixture(scope="module")
def park():
    """One session that the tests share, as it was opened; the object lies at its middle."""
    session = Session("sunny_park")
    middle = session.world.to_physics(session.scene.object(0).means.double().mean(0))
    return session, middle


@pytest.fixture
def picked(park):
    session, _ = park
    fresh = Session(Recipe("sunny_park", seconds=0.5), source=session.source)
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
    place = park[0].source._replace(scene=plain)
    session = Session("sunny_park", source=place)
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
    wanted = newtongs.animate("sunny_park", objects=session.recipe.pushes, seconds=0.5, fps=30)
    same(session.animation(), wanted)


def test_a_new_push_on_the_old_stage_makes_what_a_fresh_session_makes(picked):
    session, _ = picked
    session.states()
    session.push(0, velocity=(0.3, 2.0, 0.1), spin=(1, 0, 0), mass=3.0, friction=0.9)
    same(session.animation(), Session(session.recipe, source=session.source).animation())


@pytest.mark.slow
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
    push = ObjectSpec(
        select="box:0,0,0,1,1,1",
        velocity=(0.1, -2, 1 / 3),
        mass=2.5,
        friction=0.0,
        restitution=0.25,
    )
    assert parse_push(push_words(push)) == push
    assert parse_push(push_words(ObjectSpec("masks:a folder"))) == ObjectSpec("masks:a folder")
    assert parse_push(push_words(ObjectSpec(motion="free_fall"))) == ObjectSpec(motion="free_fall")


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
    with pytest.raises(InputError, match="no movable object"):
        session.kick(eye(there), (0, 1, 0), 2.0)


@pytest.mark.slow
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


def test_a_folder_is_judged_by_its_word_not_by_its_name():
    assert depends_on_floor("grown:0.1:cluster:0")
    assert not depends_on_floor("masks:/clusters/auto")
    with pytest.raises(InputError, match="masks are read from a folder"):
        refuse_files("shrunk:0.1:masks:x")


# --- take it home ---------------------------------------------------------------------------------


def test_a_project_opens_again_in_the_studio_and_for_replay(picked, tmp_path):
    session, _ = picked
    session.push(0, velocity=(0.7, 1.5, 0.0))
    session.save(tmp_path / "it.json")
    again = Session.load(tmp_path / "it.json")
    assert again.recipe == session.recipe
    assert torch.equal(load_animation(tmp_path / "it.json").states[0], again.animation().states[0])


def test_a_project_is_published_once_and_complete(picked, tmp_path, monkeypatch):
    """A kill between two versions would leave an animation that is no project."""
    seen = []

    def replace(part, path):
        if path.suffix == ".json":
            seen.append("studio" in json.loads(Path(part).read_bytes()))
        rename(part, path)

    rename = os.replace
    monkeypatch.setattr(os, "replace", replace)
    picked[0].save(tmp_path / "it.json")
    assert seen == [True]


@pytest.mark.slow
def test_a_project_of_a_file_finds_it(park, tmp_path, monkeypatch):
    from newtongs.formats import save

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
        (lambda tree: tree.pop("studio"), "not a studio project"),
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


# --- selections, changed --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table():
    """Two balls on a floor, and a third near the first; without ids, as a capture is."""
    random = torch.Generator().manual_seed(0)

    def ball(x, n=400, r=0.2):
        d = torch.randn(n, 3, generator=random)
        return torch.tensor([x, r + 0.02, 0.0]) + r * d / d.norm(dim=-1, keepdim=True)

    u = torch.rand(4000, 2, generator=random) * 4 - 2
    floor = torch.stack([u[:, 0], 0.002 * torch.randn(4000, generator=random), u[:, 1]], -1)
    things = [ball(-1.0), ball(0.8), ball(1.35, r=0.15)]
    n = sum(map(len, things))
    means = torch.cat([*things, floor])
    colors = torch.cat([torch.tensor([[0.9, 0.2, 0.2]]).expand(n, 3), torch.full((4000, 3), 0.5)])
    scales = torch.tensor([[0.02, 0.02, 0.02]] * n + [[0.06, 0.004, 0.06]] * 4000)
    return GaussianScene.make(means=means, scales=scales, colors=colors)


def table_session(table, **fields):
    place = Source(table, None, False)
    return Session(Recipe("table.ply", seconds=0.2, **fields), source=place)


def count(session, index=0):
    """Gaussians of the capture that an object has."""
    layout = session.setup.layout
    return int(((layout.scene.ids == index) & (layout.rows >= 0)).sum())


def test_words_grow_shrink_and_come_back():
    assert resized("cluster:0", 0.1) == "grown:0.1:cluster:0"
    assert resized("grown:0.1:cluster:0", 0.1) == "grown:0.2:cluster:0"
    assert resized("grown:0.1:cluster:0", -0.1) == "cluster:0"
    assert resized("cluster:0", -0.1) == "shrunk:0.1:cluster:0"
    assert resized("shrunk:0.1:box:0,0,0,1,1,1", 0.1) == "box:0,0,0,1,1,1"


def test_words_join():
    assert joined("cluster:3", "cluster:1") == "cluster:1+3"
    assert joined("grown:0.1:cluster:3", "cluster:10") == "grown:0.1:cluster:3+10"
    for word, more in (("cluster:0", "id:1"), ("box:0,0,0,1,1,1", "cluster:0")):
        with pytest.raises(InputError, match="cannot be joined"):
            joined(word, more)


def test_a_selection_grows_to_its_neighbours_and_shrinks_again(table):
    session = table_session(table)
    word = "sphere:0.8,0.22,0,0.25"
    alone = int(session.mask(word).sum())
    grown, shrunk = session.mask(f"grown:0.4:{word}"), session.mask(f"shrunk:0.1:grown:0.4:{word}")
    assert int(grown.sum()) > alone + 200  # the near ball is reached
    heights = session.floor.heights(session.scene.means[grown & ~session.mask(word)])
    assert (heights > session.floor.thickness).all()  # not the floor
    assert int(shrunk.sum()) < int(grown.sum())
    assert not (shrunk & ~grown).any()
    with pytest.raises(InputError, match="above 0"):
        session.mask(f"grown:-1:{word}")


@pytest.mark.slow
def test_growing_and_undo(table):
    session = table_session(table)
    session.pick("cluster:0")
    before = session.recipe
    session.grow(0)
    assert session.recipe.pushes[0].select.startswith("grown:")
    assert session.recipe.pushes[0].velocity == before.pushes[0].velocity
    session.undo()
    assert session.recipe == before
    session.grow(0, -1)
    session.grow(0, 1)
    assert session.recipe == before


@pytest.mark.slow
def test_two_clusters_joined_move_as_one(table):
    session = table_session(table)
    session.pick("cluster:0")
    alone = count(session)
    session.join(0, "cluster:1")
    assert session.recipe.pushes[0].select == "cluster:0+1"
    assert count(session) > alone + 300
    assert len(session.setup.bodies) == 1
    assert parse_push(push_words(session.recipe.pushes[0])) == session.recipe.pushes[0]


@pytest.mark.slow
def test_what_is_remembered_is_what_a_fresh_session_finds(table):
    """Objects picked one by one, beside each other, are those of the recipe at once."""
    session = table_session(table)
    for word in ("cluster:0", "cluster:1", "cluster:2"):
        session.pick(word)
    fresh = table_session(table)
    fresh.choose(pushes=session.recipe.pushes)
    same(session.animation(), fresh.animation())


@pytest.mark.slow
def test_clusters_are_found_once_and_anew_for_another_scene(table, monkeypatch):
    from newtongs.segment.cutout import cache
    from newtongs.segment.objects import clusters

    calls = []
    counted = cache.last_of(lambda s, f: calls.append(1) or clusters._found(s, f))
    monkeypatch.setattr(clusters, "_remembered", counted)
    session = table_session(table)
    session.pick("cluster:0")
    session.pick("cluster:1")
    assert len(calls) == 1
    session.scene.means.add_(0)  # somebody writes to it
    clusters.cluster(session.scene, session.floor.carrying)
    assert len(calls) == 2


# --- up and floor ---------------------------------------------------------------------------------


def test_three_points_make_a_floor():
    a, up = plane_through([(0, 0, 0), (1, 0.1, 0), (0, 0, 1)], above=(0, 5, 0))
    assert up.tolist() == pytest.approx([-0.0995, 0.995, 0], abs=1e-3)
    assert float(a.norm()) == 0
    with pytest.raises(InputError, match="on a line"):
        plane_through([(0, 0, 0), (1, 0, 0), (2, 0.01, 0)], above=(0, 5, 0))


def test_a_plane_of_the_physics_frame_is_one_of_the_scene():
    world = WorldFrame.of_floor((0.0, 0.6, 0.8), 2.0, scale=3.0)
    up, height = ground_in_scene(world, (0.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    assert up == pytest.approx((0.0, 0.6, 0.8))
    assert height == pytest.approx(2.0)
    up, height = ground_in_scene(world, (5.0, 3.0, 1.0), (0.0, 2.0, 0.0))
    assert height == pytest.approx(3.0)  # three physics units are one of the scene's


@pytest.mark.slow
def test_another_floor_lets_go_what_was_found_above_the_old_one(table):
    session = table_session(table)
    session.pick("cluster:0")
    session.pick("sphere:-1,0.22,0,0.25")
    assert session.stand((0.0, 1.0, 0.0), -0.05) == 1
    assert [push.select for push in session.recipe.pushes] == ["sphere:-1,0.22,0,0.25"]
    assert session.world.floor == pytest.approx(-0.05)
    wanted = newtongs.animate(
        table, objects=session.recipe.pushes, up=(0, 1, 0), floor_height=-0.05, seconds=0.2, fps=30
    )
    assert torch.equal(session.animation().states[0], wanted.states[0])
    session.undo()
    assert len(session.recipe.pushes) == 2


def test_a_click_on_the_floor_is_a_point_of_it(table):
    session = table_session(table)
    x = met(session.scene, session.world, (0.1, 2.0, 0.3), (0.0, -1.0, 0.0))
    assert x.tolist() == pytest.approx([0.1, 0.0, 0.3], abs=0.05)
    with pytest.raises(InputError, match="nothing is under"):
        met(session.scene, session.world, (0.0, 2.0, 0.0), (0.0, 1.0, 0.0))


# --- pushes on a simulation that is kept ----------------------------------------------------------


@pytest.mark.slow
def test_a_kept_simulation_gives_the_bits_of_a_fresh_one(picked):
    session, _ = picked
    session.states()
    kept = session._compiled
    for velocity in ((1.0, 2.0, 0.5), (0.0, 0.0, 0.0)):
        session.push(0, velocity=velocity, spin=(2.0, 0.0, -1.0))
        states = session.states()
        assert session._compiled is kept
        assert torch.equal(states, Session(session.recipe, source=session.source).states())
    session.push(0, restitution=0.2)
    session.states()
    assert session._compiled is not kept  # materials are compiled in


@pytest.mark.slow
def test_predictions_of_the_context_model_are_played(picked):
    from newtongs import animate

    session, _ = picked
    session.push(0, velocity=(1.0, 2.0, 0.0))
    session.choose(dynamics="context")
    recipe = session.recipe
    words = {"objects": recipe.pushes, "seconds": recipe.seconds, "fps": recipe.fps}
    same(session.animation(), animate("sunny_park", physics=Physics("context"), **words))
    path = State(session.states()[:, 0]).p
    session.push(0, velocity=(-1.0, 2.0, 0.5))  # the kept simulation must not serve this one
    assert (State(session.states()[:, 0]).p[-1] - path[-1]).norm() > 0.1
    coarse = session.coarse(0, velocity=(1.0, 2.0, 0.0))
    assert (coarse[-1] - path[-1]).norm() < 0.05
    assert "--dynamics context" in recipe.command()


@pytest.mark.parametrize("host", ["300.1.1.1", "203.0.113.7", "no such host", "a" * 70])
def test_an_address_of_no_machine_is_refused_at_once(host):
    with pytest.raises(InputError, match="expected an address of this machine"):
        require_own_address(host)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_addresses_of_this_machine_can_be_served(host):
    require_own_address(host)
