"""From a scene to an animation: what moves, what does not, and how it lands."""

import math
from dataclasses import replace as changed

import numpy as np
import pytest
import torch

import newtongs
from newtongs import InputError
from newtongs.base import rotations
from newtongs.base.errors import InputWarning
from newtongs.base.state import State
from newtongs.dynamics import Box, Dynamics, Plane
from newtongs.formats.files import save
from newtongs.pipeline.bodies import DROP, TOSS
from newtongs.pipeline.pick import pick
from newtongs.pipeline.prepare import prepare
from newtongs.pipeline.run import frame_times, most_seconds
from newtongs.pipeline.source import Source, floor_of
from newtongs.pipeline.spec import PAPER, ObjectSpec, Physics, Place, SceneSpec
from newtongs.samples import template
from newtongs.scene import BACKGROUND, GaussianScene, join, lift
from newtongs.scene.cameras import look_at
from newtongs.scene.similarity import extent, moved
from newtongs.scene.world_frame import WorldFrame
from newtongs.views.framing import default_camera, paper_orbit, swept_points

SIMPLE = Physics("analytic", "rigid", "world")


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


@pytest.mark.slow
def test_frame_0_is_the_scene_and_the_rest_never_moves(thrown):
    scene, animation = thrown
    still = animation.scene.ids == BACKGROUND
    for name in ("means", "quats", "log_scales", "logits", "sh"):
        assert torch.equal(getattr(animation.scene, name), getattr(scene, name))
        assert torch.equal(getattr(animation.frames()[0], name), getattr(scene, name))
        last = getattr(animation.frames()[-1], name)
        assert name == "sh" or torch.equal(last[still], getattr(scene, name)[still])
    dark = (animation.frames()[-1].sh != scene.sh).flatten(1).any(-1)
    assert 0 < int(dark[still].sum()) < 0.05 * int(still.sum())  # its shadow
    assert not torch.equal(animation.frames()[-1].means[~still], scene.means[~still])


def test_it_flies_falls_and_rolls_on_the_floor(thrown):
    _, animation = thrown
    height = lowest(animation)
    assert height.max() > 0.5
    assert height.min() > -0.03  # never sinks in
    assert height[-10:].abs().max() < 0.03  # nor hovers
    x = State(animation.states[0])
    speed = x.v.norm(dim=-1)
    assert speed[-1] < 0.7 * speed[0]
    assert x.v[-5:, 1].abs().max() < 0.1  # the grass is not quite even
    assert x.p[-1, 0] > x.p[0, 0] + 0.5  # towards +x, where it was thrown


def test_a_box_ends_at_rest_on_the_floor():
    scene = join(box().replace(ids=torch.zeros(1200)), plate(shift=(0.0, -0.2, 0.0)))
    animation = newtongs.animate(scene, velocity=(0.8, 2.0, 0.0), spin=(0, 0, -4), seconds=3)
    p = State(animation.states[0]).p
    assert torch.equal(p[-1], p[-3])
    assert lowest(animation)[-1].abs() < 0.03


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
    assert -v[hit : hit + 12].max() / v[hit - 2 : hit + 2].min() == pytest.approx(e, rel=0.05)


def test_things_bounce_little_unless_told(thrown):
    _, animation = thrown
    assert [one.restitution for one in animation.about.objects] == [pytest.approx(0.3)]


ALONE = {"up": (0, 1, 0), "floor_height": -0.2, "select": "all", "show_floor": False}


@pytest.mark.slow
def test_a_film_without_a_length_ends_soon_after_everything_rests():
    dropped = {"velocity": (0, 0, 0), "spin": (0, 0, 0), "restitution": 0.0}
    short = newtongs.animate(box(), **dropped, **ALONE)
    assert float(short.times[-1]) == short.about.seconds == 2
    slid = {"velocity": (5, 0, 0), "spin": (0, 0, 0), "friction": 0.15}
    cut = newtongs.animate(box(), **slid, **ALONE)
    whole = newtongs.animate(box(), **slid, **ALONE, seconds=6)
    frames, end = len(cut), float(cut.times[-1])
    assert 2.5 < end < 6
    assert cut.about.seconds == end
    assert torch.equal(cut.states[0], whole.states[0][:frames])
    x = State(whole.states[0])
    assert (x.p[frames:] - x.p[-1]).norm(dim=-1).max() < 0.005
    assert (x.p[frames - 18] - x.p[-1]).norm() > 0.002  # it moved 0.75 s before the end
    rolled = newtongs.animate(box(), velocity=(900, 0, 0), friction=0.0, **ALONE)
    assert float(rolled.times[-1]) == 6


@pytest.mark.slow
def test_slow_motion_shows_more_frames_of_the_same_motion():
    words = {"velocity": (1.0, 2.0, 0), "restitution": 0.5, "fps": 16, **ALONE}
    usual, slow = (newtongs.animate(box(), seconds=0.7, slow=n, **words) for n in (1, 5))
    assert len(slow) == 5 * 11 + 2  # 0.7 s at 80 frames a second
    assert slow.fps == pytest.approx(16)
    assert (slow.about.slow, slow.about.seconds, slow.about.fps) == (5, 0.7, 16)
    assert torch.equal(slow.states[0][:56:5], usual.states[0])
    ends = [float(newtongs.animate(box(), slow=n, **words).times[-1]) / n for n in (1, 4)]
    assert 2 <= ends[0] < 6
    assert ends[0] == pytest.approx(ends[1], abs=1 / 16)


@pytest.mark.slow
def test_some_films_have_a_length_of_their_own():
    one = {"velocity": (9, 0, 0), "friction": 0.0}
    for words in ({"motion": "3d_uniform_motion"}, {"physics": Physics("context"), **one}):
        assert float(newtongs.animate(box(), **words, **ALONE).times[-1]) == 2
    objects = (ObjectSpec(),)
    assert most_seconds(None, objects, PAPER) == most_seconds(None, objects, SIMPLE, "goal") == 2
    assert most_seconds(None, objects, SIMPLE) == 6
    assert most_seconds(3.5, objects, PAPER) == 3.5


@pytest.mark.slow
def test_directions_do_not_depend_on_how_the_scene_lies():
    """x, y, z mean right, up, towards the camera, however the capture is turned."""
    for seed in range(3):
        scene, _ = turned_park(seed)
        animation = newtongs.animate(scene, velocity=(0.5, 3.0, 0.2), spin=(0, 0, 0), seconds=0.5)
        p = animation.world.to_physics(State(animation.states[0]).p)
        start = (p[1] - p[0]) * 24
        assert torch.allclose(start, torch.tensor([0.5, 3.0, 0.2]).double(), atol=0.25)


def test_a_lone_object_hangs_half_its_height_above_an_assumed_floor():
    thing = moved(box(), shift=torch.tensor([3.0, 5.0, 1.0]))
    animation = newtongs.animate(thing, up=(0, 1, 0), seconds=0.25)
    low, high = extent(thing, animation.world.up)
    assert low - animation.world.floor == pytest.approx((high - low) / 2, rel=1e-3)
    assert torch.equal(animation.scene.means[: len(thing)], thing.means)
    assert len(animation.scene) > len(thing)  # the disc
    bare = newtongs.animate(thing, up=(0, 1, 0), seconds=0.25, show_floor=False)
    assert len(bare.scene) == len(thing)


@pytest.mark.slow
def test_set_into_another_scene():
    stage = template("playroom_floor").background
    animation = newtongs.animate(box(), place=Place(stage, height=0.9), up=(0, 1, 0), seconds=2.5)
    thing = animation.scene.object(0)
    low, high = extent(thing, animation.world.up)
    assert high - low == pytest.approx(0.9, rel=0.02)
    assert torch.equal(animation.scene[animation.scene.ids == BACKGROUND].means, stage.means)
    assert lowest(animation)[-1].abs() < 0.05


@pytest.mark.slow
def test_our_own_scenes_by_name():
    animation = newtongs.animate("desk_blue_sphere", place=Place("sunny_park"), seconds=0.2)
    low, high = extent(animation.scene.object(0), animation.world.up)
    assert high - low == pytest.approx(0.9, rel=0.05)
    assert animation.world.floor == 0
    with pytest.raises(InputError, match="did you mean sunny_park"):
        newtongs.animate(box(), place=Place("sunny_prak"), up=(0, 1, 0))


def plate(half=2.0, n=6000, shift=(0.0, 0.0, 0.0)):
    """A floor: flat Gaussians in a square."""
    x = half * (2 * torch.rand(n, 3) - 1) * torch.tensor([1.0, 0.0, 1.0])
    scales = torch.tensor([0.05, 0.002, 0.05]).expand(n, 3)
    return GaussianScene.make(means=x + torch.tensor(shift), scales=scales)


@pytest.mark.parametrize(("gap", "expected"), [(0.0, TOSS), (0.02, TOSS), (0.1, DROP), (0.4, DROP)])
@pytest.mark.slow
def test_without_a_push_it_is_tossed_from_the_floor_and_dropped_from_the_air(gap, expected):
    scene = join(moved(box(), shift=torch.tensor([0.0, 0.2 + gap, 0.0])), plate())
    animation = newtongs.animate(
        scene, select="box:-1,0.01,-1,1,2,1", up=(0, 1, 0), floor_height=0.0, seconds=0.2
    )
    (one,) = animation.about.objects
    assert one.velocity == pytest.approx(expected[0], abs=1e-6)
    assert one.spin == pytest.approx(expected[1], abs=1e-5)


def test_an_object_is_set_over_the_middle_of_a_background_at_a_tenth_of_its_width():
    stage = plate(half=3.0, shift=(5.0, 1.0, -2.0))
    place = Place(stage, up=(0, 1, 0), floor_height=1.0)
    animation = newtongs.animate(box(), place=place, up=(0, 1, 0), seconds=0.2)
    thing = animation.scene.object(0)
    low, high = extent(thing, animation.world.up)
    widths = [b - a for a, b in (extent(thing, d) for d in torch.eye(3).double())]
    assert max(widths) == pytest.approx(0.6, rel=0.05)
    assert low - 1.0 == pytest.approx(high - low, rel=0.02)  # its own height above the floor
    middle = thing.means.mean(0)
    assert middle[0] == pytest.approx(5, abs=0.15)
    assert middle[2] == pytest.approx(-2, abs=0.15)


def test_a_floor_found_a_little_too_high_gives_way():
    """An object resting on a noisy floor is not pushed out of it at the first frame."""
    thing = box().replace(ids=torch.zeros(1200))
    scene = join(moved(thing, shift=torch.tensor([0.0, 0.15, 0.0])), plate())
    animation = newtongs.animate(scene, up=(0, 1, 0), velocity=(0, 0, 0), seconds=0.2)
    assert animation.about.floor_is == "found"
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
    s = State(animation.states[0]).s
    assert (s[-1] / s[0] - 1).abs().min() > 0.02  # sizes are free


def slanted_box():
    """A flat box whose axes are not those of its scene, above a floor at zero."""
    turn = torch.nn.functional.normalize(torch.tensor([0.9, 0.2, -0.3, 0.1]), dim=0)
    return moved(box((0.3, 0.2, 0.04)), turn=turn, shift=torch.tensor([0.4, 1.5, -0.2]))


def test_the_paper_to_the_letter():
    """No rescaling, no rates unless given, e = 0.75, and Z_0 is the lifted state itself."""
    scene, where = slanted_box(), {"up": (0, 1, 0), "floor_height": 0.0, "seconds": 1.0}
    animation = newtongs.animate(scene, physics=PAPER, **where)
    assert animation.world.scale == 1
    z0 = animation.states[0][0]
    torch.testing.assert_close(z0, lift(scene).to(z0), rtol=0, atol=1e-6)  # with (1, 0.75, 0.2)
    assert State(z0).e.item() == pytest.approx(0.75)
    given = newtongs.animate(scene, physics=PAPER, velocity=(1, 0, 0), restitution=0.3, **where)
    x = State(given.states[0][0])
    assert x.v.tolist() == pytest.approx([1, 0, 0])
    assert x.w.tolist() == [0, 0, 0]
    assert x.e.item() == pytest.approx(0.3)


def test_the_papers_code_scales_along_the_stored_axes():
    """``A_impl = R_rel diag(rho)`` in the frames, in the matrices and in the nodes of files."""
    scene = slanted_box()
    animation = newtongs.animate(scene, physics=PAPER, up=(0, 1, 0), floor_height=0.0, seconds=1.0)
    x = State(animation.states[0].double())
    q = rotations.normalize(x.q)
    turn = rotations.multiply(q[-1], rotations.conjugate(q[0]))
    A = rotations.to_matrix(turn) @ torch.diag(x.s[-1] / x.s[0])
    expected = (scene.means.double() - x.p[0]) @ A.T + x.p[-1]
    means = animation.frames()[len(animation) - 1].object(0).means.double()
    torch.testing.assert_close(means, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(animation.affines(0)[0][-1], A, rtol=0, atol=1e-9)
    node = animation.node_track(0)
    assert node.inner_rotation.tolist() == [1, 0, 0, 0]
    local = scene.means.double() + node.inner_translation
    placed = rotations.rotate(node.rotation[-1], local * node.scale[-1]) + node.translation[-1]
    torch.testing.assert_close(placed, expected, rtol=0, atol=1e-9)
    local_frame = changed(animation, form="main").affines(0)[0][-1]
    assert (local_frame - A).abs().max() > 0.05  # the main text's is another matrix here


def test_the_papers_procedure_is_not_mixed_with_another():
    scene = slanted_box()
    for options, said in (
        ({"solids": [Plane((0, 1, 0), 0.0)]}, "planes cannot be combined"),
        ({"place": Place("sunny_park")}, "place cannot be combined"),
        ({"motion": "free_fall"}, "labelled path"),
        ({"loose": True}, "loose"),
    ):
        with pytest.raises(InputError, match=said):
            newtongs.animate(scene, physics=PAPER, **options)


def test_several_objects_each_with_its_own_push():
    left, right = (
        moved(box(seed=i), shift=torch.tensor([x, 0.2, 0.0])) for i, x in enumerate((-2.0, 2.0))
    )
    scene = join(
        left.replace(ids=torch.zeros(len(left))), right.replace(ids=torch.ones(len(right)))
    )
    animation = newtongs.animate(
        scene, up=(0, 1, 0), floor_height=0.0, seconds=0.5,
        objects=[ObjectSpec("id:0", velocity=(0, 4, 0)), ObjectSpec("id:1", velocity=(0, 1, 0))],
    )  # fmt: skip
    high = [State(animation.states[i]).p[:, 1].max() for i in (0, 1)]
    assert high[0] > high[1] + 0.3
    with pytest.raises(InputError, match="overlaps"):
        newtongs.animate(
            scene, objects=[ObjectSpec("id:0"), ObjectSpec("all")], up=(0, 1, 0), floor_height=0.0
        )


def picked(scene, objects):
    spec = SceneSpec(tuple(objects), up=(0, 1, 0), floor_height=0.0, complete=False)
    source = Source(scene, None, ours=False)
    return pick(source, spec, floor_of(source, spec.up, spec.floor_height))


def test_what_neighbours_share_belongs_to_the_first():
    row = GaussianScene.make(
        means=torch.stack(
            [torch.linspace(-1, 1, 201), torch.full((201,), 0.5), torch.zeros(201)], -1
        ),
        scales=torch.full((201,), 0.01),
    )
    ends = [ObjectSpec(f"sphere:{x},0.5,0,0.53") for x in (-0.5, 0.5)]
    layout = picked(row, ends)
    counts = [int((layout.scene.ids == i).sum()) for i in (0, 1)]
    assert counts[0] > counts[1] > 90
    assert sum(counts) == 201
    far = [ObjectSpec(f"sphere:{x},0.5,0,0.6") for x in (-0.5, 0.5)]
    with pytest.raises(InputError, match=r"object 1 .* overlaps"):
        picked(row, far)


def test_two_marked_objects_are_found_by_themselves():
    left, right = (
        moved(box(seed=i), shift=torch.tensor([x, 0.2, 0.0])) for i, x in ((0, -2.0), (1, 2.0))
    )
    scene = join(
        left.replace(ids=torch.zeros(len(left))), right.replace(ids=torch.ones(len(right)))
    )
    animation = newtongs.animate(
        scene, objects=[ObjectSpec(), ObjectSpec()], up=(0, 1, 0), floor_height=0.0, seconds=0.2
    )
    assert [int((animation.scene.ids == i).sum()) for i in (0, 1)] == [1200, 1200]


@pytest.mark.slow
def test_one_objects_ghost_is_not_another_object():
    near, far = (
        moved(box(seed=i), shift=torch.tensor([0.0, 0.2, z])) for i, z in ((0, 0.3), (1, -0.3))
    )
    scene = join(near, far.replace(ids=torch.ones(len(far))))
    camera = look_at((0, 0.2, 4), (0, 0.2, 0), width=200, height=200)
    animation = newtongs.animate(
        scene, objects=[ObjectSpec("circle:100,100,60,3.3,4.0"), ObjectSpec("id:1")],
        cameras=[camera], up=(0, 1, 0), floor_height=0.0, seconds=0.2,
    )  # fmt: skip
    assert int((animation.scene.ids == 1).sum()) == 1200


@pytest.mark.slow
def test_a_floor_that_was_given_counts_for_the_selection_too():
    """Under a table top: what lies below the plane found may stand on the one given."""
    top = 4 * torch.rand(4000, 3) - 2
    top[:, 1] = 1.0
    table = GaussianScene.make(means=top, scales=torch.tensor([0.05, 0.005, 0.05]).expand(4000, 3))
    scene = join(moved(box(), shift=torch.tensor([0.0, 0.2, 0.0])), table)
    animation = newtongs.animate(
        scene, select="box:-0.5,-0.5,-0.5,0.5,0.6,0.5", up=(0, 1, 0), floor_height=0.0, seconds=0.2
    )
    assert animation.world.floor == pytest.approx(0, abs=0.01)


def test_a_background_without_a_floor_is_refused():
    cloud = GaussianScene.make(means=torch.randn(3000, 3) * 3, scales=torch.full((3000,), 0.1))
    with pytest.raises(InputError, match="no floor"):
        newtongs.animate(box(), place=Place(cloud), up=(0, 1, 0))


@pytest.mark.slow
def test_arrays_and_float64_scenes_do():
    thing = box()
    double = thing.replace(means=thing.means.double())
    animation = newtongs.animate(double, velocity=np.array([0, 1, 0]), up=(0, 1, 0), seconds=0.2)
    assert animation.about.objects[0].velocity == (0, 1, 0)
    with pytest.raises(InputError, match="contact"):
        Physics(contact="papr")


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
        ({"mass": 0}, "above 0"),
        ({"seconds": 0}, "seconds"),
        ({"floor_height": 5.0, "up": (0, 1, 0), "select": "all"}, "below the floor"),
        ({"objects": [ObjectSpec()], "velocity": (1, 2, 3)}, "not both"),
        ({"select": "ato"}, "auto"),
        ({"slow": 0.5}, "slow: expected 1 to 20, got 0.5"),
        ({"slow": 21}, "slow: expected 1 to 20, got 21"),
        ({"slow": 20, "fps": 60}, "slow times fps: expected up to 1000"),
        ({"physics": lambda: Physics(gravity=-1)}, "gravity: expected 0 to 100, got -1"),
        ({"physics": lambda: Physics(gravity=math.nan)}, "0 to 100, got nan"),
        ({"physics": lambda: Physics("learned", gravity=1)}, "got learned; use one of them"),
        ({"physics": lambda: Physics("context", gravity=1)}, "got context"),
        ({"physics": lambda: Physics(newtongs.GaussianNND(), gravity=1)}, "got GaussianNND"),
        ({"physics": lambda: changed(PAPER, gravity=1.0)}, "a gravity other than 9.81 requires"),
    ],
)
def test_bad_requests_are_one_line(options, said):
    with pytest.raises(InputError, match=said) as error:
        newtongs.animate(box(), **{k: x() if callable(x) else x for k, x in options.items()})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("contact", ["world", "paper"])
def test_on_the_moon_things_fall_slowly(contact):
    words = {"velocity": (0.5, 1.0, 0), "spin": (0, 0, 0), "seconds": 1.0, "meters_per_unit": 1.0}
    moon = newtongs.animate(box(), physics=Physics(contact=contact, gravity=1.62), **words, **ALONE)
    y = physics_path(moon)[:, 1] - physics_path(moon)[0, 1]
    assert float(y.max()) == pytest.approx(1.0**2 / (2 * 1.62), rel=0.03)
    assert float(moon.times[y.argmax()]) == pytest.approx(1.0 / 1.62, abs=0.05)
    assert moon.about.gravity == 1.62
    adrift = newtongs.animate(box(), physics=Physics(contact=contact, gravity=0), **words, **ALONE)
    end = physics_path(adrift)[-1] - physics_path(adrift)[0]
    assert torch.allclose(end, torch.tensor([0.5, 1.0, 0.0]).double(), rtol=0.03, atol=1e-3)


def test_times():
    assert len(frame_times(2, 24)) == 49
    assert frame_times(2, 24)[-1] == 2


@pytest.mark.slow
def test_a_file_does(tmp_path):
    save(template("construction_floor").scene(), tmp_path / "cone.ply")
    animation = newtongs.animate(tmp_path / "cone.ply", seconds=0.5)
    assert animation.about.source == str(tmp_path / "cone.ply")
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


# --- the world: surfaces, several objects, named motions ---------------------------------------


def two_boxes(gap=1.0):
    """Two marked boxes side by side on a plate."""
    things = [
        moved(box(seed=i), shift=torch.tensor([i * gap, 0.2, 0.0])).replace(
            ids=torch.full((1200,), i)
        )
        for i in range(2)
    ]
    return join(*things, plate(half=4.0))


def physics_path(animation, index=0):
    return State(animation.world.state_to_physics(animation.states[index])).p


@pytest.mark.slow
def test_a_loose_object_stays_until_it_is_hit_and_then_moves():
    words = {"loose": True, "up": (0, 1, 0), "floor_height": 0.0, "seconds": 1.5, "friction": 0.2}
    hit = newtongs.animate(two_boxes(), velocity=(3.0, 0, 0), spin=(0, 0, 0), **words)
    path = physics_path(hit, 1)
    first = int((path[:, 0] > path[0, 0] + 1e-4).nonzero()[0])
    assert first > 2
    assert torch.equal(path[: first - 1], path[:1].expand(first - 1, 3))  # bit for bit
    assert path[-1, 0] > path[0, 0] + 0.1
    assert physics_path(hit, 0)[-1, 0] < path[-1, 0]  # nothing went through anything
    missed = newtongs.animate(two_boxes(), velocity=(-3.0, 0, 0), spin=(0, 0, 0), **words)
    assert torch.equal(physics_path(missed, 1)[-1], physics_path(missed, 1)[0])
    assert [one.loose for one in hit.about.objects] == [False, True]


@pytest.mark.slow
def test_sleepers_that_reach_into_each_other_do_not_shoot_apart():
    words = {"loose": True, "up": (0, 1, 0), "floor_height": 0.0, "seconds": 1.5, "friction": 0.2}
    third = moved(box(seed=5), shift=torch.tensor([1.15, 0.2, 0.0]))
    crowd = join(two_boxes(), third.replace(ids=torch.full((1200,), 2)))
    hit = newtongs.animate(crowd, velocity=(3.0, 0, 0), spin=(0, 0, 0), **words)
    speed = [State(hit.world.state_to_physics(hit.states[i])).v.norm(dim=-1) for i in (1, 2)]
    assert max(float(v.max()) for v in speed) < 3.1
    assert all(float(v.max()) > 0.1 for v in speed[:1])


@pytest.mark.slow
def test_patches_of_the_ground_are_not_loose():
    tuft = moved(box((0.3, 0.04, 0.3), seed=7), shift=torch.tensor([1.5, 0.08, 0.0]))
    things = moved(box(), shift=torch.tensor([0.0, 0.3, 0.0]))
    scene = join(things, tuft, plate(half=4.0))
    words = {"up": (0, 1, 0), "seconds": 0.2, "loose": True}
    with pytest.raises(InputError, match="no other upright object"):
        newtongs.animate(scene, **words)
    taller = moved(box((0.2, 0.3, 0.2), seed=7), shift=torch.tensor([1.5, 0.35, 0.0]))
    both = newtongs.animate(join(things, taller, plate(half=4.0)), **words)
    assert len(both.about.objects) == 2


@pytest.mark.parametrize(
    "solid",
    [
        {"solids": [Plane((0.0, 1.0, 0.0), 0.2)]},
        {"solids": [Box((-1.0, 0.0, -1.0), (1.0, 0.3, 1.0))]},
    ],
)
def test_a_start_inside_something_solid_is_refused(solid):
    thing = moved(box(), shift=torch.tensor([0.0, 0.2, 0.0]))
    with pytest.raises(InputError, match=r"object 0 starts .* inside"):
        newtongs.animate(thing, up=(0, 1, 0), floor_height=0.0, select="all", **solid)


@pytest.mark.parametrize("contact", ["world", "paper"])
@pytest.mark.slow
def test_a_wall_and_a_box_stop_an_object(contact):
    physics = Physics(contact=contact)
    words = {
        "up": (0, 1, 0), "floor_height": 0.0, "seconds": 1.0, "physics": physics,
        "friction": 0.0, "attenuation": 0.0, "select": "all", "velocity": (4.0, 0, 0),
        "spin": (0, 0, 0),
    }  # fmt: skip
    thing = moved(box(), shift=torch.tensor([0.0, 0.2, 0.0]))
    free = physics_path(newtongs.animate(thing, **words))
    wall = Plane((-1.0, 0.0, 0.0), -1.5)
    walled = newtongs.animate(thing, solids=[wall], **words)
    block = newtongs.animate(thing, solids=[Box((1.5, 0.0, -2.0), (2.0, 2.0, 2.0))], **words)
    assert free[-1, 0] > 3
    for animation in (walled, block):
        assert physics_path(animation)[:, 0].max() < 1.5
        assert len(animation.scene) > len(thing)  # made visible
    assert walled.about.planes == ((-1.0, 0.0, 0.0, -1.5),)


def test_a_ramp_is_slid_down():
    ramp = Plane((0.5, 1.0, 0.0), 0.0)
    thing = moved(box((0.3, 0.1, 0.25)), shift=torch.tensor([0.0, 1.0, 0.0]))
    animation = newtongs.animate(
        thing, select="all", solids=[ramp], up=(0, 1, 0), floor_height=-5.0, velocity=(0, 0, 0),
        friction=0.1, seconds=1.5,
    )  # fmt: skip
    p = physics_path(animation)
    assert p[-1, 0] > p[0, 0] + 1


@pytest.mark.slow
def test_things_fall_off_the_edge_of_a_table_onto_what_is_below():
    table = moved(plate(half=0.6), shift=torch.tensor([0.0, 0.0, 0.0]))
    ground = plate(half=4.0, n=20000, shift=(0.0, -1.5, 0.0))
    thing = moved(box((0.15, 0.15, 0.15)), shift=torch.tensor([0.0, 0.15, 0.0]))
    scene = join(thing.replace(ids=torch.zeros(1200)), table, ground)
    words = {"velocity": (3.0, 0, 0), "spin": (0, 0, 0), "friction": 0.1, "seconds": 3.0}
    words |= {"restitution": 0.6}  # with less it catches on this rough table, and stays there
    animation = newtongs.animate(scene, up=(0, 1, 0), **words)
    world = animation.world
    end = State(animation.states[0]).p[-1]
    assert end[1] == pytest.approx(-1.5 + 0.15, abs=0.12)
    hollow = newtongs.animate(scene, up=(0, 1, 0), physics=Physics(solid=False), **words)
    assert world.floor == hollow.world.floor
    assert State(hollow.states[0]).p[-1, 1] > animation.world.floor - 0.1


@pytest.mark.slow
def test_a_named_motion_drives_an_object_that_pushes_what_it_meets():
    scene = two_boxes(gap=0.8)
    led = ObjectSpec("id:0", motion="3d_uniform_motion")
    animation = newtongs.animate(
        scene, objects=[led, ObjectSpec("id:1", velocity=(0, 0, 0))],
        up=(0, 1, 0), floor_height=0.0, seconds=2.0,
    )  # fmt: skip
    driven = physics_path(animation, 0)
    from newtongs import motions

    wanted = motions.generate("3d_uniform_motion", 1, seed=7301, frames=49).states[0]
    way = State(wanted).p - State(wanted).p[0]
    s = State(animation.world.state_to_physics(animation.states[0][0])).s.mean()
    expected = way * (s / State(wanted).s[0].mean())
    assert torch.allclose(driven - driven[0], expected.double(), atol=1e-3)


def test_a_motion_that_begins_in_the_air_raises_the_object():
    scene = join(
        moved(box(), shift=torch.tensor([0.0, 0.2, 0.0])).replace(ids=torch.zeros(1200)), plate()
    )
    animation = newtongs.animate(
        scene, up=(0, 1, 0), floor_height=0.0, motion="free_fall", seconds=0.5
    )
    heights = lowest(animation)
    assert heights[0] > 0.5
    assert heights[-1] < heights[0]


@pytest.mark.slow
def test_a_model_of_ones_own_and_a_checkpoint(tmp_path):
    class Moon(Dynamics):
        def rates(self, z):
            dz = torch.zeros_like(z)
            State(dz).p.copy_(State(z).v)
            State(dz).v[..., 1] = -1.62
            return dz

    thing, words = (
        box(),
        {"up": (0, 1, 0), "velocity": (0, 2, 0), "spin": (0, 0, 0), "seconds": 0.5},
    )
    for contact in ("world", "paper"):
        rise = {
            name: physics_path(
                newtongs.animate(thing, physics=Physics(model, contact=contact), **words)
            )
            for name, model in (("moon", Moon()), ("earth", "analytic"))
        }
        up = rise["moon"][-1, 1] - rise["moon"][0, 1]
        assert up == pytest.approx(2 * 0.5 - 0.5 * 1.62 * 0.25, abs=0.01)
        assert rise["earth"][-1, 1] < rise["moon"][-1, 1]
    from newtongs.dynamics.weights import save_model

    save_model(tmp_path / "mine.safetensors", newtongs.load_pretrained(7302), {})
    made = newtongs.animate(thing, physics=Physics(tmp_path / "mine.safetensors"), **words)
    named = newtongs.animate(thing, physics=Physics("learned", seed=7302), **words)
    assert torch.equal(made.states[0], named.states[0])


def test_a_subclass_of_the_model_is_never_taken_for_the_model():
    """Fast paths read weights; a subclass with another field must get its own physics."""

    class Weightless(newtongs.GaussianNND):
        def field(self, z):
            dz = super().field(z)
            State(dz).v.zero_()
            return dz

    words = {"up": (0, 1, 0), "velocity": (0, 0, 0), "spin": (0, 0, 0), "seconds": 0.5}
    for contact in ("world", "paper"):
        p = physics_path(
            newtongs.animate(box(), physics=Physics(Weightless(), contact=contact), **words)
        )
        assert (p - p[0]).abs().max() < 1e-3


@pytest.mark.slow
def test_words_and_command_find_the_same_floor():
    animation = newtongs.animate("living_room_table", seconds=0.2)
    assert (animation.world.floor, animation.about.floor_is) == (0.0, "known")


@pytest.mark.slow
def test_a_goal_is_played_in_the_world_and_its_miss_is_told():
    thing = moved(box(), shift=torch.tensor([0.0, 0.2, 0.0]))
    animation = newtongs.animate(
        thing, select="all", up=(0, 1, 0), floor_height=0.0, goal="land at 0.8 0"
    )
    end = physics_path(animation)[-1]
    missed = (end[::2] - torch.tensor([0.8, 0.0])).norm()
    assert animation.about.goal_missed_by == pytest.approx((float(missed),), abs=2e-3)
    assert missed < 0.15


@pytest.mark.slow
def test_a_goal_on_the_moon():
    words = {"goal": "land at 0.8 0", "physics": Physics(gravity=1.62)}
    assert newtongs.animate(box(), **words, **ALONE).about.goal_missed_by[0] < 0.15


# --- floors that are not captured ----------------------------------------------------------------


def drawn(animation, scene):
    """What is drawn besides the capture: centres in the physics frame."""
    assert len(animation.scene) >= len(scene)
    return animation.world.to_physics(animation.scene.means[len(scene) :])


def test_a_given_floor_is_drawn_under_a_single_object():
    thing = box()
    words = {"select": "all", "up": (0, 1, 0), "floor_height": -0.6, "seconds": 0.5}
    disc = drawn(newtongs.animate(thing, **words), thing)
    assert len(disc) > 1000
    assert disc[:, 1].abs().max() < 1e-4
    assert not len(drawn(newtongs.animate(thing, show_floor=False, **words), thing))


@pytest.mark.parametrize("contact", ["world", "paper"])
@pytest.mark.slow
def test_a_given_floor_is_drawn_where_something_lands_on_nothing(contact):
    """A capture of half a floor: pushed to the right, the box leaves it."""
    half = plate(n=40000)
    half = half[half.means[:, 0] < 0.5]
    thing = moved(box(), shift=torch.tensor([0.0, 0.2, 0.0]))
    scene = join(thing.replace(ids=torch.zeros(1200)), half)
    words = {
        "up": (0, 1, 0),
        "floor_height": 0.0,
        "seconds": 1.0,
        "friction": 0.1,
        "spin": (0, 0, 0),
    }
    words |= {"physics": Physics(contact=contact), "meters_per_unit": 1.0, "complete": False}
    left = newtongs.animate(scene, velocity=(-1, 1, 0), **words)
    assert not len(drawn(left, scene))
    right = newtongs.animate(scene, velocity=(2.5 if contact == "world" else 9, 1, 0), **words)
    disc = drawn(right, scene)
    assert len(disc) > 1000
    assert disc[:, 0].min() > 0.5


# --- copies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 5, 17, 50])
def test_copies_start_apart_and_above(count):
    spec = SceneSpec((ObjectSpec("all"),), up=(0, 1, 0), floor_height=-0.2, copies=count)
    setup = prepare(box(), spec)
    assert len(setup.bodies) == setup.layout.pushed == count
    assert setup.layout.names[1:] == ("copy of object 0",) * (count - 1)
    p = torch.stack([State(body.z0).p for body in setup.bodies])
    low, high = (torch.from_numpy(x) for x in setup.bodies[0].shape.bounds)
    for k in range(1, count):
        assert ((p[k] - p[:k]).abs() > high - low).any(-1).all()
        assert p[k, 1] - p[0, 1] > (high - low)[1]
        assert torch.allclose(setup.bodies[k].z0[3:], setup.bodies[0].z0[3:], atol=1e-4)
        assert setup.bodies[k].shape is setup.bodies[0].shape
    spread = p.amax(0) - p.amin(0)
    assert spread[1] < 3 * max(spread[0], spread[2]) or count < 5


@pytest.mark.slow
def test_copies_fall_and_pile_up():
    animation = newtongs.animate(box(), copies=4, seconds=2, **ALONE)
    assert [one.copy_of for one in animation.about.objects] == [None, 0, 0, 0]
    assert int((animation.scene.ids == 3).sum()) == 1200
    paths = torch.stack([physics_path(animation, i) for i in range(4)])
    end = paths[:, -1]
    assert (end[:, 1] > 0).all()
    assert (end[1:, 1] < paths[1:, 0, 1]).all()
    assert torch.pdist(end).min() > 0.2  # none inside another


@pytest.mark.slow
def test_loose_objects_follow_the_copies():
    words = {"loose": True, "up": (0, 1, 0), "floor_height": 0.0, "seconds": 0.3}
    plain = newtongs.animate(two_boxes(), **words)
    made = newtongs.animate(two_boxes(), copies=3, **words)
    assert [one.loose for one in made.about.objects] == [False] * 3 + [True]
    old, new = plain.scene.object(1), made.scene.object(3)
    assert torch.equal(old.means, new.means)
    assert len(made.scene) == len(plain.scene) + 2 * len(plain.scene.object(0))


@pytest.mark.slow
def test_copies_that_start_inside_something_give_a_warning():
    ceiling = plate(half=2.0, n=20000, shift=(0.0, 0.75, 0.0))
    thing = moved(box(), shift=torch.tensor([0.0, 0.2, 0.0]))
    scene = join(thing.replace(ids=torch.zeros(1200)), plate(half=2.0), ceiling)
    with pytest.warns(InputWarning, match="of the copies starts inside other objects"):
        newtongs.animate(scene, copies=2, up=(0, 1, 0), seconds=0.1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"copies": 0}, "copies: expected 1 to 50, got 0"),
        ({"copies": 51}, "expected 1 to 50, got 51"),
        ({"copies": 26, "objects": [ObjectSpec("id:0"), ObjectSpec("id:1")]}, "1 to 25 of each"),
        ({"copies": 2, "goal": "land at 1 0"}, "goal is for one object"),
        ({"copies": 2, "motion": "free_fall"}, "pass through each other"),
        ({"copies": 2, "physics": Physics("context")}, "pass through each other"),
        ({"copies": 2, "physics": Physics(contact="paper")}, "need contact 'world'"),
    ],
)
def test_copies_that_cannot_be(options, said):
    with pytest.raises(InputError, match=said):
        newtongs.animate(two_boxes(), **options)
