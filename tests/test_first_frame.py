"""Appendix F from an LGM file to the figure: the three sets, the anchored motion, the pictures."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from newtongs import InputError, State, cli
from newtongs.dynamics.search import PAPER_GOAL, draw
from newtongs.formats.files import load
from newtongs.paper.figures import first_frame as figures
from newtongs.paper.figures.first_frame import PAPER_COUNTS, Region, first_frame, lgm_camera
from newtongs.paper.figures.panels import BLUE
from newtongs.render import write_video
from newtongs.samples.bowling import bowling
from newtongs.scene.gaussians import GaussianScene
from newtongs.scene.transform import affine

FEW = 64  # candidates


def run(*words):
    cli.main([str(word) for word in words])


def along_rays(pixels, depth):
    """Points that LGM's camera sees at these pixels and depths."""
    camera = lgm_camera()
    x = torch.cat([pixels, torch.ones_like(pixels[:, :1])], -1)
    rays = x @ torch.linalg.inv(camera.K).T * depth[:, None]
    return (rays - camera.w2c[:3, 3]) @ camera.w2c[:3, :3]


def around(n, low, high, generator):
    """Pixels at radii between ``low`` and ``high`` around (120, 300)."""
    angle = 2 * torch.pi * torch.rand(n, generator=generator)
    radius = low + (high - low) * torch.rand(n, generator=generator)
    return torch.stack([120 + radius * angle.cos(), 300 + radius * angle.sin()], -1)


def lgm_rows(means):
    n = len(means)
    rest = [torch.full((n, 1), 0.9), torch.full((n, 3), 0.01), torch.tensor([[1.0, 0, 0, 0]] * n)]
    return torch.cat([means, *rest, torch.rand(n, 3)], -1)


@pytest.fixture(scope="module")
def asset(tmp_path_factory):
    """An LGM file with as many Gaussians of each kind as the paper counts, shuffled."""
    g = torch.Generator().manual_seed(0)
    n = PAPER_COUNTS

    def depths(count, low, high):
        return low + (high - low) * torch.rand(count, generator=g)

    half = n["static"] // 2
    points = [
        (around(n["foreground"], 0, 19.9, g), depths(n["foreground"], 1.31, 1.49)),
        (around(n["ghosts"], 0, 14.9, g), depths(n["ghosts"], 1.6, 2.0)),
        (around(half, 20.1, 200, g), depths(half, 0.5, 3)),  # beside the object
        # Behind it, but outside of the smaller footprint.
        (around(n["static"] - half, 15.1, 19.9, g), depths(n["static"] - half, 1.6, 3)),
    ]
    means = torch.cat([along_rays(pixels, depth) for pixels, depth in points])
    kind = torch.repeat_interleave(
        torch.tensor([0, 1, 2]), torch.tensor([n["foreground"], n["ghosts"], n["static"]])
    )
    order = torch.randperm(len(means), generator=g)
    path = tmp_path_factory.mktemp("lgm") / "alley.npy"
    np.save(path, lgm_rows(means)[order][None].numpy())
    return path, kind[order]


REGION = Region((120, 300, 20), (1.3, 1.5))


def test_the_three_sets_are_counted_exactly(asset):
    path, kind = asset
    scene = load(path)
    marked, counts = figures.grouped(scene, lgm_camera(), REGION)
    assert counts == PAPER_COUNTS
    assert counts["gaussians"] == counts["foreground"] + counts["ghosts"] + counts["static"]
    assert torch.equal(marked.ids, torch.where(kind == 0, 0, -1)[kind != 1])
    assert torch.equal(marked.means, scene.means[kind != 1])


def test_footprint_and_ghost_depth(asset):
    scene = load(asset[0])
    none = figures.grouped(scene, lgm_camera(), Region((120, 300, 20), (1.3, 1.5), 0.0))[1]
    assert none["ghosts"] == 0
    near = Region((120, 300, 20), (1.3, 1.5), 1.0, ghost_depth=(1.5, 1.6))
    assert figures.grouped(scene, lgm_camera(), near)[1]["ghosts"] == 0
    whole = figures.grouped(scene, lgm_camera(), Region((120, 300, 20), (1.3, 1.5), 1.0))[1]
    assert whole["ghosts"] == PAPER_COUNTS["ghosts"] + PAPER_COUNTS["static"] // 2


def test_the_stand_in_is_a_ball_with_a_ghost_before_a_hall(tmp_path):
    path = tmp_path / "bowling.npy"
    region = figures.write_stand_in(path)
    rows = np.load(path)
    ids = bowling().ids.numpy()
    ball, ghost = np.arange(len(rows)) < 0, np.arange(len(rows)) >= len(ids)
    ball[: len(ids)] = ids == 0
    assert ghost.sum() == -(-ball.sum() // 3)
    # The rule again, by hand: LGM's camera looks along -z from 1.5 and has 512 pixels.
    depth = 1.5 - rows[:, 2]
    f = 256 / np.tan(np.radians(49.1 / 2))
    u, v = 256 + f * rows[:, 0] / depth, 256 - f * rows[:, 1] / depth
    with np.errstate(invalid="ignore"):
        away = np.where(depth > 0, np.hypot(u - region.circle[0], v - region.circle[1]), np.inf)
    low, high = region.depth
    front = (away <= region.circle[2]) & (depth >= low - 1e-6) & (depth <= high + 1e-6)
    behind = (away <= 0.75 * region.circle[2]) & ~front
    behind &= (depth >= region.ghost_depth[0]) & (depth <= region.ghost_depth[1])
    _, counts = figures.grouped(load(path), lgm_camera(), region)
    assert counts == {
        "gaussians": len(rows), "foreground": front.sum(), "ghosts": behind.sum(),
        "static": len(rows) - front.sum() - behind.sum(),
    }  # fmt: skip
    assert front[ball].all()
    assert behind[ghost].all()
    assert ball.sum() < front.sum() < 1.02 * ball.sum()  # a little of the lane under the ball
    with pytest.raises(InputError, match=r"end in \.npy"):
        figures.write_stand_in(tmp_path / "x.ply")


# --- the motion ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def moving(asset):
    return first_frame(load(asset[0]), REGION, candidates=FEW)


def test_the_candidates_know_no_scene(moving):
    """The winner is one of State-32's objects on the model's floor, wherever the ball lies."""
    drawn = draw(FEW)
    assert (drawn == moving.found.z0).all(-1).sum() == 1
    assert State(moving.found.z0).p[1] == State(moving.found.z0).s[1]
    assert PAPER_GOAL.target == (0.72, 0, 0)


def test_displacements_are_anchored_one_to_one(moving):
    from newtongs.dynamics.backends import predictor
    from newtongs.dynamics.weights import load_pretrained

    z = predictor(load_pretrained(7301))(moving.found.z0[None], torch.arange(49) / 24)[0]
    centroid = moving.scene.object(0).means.double().mean(0).float()
    expected = centroid + State(z).p - State(z).p[0]
    torch.testing.assert_close(State(moving.states).p, expected)
    assert torch.equal(moving.states[:, 3:], z[:, 3:])  # rotation and scale as predicted
    last = moving.frame(1.0).object(0)
    A = affine(z[0], z[-1], "impl")
    wanted = (moving.scene.object(0).means - centroid) @ A.T + expected[-1]
    torch.testing.assert_close(last.means, wanted, atol=1e-5, rtol=1e-5)


def test_the_first_frame_is_the_scene_and_the_background_stays(moving):
    for f in (0.0, 0.6, 1.0):
        frame = moving.frame(f)
        still = frame.ids == -1
        assert torch.equal(frame.means[still], moving.scene.means[still])
        if f == 0:
            assert torch.equal(frame.means, moving.scene.means)
            assert torch.equal(frame.log_scales, moving.scene.log_scales)
        else:
            assert not torch.equal(frame.means[~still], moving.scene.means[~still])


@pytest.mark.slow
def test_the_paper_search_moves_by_072():
    from newtongs.dynamics.search import search
    from newtongs.dynamics.weights import load_pretrained

    found = search(load_pretrained(7301))
    assert found.miss < 0.05


# --- the figures ---------------------------------------------------------------------------------


def test_windows_hold_the_object(moving):
    for f, (left, top, w, h) in zip(figures.SHOWN, figures.zoom_windows(moving), strict=True):
        assert 0 <= left <= 512 - w
        assert 0 <= top <= 512 - h
        spots, _ = moving.camera.project(moving.frame(f).object(0).means)
        inside = (spots >= torch.tensor([left, top])) & (spots <= torch.tensor([left + w, top + h]))
        on_screen = ((spots >= 0) & (spots < 512)).all(-1)
        assert inside.all(-1)[on_screen].float().mean() > 0.9


def test_a_zoomed_camera_shows_the_same_pixels():
    camera = lgm_camera()
    near = figures.zoomed(camera, (100, 200, 128, 64), 256, 128)
    points = torch.randn(50, 3) * 0.2
    a, b = camera.project(points)[0], near.project(points)[0]
    torch.testing.assert_close((a - torch.tensor([100.0, 200])) * 2, b, atol=1e-3, rtol=1e-4)


def test_six_frames_with_the_magnified_region_below(moving, tmp_path):
    drawn = figures.first_frame_figure(tmp_path / "f.png", moving, width=40, source="test")
    blue = (np.asarray(Image.open(drawn.paths[0]).convert("RGB")) == BLUE).all(-1)
    assert blue.sum() == 12 * (46**2 - 40**2)
    assert drawn.facts["counts"] == PAPER_COUNTS
    assert "62,710 Gaussians 347 are the foreground, 273 ghosts" in drawn.caption
    assert json.loads(json.dumps(drawn.facts)) == drawn.facts


def test_beside_public_videos(moving, tmp_path):
    pytest.importorskip("imageio_ffmpeg", reason="needs newtongs[video]")
    folder = tmp_path / "clips" / "Acceleration"
    folder.mkdir(parents=True)
    write_video(folder / "Sora.mp4", [np.full((16, 24, 3), 25 * i, np.uint8) for i in range(9)], 8)
    drawn = figures.juxtaposed_figure(
        tmp_path / "j.png", moving, clips=tmp_path / "clips", width=40
    )
    assert drawn.facts["videos"] == ["Sora"]
    assert "PhysT2V.mp4" in drawn.caption
    alone = figures.juxtaposed_figure(tmp_path / "k.png", moving, width=40, formats=[".png"])
    assert alone.facts["videos"] == []
    assert "Public videos not given: CogVideoX.mp4" in alone.caption
    heights = [Image.open(d.paths[0]).height for d in (drawn, alone)]
    assert heights[0] > heights[1]


# --- the command ---------------------------------------------------------------------------------


def test_command_with_a_file(asset, tmp_path, capsys):
    run("figure", "first-frame", asset[0], "--circle", 120, 300, 20, "--depth", 1.3, 1.5,
        "--candidates", FEW, "--size", 32, "--out", tmp_path)  # fmt: skip
    said = capsys.readouterr().out
    assert "347 are the foreground, 273 ghosts are left out and 62,090 stay" in said
    assert "Public videos not given" in said
    facts = json.loads((tmp_path / "first_frame.json").read_text())
    assert facts["counts"] == PAPER_COUNTS
    assert (tmp_path / "first_frame.svg").is_file()


def test_command_without_a_file(tmp_path, capsys):
    run("figure", "first-frame", "--candidates", FEW, "--size", 32, "--out", tmp_path)
    assert "made by code" in capsys.readouterr().out
    assert len(np.load(tmp_path / "bowling_lgm.npy").shape) == 2


def test_without_a_circle_the_view_is_drawn(asset, tmp_path, capsys):
    run("figure", "first-frame", asset[0], "--out", tmp_path)
    assert "512 x 512" in capsys.readouterr().out
    assert Image.open(tmp_path / "reference.png").size == (512, 512)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing.npy"], "cannot read nothing.npy"),
        (["{thin}"], "expected shape (..., N, 14)"),
        (["{asset}", "--circle", "120", "300", "20"], "have depths 1.3"),
        (["{asset}", "--circle", "-900", "0", "1"], "no Gaussian in that circle"),
        (["{asset}", "--depth", "1", "2"], "give both"),
        (["{asset}", "--circle", "120", "300", "20", "--depth", "9", "10"], "no Gaussian between"),
        (["{asset}", "--circle", "120", "300", "0", "--depth", "1", "2"], "radius above zero"),
        (["{asset}", "--circle", "120", "300", "20", "--depth", "2", "1"], "near <= far"),
        (["{asset}", "--candidates", "0"], "at least 1"),
        (["{asset}", "--clips", "nowhere"], "nowhere is not a folder"),
        (["{asset}", "--cameras", "nowhere"], "nowhere"),
        (["{asset}", "--color", "2", "0", "0"], "from 0 to 1"),
        (["{asset}", "--size", "1"], "16 to 1024"),
        (["{asset}", "--out", "{asset}"], "it is a file"),
    ],
)
def test_wrong_input_is_one_line_and_exit_2(words, said, asset, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("thin.npy", np.zeros((5, 13), np.float32))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(SystemExit) as stop:
        run("figure", "first-frame", *(w.format(asset=asset[0], thin="thin.npy") for w in words))
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert error.count("\n") == 1
    assert said in error
    assert sorted(tmp_path.iterdir()) == before


def test_an_object_of_one_gaussian_is_drawn(tmp_path):
    """Its extent is zero: the region that is magnified must not be."""
    scene = GaussianScene.make(means=[[0.0, 0, 0], [0.3, 0.3, 0]], scales=[0.02, 0.02])
    one = first_frame(scene, Region((256, 256, 10), (1, 2)), candidates=FEW)
    assert one.counts["foreground"] == 1
    figures.first_frame_figure(tmp_path / "o.png", one, width=20, formats=[".png"])
