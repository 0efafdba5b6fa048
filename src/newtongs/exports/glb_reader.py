"""Read a ``.glb`` of animated Gaussians back: what a viewer would see, frame by frame."""

import json
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .. import rotations
from ..errors import InputError
from ..files import existing_file, foreign
from ..scene.gaussians import BACKGROUND, GaussianScene, join
from ..types import Quat, Times, Vec3
from .glb import BIN_CHUNK, JSON_CHUNK, MAGIC, SPLATS, VERSION, sh_slots

COMPONENTS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5126: "<f4"}
WIDTHS = {"SCALAR": 1, "VEC3": 3, "VEC4": 4}
DEPTH = 64  # of the node tree; deeper is a loop

Numbers = npt.NDArray[np.float64]


class Tracks(NamedTuple):
    """Where a file puts its Gaussians."""

    times: Times
    """Seconds ``(T,)``."""
    matrices: dict[int, Tensor]
    """``(T, 4, 4)`` in float64 by object id, every node above included; -1 is what stands still."""
    root: Tensor
    """``(4, 4)`` of the topmost node, which turns the scene upright."""

    def place(self, scene: GaussianScene, t: int) -> tuple[Vec3, Tensor]:
        """Means ``(N, 3)`` and covariances ``(N, 3, 3)`` of frame ``t`` as a viewer has them."""
        ids, which = scene.ids.unique(return_inverse=True)
        M = torch.stack([self.matrices[i][t] for i in ids.tolist()])[which]
        A, b = M[:, :3, :3], M[:, :3, 3]
        means = (A @ scene.means.double().unsqueeze(-1)).squeeze(-1) + b
        m = rotations.to_matrix(scene.quats.double()) * scene.scales.double().unsqueeze(-2)
        return means, (A @ m) @ (A @ m).mT


def read_glb(path: Path | str) -> tuple[GaussianScene, Tracks]:
    """The Gaussians of a file that :func:`write_glb` wrote, and their motion.

    The Gaussians stand in the order still, then object by object; shadows are left out.
    """
    path = existing_file(path, "a file of Gaussians")
    with foreign(path, "glTF with Gaussians"):
        return _Reader(*_chunks(path)).read()


def _chunks(path: Path) -> tuple[dict[str, Any], bytes]:
    """The JSON tree and the binary chunk."""
    data = path.read_bytes()
    if data[:4] != MAGIC or struct.unpack_from("<I", data, 4) != (VERSION,):
        raise InputError(f"{path} is no binary glTF 2.0 file")
    found, at = {}, 12
    while at + 8 <= len(data):
        size, kind = struct.unpack_from("<I4s", data, at)
        found[kind] = data[at + 8 : at + 8 + size]
        at += 8 + size
    return json.loads(found[JSON_CHUNK]), found.get(BIN_CHUNK, b"")


class _Reader:
    def __init__(self, tree: dict[str, Any], data: bytes) -> None:
        self.tree, self.data = tree, data
        self.tracks: dict[tuple[int, str], Numbers] = {}
        self.times: Numbers = np.zeros(1)
        for animation in tree.get("animations", []):
            for channel in animation["channels"]:
                sampler, target = animation["samplers"][channel["sampler"]], channel["target"]
                self.times = self.array(sampler["input"])[:, 0]
                self.tracks[target["node"], target["path"]] = self.array(sampler["output"])

    def read(self) -> tuple[GaussianScene, Tracks]:
        scenes: list[GaussianScene] = []
        matrices: dict[int, Tensor] = {}
        roots = self.tree["scenes"][self.tree.get("scene", 0)]["nodes"]
        for root in roots:
            self._walk(root, torch.eye(4).double(), scenes, matrices, DEPTH)
        times = torch.from_numpy(self.times.copy())
        return join(*scenes), Tracks(times, matrices, self._local(roots[0])[0])

    def _walk(
        self,
        index: int,
        above: Tensor,
        scenes: list[GaussianScene],
        matrices: dict[int, Tensor],
        depth: int,
    ) -> None:
        """Collect the Gaussians of a node and of those below it."""
        if not depth:
            raise InputError("its nodes form a loop")
        node = self.tree["nodes"][index]
        here = above @ self._local(index)
        extras = node.get("extras", {})
        if "mesh" in node and "shadow" not in extras:
            name = int(extras.get("object", BACKGROUND))
            if name in matrices:
                raise InputError(f"two of its nodes hold object {name}")
            matrices[name] = here.expand(len(self.times), 4, 4)
            for primitive in self.tree["meshes"][node["mesh"]]["primitives"]:
                scenes.append(self._gaussians(primitive["attributes"], name))
        for child in node.get("children", []):
            self._walk(child, here, scenes, matrices, depth - 1)

    def _local(self, index: int) -> Tensor:
        """``T R S`` of a node, ``(T, 4, 4)`` or ``(1, 4, 4)``."""
        rest = {"translation": [0.0] * 3, "rotation": [0.0, 0.0, 0.0, 1.0], "scale": [1.0] * 3}
        node = self.tree["nodes"][index]
        t, q, s = (
            torch.from_numpy(self.tracks.get((index, k), np.array([node.get(k, x)], float)))
            for k, x in rest.items()
        )
        M = torch.eye(4).double().repeat(max(len(t), len(q), len(s)), 1, 1)
        M[:, :3, :3] = rotations.to_matrix(wxyz(q)) * s.unsqueeze(-2)
        M[:, :3, 3] = t
        return M

    def _gaussians(self, attributes: dict[str, int], index: int) -> GaussianScene:
        named = {k.removeprefix(f"{SPLATS}:"): self.array(i) for k, i in attributes.items()}
        degree = max(d for d, n in sh_slots(3) if f"SH_DEGREE_{d}_COEF_{n}" in named)
        sh = [named[f"SH_DEGREE_{d}_COEF_{n}"] for d, n in sh_slots(degree)]
        return GaussianScene.make(
            means=torch.from_numpy(named["POSITION"]),
            quats=wxyz(torch.from_numpy(named["ROTATION"])),
            scales=torch.from_numpy(named["SCALE"]),
            opacities=torch.from_numpy(named["OPACITY"][:, 0]),
            sh=torch.from_numpy(np.stack(sh, axis=1)),
            ids=index,
        )

    def array(self, index: int) -> Numbers:
        """An accessor's rows ``(n, width)`` in float64, with normalised integers as fractions."""
        accessor = self.tree["accessors"][index]
        view = self.tree["bufferViews"][accessor["bufferView"]]
        kind, width = np.dtype(COMPONENTS[accessor["componentType"]]), WIDTHS[accessor["type"]]
        start = view.get("byteOffset", 0) + accessor.get("byteOffset", 0)
        stride = view.get("byteStride", kind.itemsize * width)
        shape, strides = (accessor["count"], width), (stride, kind.itemsize)
        rows = np.ndarray(shape, kind, self.data, start, strides).astype(np.float64)
        if accessor.get("normalized"):
            rows = np.maximum(rows / np.iinfo(kind).max, -1.0)
        return rows


def wxyz(q: Tensor) -> Quat:
    """A file's quaternions ``(..., 4)``, scalar first."""
    return q.roll(1, -1)
