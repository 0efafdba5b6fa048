"""``newtongs l4gm``: what the comparison with L4GM needs on this side."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from .apps import app
from .console import check_folder, progress_bar

l4gm = app.group("l4gm", "Clips for L4GM, whose dumps make its row of Table 2.")


@l4gm.command(name="export")
@dataclass(frozen=True)
class L4GMExport:
    """Write what L4GM is given of Same-32: a clip a motion, and its first frame in four views.

    newtongs l4gm export --same32 data/same32 --out l4gm

    Writes OUT/videos/NAME.mp4 (49 frames of view 0, 256x256, 24 frames a second, the object on
    white), OUT/workspace/NAME_000.png to NAME_003.png, and OUT/manifest_l4gm.csv. Run L4GM on them
    with the few added lines of docs/l4gm.md, so that it leaves NAME.npy with its Gaussians; then
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
        """Export, and say what was written."""
        from ..evaluation.l4gm_clips import export_l4gm
        from ..render.video import film_library

        check_folder(self.out)
        film_library("imageio_ffmpeg")  # what is not installed is told now
        with progress_bar("clips") as advance:
            path = export_l4gm(self.same32, self.out, motions=self.motions, progress=advance)
        print(f"clips in {self.out / 'videos'}, first frames in {self.out / 'workspace'}")
        print(f"listed in {path}")
