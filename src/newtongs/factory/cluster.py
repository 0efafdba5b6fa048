"""Many machines by Ray: a task a scene, a task a shard; needs the extra ``newtongs[cluster]``.

Prepared scenes lie in Ray's object store, from where each node takes them once. A task that dies
with its node is started again elsewhere, and gives the same bytes. All nodes need newtongs, and see
the output folder under the same path.
"""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from ..errors import InputError
from . import shared
from .pool import LOOKS, Told, prepared_or_why
from .renderers import gpu_share, try_out
from .scenes import SceneSource
from .shards import Shard, make_shard
from .spec import Spec

RETRIES = 5  # of a task whose node dies
KEPT = 32  # scenes that a worker keeps open
PATIENCE = 5.0  # seconds until a cluster that does not answer is told
LOOPBACK = ("127.0.0.1:", "localhost:")


def ray_module(address: str = "") -> Any:
    """Ray, or what to install.

    By itself it takes 127.0.0.1 for this machine's address in the network, where a cluster that
    was started on the loopback address does not listen. This word, which Ray reads when it is
    imported, makes it believe the address.
    """
    if address.startswith(LOOPBACK):
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
    except ImportError as error:
        raise InputError(
            "a cluster needs ray; install it with: pip install 'newtongs[cluster]'"
        ) from error
    return ray


def check_address(address: str) -> None:
    """Find out at once whether someone listens; Ray itself would try for a minute."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"--ray: expected HOST:PORT of a Ray cluster's head, got {address!r}")
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"--ray: no cluster answers at {address}: {reason}; start one with: ray start --head"
        ) from error


@contextmanager
def no_warnings() -> Iterator[None]:
    """Keep what is written to standard error away, by compiled code too.

    Ray writes a line a second there while it tries to reach what is no cluster, whatever its
    settings say. What matters it raises.
    """
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


class Films:
    """Counts the films of all nodes; an actor."""

    def __init__(self) -> None:
        self.done = 0

    def add(self) -> None:
        """One more."""
        self.done += 1

    def count(self) -> int:
        """So far; a shard that is made twice counts twice."""
        return self.done


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _try_out(spec: Spec) -> None:
    """A task: whether its node can draw."""
    try_out(spec.renderer)


def _prepare(spec: Spec, source: SceneSource) -> tuple[Any, str | None]:
    """A task: the scene for the object store, and why it cannot be used."""
    _one_thread()
    made = prepared_or_why(spec, source)
    return shared.pack(made), made if isinstance(made, str) else None


@lru_cache(KEPT)
def _loaded(reference: Any) -> Any:
    """From the object store; its memory may not be written to, hence the copy."""
    packed = ray_module().get(reference)
    return shared.unpack(packed.pickled, [bytearray(array) for array in packed.arrays])


def _shard(
    spec: Spec, scenes: Sequence[SceneSource], shard: Shard, out: Path, stored: dict[str, Any],
    films: Any,
) -> dict[str, Any]:  # fmt: skip
    """A task: one shard."""
    _one_thread()
    return make_shard(
        spec, scenes, shard, out, lambda scene: _loaded(stored[scene]), lambda: films.add.remote()
    )


class Cluster:
    """A Ray cluster that is running already."""

    def __init__(self, spec: Spec, address: str) -> None:
        check_address(address)
        self.spec, self.ray = spec, ray_module(address)
        try:
            with no_warnings():
                self.ray.init(
                    address, log_to_driver=False, logging_level="ERROR", configure_logging=True
                )
        except Exception as error:  # Ray has a dozen kinds
            line = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(
                f"--ray: the cluster at {address} cannot be joined: {line}; expected the head of a "
                "Ray cluster there"
            ) from error
        self.stored: dict[str, Any] = {}
        self.task = partial(self.ray.remote, num_cpus=1, max_retries=RETRIES)
        self.drawing = partial(self.task, num_gpus=gpu_share(spec.renderer))

    def require_gpus(self, address: str) -> None:
        """Refuse a cluster whose nodes can never take the tasks: they would wait for ever."""
        if not any(node["Alive"] and self._fits(node["Resources"]) for node in self.ray.nodes()):
            raise InputError(
                f'--ray: renderer = "{self.spec.renderer}" needs a node with a GPU, the cluster at '
                f"{address} has none; add one with: ray start --address={address} --num-gpus=1, "
                'or use renderer = "ewa"'
            )

    def _fits(self, node: dict[str, float]) -> bool:
        """Whether a node has what a drawing task asks for, all at once."""
        share = gpu_share(self.spec.renderer)
        return node.get("GPU", 0) >= share and (not share or node.get("CPU", 0) >= 1)

    def try_out(self) -> None:
        """Let one node draw, before all of them do."""
        self._result(self.drawing()(_try_out).remote(self.spec))

    def prepare(self, scenes: Sequence[SceneSource], told: Told) -> dict[str, str]:
        """Make scenes ready; returns a line for each that cannot be used."""
        task = self.task(num_returns=2)(_prepare)
        lines = {}
        for scene in scenes:
            self.stored[scene.id], line = task.remote(self.spec, scene)
            lines[line] = scene.id
        refused: dict[str, str] = {}
        for done, (reference, line) in enumerate(self._finished(list(lines)), start=1):
            if line is not None:
                refused[lines[reference]] = line
            told("scenes", done, len(scenes))
        return refused

    def shards(
        self, scenes: Sequence[SceneSource], shards: Sequence[Shard], out: Path, told: Told
    ) -> Iterator[dict[str, Any]]:
        """Make shards; their logs as they are done."""
        films = self.ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Films).remote()
        task, total = self.drawing()(_shard), sum(s.films for s in shards)
        place = out.absolute()
        jobs = [task.remote(self.spec, list(scenes), s, place, self.stored, films) for s in shards]
        for _, log in self._finished(jobs, lambda: self._look(films, told, total)):
            yield log
        told("films", total, total)

    def _look(self, films: Any, told: Told, total: int) -> None:
        try:
            told("films", min(self.ray.get(films.count.remote(), timeout=1), total), total)
        except Exception:  # the counter's node may just be gone; the bar can wait
            return

    def _finished(self, jobs: Sequence[Any], look: Any = None) -> Iterator[tuple[Any, Any]]:
        """Reference and result of each task, as they are done."""
        waiting = list(jobs)
        while waiting:
            done, waiting = self.ray.wait(waiting, timeout=LOOKS if look else None)
            for reference in done:
                yield reference, self._result(reference)
            if look is not None:
                look()

    def _result(self, reference: Any) -> Any:
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, InputError) else None
            if cause is None:
                raise
            raise InputError(str(cause)) from error
        except self.ray.exceptions.RayError as error:
            line = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(
                f"--ray: a task was lost {RETRIES} times: {line}; run the same command again"
            ) from error

    def close(self) -> None:
        """Leave the cluster to itself."""
        self.ray.shutdown()


@contextmanager
def cluster(spec: Spec, address: str) -> Iterator[Cluster]:
    """For a while."""
    made = Cluster(spec, address)
    try:
        made.require_gpus(address)
        yield made
    finally:
        made.close()
