"""One self-contained page that plays the animation in any browser with WebGL 2, offline.

The viewer is ``player.html``: sorted Gaussians with true covariances, orbit, play, pause, scrub.
The numbers follow each other in one base64 block, little-endian:

=========================  ==========  ==========================================================
means                      float32 x3  exact
quaternions, scalar first  int16 x4    of 32767: within 2e-5
log scales                 uint16 x3   between the least and the largest: within 0.05 %
colour and opacity         uint8 x4    colour without direction, clamped to [0, 1]
view-dependent colour      int8 x3     each further coefficient, of the largest: optional
=========================  ==========  ==========================================================

30 bytes a Gaussian, and 9, 24 or 45 more for colour of degree 1, 2 or 3.
"""

import base64
import html
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..errors import InputError
from ..files import write_atomically
from ..scene.animation import Animation, Placement
from ..scene.cameras import Camera
from ..scene.framing import default_camera
from ..scene.gaussians import GaussianScene, join
from .parts import Part, parts, to_json

TEMPLATE = Path(__file__).with_name("player.html")
WHITE = (1.0, 1.0, 1.0)
THIN = math.log(1e-9)  # thinner Gaussians are drawn alike, and would spoil the range of the others


def write_html(
    animation: Animation,
    path: Path | str,
    *,
    camera: Camera | None = None,
    title: str = "newtongs",
    background: Sequence[float] = WHITE,
    sh_degree: int = 1,
) -> None:
    """Write a page that plays.

    Args:
        animation: what moves.
        path: file to write; it appears whole or not at all.
        camera: first view, which the viewer orbits away from; default one that sees all motion.
        title: shown in the corner and in the window's bar.
        background: RGB where nothing is.
        sh_degree: cut view-dependent colour off above this degree; the page grows with it.
    """
    pieces = parts(animation, sh_degree=sh_degree)
    scene = join(*(part.scene for part in pieces))
    numbers, ranges = _pack(scene)
    meta = {
        "count": len(scene),
        "groups": _groups(pieces),
        "times": (animation.times - animation.times[0]).double().tolist(),
        "camera": _camera(animation, camera or default_camera(animation)),
        "up": animation.world.up.tolist(),
        "background": _color(background),
        **ranges,
    }
    page = _fill(title=html.escape(title), meta=_inline(meta), data=base64.b64encode(numbers))
    write_atomically(Path(path), lambda f: f.write(page))


def _fill(*, title: str, meta: str, data: bytes) -> bytes:
    """The player with its three blanks filled, each once: what is filled in is not searched."""
    page = TEMPLATE.read_bytes().replace(b"%%TITLE%%", title.encode())
    head, _, rest = page.partition(b"%%META%%")
    middle, _, tail = rest.partition(b"%%DATA%%")
    return b"".join([head, meta.encode(), middle, data, tail])


def _inline(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    return to_json(value).replace("<", "\\u003c")


def _color(background: Sequence[float]) -> list[float]:
    color = [float(x) for x in background]
    if len(color) != 3:
        raise InputError(f"background: expected three numbers, got {len(color)}")
    return color


def _groups(pieces: list[Part]) -> list[dict[str, Any]]:
    """Which Gaussians follow which track; the still ones follow none."""
    groups, first = [], 0
    for part in pieces:
        track = None if part.placement is None else _track(part.placement)
        groups.append({"first": first, "count": len(part.scene), "track": track})
        first += len(part.scene)
    return groups


def _track(place: Placement) -> dict[str, Any]:
    tracks = {"p": place.translation, "q": place.rotation, "s": place.scale}
    return {name: _short(x) for name, x in tracks.items()}


def _short(x: Tensor) -> list[list[float]]:
    """Rows with nine digits, which tell any two float32 apart."""
    return [[float(f"{v:.9g}") for v in row] for row in x.tolist()]


def _camera(animation: Animation, camera: Camera) -> dict[str, Any]:
    """The first view, and what it turns about: the point before it nearest to the motion."""
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
    """The mean position ``(3,)`` of everything that moves; of the scene when nothing does."""
    tracks = [animation.placement(i).translation for i in animation.states]
    return (torch.cat(tracks) if tracks else animation.scene.means.double()).mean(0).cpu()


def _pack(scene: GaussianScene) -> tuple[bytes, dict[str, Any]]:
    """The numbers of the docstring above, and what is needed to read them."""
    logs = scene.log_scales.clamp_min(THIN)
    low, high = float(logs.min()), float(logs.max())
    rest = scene.sh[:, 1:]
    peak = float(rest.abs().max()) if rest.numel() else 0.0
    step = peak / 127 or 1.0
    rgba = torch.cat([scene.colors, scene.opacities.unsqueeze(-1)], -1).clamp(0, 1)
    arrays = [
        (scene.means, "<f4"),
        (32767 * scene.quats, "<i2"),
        ((logs - low) * (65535 / ((high - low) or 1.0)), "<u2"),
        (255 * rgba, "u1"),
        (rest / step, "i1"),
    ]
    ranges = {"log_scales": [low, high], "sh": {"coefficients": rest.shape[1], "step": step}}
    return b"".join(_rounded(x, kind).tobytes() for x, kind in arrays), ranges


def _rounded(x: Tensor, kind: str) -> npt.NDArray[Any]:
    array = x.detach().cpu().numpy()
    return (array if kind == "<f4" else np.rint(array)).astype(kind)
