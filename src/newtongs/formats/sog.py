"""SOG (PlayCanvas, SuperSplat): ``meta.json`` and lossless WebP planes, in a zip or a folder.

Gaussian i is pixel i of every plane, row by row:

================  =================================================================================
means             two planes, low and high byte; 16 bits between ``mins`` and ``maxs`` of
                  ``sign(x) log(1 + |x|)``
quats             three components in RGB, ``255 (q / sqrt(2) + 1/2)``; alpha 252 to 255 tells which
                  of w, x, y, z is omitted: the largest, made positive
scales            logarithms in RGB
sh0               constant coefficients in RGB, opacity in alpha
shN (optional)    a palette of the other coefficients, 64 entries per row, a pixel per coefficient;
                  and a plane of 16-bit labels, low byte in red, high byte in green
================  =================================================================================

Version 2 maps bytes by codebooks and stores activated opacities. Version 1, which has no version
field, maps bytes linearly from ``mins`` to ``maxs`` and stores logits of opacities. Pillow decodes
the planes, which needs the extra ``newtongs[formats]``; before that, the size in the header of a
plane is checked against that of the file.

Written bundles are version 2. Gaussians are stored along a space-filling curve (Morton's), so that
neighbours in a plane are neighbours in the scene and compress well; the order of the scene is lost.
"""

import io
import json
import math
import os
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..base.errors import InputError
from ..base.extras import optional
from ..base.files import (
    afford,
    allowance,
    existing_file,
    foreign,
    opened_entry,
    parsed_json,
    silent,
    write_atomically,
)
from ..base.types import Progress
from ..scene.gaussians import GaussianScene, opacity_to_logit
from .codebooks import codebook, nearest_code, palette, size_codebook
from .sanitize import usable

META = "meta.json"
STREAMED = "lod-meta.json"
ZIP = b"PK"
ENDINGS = (".sog", ".zip")
COEFFICIENTS = (0, 3, 8, 15)  # view-dependent ones per channel, by bands
PALETTE_ROW = 64  # entries per row of the palette
PALETTE_LIMIT = 1 << 16  # labels have 16 bits
TAG = 252  # alpha of a quaternion whose w is omitted; 253 to 255: x, y, z
KEPT = ((1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2))  # stored components, by the omitted one
PACKED_QUATS = "quaternion_packed"
FLOAT32_MAX = float(np.finfo(np.float32).max)
WEBP_CHUNKS = 16  # among which the pixels are searched; they come first, or after a few
WEBP_NOTES = (b"VP8X", b"ICCP", b"EXIF", b"XMP ")  # chunks that may stand before the pixels
WEBP_ANIMATED = 2  # bit of the flags in VP8X
META_BYTES = 4 << 20  # real ones have about 15,000
PIXEL_BYTES = 16  # of memory for decoding
GAUSSIAN_BYTES = 56  # of a scene without view-dependent colour

Fetch = Callable[[str], bytes]


def entry(path: Path | str) -> Path:
    """The description inside a SOG folder; any other path unchanged."""
    path = Path(path)
    for name in (META, STREAMED):
        if os.path.isfile(path / name):  # False too without permission
            return path / name
    return path


def is_sog(path: Path, head: bytes) -> bool:
    """Whether a file is a bundle or the description of a folder, by name and first bytes."""
    name = path.name.lower()
    return (name.endswith(META) and name != STREAMED) or (
        path.suffix.lower() in ENDINGS and head[:2] == ZIP
    )


def read(path: Path) -> GaussianScene:
    """Read a bundle, or a folder by its ``meta.json``, in the axes of the file."""
    pillow()
    with foreign(path, "SOG"):
        return _from_folder(path) if path.name.lower().endswith(META) else _from_bundle(path)


def pillow() -> Any:
    """The library, or an error that says how to install it."""
    return optional("PIL.Image", "SOG needs Pillow", "formats")


def _from_folder(path: Path) -> GaussianScene:
    folder = path.parent
    with path.open("rb") as f:
        meta = _parsed(path, f)
    size = sum(part.stat().st_size for name in _names(meta) if (part := folder / name).is_file())

    def fetch(name: str) -> bytes:
        return existing_file(folder / name, "a WebP picture").read_bytes()

    return _scene(_Sog(path, folder, meta, fetch, size))


def _from_bundle(path: Path) -> GaussianScene:
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        root = _root(path, archive)
        with opened_entry(path, archive, root + META) as f:
            meta = _parsed(path, f)

        def fetch(name: str) -> bytes:
            with opened_entry(path, archive, root + name) as f:
                return f.read(allowance(size))

        return _scene(_Sog(path, path, meta, fetch, size))


def _root(path: Path, archive: zipfile.ZipFile) -> str:
    """Prefix of the names in a zip: empty, or the one folder that was packed."""
    found = [name for name in archive.namelist() if PurePosixPath(name).name == META]
    if META in found:
        return ""
    if len(found) != 1:
        raise InputError(f"{path} is not a SOG: expected one {META} in it, found {len(found)}")
    return found[0].removesuffix(META)


def _parsed(path: Path, file: IO[bytes]) -> dict[str, Any]:
    meta = parsed_json(path, file.read(META_BYTES + 1), META_BYTES)
    if not isinstance(meta, dict) or not isinstance(meta.get("means"), dict):
        raise InputError(f"{path} is not a SOG: its {META} has no 'means'")
    return meta


def _names(meta: dict[str, Any]) -> set[str]:
    """All files listed in a description, if they are plain names."""
    lists = [x.get("files") for x in meta.values() if isinstance(x, dict)]
    return {name for x in lists if isinstance(x, list) for name in x if is_plain(name)}


def is_plain(name: object) -> bool:
    """Whether this is the name of a file in the same folder."""
    return isinstance(name, str) and name not in ("", ".", "..") and not {*name} & {*"/\\:\0"}


@dataclass(frozen=True)
class _Sog:
    """A description, and its planes on demand."""

    path: Path
    """Path for errors."""
    place: Path
    """Location of the planes: the folder or the bundle."""
    meta: dict[str, Any]
    fetch: Fetch
    """Reads a file by name."""
    size: int
    """Total bytes on disk."""

    @cached_property
    def version(self) -> int:
        """1 or 2."""
        version = self.meta.get("version", 1)
        if version not in (1, 2):
            raise InputError(
                f"{self.path}: SOG version {version!r:.20} is not known; expected 1, 2"
            )
        return int(version)

    @cached_property
    def count(self) -> int:
        """Number of Gaussians; rejected before any allocation if implausible for the file size."""
        shape = self.part("means").get("shape")
        first = shape[0] if isinstance(shape, list) and shape else None
        count = self.whole(first if self.version == 1 else self.meta.get("count"), "Gaussians")
        self.afford(GAUSSIAN_BYTES * count, f"{count:,} Gaussians")
        return count

    def afford(self, needed: int, what: str) -> None:
        """Reject what would take far more memory than is plausible for a file of this size."""
        afford(self.path, needed, self.size, what)

    def whole(self, value: Any, what: str) -> int:
        """A non-negative integer."""
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**32:
            raise InputError(f"{self.path}: expected a number of {what}, got {value!r:.20}")
        return value

    def part(self, key: str) -> dict[str, Any]:
        """The description of one property."""
        part = self.meta.get(key)
        if not isinstance(part, dict):
            raise InputError(f"{self.path}: {META} has no {key!r}; it is damaged")
        return part

    def numbers(self, key: str, field: str, n: int) -> np.ndarray:
        """Finite numbers ``(n,)``; a single one need not be in a list."""
        value = self.part(key).get(field)
        value = value if isinstance(value, list) else [value]
        if len(value) != n or not all(map(_is_finite, value)):
            raise InputError(f"{self.path}: expected {n} finite numbers as {key}.{field} in {META}")
        return np.array(value, np.float64)

    def codebook(self, key: str) -> np.ndarray:
        """Values ``(up to 256,)`` of bytes."""
        book = self.part(key).get("codebook")
        book = list(book) if isinstance(book, list) else []
        if len(book) > 1 and book[0] is None and all(map(_is_finite, book[1:])):
            # Old writers wrote NaN or infinity here; PlayCanvas substitutes this.
            book[0] = book[1] + (book[1] - book[-1]) / 255
        if not 1 <= len(book) <= 256 or not all(map(_is_finite, book)):
            raise InputError(
                f"{self.path}: expected up to 256 finite numbers as {key}.codebook in {META}"
            )
        return np.array(book, np.float64)

    def pixels(self, key: str, index: int = 0) -> np.ndarray:
        """Bytes ``(N, 4)`` of a plane."""
        image = self.image(key, index)
        height, width, _ = image.shape
        if height * width < self.count:
            raise InputError(
                f"{self.path}: a plane of {key} has {width} x {height} pixels for "
                f"{self.count:,} Gaussians; it is damaged"
            )
        return image.reshape(-1, 4)[: self.count]

    def image(self, key: str, index: int = 0) -> np.ndarray:
        """Bytes ``(H, W, 4)`` of a picture."""
        names = self.part(key).get("files")
        if not isinstance(names, list) or len(names) <= index or not is_plain(names[index]):
            raise InputError(
                f"{self.path}: expected the name of a file beside it as {key}.files[{index}] in "
                f"{META}"
            )
        where = self.place / names[index]
        raw = _only_webp(self.fetch(names[index]))
        width, height = _webp_size(where, raw)
        self.afford(PIXEL_BYTES * width * height, f"{width:,} x {height:,} pixels of {key}")
        with foreign(where, "lossless WebP"):
            picture = pillow().open(io.BytesIO(raw), formats=("WEBP",))
            if picture.size != (width, height) or getattr(picture, "n_frames", 1) != 1:
                raise InputError(f"{where}: its headers differ in size; it is damaged")
            return np.asarray(picture.convert("RGBA"))


def _is_finite(x: object) -> bool:
    """Whether it is a number in the range of float32."""
    return isinstance(x, int | float) and not isinstance(x, bool) and abs(x) <= FLOAT32_MAX


def _only_webp(raw: bytes) -> bytes:
    """The bytes that the RIFF header declares; what stands behind them is not the picture's."""
    return raw[: 8 + int.from_bytes(raw[4:8], "little")]


def _webp_size(where: Path, raw: bytes) -> tuple[int, int]:
    """Width and height of a still lossless WebP from its header.

    A chunk with pixels of any other kind is refused before the decoder sees it: it would allocate
    the size of that one.
    """
    at = 12
    for _ in range(WEBP_CHUNKS):
        if raw[:4] != b"RIFF" or raw[8:12] != b"WEBP" or at + 13 > len(raw):
            break
        kind, size, mark, bits = struct.unpack_from("<4sIBI", raw, at)
        if kind == b"VP8L" and mark == 0x2F:
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        if kind not in WEBP_NOTES or (kind == b"VP8X" and mark & WEBP_ANIMATED):
            break
        at += 8 + size + size % 2
    raise InputError(f"{where} is not a lossless WebP; it is damaged, or was compressed with loss")


def _scene(sog: _Sog) -> GaussianScene:
    colors, logits = _colors(sog)
    fields = {
        "means": _means(sog),
        "quats": _quats(sog),
        "log_scales": _looked_up(sog, "scales", sog.pixels("scales")[:, :3], _table(sog, "scales")),
        "logits": logits,
        "sh": _harmonics(sog, colors),
    }
    return usable(sog.path, **{name: torch.from_numpy(x) for name, x in fields.items()})


def _means(sog: _Sog) -> np.ndarray:
    """Centres ``(N, 3)``."""
    low, high = (sog.pixels("means", i)[:, :3].astype(np.uint16) for i in range(2))
    first, last = (sog.numbers("means", end, 3) for end in ("mins", "maxs"))
    x = first + (last - first) * ((low | high << 8) / 65535)
    with np.errstate(over="ignore"):  # what overflows is dropped later
        return (np.sign(x) * np.expm1(np.abs(x))).astype(np.float32)


def _quats(sog: _Sog) -> np.ndarray:
    """Quaternions ``(N, 4)``, scalar first."""
    encoding = sog.part("quats").get("encoding", PACKED_QUATS)
    if encoding != PACKED_QUATS:
        raise InputError(
            f"{sog.path}: quaternions as {encoding!r:.40} are not known; expected {PACKED_QUATS}"
        )
    pixels = sog.pixels("quats")
    tags = pixels[:, 3]
    if tags.size and tags.min() < TAG:
        raise InputError(
            f"{sog.path}: expected {TAG} to 255 in the alpha of quats, got {tags.min()}; "
            "it is damaged, or was compressed with loss"
        )
    small = ((pixels[:, :3] / 255 - 0.5) * 2**0.5).astype(np.float32)
    largest = np.sqrt(np.maximum(0, 1 - (small**2).sum(-1)))
    quats = np.empty((len(pixels), 4), np.float32)
    for left_out, kept in enumerate(KEPT):
        rows = np.flatnonzero(tags == TAG + left_out)
        quats[rows, left_out] = largest[rows]
        quats[rows[:, None], kept] = small[rows]
    return quats


def _colors(sog: _Sog) -> tuple[np.ndarray, np.ndarray]:
    """Constant coefficients ``(N, 3)`` and logits of opacity ``(N,)``."""
    pixels = sog.pixels("sh0")
    if sog.version == 1:
        values = _looked_up(sog, "sh0", pixels, _table(sog, "sh0", 4))
        return values[:, :3], np.ascontiguousarray(values[:, 3])
    logits = opacity_to_logit(torch.arange(256) / 255).numpy()
    return _looked_up(sog, "sh0", pixels[:, :3], _table(sog, "sh0")), logits[pixels[:, 3]]


def _harmonics(sog: _Sog, colors: np.ndarray) -> np.ndarray:
    """All coefficients ``(N, K, 3)``: the given constant ones, and the others from the palette."""
    if sog.meta.get("shN") is None or sog.part("shN").get("bands") == 0:
        return colors[:, None]
    palette = _palette(sog)
    pixels = sog.pixels("shN", 1)
    labels = pixels[:, 0] | pixels[:, 1].astype(np.uint16) << 8
    if labels.size and labels.max() >= len(palette):
        raise InputError(
            f"{sog.path}: a Gaussian has colour {labels.max():,} of a palette of {len(palette):,}; "
            "it is damaged"
        )
    _, k, _ = palette.shape
    sog.afford(12 * k * len(labels), f"{len(labels):,} Gaussians with {k} coefficients")
    sh = palette[labels]
    sh[:, 0] = colors
    return sh


def _palette(sog: _Sog) -> np.ndarray:
    """Coefficients ``(entries, K, 3)`` by label; the constant one is zero."""
    image = sog.image("shN")[: PALETTE_LIMIT // PALETTE_ROW, :, :3]
    height, width, _ = image.shape
    widths = [PALETTE_ROW * c for c in COEFFICIENTS[1:]]
    entries = height * PALETTE_ROW
    if sog.version == 2:  # in version 1 both follow from the picture
        bands = sog.whole(sog.part("shN").get("bands"), "bands of shN")
        if not 1 <= bands <= 3:
            raise InputError(f"{sog.path}: expected shN.bands of 0 to 3 in {META}, got {bands}")
        widths = [widths[bands - 1]]
        entries = min(entries, sog.whole(sog.part("shN").get("count"), "entries of shN"))
    if width not in widths:
        wanted = " or ".join(map(str, widths))
        raise InputError(f"{sog.path}: expected a palette {wanted} pixels wide, got {width}")
    codes = image.reshape(-1, width // PALETTE_ROW, 3)[:entries]
    values = _looked_up(sog, "shN", codes, _table(sog, "shN", 1))
    return np.concatenate([np.zeros_like(values[:, :1]), values], 1)


def _table(sog: _Sog, key: str, channels: int = 3) -> np.ndarray:
    """Values of bytes, ``(up to 256, channels)``."""
    if sog.version == 2:
        return np.repeat(sog.codebook(key)[:, None], channels, axis=1)
    first, last = (sog.numbers(key, end, channels) for end in ("mins", "maxs"))
    return first + (last - first) * (np.arange(256)[:, None] / 255)


def _looked_up(sog: _Sog, key: str, codes: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Values of bytes ``(..., C)`` in a table of C channels, or of one for all."""
    if codes.size and codes.max() >= len(table):
        raise InputError(
            f"{sog.path}: a plane of {key} names value {codes.max()} of a codebook of "
            f"{len(table)}; it is damaged"
        )
    channels = np.arange(table.shape[1])
    return table.astype(np.float32)[codes, channels]


# --- writing --------------------------------------------------------------------------------------


METHOD, EFFORT = 4, 75  # of the encoder: slower settings gain about 1 %
MOST_PIXELS = 16_383**2  # pixels of a WebP
SHIFTS = (32, 16, 8, 4, 2)  # spread 21 bits to every third place, with masks
MASKS = (
    0x1FFFFF, 0x1F00000000FFFF, 0x1F0000FF0000FF, 0x100F00F00F00F00F, 0x10C30C30C30C30C3,
    0x1249249249249249,
)  # fmt: skip
LEAST_ENTRIES = 1024  # entries of a palette at least; more with more Gaussians
DATE = (1980, 1, 1, 0, 0, 0)  # fixed, so that equal scenes give equal files

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


def write(scene: GaussianScene, path: Path, tell: Progress = silent) -> None:
    """Write a ``.sog`` with about 15 to 20 bytes per Gaussian; object ids are lost."""
    pillow()
    fields, order = _checked(scene, path)
    files = _files(fields, tell)
    if scene.sh_degree:
        _add_harmonics(scene.sh.cpu().flatten(1)[:, 3:], order, files, tell)
    write_atomically(path, lambda f: f.write(_bundle(files)))


def morton_order(means: Floats) -> npt.NDArray[np.intp]:
    """Indices ``(n,)`` of points ``(n, 3)`` along the curve, from 21 bits per axis."""
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
    """The inverse: every third bit of each number, compacted."""
    x = x & np.uint64(MASKS[-1])
    for shift, mask in zip(SHIFTS[::-1], MASKS[-2::-1], strict=True):
        x = (x | x >> np.uint64(shift)) & np.uint64(mask)
    return x


def _checked(scene: GaussianScene, path: Path) -> tuple[dict[str, Any], npt.NDArray[np.intp]]:
    """The fields as arrays in the order of the file, and that order.

    Only the constant part of the colour: view-dependent colour is most of a scene and not copied.
    """
    if not 0 < len(scene) <= MOST_PIXELS:
        raise InputError(f"{path}: a .sog cannot store {len(scene):,} Gaussians; write a .ply")
    fields = {k: np.asarray(x) for k, x in scene.numpy().items() if k != "ids"}
    for name, x in fields.items():
        if not np.isfinite(x.sum(dtype=np.float64)):  # a sum is finite if every term is
            raise InputError(f"{path}: {name} contain numbers that are not finite; write a .ply")
    order = morton_order(fields["means"])
    fields["sh"] = fields["sh"][:, 0]
    return {k: x[order].astype(np.float32, copy=False) for k, x in fields.items()}, order


def _files(x: dict[str, Any], tell: Progress) -> dict[str, bytes]:
    """File contents by name, the description first, without view-dependent colour."""
    n = len(x["means"])
    means, low, high = _packed_means(x["means"])
    scales, colors = size_codebook(x["log_scales"]), codebook(x["sh"])
    opacity = np.round(255 / (1 + np.exp(-x["logits"].astype(np.float64))))[:, None]
    planes = {
        "means_l.webp": means & 255,
        "means_u.webp": means >> 8,
        "quats.webp": _packed_quats(x["quats"]),
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


def _packed_means(means: Floats) -> tuple[npt.NDArray[np.uint16], list[float], list[float]]:
    """16 bits per axis of ``sign(x) log(1 + |x|)``, and the limits."""
    x = means.astype(np.float64)
    x = np.sign(x) * np.log1p(np.abs(x))
    low, high = x.min(0), x.max(0)
    steps = np.round((x - low) / np.maximum(high - low, 1e-30) * 65535)
    return steps.astype(np.uint16), low.tolist(), high.tolist()


def _packed_quats(quats: Floats) -> Bytes:
    """Three components, and in alpha which one is omitted: the largest, made positive."""
    largest = np.abs(quats).argmax(1)
    rows = np.arange(len(quats))
    q = quats * np.where(quats[rows, largest] < 0, -1, 1)[:, None]
    small = q[rows[:, None], np.array(KEPT)[largest]]
    codes = np.round(255 * (small / 2**0.5 + 0.5)).clip(0, 255)
    return np.hstack([codes, TAG + largest[:, None]]).astype(np.uint8)


def _add_harmonics(
    rest: Tensor, order: npt.NDArray[np.intp], files: dict[str, bytes], tell: Progress
) -> None:
    """Add the palette of view-dependent colour ``(n, 3 K)`` and the labels, in ``order``."""
    n, k = len(rest), rest.shape[1] // 3
    entries = min(PALETTE_LIMIT, LEAST_ENTRIES << max(0, n // LEAST_ENTRIES).bit_length() >> 1)
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
    """Bytes ``(n, 3 or 4)`` as a picture of at least n pixels."""
    n, channels = codes.shape
    width = 4 * math.ceil(math.sqrt(n) / 4)
    height = 4 * math.ceil(n / width / 4)
    image = np.zeros((height * width, channels), np.uint8)
    image[:n] = codes
    return _webp(image.reshape(height, width, channels))


def _webp(image: Bytes) -> bytes:
    """Lossless WebP, exact also where alpha is zero."""
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
