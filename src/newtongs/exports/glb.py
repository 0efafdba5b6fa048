"""glTF 2.0 binary with ``KHR_gaussian_splatting``: Gaussians once, and one transform per frame.

The nodes are::

    root          rotates the scene's up to glTF's +y
      still       Gaussians that never move
      object_7    T(p_t) R(q_t) S(rho_t), animated
        splats    R(q_0)^T T(-p_0), fixed, with the object's Gaussians

The product of an object's two nodes is its affine map ``A_t x + b_t``. A single node cannot
represent it: rotating, stretching and rotating back is a shear. The extension draws
``M Sigma M^T``.

:mod:`newtongs.formats.glb` describes how the Gaussians are stored.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

from ..base import rotations
from ..base.files import silent, under, write_atomically
from ..base.types import Progress, Quat
from ..formats.glb import Document, xyzw
from ..scene.animation import Animation, NodeTrack
from .parts import ExportPart, parts, provenance


def write_glb(
    animation: Animation,
    path: Path | str,
    *,
    sh_degree: int | None = None,
    compress: bool = False,
    progress: Progress = silent,
) -> None:
    """Write the animation as ``.glb``, for Babylon.js, PlayCanvas and three.js.

    Args:
        animation: what moves.
        path: file to write, atomically.
        sh_degree: highest degree of view-dependent colour, for a smaller file.
        compress: a tenth of the size, rounded, for viewers that support
            ``EXT_meshopt_compression``; see docs/export.md.
        progress: called as ``progress(what, done, of)``: compressing millions takes a minute.
    """
    file = _Animated(animation, compress)
    for part in parts(animation, sh_degree=sh_degree):
        mesh = file.add_mesh(part.name, part.scene, under(progress, part.name))
        file.add_part(part, mesh)
    data = file.to_bytes()
    write_atomically(Path(path), lambda f: f.writelines(data))


class _Animated(Document):
    """A file with tracks."""

    def __init__(self, animation: Animation, compress: bool) -> None:
        upright = _list(xyzw(animation.world.rotation))
        super().__init__(provenance(animation), upright, compress=compress)
        self.animation = animation
        self.samplers: list[dict[str, Any]] = []
        self.channels: list[dict[str, Any]] = []
        self.moves = len(animation) > 1 and bool(animation.states)
        self.clock = self.add_array(animation.times, bounds=True) if self.moves else -1

    def add_part(self, part: ExportPart, mesh: int) -> None:
        """One node for static Gaussians, two for a moving object or its shadow."""
        if part.node_track is None:
            self.add_node({"name": part.name, "mesh": mesh})
            return
        extras = {"object": part.id} if part.shadow_of is None else {"shadow": part.shadow_of}
        self.add_moving(part.name, mesh, part.node_track, extras)

    def add_moving(self, name: str, mesh: int, place: NodeTrack, extras: dict[str, Any]) -> None:
        """The two nodes of a moving object, and the tracks of the outer one."""
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

    def to_bytes(self) -> Iterator[bytes | memoryview]:
        """The parts of the file: header, JSON, arrays."""
        if self.channels:
            motion = {"name": "motion", "samplers": self.samplers, "channels": self.channels}
            self.tree["animations"] = [motion]
        return super().to_bytes()


def _turned(q: Quat, x: Tensor) -> Tensor:
    """``R(q) x``: a node translates after rotating, so ``R T(x)`` is ``T(R x) R``."""
    return rotations.rotate(q, x)


def _list(x: Tensor) -> list[float]:
    return [float(v) for v in x.double()]
