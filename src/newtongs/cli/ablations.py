"""``newtongs ablations``: train the ablations that the paper lists."""

import gc
import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from .. import __version__
from ..base.errors import InputError, unknown_name
from ..base.files import existing_file
from ..paper.training.config import LAPTOP, TrainConfig
from .apps import app
from .console import check_folder, print_table, progress_bar, write_json

if TYPE_CHECKING:
    from ..paper.evaluation.ablations import Ablation
    from ..paper.training.loop import Position

BATCH = {"cpu": 4096, "cuda": 65_534}  # sequences evaluated at once


@dataclass(frozen=True)
class Size:
    """Size of a run."""

    per_motion: int | None = None
    """Sequences of each motion in each split; None for the paper's."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Fields of ``TrainConfig`` that differ from the paper's."""


SIZES = {"paper": Size(), "laptop": Size(128, LAPTOP)}


@app.command(name="ablations")
@dataclass(frozen=True)
class Ablations:
    """Train the model's ablations one after another, evaluate each, and print their table.

    Each is the paper's run (seed 7301) trained again with one change. Writes OUT/NAME.json after
    each. At full size each takes minutes on a large GPU; if the command is stopped, the same
    command resumes. The most informative ablations come first. The table adds the records that
    come with the package where OUT has none.

    newtongs ablations --device cuda
    newtongs ablations --size laptop --only no_prior euler
    """

    resumes: ClassVar[bool] = True
    data: Path | None = None
    """State-32 folder; missing splits are made. Default: data/state32, or data/laptop for the
    laptop size."""
    runs: Path = Path("runs/ablations")
    """Folder of the runs, one folder per ablation: checkpoints, metrics.jsonl, result.json."""
    out: Path = Path("runs/ablations/results")
    """Folder for the results, NAME.json each; those of the laptop size go to OUT/laptop."""
    only: tuple[str, ...] = ()
    """Which ablations, by name, in this order. Default: all; `--list` names them."""
    size: Literal["paper", "laptop"] = "paper"
    """paper: 100 epochs on 1,048,576 sequences. laptop: 6 epochs on 4,096 with a higher learning
    rate, a minute or two each on two CPU cores; trains the full model at that size too, and the
    table marks these rows."""
    full: Path | None = None
    """Metrics of the full model at the paper's size, for the table. Default: the record that comes
    with the package."""
    device: str = "cpu"
    """Where to train and evaluate: cpu or cuda."""
    list: bool = False
    """Name the ablations and stop."""
    show: bool = False
    """Print the table of the existing results and stop."""

    @property
    def locks_out(self) -> bool:
        """Whether the command writes anything."""
        return not (self.list or self.show)

    def run(self) -> None:
        """Train what is missing, then print the table."""
        from ..paper.evaluation.ablations import SPLITS, ablation_table, table
        from ..paper.evaluation.tables import RECORDS

        chosen = self.chosen()
        if self.list:
            print("\n".join(f"{a.name:24}{a.label}" for a in chosen))
            return
        if not self.show:
            self.train_all(chosen)
        rows = table(self.out, self.full, shipped=RECORDS)
        for split in SPLITS:
            print_table(ablation_table(rows, split).terminal(lines=True))

    def chosen(self) -> "Sequence[Ablation]":
        """The requested ablations; at the laptop size also the full model, for comparison."""
        from ..paper.evaluation.ablations import ABLATIONS, FULL

        known = {FULL.name: FULL, **ABLATIONS}
        unknown = next((name for name in self.only if name not in known), None)
        if unknown is not None:
            raise unknown_name("ablation", unknown, known)
        names = dict.fromkeys(self.only or ABLATIONS)
        if self.size == "laptop":
            names = dict.fromkeys((FULL.name, *names))
        return [known[name] for name in names]

    def train_all(self, chosen: "Sequence[Ablation]") -> None:
        """Train them in turn; a finished one is not run again."""
        from ..base.state import checked_device

        checked_device(self.device)
        if self.full is not None:
            existing_file(self.full, "the full model's metrics, as `newtongs evaluate` writes them")
        out, runs = (
            folder if self.size == "paper" else folder / self.size
            for folder in (self.out, self.runs)
        )
        for folder in (out, runs):
            check_folder(folder)
        todo = [a for a in chosen if not (runs / a.name / "result.json").is_file()]
        data = self.make_data() if todo else None
        for ablation in chosen:
            path = runs / ablation.name / "result.json"
            if ablation in todo:
                assert data is not None
                write_json(path, self.train_one(ablation, data, path.parent))
            write_json(out / f"{ablation.name}.json", json.loads(path.read_text()))

    def make_data(self) -> Path:
        """The data folder; missing splits are made.

        Always on the CPU: a differently rounded sine would move single frames of stop-and-go
        motion, and the shipped model's figures come from data made on a CPU.
        """
        from ..base.process import one_thread
        from ..paper.datasets import state32

        default = Path("data/state32" if self.size == "paper" else "data/laptop")
        folder = self.data or default
        with one_thread(), progress_bar() as advance:
            state32.build(folder, per_motion=SIZES[self.size].per_motion, progress=advance)
        return folder

    def train_one(self, ablation: "Ablation", data: Path, run: Path) -> dict[str, Any]:
        """Train, or resume training, evaluate, and return the record."""
        import torch

        from ..base.provenance import made
        from ..base.runs import DivergedError, RunFolder, identity
        from ..paper.datasets import state32
        from ..paper.training import train

        config = settings(ablation, self.size, data, run, self.device)
        failed, best = None, RunFolder(run).best
        try:
            train(config, progress=log(ablation.name))
        except DivergedError as error:  # evaluate the best weights before it
            failed = str(error)
        metrics = scores(best, data, self.device) if best.is_file() else {}
        release()
        past = history(run)
        return {
            "made": made(self.device, past["seconds"]),
            "name": ablation.name, "label": ablation.label, "size": self.size,
            "changes": {"model": dict(ablation.model), "loss": dict(ablation.loss)},
            "failed": failed, **metrics, **past, "epochs": config.epochs,
            "sequences": len(state32.load(data, "train")),
            "training": identity(config), "device": device_name(self.device),
            "torch": torch.__version__, "newtongs": __version__,
        }  # fmt: skip


def settings(ablation: "Ablation", size: str, data: Path, run: Path, device: str) -> TrainConfig:
    """The paper's run at the given size, with the ablation's change."""
    plain = TrainConfig(data=data, out=run, device=device, **SIZES[size].settings)
    return replace(
        plain,
        model=replace(plain.model, **ablation.model),
        loss=replace(plain.loss, **ablation.loss),
    )


def log(name: str) -> Callable[["Position", dict[str, float], TrainConfig], None]:
    """A line at the first epoch, every tenth, and the last."""
    started = time.perf_counter()

    def progress(at: "Position", terms: dict[str, float], config: TrainConfig) -> None:
        told = at.epoch in (1, config.epochs) or at.epoch % 10 == 0
        if told and at.update == config.updates_per_epoch:
            seconds = time.perf_counter() - started
            done = f"epoch {at.epoch:>3}/{config.epochs}"
            print(f"{name:24}{done}  loss {terms['total']:8.4f}  {seconds:6.1f} s", flush=True)

    return progress


def scores(best: Path, data: Path, device: str) -> dict[str, Any]:
    """Metrics of both splits, the learned scalars, and the epoch of the best weights."""
    from ..base.checkpoints import load_tensors
    from ..dynamics.weights import load_model
    from ..paper.evaluation.ablations import SPLITS

    model = load_model(best).to(device)
    _, info = load_tensors(best)
    out: dict[str, Any] = {
        "objective": info["metrics"]["val_total"],
        "best_epoch": info["metrics"]["epoch"],
        "scalars": dict(zip(SCALARS, model.scalars.tolist(), strict=True)),
    }
    for split in SPLITS:
        try:
            out[split] = one_split(model, data, split, device)
        except InputError as error:  # a rollout that is not finite
            out |= {split: None, "failed": str(error)}
    return out


SCALARS = ("c_v", "c_w", "k_s", "c_s", "alpha", "alpha_imp")


def one_split(model: Any, data: Path, split: str, device: str) -> dict[str, Any]:
    """The model's metrics on a split, per motion too."""
    import torch

    from ..dynamics.backends import predictor
    from ..paper.evaluation import evaluate

    with progress_bar() as advance:
        report = evaluate(
            data,
            splits=(split,),
            methods={"newtongs": predictor(model)},
            batch_size=BATCH[torch.device(device).type],
            device=device,
            progress=advance,
        )
    return dict(report[split]["newtongs"])


def history(run: Path) -> dict[str, Any]:
    """Training time, and the objective at every checkpoint epoch."""
    path = run / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    known = {str(row["epoch"]): row["val_total"] for row in rows if "val_total" in row}
    return {"seconds": sum(row["seconds"] for row in rows), "objectives": known}


def device_name(device: str) -> str:
    """The machine in a few words."""
    import torch

    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{torch.get_num_threads()} threads of {platform.machine()}"


def release() -> None:
    """Free what a run held: captured CUDA graphs, and code compiled for its loss."""
    import torch

    gc.collect()
    torch.compiler.reset()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
