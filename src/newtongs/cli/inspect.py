"""``newtongs inspect``: what a file contains, and which flags select its objects."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import tyro

from ..base.errors import InputError
from ..base.files import existing_file
from .apps import app
from .console import check_scene, check_target, silent, write_json
from .scene_report import (
    floors_json,
    gaussians_json,
    report_floors,
    report_gaussians,
    report_things,
    report_unit,
    things_json,
)

if TYPE_CHECKING:
    import torch
    from rich.text import Text

    from ..pipeline.source import Source
    from ..scene.gaussians import GaussianScene
    from ..scene.world_frame import WorldFrame
    from ..segment.floor.finding import FloorPlane
    from ..segment.objects.clusters import Cluster
    from ..views.overview import Overview

THUMBNAIL = 44  # characters across in a terminal
DRAWN = 60  # things with a number and a close-up
ALTERNATIVES = 8  # most floors drawn side by side
STDOUT = Path("-")
KINDS = (".json", ".safetensors")  # files without a scene


@app.command(name="inspect")
@dataclass(frozen=True)
class Inspect:
    """Show the contents of a splat file, a data set, a checkpoint or an animation's json.

    For a scene: counts, bounds, colour degree, the estimated up direction and floor with their
    alternatives, the object-like clusters with the values to pass to `newtongs animate --select`,
    their sizes in metres and what they stand on, and a picture.
    """

    resumes: ClassVar[bool] = False
    file: Annotated[Path, tyro.conf.Positional] = Path()
    """The file or folder, or the name of a built-in scene (sunny_park, ...)."""
    up: tuple[float, ...] | None = None
    """Up direction of the scene: x y z. Default: estimated."""
    floor: float | None = None
    """Height of the floor along up, in scene units. Default: estimated."""
    axes: str | None = None
    """Where +x, +y and +z of the file point, if not as its format defines: RDF (right, down, front)
    for an .spz with the axes of a .ply; RUB, LUF, RBU, ..."""
    level: int | None = None
    """Level of detail of a lod-meta.json; 0 is the finest. Default: the finest level with at most 4
    million Gaussians."""
    namer: str | None = None
    """Your own model that names things: a program with its arguments, an address such as
    http://127.0.0.1:8000/, or an .onnx file. The names are printed beside the things
    (docs/words.md)."""
    thumbnail: Path | None = None
    """Also write the picture to this .png: each object that is visible with its number, the axes,
    and a ruler on the floor in metres, as in --goal "land at X Z". NAME_things.png has a close-up
    of every object. If up or floor are in doubt, NAME_or.png shows the alternatives side by side,
    each with the flags that choose it."""
    json: Path | None = None
    """Also write everything as json to this file; - prints it, and nothing else."""
    plain: bool = False
    """Do not draw a picture in the terminal."""

    def run(self) -> None:
        """Detect the kind of file and describe it."""
        self.check()
        from ..pipeline.source import open_source
        from ..samples import SCENES

        kind = None if str(self.file) in SCENES else kind_of(self.file)
        if kind is None:
            with silent() if self.json == STDOUT else nullcontext():
                report_levels(self.file)
                found = self.describe(open_source(self.file, self.axes, self.level))
            if self.json == STDOUT:
                print(json.dumps(found, indent=1))
            elif self.json is not None:
                write_json(self.json, found)
        elif self.json is not None:
            raise InputError(f"--json describes a scene; {self.file} is none, leave --json out")
        else:
            kind(self.file)

    def check(self) -> None:
        """Refuse wrong names before anything is read."""
        if self.thumbnail is not None:
            check_target(self.thumbnail)
            if self.thumbnail.suffix != ".png":
                raise InputError(
                    f"--thumbnail: expected a name ending in .png, got {self.thumbnail}"
                )
        if self.json is not None and self.json != STDOUT:
            check_target(self.json)
        if self.file.suffix not in KINDS:
            check_scene(str(self.file))
        if self.namer is not None:
            from ..pipeline.namers import open_namer

            open_namer(self.namer)

    def describe(self, source: "Source") -> dict[str, Any]:
        """Describe a scene in text and pictures; all of it again as json."""
        from ..pipeline.pick import measured
        from ..pipeline.place import unit_doubt
        from ..pipeline.prepare import main_frame
        from ..pipeline.source import floor_of
        from ..pipeline.spec import SceneSpec
        from ..segment.objects.clusters import cluster
        from ..views.floor_flags import with_axes
        from ..views.inventory import inventory

        scene = source.scene
        report_gaussians(scene)
        if not source.ours:
            self.report_axes()
        floor = floor_of(source, self.up, self.floor)
        floors = with_axes(scene, [floor, *floor.alternatives])
        report_floors(floors)
        clusters = cluster(scene, floor.carrying)
        spec = SceneSpec(up=self.up, floor_height=self.floor)
        world = main_frame(source, spec, floor)
        metres, width = measured(source, spec, floor)
        doubt = "" if metres else unit_doubt(width, world.scale)
        if not source.ours:
            report_unit(metres, doubt)
        entries = inventory(scene, world, clusters)
        names = self.names(scene, world, floor)
        report_things(entries, world, names)
        numbered, written = self.draw(scene, world, clusters[:DRAWN], floors)
        return {
            "file": str(self.file), **gaussians_json(scene), **floors_json(floors),
            "meters_per_unit": world.scale, "unit_told": metres is not None, "unit_doubt": doubt,
            "things": things_json(entries, numbered, names),
            "pictures": [str(path) for path in written],
        }  # fmt: skip

    def names(
        self, scene: "GaussianScene", world: "WorldFrame", floor: "FloorPlane"
    ) -> dict[str, str]:
        """What the namer calls the things, by their selectors; empty without a namer."""
        if self.namer is None:
            return {}
        from ..pipeline.namers import open_namer
        from ..pipeline.words import names_of
        from ..segment.objects.things import things

        return names_of(scene, world, things(scene, floor.carrying), open_namer(self.namer))

    def draw(
        self, scene: "GaussianScene", world: "WorldFrame", clusters: "list[Cluster]",
        floors: "list[FloorPlane]",
    ) -> tuple[dict[str, bool], list[Path]]:  # fmt: skip
        """Draw everything; whether each selector's number is in the first picture, and files."""
        from rich.console import Console

        from ..views.overview import overview

        console = Console()
        if self.thumbnail is None and (self.plain or not console.is_terminal):
            return {}, []
        seen = overview(scene, world, clusters)
        if not self.plain and console.is_terminal:
            console.print(in_blocks(seen.picture))
        numbers = {sign.text for sign in seen.signs}
        numbered = {f"cluster:{c.id}": str(c.id) in numbers for c in clusters}
        if self.thumbnail is None:
            return numbered, []
        return numbered, write_pictures(self.thumbnail, scene, world, clusters, floors, seen)

    def report_axes(self) -> None:
        """Print that the file was rotated to our axes, and how to change that."""
        from ..formats.axes import OURS
        from ..formats.files import axes_of

        stored = self.axes or axes_of(self.file)
        if stored.upper() != OURS:
            reason = (
                "as given"
                if self.axes
                else f"as its format defines; give --axes {OURS} if it is upside down"
            )
            print(f"axes: {stored.upper()} in the file, rotated to {OURS}; {reason}")


def write_pictures(
    path: Path, scene: "GaussianScene", world: "WorldFrame", clusters: "list[Cluster]",
    floors: "list[FloorPlane]", seen: "Overview",
) -> list[Path]:  # fmt: skip
    """Write the overview, the close-ups and, in doubt, the alternatives; print what they show."""
    from ..render import write_png
    from ..views.overview import alternatives
    from ..views.portraits import contact_sheet, portraits

    written = [path]
    write_png(path, seen.picture)
    above = f", {seen.drop:.3g} m above the assumed floor" if seen.drop else ""
    print(f"picture written to {path}: red numbers are x, blue numbers are z, in metres")
    print(
        f"ruler: one line every {seen.step:g} m, as in --goal{above}; a scene unit is "
        f"{world.scale:.3g} m"
    )
    if clusters:
        written.append(path.with_stem(path.stem + "_things"))
        write_png(written[-1], contact_sheet(portraits(scene, world, clusters), clusters))
        hidden = len(clusters) - len(seen.signs)
        which = f"; {hidden} of them have no number in the picture" if hidden else ""
        print(f"close-ups of {len(clusters)} written to {written[-1]}{which}")
    if floors[0].doubt:
        written.append(path.with_stem(path.stem + "_or"))
        write_png(written[-1], alternatives(scene, floors[:ALTERNATIVES]))
        print(f"alternatives with their flags written to {written[-1]}")
    return written


def report_levels(path: Path) -> None:
    """Print the size of each level of detail of a streamed scene."""
    from ..formats import lod, sog

    path = sog.entry(path)
    if path.name != lod.NAME or not path.is_file():
        return
    for level, gaussians in lod.levels(path).items():
        print(f"--level {level}: {gaussians:,} Gaussians")


def kind_of(path: Path) -> Callable[[Path], None] | None:
    """The function that describes this kind of file; None for a scene."""
    from ..paper.datasets import state32

    if is_sog(path):
        return None
    if path.is_dir():
        if any((path / f"{split}.pt").exists() for split in state32.SPLITS):
            return describe_state32
        if (path / "manifest.csv").exists():
            return describe_manifest
        raise InputError(f"{path} is a folder without a data set of newtongs data; name a file")
    return {".json": describe_animation, ".safetensors": describe_checkpoint}.get(path.suffix)


def is_sog(path: Path) -> bool:
    """Whether it is an unpacked or streamed .sog: the folder with its json, or the json itself."""
    names = ("meta.json", "lod-meta.json")
    return path.name in names or any((path / name).is_file() for name in names)


def describe_state32(path: Path) -> None:
    """Describe State-32: splits, sizes, motions."""
    from ..paper.datasets import state32

    for split in state32.SPLITS:
        if (path / f"{split}.pt").exists():
            data = state32.load(path, split)
            _, frames, _ = data.states.shape
            print(
                f"State-32 {split}: {len(data):,} sequences of {frames} frames at "
                f"{1 / data.dt:.3g} Hz, {len(data.motion_names)} motions"
            )


def describe_manifest(path: Path) -> None:
    """Describe Gaussian-32 or Same-32: number of samples."""
    manifest = existing_file(path / "manifest.csv")
    try:
        lines = manifest.read_text(encoding="utf-8").strip().splitlines()
    except UnicodeDecodeError:
        lines = []
    if not lines:
        raise InputError(f"{manifest} is empty or not text; make the data set again")
    print(f"{len(lines) - 1} samples; columns: {lines[0]}")


def describe_checkpoint(path: Path) -> None:
    """Describe a checkpoint: its size and its metadata."""
    from ..base.checkpoints import load_tensors

    tensors, about = load_tensors(path)
    print(f"{sum(x.numel() for x in tensors.values()):,} numbers in {len(tensors)} tensors")
    print(json.dumps(about, indent=1, sort_keys=True))


def describe_animation(path: Path) -> None:
    """Describe an animation: frames, objects, how it was made."""
    from ..exports.replay import load_animation

    animation = load_animation(path)
    print(f"{len(animation)} frames at {animation.fps:.4g} Hz, {len(animation.scene):,} Gaussians")
    for index in animation.states:
        print(f"object {index}: {int((animation.scene.ids == index).sum()):,} Gaussians")
    print(json.dumps(animation.about.to_json(), indent=1))


def in_blocks(picture: "torch.Tensor") -> "Text":
    """A picture ``(H, W, 3)`` as text; each character shows two pixels, one above the other."""
    from rich.text import Text
    from torch.nn.functional import interpolate

    small = interpolate(picture.permute(2, 0, 1)[None], size=(THUMBNAIL, THUMBNAIL), mode="area")[0]
    rows = (small.clamp(0, 1) * 255).round().int().permute(1, 2, 0).tolist()
    text = Text()
    for top, bottom in zip(rows[::2], rows[1::2], strict=True):
        for a, b in zip(top, bottom, strict=True):
            text.append("▀", style="rgb({},{},{}) on rgb({},{},{})".format(*a, *b))
        text.append("\n")
    return text
