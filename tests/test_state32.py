"""State-32 on disk: layout, seeds, manifest, resuming, damage."""

import csv
import os
import subprocess
import sys
import zipfile

import pytest
import torch

from newtongs import motions
from newtongs.base import locks
from newtongs.base.errors import InputError
from newtongs.base.state import CHANNELS
from newtongs.paper.datasets import state32
from newtongs.paper.evaluation.tables import paper


def test_dictionary_is_the_papers(small_state32):
    content = torch.load(small_state32 / "val_ood.pt", weights_only=True)
    assert list(content) == [
        "states", "state_names", "dt", "profile", "split", "motion_types", "motion_indices",
        "motion_type_names", "note",
    ]  # fmt: skip
    assert content["states"].shape == (1280, 64, 22)
    assert content["states"].dtype == torch.float32
    assert content["state_names"] == list(CHANNELS)
    assert content["dt"] == 1 / 24
    assert (content["profile"], content["split"]) == ("hard", "val_ood")
    assert content["motion_type_names"] == list(motions.STATE32)
    names = [motions.STATE32[i] for i in content["motion_indices"].tolist()]
    assert content["motion_types"] == names
    assert torch.equal(content["motion_indices"].bincount(), torch.full((32,), 40))


def test_sequences_stand_shard_by_shard_with_the_papers_seeds(small_state32):
    """Forty a motion over 32 shards: the first eight hold two of each motion, the rest one."""
    data = state32.load(small_state32, "val_id")
    free_fall = motions.get("free_fall").index
    shard, n = 3, 2
    start = 3 * 2 * 32 + free_fall * n
    expected = motions.generate("free_fall", n, seed=7301 + 3000 + 10_000, stream=2).states
    torch.testing.assert_close(data.states[start : start + n], expected, rtol=1e-6, atol=1e-6)
    seeds = [state32.shard_seed(state32.SPLITS[s], shard) for s in ("train", "val_id", "val_ood")]
    assert seeds == [10301, 20301, 30301]


def test_order_fits_the_sample_identifiers_of_the_papers_figures():
    index = state32.SplitPlan("val_id", 4096).motion_indices()
    for name, sample in paper()["figure_samples"].items():
        assert motions.STATE32[index[sample["global_id"]]] == name


def test_splits_are_disjoint_although_their_seeds_overlap(small_state32):
    overlap = {7301 + 1000 * i for i in range(32)} & {17301 + 1000 * i for i in range(32)}
    assert overlap
    first = {
        name: {row.numpy().tobytes() for row in state32.load(small_state32, name).states[:, 0, :3]}
        for name in state32.SPLITS
    }
    train, val_id, val_ood = first.values()
    assert not train & val_id
    assert not train & val_ood
    assert not val_id & val_ood


def test_full_size_plan():
    plans = [state32.SplitPlan(s.name, s.per_motion) for s in state32.SPLITS.values()]
    assert [p.sequences for p in plans] == [1_048_576, 131_072, 131_072]
    assert [set(p.shard_sizes) for p in plans] == [{1024}, {128}, {128}]


def test_manifest(small_state32):
    with (small_state32 / "manifest_train.csv").open() as f:
        rows = list(csv.DictReader(f))
    data = state32.load(small_state32, "train")
    assert len(rows) == len(data) == len({r["sample_id"] for r in rows}) == 1280
    assert tuple(rows[0]) == state32.MANIFEST_COLUMNS
    assert [int(r["motion_index"]) for r in rows] == data.motion_indices.tolist()
    assert [r["sample_id"] for r in rows] == [f"state32_train_{i:07d}" for i in range(1280)]
    assert {r["source_shard"] for r in rows} == {str(i) for i in range(32)}
    for r in rows:
        family = motions.get(r["motion_type"])
        assert (int(r["motion_index"]), r["motion_category"]) == (family.index, family.category)
        assert (r["num_steps"], float(r["dt"]), r["split"]) == ("64", 1 / 24, "train")
    landing = next(i for i, r in enumerate(rows) if r["motion_type"] == "free_fall")
    resting = (data.states[landing, :, 8] == 0)[1:].sum()  # v_y is zero only after landing
    assert int(rows[landing]["collision_events"]) == resting > 0


@pytest.mark.slow
def test_states_are_memory_mapped(small_state32):
    """Opening a split reads none of the states: resident memory stays put until they are used."""
    script = (
        "import os, sys, torch\n"
        "from newtongs.paper.datasets import state32\n"
        "page = os.sysconf('SC_PAGESIZE')\n"
        "rss = lambda: int(open('/proc/self/statm').read().split()[1]) * page\n"
        "small = state32.load(sys.argv[1], 'val_id').states[:1].sum()\n"  # warm up
        "before = rss(); data = state32.load(sys.argv[1], 'train'); opened = rss()\n"
        "data.states.sum(); used = rss()\n"
        "print(opened - before, used - opened, data.states.nbytes)\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", script, str(small_state32)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    opening, using, size = map(int, out.split())
    assert opening < 0.2 * size
    assert using > 0.7 * size


def test_fewer_sequences_than_shards(tmp_path):
    state32.build(tmp_path, splits=["val_id"], per_motion=3)
    assert len(state32.load(tmp_path, "val_id")) == 96


def test_a_finished_split_is_kept_and_another_size_refused(tmp_path):
    (path,) = state32.build(tmp_path, splits=["val_id"], per_motion=2)
    stamp = path.stat().st_mtime_ns
    state32.build(tmp_path, splits=["val_id"], per_motion=2)
    assert path.stat().st_mtime_ns == stamp
    with pytest.raises(InputError, match="has 64 sequences, 96 were requested"):
        state32.build(tmp_path, splits=["val_id"], per_motion=3)
    state32.build(tmp_path, splits=["val_id"], per_motion=3, overwrite=True)
    assert len(state32.load(path)) == 96


@pytest.mark.parametrize("change", [{"dt": 1 / 30}, {"note": "by hand"}, {"split": "val_ood"}])
def test_a_split_made_otherwise_is_refused(tmp_path, change):
    (path,) = state32.build(tmp_path, splits=["val_id"], per_motion=2)
    torch.save({**torch.load(path, weights_only=True), **change}, path)
    with pytest.raises(InputError, match=r"made with other settings.*overwrite"):
        state32.build(tmp_path, splits=["val_id"], per_motion=2)


def test_a_split_of_other_frames_is_refused(tmp_path):
    (path,) = state32.build(tmp_path, splits=["val_id"], per_motion=2)
    content = torch.load(path, weights_only=True)
    torch.save({**content, "states": content["states"][:, :32].clone()}, path)
    with pytest.raises(InputError, match="made with other settings"):
        state32.build(tmp_path, splits=["val_id"], per_motion=2)


def test_a_split_without_its_manifest_is_made_anew(tmp_path):
    (path,) = state32.build(tmp_path, splits=["val_id"], per_motion=2)
    manifest, data = tmp_path / "manifest_val_id.csv", path.read_bytes()
    rows = manifest.read_bytes()
    manifest.unlink()
    state32.build(tmp_path, splits=["val_id"], per_motion=2)
    assert manifest.read_bytes() == rows
    assert path.read_bytes() == data


def test_a_damaged_split_is_refused_and_can_be_overwritten(tmp_path):
    (path,) = state32.build(tmp_path, splits=["val_id"], per_motion=2)
    whole = path.read_bytes()
    path.write_bytes(whole[:1000])
    with pytest.raises(InputError, match="--splits val_id --overwrite"):
        state32.build(tmp_path, splits=["val_id"], per_motion=2)
    state32.build(tmp_path, splits=["val_id"], per_motion=2, overwrite=True)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("name", ["val_ood.pt", "manifest_val_ood.csv"])
def test_a_folder_in_the_place_of_a_file_is_seen_before_any_work(tmp_path, name):
    (tmp_path / name).mkdir()
    for overwrite in (False, True):
        with pytest.raises(InputError, match=f"{name}: it is a folder"):
            state32.build(tmp_path, per_motion=1, overwrite=overwrite)
    assert os.listdir(tmp_path) == [name]


class StopError(Exception):
    pass


def test_an_interrupted_build_resumes_to_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(state32, "BLOCK", 8)  # several groups of shards
    (whole,) = state32.build(tmp_path / "whole", splits=["val_id"], per_motion=64)

    def stop_at(limit):
        def progress(_split, done, total):
            if done >= limit * total:
                raise StopError

        return progress

    made = []
    for limit in (0.3, 0.6):
        with pytest.raises(StopError):
            state32.build(
                tmp_path / "parts", splits=["val_id"], per_motion=64, progress=stop_at(limit)
            )
        assert not (tmp_path / "parts" / "val_id.pt").exists()
    (path,) = state32.build(
        tmp_path / "parts", splits=["val_id"], per_motion=64,
        progress=lambda _s, done, _t: made.append(done),
    )  # fmt: skip
    assert made[0] > 0.6 * 2048  # it did not start over
    a, b = state32.load(whole), state32.load(path)
    assert torch.equal(a.states, b.states)
    assert whole.read_bytes() == path.read_bytes()
    manifests = [f.with_name("manifest_val_id.csv").read_bytes() for f in (whole, path)]
    assert manifests[0] == manifests[1]
    assert sorted(os.listdir(path.parent)) == ["manifest_val_id.csv", "val_id.pt"]


def interrupted(folder):
    """A build stopped half way; returns its hidden parts: data, manifest, progress."""

    def progress(_split, done, total):
        if done >= total / 2:
            raise StopError

    with pytest.raises(StopError):
        state32.build(folder, splits=["val_id"], per_motion=64, progress=progress)
    parts = [folder / f".{n}" for n in ("val_id.states.part", "manifest_val_id.csv.part")]
    return *parts, folder / ".val_id.progress.json"


def shorten(path):
    os.truncate(path, path.stat().st_size - 100)


@pytest.mark.parametrize("damage", ["manifest", "no manifest", "data", "zeros", "progress"])
def test_a_build_whose_parts_are_not_whole_starts_over(tmp_path, monkeypatch, damage):
    monkeypatch.setattr(state32, "BLOCK", 8)
    (whole,) = state32.build(tmp_path / "whole", splits=["val_id"], per_motion=64)
    data, manifest, progress = interrupted(tmp_path / "parts")
    size = data.stat().st_size
    {
        "manifest": lambda: shorten(manifest),
        "no manifest": manifest.unlink,
        "data": lambda: shorten(data),
        "zeros": lambda: data.write_bytes(bytes(size)),
        "progress": lambda: progress.write_text('{"plan": [], "at": [1]}'),
    }[damage]()
    made = []
    (path,) = state32.build(
        tmp_path / "parts", splits=["val_id"], per_motion=64,
        progress=lambda _s, done, _t: made.append(done),
    )  # fmt: skip
    assert made[0] < 2048 / 4
    for name in ("val_id.pt", "manifest_val_id.csv"):
        assert path.with_name(name).read_bytes() == whole.with_name(name).read_bytes()


def test_an_old_record_does_not_speak_for_new_parts(tmp_path, monkeypatch):
    """Killed while starting over, a build must not go on from the record of the one before."""
    monkeypatch.setattr(state32, "BLOCK", 8)
    data, manifest, progress = interrupted(tmp_path)
    shorten(data)

    def stop(*_, **__):
        raise StopError

    monkeypatch.setattr(state32._Files, "record", stop)
    with pytest.raises(StopError):
        state32.build(tmp_path, splits=["val_id"], per_motion=64)
    assert data.stat().st_size == 0
    assert manifest.exists()
    assert not progress.exists()


def test_what_is_behind_the_recorded_shards_is_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(state32, "BLOCK", 8)
    (whole,) = state32.build(tmp_path / "whole", splits=["val_id"], per_motion=64)
    data, manifest, _ = interrupted(tmp_path / "parts")
    with data.open("ab") as f:
        f.write(b"states of a shard that was not recorded")
    with manifest.open("a") as f:
        f.write("rows that were written, but not recorded\n")
    (path,) = state32.build(tmp_path / "parts", splits=["val_id"], per_motion=64)
    for name in ("val_id.pt", "manifest_val_id.csv"):
        assert path.with_name(name).read_bytes() == whole.with_name(name).read_bytes()


def test_everything_is_on_the_disk_before_it_is_recorded(tmp_path, monkeypatch):
    """The order of syncs and of the rename that records: data, manifest, record."""
    events = []
    fsync, replace = os.fsync, type(tmp_path).replace

    def note_sync(descriptor):
        events.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def note_rename(path, target):
        events.append(f"-> {target.name}")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(type(tmp_path), "replace", note_rename)
    state32.build(tmp_path, splits=["val_id"], per_motion=2)
    record = events.index("-> .val_id.progress.json")
    again = events.index("-> .val_id.progress.json", record + 1)
    assert events[record + 1 : again] == [
        ".val_id.states.part", ".manifest_val_id.csv.part", ".val_id.progress.json.part"
    ]  # fmt: skip


@pytest.mark.slow
def test_kill_leaves_a_build_that_resumes(tmp_path):
    """SIGKILL in the middle of a real process."""
    script = (
        "import os, signal, sys\n"
        "from newtongs.paper.datasets import state32\n"
        "state32.BLOCK = 8\n"
        "def progress(s, done, total):\n"
        "    if done > total // 2: os.kill(os.getpid(), signal.SIGKILL)\n"
        "state32.build(sys.argv[1], splits=['val_id'], per_motion=64, progress=progress)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert done.returncode == -9
    assert not (tmp_path / "val_id.pt").exists()
    state32.build(tmp_path, splits=["val_id"], per_motion=64)
    expected = motions.generate("scale_pulse", 2, seed=7301 + 31_000 + 10_000, stream=2).states
    torch.testing.assert_close(
        state32.load(tmp_path, "val_id").states[-2:], expected, rtol=1e-6, atol=1e-6
    )
    assert sorted(os.listdir(tmp_path)) == ["manifest_val_id.csv", "val_id.pt"]


def test_a_second_build_in_the_same_folder_is_refused(tmp_path):
    """In a process of its own, while the first is under way; nothing of the first is disturbed."""
    words = ["-m", "newtongs", "data", "state32", "--per-motion", "2", "--out", str(tmp_path)]
    second = []

    def progress(_split, _done, _total):
        second.append(
            subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
        )

    state32.build(tmp_path, splits=["val_id"], per_motion=2, progress=progress)
    assert second[0].returncode == 2
    assert second[0].stderr.count("\n") == 1
    assert f"is writing to {tmp_path}" in second[0].stderr
    assert sorted(os.listdir(tmp_path)) == ["manifest_val_id.csv", "val_id.pt"]


def test_a_lock_on_a_removed_file_does_not_count(tmp_path):
    path = tmp_path / "lock"
    with path.open("w") as late:
        path.unlink()  # by who held it
        assert not locks.take_lock(late.fileno(), path)
        with path.open("w") as other:
            assert not locks.take_lock(late.fileno(), path)
            assert locks.take_lock(other.fileno(), path)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["at once", "after the first shards"])
def test_a_write_that_fails_leaves_nothing(tmp_path, when):
    """The limit on a process's file size stands in for a disk that fills up while writing."""
    script = (
        "import resource, sys\n"
        "from newtongs import cli\n"
        "from newtongs.paper.datasets import state32\n"
        "state32.BLOCK = 8\n"
        "def full(*_):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))\n"
        "if sys.argv[2] == 'at once': full()\n"
        "build = state32.build\n"
        "state32.build = lambda *a, **k: build(*a, **{**k, 'progress': full})\n"
        "cli.main(['data', 'state32', '--out', sys.argv[1], '--per-motion', '64'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), when],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "cannot write" in done.stderr
    assert "needs 0.02 GB free" in done.stderr
    assert "Traceback" not in done.stderr
    assert os.listdir(tmp_path) == []


def test_not_enough_space_is_seen_before_anything_is_written(tmp_path, monkeypatch):
    usage = type("usage", (), {"free": 1_000_000})
    monkeypatch.setattr(state32.shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(InputError, match=r"0\.02 GB needed while it is made, 0\.00 GB free"):
        state32.build(tmp_path, splits=["val_id"], per_motion=64)
    assert os.listdir(tmp_path) == []


def test_a_build_without_the_space_takes_its_folder_back(tmp_path, monkeypatch):
    usage = type("usage", (), {"free": 1_000_000})
    monkeypatch.setattr(state32.shutil, "disk_usage", lambda _path: usage)
    (tmp_path / "kept").mkdir()
    for folder in ("a/b", "kept", "kept/c"):
        with pytest.raises(InputError, match="not enough space"):
            state32.build(tmp_path / folder, splits=["val_id"], per_motion=64)
    assert [str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")] == ["kept"]


def test_missing_and_damaged_files(small_state32, tmp_path):
    with pytest.raises(InputError, match="make it with: newtongs data state32 --out"):
        state32.load(tmp_path, "val_id")
    whole = (small_state32 / "val_id.pt").read_bytes()
    for size in (0, 100, len(whole) // 2, len(whole) - 1):
        (tmp_path / "val_id.pt").write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"damaged or truncated.*--splits val_id --overwrite"):
            state32.load(tmp_path, "val_id")


def test_a_file_where_a_folder_is_expected(small_state32):
    file = small_state32 / "val_id.pt"
    with pytest.raises(InputError, match=f"got the file {file}; name its folder: {small_state32}"):
        state32.load(file, "val_id")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"states": [[0.0]]}, "expected float32 states .*, got list"),
        ({"states": torch.zeros(2, 3, 22)}, r"T >= 4, 22\), got torch.float32 \(2, 3, 22\)"),
        ({"states": torch.zeros(2, 64, 22).double()}, "got torch.float64"),
        (
            {"states": torch.zeros(0, 64, 22), "motion_indices": torch.zeros(0).long()},
            "0 motion in",
        ),
        ({"motion_indices": [0, 1]}, "expected 2 motion indices from 0 to 31, got list"),
        ({"motion_indices": torch.zeros(2)}, "got torch.float32"),
        ({"motion_indices": torch.zeros(3).long()}, r"got torch.int64 \(3,\)"),
        ({"motion_indices": torch.tensor([0, -1])}, "from 0 to 31"),
        ({"motion_indices": torch.tensor([0, 32])}, "from 0 to 31"),
        ({"motion_type_names": [1, 2]}, "expected a list of motion names"),
        ({"motion_type_names": "free_fall"}, "expected a list of motion names"),
        ({"motion_type_names": 3}, "expected a list of motion names"),
        ({"dt": "1/24"}, "expected a positive number of seconds dt, got '1/24'"),
        ({"dt": 0.0}, "got 0.0"),
        ({"dt": -1}, "got -1"),
        ({"dt": float("nan")}, "got nan"),
        ({"dt": float("inf")}, "got inf"),
        ({"dt": torch.ones(2)}, "positive number of seconds dt"),
    ],
)
def test_files_with_wrong_content(tmp_path, change, message):
    content = {
        "states": torch.zeros(2, 64, 22), "motion_indices": torch.zeros(2).int(), "dt": 1 / 24,
        "motion_type_names": list(motions.STATE32), "split": "val_id",
    }  # fmt: skip
    torch.save(content, tmp_path / "val_id.pt")
    assert state32.load(tmp_path, "val_id").motion_indices.dtype == torch.int64
    torch.save({**content, **change}, tmp_path / "val_id.pt")
    with pytest.raises(InputError, match=message) as error:
        state32.load(tmp_path, "val_id")
    assert "\n" not in str(error.value)


def test_files_of_another_kind(tmp_path):
    path = tmp_path / "val_id.pt"
    torch.save({"weights": torch.zeros(3)}, path)
    with pytest.raises(InputError, match="not a State-32 file"):
        state32.load(path)
    torch.save([1, 2], path)
    with pytest.raises(InputError, match="not a State-32 file"):
        state32.load(path)
    names = list(motions.STATE32)
    content = {"motion_indices": torch.zeros(2).long(), "motion_type_names": names, "dt": 1 / 24}
    torch.save({**content, "split": "val_id", "states": torch.zeros(2, 64, 21)}, path)
    with pytest.raises(InputError, match=r"expected float32 states \(N, T >= 4, 22\)"):
        state32.load(path)


class Payload:
    def __reduce__(self):
        return os.system, ("echo unpickled",)


def test_nothing_is_unpickled(tmp_path, capfd):
    path = tmp_path / "val_id.pt"
    torch.save({"states": Payload()}, path)
    with pytest.raises(InputError):
        state32.load(path)
    assert "unpickled" not in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"splits": ["test"]}, "unknown split 'test'"),
        ({"splits": []}, "no split given"),
        ({"per_motion": 0}, "at least 1"),
        ({"per_motion": 1, "device": "meta"}, "device 'meta' is not available"),
    ],
)
def test_bad_arguments(tmp_path, arguments, message):
    with pytest.raises(InputError, match=message):
        state32.build(tmp_path / "new", **arguments)
    assert os.listdir(tmp_path) == []


def test_a_file_in_the_way_of_the_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot make folder"):
        state32.build(tmp_path / "file", per_motion=1)


def test_states_damaged_on_the_disk_are_made_again(tmp_path, monkeypatch):
    """One bit of a recorded shard: the checksum tells, and the result is whole."""
    monkeypatch.setattr(state32, "BLOCK", 8)
    (whole,) = state32.build(tmp_path / "whole", splits=["val_id"], per_motion=64)
    data, _, _ = interrupted(tmp_path / "parts")
    content = bytearray(data.read_bytes())
    content[1000] ^= 1
    data.write_bytes(content)
    (path,) = state32.build(tmp_path / "parts", splits=["val_id"], per_motion=64)
    assert path.read_bytes() == whole.read_bytes()


def test_archive_holds_what_torch_writes(small_state32):
    with zipfile.ZipFile(small_state32 / "train.pt") as archive:
        assert any(name.endswith("data.pkl") for name in archive.namelist())


def test_checksums_are_right(small_state32, tmp_path, monkeypatch):
    """In one go and over several groups of shards; in the directory and behind the data."""
    monkeypatch.setattr(state32, "BLOCK", 8)
    (path,) = state32.build(tmp_path, splits=["val_id"], per_motion=64)
    for file in (path, small_state32 / "train.pt"):
        with zipfile.ZipFile(file) as archive:
            assert archive.testzip() is None
            infos = archive.infolist()
        content = file.read_bytes()
        for info in infos:
            descriptor = b"PK\7\10" + info.CRC.to_bytes(4, "little")
            assert content.count(descriptor + info.file_size.to_bytes(4, "little")) == 1
