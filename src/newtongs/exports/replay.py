"""An animation as ``.json`` and ``.npz``: an exact replay, easy to read for other tools.

``NAME.json`` describes it, refers to the scene and says how the animation was made. ``NAME.npz``
beside it contains the numbers::

    times (T,)    ids (N,)    states_7 (T, 22)    A_7 (T, 3, 3)    b_7 (T, 3)

for an object 7, whose means ``g`` move to ``A_t g + b_t``; and ``presence (N,)`` if some Gaussians
are not always visible. The scene is either a reference to the file it was read from, if that file
reproduces it bit for bit, or ``NAME_scene.ply`` beside the others. Files are checked by size and
SHA-256.
"""

import hashlib
import io
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .. import __version__
from ..base.errors import InputError
from ..base.files import (
    afford,
    array_headers,
    existing_file,
    is_numbers,
    read_json,
    write_atomically,
)
from ..base.state import DIM, LAYOUT, State
from ..formats.axes import OURS
from ..formats.files import axes_of, load, save
from ..scene.animation import About, Animation
from ..scene.frames import ALWAYS, FIRST, LATER
from ..scene.gaussians import GaussianScene
from ..scene.shadows import ShadowName
from ..scene.transform import Form
from ..scene.world_frame import WorldFrame
from .parts import provenance, to_json

FORMAT, VERSION = "newtongs animation", 4
# 1 had a free-form "info" instead of "about", 2 no "affine", 3 no "presence" and no "shadow".
READABLE = (1, 2, 3, 4)
MOST_FRAMES = 600_001  # ten minutes at 1000 per second
STATES_BYTES = 256 << 20  # always allowed: states at rest compress to a thousandth
FIELDS = ("means", "quats", "log_scales", "logits", "sh")
BLOCK = 2**20

Arrays = dict[str, npt.NDArray[Any]]


def save_animation(
    animation: Animation,
    path: Path | str,
    *,
    source: Path | str | None = None,
    beside: Mapping[str, Any] | None = None,
) -> None:
    """Write ``path`` (``.json``), the ``.npz`` and, if necessary, ``_scene.ply`` beside it.

    Args:
        animation: what moves.
        path: the ``.json`` file.
        source: file the scene was read from, referred to if it reproduces the scene bit for bit
            (except object ids); otherwise the scene is written as ``.ply``.
        beside: further keys for the ``.json``, which :func:`load_animation` ignores.
    """
    path = _json_path(path)
    if animation.scene.means.dtype != torch.float32:
        raise InputError("an animation's scene must be float32 to be saved without loss")
    scene = _scene_entry(animation.scene, path, source)
    arrays = _arrays(animation)
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)  # type: ignore[arg-type]  # its stub is wrong about the keys
    numbers = path.with_suffix(".npz")
    write_atomically(numbers, lambda f: f.write(packed.getbuffer()))
    tree = _tree(animation, scene, _entry(numbers, path)) | dict(beside or {})
    text = to_json(tree, indent=1)
    write_atomically(
        path, lambda f: f.write(text.encode() + b"\n")
    )  # last: it has the digests of the rest


def _json_path(path: Path | str) -> Path:
    path = Path(path)
    if path.suffix.lower() != ".json":
        raise InputError(f"cannot write {path}: the name must end in .json")
    return path


def _tree(animation: Animation, scene: dict[str, Any], numbers: dict[str, Any]) -> dict[str, Any]:
    world = animation.world
    return {
        "format": FORMAT,
        "version": _oldest_version(animation),
        **provenance(animation),
        "seconds": float(animation.times[-1] - animation.times[0]),
        "scene": scene,
        "affine": animation.form,
        "shadow": animation.shadow,
        "numbers": numbers,
        "world": {
            "rotation": world.rotation.tolist(),
            "scale": world.scale,
            "offset": world.offset.tolist(),
        },
        "objects": [_object_entry(animation, index) for index in animation.states],
    }


def _oldest_version(animation: Animation) -> int:
    """The oldest sufficient version, so that older readers can read as much as possible."""
    if animation.presence is not None or animation.shadow != "none":
        return VERSION
    return 3 if animation.form != "main" else 2


def _object_entry(animation: Animation, index: int) -> dict[str, Any]:
    """For human readers; the actual numbers are in the .npz."""
    first = State(animation.states[index][0].double())
    return {
        "id": index,
        "gaussians": int((animation.scene.ids == index).sum()),
        "initial_state": {name: getattr(first, name).tolist() for name in LAYOUT},
    }


def _arrays(animation: Animation) -> Arrays:
    out = {"times": animation.times, "ids": animation.scene.ids}
    if animation.presence is not None:
        out["presence"] = animation.presence
    for index, z in animation.states.items():
        A, b = animation.affines(index)
        out |= {f"states_{index}": z, f"A_{index}": A, f"b_{index}": b}
    return {name: x.detach().cpu().numpy() for name, x in out.items()}


def _scene_entry(scene: GaussianScene, path: Path, source: Path | str | None) -> dict[str, Any]:
    """Reference to the file of the Gaussians, which is written if there is none yet."""
    # A SOG folder or meta.json is more than one file, which one digest does not cover.
    whole = (
        source is not None
        and Path(source).is_file()
        and not Path(source).name.endswith("meta.json")
    )
    if source is not None and whole and _same(load(source), scene):
        where = Path(source)
    else:
        # Not NAME.ply: that may be the original capture.
        where = path.with_name(f"{path.stem}_scene.ply")
        save(scene, where)
    return _entry(where, path) | {"gaussians": len(scene), "axes": axes_of(where)}


def _same(a: GaussianScene, b: GaussianScene) -> bool:
    """Equal bit for bit, except object ids."""
    b = b.to("cpu")
    return all(torch.equal(getattr(a, name), getattr(b, name)) for name in FIELDS)


def _entry(file: Path, beside: Path) -> dict[str, Any]:
    """A file as path relative to the .json, size and digest."""
    relative = os.path.relpath(file.resolve(), beside.resolve().parent)
    return {
        "path": Path(relative).as_posix(),
        "bytes": file.stat().st_size,
        "sha256": _sha256(file),
    }


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as f:
        while block := f.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def load_animation(path: Path | str) -> Animation:
    """Read an animation that :func:`save_animation` wrote, with identical frames."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no file {path}; name a .json that newtongs animate wrote")
    tree = _read_tree(path)
    try:
        numbers = _checked_file(path, tree["numbers"])
        # Old animations without named axes were made in the axes of their files.
        axes = tree["scene"].get("axes", OURS)
        scene = load(_checked_file(path, tree["scene"]), axes=axes)
        return _animation(tree, _read_arrays(numbers, tree["objects"], len(scene)), scene)
    except InputError:
        raise
    except Exception as error:  # several libraries with different errors
        raise InputError(f"{path} is damaged or was changed by hand; animate again") from error


def _read_tree(path: Path) -> dict[str, Any]:
    tree = read_json(path)
    if not isinstance(tree, dict) or tree.get("format") != FORMAT:
        raise InputError(f"{path} is not a saved animation; expected a .json from `animate`")
    if tree.get("version") not in READABLE:
        raise InputError(
            f"{path} has version {tree.get('version')} of the format, newtongs {__version__} reads "
            f"up to version {VERSION}; use the newtongs that wrote it, or a newer one"
        )
    return tree


def _checked_file(json_path: Path, entry: dict[str, Any]) -> Path:
    """A file referred to by the .json, checked to be unchanged."""
    where = json_path.parent / entry["path"]
    if not where.is_file():
        raise InputError(f"{json_path} needs {where}, which is missing; restore it or move both")
    existing_file(where, "the file that newtongs animate wrote")
    if where.stat().st_size != entry["bytes"] or _sha256(where) != entry["sha256"]:
        raise InputError(
            f"{where} has changed since {json_path} was written; restore it or animate again"
        )
    return where


def _read_arrays(path: Path, objects: list[dict[str, Any]], n: int) -> Arrays:
    """The required arrays, after a check of their headers.

    The matrices follow from the states; anything else in the file is ignored.
    """
    numbers = {k: h for k, h in array_headers(path).items() if is_numbers(h)}
    shapes = {name: shape for name, (shape, _) in numbers.items()}
    (frames,) = shapes["times"]
    states = [f"states_{o['id']}" for o in objects]
    wanted = {"times": (frames,), "ids": (n,), **dict.fromkeys(states, (frames, DIM))}
    wanted |= {"presence": (n,)} if "presence" in shapes else {}
    if frames > MOST_FRAMES:
        raise InputError(f"{path}: expected at most {MOST_FRAMES:,} frames, got {frames:,}")
    for name, shape in wanted.items():
        if shapes[name] != shape:
            raise InputError(f"{path}: expected {name} of shape {shape}, got {shapes[name]}")
    needed = 8 * frames * DIM * len(states)
    afford(path, needed, path.stat().st_size, f"{len(states):,} objects' states", STATES_BYTES)
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in wanted}


def _animation(tree: dict[str, Any], arrays: Arrays, scene: GaussianScene) -> Animation:
    return Animation(
        scene=scene.replace(ids=torch.from_numpy(arrays["ids"])),
        times=_floats(arrays["times"]),
        states={o["id"]: _floats(arrays[f"states_{o['id']}"]) for o in tree["objects"]},
        world=_world(tree["world"]),
        about=About.from_json(tree.get("about", {})),
        form=cast(Form, _one_of("affine", tree.get("affine", "main"), get_args(Form))),
        shadow=cast(
            ShadowName, _one_of("shadow", tree.get("shadow", "none"), get_args(ShadowName))
        ),
        presence=_presence(arrays, len(scene)),
    )


def _world(tree: dict[str, Any]) -> WorldFrame:
    q, offset = (torch.tensor(tree[k], dtype=torch.float64) for k in ("rotation", "offset"))
    scale = float(tree["scale"])
    good = q.shape == (4,) and offset.shape == (3,) and bool(torch.isfinite(offset).all())
    if not (good and abs(float(q.norm()) - 1) < 1e-3 and 0 < scale < math.inf):
        raise InputError(f"its world is not a rotation, scale and offset: {tree!s:.80}")
    return WorldFrame(q, scale, offset)


def _presence(arrays: Arrays, n: int) -> Tensor | None:
    x = arrays.get("presence")
    if x is None:
        return None
    if x.shape != (n,) or not np.isin(x, (ALWAYS, FIRST, LATER)).all():
        raise InputError(f"its presence should be 0, 1 or 2 for each of {n} Gaussians")
    return torch.from_numpy(x.astype(np.uint8))


def _one_of(what: str, name: object, known: tuple[str, ...]) -> object:
    if name not in known:
        raise InputError(f"its {what} is {name!r}, expected one of {', '.join(known)}")
    return name


def _floats(x: npt.NDArray[Any]) -> Tensor:
    if x.dtype not in (np.float32, np.float64):
        raise InputError(f"its numbers should be floats, they are {x.dtype}")
    return torch.from_numpy(x)
