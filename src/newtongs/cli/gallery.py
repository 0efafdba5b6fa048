"""``newtongs gallery``: the paper's scene-aware stress tests."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from .apps import app
from .console import check_target, progress_bar


@app.command(name="gallery")
@dataclass(frozen=True)
class Gallery:
    """Draw the twelve background stress tests: the trained model moving objects in ten scenes.

    Six frames each, from a fixed camera; nothing is retouched. Where the object leaves the picture
    the reason stands beside the row. With --framing fit the camera follows the object instead.
    """

    resumes: ClassVar[bool] = False
    out: Path = Path("gallery.png")
    """Picture to write (.png)."""
    seed: int = 7301
    """Which trained model: 7301, 7302 or 7303."""
    framing: Literal["paper", "fit"] = "paper"
    """paper: the fixed view 0 of the paper's protocol. fit: a camera that follows the object."""

    def run(self) -> None:
        """Draw, and say where it is."""
        from ..figures.stress import stress_gallery

        check_target(self.out)
        with progress_bar("strips") as advance:
            drawn = stress_gallery(self.out, seed=self.seed, framing=self.framing, progress=advance)
        for name, reason in drawn.facts["reasons"].items():
            print(f"{name}: {reason}")
        print(f"picture written to {drawn.paths[0]}")
