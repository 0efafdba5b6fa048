"""The scenes of a spec, and which split each belongs to."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError, unknown_name
from ..scene.io.formats import READABLE
from ..templates import SCENES, named_scene
from .spec import Spec

WHITE = (1.0, 1.0, 1.0)


@dataclass(frozen=True)
class SceneSource:
    """Where a scene comes from."""

    id: str
    """In the data set; unique."""
    source: str
    """Name of one of ours, or a path."""
    split: str = ""

    @property
    def ours(self) -> bool:
        """Whether it is one of our own."""
        return self.source in SCENES

    @property
    def color(self) -> tuple[float, float, float]:
        """What is seen where no Gaussian is."""
        return named_scene(self.source).color if self.ours else WHITE

    def without_folder(self, line: str) -> str:
        """A line with the file's name in place of its path, which another machine may not have."""
        return line.replace(self.source, Path(self.source).name)

    def provenance(self) -> dict[str, str]:
        """What a sample says of it; a file by its bytes, since its name may mean another one."""
        if self.ours:
            return {"scene": self.id, "made_by": "newtongs, procedural; no third-party asset"}
        with open(self.source, "rb") as f:
            digest = hashlib.file_digest(f, "sha256").hexdigest()
        return {"scene": self.id, "file": Path(self.source).name, "sha256": digest}


def find_scenes(spec: Spec, folder: Path) -> list[SceneSource]:
    """All scenes in order, each in its split; what is not there is told before any work."""
    sources = [found for word in spec.scenes for found in _sources(word, folder)]
    ids = _unique([source if source in SCENES else _stem(source) for source in sources])
    if len({*sources}) < len(sources):
        twice = next(s for s in sources if sources.count(s) > 1)
        raise InputError(f"scenes: {twice} is named twice; no scene may be in two splits")
    splits = divided(ids, spec.splits, spec.seed)
    return [SceneSource(i, s, splits[i]) for i, s in zip(ids, sources, strict=True)]


def _sources(word: str, folder: Path) -> list[str]:
    """One name or file, or all splat files of a folder."""
    if word in SCENES:
        return [word]
    path = folder / Path(word).expanduser()
    if path.is_dir():
        found = sorted(str(p) for p in path.iterdir() if p.name.lower().endswith(READABLE))
        if not found:
            raise InputError(f"scenes: no splat file in {path}; readable: {', '.join(READABLE)}")
        return found
    if path.is_file():
        return [str(path)]
    if not path.suffix:
        raise unknown_name("scene", word, SCENES)
    raise InputError(f"scenes: {path} is not there; paths start from the folder of the spec")


def _stem(source: str) -> str:
    """A file's name as part of others: no dots, which end a sample's key."""
    return Path(source).name.split(".")[0].replace(" ", "_") or "scene"


def _unique(names: Sequence[str]) -> list[str]:
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return out


def divided(ids: Sequence[str], splits: Mapping[str, float], seed: int) -> dict[str, str]:
    """Which split each scene is in: in an order drawn by lot, parts as near as whole ones can be.

    Every split has at least one scene.
    """
    if len(ids) < len(splits):
        raise InputError(
            f"splits: {len(splits)} splits by scene need as many scenes, got {len(ids)}; name more "
            "scenes, or fewer splits"
        )
    lot = sorted(ids, key=lambda i: hashlib.sha256(f"{seed}:{i}".encode()).digest())
    counts = whole_parts(len(ids), list(splits.values()))
    names = [name for name, n in zip(splits, counts, strict=True) for _ in range(n)]
    return dict(zip(lot, names, strict=True))


def whole_parts(total: int, parts: Sequence[float]) -> list[int]:
    """``total`` as whole numbers in proportion to ``parts``, none of them zero."""
    exact = [total * p / sum(parts) for p in parts]
    counts = [max(1, int(x)) for x in exact]
    while sum(counts) != total:
        step = 1 if sum(counts) < total else -1
        off = [
            step * (x - n) if n + step > 0 else -total for x, n in zip(exact, counts, strict=True)
        ]
        counts[off.index(max(off))] += step
    return counts


def splits_of_shards(scenes: Sequence[SceneSource], shards: int) -> list[str]:
    """The split of each shard: as many films as a split has scenes, whatever the count is."""
    names = sorted({s.split for s in scenes})
    share = {name: sum(s.split == name for s in scenes) / len(scenes) for name in names}
    given, out = dict.fromkeys(names, 0), []
    for done in range(1, shards + 1):
        name = max(names, key=lambda n: (share[n] * done - given[n], share[n], n))
        given[name] += 1
        out.append(name)
    return out
