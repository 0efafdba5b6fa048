"""An animation as the value of a notebook's cell: a page that plays, within the page.

The player lives in a frame of its own, sandboxed, with all its numbers: it needs no network and no
kernel, and goes on playing in a notebook that was only saved. What would make the notebook too
large is shown as a few pictures, with the line that writes the page.
"""

import base64
import html
import tempfile
from pathlib import Path

import numpy as np

from ..render import render_frames
from ..render.video import contact_sheet, to_bytes
from ..render.viewpoints import clear_camera
from ..scene.animation import Animation
from ..threads import one_thread
from .html import html_page

LARGEST = 10_000_000  # bytes of a page that is kept in a notebook
MOST = 600_000  # Gaussians of one that is tried
SIZE = 640, 400  # pixels
PICTURES, COLUMNS, SMALL = 4, 4, (240, 180)


@one_thread()
def shown(animation: Animation) -> str:
    """Markup of the animation: it plays, or above 10 MB stands still and says so."""
    if len(animation.scene) <= MOST:
        camera = clear_camera(animation, SIZE)
        page = html_page(animation, camera=camera, compress=True, sh_degree=1)
        if len(page) <= LARGEST:
            return _frame(page)
        return _poster(animation, f"{len(page) / 1e6:.0f} MB")
    return _poster(animation, f"{len(animation.scene):,} Gaussians")


def _frame(page: bytes) -> str:
    width, height = SIZE
    style = f"width:100%;max-width:{width}px;height:{height}px;border:0"
    text = html.escape(page.decode(), quote=True)
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{text}"></iframe>'


def _poster(animation: Animation, size: str) -> str:
    """A few frames, and what to do for all of them."""
    line = html.escape('newtongs.export(animation, "out", ["html", "mp4"])')
    data = base64.b64encode(_pictures(animation)).decode()
    return (
        f'<img style="max-width:100%" src="data:image/png;base64,{data}">'
        f"<p>{len(animation)} frames; {size} are too many for a notebook. "
        f"<code>{line}</code> writes files that play.</p>"
    )


def _pictures(animation: Animation) -> bytes:
    """Some frames side by side, as png."""
    film, camera = animation.frames(), clear_camera(animation, SMALL)
    chosen = np.linspace(0, len(animation) - 1, PICTURES).round().astype(int)
    drawn = [to_bytes(one) for one in render_frames((film[int(t)] for t in chosen), camera)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "frames.png"
        contact_sheet(drawn, COLUMNS, path)
        return path.read_bytes()
