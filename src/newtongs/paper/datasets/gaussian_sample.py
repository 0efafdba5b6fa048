"""One Gaussian-32 sample on disk: its schema, writing, reading, and recomputing parts.

A sample is a plain dictionary of tensors, text and numbers: ``states (49, 22)``, ``metadata``, and
the groups of :data:`SCHEMA`. It loads with ``torch.load(path, weights_only=True)`` or, checked,
with :func:`load`.
"""

import errno
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal

import torch
from torch import Tensor

from ...base import state
from ...base.errors import InputError
from ...base.files import torch_content, write_atomically
from ...base.state import DIM
from ...samples import BACKGROUND_GAUSSIANS, OBJECT_GAUSSIANS
from ...scene.transform import transform_sequence

FRAMES = 49
VIEWS = 4
IMAGE_SIZE = 128  # pixels per side
FORMAT = "newtongs gaussian32 v1"

Store = Literal["full", "compact"]
Sample = dict[str, Any]

_ALL = OBJECT_GAUSSIANS + BACKGROUND_GAUSSIANS
SCHEMA: dict[str, dict[str, tuple[int, ...]]] = {
    "object": {
        "local_means": (OBJECT_GAUSSIANS, 3), "colors": (OBJECT_GAUSSIANS, 3),
        "opacities": (OBJECT_GAUSSIANS,), "covariances": (OBJECT_GAUSSIANS, 3, 3),
    },
    "background": {
        "means": (BACKGROUND_GAUSSIANS, 3), "colors": (BACKGROUND_GAUSSIANS, 3),
        "opacities": (BACKGROUND_GAUSSIANS,), "covariances": (BACKGROUND_GAUSSIANS, 3, 3),
    },
    "object_sequence": {
        "means": (FRAMES, OBJECT_GAUSSIANS, 3), "covariances": (FRAMES, OBJECT_GAUSSIANS, 3, 3),
    },
    "scene_sequence": {"means": (FRAMES, _ALL, 3), "covariances": (FRAMES, _ALL, 3, 3)},
    "flow": {"object": (FRAMES - 1, OBJECT_GAUSSIANS, 3), "scene": (FRAMES - 1, _ALL, 3)},
    "events": {"collision": (FRAMES,), "contact_normal": (FRAMES, 3), "impulse": (FRAMES,)},
    "cameras": {"K": (VIEWS, 3, 3), "w2c": (VIEWS, 4, 4), "c2w": (VIEWS, 4, 4)},
    "render": {
        "rgb": (FRAMES, VIEWS, IMAGE_SIZE, IMAGE_SIZE, 3),
        "depth": (FRAMES, VIEWS, IMAGE_SIZE, IMAGE_SIZE),
        "mask": (FRAMES, VIEWS, IMAGE_SIZE, IMAGE_SIZE),
    },
}  # fmt: skip
"""Groups of a sample and their shapes, besides ``states (49, 22)`` and ``metadata``."""

DERIVED = ("object_sequence", "scene_sequence", "flow")  # determined by the other groups


def derive(sample: Mapping[str, Any]) -> dict[str, dict[str, Tensor]]:
    """Moving object, composed scene and 3D flows, from states, object and background.

    The object's canonical state is the origin with unit scale, so that one affine map per frame,
    ``R(q_t) diag(s_t) x + p_t``, places it. With ``q_0`` the identity this is the paper's
    transformation of the first frame, in both of its forms.
    """
    thing, place = sample["object"], sample["background"]
    means, covariances = transform_sequence(
        thing["local_means"], thing["covariances"], state.make(), sample["states"]
    )
    scene_means = _beside(means, place["means"])
    return {
        "object_sequence": {"means": means, "covariances": covariances},
        "scene_sequence": {
            "means": scene_means, "covariances": _beside(covariances, place["covariances"]),
        },
        "flow": {"object": means.diff(dim=0), "scene": scene_means.diff(dim=0)},
    }  # fmt: skip


def _beside(moving: Tensor, still: Tensor) -> Tensor:
    """Moving rows ``(T, n, ...)`` followed by static ones ``(m, ...)``."""
    return torch.cat([moving, still.expand(len(moving), *still.shape)], dim=1)


def save(path: Path, sample: Sample, *, store: Store = "full") -> None:
    """Write a sample atomically."""
    left_out = DERIVED if store == "compact" else ()
    content = {k: x for k, x in sample.items() if k not in left_out}
    content["metadata"] = {**sample["metadata"], "store": store}
    write_atomically(path, lambda f: _write(content, f))


def _write(content: Sample, file: BinaryIO) -> None:
    try:
        torch.save(content, file)
    except RuntimeError as error:  # how torch reports that the file system refused
        raise OSError(errno.EIO, "the disk is full, or refused the file") from error


def sample_bytes(store: Store, rendered: bool) -> int:
    """Size of one sample's tensors."""
    groups = [g for g in SCHEMA if store == "full" or g not in DERIVED]
    groups = [g for g in groups if rendered or g != "render"]
    return 4 * sum(math.prod(shape) for g in groups for shape in SCHEMA[g].values())


def load(path: Path | str) -> Sample:
    """Read a sample and check it against :data:`SCHEMA`; omitted parts are recomputed.

    Tensors are memory-mapped: a part is read from disk when it is used.
    """
    path = Path(path)
    sample = read(path)
    if any(group not in sample for group in DERIVED):
        sample |= derive(sample)
    return sample


def read(path: Path) -> Sample:
    """Read and check a sample as stored."""
    if not path.is_file():
        raise InputError(f"no Gaussian-32 sample {path}; make it with: newtongs data gaussian32")
    content = torch_content(path, _unusable)
    for fault in _faults(content):
        raise _unusable(path, fault)
    return content


def _unusable(path: Path, reason: str) -> InputError:
    return InputError(
        f"{path} is not a Gaussian-32 sample: {reason}; "
        "make it again with: newtongs data gaussian32 --overwrite"
    )


def _faults(content: object) -> Iterator[str]:
    """The problem with a file's content, if any."""
    if not isinstance(content, dict) or not isinstance(content.get("metadata"), dict):
        yield "expected a dictionary with metadata"
        return
    if content["metadata"].get("format") != FORMAT:
        yield f"expected format {FORMAT!r}, got {content['metadata'].get('format')!r}"
    optional = (*DERIVED, "render")
    wanted = {("states",): (FRAMES, DIM)} | {
        (group, key): shape
        for group, shapes in SCHEMA.items()
        if group in content or group not in optional
        for key, shape in shapes.items()
    }
    for keys, shape in wanted.items():
        x: Any = content
        for key in keys:
            x = x.get(key) if isinstance(x, dict) else None
        got = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        if got != shape:
            yield f"expected {'.'.join(keys)} of shape {shape}, got {got}"
