"""Write a SOG bundle, version 2: lossless WebP planes and ``meta.json`` in a zip.

The layout is described in :mod:`newtongs.scene.io.sog`. Gaussians are stored along a curve that
fills space (Morton's), so that neighbours in a plane are neighbours in the scene and pack well; the
order of the scene is not kept.
"""

import io
import json
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from ...errors import InputError
from ...files import Progress, silent, write_atomically
from ..gaussians import GaussianScene
from .codebooks import codebook, nearest_code, palette, size_codebook
from .sog import KEPT, META, PALETTE_LIMIT, PALETTE_ROW, TAG, pillow

METHOD, EFFORT = 4, 75  # of the packer: slower ones gain about 1 %
MOST = 16_383**2  # pixels of a WebP
SHIFTS = (32, 16, 8, 4, 2)  # that spread 21 bits to every third place, and what is kept after each
MASKS = (
    0x1FFFFF, 0x1F00000000FFFF, 0x1F0000FF0000FF, 0x100F00F00F00F00F, 0x10C30C30C30C30C3,
    0x1249249249249249,
)  # fmt: skip
FEWEST = 1024  # entries of a palette; doubled while there are as many Gaussians
DATE = (1980, 1, 1, 0, 0, 0)  # the same scene makes the same file

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


def write(scene: GaussianScene, path: Path, tell: Progress = silent) -> None:
    """A ``.sog``, some 15 to 20 bytes a Gaussian; object ids are not kept."""
    pillow()
    fields, order = _checked(scene, path)
    files = _files(fields, tell)
    if scene.sh_degree:
        _add_harmonics(scene.sh.cpu().flatten(1)[:, 3:], order, files, tell)
    write_atomically(path, lambda f: f.write(_bundle(files)))


def morton_order(means: Floats) -> npt.NDArray[np.intp]:
    """Indices ``(n,)`` of points ``(n, 3)`` along the curve, from 21 bits an axis."""
    low, high = means.min(0).astype(np.float64), means.max(0).astype(np.float64)
    unit = (means - low) / np.maximum(high - low, 1e-30)
    x = (unit * ((1 << 21) - 1)).astype(np.uint64)
    return np.argsort(every_third(x) @ np.array([1, 2, 4], np.uint64), kind="stable")


def every_third(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The 21 bits of each number, spread to every third place."""
    for shift, mask in zip(SHIFTS, MASKS[1:], strict=True):
        x = (x | x << np.uint64(shift)) & np.uint64(mask)
    return x


def thirds(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The inverse: every third bit of each number, put together."""
    x = x & np.uint64(MASKS[-1])
    for shift, mask in zip(SHIFTS[::-1], MASKS[-2::-1], strict=True):
        x = (x | x >> np.uint64(shift)) & np.uint64(mask)
    return x


def _checked(scene: GaussianScene, path: Path) -> tuple[dict[str, Any], npt.NDArray[np.intp]]:
    """The fields as arrays in the order of the file, of the colour the constant part; that order.

    View-dependent colour is most of a scene, and is not copied.
    """
    if not 0 < len(scene) <= MOST:
        raise InputError(f"{path}: a .sog cannot hold {len(scene):,} Gaussians; write a .ply")
    fields = {k: np.asarray(x) for k, x in scene.numpy().items() if k != "ids"}
    for name, x in fields.items():
        if not np.isfinite(x.sum(dtype=np.float64)):  # a sum is finite when every term is
            raise InputError(f"{path}: {name} hold numbers that are not finite; write a .ply")
    order = morton_order(fields["means"])
    fields["sh"] = fields["sh"][:, 0]
    return {k: x[order].astype(np.float32, copy=False) for k, x in fields.items()}, order


def _files(x: dict[str, Any], tell: Progress) -> dict[str, bytes]:
    """Content by name, the description first, without view-dependent colour."""
    n = len(x["means"])
    means, low, high = _means(x["means"])
    scales, colors = size_codebook(x["log_scales"]), codebook(x["sh"])
    opacity = np.round(255 / (1 + np.exp(-x["logits"].astype(np.float64))))[:, None]
    planes = {
        "means_l.webp": means & 255,
        "means_u.webp": means >> 8,
        "quats.webp": _quats(x["quats"]),
        "scales.webp": nearest_code(x["log_scales"], scales),
        "sh0.webp": np.hstack([nearest_code(x["sh"], colors), opacity.astype(np.uint8)]),
    }
    meta: dict[str, Any] = {
        "version": 2,
        "asset": {"generator": "newtongs"},
        "count": n,
        "means": {"mins": low, "maxs": high, "files": ["means_l.webp", "means_u.webp"]},
        "scales": {"codebook": scales.tolist(), "files": ["scales.webp"]},
        "quats": {"files": ["quats.webp"]},
        "sh0": {"codebook": colors.tolist(), "files": ["sh0.webp"]},
    }
    files = {META: json.dumps(meta).encode()}
    for name, plane in planes.items():
        files[name] = _plane(plane)
        tell("packing", len(files) - 1, len(planes))
    return files


def _means(means: Floats) -> tuple[npt.NDArray[np.uint16], list[float], list[float]]:
    """16 bits an axis of ``sign(x) log(1 + |x|)``, and the ends they lie between."""
    x = means.astype(np.float64)
    x = np.sign(x) * np.log1p(np.abs(x))
    low, high = x.min(0), x.max(0)
    steps = np.round((x - low) / np.maximum(high - low, 1e-30) * 65535)
    return steps.astype(np.uint16), low.tolist(), high.tolist()


def _quats(quats: Floats) -> Bytes:
    """Three components, and in alpha which one is left out: the largest, made positive."""
    largest = np.abs(quats).argmax(1)
    rows = np.arange(len(quats))
    q = quats * np.where(quats[rows, largest] < 0, -1, 1)[:, None]
    small = q[rows[:, None], np.array(KEPT)[largest]]
    codes = np.round(255 * (small / 2**0.5 + 0.5)).clip(0, 255)
    return np.hstack([codes, TAG + largest[:, None]]).astype(np.uint8)


def _add_harmonics(
    rest: Tensor, order: npt.NDArray[np.intp], files: dict[str, bytes], tell: Progress
) -> None:
    """The palette of view-dependent colour ``(n, 3 K)``, and a label a Gaussian in that order."""
    n, k = len(rest), rest.shape[1] // 3
    entries = min(PALETTE_LIMIT, FEWEST << max(0, n // FEWEST).bit_length() >> 1)
    found, labels = palette(rest, entries, tell=tell)
    values = found.numpy().reshape(-1, k, 3)
    codes = codebook(values)
    rows = -(-len(values) // PALETTE_ROW)
    image = np.zeros((rows * PALETTE_ROW, k, 3), np.uint8)
    image[: len(values)] = nearest_code(values, codes)
    files["shN_centroids.webp"] = _webp(image.reshape(rows, -1, 3))
    label = labels.numpy().astype(np.uint16)[order]
    files["shN_labels.webp"] = _plane(np.stack([label & 255, label >> 8, 0 * label], 1))
    about = {
        "count": len(values),
        "bands": {3: 1, 8: 2, 15: 3}[k],
        "codebook": codes.tolist(),
        "files": ["shN_centroids.webp", "shN_labels.webp"],
    }
    files[META] = json.dumps(json.loads(files[META]) | {"shN": about}).encode()


def _plane(codes: npt.NDArray[Any]) -> bytes:
    """Bytes ``(n, 3 or 4)`` as a picture of n pixels or a few more."""
    n, channels = codes.shape
    width = 4 * math.ceil(math.sqrt(n) / 4)
    height = 4 * math.ceil(n / width / 4)
    image = np.zeros((height * width, channels), np.uint8)
    image[:n] = codes
    return _webp(image.reshape(height, width, channels))


def _webp(image: Bytes) -> bytes:
    """Lossless, and exact where alpha is zero too."""
    out = io.BytesIO()
    picture = pillow().fromarray(image)
    picture.save(out, "WEBP", lossless=True, exact=True, method=METHOD, quality=EFFORT)
    return out.getvalue()


def _bundle(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, DATE), content)
    return out.getvalue()
