"""OpenUSD: usd-core's own validators have nothing against it, and it moves as the formula says."""

import os
import subprocess
import sys

import pytest
import torch
from export_samples import park, reference_frame, relative, two_objects
from test_export_glb import in_file_order

from newtongs.base import rotations
from newtongs.base.errors import InputError

pytest.importorskip("pxr", reason="needs newtongs[usd]")
from pxr import Usd, UsdGeom

from newtongs.exports.usd import timecodes, write_usd


def problems(path):
    """What usd-core's own validators have to say against a file; nothing when it is sound."""
    from pxr import UsdValidation

    stage = Usd.Stage.Open(os.fspath(path))
    registry = UsdValidation.ValidationRegistry()
    context = UsdValidation.ValidationContext(registry.GetOrLoadAllValidators())
    return [f"{e.GetIdentifier()}: {e.GetMessage()}" for e in context.Validate(stage)]


def splats_of(stage):
    return [p for p in stage.Traverse() if p.GetTypeName() == "ParticleField3DGaussianSplat"]


def tensor(prim, name):
    return torch.tensor(prim.GetAttribute(name).Get(), dtype=torch.float64)


def placed(prim, code):
    """Means and covariances of a prim's Gaussians in the world, by usd-core's own transforms."""
    M = torch.tensor(UsdGeom.Imageable(prim).ComputeLocalToWorldTransform(code)).double()
    means = tensor(prim, "positions") @ M[:3, :3] + M[3, :3]  # USD multiplies rows
    q = [(x.GetReal(), *x.GetImaginary()) for x in prim.GetAttribute("orientations").Get()]
    m = rotations.to_matrix(torch.tensor(q).double()) * tensor(prim, "scales").unsqueeze(-2)
    m = M[:3, :3].T @ m
    return means, m @ m.mT


@pytest.mark.parametrize("ending", ["usdc", "usda", "usdz"])
def test_validators_have_nothing_to_say(tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    write_usd(two_objects(), path)
    assert problems(path) == []
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_the_validators_do_look(tmp_path):
    stage = Usd.Stage.CreateNew(str(tmp_path / "bad.usda"))
    UsdGeom.Xform.Define(stage, "/A")
    stage.Save()
    assert any("upAxis" in x for x in problems(tmp_path / "bad.usda"))


@pytest.mark.parametrize("seed", range(2))
def test_every_frame_reads_back(tmp_path, seed):
    animation = two_objects(seed=seed)
    write_usd(animation, tmp_path / "a.usdc")
    stage = Usd.Stage.Open(str(tmp_path / "a.usdc"))
    upright, rows = rotations.to_matrix(animation.world.rotation), in_file_order(animation)
    for t, code in enumerate(timecodes(animation)):
        means, sigma = reference_frame(animation, t)
        parts = [placed(prim, code) for prim in splats_of(stage)]
        got_means, got_sigma = (torch.cat(x) for x in zip(*parts, strict=True))
        torch.testing.assert_close(got_means, means[rows] @ upright.T, rtol=0, atol=3e-6)
        assert relative(got_sigma, (upright @ sigma @ upright.T)[rows]) < 5e-6


def test_colours_and_stage(tmp_path):
    animation = two_objects()
    write_usd(animation, tmp_path / "a.usdz")
    stage = Usd.Stage.Open(str(tmp_path / "a.usdz"))
    assert UsdGeom.GetStageUpAxis(stage) == "Y"
    assert stage.GetDefaultPrim().GetPath() == "/World"
    assert stage.GetTimeCodesPerSecond() == pytest.approx(animation.fps)
    assert (stage.GetStartTimeCode(), stage.GetEndTimeCode()) == (0, len(animation) - 1)
    assert '"seed": 0' in stage.GetRootLayer().comment
    wanted = animation.scene[in_file_order(animation)]
    prims = splats_of(stage)
    sh = torch.cat([tensor(p, "radiance:sphericalHarmonicsCoefficients") for p in prims])
    assert torch.equal(sh.float(), wanted.sh.flatten(0, 1))
    assert {p.GetAttribute("radiance:sphericalHarmonicsDegree").Get() for p in prims} == {3}
    opacities = torch.cat([tensor(p, "opacities") for p in prims])
    torch.testing.assert_close(opacities.float(), wanted.opacities)
    for prim in prims:
        low, high = tensor(prim, "extent")
        assert (tensor(prim, "positions") >= low).all()
        assert (tensor(prim, "positions") <= high).all()


def test_degree_is_cut(tmp_path):
    write_usd(two_objects(), tmp_path / "a.usdc", sh_degree=1)
    stage = Usd.Stage.Open(str(tmp_path / "a.usdc"))  # held: prims die with their stage
    prim = splats_of(stage)[0]
    assert prim.GetAttribute("radiance:sphericalHarmonicsDegree").Get() == 1
    assert len(prim.GetAttribute("radiance:sphericalHarmonicsCoefficients").Get()) == 4 * len(
        prim.GetAttribute("positions").Get()
    )


def test_wrong_ending_is_told(tmp_path):
    with pytest.raises(InputError, match="must end in"):
        write_usd(park(2), tmp_path / "a.obj")


@pytest.mark.slow
def test_a_missing_extra_is_named():
    code = (
        "import sys; sys.modules['pxr'] = None\n"
        "from newtongs.base.errors import InputError\n"
        "try:\n    import newtongs.exports.usd\n"
        "except InputError as e:\n    print(e)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'newtongs[usd]'" in said.stdout
