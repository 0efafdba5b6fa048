"""The ten templates: exact numbers, closed surfaces, and what makes each thing what it is."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from newtongs import InputError, motions, samples
from newtongs.paper.figures import gallery
from newtongs.render import render
from newtongs.samples import TEMPLATES, surfaces
from newtongs.samples.objects import OBJECTS
from newtongs.samples.surfaces import box, cylinder, ellipsoid, fill, quad, revolve
from newtongs.scene import orbit

ALL = list(TEMPLATES.values())
IDS = list(TEMPLATES)
# Objects without a gap that one can look through, and how much of the light they hold back.
SOLID = {
    "black_white_soccer_ball": 0.95, "cratered_moon_sphere": 0.95, "red_cube": 0.95,
    "blue_sphere": 0.95, "purple_cylinder": 0.95, "orange_pyramid": 0.95,
    "green_glass_bottle": 0.6,
}  # fmt: skip


@pytest.mark.parametrize("t", ALL, ids=IDS)
def test_numbers_and_ranges(t):
    assert (len(t.object), len(t.background)) == (1536, 3200)
    for scene in (t.object, t.background):
        for x in (scene.means, scene.quats, scene.log_scales, scene.logits, scene.sh):
            assert torch.isfinite(x).all()
        assert scene.colors.min() > -1e-5
        assert scene.colors.max() < 1 + 1e-5
        assert scene.opacities.min() > 0.05
        assert scene.opacities.max() <= 1
        assert torch.linalg.eigvalsh(scene.covariances.double()).min() > 0
    assert all(0 <= c <= 1 for c in t.color)


def test_the_papers_table():
    assert samples.names() == (
        "living_room_table", "studio_tabletop", "sunny_park", "kitchen_counter", "orbit_space",
        "playroom_floor", "desk_blue_sphere", "construction_floor", "lab_table_cylinder",
        "display_orange_pyramid",
    )  # fmt: skip
    assert samples.template("construction_floor").object_name == "yellow_cone"
    assert [t.index for t in ALL] == list(range(10))
    assert {t.object_name for t in ALL} == set(OBJECTS)


def test_lookup_by_object_and_near_miss():
    assert samples.template("yellow_cone").scene_id == "construction_floor"
    with pytest.raises(InputError, match="sunny_park"):
        samples.template("suny_park")
    assert [t.scene_id for t in samples.select(["red_cube", "sunny_park"])] == [
        "sunny_park", "playroom_floor",
    ]  # fmt: skip
    with pytest.raises(InputError, match="at least one"):
        samples.select([])


@pytest.mark.parametrize("t", ALL, ids=IDS)
def test_object_stands_on_its_box(t):
    """Height one around the origin, so that p_y = s_y / 2 puts it on the floor."""
    low, high = t.object.bounds()
    assert abs(low[1] + 0.5) < 2e-3
    assert abs(high[1] - 0.5) < 2e-3
    # The box's middle is the object's p: symmetric across as well.
    assert ((low + high)[[0, 2]].abs() < 0.03).all()


@pytest.mark.parametrize("t", ALL, ids=IDS)
def test_made_twice_is_made_alike(t):
    again = OBJECTS[t.object_name]()
    for name, x in t.object.numpy().items():
        np.testing.assert_array_equal(x, again.numpy()[name])
    samples._background.cache_clear()
    before, after = t.background, t.background
    samples._background.cache_clear()
    for name, x in before.numpy().items():
        np.testing.assert_array_equal(x, after.numpy()[name])
        np.testing.assert_array_equal(x, t.background.numpy()[name])


@pytest.mark.parametrize("name", SOLID)
def test_no_holes(name):
    """Inside the outline, three pixels away from its edge, the object covers everything."""
    t = samples.template(name)
    for camera in orbit((0, 0, 0), views=3, radius=2.2, elevation=0.7, width=96, height=96):
        alpha = render(t.object, camera, backend="ewa").alpha
        outline = torch.zeros_like(alpha)
        for row, line in zip(outline, alpha > 0.5, strict=True):
            covered = line.nonzero()
            if len(covered):
                row[covered[0] : covered[-1] + 1] = 1  # a hole would lie between
        eroded = -torch.nn.functional.max_pool2d(-outline[None], 7, stride=1, padding=3)[0]
        inside = alpha[eroded == 1]
        assert len(inside) > 100
        assert inside.min() > SOLID[name], (name, inside.min())


@pytest.mark.parametrize(
    "t", [t for t in ALL if t.scene_id != "orbit_space"], ids=lambda t: t.scene_id
)
def test_floor_has_no_holes(t):
    floor = t.background.means[t.background.means[:, 1].abs() < 0.02][:, [0, 2]].double()
    side = torch.linspace(-3, 3, 25, dtype=torch.float64)
    grid = torch.cartesian_prod(side, side)
    assert torch.cdist(grid, floor).amin(-1).max() < 0.36


def test_nothing_but_the_floor_where_objects_move():
    for t in ALL:
        x = t.background.means
        middle = (x[:, [0, 2]].norm(dim=-1) < 3) & (x[:, 1] < 4)
        assert x[middle][:, 1].max() < 0.1, t.scene_id


def components(points, reach):
    """Number of groups of points ``(n, 3)`` linked by steps shorter than ``reach``."""
    linked = torch.cdist(points, points) < reach
    label = torch.arange(len(points))
    for _ in range(len(points)):
        lowest = torch.where(linked, label, len(points)).amin(-1)
        if (lowest == label).all():
            break
        label = lowest
    return len(label.unique())


def test_soccer_ball_has_twelve_pentagons():
    ball = samples.template("sunny_park").object
    dark = ball.colors.amax(-1) < 0.25
    assert components(ball.means[dark].double(), 0.08) == 12
    assert 0.2 < dark.float().mean() < 0.36  # 28 % of a truncated icosahedron's sphere


def test_car_has_four_wheels_and_is_red():
    car = samples.template("red_toy_car").object
    low = car.means[:, 1] < -0.42
    assert components(car.means[low].double(), 0.15) == 4
    red, green, blue = car.colors[car.means[:, 1] > -0.2].mean(0)
    assert red > 2 * max(green, blue)


def test_mug_is_hollow_and_has_a_handle():
    mug = samples.template("studio_tabletop").object
    axis = torch.hypot(mug.means[:, 0] + 0.14, mug.means[:, 2])
    inside = (axis < 0.3) & (mug.means[:, 1].abs() < 0.3)
    assert not inside.any()
    assert (axis > 0.55).sum() > 50


@pytest.mark.parametrize(
    ("name", "channel"),
    [("red_cube", 0), ("blue_sphere", 2), ("blue_ceramic_mug", 2), ("green_glass_bottle", 1)],
)
def test_colour_is_the_one_in_the_name(name, channel):
    assert samples.template(name).object.colors.mean(0).argmax() == channel


@settings(max_examples=40, deadline=None)
@given(
    total=st.integers(30, 400),
    sizes=st.lists(st.floats(0.1, 3), min_size=1, max_size=6),
    fixed=st.integers(0, 20),
)
def test_fill_gives_exactly_what_was_asked(total, sizes, fixed):
    parts = [ellipsoid((0, 0, 0), r).but(spacing=1 / r) for r in sizes]
    points = np.random.default_rng(total).normal(size=(fixed, 3))
    parts += [surfaces.dots(points, 0.1)] if fixed else []
    counts = surfaces.share(total, parts)
    assert sum(counts) == total
    wish = np.array([s.area / s.spacing**2 for s in parts[: len(sizes)]])
    exact = (total - fixed) * wish / wish.sum()
    assert np.abs(np.array(counts[: len(sizes)]) - exact).max() < 1
    assert not fixed or counts[-1] == fixed
    assert len(fill(total, parts)) == total


def test_areas_and_places():
    """Areas against closed forms, discs on their surface, even density."""
    tin = cylinder(0.4, -0.5, 0.5)
    assert tin.area == pytest.approx(2 * np.pi * 0.4 * (1.0 + 0.4), rel=1e-3)
    d = tin.sample(2000)
    assert np.allclose(np.linalg.norm(d.normals, axis=-1), 1)
    assert np.allclose(np.linalg.det(d.frames), 1)
    side = np.abs(d.means[:, 1]) < 0.499
    assert side.mean() == pytest.approx(1 / 1.4, abs=1 / 31)  # 31 rings on the side: one of them
    assert np.allclose(np.hypot(d.means[side, 0], d.means[side, 2]), 0.4)
    assert ellipsoid((0, 0, 0), (1, 2, 3)).area == pytest.approx(48.882, rel=0.011)  # Thomsen
    assert sum(f.area for f in box((0, 0, 0), (1, 2, 3))) == pytest.approx(22)
    triangle = quad((0, 0, 0), (2, 0, 0), (0, 1, 0), (0, 1, 0))
    assert triangle.area == pytest.approx(1)
    m = triangle.sample(500).means
    assert (m >= -1e-9).all()
    assert (m[:, 0] / 2 + m[:, 1] <= 1 + 1e-9).all()
    assert np.allclose(m.mean(0), (2 / 3, 1 / 3, 0), atol=0.02)  # even over the area


def test_normals_point_outwards():
    for part in [*box((0.3, 0, 0), (1, 1, 1)), revolve([(0, -1), (1, -1), (1, 1), (0, 1)])]:
        d = part.sample(60)
        assert (((d.means - (0.3, 0, 0)) * d.normals).sum(-1) > 0.1).mean() > 0.95


def test_moved_surface_keeps_its_paint():
    """Paint is in the coordinates a thing was modelled in."""
    painted = ellipsoid((0, 0, -5), 1.0).but(paint=lambda p: (p + 6) / 12, glow=1.0)
    there = painted.moved((1, 2, 3), yaw=70, scale=2)
    a, b = fill(50, [painted]), fill(50, [there])
    torch.testing.assert_close(a.colors, b.colors)
    torch.testing.assert_close(2 * a.scales, b.scales)
    c, s = np.cos(np.radians(70)), np.sin(np.radians(70))
    turn = torch.tensor([[c, 0, s], [0, 1, 0], [-s, 0, c]]).float()
    torch.testing.assert_close(2 * a.means @ turn.T + torch.tensor([1.0, 2, 3]), b.means)
    torch.testing.assert_close(4 * turn @ a.covariances @ turn.T, b.covariances)


def test_gallery_names_motions_and_draws(tmp_path):
    assert list(gallery.MOTIONS) == IDS
    known = {name for names in gallery.MOTIONS.values() for name in names}
    assert known <= set(motions.STATE32)
    assert len(motions.STATE32) - len(known) == 4  # those without a floor
    assert all(len(set(names)) == 4 for names in gallery.MOTIONS.values())
    picture = gallery.portrait(samples.template("red_cube"), size=64)
    assert picture.shape == (64, 64, 3)
    red, green, blue = picture[28:40, 24:34].mean((0, 1))
    assert red > 3 * max(green, blue)
    path = gallery.motion_strips(tmp_path / "x.png", samples.template("orbit_space"), size=24)
    assert path.read_bytes().startswith(b"\x89PNG")
