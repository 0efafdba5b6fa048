"""Compressed .ply (PlayCanvas, SuperSplat) and .spz (Niantic), decoded by gsply.

gsply trusts headers, and its compiled loops do not check bounds, so each file is parsed here first,
and rebuilt for gsply from parts of checked sizes. Needs the extra ``newtongs[formats]``; the zstd
variant of .spz, version 4, also needs the package zstandard.
"""

import gzip
import struct
import zlib
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch

from ..base.errors import InputError, argument
from ..base.extras import optional
from ..base.files import afford, foreign, silent, write_atomically
from ..base.locks import scratch
from ..base.types import Progress
from ..scene.gaussians import GaussianScene
from .axes import from_ours, to_ours
from .ply import Header, read_columns
from .sanitize import usable

BLOCK = 1 << 18  # Gaussians compressed at a time
CHUNK = 256  # Gaussians that share their bounds in a compressed .ply
AXES = ("x", "y", "z")
BOUNDS = [
    f"{end}_{kind}{axis}" for kind in ("", "scale_") for end in ("min", "max") for axis in AXES
]
COLOR_BOUNDS = [f"{end}_{channel}" for end in ("min", "max") for channel in "rgb"]
PACKED = ["packed_position", "packed_rotation", "packed_scale", "packed_color"]
REST_COUNTS = (9, 24, 45)

HEADER_END = b"end_header\n"

NGSP = b"NGSP"
GZIP = b"\x1f\x8b"
SH_VALUES = (0, 9, 24, 45)  # bytes of view-dependent colour by degree
SPZ_WIDTHS = (9, 1, 3, 3, 4)  # bytes of means, opacity, colour, scales, rotation in version 3
SPZ_FRACTION = 12  # fractional bits of a coordinate, of 24
SPZ_HEADER = struct.Struct("<4sIIBBBB")
SPZ_4_HEADER = struct.Struct("<4sIIBBBBI12x")
STREAM = struct.Struct("<QQ")  # compressed and decompressed bytes of one part of version 4
SPZ_SH_STEPS = (1 / 16, 1 / 8)  # of degree 1, and of degrees 2 and 3: 5 and 4 bits
SPZ_REACH = 2048  # coordinates have 24 bits, of which 12 are fractional
SPZ_AXES = "RUB"  # as the format defines
HAS_EXTENSIONS = 2  # bit of the flags
EXTENSION = struct.Struct("<II")  # kind and size of the record that follows
EXTENSION_BYTES = 1 << 16  # that are searched
COORDINATES = 0xADBE0003  # the record with the index of the axes in this list
AXES_BY_CODE = (
    SPZ_AXES, "LDB", "RDB", "LUB", "RUB", "LDF", "RDF", "LUF", "RUF",
    "LFD", "RFD", "LFU", "RFU", "LBD", "RBD", "LBU", "RBU",
)  # fmt: skip


def gsply() -> Any:
    """The library, or an error that says how to install it."""
    return optional("gsply", "compressed .ply and .spz need gsply", "formats")


def is_compressed(header: Header) -> bool:
    """Whether a .ply contains packed Gaussians."""
    vertex = header.element("vertex")
    return vertex is not None and PACKED[0] in vertex.names


def read_ply(path: Path, header: Header) -> GaussianScene:
    """Read a compressed .ply, including old ones without colour bounds."""
    bounds, packed, rest = _checked_parts(path, header)
    if not len(packed):
        return usable(path, **_empty())
    content = _canonical_header(len(bounds), len(packed), rest.shape[1])
    content += b"".join(part.tobytes() for part in (bounds, packed, rest))
    with foreign(path, "a compressed .ply"):
        data = gsply().decompress_from_bytes(content)
    return _scene(path, data)


def spz_axes(path: Path) -> str:
    """The axes of an .spz file, by its extension or by the format."""
    with foreign(path, "an .spz file"):
        return _named_axes(path, _checked_spz(path, path.read_bytes()).extensions)


def read_spz(path: Path, axes: str | None = None) -> GaussianScene:
    """Read an .spz file, in our axes; ``axes`` overrides those of the file."""
    with foreign(path, "an .spz file"):
        checked = _checked_spz(path, path.read_bytes())
        axes = axes or _named_axes(path, checked.extensions)
        return to_ours(_unpacked(path, checked), axes)


def unpacked_spz(path: Path, raw: bytes) -> GaussianScene:
    """The Gaussians of an .spz inside another file, in its own axes."""
    return _unpacked(path, _checked_spz(path, raw))


def _unpacked(path: Path, checked: "_Spz") -> GaussianScene:
    if checked.gaussians == 0:
        return usable(path, **_empty())
    with scratch() as folder:
        safe = folder / "checked.spz"
        safe.write_bytes(checked.content)
        return _scene(path, gsply().read_spz(safe))


def _named_axes(path: Path, records: bytes) -> str:
    """The axes of the coordinate extension, or else of the format."""
    at = 0
    while at < len(records):
        if at + EXTENSION.size > len(records):
            raise InputError(f"{path}: an extension is cut off; it is damaged")
        kind, size = EXTENSION.unpack_from(records, at)
        payload = records[at + EXTENSION.size : at + EXTENSION.size + size]
        at += EXTENSION.size + size
        if kind == COORDINATES:
            code = int.from_bytes(payload[:4], "little") if size == len(payload) == 4 else None
            if code is None:
                raise InputError(f"{path}: its coordinate extension is cut off; it is damaged")
            if code >= len(AXES_BY_CODE):
                raise InputError(
                    f"{path}: expected axes 0 to 16 in its coordinate extension, got {code}; "
                    f"set them with {argument('axes')}, such as RUB"
                )
            return AXES_BY_CODE[code]
    return SPZ_AXES


def write_ply(scene: GaussianScene, path: Path, tell: Progress = silent) -> None:
    """Write a compressed .ply: 16 bytes per Gaussian, one per coefficient; object ids are lost."""
    rest = SH_VALUES[scene.sh_degree]

    def pack(block: GaussianScene) -> list[bytes]:
        content = gsply().compress_to_bytes(*_gsply_fields(block, path).values())
        chunks = -(-len(block) // CHUNK)
        widths = 4 * len([*BOUNDS, *COLOR_BOUNDS]) * chunks, 16 * len(block), rest * len(block)
        return _cut(content[content.index(HEADER_END) + len(HEADER_END) :], widths)

    parts = _in_blocks(scene, path, pack, tell)
    head = _canonical_header(-(-len(scene) // CHUNK), len(scene), rest)
    write_atomically(path, lambda f: f.writelines([head, *parts]))


def write_spz(scene: GaussianScene, path: Path, tell: Progress = silent) -> None:
    """Write an .spz file of version 3, in the axes of the format; object ids are lost."""
    _require_some(scene, path)
    farthest = float(scene.means.abs().amax())
    if farthest >= SPZ_REACH:
        raise InputError(
            f"{path}: an .spz stores coordinates below {SPZ_REACH}, the scene reaches "
            f"{farthest:,.0f}; scale it down, or write a .ply"
        )
    widths = (*SPZ_WIDTHS, SH_VALUES[scene.sh_degree])

    def pack(block: GaussianScene) -> list[bytes]:
        return _cut(_spz_rows(block, path), [len(block) * width for width in widths])

    parts = _in_blocks(scene, path, pack, tell)
    head = SPZ_HEADER.pack(NGSP, 3, len(scene), scene.sh_degree, SPZ_FRACTION, 0, 0)
    packer = zlib.compressobj(wbits=31)

    def fill(f: BinaryIO) -> None:
        f.writelines(packer.compress(x) for x in [head, *parts])
        f.write(packer.flush())

    write_atomically(path, fill)


def _in_blocks(
    scene: GaussianScene,
    path: Path,
    pack: Callable[[GaussianScene], list[bytes]],
    tell: Progress,
) -> list[bytes]:
    """The compressed parts: the first ones of all blocks, then the second ones, and so on.

    In blocks, because the library takes several times the memory of its input.
    """
    _require_some(scene, path)
    packed = []
    for start in range(0, len(scene), BLOCK):
        packed.append(pack(scene[start : start + BLOCK]))
        tell("packing", min(start + BLOCK, len(scene)), len(scene))
    return list(chain(*zip(*packed, strict=True)))


def _cut(content: bytes, sizes: Sequence[int]) -> list[bytes]:
    """``content`` split into pieces of these sizes."""
    ends = list(accumulate(sizes))
    assert ends[-1] == len(content), f"{ends[-1]:,} bytes expected, {len(content):,} packed"
    return [content[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def _spz_rows(scene: GaussianScene, path: Path) -> bytes:
    """The bytes after the header of a file with these Gaussians."""
    fields = _gsply_fields(_bucketed(from_ours(scene, SPZ_AXES)), path)
    with scratch() as folder:
        part = folder / "scene.spz"
        data = gsply().GSData(**fields, masks=None)
        gsply().write_spz(part, data, fractional_bits=SPZ_FRACTION)
        return gzip.decompress(part.read_bytes())[SPZ_HEADER.size :]


def _require_some(scene: GaussianScene, path: Path) -> None:
    if not len(scene):
        raise InputError(f"{path}: this format cannot store an empty scene; write a .ply")


def _bucketed(scene: GaussianScene) -> GaussianScene:
    """View-dependent colour rounded to the bits of Niantic's writer: half the size."""
    steps = scene.sh.new_ones(scene.sh.shape[1], 1)
    steps[1:4], steps[4:] = SPZ_SH_STEPS
    rounded = (scene.sh / steps).round() * steps
    return scene.replace(sh=torch.cat([scene.sh[:, :1], rounded[:, 1:]], 1))


def _checked_parts(path: Path, header: Header) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bounds ``(chunks, 18)``, packed values ``(N, 4)`` and colour bytes ``(N, 0 to 45)``."""
    packed = _columns(path, header, "vertex", PACKED, np.uint32)
    n = len(packed)
    bounds = _columns(path, header, "chunk", BOUNDS, np.float32)
    if len(bounds) != -(-n // CHUNK):
        raise InputError(f"{path}: {n:,} Gaussians need {-(-n // CHUNK):,} chunks, "
                         f"found {len(bounds):,}")  # fmt: skip
    chunk = header.element("chunk")
    if chunk and {*COLOR_BOUNDS} <= {*chunk.names}:
        colors = _columns(path, header, "chunk", COLOR_BOUNDS, np.float32)
    else:
        colors = np.tile(np.repeat(np.array([0, 1], np.float32), 3), (len(bounds), 1))
    return np.hstack([bounds, colors]).astype("<f4"), packed.astype("<u4"), _rest(path, header, n)


def _columns(path: Path, header: Header, name: str, wanted: list[str], dtype: type) -> np.ndarray:
    element = header.element(name)
    missing = [x for x in wanted if element is None or x not in element.names]
    if missing:
        raise InputError(f"{path}: a compressed .ply needs {missing[0]!r} in its element {name!r}")
    return read_columns(header, name, {name: wanted}, dtype)[name]


def _rest(path: Path, header: Header, n: int) -> np.ndarray:
    sh = header.element("sh")
    if sh is None:
        return np.empty((n, 0), np.uint8)
    names = [f"f_rest_{i}" for i in range(len(sh.properties))]
    if len(names) not in REST_COUNTS or sh.count != n:
        raise InputError(
            f"{path}: expected 9, 24 or 45 colour values for each of {n:,} Gaussians, "
            f"found {len(names)} for {sh.count:,}"
        )
    return _columns(path, header, "sh", names, np.uint8)


def _canonical_header(chunks: int, n: int, rest: int) -> bytes:
    """The only header that gsply ever parses."""
    lines = ["ply", "format binary_little_endian 1.0", f"element chunk {chunks}"]
    lines += [f"property float {name}" for name in [*BOUNDS, *COLOR_BOUNDS]]
    lines += [f"element vertex {n}", *(f"property uint {name}" for name in PACKED)]
    if rest:
        lines += [f"element sh {n}", *(f"property uchar f_rest_{i}" for i in range(rest))]
    return ("\n".join([*lines, "end_header"]) + "\n").encode("ascii")


class _Spz(NamedTuple):
    gaussians: int
    content: bytes
    extensions: bytes
    """Extension records, up to a limit."""


def _sh_values(path: Path, degree: int) -> int:
    if degree >= len(SH_VALUES):
        raise InputError(f"{path}: expected SH degree 0 to 3, got {degree}")
    return SH_VALUES[degree]


def _checked_spz(path: Path, raw: bytes) -> _Spz:
    """The content of a file, checked against its header and its size."""
    return _checked_gzip(path, raw) if raw[:2] == GZIP else _checked_4(path, raw)


def _checked_gzip(path: Path, raw: bytes) -> _Spz:
    """Versions 1 to 3: one gzip stream, decompressed no further than the header requires."""
    stream = zlib.decompressobj(wbits=31)
    head = stream.decompress(raw, SPZ_HEADER.size)
    if len(head) < SPZ_HEADER.size or head[:4] != NGSP:
        raise InputError(f"{path} is not a .spz file")
    _, version, count, degree, _, flags, _ = SPZ_HEADER.unpack(head)
    if version not in (1, 2, 3):
        raise InputError(f"{path}: .spz version {version} is not known; expected 1 to 4")
    body = count * (16 + (4 if version == 3 else 3) + _sh_values(path, degree))
    afford(path, body, len(raw), f"{count:,} Gaussians")
    content = stream.decompress(stream.unconsumed_tail, max(body, 1))
    if len(content) < body:
        raise InputError(f"{path}: the header declares {count:,} Gaussians, the file is shorter")
    tail = b""
    if flags & HAS_EXTENSIONS:
        tail = content[body:] + stream.decompress(stream.unconsumed_tail, EXTENSION_BYTES)
    return _Spz(count, gzip.compress(head + content[:body], compresslevel=0), tail)


def _checked_4(path: Path, raw: bytes) -> _Spz:
    """Version 4: a plain header that determines the sizes of one zstd stream per part."""
    if len(raw) < SPZ_4_HEADER.size or raw[:4] != NGSP:
        raise InputError(f"{path} is not a .spz file")
    _, version, count, degree, _, flags, streams, start = SPZ_4_HEADER.unpack_from(raw)
    if version != 4:
        raise InputError(f"{path}: .spz version {version} is not known; expected 1 to 4")
    try:
        import zstandard  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise InputError(
            f"{path}: .spz version 4 needs zstandard; install it with: pip install zstandard"
        ) from error
    afford(path, count * (20 + _sh_values(path, degree)), len(raw), f"{count:,} Gaussians")
    if start + streams * STREAM.size > len(raw):
        raise InputError(f"{path}: the table of its streams is cut off")
    offset = start + streams * STREAM.size
    for i in range(streams):
        packed, unfolded = STREAM.unpack_from(raw, start + i * STREAM.size)
        # The library would allocate the size that a stream declares.
        own = zstandard.frame_content_size(raw[offset : offset + packed])
        if unfolded > count * max(9, SH_VALUES[degree]) or own not in (-1, unfolded):
            raise InputError(f"{path}: stream {i} does not have the size of {count:,} Gaussians")
        offset += packed
    extensions = raw[SPZ_4_HEADER.size : start] if flags & HAS_EXTENSIONS else b""
    return _Spz(count, raw, extensions[:EXTENSION_BYTES])


def _empty() -> dict[str, torch.Tensor]:
    shapes = {"means": (0, 3), "quats": (0, 4), "log_scales": (0, 3), "logits": (0,)}
    return {**{k: torch.empty(v) for k, v in shapes.items()}, "sh": torch.empty(0, 1, 3)}


def _scene(path: Path, data: Any) -> GaussianScene:
    """The arrays of gsply, which like ours are not activated."""
    rest = () if data.shN is None else (data.shN,)
    sh = np.concatenate([data.sh0[:, None], *rest], axis=1)
    arrays = {
        "means": data.means,
        "quats": data.quats,
        "log_scales": data.scales,
        "logits": data.opacities.reshape(-1),
        "sh": sh,
    }
    return usable(path, **{k: torch.from_numpy(np.array(x, np.float32)) for k, x in arrays.items()})


def _gsply_fields(scene: GaussianScene, path: Path) -> dict[str, np.ndarray | None]:
    """Our arrays under gsply's names and in the order of its arguments."""
    _require_some(scene, path)
    x = scene.numpy()
    arrays = {
        "means": x["means"],
        "scales": x["log_scales"],
        "quats": x["quats"],
        "opacities": x["logits"],
        "sh0": x["sh"][:, 0],
        "shN": x["sh"][:, 1:],
    }
    fields = {name: np.ascontiguousarray(a, np.float32) for name, a in arrays.items()}
    for name, a in fields.items():
        if not np.isfinite(a).all():
            raise InputError(f"{path}: {name} contain numbers that are not finite; write a .ply")
    return {**fields, "shN": fields["shN"] if scene.sh_degree else None}
