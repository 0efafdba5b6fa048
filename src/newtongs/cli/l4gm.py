"""``newtongs l4gm``: the input of L4GM, for the comparison with it."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from .apps import app
from .console import check_folder, progress_bar

l4gm = app.group("l4gm", "Export clips for L4GM, whose output makes its row of Table 2.")


@l4gm.command(name="export")
@dataclass(frozen=True)
class L4GMExport:
    """Export Same-32 for L4GM: one clip per motion, and its first frame in four views.

    newtongs l4gm export --same32 data/same32 --out l4gm

    Writes OUT/videos/NAME.mp4 (49 frames of view 0, 256x256, 24 frames per second, the object on
    white), OUT/workspace/NAME_000.png to NAME_003.png, and OUT/manifest_l4gm.csv. Run L4GM on them
    with the few extra lines of docs/l4gm.md, so that it saves its Gaussians as NAME.npy; then
    `newtongs evaluate --same32 data/same32 --l4gm DUMPS` adds its row to Table 2.
    """

    resumes: ClassVar[bool] = False
    same32: Path
    """Same-32 folder, as made by `newtongs data same32`."""
    out: Path = Path("l4gm")
    """Folder to write to."""
    motions: tuple[str, ...] | None = None
    """Which motions, by name (free_fall, damped_bouncing, ...). Default: all 32."""

    def run(self) -> None:
        """Export, and print what was written."""
        from ..paper.evaluation.l4gm import export_l4gm
        from ..render.video import film_library

        check_folder(self.out)
        film_library("imageio_ffmpeg")  # report a missing package before the work
        with progress_bar("clips") as advance:
            path = export_l4gm(self.same32, self.out, motions=self.motions, progress=advance)
        print(f"clips in {self.out / 'videos'}, first frames in {self.out / 'workspace'}")
        print(f"listed in {path}")
