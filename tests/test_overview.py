"""Numbers, axes and ruler in inspect's picture."""

import pytest
import torch
from compositions import composed

from newtongs.pipeline.prepare import main_frame
from newtongs.pipeline.source import Source
from newtongs.pipeline.spec import SceneSpec
from newtongs.scene.cameras import look_at
from newtongs.scene.world_frame import WorldFrame
from newtongs.segment.floor.finding import find_floor, find_floors
from newtongs.segment.objects.clusters import cluster
from newtongs.views.annotate import AXES, GLYPHS, nice_step, ruler, write_text
from newtongs.views.overview import alternatives, overview


@pytest.mark.parametrize(
    ("rough", "step"), [(0.9, 1), (1.4, 1), (2.9, 2), (6, 5), (8, 10), (0.011, 0.01)]
)
def test_steps_are_round(rough, step):
    assert nice_step(rough) == pytest.approx(step)


def test_text_is_drawn_where_it_is_asked_for_and_clipped_at_the_edge():
    picture = torch.zeros(40, 60, 3)
    write_text(picture, "8", (30, 20), color=(1, 0, 0), behind=None, size=1)
    y, x = (picture[..., 0] > 0).nonzero().T
    assert (y.min(), y.max(), x.min(), x.max()) == (17, 21, 29, 31)
    assert len(y) == 13  # an eight of three by five dots has two holes
    write_text(picture, "".join(GLYPHS), (0, 0))


def test_the_ruler_numbers_stand_where_the_physics_frame_says():
    """A line of x = 1 is drawn through the pixels onto which the point (1, 0, 0) is projected."""
    world = WorldFrame.of_floor((0, -1, 0), 0.3, scale=2.0)
    camera = look_at((0.1, -3.0, -3.0), (0.0, -0.3, 0.0), width=300, height=300, up=(0, -1, 0))
    picture = torch.ones(300, 300, 3)
    step = ruler(picture, camera, world, torch.tensor([-1.0, 0, -1.0]), torch.tensor([1.0, 0, 1.0]))
    for x, z in ((0.0, 0.0), (1.0, 0.0), (-1.0, 1.0), (step, -step)):
        at, _ = camera.project(world.to_scene(torch.tensor([x, 0.0, z]).double()))
        u, v = at.round().long().tolist()
        assert picture[v - 1 : v + 2, u - 1 : u + 2].min() < 0.9


def test_the_picture_shows_every_object_whole_with_its_number():
    made = composed("several_objects")
    floor = find_floor(made.scene)
    found = cluster(made.scene, floor)
    world = main_frame(Source(made.scene, None, ours=False), SceneSpec(), floor)
    picture, step = overview(made.scene, world, found)
    assert picture.shape == (480, 640, 3)
    assert step > 0
    assert (picture == 0).all(-1).sum() > 60 * len(found)  # behind each number
    for color in AXES.values():
        assert (picture[300:, :150] - torch.tensor(color)).abs().amax(-1).lt(0.02).any()


def test_alternatives_stand_side_by_side():
    made = composed("chair_alone")
    floors = find_floors(made.scene)[:3]
    assert alternatives(made.scene, floors, size=200).shape == (200, 200 * len(floors), 3)


def test_inspect_tells_its_doubt_draws_the_alternatives_and_takes_a_floor(tmp_path, capsys):
    from newtongs.cli import main
    from newtongs.formats import save

    save(composed("chair_alone").scene, tmp_path / "chair.ply")
    words = ["inspect", str(tmp_path / "chair.ply"), "--plain"]
    main([*words, "--thumbnail", str(tmp_path / "t.png")])
    told = capsys.readouterr().out
    assert "not sure; give --up" in told
    assert (tmp_path / "t.png").exists()
    assert (tmp_path / "t_or.png").exists()
    main([*words, "--up", "0", "1", "0", "--floor", "0.45"])
    told = capsys.readouterr().out
    assert "at 0.45 along up" in told
    assert "doubt" not in told
