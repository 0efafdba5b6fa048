"""Films an hour: seconds by step, memory and bytes of a film, one worker against two.

Makes a data set with one worker and with two, compares their bytes, and computes from the figures
what a million films on a hundred machines would take. On a quiet machine; both runs go on where
they were stopped. ``--workers 8 8`` makes it twice with eight. With ``--renderer gsplat ewa`` all
is made with each; bytes are compared by kind of file, since between the two only pictures, and the
json that names the renderer, may differ.

Run with: python benchmarks/factory.py [--spec small] [--count 64] [--workers 1 2]
          [--renderer steady] [--out FOLDER]
"""

import argparse
import hashlib
import json
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from newtongs.cli.console import progress_bar
from newtongs.factory.renderers import try_out
from newtongs.factory.run import Outcome, logs, produce
from newtongs.factory.spec import Spec, load_spec

MILLION, MACHINES, CORES = 10**6, 100, 32  # of the estimate
LINK = 1.25e9  # bytes a second into shared storage: 10 gigabits


def measured(spec: Spec, folder: Path, out: Path, workers: int) -> dict[str, Any]:
    """Make what is missing with some workers; what they said of themselves, and digests."""
    begun = time.perf_counter()
    with progress_bar("films") as advance:
        outcome = produce(spec, folder, out, workers=workers, progress=advance)
    run = figures(outcome, out, time.perf_counter() - begun, workers)
    return run | {"renderer": spec.renderer, "digests": digests(out)}


def figures(outcome: Outcome, out: Path, seconds: float, workers: int) -> dict[str, Any]:
    """Of one run."""
    said = logs(out)
    films = sum(log["films"] for log in said)
    steps: dict[str, float] = {}
    for log in said:
        for name, value in log["seconds"].items():
            steps[name] = steps.get(name, 0.0) + value / films
    size = sum(p.stat().st_size for p in out.glob("*.tar"))
    return {
        "workers": workers, "films": outcome.films, "given_up": outcome.given_up,
        "kept_shards": outcome.kept, "seconds": seconds, "films_an_hour": 3600 * films / seconds,
        "seconds_a_film_by_step": steps, "worker_seconds_a_film": sum(steps.values()),
        "peak_bytes_a_worker": max(log["peak_bytes"] for log in said),
        "cpu_seconds_a_film": sum(log["cpu_seconds"] for log in said) / films,
        "bytes_a_film": size / films, "failures": outcome.failures,
        "drawn_by": said[0]["drawn_by"],
    }  # fmt: skip


def digests(out: Path) -> dict[str, str]:
    """Of all films, by kind of file: rgb, labels, states, contacts, cameras, json and txt."""
    totals: dict[str, Any] = {}
    for path in sorted(out.glob("*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                kind = member.name.split(".")[1].rstrip("0123456789")
                total = totals.setdefault(kind, hashlib.sha256())
                data = tar.extractfile(member)
                assert data is not None
                total.update(member.name.encode() + data.read())
    return {kind: total.hexdigest() for kind, total in sorted(totals.items())}


def differing(found: list[dict[str, str]]) -> list[str]:
    """Kinds of files that are not the same bytes in all runs."""
    kinds = {kind for one in found for kind in one}
    return sorted(kind for kind in kinds if len({one.get(kind) for one in found}) > 1)


def estimate(run: dict[str, Any]) -> dict[str, float]:
    """A million films on a hundred machines, if a core does there what a worker does here."""
    cores = MACHINES * CORES
    hours = MILLION * run["cpu_seconds_a_film"] / cores / 3600
    size = MILLION * run["bytes_a_film"]
    rate = size / (hours * 3600)
    return {
        "hours": hours, "terabytes": size / 1e12, "written_gigabytes_a_second": rate / 1e9,
        "hours_of_writing_at_10_gigabits": size / LINK / 3600,
        "memory_gigabytes_a_machine": CORES * run["peak_bytes_a_worker"] / 1e9,
    }  # fmt: skip


def shown(runs: list[dict[str, Any]]) -> Table:
    """A row a run."""
    table = Table(title="Labelled films")
    steps = list(runs[0]["seconds_a_film_by_step"])
    for name in (
        "renderer",
        "workers",
        "films",
        "films an hour",
        *steps,
        "worker s a film",
        "cpu s",
        "MB a film",
        "GB",
    ):
        table.add_column(name, justify="right")
    for run in runs:
        table.add_row(
            run["renderer"], str(run["workers"]), str(run["films"]), f"{run['films_an_hour']:,.0f}",
            *(f"{run['seconds_a_film_by_step'].get(s, 0):.2f}" for s in steps),
            f"{run['worker_seconds_a_film']:.2f}", f"{run['cpu_seconds_a_film']:.2f}",
            f"{run['bytes_a_film'] / 1e6:.2f}", f"{run['peak_bytes_a_worker'] / 1e9:.2f}",
        )  # fmt: skip
    return table


@contextmanager
def folder_for(given: Path | None) -> Iterator[Path]:
    """The one given, which is kept, or one that goes again."""
    made = given or Path(tempfile.mkdtemp(prefix="newtongs-factory-bench-"))
    try:
        yield made
    finally:
        if given is None:
            shutil.rmtree(made, ignore_errors=True)


def compared(runs: list[dict[str, Any]]) -> Iterator[str]:
    """Lines on which files are the same bytes: within a renderer, and between them."""
    renderers = [*dict.fromkeys(run["renderer"] for run in runs)]
    for renderer in renderers:
        found = [run["digests"] for run in runs if run["renderer"] == renderer]
        if len(found) > 1:
            other = differing(found)
            yield f"{len(found)} runs by {renderer}: " + (
                f"other bytes in {', '.join(other)}" if other else "the same bytes"
            )
    if len(renderers) > 1:
        other = differing([run["digests"] for run in runs])
        yield f"{' and '.join(renderers)}: other bytes in {', '.join(other) or 'nothing'}"


def main() -> None:
    """Measure, print, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", default="small")
    parser.add_argument("--count", type=int, default=64)
    parser.add_argument("--films-a-shard", type=int, help="a shard is one worker's")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument(
        "--renderer", nargs="+", default=["steady"], choices=["steady", "ewa", "gsplat"]
    )
    parser.add_argument("--out", type=Path, help="keep the films there")
    args = parser.parse_args()
    console = Console()
    with folder_for(args.out) as folder:
        runs = []
        for renderer in args.renderer:
            spec, home = load_spec(
                args.spec, count=args.count, films_a_shard=args.films_a_shard, renderer=renderer
            )
            try_out(spec.renderer)  # gsplat compiles itself first, which is no part of a film
            for i, workers in enumerate(args.workers):
                runs.append(measured(spec, home, folder / f"{renderer}{i}", workers))
        console.print(shown(runs))
        for line in compared(runs):
            console.print(line)
        ahead = estimate(runs[-1])
        console.print(f"{MILLION:,} films on {MACHINES} machines of {CORES} cores:", ahead)
        console.print(f"load of this machine now: {os.getloadavg()[0]:.1f}")
        found = {"spec": spec.to_json(), "runs": runs, "estimate": ahead}
        (folder / "factory.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
