"""Numbers, axes and ruler in inspect's picture."""

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from compositions import composed
from furnished_rooms import furnished
from test_portraits import true_clusters

from newtongs.pipeline.prepare import main_frame
from newtongs.pipeline.source import Source, floor_of
from newtongs.pipeline.spec import SceneSpec
from newtongs.scene.cameras import look_at
from newtongs.scene.world_frame import WorldFrame
from newtongs.segment.floor.finding import find_floor, find_floors
from newtongs.segment.objects.clusters import cluster
from newtongs.views.annotate import AXES, GLYPHS, nice_step, overlap, ruler, write_text
from newtongs.views.floor_flags import flags_for, with_axes
from newtongs.views.inventory import inventory
from newtongs.views.numbers import placed
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
    low, high = torch.tensor([-1.0, 0, -1.0]), torch.tensor([1.0, 0, 1.0])
    step, plates = ruler(picture, camera, world, low, high)
    assert len(plates) > 4
    for x, z in ((0.0, 0.0), (1.0, 0.0), (-1.0, 1.0), (step, -step)):
        at, _ = camera.project(world.to_scene(torch.tensor([x, 0.0, z]).double()))
        u, v = at.round().long().tolist()
        assert picture[v - 1 : v + 2, u - 1 : u + 2].min() < 0.9


def drawn(name):
    """A composed scene's clusters and its picture."""
    made = composed(name)
    floor = find_floor(made.scene)
    found = cluster(made.scene, floor)
    world = main_frame(Source(made.scene, None, ours=False), SceneSpec(), floor)
    return found, overview(made.scene, world, found)


@pytest.mark.slow
def test_the_picture_shows_every_object_whole_with_its_number():
    found, seen = drawn("several_objects")
    assert seen.picture.shape == (720, 960, 3)
    assert seen.step > 0
    assert seen.drop == 0
    assert sorted(sign.text for sign in seen.signs) == sorted(str(c.id) for c in found)
    for color in AXES.values():
        assert (seen.picture[450:, :225] - torch.tensor(color)).abs().amax(-1).lt(0.02).any()


def test_a_lone_object_fills_the_picture_though_its_floor_is_far_below():
    made = composed("chair_alone")
    lone = made.scene
    high = WorldFrame.of_floor((0, 1, 0), float(lone.means[:, 1].min()) - 5.0)
    near = WorldFrame.of_floor((0, 1, 0), float(lone.means[:, 1].min()))
    far, close = overview(lone, high), overview(lone, near)
    assert far.drop == pytest.approx(5, abs=0.2)
    assert close.drop == 0
    assert (far.picture - close.picture).abs().mean() < 0.02  # only the ruler's height differs


@pytest.mark.parametrize("name", ["shelf_room", "dining_room", "touching_row", "bookcase"])
@pytest.mark.slow
def test_the_numbers_of_a_room_are_on_their_things_and_apart(name):
    """Every true thing is visible from somewhere in these rooms; the picture is taken from there.

    A pixel of the thing under each sign is nearer to the camera than any wall: the sign is on it.
    """
    made = furnished(name)
    scene, found = made.scene, true_clusters(made, 15)
    seen = overview(scene, WorldFrame.identity(), found)
    assert len(seen.signs) >= 14
    height, width, _ = seen.picture.shape
    for sign in seen.signs:
        left, top, right, bottom = sign.plate
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
        assert (seen.picture[top:bottom, left:right].amax(-1) == 0).float().mean() > 0.4
    for a, b in combinations(seen.signs, 2):
        assert not overlap(a.plate, b.plate)
    places = torch.tensor([sign.on for sign in seen.signs])
    assert len(torch.unique(places, dim=0)) == len(places)


def test_numbers_keep_off_what_is_taken_and_have_a_line_where_they_are_far():
    shown = np.full((100, 200), -1)
    shown[40:60, 20:180] = np.arange(160) // 20  # eight things in a row
    texts = [str(i) for i in range(8)]
    free = placed(texts, shown, 10)
    assert [s.text for s in free] == texts
    assert not any(s.led for s in free)
    above = placed(texts, shown, 10, [(0, 0, 200, 40)])
    assert all(s.plate[1] >= 40 for s in above)
    assert placed(texts, shown, 20 * 20 + 1) == []  # too little is visible
    assert placed(texts, shown, 10, [(0, 0, 200, 100)]) == []  # no room
    shown[:] = 0
    shown[50:53, 100:103] = 1
    (one,) = placed(["0", "1"], shown, 4, [(80, 30, 120, 70)])[1:]
    assert one.led


def test_alternatives_stand_side_by_side_with_their_flags():
    made = composed("chair_alone")
    floors = with_axes(made.scene, find_floors(made.scene)[:3])
    ups = torch.stack([floor.up for floor in floors])
    for axis in torch.cat([torch.eye(3), -torch.eye(3)]).double():
        assert (ups @ axis).amax() > 0.98
    picture = alternatives(made.scene, floors, size=200)
    rows = -(-len(floors) // 4)
    assert picture.shape == (200 * rows, 800, 3)
    for i, floor in enumerate(floors):
        tile = picture[i // 4 * 200 :, i % 4 * 200 :][:200, :200]
        lines = flags_for(floor, floors[0])
        assert all(set(line) <= set(GLYPHS) for line in lines)
        dark = (tile == 0).all(-1)[200 - 18 * len(lines) : 198].sum()
        assert dark > 7 * sum(map(len, lines)) * 8  # a plate as long as its text


@pytest.mark.slow
def test_the_flags_choose_what_they_are_written_on():
    made = composed("several_objects")
    source = Source(made.scene, None, ours=False)
    floor = floor_of(source)
    for other in with_axes(made.scene, [floor, *floor.alternatives]):
        words = " ".join(flags_for(other, floor)).split("--")
        given = {line.split()[0]: [float(x) for x in line.split()[1:]] for line in words[1:]}
        chosen = floor_of(source, given.get("up"), *given.get("floor", []))
        assert chosen.up @ other.up > 0.999
        if "floor" in given:
            assert chosen.height == pytest.approx(other.height, rel=1e-3)


@pytest.mark.slow
def test_inspect_tells_its_doubt_draws_the_alternatives_and_takes_a_floor(tmp_path, capsys):
    from newtongs.cli import main
    from newtongs.formats import save

    save(composed("chair_alone").scene, tmp_path / "chair.ply")
    words = ["inspect", str(tmp_path / "chair.ply"), "--plain"]
    main([*words, "--thumbnail", str(tmp_path / "t.png")])
    told = capsys.readouterr().out
    assert "not sure; give --up" in told
    assert "  or --up 0 0 1 " in told
    assert "  or --up 0 0 -1 " in told
    for name in ("t.png", "t_or.png", "t_things.png"):
        assert (tmp_path / name).exists()
    main([*words, "--up", "0", "1", "0", "--floor", "0.45"])
    told = capsys.readouterr().out
    assert "at 0.45 along up" in told
    assert "doubt" not in told


@pytest.mark.slow
def test_the_json_says_what_the_table_says(tmp_path, capsys):
    from newtongs.cli import main
    from newtongs.formats import save

    made = composed("several_objects")
    save(made.scene, tmp_path / "some.ply")
    words = ["inspect", str(tmp_path / "some.ply"), "--plain"]
    main([*words, "--thumbnail", str(tmp_path / "t.png"), "--json", str(tmp_path / "t.json")])
    told = capsys.readouterr().out
    found = json.loads((tmp_path / "t.json").read_text())
    assert found["things"]
    rows = [line.split("│") for line in told.splitlines() if "│ cluster:" in line]
    assert [row[1].strip() for row in rows] == [thing["select"] for thing in found["things"]]
    for row, thing in zip(rows, found["things"], strict=True):
        assert int(row[2].replace(",", "")) == thing["gaussians"]
        for text, name in ((row[3], "center"), (row[4], "size")):
            assert [float(x) for x in text.split()] == pytest.approx(thing[name], abs=0.0051)
        assert row[5].split()[0].rstrip(",") == thing["stands_on"]
        low, high = (torch.tensor(x) for x in thing["box"])
        assert torch.allclose((low + high) / 2, torch.tensor(thing["center"]), atol=1e-3)
        longest = max(thing["size"]) / max(thing["size_scene"])
        assert longest == pytest.approx(found["meters_per_unit"], rel=0.4)
    assert sum(thing["numbered"] for thing in found["things"]) == len(found["things"])
    assert [Path(name).name for name in found["pictures"]] == ["t.png", "t_things.png"]
    main([*words, "--json", "-"])
    alone = capsys.readouterr().out
    again = json.loads(alone)
    assert again["pictures"] == []
    for thing in found["things"]:
        thing["numbered"] = False
    assert again["things"] == found["things"]


def test_what_things_stand_on():
    """On the shelf: a plane; on the floor; on a larger thing, which has its own number."""
    made = furnished("two_tables_outdoors")
    scene, found = made.scene, true_clusters(made, 15)
    found = [replace(c, base=0.8 if i < 12 else 0.0) for i, c in enumerate(found)]
    entries = inventory(scene, WorldFrame.identity(), found)
    assert {e.stands_on for e in entries[:12]} == {"plane"}
    assert all(e.above_floor == pytest.approx(0.8) for e in entries[:12])
    assert {e.stands_on for e in entries[12:]} == {"floor"}
    table = (scene.ids < 0) & (scene.means[:, 0] < -0.8) & (scene.means[:, 1] > 0.1)
    table &= scene.means[:, 1] < 0.83
    rows = (table & (scene.means[:, 0] > -2.8)).nonzero().squeeze(-1)
    one = replace(found[0], id=99, rows=rows, count=len(rows), base=0.0)
    on = [e.stands_on for e in inventory(scene, WorldFrame.identity(), [*found, one])]
    assert set(on[:6]) == {"cluster:99"}
    assert on[6:12] == ["plane"] * 6


def test_json_describes_scenes_only(tmp_path, capsys):
    from newtongs.cli import main

    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(SystemExit) as stop:
        main(["inspect", str(tmp_path / "a.json"), "--json", "-"])
    assert stop.value.code == 2
    assert "--json describes a scene" in capsys.readouterr().err
