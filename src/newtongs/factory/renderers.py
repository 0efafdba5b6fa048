"""What draws the pictures of films: ``ewa`` or ``steady`` on the CPU, or ``gsplat`` on a GPU.

On the CPU the labels are those of the picture, made while it is drawn. What gsplat draws has the
labels of ``ewa``, byte for byte, since the two draw the same picture.
"""

import os
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import torch

from ..errors import InputError
from ..locks import alone
from ..render import ewa_labels, render, render_frames, steady_labels
from ..render.ewa_labels import labels_alone
from ..render.labels import Labels
from ..render.rendering import Rendering
from ..render.scenes import backend_for, placed
from ..scene.cameras import Camera, orbit
from ..scene.frames import AnimatedScene
from ..scene.gaussians import GaussianScene
from .spec import Renderer

Drawn: TypeAlias = Callable[..., Iterator[tuple[Rendering, Labels]]]
"""Called as :func:`ewa_labels.pictures` is."""

# Of a card, for a task on a cluster: eight share one, since a worker simulates, labels and encodes
# on its core for most of the time.
GPU_SHARE = 1 / 8
# One pass for both pictures and labels.
ON_CPU: dict[Renderer, Drawn] = {"ewa": ewa_labels.pictures, "steady": steady_labels.pictures}


def gpu_share(renderer: Renderer) -> float:
    """Part of a card that a worker needs, 0 to 1."""
    return GPU_SHARE if renderer == "gsplat" else 0.0


def pictures_by(renderer: Renderer) -> Drawn:
    """What draws and labels; a renderer that cannot draw in this process is refused."""
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
    """Pictures as ``newtongs animate --renderer`` draws them, and labels by ``ewa``.

    On a GPU a picture is being drawn while its labels are made here.
    """
    pictures = render_frames(
        placed(scenes, backend), cameras, backend=backend, background=background
    )
    labels = labels_alone(scenes, cameras, background, slots, objects)
    return zip(pictures, labels, strict=True)


def require_here(renderer: Renderer) -> None:
    """Refuse a renderer that this machine has not; starts nothing on its card."""
    if renderer in ON_CPU:
        return
    if not torch.cuda.is_available():
        raise InputError(
            f'renderer = "{renderer}": expected a machine with a CUDA device, found none; use '
            'renderer = "ewa", or --ray with a cluster that has GPUs'
        )
    try:
        backend_for(renderer, torch.device("cuda"))
    except InputError as error:
        raise InputError(f'renderer = "{renderer}": {error}') from error


@lru_cache
def try_out(renderer: Renderer) -> dict[str, str]:
    """Draw one Gaussian, so that what cannot draw is told before the first film.

    Returns what drew it, for the log. gsplat compiles itself at its first call; processes of one
    machine do so one after the other, since two at once would write the same files. Those that wait
    say nothing: once it is compiled, it takes a second each.
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
    """Where torch's extensions are compiled, or a folder of the user's own."""
    given = os.environ.get("TORCH_EXTENSIONS_DIR")
    return Path(given) if given else Path.home() / ".cache" / "newtongs"


def _draw_one(renderer: Renderer) -> None:
    scene = GaussianScene.make(means=[[0.0, 0.0, 0.0]], scales=[1.0]).to("cuda")
    try:
        render(scene, orbit((0, 0, 0), width=16, height=16)[0], backend=renderer).color.cpu()
    except Exception as error:  # what a build or a driver may raise has no common kind
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            f'renderer = "{renderer}": it is installed but cannot draw on '
            f"{torch.cuda.get_device_name()}: {line}; mend it (it compiles itself and needs nvcc), "
            'or use renderer = "ewa"'
        ) from error
