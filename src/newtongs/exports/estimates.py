"""Estimates before an export: memory for rendering, disk space for the files."""

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import InputError, argument
from ..base.files import MANY_BYTES, free_bytes, no_room
from ..base.process import available_memory
from ..scene.gaussians import GaussianScene

# Of all buffers together, for rendering a pixel: measured 20 with ewa and 100 with light.
PIXEL_BYTES, OF_RENDERER = 48, {"light": 120}
GAUSSIAN_VALUES = 15  # floats of a Gaussian in a .ply besides its colour
LARGE_SEQUENCE = 10**9  # bytes above which a sequence is announced


@dataclass(frozen=True)
class Estimate:
    """The size of an export."""

    frames: int
    size: tuple[int, int]
    """Width and height of a picture in pixels; 0 if nothing is rendered."""
    gaussians: int = 0
    """Gaussians per frame; 0 if no sequence is written."""
    colors: int = 1
    """Colour coefficients per channel."""
    pixel_bytes: int = PIXEL_BYTES
    """Bytes of memory per pixel that the renderer needs."""

    @property
    def pixels(self) -> int:
        """Pixels of one picture."""
        return self.size[0] * self.size[1]

    @property
    def drawing(self) -> int:
        """Bytes of memory for rendering a picture."""
        return self.pixel_bytes * self.pixels

    @property
    def pictures(self) -> int:
        """Bytes of all pictures, in a temporary file."""
        return 3 * self.pixels * self.frames

    @property
    def sequence(self) -> int:
        """Bytes of all .ply files, one per frame."""
        return 4 * (GAUSSIAN_VALUES + 3 * self.colors) * self.gaussians * self.frames

    def announcements(self) -> Iterable[str]:
        """Lines that announce large files."""
        if self.sequence > LARGE_SEQUENCE:
            yield f"one .ply per frame: {self.sequence / 1e9:,.1f} GB in {self.frames:,} files"

    def check(self, out: Path, *, sure: bool) -> None:
        """Reject an export that will fail, or a large sequence unless ``sure``."""
        memory = available_memory()
        if memory is not None and self.drawing > memory:
            raise InputError(
                f"a picture of {self.size[0]} x {self.size[1]} pixels takes "
                f"{self.drawing / 1e9:,.1f} GB to draw, {memory / 1e9:,.1f} GB are free; make it "
                "smaller"
            )
        temporary = tempfile.gettempdir()
        if self.pictures > free_bytes(temporary):
            what = f"{self.frames:,} pictures of {self.size[0]} x {self.size[1]} pixels"
            raise InputError(no_room(temporary, self.pictures, what))
        if not sure and self.sequence > min(MANY_BYTES, free_bytes(out)):
            raise InputError(
                f"one .ply per frame takes {self.sequence / 1e9:,.1f} GB: {self.frames:,} frames "
                f"of {self.gaussians:,} Gaussians; "
                f"{free_bytes(out) / 1e9:,.1f} GB are free in {out}; "
                "write fewer frames or another format, reduce colour with "
                f"{argument('sh_degree', '0')}, or confirm with {argument('yes')}"
            )


def estimated(
    frames: int,
    size: tuple[int, int],
    scenes: Sequence[GaussianScene],
    sh_degree: int | None,
    renderer: str = "auto",
) -> Estimate:
    """The size of a film of ``frames``, and of a sequence of the ``scenes`` together, if any."""
    degrees = [min(x.sh_degree, 3 if sh_degree is None else sh_degree) for x in scenes]
    colors = (max(degrees, default=0) + 1) ** 2
    pixel_bytes = OF_RENDERER.get(renderer, PIXEL_BYTES)
    return Estimate(frames, size, sum(map(len, scenes)), colors, pixel_bytes)
