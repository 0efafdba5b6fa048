"""glTF 2.0 binary with ``KHR_gaussian_splatting``: Gaussians once, and one transform a frame.

The nodes are::

    root          turns the scene's up into glTF's +y
      still       Gaussians that never move
      object_7    T(p_t) R(q_t) S(rho_t), animated
        splats    R(q_0)^T T(-p_0), fixed, with the object's Gaussians

The product of an object's two nodes is its affine map ``A_t x + b_t``. A single node could not
hold it: turning, stretching and turning back is a shear. The extension draws ``M Sigma M^T``.

Everything is float32: 56 bytes a Gaussian without view-dependent colour, 12 more for each further
coefficient.
"""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from .. import rotations
from ..errors import InputError
from ..files import write_atomically
from ..scene.animation import Animation, Placement
from ..scene.gaussians import SH_DEGREES, GaussianScene
from ..types import Quat
from .parts import Part, parts, provenance, to_json

SPLATS = "KHR_gaussian_splatting"
EXTENSION = {
    "kernel": "ellipse",
    "colorSpace": "srgb_rec709_display",
    "sortingMethod": "cameraDistance",
    "projection": "perspective",
}
MAGIC, VERSION, JSON_CHUNK, BIN_CHUNK = b"glTF", 2, b"JSON", b"BIN\0"
FLOAT, ARRAY_BUFFER, POINTS = 5126, 34962, 0
TYPES = {1: "SCALAR", 3: "VEC3", 4: "VEC4"}
LARGEST = 2**32 - 1  # bytes: lengths in the header have 32 bits

Floats = npt.NDArray[np.float32]


def write_glb(animation: Animation, path: Path | str, *, sh_degree: int | None = None) -> None:
    """Write the animation as ``.glb``, for Babylon.js, PlayCanvas and three.js.

    Args:
        animation: what moves.
        path: file to write; it appears whole or not at all.
        sh_degree: cut view-dependent colour off above this degree, for a smaller file.
    """
    file = _Document(animation)
    for part in parts(animation, sh_degree=sh_degree):
        mesh = file.add_mesh(part.name, part.scene)
        file.add_part(part, mesh)
    data = file.to_bytes()
    write_atomically(Path(path), lambda f: f.writelines(data))


def xyzw(q: Quat) -> Tensor:
    """Scalar-first quaternions ``(..., 4)`` as the file has them."""
    return q.roll(-1, -1)


class _Document:
    """A glTF file in the making: the JSON tree and the arrays it points at."""

    def __init__(self, animation: Animation) -> None:
        self.animation = animation
        self.arrays: list[Floats] = []
        self.tree: dict[str, Any] = {
            "asset": {
                "version": "2.0",
                "generator": "newtongs",
                "extras": provenance(animation),
            },
            "extensionsUsed": [SPLATS],
            "scene": 0,
            "scenes": [{"nodes": [0]}],
            "nodes": [
                {"name": "root", "rotation": _list(xyzw(animation.world.rotation)), "children": []}
            ],
            "meshes": [],
            "accessors": [],
            "bufferViews": [],
        }
        self.samplers: list[dict[str, Any]] = []
        self.channels: list[dict[str, Any]] = []
        self.moves = len(animation) > 1 and bool(animation.states)
        self.clock = self.add_array(animation.times, bounds=True) if self.moves else -1

    def add_array(self, x: Tensor, *, bounds: bool = False, target: int | None = None) -> int:
        """An accessor over ``x (n,)`` or ``(n, 3 or 4)``; its index."""
        array = np.ascontiguousarray(x.detach().cpu().numpy(), dtype=np.float32)
        rows = array.reshape(len(array), -1)
        offset = sum(a.nbytes for a in self.arrays)
        view = {"buffer": 0, "byteOffset": offset, "byteLength": array.nbytes}
        accessor: dict[str, Any] = {
            "bufferView": len(self.tree["bufferViews"]),
            "componentType": FLOAT,
            "count": len(rows),
            "type": TYPES[rows.shape[1]],
        }
        if bounds:
            accessor |= {"min": rows.min(0).tolist(), "max": rows.max(0).tolist()}
        self.arrays.append(array)
        self.tree["bufferViews"].append(view | ({} if target is None else {"target": target}))
        self.tree["accessors"].append(accessor)
        return len(self.tree["accessors"]) - 1

    def add_mesh(self, name: str, scene: GaussianScene) -> int:
        """One primitive of Gaussians; the mesh's index."""
        attributes = {"POSITION": self.add_array(scene.means, bounds=True, target=ARRAY_BUFFER)}
        for semantic, x in attribute_arrays(scene).items():
            attributes[f"{SPLATS}:{semantic}"] = self.add_array(x, target=ARRAY_BUFFER)
        primitive = {
            "attributes": attributes,
            "mode": POINTS,
            "extensions": {SPLATS: dict(EXTENSION)},
        }
        self.tree["meshes"].append({"name": name, "primitives": [primitive]})
        return len(self.tree["meshes"]) - 1

    def add_node(self, node: dict[str, Any], *, parent: int = 0) -> int:
        """A node under another; its index."""
        self.tree["nodes"].append(node)
        index = len(self.tree["nodes"]) - 1
        self.tree["nodes"][parent].setdefault("children", []).append(index)
        return index

    def add_part(self, part: Part, mesh: int) -> None:
        """One node of what stands still, two of what moves; a shadow says whose it is."""
        if part.placement is None:
            self.add_node({"name": part.name, "mesh": mesh})
            return
        extras = {"object": part.id} if part.shadow_of is None else {"shadow": part.shadow_of}
        self.add_moving(part.name, mesh, part.placement, extras)

    def add_moving(self, name: str, mesh: int, place: Placement, extras: dict[str, Any]) -> None:
        """The two nodes of what moves, and the tracks of the outer one."""
        tracks = {
            "translation": place.translation,
            "rotation": xyzw(place.rotation),
            "scale": place.scale,
        }
        outer = self.add_node({"name": name} | {k: _list(x[0]) for k, x in tracks.items()})
        inner = {
            "name": f"{name}_splats",
            "mesh": mesh,
            "rotation": _list(xyzw(place.inner_rotation)),
            "translation": _list(_turned(place.inner_rotation, place.inner_translation)),
            "extras": extras,
        }
        self.add_node(inner, parent=outer)
        if self.moves:
            for target, x in tracks.items():
                self.add_track(outer, target, x)

    def add_track(self, node: int, target: str, x: Tensor) -> None:
        """One animated property of a node, linear between frames (spherical for rotations)."""
        sampler = {"input": self.clock, "output": self.add_array(x), "interpolation": "LINEAR"}
        self.samplers.append(sampler)
        self.channels.append(
            {"sampler": len(self.samplers) - 1, "target": {"node": node, "path": target}}
        )

    def to_bytes(self) -> list[bytes | memoryview]:
        """The file in pieces: header, JSON, arrays."""
        if self.channels:
            motion = {"name": "motion", "samplers": self.samplers, "channels": self.channels}
            self.tree["animations"] = [motion]
        return packed(self.tree, self.arrays)


def packed(tree: dict[str, Any], arrays: Sequence[npt.NDArray[Any]]) -> list[bytes | memoryview]:
    """A .glb in pieces: header, JSON, and the arrays that its buffer views point at, in order."""
    size = sum(a.nbytes for a in arrays)
    text = to_json(tree | {"buffers": [{"byteLength": size}]}).encode()
    text += b" " * (-len(text) % 4)
    total = 12 + 8 + len(text) + 8 + size
    if total > LARGEST:
        raise InputError(f"a .glb holds at most 4 GiB, this one needs {total / 2**30:.1f}")
    return [
        MAGIC + struct.pack("<II", VERSION, total),
        struct.pack("<I", len(text)) + JSON_CHUNK + text,
        struct.pack("<I", size) + BIN_CHUNK,
        *(a.data.cast("B") for a in arrays),
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


def _turned(q: Quat, x: Tensor) -> Tensor:
    """``R(q) x``: a node translates after it turns, so ``R T(x)`` is ``T(R x) R``."""
    return rotations.rotate(q, x)


def _list(x: Tensor) -> list[float]:
    return [float(v) for v in x.double()]
