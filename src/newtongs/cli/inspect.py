"""``newtongs inspect``: what a file contains, and which flags select its objects."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import tyro

from ..base.errors import InputError
from ..base.files import existing_file
from .apps import app
from .console import check_scene, check_target

if TYPE_CHECKING:
    import torch
    from rich.table import Table
    from rich.text import Text

    from ..pipeline.source import Source
    from ..segment.floor.finding import FloorPlane
    from ..segment.objects.clusters import Cluster

THUMBNAIL = 44  # characters across in a terminal
CLUSTERS_SHOWN = 10
DRAWN = 4  # most alternatives drawn side by side
KINDS = (".json", ".safetensors")  # files without a scene


@app.command(name="inspect")
@dataclass(frozen=True)
class Inspect:
    """Show the contents of a splat file, a data set, a checkpoint or an animation's json.

    For a scene: counts, bounds, colour degree, the estimated up direction and floor with their
    alternatives, the object-like clusters with the values to pass to `newtongs animate --select`,
    and a picture.
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
    """Also write the picture to this .png: each object with its number, the axes, and a ruler on
    the floor in physics units, as in --goal "land at X Z". If up or floor are in doubt, NAME_or.png
    shows the alternatives side by side."""
    plain: bool = False
    """Do not draw a picture in the terminal."""

    def run(self) -> None:
        """Detect the kind of file and describe it."""
        if self.thumbnail is not None:
            check_target(self.thumbnail)
            if self.thumbnail.suffix != ".png":
                raise InputError(
                    f"--thumbnail: expected a name ending in .png, got {self.thumbnail}"
                )
        if self.file.suffix not in KINDS:
            check_scene(str(self.file))
        from ..pipeline.source import open_source
        from ..samples import SCENES

        if self.namer is not None:
            from ..pipeline.namers import open_namer

            open_namer(self.namer)  # refuse it before anything is loaded
        kind = None if str(self.file) in SCENES else kind_of(self.file)
        if kind is not None:
            kind(self.file)
        else:
            report_levels(self.file)
            self.describe(open_source(self.file, self.axes, self.level))

    def describe(self, source: "Source") -> None:
        """Describe a scene in text and one picture."""
        from rich.console import Console

        from ..pipeline.source import floor_of
        from ..scene.gaussians import quantiles
        from ..scene.similarity import VISIBLE
        from ..segment.objects.clusters import MOST_CLUSTERS, cluster

        console, scene = Console(), source.scene
        low, high = scene.bounds()
        print(f"{len(scene):,} Gaussians, colour of SH degree {scene.sh_degree}")
        print(f"bounds {numbers(low)} to {numbers(high)}")
        if not source.ours:
            self.report_axes()
        faint = (scene.opacities < VISIBLE).float().mean().item()
        sizes = quantiles(scene.scales.amax(-1), (0.05, 0.5, 0.95))
        print(f"largest radius of a Gaussian: {numbers(sizes)} (5, 50, 95 %); {faint:.0%} faint")
        marked = [i for i in scene.object_ids if i >= 0]
        if marked:
            print(f"marked objects: {marked}; use --select id:{marked[0]}")
        floor = floor_of(source, self.up, self.floor)
        report_floor(floor)
        clusters = cluster(scene, floor.carrying)
        names = self.names(source, floor)
        if marked and names:
            print("\n".join(f"id:{i}: {name}" for i, name in names.items()))
        if clusters:
            console.print(cluster_table(clusters, {} if marked else names))
        if len(clusters) > CLUSTERS_SHOWN:
            least = "at least " if len(clusters) >= MOST_CLUSTERS else ""
            print(f"and {least}{len(clusters) - CLUSTERS_SHOWN} more that are less object-like")
        self.draw(source, floor, clusters[:CLUSTERS_SHOWN])

    def names(self, source: "Source", floor: "FloorPlane") -> dict[int, str]:
        """What the namer calls the things, by their numbers; empty without a namer."""
        if self.namer is None:
            return {}
        from ..pipeline.namers import open_namer
        from ..pipeline.prepare import main_frame
        from ..pipeline.spec import SceneSpec
        from ..pipeline.words import names_of
        from ..segment.objects.things import things

        namer = open_namer(self.namer)
        world = main_frame(source, SceneSpec(up=self.up, floor_height=self.floor), floor)
        found = things(source.scene, floor.carrying).found[:CLUSTERS_SHOWN]
        return names_of(source.scene, world, found, namer)

    def draw(self, source: "Source", floor: "FloorPlane", clusters: "list[Cluster]") -> None:
        """Draw the overview and, if up or floor are in doubt, the alternatives."""
        from rich.console import Console

        from ..pipeline.prepare import main_frame
        from ..pipeline.spec import SceneSpec
        from ..render import write_png
        from ..views.overview import alternatives, overview

        console, scene = Console(), source.scene
        if (self.plain or not console.is_terminal) and self.thumbnail is None:
            return
        spec = SceneSpec(up=self.up, floor_height=self.floor)
        world = main_frame(source, spec, floor)
        picture, step = overview(scene, world, clusters)
        if not self.plain and console.is_terminal:
            console.print(in_blocks(picture))
        if self.thumbnail is None:
            return
        write_png(self.thumbnail, picture)
        print(f"picture written to {self.thumbnail}: red numbers are x, blue numbers are z")
        print(
            f"ruler: one line every {step:g} physics units, as in --goal; a scene unit is "
            f"{world.scale:.3g} physics units"
        )
        if floor.doubt:
            path = self.thumbnail.with_stem(self.thumbnail.stem + "_or")
            write_png(path, alternatives(scene, (floor, *floor.alternatives)[:DRAWN]))
            print(f"alternatives written to {path}")

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


def report_levels(path: Path) -> None:
    """Print the size of each level of detail of a streamed scene."""
    from ..formats import lod, sog

    path = sog.entry(path)
    if path.name != lod.NAME or not path.is_file():
        return
    for level, gaussians in lod.levels(path).items():
        print(f"--level {level}: {gaussians:,} Gaussians")


def report_floor(floor: "FloorPlane") -> None:
    """Print up and floor, and what else they might be."""
    print(f"floor: {floor.description}; at {floor.height:.4g} along up, score {floor.score:.2f}")
    if floor.doubt:
        print(f"doubt: {floor.doubt}")


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
    from ..dynamics.weights import load_tensors

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


def cluster_table(clusters: "list[Cluster]", names: "Mapping[int, str] | None" = None) -> "Table":
    """The best clusters with the selectors to pass to --select, and their names if known."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title="object-like clusters, best first", title_justify="left")
    for heading in ("--select", "Gaussians", "centre", "size", "above the floor"):
        table.add_column(heading, justify="left" if heading == "--select" else "right")
    if names:
        table.add_column("name")
    for c in clusters[:CLUSTERS_SHOWN]:
        table.add_row(
            f"cluster:{c.id}",
            f"{c.count:,}",
            numbers(c.center),
            numbers(c.size),
            f"{c.above:.3g}",
            *([Text(names[c.id])] if names else []),  # not markup
        )
    return table


def numbers(x: "torch.Tensor") -> str:
    """Format a few numbers briefly."""
    return " ".join(f"{v:.3g}" for v in x.tolist())


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
