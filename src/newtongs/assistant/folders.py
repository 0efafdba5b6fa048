"""The folders that an assistant may read from and write to.

An assistant follows instructions that may come from anywhere, so a path is only opened where it
leads beneath one of the folders that the user named, links followed.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..base.errors import InputError
from ..base.files import is_address
from ..formats import lod, sog
from ..studio.guard import ENDINGS, MEGABYTE

# Splats of a single file as the studio accepts them; a project (.json) would name further files.
SCENES = (*(ending for ending in ENDINGS if ending != ".json"), lod.NAME, sog.META)
MOST_FILES = 10_000  # files that are looked at, to list scenes and in the folder of one
LISTED = 100  # scenes that are listed


class Folders:
    """Which paths may be opened."""

    def __init__(self, folders: Sequence[Path | str] = (), *, most: float = 2000.0) -> None:
        """``folders`` are the allowed ones, default the working directory.

        ``most`` is the size limit of a scene's file, in megabytes.
        """
        if not most > 0:
            raise InputError(f"--max-file: expected megabytes above 0, got {most:g}")
        self.most = most * MEGABYTE
        self.roots = [_root(Path(folder)) for folder in folders or ["."]]
        self._written: set[Path] = set()

    def __str__(self) -> str:
        return ", ".join(map(str, self.roots))

    def allowed(self, path: Path | str) -> Path:
        """The path that a text leads to, with all links followed; refused outside the folders.

        A relative path is looked for in each folder, and otherwise belongs to the first.
        """
        if is_address(path):
            raise InputError(f"{path} is an address; expected a path beneath {self}")
        tried = [self._followed(root / path, path) for root in self.roots]
        inside = [p for p in tried if any(p.is_relative_to(root) for root in self.roots)]
        if not inside:
            raise InputError(
                f"{path} leads outside the folders that this server may use ({self}); name a path "
                "beneath them, or start newtongs mcp with its folder"
            )
        return next((p for p in inside if os.path.lexists(p)), inside[0])

    def _followed(self, path: Path, given: Path | str) -> Path:
        try:
            return path.resolve()
        except (OSError, ValueError, RuntimeError) as error:  # too long, a NUL, links in a circle
            raise InputError(f"cannot use the path {str(given)[:80]!r}; name another") from error

    # --- scenes -----------------------------------------------------------------------------------

    def scene(self, name: str) -> Path:
        """The file of a scene, if it may be read."""
        path = self.allowed(name)
        if not os.path.exists(path):
            raise InputError(
                f"no file {name:.200} beneath {self}; open without a name lists the scenes"
            )
        path = sog.entry(path)
        if not path.is_file() or not path.name.lower().endswith(SCENES):
            raise InputError(
                f"{name} is no splat file: expected a name ending in {', '.join(SCENES)}"
            )
        used = self._beside(path) if path.suffix.lower() == ".json" else [path]
        size = sum(p.stat().st_size for p in used)
        if size > self.most:
            raise InputError(
                f"{name}: expected up to {self.most / MEGABYTE:,.0f} MB, got "
                f"{size / MEGABYTE:,.0f} MB; start newtongs mcp with a larger --max-file"
            )
        return path

    def _beside(self, path: Path) -> list[Path]:
        """All files of a scene of several, each of which must lie beneath the folders."""
        out: list[Path] = []
        for folder, inner, files in os.walk(path.parent):
            out += [self.allowed(Path(folder) / name) for name in (*inner, *files)]
            if len(out) > MOST_FILES:
                raise InputError(
                    f"{path.parent} holds more than {MOST_FILES:,} files; give the scene a folder "
                    "of its own"
                )
        return [file for file in out if file.is_file()]

    def scenes(self) -> list[str]:
        """Scenes beneath the folders, relative to the first folder where possible."""
        out: list[str] = []
        for root in self.roots:
            for seen, path in enumerate(_walked(root)):
                if seen >= MOST_FILES or len(out) >= LISTED:
                    break
                if path.name.lower().endswith(SCENES) and not path.is_symlink():
                    first = path.is_relative_to(self.roots[0])
                    out.append(str(path.relative_to(self.roots[0]) if first else path))
        return out

    # --- exports ----------------------------------------------------------------------------------

    def target(self, folder: str) -> Path:
        """A folder to write to, which may not exist yet."""
        path = self.allowed(folder)
        if path.exists() and not path.is_dir():
            raise InputError(f"{folder} is a file; name a folder to write to")
        return path

    def refuse_foreign(self, folder: Path, name: str) -> None:
        """Refuse a name whose files in a folder are not from this server."""
        for path in _named(folder, name):
            if path not in self._written:
                raise InputError(
                    f"{path} exists, and this server has not written it; name another folder"
                )

    def wrote(self, folder: Path, name: str) -> None:
        """Remember the files of an export, which may be replaced later."""
        self._written.update(_named(folder, name))


def _named(folder: Path, name: str) -> list[Path]:
    """What is in a folder under a name, with any ending."""
    if not folder.is_dir():
        return []
    return [p for p in folder.iterdir() if p.name.startswith((f"{name}.", f"{name}_"))]


def _root(folder: Path) -> Path:
    """An allowed folder, which must exist."""
    if not folder.is_dir():
        raise InputError(f"no folder {folder}; name folders that the assistant may use")
    return folder.resolve()


def _walked(root: Path) -> Iterator[Path]:
    """Files beneath a folder in order of their names, without hidden folders and linked ones."""
    for folder, inner, files in os.walk(root):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        for name in sorted(files):
            yield Path(folder) / name
