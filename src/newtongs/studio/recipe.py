"""The user's choices as plain values, which make the same animation anywhere."""

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from ..base.errors import InputError, unknown_name
from ..pipeline.spec import PAPER, ObjectSpec, Physics, SceneSpec
from ..segment.selectors import word_of

DYNAMICS = ("analytic", "structured", "learned", "context", "paper")
REACH = re.compile(r"(grown|shrunk):([^:]+):(.+)")
NUMBERED = re.compile(r"((?:(?:grown|shrunk):[^:]+:)?)(cluster|id):([\d+/^]+)")
LEVEL = re.compile(r"(cluster:\d+)((?:/[01])*)(\^*)")
FPS = 30.0  # frames per second in the page and in exported films


@dataclass(frozen=True)
class Kick:
    """A kick of an object while the simulation runs."""

    time: float
    """Seconds from the start."""
    object: int
    impulse: tuple[float, float, float]
    """Mass times change of velocity, physics units."""


@dataclass(frozen=True)
class Recipe:
    """The arguments of :func:`newtongs.animate` set in the studio, and the kicks of a live run."""

    scene: str
    """File, or the name of a built-in scene."""
    pushes: tuple[ObjectSpec, ...] = ()
    seconds: float = 2.0
    fps: float = FPS
    up: tuple[float, float, float] | None = None
    floor: float | None = None
    loose: bool = False
    solid: bool = True
    dynamics: Literal["analytic", "structured", "learned", "context", "paper"] = "analytic"
    """How objects move; "paper" is the paper's exact procedure."""
    kicks: tuple[Kick, ...] = field(default=())
    """Kicks of a live run in order of time; empty for an ordinary animation."""

    def __post_init__(self) -> None:
        if self.dynamics not in DYNAMICS:
            raise unknown_name("dynamics", self.dynamics, DYNAMICS)
        times = [k.time for k in self.kicks]
        if (
            not all(map(math.isfinite, times))
            or times != sorted(times)
            or min(times, default=0) < 0
        ):
            raise InputError(f"kicks: expected increasing times of at least 0, got {times}")

    @property
    def physics(self) -> Physics:
        """How objects move."""
        return PAPER if self.dynamics == "paper" else Physics(self.dynamics, solid=self.solid)

    @property
    def spec(self) -> SceneSpec:
        """The request to the pipeline."""
        physics = self.physics
        return SceneSpec(
            self.pushes, physics, self.seconds, self.up, self.floor, loose=self.loose,
            complete=not physics.literal,
        )  # fmt: skip

    # --- as code ----------------------------------------------------------------------------------

    def command(self) -> str:
        """The shell command that makes the same animation; a live run has none."""
        self._require_objects()
        if self.kicks:
            raise InputError(
                "a run with kicks has no command; save the project, which newtongs replay shows, "
                "or use the Python code, which makes it again"
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
        """Python code that makes the same animation, as ``animation``."""
        self._require_objects()
        if self.kicks:
            lines = ["from newtongs.pipeline.spec import ObjectSpec"]
            lines += ["from newtongs.studio import Kick, Recipe, Session", "", f"recipe = {self!r}"]
            return "\n".join([*lines, "animation = Session(recipe).animation()", ""])
        physics = "PAPER" if self.dynamics == "paper" else _physics(self.dynamics, self.solid)
        given = {
            "seconds": self.seconds,
            "fps": self.fps,
            "up": self.up,
            "floor_height": self.floor,
        }
        named = [f"    {k}={v!r}," for k, v in given.items() if v is not None]
        named += ["    loose=True,"] if self.loose else []
        lines = [
            "import newtongs",
            "from newtongs.pipeline.spec import PAPER, Physics, ObjectSpec",
            "",
        ]
        lines += ["animation = newtongs.animate(", f"    {self.scene!r},", "    objects=["]
        lines += [f"        {push!r}," for push in self.pushes]
        return "\n".join([*lines, "    ],", *named, f"    physics={physics},", ")", ""])

    def _require_objects(self) -> None:
        if not self.pushes:
            raise InputError("no object is picked yet; click one first")

    # --- as JSON ----------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """The recipe as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> "Recipe":
        """The recipe from the output of :meth:`to_json`, as read from a file."""
        try:
            given = dict(tree)
            given["pushes"] = tuple(ObjectSpec(**one) for one in tree["pushes"])
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
                f"the project is damaged or was changed by hand ({error}); make it again"
            ) from error


def push_words(push: ObjectSpec) -> str:
    """A push as text for ``newtongs animate --push``, with numbers in full precision."""
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
    if dynamics == "paper":  # only the floor is solid there
        return ["--paper"]
    hollow = [] if solid else ["--hollow"]
    return hollow if dynamics == "analytic" else [*hollow, "--dynamics", dynamics]


def _physics(dynamics: str, solid: bool) -> str:
    return f"Physics({dynamics!r}{'' if solid else ', solid=False'})"


def _number(x: float) -> str:
    """A number in full precision, so that reading it gives the same bits."""
    return repr(int(x)) if float(x).is_integer() and abs(x) < 1e9 else repr(float(x))


def _vector(x: Sequence[float]) -> tuple[float, float, float]:
    a, b, c = (float(v) for v in x)
    return a, b, c


# --- selectors ------------------------------------------------------------------------------------


def resized(selector: str, by: float) -> str:
    """Grow a selector by ``by`` scene units, or shrink it if ``by`` is negative."""
    found = REACH.fullmatch(selector)
    reach, inner = 0.0, selector
    if found is not None:
        reach, inner = float(found[2]) * (1 if found[1] == "grown" else -1), found[3]
    reach += by
    if abs(reach) < abs(by) / 2:
        return inner
    return f"{'grown' if reach > 0 else 'shrunk'}:{abs(reach):.6g}:{inner}"


def joined(selector: str, more: str) -> str:
    """Join two selectors of clusters, or of objects of the file, into one object."""
    a, b = NUMBERED.fullmatch(selector), NUMBERED.fullmatch(more)
    if a is None or b is None or a[2] != b[2] or b[1]:
        raise InputError(f"{selector} and {more} cannot be joined: give two clusters, or two ids")
    numbers = sorted({*a[3].split("+"), *b[3].split("+")}, key=lambda x: (len(x), x))
    return f"{a[1]}{a[2]}:{'+'.join(numbers)}"


def larger(selector: str) -> str:
    """The next larger whole around a cluster, or the cluster of a part."""
    return selector[:-2] if _level(selector)[2] else f"{selector}^"


def smaller(selector: str, part: int) -> str:
    """The cluster again for a larger whole, or else one of its two parts."""
    return selector[:-1] if _level(selector)[3] else f"{selector}/{part}"


def _level(selector: str) -> re.Match[str]:
    found = LEVEL.fullmatch(selector)
    if found is None:
        raise InputError(f"{selector} has no parts and no larger whole: that takes one cluster")
    return found


def depends_on_floor(selector: str) -> bool:
    """Whether the meaning of a selector changes with the floor, above which clusters are found."""
    return word_of(selector) in ("auto", "cluster")


def refuse_files(selector: str) -> None:
    """Refuse a selector from the browser that would read a folder."""
    if word_of(selector) == "masks":
        raise InputError("masks are read from a folder; use newtongs animate --select masks:FOLDER")
