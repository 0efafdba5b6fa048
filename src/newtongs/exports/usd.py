"""OpenUSD with ``ParticleField3DGaussianSplat``: Gaussians once, time samples on the transforms.

The prims mirror the nodes of the ``.glb``: ``/World`` turns the scene upright,
``/World/object_7`` is translated, rotated and scaled over time, ``/World/object_7/rest`` inverts
the initial pose, ``/World/object_7/rest/splats`` contains the Gaussians. Needs the extra
``newtongs[usd]``.
"""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..base.errors import InputError
from ..base.files import write_atomically
from ..base.locks import scratch
from ..base.types import Quat
from ..scene.animation import Animation, NodeTrack
from ..scene.gaussians import GaussianScene
from .parts import parts, provenance, to_json

try:
    from pxr import Gf, Tf, Usd, UsdGeom, UsdUtils, UsdVol, Vt
except ImportError as error:
    raise InputError(
        "writing USD needs usd-core; install it with: pip install 'newtongs[usd]'"
    ) from error

ENDINGS = (".usdc", ".usda", ".usd", ".usdz")
ROOT = "/World"
SIGMAS = 3.0  # standard deviations of a Gaussian that count as its extent


def write_usd(animation: Animation, path: Path | str, *, sh_degree: int | None = None) -> None:
    """Write the animation as ``.usdc`` (binary), ``.usda`` (text) or ``.usdz`` (package).

    Args:
        animation: what moves.
        path: file to write, atomically.
        sh_degree: highest degree of view-dependent colour, for a smaller file.
    """
    path = Path(path)
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"cannot write {path}: the name must end in {', '.join(ENDINGS)}")
    with scratch() as folder:
        try:
            made = _write(animation, folder, path.suffix.lower(), sh_degree)
        except Tf.ErrorException as error:  # a report of many lines
            raise InputError(
                f"cannot write {path}: usd-core could not write into {folder.parent}; "
                "is the disk full?"
            ) from error
        with made.open("rb") as f:
            write_atomically(path, lambda out: shutil.copyfileobj(f, out))


def _write(animation: Animation, folder: Path, ending: str, sh_degree: int | None) -> Path:
    """The finished file in a temporary folder."""
    package = ending == ".usdz"
    layer = folder / f"animation{'.usdc' if package else ending}"
    stage = _stage(animation, layer)
    for part in parts(animation, sh_degree=sh_degree):
        where = f"{ROOT}/{part.name}"
        if part.node_track is None:
            _splats(stage, where, part.scene)
        else:
            _moving(stage, where, part.node_track, timecodes(animation))
            _splats(stage, f"{where}/rest/splats", part.scene)
    stage.GetRootLayer().Save()
    if not package:
        return layer
    packed = folder / "animation.usdz"
    if not UsdUtils.CreateNewUsdzPackage(os.fspath(layer), os.fspath(packed)):
        raise InputError("usd-core could not make the .usdz package; write a .usdc instead")
    return packed


def timecodes(animation: Animation) -> list[float]:
    """Frame numbers ``(T,)`` from zero; whole if the frames are evenly spaced."""
    codes = (animation.times - animation.times[0]).double() * animation.fps
    whole = codes.round()
    return torch.where((codes - whole).abs() < 1e-3, whole, codes).tolist()


def _stage(animation: Animation, path: Path) -> Any:
    stage = Usd.Stage.CreateNew(os.fspath(path))
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.y)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    stage.SetTimeCodesPerSecond(animation.fps)
    stage.SetFramesPerSecond(animation.fps)
    stage.SetStartTimeCode(0.0)
    stage.SetEndTimeCode(timecodes(animation)[-1])
    world = UsdGeom.Xform.Define(stage, ROOT)
    _orient(world).Set(_quat(animation.world.rotation))
    stage.SetDefaultPrim(world.GetPrim())
    stage.GetRootLayer().comment = to_json(provenance(animation))
    return stage


def _moving(stage: Any, where: str, place: NodeTrack, codes: list[float]) -> None:
    """The two transforms of an object."""
    outer = UsdGeom.Xform.Define(stage, where)
    translate = outer.AddTranslateOp(UsdGeom.XformOp.PrecisionDouble)
    orient, scale = _orient(outer), outer.AddScaleOp(UsdGeom.XformOp.PrecisionDouble)
    for code, p, q, s in zip(codes, place.translation, place.rotation, place.scale, strict=True):
        translate.Set(Gf.Vec3d(*p.tolist()), code)
        orient.Set(_quat(q), code)
        scale.Set(Gf.Vec3d(*s.tolist()), code)
    inner = UsdGeom.Xform.Define(stage, f"{where}/rest")
    _orient(inner).Set(_quat(place.inner_rotation))
    inner.AddTranslateOp(UsdGeom.XformOp.PrecisionDouble).Set(
        Gf.Vec3d(*place.inner_translation.tolist())
    )


def _orient(xform: Any) -> Any:
    return xform.AddOrientOp(UsdGeom.XformOp.PrecisionDouble)


def _quat(q: Quat) -> Any:
    """Scalar first, like ours."""
    return Gf.Quatd(*q.tolist())


def _splats(stage: Any, where: str, scene: GaussianScene) -> None:
    """The Gaussians of one part."""
    field = UsdVol.ParticleField3DGaussianSplat.Define(stage, where)
    prim = field.GetPrim()
    values = {
        "positions": Vt.Vec3fArray.FromNumpy(_array(scene.means)),
        "orientations": Vt.QuatfArray.FromNumpy(_array(scene.quats.roll(-1, -1))),  # xyzw there
        "scales": Vt.Vec3fArray.FromNumpy(_array(scene.scales)),
        "opacities": Vt.FloatArray.FromNumpy(_array(scene.opacities)),
        "radiance:sphericalHarmonicsCoefficients": Vt.Vec3fArray.FromNumpy(
            _array(scene.sh.flatten(0, 1))
        ),
        "radiance:sphericalHarmonicsDegree": scene.sh_degree,
        "extent": Vt.Vec3fArray.FromNumpy(_array(torch.stack(scene.bounds(sigmas=SIGMAS)))),
    }
    for name, value in values.items():
        prim.GetAttribute(name).Set(value)
    _color_space(prim)


def _color_space(prim: Any) -> None:
    """Captured colours are display colours; by default USD assumes linear ones."""
    Usd.ColorSpaceAPI.Apply(prim).CreateColorSpaceNameAttr("srgb_rec709_scene")


def _array(x: Tensor) -> Any:
    return np.ascontiguousarray(x.detach().cpu().numpy(), dtype=np.float32)
