"""What sections work with: sizes, folders, and measurements that are made once and saved."""

import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import torch

from ... import __version__
from ...base.errors import InputError
from ...base.files import write_atomically
from ...base.process import one_thread
from ...base.provenance import made
from ...base.types import Progress
from ...dynamics import BASELINES, GaussianNND
from ...dynamics.backends import predictor
from ...dynamics.baselines import Predictor
from ...dynamics.weights import load_model, load_pretrained, remove_branches
from ..datasets import state32
from ..evaluation.tables import RECORDS
from .measure import measure

SEEDS = (7301, 7302, 7303)
SEED = 7301
SPLITS = ("val_id", "val_ood")
QUICK_PER_MOTION = 256
REMOVED = {
    "no_continuous_residual": ("continuous",),
    "no_contact_residual": ("contact",),
    "no_residual_branches": ("continuous", "contact"),
}
CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"

Measured = Mapping[str, Any]


@dataclass(frozen=True)
class ReportRun:
    """Settings of one run of the report."""

    out: Path
    quick: bool = False
    data: Path | None = None
    results: Path | None = None
    l4gm: Path | None = None
    videos: Path | None = None
    first_frame: Path | None = None
    device: str = "cpu"
    small: bool = False
    """Whether the page embeds its pictures as lossless WebP."""
    per_motion: int | None = None
    """Sequences of each motion; None for the paper's 4,096, or the quick size."""
    progress: Progress = lambda name, done, total: None

    @property
    def size(self) -> int:
        """Sequences of each motion in each split."""
        return self.per_motion or (QUICK_PER_MOTION if self.quick else self.paper_size)

    @property
    def paper_size(self) -> int:
        """The paper's number of sequences of each motion."""
        return state32.SPLITS["val_id"].per_motion

    @property
    def note(self) -> str:
        """Note for every caption of a quick run."""
        if self.size == self.paper_size:
            return ""
        return f"Quick run: {self.size:,} sequences of each motion instead of {self.paper_size:,}."

    @property
    def data_folder(self) -> Path:
        """Folder of the State-32 splits; missing ones are made there."""
        full = self.size == self.paper_size
        return self.data or self.out / ("data" if full else f"data_{self.size}")

    @property
    def results_folder(self) -> Path:
        """Records of training runs: the folder named, or those that come with the package."""
        return self.results or RECORDS

    @property
    def figures(self) -> Path:
        """Folder of the pictures."""
        return self.out / "figures"

    @cached_property
    def splits(self) -> dict[str, state32.State32]:
        """The two validation splits, made if missing."""
        with one_thread():
            state32.build(
                self.data_folder, splits=SPLITS, per_motion=self.size, progress=self.progress
            )
        return {name: state32.load(self.data_folder, name) for name in SPLITS}

    def measured(self, method: str, split: str) -> Measured:
        """Scores of a method on a split, from this run's record or measured now."""
        if (method, split) not in self._known:
            found = self.record(method, split)
            self._known[method, split] = self._measure(method, split) if found is None else found
        return self._known[method, split]

    @cached_property
    def spent(self) -> list[float]:
        """Seconds of each measurement that this run made, which sections do not count as theirs."""
        return []

    @cached_property
    def _known(self) -> dict[tuple[str, str], Measured]:
        """Measurements that were read or made already."""
        return {}

    def _measure(self, method: str, split: str) -> Measured:
        done = partial(self.progress, f"{method} {split}")
        data = self.splits[split]
        start = time.perf_counter()
        scores = measure(data, self.predictor(method), device=self.device, advance=done)
        self.spent.append(time.perf_counter() - start)
        about = made(self.device, self.spent[-1])
        key = self._made_with(method, split)
        write_json(self.measured_path(method, split), {"made": about, "made_with": key, **scores})
        return scores

    def measured_path(self, method: str, split: str) -> Path:
        """The file of a measurement."""
        return self.out / "json" / "measured" / f"{method}_{split}.json"

    def record(self, method: str, split: str) -> Measured | None:
        """An earlier measurement of the same weights at the same size."""
        found = read_json(self.measured_path(method, split))
        if found is None or found.get("made_with") != self._made_with(method, split):
            return None
        return found

    def _made_with(self, method: str, split: str) -> dict[str, Any]:
        weights = weights_file(method)
        return {
            "version": __version__,
            "per_motion": self.size,
            "weights": fingerprint(weights) if weights else None,
            "data": self._data_mark(split),
            "device": torch.device(self.device).type,
        }

    def _data_mark(self, split: str) -> str:
        """What tells the content of a split.

        The report's own folder can be removed after the measurements: its content follows from the
        program, and so has the same mark whether it is there or not.
        """
        path = self.data_folder / f"{split}.pt"
        if self.data is None:
            return "made by the report"
        return _content_mark(path, path.stat().st_mtime_ns) if path.is_file() else "not made yet"

    def predictor(self, method: str) -> Predictor:
        """A method by the name of its measurements."""
        if method in BASELINES:
            return BASELINES[method]
        return predictor(model(method).to(torch.device(self.device)))

    def error(self, ours: Measured, metric: str) -> float:
        """Standard error of our figure minus the paper's, from both random draws."""
        return self.enlarged(ours["error"][metric])

    def enlarged(self, error: float) -> float:
        """The standard error of our draw, with the paper's draw added."""
        return error * (1 + self.size / self.paper_size) ** 0.5


@cache
def _content_mark(path: Path, _modified: int) -> str:
    return state32.fingerprint(state32.load(path))


def shown(path: Path) -> Path:
    """A path for the page: relative to the current folder if it is inside."""
    try:
        return path.resolve().relative_to(Path.cwd())
    except ValueError:
        return path


def seed_method(seed: int) -> str:
    """Name of a shipped model as a method."""
    return f"newtongs_{seed}"


def zero_all_weights() -> Path | None:
    """Weights of the run with zero-all initialisation, if they are shipped."""
    return next(iter(sorted(CHECKPOINTS.glob("*zero_all*.safetensors"))), None)


def weights_file(method: str) -> Path | None:
    """The weights a method needs; None for a baseline."""
    if method in BASELINES:
        return None
    if method == "zero_all":
        return zero_all_weights()
    seed = method.removeprefix("newtongs_") if method.startswith("newtongs_") else SEED
    return CHECKPOINTS / f"state32_seed{seed}.safetensors"


def model(method: str) -> GaussianNND:
    """A trained model, complete or without branches."""
    if method in REMOVED:
        return remove_branches(load_pretrained(SEED), *REMOVED[method])
    path = weights_file(method)
    if path is None:
        raise InputError(f"no weights of {method}; put them into {CHECKPOINTS}")
    return load_model(path)


def fingerprint(path: Path) -> str:
    """Hash of a file's content, or of a folder's file names and sizes."""
    if not path.exists():
        return "missing"
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    files = sorted(p for p in path.rglob("*") if p.is_file())
    return fingerprint_of(f"{p.relative_to(path)} {p.stat().st_size}" for p in files)


def fingerprint_of(lines: Iterable[str]) -> str:
    """Hash of a list of lines."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def write_json(path: Path, content: Any) -> None:
    """Write an indented JSON file."""
    text = json.dumps(content, indent=1, allow_nan=False)
    write_atomically(path, lambda f: f.write(text.encode()))


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON file written earlier; None if it is missing or damaged."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
