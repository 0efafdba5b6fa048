"""Worker processes on one machine."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from ..base.errors import InputError, argument
from ..base.files import first_line
from ..base.locks import scratch
from ..base.types import Progress
from . import shared
from .casts import Prepared, prepare_casts
from .renderers import try_out
from .scenes import SceneSource
from .shards import Shard, make_shard
from .spec import Spec

POLL_SECONDS = 0.3  # between two updates of the progress bar
KEPT = 32  # scenes that a worker keeps loaded

_counter: Any = None  # in a worker: films finished by all workers


def _start(counter: Any) -> None:
    """Set up a worker: one thread, and only the parent handles Ctrl-C."""
    global _counter
    _counter = counter
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = "1"
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import torch

    torch.set_num_threads(1)


def _end_with_parent() -> None:
    """Exit when the parent is gone, even if it was killed: else a worker would wait for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _count() -> None:
    with _counter.get_lock():
        _counter.value += 1


def prepared_or_why(spec: Spec, source: SceneSource) -> Prepared | str:
    """A prepared scene, or one line that says why it cannot be used."""
    try:
        return prepare_casts(spec, source)
    except (InputError, OSError, ValueError) as error:
        return source.without_folder(first_line(error))


def _prepare(spec: Spec, source: SceneSource, path: Path) -> str | None:
    """Prepare a scene into a file; returns a line where it cannot be used."""
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
        spec, scenes, shard, out, lambda scene: _loaded(folder / f"{scene}.json"), _count
    )


class Pool:
    """Workers that share prepared scenes through a folder."""

    def __init__(self, spec: Spec, workers: int, folder: Path) -> None:
        self.spec, self.folder = spec, folder
        context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
        self.counter = context.Value("q", 0)
        self.executor = ProcessPoolExecutor(workers, context, _start, (self.counter,))

    def try_out(self) -> None:
        """Let one worker draw before all of them do."""
        for _ in self._finished([partial(try_out, self.spec.renderer)]):
            pass

    def prepare(self, scenes: Sequence[SceneSource], progress: Progress) -> dict[str, str]:
        """Prepare scenes; returns a line for each that cannot be used."""
        jobs = [
            partial(_prepare, self.spec, scene, self.folder / f"{scene.id}.json")
            for scene in scenes
        ]
        refused: dict[str, str] = {}
        for done, (i, line) in enumerate(self._finished(jobs), start=1):
            if line is not None:
                refused[scenes[i].id] = line
            progress("scenes", done, len(scenes))
        return refused

    def shards(
        self, scenes: Sequence[SceneSource], shards: Sequence[Shard], out: Path, progress: Progress
    ) -> Iterator[dict[str, Any]]:
        """Make shards; yields their logs as they are finished."""
        jobs = [partial(_shard, self.spec, scenes, s, out, self.folder) for s in shards]
        films = sum(s.films for s in shards)
        report = partial(self._report, progress, films)
        for _, log in self._finished(jobs, report):
            yield log
        progress("films", films, films)

    def _report(self, progress: Progress, films: int) -> None:
        progress("films", min(self.counter.value, films), films)

    def _finished(
        self, jobs: Sequence[Callable[[], Any]], report: Callable[[], None] | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Number and result of each job, as they are finished."""
        waiting: dict[Future[Any], int] = {
            self.executor.submit(job): i for i, job in enumerate(jobs)
        }
        while waiting:
            done, _ = wait(waiting, POLL_SECONDS if report else None, FIRST_COMPLETED)
            for future in done:
                try:
                    yield waiting.pop(future), future.result()
                except BrokenProcessPool as error:
                    raise InputError(
                        "a worker process was killed, perhaps for lack of memory; run the same "
                        f"command again, with fewer {argument('workers')}"
                    ) from error
            if report is not None:
                report()

    def close(self) -> None:
        """Stop the workers; unfinished work is lost."""
        for process in (self.executor._processes or {}).values():
            process.terminate()
        self.executor.shutdown(wait=True, cancel_futures=True)


@contextmanager
def pool(spec: Spec, workers: int) -> Iterator[Pool]:
    """Start workers; stop them and remove their folder afterwards."""
    with scratch() as folder:
        made = Pool(spec, workers, folder)
        try:
            yield made
        finally:
            made.close()
