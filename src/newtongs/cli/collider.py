"""``newtongs collider``: the solid parts of a scene, for other engines."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import tyro

from ..errors import InputError
from .apps import app
from .console import check_scene, check_target

if TYPE_CHECKING:
    from ..pushes import Push
    from ..stage import Stage
    from ..world.colliders import Collider

SIDES = 200  # cells along the longest side of a whole scene


@app.command(name="collider")
@dataclass(frozen=True)
class MakeCollider:
    """Turn a splat scene into solid boxes: one mesh of triangles as .glb, and a picture of it.

    Things collide with the same boxes in `newtongs animate`. Load the .glb into any engine as a
    static collider; it lies over the .glb that animate writes.

    newtongs collider room.ply --out room_collider.glb
    """

    resumes: ClassVar[bool] = False
    scene: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SCENE")] = ""
    """Splat file, or the name of one of our own scenes."""
    out: Path = Path("collider.glb")
    """File to write; the picture gets the same name and .png."""
    select: tuple[str, ...] = ()
    """Objects to leave out because they will move; see newtongs animate. Default: all is solid."""
    cell: float | None = None
    """Edge of the cells that the boxes are merged from, in scene units. Default: 1/200 of the
    scene's longest side; with --select 1/32 of the object's, as in newtongs animate."""
    up: tuple[float, ...] | None = None
    """Up direction of the scene x y z. Default: estimated."""
    axes: str | None = None
    """Where +x, +y, +z of the file point, if not where its format says: RDF (right, down, front)
    for an .spz that holds a .ply's axes, RUB, LUF, RBU, ..."""
    level: int | None = None
    """Level of detail of a lod-meta.json; 0 is the finest. Default: chosen by size."""

    def run(self) -> None:
        """Check, build and write."""
        if not self.scene:
            raise InputError("name a splat file: newtongs collider SCENE.ply --out FILE.glb")
        if self.out.suffix.lower() != ".glb":
            raise InputError(f"--out must end in .glb, got {self.out}")
        if self.cell is not None and not self.cell > 0:
            raise InputError(f"--cell must be positive, got {self.cell:g}")
        picture = self.out.with_suffix(".png")
        check_target(self.out)
        check_target(picture)
        check_scene(self.scene)
        self.make(picture)

    def make(self, picture: Path) -> None:
        """Build, write, and say what it is."""
        from ..exports.solids import collider_picture, write_collider
        from ..pushes import Push
        from ..stage import pick

        pushes = [Push(select=word, velocity=(0.0, 0.0, 0.0)) for word in self.select]
        stage = pick(self.scene, pushes, up=self.up, axes=self.axes, level=self.level)
        stage, solid = self.around_objects(stage, pushes) if pushes else self.whole(stage)
        if not len(solid.boxes):
            raise InputError("nothing solid was found: all Gaussians are faint or very wide")
        write_collider(solid, stage.world, self.out)
        collider_picture(solid, stage.world, picture)
        print(
            f"{len(solid.boxes):,} boxes of cells of {solid.cell / stage.world.scale:.3g} scene "
            f"units; {stage.floor.description}"
        )
        for path in (self.out, picture):
            print(f"{path}  {path.stat().st_size / 1e3:,.0f} kB")

    def around_objects(self, stage: "Stage", pushes: "list[Push]") -> "tuple[Stage, Collider]":
        """What animate would use, with room for the objects."""
        from ..actors import make_bodies
        from ..ground import solid_rest, static_rest
        from ..pushes import Physics
        from ..staging import settle

        stage = settle(stage, None)
        bodies = make_bodies(stage, pushes, Physics(), 1.0, None)
        cell = None if self.cell is None else self.cell * stage.world.scale
        return stage, solid_rest(stage, static_rest(stage), bodies, cell=cell)

    def whole(self, stage: "Stage") -> "tuple[Stage, Collider]":
        """Everything."""
        from ..world.colliders import collider

        x = stage.scene.means[stage.scene.opacities > 0.1]
        x = x if len(x) else stage.scene.means
        ends = x[:: max(1, len(x) // 100_000)].quantile(x.new_tensor([0.01, 0.99]), dim=0)
        cell = self.cell or float((ends[1] - ends[0]).max()) / SIDES
        return stage, collider(stage.scene, stage.world, size=32 * cell, cell=cell)
