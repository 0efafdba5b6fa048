"""From an object's Gaussians to its state: weighted principal components and finite differences.

Centre ``p`` and covariance ``C`` of the means are weighted by opacity times membership. The axes
are the eigenvectors of ``C``, the scale is ``s = 2 sqrt(eigenvalue)``, twice the weighted standard
deviation (at least the minimum 1e-4). The paper does not define order and sign of the axes; here:

* order: the longest axis first;
* sign: the largest component of the first two axes is positive, the third is their cross product,
  so that the axes are right-handed.

As in the paper, every frame is lifted independently, so signs and order may jump between frames,
and with them the angular velocity. ``tracked=True`` instead chooses, of the 24 right-handed ways to
name the axes, the one nearest to the previous frame.

Rates are forward differences per interval; inside, the two adjacent ones are averaged (a centred
difference, of second order even with unequal steps), at the ends there is only one. Angular
velocity is ``log(q_k* (x) q_{k+1}) / h``, in body coordinates.
"""

import itertools
import math
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ..base import rotations
from ..base.errors import InputError, unknown_name
from ..base.state import DEFAULT_MATERIAL, SCALE_FLOOR, as_tensor, make
from ..base.types import Quat, StateTensor, Times, Vec3
from .gaussians import ArrayLike, GaussianScene

FRAME_TIME = 1 / 24  # seconds between frames in the paper's sequences
CLOSE_SCALES = 0.01  # relative difference below which two axes are indistinguishable


def lift(
    scene: GaussianScene,
    *,
    membership: ArrayLike | None = None,
    material: Mapping[str, Any] | None = None,
    near: ArrayLike | None = None,
    covariances: bool = False,
) -> StateTensor:
    """State ``(22,)`` of one object at rest, from its Gaussians.

    Args:
        scene: only the object's Gaussians, ``scene.object(index)``; or more, with ``membership``
            near zero for the others.
        membership: weights ``(N,)`` on the opacities, such as from ``grouping.membership``.
        material: any of ``m``, ``e``, ``mu``, if known; default ``DEFAULT_MATERIAL``.
        near: a quaternion ``(4,)``; the axes are named so that the orientation is nearest to it.
        covariances: include the Gaussians' own extent, which the paper does not.
    """
    if not isinstance(scene, GaussianScene):
        raise InputError(f"lift takes a GaussianScene, got {type(scene).__name__}")
    p, C = (x.unsqueeze(0) for x in _scene_moments(scene, membership, covariances))
    z = _lift_moments(p, C, p.new_zeros(1), material, near is not None, near)
    return z[0].to(scene.means.dtype)


def lift_sequence(
    means: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    dt: float = FRAME_TIME,
    times: ArrayLike | None = None,
    material: Mapping[str, Any] | None = None,
    tracked: bool = False,
    near: ArrayLike | None = None,
    covariances: ArrayLike | None = None,
) -> StateTensor:
    """States ``(T, 22)`` of an object seen in ``T`` frames.

    Args:
        means: ``(T, N, 3)``. For frames with different numbers see :func:`lift_scenes`.
        weights: opacity times membership, ``(N,)`` or ``(T, N)``; default equal.
        dt: seconds between frames.
        times: seconds ``(T,)``, increasing, instead of ``dt``.
        material: see :func:`lift`.
        tracked: keep names and signs of the axes continuous in time.
        near: tracked only: the orientation ``(4,)`` to which the first frame is nearest.
        covariances: ``(T, N, 3, 3)``, included in the moments; the paper does not.
    """
    x = as_tensor(means, "means")
    if x.dim() != 3 or x.shape[-1] != 3:
        raise InputError(f"means: expected shape (T, N, 3), got {tuple(x.shape)}")
    w = x.new_ones(x.shape[1]) if weights is None else as_tensor(weights, "weights")
    if tuple(w.shape) not in (tuple(x.shape[1:2]), tuple(x.shape[:2])):
        wanted = f"{tuple(x.shape[1:2])} or {tuple(x.shape[:2])}"
        raise InputError(f"weights: expected shape {wanted}, got {tuple(w.shape)}")
    sigma = None if covariances is None else as_tensor(covariances, "covariances")
    p, C = moments(x, w.expand(x.shape[:2]), sigma)
    at = _times(len(x), dt, times).to(p)
    return _lift_moments(p, C, at, material, tracked, near).to(x.dtype)


def lift_scenes(
    scenes: Sequence[GaussianScene],
    *,
    memberships: Sequence[ArrayLike] | None = None,
    dt: float = FRAME_TIME,
    times: ArrayLike | None = None,
    material: Mapping[str, Any] | None = None,
    tracked: bool = False,
    near: ArrayLike | None = None,
    covariances: bool = False,
) -> StateTensor:
    """States ``(T, 22)`` of frames with independent Gaussians, whose number may differ."""
    if isinstance(scenes, GaussianScene):
        raise InputError("lift_scenes takes a list, one scene per frame; for one scene use lift")
    if not scenes:
        raise InputError("nothing to lift; give at least one frame")
    given = [None] * len(scenes) if memberships is None else list(memberships)
    if len(given) != len(scenes):
        raise InputError(f"memberships: expected one per frame, {len(scenes)}, got {len(given)}")
    found = [_scene_moments(x, m, covariances) for x, m in zip(scenes, given, strict=True)]
    p, C = (torch.stack(xs) for xs in zip(*found, strict=True))
    at = _times(len(scenes), dt, times).to(p)
    return _lift_moments(p, C, at, material, tracked, near).to(scenes[0].means.dtype)


def lift_moments(
    p: Vec3, C: Tensor, *, dt: float = FRAME_TIME, material: Mapping[str, Any] | None = None
) -> StateTensor:
    """States ``(T, 22)`` of an object from its :func:`moments` in ``T`` frames.

    For sequences too large for memory: ``p (T, 3)`` and ``C (T, 3, 3)`` are computed frame by
    frame. Every frame is lifted independently.
    """
    return _lift_moments(p, C, _times(len(p), dt, None).to(p), material, False, None)


def moments(means: Vec3, weights: Tensor, covariances: Tensor | None = None) -> tuple[Vec3, Tensor]:
    """Weighted centre ``(..., 3)`` and covariance ``(..., 3, 3)`` of ``(..., N, 3)``, float64."""
    x, w = means.double(), weights.double()
    if not (torch.isfinite(w).all() and (w >= 0).all()):
        raise InputError("weights must be finite and not negative")
    total = w.sum(-1, keepdim=True)
    if not (total > 0).all():
        raise InputError(
            f"nothing to lift: the weights of {x.shape[-2]} Gaussians sum to zero; "
            "check the selection and the opacities"
        )
    w = (w / total).unsqueeze(-1)
    p = (w * x).sum(-2)
    centred = x - p.unsqueeze(-2)
    C = (w * centred).mT @ centred
    if covariances is not None:
        C = C + (w.unsqueeze(-1) * covariances.double()).sum(-3)
    if not torch.isfinite(C).all():
        raise InputError(
            "means contain numbers that are not finite; remove those: "
            "scene[scene.means.isfinite().all(-1)]"
        )
    return p, C


def _scene_moments(
    scene: GaussianScene, membership: ArrayLike | None, covariances: bool
) -> tuple[Vec3, Tensor]:
    """The moments of one scene's Gaussians."""
    w = scene.opacities.double()
    if membership is not None:
        member = as_tensor(membership, "membership").to(w)
        if member.shape != w.shape:
            wanted, got = tuple(w.shape), tuple(member.shape)
            raise InputError(f"membership: expected shape {wanted}, got {got}")
        w = w * member
    return moments(scene.means, w, scene.covariances if covariances else None)


def _axes_and_scale(C: Tensor) -> tuple[Tensor, Vec3]:
    """Axes as columns ``(..., 3, 3)`` and ``s (..., 3)``, with order and signs as defined above."""
    values, vectors = torch.linalg.eigh(C)
    values, vectors = values.flip(-1), vectors.flip(-1)
    first = vectors[..., :2]
    largest = first.abs().argmax(-2, keepdim=True)
    first = first * torch.where(first.gather(-2, largest) < 0, -1.0, 1.0)
    third = torch.linalg.cross(first[..., 0], first[..., 1])
    axes = torch.cat([first, third.unsqueeze(-1)], dim=-1)
    return axes, (2 * values.clamp_min(0).sqrt()).clamp_min(SCALE_FLOOR)


@cache
def _namings() -> Tensor:
    """The 24 right-handed ways to name three axes: ``(24, 3, 3)`` signed permutations."""
    eye = torch.eye(3, dtype=torch.float64)
    signs = torch.tensor([*itertools.product((1.0, -1.0), repeat=3)], dtype=torch.float64)
    orders = torch.stack([eye[list(order)] for order in itertools.permutations(range(3))])
    every = (orders[:, None] * signs[None, :, :, None]).flatten(0, 1)
    return every[torch.linalg.det(every) > 0]


def _nearest_naming(axes: Tensor, target: Tensor) -> Tensor:
    """``P (..., 3, 3)`` of the 24 for which ``axes P`` is nearest to ``target``, as rotations."""
    overlap = axes.mT @ target
    score = torch.einsum("...ij,kij->...k", overlap, _namings().to(axes))
    return _namings().to(axes)[score.argmax(-1)]


def _renamed(axes: Tensor, s: Vec3, P: Tensor) -> tuple[Tensor, Vec3]:
    """Axes and scale under the signed permutations ``P (T, 3, 3)``."""
    return axes @ P, (s.unsqueeze(-2) @ P.abs()).squeeze(-2)


def _track(axes: Tensor, s: Vec3, near: ArrayLike | None) -> tuple[Tensor, Vec3]:
    """Rename the axes ``(T, 3, 3)`` of every frame to follow the previous frame.

    The nearest naming of frame k relative to frame k - 1 does not depend on how k - 1 was renamed;
    so all are found at once and composed.
    """
    first = torch.eye(3).to(axes)
    if near is not None:
        first = _nearest_naming(axes[0], _orientation(near).to(axes))
    steps = _nearest_naming(axes[1:], axes[:-1])
    P = torch.stack([*itertools.accumulate(steps, lambda P, step: step @ P, initial=first)])
    return _renamed(axes, s, P)


def _orientation(q: ArrayLike) -> Tensor:
    """The rotation matrix, float64, of a quaternion that need not be unit."""
    x = as_tensor(q, "near").double()
    if tuple(x.shape) != (4,) or not torch.linalg.vector_norm(x) > 0:
        raise InputError(f"near: expected a quaternion of shape (4,), got {tuple(x.shape)}")
    return rotations.to_matrix(rotations.normalize(x))


def _warn_when_close(s: Vec3) -> None:
    """Warn if two scales of some frame ``(T, 3)`` are too close to define their axes."""
    ordered = s.sort(dim=-1).values
    gap = ((ordered[:, 1:] - ordered[:, :-1]) / ordered[:, 1:]).amin(-1)
    if (gap < CLOSE_SCALES).any():
        frame, count = int(gap.argmin()), int((gap < CLOSE_SCALES).sum())
        warnings.warn(
            f"{count} of {len(s)} frames have two scales closer than {CLOSE_SCALES:.0%} "
            f"({100 * float(gap[frame]):.2g} % in frame {frame}): orientation and angular velocity "
            "about the third axis are not defined by the shape",
            stacklevel=4,
        )


def _times(count: int, dt: float, times: ArrayLike | None) -> Times:
    """Times ``(T,)`` in float64, checked to increase."""
    if times is None:
        if not 0 < dt < math.inf:
            raise InputError(f"dt: expected seconds above zero, got {dt}")
        return torch.arange(count, dtype=torch.float64) * dt
    t = torch.as_tensor(times, dtype=torch.float64)
    if tuple(t.shape) != (count,) or not (t.diff() > 0).all():
        raise InputError(f"times: expected {count} increasing numbers, got shape {tuple(t.shape)}")
    return t


def _lift_moments(
    p: Vec3,
    C: Tensor,
    times: Times,
    material: Mapping[str, Any] | None,
    tracked: bool,
    near: ArrayLike | None,
) -> StateTensor:
    """States from centres ``(T, 3)`` and covariances ``(T, 3, 3)``."""
    if near is not None and not tracked:
        raise InputError("near needs tracked=True: otherwise every frame is lifted independently")
    axes, s = _axes_and_scale(C)
    if tracked:
        axes, s = _track(axes, s, near)
        _warn_when_close(s)
    q = rotations.from_matrix(axes)
    return _states(p, _continuous(q) if tracked else q, s, times, material)


def _states(
    p: Vec3, q: Quat, s: Vec3, times: Times, material: Mapping[str, Any] | None
) -> StateTensor:
    """States ``(T, 22)`` with rates; zero rates for one frame."""
    z = {"p": p, "q": q, "s": s, **_checked_material(material)}
    if len(p) > 1:
        h = times.to(p).diff().unsqueeze(-1)
        spin = rotations.log(rotations.multiply(rotations.conjugate(q[:-1]), q[1:]))
        z |= {"v": rates(p.diff(dim=0), h), "w": rates(spin, h), "u": rates(s.diff(dim=0), h)}
    return make(**{k: torch.as_tensor(x, dtype=torch.float64).to(p) for k, x in z.items()})


def _checked_material(material: Mapping[str, Any] | None) -> dict[str, Any]:
    """All three values; unknown ones have defaults."""
    for name in material or {}:
        if name not in DEFAULT_MATERIAL:
            raise unknown_name("material", name, DEFAULT_MATERIAL)
    values = {**DEFAULT_MATERIAL, **(material or {})}
    for name, value in values.items():
        x = as_tensor(value, f"material {name}")
        if x.numel() != 1 or not (0 <= x <= (math.inf if name == "m" else 1)) or x.isinf():
            allowed = "a mass above zero" if name == "m" else "a number from 0 to 1"
            raise InputError(f"material {name}: expected {allowed}, got {value}")
    return values


def rates(steps: Tensor, h: Tensor) -> Tensor:
    """Rates ``(T, d)`` from the steps ``(T - 1, d)`` taken in times ``h (T - 1, 1)``."""
    slope = steps / h
    inside = (h[:-1] * slope[1:] + h[1:] * slope[:-1]) / (h[:-1] + h[1:])
    return torch.cat([slope[:1], inside, slope[-1:]])


def _continuous(q: Quat) -> Quat:
    """Quaternions ``(T, 4)`` with continuous signs: q and -q are the same rotation."""
    flips = torch.where((q[1:] * q[:-1]).sum(-1) < 0, -1.0, 1.0).cumprod(0)
    return torch.cat([q[:1], q[1:] * flips.unsqueeze(-1)])
