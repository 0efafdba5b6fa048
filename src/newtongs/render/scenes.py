"""One call for every renderer, and sequences of pictures."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import repeat, zip_longest
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, unknown_name
from ..scene import Camera, GaussianScene
from ..scene.frames import AnimatedScene
from .prepare import prepare
from .rendering import Rendering

MODULES = {"gsplat": "gsplat_backend", "ewa": "ewa", "steady": "steady", "light": "light"}
FILMS = {"ewa": "ewa_film", "steady": "steady_film"}
BACKENDS = ("auto", *MODULES)
WHITE = (1.0, 1.0, 1.0)


def render(
    scene: GaussianScene,
    camera: Camera,
    *,
    backend: str = "auto",
    background: Sequence[float] | Tensor = WHITE,
    means: Tensor | None = None,
    covariances: Tensor | None = None,
    sh: Tensor | None = None,
    colors: Tensor | None = None,
    opacities: Tensor | None = None,
    shade: Tensor | None = None,
) -> Rendering:
    """Draw a scene.

    Args:
        scene: what to draw.
        camera: from where.
        backend: ``gsplat`` (CUDA), ``ewa`` (CPU, true covariances), ``light`` (the paper's point
            splat); ``auto`` takes the first of them that is installed and fits the scene's device.
            ``steady`` (CPU) blends by depth so that nothing jumps when things turn.
        background: RGB where nothing is.
        means: ``(N, 3)`` in place of the scene's own, for a frame of an animation.
        covariances: ``(N, 3, 3)``, or packed ``(N, 6)`` as xx xy xz yy yz zz, likewise.
        sh: spherical harmonics ``(N, K, 3)``, likewise.
        colors: RGB ``(N, 3)``, the same from all sides, in place of spherical harmonics.
        opacities: ``(N,)`` in place of the scene's own; what has none is not drawn.
        shade: factors ``(N,)`` on the colours, for what lies in a shadow.
    """
    splat = prepare(scene, camera, background, means, covariances, sh, colors, opacities, shade)
    draw: Callable[..., Rendering] = _module(backend_for(backend, splat.means.device)).draw
    return draw(splat)


def render_frames(
    scenes: AnimatedScene | Iterable[GaussianScene] | GaussianScene,
    camera: Camera | Iterable[Camera],
    *,
    means: Iterable[Tensor] | None = None,
    covariances: Iterable[Tensor] | None = None,
    backend: str = "auto",
    background: Sequence[float] | Tensor = WHITE,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Rendering]:
    """Draw frame after frame, each when it is asked for, so that a film needs no memory.

    Args:
        scenes: a scene in motion; or one scene a frame; or one for all, with ``means (F, N, 3)``
            and, where they change, ``covariances (F, N, 3, 3)`` or ``(F, N, 6)``; or one and
            several cameras.
        camera: one for all frames, or one a frame.
        means: see ``scenes``.
        covariances: see ``scenes``.
        backend: as for :func:`render`.
        background: RGB where nothing is.
        progress: called with the number of frames done, after each.
    """
    backend_for(backend, torch.device("cpu"))  # a wrong name is told now, not at the first frame
    still = isinstance(scenes, GaussianScene)
    moving = {"means": means, "covariances": covariances}
    given = {name: x for name, x in moving.items() if x is not None}
    if still and not given and isinstance(camera, Camera):
        raise InputError(
            "nothing changes from frame to frame; give several scenes, several cameras, or means"
        )
    if given and not still:
        raise InputError(f"{', '.join(given)} go with one scene for all frames, not with several")
    if (
        isinstance(scenes, AnimatedScene)
        and isinstance(camera, Camera)
        and (name := _film_of(scenes, backend))
    ):
        prepare(scenes.scene, camera, background)  # a wrong camera is told now too
        film = import_module(f".{name}", __package__)
        return _told(film.pictures(scenes, camera, background), progress)
    frames: Iterable[Any]
    if isinstance(camera, Camera):
        frames = zip(_frames(scenes, given), repeat(camera), strict=False)
    elif still and not given:
        frames = zip(_frames(scenes, given), camera, strict=False)
    else:
        frames = _together("scenes and cameras", _frames(scenes, given), camera)
    return _told(_drawn(frames, {"backend": backend, "background": background}), progress)


def _frames(
    scenes: AnimatedScene | Iterable[GaussianScene] | GaussianScene, given: dict[str, Any]
) -> Iterator[tuple[GaussianScene, dict[str, Any]]]:
    """The scene of each frame and what takes the place of its values."""
    if isinstance(scenes, AnimatedScene):
        for f in scenes:
            yield scenes.scene, {
                "means": f.means, "covariances": f.covariances, "sh": f.sh,
                "opacities": f.opacities, "shade": f.shade,
            }  # fmt: skip
    elif isinstance(scenes, GaussianScene):
        tracks = _together(" and ".join(given), *given.values()) if given else repeat(())
        yield from ((scenes, dict(zip(given, x, strict=True))) for x in tracks)
    else:
        yield from ((scene, {}) for scene in scenes)


def _together(what: str, *streams: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """Rows of streams that must be equally long."""
    over = object()
    for i, row in enumerate(zip_longest(*streams, fillvalue=over)):
        if any(x is over for x in row):
            raise InputError(f"{what} of a film must be equally many; one of them ends after {i}")
        yield row


def _drawn(
    frames: Iterable[tuple[tuple[GaussianScene, dict[str, Any]], Camera]],
    options: dict[str, Any],
) -> Iterator[Rendering]:
    """A function of its own, so that the checks above do not wait for the first frame."""
    for (scene, given), camera in frames:
        yield render(scene, camera, **(given | options))


def _told(
    pictures: Iterable[Rendering], progress: Callable[[int], None] | None
) -> Iterator[Rendering]:
    """The same pictures, with their number told after each."""
    for done, picture in enumerate(pictures, start=1):
        yield picture
        if progress:
            progress(done)


def _film_of(scenes: AnimatedScene, backend: str) -> str | None:
    """The module that does not draw all of each frame anew, if there is one."""
    device = scenes.scene.device
    return FILMS.get(backend_for(backend, device)) if device.type == "cpu" else None


def placed(scenes: AnimatedScene, backend: str) -> AnimatedScene:
    """A scene in motion on the device where a renderer, by its name, draws."""
    return scenes.to("cuda") if backend == "gsplat" else scenes


def require_backend(backend: str) -> None:
    """Refuse a renderer that is unknown, or that lacks its extra, before there is work for it."""
    backend_for(backend, torch.device("cpu"))
    if backend == "gsplat" and not torch.cuda.is_available():
        raise InputError("the gsplat renderer needs a CUDA device, and there is none; use ewa")


def backend_for(backend: str, device: torch.device) -> str:
    """The renderer that ``auto`` stands for on a device; any other name is checked and returned."""
    if backend not in BACKENDS:
        raise unknown_name("renderer", str(backend), BACKENDS)
    if backend != "auto":
        _module(backend)  # what is not installed is told now
        return backend
    if device.type == "cuda" and find_spec("gsplat"):
        return "gsplat"
    return "ewa" if find_spec("numba") else "light"


def _module(backend: str) -> Any:
    """Imported when first used: ``gsplat`` needs an extra, and numba takes long to import."""
    return import_module(f".{MODULES[backend]}", __package__)
