"""Archives of strangers, torch's and numpy's: nothing runs, nothing unfolds beyond the allowance.

torch's own loader runs no code of a file, but of a few bytes it makes arrays of any size: expanded,
sparse or quantised tensors, byte arrays. So a file may name nothing but plain tensors, and what
they span is held against its size before anything is copied. numpy's arrays say their shape in a
header, which is read alone and held against what is wanted.
"""

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from .errors import InputError
from .limits import afford

if TYPE_CHECKING:
    from torch import Tensor

PLAIN_ENTRIES = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # their unfolding stops at a limit
# A name in a pickle, as torch writes it; of text that looks so only these packages matter.
NAMED = re.compile(rb"c((?:torch|builtins|__builtin__|collections|numpy|_codecs)[\w.]*)\n(\w+)\n")
TENSORS = re.compile(
    rb"torch [A-Z]\w*Storage|torch._utils _rebuild_(tensor_v2|parameter)|collections OrderedDict"
)
MOST_ARRAYS = 100_000

Header = tuple[tuple[int, ...], np.dtype[Any]]


def load_torch(path: Path) -> Any:
    """A torch file's tensors, mapped and never unpickled beyond plain containers.

    Mapped also because torch then cuts every storage to the file: a claimed size cannot overrun.
    """
    import torch

    _require_tensors_alone(path)
    content = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    spanned = sum(x.numel() * x.element_size() for x in _tensors(content))
    afford(path, spanned, path.stat().st_size, f"tensors of {spanned:,} bytes")
    return content


def _require_tensors_alone(path: Path) -> None:
    """Refuse entries that unfold, and names that torch would make something else of."""
    with zipfile.ZipFile(path) as archive:
        if any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
            raise InputError(f"{path}: a torch file with compressed entries is not read")
        for info in archive.infolist():
            if info.filename.endswith("data.pkl"):
                _require_known_names(path, archive.read(info))


def _require_known_names(path: Path, pickled: bytes) -> None:
    for module, name in NAMED.findall(pickled):
        if not TENSORS.fullmatch(module + b" " + name):
            raise InputError(
                f"{path} holds {module.decode()}.{name.decode()}; only plain tensors are read"
            )


def _tensors(content: Any) -> Iterator["Tensor"]:
    """Every tensor within lists and mappings, without recursion."""
    from torch import Tensor

    waiting, seen = [content], set[int]()
    while waiting:
        x = waiting.pop()
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, dict | list | tuple) and id(x) not in seen:
            seen.add(id(x))
            inner = x.values() if isinstance(x, dict) else x
            waiting += [y for y in inner if isinstance(y, (Tensor, dict, list, tuple))]


def opened_entry(path: Path, archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    """A file within a zip, of the two kinds whose unfolding can be stopped at a limit."""
    if name not in archive.NameToInfo:
        raise InputError(f"{path} lacks {name}; it is damaged")
    info = archive.getinfo(name)
    if info.compress_type not in PLAIN_ENTRIES:
        raise InputError(f"{path}: {name} is neither stored nor deflated; pack it so")
    return archive.open(info)


def array_header(path: Path, f: IO[bytes]) -> Header:
    """Shape and type that stand before an array's bytes; the file is left at the bytes."""
    version = np.lib.format.read_magic(f)
    headers = {
        (1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0
    }  # fmt: skip
    if version not in headers:
        raise InputError(f"{path}: an array of npy version {version} is not read")
    shape, fortran, dtype = headers[version](f)
    if fortran and len(shape) > 1:
        raise InputError(f"{path}: expected arrays in C order; numpy.ascontiguousarray them")
    if any(n < 0 for n in shape):
        raise InputError(f"{path}: an array has {shape} rows and columns; it is damaged")
    return shape, dtype


def is_numbers(header: Header) -> bool:
    """Whether an array holds numbers of up to eight bytes, not text or objects of any size."""
    return header[1].kind in "biuf" and header[1].itemsize <= 8


def array_headers(path: Path) -> dict[str, Header]:
    """Shape and type of every array of an ``.npz``, by name; the numbers are not read."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if len(names) > MOST_ARRAYS:
            raise InputError(f"{path} has {len(names):,} arrays; up to {MOST_ARRAYS:,} are read")
        found = {}
        for name in names:
            with opened_entry(path, archive, name) as f:
                found[name.removesuffix(".npy")] = array_header(path, f)
        return found
