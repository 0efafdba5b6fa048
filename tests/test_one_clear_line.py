"""Damaged files and odd words through the command line: one line, code 2, never a traceback."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from export_samples import park
from test_bombs import rewritten

from newtongs import GaussianNND
from newtongs.base.checkpoints import load_tensors, save_tensors
from newtongs.base.errors import InputError
from newtongs.cli import main
from newtongs.dynamics.weights import ablated, load_model
from newtongs.exports import read_html, write_html
from newtongs.formats import save
from newtongs.formats.files import load
from newtongs.scene.gaussians import quantiles


def refused(capsys, *words):
    """What it says; anything but one line and code 2 fails."""
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in words])
    said = capsys.readouterr().err
    assert stopped.value.code == 2, said
    assert said.startswith("newtongs: ")
    assert said.count("\n") == 1
    return said


def checkpoint(path, *, about=None, **tensors):
    """A checkpoint with some of it replaced; ``about`` is its description as text."""
    from safetensors.torch import save_file

    model = GaussianNND()
    weights = {k: x.clone() for k, x in model.state_dict().items()} | tensors
    from dataclasses import asdict

    description = json.dumps({"model": asdict(model.config)}) if about is None else about
    save_file(weights, path, metadata={"newtongs": description})
    return path


DESCRIPTIONS = {
    "deep": "[" * 100_000,
    "a list": "[]",
    "a list for the model": '{"model": []}',
    "a number for the model": '{"model": 7}',
    "no model": "{}",
    "text for a number": '{"model": {"hidden": "256"}}',
    "a fraction": '{"model": {"hidden": 2.5}}',
    "a list for a number": '{"model": {"hidden": [256]}}',
    "more than any": '{"model": {"hidden": 1e400}}',
    "a large whole number": json.dumps({"model": {"hidden": 10**40}}),
    "a wrong solver": '{"model": {"solver": ["rk4"]}}',
    "no time": '{"model": {"max_dt": 0}}',
    "text for time": '{"model": {"max_dt": "x"}}',
    "hardly any time": '{"model": {"max_dt": 1e-9}}',
}


@pytest.mark.parametrize("kind", DESCRIPTIONS)
def test_descriptions_of_checkpoints(tmp_path, kind):
    path = checkpoint(tmp_path / "a.safetensors", about=DESCRIPTIONS[kind])
    with pytest.raises(InputError) as caught:
        load_model(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "weights",
    [
        torch.full((), torch.nan), torch.full((), torch.inf), torch.tensor(3),
        torch.ones(2), torch.tensor(True),
    ],
)  # fmt: skip
def test_weights_that_are_no_weights(tmp_path, weights):
    with pytest.raises(InputError, match="weights"):
        load_model(checkpoint(tmp_path / "a.safetensors", c_v=weights))
    assert load_model(checkpoint(tmp_path / "a.safetensors"))


@pytest.mark.parametrize("name", ["max_dt=1e-9", "max_dt=0", "max_dt=nan", "max_dt=1e999"])
def test_steps_that_never_end(name):
    with pytest.raises(InputError, match="max_dt"):
        ablated(GaussianNND(), name)


def test_a_run_that_cannot_be_resumed_is_one_line(tmp_path):
    """Lists for dictionaries in what a run says of itself."""
    from newtongs.base.runs import RunFolder
    from newtongs.paper.training.config import TrainConfig
    from newtongs.paper.training.loop import resume

    model = GaussianNND()
    optimizer = torch.optim.AdamW(model.parameters())
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1)
    tensors = dict(model.state_dict()) | {"optimizer.rng": torch.zeros(3)}
    config = TrainConfig(data=tmp_path, out=tmp_path)
    for about in ({}, {"training": []}, {"training": {"model": [3]}, "data": []}):
        save_tensors(tmp_path / "last.safetensors", tensors, about)
        with pytest.raises(InputError) as caught:
            resume(RunFolder(tmp_path), model, optimizer, schedule, config, "x")
        assert "\n" not in str(caught.value)
    assert load_tensors(tmp_path / "last.safetensors")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"a,b\n", b"\n\n"])
def test_manifests_that_are_none(tmp_path, capsys, content):
    (tmp_path / "manifest.csv").write_bytes(content)
    if content == b"a,b\n":
        main(["inspect", str(tmp_path)])
        assert "0 samples; columns: a,b" in capsys.readouterr().out
    else:
        assert "manifest.csv" in refused(capsys, "inspect", tmp_path)


@pytest.mark.parametrize("push", ['velocity="1,2,3', "select='x", "velocity=1,2,3\\", '"'])
def test_quotes_in_a_push(tmp_path, capsys, push):
    said = refused(capsys, "animate", "bowling", "--out", tmp_path, "--push", push)
    assert "push" in said


@pytest.mark.parametrize(
    "damage",
    [
        lambda x: b"",
        lambda x: x[: len(x) // 2],
        lambda x: x[:-30],
        lambda x: x[:40] + b"\xff" * 60 + x[100:],
        lambda x: b"PK\x05\x06" + bytes(18),
        lambda x: x.replace(b"times", b"tides"),
    ],
)
def test_damaged_archives_of_animations(tmp_path, capsys, damage):
    path = rewritten(tmp_path, lambda arrays: None)
    tree = json.loads(path.read_text())
    npz = tmp_path / "a.npz"
    npz.write_bytes(damage(npz.read_bytes()))
    from newtongs.exports.replay import _entry

    path.write_text(json.dumps(tree | {"numbers": _entry(npz, path)}))
    refused(capsys, "inspect", path)
    refused(capsys, "replay", path, "--out", tmp_path / "o")


TREES = [
    {"objects": 3}, {"objects": [3]}, {"objects": [{"id": []}]}, {"world": []}, {"scene": []},
    {"scene": {"path": 3}}, {"numbers": {"path": "\0"}}, {"about": [3]}, {"about": {"objects": 3}},
    {"world": {"rotation": [[1, 2]], "scale": "x", "offset": [[[]]]}}, {"shadow": []},
    {"about": {"objects": [{"velocity": {"a": 1}}]}}, {"version": []}, {"affine": {}},
    {"world": {"rotation": [0, 0, 0, 0], "scale": 0, "offset": [0, 0, 0]}},
]  # fmt: skip


@pytest.mark.parametrize("change", TREES, ids=lambda x: json.dumps(x)[:50])
def test_trees_of_animations(tmp_path, capsys, change):
    path = rewritten(tmp_path, lambda arrays: None)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    refused(capsys, "inspect", path)


def test_a_title_that_looks_like_a_blank(tmp_path):
    for title in ("%%META%%", "%%DATA%%", "%%TITLE%%", "a%%META%%%%DATA%%"):
        write_html(park(2), tmp_path / "a.html", title=title, compress=False)
        assert f"<title>{title}</title>" in (tmp_path / "a.html").read_text()
        assert len(read_html(tmp_path / "a.html")) > 100


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "darwin", reason="names are text there")
def test_a_name_of_invalid_bytes(tmp_path):
    """Through the command itself: what is printed and written holds the name somehow."""
    save(park(2).scene, tmp_path / "a.ply")
    name = os.fsencode(tmp_path) + b"/sc\xff\xfene.ply"
    os.rename(tmp_path / "a.ply", name)
    words = [sys.executable, "-m", "newtongs", "animate", name, "--out", os.fsencode(tmp_path)]
    words += [
        "--formats", "json", "html", "png", "--seconds", "0.1", "--size", "32", "32",
        "--up", "0", "1", "0", "--floor", "0", "--select", "id:3", "--keep-ghosts", "--hollow",
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    written = {os.path.splitext(f)[1] for f in os.listdir(os.fsencode(tmp_path))}
    assert {b".json", b".html", b".png", b".npz"} <= written
    missing = subprocess.run(
        [sys.executable, "-m", "newtongs", "inspect", b"/no\xffsuch.ply"],
        capture_output=True, check=False,
    )  # fmt: skip
    assert missing.returncode == 2
    assert missing.stderr.count(b"\n") == 1


def test_more_gaussians_than_a_quantile_takes():
    """torch refuses more than 2^24 numbers."""
    wanted = [0.05, 0.5, 0.95]
    x = torch.rand(2**24 + 5)
    assert torch.allclose(quantiles(x, wanted), torch.tensor(wanted), atol=0.01)
    few = torch.rand(1000, 3)
    assert torch.equal(quantiles(few, wanted), few.quantile(torch.tensor(wanted), dim=0))


def test_a_file_that_is_another_format_inside(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((0, 10**6, 14), np.float32))
    with pytest.raises(InputError):
        load(tmp_path / "a.npy")


POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"


@pytest.mark.parametrize("name", ["a.ply", "a.splat", "a.spz", "a.sog", "a.glb", "meta.json"])
def test_a_git_lfs_pointer_in_place_of_a_scene(tmp_path, capsys, name):
    path = tmp_path / name
    path.write_text(POINTER)
    said = refused(capsys, "animate", path, "--out", tmp_path / "o")
    assert f"{path}: expected Gaussians, got a Git LFS pointer" in said
    assert "git lfs pull" in said


@pytest.mark.parametrize(
    "address", ["https://host/a.ply", "http://host/scene", "s3://bucket/a/b.splat"]
)
@pytest.mark.parametrize("command", ["animate", "inspect", "convert", "studio"])
def test_an_address_in_place_of_a_scene(tmp_path, capsys, command, address):
    said = refused(capsys, command, address, *[tmp_path / "o.ply"] * (command == "convert"))
    kind = "a file of Gaussians on this machine"
    assert f"expected {kind}, got the address {address}; download it first" in said
    with pytest.raises(InputError, match="download it first"):
        load(address)


@pytest.mark.parametrize("name", ["a.ply", "meta.json", "bowling"])
def test_replay_of_a_scene_names_animate(tmp_path, capsys, name):
    said = refused(capsys, "replay", name, "--out", tmp_path)
    assert "replay reads the .json of an animation" in said
    assert f"newtongs animate {name}" in said
    assert not os.listdir(tmp_path)
