"""Read a ``.glb`` of animated Gaussians back: what a viewer would see, frame by frame."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .. import rotations
from ..errors import InputError
from ..files import existing_file, foreign
from ..limits import afford
from ..scene.gaussians import BACKGROUND, GaussianScene, join
from ..scene.io.glb import SPLATS, WIDTHS, Glb, open_glb
from ..scene.io.glb_writer import sh_slots
from ..types import Quat, Times, Vec3

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
        return _Reader(open_glb(path)).read()


class _Reader:
    def __init__(self, file: Glb) -> None:
        self.file, self.tree = file, file.tree
        tree = file.tree
        self.held, self.seen = 0, set[int]()
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
        if not depth or index in self.seen:
            raise InputError("its nodes form a loop")
        self.seen.add(index)
        node = self.file.item("nodes", index)
        here = above @ self._local(index)
        self.hold(here.nbytes, f"{len(self.seen):,} nodes of {len(self.times):,} frames")
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
        node = self.file.item("nodes", index)
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
        width = WIDTHS[self.file.item("accessors", index)["type"]]
        rows = self.file.floats(index, width).astype(np.float64)
        self.hold(rows.nbytes, "the same numbers again and again")
        return rows

    def hold(self, size: int, what: str) -> None:
        """Count what is kept, of the tracks and of all nodes together."""
        self.held += size
        afford(self.file.path, self.held, self.file.size, what)


def wxyz(q: Tensor) -> Quat:
    """A file's quaternions ``(..., 4)``, scalar first."""
    return q.roll(1, -1)
