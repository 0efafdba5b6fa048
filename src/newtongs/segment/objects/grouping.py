"""Selecting the Gaussians of an object by image masks, a box, a sphere or an image circle.

Selections are bool masks ``(N,)``; :func:`assign` writes them into a scene as an object id. An
empty selection is an error that says how close it was.

The paper's rule for masks reads: "project each Gaussian mean into the binary object masks across
all cameras, discard projections with nonpositive depth, and assign Gaussians whose average mask
membership is at least 0.5". It is read as follows. A discarded projection does not enter the
average. A projection outside the picture counts as zero, unless ``ignore_outside`` is set. A
Gaussian that no camera counts has membership zero. A mean belongs to the pixel it falls into: pixel
i covers [i, i + 1).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...base.errors import InputError
from ...base.state import as_tensor
from ...base.types import Vec3
from ...scene.cameras import Camera
from ...scene.gaussians import ArrayLike, GaussianScene

THRESHOLD = 0.5  # average membership from which a Gaussian belongs to the object
FOOTPRINT = 0.75  # of the circle's radius: ghosts are searched inside
FULL_BYTE = 255  # masks stored as images of bytes


class Circle(NamedTuple):
    """What an image circle selects, as masks ``(N,)``."""

    foreground: Tensor
    """The object: inside the circle and the depth interval."""
    ghost: Tensor
    """Static copies of the object inside the smaller footprint, to be removed."""


def membership(
    scene: GaussianScene,
    masks: ArrayLike,
    cameras: Sequence[Camera],
    *,
    ignore_outside: bool = False,
) -> Tensor:
    """Average mask membership ``(N,)`` in [0, 1] over the cameras, by the rule above.

    Args:
        scene: the Gaussians; only their means matter.
        masks: ``(C, H, W)``, or ``C`` of ``(H, W)``: bool, 0 and 1, or 0 to 255 (128 is inside).
        cameras: ``C`` cameras, each of the size of its mask.
        ignore_outside: exclude projections outside the picture from the average.
    """
    if isinstance(cameras, Camera):
        raise InputError("cameras: expected a list, one camera per mask, got a single Camera")
    if not len(cameras) or len(masks) != len(cameras):
        raise InputError(
            f"expected one mask per camera, got {len(masks)} masks and {len(cameras)} cameras"
        )
    inside, counted = scene.means.new_zeros(2, len(scene))
    for mask, camera in zip(_binary(masks, cameras), cameras, strict=True):
        front, within, hit = _hits(scene.means, mask, camera)
        inside += hit
        counted += within if ignore_outside else front
    return inside / counted.clamp_min(1)


def group_by_masks(
    scene: GaussianScene,
    masks: ArrayLike,
    cameras: Sequence[Camera],
    *,
    threshold: float = THRESHOLD,
    ignore_outside: bool = False,
) -> Tensor:
    """The Gaussians ``(N,)`` whose :func:`membership` is at least ``threshold``."""
    average = membership(scene, masks, cameras, ignore_outside=ignore_outside)
    best = float(average.max()) if len(average) else 0.0
    return _nonempty(
        average >= threshold,
        f"no Gaussian is in the masks of at least {threshold:g} of the cameras that see it; the "
        f"best reaches {best:.2g}; check that masks and cameras match, or lower the threshold",
    )


def _hits(means: Vec3, mask: Tensor, camera: Camera) -> tuple[Tensor, Tensor, Tensor]:
    """Masks of Gaussians in front of the camera, of these in the picture, of those in the mask."""
    pixels, depth = camera.project(means)
    front = depth > 0
    # Compared before rounding: pixels far outside would overflow an integer.
    size = pixels.new_tensor([camera.width, camera.height])
    within = front & ((pixels >= 0) & (pixels < size)).all(-1)
    u, v = torch.where(within.unsqueeze(-1), pixels, 0.0).long().unbind(-1)
    return front, within, within & mask.to(means.device)[v, u]


def _binary(masks: Any, cameras: Sequence[Camera]) -> list[Tensor]:
    """The masks as bool ``(H, W)``.

    Whether they hold 0 and 1 or bytes is decided over all of them together: in an image of bytes
    without the object, noise may not exceed 1.
    """
    out = []
    for i, (mask, camera) in enumerate(zip(masks, cameras, strict=True)):
        x = torch.as_tensor(mask)
        if tuple(x.shape) != (camera.height, camera.width):
            wanted = (camera.height, camera.width)
            raise InputError(f"mask {i}: expected the picture's {wanted}, got {tuple(x.shape)}")
        out.append(x if x.dtype == torch.bool else x.float())
    numbers = [x for x in out if x.dtype != torch.bool]
    low = min((float(x.amin()) for x in numbers), default=0.0)
    high = max((float(x.amax()) for x in numbers), default=1.0)
    if not 0 <= low <= high <= FULL_BYTE:
        raise InputError(f"masks: expected 0 and 1, or 0 to 255, got {low:g} to {high:g}")
    half = 0.5 if high <= 1 else 0.5 * FULL_BYTE
    return [x if x.dtype == torch.bool else x >= half for x in out]


def select_box(scene: GaussianScene, low: ArrayLike, high: ArrayLike) -> Tensor:
    """The Gaussians whose means lie in the closed box from ``low (3,)`` to ``high (3,)``."""
    a, b = _corner(low, "low", scene), _corner(high, "high", scene)
    if (a > b).any():
        raise InputError(f"box: low {a.tolist()} lies above high {b.tolist()} on some axis")
    beyond = torch.maximum(a - scene.means, scene.means - b).clamp_min(0)
    away = torch.linalg.vector_norm(beyond, dim=-1)
    return _nonempty(away == 0, f"no Gaussian in the box; {_nearest(away, 'from it')}")


def select_sphere(scene: GaussianScene, center: ArrayLike, radius: float) -> Tensor:
    """The Gaussians whose means lie in the closed ball around ``center (3,)``."""
    if not radius > 0:
        raise InputError(f"sphere: expected a radius above zero, got {radius}")
    away = torch.linalg.vector_norm(scene.means - _corner(center, "center", scene), dim=-1)
    return _nonempty(
        away <= radius,
        f"no Gaussian within {radius:g} of the centre; {_nearest(away, 'from it')}",
    )


def select_circle(
    scene: GaussianScene,
    camera: Camera,
    center_px: ArrayLike,
    radius_px: float,
    *,
    depth: tuple[float, float],
    footprint: float = FOOTPRINT,
    ghost_depth: tuple[float, float] | None = None,
) -> Circle:
    """An image circle and a depth interval, as in the paper's bowling example.

    A layered reconstruction contains a second, static copy of an object, which stays behind when
    the object moves. These ghosts are the Gaussians, at any depth in front of the camera, that
    project into a smaller circle and are not part of the object.

    Args:
        scene: the Gaussians; only their means matter.
        camera: the reference camera.
        center_px: ``(2,)``, in pixels from the left and from the top.
        radius_px: pixels.
        depth: nearest and farthest depth of the object.
        footprint: radius of the circle for ghosts as a fraction of ``radius_px``, 0 to 1.
        ghost_depth: search ghosts between these depths only, to spare objects far behind.
    """
    centre = as_tensor(center_px, "center_px").to(scene.means)
    _check_circle(centre, radius_px, depth, footprint)
    pixels, z = camera.project(scene.means)
    away = torch.where(z > 0, torch.linalg.vector_norm(pixels - centre, dim=-1), torch.inf)
    circle = away <= radius_px
    foreground = circle & (z >= depth[0]) & (z <= depth[1])
    _nonempty(foreground, _why_circle_is_empty(circle, away, z, depth))
    ghost = (away <= footprint * radius_px) & ~foreground
    if ghost_depth is not None:
        ghost &= (z >= ghost_depth[0]) & (z <= ghost_depth[1])
    return Circle(foreground, ghost)


def _check_circle(
    centre: Tensor, radius: float, depth: tuple[float, float], footprint: float
) -> None:
    if tuple(centre.shape) != (2,) or not torch.isfinite(centre).all():
        raise InputError(f"center_px: expected two numbers, got shape {tuple(centre.shape)}")
    if not radius > 0:
        raise InputError(f"circle: expected a radius above zero, got {radius}")
    if not 0 <= footprint <= 1:
        raise InputError(f"footprint: expected a fraction from 0 to 1, got {footprint}")
    if len(depth) != 2 or not depth[0] <= depth[1]:
        raise InputError(f"depth: expected (near, far) with near <= far, got {depth}")


def _why_circle_is_empty(
    circle: Tensor, away: Tensor, z: Tensor, depth: tuple[float, float]
) -> str:
    if circle.any():
        low, high = float(z[circle].amin()), float(z[circle].amax())
        return (
            f"no Gaussian between depths {depth[0]:g} and {depth[1]:g}; those in the circle "
            f"({int(circle.sum())}) have depths {low:.4g} to {high:.4g}"
        )
    return f"no Gaussian in the circle; {_nearest(away, 'pixels from its centre')}"


def assign(scene: GaussianScene, mask: ArrayLike, id: int) -> GaussianScene:
    """The scene with the Gaussians of ``mask (N,)`` assigned to object ``id``."""
    chosen = _nonempty(_checked_mask(scene, mask), "nothing to assign: the selection is empty")
    return scene.replace(ids=torch.where(chosen, int(id), scene.ids))


def remove(scene: GaussianScene, mask: ArrayLike) -> GaussianScene:
    """The scene without the Gaussians of ``mask (N,)``, such as ghosts."""
    return scene[~_checked_mask(scene, mask)]


def _checked_mask(scene: GaussianScene, mask: ArrayLike) -> Tensor:
    x = torch.as_tensor(mask, device=scene.device)
    if x.dtype != torch.bool or tuple(x.shape) != (len(scene),):
        got = f"{x.dtype} of shape {tuple(x.shape)}"
        raise InputError(f"selection: expected bool of shape ({len(scene)},), got {got}")
    return x


def _corner(x: ArrayLike, name: str, scene: GaussianScene) -> Vec3:
    point = as_tensor(x, name).to(scene.means)
    if tuple(point.shape) != (3,) or not torch.isfinite(point).all():
        raise InputError(f"{name}: expected three finite numbers, got {point.tolist()}")
    return point


def _nearest(away: Tensor, of_what: str) -> str:
    """How close an empty selection was."""
    if not len(away):
        return "the scene is empty"
    if not torch.isfinite(away.amin()):
        return "all of them are behind the camera"
    return f"the nearest of {len(away)} is {float(away.amin()):.4g} {of_what}"


def _nonempty(mask: Tensor, why: str) -> Tensor:
    if not mask.any():
        raise InputError(why)
    return mask
