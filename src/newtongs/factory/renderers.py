"""Renderers of films: ``ewa`` or ``steady`` on the CPU, or ``gsplat`` on a GPU.

On the CPU each renderer makes its own labels while it draws. Pictures by gsplat get the labels of
``ewa``, byte for byte, since the two draw the same picture.
"""

import os
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import torch

from ..base.errors import InputError, argument
from ..base.files import first_line
from ..base.locks import alone
from ..render import ewa, render, render_frames, steady
from ..render.ewa import labels_alone
from ..render.labels import Labels
from ..render.scenes import backend_for, placed
from ..render.splat import Rendering
from ..scene.cameras import Camera, orbit
from ..scene.frames import AnimatedScene
from ..scene.gaussians import GaussianScene
from .spec import Renderer

DrawAndLabel: TypeAlias = Callable[..., Iterator[tuple[Rendering, Labels]]]
"""Called like :func:`ewa.labelled`."""

# Fraction of a GPU per task on a cluster. Eight tasks share one: a worker spends most of its time
# on the CPU, where it simulates, labels and encodes.
GPU_SHARE = 1 / 8
# One pass for both pictures and labels.
ON_CPU: dict[Renderer, DrawAndLabel] = {"ewa": ewa.labelled, "steady": steady.labelled}


def gpu_share(renderer: Renderer) -> float:
    """Fraction of a GPU that a worker needs."""
    return GPU_SHARE if renderer == "gsplat" else 0.0


def pictures_by(renderer: Renderer) -> DrawAndLabel:
    """The function that draws and labels; raises an error if it cannot draw in this process."""
    if renderer in ON_CPU:
        return ON_CPU[renderer]
    try_out(renderer)
    return partial(drawn_apart, renderer)


def drawn_apart(
    backend: str,
    scenes: AnimatedScene,
    cameras: Camera | list[Camera],
    background: Any,
    slots: Any,
    objects: int,
) -> Iterator[tuple[Rendering, Labels]]:
    """Draw pictures as ``newtongs animate --renderer`` does, and labels by ``ewa``.

    While the GPU draws a picture, its labels are made on the CPU.
    """
    pictures = render_frames(
        placed(scenes, backend), cameras, backend=backend, background=background
    )
    labels = labels_alone(scenes, cameras, background, slots, objects)
    return zip(pictures, labels, strict=True)


def require_here(renderer: Renderer) -> None:
    """Refuse a renderer that this machine lacks, without starting anything on its GPU."""
    if renderer in ON_CPU:
        return
    if not torch.cuda.is_available():
        raise InputError(
            f'renderer = "{renderer}": expected a machine with a CUDA device, found none; use '
            f'renderer = "ewa", or {argument("ray")} with a cluster that has GPUs'
        )
    try:
        backend_for(renderer, torch.device("cuda"))
    except InputError as error:
        raise InputError(f'renderer = "{renderer}": {error}') from error


@lru_cache
def try_out(renderer: Renderer) -> dict[str, str]:
    """Draw one Gaussian, so that a renderer that cannot draw is reported before the first film.

    Returns the renderer, its version and the card, for the log. gsplat compiles itself at its first
    call. The processes of a machine take turns, since two at once would write the same files. They
    wait without a warning: once gsplat is compiled, each takes a second.
    """
    require_here(renderer)
    if renderer in ON_CPU:
        return {"renderer": renderer}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "waiting for another process")
        with alone(_cache(), renderer, wait=True):
            _draw_one(renderer)
    return {
        "renderer": renderer, "card": torch.cuda.get_device_name(), renderer: version(renderer),
    }  # fmt: skip


def _cache() -> Path:
    """The folder where torch compiles extensions, or one of the user's own."""
    from platformdirs import user_cache_path

    given = os.environ.get("TORCH_EXTENSIONS_DIR")
    return Path(given) if given else user_cache_path("newtongs", appauthor=False)


def _draw_one(renderer: Renderer) -> None:
    scene = GaussianScene.make(means=[[0.0, 0.0, 0.0]], scales=[1.0]).to("cuda")
    try:
        render(scene, orbit((0, 0, 0), width=16, height=16)[0], backend=renderer).color.cpu()
    except Exception as error:  # a build or a driver may raise anything
        raise InputError(
            f'renderer = "{renderer}": it is installed but cannot draw on '
            f"{torch.cuda.get_device_name()}: {first_line(error)}; "
            'repair it (it compiles itself and needs nvcc), or use renderer = "ewa"'
        ) from error
