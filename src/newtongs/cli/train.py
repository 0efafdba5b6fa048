"""``newtongs train`` and ``train-context``: Gaussian-NND on State-32, and ContextNND."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..forecast.training.config import LAPTOP as CONTEXT_LAPTOP
from ..forecast.training.config import ContextTrainConfig
from ..paper.training.config import LAPTOP, TrainConfig
from .apps import app
from .console import bars, reported_once

if TYPE_CHECKING:
    from ..paper.training.loop import Position


@app.command(name="train")
@dataclass(frozen=True)
class Train(TrainConfig):
    """Train Gaussian-NND on State-32.

    Writes OUT/best.safetensors, weights at every checkpoint epoch and metrics.jsonl. Ctrl-C saves
    and stops; the same command resumes the run. To use several GPUs, start it with torchrun.
    """

    resumes: ClassVar[bool] = True
    presets: ClassVar[dict[str, dict[str, Any]]] = {"laptop": LAPTOP}
    locks_out: ClassVar[bool] = False  # train() locks it, in rank 0 alone
    preset: Literal["paper", "laptop"] = "paper"
    """paper: 100 epochs of 16 updates at 1e-4. laptop: about two minutes on two CPU cores; make its
    data with `newtongs data state32 --per-motion 128`. Other flags override the preset."""

    def run(self) -> None:
        """Train and print where the weights are."""
        from ..paper.training import train

        names = [f.name for f in fields(TrainConfig)]
        config = TrainConfig(**{name: getattr(self, name) for name in names})
        with reported_once(), training_bar() as advance:
            best = train(config, progress=advance)
        if os.environ.get("RANK", "0") == "0":
            print(f"best weights: {best}")


@contextmanager
def training_bar() -> Iterator[Callable[["Position", dict[str, float], TrainConfig], None]]:
    """A progress bar over all updates of a run, with the loss and the time left."""
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

    with bars(
        TextColumn("epoch {task.fields[epoch]:>3}"), BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} updates  loss {task.fields[loss]:.4f}"),
        TimeRemainingColumn(),
    ) as draw:  # fmt: skip

        def advance(at: "Position", terms: dict[str, float], config: TrainConfig) -> None:
            total = config.epochs * config.updates_per_epoch
            done = (at.epoch - 1) * config.updates_per_epoch + at.update
            draw("", done, total, epoch=at.epoch, loss=terms["total"])

        yield advance


@app.command(name="train-context")
@dataclass(frozen=True)
class TrainContext(ContextTrainConfig):
    """Train ContextNND, our own model, which predicts from one or several observed states.

    It needs no data set: sequences are generated during training, in distribution only. Writes
    OUT/context.safetensors and metrics.jsonl. Ctrl-C saves and stops; the same command resumes the
    run.
    """

    resumes: ClassVar[bool] = True
    presets: ClassVar[dict[str, dict[str, Any]]] = {"laptop": CONTEXT_LAPTOP}
    preset: Literal["full", "laptop"] = "full"
    """full: the settings of the shipped weights, minutes on one GPU (--device cuda). laptop: a
    smaller model, a few minutes on two CPU cores. Other flags override the preset."""

    def run(self) -> None:
        """Train and print where the weights are."""
        from ..forecast.training import train

        names = [f.name for f in fields(ContextTrainConfig)]
        config = ContextTrainConfig(**{name: getattr(self, name) for name in names})
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

        with bars(
            BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f} updates"),
            TextColumn("loss {task.fields[loss]:.4f}"), TimeRemainingColumn(),
        ) as draw:  # fmt: skip

            def advance(done: int, terms: Mapping[str, float], at: ContextTrainConfig) -> None:
                draw("", done, at.updates, loss=terms["total"])

            best = train(config, progress=advance)
        print(f"weights: {best}")
