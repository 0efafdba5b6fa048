"""What a person has chosen, as plain values: it makes the same animation anywhere."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from ..errors import InputError, unknown_name
from ..pushes import PAPER, Physics, Push

DYNAMICS = ("analytic", "structured", "learned", "context", "paper")
FPS = 30.0  # a page shows motion at that rate; films are made of the same frames


@dataclass(frozen=True)
class Kick:
    """A blow to an object while the simulation runs."""

    time: float
    """Seconds from the start."""
    object: int
    impulse: tuple[float, float, float]
    """Mass times the change of velocity, physics units."""


@dataclass(frozen=True)
class Recipe:
    """Arguments of :func:`newtongs.animate` that a studio sets, and the kicks of a live run."""

    scene: str
    """File, or the name of one of our own scenes."""
    pushes: tuple[Push, ...] = ()
    seconds: float = 2.0
    fps: float = FPS
    up: tuple[float, float, float] | None = None
    floor: float | None = None
    loose: bool = False
    solid: bool = True
    dynamics: Literal["analytic", "structured", "learned", "context", "paper"] = "analytic"
    """How objects move; paper is the paper's procedure to the letter."""
    kicks: tuple[Kick, ...] = field(default=())
    """Of a live run, in their order; none for a run that is only started."""

    def __post_init__(self) -> None:
        if self.dynamics not in DYNAMICS:
            raise unknown_name("dynamics", self.dynamics, DYNAMICS)
        times = [k.time for k in self.kicks]
        if (
            not all(map(math.isfinite, times))
            or times != sorted(times)
            or min(times, default=0) < 0
        ):
            raise InputError(f"kicks: expected times from 0 on that do not decrease, got {times}")

    @property
    def physics(self) -> Physics:
        """How objects move."""
        return PAPER if self.dynamics == "paper" else Physics(self.dynamics, solid=self.solid)

    # --- as lines ---------------------------------------------------------------------------------

    def command(self) -> str:
        """The line for a shell that makes the same animation; a live run has none."""
        self._require_objects()
        if self.kicks:
            raise InputError(
                "a run with kicks has no command; save the project: newtongs replay shows it, "
                "and the Python lines make it again"
            )
        words = ["newtongs", "animate", self.scene, "--push", *map(push_words, self.pushes)]
        words += ["--seconds", _number(self.seconds), "--fps", _number(self.fps)]
        if self.up is not None:
            words += ["--up", *map(_number, self.up)]
        if self.floor is not None:
            words += ["--floor", _number(self.floor)]
        words += ["--loose"] if self.loose else []
        return shlex.join([*words, *_physics_words(self.dynamics, self.solid)])

    def python(self) -> str:
        """Lines of Python that leave the same animation in ``animation``."""
        self._require_objects()
        if self.kicks:
            lines = ["from newtongs.pushes import Push"]
            lines += ["from newtongs.studio import Kick, Recipe, Session", "", f"recipe = {self!r}"]
            return "\n".join([*lines, "animation = Session(recipe).animation()", ""])
        physics = "PAPER" if self.dynamics == "paper" else _physics(self.dynamics, self.solid)
        given = {"seconds": self.seconds, "fps": self.fps, "up": self.up, "floor": self.floor}
        named = [f"    {k}={v!r}," for k, v in given.items() if v is not None]
        named += ["    loose=True,"] if self.loose else []
        lines = ["import newtongs", "from newtongs.pushes import PAPER, Physics, Push", ""]
        lines += ["animation = newtongs.animate(", f"    {self.scene!r},", "    pushes=["]
        lines += [f"        {push!r}," for push in self.pushes]
        return "\n".join([*lines, "    ],", *named, f"    physics={physics},", ")", ""])

    def _require_objects(self) -> None:
        if not self.pushes:
            raise InputError("no object is picked yet; click one first")

    # --- as JSON ----------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> "Recipe":
        """What :meth:`to_json` gave, after a way through a file."""
        try:
            given = dict(tree)
            given["pushes"] = tuple(Push(**one) for one in tree["pushes"])
            given["kicks"] = tuple(
                Kick(float(k["time"]), int(k["object"]), _vector(k["impulse"]))
                for k in tree["kicks"]
            )
            given["up"] = None if tree["up"] is None else _vector(tree["up"])
            return cls(**given)
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"the project is damaged or was changed by hand ({error}); make it anew"
            ) from error


def push_words(push: Push) -> str:
    """A push as ``newtongs animate --push`` reads it, every number in full."""
    out = []
    for f in fields(push):
        value = getattr(push, f.name)
        if value is None or (value == f.default and f.name != "select"):
            continue
        if isinstance(value, tuple):
            value = ",".join(map(_number, value))
        text = _number(value) if isinstance(value, float) else str(value)
        out.append(f"{f.name}={shlex.quote(text)}")
    return " ".join(out)


def _physics_words(dynamics: str, solid: bool) -> list[str]:
    if dynamics == "paper":  # where nothing but the floor is solid
        return ["--paper"]
    hollow = [] if solid else ["--hollow"]
    return hollow if dynamics == "analytic" else [*hollow, "--dynamics", dynamics]


def _physics(dynamics: str, solid: bool) -> str:
    return f"Physics({dynamics!r}{'' if solid else ', solid=False'})"


def _number(x: float) -> str:
    """In full, so that the same bits come back."""
    return repr(int(x)) if float(x).is_integer() and abs(x) < 1e9 else repr(float(x))


def _vector(x: Sequence[float]) -> tuple[float, float, float]:
    a, b, c = (float(v) for v in x)
    return a, b, c


def stem(scene: str) -> str:
    """Of the files that are written."""
    return Path(scene).stem.removesuffix(".compressed") or "scene"
