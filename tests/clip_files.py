"""Clips made by code, stored without loss, so that their proxies are known exactly."""

import numpy as np
import pytest

from newtongs import cli
from newtongs.paper.datasets.common12 import MOTIONS
from newtongs.paper.evaluation.videos import opencv

cv2 = opencv()  # before any other use of it: FFmpeg learns once how much it may say


def write_clip(path, frames, fps=8):
    """Frames ``(T, H, W, 3)`` RGB bytes as a video; FFV1 gives back every byte."""
    path.parent.mkdir(parents=True, exist_ok=True)
    frames = np.asarray(frames, np.uint8)
    size = frames.shape[2], frames.shape[1]
    lossless = path.suffix in (".mkv", ".avi")
    code = cv2.VideoWriter_fourcc(*("FFV1" if lossless else "mp4v"))
    writer = cv2.VideoWriter(str(path), code, fps, size)
    for frame in frames:
        writer.write(np.ascontiguousarray(frame[..., ::-1]))
    writer.release()
    return path


def gray(values, height=100, width=100):
    """Frames of one grey each."""
    values = np.asarray(values, np.uint8)
    return np.broadcast_to(values[:, None, None, None], (len(values), height, width, 3)).copy()


def release(folder, stems=("Sora", "PhysT2V", "Veo3"), frames=(100, 110, 100, 110)):
    """A folder with the layout of the public release; the clips of a method flicker alike."""
    for motion in MOTIONS:
        for i, stem in enumerate(stems):
            flicker = [v + i * (k % 2) for k, v in enumerate(frames)]
            write_clip(folder / motion / f"{stem}.mp4", gray(flicker, 48, 64))
    return folder


def refused(capsys, *words):
    """One line on standard error and exit code 2; returns the line."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        cli.main([str(word) for word in words])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said
