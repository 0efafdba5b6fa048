"""Taking it home: files of an animation, and the project that makes it again."""

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import replace as changed
from pathlib import Path

from .. import exports
from ..errors import InputError
from ..files import existing_file, foreign, write_atomically
from ..scene.animation import Animation
from ..scene.cameras import Camera
from ..stage import Told
from ..templates import SCENES, named_scene
from .recipe import Recipe, stem

PROJECT = "studio"  # its place in the json of an animation
WHITE = (1.0, 1.0, 1.0)


def sky(recipe: Recipe) -> tuple[float, float, float]:
    """The colour behind everything: that of a scene of ours, else white."""
    return named_scene(recipe.scene).color if recipe.scene in SCENES else WHITE


def source(recipe: Recipe) -> Path | None:
    """The scene's file."""
    return None if recipe.scene in SCENES else Path(recipe.scene)


def export(
    recipe: Recipe,
    animation: Animation,
    folder: Path,
    formats: Sequence[str],
    *,
    camera: Camera | None = None,
    told: Told | None = None,
) -> dict[str, Path]:
    """Write files, as :func:`newtongs.export` does."""
    return exports.export(
        animation, folder, formats, camera=camera, name=stem(recipe.scene),
        background=sky(recipe), source=source(recipe), progress=told,
    )  # fmt: skip


def save(recipe: Recipe, animation: Animation, path: Path, scene: str | None = None) -> None:
    """See :meth:`newtongs.studio.Session.save`."""
    file = source(recipe)
    exports.save_animation(animation, path, source=None if scene else file)
    tree = json.loads(path.read_bytes())
    where = recipe.scene if file is None else str(file.resolve())
    tree[PROJECT] = changed(recipe, scene=scene or where).to_json()
    text = json.dumps(tree, indent=1, allow_nan=False)
    write_atomically(path, lambda f: f.write(text.encode() + b"\n"))


def read(path: Path | str) -> Recipe:
    """The recipe in a project."""
    path = existing_file(path, "a .json that the studio saved")
    with foreign(path, "JSON"):
        tree = json.loads(path.read_bytes())
    if not isinstance(tree, dict) or not isinstance(tree.get(PROJECT), dict):
        raise InputError(f"{path.name} is no project of the studio; newtongs replay may show it")
    return Recipe.from_json(tree[PROJECT])


def beside(recipe: Recipe, folder: Path) -> Recipe:
    """The recipe with its scene where it was, or in the ``folder`` of the project."""
    there = folder / Path(recipe.scene).name
    if recipe.scene not in SCENES and not Path(recipe.scene).exists() and there.is_file():
        return changed(recipe, scene=str(there))
    return recipe


def packed(folder: Path, name: str) -> tuple[str, bytes]:
    """What a folder holds as one file to send: the only file itself, or a zip of them all."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    if len(files) == 1:
        return files[0].name, files[0].read_bytes()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.write(path, path.relative_to(folder))
    return f"{name}.zip", out.getvalue()
