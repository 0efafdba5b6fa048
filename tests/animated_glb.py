"""Reads animated .glb files for tests: where a viewer would draw the Gaussians in every frame."""

from typing import NamedTuple

import numpy as np
import torch

from newtongs.base import rotations
from newtongs.formats.glb import SPLATS, WIDTHS, open_glb
from newtongs.scene.gaussians import BACKGROUND, GaussianScene, join

REST = {"translation": [0.0] * 3, "rotation": [0.0, 0.0, 0.0, 1.0], "scale": [1.0] * 3}


class Tracks(NamedTuple):
    """Where a file puts its Gaussians."""

    times: torch.Tensor
    """Seconds ``(T,)``."""
    matrices: dict[int, torch.Tensor]
    """``(T, 4, 4)`` in float64 by object id, every node above included; -1 does not move."""
    root: torch.Tensor
    """``(4, 4)`` of the topmost node, which turns the scene upright."""

    def place(self, scene, t):
        """Means ``(N, 3)`` and covariances ``(N, 3, 3)`` of frame ``t`` as a viewer has them."""
        ids, which = scene.ids.unique(return_inverse=True)
        M = torch.stack([self.matrices[i][t] for i in ids.tolist()])[which]
        A, b = M[:, :3, :3], M[:, :3, 3]
        means = (A @ scene.means.double().unsqueeze(-1)).squeeze(-1) + b
        m = rotations.to_matrix(scene.quats.double()) * scene.scales.double().unsqueeze(-2)
        return means, (A @ m) @ (A @ m).mT


def read_glb(path):
    """The Gaussians of a file that ``write_glb`` wrote, and their motion; no shadows.

    The Gaussians come in the order still, then object by object.
    """
    return _Reader(open_glb(path)).read()


class _Reader:
    def __init__(self, file):
        self.file, self.tree = file, file.tree
        self.tracks, self.times = {}, np.zeros(1)
        for animation in file.tree.get("animations", []):
            for channel in animation["channels"]:
                sampler, target = animation["samplers"][channel["sampler"]], channel["target"]
                self.times = self.array(sampler["input"])[:, 0]
                self.tracks[target["node"], target["path"]] = self.array(sampler["output"])

    def read(self):
        scenes, matrices = [], {}
        roots = self.tree["scenes"][self.tree.get("scene", 0)]["nodes"]
        for root in roots:
            self.walk(root, torch.eye(4).double(), scenes, matrices)
        times = torch.from_numpy(self.times.copy())
        return join(*scenes), Tracks(times, matrices, self.local(roots[0])[0])

    def walk(self, index, above, scenes, matrices):
        """Collect the Gaussians of a node and of those below it."""
        node = self.file.item("nodes", index)
        here = above @ self.local(index)
        extras = node.get("extras", {})
        if "mesh" in node and "shadow" not in extras:
            name = int(extras.get("object", BACKGROUND))
            assert name not in matrices
            matrices[name] = here.expand(len(self.times), 4, 4)
            for primitive in self.tree["meshes"][node["mesh"]]["primitives"]:
                scenes.append(self.gaussians(primitive["attributes"], name))
        for child in node.get("children", []):
            self.walk(child, here, scenes, matrices)

    def local(self, index):
        """``T R S`` of a node, ``(T, 4, 4)`` or ``(1, 4, 4)``."""
        node = self.file.item("nodes", index)
        t, q, s = (
            torch.from_numpy(self.tracks.get((index, k), np.array([node.get(k, x)], float)))
            for k, x in REST.items()
        )
        M = torch.eye(4).double().repeat(max(len(t), len(q), len(s)), 1, 1)
        M[:, :3, :3] = rotations.to_matrix(q.roll(1, -1)) * s.unsqueeze(-2)
        M[:, :3, 3] = t
        return M

    def gaussians(self, attributes, index):
        named = {k.removeprefix(f"{SPLATS}:"): self.array(i) for k, i in attributes.items()}
        slots = [(d, n) for d in range(4) for n in range(2 * d + 1)]
        sh = [named[k] for d, n in slots if (k := f"SH_DEGREE_{d}_COEF_{n}") in named]
        return GaussianScene.make(
            means=torch.from_numpy(named["POSITION"]),
            quats=torch.from_numpy(named["ROTATION"]).roll(1, -1),
            scales=torch.from_numpy(named["SCALE"]),
            opacities=torch.from_numpy(named["OPACITY"][:, 0]),
            sh=torch.from_numpy(np.stack(sh, axis=1)),
            ids=index,
        )

    def array(self, index):
        """An accessor's rows ``(n, width)`` in float64, with normalised integers as fractions."""
        width = WIDTHS[self.file.item("accessors", index)["type"]]
        return self.file.floats(index, width).astype(np.float64)
