"""Pictures in files: read back by other code, and told apart from what cannot be written."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from newtongs.base.errors import InputError
from newtongs.render import Rendering, contact_sheet, write_png, write_video
from newtongs.render.video import to_bytes

imageio = pytest.importorskip("imageio.v3")
pytest.importorskip("imageio_ffmpeg", reason="needs newtongs[video]")


def smooth(height, width, phase=0.0):
    """A picture without noise, so that a lossy film can be compared with it."""
    y, x = np.mgrid[:height, :width] / max(height, width)
    waves = [np.sin(3 * x + 2 * y + k + phase) for k in range(3)]
    return (0.5 + 0.45 * np.stack(waves, -1)).astype(np.float32)


@pytest.mark.parametrize("size", [(1, 1), (7, 5), (64, 33)])
def test_png_reads_back_bit_for_bit(tmp_path, size):
    x = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    write_png(tmp_path / "new" / "a.png", x)
    assert np.array_equal(imageio.imread(tmp_path / "new" / "a.png"), x)
    assert os.listdir(tmp_path / "new") == ["a.png"]  # nothing temporary is left


def test_every_kind_of_frame_is_the_same_picture(tmp_path):
    x = smooth(8, 9)
    tensor = torch.from_numpy(x)
    frames = (
        x,
        x.astype(np.float64),
        tensor,
        to_bytes(x),
        Rendering(tensor, tensor[..., 0], tensor[..., 0]),
    )
    for frame in frames:
        write_png(tmp_path / "a.png", frame)
        assert np.array_equal(imageio.imread(tmp_path / "a.png"), np.rint(255 * x).astype(np.uint8))


def test_values_are_clamped_and_rounded():
    x = np.array([[[-3.0, 0.0, 0.4999 / 255], [0.5001 / 255, 1.0, 7.0], [np.nan, np.inf, 0.5]]])
    assert to_bytes(x).tolist() == [[[0, 0, 0], [1, 255, 255], [0, 255, 128]]]


def test_contact_sheet_lays_rows_on_white(tmp_path):
    frames = [np.full((4, 6, 3), 10 * i, np.uint8) for i in range(5)]
    contact_sheet(iter(frames), 3, tmp_path / "sheet.png")
    sheet = imageio.imread(tmp_path / "sheet.png")
    assert sheet.shape == (2 * 4 + 4, 3 * 6 + 2 * 4, 3)
    assert (sheet[:4, 10:16] == 10).all()
    assert (sheet[8:, 10:16] == 40).all()
    assert (sheet[4:8] == 255).all()
    assert (sheet[8:, 20:] == 255).all()
    contact_sheet(frames[:2], 7, tmp_path / "sheet.png")
    assert imageio.imread(tmp_path / "sheet.png").shape == (4, 16, 3)


@pytest.mark.parametrize(("height", "width"), [(48, 64), (33, 47), (1, 1)])
def test_mp4_shows_the_frames(tmp_path, height, width):
    """Also odd sizes, which the format does not know: the last row and column are doubled."""
    frames = [smooth(height, width, phase=0.2 * i) for i in range(7)]
    write_video(tmp_path / "film.mp4", iter(frames), fps=12)
    film = imageio.imread(tmp_path / "film.mp4", plugin="FFMPEG")
    assert film.shape == (7, height + height % 2, width + width % 2, 3)
    for frame, x in zip(film, frames, strict=True):
        error = np.abs(frame[:height, :width].astype(float) - to_bytes(x))
        assert error.mean() < 4
    meta = imageio.immeta(tmp_path / "film.mp4", plugin="FFMPEG")
    assert meta["fps"] == pytest.approx(12)
    assert meta["pix_fmt"].startswith("yuv420p")
    assert meta["codec"] == "h264"
    assert os.listdir(tmp_path) == ["film.mp4"]


def test_mp4_says_what_its_colours_mean(tmp_path):
    """Saturated colours come back: both ends use the same matrix."""
    colors = np.eye(3, dtype=np.uint8)[:, None, None] * 255 + np.zeros((1, 32, 32, 1), np.uint8)
    write_video(tmp_path / "film.mp4", colors)
    film = imageio.imread(tmp_path / "film.mp4", plugin="FFMPEG")
    assert np.abs(film.astype(float) - colors).max() < 12


def test_gif_loops_at_its_rate(tmp_path):
    frames = [np.full((9, 7, 3), 60 * i, np.uint8) for i in range(4)]
    write_video(tmp_path / "film.GIF", frames, fps=24)
    film = imageio.imread(tmp_path / "film.GIF")
    assert np.abs(film[..., :3].astype(int) - np.stack(frames)).max() <= 2
    meta = imageio.immeta(tmp_path / "film.GIF")
    assert meta["duration"] == 40  # the nearest a gif can say to 1/24 s
    assert meta["loop"] == 0


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda p: write_video(p / "a.avi", [smooth(4, 4)]), "must end in .mp4 or .gif"),
        (lambda p: write_video(p / "a", [smooth(4, 4)]), "must end in .mp4 or .gif"),
        (lambda p: write_png(p / "a.jpg", smooth(4, 4)), "must end in .png"),
        (lambda p: contact_sheet([smooth(4, 4)], 0, p / "a.png"), "at least one column, got 0"),
        (lambda p: contact_sheet([], 2, p / "a.png"), "no frames"),
        (lambda p: write_video(p / "a.mp4", []), "no frames"),
        (lambda p: write_video(p / "a.gif", iter([])), "no frames"),
        (lambda p: write_video(p / "a.mp4", [smooth(4, 4)], fps=0), "positive number of frames"),
        (lambda p: write_video(p / "a.mp4", [smooth(4, 4), smooth(4, 6)]), "frame 1 is 6x4 pixels"),
        (lambda p: write_video(p / "a.gif", [smooth(4, 4), smooth(4, 6)]), "frame 1 is 6x4 pixels"),
        (lambda p: write_png(p / "a.png", np.zeros((4, 4))), r"\(H, W, 3\), got \(4, 4\)"),
        (lambda p: write_png(p / "a.png", np.zeros((0, 4, 3))), "has shape"),
        (lambda p: write_png("/dev/null/a.png", smooth(4, 4)), "cannot write"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_line_and_leaves_no_file(tmp_path, work, message):
    with pytest.raises(InputError, match=message) as error:
        work(tmp_path)
    assert "\n" not in str(error.value)
    assert not os.listdir(tmp_path)


def test_a_film_that_breaks_off_leaves_the_old_one(tmp_path):
    def frames():
        yield smooth(8, 8)
        raise RuntimeError("no more")

    for name in ("film.mp4", "film.gif"):
        (tmp_path / name).write_bytes(b"old")
        with pytest.raises(RuntimeError, match="no more"):
            write_video(tmp_path / name, frames())
        assert (tmp_path / name).read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["film.gif", "film.mp4"]


@pytest.mark.slow
def test_png_needs_no_extra_and_films_name_theirs(tmp_path):
    code = f"""
import sys
for name in ("PIL", "imageio", "imageio_ffmpeg"):
    sys.modules[name] = None
import numpy as np
from newtongs.base.errors import InputError
from newtongs.render import write_png, write_video
x = np.zeros((4, 4, 3))
write_png({str(tmp_path / "a.png")!r}, x)
for ending in ("mp4", "gif"):
    try:
        write_video({str(tmp_path)!r} + "/a." + ending, [x])
    except InputError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.count("pip install 'newtongs[video]'") == 2
    assert os.listdir(tmp_path) == ["a.png"]


def test_whole_numbers_are_bytes_whatever_their_kind():
    picture = np.arange(27).reshape(3, 3, 3) * 10 - 5
    expected = np.clip(picture, 0, 255).astype(np.uint8)
    for kind in (np.int64, np.int32, np.float32):
        x = picture / 255 if kind is np.float32 else picture
        assert (to_bytes(x.astype(kind)) == expected).all()
