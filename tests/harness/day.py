"""A day's worth of use: animations from several processes into one folder, the studio beside them.

    python tests/harness/day.py --animations 200 --processes 4

Every process makes its share one after the other, under names that others use as well, and notes
its memory. At the end: every file is whole, memory is flat, and nothing is left behind.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCENES = ("sunny_park", "bowling", "kitchen_table", "studio_tabletop")
FORMATS = ("mp4", "png", "json", "glb", "html")
WARM = 8  # animations after which every cache is filled

WORK = """
import json, re, sys
from pathlib import Path
from newtongs.pipeline.run import animate
from newtongs.exports import export
out, first, count, step = Path(sys.argv[1]), *map(int, sys.argv[2:5])
scenes, formats = sys.argv[5].split(","), sys.argv[6].split(",")
for i in range(first, first + count * step, step):
    animation = animate(scenes[i % len(scenes)], velocity=(1 + i % 5, 2, 0), seconds=0.5)
    export(animation, out, formats, name=f"{scenes[i % len(scenes)]}_{i % 10}", size=(96, 96))
    found = re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())
    print(json.dumps({"i": i, "rss": int(found[1]) // 1024}), flush=True)
"""


def resident(pid: int) -> int:
    """Megabytes."""
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) // 1024


def main() -> None:
    """Run the day, and print what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--animations", type=int, default=200)
    parser.add_argument("--processes", type=int, default=4)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        sys.exit(day(Path(name), chosen.animations, chosen.processes))


def day(work: Path, animations: int, processes: int) -> int:
    """0 where nothing was wrong."""
    out, temporary = work / "out", work / "tmp"
    temporary.mkdir()
    environment = os.environ | {"TMPDIR": str(temporary)}
    studio = subprocess.Popen(
        [sys.executable, "-m", "newtongs", "studio", "sunny_park", "--port", "8391", "--no-open"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment, text=True,
    )  # fmt: skip
    share, start = animations // processes, time.monotonic()
    children = [
        subprocess.Popen(
            [sys.executable, "-c", WORK, str(out), str(i), str(share), str(processes),
             ",".join(SCENES), ",".join(FORMATS)],
            stdout=subprocess.PIPE, env=environment, text=True,
        )
        for i in range(processes)
    ]  # fmt: skip
    time.sleep(min(60, 2 * share))
    studio_before = resident(studio.pid) if studio.poll() is None else 0
    told = [child.communicate()[0] for child in children]
    studio_after = resident(studio.pid) if studio.poll() is None else 0
    studio.send_signal(signal.SIGINT)
    studio.communicate(timeout=60)
    rows = [[json.loads(line) for line in text.splitlines()] for text in told]
    wrong = [f"code {c.returncode}" for c in children if c.returncode]
    for row in rows:
        memory = [x["rss"] for x in row]
        print(
            f"{len(memory)} animations, memory {memory[0]} MB, then",
            memory[min(WARM, len(memory) - 1)],
            "to",
            memory[-1],
        )
    wrong += broken(out)
    left = [str(p) for p in (*out.rglob(".*"), *temporary.rglob("newtongs-*"))]
    print(f"studio: {studio_before} to {studio_after} MB, code {studio.returncode}")
    print(f"{sum(map(len, rows))} animations in {time.monotonic() - start:.0f} s, "
          f"{len(list(out.iterdir()))} files, left behind {left}, wrong {wrong}")  # fmt: skip
    return int(bool(wrong or left))


def broken(out: Path) -> list[str]:
    """Files that do not read back, and json files that do not fit their npz."""
    from newtongs.exports import load_animation
    from newtongs.formats import load

    found = []
    for path in sorted(out.iterdir()):
        try:
            if path.suffix == ".json":
                load_animation(path)
            elif path.suffix == ".glb":
                load(path)
        except ValueError as error:
            found.append(str(error))
    return found


if __name__ == "__main__":
    main()
