"""Dry run: nine films of a spec as one picture, and an estimate for all of them."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import InputError
from ..base.process import one_thread
from ..base.types import Array, Progress
from ..render.video import write_png
from .casts import Prepared
from .labels import ViewLabels
from .pool import prepared_or_why
from .renderers import require_here, try_out
from .run import by_reason, check_motions
from .sample import Clock, make_sample
from .scenes import find_scenes
from .shards import shards_of
from .spec import Spec

FILMS = 9
CELL = 128  # pixels per side
GAP = 3
TIMES = (0.0, 1 / 3, 2 / 3, 1.0)
COLORS = np.random.default_rng(5).integers(60, 255, (256, 3)).astype(np.uint8)
COLORS[0] = 24


@dataclass(frozen=True)
class DryRun:
    """Time and space of a run, estimated from a few of its films."""

    films: int
    seconds_per_film: float
    seconds_per_scene: float
    bytes_per_film: float
    failures: dict[str, int]
    refused_scenes: dict[str, str]
    given_up: int
    path: Path


@one_thread()
def dry_run(spec: Spec, folder: Path, out: Path, progress: Progress) -> DryRun:
    """Make nine films, evenly spread over all, and write ``sheet.png``."""
    require_here(spec.renderer)
    check_motions(spec)
    scenes = find_scenes(spec, folder)
    try_out(spec.renderer)  # which may take minutes
    by_id, ready = {s.id: s for s in scenes}, {}
    preparing = [0.0]

    def load(scene: str) -> Prepared | str:
        if scene not in ready:
            begun = time.perf_counter()
            ready[scene] = prepared_or_why(spec, by_id[scene])
            preparing[0] += time.perf_counter() - begun
        return ready[scene]

    numbers = sorted({round(x) for x in np.linspace(0, spec.count - 1, FILMS)})
    shards, clock, samples = shards_of(spec, scenes), Clock(), []
    begun = time.perf_counter()
    for done, number in enumerate(numbers):
        progress("films", done, len(numbers))
        split = shards[number // spec.films_a_shard].split
        ours = [s for s in scenes if s.split == split]
        samples.append(make_sample(spec, ours, number, load, clock, keep=True))
    progress("films", len(numbers), len(numbers))
    seconds, made = time.perf_counter() - begun - preparing[0], [s for s in samples if s.files]
    refused = {scene: x for scene, x in ready.items() if isinstance(x, str)}
    if not made:
        raise InputError(f"none of {len(numbers)} films could be made: {first_failure(samples)}")
    write_png(out / "sheet.png", sheet([s.views for s in made]))
    return DryRun(
        len(made), seconds / len(made), preparing[0] / len(ready),
        float(np.mean([s.row["bytes"] for s in made])), by_reason([s.row for s in samples]),
        refused, len(samples) - len(made), out / "sheet.png",
    )  # fmt: skip


def first_failure(samples: list[Any]) -> str:
    """Why the first film failed."""
    failure = samples[0].row["failures"][0]
    return f"{failure['reason']}: {failure['line']}"


def sheet(films: list[tuple[ViewLabels, ...]]) -> Array:
    """One row per film: four frames; ids, depth, flow, visibility at half time; the last view."""
    rows = [np.concatenate([framed(x) for x in cells(views)], 1) for views in films]
    return np.concatenate(rows)


def cells(views: tuple[ViewLabels, ...]) -> list[Array]:
    """The pictures of a row."""
    first, last = views[0], views[-1]
    frames, half = len(first.rgb), len(first.rgb) // 2
    shown = [first.rgb[round(t * (frames - 1))] for t in TIMES]
    at = min(half, frames - 2)
    labels = [COLORS[first.ids[half]], grey(first.depth[half]), wheel(first.flow[at])]
    hidden = np.where(first.visible[at][..., None], first.rgb[at], (255, 0, 160)).astype(np.uint8)
    return [*shown, *labels, hidden, last.rgb[half]]


def framed(x: Array) -> Array:
    """A picture as a cell with a white margin."""
    side = np.linspace(0, x.shape[0] - 1, CELL), np.linspace(0, x.shape[1] - 1, CELL)
    rows, columns = (s.round().astype(int) for s in side)
    small = x[rows][:, columns]
    return np.pad(small, ((0, GAP), (0, GAP), (0, 0)), constant_values=255)


def grey(depth: Array) -> Array:
    """Depth as grey: near is bright, empty is black."""
    z = depth.astype(float)
    there = z > 0
    near, far = np.percentile(z[there], [1, 99]) if there.any() else (0.0, 1.0)
    level = 235 - 200 * ((z - near) / max(far - near, 1e-6)).clip(0, 1)
    return np.repeat(np.where(there, level, 0).astype(np.uint8)[..., None], 3, -1)


def wheel(flow: Array) -> Array:
    """Flow as colour: direction as hue, length as brightness."""
    u, v = flow.astype(float)[..., 0], flow.astype(float)[..., 1]
    length, angle = np.hypot(u, v), np.arctan2(v, u)
    bright = (length / max(float(np.percentile(length, 99.5)), 0.5)).clip(0, 1)
    thirds = np.array([0.0, 2.0, 4.0]) * np.pi / 3
    color = 0.5 + 0.5 * np.cos(angle[..., None] - thirds)
    return (255 * bright[..., None] * color).astype(np.uint8)
