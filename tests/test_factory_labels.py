"""Every label of a film against something that knows nothing of how it is made."""

from dataclasses import replace

import numpy as np
import pytest
import render_reference as reference
import torch
from lenses import Lens
from scipy.ndimage import binary_erosion, map_coordinates

from newtongs.base.process import sharing
from newtongs.base.state import State
from newtongs.factory.casts import prepare_casts
from newtongs.factory.draws import ViewDraw, draw
from newtongs.factory.film import make_film
from newtongs.factory.labels import ObjectMotion, each, label_view
from newtongs.factory.renderers import pictures_by
from newtongs.factory.sample import cameras_of, in_physics
from newtongs.factory.scenes import find_scenes
from newtongs.factory.spec import Cameras, MotionLaws, Numbers, Objects, Pushes, Spec
from newtongs.render import ewa, render
from newtongs.render.ewa_project import Layer
from newtongs.render.scenes import render_frames
from newtongs.render.splat import make_splat

by_both = pytest.mark.parametrize("renderer", ["ewa", "steady"])
BLACK, WHITE = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)


def made(
    scene, number=0, size=(64, 64), kinds=("world",), frames=9, spin=None, gloss=True, **objects
):
    pushes = Pushes() if spin is None else Pushes(spin=Numbers.fixed(spin))
    spec = Spec(
        "test", (scene,), count=8, frames=frames, size=size, dynamics=MotionLaws(kinds),
        pushes=pushes, gloss=gloss,
        objects=Objects(casts=1, **objects), cameras=Cameras(paths=("still",)),
    )  # fmt: skip
    (source,) = find_scenes(spec, None)
    drawn = draw(spec, [source], number, 0)
    ready = prepare_casts(spec, source)
    return spec, make_film(drawn.cast_of(ready.casts[drawn.kind]), drawn, spec), source


@pytest.fixture(scope="module")
def ball_and_pins():
    return made("bowling", size=(96, 64), loose=3)


@pytest.fixture(scope="module")
def cube():
    return made("playroom_floor", size=(128, 128), frames=25)


def view(film, spec, path="still", azimuth=25.0):
    return cameras_of(film.animation, ViewDraw(path, azimuth, 15.0), spec)


def frame_of(animation, t):
    for k, frame in enumerate(animation.frames()):
        if k == t:
            return frame
    raise AssertionError(t)


def splat_of(animation, t, camera):
    f = frame_of(animation, t)
    return make_splat(
        animation.scene, camera, BLACK, f.means, f.covariances, f.sh, opacities=f.opacities
    )


def weights(splat, pixels):
    """Brute force in float64: part ``(P, N)`` that each Gaussian has in some pixels; their order.

    And where the ray of each pixel meets the most of each Gaussian ``(P, N)``, and the same part
    by the square of the light.
    """
    mean, conic, depth, order = reference._project(splat)
    d = pixels.unsqueeze(1) - mean
    power = torch.einsum("pni,nij,pnj->pn", d, conic, d)
    alpha = (splat.opacities.double()[order] * torch.exp(-0.5 * power)).clamp_max(0.999)
    alpha = torch.where(alpha >= 1 / 255, alpha, 0.0)
    after = torch.cumprod(1 - alpha, 1)
    before = torch.cat([torch.ones_like(after[:, :1]), after[:, :-1]], 1)
    weight = torch.where(after > 1e-4, alpha * before, 0.0)
    W = splat.camera.w2c.double()[:3, :3]
    x = splat.means.double()[order] @ W.T + splat.camera.w2c.double()[:3, 3]
    K = splat.camera.K.double()
    J = torch.zeros(len(x), 2, 3, dtype=torch.float64)
    J[:, 0, 0], J[:, 1, 1] = K[0, 0] / depth, K[1, 1] / depth
    J[:, 0, 2], J[:, 1, 2] = -K[0, 0] * x[:, 0] / depth**2, -K[1, 1] * x[:, 1] / depth**2
    sigma = W @ reference._covariances(splat)[order] @ W.T
    slope = torch.einsum("nj,nkj,nkl->nl", sigma[:, 2], J, conic)
    return weight, order, depth + torch.einsum("pni,ni->pn", d, slope), weight * (before + after)


def brute(splat, motion):
    """Slot, depth and share ``(H, W)`` of a picture, the gap between the first two slots, and the
    depth of its flow."""
    camera, slots, count = splat.camera, torch.from_numpy(motion.slots).long(), motion.objects + 1
    y, x = torch.meshgrid(
        torch.arange(camera.height) + 0.5, torch.arange(camera.width) + 0.5, indexing="ij"
    )
    pixels = torch.stack([x.flatten(), y.flatten()], -1).double()
    shares, depths, flow_depths = [], [], []
    for part in pixels.split(256):
        weight, order, z, twice = weights(splat, part)
        one_hot = torch.nn.functional.one_hot(slots[order], count).double()
        flow_depths.append((twice * z) @ one_hot / (twice @ one_hot))
        shares.append(torch.cat([weight @ one_hot, 1 - weight.sum(1, keepdim=True)], 1))
        depths.append((weight * z) @ one_hot)
    share, depth = torch.cat(shares), torch.cat(depths)
    best = share.argmax(1)
    top = share.topk(2, 1).values
    z = depth.gather(1, best.clamp_max(count - 1)[:, None]).squeeze(1) / top[:, 0]
    z = torch.where(best == count, 0.0, z)
    flow_z = torch.cat(flow_depths).gather(1, best.clamp_max(count - 1)[:, None]).squeeze(1)
    flow_z = torch.where(best == count, 0.0, flow_z)
    slot = torch.where(best == count, -1, best)
    its = torch.where(best < motion.objects, top[:, 0], share[:, motion.objects :].sum(1))
    size = camera.height, camera.width
    return tuple(x.reshape(size) for x in (slot, z, its, top[:, 0] - top[:, 1], flow_z))


@pytest.mark.slow
@pytest.mark.parametrize("path", ["still", "follow"])
def test_ids_and_depth_are_those_of_brute_force(ball_and_pins, path):
    spec, film, _ = ball_and_pins
    cameras = view(film, spec, path)
    motion, t = ObjectMotion.of(film.animation), 6
    frames = film.animation.frames()
    drawn = list(ewa.labelled(frames, cameras, BLACK, motion.slots, motion.objects))
    camera = each(cameras, spec.frames)[t]
    splat = splat_of(film.animation, t, camera)
    slot, z, _, lead, flow_z = brute(splat, motion)
    labels = drawn[t][1]
    sure = (lead > 0.02).numpy()
    assert sure.mean() > 0.97
    assert (labels.slot == slot.numpy())[sure].mean() > 0.9995
    same = sure & (labels.slot == slot.numpy()) & (labels.slot >= 0)
    for found, truth in ((labels.depth, z.numpy()), (labels.flow_depth, flow_z.numpy())):
        assert np.percentile(np.abs(found / truth - 1)[same], 99) < 1e-3
    assert np.percentile(np.abs(labels.depth / flow_z.numpy() - 1)[same], 95) > 2e-3
    assert {*np.unique(labels.slot)} >= {0, 1, motion.objects}


def fainter(animation, by):
    """What does not move has its logits less by so much; by 6, most pixels show some background."""
    scene = animation.scene
    logits = torch.where(scene.ids < 0, scene.logits - by, scene.logits)
    return replace(animation, scene=scene.replace(logits=logits))


@pytest.mark.slow
@pytest.mark.parametrize("path", ["still", "follow"])
def test_shares_are_those_of_brute_force(ball_and_pins, path):
    """Of objects, and of all else where what does not move, or the background colour, is most."""
    spec, film, source = ball_and_pins
    animation = fainter(film.animation, 6)
    cameras, motion, t = view(film, spec, path), ObjectMotion.of(animation), 6
    labels = label_view(animation, cameras, source.color)
    splat = splat_of(animation, t, each(cameras, spec.frames)[t])
    slot, _, share, lead, _ = (x.numpy() for x in brute(splat, motion))
    sure = lead > 0.02
    off = np.abs(labels.share[t] - 255 * share)
    assert np.percentile(off[sure], 99.9) < 0.51  # rounded to the nearest
    for its in (0, 1, motion.objects, -1):
        mixed = (slot == its) & sure & (share < 0.98)
        assert mixed.sum() > 5
        assert off[mixed].mean() < 0.4  # 0.25 of rounding


@by_both
@pytest.mark.parametrize("path", ["still", "orbit"])
@pytest.mark.slow
def test_what_does_not_move_shares_light_with_objects_alone(ball_and_pins, path, renderer):
    """However faint it is: the background colour does not move either."""
    spec, film, source = ball_and_pins
    cameras = view(film, spec, path)
    by = pictures_by(renderer)
    labels = label_view(fainter(film.animation, 6), cameras, source.color, by)
    objects = fainter(film.animation, 40).frames()  # nothing else is drawn
    drawn = render_frames(objects, cameras, backend=renderer, background=BLACK)
    for ids, share, picture in zip(labels.ids, labels.share, drawn, strict=True):
        beside = (picture.alpha.numpy() > 0) & (ids == 0)
        away = (ids == 0) & ~beside
        assert away.mean() > 0.5
        assert (share[away] == 255).all()
        assert (share[beside] < 230).mean() > 0.05


@by_both
def test_an_object_has_all_light_of_its_inside_and_shares_that_of_its_edge(ball_and_pins, renderer):
    spec, film, source = ball_and_pins
    labels = label_view(film.animation, view(film, spec), source.color, pictures_by(renderer))
    deep, edge = [], []
    for ids, share in zip(labels.ids, labels.share, strict=True):
        for i in range(1, len(film.animation.states) + 1):
            its = ids == i
            deep.append(share[binary_erosion(its, np.ones((3, 3)), 2)])
            edge.append(share[its & ~binary_erosion(its, np.ones((3, 3)))])
    deep, edge = np.concatenate(deep), np.concatenate(edge)
    assert len(deep) > 200
    assert (deep == 255).mean() > 0.99  # a little light may be left where blending stops
    assert deep.min() >= 250
    assert (edge < 230).mean() > 0.3
    assert edge.min() > 255 / (len(film.animation.states) + 2)  # the largest of so many


@by_both
def test_films_with_labels_have_the_pictures_of_films_without(ball_and_pins, renderer):
    spec, film, _ = ball_and_pins
    for path in ("still", "orbit"):
        cameras, motion = view(film, spec, path), ObjectMotion.of(film.animation)
        plain = render_frames(film.animation.frames(), cameras, backend=renderer, background=BLACK)
        frames, by = film.animation.frames(), pictures_by(renderer)
        named = by(frames, cameras, BLACK, motion.slots, motion.objects)
        for a, (b, _) in zip(plain, named, strict=True):
            assert torch.equal(a.color, b.color)


@by_both
def test_masks_are_the_objects_drawn_alone_in_white(ball_and_pins, renderer):
    """Each object white, all else black: what is brighter than all others is its mask."""
    spec, film, source = ball_and_pins
    camera, t = view(film, spec), 5
    labels = label_view(film.animation, camera, source.color, pictures_by(renderer))
    f, ids = frame_of(film.animation, t), film.animation.scene.ids
    bright = []
    for i in [*film.animation.states, -1]:
        colors = (ids == i).float()[:, None].expand(-1, 3).contiguous()
        bright.append(
            render(
                film.animation.scene, camera, backend=renderer, background=BLACK, means=f.means,
                covariances=f.covariances, opacities=f.opacities, colors=colors,
            ).color[..., 0]
        )  # fmt: skip
    light = torch.stack(bright)
    still = 1 - light[:-1].sum(0)
    light[-1] = torch.maximum(light[-1], 1 - light.sum(0))  # the rest, or nothing at all
    order = light.argmax(0)
    ids_alone = torch.where(order == len(film.animation.states), 0, order + 1).numpy()
    first, second = light.topk(2, 0).values
    sure = (first - second > 1e-3).numpy()
    assert (labels.ids[t] == ids_alone)[sure].all()
    share = torch.where(order == len(film.animation.states), still, first).numpy()
    assert np.abs(labels.share[t] - 255 * share)[sure].max() < 0.51  # rounded to the nearest
    assert len(np.unique(labels.ids[t])) > 2


def seen_gaussians(animation, t, camera, count=1200):
    """Rows of Gaussians that are seen where their centres are, by brute force."""
    splat = splat_of(animation, t, camera)
    mean, _, _, order = reference._project(splat)
    near = torch.nonzero(animation.scene.ids[order] >= 0).flatten()
    pixels = mean[near].floor() + 0.5
    size = torch.tensor([camera.width, camera.height])
    near = near[((pixels > 2) & (pixels < size - 2)).all(-1)][:: max(1, len(near) // count)]
    kept = []
    for part in near.split(128):
        weight, *_ = weights(splat, mean[part].floor() + 0.5)
        kept.append(part[weight.gather(1, part[:, None]).squeeze(1) > 0.3])
    return order[torch.cat(kept)].numpy()


def ways(animation, t, cameras, rows):
    """Pixels of Gaussians' centres in two frames, straight from the frames that are drawn."""
    here, there = (frame_of(animation, k).means[rows].double().numpy().copy() for k in (t, t + 1))
    a, b = Lens.of(cameras[t]), Lens.of(cameras[t + 1])
    return a.pixels(here)[0], b.pixels(there)[0], there - here


@by_both
@pytest.mark.parametrize("path", ["still", "orbit", "follow"])
@pytest.mark.slow
def test_flow_is_that_of_projected_gaussians(cube, path, renderer):
    spec, film, source = cube
    cameras = each(view(film, spec, path), spec.frames)
    by = pictures_by(renderer)
    labels = label_view(film.animation, view(film, spec, path), source.color, by)
    errors, lengths = [], []
    for t in (2, 9, 17):
        rows = seen_gaussians(film.animation, t, cameras[t])
        before, after, _ = ways(film.animation, t, cameras, rows)
        inner = binary_erosion(labels.ids[t] == 1, np.ones((3, 3)))
        column, row = np.floor(before).astype(int).T
        ok = inner[row, column]
        at = [before[ok, 1] - 0.5, before[ok, 0] - 0.5]
        flow = labels.flow[t].astype(float)
        found = np.stack([map_coordinates(flow[..., k], at, order=1) for k in (0, 1)], -1)
        errors.append(np.linalg.norm(found - (after - before)[ok], axis=-1))
        lengths.append(np.linalg.norm((after - before)[ok], axis=-1))
    error, length = np.concatenate(errors), np.concatenate(lengths)
    assert len(error) > 100
    assert length.mean() > 0.5
    assert error.mean() < 0.1
    assert np.percentile(error, 95) < 0.3


@by_both
def test_scene_flow_is_the_way_of_the_gaussians_in_metres(cube, renderer):
    spec, film, source = cube
    camera, t = view(film, spec), 9
    labels = label_view(film.animation, camera, source.color, pictures_by(renderer))
    rows = seen_gaussians(film.animation, t, camera)
    before, _, way = ways(film.animation, t, [camera] * spec.frames, rows)
    world = film.animation.world
    metres = world.to_physics(torch.from_numpy(way)) - world.offset
    column, row = np.floor(before).astype(int).T
    ok = binary_erosion(labels.ids[t] == 1, np.ones((3, 3)))[row, column]
    off = np.linalg.norm(labels.scene_flow[t][row, column] - metres.numpy(), axis=-1)[ok]
    assert np.median(off) < 2e-3
    assert np.median(off) < 0.05 * np.linalg.norm(metres.numpy(), axis=-1).mean()
    assert not labels.scene_flow[t][labels.ids[t] == 0].any()


def warp_psnr(labels, inside=1, ahead=None):
    """Frame t + 1 fetched by the flow, against frame t, on object pixels that both show.

    ``ahead(t)`` is another picture of frame t + 1, ``(H, W, 3)``.
    """
    pictures, squares, count = labels.rgb / 255.0, 0.0, 0
    for t in range(len(labels.flow)):
        inner = [binary_erosion(labels.ids[k] == 1, np.ones((3, 3)), inside) for k in (t, t + 1)]
        y, x = np.nonzero(inner[0] & labels.visible[t])
        u, v = labels.flow[t][y, x].astype(float).T
        row, column = (np.floor(z + 0.5).astype(int) for z in (y + v, x + u))
        ok = inner[1][row.clip(0, inner[1].shape[0] - 1), column.clip(0, inner[1].shape[1] - 1)]
        y, x, u, v = (z[ok] for z in (y, x, u, v))
        there = pictures[t + 1] if ahead is None else ahead(t)
        for c in range(3):
            fetched = map_coordinates(there[..., c], [y + v, x + u], order=3)
            squares += ((fetched - pictures[t, y, x, c]) ** 2).sum()
        count += 3 * len(y)
    assert count > 10_000
    return 10 * np.log10(count / squares)


@by_both
@pytest.mark.parametrize("path", ["still", "follow"])
def test_a_frame_warped_by_the_flow_is_the_next_one(cube, path, renderer):
    spec, film, source = cube
    by = pictures_by(renderer)
    labels = label_view(film.animation, view(film, spec, path), source.color, by)
    assert warp_psnr(labels) > 35
    wrong = labels._replace(flow=labels.flow * np.float16(0.5))
    assert warp_psnr(wrong) < warp_psnr(labels) - 3


def next_in_this_order(animation, camera, color, t):
    """Frame t + 1 ``(H, W, 3)``, its Gaussians blended in the order of frame t."""
    depth = frame_of(animation, t).means.double() @ camera.w2c[2, :3].double()
    f = frame_of(animation, t + 1)
    splat = make_splat(
        animation.scene, camera, color, f.means, f.covariances, f.sh, opacities=f.opacities,
        shade=f.shade,
    )  # fmt: skip
    with sharing() as share:
        layer = ewa.projected(ewa.splats_of(splat), ewa.view_of(camera), share)
        order = np.argsort(depth.numpy()[layer.rows], kind="stable")
        layer = Layer(layer.records[order], layer.rows[order])
        return ewa.draw_layer(layer, camera, ewa.array(splat.background), share).pixels[..., :3]


@pytest.mark.slow
def test_depth_of_a_ball_is_that_of_its_skin_in_films_of_steady():
    """To half a percent of its radius; the middles of its Gaussians lie 1.5 percent below.

    The depth of its flow is 2.8 percent before it, and nowhere below.
    """
    spec, film, _ = made("desk_blue_sphere", size=(128, 128))
    camera, motion, radius, off = view(film, spec), ObjectMotion.of(film.animation), 0.45, []
    frames, by = film.animation.frames(), pictures_by("steady")
    drawn = by(frames, camera, BLACK, motion.slots, motion.objects)
    centres = State(film.animation.states[0]).p.double().numpy()
    for centre, (_, labels) in zip(centres, drawn, strict=True):
        y, x = np.nonzero((labels.slot == 0) & (labels.share > 0.99))
        z = np.stack([labels.depth[y, x], labels.flow_depth[y, x]]).astype(float)
        lens = Lens.of(camera)
        towards = lens.points(x + 0.5, y + 0.5, np.ones(len(x))) + lens.R.T @ lens.t
        to = centre + lens.R.T @ lens.t
        a, b, c = (towards**2).sum(-1), towards @ to, to @ to - radius**2
        facing = b * b - a * c > (0.4 * radius) ** 2 * a  # not at the edge
        off.append((z - (b - np.sqrt((b * b - a * c).clip(0))) / a)[:, facing])
    off, of_flow = np.concatenate(off, 1) / radius
    assert len(off) > 5000
    assert abs(off.mean()) < 0.005
    assert np.abs(off).mean() < 0.03
    assert -0.03 < of_flow.mean() < -0.026
    assert of_flow.std() < 0.015 < 0.02 < off.std()
    assert of_flow.max() < 0


@pytest.mark.slow
def test_the_depth_of_the_flow_carries_a_soft_ball_better_than_that_of_its_light():
    spec, film, source = made("sunny_park", size=(128, 128), frames=13)
    camera, by = view(film, spec), pictures_by("steady")

    def by_light(*given):
        for picture, labels in by(*given):
            yield picture, labels._replace(flow_depth=labels.depth)

    found = label_view(film.animation, camera, source.color, by)
    other = label_view(film.animation, camera, source.color, by_light)
    assert warp_psnr(found) > 35
    assert warp_psnr(found) > warp_psnr(found._replace(flow=other.flow)) + 2


@pytest.mark.slow
def test_without_gloss_flow_carries_what_shines():
    psnr = {}
    for gloss in (True, False):
        spec, film, source = made("bowling", size=(192, 192), frames=9, gloss=gloss)
        assert (film.animation.scene.sh.shape[1] > 1) == gloss
        cameras = view(film, spec, "follow")
        labels = label_view(film.animation, cameras, source.color, pictures_by("steady"))
        psnr[gloss] = warp_psnr(labels)
    assert psnr[False] > 35
    assert psnr[False] > psnr[True] + 2


@pytest.mark.slow
@pytest.mark.parametrize("scene", ["construction_floor", "studio_tabletop"])
def test_where_a_warped_frame_is_not_the_next_one_the_order_has_changed(scene):
    """The flow is right: with the order kept, the same flow carries the picture."""
    spec, film, source = made(scene, size=(128, 128), frames=13)
    camera = view(film, spec)
    labels = label_view(film.animation, camera, source.color)
    alone = np.where(labels.share >= 253, labels.ids, 0)  # nothing else shines through
    labels = labels._replace(ids=alone)
    kept = warp_psnr(
        labels, ahead=lambda t: next_in_this_order(film.animation, camera, source.color, t)
    )
    assert warp_psnr(labels) < 35
    assert kept > 38


class Slow:
    """Flow and visibility of one frame by one formula after the other, in numpy."""

    def __init__(self, animation, cameras, drawn, t):
        self.motion, self.t, self.world = ObjectMotion.of(animation), t, animation.world
        self.here, self.there = drawn[t][1], drawn[t + 1][1]
        self.lens, self.after = Lens.of(cameras[t]), Lens.of(cameras[t + 1])

    def carried(self, slot, points, t, to):
        A, b = self.motion.matrices, self.motion.shifts
        still = np.linalg.solve(A[slot, t], (points - b[slot, t])[..., None])
        return (A[slot, to] @ still)[..., 0] + b[slot, to]

    def ways(self, rows, columns):
        """Pixels, depth and displacement."""
        slot, z = self.here.slot[rows, columns], self.here.flow_depth[rows, columns].astype(float)
        points = self.lens.points(columns + 0.5, rows + 0.5, z)
        moved = self.carried(slot, points, self.t, self.t + 1)
        way = self.world.to_physics(torch.from_numpy(moved - points)) - self.world.offset
        return *self.after.pixels(moved), way.numpy()

    def turned(self, rows, columns):
        """Flow of what is infinitely far off, before a camera that goes nowhere and turns."""
        here, there = self.lens._replace(t=np.zeros(3)), self.after._replace(t=np.zeros(3))
        away = here.points(columns + 0.5, rows + 0.5, np.ones(len(rows)))
        return there.pixels(away)[0] - np.stack([columns, rows], -1) - 0.5

    def visible(self, rows, columns):
        """The rules of ``visible`` in words: the same thing, depth, place and share."""
        slot = self.here.slot[rows, columns]
        pixels, depth, _ = self.ways(rows, columns)
        height, width = self.there.slot.shape
        x, y = np.floor(pixels).astype(int).T
        within = (x >= 0) & (x < width) & (y >= 0) & (y < height) & (depth > 0)
        at = y.clip(0, height - 1), x.clip(0, width - 1)
        z = self.there.flow_depth[at].astype(float)
        points = self.after.points(*pixels.T, z)
        back = self.lens.pixels(self.carried(slot, points, self.t + 1, self.t))[0]
        moves = slot < self.motion.objects
        place = np.hypot(*(back - np.stack([columns, rows], -1) - 0.5).T)
        off = np.abs(z - depth) / depth
        out = within & (self.there.slot[at] == slot) & (off < 0.02)
        share = np.zeros(len(rows))
        for i in np.unique(slot):
            its = (self.there.slot == i) | ((i == self.motion.objects) & (self.there.slot < 0))
            plane = np.where(its, self.there.share, 1 - self.there.share).astype(float)
            found = map_coordinates(plane, pixels.T[::-1] - 0.5, order=1, mode="nearest")
            share = np.where(slot == i, found, share)
        change = np.abs(share - self.here.share[rows, columns])
        assert (change >= 0.1)[out].any()
        limits = np.stack(
            [change / 0.1, off / 0.02, place, 1 + np.abs(pixels - np.rint(pixels)).min(-1)]
        )
        out &= ((place < 1) | ~moves) & (change < 0.1)
        return out, (np.abs(limits - 1) < 1e-6).any(0)


def as_stored(found, truth, step):
    """Whether numbers are rounded to multiples of a step, and then to half precision."""
    tolerance = 1e-6 + step / 2 + np.abs(truth) * 2.0**-11
    return (np.abs(found.astype(float) - truth) <= tolerance).all()


@by_both
@pytest.mark.parametrize("faint", [0, 6])
@pytest.mark.parametrize("path", ["still", "orbit", "follow"])
def test_flow_and_what_is_visible_are_those_of_slow_formulas(ball_and_pins, path, faint, renderer):
    """Also where most pixels show some background."""
    spec, film, source = ball_and_pins
    animation = fainter(film.animation, faint)
    cameras, motion = view(film, spec, path), ObjectMotion.of(animation)
    frames, by = animation.frames(), pictures_by(renderer)
    drawn = [*by(frames, cameras, source.color, motion.slots, motion.objects)]
    labels = label_view(animation, cameras, source.color, by)
    assert not faint or (drawn[1][1].slot < 0).any()
    for t in (1, 5):
        slow = Slow(animation, each(cameras, spec.frames), drawn, t)
        slot = slow.here.slot
        flows = (slot >= 0) & ((slot < motion.objects) | (path != "still"))
        rows, columns = np.nonzero(flows)
        pixels, _, way = slow.ways(rows, columns)
        goes = pixels - np.stack([columns, rows], -1) - 0.5
        assert as_stored(labels.flow[t][flows], goes, 1 / 64)
        assert as_stored(labels.scene_flow[t][flows], way, 2**-13)
        visible, at_the_limit = slow.visible(rows, columns)
        assert (labels.visible[t][flows] == visible)[~at_the_limit].all()
        assert 0.3 < visible.mean() < 1  # neither all nor next to none
        if path == "still":
            alike = np.abs(slow.there.share - slow.here.share) < 0.1
            same = (slow.there.slot == slot) & alike
            assert np.array_equal(labels.visible[t][~flows], same[~flows])
            assert not labels.flow[t][~flows].any()
        else:
            assert as_stored(labels.flow[t][~flows], slow.turned(*np.nonzero(~flows)), 1 / 64)
            assert not labels.visible[t][~flows].any()
        assert not labels.scene_flow[t][~flows].any()


def test_a_point_that_is_covered_in_part_is_visible_only_where_that_is_asked_for(ball_and_pins):
    spec, film, source = ball_and_pins
    camera = view(film, spec)
    narrow = label_view(film.animation, camera, source.color).visible
    wide = label_view(film.animation, camera, source.color, same_share=2.0).visible
    assert not (narrow & ~wide).any()
    assert 0.001 < (wide & ~narrow).mean() < 0.05


def test_hidden_points_are_not_visible_in_the_next_frame(cube):
    spec, film, source = cube
    labels = label_view(film.animation, view(film, spec), source.color)
    covered = (labels.ids[:-1] == 0) & (labels.ids[1:] == 1)
    assert covered.any()
    assert not labels.visible[covered].any()


def test_flow_is_finite_where_the_camera_comes_to_what_it_saw(cube):
    spec, film, source = cube
    camera = view(film, spec)
    near = label_view(film.animation, camera, source.color).depth[0].astype(float)
    near = near[near > 0].min() / film.animation.world.scale
    cameras = []
    for t in range(spec.frames):  # straight ahead, past the nearest points
        w2c = camera.w2c.clone()
        w2c[2, 3] -= 4 * near * t / spec.frames
        cameras.append(replace(camera, w2c=w2c))
    with np.errstate(over="raise"):
        labels = label_view(film.animation, cameras, source.color)
    far = np.abs(labels.flow.astype(float)).max(-1) > max(spec.size)
    assert far.any()
    assert np.isfinite(labels.flow).all()
    assert not labels.visible[far].any()


def test_cameras_of_the_physics_frame_see_the_same_pixels(ball_and_pins):
    spec, film, _ = ball_and_pins
    camera, world = view(film, spec), film.animation.world
    points = torch.randn(50, 3, dtype=torch.float64)
    pixels, depth = camera.project(world.to_scene(points))
    x = points @ in_physics(camera, world)[:3, :3].T + in_physics(camera, world)[:3, 3]
    torch.testing.assert_close(x[:, 2], world.scale * depth, rtol=1e-5, atol=1e-5)
    found = (x @ camera.K.double().T)[:, :2] / x[:, 2:]
    ahead = depth > 0.5
    torch.testing.assert_close(found[ahead], pixels[ahead], rtol=1e-4, atol=1e-3)


def test_objects_that_change_their_size_have_flow_too():
    spec, film, source = made("desk_blue_sphere", kinds=("motions",), frames=9)
    spec = replace(spec, dynamics=MotionLaws(("motions",), ("scale_pulse",)))
    (source,) = find_scenes(spec, None)
    drawn = draw(spec, [source], 3, 0)
    film = make_film(drawn.cast_of(prepare_casts(spec, source).casts["motions"]), drawn, spec)
    labels = label_view(film.animation, view(film, spec), source.color)
    assert State(film.states).s.std(0).max() > 0
    inside = labels.ids[:-1] == 1
    assert np.abs(labels.flow[inside].astype(float)).max() > 0.05


def from_afar(camera, distance, factor):
    """The same picture from ``factor`` times the distance: a thing's own depth is next to none."""
    w2c, K = camera.w2c.clone(), camera.K.clone()
    w2c[2, 3] += (factor - 1) * distance
    K[[0, 1], [0, 1]] *= factor
    return replace(camera, K=K, w2c=w2c)


@pytest.mark.slow
def test_what_turns_away_is_not_visible_however_far_the_camera():
    """All of a far ball is as far as its front, to 2 percent: depth alone cannot tell."""
    spec, film, source = made("desk_blue_sphere", size=(128, 128), spin=12.0)
    near, scene = view(film, spec), film.animation.scene
    centres = State(film.animation.states[0]).p.double()
    distance, radius = float(near.project(centres[0])[1]), 0.45
    camera = from_afar(near, distance, 20)
    faint = scene.logits.masked_fill(scene.ids < 0, -20)  # a wall would stand before it
    alone = replace(film.animation, scene=scene.replace(logits=faint))
    labels = label_view(alone, camera, source.color)
    turns, R = alone.affines(0)[0].numpy(), camera.w2c[:3, :3].double().numpy()
    away, seen = [], []
    for t in range(len(labels.flow)):
        y, x = np.nonzero(labels.ids[t] == 1)
        middle, depth = camera.project(centres[t])
        across = (np.stack([x, y], -1) + 0.5 - middle.numpy()) * float(depth / camera.K[0, 0])
        ok = (across**2).sum(-1) < radius**2
        towards = -np.sqrt(radius**2 - (across[ok] ** 2).sum(-1, keepdims=True))
        normals = np.concatenate([across[ok], towards], -1) / radius @ R  # of the ball, in space
        turned = normals @ (turns[t + 1] @ turns[t].T).T
        away.append(turned @ R[2])
        seen.append(labels.visible[t][y, x][ok])
    away, seen = np.concatenate(away), np.concatenate(seen)
    assert (away > 0.2).sum() > 50
    assert seen[away > 0.2].mean() < 0.1
    assert seen[away < -0.3].mean() > 0.995
