"""``.ksplat`` (mkkellogg's GaussianSplats3D): sections of rows, with three compression levels.

A file header of 4,096 bytes and section headers of 1,024 bytes are followed by the sections: sizes
of partially filled buckets, centres of all buckets, then one row per Gaussian with centre, scale,
quaternion (scalar first), RGBA and view-dependent colour. Level 0 stores float32. Levels 1 and 2
store centres as 16 bits relative to the centre of the bucket, and half floats; level 2 colour
coefficients as bytes between two limits. Coefficients are ordered by degree, then by channel.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ..base.errors import InputError
from ..base.files import foreign
from ..scene.gaussians import SCALE_FLOOR, SH_C0, GaussianScene, join, opacity_to_logit
from .sanitize import usable

ENDING = ".ksplat"
HEADER_BYTES, SECTION_BYTES = 4096, 1024
HEADER = struct.Struct("<BBxxIIIIHxx3f2f")
SECTION = struct.Struct("<IIIIfHxxIIIIH")
VERSION = (0, 1)
VALUES = ("<f4", "<u2", "<u2")  # of a centre, by level
SHAPES = ("<f4", "<f2", "<f2")  # of scales and quaternions
COLOURS = ("<f4", "<f2", "u1")  # of a coefficient
COEFFICIENTS = (0, 9, 24, 45)  # by degree
RANGE = 32767  # steps from the centre of a bucket to its side, if the section has none
HALF_RANGE = 1.5  # range of coefficients in bytes, if the file has no limits
MIDDLE = np.dtype("<f4")

Floats = npt.NDArray[np.float32]


class _Header(NamedTuple):
    major: int
    minor: int
    most_sections: int
    sections: int
    most_gaussians: int
    gaussians: int
    level: int
    x: float
    y: float
    z: float
    low: float
    high: float


class _Section(NamedTuple):
    """The header of a section, in the order of the file."""

    gaussians: int
    room: int
    """Allocated Gaussians."""
    bucket: int
    """Gaussians in a full bucket."""
    buckets: int
    block: float
    """Edge of a bucket, in scene units."""
    bucket_bytes: int
    range: int
    stored: int
    full: int
    partial: int
    degree: int

    def row(self, level: int) -> np.dtype[np.void]:
        """How a Gaussian is stored."""
        count = COEFFICIENTS[self.degree]
        value, shape, colour = VALUES[level], SHAPES[level], COLOURS[level]
        return np.dtype([
            ("means", value, 3), ("scales", shape, 3), ("quats", shape, 4), ("rgba", "u1", 4),
            ("rest", colour, (count,)),
        ])  # fmt: skip


def read(path: Path) -> GaussianScene:
    """All sections as one scene, in the axes of the file."""
    with foreign(path, "a .ksplat file"):
        # Not mapped: a file that somebody cuts meanwhile would kill the process.
        data = memoryview(path.read_bytes())
        header = _header(path, data)
        sections = [(s, at) for s, at in _sections(path, header, data) if s.gaussians]
        if not sections:
            raise InputError(f"{path} contains no Gaussians")
        return join(*(_scene(path, header, s, data[at:]) for s, at in sections))


def _header(path: Path, data: memoryview) -> _Header:
    if len(data) < HEADER_BYTES:
        raise InputError(f"{path}: a .ksplat has a header of {HEADER_BYTES:,} bytes; it is cut off")
    header = _Header(*HEADER.unpack_from(data))
    if (header.major, header.minor) != VERSION:
        raise InputError(
            f"{path}: .ksplat version {header.major}.{header.minor} is not known; expected 0.1"
        )
    if header.level >= len(VALUES):
        raise InputError(f"{path}: expected compression level 0 to 2, got {header.level}")
    if HEADER_BYTES + header.most_sections * SECTION_BYTES > len(data):
        raise InputError(f"{path} declares {header.most_sections:,} sections; it is cut off")
    return header


def _sections(path: Path, header: _Header, data: memoryview) -> Iterator[tuple[_Section, int]]:
    """Each section and the start of its content, checked to lie within the file."""
    at = HEADER_BYTES + header.most_sections * SECTION_BYTES
    for i in range(header.most_sections):
        section = _Section(*SECTION.unpack_from(data, HEADER_BYTES + i * SECTION_BYTES))
        if section.degree >= len(COEFFICIENTS):
            raise InputError(f"{path}: expected SH degree 0 to 3, got {section.degree}")
        size = section.room * section.row(header.level).itemsize
        size += section.buckets * section.bucket_bytes + 4 * section.partial
        if section.gaussians > section.room or at + size > len(data):
            raise InputError(
                f"{path}: section {i} declares {section.gaussians:,} Gaussians; it is cut off"
            )
        yield section, at
        at += size


def _scene(path: Path, header: _Header, section: _Section, data: memoryview) -> GaussianScene:
    start = 4 * section.partial + section.buckets * section.bucket_bytes
    rows = np.frombuffer(data, section.row(header.level), section.gaussians, start)
    rgba = (rows["rgba"] / np.float32(255)).astype(np.float32)
    scales = torch.from_numpy(rows["scales"].astype(np.float32))
    return usable(
        path,
        means=torch.from_numpy(_means(path, header, section, rows, data)),
        quats=torch.from_numpy(rows["quats"].astype(np.float32)),
        log_scales=scales.clamp_min(SCALE_FLOOR).log(),
        logits=opacity_to_logit(torch.from_numpy(rgba[:, 3])),
        sh=torch.from_numpy(_harmonics(header, section, rows, rgba)),
    )


def _means(
    path: Path,
    header: _Header,
    section: _Section,
    rows: npt.NDArray[np.void],
    data: memoryview,
) -> Floats:
    """Centres ``(n, 3)``."""
    if header.level == 0:
        return rows["means"].astype(np.float32)
    if section.buckets and section.bucket_bytes != 3 * MIDDLE.itemsize:
        raise InputError(f"{path}: expected 12 bytes per bucket, got {section.bucket_bytes}")
    middles = np.frombuffer(data, MIDDLE, 3 * section.buckets, 4 * section.partial).reshape(-1, 3)
    which = _buckets(path, section, np.frombuffer(data, "<u4", section.partial))
    steps = section.range or RANGE
    with np.errstate(over="ignore", invalid="ignore"):  # overflow is dropped later
        x = (rows["means"] - np.float32(steps)) * np.float32(section.block / 2 / steps)
        return (x + middles[which]).astype(np.float32)


def _buckets(
    path: Path, section: _Section, partial: npt.NDArray[np.uint32]
) -> npt.NDArray[np.intp]:
    """The bucket of each Gaussian ``(n,)``: full ones first, then those with given sizes."""
    n, inside = section.gaussians, section.full * section.bucket
    ends = inside + np.cumsum(partial, dtype=np.int64)
    i = np.arange(n)
    which = np.where(
        i < inside,
        i // max(section.bucket, 1),
        section.full + np.searchsorted(ends, i, side="right"),
    )
    if section.full + section.partial > section.buckets or int(which.max()) >= section.buckets:
        raise InputError(f"{path}: a Gaussian is in none of its {section.buckets:,} buckets")
    return which


def _harmonics(
    header: _Header,
    section: _Section,
    rows: npt.NDArray[np.void],
    rgba: Floats,
) -> Floats:
    """Coefficients ``(n, K, 3)``."""
    rest = rows["rest"].astype(np.float32)
    if header.level == 2:
        low, high = header.low or -HALF_RANGE, header.high or HALF_RANGE
        rest = rest * np.float32((high - low) / 255) + np.float32(low)
    parts = [((rgba[:, None, :3] - np.float32(0.5)) / np.float32(SH_C0))]
    for degree in range(1, section.degree + 1):
        first, last = COEFFICIENTS[degree - 1 : degree + 1]
        parts.append(rest[:, first:last].reshape(len(rows), 3, -1).transpose(0, 2, 1))
    return np.concatenate(parts, 1)
