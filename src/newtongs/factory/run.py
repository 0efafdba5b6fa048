"""Make a data set; what is already there is kept."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import InputError, argument
from ..base.files import free_bytes, read_json, silent, write_atomically
from ..base.types import Progress
from .encode import text
from .renderers import require_here
from .scenes import SceneSource, find_scenes, set_digest
from .shards import LOG, Shard, all_rows, arrow, is_done, shards_of, write_index
from .spec import Spec, described
from .statistics import write_statistics

BYTES_PER_PIXEL = 1.2  # of a film's frames and views, roughly, for a check of free space


@dataclass(frozen=True)
class Outcome:
    """What a run did."""

    shards: int
    kept: int
    films: int
    given_up: int
    failures: dict[str, int]
    """How many attempts failed, by reason."""
    refused_scenes: dict[str, str]
    seconds: float
    page: Path


def produce(
    spec: Spec, folder: Path, out: Path, *, workers: int = 1, ray: str | None = None,
    progress: Progress = silent, warn: Callable[[str], None] = print,
) -> Outcome:  # fmt: skip
    """Make the missing shards of a data set.

    Args:
        spec: what to make.
        folder: that the spec's paths are relative to.
        out: the data set's folder.
        workers: processes on this machine.
        ray: address of a Ray cluster to use instead.
        progress: called with (what, done, total).
        warn: called with a line for each scene that cannot be used.
    """
    arrow()
    begun, scenes = time.perf_counter(), find_scenes(spec, folder)
    check_motions(spec)
    contents = {scene.id: scene.content for scene in scenes}
    check_same_spec(out, spec, contents)
    shards = shards_of(spec, scenes)
    digest = set_digest(spec, scenes)
    missing = [s for s in shards if not is_done(out, s, digest)]
    check_space(out, spec, sum(s.films for s in missing))
    refused: dict[str, str] = {}
    if missing:
        if ray is None:
            require_here(spec.renderer)
        with engine(spec, workers, ray) as working:
            if spec.renderer == "gsplat":
                working.try_out()
            write_atomically(out / "spec.json", lambda f: f.write(text(described(spec, contents))))
            sweep(out, missing)
            needed = {s.split for s in missing}
            refused = working.prepare([s for s in scenes if s.split in needed], progress)
            for scene, line in refused.items():
                warn(f"scene {scene} is left out: {line}")
            refuse_empty(scenes, refused)
            for _ in working.shards(scenes, missing, out, progress):
                pass
    rows = all_rows(out, shards)
    write_index(out, rows)
    page = write_statistics(out, spec, rows, shards, refused)
    return Outcome(
        len(shards), len(shards) - len(missing), sum(row["made"] for row in rows),
        sum(not row["made"] for row in rows), by_reason(rows), refused,
        time.perf_counter() - begun, page,
    )  # fmt: skip


@contextmanager
def engine(spec: Spec, workers: int, ray: str | None) -> Iterator[Any]:
    """Workers on this machine, or a cluster."""
    if ray is not None:
        from .cluster import cluster

        with cluster(spec, ray) as made:
            yield made
    else:
        from .pool import pool

        with pool(spec, workers) as made_here:
            yield made_here


def by_reason(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Count failed attempts by reason."""
    out: dict[str, int] = {}
    for row in rows:
        for failure in row["failures"]:
            out[failure["reason"]] = out.get(failure["reason"], 0) + 1
    return dict(sorted(out.items()))


# --- checks before the work -----------------------------------------------------------------------


def check_motions(spec: Spec) -> None:
    """Check that named motions exist."""
    from .. import motions

    for name in spec.dynamics.motions:
        motions.get(name)


def check_same_spec(out: Path, spec: Spec, scenes: Mapping[str, str]) -> None:
    """Check that the folder holds no other data set, and none of other ``scenes`` (hashes)."""
    path, elsewhere = out / "spec.json", f"choose another folder with {argument('out')}"
    if not os.path.lexists(path):
        return
    found = read_json(path)
    if not isinstance(found, dict) or not isinstance(found.get("scenes", {}), dict):
        raise InputError(f"{path} is no description of a data set; it is damaged; {elsewhere}")
    if found.get("digest") != spec.digest:
        raise InputError(
            f"{out} holds a data set of another spec or version ({found.get('digest')!s:.40}, this "
            f"is {spec.digest}); {elsewhere}"
        )
    known = found.get("scenes", {})
    for name in sorted({*known} ^ {*scenes} | {n for n in known if known[n] != scenes.get(n)}):
        raise InputError(
            f"{out} holds films of other scenes: the file of {name} has changed since, or is new "
            f"or gone; restore it, or {elsewhere}"
        )


def check_space(out: Path, spec: Spec, films: int) -> None:
    """Check by a rough estimate that the films fit on the disk."""
    pixels = spec.frames * spec.cameras.count * spec.size[0] * spec.size[1]
    free, needed = free_bytes(out), films * pixels * BYTES_PER_PIXEL
    if films and free < needed:
        raise InputError(
            f"not enough space in {out}: about {needed / 1e9:.1f} GB for {films} films, "
            f"{free / 1e9:.1f} GB free; choose another folder, or a smaller {argument('count')}"
        )


def refuse_empty(scenes: Sequence[SceneSource], refused: dict[str, str]) -> None:
    """Check that each split has a usable scene."""
    for split in sorted({s.split for s in scenes}):
        left = [s for s in scenes if s.split == split and s.id not in refused]
        if not left:
            line = next(refused[s.id] for s in scenes if s.split == split)
            raise InputError(f"no scene of split {split} can be used: {line}")


def sweep(out: Path, missing: Sequence[Shard]) -> None:
    """Remove shards that a killed run left half written."""
    for shard in missing:
        for stale in out.glob(f".{shard.name}.tar.*"):
            stale.unlink(missing_ok=True)


def logs(out: Path) -> list[dict[str, Any]]:
    """The workers' logs of time and memory."""
    return [json.loads(path.read_bytes()) for path in sorted((out / LOG).glob("*.json"))]
