"""The unit of a scene: from a room where it is sure, else from the main object, with a doubt."""

import json
import math
import subprocess
import sys

import pytest
import torch
from compositions import ASSETS, WOOD, box, composed, ground, posed, room, table, thing
from furnished_rooms import ROOMS, furnished

import newtongs
from newtongs.base.state import make, replace
from newtongs.dynamics.surfaces import FLOOR
from newtongs.formats.files import load, save
from newtongs.physics.bodies import Body, Surroundings, lowest
from newtongs.physics.shapes import Shape
from newtongs.physics.simulation import Simulation
from newtongs.pipeline.bodies import TOSS
from newtongs.pipeline.place import TOO_WIDE, unit_doubt
from newtongs.pipeline.source import Source, floor_of
from newtongs.scene.gaussians import BACKGROUND, GaussianScene, join
from newtongs.segment.metres import metres_per_unit, width

SURE = ("counter_room", "dining_room")  # a ceiling, and little but tables and worktops below it


def unmarked(scene):
    return scene.replace(ids=torch.full_like(scene.ids, BACKGROUND))


def measured(scene):
    """Metres per unit, as the pipeline finds them."""
    scene = unmarked(scene)
    return metres_per_unit(scene, floor_of(Source(scene, None, False)))


def small_room(*things, height=2.5, seed=0):
    r = torch.Generator().manual_seed(seed)
    return join(room(2.0, height, 3000, r, sides=3), *(make(r) for make in things))


def desk(top=0.75):
    return lambda r: table(r, y=top, half=0.6, height=top, n=2500)


@pytest.mark.slow
@pytest.mark.parametrize("name", ROOMS)
def test_a_furnished_room_is_measured_where_it_is_sure(name):
    """They are made in metres; a kitchen without its ceiling and shelves of any height say none."""
    if name in ("toy_floor", "kitchen_floor") and not ASSETS.exists():
        pytest.skip("no captures")
    assert measured(furnished(name).scene) == (1.0 if name in SURE else None)


@pytest.mark.slow
@pytest.mark.parametrize("name", SURE)
@pytest.mark.parametrize("seed", range(4))
def test_in_any_pose_within_a_tenth(name, seed):
    made, moved = furnished(name), posed(furnished(name), seed)
    found = measured(moved.scene)
    assert found == pytest.approx(made.size / moved.size, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chair_on_boards", "in_a_room", "carport", "shelf_by_the_wall"])
def test_other_scenes_claim_nothing(name):
    assert measured(composed(name).scene) is None


@pytest.mark.parametrize("name", ["banana.ply", "guitar.compressed.ply", "unicorn_stuffy.ply"])
@pytest.mark.slow
def test_single_objects_claim_nothing(name):
    if not (ASSETS / name).exists():
        pytest.skip("no captures")
    assert measured(load(ASSETS / name)) is None


def test_a_desk_under_a_ceiling_is_enough():
    assert measured(small_room(desk())) == 1.0
    assert measured(small_room()) is None  # a ceiling alone


def test_what_disagrees_claims_nothing():
    assert measured(small_room(desk(1.4))) is None  # a shelf, or a room of another scale
    assert measured(small_room(desk(), height=5.0)) is None  # a hall


def test_a_cupboard_is_no_room():
    """Its top is as high above its middle board as a ceiling above a table, and has walls."""
    r = torch.Generator().manual_seed(0)
    boards = [
        box((-0.5, y - 0.04, -0.3), (0.5, y, 0.3), 2500, r, color=WOOD, open_below=False)
        for y in (0.27, 0.85)
    ]
    sides = [box((x, 0, -0.3), (x + 0.03, 0.85, 0.3), 2500, r, color=WOOD) for x in (-0.5, 0.47)]
    assert measured(join(ground(0.7, 4000, r), *boards, *sides)) is None


def test_a_far_gaussian_changes_nothing():
    scene = small_room(desk())
    far = GaussianScene.make(means=[[3e4, 1e3, -2e4]], scales=[[9.0] * 3], opacities=[1.0])
    with_far = join(scene, far)
    assert measured(with_far) == 1.0
    assert width(unmarked(with_far)) == pytest.approx(width(unmarked(scene)), rel=1e-3)


# --- in the pipeline ------------------------------------------------------------------------------


def toys(scale):
    """A cube on the floor of a room with a desk, everything ``scale`` times as large."""
    cube = thing("red_cube", (-1.0, 0.8), height=0.2, dense=3)
    made = unmarked(join(small_room(desk()), cube))
    return made.replace(means=scale * made.means, log_scales=made.log_scales + math.log(scale))


@pytest.fixture(scope="module")
def thrown():
    return newtongs.animate(
        toys(4.0), seconds=0.2, select="box:-6,0.1,1.2,-2,2,5.2", complete=False
    )


@pytest.mark.slow
def test_a_sure_unit_is_the_unit_of_the_physics(thrown):
    about = thrown.about
    assert (about.unit_is, about.unit_doubt) == ("room", "")
    assert about.scale == pytest.approx(0.25, rel=0.1)


def test_a_small_thing_is_tossed_as_high_for_its_size(thrown):
    """Speeds grow with the root of the size, and so heights with the size."""
    (one,) = thrown.about.objects
    shrunk = one.velocity[1] / TOSS[0][1]
    assert shrunk < 0.9
    assert one.velocity == pytest.approx([shrunk * v for v in TOSS[0]])
    assert one.spin == pytest.approx([w / shrunk for w in TOSS[1]], abs=1e-6)


@pytest.mark.parametrize("size", [0.05, 0.12, 0.5])
def test_small_things_come_to_rest_as_large_ones_do(size):
    """At true metres: a cube tossed alike for its size sinks in little, rests and sleeps."""
    root = math.sqrt(size / 0.5)
    v, w = (torch.tensor(x, dtype=torch.float64) for x in TOSS)
    z = make(p=torch.tensor([0.0, 1.2 * size, 0.0]), v=root * v, w=w / root, m=1.0, e=0.3)
    z = replace(z.double(), s=(size / 2,) * 3)
    cube = Body(z, Shape.box((size / 2,) * 3))
    simulation = Simulation([cube], surroundings=Surroundings((FLOOR,)))
    states = simulation.run(torch.arange(240, dtype=torch.float64) / 60)
    low = torch.as_tensor(lowest(cube, states[:, 0]))
    assert float(low.min()) > -0.01 * size
    assert abs(float(low[-1])) < 1e-4 * size
    assert bool(simulation.asleep[0])


@pytest.mark.slow
def test_a_given_unit_wins():
    made = newtongs.animate(
        toys(1.0), seconds=0.1, select="box:-1.5,0.02,0.3,-0.5,0.5,1.3", complete=False,
        meters_per_unit=2.0, velocity=(1, 0, 0),
    )  # fmt: skip
    assert (made.about.unit_is, made.about.scale) == ("given", 2.0)


@pytest.mark.slow
def test_built_in_scenes_are_as_they_were():
    made = newtongs.animate("sunny_park", seconds=0.1)
    assert (made.about.unit_is, made.about.unit_doubt) == ("object", "")
    assert made.about.objects[0].velocity == pytest.approx(TOSS[0])


def test_a_wide_scene_of_no_known_unit_is_doubted():
    """54 units wide around a main object of 1.5: a site."""
    doubt = unit_doubt(54.0, 0.3)
    assert "16.2 metres wide (54 units)" in doubt
    assert "--meters-per-unit" in doubt
    assert not unit_doubt(0.99 * TOO_WIDE / 0.3, 0.3)
    assert not unit_doubt(None, 0.3)


@pytest.mark.slow
def test_the_commands_say_where_the_unit_comes_from(tmp_path):
    r = torch.Generator().manual_seed(1)
    site = join(ground(20.0, 9000, r), *(thing("yellow_cone", (3 * i, 2.0), id_=i) for i in (0, 1)))
    for name, scene in (("site", site), ("toys", toys(4.0))):
        save(unmarked(scene), tmp_path / f"{name}.ply")
    said = {
        name: newtongs_says("inspect", tmp_path / f"{name}.ply", "--plain", "--thumbnail", seen)
        for name in ("site", "toys")
        for seen in (tmp_path / "seen.png",)
    }
    assert "by the height of ceiling and furniture" in said["toys"]
    assert "uncertain: with the main object" not in said["toys"]
    assert "unit: not told by the scene" in said["site"]
    assert "give --meters-per-unit" in said["site"]
    said = newtongs_says(
        "animate", tmp_path / "site.ply", "--out", tmp_path, "--formats", "json", "--seconds", "0.1"
    )
    assert "by the main object, taken to be half a metre large" in said
    assert "give --meters-per-unit" in said
    about = json.loads((tmp_path / "site.json").read_text())["about"]
    assert about["unit_is"] == "object"
    assert about["unit_doubt"].startswith("with the main object")


def newtongs_says(*words):
    command = [sys.executable, "-m", "newtongs", *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
