"""Damaged files through every reader: sound content or one clear line, in bounded memory and time.

    make fuzz N=100000        # or: python tests/harness/fuzz.py --files 100000

Files are drawn by turns from the kinds of :mod:`harness.readers`; file i is the same in every run.
Workers are limited in memory, and killed when a file takes too long. Progress is kept in the folder
--out: the same command goes on where it stopped. What fails is kept there as ``failed/KIND_i``.
"""

import argparse
import json
import multiprocessing as mp
import os
import re
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

SEED = 16
SECONDS = 5.0  # of a file's own computing; a usual one takes a few milliseconds
PATIENCE = 60.0  # seconds without a sign of life after which a worker is killed
MEMORY = 512 << 20  # bytes that a file of some kilobytes may take beyond what was there before
ROOM = 3 << 30  # of address space that a worker may ask for beyond what it begins with
BATCH = 200  # files of one kind at a time


@dataclass
class Tally:
    """What became of the files of one kind."""

    files: int = 0
    read: int = 0
    refused: int = 0
    failed: list[str] = field(default_factory=list)
    slowest: float = 0.0
    memory: int = 0

    def add(self, other: "Tally") -> None:
        """Another batch."""
        for name in ("files", "read", "refused", "failed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.slowest, self.memory = max(self.slowest, other.slowest), max(self.memory, other.memory)


def peak_memory(*, restart: bool = False) -> int:
    """Peak resident bytes since the last restart."""
    if restart:
        Path("/proc/self/clear_refs").write_text("5")
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])


class Watch:
    """Notes whatever a file of numbers has no business to do while it is read."""

    FORBIDDEN = ("pickle.find_class", "os.system", "os.exec", "subprocess.Popen", "socket.connect")

    def __init__(self) -> None:
        self.folder: Path | None = None
        """Where files may be written; None while nobody reads."""
        self.seen: list[str] = []
        sys.addaudithook(self.hook)

    def hook(self, event: str, args: tuple) -> None:
        """Called by Python before it does something that matters."""
        if self.folder is None:
            return
        if event in self.FORBIDDEN:
            self.seen.append(f"{event} {args!r:.80}")
        elif event == "open" and isinstance(args[1], str) and {*args[1]} & {*"wax+"}:
            where = os.fsdecode(args[0]) if isinstance(args[0], bytes | str) else ""
            inside = (str(self.folder), "/proc/self", "/dev/")
            if where.startswith("/") and not where.startswith(inside):
                self.seen.append(f"writes {where[:80]}")

    @contextmanager
    def over(self, folder: Path):
        """While one file is read."""
        self.folder, self.seen = folder, []
        try:
            yield
        finally:
            self.folder = None


def damaged(kind: str, index: int, reader, paths: list[Path]):
    """File ``index`` of a kind: where it goes, and its content."""
    import numpy as np

    from harness.damage import any_damage

    rng = np.random.default_rng([SEED, index, *kind.encode()])
    path = paths[index % len(paths)]
    damage = reader.within if rng.random() < 0.5 else any_damage
    try:
        return path, damage(rng, path.read_bytes())
    except (ValueError, OSError, EOFError):  # this kind of damage does not fit this file
        return path, any_damage(rng, path.read_bytes())


def one_file(reader, folder: Path) -> str | None:
    """None where sound content came out, the line where it was refused."""
    from newtongs.base.errors import InputError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader.check(reader.read(folder))
    except InputError as error:
        line = str(error)
        assert line.strip(), "an error without words"
        assert "\n" not in line, f"more than one line: {line[:200]}"
        return line
    return None


def batch(kind: str, first: int, count: int, out: Path, sign, watch: Watch) -> Tally:
    """Files ``first`` to ``first + count`` of a kind, in a folder of their own."""
    from harness.readers import READERS

    reader, tally = READERS[kind], Tally()
    with tempfile.TemporaryDirectory() as name, temporary_files_in(name):
        folder = Path(name)
        (folder / "x").mkdir()
        paths = reader.write(folder / "x")
        originals = {p: p.read_bytes() for p in (folder / "x").rglob("*") if p.is_file()}
        reader.check(reader.read(folder / "x"))  # compiles, and shows that the original is valid
        _restore(folder / "x", originals)
        for index in range(first, first + count):
            sign(index)
            path, content = damaged(kind, index, reader, paths)
            path.write_bytes(content)
            before, start = peak_memory(restart=True), time.process_time()
            why = None
            try:
                with watch.over(folder):
                    refused = one_file(reader, folder / "x")
                tally.refused += refused is not None
                tally.read += refused is None
            except BaseException as error:
                why = f"{type(error).__name__}: {traceback.format_exc(limit=-2)[-300:]}"
            seconds, memory = time.process_time() - start, peak_memory() - before
            why = why or (f"took {seconds:.1f} s" if seconds > SECONDS else None)
            why = why or (f"took {memory >> 20} MB" if memory > MEMORY else None)
            why = why or (watch.seen[0] if watch.seen else None)
            tally.files += 1
            tally.slowest, tally.memory = max(tally.slowest, seconds), max(tally.memory, memory)
            if why:
                tally.failed.append(f"{kind} {index}: {why}")
                keep(out, kind, index, content)
            _restore(folder / "x", originals)
    return tally


@contextmanager
def temporary_files_in(folder: str) -> Iterator[None]:
    """Temporary files of this process and of its children go there, and afterwards where they did.

    A name left behind would be of a folder that is gone: the next browser could not start.
    """
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    try:
        yield
    finally:
        tempfile.tempdir = None
        os.environ.pop("TMPDIR")
        if before is not None:
            os.environ["TMPDIR"] = before


def _restore(folder: Path, originals: dict[Path, bytes]) -> None:
    """As it was before: damaged files may have had others written beside them."""
    for path in folder.rglob("*"):
        if path.is_file() and path not in originals:
            path.unlink()
    for path, content in originals.items():
        if (
            not path.is_file()
            or path.stat().st_size != len(content)
            or path.read_bytes() != content
        ):
            path.write_bytes(content)


def keep(out: Path, kind: str, index: int, content: bytes) -> None:
    """A file that failed, to look at and for the corpus."""
    (out / "failed").mkdir(parents=True, exist_ok=True)
    (out / "failed" / f"{kind}_{index}").write_bytes(content)


def worker(pipe, out: Path) -> None:
    """Do batches until there are none."""
    import torch

    import harness.readers  # noqa: F401

    torch.set_num_threads(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what readers print is not looked at
    used = 1024 * int(re.search(r"VmSize:\s+(\d+)", Path("/proc/self/status").read_text())[1])
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    watch = Watch()
    while True:
        try:
            task = pipe.recv()
        except EOFError:  # there are no more
            return
        try:
            tally = batch(*task, out, lambda index: pipe.send(("at", index)), watch)
        except BaseException:
            tally = Tally(
                failed=[f"{task[0]}: the harness itself: {traceback.format_exc()[-600:]}"]
            )
        pipe.send(("done", asdict(tally)))


class Worker:
    """A process, started anew when it dies or hangs."""

    def __init__(self, out: Path) -> None:
        self.out, self.process = out, None

    def run(self, kind: str, first: int, count: int) -> Tally:
        """A batch, whatever happens to the process."""
        total = Tally()
        while count > 0:
            at, tally = self._try(kind, first, count)
            if tally is not None:
                total.add(tally)
                break
            total.add(Tally(at - first + 1, failed=[f"{kind} {at}: the process died or hung"]))
            first, count = at + 1, count - (at + 1 - first)
        return total

    def _try(self, kind: str, first: int, count: int) -> tuple[int, Tally | None]:
        if self.process is None:
            context = mp.get_context("spawn")
            self.pipe, inner = context.Pipe()
            self.process = context.Process(target=worker, args=(inner, self.out), daemon=True)
            self.process.start()
            inner.close()
        at = first
        self.pipe.send((kind, first, count))
        try:
            while self.pipe.poll(PATIENCE if at > first else 4 * PATIENCE):
                what, value = self.pipe.recv()
                if what == "done":
                    return at, Tally(**value)
                at = value
        except (EOFError, ConnectionError):
            pass
        self.process.kill()
        self.process.join()
        self.process = None
        return at, None


def tasks(files: int, kinds: list[str]):
    """Kinds by turns, a batch at a time, until there are as many files."""
    each = -(-files // len(kinds))
    for first in range(0, each, BATCH):
        for kind in kinds:
            yield kind, first, min(BATCH, each - first)


def main() -> None:
    """Go on where the last run stopped, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--kinds", nargs="*", default=None)
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"))
    chosen = parser.parse_args()
    from harness.readers import READERS

    kinds = chosen.kinds or list(READERS)
    record = chosen.out / f"progress_{SEED}_{chosen.files}_{len(kinds)}.json"
    done = json.loads(record.read_text()) if record.exists() else {"batches": 0, "tallies": {}}
    tallies = {kind: Tally(**x) for kind, x in done["tallies"].items()}
    chosen.out.mkdir(parents=True, exist_ok=True)
    hand = Worker(chosen.out)
    for number, task in enumerate(tasks(chosen.files, kinds)):
        if number < done["batches"]:
            continue
        tally = hand.run(*task)
        tallies.setdefault(task[0], Tally()).add(tally)
        content = {"batches": number + 1, "tallies": {k: asdict(x) for k, x in tallies.items()}}
        part = record.with_suffix(".part")
        part.write_text(json.dumps(content))
        os.replace(part, record)
        files = sum(x.files for x in tallies.values())
        failed = sum(len(x.failed) for x in tallies.values())
        print(f"{files:,} files, {failed} failed; {task[0]}", flush=True)
    print(table(tallies))
    sys.exit(any(x.failed for x in tallies.values()))


def table(tallies: dict[str, Tally]) -> str:
    """As it stands in RESULTS.md, and every failure."""
    lines = ["| kind | files | read | refused | failed | slowest, s | most memory, MB |"]
    lines += ["|---|---|---|---|---|---|---|"]
    total = Tally()
    for x in tallies.values():
        total.add(x)
    for kind, x in [*sorted(tallies.items()), ("all", total)]:
        lines.append(
            f"| {kind} | {x.files:,} | {x.read:,} | {x.refused:,} | {len(x.failed)} | "
            f"{x.slowest:.2f} | {x.memory >> 20} |"
        )
    return "\n".join([*lines, *total.failed])


if __name__ == "__main__":
    main()
