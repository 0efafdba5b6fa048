"""Continue an observed motion: states in, an animation out.

A track is a ``.json`` or ``.npz`` file with

* ``states`` ``(T, 22)``, or any of the fields ``p (T, 3)``, ``q``, ``v``, ``w``, ``s``, ``u``,
  ``m``, ``e``, ``mu``; positions are required, missing rates are finite differences, and other
  missing fields have defaults;
* ``times`` ``(T,)`` in seconds, or ``fps``; 24 frames per second otherwise.

y points up and the floor is at zero. A dump of moving Gaussians (``.npy``, ``.pt``,
``.safetensors``, or an ``.npz`` without states) is lifted as in the paper.
"""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .. import __version__
from ..base import rotations
from ..base.errors import InputError, argument
from ..base.files import afford, array_headers, existing_file, foreign, is_numbers, read_json
from ..base.state import DEFAULT_MATERIAL, DIM, LAYOUT, State, as_states, make
from ..base.types import StateTensor, Times
from ..formats.dumps import open_dump
from ..formats.lgm import from_lgm
from ..samples.objects import red_cube
from ..scene.animation import About, Animation, ObjectAbout
from ..scene.gaussians import GaussianScene, join
from ..scene.lifting import lift, lift_scenes
from ..scene.similarity import floor_disc, moved
from ..scene.world_frame import WorldFrame
from . import ContextNND
from .fitting import continued

FPS = 24.0
STAND_IN = 0.25  # scale of an object whose positions alone are known
UNEXPLAINED = 0.5  # of the object's scale: misfit to the observed positions above which we warn
LONGEST = 60.0  # seconds
MOST_SECONDS = 600.0  # of a track, as of an animation; the model reads two thirds of one
MOST_STATES = 20_000
MOST_FRAMES = 100_000  # of the output
DISC = 8.0  # radius of the floor in the picture, in scales of the object


@dataclass(frozen=True)
class Observed:
    """The observed motion of one object."""

    times: Times
    """``(T,)`` seconds, increasing."""
    states: StateTensor
    """``(T, 22)``, y up, the floor at zero."""
    scene: GaussianScene | None = None
    """Its Gaussians in the first state, if there are any."""
    world: WorldFrame | None = None
    """World frame of states and Gaussians, if they are in a scene's own coordinates."""


def read_track(path: Path) -> Observed:
    """Read a track file, or a dump of moving Gaussians."""
    existing_file(path, "a track: .json, .npz, or a dump of Gaussians")
    ending = path.suffix.lower()
    if ending == ".json":
        return _fields(path, read_json(path))
    if ending == ".npz":
        with foreign(path, "npz"):
            fields = _read_arrays(path)
        if {"states", "p"} & fields.keys():
            return _fields(path, fields)
    return _lifted(path)


def _read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an ``.npz`` that belong to a track, after a check of their headers."""
    known = {*LAYOUT, "states", "times", "fps"}
    found = {k: h for k, h in array_headers(path).items() if k in known and is_numbers(h)}
    count = sum(math.prod(shape) for shape, _ in found.values())
    afford(path, 8 * count, path.stat().st_size, f"{count:,} numbers")
    if count > MOST_STATES * (DIM + 1):
        raise InputError(f"{path}: expected up to {MOST_STATES:,} states; give a part of the track")
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in found}


def _fields(path: Path, content: object) -> Observed:
    """Read states and times from a mapping."""
    if not isinstance(content, Mapping) or not {"states", "p"} & content.keys():
        raise InputError(
            f'{path}: expected "states" (T, {DIM}) or "p" (T, 3), and "times" or "fps"'
        )
    arrays = {k: _array(path, k, content[k]) for k in content if k in (*LAYOUT, "states", "times")}
    first = "states" if "states" in arrays else "p"
    if arrays[first].dim() != 2 or not arrays[first].numel():
        raise InputError(
            f"{path}: {first}: expected a row for each time, got the shape "
            f"{tuple(arrays[first].shape)}"
        )
    count = len(arrays[first])
    times = _times(path, arrays.get("times"), content.get("fps", FPS), count)
    states = arrays.get("states")
    if states is None:
        states = _assembled(path, arrays, times)
    return Observed(times, as_states(states, name=str(path))[0].double())


def _array(path: Path, name: str, value: Any) -> Tensor:
    if isinstance(value, list) and len(value) > MOST_STATES:
        raise InputError(f"{path}: expected up to {MOST_STATES:,} states; give a part of the track")
    with foreign(path, f"a track ({name})"):
        x = torch.from_numpy(np.asarray(value, dtype=np.float64))
    if not torch.isfinite(x).all():
        raise InputError(f"{path}: {name} contains numbers that are not finite")
    return x


def _times(path: Path, times: Tensor | None, fps: Any, count: int) -> Times:
    if times is None:
        rate = np.asarray(fps).reshape(-1)
        if rate.size != 1 or rate.dtype.kind not in "iuf" or not 0 < float(rate[0]) <= 1000:
            raise InputError(f"{path}: fps: expected up to 1000 frames per second, got {fps!r:.40}")
        times = torch.arange(count, dtype=torch.float64) / float(rate[0])
    if times.shape != (count,) or not bool((times.diff() > 0).all()):
        raise InputError(f"{path}: expected {count} increasing times, one for each state")
    if float(times[-1] - times[0]) > MOST_SECONDS:
        raise InputError(
            f"{path}: expected up to {MOST_SECONDS:g} s, got {float(times[-1] - times[0]):g} s; "
            "give a part of the track"
        )
    return times - times[0]


def _assembled(path: Path, arrays: Mapping[str, Tensor], times: Times) -> StateTensor:
    """States made of the fields present; missing rates are finite differences."""
    known = {k: x for k, x in arrays.items() if k in LAYOUT}
    for name, x in known.items():
        width = LAYOUT[name].stop - LAYOUT[name].start
        if x.shape not in ((len(times), width), (len(times),) if width == 1 else ()):
            raise InputError(
                f"{path}: {name}: expected shape ({len(times)}, {width}), got {tuple(x.shape)}"
            )
    known.setdefault("s", torch.full((len(times), 3), STAND_IN, dtype=torch.float64))
    if len(times) > 1:
        known.setdefault("v", rate(known["p"], times))
        known.setdefault("u", rate(known["s"], times))
        if "q" in known:
            known["q"] = rotations.normalize(known["q"])
            known.setdefault("w", _spin(known["q"], times))
    return make(**{k: x.float() for k, x in known.items()})


def rate(x: Tensor, times: Times) -> Tensor:
    """Finite differences ``(T, 3)``: centred inside, one-sided at the ends."""
    steps = x.diff(dim=0) / times.diff().unsqueeze(-1)
    inner = (steps[1:] + steps[:-1]) / 2
    return torch.cat([steps[:1], inner, steps[-1:]])


def _spin(q: Tensor, times: Times) -> Tensor:
    turn = rotations.log(rotations.multiply(rotations.conjugate(q[:-1]), q[1:]))
    steps = turn / times.diff().unsqueeze(-1)
    return torch.cat([steps, steps[-1:]])


def _lifted(path: Path) -> Observed:
    """States of a dump, lifted frame by frame with consistent axes."""
    scenes = [from_lgm(x, source=path) for x in open_dump(path).frames()]
    if len(scenes) < 2:
        raise InputError(f"{path}: expected at least two frames, got {len(scenes)}")
    states = lift_scenes(scenes, dt=1 / FPS, material=DEFAULT_MATERIAL, tracked=True)
    times = torch.arange(len(scenes), dtype=torch.float64) / FPS
    first = scenes[0].replace(ids=torch.zeros_like(scenes[0].ids))
    return Observed(times, states.double(), first)


def continue_track(
    observed: Observed, model: ContextNND, *, seconds: float = 2.0, fps: float = FPS
) -> Animation:
    """The observed motion followed by ``seconds`` of prediction."""
    if not 0 < seconds <= LONGEST:
        raise InputError(f"seconds: expected more than 0 and up to {LONGEST:g}, got {seconds:g}")
    if not 0 < fps <= 1000:
        raise InputError(f"fps: expected more than 0 and up to 1000 frames per second, got {fps:g}")
    world = observed.world or WorldFrame.identity()
    seen = world.state_to_physics(observed.states.double())
    end = float(observed.times[-1]) + seconds
    if end * fps > MOST_FRAMES:
        raise InputError(
            f"expected up to {MOST_FRAMES:,} frames, got {end * fps:,.0f}: the track takes "
            f"{end - seconds:g} s; give a part of it, or a smaller {argument('fps')}"
        )
    times = torch.arange(int(end * fps + 1e-6) + 1, dtype=torch.float64) / fps
    misfit, states = continued(model, seen, observed.times, times)
    if misfit > UNEXPLAINED * float(State(seen[0]).s.mean()):
        warnings.warn(
            "the model cannot explain this motion: it misses the observed positions by "
            f"{misfit:.2g} units on average; see docs/context.md", stacklevel=2
        )  # fmt: skip
    scene = observed.scene if observed.scene is not None else stand_in(seen[0])
    about = About(
        version=__version__, seconds=end, fps=fps, dynamics="context", scale_is="free",
        up=(0.0, 1.0, 0.0), floor_is="given", objects=(_about(seen[0], len(seen)),),
    )  # fmt: skip
    if observed.scene is None:
        radius = DISC * float(State(seen[0]).s.mean()) + _reach(states)
        scene = join(scene, floor_disc(world, State(states).p.mean(0), radius))
    return Animation(scene, times, {0: world.state_to_scene(states)}, world, about, shadow="all")


def _reach(states: StateTensor) -> float:
    p = State(states).p
    return float((p.amax(0) - p.amin(0)).norm()) / 2


def _about(z0: StateTensor, count: int) -> ObjectAbout:
    x = State(z0)
    v, w = x.v.tolist(), rotations.rotate(x.q, x.w).tolist()
    said = f"a track of {count} states"
    return ObjectAbout(0, said, tuple(v), tuple(w), float(x.m), float(x.e), 0.0, float(x.mu))


def stand_in(z0: StateTensor) -> GaussianScene:
    """A red cube of about the object's size, for tracks without Gaussians."""
    cube = red_cube()
    x = State(z0)
    scale = float(x.s.mean()) / float(State(lift(cube)).s.mean())
    placed = moved(cube, turn=x.q, scale=scale, shift=x.p)
    return placed.replace(ids=torch.zeros_like(placed.ids))
