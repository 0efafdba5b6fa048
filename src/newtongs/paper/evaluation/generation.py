"""Make the clips of one method's rows of Common-12: one file per row, resumable.

``<Motion>/<Method>.mp4`` is the clip, ``<Motion>/<Method>.json`` records how it was made. Each
record is written just before its clip, so a clip without one was not made here and is left alone.
"""

import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch

from ...base.errors import InputError, argument, unknown_name
from ...base.files import write_atomically
from ...base.process import one_thread
from ...base.types import Progress
from ...dynamics.backends import predictor
from ...dynamics.weights import load_pretrained
from ...render.light import render_light
from ...render.video import Frame, write_video
from ..datasets import gaussian32, same32
from ..datasets.common12 import BASE_SEED, METHODS, MOTIONS, Row, rows
from ..datasets.gaussian_sample import IMAGE_SIZE, Sample, derive, read

Options = dict[str, Any]


class Maker(Protocol):
    """Makes the clips of one method."""

    method: str

    def options(self, row: Row) -> Options:
        """Everything that determines the clip; the same options give the same clip."""

    def fps(self) -> float:
        """Frames per second."""

    def load(self) -> Options:
        """Prepare for the first clip; returns what to record beside the options."""

    def frames(self, row: Row, progress: Progress | None) -> Iterable[Frame]:
        """The pictures of a row."""


def make_clips(
    out: Path | str,
    maker: Maker,
    *,
    motions: Sequence[str] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> list[Path]:
    """Make the clips missing from ``out``, and return the paths of all.

    Args:
        out: folder for ``<Motion>/<Method>.mp4`` and ``.json``.
        maker: makes the method's clips.
        motions: names of motions' folders; None for all twelve.
        overwrite: make every clip again.
        progress: called with ("clips", done, total); some makers also report steps of a clip.
    """
    folder, wanted = Path(out), _wanted(maker.method, motions)
    pending = [row for row in wanted if overwrite or not _stands(folder, row, maker.options(row))]
    beside = maker.load() if pending else {}
    for done, row in enumerate(pending, start=len(wanted) - len(pending)):
        if progress:
            progress("clips", done, len(wanted))
        started = time.perf_counter()
        pictures = list(maker.frames(row, progress))
        beside["seconds"] = round(time.perf_counter() - started, 3)
        _store(folder / row.clip, pictures, maker.fps(), maker.options(row) | {"made_with": beside})
    if progress:
        progress("clips", len(wanted), len(wanted))
    return [folder / row.clip for row in wanted]


def _wanted(method: str, motions: Sequence[str] | None) -> list[Row]:
    for name in motions or ():
        if name not in MOTIONS:
            raise unknown_name("motion", name, MOTIONS)
    return [row for row in rows((method,)) if motions is None or row.motion in motions]


def _stands(folder: Path, row: Row, options: Options) -> bool:
    """Whether the clip exists and has the same options; an error if it has others."""
    clip = folder / row.clip
    if not clip.exists():
        return False
    record = _read_record(clip.with_suffix(".json"))
    record.pop("made_with", None)
    if record == json.loads(json.dumps(options)):
        return True
    changed = [key for key in options if record.get(key) != options[key]] or ["options"]
    how = f"with another {changed[0]}" if record else "without a record"
    raise InputError(
        f"{clip} was made {how}; choose another folder, or replace it with {argument('overwrite')}"
    )


def _read_record(path: Path) -> Options:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _store(clip: Path, pictures: Sequence[Frame], fps: float, record: Options) -> None:
    """Write the record first, so that an earlier clip is never taken for the new one."""
    clip.unlink(missing_ok=True)
    text = json.dumps(record, indent=1)
    write_atomically(clip.with_suffix(".json"), lambda f: f.write(text.encode()))
    write_video(clip, pictures, fps)


class OwnClips:
    """NewtonGS: the model's rollouts of Same-32, rendered by the paper's light renderer, view 0."""

    method = "newtongs"

    def __init__(self, data: Path | str | None = None, *, seed: int = BASE_SEED) -> None:
        """Take a Same-32 folder; without one, compute the same samples."""
        self.data, self.seed = None if data is None else Path(data), seed

    def options(self, row: Row) -> Options:
        """See :class:`Maker`."""
        return {
            "method": METHODS[self.method].title,
            "motion": row.motion,
            "same32_motion": row.newtongs_label,
            "model": f"state32_seed{self.seed}",
            "renderer": "light",
            "view": 0,
            "width": IMAGE_SIZE,
            "height": IMAGE_SIZE,
            "fps": self.fps(),
        }

    def fps(self) -> float:
        """See :class:`Maker`."""
        return 1 / gaussian32.DT

    def load(self) -> Options:
        """See :class:`Maker`."""
        self._predict = predictor(load_pretrained(self.seed))
        return {"torch": torch.__version__}

    def frames(self, row: Row, progress: Progress | None = None) -> Iterable[Frame]:
        """See :class:`Maker`."""
        item = gaussian32.items([same32.SCENE], [row.newtongs_label])[0]
        sample = gaussian32.make_sample(item, None) if self.data is None else self._stored(item)
        times = torch.arange(len(sample["states"])) * gaussian32.DT
        thing, place = sample["object"], sample["background"]
        with one_thread():
            states = self._predict(sample["states"][:1], times)[0]
            color, _, _ = render_light(
                derive(sample | {"states": states})["scene_sequence"]["means"],
                torch.cat([thing["colors"], place["colors"]]),
                torch.cat([thing["opacities"], place["opacities"]]),
                gaussian32.cameras(sample)[:1],
                background=item.template.color,
            )
        return color[:, 0].unbind()

    def _stored(self, item: gaussian32.Item) -> Sample:
        assert self.data is not None
        for line in same32.manifest(self.data):
            if line["motion_type"] == item.motion.name:
                return read(self.data / line["source_path"])
        raise InputError(
            f"{self.data / same32.MANIFEST} lacks {item.motion.name}; "
            f"make it again with: newtongs data same32 --out {self.data}"
        )
