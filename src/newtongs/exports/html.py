"""One self-contained page that plays the animation in any browser with WebGL 2, offline.

The viewer is ``player.html``: sorted Gaussians with true covariances, orbit, play, pause, scrub.
Its numbers are described in :mod:`newtongs.exports.page_data`: exact or, for many Gaussians or on
request, compressed to about a third. The browser decompresses them.
"""

import html
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..base.errors import InputError
from ..base.files import existing_file, foreign, parsed_json, silent, write_atomically
from ..base.types import Progress
from ..scene.animation import Animation, NodeTrack
from ..scene.cameras import Camera
from ..scene.gaussians import GaussianScene
from ..views.framing import default_camera
from . import page_data
from .parts import ExportPart, parts, to_json

TEMPLATE = Path(__file__).with_name("player.html")
WHITE = (1.0, 1.0, 1.0)
EXACT_DEGREE = 1  # degree of colour in a page that is not compressed
MANY = 300_000  # Gaussians from which a page is compressed by default
META_BEGINS = b'id="meta">'
DATA_BEGINS = b'</script>\n<script type="text/plain" id="data">'


def write_html(
    animation: Animation,
    path: Path | str,
    *,
    camera: Camera | None = None,
    title: str = "newtongs",
    background: Sequence[float] = WHITE,
    sh_degree: int | None = None,
    compress: bool | None = None,
    progress: Progress = silent,
) -> None:
    """Write a page that plays, atomically.

    The other arguments are those of :func:`html_page`.
    """
    page = html_page(
        animation, camera=camera, title=title, background=background, sh_degree=sh_degree,
        compress=compress, progress=progress,
    )  # fmt: skip
    write_atomically(Path(path), lambda f: f.write(page))


def html_page(
    animation: Animation,
    *,
    camera: Camera | None = None,
    title: str = "newtongs",
    background: Sequence[float] = WHITE,
    sh_degree: int | None = None,
    compress: bool | None = None,
    progress: Progress = silent,
) -> bytes:
    """A page that plays, as UTF-8.

    Args:
        animation: what moves.
        camera: first view, from which the viewer orbits; default one that shows the whole motion.
        title: shown in the corner and in the window's title bar.
        background: RGB of the background.
        sh_degree: highest degree of view-dependent colour. Default: 1, as the page grows with it;
            all in a compressed page, where it costs next to nothing.
        compress: a third of the size, rounded; None compresses from 300,000 Gaussians.
        progress: called as ``progress(what, done, of)``: a large page takes a minute.
    """
    small = is_compressed(animation, compress)
    degree = sh_degree if small or sh_degree is not None else EXACT_DEGREE
    pieces = parts(animation, sh_degree=degree)
    numbers = page_data.compressed(pieces, progress) if small else page_data.exact(pieces)
    data, groups = numbers.deflated(progress), _groups(pieces)
    meta = {
        "bytes": len(data),
        "count": sum(part.size for part in pieces),
        "groups": [g | ends for g, ends in zip(groups, numbers.ends, strict=True)],
        "times": (animation.times - animation.times[0]).double().tolist(),
        "camera": _camera(animation, camera or default_camera(animation)),
        "up": animation.world.up.tolist(),
        "background": _color(background),
        **numbers.about,
    }
    return _fill(title=html.escape(title), meta=_inline(meta), data=page_data.to_text(data))


def is_compressed(animation: Animation, compress: bool | None) -> bool:
    """Whether the page of an animation is compressed, by request or by its size."""
    return len(animation.scene) >= MANY if compress is None else compress


def read_html(path: Path | str) -> GaussianScene:
    """The Gaussians that a page of :func:`write_html` shows at the start, without object ids."""
    path = existing_file(path, "a page that newtongs wrote")
    with foreign(path, "a page of newtongs"):
        page = path.read_bytes()
        _, begins, rest = page.partition(META_BEGINS)
        meta, between, rest = rest.partition(DATA_BEGINS)
        data, ends, _ = rest.partition(b"</script>")
        if not (begins and between and ends):
            raise InputError(f"{path} is not a page that newtongs wrote, or of an older version")
        return page_data.gaussians(path, page_data.from_text(data), parsed_json(path, meta))


def _fill(*, title: str, meta: str, data: bytes) -> bytes:
    """The player with its placeholders replaced, in a single pass."""
    filled = {b"TITLE": title.encode(errors="replace"), b"META": meta.encode(), b"DATA": data}
    pieces = re.split(rb"%%(TITLE|META|DATA)%%", TEMPLATE.read_bytes())
    pieces[1::2] = [filled[name] for name in pieces[1::2]]
    return b"".join(pieces)


def _inline(value: Any) -> str:
    """JSON that cannot end the script element that contains it."""
    return to_json(value).replace("<", "\\u003c")


def _color(background: Sequence[float]) -> list[float]:
    color = [float(x) for x in background]
    if len(color) != 3:
        raise InputError(f"background: expected three numbers, got {len(color)}")
    return color


def _groups(pieces: list[ExportPart]) -> list[dict[str, Any]]:
    """Ranges of Gaussians and their tracks; static ones have none."""
    groups, first = [], 0
    for part in pieces:
        track = None if part.node_track is None else _track(part.node_track)
        groups.append({"first": first, "count": part.size, "track": track})
        first += part.size
    return groups


def _track(place: NodeTrack) -> dict[str, Any]:
    tracks = {"p": place.translation, "q": place.rotation, "s": place.scale}
    return {name: _short(x) for name, x in tracks.items()}


def _short(x: Tensor) -> list[list[float]]:
    """Rows with nine digits, which distinguish any two float32."""
    return [[float(f"{v:.9g}") for v in row] for row in x.tolist()]


def _camera(animation: Animation, camera: Camera) -> dict[str, Any]:
    """The first view and its orbit centre: the point on its axis nearest to the motion."""
    w2c, K = camera.w2c.double(), camera.K.double()
    R, eye = w2c[:3, :3], camera.position.double()
    depth = max(float((_middle(animation) - eye) @ R[2]), 1e-3)
    return {
        "R": R.tolist(),
        "eye": eye.tolist(),
        "target": (eye + depth * R[2]).tolist(),
        "fx": float(K[0, 0]),
        "fy": float(K[1, 1]),
        "cx": float(K[0, 2]),
        "cy": float(K[1, 2]),
        "width": camera.width,
        "height": camera.height,
    }


def _middle(animation: Animation) -> Tensor:
    """The mean position ``(3,)`` of everything that moves, or else of the scene."""
    tracks = [animation.node_track(i).translation for i in animation.states]
    return (torch.cat(tracks) if tracks else animation.scene.means.double()).mean(0).cpu()
