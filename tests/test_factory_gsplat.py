"""Films whose pictures gsplat draws: refused where it cannot, and with the labels of ewa."""

import sys
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from newtongs.base.errors import InputError
from newtongs.cli import main
from newtongs.exports.films import film as exported
from newtongs.factory.casts import prepare_casts
from newtongs.factory.draws import ViewDraw, draw
from newtongs.factory.film import make_film
from newtongs.factory.labels import label_view
from newtongs.factory.pool import pool
from newtongs.factory.renderers import (
    drawn_apart,
    gpu_share,
    pictures_by,
    require_here,
    try_out,
)
from newtongs.factory.run import produce
from newtongs.factory.sample import cameras_of
from newtongs.factory.scenes import find_scenes
from newtongs.factory.spec import Objects, Spec, load_spec
from newtongs.render import ewa

TEXT = """
name = "drawn on a card"
renderer = "gsplat"
scenes = ["bowling"]
count = 2
frames = 5
size = [48, 48]
"""
HAS_GSPLAT = torch.cuda.is_available() and find_spec("gsplat") is not None
without_cuda = pytest.mark.skipif(
    torch.cuda.is_available(), reason="is about machines without CUDA"
)


@pytest.fixture
def spec_file(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def knocked():
    """A ball that is thrown among pins, with shiny colours and shadows."""
    spec = Spec("test", ("bowling",), frames=5, size=(96, 64), objects=Objects(casts=1, loose=2))
    (source,) = find_scenes(spec, None)
    drawn = draw(spec, [source], 0, 0)
    cast = drawn.cast_of(prepare_casts(spec, source).casts["world"])
    return spec, make_film(cast, drawn, spec).animation, source.color


def cameras(knocked, path):
    spec, animation, _ = knocked
    return cameras_of(animation, ViewDraw(path, 25.0, 15.0), spec)


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "hint"),
    [("gsplt", "gsplat"), ("stedy", "steady"), ("auto", "known: ewa, gsplat, steady")],
)
def test_a_renderer_is_named_in_the_spec_and_by_its_own_name(spec_file, word, hint):
    spec_file.write_text(TEXT.replace('"gsplat"', f'"{word}"'))
    with pytest.raises(InputError, match=hint):
        load_spec(spec_file)


def test_the_renderer_is_part_of_what_bytes_hang_on(spec_file):
    spec, _ = load_spec(spec_file)
    assert spec.digest != replace(spec, renderer="ewa").digest


def refusal(spec_file, out, words, capsys):
    """The one line that the command ends with, before it makes its folder."""
    with pytest.raises(SystemExit) as stop:
        main(["factory", str(spec_file), "--out", str(out), *words])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert not out.exists()
    return said


@without_cuda
@pytest.mark.parametrize("words", [[], ["--workers", "2"], ["--dry-run"]])
def test_without_cuda_it_is_refused_in_one_line_before_any_work(spec_file, tmp_path, words, capsys):
    said = refusal(spec_file, tmp_path / "films", words, capsys)
    assert 'renderer = "gsplat": expected a machine with a CUDA device, found none; use' in said


@pytest.mark.parametrize("words", [[], ["--dry-run"]])
def test_without_gsplat_it_is_refused_with_what_to_install(
    spec_file, tmp_path, words, monkeypatch, capsys
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "gsplat", None)
    monkeypatch.delitem(sys.modules, "newtongs.render.gsplat_backend", raising=False)
    try_out.cache_clear()
    assert "pip install 'newtongs[gpu]'" in refusal(spec_file, tmp_path / "films", words, capsys)


@pytest.mark.slow
@without_cuda
def test_a_worker_that_cannot_draw_is_one_line_too(spec_file):
    """As where a build of gsplat fails: it is a worker that tries, not this process."""
    spec, _ = load_spec(spec_file)
    with (
        pool(spec, 1) as workers,
        pytest.raises(InputError, match="expected a machine with a CUDA"),
    ):
        workers.try_out()


@pytest.mark.slow
def test_a_finished_data_set_needs_no_card(spec_file, tmp_path):
    """Its index and statistics can be made anew anywhere."""
    from newtongs.factory.encode import text
    from newtongs.factory.scenes import set_digest
    from newtongs.factory.shards import fingerprint, shards_of

    spec, home = load_spec(spec_file)
    out = tmp_path / "films"
    (out / "parts").mkdir(parents=True)
    scenes = find_scenes(spec, home)
    (shard,) = shards_of(spec, scenes)
    rows = [{"key": f"{i:08d}", "number": i, "made": False, "failures": []} for i in range(2)]
    tar = out / f"{shard.name}.tar"
    tar.write_bytes(b"")
    part = {"digest": set_digest(spec, scenes), "films": 2, "rows": rows, "tar": fingerprint(tar)}
    (out / "parts" / f"{shard.name}.json").write_bytes(text(part))
    outcome = produce(spec, home, out)
    assert (outcome.kept, outcome.given_up) == (1, 2)


# --- sharing a card -------------------------------------------------------------------------------


def test_several_workers_share_a_card_and_ewa_needs_none():
    assert 0 < gpu_share("gsplat") <= 0.5
    assert gpu_share("ewa") == gpu_share("steady") == 0
    assert gpu_share("gsplat") == round(gpu_share("gsplat"), 4)  # as finely as Ray divides a card


def test_workers_are_not_forked_so_that_each_may_start_cuda():
    spec, _ = load_spec("small")
    with pool(spec, 1) as workers:
        assert workers.executor._mp_context.get_start_method() == "spawn"
    for renderer in ("ewa", "steady"):
        require_here(renderer)
        assert try_out(renderer) == {"renderer": renderer}
    assert not torch.cuda.is_initialized() or HAS_GSPLAT


# --- pictures by one, labels by another -----------------------------------------------------------


def same_labels(a, b):
    return all(
        np.array_equal(x, y) for name, x, y in zip(a._fields, a, b, strict=True) if name != "rgb"
    )


@pytest.mark.parametrize("path", ["still", "orbit"])
@pytest.mark.slow
def test_pictures_drawn_apart_are_those_drawn_together(knocked, path):
    _, animation, color = knocked
    views = cameras(knocked, path)
    together = label_view(animation, views, color, ewa.labelled)
    apart = label_view(animation, views, color, lambda *given: drawn_apart("ewa", *given))
    assert same_labels(together, apart)
    assert np.array_equal(together.rgb, apart.rgb)
    assert len(np.unique(together.ids)) > 2


@pytest.mark.parametrize("path", ["still", "follow"])
def test_another_renderer_draws_what_animate_draws_and_labels_stay(knocked, path):
    _, animation, color = knocked
    views = cameras(knocked, path)
    apart = label_view(animation, views, color, lambda *given: drawn_apart("light", *given))
    assert same_labels(apart, label_view(animation, views, color))
    with exported(animation, views, backend="light", background=color) as frames:
        assert np.array_equal(apart.rgb, frames)


@pytest.mark.parametrize("path", ["still", "follow"])
def test_steady_draws_what_animate_draws_and_labels_it_itself(knocked, path):
    _, animation, color = knocked
    views = cameras(knocked, path)
    ours = label_view(animation, views, color, pictures_by("steady"))
    with exported(animation, views, backend="steady", background=color) as frames:
        assert np.array_equal(ours.rgb, frames)
    of_ewa = label_view(animation, views, color)
    assert (ours.ids != of_ewa.ids).mean() < 0.02
    assert not np.array_equal(ours.depth, of_ewa.depth)  # its own labels, not those of ewa


@pytest.mark.skipif(not HAS_GSPLAT, reason="needs CUDA and gsplat")
@pytest.mark.parametrize("path", ["still", "orbit", "follow"])
def test_gsplats_pictures_are_those_of_ewa_and_the_labels_its_bytes(knocked, path):
    """At least 45 dB in every frame, as in test_render: they round otherwise at thresholds."""
    _, animation, color = knocked
    views = cameras(knocked, path)
    ours = label_view(animation, views, color, pictures_by("ewa"))
    theirs = label_view(animation, views, color, pictures_by("gsplat"))
    assert same_labels(ours, theirs)
    off = (ours.rgb / 255.0 - theirs.rgb / 255.0) ** 2
    assert 10 * np.log10(1 / off.mean((1, 2, 3)).max().clip(1e-12)) > 45
    assert try_out("gsplat")["card"]


@pytest.mark.slow
@pytest.mark.skipif(not HAS_GSPLAT, reason="needs CUDA and gsplat")
def test_two_workers_share_the_card_and_say_so(spec_file, tmp_path):
    import json
    import tarfile

    spec, home = load_spec(spec_file)
    spec = replace(spec, films_a_shard=1)
    assert produce(spec, home, tmp_path / "films", workers=2).films == 2
    log = json.loads((tmp_path / "films" / "log" / "train-000000.json").read_bytes())
    assert log["drawn_by"]["renderer"] == "gsplat"
    assert log["drawn_by"]["card"]
    with tarfile.open(tmp_path / "films" / "train-000000.tar") as tar:
        about = json.load(tar.extractfile("00000000.json"))
    assert about["provenance"]["renderer"] == "gsplat"


@pytest.mark.slow
@pytest.mark.skipif(not HAS_GSPLAT, reason="needs CUDA and gsplat")
def test_a_dry_run_draws_by_gsplat_too(spec_file, tmp_path, capsys):
    main(["factory", str(spec_file), "--out", str(tmp_path / "dry"), "--dry-run"])
    assert "all 2: about" in capsys.readouterr().out
    assert (tmp_path / "dry" / "sheet.png").read_bytes()[:4] == b"\x89PNG"
