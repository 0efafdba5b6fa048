"""The state-to-Gaussian transformation: one affine map per frame for all Gaussians of an object.

    g_t = A_t (g_0 - p_0) + p_t,    Sigma_t = A_t Sigma_0 A_t^T        (Eq. gaussian-update)

Two forms of ``A_t`` exist. ``"main"``, the default, is the main text's ``R_t diag(rho_t) R_0^T``
with ``rho_t = s_t / s_0``: scaling along the object's own axes. ``"impl"`` is the appendix's
``R(q_t (x) q_0*) diag(rho_t)``, which scales along the world's axes first and clamps ``s_0`` and
``rho_t`` at 1e-6. They agree if ``q_0`` is the identity. In both, the rotational (polar) part is
``R(q_t (x) q_0*)``, which rotates the view-dependent colour.

The matrices are computed in float64. At the initial state the map is exactly the identity, and
leaves the Gaussians unchanged bit for bit.
"""

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from ..base import rotations
from ..base.errors import InputError, unknown_name
from ..base.state import State, StateLike, as_tensor, make, require_finite
from ..base.types import Quat, StateTensor, Vec3
from . import sh as harmonics
from .gaussians import BACKGROUND, SCALE_FLOOR, GaussianScene

Form: TypeAlias = Literal["main", "impl"]
States: TypeAlias = StateLike | Mapping[int, StateLike]  # of one object, or by object id
Objects: TypeAlias = int | Sequence[int] | None  # whose states are given, unless as a mapping

IMPL_FLOOR = 1e-6  # the appendix's clamp of s_0 and of rho
UPPER = (0, 1, 2, 4, 5, 8)  # xx, xy, xz, yy, yz, zz in a flattened (3, 3)
FULL = (0, 1, 2, 1, 3, 4, 2, 4, 5)  # the inverse: index of the packed number for each of the nine
MOVED = ("means", "quats", "log_scales", "sh")  # fields of a scene that move
SWEEPS = 12  # most sweeps of Jacobi rotations; 4 are typical, convergence is quadratic
CHUNK = 3072  # Gaussians decomposed at a time: fits into the cache, below the threshold for threads
TINY = 1e-290  # keeps quotients of vanishing columns finite
CONVERGED = 1e-8  # largest cosine between columns for the last sweep; its square is below rounding


def affine(z0: StateLike, z: StateLike, form: Form = "main") -> Tensor:
    """``A_t (..., 3, 3)`` from the initial state to ``z``; leading dimensions broadcast."""
    z0, z = _checked(z0, "z0"), _checked(z, "z")
    return affine64(z0, z, form).to(z.dtype)


def turn(z0: StateLike, z: StateLike) -> Tensor:
    """The rotation ``R(q_t (x) q_0*)`` ``(..., 3, 3)`` in ``A_t``, float64."""
    return rotations.to_matrix(relative(_checked(z0, "z0"), _checked(z, "z")))


def relative(z0: StateTensor, z: StateTensor) -> Quat:
    """``q_t (x) q_0*`` in float64.

    Summed in an order in which equal quaternions cancel exactly to the identity.
    """
    q0, q = (rotations.normalize(State(x).q.double()) for x in (z0, z))
    u0, u = q0[..., 1:], q[..., 1:]
    cross = u.roll(-1, -1) * u0.roll(-2, -1) - u.roll(-2, -1) * u0.roll(-1, -1)
    w = (q * q0).sum(-1, keepdim=True)
    return torch.cat([w, (q0[..., :1] * u - q[..., :1] * u0) - cross], dim=-1)


def _ratio(z0: StateTensor, z: StateTensor, form: Form) -> Vec3:
    """``rho_t`` in float64."""
    s0, s = State(z0).s.double(), State(z).s.double()
    if form == "impl":
        return (s / s0.clamp_min(IMPL_FLOOR)).clamp_min(IMPL_FLOOR)
    if not ((s0 > 0).all() and (s > 0).all()):
        low = min(float(s0.amin()), float(s.amin()))
        raise InputError(f"a state's scale must be positive, got {low:.3g}; see state.project")
    return s / s0


def affine64(z0: StateTensor, z: StateTensor, form: Form) -> Tensor:
    """``A_t`` in float64.

    The main form is written ``R_rel (I + R_0 diag(rho - 1) R_0^T)``: the same matrix, and exactly
    the identity if nothing moved.
    """
    if form not in get_args(Form):
        raise unknown_name("form", str(form), get_args(Form))
    rho, R = _ratio(z0, z, form), rotations.to_matrix(relative(z0, z))
    if form == "impl":
        return R * rho.unsqueeze(-2)
    R0 = rotations.to_matrix(rotations.normalize(State(z0).q.double()))
    return R @ (torch.eye(3).to(R) + R0 * (rho - 1).unsqueeze(-2) @ R0.mT)


def initial_state(means: Vec3) -> StateTensor:
    """The appendix's fallback: identity quaternion, unit scale, mean Gaussian centre."""
    if not len(means):
        raise InputError("no Gaussians, so no initial state; give one, or an object that has some")
    return make(p=means.double().mean(0)).to(means)


def transform(
    scene: GaussianScene,
    z0: States | None,
    z: States,
    *,
    object: Objects = None,
    form: Form = "main",
) -> GaussianScene:
    """The scene with its objects moved from ``z0`` to ``z``; the rest is unchanged bit for bit.

    Covariances are returned as rotation and scale, view-dependent colour rotates with the object,
    opacities are unchanged.

    Args:
        scene: Gaussians with object ids.
        z0: initial state ``(22,)``; ``None`` for :func:`initial_state` of the object.
        z: state ``(22,)`` to move to. Both may be ``(K, 22)`` for ``K`` objects, or mappings from
            object id to state.
        object: id, or ``K`` ids, unless ``z`` is a mapping; default the scene's only object.
            ``BACKGROUND`` moves the Gaussians that belong to no object.
        form: which ``A_t``.
    """
    pairs = moving(scene, z0, z, object, dim=1)
    fields = {name: getattr(scene, name).clone() for name in MOVED}
    for index, (a, b) in pairs.items():
        rows = rows_of(scene, index)
        for name, x in _moved(scene[rows], a, b, form).items():
            fields[name][rows] = x
    return scene.replace(**fields)


def _moved(part: GaussianScene, z0: StateTensor, z: StateTensor, form: Form) -> dict[str, Tensor]:
    """The changed fields of one object's Gaussians."""
    A, offset = affine64(z0, z, form), shift(z0, z)
    if torch.equal(A, torch.eye(3).to(A)) and not offset.any():
        return {}
    g = part.means.double()
    means = g + (g - State(z0).p.double()) @ (A - torch.eye(3).to(A)).mT + offset
    quats, log_scales = _shapes(part, A, _ratio(z0, z, form), relative(z0, z))
    out = {"means": means, "quats": quats, "log_scales": log_scales}
    if part.sh_degree > 0:
        out["sh"] = harmonics.rotate(part.sh, turn(z0, z))
    return {name: x.to(part.means.dtype) for name, x in out.items()}


def _shapes(part: GaussianScene, A: Tensor, rho: Vec3, q: Quat) -> tuple[Quat, Tensor]:
    """Quaternions and log scales of ``A Sigma A^T``, float64."""
    q_i, log_scales = part.quats.double(), part.log_scales.double()
    if (rho == rho[0]).all():  # rotation and uniform scale: nothing to decompose
        return rotations.multiply(q.expand_as(q_i), q_i), log_scales + rho.log()
    scales = log_scales.exp().clamp_min(SCALE_FLOOR)
    U, s = principal_axes(A @ rotations.to_matrix(q_i) * scales.unsqueeze(-2))
    return rotations.from_matrix(U), s.clamp_min(SCALE_FLOOR).log()


def principal_axes(B: Tensor) -> tuple[Tensor, Tensor]:
    """``U`` and ``s`` with ``B B^T = U diag(s^2) U^T`` for ``B (N, 3, 3)`` of positive determinant.

    One-sided Jacobi: pairs of columns of ``B`` are rotated until they are orthogonal. Unlike an
    eigendecomposition of ``B B^T`` it preserves the digits of small scales beside large ones, and
    axes that are already orthogonal keep their order, so shapes change continuously with the
    motion. ``U (N, 3, 3)`` are rotations; ``s (N, 3)`` are not sorted.
    """
    if not len(B):
        return B, B[..., 0]
    U, s = zip(*(_jacobi(part) for part in B.split(CHUNK)), strict=True)
    return torch.cat(U), torch.cat(s)


def _jacobi(B: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`principal_axes` of a few thousand, which stay in the cache."""
    columns = list(B.movedim(-1, 0).movedim(-1, 1).contiguous())  # three of (3, N)
    for _ in range(SWEEPS):
        worst = max([_orthogonalize(columns, i, j) for i, j in ((0, 1), (0, 2), (1, 2))])
        if not worst > CONVERGED:
            break
    squares = torch.stack([_dot(c, c) for c in columns]).clamp_min(TINY)  # (3, N)
    inverse = torch.rsqrt(squares)
    axes = torch.stack(columns) * inverse.unsqueeze(1)  # (column, component, N)
    # The shortest column has the least accurate direction: compute it from the other two.
    third = torch.linalg.cross(axes.roll(-1, 0), axes.roll(-2, 0), dim=1)
    third = third * torch.stack([torch.rsqrt(_dot(c, c)) for c in third]).unsqueeze(1)
    shortest = squares == squares.amin(0)
    axes = torch.where(shortest.unsqueeze(1), third, axes)
    return axes.permute(2, 1, 0), (squares * inverse).mT


def _orthogonalize(columns: list[Tensor], i: int, j: int) -> float:
    """Rotate columns ``i`` and ``j`` until orthogonal; returns their largest cosine before.

    Roots are computed as ``x rsqrt(x)``: on the CPU torch's root calls a library that starts
    threads even for a few thousand numbers.
    """
    a, b = columns[i], columns[j]
    aa, bb, ab = _dot(a, a), _dot(b, b), _dot(a, b)
    gap = bb - aa
    square = (gap * gap + 4 * ab * ab).clamp_min(TINY)
    t = 2 * ab / torch.copysign(gap.abs() + square * torch.rsqrt(square), gap)
    cos = torch.rsqrt(1 + t * t)
    sin = cos * t
    columns[i], columns[j] = cos * a - sin * b, sin * a + cos * b
    cosine = ab * ab / (aa * bb).clamp_min(TINY)
    return math.sqrt(float(cosine.amax()))


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """Scalar products ``(N,)`` of vectors ``(3, N)``."""
    c = a * b
    return c[0] + c[1] + c[2]


def pack_symmetric(m: Tensor) -> Tensor:
    """Symmetric ``(..., 3, 3)`` as ``(..., 6)``: xx, xy, xz, yy, yz, zz."""
    return m.flatten(-2)[..., UPPER]


def unpack_symmetric(x: Tensor) -> Tensor:
    """The inverse of :func:`pack_symmetric`."""
    return x[..., FULL].unflatten(-1, (3, 3))


def transform_sequence(
    means: Vec3 | np.ndarray,
    covariances: Tensor | np.ndarray,
    z0: StateLike | None,
    z: StateLike,
    *,
    form: Form = "main",
    packed: bool = False,
    out: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """All frames of one object at once.

    ``A Sigma A^T`` is linear in the six numbers of ``Sigma``, so a frame is one matrix product
    over all Gaussians. Rounding is relative to ``|A|^2 |Sigma|``: for needles squeezed along their
    length by ratios such as 1e-3 and 1e3, pass float64, or use :func:`transform`, which never
    forms ``Sigma``.

    Args:
        means: ``(N, 3)``.
        covariances: ``(N, 3, 3)``, or ``(N, 6)`` from :func:`pack_symmetric`.
        z0: initial state ``(22,)``; ``None`` for :func:`initial_state`.
        z: states ``(T, 22)``.
        form: which ``A_t``.
        packed: return six numbers per covariance instead of nine.
        out: tensors to fill, of the returned shapes; allocation costs as much as the arithmetic.

    Returns:
        Means ``(T, N, 3)`` and covariances ``(T, N, 3, 3)`` or ``(T, N, 6)``, in the dtype of the
        means.
    """
    g, sigma = _checked_gaussians(means, covariances)
    z = _checked(z, "z", dim=2).to(g.device)
    z0 = initial_state(g) if z0 is None else _checked(z0, "z0", dim=1).to(g.device)
    A, width = affine64(z0, z, form), 6 if packed else 9
    shapes = (len(z), len(g), 3), (len(z), len(g), width)
    buffers = _buffers(out, shapes, g)
    moved = _product(homogeneous(g), mean_matrices(A, z0, z), buffers[0])
    turned = _product(sigma, congruence(A, packed=packed), buffers[1])
    return moved, turned if packed else turned.unflatten(-1, (3, 3))


def _checked_gaussians(
    means: Vec3 | np.ndarray, covariances: Tensor | np.ndarray
) -> tuple[Vec3, Tensor]:
    """Means ``(N, 3)`` and packed covariances ``(N, 6)``."""
    g, sigma = as_tensor(means, "means"), as_tensor(covariances, "covariances")
    n = len(g) if g.dim() else 0
    if tuple(g.shape) != (n, 3):
        raise InputError(f"means: expected shape (N, 3), got {tuple(g.shape)}")
    if tuple(sigma.shape) not in ((n, 3, 3), (n, 6)):
        got = tuple(sigma.shape)
        raise InputError(f"covariances: expected shape ({n}, 3, 3) or ({n}, 6), got {got}")
    sigma = pack_symmetric(sigma) if sigma.dim() == 3 else sigma
    return g, sigma.to(g).contiguous()


def shift(z0: StateTensor, z: StateTensor) -> Vec3:
    """``p_t - p_0`` in float64."""
    return State(z).p.double() - State(z0).p.double()


def homogeneous(g: Vec3) -> Tensor:
    """``(N, 4)``: g with a 1 appended."""
    return torch.cat([g, torch.ones_like(g[:, :1])], dim=-1)


def mean_matrices(A: Tensor, z0: StateTensor, z: StateTensor) -> Tensor:
    """``(T, 4, 3)``, the map of the means, multiplied from the right.

    The translation ``p_t - A p_0`` is ``(p_t - p_0) - (A - I) p_0``: zero if nothing moved.
    """
    moved = shift(z0, z) - State(z0).p.double() @ (A - torch.eye(3).to(A)).mT
    return torch.cat([A.mT, moved.unsqueeze(-2)], dim=-2)


def congruence(A: Tensor, *, packed: bool) -> Tensor:
    """``(T, 6, 6)`` or ``(T, 6, 9)``: the packed ``Sigma`` times this is ``A Sigma A^T``."""
    both = torch.einsum("tij,tkl->tjlik", A, A).flatten(-2).flatten(-3, -2)  # from nine to nine
    folded = both.new_zeros(len(A), 6, 9).index_add(1, torch.tensor(FULL).to(A.device), both)
    return folded[..., UPPER] if packed else folded


def _buffers(
    out: tuple[Tensor, Tensor] | None, shapes: tuple[tuple[int, ...], ...], like: Tensor
) -> list[Tensor]:
    """Buffers for the results; numpy's memory on the CPU, which uses huge pages unlike torch's."""
    if out is None:
        if like.device.type != "cpu":
            return [like.new_empty(shape) for shape in shapes]
        kind = np.dtype(str(like.dtype).removeprefix("torch."))
        return [torch.from_numpy(np.empty(shape, kind)) for shape in shapes]
    flat = [x.flatten(2) if x.dim() == 4 else x for x in out]
    for x, shape in zip(flat, shapes, strict=True):
        if tuple(x.shape) != shape or x.dtype != like.dtype or not x.is_contiguous():
            raise InputError(
                f"out: expected contiguous {like.dtype} of shape {shape}, "
                f"got {x.dtype} {tuple(x.shape)}"
            )
    return flat


def _product(x: Tensor, m: Tensor, out: Tensor) -> Tensor:
    """``x (N, a)`` times ``m (T, a, b)`` as ``(T, N, b)``, into ``out`` unless differentiating."""
    m = m.to(x)
    if torch.is_grad_enabled() and (x.requires_grad or m.requires_grad):
        return x @ m
    return torch.matmul(x, m, out=out)


def _checked(z: StateLike, name: str, dim: int | None = None) -> StateTensor:
    """Finite states with ``dim`` dimensions."""
    x = State(as_tensor(z, name)).z
    if dim is not None and x.dim() != dim:
        wanted = "(22,)" if dim == 1 else "(T, 22)"
        raise InputError(f"{name}: expected shape {wanted} per object, got {tuple(x.shape)}")
    require_finite(x.detach(), name)
    return x


def rows_of(scene: GaussianScene, index: int) -> Tensor:
    """Indices of the Gaussians of one object."""
    return (scene.ids == index).nonzero().squeeze(-1)


def moving(
    scene: GaussianScene, z0: States | None, z: States, object: Objects, dim: int
) -> dict[int, tuple[StateTensor, StateTensor]]:
    """Initial and later state of every moving object; the later has ``dim`` dimensions."""
    if object is None and not (isinstance(z, Mapping) and (z0 is None or isinstance(z0, Mapping))):
        object = _only_object(scene)
    later = _by_object(z, object, "z")
    initial = None if z0 is None else _by_object(z0, object, "z0")
    pairs = {}
    for index, b in later.items():
        means = scene.means[scene.ids == index]
        if not len(means):
            raise InputError(f"no object {index} in the scene; there are {scene.object_ids}")
        if initial is not None and index not in initial:
            raise InputError(f"z0 has no state of object {index}; it has {[*initial]}")
        a = initial_state(means) if initial is None else initial[index]
        pairs[index] = (
            _checked(a, f"z0 of object {index}", 1).to(scene.device),
            _checked(b, f"z of object {index}", dim).to(scene.device),
        )
    return pairs


def _by_object(z: States, object: Objects, name: str) -> Mapping[int, StateLike]:
    """States as a mapping from object id."""
    if isinstance(z, Mapping):
        if not z:
            raise InputError(f"{name}: no states; give those of at least one object")
        return z
    ids = _ids(object)
    if isinstance(ids, int):
        return {ids: z}
    x = as_tensor(z, name)
    if x.dim() < 2 or len(x) != len(ids) or len(set(ids)) != len(ids):
        raise InputError(f"{name}: expected a state for each of {ids}, got shape {tuple(x.shape)}")
    return dict(zip(ids, x, strict=True))


def _ids(object: Objects) -> int | list[int]:
    """One id or several; numpy and torch integers too."""
    try:
        return operator.index(object)  # type: ignore[arg-type]
    except TypeError:
        return [operator.index(i) for i in object or ()]  # type: ignore[union-attr]


def _only_object(scene: GaussianScene) -> int:
    """The id of the scene's single object."""
    ids = [i for i in scene.object_ids if i != BACKGROUND]
    if len(ids) == 1:
        return ids[0]
    if not ids:
        raise InputError(
            "the scene has no object; mark one with segment.assign, or pass object=BACKGROUND"
        )
    raise InputError(f"the scene has objects {ids}; say which one moves, or give states by id")
