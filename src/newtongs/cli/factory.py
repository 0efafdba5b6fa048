"""``newtongs factory``: labelled films by the thousand."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import tyro

from ..errors import InputError
from .apps import app
from .console import check_folder, progress_bar

if TYPE_CHECKING:
    from ..factory.run import Outcome
    from ..factory.sheet import Forecast
    from ..factory.spec import Spec

MOST_WORKERS = 1024


@app.command(name="factory")
@dataclass(frozen=True)
class Factory:
    """Make labelled films of a spec: rgb, ids, depth, flow, states, contacts, cameras, captions.

    They are packed as WebDataset shards with a Parquet index. The same spec and seed give the same
    bytes, with any number of workers. A run that was stopped goes on where it was.

    Specs that come along: small (ten scenes of our own), motions32 (the paper's 32 motions),
    throw_and_hit. docs/factory.md says what a spec can hold, and how the films are read.

    newtongs factory small --out films --dry-run

    newtongs factory my_spec.toml --out films --count 1000 --workers 2
    """

    resumes: ClassVar[bool] = True
    spec: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SPEC")] = ""
    """A file of TOML, or the name of a spec that comes along."""
    out: Path = Path("films")
    """Folder of the data set."""
    count: int | None = None
    """Films, in place of the spec's number. A larger one later adds films to the same folder."""
    workers: int = 1
    """Processes on this machine; each takes one core."""
    ray: str | None = None
    """HOST:PORT of a Ray cluster that makes them instead; --out must be a folder all nodes see."""
    dry_run: bool = False
    """Only draw nine films as one sheet, and tell what all would take."""

    def run(self) -> None:
        """Check, make, and say what there is."""
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
            self.forecast(spec, folder)
        else:
            self.produce(spec, folder)

    def produce(self, spec: "Spec", folder: Path) -> None:
        """The whole data set."""
        from ..factory.run import produce

        with progress_bar("done") as advance:
            outcome = produce(
                spec, folder, self.out, workers=self.workers, ray=self.ray, told=advance, warn=warn
            )
        told(outcome, self.out)

    def forecast(self, spec: "Spec", folder: Path) -> None:
        """Nine films of it."""
        from ..factory.sheet import dry_run

        with progress_bar("done") as advance:
            found = dry_run(spec, folder, self.out, advance)
        print(f"{found.path}  {found.films} films: frames, ids, depth, flow, visibility, last view")
        for line in forecast_lines(found, spec, self.workers):
            print(line)


def warn(line: str) -> None:
    """At once, beside the bar."""
    import sys

    print(f"newtongs: {line}", file=sys.stderr)


def told(outcome: "Outcome", out: Path) -> None:
    """What a run did, in a few lines."""
    made = f"{outcome.films:,} films in {outcome.shards} shards"
    kept = f", {outcome.kept} of them kept from before" if outcome.kept else ""
    print(f"{out}  {made}{kept}, {outcome.seconds:,.0f} s")
    if outcome.failures:
        words = ", ".join(f"{n} {reason}" for reason, n in outcome.failures.items())
        print(f"drawn anew: {words}; given up: {outcome.given_up}")
    print(f"{out / 'index.parquet'}  a line a film\n{outcome.page}  what is in it")


def forecast_lines(found: "Forecast", spec: "Spec", workers: int) -> list[str]:
    """Time, bytes and refusals of the whole, from nine films."""
    hours = spec.count * found.seconds_a_film / 3600 / workers
    size = spec.count * found.bytes_a_film
    plural = "s" if workers > 1 else ""
    lines = [
        f"a film: {found.seconds_a_film:.1f} s, {found.bytes_a_film / 1e6:.2f} MB; a scene once: "
        f"{found.seconds_a_scene:.1f} s",
        f"all {spec.count:,}: about {hours:.2f} hours with {workers} worker{plural}, "
        f"{size / 1e9:.2f} GB",
    ]
    words = ", ".join(f"{n} {reason}" for reason, n in found.failures.items()) or "nothing"
    lines.append(f"refused on the way: {words}; given up: {found.given_up}")
    return lines + [
        f"scene {s} would be left out: {line}" for s, line in found.refused_scenes.items()
    ]
