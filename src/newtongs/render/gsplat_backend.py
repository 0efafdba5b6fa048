"""The CUDA rasteriser of gsplat 1.5 behind our signature; needs the extra ``newtongs[gpu]``.

Its defaults (low-pass 0.3, near plane 0.01, cut at 1/255, cap at 0.999) are the constants of
``splat``; only differing values are passed. gsplat compiles itself on the first call, which takes
minutes.
"""

import torch

from ..base.errors import InputError
from ..base.extras import optional
from ..scene.transform import unpack_symmetric
from .splat import EPS2D, NEAR, Rendering, Splat

rasterization = optional("gsplat", "the gsplat renderer needs gsplat", "gpu").rasterization


@torch.no_grad()
def draw(splat: Splat) -> Rendering:
    """The picture. gsplat takes batches of cameras; ours have one."""
    if splat.means.device.type != "cuda":
        raise InputError(
            f"the gsplat renderer takes a scene on a CUDA device, got {splat.means.device}; "
            "use scene.to('cuda') or backend='ewa'"
        )
    splat = splat.darkened()
    scene, camera, like = splat.scene, splat.camera, splat.means.float()
    pixels, alpha, _ = rasterization(
        means=like.contiguous(),
        quats=scene.quats.float(),
        scales=scene.scales.float(),
        opacities=splat.opacities.float(),
        colors=(splat.colors if splat.colors is not None else splat.sh).to(like).contiguous(),
        viewmats=camera.w2c.to(like)[None].contiguous(),
        Ks=camera.K.to(like)[None].contiguous(),
        width=camera.width,
        height=camera.height,
        near_plane=NEAR,
        eps2d=EPS2D,
        sh_degree=None if splat.colors is not None else scene.sh_degree,
        packed=False,
        backgrounds=splat.background.to(like)[None],
        render_mode="RGB+ED",
        covars=None if splat.covariances is None else unpack_symmetric(splat.covariances.to(like)),
    )
    return Rendering(color=pixels[0, ..., :3], depth=pixels[0, ..., 3], alpha=alpha[0, ..., 0])
