"""The film factory: specs, draws, shards that are the same bytes, what goes wrong."""

import errno
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import fields, is_dataclass, replace

import numpy as np
import psutil
import pytest
import torch
from small_disks import files_up_to

from newtongs.base import locks
from newtongs.base.errors import InputError
from newtongs.base.state import State
from newtongs.factory import casts, shared
from newtongs.factory import pool as pools
from newtongs.factory import shards as shard_files
from newtongs.factory.caption import caption, one_each
from newtongs.factory.casts import prepare_casts
from newtongs.factory.cluster import check_address, no_warnings
from newtongs.factory.draws import draw, pushes_of
from newtongs.factory.film import make_film
from newtongs.factory.run import by_reason, check_same_spec, check_space, produce
from newtongs.factory.sample import Clock, Refused, ViewQuality, frames_large, make_sample
from newtongs.factory.scenes import (
    SceneSource,
    divided,
    find_scenes,
    set_digest,
    splits_of_shards,
    whole_parts,
)
from newtongs.factory.shards import entry, is_done, make_shard, shards_of
from newtongs.factory.spec import Numbers, Objects, Spec, described, load_spec, shipped
from newtongs.pipeline.source import floor_of, open_source

TINY = """
name = "tiny"
scenes = ["playroom_floor", "desk_blue_sphere"]
count = 4
films_a_shard = 2
frames = 5
size = [48, 48]
[cameras]
count = 2
paths = ["still", "orbit"]
[dynamics]
kinds = ["world", "paper", "motions"]
"""


def spec_of(folder, text=TINY, **changes):
    path = folder / "spec.toml"
    path.write_text(text)
    return load_spec(path, **changes)


def digests(folder):
    names = [*folder.glob("*.tar"), *folder.glob("parts/*"), folder / "index.parquet"]
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in names}


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    """A data set made by one process."""
    folder = tmp_path_factory.mktemp("films")
    spec, home = spec_of(folder)
    outcome = produce(spec, home, folder / "one", workers=1)
    return spec, home, folder / "one", outcome


# --- processes ------------------------------------------------------------------------------------


def same(a, b):
    """Whether two trees of dataclasses are equal, arrays bit for bit and in the same order."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor | np.ndarray):
        x, y = (np.asarray(t) for t in (a, b))
        order = isinstance(a, torch.Tensor) or x.flags.c_contiguous == y.flags.c_contiguous
        return order and (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes())
    if is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    if isinstance(a, dict):
        return [*a] == [*b] and all(same(a[k], b[k]) for k in a)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    if type(a).__module__.startswith("newtongs"):  # a plain class, such as the paper's floor
        return same(vars(a), vars(b))
    return a == b


@pytest.mark.slow
def test_a_prepared_scene_comes_back_from_its_files(tmp_path):
    spec, _ = spec_of(tmp_path, TINY + "[objects]\ncasts = 1")
    prepared = prepare_casts(spec, SceneSource("desk_blue_sphere", "desk_blue_sphere", "train"))
    shared.save(tmp_path / "a.json", shared.pack(prepared))
    found = shared.load(tmp_path / "a.json")
    assert same(prepared, found)
    found.casts["world"][0].setup.layout.scene.means[0] = 7  # a copy of the page, not the file
    assert same(prepared, shared.load(tmp_path / "a.json"))
    shared.save(tmp_path / "why.json", shared.pack("no object was found in it"))
    assert shared.load(tmp_path / "why.json") == "no object was found in it"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("object", ["pathlib", "Path"]),
        ("enum", ["os", "system"]),
        ("object", ["newtongs.base.files", "write_atomically"]),
        ("named tuple", ["newtongs.base.locks", "Path"]),
    ],
)
def test_a_prepared_scene_names_nothing_but_its_own_classes(kind, name):
    with pytest.raises(TypeError):
        shared.unpack(json.dumps({"root": [0], "nodes": [[kind, name, {}]]}), [])


@pytest.mark.slow
def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path, monkeypatch):
    """Its shards go on where they were, too."""
    spec, home = spec_of(tmp_path)
    there = tmp_path / "tmp"
    there.mkdir()
    words = ["-m", "newtongs", "factory", str(tmp_path / "spec.toml"), "--out", str(tmp_path / "o")]
    run = subprocess.Popen([sys.executable, *words], env=os.environ | {"TMPDIR": str(there)})
    try:
        until = time.monotonic() + 120
        while not (list(there.glob("*/*.json")) or run.poll() is not None):
            assert time.monotonic() < until
            time.sleep(0.05)
        assert run.poll() is None, "it ended before it could be killed"
        workers = [
            p for p in psutil.Process(run.pid).children() if "spawn_main" in " ".join(p.cmdline())
        ]
        assert len(workers) == 1
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
    left = list(there.iterdir())
    assert len(left) >= 2  # the folder of prepared scenes, and its lock
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive, "a worker has outlived its parent"
    monkeypatch.setattr(tempfile, "tempdir", str(there))
    monkeypatch.setattr(locks, "_swept", set())
    produce(spec, home, tmp_path / "o")
    assert not list(there.iterdir())
    assert not list((tmp_path / "o").glob(".*.part"))


# --- specs ----------------------------------------------------------------------------------------


def test_shipped_specs_can_be_read():
    assert shipped() == ["motions32", "small", "throw_and_hit"]
    for name in shipped():
        spec, folder = load_spec(name)
        assert len(find_scenes(spec, folder)) >= 2


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('name = "a"\nscenes = ["bowling"]\n[pushes]\nsped = 2', "'sped'; did you mean speed"),
        ('name = "a"\nscens = ["bowling"]', "'scens'; did you mean scenes"),
        ('name = "a"', "'scenes' is missing"),
        ('name = "a"\nscenes = ["bowling"]\ncount = "many"', "expected a whole number"),
        ('name = "a"\nscenes = ["bowling"]\ncount = 0', "count: expected 1 to"),
        ('name = "a"\nscenes = ["bowling"]\ngloss = 1', "gloss: expected true or false, got 1"),
        ('name = "a"\nscenes = ["bowling"]\ngloss = "no"', "expected true or false, got 'no'"),
        ('name = "a"\nscenes = "bowling"', "scenes: expected a list"),
        ('name = "a"\nscenes = ["bowling"]\nsize = [255, 256]', "even numbers"),
        ('name = "a"\nscenes = ["bowling"]\n[pushes]\nspeed = [3, 1]', "[low, high]"),
        ('name = "a"\nscenes = ["bowling"]\n[pushes]\nspeed = {gamma = [1, 2]}', "'gamma'"),
        ('name = "a"\nscenes = ["bowling"]\n[materials]\nrestitution = [0, 2]', "0 to 1, got 2"),
        ('name = "a"\nscenes = ["bowling"]\n[dynamics]\nkinds = ["wold"]', "did you mean world"),
        ('name = "a"\nscenes = ["bowling"]\n[pushes]\naim = "loose"', "needs loose objects"),
        ('name = "a"\nscenes = ["bowling"]\n[objects]\nselect = "al"', "did you mean all"),
        ('name = "a"\nscenes = ["bowling"]\nobjects = 3', "expected a table [objects]"),
        ('name = "a"\nscenes = ["bowling"]\n[splits]\ntrain = 0', "above 0"),
        ('name = ', "not valid TOML"),
    ],
)  # fmt: skip
def test_a_bad_spec_is_one_line(tmp_path, text, line):
    with pytest.raises(InputError) as error:
        spec_of(tmp_path, text)
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def test_a_spec_that_does_not_exist_is_named_with_its_near_miss():
    with pytest.raises(InputError, match="did you mean small"):
        load_spec("smal")


def test_the_digest_is_of_what_bytes_hang_on(tmp_path, monkeypatch):
    spec, _ = spec_of(tmp_path)
    assert spec_of(tmp_path, count=400)[0].digest == spec.digest
    assert spec_of(tmp_path, TINY.replace("frames = 5", "frames = 6"))[0].digest != spec.digest
    assert spec_of(tmp_path, gloss=False)[0].digest != spec.digest
    ours = spec.digest
    monkeypatch.setattr("newtongs.factory.spec.FORMAT", 2)  # without shares
    assert spec.digest != ours


def test_distributions_draw_what_they_say():
    rng = np.random.default_rng(0)
    for given, low, high in ((2, 2, 2), ([1, 3], 1, 3), ({"log": [0.1, 10]}, 0.1, 10)):
        drawn = [Numbers.parse(given, "x").draw(rng) for _ in range(200)]
        assert low <= min(drawn) <= max(drawn) <= high
    halves = [Numbers.parse({"log": [0.1, 10]}, "x").draw(rng) < 1 for _ in range(2000)]
    assert 0.45 < np.mean(halves) < 0.55
    assert {Numbers.parse({"choice": [1, 5]}, "x").draw(rng) for _ in range(50)} == {1, 5}
    normal = [Numbers.parse({"normal": [4, 2]}, "x").draw(rng) for _ in range(2000)]
    assert abs(np.mean(normal) - 4) < 0.2
    assert abs(np.std(normal) - 2) < 0.2
    again = Numbers.parse(Numbers.parse({"log": [1, 2]}, "x").to_json(), "x")
    assert again == Numbers("log", (1.0, 2.0))


# --- scenes and splits ----------------------------------------------------------------------------


def test_scenes_that_are_not_there_are_told_before_the_work(tmp_path):
    for word, line in (("bowlin", "did you mean bowling"), ("x.ply", "x.ply does not exist")):
        spec, folder = spec_of(tmp_path, f'name = "a"\nscenes = ["{word}"]')
        with pytest.raises(InputError, match=line):
            find_scenes(spec, folder)
    spec, folder = spec_of(tmp_path, 'name = "a"\nscenes = ["bowling", "bowling"]')
    with pytest.raises(InputError, match="named twice"):
        find_scenes(spec, folder)


@pytest.mark.parametrize("word", ["é" * 9_000, "~nobody-of-this-name/a.ply", "a\0b.ply"])
def test_what_is_no_path_is_one_line(tmp_path, word):
    spec, home = spec_of(tmp_path)
    with pytest.raises(InputError, match="scenes: ") as caught:
        find_scenes(replace(spec, scenes=(word,)), home)
    assert len(str(caught.value)) < 300


def test_splits_of_any_size_are_one_line(tmp_path):
    with pytest.raises(InputError, match=r"splits\.test: expected a fraction above 0"):
        spec_of(tmp_path, TINY + "[splits]\ntrain = 1\ntest = 1e308")


def test_a_folder_is_all_its_files_and_names_are_unique(tmp_path):
    (tmp_path / "captures").mkdir()
    for name in ("a.ply", "a.splat", "b.ply", "notes.txt"):
        (tmp_path / "captures" / name).write_text("")
    spec, folder = spec_of(tmp_path, 'name = "a"\nscenes = ["captures", "bowling"]')
    found = find_scenes(spec, folder)
    assert [s.id for s in found] == ["a", "a_2", "b", "bowling"]
    assert found[0].provenance()["sha256"] == hashlib.sha256(b"").hexdigest()


def test_no_scene_is_in_two_splits_and_each_split_has_one():
    ids = [f"scene{i}" for i in range(10)]
    parts = {"train": 0.8, "validation": 0.1, "test": 0.1}
    found = divided(ids, parts, seed=1)
    assert {*found} == {*ids}
    assert sorted(found.values()).count("train") == 8
    assert {*found.values()} == {*parts}
    assert whole_parts(3, [0.98, 0.01, 0.01]) == [1, 1, 1]
    with pytest.raises(InputError, match="need at least as many scenes"):
        divided(ids[:2], parts, seed=1)


def test_more_films_only_add_shards(tmp_path):
    spec, folder = load_spec("small")
    scenes = find_scenes(spec, folder)
    few = shards_of(spec_of_count(spec, 64), scenes)
    many = shards_of(spec_of_count(spec, 1000), scenes)
    assert many[: len(few)] == few
    assert sum(s.films for s in many) == 1000
    splits = [s.split for s in many]
    assert abs(splits.count("train") / len(splits) - 0.8) < 0.03
    assert splits_of_shards(scenes, 3) == splits[:3]


def spec_of_count(spec, count):

    return replace(spec, count=count)


# --- draws ----------------------------------------------------------------------------------------


def test_a_draw_hangs_on_seed_number_and_attempt_alone(tmp_path):
    spec, folder = spec_of(tmp_path)
    scenes = find_scenes(spec, folder)
    assert draw(spec, scenes, 5, 0) == draw(spec, scenes, 5, 0)
    assert draw(spec, scenes, 5, 0) != draw(spec, scenes, 5, 1)
    assert draw(spec, scenes, 5, 0).pushes != draw(spec, scenes, 6, 0).pushes
    assert {draw(spec, scenes, i, 0).kind for i in range(30)} == {"world", "paper", "motions"}
    assert {draw(spec, scenes, i, 0).scene for i in range(30)} == {s.id for s in scenes}


@pytest.mark.slow
def test_a_throw_at_a_loose_object_flies_there():
    spec, folder = load_spec("throw_and_hit")

    spec = replace(spec, scenes=("bowling",), objects=replace(spec.objects, casts=1))
    (source,) = find_scenes(spec, folder)
    (cast,) = prepare_casts(spec, source).casts["world"]
    drawn = draw(spec, [source], 3, 0)
    (push,) = pushes_of(drawn, cast, spec)
    p = [State(body.z0).p.double() for body in cast.setup.bodies]
    t = np.linspace(0, 2, 4001)[:, None]
    path = p[0].numpy() + t * np.array(push.velocity) - 0.5 * 9.81 * t**2 * np.array([0, 1, 0])
    nearest = min(np.linalg.norm(path - other.numpy(), axis=1).min() for other in p[1:])
    assert nearest < 0.02


# --- shards ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_sample_has_all_its_parts(films):
    spec, _, out, outcome = films
    assert outcome.films == 4
    with tarfile.open(out / "train-000000.tar") as tar:
        data = {m.name: tar.extractfile(m).read() for m in tar}
        assert all(m.mtime == 0 and m.uid == 0 for m in tar)
    names = {name.partition(".")[2] for name in data}
    arrays = {"labels0.npz", "labels1.npz", "states.npz", "contacts.npz", "cameras.npz"}
    assert names == {"rgb0.mp4", "rgb1.mp4", "json", "txt"} | arrays
    labels = np.load(io.BytesIO(data["00000000.labels1.npz"]))
    shapes = {name: (x.shape, x.dtype.name) for name, x in labels.items()}
    assert shapes == {
        "ids": ((5, 48, 48), "uint8"), "share": ((5, 48, 48), "uint8"),
        "depth": ((5, 48, 48), "float16"), "flow": ((4, 48, 48, 2), "float16"),
        "scene_flow": ((4, 48, 48, 3), "float16"), "visible": ((4, 48, 48), "bool"),
    }  # fmt: skip
    assert np.load(io.BytesIO(data["00000000.states.npz"]))["states"].shape == (5, 1, 22)
    assert np.load(io.BytesIO(data["00000000.cameras.npz"]))["w2c"].shape == (2, 5, 4, 4)
    about = json.loads(data["00000000.json"])
    assert about["provenance"]["digest"] == spec.digest
    assert about["provenance"]["renderer"] == spec.renderer == "steady"
    assert about["caption"] == data["00000000.txt"].decode()
    assert about["objects"][0]["id"] == 1
    assert 0 <= about["objects"][0]["restitution"] <= 1
    assert data["00000000.rgb0.mp4"][4:8] == b"ftyp"


@pytest.mark.slow
def test_two_workers_write_the_same_bytes(films, tmp_path):
    spec, home, out, _ = films
    outcome = produce(spec, home, tmp_path / "two", workers=2)
    assert outcome.films == 4
    assert digests(tmp_path / "two") == digests(out)


@pytest.mark.slow
def test_finished_shards_are_kept_and_a_missing_one_is_made_again(films, tmp_path):
    spec, home, out, _ = films
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    before = (copy / "train-000000.tar").stat().st_mtime_ns
    (copy / "train-000001.tar").unlink()
    (copy / ".train-000001.tar.half").write_text("half")
    outcome = produce(spec, home, copy, workers=1)
    assert (outcome.shards, outcome.kept) == (2, 1)
    assert (copy / "train-000000.tar").stat().st_mtime_ns == before
    assert not [*copy.glob(".train*")]
    assert digests(copy) == digests(out)
    again = produce(spec, home, copy, workers=1)
    assert again.kept == 2


def test_another_spec_does_not_write_into_the_folder(films, tmp_path):
    _, _, out, _ = films
    other, _ = spec_of(tmp_path, TINY.replace("frames = 5", "frames = 6"))
    with pytest.raises(InputError, match="another spec"):
        check_same_spec(out, other, {})
    with pytest.raises(InputError, match="another spec"):
        is_done(out, shards_of(other, find_scenes(other, tmp_path))[0], other.digest)


def cut(path):
    path.write_bytes(path.read_bytes()[:-512])


def altered(path):
    content = bytearray(path.read_bytes())
    content[-3000] ^= 1
    path.write_bytes(content)


def unreadable_part(path):
    part = path.parent / "parts" / f"{path.stem}.json"
    tree = json.loads(part.read_text())
    tree["rows"][0]["failures"] = [3]
    part.write_text(json.dumps(tree))


@pytest.mark.slow
@pytest.mark.parametrize("spoil", [cut, altered, unreadable_part])
def test_a_shard_that_is_not_as_it_was_written_is_made_again(films, tmp_path, spoil):
    spec, home, out, _ = films
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    spoil(copy / "train-000001.tar")
    assert produce(spec, home, copy, workers=1).kept == 1
    assert digests(copy) == digests(out)


@pytest.mark.parametrize("kind", ["mp4", "mp4_full"])
def test_a_film_that_ffmpeg_could_not_finish_is_an_error(kind):
    from newtongs.factory.encode import rgb

    frames = np.random.default_rng(0).integers(0, 255, (9, 64, 64, 3), dtype=np.uint8)
    with files_up_to(4096), pytest.raises(InputError, match="ffmpeg could not finish a film"):
        rgb(frames, 24.0, kind)


def test_a_film_of_fewer_frames_is_an_error(monkeypatch):
    from newtongs.factory import encode

    monkeypatch.setattr(encode, "count_frames", lambda path: 2)
    with pytest.raises(InputError, match="ffmpeg wrote 2 of 3 frames"):
        encode.mp4(np.zeros((3, 16, 16, 3), np.uint8), 24.0)


def test_the_index_has_the_checksum_of_every_file(films):
    import pyarrow.parquet as pq

    _, _, out, _ = films
    rows = {row["key"]: row for row in pq.read_table(out / "index.parquet").to_pylist()}
    for path in out.glob("*.tar"):
        with tarfile.open(path) as tar:
            for member in tar:
                key, _, name = member.name.partition(".")
                found = hashlib.sha256(tar.extractfile(member).read()).hexdigest()
                assert json.loads(rows[key]["sha256"])[name] == found


def test_a_scene_that_has_changed_makes_no_set_of_two_scenes(tmp_path):
    """Its file is named; without spec.json, a part tells it too."""
    (tmp_path / "a.ply").write_bytes(b"one")
    spec, home = spec_of(tmp_path, 'name = "x"\nscenes = ["a.ply", "bowling"]')
    scenes, out = find_scenes(spec, home), tmp_path / "out"
    contents, digest = {s.id: s.content for s in scenes}, set_digest(spec, scenes)
    shard = shards_of(spec, scenes)[0]
    (out / "parts").mkdir(parents=True)
    (out / f"{shard.name}.tar").write_bytes(b"")
    row = {"made": False, "failures": []}
    part = {"digest": digest, "films": shard.films, "rows": [row] * shard.films}
    part["tar"] = shard_files.fingerprint(out / f"{shard.name}.tar")
    (out / "parts" / f"{shard.name}.json").write_text(json.dumps(part))
    (out / "spec.json").write_text(json.dumps(described(spec, contents)))
    check_same_spec(out, spec, contents)
    assert is_done(out, shard, digest)

    (tmp_path / "a.ply").write_bytes(b"two")
    changed = find_scenes(spec, home)
    with pytest.raises(InputError, match="the file of a has changed since"):
        check_same_spec(out, spec, {s.id: s.content for s in changed})
    with pytest.raises(InputError, match="other scenes"):
        is_done(out, shard, set_digest(spec, changed))


def test_a_scene_of_many_files_is_known_by_all_of_them(tmp_path):
    for name in ("meta.json", "means.webp"):
        (tmp_path / name).write_bytes(b"one")
    before = SceneSource("a", str(tmp_path / "meta.json")).content
    (tmp_path / "means.webp").write_bytes(b"two")
    assert SceneSource("a", str(tmp_path / "meta.json")).content != before


@pytest.mark.parametrize("text", ["[]", "{", '{"digest": 3, "scenes": []}', "[" * 99_999, '""'])
def test_a_damaged_description_of_a_set_is_one_line(tmp_path, text):
    spec, _ = spec_of(tmp_path)
    (tmp_path / "spec.json").write_text(text)
    with pytest.raises(InputError, match="damaged") as caught:
        check_same_spec(tmp_path, spec, {})
    assert "\n" not in str(caught.value)


def test_lossless_pictures_come_back_bit_for_bit():
    from PIL import Image, ImageSequence

    from newtongs.factory.encode import mp4, webp

    frames = np.random.default_rng(0).integers(0, 255, (3, 16, 16, 3), dtype=np.uint8)
    data = webp(frames, 24.0)
    back = [
        np.asarray(f.convert("RGB")) for f in ImageSequence.Iterator(Image.open(io.BytesIO(data)))
    ]
    np.testing.assert_array_equal(back, frames)
    assert mp4(frames, 24.0) == mp4(frames, 24.0)


def test_warnings_of_compiled_code_can_be_kept_away(capfd):
    with no_warnings():
        os.write(2, b"gcs_client.cc: a line a second")
    os.write(2, b"ours")
    assert capfd.readouterr().err == "ours"


def test_full_pictures_keep_their_colours_where_those_of_players_blur(tmp_path):
    """Red and blue in turn, a pixel each: half the resolution of colour makes them one."""
    from newtongs.factory.encode import rgb

    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    frames = np.zeros((4, 32, 32, 3), np.uint8)
    frames[:, :, ::2, 0], frames[:, :, 1::2, 2] = 200, 200
    worst = {}
    for kind in ("mp4", "mp4_full"):
        suffix, data = rgb(frames, 24.0, kind)
        assert suffix == "mp4"
        assert rgb(frames, 24.0, kind)[1] == data
        (tmp_path / "film.mp4").write_bytes(data)
        reader = ffmpeg.read_frames(str(tmp_path / "film.mp4"))
        next(reader)
        back = np.stack([np.frombuffer(x, np.uint8).reshape(32, 32, 3) for x in reader])
        worst[kind] = np.abs(back.astype(int) - frames).max()
    assert worst["mp4"] > 50
    assert worst["mp4_full"] < 16


# --- reading with what others have ----------------------------------------------------------------


def test_webdataset_reads_the_shards(films):
    wds = pytest.importorskip("webdataset")
    _, _, out, _ = films
    urls = sorted(str(p) for p in out.glob("train-*.tar"))
    keys = []
    for sample in wds.WebDataset(urls, shardshuffle=False).decode():
        keys.append(sample["__key__"])
        assert sample["labels0.npz"]["flow"].shape == (4, 48, 48, 2)
        assert sample["json"]["fps"] == 24.0
    assert keys == [f"{i:08d}" for i in range(4)]


def test_datasets_reads_the_shards_and_the_index(films, tmp_path):
    datasets = pytest.importorskip("datasets")
    _, _, out, _ = films
    urls = sorted(str(p) for p in out.glob("train-*.tar"))
    data = datasets.load_dataset(
        "webdataset", data_files={"train": urls}, split="train", streaming=True
    )
    sample = next(iter(data.decode(False)))  # films stay bytes: decoding them needs torchcodec
    assert sample["__key__"] == "00000000"
    assert np.asarray(sample["labels0.npz"]["flow"]).shape == (4, 48, 48, 2)
    assert sample["json"]["key"] == "00000000"
    index = datasets.load_dataset(
        "parquet", data_files=str(out / "index.parquet"), split="train", cache_dir=str(tmp_path)
    )
    assert index["key"][:] == [f"{i:08d}" for i in range(4)]
    states = State(torch.from_numpy(np.asarray(sample["states.npz"]["states"])))
    assert index["top_speed"][0] == pytest.approx(float(states.v.norm(dim=-1).max()), rel=1e-5)


# --- what goes wrong ------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_scene_that_cannot_be_read_is_told_and_the_rest_goes_on(tmp_path):
    (tmp_path / "broken.ply").write_text("no Gaussians")
    text = TINY.replace('"desk_blue_sphere"', '"broken.ply"').replace("count = 4", "count = 2")
    spec, home = spec_of(tmp_path, text)
    said = []
    outcome = produce(spec, home, tmp_path / "out", warn=said.append)
    assert outcome.films == 2
    assert len(said) == 1
    assert "scene broken is left out" in said[0]
    assert "\n" not in said[0]
    page = (tmp_path / "out" / "statistics.html").read_text()
    assert "Scenes left out" in page


@pytest.mark.slow
def test_no_scene_that_can_be_read_is_one_line(tmp_path):
    (tmp_path / "broken.ply").write_text("no Gaussians")
    spec, home = spec_of(tmp_path, 'name = "a"\nscenes = ["broken.ply"]\ncount = 1')
    with pytest.raises(InputError, match="no scene of split train can be used"):
        produce(spec, home, tmp_path / "out", warn=lambda line: None)


@pytest.mark.slow
def test_what_is_hardly_seen_is_drawn_anew_and_counted(tmp_path, monkeypatch):
    from newtongs.factory import sample as samples

    spec, home = spec_of(tmp_path)
    scenes = find_scenes(spec, home)
    ready = {s.id: pools.prepared_or_why(spec, s) for s in scenes}
    parts = iter([0.1, 0.1, 0.9, 0.1])
    monkeypatch.setattr(samples, "sight", lambda *_: ViewQuality(next(parts, 1.0), 0.0))
    made = make_sample(spec, scenes, 0, ready.__getitem__, Clock())
    assert made.row["attempt"] == 2
    assert [f["reason"] for f in made.row["failures"]] == ["hardly seen"] * 2
    assert json.loads(made.files["json"])["provenance"]["attempt"] == 2
    assert by_reason([made.row]) == {"hardly seen": 2}


@pytest.mark.slow
def test_what_was_found_but_cannot_be_staged_is_left_out_and_said(tmp_path, monkeypatch):
    spec, home = spec_of(tmp_path, 'name = "a"\nscenes = ["kitchen_table"]\ncount = 1')
    (scene,) = find_scenes(spec, home)
    every = [cast.selects[0] for cast in prepare_casts(spec, scene).casts["world"]]
    assert len(every) == spec.objects.casts
    make_cast = casts.make_cast

    def sunk(place, floor, physics, pushed, *rest):
        if pushed[0] == every[0]:
            raise InputError("the object reaches below the floor")
        return make_cast(place, floor, physics, pushed, *rest)

    monkeypatch.setattr(casts, "make_cast", sunk)
    ready = prepare_casts(spec, scene)
    assert [cast.selects[0] for cast in ready.casts["world"]][:2] == every[1:]
    assert ready.provenance["left_out"] == f"{every[0]}: the object reaches below the floor"
    named = replace(spec, objects=replace(spec.objects, select=(every[0],)))
    with pytest.raises(InputError, match="below the floor"):
        prepare_casts(named, scene)


def test_captions_have_their_articles():
    assert one_each(["orange"]) == "an orange"
    assert one_each(["cereal box", "object"]) == "a cereal box and an object"


def test_what_was_found_twice_is_one_object(monkeypatch):
    """Of neighbours the first keeps what they share; what shares more than a tenth is no other."""
    place = open_source("kitchen_table")
    floor, real = floor_of(place), casts.select
    spec = Spec("a", ("kitchen_table",))
    foot = place.scene.ids == 1

    def growing(scene, name, **rest):
        chosen = real(scene, name, **rest)
        rows = foot.nonzero().squeeze(-1)[: {"id:0": int(foot.sum()) // 2, "id:2": 5}.get(name, 0)]
        mask = chosen.mask.clone()
        mask[rows] = True
        return chosen._replace(mask=mask)

    monkeypatch.setattr(casts, "select", growing)
    masks, left_out = casts.movable_objects(spec, place, floor)
    assert [*masks] == ["id:0", "id:2", "id:3"]
    assert left_out == ["id:1: it overlaps with id:0"]
    named = replace(spec, objects=Objects(select=("id:0", "id:1")))
    assert [*casts.movable_objects(named, place, floor)[0]] == ["id:0", "id:1"]


@pytest.mark.slow
def test_an_object_that_cannot_be_selected_costs_no_other(monkeypatch):
    real = casts.select

    def below(scene, name, **rest):
        if name == "id:2":
            raise InputError("the object lies 0.1 below the floor")
        return real(scene, name, **rest)

    monkeypatch.setattr(casts, "select", below)
    spec = Spec("a", ("kitchen_table",), objects=Objects(loose="all"))
    ready = prepare_casts(spec, SceneSource("kitchen_table", "kitchen_table"))
    assert all(sorted(cast.selects) == ["id:0", "id:1", "id:3"] for cast in ready.casts["world"])
    assert ready.provenance["left_out"] == "id:2: the object lies 0.1 below the floor"


def test_nothing_to_aim_at_is_a_line_and_no_crash(tmp_path):
    text = """name = "a"
    scenes = ["sunny_park"]
    objects.loose = "all"
    pushes.aim = "loose"
    """
    spec, home = spec_of(tmp_path, text)
    (scene,) = find_scenes(spec, home)
    assert "there is no loose object to aim at" in pools.prepared_or_why(spec, scene)


def test_what_takes_a_few_pixels_is_hardly_seen():
    ids = np.zeros((4, 100, 100), np.uint8)
    ids[0, :2, :2], ids[1, :3, :3], ids[2, :3, :3], ids[3] = 1, 1, 3, 2
    assert frames_large(ids, 1) == 0.25
    assert frames_large(ids, 2) == 0.5


@pytest.mark.slow
def test_a_caption_tells_of_each_pushed_object(tmp_path):
    text = """name = "a"
    scenes = ["kitchen_table"]
    frames = 9
    objects.pushed = 2
    objects.loose = "all"
    """
    spec, home = spec_of(tmp_path, text)
    (scene,) = find_scenes(spec, home)
    drawn = draw(spec, [scene], 0, 0)
    film = make_film(drawn.cast_of(prepare_casts(spec, scene).casts["world"]), drawn, spec)
    said = caption(film, scene)
    for push in pushes_of(drawn, film.cast, spec):
        speed = np.linalg.norm(push.velocity)
        assert f"at {speed:.1f} metres a second" in said
    assert " and a" in said.split(",")[0]


@pytest.mark.slow
def test_a_camera_in_something_is_drawn_anew_and_counted(tmp_path, monkeypatch):
    from newtongs.factory import sample as samples

    spec, home = spec_of(tmp_path)
    scenes = find_scenes(spec, home)
    ready = {s.id: pools.prepared_or_why(spec, s) for s in scenes}
    parts = iter([0.0, 0.4])
    monkeypatch.setattr(samples, "sight", lambda *_: ViewQuality(1.0, next(parts, 0.01)))
    made = make_sample(spec, scenes, 0, ready.__getitem__, Clock())
    assert by_reason([made.row]) == {"camera in something": 1}
    assert made.row["failures"][0]["line"] == "it takes 40% of a picture"
    views = json.loads(made.files["json"])["views"]
    assert [view["veiled"] for view in views] == [0.01] * len(views)


def test_a_number_is_given_up_after_its_tries(tmp_path, monkeypatch):
    from newtongs.factory import sample as samples

    spec, home = spec_of(tmp_path)
    scenes = find_scenes(spec, home)

    def refused(*_):
        raise Refused("simulation refused", "too fast")

    monkeypatch.setattr(samples, "_simulated", refused)
    made = make_sample(spec, scenes, 0, lambda scene: None, Clock())
    assert made.row["made"] is False
    assert len(made.row["failures"]) == spec.tries


def test_a_full_disk_is_one_line_and_leaves_nothing_half_written(tmp_path, monkeypatch):
    spec, home = spec_of(tmp_path)
    scenes, out = find_scenes(spec, home), tmp_path / "out"
    out.mkdir()
    (out / "spec.json").write_text("{}")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shard_files, "make_sample", full)
    with pytest.raises(InputError, match=r"cannot write shard .*No space left"):
        make_shard(spec, scenes, shards_of(spec, scenes)[0], out, lambda s: None, lambda: None)
    assert {p.name for p in out.iterdir()} == {"spec.json"}


def test_too_little_space_is_told_before_the_work(tmp_path, monkeypatch):
    usage = type("Usage", (), {"free": 10})
    monkeypatch.setattr("newtongs.base.files.shutil.disk_usage", lambda _: usage)
    with pytest.raises(InputError, match="not enough space"):
        check_space(tmp_path, load_spec("small")[0], 10)


def test_a_cluster_that_does_not_answer_is_one_line():
    with pytest.raises(InputError, match=r"no cluster answers at 127\.0\.0\.1:9"):
        check_address("127.0.0.1:9")
    with pytest.raises(InputError, match="expected HOST:PORT"):
        check_address("somewhere")


def test_a_folder_that_a_node_does_not_see_is_one_line(tmp_path):
    spec, home = spec_of(tmp_path)
    scenes = find_scenes(spec, home)
    with pytest.raises(InputError, match="does not see"):
        make_shard(spec, scenes, shards_of(spec, scenes)[0], tmp_path / "x", None, None)


def test_entries_know_neither_time_nor_owner():
    info = entry("a.txt", 3)
    assert (info.mtime, info.uid, info.gid, info.mode) == (0, 0, 0, 0o644)


@pytest.mark.slow
def test_dry_run_draws_a_sheet_and_foretells(tmp_path, capsys, monkeypatch):
    from newtongs.cli import main
    from newtongs.factory import sheet

    monkeypatch.setattr(sheet, "FILMS", 2)
    spec_of(tmp_path)
    main(["factory", str(tmp_path / "spec.toml"), "--out", str(tmp_path / "dry"), "--dry-run"])
    said = capsys.readouterr().out
    assert "one film: " in said
    assert "all 4: about" in said
    assert "failed attempts" in said
    assert (tmp_path / "dry" / "sheet.png").read_bytes()[:4] == b"\x89PNG"


def test_the_command_says_what_is_wrong(tmp_path, capsys):
    from newtongs.cli import main

    for words, line in (
        (["factory"], "expected a SPEC"),
        (["factory", "small", "--workers", "0"], "--workers: expected 1 to"),
        (["factory", "smal"], "did you mean small"),
        (["factory", "small", "--count", "0"], "count: expected 1 to"),
        (["factory", "small", "--ray", "127.0.0.1:9", "--out", str(tmp_path / "o")], "no cluster"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(words)
        assert stop.value.code == 2
        said = capsys.readouterr().err
        assert line in said
        assert said.count("\n") == 1
