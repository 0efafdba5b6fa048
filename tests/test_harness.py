"""A slice of the fuzz and kill harnesses, and the corpus of what they and others found."""

import json
import os
import tempfile
from pathlib import Path

import pytest
from harness import fuzz, kill
from harness.readers import READERS

SLICE = 12  # files of a kind
CORPUS = Path(__file__).parent / "harness" / "corpus"


class Unwatched:
    """The audit hook would stay in the process of all tests; the harness has its own."""

    seen = ()

    def over(self, folder):
        from contextlib import nullcontext

        return nullcontext()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", READERS)
def test_a_slice_of_the_damaged_files(tmp_path, kind, capsys):
    tally = fuzz.batch(kind, 10**6, SLICE, tmp_path, lambda index: None, Unwatched())
    assert not tally.failed, tally.failed[0]
    assert tally.files == SLICE == tally.read + tally.refused
    assert tally.refused or kind == "state32-progress", "the damage should be noticed"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda p: p.name)
def test_what_was_found_once_stays_closed(tmp_path, path, capsys):
    """A file of the corpus is named KIND__what-it-did, and @FILE where it is not the first one."""
    kind, _, what = path.name.partition("__")
    reader = READERS[kind]
    first, *_ = reader.write(tmp_path)
    target = first.with_name(what.partition("@")[2] or first.name)
    target.write_bytes(path.read_bytes())
    before = fuzz.peak_memory(restart=True)
    fuzz.one_file(reader, tmp_path)
    assert fuzz.peak_memory() - before < fuzz.MEMORY


def test_temporary_files_go_where_they_did_before(tmp_path):
    before = os.environ.get("TMPDIR"), tempfile.gettempdir()
    with fuzz.temporary_files_in(str(tmp_path)):
        assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(tmp_path)
    assert (os.environ.get("TMPDIR"), tempfile.gettempdir()) == before


def test_files_are_the_same_in_every_run(tmp_path):
    reader = READERS["ply"]
    paths = reader.write(tmp_path)
    once, again = (fuzz.damaged("ply", 7, reader, paths) for _ in range(2))
    assert once == again
    assert once != fuzz.damaged("ply", 8, reader, paths)


def test_every_command_that_writes_is_killed():
    """All but those that take long or need what is not here; they are made of the same parts."""
    from newtongs.cli.apps import App, app

    known = set()
    for name, member in app.members.items():
        known |= (
            {f"{name} {inner}" for inner in member.members} if isinstance(member, App) else {name}
        )
    killed = {
        " ".join(w for w in words[:2] if w in " ".join(known)) for words in kill.COMMANDS.values()
    }
    left_out = {
        "studio", "mcp", "inspect", "evaluate",  # write nothing, or one report at the end
        "reproduce", "ablations", "generate", "l4gm export",  # hours, or models of others
        "figure context",  # minutes
        "figure gaussian32", "figure main", "figure panels", "figure strip", "figure first-frame",
        "data same32",
    }  # fmt: skip
    assert {k.split(" sunny")[0].split(" SHARED")[0] for k in killed} | left_out >= known


@pytest.mark.long
def test_a_slice_of_the_kills(tmp_path):
    said = []
    with pytest.raises(SystemExit) as stopped:
        kill.walk(3, ["scene", "common12", "convert-spz"], tmp_path / "w", said.append)
    assert stopped.value.code == 0, said
    record = json.loads(next((tmp_path / "w").glob("progress_*.json")).read_text())
    assert record["kills"] == 3
