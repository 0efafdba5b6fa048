"""Files of any content: what is there to read, and that no half file is ever seen."""

import os
from pathlib import Path

import pytest

from newtongs.base.errors import InputError
from newtongs.base.files import existing_file, foreign, write_atomically


def test_a_file_is_written_into_a_folder_that_is_made(tmp_path):
    path = tmp_path / "new" / "file"
    write_atomically(path, lambda f: f.write(b"content"))
    assert path.read_bytes() == b"content"
    assert path.stat().st_mode & 0o777 == 0o644
    assert os.listdir(path.parent) == ["file"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_old_file_alone(tmp_path, error):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(f):
        f.write(b"half of the n")
        raise error

    with pytest.raises((InputError, KeyboardInterrupt)):
        write_atomically(path, fail)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("sync", [False, True])
def test_bytes_are_on_the_disk_before_the_name_when_asked(tmp_path, monkeypatch, sync):
    events = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda n: (events.append(f"sync {os.fstat(n).st_size}"), fsync(n))
    )
    monkeypatch.setattr(os, "replace", lambda a, b: (events.append("rename"), replace(a, b)))
    write_atomically(tmp_path / "file", lambda f: f.write(b"content"), sync=sync)
    assert events == (["sync 7"] if sync else []) + ["rename"]


def test_errors_are_one_line(tmp_path):
    closed = tmp_path / "file"
    closed.write_text("")
    with pytest.raises(InputError, match=r"^cannot write .*/file/inner: File exists$"):
        write_atomically(closed / "inner", lambda f: None)
    with pytest.raises(InputError, match=r"^cannot write picture .*/file/inner: File exists$"):
        write_atomically(closed / "inner", lambda f: None, what="picture")
    with pytest.raises(InputError, match=r"is a folder; give a page$"):
        existing_file(tmp_path, "a page")
    with pytest.raises(InputError, match=r"^cannot read .*: No such file or directory$"):
        existing_file(tmp_path / "nothing")
    with pytest.raises(InputError, match="is not a regular file"):
        existing_file("/dev/null")
    with (
        pytest.raises(InputError, match=r"^x cannot be read as JSON: first$"),
        foreign("x", "JSON"),
    ):
        raise RuntimeError("first\nsecond")


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o002, 0o664)])
def test_files_have_the_mode_that_the_user_asked_for(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "a", lambda f: f.write(b"x"))
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("out", ["s3://bucket/films", "gs://bucket/x.ply"])
def test_an_address_is_no_place_to_write_to(tmp_path, monkeypatch, capsys, out):
    """A folder of the name s3: was made, and the films put there."""
    from newtongs.cli import main

    monkeypatch.chdir(tmp_path)
    for words in (["factory", "small"], ["animate", "sunny_park"], ["data", "scene"]):
        with pytest.raises(SystemExit) as stop:
            main([*words, "--out", out])
        assert stop.value.code == 2
        assert f"cannot write to the address {out}: expected" in capsys.readouterr().err
    with pytest.raises(InputError, match="cannot write to the address"):
        write_atomically(Path(out), lambda f: f.write(b"x"))
    assert not list(tmp_path.iterdir())


def test_a_file_of_the_kernel_is_none():
    with pytest.raises(InputError, match="is not a regular file"):
        existing_file("/proc/kmsg")
