"""Real spherical harmonics of degree 0 to 3, and the rotation of their coefficients.

Order and signs are those of 3D Gaussian Splatting and gsplat: within a degree the order m runs
from -l to l, and odd m carries a minus (the Condon-Shortley phase). Degree 1 is therefore
``(-y, z, -x)`` times a constant. A colour channel seen along the unit direction d, which points
from the camera to the Gaussian, is ``0.5 + sh . basis(d)``.
"""

import math
from functools import cache

import torch
from torch import Tensor

from ..base.errors import InputError
from ..base.types import Vec3
from .gaussians import SH_C0, SH_DEGREES

MAX_DEGREE = 3
SAMPLES = 64  # directions that determine D_l; 7 suffice, more are better conditioned
ROTATION_TOLERANCE = 1e-4  # largest entry of R^T R - I of a rotation

C1 = math.sqrt(3 / (4 * math.pi))
C2_MIXED, C2_ZZ, C2_XX = (math.sqrt(x / (16 * math.pi)) for x in (60, 5, 15))
C3_3, C3_2, C3_1, C3_0 = (math.sqrt(x / (32 * math.pi)) for x in (35, 210, 21, 14))


def basis(directions: Vec3, degree: int = MAX_DEGREE) -> Tensor:
    """Basis functions ``(..., (degree + 1)^2)`` at unit directions ``(..., 3)``."""
    if not 0 <= degree <= MAX_DEGREE:
        raise InputError(f"spherical harmonics have degree 0 to {MAX_DEGREE} here, got {degree}")
    x, y, z = directions.unbind(-1)
    functions = [torch.full_like(x, SH_C0)]
    if degree >= 1:
        functions += [-C1 * y, C1 * z, -C1 * x]
    if degree >= 2:
        functions += _degree_2(x, y, z)
    if degree >= 3:
        functions += _degree_3(x, y, z)
    return torch.stack(functions, dim=-1)


def darkened(sh: Tensor, factors: Tensor) -> Tensor:
    """Coefficients ``(N, K, 3)`` of colours multiplied by ``factors (N,)``."""
    f = factors.to(sh)[:, None]
    out = sh * f[..., None]
    out[:, 0] -= 0.5 * (1 - f) / SH_C0
    return out


def _degree_2(x: Tensor, y: Tensor, z: Tensor) -> list[Tensor]:
    return [
        C2_MIXED * x * y,
        -C2_MIXED * y * z,
        C2_ZZ * (2 * z * z - x * x - y * y),
        -C2_MIXED * x * z,
        C2_XX * (x * x - y * y),
    ]


def _degree_3(x: Tensor, y: Tensor, z: Tensor) -> list[Tensor]:
    xx, yy, zz = x * x, y * y, z * z
    return [
        -C3_3 * y * (3 * xx - yy),
        2 * C3_2 * x * y * z,
        -C3_1 * y * (4 * zz - xx - yy),
        C3_0 * z * (2 * zz - 3 * xx - 3 * yy),
        -C3_1 * x * (4 * zz - xx - yy),
        C3_2 * z * (xx - yy),
        -C3_3 * x * (xx - 3 * yy),
    ]


def rotation_matrices(R: Tensor, degree: int = MAX_DEGREE) -> list[Tensor]:
    """``D_l``, shapes ``(..., 2l + 1, 2l + 1)``, of rotations ``(..., 3, 3)``, in float64.

    ``basis_l(R d) = D_l basis_l(d)``. They are orthogonal and ``D_l(R S) = D_l(R) D_l(S)``. Each
    degree is closed under rotation, so a least-squares fit over fixed directions is exact.
    """
    R = _checked_rotation(R)
    d, inverses = _samples(degree)
    turned = basis(d.to(R) @ R.mT, degree)
    D = [turned[..., _block(k)].mT @ inverse.to(R) for k, inverse in enumerate(inverses)]
    return [torch.ones_like(D[0]), *D[1:]]  # exactly one: degree 0 keeps its bits


def rotate(sh: Tensor, R: Tensor) -> Tensor:
    """Coefficients of an object rotated by ``R``: along R d they give the former colour along d.

    Args:
        sh: ``(N, K, 3)``.
        R: one rotation ``(3, 3)``, or ``(T, 3, 3)``.

    Returns:
        ``(N, K, 3)``, or ``(T, N, K, 3)``. Degree 0 is unchanged bit for bit.
    """
    if sh.dim() != 3 or sh.shape[1] not in SH_DEGREES:
        known = [*SH_DEGREES]
        raise InputError(
            f"sh: expected shape (N, K, 3) with K one of {known}, got {tuple(sh.shape)}"
        )
    D = _block_diagonal(rotation_matrices(R, SH_DEGREES[sh.shape[1]]))
    # One product over (coefficient, channel) pairs is far faster than N small ones.
    pairs = torch.einsum("...ij,cd->...icjd", D, torch.eye(3).to(D)).flatten(-4, -3).flatten(-2)
    return (sh.flatten(1) @ pairs.mT.to(sh)).unflatten(-1, sh.shape[1:])


def _block_diagonal(blocks: list[Tensor]) -> Tensor:
    """``(..., K, K)`` with ``D_0, D_1, ...`` along the diagonal."""
    K = len(blocks) ** 2
    D = blocks[0].new_zeros(*blocks[0].shape[:-2], K, K)
    for degree, block in enumerate(blocks):
        D[..., _block(degree), _block(degree)] = block
    return D


def _block(degree: int) -> slice:
    """Slice of the coefficients of one degree."""
    return slice(degree**2, (degree + 1) ** 2)


@cache
def _samples(degree: int) -> tuple[Tensor, list[Tensor]]:
    """Directions ``(S, 3)`` spread over the sphere, and the inverse of their basis by degree."""
    i = torch.arange(SAMPLES, dtype=torch.float64) + 0.5
    z = 1 - 2 * i / SAMPLES
    turn = i * math.pi * (1 + math.sqrt(5))  # golden angle: a Fibonacci lattice
    r = torch.sqrt(1 - z * z)
    d = torch.stack([r * torch.cos(turn), r * torch.sin(turn), z], dim=-1)
    values = basis(d, degree)
    inverses = [torch.linalg.pinv(values[:, _block(k)]).mT for k in range(degree + 1)]
    return d, inverses


def _checked_rotation(R: Tensor) -> Tensor:
    """Float64 rotations; reflections and scalings, which would give wrong colours, are rejected."""
    R = R.double()
    if R.shape[-2:] != (3, 3):
        raise InputError(f"rotation: expected shape (..., 3, 3), got {tuple(R.shape)}")
    off = (R.mT @ R - torch.eye(3).to(R)).abs().amax() if R.numel() else R.new_zeros(())
    if not off <= ROTATION_TOLERANCE or (torch.linalg.det(R) < 0).any():
        raise InputError(
            f"not a rotation: R^T R differs from the identity by {off:.1e}, or R mirrors; "
            "pass only the rotational part"
        )
    return R
