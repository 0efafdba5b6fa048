"""Shards: tar files of samples, each with a part of the index that says it is complete."""

import io
import json
import resource
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..errors import InputError
from ..files import write_atomically
from ..render.video import write_png
from ..threads import one_thread
from .encode import text
from .renderers import try_out
from .sample import THUMB, Clock, Load, Sample, make_sample
from .scenes import SceneSource, splits_of_shards
from .spec import Spec

PARTS = "parts"  # folder of the index's parts
LOG = "log"  # folder of what differs from run to run: seconds and memory


@dataclass(frozen=True)
class Shard:
    """Which films go into one tar file."""

    index: int
    split: str
    first: int
    last: int
    """One past the last film."""

    @property
    def name(self) -> str:
        """Of its files, without endings."""
        return f"{self.split}-{self.index:06d}"

    @property
    def films(self) -> int:
        """How many."""
        return self.last - self.first


def shards_of(spec: Spec, scenes: Sequence[SceneSource]) -> list[Shard]:
    """All shards in order; a larger count only adds some."""
    n = spec.films_a_shard
    count = -(-spec.count // n)
    splits = splits_of_shards(scenes, count)
    return [Shard(i, splits[i], i * n, min((i + 1) * n, spec.count)) for i in range(count)]


def is_done(out: Path, shard: Shard, digest: str) -> bool:
    """Whether the shard stands there whole."""
    part = read_part(out, shard)
    if part is None or not (out / f"{shard.name}.tar").is_file():
        return False
    if part.get("digest") != digest:
        raise InputError(
            f"{out / shard.name}.tar was made by another spec; choose another folder with --out"
        )
    return part.get("films") == shard.films


def read_part(out: Path, shard: Shard) -> dict[str, Any] | None:
    """The shard's part of the index."""
    try:
        found = json.loads((out / PARTS / f"{shard.name}.json").read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


@one_thread()
def make_shard(
    spec: Spec, scenes: Sequence[SceneSource], shard: Shard, out: Path, load: Load,
    told: Callable[[], None],
) -> dict[str, Any]:  # fmt: skip
    """Make all films of a shard and write it; returns its log. ``told`` is called after each."""
    if not (out / "spec.json").is_file():
        raise InputError(f"this node does not see {out}; --out must lie on storage that all share")
    ours = [scene for scene in scenes if scene.split == shard.split]
    samples: list[Sample] = []
    drawn_by = try_out(spec.renderer)  # a card takes seconds to start, which no film shall pay
    clock = Clock()

    def write(file: BinaryIO) -> None:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for number in range(shard.first, shard.last):
                sample = make_sample(spec, ours, number, load, clock)
                for name, data in sample.files.items():
                    tar.addfile(entry(f"{sample.key}.{name}", len(data)), io.BytesIO(data))
                samples.append(Sample(sample.key, {}, sample.row, sample.thumb))
                clock.lap("write")
                told()

    write_atomically(out / f"{shard.name}.tar", write, sync=True, what="shard")
    write_thumbs(out / PARTS / f"{shard.name}.png", samples)
    rows = [sample.row | {"shard": f"{shard.name}.tar"} for sample in samples]
    part = {"digest": spec.digest, "films": shard.films, "rows": rows}
    write_atomically(out / PARTS / f"{shard.name}.json", lambda f: f.write(text(part)))
    return write_log(out, shard, clock, samples, drawn_by)


def entry(name: str, size: int) -> tarfile.TarInfo:
    """A file in a tar that knows neither who wrote it nor when."""
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o644, 0
    return info


def write_thumbs(path: Path, samples: Sequence[Sample]) -> None:
    """The middle frames of all films, side by side; grey for one that was given up."""
    grey = np.full((THUMB, THUMB, 3), 128, np.uint8)
    write_png(path, np.concatenate([grey if s.thumb is None else s.thumb for s in samples], 1))


def write_log(
    out: Path, shard: Shard, clock: Clock, samples: Sequence[Sample], drawn_by: dict[str, str]
) -> dict[str, Any]:
    """How long each step took, on what, and how much memory the worker has had at most."""
    log = {
        "shard": shard.name, "films": len(samples), "seconds": clock.seconds,
        "cpu_seconds": clock.cpu,
        "drawn_by": drawn_by,
        "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }  # fmt: skip
    write_atomically(out / LOG / f"{shard.name}.json", lambda f: f.write(text(log)))
    return log
