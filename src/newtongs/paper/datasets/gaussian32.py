"""Gaussian-32: 10 object-scene templates times 32 motions, 49 frames, four views each.

One file per sample, ``OUT/samples/{sample_id}.pt``, and ``OUT/manifest.csv``; the content of a
sample is described in :mod:`newtongs.paper.datasets.gaussian_sample`.

The data sets do not depend on a renderer: :func:`build` takes one as an argument.
"""

import csv
import io
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, get_args

import torch
from torch import Tensor

from ... import motions
from ...base.errors import InputError, argument, unknown_name
from ...base.files import write_atomically
from ...base.locks import alone
from ...base.process import one_thread
from ...base.state import State
from ...base.types import Progress, StateTensor
from ...samples import Template, select
from ...scene.cameras import ELEVATION_GAUSSIAN32, FIELD_OF_VIEW, RADIUS, Camera, orbit
from ...scene.gaussians import GaussianScene
from .gaussian_sample import (
    FORMAT,
    FRAMES,
    IMAGE_SIZE,
    VIEWS,
    Sample,
    Store,
    derive,
    load,
    read,
    sample_bytes,
    save,
)

__all__ = ["Item", "Renderer", "build", "cameras", "items", "load", "make_sample", "sequence"]

SEED = 2026
DT = 1 / 24
PROFILE = "hard"
RANGES = motions.Ranges(scale=(0.9 * 0.85, 0.9 * 1.18), support=0.5, clearance=(0.015, 0.015))
STREAM = 32_000  # separates these draws from State-32's; each template adds its index
MASK_ALPHA = 0.5


MANIFEST_COLUMNS = (
    "sample_id", "scene_id", "object_template", "motion_type", "motion_index", "repeat",
    "num_frames", "dt", "path",
)  # fmt: skip


class Renderer(Protocol):
    """Colour, depth and alpha of moving Gaussians in all views."""

    def __call__(
        self,
        means: Tensor,
        colors: Tensor,
        opacities: Tensor,
        cameras: Sequence[Camera],
        *,
        background: Sequence[float],
    ) -> tuple[Tensor, Tensor, Tensor]:
        """From means ``(F, N, 3)`` to ``(F, V, H, W, 3)``, ``(F, V, H, W)``, ``(F, V, H, W)``."""


@dataclass(frozen=True)
class Item:
    """One object-motion pair."""

    template: Template
    motion: motions.Family
    repeat: int = 0

    @property
    def sample_id(self) -> str:
        """Scene, object, motion and repeat in one name."""
        t = self.template
        return f"{t.scene_id}-{t.object_name}-{self.motion.name}-{self.repeat:04d}"

    @property
    def path(self) -> Path:
        """Path of the sample in a Gaussian-32 folder."""
        return Path("samples") / f"{self.sample_id}.pt"

    def row(self) -> tuple[object, ...]:
        """The sample's row of the manifest."""
        t, m = self.template, self.motion
        return (
            self.sample_id, t.scene_id, t.object_name, m.name, m.index, f"{self.repeat:04d}",
            FRAMES, DT, self.path.as_posix(),
        )  # fmt: skip


def items(
    templates: Sequence[str] | None = None, motion_names: Sequence[str] | None = None
) -> list[Item]:
    """All pairs of the given templates and motions in the paper's order; None for all."""
    wanted = motions.STATE32 if motion_names is None else motion_names
    wanted = [wanted] if isinstance(wanted, str) else wanted
    for name in wanted:
        if name not in motions.STATE32:
            raise unknown_name("motion", name, motions.STATE32)
    if not wanted:
        raise InputError("no motion given; give at least one, or omit the option for all 32")
    families = [motions.get(name) for name in motions.STATE32 if name in wanted]
    return [Item(t, f) for t in select(templates) for f in families]


def sequence(item: Item) -> motions.Sequences:
    """The labelled states of a pair up to its repeat, ``(repeat + 1, 49, 22)``, and contacts."""
    return motions.generate(
        item.motion.name, item.repeat + 1, seed=SEED, frames=FRAMES, dt=DT, ranges=RANGES,
        stream=STREAM + item.template.index,
    )  # fmt: skip


def cameras_for(states: StateTensor, chosen: Template) -> list[Camera]:
    """The four orbit views of a trajectory ``(49, 22)``."""
    target = State(states).p.double().mean(0)
    target[1] += chosen.target_height
    return orbit(
        target, views=VIEWS, radius=RADIUS, elevation=ELEVATION_GAUSSIAN32, fov=FIELD_OF_VIEW,
        width=IMAGE_SIZE, height=IMAGE_SIZE,
    )  # fmt: skip


def cameras(sample: Sample) -> list[Camera]:
    """A sample's cameras in this package's convention: y down, not up as stored."""
    down = torch.tensor([1.0, -1.0, 1.0, 1.0]).diag()
    K, w2c = sample["cameras"]["K"], sample["cameras"]["w2c"]
    return [Camera(k, down @ w, IMAGE_SIZE, IMAGE_SIZE) for k, w in zip(K, w2c, strict=True)]


def make_sample(item: Item, render: Renderer | None) -> Sample:
    """Compute everything in the paper's schema; without a renderer there is no ``render`` group."""
    made, t = sequence(item), item.template
    states = made.states[item.repeat].contiguous()
    views = cameras_for(states, t)
    thing, place = t.object, t.background
    sample: Sample = {
        "states": states,
        "object": {"local_means": thing.means.clone()} | _appearance(thing),
        "background": {"means": place.means.clone()} | _appearance(place),
        "events": {
            "collision": made.collision[item.repeat].clone(),
            "contact_normal": made.normal[item.repeat].clone(),
            "impulse": made.impulse[item.repeat].clone(),
        },
        "cameras": _camera_tensors(views),
    }
    sample |= derive(sample)
    if render is not None:
        sample["render"] = _rendered(sample, views, t, render)
    sample["metadata"] = _metadata(item, states, "none" if render is None else "light")
    return sample


def _appearance(scene: GaussianScene) -> dict[str, Tensor]:
    return {
        "colors": scene.colors.clamp(0, 1), "opacities": scene.opacities.clone(),
        "covariances": scene.covariances.clone(),
    }  # fmt: skip


def _camera_tensors(views: Sequence[Camera]) -> dict[str, Tensor]:
    """The paper's cameras: x right, y up, z forward, so that a renderer negates y."""
    w2c = torch.stack([camera.w2c_y_up for camera in views])
    c2w = torch.linalg.inv(w2c.double()).float()
    return {"K": torch.stack([camera.K for camera in views]), "w2c": w2c, "c2w": c2w}


def _rendered(
    sample: Sample, views: Sequence[Camera], t: Template, render: Renderer
) -> dict[str, Tensor]:
    """RGB and depth of the scene; the mask is where the object alone covers more than half.

    The light renderer sums contributions without an order, so nothing is occluded; a mask of the
    object alone is therefore the consistent one.
    """
    thing, place, moving = sample["object"], sample["background"], sample["scene_sequence"]
    colors = torch.cat([thing["colors"], place["colors"]])
    opacities = torch.cat([thing["opacities"], place["opacities"]])
    rgb, depth, _ = render(moving["means"], colors, opacities, views, background=t.color)
    _, _, alpha = render(
        sample["object_sequence"]["means"], thing["colors"], thing["opacities"], views,
        background=t.color,
    )  # fmt: skip
    pixels = (FRAMES, VIEWS, IMAGE_SIZE, IMAGE_SIZE)
    for name, x, shape in (("rgb", rgb, (*pixels, 3)), ("depth", depth, pixels)):
        if tuple(x.shape) != shape:
            raise InputError(f"the renderer's {name}: expected {shape}, got {tuple(x.shape)}")
    return {"rgb": rgb, "depth": depth, "mask": (alpha > MASK_ALPHA).float()}


def _metadata(item: Item, states: StateTensor, mode: str) -> dict[str, Any]:
    t, first = item.template, State(states[0])
    motion = item.motion.name.replace("_", " ")
    return {
        "format": FORMAT,
        "sample_id": item.sample_id,
        "scene_id": t.scene_id,
        "motion_type": item.motion.name,
        "motion_index": item.motion.index,
        "repeat": item.repeat,
        "prompts": {
            "object": f"a {t.thing}",
            "scene": t.place,
            "motion": motion,
            "text": f"A {t.thing} in {motion}, {t.place}.",
        },
        "object_template": t.object_name,
        "asset_provenance": "procedural, made by newtongs; no third-party asset",
        "background_provenance": "procedural 3D Gaussians, made by newtongs; no third-party asset",
        "rendering_mode": mode,
        "renderer_color": list(t.color),
        "mask": f"1 where the object alone has alpha > {MASK_ALPHA}",
        "camera_axes": "x right, y up, z forward: a renderer negates camera y before projection",
        "object_placement": "world = p + R(q) (s * local)",
        "initial_controls": {
            name: getattr(first, name).tolist() for name in ("p", "q", "v", "w", "s", "u")
        }
        | {name: getattr(first, name).item() for name in ("m", "e", "mu")},
        "profile": PROFILE,
        "seed": SEED,
        "num_frames": FRAMES,
        "dt": DT,
    }


def build(
    out: Path | str,
    *,
    render: Renderer | None,
    templates: Sequence[str] | None = None,
    motions: Sequence[str] | None = None,
    store: Store = "full",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> list[Path]:
    """Write the requested samples to ``out``; complete existing ones are kept.

    Args:
        out: folder for ``samples/*.pt`` and ``manifest.csv``.
        render: the paper's light renderer; None omits the ``render`` group.
        templates: scene identifiers or object names; None for all ten.
        motions: motion names; None for all 32.
        store: ``full`` is the paper's schema, 83 MB per sample; ``compact`` omits what
            :func:`load` recomputes (moving object, scene, flows).
        overwrite: make every sample again.
        progress: called with ("gaussian32", samples done, number of samples).
    """
    if store not in get_args(Store):
        raise unknown_name("store", str(store), get_args(Store))
    chosen, folder = items(templates, motions), Path(out)
    for item in chosen:
        if (folder / item.path).is_dir():
            raise InputError(f"cannot write {folder / item.path}: it is a folder")
    mode = "none" if render is None else "light"
    pending = [i for i in chosen if overwrite or not _stands(folder / i.path, mode, store)]
    _check_space(folder, len(pending), store, render is not None)
    with alone(folder), one_thread():
        for done, item in enumerate(pending, start=len(chosen) - len(pending)):
            if progress:
                progress("gaussian32", done, len(chosen))
            save(folder / item.path, make_sample(item, render), store=store)
    if progress:
        progress("gaussian32", len(chosen), len(chosen))
    write_manifest(folder)
    return [folder / item.path for item in chosen]


def write_manifest(folder: Path) -> Path:
    """List every sample in the folder, in the paper's order."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(MANIFEST_COLUMNS)
    writer.writerows(item.row() for item in items() if (folder / item.path).is_file())
    path = folder / "manifest.csv"
    write_atomically(path, lambda f: f.write(text.getvalue().encode()))
    return path


def _stands(path: Path, mode: str, store: Store) -> bool:
    """Whether a complete sample exists; an error if it was made with other settings."""
    if not path.is_file():
        return False
    try:
        found = read(path)["metadata"]
    except InputError:  # truncated or damaged: make it again
        return False
    if (found.get("rendering_mode"), found.get("store")) == (mode, store):
        return True
    raise InputError(
        f"{path} has other settings (rendering {found.get('rendering_mode')}, "
        f"{found.get('store')}); choose another folder, or replace it with {argument('overwrite')}"
    )


def _check_space(folder: Path, count: int, store: Store, rendered: bool) -> None:
    """Check before the work starts that the samples fit on the disk."""
    there = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
    free, needed = shutil.disk_usage(there).free, count * sample_bytes(store, rendered)
    if free < needed:
        raise InputError(
            f"not enough space in {folder}: {needed / 1e9:.1f} GB needed for {count} samples, "
            f"{free / 1e9:.1f} GB free; choose another folder, fewer {argument('templates')} or "
            f"{argument('motions')}"
        )
