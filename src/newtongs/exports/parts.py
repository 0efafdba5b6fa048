"""The input of every exporter: static and moving parts, and provenance."""

import json
import re
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import __version__
from ..base.errors import InputError
from ..scene.animation import Animation, NodeTrack
from ..scene.frames import FIRST
from ..scene.gaussians import BACKGROUND, GaussianScene
from ..scene.transform import rows_of
from .decals import decals


class ExportPart(NamedTuple):
    """Gaussians that share one motion."""

    id: int | None
    """Object id; None for static Gaussians and for shadows."""
    name: str
    """Name, also of the node in a file."""
    source: GaussianScene
    """The Gaussians in frame 0, and others;"""
    rows: Tensor | None = None
    """those of the part among them ``(n,)``; None for all."""
    node_track: NodeTrack | None = None
    """How they move; None if static."""
    shadow_of: int | None = None
    """The object whose shadow this is."""

    @property
    def scene(self) -> GaussianScene:
        """The Gaussians in frame 0, copied."""
        return self.source if self.rows is None else self.source[self.rows]

    @property
    def plain(self) -> GaussianScene:
        """They without view-dependent colour."""
        return self.source.plain if self.rows is None else self.source.plain[self.rows]

    @property
    def size(self) -> int:
        """Number of Gaussians."""
        return len(self.source) if self.rows is None else len(self.rows)


def parts(animation: Animation, *, sh_degree: int | None = None) -> list[ExportPart]:
    """Static Gaussians, if any, then each moving object, then shadows.

    ``sh_degree`` is the highest degree of view-dependent colour to keep.
    """
    scene = cut(animation.scene, sh_degree)
    moving = torch.zeros_like(scene.ids, dtype=torch.bool)
    there = ever_after(animation)
    objects = []
    for index in animation.states:
        rows = rows_of(scene, index)
        rows = rows[there[rows]]
        if not len(rows):
            raise InputError(f"no object {index} in the scene; there are {scene.object_ids}")
        moving[rows] = True
        name = "background" if index == BACKGROUND else f"object_{index}".replace("-", "m")
        track = animation.node_track(index)
        objects.append(ExportPart(index, name, scene, _some(rows, scene), track))
    rows = (there & ~moving).nonzero().squeeze(-1)
    still = [ExportPart(None, "still", scene, _some(rows, scene))] if len(rows) else []
    return still + objects + _shadows(animation, scene.sh_degree)


def _some(rows: Tensor, scene: GaussianScene) -> Tensor | None:
    """Rows ``(n,)`` in ascending order; None if they are all."""
    return None if len(rows) == len(scene) else rows


def _shadows(animation: Animation, sh_degree: int) -> list[ExportPart]:
    """Decals, with as many colour coefficients as the rest."""
    return [
        ExportPart(None, f"shadow_{i}", _with_sh(decal.scene, sh_degree), None, decal.node_track, i)
        for i, decal in decals(animation).items()
    ]


def _with_sh(scene: GaussianScene, degree: int) -> GaussianScene:
    missing = (degree + 1) ** 2 - scene.sh.shape[1]
    return scene.replace(sh=torch.nn.functional.pad(scene.sh, (0, 0, 0, missing)))


def ever_after(animation: Animation) -> Tensor:
    """Mask ``(N,)`` of Gaussians visible from frame 1.

    Files that store Gaussians once and move them show these in frame 0 too: they cannot hide
    Gaussians in a way that every viewer supports.
    """
    if animation.presence is None:
        return torch.ones_like(animation.scene.ids, dtype=torch.bool)
    return animation.presence != FIRST


def cut(scene: GaussianScene, sh_degree: int | None) -> GaussianScene:
    """The scene with colour up to ``sh_degree``; None keeps everything."""
    if sh_degree is None:
        return scene
    if sh_degree not in (0, 1, 2, 3):
        raise InputError(f"sh_degree: expected 0, 1, 2 or 3, got {sh_degree}")
    kept = (min(sh_degree, scene.sh_degree) + 1) ** 2
    return scene.replace(sh=scene.sh[:, :kept].contiguous())


def provenance(animation: Animation) -> dict[str, Any]:
    """How the file was made, in plain values that JSON can represent."""
    made = {"generator": f"newtongs {__version__}", "frames": len(animation), "fps": animation.fps}
    made["about"] = animation.about.to_json()
    to_json(made)
    return made


def to_json(value: Any, *, indent: int | None = None) -> str:
    """JSON text, or an error about values that JSON cannot represent."""
    try:
        text = json.dumps(value, indent=indent, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"JSON cannot represent the animation's about: {error}; use plain finite values"
        ) from error
    # File names may contain bytes that are not text; these escapes preserve them.
    return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)
