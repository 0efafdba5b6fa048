"""Select things in words: close-ups of all things go to a :class:`.namers.Namer`."""

from collections.abc import Sequence
from dataclasses import replace as changed

from ..base.errors import InputError
from ..scene.gaussians import GaussianScene
from ..scene.world_frame import WorldFrame
from ..segment.floor.finding import FloorPlane
from ..segment.objects.clusters import Cluster
from ..segment.objects.selection import is_selector
from ..segment.objects.things import Things, things
from ..views.portraits import portraits
from .namers import LONGEST_TEXT, SIDE, Namer, Portrait, open_namer
from .prepare import main_frame
from .source import Source
from .spec import ObjectSpec, SceneSpec

MOST = 60  # things that are shown to a namer, best first: drawing each takes up to a second
LISTED = 8  # things that match equally
EQUAL = 0.01  # of the best score: two pictures of one kind of thing differ in a few pixels


def pictured(scene: GaussianScene, world: WorldFrame, found: Sequence[Cluster]) -> list[Portrait]:
    """Close-ups of things, with their numbers and sizes in metres."""
    out = []
    for one, picture in zip(found, portraits(scene, world, found, size=SIDE), strict=True):
        x = world.to_physics(scene.means[one.rows].double())
        width, height, depth = (x.amax(0) - x.amin(0)).tolist()
        out.append(Portrait(one.id, (width, height, depth), picture))
    return out


def names_of(
    scene: GaussianScene, world: WorldFrame, there: Things, namer: Namer
) -> dict[str, str]:
    """The name of each thing, by its selector; of no more than :data:`MOST`."""
    shown = pictured(scene, world, there.found[:MOST])
    if not shown:
        return {}
    found = zip(shown, namer.names(shown), strict=True)
    return {there.selector(one.number): name for one, name in found}


def selector_of(
    text: str, scene: GaussianScene, world: WorldFrame, floor: FloorPlane, namer: Namer
) -> str:
    """The selector of the thing that a text names; a selector is returned unchanged.

    ``floor`` is the one above which things were found.
    """
    text = " ".join(text.split())
    if is_selector(text):
        return text
    if len(text) > LONGEST_TEXT:
        raise InputError(
            f"expected up to {LONGEST_TEXT} characters to look for, got {len(text)}: {text[:40]!r}"
        )
    there = things(scene, floor)
    if not there.found:
        raise InputError(
            f"nothing to look for {text!r} among: no thing was found; give a box or a sphere"
        )
    shown = pictured(scene, world, there.found[:MOST])
    return there.selector(_best(text, namer.scores(shown, text), shown, there))


def _best(text: str, scores: Sequence[float], shown: Sequence[Portrait], there: Things) -> int:
    """The number of the one thing with the highest score."""
    order = sorted(range(len(shown)), key=lambda i: -scores[i])
    first = order[0]
    if scores[first] <= 0:
        raise InputError(
            f"none of {len(shown)} things matches {text!r}; use other words, or give a selector: "
            "newtongs inspect lists them"
        )
    equal = [i for i in order if scores[i] >= (1 - EQUAL) * scores[first]]
    if len(equal) > 1:
        names = [there.selector(shown[i].number) for i in sorted(equal)]
        count = {2: "two", 3: "three"}.get(len(names), str(len(names)))
        *most, last = names[:LISTED]
        more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
        listed = ", ".join([*most, last]) + more if more else f"{', '.join(most)} and {last}"
        raise InputError(
            f"{count} things match {text!r} equally: {listed}; add a word that tells them apart, "
            "or give one of these selectors"
        )
    return shown[first].number


def without_words(
    spec: SceneSpec, source: Source, floor: FloorPlane, namer: Namer | str
) -> SceneSpec:
    """The request with selectors in place of words."""
    if all(is_selector(one.select) for one in spec.objects):
        return spec
    namer = open_namer(namer) if isinstance(namer, str) else namer
    world = main_frame(source, changed(spec, objects=(ObjectSpec(),), place=None), floor)
    chosen = (
        selector_of(one.select, source.scene, world, floor.carrying, namer) for one in spec.objects
    )
    objects = (changed(one, select=text) for one, text in zip(spec.objects, chosen, strict=True))
    return changed(spec, objects=tuple(objects))
