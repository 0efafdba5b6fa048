"""What L4GM is given of Same-32: masked clips of view 0, and the first frame in four views.

The pictures are the data set's own, of the labelled motion, never a prediction. Upstream takes
every file of one folder as a clip and looks for the first frames in another, so there are two:
``OUT/videos/{sample id}.mp4`` and ``OUT/workspace/{sample id}_000.png`` to ``_003.png``.
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from torch import Tensor
from torch.nn.functional import interpolate

from ..datasets import same32
from ..datasets.gaussian_sample import VIEWS, read
from ..errors import InputError, unknown_name
from ..files import write_atomically
from ..render.video import write_png, write_video

SIZE = 256  # pixels a side
FPS = 24.0
MANIFEST = "manifest_l4gm.csv"
COLUMNS = ("motion_type", "sample_id", "video", "views", "dump")

Progress = Callable[[str, int, int], None]


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
        progress: called with ("clips", clips done, clips in all).
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
    """Rows sorted by motion, then sample id, one a motion; every sample must have pictures."""
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
    return interpolate(x, size=(SIZE, SIZE), mode="bilinear", align_corners=False)


def _write_manifest(folder: Path, rows: Sequence[Mapping[str, str]]) -> Path:
    """Which file is whose, and what the dump of each clip is to be called."""
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
