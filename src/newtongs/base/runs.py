"""A training run on disk: checkpoints, metrics.jsonl, and resuming as if it had never stopped.

Both trainings use it: ``newtongs.paper.training`` and ``newtongs.forecast.training``.
"""

import json
import math
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Protocol

from torch import Tensor, nn
from torch.optim import Optimizer

from .checkpoints import load_tensors, save_tensors
from .errors import InputError, argument
from .files import write_atomically
from .locks import alone
from .ranks import Ranks

OPTIMIZER = "optimizer."  # before the name of what is not a weight


class DivergedError(InputError):
    """The loss or its gradient is not finite."""


class RunConfig(Protocol):
    """Settings of a run, a frozen dataclass."""

    FREE: ClassVar[tuple[str, ...]]
    """Names of settings that change neither the data nor the arithmetic."""
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def model(self) -> Any:
        """Sizes of the model, a dataclass."""


def identity(config: RunConfig) -> dict[str, Any]:
    """The settings that two parts of one run must share, as plain JSON values."""
    return {k: v for k, v in asdict(config).items() if k not in config.FREE}


class RunFolder:
    """Files of one run. Only the rank that ``writes`` changes anything on disk."""

    def __init__(self, path: Path, *, writes: bool = True) -> None:
        self.path, self.writes = path, writes
        self.last = path / "last.safetensors"
        self.best = path / "best.safetensors"
        self.metrics = path / "metrics.jsonl"

    def epoch(self, epoch: int) -> Path:
        """Weights kept at a checkpoint epoch."""
        return self.path / f"epoch_{epoch:03d}.safetensors"

    def save(self, path: Path, tensors: Mapping[str, Tensor], info: Mapping[str, Any]) -> None:
        """Replace a file of tensors and their description as a whole."""
        if self.writes:
            save_tensors(path, tensors, info)

    def resume(
        self, config: RunConfig, restore: Callable[[dict[str, Tensor], dict[str, Any]], None]
    ) -> None:
        """Hand the checkpoint of an unfinished run to ``restore``, if there is one.

        What ``restore`` raises over a damaged file becomes one line.
        """
        if not self.last.exists():
            return
        tensors, info = load_tensors(self.last)
        try:
            self._check_same_run(info["training"], config)
            restore(tensors, info)
        except InputError:
            raise
        except (
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
            RuntimeError,
            ArithmeticError,
        ) as e:
            raise InputError(
                f"{self.last} is damaged: its run cannot be resumed; choose another "
                f"{argument('out')}, or remove it"
            ) from e

    def _check_same_run(self, there: Mapping[str, Any], config: RunConfig) -> None:
        here = json.loads(json.dumps(identity(config)))
        # A run from before a setting of the model existed had its default.
        there = {**there, "model": {**asdict(type(config.model)()), **there.get("model", {})}}
        different = next((k for k in here if there.get(k) != here[k]), None)
        if different is not None:
            raise InputError(
                f"{self.path} holds a run with {different} = {there.get(different)}, this one has "
                f"{here[different]}; choose another {argument('out')}, or the same settings to "
                "resume it"
            )

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Add one line to metrics.jsonl."""
        if not self.writes:
            return
        try:
            with self.metrics.open("a") as f:
                f.write(json.dumps(row) + "\n")
        except OSError as error:
            raise InputError(f"cannot write {self.metrics}: {error.strerror}") from error

    def cut_metrics(self, counter: str, done: int) -> None:
        """Drop lines written after the checkpoint that a resumed run starts from.

        ``counter`` names what a line counts (epoch, update), ``done`` is the last to keep.
        """
        if not self.writes or not self.metrics.exists():
            return
        lines = self.metrics.read_text(errors="replace").splitlines()
        kept = [line for line in lines if _count_of(line, counter) <= done]
        text = "".join(line + "\n" for line in kept)
        write_atomically(self.metrics, lambda f: f.write(text.encode()))


def _count_of(line: str, counter: str) -> float:
    """What a line of metrics counts; infinite for one that a crash cut short."""
    try:
        return int(json.loads(line)[counter])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return math.inf


def optimizer_tensors(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimiser's state by the parameter's name."""
    return {
        f"{OPTIMIZER}{name}.{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state[parameter].items()
    }


def restore_optimizer(
    model: nn.Module, optimizer: Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Put the optimiser's state back, the moments beside their parameter."""
    fused = optimizer.defaults.get("fused")  # else the step counter stays on the CPU
    for name, parameter in model.named_parameters():
        prefix = f"{OPTIMIZER}{name}."
        state = {k.removeprefix(prefix): x for k, x in tensors.items() if k.startswith(prefix)}
        if state:
            optimizer.state[parameter] = {
                k: x.to(parameter.device) if fused or k != "step" else x for k, x in state.items()
            }


def require_finite(terms: Mapping[str, float], where: str, folder: RunFolder) -> None:
    """Stop a run whose loss, or whose gradient where it is watched, is not finite."""
    found = {"loss": terms["total"]} | {k: x for k, x in terms.items() if k == "gradient"}
    if not all(math.isfinite(x) for x in found.values()):
        said = " and ".join(f"{name} {x}" for name, x in found.items())
        raise DivergedError(
            f"{said} at {where}: not finite; {folder.last} is the last checkpoint before it"
        )


@contextmanager
def running(out: Path, group: Ranks) -> Iterator[tuple[RunFolder, Callable[[], bool]]]:
    """The folder of a run, locked, and whether a signal has asked the run to stop.

    Rank 0 locks and writes; where it cannot, every rank stops.
    """
    with ExitStack() as entered:
        with group.agreed():
            if group.first:
                entered.enter_context(alone(out))
        yield RunFolder(out, writes=group.first), entered.enter_context(stop_flag())


@contextmanager
def stop_flag() -> Iterator[Callable[[], bool]]:
    """Turn the first SIGINT or SIGTERM into a flag; the second takes effect at once."""
    caught: list[int] = []

    def handle(number: int, _frame: object) -> None:
        caught.append(number)
        signal.signal(number, previous[signal.Signals(number)])

    try:
        previous = {n: signal.signal(n, handle) for n in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # only the main thread may set handlers
        yield lambda: False
        return
    try:
        yield lambda: bool(caught)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
