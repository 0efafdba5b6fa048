"""Streamed SOG (PlayCanvas): ``lod-meta.json`` lists SOG folders with levels of detail.

A tree of boxes says for each leaf and level which range of which file contains it. Level 0 is the
finest. One level is read completely: the finest without too many Gaussians, together with the
surroundings, which have a single level.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

import numpy as np

from ..base.errors import InputError
from ..base.files import afford, existing_file, foreign, read_json
from ..scene.gaussians import GaussianScene, join
from . import sog

NAME = "lod-meta.json"
MOST_GAUSSIANS = 4_000_000  # most Gaussians of a level chosen by default
MOST_NODES = 1_000_000

_Part: TypeAlias = tuple[GaussianScene, int]  # and its bytes on disk


def read(path: Path, level: int | None = None) -> GaussianScene:
    """One level of a streamed SOG.

    Args:
        path: the ``lod-meta.json``.
        level: 0 for the finest. Default: the finest of up to 4 million Gaussians, or the last.
    """
    with foreign(path, "a streamed SOG"):
        meta = _meta(path)
        leaves = list(_leaves(path, meta.get("tree")))
        level = _chosen(path, leaves, level)
        files = _ranges(path, leaves, level)
        parts = (_part(path, meta, file, ranges) for file, ranges in files.items())
        around = meta.get("environment")
        beside = [] if around is None else [_read_sog(path, around)]
        return join(*_affordable(path, chain(parts, beside)))


def levels(path: Path) -> dict[int, int]:
    """Number of Gaussians of each level, without the surroundings; 0 is the finest."""
    with foreign(path, "a streamed SOG"):
        leaves = list(_leaves(path, _meta(path).get("tree")))
        return {k: _count(_ranges(path, leaves, k)) for k in sorted({*chain(*leaves)})}


def _count(files: dict[int, list[tuple[int, int]]]) -> int:
    return sum(last - first for ranges in files.values() for first, last in ranges)


def _meta(path: Path) -> dict[str, Any]:
    meta = read_json(path)
    if not isinstance(meta, dict) or not isinstance(meta.get("filenames"), list):
        raise InputError(f"{path} is not a streamed SOG: no JSON with 'filenames'; it is damaged")
    names = {PurePosixPath(str(name)) for name in meta["filenames"]}  # "x" is "./x"
    if len(names) < len(meta["filenames"]):
        raise InputError(f"{path} lists a file twice; it is damaged")
    return meta


def _leaves(path: Path, tree: Any) -> Iterator[dict[int, dict[str, int]]]:
    """The ranges of each leaf, by level; the tree is traversed without recursion."""
    waiting, seen = [tree], 0
    while waiting:
        node, seen = waiting.pop(), seen + 1
        if not isinstance(node, dict) or seen > MOST_NODES:
            raise InputError(f"{path}: its tree is not a tree of boxes; it is damaged")
        children, lods = node.get("children"), node.get("lods")
        waiting += reversed(children) if isinstance(children, list) else []
        if isinstance(lods, dict):
            yield {int(k): v for k, v in lods.items() if k.isdigit() and _is_lod(v)}


def _is_lod(x: object) -> bool:
    return isinstance(x, dict) and all(
        isinstance(x.get(k), int) and 0 <= x[k] < 2**32 for k in ("file", "offset", "count")
    )


def _chosen(path: Path, leaves: list[dict[int, dict[str, int]]], level: int | None) -> int:
    """The requested level, or the finest that is not too large."""
    counts: dict[int, int] = {}
    for leaf in leaves:
        for k, x in leaf.items():
            counts[k] = counts.get(k, 0) + x["count"]
    if not counts:
        raise InputError(f"{path} lists no Gaussians; it is damaged")
    if level is not None and level not in counts:
        raise InputError(f"{path}: expected a level of {sorted(counts)}, got {level}")
    fitting = [k for k in sorted(counts) if counts[k] <= MOST_GAUSSIANS]
    return level if level is not None else fitting[0] if fitting else max(counts)


def _ranges(
    path: Path, leaves: list[dict[int, dict[str, int]]], level: int
) -> dict[int, list[tuple[int, int]]]:
    """Ranges of Gaussians to read, by file; a leaf without the level contributes the nearest."""
    files: dict[int, list[tuple[int, int]]] = {}
    for leaf in filter(None, leaves):
        near = min(leaf, key=lambda k: (abs(k - level), k))
        x = leaf[near]
        files.setdefault(x["file"], []).append((x["offset"], x["offset"] + x["count"]))
    return files


def _affordable(path: Path, parts: Iterator[_Part]) -> Iterator[GaussianScene]:
    """The parts one by one, as long as their total is plausible for the size of their files."""
    held, stored = 0, 0
    for scene, size in parts:
        held, stored = held + len(scene) * sog.GAUSSIAN_BYTES, stored + size
        afford(path, held, stored, f"files of {held // sog.GAUSSIAN_BYTES:,} Gaussians")
        yield scene


def _part(path: Path, meta: dict[str, Any], file: int, ranges: list[tuple[int, int]]) -> _Part:
    """The requested Gaussians of one file."""
    if file >= len(meta["filenames"]):
        raise InputError(f"{path} refers to file {file} of {len(meta['filenames'])}; it is damaged")
    scene, size = _read_sog(path, meta["filenames"][file])
    wanted = np.zeros(len(scene) + 1, np.int64)
    for first, last in ranges:
        if last > len(scene):
            raise InputError(
                f"{path}: Gaussians up to {last:,} of a file of {len(scene):,}; it is damaged"
            )
        wanted[first] += 1
        wanted[last] -= 1
    keep = wanted.cumsum()[:-1] > 0
    return scene if keep.all() else scene[keep], size


def _read_sog(path: Path, name: object) -> _Part:
    """A SOG and its bytes on disk; it must be in the folder of the description or below."""
    parts = PurePosixPath(name).parts if isinstance(name, str) else ()
    if not parts or not all(map(sog.is_plain, parts)):
        raise InputError(f"{path}: expected the name of a SOG in its folder, got {name!r:.40}")
    place = existing_file(path.parent.joinpath(*parts), "a SOG")
    files = place.parent.iterdir() if place.name.lower().endswith(sog.META) else [place]
    return sog.read(place), sum(file.stat().st_size for file in files if file.is_file())
