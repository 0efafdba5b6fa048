"""Quaternions, axis-angle and rotation matrices, for any number of leading dimensions.

Quaternions are scalar first and compose by the Hamilton product, so
``rotate(multiply(a, b), x) == rotate(a, rotate(b, x))``.
"""

import torch
from torch import Tensor

from .types import Quat, Vec3

NORM_FLOOR = 1e-8
AXIS_FLOOR = 1e-6


def identity(*shape: int, like: Tensor) -> Quat:
    """Identity quaternions of shape ``(*shape, 4)`` with the dtype and device of ``like``."""
    q = like.new_zeros(*shape, 4)
    q[..., 0] = 1
    return q


def length(x: Tensor, floor: float) -> Tensor:
    """Euclidean norm over the last dimension, at least ``floor`` and differentiable everywhere.

    Summed component by component: ten times faster on the CPU than a reduction over a
    dimension of three or four.
    """
    squares = [c * c for c in x.unbind(-1)]
    return torch.sqrt(sum(squares[1:], squares[0]).clamp_min(floor**2))


def normalize(q: Quat) -> Quat:
    """Scale to unit length; a vanishing quaternion is divided by the 1e-8 floor instead."""
    return q / length(q, NORM_FLOOR).unsqueeze(-1)


def conjugate(q: Quat) -> Quat:
    """The inverse of a unit quaternion."""
    return torch.cat([q[..., :1], -q[..., 1:]], dim=-1)


def multiply(a: Quat, b: Quat) -> Quat:
    """Hamilton product ``a (x) b``."""
    aw, ax, ay, az = a.unbind(-1)
    bw, bx, by, bz = b.unbind(-1)
    return torch.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        dim=-1,
    )


def pure(x: Vec3) -> Quat:
    """The quaternion ``[0, x]``."""
    return torch.cat([torch.zeros_like(x[..., :1]), x], dim=-1)


def derivative(q: Quat, w: Vec3) -> Quat:
    """Kinematics ``q' = 1/2 q (x) [0, w]`` for body angular velocity ``w`` in rad/s."""
    return 0.5 * multiply(q, pure(w))


def from_axis_angle(axis: Vec3, angle: Tensor) -> Quat:
    """Rotation by ``angle`` (radians, shape ``(...)``) about ``axis``, which need not be unit.

    An axis shorter than 1e-6 has no direction: the result is then the identity.
    """
    norm = length(axis, AXIS_FLOOR)
    half = 0.5 * torch.where(norm > AXIS_FLOOR, angle, 0.0)
    scale = torch.sin(half) / norm
    return torch.cat([torch.cos(half).unsqueeze(-1), scale.unsqueeze(-1) * axis], dim=-1)


def exp(phi: Vec3) -> Quat:
    """Rotation vector to quaternion, smooth through zero."""
    half = 0.5 * torch.linalg.vector_norm(phi, dim=-1, keepdim=True)
    return torch.cat([torch.cos(half), 0.5 * torch.sinc(half / torch.pi) * phi], dim=-1)


def log(q: Quat) -> Vec3:
    """Quaternion to the rotation vector of length at most pi; ``q`` and ``-q`` give the same."""
    q = torch.where(q[..., :1] < 0, -q, q)
    w, x = q[..., :1], q[..., 1:]
    sine = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    half = torch.atan2(sine, w)
    # half / sin(half) tends to 1 at the identity, where the quotient itself would be 0 / 0.
    return 2 * x * torch.where(sine < 1e-7, 1.0, half / sine.clamp_min(1e-30))


def rotate(q: Quat, x: Vec3) -> Vec3:
    """Rotate vectors ``x`` by unit quaternions ``q``."""
    u, x = torch.broadcast_tensors(q[..., 1:], x)
    t = 2 * torch.linalg.cross(u, x)
    return x + q[..., :1] * t + torch.linalg.cross(u, t)


def to_matrix(q: Quat) -> Tensor:
    """Unit quaternions ``(..., 4)`` to rotation matrices ``(..., 3, 3)``."""
    w, x, y, z = q.unbind(-1)
    rows = [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return torch.stack(rows, dim=-1).unflatten(-1, (3, 3))


def from_matrix(m: Tensor) -> Quat:
    """Rotation matrices ``(..., 3, 3)`` to unit quaternions with non-negative scalar part.

    Each of the four components in turn is the pivot of a candidate; the candidate with the largest
    pivot is well conditioned.
    """
    m00, m01, m02, m10, m11, m12, m20, m21, m22 = m.flatten(-2).unbind(-1)
    candidates = torch.stack(
        [
            torch.stack([1 + m00 + m11 + m22, m21 - m12, m02 - m20, m10 - m01], dim=-1),
            torch.stack([m21 - m12, 1 + m00 - m11 - m22, m10 + m01, m02 + m20], dim=-1),
            torch.stack([m02 - m20, m10 + m01, 1 - m00 + m11 - m22, m12 + m21], dim=-1),
            torch.stack([m10 - m01, m20 + m02, m21 + m12, 1 - m00 - m11 + m22], dim=-1),
        ],
        dim=-2,
    )
    pivot = candidates.diagonal(dim1=-2, dim2=-1).argmax(-1)
    q = candidates.gather(-2, pivot[..., None, None].expand(*pivot.shape, 1, 4)).squeeze(-2)
    return normalize(torch.where(q[..., :1] < 0, -q, q))


def discrepancy(a: Quat, b: Quat) -> Tensor:
    """Sign-invariant distance ``1 - |<a, b>|^2`` in [0, 1], normalising both sides first."""
    alignment = (normalize(a) * normalize(b)).sum(-1).abs().clamp(0, 1)
    return 1 - alignment.square()
