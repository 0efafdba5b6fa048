"""The kitchen table: who is who, closed surfaces, edges to fall off, and a floor below."""

import math

import numpy as np
import pytest
import torch

import newtongs
from newtongs import cli, samples
from newtongs.base.state import State
from newtongs.formats.files import load
from newtongs.physics.colliders import collider
from newtongs.physics.shapes import Shape
from newtongs.render import render
from newtongs.samples import SCENES, kitchen_table, named_scene
from newtongs.scene.cameras import look_at
from newtongs.scene.world_frame import WorldFrame

THINGS = {"box": 0, "tin": 1, "mug": 2, "orange": 3}
FLOOR = kitchen_table.FLOOR


@pytest.fixture(scope="module")
def scene():
    return named_scene("kitchen_table").scene()


@pytest.fixture(scope="module")
def kitchen(scene):
    return scene.object(-1)


@pytest.fixture(scope="module", params=[0.025, 0.03])
def solid(kitchen, request):
    """The kitchen's collider in cells of about the size that things of 0.8 and 1.0 get."""
    return collider(kitchen, WorldFrame.identity(), size=0.8, cell=request.param)


def tops(boxes, x, z, *, below):
    """Highest top under the height ``below`` over points of the plane, -inf where nothing is."""
    x, z = (a.ravel() for a in np.meshgrid(x, z))
    found = np.full(len(x), -np.inf)
    for low, high in boxes[boxes[:, 1, 1] < below]:
        over = (x >= low[0]) & (x <= high[0]) & (z >= low[2]) & (z <= high[2])
        found[over] = np.maximum(found[over], high[1])
    return found


def reaching_into(boxes, low, high):
    """How many boxes reach into another one."""
    return int(((boxes[:, 0] < high) & (boxes[:, 1] > low)).all(-1).sum())


def inside(alpha):
    """Pixels three within the outline, from which holes of up to four pixels are left out."""

    def widened(x, by):
        return torch.nn.functional.max_pool2d(x[None], 2 * by + 1, stride=1, padding=by)[0]

    return -widened(-widened((alpha > 0.5).float(), 2), 5) > 0.5


def test_numbers_and_ids(scene):
    assert scene.object_ids == [-1, 0, 1, 2, 3]
    assert 25_000 < len(scene) < 45_000
    for index in THINGS.values():
        assert 1000 < len(scene.object(index)) < 5000
    for x in (scene.means, scene.quats, scene.log_scales, scene.logits, scene.sh):
        assert torch.isfinite(x).all()
    assert scene.colors.min() > -1e-5
    assert scene.colors.max() < 1 + 1e-5


def test_made_twice_is_made_alike(scene):
    again = kitchen_table.kitchen_table.__wrapped__().numpy()
    for name, x in scene.numpy().items():
        np.testing.assert_array_equal(x, again[name])


def test_it_has_a_name_and_is_no_template(scene, tmp_path, capsys):
    assert "kitchen_table" in SCENES
    assert "kitchen_table" not in samples.names()
    assert len(samples.TEMPLATES) == 10
    cli.main(["data", "scene", "kitchen_table", "--out", str(tmp_path / "k.ply")])
    assert "cereal box, tin, mug and orange" in capsys.readouterr().out
    assert load(tmp_path / "k.ply").object_ids == scene.object_ids


# --- the things -----------------------------------------------------------------------------------


def test_things_stand_on_the_table(scene):
    for index in THINGS.values():
        low, high = scene.object(index).bounds(sigmas=1)
        assert low[1] == pytest.approx(kitchen_table.LIFT, abs=1e-6)  # none reaches into the top
        assert scene.object(index).bounds()[0][1] < 0.01
        for k, half in ((0, kitchen_table.HALF_X), (2, kitchen_table.HALF_Z)):
            assert max(-low[k], high[k]) < half


def test_things_have_their_sizes(scene):
    size = {name: torch.sub(*scene.object(i).bounds()[::-1]) for name, i in THINGS.items()}
    assert size["tin"][1] == pytest.approx(kitchen_table.TIN_HEIGHT, abs=0.01)
    assert size["tin"][0] == pytest.approx(2 * kitchen_table.TIN_RADIUS, abs=0.01)
    assert size["box"][1] == pytest.approx(kitchen_table.CEREAL_SIZE[1], abs=0.02)
    assert size["mug"][1] == pytest.approx(kitchen_table.MUG_HEIGHT, abs=0.02)
    middle = sum(scene.object(THINGS["orange"]).bounds()) / 2
    off = (scene.object(THINGS["orange"]).means - middle).norm(dim=-1)
    assert (off - kitchen_table.ORANGE_RADIUS).abs().max() < 1e-3


def test_no_two_things_overlap(scene):
    boxes = [scene.object(i).bounds(sigmas=2) for i in THINGS.values()]
    for i in range(len(boxes)):
        for k in range(i):
            gap = torch.maximum(boxes[i][0] - boxes[k][1], boxes[k][0] - boxes[i][1])
            assert gap.max() > 0, (i, k)


def test_shapes_are_what_they_look_like(scene):
    shapes = {
        name: Shape.of_gaussians(scene.object(i), WorldFrame.identity(), np.zeros(3))
        for name, i in THINGS.items()
    }
    assert shapes["orange"].radius == pytest.approx(kitchen_table.ORANGE_RADIUS, rel=0.02)
    assert len(shapes["box"].pieces) == len(shapes["tin"].pieces) == 1  # convex
    assert len(shapes["mug"].pieces) > 1  # hollow, with a handle


# --- surfaces -------------------------------------------------------------------------------------


def test_gaussians_are_flat_and_narrow(kitchen):
    """Small things leave wide Gaussians out of the collider; thick ones would blur its surface."""
    scales = kitchen.scales.sort(-1).values
    x, y, z = kitchen.means.unbind(-1)
    table = (x.abs() < 1.61) & (z.abs() < 1.01) & (y > -0.13) & (y < 0.01)
    assert table.sum() > 7000
    assert scales[table, 2].max() < 0.06
    floor = (y - FLOOR).abs() < 1e-5
    assert floor.sum() > 8000
    assert scales[floor, 2].max() < 0.3 * 2 * kitchen_table.ORANGE_RADIUS
    assert scales[:, 2].max() < 0.12
    assert (scales[:, 0] / scales[:, 1]).max() < 0.2


@pytest.mark.parametrize("azimuth", [0, 25, 140])
@pytest.mark.parametrize("index", THINGS.values(), ids=THINGS.keys())
def test_things_have_no_holes(scene, index, azimuth):
    thing = scene.object(index)
    if index == THINGS["mug"]:  # without its handle, through which one can see
        x, z, _ = kitchen_table.SPOTS[index]
        off = (thing.means[:, [0, 2]] - torch.tensor([x, z])).norm(dim=-1)
        thing = thing[off < kitchen_table.MUG_RADIUS + 1e-3]
    low, high = thing.bounds()
    aim, a = (low + high) / 2, math.radians(azimuth)
    eye = aim + torch.tensor([1.4 * math.sin(a), 0.5, 1.4 * math.cos(a)])
    camera = look_at(eye, aim, width=320, height=320, fov=45)
    alpha = render(thing, camera, backend="ewa").alpha
    covered = alpha[inside(alpha)]
    assert len(covered) > 2000
    assert covered.min() > 0.95


@pytest.mark.parametrize(
    ("eye", "aim"), [((0, 2.2, 0.01), (0, 0, 0)), ((4, 0.3, 3.5), (3, FLOOR, 2))]
)
def test_table_and_floor_are_opaque(kitchen, eye, aim):
    camera = look_at(eye, aim, width=160, height=100, fov=30)
    assert render(kitchen, camera, backend="ewa").alpha.min() > 0.95


def test_nothing_hides_the_table(kitchen):
    """Between the table and the usual cameras there is air, and far to the left as well."""
    x, y, z = kitchen.means.unbind(-1)
    assert not ((y > 0.02) & (z > -2) & (x > -6)).any()
    above_sills = (y > FLOOR + kitchen_table.SILL + 0.01) & (z > -2) & (x > -6)
    assert (x[above_sills].abs().max(), z[above_sills].abs().max()) < (1.61, 1.01)


# --- what can be touched --------------------------------------------------------------------------


def test_top_is_level_and_whole(solid):
    inside = 0.04  # where the edge is not yet rounded
    x = np.arange(-kitchen_table.HALF_X + inside, kitchen_table.HALF_X - inside, 0.01)
    z = np.arange(-kitchen_table.HALF_Z + inside, kitchen_table.HALF_Z - inside, 0.01)
    found = tops(solid.boxes, x, z, below=0.3)
    assert np.abs(found).max() < 0.02


def test_beside_the_table_all_is_free_down_to_the_floor(solid):
    far = 2 * solid.cell  # a cell that the surface cuts, and its blur
    x, z, low = kitchen_table.HALF_X + far, kitchen_table.HALF_Z + far, FLOOR + far
    for a, b in (
        ((x, low, -2.1), (5.4, 3, 4.3)),
        ((-4.4, low, -2.1), (-x, 3, 4.3)),
        ((-4.4, low, z), (5.4, 3, 4.3)),
        ((-x, 0.02, -2.1), (x, 3, 4.3)),
    ):
        assert reaching_into(solid.boxes, a, b) == 0


def test_low_boards_keep_things_in_the_room(solid):
    for x, z in ((5.54, np.arange(-2.2, 4.4, 0.05)), (np.arange(-6.2, 5.5, 0.05), 4.44)):
        found = tops(solid.boxes, x, z, below=-1)
        assert np.abs(found - FLOOR - kitchen_table.SILL).max() < 2 * solid.cell


def test_floor_is_whole(solid):
    found = np.concatenate([
        tops(solid.boxes, np.arange(1.7, 5.4, 0.03), np.arange(-2.1, 4.3, 0.03), below=-1.5),
        tops(solid.boxes, np.arange(-6.1, 5.4, 0.03), np.arange(1.1, 4.3, 0.03), below=-1.5),
    ])  # fmt: skip
    assert np.abs(found - FLOOR).max() < 0.03


def test_what_is_set_into_it_is_set_above_the_table(kitchen):
    """The place is the median of the Gaussians; 0.5 of the table must be left around it."""
    x, _, z = kitchen.means.median(0).values.tolist()
    assert abs(x) < kitchen_table.HALF_X - 0.5
    assert abs(z) < kitchen_table.HALF_Z - 0.5


# --- motion ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def slid():
    """The orange pushed over the right edge."""
    push = {"select": "id:3", "velocity": (1.5, 0.0, 0.0), "restitution": 0.0, "loose": True}
    return newtongs.animate("kitchen_table", seconds=2.5, **push)


@pytest.mark.slow
def test_a_thing_falls_off_the_edge_onto_the_floor(slid):
    p = State(slid.states[0]).p
    on = p[:, 0] < kitchen_table.HALF_X
    r = kitchen_table.ORANGE_RADIUS
    assert (p[on, 1] - r).abs().max() < 0.02
    assert p[-1, 0] > kitchen_table.HALF_X
    assert p[-1, 1] == pytest.approx(FLOOR + r, abs=0.03)


def test_the_others_stand_still(slid):
    for index in (1, 2, 3):
        p = State(slid.states[index]).p
        assert (p - p[0]).norm(dim=-1).max() < 0.01


@pytest.mark.slow
def test_a_thing_that_is_not_pushed_stays():
    for index in THINGS.values():
        still = newtongs.animate(
            "kitchen_table", select=f"id:{index}", velocity=(0.0, 0.0, 0.0), seconds=0.5
        )
        p = State(still.states[0]).p
        assert (p - p[0]).norm(dim=-1).max() < 0.01
