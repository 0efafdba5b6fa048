"""Shards: tar files of samples. A shard is complete once its part of the index is written."""

import hashlib
import io
import re
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..base.errors import InputError, argument
from ..base.extras import optional
from ..base.files import read_json, write_atomically
from ..base.process import one_thread, peak_memory
from ..render.video import write_png
from .encode import text
from .renderers import try_out
from .sample import THUMB, Clock, Load, Sample, make_sample
from .scenes import SceneSource, set_digest, splits_of_shards
from .spec import Spec

PARTS = "parts"  # folder of the parts of the index
LOG = "log"  # folder of what differs between runs: time and memory
LARGEST = 2.0**50  # of a number in the index, from which on halves are no longer exact
LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # JSON may hold one, UTF-8 cannot


@dataclass(frozen=True)
class Shard:
    """The films of one tar file."""

    index: int
    split: str
    first: int
    last: int
    """One past the last film."""

    @property
    def name(self) -> str:
        """Name of its files, without suffix."""
        return f"{self.split}-{self.index:06d}"

    @property
    def films(self) -> int:
        """Number of films."""
        return self.last - self.first


def shards_of(spec: Spec, scenes: Sequence[SceneSource]) -> list[Shard]:
    """All shards in order; a larger count only adds to them."""
    n = spec.films_a_shard
    count = -(-spec.count // n)
    splits = splits_of_shards(scenes, count)
    return [Shard(i, splits[i], i * n, min((i + 1) * n, spec.count)) for i in range(count)]


def is_done(out: Path, shard: Shard, digest: str) -> bool:
    """Whether the shard is there, complete, and as it was written."""
    part, tar = read_part(out, shard), out / f"{shard.name}.tar"
    if part is None or not tar.is_file():
        return False
    if part.get("digest") != digest:
        raise InputError(
            f"{out / shard.name}.tar was made of another spec, or of other scenes; choose another "
            f"folder with {argument('out')}"
        )
    size, wanted = tar.stat().st_size, part.get("tar")
    same_size = isinstance(wanted, dict) and wanted.get("bytes") == size  # reads no large file
    return part.get("films") == shard.films and same_size and wanted == fingerprint(tar)


def fingerprint(tar: Path) -> dict[str, Any]:
    """Size and hash of a shard."""
    with tar.open("rb") as f:
        digest = hashlib.file_digest(f, "sha256").hexdigest()
    return {"bytes": tar.stat().st_size, "sha256": digest}


def read_part(out: Path, shard: Shard) -> dict[str, Any] | None:
    """The shard's part of the index; None where it is missing or damaged."""
    try:
        found = read_json(out / PARTS / f"{shard.name}.json")
    except InputError:
        return None
    rows = found.get("rows") if isinstance(found, dict) else None
    good = isinstance(rows, list) and len(rows) == shard.films and all(map(_is_row, rows))
    return found if good else None


def _is_row(row: Any) -> bool:
    """Whether a row of a part has all that the index and the summary read."""
    failures = row.get("failures") if isinstance(row, dict) else None
    if not isinstance(failures, list) or not all(map(_is_failure, failures)):
        return False
    cells = ((row.get(name), kind) for name, kind in COLUMNS.items() if name != "failures")
    if row.get("made") is False:
        return True
    return row.get("made") is True and all(_is_cell(x, kind) for x, kind in cells)


def _is_failure(x: Any) -> bool:
    return isinstance(x, dict) and all(
        _is_cell(x.get(name), "string") for name in ("scene", "reason", "line")
    )


def _is_cell(x: Any, kind: str) -> bool:
    """Whether a value is of the type of its column: text that can be written, usual numbers."""
    if kind == "string":
        return isinstance(x, str) and not LONE_SURROGATE.search(x)
    fits = isinstance(x, int) or (kind == "float64" and isinstance(x, float))
    return fits and not isinstance(x, bool) and abs(x) < LARGEST


@one_thread()
def make_shard(
    spec: Spec, scenes: Sequence[SceneSource], shard: Shard, out: Path, load: Load,
    count: Callable[[], None],
) -> dict[str, Any]:  # fmt: skip
    """Make and write all films of a shard; returns its log. ``count`` is called after each film."""
    if not (out / "spec.json").is_file():
        raise InputError(
            f"this node does not see {out}; {argument('out')} must be on storage that all nodes "
            "share"
        )
    ours = [scene for scene in scenes if scene.split == shard.split]
    samples: list[Sample] = []
    drawn_by = try_out(spec.renderer)  # starting a GPU takes seconds: not part of a film's time
    clock = Clock()

    def write(file: BinaryIO) -> None:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for number in range(shard.first, shard.last):
                sample = make_sample(spec, ours, number, load, clock)
                for name, data in sample.files.items():
                    tar.addfile(entry(f"{sample.key}.{name}", len(data)), io.BytesIO(data))
                samples.append(Sample(sample.key, {}, sample.row, sample.thumb))
                clock.lap("write")
                count()

    write_atomically(out / f"{shard.name}.tar", write, sync=True, what="shard")
    write_thumbs(out / PARTS / f"{shard.name}.png", samples)
    rows = [sample.row | {"shard": f"{shard.name}.tar"} for sample in samples]
    tar = fingerprint(out / f"{shard.name}.tar")
    part = {"digest": set_digest(spec, scenes), "films": shard.films, "tar": tar, "rows": rows}
    write_atomically(out / PARTS / f"{shard.name}.json", lambda f: f.write(text(part)))
    return write_log(out, shard, clock, samples, drawn_by)


def entry(name: str, size: int) -> tarfile.TarInfo:
    """A file in a tar, without owner and time."""
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o644, 0
    return info


def write_thumbs(path: Path, samples: Sequence[Sample]) -> None:
    """The middle frames of all films side by side; grey for a film that was given up."""
    grey = np.full((THUMB, THUMB, 3), 128, np.uint8)
    write_png(path, np.concatenate([grey if s.thumb is None else s.thumb for s in samples], 1))


def write_log(
    out: Path, shard: Shard, clock: Clock, samples: Sequence[Sample], drawn_by: dict[str, str]
) -> dict[str, Any]:
    """Write how long each step took, on what, and the worker's peak memory."""
    log = {
        "shard": shard.name, "films": len(samples), "seconds": clock.seconds,
        "cpu_seconds": clock.cpu,
        "drawn_by": drawn_by,
        "peak_bytes": peak_memory(),
    }  # fmt: skip
    write_atomically(out / LOG / f"{shard.name}.json", lambda f: f.write(text(log)))
    return log


# --- the index ------------------------------------------------------------------------------------

COLUMNS = {
    "key": "string", "number": "int64", "shard": "string", "split": "string", "scene": "string",
    "dynamics": "string", "motion": "string", "views": "string", "attempt": "int64",
    "objects": "int64", "pushed": "int64", "top_speed": "float64", "contacts": "int64",
    "contacts_among_objects": "int64", "impulse": "float64", "least_seen": "float64",
    "covered": "float64", "bytes": "int64", "caption": "string", "sha256": "string",
    "failures": "string",
}  # fmt: skip


def arrow() -> Any:
    """pyarrow, or what to install."""
    optional("pyarrow.parquet", "the index needs pyarrow", "factory")
    return import_module("pyarrow")


def all_rows(out: Path, shards: Sequence[Shard]) -> list[dict[str, Any]]:
    """The rows of all finished shards, including films that were given up."""
    parts = [part for shard in shards if (part := read_part(out, shard)) is not None]
    return [row for part in parts for row in part["rows"]]


def write_index(out: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write ``index.parquet``: a row for each film that was made."""
    pa = arrow()
    made = [row for row in rows if row["made"]]
    columns = {}
    for name, kind in COLUMNS.items():
        values = [_value(row[name]) for row in made]
        columns[name] = pa.array(values, getattr(pa, kind)())
    table, path = pa.table(columns), out / "index.parquet"
    write_atomically(path, lambda f: pa.parquet.write_table(table, f), what="index")
    return path


def _value(x: Any) -> Any:
    """A value of a cell; failures as text, attempt by attempt."""
    return "; ".join(f"{f['scene']}: {f['reason']}" for f in x) if isinstance(x, list) else x
