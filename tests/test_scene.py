"""The container of Gaussians and the cameras: laws, shapes, exactness at the ends of ranges."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from newtongs.base import rotations
from newtongs.base.errors import InputError
from newtongs.scene import BACKGROUND, Camera, GaussianScene, join, orbit
from newtongs.scene.cameras import ELEVATION_GAUSSIAN32, intrinsics, look_at
from newtongs.scene.gaussians import SH_C0, unit

FIELDS = ("means", "quats", "log_scales", "logits", "sh", "ids")


def random_scene(n=50, degree=3, **changed):
    k = (degree + 1) ** 2
    values = {
        "means": torch.randn(n, 3),
        "quats": torch.nn.functional.normalize(torch.randn(n, 4), dim=-1),
        "log_scales": torch.randn(n, 3),
        "logits": torch.randn(n),
        "sh": torch.randn(n, k, 3),
        "ids": torch.randint(-1, 3, (n,)),
    }
    return GaussianScene(**{**values, **changed})


def assert_same(a, b):
    for name in FIELDS:
        assert torch.equal(getattr(a, name), getattr(b, name)), name


# The container


def test_fields_cannot_be_assigned():
    scene = random_scene()
    for name in FIELDS:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(scene, name, getattr(scene, name))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("means", (50, 2)), ("means", (49, 3)), ("quats", (50, 3)), ("log_scales", (50, 1)),
        ("logits", (50, 1)), ("logits", (51,)), ("sh", (50, 3)), ("sh", (50, 5, 3)),
        ("sh", (50, 4, 4)), ("sh", (49, 4, 3)), ("sh", (50, 0, 3)),
    ],
)  # fmt: skip
def test_wrong_shapes_are_refused(name, shape):
    with pytest.raises(InputError, match="expected shape"):
        random_scene(**{name: torch.zeros(shape)})


def test_ids_of_another_length_are_refused():
    with pytest.raises(InputError, match="ids: expected shape"):
        random_scene(ids=torch.zeros(7, dtype=torch.long))


def test_what_is_no_number_is_refused():
    with pytest.raises(InputError, match="means"):
        GaussianScene.make(means="here", scales=[1.0])


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_sh_degree(degree):
    assert random_scene(degree=degree).sh_degree == degree


def test_slices_masks_and_indices_pick_the_same_gaussians():
    scene = random_scene()
    mask = torch.zeros(50, dtype=torch.bool)
    mask[10:20] = True
    for index in (mask, mask.numpy(), torch.arange(10, 20), list(range(10, 20))):
        assert_same(scene[index], scene[10:20])
    assert_same(scene[-1], scene[49:])
    assert_same(scene[3], scene[3:4])
    assert len(scene[:0]) == 0


def test_parts_join_to_the_whole():
    scene = random_scene()
    assert_same(join(scene[:20], scene[20:20], scene[20:]), scene)


def test_joining_pads_colour_of_lower_degree():
    degrees = (1, 3, 0)
    scenes = [random_scene(n, degree) for n, degree in zip((5, 7, 2), degrees, strict=True)]
    whole = join(*scenes)
    assert whole.sh_degree == 3
    assert len(whole) == 14
    start = 0
    for scene in scenes:
        part = whole[start : (start := start + len(scene))]
        k = scene.sh.shape[1]
        assert torch.equal(part.sh[:, :k], scene.sh)
        assert not part.sh[:, k:].any()
        assert torch.equal(part.colors, scene.colors)


def test_nothing_to_join():
    with pytest.raises(InputError, match="nothing to join"):
        join()


def test_an_empty_scene_has_everything_but_bounds():
    scene = random_scene(0)
    assert scene.covariances.shape == (0, 3, 3)
    assert scene.object_ids == []
    with pytest.raises(InputError, match="no bounds"):
        scene.bounds()


def test_objects_by_id():
    scene = random_scene()
    assert sum(len(scene.object(i)) for i in scene.object_ids) == len(scene)
    assert (scene.object(2).ids == 2).all()
    with pytest.raises(InputError, match="no object 9"):
        scene.object(9)


def test_replace_shares_what_it_does_not_change():
    scene = random_scene()
    moved = scene.replace(means=scene.means + 1)
    assert moved.sh.data_ptr() == scene.sh.data_ptr()
    assert torch.equal(moved.means, scene.means + 1)
    assert torch.equal(moved.covariances, scene.covariances)


def test_to_and_numpy_keep_every_value():
    scene = random_scene()
    assert_same(scene.to("cpu"), scene)
    assert_same(GaussianScene(**{k: torch.from_numpy(x) for k, x in scene.numpy().items()}), scene)
    with pytest.raises(InputError, match="not available"):
        scene.to("abacus")


def test_covariances_are_symmetric_positive_semidefinite_and_right():
    scene = random_scene(200)
    sigma = scene.covariances
    assert torch.equal(sigma, sigma.mT)
    R = rotations.to_matrix(scene.quats.double())
    expected = R @ torch.diag_embed(scene.log_scales.double().exp().square()) @ R.mT
    largest = expected.abs().amax((-1, -2), keepdim=True)
    assert ((sigma - expected).abs() / largest).max() < 1e-6
    lowest = torch.linalg.eigvalsh(sigma.double())[:, 0]
    assert (lowest / largest.flatten()).min() > -1e-6


def test_bounds_hold_the_ellipsoids_exactly():
    """The box at k sigmas touches the ellipsoid's extreme points, found by brute force."""
    scene = random_scene(6, degree=0)
    low, high = scene.bounds(sigmas=3)
    direction = torch.nn.functional.normalize(torch.randn(200_000, 3, dtype=torch.float64), dim=-1)
    m = rotations.to_matrix(scene.quats.double()) * scene.scales.double().unsqueeze(-2)
    points = scene.means.double().unsqueeze(1) + 3 * direction @ m.mT
    size = (high - low).max()
    assert (points.amin((0, 1)) - low).abs().max() / size < 1e-3
    assert (points.amax((0, 1)) - high).abs().max() / size < 1e-3
    assert (points.amin((0, 1)) >= low - 1e-5 * size).all()


def test_bounds_without_sigmas_are_those_of_the_means():
    scene = random_scene()
    low, high = scene.bounds()
    assert torch.equal(low, scene.means.amin(0))
    assert torch.equal(high, scene.means.amax(0))


def test_activated_values_come_back():
    opacities = torch.cat([torch.tensor([0.0, 1.0]), torch.rand(98)])
    scales, colors = torch.rand(100, 3) + 1e-3, torch.rand(100, 3)
    scene = GaussianScene.make(
        means=torch.randn(100, 3), scales=scales, opacities=opacities, colors=colors, ids=4
    )
    torch.testing.assert_close(scene.scales, scales, rtol=1e-6, atol=0)
    torch.testing.assert_close(scene.opacities, opacities, rtol=0, atol=1e-6)
    torch.testing.assert_close(scene.colors, colors, rtol=0, atol=1e-6)
    assert scene.opacities[1] == 1
    assert scene.opacities[0] < 1e-43
    assert torch.isfinite(scene.logits).all()
    assert scene.object_ids == [4]


def test_defaults_of_make():
    scene = GaussianScene.make(means=[[0, 1, 2]], scales=[0.5])
    assert scene.quats.tolist() == [[1, 0, 0, 0]]
    assert scene.opacities.tolist() == [1]
    assert scene.colors.tolist() == [[0.5, 0.5, 0.5]]
    assert scene.object_ids == [BACKGROUND]
    torch.testing.assert_close(scene.covariances[0], 0.25 * torch.eye(3))


def test_colour_is_the_constant_harmonic():
    scene = random_scene()
    torch.testing.assert_close(scene.colors, 0.5 + SH_C0 * scene.sh[:, 0])
    assert math.isclose(SH_C0, 1 / (2 * math.sqrt(math.pi)), rel_tol=1e-15)


def test_unit_quaternions_stay_bit_for_bit():
    q = unit(torch.randn(10_000, 4))  # once rounded to unit length, always the same
    mixed = torch.cat([q, 3 * q[:1]])
    assert torch.equal(unit(mixed)[:-1], q)
    assert torch.equal(unit(unit(q)), q)


@pytest.mark.parametrize("size", [1e-38, 1e-25, 1e-6, 0.5, 1.00001, 1e10, 1e30, 3e38])
def test_quaternions_of_any_length_become_unit(size):
    direction = torch.nn.functional.normalize(torch.randn(100, 4, dtype=torch.float64), dim=-1)
    q = (size * direction).float()
    # Near the smallest float32 the components themselves carry few digits.
    expected = q.double() / q.double().norm(dim=-1, keepdim=True)
    torch.testing.assert_close(unit(q).double(), expected, rtol=0, atol=1e-6)


def test_a_zero_quaternion_means_no_rotation():
    assert unit(torch.zeros(2, 4)).tolist() == [[1, 0, 0, 0]] * 2


def test_float64_stays_for_exact_work():
    scene = random_scene(means=torch.randn(50, 3, dtype=torch.float64))
    assert scene.means.dtype == torch.float64


# Cameras


def test_orbit_is_the_papers():
    target = torch.tensor([0.3, -0.2, 1.0])
    cameras = orbit(target, views=8)
    eyes = torch.stack([camera.position for camera in cameras]) - target
    torch.testing.assert_close(eyes[:, 1], torch.full((8,), 1.2), rtol=0, atol=1e-5)
    ring = eyes[:, [0, 2]]
    torch.testing.assert_close(ring.norm(dim=-1), torch.full((8,), 5.0), rtol=0, atol=1e-5)
    step = torch.linalg.cross(eyes, eyes.roll(-1, 0))[:, 1] / 25
    torch.testing.assert_close(step, torch.full((8,), math.sin(math.pi / 4)), rtol=0, atol=1e-5)
    assert eyes[0, 2] > 4.9  # the first stands on the +z side
    for camera in cameras:
        pixel, depth = camera.project(target)
        torch.testing.assert_close(pixel, torch.tensor([256.0, 256.0]), rtol=0, atol=1e-3)
        assert abs(depth - math.hypot(5, 1.2)) < 1e-5
        angle = 2 * math.degrees(math.atan(256 / camera.K[1, 1]))
        assert abs(angle - 55) < 1e-4


def test_gaussian32_orbit_is_higher():
    camera = orbit((0, 0, 0), elevation=ELEVATION_GAUSSIAN32, width=128, height=128)[1]
    assert abs(camera.position[1] - 1.35) < 1e-6


@pytest.mark.parametrize("up", [(0, 1, 0), (0, 0, 1), (0, -1, 0), (1, 2, 0.5)])
def test_orbit_about_any_up(up):
    sky = torch.nn.functional.normalize(torch.tensor(up, dtype=torch.float32), dim=0)
    for camera in orbit((1, 2, 3), views=3, up=up):
        arm = camera.position - torch.tensor([1.0, 2.0, 3.0])
        assert abs(arm @ sky - 1.2) < 1e-5
        above, _ = camera.project(torch.tensor([1.0, 2.0, 3.0]) + 0.1 * sky)
        assert above[1] < 256  # up in the world is up in the picture
        assert abs(above[0] - 256) < 1e-2


@pytest.mark.parametrize("height", [2.0, -2.0])
@pytest.mark.parametrize("up", [(0, 1, 0), (0, 0, 1), (1, 0, 0)])
def test_looking_along_up_still_gives_a_camera(height, up):
    eye = height * torch.tensor(up, dtype=torch.float32)
    camera = look_at(eye, (0, 0, 0), width=64, height=48, up=up)
    R = camera.w2c[:3, :3]
    torch.testing.assert_close(R @ R.T, torch.eye(3), rtol=0, atol=1e-6)
    assert torch.linalg.det(R) > 0
    pixel, depth = camera.project(torch.zeros(3))
    torch.testing.assert_close(pixel, torch.tensor([32.0, 24.0]), rtol=0, atol=1e-4)
    assert abs(depth - 2) < 1e-6


def test_project_against_a_slow_float64_reference():
    camera = orbit((0, 0.5, 0), views=5, width=320, height=200)[3]
    points = torch.randn(100, 3)
    pixels, depths = camera.project(points)
    K, w2c = (x.double().numpy() for x in (camera.K, camera.w2c))
    for point, pixel, depth in zip(points.double().numpy(), pixels, depths, strict=True):
        x = w2c @ np.append(point, 1.0)
        expected = (K @ x[:3])[:2] / x[2]
        np.testing.assert_allclose(pixel, expected, rtol=0, atol=2e-3)
        np.testing.assert_allclose(depth, x[2], rtol=1e-6)


def test_project_takes_any_leading_dimensions():
    camera = orbit((0, 0, 0))[0]
    points = torch.randn(4, 7, 3)
    pixels, depths = camera.project(points)
    assert pixels.shape == (4, 7, 2)
    assert torch.equal(pixels[2, 3], camera.project(points[2:3, 3:4])[0][0, 0])
    assert depths.shape == (4, 7)


def test_c2w_is_the_inverse():
    for camera in orbit((3, 1, -2), views=4, start=17):
        torch.testing.assert_close(camera.c2w @ camera.w2c, torch.eye(4), rtol=0, atol=1e-5)
        torch.testing.assert_close(
            camera.w2c[:3, :3] @ camera.position, -camera.w2c[:3, 3], rtol=0, atol=1e-5
        )


def test_y_up_camera_differs_only_in_the_sign_of_y():
    camera = orbit((0, 0, 0))[1]
    x = torch.tensor([0.1, 0.2, 0.3, 1.0])
    down, up = camera.w2c @ x, camera.w2c_y_up @ x
    assert torch.equal(down * torch.tensor([1, -1, 1, 1]), up)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Camera(torch.eye(4), torch.eye(4), 8, 8), "camera K"),
        (lambda: Camera(torch.eye(3), torch.eye(3), 8, 8), "camera w2c"),
        (lambda: Camera(torch.eye(3), torch.eye(4), 0, 8), "at least one"),
        (lambda: Camera(torch.eye(3), torch.eye(4), 8, 7.5), "whole pixels"),
        (lambda: Camera(torch.eye(3), 2 * torch.eye(4), 8, 8), "scales or skews"),
        (lambda: Camera(torch.eye(3), torch.tensor([1.0, -1, 1, 1]).diag(), 8, 8), "y up"),
        (lambda: Camera(torch.eye(3) * torch.nan, torch.eye(4), 8, 8), "K: expected finite"),
        (lambda: look_at((1, 1, torch.nan), (0, 0, 0), width=8, height=8), "position"),
        (lambda: look_at((1, 1, 1), (0, 0, 0), width=8, height=8, up=(0, 0, 0)), "up: exp"),
        (lambda: orbit((0, 0)), "target: expected three"),
        (lambda: intrinsics(8, 8, 180), "field of view"),
        (lambda: orbit((0, 0, 0), views=0), "at least one view"),
        (lambda: look_at((1, 1, 1), (1, 1, 1), width=8, height=8), "stands on its target"),
    ],
)
def test_impossible_cameras_are_refused(make, match):
    with pytest.raises(InputError, match=match):
        make()


def test_numbers_beyond_the_end_are_no_gaussians():
    scene = GaussianScene.make(means=torch.rand(5, 3), scales=torch.rand(5))
    assert len(scene[4]) == len(scene[-5]) == len(scene[np.int64(2)]) == 1
    assert len(list(scene)) == 5
    for index in (5, -6):
        with pytest.raises(IndexError):
            scene[index]


def test_activated_values_are_checked():
    for wrong in ({"opacities": torch.tensor([1.2])}, {"scales": torch.tensor([-1.0])}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            GaussianScene.make(**{"means": torch.zeros(1, 3), "scales": torch.ones(1), **wrong})


def test_all_fields_take_the_type_of_the_means():
    scene = GaussianScene.make(means=torch.rand(5, 3), scales=torch.rand(5))
    assert scene.replace(means=scene.means.double()).sh.dtype == torch.float64


def test_an_empty_list_picks_nothing():
    assert len(random_scene()[[]]) == 0


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: join([random_scene(), random_scene()]), "join takes scenes"),
        (lambda: GaussianScene.make(means=1.0, scales=[1.0]), "means: expected shape"),
        (
            lambda: GaussianScene.make(means=[[0.0] * 3], scales=[1.0], colors=[[200, 0, 9]]),
            "are these bytes",
        ),
        (lambda: GaussianScene.make(means=[[0.0] * 3], scales=[1.0], ids="a"), "ids: expected"),
        (lambda: GaussianScene.make(means=[[0.0] * 3], scales=[1.0], ids=[0.5]), "whole numbers"),
    ],
)
def test_what_cannot_be_a_scene_is_refused(make, match):
    with pytest.raises(InputError, match=match):
        make()


def test_a_camera_may_look_along_any_axis_with_any_up():
    for axis in torch.cat([torch.eye(3), -torch.eye(3), torch.ones(1, 3)]):
        camera = look_at(3 * axis, (0, 0, 0), width=8, height=8, up=axis.tolist())
        pixels, depth = camera.project(np.zeros((1, 3)))
        assert torch.allclose(pixels, torch.tensor([[4.0, 4.0]]), atol=1e-4)
        assert depth == pytest.approx(3 * axis.norm().item(), rel=1e-5)
