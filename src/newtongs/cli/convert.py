"""``newtongs convert``: a splat file in another format."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import tyro

from ..errors import InputError
from ..files import require_ending
from .apps import app
from .console import Advance, check_scene, check_target, progress_bar

if TYPE_CHECKING:
    from torch import Tensor

    from ..scene.cameras import Camera
    from ..scene.gaussians import GaussianScene


@app.command(name="convert")
@dataclass(frozen=True)
class Convert:
    """Write a splat file in another format, and tell its size and what was lost, in dB.

    .ply keeps everything. .sog, .spz, .compressed.ply and .compressed.glb are a tenth to a quarter
    as large and look the same; .glb is glTF, for viewers; .splat drops view-dependent colour.

    newtongs convert garden.ply garden.sog

    newtongs convert scan.spz scan.ply --axes RDF
    """

    resumes: ClassVar[bool] = False
    scene: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SCENE")] = ""
    """Splat file or SOG folder, or one of our own scenes by name."""
    out: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")] = ""
    """File to write; its ending names the format: .ply, .compressed.ply, .spz, .sog, .splat, .glb,
    .compressed.glb."""
    axes: str | None = None
    """Where +x, +y, +z of the file read point, if not where its format says: RDF (right, down,
    front) for an .spz that holds a .ply's axes, RUB, LUF, RBU, ..."""
    level: int | None = None
    """Level of detail of a lod-meta.json; 0 is the finest. Default: the finest of up to 4 million
    Gaussians."""
    sh_degree: Literal[0, 1, 2, 3] | None = None
    """Cut view-dependent colour off above this degree."""
    loss: bool = True
    """Read the file again and compare pictures from four sides. --no-loss saves that time."""

    def run(self) -> None:
        """Check, convert, and say what came of it."""
        if not (self.scene and self.out):
            raise InputError("name two files: newtongs convert SCENE.ply OUT.sog")
        check_scene(self.scene)
        out = Path(self.out)
        check_target(out)
        require_ending(out)
        if Path(self.scene).exists() and out.exists() and out.samefile(self.scene):
            raise InputError(f"{out} would be written over itself; give another name")
        from ..scene.io.formats import require_writer, save
        from ..stage import opened

        require_writer(out)
        with progress_bar("steps") as advance:
            advance("reading", 0, 1)
            scene = opened(self.scene, self.axes, self.level).scene
            advance("reading", 1, 1)
            save(self.cut(scene), out, progress=advance)
            size, n = out.stat().st_size, len(scene)
            print(f"{out}  {size / 1e3:,.0f} kB, {n:,} Gaussians, {size / n:.1f} bytes each")
            if self.loss:
                seen = views(scene, advance)
                del scene  # one at a time: large scenes fill the memory
                print(f"loss: {lost(seen, out, advance)}")

    def cut(self, scene: "GaussianScene") -> "GaussianScene":
        """With colour of the degree asked for."""
        from ..exports.parts import cut

        return cut(scene, self.sh_degree)


def views(scene: "GaussianScene", advance: Advance) -> "list[tuple[Camera, Tensor]]":
    """Pictures of a scene from four sides, and the cameras."""
    from ..exports.loss import around, picture

    cameras = around(scene)
    seen = []
    for camera in cameras:
        seen.append((camera, picture(scene, camera)))
        advance("pictures", len(seen), 2 * len(cameras))
    return seen


def lost(seen: "list[tuple[Camera, Tensor]]", out: Path, advance: Advance) -> str:
    """How much the pictures of the file differ, in words."""
    from ..exports.loss import between, picture
    from ..scene.io.formats import load

    got, pairs = load(out), []
    for camera, wanted in seen:
        pairs.append((wanted, picture(got, camera)))
        advance("pictures", len(seen) + len(pairs), 2 * len(seen))
    decibels = between(pairs)
    return "none: the pictures are the same" if decibels > 119 else f"{decibels:.1f} dB"
