"""The axes of a file, and converting a scene to the axes used here.

Axes are three letters that say where +x, +y and +z point: R or L for right and left, U or D for up
and down, F or B for front and back. Captures (.ply, .splat, .sog and .ksplat) are RDF, and so is
every scene here. SPZ is RUB, glTF LUF, Unity RUF, Blender RBU. Half of the 48 are mirrored;
positions, covariances and view-dependent colour are then mirrored back together.
"""

from itertools import permutations, product

import torch
from torch import Tensor

from ..base.errors import InputError, unknown_name
from ..scene import sh as harmonics
from ..scene.gaussians import SH_DEGREES, GaussianScene

OURS = "RDF"
LETTERS = {
    "R": (1.0, 0.0, 0.0), "L": (-1.0, 0.0, 0.0),
    "D": (0.0, 1.0, 0.0), "U": (0.0, -1.0, 0.0),
    "F": (0.0, 0.0, 1.0), "B": (0.0, 0.0, -1.0),
}  # fmt: skip
AXES = tuple("".join(x) for order in permutations(("RL", "DU", "FB")) for x in product(*order))
SOMEWHERE = (0.26726, -0.53452, 0.80178)  # a direction in which no basis function is zero


def checked(axes: str) -> str:
    """The name in capitals, or an error with examples."""
    name = str(axes).upper()
    if name not in AXES:
        near = [x for x in AXES if sorted(x) == sorted(name)]
        if near or len(name) == 3:
            raise unknown_name("axes", name, AXES)
        raise InputError(
            f"axes: expected three letters for where +x, +y, +z point, such as RDF (.ply) or RUB "
            f"(.spz), got {axes!r}"
        )
    return name


def matrix(axes: str) -> Tensor:
    """``(3, 3)`` in float64 that maps vectors from the named axes to ours; its inverse is ``.mT``.

    Each row and column has a single entry, 1 or -1.
    """
    columns = [LETTERS[letter] for letter in checked(axes)]
    return torch.tensor(columns, dtype=torch.float64).mT


def to_ours(scene: GaussianScene, axes: str) -> GaussianScene:
    """A scene stored in the named axes, converted to ours; the same object if they are ours."""
    return _turned(scene, matrix(axes))


def from_ours(scene: GaussianScene, axes: str) -> GaussianScene:
    """The inverse of :func:`to_ours`, for writing."""
    return _turned(scene, matrix(axes).mT)


def _turned(scene: GaussianScene, M: Tensor) -> GaussianScene:
    """Numbers are only permuted or negated; only colour under quarter turns is rounded.

    ``M R diag(s) R^T M^T`` is ``R' diag(s') R'^T`` with ``R' = M R M^T``, whose axis is an axial
    vector: it is mirrored once more if M mirrors.
    """
    if torch.equal(M, torch.eye(3).to(M)):
        return scene
    source = M.abs().argmax(1).to(scene.device)
    sign = M.sum(1).to(scene.means)
    w, v = scene.quats[:, :1], scene.quats[:, 1:]
    axial = sign * torch.linalg.det(M).round().to(sign)
    return scene.replace(
        means=scene.means[:, source] * sign,
        quats=torch.cat([w, v[:, source] * axial], 1),
        log_scales=scene.log_scales[:, source],
        sh=turned_colour(scene.sh, M),
    )


def turned_colour(sh: Tensor, M: Tensor) -> Tensor:
    """Coefficients ``(N, K, 3)`` that give along ``M d`` the former colour along ``d``.

    ``M (3, 3)`` is a rotation, possibly with a reflection.
    """
    degree = SH_DEGREES[sh.shape[1]]
    if torch.equal(M, torch.diag(M.diagonal())):  # every basis function keeps or flips its sign
        d = torch.tensor(SOMEWHERE, dtype=torch.float64)
        signs = (harmonics.basis(M @ d, degree) * harmonics.basis(d, degree)).sign()
        return sh * signs[:, None].to(sh)
    # A reflection is a rotation and the inversion d -> -d, under which odd degrees flip their sign.
    parity = torch.linalg.det(M).round()
    odd = torch.tensor([k % 2 for k in range(degree + 1) for _ in range(2 * k + 1)])
    return harmonics.rotate(sh, parity * M) * (parity**odd)[:, None].to(sh)
