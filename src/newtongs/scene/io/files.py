"""What every reader and writer of Gaussians shares: errors, safe writing, unusable values."""

import math
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
from torch import Tensor

from ...errors import InputError
from ..gaussians import LOGIT_ONE, LOGIT_ZERO, SCALE_FLOOR, GaussianScene

LOG_SCALE_LIMIT = 44.0  # above it the squared scale, an entry of the covariance, is infinite


def existing_file(path: Path | str) -> Path:
    """The path, if a readable file stands there."""
    path = Path(path)
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder; give a file of Gaussians")
        if path.exists() and not path.is_file():  # a pipe would wait for ever
            raise InputError(f"{path} is no ordinary file; give a file of Gaussians")
        with path.open("rb"):
            return path
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read {path}: {reason}") from error


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let ``write`` fill a temporary file and rename it, so that no half file is ever seen."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as f:
                write(f)
            os.chmod(part, 0o644)
            os.replace(part, path)
        except BaseException:
            os.unlink(part)
            raise
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot write {path}: {reason}") from error


@contextmanager
def foreign(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever another library raises over a stranger's bytes into one line."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(f"{path} cannot be read as {kind}: {lines[0][:160]}") from error


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

    Infinite logits mean opacity 0 or 1 and a log scale of minus infinity means flat: these become
    finite. Any other NaN or infinity, or a scale whose square overflows, drops the Gaussian with
    one warning; when none is left it is an error.
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
    """A sum is finite when every term is, and numpy's takes one core and no time to wake others."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(x.numpy().sum())) if x.device.type == "cpu" else False


def _largest(x: Tensor) -> float:
    return float(x.max()) if x.numel() else 0.0


def _dropped(source: Path | str, fields: dict[str, Tensor], keep: Tensor) -> dict[str, Tensor]:
    bad, n = int((~keep).sum()), len(keep)
    if bad == n:
        raise InputError(
            f"{source}: all {n:,} Gaussians hold NaN or infinite values; "
            "the file is damaged or in another byte order"
        )
    if not bad:
        return fields
    warnings.warn(
        f"{source}: dropped {bad:,} of {n:,} Gaussians with NaN or infinite values", stacklevel=2
    )
    return {name: x[keep] for name, x in fields.items()}
