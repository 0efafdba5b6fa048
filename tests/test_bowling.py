"""The bowling scene: who is who, where everything stands, closed surfaces, and its name."""

import math

import numpy as np
import pytest
import torch

from newtongs import InputError, cli, samples
from newtongs.formats.files import load
from newtongs.render import render
from newtongs.samples import SCENES, TEMPLATES, bowling, named_scene
from newtongs.scene import sh
from newtongs.scene.cameras import look_at
from newtongs.scene.similarity import moved

PINS = range(1, 11)


@pytest.fixture(scope="module")
def scene():
    return named_scene("bowling").scene()


def middles(scene):
    """Centres ``(11, 3)`` of the boxes around ball and pins."""
    return torch.stack([sum(scene.object(i).bounds()) / 2 for i in range(11)])


def inside(alpha, margin):
    """Coverage of the pixels at least ``margin`` away from the edge of the outline."""
    outline = torch.zeros_like(alpha)
    for row, line in zip(outline, alpha > 0.5, strict=True):
        covered = line.nonzero()
        if len(covered):
            row[covered[0] : covered[-1] + 1] = 1  # a hole would lie between
    size = 2 * margin + 1
    eroded = -torch.nn.functional.max_pool2d(-outline[None], size, stride=1, padding=margin)[0]
    return alpha[eroded == 1]


def test_numbers_and_ids(scene):
    assert scene.object_ids == [-1, *range(11)]
    assert len(scene.object(-1)) == bowling.HALL_GAUSSIANS
    assert len(scene.object(0)) == pytest.approx(2000, abs=200)
    assert {len(scene.object(i)) for i in PINS} == {bowling.PIN_GAUSSIANS}
    for x in (scene.means, scene.quats, scene.log_scales, scene.logits, scene.sh):
        assert torch.isfinite(x).all()
    assert scene.colors.min() > -1e-5
    assert scene.colors.max() < 1 + 1e-5


def test_made_twice_is_made_alike(scene):
    again = bowling.bowling.__wrapped__().numpy()
    for name, x in scene.numpy().items():
        np.testing.assert_array_equal(x, again[name])


def test_ball_and_pins_stand_on_the_lane(scene):
    for i in range(11):
        thing = scene.object(i)
        assert abs(thing.bounds()[0][1]) < 1e-3
        assert thing.bounds(sigmas=1)[0][1] > -0.01
    low, high = scene.object(1).bounds()
    assert high[1] - low[1] == pytest.approx(bowling.PIN_HEIGHT, abs=1e-3)
    assert high[0] - low[0] == pytest.approx(2 * bowling.PIN_RADIUS, abs=2e-3)
    pin = scene.object(1)
    base = pin.means[pin.means[:, 1].abs() < 1e-6] - torch.tensor(bowling.SPOTS[0])
    assert len(base) > 20  # a disc, not a rim
    assert base.norm(dim=-1).min() < 0.02


def test_pins_stand_in_the_usual_triangle(scene):
    head, *rest = middles(scene)[1:]
    across = [p[2] - head[2] for p in rest]
    left_to_right = torch.tensor([-0.5, 0.5, -1, 0, 1, -1.5, -0.5, 0.5, 1.5])  # the bowler's
    torch.testing.assert_close(
        torch.stack(across), bowling.PIN_DISTANCE * left_to_right, atol=2e-3, rtol=0
    )
    apart = torch.cdist(middles(scene)[1:], middles(scene)[1:]) + 9 * torch.eye(10)
    assert (apart.amin(-1) - bowling.PIN_DISTANCE).abs().max() < 4e-3
    assert ((apart - bowling.PIN_DISTANCE).abs() < 4e-3).sum() == 2 * 18  # sides of small triangles


def test_ball_rolls_along_x_into_the_head_pin(scene):
    ball, head, *rest = middles(scene)
    assert ball[0] < head[0] - 1
    assert abs(ball[2] - head[2]) < 2e-3
    assert all(p[0] > head[0] for p in rest)
    assert 2 * bowling.PIN_RADIUS < bowling.PIN_DISTANCE < bowling.PIN_HEIGHT  # pins hit pins
    off = (scene.object(0).means - torch.tensor(bowling.BALL_START)).norm(dim=-1)
    torch.testing.assert_close(off, torch.full_like(off, bowling.BALL_RADIUS))


def test_no_two_objects_overlap(scene):
    boxes = [scene.object(i).bounds(sigmas=2) for i in range(11)]
    for i in range(11):
        for k in range(i):
            gap = torch.maximum(boxes[i][0] - boxes[k][1], boxes[k][0] - boxes[i][1])
            assert gap.max() > 0, (i, k)


def test_nothing_stands_where_the_ball_and_the_pins_move(scene):
    hall = scene.object(-1).means
    assert hall[:, 1].min() > -0.2
    assert hall[:, 1].max() > 1  # the back wall
    over = (hall[:, 0] < bowling.LANE_END) & (hall[:, 2] > -bowling.RAIL[2])
    assert hall[over][:, 1].max() < 1e-6


def test_nothing_hides_the_lane_from_the_usual_camera(scene):
    """From 25 degrees beside z and 14 above, what is seen where the lane is, is the lane."""
    side, rise = math.radians(25), math.radians(14)
    out = torch.tensor([math.sin(side), math.tan(rise), math.cos(side)]) * math.cos(rise)
    camera = look_at(6 * out, (0, 0, 0), width=320, height=180, fov=50)
    depth = render(scene.object(-1), camera, backend="ewa").depth
    pixels = torch.cartesian_prod(torch.arange(180), torch.arange(320)).flip(-1) + 0.5
    rays = torch.nn.functional.pad(pixels, (0, 1), value=1.0) @ torch.linalg.inv(camera.K).T
    rays = rays @ camera.c2w[:3, :3].T
    far = -camera.position[1] / rays[:, 1]  # depth at which a ray meets y = 0
    x, _, z = (camera.position + far[:, None] * rays).unbind(-1)
    lane = (far > 0) & (x.abs() < 2.3) & (z.abs() < 0.8)
    assert lane.sum() > 1500
    # Near discs blend first; at the far end a pixel's height is 8^2 / (193 * 1.45) = 0.23 of lane.
    assert (depth.flatten() - far)[lane].abs().max() < 0.23


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("azimuth", [0, 90, 215])
@pytest.mark.parametrize("up", [0.02, 0.5, -0.6])
def test_no_holes(scene, index, azimuth, up):
    """Three pixels inside the outline, ball and pin cover everything, from below as well."""
    low, high = scene.object(index).bounds()
    aim, a = (low + high) / 2, math.radians(azimuth)
    eye = aim + torch.tensor([0.8 * math.sin(a), up, 0.8 * math.cos(a)])
    camera = look_at(eye, aim, width=160, height=160, fov=45)
    alpha = render(scene.object(index), camera, backend="ewa").alpha
    covered = inside(alpha, 3)
    assert len(covered) > 500
    assert covered.min() > 0.95
    assert alpha[80, 80] > 0.99


def test_lane_has_no_holes(scene):
    camera = look_at((0, 3.5, 0.01), (0, 0, 0), width=200, height=80, fov=30)
    assert render(scene.object(-1), camera, backend="ewa").alpha.min() > 0.95


def test_pins_are_white_with_two_red_stripes(scene):
    pin = scene.object(1)
    red = pin.colors[:, 0] > 3 * pin.colors[:, 1]
    heights = pin.means[red][:, 1]
    for low, high in bowling.STRIPES:
        assert ((heights > low) & (heights < high)).sum() > 20
    assert ((heights > 0.33) & (heights < 0.40)).all()
    white = pin.colors[~red] / pin.colors[~red].amax(-1, keepdim=True)
    assert white.min() > 0.8


def test_light_does_not_turn_with_a_thing(scene):
    """Turned about any axis, a disc facing the camera is as bright as any other that faces it."""
    ball = bowling.ball()
    half = math.sqrt(0.5)
    turned = moved(ball, turn=torch.tensor([half, half, 0.0, 0.0], dtype=torch.float64))
    for thing in (ball, turned):
        normals = torch.nn.functional.normalize(thing.means, dim=-1)
        front = thing.colors + (sh.basis(-normals, 1)[:, 1:, None] * thing.sh[:, 1:]).sum(1)
        torch.testing.assert_close(front, thing.colors * 1.3 / 0.6, atol=1e-4, rtol=1e-3)


def test_scenes_have_the_ten_templates_and_bowling():
    assert list(SCENES)[:11] == [*TEMPLATES, "bowling"]
    assert len(TEMPLATES) == 10
    assert all(SCENES[name] is t for name, t in TEMPLATES.items())
    assert named_scene("yellow_cone") is TEMPLATES["construction_floor"]
    assert "bowling" not in samples.names()
    assert all(0 <= c <= 1 for s in SCENES.values() for c in s.color)
    with pytest.raises(InputError, match="bowling"):
        named_scene("bowlin")
    with pytest.raises(InputError, match="unknown template"):
        samples.template("bowling")


def test_command_writes_it(tmp_path, capsys, scene):
    cli.main(["data", "scene", "bowling", "--out", str(tmp_path / "b.ply")])
    assert "ten pins, 27,084 Gaussians" in capsys.readouterr().out
    assert load(tmp_path / "b.ply").object_ids == scene.object_ids
