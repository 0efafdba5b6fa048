"""``newtongs gallery``: the paper's scene-aware stress tests."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ..figures.stress import stress_gallery
from .apps import app
from .console import check_target, progress_bar


@app.command(name="gallery")
@dataclass(frozen=True)
class Gallery:
    """Draw the twelve background stress tests: the trained model moving objects in ten scenes.

    Six frames each, from a fixed camera; nothing is retouched, so objects that leave the picture or
    sink into the floor are seen to do so.
    """

    resumes: ClassVar[bool] = False
    out: Path = Path("gallery.png")
    """Picture to write (.png)."""
    seed: int = 7301
    """Which trained model: 7301, 7302 or 7303."""

    def run(self) -> None:
        """Draw, and say where it is."""
        check_target(self.out)
        with progress_bar("strips") as advance:
            path = stress_gallery(self.out, seed=self.seed, progress=advance)
        print(f"picture written to {path}")
