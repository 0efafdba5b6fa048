"""``newtongs convert``: a splat file in another format."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import tyro

from ..errors import InputError
from ..files import require_ending
from .apps import app
from .console import check_scene, check_target, progress_bar

if TYPE_CHECKING:
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
        self.tell(scene, out)

    def cut(self, scene: "GaussianScene") -> "GaussianScene":
        """With colour of the degree asked for."""
        from ..exports.parts import cut

        return cut(scene, self.sh_degree)

    def tell(self, scene: "GaussianScene", out: Path) -> None:
        """Size, and loss."""
        size = out.stat().st_size
        print(f"{out}  {size / 1e3:,.0f} kB, {len(scene):,} Gaussians, {size / len(scene):.1f} "
              "bytes each")  # fmt: skip
        if not self.loss:
            return
        from ..exports.loss import around, loss
        from ..scene.io.formats import load

        with progress_bar("pictures") as advance:
            advance("loss", 0, 1)
            decibels = loss(scene, load(out), around(scene))
            advance("loss", 1, 1)
        exact = "none: the pictures are the same" if decibels > 119 else f"{decibels:.1f} dB"
        print(f"loss: {exact}")
