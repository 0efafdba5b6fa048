"""``newtongs train``: Gaussian-NND on State-32."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar, Literal

from ..training.config import TrainConfig, laptop
from .apps import app
from .console import bars

if TYPE_CHECKING:
    from ..training.checkpoint import Position


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
    """paper: 100 epochs of 16 updates at 1e-4. laptop: a minute or so on two CPU cores; make its
    data with `newtongs data state32 --per-motion 128`."""

    def run(self) -> None:
        """Train, and say where the weights are."""
        from ..state import checked_device
        from ..training import train

        checked_device(self.device)
        names = [f.name for f in fields(TrainConfig)]
        config = TrainConfig(**{name: getattr(self, name) for name in names})
        if self.preset == "laptop":
            config = laptop(config)
        with training_bar() as advance:
            best = train(config, progress=advance)
        print(f"best weights: {best}")


@contextmanager
def training_bar() -> Iterator[Callable[["Position", dict[str, float], TrainConfig], None]]:
    """A bar over all updates of a run, with the loss and the time left."""
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
