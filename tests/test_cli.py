"""The command line end to end, in processes of its own, as a stranger would use it."""

import json
import os
import subprocess
import sys

import pytest
import torch

from newtongs.datasets import state32
from newtongs.evaluation import METHODS


def newtongs(*args, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "newtongs", *map(str, args)],
        capture_output=True, text=True, check=False, cwd=cwd,
    )  # fmt: skip


def test_from_nothing_to_a_table(tmp_path):
    made = newtongs("data", "state32", "--out", "d", "--per-motion", 4, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert sorted(os.listdir(tmp_path / "d")) == [
        "manifest_train.csv", "manifest_val_id.csv", "manifest_val_ood.csv",
        "train.pt", "val_id.pt", "val_ood.pt",
    ]  # fmt: skip
    done = newtongs(
        "evaluate", "--data", "d", "--json", "out/figures.json", "--compare", "--per-motion",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for text in ("State-32 val_id", "State-32 val_ood", "Physics-Prior-SE(3)", "3.2854", "10.392"):
        assert text in done.stdout
    report = json.loads((tmp_path / "out" / "figures.json").read_text())
    assert list(report) == ["val_id", "val_ood"]
    assert list(report["val_id"]) == list(METHODS)
    assert report["val_id"]["oracle"]["traj"] == 0
    assert os.listdir(tmp_path / "out") == ["figures.json"]


def test_the_lowest_ranked_value_is_starred_and_the_oracle_does_not_compete(small_state32):
    done = newtongs("evaluate", "--data", small_state32, "--splits", "val_id")
    rows = {line.split("│")[1].strip(): line for line in done.stdout.splitlines() if "│" in line}
    assert rows["Const-Vel-SE(3)"].count("*") == 1  # quaternion
    assert "*" in rows["Hold-Z0"].split("│")[6]  # scale
    assert "*" not in rows["oracle"]
    diagnostics = [cell for line in rows.values() for cell in line.split("│")[7:]]
    assert not any("*" in cell for cell in diagnostics)


def test_some_splits_and_methods(small_state32):
    done = newtongs(
        "evaluate", "--data", small_state32, "--splits", "train", "--methods", "hold_z0"
    )
    assert done.returncode == 0
    assert "State-32 train" in done.stdout
    assert "Const-Vel" not in done.stdout


def test_picture(tmp_path):
    done = newtongs("figure", "motions", "--out", tmp_path / "a" / "motions.png", "--paths", 2)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "a" / "motions.png") in done.stdout
    assert (tmp_path / "a" / "motions.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "words", [[], ["data"], ["data", "state32"], ["evaluate"], ["figure", "motions"]]
)
def test_help_teaches(words):
    done = newtongs(*words, "--help")
    assert done.returncode == 0
    assert "--help" in done.stdout


@pytest.fixture
def broken(tmp_path, small_state32):
    """A folder with a NaN in one split, half of another, and no third."""
    content = torch.load(small_state32 / "val_id.pt", weights_only=True)
    content["states"][700, 3, 8] = float("nan")
    torch.save(content, tmp_path / "val_id.pt")
    whole = (small_state32 / "val_ood.pt").read_bytes()
    (tmp_path / "val_ood.pt").write_bytes(whole[: len(whole) // 2])
    return tmp_path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate", "--data", "nowhere"], "no State-32 file nowhere/val_id.pt; make it with"),
        (["evaluate", "--data", ".", "--splits", "val_ood"], "damaged or cut short"),
        (["evaluate", "--data", ".", "--splits", "val_id"], "v_y at index (700, 3) is nan"),
        (["evaluate", "--data", ".", "--methods", "holdz0"], "did you mean hold_z0"),
        (["evaluate", "--data", ".", "--device", "warp"], "device 'warp' is not available"),
        (["data", "state32", "--out", "d", "--per-motion", "0"], "at least 1"),
        (["data", "state32", "--out", "val_id.pt/d"], "cannot make folder"),
        (["figure", "motions", "--out", "p.xyz"], "cannot write picture p.xyz"),
        (["figure", "motions", "--paths", "0"], "at least 1"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(broken, words, message):
    before = sorted(os.listdir(broken))
    done = newtongs(*words, cwd=broken)
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if "sequences" not in line and line.strip()]
    assert len(lines) == 1, done.stderr
    assert message in lines[0]
    assert "Traceback" not in done.stderr
    assert sorted(os.listdir(broken)) == before


@pytest.mark.parametrize(
    "words",
    [
        ["data", "state32"],
        ["data", "state32", "--out", "d", "--splits", "test"],
        ["data", "state32", "--out", "d", "--per-motion", "many"],
        ["evaluate", "--data", ".", "--spilts", "val_id"],
        ["nonsense"],
    ],
)
def test_misspelt_flags_exit_2_without_a_traceback(tmp_path, words):
    done = newtongs(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr + done.stdout
    assert os.listdir(tmp_path) == []


def test_json_into_a_folder_that_cannot_be(small_state32, tmp_path):
    (tmp_path / "file").write_text("")
    done = newtongs(
        "evaluate", "--data", small_state32, "--splits", "val_id", "--methods", "hold_z0",
        "--json", tmp_path / "file" / "x.json",
    )  # fmt: skip
    assert done.returncode == 2
    assert "cannot write" in done.stderr


def test_interrupt_says_how_to_go_on(monkeypatch, tmp_path, capsys):
    from newtongs import cli

    def stop(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(state32, "build", stop)
    with pytest.raises(SystemExit) as exit_info:
        cli.main(["data", "state32", "--out", str(tmp_path)])
    assert exit_info.value.code == 130
    assert "run the same command again" in capsys.readouterr().err
