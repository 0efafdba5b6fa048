"""The index of a data set: a line a film, as Parquet."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files import write_atomically
from .shards import Shard, read_part

COLUMNS = {
    "key": "string", "number": "int64", "shard": "string", "split": "string", "scene": "string",
    "dynamics": "string", "motion": "string", "views": "string", "attempt": "int64",
    "objects": "int64", "pushed": "int64", "top_speed": "float64", "contacts": "int64",
    "contacts_among_objects": "int64", "impulse": "float64", "least_seen": "float64",
    "covered": "float64", "bytes": "int64", "caption": "string", "failures": "string",
}  # fmt: skip


def arrow() -> Any:
    """pyarrow, or what to install."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(
            "the index needs pyarrow; install it with: pip install 'newtongs[factory]'"
        ) from error
    return pyarrow


def all_rows(out: Path, shards: Sequence[Shard]) -> list[dict[str, Any]]:
    """The lines of all shards that stand there, films given up among them."""
    parts = [part for shard in shards if (part := read_part(out, shard)) is not None]
    return [row for part in parts for row in part["rows"]]


def write_index(out: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """``index.parquet``, of the films that there are."""
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
    """Failures in words: why this number was drawn anew, attempt by attempt."""
    return "; ".join(f"{f['scene']}: {f['reason']}" for f in x) if isinstance(x, list) else x
