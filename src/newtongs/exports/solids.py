"""A scene's collider for other engines: boxes as triangles in a .glb, and as a picture.

The nodes are as in the .glb of an animation: ``root`` rotates the scene's up to glTF's +y, the mesh
below it is in scene coordinates. So the two files coincide.
"""

from pathlib import Path

import numpy as np
import torch

from .. import __version__
from ..base.files import write_atomically
from ..formats.glb import ARRAY_BUFFER, FLOAT, packed, xyzw
from ..physics.colliders import Collider
from ..render import render, write_png
from ..scene.gaussians import GaussianScene, join
from ..scene.world_frame import WorldFrame
from ..views.framing import fit_camera

UNSIGNED, ELEMENT_BUFFER, TRIANGLES = 5125, 34963, 4
# Corners are numbered x + 2 y + 4 z; two triangles per face, anticlockwise from outside.
FACES = np.array([
    [0, 4, 6], [0, 6, 2], [1, 3, 7], [1, 7, 5], [0, 1, 5], [0, 5, 4],
    [2, 6, 7], [2, 7, 3], [0, 2, 3], [0, 3, 1], [4, 5, 7], [4, 7, 6],
], np.uint32)  # fmt: skip
CORNERS = np.array([[i & 1, i >> 1 & 1, i >> 2] for i in range(8)])
COLORS = {0: (0.85, 0.42, 0.25), 1: (0.35, 0.62, 0.35), 2: (0.30, 0.45, 0.80)}  # by axis
MOST_DRAWN = 400_000  # most Gaussians in a picture


def corners(solid: Collider) -> np.ndarray:
    """All boxes' corners ``(N, 8, 3)`` in the physics frame."""
    picked: np.ndarray = solid.boxes[:, CORNERS, np.arange(3)]
    return picked


def write_collider(solid: Collider, world: WorldFrame, path: Path | str) -> None:
    """Write the boxes as one mesh of triangles, in the scene's coordinates."""
    x = corners(solid).reshape(-1, 3)
    vertices = world.to_scene(torch.from_numpy(x)).numpy().astype(np.float32)
    first = 8 * np.arange(len(solid.boxes), dtype=np.uint32)
    triangles = (FACES + first[:, None, None]).reshape(-1)
    low, high = (vertices.min(0), vertices.max(0)) if len(vertices) else (np.zeros(3), np.zeros(3))
    tree = {
        "asset": {
            "version": "2.0",
            "generator": "newtongs",
            "extras": {"generator": f"newtongs {__version__}", "boxes": len(solid.boxes),
                       "cell": solid.cell / world.scale},
        },
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [
            {"name": "root", "rotation": xyzw(world.rotation).tolist(), "children": [1]},
            {"name": "collider", "mesh": 0},
        ],
        "meshes": [{"name": "collider", "primitives": [
            {"attributes": {"POSITION": 0}, "indices": 1, "mode": TRIANGLES}
        ]}],
        "accessors": [
            {"bufferView": 0, "componentType": FLOAT, "count": len(vertices), "type": "VEC3",
             "min": low.tolist(), "max": high.tolist()},
            {"bufferView": 1, "componentType": UNSIGNED, "count": triangles.size, "type": "SCALAR"},
        ],
        "bufferViews": [
            {"buffer": 0, "byteOffset": 0, "byteLength": vertices.nbytes, "target": ARRAY_BUFFER},
            {"buffer": 0, "byteOffset": vertices.nbytes, "byteLength": triangles.nbytes,
             "target": ELEMENT_BUFFER},
        ],
    }  # fmt: skip
    pieces = packed(tree, [vertices, triangles])
    write_atomically(Path(path), lambda f: f.writelines(pieces))


def collider_picture(solid: Collider, world: WorldFrame, path: Path | str) -> None:
    """Draw the boxes as a .png: faces along x red, up green, along z blue."""
    shown = as_gaussians(solid, world)
    ends = shown.means.double().quantile(torch.tensor([0.01, 0.99]).double(), dim=0)
    camera = fit_camera(ends, world.up, width=800, height=600, azimuth=25, elevation=25)
    write_png(Path(path), render(shown, camera).color)


def as_gaussians(solid: Collider, world: WorldFrame) -> GaussianScene:
    """Flat Gaussians on all faces, with the spacing of the cells."""
    area = sum(_areas(solid, axis).sum() for axis in range(3)) * 2
    step = max(solid.cell, float(np.sqrt(area / MOST_DRAWN)))
    return join(*(
        _face_gaussians(solid, world, axis, side, step) for axis in range(3) for side in (0, 1)
    ))  # fmt: skip


def _areas(solid: Collider, axis: int) -> np.ndarray:
    edges = solid.boxes[:, 1] - solid.boxes[:, 0]
    return np.prod(np.delete(edges, axis, axis=1), axis=1)


def _face_gaussians(
    solid: Collider, world: WorldFrame, axis: int, side: int, step: float
) -> GaussianScene:
    """One face of every box, as a grid of Gaussians."""
    low, high = solid.boxes[:, 0], solid.boxes[:, 1]
    a, b = (k for k in range(3) if k != axis)
    count = np.maximum(np.round((high - low) / step).astype(int), 1)
    number = count[:, a] * count[:, b]
    box = np.repeat(np.arange(len(number)), number)
    within = np.arange(len(box)) - np.repeat(np.cumsum(number) - number, number)
    x = np.empty((len(box), 3))
    x[:, axis] = (low, high)[side][box, axis]
    for k, i in ((a, within // count[box, b]), (b, within % count[box, b])):
        x[:, k] = low[box, k] + (i + 0.5) * ((high - low) / count)[box, k]
    sigma = np.full(3, 0.5 * step)
    sigma[axis] *= 0.02
    shade = 1.0 if side else 0.8
    n = len(x)
    back = torch.tensor([1.0, -1.0, -1.0, -1.0]) * world.rotation.float()
    return GaussianScene.make(
        means=world.to_scene(torch.from_numpy(x)).float(),
        scales=torch.from_numpy(sigma / world.scale).float().expand(n, 3),
        quats=back.expand(n, 4),
        colors=(shade * torch.tensor(COLORS[axis])).expand(n, 3),
    )
