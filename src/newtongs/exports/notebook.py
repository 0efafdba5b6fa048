"""An animation as the value of a notebook cell: a page that plays inside the notebook.

The player is a sandboxed frame with all its data: it needs no network and no kernel, and still
plays in a saved notebook. What would make the notebook too large is shown as a few pictures, with
the line of code that writes the page.
"""

import base64
import html
import tempfile
import webbrowser
from pathlib import Path

import numpy as np

from ..base.process import one_thread
from ..render import render_frames
from ..render.video import contact_sheet, to_bytes
from ..scene.animation import Animation
from ..views.viewpoints import clear_camera
from .html import html_page, write_html

LARGEST_PAGE = 10_000_000  # largest page in bytes that is embedded in a notebook
MOST_GAUSSIANS = 600_000  # most Gaussians for which a page is tried
PICTURE_SIZE = 640, 400  # pixels
PICTURES, COLUMNS, SMALL = 4, 4, (240, 180)


@one_thread()
def notebook_html(animation: Animation) -> str:
    """Markup of the animation: it plays, or above 10 MB is shown as pictures."""
    if len(animation.scene) <= MOST_GAUSSIANS:
        camera = clear_camera(animation, PICTURE_SIZE)
        page = html_page(animation, camera=camera, compress=True, sh_degree=1)
        if len(page) <= LARGEST_PAGE:
            return _frame(page)
        return _poster(animation, f"{len(page) / 1e6:.0f} MB")
    return _poster(animation, f"{len(animation.scene):,} Gaussians")


def show(animation: Animation) -> Path:
    """Open a page that plays in the browser; returns where it was written."""
    path = Path(tempfile.mkdtemp(prefix="newtongs-")) / "animation.html"
    write_html(animation, path, camera=clear_camera(animation, PICTURE_SIZE))
    if not webbrowser.open(path.as_uri()):
        print(f"no browser was found; open {path}")
    return path


def _frame(page: bytes) -> str:
    width, height = PICTURE_SIZE
    style = f"width:100%;max-width:{width}px;height:{height}px;border:0"
    text = html.escape(page.decode(), quote=True)
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{text}"></iframe>'


def _poster(animation: Animation, size: str) -> str:
    """A few frames, and how to see all of them."""
    line = html.escape('animation.save("out/animation", formats=["html", "mp4"])')
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
