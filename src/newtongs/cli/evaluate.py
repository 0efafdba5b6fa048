"""``newtongs evaluate``: the paper's tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from ..dynamics import GaussianNND
from ..dynamics.backends import predictor
from ..dynamics.baselines import Predictor
from ..dynamics.weights import ablated, load_model, load_pretrained
from ..errors import InputError
from ..evaluation import METHODS, Report, evaluate
from ..evaluation.evaluate import methods_by_name
from ..evaluation.same32 import BASELINES, evaluate_same32, same32_table
from ..evaluation.tables import motion_table, split_table
from ..state import checked_device
from .apps import app
from .console import check_target, progress_bar, wide_console, write_json
from .data import SplitName


@app.command(name="evaluate")
@dataclass(frozen=True)
class Evaluate:
    """Evaluate methods on State-32 and print a table for each split, or on Same-32 (Table 2).

    The lowest value of each ranked metric is bold and starred, as in the paper. Plane violation
    and the columns after it are diagnostics and are not ranked.
    """

    resumes: ClassVar[bool] = False
    data: Path | None = None
    """State-32 folder, as made by `newtongs data state32`."""
    same32: Path | None = None
    """Same-32 folder, as made by `newtongs data same32`: prints the paper's Table 2, with the
    rows that need no other program. NewtonGS is the mean over the shipped models, or --checkpoint.
    """
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
    """Take parts from the trained model without training it anew, several with commas between
    them. continuous, contact: that residual network is zero (the paper's branch table). event: no
    floor. euler: in place of RK4. max_dt=1/15: the longest substep in seconds."""

    def run(self) -> None:
        """Evaluate, print, and write the JSON file."""
        if (self.data is None) == (self.same32 is None):
            raise InputError("name one data set: --data DIR for State-32, or --same32 DIR")
        if self.json is not None:
            check_target(self.json)
        device = checked_device(self.device)
        if self.same32 is not None:
            self.table2(self.same32, device)
        else:
            assert self.data is not None
            self.state32(self.data, device)

    def table2(self, folder: Path, device: torch.device) -> None:
        """Table 2; without ``--checkpoint`` NewtonGS is the mean over the shipped models."""
        for name in ("splits", "per_motion", "compare", "batch_size"):
            if getattr(self, name) != getattr(Evaluate, name):
                raise InputError(f"--{name.replace('_', '-')} goes with --data, not with --same32")
        model = self.model()
        rows = evaluate_same32(
            folder,
            methods=BASELINES if self.methods == METHODS else self.methods,
            models=None if model is None else [model],
            device=device,
        )
        wide_console().print(same32_table(rows))
        self.write({"same32": rows})

    def model(self) -> GaussianNND | None:
        """The model named, without the parts named."""
        if self.checkpoint is None:
            if self.ablate:
                raise InputError(f"--ablate {self.ablate} needs a trained model; name --checkpoint")
            return None
        return ablated(find_model(self.checkpoint), *self.removed())

    def removed(self) -> tuple[str, ...]:
        """Names of the parts to take away."""
        return tuple(name.strip() for name in self.ablate.split(",") if name.strip())

    def state32(self, data: Path, device: torch.device) -> None:
        """Table 1, a table for each split."""
        methods: dict[str, Predictor | None] = dict(methods_by_name(self.methods))
        if (model := self.model()) is not None:
            methods["newtongs"] = predictor(model.to(device))
        with progress_bar() as advance:
            report = evaluate(
                data,
                splits=self.splits,
                methods=methods,
                batch_size=self.batch_size,
                device=device,
                progress=advance,
            )
        removed = self.removed()
        print_report(report, per_motion=self.per_motion, compare=self.compare, removed=removed)
        self.write(report)

    def write(self, report: Report) -> None:
        """Write every figure to the file asked for, if any."""
        if self.json is not None:
            write_json(self.json, report)
            print(f"figures written to {self.json}")


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


def print_report(
    report: Report, *, per_motion: bool, compare: bool, removed: Sequence[str] = ()
) -> None:
    """Tables of a report on standard output."""
    console = wide_console()
    for split in report:
        console.print(split_table(report, split, compare=compare, removed=removed))
        if per_motion:
            console.print(motion_table(report, split, compare=compare, removed=removed))
