"""L4GM on Same-32: from the Gaussians of its frames to states, as the paper's adapter does.

L4GM sees only the video and reconstructs 65,536 Gaussians a frame in a frame of its own. Each frame
is lifted by itself with opacity-weighted principal components, without tracking; rates are finite
differences at 1/24 s; ``(m, e, mu)`` are inserted. Nothing is aligned with the target: no fit, no
translation, no permutation of axes, no change of units.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from ..datasets.gaussian32 import DT
from ..datasets.gaussian_sample import FRAMES
from ..errors import InputError
from ..scene.io.dumps import OPENERS, Dump, open_dump
from ..scene.io.lgm import require_activated
from ..scene.lifting import lift_moments, moments
from ..types import StateTensor

L4GM = "l4gm"
MATERIAL = {"m": 1.0, "e": 0.75, "mu": 0.2}  # inserted: L4GM predicts none of them
GUIDE = "docs/l4gm.md says how to make dumps"

Progress = Callable[[str, int, int], None]


def find_dumps(folder: Path | str, names: Sequence[str]) -> list[Dump]:
    """The dump ``{name}.npy`` (or another ending) of every sample, layouts checked."""
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
    """The dump, if it holds a sample's frames."""
    if len(dump.frame_sizes) != FRAMES:
        raise InputError(
            f"{dump.path}: expected {FRAMES} frames, got {len(dump.frame_sizes)}; run L4GM without "
            "interpolation on the exported clip, which has 24 frames a second"
        )
    return dump


def dump_states(dump: Dump) -> StateTensor:
    """States ``(T, 22)``, float32; one frame of Gaussians is held at a time."""
    # Written in place: small tensors kept between large ones would keep the heap from being reused.
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
        raise InputError(f"{source} has no Gaussian of any opacity; run L4GM on this clip again")
    return moments(x[:, :3], opacity)


def l4gm_states(
    folder: Path | str, names: Sequence[str], *, progress: Progress | None = None
) -> StateTensor:
    """States ``(len(names), 49, 22)`` of the samples named; ``progress`` counts samples."""
    dumps, states = find_dumps(folder, names), []
    for done, dump in enumerate(dumps):
        if progress:
            progress("L4GM", done, len(dumps))
        states.append(dump_states(dump))
    if progress:
        progress("L4GM", len(dumps), len(dumps))
    return torch.stack(states)
