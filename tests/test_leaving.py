"""Ctrl-C at any moment: code 130 and one line, also while Python is closing; and full disks."""

import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from export_samples import park
from small_disks import files_up_to

from newtongs.base.errors import InputError
from newtongs.cli import main
from newtongs.exports.usd import write_usd
from newtongs.paper.datasets import gaussian32
from newtongs.paper.training import TrainConfig, train
from newtongs.render import write_video

READY = "import sys, newtongs.__main__ as m; print('ready', flush=True); "


def interrupted(code, words, after, *, signals=1, wait_for="ready\n"):
    """Code and what was said of a process that got SIGINT some seconds after it was ready."""
    child = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while child.stdout.readline() != wait_for:
        assert child.poll() is None, child.stderr.read()
    time.sleep(after)
    for _ in range(signals):
        child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    return child.returncode, said


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 0.01, 0.05, 0.2, 0.5, 1, 1.5, 2, 2.5, 3])
@pytest.mark.parametrize("signals", [1, 2])
def test_a_command_is_left_with_one_line(tmp_path, after, signals):
    words = ["animate", "sunny_park", "--out", tmp_path / "o", "--seconds", "1", "--formats", "png"]
    code, said = interrupted(READY + "m.main()", words, after, signals=signals)
    finished = (0, "") if after >= 1 else None  # nothing is drawn before torch is loaded
    assert (code, said) in ((130, "newtongs: stopped\n"), finished), said
    assert not list(tmp_path.rglob(".*.part")) or signals == 2


def test_left_while_python_is_closing(tmp_path):
    sleep = (
        "import atexit, time; atexit.register(lambda: (print('end', flush=True), time.sleep(9)))"
    )
    code, said = interrupted(f"{sleep}; {READY} m.main()", ["--version"], 0.05, wait_for="end\n")
    assert (code, said) == (130, "newtongs: stopped\n")


def test_an_interrupt_while_a_library_is_loaded(tmp_path):
    """Numpy half there recurses for ever, torch half there aborts; the kill harness met both."""
    loading = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nfor _ in range(1000): pass\n"
    (tmp_path / "slow_library.py").write_text(loading)
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from newtongs.base.process import interruptible
with interruptible():
    try:
        import slow_library
    except BaseException:
        print("half there")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "newtongs: stopped\n")


def test_a_thread_whose_start_was_interrupted_is_not_waited_for():
    code = f"{READY} import threading; t = threading.Thread(); threading._limbo[t] = t; m.main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--version"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interrupt_in_a_destructor_is_not_lost():
    code = """
import os, signal, sys
from newtongs.base.process import interruptible
class Thing:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000): pass
with interruptible():
    Thing()
    print("on")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "newtongs: stopped\n")


def test_codes_and_output_are_those_of_the_command(tmp_path):
    def run(*words):
        return subprocess.run(
            [sys.executable, "-m", "newtongs", *words], capture_output=True, text=True, check=False
        )

    assert run("--version").stdout.startswith("newtongs ")
    assert run("inspect", str(tmp_path / "none.ply")).returncode == 2
    reading, writing = os.pipe()
    os.close(reading)  # whoever read has gone
    closed = subprocess.run(
        [sys.executable, "-m", "newtongs", "--help"], stdout=writing, stderr=subprocess.PIPE,
        check=False,
    )  # fmt: skip
    os.close(writing)
    assert (closed.returncode, closed.stderr) == (1, b"")


def test_a_collider_of_a_whole_scene(tmp_path):
    """It ended with a traceback; the kill harness met it."""
    main(["collider", "sunny_park", "--out", str(tmp_path / "a.glb")])
    assert {path.name for path in tmp_path.iterdir()} == {"a.glb", "a.png"}


# --- a full disk ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_full_disk_in_training_is_one_line_and_what_was_finished_stays(
    tmp_path, small_state32, capsys
):
    words = ["train", "--data", str(small_state32), "--out", str(tmp_path), "--preset", "laptop"]
    first = TrainConfig(data=small_state32, out=tmp_path, epochs=1)
    train(first)
    best = (tmp_path / "best.safetensors").read_bytes()
    lines = (tmp_path / "metrics.jsonl").read_text()
    with files_up_to(1000), pytest.raises(InputError, match="File too large"):
        train(TrainConfig(data=small_state32, out=tmp_path / "other", epochs=1))
    with pytest.raises(SystemExit) as stopped, files_up_to(len(lines) + 10):
        main([*words[:-2], "--epochs", "1", "--out", str(tmp_path / "third")])
    assert stopped.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert (tmp_path / "best.safetensors").read_bytes() == best
    assert (tmp_path / "metrics.jsonl").read_text() == lines


def test_a_full_disk_while_metrics_are_written(tmp_path):
    from newtongs.base.runs import RunFolder

    folder = RunFolder(tmp_path)
    folder.append_metrics({"epoch": 1})
    with files_up_to(20), pytest.raises(InputError, match=r"cannot write .*metrics.jsonl"):
        folder.append_metrics({"epoch": 2, "text": "x" * 100})
    folder.cut_metrics("epoch", 1)
    assert folder.metrics.read_text() == '{"epoch": 1}\n'


def test_a_full_disk_in_gaussian32(tmp_path):
    with files_up_to(1 << 20), pytest.raises(InputError, match=r"cannot write .*\.pt: the disk is"):
        gaussian32.build(tmp_path, render=None, templates=["sunny_park"], motions=["free_fall"])
    assert [path.name for path in tmp_path.rglob("*")] == ["samples"]


@pytest.mark.parametrize("ending", ["usdc", "usda", "usdz"])
def test_a_full_disk_in_usd(tmp_path, ending):
    pytest.importorskip("pxr")
    with files_up_to(10_000), pytest.raises(InputError, match="is the disk full"):
        write_usd(park(2), tmp_path / f"a.{ending}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("size", [100, 3000, 20_000, 60_000])
def test_a_full_disk_in_a_film(tmp_path, size):
    pytest.importorskip("imageio_ffmpeg")
    frames = torch.rand(12, 128, 128, 3)
    with files_up_to(size), pytest.raises(InputError, match=r"^[^\n]+$"):
        write_video(tmp_path / "a.mp4", frames)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_anywhere_else_is_one_line(tmp_path, capsys, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device", "/x")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(SystemExit) as stopped:
        main(["data", "scene", "sunny_park", "--out", str(tmp_path / "a.ply")])
    assert stopped.value.code == 2
    monkeypatch.setattr("newtongs.base.files.write_atomically", full)
    monkeypatch.setattr("newtongs.formats.splat_ply.write_atomically", full)
    with pytest.raises(SystemExit) as stopped:
        main(["data", "scene", "sunny_park", "--out", str(tmp_path / "a.ply")])
    assert stopped.value.code == 2
    said = capsys.readouterr().err.splitlines()
    assert said[1] == (
        "newtongs: cannot read or write /x: No space left on device; finished files are kept"
    )
    assert not list(tmp_path.iterdir())
