"""Invalid values in files: repaired if their meaning is clear, otherwise dropped."""

import math
import warnings
from pathlib import Path

import numpy as np
from torch import Tensor

from ..base.errors import InputError
from ..scene.gaussians import LOGIT_ONE, LOGIT_ZERO, SCALE_FLOOR, GaussianScene

LOG_SCALE_LIMIT = 44.0  # above, the squared scale in the covariance overflows


def usable(
    source: Path | str,
    *,
    means: Tensor,
    quats: Tensor,
    log_scales: Tensor,
    logits: Tensor,
    sh: Tensor,
    ids: Tensor | None = None,
) -> GaussianScene:
    """A scene without the Gaussians that cannot be drawn.

    Infinite logits mean opacity 0 or 1 and a log scale of minus infinity means flat: these are made
    finite. Gaussians with any other NaN or infinity, or a scale whose square overflows, are dropped
    with one warning; if none is left it is an error.
    """
    fields = {
        "means": means,
        "quats": quats,
        "log_scales": log_scales,
        "logits": logits,
        "sh": sh,
    }
    if not all(map(_surely_finite, fields.values())) or _largest(log_scales) > LOG_SCALE_LIMIT:
        logits = logits.clamp(LOGIT_ZERO, LOGIT_ONE)
        log_scales = log_scales.clamp_min(math.log(SCALE_FLOOR))
        fields |= {"log_scales": log_scales, "logits": logits}
        keep = (log_scales <= LOG_SCALE_LIMIT).all(-1)
        for x in fields.values():
            keep &= x.isfinite().flatten(1).all(-1) if x.dim() > 1 else x.isfinite()
        fields = _dropped(source, fields | ({} if ids is None else {"ids": ids}), keep)
    elif ids is not None:
        fields["ids"] = ids
    return GaussianScene(**fields)


def _surely_finite(x: Tensor) -> bool:
    """A sum is finite if every term is; numpy computes it without starting threads."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(x.numpy().sum())) if x.device.type == "cpu" else False


def _largest(x: Tensor) -> float:
    return float(x.max()) if x.numel() else 0.0


def _dropped(source: Path | str, fields: dict[str, Tensor], keep: Tensor) -> dict[str, Tensor]:
    bad, n = int((~keep).sum()), len(keep)
    if bad == n:
        raise InputError(
            f"{source}: all {n:,} Gaussians contain NaN or infinite values; "
            "the file is damaged or in another byte order"
        )
    if not bad:
        return fields
    warnings.warn(
        f"{source}: dropped {bad:,} of {n:,} Gaussians with NaN or infinite values", stacklevel=2
    )
    return {name: x[keep] for name, x in fields.items()}
