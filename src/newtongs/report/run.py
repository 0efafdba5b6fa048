"""Make the sections that are not there yet, keep each, and write the page after each."""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from .. import __version__, motions
from ..datasets.state32 import State32
from ..dynamics import BASELINES
from ..errors import InputError
from ..figures.motions import import_pyplot
from ..files import write_atomically
from .content import Section, section_from_json
from .context import SPLITS, Context, fingerprint, read_json, write_json
from .html import Entry, page
from .measure import sums_of
from .registry import Spec, chosen, specs

MAKING = 25_000  # State-32 sequences made in a second on two cores
RESAMPLING = 2.0  # seconds a measurement, whatever its size
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
    """Make the report, or go on with it, and return its page.

    Args:
        out: folder of the report: ``index.html``, ``figures``, ``json``.
        only: names of sections; empty for all.
        fresh: make the sections anew, also those that are there.
        say: told what is done, line by line.
        settings: fields of :class:`newtongs.report.context.Context`.
    """
    context = Context(Path(out), **settings)
    wanted = chosen(only)
    import_pyplot()  # a missing extra is told before the work
    if fresh:
        _forget(context, wanted)
    pending = [spec for spec in wanted if _finished(context, spec) is None]
    say(_plan(context, wanted, pending))
    if _unmeasured(context, pending):
        _ = context.splits  # splits of another size in their place are told before the work
    failed = []
    for spec in pending:
        if error := _make(context, spec, say):
            failed.append(error)
        _write_page(context, wanted)  # a run that is stopped leaves a page of what it made
    target = _write_page(context, wanted)
    if failed:
        raise InputError(f"{failed[0]}; the page {target} has the sections that could be made")
    return target


def _unmeasured(context: Context, pending: Iterable[Spec]) -> list[tuple[str, str]]:
    """Methods and splits that the sections need and this report does not have yet."""
    pairs = {pair for spec in pending for pair in spec.measures(context)}
    return [pair for pair in pairs if context.record(*pair) is None]


def _forget(context: Context, wanted: Iterable[Spec]) -> None:
    """Remove the records of sections and of what they need measured."""
    for spec in wanted:
        _path(context, spec).unlink(missing_ok=True)
        for pair in spec.measures(context):
            context.measured_path(*pair).unlink(missing_ok=True)


def _path(context: Context, spec: Spec) -> Path:
    return context.out / "json" / f"{spec.name}.json"


def _finished(context: Context, spec: Spec) -> Section | None:
    """A section made earlier with the same settings and inputs, its pictures still there."""
    found = read_json(_path(context, spec))
    if found is None or found.get("made_with") != _made_with(context, spec):
        return None
    content = section_from_json(found["section"])
    pictures = [context.figures / f"{f.name}.{e}" for f in content.figures for e in f.endings]
    return content if all(path.is_file() for path in pictures) else None


def _made_with(context: Context, spec: Spec) -> dict[str, Any]:
    inputs = {name: fingerprint(path) for name, path in spec.inputs(context).items()}
    measured = sorted(f"{method} {split}" for method, split in spec.measures(context))
    return {
        "version": __version__, "quick": context.quick, "per_motion": context.size,
        "inputs": inputs, "measured": measured,
    }  # fmt: skip


def _make(context: Context, spec: Spec, say: Say) -> str:
    """Make and keep one section; returns the line to report if its input is bad."""
    start = time.perf_counter()
    try:
        content = spec.make(context)
    except InputError as error:
        path = context.out / "json" / f"{spec.name}.error.json"
        write_json(path, {"error": str(error)})
        say(f"{spec.name}: {error}")
        return f"section {spec.name}: {error}"
    seconds = time.perf_counter() - start
    record = {
        "name": spec.name, "title": spec.title, "paper": spec.paper, "note": spec.note(context),
        "seconds": round(seconds, 2), "made_with": _made_with(context, spec),
        "section": content.as_json(),
    }  # fmt: skip
    write_json(_path(context, spec), record)
    (context.out / "json" / f"{spec.name}.error.json").unlink(missing_ok=True)
    say(f"{spec.name}: done in {duration(seconds)}")
    return ""


def _write_page(context: Context, wanted: Iterable[Spec]) -> Path:
    """The page of every section that is there, asked for now or earlier."""
    names = {spec.name for spec in wanted}
    entries = [e for spec in specs().values() if (e := _entry(context, spec, spec.name in names))]
    target = context.out / "index.html"
    text = page(entries, context)
    write_atomically(target, lambda f: f.write(text.encode()))
    return target


def _entry(context: Context, spec: Spec, wanted: bool) -> Entry | None:
    """What the page shows of a section; None for one that nobody asked for."""
    content = _finished(context, spec)
    if content is not None:
        return Entry(spec, content, note=spec.note(context))
    failure = read_json(context.out / "json" / f"{spec.name}.error.json")
    if failure is not None:
        return Entry(spec, None, error=failure["error"])
    return Entry(spec, None) if wanted else None


# --- how long it will take ------------------------------------------------------------------------


def _plan(context: Context, wanted: Sequence[Spec], pending: Sequence[Spec]) -> str:
    done = len(wanted) - len(pending)
    if not pending:
        return f"nothing to make, {done} done already; the page is written anew"
    kept = f" ({done} done already)" if done else ""
    names = ", ".join(spec.name for spec in pending)
    seconds = estimate(context, pending)
    return f"to make{kept}: {names}; about {duration(seconds)} on this machine"


def estimate(context: Context, pending: Sequence[Spec]) -> float:
    """Seconds that the sections will take on this machine, from a trial of the methods."""
    missing = _unmeasured(context, pending)
    total = sum(spec.seconds for spec in pending)
    if not missing:
        return total
    sequences = context.size * len(motions.STATE32)
    if not all((context.data_folder / f"{name}.pt").is_file() for name in SPLITS):
        total += len(SPLITS) * sequences / MAKING
    total += RESAMPLING * len(missing)
    learned = sum(method not in BASELINES for method, _ in missing)
    if learned:
        total += learned * sequences * _seconds_a_sequence(context, "newtongs_7301")
    if len(missing) > learned:
        each = _seconds_a_sequence(context, "physics_prior_se3")
        total += (len(missing) - learned) * sequences * each
    return total


@torch.no_grad()
def _seconds_a_sequence(context: Context, method: str) -> float:
    """Prediction and metrics of a small split, divided by its sequences; a first call compiles."""
    split, predict = _trial(), context.predictor(method)
    target = split.states.to(context.device)
    predict(target[:, 0], split.times)
    start = time.perf_counter()
    sums_of(split, predict(target[:, 0], split.times), target, split.motion_indices)
    return (time.perf_counter() - start) / len(split)


def _trial() -> State32:
    """A few sequences of every motion."""
    made = [motions.generate(name, TRIAL, seed=1) for name in motions.STATE32]
    index = torch.arange(len(made)).repeat_interleave(TRIAL)
    states = torch.cat([x.states for x in made])
    return State32(Path("trial"), "val_id", states, index, tuple(motions.STATE32), motions.DT)


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
