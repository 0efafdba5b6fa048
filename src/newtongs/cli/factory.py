"""``newtongs factory``: labelled films by the thousand."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import tyro

from ..base.errors import InputError
from .apps import app
from .console import check_folder, progress_bar

if TYPE_CHECKING:
    from ..factory.run import Outcome
    from ..factory.sheet import DryRun
    from ..factory.spec import Spec

MOST_WORKERS = 1024


@app.command(name="factory")
@dataclass(frozen=True)
class Factory:
    """Make labelled films of a spec: rgb, ids, depth, flow, states, contacts, cameras, captions.

    They are packed as WebDataset shards with a Parquet index. The same spec and seed give the same
    bytes with any number of workers. A run that was stopped resumes where it was.

    Built-in specs: small (ten built-in scenes), motions32 (the paper's 32 motions),
    throw_and_hit. docs/factory.md describes what a spec can hold and how to read the films.

    newtongs factory small --out films --dry-run

    newtongs factory my_spec.toml --out films --count 1000 --workers 2
    """

    resumes: ClassVar[bool] = True
    spec: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SPEC")] = ""
    """A TOML file, or the name of a built-in spec."""
    out: Path = Path("films")
    """Folder of the data set."""
    count: int | None = None
    """Number of films, instead of the spec's. A larger one adds films to the same folder later."""
    workers: int = 1
    """Processes on this machine; each takes one core."""
    ray: str | None = None
    """HOST:PORT of a Ray cluster to use instead; all nodes must see the folder --out."""
    dry_run: bool = False
    """Only draw nine films as one sheet, and estimate time and space for all."""

    def run(self) -> None:
        """Check the flags, make the films, and print a summary."""
        if not self.spec:
            raise InputError(
                "expected a SPEC, such as small or my_spec.toml; see newtongs factory --help"
            )
        if not 1 <= self.workers <= MOST_WORKERS:
            raise InputError(f"--workers: expected 1 to {MOST_WORKERS}, got {self.workers}")
        check_folder(self.out)
        from ..factory.spec import load_spec

        spec, folder = load_spec(self.spec, count=self.count)
        if self.dry_run:
            self.dry(spec, folder)
        else:
            self.produce(spec, folder)

    def produce(self, spec: "Spec", folder: Path) -> None:
        """Make the whole data set."""
        from ..factory.run import produce

        with progress_bar("done") as advance:
            outcome = produce(
                spec,
                folder,
                self.out,
                workers=self.workers,
                ray=self.ray,
                progress=advance,
                warn=warn,
            )
        summarise(outcome, self.out)

    def dry(self, spec: "Spec", folder: Path) -> None:
        """Make nine films and an estimate."""
        from ..factory.sheet import dry_run

        with progress_bar("done") as advance:
            found = dry_run(spec, folder, self.out, advance)
        print(f"{found.path}  {found.films} films: frames, ids, depth, flow, visibility, last view")
        for line in estimate_lines(found, spec, self.workers):
            print(line)


def warn(line: str) -> None:
    """Print a warning at once, beside the progress bar."""
    import sys

    print(f"newtongs: {line}", file=sys.stderr)


def summarise(outcome: "Outcome", out: Path) -> None:
    """Print what a run did."""
    made = f"{outcome.films:,} films in {outcome.shards} shards"
    kept = f", {outcome.kept} of them from an earlier run" if outcome.kept else ""
    print(f"{out}  {made}{kept}, {outcome.seconds:,.0f} s")
    if outcome.failures:
        words = ", ".join(f"{n} {reason}" for reason, n in outcome.failures.items())
        print(f"drawn again: {words}; given up: {outcome.given_up}")
    print(f"{out / 'index.parquet'}  one row per film\n{outcome.page}  a summary")


def estimate_lines(found: "DryRun", spec: "Spec", workers: int) -> list[str]:
    """Time, space and failures of the whole, estimated from nine films."""
    hours = spec.count * found.seconds_per_film / 3600 / workers
    size = spec.count * found.bytes_per_film
    plural = "s" if workers > 1 else ""
    lines = [
        f"one film: {found.seconds_per_film:.1f} s, {found.bytes_per_film / 1e6:.2f} MB; "
        f"preparing a scene: {found.seconds_per_scene:.1f} s",
        f"all {spec.count:,}: about {hours:.2f} hours with {workers} worker{plural}, "
        f"{size / 1e9:.2f} GB",
    ]
    words = ", ".join(f"{n} {reason}" for reason, n in found.failures.items()) or "nothing"
    lines.append(f"failed attempts: {words}; given up: {found.given_up}")
    return lines + [
        f"scene {s} would be left out: {line}" for s, line in found.refused_scenes.items()
    ]
