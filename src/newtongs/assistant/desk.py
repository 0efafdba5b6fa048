"""What the tools of an assistant do: one scene at a time, in words and pictures.

Every method returns text and pictures to show. Everything chosen is in the recipe of a
:class:`newtongs.studio.Session`, so that a command makes the same animation without an assistant.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace as changed
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from ..base.errors import InputError
from ..base.state import State
from ..base.types import Progress, Vec3
from ..exports import require_formats
from ..exports.estimates import estimated
from ..exports.films import SHEET
from ..formats.files import scene_name
from ..pipeline.namers import Namer
from ..pipeline.prepare import moving
from ..pipeline.run import HOLD
from ..pipeline.spec import MOST_COPIES, ObjectSpec, three_numbers
from ..pipeline.words import selector_of
from ..render.video import png_bytes
from ..samples import SCENES
from ..scene.animation import Animation
from ..scene.similarity import VISIBLE
from ..segment.objects.clusters import Cluster
from ..segment.objects.things import Things, things
from ..studio.recipe import Recipe, refuse_files
from ..studio.session import Session
from ..views.inventory import Entry, inventory
from ..views.overview import overview
from ..views.portraits import contact_sheet, portraits
from ..views.viewpoints import clear_camera
from .folders import Folders

SHOWN = 24  # things that are listed and numbered in the picture; more numbers hide each other
LONGEST = 20.0  # seconds of an animation, as in the studio
FRAME = (384, 288)  # pixels of a frame in the sheet that play returns
SIZE = (640, 480)  # pixels of an exported picture
MATERIAL = ("mass", "restitution", "friction")

Reply: TypeAlias = list[str | bytes]
"""Text, and pictures as the contents of a png, in the order in which they are shown."""


class Desk:
    """One open scene, and what an assistant does with it."""

    def __init__(self, folders: Folders, namer: Namer | None = None) -> None:
        self.folders, self.namer = folders, namer
        self.progress: Progress | None = None
        """Called with (what, done, total) during longer work."""
        self._session: Session | None = None
        self._aimed = False  # then the length is that of the goal

    @property
    def session(self) -> Session:
        """The session; an error if no scene is open."""
        if self._session is None:
            raise InputError("no scene is open; open one first")
        return self._session

    def _tell(self, what: str, done: int, of: int) -> None:
        if self.progress is not None:
            self.progress(what, done, of)

    # --- the scene --------------------------------------------------------------------------------

    def open(
        self, scene: str = "", up: Sequence[float] | None = None, floor: float | None = None
    ) -> Reply:
        """Open a scene by file or name; without a name, list what there is."""
        scene = scene.strip()
        if not scene:
            found = self.folders.scenes()
            files = "\n".join(found) if found else "none"
            return [f"files beneath {self.folders}:\n{files}\nbuilt-in scenes: {', '.join(SCENES)}"]
        name = scene if scene in SCENES else str(self.folders.scene(scene))
        given = None if up is None else three_numbers("up", up)
        session = Session(Recipe(name, up=given, floor=floor), progress=self._tell)
        there = self._things(session)
        self._session, self._aimed = session, False
        doubt = f"; not sure: {session.floor.doubt}" if session.floor.doubt else ""
        return [
            f"{scene} is open: {len(session.scene):,} Gaussians; {session.floor.description}"
            f"{doubt}; things found: {len(there.found)}; look shows their numbers"
        ]

    def _things(self, session: Session) -> Things:
        return things(session.scene, session.floor.carrying)

    def look(self) -> Reply:
        """The scene with the number of each thing, close-ups of them, and a list."""
        session = self.session
        there = self._things(session)
        shown = there.found[:SHOWN]
        seen = overview(session.scene, session.world, shown)
        pictures = [png_bytes(seen.picture)]
        if shown:
            close = portraits(session.scene, session.world, shown)
            pictures.append(png_bytes(contact_sheet(close, shown)))
        entries = inventory(session.scene, session.world, shown)
        lines = [self._line(session, there, *each) for each in zip(shown, entries, strict=True)]
        if len(there.found) > SHOWN:
            lines.append(f"and {len(there.found) - SHOWN} more that are less object-like")
        lines += [self._picked(i) for i in range(len(session.recipe.pushes))]
        ruler = (
            "The first picture shows the scene; red numbers are x and blue numbers are z, one "
            f"line every {seen.step:g} m. The second shows each thing with its number."
        )
        return [*pictures, "\n".join([ruler, *(lines or ["no things were found"])])]

    def _line(self, session: Session, there: Things, c: Cluster, entry: Entry) -> str:
        solid = c.rows[session.scene.opacities[c.rows] >= VISIBLE]
        rgb = session.scene.colors[solid if len(solid) else c.rows].mean(0).clamp(0, 1)
        color = "".join(f"{round(255 * v):02x}" for v in rgb.tolist())
        carrier = entry.stands_on.replace("cluster", there.word)
        return (
            f"{c.id}: {there.selector(c.id)}, centre at {_short(entry.center)}, "
            f"{_sized(entry.size)} large, stands on {carrier}, mean colour #{color}, "
            f"{c.count:,} Gaussians"
        )

    # --- objects ----------------------------------------------------------------------------------

    def pick(self, thing: str) -> Reply:
        """Pick a thing by its number, a selector, or with a namer in words."""
        session, text = self.session, thing.strip()
        if not text:
            raise InputError("expected a number from look, or a selector such as cluster:0")
        if len(session.recipe.pushes) >= MOST_COPIES:
            raise InputError(f"up to {MOST_COPIES} objects can be picked; drop one first")
        index = session.pick(self._selector(session, text))
        self._aimed = False
        return [self._picked(index)]

    def _selector(self, session: Session, text: str) -> str:
        """The selector that a number or a text stands for; no text may read a folder."""
        if text.isdecimal():
            there = self._things(session)
            known = [c.id for c in there.found]
            if int(text) not in known:
                numbers = f"{known[0]} to {known[-1]}" if known else "none"
                raise InputError(f"no thing has the number {text}; there are {numbers}; look again")
            return there.selector(int(text))
        refuse_files(text)
        if self.namer is None:
            return text
        floor = session.floor.carrying
        return selector_of(text, session.scene, session.world, floor, self.namer)

    def drop(self, object: int) -> Reply:
        """Make a picked object part of the scene again."""
        self.session.drop(object)
        left = range(len(self.session.recipe.pushes))
        return [
            "\n".join([f"object {object} is part of the scene again", *map(self._picked, left)])
        ]

    def push(
        self,
        object: int = 0,
        velocity: Sequence[float] | None = None,
        spin: Sequence[float] | None = None,
        mass: float | None = None,
        restitution: float | None = None,
        friction: float | None = None,
    ) -> Reply:
        """Set how a picked object starts, and what it is made of."""
        given = {"mass": mass, "restitution": restitution, "friction": friction}
        fields: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
        if velocity is not None or spin is not None:
            fields["velocity"] = three_numbers("velocity", velocity or (0.0, 0.0, 0.0))
            fields["spin"] = three_numbers("spin", spin or (0.0, 0.0, 0.0))
        if not fields:
            raise InputError("expected a velocity, a spin, or one of mass, restitution, friction")
        self.session.push(object, **fields)
        self._aimed = False
        return [self._picked(object)]

    def goal(self, goal: str, object: int = 0, seconds: float = 2.0) -> Reply:
        """Find and set the push that brings an object nearest to a goal."""
        self._set_length(seconds)
        missed = self.session.aim(object, goal)
        self._aimed = True
        return [
            f"{self._picked(object)}\nwith it the object misses the goal by {missed:.3g} m after "
            f"{seconds:g} s; play shows it"
        ]

    def _picked(self, index: int) -> str:
        """A picked object in one line."""
        session = self.session
        one: ObjectSpec = session.recipe.pushes[index]
        setup = session.setup
        count = int((setup.layout.scene.ids == index).sum())
        at = State(setup.bodies[index].z0).p
        spec = setup.spec.spec_of(index)
        made = ", ".join(f"{name} {getattr(spec, name):g}" for name in MATERIAL)
        return (
            f"object {index} is {one.select}: {count:,} Gaussians at {_short(at)}; starts with "
            f"velocity {_short(one.velocity or ())} m/s, spin {_short(one.spin or ())} rad/s; "
            f"{made}"
        )

    # --- motion -----------------------------------------------------------------------------------

    def _set_length(self, seconds: float) -> None:
        if not 0 < seconds <= LONGEST:
            raise InputError(
                f"seconds: expected more than 0 and up to {LONGEST:g}, got {seconds:g}"
            )
        self.session.choose(seconds=float(seconds))

    def play(self, seconds: float | None = None, loose: bool | None = None) -> Reply:
        """Simulate; a sheet of frames, and where the objects end."""
        session, before = self.session, self.session.recipe
        self._require_objects()
        try:
            if loose is not None:
                session.choose(loose=loose)
            if seconds is not None:
                self._set_length(seconds)
            elif not self._aimed:
                session.run_until_rest()
            animation = session.animation()
        except InputError:
            session.choose(**vars(before))
            raise
        few = _few(animation)
        times = ", ".join(f"{t:.2f}" for t in few.times.tolist())
        lines = [f"frames at {times} s, row by row"]
        lines += [_ending(animation, i) for i in self._moved(animation)]
        lines.append(f"the same without an assistant: {session.recipe.command()}")
        return [_sheet(session, few), "\n".join(lines)]

    def _require_objects(self) -> None:
        if not self.session.recipe.pushes:
            raise InputError("no object is picked yet; pick one first")

    def _moved(self, animation: Animation) -> list[int]:
        """The picked objects, and the loose ones that moved."""
        picked = len(self.session.recipe.pushes)
        return [
            i for i, z in animation.states.items()
            if i < picked or bool(moving(z, len(z) - 1).any())
        ]  # fmt: skip

    def export(self, formats: Sequence[str] = ("mp4", "html"), folder: str = "animation") -> Reply:
        """Write the animation to files."""
        session = self.session
        self._require_objects()
        names, path = require_formats(formats), self.folders.target(folder)
        name = scene_name(session.recipe.scene)
        self.folders.refuse_foreign(path, name)
        animation = session.animation()
        shown = [animation.scene] if "ply" in names else []
        estimated(len(animation), SIZE, shown, None).check(path, sure=False)
        camera = clear_camera(animation, SIZE)
        try:
            written = session.export(
                path, names, camera=camera, animation=animation, progress=self._tell
            )
        finally:
            self.folders.wrote(path, name)
        lines = [f"{file}  {_bytes(file) / 1e3:,.0f} kB" for file in written.values()]
        return ["\n".join([*lines, f"made by: {session.recipe.command()}"])]


# --- words and pictures ---------------------------------------------------------------------------


def _few(animation: Animation) -> Animation:
    """The frames of a contact sheet alone, so that no others are drawn."""
    count = min(SHEET, len(animation))
    rows = torch.from_numpy(np.linspace(0, len(animation) - 1, count).round().astype(int))
    states = {i: z[rows] for i, z in animation.states.items()}
    return changed(animation, times=animation.times[rows], states=states)


def _sheet(session: Session, few: Animation) -> bytes:
    """Frames side by side, as the contents of a png."""
    with tempfile.TemporaryDirectory() as folder:
        camera = clear_camera(few, FRAME)
        return session.export(Path(folder), ["png"], camera=camera, animation=few)[
            "png"
        ].read_bytes()


def _ending(animation: Animation, index: int) -> str:
    """How far an object moved, where it ends, and whether it rests there."""
    z = animation.world.state_to_physics(animation.states[index].double())
    p = State(z).p
    hold = min(max(round(HOLD * animation.fps), 2), len(z) - 1)
    rests = not bool(moving(animation.states[index], hold)[-hold])
    low, high = float(p[:, 1].amin()), float(p[:, 1].amax())
    name = animation.about.objects[index].selected
    return (
        f"object {index} ({name}): from {_short(p[0])} to {_short(p[-1])}, moved by "
        f"{_short(p[-1] - p[0])}; its centre was at most {high:.2f} and at least {low:.2f} m high; "
        f"{'at rest' if rests else 'still moving'} at the end"
    )


def _short(x: Vec3 | Sequence[float]) -> str:
    numbers = x.tolist() if isinstance(x, torch.Tensor) else list(x)
    return "(" + ", ".join(f"{round(v, 3) + 0:.3g}" for v in numbers) + ")"


def _sized(x: Sequence[float]) -> str:
    return " x ".join(f"{v:.2f}" for v in x) + " m"


def _bytes(path: Path) -> int:
    """Size of a file, or of all files in a folder."""
    return sum(p.stat().st_size for p in path.rglob("*")) if path.is_dir() else path.stat().st_size
