"""Binary glTF 2.0 with ``KHR_gaussian_splatting``, ours and others': the Gaussians as they rest.

Every primitive with the extension is read, and transformed by its nodes. Animations are ignored:
the transforms of the nodes apply, which in our own files are frame 0. glTF's axes are LUF (y up, z
to the front). Our own files are returned in the axes of the original scene: their root node, which
only turned it upright, is ignored.

Attributes may be floats or normalised integers. Primitives compressed as SPZ
(``KHR_gaussian_splatting_compression_spz_2`` and its relatives) and buffer views compressed with
``EXT_meshopt_compression`` are decompressed.

Writing is exact or compressed. Exact, everything is float32: 56 bytes per Gaussian without
view-dependent colour, 12 more for each further coefficient. Compressed, a tenth of that, attributes
use ``EXT_meshopt_compression``:

==========================  ======================================================================
means                       multiples of a power of two, a tenth of a small Gaussian's size at most
rotation                    9 bits for each of the three smaller components
scale                       7 significant bits
opacity                     8 bits
colour without direction    multiples of 1/64 of the coefficient: 1/227 of white
view-dependent colour       a palette with an entry per 64 Gaussians, or 8192, multiples of 1/64
==========================  ======================================================================

The extension has no palettes; but Gaussians are stored in the order of their entry, and a value
equal to its predecessor costs next to nothing. Readers get plain floats, as the extension requires.
"""

import json
import math
import struct
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..base import rotations
from ..base.errors import InputError
from ..base.files import JSON_BYTES, afford, foreign, parsed_json, silent, write_atomically
from ..base.types import Array, Progress, Quat
from ..scene.gaussians import (
    BACKGROUND,
    SCALE_FLOOR,
    SH_DEGREES,
    GaussianScene,
    join,
    opacity_to_logit,
)
from ..scene.transform import principal_axes
from . import meshopt, spz
from .axes import OURS, to_ours, turned_colour
from .codebooks import palette
from .sanitize import usable
from .sog import morton_order

MAGIC, VERSION, JSON_CHUNK, BIN_CHUNK = b"glTF", 2, b"JSON", b"BIN\0"
GLTF_AXES = "LUF"
SPLATS = "KHR_gaussian_splatting"
SPZ_PREFIX = "KHR_gaussian_splatting_compression_spz"
LINEAR = "lin_rec709_display"
ROOT, GENERATOR = "root", "newtongs"  # of our own files
COMPONENTS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5126: "<f4"}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4}
MOST_NODES = 20_000
MOST_PARTS = 4_096  # primitives with Gaussians, counted for every node that shows them
GAUSSIAN_BYTES = 56  # of a scene without view-dependent colour
REST = {"translation": [0.0] * 3, "rotation": [0.0, 0.0, 0.0, 1.0], "scale": [1.0] * 3}
STILL = 1e-9  # a matrix this close to the identity changes nothing
ROUND = 1e-6  # spread of singular values up to which a map scales uniformly


def read(path: Path, axes: str | None = None) -> GaussianScene:
    """Read the Gaussians in our axes; ``axes`` overrides those of glTF."""
    with foreign(path, "glTF with Gaussians"):
        file = open_glb(path)
        return to_ours(_scene(file), axes or _axes(file))


def axes_of(path: Path) -> str:
    """The axes of a file as :func:`read` interprets it."""
    with foreign(path, "glTF with Gaussians"):
        return _axes(open_glb(path))


@dataclass(frozen=True)
class Glb:
    """A parsed file: its JSON, and the bytes it refers to."""

    path: Path
    tree: dict[str, Any]
    data: memoryview
    size: int
    unpacked: dict[int, memoryview] = field(default_factory=dict)
    """Views that have been decompressed, by index: each is, once."""
    primitives: dict[tuple[int, int], GaussianScene] = field(default_factory=dict)
    """Gaussians that have been read, by mesh and primitive: nodes may share them."""

    def wrong(self, why: str) -> InputError:
        """An error about a damaged file."""
        return InputError(f"{self.path}: {why}; it is damaged")

    def item(self, kind: str, index: object) -> dict[str, Any]:
        """An entry in one of the lists of the JSON."""
        items = self.tree.get(kind)
        if (
            not isinstance(items, list)
            or not _is_index(index, len(items))
            or not isinstance(items[index], dict)  # type: ignore[call-overload]
        ):
            raise self.wrong(f"{kind}[{index!r:.20}] is missing")
        return items[index]  # type: ignore[call-overload]

    def view(self, index: object) -> memoryview:
        """Bytes of a buffer view."""
        view = self.item("bufferViews", index)
        for name, about in view.get("extensions", {}).items():
            if name == meshopt.NAME:
                assert isinstance(index, int)
                if index not in self.unpacked:
                    self.unpacked[index] = self._unpacked(about)
                return self.unpacked[index]
            if "meshopt" in name:
                raise InputError(f"{self.path} is compressed with {name}, which is not supported")
        return self._stored(view, f"bufferViews[{index}]")

    def _unpacked(self, about: dict[str, Any]) -> memoryview:
        """Bytes of a view compressed with meshopt."""
        if about.get("mode") != meshopt.ATTRIBUTES:
            raise InputError(f"{self.path}: unknown meshopt mode {about.get('mode')!r:.20}")
        n, width = about.get("count", -1), about.get("byteStride", -1)
        if not _is_index(n, 1 << 32) or not _is_index(width, meshopt.WIDEST + 1):
            raise self.wrong(f"a compressed view declares {n!r:.20} rows of {width!r:.20} bytes")
        held = n * width + sum(view.nbytes for view in self.unpacked.values())
        afford(self.path, held, self.size, f"packed views of {held:,} bytes")
        rows = meshopt.decode(self._stored(about, "a packed view"), n, width)
        out = meshopt.unfiltered(rows, about.get("filter", meshopt.NO_FILTER))
        return memoryview(out.reshape(-1).data)

    def _stored(self, view: dict[str, Any], name: str) -> memoryview:
        """Bytes of the binary chunk."""
        if view.get("buffer", 0) != 0 or "uri" in self.item("buffers", 0):
            raise InputError(f"{self.path} stores its numbers in other files; save it as one .glb")
        start, length = view.get("byteOffset", 0), view.get("byteLength", -1)
        if not _is_index(start, len(self.data) + 1) or not _is_index(
            length, len(self.data) - start + 1
        ):
            raise self.wrong(f"{name} reaches beyond its {len(self.data):,} bytes")
        return self.data[start : start + length]

    def array(self, index: object, width: int) -> Array:
        """An accessor's rows ``(n, width)`` as stored, without a copy."""
        accessor = self.item("accessors", index)
        kind = np.dtype(COMPONENTS.get(accessor.get("componentType", 0), "V1"))
        if kind.kind == "V" or WIDTHS.get(accessor.get("type", "")) != width:
            raise self.wrong(f"accessors[{index}] does not have {width} numbers per row")
        if "bufferView" not in accessor or "sparse" in accessor:
            raise InputError(
                f"{self.path}: accessors[{index}] has no plain numbers, or sparse ones"
            )
        data = self.view(accessor["bufferView"])
        row = kind.itemsize * width
        stride = self.item("bufferViews", accessor["bufferView"]).get("byteStride", row)
        start, count = accessor.get("byteOffset", 0), accessor.get("count", -1)
        inside = (
            _is_index(stride, 1 << 16) and stride >= row and _is_index(start, len(data) + 1)
            and _is_index(count, len(data) + 1)
            and (count == 0 or start + (count - 1) * stride + row <= len(data))
        )  # fmt: skip
        if not inside:
            raise self.wrong(f"accessors[{index}] reaches beyond its view of {len(data):,} bytes")
        return np.ndarray((count, width), kind, data, start, (stride, kind.itemsize))

    def floats(self, index: object, width: int) -> npt.NDArray[np.float32]:
        """An accessor's rows in float32, with normalised integers as fractions."""
        rows = self.array(index, width)
        if rows.dtype.kind == "f":
            return np.array(rows, np.float32)  # a copy: the file may be closed or overwritten
        if not self.item("accessors", index).get("normalized"):
            return rows.astype(np.float32)
        return np.maximum(rows / np.float32(np.iinfo(rows.dtype).max), np.float32(-1))


def _is_index(x: object, end: int) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and 0 <= x < end


def open_glb(path: Path) -> Glb:
    """Map a file and parse its header and chunks."""
    data = memoryview(path.read_bytes())  # not mapped: a file cut meanwhile would kill the process
    if len(data) < 20 or data[:4] != MAGIC or struct.unpack_from("<I", data, 4) != (VERSION,):
        raise InputError(f"{path} is not a binary glTF 2.0 file")
    found: dict[bytes, memoryview] = {}
    at = 12
    while at + 8 <= len(data) and len(found) < 16:
        size, kind = struct.unpack_from("<I4s", data, at)
        if at + 8 + size > len(data):
            raise InputError(f"{path}: a chunk of {size:,} bytes is cut off; it is damaged")
        found.setdefault(kind, data[at + 8 : at + 8 + size])
        at += 8 + size
    return Glb(path, _tree(path, found.get(JSON_CHUNK)), found.get(BIN_CHUNK, data[:0]), len(data))


def _tree(path: Path, chunk: memoryview | None) -> dict[str, Any]:
    tree = None if chunk is None else parsed_json(path, bytes(chunk[: JSON_BYTES + 1]))
    if not isinstance(tree, dict):
        raise InputError(f"{path}: its JSON is not an object; it is damaged")
    return tree


def _is_ours(file: Glb) -> bool:
    asset = file.tree.get("asset")
    return isinstance(asset, dict) and asset.get("generator") == GENERATOR


def _axes(file: Glb) -> str:
    return OURS if _is_ours(file) else GLTF_AXES


def _scene(file: Glb) -> GaussianScene:
    """All Gaussians of the scene, in the order of its nodes."""
    found: list[GaussianScene] = []
    bytes_needed = 0
    for node, M in _walked(file):
        if "mesh" not in node or _is_shadow(node):
            continue
        for i, primitive in enumerate(file.item("meshes", node["mesh"]).get("primitives", [])):
            if SPLATS not in primitive.get("extensions", {}):
                continue
            scene = _primitive_once(file, node["mesh"], i, primitive)
            if len(found) >= MOST_PARTS:
                raise InputError(f"{file.path}: expected up to {MOST_PARTS:,} parts of Gaussians")
            bytes_needed += len(scene) * (GAUSSIAN_BYTES - 12 + 12 * scene.sh.shape[1])
            afford(file.path, bytes_needed, file.size, "Gaussians again and again")
            found.append(_placed(file, scene.replace(ids=_ids(node, len(scene))), M))
    if not found:
        raise InputError(f"{file.path} contains no Gaussians: no primitive with {SPLATS}")
    return join(*found)


def _ids(node: dict[str, Any], n: int) -> Tensor:
    """The object ids of our own files."""
    extras = node.get("extras")
    index = extras.get("object") if isinstance(extras, dict) else None
    return torch.full((n,), index if _is_index(index, 1 << 31) else BACKGROUND)  # type: ignore[arg-type]


def _is_shadow(node: dict[str, Any]) -> bool:
    """Whether it is the shadow of an object, in our own files."""
    extras = node.get("extras")
    return isinstance(extras, dict) and "shadow" in extras


def _walked(file: Glb) -> Iterator[tuple[dict[str, Any], Tensor]]:
    """Every node of the scene once, with its global matrix ``(4, 4)``."""
    roots = file.item("scenes", file.tree.get("scene", 0)).get("nodes", [])
    waiting = [(index, torch.eye(4).double(), True) for index in reversed(roots)]
    seen: set[int] = set()
    while waiting:
        index, above, is_root = waiting.pop()
        node = file.item("nodes", index)
        if index in seen or len(seen) > MOST_NODES:
            raise file.wrong("its nodes form a loop")
        seen.add(index)
        upright = is_root and node.get("name") == ROOT and _is_ours(file)
        M = above if upright else above @ _local(file, node)
        yield node, M
        waiting += [(child, M, False) for child in reversed(node.get("children", []))]


def _local(file: Glb, node: dict[str, Any]) -> Tensor:
    """The local matrix ``(4, 4)`` of a node."""
    if "matrix" in node:
        return _numbers(file, node["matrix"], 16).view(4, 4).mT
    t, q, s = (_numbers(file, node.get(k, x), len(x)) for k, x in REST.items())
    M = torch.eye(4).double()
    M[:3, :3] = rotations.to_matrix(rotations.normalize(q.roll(1))) * s
    M[:3, 3] = t
    return M


def _numbers(file: Glb, x: object, n: int) -> Tensor:
    good = isinstance(x, list) and len(x) == n and all(isinstance(v, int | float) for v in x)
    if not good or not all(abs(v) < 1e30 for v in x):  # type: ignore[attr-defined]
        raise file.wrong(f"expected {n} numbers in a node, got {x!r:.40}")
    return torch.tensor(x, dtype=torch.float64)


def _primitive_once(file: Glb, mesh: int, index: int, primitive: dict[str, Any]) -> GaussianScene:
    """The Gaussians of a primitive, which any number of nodes may show."""
    if (mesh, index) not in file.primitives:
        file.primitives[mesh, index] = _primitive(file, primitive)
    return file.primitives[mesh, index]


def _primitive(file: Glb, primitive: dict[str, Any]) -> GaussianScene:
    """The Gaussians of one primitive, in local coordinates."""
    about = primitive["extensions"][SPLATS]
    inner = about.get("extensions", {}) | primitive["extensions"]
    for name, x in inner.items():
        if name.startswith(SPZ_PREFIX):
            return spz.unpacked_spz(file.path, bytes(file.view(x.get("bufferView"))))
    if about.get("colorSpace") == LINEAR:
        warnings.warn(f"{file.path}: its colours are linear and will look dark", stacklevel=2)
    named = {k.removeprefix(f"{SPLATS}:"): i for k, i in primitive["attributes"].items()}
    wanted = {"POSITION": 3, "ROTATION": 4, "SCALE": 3, "OPACITY": 1, "SH_DEGREE_0_COEF_0": 3}
    for name in wanted:
        if name not in named:
            raise file.wrong(f"a primitive of Gaussians lacks {name}")
    means, quats, scales, opacities, _ = (file.floats(named[k], w) for k, w in wanted.items())
    if len({len(means), len(quats), len(scales), len(opacities)}) > 1:
        raise file.wrong("the attributes of a primitive differ in length")
    return usable(
        file.path,
        means=torch.from_numpy(means),
        quats=torch.from_numpy(quats).roll(1, -1),
        log_scales=torch.from_numpy(scales).clamp_min(SCALE_FLOOR).log(),
        logits=opacity_to_logit(torch.from_numpy(opacities[:, 0]).clamp(0, 1)),
        sh=torch.from_numpy(_harmonics(file, named, len(means))),
    )


def _harmonics(file: Glb, named: dict[str, int], n: int) -> npt.NDArray[np.float32]:
    """Coefficients ``(n, K, 3)`` of the degrees that are complete."""
    slots = [[f"SH_DEGREE_{d}_COEF_{i}" for i in range(2 * d + 1)] for d in range(4)]
    whole = [all(name in named for name in degree) for degree in slots]
    names = [name for d, degree in enumerate(slots) if all(whole[: d + 1]) for name in degree]
    sh = np.empty((n, len(names), 3), np.float32)
    for k, name in enumerate(names):
        rows = file.floats(named[name], 3)
        if len(rows) != n:
            raise file.wrong("the attributes of a primitive differ in length")
        sh[:, k] = rows
    return sh


def _placed(file: Glb, scene: GaussianScene, M: Tensor) -> GaussianScene:
    """The Gaussians ``A x + b`` with ``A Sigma A^T``; colour is rotated with A."""
    A, b = M[:3, :3], M[:3, 3]
    if (M - torch.eye(4).to(M)).abs().amax() < STILL * (1 + b.abs().amax()):
        return scene
    mirror = torch.linalg.det(A).sign()
    U, s, Vh = torch.linalg.svd(mirror * A)
    if not mirror or float(s.min()) < 1e-12 * float(s.max()):
        raise InputError(f"{file.path}: a node flattens its Gaussians; give it a scale above 0")
    R = U @ Vh
    quats, log_scales = _shapes(scene, mirror * A, R, s)
    return scene.replace(
        means=(scene.means.double() @ A.mT + b).to(scene.means),
        quats=quats.to(scene.means),
        log_scales=log_scales.to(scene.means),
        sh=turned_colour(scene.sh, mirror * R),
    )


def _shapes(scene: GaussianScene, A: Tensor, R: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """Quaternions and log scales of ``A Sigma A^T``; ``R, s`` are A's rotation and scales."""
    if float(s.max()) < (1 + ROUND) * float(s.min()):
        q = rotations.from_matrix(R).to(scene.quats)
        turned = rotations.multiply(q.expand_as(scene.quats), scene.quats)
        return turned, scene.log_scales + math.log(float(s.mean()))
    axes = rotations.to_matrix(scene.quats.double()) * scene.scales.double().unsqueeze(-2)
    U, scales = principal_axes(A @ axes)
    return rotations.from_matrix(U), scales.clamp_min(SCALE_FLOOR).log()


# --- writing --------------------------------------------------------------------------------------


EXTENSION = {
    "kernel": "ellipse",
    "colorSpace": "srgb_rec709_display",
    "sortingMethod": "cameraDistance",
    "projection": "perspective",
}
UNSIGNED_BYTE, SHORT, FLOAT, ARRAY_BUFFER, POINTS = 5121, 5122, 5126, 34962, 0
TYPES = {1: "SCALAR", 3: "VEC3", 4: "VEC4"}
LARGEST_LENGTH = 2**32 - 1  # bytes: lengths in the header have 32 bits
UPRIGHT = [1.0, 0.0, 0.0, 0.0]  # half a turn about x: y is down in captures and up in glTF

PLACE = 0.1  # rounding of a mean, in sizes of a Gaussian at the 10th percentile
ROTATION_BITS, SCALE_BITS, COLOUR_EXPONENT = 9, 7, -6
GAUSSIANS_PER_ENTRY, LEAST_ENTRIES, MOST_ENTRIES = 64, 8192, 65536  # of the palette
SAMPLE = 100_000

Floats = npt.NDArray[np.float32]


def write(
    scene: GaussianScene, path: Path, tell: Progress = silent, *, compress: bool = False
) -> None:
    """Write a static scene as ``.glb``; object ids are lost.

    Viewers show it upright if its y points down, as in captures; :func:`newtongs.load` returns it
    in its own axes.
    """
    if not len(scene):
        raise InputError(f"{path}: this format cannot store an empty scene; write a .ply")
    file = Document({}, UPRIGHT, compress=compress)
    file.add_node({"name": "still", "mesh": file.add_mesh("still", scene, tell)})
    data = file.to_bytes()
    write_atomically(path, lambda f: f.writelines(data))


class Document:
    """A glTF file under construction: the JSON tree and the arrays it refers to."""

    def __init__(
        self, extras: dict[str, Any], rotation: Sequence[float], *, compress: bool = False
    ) -> None:
        self.compress = compress
        self.arrays: list[Array] = []
        self.bytes, self.unpacked = 0, 0  # in the file, and decompressed
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
        """Add a node under another; returns its index."""
        self.tree["nodes"].append(node)
        index = len(self.tree["nodes"]) - 1
        self.tree["nodes"][parent].setdefault("children", []).append(index)
        return index

    def add_array(self, x: Tensor, *, bounds: bool = False, target: int | None = None) -> int:
        """Add an accessor for ``x (n,)`` or ``(n, 3 or 4)`` in float32; returns its index."""
        array = x.detach().float().cpu().numpy().reshape(len(x), -1)  # of a scene: a view
        view = {"buffer": 0, "byteOffset": self.bytes, "byteLength": array.nbytes}
        self._append(array)
        self.tree["bufferViews"].append(view | ({} if target is None else {"target": target}))
        return self._add_accessor(array, FLOAT, array if bounds else None)

    def _append(self, array: Array) -> None:
        """Append an array to the binary chunk, aligned to four bytes."""
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
        """Add a mesh with one primitive of Gaussians; returns its index."""
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
        """The attributes of the table above; Gaussians of one palette entry are consecutive."""
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
        """Add numbers for the EXPONENTIAL filter; returns the accessor's index."""
        self._add_stream(x, meshopt.EXPONENTIAL)
        decoded = meshopt.to_floats(np.ascontiguousarray(x).view(np.uint8)) if bounds else None
        return self._add_accessor(x, FLOAT, decoded)

    def _add_quaternions(self, x: Array) -> int:
        self._add_stream(x, meshopt.QUATERNION)
        return self._add_accessor(x, SHORT, None, normalized=True)

    def _add_bytes(self, x: Array) -> int:
        """Add fractions ``(n,)`` in 8 bits; rows have at least four bytes, so three are empty."""
        rows = np.zeros((len(x), 4), np.uint8)
        rows[:, 0] = np.rint(255 * x)
        self._add_stream(rows, meshopt.NO_FILTER)
        return self._add_accessor(rows[:, :1], UNSIGNED_BYTE, None, normalized=True)

    def _add_stream(self, rows: Array, filter: str) -> None:
        """Add a buffer view that decodes to the rows, with its description for the extension."""
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

    def to_bytes(self) -> Iterator[bytes | memoryview]:
        """The parts of the file: header, JSON, arrays, each made when it is asked for."""
        if not self.compress:
            return packed(self.tree, self.arrays)
        names = [*self.tree["extensionsUsed"], meshopt.NAME]
        fallback = {"byteLength": self.unpacked, "extensions": {meshopt.NAME: {"fallback": True}}}
        tree = self.tree | {"extensionsUsed": names, "extensionsRequired": [meshopt.NAME]}
        return packed(tree, self.arrays, [fallback])


def packed(
    tree: dict[str, Any], arrays: Sequence[Array], more: Sequence[dict[str, Any]] = ()
) -> Iterator[bytes | memoryview]:
    """The parts of a .glb: header, JSON, and the arrays of its buffer views in order.

    ``more`` are buffers besides the binary chunk. Arrays may be views of a scene: each is copied
    only while it is written.
    """
    size = sum(a.nbytes for a in arrays)
    tree = tree | {"buffers": [{"byteLength": size}, *more]}
    text = json.dumps(tree, allow_nan=False, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 4)
    total = 12 + 8 + len(text) + 8 + size
    if total > LARGEST_LENGTH:
        raise InputError(f"a .glb has at most 4 GiB, this one needs {total / 2**30:.1f}")
    head = [
        MAGIC + struct.pack("<II", VERSION, total),
        struct.pack("<I", len(text)) + JSON_CHUNK + text,
        struct.pack("<I", size) + BIN_CHUNK,
    ]
    return chain(head, (np.ascontiguousarray(a).data.cast("B") for a in arrays if a.nbytes))


def attribute_arrays(scene: GaussianScene) -> dict[str, Tensor]:
    """The attributes of the extension by semantic, without its prefix."""
    out = {
        "ROTATION": xyzw(scene.quats),
        "SCALE": scene.scales,
        "OPACITY": scene.opacities,
    }
    for k, (degree, n) in enumerate(sh_slots(scene.sh_degree)):
        out[f"SH_DEGREE_{degree}_COEF_{n}"] = scene.sh[:, k]
    return out


def sh_slots(degree: int) -> list[tuple[int, int]]:
    """Degree and index within it of every coefficient, in the order of the scene."""
    slots = [(d, n) for d in range(degree + 1) for n in range(2 * d + 1)]
    assert len(slots) in SH_DEGREES
    return slots


def xyzw(q: Quat) -> Tensor:
    """Scalar-first quaternions ``(..., 4)`` in the order of the file."""
    return q.roll(-1, -1)


def _palette(scene: GaussianScene, tell: Progress) -> tuple[Array, npt.NDArray[np.int64]]:
    """View-dependent colours ``(entries, K, 3)`` for the filter, and labels of the Gaussians."""
    n, rest = len(scene), scene.sh.flatten(1)[:, 3:]
    if not rest.shape[1]:
        return np.empty((1, 0, 3), np.int32), np.zeros(n, np.int64)
    entries = min(MOST_ENTRIES, max(LEAST_ENTRIES, n // GAUSSIANS_PER_ENTRY))
    found, labels = palette(rest, entries, tell=tell)
    values = meshopt.fixed_point(found.numpy(), COLOUR_EXPONENT)
    return values.reshape(len(values), -1, 3), labels.numpy()


def _ranks(means: Floats) -> npt.NDArray[np.int64]:
    """Position of each Gaussian along a space-filling curve."""
    order = morton_order(means)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _place_exponent(scene: GaussianScene) -> int:
    """Exponent of the power of two to which means are rounded."""
    some = scene.scales[:: max(1, len(scene) // SAMPLE)].amax(1)
    small = max(float(some.quantile(0.1)), 1e-30)
    reach = max(float(scene.means.abs().amax()), 1e-30)
    return max(math.floor(math.log2(PLACE * small)), math.frexp(reach)[1] - 23)
