"""Opening a scene: one of ours, a file that was open before, one from the browser, a project."""

from dataclasses import replace as changed
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..templates import SCENES
from . import home, recent, words
from .part import Part, Wired
from .recipe import Recipe
from .session import Session


class Opening(Part):
    """What the folder "Scene" does."""

    def updates(self) -> Wired:
        """See :class:`Part`."""
        return (self.page.panel.scene, self.on_scene), (self.page.panel.recent, self.on_recent)

    def on_scene(self, event: Any) -> None:
        """One of ours was chosen."""
        page = self.page
        name = page.panel.scene.value
        if name in SCENES and name != page.shown:
            page.say(f"opening {name} ...")
            page.open(Session(name), name)

    def on_recent(self, event: Any) -> None:
        """A line of the list was chosen: the path is ours, not the browser's."""
        path = self.page.recent.get(self.page.panel.recent.value)
        if path is not None:
            self.page.say(f"opening {path.name} ...")
            self.page.open(Session(str(path)), str(path))
            recent.remember(path)

    def on_upload(self, event: Any) -> None:
        """A file has come."""
        page, file = self.page, self.page.panel.upload.value
        name = Path(file.name.replace("\\", "/")).name
        path = page.uploads.store(file.name, file.content)
        page.say(f"reading {name} ...")
        if path.suffix == ".json":
            self._open_project(home.read(path))
        else:
            page.open(Session(str(path)), name)

    def _open_project(self, recipe: Recipe) -> None:
        """A project from the browser. A path that it names is not opened, only its file's name."""
        page, name = self.page, Path(recipe.scene.replace("\\", "/")).name
        for push in recipe.pushes:
            words.refuse_files(push.select)
        if recipe.scene in SCENES:
            page.open(Session(recipe), recipe.scene)
            return
        now = page.session
        if now is not None and Path(page.shown).name == name:
            there = changed(recipe, scene=now.recipe.scene)
            page.open(Session(there, place=now.place), page.shown)
            return
        known = next((p for p in page.recent.values() if p.name == name), None)
        if known is None:
            raise InputError(f"the project is of {name[:80]}; open that file first, then this")
        page.open(Session(changed(recipe, scene=str(known))), str(known))


def opened_session(word: str) -> Session | None:
    """What the command line names: nothing, a project, a file or one of our scenes."""
    if not word:
        return None
    if word.endswith(".json") and not word.endswith("meta.json"):
        return Session.load(word)
    session = Session(Recipe(word))
    if word not in SCENES:
        recent.remember(Path(word))
    return session
