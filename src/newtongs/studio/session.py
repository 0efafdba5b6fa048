"""A session: a scene, what was picked, how it is pushed, and where it is now. No browser here."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace as changed
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from .. import exports, rotations
from ..actors import spoken
from ..animator import frame_times
from ..errors import InputError
from ..files import existing_file, foreign, write_atomically
from ..pushes import Push, Vector
from ..scene.animation import Animation
from ..scene.cameras import Camera
from ..scene.find.clusters import Cluster, cluster
from ..scene.find.floor import Floor
from ..scene.find.rays import Crossings, crossings, first_opaque, struck, word_of, words_within
from ..scene.gaussians import BACKGROUND, GaussianScene
from ..scene.transform import affine64
from ..scene.world_frame import WorldFrame
from ..stage import Opened, Told, floor_of, opened
from ..staging import frame_of
from ..state import State, replace
from ..templates import SCENES, named_scene
from ..types import StateTensor, Times, Vec3
from ..world.simulation import Simulation, Snapshot
from .recipe import Kick, Recipe, stem
from .stages import Ready, animation_of, coarse_path, followed, made_ready, started

LIVE_RATE = 60  # steps a second while it is live
LONGEST = 120.0  # seconds of a live run that is kept
DIGITS = 3  # of velocities that were chosen for a person
PROJECT = "studio"  # its place in the json of an animation
WHITE = (1.0, 1.0, 1.0)

Ray: TypeAlias = Vec3 | Sequence[float]  # an origin or a direction (3,)
Ground: TypeAlias = tuple[tuple[float, float, float] | None, float | None]  # up and floor as chosen


class Live(NamedTuple):
    """A simulation that runs while somebody watches."""

    simulation: Simulation
    start: Snapshot


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
        self._ready: Ready | None = None
        self._followed: tuple[Recipe, Times, StateTensor] | None = None
        self._live: Live | None = None
        self._ticks = 0
        self._kicks = list[Kick]()

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
        self.reset()
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

    @property
    def _ground(self) -> Ground:
        return self._recipe.up, self._recipe.floor

    @property
    def floor(self) -> Floor:
        """Up and floor as chosen, known or found."""
        if self._ground not in self._floors:
            self._floors[self._ground] = floor_of(self.place, *self._ground)
        return self._floors[self._ground]

    @property
    def world(self) -> WorldFrame:
        """The physics frame: that of the objects, or before any is picked, of the main object."""
        if self._recipe.pushes:
            return self.ready.stage.world
        if self._ground not in self._frames:
            self._frames[self._ground] = frame_of(self.scene, self.floor)
        return self._frames[self._ground]

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
        row = struck(self.scene, *self._in_scene(origin, direction))
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
        words = words_within(self.scene, self.clusters, camera, low, high)
        if not words:
            raise InputError("no object lies in the rectangle; draw a larger one")
        return words

    def pick(self, word: str) -> int:
        """Add an object and return its number; one that is there already is only found."""
        words = [push.select for push in self._recipe.pushes]
        if word in words:
            return words.index(word)
        before = self._recipe, list(self._past)
        self.choose(pushes=(*self._recipe.pushes, Push(select=word, velocity=_first(words))))
        try:
            velocity, spin = spoken(self.ready.bodies[len(words)].z0)
        except InputError:
            (self._recipe, self._past), self._live = before, None
            raise
        self._recipe = changed(
            self._recipe,
            pushes=(
                *self._recipe.pushes[:-1],
                Push(select=word, velocity=_rounded(velocity), spin=_rounded(spin)),
            ),
        )
        return len(words)

    def drop(self, index: int) -> None:
        """Let an object be scenery again."""
        self._require(index)
        pushes = self._recipe.pushes
        self.choose(pushes=(*pushes[:index], *pushes[index + 1 :]))

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
            self._ready = made_ready(self._recipe, self.place, self.floor, self._ready, self.told)
        return self._ready

    def coarse(self, index: int, velocity: Ray | None = None) -> Vec3:
        """Where an object will go ``(24, 3)``, at once and roughly.

        ``velocity`` is tried without being chosen.
        """
        self._require(index)
        body = self.ready.bodies[index]
        if velocity is not None:
            v = torch.as_tensor(velocity, dtype=body.z0.dtype)
            body = changed(body, state=replace(body.z0, v=v))
        return coarse_path(body, self._recipe.seconds)

    def states(self) -> StateTensor:
        """States ``(T, K, 22)`` of all frames in the physics frame, as they will be."""
        return self._run()[1]

    def _run(self) -> tuple[Times, StateTensor]:
        if self._followed is None or self._followed[0] != self._recipe:
            self._followed = self._recipe, *followed(self.ready)
        return self._followed[1:]

    def animation(self) -> Animation:
        """What :func:`newtongs.animate` makes of the recipe, with the kicks of a live run."""
        times, states = self._run()
        return animation_of(self.ready, times, states)

    # --- live -------------------------------------------------------------------------------------

    @property
    def _running(self) -> Live:
        if self._live is None:
            simulation = started(self.ready)
            self._live = Live(simulation, simulation.snapshot())
        return self._live

    @property
    def now(self) -> StateTensor:
        """States ``(K, 22)`` of the live run."""
        return self._running.simulation.states

    @property
    def time(self) -> float:
        """Seconds that a live run has gone."""
        return self._ticks / LIVE_RATE

    def step(self) -> StateTensor:
        """A sixtieth of a second of the live run: states ``(K, 22)``."""
        if self.time >= LONGEST:
            raise InputError(f"a live run lasts up to {LONGEST:g} s; reset it, or keep it")
        self._ticks += 1
        return self._running.simulation.run([self.time])[0]

    def kick(self, origin: Ray, direction: Ray, speed: float) -> int:
        """Hit what the ray meets along the ray, so hard that it gains ``speed``."""
        index = self.under(origin, direction)
        if index is None:
            raise InputError("the ray meets no object that can move; aim at one that was picked")
        way = torch.as_tensor(direction, dtype=torch.float64)
        mass = float(State(self.now[index]).m)
        x, y, z = (mass * speed * way / way.norm()).tolist()
        self.kicked(Kick(self.time, index, (x, y, z)))
        return index

    def kicked(self, kick: Kick) -> None:
        """Apply a kick now."""
        self._running.simulation.push(kick.object, impulse=kick.impulse)
        self._kicks.append(changed(kick, time=self.time))

    def under(self, origin: Ray, direction: Ray) -> int | None:
        """The movable object that a ray meets where all of them are now."""
        found = [(BACKGROUND, self._rest_crossed(origin, direction))]
        found += [(i, self._crossed(i, origin, direction)) for i in self.ready.stage.indices]
        owners = torch.cat([torch.full((len(c.rows),), i) for i, c in found])
        first = first_opaque(*(torch.cat([c[k] for _, c in found]) for k in (1, 2)))
        index = BACKGROUND if first is None else int(owners[first])
        return None if index == BACKGROUND else index

    def _rest_crossed(self, origin: Ray, direction: Ray) -> Crossings:
        stage = self.ready.stage
        rest = stage.scene[(stage.scene.ids == BACKGROUND) & stage.ever_after]
        return crossings(rest, *self._in_scene(origin, direction))

    def _crossed(self, index: int, origin: Ray, direction: Ray) -> Crossings:
        """What the ray crosses of an object, which stays in its place: the ray is moved instead."""
        world, body = self.ready.stage.world, self.ready.bodies[index]
        z0, z = (world.state_to_scene(x.double()) for x in (body.z0, self.now[index]))
        A = affine64(z0, z[None], "main")[0]
        o, d = self._in_scene(origin, direction)
        back = torch.linalg.inv(A)
        start = back @ (o - State(z).p) + State(z0).p
        return crossings(self.ready.stage.scene.object(index), start, back @ d)

    def _in_scene(self, origin: Ray, direction: Ray) -> tuple[Tensor, Tensor]:
        """A ray of the physics frame in scene coordinates; distances keep their numbers."""
        o, d = (torch.as_tensor(x, dtype=torch.float64) for x in (origin, direction))
        world = self.world
        turn = rotations.conjugate(world.rotation)
        return world.to_scene(o), rotations.rotate(turn, d) / world.scale

    def reset(self) -> StateTensor | None:
        """Back to frame 0, bit for bit; the live run's kicks are forgotten."""
        self._ticks, self._kicks = 0, []
        if self._live is None:
            return None
        self._live.simulation.restore(self._live.start)
        return self._live.simulation.states

    def keep(self) -> None:
        """Make the live run the recipe: an animation like any other."""
        if self._live is None or self._ticks < 2:
            raise InputError("no live run to keep; start one, and let it go for a while")
        seconds, kicks = self.time, tuple(self._kicks)
        self.choose(seconds=seconds, kicks=kicks)

    # --- take it home -----------------------------------------------------------------------------

    @property
    def color(self) -> tuple[float, float, float]:
        """Behind everything: that of a scene of ours, else white."""
        ours = self._recipe.scene in SCENES
        return named_scene(self._recipe.scene).color if ours else WHITE

    @property
    def name(self) -> str:
        """Of the files that are written."""
        return stem(self._recipe.scene)

    @property
    def source(self) -> Path | None:
        """The scene's file."""
        return None if self._recipe.scene in SCENES else Path(self._recipe.scene)

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
        return exports.export(
            animation or self.animation(), folder, formats, camera=camera, name=self.name,
            background=self.color, source=self.source, progress=told,
        )  # fmt: skip

    def save(self, path: Path | str, *, scene: str | None = None) -> None:
        """The project as an animation's json, which ``newtongs replay`` opens too.

        Args:
            path: of the .json; the numbers, and where need be the Gaussians, stand beside it.
            scene: name of the scene's file for :meth:`load`, in place of where it is now; then the
                animation's own Gaussians are written too, and none refers to the file.
        """
        path, source = Path(path), self.source
        exports.save_animation(self.animation(), path, source=None if scene else source)
        tree = json.loads(path.read_bytes())
        where = self._recipe.scene if source is None else str(source.resolve())
        tree[PROJECT] = changed(self._recipe, scene=scene or where).to_json()
        text = json.dumps(tree, indent=1, allow_nan=False)
        write_atomically(path, lambda f: f.write(text.encode() + b"\n"))

    @classmethod
    def load(cls, path: Path | str, *, told: Told | None = None) -> "Session":
        """A session from what :meth:`save` wrote; its scene is where it was, or beside the json."""
        path = existing_file(path, "a .json that the studio saved")
        with foreign(path, "JSON"):
            tree = json.loads(path.read_bytes())
        if not isinstance(tree, dict) or not isinstance(tree.get(PROJECT), dict):
            raise InputError(f"{path} is no project of the studio; newtongs replay may show it")
        recipe = Recipe.from_json(tree[PROJECT])
        beside = path.parent / Path(recipe.scene).name
        if recipe.scene not in SCENES and not Path(recipe.scene).exists() and beside.is_file():
            recipe = changed(recipe, scene=str(beside))
        return cls(recipe, told=told)


def _first(words: Sequence[str]) -> Vector | None:
    """The first object is tossed or dropped as in ``animate``; others stand until pushed."""
    return (0.0, 0.0, 0.0) if words else None


def _rounded(x: Vector) -> Vector:
    a, b, c = (round(v, DIGITS) + 0.0 for v in x)
    return a, b, c


def camera_in_scene(
    world: WorldFrame,
    position: Sequence[float],
    wxyz: Sequence[float],
    fov: float,
    size: tuple[int, int],
) -> Camera:
    """A camera of the physics frame, as it stands in the scene.

    ``wxyz`` turns its axes (x right, y down, z ahead) into the frame's, ``fov`` is in radians
    across the height.
    """
    width, height = size
    p = world.to_scene(torch.as_tensor(position, dtype=torch.float64))
    q = rotations.multiply(
        rotations.conjugate(world.rotation), torch.as_tensor(wxyz, dtype=torch.float64)
    )
    R = rotations.to_matrix(rotations.normalize(q)).T
    w2c = torch.eye(4, dtype=torch.float64)
    w2c[:3, :3], w2c[:3, 3] = R, -R @ p
    f = 0.5 * height / math.tan(fov / 2)
    K = torch.tensor([[f, 0, width / 2], [0, f, height / 2], [0, 0, 1]])
    return Camera(K, w2c.float(), width, height)
