"""``newtongs studio``: the scene in a browser."""

import signal
import time
import webbrowser
from dataclasses import dataclass
from typing import Annotated, ClassVar

import tyro

from ..base.errors import InputError
from .apps import app
from .console import check_scene


@app.command(name="studio")
@dataclass(frozen=True)
class OpenStudio:
    """Click an object in the browser, drag its arrow, watch it fall, and download the result.

    Clicking an object extracts it from the scene; the arrow is its velocity. "Live" runs the
    simulation in real time, and a click then kicks an object. "Show command and Python" prints the
    code that makes the same animation. Ctrl-C ends the studio.

    newtongs studio scene.ply

    newtongs studio bowling --port 8090 --no-open
    """

    resumes: ClassVar[bool] = False
    scene: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SCENE")] = ""
    """Splat file, the name of a built-in scene, or a project saved by the studio (.json). Default:
    none; choose a scene or open a file in the page."""
    port: int = 8080
    """Port to listen on; the next free one if it is taken."""
    no_open: bool = False
    """Do not open a browser."""
    host: str = "127.0.0.1"
    """Address to listen on. Any address but a local one requires the token that is printed."""
    max_upload: float = 500.0
    """Largest file that the page accepts, in megabytes. Files named on the command line may be
    larger."""

    def run(self) -> None:
        """Open the scene, serve the page, and wait for Ctrl-C."""
        if not 0 <= self.port <= 65535:
            raise InputError(f"--port: expected 0 to 65535, got {self.port}")
        check_scene(self.scene)
        from ..studio.opening import opened_session
        from ..studio.server import Studio

        signal.signal(signal.SIGTERM, signal.default_int_handler)  # then uploads are deleted too
        studio = Studio(
            opened_session(self.scene), host=self.host, port=self.port, max_upload=self.max_upload
        )
        print(f"newtongs studio: {studio.url}  (Ctrl-C ends it)", flush=True)
        if not self.no_open:
            webbrowser.open(studio.url)
        try:
            while True:
                time.sleep(1)
        finally:
            studio.close()
