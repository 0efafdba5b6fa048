"""SIGKILL and SIGINT at random moments of every command that writes, then the same command again.

    make kill N=200           # or: python tests/harness/kill.py --kills 200

For every kill: what stands in the folder afterwards must be whole files; a SIGINT must end with
code 130 and one line; the command run again must succeed, give the files of an undisturbed run bit
for bit, and leave no temporary file behind. Seeded; progress is kept in --out, and goes on there.
"""

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

SEED = 16
ANIMATE = ["--seconds", "0.5", "--size", "96", "96"]
FILMS = """
name = "tiny"
scenes = ["sunny_park"]
count = 4
films_a_shard = 1
frames = 8
size = [64, 64]
"""
COMMANDS = {
    "animate": ["animate", "sunny_park", "--out", "OUT", *ANIMATE],
    "animate-usd-ply": [
        "animate", "sunny_park", "--out", "OUT", *ANIMATE, "--formats", "usd", "ply", "gif",
    ],
    "animate-small": ["animate", "sunny_park", "--out", "OUT", *ANIMATE, "--compress", "all"],
    "replay": ["replay", "SHARED/sunny_park.json", "--out", "OUT", "--size", "96", "96"],
    "convert-sog": ["convert", "SHARED/scene.ply", "OUT/a.sog", "--no-loss"],
    "convert-spz": ["convert", "SHARED/scene.ply", "OUT/a.spz", "--no-loss"],
    "convert-glb": ["convert", "SHARED/scene.ply", "OUT/a.compressed.glb", "--no-loss"],
    "scene": ["data", "scene", "bowling", "--out", "OUT/a.ply"],
    "collider": ["collider", "sunny_park", "--out", "OUT/a.glb"],
    "state32": ["data", "state32", "--out", "OUT", "--per-motion", "150"],
    "gaussian32": [
        "data", "gaussian32", "--out", "OUT", "--templates", "sunny_park",
        "--motions", "free_fall", "damped_bouncing", "--store", "compact",
    ],
    "common12": ["data", "common12", "--out", "OUT"],
    "train": ["train", "--data", "SHARED/state32", "--out", "OUT", "--epochs", "3"],
    "train-context": [
        "train-context", "--out", "OUT", "--preset", "laptop", "--updates", "60", "--batch", "64",
        "--pool", "64", "--rounds", "1", "--warm-up", "5", "--save-every", "20",
    ],
    "continue": [
        "continue", "SHARED/sunny_park.json", "--out", "OUT", "--seconds", "0.5",
        "--size", "96", "96",
    ],
    "factory": ["factory", "SHARED/tiny.toml", "--out", "OUT", "--workers", "1"],
    "gallery": ["gallery", "--out", "OUT/a.png"],
    "figure": ["figure", "motions", "--out", "OUT/a.png"],
}  # fmt: skip
# What a run says of itself and of its clock: these differ between any two runs.
CLOCKS = re.compile(rb'"(seconds|created|date)": [^,}\n]+|"out": "[^"]*"')
LEFTOVER = re.compile(r"\..*(\.part|\.lock)")


@dataclass
class Tally:
    """What became of the kills of one command."""

    killed: int = 0
    interrupted: int = 0
    finished: int = 0
    """Was done before the signal came."""
    failed: list[str] = field(default_factory=list)


def run(words: list[str], **options) -> subprocess.Popen:
    """The command as a person starts it, in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "newtongs", *words], stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, start_new_session=True, **options,
    )  # fmt: skip


def filled(words: list[str], out: Path, shared: Path) -> list[str]:
    """The words with their folders."""
    return [w.replace("OUT", str(out)).replace("SHARED", str(shared)) for w in words]


def prints(folder: Path) -> dict[str, str]:
    """Fingerprints of all files, without what tells of the clock; ``log`` is the factory's."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not {"tensorboard", "log"} & {*path.parts}:
            content = CLOCKS.sub(b"", path.read_bytes().replace(str(folder).encode(), b""))
            found[str(path.relative_to(folder))] = hashlib.sha256(content).hexdigest()
    return found


def prepared(shared: Path) -> None:
    """What the commands read."""
    if (shared / "ready").exists():
        return
    shutil.rmtree(shared, ignore_errors=True)
    for words in (
        ["data", "scene", "sunny_park", "--out", f"{shared}/scene.ply"],
        ["animate", "sunny_park", "--out", f"{shared}", "--formats", "json", *ANIMATE],
        ["data", "state32", "--out", f"{shared}/state32", "--per-motion", "8"],
    ):
        child = run(words)
        _, said = child.communicate()
        assert child.returncode == 0, said
    (shared / "tiny.toml").write_text(FILMS)
    (shared / "ready").write_text("")


def undisturbed(name: str, work: Path, shared: Path) -> tuple[dict[str, str], float]:
    """Fingerprints and seconds of a run that nobody stops."""
    out = work / "plain" / name
    record = work / "plain" / f"{name}.json"
    if not record.exists():
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        start = time.monotonic()
        child = run(filled(COMMANDS[name], out, shared))
        _, said = child.communicate()
        assert child.returncode == 0, said
        content = [prints(out), time.monotonic() - start]
        shutil.rmtree(out)
        record.write_text(json.dumps(content))
    found, seconds = json.loads(record.read_text())
    return found, seconds


def one_kill(name: str, index: int, work: Path, shared: Path) -> tuple[str, str | None]:
    """How it ended, and what was wrong if anything."""
    rng = random.Random(f"{SEED} {name} {index}")
    wanted, seconds = undisturbed(name, work, shared)
    number = signal.SIGKILL if rng.random() < 0.6 else signal.SIGINT
    out, temporary = work / "out", work / "tmp"
    for folder in (out, temporary):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    words = filled(COMMANDS[name], out, shared)
    environment = os.environ | {"TMPDIR": str(temporary)}
    child = run(words, env=environment)
    # Not in the first tenth of a second: Python itself begins then, and knows no signals.
    time.sleep(0.1 + rng.random() * seconds)
    os.killpg(child.pid, number)
    _, said = child.communicate(timeout=120)
    ended = "finished" if child.returncode == 0 else "killed"
    ended = "interrupted" if number == signal.SIGINT and child.returncode else ended
    found = ending(number, child.returncode, said), after(words, environment, out, wanted)
    wrong = "; ".join(filter(None, found))
    left = [p.name for p in (*temporary.rglob("*"), *out.rglob("*")) if is_left(p)]
    return ended, wrong or (f"left behind: {left[:4]}" if left else None)


def ending(number: int, code: int, said: str) -> str | None:
    """What is wrong with how it ended."""
    if number == signal.SIGINT and code not in (0, 130):
        return f"code {code} after SIGINT: {said[-300:]!r}"
    lines = [line for line in said.splitlines() if not line.startswith("newtongs: ")]
    return f"said {lines[-1][:200]!r}" if lines else None


def after(words: list[str], environment: dict, out: Path, wanted: dict[str, str]) -> str | None:
    """What is wrong with what it left, or with the same command again."""
    for path, print_ in prints(out).items():
        whole = not Path(path).name.startswith(".") and path in wanted
        if whole and wanted[path] != print_ and not GROWING.fullmatch(Path(path).name):
            return f"{path} stood half written after the signal"
    again = run(words, env=environment)
    _, said = again.communicate(timeout=600)
    if again.returncode:
        return f"the same command again: code {again.returncode}, {said[-300:]!r}"
    if prints(out) != wanted:
        got = prints(out)
        other = sorted({*got.items()} ^ {*wanted.items()})
        return f"the same command again gave other files: {[x for x, _ in other][:4]}"
    return None


# Files of a run that are whole at every moment and differ from those at its end.
GROWING = re.compile(r"metrics\.jsonl|last\.safetensors|best\.safetensors|manifest\.csv")


def is_left(path: Path) -> bool:
    """A temporary file that nobody needs any more; libraries keep their own."""
    return bool(LEFTOVER.fullmatch(path.name)) or path.name.startswith("newtongs-work-")


def main() -> None:
    """Go on where the last run stopped, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--commands", nargs="*", default=list(COMMANDS))
    parser.add_argument("--out", type=Path, default=Path("build/kill"))
    chosen = parser.parse_args()
    walk(chosen.kills, chosen.commands, chosen.out.absolute(), print)


def walk(kills: int, commands: list[str], work: Path, tell: Callable[[str], None]) -> None:
    """Commands by turns; leaves with code 1 where anything was wrong."""
    work.mkdir(parents=True, exist_ok=True)
    prepared(work / "shared")
    record = work / f"progress_{SEED}.json"
    done = json.loads(record.read_text()) if record.exists() else {"kills": 0, "tallies": {}}
    tallies = {name: Tally(**x) for name, x in done["tallies"].items()}
    for index in range(done["kills"], kills):
        name = commands[index % len(commands)]
        ended, wrong = one_kill(name, index, work, work / "shared")
        tally = tallies.setdefault(name, Tally())
        setattr(tally, ended, getattr(tally, ended) + 1)
        if wrong:
            tally.failed.append(f"{name} {index}: {wrong}")
        content = {"kills": index + 1, "tallies": {k: asdict(x) for k, x in tallies.items()}}
        record.write_text(json.dumps(content))
        tell(f"{index + 1} {name} {ended} {wrong or ''}")
    tell(table(tallies))
    sys.exit(any(x.failed for x in tallies.values()))


def table(tallies: dict[str, Tally]) -> str:
    """As it stands in RESULTS.md, and every failure."""
    lines = ["| command | killed | interrupted | done before | wrong |", "|---|---|---|---|---|"]
    for name, x in tallies.items():
        lines.append(f"| {name} | {x.killed} | {x.interrupted} | {x.finished} | {len(x.failed)} |")
    return "\n".join([*lines, *(line for x in tallies.values() for line in x.failed)])


if __name__ == "__main__":
    main()
