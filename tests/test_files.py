"""Files of any content: what is there to read, and that no half file is ever seen."""

import os

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
