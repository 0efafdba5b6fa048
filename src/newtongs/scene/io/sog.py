"""SOG (PlayCanvas, SuperSplat): ``meta.json`` and lossless WebP planes, in a zip or in a folder.

Gaussian i is pixel i of every plane, row by row:

================  =================================================================================
means             two planes, low and high byte; 16 bits between ``mins`` and ``maxs`` of
                  ``sign(x) log(1 + |x|)``
quats             three components in RGB, ``255 (q / sqrt(2) + 1/2)``; alpha 252 to 255 says which
                  of w, x, y, z is left out: the largest, and positive
scales            logarithms in RGB
sh0               constant coefficients in RGB, opacity in alpha
shN (optional)    a palette of the other coefficients, 64 entries a row and a pixel a coefficient;
                  and a plane of 16-bit labels into it, low byte in red, high byte in green
================  =================================================================================

Version 2 looks bytes up in codebooks and stores opacity itself. Version 1, which names no version,
spreads bytes evenly from ``mins`` to ``maxs`` and stores opacity before the sigmoid. Pillow decodes
the planes, which needs the extra ``newtongs[formats]``; it is shown a plane only after the size in
the plane's header was held against that of the file.
"""

import io
import os
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
import torch

from ...archives import opened_entry
from ...errors import InputError
from ...files import existing_file, foreign
from ...limits import afford, allowance, parsed_json
from ..gaussians import GaussianScene, opacity_to_logit
from .usable import usable

META = "meta.json"
STREAMED = "lod-meta.json"
ZIP = b"PK"
ENDINGS = (".sog", ".zip")
COEFFICIENTS = (0, 3, 8, 15)  # view-dependent ones a channel, by bands
PALETTE_ROW = 64  # entries a row of the palette
PALETTE_LIMIT = 1 << 16  # labels have 16 bits
TAG = 252  # alpha of a quaternion whose w is left out; 253 to 255 are x, y, z
KEPT = ((1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2))  # components stored, by the one left out
PACKED_QUATS = "quaternion_packed"
FLOAT32_MAX = float(np.finfo(np.float32).max)
WEBP_CHUNKS = 16  # among which the pixels are looked for; they come first, or after a few
META_BYTES = 4 << 20  # real ones have some 15,000
PIXEL_BYTES = 16  # that decoding takes at once
GAUSSIAN_BYTES = 56  # of a scene without view-dependent colour

Fetch = Callable[[str], bytes]


def entry(path: Path | str) -> Path:
    """The description within a SOG folder; any other path as it is."""
    path = Path(path)
    for name in (META, STREAMED):
        if os.path.isfile(path / name):  # False too where one may not look
            return path / name
    return path


def is_sog(path: Path, head: bytes) -> bool:
    """Whether a file is a bundle, or the description of a folder, by name and first bytes."""
    name = path.name.lower()
    return (name.endswith(META) and name != STREAMED) or (
        path.suffix.lower() in ENDINGS and head[:2] == ZIP
    )


def read(path: Path) -> GaussianScene:
    """A bundle, or a folder by its ``meta.json``; axes are kept as they are stored."""
    pillow()
    with foreign(path, "SOG"):
        return _from_folder(path) if path.name.lower().endswith(META) else _from_bundle(path)


def pillow() -> Any:
    """The library, or the way to get it."""
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError(
            "SOG needs Pillow; install it with: pip install 'newtongs[formats]'"
        ) from error
    return Image


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
    """What stands before the names in a zip: nothing, or the one folder that was packed."""
    found = [name for name in archive.namelist() if PurePosixPath(name).name == META]
    if META in found:
        return ""
    if len(found) != 1:
        raise InputError(f"{path} is no SOG: expected one {META} in it, found {len(found)}")
    return found[0].removesuffix(META)


def _parsed(path: Path, file: IO[bytes]) -> dict[str, Any]:
    meta = parsed_json(path, file.read(META_BYTES + 1), META_BYTES)
    if not isinstance(meta, dict) or not isinstance(meta.get("means"), dict):
        raise InputError(f"{path} is no SOG: its {META} has no 'means'")
    return meta


def _names(meta: dict[str, Any]) -> set[str]:
    """All files that a description names, as far as they are plain names."""
    lists = [x.get("files") for x in meta.values() if isinstance(x, dict)]
    return {name for x in lists if isinstance(x, list) for name in x if is_plain(name)}


def is_plain(name: object) -> bool:
    """A name of a file in the same folder, and of nothing outside it."""
    return isinstance(name, str) and name not in ("", ".", "..") and not {*name} & {*"/\\:\0"}


@dataclass(frozen=True)
class _Sog:
    """A description, and the planes it names as they are asked for."""

    path: Path
    """What an error names."""
    place: Path
    """Where the planes lie: the folder or the bundle."""
    meta: dict[str, Any]
    fetch: Fetch
    """Content of a file by name."""
    size: int
    """Bytes of the file or files."""

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
        """Gaussians; more than the file can hold are refused before anything is made for them."""
        shape = self.part("means").get("shape")
        first = shape[0] if isinstance(shape, list) and shape else None
        count = self.whole(first if self.version == 1 else self.meta.get("count"), "Gaussians")
        self.afford(GAUSSIAN_BYTES * count, f"{count:,} Gaussians")
        return count

    def afford(self, needed: int, what: str) -> None:
        """Refuse what would take far more memory than a file of this size can mean."""
        afford(self.path, needed, self.size, what)

    def whole(self, value: Any, what: str) -> int:
        """A number of things."""
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**32:
            raise InputError(f"{self.path}: expected a number of {what}, got {value!r:.20}")
        return value

    def part(self, key: str) -> dict[str, Any]:
        """What the description says of one property."""
        part = self.meta.get(key)
        if not isinstance(part, dict):
            raise InputError(f"{self.path}: {META} has no {key!r}; it is damaged")
        return part

    def numbers(self, key: str, field: str, n: int) -> np.ndarray:
        """Finite numbers ``(n,)``; a single one may stand without a list."""
        value = self.part(key).get(field)
        value = value if isinstance(value, list) else [value]
        if len(value) != n or not all(map(_is_finite, value)):
            raise InputError(f"{self.path}: expected {n} finite numbers as {key}.{field} in {META}")
        return np.array(value, np.float64)

    def codebook(self, key: str) -> np.ndarray:
        """Values ``(up to 256,)`` that bytes stand for."""
        book = self.part(key).get("codebook")
        book = list(book) if isinstance(book, list) else []
        if len(book) > 1 and book[0] is None and all(map(_is_finite, book[1:])):
            # Old writers met NaN or infinity here; PlayCanvas puts this in its place.
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
        raw = self.fetch(names[index])
        where = self.place / names[index]
        width, height = _webp_size(where, raw)
        self.afford(PIXEL_BYTES * width * height, f"{width:,} x {height:,} pixels of {key}")
        with foreign(where, "lossless WebP"):
            picture = pillow().open(io.BytesIO(raw), formats=("WEBP",))
            return np.asarray(picture.convert("RGBA"))


def _is_finite(x: object) -> bool:
    """Whether it is a number that float32 holds."""
    return isinstance(x, int | float) and not isinstance(x, bool) and abs(x) <= FLOAT32_MAX


def _webp_size(where: Path, raw: bytes) -> tuple[int, int]:
    """Width and height of a still lossless WebP, by its header."""
    at = 12
    for _ in range(WEBP_CHUNKS):
        if raw[:4] != b"RIFF" or raw[8:12] != b"WEBP" or at + 13 > len(raw):
            break
        kind, size, mark, bits = struct.unpack_from("<4sIBI", raw, at)
        if kind == b"VP8L" and mark == 0x2F:
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        at += 8 + size + size % 2
    raise InputError(f"{where} is no lossless WebP; it is damaged, or was packed with loss")


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
            "it is damaged, or was packed with loss"
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
    """All coefficients ``(N, K, 3)``: the constant ones given, the others from the palette."""
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
    if sog.version == 2:  # version 1 leaves both to the picture
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
    """What bytes mean, ``(up to 256, channels)``."""
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
