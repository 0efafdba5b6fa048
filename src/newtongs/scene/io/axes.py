"""Which way a file's axes point, and turning a scene into the axes used here.

Axes are three letters, where +x, +y and +z point: R or L for right and left, U or D for up and
down, F or B for front and back. Captures, .ply, .splat, .sog and .ksplat, are RDF, and so is every
scene here. SPZ says RUB, glTF is LUF, Unity RUF, Blender RBU. In half of the 48 a picture is
mirrored; positions, covariances and view-dependent colour are mirrored back alike.
"""

from itertools import permutations, product

import torch
from torch import Tensor

from ...errors import InputError, unknown_name
from .. import sh as harmonics
from ..gaussians import SH_DEGREES, GaussianScene

OURS = "RDF"
LETTERS = {
    "R": (1.0, 0.0, 0.0), "L": (-1.0, 0.0, 0.0),
    "D": (0.0, 1.0, 0.0), "U": (0.0, -1.0, 0.0),
    "F": (0.0, 0.0, 1.0), "B": (0.0, 0.0, -1.0),
}  # fmt: skip
AXES = tuple("".join(x) for order in permutations(("RL", "DU", "FB")) for x in product(*order))
SOMEWHERE = (0.26726, -0.53452, 0.80178)  # a direction in which no basis function vanishes


def checked(axes: str) -> str:
    """The name in capitals, or an error that says what one looks like."""
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
    """``(3, 3)`` in float64 that takes vectors of the named axes to ours; its inverse is ``.mT``.

    Each row and column holds one entry, 1 or -1.
    """
    columns = [LETTERS[letter] for letter in checked(axes)]
    return torch.tensor(columns, dtype=torch.float64).mT


def to_ours(scene: GaussianScene, axes: str) -> GaussianScene:
    """A scene stored in the named axes, in ours; the very same object if they are ours."""
    return _turned(scene, matrix(axes))


def from_ours(scene: GaussianScene, axes: str) -> GaussianScene:
    """The inverse of :func:`to_ours`, to be stored."""
    return _turned(scene, matrix(axes).mT)


def _turned(scene: GaussianScene, M: Tensor) -> GaussianScene:
    """Every number is moved or negated, so nothing is rounded but the colour under quarter turns.

    ``M R diag(s) R^T M^T`` is ``R' diag(s') R'^T`` with ``R' = M R M^T``, whose axis is an axial
    vector: it is mirrored once more where M mirrors.
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
    """Coefficients ``(N, K, 3)`` that show along ``M d`` what they showed along ``d``.

    ``M (3, 3)`` is a rotation, or one that also mirrors.
    """
    degree = SH_DEGREES[sh.shape[1]]
    if torch.equal(M, torch.diag(M.diagonal())):  # every basis function keeps or changes its sign
        d = torch.tensor(SOMEWHERE, dtype=torch.float64)
        signs = (harmonics.basis(M @ d, degree) * harmonics.basis(d, degree)).sign()
        return sh * signs[:, None].to(sh)
    # A mirror is a rotation and the inversion d -> -d, under which odd degrees change their sign.
    parity = torch.linalg.det(M).round()
    odd = torch.tensor([k % 2 for k in range(degree + 1) for _ in range(2 * k + 1)])
    return harmonics.rotate(sh, parity * M) * (parity**odd)[:, None].to(sh)
