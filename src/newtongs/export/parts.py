"""What every exporter starts from: still and moving Gaussians, provenance, a default camera."""

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import __version__
from ..errors import InputError
from ..scene.animation import Animation
from ..scene.cameras import FIELD_OF_VIEW, Camera, look_at
from ..scene.gaussians import BACKGROUND, GaussianScene
from ..scene.transform import rows_of
from ..types import Vec3

AIR = 1.15  # room around what moves, in a default view
RISE = 0.35  # height of a default camera above what it looks at, per unit of distance


class Part(NamedTuple):
    """Gaussians that share one motion."""

    id: int | None
    """Object id; None for everything that stands still."""
    name: str
    """For people and for the nodes of a file."""
    scene: GaussianScene
    """The Gaussians as they are in frame 0."""


def parts(animation: Animation, *, sh_degree: int | None = None) -> list[Part]:
    """The still Gaussians first, where there are any, then each moving object.

    ``sh_degree`` cuts view-dependent colour off above that degree; it never adds any.
    """
    scene = cut(animation.scene, sh_degree)
    moving = torch.zeros_like(scene.ids, dtype=torch.bool)
    objects = []
    for index in animation.states:
        rows = rows_of(scene, index)
        if not len(rows):
            raise InputError(f"no object {index} in the scene; there are {scene.object_ids}")
        moving[rows] = True
        name = "background" if index == BACKGROUND else f"object_{index}".replace("-", "m")
        objects.append(Part(index, name, scene[rows]))
    still = [] if bool(moving.all()) else [Part(None, "still", scene[~moving])]
    return still + objects


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
    made["info"] = dict(animation.info)
    to_json(made)
    return made


def to_json(value: Any, *, indent: int | None = None) -> str:
    """JSON text, or one line that says what it cannot hold."""
    try:
        return json.dumps(value, indent=indent, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the animation's info holds what JSON cannot: {error}; use plain finite values"
        ) from error


def default_camera(animation: Animation, size: Sequence[int] = (512, 512)) -> Camera:
    """A camera ``size = (width, height)`` that has all of the motion in view, from the front."""
    low, high = _swept(animation)
    target, reach = (low + high) / 2, float((high - low).norm()) / 2
    up = animation.world.up
    width, height = size
    half = math.radians(FIELD_OF_VIEW) / 2
    narrow = math.atan(math.tan(half) * min(1.0, width / height))
    distance = AIR * max(reach, 1e-6) / math.sin(narrow)
    away = _front(up) + RISE * up
    eye = target + distance * away / away.norm()
    return look_at(eye, target, width=width, height=height, up=up.tolist())


def _swept(animation: Animation) -> tuple[Vec3, Vec3]:
    """Box ``(3,), (3,)`` around the moving objects over all frames, in float64."""
    corners = [_corners(p.scene) for p in parts(animation) if p.id is not None]
    if not corners:
        low, high = animation.scene.bounds()
        return low.double().cpu(), high.double().cpu()
    moved = []
    for index, x in zip(animation.states, corners, strict=True):
        A, b = animation.affines(index)
        moved.append((x @ A.mT + b.unsqueeze(1)).flatten(0, 1))
    swept = torch.cat(moved).cpu()
    return swept.amin(0), swept.amax(0)


def _corners(scene: GaussianScene) -> Tensor:
    """The eight corners ``(8, 3)`` of the box around an object's means."""
    box = torch.stack([scene.means.amin(0), scene.means.amax(0)]).double()
    return torch.cartesian_prod(*box.unbind(-1))


def _front(up: Vec3) -> Vec3:
    """A level direction ``(3,)``: +z when y is up."""
    axis = torch.eye(3).to(up)[2 if abs(float(up[2])) < 0.9 else 0]
    level = axis - (axis @ up) * up
    return level / level.norm()
