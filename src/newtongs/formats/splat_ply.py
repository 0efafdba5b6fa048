"""Splat .ply files of INRIA, LGM and 2DGS, read by property name in plain numpy.

INRIA's layout is ``x y z nx ny nz f_dc_0..2 f_rest_0..44 opacity scale_0..2 rot_0..3`` with
opacity as logit, scale as logarithm, rotation scalar first, and ``f_rest`` channel-major (all of
red, then green, then blue). Real files change the order, omit normals or ``f_rest``, add their own
columns and contain quaternions that are not normalised. LGM writes the same names without normals
and ``f_rest``, and with ``compatible=False`` activated values; 2DGS writes two scales.
"""

import math
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from ..base.errors import InputError
from ..base.files import silent, write_atomically
from ..base.types import Progress
from ..scene.gaussians import (
    BACKGROUND,
    SCALE_FLOOR,
    SH_DEGREES,
    GaussianScene,
    color_to_sh,
    opacity_to_logit,
)
from .ply import Header, header_bytes, read_columns, read_header
from .sanitize import usable

MEANS = ["x", "y", "z"]
NORMALS = ["nx", "ny", "nz"]
COLOR = ["f_dc_0", "f_dc_1", "f_dc_2"]
SCALES = ["scale_0", "scale_1", "scale_2"]
ROTATION = ["rot_0", "rot_1", "rot_2", "rot_3"]
NEEDED = [*MEANS, *COLOR, "opacity", *SCALES[:2], *ROTATION]
OBJECT = "object_id"
BLOCK = 2048  # rows written at a time, so that they stay in the cache
THIN_DISC = 1e-3  # thickness of a 2DGS disc over its smaller scale
MARK = "newtongs: scales are logarithms, opacities logits"


def read(path: Path, header: Header | None = None, *, activated: bool | None) -> GaussianScene:
    """The Gaussians of a .ply; ``activated`` as in :func:`newtongs.formats.load`."""
    header = header or read_header(path)
    vertex = header.element("vertex")
    present = vertex.names if vertex else []
    rest = _rest_names(path, present)
    _require_splats(path, present)
    raw = _raw_fields(header, present, rest)
    if activated is None:
        activated = _looks_activated(header, present, raw)
    fields = _from_activated(raw) if activated else raw
    return usable(path, **_with_third_scale(fields), ids=_ids(header, present))


def write(scene: GaussianScene, path: Path, tell: Progress = silent) -> None:
    """Write INRIA's layout in float32, with object ids as ``int object_id`` if there are any."""
    arrays = scene.numpy()
    rest = [f"f_rest_{i}" for i in range(3 * (scene.sh.shape[1] - 1))]
    names = [*MEANS, *NORMALS, *COLOR, *rest, "opacity", *SCALES, *ROTATION]
    properties = dict.fromkeys(names, "float")
    parts = {"x": "means", "f_dc_0": "sh", "opacity": "logits", "scale_0": "log_scales"}
    parts |= {"rot_0": "quats"}
    places = {names.index(first): arrays[field] for first, field in parts.items()}
    ids = _checked_ids(arrays["ids"])
    if ids is not None:
        properties[OBJECT] = "int"

    def fill(f: BinaryIO) -> None:
        f.write(header_bytes(len(scene), properties, [MARK]))
        table = np.zeros((min(len(scene), BLOCK), len(properties)), "<f4")
        for start in range(0, len(scene), BLOCK):
            rows = table[: len(scene) - start]
            for column, array in places.items():
                part = _row_major(array[start : start + BLOCK])
                rows[:, column : column + part.shape[1]] = part
            if ids is not None:
                rows.view("<i4")[:, -1] = ids[start : start + BLOCK]
            f.write(rows.data)
            tell("writing", start + len(rows), len(scene))

    write_atomically(path, fill)


def _row_major(x: np.ndarray) -> np.ndarray:
    """Columns of a field in the order of the file: harmonics by channel after the constant ones."""
    if x.ndim < 3:
        return x.reshape(len(x), -1)
    order = np.arange(x[0].size).reshape(-1, 3)
    order = np.concatenate([order[0], order[1:].T.ravel()])
    return np.take(x.reshape(len(x), -1), order, axis=1)  # far faster than a transposed copy


def _require_splats(path: Path, present: list[str]) -> None:
    missing = [name for name in NEEDED if name not in present]
    if missing:
        raise InputError(
            f"{path} contains no Gaussians: its vertices lack {', '.join(missing)}; "
            "a mesh or a point cloud must be trained as splats first"
        )


def _rest_names(path: Path, present: list[str]) -> list[str]:
    """Names of the view-dependent colour columns, in order; their number gives the degree."""
    found = {name for name in present if re.fullmatch(r"f_rest_\d+", name)}
    names = [f"f_rest_{i}" for i in range(len(found))]
    if len(found) % 3 or 1 + len(found) // 3 not in SH_DEGREES or found != set(names):
        raise InputError(
            f"{path}: expected f_rest_0 to f_rest_8, 23 or 44 (SH degree 1, 2, 3) or none, "
            f"found {len(found)} f_rest properties"
        )
    return names


def _raw_fields(header: Header, present: list[str], rest: list[str]) -> dict[str, Tensor]:
    """The columns as stored, one tensor per field."""
    channel = len(rest) // 3
    groups = {
        "means": MEANS,
        "quats": ROTATION,
        "log_scales": [name for name in SCALES if name in present],
        "logits": ["opacity"],
        "sh": [*COLOR, *(rest[c * channel + k] for k in range(channel) for c in range(3))],
    }
    fields = read_columns(header, "vertex", groups)
    fields["logits"] = fields["logits"][:, 0]
    fields["sh"] = fields["sh"].reshape(-1, channel + 1, 3)
    return {name: torch.from_numpy(x) for name, x in fields.items()}


def _looks_activated(header: Header, present: list[str], raw: Mapping[str, Tensor]) -> bool:
    """Whether an LGM file contains activated values: a guess from their ranges.

    True only without normals, f_rest and our own mark, and if every opacity is in [0, 1], every
    scale above 0 and every colour in [0, 1]. As logits and logarithms, these would be nothing but
    half-opaque, pale grey Gaussians of more than unit size.
    """
    if {*NORMALS, "f_rest_0"} & {*present} or not len(raw["means"]):
        return False
    if any(MARK in line for line in header.comments):
        return False
    within = all(
        bool(((x >= 0) & (x <= 1)).all()) for x in (raw["logits"], raw["sh"], raw["quats"].abs())
    )
    if not (within and bool((raw["log_scales"] > 0).all())):
        return False
    warnings.warn(
        f"{header.path}: opacities and colours in [0, 1] and positive scales are taken as "
        "activated values (LGM); pass activated=False if they are logits and logarithms",
        stacklevel=3,
    )
    return True


def _from_activated(raw: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Logits, logarithms and degree-0 coefficients of opacities, scales and colours."""
    return {
        "means": raw["means"],
        "quats": raw["quats"],
        "log_scales": raw["log_scales"].clamp_min(SCALE_FLOOR).log(),
        "logits": opacity_to_logit(raw["logits"]),
        "sh": torch.cat([color_to_sh(raw["sh"][:, 0]), raw["sh"][:, 1:]], 1),
    }


def _with_third_scale(fields: dict[str, Tensor]) -> dict[str, Tensor]:
    """Add a small thickness along the third axis to 2DGS Gaussians, which are discs."""
    x = fields["log_scales"]
    if x.shape[-1] == 3:
        return fields
    thin = x.amin(-1, keepdim=True) + math.log(THIN_DISC)
    return {**fields, "log_scales": torch.cat([x, thin], -1)}


def _ids(header: Header, present: list[str]) -> Tensor | None:
    if OBJECT not in present:
        return None
    return torch.from_numpy(
        read_columns(header, "vertex", {"ids": [OBJECT]}, np.int64)["ids"][:, 0]
    )


def _checked_ids(ids: np.ndarray) -> np.ndarray | None:
    """Ids to write, or None where all is background."""
    if not (ids != BACKGROUND).any():
        return None
    limits = np.iinfo(np.int32)
    if ids.min() < limits.min or ids.max() > limits.max:
        raise InputError("object ids in a .ply are 32-bit numbers; renumber the objects")
    return ids
