"""Select the moving objects, mark them 0, 1, ... and extract them from the scene."""

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from typing import Literal

import torch
from torch import Tensor

from ..base.errors import InputError, argument
from ..base.state import State
from ..base.types import Vec3
from ..scene.cameras import Camera
from ..scene.frames import ALWAYS, FIRST, LATER
from ..scene.gaussians import BACKGROUND, GaussianScene, join
from ..scene.lifting import lift
from ..scene.world_frame import WorldFrame
from ..segment.cutout.cache import Memory
from ..segment.cutout.extraction import Extraction
from ..segment.floor.finding import FloorPlane, plane_axes
from ..segment.metres import metres_per_unit, width
from ..segment.objects.clusters import cluster
from ..segment.objects.grouping import assign, remove
from ..segment.objects.selection import Selection, select
from ..segment.scene_sample import SMEARED
from .source import Source, on_cpu
from .spec import FloorOrigin, SceneSpec, UnitOrigin

NEARLY_ALL = 0.9  # fraction of a capture from which a selected object is the whole capture
MOST_LOOSE = 100  # most objects that are made loose at once
SAME = 0.5  # intersection over union above which two selections are the same object
OVERLAP = 0.1  # largest fraction that two different objects may share
FLAT_PATCH = 0.4  # height over width below which a cluster is a patch of the ground
NEW = -1  # row of a Gaussian that is not in the capture


@dataclass(frozen=True, eq=False)
class Layout:
    """A scene with its moving objects marked 0, 1, ..., its floor and its physics frame."""

    scene: GaussianScene
    """The capture first, then the Gaussians that appear from frame 1 on."""
    rows: Tensor
    """Row of each Gaussian in the capture ``(N,)``; -1 if it is new."""
    pushed: int
    """Number of pushed objects; the remaining ones are loose."""
    frame: WorldFrame
    floor: FloorPlane
    floor_origin: FloorOrigin
    endless: bool = False
    """Whether the floor extends beyond its visible part without limit."""
    moved: bool = False
    """Whether the objects were placed in another scene."""
    reference: float | None = None
    """Lifted scale of the scene's main object, scene units; None if that is object 0."""
    metres: float | None = None
    """Metres per scene unit, if a room tells them."""
    width: float | None = None
    """Of the scene, in its units; None if that is of no use."""
    unit_origin: UnitOrigin = UnitOrigin.OBJECT
    names: tuple[str, ...] = ()
    """How each object was selected."""
    ghosts: int = 0
    """Number of Gaussians removed: floaters and copies of an object."""
    presence: Tensor | None = None
    """When each Gaussian is visible ``(N,)``, see :class:`newtongs.scene.Animation`; None means
    always."""
    owners: Tensor | None = None
    """Object whose extraction adds or hides the Gaussian ``(N,)``; -1 for all others."""

    @property
    def ever_after(self) -> Tensor:
        """Mask ``(N,)`` of the Gaussians visible from frame 1 on."""
        if self.presence is None:
            return torch.ones(len(self.scene), dtype=torch.bool)
        return self.presence != FIRST

    @property
    def static(self) -> Tensor:
        """Mask ``(N,)`` of the Gaussians that never move, from frame 1 on."""
        return self.ever_after & (self.scene.ids == BACKGROUND)

    @property
    def indices(self) -> range:
        """Ids of all objects."""
        return range(len(self.names))

    @property
    def alone(self) -> bool:
        """Whether only the objects are visible."""
        return bool((self.scene.ids[self.ever_after] != BACKGROUND).all())

    def kept(self, mask: Tensor) -> "Layout":
        """Keep only the Gaussians of a mask ``(N,)``."""

        def part(x: Tensor | None) -> Tensor | None:
            return None if x is None else x[mask]

        scene = self.scene if mask.all() else self.scene[mask]
        return changed(
            self, scene=scene, rows=self.rows[mask], presence=part(self.presence),
            owners=part(self.owners),
        )  # fmt: skip


def pick(
    source: Source, spec: SceneSpec, floor: FloorPlane, memory: Memory | None = None,
    *, plain: bool = False,
) -> Layout:  # fmt: skip
    """Mark the objects 0, 1, ... and extract them from the scene.

    With ``spec.complete`` each selection is completed, separated from its support, and the hole it
    leaves there is repaired; all of this is visible from frame 1 on. ``memory`` caches extractions.
    A ``plain`` layout has no view-dependent colour, to save memory.
    """
    given = on_cpu(source.scene)
    metres, wide = measured(source, spec, floor)  # before a large scene is there twice
    frame, carrying = WorldFrame.of_floor(floor.up, floor.height), floor.carrying
    loose = spec.loose if isinstance(spec.loose, tuple) else ()
    selectors = (*(one.select for one in spec.objects), *loose)
    chosen = [_select(given, carrying, text, i, spec.cameras) for i, text in enumerate(selectors)]
    chosen = _disjoint(chosen, selectors)
    on_carrying = WorldFrame.of_floor(carrying.up, carrying.height)
    points = on_carrying.to_physics(given.means) if spec.complete else None
    memory = memory or Memory()
    extracted = _extract(given, carrying, chosen, [], points, memory)
    if spec.loose is True:
        more = _find_loose(given, carrying, extracted)
        chosen += more
        extracted += _extract(given, carrying, more, extracted, points, memory)
    origin = FloorOrigin.KNOWN if source.ours and spec.up is None else FloorOrigin.FOUND
    if plain:
        given = given.plain
        extracted = [each._replace(own=each.own.plain, fill=each.fill.plain) for each in extracted]
    layout = Layout(
        given, torch.arange(len(given)), len(spec.objects), frame, floor, origin,
        names=tuple(c.name for c in chosen),
        ghosts=int(_union(extracted, "floaters").sum()) if extracted else 0,
    )  # fmt: skip
    if not spec.backs:
        extracted = [one._replace(backs=None) for one in extracted]
    layout = _assembled(layout, extracted) if spec.complete else _marked(layout, extracted)
    reference = _reference(layout, given, chosen[: len(selectors)], selectors, points, memory)
    return changed(layout, reference=reference, metres=metres, width=wide)


def measured(
    source: Source, spec: SceneSpec, floor: FloorPlane
) -> tuple[float | None, float | None]:
    """Metres per unit and width of a capture; None where the unit is known or not the capture's."""
    known = spec.meters_per_unit is not None or spec.physics.literal
    if source.ours or known or spec.place is not None:
        return None, None
    return metres_per_unit(source.scene, floor), width(source.scene)


def _select(
    given: GaussianScene,
    floor: FloorPlane,
    selector: str,
    index: int,
    cameras: Sequence[Camera] | None,
) -> Selection:
    """Select one object; "auto" prefers the objects that the file itself marks."""
    marks = [i for i in given.object_ids if i != BACKGROUND]
    own = marks[min(index, len(marks) - 1)] if marks else None
    asked = f"id:{own}" if selector == "auto" and own is not None else selector
    chosen = select(given, asked, floor=floor, cameras=cameras)
    lone = selector.partition(":")[0] in ("auto", "cluster")
    if lone and floor.kind == "virtual" and chosen.mask.float().mean() > NEARLY_ALL:
        # The capture of a single object: the Gaussians left out would stay behind as a ghost.
        return chosen._replace(mask=torch.ones_like(chosen.mask))
    return chosen


def _reference(
    layout: Layout, given: GaussianScene, chosen: Sequence[Selection], selectors: Sequence[str],
    points: Vec3 | None, memory: Memory,
) -> float | None:  # fmt: skip
    """Size of the scene's main object, which sets the unit, whichever objects are pushed."""
    if not selectors or selectors[0] == "auto":
        return None
    main = main_object(given, layout.floor.carrying)
    if main is None:
        return None
    for index, one in enumerate(chosen):
        if int((one.mask & main.mask).sum()) > SAME * int((one.mask | main.mask).sum()):
            return lifted_scale(layout.scene.plain.object(index))
    (whole,) = _extract(given, layout.floor.carrying, [main], [], points, memory)
    return lifted_scale(join(given.plain[whole.mask], *(x.plain for x in _new_parts(whole))))


def main_object(scene: GaussianScene, floor: FloorPlane) -> Selection | None:
    """The object that "auto" selects; None if there is none."""
    try:
        return _select(scene, floor, "auto", 0, None)
    except InputError:
        return None


def lifted_scale(gaussians: GaussianScene) -> float:
    """Mean of an object's lifted scale ``s``, scene units."""
    return State(lift(gaussians)).s.mean().item()


def _disjoint(chosen: Sequence[Selection], selectors: Sequence[str]) -> list[Selection]:
    """Assign Gaussians that neighbours share, such as the ground between them, to the first one."""
    out: list[Selection] = []
    for index, (one, selector) in enumerate(zip(chosen, selectors, strict=True)):
        if any(overlap(one.mask, other.mask) for other in out):
            raise InputError(
                f"object {index} ({selector}) overlaps an object selected before it; select each "
                "object once"
            )
        for other in out:
            one = one._replace(mask=one.mask & ~other.mask)
        out.append(one)
    return out


def overlap(one: Tensor, other: Tensor) -> bool:
    """Whether two selections ``(N,)`` share too many Gaussians to be two different objects."""
    shared = int((one & other).sum())
    return shared > OVERLAP * min(int(one.sum()), int(other.sum()))


def _extract(
    given: GaussianScene,
    floor: FloorPlane,
    chosen: Sequence[Selection],
    before: Sequence[Extraction],
    points: Vec3 | None,
    memory: Memory,
) -> list[Extraction]:
    """Extract each selection; unchanged if the file itself marks it, or without ``points``.

    Gaussians claimed by one object are not available to later ones.
    """
    out: list[Extraction] = []
    others = None if points is None or all(one.exact for one in chosen) else _Others(given, floor)
    claimed = torch.zeros(len(given), dtype=torch.int16)  # by how many objects
    for mask in [each.mask for each in before] + [each.mask for each in chosen]:
        claimed += mask
    for index, one in enumerate(chosen):
        claimed[one.mask] -= 1
        if one.exact or points is None or others is None:
            out.append(_unchanged(given, one))
            claimed += one.mask
            continue
        taken = (claimed > 0) | others.around(one.mask)
        found = memory.take_out(
            given, one.mask & ~taken, floor, taken=taken, points=points, object=len(before) + index
        )
        out.append(_with_ghosts(found, one.ghosts))
        claimed += found.mask
    return out


class _Others:
    """The clusters of a room, which an extraction spares if they are other things."""

    def __init__(self, given: GaussianScene, floor: FloorPlane) -> None:
        self.widths = given.scales.median(-1).values
        found = cluster(given, floor) if floor.kind == "found" else []
        self.each = [(one.rows, float(self.widths[one.rows].median())) for one in found]

    def around(self, mask: Tensor) -> Tensor:
        """Mask ``(N,)`` of the clusters of which a selection has hardly any part.

        Fewer and much wider Gaussians than its own are a smear behind it and no thing.
        """
        out, count = torch.zeros_like(mask), int(mask.sum())
        widest = SMEARED * float(self.widths[mask].median()) if count else 0.0
        for rows, wide in self.each:
            smear = len(rows) < count and wide > widest
            if not smear and int(mask[rows].sum()) <= OVERLAP * min(len(rows), count):
                out[rows] = True
        return out & ~mask


def _unchanged(given: GaussianScene, one: Selection) -> Extraction:
    """A selection and its ghosts as an extraction that cuts and adds nothing."""
    nothing = torch.zeros_like(one.mask)
    plain = Extraction(one.mask, nothing, given[:0], given[:0], nothing)
    return _with_ghosts(plain, one.ghosts)


def _with_ghosts(found: Extraction, ghosts: Tensor | None) -> Extraction:
    """The extraction, also hiding copies of the object."""
    if ghosts is None:
        return found
    ghosts = ghosts & ~found.mask
    return found._replace(hidden=found.hidden | ghosts, floaters=found.floaters | ghosts)


def _union(
    extracted: Sequence[Extraction], name: Literal["mask", "floaters"], like: Tensor | None = None
) -> Tensor:
    """Union of the masks of several objects ``(N,)``; floaters exclude all objects."""
    out = torch.zeros_like(extracted[0].mask if like is None else like)
    for one in extracted:
        out |= getattr(one, name)
    if name == "floaters":
        for one in extracted:
            out &= ~one.mask
    return out


def _marked(layout: Layout, extracted: Sequence[Extraction]) -> Layout:
    """The scene with the objects as ids 0, 1, ... and without ghosts."""
    marked = layout.scene.replace(ids=torch.full_like(layout.scene.ids, BACKGROUND))
    for index, one in enumerate(extracted):
        marked = assign(marked, one.mask, index)
    if not layout.ghosts:
        return changed(layout, scene=marked)
    ghosts = _union(extracted, "floaters")
    return changed(layout, scene=remove(marked, ghosts), rows=layout.rows[~ghosts])


def _assembled(layout: Layout, extracted: Sequence[Extraction]) -> Layout:
    """The capture with the objects as ids 0, 1, ..., then the Gaussians that appear later."""
    n, given = len(layout.scene), layout.scene
    ids = torch.full_like(given.ids, BACKGROUND)
    presence, owners = torch.full((n,), ALWAYS, dtype=torch.uint8), torch.full((n,), BACKGROUND)
    for index, one in enumerate(extracted):
        ids[one.mask] = index
        presence[one.hidden] = FIRST
        owners[one.hidden & (owners == BACKGROUND)] = index  # the first object wins: a pushed one
    presence[ids != BACKGROUND] = ALWAYS  # a ghost of one object may be another object
    owners[presence == ALWAYS] = BACKGROUND
    marked = given.replace(ids=ids)
    added = [[*_new_parts(one), one.fill] for one in extracted]
    new = [part for parts in added for part in parts]
    count = sum(map(len, new))
    if not count and not (presence == FIRST).any():
        return changed(layout, scene=marked)
    by = [torch.full((sum(map(len, parts)),), i) for i, parts in enumerate(added)]
    return changed(
        layout, scene=join(marked, *new) if count else marked, owners=torch.cat([owners, *by]),
        rows=torch.cat([layout.rows, torch.full((count,), NEW)]),
        presence=torch.cat([presence, torch.full((count,), LATER, dtype=torch.uint8)]),
    )  # fmt: skip


def _new_parts(one: Extraction) -> list[GaussianScene]:
    """The new Gaussians of an object itself."""
    return [one.own] if one.backs is None else [one.own, one.backs]


def restored(layout: Layout, unmoved: Sequence[int]) -> Layout:
    """Undo the repairs around ``unmoved`` objects, so that they look as captured."""
    if layout.presence is None or layout.owners is None or not len(unmoved):
        return layout
    undone = torch.isin(layout.owners, torch.tensor(list(unmoved)))
    kept = ~(undone & (layout.presence == LATER))
    presence = layout.presence.masked_fill(undone, ALWAYS)
    owners = layout.owners.masked_fill(undone, BACKGROUND)
    out = changed(layout, presence=presence, owners=owners).kept(kept)
    always = bool((presence[kept] == ALWAYS).all())
    return changed(out, presence=None, owners=None) if always else out


def seen_later(layout: Layout) -> Layout:
    """Show the repaired scene from frame 0 on."""
    if layout.presence is None:
        return layout
    return changed(layout.kept(layout.ever_after), presence=None, owners=None)


def _find_loose(
    given: GaussianScene, floor: FloorPlane, extracted: Sequence[Extraction]
) -> list[Selection]:
    """Find all other objects."""
    marks = [i for i in given.object_ids if i != BACKGROUND]
    if marks:
        found = [(given.ids == i, f"object {i} of the file") for i in marks]
    else:
        upright = [c for c in cluster(given, floor) if _stands_up(given.means[c.rows], floor)]
        found = [(c.mask, f"cluster {c.id}, {c.count:,} Gaussians") for c in upright]
    out: list[Selection] = []
    taken = _union(extracted, "mask")
    for mask, name in found:
        free = mask & ~taken
        if int(free.sum()) < (1 - OVERLAP) * int(mask.sum()) or len(out) >= MOST_LOOSE:
            continue
        out.append(Selection(free, None, name, exact=bool(marks)))
        taken = taken | free
    if not out:
        raise InputError(
            "found no other upright object to make loose; leave "
            f"{argument('loose')} out, or name objects with {argument('objects')}"
        )
    return out


def _stands_up(means: Vec3, floor: FloorPlane) -> bool:
    """Whether a cluster is more than a patch of ground such as grass, a stain or a fold."""
    sideways = means @ plane_axes(floor.up).to(means)
    width = (sideways.amax(0) - sideways.amin(0)).min()
    height = floor.heights(means)
    return bool(height.amax() - height.amin() >= FLAT_PATCH * width)
