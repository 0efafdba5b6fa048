"""``newtongs data``: make the benchmark data sets."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import tyro

from ..paper.datasets import common12
from .apps import data
from .console import check_folder, check_target, progress_bar

SplitName = Literal["train", "val_id", "val_ood"]


@data.command(name="state32")
@dataclass(frozen=True)
class DataState32:
    """Make State-32: labelled 64-frame trajectories of 32 motion families.

    Writes OUT/{split}.pt and OUT/manifest_{split}.csv. At the paper's size that is 7.4 GB, and as
    much as the largest split again (5.9 GB) while it is made. The same command resumes an
    interrupted run.
    """

    resumes: ClassVar[bool] = True
    out: Path
    """Folder to write to."""
    per_motion: int | None = None
    """Sequences of each motion in each split (times 32 motions). Default: the paper's 32,768 for
    train and 4,096 for val_id and val_ood."""
    splits: tuple[SplitName, ...] = ("train", "val_id", "val_ood")
    """Which splits to make: training, same ranges, velocity-range shift."""
    overwrite: bool = False
    """Make every split again, even one that already matches the request."""
    device: str = "cpu"
    """Where to compute: cpu or cuda. The data are the same up to rounding."""

    def run(self) -> None:
        """Build, and print what was written."""
        from ..base.process import one_thread
        from ..base.state import checked_device
        from ..paper.datasets import state32

        with one_thread(), progress_bar() as advance:
            paths = state32.build(
                self.out,
                splits=self.splits,
                per_motion=self.per_motion,
                overwrite=self.overwrite,
                device=checked_device(self.device),
                progress=advance,
            )
        for path in paths:
            print(f"{path}  {path.stat().st_size / 1e6:,.1f} MB")


@data.command(name="gaussian32")
@dataclass(frozen=True)
class DataGaussian32:
    """Make Gaussian-32: ten objects in ten scenes, each in 32 motions, with four rendered views.

    Writes OUT/samples/*.pt and OUT/manifest.csv: 320 samples of 49 frames, 26.5 GB. The same
    command resumes an interrupted run.
    """

    resumes: ClassVar[bool] = True
    out: Path
    """Folder to write to."""
    templates: tuple[str, ...] | None = None
    """Which scenes, by scene or object name (sunny_park, yellow_cone, ...). Default: all ten."""
    motions: tuple[str, ...] | None = None
    """Which motions, by name (free_fall, damped_bouncing, ...). Default: all 32."""
    store: Literal["full", "compact"] = "full"
    """full: the paper's schema, 83 MB per sample. compact: leaves out what loading recomputes
    exactly (moving Gaussians, flows), 65 MB."""
    overwrite: bool = False
    """Make every sample again, even existing ones."""

    def run(self) -> None:
        """Build, and print what was written."""
        from ..paper.datasets import gaussian32
        from ..render.light import render_light

        with progress_bar("samples") as advance:
            paths = gaussian32.build(
                self.out,
                render=render_light,
                templates=self.templates,
                motions=self.motions,
                store=self.store,
                overwrite=self.overwrite,
                progress=advance,
            )
        size = sum(path.stat().st_size for path in paths)
        print(f"{len(paths)} samples in {self.out / 'samples'}  {size / 1e6:,.1f} MB")


@data.command(name="same32")
@dataclass(frozen=True)
class DataSame32:
    """Make Same-32: the yellow cone on the construction floor in each of the 32 motions.

    A subset of Gaussian-32: OUT/manifest_same32.csv lists its samples. They are made in OUT, or
    taken from the Gaussian-32 folder given with --source, which must contain all of them.
    """

    resumes: ClassVar[bool] = True
    out: Path
    """Folder to write to."""
    source: Path | None = None
    """A Gaussian-32 folder that contains the samples. Default: make them in OUT."""
    overwrite: bool = False
    """Make every sample again, even existing ones."""

    def run(self) -> None:
        """Build, and print what was written."""
        from ..paper.datasets import same32
        from ..render.light import render_light

        with progress_bar("samples") as advance:
            manifest = same32.build_same32(
                self.out,
                source=self.source,
                render=render_light,
                overwrite=self.overwrite,
                progress=advance,
            )
        print(f"32 samples listed in {manifest}")


@data.command(name="common12")
@dataclass(frozen=True)
class DataCommon12:
    """Make Common-12's manifest: 84 videos, 12 motions by 7 methods, with prompts and seeds.

    Writes OUT/common12.json, without clips: `newtongs generate --out OUT` makes those of NewtonGS,
    CogVideoX, Wan and NewtonGen, and --released adds others from the public release.
    """

    resumes: ClassVar[bool] = False
    out: Path
    """Folder to write to."""
    released: Path | None = None
    """Folder of the public release, <Motion>/{Sora,PhysT2V,Veo3,our,CogVideoX,Wan}.mp4. Its clips
    stay there; the manifest points at them."""

    def run(self) -> None:
        """Write the manifest and print what it contains."""
        check_folder(self.out)
        path = common12.write_manifest(self.out, released=self.released)
        rows = common12.read_manifest(self.out)
        released = sum(row["released_clip"] is not None for row in rows)
        print(f"{len(rows)} rows in {path}, {released} of them with a released clip")


@data.command(name="scene")
@dataclass(frozen=True)
class DataScene:
    """Write a built-in scene as a splat file with its objects marked.

    newtongs data scene sunny_park --out park.ply
    """

    resumes: ClassVar[bool] = False
    name: Annotated[str, tyro.conf.Positional] = "sunny_park"
    """living_room_table, studio_tabletop, sunny_park, kitchen_counter, orbit_space, playroom_floor,
    desk_blue_sphere, construction_floor, lab_table_cylinder or display_orange_pyramid, the ten of
    Gaussian-32; or bowling, a ball and ten pins."""
    out: Path = Path("scene.ply")
    """File to write: .ply, .splat, .spz or .compressed.ply."""

    def run(self) -> None:
        """Write the scene and print what it contains."""
        from ..formats.files import save
        from ..samples import named_scene

        check_target(self.out)
        made = named_scene(self.name)
        scene = made.scene()
        save(scene, self.out)
        print(f"{self.out}: a {made.thing}, {len(scene):,} Gaussians")
