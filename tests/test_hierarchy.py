"""Parts of an object, larger wholes, and the default choice among things of several kinds."""

import itertools

import pytest
import torch
from compositions import ASSETS, composed, ground, table, thing
from furnished_rooms import furnished

from newtongs.base.errors import InputError
from newtongs.formats.files import load
from newtongs.pipeline.source import Source, floor_of
from newtongs.scene.gaussians import GaussianScene, join
from newtongs.segment.floor.finding import FloorPlane, find_floor
from newtongs.segment.objects.clusters import cluster
from newtongs.segment.objects.hierarchy import rows_of, wholes
from newtongs.segment.objects.parts import divided, standing_apart
from newtongs.segment.objects.selection import select

UP = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
RED, BLUE, BROWN = (0.8, 0.1, 0.1), (0.1, 0.1, 0.8), (0.45, 0.3, 0.2)


def iou(a, b):
    return float((a & b).sum() / (a | b).sum())


def rod(low, high, radius, color, n, id_=0, seed=0):
    """The side of an upright cylinder from ``low`` to ``high``, points on ``(x, y, z)``."""
    r = torch.Generator().manual_seed(seed)
    t, turn = torch.rand(n, 1, generator=r), 6.2832 * torch.rand(n, generator=r)
    out = torch.stack([turn.cos(), torch.zeros(n), turn.sin()], -1)
    means = torch.tensor(low) + t * (torch.tensor(high) - torch.tensor(low)) + radius * out
    return GaussianScene.make(
        means=means, scales=torch.full((n, 3), 0.02), colors=torch.tensor(color).expand(n, 3),
        ids=id_,
    )  # fmt: skip


def without_ids(scene):
    return scene.replace(ids=torch.full_like(scene.ids, -1))


def leaning():
    """A tall brown thing that leans on a low blue one; both stand on the ground."""
    tall = rod((0.0, 0.0, 0.0), (0.0, 2.0, 0.0), 0.25, BROWN, 9000)
    low = rod((0.47, 0.0, 0.0), (0.47, 0.9, 0.0), 0.18, BLUE, 3000, id_=1)
    return join(tall, low)


def stacked():
    """The same two, one on top of the other: a lamp on its foot."""
    foot = rod((0.0, 0.0, 0.0), (0.0, 0.9, 0.0), 0.25, BLUE, 4000, id_=1)
    return join(rod((0.0, 0.9, 0.0), (0.0, 2.6, 0.0), 0.25, BROWN, 8000), foot)


def test_parts_are_what_differs_in_colour_and_touches_little():
    scene = leaning()
    found = divided(scene, torch.arange(len(scene)))
    assert len(found.parts[0]) > len(found.parts[1])
    assert len(torch.cat(found.parts).unique()) == len(scene)
    for part, id_ in zip(found.parts, (0, 1), strict=True):
        mask = torch.zeros(len(scene), dtype=torch.bool)
        mask[part] = True
        assert iou(mask, scene.ids == id_) > 0.95


def test_what_leans_is_taken_without_its_stand_and_a_lamp_with_its_foot():
    scene = leaning()
    everything = torch.ones(len(scene), dtype=torch.bool)
    assert iou(standing_apart(scene, everything, UP), scene.ids == 0) > 0.95
    scene = stacked()
    assert standing_apart(scene, torch.ones(len(scene), dtype=torch.bool), UP) is None


@pytest.mark.slow
@pytest.mark.skipif(not ASSETS.is_dir(), reason="the shared captures are not beside the checkout")
@pytest.mark.parametrize(
    ("name", "share"),
    [("guitar.compressed.ply", 0.9), ("unicorn_stuffy.ply", 1.0), ("banana.ply", 1.0)],
)
def test_captures_with_and_without_a_stand(name, share):
    scene = load(ASSETS / name)
    chosen = select(scene, "auto", floor=floor_of(Source(scene, None, False)).carrying)
    assert float(chosen.mask.double().mean()) == pytest.approx(share, abs=0.02)
    assert ("--select all" in chosen.name) == (share < 1)


def on_a_table():
    """Three cubes on a table, two of them side by side, and a cone on the lawn."""
    r = torch.Generator().manual_seed(1)
    cubes = [
        thing("red_cube", (x, 0.0), height=0.25, y=0.8, id_=k)
        for k, x in enumerate((-0.6, -0.24, 0.6))
    ]
    cone = thing("yellow_cone", (2.5, 0.0), height=0.6, id_=3)
    top = table(r, y=0.8, half=0.9, height=0.8, n=4000)
    return join(*cubes, cone, top.replace(ids=torch.full_like(top.ids, 4)), ground(4.0, 9000, r))


@pytest.fixture(scope="module")
def laden():
    truth = on_a_table()
    scene = without_ids(truth)
    return truth.ids, scene, cluster(scene, find_floor(scene))


def of(clusters, mask):
    """The cluster that holds most of a mask."""
    return max(clusters, key=lambda c: int((c.mask & mask).sum()))


def test_furniture_is_a_cluster_that_carries_others(laden):
    ids, _, clusters = laden
    desk = of(clusters, ids == 4)
    assert iou(desk.mask, ids == 4) > 0.8
    assert {of(clusters, ids == k).host for k in range(3)} == {desk.id}
    assert of(clusters, ids == 3).host == -1
    assert clusters[0].id != desk.id  # what carries other things is not the first choice


def test_larger_wholes_grow_from_neighbours_to_the_furniture(laden):
    ids, scene, clusters = laden
    one, two = of(clusters, ids == 0), of(clusters, ids == 1)
    steps = wholes(scene, clusters, one.id)
    assert sorted(steps[0]) == sorted([one.id, two.id])
    assert all(set(a) < set(b) for a, b in itertools.pairwise(steps))
    last = select(scene, f"cluster:{one.id}{'^' * len(steps)}", floor=find_floor(scene)).mask
    whole = torch.isin(ids, torch.tensor([0, 1, 2, 4]))
    assert iou(last, whole) > 0.85


def test_several_levels_as_one_object(laden):
    ids, scene, clusters = laden
    one, cone = of(clusters, ids == 0), of(clusters, ids == 3)
    mask = select(scene, f"cluster:{one.id}^+{cone.id}", floor=find_floor(scene)).mask
    assert iou(mask, torch.isin(ids, torch.tensor([0, 1, 3]))) > 0.8


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x", "expected a number"), ("0/2", "expected a number"), ("0/0^", "expected a number"),
        ("99", "no cluster 99; there are 0 to"), ("0^^^^^^^^^", "larger whole"),
    ],
)  # fmt: skip
def test_wrong_levels_are_one_clear_line(laden, name, said):
    _, scene, clusters = laden
    with pytest.raises(InputError, match=said):
        rows_of(scene, clusters, name)


@pytest.mark.slow
def test_the_default_is_never_most_of_a_room():
    for name in ("shelf_room", "counter_room"):
        truth = furnished(name)
        scene = without_ids(truth.scene)
        chosen = select(scene, "auto", floor=find_floor(scene)).mask
        assert max(iou(chosen, truth.scene.ids == i) for (i,) in truth.objects) > 0.7


def test_if_nothing_stands_free_the_best_are_offered_as_flags():
    r = torch.Generator().manual_seed(4)
    rods = [rod((x, 0.0, 0.0), (x, 0.9, 0.0), 0.15, BROWN, 6000) for x in (-0.6, 0.0, 0.6)]
    scene = without_ids(join(ground(1.0, 2000, r), *rods[:2]))
    floor = FloorPlane(torch.tensor([0.0, 1, 0]).double(), 0.0, 0.5, "found", 0.02, "at zero")
    said = select(scene, "auto", floor=floor).name
    flags = "--select cluster:0, --select cluster:1"
    assert said.startswith(f"nothing smaller stands free; the best are {flags}; cluster 0 of 2")
    scene = without_ids(join(ground(1.0, 9000, r), *rods))
    said = select(scene, "auto", floor=floor).name
    assert "free" not in said
    assert said.startswith("cluster 0 of 3 (or cluster:1 or cluster:2)")


def test_parts_of_a_wall_are_no_separate_things():
    """The sides of a toy car in a sandpit look like shelves with things on them."""
    made = composed("in_an_open_box")
    assert float(find_floor(made.scene).up @ UP) > 0.999


@pytest.mark.slow
@pytest.mark.skipif(not (ASSETS / "kitchen.spz").exists(), reason="needs the shared captures")
def test_cupboards_from_the_counter_to_a_shelf_are_no_things():
    scene = load(ASSETS / "kitchen.spz")
    clusters = cluster(scene, floor_of(Source(scene, None, False)).carrying)
    assert len(clusters) > 40
    assert max(float(one.size[1]) for one in clusters) < 0.5  # the cupboards: 0.6 and more


@pytest.mark.slow
def test_a_given_floor_selects_what_inspect_lists():
    """A patch on a thick post is no floor by itself: as much lies below it as above."""
    r = torch.Generator().manual_seed(3)
    cans = [rod((x, 0.05, 0.0), (x, 0.4, 0.0), 0.15, RED, 3000) for x in (-0.3, 0.3)]
    post = rod((0.0, -1.5, 0.0), (0.0, -0.05, 0.0), 0.5, BROWN, 8000)
    scene = without_ids(join(*cans, ground(0.5, 400, r), post))
    up = (0.0, 1.0, 0.0)
    assert find_floor(scene, up=up).kind == "virtual"
    floor = floor_of(Source(scene, None, False), up, 0.0)
    best = cluster(scene, floor.carrying)[0]
    assert torch.equal(select(scene, "auto", floor=floor.carrying).mask, best.mask)
    assert best.count == 3000
