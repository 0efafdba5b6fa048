"""Write the files of an animation, and save and load projects."""

import io
import zipfile
from collections.abc import Sequence
from dataclasses import replace as changed
from pathlib import Path

from .. import exports
from ..base.errors import InputError
from ..base.files import existing_file, read_json
from ..base.types import Progress
from ..formats.files import scene_name
from ..samples import SCENES, backdrop
from ..scene.animation import Animation
from ..scene.cameras import Camera
from .recipe import Recipe

PROJECT = "studio"  # key of the recipe in the json of an animation


def source(recipe: Recipe) -> Path | None:
    """The scene's file; None for a built-in scene."""
    return None if recipe.scene in SCENES else Path(recipe.scene)


def export(
    recipe: Recipe,
    animation: Animation,
    folder: Path,
    formats: Sequence[str],
    *,
    camera: Camera | None = None,
    progress: Progress | None = None,
) -> dict[str, Path]:
    """Write files, as :func:`newtongs.exports.export` does."""
    return exports.export(
        animation, folder, formats, camera=camera, name=scene_name(recipe.scene),
        background=backdrop(recipe.scene), source=source(recipe), progress=progress,
    )  # fmt: skip


def save(recipe: Recipe, animation: Animation, path: Path, scene: str | None = None) -> None:
    """See :meth:`newtongs.studio.Session.save`."""
    file = source(recipe)
    where = recipe.scene if file is None else str(file.resolve())
    kept = {PROJECT: changed(recipe, scene=scene or where).to_json()}
    exports.save_animation(animation, path, source=None if scene else file, beside=kept)


def read(path: Path | str) -> Recipe:
    """Read the recipe of a project."""
    path = existing_file(path, "a .json saved by the studio")
    tree = read_json(path)
    if not isinstance(tree, dict) or not isinstance(tree.get(PROJECT), dict):
        raise InputError(f"{path.name} is not a studio project; try newtongs replay {path.name}")
    return Recipe.from_json(tree[PROJECT])


def beside(recipe: Recipe, folder: Path) -> Recipe:
    """The recipe with its scene where it was saved, or in the project's ``folder``."""
    path = folder / Path(recipe.scene).name
    if recipe.scene not in SCENES and not Path(recipe.scene).exists() and path.is_file():
        return changed(recipe, scene=str(path))
    return recipe


def packed(folder: Path, name: str) -> tuple[str, bytes]:
    """The contents of a folder as one file to send: its only file, or a zip of all files."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    if len(files) == 1:
        return files[0].name, files[0].read_bytes()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.write(path, path.relative_to(folder))
    return f"{name}.zip", out.getvalue()
