"""A session: a scene, what was picked, how it is pushed, and where it is now. No browser here."""

from collections.abc import Sequence
from dataclasses import replace as changed
from pathlib import Path
from typing import Any, TypeAlias

from torch import Tensor

from ..actors import spoken
from ..animator import frame_times
from ..errors import InputError
from ..pushes import Push, Vector
from ..scene.animation import Animation
from ..scene.cameras import Camera
from ..scene.find.clusters import Cluster, cluster
from ..scene.find.floor import Floor
from ..scene.find.memory import Memory
from ..scene.find.rays import struck, word_of, words_within
from ..scene.find.selection import select
from ..scene.gaussians import BACKGROUND, GaussianScene
from ..scene.world_frame import WorldFrame
from ..stage import Opened, Told, floor_of, opened
from ..staging import frame_of
from ..types import StateTensor, Times, Vec3
from . import home, words
from .live import LiveRun
from .pointing import Ray, ray_in_scene
from .recipe import Kick, Recipe
from .stages import (
    Compiled,
    Ready,
    animation_of,
    coarse_path,
    made_ready,
    predicted_path,
    tried,
)

DIGITS = 3  # of velocities that were chosen for a person
STEP = 0.04  # physics units by which a selection is grown or shrunk at once

Ground: TypeAlias = tuple[tuple[float, float, float] | None, float | None]  # up and floor as chosen


class Session:
    """One scene at work.

    All that a person chose is the :class:`Recipe`, which is never changed but replaced; so every
    step can be undone, and the same recipe gives the same animation anywhere. Rays and paths are in
    the physics frame: y up, the floor at zero.
    """

    def __init__(
        self, recipe: Recipe | str, *, place: Opened | None = None, told: Told | None = None
    ) -> None:
        """Open the scene; ``place`` is it, where it is open already."""
        recipe = Recipe(recipe) if isinstance(recipe, str) else recipe
        self.place = place or opened(recipe.scene)
        self.told = told
        self._recipe, self._past = recipe, list[Recipe]()
        self._floors: dict[Ground, Floor] = {}
        self._frames: dict[Ground, WorldFrame] = {}
        self._clusters: dict[Ground, list[Cluster]] = {}
        self._memory = Memory()
        self._ready: Ready | None = None
        self._compiled: Compiled | None = None
        self._followed: tuple[Recipe, Times, StateTensor] | None = None
        self._live: LiveRun | None = None

    # --- what was chosen --------------------------------------------------------------------------

    @property
    def recipe(self) -> Recipe:
        """What was chosen."""
        return self._recipe

    def choose(self, **fields: Any) -> None:
        """Replace fields of the recipe; a live run ends, and its kicks are forgotten."""
        wanted = changed(self._recipe, **{"kicks": (), **fields})
        frame_times(wanted.seconds, wanted.fps)
        if wanted != self._recipe:
            self._past.append(self._recipe)
            self._recipe = wanted
        self._live = None

    def undo(self) -> None:
        """Back to before the last choice."""
        if not self._past:
            raise InputError("nothing to undo")
        self._recipe, self._live = self._past.pop(), None

    @property
    def scene(self) -> GaussianScene:
        """As it was captured."""
        return self.place.scene

    # --- where up and the floor are ---------------------------------------------------------------

    @property
    def _ground(self) -> Ground:
        return self._recipe.up, self._recipe.floor

    @property
    def floor(self) -> Floor:
        """Up and floor as chosen, known or found."""
        if self._ground not in self._floors:
            self._floors[self._ground] = floor_of(self.place, *self._ground)
        return self._floors[self._ground]

    def stand(self, up: Vector, floor: float) -> int:
        """Choose up ``(3,)`` and the floor's height along it, scene units.

        Returns how many objects were let go: those that were found above the floor there was.
        """
        before, pushes = self._recipe, self._recipe.pushes
        kept = tuple(push for push in pushes if not words.hangs_on_floor(push.select))
        self.choose(up=up, floor=floor, pushes=kept)
        try:
            _ = self.world
        except InputError:
            self._back_to(before)
            raise
        return len(pushes) - len(kept)

    @property
    def frame(self) -> WorldFrame:
        """The physics frame before any object is picked: that of the main object."""
        if self._ground not in self._frames:
            self._frames[self._ground] = frame_of(self.scene, self.floor)
        return self._frames[self._ground]

    @property
    def world(self) -> WorldFrame:
        """The physics frame."""
        return self.ready.stage.world if self._recipe.pushes else self.frame

    @property
    def clusters(self) -> list[Cluster]:
        """What could be an object, where the file does not say."""
        if self._ground not in self._clusters:
            marked = any(i != BACKGROUND for i in self.scene.object_ids)
            found = [] if marked else cluster(self.scene, self.floor.carrying)
            self._clusters[self._ground] = found
        return self._clusters[self._ground]

    # --- pick -------------------------------------------------------------------------------------

    def point(self, origin: Ray, direction: Ray) -> str:
        """The object under a ray, as a selection names it."""
        row = struck(self.scene, *ray_in_scene(self.world, origin, direction))
        word = None if row is None else word_of(self.scene, self.clusters, row)
        if word is None:
            what = "nothing is" if row is None else "the floor or the surroundings are"
            raise InputError(
                f"{what} under the pointer; click a thing that stands on the floor, "
                "or name one: box:x0,y0,z0,x1,y1,z1 or sphere:x,y,z,r"
            )
        return word

    def within(self, camera: Camera, low: Sequence[float], high: Sequence[float]) -> list[str]:
        """Objects in a rectangle of a picture, in pixels; the camera stands in the scene."""
        found = words_within(self.scene, self.clusters, camera, low, high)
        if not found:
            raise InputError("no object lies in the rectangle; draw a larger one")
        return found

    def mask(self, word: str) -> Tensor:
        """Which Gaussians of the scene ``(N,)`` a selection names, before they are completed."""
        return select(self.scene, word, floor=self.floor.carrying).mask

    def pick(self, word: str) -> int:
        """Add an object and return its number; one that is there already is only found."""
        there = [push.select for push in self._recipe.pushes]
        if word in there:
            return there.index(word)
        push = Push(select=word, velocity=_first(there))
        self._staged((*self._recipe.pushes, push))
        velocity, spin = spoken(self.ready.bodies[len(there)].z0)
        last = changed(push, velocity=_rounded(velocity), spin=_rounded(spin))
        self._recipe = changed(self._recipe, pushes=(*self._recipe.pushes[:-1], last))
        return len(there)

    def drop(self, index: int) -> None:
        """Let an object be scenery again."""
        self._require(index)
        pushes = self._recipe.pushes
        self.choose(pushes=(*pushes[:index], *pushes[index + 1 :]))

    def reselect(self, index: int, word: str) -> None:
        """Let an object consist of what another selection names; its push stays."""
        self._require(index)
        pushes = list(self._recipe.pushes)
        pushes[index] = changed(pushes[index], select=word)
        self._staged(tuple(pushes))

    def grow(self, index: int, steps: int = 1) -> None:
        """Let an object have more of what is around it, or less where ``steps`` is below zero."""
        self._require(index)
        by = steps * float(f"{STEP / self.frame.scale:.2g}")
        self.reselect(index, words.resized(self._recipe.pushes[index].select, by))

    def join(self, index: int, word: str) -> None:
        """Let an object have what another selection names besides; the two are one then."""
        self._require(index)
        self.reselect(index, words.joined(self._recipe.pushes[index].select, word))

    def push(self, index: int, **fields: Any) -> None:
        """Change fields of an object's :class:`newtongs.Push`."""
        self._require(index)
        if fields.get("motion"):
            fields |= {"velocity": None, "spin": None}
        elif "velocity" in fields or "spin" in fields:
            fields |= {"motion": None}
        pushes = list(self._recipe.pushes)
        pushes[index] = changed(pushes[index], **fields)
        self.choose(pushes=tuple(pushes))

    def _staged(self, pushes: tuple[Push, ...]) -> None:
        """Choose objects, and go back if they cannot be taken out."""
        before = self._recipe
        self.choose(pushes=pushes)
        try:
            _ = self.ready
        except InputError:
            self._back_to(before)
            raise

    def _back_to(self, before: Recipe) -> None:
        if self._recipe != before:
            self.undo()

    def _require(self, index: int) -> None:
        if not 0 <= index < len(self._recipe.pushes):
            raise InputError(f"no object {index}; {len(self._recipe.pushes)} are picked")

    # --- what will happen -------------------------------------------------------------------------

    @property
    def ready(self) -> Ready:
        """Stage and bodies of the recipe."""
        if not self._recipe.pushes:
            raise InputError("no object is picked yet; click one first")
        if self._ready is None or self._ready.recipe != self._recipe:
            self._ready = made_ready(
                self._recipe, self.place, self.floor, self._ready, self._memory, self.told
            )
        return self._ready

    def coarse(self, index: int, velocity: Ray | None = None, spin: Ray | None = None) -> Vec3:
        """Where an object will go ``(24, 3)``, at once and roughly.

        ``velocity`` and ``spin`` are tried without being chosen.
        """
        self._require(index)
        body = tried(self.ready.bodies[index], velocity, spin)
        predicted = self._recipe.physics.predicted and self._recipe.pushes[index].motion is None
        path = predicted_path if predicted else coarse_path
        return path(body, self._recipe.seconds)

    def states(self) -> StateTensor:
        """States ``(T, K, 22)`` of all frames in the physics frame, as they will be."""
        return self._run()[1]

    def _run(self) -> tuple[Times, StateTensor]:
        if self._followed is None or self._followed[0] != self._recipe:
            ready = self.ready
            if self._compiled is None or not self._compiled.serves(ready):
                self._compiled = Compiled(ready)
            self._followed = self._recipe, *self._compiled.followed(ready)
        return self._followed[1:]

    def animation(self) -> Animation:
        """What :func:`newtongs.animate` makes of the recipe, with the kicks of a live run."""
        times, states = self._run()
        return animation_of(self.ready, times, states)

    # --- live -------------------------------------------------------------------------------------

    @property
    def live(self) -> LiveRun:
        """The run that goes on while somebody watches; at frame 0 until it is stepped."""
        if self._live is None:
            self._live = LiveRun(self.ready)
        return self._live

    @property
    def now(self) -> StateTensor:
        """States ``(K, 22)`` of the live run."""
        return self.live.states

    @property
    def time(self) -> float:
        """Seconds that a live run has gone."""
        return 0.0 if self._live is None else self._live.time

    def step(self) -> StateTensor:
        """A sixtieth of a second of the live run: states ``(K, 22)``."""
        return self.live.step()

    def kick(self, origin: Ray, direction: Ray, speed: float) -> int:
        """Hit what the ray meets along the ray, so hard that it gains ``speed``."""
        return self.live.kick(origin, direction, speed)

    def kicked(self, kick: Kick) -> None:
        """Apply a kick now."""
        self.live.kicked(kick)

    def under(self, origin: Ray, direction: Ray) -> int | None:
        """The movable object that a ray meets where all of them are now."""
        return self.live.under(origin, direction)

    def reset(self) -> StateTensor | None:
        """Back to frame 0, bit for bit; the live run's kicks are forgotten."""
        return None if self._live is None else self._live.reset()

    def keep(self) -> None:
        """Make the live run the recipe: an animation like any other."""
        if self._live is None or self._live.ticks < 2:
            raise InputError("no live run to keep; start one, and let it go for a while")
        self.choose(seconds=self._live.time, kicks=tuple(self._live.kicks))

    # --- take it home -----------------------------------------------------------------------------

    def export(
        self,
        folder: Path,
        formats: Sequence[str],
        *,
        camera: Camera | None = None,
        animation: Animation | None = None,
        told: Told | None = None,
    ) -> dict[str, Path]:
        """Write files, as :func:`newtongs.export` does, of ``animation`` if it is made already."""
        made = animation or self.animation()
        return home.export(self._recipe, made, folder, formats, camera=camera, told=told)

    def save(self, path: Path | str, *, scene: str | None = None) -> None:
        """The project as an animation's json, which ``newtongs replay`` opens too.

        Args:
            path: of the .json; the numbers, and where need be the Gaussians, stand beside it.
            scene: name of the scene's file for :meth:`load`, in place of where it is now; then the
                animation's own Gaussians are written too, and none refers to the file.
        """
        home.save(self._recipe, self.animation(), Path(path), scene)

    @classmethod
    def load(cls, path: Path | str, *, told: Told | None = None) -> "Session":
        """A session from what :meth:`save` wrote; its scene is where it was, or beside the json."""
        return cls(home.beside(home.read(path), Path(path).parent), told=told)


def _first(there: Sequence[str]) -> Vector | None:
    """The first object is tossed or dropped as in ``animate``; others stand until pushed."""
    return (0.0, 0.0, 0.0) if there else None


def _rounded(x: Vector) -> Vector:
    a, b, c = (round(v, DIGITS) + 0.0 for v in x)
    return a, b, c
