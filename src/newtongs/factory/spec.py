"""What a data set of films is to be: the words of a spec file.

A spec is TOML. Its tables are the dataclasses here, its keys their fields; what is left out has the
default. Whatever differs from film to film is a distribution, see :class:`Numbers`.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

from .. import __version__
from ..errors import InputError, unknown_name
from ..files import existing_file
from .distributions import Numbers, is_number

Kind: TypeAlias = Literal["world", "learned", "analytic", "paper", "motions"]
CameraPath: TypeAlias = Literal["still", "orbit", "follow"]
Aim: TypeAlias = Literal["free", "loose"]
Rgb: TypeAlias = Literal["mp4", "mp4_full", "webp"]
Renderer: TypeAlias = Literal["ewa", "gsplat", "steady"]

SHIPPED = Path(__file__).parent / "specs"
MOST_OBJECTS = 250  # ids of a picture are bytes
# Defaults of what is drawn anew for every film.
THROWN, UPWARDS, AROUND = Numbers.between(1, 4), Numbers.between(0, 60), Numbers.between(0, 360)
TUMBLING, COMMON, FROM_ABOVE = (
    Numbers("normal", (0.0, 3.0)),
    Numbers.between(0.2, 0.8),
    Numbers.between(8, 40),
)
ONE, FIFTH = Numbers.fixed(1), Numbers.fixed(0.2)
FORMAT = 5  # of the shards; a change makes other bytes of the same spec


@dataclass(frozen=True)
class Objects:
    """Which things of a scene move."""

    select: str | tuple[str, ...] = "found"
    """found: any object that is found in the scene, or that its file marks. all: the whole scene is
    the object. Or names, as `newtongs animate --select` has them: ["cluster:0", "id:3"]."""
    pushed: int = 1
    """Objects that are pushed in a film."""
    loose: int | Literal["all"] = 0
    """Further objects that wait to be hit, the nearest ones; the rest stands still."""
    casts: int = 3
    """Different choices of pushed and loose objects for a scene; each is prepared once."""


@dataclass(frozen=True)
class Pushes:
    """How an object is thrown. Directions are those of the physics frame, y up."""

    speed: Numbers = THROWN
    """Metres a second; 1 to 4."""
    heading: Numbers = AROUND
    """Degrees around up: 0 is +x, 90 is -z."""
    rise: Numbers = UPWARDS
    """Degrees above the horizon; 0 to 60."""
    spin: Numbers = TUMBLING
    """Radians a second about each of the three axes; normal, with deviation 3."""
    aim: Aim = "free"
    """free: by heading and rise. loose: on a flight that hits a loose object, drawn by lot."""


@dataclass(frozen=True)
class Materials:
    """What pushed objects are made of, as in :class:`newtongs.Push`.

    Mass 1, restitution and friction from 0.2 to 0.8, attenuation 0.2.
    """

    mass: Numbers = ONE
    restitution: Numbers = COMMON
    friction: Numbers = COMMON
    attenuation: Numbers = FIFTH


@dataclass(frozen=True)
class Moves:
    """By which laws objects move; one kind a film, all equally often."""

    kinds: tuple[Kind, ...] = ("world",)
    """world: Newton's terms among true shapes. learned: the trained networks there. analytic:
    Newton's terms over a plain floor. paper: the paper's model and floor to the letter. motions:
    along one of the named motions."""
    motions: tuple[str, ...] = ()
    """Names for kind "motions"; none means the paper's 32."""


@dataclass(frozen=True)
class Cameras:
    """From where a film is seen."""

    count: int = 2
    """Views of each film."""
    paths: tuple[CameraPath, ...] = ("still",)
    """One a view by lot: still, orbit (by 90 degrees around the motion) or follow."""
    azimuth: Numbers = AROUND
    """Degrees around the motion."""
    elevation: Numbers = FROM_ABOVE
    """Degrees that a camera looks down; 8 to 40."""
    fov: float = 50.0
    """Degrees across the height of the picture."""


@dataclass(frozen=True)
class Spec:
    """A data set of films."""

    name: str
    """Of the data set."""
    scenes: tuple[str, ...]
    """Our own scenes by name, splat files, and folders of them; paths are relative to the spec."""
    count: int = 64
    """Films."""
    seed: int = 1
    """With the film's number, all that chance hangs on."""
    films_a_shard: int = 16
    """Films in one tar file."""
    frames: int = 49
    """Of each film."""
    fps: float = 24.0
    """Frames a second."""
    size: tuple[int, int] = (256, 256)
    """Width and height in pixels."""
    rgb: Rgb = "mp4"
    """mp4; mp4_full, with colours at full resolution and little loss, for ffmpeg and what is built
    on it rather than for players; or lossless webp."""
    renderer: Renderer = "steady"
    """steady or ewa, on the CPU, or gsplat, on CUDA. Pictures by steady do not jump as things turn,
    so that the flow carries them; ewa draws four times as fast. Both label what they draw,
    gsplat's pictures have the labels of ewa. There is no "auto": the bytes of a film may not hang
    on the machine that makes it."""
    gloss: bool = True
    """Whether colours hang on the side from which things are seen, as spherical harmonics above
    degree 0 say. Without it things keep their colours as they turn, and flow carries them."""
    tries: int = 8
    """How often a film is drawn anew before its number is given up."""
    least_seen: float = 0.34
    """Part of the frames in which the pushed objects must be seen, in every view."""
    most_veiled: float = 0.05
    """Part of a picture that what a camera stands in may take, in every frame."""
    objects: Objects = field(default_factory=Objects)
    """Table [objects]."""
    pushes: Pushes = field(default_factory=Pushes)
    """Table [pushes]."""
    materials: Materials = field(default_factory=Materials)
    """Table [materials]."""
    dynamics: Moves = field(default_factory=Moves)
    """Table [dynamics]."""
    cameras: Cameras = field(default_factory=Cameras)
    """Table [cameras]."""
    splits: Mapping[str, float] = field(default_factory=lambda: {"train": 1.0})
    """Table [splits]: parts of the scenes, not of the films: no scene is in two of them."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def seconds(self) -> float:
        """Length of a film."""
        return (self.frames - 1) / self.fps

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return plain(self)

    @property
    def digest(self) -> str:
        """What the bytes of a film hang on, but for its number: the spec without its count."""
        tree = self.to_json() | {"format": FORMAT, "version": __version__}
        del tree["count"]
        text = json.dumps(tree, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def plain(x: Any) -> Any:
    """Nested dataclasses as JSON has them."""
    if isinstance(x, Numbers):
        return x.to_json()
    if is_dataclass(x) and not isinstance(x, type):
        return {f.name: plain(getattr(x, f.name)) for f in fields(x)}
    if isinstance(x, tuple | list):
        return [plain(y) for y in x]
    return dict(x) if isinstance(x, Mapping) else x


# --- checks ---------------------------------------------------------------------------------------


def check(spec: Spec) -> None:
    """One line on the first thing that cannot be."""
    between("count", spec.count, 1, 10**9)
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
    if not spec.scenes:
        raise InputError("scenes: expected at least one name, file or folder, got none")
    if not spec.name or any(c in spec.name for c in "/\\"):
        raise InputError(f"name: expected a word without slashes, got {spec.name!r}")
    _check_drawn(spec)
    _check_kinds(spec)
    _check_splits(spec.splits)


def between(name: str, value: float, low: float, high: float) -> None:
    """Refuse a number outside its bounds."""
    if not low <= value <= high:
        raise InputError(f"{name}: expected {low:g} to {high:g}, got {value:g}")


def _check_drawn(spec: Spec) -> None:
    """Distributions whose ends a push or a camera would refuse."""
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
        raise InputError("dynamics.kinds and cameras.paths: expected at least one word each")
    if isinstance(objects.select, str) and objects.select not in ("found", "all"):
        known = ("found", "all", 'or a list such as ["cluster:0"]')
        raise unknown_name("objects.select", objects.select, known)
    if objects.loose != "all":
        between("objects.loose", objects.loose, 0, MOST_OBJECTS)
    if spec.pushes.aim == "loose" and not objects.loose:
        raise InputError('pushes.aim = "loose" needs loose objects; give objects.loose too')
    if objects.loose and {"analytic", "paper"} & {*kinds}:
        raise InputError(
            "objects.loose: nothing meets anything under dynamics analytic and paper; "
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
        if not is_number(part) or part <= 0:
            raise InputError(f"splits.{name}: expected a part above 0, got {part!r}")
    if not splits:
        raise InputError("splits: expected at least one, such as train = 1.0")


# --- from a file ----------------------------------------------------------------------------------

IN_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def shipped() -> list[str]:
    """Names of the specs that come with the package."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def load_spec(given: Path | str, **changes: Any) -> tuple[Spec, Path]:
    """A spec by file or by the name of one of ours, and the folder that its paths start from."""
    path = Path(given)
    if str(given) in shipped():
        path = SHIPPED / f"{given}.toml"
    elif not path.suffix and not path.exists():
        raise unknown_name("spec", str(given), [*shipped(), "or a file SPEC.toml"])
    path = existing_file(path, "a spec, a file of TOML")
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is no TOML: {error}") from error
    tree |= {name: value for name, value in changes.items() if value is not None}
    try:
        return parse(Spec, tree), path.parent
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def parse(kind: type, table: Mapping[str, Any], where: str = "") -> Any:
    """A dataclass from a table; a key that it does not know is refused with the near miss."""
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
    """A value as its field wants it."""
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
        raise InputError(f"{where}: expected {kind}, got {value!r}")
    return value


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: expected a table [{where}], got {value!r}")
    return value


def _word(hint: Any, value: Any, where: str) -> Any:
    if value not in get_args(hint):
        raise unknown_name(where, str(value), get_args(hint))
    return value


def _tuple(kinds: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    """A list of one kind of any length, or of as many values as there are kinds."""
    endless = kinds[-1] is Ellipsis
    if not isinstance(value, list | tuple) or not (endless or len(value) == len(kinds)):
        count = "a list" if endless else f"{len(kinds)} values"
        raise InputError(f"{where}: expected {count}, got {value!r}")
    each = (kinds[0],) * len(value) if endless else kinds
    return tuple(_value(kind, x, where) for kind, x in zip(each, value, strict=True))


def _either(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    """The first kind of several that fits."""
    for kind in kinds:
        try:
            return _value(kind, value, where)
        except InputError as error:
            last = error
    raise last


def described(spec: Spec) -> dict[str, Any]:
    """The spec as the data set's folder keeps it."""
    return {"newtongs": __version__, "digest": spec.digest, "spec": spec.to_json()}


__all__ = ["Cameras", "Materials", "Moves", "Objects", "Pushes", "Spec", "load_spec"]
