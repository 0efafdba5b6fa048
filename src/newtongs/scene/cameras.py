"""Pinhole cameras and the paper's orbits.

Camera axes are x right, y down, z forward (OpenCV, COLMAP, gsplat): a point ``x_c = w2c x``
projects to the pixel ``K x_c / z``; pixel centres are at half-integer coordinates. The paper's
light renderer uses a camera whose y points up and negates it: :attr:`Camera.w2c_y_up`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..base.errors import InputError
from ..base.state import as_tensor

FIELD_OF_VIEW = 55.0  # degrees, in the paper's orbits
RADIUS = 5.0
ELEVATION = 1.2  # height above the target at inference
ELEVATION_GAUSSIAN32 = 1.35
RIGID = 1e-3  # tolerance of a camera's rotation: captures store few digits


@dataclass(frozen=True, eq=False)
class Camera:
    """A pinhole camera and the size of its picture."""

    K: Tensor
    """Intrinsics ``(3, 3)`` in pixels."""
    w2c: Tensor
    """World to camera ``(4, 4)``."""
    width: int
    """Pixels."""
    height: int
    """Pixels."""

    def __post_init__(self) -> None:
        for name, n in (("K", 3), ("w2c", 4)):
            x = as_tensor(getattr(self, name), name)
            if tuple(x.shape) != (n, n):
                raise InputError(f"camera {name}: expected shape ({n}, {n}), got {tuple(x.shape)}")
            if not torch.isfinite(x).all():
                raise InputError(f"camera {name}: expected finite numbers")
            object.__setattr__(self, name, x)
        for name in ("width", "height"):
            size = getattr(self, name)
            if size != int(size) or size < 1:
                raise InputError(f"camera {name}: expected whole pixels, at least one, got {size}")
            object.__setattr__(self, name, int(size))
        _check_rigid(self.w2c)

    @property
    def c2w(self) -> Tensor:
        """Camera to world ``(4, 4)``."""
        return torch.linalg.inv(self.w2c.double()).to(self.w2c.dtype)

    @property
    def position(self) -> Tensor:
        """Position of the camera in the world ``(3,)``."""
        return self.c2w[:3, 3]

    @property
    def w2c_y_up(self) -> Tensor:
        """World to camera with x right, y up, z forward, for the paper's light renderer."""
        return self.w2c.new_tensor([1.0, -1.0, 1.0, 1.0]).diag() @ self.w2c

    def project(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Pixel coordinates ``(..., 2)`` and depth ``(...)`` of points ``(..., 3)``.

        Points at nonpositive depth are behind the camera; their pixels are meaningless.
        """
        points = as_tensor(points, "points")
        w2c, K = self.w2c.to(points), self.K.to(points)
        x = points @ w2c[:3, :3].T + w2c[:3, 3]
        depth = x[..., 2]
        return (x @ K.T)[..., :2] / depth.unsqueeze(-1), depth


def _check_rigid(w2c: Tensor) -> None:
    """Reject mirroring and scaling, which would flip pictures and change depths unnoticed."""
    R = w2c[:3, :3].double()
    off = float((R @ R.T - torch.eye(3).to(R)).abs().amax())
    if off > RIGID or torch.linalg.det(R) < 0 or w2c[3].tolist() != [0, 0, 0, 1]:
        raise InputError(
            "camera w2c: expected a rotation and a translation with axes x right, y down, z ahead; "
            f"got one that scales or skews by {off:.1e} or mirrors (is its y up? negate that row)"
        )


def intrinsics(width: int, height: int, fov: float = FIELD_OF_VIEW) -> Tensor:
    """``K`` for a vertical field of view in degrees, with the principal point at the centre."""
    if not 0 < fov < 180:
        raise InputError(f"a field of view lies between 0 and 180 degrees, got {fov}")
    f = 0.5 * height / math.tan(math.radians(fov) / 2)
    return torch.tensor([[f, 0, width / 2], [0, f, height / 2], [0, 0, 1]])


def look_at(
    position: Sequence[float] | Tensor,
    target: Sequence[float] | Tensor,
    *,
    width: int,
    height: int,
    fov: float = FIELD_OF_VIEW,
    up: Sequence[float] = (0.0, 1.0, 0.0),
) -> Camera:
    """A camera at ``position`` that looks at ``target``."""
    eye, aim = _point(position, "position"), _point(target, "target")
    sky, forward = _direction(up), aim - eye
    if not torch.linalg.vector_norm(forward) > 0:
        raise InputError(f"the camera stands on its target {aim.tolist()}; move one of them")
    right = torch.linalg.cross(forward, sky)
    if torch.linalg.vector_norm(right) < 1e-9 * torch.linalg.vector_norm(forward):
        # Looking straight up or down: any perpendicular axis will do.
        across = torch.eye(3, dtype=torch.float64)[int(forward.abs().argmin())]
        right = torch.linalg.cross(forward, across)
    down = torch.linalg.cross(forward, right)
    axes = torch.stack([x / torch.linalg.vector_norm(x) for x in (right, down, forward)])
    w2c = torch.eye(4, dtype=torch.float64)
    w2c[:3, :3], w2c[:3, 3] = axes, -axes @ eye
    return Camera(intrinsics(width, height, fov), w2c.float(), width, height)


def orbit(
    target: Sequence[float] | Tensor,
    *,
    views: int = 4,
    radius: float = RADIUS,
    elevation: float = ELEVATION,
    width: int = 512,
    height: int = 512,
    fov: float = FIELD_OF_VIEW,
    start: float = 0.0,
    up: Sequence[float] = (0.0, 1.0, 0.0),
) -> list[Camera]:
    """Cameras evenly spaced on a circle around ``target``, ``elevation`` above it along ``up``.

    ``start`` is the angle of the first one in degrees; at zero it is on the +z side if y is up.
    """
    if views < 1:
        raise InputError(f"an orbit has at least one view, got {views}")
    aim, sky = _point(target, "target"), _direction(up)
    # Two axes perpendicular to `up`; for y up these are z and x.
    helper = torch.eye(3, dtype=torch.float64)[(int(sky.abs().argmax()) + 1) % 3]
    a = helper - (helper @ sky) * sky
    a = a / torch.linalg.vector_norm(a)
    b = torch.linalg.cross(sky, a)
    angles = [math.radians(start) + 2 * math.pi * i / views for i in range(views)]
    return [
        look_at(
            aim + radius * (math.cos(t) * a + math.sin(t) * b) + elevation * sky,
            aim,
            width=width,
            height=height,
            fov=fov,
            up=sky.tolist(),
        )
        for t in angles
    ]


def _point(x: Sequence[float] | Tensor, name: str) -> Tensor:
    """Three finite numbers, float64 on the CPU."""
    point = as_tensor(x, name).detach().double().cpu()
    if tuple(point.shape) != (3,) or not torch.isfinite(point).all():
        raise InputError(f"{name}: expected three finite numbers, got {point.tolist()}")
    return point


def _direction(up: Sequence[float] | Tensor) -> Tensor:
    """The unit vector ``(3,)`` along ``up``."""
    sky = _point(up, "up")
    length = torch.linalg.vector_norm(sky)
    if not length > 0:
        raise InputError("up: expected three numbers that are not all zero")
    return sky / length
