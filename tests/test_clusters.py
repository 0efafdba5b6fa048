"""Voxels against a flood fill, clusters of furnished scenes, and every word of a selection."""

import itertools

import numpy as np
import pytest
import torch

from newtongs.base import rotations
from newtongs.base.errors import InputError
from newtongs.samples import names, template
from newtongs.scene.cameras import look_at, orbit
from newtongs.scene.gaussians import BACKGROUND, GaussianScene, join
from newtongs.segment.floor.finding import FloorPlane, find_floor
from newtongs.segment.objects.clusters import cluster, label, without_floaters
from newtongs.segment.objects.grouping import assign, select_circle
from newtongs.segment.objects.selection import EXAMPLES, select
from newtongs.segment.sparse_voxels import SHIFTS, Voxels, connected

UP = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)


def iou(a, b):
    return float((a & b).sum() / (a | b).sum())


def ball(center, radius=0.5, n=1500, **more):
    """Dots on a sphere."""
    d = torch.nn.functional.normalize(torch.randn(n, 3), dim=-1)
    means = torch.tensor(center) + radius * d
    return GaussianScene.make(means=means, scales=torch.full((n,), 0.02), **more)


def ground(n=4000, half=4.0):
    means = (2 * torch.rand(n, 3) - 1) * half * torch.tensor([1.0, 0.0, 1.0])
    green = torch.tensor([0.2, 0.6, 0.2]).expand(n, 3)
    flat = torch.tensor([0.08, 0.01, 0.08]).expand(n, 3)
    return GaussianScene.make(means=means, scales=flat, colors=green)


def two_balls():
    """On a lawn: a large ball (id 0) in the middle and a small one (id 1) aside."""
    return join(ball((0.0, 0.5, 0.0), ids=0), ball((2.0, 0.3, 1.0), 0.3, n=500, ids=1), ground())


def flat_floor(height=0.0, thickness=0.01, kind="found"):
    return FloorPlane(UP, height, 0.5, kind, thickness, "a test's floor")


def in_any_pose(scene, seed):
    random = torch.Generator().manual_seed(seed)
    q = rotations.normalize(torch.randn(4, generator=random)).expand(len(scene), 4)
    k, b = 0.2 + 3 * torch.rand((), generator=random), 5 * torch.randn(3, generator=random)
    return scene.replace(
        means=k * rotations.rotate(q, scene.means) + b,
        quats=rotations.multiply(q, scene.quats),
        log_scales=scene.log_scales + k.log(),
    )


def furnished(name):
    s = 0.9 * (0.85 + 0.33 * torch.rand(3))
    thing, place = template(name).object, template(name).background
    at = torch.tensor([0.0, 0.5 * s[1].item() + 0.015, 0.0])
    return join(thing.replace(means=s * thing.means + at, ids=torch.zeros(1536).long()), place)


# --- voxels -----------------------------------------------------------------------------------


def flood_fill(cells):
    """Components of a set of cells, one cell at a time."""
    left, label, out = set(cells), 0, {}
    for cell in sorted(cells):
        if cell not in left:
            continue
        left.discard(cell)
        todo = [cell]
        while todo:
            at = todo.pop()
            out[at] = label
            for shift in itertools.product((-1, 0, 1), repeat=3):
                there = tuple(a + b for a, b in zip(at, shift, strict=True))
                if there in left:
                    left.discard(there)
                    todo.append(there)
        label += 1
    return out


@pytest.mark.parametrize("spread", [2.0, 5.0, 9.0])
def test_components_against_a_flood_fill(spread):
    points = spread * torch.randn(600, 3)
    voxels = Voxels.of(points, 1.0)
    cells = [tuple(c) for c in (points - voxels.origin).floor().long().tolist()]
    slow = flood_fill(set(cells))
    assert [slow[c] for c in cells] == voxels.components()[voxels.of_point].tolist()
    assert voxels.counts.sum() == 600
    assert len(voxels.keys) == len(set(cells))


def test_connected_against_repeated_minima():
    """Long chains and random pairs: everything takes the smallest number it can reach."""
    n = 300
    chain = torch.stack([torch.arange(99), torch.arange(1, 100)])[:, torch.randperm(99)]
    pairs = torch.cat([chain, torch.randint(100, n, (2, 120))], dim=1)
    slow = torch.arange(n)
    for _ in range(n):
        for a, b in pairs.T.tolist():
            slow[a] = slow[b] = min(int(slow[a]), int(slow[b]))
    assert torch.equal(connected(torch.arange(n), pairs), slow)


def test_nearest_mark_is_that_of_the_nearest_voxel_of_27():
    points = 4 * torch.rand(80, 3)
    voxels = Voxels.of(points, 0.5)
    marks = torch.randint(-1, 4, (len(voxels.keys),))
    queries = 5 * torch.rand(300, 3) - 0.5
    table = dict(zip(
        map(tuple, ((points - voxels.origin) / 0.5).floor().long().tolist()),
        marks[voxels.of_point].tolist(), strict=True,
    ))  # fmt: skip
    for query, found in zip(queries, voxels.nearest(queries, marks).tolist(), strict=True):
        cell = ((query - voxels.origin) / 0.5).floor().long().tolist()
        near = [table.get(tuple(a + b for a, b in zip(cell, s, strict=True)), -1) for s in SHIFTS]
        assert found == next((m for m in near if m >= 0), -1)


# --- clusters ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names())
def test_the_best_cluster_of_a_furnished_scene_is_its_object(name):
    scene = in_any_pose(furnished(name), names().index(name))
    found = cluster(scene, find_floor(scene))
    assert iou(found[0].mask, scene.ids == 0) > 0.95


def test_two_balls_are_two_clusters_and_the_lawn_is_none():
    scene = two_balls()
    found = cluster(scene, find_floor(scene))
    assert len(found) == 2
    assert [c.id for c in found] == [0, 1]
    assert found[0].score > found[1].score > 0
    for c, id in zip(found, (0, 1), strict=True):
        assert iou(c.mask, scene.ids == id) > 0.97
        assert c.count == int(c.mask.sum())
        assert c.mass == pytest.approx(float(scene.opacities[c.mask].sum()), rel=1e-5)
    assert torch.allclose(found[0].center, torch.tensor([0.0, 0.5, 0.0]), atol=0.05)
    assert torch.allclose(found[0].size, torch.ones(3), atol=0.1)


POLE = torch.linspace(0, 1, 30)[:, None] * torch.tensor([0.0, 0.85, 0.0])
BOARD = torch.cartesian_prod(SIDE := torch.linspace(-0.25, 0.25, 12), torch.zeros(1), SIDE)
SHELF = torch.cat([BOARD + torch.tensor([0.0, 0.85, 0.0]), POLE])
HOVERING = {  # radius of the smaller ball, where it is, what else is there, whether it belongs
    "hands": (0.12, (0.7, 1.0, 0.0), None, True),
    "far away": (0.12, (1.6, 1.0, 0.0), None, False),
    "on the ground": (0.12, (0.7, 0.12, 0.0), None, False),
    "on a shelf": (0.12, (0.8, 1.0, 0.0), SHELF + torch.tensor([0.8, 0, 0]), False),
    "as large": (0.4, (0.9, 1.5, 0.0), None, False),
}


@pytest.mark.parametrize("case", HOVERING)
def test_what_hovers_beside_a_larger_thing_belongs_to_it(case):
    torch.manual_seed(0)
    radius, at, more, belongs = HOVERING[case]
    small = ball(at, radius, n=int(5000 * radius**2))
    parts = [ball((0.0, 0.5, 0.0)), small, ground()]
    if more is not None:
        parts.append(GaussianScene.make(means=more, scales=torch.full((len(more),), 0.02)))
    found = [c.mask.float() for c in cluster(join(*parts), flat_floor())]
    (thing,) = (mask for mask in found if mask[:1500].mean() > 0.95)  # its foot may be the floor's
    share = thing[1500 : 1500 + len(small)].mean()
    assert share > 0.95 if belongs else share == 0


def test_label_writes_clusters_as_ids_and_all_else_as_background():
    scene = two_balls()
    found = cluster(scene, flat_floor())
    marked = label(scene.replace(ids=torch.full((len(scene),), 7)), found)
    assert marked.object_ids == [BACKGROUND, 0, 1]
    assert all(torch.equal(marked.ids == c.id, c.mask) for c in found)


def test_clusters_do_not_overlap_and_do_not_depend_on_the_order_of_gaussians():
    scene = two_balls()
    order = torch.randperm(len(scene))
    found, again = cluster(scene, flat_floor()), cluster(scene[order], flat_floor())
    assert torch.stack([c.mask for c in found]).sum(0).max() == 1
    for a, b in zip(found, again, strict=True):
        assert iou(a.mask[order], b.mask) > 0.99


def test_faint_gaussians_join_the_thing_beside_them_and_no_bridge_is_built_of_them():
    """A faint veil between two balls: what is near a ball joins it, the balls stay two."""
    balls = join(ball((0.0, 0.5, 0.0)), ball((2.0, 0.5, 0.0)))
    veil = torch.stack(
        [torch.linspace(0.5, 1.5, 400), torch.full((400,), 0.5), torch.zeros(400)], 1
    )
    haze = GaussianScene.make(
        means=veil, scales=torch.full((400,), 0.01), opacities=torch.full((400,), 0.1)
    )
    scene = join(balls, haze, ground())
    found = cluster(scene, flat_floor())
    assert len(found) == 2
    joined = torch.stack([c.mask for c in found]).any(0)[3000:3400]
    assert joined[:10].all()
    assert joined[-10:].all()
    assert not joined[150:250].any()


def test_floaters_walls_and_the_ground_are_no_clusters():
    wall = torch.rand(3000, 3) * torch.tensor([8.0, 3.0, 0.0]) + torch.tensor([-4.0, 0.0, -4.0])
    specks = torch.tensor([[0.0, 2.5, 2.0], [0.02, 2.5, 2.0], [1.0, 3.0, 1.0]])
    extra = [
        GaussianScene.make(means=x, scales=torch.full((len(x),), 0.05)) for x in (wall, specks)
    ]
    found = cluster(join(two_balls(), *extra), flat_floor())
    assert len(found) == 2
    assert all(not c.mask[-3003:].any() for c in found)


def test_a_larger_voxel_joins_what_is_near():
    scene = join(ball((0.0, 0.5, 0.0)), ball((1.4, 0.5, 0.0)), ground())
    assert len(cluster(scene, flat_floor())) == 2
    joined = cluster(scene, flat_floor(), voxel=0.4)
    assert len(joined) == 1
    assert joined[0].count >= 2900
    with pytest.raises(InputError, match="voxel"):
        cluster(scene, flat_floor(), voxel=-1)


def test_without_floaters_keeps_the_thing():
    specks = 6 * torch.rand(30, 3) - 3
    specks = specks[specks.norm(dim=-1) > 1]
    dots = GaussianScene.make(means=specks, scales=torch.full((len(specks),), 0.02))
    kept = without_floaters(join(ball((0.0, 0.0, 0.0)), dots))
    assert kept[:1500].all()
    assert not kept[1500:].any()


def test_nothing_above_the_floor_is_no_cluster():
    assert cluster(ground(), flat_floor()) == []


# --- selection --------------------------------------------------------------------------------


def front(size=200):
    return look_at((0.0, 0.8, 6.0), (0.0, 0.5, 0.0), width=size, height=size)


def test_auto_is_the_best_cluster():
    scene = two_balls()
    chosen = select(scene, "auto", floor=find_floor(scene))
    assert iou(chosen.mask, scene.ids == 0) > 0.97
    assert chosen.ghosts is None
    assert "cluster 0 of 2" in chosen.name


def test_auto_of_a_capture_without_a_floor_is_the_capture_without_floaters():
    speck = GaussianScene.make(means=[[0.0, 9.0, 0.0]], scales=[0.01])
    scene = join(ball((0.0, 0.0, 0.0)), speck)
    chosen = select(scene, "auto", floor=find_floor(scene))
    assert chosen.mask.tolist() == [True] * 1500 + [False]


def test_words_that_name_a_part():
    scene, floor = two_balls(), flat_floor()
    found = cluster(scene, floor)
    assert select(scene, "all", floor=floor).mask.all()
    assert torch.equal(select(scene, "cluster:1", floor=floor).mask, found[1].mask)
    assert torch.equal(select(scene, "id:1", floor=floor).mask, scene.ids == 1)
    box = select(scene, "box:1.5,0.01,0.5,2.5,1,1.5", floor=floor).mask
    assert iou(box, scene.ids == 1) > 0.98
    sphere = select(scene, " sphere:2,0.3,1,0.301 ", floor=floor).mask
    assert iou(sphere, scene.ids == 1) > 0.9


def test_circle_with_depths_is_the_papers_selection():
    scene, floor, camera = two_balls(), flat_floor(), front()
    chosen = select(scene, "circle:100,100,25,5,7", floor=floor, cameras=[camera])
    paper = select_circle(scene, camera, (100, 100), 25, depth=(5, 7))
    assert torch.equal(chosen.mask, paper.foreground)
    assert not (chosen.ghosts & ~paper.ghost).any()


def test_circle_without_depths_takes_the_nearest_thing_and_not_the_floor():
    far = ball((0.0, 0.5, -3.0), n=800, ids=2)
    scene, floor, camera = join(two_balls(), far), flat_floor(), front()
    pixels, _ = camera.project(scene.means)
    reach = (pixels[scene.ids == 0] - 100).norm(dim=-1).max() + 1
    chosen = select(scene, f"circle:100,100,{reach:.1f}", floor=floor, cameras=[camera])
    assert chosen.mask[scene.ids == 0].float().mean() > 0.95
    assert not chosen.mask[scene.ids == 2].any()
    assert iou(chosen.mask, scene.ids == 0) > 0.95


def test_ghosts_are_copies_near_the_object_not_the_scene_behind():
    copy, wall = ball((0.0, 0.5, -0.6), 0.2, n=200), ball((0.0, 0.5, -9.0), 0.3, n=100)
    scene = join(two_balls(), copy, wall)
    chosen = select(scene, "circle:100,100,40,5.2,6.4", floor=flat_floor(), cameras=[front()])
    assert chosen.ghosts[-300:-100].any()
    assert not chosen.ghosts[-100:].any()
    assert not (chosen.ghosts & chosen.mask).any()


def write_masks(folder, scene, cameras, kind):
    iio = pytest.importorskip("imageio.v3")
    for i, camera in enumerate(cameras):
        pixels, _ = camera.project(scene.means[scene.ids == 0])
        u, v = pixels.T
        mask = np.zeros((camera.height, camera.width), np.uint8)
        mask[int(v.min()) : int(v.max()) + 1, int(u.min()) : int(u.max()) + 1] = 255
        layers = {"rgb": [mask] * 3, "with alpha": [mask, np.full_like(mask, 255)]}
        name = f"{i}.png" if kind == "unpadded" else f"{i:03d}.png"
        iio.imwrite(folder / name, np.stack(layers[kind], -1) if kind in layers else mask)


@pytest.mark.parametrize("kind", ["unpadded", "with alpha"])
def test_masks_belong_to_their_cameras(tmp_path, kind):
    """2.png comes before 10.png, and what is opaque is not yet part of the object."""
    scene = two_balls()
    cameras = orbit((0.0, 0.5, 0.0), views=12, width=80, height=60)
    write_masks(tmp_path, scene, cameras, kind)
    chosen = select(scene, f"masks:{tmp_path}", floor=flat_floor(), cameras=cameras)
    assert chosen.mask[scene.ids == 0].all()
    assert not chosen.mask[scene.ids == 1].any()


@pytest.mark.parametrize("kind", ["grey", "rgb"])
def test_masks_of_a_folder(tmp_path, kind):
    scene = two_balls()
    cameras = orbit((0.0, 0.5, 0.0), views=4, width=80, height=60)
    write_masks(tmp_path, scene, cameras, kind)
    chosen = select(scene, f"masks:{tmp_path}", floor=flat_floor(), cameras=cameras)
    assert chosen.mask[scene.ids == 0].all()
    assert not chosen.mask[scene.ids == 1].any()
    with pytest.raises(InputError, match="4 pictures and 3 cameras"):
        select(scene, f"masks:{tmp_path}", floor=flat_floor(), cameras=cameras[:3])
    (tmp_path / "000.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"000\.png is not a picture"):
        select(scene, f"masks:{tmp_path}", floor=flat_floor(), cameras=cameras)


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ("", "unknown selection"),
        ("boks:1,2", "did you mean box"),
        ("box", "write it as box:"),
        ("box:", "write it as box:"),
        ("auto:3", "write it as auto"),
        ("box:1,2,3", "expected 6 numbers"),
        ("box:1,2,3,4,5,six", "for example box:"),
        ("box:0,0,0,inf,1,1", "expected 6 numbers"),
        ("box:1,1,1,0,0,0", "low .* lies above high"),
        ("box:50,0,0,51,1,1", "the nearest of .* is"),
        ("sphere:0,0,0,-1", "radius above zero"),
        ("sphere:9,9,9,0.1", "the nearest of .* is"),
        ("cluster:one", "expected a number"),
        ("cluster:9", "there are 0 to 1"),
        ("id:5", r"it has \[0, 1\]"),
        ("circle:1,2", "expected 3 or 5 numbers"),
        ("circle:1,2,3", "needs a camera"),
        ("masks:nowhere", "needs a camera"),
        ("box:-9,-9,-9,9,-0.5,9", "the nearest of .* is"),
    ],
)
def test_every_mistake_is_one_clear_line(spec, line):
    with pytest.raises(InputError, match=line) as error:
        select(two_balls(), spec, floor=flat_floor())
    assert "\n" not in str(error.value)


def test_mistakes_with_a_camera_too():
    scene, floor = two_balls(), flat_floor()
    with pytest.raises(InputError, match=r"the nearest of .* pixels from its centre"):
        select(scene, "circle:5000,5000,3", floor=floor, cameras=[front()])
    with pytest.raises(InputError, match="is not a folder"):
        select(scene, "masks:nowhere", floor=floor, cameras=[front()])


def test_an_object_below_the_floor_and_a_scene_without_one():
    scene = two_balls()
    with pytest.raises(InputError, match=r"below the floor.*--floor"):
        select(scene, "id:1", floor=flat_floor(height=2.0))
    with pytest.raises(InputError, match="no object stands on the floor"):
        select(ground(), "auto", floor=flat_floor())
    with pytest.raises(InputError, match="it has none; try auto"):
        select(ball((0.0, 1.0, 0.0)), "id:0", floor=flat_floor())
    with pytest.raises(InputError, match="the scene is empty"):
        select(scene[:0], "all", floor=flat_floor())


def test_examples_are_read():
    """Each example in an error message is one that works, or says what it lacks."""
    scene = assign(two_balls(), torch.arange(6500 - 500) < 5, 3)
    for word, example in EXAMPLES.items():
        if word not in ("circle", "masks"):
            assert select(scene, example, floor=flat_floor()).mask.any()
