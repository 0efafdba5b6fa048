"""Many machines with Ray: one task per scene and per shard. Needs ``newtongs[cluster]``.

Prepared scenes are in Ray's object store, from which each node fetches them once. A task that dies
with its node is restarted elsewhere and gives the same bytes. All nodes need newtongs installed and
must see the output folder under the same path.
"""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from ..base.errors import InputError, argument
from ..base.extras import optional
from ..base.files import first_line
from ..base.types import Progress
from . import shared
from .pool import KEPT, POLL_SECONDS, prepared_or_why
from .renderers import gpu_share, try_out
from .scenes import SceneSource
from .shards import Shard, make_shard
from .spec import Spec

RETRIES = 5  # of a task whose node dies
TIMEOUT = 5.0  # seconds to wait for a cluster to answer
LOOPBACK = ("127.0.0.1:", "localhost:")


def ray_module(address: str = "") -> Any:
    """Ray, or what to install.

    Ray replaces 127.0.0.1 by this machine's address in the network, where a cluster that was
    started on the loopback address does not listen. This variable, which Ray reads when it is
    imported, makes it keep the address.
    """
    if address.startswith(LOOPBACK):
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    return optional("ray", "a cluster needs ray", "cluster")


def check_address(address: str) -> None:
    """Check at once whether anyone listens; Ray itself would try for a minute."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise InputError(
            f"{argument('ray')}: expected HOST:PORT of a Ray cluster's head, got {address!r}"
        )
    try:
        socket.create_connection((host, int(port)), TIMEOUT).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"{argument('ray')}: no cluster answers at {address}: {reason}; start one with: ray "
            "start --head"
        ) from error


@contextmanager
def no_warnings() -> Iterator[None]:
    """Discard standard error, including what compiled code writes there.

    While Ray tries to reach something that is not a cluster it writes a line every second there,
    whatever its settings say. What matters is raised as an exception.
    """
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


class FilmCounter:
    """Counts the films of all nodes; a Ray actor."""

    def __init__(self) -> None:
        self.done = 0

    def add(self) -> None:
        """Count one more film."""
        self.done += 1

    def count(self) -> int:
        """The number so far; a shard that is made twice counts twice."""
        return self.done


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _try_out(spec: Spec) -> None:
    """Task: check that the node can draw."""
    try_out(spec.renderer)


def _prepare(spec: Spec, source: SceneSource) -> tuple[Any, str | None]:
    """Task: prepare a scene for the object store, or say why it cannot be used."""
    _one_thread()
    made = prepared_or_why(spec, source)
    return shared.pack(made), made if isinstance(made, str) else None


@lru_cache(KEPT)
def _loaded(reference: Any) -> Any:
    """Load from the object store. Its memory is read-only, hence the copy."""
    packed = ray_module().get(reference)
    return shared.unpack(packed.text, [array.copy() for array in packed.arrays])


def _shard(
    spec: Spec, scenes: Sequence[SceneSource], shard: Shard, out: Path, stored: dict[str, Any],
    films: Any,
) -> dict[str, Any]:  # fmt: skip
    """Task: make one shard."""
    _one_thread()
    return make_shard(
        spec, scenes, shard, out, lambda scene: _loaded(stored[scene]), lambda: films.add.remote()
    )


class Cluster:
    """A running Ray cluster."""

    def __init__(self, spec: Spec, address: str) -> None:
        check_address(address)
        self.spec, self.ray = spec, ray_module(address)
        try:
            with no_warnings():
                self.ray.init(
                    address, log_to_driver=False, logging_level="ERROR", configure_logging=True
                )
        except Exception as error:  # Ray raises a dozen types
            raise InputError(
                f"{argument('ray')}: the cluster at {address} cannot be joined: "
                f"{first_line(error)}; "
                "expected the head of a Ray cluster there"
            ) from error
        self.stored: dict[str, Any] = {}
        self.task = partial(self.ray.remote, num_cpus=1, max_retries=RETRIES)
        self.drawing = partial(self.task, num_gpus=gpu_share(spec.renderer))

    def require_gpus(self, address: str) -> None:
        """Refuse a cluster on which no node can run the tasks, which would wait for ever."""
        if not any(node["Alive"] and self._fits(node["Resources"]) for node in self.ray.nodes()):
            raise InputError(
                f'{argument("ray")}: renderer = "{self.spec.renderer}" needs a node with a GPU, '
                f"the cluster at {address} has none; add one with: ray start --address={address} "
                '--num-gpus=1, or use renderer = "ewa"'
            )

    def _fits(self, node: dict[str, float]) -> bool:
        """Whether a single node has all that a drawing task needs."""
        share = gpu_share(self.spec.renderer)
        return node.get("GPU", 0) >= share and (not share or node.get("CPU", 0) >= 1)

    def try_out(self) -> None:
        """Let one node draw before all of them do."""
        self._result(self.drawing()(_try_out).remote(self.spec))

    def prepare(self, scenes: Sequence[SceneSource], progress: Progress) -> dict[str, str]:
        """Prepare scenes; returns a line for each that cannot be used."""
        task = self.task(num_returns=2)(_prepare)
        lines = {}
        for scene in scenes:
            self.stored[scene.id], line = task.remote(self.spec, scene)
            lines[line] = scene.id
        refused: dict[str, str] = {}
        for done, (reference, line) in enumerate(self._finished(list(lines)), start=1):
            if line is not None:
                refused[lines[reference]] = line
            progress("scenes", done, len(scenes))
        return refused

    def shards(
        self, scenes: Sequence[SceneSource], shards: Sequence[Shard], out: Path, progress: Progress
    ) -> Iterator[dict[str, Any]]:
        """Make shards; yields their logs as they are finished."""
        films = self.ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(
            FilmCounter
        ).remote()
        task, total = self.drawing()(_shard), sum(s.films for s in shards)
        jobs = [
            task.remote(self.spec, list(scenes), s, out.absolute(), self.stored, films)
            for s in shards
        ]
        for _, log in self._finished(jobs, lambda: self._report(films, progress, total)):
            yield log
        progress("films", total, total)

    def _report(self, films: Any, progress: Progress, total: int) -> None:
        try:
            progress("films", min(self.ray.get(films.count.remote(), timeout=1), total), total)
        except Exception:  # the counter's node may just have died; the progress bar can wait
            return

    def _finished(self, jobs: Sequence[Any], report: Any = None) -> Iterator[tuple[Any, Any]]:
        """Reference and result of each task, as they are finished."""
        waiting = list(jobs)
        while waiting:
            done, waiting = self.ray.wait(waiting, timeout=POLL_SECONDS if report else None)
            for reference in done:
                yield reference, self._result(reference)
            if report is not None:
                report()

    def _result(self, reference: Any) -> Any:
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, InputError) else None
            if cause is None:
                raise
            raise InputError(*cause.args) from error
        except self.ray.exceptions.RayError as error:
            raise InputError(
                f"{argument('ray')}: a task was lost {RETRIES} times: {first_line(error)}; "
                "run the same command again"
            ) from error

    def close(self) -> None:
        """Disconnect from the cluster."""
        self.ray.shutdown()


@contextmanager
def cluster(spec: Spec, address: str) -> Iterator[Cluster]:
    """Connect to a cluster; disconnect afterwards."""
    made = Cluster(spec, address)
    try:
        made.require_gpus(address)
        yield made
    finally:
        made.close()
