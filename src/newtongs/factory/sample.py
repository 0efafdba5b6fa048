"""One sample: draw, simulate, look, label, and pack into files; redraw what cannot be used."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import mujoco
import numpy as np
import torch

from .. import __version__
from ..errors import InputError
from ..state import LAYOUT
from . import encode
from .caption import caption, thing
from .casts import Prepared
from .draws import Draw, draw
from .film import Film, make_film
from .labels import Array, ViewLabels, label_view
from .renderers import pictures_by
from .scenes import SceneSource
from .spec import Spec
from .views import (
    HARDLY_SEEN,
    IN_SOMETHING,
    Sight,
    cameras_of,
    each,
    frames_large,
    in_physics,
    sight,
)

THUMB = 64  # pixels a side
Load = Callable[[str], Prepared | str]
"""A prepared scene by its id, or a line that says why it cannot be read."""


class Refused(Exception):  # noqa: N818  (no error: the film is drawn anew)
    """Why an attempt gives no film."""

    def __init__(self, reason: str, line: str) -> None:
        super().__init__(line)
        self.reason, self.line = reason, line


def cpu_seconds() -> float:
    """What this process and those that it has waited for have used of a core."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


@dataclass
class Clock:
    """Seconds by step."""

    seconds: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.perf_counter)

    _cpu: float = field(default_factory=cpu_seconds)

    @property
    def cpu(self) -> float:
        """Seconds of a core since the beginning, encoders included."""
        return cpu_seconds() - self._cpu

    def lap(self, step: str) -> None:
        """What has passed since the last lap belongs to ``step``."""
        now = time.perf_counter()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._last
        self._last = now


@dataclass(frozen=True, eq=False)
class Sample:
    """A film's files, and its line in the index."""

    key: str
    files: dict[str, bytes]
    row: dict[str, Any]
    thumb: Array | None
    views: tuple[ViewLabels, ...] = ()


def key_of(number: int) -> str:
    """Of a sample in its shard."""
    return f"{number:08d}"


def make_sample(
    spec: Spec, scenes: list[SceneSource], number: int, load: Load, clock: Clock,
    *, keep: bool = False,
) -> Sample:  # fmt: skip
    """Film ``number``: the first attempt that can be used. ``keep`` keeps the labels as arrays."""
    failures: list[dict[str, Any]] = []
    for attempt in range(spec.tries):
        drawn = draw(spec, scenes, number, attempt)
        try:
            return _attempt(spec, drawn, load, clock, failures, keep)
        except Refused as why:
            failures.append({"scene": drawn.scene, "reason": why.reason, "line": why.line})
    row = {"key": key_of(number), "number": number, "made": False, "failures": failures}
    return Sample(key_of(number), {}, row, None)


def _attempt(
    spec: Spec, drawn: Draw, load: Load, clock: Clock, failures: list[dict[str, Any]], keep: bool
) -> Sample:
    prepared = load(drawn.scene)
    clock.lap("load")
    if isinstance(prepared, str):
        raise Refused("scene cannot be read", prepared)
    film = _simulated(spec, drawn, prepared)
    clock.lap("simulate")
    views = [cameras_of(film.animation, view, spec) for view in drawn.views]
    sights = [sight(film.animation, view) for view in views]
    clock.lap("look")
    _require_sight(spec, sights)
    by, color = pictures_by(spec.renderer), prepared.source.color
    labels = [label_view(film.animation, view, color, by) for view in views]
    clock.lap("draw and label")
    _require_size(spec, film, labels)
    files = dict(_files(spec, film, prepared, labels, views, sights, failures))
    clock.lap("encode")
    row = _row(spec, film, prepared, labels, sights, failures, files)
    shown = tuple(labels) if keep else ()
    return Sample(key_of(drawn.number), files, row, _thumb(labels[0]), shown)


def _simulated(spec: Spec, drawn: Draw, prepared: Prepared) -> Film:
    try:
        return make_film(drawn.cast_of(prepared.casts[drawn.kind]), drawn, spec)
    except (InputError, mujoco.FatalError, ValueError, np.linalg.LinAlgError) as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise Refused("simulation refused", line) from error


def _require_sight(spec: Spec, sights: list[Sight]) -> None:
    seen, veiled = min(view.seen for view in sights), max(view.veiled for view in sights)
    if seen < spec.least_seen:
        raise Refused(HARDLY_SEEN, f"seen in {seen:.0%} of the frames")
    if veiled > spec.most_veiled:
        raise Refused(IN_SOMETHING, f"it takes {veiled:.0%} of a picture")


def _require_size(spec: Spec, film: Film, labels: list[ViewLabels]) -> None:
    """Only the labels tell how large things are: in a small picture a point is a blot."""
    large = min(frames_large(view.ids, film.cast.stage.count) for view in labels)
    if large < spec.least_seen:
        raise Refused(HARDLY_SEEN, f"larger than a few pixels in {large:.0%} of the frames")


def _thumb(labels: ViewLabels) -> Array:
    """The middle frame, small."""
    frame = labels.rgb[len(labels.rgb) // 2]
    rows, columns = (np.linspace(0, n - 1, THUMB).round().astype(int) for n in frame.shape[:2])
    return frame[rows][:, columns]


# --- the files ------------------------------------------------------------------------------------


def _files(
    spec: Spec, film: Film, prepared: Prepared, labels: list[ViewLabels], views: list[Any],
    sights: list[Sight], failures: list[dict[str, Any]],
) -> Any:  # fmt: skip
    """Name and bytes of each file, without the key."""
    for v, view in enumerate(labels):
        suffix, pictures = encode.rgb(view.rgb, spec.fps, spec.rgb)
        yield f"rgb{v}.{suffix}", pictures
        arrays = {name: x for name, x in view._asdict().items() if name != "rgb"}
        yield f"labels{v}.npz", encode.npz(arrays)
    yield (
        "states.npz",
        encode.npz(
            {
                "times": film.animation.times.numpy(),
                "states": film.states.numpy().astype(np.float32),
            }
        ),
    )
    yield "contacts.npz", encode.npz(film.contacts._asdict())
    yield "cameras.npz", encode.npz(camera_arrays(film, views))
    yield "json", encode.text(about(spec, film, prepared, sights, failures))
    yield "txt", caption(film, prepared.source).encode()


def camera_arrays(film: Film, views: list[Any]) -> Mapping[str, Array]:
    """``K (V, T, 3, 3)`` and ``w2c (V, T, 4, 4)``: x right, y down, z ahead, metres."""
    world, frames = film.animation.world, len(film.animation)
    every = [each(view, frames) for view in views]
    w2c = torch.stack([torch.stack([in_physics(c, world) for c in view]) for view in every])
    K = torch.stack([torch.stack([c.K.double() for c in view]) for view in every])
    return {"K": K.numpy(), "w2c": w2c.numpy()}


def about(
    spec: Spec, film: Film, prepared: Prepared, sights: list[Sight], failures: list[dict[str, Any]]
) -> dict[str, Any]:
    """Everything that is no array."""
    drawn, source = film.draw, prepared.source
    return {
        "key": key_of(drawn.number),
        "caption": caption(film, source),
        "scene": source.id,
        "split": source.split,
        "dynamics": drawn.kind,
        "motion": drawn.motion,
        "frames": spec.frames,
        "fps": spec.fps,
        "size": list(spec.size),
        "objects": _objects(film, source),
        "views": [
            asdict(view) | {"seen": round(of.seen, 4), "veiled": round(of.veiled, 4)}
            for view, of in zip(drawn.views, sights, strict=True)
        ],
        "channels": {name: [part.start, part.stop] for name, part in LAYOUT.items()},
        "units": "metres, seconds, kilograms; y is up and the floor is y = 0",
        "provenance": prepared.provenance
        | {
            "newtongs": __version__, "spec": spec.name, "digest": spec.digest, "seed": spec.seed,
            "number": drawn.number, "attempt": drawn.attempt, "renderer": spec.renderer,
        },
        "failures": failures,
    }  # fmt: skip


def _objects(film: Film, source: SceneSource) -> list[dict[str, Any]]:
    """Materials and starts, object by object; its id in pictures is its place plus one."""
    out = []
    for one, select in zip(film.animation.about.objects, film.cast.selects, strict=True):
        tree = asdict(one)
        tree |= {"id": one.id + 1, "name": thing(source, select), "select": select}
        out.append({k: _rounded(v) for k, v in tree.items() if k != "selected"})
    return out


def _rounded(x: Any) -> Any:
    """Numbers to nine places: enough for what float32 can hold."""
    if isinstance(x, float):
        return round(x, 9)
    return [_rounded(y) for y in x] if isinstance(x, list | tuple) else x


def _row(
    spec: Spec, film: Film, prepared: Prepared, labels: list[ViewLabels], sights: list[Sight],
    failures: list[dict[str, Any]], files: dict[str, bytes],
) -> dict[str, Any]:  # fmt: skip
    """The film's line in the index."""
    drawn, contacts = film.draw, film.contacts
    among = contacts.first >= 0
    covered = float(np.mean([(view.ids > 0).mean() for view in labels]))
    return {
        "key": key_of(drawn.number), "number": drawn.number, "made": True,
        "scene": prepared.source.id, "split": prepared.source.split,
        "dynamics": drawn.kind, "motion": drawn.motion or "", "attempt": drawn.attempt,
        "objects": film.states.shape[1], "pushed": film.cast.stage.count,
        "top_speed": round(film.top_speed, 6), "contacts": len(contacts.first),
        "contacts_among_objects": int(among.sum()),
        "impulse": round(float(np.linalg.norm(contacts.impulse, axis=-1).sum()), 6),
        "least_seen": round(min(view.seen for view in sights), 4), "covered": round(covered, 6),
        "views": "+".join(view.path for view in drawn.views),
        "bytes": sum(map(len, files.values())), "caption": caption(film, prepared.source),
        "failures": failures,
    }  # fmt: skip
