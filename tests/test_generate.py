"""The runner of video models, end to end with pipelines of random weights: from disk to Table 3."""

import json
import shutil
import sys
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch
from clip_files import refused

from newtongs import cli
from newtongs.base.errors import InputError
from newtongs.paper.datasets.common12 import COGVIDEOX, MOTIONS, rows
from newtongs.paper.evaluation import video_models
from newtongs.paper.evaluation.video_models import DiffusersClips, blended, find_weights

for name in ("diffusers", "transformers", "peft", "sentencepiece", "google.protobuf"):
    pytest.importorskip(name, reason=f"{name} is missing; newtongs[generate] brings it")
tiny = import_module("tiny_pipelines")  # needs them

CHANNELS = tiny.CHANNELS
SMALL = ("--device", "cpu", "--size", "32", "16", "--frames", "9", "--steps", "2")
PAIR = ("--motions", "Rotation", "Deformation")


@pytest.fixture(scope="module")
def cogvideox(tmp_path_factory):
    return tiny.save_cogvideox(tmp_path_factory.mktemp("weights") / "cogvideox")


@pytest.fixture(scope="module")
def wan(tmp_path_factory):
    return tiny.save_wan(tmp_path_factory.mktemp("weights") / "wan")


@pytest.fixture(scope="module")
def lora(tmp_path_factory, cogvideox):
    return tiny.save_lora(tmp_path_factory.mktemp("lora"), cogvideox)


@pytest.fixture
def noise(tmp_path):
    """Noise as the warping program writes it, for 9 frames of 32 x 16 pixels."""
    draw = np.random.default_rng(0)
    for motion in MOTIONS:
        (tmp_path / "noise" / motion).mkdir(parents=True)
        made = draw.standard_normal((9, 2, 4, CHANNELS)).astype(np.float32)
        np.save(tmp_path / "noise" / motion / "noises.npy", made)
    return tmp_path / "noise"


def generate(*words):
    cli.main(["generate", *(str(word) for word in words)])


@pytest.mark.slow
def test_manifest_to_table_3(tmp_path, capsys, cogvideox):
    cli.main(["data", "common12", "--out", str(tmp_path)])
    generate("--model", "cogvideox", "--weights", cogvideox, "--out", tmp_path, *SMALL)
    assert "12 clips of CogVideoX" in capsys.readouterr().out
    seeds = {row.motion: row.seed for row in rows(("cogvideox",))}
    clips = {}
    for motion, seed in seeds.items():
        record = json.loads((tmp_path / motion / "CogVideoX.json").read_text())
        assert record["seed"] == seed
        assert record["prompt"] == MOTIONS[motion].prompt
        assert (record["width"], record["height"], record["frames"]) == (32, 16, 9)
        assert (record["steps"], record["guidance"], record["fps"]) == (2, 6.0, 8)
        assert record["made_with"]["scheduler"] == "CogVideoXDDIMScheduler"
        clips[motion] = (tmp_path / motion / "CogVideoX.mp4").read_bytes()
    assert len(set(clips.values())) == 12
    names = {path.name for path in tmp_path.glob("*/*")}
    assert names == {"CogVideoX.mp4", "CogVideoX.json"}  # nothing half-written

    figures = tmp_path / "figures.json"
    cli.main(["evaluate", "--videos", str(tmp_path), "--json", str(figures)])
    report = json.loads(figures.read_text())["videos"]
    assert report["rows"]["cogvideox"]["n"] == 12
    assert 0 < report["rows"]["cogvideox"]["pis_p"]["mean"] < 1
    assert report["notes"] == []  # made here, with a record
    assert all(r["frames"] == 9 and r["width"] == 32 for r in report["clips"].values())


def test_wan(tmp_path, wan):
    words = ("--model", "wan", "--weights", wan, "--out", tmp_path, *SMALL, *PAIR)
    generate(*words)
    record = json.loads((tmp_path / "Rotation" / "Wan.json").read_text())
    assert (record["fps"], record["guidance"], record["pipeline"]) == (16, 5.0, "WanPipeline")
    first = (tmp_path / "Rotation" / "Wan.mp4").read_bytes()
    generate(*words, "--overwrite")
    assert (tmp_path / "Rotation" / "Wan.mp4").read_bytes() == first  # the seed decides


@pytest.mark.slow
def test_a_run_goes_on_where_it_stopped(tmp_path, capsys, monkeypatch, cogvideox):
    words = ("--model", "cogvideox", "--weights", cogvideox, "--out", tmp_path, *SMALL)
    made = []
    whole = DiffusersClips.frames

    def stop_at_the_third(self, row, progress=None):
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(row.motion)
        return whole(self, row, progress)

    monkeypatch.setattr(DiffusersClips, "frames", stop_at_the_third)
    with pytest.raises(SystemExit) as stop:
        generate(*words)
    assert stop.value.code == 130
    assert "run the same command again" in capsys.readouterr().err
    clips = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*.mp4")}
    assert len(clips) == 2

    later = []
    monkeypatch.setattr(
        DiffusersClips,
        "frames",
        lambda self, row, progress=None: later.append(row.motion) or whole(self, row, progress),
    )
    generate(*words)
    assert len(later) == 10
    assert not set(later) & set(made)
    assert all(path.stat().st_mtime_ns == t for path, t in clips.items())

    monkeypatch.setattr(DiffusersClips, "load", lambda self: pytest.fail("nothing is left to do"))
    generate(*words)
    assert "with another steps" in refused(capsys, "generate", *words, "--steps", 3)


def test_steps_are_reported(cogvideox):
    maker = DiffusersClips(
        "cogvideox", weights=cogvideox, device="cpu", width=16, height=16, frames=9, steps=3
    )
    maker.load()
    told = []
    pictures = maker.frames(rows(("cogvideox",))[0], lambda *step: told.append(step))
    assert [step for _, step, total in told if total == 3] == [1, 2, 3]
    assert pictures.shape == (9, 16, 16, 3)


def newtongen(cogvideox, lora, noise, **options):
    size = {"width": 32, "height": 16, "frames": 9, "steps": 2}
    maker = DiffusersClips(
        "newtongen", weights=cogvideox, device="cpu", lora=lora, noise=noise, **size, **options
    )
    maker.load()
    return maker


def test_newtongen(tmp_path, cogvideox, lora, noise):
    out = tmp_path / "out"
    words = ("--model", "newtongen", "--weights", cogvideox, "--lora", lora, "--noise", noise)
    generate(*words, "--out", out, *SMALL, *PAIR)
    record = json.loads((out / "Rotation" / "NewtonGen.json").read_text())
    assert record["degradation"] == 0.5
    assert record["noise"] == str(noise / "Rotation" / "noises.npy")
    assert record["lora"] == str(lora)

    row = next(row for row in rows(("newtongen",)) if row.motion == "Rotation")
    maker = newtongen(cogvideox, lora, noise)
    with_lora = maker.frames(row)
    maker.pipe.disable_lora()
    assert np.abs(with_lora - maker.frames(row)).max() > 1e-3


def test_newtongens_noise(cogvideox, lora, noise):
    """Every fourth noise picture, and half of it fresh; all of it fresh leaves no trace of it."""
    row = rows(("newtongen",))[0]
    draw = torch.Generator().manual_seed(row.seed)
    fresh = torch.randn((1, 3, CHANNELS, 2, 4), generator=draw)
    stored = np.load(noise / row.motion / "noises.npy")[[0, 4, 8]]
    warped = torch.from_numpy(stored).permute(0, 3, 1, 2)[None]

    def latents(share):
        maker = newtongen(cogvideox, lora, noise, degradation=share)
        return maker._latents(row, torch.Generator().manual_seed(row.seed))

    assert torch.equal(latents(0.0), warped)
    assert torch.equal(latents(1.0), fresh)
    assert torch.allclose(latents(0.5), (warped + fresh) / 2**0.5)
    big = torch.randn(2, 200_000)
    assert blended(*big, 0.3).std() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("method", ["cogvideox", "wan", "newtongen"])
def test_half_precision(method, cogvideox, wan, lora, noise):
    """The types of a GPU run: bfloat16, Wan's decoder in float32."""
    weights = wan if method == "wan" else cogvideox
    extra = {"lora": lora, "noise": noise} if method == "newtongen" else {}
    size = {"width": 32, "height": 16, "frames": 9, "steps": 2}
    maker = DiffusersClips(method, weights=weights, device="cpu", **extra, **size)
    maker.dtype = torch.bfloat16
    maker.load()
    assert maker.pipe.transformer.dtype == torch.bfloat16
    assert (maker.pipe.vae.dtype == torch.float32) == (method == "wan")
    assert maker.frames(rows((method,))[0]).std() > 0.01


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("low_memory", [False, True])
@pytest.mark.parametrize("method", ["cogvideox", "wan"])
def test_on_a_gpu(tmp_path, method, low_memory, cogvideox, wan):
    weights = wan if method == "wan" else cogvideox
    words = ("--model", method, "--weights", weights, "--out", tmp_path, *SMALL[2:], *PAIR)
    generate(*words, *(["--low-memory"] if low_memory else []))
    (record, *_) = [json.loads(path.read_text()) for path in tmp_path.glob("Rotation/*.json")]
    assert record["dtype"] == "bfloat16"
    assert record["made_with"]["device"] == "cuda"


# What is missing, or wrong


def test_missing_library_and_gpu(tmp_path, capsys, monkeypatch, cogvideox):
    words = ("generate", "--model", "cogvideox", "--weights", cogvideox, "--out", tmp_path)
    if not torch.cuda.is_available():
        assert "needs a GPU" in refused(capsys, *words)
    for name in video_models.NEEDED:
        with monkeypatch.context() as without:
            without.setitem(sys.modules, name, None)
            said = refused(capsys, *words, *SMALL)
        assert f"needs {name}; install it with: pip install 'newtongs[generate]'" in said
    assert list(tmp_path.iterdir()) == []


def test_missing_and_wrong_weights(tmp_path, capsys, cogvideox, wan):
    words = ("generate", "--model", "cogvideox", "--out", tmp_path / "out", *SMALL, "--weights")
    assert "no weights in" in refused(capsys, *words, tmp_path)
    assert "WanPipeline" in refused(capsys, *words, wan)
    with pytest.raises(InputError, match="hf download nobody/has-this"):
        find_weights(replace(COGVIDEOX, repository="nobody/has-this"), None)
    damaged = tmp_path / "damaged"
    shutil.copytree(cogvideox, damaged)
    file = damaged / "transformer" / "diffusion_pytorch_model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    assert "cannot be read as weights of CogVideoXPipeline" in refused(capsys, *words, damaged)
    assert not (tmp_path / "out").exists()


def test_wrong_options(tmp_path, capsys, cogvideox):
    words = ("generate", "--model", "cogvideox", "--out", tmp_path / "out", "--weights", cogvideox)
    for change, said in (
        (("--frames", 10), "expected 4 k + 1"),
        (("--size", 30, 16), "multiples of 16"),
        (("--steps", 0), "at least one step"),
        (("--motions", "Rotaton"), "did you mean Rotation"),
        (("--lora", "x.safetensors"), "require --model newtongen"),
        (("--same32", tmp_path), "requires --model newtongs"),
    ):
        assert said in refused(capsys, *words, "--device", "cpu", *change)


def test_newtongen_says_what_it_needs(tmp_path, capsys, cogvideox, lora, noise):
    words = ("generate", "--model", "newtongen", "--out", tmp_path / "out", *SMALL)
    words = (*words, "--weights", cogvideox)
    said = refused(capsys, *words)
    assert "T2V5B_blendnorm_i18000_DATASET" in said
    assert "noises.npy" in said
    both = (*words, "--lora", lora, "--noise", noise)
    assert "a fraction from 0 to 1" in refused(capsys, *both, "--degradation", 2)
    assert "is not a .safetensors file" in refused(
        capsys, *words, "--noise", noise, "--lora", cogvideox / "model_index.json"
    )
    np.save(noise / "Rotation" / "noises.npy", np.zeros((9, 3, 4, CHANNELS)))
    assert "expected noise of shape (9, 2, 4, 4), got (9, 3, 4, 4)" in refused(capsys, *both)
    np.save(noise / "Rotation" / "noises.npy", np.array([{}]), allow_pickle=True)
    assert "cannot be read as a .npy file" in refused(capsys, *both)
    (noise / "Rotation" / "noises.npy").unlink()
    assert "lacks the noise of 1 of 12 motions" in refused(capsys, *both)
    assert not (tmp_path / "out").exists()


def test_too_little_memory_and_bad_pictures(monkeypatch, cogvideox):
    maker = DiffusersClips("cogvideox", weights=cogvideox, device="cpu", width=16, height=16)
    row = rows(("cogvideox",))[0]

    def full(**options):
        raise torch.OutOfMemoryError("no more")

    maker.pipe = full
    with pytest.raises(InputError, match="low_memory"):
        maker.frames(row)
    with pytest.raises(InputError, match="not finite"):
        maker._sound(np.full((49, 16, 16, 3), np.nan), row)
    assert video_models.checked(maker.sampling) == maker.sampling
