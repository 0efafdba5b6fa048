"""Up and floor: ten furnished scenes in any pose, objects alone, a table with noise and specks."""

import math

import pytest
import torch

from newtongs.base import rotations
from newtongs.base.errors import InputError
from newtongs.samples import names, template
from newtongs.scene.gaussians import GaussianScene, join
from newtongs.segment.floor.finding import find_floor

WITH_FLOOR = [name for name in names() if name != "orbit_space"]  # that one has a veil of dust


def moved(scene, q, k, b):
    """The scene turned by ``q``, enlarged ``k`` times and shifted by ``b``."""
    turns = q.expand(len(scene), 4)
    return scene.replace(
        means=k * rotations.rotate(turns, scene.means) + b,
        quats=rotations.multiply(turns, scene.quats),
        log_scales=scene.log_scales + math.log(k),
    )


def furnished(name, seed):
    """A template's object (id 0) standing in its scene; and the object's height."""
    random = torch.Generator().manual_seed(seed)
    s = 0.9 * (0.85 + 0.33 * torch.rand(3, generator=random))
    thing, place = template(name).object, template(name).background
    at = torch.tensor([0.0, 0.5 * s[1].item() + 0.015, 0.0])
    standing = thing.replace(means=s * thing.means + at, ids=torch.zeros(len(thing)).long())
    return join(standing, place), s[1].item()


def any_pose(seed):
    """A rotation, a size from 0.1 to 10 and a shift."""
    random = torch.Generator().manual_seed(seed)
    q = rotations.normalize(torch.randn(4, generator=random, dtype=torch.float64)).float()
    k = float(10 ** (2 * torch.rand((), generator=random) - 1))
    return q, k, 10 * k * torch.randn(3, generator=random)


def degrees_between(a, b):
    a, b = a.double(), b.double()
    return math.degrees(math.atan2(float(torch.linalg.cross(a, b).norm()), float(a @ b)))


def discs(means, normal, sigma, **more):
    """Flat Gaussians with one normal."""
    z = torch.tensor([0.0, 0.0, 1.0])
    axis = torch.linalg.cross(z, normal)
    turn = rotations.from_axis_angle(axis, torch.atan2(axis.norm(), z @ normal))
    scales = torch.tensor([1.0, 1.0, 0.15]) * sigma
    n = len(means)
    return GaussianScene.make(
        means=means, scales=scales.expand(n, 3), quats=turn.expand(n, 4), **more
    )


def table_with_box(noise=0.01, specks=60):
    """A table 4 wide at y = 0, a box on it, a rough surface, and specks on all sides of it."""
    y = torch.tensor([0.0, 1.0, 0.0])
    top = 4 * torch.rand(4000, 3) - 2
    top[:, 1] = noise * torch.randn(4000)
    box = torch.rand(3000, 3) - 0.5
    face, axis = torch.randint(0, 2, (3000,)), torch.randint(0, 3, (3000,))
    box[torch.arange(3000), axis] = face - 0.5
    box = box * torch.tensor([0.8, 1.0, 0.6]) + torch.tensor([0.3, 0.5, -0.2])
    loose = 6 * torch.rand(specks, 3) - 3
    return join(
        discs(top, y, 0.05),
        GaussianScene.make(means=box, scales=torch.full((3000,), 0.02), ids=0),
        GaussianScene.make(means=loose, scales=torch.full((specks,), 0.02)),
    )


@pytest.mark.parametrize("name", WITH_FLOOR)
@pytest.mark.parametrize("seed", [1, 2])
def test_furnished_scenes_in_any_pose(name, seed):
    scene, size = furnished(name, seed)
    q, k, b = any_pose(10 * seed + names().index(name))
    floor = find_floor(moved(scene, q, k, b))
    up = rotations.rotate(q, torch.tensor([0.0, 1.0, 0.0]))
    assert floor.kind == "found"
    assert degrees_between(floor.up, up) < 3
    assert abs(floor.height - float(up @ b)) < 0.03 * k * size


def test_a_veil_of_dust_does_for_a_floor():
    """Between stars there is none, but what is taken for it lies in the disc of dust."""
    scene, size = furnished("orbit_space", 3)
    floor = find_floor(scene)
    assert degrees_between(floor.up, torch.tensor([0.0, 1.0, 0.0])) < 3
    assert abs(floor.height) < 0.05 * size


@pytest.mark.parametrize("name", names())
def test_an_object_alone_has_no_floor(name):
    q, k, b = any_pose(names().index(name))
    assert find_floor(moved(template(name).object, q, k, b)).kind == "virtual"


@pytest.mark.parametrize("name", ["sunny_park", "living_room_table", "construction_floor"])
def test_few_large_gaussians_make_a_floor_under_many_small_ones(name):
    """A capture of a toy has twenty times the Gaussians of the plain floor that it stands on."""
    d = torch.nn.functional.normalize(torch.randn(30_000, 3), dim=-1)
    toy = GaussianScene.make(
        means=d * torch.tensor([0.3, 0.45, 0.3]) + torch.tensor([0.0, 0.45, 0.0]),
        scales=torch.full((30_000,), 0.006),
    )
    q, k, b = any_pose(5)
    floor = find_floor(moved(join(toy, template(name).background), q, k, b))
    up = rotations.rotate(q, torch.tensor([0.0, 1.0, 0.0]))
    assert floor.kind == "found"
    assert degrees_between(floor.up, up) < 1
    assert abs(floor.height - float(up @ b)) < 0.01 * k


@pytest.mark.parametrize("seed", range(4))
def test_a_rough_tilted_table_with_specks_below(seed):
    torch.manual_seed(seed)
    q, k, b = any_pose(seed)
    scene = table_with_box(noise=[0.0, 0.005, 0.01, 0.02][seed])
    floor = find_floor(moved(scene, q, k, b))
    up = rotations.rotate(q, torch.tensor([0.0, 1.0, 0.0]))
    assert floor.kind == "found"
    assert degrees_between(floor.up, up) < 1
    assert abs(floor.height - float(up @ b)) < 0.01 * k
    assert 0.4 < floor.share < 0.8


def test_up_turns_and_height_grows_with_the_scene():
    """find_floor(moved scene) is the moved find_floor(scene), where no axis is preferred."""
    scene = table_with_box()
    q, k, b = any_pose(7)
    q0 = any_pose(8)[0]
    first = find_floor(moved(scene, q0, 1.0, torch.zeros(3)))
    turned = find_floor(moved(moved(scene, q0, 1.0, torch.zeros(3)), q, k, b))
    up = rotations.rotate(q.double(), first.up)
    assert degrees_between(turned.up, up) < 0.2
    assert turned.height == pytest.approx(k * first.height + float(up @ b.double()), abs=0.005 * k)
    assert turned.thickness == pytest.approx(k * first.thickness, rel=0.1)


@pytest.mark.parametrize(
    ("axis", "wanted"), [(1, (0.0, -1.0, 0.0)), (2, (0.0, 0.0, 1.0))], ids=["y", "z"]
)
def test_of_floor_and_ceiling_the_convention_decides(axis, wanted):
    """A scene that is its own mirror image: only the usual directions can break the tie."""
    half = 4 * torch.rand(2000, 3) - 2
    half[:, axis] = -1
    d = torch.nn.functional.normalize(torch.randn(600, 3), dim=-1)
    blob = torch.cat([0.5 * d, -0.5 * d])
    normal = torch.eye(3)[axis]
    both = discs(torch.cat([half, -half]), normal, 0.05)
    scene = join(both, GaussianScene.make(means=blob, scales=torch.full((1200,), 0.02)))
    floor = find_floor(scene)
    assert degrees_between(floor.up, torch.tensor(wanted)) < 1
    assert floor.height == pytest.approx(-1, abs=0.01)


def test_a_given_up_is_kept():
    q, k, b = any_pose(3)
    up = rotations.rotate(q, torch.tensor([0.0, 1.0, 0.0])).double()
    floor = find_floor(moved(table_with_box(), q, k, b), up=3 * up)
    assert torch.allclose(floor.up, up / up.norm(), atol=1e-12)
    assert floor.height == pytest.approx(float(up @ b.double()), abs=0.01 * k)


def test_the_same_seed_gives_the_same_floor():
    scene = table_with_box()
    a, b = find_floor(scene, seed=4), find_floor(scene, seed=4)
    assert torch.equal(a.up, b.up)
    assert (a.height, a.share, a.description) == (b.height, b.share, b.description)


def test_a_virtual_floor_lies_under_the_thing_not_under_the_specks():
    d = torch.nn.functional.normalize(torch.randn(4000, 3), dim=-1)
    specks = torch.tensor([[0.0, 3.0, 0.0], [0.5, 5.0, 0.2], [0.1, 4.0, 0.0]])
    scene = GaussianScene.make(means=torch.cat([d, specks]) + 2, scales=torch.full((4003,), 0.02))
    floor = find_floor(scene)
    assert floor.kind == "virtual"
    assert floor.up.tolist() == [0, -1, 0]  # y points down in captures
    assert floor.height == pytest.approx(-3, abs=0.02)
    assert floor.share == floor.thickness == 0


def test_a_flat_base_speaks_for_another_up():
    pyramid = template("display_orange_pyramid").object
    floor = find_floor(pyramid)
    assert floor.up.tolist() == [0, 1, 0]
    assert floor.height == pytest.approx(-0.5, abs=0.01)
    assert "+y" in floor.description


def test_heights_are_measured_from_the_floor():
    floor = find_floor(table_with_box())
    points = torch.randn(5, 3)
    sign = 1 if floor.up[1] > 0 else -1
    assert torch.allclose(floor.heights(points), sign * points[:, 1], atol=0.05)


def test_one_gaussian_and_a_haze_are_scenes_too():
    dot = GaussianScene.make(means=[[1.0, 2.0, 3.0]], scales=[0.1])
    assert find_floor(dot).height == pytest.approx(-2)
    haze = GaussianScene.make(
        means=torch.randn(500, 3), scales=torch.full((500,), 0.1), opacities=torch.full((500,), 0.1)
    )
    assert find_floor(haze).kind == "virtual"


@pytest.mark.parametrize("up", [(0, 0, 0), (1, 2), "north", (float("nan"), 1, 0)])
def test_a_wrong_up_is_one_clear_line(up):
    with pytest.raises(InputError, match="up: expected three numbers"):
        find_floor(table_with_box(), up=up)


def test_an_empty_scene_is_one_clear_line():
    nothing = GaussianScene.make(means=torch.zeros(0, 3), scales=torch.zeros(0, 3))
    with pytest.raises(InputError, match="empty scene"):
        find_floor(nothing)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"logits": torch.full((50,), -200.0)}, "has an opacity above zero"),
        ({"logits": torch.full((50,), torch.nan)}, "has an opacity above zero"),
        ({"means": 1e30 * torch.randn(50, 3)}, "scale it down"),
    ],
)
def test_scenes_in_which_nothing_can_be_found_are_one_clear_line(changes, match):
    scene = GaussianScene.make(means=torch.randn(50, 3), scales=torch.full((50,), 0.1))
    with pytest.raises(InputError, match=match):
        find_floor(scene.replace(**changes))
