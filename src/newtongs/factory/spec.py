"""Spec files: which films a data set holds.

A spec is TOML. Its tables are the dataclasses here, its keys their fields; what is left out takes
its default. They are read here and not by msgspec, which ignores a misspelt key of a dataclass and
names neither the value it was given nor the words it knows.

Whatever varies from film to film is a distribution, see :class:`Numbers`.
"""

import hashlib
import json
import math
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import numpy as np

from .. import __version__
from ..base.errors import InputError, unknown_name
from ..base.files import existing_file, first_line

Kind: TypeAlias = Literal["world", "learned", "analytic", "paper", "motions"]
CameraPath: TypeAlias = Literal["still", "orbit", "follow"]
Aim: TypeAlias = Literal["free", "loose"]
Rgb: TypeAlias = Literal["mp4", "mp4_full", "webp"]
Renderer: TypeAlias = Literal["ewa", "gsplat", "steady"]

SPEC_BYTES = 1 << 20
DEEPEST = 16  # parts of a key; ours have two
DEEP_KEY = re.compile(rb"""(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){%d}""" % DEEPEST)
MOST_FILMS, MOST_SHARDS = 10**8, 10**6
MOST_SHARE = 1e6  # of a split, in whatever unit the others have
MOST_PIXELS = 10**9  # of all frames of a view, which are labelled together
SHIPPED = Path(__file__).parent / "specs"
LONGEST_SHOWN = 60  # characters of a value in an error
MOST_OBJECTS = 250  # ids of a picture are bytes

# --- numbers --------------------------------------------------------------------------------------

WORDS = "uniform", "log", "normal", "choice"
HOW = "a number, [low, high], {log = [low, high]}, {normal = [mean, deviation]} or {choice = [...]}"


@dataclass(frozen=True)
class Numbers:
    """A distribution: ``2.0``, ``[1.0, 3.0]`` (uniform), or a table with one key.

    ``{log = [0.1, 10.0]}`` is uniform in the logarithm, ``{normal = [0.0, 2.0]}`` has mean and
    standard deviation, ``{choice = [1, 2, 5]}`` takes one of them.
    """

    kind: Literal["fixed", "uniform", "log", "normal", "choice"]
    values: tuple[float, ...]

    @classmethod
    def fixed(cls, value: float) -> "Numbers":
        """Always the same."""
        return cls("fixed", (float(value),))

    @classmethod
    def between(cls, low: float, high: float) -> "Numbers":
        """Uniform between two numbers."""
        return cls("uniform", (float(low), float(high)))

    @classmethod
    def parse(cls, given: Any, where: str) -> "Numbers":
        """From a value in a TOML file; ``where`` names the key in an error."""
        if isinstance(given, Numbers):
            return given
        if is_number(given):
            return cls.fixed(given)
        if isinstance(given, list | tuple):
            return cls("uniform", _checked(given, where, 2)).ordered(where)
        if not isinstance(given, dict) or len(given) != 1:
            raise InputError(f"{where}: expected {HOW}, got {_short(given)}")
        ((word, numbers),) = given.items()
        if word not in WORDS:
            raise unknown_name(f"distribution in {where}", word, WORDS)
        made = cls(word, _checked(numbers, where, None if word == "choice" else 2))
        return made.ordered(where) if word in ("uniform", "log") else made

    def ordered(self, where: str) -> "Numbers":
        """Itself, if the bounds are in order and have a logarithm where one is needed."""
        low, high = self.values
        if low > high or (self.kind == "log" and low <= 0):
            raise InputError(f"{where}: expected [low, high]{' above 0' * (self.kind == 'log')}, "
                             f"got [{low:g}, {high:g}]")  # fmt: skip
        return self

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest possible number; infinite for ``normal``."""
        if self.kind == "normal":
            return -math.inf, math.inf
        return min(self.values), max(self.values)

    def draw(self, rng: np.random.Generator) -> float:
        """One number; every kind takes the same number of random values from the stream."""
        u, g = float(rng.random()), float(rng.standard_normal())
        a, b = self.values[0], self.values[-1]
        match self.kind:
            case "uniform":
                return a + u * (b - a)
            case "log":
                return math.exp(math.log(a) + u * (math.log(b) - math.log(a)))
            case "normal":
                return a + g * b
            case "choice":
                return self.values[int(u * len(self.values))]
            case _:
                return a

    def to_json(self) -> Any:
        """As a spec writes it."""
        if self.kind == "fixed":
            return self.values[0]
        return list(self.values) if self.kind == "uniform" else {self.kind: list(self.values)}


def is_number(x: Any) -> bool:
    """Whether a value is a finite number."""
    return isinstance(x, int | float) and not isinstance(x, bool) and abs(x) <= sys.float_info.max


def _checked(numbers: Any, where: str, count: int | None) -> tuple[float, ...]:
    fits = isinstance(numbers, list | tuple) and len(numbers) > 0 and all(map(is_number, numbers))
    if not fits or (count is not None and len(numbers) != count):
        raise InputError(f"{where}: expected {HOW}, got {_short(numbers)}")
    return tuple(float(x) for x in numbers)


# --- tables ---------------------------------------------------------------------------------------

# Defaults of what is drawn for every film.
THROWN, UPWARDS, AROUND = Numbers.between(1, 4), Numbers.between(0, 60), Numbers.between(0, 360)
TUMBLING, COMMON, FROM_ABOVE = (
    Numbers("normal", (0.0, 3.0)),
    Numbers.between(0.2, 0.8),
    Numbers.between(8, 40),
)
ONE, FIFTH = Numbers.fixed(1), Numbers.fixed(0.2)
FORMAT = 6  # version of the shards: a change gives the same spec other bytes


@dataclass(frozen=True)
class Objects:
    """Which objects of a scene move."""

    select: str | tuple[str, ...] = "found"
    """found: any object that is found in the scene, or that its file marks. all: the whole scene is
    one object. Or a list, as for `newtongs animate --select`: ["cluster:0", "id:3"]."""
    pushed: int = 1
    """Objects pushed in each film."""
    loose: int | Literal["all"] = 0
    """Further objects that can be hit, nearest first; all others do not move."""
    casts: int = 3
    """Different choices of pushed and loose objects per scene; each is prepared once."""


@dataclass(frozen=True)
class Pushes:
    """How an object is thrown. Directions are in the physics frame, y up."""

    speed: Numbers = THROWN
    """Metres per second; 1 to 4."""
    heading: Numbers = AROUND
    """Degrees around up: 0 is +x, 90 is -z."""
    rise: Numbers = UPWARDS
    """Degrees above the horizon; 0 to 60."""
    spin: Numbers = TUMBLING
    """Radians per second about each of the three axes; normal, with deviation 3."""
    aim: Aim = "free"
    """free: by heading and rise. loose: towards a loose object, chosen at random."""


@dataclass(frozen=True)
class Materials:
    """What pushed objects are made of, as in :class:`newtongs.ObjectSpec`.

    Mass 1, restitution and friction from 0.2 to 0.8, attenuation 0.2.
    """

    mass: Numbers = ONE
    restitution: Numbers = COMMON
    friction: Numbers = COMMON
    attenuation: Numbers = FIFTH


@dataclass(frozen=True)
class MotionLaws:
    """By which laws objects move; one kind per film, all equally often."""

    kinds: tuple[Kind, ...] = ("world",)
    """world: Newton's laws, with collisions between the true shapes. learned: likewise, with the
    trained networks. analytic: Newton's laws over a flat floor. paper: exactly the paper's model
    and floor. motions: along one of the named motions."""
    motions: tuple[str, ...] = ()
    """Names for kind "motions"; none means the paper's 32."""


@dataclass(frozen=True)
class Cameras:
    """Where a film is seen from."""

    count: int = 2
    """Views per film."""
    paths: tuple[CameraPath, ...] = ("still",)
    """Chosen at random for each view: still, orbit (90 degrees around the motion) or follow."""
    azimuth: Numbers = AROUND
    """Degrees around the motion."""
    elevation: Numbers = FROM_ABOVE
    """Degrees by which a camera looks down; 8 to 40."""
    fov: float = 50.0
    """Vertical field of view in degrees."""


@dataclass(frozen=True)
class Spec:
    """A data set of films."""

    name: str
    """Name of the data set."""
    scenes: tuple[str, ...]
    """Built-in scenes by name, splat files, and folders of them; paths are relative to the spec."""
    count: int = 64
    """Number of films."""
    seed: int = 1
    """Together with the film's number it decides everything random."""
    films_a_shard: int = 16
    """Films per tar file."""
    frames: int = 49
    """Frames per film."""
    fps: float = 24.0
    """Frames per second."""
    size: tuple[int, int] = (256, 256)
    """Width and height in pixels."""
    rgb: Rgb = "mp4"
    """mp4; mp4_full, with colours at full resolution and little loss, which ffmpeg reads and many
    players do not; or lossless webp."""
    renderer: Renderer = "steady"
    """steady or ewa, on the CPU, or gsplat, on CUDA. In steady's pictures nothing pops as objects
    turn, so that the flow carries them; ewa is four times as fast. Both label what they draw;
    gsplat's pictures have ewa's labels. There is no "auto": the bytes of a film must not depend on
    the machine that makes it."""
    gloss: bool = True
    """Whether colours depend on the viewing direction, by spherical harmonics above degree 0.
    Without it objects keep their colours as they turn, so that the flow carries them."""
    tries: int = 8
    """Attempts at a film before its number is given up."""
    least_seen: float = 0.34
    """Fraction of the frames in which the pushed objects must be visible, in every view."""
    most_veiled: float = 0.05
    """Largest fraction of any frame that Gaussians around the camera may cover."""
    objects: Objects = field(default_factory=Objects)
    """Table [objects]."""
    pushes: Pushes = field(default_factory=Pushes)
    """Table [pushes]."""
    materials: Materials = field(default_factory=Materials)
    """Table [materials]."""
    dynamics: MotionLaws = field(default_factory=MotionLaws)
    """Table [dynamics]."""
    cameras: Cameras = field(default_factory=Cameras)
    """Table [cameras]."""
    splits: Mapping[str, float] = field(default_factory=lambda: {"train": 1.0})
    """Table [splits]: fractions of the scenes, not of the films: no scene is in two splits."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def seconds(self) -> float:
        """Length of a film in seconds."""
        return (self.frames - 1) / self.fps

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return plain(self)

    @property
    def digest(self) -> str:
        """Hash of all that decides the bytes of film ``i``: the spec without its count."""
        tree = self.to_json() | {"format": FORMAT, "version": __version__}
        del tree["count"]
        text = json.dumps(tree, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def plain(x: Any) -> Any:
    """Nested dataclasses as JSON values."""
    if isinstance(x, Numbers):
        return x.to_json()
    if is_dataclass(x) and not isinstance(x, type):
        return {f.name: plain(getattr(x, f.name)) for f in fields(x)}
    if isinstance(x, tuple | list):
        return [plain(y) for y in x]
    return dict(x) if isinstance(x, Mapping) else x


# --- checks ---------------------------------------------------------------------------------------


def check(spec: Spec) -> None:
    """Raise an error for the first value that is not allowed."""
    between("count", spec.count, 1, MOST_FILMS)
    between("seed", spec.seed, 0, 2**63)
    between("films_a_shard", spec.films_a_shard, 1, 10_000)
    between("frames", spec.frames, 2, 10_000)
    between("fps", spec.fps, 1, 1000)
    between("tries", spec.tries, 1, 100)
    between("least_seen", spec.least_seen, 0, 1)
    between("most_veiled", spec.most_veiled, 0, 1)
    between("cameras.count", spec.cameras.count, 1, 64)
    between("cameras.fov", spec.cameras.fov, 5, 150)
    between("objects.pushed", spec.objects.pushed, 1, 20)
    between("objects.casts", spec.objects.casts, 1, 100)
    for side in spec.size:
        between("size", side, 16, 4096)
        if side % 2:
            raise InputError(f"size: expected even numbers, as mp4 needs them, got {side}")
    between("count / films_a_shard", spec.count / spec.films_a_shard, 0, MOST_SHARDS)
    between("pixels of all frames of a view", spec.frames * math.prod(spec.size), 1, MOST_PIXELS)
    if not spec.scenes:
        raise InputError("scenes: expected at least one name, file or folder, got none")
    if not spec.name or any(c in spec.name for c in "/\\"):
        raise InputError(f"name: expected a word without slashes, got {spec.name!r}")
    _check_drawn(spec)
    _check_kinds(spec)
    _check_splits(spec.splits)


def between(name: str, value: float, low: float, high: float) -> None:
    """Raise an error for a number outside its bounds."""
    if not low <= value <= high:
        raise InputError(f"{name}: expected {low:g} to {high:g}, got {_short(value)}")


def _short(value: Any) -> str:
    """A value for an error; an integer may be too large for a float, or have any length."""
    try:
        text = f"{value:g}" if is_number(value) else repr(value)
    except ValueError:  # Python writes no number of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def _check_drawn(spec: Spec) -> None:
    """Check distributions against what a push or a camera accepts."""
    bounds: dict[str, tuple[Numbers, float, float]] = {
        "pushes.speed": (spec.pushes.speed, 0, 100),
        "materials.mass": (spec.materials.mass, 1e-6, 1e6),
        "materials.restitution": (spec.materials.restitution, 0, 1),
        "materials.friction": (spec.materials.friction, 0, 10),
        "materials.attenuation": (spec.materials.attenuation, 0, 1),
        "cameras.elevation": (spec.cameras.elevation, -89, 89),
    }
    for name, (numbers, low, high) in bounds.items():
        for end in numbers.ends:
            between(name, end, low, high)


def _check_kinds(spec: Spec) -> None:
    kinds, objects = spec.dynamics.kinds, spec.objects
    if not kinds or not spec.cameras.paths:
        raise InputError("dynamics.kinds and cameras.paths: expected at least one each")
    if isinstance(objects.select, str) and objects.select not in ("found", "all"):
        known = ("found", "all", 'or a list such as ["cluster:0"]')
        raise unknown_name("objects.select", objects.select, known)
    if objects.loose != "all":
        between("objects.loose", objects.loose, 0, MOST_OBJECTS)
    if spec.pushes.aim == "loose" and not objects.loose:
        raise InputError('pushes.aim = "loose" needs loose objects; give objects.loose too')
    if objects.loose and {"analytic", "paper"} & {*kinds}:
        raise InputError(
            "objects.loose: objects do not collide under dynamics analytic and paper; "
            "leave loose out, or these kinds"
        )
    if objects.select == "all" and (objects.loose or objects.pushed > 1):
        raise InputError('objects.select = "all" is one object; leave pushed and loose out')
    if spec.dynamics.motions and "motions" not in kinds:
        raise InputError('dynamics.motions: named, but "motions" is not among dynamics.kinds')


def _check_splits(splits: Mapping[str, float]) -> None:
    for name, part in splits.items():
        if not name.isidentifier():
            raise InputError(f"splits: expected names such as train, got {name!r}")
        if not is_number(part) or not 0 < part <= MOST_SHARE:
            raise InputError(f"splits.{name}: expected a fraction above 0, got {_short(part)}")
    if not splits:
        raise InputError("splits: expected fractions, such as train = 0.8 and test = 0.2")


# --- from a file ----------------------------------------------------------------------------------

IN_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def shipped() -> list[str]:
    """Names of the built-in specs."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def load_spec(given: Path | str, **changes: Any) -> tuple[Spec, Path]:
    """A spec by file or by name, and the folder that its paths are relative to."""
    path = Path(given)
    if str(given) in shipped():
        path = SHIPPED / f"{given}.toml"
    elif not path.suffix and not path.exists():
        raise unknown_name("spec", str(given), [*shipped(), "or a file SPEC.toml"])
    path = existing_file(path, "a spec, a TOML file")
    tree = read_toml(path)
    tree |= {name: value for name, value in changes.items() if value is not None}
    try:
        return parse(Spec, tree), path.parent
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file, refused where it is invalid, too long, or nested too deep."""
    with path.open("rb") as f:
        raw = f.read(SPEC_BYTES + 1)
    if len(raw) > SPEC_BYTES:
        raise InputError(f"{path}: expected a spec of up to {SPEC_BYTES:,} bytes")
    if DEEP_KEY.search(raw):  # the parser's memory grows with the square of the depth
        raise InputError(f"{path}: a key has more than {DEEPEST} parts; it is no spec")
    try:
        return tomllib.loads(raw.decode())
    except RecursionError as error:
        raise InputError(f"{path} is not valid TOML: it is nested too deep") from error
    except ValueError as error:
        raise InputError(f"{path} is not valid TOML: {first_line(error)}") from error


def parse(kind: type, table: Mapping[str, Any], where: str = "") -> Any:
    """A dataclass from a table; an unknown key raises an error that suggests the near miss."""
    hints, given = get_type_hints(kind), {}
    for key, value in table.items():
        if key not in hints:
            raise unknown_name(f"key in [{where}]" if where else "key", key, hints)
        given[key] = _value(hints[key], value, f"{where}.{key}" if where else key)
    for f in fields(kind):
        needed = f.name in ("name", "scenes")
        if needed and f.name not in given:
            raise InputError(f"the key {f.name!r} is missing; a spec has at least name and scenes")
    return kind(**given)


def _value(hint: Any, value: Any, where: str) -> Any:
    """A value as its field needs it."""
    if hint is Numbers:
        return Numbers.parse(value, where)
    if is_dataclass(hint):
        return parse(hint, _table(value, where), where)  # type: ignore[arg-type]
    if get_origin(hint) is Literal:
        return _word(hint, value, where)
    if get_origin(hint) is tuple:
        return _tuple(get_args(hint), value, where)
    if get_origin(hint) is not None and hint != Mapping[str, float]:
        return _either(get_args(hint), value, where)
    if hint is float and is_number(value):
        return float(value)
    if hint == Mapping[str, float]:
        return dict(_table(value, where))
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        kind = IN_WORDS.get(hint, hint.__name__)
        raise InputError(f"{where}: expected {kind}, got {_short(value)}")
    return value


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: expected a table [{where}], got {_short(value)}")
    return value


def _word(hint: Any, value: Any, where: str) -> Any:
    if value not in get_args(hint):
        raise unknown_name(where, str(value), get_args(hint))
    return value


def _tuple(kinds: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    """A list of one type of any length, or one value per type."""
    endless = kinds[-1] is Ellipsis
    if not isinstance(value, list | tuple) or not (endless or len(value) == len(kinds)):
        count = "a list" if endless else f"{len(kinds)} values"
        raise InputError(f"{where}: expected {count}, got {_short(value)}")
    each = (kinds[0],) * len(value) if endless else kinds
    return tuple(_value(kind, x, where) for kind, x in zip(each, value, strict=True))


def _either(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    """A value as the first of several types that fits."""
    for kind in kinds:
        try:
            return _value(kind, value, where)
        except InputError as error:
            last = error
    raise last


def described(spec: Spec, scenes: Mapping[str, str]) -> dict[str, Any]:
    """What the data set's spec.json holds; ``scenes`` are the hashes of their files by name."""
    return {
        "newtongs": __version__, "digest": spec.digest, "scenes": dict(scenes),
        "spec": spec.to_json(),
    }  # fmt: skip
