"""``newtongs evaluate``: the paper's tables."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import InputError
from .apps import app
from .console import check_target, progress_bar, wide_console, write_json
from .data import SplitName
from .videos import evaluate_videos

if TYPE_CHECKING:
    import torch

    from ..dynamics import GaussianNND
    from ..dynamics.context import ContextNND
    from ..evaluation import Report
    from ..evaluation.evaluate import Method
    from ..ranks import Ranks

# Those of newtongs.evaluation, which takes seconds to import.
METHODS = (
    "hold_z0", "const_vel_se3", "damped_vel_se3", "gravity_bounce_se3", "physics_prior_se3",
    "oracle",
)  # fmt: skip
READERS = ("context", "limit")  # likewise: those that are shown more than Z_0


@app.command(name="evaluate")
@dataclass(frozen=True)
class Evaluate:
    """Evaluate methods on State-32 (Table 1) or Same-32 (Table 2), or clips of any kind (Table 3).

    The lowest value of each ranked metric is bold and starred, as in the paper. Plane violation
    and the columns after it are diagnostics and are not ranked.

    Several processes or GPUs share the sequences of State-32 when torchrun starts the command:
    torchrun --nproc-per-node 4 -m newtongs evaluate --data data/state32 --device cuda
    """

    resumes: ClassVar[bool] = False
    data: Path | None = None
    """State-32 folder, as made by `newtongs data state32`."""
    same32: Path | None = None
    """Same-32 folder, as made by `newtongs data same32`: prints the paper's Table 2. NewtonGS is
    the mean over the shipped models, with their standard deviation, or --checkpoint."""
    l4gm: Path | None = None
    """Folder with the Gaussians that L4GM made of the clips of `newtongs l4gm export`: adds its row
    to Table 2. docs/l4gm.md says how to make them."""
    videos: Path | None = None
    """Folder of clips: side by side, as <Motion>/<Method>.mp4, or with the manifest of `newtongs
    data common12`. Prints the paper's Table 3; with --json a second run goes on where one stopped.
    """
    splits: tuple[SplitName, ...] = ("val_id", "val_ood")
    """Which splits to evaluate."""
    methods: tuple[str, ...] = METHODS
    """Which methods. `oracle` is the ground truth itself, a check of the diagnostics. `context` is
    our ContextNND, which may be shown more than Z_0 (--seen); `limit` is the least error that any
    predictor can have given as much (slow: take a data set of some hundred sequences)."""
    seen: tuple[int, ...] = (1,)
    """How many states `context` and `limit` are shown, 1 to 16; several numbers make a row each.
    1 is Z_0 alone, as for the other methods. A second row counts only the frames not shown."""
    noise: float = 0.0
    """Noise on what `context` is shown, in standard deviations of each channel of Z_0: 0.01 is one
    per cent."""
    context: str = "pretrained"
    """Weights of `context`: pretrained, or a .safetensors file made by `newtongs train-context`."""
    json: Path | None = None
    """Also write every figure, per motion too, to this file."""
    per_motion: bool = False
    """Also print the trajectory error of every motion, or the scores of every clip."""
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
        if sum(x is not None for x in (self.data, self.same32, self.videos)) != 1:
            raise InputError(
                "name one data set: --data DIR for State-32, --same32 DIR, or --videos DIR"
            )
        if self.json is not None:
            check_target(self.json)
        if self.videos is not None:
            self.table3(self.videos)
            return
        self.trajectories()

    def trajectories(self) -> None:
        """Table 1 or 2, by one process or several."""
        from ..ranks import ranks
        from ..state import checked_device

        checked_device(self.device)
        with ranks(self.device) as group, said_once(group):
            if self.same32 is None:
                assert self.data is not None
                self.state32(self.data, group)
                return
            with group.agreed():
                if group.first:  # 32 sequences: nothing to share
                    self.table2(self.same32, group.device)

    def table3(self, folder: Path) -> None:
        """Table 3, or a row a clip; the paper's figures always stand beside ours."""
        for name in (
            "splits",
            "methods",
            "compare",
            "batch_size",
            "device",
            "checkpoint",
            "ablate",
            "seen",
            "noise",
            "context",
        ):
            if getattr(self, name) != getattr(Evaluate, name):
                raise InputError(f"--{name.replace('_', '-')} does not go with --videos")
        evaluate_videos(folder, json=self.json, per_clip=self.per_motion)

    def table2(self, folder: Path, device: "torch.device") -> None:
        """Table 2; without ``--checkpoint`` NewtonGS is the mean over the shipped models."""
        from ..evaluation.same32 import BASELINES, mean_report, run_same32, same32_table, table2

        for name in ("splits", "per_motion", "compare", "batch_size", "seen", "noise", "context"):
            if getattr(self, name) != getattr(Evaluate, name):
                raise InputError(f"--{name.replace('_', '-')} goes with --data, not with --same32")
        model = self.model()
        with progress_bar("samples") as advance:
            runs = run_same32(
                folder,
                methods=BASELINES if self.methods == METHODS else self.methods,
                models=None if model is None else [model],
                l4gm=self.l4gm,
                device=device,
                progress=advance,
            )
        wide_console().print(same32_table(runs))
        rows = {name: mean_report(reports) for name, reports in runs.items()}
        self.write({"same32": rows, "table2": table2(runs)})

    def model(self) -> "GaussianNND | None":
        """The model named, without the parts named."""
        from ..dynamics.weights import ablated

        if self.checkpoint is None:
            if self.ablate:
                raise InputError(f"--ablate {self.ablate} needs a trained model; name --checkpoint")
            return None
        return ablated(find_model(self.checkpoint), *self.removed())

    def removed(self) -> tuple[str, ...]:
        """Names of the parts to take away."""
        return tuple(name.strip() for name in self.ablate.split(",") if name.strip())

    def state32(self, data: Path, group: "Ranks") -> None:
        """Table 1, a table for each split; the first rank prints."""
        from ..evaluation import evaluate

        with group.agreed():
            # What can be known at best hangs on the split; all else is measured in one go.
            parts = [[x] for x in self.splits] if "limit" in self.methods else [[*self.splits]]
            methods = [self.predictors(group.device, *part[:1]) for part in parts]
        report: Report = {}
        with progress_bar() as advance:
            for splits, those in zip(parts, methods, strict=True):
                report |= evaluate(
                    data,
                    splits=splits,
                    methods=those,
                    batch_size=self.batch_size,
                    group=group,
                    progress=advance if group.first else None,
                )
        with group.agreed():
            if group.first:
                self.show(report)
                self.write(report)

    def show(self, report: "Report") -> None:
        """Tables on standard output."""
        print_report(
            report, per_motion=self.per_motion, compare=self.compare, removed=self.removed()
        )

    def predictors(self, device: "torch.device", split: str = "val_id") -> "dict[str, Method]":
        """The methods named, and the model if there is one."""
        from ..dynamics.backends import predictor
        from ..evaluation.evaluate import methods_by_name

        if self.l4gm is not None:
            raise InputError("--l4gm goes with --same32, not with --data")
        plain = [name for name in self.methods if name not in READERS]
        methods = methods_by_name(plain) if plain or not self.methods else {}
        methods |= self.readers(device, split)
        if (model := self.model()) is not None:
            methods["newtongs"] = predictor(model.to(device))
        return methods

    def readers(self, device: "torch.device", split: str) -> "dict[str, Method]":
        """Those methods named that are shown some states."""
        wanted = [name for name in self.methods if name in READERS]
        for name in ("seen", "noise", "context"):
            if not wanted and getattr(self, name) != getattr(Evaluate, name):
                raise InputError(f"--{name} goes with --methods context")
        if not wanted:
            return {}
        from ..evaluation.readers import context_readers, limit_readers

        found: dict[str, Method] = {}
        if "context" in wanted:
            model = find_context(self.context).to(device)
            found |= context_readers(model, self.seen, noise=self.noise)
        if "limit" in wanted:
            found |= limit_readers(split, self.seen)
        return found

    def write(self, report: Mapping[str, Any]) -> None:
        """Write every figure to the file asked for, if any."""
        if self.json is not None:
            write_json(self.json, report)
            print(f"figures written to {self.json}")


@contextmanager
def said_once(group: "Ranks") -> Iterator[None]:
    """Bad input ends every rank, and the first one says why."""
    try:
        yield
    except InputError:
        if group.first:
            raise
        sys.exit(2)


def find_context(name: str) -> "ContextNND":
    """ContextNND by file, or the shipped one."""
    from ..dynamics.context import load_context, load_pretrained_context

    return load_pretrained_context() if name == "pretrained" else load_context(name)


def find_model(name: str) -> "GaussianNND":
    """A model by file, or a shipped one by `pretrained` or `pretrained:SEED`."""
    from ..dynamics.weights import load_model, load_pretrained

    if name == "pretrained":
        return load_pretrained()
    if name.startswith("pretrained:"):
        seed = name.removeprefix("pretrained:")
        if not seed.isdigit():
            raise InputError(f"expected pretrained:SEED with a number, got {name!r}")
        return load_pretrained(int(seed))
    return load_model(name)


def print_report(
    report: "Report", *, per_motion: bool, compare: bool, removed: Sequence[str] = ()
) -> None:
    """Tables of a report on standard output."""
    from ..evaluation.tables import motion_table, split_table

    console = wide_console()
    for split in report:
        console.print(split_table(report, split, compare=compare, removed=removed))
        if per_motion:
            console.print(motion_table(report, split, compare=compare, removed=removed))
