"""Make the missing sections, save each, and write the page after each."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ... import __version__, motions
from ...base.errors import InputError
from ...base.files import write_atomically
from ...base.provenance import made
from ...dynamics import BASELINES
from ..datasets.common12 import folder_of_motions
from ..datasets.state32 import State32
from ..evaluation.evaluate import SplitSums
from ..figures.motions import import_pyplot
from . import claims
from .content import Section, section_from_json
from .html import Entry, duration, page
from .registry import SectionSpec, chosen, specs
from .report_run import SPLITS, ReportRun, fingerprint, read_json, write_json

if TYPE_CHECKING:
    from rich.table import Table as RichTable

MAKING = 25_000  # State-32 sequences made per second on two cores
RESAMPLING = 2.0  # seconds per measurement, whatever its size
TRIAL = 16  # sequences of each motion in the trial that times a method

Say = Callable[[str], None]


def reproduce(
    out: Path | str,
    *,
    only: Sequence[str] = (),
    fresh: bool = False,
    say: Say = lambda line: None,
    **settings: Any,
) -> Path:
    """Make the report, or resume it, and return its page.

    Args:
        out: folder of the report: ``index.html``, ``figures``, ``json``.
        only: names of sections; empty for all.
        fresh: make all sections again, including finished ones.
        say: called with lines about the progress.
        settings: fields of :class:`newtongs.paper.report.report_run.ReportRun`.
    """
    if settings.get("videos") is not None:
        settings["videos"] = folder_of_motions(Path(settings["videos"]))
    report = ReportRun(Path(out), **settings)
    wanted = chosen(only)
    import_pyplot()  # report a missing extra before the work
    if fresh:
        _forget(report, wanted)
    pending = [spec for spec in wanted if _finished(report, spec) is None]
    say(_plan(report, wanted, pending))
    if _unmeasured(report, pending):
        _ = report.splits  # refuse splits of another size before the work
    failed = []
    for spec in pending:
        if error := _make(report, spec, say):
            failed.append(error)
        _write_page(report, wanted)  # an interrupted run leaves a page of finished sections
    target = _write_page(report, wanted)
    if failed:
        raise InputError(f"{failed[0]}; the page {target} has the sections that could be made")
    return target


def _unmeasured(report: ReportRun, pending: Iterable[SectionSpec]) -> list[tuple[str, str]]:
    """Measurements that the sections need and this report does not have yet."""
    pairs = {pair for spec in pending for pair in spec.measures(report)}
    return [pair for pair in pairs if report.record(*pair) is None]


def _forget(report: ReportRun, wanted: Iterable[SectionSpec]) -> None:
    """Remove the records of sections and of their measurements."""
    for spec in wanted:
        _path(report, spec).unlink(missing_ok=True)
        for pair in spec.measures(report):
            report.measured_path(*pair).unlink(missing_ok=True)


def _path(report: ReportRun, spec: SectionSpec) -> Path:
    return report.out / "json" / f"{spec.name}.json"


def _finished(report: ReportRun, spec: SectionSpec) -> Section | None:
    """A section made earlier with the same settings and inputs, if its pictures still exist."""
    found = read_json(_path(report, spec))
    if found is None or found.get("made_with") != _made_with(report, spec):
        return None
    content = section_from_json(found["section"])
    pictures = [report.figures / f"{f.name}.{e}" for f in content.figures for e in f.endings]
    return content if all(path.is_file() for path in pictures) else None


def _made_with(report: ReportRun, spec: SectionSpec) -> dict[str, Any]:
    inputs = {name: fingerprint(path) for name, path in spec.inputs(report).items()}
    measured = sorted(f"{method} {split}" for method, split in spec.measures(report))
    return {
        "version": __version__, "quick": report.quick, "per_motion": report.size,
        "inputs": inputs, "measured": measured,
    }  # fmt: skip


def _make(report: ReportRun, spec: SectionSpec, say: Say) -> str:
    """Make and save one section; returns the error line if its input is bad."""
    start, before = time.perf_counter(), sum(report.spent)
    try:
        content = spec.make(report)
    except InputError as error:
        path = report.out / "json" / f"{spec.name}.error.json"
        write_json(path, {"error": str(error)})
        say(f"{spec.name}: {error}")
        return f"section {spec.name}: {error}"
    seconds = time.perf_counter() - start - (sum(report.spent) - before)
    record = {
        "name": spec.name, "title": spec.title, "paper": spec.paper, "note": spec.note(report),
        "seconds": round(seconds, 2), "made": made(report.device, seconds),
        "made_with": _made_with(report, spec),
        "section": content.as_json(),
    }  # fmt: skip
    write_json(_path(report, spec), record)
    (report.out / "json" / f"{spec.name}.error.json").unlink(missing_ok=True)
    say(f"{spec.name}: done in {duration(seconds)}")
    return ""


def _write_page(report: ReportRun, wanted: Iterable[SectionSpec]) -> Path:
    """Write the page of all finished sections, requested now or earlier."""
    names = {spec.name for spec in wanted}
    entries = [e for spec in specs().values() if (e := _entry(report, spec, spec.name in names))]
    target = report.out / "index.html"
    evidence = claims.Evidence(report, {e.spec.name: e.content for e in entries if e.content})
    ledger = claims.judged(evidence)
    about = made(report.device, _seconds(report, entries))
    write_json(report.out / "json" / "claims.json", {"made": about, **claims.as_json(ledger)})
    text = page(entries, report, ledger, evidence, about)
    write_atomically(target, lambda f: f.write(text.encode()))
    return target


def _seconds(report: ReportRun, entries: Sequence[Entry]) -> float:
    """What the page's sections and their measurements took when they were made."""
    shown = [entry.spec for entry in entries if entry.content]
    found = [read_json(_path(report, spec)) for spec in shown]
    pairs = {pair for spec in shown for pair in spec.measures(report)}
    measured = (report.record(*pair) for pair in pairs)
    return sum(record["seconds"] for record in found if record) + sum(
        x["made"]["seconds"] for x in measured if x
    )


def kept_tables(out: Path, name: str) -> "Iterator[RichTable]":
    """Tables of a finished section, for the terminal."""
    record = read_json(out / "json" / f"{name}.json")
    for table in section_from_json(record["section"]).tables if record else ():
        title = " ".join(filter(None, [f"{table.title}.", record["note"] if record else ""]))
        yield table.terminal(title=title)


def _entry(report: ReportRun, spec: SectionSpec, wanted: bool) -> Entry | None:
    """The page's entry of a section; None if it was never requested."""
    content = _finished(report, spec)
    if content is not None:
        return Entry(spec, content, note=spec.note(report))
    failure = read_json(report.out / "json" / f"{spec.name}.error.json")
    if failure is not None:
        return Entry(spec, None, error=failure["error"])
    return Entry(spec, None) if wanted else None


# --- how long it will take ------------------------------------------------------------------------


def _plan(report: ReportRun, wanted: Sequence[SectionSpec], pending: Sequence[SectionSpec]) -> str:
    done = len(wanted) - len(pending)
    if not pending:
        return f"nothing to make, {done} done already; the page is written again"
    kept = f" ({done} done already)" if done else ""
    names = ", ".join(spec.name for spec in pending)
    seconds = estimate(report, pending)
    return f"to make{kept}: {names}; about {duration(seconds)} on this machine"


def estimate(report: ReportRun, pending: Sequence[SectionSpec]) -> float:
    """Estimated seconds on this machine, from a trial of the methods."""
    missing = _unmeasured(report, pending)
    total = sum(spec.seconds for spec in pending)
    if not missing:
        return total
    sequences = report.size * len(motions.STATE32)
    if not all((report.data_folder / f"{name}.pt").is_file() for name in SPLITS):
        total += len(SPLITS) * sequences / MAKING
    total += RESAMPLING * len(missing)
    learned = sum(method not in BASELINES for method, _ in missing)
    if learned:
        total += learned * sequences * _seconds_a_sequence(report, "newtongs_7301")
    if len(missing) > learned:
        each = _seconds_a_sequence(report, "physics_prior_se3")
        total += (len(missing) - learned) * sequences * each
    return total


@torch.no_grad()
def _seconds_a_sequence(report: ReportRun, method: str) -> float:
    """Seconds per sequence for prediction and metrics on a small split, after a warm-up call."""
    split, predict = _trial(), report.predictor(method)
    target = split.states.to(report.device)
    predict(target[:, 0], split.times)
    start = time.perf_counter()
    SplitSums(split).add(predict(target[:, 0], split.times), target, split.motion_indices)
    return (time.perf_counter() - start) / len(split)


def _trial() -> State32:
    """A few sequences of every motion."""
    made = [motions.generate(name, TRIAL, seed=1) for name in motions.STATE32]
    index = torch.arange(len(made)).repeat_interleave(TRIAL)
    states = torch.cat([x.states for x in made])
    return State32(Path("trial"), "val_id", states, index, tuple(motions.STATE32), motions.DT)
