"""Selecting an object by a string: ``auto``, ``cluster:1``, ``box:...``, ``circle:...``."""

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...base.errors import InputError, argument, unknown_name
from ...scene.cameras import Camera
from ...scene.gaussians import BACKGROUND, GaussianScene
from ..floor.finding import FloorPlane
from ..scene_sample import SOLID_OPACITY, quantile
from .clusters import cluster, without_floaters
from .grouping import group_by_masks, select_box, select_circle, select_sphere
from .hierarchy import rows_of
from .parts import standing_apart

EXAMPLES = {
    "auto": "auto",
    "all": "all",
    "cluster": "cluster:0",
    "id": "id:3",
    "box": "box:-1,0,-1,1,2,1",
    "sphere": "sphere:0,0.5,0,1",
    "circle": "circle:256,256,80 or circle:256,256,80,2.5,4",
    "masks": "masks:folder/of/pngs",
    "grown": "grown:0.05:cluster:0",
    "shrunk": "shrunk:0.05:cluster:0",
}
LARGEST = 1 / 3  # of a capture: what is larger is not taken if there is something else
OFFERED = 2  # other things named beside the one that is taken
FLOATERS = 0.01  # of the Gaussians in a circle: so many may float in front of the object
PICTURES = (".png", ".jpg", ".jpeg", ".bmp")


class Selection(NamedTuple):
    """What was selected."""

    mask: Tensor
    """The object ``(N,)``."""
    ghosts: Tensor | None
    """Static copies of it that are better removed ``(N,)``; only ``circle`` finds them."""
    name: str
    """In words."""
    exact: bool = False
    """Whether the selection needs no completion: everything, or an object marked in the file."""


def select(
    scene: GaussianScene, spec: str, *, floor: FloorPlane, cameras: Sequence[Camera] | None = None
) -> Selection:
    """The Gaussians that ``spec`` names. All coordinates are the scene's.

    ==============================  ===========================================================
    ``auto``                        the most object-like cluster above the floor; in a capture
                                    of one object without a floor, all but floaters
    ``all``                         everything
    ``cluster:ID[+ID...]``          a cluster of :func:`cluster`, 0 is the best; or several as one
    ``cluster:ID^``                 the next larger whole: with what is close, then with the table
    ``cluster:ID/0``                its larger part; ``/1`` the smaller one, ``/1/0`` a part of it
    ``id:K[+K...]``                 object ``K`` of a file that has object ids; or several as one
    ``box:x0,y0,z0,x1,y1,z1``       means between two corners
    ``sphere:x,y,z,r``              means in a ball
    ``circle:u,v,r[,near,far]``     pixels of the first camera; without depths the nearest object
    ``masks:FOLDER``                one mask picture per camera, by number in their names
    ``grown:D:SELECTION``           with everything above the floor that is nearer to it than ``D``
    ``shrunk:D:SELECTION``          without what is nearer than ``D`` to anything else
    ==============================  ===========================================================
    """
    word, _, rest = spec.strip().partition(":")
    if not is_selector(spec):
        raise _no_selector(spec.strip(), word)
    if bool(rest) != (":" in EXAMPLES[word]):
        raise _malformed(word, spec)
    if not len(scene):
        raise InputError("nothing to select: the scene is empty")
    chosen = CHOOSERS[word](scene, rest, floor=floor, cameras=cameras)
    if word != "all":
        _check_above(scene, chosen, floor)
    return chosen


def is_selector(spec: str) -> bool:
    """Whether a text is meant as a selector; any other names a thing in words."""
    return spec.strip().partition(":")[0] in EXAMPLES


def _no_selector(spec: str, word: str) -> InputError:
    example = f"for example auto, cluster:0 or {EXAMPLES['box']}"
    namer = f"{argument('namer')} names a model of yours that knows things in words"
    if " " in spec:
        return InputError(f"cannot select {spec[:60]!r}; give a selector, {example}; or {namer}")
    return InputError(f"{unknown_name('selection', word, EXAMPLES)}; {example}; {namer}")


def _malformed(word: str, spec: str) -> InputError:
    return InputError(f"cannot read the selection {spec!r}; write it as {EXAMPLES[word]}")


def _numbers(word: str, text: str, *counts: int) -> list[float]:
    """Finite numbers separated by commas; ``counts`` are the allowed numbers of them."""
    try:
        values = [float(x) for x in text.split(",")]
    except ValueError:
        values = []
    if len(values) not in counts or not all(map(math.isfinite, values)):
        wanted = " or ".join(map(str, counts))
        raise InputError(
            f"{word}: expected {wanted} numbers separated by commas, got {text!r}; "
            f"for example {EXAMPLES[word]}"
        )
    return values


def _whole(word: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(
            f"{word}: expected a whole number, got {text!r}; for example {EXAMPLES[word]}"
        ) from None


def _auto(scene: GaussianScene, _: str, *, floor: FloorPlane, **unused: Any) -> Selection:
    if floor.kind == "virtual":
        mask = without_floaters(scene)
        larger = standing_apart(scene, mask, floor.up)
        if larger is not None:
            count = int(larger.sum())
            words = "the capture without what it leans on (--select all takes both)"
            return Selection(larger, None, f"{words}, {count:,} Gaussians")
        return Selection(mask, None, f"the whole capture, {int(mask.sum()):,} Gaussians")
    found = cluster(scene, floor)
    if not found:
        raise InputError(
            "no object stands on the floor; select it with a box, sphere or circle, or take all"
        )
    free = [c for c in found if c.count <= LARGEST * len(scene)]
    best = (free or found)[0]
    words = f"cluster {best.id} of {len(found)}"
    best_three = [f"cluster:{c.id}" for c in (free or found)[: 1 + OFFERED]]
    if not free and len(found) > 1:
        flags = ", ".join(f"--select {each}" for each in best_three)
        words = f"nothing smaller stands free; the best are {flags}; {words}"
    elif len(free) > 1:
        words += f" (or {' or '.join(best_three[1:])})"
    return Selection(best.mask, None, f"{words}, {best.count:,} Gaussians")


def _all(scene: GaussianScene, _: str, **unused: Any) -> Selection:
    everything = torch.ones(len(scene), dtype=torch.bool, device=scene.device)
    return Selection(everything, None, f"all {len(scene):,} Gaussians", True)


def _cluster(scene: GaussianScene, text: str, *, floor: FloorPlane, **unused: Any) -> Selection:
    found, mask = cluster(scene, floor), torch.zeros(len(scene), dtype=torch.bool)
    for name in text.split("+"):
        mask[rows_of(scene.to("cpu"), found, name).cpu()] = True
    mask = mask.to(scene.device)
    return Selection(mask, None, f"cluster {text}, {int(mask.sum()):,} Gaussians")


def _id(scene: GaussianScene, text: str, **unused: Any) -> Selection:
    numbers, known = _several("id", text), [i for i in scene.object_ids if i != BACKGROUND]
    for index in numbers:
        if index not in known:
            there = f"it has {known}" if known else "it has none; try auto or cluster:0"
            raise InputError(f"no object with id {index} in the scene; {there}")
    mask = torch.isin(scene.ids, scene.ids.new_tensor(numbers))
    return Selection(mask, None, f"object {text}", True)


def _several(word: str, text: str) -> list[int]:
    """Whole numbers separated by plus signs."""
    return [_whole(word, part) for part in text.split("+")]


def _grown(scene: GaussianScene, text: str, *, floor: FloorPlane, **others: Any) -> Selection:
    """A selection enlarged by its surroundings, without the floor."""
    reach, inner = _inner("grown", scene, text, floor=floor, **others)
    if floor.kind == "found":
        above = floor.heights(scene.means) > floor.thickness
    else:
        above = torch.ones_like(inner.mask)
    mask = inner.mask | _near(scene, above & ~inner.mask, inner.mask, reach)
    return Selection(mask, inner.ghosts, f"{inner.name}, grown by {reach:g}")


def _shrunk(scene: GaussianScene, text: str, **others: Any) -> Selection:
    """A selection reduced where it touches the rest."""
    reach, inner = _inner("shrunk", scene, text, **others)
    mask = inner.mask & ~_near(scene, inner.mask, ~inner.mask, reach)
    return Selection(mask, inner.ghosts, f"{inner.name}, shrunk by {reach:g}")


def _inner(word: str, scene: GaussianScene, text: str, **others: Any) -> tuple[float, Selection]:
    """The distance, and the selection to change."""
    far, _, spec = text.partition(":")
    (reach,) = _numbers(word, far, 1)
    if not reach > 0:
        raise InputError(f"{word}: expected a length above 0, got {reach:g}")
    return reach, select(scene, spec, **others)


def _near(scene: GaussianScene, which: Tensor, to: Tensor, reach: float) -> Tensor:
    """Those of ``which (N,)`` closer than ``reach`` to opaque Gaussians of ``to (N,)``."""
    from scipy.spatial import cKDTree

    goal = to & (scene.opacities >= SOLID_OPACITY)
    out = torch.zeros_like(which)
    if not goal.any() or not which.any():
        return out
    ends = scene.means[which if which.sum() < goal.sum() else goal]
    box = ends.amin(0) - reach, ends.amax(0) + reach
    inside = ((scene.means >= box[0]) & (scene.means <= box[1])).all(-1)
    rows, goal = (which & inside).nonzero().squeeze(-1), goal & inside
    if not len(rows) or not goal.any():
        return out
    tree = cKDTree(scene.means[goal].cpu().numpy())
    away, _ = tree.query(scene.means[rows].cpu().numpy(), distance_upper_bound=reach)
    out[rows[torch.from_numpy(away < reach).to(rows.device)]] = True
    return out


def _box(scene: GaussianScene, text: str, **unused: Any) -> Selection:
    x = _numbers("box", text, 6)
    return Selection(select_box(scene, x[:3], x[3:]), None, "a box")


def _sphere(scene: GaussianScene, text: str, **unused: Any) -> Selection:
    x = _numbers("sphere", text, 4)
    return Selection(select_sphere(scene, x[:3], x[3]), None, "a sphere")


def _circle(
    scene: GaussianScene, text: str, *, floor: FloorPlane, cameras: Sequence[Camera] | None
) -> Selection:
    """An image circle; ghosts are searched up to one object depth in front of and behind it."""
    x = _numbers("circle", text, 3, 5)
    camera = _cameras("circle", cameras)[0]
    near, far = x[3:] if len(x) == 5 else _nearest_depths(scene, floor, camera, x[:2], x[2])
    span = far - near
    found = select_circle(
        scene, camera, x[:2], x[2], depth=(near, far), ghost_depth=(near - span, far + span)
    )
    mask, ghosts = found
    if floor.kind == "found":
        stays = floor.heights(scene.means).abs() <= floor.thickness
        ghosts = ghosts & ~stays
        mask = mask & ~stays if len(x) == 3 else mask
    return Selection(mask, ghosts, f"a circle from depth {near:.3g} to {far:.3g}")


def _nearest_depths(
    scene: GaussianScene, floor: FloorPlane, camera: Camera, center: Sequence[float], radius: float
) -> tuple[float, float]:
    """Nearest and farthest depth of the nearest object in an image circle.

    Opaque Gaussians above the floor are followed away from the camera, up to a gap as wide as the
    circle is there.
    """
    pixels, z = camera.project(scene.means)
    away = torch.linalg.vector_norm(pixels - pixels.new_tensor(center), dim=-1)
    seen = (away <= radius) & (z > 0) & (scene.opacities >= SOLID_OPACITY)
    depths = z[seen & (floor.heights(scene.means) > floor.thickness)].sort().values
    if not len(depths):
        return 0.0, math.inf  # select_circle says how near it was
    depths = depths[int(FLOATERS * len(depths)) :]
    gaps = depths.diff() > radius * depths[:-1] / float(camera.K[0, 0])
    last = int(gaps.nonzero()[0]) if gaps.any() else len(depths) - 1
    return float(depths[0]), float(depths[last])


def _masks(
    scene: GaussianScene, text: str, *, cameras: Sequence[Camera] | None, **unused: Any
) -> Selection:
    views, folder = _cameras("masks", cameras), Path(text).expanduser()
    if not folder.is_dir():
        raise InputError(f"masks: {text} is not a folder; write it as {EXAMPLES['masks']}")
    found = (f for f in folder.iterdir() if f.suffix.lower() in PICTURES)
    files = sorted(found, key=lambda f: _natural(f.name))
    if len(files) != len(views):
        raise InputError(
            f"masks: expected one picture per camera in {text}, got {len(files)} pictures and "
            f"{len(views)} cameras"
        )
    pictures = [_picture(f, view) for f, view in zip(files, views, strict=True)]
    mask = group_by_masks(scene, pictures, views)
    return Selection(mask, None, f"{len(files)} masks")


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort key that puts ``2.png`` before ``10.png``, as cameras are numbered."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdigit() else (0, part) for part in parts]


def _picture(file: Path, camera: Camera) -> Tensor:
    """A mask picture ``(H, W)`` of bytes, the maximum over colour channels.

    Its size is checked before it is decoded: a small file may contain a huge picture.
    """
    try:
        from imageio import v3
        from PIL import Image
    except ImportError as error:
        raise InputError(
            "reading masks needs imageio; install it with: pip install 'newtongs[video]'"
        ) from error
    try:
        with Image.open(file) as header:
            size = header.size
        if size != (camera.width, camera.height):
            raise InputError(
                f"masks: {file.name} has {size[0]} x {size[1]} pixels, "
                f"its camera {camera.width} x {camera.height}"
            )
        x = torch.as_tensor(v3.imread(file, plugin="pillow").astype("float32"))
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"masks: {file.name} is not a picture that can be read") from error
    if x.dim() == 2:
        return x
    colours = x[..., :-1] if x.shape[-1] in (2, 4) else x  # without alpha
    return colours.amax(-1)


def _cameras(word: str, cameras: Sequence[Camera] | None) -> Sequence[Camera]:
    if not cameras:
        raise InputError(f"{word}: this selection needs a camera; give a cameras file")
    return cameras


def _check_above(scene: GaussianScene, chosen: Selection, floor: FloorPlane) -> None:
    """An object that lies below the floor cannot fall on it."""
    mask = chosen.mask
    if not mask.any():
        raise InputError(f"nothing selected by {chosen.name}; try a larger one, or auto")
    h = floor.heights(scene.means[mask])
    middle = float(quantile(h, scene.opacities[mask], 0.5))
    if middle < -floor.thickness:
        raise InputError(
            f"the object ({chosen.name}) lies {-middle:.3g} below the floor; select another one, "
            "or set the floor with --up and --floor"
        )


CHOOSERS: dict[str, Callable[..., Selection]] = {
    "auto": _auto, "all": _all, "cluster": _cluster, "id": _id, "box": _box, "sphere": _sphere,
    "circle": _circle, "masks": _masks, "grown": _grown, "shrunk": _shrunk,
}  # fmt: skip
