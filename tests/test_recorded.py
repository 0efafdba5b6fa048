"""What the commands write and say, compared bit for bit with what was recorded.

``recorded.json`` holds, for every case, a digest of each file, what was printed, and some plain
numbers. To record anew, with the captures beside the checkout and all extras installed:

    python tests/test_recorded.py --record [CASE ...]

One may do so only for a difference that is wanted and explained in CHANGELOG.md (or for another
machine, from a commit whose record was right); any other difference is a bug.

Bits hang on the machine and on the libraries. So digests are compared where the fingerprint is the
recorded one; the plain numbers, which have tolerances, everywhere. The cases use the command line
and documented names alone: what moves inside the package does not concern them.
"""

import argparse
import contextlib
import difflib
import functools
import hashlib
import io
import json
import math
import os
import platform
import re
import shlex
import shutil
import struct
import sys
import tarfile
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import newtongs
from newtongs import cli

RECORD = Path(__file__).with_name("recorded.json")
ASSETS = Path(__file__).resolve().parents[2] / "shared" / "assets"
VERSION = newtongs.__version__
SHORT = "--size 96 72 --seconds 0.5 --fps 16"

# What the bits hang on, besides the processor.
PACKAGES = (
    "torch", "numpy", "numba", "llvmlite", "scipy", "mujoco-core", "safetensors", "rich", "tyro",
    "pillow", "gsply", "zstandard", "imageio", "imageio-ffmpeg", "usd-core", "pyarrow",
    "matplotlib",
)  # fmt: skip
SWITCHES = (
    "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "ATEN_CPU_CAPABILITY", "NPY_DISABLE_CPU_FEATURES",
    "OPENBLAS_CORETYPE", "MKL_ENABLE_INSTRUCTIONS",
)  # fmt: skip
EXTRAS = ("PIL", "gsply", "zstandard", "imageio_ffmpeg", "pxr", "pyarrow", "matplotlib")

# Fields of files that tell how long something took, how much memory, or where and when.
TIMED = {
    "run*/metrics.jsonl": ("seconds",),
    "films/log/*.json": ("seconds", "cpu_seconds", "peak_bytes"),
    "report/json/*.json": ("seconds", "made"),
    "table.json": ("made",),
    "context.json": ("made",),
    "ablated.json": ("made",),
}
TIMES = re.compile(r"(?<=done in ).*|(?<=about ).*(?= on this machine)|(?<=shards, )[\d,]+(?= s$)")

# Plain numbers begin with a word that says how far they may be off, absolutely and relatively.
TOLERANCES = {
    "count": (0.0, 0.0),
    "position": (1e-4, 0.0),  # physics units, in the last frame
    "colour": (1.0, 0.0),  # of 255, the mean over a picture or a film
    "Gaussians": (0.0, 1e-3),
    "boxes": (0.0, 1e-2),
    "figure": (1e-6, 1e-3),
    "bytes": (64.0, 0.02),
}

HELP = (
    "", "animate", "replay", "inspect", "convert", "collider", "continue", "studio", "factory",
    "data", "data state32", "data gaussian32", "data same32", "data common12", "data scene",
    "evaluate", "train", "train-context", "ablations", "reproduce", "gallery", "generate", "figure",
    "figure motions", "figure gaussian32", "figure main", "figure panels", "figure strip",
    "figure context", "figure first-frame", "l4gm", "l4gm export",
)  # fmt: skip

FILMS = """
name = "tiny"
scenes = ["playroom_floor", "kitchen_table"]
count = 2
films_a_shard = 2
frames = 5
size = [48, 48]
[objects]
loose = "all"
[cameras]
count = 2
paths = ["still", "orbit"]
[dynamics]
kinds = ["world", "motions"]
"""


def project(run: "Run") -> None:
    """Two objects are picked, pushed and kicked; the live run is kept, exported and saved."""
    from newtongs.studio import Session

    session = Session("kitchen_table")
    word = session.point(origin=(-0.466, 0.8, 3.0), direction=(0.0, -0.494, -3.072))
    run.say("picked", word)
    session.pick(word)
    session.pick("id:3")
    session.push(0, velocity=(2.0, 1.0, 0.0), spin=(0.0, 0.0, -2.0), restitution=0.5)
    run.say("coarse", " ".join(f"{x:.3f}" for x in session.coarse(0)[-1].tolist()))
    for tick in range(36):
        session.step()
        if tick == 19:
            x, y, z = newtongs.State(session.now[0]).p.tolist()
            run.say("kicked", str(session.kick((x, y + 0.2, z + 3.0), (0.0, -0.2, -3.0), 2.0)))
    session.keep()
    lines = session.recipe.python().splitlines()
    run.say("python", *(x for x in lines if not x.startswith(("from", "import"))))
    session.export(Path("out"), ["glb", "json"])
    session.save("project.json")


@dataclass(frozen=True)
class Case:
    """Command lines, or functions, that are run one after the other in one empty folder."""

    steps: tuple[str | Callable[["Run"], None], ...]
    captures: tuple[str, ...] = ()
    """Files of the shared folder that are copied into it."""
    slow: bool = False
    one_thread: bool = False
    """torch alone adds in another order with other numbers of threads, where autograd works."""


CASES = {
    "kitchen_table": Case(
        (
            f"animate kitchen_table --loose --velocity 4 0 0 --friction 0.2 --out a {SHORT}"
            " --formats png json glb html usd mp4",
            "inspect a/kitchen_table.json",
        ),
        slow=True,
    ),
    "bowling": Case(
        (
            "animate bowling --loose --velocity 6 0 0 --mass 3 --out a --size 96 72 --seconds 0.7"
            " --fps 20 --formats png json gif",
            "replay a/bowling.json --out b --formats png glb json --azimuth 60 --size 80 60",
        ),
        slow=True,
    ),
    "sunny_park": Case(
        (
            f"animate sunny_park --velocity 1.5 3 0 --spin 0 0 -4 --out a {SHORT}"
            " --formats gif json ply html",
            f"animate sunny_park --no-shadow --out b {SHORT} --formats json glb html usd"
            " --compress all --sh-degree 0",
        ),
        slow=True,
    ),
    "orbit_space": Case(
        (f"animate orbit_space --motion free_fall --out a {SHORT} --formats png json usd",),
    ),
    "construction_floor": Case(
        (
            f"animate construction_floor --renderer steady --camera-path orbit --out a {SHORT}"
            " --formats png json mp4",
        ),
    ),
    "living_room_table": Case(
        (
            "animate living_room_table --dynamics learned --renderer light --camera-path follow"
            f" --out a {SHORT} --formats mp4 json html",
        ),
    ),
    "dynamics": Case(
        (
            f'animate desk_blue_sphere --goal "land at 1 0.5" --best --out a {SHORT}'
            " --formats json",
            f"animate playroom_floor --dynamics context --out b {SHORT} --formats json",
            f"animate lab_table_cylinder --dynamics structured --out c {SHORT} --formats json",
            "animate studio_tabletop --contact paper --scale free --attenuation 0.3"
            " --plane -0.3 1 0 0 --box 1 0 -1 1.5 0.5 1"
            f" --out d {SHORT} --formats json png",
            'animate kitchen_table --push "select=id:0 velocity=2,0,0"'
            ' "select=id:2 velocity=-1,3,0 restitution=0.8" --plane -1 0 0 -3 --hollow'
            f" --out e {SHORT} --formats json png",
        ),
        slow=True,
    ),
    "banana": Case(
        (f"animate banana.ply --out a {SHORT} --formats png json glb html",),
        captures=("banana.ply",),
    ),
    "unicorn": Case(
        (
            "animate unicorn_stuffy.ply --background kitchen_table --velocity 2 0 0"
            f" --friction 0.15 --out a {SHORT} --formats png json glb",
        ),
        captures=("unicorn_stuffy.ply",),
        slow=True,
    ),
    "playbot": Case(
        (f"animate playbot.sog --velocity 1 2 0 --out a {SHORT} --formats png json",),
        captures=("playbot.sog",),
        slow=True,
    ),
    "guitar": Case(
        (f"animate guitar.compressed.ply --out a {SHORT} --formats png json html --compress all",),
        captures=("guitar.compressed.ply",),
    ),
    "narcissus": Case(
        (
            f"animate narcissus.sog --keep-ghosts --out a {SHORT} --formats png json",
            f"animate narcissus.sog --out b {SHORT} --formats json ply --seconds 0.1",
        ),
        captures=("narcissus.sog",),
        slow=True,
    ),
    "studio": Case(
        (project, "replay project.json --out again --formats png json mp4 --size 96 72"),
        slow=True,
    ),
    "factory": Case(
        ("factory films.toml --out films",),
        slow=True,
    ),
    "collider": Case(
        ("collider kitchen_table --select id:0 --out a.glb", "collider bowling --out b.glb"),
    ),
    "collider_of_capture": Case(
        ("collider guitar.compressed.ply --out a.glb",), captures=("guitar.compressed.ply",)
    ),
    "state32": Case(
        (
            "data state32 --out data --per-motion 4",
            "inspect data",
            "evaluate --data data --per-motion --compare --json table.json --checkpoint pretrained"
            " --methods hold_z0 const_vel_se3 damped_vel_se3 gravity_bounce_se3 physics_prior_se3"
            " oracle",
            "evaluate --data data --splits val_id --methods context --seen 1 8 --noise 0.01"
            " --json context.json",
            "evaluate --data data --splits val_ood --methods hold_z0 --checkpoint pretrained:7302"
            " --ablate contact,euler --json ablated.json",
        ),
    ),
    "train": Case(
        (
            "data state32 --out data --per-motion 4 --splits train val_id",
            "train --data data --out run_fused --epochs 2 --updates-per-epoch 2 --model.hidden 16",
            "train --data data --out run_plain --epochs 2 --updates-per-epoch 2 --model.hidden 16"
            " --backend reference",
            "inspect run_fused/best.safetensors",
            f"animate sunny_park --checkpoint run_fused/best.safetensors --out a {SHORT}"
            " --formats json",
        ),
        one_thread=True,
        slow=True,
    ),
    "paper": Case(
        (
            f"animate banana.ply --paper --out a {SHORT} --formats png json",
            f"animate sunny_park --paper --velocity 1 2 0 --out b {SHORT} --formats png json html",
        ),
        captures=("banana.ply",),
    ),
    "inspect": Case(("inspect kitchen_table --plain --thumbnail a.png",)),
    "inspect_captures": Case(
        (
            "inspect banana.ply --plain --thumbnail a.png",
            "inspect guitar.compressed.ply --plain --thumbnail b.png",
            "inspect kitchen.spz --plain --thumbnail c.png",
            "inspect kitchen.spz --plain --axes RDF --up 0 1 0 --floor -1",
        ),
        captures=("banana.ply", "guitar.compressed.ply", "kitchen.spz"),
    ),
    "continue": Case(
        (
            f"animate sunny_park --velocity 1.5 3 0 --out a {SHORT} --formats json",
            "continue a/sunny_park.json --out b --seconds 0.5 --size 96 72 --formats png json mp4",
        ),
        slow=True,
    ),
    "convert": Case(
        (
            "data scene sunny_park --out park.ply",
            *(
                f"convert park.ply park.{ending}"
                for ending in ("sog", "spz", "splat", "glb", "compressed.ply", "compressed.glb")
            ),
            "convert park.sog again.ply",
            "convert park.compressed.glb from_glb.ply --sh-degree 0",
            "inspect park.spz --plain",
        ),
    ),
    "convert_capture": Case(
        (
            "convert banana.ply b.sog",
            "convert banana.ply b.spz",
            "convert b.spz again.ply --axes RDF --no-loss",
        ),
        captures=("banana.ply",),
    ),
    "reproduce": Case(
        ("reproduce --list", "reproduce --quick --only response --out report --show")
    ),
    "refused": Case(
        (
            "animate no_such_scene --out a",
            "animate missing.ply --out a",
            "animate sunny_park --out a --velocity 1 2",
            "animate sunny_park --out a --loose",
            "animate sunny_park --out a --paper --friction 0.1",
            "animate sunny_park --out a --formats mp5",
            'animate sunny_park --out a --goal "land at 90 0" --seconds 0.5',
            "animat sunny_park",
            "animate sunny_park --velocty 1 2 3",
            "inspect missing",
            "convert sunny_park a.xyz",
            "evaluate --methods hold_z0",
        ),
        slow=True,
    ),
    "help": Case(tuple(f"{words} --help".strip() for words in HELP)),
}


# --- running a case -------------------------------------------------------------------------------


class Run:
    """A case at work: what was said."""

    def __init__(self) -> None:
        self.said: dict[str, list[str]] = {}

    def say(self, of: str, *lines: str) -> None:
        """Note lines under a name."""
        self.said.setdefault(of, []).extend(lines)

    def command(self, words: str) -> None:
        """Run ``newtongs WORDS`` and note what it prints, and its exit code where that is not 0."""
        out, err, code = io.StringIO(), io.StringIO(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                cli.main(shlex.split(words))
            except SystemExit as stop:
                code = stop.code
        lines = [TIMES.sub("#", line.rstrip()) for line in out.getvalue().splitlines()]
        if words.endswith("--help"):  # long, and looked at only where it differs
            lines = [digest("\n".join(lines).encode())]
        lines += [line for line in err.getvalue().splitlines() if line.startswith("newtongs: ")]
        self.say(words, *lines, *([f"exit {code}"] if code else []))


def recorded_run(name: str, folder: Path) -> dict:
    """Run a case in an empty folder: digests of its files, what was said, plain numbers."""
    case, run = CASES[name], Run()
    for capture in case.captures:
        shutil.copyfile(ASSETS / capture, folder / capture)
    if name == "factory":
        (folder / "films.toml").write_text(FILMS)
    given = set(folder.iterdir())
    with (
        settled(folder),
        nullcontext() if name == "factory" else one_version(),
        one_thread() if case.one_thread else nullcontext(),
    ):
        for step in case.steps:
            step(run) if callable(step) else run.command(step)
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path not in given)
    digests: dict[str, str] = {}
    numbers = {"count files": len(paths)} | numbers_said(run.said)
    for path in paths:
        file = path.relative_to(folder).as_posix()
        digests |= digests_of(file, path, films_version(folder))
        numbers |= {f"{kind} {file} {what}".strip(): x for kind, what, x in numbers_of(path)}
    return {"files": digests, "said": run.said, "numbers": numbers}


@contextlib.contextmanager
def settled(folder: Path):
    """In the folder, with lines of one width, and each of our own warnings as often as it comes."""
    without = ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    kept = {k: x for k, x in os.environ.items() if k not in without} | {"COLUMNS": "140"}
    with (
        mock.patch.dict(os.environ, kept, clear=True),
        contextlib.chdir(folder),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", category=UserWarning, module="newtongs")
        yield


@contextlib.contextmanager
def one_thread():
    """For torch."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def one_version():
    """The word VERSION in place of the package's version, so that files outlive a new one."""
    renamed(VERSION, "VERSION")
    try:
        yield
    finally:
        renamed("VERSION", VERSION)


def renamed(now: str, then: str) -> None:
    """Another version in the package and in all its modules that know it."""
    own = [x for name, x in sys.modules.items() if name.partition(".")[0] == "newtongs"]
    for module in own:
        if vars(module).get("__version__") == now:
            module.__version__ = then


def films_version(folder: Path) -> dict[str, str]:
    """Words for the digest that hangs on the version, in films: their workers know the true one.

    A version of another length changes the sizes that the index tells, and is recorded anew.
    """
    spec = folder / "films" / "spec.json"
    return {json.loads(spec.read_text())["digest"]: "DIGEST"} if spec.is_file() else {}


# --- digests --------------------------------------------------------------------------------------


def digest(data: bytes) -> str:
    """Of bytes."""
    return hashlib.sha256(data).hexdigest()[:32]


def digests_of(file: str, path: Path, words: dict[str, str]) -> dict[str, str]:
    """Of a file by name; of a tar, which holds the version, a digest a member."""
    data = path.read_bytes()
    if file.endswith(".tar"):
        with tarfile.open(path) as tar:
            return {
                f"{file}:{m.name}": digest(f"{m.mtime} {m.mode:o} {m.uname} {m.gname} ".encode())
                + digest(neutral(m.name, tar.extractfile(m).read(), words))
                for m in tar
            }
    if file.endswith(".mp4"):  # x264 writes into the film how many threads it had
        return {file: digest(re.sub(rb"threads=\d+", b"threads=#", data))}
    if file.endswith("report/index.html"):  # its foot says when and where it was made
        data = re.sub(rb"<footer>.*?</footer>", b"", data, flags=re.DOTALL)
    timed = [names for pattern, names in TIMED.items() if fnmatch(file, pattern)]
    if timed:
        rows = data.decode().splitlines() if file.endswith(".jsonl") else [data.decode()]
        trees = [json.loads(row) for row in rows]
        data = json.dumps([{k: x for k, x in t.items() if k not in timed[0]} for t in trees])
        data = data.encode()
    return {file: digest(neutral(file, data, words))}


def neutral(file: str, data: bytes, words: dict[str, str]) -> bytes:
    """Without the version, in the texts of films."""
    if not words or not file.endswith((".json", ".html", ".txt")):
        return data
    for word, other in (words | {f'"{VERSION}"': '"VERSION"'}).items():
        data = data.replace(word.encode(), other.encode())
    return data


# --- plain numbers --------------------------------------------------------------------------------


def numbers_said(said: dict[str, list[str]]) -> dict[str, float]:
    """Gaussians and boxes that were told."""
    found = {}
    for k, lines in enumerate(said.values()):
        text = "\n".join(lines)
        for kind in ("Gaussians", "boxes"):
            all_of = re.findall(rf"([\d,]+) {kind}", text)
            found |= {f"{kind} said {k}.{i}": number(x) for i, x in enumerate(all_of)}
        moving = re.findall(r"([\d,]+) of [\d,]+ Gaussians move", text)
        found |= {f"Gaussians moving {k}.{i}": number(x) for i, x in enumerate(moving)}
    return found


def number(text: str) -> int:
    """With commas between thousands."""
    return int(text.replace(",", ""))


def numbers_of(path: Path) -> list[tuple[str, str, float]]:
    """Kind, what it is, and value, by the kind of file."""
    match path.suffix:
        case ".png" | ".gif":
            return of_pictures(path)
        case ".mp4":
            return of_film(path)
        case ".npz":
            return of_states(path)
        case ".ply":
            return [("Gaussians", "", int(re.search(rb"element vertex (\d+)", head(path))[1]))]
        case ".glb":
            tree = json.loads(head(path)[20:])
            counts = [accessor["count"] for accessor in tree["accessors"]]
            return [("Gaussians", "accessors", max(counts))]
        case ".json":
            leaves = [*leaves_of(json.loads(path.read_text()))]
            return [("figure", f"sum of {len(leaves)}", math.fsum(map(abs, leaves)))]
        case ".jsonl":
            last = json.loads(path.read_text().splitlines()[-1])
            return [("figure", name, last[name]) for name in ("total", "val_total")]
        case ".tar":
            with tarfile.open(path) as tar:
                return [("count", "members", len(tar.getnames()))]
        case ".csv":
            return [("count", "lines", len(path.read_text().splitlines()))]
    return [("bytes", "", path.stat().st_size)]


def head(path: Path) -> bytes:
    """The header of a .ply, or a .glb up to the end of its description."""
    with path.open("rb") as f:
        first = f.read(1 << 16)
        if path.suffix == ".glb":
            first = first[:20] + f.read(0)
            (length,) = struct.unpack("<I", first[12:16])
            f.seek(20)
            return first + f.read(length)
    return first


def leaves_of(tree):
    """The numbers of a JSON, but for times."""
    if isinstance(tree, dict):
        for name, part in tree.items():
            if name not in ("seconds", "cpu_seconds", "peak_bytes", "made"):
                yield from leaves_of(part)
    elif isinstance(tree, list):
        for part in tree:
            yield from leaves_of(part)
    elif isinstance(tree, int | float) and not isinstance(tree, bool):
        yield tree


def of_pictures(path: Path) -> list[tuple[str, str, float]]:
    """Size, frames and mean colour of a picture or a .gif."""
    from PIL import Image, ImageSequence

    with Image.open(path) as picture:
        frames = [np.asarray(x.convert("RGB")) for x in ImageSequence.Iterator(picture)]
    return of_frames(frames)


def of_film(path: Path) -> list[tuple[str, str, float]]:
    """Size, frames and mean colour of an .mp4."""
    import imageio_ffmpeg

    frames = imageio_ffmpeg.read_frames(str(path))
    width, height = next(frames)["size"]
    return of_frames([np.frombuffer(x, np.uint8).reshape(height, width, 3) for x in frames])


def of_frames(frames: list) -> list[tuple[str, str, float]]:
    height, width, _ = frames[0].shape
    mean = np.stack(frames).mean((0, 1, 2), dtype=np.float64).tolist()
    found = [
        ("count", "frames", len(frames)),
        ("count", "width", width),
        ("count", "height", height),
    ]
    return found + [("colour", name, round(x, 3)) for name, x in zip("rgb", mean, strict=True)]


def of_states(path: Path) -> list[tuple[str, str, float]]:
    """Where each object is in the last frame."""
    with np.load(path) as arrays:
        last = {k: arrays[k][-1] for k in arrays if k.startswith("states_")}
    return [
        ("position", f"{name}.{axis}", round(float(x), 6))
        for name, state in last.items()
        for axis, x in zip("xyz", state[:3], strict=True)
    ]


# --- the machine ----------------------------------------------------------------------------------


@functools.cache
def fingerprint() -> dict[str, str]:
    """What the bits hang on."""
    import torch
    from llvmlite import binding

    features = ",".join(sorted(k for k, x in binding.get_host_cpu_features().items() if x))
    found = {
        "machine": f"{platform.system()} {platform.machine()}",
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "zlib": zlib.ZLIB_RUNTIME_VERSION,
        "processor": binding.get_host_cpu_name(),
        "its features": digest(features.encode()),
        "torch computes with": torch.backends.cpu.get_cpu_capability(),
        "CUDA": str(torch.cuda.is_available()),
    }
    found |= {name: os.environ[name] for name in SWITCHES if name in os.environ}
    return found | {name: installed(name) for name in PACKAGES}


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def elsewhere(recorded: dict[str, str]) -> str:
    """In what this machine differs from the recorded one; empty where it does not."""
    here = fingerprint()
    names = [k for k in recorded | here if recorded.get(k) != here.get(k)]
    return ", ".join(f"{k} {here.get(k)}, recorded with {recorded.get(k)}" for k in names)


# --- the tests ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What a case gives, by name; each is run once."""

    @functools.cache
    def result(name: str) -> dict:
        return recorded_run(name, tmp_path_factory.mktemp(name))

    for module in EXTRAS:
        pytest.importorskip(module, reason="the recorded cases need all extras")
    return result


@pytest.fixture(scope="module")
def record():
    """What was recorded."""
    return json.loads(RECORD.read_text())


def require_captures(name: str) -> None:
    missing = [x for x in CASES[name].captures if not (ASSETS / x).is_file()]
    if missing:
        pytest.skip(f"needs {', '.join(missing)} in shared/assets beside the checkout")


EACH = pytest.mark.parametrize(
    "name",
    [pytest.param(k, marks=[pytest.mark.slow] if case.slow else []) for k, case in CASES.items()],
)


def test_every_case_is_recorded(record):
    assert list(record["cases"]) == list(CASES)


@EACH
def test_plain_numbers_are_the_recorded_ones(name, record, results):
    require_captures(name)
    wanted, got = record["cases"][name]["numbers"], results(name)["numbers"]
    wrong = [
        f"{key}: {got.get(key)}, recorded {wanted.get(key)}"
        for key in wanted | got
        if not near(key, got.get(key), wanted.get(key))
    ]
    assert not wrong, f"case {name}: " + "; ".join(wrong)


@EACH
def test_files_and_words_are_the_recorded_ones_bit_for_bit(name, record, results):
    require_captures(name)
    if other := elsewhere(record["fingerprint"]):
        pytest.skip(f"only plain numbers are compared here: {other}")
    wanted, got = record["cases"][name], results(name)
    was, now = wanted["files"], got["files"]
    lines = [f"{x} differs" for x in sorted(was.keys() & now.keys()) if was[x] != now[x]]
    lines += [f"{x} is not written" for x in sorted(was.keys() - now.keys())]
    lines += [f"{x} is new" for x in sorted(now.keys() - was.keys())]
    lines += difflib.unified_diff(spoken(wanted), spoken(got), "recorded", "now", lineterm="", n=1)
    assert not lines, f"case {name}:\n" + "\n".join(lines)


def near(key: str, a: float | None, b: float | None) -> bool:
    """Within the tolerance of the number's kind."""
    absolute, relative = TOLERANCES[key.split()[0]]
    return None not in (a, b) and math.isclose(a, b, rel_tol=relative, abs_tol=absolute)


def spoken(result: dict) -> list[str]:
    """What was said, under the commands."""
    return [line for words, lines in result["said"].items() for line in (f"$ {words}", *lines)]


def test_numbers_may_differ_by_their_tolerance_only():
    assert near("position a.npz states_0.x", 0.50001, 0.5)
    assert not near("position a.npz states_0.x", 0.5002, 0.5)
    assert not near("count files", 3, 4)
    assert not near("count files", None, 4)


# --- recording ------------------------------------------------------------------------------------


def main() -> None:
    """Record all cases, or those named."""
    parser = argparse.ArgumentParser(description="Record what the commands write.")
    parser.add_argument("--record", nargs="*", choices=[[], *CASES], metavar="CASE", required=True)
    names = parser.parse_args().record
    old = json.loads(RECORD.read_text()) if names else {"cases": {}}
    if names and (other := elsewhere(old["fingerprint"])):
        parser.error(f"record all cases anew, for this is another machine: {other}")
    cases = old["cases"]
    for name in names or CASES:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            cases[name] = recorded_run(name, Path(folder))
        print(f"{name:20} {time.perf_counter() - start:5.1f} s", flush=True)
    content = {"fingerprint": fingerprint(), "cases": {name: cases[name] for name in CASES}}
    RECORD.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the command does
    main()
