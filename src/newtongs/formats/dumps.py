"""Dumps of moving Gaussians: 14 channels, read frame by frame.

A dump is ``.npy``, ``.npz``, ``.safetensors`` or ``.pt`` in float16, bfloat16, float32 or float64,
and contains either

* one array ``(T, N, 14)``, or ``(1, T, N, 14)`` as in L4GM;
* an array ``(N, 14)`` per frame, where N may differ: a list of tensors (``.pt``), or arrays
  whose names contain the frame number (``frame_000``, ``frame_001``, ...).

The channels are those of :mod:`newtongs.formats.lgm`. Nothing is unpickled. Frames of ``.npy`` and
``.npz`` are read one at a time; of the others, the file is in memory as it is.
"""

import math
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..base.errors import InputError
from ..base.files import (
    afford,
    array_header,
    array_headers,
    existing_file,
    foreign,
    load_torch,
    opened_entry,
    private_copy,
)
from .lgm import CHANNELS

CHANNEL_NAMES = "xyz, opacity, scale, quaternion, rgb"


@dataclass(frozen=True)
class Piece:
    """One array of a file: its shape, and its frames ``(N, 14)`` in order."""

    shape: tuple[int, ...]
    read: Callable[[], Iterator[Tensor]]

    @property
    def frame_sizes(self) -> tuple[int, ...]:
        """Number of Gaussians in each frame."""
        return (self.shape[-2],) * math.prod(self.shape[:-2])


@dataclass(frozen=True)
class Dump:
    """A dump with a valid layout, whose numbers have not been read."""

    path: Path
    pieces: tuple[Piece, ...]

    @property
    def frame_sizes(self) -> tuple[int, ...]:
        """Number of Gaussians in each of the ``T`` frames."""
        return tuple(n for piece in self.pieces for n in piece.frame_sizes)

    def frames(self) -> Iterator[Tensor]:
        """The frames ``(N, 14)`` in order, each in the file's precision."""
        with foreign(self.path, "a dump of Gaussians"):
            for piece in self.pieces:
                yield from piece.read()


def open_dump(path: Path | str) -> Dump:
    """Open a dump and check its layout; frames are read on demand."""
    path = existing_file(path, f"a dump: {', '.join(OPENERS)}")
    if path.suffix.lower() not in OPENERS:
        raise InputError(f"{path}: expected a dump whose name ends in {', '.join(OPENERS)}")
    with foreign(path, "a dump of Gaussians"):
        found = OPENERS[path.suffix.lower()](path)
    return Dump(path, _checked(path, found))


def _checked(path: Path, found: Sequence[Piece]) -> tuple[Piece, ...]:
    """The arrays of Gaussians: one with all frames, or one per frame."""
    pieces = tuple(piece for piece in found if len(piece.shape) > 1)  # scalars are metadata
    if not pieces:
        raise InputError(f"{path}: expected an array (T, N, {CHANNELS}), found none")
    for piece in pieces:
        if piece.shape[-1] != CHANNELS:
            raise InputError(
                f"{path}: expected {CHANNELS} channels per Gaussian ({CHANNEL_NAMES}), got "
                f"{piece.shape[-1]} in an array of shape {piece.shape}; dump the activated tensor"
            )
    size = path.stat().st_size
    frames = sum(math.prod(piece.shape[:-2]) for piece in pieces)
    if frames > size:  # empty frames take no bytes, but time
        raise InputError(
            f"{path} declares {frames:,} frames but has only {size:,} bytes; it is damaged"
        )
    for piece in pieces:
        n = piece.shape[-2]
        afford(path, 8 * CHANNELS * n, size, f"{n:,} Gaussians a frame")
    outer = max(math.prod(piece.shape[:-3]) for piece in pieces)
    if outer > 1 or (len(pieces) > 1 and any(len(piece.frame_sizes) != 1 for piece in pieces)):
        raise InputError(
            f"{path}: expected one array (T, N, {CHANNELS}) or one (N, {CHANNELS}) per frame, got "
            + ", ".join(str(piece.shape) for piece in pieces[:3])
        )
    return pieces


def _sliced(x: Any, shape: Sequence[int], make: Callable[[Any], Tensor]) -> Piece:
    """An array of which only the requested part is read."""
    sizes = tuple(shape)

    def read() -> Iterator[Tensor]:
        if len(sizes) == 2:
            yield make(x[:])
            return
        lead = (slice(0, 1),) * (len(sizes) - 3)
        for t in range(sizes[-3]):
            yield make(x[(*lead, slice(t, t + 1))]).reshape(sizes[-2:])

    return Piece(sizes, read)


def _open_npy(path: Path) -> list[Piece]:
    # Mapped, numpy checks the size against the header; the numbers are read from the file, because
    # a mapped one that somebody cuts would kill the process.
    x = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(x, np.memmap):
        raise InputError(f"{path}: expected an array, as numpy.save writes it")
    _require_float(path, x.dtype)
    shape, dtype, start = x.shape, x.dtype, x.offset
    if not x.flags.c_contiguous:
        whole = np.fromfile(path, dtype, x.size, offset=start).reshape(shape, order="F")
        return [_sliced(whole, shape, lambda part: torch.from_numpy(np.array(part)))]

    def read() -> Iterator[Tensor]:
        size = math.prod(shape[-2:])
        for t in range(math.prod(shape[:-2])):
            frame = np.fromfile(path, dtype, size, offset=start + t * size * dtype.itemsize)
            yield torch.from_numpy(frame.reshape(shape[-2:]))

    return [Piece(shape, read)]


def _open_npz(path: Path) -> list[Piece]:
    headers = array_headers(path)
    for shape, dtype in headers.values():
        if len(shape) > 1:
            _require_float(path, dtype)
    return [_member(path, name, *headers[name]) for name in _by_number(path, headers)]


def _member(path: Path, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Piece:
    """An array in an archive, decompressed as it is read: it cannot be mapped."""

    def read() -> Iterator[Tensor]:
        size = math.prod(shape[-2:])
        with (
            zipfile.ZipFile(path) as archive,
            opened_entry(path, archive, f"{name}.npy") as f,
        ):
            array_header(path, f)
            for _ in range(math.prod(shape[:-2])):
                bytes_read = f.read(size * dtype.itemsize)
                frame = np.frombuffer(bytes_read, dtype, size).astype(dtype.newbyteorder("="))
                yield torch.from_numpy(frame.reshape(shape[-2:]))

    return Piece(shape, read)


def _require_float(path: Path, dtype: np.dtype[Any]) -> None:
    if dtype.kind != "f" or dtype.itemsize > 8:
        raise InputError(f"{path}: expected float16 or float32 numbers, got {dtype}")


def _open_safetensors(path: Path) -> list[Piece]:
    from safetensors import safe_open

    with private_copy(path) as copy:
        file: Any = safe_open(copy, framework="pt")
    found = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
    shapes = {name: found[name].get_shape() for name in _by_number(path, found)}
    return [_sliced(found[name], shape, _float(path)) for name, shape in shapes.items()]


def _open_pt(path: Path) -> list[Piece]:
    content = load_torch(path)
    if isinstance(content, Mapping):
        content = {str(k): x for k, x in content.items() if isinstance(x, Tensor)}
        content = [content[name] for name in _by_number(path, content)]
    tensors = [content] if isinstance(content, Tensor) else content
    if not isinstance(tensors, list | tuple) or not all(isinstance(x, Tensor) for x in tensors):
        raise InputError(f"{path}: expected a tensor (T, N, {CHANNELS}) or a list of (N, 14)")
    return [_sliced(x, x.shape, _float(path)) for x in tensors]


def _float(path: Path) -> Callable[[Tensor], Tensor]:
    def make(x: Tensor) -> Tensor:
        if not x.is_floating_point():
            raise InputError(f"{path}: expected float16 or float32 numbers, got {x.dtype}")
        return x.detach()

    return make


def _by_number(path: Path, names: Mapping[str, object]) -> list[str]:
    """Names sorted by the numbers in them; a single array needs none."""
    if len(names) == 1:
        return list(names)
    numbers = {name: re.findall(r"\d+", name.removesuffix(".npy")) for name in names}
    order = {name: int(found[-1]) for name, found in numbers.items() if found}
    if len(set(order.values())) != len(order):
        raise InputError(f"{path}: two arrays have the same frame number; name them frame_000, ...")
    nameless = [name for name in names if name not in order]
    return [*nameless, *sorted(order, key=order.__getitem__)]


OPENERS: dict[str, Callable[[Path], list[Piece]]] = {
    ".npy": _open_npy,
    ".npz": _open_npz,
    ".safetensors": _open_safetensors,
    ".pt": _open_pt,
}
