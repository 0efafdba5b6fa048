"""The controls beside the scene; what they do is in the panel classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .. import motions
from ..exports import FORMATS
from ..pipeline.spec import RESTITUTION
from ..samples import SCENES
from .recipe import DYNAMICS, Recipe

NONE = "(none)"
FREE = "free (arrow)"
TICKED = ("glb", "html")
STILL = (0.0, 0.0, 0.0)
HANDLES = ("arrow", "ring", "both")
GROW, SHRINK, DESELECT, UNDO = "Grow", "Shrink", "Deselect", "Undo"
WHOLE, PART = "Larger whole", "Part"


@dataclass
class Panel:
    """Handles of viser's controls."""

    message: Any
    summary: Any
    scene: Any
    recent: Any
    upload: Any
    objects: Any
    selector: Any
    add: Any
    rectangle: Any
    level: Any
    resize: Any
    deselect: Any
    loose: Any
    floor: Any
    move_floor: Any
    three: Any
    solids: Any
    handles: Any
    velocity: Any
    spin: Any
    mass: Any
    restitution: Any
    friction: Any
    motion: Any
    dynamics: Any
    play: Any
    loop: Any
    frame: Any
    speed: Any
    seconds: Any
    live: Any
    strength: Any
    keep: Any
    reset: Any
    formats: dict[str, Any]
    export: Any
    project: Any
    lines: Any
    command: Any
    progress: Any


def make_panel(gui: Any, recipe: Recipe | None, recent: Sequence[str] = ()) -> Panel:
    """Build the controls; ``gui`` is a viser server's, ``recent`` lists labels of recent files."""
    made: dict[str, Any] = {"message": gui.add_html(""), "summary": gui.add_html("")}
    with gui.add_folder("Scene", expand_by_default=recipe is None):
        _scene(gui, made, recipe, recent)
    with gui.add_folder("Objects"):
        _objects(gui, made)
    with gui.add_folder("Floor", expand_by_default=False):
        _floor(gui, made)
    with gui.add_folder("Push"):
        _push(gui, made)
    with gui.add_folder("Play"):
        _play(gui, made)
    with gui.add_folder("Export", expand_by_default=False):
        _export(gui, made)
    return Panel(**made)


def _scene(gui: Any, made: dict[str, Any], recipe: Recipe | None, recent: Sequence[str]) -> None:
    chosen = recipe.scene if recipe is not None and recipe.scene in SCENES else NONE
    made["scene"] = gui.add_dropdown("built-in scenes", (NONE, *SCENES), initial_value=chosen)
    made["recent"] = gui.add_dropdown("recent files", (NONE, *recent), visible=bool(recent))
    hint = "ply, sog, spz, splat, ksplat, glb; or a project (json) of the open scene"
    made["upload"] = gui.add_upload_button("Open a file ...", hint=hint)


def _objects(gui: Any, made: dict[str, Any]) -> None:
    made["objects"] = gui.add_dropdown("selected", (NONE,), hint="click an object in the scene")
    made["selector"] = gui.add_text("selector", "", hint="auto, cluster:0, box:..., sphere:x,y,z,r")
    made["add"] = gui.add_button("Add by selector")
    made["rectangle"] = gui.add_button("Draw a rectangle", hint="adds the objects inside it")
    hint = "the next larger whole, as a second click takes it (Page Up), or a part (Page Down)"
    made["level"] = gui.add_button_group("take", (WHOLE, PART), hint=hint)
    hint = "Grow adds what is next to it, Shrink gives back what touches other objects"
    made["resize"] = gui.add_button_group("size", (GROW, SHRINK), hint=hint)
    hint = "Deselect makes the object part of the scene again, Undo goes back one step"
    made["deselect"] = gui.add_button_group("", (DESELECT, UNDO), hint=hint)
    made["loose"] = gui.add_checkbox("other objects are loose", False)


def _floor(gui: Any, made: dict[str, Any]) -> None:
    made["floor"] = gui.add_checkbox("show the floor", False)
    made["move_floor"] = gui.add_checkbox("move by handles", False)
    made["three"] = gui.add_button("Set by three clicks")
    made["solids"] = gui.add_checkbox("show solid parts", False)


def _push(gui: Any, made: dict[str, Any]) -> None:
    made["handles"] = gui.add_dropdown("handles", HANDLES, hint="to drag in the scene")
    made["velocity"] = gui.add_vector3(
        "velocity", STILL, step=0.05, hint="x, y (up), z; or drag the arrow"
    )
    made["spin"] = gui.add_vector3("spin", STILL, step=0.1, hint="rad/s about x, y (up), z")
    made["mass"] = gui.add_slider("mass", 0.1, 10.0, 0.1, 1.0)
    made["restitution"] = gui.add_slider("restitution", 0.0, 1.0, 0.05, RESTITUTION)
    made["friction"] = gui.add_slider("friction", 0.0, 2.0, 0.05, 0.5)
    made["motion"] = gui.add_dropdown("motion", (FREE, *motions.names()))
    made["dynamics"] = gui.add_dropdown("dynamics", DYNAMICS)


def _play(gui: Any, made: dict[str, Any]) -> None:
    made["play"] = gui.add_button("Play")
    made["frame"] = gui.add_slider("frame", 0, 60, 1, 0)
    made["loop"] = gui.add_checkbox("loop", True)
    made["speed"] = gui.add_slider("speed", 0.1, 2.0, 0.1, 1.0)
    made["seconds"] = gui.add_slider("seconds", 0.5, 20.0, 0.5, 2.0)
    made["live"] = gui.add_button("Live", hint="real time; a click kicks an object along your view")
    made["strength"] = gui.add_slider("kick", 0.5, 15.0, 0.5, 3.0, hint="speed gained, units/s")
    made["keep"] = gui.add_button("Keep the live run")
    made["reset"] = gui.add_button("Reset")


def _export(gui: Any, made: dict[str, Any]) -> None:
    made["formats"] = {
        name: gui.add_checkbox(name, name in TICKED, hint=one.about)
        for name, one in FORMATS.items()
    }
    made["export"] = gui.add_button("Export and download")
    made["progress"] = gui.add_progress_bar(0.0, visible=False)
    made["project"] = gui.add_button("Download the project")
    made["lines"] = gui.add_button("Show command and Python")
    made["command"] = gui.add_markdown("")
