"""Small files that ask for much memory or time: each is refused, or read within the rule.

    python tests/harness/bombs.py         # prints the table of RESULTS.md

The rule: 20 times the file's size and 1 GB of memory, 20 s of processor time. Each bomb is read in
a process of its own that can have no more than a few GB, so that none takes the machine down.
"""

import argparse
import json
import multiprocessing as mp
import os
import re
import resource
import struct
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

RATIO, BESIDE = 20, 1 << 30  # bytes that a file may take: 20 times its size, and 1 GB
SECONDS = 20.0
PATIENCE = 240.0  # seconds of the clock after which a reader is killed; the machine may be busy
ROOM = 6 << 30  # of address space beyond the beginning: what is asked for and not used is free


@dataclass(frozen=True)
class Bomb:
    """How to write it into a folder, and how to read it."""

    write: Callable[[Path], None]
    read: Callable[[Path], Any]


@dataclass
class Outcome:
    """What became of a bomb."""

    size: int = 0
    memory: int = 0
    seconds: float = 0.0
    said: str = ""
    """The line with which it was refused; empty where it was read."""
    failed: str = ""

    @property
    def wrong(self) -> str:
        """What breaks the rule; empty if nothing does."""
        if self.failed or "\n" in self.said:
            return self.failed or "an error of several lines"
        if self.memory > RATIO * self.size + BESIDE:
            return f"took {self.memory / 1e9:.1f} GB"
        return f"took {self.seconds:.0f} s" if self.seconds > SECONDS else ""


BOMBS: dict[str, Bomb] = {}


def bomb(read: Callable[[Path], Any]):
    """Register a function that writes a bomb under its own name."""

    def add(write: Callable[[Path], None]):
        BOMBS[write.__name__.replace("_", "-")] = Bomb(write, read)
        return write

    return add


# --- pictures in a SOG ----------------------------------------------------------------------------


def load(name: str) -> Callable[[Path], Any]:
    """Read a scene of the folder."""

    def read(folder: Path) -> Any:
        from newtongs.formats import load

        return load(folder / name)

    return read


def webp(size: tuple[int, int], **how: Any) -> bytes:
    """A picture of one colour."""
    import io

    from PIL import Image

    out = io.BytesIO()
    Image.new("RGBA", size).save(out, format="WEBP", **how)
    return out.getvalue()


def lossless_after(raw: bytes) -> bytes:
    """The same with a tiny lossless picture behind its end, where no decoder looks."""
    return raw + webp((16, 16), lossless=True)[12:]


def sog_with(folder: Path, plane: bytes) -> None:
    """A SOG one of whose planes is this."""
    from test_scene import random_scene

    from newtongs.formats import save

    save(random_scene(60, 1), folder / "plain.sog")
    plain, changed = folder / "plain.sog", folder / "a.sog"
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            new.writestr(name, plane if name == "scales.webp" else old.read(name))
    plain.unlink()


@bomb(load("a.sog"))
def sog_lossy_plane_with_lossless_chunk_outside(folder: Path) -> None:
    sog_with(folder, lossless_after(webp((13_000, 13_000), quality=1)))


@bomb(load("a.sog"))
def sog_animated_plane(folder: Path) -> None:
    from PIL import Image

    more = [Image.new("RGBA", (12_000, 12_000), (i, 0, 0, 255)) for i in (1, 2)]
    sog_with(folder, lossless_after(webp((12_000, 12_000), save_all=True, append_images=more)))


@bomb(load("a.sog"))
def sog_lossless_plane_of_13000_pixels_a_side(folder: Path) -> None:
    sog_with(folder, webp((13_000, 13_000), lossless=True))


# --- glTF -----------------------------------------------------------------------------------------


def glb_nodes(count: int, *, meshes: int = 1, compress: bool, gaussians: int):
    """A .glb of many nodes that share meshes, which share their numbers."""

    def write(folder: Path) -> None:
        from test_scene import random_scene

        from newtongs.formats import save

        path = folder / "plain.compressed.glb" if compress else folder / "plain.glb"
        save(random_scene(gaussians, 0), path)
        raw = path.read_bytes()
        (size,) = struct.unpack_from("<I", raw, 12)
        tree = json.loads(raw[20 : 20 + size])
        tree["meshes"] *= meshes
        for accessor in tree["accessors"]:
            accessor["count"] = 1
        step = {"translation": [0.1, 0.2, 0.3]}
        tree["nodes"] = [{"children": [*range(1, count + 1)]}]
        tree["nodes"] += [{"mesh": i % meshes} | step for i in range(count)]
        text = json.dumps(tree, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 4)
        chunks = struct.pack("<I4s", len(text), b"JSON") + text + raw[20 + size :]
        (folder / "a.glb").write_bytes(raw[:8] + struct.pack("<I", 12 + len(chunks)) + chunks)
        path.unlink()

    return write


BOMBS["glb-one-packed-view-for-20,000-nodes"] = Bomb(
    glb_nodes(20_000, compress=True, gaussians=50_000), load("a.glb")
)
BOMBS["glb-20,000-meshes-of-one-packed-view"] = Bomb(
    glb_nodes(20_000, meshes=20_000, compress=True, gaussians=50_000), load("a.glb")
)
BOMBS["glb-4,000-nodes"] = Bomb(glb_nodes(4_000, compress=False, gaussians=1), load("a.glb"))
BOMBS["glb-99,000-nodes"] = Bomb(glb_nodes(99_000, compress=False, gaussians=1), load("a.glb"))


# --- tracks ---------------------------------------------------------------------------------------


def continued(name: str) -> Callable[[Path], Any]:
    """Read a track and continue it by a tenth of a second."""

    def read(folder: Path) -> Any:
        from newtongs.forecast import load_pretrained_context
        from newtongs.forecast.continuation import continue_track, read_track

        observed = read_track(folder / name)
        return continue_track(observed, load_pretrained_context(), seconds=0.1)

    return read


@bomb(continued("a.json"))
def track_of_a_year(folder: Path) -> None:
    text = json.dumps({"p": [[0, 1, 0], [0, 1, 0], [0, 1, 0]], "times": [0, 1, 3e7]})
    (folder / "a.json").write_text(text)


@bomb(continued("a.json"))
def track_of_3_million_positions(folder: Path) -> None:
    (folder / "a.json").write_text('{"p":[' + "[0,1,0]," * 3_000_000 + "[0,1,0]]}")


@bomb(continued("a.npz"))
def track_of_deflated_zeros(folder: Path) -> None:
    np.savez_compressed(folder / "a.npz", p=np.zeros((2_500_000, 3)))


@bomb(continued("a.json"))
def track_of_empty_lists(folder: Path) -> None:
    (folder / "a.json").write_text('{"p":[' + "[]," * 8_000_000 + "[]]}")


@bomb(continued("a.json"))
def track_of_20_000_positions_over_600_s(folder: Path) -> None:
    rows = [[0, 1, 0]] * 20_000
    times = [i * 600 / 20_000 for i in range(20_000)]
    (folder / "a.json").write_text(json.dumps({"p": rows, "times": times}))


# --- specs ----------------------------------------------------------------------------------------


def produced(folder: Path) -> Any:
    """The plan of a data set: the spec, its scenes and shards."""
    from newtongs.factory.scenes import find_scenes
    from newtongs.factory.shards import shards_of
    from newtongs.factory.spec import load_spec

    spec, home = load_spec(folder / "a.toml")
    return shards_of(spec, find_scenes(spec, home))


PLAIN = 'name = "x"\nscenes = ["bowling"]\n'
SPECS = {
    "spec-keys-40,000-deep": "a." * 40_000 + "a = 1\n",
    "spec-quoted-keys-20,000-deep": '"a" . ' * 20_000 + "a = 1\n",
    "spec-tables-40,000-deep": "[" + "a." * 40_000 + "a]\n",
    "spec-lists-50,000-deep": "count = " + "[" * 50_000 + "]" * 50_000 + "\n",
    "spec-a-million-shards": "count = 1000000\nfilms_a_shard = 1\n",
    "spec-a-billion-films": "count = 1000000000\nfilms_a_shard = 1\n",
    "spec-a-number-of-400-digits": "count = 1" + "0" * 400 + "\n",
    "spec-a-number-of-9,000-digits": "count = 1" + "0" * 9_000 + "\n",
    "spec-a-film-of-a-terabyte": "frames = 10000\nsize = [4096, 4096]\n",
    "spec-a-choice-of-a-large-number": "[pushes]\nspeed = {choice = [1" + "0" * 400 + "]}\n",
}
for _name, _text in SPECS.items():
    BOMBS[_name] = Bomb(lambda f, text=_text: (f / "a.toml").write_text(PLAIN + text), produced)


@bomb(produced)
def spec_of_100_MB(folder: Path) -> None:  # noqa: N802
    (folder / "a.toml").write_text(PLAIN + "#" + "x" * 100_000_000)


# --- projects and parts ---------------------------------------------------------------------------


def project(folder: Path) -> Any:
    """Open a project of the studio."""
    from newtongs.studio import project

    return project.read(folder / "a.json")


@bomb(project)
def project_of_80_MB(folder: Path) -> None:  # noqa: N802
    (folder / "a.json").write_text('{"studio": {"x": "' + "x" * 80_000_000 + '"}}')


@bomb(project)
def project_nested_100_000_deep(folder: Path) -> None:
    (folder / "a.json").write_text('{"studio": ' + "[" * 100_000 + "]" * 100_000 + "}")


@bomb(project)
def project_of_30_000_pushes(folder: Path) -> None:
    from newtongs import ObjectSpec
    from newtongs.studio import Recipe

    tree = Recipe("bowling", (ObjectSpec("id:0"),)).to_json()
    tree["pushes"] *= 30_000
    (folder / "a.json").write_text(json.dumps({"studio": tree}))


def read_parts(folder: Path) -> Any:
    """What a rerun of the factory reads of the run before."""
    from newtongs.factory.run import check_same_spec
    from newtongs.factory.shards import all_rows, is_done
    from newtongs.factory.spec import load_spec

    spec, shard = load_spec("small")[0], tiny_shard()
    check_same_spec(folder, spec, {})
    return is_done(folder, shard, spec.digest), all_rows(folder, [shard])


def tiny_shard() -> Any:
    """A shard of two films."""
    from newtongs.factory.shards import Shard

    return Shard(0, "train", 0, 2)


@bomb(read_parts)
def part_nested_100_000_deep(folder: Path) -> None:
    (folder / "parts").mkdir()
    (folder / "parts" / "train-000000.json").write_text("[" * 100_000 + "]" * 100_000)
    (folder / "train-000000.tar").write_bytes(b"")


@bomb(read_parts)
def part_of_80_MB(folder: Path) -> None:  # noqa: N802
    (folder / "parts").mkdir()
    rows = '{"made": false, "failures": []},' * 2_600_000
    (folder / "parts" / "train-000000.json").write_text('{"rows": [' + rows[:-1] + "]}")


# --- pages and replays ----------------------------------------------------------------------------


def page(folder: Path) -> Any:
    """Read a page as the export panel's test does."""
    from newtongs.exports import read_html

    return read_html(folder / "a.html")


@bomb(page)
def page_of_many_beginnings(folder: Path) -> None:
    (folder / "a.html").write_bytes(b'id="meta">' * 300_000)


def page_with(folder: Path, data: bytes, meta: dict[str, Any]) -> None:
    """A page of this content."""
    from newtongs.exports import page_data

    head = b'<script id="meta">' + json.dumps(meta).encode()
    text = page_data.to_text(data)
    middle = b'</script>\n<script type="text/plain" id="data">'
    (folder / "a.html").write_bytes(head + middle + text + b"</script>")


def zeros(megabytes: int) -> bytes:
    """Deflated."""
    import zlib

    packer = zlib.compressobj(9)
    return b"".join([packer.compress(bytes(1 << 20)) for _ in range(megabytes)] + [packer.flush()])


@bomb(page)
def page_of_deflated_zeros(folder: Path) -> None:
    meta = {"count": 80_000_000, "log_scales": [0, 1], "sh": {"coefficients": 0, "step": 1}}
    page_with(folder, zeros(3000), meta)


@bomb(page)
def page_of_the_same_group_again_and_again(folder: Path) -> None:
    n = 300_000
    ends = [[0, 0, 0], [1, 1, 1]]
    meta = {"count": n, "sh": {"coefficients": 0, "step": 1, "entries": 0}, "codes": [0.0] * 256}
    meta["groups"] = [{"first": 0, "count": n, "ends": ends}] * 3000
    page_with(folder, zeros(16), meta)


def replay(folder: Path) -> Any:
    """Read a saved animation."""
    from newtongs.exports import load_animation

    return load_animation(folder / "a.json")


def replay_that_names(path: str, size: int) -> Callable[[Path], None]:
    """A saved animation whose numbers are said to be in a file of the system."""

    def write(folder: Path) -> None:
        from export_samples import park

        from newtongs.exports import save_animation

        save_animation(park(3), folder / "a.json")
        tree = json.loads((folder / "a.json").read_text())
        tree["numbers"] |= {"path": path, "bytes": size}
        (folder / "a.json").write_text(json.dumps(tree))

    return write


BOMBS["replay-that-names-proc-kmsg"] = Bomb(replay_that_names("/proc/kmsg", 0), replay)
BOMBS["replay-that-names-proc-pagemap"] = Bomb(replay_that_names("/proc/self/pagemap", 0), replay)


# --- files that somebody cuts while they are read -------------------------------------------------


def cut_dump(name: str, save: Callable[[Path, Any], None]) -> Bomb:
    """Ten frames of which all but the first are gone before they are read."""

    def write(folder: Path) -> None:
        from test_formats import lgm_tensor

        save(folder / name, lgm_tensor(10, 5_000))

    def read(folder: Path) -> Any:
        from newtongs.formats.dumps import open_dump

        frames = open_dump(folder / name).frames()
        next(frames)
        os.truncate(folder / name, 4096)
        return [float(x.sum()) for x in frames]

    return Bomb(write, read)


def save_tensor(path: Path, x: Any) -> None:
    """As the tests of the formats do."""
    from test_formats import save_tensor

    save_tensor(path, x)


for _ending in ("npy", "pt", "safetensors"):
    BOMBS[f"dump-cut-while-it-is-read-{_ending}"] = cut_dump(f"a.{_ending}", save_tensor)


def read_cut_glb(folder: Path) -> Any:
    """Cut between its description and its numbers."""
    from newtongs.formats import glb

    file = glb.open_glb(folder / "a.glb")
    os.truncate(folder / "a.glb", 4096)
    return glb._scene(file)


@bomb(read_cut_glb)
def glb_cut_while_it_is_read(folder: Path) -> None:
    from test_scene import random_scene

    from newtongs.formats import save

    save(random_scene(5_000, 0), folder / "a.glb")


# --- a process for each ---------------------------------------------------------------------------


def number(name: str, of: str) -> int:
    """Bytes of a line of ``/proc/self/status``."""
    return 1024 * int(re.search(rf"{name}:\s+(\d+)", Path(f"/proc/self/{of}").read_text())[1])


def child(name: str, folder: str, pipe: Any) -> None:
    """Read one bomb, and say what became of it."""
    import torch

    from newtongs.base.errors import InputError

    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    room = number("VmSize", "status") + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    Path("/proc/self/clear_refs").write_text("5")
    before, start, outcome = number("VmRSS", "status"), time.process_time(), Outcome()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            BOMBS[name].read(Path(folder))
    except InputError as error:
        outcome.said = str(error).replace(folder + "/", "")
    except BaseException:
        outcome.failed = traceback.format_exc(limit=-1).strip().splitlines()[-1][:200]
    outcome.seconds = time.process_time() - start
    outcome.memory = number("VmHWM", "status") - before
    pipe.send(outcome)


def defused(name: str) -> Outcome:
    """Write a bomb, and read it in a process that is killed if it takes too long."""
    context = mp.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        BOMBS[name].write(Path(folder))
        size = sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file())
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=child, args=(name, folder, theirs), daemon=True)
        process.start()
        theirs.close()
        outcome = Outcome(failed=f"still busy after {PATIENCE:.0f} s")
        if ours.poll(PATIENCE):
            try:
                outcome = ours.recv()
            except EOFError:
                outcome = Outcome(failed="the process died")
        process.kill()
        process.join()
        outcome.size = size
        return outcome


def row(name: str, found: Outcome) -> str:
    """A line of the table."""
    what = found.wrong or ("refused: " + found.said[:90] if found.said else "read")
    return (
        f"| {name} | {found.size / 1e3:,.1f} | {found.memory / 1e6:,.0f} | {found.seconds:.2f} | "
        f"{what.replace('|', '/')} |"
    )


def main() -> None:
    """Print the table; ends with code 1 where a bomb breaks the rule."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="of bombs; default: all")
    names, wrong = parser.parse_args().names or list(BOMBS), 0
    print("| bomb | size, kB | memory, MB | seconds | outcome |\n|---|---|---|---|---|")
    for name in names:
        found = defused(name)
        wrong += bool(found.wrong)
        print(row(name, found), flush=True)
    print(f"{len(names)} bombs, {wrong} outside the rule")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
