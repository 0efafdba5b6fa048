"""Cameras of captured scenes: nerfstudio and instant-ngp ``transforms.json``, COLMAP text.

Both are read as pinhole :class:`Camera` objects with our axes (x right, y down, z forward). Lens
distortion is ignored, with a warning if it is not zero; fisheye and panoramic models, which no
pinhole approximates, are rejected.
"""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ..base import rotations
from ..base.errors import InputError
from ..base.files import read_json
from ..scene.cameras import Camera

SIZE_LIMIT = 1 << 14  # pixels per side; the largest sensors have 14,204
RIGID = 1e-3  # tolerance of the axes of a camera from perpendicular

# COLMAP: model -> positions of fx, fy, cx, cy among its parameters, and their number.
MODELS = {
    "SIMPLE_PINHOLE": ((0, 0, 1, 2), 3),
    "PINHOLE": ((0, 1, 2, 3), 4),
    "SIMPLE_RADIAL": ((0, 0, 1, 2), 4),
    "RADIAL": ((0, 0, 1, 2), 5),
    "OPENCV": ((0, 1, 2, 3), 8),
}
MODEL_FOLDERS = ("0", "sparse/0", "sparse", "colmap/sparse/0")
DISTORTION = ("k1", "k2", "k3", "k4", "p1", "p2")


class Lens(NamedTuple):
    """Intrinsics in pixels and the size of the picture."""

    fx: float
    fy: float
    cx: float
    cy: float
    width: int
    height: int


def load_cameras(path: Path | str, *, size: tuple[int, int] | None = None) -> list[Camera]:
    """The cameras of a capture.

    Args:
        path: a ``transforms.json``, or a folder with one; or a COLMAP text model: a folder with
            ``cameras.txt`` and ``images.txt``, or one with these in ``sparse/0``.
        size: width and height in pixels for files without, such as NeRF's synthetic scenes
            (800, 800).

    The cameras of ``transforms.json`` are returned in the order of the file, those of COLMAP by
    image name.
    """
    path = Path(path)
    try:
        if path.is_file() and path.name not in ("cameras.txt", "images.txt"):
            return _from_transforms(path, size)
        folder = path.parent if path.is_file() else path
        if path.is_dir() and (path / "transforms.json").is_file():
            return _from_transforms(path / "transforms.json", size)
        for model in (folder, *(folder / inner for inner in MODEL_FOLDERS)):
            if (model / "cameras.txt").is_file() and (model / "images.txt").is_file():
                return _from_colmap(model)
        raise InputError(_nothing_found(path))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def _nothing_found(path: Path) -> str:
    if not path.exists():
        return f"no such file or folder: {path}"
    if next(iter([*path.glob("cameras.bin"), *path.glob("sparse/*/cameras.bin")]), None):
        return (
            f"{path} contains a binary COLMAP model; convert it to text with: "
            "colmap model_converter --output_type TXT"
        )
    return f"no cameras in {path}; expected transforms.json, or cameras.txt with images.txt"


def _from_transforms(path: Path, size: tuple[int, int] | None) -> list[Camera]:
    content = read_json(path)
    frames = content.get("frames") if isinstance(content, dict) else None
    if not isinstance(frames, list) or not all(isinstance(f, dict) for f in frames) or not frames:
        raise InputError(f"{path}: expected a list 'frames' with a 'transform_matrix' in each")
    shared = {k: v for k, v in content.items() if k != "frames"}
    if size is not None:
        shared = {"w": size[0], "h": size[1], **shared}
    cameras, distorted = [], False
    for i, frame in enumerate(frames):
        known, where = {**shared, **frame}, f"{path}, frame {i}"
        lens = _checked_lens(_lens(known, where), where)
        cameras.append(_camera(lens, _opengl_to_w2c(known.get("transform_matrix"), where)))
        distorted |= any(_number(known, k, where, 0.0) for k in DISTORTION)
    _warn_of_distortion(path, distorted)
    return cameras


def _lens(known: Mapping[str, Any], where: str) -> Lens:
    """From focal lengths or angles of view; the principal point is at the centre by default."""
    model = known.get("camera_model", "OPENCV")
    if not isinstance(model, str) or model not in MODELS or known.get("is_fisheye"):
        raise InputError(f"{where}: the camera model is not a pinhole; undistort the images")
    width, height, cx, cy = (_number(known, key, where, math.nan) for key in ("w", "h", "cx", "cy"))
    if math.isnan(width) or math.isnan(height):
        raise InputError(
            f"{where}: no picture size; add 'w' and 'h' to the file, or in Python pass "
            "size=(width, height)"
        )
    fx = _focal(known, "x", width, where)
    fy = _focal(known, "y", height, where)
    if fx is None and fy is None:
        raise InputError(f"{where}: expected 'fl_x' or 'camera_angle_x'")
    fx, fy = fx or fy or 0.0, fy or fx or 0.0  # square pixels if one is missing
    cx, cy = (m / 2 if math.isnan(c) else c for c, m in ((cx, width), (cy, height)))
    return Lens(fx, fy, cx, cy, _pixels(width, where), _pixels(height, where))


def _focal(known: Mapping[str, Any], axis: str, side: float, where: str) -> float | None:
    if f"fl_{axis}" in known:
        return _number(known, f"fl_{axis}", where, 0.0)
    if f"camera_angle_{axis}" not in known:
        return None
    angle = _number(known, f"camera_angle_{axis}", where, 0.0)
    if not 0 < angle < math.pi:
        raise InputError(f"{where}: camera_angle_{axis} lies between 0 and pi, got {angle}")
    return 0.5 * side / math.tan(0.5 * angle)


def _number(known: Mapping[str, Any], key: str, where: str, default: float) -> float:
    value = known.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e18:
        raise InputError(f"{where}: expected a number for {key!r}, got {str(value)[:40]!r}")
    return float(value)


def _pixels(side: float, where: str) -> int:
    """Whole pixels."""
    if not (1 <= side <= SIZE_LIMIT and side == round(side)):
        raise InputError(
            f"{where}: expected a picture of 1 to {SIZE_LIMIT:,} whole pixels per side, "
            f"got {side:g}"
        )
    return int(side)


def _opengl_to_w2c(matrix: Any, where: str) -> np.ndarray:
    """World to camera from a camera-to-world matrix with axes x right, y up, z backward."""
    try:
        c2w = np.array(matrix, dtype=np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{where}: 'transform_matrix' is not a matrix of numbers") from error
    if c2w.shape not in ((3, 4), (4, 4)) or not np.isfinite(c2w).all():
        raise InputError(f"{where}: expected a finite 3x4 or 4x4 'transform_matrix'")
    axes = c2w[:3, :3] / np.maximum(np.linalg.norm(c2w[:3, :3], axis=0), 1e-30)
    if np.abs(axes.T @ axes - np.eye(3)).max() > RIGID or np.linalg.det(axes) < 0:
        raise InputError(f"{where}: 'transform_matrix' is not a rotation and a position")
    axes = axes * [1, -1, -1]
    return _rigid(axes.T, -axes.T @ c2w[:3, 3])


def _rigid(rotation: np.ndarray, translation: np.ndarray) -> np.ndarray:
    w2c = np.eye(4)
    w2c[:3, :3], w2c[:3, 3] = rotation, translation
    return w2c


def _from_colmap(folder: Path) -> list[Camera]:
    lenses = _colmap_lenses(folder / "cameras.txt")
    found = list[tuple[str, Camera]]()
    for where, line in _image_lines(folder / "images.txt"):
        words = line.split(maxsplit=9)
        if len(words) < 10 or words[8] not in lenses:
            raise InputError(
                f"{where}: expected IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME with a camera "
                "of cameras.txt"
            )
        pose = np.array(_floats(words[1:8], where))
        norm = float(np.linalg.norm(pose[:4]))
        if not 1e-6 < norm < 1e6:
            raise InputError(f"{where}: the quaternion has length {norm}")
        rotation = rotations.to_matrix(torch.from_numpy(pose[:4] / norm)).numpy()
        found.append((words[9], _camera(lenses[words[8]], _rigid(rotation, pose[4:]))))
    if not found:
        raise InputError(f"{folder / 'images.txt'} contains no image")
    return [camera for _, camera in sorted(found, key=lambda pair: pair[0])]


def _colmap_lenses(path: Path) -> dict[str, Lens]:
    """Intrinsics by camera id."""
    lenses, distorted = dict[str, Lens](), False
    for where, line in _text_lines(path):
        if words := line.split():
            lens, extra = _colmap_lens(words, where)
            lenses[words[0]] = _checked_lens(lens, where)
            distorted |= any(extra)
    _warn_of_distortion(path, distorted)
    return lenses


def _colmap_lens(words: list[str], where: str) -> tuple[Lens, list[float]]:
    """The lens and the distortion of one line of cameras.txt."""
    model = words[1] if len(words) > 1 else ""
    if model not in MODELS:
        raise InputError(
            f"{where}: camera model {model[:30]!r} is not one of {', '.join(MODELS)}; "
            "undistort with: colmap image_undistorter"
        )
    (fx, fy, cx, cy), count = MODELS[model]
    if len(words) != 4 + count:
        raise InputError(f"{where}: expected CAMERA_ID {model} WIDTH HEIGHT and {count} numbers")
    width, height, *values = _floats(words[2:], where)
    lens = Lens(
        values[fx],
        values[fy],
        values[cx],
        values[cy],
        _pixels(width, where),
        _pixels(height, where),
    )
    return lens, values[cy + 1 :]


def _image_lines(path: Path) -> Iterator[tuple[str, str]]:
    """The first of the two lines of every image; the second lists its points and may be empty."""
    lines = _text_lines(path)
    for where, line in lines:
        if line:
            yield where, line
            next(lines, None)


def _text_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Lines that are not comments, with their locations."""
    with path.open(encoding="utf-8", errors="replace") as f:
        for number, line in enumerate(f, 1):
            if not line.startswith("#"):
                yield f"{path}, line {number}", line.strip()


def _floats(words: Sequence[str], where: str) -> list[float]:
    try:
        values = [float(word) for word in words]
    except ValueError as error:
        raise InputError(f"{where}: expected numbers, got {' '.join(words)[:60]!r}") from error
    if not all(abs(x) < 1e18 for x in values):
        raise InputError(f"{where}: expected finite numbers, got {' '.join(words)[:60]!r}")
    return values


def _checked_lens(lens: Lens, where: str) -> Lens:
    if not (lens.fx > 0 and lens.fy > 0):
        raise InputError(f"{where}: expected a positive focal length, got {lens.fx}, {lens.fy}")
    return lens


def _camera(lens: Lens, w2c: np.ndarray) -> Camera:
    K = torch.tensor([[lens.fx, 0, lens.cx], [0, lens.fy, lens.cy], [0, 0, 1]])
    return Camera(K, torch.from_numpy(w2c).float(), lens.width, lens.height)


def _warn_of_distortion(path: Path, distorted: bool) -> None:
    if distorted:
        warnings.warn(
            f"{path}: lens distortion is ignored; undistort the images for exact pictures",
            stacklevel=4,
        )
