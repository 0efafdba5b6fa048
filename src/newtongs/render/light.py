"""The paper's light renderer: a point splat of fixed size, in plain torch.

Appendix B, read as follows. The camera's y points up and is negated before the projection to
pixels. The kernel is evaluated around the *rounded* centre, so it is one stencil for all Gaussians:
``exp(-(i^2 + j^2) / (2 sigma^2))`` for whole ``i, j`` up to ``ceil(2 sigma)``, and the pixel with
index ``round(u)`` is its middle. (Elsewhere a pixel's centre is its index plus a half; this picture
therefore lies half a pixel to the lower right of the others, on average.) A weight is kernel times
opacity and is dropped below 1e-4. Weights, weighted depths and weighted colours are summed. Where
the sum of weights passes 1 it is clamped to the pixel's alpha, and colours would blow up if their
sum were not scaled in the same way: colour is
``alpha * (sum w c / sum w) + (1 - alpha) * background``, depth is ``sum w d / sum w``. Non-positive
depths are discarded. There is no occlusion: a Gaussian behind another shines through. The 3D
covariance plays no part.

Because the stencil is the same for all, the sum is a convolution: N values are added to a picture
of points, and that is blurred along its rows and columns, 18 operations a pixel instead of 81 a
Gaussian. Gaussians so faint that the threshold cuts their stencil are added entry by entry.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..base.errors import InputError
from ..base.state import as_tensor
from ..base.types import Vec3
from ..scene import Camera
from ..scene.gaussians import SH_C0
from .splat import Rendering, Splat

SIGMA = 1.6  # pixels
WEIGHT_MIN = 1e-4
BYTES_AT_A_TIME = 2**21  # per chunk: larger ones exceed the cache and take three times as long
FAINT_AT_A_TIME = 2**14  # Gaussians


def draw(splat: Splat) -> Rendering:
    """One frame and one camera; covariances and view-dependent colour play no part."""
    splat = splat.darkened()
    rgb = (0.5 + SH_C0 * splat.sh[:, 0]).clamp_min(0) if splat.colors is None else splat.colors
    color, depth, alpha = render_light(
        splat.means.float()[None],
        rgb,
        splat.opacities,
        [splat.camera],
        background=splat.background,
    )
    return Rendering(color[0, 0], depth[0, 0], alpha[0, 0])


@torch.no_grad()
def render_light(
    means: Vec3,
    colors: Tensor,
    opacities: Tensor,
    cameras: Sequence[Camera],
    *,
    background: Sequence[float] | Tensor = (1.0, 1.0, 1.0),
    sigma: float = SIGMA,
) -> tuple[Tensor, Tensor, Tensor]:
    """Many frames seen by many cameras of one size.

    Args:
        means: ``(F, N, 3)``.
        colors: RGB ``(N, 3)`` or ``(F, N, 3)``.
        opacities: ``(N,)`` or ``(F, N)``.
        cameras: ``C`` of them.
        background: RGB of empty pixels.
        sigma: standard deviation of a splat in pixels.

    Returns:
        color ``(F, C, H, W, 3)``, depth ``(F, C, H, W)`` and alpha ``(F, C, H, W)`` in the dtype of
        ``means``.
    """
    means, colors, opacities = _checked(means, colors, opacities)
    height, width = _size(cameras)
    if not sigma > 0:
        raise InputError(f"sigma is a standard deviation in pixels above 0, got {sigma}")
    radius = math.ceil(2 * sigma)
    frames, n = means.shape[:2]
    out = means.new_empty(frames, len(cameras), 5, height, width)
    points = (height + 2 * radius) * (width + 2 * radius)
    chunk = max(1, BYTES_AT_A_TIME // (5 * len(cameras) * (points + n) * means.element_size()))
    for f in range(0, frames, chunk):
        part = slice(f, f + chunk)
        pixel, depth = _project(means[part], cameras)
        values = _values(depth, colors[part], opacities[part])
        _splat(out[part], pixel, depth, values, sigma)
    return _composed(out, as_tensor(background, "background").to(means))


def _checked(means: Vec3, colors: Tensor, opacities: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Floats of one dtype, colours and opacities spread over the frames."""
    x = as_tensor(means, "means")
    if x.dim() != 3 or x.shape[-1] != 3:
        raise InputError(f"means: expected shape (F, N, 3), got {tuple(x.shape)}")
    frames, n = x.shape[:2]

    def spread(y: Tensor, name: str, *tail: int) -> Tensor:
        y = as_tensor(y, name).to(x)
        if tuple(y.shape) not in ((n, *tail), (frames, n, *tail)):
            raise InputError(f"{name}: expected shape {(n, *tail)}, got {tuple(y.shape)}")
        return y.expand(frames, n, *tail)

    return x, spread(colors, "colors", 3), spread(opacities, "opacities")


def _size(cameras: Sequence[Camera]) -> tuple[int, int]:
    sizes = {(camera.height, camera.width) for camera in cameras}
    if len(sizes) != 1:
        raise InputError(
            f"the light renderer takes cameras of one picture size, got {sorted(sizes) or 'none'}"
        )
    return sizes.pop()


def _project(means: Vec3, cameras: Sequence[Camera]) -> tuple[Tensor, Tensor]:
    """Rounded pixel ``(F, C, N, 2)`` as x, y, and depth ``(F, C, N)``."""
    w2c = torch.stack([camera.w2c_y_up for camera in cameras]).to(means)
    K = torch.stack([camera.K for camera in cameras]).to(means)
    x = means.unsqueeze(1) @ w2c[:, :3, :3].mT + w2c[:, None, :3, 3]
    depth = x[..., 2]
    f, c = K.diagonal(dim1=-2, dim2=-1)[:, None, :2], K[:, None, :2, 2]
    up = x[..., :2] * x.new_tensor([1.0, -1.0])
    return torch.round(f * up / depth.unsqueeze(-1) + c), depth


def _values(depth: Tensor, colors: Tensor, opacities: Tensor) -> Tensor:
    """Values that each Gaussian adds at its centre: ``(F, C, 5, N)`` of o, o depth, o colour."""
    o = opacities[:, None].expand_as(depth)
    rgb = (opacities.unsqueeze(-1) * colors).mT[:, None].expand(-1, depth.shape[1], -1, -1)
    return torch.cat([torch.stack([o, o * depth], dim=2), rgb], dim=2)


def _splat(out: Tensor, pixel: Tensor, depth: Tensor, values: Tensor, sigma: float) -> None:
    """Sum the stencils of all Gaussians in front of the camera into ``out`` ``(F, C, 5, H, W)``."""
    line, (height, width) = _line(sigma), out.shape[-2:]
    radius = len(line) // 2
    # Centres this far outside still touch the picture; NaN and infinities fail the test.
    inside = (pixel >= -radius) & (pixel < pixel.new_tensor([width, height]) + radius)
    inside = inside.all(-1) & (depth > 0)
    faint = inside & (values[:, :, 0] * line[0] ** 2 < WEIGHT_MIN)
    grid = out.new_zeros(*out.shape[:3], height + 2 * radius, width + 2 * radius)
    _add_points(grid, pixel + radius, values, inside & ~faint)
    out[:] = _blurred(_blurred(grid, line, -2), line, -1)
    if faint.any():
        _add_faint(out, pixel, values, faint, line)


def _line(sigma: float) -> list[float]:
    """The kernel along one axis, ``2 ceil(2 sigma) + 1`` numbers."""
    radius = math.ceil(2 * sigma)
    return [math.exp(-(i**2) / (2 * sigma**2)) for i in range(-radius, radius + 1)]


def _add_points(grid: Tensor, pixel: Tensor, values: Tensor, kept: Tensor) -> None:
    """Add ``values (F, C, 5, N)`` at ``pixel (F, C, N, 2)`` where ``kept (F, C, N)`` is true."""
    index = torch.where(kept, pixel[..., 1] * grid.shape[-1] + pixel[..., 0], 0).long()
    values = torch.where(kept.unsqueeze(2), values, 0)
    flat = grid.view(-1, 5, grid.shape[-2] * grid.shape[-1])
    flat.scatter_add_(-1, index.flatten(0, 1)[:, None].expand(-1, 5, -1), values.flatten(0, 1))


def _blurred(x: Tensor, line: list[float], dim: int) -> Tensor:
    """Convolve along one dimension, which loses the kernel's radius at both ends.

    By shifted sums: torch's convolution of a single channel takes ten times as long.
    """
    radius = len(line) // 2
    size = x.shape[dim] - 2 * radius
    y = x.narrow(dim, radius, size) * line[radius]
    for i in range(radius):
        mirrored = x.narrow(dim, i, size) + x.narrow(dim, 2 * radius - i, size)
        y.add_(mirrored, alpha=line[i])
    return y


def _add_faint(
    out: Tensor, pixel: Tensor, values: Tensor, faint: Tensor, line: list[float]
) -> None:
    """Add stencils entry by entry, without the entries whose weight is below the threshold."""
    height, width = out.shape[-2:]
    image, n = faint.flatten(0, 1).nonzero(as_tuple=True)
    side = torch.arange(len(line), device=out.device)
    j, i = side.repeat_interleave(len(line)), side.repeat(len(line))
    weights = out.new_tensor(line)
    kernel = weights[i] * weights[j]
    # Rows of five numbers, because index_add_ adds rows.
    rows = out.new_zeros(out.shape[0] * out.shape[1] * height * width, 5)
    for part in torch.arange(len(n), device=out.device).split(FAINT_AT_A_TIME):
        v = values.flatten(0, 1)[image[part], :, n[part]]
        corner = pixel.flatten(0, 1)[image[part], n[part]].long() - len(line) // 2
        x, y = corner[:, :1] + i, corner[:, 1:] + j
        kept = (x >= 0) & (x < width) & (y >= 0) & (y < height)
        kept &= kernel * v[:, :1] >= WEIGHT_MIN
        index = (image[part, None] * height + y) * width + x
        rows.index_add_(0, index[kept], (kernel[:, None] * v[:, None])[kept])
    out += rows.view(*out.shape[:2], height, width, 5).movedim(-1, 2)


def _composed(sums: Tensor, background: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Colour, depth and alpha of summed weights, weighted depths and weighted colours."""
    weight = sums[:, :, 0]
    alpha = weight.clamp(0, 1)
    scale = torch.where(weight > 0, 1 / weight.clamp_min(1e-12), 0)
    color = (sums[:, :, 2:] * (scale * alpha).unsqueeze(2)).movedim(2, -1)
    color = color + (1 - alpha).unsqueeze(-1) * background
    return color, sums[:, :, 1] * scale, alpha
