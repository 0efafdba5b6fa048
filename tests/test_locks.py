"""One writer a folder, stale locks recognised, leftovers removed by the next run."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager

import pytest
from export_samples import park

from newtongs.base import locks
from newtongs.base.errors import InputError
from newtongs.base.files import write_atomically
from newtongs.base.locks import alone, scratch
from newtongs.exports import export
from newtongs.paper.training import TrainConfig, train

HOLD = """
import sys, time
from pathlib import Path
from newtongs.base.files import write_atomically
from newtongs.base.locks import alone, scratch
def wait(*_):
    print("ready", flush=True)
    time.sleep(60)
folder, what, name = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
if what == "lock":
    with alone(folder, name):
        wait()
elif what == "write":
    write_atomically(folder / name, wait)
else:
    with scratch() as made:
        (made / "x").write_text("x")
        print(made, flush=True)
        wait()
"""


@contextmanager
def another_process(folder, what, name="newtongs", environment=None):
    """Another process in the middle of something."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), what, name], stdout=subprocess.PIPE, text=True,
        env=os.environ | (environment or {}),
    )  # fmt: skip
    try:
        while (line := child.stdout.readline()) and line != "ready\n":
            pass
        assert line == "ready\n"
        yield child
    finally:
        child.kill()
        child.wait()


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """As in a new process: nothing was swept yet."""
    monkeypatch.setattr(locks, "_swept", set())


def test_a_second_writer_is_refused_and_a_killed_one_is_forgotten(tmp_path):
    with another_process(tmp_path, "lock") as child:
        said = (
            rf"^another process \({child.pid}\) is writing to .*; wait for it to finish, or choose"
        )
        with pytest.raises(InputError, match=said), alone(tmp_path):
            pass
        assert (tmp_path / ".newtongs.lock").exists()
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert (tmp_path / ".newtongs.lock").exists()  # left behind, and free
        with alone(tmp_path), alone(tmp_path):
            pass
    assert not list(tmp_path.iterdir())


def test_two_trainings_in_one_folder(tmp_path, small_state32):
    config = TrainConfig(data=small_state32, out=tmp_path, epochs=1)
    with another_process(tmp_path, "lock"), pytest.raises(InputError, match="is writing to"):
        train(config)
    assert not (tmp_path / "metrics.jsonl").exists()


def test_a_training_that_cannot_begin_leaves_no_folder(tmp_path):
    with pytest.raises(InputError, match="no State-32 file"):
        train(TrainConfig(data=tmp_path / "none", out=tmp_path / "a" / "b"))
    assert not list(tmp_path.iterdir())


def test_an_export_waits_for_another_of_the_same_name(tmp_path, monkeypatch):
    waited = []
    with another_process(tmp_path, "lock", "a") as child:

        def sleep(seconds):
            waited.append(seconds)
            child.kill()
            child.wait()

        monkeypatch.setattr(locks.time, "sleep", sleep)
        export(park(2), tmp_path, "json", name="b")
        assert not waited
        with pytest.warns(UserWarning, match=r"^waiting for another process \(\d+\) that writes"):
            export(park(2), tmp_path, "json", name="a")
    assert waited
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_leftovers_of_killed_writers_are_removed(tmp_path):
    (tmp_path / ".mine.part").write_text("of somebody else")
    with another_process(tmp_path, "write", "a.ply") as alive:
        with another_process(tmp_path, "write", "b.ply"):
            pass  # killed
        assert len(list(tmp_path.iterdir())) == 3
        write_atomically(tmp_path / "c", lambda f: f.write(b"c"))
        names = sorted(path.name for path in tmp_path.iterdir())
        assert names[1:] == [".mine.part", "c"]
        assert names[0].startswith(".a.ply.")
        assert alive.poll() is None


def test_scratch_folders_of_killed_processes_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    there = {"TMPDIR": str(tmp_path)}
    (tmp_path / "newtongs-studio-x").mkdir()
    with another_process(tmp_path, "scratch", environment=there):
        with another_process(tmp_path, "scratch", environment=there):
            pass  # killed
        assert len(list(tmp_path.iterdir())) == 1 + 2 * 2  # each folder has a lock beside it
        with scratch() as folder:
            assert len(list(tmp_path.iterdir())) == 1 + 2 * 2  # the living one's, and these
        assert not folder.exists()
        assert len(list(tmp_path.iterdir())) == 1 + 2


def test_on_windows_too_nothing_is_left_and_the_holder_is_named(tmp_path, monkeypatch):
    """There an open file cannot be removed, and another process cannot read a byte that is locked.

    Its own locks cannot be had here: this runs the branches that do without removing and reading.
    """
    monkeypatch.setattr(locks.sys, "platform", "win32")
    with alone(tmp_path):
        content = (tmp_path / ".newtongs.lock").read_bytes()
        assert content[1:] == f"{os.getpid()}\n".encode()
    with scratch() as folder:
        pass
    assert not folder.exists()
    assert not list(tmp_path.iterdir())


def test_a_file_system_without_locks_is_written_to_all_the_same(tmp_path, monkeypatch):
    import filelock

    def refused(*_, **__):
        raise OSError(38, "not implemented")

    monkeypatch.setattr(filelock, "lock_descriptor", refused)
    (tmp_path / ".a.ply.abcdefgh.part").write_text("perhaps being written")
    write_atomically(tmp_path / "c", lambda f: f.write(b"c"))
    with alone(tmp_path):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a.ply.abcdefgh.part", "c"]


def test_an_earlier_version_does_not_take_a_living_folder_for_a_leftover():
    """It removed any folder of this name that was not itself locked, and may still be running."""
    with scratch() as folder:
        assert not re.fullmatch(r"newtongs-scratch-\w+", folder.name)


def test_folders_that_were_made_are_taken_back(tmp_path):
    with pytest.raises(KeyboardInterrupt), alone(tmp_path / "a" / "b"):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())
    (tmp_path / "a").mkdir()
    with pytest.raises(KeyboardInterrupt), alone(tmp_path / "a" / "b"):
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_link_in_place_of_a_lock_is_not_followed(tmp_path):
    """Whoever may write into a folder could lead it to a file of ours, to be emptied."""
    precious = tmp_path / "precious"
    precious.write_text("precious")
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / ".newtongs.lock").symlink_to(precious)
    with pytest.raises(InputError, match="cannot write to"), alone(folder):
        pass
    assert precious.read_text() == "precious"
