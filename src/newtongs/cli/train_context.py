"""``newtongs train-context``: ContextNND on fresh draws of State-32's motions."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar, Literal

from ..training.context.config import ContextTrainConfig, laptop
from .apps import app
from .console import bars

if TYPE_CHECKING:
    from collections.abc import Mapping


@app.command(name="train-context")
@dataclass(frozen=True)
class TrainContext(ContextTrainConfig):
    """Train ContextNND, our predictor that reads what it is shown; not the paper's model.

    It needs no data set: sequences are drawn as it goes, in distribution only. Writes
    OUT/context.safetensors and metrics.jsonl. Ctrl-C saves and stops; the same command goes on
    where the run stopped.
    """

    resumes: ClassVar[bool] = True
    preset: Literal["full", "laptop"] = "full"
    """full: the shipped weights, minutes on one GPU (--device cuda). laptop: a smaller model, some
    minutes on two CPU cores."""

    def run(self) -> None:
        """Train, and say where the weights are."""
        from ..training.context import train

        names = [f.name for f in fields(ContextTrainConfig)]
        config = ContextTrainConfig(**{name: getattr(self, name) for name in names})
        if self.preset == "laptop":
            config = laptop(config)
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

        with bars(
            BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f} updates"),
            TextColumn("loss {task.fields[loss]:.4f}"), TimeRemainingColumn(),
        ) as draw:  # fmt: skip

            def advance(done: int, terms: "Mapping[str, float]", at: ContextTrainConfig) -> None:
                draw("", done, at.updates, loss=terms["total"])

            best = train(config, progress=advance)
        print(f"weights: {best}")
