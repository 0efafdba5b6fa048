"""``newtongs figure first-frame``: from an LGM file to the figures of Appendix F."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import tyro

from ..base.errors import InputError
from .apps import figure
from .console import check_folder, check_scene, progress_bar, write_json
from .figure import check_size, tell

if TYPE_CHECKING:
    from ..paper.figures.first_frame import FirstFrame, Region
    from ..scene.cameras import Camera
    from ..scene.gaussians import GaussianScene

STAND_IN = "bowling"
CANDIDATES = 65_536  # newtongs.dynamics.search's, which takes seconds to import
FOOTPRINT = 0.75  # newtongs.segment.objects.grouping's, likewise


@figure.command(name="first-frame")
@dataclass(frozen=True)
class FigureFirstFrame:
    """Move the object of a pretrained first-frame reconstruction (LGM), and draw six frames.

    A circle and a depth interval in the reference view select the object; other Gaussians in a
    smaller footprint (its ghosts) are removed; the rest stays still. The first state is found
    without a scene (65,536 candidates, +0.72 in x within two seconds), and the model's
    displacements are applied at the object's centroid, one scene unit per model unit.

    newtongs figure first-frame alley.ply --circle 70 365 22 --depth 1.44 1.56

    Without --circle the reference view is drawn, to choose the object in. `newtongs figure
    first-frame bowling` needs no file: it makes a stand-in for the paper's alley, with ghosts.
    """

    resumes: ClassVar[bool] = False
    scene: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SCENE")] = STAND_IN
    """LGM's output: .ply, or a tensor (..., N, 14) as .pt, .npy or .safetensors; or bowling."""
    out: Path = Path("first_frame")
    """Folder to write to."""
    circle: tuple[float, float, float] | None = None
    """Centre (from the left, from the top) and radius, in pixels of the reference view."""
    depth: tuple[float, float] | None = None
    """Nearest and farthest depth of the object, in scene units."""
    footprint: float = FOOTPRINT
    """Radius of the circle in which ghosts are removed, as a fraction of the circle's."""
    ghost_depth: tuple[float, float] | None = None
    """Remove ghosts only between these depths. Default: at all depths, as in the paper."""
    cameras: Path | None = None
    """Reference view: the first camera of a transforms.json or of a folder of COLMAP text files.
    Default: LGM's own, 512 x 512 pixels, 49.1 degrees, at (0, 0, 1.5)."""
    clips: Path | None = None
    """Folder of public videos (Sora.mp4, ..., or Acceleration/ that contains them) for a second
    figure: the strip above their first and final frames."""
    seed: int = 7301
    """Which trained model: 7301, 7302 or 7303."""
    candidates: int = CANDIDATES
    """Number of first states to try."""
    size: int = 210
    """Width of one picture in pixels."""
    color: tuple[float, float, float] | None = None
    """Background colour, from 0 to 1. Default: white, as in LGM."""

    def run(self) -> None:
        """Draw, and print the paths and what was selected."""
        self.check()
        from ..paper.figures.first_frame import first_frame

        scene, region = self.read()
        camera = self.camera()
        if region is None:
            self.show_view(scene, camera)
            return
        with progress_bar("candidates") as advance:
            moving = first_frame(
                scene, region, camera=camera, seed=self.seed, candidates=self.candidates,
                progress=advance,
            )  # fmt: skip
        self.draw(moving)

    def check(self) -> None:
        """Check the arguments before the work starts."""
        check_folder(self.out)
        check_size(self.size)
        if self.color is not None and not all(0 <= c <= 1 for c in self.color):
            raise InputError(f"color: expected three numbers from 0 to 1, got {self.color}")
        if self.candidates < 1:
            raise InputError(f"candidates must be at least 1, got {self.candidates}")
        check_scene(self.scene)
        if self.clips is not None:
            from ..paper.figures.first_frame import VIDEO_FOLDER
            from ..paper.figures.strips import clips_in

            clips_in(self.clips, VIDEO_FOLDER)

    def read(self) -> "tuple[GaussianScene, Region | None]":
        """The Gaussians, and the region of the object if it is known."""
        from ..formats.files import load
        from ..paper.figures.first_frame import write_stand_in

        known = None
        path = Path(self.scene)
        if self.scene == STAND_IN:
            path = self.out / "bowling_lgm.npy"
            known = write_stand_in(path)
        scene = load(path)
        if self.circle is None and self.depth is None:
            return scene, known
        return scene, self.region(scene)

    def region(self, scene: "GaussianScene") -> "Region":
        """The region of ``--circle`` and ``--depth``; both are needed."""
        from ..paper.figures.first_frame import Region

        if self.circle is None:
            raise InputError("--depth selects nothing without --circle U V R; give both")
        if self.depth is None:
            raise InputError(
                f"--circle needs --depth NEAR FAR; {depths(scene, self.camera(), self.circle)}"
            )
        return Region(self.circle, self.depth, self.footprint, self.ghost_depth)

    def camera(self) -> "Camera":
        """The reference view."""
        from ..formats.camera_files import load_cameras
        from ..paper.figures.first_frame import lgm_camera

        return load_cameras(self.cameras)[0] if self.cameras else lgm_camera()

    def background(self) -> tuple[float, float, float]:
        """The requested colour, or the scene's default."""
        from ..paper.figures.first_frame import STAND_IN_COLOR, WHITE

        plain = STAND_IN_COLOR if self.scene == STAND_IN else WHITE
        return self.color or plain

    def show_view(self, scene: "GaussianScene", camera: "Camera") -> None:
        """Draw the reference view, so that the object can be located in it."""
        from ..render import render, write_png

        path = self.out / "reference.png"
        write_png(path, render(scene, camera, background=self.background()))
        print(
            f"no object selected; the reference view, {camera.width} x {camera.height} pixels, is "
            f"in {path}: find the object there and give --circle U V R --depth NEAR FAR"
        )

    def draw(self, moving: "FirstFrame") -> None:
        """Draw both figures, as far as their input is available, and write the facts."""
        from ..paper.figures import first_frame as figures

        stands_in = self.scene == STAND_IN
        source = "made by code, in place of the paper's LGM asset" if stands_in else self.scene
        with progress_bar("times") as advance:
            drawn = figures.first_frame_figure(
                self.out / "first_frame.png", moving, width=self.size, source=source,
                background=self.background(), progress=advance,
            )  # fmt: skip
        tell(drawn)
        write_json(self.out / "first_frame.json", dict(drawn.facts))
        if self.clips is None:
            print(figures.videos_wanted())
            return
        with progress_bar("times") as advance:
            both = figures.juxtaposed_figure(
                self.out / "with_videos.png", moving, clips=self.clips, width=self.size,
                background=self.background(), source=source, progress=advance,
            )  # fmt: skip
        tell(both)


def depths(scene: "GaussianScene", camera: "Camera", circle: tuple[float, float, float]) -> str:
    """The range of depths in a circle, in words."""
    import torch

    pixels, z = camera.project(scene.means)
    away = torch.linalg.vector_norm(pixels - pixels.new_tensor(circle[:2]), dim=-1)
    inside = z[(z > 0) & (away <= circle[2])]
    if not len(inside):
        return "there is no Gaussian in that circle"
    low, middle, high = (float(inside.quantile(q)) for q in (0, 0.5, 1))
    return (
        f"the {len(inside):,} Gaussians in that circle have depths {low:.4g} to {high:.4g}, "
        f"half of them below {middle:.4g}"
    )
