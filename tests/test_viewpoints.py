"""The default camera does not stand behind something; cameras that move; warnings."""

import math

import pytest
import torch
from export_samples import bouncing, park
from furnished_rooms import furnished

from newtongs import cli
from newtongs.base.errors import InputError
from newtongs.exports import export
from newtongs.scene import GaussianScene, join, lift
from newtongs.scene.animation import About, Animation, ObjectAbout
from newtongs.scene.frames import FIRST
from newtongs.views.camera_occlusion import EXTENT, REACH, gaps, veiled
from newtongs.views.framing import (
    default_camera,
    follow_path,
    orbit_path,
    points_of_interest,
    smoothed,
    swept_points,
)
from newtongs.views.viewpoints import Viewpoint, clear_camera, clear_viewpoint, frames_seen

pytest.importorskip("numba")


def sheet(middle, a, b, *, n=40):
    """An opaque rectangle: its middle and its half edges."""
    u, v = torch.meshgrid(*[torch.linspace(-1, 1, n)] * 2, indexing="ij")
    x = u.reshape(-1, 1) * torch.tensor(a) + v.reshape(-1, 1) * torch.tensor(b)
    size = max(math.dist((0, 0, 0), a), math.dist((0, 0, 0), b)) / n
    return GaussianScene.make(means=torch.tensor(middle) + x, scales=torch.full((n * n,), size))


def hopping(*around, **fields):
    """A ball of Gaussians that hops over a floor, with what stands around it."""
    times, z = bouncing(frames=9)
    g = torch.Generator().manual_seed(0)
    ball = GaussianScene.make(
        means=z[0, :3] + 0.15 * torch.randn(300, 3, generator=g),
        scales=torch.full((300,), 0.05), ids=0,
    )  # fmt: skip
    floor = sheet((0.0, 0.0, 0.0), (4.0, 0.0, 0.0), (0.0, 0.0, 4.0))
    return Animation(join(ball, floor, *around), times, {0: z}, **fields)


def wall(azimuth, away=1.4, half=2.5):
    side = math.radians(azimuth)
    out, along = (math.sin(side), math.cos(side)), (math.cos(side), -math.sin(side))
    middle = (away * out[0], half, away * out[1])
    return sheet(middle, (half * along[0], 0.0, half * along[1]), (0.0, half, 0.0))


def test_the_usual_side_where_nothing_hides_the_object():
    animation = hopping()
    assert clear_viewpoint(animation)[:3] == Viewpoint()[:3]
    usual, clear = default_camera(animation, (90, 60)), clear_camera(animation, (90, 60))
    assert torch.equal(usual.w2c, clear.w2c)
    assert torch.equal(usual.K, clear.K)
    assert frames_seen(animation, usual) == 1


@pytest.mark.slow
def test_another_side_where_a_wall_stands_before_it():
    animation = hopping(wall(25))
    assert frames_seen(animation, default_camera(animation)) == 0
    view = clear_viewpoint(animation)
    assert view.seen > 0.75
    assert frames_seen(animation, clear_camera(animation)) == 1
    turned = abs((view.azimuth - 25 + 180) % 360 - 180)
    assert turned >= 60 or view.elevation > 14


@pytest.mark.slow
def test_from_above_out_of_a_court():
    walls = [wall(azimuth, away=1.6, half=1.7) for azimuth in (25, 115, 205, 295)]
    animation = hopping(*walls)
    assert frames_seen(animation, default_camera(animation)) == 0
    view = clear_viewpoint(animation)
    assert view.elevation > 14
    assert frames_seen(animation, clear_camera(animation)) > 0.9


def closed_box(away):
    lid = sheet((0.0, 4.0, 0.0), (4.0, 0.0, 0.0), (0.0, 0.0, 4.0))
    return hopping(lid, *(wall(azimuth, away=away, half=3.0) for azimuth in (25, 115, 205, 295)))


@pytest.mark.slow
def test_an_object_in_a_narrow_closed_box_keeps_the_usual_camera():
    view = clear_viewpoint(closed_box(0.7))
    assert view[:3] == Viewpoint()[:3]
    assert view.seen < 0.2


@pytest.mark.slow
def test_an_object_in_a_closed_room_is_seen_from_inside_with_a_wide_field():
    animation = closed_box(1.0)
    camera = clear_camera(animation)
    assert math.hypot(*camera.position[[0, 2]].tolist()) < 1.0
    assert camera.position[1] < 4
    assert frames_seen(animation, camera) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shelf_room", "counter_room", "dining_room", "bookcase"])
def test_in_a_room_the_camera_stands_in_free_space_on_the_inner_side_of_the_walls(name):
    """Every third thing hops; the eye is before the walls, in nothing, and sees it."""
    made = furnished(name)
    half = {"dining_room": 3.0, "bookcase": 2.2}.get(name, 2.5)
    walls = {"dining_room": 4, "shelf_room": 3}.get(name, 2)
    scene = made.scene.replace(sh=made.scene.sh[:, :1])
    for (index,) in made.objects[::5]:
        z0 = lift(scene.object(index))
        z = z0.expand(9, -1).clone()
        s = torch.linspace(0, 1, 9)
        z[:, 1] += 0.2 * (math.pi * s).sin()
        z[:, 2] += 0.1 * s
        ids = torch.where(scene.ids == index, 0, -1)
        animation = Animation(scene.replace(ids=ids), s, {0: z})
        camera = clear_camera(animation, (160, 120))
        x, y, depth = camera.position.tolist()
        inside = [depth > -half, x > -half, x < half, depth < half][:walls]
        assert all(inside)
        assert y < 2.6
        assert frames_seen(animation, camera) == 1
        assert veiled(animation, camera) < 0.05


def test_a_floor_far_below_is_not_in_the_picture_of_what_happens_on_a_shelf():
    animation = hopping()
    low, high = (points_of_interest(animation)[:, 1].amin() for _ in range(2))
    assert low == pytest.approx(0, abs=1e-6)
    raised = animation.scene.means + torch.tensor([0.0, 5.0, 0.0])
    z = animation.states[0].clone()
    z[:, 1] += 5
    scene = animation.scene.replace(means=raised)
    high = points_of_interest(Animation(scene, animation.times, {0: z}))
    assert high[:, 1].amin() > 3
    swept = swept_points(Animation(scene, animation.times, {0: z}), 0)
    assert (high.amin(0) < swept.amin(0)).all()
    assert (high.amax(0) > swept.amax(0)).all()


def test_a_lone_object_is_in_the_middle_and_fills_the_picture():
    alone = hopping(about=About(floor_is="assumed"))
    usual, tight = default_camera(hopping(), (90, 90)), default_camera(alone, (90, 90))
    points = points_of_interest(alone)
    pixels, _ = tight.project(points)
    low, high = pixels.amin(0), pixels.amax(0)
    assert torch.allclose((low + high) / 2, torch.tensor([45.0, 45.0]).double(), atol=0.5)
    assert (high - low).amax() == pytest.approx(81, abs=0.5)  # nine tenths
    loose, _ = usual.project(points)
    assert (loose.amax(0) - loose.amin(0)).amax() < 78


def test_an_object_outside_of_the_picture_is_not_seen():
    animation = hopping()
    camera = default_camera(animation, (80, 80))
    away = torch.eye(4)
    away[:3, :3] = torch.tensor([[-1.0, 0, 0], [0, 1, 0], [0, 0, -1]])  # looks the other way
    turned = type(camera)(camera.K, away @ camera.w2c, 80, 80)
    assert frames_seen(animation, turned) == 0


@pytest.mark.slow
def test_one_camera_a_frame_is_judged_frame_by_frame():
    animation = hopping(wall(25))
    bad, good = default_camera(animation), clear_camera(animation)
    half = frames_seen(animation, [bad] * 4 + [good] * 5)
    assert half == pytest.approx(5 / 9)


def test_an_orbit_keeps_its_distance_and_all_of_the_motion():
    animation = park()
    cameras = orbit_path(animation, (90, 60))
    points = points_of_interest(animation)
    middle = (points.amin(0) + points.amax(0)) / 2
    out = torch.stack([camera.position.double() - middle for camera in cameras])
    assert len(cameras) == len(animation)
    assert torch.allclose(out.norm(dim=-1), out[0].norm().expand(len(out)), rtol=1e-4)
    flat = out[:, [0, 2]] / out[:, [0, 2]].norm(dim=-1, keepdim=True)
    assert float(flat[0] @ flat[-1]) == pytest.approx(0, abs=1e-3)  # 90 degrees
    for camera in cameras:
        pixels, depth = camera.project(points.float())
        assert (depth > 0).all()
        assert (pixels >= 0).all()
        assert (pixels <= torch.tensor([90, 60])).all()


def test_a_camera_that_follows_keeps_the_object_and_does_not_shake():
    times, z = bouncing(frames=49, seconds=2.0)
    z[:, 0] += torch.linspace(0, 6, 49)  # a long way
    ball = GaussianScene.make(
        means=z[0, :3] + 0.1 * torch.randn(200, 3), scales=torch.full((200,), 0.03), ids=0
    )
    animation = Animation(ball, times, {0: z})
    cameras = follow_path(animation, (100, 100))
    boxes = swept_points(animation, 0).unflatten(0, (49, -1)).float()
    for camera, box in zip(cameras, boxes, strict=True):
        pixels, depth = camera.project(box)
        assert (depth > 0).all()
        assert ((pixels >= 0) & (pixels <= 100)).all()
    way = torch.stack([camera.position for camera in cameras]).double()
    jerk = way.diff(dim=0).diff(dim=0).norm(dim=-1).max()
    assert jerk < 0.3 * z[:, :3].double().diff(dim=0).diff(dim=0).norm(dim=-1).max()
    assert len({tuple(camera.w2c[:3, :3].flatten().tolist()) for camera in cameras}) == 1


def test_smoothing_leaves_straight_paths_alone():
    x = torch.arange(12).double()[:, None] * torch.tensor([1.0, -2.0]).double()
    assert torch.allclose(smoothed(x, 3.0), x)
    assert smoothed(x[:1], 3.0).shape == (1, 2)


def test_films_take_a_camera_a_frame_and_pages_the_first(tmp_path):
    animation = park(frames=5)
    cameras = orbit_path(animation, (48, 32))
    paths = export(animation, tmp_path, ["png", "html"], camera=cameras)
    alone = export(
        animation, tmp_path, ["html"], camera=cameras[0], name="first", title="animation"
    )
    assert paths["png"].stat().st_size > 500
    assert paths["html"].read_bytes() == alone["html"].read_bytes()
    with pytest.raises(InputError, match="each of 5 frames, got 3"):
        export(animation, tmp_path, ["png"], camera=cameras[:3])


# --- a camera in something ------------------------------------------------------------------------


def ball(middle, sigma, opacity=0.9):
    return GaussianScene.make(
        means=torch.as_tensor(middle).reshape(1, 3).float(), scales=torch.tensor([sigma]),
        opacities=torch.tensor([opacity]),
    )  # fmt: skip


def test_gaps_are_distances_to_where_a_gaussian_ends():
    turned = torch.tensor([[math.cos(math.pi / 4), 0.0, 0.0, math.sin(math.pi / 4)]])  # x to y
    long = GaussianScene.make(
        means=torch.zeros(1, 3), scales=torch.tensor([[2.0, 0.1, 0.1]]), quats=turned
    )
    for eye, end in [((0, 10, 0), 2.0), ((10, 0, 0), 0.1), ((0, 0, -1), 0.1), ((0, 1, 0), 2.0)]:
        x = torch.tensor(eye).float()
        assert gaps(long, x).item() == pytest.approx(float(x.norm()) - EXTENT * end, abs=1e-5)


def test_nothing_veils_a_camera_that_stands_free():
    animation = hopping()
    assert veiled(animation, default_camera(animation, (90, 60))) == 0
    assert veiled(animation, follow_path(animation, (90, 60))) == 0


def test_what_a_still_camera_stands_in_veils_it():
    animation = hopping()
    camera = default_camera(animation, (90, 60))
    ahead = camera.w2c[2, :3]
    fog = ball(camera.position + 0.3 * ahead, 0.2, opacity=0.5)
    part = veiled(hopping(fog), camera)
    assert 0.3 < part <= 0.5
    assert veiled(hopping(ball(camera.position - 0.3 * ahead, 0.2)), camera) == 0  # behind it


def test_what_is_small_or_far_veils_little():
    animation = hopping()
    camera = default_camera(animation, (90, 60))
    ahead = camera.w2c[2, :3]
    z = bouncing(frames=9)[1][:, :3].double()
    reach = REACH * float((z - camera.position.double()).norm(dim=-1).max())
    inside = camera.position + (reach - 1e-3 + EXTENT * 1e-3) * ahead
    outside = camera.position + (reach + 1e-2 + EXTENT * 1e-3) * ahead
    assert 0 < veiled(hopping(ball(inside, 1e-3)), camera) < 0.02
    assert veiled(hopping(ball(outside, 1e-3)), camera) == 0


def test_what_is_in_the_plane_of_the_lens_veils_though_it_is_below_it():
    camera = default_camera(hopping(), (90, 60))
    ahead = torch.tensor([1.0, 0.0, 1.0]) * camera.w2c[2, :3]

    def slab(further):
        middle = camera.position + torch.tensor([0.0, -1.0, 0.0]) + further * ahead
        return GaussianScene.make(means=middle[None], scales=torch.tensor([[0.5, 0.05, 0.5]]))

    assert gaps(slab(-0.1), camera.position).item() > 0.8
    assert veiled(hopping(slab(-0.1)), camera) > 0.05
    assert veiled(hopping(slab(-0.4)), camera) == 0  # behind the lens, which looks down
    assert veiled(hopping(slab(0.5)), camera) == 0  # before it


def test_what_is_loose_veils_where_it_is_and_what_is_pushed_does_not():
    """A loose object around the camera from frame 4 on, where it has come by then."""
    animation = hopping()
    camera = default_camera(animation, (90, 60))
    times, z = animation.times, animation.states[0]
    away = z.clone()
    away[:, :3] = away[:1, :3] + torch.tensor([0.0, 50.0, 0.0])
    away[4:, :3] = camera.position + 0.3 * camera.w2c[2, :3]
    thing = ball(away[0, :3], 0.2, opacity=0.5).replace(ids=torch.ones(1))
    about = About(objects=(ObjectAbout(0), ObjectAbout(1, loose=True)))
    moving = Animation(join(animation.scene, thing), times, {0: z, 1: away}, about=about)
    assert 0.3 < veiled(moving, camera) <= 0.5
    assert veiled(moving, [camera] * 9) == veiled(moving, camera)
    away[4:] = away[0]
    apart = Animation(join(animation.scene, thing), times, {0: z, 1: away}, about=about)
    assert veiled(apart, camera) == 0


def test_what_is_there_in_frame_0_alone_veils_nothing():
    animation = hopping()
    camera = default_camera(animation, (90, 60))
    fog = ball(camera.position + 0.3 * camera.w2c[2, :3], 0.2)
    presence = torch.zeros(len(animation.scene) + 1, dtype=torch.uint8)
    presence[-1] = FIRST
    assert veiled(hopping(fog), camera) > 0.3
    assert veiled(hopping(fog, presence=presence), camera) == 0


def test_the_worst_frame_of_a_moving_camera_counts():
    animation = hopping()
    cameras = orbit_path(animation, (90, 60))
    lamp = ball(cameras[6].position + 0.2 * cameras[6].w2c[2, :3], 0.08)
    hit = hopping(lamp)
    assert veiled(hit, cameras) > 0.3
    assert veiled(hit, cameras[:3] + [cameras[0]] * 6) == 0


SMALL = ["--size", "48", "48", "--seconds", "0.25", "--formats", "png", "json"]


def test_the_papers_views_of_a_kitchen_warn(tmp_path, capsys):
    cli.main(["animate", "kitchen_table", "--paper", "--out", str(tmp_path), *SMALL])
    said = capsys.readouterr().err
    (line,) = [line for line in said.splitlines() if "is seen in" in line]
    assert "in view 2;" in line
    assert "newtongs replay" in line
    assert "--azimuth" in line


@pytest.mark.parametrize("path", ["orbit", "follow"])
def test_camera_paths_of_the_command(path, tmp_path, capsys):
    cli.main(["animate", "sunny_park", "--out", str(tmp_path), *SMALL, "--hollow",
              "--camera-path", path])  # fmt: skip
    cli.main([
        "replay", str(tmp_path / "sunny_park.json"), "--out", str(tmp_path / "again"), *SMALL[:3],
        "--formats", "png", "--camera-path", path, "--color", "0.62", "0.78", "0.93",
    ])  # fmt: skip
    assert "is seen in" not in capsys.readouterr().err
    assert (tmp_path / "again" / "sunny_park.png").stat().st_size > 500


def test_a_moving_camera_contradicts_a_fixed_one(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["animate", "sunny_park", "--framing", "paper", "--camera-path", "orbit"])
    assert stop.value.code == 2
    assert "--camera-path contradicts --framing paper" in capsys.readouterr().err
