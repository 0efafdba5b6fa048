"""A whole data set: what is missing is made, the rest is kept."""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files import write_atomically
from .encode import text
from .index import all_rows, arrow, write_index
from .renderers import require_here
from .scenes import SceneSource, find_scenes
from .shards import LOG, Shard, is_done, shards_of
from .spec import Spec, described
from .statistics import write_statistics

Told = Callable[[str, int, int], None]
BYTES_A_PIXEL = 1.2  # of a film's frames and views, roughly, for a first look at the disk


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
    told: Told = lambda what, done, of: None, warn: Callable[[str], None] = print,
) -> Outcome:  # fmt: skip
    """Make what is missing of a data set.

    Args:
        spec: what to make.
        folder: from where its paths start.
        out: the data set's folder.
        workers: processes on this machine.
        ray: address of a Ray cluster, in place of them.
        told: called with (what, done, in all).
        warn: called with a line for each scene that cannot be used.
    """
    arrow()
    begun, scenes = time.perf_counter(), find_scenes(spec, folder)
    check_motions(spec)
    check_folder(out, spec)
    shards = shards_of(spec, scenes)
    missing = [s for s in shards if not is_done(out, s, spec.digest)]
    check_space(out, spec, sum(s.films for s in missing))
    refused: dict[str, str] = {}
    if missing:
        if ray is None:
            require_here(spec.renderer)
        with engine(spec, workers, ray) as working:
            if spec.renderer == "gsplat":
                working.try_out()
            write_atomically(out / "spec.json", lambda f: f.write(text(described(spec))))
            sweep(out, missing)
            needed = {s.split for s in missing}
            refused = working.prepare([s for s in scenes if s.split in needed], told)
            for scene, line in refused.items():
                warn(f"scene {scene} is left out: {line}")
            refuse_empty(scenes, refused)
            for _ in working.shards(scenes, missing, out, told):
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
    """Processes here, or a cluster."""
    if ray is not None:
        from .cluster import cluster

        with cluster(spec, ray) as made:
            yield made
    else:
        from .pool import pool

        with pool(spec, workers) as made_here:
            yield made_here


def by_reason(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Failed attempts."""
    out: dict[str, int] = {}
    for row in rows:
        for failure in row["failures"]:
            out[failure["reason"]] = out.get(failure["reason"], 0) + 1
    return dict(sorted(out.items()))


# --- checks before the work -----------------------------------------------------------------------


def check_motions(spec: Spec) -> None:
    """Named motions must exist."""
    from .. import motions

    for name in spec.dynamics.motions:
        motions.get(name)


def check_folder(out: Path, spec: Spec) -> None:
    """A folder holds one data set."""
    try:
        found = json.loads((out / "spec.json").read_bytes())
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise InputError(f"{out / 'spec.json'} cannot be read: {error}") from error
    if found.get("digest") != spec.digest:
        raise InputError(
            f"{out} holds a data set of another spec or version ({found.get('digest')}, this is "
            f"{spec.digest}); choose another folder with --out"
        )


def check_space(out: Path, spec: Spec, films: int) -> None:
    """Whether the films may fit on the disk, by a rough guess."""
    there = next(p for p in (out.absolute(), *out.absolute().parents) if p.exists())
    pixels = spec.frames * spec.cameras.count * spec.size[0] * spec.size[1]
    free, needed = shutil.disk_usage(there).free, films * pixels * BYTES_A_PIXEL
    if films and free < needed:
        raise InputError(
            f"not enough space in {out}: about {needed / 1e9:.1f} GB for {films} films, "
            f"{free / 1e9:.1f} GB free; choose another folder, or a smaller --count"
        )


def refuse_empty(scenes: Sequence[SceneSource], refused: dict[str, str]) -> None:
    """A split needs at least one scene that can be used."""
    for split in sorted({s.split for s in scenes}):
        left = [s for s in scenes if s.split == split and s.id not in refused]
        if not left:
            line = next(refused[s.id] for s in scenes if s.split == split)
            raise InputError(f"no scene of split {split} can be used: {line}")


def sweep(out: Path, missing: Sequence[Shard]) -> None:
    """Remove what a killed run left half written."""
    for shard in missing:
        for stale in out.glob(f".{shard.name}.tar.*"):
            stale.unlink(missing_ok=True)


def logs(out: Path) -> list[dict[str, Any]]:
    """What the workers said of seconds and memory."""
    return [json.loads(path.read_bytes()) for path in sorted((out / LOG).glob("*.json"))]
