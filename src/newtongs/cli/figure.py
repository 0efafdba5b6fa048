"""``newtongs figure``: pictures of the data sets."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ..errors import InputError
from ..figures.gallery import gaussian32_gallery
from ..figures.motions import motion_gallery
from .apps import figure
from .console import check_target, progress_bar


@figure.command(name="motions")
@dataclass(frozen=True)
class FigureMotions:
    """Draw trajectories of all 32 motion families in one picture."""

    resumes: ClassVar[bool] = False
    out: Path = Path("state32.png")
    """Picture to write; the ending decides the format (png, svg, pdf)."""
    paths: int = 4
    """Sequences of each family."""
    seed: int = 7301
    """Seed of the draw."""

    def run(self) -> None:
        """Draw, and say where it is."""
        if self.paths < 1:
            raise InputError(f"paths must be at least 1, got {self.paths}")
        check_target(self.out)
        print(f"picture written to {motion_gallery(self.out, paths=self.paths, seed=self.seed)}")


@figure.command(name="gaussian32")
@dataclass(frozen=True)
class FigureGaussian32:
    """Draw the ten scenes of Gaussian-32, their stored views, and six frames of four motions."""

    resumes: ClassVar[bool] = False
    out: Path = Path("gaussian32")
    """Folder for the pictures."""

    def run(self) -> None:
        """Draw, and say where they are."""
        with progress_bar("scenes") as advance:
            paths = gaussian32_gallery(self.out, progress=advance)
        print(f"{len(paths)} pictures written to {self.out}")
