"""A prepared scene as bytes that several processes read at once, without a copy for each.

Pickled with its arrays apart: they are mapped from a file, and only pages that someone writes to
are copied. The files lie in a folder of this run alone, which is made by it and goes with it.
"""

import io
import mmap
import pickle
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from .casts import Prepared

ALIGNED = 64  # bytes


class Packed(NamedTuple):
    """A pickle, and the arrays that belong to it."""

    pickled: bytes
    arrays: list[Any]


class _Pickler(pickle.Pickler):
    """Tensors as arrays, which can be kept apart."""

    def reducer_override(self, thing: Any) -> Any:
        if type(thing) is torch.Tensor:
            return _tensor, (np.ascontiguousarray(thing.detach().cpu().numpy()),)
        return NotImplemented


def _tensor(x: Any) -> torch.Tensor:
    with warnings.catch_warnings():  # an array that may not be written to; nobody does
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(x)


def pack(prepared: Prepared | str) -> Packed:
    """Apart."""
    arrays: list[pickle.PickleBuffer] = []
    out = io.BytesIO()
    _Pickler(out, protocol=5, buffer_callback=arrays.append).dump(prepared)
    return Packed(out.getvalue(), [np.frombuffer(a.raw(), np.uint8) for a in arrays])


def unpack(pickled: bytes, arrays: Sequence[Any]) -> Prepared | str:
    """Together again, on the memory of ``arrays``."""
    made: Prepared | str = pickle.loads(pickled, buffers=arrays)
    return made


def save(path: Path, packed: Packed) -> None:
    """Into two files, ``path`` and beside it the arrays."""
    sizes = []
    with path.with_suffix(".bin").open("wb") as f:
        for array in packed.arrays:
            f.write(b"\0" * (-f.tell() % ALIGNED))
            sizes.append((f.tell(), array.nbytes))
            f.write(array.data)
        f.write(b"\0")  # an empty file cannot be mapped
    path.write_bytes(pickle.dumps((sizes, packed.pickled)))


def load(path: Path) -> Prepared | str:
    """Mapped: pages are shared until someone writes to them."""
    sizes, pickled = pickle.loads(path.read_bytes())
    with path.with_suffix(".bin").open("rb") as f:
        memory = memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY))
    return unpack(pickled, [memory[at : at + size] for at, size in sizes])
