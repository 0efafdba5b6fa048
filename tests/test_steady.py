"""The renderer that blends by depth: a slow reference, and laws that an order by centres breaks."""

import itertools
import math

import numpy as np
import pytest
import render_reference as reference
import torch
from test_film import CAMERA, cloud, through
from test_render import SCENES, SKY, random_scene

from newtongs.base import rotations
from newtongs.base.process import one_thread, sharing
from newtongs.render import render, render_frames
from newtongs.render.splat import ALPHA_CAP, ALPHA_MIN, EPS2D, T_MIN, make_splat
from newtongs.scene import GaussianScene, join, orbit
from newtongs.scene.cameras import look_at
from newtongs.scene.frames import ALWAYS, FIRST, LATER

pytest.importorskip("numba")
from newtongs.render import steady, steady_meet, steady_tiles, steady_walk

SMALL = orbit((0, 0, 0), radius=4, width=37, height=27)[0]  # no multiple of the tiles
FRONT = look_at((0, 0, 4), (0, 0, 0), width=40, height=40)


# --- against the formula --------------------------------------------------------------------------


def lines_of(splat):
    """Slopes ``(N, 2)`` of depth over the picture and half lengths ``(N,)`` of the intervals."""
    camera, cov = splat.camera, reference._covariances(splat).numpy()
    W, K = camera.w2c.double().numpy(), camera.K.double().numpy()
    x, y, z = (splat.means.double().numpy() @ W[:3, :3].T + W[:3, 3]).T
    J = np.zeros((len(z), 3, 3))  # to pixels, and depth as it is
    J[:, 0, 0], J[:, 0, 2] = K[0, 0] / z, -K[0, 0] * x / z**2
    J[:, 1, 1], J[:, 1, 2], J[:, 2, 2] = K[1, 1] / z, -K[1, 1] * y / z**2, 1
    J = J @ W[:3, :3]
    seen = J @ cov @ J.transpose(0, 2, 1) + np.diag([EPS2D, EPS2D, 0])
    slopes = np.linalg.solve(seen[:, :2, :2], seen[:, :2, 2:])[..., 0]
    variance = seen[:, 2, 2] - (slopes * seen[:, :2, 2]).sum(-1)
    return slopes, np.maximum(np.sqrt(3 * variance.clip(0)), steady_meet.LEAST * z)


def blended(begin, end, tau, features, background):
    """One pixel: between any two ends everything is constant."""
    at = np.unique(np.concatenate([begin, end]))
    out, light = np.zeros(features.shape[1]), 1.0
    for a, b in itertools.pairwise(at):
        part = np.where((begin <= a) & (b <= end), tau * (b - a) / (end - begin), 0.0)
        if part.sum() > 0:
            left = light * math.exp(-part.sum())
            out += (light - left) * (part @ features) / part.sum()
            light = left
    return np.append(out[:3] + light * background, 1 - light)


def met(splat):
    """Of each pixel its place, how far it is from another cut-off, and the Gaussians it meets:

    where each begins and ends, its optical depth, and which it is.
    """
    mean, conic, depth, order = (x.numpy() for x in reference._project(splat))
    slopes, half = lines_of(splat)
    opacity = splat.opacities.double().numpy()[order]
    for place in np.ndindex(splat.camera.height, splat.camera.width):
        d = np.array(place[::-1]) + 0.5 - mean
        alpha = opacity * np.exp(-0.5 * np.einsum("ni,nij,nj->n", d, conic, d))
        its = alpha >= ALPHA_MIN
        nearness = 1 - (slopes[order] * d).sum(-1) / depth  # linear in the picture, for a plane
        z, h = (depth / nearness.clip(steady_meet.GRAZING))[its], half[order][its]
        tau = -np.log1p(-alpha[its].clip(max=ALPHA_CAP))
        yield (
            place,
            np.abs(alpha / ALPHA_MIN - 1).min(initial=np.inf),
            z - h,
            z + h,
            tau,
            order[its],
        )


def reference_picture(splat):
    """Colour and alpha ``(H, W, 4)``, and how far each pixel is from another cut-off."""
    features = reference._colors(splat.darkened()).numpy()
    out = np.empty((splat.camera.height, splat.camera.width, 4))
    margin = np.empty(out.shape[:2])
    for place, margin[place], begin, end, tau, its in met(splat):
        out[place] = blended(begin, end, tau, features[its], splat.background.double().numpy())
    return out, margin


@pytest.mark.parametrize("kind", SCENES)
def test_steady_is_the_reference(kind):
    """To what an opaque pixel still lets through, which the reference alone follows."""
    scene = SCENES[kind]()[:150]
    expected, margin = reference_picture(make_splat(scene, SMALL, SKY))
    picture = render(scene, SMALL, backend="steady", background=SKY)
    found = torch.cat([picture.color, picture.alpha[..., None]], -1).numpy()
    error, clear = np.abs(found - expected).max(-1), margin > 1e-4
    assert expected[..., 3].max() > 0.02
    assert clear.mean() > 0.95
    assert error[clear].max() < 1.2 * T_MIN
    assert error.max() < 2e-2


def thin_in_wide(ahead, wide, size, opacity):
    """A thin disc, in a ball so large that a sum of their densities loses the ball's."""
    return GaussianScene.make(
        means=[[0.0, 0, 4 - ahead], [0, 0, 0]], scales=[[wide, wide, 1e-9], [size, size, size]],
        opacities=[0.9999, opacity], colors=[[1.0, 0, 0], [0, 0, 1.0]],
    )  # fmt: skip


THIN_IN_WIDE = [(0.011, 0.0011, 1e5, 0.004), (1.0, 0.1, 1e10, 0.02)]


@pytest.mark.parametrize("sizes", THIN_IN_WIDE)
def test_a_thin_gaussian_leaves_what_surrounds_it_alone(sizes):
    scene = thin_in_wide(*sizes)
    expected, margin = reference_picture(make_splat(scene, FRONT, SKY))
    picture = render(scene, FRONT, backend="steady", background=SKY)
    found = torch.cat([picture.color, picture.alpha[..., None]], -1).numpy()
    assert np.isfinite(found).all()
    assert picture.depth.isfinite().all()
    assert np.abs(found - expected)[margin > 1e-4].max() < 1.2 * T_MIN


@pytest.mark.parametrize("n", [0, 1, 12, 13, 24, 25, 100, 1000])
def test_sorting_is_stable(n):
    keys = np.random.default_rng(n).integers(0, max(n // 3, 1), n).astype(float)
    order, spare = np.empty(n, np.int32), np.empty(n, np.int32)
    steady_meet.sort(keys, n, order, spare)
    assert np.array_equal(order, np.argsort(keys, kind="stable"))


@pytest.mark.parametrize("n", [0, 1, 5, 30, 300])
@pytest.mark.parametrize("moved", [0.0, 2.0, 1e3])
def test_keys_are_put_in_order_however_they_come(n, moved):
    """By insertion, or by merging where that would take long."""
    random = np.random.default_rng(n)
    numbers, places = steady_meet.make_room(n)
    keys = np.rint(np.arange(n) + moved * random.normal(size=n))  # some of them equal
    numbers[steady_meet.END, :n] = keys
    lines = steady_meet.END, n, steady_meet.ENDS, steady_meet.LAST
    steady_walk._put_in_order(numbers, places, *lines)
    assert np.array_equal(places[steady_meet.LAST, :n], np.argsort(keys, kind="stable"))
    assert np.array_equal(numbers[steady_meet.ENDS, :n], np.sort(keys))


def test_exponentials_and_logarithms_are_exact():
    """As exact as is said, and what is lost to its own size."""
    p = np.concatenate([[0.0, 1e5, 1e300], np.logspace(-14, 2.9, 2000)])
    left, lost = np.array([steady_meet.halved(x) for x in p]).T
    assert np.allclose(left, 2.0**-p, rtol=1e-11, atol=1e-300)
    assert np.allclose(lost, -np.expm1(-np.log(2) * p), rtol=3e-11, atol=0)
    alpha = np.concatenate(
        [[0.0, ALPHA_CAP, 0.5, 1 - math.sqrt(0.5)], np.logspace(-9, -1e-4, 2000)]
    )
    tau = np.array([steady_meet._optical_depth(x) for x in alpha])
    assert np.allclose(tau, -np.log1p(-np.array(alpha)), rtol=1e-11, atol=1e-16)


# --- laws -----------------------------------------------------------------------------------------


def sheets(n, *, opacity=0.5, thick=1e-3):
    """Flat Gaussians that face the camera, one behind the other, in any order."""
    depth = torch.linspace(-1, 1, n)[torch.randperm(n)]
    return GaussianScene.make(
        means=torch.cat([0.3 * torch.randn(n, 2), depth[:, None]], -1),
        scales=torch.cat([0.2 + 0.2 * torch.rand(n, 2), torch.full((n, 1), thick)], -1),
        opacities=torch.full((n,), opacity),
        colors=torch.rand(n, 3),
    )


def difference(a, b):
    return (a.color - b.color).abs().max()


def same(a, b):
    """Bit for bit."""
    names = ("color", "depth", "alpha")
    return all(torch.equal(getattr(a, name), getattr(b, name)) for name in names)


def test_disjoint_depths_are_blended_as_ewa_does():
    scene = sheets(12)
    a, b = (render(scene, FRONT, backend=x, background=SKY) for x in ("steady", "ewa"))
    assert difference(a, b) < 1e-3
    assert (a.alpha - b.alpha).abs().max() < 1e-3
    assert (a.depth - b.depth).abs().max() < 1e-3
    assert a.alpha.max() > 0.9


def pair(shift=0.0, opacity=0.9):
    """A red Gaussian and a blue one in one place, but for a shift in depth of the red one."""
    return GaussianScene.make(
        means=[[0.0, 0, shift], [0, 0, 0]], scales=[0.3, 0.3], opacities=[opacity, opacity],
        colors=[[1.0, 0, 0], [0, 0, 1.0]],
    )  # fmt: skip


def test_two_in_one_place_have_no_order():
    there, back = (render(x, FRONT, backend="steady") for x in (pair(), pair()[[1, 0]]))
    assert difference(there, back) < 1e-6
    both = there.color[20, 20].tolist()
    assert both[0] == pytest.approx(both[2], abs=2e-3)
    ewa = [render(x, FRONT, backend="ewa") for x in (pair(), pair()[[1, 0]])]
    assert difference(*ewa) > 0.5


@pytest.mark.slow
def test_one_that_passes_through_another_does_so_without_a_jump():
    """In steps of a hundredth of its size; in the end it is in front, as with ewa."""
    steps = torch.linspace(-1.2, 1.2, 801)
    for backend, least, most in (("steady", 0.0, 0.02), ("ewa", 0.5, 1.0)):
        films = [render(pair(x), FRONT, backend=backend).color[20, 20] for x in steps.tolist()]
        jumps = torch.stack(films).diff(dim=0).abs().max()
        assert least < jumps < most, backend
        assert films[-1][0] > 0.85
        assert films[0][2] > 0.85


def turned(scene, angle):
    R = rotations.to_matrix(torch.tensor([math.cos(angle / 2), 0.0, math.sin(angle / 2), 0.0]))
    return scene.replace(
        means=scene.means @ R.T,
        quats=torch.stack([rotations.from_matrix(R @ rotations.to_matrix(q)) for q in scene.quats]),
    )


def test_a_thing_that_turns_a_little_changes_a_little():
    """Twice the angle, twice the change; where ewa's order flips, the least angle changes much."""
    thing = GaussianScene.make(
        means=[[-0.15, 0, 0], [0.15, 0, 0]], scales=[[0.3, 0.3, 0.1], [0.3, 0.3, 0.1]],
        opacities=[0.95, 0.95], colors=[[1.0, 0, 0], [0, 0, 1.0]],
    )  # fmt: skip
    change = {}
    for backend in ("steady", "ewa"):
        for angle in (2e-3, 1e-3):
            ends = (render(turned(thing, x), FRONT, backend=backend) for x in (-angle, angle))
            change[backend, angle] = float(difference(*ends))
    assert change["steady", 2e-3] < 0.02
    assert change["steady", 1e-3] < 0.6 * change["steady", 2e-3]
    assert change["ewa", 1e-3] > 0.3


def test_a_floor_does_not_cover_what_stands_on_it():
    """Its Gaussians are large: their centres are nearer than the thing, their surface is below."""
    floor = GaussianScene.make(
        means=[[0.0, 0, 0.5]], scales=[[3.0, 1e-3, 3.0]], colors=[[0.0, 1.0, 0]], opacities=[1.0]
    )
    thing = GaussianScene.make(means=[[0.0, 0.2, 0]], scales=[0.08], colors=[[1.0, 0, 0]])
    camera, scene = look_at((0, 1.5, 4), (0, 0.2, 0), width=200, height=200), join(floor, thing)
    seen = {x: render(scene, camera, backend=x).color[100, 100] for x in ("steady", "ewa")}
    assert seen["steady"][0] > 0.9
    assert seen["ewa"][1] > 0.9


def looked_at(scene, x, y):
    """Of the Gaussians of the block from a pixel on: how many there are, and how many it meets."""
    with sharing() as share:
        layer, lines = steady.projected(make_splat(scene, FRONT, SKY), share)
    n = len(layer.rows)
    room = numbers, places = steady_meet.make_room(n)
    its = np.arange(n, dtype=np.int32)
    count = steady_tiles._touching(layer.records, lines, its, x, y, *room)
    near, spare = places[steady_meet.BY_FRONT], places[steady_meet.SPARE]
    steady_meet.sort(numbers[steady_meet.FRONT], count, near, spare)
    steady_meet.meet(layer.records, lines, count, x, y, 8, *room)
    return count, places[steady_meet.COUNT, 0]


def test_what_an_opaque_wall_hides_is_not_looked_at():
    """Which changes nothing: more than enough Gaussians for the first look, and many behind."""
    wall, behind = sheets(40, opacity=0.99), random_scene(300)
    wall = wall.replace(log_scales=torch.tensor([3.0, 3.0, 1e-3]).log().expand(40, 3))
    behind = behind.replace(means=0.2 * behind.means - torch.tensor([0, 0, 6.0]))
    a, b = (render(x, FRONT, backend="steady") for x in (wall, join(behind, wall)))
    assert difference(a, b) < 1.2 * T_MIN
    there, looked = looked_at(join(behind, wall), 20, 20)
    assert looked < len(wall) < there


def test_threads_do_not_change_the_picture():
    scene = random_scene(300)
    there = render(scene, SMALL, backend="steady")
    with one_thread():
        again = render(scene, SMALL, backend="steady")
    before = torch.get_num_threads()
    torch.set_num_threads(5)
    try:
        many = render(scene, SMALL, backend="steady")
    finally:
        torch.set_num_threads(before)
    for picture in (again, many):
        assert same(there, picture)


# --- films ----------------------------------------------------------------------------------------


def shadow(t):
    """Other rows in every frame; none in the second."""
    rows = torch.arange(5 * t, 5 * t + (0 if t == 1 else 20))
    return rows, torch.full((len(rows),), 0.5)


@pytest.mark.parametrize("shade", [None, shadow])
@pytest.mark.parametrize("moving", [False, True])
@pytest.mark.parametrize("coming", [False, True])
def test_a_film_is_its_frames(shade, moving, coming):
    """Bit for bit, also where only what has changed is drawn again, or has come or gone."""
    frames = through(cloud(300, 0, 0.7), shade=shade)
    if coming:
        frames.presence = torch.full((len(frames.scene),), ALWAYS, dtype=torch.uint8)
        frames.presence[::5], frames.presence[1::5] = FIRST, LATER
    camera = orbit((0, 0, 0), radius=5, width=100, height=60, views=5)
    film = render_frames(frames, camera if moving else camera[0], background=SKY, backend="steady")
    pictures = list(film)
    for picture, f, view in zip(pictures, frames, camera, strict=True):
        alone = render(
            frames.scene, view if moving else camera[0], background=SKY, backend="steady",
            means=f.means, covariances=f.covariances, sh=f.sh, opacities=f.opacities, shade=f.shade,
        )  # fmt: skip
        assert same(picture, alone)
    assert not torch.equal(pictures[0].color, pictures[2].color)


def tiles_drawn(monkeypatch, frames):
    """Part of the tiles, frame after frame."""
    drawn, draw = [], steady.draw_tiles

    def counted(layer, lines, background, wanted, *rest):
        drawn.append(wanted.mean())
        draw(layer, lines, background, wanted, *rest)

    monkeypatch.setattr(steady, "draw_tiles", counted)
    list(render_frames(frames, CAMERA, backend="steady"))
    return drawn


def test_a_film_draws_few_tiles_again(monkeypatch):
    first, *rest = tiles_drawn(monkeypatch, through(cloud(300, 0, 0.7)))
    assert first == 1
    assert 0 < min(rest) < max(rest) < 0.9


def test_what_has_come_to_rest_is_not_drawn_again(monkeypatch):
    """Nor what lies in a shadow that does not move."""
    rows = torch.arange(20)
    shade = lambda t: (rows, torch.full((20,), 0.5 if t else 0.7))  # noqa: E731
    frames = through(cloud(300, 0, 0.7), shade=shade)
    for _, states in frames.states.values():
        states[2:] = states[1]
    drawn = tiles_drawn(monkeypatch, frames)
    assert drawn[0] == 1
    assert drawn[1] > 0
    assert drawn[2:] == [0] * (len(frames) - 2)
