"""The factory on disks that are full, at every stage: one line, whole files only, and it goes on.

    unshare -rm python tests/harness/full_disk.py --runs 12

Each run has a small disk in memory (tmpfs) for the temporary files, or for the output, by turns
ever larger, until a run succeeds. Then the disk gets room, and the same command must give the files
of an undisturbed run. Needs the right to mount, which unshare gives.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SPEC = """
name = "tiny"
scenes = ["sunny_park"]
count = 4
films_a_shard = 2
frames = 8
size = [64, 64]
renderer = "ewa"
"""
FIRST, GROWTH, ROOM = 4 << 10, 2.0, 256 << 20  # bytes; kernels round up to pages


def disk(folder: Path, size: int) -> None:
    """A small disk at a folder."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)


def command(work: Path, out: Path, temporary: Path) -> subprocess.CompletedProcess:
    """The factory, with its temporary files in a folder."""
    words = ["factory", str(work / "tiny.toml"), "--out", str(out), "--workers", "1"]
    return subprocess.run(
        [sys.executable, "-m", "newtongs", *words], capture_output=True, text=True, timeout=600,
        env=os.environ | {"TMPDIR": str(temporary)}, check=False,
    )  # fmt: skip


def prints(out: Path) -> dict[str, str]:
    """Hashes of what the bytes of a data set are decided by."""
    files = [p for p in out.rglob("*") if p.is_file() and "log" not in p.parts]
    return {str(p.relative_to(out)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def one_run(work: Path, which: str, size: int, wanted: dict[str, str]) -> tuple[str, str]:
    """What was said on the full disk, and what was wrong."""
    small, other = work / "small", work / "other"
    other.mkdir()
    disk(small, size)
    try:
        out, temporary = (small / "out", other) if which == "out" else (other / "out", small)
        found = command(work, out, temporary)
        lines = found.stderr.strip().splitlines()
        wrong = [] if found.returncode in (0, 2) else [f"code {found.returncode}"]
        if found.returncode and (len(lines) != 1 or not lines[0].startswith("newtongs: ")):
            wrong.append(f"said {found.stderr[-300:]!r}")
        half = {k for k, v in prints(out).items() if wanted.get(k) != v}
        wrong += [f"half written: {sorted(half)}"] if half else []
        subprocess.run(["mount", "-o", f"remount,size={ROOM}", str(small)], check=True)
        again = command(work, out, temporary)
        wrong += [f"again: {again.stderr[-200:]!r}"] if again.returncode else []
        wrong += [] if prints(out) == wanted else ["again gave other files"]
        return ("finished" if not found.returncode else lines[-1]), "; ".join(wrong)
    finally:
        subprocess.run(["umount", str(small)], check=True)
        shutil.rmtree(other)


def main() -> None:
    """Print the table; ends with code 1 where anything was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=12, help="for each of the two disks")
    runs, failed = parser.parse_args().runs, 0
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        (work / "tiny.toml").write_text(SPEC)
        (work / "t").mkdir()
        plain = command(work, work / "plain", work / "t")
        assert plain.returncode == 0, plain.stderr
        wanted = prints(work / "plain")
        print("| full | kB | said | wrong |\n|---|---|---|---|")
        for which in ("TMPDIR", "out"):
            size = float(FIRST)
            for _ in range(runs):
                said, wrong = one_run(work, which, int(size), wanted)
                failed += bool(wrong)
                print(f"| {which} | {size / 1024:,.0f} | {shown(said)} | {wrong} |", flush=True)
                size *= GROWTH
                if said == "finished":
                    break
    sys.exit(failed > 0)


def shown(said: str) -> str:
    """Without the names of temporary folders."""
    return re.sub(r"/tmp/\w+/", "", said).removeprefix("newtongs: ")[:110]


if __name__ == "__main__":
    main()
