"""The labels that ``steady`` makes while it draws, against slow sums and known shapes."""

import itertools

import numpy as np
import pytest
import torch
from lenses import Lens
from test_film import cloud, through
from test_render import SCENES, SKY
from test_steady import FRONT, SMALL, THIN_IN_WIDE, met, shadow, thin_in_wide

from newtongs.base import rotations
from newtongs.base.process import one_thread, sharing
from newtongs.render.splat import NEAR, T_MIN, make_splat
from newtongs.scene import GaussianScene, orbit
from newtongs.scene.cameras import look_at

pytest.importorskip("numba")
from newtongs.render import render, render_frames, steady
from newtongs.render.labels import NOTHING, Labelling, Labels

OBJECTS = 3


def labelled(scene, camera, slots, objects=OBJECTS):
    """Labels of one picture."""
    splat, out = make_splat(scene, camera, SKY), Labels.empty(camera)
    pixels = np.empty((camera.height, camera.width, 5), np.float32)
    with sharing() as share:
        layer, lines = steady.projected(splat, share)
        labelling = Labelling(slots[layer.rows], steady.NO_SLOPES, objects, *out)
        background = splat.background.numpy()
        all_tiles = steady.all_tiles(camera)
        steady.draw_tiles(layer, lines, background, all_tiles, pixels, share, labelling)
    return out


# --- against the formula --------------------------------------------------------------------------


def weighed(begin, end, tau, slots):
    """Light, mean depth and depth of the flow ``(objects + 1,)`` of each slot in one pixel, by
    quadrature."""
    nodes, shares = np.polynomial.legendre.leggauss(24)
    light, (weight, depth, twice, flow_depth) = 1.0, np.zeros((4, OBJECTS + 1))
    for a, b in itertools.pairwise(np.unique(np.concatenate([begin, end]))):
        here = (begin <= a) & (b <= end)
        density = np.where(here, tau / (end - begin), 0.0)
        if not here.any():
            continue
        at = (a + b) / 2 + (b - a) / 2 * nodes
        left = light * np.exp(-density.sum() * (at - a))
        part, its = shares * (b - a) / 2, np.bincount(slots, density, OBJECTS + 1)
        weight += its * (part * left).sum()
        depth += its * (part * left * at).sum()
        twice += its * (part * left**2).sum()
        flow_depth += its * (part * left**2 * at).sum()
        light *= np.exp(-density.sum() * (b - a))
    return weight, depth / np.maximum(weight, 1e-12), flow_depth / np.maximum(twice, 1e-24)


def reference_labels(splat, slots):
    """As ``Labels``, and by how much the first slot is first; the last is 0 near a cut-off."""
    out = np.zeros((5, splat.camera.height, splat.camera.width))
    for place, margin, begin, end, tau, its in met(splat):
        weight, depth, flow_depth = weighed(begin, end, tau, slots[its])
        all_of = np.append(weight, 1 - weight.sum())
        best, lead = all_of.argmax(), np.diff(np.sort(all_of)[-2:])[0]
        share = weight[best] if best < OBJECTS else 1 - weight[:OBJECTS].sum()
        z, flow_z, slot = 0, 0, NOTHING
        if best <= OBJECTS:
            z, flow_z, slot = max(depth[best], NEAR), max(flow_depth[best], NEAR), best
        out[:, *place] = slot, z, share, flow_z, lead * (margin > 1e-4)
    return out


@pytest.mark.slow
@pytest.mark.parametrize("kind", SCENES)
def test_labels_are_those_of_the_reference(kind):
    scene = SCENES[kind]()[:150]
    slots = np.random.default_rng(0).integers(0, OBJECTS + 1, len(scene)).astype(np.int16)
    slot, depth, share, flow_depth, lead = reference_labels(make_splat(scene, SMALL, SKY), slots)
    labels, sure = labelled(scene, SMALL, slots), lead > 1e-3
    assert sure.mean() > 0.9
    assert len(np.unique(slot)) > 1 or kind == "faint"
    assert np.array_equal(labels.slot[sure], slot[sure])
    assert np.abs(labels.share - share)[sure].max() < 1.2 * T_MIN
    assert np.allclose(labels.depth[sure], depth[sure], rtol=20 * T_MIN, atol=5 * T_MIN)
    assert np.allclose(labels.flow_depth[sure], flow_depth[sure], rtol=20 * T_MIN, atol=5 * T_MIN)


@pytest.mark.parametrize("kind", SCENES)
def test_depth_of_a_picture_is_that_of_its_labels(kind):
    """Where all that is seen is one thing."""
    scene = SCENES[kind]()
    labels = labelled(scene, SMALL, np.zeros(len(scene), np.int16), 1)
    picture, its = render(scene, SMALL, backend="steady", background=SKY), labels.slot == 0
    assert its.any() or kind == "faint"
    assert np.allclose(picture.depth.numpy()[its], labels.depth[its], rtol=1e-6)


@pytest.mark.parametrize("sizes", THIN_IN_WIDE)
def test_a_thin_gaussian_in_a_wide_one_is_seen(sizes):
    """It is too short to change the integral of the light up to it."""
    scene, slots = thin_in_wide(*sizes), np.array([0, 1], np.int16)
    slot, depth, share, flow_depth, lead = reference_labels(make_splat(scene, FRONT, SKY), slots)
    labels, sure = labelled(scene, FRONT, slots), lead > 1e-3
    assert {*np.unique(slot)} == {NOTHING, 0}
    assert np.array_equal(labels.slot[sure], slot[sure])
    assert np.abs(labels.share - share)[sure].max() < 1.2 * T_MIN
    assert np.allclose(labels.depth[sure], depth[sure], rtol=20 * T_MIN)
    assert np.allclose(labels.flow_depth[sure], flow_depth[sure], rtol=20 * T_MIN)


# --- known shapes ---------------------------------------------------------------------------------


def rays(camera):
    """Points ``(H, W, 3)`` of depth 1, and the camera's place."""
    lens, (y, x) = Lens.of(camera), np.indices((camera.height, camera.width)) + 0.5
    ahead = lens.points(x.ravel(), y.ravel(), np.ones(x.size)).reshape(*x.shape, 3)
    return ahead, -lens.R.T @ lens.t


def discs(means, normals, wide, thick, **given):
    """Flat Gaussians on a surface."""
    across = torch.linalg.cross(normals, torch.tensor([0.3, 0.8, 0.5]).expand_as(normals))
    across = across / across.norm(dim=-1, keepdim=True)
    frame = torch.stack([across, torch.linalg.cross(normals, across), normals], -1)
    return GaussianScene.make(
        means=means, quats=torch.stack([rotations.from_matrix(x) for x in frame]),
        scales=torch.tensor([wide, wide, thick]).expand(len(means), 3).contiguous(), **given,
    )  # fmt: skip


def test_depth_of_a_thin_wall_is_that_of_its_plane():
    """Seen from the side: a pixel's Gaussians have centres that are nearer, and others farther."""
    camera = look_at((1.5, 0.4, 2.0), (0, 0, 0), width=240, height=200)
    grid = torch.linspace(-1.5, 1.5, 16)
    means = torch.cartesian_prod(grid, grid, torch.zeros(1))
    wall = discs(means, torch.tensor([[0.0, 0, 1]]).expand_as(means), 0.15, 1e-4)
    labels = labelled(wall, camera, np.zeros(len(wall), np.int16), 1)
    ahead, eye = rays(camera)
    truth = eye[2] / (eye - ahead)[..., 2]
    its = labels.slot == 0
    assert its.mean() > 0.5
    assert np.abs(labels.depth / truth - 1)[its].max() < 5e-3


def ball(n, radius):
    """Discs whose width is 0.8 of how far they are apart."""
    i = torch.arange(n) + 0.5
    polar, turn = torch.arccos(1 - 2 * i / n), np.pi * (1 + 5**0.5) * i
    normals = torch.stack(
        [turn.cos() * polar.sin(), turn.sin() * polar.sin(), polar.cos()], -1
    ).float()  # fmt: skip
    wide = 0.8 * radius * (4 * np.pi / n) ** 0.5
    opacities = torch.full((n,), 0.95)
    return discs(radius * normals, normals, wide, 0.05 * wide, opacities=opacities), wide


def test_depth_of_a_ball_is_that_of_its_skin():
    """To a part of the width of its Gaussians, whose planes lie outside."""
    scene, wide = ball(1500, 0.5)
    camera = look_at((0, 0, 2.5), (0, 0, 0), width=240, height=240)
    labels = labelled(scene, camera, np.zeros(len(scene), np.int16), 1)
    ahead, eye = rays(camera)
    d = ahead - eye
    a, b, c = (d**2).sum(-1), d @ eye, eye @ eye - 0.25
    truth = (-b - np.sqrt((b * b - a * c).clip(0))) / a
    facing = (b * b - a * c > 0) & (((eye + truth[..., None] * d) ** 2)[..., 2] > 0.25 * 0.25)
    error = (labels.depth - truth)[facing & (labels.slot == 0)]
    assert len(error) > 1000
    assert abs(error.mean()) < 0.3 * wide
    assert np.abs(error).max() < 0.8 * wide


# --- films ----------------------------------------------------------------------------------------


def same(a, b):
    """Bit for bit."""
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def labelled_frames(frames, cameras):
    slots = np.where(frames.scene.ids.numpy() == 0, 0, 1).astype(np.int16)
    return steady.labelled(frames, cameras, SKY, slots, 1)


def film(frames, cameras):
    return list(labelled_frames(frames, cameras))


def flying(shade=None):
    return through(cloud(300, 0, 0.7), shade=shade, presence=None)


CAMERAS = orbit((0, 0, 0), radius=5, width=100, height=60, views=5)


@pytest.mark.parametrize("shade", [None, shadow])
def test_labels_that_are_kept_are_those_of_a_whole_drawing(shade, monkeypatch):
    """From a list of cameras that are all the same, everything is drawn anew."""
    drawn, draw = [], steady.draw_tiles

    def counted(layer, lines, background, wanted, *rest):
        drawn.append(wanted.mean())
        draw(layer, lines, background, wanted, *rest)

    monkeypatch.setattr(steady, "draw_tiles", counted)
    kept = film(flying(shade), CAMERAS[0])
    assert min(drawn) < 0.9
    drawn.clear()
    anew = film(flying(shade), [CAMERAS[0]] * 5)
    assert min(drawn) == 1
    for (_, a), (_, b) in zip(kept, anew, strict=True):
        assert same(a, b)
    assert not same(kept[0][1], kept[2][1])
    assert {*np.unique(kept[0][1].slot)} == {NOTHING, 0, 1}


@pytest.mark.parametrize("moving", [False, True])
def test_pictures_with_labels_are_those_without(moving):
    cameras = CAMERAS if moving else CAMERAS[0]
    plain = render_frames(flying(shadow), cameras, background=SKY, backend="steady")
    for a, (b, _) in zip(plain, film(flying(shadow), cameras), strict=True):
        for name in ("color", "depth", "alpha"):
            assert torch.equal(getattr(a, name), getattr(b, name))


@pytest.mark.parametrize("count", [3, 6])
def test_every_frame_needs_its_camera_and_every_camera_its_frame(count):
    """As in films of ewa."""
    cameras = (CAMERAS * 2)[:count]
    with pytest.raises(ValueError, match="zip"):
        film(flying(), cameras)


@pytest.mark.parametrize("moving", [False, True])
def test_labels_are_the_callers(moving):
    """Who writes to them, or to a picture, does not change the next frame's."""
    cameras = CAMERAS if moving else CAMERAS[0]
    kept, frames = film(flying(), cameras), flying()
    for (a, b), (c, d) in zip(kept, labelled_frames(frames, cameras), strict=True):
        assert torch.equal(a.color, c.color)
        assert same(b, d)
        c.color[:] = 0
        for x in d:
            x[:] = 0


def test_threads_do_not_change_the_labels():
    there = film(flying(), CAMERAS[0])
    with one_thread():
        again = film(flying(), CAMERAS[0])
    before = torch.get_num_threads()
    torch.set_num_threads(5)
    try:
        many = film(flying(), CAMERAS[0])
    finally:
        torch.set_num_threads(before)
    for t in range(5):
        assert same(there[t][1], again[t][1])
        assert same(there[t][1], many[t][1])
