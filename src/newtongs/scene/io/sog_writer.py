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
import torch

from ...errors import InputError
from ...files import write_atomically
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


def write(scene: GaussianScene, path: Path) -> None:
    """A ``.sog``, some 15 to 20 bytes a Gaussian; object ids are not kept."""
    pillow()
    files = _files(_checked(scene, path))
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


def _checked(scene: GaussianScene, path: Path) -> dict[str, Any]:
    """The fields as arrays, in the order of the file."""
    if not 0 < len(scene) <= MOST:
        raise InputError(f"{path}: a .sog cannot hold {len(scene):,} Gaussians; write a .ply")
    fields = {k: np.asarray(x) for k, x in scene.numpy().items() if k != "ids"}
    for name, x in fields.items():
        if not np.isfinite(x).all():
            raise InputError(f"{path}: {name} hold numbers that are not finite; write a .ply")
    order = morton_order(fields["means"])
    return {name: x[order].astype(np.float32) for name, x in fields.items()}


def _files(x: dict[str, Any]) -> dict[str, bytes]:
    """Content by name, the description first."""
    n = len(x["means"])
    means, low, high = _means(x["means"])
    files = {"means_l.webp": _plane(means & 255), "means_u.webp": _plane(means >> 8)}
    files["quats.webp"] = _plane(_quats(x["quats"]))
    scales = size_codebook(x["log_scales"])
    files["scales.webp"] = _plane(nearest_code(x["log_scales"], scales))
    colors = codebook(x["sh"][:, 0])
    opacity = np.round(255 / (1 + np.exp(-x["logits"].astype(np.float64))))[:, None]
    files["sh0.webp"] = _plane(np.hstack([nearest_code(x["sh"][:, 0], colors), opacity]))
    meta: dict[str, Any] = {
        "version": 2,
        "asset": {"generator": "newtongs"},
        "count": n,
        "means": {"mins": low, "maxs": high, "files": ["means_l.webp", "means_u.webp"]},
        "scales": {"codebook": scales.tolist(), "files": ["scales.webp"]},
        "quats": {"files": ["quats.webp"]},
        "sh0": {"codebook": colors.tolist(), "files": ["sh0.webp"]},
    }
    if x["sh"].shape[1] > 1:
        meta["shN"] = _add_harmonics(x["sh"][:, 1:], files)
    return {META: json.dumps(meta).encode(), **files}


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


def _add_harmonics(rest: Floats, files: dict[str, bytes]) -> dict[str, Any]:
    """The palette of view-dependent colour ``(n, K, 3)``, and a label a Gaussian."""
    n, k, _ = rest.shape
    entries = min(PALETTE_LIMIT, FEWEST << max(0, n // FEWEST).bit_length() >> 1)
    found, labels = palette(torch.from_numpy(rest.reshape(n, -1)), entries)
    values = found.numpy().reshape(-1, k, 3)
    codes = codebook(values)
    rows = -(-len(values) // PALETTE_ROW)
    image = np.zeros((rows * PALETTE_ROW, k, 3), np.uint8)
    image[: len(values)] = nearest_code(values, codes)
    files["shN_centroids.webp"] = _webp(image.reshape(rows, -1, 3))
    label = labels.numpy().astype(np.uint16)
    files["shN_labels.webp"] = _plane(np.stack([label & 255, label >> 8, 0 * label], 1))
    return {
        "count": len(values),
        "bands": {3: 1, 8: 2, 15: 3}[k],
        "codebook": codes.tolist(),
        "files": ["shN_centroids.webp", "shN_labels.webp"],
    }


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
