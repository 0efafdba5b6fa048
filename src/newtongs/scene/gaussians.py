"""The container: an immutable set of 3D Gaussians with colour and object ids.

Parameters are stored before activation, as in the common file format (log scale, logit of the
opacity), so that reading and writing is lossless; ``scales``, ``opacities`` and ``covariances`` are
derived from them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..base import rotations
from ..base.errors import InputError
from ..base.state import as_tensor, checked_device
from ..base.types import Quat, Vec3

BACKGROUND = -1  # object id of Gaussians that belong to no object
SH_DEGREES = {1: 0, 4: 1, 9: 2, 16: 3}  # coefficients per colour channel: degree
SH_C0 = 0.28209479177387814  # the constant basis function, 1 / (2 sqrt(pi))
QUANTILES_OF = 1 << 24  # rows; torch supports no more
UNIT_TOLERANCE = 1e-6  # quaternions this close to unit length stay as they are, bit for bit
LOGIT_ONE, LOGIT_ZERO = 17.0, -100.0  # opacities whose sigmoid is 1 and, to 1e-43, 0 in float32
BRIGHTEST = 10.0  # larger colours must be bytes
SCALE_FLOOR = 1e-30  # of a flat Gaussian, whose logarithm must stay finite
AT_A_TIME = 2**18  # Gaussians for which larger intermediate results are computed at once

ArrayLike = Tensor | np.ndarray | Sequence[Any]


@dataclass(frozen=True, eq=False)
class GaussianScene:
    """``N`` Gaussians, made with :meth:`make` from activated values or read from a file.

    Covariances are ``R diag(scales^2) R^T`` with ``R`` the rotation of ``quats``; colour in
    direction d is ``0.5 + sum_k sh_k Y_k(d)``, where d points from the camera to the Gaussian.
    """

    means: Vec3
    """Centres ``(N, 3)``."""
    quats: Quat
    """Unit quaternions ``(N, 4)``, scalar first."""
    log_scales: Tensor
    """Logarithms ``(N, 3)`` of the standard deviations along the rotated axes."""
    logits: Tensor
    """Opacities before the sigmoid ``(N,)``."""
    sh: Tensor
    """Spherical harmonics ``(N, K, 3)``, ``K`` = 1, 4, 9 or 16 for degree 0 to 3."""
    ids: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    """Object of each Gaussian ``(N,)``; -1 is background. Default: all background."""

    def __post_init__(self) -> None:
        for f in fields(self):
            if f.name != "ids":
                object.__setattr__(self, f.name, _floats(getattr(self, f.name), f.name))
        n, like = len(self.means), self.means
        for f in fields(self):
            if f.name != "ids":  # dtype and device of the means
                object.__setattr__(self, f.name, getattr(self, f.name).to(like))
        ids = torch.as_tensor(self.ids, dtype=torch.long, device=like.device)
        if not ids.numel() and n:
            ids = torch.full((n,), BACKGROUND, device=like.device)
        object.__setattr__(self, "ids", ids)
        wanted = {
            "means": (n, 3),
            "quats": (n, 4),
            "log_scales": (n, 3),
            "logits": (n,),
            "ids": (n,),
        }
        for name, shape in wanted.items():
            if tuple(getattr(self, name).shape) != shape:
                got = tuple(getattr(self, name).shape)
                raise InputError(f"{name}: expected shape {shape} for {n} Gaussians, got {got}")
        if self.sh.dim() != 3 or self.sh.shape[::2] != (n, 3) or self.sh.shape[1] not in SH_DEGREES:
            raise InputError(
                f"sh: expected shape ({n}, K, 3) with K one of {[*SH_DEGREES]}, "
                f"got {tuple(self.sh.shape)}"
            )
        object.__setattr__(self, "quats", unit(self.quats))

    @classmethod
    def make(
        cls,
        *,
        means: ArrayLike,
        scales: ArrayLike,
        quats: ArrayLike | None = None,
        opacities: ArrayLike | None = None,
        colors: ArrayLike | None = None,
        sh: ArrayLike | None = None,
        ids: ArrayLike | int | None = None,
    ) -> "GaussianScene":
        """From activated values.

        Args:
            means: ``(N, 3)``.
            scales: standard deviations ``(N, 3)``, or ``(N,)`` for round ones.
            quats: ``(N, 4)``, scalar first; default no rotation.
            opacities: ``(N,)`` in [0, 1]; default 1.
            colors: RGB ``(N, 3)`` in [0, 1], independent of direction; default mid grey.
            sh: coefficients ``(N, K, 3)`` instead of ``colors``.
            ids: object id of each, or one for all; default background.
        """
        x = _floats(means, "means")
        if x.dim() != 2:
            raise InputError(f"means: expected shape (N, 3), got {tuple(x.shape)}")
        n = len(x)
        s = _floats(scales, "scales").to(x)
        s = s.unsqueeze(-1).expand(n, 3) if s.dim() == 1 else s
        a = x.new_ones(n) if opacities is None else _floats(opacities, "opacities").to(x)
        if not ((a >= 0) & (a <= 1)).all():
            raise InputError("opacities: expected numbers from 0 to 1; are these logits?")
        if not (s >= 0).all():
            raise InputError(
                "scales: expected standard deviations of 0 or more; are these logarithms?"
            )
        if sh is None:
            rgb = x.new_full((n, 3), 0.5) if colors is None else _floats(colors, "colors").to(x)
            if rgb.numel() and rgb.amax() > BRIGHTEST:
                raise InputError(
                    f"colors: expected RGB from 0 to 1, got {float(rgb.amax()):g}; are these bytes?"
                )
            sh = color_to_sh(rgb)
        if ids is None or isinstance(ids, int):
            ids = torch.full((n,), BACKGROUND if ids is None else ids, device=x.device)
        return cls(
            means=x,
            quats=rotations.identity(n, like=x) if quats is None else _floats(quats, "quats").to(x),
            log_scales=s.clamp_min(SCALE_FLOOR).log(),
            logits=opacity_to_logit(a),
            sh=_floats(sh, "sh").to(x),
            ids=_whole_numbers(ids),
        )

    def __len__(self) -> int:
        return len(self.means)

    def __repr__(self) -> str:
        objects = len([i for i in self.object_ids if i != BACKGROUND])
        return (
            f"GaussianScene({len(self):,} Gaussians, SH degree {self.sh_degree}, "
            f"{objects} objects, {self.device})"
        )

    def __getitem__(self, index: Any) -> "GaussianScene":
        """The Gaussians at a slice, a mask or indices; a mask of all copies nothing."""
        if isinstance(index, int | np.integer):
            at = int(index)
            if not -len(self) <= at < len(self):
                raise IndexError(f"no Gaussian {at} in a scene of {len(self)}")
            index = slice(at, at + 1 or None)
        elif not isinstance(index, slice):
            index = torch.as_tensor(index, device=self.device)
            index = index if index.numel() else index.long()  # an empty list has no type
            if index.dtype == torch.bool and len(index) == len(self) and index.all():
                return self
        return GaussianScene(**{f.name: getattr(self, f.name)[index] for f in fields(self)})

    def replace(self, **changed: Any) -> "GaussianScene":
        """A copy with some fields changed; the others are shared, not copied."""
        return replace(self, **changed)

    def to(self, device: torch.device | str) -> "GaussianScene":
        """The same scene on another device, or itself if it is there."""
        there = checked_device(device)
        if there == self.device:
            return self
        return GaussianScene(**{f.name: getattr(self, f.name).to(there) for f in fields(self)})

    def numpy(self) -> Mapping[str, np.ndarray]:
        """The fields as arrays that share memory with a CPU scene."""
        return {f.name: getattr(self, f.name).detach().cpu().numpy() for f in fields(self)}

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        return self.means.device

    @property
    def sh_degree(self) -> int:
        """0 to 3."""
        return SH_DEGREES[self.sh.shape[1]]

    @cached_property
    def scales(self) -> Tensor:
        """Standard deviations ``(N, 3)``."""
        return self.log_scales.exp()

    @cached_property
    def opacities(self) -> Tensor:
        """Opacities ``(N,)`` in [0, 1]."""
        return self.logits.sigmoid()

    @cached_property
    def colors(self) -> Tensor:
        """Colour ``(N, 3)`` without the view-dependent part, not clamped."""
        return 0.5 + SH_C0 * self.sh[:, 0]

    @cached_property
    def covariances(self) -> Tensor:
        """``(N, 3, 3)``, symmetric positive semidefinite."""
        m = rotations.to_matrix(self.quats) * self.scales.unsqueeze(-2)
        return m @ m.mT

    @property
    def plain(self) -> "GaussianScene":
        """The same Gaussians without view-dependent colour, which is four fifths of their memory.

        Nothing is copied. To pick Gaussians for anything but drawing, pick them from this.
        """
        return self._plain if self.sh_degree else self

    @cached_property
    def _plain(self) -> "GaussianScene":
        return self.replace(sh=self.sh[:, :1])

    @property
    def object_ids(self) -> list[int]:
        """Object ids in the scene, sorted."""
        return [int(i) for i in self.ids.unique()]

    def object(self, index: int) -> "GaussianScene":
        """The Gaussians of one object."""
        its = self.ids == index
        if not its.any():
            raise InputError(f"no object {index} in the scene; there are {self.object_ids}")
        return self[its]

    def bounds(self, *, sigmas: float = 0.0) -> tuple[Vec3, Vec3]:
        """Lowest and highest corner of the bounding box of the means, or of the ellipsoids.

        ``sigmas`` is the extent of a Gaussian in standard deviations.
        """
        if not len(self):
            raise InputError("an empty scene has no bounds")
        if not sigmas:
            return self.means.amin(0), self.means.amax(0)
        reach = sigmas * self.covariances.diagonal(dim1=-2, dim2=-1).clamp_min(0).sqrt()
        return (self.means - reach).amin(0), (self.means + reach).amax(0)


def join(*scenes: GaussianScene) -> GaussianScene:
    """Several scenes as one; colour of lower degree is padded with zeros."""
    if not scenes:
        raise InputError("nothing to join; give at least one scene")
    for scene in scenes:
        if not isinstance(scene, GaussianScene):
            raise InputError(f"join takes scenes, join(a, b, ...), got a {type(scene).__name__}")
    if len(scenes) == 1:
        return scenes[0]
    widest = max(scene.sh.shape[1] for scene in scenes)
    parts = {f.name: [getattr(scene, f.name) for scene in scenes] for f in fields(GaussianScene)}
    pad = torch.nn.functional.pad
    parts["sh"] = [
        x if x.shape[1] == widest else pad(x, (0, 0, 0, widest - x.shape[1])) for x in parts["sh"]
    ]
    return GaussianScene(**{name: torch.cat(xs) for name, xs in parts.items()})


def unit(q: Quat) -> Quat:
    """Normalised quaternions; unit ones stay bit for bit, zeros become the identity."""
    norm = torch.linalg.vector_norm(q, dim=-1, keepdim=True)
    kept = (norm - 1).abs() <= UNIT_TOLERANCE
    if kept.all():
        return q
    if len(q) > AT_A_TIME:
        return torch.cat([unit(part) for part in q.split(AT_A_TIME)])
    # In float64 the squares of float32 numbers neither underflow nor overflow.
    norm = torch.linalg.vector_norm(q, dim=-1, keepdim=True, dtype=torch.float64)
    none = rotations.identity(*q.shape[:-1], like=q)
    return torch.where(kept, q, torch.where(norm > 0, (q / norm).to(q), none))


def opacity_to_logit(a: Tensor) -> Tensor:
    """Inverse of the sigmoid, finite at 0 and 1."""
    return torch.logit(a.double()).clamp(LOGIT_ZERO, LOGIT_ONE).to(a.dtype)


def color_to_sh(rgb: Tensor) -> Tensor:
    """Degree-0 coefficients ``(N, 1, 3)`` of colours ``(N, 3)`` independent of direction."""
    return ((rgb - 0.5) / SH_C0).unsqueeze(-2)


def _whole_numbers(ids: ArrayLike) -> Tensor:
    """Object ids as integers; fractions are rejected."""
    x = as_tensor(ids, "ids") if not isinstance(ids, Tensor) else ids
    if x.is_floating_point() and not (x == x.round()).all():
        raise InputError("ids: expected whole numbers")
    return x.long()


def _floats(x: Any, name: str) -> Tensor:
    """A float tensor; float64 tensors are kept, arrays become float32."""
    return as_tensor(x, name)


def quantiles(x: Tensor, q: Sequence[float]) -> Tensor:
    """Quantiles ``(len(q), ...)`` over the rows of ``x``; over every k-th if there are too many."""
    step = -(-len(x) // QUANTILES_OF) or 1
    return x[::step].quantile(x.new_tensor(q), dim=0)
