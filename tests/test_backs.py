"""Walls behind a thing are mended, and the backs of a thing that no camera saw are closed."""

import pytest
import torch
from captured_things import GREY, RED, capture, greedy, painted, random, slab

import newtongs
from newtongs.pipeline.pick import pick
from newtongs.pipeline.source import Source
from newtongs.pipeline.spec import SceneSpec
from newtongs.render import render
from newtongs.scene.cameras import look_at
from newtongs.scene.frames import LATER
from newtongs.scene.gaussians import join
from newtongs.segment.cutout.extraction import take_out
from newtongs.segment.floor.finding import FloorPlane

WHITE, GREEN, DARK, BLUE = (0.9, 0.9, 0.85), (0.2, 0.6, 0.3), (0.1, 0.1, 0.1), (0.0, 0.0, 1.0)
WALL = -0.4  # z of the wall
LOW, HIGH = (-0.25, 0.0, -0.36), (0.25, 0.4, 0.0)  # corners of the box


def face(low, high, color, *, step=0.012, seed=0):
    """Discs on an axis-aligned rectangle, thin across it."""
    low, high = torch.tensor(low), torch.tensor(high)
    thin = int((high - low).argmin())
    a, b = ((high - low)[k] for k in range(3) if k != thin)
    x = low + (high - low) * random(int(2 * a * b / step**2), 3, seed)
    sigma = torch.full((3,), step).index_fill(0, torch.tensor([thin]), 0.002)
    return painted(x, sigma, color, seed=seed)


def box(*, back):
    """A box without a bottom: green in front, red elsewhere; with or without its back."""
    (x, y, z), (X, Y, Z) = LOW, HIGH
    sides = [
        face((x, y, Z), (X, Y, Z), GREEN, seed=1), face((x, y, z), (x, Y, Z), RED, seed=2),
        face((X, y, z), (X, Y, Z), RED, seed=3), face((x, Y, z), (X, Y, Z), RED, seed=4),
    ]  # fmt: skip
    return join(*sides, *([face((x, y, z), (X, Y, z), RED, seed=5)] if back else []))


def before_a_wall(*, back=False):
    """The box on a floor before a wall that has a hole and dark smears behind it."""
    wall = face((-1.5, 0.0, WALL), (1.5, 1.5, WALL), WHITE, step=0.02, seed=6)
    x = wall.means
    behind = (x[:, 0].abs() < 0.2) & (x[:, 1] < 0.33)
    smear = face((-0.15, 0.05, WALL), (0.15, 0.15, WALL), DARK, step=0.02, seed=7)
    ground = slab(1.5)
    under = (ground.means[:, 0].abs() < 0.24) & (ground.means[:, 2] > -0.4)
    under &= ground.means[:, 2] < 0.0
    ground = ground[~under & (ground.means[:, 2] > WALL)]
    parts = {"thing": box(back=back), "wall": wall[~behind], "smear": smear, "floor": ground}
    of = torch.cat([torch.full((len(s),), i) for i, s in enumerate(parts.values())])
    floor = FloorPlane(torch.tensor([0.0, 1, 0]).double(), 0.0, 0.5, "found", 0.01, "at zero")
    return join(*parts.values()), {name: of == i for i, name in enumerate(parts)}, floor


def of_wall(scene):
    """Picture and opacity of the wall behind the box, from the front."""
    camera = look_at((0.0, 0.2, 3.0), (0.0, 0.2, WALL), width=96, height=96, fov=5.5)
    seen = render(scene, camera, background=BLUE)
    return seen.color, seen.alpha


def test_the_wall_behind_is_whole_and_of_its_colour():
    scene, parts, floor = before_a_wall()
    found = take_out(scene, parts["thing"], floor)
    _, open_ = of_wall(scene[parts["wall"]])
    color, whole = of_wall(join(scene[~found.mask & ~found.hidden], found.fill))
    assert open_.min() < 0.05
    assert whole.min() > 0.6
    assert whole.mean() > 0.97
    assert (color - torch.tensor(WHITE)).norm(dim=-1).mean() < 0.05
    assert found.hidden[parts["smear"]].float().mean() > 0.9


def test_the_wall_keeps_its_own_and_the_thing_too():
    scene, parts, floor = before_a_wall()
    found = take_out(scene, parts["thing"], floor)
    assert not found.mask[parts["wall"]].any()
    away = (scene.means[:, 0].abs() > 0.4) | (scene.means[:, 1] > 0.6)
    assert not found.hidden[parts["wall"] & away].any()
    assert (found.mask | found.hidden)[parts["thing"]].float().mean() > 0.99


def test_a_board_edge_is_no_wall():
    scene, parts, floor = before_a_wall()
    edge = face((-1.4, 0.15, 0.1), (1.4, 0.2, 0.1), GREY, step=0.02, seed=8)
    both = join(scene, edge)
    mask = torch.cat([parts["thing"], torch.zeros(len(edge), dtype=torch.bool)])
    found = take_out(both, mask, floor)
    assert (found.fill.means[:, 2] < 0.05).all()
    assert not found.hidden[len(scene) :].any()


def test_an_unseen_back_is_closed_in_the_colours_of_the_front():
    scene, parts, floor = before_a_wall()
    backs = take_out(scene, parts["thing"], floor).backs
    middle = backs.means[:, 0].abs() < 0.15
    middle &= (backs.means[:, 1] > 0.1) & (backs.means[:, 1] < 0.3)
    assert middle.sum() > 50
    x, color = backs.means[middle], backs.colors[middle]
    assert x[:, 2].median() == pytest.approx(LOW[2], abs=0.03)
    assert x[:, 2].min() > WALL
    assert (color - torch.tensor(GREEN)).norm(dim=-1).median() < 0.1


@pytest.mark.slow
def test_what_was_seen_all_around_gains_nothing():
    scene, parts, floor = before_a_wall(back=True)
    assert len(take_out(scene, parts["thing"], floor).backs) < 0.01 * int(parts["thing"].sum())
    scene, parts, floor = capture()
    assert len(take_out(scene, greedy(scene, parts), floor).backs) == 0


def test_an_opening_seen_from_both_sides_stays_open():
    scene, parts, floor = before_a_wall()
    beyond, lift = torch.tensor([0.25, 0.0, 0.0]), 0.15
    bars = [
        face((0.0, lift, -0.06), (0.25, lift, -0.03), RED, seed=20),
        face((0.0, lift + 0.2, -0.06), (0.25, lift + 0.2, -0.03), RED, seed=21),
        face((0.25, lift, -0.06), (0.25, lift + 0.2, -0.03), RED, seed=22),
    ]
    handle = join(*[bar.replace(means=bar.means + beyond) for bar in bars])
    both = join(scene, handle)
    mask = torch.cat([parts["thing"], torch.ones(len(handle), dtype=torch.bool)])
    x = take_out(both, mask, floor).backs.means
    within = (x[:, 0] > 0.3) & (x[:, 0] < 0.45) & (x[:, 1] > lift + 0.04) & (x[:, 1] < lift + 0.16)
    assert len(x) > 50
    assert not (within & (x[:, 2] > -0.1)).any()


def two_sides():
    """Of a box in a corner only the front and one side; behind them the floor is bare, with smears.

    The stains and the wide smears lie where no camera on the front left could see.
    """
    wall = face((-1.5, 0.0, WALL - 0.1), (1.5, 1.5, WALL - 0.1), WHITE, step=0.02, seed=6)
    (x, y, z), (X, Y, Z) = LOW, HIGH
    sides = [face((x, y, Z), (X, Y, Z), GREEN, seed=1), face((x, y, z), (x, Y, Z), RED, seed=2)]
    ground = slab(1.5)
    behind = (ground.means[:, 0].abs() < 0.24) & (ground.means[:, 2] < -0.02)
    ground = ground[~behind & (ground.means[:, 2] > WALL - 0.1)]
    spots = torch.tensor([0.3, 0.2, 0.06]) * random(60, 3, 9) + torch.tensor([-0.1, 0.1, -0.45])
    parts = {
        "thing": join(*sides), "wall": wall, "floor": ground,
        "smear": painted(spots, [0.05, 0.05, 0.05], DARK),
    }  # fmt: skip
    of = torch.cat([torch.full((len(s),), i) for i, s in enumerate(parts.values())])
    floor = FloorPlane(torch.tensor([0.0, 1, 0]).double(), 0.0, 0.5, "found", 0.01, "at zero")
    return join(*parts.values()), {name: of == i for i, name in enumerate(parts)}, floor


def from_above(scene):
    """Opacity in the middle of the box, seen from straight above."""
    camera = look_at((0.0, 4.0, -0.18), (0.0, 0.0, -0.18), width=96, height=96, fov=4.0)
    return render(scene, camera, background=BLUE).alpha


def test_two_sides_are_closed_above_a_bare_floor():
    """What lies between them is seen through from above, but the floor there was not captured."""
    scene, parts, floor = two_sides()
    found = take_out(scene, parts["thing"], floor)
    own = join(scene[found.mask], found.own, found.backs)
    assert from_above(scene[parts["thing"]]).mean() < 0.1
    assert from_above(own).mean() > 0.5  # their convex hull: half of the box
    assert found.backs.means[:, 2].min() > WALL


def test_what_an_object_hid_behind_it_is_mended_and_its_smears_go():
    scene, parts, floor = two_sides()
    found = take_out(scene, parts["thing"], floor)
    assert (found.mask | found.hidden)[parts["smear"]].float().mean() > 0.9
    rest = join(scene[~found.mask & ~found.hidden], found.fill)
    assert from_above(rest).mean() > 0.95
    assert not found.hidden[parts["floor"] & (scene.means[:, 0].abs() > 0.7)].any()
    assert not found.hidden[parts["wall"] & (scene.means[:, 1] > 0.2)].any()


def layout(**options):
    scene, _, floor = before_a_wall()
    high = ",".join(str(c + 0.02) for c in HIGH)
    low = ",".join(str(c - 0.02) for c in LOW)
    spec = SceneSpec((newtongs.ObjectSpec(select=f"box:{low},{high}"),), **options)
    return pick(Source(scene, None, ours=False), spec, floor), len(scene)


@pytest.mark.slow
def test_backs_appear_later_and_can_be_left_out():
    closed, n = layout()
    plain, _ = layout(backs=False)
    more = [int((each.scene.ids[n:] == 0).sum()) for each in (closed, plain)]
    assert more[0] > more[1] + 50
    assert (closed.presence[n:] == LATER).all()
    assert torch.equal(closed.scene.means[:n], plain.scene.means[:n])
