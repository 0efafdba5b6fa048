"""Taking an object out: cut at its support, no ghost, no hole, and frame 0 stays the capture."""

import pytest
import torch
from captured_things import GREY, HEIGHT, RADIUS, RED, capture, greedy, shell, slab, turned

import newtongs
from newtongs.base.state import State
from newtongs.exports import load_animation, save_animation
from newtongs.exports.parts import parts as exported
from newtongs.pipeline.pick import _Others, pick
from newtongs.pipeline.prepare import prepare
from newtongs.pipeline.source import Source, floor_of
from newtongs.pipeline.spec import SceneSpec
from newtongs.render import render
from newtongs.samples import named_scene
from newtongs.scene.cameras import look_at
from newtongs.scene.frames import ALWAYS, FIRST, LATER
from newtongs.scene.gaussians import join
from newtongs.segment.cutout.extraction import take_out
from newtongs.segment.floor.finding import find_floor
from newtongs.segment.objects.clusters import cluster

KINDS = ["floor", "plinth", "table"]
BLUE = (0.0, 0.0, 1.0)


def both(scene, found):
    """The rest and the object, as they are seen later."""
    rest = join(scene[~found.mask & ~found.hidden], found.fill)
    return rest, join(scene[found.mask], found.own)


def from_above(scene, y):
    """Picture and opacity of the place on which the thing stood."""
    camera = look_at((0.0, y + 3.0, 0.01), (0.0, y, 0.0), width=96, height=96, fov=10.0)
    seen = render(scene, camera, background=BLUE)
    return seen.color, seen.alpha


def from_below(scene, y):
    camera = look_at((0.0, y - 3.0, 0.01), (0.0, y, 0.0), width=96, height=96, fov=7.0)
    seen = render(scene, camera, background=BLUE)
    return seen.color, seen.alpha


def height_of(kind):
    return 0.0 if kind == "floor" else 0.8


@pytest.mark.parametrize("kind", KINDS)
def test_support_is_found_where_the_object_stands(kind):
    scene, parts, floor = capture(kind)
    found = take_out(scene, greedy(scene, parts), floor)
    assert found.support.height == pytest.approx(height_of(kind), abs=0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_the_support_keeps_its_own_and_the_object_its_inside(kind):
    scene, parts, floor = capture(kind)
    selected = greedy(scene, parts)
    found = take_out(scene, selected, floor)
    assert not found.mask[parts["support"]].any()
    beside = selected & parts["support"] & (scene.means[:, ::2].norm(dim=-1) > RADIUS + 0.06)
    assert found.hidden[beside].float().mean() < 0.05
    assert found.returned >= int(beside.sum()) > 50
    assert found.mask[parts["inside"]].all()
    low = scene.means[:, 1] < height_of(kind) + 0.03
    assert (found.mask | found.hidden)[parts["thing"]].all()
    assert found.mask[parts["thing"] & ~low].float().mean() > 0.97
    assert not (found.mask & found.hidden).any()


@pytest.mark.parametrize("kind", KINDS)
def test_the_hole_is_filled_with_the_colours_around(kind):
    scene, parts, floor = capture(kind)
    found = take_out(scene, greedy(scene, parts), floor)
    y, (rest, _) = height_of(kind), both(scene, found)
    before, open_ = from_above(scene[parts["support"] | parts["crease"]], y)
    after, whole = from_above(rest, y)
    assert open_.min() < 0.1
    assert before.min() < 0.1  # the crease
    assert whole.min() > 0.65  # of the support itself without a hole: 0.64
    assert whole.mean() > 0.97
    assert (after - torch.tensor(GREY)).norm(dim=-1).mean() < 0.05
    assert (after - torch.tensor(GREY)).norm(dim=-1).max() < 0.25


@pytest.mark.parametrize("kind", KINDS)
def test_the_bottom_is_closed_with_the_colours_of_the_object(kind):
    scene, parts, floor = capture(kind)
    found = take_out(scene, greedy(scene, parts), floor)
    y = height_of(kind)
    _, open_ = from_below(scene[parts["thing"]][:6000], y)  # without its lid
    color, whole = from_below(both(scene, found)[1], y)
    middle = slice(20, -20)
    assert open_[middle, middle].min() < 0.1
    assert whole[middle, middle].min() > 0.9
    assert (color[middle, middle] - torch.tensor(RED)).norm(dim=-1).mean() < 0.1


def test_nothing_of_the_object_reaches_below_the_cut():
    scene, parts, floor = capture()
    long = torch.tensor([[0.01, 0.2, 0.01]]).log()
    needle = scene[parts["thing"]][:1]
    needle = needle.replace(means=torch.tensor([[RADIUS, 0.05, 0.0]]), log_scales=long)
    scene = join(scene, needle)
    selected = torch.cat([greedy(scene[:-1], parts), torch.tensor([True])])
    found = take_out(scene, selected, floor)
    assert found.hidden[-1]
    low, _ = both(scene, found)[1].bounds(sigmas=2.0)
    assert low[1] > -0.01


def test_a_sloping_support():
    scene, parts, floor = capture(slope=0.15)
    found = take_out(scene, greedy(scene, parts), floor)
    assert found.support.slope[0] == pytest.approx(0.15, abs=0.02)
    assert from_above(both(scene, found)[0], 0.0)[1].min() > 0.65


@pytest.mark.parametrize("scale", [0.01, 100.0])
@pytest.mark.slow
def test_size_and_direction_do_not_matter(scale):
    scene, parts, floor = capture("plinth")
    plain = take_out(scene, greedy(scene, parts), floor)
    turn = torch.nn.functional.normalize(torch.tensor([0.3, -0.5, 0.7, 0.1]), dim=0)
    other, there = turned(scene, floor, turn, scale, scale * torch.tensor([2.0, -1.0, 0.5]))
    found = take_out(other, greedy(scene, parts), there)
    assert (found.mask != plain.mask).float().mean() < 5e-3
    assert len(found.fill) == pytest.approx(len(plain.fill), rel=0.15)
    assert found.support.height == pytest.approx(scale * plain.support.height, rel=0.02)


def test_the_fill_stays_within_the_outline_of_the_support():
    scene, parts, floor = capture("plinth")
    found = take_out(scene, greedy(scene, parts), floor)
    low, high = found.fill.bounds(sigmas=1.0)
    assert low[[0, 2]].min() > -0.47
    assert high[[0, 2]].max() < 0.47


def test_a_whole_support_stays_as_it_is():
    scene, parts, floor = capture()
    thing = scene[parts["thing"]]
    scene = join(thing, slab(1.5))
    mask = torch.arange(len(scene)) < len(thing)
    found = take_out(scene, mask, floor)
    assert not len(found.fill)
    assert not found.hidden[~mask].any()


@pytest.mark.parametrize("name", ["kitchen_table", "playroom_floor", "display_orange_pyramid"])
def test_our_own_scenes_without_ids_lose_nothing(name):
    marked = named_scene(name).scene()
    mask, scene = marked.ids == 0, marked.replace(ids=torch.full_like(marked.ids, -1))
    found = take_out(scene, mask, find_floor(scene, up=(0, 1, 0)))
    assert not (found.mask | found.hidden)[~mask].any()
    assert (found.mask | found.hidden)[mask].all()


def test_what_hangs_in_the_air_is_not_cut():
    scene, parts, floor = capture()
    means = scene.means.clone()
    aloft = parts["thing"] | parts["inside"]
    means[aloft] += torch.tensor([0.0, 0.4, 0.0])
    found = take_out(scene.replace(means=means), parts["thing"], floor)
    assert found.support is None
    assert torch.equal(found.mask, parts["thing"])
    assert not len(found.own)
    assert not len(found.fill)


def test_everything_and_next_to_nothing():
    scene, _, floor = capture()
    everything = torch.ones(len(scene), dtype=torch.bool)
    assert take_out(scene, everything, floor).mask.all()
    one = torch.zeros_like(everything)
    one[0] = True
    assert torch.equal(take_out(scene, one, floor).mask, one)


# --- in an animation -----------------------------------------------------------------------------


WAYS = ["auto", "cluster:0", "box:-0.3,-0.02,-0.3,0.3,0.7,0.3", "sphere:0,0.3,0,0.42"]
PUSH = {"velocity": (2.0, 2.0, 0.0), "seconds": 0.3, "up": (0, 1, 0)}


@pytest.mark.parametrize("select", WAYS)
@pytest.mark.slow
def test_frame_0_is_the_capture_bit_for_bit(select):
    scene, parts, _ = capture()
    animation = newtongs.animate(scene, select=select, show_floor=False, **PUSH)
    start = animation.frames()[0]
    for name in ("means", "quats", "log_scales", "logits", "sh"):
        assert torch.equal(getattr(start, name), getattr(scene, name)), name
    later = animation.frames()[-1]
    assert from_above(later[later.ids < 0], 0.0)[1].min() > 0.65
    assert not (animation.scene.ids[: len(scene)] == 0)[parts["support"]].any()


@pytest.mark.slow
def test_frame_0_is_the_capture_with_things_drawn_besides():
    scene, _, _ = capture("plinth")
    animation = newtongs.animate(scene, select="sphere:0,1.1,0,0.42", **PUSH)
    n = len(scene)
    assert torch.equal(animation.frames()[0].means[:n], scene.means)
    assert len(animation.presence) == len(animation.scene)
    assert (animation.presence[n:] == LATER).any()


@pytest.mark.slow
def test_presence_goes_into_files(tmp_path):
    scene, _, _ = capture()
    animation = newtongs.animate(scene, **PUSH)
    assert {ALWAYS, FIRST, LATER} == set(animation.presence.tolist())
    save_animation(animation, tmp_path / "a.json")
    assert torch.equal(load_animation(tmp_path / "a.json").presence, animation.presence)
    held = sum(len(part.scene) for part in exported(animation) if part.shadow_of is None)
    assert held == int((animation.presence != FIRST).sum())


@pytest.mark.slow
def test_keep_ghosts_takes_the_selection_as_it_is():
    scene, _, _ = capture()
    kept = newtongs.animate(scene, select=WAYS[2], complete=False, **PUSH)
    assert kept.presence is None
    assert torch.equal(kept.scene.means, scene.means)
    x = scene.means
    inside = ((x >= torch.tensor([-0.3, -0.02, -0.3])) & (x <= torch.tensor([0.3, 0.7, 0.3]))).all(
        -1
    )
    assert torch.equal(kept.scene.ids == 0, inside)


def test_objects_that_the_file_marks_are_taken_as_they_are():
    scene, parts, _ = capture()
    marked = scene.replace(ids=torch.where(parts["thing"], 4, -1))
    animation = newtongs.animate(marked, **PUSH)
    assert animation.presence is None
    assert torch.equal(animation.scene.ids == 0, parts["thing"])


def two_things():
    """Two captured things on a floor, far apart; the second is the smaller."""
    scene, parts, _ = capture()
    other = scene[parts["thing"] | parts["inside"] | parts["crease"]]
    other = other.replace(means=0.7 * other.means + torch.tensor([1.0, 0.0, 0.9]))
    away = (scene.means - torch.tensor([1.0, 0.0, 0.9]))[:, ::2].norm(dim=-1)
    return join(scene[(away > 0.7 * RADIUS) | ~parts["support"]], other)


def picked(scene, **options):
    source, spec = Source(scene, None, ours=False), SceneSpec(up=(0, 1, 0), **options)
    return pick(source, spec, floor_of(source, spec.up))


def test_clusters_are_spared_by_an_extraction_but_not_smears():
    scene = two_things()
    floor = find_floor(scene, up=(0, 1, 0))
    first, second = sorted(cluster(scene, floor)[:2], key=lambda one: -one.count)
    assert _Others(scene, floor).around(first.mask).equal(second.mask)
    assert _Others(scene, floor).around(second.mask).equal(first.mask)
    wide = scene.log_scales + 0.7 * second.mask[:, None]
    smeared = scene.replace(log_scales=wide)
    others = _Others(smeared, floor)
    others.each = [(one.rows, float(others.widths[one.rows].median())) for one in (first, second)]
    fewer = others.each[1][0][: first.count // 2]
    others.each[1] = fewer, others.each[1][1]
    assert not others.around(first.mask).any()


def test_what_only_settles_looks_as_captured():
    scene, _, _ = capture()
    source, spec = Source(scene, None, ours=False), SceneSpec(up=(0, 1, 0))
    setup = prepare(source, spec)
    times = torch.arange(3, dtype=torch.float64)
    for share, mended in ((0.05, False), (0.3, True)):
        z = setup.bodies[0].z0.expand(3, 1, 22).clone()
        z[1:, 0, 0] += share * State(z[0, 0]).s.mean()
        shown = setup.animation(times, z, show_floor=False)
        assert (shown.presence is not None) == mended


@pytest.mark.slow
def test_loose_things_are_taken_out_too():
    layout = picked(two_things(), loose=True)
    assert len(layout.names) == 2
    for index in range(2):
        theirs = layout.owners == index
        assert (theirs & (layout.presence == LATER) & (layout.scene.ids == index)).any()
        assert (theirs & (layout.presence == LATER) & (layout.scene.ids < 0)).any()


@pytest.mark.slow
def test_mending_does_not_show_where_a_loose_thing_stays():
    scene = two_things()
    animation = newtongs.animate(
        scene, velocity=(-2.0, 2.0, 0.0), seconds=0.3, up=(0, 1, 0), loose=True, show_floor=False
    )
    assert torch.equal(animation.frames()[0].means, scene.means)
    place = torch.tensor([1.0, 0.0, 0.9])
    near = (animation.scene.means - place)[:, ::2].norm(dim=-1) < 0.35
    assert (animation.presence[near] == ALWAYS).all()
    assert (animation.presence != ALWAYS).any()


@pytest.mark.slow
def test_a_raised_object_leaves_a_mended_place_from_the_start():
    scene, _, _ = capture()
    animation = newtongs.animate(scene, motion="free_fall", seconds=0.2, up=(0, 1, 0))
    assert animation.presence is None
    rest = animation.scene[animation.scene.ids < 0]
    assert from_above(rest, 0.0)[1].min() > 0.65


@pytest.mark.slow
def test_the_static_rest_of_the_physics_has_no_hole():
    from newtongs.pipeline.surroundings import static_rest

    scene, _, _ = capture()
    layout = picked(scene)
    under = static_rest(layout)
    assert (under.means[:, ::2].norm(dim=-1) < 0.5 * RADIUS).sum() > 50
    assert layout.scene.object(0).means[:, 1].max() == pytest.approx(HEIGHT, abs=1e-3)


def test_bars_of_a_stand_are_no_support():
    """Nothing closes the space between them: a guitar leaves its stand as it was."""
    thing, plate = shell(), slab(0.35)
    bars = plate[((plate.means[:, 0].abs() - 0.12).abs() < 0.015)]
    scene = join(thing, bars)
    mask = torch.arange(len(scene)) < len(thing)
    found = take_out(scene, mask, find_floor(scene, up=(0, 1, 0)))
    assert found.support is None
    assert not len(found.fill)
    whole = join(thing, plate)  # as many bars as make a board do carry it
    mask = torch.arange(len(whole)) < len(thing)
    assert take_out(whole, mask, find_floor(whole, up=(0, 1, 0))).support is not None
