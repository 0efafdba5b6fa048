"""An animated scene as data: static Gaussians, and one state per frame and object.

This is what is rendered, exported and replayed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..base import rotations
from ..base.errors import InputError
from ..base.lazy import hooked
from ..base.state import DIM, State, require_finite
from ..base.types import GRAVITY, Quat, StateTensor, Times, Vec3, Y
from .cameras import Camera
from .frames import AnimatedScene, Shade
from .gaussians import GaussianScene
from .shadows import ContactShadow, ShadowName
from .transform import IMPL_FLOOR, Form, affine
from .world_frame import WorldFrame


class NodeTrack(NamedTuple):
    """An object's motion as two nested nodes, as file formats store it.

    The outer node is ``T(translation_t) R(rotation_t) S(scale_t)``, the inner one
    ``R(inner_rotation) T(inner_translation)``; their product is the object's affine map.
    """

    translation: Vec3
    """``(T, 3)``."""
    rotation: Quat
    """``(T, 4)``, scalar first, without sign flips between frames."""
    scale: Vec3
    """``(T, 3)``, one at the start for objects."""
    inner_rotation: Quat
    """``(4,)``."""
    inner_translation: Vec3
    """``(3,)``, applied before the inner rotation."""


@dataclass(frozen=True)
class ObjectAbout:
    """How an object was selected, its material, and what was done to it."""

    id: int
    selected: str = ""
    """The selected Gaussians, in words."""
    velocity: tuple[float, ...] = (0.0, 0.0, 0.0)
    """Initial velocity in physics units per second."""
    spin: tuple[float, ...] = (0.0, 0.0, 0.0)
    """Initial spin about the axes x, y and z, in rad/s."""
    mass: float = 1.0
    restitution: float = 0.0
    friction: float = 0.0
    attenuation: float = 0.0
    motion: str | None = None
    """The named motion that it follows, if any."""
    loose: bool = False
    """Whether it moves only when hit."""
    pieces: int = 0
    """Number of convex pieces of its shape; 0 for a ball and in the paper's engine."""
    copy_of: int | None = None
    """The object that it is a copy of, if any."""


@dataclass(frozen=True)
class About:
    """How an animation was made, in plain values that JSON can represent."""

    version: str = ""
    """Version of newtongs."""
    source: str | None = None
    """File or name of the scene."""
    objects: tuple[ObjectAbout, ...] = ()
    ghosts_removed: int = 0
    """Number of Gaussians removed as copies of an object."""
    seconds: float = 0.0
    """Simulated seconds."""
    fps: float = 0.0
    """Frames per second of the animation's times."""
    slow: float = 1.0
    """How many times slower than real time it plays: its times are the simulated ones times this
    factor. Velocities in its states are those of the simulation."""
    up: tuple[float, ...] = ()
    """Up direction of the scene."""
    floor: float = 0.0
    """Height of the floor along up, in scene units."""
    floor_is: str = ""
    """Whether it was found, given, known or assumed."""
    floor_found: str = ""
    """Description of the floor that was found."""
    floor_doubt: str = ""
    """Why it may be wrong, and what to set then; empty if it is clear."""
    lower_floor: float | None = None
    """Height of a floor assumed below the solid scene, in physics units."""
    scale: float = 1.0
    """Physics units per scene unit."""
    unit_is: str = ""
    """Where that comes from: object (the main one is taken to be half a metre large), room, given,
    or scene (a physics unit is a scene unit)."""
    unit_doubt: str = ""
    """Why it may be wrong, and what to set then; empty if nothing speaks against it."""
    dynamics: str = ""
    scale_is: str = ""
    """rigid or free."""
    contact: str = ""
    """world or paper."""
    seed: int | None = None
    gravity: float = -GRAVITY[Y]
    """Physics units per second squared."""
    solid_boxes: int = 0
    """Number of boxes that the static scene was merged into."""
    planes: tuple[tuple[float, ...], ...] = ()
    boxes: tuple[tuple[float, ...], ...] = ()
    goal: str | None = None
    goal_missed_by: tuple[float, ...] = ()
    """Distance for each object, in physics units."""

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> "About":
        """From the result of ``asdict``, read from a file; unknown keys are ignored."""
        known = {f.name for f in fields(cls)}
        given = {k: _tuples(v) for k, v in tree.items() if k in known}
        names = {f.name for f in fields(ObjectAbout)}
        given["objects"] = tuple(
            ObjectAbout(**{k: _tuples(v) for k, v in one.items() if k in names})
            for one in tree.get("objects", ())
        )
        return cls(**given)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def _tuples(value: Any) -> Any:
    """JSON lists as tuples."""
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


@dataclass(frozen=True, eq=False)
class Animation:
    """Objects of ``scene`` that follow ``states``.

    Frame 0 is the scene itself bit for bit, without what appears later.
    """

    scene: GaussianScene
    """Frame 0; its ids assign Gaussians to objects."""
    times: Times
    """Seconds ``(T,)``, from zero."""
    states: Mapping[int, StateTensor]
    """States ``(T, 22)`` of each moving object, by id, in scene coordinates."""
    world: WorldFrame = field(default_factory=WorldFrame.identity)
    """The physics frame."""
    about: About = field(default_factory=About)
    """How it was made."""
    form: Form = "main"
    """The affine map of the objects: that of the main text, or that of the paper's code, which
    scales along the stored coordinates instead of the object's axes."""
    presence: Tensor | None = None
    """When each Gaussian is visible ``(N,)``, uint8: ALWAYS, FIRST (in frame 0 only) or LATER (from
    frame 1), see :mod:`newtongs.scene.frames`. None: all of them, always."""
    shadow: ShadowName = "none"
    """Contact shadows that are drawn: none, all, or only those that frame 0 does not show."""

    def __post_init__(self) -> None:
        for index, z in self.states.items():
            if tuple(z.shape) != (len(self.times), DIM):
                raise InputError(
                    f"states of object {index}: expected shape ({len(self.times)}, {DIM}), "
                    f"got {tuple(z.shape)}"
                )
            require_finite(z, f"states of object {index}")
        if not bool((self.times.diff() > 0).all() & torch.isfinite(self.times).all()):
            raise InputError("times of an animation: expected increasing finite seconds")
        if self.presence is not None and tuple(self.presence.shape) != (len(self.scene),):
            raise InputError(
                f"presence: expected one number for each of {len(self.scene)} Gaussians, "
                f"got shape {tuple(self.presence.shape)}"
            )

    def __len__(self) -> int:
        return len(self.times)

    @property
    def fps(self) -> float:
        """Frames per second; 24 for a single frame."""
        if len(self.times) < 2:
            return 24.0
        return (len(self.times) - 1) / float(self.times[-1] - self.times[0])

    def path(self, index: int = 0) -> Vec3:
        """Positions ``(T, 3)`` of an object in the physics frame: y up, the floor at zero."""
        if index not in self.states:
            raise InputError(f"no object {index}; there are {sorted(self.states)}")
        return State(self.world.state_to_physics(self.states[index])).p

    def save(
        self, path: Path | str, *, formats: str | Iterable[str] | None = None, **options: Any
    ) -> dict[str, Path]:
        """Write files for other tools; returns what was written, by format.

        ``animation.save("fall.glb")`` writes one. With ``formats``, such as ``["mp4", "html"]``,
        ``path`` is their common name without ending, and frames are drawn once for all of them.
        ``options`` are those of :func:`newtongs.exports.export`: camera, size, background, fps,
        backend, sh_degree, compress, source, title, progress.
        """
        return hooked("animation saved")(self, path, formats, **options)

    def render(
        self, time: float, *, camera: Camera | None = None, size: tuple[int, int] = (512, 512)
    ) -> Tensor:
        """Picture ``(H, W, 3)`` of the frame nearest to a time in seconds.

        Without a camera, from where the whole motion is seen.
        """
        return hooked("animation drawn")(self, time, camera, size)

    def show(self) -> Path:
        """Open a page that plays in the browser; returns where it was written."""
        return hooked("animation shown")(self)

    def _repr_html_(self) -> str:
        """Shown in a notebook: a page that plays."""
        return str(hooked("animation as html")(self))

    def frames(self) -> AnimatedScene:
        """Frames for a renderer, in reused buffers; index it for one frame as a scene."""
        start = {i: z[0] for i, z in self.states.items()}
        return AnimatedScene(
            self.scene, start, self.states, form=self.form, presence=self.presence,
            shade=self._shade(),
        )  # fmt: skip

    def _shade(self) -> Shade | None:
        if self.shadow == "none" or not self.states:
            return None
        affines = {i: self.affines(i) for i in self.states}
        return ContactShadow(
            self.scene, affines, self.world.up, kind=self.shadow, presence=self.presence
        )

    def affines(self, index: int) -> tuple[Tensor, Vec3]:
        """``A (T, 3, 3)`` and ``b (T, 3)`` in float64: a mean ``g`` moves to ``A_t g + b_t``."""
        z = self.states[index].double()
        x, A = State(z), affine(z[0], z, self.form)
        return A, x.p - A @ x.p[0]

    def node_track(self, index: int) -> NodeTrack:
        """The motion as two nested nodes, in float64."""
        x = State(self.states[index].double())
        q = continuous(rotations.normalize(x.q))
        if self.form == "impl":
            still = torch.tensor([1.0, 0, 0, 0]).to(q)
            turn = rotations.multiply(q, rotations.conjugate(q[:1]).expand_as(q))
            rho = (x.s / x.s[0].clamp_min(IMPL_FLOOR)).clamp_min(IMPL_FLOOR)
            return NodeTrack(x.p, turn, rho, still, -x.p[0])
        return NodeTrack(x.p, q, x.s / x.s[0], rotations.conjugate(q[0]), -x.p[0])


def continuous(q: Quat) -> Quat:
    """The same rotations ``(T, 4)`` without sign flips between neighbours."""
    flips = torch.where((q[1:] * q[:-1]).sum(-1) < 0, -1.0, 1.0).to(q)
    signs = torch.cat([torch.ones(1).to(q), flips.cumprod(0)])
    return q * signs.unsqueeze(-1)
