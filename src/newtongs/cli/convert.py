"""``newtongs convert``: a splat file in another format."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import tyro

from ..base.errors import InputError
from ..base.files import require_ending
from .apps import app
from .console import check_scene, check_target, progress_bar

if TYPE_CHECKING:
    from torch import Tensor

    from ..base.types import Progress
    from ..scene.cameras import Camera
    from ..scene.gaussians import GaussianScene


@app.command(name="convert")
@dataclass(frozen=True)
class Convert:
    """Convert a splat file to another format, and report its size and the loss in dB.

    .ply keeps everything. .sog, .spz, .compressed.ply and .compressed.glb look the same at a tenth
    to a quarter of the size; .glb is glTF, for viewers; .splat drops view-dependent colour.

    newtongs convert garden.ply garden.sog

    newtongs convert scan.spz scan.ply --axes RDF
    """

    resumes: ClassVar[bool] = False
    scene: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SCENE")] = ""
    """Splat file, SOG folder, or the name of a built-in scene."""
    out: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")] = ""
    """File to write. Its extension sets the format: .ply, .compressed.ply, .spz, .sog, .splat,
    .glb, .compressed.glb."""
    axes: str | None = None
    """Where +x, +y and +z of the input file point, if not as its format defines: RDF (right, down,
    front) for an .spz with the axes of a .ply; RUB, LUF, RBU, ..."""
    level: int | None = None
    """Level of detail of a lod-meta.json; 0 is the finest. Default: the finest level with at most 4
    million Gaussians."""
    sh_degree: Literal[0, 1, 2, 3] | None = None
    """Highest spherical-harmonics degree of view-dependent colour to keep. Default: all."""
    loss: bool = True
    """Measure the loss: read the new file and compare pictures from four sides. --no-loss saves
    that time."""

    def run(self) -> None:
        """Check the flags, convert, and report size and loss."""
        if not (self.scene and self.out):
            raise InputError("name two files: newtongs convert SCENE.ply OUT.sog")
        check_scene(self.scene)
        out = Path(self.out)
        check_target(out)
        require_ending(out)
        if Path(self.scene).exists() and out.exists() and out.samefile(self.scene):
            raise InputError(f"{out} would overwrite its own input; give another name")
        from ..formats.files import require_writer, save
        from ..pipeline.source import open_source

        require_writer(out)
        with progress_bar("steps") as advance:
            advance("reading", 0, 1)
            scene = open_source(self.scene, self.axes, self.level).scene
            advance("reading", 1, 1)
            save(self.cut(scene), out, progress=advance)
            size, n = out.stat().st_size, len(scene)
            print(f"{out}  {size / 1e3:,.0f} kB, {n:,} Gaussians, {size / n:.1f} bytes each")
            if self.loss:
                seen = views(scene, advance)
                del scene  # two large scenes would not fit in memory
                print(f"loss: {lost(seen, out, advance)}")

    def cut(self, scene: "GaussianScene") -> "GaussianScene":
        """The scene with colour up to the requested degree."""
        from ..exports.parts import cut

        return cut(scene, self.sh_degree)


def views(scene: "GaussianScene", advance: "Progress") -> "list[tuple[Camera, Tensor]]":
    """Pictures of a scene from four sides, with their cameras."""
    from ..exports.loss import around, picture

    cameras = around(scene)
    seen = []
    for camera in cameras:
        seen.append((camera, picture(scene, camera)))
        advance("pictures", len(seen), 2 * len(cameras))
    return seen


def lost(seen: "list[tuple[Camera, Tensor]]", out: Path, advance: "Progress") -> str:
    """The difference between the pictures and those of the file, as text."""
    from ..exports.loss import between, picture
    from ..formats.files import load

    got, pairs = load(out), []
    for camera, wanted in seen:
        pairs.append((wanted, picture(got, camera)))
        advance("pictures", len(seen) + len(pairs), 2 * len(seen))
    decibels = between(pairs)
    return "none: the pictures are the same" if decibels > 119 else f"{decibels:.1f} dB"
