"""Write binary glTF 2.0 with ``KHR_gaussian_splatting``: exact, or a tenth of the size.

Exact, everything is float32: 56 bytes a Gaussian without view-dependent colour, 12 more for each
further coefficient. Compressed, attributes go through ``EXT_meshopt_compression``:

==========================  ======================================================================
means                       multiples of a power of two, a tenth of a small Gaussian's size at most
rotation                    9 bits for each of the three smaller components
scale                       7 significant bits
opacity                     8 bits
colour without direction    multiples of 1/64 of the coefficient: 1/227 of white
view-dependent colour       a palette with an entry for 64 Gaussians, or 8192, multiples of 1/64
==========================  ======================================================================

The extension has no palettes; but Gaussians are stored in the order of their entry, and what equals
its neighbour costs next to nothing. Readers get plain floats, as the extension asks for.
"""

import json
import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from ...errors import InputError
from ...files import Progress, silent, write_atomically
from ...types import Quat
from ..gaussians import SH_DEGREES, GaussianScene
from . import meshopt
from .codebooks import palette
from .glb import BIN_CHUNK, GENERATOR, JSON_CHUNK, MAGIC, ROOT, SPLATS, VERSION
from .sog_writer import morton_order

EXTENSION = {
    "kernel": "ellipse",
    "colorSpace": "srgb_rec709_display",
    "sortingMethod": "cameraDistance",
    "projection": "perspective",
}
UNSIGNED_BYTE, SHORT, FLOAT, ARRAY_BUFFER, POINTS = 5121, 5122, 5126, 34962, 0
TYPES = {1: "SCALAR", 3: "VEC3", 4: "VEC4"}
LARGEST = 2**32 - 1  # bytes: lengths in the header have 32 bits
UPRIGHT = [1.0, 0.0, 0.0, 0.0]  # half a turn about x: y of captures is down, of glTF up

PLACE = 0.1  # rounding of a mean, in sizes of a Gaussian smaller than nine of ten
ROTATION_BITS, SCALE_BITS, COLOUR_EXPONENT = 9, 7, -6
GAUSSIANS_AN_ENTRY, FEWEST, MOST = 64, 8192, 65536  # of the palette
SAMPLE = 100_000

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]


def write(
    scene: GaussianScene, path: Path, tell: Progress = silent, *, compress: bool = False
) -> None:
    """A scene at rest as ``.glb``; object ids are not kept.

    Viewers show it upright if its y points down, as in captures; :func:`newtongs.scene.load` gives
    back the scene's own axes.
    """
    if not len(scene):
        raise InputError(f"{path}: this format cannot hold an empty scene; write a .ply")
    file = Document({}, UPRIGHT, compress=compress)
    file.add_node({"name": "still", "mesh": file.add_mesh("still", scene, tell)})
    data = file.to_bytes()
    write_atomically(path, lambda f: f.writelines(data))


class Document:
    """A glTF file in the making: the JSON tree and the arrays it points at."""

    def __init__(
        self, extras: dict[str, Any], rotation: Sequence[float], *, compress: bool = False
    ) -> None:
        self.compress = compress
        self.arrays: list[Array] = []
        self.bytes, self.unpacked = 0, 0  # in the file, and once decoded
        self.tree: dict[str, Any] = {
            "asset": {"version": "2.0", "generator": GENERATOR, "extras": extras},
            "extensionsUsed": [SPLATS],
            "scene": 0,
            "scenes": [{"nodes": [0]}],
            "nodes": [{"name": ROOT, "rotation": list(rotation), "children": []}],
            "meshes": [],
            "accessors": [],
            "bufferViews": [],
        }

    def add_node(self, node: dict[str, Any], *, parent: int = 0) -> int:
        """A node under another; its index."""
        self.tree["nodes"].append(node)
        index = len(self.tree["nodes"]) - 1
        self.tree["nodes"][parent].setdefault("children", []).append(index)
        return index

    def add_array(self, x: Tensor, *, bounds: bool = False, target: int | None = None) -> int:
        """An accessor over ``x (n,)`` or ``(n, 3 or 4)`` in float32; its index."""
        rows = x.detach().cpu().numpy().reshape(len(x), -1)
        array = np.ascontiguousarray(rows, dtype=np.float32)
        view = {"buffer": 0, "byteOffset": self.bytes, "byteLength": array.nbytes}
        self._append(array)
        self.tree["bufferViews"].append(view | ({} if target is None else {"target": target}))
        return self._add_accessor(array, FLOAT, array if bounds else None)

    def _append(self, array: Array) -> None:
        """Numbers for the binary chunk, each array from a multiple of four bytes on."""
        padding = np.zeros(-array.nbytes % 4, np.uint8)
        self.arrays += [array, padding] if len(padding) else [array]
        self.bytes += array.nbytes + len(padding)

    def _add_accessor(self, rows: Array, kind: int, bounds: Array | None, **more: Any) -> int:
        accessor: dict[str, Any] = {
            "bufferView": len(self.tree["bufferViews"]) - 1,
            "componentType": kind,
            "count": len(rows),
            "type": TYPES[rows.shape[1]],
        } | more
        if bounds is not None:
            accessor |= {"min": bounds.min(0).tolist(), "max": bounds.max(0).tolist()}
        self.tree["accessors"].append(accessor)
        return len(self.tree["accessors"]) - 1

    def add_mesh(self, name: str, scene: GaussianScene, tell: Progress = silent) -> int:
        """One primitive of Gaussians; the mesh's index."""
        attributes = self._packed(scene, tell) if self.compress else self._plain(scene)
        primitive = {
            "attributes": attributes,
            "mode": POINTS,
            "extensions": {SPLATS: dict(EXTENSION)},
        }
        self.tree["meshes"].append({"name": name, "primitives": [primitive]})
        return len(self.tree["meshes"]) - 1

    def _plain(self, scene: GaussianScene) -> dict[str, int]:
        attributes = {"POSITION": self.add_array(scene.means, bounds=True, target=ARRAY_BUFFER)}
        for semantic, x in attribute_arrays(scene).items():
            attributes[f"{SPLATS}:{semantic}"] = self.add_array(x, target=ARRAY_BUFFER)
        return attributes

    def _packed(self, scene: GaussianScene, tell: Progress) -> dict[str, int]:
        """The attributes of the table above; Gaussians of one colour follow each other."""
        x = scene.numpy()
        colours, labels = _palette(scene, tell)
        order = np.lexsort((_ranks(x["means"]), labels))
        means = meshopt.fixed_point(x["means"][order], _place_exponent(scene))
        quats = meshopt.from_quaternions(np.roll(x["quats"], -1, 1)[order], ROTATION_BITS)
        scales = meshopt.floating_point(scene.scales.numpy()[order], SCALE_BITS)
        base = meshopt.fixed_point(x["sh"][order, 0], COLOUR_EXPONENT)
        named = {
            "ROTATION": self._add_quaternions(quats),
            "SCALE": self._add_floats(scales),
            "OPACITY": self._add_bytes(scene.opacities.numpy()[order]),
            "SH_DEGREE_0_COEF_0": self._add_floats(base),
        }
        for k, (degree, n) in enumerate(slots := sh_slots(scene.sh_degree)[1:]):
            name = f"SH_DEGREE_{degree}_COEF_{n}"
            named[name] = self._add_floats(colours[labels[order], k])
            tell("packing", k + 1, len(slots))
        out = {f"{SPLATS}:{name}": index for name, index in named.items()}
        return {"POSITION": self._add_floats(means, bounds=True), **out}

    def _add_floats(self, x: Array, *, bounds: bool = False) -> int:
        """Numbers of the EXPONENTIAL filter; the accessor's index."""
        self._add_stream(x, meshopt.EXPONENTIAL)
        decoded = meshopt.to_floats(np.ascontiguousarray(x).view(np.uint8)) if bounds else None
        return self._add_accessor(x, FLOAT, decoded)

    def _add_quaternions(self, x: Array) -> int:
        self._add_stream(x, meshopt.QUATERNION)
        return self._add_accessor(x, SHORT, None, normalized=True)

    def _add_bytes(self, x: Array) -> int:
        """Fractions ``(n,)`` in 8 bits; rows have at least four bytes, of which three are empty."""
        rows = np.zeros((len(x), 4), np.uint8)
        rows[:, 0] = np.rint(255 * x)
        self._add_stream(rows, meshopt.NO_FILTER)
        return self._add_accessor(rows[:, :1], UNSIGNED_BYTE, None, normalized=True)

    def _add_stream(self, rows: Array, filter: str) -> None:
        """A buffer view that decodes to the rows, as the extension wants it described."""
        stream = meshopt.encode(rows)
        size = rows.nbytes
        row = size // len(rows)
        packed: dict[str, Any] = {
            "buffer": 0,
            "byteOffset": self.bytes,
            "byteLength": stream.nbytes,
        }
        packed |= {"byteStride": row, "count": len(rows), "mode": meshopt.ATTRIBUTES}
        packed |= {} if filter == meshopt.NO_FILTER else {"filter": filter}
        self._append(stream)
        view: dict[str, Any] = {"buffer": 1, "byteOffset": self.unpacked, "byteLength": size}
        view |= {"byteStride": row}
        view |= {"target": ARRAY_BUFFER, "extensions": {meshopt.NAME: packed}}
        self.unpacked += size
        self.tree["bufferViews"].append(view)

    def to_bytes(self) -> list[bytes | memoryview]:
        """The file in pieces: header, JSON, arrays."""
        if not self.compress:
            return packed(self.tree, self.arrays)
        names = [*self.tree["extensionsUsed"], meshopt.NAME]
        fallback = {"byteLength": self.unpacked, "extensions": {meshopt.NAME: {"fallback": True}}}
        tree = self.tree | {"extensionsUsed": names, "extensionsRequired": [meshopt.NAME]}
        return packed(tree, self.arrays, [fallback])


def packed(
    tree: dict[str, Any], arrays: Sequence[Array], more: Sequence[dict[str, Any]] = ()
) -> list[bytes | memoryview]:
    """A .glb in pieces: header, JSON, and the arrays that its buffer views point at, in order.

    ``more`` are buffers beside the binary chunk.
    """
    size = sum(a.nbytes for a in arrays)
    tree = tree | {"buffers": [{"byteLength": size}, *more]}
    text = json.dumps(tree, allow_nan=False, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 4)
    total = 12 + 8 + len(text) + 8 + size
    if total > LARGEST:
        raise InputError(f"a .glb holds at most 4 GiB, this one needs {total / 2**30:.1f}")
    return [
        MAGIC + struct.pack("<II", VERSION, total),
        struct.pack("<I", len(text)) + JSON_CHUNK + text,
        struct.pack("<I", size) + BIN_CHUNK,
        *(a.data.cast("B") for a in arrays if a.nbytes),
    ]


def attribute_arrays(scene: GaussianScene) -> dict[str, Tensor]:
    """The extension's attributes by semantic, without its prefix."""
    out = {
        "ROTATION": xyzw(scene.quats),
        "SCALE": scene.scales,
        "OPACITY": scene.opacities,
    }
    for k, (degree, n) in enumerate(sh_slots(scene.sh_degree)):
        out[f"SH_DEGREE_{degree}_COEF_{n}"] = scene.sh[:, k]
    return out


def sh_slots(degree: int) -> list[tuple[int, int]]:
    """Degree and number within it of every coefficient, in the scene's order."""
    slots = [(d, n) for d in range(degree + 1) for n in range(2 * d + 1)]
    assert len(slots) in SH_DEGREES
    return slots


def xyzw(q: Quat) -> Tensor:
    """Scalar-first quaternions ``(..., 4)`` as the file has them."""
    return q.roll(-1, -1)


def _palette(scene: GaussianScene, tell: Progress) -> tuple[Array, npt.NDArray[np.int64]]:
    """View-dependent colours ``(entries, K, 3)`` for the filter, and the label of each Gaussian."""
    n, rest = len(scene), scene.sh.flatten(1)[:, 3:]
    if not rest.shape[1]:
        return np.empty((1, 0, 3), np.int32), np.zeros(n, np.int64)
    entries = min(MOST, max(FEWEST, n // GAUSSIANS_AN_ENTRY))
    found, labels = palette(rest, entries, tell=tell)
    values = meshopt.fixed_point(found.numpy(), COLOUR_EXPONENT)
    return values.reshape(len(values), -1, 3), labels.numpy()


def _ranks(means: Floats) -> npt.NDArray[np.int64]:
    """Place of each Gaussian along a curve that fills space."""
    order = morton_order(means)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _place_exponent(scene: GaussianScene) -> int:
    """Of the power of two that means are rounded to."""
    some = scene.scales[:: max(1, len(scene) // SAMPLE)].amax(1)
    small = max(float(some.quantile(0.1)), 1e-30)
    reach = max(float(scene.means.abs().amax()), 1e-30)
    return max(math.floor(math.log2(PLACE * small)), math.frexp(reach)[1] - 23)
