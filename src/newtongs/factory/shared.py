"""A prepared scene as JSON and raw arrays, which several processes share without copying.

The arrays are mapped from a file, and only pages that someone writes to are copied. Nothing is
pickled: the JSON may name classes of this package and nothing else, and rebuilding an object calls
none of their code.
"""

import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from .casts import Prepared

PACKAGE = __name__.partition(".")[0]
ALIGNED = 64  # bytes: vector instructions may round differently at other alignments
PLAIN = (str, int, float, bool, type(None))


class Packed(NamedTuple):
    """A description, and the arrays it refers to by number."""

    text: str
    arrays: list[np.ndarray]


class _Packer:
    """Turns objects into numbered nodes; a node refers to earlier ones as ``[number]``.

    What is shared stays shared: an object is one node, however many others refer to it.
    """

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.arrays: list[np.ndarray] = []
        self.numbers: dict[int, int] = {}
        self.kept: list[Any] = []  # keeps objects alive, so that their ids stay unique

    def __call__(self, x: Any) -> Any:
        if type(x) in PLAIN:
            return x
        if id(x) not in self.numbers:
            self.nodes.append(self.node(x))
            self.numbers[id(x)] = len(self.nodes) - 1
            self.kept.append(x)
        return [self.numbers[id(x)]]

    def node(self, x: Any) -> list[Any]:
        if isinstance(x, torch.Tensor):
            return ["tensor", self.number(x.detach().cpu().contiguous().numpy())]
        if isinstance(x, np.ndarray):
            columns_first = x.flags.f_contiguous and not x.flags.c_contiguous
            return [
                "columns" if columns_first else "rows",
                self.number(x.T if columns_first else x),
            ]
        if isinstance(x, np.generic):
            return ["scalar", self.number(np.asarray(x))]
        if isinstance(x, dict):
            return ["dict", [[self(key), self(value)] for key, value in x.items()]]
        if isinstance(x, Enum):
            return ["enum", _name(x), x.name]
        if hasattr(x, "_fields"):
            return ["named tuple", _name(x), [self(value) for value in x]]
        if type(x) in (tuple, list):
            return [type(x).__name__, [self(value) for value in x]]
        _class(_name(x))  # raises an error for a class that cannot be shared
        names = [f.name for f in fields(x)] if is_dataclass(x) else [*vars(x)]
        return ["object", _name(x), {name: self(getattr(x, name)) for name in names}]

    def number(self, x: np.ndarray) -> int:
        if x.dtype.kind not in "biuf":
            raise TypeError(f"an array of {x.dtype} cannot be shared between processes")
        # Not ascontiguousarray, which makes a row of a single number.
        self.arrays.append(np.array(x, order="C", copy=None))
        return len(self.arrays) - 1


def _name(x: Any) -> list[str]:
    return [type(x).__module__, type(x).__qualname__]


def pack(prepared: Prepared | str) -> Packed:
    """A description and its arrays."""
    packer = _Packer()
    root = packer(prepared)
    return Packed(json.dumps({"root": root, "nodes": packer.nodes}), packer.arrays)


def unpack(text: str, arrays: Sequence[np.ndarray]) -> Prepared | str:
    """Rebuild the object; its arrays use the memory of ``arrays``."""
    content, made = json.loads(text), list[Any]()

    def found(x: Any) -> Any:
        return made[x[0]] if isinstance(x, list) else x

    for kind, *words in content["nodes"]:
        match kind:
            case "tensor":
                made.append(torch.from_numpy(arrays[words[0]]))
            case "rows" | "columns" | "scalar":
                array = arrays[words[0]]
                made.append({"rows": array, "columns": array.T, "scalar": array[()]}[kind])
            case "dict":
                made.append({found(key): found(value) for key, value in words[0]})
            case "tuple" | "list":
                values = [found(x) for x in words[0]]
                made.append(values if kind == "list" else tuple(values))
            case "enum":
                made.append(_class(words[0])[words[1]])
            case "named tuple":
                made.append(_class(words[0])._make([found(x) for x in words[1]]))
            case _:
                x = object.__new__(_class(words[0]))  # without running its constructor
                for name, value in words[1].items():
                    object.__setattr__(x, name, found(value))
                made.append(x)
    root: Prepared | str = found(content["root"])
    return root


def _class(name: list[str]) -> Any:
    """A class of this package."""
    module, qualified = name
    if module.split(".")[0] == PACKAGE:
        found = getattr(import_module(module), qualified, None)
        if isinstance(found, type) and found.__module__ == module:
            return found
    raise TypeError(f"{module}.{qualified} cannot be shared between processes")


def save(path: Path, packed: Packed) -> None:
    """Write two files: the description in ``path``, the arrays beside it."""
    places = []
    with path.with_suffix(".bin").open("wb") as f:
        for x in packed.arrays:
            f.write(b"\0" * (-f.tell() % ALIGNED))
            places.append((f.tell(), x.dtype.str, x.shape))
            f.write(x.tobytes())
        f.write(b"\0")  # an empty file cannot be mapped
    path.write_text(json.dumps([places, packed.text]))


def load(path: Path) -> Prepared | str:
    """Load by memory mapping: pages are shared until a process writes to them."""
    places, text = json.loads(path.read_text())
    memory = np.memmap(path.with_suffix(".bin"), np.uint8, "c").view(np.ndarray)
    return unpack(text, [_array(memory, *place) for place in places])


def _array(memory: np.ndarray, start: int, kind: str, shape: Sequence[int]) -> np.ndarray:
    dtype = np.dtype(kind)
    size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    return memory[start : start + size].view(dtype).reshape(shape)
