"""Open a scene: from a file, a built-in scene by name, or Gaussians as given."""

import math
from collections.abc import Sequence
from dataclasses import replace as changed
from pathlib import Path
from typing import NamedTuple

import torch

from ..base.errors import InputError, unknown_name
from ..formats.files import load
from ..samples import SCENES, named_scene
from ..scene.gaussians import BACKGROUND, GaussianScene
from ..segment.floor.finding import SURE, Doubt, FloorPlane, find_floor
from ..segment.floor.plinth import find_plinth
from ..segment.scene_sample import SOLID_OPACITY, middle_and_reach

UP = (0.0, 1.0, 0.0)  # of built-in scenes
ROUGH = 0.02  # of the scene's reach: thickness of a floor of which only the height is given
CAPTURED = 0.02  # share of the opaque Gaussians on a given floor from which it is a captured one
UPRIGHT = 0.99  # cosine above which two up directions are the same


class Source(NamedTuple):
    """A scene and where it comes from."""

    scene: GaussianScene
    name: str | None
    """The file, or the name of a built-in scene."""
    ours: bool
    """Whether it is a built-in scene, with y up and the floor at zero."""


def open_source(
    scene: GaussianScene | Source | Path | str, axes: str | None = None, level: int | None = None
) -> Source:
    """Open a scene as given, from a file, or a built-in scene by name.

    ``axes`` and ``level`` (of detail) apply to files only.
    """
    if isinstance(scene, Source):
        return scene
    ours = isinstance(scene, GaussianScene) or str(scene) in SCENES
    if ours and (axes is not None or level is not None):
        raise InputError("axes and level apply to files only; leave them out for a built-in scene")
    if isinstance(scene, GaussianScene):
        return Source(scene, None, False)
    if str(scene) in SCENES:
        return Source(named_scene(str(scene)).scene(), str(scene), True)
    if not Path(scene).exists() and not Path(scene).suffix:
        raise unknown_name("scene", str(scene), SCENES)
    return Source(load(scene, axes=axes, level=level), str(scene), False)


def on_cpu(scene: GaussianScene) -> GaussianScene:
    """The scene as the pipeline needs it: on the CPU, in float32; as it is if it is that."""
    if scene.device.type == "cpu" and scene.means.dtype == torch.float32:
        return scene
    scene = scene.to("cpu")
    numbers = ("means", "quats", "log_scales", "logits", "sh")
    return scene.replace(**{name: getattr(scene, name).float() for name in numbers})


def floor_of(
    source: Source, up: Sequence[float] | None = None, height: float | None = None
) -> FloorPlane:
    """Up and floor: as given, as known for a built-in scene, or else estimated."""
    if height is not None and not math.isfinite(height):
        raise InputError(f"floor: expected a finite height in scene units, got {height}")
    known = source.ours and up is None
    found = find_floor(source.scene, up=UP if known else up)
    height = 0.0 if known and height is None else height
    if height is None:
        return _with_plinth(source.scene, found)
    # The height is now given; only doubt about the direction remains.
    doubt = None if known or up is not None else found.doubt
    doubt = doubt if doubt and doubt.about == "up" else None
    if known or abs(height - found.height) <= found.thickness:
        return changed(found, height=height, score=1.0, doubt=doubt)
    given = f"floor as given, at {height:.4g}"
    plane = changed(found, height=height, score=1.0, doubt=doubt, share=0.0, description=given)
    return plane if found.kind == "found" else _captured(source.scene, plane)


def _captured(scene: GaussianScene, floor: FloorPlane) -> FloorPlane:
    """A given floor as a floor of the scene, if enough of the scene lies on it.

    Then objects are clusters above it, the ones that inspect lists, and not the whole capture.
    """
    solid = (scene.opacities >= SOLID_OPACITY) & torch.isfinite(scene.means).all(-1)
    x = scene.means[solid]
    if not len(x):
        return floor
    thickness = ROUGH * middle_and_reach(x, scene.opacities[solid])[1]
    share = float((floor.heights(x).abs() <= thickness).double().mean())
    if share < CAPTURED:
        return floor
    return changed(floor, kind="found", thickness=thickness, share=share)


def _with_plinth(scene: GaussianScene, floor: FloorPlane) -> FloorPlane:
    """Look for a plinth if no floor was found, or if the floor found may be a plinth's top.

    A file that marks its objects needs none.
    """
    same_up = (a for a in floor.alternatives if a.kind == "virtual" and a.up @ floor.up > UPRIGHT)
    found, floor_below = floor, floor if floor.kind == "virtual" else next(same_up, None)
    marked = any(i != BACKGROUND for i in scene.object_ids)
    if floor_below is None or marked or (found.kind == "found" and found.score > SURE):
        return found
    plinth = find_plinth(scene.to("cpu").plain, floor_below)
    if plinth is None or (
        found.kind == "found" and abs(found.height - plinth.height) > found.thickness
    ):
        return found
    description = f"{floor_below.description}; a plinth's top is at {plinth.height:.3g}, and what "
    description += "stands on it is taken off it"
    floor = changed(floor_below, plinth=plinth, description=description)
    if found is floor_below:
        return floor
    others = (found, *(a for a in found.alternatives if a is not floor_below))
    text = "a plinth's top, or the floor: not sure"
    doubt = Doubt("floor", text, f"give --floor {plinth.height:.3g} if it is")
    return changed(floor, alternatives=others, doubt=doubt)
