"""Grouping: the mask rule against a loop over Gaussians and cameras, and the other selections."""

import math

import numpy as np
import pytest
import torch

from newtongs.base.errors import InputError
from newtongs.scene.cameras import Camera, look_at, orbit
from newtongs.scene.gaussians import BACKGROUND, GaussianScene
from newtongs.segment.objects.grouping import (
    assign,
    group_by_masks,
    membership,
    remove,
    select_box,
    select_circle,
    select_sphere,
)


def points(*means):
    return GaussianScene.make(means=torch.tensor(means), scales=torch.full((len(means),), 0.1))


def random_scene(n=300, spread=2.0):
    return GaussianScene.make(means=spread * torch.randn(n, 3), scales=torch.full((n,), 0.1))


def front_camera(size=10):
    """At the origin, looking along +z; a point (x, y, 1) lands on pixel (5 + 5x, 5 + 5y)."""
    K = torch.tensor([[5.0, 0.0, 5.0], [0.0, 5.0, 5.0], [0.0, 0.0, 1.0]])
    return Camera(K, torch.eye(4), size, size)


def average_by_loop(scene, masks, cameras, ignore_outside):
    """The rule, one Gaussian and one camera at a time."""
    out = []
    for g in scene.means.double():
        total, count = 0, 0
        for mask, camera in zip(masks, cameras, strict=True):
            x = camera.w2c.double() @ torch.cat([g, torch.ones(1).double()])
            if x[2] <= 0:
                continue
            u, v, _ = (camera.K.double() @ x[:3] / x[2]).tolist()
            i, j = math.floor(v), math.floor(u)
            if 0 <= i < camera.height and 0 <= j < camera.width:
                total, count = total + bool(mask[i, j]), count + 1
            else:
                count += not ignore_outside
        out.append(total / count if count else 0.0)
    return out


@pytest.mark.parametrize("ignore_outside", [False, True])
def test_membership_against_a_loop(ignore_outside):
    """Cameras amid the cloud: some Gaussians are behind, some beside the picture."""
    scene = random_scene()
    cameras = orbit((0.0, 0.0, 0.0), views=5, radius=1.0, elevation=0.3, width=40, height=30)
    masks = torch.rand(5, 30, 40) > 0.4
    got = membership(scene, masks, cameras, ignore_outside=ignore_outside)
    expected = average_by_loop(scene, masks, cameras, ignore_outside)
    np.testing.assert_allclose(got, expected, atol=1e-6)
    assert 0 < got.mean() < 1


def test_pixel_a_mean_falls_in():
    """Pixel i covers [i, i + 1): 5 is the first place of pixel 5, and 10 is outside."""
    mask = torch.zeros(10, 10, dtype=torch.bool)
    mask[2, 5] = True  # row 2, column 5
    scene = points(
        (0.0, -0.6, 1.0), (0.199, -0.401, 1.0), (0.2, -0.6, 1.0), (-0.001, -0.6, 1.0)
    )  # columns 5, 5.995, 6, 4.995
    assert membership(scene, mask[None], [front_camera()]).tolist() == [1.0, 1.0, 0.0, 0.0]
    edge = points((1.0, 0.0, 1.0), (0.999, 0.0, 1.0), (-1.0, 0.0, 1.0))
    everywhere = torch.ones(1, 10, 10, dtype=torch.bool)
    assert membership(edge, everywhere, [front_camera()]).tolist() == [0.0, 1.0, 1.0]


def test_what_is_behind_leaves_the_average_and_what_is_outside_stays():
    ahead = look_at((0, 0, -2), (0, 0, 0), width=8, height=8)
    back = look_at((0, 0, 2), (0, 0, 4), width=8, height=8)  # looks away from the point
    aside = look_at((0, 0, -2), (9, 0, 0), width=8, height=8, fov=20)  # in front, not in view
    scene, masks = points((0.0, 0.0, 0.0)), torch.ones(2, 8, 8)
    assert membership(scene, masks, [ahead, back]).item() == 1.0
    assert membership(scene, masks, [ahead, aside]).item() == 0.5
    assert membership(scene, masks, [ahead, aside], ignore_outside=True).item() == 1.0
    assert membership(scene, masks, [back, back]).item() == 0.0


def test_half_is_enough():
    camera = front_camera()
    masks = torch.zeros(4, 10, 10)
    masks[:2] = 1
    scene = points((0.0, 0.0, 1.0))
    assert group_by_masks(scene, masks, [camera] * 4).tolist() == [True]
    masks[1] = 0
    with pytest.raises(InputError, match=r"at least 0.5 .* the best reaches 0.25"):
        group_by_masks(scene, masks, [camera] * 4)
    assert group_by_masks(scene, masks, [camera] * 4, threshold=0.25).tolist() == [True]


def test_masks_of_any_kind_and_size():
    scene, cameras = random_scene(), orbit((0, 0, 0), views=3, width=20, height=20)
    cameras[1] = look_at((5, 1, 0), (0, 0, 0), width=30, height=10)
    masks = [torch.rand(c.height, c.width) > 0.5 for c in cameras]
    expected = membership(scene, masks, cameras)
    for kind in (lambda m: 255 * m.byte(), lambda m: m.byte(), lambda m: m.float().numpy()):
        assert torch.equal(membership(scene, [kind(m) for m in masks], cameras), expected)


def test_grouping_finds_an_object_by_its_silhouettes():
    """A ball among clutter, masks drawn as discs: exactly the ball is found."""
    ball = torch.randn(200, 3)
    ball = 0.5 * ball / ball.norm(dim=-1, keepdim=True) * torch.rand(200, 1) ** (1 / 3)
    clutter = 3 * torch.randn(400, 3)
    clutter = clutter[clutter.norm(dim=-1) > 2]
    scene = GaussianScene.make(
        means=torch.cat([ball, clutter]), scales=torch.ones(len(ball) + len(clutter))
    )
    cameras = orbit((0, 0, 0), views=12, elevation=1.0, width=64, height=64)
    v, u = torch.meshgrid(torch.arange(64) + 0.5, torch.arange(64) + 0.5, indexing="ij")
    masks = torch.stack([(u - 32) ** 2 + (v - 32) ** 2 < 8**2] * 12)
    found = group_by_masks(scene, masks, cameras)
    assert found[:200].all()
    assert not found[200:].any()


def test_box_and_sphere():
    scene = random_scene()
    box = select_box(scene, (-1, 0, -2), (1, 2, 0))
    low, high = torch.tensor([-1.0, 0, -2]), torch.tensor([1.0, 2, 0])
    assert torch.equal(box, ((scene.means >= low) & (scene.means <= high)).all(-1))
    ball = select_sphere(scene, (1, 0, 0), 1.5)
    assert torch.equal(ball, (scene.means - torch.tensor([1.0, 0, 0])).norm(dim=-1) <= 1.5)
    assert select_box(points((1.0, 2.0, 3.0)), (1, 2, 3), (1, 2, 3)).all()  # faces belong


def test_circle_selects_object_and_ghost():
    """The bowling ball's case: a ball at depth 2 and its copies in front of it and behind."""
    scene = points(
        (0.0, 0.0, 2.0),  # the object's middle
        (0.7, 0.0, 2.0),  # its rim: 1.75 pixels off
        (0.0, 0.0, 4.0),  # a copy behind
        (0.1, 0.0, 1.0),  # a copy in front
        (0.8, 0.0, 2.3),  # in the circle, not in the footprint, too deep
        (0.0, 3.0, 2.0),  # elsewhere
        (0.0, 0.0, -2.0),  # behind the camera
    )
    chosen = select_circle(scene, front_camera(), (5, 5), 2.0, depth=(1.5, 2.2), footprint=0.5)
    assert chosen.foreground.nonzero().flatten().tolist() == [0, 1]
    assert chosen.ghost.nonzero().flatten().tolist() == [2, 3]
    near = select_circle(
        scene, front_camera(), (5, 5), 2.0, depth=(1.5, 2.2), footprint=0.5, ghost_depth=(0, 3)
    )
    assert near.ghost.nonzero().flatten().tolist() == [3]
    named = remove(assign(scene, chosen.foreground, 4), chosen.ghost)
    assert len(named) == 5
    assert named.ids.tolist() == [4, 4, BACKGROUND, BACKGROUND, BACKGROUND]


def test_assign_leaves_the_original_and_other_objects():
    scene = random_scene(6)
    first = assign(scene, torch.tensor([1, 1, 0, 0, 0, 0]).bool(), 0)
    second = assign(first, np.array([False, True, True, False, False, False]), 1)
    assert scene.object_ids == [BACKGROUND]
    assert second.ids.tolist() == [0, 1, 1, -1, -1, -1]
    assert second.means is scene.means


SCENE = points((0.0, 0.0, 2.0), (1.0, 0.0, 2.0))
CAMERA = front_camera()
MASKS = torch.ones(1, 10, 10)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: select_box(SCENE, (3, 0, 0), (4, 1, 4)), "nearest of 2 is 2 from it"),
        (lambda: select_box(SCENE, (1, 0, 0), (0, 1, 1)), "lies above high"),
        (lambda: select_box(SCENE, (1, 0), (0, 1)), "low: expected three finite numbers"),
        (lambda: select_sphere(SCENE, (0, 0, 0), 0.5), "within 0.5 .* nearest of 2 is 2 from it"),
        (lambda: select_sphere(SCENE, (0, 0, 0), 0), "radius above zero"),
        (lambda: select_sphere(SCENE[:0], (0, 0, 0), 1), "the scene is empty"),
        (lambda: select_circle(SCENE, CAMERA, (5, 9), 2, depth=(0, 9)), "is 4 pixels from its"),
        (
            lambda: select_circle(SCENE, CAMERA, (5, 5), 3, depth=(5, 9)),
            r"depths 5 and 9; those in the circle \(2\) have depths 2 to 2",
        ),
        (
            lambda: select_circle(points((0.0, 0.0, -1.0)), CAMERA, (5, 5), 3, depth=(0, 9)),
            "all of them are behind the camera",
        ),
        (lambda: select_circle(SCENE, CAMERA, (5,), 3, depth=(0, 9)), "two numbers"),
        (lambda: select_circle(SCENE, CAMERA, (5, 5), 0, depth=(0, 9)), "radius above zero"),
        (lambda: select_circle(SCENE, CAMERA, (5, 5), 3, depth=(9, 0)), "near <= far"),
        (
            lambda: select_circle(SCENE, CAMERA, (5, 5), 3, depth=(0, 9), footprint=2),
            "fraction from 0 to 1",
        ),
        (lambda: membership(SCENE, MASKS, [CAMERA] * 2), "1 masks and 2 cameras"),
        (lambda: membership(SCENE, MASKS[:0], []), "0 masks and 0 cameras"),
        (lambda: membership(SCENE, MASKS[:, :9], [CAMERA]), r"mask 0: .* \(10, 10\)"),
        (lambda: membership(SCENE, -MASKS, [CAMERA]), "got -1 to -1"),
        (lambda: membership(SCENE, MASKS * torch.nan, [CAMERA]), "got nan to nan"),
        (lambda: assign(SCENE, [False, False], 1), "selection is empty"),
        (lambda: assign(SCENE, [0, 1], 1), "expected bool"),
        (lambda: remove(SCENE, [True]), r"shape \(2,\)"),
    ],
)
def test_bad_input_is_one_clear_line(call, says):
    with pytest.raises(InputError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


def test_noise_in_a_mask_of_bytes_is_not_an_object():
    """Bytes or ones is decided over all masks: one in which nothing is seen may hold ones."""
    scene, camera = points([0.0, 0, 1]), front_camera()
    seen, noise = torch.full((10, 10), 255), torch.ones(10, 10)
    assert membership(scene, [seen, noise], [camera, camera]).item() == 0.5
    assert membership(scene, [noise, noise], [camera, camera]).item() == 1.0
    assert membership(scene, [noise.to(torch.uint16)], [camera]).item() == 1.0


def test_one_camera_is_no_list():
    with pytest.raises(InputError, match="a single Camera"):
        membership(points([0.0, 0, 1]), torch.ones(1, 10, 10), front_camera())
