"""A session: a scene, its picked objects, their pushes and current states, without a browser."""

from collections.abc import Sequence
from dataclasses import replace as changed
from pathlib import Path
from typing import Any, TypeAlias

from torch import Tensor

from ..base.errors import InputError
from ..base.types import Progress, StateTensor, Times, Vec3
from ..pipeline.prepare import Setup, main_frame, prepare, world_rates
from ..pipeline.run import (
    aimed,
    frame_times,
    misses,
    most_seconds,
    refuse_motions,
    until_rest,
)
from ..pipeline.source import Source, floor_of, open_source
from ..pipeline.spec import ObjectSpec, SceneSpec, Vector
from ..scene.animation import Animation
from ..scene.cameras import Camera
from ..scene.gaussians import BACKGROUND, GaussianScene
from ..scene.world_frame import WorldFrame
from ..segment.cutout.cache import Memory
from ..segment.floor.finding import FloorPlane
from ..segment.objects.clusters import Cluster, cluster
from ..segment.objects.rays import struck, word_of, words_within
from ..segment.objects.selection import select
from . import project
from .cache import Compiled, coarse_path, predicted_path, with_rates
from .live import LiveRun
from .pointing import Ray, ray_in_scene
from .recipe import Kick, Recipe, depends_on_floor, joined, larger, resized, smaller

DIGITS = 3  # decimals of default velocities
STEP = 0.04  # physics units by which a selection grows or shrinks per step

FloorChoice: TypeAlias = tuple[Vector | None, float | None]  # up and floor, if chosen


class Session:
    """An interactive session with one scene.

    All choices of the user are in the :class:`Recipe`, which is immutable and replaced with every
    step. So every step can be undone, and the same recipe gives the same animation anywhere. Rays
    and paths are in the physics frame: y up, the floor at zero.
    """

    def __init__(
        self,
        recipe: Recipe | str,
        *,
        source: Source | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Open the scene; ``source`` is the scene if it is already open."""
        recipe = Recipe(recipe) if isinstance(recipe, str) else recipe
        self.source = source or open_source(recipe.scene)
        self.progress = progress
        self._recipe, self._past = recipe, list[Recipe]()
        self._floors: dict[FloorChoice, FloorPlane] = {}
        self._frames: dict[FloorChoice, WorldFrame] = {}
        self._clusters: dict[FloorChoice, list[Cluster]] = {}
        self._memory = Memory()
        self._setup: tuple[Recipe, Setup] | None = None
        self._compiled: Compiled | None = None
        self._followed: tuple[Recipe, Times, StateTensor] | None = None
        self._live: LiveRun | None = None
        self._pointed: int | None = None  # row of the Gaussian last pointed at

    # --- choices ----------------------------------------------------------------------------------

    @property
    def recipe(self) -> Recipe:
        """The user's choices."""
        return self._recipe

    def choose(self, **fields: Any) -> None:
        """Replace fields of the recipe. A live run ends and its kicks are forgotten."""
        wanted = changed(self._recipe, **{"kicks": (), **fields})
        frame_times(wanted.seconds, wanted.fps)
        if wanted != self._recipe:
            self._past.append(self._recipe)
            self._recipe = wanted
        self._live = None

    def undo(self) -> None:
        """Undo the last choice."""
        if not self._past:
            raise InputError("nothing to undo")
        self._recipe, self._live = self._past.pop(), None

    @property
    def scene(self) -> GaussianScene:
        """The scene as captured."""
        return self.source.scene

    # --- up and the floor -------------------------------------------------------------------------

    @property
    def _floor_choice(self) -> FloorChoice:
        return self._recipe.up, self._recipe.floor

    @property
    def floor(self) -> FloorPlane:
        """Up and floor: as chosen, known or estimated."""
        if self._floor_choice not in self._floors:
            self._floors[self._floor_choice] = floor_of(self.source, *self._floor_choice)
        return self._floors[self._floor_choice]

    def stand(self, up: Vector, floor: float) -> int:
        """Set up ``(3,)`` and the height of the floor along it, scene units.

        Returns the number of objects deselected: those that were found above the old floor.
        """
        before, pushes = self._recipe, self._recipe.pushes
        kept = tuple(push for push in pushes if not depends_on_floor(push.select))
        self.choose(up=up, floor=floor, pushes=kept)
        try:
            _ = self.world
        except InputError:
            self._back_to(before)
            raise
        return len(pushes) - len(kept)

    @property
    def frame(self) -> WorldFrame:
        """The physics frame before any object is picked; the main object sets its unit."""
        if self._floor_choice not in self._frames:
            up, height = self._floor_choice
            self._frames[self._floor_choice] = main_frame(
                self.source, SceneSpec(up=up, floor_height=height), self.floor, self._memory
            )
        return self._frames[self._floor_choice]

    @property
    def world(self) -> WorldFrame:
        """The current physics frame."""
        return self.setup.frame if self._recipe.pushes else self.frame

    @property
    def clusters(self) -> list[Cluster]:
        """Object-like clusters; none if the file marks its objects."""
        if self._floor_choice not in self._clusters:
            marked = any(i != BACKGROUND for i in self.scene.object_ids)
            found = [] if marked else cluster(self.scene, self.floor.carrying)
            self._clusters[self._floor_choice] = found
        return self._clusters[self._floor_choice]

    # --- pick -------------------------------------------------------------------------------------

    def point(self, origin: Ray, direction: Ray) -> str:
        """The selector of the object under a ray."""
        row = struck(self.scene, *ray_in_scene(self.world, origin, direction))
        selector = None if row is None else word_of(self.scene, self.clusters, row)
        self._pointed = row
        if selector is None:
            what = "nothing is" if row is None else "the floor or the surroundings are"
            raise InputError(
                f"{what} under the pointer; click an object that stands on the floor, "
                "or give a selector: box:x0,y0,z0,x1,y1,z1 or sphere:x,y,z,r"
            )
        return selector

    def within(self, camera: Camera, low: Sequence[float], high: Sequence[float]) -> list[str]:
        """Selectors of the objects in a rectangle, in pixels, of a camera in scene coordinates."""
        found = words_within(self.scene, self.clusters, camera, low, high)
        if not found:
            raise InputError("no object lies in the rectangle; draw a larger one")
        return found

    def mask(self, selector: str) -> Tensor:
        """Mask ``(N,)`` of the Gaussians that a selector names, before completion."""
        return select(self.scene, selector, floor=self.floor.carrying).mask

    def pick(self, selector: str) -> int:
        """Add an object, unless it is already picked, and return its number."""
        picked = [push.select for push in self._recipe.pushes]
        if selector in picked:
            return picked.index(selector)
        push = ObjectSpec(select=selector, velocity=_default_velocity(picked))
        self._try_objects((*self._recipe.pushes, push))
        velocity, spin = world_rates(self.setup.bodies[len(picked)].z0)
        last = changed(push, velocity=_rounded(velocity), spin=_rounded(spin))
        self._recipe = changed(self._recipe, pushes=(*self._recipe.pushes[:-1], last))
        return len(picked)

    def drop(self, index: int) -> None:
        """Deselect an object: it is part of the scene again."""
        self._require(index)
        pushes = self._recipe.pushes
        self.choose(pushes=(*pushes[:index], *pushes[index + 1 :]))

    def reselect(self, index: int, selector: str) -> None:
        """Replace the selector of an object; its push is kept."""
        self._require(index)
        pushes = list(self._recipe.pushes)
        pushes[index] = changed(pushes[index], select=selector)
        self._try_objects(tuple(pushes))

    def grow(self, index: int, steps: int = 1) -> None:
        """Grow an object's selection, or shrink it if ``steps`` is negative."""
        self._require(index)
        by = steps * float(f"{STEP / self.frame.scale:.2g}")
        self.reselect(index, resized(self._recipe.pushes[index].select, by))

    def larger(self, index: int) -> None:
        """Take the next larger whole around an object: what it touches, what it stands on."""
        self._require(index)
        self.reselect(index, larger(self._recipe.pushes[index].select))

    def smaller(self, index: int) -> None:
        """Take back the last larger whole, or take the part of the object last pointed at."""
        self._require(index)
        one = self._recipe.pushes[index].select
        part = 0
        if self._pointed is not None and smaller(one, 0).endswith("/0"):
            part = int(bool(self.mask(smaller(one, 1))[self._pointed]))
        self.reselect(index, smaller(one, part))

    def holding(self, selector: str) -> int | None:
        """The picked object that is, or is around or in, what a selector of one cluster names."""
        for index, push in enumerate(self._recipe.pushes):
            if push.select.rstrip("^").split("/")[0] == selector:
                return index
        return None

    def join(self, index: int, selector: str) -> None:
        """Add what another selector names to an object."""
        self._require(index)
        self.reselect(index, joined(self._recipe.pushes[index].select, selector))

    def push(self, index: int, **fields: Any) -> None:
        """Change fields of an object's :class:`newtongs.ObjectSpec`."""
        self._require(index)
        if fields.get("motion"):
            fields |= {"velocity": None, "spin": None}
        elif "velocity" in fields or "spin" in fields:
            fields |= {"motion": None}
        pushes = list(self._recipe.pushes)
        pushes[index] = changed(pushes[index], **fields)
        self.choose(pushes=tuple(pushes))

    def aim(self, index: int, goal: str) -> float:
        """Set the push that brings an object nearest to a goal, as :func:`newtongs.animate` does.

        The push is part of the recipe afterwards, like one set by hand. Returns the distance by
        which the object misses the goal, physics units.
        """
        self._require(index)
        refuse_motions(self._recipe.pushes[index : index + 1])
        times = frame_times(self._recipe.seconds, self._recipe.fps)
        found = aimed(self.setup, goal, times, self.progress, only=[index])
        velocity, spin = world_rates(found.bodies[index].z0)
        self.push(index, velocity=velocity, spin=spin)
        return misses(self.setup, goal, self.states())[index]

    def _try_objects(self, pushes: tuple[ObjectSpec, ...]) -> None:
        """Choose objects, and undo the choice if they cannot be extracted."""
        before = self._recipe
        self.choose(pushes=pushes)
        try:
            _ = self.setup
        except InputError:
            self._back_to(before)
            raise

    def _back_to(self, before: Recipe) -> None:
        if self._recipe != before:
            self.undo()

    def _require(self, index: int) -> None:
        if not 0 <= index < len(self._recipe.pushes):
            raise InputError(
                f"expected the number of one of {len(self._recipe.pushes)} picked objects, "
                f"got {index}"
            )

    # --- simulation -------------------------------------------------------------------------------

    @property
    def setup(self) -> Setup:
        """The recipe, prepared for simulation."""
        if not self._recipe.pushes:
            raise InputError("no object is picked yet; click one first")
        if self._setup is None or self._setup[0] != self._recipe:
            before = None if self._setup is None else self._setup[1]
            made = prepare(
                self.source, self._recipe.spec, floor=self.floor, reuse=before,
                memory=self._memory, progress=self.progress,
            )  # fmt: skip
            self._setup = self._recipe, made
        return self._setup[1]

    def coarse(self, index: int, velocity: Ray | None = None, spin: Ray | None = None) -> Vec3:
        """An approximate path ``(24, 3)`` of an object, computed at once.

        ``velocity`` and ``spin`` are used in place of the recipe's, without changing it.
        """
        self._require(index)
        body = with_rates(self.setup.bodies[index], velocity, spin)
        predicted = self._recipe.physics.predicted and self._recipe.pushes[index].motion is None
        path = predicted_path if predicted else coarse_path
        return path(body, self._recipe.seconds)

    def states(self) -> StateTensor:
        """States ``(T, K, 22)`` of all frames in the physics frame."""
        return self._run()[1]

    def _run(self) -> tuple[Times, StateTensor]:
        if self._followed is None or self._followed[0] != self._recipe:
            setup = self.setup
            if self._compiled is None or not self._compiled.can_run(setup):
                self._compiled = Compiled(setup)
            self._followed = self._recipe, *self._compiled.run(setup, self._recipe)
        return self._followed[1:]

    def run_until_rest(self) -> None:
        """Set the length to that of :func:`newtongs.animate`: until everything rests."""
        self.choose(seconds=most_seconds(None, self._recipe.pushes, self._recipe.physics))
        times, _ = until_rest(*self._run())
        self.choose(seconds=float(times[-1]))

    def animation(self) -> Animation:
        """The animation that :func:`newtongs.animate` makes of the recipe, with any kicks."""
        times, states = self._run()
        about = changed(self.setup.about(), seconds=self._recipe.seconds, fps=self._recipe.fps)
        return self.setup.animation(times, states, about=about)

    # --- live -------------------------------------------------------------------------------------

    @property
    def live(self) -> LiveRun:
        """The live run; at frame 0 until it is stepped."""
        if self._live is None:
            self._live = LiveRun(self.setup)
        return self._live

    @property
    def now(self) -> StateTensor:
        """Current states ``(K, 22)`` of the live run."""
        return self.live.states

    @property
    def time(self) -> float:
        """Elapsed seconds of the live run."""
        return 0.0 if self._live is None else self._live.time

    def step(self) -> StateTensor:
        """Advance the live run by 1/60 s and return the states ``(K, 22)``."""
        return self.live.step()

    def kick(self, origin: Ray, direction: Ray, speed: float) -> int:
        """Kick the object that the ray hits, along the ray, so that it gains ``speed``."""
        return self.live.kick(origin, direction, speed)

    def kicked(self, kick: Kick) -> None:
        """Apply a kick now."""
        self.live.kicked(kick)

    def under(self, origin: Ray, direction: Ray) -> int | None:
        """The movable object that a ray hits at the current states; None for none."""
        return self.live.under(origin, direction)

    def reset(self) -> StateTensor | None:
        """Restore frame 0, bit for bit, and forget the live run's kicks."""
        return None if self._live is None else self._live.reset()

    def keep(self) -> None:
        """Make the live run the recipe, and so an animation like any other."""
        if self._live is None or self._live.ticks < 2:
            raise InputError("no live run to keep; start one and let it run first")
        self.choose(seconds=self._live.time, kicks=tuple(self._live.kicks))

    # --- files ------------------------------------------------------------------------------------

    def export(
        self,
        folder: Path,
        formats: Sequence[str],
        *,
        camera: Camera | None = None,
        animation: Animation | None = None,
        progress: Progress | None = None,
    ) -> dict[str, Path]:
        """Write files, as :func:`newtongs.exports.export`; reuses ``animation`` if given."""
        made = animation or self.animation()
        return project.export(self._recipe, made, folder, formats, camera=camera, progress=progress)

    def save(self, path: Path | str, *, scene: str | None = None) -> None:
        """Save the project as the json of an animation, which ``newtongs replay`` also opens.

        Args:
            path: of the .json; the numbers, and if needed the Gaussians, are written beside it.
            scene: name of the scene's file to store for :meth:`load`, instead of its present path.
                The animation's Gaussians are then written too, and do not refer to that file.
        """
        project.save(self._recipe, self.animation(), Path(path), scene)

    @classmethod
    def load(cls, path: Path | str, *, progress: Progress | None = None) -> "Session":
        """Load what :meth:`save` wrote; the scene is where it was saved, or beside the json."""
        return cls(project.beside(project.read(path), Path(path).parent), progress=progress)


def _default_velocity(picked: Sequence[str]) -> Vector | None:
    """The first object is tossed or dropped as in ``animate``; further ones start at rest."""
    return (0.0, 0.0, 0.0) if picked else None


def _rounded(x: Vector) -> Vector:
    a, b, c = (round(v, DIGITS) + 0.0 for v in x)
    return a, b, c
