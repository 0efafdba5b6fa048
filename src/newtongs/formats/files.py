"""Read and write files of Gaussians: ``load(path)`` and ``save(scene, path)``.

============================  ====  =====  ========================================================
format                        read  write  remarks
============================  ====  =====  ========================================================
``.ply`` (INRIA, LGM, 2DGS)   yes   yes    exact: what was written reads back bit for bit
``.compressed.ply``           yes   yes    PlayCanvas, SuperSplat; needs ``newtongs[formats]``
``.spz``                      yes   yes    Niantic; needs ``newtongs[formats]``
``.sog``, SOG folder          yes   .sog   PlayCanvas, SuperSplat; needs ``newtongs[formats]``
``.splat``                    yes   yes    32 bytes per Gaussian, colour without direction
``.ksplat``                   yes          mkkellogg's viewer, all three levels of compression
``lod-meta.json``             yes          streamed SOG: one level of detail
``.glb``, ``.compressed.glb`` yes   yes    glTF with ``KHR_gaussian_splatting``, at rest
``.pt .npy .safetensors``     yes          LGM tensors ``(..., N, 14)``
============================  ====  =====  ========================================================

Scenes are returned in the axes of captures, right-down-front. SPZ is defined as right-up-back,
unless its coordinate extension says otherwise, glTF as left-up-front; both are converted. ``axes``
overrides this for files whose writer did not convert.

Values are float32. Gaussians with NaN or infinite values are dropped with one warning; infinite
logits (opacity 0 or 1) and a log scale of minus infinity (flat) are made finite.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from ..base.errors import InputError
from ..base.files import WRITABLE, existing_file, require_ending, silent, write_atomically
from ..base.types import Progress
from ..scene.gaussians import SCALE_FLOOR, GaussianScene, color_to_sh, opacity_to_logit
from . import glb, ksplat, lgm, lod, sog, splat_ply, spz
from .axes import OURS, to_ours
from .axes import checked as checked_axes
from .lgm import from_lgm, to_lgm
from .ply import is_ply, read_header
from .sanitize import usable

__all__ = ["READABLE", "WRITABLE", "axes_of", "from_lgm", "load", "save", "to_lgm"]

READABLE = (
    ".ply",
    ".compressed.ply",
    ".spz",
    ".sog",
    ".splat",
    ".ksplat",
    ".glb",
    "lod-meta.json",
    ".pt",
    ".npy",
    ".safetensors",
)

LFS = b"version https://git-lfs.github.com/spec/v1"  # first line of a pointer


class _Turned(NamedTuple):
    """A format with its own axes."""

    read: Callable[[Path, str | None], GaussianScene]
    axes: Callable[[Path], str]


TURNED = {
    "spz": _Turned(spz.read_spz, spz.spz_axes),
    "glb": _Turned(glb.read, glb.axes_of),
}
SPLAT_ROW = np.dtype(
    [("means", "<f4", 3), ("scales", "<f4", 3), ("rgba", "u1", 4), ("quats", "u1", 4)]
)


def load(
    path: Path | str,
    *,
    activated: bool | None = None,
    frame: int = 0,
    axes: str | None = None,
    level: int | None = None,
) -> GaussianScene:
    """The Gaussians of a file, whose format is detected by its content and its ending.

    Args:
        path: one of the formats above; for a SOG folder the folder or its ``meta.json``.
        activated: whether a .ply contains activated opacities, scales and colours, as written by
            LGM with ``compatible=False``; None detects such a file by its ranges and warns.
        frame: index of the frame in an LGM tensor ``(1, T, N, 14)``.
        axes: where the file's +x, +y and +z point, such as "RDF" or "RUB", if not as its format
            defines; see :mod:`newtongs.formats.axes`. The scene is returned in RDF.
        level: of detail in a streamed SOG; 0 is the finest. Default: the finest with at most 4
            million Gaussians.
    """
    path = existing_file(sog.entry(path), "a file of Gaussians")
    axes = None if axes is None else checked_axes(axes)
    kind = _kind(path)
    if level is not None and kind != "lod":
        raise InputError(f"level: only a {lod.NAME} has levels of detail, {path} has none")
    if kind in TURNED:
        return TURNED[kind].read(path, axes)
    scene = _read(path, kind, activated, frame, level)
    return scene if axes is None else to_ours(scene, axes)


def axes_of(path: Path | str) -> str:
    """The axes of a file as :func:`load` interprets it, such as "RDF"."""
    path = existing_file(sog.entry(path), "a file of Gaussians")
    kind = _kind(path)
    return TURNED[kind].axes(path) if kind in TURNED else OURS


def scene_name(path: Path | str) -> str:
    """What files made of a scene are called: its name without ending, or its folder's.

    The files of a SOG folder are all called alike, so the folder names it.
    """
    found = sog.entry(path)
    if found.name.lower() in (sog.META, sog.STREAMED):
        return Path(os.path.abspath(found)).parent.name or "scene"
    return found.stem.removesuffix(".compressed") or "scene"


def _read(
    path: Path, kind: str, activated: bool | None, frame: int, level: int | None
) -> GaussianScene:
    """Read the formats that have our axes."""
    if kind == "ply":
        header = read_header(path)
        if spz.is_compressed(header):
            return spz.read_ply(path, header)
        return splat_ply.read(path, header, activated=activated)
    if kind == "sog":
        return sog.read(path)
    if kind == "lod":
        return lod.read(path, level)
    if kind == "ksplat":
        return ksplat.read(path)
    if kind == "splat":
        return _read_splat(path)
    return lgm.read(path, kind, frame=frame)


def save(scene: GaussianScene, path: Path | str, *, progress: Progress = silent) -> None:
    """Write a scene in the format of the path's ending; the file appears whole or not at all.

    Only ``.ply`` is lossless. The other formats round and drop object ids; ``.splat`` also drops
    view-dependent colour, ``.sog`` and ``.compressed.glb`` change the order. ``progress`` is called
    as ``progress(what, done, of)``: millions of Gaussians take a minute.
    """
    path = Path(path)
    WRITERS[require_ending(path)].write(scene, path, progress)


def require_writer(path: Path | str) -> None:
    """Raise in advance if a file of this name cannot be written."""
    WRITERS[require_ending(Path(path))].needs()


def _write_compressed_glb(scene: GaussianScene, path: Path, tell: Progress) -> None:
    glb.write(scene, path, tell, compress=True)


def _kind(path: Path) -> str:
    """Format of a file by its first bytes, or by its ending if they are inconclusive."""
    with path.open("rb") as f:
        head = f.read(len(LFS))
    ending = path.suffix.lower()
    if not head:
        raise InputError(f"{path} is empty")
    if head == LFS:
        raise InputError(
            f"{path}: expected Gaussians, got a Git LFS pointer, which stands for a file that was "
            "not downloaded; fetch it with: git lfs pull"
        )
    if is_ply(head):
        return "ply"
    if ending in (".splat", ksplat.ENDING):  # begin with arbitrary numbers
        return ending[1:]
    if head[:2] == spz.GZIP or head[:4] == spz.NGSP:
        return "spz"
    if head[:4] == glb.MAGIC:
        return "glb"
    if path.name.lower() == lod.NAME:
        return "lod"
    if sog.is_sog(path, head):
        return "sog"
    if head[:6] == b"\x93NUMPY":
        return "npy"
    if ending in (".pt", ".pth") and head[:2] == b"PK":
        return "pt"
    if ending == ".safetensors" or head[8:10] == b'{"':
        return "safetensors"
    if ending in READABLE or ending == ".pth":
        raise InputError(f"{path} is not a {ending} file by its first bytes; it is damaged")
    raise InputError(f"cannot tell the format of {path}; readable: {', '.join(READABLE)}")


def _read_splat(path: Path) -> GaussianScene:
    """antimatter15's rows: position, scale, RGBA bytes, quaternion bytes ``128 q + 128``."""
    size = path.stat().st_size
    if size % SPLAT_ROW.itemsize:
        raise InputError(
            f"{path}: a .splat file has {SPLAT_ROW.itemsize} bytes per Gaussian, "
            f"but {size:,} bytes are not a multiple of that; it is cut off or another format"
        )
    rows = np.fromfile(path, SPLAT_ROW)
    rgba = torch.from_numpy(rows["rgba"] / np.float32(255))
    return usable(
        path,
        means=torch.from_numpy(rows["means"].astype(np.float32)),
        quats=torch.from_numpy((rows["quats"] - np.float32(128)) / np.float32(128)),
        log_scales=torch.from_numpy(rows["scales"].astype(np.float32)).clamp_min(SCALE_FLOOR).log(),
        logits=opacity_to_logit(rgba[:, 3]),
        sh=color_to_sh(rgba[:, :3]),
    )


def _write_splat(scene: GaussianScene, path: Path, tell: Progress) -> None:
    if not len(scene):
        raise InputError(f"{path}: this format cannot store an empty scene; write a .ply")
    rows = np.empty(len(scene), SPLAT_ROW)
    rgba = torch.cat([scene.colors, scene.opacities[:, None]], -1)
    rows["means"], rows["scales"] = (x.detach().cpu().numpy() for x in (scene.means, scene.scales))
    for name, x in (("rgba", 255 * rgba), ("quats", 128 * scene.quats + 128)):
        rows[name] = x.detach().round().clamp(0, 255).cpu().numpy()
    write_atomically(path, lambda f: f.write(rows.tobytes()))


class _Writer(NamedTuple):
    """The writer of a format."""

    write: Callable[[GaussianScene, Path, Progress], None]
    needs: Callable[[], object] = lambda: None
    """Raises if a package is missing."""


WRITERS = {
    ".compressed.ply": _Writer(spz.write_ply, spz.gsply),
    ".ply": _Writer(splat_ply.write),
    ".spz": _Writer(spz.write_spz, spz.gsply),
    ".sog": _Writer(sog.write, sog.pillow),
    ".splat": _Writer(_write_splat),
    ".compressed.glb": _Writer(_write_compressed_glb),
    ".glb": _Writer(glb.write),
}
