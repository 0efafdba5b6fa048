"""One call for all renderers, and sequences of pictures."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import repeat, zip_longest
from typing import Any

import torch
from torch import Tensor

from ..base.errors import InputError, unknown_name
from ..scene import Camera, GaussianScene
from ..scene.frames import AnimatedScene
from .splat import Rendering, make_splat

BACKENDS = ("auto", "gsplat", "ewa", "steady", "light")
FILMS = ("ewa", "steady")  # they draw only the tiles that change
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
            splat), ``steady`` (CPU: blends by depth, so that nothing jumps when objects turn).
            ``auto`` takes gsplat where it is installed and the scene is on CUDA, else ewa.
        background: RGB of empty pixels.
        means: ``(N, 3)`` in place of the scene's own, for a frame of an animation.
        covariances: ``(N, 3, 3)``, or packed ``(N, 6)`` as xx xy xz yy yz zz, likewise.
        sh: spherical harmonics ``(N, K, 3)``, likewise.
        colors: RGB ``(N, 3)``, the same from all sides, in place of spherical harmonics.
        opacities: ``(N,)`` in place of the scene's own; Gaussians with zero are not drawn.
        shade: factors ``(N,)`` on the colours, for shadows.
    """
    splat = make_splat(scene, camera, background, means, covariances, sh, colors, opacities, shade)
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
    """Draw frame after frame, lazily, so that a film needs no memory.

    Args:
        scenes: an animated scene; or one scene per frame; or one for all, with ``means (F, N, 3)``
            and, where they change, ``covariances (F, N, 3, 3)`` or ``(F, N, 6)``; or one and
            several cameras.
        camera: one for all frames, or one per frame.
        means: see ``scenes``.
        covariances: see ``scenes``.
        backend: as for :func:`render`.
        background: RGB of empty pixels.
        progress: called with the number of frames done, after each.
    """
    backend_for(backend, torch.device("cpu"))  # refuse a wrong name now, not at the first frame
    still = isinstance(scenes, GaussianScene)
    moving = {"means": means, "covariances": covariances}
    given = {name: x for name, x in moving.items() if x is not None}
    if still and not given and isinstance(camera, Camera):
        raise InputError(
            "nothing changes from frame to frame; give several scenes, several cameras, or means"
        )
    if given and not still:
        raise InputError(f"{', '.join(given)} go with one scene for all frames, not with several")
    if isinstance(scenes, AnimatedScene) and isinstance(camera, Camera):
        name = backend_for(backend, scenes.scene.device)
        if name in FILMS and scenes.scene.device.type == "cpu":
            make_splat(scenes.scene, camera, background)  # refuse a wrong camera now too
            return _counted(_module(name).pictures(scenes, camera, background), progress)
    frames: Iterable[Any]
    if isinstance(camera, Camera):
        frames = zip(_frames(scenes, given), repeat(camera), strict=False)
    elif still and not given:
        frames = zip(_frames(scenes, given), camera, strict=False)
    else:
        frames = _together("scenes and cameras", _frames(scenes, given), camera)
    return _counted(_drawn(frames, {"backend": backend, "background": background}), progress)


def _frames(
    scenes: AnimatedScene | Iterable[GaussianScene] | GaussianScene, given: dict[str, Any]
) -> Iterator[tuple[GaussianScene, dict[str, Any]]]:
    """The scene of each frame and the values that replace its own."""
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
    """Zip streams that must have equal length."""
    over = object()
    for i, row in enumerate(zip_longest(*streams, fillvalue=over)):
        if any(x is over for x in row):
            raise InputError(f"a film needs equally many {what}; one of them ended after {i}")
        yield row


def _drawn(
    frames: Iterable[tuple[tuple[GaussianScene, dict[str, Any]], Camera]],
    options: dict[str, Any],
) -> Iterator[Rendering]:
    """A separate generator, so that the checks above run before the first frame."""
    for (scene, given), camera in frames:
        yield render(scene, camera, **(given | options))


def _counted(
    pictures: Iterable[Rendering], progress: Callable[[int], None] | None
) -> Iterator[Rendering]:
    """The same pictures; their number is reported after each."""
    for done, picture in enumerate(pictures, start=1):
        yield picture
        if progress:
            progress(done)


def placed(scenes: AnimatedScene, backend: str) -> AnimatedScene:
    """An animated scene on the device where a renderer draws."""
    return scenes.to("cuda") if backend == "gsplat" else scenes


def require_backend(backend: str) -> None:
    """Refuse an unknown renderer, or one whose extra is missing, before any work is done."""
    backend_for(backend, torch.device("cpu"))
    if backend == "gsplat" and not torch.cuda.is_available():
        raise InputError("the gsplat renderer needs a CUDA device, and there is none; use ewa")


def backend_for(backend: str, device: torch.device) -> str:
    """The renderer that ``auto`` stands for on a device; any other name is checked and returned."""
    if backend not in BACKENDS:
        raise unknown_name("renderer", str(backend), BACKENDS)
    if backend != "auto":
        _module(backend)  # refuse now what is not installed
        return backend
    if device.type == "cuda" and find_spec("gsplat"):
        return "gsplat"
    return "ewa"


def _module(backend: str) -> Any:
    """Imported on first use: ``gsplat`` needs an extra, and numba is slow to import."""
    name = "gsplat_backend" if backend == "gsplat" else backend
    return import_module(f".{name}", __package__)
