"""What a lone thing stands on that was captured with it."""

import math

import pytest
import torch
from compositions import armchair_alone, chair_alone

from newtongs.base import rotations
from newtongs.pipeline.prepare import prepare
from newtongs.pipeline.source import Source, floor_of
from newtongs.pipeline.spec import SceneSpec
from newtongs.scene.gaussians import GaussianScene, join
from newtongs.scene.similarity import moved
from newtongs.segment.floor.finding import find_floor
from newtongs.segment.floor.plinth import find_plinth


def shell(profile, n=9000, seed=0, square=True):
    """Gaussians on the sides and lids of a body with half width ``profile(y)`` between heights."""
    (low, high), width = profile
    random = torch.Generator().manual_seed(seed)
    y = low + (high - low) * torch.rand(n, generator=random)
    lid = torch.rand(n, generator=random) < 0.3
    y[lid] = high
    angle = 2 * math.pi * torch.rand(n, generator=random)
    x, z = angle.cos(), angle.sin()
    if square:
        longest = torch.maximum(x.abs(), z.abs())
        x, z = x / longest, z / longest
    r = torch.tensor([width(v) for v in y.tolist()])
    r = torch.where(lid, r * torch.rand(n, generator=random).sqrt(), r)
    means = torch.stack([r * x, y, r * z], -1)
    return GaussianScene.make(means=means, scales=torch.full((n,), 0.025))


def statue(**options):
    return join(
        shell(((0.0, 1.0), lambda y: 0.5)),
        shell(((1.0, 2.2), lambda y: 0.25 - 0.1 * (y - 1)), seed=1, **options),
    )


def plinth_of(scene):
    return find_plinth(scene, find_floor(scene, up=(0, 1, 0)))


def test_a_statue_stands_on_its_plinth():
    found = plinth_of(statue(square=False))
    assert found.height == pytest.approx(1.0, abs=0.03)
    assert found.kind == "found"


@pytest.mark.parametrize("scale", [0.01, 100.0])
def test_at_any_size_and_in_any_pose(scale):
    turn = rotations.normalize(torch.tensor([0.9, 0.3, -0.2, 0.4]).double())
    up = rotations.rotate(turn, torch.tensor([0.0, 1.0, 0.0]).double())
    posed = moved(statue(), turn=turn, scale=scale, shift=scale * torch.tensor([3.0, -2.0, 5.0]))
    floor = find_floor(posed, up=up)
    found = find_plinth(posed, floor)
    assert (found.height - floor.height) / scale == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(
    "thing",
    [
        shell(((0.0, 1.0), lambda y: 0.5)),  # a block
        # A vase: its shoulder slopes.
        shell(((0.0, 2.0), lambda y: min(0.5, max(0.15, 1.1 - 0.6 * y))), square=False),
        # A pot that is narrower below, with a plant.
        join(
            shell(((0.0, 1.0), lambda y: 0.3 + 0.2 * y), square=False),
            shell(((1.0, 2.0), lambda y: 0.1), seed=1, square=False),
        ),
        # A lamp on a foot plate.
        join(
            shell(((0.0, 0.1), lambda y: 0.5), square=False),
            shell(((0.1, 2.0), lambda y: 0.1), seed=1, square=False),
        ),
        # An armchair's back stands on the rim.
        join(
            shell(((0.0, 1.0), lambda y: 0.5)),
            moved(shell(((1.0, 2.0), lambda y: 0.12), seed=1), shift=torch.tensor([0, 0, -0.4])),
        ),
    ],
    ids=["block", "vase", "pot", "lamp", "back on the rim"],
)  # fmt: skip
def test_what_is_no_plinth(thing):
    assert plinth_of(thing) is None


@pytest.mark.parametrize("make", [chair_alone, armchair_alone])
def test_chairs_stay_whole(make):
    assert plinth_of(make(torch.Generator().manual_seed(0)).scene) is None


@pytest.mark.slow
def test_only_the_statue_is_taken_and_the_floor_is_below_the_plinth():
    scene = statue(square=False)
    layout = prepare(scene, SceneSpec(up=(0, 1, 0))).layout
    y = layout.scene.object(0).means[:, 1]
    assert y.min() > 0.9
    assert layout.floor.kind == "virtual"
    assert layout.floor.height == pytest.approx(0.0, abs=0.05)
    assert not layout.alone


def test_a_top_that_might_be_the_floor_is_told():
    floor = floor_of(Source(statue(square=False), None, False), (0, 1, 0))
    assert floor.doubt.about == "floor"
    assert floor.alternatives[0].height == pytest.approx(1.0, abs=0.03)
    assert all(a.height != floor.height for a in floor.alternatives)


def test_what_a_file_marks_needs_no_plinth():
    scene = statue(square=False)
    marked = scene.replace(ids=torch.zeros_like(scene.ids))
    assert floor_of(Source(marked, None, False), (0, 1, 0)).plinth is None
