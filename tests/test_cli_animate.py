"""The commands a person with a splat file uses, and what they say when something is wrong."""

import json
import os
import sys

import pytest

from newtongs import InputError, cli
from newtongs.cli.continuing import Continue
from newtongs.exports.replay import load_animation
from newtongs.formats.files import load, save
from newtongs.pipeline import source
from newtongs.samples import template

SMALL = ["--size", "64", "48", "--seconds", "0.25"]


@pytest.fixture(scope="module")
def park(tmp_path_factory):
    path = tmp_path_factory.mktemp("scene") / "park.ply"
    cli.main(["data", "scene", "sunny_park", "--out", str(path)])
    return path


def run(*words):
    cli.main([str(word) for word in words])


@pytest.mark.slow
def test_one_command_makes_everything(park, tmp_path, capsys):
    pytest.importorskip("imageio_ffmpeg", reason="needs newtongs[video]")
    run("animate", park, "--out", tmp_path, *SMALL, "--formats", "mp4", "gif", "png", "json", "glb",
        "html", "ply")  # fmt: skip
    said = capsys.readouterr().out
    assert "1,536 of 4,736" in said
    for ending in ("mp4", "gif", "png", "json", "npz", "glb", "html"):
        assert (tmp_path / f"park.{ending}").stat().st_size > 500, ending
    assert len(list((tmp_path / "park_ply").glob("*.ply"))) == 7
    assert len(load(tmp_path / "park_ply" / "frame0001.ply")) == 4736


@pytest.mark.slow
def test_replay_is_the_same_animation(park, tmp_path, capsys):
    run("animate", park, "--out", tmp_path / "a", *SMALL, "--formats", "json", "png")
    run("replay", tmp_path / "a" / "park.json", "--out", tmp_path / "b", "--size", 64, 48,
        "--formats", "png")  # fmt: skip
    assert (tmp_path / "a" / "park.png").read_bytes() == (tmp_path / "b" / "park.png").read_bytes()


@pytest.mark.slow
def test_slow_motion_is_continued_at_the_speed_of_the_simulation(park, tmp_path):
    run("animate", park, "--out", tmp_path, *SMALL, "--slow", "3", "--formats", "json")
    path = tmp_path / "park.json"
    made = load_animation(path)
    assert float(made.times[-1]) == pytest.approx(0.75)
    assert made.fps == pytest.approx(24)
    assert float(Continue(track=path).observed().times[-1]) == pytest.approx(0.25)
    tree = json.loads(path.read_text())
    path.write_text(json.dumps(tree | {"about": tree["about"] | {"slow": "x"}}))
    with pytest.raises(InputError, match="changed by hand: slow is 'x'"):
        Continue(track=path).observed()


def test_the_paper_has_four_views_and_replays(park, tmp_path, capsys):
    """Settings that agree with the paper may be said; the other views are pictures only."""
    run("animate", park, "--out", tmp_path / "a", *SMALL, "--formats", "json", "png", "--paper",
        "--scale", "free")  # fmt: skip
    sheets = [tmp_path / "a" / f"park{v}.png" for v in ("", "_view1", "_view2", "_view3")]
    assert len({sheet.read_bytes() for sheet in sheets}) == 4
    assert sorted((tmp_path / "a").glob("*.json")) == [tmp_path / "a" / "park.json"]
    assert load_animation(tmp_path / "a" / "park.json").form == "impl"
    run("replay", tmp_path / "a" / "park.json", "--out", tmp_path / "b", "--size", 64, 48,
        "--formats", "png", "--framing", "paper")  # fmt: skip
    for sheet in sheets:
        assert (tmp_path / "b" / sheet.name).read_bytes() == sheet.read_bytes()


@pytest.mark.slow
def test_pushes_in_words(park, tmp_path):
    run("animate", park, "--out", tmp_path, *SMALL, "--formats", "json",
        "--push", "select=id:0 velocity=0,4,0 spin=0,0,-2 restitution=0.9")  # fmt: skip
    (one,) = load_animation(tmp_path / "park.json").about.objects
    assert not (tmp_path / "park_scene.ply").exists()  # the capture itself is referred to
    assert one.velocity == (0, 4, 0)
    assert one.restitution == pytest.approx(0.9)


@pytest.mark.slow
def test_inspect_a_scene_an_animation_and_a_checkpoint(park, tmp_path, capsys):
    run("inspect", park, "--thumbnail", tmp_path / "t.png", "--plain")
    said = capsys.readouterr().out
    assert "4,736 Gaussians" in said
    assert "cluster:0" in said
    assert "id:0" in said
    assert (tmp_path / "t.png").read_bytes()[1:4] == b"PNG"
    run("animate", park, "--out", tmp_path, *SMALL, "--formats", "json")
    run("inspect", tmp_path / "park.json")
    assert "7 frames at 24 Hz" in capsys.readouterr().out
    weights = os.path.join(os.path.dirname(cli.__file__), "..", "checkpoints")
    run("inspect", os.path.join(weights, "state32_seed7302.safetensors"))
    about = capsys.readouterr().out.partition("\n")[2]
    assert json.loads(about)["training"]["seed"] == 7302


@pytest.mark.slow
def test_a_scene_of_ours_by_name_and_as_a_background(tmp_path):
    run("animate", "desk_blue_sphere", "--out", tmp_path, *SMALL, "--formats", "png")
    save(template("red_cube").object, tmp_path / "cube.ply")
    run("animate", tmp_path / "cube.ply", "--out", tmp_path, *SMALL, "--formats", "json",
        "--background", "kitchen_counter", "--up", 0, 1, 0)  # fmt: skip
    assert len(load_animation(tmp_path / "cube.json").scene) == 1536 + 3200


@pytest.mark.slow
def test_the_capture_is_never_overwritten(tmp_path, capsys):
    save(template("red_cube").object, tmp_path / "cube.ply")
    before = (tmp_path / "cube.ply").read_bytes()
    words = ["--out", tmp_path, *SMALL, "--formats", "json", "glb", "--up", 0, 1, 0]
    run("animate", tmp_path / "cube.ply", *words)  # a disc is added to the scene
    run("animate", tmp_path / "cube.ply", *words, "--background", "kitchen_counter")
    assert (tmp_path / "cube.ply").read_bytes() == before
    assert len(load_animation(tmp_path / "cube.json").scene) == 1536 + 3200


@pytest.mark.slow
def test_a_search_says_which_push_it_found(park, tmp_path, capsys):
    run(
        "animate",
        park,
        "--out",
        tmp_path,
        *SMALL,
        "--formats",
        "json",
        "--goal",
        "displace 0.1 0 0",
    )
    about = load_animation(tmp_path / "park.json").about
    said = capsys.readouterr().out
    assert "--velocity" in said
    assert f"{about.objects[0].velocity[0]:.3g}" in said
    assert f"misses it by {about.goal_missed_by[0]:.3g}" in said


@pytest.mark.slow
def test_a_background_file_makes_room_for_the_object(park, tmp_path):
    save(template("red_cube").object, tmp_path / "cube.ply")
    run("animate", tmp_path / "cube.ply", "--out", tmp_path, *SMALL, "--formats", "json",
        "--background", park, "--up", 0, 1, 0, "--height", 0.9)  # fmt: skip
    assert len(load_animation(tmp_path / "cube.json").scene) == 1536 + 3200  # the ball is gone


@pytest.mark.slow
def test_a_json_changed_by_hand_is_one_line(park, tmp_path, capsys):
    run("animate", park, "--out", tmp_path, *SMALL, "--formats", "json")
    tree = json.loads((tmp_path / "park.json").read_text())
    for key in ("world", "scene", "objects", "numbers"):
        (tmp_path / "bad.json").write_text(json.dumps({**tree, key: 5}))
        with pytest.raises(SystemExit) as stop:
            run("replay", tmp_path / "bad.json", "--out", tmp_path / "o")
        assert stop.value.code == 2
        assert "changed by hand" in capsys.readouterr().err


def bad_file(path):
    path.write_text("this is no splat")
    return path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{bad}"], "ply"),
        (["{park}.no"], "no"),
        ([], "SCENE.ply"),
        (["{park}", "--select", "box:90,90,90,91,91,91"], "no Gaussian"),
        (["{park}", "--select", "sphere:1"], "sphere:0,0.5,0,1"),
        (["{park}", "--floor", "3"], "below the floor"),
        (["{park}", "--velocity", "1", "2"], "three numbers"),
        (["{park}", "--out", "{bad}"], "folder"),
        (["{park}", "--formats", "mp5"], "mp4"),
        (["{park}", "--background", "sunny_prak"], "sunny_prak"),
        (["{park}", "--goal", "fly to the moon"], "land at"),
        (["{park}", "--push", "speed=3"], "velocity"),
        (["{park}", "--restitution", "2"], "between 0 and 1"),
        (["{park}", "--dynamics", "magic"], "learned"),
        (["{park}", "--checkpoint", "{bad}"], "checkpoint"),
        (["{park}", "--checkpoint", "{park}.no"], "no checkpoint"),
        (["{park}", "--motion", "free_fal"], "free_fall"),
        (["{park}", "--motion", "free_fall", "--velocity", "1", "0", "0"], "one or the other"),
        (["{park}", "--motion", "free_fall", "--goal", "land at 0 0"], "give one"),
        (["{park}", "--plane", "0", "0", "0", "1"], "must not be zero"),
        (["{park}", "--plane", "1", "0", "0"], "plane"),
        (["{park}", "--box", "1", "0", "0", "0", "1", "1"], "x0 < x1"),
        (["{park}", "--friction", "-1"], "friction"),
        (["{park}", "--push", "velocity=1,2,0", "--mass", "9"], "ignored with --push"),
        (["{park}", "--paper", "--dynamics", "structured"], "structured contradicts --paper"),
        (["{park}", "--paper", "--dynamics", "analytic"], "analytic contradicts --paper"),
        (["{park}", "--paper", "--scale", "rigid"], "rigid contradicts --paper, which is free"),
        (["{park}", "--paper", "--contact", "world"], "world contradicts --paper"),
        (["{park}", "--paper", "--framing", "fit"], "fit contradicts --paper"),
        (["{park}", "--paper", "--friction", "0.1"], "--friction contradicts --paper"),
        (["{park}", "--paper", "--plane", "0", "1", "0", "0"], "--plane contradicts --paper"),
        (["{park}", "--paper", "--background", "sunny_park"], "--background contradicts --paper"),
        (["{park}", "--paper", "--motion", "free_fall"], "--motion contradicts --paper"),
        (["{park}", "--paper", "--copies", "2"], "--copies contradicts --paper"),
        (["{park}", "--paper", "--gravity", "2"], "--gravity contradicts --paper"),
        (["{park}", "--copies", "60"], "--copies: expected 1 to 50, got 60"),
        (["{park}", "--copies", "2", "--goal", "land at 1 0"], "leave out --copies"),
        (["{park}", "--slow", "0"], "--slow: expected 1 to 20"),
        (["{park}", "--gravity", "1", "--dynamics", "learned"], "got learned"),
        (["{park}", "--paper", "--loose"], "--loose contradicts --paper"),
        (["{park}", "--paper", "--push", "motion=free_fall"], "labelled path"),
        (["{park}", "--scale", "free"], "contact 'paper'"),
        (["{park}", "--loose", "--contact", "paper"], "loose"),
        (["{park}", "--loose"], "no other upright object"),
        (["sunny_prak"], "sunny_park"),
        (["{park}", "--size", "100000", "9"], "8192"),
        (["{park}", "--color", "5", "0", "0"], "from 0 to 1"),
        (["{park}", "--velocity", "1e9", "0", "0"], "up to 1000"),
        (["{park}", "--velocity", "nan", "0", "0"], "up to 1000"),
        (["{park}", "--push", "mass=2", "--velocity", "1", "0", "0"], "give one"),
        (["{park}", "--goal", "land at 0 0", "--spin", "1", "0", "0"], "give one"),
        (["{park}", "--height", "1"], "--background"),
        (["{park}", "--height", "0", "--background", "sunny_park"], "positive"),
        (["{park}", "--seconds", "0"], "more than 0"),
        (["{park}", "--seconds", "0.01"], "two frames"),
        (["{park}", "--floor", "nan"], "scene units"),
        (["{park}", "--best"], "nearest to a --goal"),
        (["{park}", "--attenuation", "0.5"], "applies only with --contact paper"),
        (["{park}", "--contact", "paper", "--friction", "0.1"], "ignored with --contact paper"),
        (["{park}", "--framing", "paper", "--azimuth", "40"], "contradicts --framing paper"),
        (["{park}", "--cameras", "{park}", "--elevation", "40"], "contradicts --cameras"),
        (["{park}", "--formats", "json,mp5"], "unknown format 'mp5'"),
        (["{park}", "--formats", ","], "unknown format"),
        (["{park}", "--background", "{park}.no"], "cannot read"),
    ],
)
def test_wrong_input_is_one_line_and_exit_2(words, said, park, tmp_path, capsys):
    names = {"bad": bad_file(tmp_path / "bad.ply"), "park": park}
    words = [word.format(**names) for word in words]
    rest = [] if "--out" in words else ["--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as stop:
        run("animate", *words, *rest, *([] if "--formats" in words else ["--formats", "json"]))
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert said in error
    assert error.count("\n") == 1
    assert error.startswith("newtongs: ")


@pytest.mark.parametrize(
    ("missing", "words", "extra"),
    [
        ("pxr", ["--formats", "json", "usd"], "newtongs[usd]"),
        ("imageio_ffmpeg", ["--formats", "json,mp4"], "newtongs[video]"),
        ("gsplat", ["--renderer", "gsplat"], "newtongs[gpu]"),
    ],
)
@pytest.mark.parametrize("command", ["animate", "replay"])
def test_a_missing_extra_is_named_before_the_work(
    command, missing, words, extra, tmp_path, monkeypatch, capsys
):
    """The scene is not even read: this one could not be."""
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, "newtongs.render.gsplat_backend", raising=False)
    ending = "json" if command == "replay" else "ply"
    with pytest.raises(SystemExit) as stop:
        run(command, bad_file(tmp_path / f"bad.{ending}"), "--out", tmp_path / "out", *words)
    assert stop.value.code == 2
    assert extra in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_formats_with_commas(park, tmp_path):
    run("animate", park, "--out", tmp_path, *SMALL, "--formats", "json,png", "glb")
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"park.json", "park.npz", "park.png", "park.glb"}


@pytest.mark.slow
def test_a_goal_out_of_reach_is_refused_unless_the_best_will_do(park, tmp_path, capsys):
    words = ["animate", park, "--out", tmp_path / "out", *SMALL, "--formats", "json",
             "--goal", "land at 40 0"]  # fmt: skip
    with pytest.raises(SystemExit) as stop:
        run(*words)
    refused = capsys.readouterr()
    assert stop.value.code == 2
    assert refused.out == ""
    assert refused.err.count("\n") == 1
    assert "out of reach" in refused.err
    assert "--best" in refused.err
    assert not (tmp_path / "out").exists()
    run(*words, "--best")
    (missed,) = load_animation(tmp_path / "out" / "park.json").about.goal_missed_by
    assert f"misses it by {missed:.3g} " in refused.err
    assert f"misses it by {missed:.3g} " in capsys.readouterr().out


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(park, tmp_path, capsys):
    tmp_path.chmod(0o500)
    with pytest.raises(SystemExit) as stop:
        run("animate", park, "--out", tmp_path / "out")
    assert stop.value.code == 2
    assert "cannot write" in capsys.readouterr().err


def test_gallery(tmp_path, monkeypatch):
    from newtongs.paper.figures import stress

    few = dict(list(stress.STRESS_TESTS.items())[:2])
    monkeypatch.setattr(stress, "STRESS_TESTS", few)
    run("gallery", "--out", tmp_path / "gallery.png")
    assert (tmp_path / "gallery.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.slow
def test_the_scene_is_read_once(tmp_path, monkeypatch):
    """Also where the size of a ply sequence is estimated before the work."""
    read, opened = source.open_source, []
    monkeypatch.setattr(source, "open_source", lambda *a: opened.append(a[0]) or read(*a))
    out = tmp_path / "o"
    cli.main(["animate", "desk_blue_sphere", "--out", str(out), "--formats", "ply", "--seconds",
              "0.1", "--velocity", "1", "0", "0"])  # fmt: skip
    assert opened == ["desk_blue_sphere"]
