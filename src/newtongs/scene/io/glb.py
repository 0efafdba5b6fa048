"""Binary glTF 2.0 with ``KHR_gaussian_splatting``, ours and others': the Gaussians as they rest.

Every primitive with the extension is read, and moved by the nodes above it. An animation is left
aside: what stands in the nodes counts, which in our own files is frame 0. glTF's axes are LUF (y is
up, z to the front). Our own files come back in the axes of the scene they were made of: their root
node only turned it upright, and is left out.

Attributes may be floats or normalised integers. A primitive packed as SPZ
(``KHR_gaussian_splatting_compression_spz_2`` and its relatives) and buffer views packed with
``EXT_meshopt_compression`` are unpacked.
"""

import math
import mmap
import struct
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ... import rotations
from ...errors import InputError
from ...files import foreign
from ...limits import JSON_BYTES, afford, parsed_json
from ..gaussians import BACKGROUND, SCALE_FLOOR, GaussianScene, join, opacity_to_logit
from ..transform import principal_axes
from . import meshopt, packed
from .axes import OURS, to_ours, turned_colour
from .usable import usable

MAGIC, VERSION, JSON_CHUNK, BIN_CHUNK = b"glTF", 2, b"JSON", b"BIN\0"
GLTF_AXES = "LUF"
SPLATS = "KHR_gaussian_splatting"
SPZ_PREFIX = "KHR_gaussian_splatting_compression_spz"
LINEAR = "lin_rec709_display"
ROOT, GENERATOR = "root", "newtongs"  # of our own files
COMPONENTS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5126: "<f4"}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4}
MOST_NODES = 100_000
GAUSSIAN_BYTES = 56  # of a scene without view-dependent colour
REST = {"translation": [0.0] * 3, "rotation": [0.0, 0.0, 0.0, 1.0], "scale": [1.0] * 3}
STILL = 1e-9  # a matrix this near to the identity moves nothing
ROUND = 1e-6  # spread of singular values up to which a map scales all directions alike

Array = npt.NDArray[Any]


def read(path: Path, axes: str | None = None) -> GaussianScene:
    """The Gaussians in our axes; ``axes`` overrides those of glTF."""
    with foreign(path, "glTF with Gaussians"):
        file = open_glb(path)
        return to_ours(_scene(file), axes or _axes(file))


def axes_of(path: Path) -> str:
    """The axes that :func:`read` takes a file to be in."""
    with foreign(path, "glTF with Gaussians"):
        return _axes(open_glb(path))


class Glb(NamedTuple):
    """A file taken apart: its JSON, and the bytes that it points at."""

    path: Path
    tree: dict[str, Any]
    data: memoryview
    size: int

    def wrong(self, why: str) -> InputError:
        """An error that says what is wrong with the file."""
        return InputError(f"{self.path}: {why}; it is damaged")

    def item(self, kind: str, index: object) -> dict[str, Any]:
        """An entry of one of the lists of the JSON."""
        items = self.tree.get(kind)
        if (
            not isinstance(items, list)
            or not _is_index(index, len(items))
            or not isinstance(items[index], dict)  # type: ignore[call-overload]
        ):
            raise self.wrong(f"{kind}[{index!r:.20}] is named but not there")
        return items[index]  # type: ignore[call-overload]

    def view(self, index: object) -> memoryview:
        """Bytes of a buffer view."""
        view = self.item("bufferViews", index)
        for name, about in view.get("extensions", {}).items():
            if name == meshopt.NAME:
                return self._unpacked(about)
            if "meshopt" in name:
                raise InputError(f"{self.path} is packed with {name}, which is not read")
        return self._stored(view, f"bufferViews[{index}]")

    def _unpacked(self, about: dict[str, Any]) -> memoryview:
        """Bytes of a view that was packed with meshopt."""
        if about.get("mode") != meshopt.ATTRIBUTES:
            raise InputError(f"{self.path}: meshopt mode {about.get('mode')!r:.20} is not known")
        n, width = about.get("count", -1), about.get("byteStride", -1)
        if not _is_index(n, 1 << 32) or not _is_index(width, meshopt.WIDEST + 1):
            raise self.wrong(f"{n!r:.20} rows of {width!r:.20} bytes are packed in a view")
        rows = meshopt.decode(self._stored(about, "a packed view"), n, width)
        out = meshopt.unfiltered(rows, about.get("filter", meshopt.NO_FILTER))
        return memoryview(out.reshape(-1).data)

    def _stored(self, view: dict[str, Any], name: str) -> memoryview:
        """Bytes of the binary chunk."""
        if view.get("buffer", 0) != 0 or "uri" in self.item("buffers", 0):
            raise InputError(f"{self.path} keeps its numbers in other files; save it as one .glb")
        start, length = view.get("byteOffset", 0), view.get("byteLength", -1)
        if not _is_index(start, len(self.data) + 1) or not _is_index(
            length, len(self.data) - start + 1
        ):
            raise self.wrong(f"{name} reaches beyond its {len(self.data):,} bytes")
        return self.data[start : start + length]

    def array(self, index: object, width: int) -> Array:
        """An accessor's rows ``(n, width)`` as they are stored, without a copy."""
        accessor = self.item("accessors", index)
        kind = np.dtype(COMPONENTS.get(accessor.get("componentType", 0), "V1"))
        if kind.kind == "V" or WIDTHS.get(accessor.get("type", "")) != width:
            raise self.wrong(f"accessors[{index}] is not of {width} numbers a row")
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
        """An accessor's rows in float32, integers as the fractions they stand for."""
        rows = self.array(index, width)
        if rows.dtype.kind == "f":
            return np.array(rows, np.float32)  # a copy: the file may be closed or written over
        if not self.item("accessors", index).get("normalized"):
            return rows.astype(np.float32)
        return np.maximum(rows / np.float32(np.iinfo(rows.dtype).max), np.float32(-1))


def _is_index(x: object, end: int) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and 0 <= x < end


def open_glb(path: Path) -> Glb:
    """Header and chunks, mapped and not read."""
    with path.open("rb") as f:
        data = memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ))
    if len(data) < 20 or data[:4] != MAGIC or struct.unpack_from("<I", data, 4) != (VERSION,):
        raise InputError(f"{path} is no binary glTF 2.0 file")
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
        raise InputError(f"{path}: its JSON is no object; it is damaged")
    return tree


def _is_ours(file: Glb) -> bool:
    asset = file.tree.get("asset")
    return isinstance(asset, dict) and asset.get("generator") == GENERATOR


def _axes(file: Glb) -> str:
    return OURS if _is_ours(file) else GLTF_AXES


def _scene(file: Glb) -> GaussianScene:
    """All Gaussians below the scene's nodes, in the order of the nodes."""
    found, bytes_needed = [], 0
    for node, M in _walked(file):
        if "mesh" not in node or _is_shadow(node):
            continue
        for primitive in file.item("meshes", node["mesh"]).get("primitives", []):
            if SPLATS not in primitive.get("extensions", {}):
                continue
            scene = _primitive(file, primitive)
            bytes_needed += len(scene) * (GAUSSIAN_BYTES - 12 + 12 * scene.sh.shape[1])
            afford(file.path, bytes_needed, file.size, "Gaussians again and again")
            found.append(_placed(file, scene.replace(ids=_ids(node, len(scene))), M))
    if not found:
        raise InputError(f"{file.path} holds no Gaussians: no primitive with {SPLATS}")
    return join(*found)


def _ids(node: dict[str, Any], n: int) -> Tensor:
    """The object that our own files name."""
    extras = node.get("extras")
    index = extras.get("object") if isinstance(extras, dict) else None
    return torch.full((n,), index if _is_index(index, 1 << 31) else BACKGROUND)  # type: ignore[arg-type]


def _is_shadow(node: dict[str, Any]) -> bool:
    """Whether it only darkens what is under an object, in a file of ours."""
    extras = node.get("extras")
    return isinstance(extras, dict) and "shadow" in extras


def _walked(file: Glb) -> Iterator[tuple[dict[str, Any], Tensor]]:
    """Every node of the scene once, with its matrix ``(4, 4)``, those above included."""
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
    """A node's own matrix ``(4, 4)``."""
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
        raise file.wrong(f"a node should have {n} numbers, it has {x!r:.40}")
    return torch.tensor(x, dtype=torch.float64)


def _primitive(file: Glb, primitive: dict[str, Any]) -> GaussianScene:
    """The Gaussians of one primitive, before its node moves them."""
    about = primitive["extensions"][SPLATS]
    inner = about.get("extensions", {}) | primitive["extensions"]
    for name, x in inner.items():
        if name.startswith(SPZ_PREFIX):
            return packed.unpacked_spz(file.path, bytes(file.view(x.get("bufferView"))))
    if about.get("colorSpace") == LINEAR:
        warnings.warn(f"{file.path}: its colours are linear light and come out dark", stacklevel=2)
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
    """Coefficients ``(n, K, 3)`` of the degrees that are there whole."""
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
    """The Gaussians ``A x + b`` with ``A Sigma A^T``; colour turns with A's rotation."""
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
