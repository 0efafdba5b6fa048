"""How much an export will take, told before the work: memory to draw, room for what is written."""

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from ..limits import MANY_BYTES, free_bytes, no_room
from ..scene.gaussians import GaussianScene

# That drawing a pixel takes, of all buffers together: measured 20 with ewa and 100 with light.
PIXEL_BYTES, OF_RENDERER = 48, {"light": 120}
GAUSSIAN_VALUES = 15  # floats of a Gaussian in a .ply beside its colour
TOLD = 10**9  # bytes from which a sequence is worth a line


@dataclass(frozen=True)
class Estimate:
    """What an export is made of."""

    frames: int
    size: tuple[int, int]
    """Width and height of a picture in pixels; what is not drawn has none."""
    gaussians: int = 0
    """Of a frame; 0 where no sequence is written."""
    colors: int = 1
    """Coefficients of colour a channel."""
    pixel_bytes: int = PIXEL_BYTES
    """Of memory, that the renderer takes."""

    @property
    def pixels(self) -> int:
        """Of one picture."""
        return self.size[0] * self.size[1]

    @property
    def drawing(self) -> int:
        """Bytes of memory while a picture is drawn."""
        return self.pixel_bytes * self.pixels

    @property
    def pictures(self) -> int:
        """Bytes of all pictures, in a temporary file."""
        return 3 * self.pixels * self.frames

    @property
    def sequence(self) -> int:
        """Bytes of a .ply a frame."""
        return 4 * (GAUSSIAN_VALUES + 3 * self.colors) * self.gaussians * self.frames

    def told(self) -> Iterable[str]:
        """Lines about what is large."""
        if self.sequence > TOLD:
            yield f"a .ply a frame: {self.sequence / 1e9:,.1f} GB in {self.frames:,} files"

    def check(self, out: Path, *, sure: bool) -> None:
        """Refuse what cannot end well; a large sequence only where nobody said that it is meant."""
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
                f"a .ply a frame takes {self.sequence / 1e9:,.1f} GB: {self.frames:,} frames of "
                f"{self.gaussians:,} Gaussians; {free_bytes(out) / 1e9:,.1f} GB are free in {out}; "
                "write fewer frames or another format, cut colour with --sh-degree 0, or say --yes"
            )


def estimated(
    frames: int,
    size: tuple[int, int],
    scenes: Sequence[GaussianScene],
    sh_degree: int | None,
    renderer: str = "auto",
) -> Estimate:
    """Of a film of ``frames``, and of a sequence of the scenes together, if there are some."""
    degrees = [min(x.sh_degree, 3 if sh_degree is None else sh_degree) for x in scenes]
    colors = (max(degrees, default=0) + 1) ** 2
    pixel_bytes = OF_RENDERER.get(renderer, PIXEL_BYTES)
    return Estimate(frames, size, sum(map(len, scenes)), colors, pixel_bytes)


def available_memory() -> int | None:
    """Bytes that a process can still have; None where the system does not say."""
    try:
        with open("/proc/meminfo") as f:
            found = next((line for line in f if line.startswith("MemAvailable:")), None)
    except OSError:
        return None
    return None if found is None else 1024 * int(found.split()[1])
