"""A film that draws what is still once gives the pictures of the plain way, bit for bit."""

import pytest
import torch
from export_samples import two_objects

from newtongs.render import render, render_frames
from newtongs.scene import GaussianScene, join, orbit
from newtongs.scene.animation import Animation
from newtongs.scene.frames import ALWAYS, FIRST, LATER, AnimatedScene
from newtongs.scene.lifting import lift

pytest.importorskip("numba")

SKY = (0.2, 0.4, 0.9)
CAMERA = orbit((0, 0, 0), radius=5, elevation=1.2, width=100, height=60)[0]  # not whole tiles


def cloud(n, seed, spread, *, ids=-1, opacity=1.0, size=0.08):
    g = torch.Generator().manual_seed(seed)
    return GaussianScene.make(
        means=spread * torch.randn(n, 3, generator=g),
        scales=size * torch.rand(n, 3, generator=g),
        quats=torch.randn(n, 4, generator=g),
        opacities=opacity * torch.rand(n, generator=g),
        sh=0.4 * torch.randn(n, 16, 3, generator=g),
        ids=ids,
    )


def path(scene, index, to, frames=5):
    """Straight, turning, from where the object is."""
    z = lift(scene.object(index)).repeat(frames, 1)
    z[:, :3] += torch.linspace(0, 1, frames, dtype=z.dtype)[:, None] * torch.tensor(to).to(z)
    angle = torch.linspace(0, 2, frames, dtype=z.dtype)
    z[:, 3:7] = torch.stack([(angle / 2).cos(), 0 * angle, (angle / 2).sin(), 0 * angle], -1)
    return z


def through(still, *, to=(0.0, 0.3, -4.0), **given):
    """A small object that flies from before the still ones to behind them."""
    thing = cloud(60, 1, 0.2, ids=0, size=0.15)
    thing = thing.replace(means=thing.means + torch.tensor([0.1, 0.3, 2.0]))
    scene = join(still[: len(still) // 2], thing, still[len(still) // 2 :])
    z = {0: path(scene, 0, to)}
    return AnimatedScene(scene, {0: z[0][0]}, z, **given)


def plain(frames, camera=CAMERA, background=SKY):
    for f in frames:
        yield render(
            frames.scene, camera, background=background, backend="ewa", means=f.means,
            covariances=f.covariances, sh=f.sh, opacities=f.opacities, shade=f.shade,
        )  # fmt: skip


def assert_same(frames, camera=CAMERA):
    film = list(render_frames(frames, camera, background=SKY, backend="ewa"))
    assert len(film) == len(frames)
    for picture, expected in zip(film, plain(frames, camera), strict=True):
        assert torch.equal(picture.color, expected.color)
        assert torch.equal(picture.depth, expected.depth)
        assert torch.equal(picture.alpha, expected.alpha)
    return film


@pytest.mark.parametrize("opacity", [0.3, 1.0])
def test_through_a_cloud(opacity):
    """Behind, inside and in front of still Gaussians, faint ones and a wall of opaque ones."""
    film = assert_same(through(cloud(4000, 0, 0.7, opacity=opacity)))
    assert not torch.equal(film[0].color, film[-1].color)


def test_equal_depths_keep_the_order_of_rows():
    """Half of the still ones come before the object's rows and half after, all equally far."""
    flat = cloud(200, 3, 0.3)
    ahead = torch.linalg.inv(CAMERA.w2c)[:3, 2]
    on_plane = flat.means - (flat.means @ ahead)[:, None] * ahead
    flat = flat.replace(means=on_plane.to(flat.means))
    scene = join(flat[:100], flat[:80].replace(ids=torch.zeros(80).long()), flat[100:], flat[:80])
    z = {0: path(scene, 0, (0.0, 0.0, 0.0))}
    z[0][1:, :3] += 1e-3
    assert_same(AnimatedScene(scene, {0: z[0][0]}, z))


def shade_of(frames):
    """Another part of the scene in each frame, objects too, some of it out of sight."""
    n = len(frames.scene)

    def shade(t):
        rows = torch.arange(t, n, 7)
        return rows[: n // 14 * t], torch.linspace(0.1, 0.9, n)[rows[: n // 14 * t]]

    return shade


def test_shadows_and_presence():
    frames = through(cloud(3000, 0, 0.7))
    frames.presence = torch.full((len(frames.scene),), ALWAYS, dtype=torch.uint8)
    frames.presence[::5], frames.presence[1::5] = FIRST, LATER
    frames.shade = shade_of(frames)
    film = assert_same(frames)
    frames.shade = None
    bright = assert_same(frames)
    assert torch.equal(film[0].color, bright[0].color)  # no shadow yet
    assert (film[-1].color <= bright[-1].color + 1e-6).all()
    assert not torch.equal(film[-1].color, bright[-1].color)


def test_nothing_moves():
    """An object at rest in all frames is as still as the rest."""
    scene = join(cloud(50, 1, 0.3, ids=0), cloud(500, 2, 0.7))
    z = {0: lift(scene.object(0)).repeat(3, 1)}
    frames = AnimatedScene(scene, {0: z[0][0]}, z)
    assert frames.still.all()
    film = assert_same(frames)
    assert torch.equal(film[0].color, film[2].color)


def test_everything_moves():
    scene = cloud(500, 1, 0.5, ids=0)
    z = {0: path(scene, 0, (0.5, 0.2, 0.0))}
    assert_same(AnimatedScene(scene, {0: z[0][0]}, z))


def test_out_of_sight():
    """Objects and still things behind the camera."""
    assert_same(through(cloud(300, 0, 0.7), to=(0.0, 0.0, 20.0)))


def test_the_animation_of_the_exports():
    animation = two_objects()
    assert isinstance(animation, Animation)
    assert_same(animation.frames())


def test_a_camera_a_frame_draws_everything():
    frames = through(cloud(400, 0, 0.7))
    cameras = orbit((0, 0, 0), radius=5, views=5, width=64, height=48)
    film = render_frames(frames, cameras, background=SKY, backend="ewa")
    for picture, (f, camera) in zip(film, zip(frames, cameras, strict=True), strict=True):
        alone = render(
            frames.scene, camera, background=SKY, backend="ewa", means=f.means,
            covariances=f.covariances, sh=f.sh,
        )  # fmt: skip
        assert torch.equal(picture.color, alone.color)


def test_pictures_are_the_callers_to_keep():
    film = render_frames(through(cloud(300, 0, 0.7)), CAMERA, backend="ewa")
    first = next(film)
    before = first.color.clone()
    next(film)
    assert torch.equal(first.color, before)
