"""Input and output of every renderer, and the constants of a projected Gaussian.

The constants are those of gsplat 1.5, so that pictures can be compared. The original 3DGS code
differs in one: it caps alpha at 0.99.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from ..base.errors import InputError
from ..base.state import as_tensor
from ..scene import Camera, GaussianScene
from ..scene.frames import Frame
from ..scene.sh import darkened
from ..scene.transform import pack_symmetric

EPS2D = 0.3  # square pixels added to the projected variances: a low-pass of about a pixel
ALPHA_MIN = 1 / 255  # weaker contributions are dropped
ALPHA_CAP = 0.999
T_MIN = 1e-4  # transmittance: a Gaussian that would leave less ends its pixel and is not drawn
NEAR = 0.01  # smallest depth
VIEW_MARGIN = 0.3  # of half the picture: beyond it the Jacobian is clamped


@dataclass(frozen=True, eq=False)
class Rendering:
    """One view of a scene, float32; row 0 is the top."""

    color: Tensor
    """RGB ``(H, W, 3)`` over the background; values above 1 can occur and are kept."""
    depth: Tensor
    """Mean depth ``(H, W)`` along the camera's z axis, weighted like the colours; 0 where empty."""
    alpha: Tensor
    """Coverage ``(H, W)`` in [0, 1]."""


@dataclass(frozen=True, eq=False)
class Splat:
    """A checked request: a scene, and values that replace its own in this picture."""

    scene: GaussianScene
    camera: Camera
    background: Tensor
    """RGB ``(3,)``."""
    means: Tensor
    """``(N, 3)``."""
    covariances: Tensor | None
    """Packed ``(N, 6)``: xx xy xz yy yz zz; or those of the scene."""
    sh: Tensor
    """Spherical harmonics ``(N, K, 3)``."""
    colors: Tensor | None
    """RGB ``(N, 3)`` in place of ``sh``."""
    opacities: Tensor
    """``(N,)``, 0 to 1."""
    shade: Tensor | None = None
    """Factors ``(N,)`` on the colours."""

    def darkened(self) -> "Splat":
        """The same with the factors multiplied into the colours, for renderers without factors."""
        if self.shade is None:
            return self
        if self.colors is not None:
            return replace(self, colors=self.colors * self.shade[:, None], shade=None)
        return replace(self, sh=darkened(self.sh, self.shade), shade=None)


def make_splat(
    scene: GaussianScene,
    camera: Camera,
    background: Sequence[float] | Tensor,
    means: Tensor | None = None,
    covariances: Tensor | None = None,
    sh: Tensor | None = None,
    colors: Tensor | None = None,
    opacities: Tensor | None = None,
    shade: Tensor | None = None,
) -> Splat:
    """Check shapes; see :func:`newtongs.render.render` for the arguments."""
    for x, kind in ((scene, GaussianScene), (camera, Camera)):
        if not isinstance(x, kind):
            raise InputError(f"rendering takes a {kind.__name__}, got {type(x).__name__}")
    if camera.K[0, 1] != 0 or camera.K[1, 0] != 0:
        raise InputError("the renderers take cameras without skew: K[0, 1] and K[1, 0] must be 0")
    n = len(scene)
    return Splat(
        scene=scene,
        camera=camera,
        background=_shaped(background, (3,), "background"),
        means=scene.means if means is None else _shaped(means, (n, 3), "means"),
        covariances=None if covariances is None else packed(covariances, n),
        sh=scene.sh if sh is None else _shaped(sh, tuple(scene.sh.shape), "sh"),
        colors=None if colors is None else _shaped(colors, (n, 3), "colors"),
        opacities=scene.opacities if opacities is None else _shaped(opacities, (n,), "opacities"),
        shade=None if shade is None else _shaped(shade, (n,), "shade"),
    )


def splat_of_frame(
    scene: GaussianScene, frame: Frame, camera: Camera, background: Sequence[float] | Tensor
) -> Splat:
    """A frame of an animated scene, to draw."""
    return make_splat(
        scene, camera, background, frame.means, frame.covariances, frame.sh,
        opacities=frame.opacities, shade=frame.shade,
    )  # fmt: skip


def packed(covariances: Tensor, n: int) -> Tensor:
    """Covariances ``(n, 3, 3)`` or ``(n, 6)``, packed."""
    x = as_tensor(covariances, "covariances")
    if tuple(x.shape) == (n, 3, 3):
        return pack_symmetric(x)
    if tuple(x.shape) != (n, 6):
        raise InputError(
            f"covariances: expected shape ({n}, 3, 3) or ({n}, 6), got {tuple(x.shape)}"
        )
    return x


def _shaped(x: Sequence[float] | Tensor, shape: tuple[int, ...], name: str) -> Tensor:
    tensor = as_tensor(x, name)
    if tuple(tensor.shape) != shape:
        raise InputError(f"{name}: expected shape {shape}, got {tuple(tensor.shape)}")
    return tensor
