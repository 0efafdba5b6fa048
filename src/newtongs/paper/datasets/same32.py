"""Same-32: the cone on the construction floor, once in each of the 32 motions.

A subset of Gaussian-32, so its folder contains only a manifest that refers to samples; without a
Gaussian-32 folder the 32 samples are made.
"""

import csv
import io
import os
from collections.abc import Mapping
from pathlib import Path

import torch

from ...base.errors import InputError
from ...base.files import write_atomically
from ...base.types import Progress, StateTensor
from . import gaussian32
from .gaussian32 import Item, Renderer
from .gaussian_sample import Store, read

SCENE = "construction_floor"
MANIFEST = "manifest_same32.csv"
COLUMNS = ("sample_id", "motion_type", "source_path", "dt")


def members() -> list[Item]:
    """The 32 samples in the paper's order of motions."""
    return gaussian32.items([SCENE])


def build_same32(
    out: Path | str,
    *,
    source: Path | str | None = None,
    render: Renderer | None = None,
    store: Store = "full",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write the manifest to ``out`` and return its path.

    Args:
        out: folder for the manifest, and for the samples unless ``source`` is given.
        source: a Gaussian-32 folder whose samples are used in place.
        render: as for :func:`newtongs.paper.datasets.gaussian32.build`, when the samples are made.
        store: likewise.
        overwrite: likewise.
        progress: likewise.
    """
    folder = Path(out)
    if source is not None and overwrite:
        raise InputError("overwrite makes samples again; samples of a source are used as they are")
    if source is None:
        gaussian32.build(
            folder, templates=[SCENE], render=render, store=store, overwrite=overwrite,
            progress=progress,
        )  # fmt: skip
    home = folder if source is None else Path(source)
    missing = [item for item in members() if not (home / item.path).is_file()]
    if missing:
        raise InputError(
            f"{home} lacks {len(missing)} of 32 Same-32 samples, first {missing[0].sample_id}; "
            f"make them with: newtongs data gaussian32 --out {home} --templates {SCENE}"
        )
    return _write(folder, home)


def _write(folder: Path, home: Path) -> Path:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for item in members():
        source = Path(os.path.relpath(home / item.path, folder)).as_posix()
        writer.writerow([item.sample_id, item.motion.name, source, gaussian32.DT])
    path = folder / MANIFEST
    write_atomically(path, lambda f: f.write(text.getvalue().encode()))
    return path


def manifest(folder: Path | str) -> list[dict[str, str]]:
    """The rows of a Same-32 folder's manifest."""
    path = Path(folder) / MANIFEST
    if not path.is_file():
        raise InputError(f"no {path}; make it with: newtongs data same32 --out {folder}")
    try:
        with path.open(newline="", encoding="utf-8") as f:
            rows = list(csv.DictReader(f))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    if not rows or any(row.get(c) is None for row in rows for c in COLUMNS):
        raise InputError(f"{path}: expected 32 rows with the columns {', '.join(COLUMNS)}")
    return rows


def selected(folder: Path | str) -> list[dict[str, str]]:
    """One row per motion, sorted by its name; of several repeats the first sample id."""
    rows = sorted(manifest(folder), key=lambda row: (row["motion_type"], row["sample_id"]))
    return list({row["motion_type"]: row for row in reversed(rows)}.values())[::-1]


def states(folder: Path | str) -> tuple[StateTensor, tuple[str, ...]]:
    """Labelled states ``(32, 49, 22)`` and the names of their motions, in the paper's order."""
    by_motion = {row["motion_type"]: row for row in selected(folder)}
    names = tuple(item.motion.name for item in members())
    missing = [name for name in names if name not in by_motion]
    if missing:
        raise InputError(
            f"{Path(folder) / MANIFEST} lacks {len(missing)} of 32 motions, first {missing[0]}; "
            f"make it again with: newtongs data same32 --out {folder}"
        )
    return torch.stack([_states(Path(folder), by_motion[name]) for name in names]), names


def _states(folder: Path, row: Mapping[str, str]) -> StateTensor:
    """Labelled states ``(49, 22)`` of a row's sample, checked against the row."""
    path = folder / row["source_path"]
    sample = read(path)
    found = sample["metadata"]
    for key in ("sample_id", "motion_type", "dt"):
        if str(found.get(key)) != row[key]:
            raise InputError(
                f"{path} has {key} {found.get(key)}, {MANIFEST} says {row[key]}; "
                f"make it again with: newtongs data same32 --out {folder}"
            )
    states: StateTensor = sample["states"]
    return states
