"""``newtongs collider``: the solid parts of a scene as a mesh for other engines."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import tyro

from ..base.errors import InputError
from .apps import app
from .console import check_scene, check_target

if TYPE_CHECKING:
    from ..physics.colliders import Collider
    from ..pipeline.source import Source
    from ..scene.world_frame import WorldFrame
    from ..segment.floor.finding import FloorPlane


@app.command(name="collider")
@dataclass(frozen=True)
class MakeCollider:
    """Turn a splat scene into solid boxes: one triangle mesh as a .glb, and a picture of it.

    Objects collide with the same boxes in `newtongs animate`. Load the .glb into any engine as a
    static collider; it aligns with the .glb that animate writes.

    newtongs collider room.ply --out room_collider.glb
    """

    resumes: ClassVar[bool] = False
    scene: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SCENE")] = ""
    """Splat file, or the name of a built-in scene."""
    out: Path = Path("collider.glb")
    """File to write; the picture gets the same name with .png."""
    select: tuple[str, ...] = ()
    """Objects to leave out because they will move; see newtongs animate. Default: none."""
    cell: float | None = None
    """Edge length of the cells that the boxes are merged from, in scene units. Default: 1/200 of
    the scene's longest side; with --select, 1/32 of the object's size, as in newtongs animate."""
    up: tuple[float, ...] | None = None
    """Up direction of the scene: x y z. Default: estimated."""
    axes: str | None = None
    """Where +x, +y and +z of the file point, if not as its format defines: RDF (right, down, front)
    for an .spz with the axes of a .ply; RUB, LUF, RBU, ..."""
    level: int | None = None
    """Level of detail of a lod-meta.json; 0 is the finest. Default: the finest level with at most 4
    million Gaussians."""

    def run(self) -> None:
        """Check the flags, then build and write the collider."""
        if not self.scene:
            raise InputError("no scene given; name one: newtongs collider SCENE.ply --out FILE.glb")
        if self.out.suffix.lower() != ".glb":
            raise InputError(f"--out: expected a name ending in .glb, got {self.out}")
        if self.cell is not None and not self.cell > 0:
            raise InputError(f"--cell: expected a length above 0, got {self.cell:g}")
        picture = self.out.with_suffix(".png")
        check_target(self.out)
        check_target(picture)
        check_scene(self.scene)
        self.make(picture)

    def make(self, picture: Path) -> None:
        """Build and write the collider, and report its size."""
        from ..exports.solids import collider_picture, write_collider
        from ..pipeline.source import floor_of, open_source
        from ..pipeline.surroundings import solid_scene

        source = open_source(self.scene, self.axes, self.level)
        floor = floor_of(source, self.up)
        solid, frame = (
            self.around(source, floor) if self.select else solid_scene(source, floor, self.cell)
        )
        if not len(solid.boxes):
            raise InputError(
                "found nothing solid: all Gaussians are faint or very wide; use another scene"
            )
        write_collider(solid, frame, self.out)
        collider_picture(solid, frame, picture)
        print(
            f"{len(solid.boxes):,} boxes, cell size {solid.cell / frame.scale:.3g} scene units; "
            f"{floor.description}"
        )
        for path in (self.out, picture):
            print(f"{path}  {path.stat().st_size / 1e3:,.0f} kB")

    def around(self, source: "Source", floor: "FloorPlane") -> "tuple[Collider, WorldFrame]":
        """The collider that animate uses, cleared around the objects."""
        from ..pipeline.prepare import prepare
        from ..pipeline.spec import ObjectSpec, SceneSpec

        objects = tuple(ObjectSpec(selector, velocity=(0.0, 0.0, 0.0)) for selector in self.select)
        setup = prepare(source, SceneSpec(objects, up=self.up), floor=floor)
        cell = None if self.cell is None else self.cell * setup.frame.scale
        return setup.solid_boxes(cell), setup.frame
