"""The command line end to end, as a stranger would use it.

What works is run in processes of its own; the many ways to go wrong are run in this one, quicker.
"""

import json
import os
import subprocess
import sys

import pytest
import torch

from newtongs import cli
from newtongs.cli import console
from newtongs.paper import evaluation, training
from newtongs.paper.datasets import gaussian32, state32
from newtongs.paper.evaluation import METHODS
from newtongs.paper.figures import motions
from newtongs.pipeline import source


def newtongs(*args, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "newtongs", *map(str, args)],
        capture_output=True, text=True, check=False, cwd=cwd,
    )  # fmt: skip


@pytest.mark.slow
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
    assert list(report) == ["made", "val_id", "val_ood"]
    assert list(report["val_id"]) == list(METHODS)
    assert report["val_id"]["oracle"]["traj"] == 0
    assert os.listdir(tmp_path / "out") == ["figures.json"]


@pytest.mark.slow
def test_the_lowest_ranked_value_is_starred_and_the_oracle_does_not_compete(small_state32):
    done = newtongs("evaluate", "--data", small_state32, "--splits", "val_id")
    rows = {line.split("│")[1].strip(): line for line in done.stdout.splitlines() if "│" in line}
    assert rows["Const-Vel-SE(3)"].count("*") == 1  # quaternion
    assert "*" in rows["Hold-Z0"].split("│")[6]  # scale
    assert "*" not in rows["oracle"]
    diagnostics = [cell for line in rows.values() for cell in line.split("│")[7:]]
    assert not any("*" in cell for cell in diagnostics)


@pytest.mark.slow
def test_some_splits_and_methods(small_state32):
    done = newtongs(
        "evaluate", "--data", small_state32, "--splits", "train", "--methods", "hold_z0"
    )
    assert done.returncode == 0
    assert "State-32 train" in done.stdout
    assert "Const-Vel" not in done.stdout


@pytest.mark.slow
def test_no_published_figure_leaves_the_cell_empty(small_state32, tmp_path):
    """The paper prints no per-motion figures for training, and none for motions unknown to it."""
    content = torch.load(small_state32 / "val_id.pt", weights_only=True)
    names = content["motion_type_names"]
    content["motion_type_names"] = ["somersault [/b]", *names[1:]]
    torch.save(content, tmp_path / "val_id.pt")
    (tmp_path / "train.pt").symlink_to(small_state32 / "train.pt")
    done = newtongs(
        "evaluate", "--data", tmp_path, "--splits", "train", "val_id", "--compare", "--per-motion",
        "--methods", "hold_z0", "physics_prior_se3",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    train, val_id = done.stdout.split("Traj per motion")[1:]
    cells = {
        row.split("│")[1].strip(): row.split("│")[4] for row in train.splitlines() if "│" in row
    }
    assert cells["free_fall"].strip() == ""
    row = next(row for row in val_id.splitlines() if "somersault [/b]" in row)
    assert row.split("│")[4].strip() == ""
    assert "1.028" in val_id  # free_fall's


@pytest.mark.slow
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


def test_first_page_has_one_sentence_a_command_the_most_used_first(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as stop:
        cli.main(["--help"])
    assert stop.value.code == 0
    page = capsys.readouterr().out
    table = page.split("Commands:\n")[1].split("\n\n")[0].splitlines()
    names = [line[2:].split()[0] for line in table if line[2] != " "]
    assert names[:5] == ["animate", "studio", "mcp", "inspect", "convert"]
    assert "It lands on what is there" not in page  # further sentences are the command's own
    assert len(page.splitlines()) < 40


@pytest.fixture
def broken(tmp_path, small_state32):
    """A folder with a NaN in one split, half of another, and no third."""
    content = torch.load(small_state32 / "val_id.pt", weights_only=True)
    content["states"][700, 3, 8] = float("nan")
    torch.save(content, tmp_path / "val_id.pt")
    whole = (small_state32 / "val_ood.pt").read_bytes()
    (tmp_path / "val_ood.pt").write_bytes(whole[: len(whole) // 2])
    return tmp_path


def fails(words, capfd):
    """The one line on standard error of a command that exits with code 2."""
    with pytest.raises(SystemExit) as stop:
        cli.main([str(word) for word in words])
    assert stop.value.code == 2
    done = capfd.readouterr()
    assert done.out == ""
    assert done.err.startswith("newtongs: ")
    assert done.err.count("\n") == 1, done.err
    assert done.err.endswith("\n")
    return done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate", "--data", "nowhere"], "no State-32 file nowhere/val_id.pt; make it with"),
        (["evaluate", "--data", ".", "--splits", "val_ood"], "damaged or truncated"),
        (["evaluate", "--data", ".", "--splits", "val_ood"], "--splits val_ood --overwrite"),
        (["evaluate", "--data", ".", "--splits", "val_id"], "v_y at index (700, 3) is nan"),
        (["evaluate", "--data", ".", "--splits"], "no split given"),
        (["evaluate", "--data", ".", "--methods"], "no method given"),
        (["evaluate", "--data", ".", "--methods", "holdz0"], "did you mean hold_z0"),
        (["evaluate", "--data", "val_id.pt"], "got the file val_id.pt; name its folder: ."),
        (["evaluate", "--data", ".", "--device", "warp"], "device 'warp' is not available"),
        (["evaluate", "--data", ".", "--device", "meta"], "device 'meta' is not available"),
        (["evaluate", "--data", ".", "--device", "hpu"], "device 'hpu' is not available"),
        (["evaluate", "--data", ".", "--device", "cuda:99"], "device 'cuda:99' is not available"),
        (["evaluate", "--data", ".", "--json", "."], "cannot write .: it is a folder"),
        (
            ["evaluate", "--data", ".", "--json", "val_id.pt/x.json"],
            "val_id.pt is not a writable folder",
        ),
        (["data", "state32", "--out", "d", "--per-motion", "0"], "at least 1"),
        (["data", "state32", "--out", "val_id.pt/d"], "cannot make folder"),
        (["data", "state32", "--out", ".", "--splits", "val_ood"], "--splits val_ood --overwrite"),
        (["figure", "motions", "--out", "p.xyz"], "cannot write picture p.xyz"),
        (["figure", "motions", "--out", "val_id.pt/x.png"], "val_id.pt is not a writable folder"),
        (["figure", "motions", "--out", ""], "it is a folder; name a file"),
        (["figure", "motions", "--paths", "0"], "at least 1"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(broken, words, message, monkeypatch, capfd):
    monkeypatch.chdir(broken)
    before = sorted(os.listdir())
    assert message in fails(words, capfd)
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            [],
            "expected one of {animate, studio, mcp, inspect, convert, collider, replay, continue,",
        ),
        (
            ["nonsense"],
            "nonsense; available subcommands: animate, studio, mcp, inspect, convert, collider,",
        ),
        (["animat"], "unknown command animat; did you mean animate?; see newtongs --help"),
        (["data", "stat32"], "did you mean state32?; see newtongs data --help"),
        (
            ["data", "state32"],
            "--out PATH Folder to write to. (required); see newtongs data state32",
        ),
        (["data", "state32", "--out"], "missing value for argument '--out'"),
        (["data", "state32", "--out", "d", "--splits", "test"], "invalid choice 'test'"),
        (
            ["data", "state32", "--out", "d", "--per-motion", "many"],
            "--per-motion: expected a whole number, got many",
        ),
        (["evaluate", "--data", ".", "--spilts", "val_id"], "--spilts, val_id; did you mean --spl"),
        (["train", "--data", ".", "--out", "d", "--epochs", "0"], "newtongs: epochs must be at le"),
    ],
)
def test_misspelt_words_are_one_line_and_exit_2(tmp_path, words, message, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert message in fails(words, capfd)
    assert os.listdir(tmp_path) == []


def test_coloured_box_of_a_terminal_becomes_one_plain_line():
    box = "\x1b[31m╭─ Bad ───╮\x1b[0m\n│ \x1b[1mNot so.\x1b[0m │\n╰─────────╯\n"
    assert cli.one_line(box) == "not so"
    rule = "│ ───────── │\n"
    assert cli.one_line(box.replace("│ \x1b", rule + "│ \x1b")) == "not so"


@pytest.mark.slow
def test_standard_error_of_a_process(broken):
    done = newtongs("evaluate", "--data", ".", "--splits", "val_id", cwd=broken)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == ""


def test_bars_are_drawn_on_terminals_from_the_first_advance(monkeypatch, capfd):
    with console.progress_bar() as advance:
        advance("val_id", 1, 2)
    assert capfd.readouterr().err == ""  # not a terminal
    monkeypatch.setenv("FORCE_COLOR", "1")
    with console.progress_bar():
        pass
    assert capfd.readouterr().err == ""
    with console.progress_bar() as advance:
        advance("val_id", 1, 2)
    assert "1/2 sequences" in capfd.readouterr().err


def test_json_into_a_folder_that_cannot_be(small_state32, tmp_path):
    (tmp_path / "file").write_text("")
    done = newtongs(
        "evaluate", "--data", small_state32, "--splits", "val_id", "--methods", "hold_z0",
        "--json", tmp_path / "file" / "x.json",
    )  # fmt: skip
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert done.stdout == ""  # said before the evaluation, not after it


@pytest.mark.parametrize(
    ("words", "goes_on"),
    [
        (["data", "state32", "--out", "d"], True),
        (["data", "gaussian32", "--out", "d"], True),
        (["train", "--data", "d", "--out", "o"], True),
        (["evaluate", "--data", "d"], False),
        (["figure", "motions"], False),
    ],
)
def test_interrupt_promises_to_go_on_where_that_is_so(
    words, goes_on, monkeypatch, tmp_path, capsys
):
    def stop(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(state32, "build", stop)
    monkeypatch.setattr(gaussian32, "build", stop)
    monkeypatch.setattr(training, "train", stop)
    monkeypatch.setattr(evaluation, "evaluate", stop)
    monkeypatch.setattr(motions, "motion_gallery", stop)
    with pytest.raises(SystemExit) as exit_info:
        cli.main(words)
    assert exit_info.value.code == 130
    said = capsys.readouterr().err
    assert said.startswith("newtongs: stopped")
    assert ("run the same command again" in said) == goes_on


def test_data_are_made_on_one_thread(monkeypatch, tmp_path):
    threads = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.setattr(state32, "build", lambda *_, **__: threads.append("build") or [])
    cli.main(["data", "state32", "--out", str(tmp_path)])
    assert threads == [1, "build", 2]


WRITERS = {
    "folder": (
        "animate bowling --out", "replay a.json --out", "continue a.json --out",
        "data state32 --out", "data gaussian32 --out", "data same32 --out", "data common12 --out",
        "train --data . --out", "train-context --out", "figure gaussian32 --out",
        "figure context --out", "figure first-frame --out", "generate --model newtongs --out",
        "l4gm export --same32 . --out", "reproduce --out", "ablations --out", "factory small --out",
    ),
    "file": (
        "convert bowling", "collider bowling --out", "data scene bowling --out",
        "figure motions --out", "figure main --out", "figure panels --out", "figure strip --out",
        "gallery --out", "evaluate --data . --json", "inspect bowling --thumbnail",
    ),
}  # fmt: skip
PLACES = {"proc": "/proc/newtongs", "file": "file/newtongs", "link": "link/newtongs"}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("kind", "words"), [(kind, words) for kind, all_ in WRITERS.items() for words in all_]
)
def test_where_nothing_can_be_written_is_told_before_the_work(
    kind, words, place, monkeypatch, tmp_path, capsys
):
    """Root, too, whom no permission stops: nothing can be made in /proc."""
    if place == "proc" and not os.path.isdir("/proc/self"):
        pytest.skip("needs Linux")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "a.json").write_text("{}")
    ending = ".glb" if words.startswith("c") else ".ply" if "scene" in words else ".png"
    out = PLACES[place] + ending * (kind == "file")
    monkeypatch.setattr(source, "open_source", lambda *_: pytest.fail("read the scene"))
    with pytest.raises(SystemExit) as stop:
        cli.main([*words.split(), out])
    said = capsys.readouterr().err
    assert stop.value.code == 2
    assert said.count("\n") == 1, said
    assert "newtongs: cannot " in said
    assert sorted(os.listdir(tmp_path)) == ["a.json", "file", "link"]


def test_the_check_of_a_folder_leaves_nothing_in_it(tmp_path):
    console.check_folder(tmp_path / "a" / "b")
    console.check_target(tmp_path / "c.ply")
    assert not os.listdir(tmp_path)
