"""An animation as files for other tools: films, web pages, glTF, OpenUSD, PLY, and for replay.

``export(animation, "out", ["mp4", "glb", "html"])`` writes several at once; each format also has
a function of its own.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch import Tensor

from ..base.errors import InputError, unknown_name
from ..base.files import silent, under
from ..base.locks import alone
from ..base.process import give_back_freed
from ..base.types import Progress
from ..formats.files import load
from ..render.scenes import BACKENDS
from ..render.video import contact_sheet, write_video
from ..scene.animation import Animation
from ..scene.cameras import Camera
from ..scene.frames import FIRST
from ..scene.gaussians import LOGIT_ZERO, GaussianScene, join
from ..views.framing import default_camera
from ..views.viewpoints import clear_camera
from . import films
from .glb import write_glb
from .html import is_compressed, read_html, write_html
from .loss import between, picture
from .parts import cut, parts
from .replay import load_animation, save_animation
from .sequence import write_sequence

__all__ = [
    "FORMATS",
    "Format",
    "default_camera",
    "export",
    "load_animation",
    "lost",
    "parse_formats",
    "require_formats",
    "save_animation",
    "write_glb",
    "write_html",
    "write_sequence",
]

WHITE = (1.0, 1.0, 1.0)


@dataclass(frozen=True)
class Format:
    """A format in which animations are written."""

    ending: str
    """Appended to the name of the export."""
    about: str
    """Description in one line."""
    write: Callable[["_Job", Path], None]
    """Writes the file."""
    module: str | None = None
    """Required module, if any,"""
    extra: str | None = None
    """and the pip extra that installs it."""
    pictures: bool = False
    """Whether it is made of rendered frames."""


@dataclass
class _Job:
    """The arguments of the writers."""

    animation: Animation
    camera: Camera
    """For formats with one view: the first camera of the film."""
    cameras: Camera | Sequence[Camera]
    """For films: one for all frames, or one per frame."""
    background: Sequence[float]
    fps: float
    title: str
    source: Path | str | None
    sh_degree: int | None
    compress: bool | None = None
    frames: films.FilmFrames | None = None
    report: Callable[[int], None] | None = None
    tell: Progress = silent
    """Progress within a file that takes long."""


def _film(job: _Job, path: Path) -> None:
    assert job.frames is not None
    write_video(path, job.frames, job.fps)


def _sheet(job: _Job, path: Path) -> None:
    assert job.frames is not None
    contact_sheet(films.spread(job.frames), films.COLUMNS, path)


def _json(job: _Job, path: Path) -> None:
    save_animation(job.animation, path, source=job.source)


def _glb(job: _Job, path: Path) -> None:
    compress = job.compress is True
    write_glb(job.animation, path, sh_degree=job.sh_degree, compress=compress, progress=job.tell)


def _usd(job: _Job, path: Path) -> None:
    from .usd import write_usd

    write_usd(job.animation, path, sh_degree=job.sh_degree)


def _ply(job: _Job, path: Path) -> None:
    write_sequence(job.animation, path, sh_degree=job.sh_degree, progress=job.report)


def _html(job: _Job, path: Path) -> None:
    write_html(
        job.animation,
        path,
        camera=job.camera,
        title=job.title,
        background=job.background,
        compress=job.compress,
        sh_degree=job.sh_degree,
        progress=job.tell,
    )


FORMATS = {
    "mp4": Format(".mp4", "film, plays everywhere", _film, "imageio_ffmpeg", "video", True),
    "gif": Format(".gif", "film that loops, for chats and documents", _film, "PIL", "video", True),
    "png": Format(".png", "contact sheet of frames", _sheet, pictures=True),
    "json": Format(".json", "with .npz: states and matrices, to replay", _json),
    "glb": Format(".glb", "glTF with Gaussians, for Babylon.js, PlayCanvas, three.js", _glb),
    "usd": Format(".usdc", "OpenUSD with Gaussians, for Omniverse and others", _usd, "pxr", "usd"),
    "ply": Format("_ply", "folder with one .ply per frame, for SuperSplat; large", _ply),
    "html": Format(".html", "one page that plays in a browser, offline", _html),
}


def parse_formats(formats: str | Iterable[str]) -> list[str]:
    """Valid, distinct names of formats from ``"mp4,glb"`` or a list of such strings."""
    words = [formats] if isinstance(formats, str) else list(formats)
    names = [name for word in words for name in word.replace(",", " ").split() or [word]]
    names = [name.strip().lower().removeprefix(".") for name in names]
    for name in names:
        if name not in FORMATS:
            raise unknown_name("format", name, FORMATS)
    if not names:
        raise InputError(f"no format given; known: {', '.join(FORMATS)}")
    return list(dict.fromkeys(names))


def require_formats(formats: str | Iterable[str]) -> list[str]:
    """The names, or an error if a required package is missing."""
    names = parse_formats(formats)
    for each in names:
        _require(FORMATS[each], each)
    return names


def export(
    animation: Animation,
    folder: Path | str,
    formats: str | Iterable[str],
    *,
    name: str = "animation",
    camera: Camera | Sequence[Camera] | None = None,
    size: tuple[int, int] = (512, 512),
    background: Sequence[float] = WHITE,
    fps: float | None = None,
    backend: str = "auto",
    sh_degree: int | None = None,
    compress: bool | None = None,
    source: Path | str | None = None,
    title: str | None = None,
    progress: Progress | None = None,
) -> dict[str, Path]:
    """Write an animation in several formats; frames are drawn once for all films.

    Args:
        animation: what moves.
        folder: created if necessary.
        formats: names of :data:`FORMATS`.
        name: of the files, without extension.
        camera: of the films and the first view of the page; or one per frame, the first of which
            is used for the page. Default: one with an unobstructed view of the whole motion.
        size: width and height of the default camera's picture, in pixels.
        background: RGB of the background.
        fps: frames per second of the films; default real time. Every frame of the animation is a
            frame of the film.
        backend: renderer, see :func:`newtongs.render.render`.
        sh_degree: highest degree of view-dependent colour in glb, usd, ply and html; default all,
            but 1 in html that is not compressed.
        compress: True makes glb a tenth and html a third as large, with loss; False does not. None
            compresses html from 300,000 Gaussians. :func:`lost` measures the loss.
        source: file the scene was read from, to which the json refers.
        title: of the page; default the name.
        progress: called as ``progress(what, done, of)`` while frames are drawn and files written.

    Returns:
        Paths of the files, by format.
    """
    names, folder = require_formats(formats), Path(folder)
    if backend not in BACKENDS:
        raise unknown_name("renderer", backend, BACKENDS)
    _check_name(name)
    _check_folder(folder)
    give_back_freed()
    view = _checked(camera, len(animation)) if camera else clear_camera(animation, size)
    first = view if isinstance(view, Camera) else view[0]
    rate = animation.fps if fps is None else fps
    job = _Job(animation, first, view, background, rate, title or name, source, sh_degree, compress)
    tell = progress or silent
    written = {}
    # Files of one name belong together, such as json and npz: concurrent exports wait.
    with alone(folder, name, wait=True), _drawn(job, names, backend, tell):
        for each in names:
            tell(each, 0, 1)
            give_back_freed()
            job.report = partial(_of_frames, tell, each, len(animation)) if each == "ply" else None
            job.tell = under(tell, each)
            written[each] = folder / f"{name}{FORMATS[each].ending}"
            FORMATS[each].write(job, written[each])
            tell(each, 1, 1)
    return written


def save(
    animation: Animation,
    path: Path | str,
    formats: str | Iterable[str] | None = None,
    **options: Any,
) -> dict[str, Path]:
    """Write ``path`` in the format of its ending, or several files of that name.

    This is :meth:`newtongs.scene.Animation.save`; ``options`` are those of :func:`export`.
    """
    path = Path(path)
    if formats is not None:
        return export(animation, path.parent, formats, name=path.name, **options)
    known = {form.ending: each for each, form in FORMATS.items() if form.ending[0] == "."}
    if path.suffix.lower() not in known:
        raise unknown_name("ending", path.suffix, known)
    return export(animation, path.parent, known[path.suffix.lower()], name=path.stem, **options)


def lost(
    animation: Animation, path: Path, camera: Camera, compress: bool | None = None
) -> float | None:
    """Loss of a compressed file from :func:`export`, in dB for frame 0; None if it is lossless.

    The file is read and rendered for comparison with the original of the same colour degree.
    """
    page = path.suffix == ".html"
    if not (is_compressed(animation, compress) if page else path.suffix == ".glb" and compress):
        return None
    give_back_freed()
    got = read_html(path) if page else load(path)
    give_back_freed()
    drawn, degree = picture(got, camera), got.sh_degree
    del got  # with millions of Gaussians, three scenes may not fit into memory
    give_back_freed()
    pieces = parts(animation, sh_degree=degree)
    shadows = [p.scene for p in pieces if page and p.shadow_of is not None]
    wanted = join(_without_first(cut(animation.scene, degree), animation.presence), *shadows)
    return between([(picture(wanted, camera), drawn)])


def _without_first(scene: GaussianScene, presence: Tensor | None) -> GaussianScene:
    """The scene in which what is only in frame 0 is invisible; nothing else is copied."""
    if presence is None:
        return scene
    return scene.replace(logits=scene.logits.masked_fill(presence == FIRST, LOGIT_ZERO))


def _of_frames(tell: Progress, what: str, of: int, done: int) -> None:
    tell(what, done, of)


@contextmanager
def _drawn(job: _Job, names: list[str], backend: str, tell: Progress) -> Iterator[None]:
    """Provide the rendered frames if any format needs them."""
    if not any(FORMATS[name].pictures for name in names):
        yield
        return
    report = partial(_of_frames, tell, "frames", len(job.animation))
    options: dict[str, Any] = {"backend": backend, "background": job.background}
    with films.film(job.animation, job.cameras, progress=report, **options) as frames:
        job.frames = frames
        yield


def _require(format: Format, name: str) -> None:
    """Raise before any work if an extra is missing."""
    try:
        there = format.module is None or find_spec(format.module) is not None
    except (ImportError, ValueError):  # blocked, or partly installed
        there = False
    if not there:
        raise InputError(
            f"format {name!r} needs {format.module}; "
            f"install it with: pip install 'newtongs[{format.extra}]'"
        )


def _checked(camera: Camera | Sequence[Camera], frames: int) -> Camera | Sequence[Camera]:
    """Check that there is one camera, or one per frame."""
    if not isinstance(camera, Camera) and len(camera) != frames:
        raise InputError(
            f"camera: expected one, or one for each of {frames} frames, got {len(camera)}"
        )
    return camera


def _check_name(name: str) -> None:
    if not name or Path(name).name != name or name in (".", ".."):
        raise InputError(f"name: expected a file name without folders, got {name!r}")


def _check_folder(folder: Path) -> None:
    """Check that the folder is writable, before minutes of rendering."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot write into {folder}: {reason}") from error
