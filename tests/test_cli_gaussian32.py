"""The commands around Gaussian-32 and Same-32."""

import csv
import json

import pytest
import torch

from newtongs import cli
from newtongs.dynamics.weights import load_pretrained
from newtongs.paper.datasets import gaussian32, same32
from newtongs.paper.evaluation.same32 import evaluate_same32


def test_data_gaussian32(tmp_path, capsys):
    words = ["data", "gaussian32", "--out", str(tmp_path), "--templates", "yellow_cone"]
    cli.main([*words, "--motions", "free_fall"])
    assert "1 samples" in capsys.readouterr().out
    (row,) = csv.DictReader((tmp_path / "manifest.csv").open())
    sample = torch.load(tmp_path / row["path"], weights_only=True)
    assert sample["render"]["rgb"].shape == (49, 4, 128, 128, 3)
    assert sample["render"]["mask"].any()
    assert gaussian32.load(tmp_path / row["path"])["states"].shape == (49, 22)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--templates", "yellow_come"], "yellow_cone"),
        (["--motions", "free_fal"], "free_fall"),
        (["--store", "all"], "full"),
    ],
)
def test_near_misses_are_named(words, said, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["data", "gaussian32", "--out", str(tmp_path), *words])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_table_2(tmp_path, capsys, monkeypatch):
    made = same32.build_same32
    monkeypatch.setattr(  # the pictures are tested elsewhere and take most of the time
        same32, "build_same32", lambda *a, **k: made(*a, **(k | {"render": None}))
    )
    folder, figures = tmp_path / "same32", tmp_path / "figures.json"
    cli.main(["data", "same32", "--out", str(folder)])
    capsys.readouterr()
    cli.main(["evaluate", "--same32", str(folder), "--json", str(figures)])
    out = capsys.readouterr().out
    assert "2.5751" in out  # the paper's figure stands beside ours
    rows = json.loads(figures.read_text())["same32"]
    expected = evaluate_same32(folder)
    assert set(rows) == {"hold_z0", "gravity_bounce_se3", "physics_prior_se3", "newtongs"}
    assert rows["newtongs"]["traj"] == pytest.approx(expected["newtongs"]["traj"])
    best = min(scores["traj"] for name, scores in rows.items() if name != "newtongs")
    assert rows["newtongs"]["traj"] < best
    words = ["evaluate", "--same32", str(folder), "--json", str(figures)]
    cli.main([*words, "--checkpoint", "pretrained:7302", "--methods", "hold_z0"])
    rows = json.loads(figures.read_text())["same32"]
    assert set(rows) == {"hold_z0", "newtongs"}
    one = evaluate_same32(folder, models=[load_pretrained(7302)])
    assert rows["newtongs"]["traj"] == pytest.approx(one["newtongs"]["traj"])
    for wrong, said in (
        (["--checkpoint", "none.safetensors"], "no checkpoint none.safetensors"),
        (["--ablate", "contact"], "needs a trained model"),
        (["--per-motion"], "--per-motion requires --data"),
        (["--compare"], "--compare requires --data"),
        (["--splits", "val_id"], "--splits requires --data"),
    ):
        with pytest.raises(SystemExit) as stop:
            cli.main([*words, *wrong])
        assert stop.value.code == 2
        assert said in capsys.readouterr().err


def test_one_data_set_must_be_named(tmp_path, capsys):
    for words in ([], ["--data", "a", "--same32", "b"]):
        with pytest.raises(SystemExit) as stop:
            cli.main(["evaluate", *words])
        assert stop.value.code == 2
        assert "--same32" in capsys.readouterr().err
