"""From a scene to an animation: what moves, what does not, and how it lands."""

import math

import numpy as np
import pytest
import torch

import newtongs
from newtongs import InputError, rotations
from newtongs.animator import DROP, PAPER, TOSS, Physics, Push, frame_times
from newtongs.scene import BACKGROUND, GaussianScene, join, lift
from newtongs.scene.cameras import look_at
from newtongs.scene.framing import default_camera, paper_orbit, swept_points
from newtongs.scene.io.formats import save
from newtongs.scene.placing import extent, moved
from newtongs.scene.world_frame import WorldFrame
from newtongs.state import State
from newtongs.templates import template

SIMPLE = Physics("analytic", "rigid", "shape")


def box(half=(0.3, 0.2, 0.25), n=1200, seed=0):
    """Gaussians on the surface of a box around the origin."""
    generator = torch.Generator().manual_seed(seed)
    x = 2 * torch.rand(n, 3, generator=generator) - 1
    face = torch.randint(3, (n,), generator=generator)
    x[torch.arange(n), face] = x[torch.arange(n), face].sign()
    return GaussianScene.make(means=x * torch.tensor(half), scales=torch.full((n,), 0.004))


def turned_park(seed):
    """A park scene turned, scaled and shifted at random."""
    generator = torch.Generator().manual_seed(seed)
    q = torch.nn.functional.normalize(torch.randn(4, generator=generator), dim=0)
    shift = torch.randn(3, generator=generator)
    return moved(template("sunny_park").scene(), turn=q, scale=2.5, shift=shift), q


def lowest(animation, index=0):
    """Height of the object's lowest reach above the floor in every frame, in object heights."""
    up, floor = animation.world.up, animation.world.floor
    low, high = extent(animation.scene.object(index), up)
    frames = animation.frames()
    heights = [extent(frames[t].object(index), up)[0] - floor for t in range(len(animation))]
    return torch.tensor(heights) / (high - low)


@pytest.fixture(scope="module")
def thrown():
    scene = template("sunny_park").scene()
    return scene, newtongs.animate(
        scene, velocity=(0.8, 3.0, 0.0), spin=(0.0, 0.0, -4.0), seconds=3
    )


def test_frame_0_is_the_scene_and_the_rest_never_moves(thrown):
    scene, animation = thrown
    still = animation.scene.ids == BACKGROUND
    for name in ("means", "quats", "log_scales", "logits", "sh"):
        assert torch.equal(getattr(animation.scene, name), getattr(scene, name))
        assert torch.equal(getattr(animation.frames()[0], name), getattr(scene, name))
        last = getattr(animation.frames()[-1], name)
        assert torch.equal(last[still], getattr(scene, name)[still])
    assert not torch.equal(animation.frames()[-1].means[~still], scene.means[~still])


def test_it_flies_falls_and_ends_at_rest_on_the_floor(thrown):
    _, animation = thrown
    height = lowest(animation)
    assert height.max() > 0.5
    assert height.min() > -0.03  # never sinks in
    assert height[-10:].abs().max() < 0.03  # nor hovers
    p = State(animation.states[0]).p
    assert (p[-1] - p[-5]).abs().max() < 1e-3
    assert p[-1, 0] > p[0, 0] + 0.5  # towards +x, where it was thrown


def test_it_spins_the_way_it_was_told(thrown):
    _, animation = thrown
    q = State(animation.states[0]).q
    step = rotations.multiply(q[5], rotations.conjugate(q[4]))
    assert torch.allclose(rotations.log(step) * 24, torch.tensor([0, 0, -4.0]).double(), atol=0.2)


@pytest.mark.parametrize("e", [0.3, 0.6, 0.9])
def test_restitution_is_the_one_asked_for(e):
    animation = newtongs.animate(
        box(), select="all", velocity=(0, 0, 0), spin=(0, 0, 0), restitution=e,
        seconds=1.2, fps=240, physics=SIMPLE, up=(0, 1, 0),
    )  # fmt: skip
    v = State(animation.states[0]).v[:, 1]
    hit = int((v[1:] > v[:-1] + 0.1).nonzero()[0])
    assert -v[hit + 1] / v[hit] == pytest.approx(e, rel=0.05)


def test_directions_do_not_depend_on_how_the_scene_lies():
    """x, y, z mean right, up, towards the camera, however the capture is turned."""
    for seed in range(3):
        scene, _ = turned_park(seed)
        animation = newtongs.animate(scene, velocity=(0.5, 3.0, 0.2), spin=(0, 0, 0), seconds=0.5)
        p = animation.world.to_physics(State(animation.states[0]).p)
        start = (p[1] - p[0]) * 24
        assert torch.allclose(start, torch.tensor([0.5, 3.0, 0.2]).double(), atol=0.25)


def test_a_lone_object_hangs_its_height_above_an_assumed_floor():
    thing = moved(box(), shift=torch.tensor([3.0, 5.0, 1.0]))
    animation = newtongs.animate(thing, up=(0, 1, 0), seconds=0.25)
    low, high = extent(thing, animation.world.up)
    assert low - animation.world.floor == pytest.approx(high - low, rel=1e-3)
    assert torch.equal(animation.scene.means[: len(thing)], thing.means)
    assert len(animation.scene) > len(thing)  # the disc
    bare = newtongs.animate(thing, up=(0, 1, 0), seconds=0.25, show_floor=False)
    assert len(bare.scene) == len(thing)


def test_set_into_another_scene():
    stage = template("playroom_floor").background
    animation = newtongs.animate(box(), background=stage, height=0.9, up=(0, 1, 0), seconds=2.5)
    thing = animation.scene.object(0)
    low, high = extent(thing, animation.world.up)
    assert high - low == pytest.approx(0.9, rel=0.02)
    assert torch.equal(animation.scene[animation.scene.ids == BACKGROUND].means, stage.means)
    assert lowest(animation)[-1].abs() < 0.05


def test_our_own_scenes_by_name():
    animation = newtongs.animate("desk_blue_sphere", background="sunny_park", seconds=0.2)
    low, high = extent(animation.scene.object(0), animation.world.up)
    assert high - low == pytest.approx(0.9, rel=0.05)
    assert animation.world.floor == 0
    with pytest.raises(InputError, match="did you mean sunny_park"):
        newtongs.animate(box(), background="sunny_prak", up=(0, 1, 0))


def plate(half=2.0, n=6000, shift=(0.0, 0.0, 0.0)):
    """A floor: flat Gaussians in a square."""
    x = half * (2 * torch.rand(n, 3) - 1) * torch.tensor([1.0, 0.0, 1.0])
    scales = torch.tensor([0.05, 0.002, 0.05]).expand(n, 3)
    return GaussianScene.make(means=x + torch.tensor(shift), scales=scales)


@pytest.mark.parametrize(("gap", "expected"), [(0.0, TOSS), (0.02, TOSS), (0.1, DROP), (0.4, DROP)])
def test_without_a_push_it_is_tossed_from_the_floor_and_dropped_from_the_air(gap, expected):
    scene = join(moved(box(), shift=torch.tensor([0.0, 0.2 + gap, 0.0])), plate())
    animation = newtongs.animate(
        scene, select="box:-1,0.01,-1,1,2,1", up=(0, 1, 0), floor=0.0, seconds=0.2
    )
    (push,) = animation.info["pushes"]
    assert push["velocity"] == pytest.approx(expected[0], abs=1e-6)
    assert push["spin"] == pytest.approx(expected[1], abs=1e-5)


def test_an_object_is_set_over_the_middle_of_a_background_at_a_tenth_of_its_width():
    stage = plate(half=3.0, shift=(5.0, 1.0, -2.0))
    ground = WorldFrame.of_floor((0, 1, 0), 1.0)
    animation = newtongs.animate(box(), background=stage, ground=ground, up=(0, 1, 0), seconds=0.2)
    thing = animation.scene.object(0)
    low, high = extent(thing, animation.world.up)
    assert high - low == pytest.approx(0.6, rel=0.05)
    assert low - 1.0 == pytest.approx(high - low, rel=0.02)  # its own height above the floor
    middle = thing.means.mean(0)
    assert middle[0] == pytest.approx(5, abs=0.15)
    assert middle[2] == pytest.approx(-2, abs=0.15)


def test_a_floor_found_a_little_too_high_gives_way():
    """An object resting on a noisy floor is not pushed out of it at the first frame."""
    thing = box().replace(ids=torch.zeros(1200))
    scene = join(moved(thing, shift=torch.tensor([0.0, 0.15, 0.0])), plate())
    animation = newtongs.animate(scene, up=(0, 1, 0), velocity=(0, 0, 0), seconds=0.2)
    assert animation.info["floor_is"] == "found"
    assert animation.world.floor == pytest.approx(-0.05, abs=0.01)  # the plate lies at zero
    p = State(animation.states[0]).p
    assert (p - p[0]).abs().max() < 1e-3


def test_paper_mode_is_the_papers_model():
    scene = template("desk_blue_sphere").scene()
    animation = newtongs.animate(scene, velocity=(1, 2, 0), spin=(0, 0, 0), physics=PAPER)
    z0 = animation.world.state_to_physics(animation.states[0][0]).float()
    with torch.no_grad():
        expected = newtongs.load_pretrained().rollout(z0, animation.times)
    got = animation.world.state_to_physics(animation.states[0])
    assert torch.allclose(got.float(), expected, atol=2e-4)
    assert State(animation.states[0]).s[-1].mean() > 1.2 * State(animation.states[0]).s[0].mean()


def test_several_objects_each_with_its_own_push():
    left, right = (
        moved(box(seed=i), shift=torch.tensor([x, 0.2, 0.0])) for i, x in enumerate((-2.0, 2.0))
    )
    scene = join(
        left.replace(ids=torch.zeros(len(left))), right.replace(ids=torch.ones(len(right)))
    )
    animation = newtongs.animate(
        scene, up=(0, 1, 0), floor=0.0, seconds=0.5,
        pushes=[Push("id:0", velocity=(0, 4, 0)), Push("id:1", velocity=(0, 1, 0))],
    )  # fmt: skip
    high = [State(animation.states[i]).p[:, 1].max() for i in (0, 1)]
    assert high[0] > high[1] + 0.3
    with pytest.raises(InputError, match="overlaps"):
        newtongs.animate(scene, pushes=[Push("id:0"), Push("all")], up=(0, 1, 0), floor=0.0)


def test_two_marked_objects_are_found_by_themselves():
    left, right = (
        moved(box(seed=i), shift=torch.tensor([x, 0.2, 0.0])) for i, x in ((0, -2.0), (1, 2.0))
    )
    scene = join(
        left.replace(ids=torch.zeros(len(left))), right.replace(ids=torch.ones(len(right)))
    )
    animation = newtongs.animate(
        scene, pushes=[Push(), Push()], up=(0, 1, 0), floor=0.0, seconds=0.2
    )
    assert [int((animation.scene.ids == i).sum()) for i in (0, 1)] == [1200, 1200]


def test_one_objects_ghost_is_not_another_object():
    near, far = (
        moved(box(seed=i), shift=torch.tensor([0.0, 0.2, z])) for i, z in ((0, 0.3), (1, -0.3))
    )
    scene = join(near, far.replace(ids=torch.ones(len(far))))
    camera = look_at((0, 0.2, 4), (0, 0.2, 0), width=200, height=200)
    animation = newtongs.animate(
        scene, pushes=[Push("circle:100,100,60,3.3,4.0"), Push("id:1")], cameras=[camera],
        up=(0, 1, 0), floor=0.0, seconds=0.2,
    )  # fmt: skip
    assert int((animation.scene.ids == 1).sum()) == 1200


def test_a_floor_that_was_given_counts_for_the_selection_too():
    """Under a table top: what lies below the plane found may stand on the one given."""
    top = 4 * torch.rand(4000, 3) - 2
    top[:, 1] = 1.0
    table = GaussianScene.make(means=top, scales=torch.tensor([0.05, 0.005, 0.05]).expand(4000, 3))
    scene = join(moved(box(), shift=torch.tensor([0.0, 0.2, 0.0])), table)
    animation = newtongs.animate(
        scene, select="box:-0.5,-0.5,-0.5,0.5,0.6,0.5", up=(0, 1, 0), floor=0.0, seconds=0.2
    )
    assert animation.world.floor == pytest.approx(0, abs=0.01)


def test_a_background_without_a_floor_is_refused():
    cloud = GaussianScene.make(means=torch.randn(3000, 3) * 3, scales=torch.full((3000,), 0.1))
    with pytest.raises(InputError, match="no floor"):
        newtongs.animate(box(), background=cloud, up=(0, 1, 0))


def test_arrays_and_float64_scenes_do():
    thing = box()
    double = thing.replace(means=thing.means.double())
    animation = newtongs.animate(double, velocity=np.array([0, 1, 0]), up=(0, 1, 0), seconds=0.2)
    assert animation.info["pushes"][0]["velocity"] == [0, 1, 0]
    with pytest.raises(InputError, match="contact"):
        Physics(contact="proxxy")


def test_captures_that_stand_on_their_head_keep_their_front():
    """y down, z ahead becomes y up, z back: x stays."""
    world = WorldFrame.of_floor((0, -1, 0), 0.0)
    x, z = world.to_physics(torch.tensor([[1.0, 0, 0], [0, 0, 1.0]]))
    assert torch.allclose(x, torch.tensor([1.0, 0, 0]))
    assert torch.allclose(z, torch.tensor([0, 0, -1.0]))


def test_default_camera_sees_the_whole_motion(thrown):
    _, animation = thrown
    for azimuth in (0, 25, 140):
        camera = default_camera(animation, (300, 200), azimuth=azimuth)
        pixels, depth = camera.project(swept_points(animation, 0).float())
        assert (depth > 0).all()
        assert (pixels >= 0).all()
        assert (pixels[:, 0] <= 300).all()
        assert (pixels[:, 1] <= 200).all()


def test_up_is_up_in_the_picture(thrown):
    _, animation = thrown
    camera = default_camera(animation)
    z = State(lift(animation.scene.object(0))).p
    above, _ = camera.project(torch.stack([z, z + animation.world.up.float()]))
    assert above[1, 1] < above[0, 1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"velocity": (1, 2)}, "three numbers"),
        ({"restitution": 1.5}, "between 0 and 1"),
        ({"mass": 0}, "positive"),
        ({"seconds": 0}, "seconds"),
        ({"floor": 5.0, "up": (0, 1, 0), "select": "all"}, "below the floor"),
        ({"pushes": [Push()], "velocity": (1, 2, 3)}, "not both"),
        ({"select": "ato"}, "auto"),
    ],
)
def test_bad_requests_are_one_line(options, said):
    with pytest.raises(InputError, match=said) as error:
        newtongs.animate(box(), **options)
    assert "\n" not in str(error.value)


def test_times():
    assert len(frame_times(2, 24)) == 49
    assert frame_times(2, 24)[-1] == 2


def test_a_file_does(tmp_path):
    save(template("construction_floor").scene(), tmp_path / "cone.ply")
    animation = newtongs.animate(tmp_path / "cone.ply", seconds=0.5)
    assert animation.info["source"] == str(tmp_path / "cone.ply")
    assert isinstance(animation.world, WorldFrame)


def test_the_papers_orbit(thrown):
    """55 degrees, radius 5, elevation 1.2 around the mean position, in physics units."""
    _, animation = thrown
    world = animation.world
    way = torch.cat([State(world.state_to_physics(z)).p for z in animation.states.values()])
    cameras = paper_orbit(animation, (300, 200), views=3)
    assert len(cameras) == 3
    for camera in cameras:
        away = world.to_physics(camera.position.double()) - way.mean(0)
        assert away[1].item() == pytest.approx(1.2, abs=1e-4)
        assert away[::2].norm().item() == pytest.approx(5, abs=1e-4)
        pixel, _ = camera.project(world.to_scene(way.mean(0))[None])
        assert pixel[0].tolist() == pytest.approx([150, 100], abs=1e-2)
        assert camera.K[1, 1].item() == pytest.approx(100 / math.tan(math.radians(27.5)))
