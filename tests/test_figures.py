"""The rendered figures of the paper: which frames, which pictures, which words."""

import re
from itertools import pairwise

import numpy as np
import pytest
import torch
from PIL import Image

from newtongs import InputError, State, cli, make_state
from newtongs.paper.datasets import state32
from newtongs.paper.figures import panels, rollouts, stress, strips
from newtongs.paper.figures.panels import BLUE, BORDER, NEUTRAL, PictureGrid
from newtongs.render import write_video
from newtongs.render.video import count_frames, frames_at
from newtongs.scene.transform import transform_sequence


def run(*words):
    cli.main([str(word) for word in words])


def fails(capsys, *words):
    with pytest.raises(SystemExit) as stop:
        run(*words)
    said = capsys.readouterr().err
    assert stop.value.code == 2
    assert said.count("\n") == 1
    return said


def plain(color, height=8, width=8):
    return np.full((height, width, 3), color, np.uint8)


def open_source(path):
    return np.asarray(Image.open(path).convert("RGB"))


# --- panels --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "frames", "index"),
    [(0, 49, 0), (1 / 3, 49, 16), (2 / 3, 49, 32), (1, 49, 48), (1 / 3, 120, 40), (2 / 3, 120, 79),
     (0.2, 64, 13), (1, 1, 0)],
)  # fmt: skip
def test_frame_of_a_normalised_time(f, frames, index):
    assert panels.frame_index(f, frames) == index


@pytest.mark.parametrize(("f", "frames"), [(-0.1, 9), (1.1, 9), (0.5, 0)])
def test_times_outside_are_refused(f, frames):
    with pytest.raises(InputError, match="from 0 to 1"):
        panels.frame_index(f, frames)


def test_padding_keeps_the_shape_of_a_picture():
    wide = panels.padded(plain((9, 9, 9), 10, 20), 40, 40)
    inside = (wide == 9).all(-1)
    assert inside.sum() == 40 * 20
    assert inside[10:30].all()
    assert (wide[~inside] == NEUTRAL).all()
    same = plain((1, 2, 3), 6, 7)
    assert (panels.padded(same, 7, 6) == same).all()


def test_a_border_covers_nothing():
    cells = [[plain((1, 2, 3)), plain((4, 5, 6))], [plain((7, 8, 9)), plain((10, 11, 12))]]
    out = panels.board(PictureGrid(cells, ours=frozenset([(1, 0)])))
    step = 8 + 2 * BORDER
    assert out.shape == (2 * step, 2 * step, 3)
    for i in (0, 1):
        for j in (0, 1):
            part = out[i * step : (i + 1) * step, j * step : (j + 1) * step]
            assert (part[BORDER:-BORDER, BORDER:-BORDER] == cells[i][j]).all()
            assert (part[0] == (BLUE if (i, j) == (1, 0) else 255)).all()


def test_a_page_has_every_pixel_and_every_word(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
    block = PictureGrid([[noise]], title="above", columns=["top"], rows=["left"], notes=["right"])
    png, svg = panels.page(tmp_path / "p.png", [[block]], caption="below it all")
    picture = open_source(png)
    found = [
        (y, x)
        for y, x in np.argwhere((picture == noise[0, 0]).all(-1))
        if np.array_equal(picture[y : y + 20, x : x + 30], noise)
    ]
    assert len(found) == 1
    text = svg.read_text()
    assert all(word in text for word in ("above", "top", "left", "right", "below it all"))


def test_words_stay_on_the_page(tmp_path):
    """The outermost pixels are white: no label, note or title is cut off."""
    block = PictureGrid(
        [[plain(0, 40, 40)]],
        rows=["NEWTONGS MMM WWW"],
        notes=["a long note\nWWWWWWWWWWWWWWWWWWWWW"],
    )
    picture = open_source(panels.page(tmp_path / "p.png", [[block]], formats=[".png"])[0])
    assert (picture[:, [0, -1]] == 255).all()
    assert (picture[[0, -1]] == 255).all()


# --- main figure and panels ----------------------------------------------------------------------


def test_fourteen_motions_and_all_methods():
    assert len(set(rollouts.MAIN_MOTIONS)) == 14
    assert list(rollouts.methods())[-1] == rollouts.OURS
    assert len(rollouts.methods()) == 6
    assert rollouts.PANEL_MOTIONS == ("bouncing_on_plane", "vertical_launch", "throw_and_land")


def test_main_figure(tmp_path):
    drawn = rollouts.main_figure(
        tmp_path / "m.png", chosen=["free_fall", "spring_oscillation"], size=24, across=1
    )
    assert [path.suffix for path in drawn.paths] == [".png", ".svg"]
    picture = open_source(drawn.paths[0])
    blue = (picture == BLUE).all(-1)
    border = 30**2 - 24**2
    assert blue.sum() == 2 * 5 * border  # two motions, five frames
    errors = drawn.facts["traj"]["free_fall"]
    assert errors["ground truth"] == 0
    assert errors["NewtonGS"] < errors["Hold-Z0"]
    text = drawn.paths[1].read_text()
    assert all(word in text for word in ("Gravity-Bounce", "t = 0.75", "spring oscillation"))
    assert "does not name its 14 motions" in drawn.caption


def test_the_methods_see_one_camera_and_start_alike():
    labelled = rollouts.same32_states("throw_and_land")
    paths = rollouts.predictions(labelled, rollouts.methods())
    for z in paths.values():
        assert z.shape == labelled.shape
        torch.testing.assert_close(State(z).p[0], State(labelled).p[0])


def test_panels_show_state32s_id_split(small_state32):
    data = state32.load(small_state32, "val_id")
    for name in rollouts.PANEL_MOTIONS:
        states = data.states[(data.motion_indices == data.motion_names.index(name)).nonzero()[0, 0]]
        assert torch.equal(states, rollouts.state32_states(name))


def test_six_frame_panels(tmp_path):
    drawn = rollouts.six_frame_panels(
        tmp_path / "p.png", chosen=["vertical_launch"], size=24, formats=[".png"]
    )
    blue = (open_source(drawn.paths[0]) == BLUE).all(-1)
    assert blue.sum() == 6 * (30**2 - 24**2)
    assert drawn.facts["traj"]["vertical_launch"] > 0


def test_the_panels_camera_sees_both_paths():
    z = rollouts.state32_states("throw_and_land", 0)
    pixels, depth = rollouts.path_camera(z, 100).project(State(z).p)
    assert (depth > 0).all()
    assert ((pixels > 0) & (pixels < 100)).all()


# --- strips --------------------------------------------------------------------------------------


@pytest.fixture
def film(tmp_path):
    pytest.importorskip("imageio_ffmpeg", reason="needs newtongs[video]")

    def make(path, frames=13, height=32, width=48):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_video(path, [plain(16 * i, height, width) for i in range(frames)], 8)
        return path

    return make


def test_frames_of_a_film(film, tmp_path):
    path = film(tmp_path / "a.mp4")
    assert count_frames(path) == 13
    shades = [frame.mean() for frame in frames_at(path, [12, 0, 4])]
    assert shades == pytest.approx([192, 0, 64], abs=4)
    assert [frame.mean() for frame in strips.film_strip(path)] == pytest.approx(
        [0, 64, 128, 192], abs=4
    )
    with pytest.raises(InputError, match="no frame 13"):
        frames_at(path, [13])


def test_common12_strip_with_the_clips_that_are_there(film, tmp_path):
    folder = tmp_path / "clips"
    for stem in ("our", "Sora", "another"):
        film(folder / strips.STRIP_FOLDER / f"{stem}.mp4")
    drawn = strips.common12_strip(tmp_path / "s.png", clips=folder)
    assert drawn.facts["methods"] == ["Sora", "NewtonGen", "another", "NewtonGS"]
    assert drawn.facts["missing"] == ["CogVideoX", "PhyT2V", "Veo 3", "Wan"]
    assert "PhysT2V.mp4" in drawn.caption
    picture = open_source(drawn.paths[0])
    blue = (picture == BLUE).all(-1)
    assert blue.sum() == 4 * (186 * 126 - 180 * 120)
    alone = strips.common12_strip(tmp_path / "t.png", formats=[".png"])
    assert alone.facts["methods"] == ["NewtonGS"]
    assert open_source(alone.paths[0]).shape[1] > 4 * 180  # a single strip lies down


def test_our_strip_moves_and_is_view_0():
    z, frames = rollouts.own_clip("tumbling_fall", size=32)
    assert len(frames) == len(z) == 49
    four = strips.strip(frames)
    asked = rollouts.own_clip("tumbling_fall", strips.STRIP_TIMES, size=32)[1]
    assert np.array_equal(four, asked)
    assert all((a != b).any() for a, b in pairwise(four))


# --- gallery -------------------------------------------------------------------------------------


def test_the_reason_stands_beside_lost_rows():
    reasons = {name: stress.why_lost(stress.stress_test(name)) for name in stress.STRESS_TESTS}
    lost = {name for name, reason in reasons.items() if reason}
    assert lost == {"circular motion", "parabolic motion"}
    assert "mean y -2.46" in reasons["parabolic motion"]
    assert "under the ground" in reasons["parabolic motion"]
    assert "towards the camera at 8.7" in reasons["circular motion"]


def test_a_prediction_that_only_drifts_out_is_said_so():
    test = stress.stress_test("rotation")
    away = test.states.clone()
    State(away).p[20:, 0] += 50
    lost = stress.StressTest(test.name, test.place, test.labelled, away, test.view)
    assert stress.why_lost(lost) == "The prediction leaves the fixed view at 0.83 s."


@pytest.mark.parametrize("name", stress.STRESS_TESTS)
def test_the_following_camera_has_the_object_in_its_middle(name):
    test = stress.stress_test(name, size=100)
    thing = test.place.object
    means, _ = transform_sequence(thing.means, thing.covariances, make_state(), test.states)
    cameras = stress.following(test)
    for camera, p, g in zip(cameras, State(test.states).p, means, strict=True):
        pixel, depth = camera.project(p)
        assert depth > 2
        assert pixel.tolist() == pytest.approx([50, 50], abs=0.1)
        spots, _ = camera.project(g)
        inside = ((spots >= 0) & (spots < 100)).all(-1).float().mean()
        assert inside > 0.9


def test_gallery_command(tmp_path, monkeypatch, capsys):
    few = {"parabolic motion": stress.STRESS_TESTS["parabolic motion"]}
    monkeypatch.setattr(stress, "STRESS_TESTS", few)
    for framing, reasons in (("paper", 1), ("fit", 0)):
        run("gallery", "--out", tmp_path / f"{framing}.png", "--framing", framing)
        assert capsys.readouterr().out.count("no floor") == reasons
    a, b = (open_source(tmp_path / f"{name}.png") for name in ("paper", "fit"))
    assert a.shape[1] > b.shape[1]  # the note at the right
    with pytest.raises(InputError, match="framing"):
        stress.stress_gallery(tmp_path / "x.png", framing="fot")


# --- commands ------------------------------------------------------------------------------------


def test_commands_draw(tmp_path, capsys):
    run("figure", "main", "--motions", "free_fall", "--size", 16, "--out", tmp_path / "m.png")
    run("figure", "panels", "--motions", "free_fall", "--size", 16, "--out", tmp_path / "p.png")
    run("figure", "strip", "--out", tmp_path / "s.png")
    said = capsys.readouterr().out
    assert len(re.findall("picture written to", said)) == 6
    assert {p.name for p in tmp_path.iterdir()} == {
        "m.png", "m.svg", "p.png", "p.svg", "s.png", "s.svg"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["main", "--motions", "free_fal"], "did you mean free_fall"),
        (["main", "--motions"], "no motion given"),
        (["main", "--seed", "1"], "no state32 weights with seed 1"),
        (["main", "--size", "3"], "16 to 1024 pixels"),
        (["main", "--out", "."], "it is a folder"),
        (["panels", "--sample", "-1"], "0 to 127"),
        (["strip", "--clips", "nowhere"], "nowhere is not a folder"),
        (["strip", "--clips", "empty"], "no clip in empty"),
        (["strip", "--clips", "broken"], "broken/Sora.mp4 cannot be read as a film"),
    ],
)
def test_wrong_input_is_one_line_and_exit_2(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "Sora.mp4").write_text("no film at all")
    before = sorted(tmp_path.iterdir())
    assert said in fails(capsys, "figure", *words)
    assert sorted(tmp_path.iterdir()) == before
