"""Contact shadows: what lies under an object is darker, and only that."""

import numpy as np
import pytest
import torch
from animated_glb import read_glb

from newtongs.base import state
from newtongs.exports import load_animation, save_animation, write_glb
from newtongs.exports.decals import decals
from newtongs.exports.parts import parts
from newtongs.formats import load
from newtongs.render import render
from newtongs.scene import GaussianScene
from newtongs.scene.animation import Animation
from newtongs.scene.cameras import look_at
from newtongs.scene.frames import ALWAYS, FIRST, LATER
from newtongs.scene.gaussians import BACKGROUND, join
from newtongs.scene.shadows import ContactShadow, casters

RADIUS = 0.5


def ball(n=2000):
    index = torch.arange(n) + 0.5
    y, turn = 1 - 2 * index / n, index * torch.pi * (3 - 5**0.5)
    r = (1 - y * y).sqrt()
    return RADIUS * torch.stack([r * turn.cos(), y, r * turn.sin()], -1)


def floor(step=0.05, width=3.0):
    x = torch.arange(-width, width, step)
    x, z = (g.ravel() for g in torch.meshgrid(x, x, indexing="ij"))
    return torch.stack([x, torch.zeros_like(x), z], -1)


def scene():
    means = ball() + torch.tensor([0, RADIUS, 0])
    thing = GaussianScene.make(means=means, scales=torch.full((len(means),), 0.03), ids=0)
    ground = floor()
    flat = torch.tensor([0.05, 0.001, 0.05]).expand(len(ground), 3)
    return join(
        thing,
        GaussianScene.make(
            means=ground, scales=flat, colors=torch.full((len(ground), 3), 0.8), ids=BACKGROUND
        ),
    )


def moved(*places, shadow="all"):
    """The ball, at rest on the floor at first, at each of some places."""
    start = state.make(p=[0.0, RADIUS, 0.0])
    z = torch.stack([state.replace(start, p=torch.tensor(p).to(start)) for p in places])
    return Animation(scene(), torch.arange(len(z)) / 24.0, {0: z}, shadow=shadow)


def light(animation, t):
    """Factor at each Gaussian of the floor, as a function of its distance from the ball."""
    out = torch.ones(len(animation.scene))
    rows, factors = animation.frames().shade(t)
    out[rows] = factors.float()
    return out


def test_it_is_darkest_under_the_object_and_ends_beside_it():
    animation = moved((0.0, RADIUS, 0.0), (1.0, RADIUS, 0.0))
    ground = animation.scene.ids == BACKGROUND
    for t, x in enumerate((0.0, 1.0)):
        factor = light(animation, t)
        assert (factor[~ground] == 1).all()
        away = (animation.scene.means - torch.tensor([x, 0.0, 0.0])).norm(dim=-1)
        assert factor[ground & (away < 0.1)].max() < 0.75
        assert factor[ground & (away > 2 * RADIUS)].min() > 0.99
        assert factor.min() >= 0.25


def test_an_object_in_the_air_casts_none():
    animation = moved((0.0, RADIUS, 0.0), (0.0, 3 * RADIUS, 0.0))
    assert (light(animation, 1) == 1).all()
    assert light(animation, 0).min() < 0.75


def test_a_capture_keeps_its_first_frame_and_gets_only_new_shadows():
    animation = moved((0.0, RADIUS, 0.0), (0.1, RADIUS, 0.0), (1.5, RADIUS, 0.0), shadow="new")
    first = animation.frames()[0]
    assert torch.equal(first.sh, animation.scene.sh)
    near = animation.scene.means[:, [0, 2]].norm(dim=-1) < 0.1
    assert light(animation, 1)[near].min() > 0.9  # hardly new, and no jump
    assert (light(animation, 2)[near & (animation.scene.ids == BACKGROUND)] == 1).all()
    assert light(animation, 2).min() < 0.75


def test_size_of_a_ball_is_its_diameter():
    animation = moved((0.0, RADIUS, 0.0), (1.0, RADIUS, 0.0))
    found = casters(animation.scene, {0: animation.affines(0)}, animation.world.up)[0]
    assert found.size == pytest.approx(2 * RADIUS, rel=0.05)


def test_floaters_of_the_object_cast_nothing():
    animation = moved((0.0, RADIUS, 0.0), (1.0, RADIUS, 0.0))
    means = animation.scene.means.clone()
    means[:3] = torch.tensor([[0.0, 0.1, 2.5], [2.5, 0.1, 0.0], [-2.5, 0.1, 0.0]])
    strayed = Animation(
        animation.scene.replace(means=means), animation.times, animation.states, shadow="all"
    )
    ground = (means.norm(dim=-1) > 2) & (animation.scene.ids == BACKGROUND)
    assert (light(strayed, 0)[ground] == 1).all()


def test_shadows_of_two_objects_add_up():
    animation = moved((0.0, RADIUS, 0.0), (1.0, RADIUS, 0.0))
    A, b = animation.affines(0)
    one = ContactShadow(animation.scene, {0: (A, b)}, animation.world.up, kind="all")
    two = ContactShadow(animation.scene, {0: (A, b)}, animation.world.up, kind="all")
    two.casters = two.casters * 2
    assert (two._light(0) <= one._light(0)).all()
    assert two._light(0).min() < one._light(0).min()


def test_a_picture_is_darker_under_the_ball():
    animation = moved((0.0, RADIUS, 0.0), (0.0, RADIUS + 0.15, 0.0))
    camera = look_at((0.0, 0.6, 4.0), (0.0, 0.2, 0.0), width=64, height=64)
    bare = moved((0.0, RADIUS, 0.0), (0.0, RADIUS + 0.15, 0.0), shadow="none")
    with_, without = (render(a.frames()[1], camera).color for a in (animation, bare))
    darker = (without - with_).mean(-1)
    assert darker.max() > 0.05
    assert darker.min() > -1e-4
    rows = darker.argmax() // 64
    assert rows > 32  # below the middle, where the ball is nearest to the floor


def test_what_comes_later_never_had_a_shadow():
    """The floor that is mended under an object is dark when it lands there again."""
    animation = moved((0.0, RADIUS, 0.0), (0.0, 3 * RADIUS, 0.0), (0.0, RADIUS, 0.0), shadow="new")
    near = (animation.scene.means[:, [0, 2]].norm(dim=-1) < 0.1) & (animation.scene.ids == -1)
    presence = torch.where(near, LATER, ALWAYS).to(torch.uint8)
    fields = animation.scene, animation.times, animation.states
    mended = Animation(*fields, shadow="new", presence=presence)
    assert light(mended, 2)[near].max() < 0.75
    assert (light(animation, 2)[near] == 1).all()  # captured with its shadow


def test_scenes_in_double_precision_cast_shadows():
    animation = moved((0.0, RADIUS, 0.0), (1.0, RADIUS, 0.0))
    scene = animation.scene.replace(means=animation.scene.means.double())
    shadow = ContactShadow(scene, {0: animation.affines(0)}, animation.world.up, kind="all")
    assert shadow(0)[1].min() < 0.75


# --- decals --------------------------------------------------------------------------------------


def test_a_decal_follows_its_object_and_is_gone_in_the_air():
    animation = moved(
        (0.0, RADIUS, 0.0), (0.5, 3 * RADIUS, 0.0), (1.0, RADIUS + 0.1, 0.0), (1.5, RADIUS, 0.0)
    )
    decal = decals(animation)[0]
    place = decal.node_track
    assert np.allclose(place.translation[:, 0], [0, 0.5, 1, 1.5], atol=0.05)
    assert place.scale[1, 0] < 0.05 < place.scale[2, 0] < place.scale[3, 0]
    assert place.scale[0, 0] > 0.9
    assert float(place.translation[1, 1]) < 0 < float(place.translation[3, 1])
    assert len(decal.scene) <= 4500
    assert (decal.scene.means[:, 1] - place.translation[0, 1]).abs().max() < 1e-5
    assert decal.scene.means[:, [0, 2]].mean(0).abs().max() < 0.05


def test_a_decal_of_a_capture_grows_as_its_object_leaves():
    animation = moved((0.0, RADIUS, 0.0), (0.2, RADIUS, 0.0), (2.0, RADIUS, 0.0), shadow="new")
    scale = decals(animation)[0].node_track.scale[:, 0]
    assert scale[0] < 0.05 < scale[1] < 0.5 < scale[2]


def test_the_heading_of_a_decal_never_jumps():
    start = state.make(p=[0.0, RADIUS, 0.0])
    half = torch.linspace(0, 3 * torch.pi, 40) / 2  # one and a half turns about z, which is across
    q = torch.stack([half.cos(), 0 * half, 0.02 * half.sin(), half.sin()], -1)
    p = torch.stack([0.1 * torch.arange(40), torch.full((40,), RADIUS), torch.zeros(40)], -1)
    z = torch.stack([state.replace(start, p=a, q=b / b.norm()) for a, b in zip(p, q, strict=True)])
    rolled = Animation(scene(), torch.arange(40) / 24.0, {0: z}, shadow="all")
    turns = decals(rolled)[0].node_track.rotation
    assert (turns[1:] * turns[:-1]).sum(-1).min() >= 0


def test_a_decal_does_not_rest_on_what_is_gone():
    animation = moved((0.0, RADIUS, 0.0), (1.0, RADIUS, 0.0))
    specks = GaussianScene.make(
        means=torch.tensor([0.0, 0.09, 0.0]).expand(300, 3), scales=torch.full((300,), 0.01), ids=-1
    )
    both = join(animation.scene, specks)
    presence = torch.full((len(both),), ALWAYS, dtype=torch.uint8)
    presence[-300:] = FIRST
    fields = animation.times, animation.states
    heights = [
        float(
            decals(Animation(both, *fields, shadow="all", presence=p))[0].node_track.translation[
                0, 1
            ]
        )
        for p in (None, presence)
    ]
    assert heights[0] > 0.08 > 0.05 > heights[1]


def test_files_hold_shadows_and_reading_leaves_them_out(tmp_path):
    animation = moved((0.0, RADIUS, 0.0), (1.0, RADIUS, 0.0))
    assert [p.name for p in parts(animation)] == ["still", "object_0", "shadow_0"]
    write_glb(animation, tmp_path / "a.glb")
    assert len(read_glb(tmp_path / "a.glb")[0]) == len(animation.scene)
    assert len(load(tmp_path / "a.glb")) == len(animation.scene)


def test_shadows_are_replayed(tmp_path):
    animation = moved((0.0, RADIUS, 0.0), (1.0, RADIUS, 0.0), shadow="new")
    save_animation(animation, tmp_path / "a.json")
    again = load_animation(tmp_path / "a.json")
    assert again.shadow == "new"
    assert torch.equal(light(again, 1), light(animation, 1))
