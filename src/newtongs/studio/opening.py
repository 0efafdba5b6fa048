"""Open a scene: a built-in scene, a recent file, an uploaded file or project."""

import json
from contextlib import suppress
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

from ..base.errors import InputError
from ..base.files import read_json, write_atomically
from ..samples import SCENES
from . import project
from .controls import Controls, Wired
from .recipe import Recipe, refuse_files
from .session import Session

MOST_RECENT = 8  # files in the list


class Opening(Controls):
    """The folder "Scene"."""

    def updates(self) -> Wired:
        """See :class:`Controls`."""
        return (self.page.panel.scene, self.on_scene), (self.page.panel.recent, self.on_recent)

    def on_scene(self, event: Any) -> None:
        """A built-in scene was chosen."""
        page = self.page
        name = page.panel.scene.value
        if name in SCENES and name != page.shown:
            page.inform(f"opening {name} ...")
            page.open(Session(name), name)

    def on_recent(self, event: Any) -> None:
        """A recent file was chosen; its path comes from our list, not from the browser."""
        path = self.page.recent.get(self.page.panel.recent.value)
        if path is not None:
            self.page.inform(f"opening {path.name} ...")
            self.page.open(Session(str(path)), str(path))
            remember(path)

    def on_upload(self, event: Any) -> None:
        """A file was uploaded."""
        page, file = self.page, self.page.panel.upload.value
        name = Path(file.name.replace("\\", "/")).name
        path = page.uploads.store(file.name, file.content)
        page.inform(f"reading {name} ...")
        if path.suffix == ".json":
            self._open_project(project.read(path))
        else:
            page.open(Session(str(path)), name)

    def _open_project(self, recipe: Recipe) -> None:
        """Open an uploaded project. Paths in it are not opened; only the file name is matched."""
        page, name = self.page, Path(recipe.scene.replace("\\", "/")).name
        for push in recipe.pushes:
            refuse_files(push.select)
        if recipe.scene in SCENES:
            page.open(Session(recipe), recipe.scene)
            return
        now = page.session
        if now is not None and Path(page.shown).name == name:
            recipe = changed(recipe, scene=now.recipe.scene)
            page.open(Session(recipe, source=now.source), page.shown)
            return
        known = next((p for p in page.recent.values() if p.name == name), None)
        if known is None:
            raise InputError(
                f"this project needs the scene {name[:80]}; open that file first, then the project"
            )
        page.open(Session(changed(recipe, scene=str(known))), str(known))


def opened_session(word: str) -> Session | None:
    """The session that the command line names: none, a project, a file or a built-in scene."""
    if not word:
        return None
    if word.endswith(".json") and not word.endswith("meta.json"):
        return Session.load(word)
    session = Session(Recipe(word))
    if word not in SCENES:
        remember(Path(word))
    return session


# --- recent files ---------------------------------------------------------------------------------


def recent_list() -> Path:
    """The file that holds the list of recent files."""
    from platformdirs import user_state_path

    return user_state_path("newtongs", appauthor=False) / "recent.json"


def recent_files() -> list[Path]:
    """Recent files that still exist, newest first; none if the list cannot be read."""
    try:
        paths = read_json(recent_list())
        return [Path(path) for path in paths if isinstance(path, str) and Path(path).is_file()]
    except (InputError, OSError, TypeError, ValueError, RuntimeError):
        return []


def remember(path: Path) -> None:
    """Put a file first in the list, if the list can be written."""
    path = path.resolve()
    found = [path, *(p for p in recent_files() if p != path)][:MOST_RECENT]
    text = json.dumps([str(p) for p in found], indent=1).encode() + b"\n"
    with suppress(InputError, RuntimeError):  # RuntimeError: no home
        write_atomically(recent_list(), lambda f: f.write(text))


def recent_labels(paths: list[Path]) -> dict[str, Path]:
    """A label per file, with its folder's name: the browser sends a label, never a path."""
    return {f"{k + 1}: {p.parent.name}/{p.name}": p for k, p in enumerate(paths)}
