"""``newtongs figure`` and ``gallery``: pictures of the data sets and of the paper."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from ..base.errors import InputError
from ..paper.figures import MAIN_MOTIONS, PANEL_MOTIONS
from .apps import app, figure
from .console import check_folder, check_target, progress_bar

if TYPE_CHECKING:
    from ..paper.figures.panels import DrawnFigure

SAMPLES = 128  # of each motion in the first shard of the paper's ID split
SMALLEST, LARGEST = 16, 1024  # pixels per side of one picture


@figure.command(name="motions")
@dataclass(frozen=True)
class FigureMotions:
    """Draw trajectories of all 32 motion families in one picture."""

    resumes: ClassVar[bool] = False
    out: Path = Path("state32.png")
    """Picture to write; the suffix sets the format (png, svg, pdf)."""
    paths: int = 4
    """Sequences per family."""
    seed: int = 7301
    """Random seed."""

    def run(self) -> None:
        """Draw, and print the path."""
        if self.paths < 1:
            raise InputError(f"paths must be at least 1, got {self.paths}")
        check_target(self.out)
        from ..paper.figures.motions import motion_gallery

        print(f"picture written to {motion_gallery(self.out, paths=self.paths, seed=self.seed)}")


@figure.command(name="gaussian32")
@dataclass(frozen=True)
class FigureGaussian32:
    """Draw the ten scenes of Gaussian-32, their stored views, and six frames of four motions."""

    resumes: ClassVar[bool] = False
    out: Path = Path("gaussian32")
    """Folder for the pictures."""

    def run(self) -> None:
        """Draw, and print the paths."""
        from ..paper.figures.gallery import gaussian32_gallery

        check_folder(self.out)
        with progress_bar("scenes") as advance:
            paths = gaussian32_gallery(self.out, progress=advance)
        print(f"{len(paths)} pictures written to {self.out}")


@figure.command(name="main")
@dataclass(frozen=True)
class FigureMain:
    """Draw the paper's main figure: motions in five frames, ground truth, baselines, NewtonGS.

    Same-32's cone on the construction floor, seen from the fixed view 0. A blue border marks
    NewtonGS. Writes a .png and an .svg.
    """

    resumes: ClassVar[bool] = False
    out: Path = Path("main.png")
    """Picture to write; an .svg is written beside the .png."""
    motions: tuple[str, ...] = MAIN_MOTIONS
    """Which motions; the paper shows 14 and does not name them."""
    seed: int = 7301
    """Which trained model: 7301, 7302 or 7303."""
    size: int = 96
    """Pixels per side of one picture."""

    def run(self) -> None:
        """Draw, and print the path."""
        from ..paper.figures.rollouts import main_figure

        check_picture(self.out, self.size)
        with progress_bar("motions") as advance:
            drawn = main_figure(
                self.out, chosen=self.motions, seed=self.seed, size=self.size, progress=advance
            )
        tell(drawn)


@figure.command(name="panels")
@dataclass(frozen=True)
class FigurePanels:
    """Draw six frames of State-32 sequences, ground truth beside NewtonGS.

    t = 0, 0.2, 0.4, 0.6, 0.8, 1 from top to bottom. Writes a .png and an .svg.
    """

    resumes: ClassVar[bool] = False
    out: Path = Path("panels.png")
    """Picture to write; an .svg is written beside the .png."""
    motions: tuple[str, ...] = PANEL_MOTIONS
    """Which motions; by default the paper's three."""
    seed: int = 7301
    """Which trained model: 7301, 7302 or 7303."""
    sample: int = 0
    """Which sequence of each motion in State-32's ID split, 0 to 127."""
    size: int = 150
    """Pixels per side of one picture."""

    def run(self) -> None:
        """Draw, and print the path."""
        from ..paper.figures.rollouts import six_frame_panels

        check_picture(self.out, self.size)
        if not 0 <= self.sample < SAMPLES:
            raise InputError(f"sample must be 0 to {SAMPLES - 1}, got {self.sample}")
        with progress_bar("motions") as advance:
            drawn = six_frame_panels(
                self.out, chosen=self.motions, seed=self.seed, sample=self.sample, size=self.size,
                progress=advance,
            )  # fmt: skip
        tell(drawn)


@figure.command(name="strip")
@dataclass(frozen=True)
class FigureStrip:
    """Draw the Common-12 strip of parabolic motion with rotation: four frames of each method.

    NewtonGS is rendered from Same-32 (tumbling_fall, view 0), with a blue border; clips of other
    methods come from a folder. Writes a .png and an .svg.
    """

    resumes: ClassVar[bool] = False
    out: Path = Path("strip.png")
    """Picture to write; an .svg is written beside the .png."""
    clips: Path | None = None
    """Folder with Sora.mp4, Wan.mp4 and so on, or with Parabolic_Motion_with_Rotation/ in it."""
    seed: int = 7301
    """Which trained model: 7301, 7302 or 7303."""

    def run(self) -> None:
        """Draw, and print the path and which clips were missing."""
        from ..paper.figures.strips import common12_strip

        check_target(self.out)
        tell(common12_strip(self.out, clips=self.clips, seed=self.seed))


def check_picture(out: Path, size: int) -> None:
    """Check before the work starts that the picture can be drawn and written."""
    check_target(out)
    check_size(size)


def check_size(size: int) -> None:
    """Check the number of pixels per side."""
    if not SMALLEST <= size <= LARGEST:
        raise InputError(f"size must be {SMALLEST} to {LARGEST} pixels, got {size}")


def tell(drawn: "DrawnFigure") -> None:
    """Print the caption and the paths."""
    print(drawn.caption)
    for path in drawn.paths:
        print(f"picture written to {path}")


@figure.command(name="context")
@dataclass(frozen=True)
class FigureContext:
    """Draw figures of ContextNND: error against states seen, each motion, speed, calibration.

    New sequences are generated, so numbers differ slightly from those of `newtongs evaluate`.
    """

    resumes: ClassVar[bool] = False
    out: Path = Path("context")
    """Folder for seen, motions, response, velocity and calibration (.png and .svg)."""
    per_motion: int = 32
    """Sequences per motion; a few minutes on two CPU cores."""
    context: str = "pretrained"
    """Weights: pretrained, or a .safetensors file made by `newtongs train-context`."""

    def run(self) -> None:
        """Draw, and print the paths."""
        if self.per_motion < 1:
            raise InputError(f"per-motion must be at least 1, got {self.per_motion}")
        check_folder(self.out)
        from ..paper.figures.motions import import_pyplot
        from .evaluate import find_context

        import_pyplot()
        from ..paper.figures.context_nnd import context_figures

        with progress_bar("steps") as advance:
            names = context_figures(
                find_context(self.context), self.out, self.per_motion, progress=advance
            )
        print(f"{', '.join(names)} written to {self.out}")


@app.command(name="gallery")
@dataclass(frozen=True)
class Gallery:
    """Draw the twelve background stress tests: the trained model moving objects in ten scenes.

    Six frames each, from a fixed camera, unretouched. Where the object leaves the picture, the row
    says why. With --framing fit the camera follows the object instead.
    """

    resumes: ClassVar[bool] = False
    out: Path = Path("gallery.png")
    """Picture to write (.png)."""
    seed: int = 7301
    """Which trained model: 7301, 7302 or 7303."""
    framing: Literal["paper", "fit"] = "paper"
    """paper: the fixed view 0 of the paper's protocol. fit: a camera that follows the object."""

    def run(self) -> None:
        """Draw, and print the path."""
        from ..paper.figures.stress import stress_gallery

        check_target(self.out)
        with progress_bar("strips") as advance:
            drawn = stress_gallery(self.out, seed=self.seed, framing=self.framing, progress=advance)
        for name, reason in drawn.facts["reasons"].items():
            print(f"{name}: {reason}")
        print(f"picture written to {drawn.paths[0]}")
