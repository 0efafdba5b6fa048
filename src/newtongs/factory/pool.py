"""Many processes on one machine."""

import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from ..errors import InputError
from . import shared
from .casts import Prepared, prepare
from .renderers import try_out
from .scenes import SceneSource
from .shards import Shard, make_shard
from .spec import Spec

LOOKS = 0.3  # seconds between two looks at the bar
KEPT = 32  # scenes that a worker keeps open

Told = Callable[[str, int, int], None]
_counter: Any = None  # films done by all workers, in a worker


def _start(counter: Any, parent: int) -> None:
    """A worker: one thread, and only the parent answers Ctrl-C."""
    global _counter
    _counter = counter
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = "1"
    threading.Thread(target=_outlive_nobody, args=(parent,), daemon=True).start()
    import torch

    torch.set_num_threads(1)


def _outlive_nobody(parent: int) -> None:
    """End with the parent, though it was killed: else a worker would wait for work for ever."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _count() -> None:
    with _counter.get_lock():
        _counter.value += 1


def prepared_or_why(spec: Spec, source: SceneSource) -> Prepared | str:
    """A scene made ready, or one line on why that is impossible."""
    try:
        return prepare(spec, source)
    except (InputError, OSError, ValueError) as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        return source.without_folder(line)


def _prepare(spec: Spec, source: SceneSource, path: Path) -> str | None:
    """Into a file; a line where the scene cannot be used."""
    made = prepared_or_why(spec, source)
    shared.save(path, shared.pack(made))
    return made if isinstance(made, str) else None


@lru_cache(KEPT)
def _loaded(path: Path) -> Prepared | str:
    return shared.load(path)


def _shard(
    spec: Spec, scenes: Sequence[SceneSource], shard: Shard, out: Path, folder: Path
) -> dict[str, Any]:
    return make_shard(
        spec, scenes, shard, out, lambda scene: _loaded(folder / f"{scene}.pkl"), _count
    )


class Pool:
    """Workers that share prepared scenes through a folder."""

    def __init__(self, spec: Spec, workers: int) -> None:
        self.spec, self.workers = spec, workers
        context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
        self.counter = context.Value("q", 0)
        self.folder = Path(tempfile.mkdtemp(prefix="newtongs-factory-"))
        started = self.counter, os.getpid()
        self.executor = ProcessPoolExecutor(workers, context, _start, started)

    def try_out(self) -> None:
        """Let one worker draw, before all of them do."""
        for _ in self._finished([partial(try_out, self.spec.renderer)]):
            pass

    def prepare(self, scenes: Sequence[SceneSource], told: Told) -> dict[str, str]:
        """Make scenes ready; returns a line for each that cannot be used."""
        jobs = [
            partial(_prepare, self.spec, scene, self.folder / f"{scene.id}.pkl") for scene in scenes
        ]
        refused: dict[str, str] = {}
        for done, (i, line) in enumerate(self._finished(jobs), start=1):
            if line is not None:
                refused[scenes[i].id] = line
            told("scenes", done, len(scenes))
        return refused

    def shards(
        self, scenes: Sequence[SceneSource], shards: Sequence[Shard], out: Path, told: Told
    ) -> Iterator[dict[str, Any]]:
        """Make shards; their logs as they are done."""
        jobs = [partial(_shard, self.spec, scenes, s, out, self.folder) for s in shards]
        films = sum(s.films for s in shards)
        look = partial(self._look, told, films)
        for _, log in self._finished(jobs, look):
            yield log
        told("films", films, films)

    def _look(self, told: Told, films: int) -> None:
        told("films", min(self.counter.value, films), films)

    def _finished(
        self, jobs: Sequence[Callable[[], Any]], look: Callable[[], None] | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Number and result of each job, as they are done."""
        waiting: dict[Future[Any], int] = {
            self.executor.submit(job): i for i, job in enumerate(jobs)
        }
        while waiting:
            done, _ = wait(waiting, LOOKS if look else None, FIRST_COMPLETED)
            for future in done:
                try:
                    yield waiting.pop(future), future.result()
                except BrokenProcessPool as error:
                    raise InputError(
                        "a worker process was killed, perhaps for want of memory; run the same "
                        "command again, with fewer --workers"
                    ) from error
            if look is not None:
                look()

    def close(self) -> None:
        """End the workers; what they have not finished is lost."""
        for process in (self.executor._processes or {}).values():
            process.terminate()
        self.executor.shutdown(wait=True, cancel_futures=True)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def pool(spec: Spec, workers: int) -> Iterator[Pool]:
    """For a while."""
    made = Pool(spec, workers)
    try:
        yield made
    finally:
        made.close()
