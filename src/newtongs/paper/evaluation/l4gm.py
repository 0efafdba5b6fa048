"""L4GM on Same-32: export its input, and lift the Gaussians of its frames to states.

L4GM sees only the video and reconstructs 65,536 Gaussians per frame in its own coordinates. Each
frame is lifted on its own with opacity-weighted principal components, without tracking; rates are
finite differences at 1/24 s; ``(m, e, mu)`` are inserted. Nothing is aligned with the target: no
fit, no translation, no permutation of axes, no change of units.

Its input is a masked clip of view 0 and the first frame in four views, from the data set's pictures
of the labelled motion, never from a prediction. Upstream reads every file of one folder as a clip
and looks for the first frames in another, so there are two: ``OUT/videos/{sample id}.mp4`` and
``OUT/workspace/{sample id}_000.png`` to ``_003.png``.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from ...base.errors import InputError, unknown_name
from ...base.files import write_atomically
from ...base.types import Progress, StateTensor
from ...formats.dumps import OPENERS, Dump, open_dump
from ...formats.lgm import require_activated
from ...render.video import write_png, write_video
from ...scene.lifting import lift_moments, moments
from ..datasets import same32
from ..datasets.gaussian32 import DT
from ..datasets.gaussian_sample import FRAMES, VIEWS, read

L4GM = "l4gm"
MATERIAL = {"m": 1.0, "e": 0.75, "mu": 0.2}  # inserted: L4GM predicts none of them
GUIDE = "docs/l4gm.md says how to make dumps"


def find_dumps(folder: Path | str, names: Sequence[str]) -> list[Dump]:
    """Open the dump ``{name}.npy`` (or another suffix) of every sample."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"no folder {folder} with L4GM dumps; {GUIDE}")
    paths = {name: [p for e in OPENERS if (p := folder / f"{name}{e}").exists()] for name in names}
    missing = [name for name, found in paths.items() if not found]
    if missing:
        raise InputError(
            f"{folder} lacks the dumps of {len(missing)} of {len(names)} samples, "
            f"first {missing[0]}.npy; {GUIDE}"
        )
    for found in paths.values():
        if len(found) > 1:
            raise InputError(f"{folder} holds {found[0].name} and {found[1].name}; keep one")
    return [_whole(open_dump(found[0])) for found in paths.values()]


def _whole(dump: Dump) -> Dump:
    """Check that the dump has a sample's frames."""
    if len(dump.frame_sizes) != FRAMES:
        raise InputError(
            f"{dump.path}: expected {FRAMES} frames, got {len(dump.frame_sizes)}; run L4GM without "
            "interpolation on the exported clip, which has 24 frames per second"
        )
    return dump


def dump_states(dump: Dump) -> StateTensor:
    """States ``(T, 22)``, float32; one frame of Gaussians is in memory at a time."""
    # Written in place: small tensors between large ones would fragment the heap.
    p = torch.empty(len(dump.frame_sizes), 3, dtype=torch.float64)
    C = p.new_empty(len(p), 3, 3)
    for t, x in enumerate(dump.frames()):
        p[t], C[t] = _frame_moments(x, f"{dump.path}: frame {t}")
    return lift_moments(p, C, dt=DT, material=MATERIAL).float()


def _frame_moments(x: Tensor, source: str) -> tuple[Tensor, Tensor]:
    """Centre ``(3,)`` and covariance ``(3, 3)`` of one frame ``(N, 14)``, weighted by opacity."""
    bad = ~torch.isfinite(x)
    if bad.any():
        row, channel = bad.nonzero()[0].tolist()
        raise InputError(
            f"{source} holds {int(bad.sum()):,} numbers that are not finite, the first in Gaussian "
            f"{row}, channel {channel}; run L4GM on this clip again"
        )
    require_activated(x[:, 3], x[:, 4:7], source)
    opacity = x[:, 3].double().clamp(0, 1)
    if not opacity.sum() > 0:
        raise InputError(f"{source} has no visible Gaussian; run L4GM on this clip again")
    return moments(x[:, :3], opacity)


def l4gm_states(
    folder: Path | str, names: Sequence[str], *, progress: Progress | None = None
) -> StateTensor:
    """States ``(len(names), 49, 22)`` of the given samples; ``progress`` counts samples."""
    dumps, states = find_dumps(folder, names), []
    for done, dump in enumerate(dumps):
        if progress:
            progress("L4GM", done, len(dumps))
        states.append(dump_states(dump))
    if progress:
        progress("L4GM", len(dumps), len(dumps))
    return torch.stack(states)


# --- input for L4GM: clips and first frames -------------------------------------------------------

INPUT_SIZE = 256  # pixels per side
FPS = 24.0
MANIFEST = "manifest_l4gm.csv"
COLUMNS = ("motion_type", "sample_id", "video", "views", "dump")


def export_l4gm(
    data: Path | str,
    out: Path | str,
    *,
    motions: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write the clips and first frames of a Same-32 folder, and return their manifest.

    Args:
        data: a Same-32 folder with pictures.
        out: folder for ``videos/``, ``workspace/`` and the manifest.
        motions: names of motions; None for all.
        progress: called with ("clips", clips done, number of clips).
    """
    folder, home = Path(out), Path(data)
    rows = _rows(home, motions)
    for done, row in enumerate(rows):
        if progress:
            progress("clips", done, len(rows))
        _export(home / row["source_path"], row["sample_id"], folder)
    if progress:
        progress("clips", len(rows), len(rows))
    return _write_manifest(folder, rows)


def _rows(folder: Path, motions: Sequence[str] | None) -> list[dict[str, str]]:
    """Rows sorted by motion, then sample id, one per motion; every sample must have pictures."""
    rows = same32.selected(folder)
    known = [row["motion_type"] for row in rows]
    for name in motions or ():
        if name not in known:
            raise unknown_name("motion", name, known)
    rows = [row for row in rows if motions is None or row["motion_type"] in motions]
    for row in rows:
        if "render" not in read(folder / row["source_path"]):
            raise InputError(
                f"{folder / row['source_path']} has no pictures; make it with: "
                f"newtongs data same32 --out {folder} --overwrite"
            )
    return rows


def _export(source: Path, name: str, folder: Path) -> None:
    """One sample's clip and first frames."""
    pictures = read(source)["render"]
    rgb, mask = pictures["rgb"], pictures["mask"]
    write_video(folder / "videos" / f"{name}.mp4", on_white(rgb[:, 0], mask[:, 0]), FPS)
    for view, frame in enumerate(on_white(rgb[0], mask[0])):
        write_png(folder / "workspace" / f"{name}_{view:03d}.png", frame)


def on_white(rgb: Tensor, mask: Tensor) -> Tensor:
    """Foregrounds ``(n, 256, 256, 3)`` on white, of ``rgb (n, H, W, 3)`` and ``mask (n, H, W)``.

    Colours and mask are resized bilinearly, then composed.
    """
    colors = _resized(rgb.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
    cover = _resized(mask.unsqueeze(1)).permute(0, 2, 3, 1)
    return cover * colors + (1 - cover)


def _resized(x: Tensor) -> Tensor:
    return interpolate(x, size=(INPUT_SIZE, INPUT_SIZE), mode="bilinear", align_corners=False)


def _write_manifest(folder: Path, rows: Sequence[Mapping[str, str]]) -> Path:
    """Write the files of each sample, and the expected name of its dump."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        name = row["sample_id"]
        views = f"workspace/{name}_000.png .. _{VIEWS - 1:03d}.png"
        writer.writerow([row["motion_type"], name, f"videos/{name}.mp4", views, f"{name}.npy"])
    path = folder / MANIFEST
    write_atomically(path, lambda f: f.write(text.getvalue().encode()))
    return path
