"""The command ``newtongs``: one subcommand a dataclass, whose fields are the flags."""

import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

import torch
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text
from tyro.extras import SubcommandApp

from .datasets import state32
from .dynamics import GaussianNND
from .dynamics.baselines import Predictor
from .dynamics.predict import predictor
from .dynamics.weights import load_model, load_pretrained, remove_branches
from .errors import InputError
from .evaluation import METHODS, Report, evaluate
from .evaluation.evaluate import methods_by_name
from .evaluation.figures import motion_gallery
from .evaluation.tables import motion_table, split_table
from .state import checked_device
from .training import Interrupted, TrainConfig, train
from .training.checkpoint import Position
from .training.config import laptop

USAGE_ERROR = 2
INTERRUPTED = 130

app = SubcommandApp()
data = SubcommandApp()
figure = SubcommandApp()
app.command(data, name="data", help="Make a benchmark data set.")
app.command(figure, name="figure", help="Draw a picture.")

SplitName = Literal["train", "val_id", "val_ood"]


class Command(Protocol):
    """A parsed subcommand."""

    resumes: ClassVar[bool]
    """Whether the same command goes on where an interrupted one stopped."""

    def run(self) -> None:
        """Do it."""


@data.command(name="state32")
@dataclass(frozen=True)
class DataState32:
    """Make State-32: labelled 64-frame trajectories of 32 motion families.

    Writes OUT/{split}.pt and OUT/manifest_{split}.csv. At the paper's size that is 7.4 GB. An
    interrupted run goes on where it stopped when started again.
    """

    resumes: ClassVar[bool] = True
    out: Path
    """Folder to write to."""
    per_motion: int | None = None
    """Sequences of each motion in each split (times 32 motions). Default: the paper's 32,768 for
    train and 4,096 for val_id and val_ood."""
    splits: tuple[SplitName, ...] = ("train", "val_id", "val_ood")
    """Which splits to make: training, same ranges, velocity-range shift."""
    overwrite: bool = False
    """Make every split anew, also one that is there and as asked for."""
    device: str = "cpu"
    """Where to compute: cpu or cuda. The data are the same up to rounding."""

    def run(self) -> None:
        """Build, and say what was written."""
        # One thread: operations take a millisecond or so, and beside another busy process two
        # threads wait for each other at every one of them.
        with one_thread(), progress_bar() as advance:
            paths = state32.build(
                self.out,
                splits=self.splits,
                per_motion=self.per_motion,
                overwrite=self.overwrite,
                device=checked_device(self.device),
                progress=advance,
            )
        for path in paths:
            print(f"{path}  {path.stat().st_size / 1e6:,.1f} MB")


@app.command(name="evaluate")
@dataclass(frozen=True)
class Evaluate:
    """Evaluate methods on State-32 and print a table for each split.

    The lowest value of each ranked metric is bold and starred, as in the paper. Plane violation
    and the columns after it are diagnostics and are not ranked.
    """

    resumes: ClassVar[bool] = False
    data: Path
    """State-32 folder, as made by `newtongs data state32`."""
    splits: tuple[SplitName, ...] = ("val_id", "val_ood")
    """Which splits to evaluate."""
    methods: tuple[str, ...] = METHODS
    """Which methods. `oracle` is the ground truth itself, a check of the diagnostics."""
    json: Path | None = None
    """Also write every figure, per motion too, to this file."""
    per_motion: bool = False
    """Also print the trajectory error of every motion."""
    compare: bool = False
    """Show the paper's figure and the deviation from it."""
    batch_size: int = 4096
    """Sequences predicted at once, at most 65,534."""
    device: str = "cpu"
    """Where to predict: cpu or cuda."""
    checkpoint: str | None = None
    """Also evaluate a trained model, as `newtongs`: a .safetensors file, or pretrained[:SEED]."""
    ablate: str = ""
    """Set residual networks of the trained model to zero: continuous, contact, or both with a
    comma between them."""

    def run(self) -> None:
        """Evaluate, print, and write the JSON file."""
        device = checked_device(self.device)
        if self.json is not None:
            check_target(self.json)
        methods: dict[str, Predictor | None] = dict(methods_by_name(self.methods))
        if self.checkpoint is not None:
            model = find_model(self.checkpoint)
            remove_branches(model, *[b.strip() for b in self.ablate.split(",") if b.strip()])
            methods["newtongs"] = predictor(model.to(device))
        elif self.ablate:
            raise InputError(f"--ablate {self.ablate} needs a trained model; name --checkpoint")
        with progress_bar() as advance:
            report = evaluate(
                self.data,
                splits=self.splits,
                methods=methods,
                batch_size=self.batch_size,
                device=device,
                progress=advance,
            )
        print_report(report, per_motion=self.per_motion, compare=self.compare)
        if self.json is not None:
            write_json(self.json, report)
            print(f"figures written to {self.json}")


@app.command(name="train")
@dataclass(frozen=True)
class Train(TrainConfig):
    """Train Gaussian-NND on State-32.

    Writes OUT/best.safetensors, weights at every checkpoint epoch and metrics.jsonl. Ctrl-C saves
    and stops; the same command goes on where the run stopped. For several GPUs start it with
    torchrun.
    """

    resumes: ClassVar[bool] = True
    preset: Literal["paper", "laptop"] = "paper"
    """paper: 100 epochs of 16 updates at 1e-4. laptop: minutes on two CPU cores; make its data
    with `newtongs data state32 --per-motion 128`."""

    def run(self) -> None:
        """Train, and say where the weights are."""
        checked_device(self.device)
        names = [f.name for f in fields(TrainConfig)]
        config = TrainConfig(**{name: getattr(self, name) for name in names})
        if self.preset == "laptop":
            config = laptop(config)
        with training_bar() as advance:
            best = train(config, progress=advance)
        print(f"best weights: {best}")


@figure.command(name="motions")
@dataclass(frozen=True)
class FigureMotions:
    """Draw trajectories of all 32 motion families in one picture."""

    resumes: ClassVar[bool] = False
    out: Path = Path("state32.png")
    """Picture to write; the ending decides the format (png, svg, pdf)."""
    paths: int = 4
    """Sequences of each family."""
    seed: int = 7301
    """Seed of the draw."""

    def run(self) -> None:
        """Draw, and say where it is."""
        if self.paths < 1:
            raise InputError(f"paths must be at least 1, got {self.paths}")
        check_target(self.out)
        print(f"picture written to {motion_gallery(self.out, paths=self.paths, seed=self.seed)}")


def find_model(name: str) -> GaussianNND:
    """A model by file, or a shipped one by `pretrained` or `pretrained:SEED`."""
    if name == "pretrained":
        return load_pretrained()
    if name.startswith("pretrained:"):
        seed = name.removeprefix("pretrained:")
        if not seed.isdigit():
            raise InputError(f"expected pretrained:SEED with a number, got {name!r}")
        return load_pretrained(int(seed))
    return load_model(name)


def print_report(report: Report, *, per_motion: bool, compare: bool) -> None:
    """Tables of a report on standard output, never cut to a narrow terminal."""
    console = Console()
    if console.width < 132:
        console = Console(width=132)
    for split in report:
        console.print(split_table(report, split, compare=compare))
        if per_motion:
            console.print(motion_table(report, split, compare=compare))


def write_json(path: Path, content: Any) -> None:
    """Write under a temporary name, then rename."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w") as f:
                json.dump(content, f, indent=1)
            os.chmod(part, 0o644)
            os.replace(part, path)
        except BaseException:
            os.unlink(part)
            raise
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error


def check_target(path: Path) -> None:
    """Find out before the work whether a file can be written there."""
    if path.is_dir():  # also the empty name
        raise InputError(f"cannot write {path}: it is a folder; name a file in it")
    parent = next(p for p in path.absolute().parents if os.path.lexists(p))
    if not (parent.is_dir() and os.access(parent, os.W_OK)):
        raise InputError(f"cannot write {path}: {parent} is no folder that can be written to")


@contextmanager
def bars(*columns: ProgressColumn) -> Iterator[Callable[..., None]]:
    """Bars on standard error, fed by calls of (name, done, total, further fields).

    They are drawn from the first call on, so that an error before it stands alone, and only on a
    terminal: in a log they would be noise.
    """
    console = Console(stderr=True)
    drawn = Progress(*columns, console=console, disable=not console.is_terminal)
    tasks: dict[str, TaskID] = {}

    def advance(name: str, done: int, total: int, **shown: Any) -> None:
        drawn.start()
        if name not in tasks:
            tasks[name] = drawn.add_task(name, total=total, completed=done, **shown)
        drawn.update(tasks[name], completed=done, **shown)

    try:
        yield advance
    finally:
        if tasks:
            drawn.stop()


@contextmanager
def progress_bar() -> Iterator[state32.Progress]:
    """A bar a split, fed by calls of (split, done, total)."""
    with bars(
        TextColumn("{task.description:8}"), BarColumn(),
        TextColumn("{task.completed:>9,.0f}/{task.total:,.0f} sequences"), TimeRemainingColumn(),
    ) as advance:  # fmt: skip
        yield advance


@contextmanager
def training_bar() -> Iterator[Callable[[Position, dict[str, float], TrainConfig], None]]:
    """A bar over all updates of a run, with the loss and the time left."""
    with bars(
        TextColumn("epoch {task.fields[epoch]:>3}"), BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} updates  loss {task.fields[loss]:.4f}"),
        TimeRemainingColumn(),
    ) as draw:  # fmt: skip

        def advance(at: Position, terms: dict[str, float], config: TrainConfig) -> None:
            total = config.epochs * config.updates_per_epoch
            done = (at.epoch - 1) * config.updates_per_epoch + at.update
            draw("", done, total, epoch=at.epoch, loss=terms["total"])

        yield advance


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute on one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def parse(args: Sequence[str] | None) -> Command:
    """The command that the words name; tyro's box about wrong words becomes one line."""
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            return app.cli(
                prog="newtongs", args=args, description="Make Gaussian-splatting objects move."
            )
    except SystemExit as stop:
        if stop.code == USAGE_ERROR:
            raise InputError(one_line(said.getvalue())) from None
        raise


def one_line(box: str) -> str:
    """What tyro's box says, on one line: what is wrong, the near miss, where help is.

    Rules cut the box into parts: the error, advice, the command for help.
    """
    rows = [row.strip("│| ") for row in Text.from_ansi(box).plain.splitlines()[1:-1]]
    parts = re.split(r"\n[─-]{5,}\n", "\n".join(rows))
    # An InputError of the configuration itself needs no name of a class before it.
    said = [re.sub(r"^Error parsing [A-Z]\w+: ", "", parts[0].split("\n\n")[0])]
    for words in (part.split() for part in parts[1:]):
        match words[:3]:
            case ["Perhaps", "you", "meant:"]:
                said.append(f"did you mean {words[3]}?")
            case ["For", "full", "helptext,"]:
                said.append(f"see {' '.join(words[words.index('newtongs') :])}")
            case ["Argument", "helptext:", _]:
                pass
            case _:
                said.append(" ".join(words))
    return "; ".join(f"{s[:1].lower()}{' '.join(s[1:].split())}".removesuffix(".") for s in said)


def main(args: Sequence[str] | None = None) -> None:
    """Parse, run, and turn bad input into one line and exit code 2."""
    resumes = False
    try:
        command = parse(args)
        resumes = command.resumes
        command.run()
    except InputError as error:
        print(f"newtongs: {error}", file=sys.stderr)
        sys.exit(USAGE_ERROR)
    except Interrupted as stop:
        print(f"newtongs: {stop}; run the same command again to go on", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except KeyboardInterrupt:
        go_on = "; run the same command again to go on" if resumes else ""
        print(f"newtongs: stopped{go_on}", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
