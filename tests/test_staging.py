"""Objects set into another scene, and the one unit of a scene."""

import math

import pytest
import torch

import newtongs
from newtongs.base.errors import InputError, InputWarning
from newtongs.base.state import State
from newtongs.cli import as_flag
from newtongs.pipeline.spec import ObjectSpec, Place
from newtongs.scene.gaussians import GaussianScene, join
from newtongs.scene.similarity import extent

Y = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)


def solid(low, high, n=6000, seed=0, **fields):
    """Gaussians all over the faces of a box."""
    random = torch.Generator().manual_seed(seed)
    low, high = torch.tensor(low), torch.tensor(high)
    x = low + (high - low) * torch.rand(n, 3, generator=random)
    face = torch.randint(6, (n,), generator=random)
    for k in range(3):
        x[face == 2 * k, k], x[face == 2 * k + 1, k] = low[k], high[k]
    spacing = float((high - low).max()) / math.sqrt(n / 6)
    return GaussianScene.make(means=x, scales=torch.full((n,), 0.7 * spacing), **fields)


def room():
    """A floor, a table with its top at 1 and a ceiling at 4."""
    return join(
        solid((-4.0, -0.1, -4.0), (4.0, 0.0, 4.0), 20000),
        solid((1.0, 0.9, -1.0), (3.0, 1.0, 1.0), 8000),
        solid((-4.0, 4.0, -4.0), (4.0, 4.1, 4.0), 20000),
    )


def thing():
    return solid((-0.2, -0.3, -0.1), (0.2, 0.3, 0.1), 3000)


def staged(**options):
    options = {"lift": 0.0, "height": 0.6, "up": (0, 1, 0), "floor_height": 0.0} | options
    unit = options.pop("meters_per_unit", 1.0)
    place = Place(room(), **options)
    return newtongs.animate(thing(), place=place, up=(0, 1, 0), seconds=0.1, meters_per_unit=unit)


@pytest.mark.slow
@pytest.mark.parametrize(("at", "height"), [((-2.0, 0.5), 0.0), ((2.0, 0.0), 1.0)])
def test_it_stands_on_what_is_there(at, height):
    animation = staged(at=at)
    low, high = extent(animation.scene.object(0), Y)
    assert low == pytest.approx(height, abs=0.05)
    assert high - low == pytest.approx(0.6, rel=0.02)
    p = State(animation.world.state_to_physics(animation.states[0][0])).p
    assert p[::2].tolist() == pytest.approx(at, abs=0.02)


@pytest.mark.slow
def test_a_unit_is_as_long_as_it_is_said_to_be():
    animation = staged(at=(-1.0, 0.25), meters_per_unit=0.5, lift=1.0)
    assert animation.world.scale == 0.5
    x = animation.scene.object(0).means.mean(0)
    assert x[::2].tolist() == pytest.approx((-2.0, 0.5), abs=0.02)
    assert extent(animation.scene.object(0), Y)[0] == pytest.approx(0.6, abs=0.05)


@pytest.mark.slow
def test_it_is_turned_about_up():
    plain, turned = staged(at=(-2.0, 0.0)), staged(at=(-2.0, 0.0), turn=90.0)
    widths = [
        [b - a for a, b in (extent(animation.scene.object(0), d) for d in torch.eye(3).double())]
        for animation in (plain, turned)
    ]
    assert widths[1] == pytest.approx([widths[0][2], widths[0][1], widths[0][0]], rel=0.05)


def test_what_starts_inside_something_is_told():
    with pytest.warns(UserWarning, match="inside other objects.*at=X Z"):
        staged(at=(2.0, 0.0), height=3.5)  # no room on the table, nor under it


@pytest.mark.slow
@pytest.mark.parametrize("at", [(50.0, 50.0), (0.0, -5.0), (6.0, 2.0)])
def test_a_position_outside_the_background_gives_a_warning(at):
    with pytest.warns(InputWarning) as caught:
        staged(at=at, meters_per_unit=0.5)  # the room is 8 units wide, 4 physics units
    (message,) = (one.message for one in caught)
    assert isinstance(message, InputWarning)
    assert str(message) == (
        f"the object is at x {at[0]:g}, z {at[1]:g}, outside the background, which extends from -2 "
        "to 2 in x and from -2 to 2 in z (physics units); change at=X Z"
    )
    assert message.spelled(as_flag).endswith("change --at X Z")


@pytest.mark.slow
@pytest.mark.parametrize("at", [(0.0, 0.0), (3.9, -3.9), (4.1, 0.0)])
def test_a_position_inside_the_background_or_across_its_edge_gives_none(at, recwarn):
    staged(at=at)
    assert not [one for one in recwarn if "outside the background" in str(one.message)]


@pytest.mark.parametrize("length", [0.0, -1.0, math.inf, math.nan])
def test_a_unit_has_a_length(length):
    with pytest.raises(InputError, match="meters_per_unit"):
        staged(meters_per_unit=length)


@pytest.mark.parametrize("wrong", [{"at": (1.0,)}, {"turn": math.nan}, {"lift": -1.0}])
def test_places_that_are_none(wrong):
    with pytest.raises(InputError, match="at"):
        staged(**wrong)


# --- one unit a scene ----------------------------------------------------------------------------


def two_things():
    """A large and a small thing on a floor, marked in the file."""
    return join(
        solid((-4.0, -0.001, -4.0), (4.0, 0.0, 4.0), 20000),
        solid((-0.3, 0.0, -0.3), (0.3, 0.8, 0.3), 3000, ids=0),
        solid((1.0, 0.0, 1.0), (1.3, 0.3, 1.3), 2000, ids=1),
    )


@pytest.mark.slow
@pytest.mark.parametrize("named", [["id:0"], ["id:1"], ["id:0", "id:1"], ["id:1", "id:0"]])
def test_the_unit_is_the_same_whichever_objects_are_named(named):
    alone = newtongs.animate(two_things(), up=(0, 1, 0), seconds=0.1)
    pushes = [ObjectSpec(select=name) for name in named]
    animation = newtongs.animate(two_things(), objects=pushes, up=(0, 1, 0), seconds=0.1)
    assert animation.world.scale == pytest.approx(alone.world.scale, rel=1e-6)


@pytest.mark.slow
def test_the_unit_of_a_capture_does_not_change_with_a_second_object():
    scene = two_things()
    bare = scene.replace(ids=torch.full_like(scene.ids, -1))
    found = [
        newtongs.animate(
            bare, objects=[ObjectSpec(select=s) for s in names], up=(0, 1, 0), seconds=0.1
        ).world.scale
        for names in (["auto"], ["cluster:0"], ["cluster:1"], ["cluster:1", "cluster:0"])
    ]
    assert found == pytest.approx([found[0]] * 4, rel=0.03)


@pytest.mark.slow
def test_a_thing_of_another_order_of_size_shares_the_unit_and_is_tossed_less():
    scene = join(two_things(), solid((-2.0, 0.0, -2.0), (-1.9, 0.1, -1.9), 1000, ids=2))
    small, main = (
        newtongs.animate(scene, select=which, up=(0, 1, 0), seconds=0.1)
        for which in ("id:2", "auto")
    )
    assert small.world.scale == pytest.approx(main.world.scale, rel=1e-6)
    assert 0 < small.about.objects[0].velocity[1] < 0.6 * main.about.objects[0].velocity[1]
