"""Gaussian splatting as a formula: every Gaussian on every pixel, in float64, without tiles.

Slow on purpose: the specification that the fast renderers are tested against. It shares only the
constants of ``splat`` with them.
"""

import math

import torch
from torch import Tensor

from newtongs.base import rotations
from newtongs.render.splat import (
    ALPHA_CAP,
    ALPHA_MIN,
    EPS2D,
    NEAR,
    T_MIN,
    VIEW_MARGIN,
    Rendering,
    Splat,
)
from newtongs.scene.transform import unpack_symmetric

PIXELS_AT_A_TIME = 2**22  # times Gaussians


def draw(splat: Splat) -> Rendering:
    """The picture, in float64."""
    return draw_with_margin(splat)[0]


@torch.no_grad()
def draw_with_margin(splat: Splat) -> tuple[Rendering, Tensor]:
    """The picture, and how far each pixel ``(H, W)`` is from a different decision.

    A contribution just below 1/255 is dropped and one just above is kept; the same holds for the
    last Gaussian of an opaque pixel. There, different rounding gives a different picture. The
    margin is the smallest relative distance of an alpha or a transmittance from its threshold.
    """
    camera, (mean, conic, depth, order) = splat.camera, _project(splat)
    opacity, color = splat.opacities.double()[order], _colors(splat.darkened())[order]
    features = torch.cat([color, depth.unsqueeze(-1)], dim=-1)
    y, x = torch.meshgrid(
        torch.arange(camera.height).double() + 0.5,
        torch.arange(camera.width).double() + 0.5,
        indexing="ij",
    )
    pixels = torch.stack([x.flatten(), y.flatten()], dim=-1)
    parts = [
        _blend(part, mean, conic, opacity, features)
        for part in pixels.split(max(PIXELS_AT_A_TIME // max(len(mean), 1), 1))
    ]
    size = (camera.height, camera.width)
    out, T, margin = (torch.cat(x).unflatten(0, size) for x in zip(*parts, strict=True))
    alpha = 1 - T
    picture = Rendering(
        color=out[..., :3] + T.unsqueeze(-1) * splat.background.double(),
        depth=torch.where(alpha > 0, out[..., 3] / alpha.clamp_min(1e-300), 0.0),
        alpha=alpha,
    )
    return picture, margin


def _blend(
    pixels: Tensor, mean: Tensor, conic: Tensor, opacity: Tensor, features: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Weighted features ``(P, 4)``, remaining transmittance and margin ``(P,)``."""
    d = pixels.unsqueeze(1) - mean  # (P, N, 2)
    power = torch.einsum("pni,nij,pnj->pn", d, conic, d)
    alpha = (opacity * torch.exp(-0.5 * power)).clamp_max(ALPHA_CAP)
    kept = alpha >= ALPHA_MIN
    margin = _least((alpha / ALPHA_MIN - 1).abs())
    alpha = torch.where(kept, alpha, 0.0)
    after = torch.cumprod(1 - alpha, dim=1)
    margin = torch.minimum(margin, _least((after / T_MIN - 1).abs()))
    before = torch.cat([torch.ones_like(after[:, :1]), after[:, :-1]], dim=1)
    weight = torch.where(after > T_MIN, alpha * before, 0.0)
    T = 1 - weight.sum(1)
    return weight @ features, T, margin


def _least(x: Tensor) -> Tensor:
    """Smallest along the last dimension; infinite where there is nothing."""
    return torch.nn.functional.pad(x, (0, 1), value=math.inf).amin(-1)


def _project(splat: Splat) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Centres, inverse covariances and depths, near first; and which Gaussian each is.

    Depths are compared in float32 and equal ones keep their order, as in gsplat.
    """
    camera, K = splat.camera, splat.camera.K.double()
    W, t = camera.w2c.double()[:3, :3], camera.w2c.double()[:3, 3]
    x = splat.means.double() @ W.T + t
    index = torch.nonzero(x[:, 2] >= NEAR).flatten()
    index = index[torch.sort(x[index, 2].float(), stable=True).indices]
    x = x[index]
    z = x[:, 2:]
    f, c = K.diagonal()[:2], K[:2, 2]
    size = torch.tensor([camera.width, camera.height], dtype=torch.float64)
    slack = VIEW_MARGIN * size / 2
    slope = torch.maximum(torch.minimum(x[:, :2] / z, (size - c + slack) / f), -(c + slack) / f)
    J = torch.zeros(len(x), 2, 3, dtype=torch.float64)
    J[:, 0, 0], J[:, 1, 1], J[:, :, 2] = f[0] / z[:, 0], f[1] / z[:, 0], -f * slope / z
    J = J @ W
    sigma = J @ _covariances(splat)[index] @ J.mT + EPS2D * torch.eye(2, dtype=torch.float64)
    return f * x[:, :2] / z + c, torch.linalg.inv(sigma), z[:, 0], index


def _covariances(splat: Splat) -> Tensor:
    if splat.covariances is not None:
        return unpack_symmetric(splat.covariances.double())
    m = rotations.to_matrix(splat.scene.quats.double()) * splat.scene.scales.double().unsqueeze(-2)
    return m @ m.mT


def _colors(splat: Splat) -> Tensor:
    """RGB ``(N, 3)`` seen from the camera."""
    if splat.colors is not None:
        return splat.colors.double()
    eye = torch.linalg.inv(splat.camera.w2c.double())[:3, 3]
    sh = splat.sh.double()
    basis = spherical_harmonics(splat.means.double() - eye, sh.shape[1])
    return (0.5 + torch.einsum("nk,nkc->nc", basis, sh)).clamp_min(0)


def spherical_harmonics(d: Tensor, count: int) -> Tensor:
    """The first ``count`` real spherical harmonics ``(N, count)`` of directions ``(N, 3)``.

    From the recurrences of the Legendre functions, with the sign ``(-1)^m``; the order is
    ``l = 0; l = 1, m = -1 0 1; ...``.
    """
    x, y, z = torch.nn.functional.normalize(d, dim=-1).unbind(-1)
    phi, sine = torch.atan2(y, x), torch.hypot(x, y)
    columns = []
    for degree in range(math.isqrt(count)):
        for m in range(-degree, degree + 1):
            turn = torch.cos(m * phi) if m >= 0 else torch.sin(-m * phi)
            columns.append(_factor(degree, abs(m)) * turn * _legendre(degree, abs(m), z, sine))
    return torch.stack(columns, dim=-1)


def _factor(degree: int, m: int) -> float:
    """Normalisation of the harmonics on the sphere."""
    ratio = math.factorial(degree - m) / math.factorial(degree + m)
    return math.sqrt((1 + (m > 0)) * (2 * degree + 1) / (4 * math.pi) * ratio)


def _legendre(degree: int, m: int, z: Tensor, sine: Tensor) -> Tensor:
    """``P_l^m`` with the Condon-Shortley sign."""
    below, p = torch.zeros_like(z), math.prod(range(1, 2 * m, 2)) * (-sine) ** m
    for k in range(m + 1, degree + 1):
        below, p = p, ((2 * k - 1) * z * p - (k + m - 1) * below) / (k - m)
    return p
