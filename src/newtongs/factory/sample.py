"""One sample: draw, simulate, check the views, label, encode; redraw what cannot be used."""

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import mujoco
import numpy as np
import torch

from .. import __version__
from ..base.errors import InputError
from ..base.state import LAYOUT
from ..base.types import Array
from ..scene.animation import Animation
from ..scene.cameras import Camera
from ..scene.world_frame import WorldFrame
from ..views.camera_occlusion import veiled
from ..views.framing import default_camera, follow_path, orbit_path
from ..views.viewpoints import frames_seen
from . import encode
from .caption import caption, thing
from .casts import Prepared
from .draws import FilmDraw, ViewDraw, draw
from .film import Film, make_film
from .labels import ViewLabels, each, label_view
from .renderers import pictures_by
from .scenes import SceneSource
from .spec import Spec

THUMB = 64  # pixels per side
HARDLY_SEEN, IN_SOMETHING = "hardly seen", "camera in something"  # why a view is refused
SMALLEST = 5e-4  # of the picture, 33 pixels of 256 x 256: an object below this is hardly seen
MAKE: dict[str, Any] = {"still": default_camera, "orbit": orbit_path, "follow": follow_path}
Load = Callable[[str], Prepared | str]
"""Returns a prepared scene by its id, or a line that says why it cannot be read."""


# --- cameras --------------------------------------------------------------------------------------


def cameras_of(animation: Animation, view: ViewDraw, spec: Spec) -> Camera | list[Camera]:
    """One camera for all frames, or one per frame."""
    made: Camera | list[Camera] = MAKE[view.path](
        animation, spec.size, azimuth=view.azimuth, elevation=view.elevation, fov=spec.cameras.fov
    )
    return made


class ViewQuality(NamedTuple):
    """How useful a view is."""

    seen: float
    """Fraction of the frames in which enough of the pushed objects is visible."""
    veiled: float
    """Fraction of the picture covered by what the camera is inside of, in the worst frame."""


def sight(animation: Animation, cameras: Camera | list[Camera]) -> ViewQuality:
    """Judge a view by a few small frames and all positions of the camera."""
    return ViewQuality(frames_seen(animation, cameras), veiled(animation, cameras))


def frames_large(ids: Array, pushed: int) -> float:
    """Fraction of the frames ``(T, H, W)`` where the first objects cover more than a few pixels."""
    sizes = ((ids > 0) & (ids <= pushed)).mean((1, 2))
    return float((sizes >= SMALLEST).mean())


def in_physics(camera: Camera, world: WorldFrame) -> torch.Tensor:
    """World-to-camera matrix ``(4, 4)``, float64, of the physics frame, in metres.

    A point keeps the pixel it has in the scene; its depth is in metres too.
    """
    R, t = camera.w2c[:3, :3].double(), camera.w2c[:3, 3].double()
    eye = torch.eye(3, dtype=torch.float64)
    origin = world.to_scene(torch.zeros(3, dtype=torch.float64))
    axes = torch.stack([world.to_scene(e) - origin for e in eye], -1) * world.scale  # a rotation
    out = torch.eye(4, dtype=torch.float64)
    out[:3, :3] = R @ axes
    out[:3, 3] = world.scale * (R @ origin + t)
    return out


# --- a sample -------------------------------------------------------------------------------------


class Refused(Exception):  # noqa: N818  (not an error: the film is drawn again)
    """Why an attempt gives no film."""

    def __init__(self, reason: str, line: str) -> None:
        super().__init__(line)
        self.reason, self.line = reason, line


def cpu_seconds() -> float:
    """CPU time of this process and of its finished children."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


@dataclass
class Clock:
    """Wall time of each step."""

    seconds: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.perf_counter)

    _cpu: float = field(default_factory=cpu_seconds)

    @property
    def cpu(self) -> float:
        """CPU time since the start, encoders included."""
        return cpu_seconds() - self._cpu

    def lap(self, step: str) -> None:
        """Add the time since the last lap to ``step``."""
        now = time.perf_counter()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._last
        self._last = now


@dataclass(frozen=True, eq=False)
class Sample:
    """A film's files, and its row in the index."""

    key: str
    files: dict[str, bytes]
    row: dict[str, Any]
    thumb: Array | None
    views: tuple[ViewLabels, ...] = ()


def key_of(number: int) -> str:
    """Name of a sample in its shard."""
    return f"{number:08d}"


def make_sample(
    spec: Spec, scenes: list[SceneSource], number: int, load: Load, clock: Clock,
    *, keep: bool = False,
) -> Sample:  # fmt: skip
    """Film ``number``: the first usable attempt. ``keep`` returns its labels as arrays too."""
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
    spec: Spec,
    drawn: FilmDraw,
    load: Load,
    clock: Clock,
    failures: list[dict[str, Any]],
    keep: bool,
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


def _simulated(spec: Spec, drawn: FilmDraw, prepared: Prepared) -> Film:
    try:
        return make_film(drawn.cast_of(prepared.casts[drawn.kind]), drawn, spec)
    except (InputError, mujoco.FatalError, ValueError, np.linalg.LinAlgError) as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise Refused("simulation refused", line) from error


def _require_sight(spec: Spec, sights: list[ViewQuality]) -> None:
    seen, veiled = min(view.seen for view in sights), max(view.veiled for view in sights)
    if seen < spec.least_seen:
        raise Refused(HARDLY_SEEN, f"seen in {seen:.0%} of the frames")
    if veiled > spec.most_veiled:
        raise Refused(IN_SOMETHING, f"it takes {veiled:.0%} of a picture")


def _require_size(spec: Spec, film: Film, labels: list[ViewLabels]) -> None:
    """Refuse objects too small to see, which only the labels tell."""
    large = min(frames_large(view.ids, film.cast.setup.layout.pushed) for view in labels)
    if large < spec.least_seen:
        raise Refused(HARDLY_SEEN, f"larger than a few pixels in {large:.0%} of the frames")


def _thumb(labels: ViewLabels) -> Array:
    """A thumbnail of the middle frame."""
    frame = labels.rgb[len(labels.rgb) // 2]
    rows, columns = (np.linspace(0, n - 1, THUMB).round().astype(int) for n in frame.shape[:2])
    return frame[rows][:, columns]


# --- the files ------------------------------------------------------------------------------------


def _files(
    spec: Spec, film: Film, prepared: Prepared, labels: list[ViewLabels], views: list[Any],
    sights: list[ViewQuality], failures: list[dict[str, Any]],
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
    spec: Spec,
    film: Film,
    prepared: Prepared,
    sights: list[ViewQuality],
    failures: list[dict[str, Any]],
) -> dict[str, Any]:
    """Everything that is not an array."""
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
    """Material and initial state of each object; its id in pictures is its index plus one."""
    out = []
    for one, select in zip(film.animation.about.objects, film.cast.selects, strict=True):
        tree = asdict(one)
        tree |= {"id": one.id + 1, "name": thing(source, select), "select": select}
        out.append({k: _rounded(v) for k, v in tree.items() if k != "selected"})
    return out


def _rounded(x: Any) -> Any:
    """Numbers to nine places, which is enough for float32."""
    if isinstance(x, float):
        return round(x, 9)
    return [_rounded(y) for y in x] if isinstance(x, list | tuple) else x


def _digests(files: Mapping[str, bytes]) -> str:
    """SHA-256 of each file by name, as JSON."""
    return json.dumps({name: hashlib.sha256(data).hexdigest() for name, data in files.items()})


def _row(
    spec: Spec, film: Film, prepared: Prepared, labels: list[ViewLabels], sights: list[ViewQuality],
    failures: list[dict[str, Any]], files: dict[str, bytes],
) -> dict[str, Any]:  # fmt: skip
    """The film's row in the index."""
    drawn, contacts = film.draw, film.contacts
    among = contacts.first >= 0
    covered = float(np.mean([(view.ids > 0).mean() for view in labels]))
    return {
        "key": key_of(drawn.number), "number": drawn.number, "made": True,
        "scene": prepared.source.id, "split": prepared.source.split,
        "dynamics": drawn.kind, "motion": drawn.motion or "", "attempt": drawn.attempt,
        "objects": film.states.shape[1], "pushed": film.cast.setup.layout.pushed,
        "top_speed": round(film.top_speed, 6), "contacts": len(contacts.first),
        "contacts_among_objects": int(among.sum()),
        "impulse": round(float(np.linalg.norm(contacts.impulse, axis=-1).sum()), 6),
        "least_seen": round(min(view.seen for view in sights), 4), "covered": round(covered, 6),
        "views": "+".join(view.path for view in drawn.views),
        "bytes": sum(map(len, files.values())), "caption": caption(film, prepared.source),
        "sha256": _digests(files), "failures": failures,
    }  # fmt: skip
