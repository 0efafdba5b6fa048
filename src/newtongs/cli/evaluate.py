"""``newtongs evaluate``: the paper's tables."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..base.errors import InputError
from .apps import app
from .console import check_target, print_table, progress_bar, reported_once, write_json
from .data import SplitName

if TYPE_CHECKING:
    import torch

    from ..base.ranks import Ranks
    from ..dynamics import GaussianNND
    from ..forecast import ContextNND
    from ..paper.evaluation import Report
    from ..paper.evaluation.evaluate import Method

# As in newtongs.paper.evaluation, which takes seconds to import.
METHODS = (
    "hold_z0", "const_vel_se3", "damped_vel_se3", "gravity_bounce_se3", "physics_prior_se3",
    "oracle",
)  # fmt: skip
SEEN_METHODS = ("context", "bayes_bound")  # likewise; they may see more than Z_0


@app.command(name="evaluate")
@dataclass(frozen=True)
class Evaluate:
    """Evaluate methods on State-32 (Table 1) or Same-32 (Table 2), or clips of any kind (Table 3).

    The lowest value of each ranked metric is bold and starred, as in the paper. Plane violation
    and the columns after it are diagnostics and are not ranked.

    Under torchrun, several processes or GPUs share the sequences of State-32:
    torchrun --nproc-per-node 4 -m newtongs evaluate --data data/state32 --device cuda
    """

    resumes: ClassVar[bool] = False
    data: Path | None = None
    """State-32 folder, as made by `newtongs data state32`."""
    same32: Path | None = None
    """Same-32 folder, as made by `newtongs data same32`: prints the paper's Table 2. NewtonGS is
    the mean over the shipped models, with their standard deviation, or --checkpoint."""
    l4gm: Path | None = None
    """Folder of the Gaussians that L4GM made from the clips of `newtongs l4gm export`: adds its row
    to Table 2. See docs/l4gm.md."""
    videos: Path | None = None
    """Folder of clips: files side by side, <Motion>/<Method>.mp4, or with the manifest of `newtongs
    data common12`. Prints the paper's Table 3; with --json a second run reuses finished scores."""
    splits: tuple[SplitName, ...] = ("val_id", "val_ood")
    """Which splits to evaluate."""
    methods: tuple[str, ...] = METHODS
    """Which methods. `oracle` is the ground truth itself, a check of the diagnostics. `context` is
    our ContextNND, which may see more than Z_0 (--seen); `bayes_bound` is the smallest expected
    error of any predictor that sees as much (slow: use a data set of a few hundred sequences)."""
    seen: tuple[int, ...] = (1,)
    """How many states `context` and `bayes_bound` see, 1 to 16; one row for each number given. 1 is
    Z_0 alone, as for the other methods. A second row counts only the unseen frames."""
    noise: float = 0.0
    """Noise on the states that `context` sees, in standard deviations of each channel of Z_0: 0.01
    is one per cent."""
    context: str = "pretrained"
    """Weights of `context`: pretrained, or a .safetensors file made by `newtongs train-context`."""
    json: Path | None = None
    """Also write every figure, in total and per motion, to this file."""
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
    """Remove parts of the trained model without retraining it, separated by commas. continuous,
    contact: set that residual network to zero (the paper's branch table). event: no floor. euler:
    Euler instead of RK4. max_dt=1/15: the longest substep in seconds."""

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
        """Table 1 or 2, in one process or several."""
        from ..base.ranks import ranks

        with reported_once(), ranks(self.device) as group:
            if self.same32 is None:
                assert self.data is not None
                self.state32(self.data, group)
                return
            with group.agreed():
                if group.first:  # 32 sequences are not worth sharing
                    self.table2(self.same32, group.device)

    def table3(self, folder: Path) -> None:
        """Table 3, or one row per clip; always compared with the paper's figures."""
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
                raise InputError(f"--{name.replace('_', '-')} cannot be combined with --videos")
        evaluate_videos(folder, json=self.json, per_clip=self.per_motion)

    def table2(self, folder: Path, device: "torch.device") -> None:
        """Table 2; without ``--checkpoint`` NewtonGS is the mean over the shipped models."""
        from ..paper.evaluation.same32 import (
            BASELINES,
            mean_report,
            run_same32,
            same32_table,
            table2,
        )

        for name in ("splits", "per_motion", "compare", "batch_size", "seen", "noise", "context"):
            if getattr(self, name) != getattr(Evaluate, name):
                raise InputError(f"--{name.replace('_', '-')} requires --data")
        start = time.perf_counter()
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
        print_table(same32_table(runs).terminal(lines=True))
        rows = {name: mean_report(reports) for name, reports in runs.items()}
        self.write({"same32": rows, "table2": table2(runs)}, time.perf_counter() - start)

    def model(self) -> "GaussianNND | None":
        """The model of ``--checkpoint`` without the parts of ``--ablate``."""
        from ..dynamics.weights import ablated

        if self.checkpoint is None:
            if self.ablate:
                raise InputError(f"--ablate {self.ablate} needs a trained model; name --checkpoint")
            return None
        return ablated(find_model(self.checkpoint), *self.removed())

    def removed(self) -> tuple[str, ...]:
        """Names of the parts to remove."""
        return tuple(name.strip() for name in self.ablate.split(",") if name.strip())

    def state32(self, data: Path, group: "Ranks") -> None:
        """Table 1, one table per split; the first rank prints."""
        from ..paper.evaluation import evaluate

        start = time.perf_counter()
        with group.agreed():
            # The Bayes bound depends on the split; everything else is measured in one call.
            by_split = "bayes_bound" in self.methods
            parts = [[x] for x in self.splits] if by_split else [[*self.splits]]
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
                self.write(report, time.perf_counter() - start)

    def show(self, report: "Report") -> None:
        """Tables on standard output."""
        print_report(
            report, per_motion=self.per_motion, compare=self.compare, removed=self.removed()
        )

    def predictors(self, device: "torch.device", split: str = "val_id") -> "dict[str, Method]":
        """The requested methods, and the model if there is one."""
        from ..dynamics.backends import predictor
        from ..paper.evaluation.evaluate import methods_by_name

        if self.l4gm is not None:
            raise InputError("--l4gm requires --same32")
        plain = [name for name in self.methods if name not in SEEN_METHODS]
        methods = methods_by_name(plain) if plain or not self.methods else {}
        methods |= self.seen_methods(device, split)
        if (model := self.model()) is not None:
            methods["newtongs"] = predictor(model.to(device))
        return methods

    def seen_methods(self, device: "torch.device", split: str) -> "dict[str, Method]":
        """The requested methods that see more than Z_0."""
        wanted = [name for name in self.methods if name in SEEN_METHODS]
        for name in ("seen", "noise", "context"):
            if not wanted and getattr(self, name) != getattr(Evaluate, name):
                raise InputError(f"--{name} requires --methods context")
        if not wanted:
            return {}
        from ..paper.evaluation.seen_predictors import bayes_bound_methods, context_methods

        found: dict[str, Method] = {}
        if "context" in wanted:
            model = find_context(self.context).to(device)
            found |= context_methods(model, self.seen, noise=self.noise)
        if "bayes_bound" in wanted:
            found |= bayes_bound_methods(split, self.seen)
        return found

    def write(self, report: Mapping[str, Any], seconds: float) -> None:
        """Write every figure, and where it comes from, to the ``--json`` file, if any."""
        from ..base.provenance import made

        if self.json is not None:
            write_json(self.json, {"made": made(self.device, seconds), **report})
            print(f"figures written to {self.json}")


def find_context(name: str) -> "ContextNND":
    """ContextNND from a file, or the shipped one."""
    from ..forecast import load_context, load_pretrained_context

    return load_pretrained_context() if name == "pretrained" else load_context(name)


def find_model(name: str) -> "GaussianNND":
    """A model from a file, or a shipped one: `pretrained` or `pretrained:SEED`."""
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
    """Print the tables of a report."""
    from ..paper.evaluation.tables import motion_table, split_table

    for split in report:
        print_table(split_table(report, split, compare=compare, removed=removed).terminal())
        if per_motion:
            print_table(motion_table(report, split, compare=compare, removed=removed).terminal())


def evaluate_videos(folder: Path, *, json: Path | None, per_clip: bool) -> None:
    """Score a folder of clips and print the tables; an unreadable clip does not stop the others.

    With ``json`` the scores of every clip are written as soon as they are known, and a second run
    reuses those of unchanged files.
    """
    from ..base.provenance import made
    from ..paper.evaluation.common12 import evaluate_folder, kept_clips

    start = time.perf_counter()

    def save(report: dict[str, Any]) -> None:
        if json is not None:
            about = made(seconds=time.perf_counter() - start)
            write_json(json, {"made": about, "videos": report})

    with progress_bar("clips") as advance:
        kept = {} if json is None else kept_clips(json)
        report = evaluate_folder(folder, kept=kept, save=save, progress=advance)
    save(report)
    print_videos(report, per_clip=per_clip)
    if json is not None:
        print(f"figures written to {json}")
    raise_problems(report["problems"])


def print_videos(report: dict[str, Any], *, per_clip: bool) -> None:
    """One row per method, or per clip in a flat folder."""
    from ..paper.evaluation.common12 import clips_table, rows_table

    flat = "mean" in report["rows"] or not any(r["method"] for r in report["clips"].values())
    if (per_clip or flat) and report["clips"]:
        print_table(clips_table(report).terminal())
    if report["rows"] and not flat:
        print_table(rows_table(report).terminal(lines=True))


def raise_problems(problems: list[str]) -> None:
    """Raise one error for all problems; it quotes the first."""
    if problems:
        more = f" (and {len(problems) - 1} more like it)" if len(problems) > 1 else ""
        raise InputError(f"{problems[0]}{more}; the other clips are scored")
