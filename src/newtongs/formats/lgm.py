"""LGM and L4GM tensors, with 14 activated channels per Gaussian, and files of them.

The channels are xyz, opacity, scale, quaternion (scalar first) and rgb. L4GM dumps are
``(1, T, N, 14)`` in float16 or float32; index k in two frames is not the same material point.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..base.errors import InputError
from ..base.files import foreign, load_torch, private_copy
from ..base.state import as_tensor
from ..scene.gaussians import SCALE_FLOOR, ArrayLike, GaussianScene, color_to_sh, opacity_to_logit
from .sanitize import usable

CHANNELS = 14
SIZES = [3, 1, 3, 4, 3]  # xyz, opacity, scale, quaternion, rgb
SLACK = 1e-3  # tolerance around [0, 1] for half precision


def from_lgm(
    tensor: ArrayLike, *, frame: int = 0, source: Path | str = "the tensor"
) -> GaussianScene:
    """A scene from a tensor ``(..., N, 14)``.

    Args:
        tensor: activated values; leading dimensions are flattened to frames.
        frame: index of the frame.
        source: name of the tensor in an error.
    """
    x = as_tensor(tensor, str(source)).detach()
    if x.dim() < 2 or x.shape[-1] != CHANNELS:
        raise InputError(
            f"{source}: expected shape (..., N, {CHANNELS}) of LGM, got {tuple(x.shape)}"
        )
    frames = x.shape[:-2].numel()
    if not 0 <= frame < frames:
        raise InputError(f"{source}: no frame {frame}; there are {frames}, counted from 0")
    x = x.reshape(frames, *x.shape[-2:])[frame].float()
    means, opacity, scale, quats, rgb = x.split(SIZES, -1)
    require_activated(opacity, scale, source)
    return usable(
        source,
        means=means.contiguous(),
        quats=quats.contiguous(),
        log_scales=scale.clamp_min(SCALE_FLOOR).log(),
        logits=opacity_to_logit(opacity[:, 0].clamp(0, 1)),
        sh=color_to_sh(rgb),
    )


def to_lgm(scene: GaussianScene) -> Tensor:
    """Activated channels ``(N, 14)`` of a scene, without view-dependent colour."""
    parts = [scene.means, scene.opacities[:, None], scene.scales, scene.quats, scene.colors]
    return torch.cat(parts, -1)


def read(path: Path, kind: str, *, frame: int) -> GaussianScene:
    """A scene from a file; ``kind`` is one of :data:`READERS`."""
    with foreign(path, f"a {kind} file"):
        tensor = READERS[kind](path)
    return from_lgm(tensor, frame=frame, source=path)


def require_activated(opacity: Tensor, scale: Tensor, source: Path | str) -> None:
    """Raise if channels are not activated; NaN is accepted here."""
    if bool(((opacity < -SLACK) | (opacity > 1 + SLACK)).any()) or bool((scale < 0).any()):
        raise InputError(
            f"{source}: LGM channels are activated: expected opacities (channel 3) in [0, 1] and "
            "scales (channels 4 to 6) above 0"
        )


def _read_npy(path: Path) -> Tensor:
    with private_copy(path) as copy:
        # For a mapped file numpy checks the size against the header before reading.
        x = np.load(copy, mmap_mode="r", allow_pickle=False)
    if not isinstance(x, np.ndarray) or x.dtype.kind != "f":
        raise InputError(f"{path}: expected an array of floating-point numbers")
    return torch.from_numpy(np.array(x, dtype=np.float32))


def _read_pt(path: Path) -> Tensor:
    return _only_tensor(path, load_torch(path)).clone()


def _read_safetensors(path: Path) -> Tensor:
    from safetensors import safe_open

    with private_copy(path) as copy, safe_open(copy, framework="pt") as f:
        shapes = {name: f.get_slice(name).get_shape() for name in f.keys()}  # noqa: SIM118
        names = [name for name, shape in shapes.items() if shape[-1:] == [CHANNELS]]
        return _only_tensor(path, {name: f.get_tensor(name) for name in names[:2]})


READERS: dict[str, Callable[[Path], Tensor]] = {
    "npy": _read_npy,
    "pt": _read_pt,
    "safetensors": _read_safetensors,
}


def _only_tensor(path: Path, content: Any) -> Tensor:
    """The content itself, or the one value of a mapping that has 14 channels."""
    if isinstance(content, Tensor):
        return content
    values = list(content.values()) if isinstance(content, Mapping) else []
    fits = [x for x in values if isinstance(x, Tensor) and x.shape[-1:] == (CHANNELS,)]
    if len(fits) != 1:
        raise InputError(
            f"{path}: expected one tensor of shape (..., N, {CHANNELS}), found {len(fits)}"
        )
    return fits[0]
