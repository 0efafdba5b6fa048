"""Gaussians that are seen in frame 0 alone, or from frame 1 on; and colours in a shadow."""

import torch
from export_samples import two_objects

from newtongs.exports import load_animation, save_animation
from newtongs.exports.parts import parts
from newtongs.render import render, render_frames
from newtongs.scene.animation import Animation
from newtongs.scene.frames import ALWAYS, FIRST, LATER
from newtongs.scene.sh import darkened
from newtongs.views.framing import default_camera


def mended():
    plain = two_objects()
    presence = torch.full((len(plain.scene),), ALWAYS, dtype=torch.uint8)
    presence[::5], presence[1::5] = FIRST, LATER
    fields = plain.scene, plain.times, plain.states, plain.world, plain.about
    return Animation(*fields, presence=presence)


def test_a_frame_holds_what_is_seen_in_it():
    animation = mended()
    frames, scene = animation.frames(), animation.scene
    assert torch.equal(frames[0].means, scene[animation.presence != LATER].means)
    assert len(frames[1]) == len(frames[-1]) == int((animation.presence != FIRST).sum())


def test_pictures_show_the_same_as_the_frames():
    animation = mended()
    camera = default_camera(animation, (64, 64))
    for t, picture in enumerate(render_frames(animation.frames(), camera)):
        alone = render(animation.frames()[t], camera)
        assert torch.allclose(picture.color, alone.color, atol=2e-4)


def test_files_that_hold_gaussians_once_show_what_is_seen_later():
    animation = mended()
    assert sum(len(p.scene) for p in parts(animation)) == int((animation.presence != FIRST).sum())


def test_still_are_those_that_never_change():
    animation = mended()
    still = animation.frames().still
    assert not still[animation.presence != ALWAYS].any()
    assert not any(still[animation.scene.ids == i].any() for i in animation.states)


def test_presence_is_saved(tmp_path):
    animation = mended()
    save_animation(animation, tmp_path / "a.json")
    assert torch.equal(load_animation(tmp_path / "a.json").presence, animation.presence)


def test_shade_is_a_factor_on_the_colour():
    animation = two_objects()
    scene, camera = animation.scene, default_camera(animation, (64, 64))
    half = torch.full((len(scene),), 0.5)
    black = (0.0, 0.0, 0.0)
    whole = render(scene, camera, background=black).color
    shaded = render(scene, camera, background=black, shade=half).color
    assert torch.allclose(shaded, 0.5 * whole, atol=1e-5)
    assert torch.allclose(
        render(scene, camera, background=black, sh=darkened(scene.sh, half)).color, shaded
    )
