"""The export panel: files, the project, and code that makes the same animation."""

import re
import tempfile
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

from ..scene.cameras import Camera
from . import project
from .controls import Controls, Wired
from .pointing import camera_in_scene
from .session import Session

HEIGHT = 540  # pixels of an exported picture; its width follows the page


class ExportPanel(Controls):
    """The folder "Export"."""

    def clicks(self) -> Wired:
        """See :class:`Controls`; export has its own callback, because the page stays usable."""
        p = self.page.panel
        return (p.project, self.on_project), (p.lines, self.on_lines)

    def camera(self, client: Any) -> Camera:
        """The current camera of a tab, in scene coordinates."""
        seen = client.camera
        size = max(round(HEIGHT * seen.aspect / 2) * 2, 2), HEIGHT
        world = self.page.open_session.world
        return camera_in_scene(world, seen.position, seen.wxyz, seen.fov, size)

    def on_export(self, event: Any) -> None:
        """Write to a temporary folder while the page stays usable, then send the file."""
        made: dict[str, Any] = {}

        def prepare(_: Any) -> None:
            session = self.page.open_session
            made["formats"] = [n for n, box in self.page.panel.formats.items() if box.value]
            made["camera"], made["session"] = self.camera(event.client), session
            made["animation"] = session.animation()

        self.page.guarded(prepare)(event)
        if "animation" in made:
            self.page.attempt(lambda: self._write(event.client, **made))

    def _write(
        self, client: Any, formats: list[str], camera: Camera, session: Session, animation: Any
    ) -> None:
        bar, name = self.page.panel.progress, Path(self.page.shown).stem
        bar.value, bar.visible = 0.0, True
        try:
            with tempfile.TemporaryDirectory(dir=self.page.uploads.folder) as folder:
                session.export(
                    Path(folder), formats, camera=camera, animation=animation, progress=self._report
                )
                file, content = project.packed(Path(folder), name)
            client.send_file_download(file, content, save_immediately=True)
            self.page.inform(f"{file}, {len(content) / 1e6:.1f} MB, is in your downloads")
        finally:
            bar.visible = False

    def _report(self, what: str, done: int, of: int) -> None:
        self.page.panel.progress.value = 100.0 * done / max(of, 1)
        self.page.inform(f"{what}: {done} of {of}")

    def on_project(self, event: Any) -> None:
        """Send the project file."""
        page, session = self.page, self.page.open_session
        name, file = Path(page.shown).stem, project.source(session.recipe)
        private = file is not None and file.is_relative_to(page.uploads.folder)
        scene = None if file is None else page.shown if private else str(file.resolve())
        with tempfile.TemporaryDirectory(dir=page.uploads.folder) as folder:
            session.save(Path(folder) / f"{name}.json", scene=scene)
            sent, content = project.packed(Path(folder), f"{name}_project")
        event.client.send_file_download(sent, content, save_immediately=True)
        page.inform(f"{sent}: unzip it; newtongs studio {name}.json opens it again")

    def on_lines(self, event: Any) -> None:
        """Show the command and the Python code that make the same animation."""
        recipe = changed(self.page.open_session.recipe, scene=self.page.shown)
        blocks = [fenced("python", recipe.python())]
        if not recipe.kicks:
            blocks.insert(0, fenced("bash", recipe.command()))
        self.page.panel.command.content = "\n\n".join(blocks)


def fenced(language: str, code: str) -> str:
    """A block of code in markdown, within a fence that no name in the code can close."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", code)), default=0))
    return f"{fence}{language}\n{code.rstrip()}\n{fence}"
