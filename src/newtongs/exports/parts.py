"""What every exporter starts from: still and moving Gaussians, provenance."""

import json
import re
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import __version__
from ..errors import InputError
from ..scene.animation import Animation, Placement
from ..scene.frames import FIRST
from ..scene.gaussians import BACKGROUND, GaussianScene
from ..scene.transform import rows_of
from .decals import decals


class Part(NamedTuple):
    """Gaussians that share one motion."""

    id: int | None
    """Object id; None for everything that stands still, and for shadows."""
    name: str
    """For people and for the nodes of a file."""
    scene: GaussianScene
    """The Gaussians as they are in frame 0."""
    placement: Placement | None = None
    """How they move; None where they stand still."""
    shadow_of: int | None = None
    """The object whose shadow this is."""


def parts(animation: Animation, *, sh_degree: int | None = None) -> list[Part]:
    """The still Gaussians first, where there are any, then each moving object, then shadows.

    ``sh_degree`` cuts view-dependent colour off above that degree; it never adds any.
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
        objects.append(Part(index, name, scene[rows], animation.placement(index)))
    rest = there & ~moving
    still = [Part(None, "still", scene if rest.all() else scene[rest])] if rest.any() else []
    return still + objects + _shadows(animation, scene.sh_degree)


def _shadows(animation: Animation, sh_degree: int) -> list[Part]:
    """Decals, with as many coefficients as all the rest."""
    return [
        Part(None, f"shadow_{i}", _with_sh(decal.scene, sh_degree), decal.placement, i)
        for i, decal in decals(animation).items()
    ]


def _with_sh(scene: GaussianScene, degree: int) -> GaussianScene:
    missing = (degree + 1) ** 2 - scene.sh.shape[1]
    return scene.replace(sh=torch.nn.functional.pad(scene.sh, (0, 0, 0, missing)))


def ever_after(animation: Animation) -> Tensor:
    """Mask ``(N,)`` of what is seen from frame 1 on.

    Files that hold Gaussians once and move them show this in frame 0 too: they have no way to hide
    some that every viewer knows.
    """
    if animation.presence is None:
        return torch.ones_like(animation.scene.ids, dtype=torch.bool)
    return animation.presence != FIRST


def cut(scene: GaussianScene, sh_degree: int | None) -> GaussianScene:
    """The scene with colour of at most ``sh_degree``; None keeps all of it."""
    if sh_degree is None:
        return scene
    if sh_degree not in (0, 1, 2, 3):
        raise InputError(f"sh_degree: expected 0, 1, 2 or 3, got {sh_degree}")
    kept = (min(sh_degree, scene.sh_degree) + 1) ** 2
    return scene.replace(sh=scene.sh[:, :kept].contiguous())


def provenance(animation: Animation) -> dict[str, Any]:
    """Who made the file and how, in plain values that JSON can hold."""
    made = {"generator": f"newtongs {__version__}", "frames": len(animation), "fps": animation.fps}
    made["about"] = animation.about.to_json()
    to_json(made)
    return made


def to_json(value: Any, *, indent: int | None = None) -> str:
    """JSON text, or one line that says what it cannot hold."""
    try:
        text = json.dumps(value, indent=indent, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the animation's about holds what JSON cannot: {error}; use plain finite values"
        ) from error
    # Names of files may hold bytes that are no text; they come back from these escapes.
    return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)
