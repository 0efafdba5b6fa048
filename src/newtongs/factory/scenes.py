"""The scenes of a spec, and which split each belongs to."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..base.errors import InputError, unknown_name
from ..base.files import first_line
from ..formats import sog
from ..formats.files import READABLE
from ..samples import SCENES, backdrop
from .spec import Spec


@dataclass(frozen=True)
class SceneSource:
    """A scene of the data set, and where it comes from."""

    id: str
    """Unique name in the data set."""
    source: str
    """Name of a built-in scene, or a path."""
    split: str = ""

    @property
    def ours(self) -> bool:
        """Whether it is a built-in scene."""
        return self.source in SCENES

    @property
    def color(self) -> tuple[float, float, float]:
        """Background colour."""
        return backdrop(self.source)

    def without_folder(self, line: str) -> str:
        """A line with the file's name in place of its path, which differs between machines."""
        return line.replace(self.source, Path(self.source).name)

    def provenance(self) -> dict[str, str]:
        """What a sample records about it; a file by its hash, since names are not unique."""
        if self.ours:
            return {"scene": self.id, "made_by": "newtongs, procedural; no third-party asset"}
        return {"scene": self.id, "file": Path(self.source).name, "sha256": self.content}

    @cached_property
    def content(self) -> str:
        """SHA-256 of the file, or of all files of a folder that is one scene; "" if built in."""
        if self.ours:
            return ""
        path = sog.entry(self.source)
        if path.name.lower() not in (sog.META, sog.STREAMED):
            return _sha256(path)
        beside = sorted(p for p in path.parent.rglob("*") if p.suffix in (".json", ".webp"))
        named = [f"{p.relative_to(path.parent).as_posix()} {_sha256(p)}" for p in beside]
        return hashlib.sha256("\n".join(named).encode()).hexdigest()


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as f:
            return hashlib.file_digest(f, "sha256").hexdigest()
    except OSError as error:  # the scene is left out, with this reason, when it is prepared
        return str(error.strerror)


def set_digest(spec: Spec, scenes: Sequence[SceneSource]) -> str:
    """Hash of all that decides the films of a data set: its spec, and the content of its scenes."""
    contents = "\n".join(f"{scene.id} {scene.content}" for scene in scenes)
    return hashlib.sha256(f"{spec.digest}\n{contents}".encode()).hexdigest()[:16]


def find_scenes(spec: Spec, folder: Path) -> list[SceneSource]:
    """All scenes in order, each with its split; raises an error for a missing one."""
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
    try:
        found = _files(folder / Path(word).expanduser())
    except (OSError, RuntimeError, ValueError) as error:  # too long, of no user, with a NUL
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or first_line(error)
        raise InputError(f"scenes: {word[:60]!r} cannot be read: {reason}") from error
    if not found and not Path(word).suffix:
        raise unknown_name("scene", word, SCENES)
    if not found:
        path = folder / word
        raise InputError(f"scenes: {path} does not exist; paths are relative to the spec's folder")
    return found


def _files(path: Path) -> list[str]:
    """A file, or all splat files of a folder; nothing where there is neither."""
    if not path.is_dir():
        return [str(path)] if path.is_file() else []
    found = sorted(str(p) for p in path.iterdir() if p.name.lower().endswith(READABLE))
    if not found:
        raise InputError(f"scenes: no splat file in {path}; readable: {', '.join(READABLE)}")
    return found


def _stem(source: str) -> str:
    """A file's name without dots, which would end a sample's key."""
    return Path(source).name.split(".")[0].replace(" ", "_") or "scene"


def _unique(names: Sequence[str]) -> list[str]:
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return out


def divided(ids: Sequence[str], splits: Mapping[str, float], seed: int) -> dict[str, str]:
    """The split of each scene: in random order, in numbers as close to the fractions as possible.

    Every split has at least one scene.
    """
    if len(ids) < len(splits):
        raise InputError(
            f"splits: {len(splits)} splits need at least as many scenes, got {len(ids)}; name more "
            "scenes, or fewer splits"
        )
    shuffled = sorted(ids, key=lambda i: hashlib.sha256(f"{seed}:{i}".encode()).digest())
    counts = whole_parts(len(ids), list(splits.values()))
    names = [name for name, n in zip(splits, counts, strict=True) for _ in range(n)]
    return dict(zip(shuffled, names, strict=True))


def whole_parts(total: int, parts: Sequence[float]) -> list[int]:
    """``total`` divided into whole numbers above 0, in proportion to ``parts``."""
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
    """The split of each shard: films in proportion to a split's scenes, for any count."""
    names = sorted({s.split for s in scenes})
    share = {name: sum(s.split == name for s in scenes) / len(scenes) for name in names}
    given, out = dict.fromkeys(names, 0), []
    for done in range(1, shards + 1):
        name = max(names, key=lambda n: (share[n] * done - given[n], share[n], n))
        given[name] += 1
        out.append(name)
    return out
