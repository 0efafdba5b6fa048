"""``newtongs convert``: what is written, what is told, what is refused before the work."""

import subprocess
import sys

import pytest
import torch
from export_samples import random_scene

from newtongs.cli import main
from newtongs.formats import load, save
from newtongs.formats.files import WRITABLE, WRITERS


@pytest.fixture
def source(tmp_path):
    save(random_scene(300), tmp_path / "a.ply")
    return tmp_path / "a.ply"


# An .spz keeps 4 or 5 bits of view-dependent colour, which is strong and random here.
@pytest.mark.parametrize(
    ("ending", "least"),
    [(".ply", None), (".glb", None), (".compressed.glb", 40), (".spz", 38), (".sog", 40),
     (".compressed.ply", 40), (".splat", 15)],
)  # fmt: skip
def test_every_format_is_written_and_its_loss_told(source, capsys, ending, least):
    if ending in (".spz", ".compressed.ply"):
        pytest.importorskip("gsply")
    if ending == ".sog":
        pytest.importorskip("PIL")
    out = source.with_name(f"b{ending}")
    main(["convert", str(source), str(out)])
    said = capsys.readouterr().out
    assert f"{out}  " in said
    assert "300 Gaussians" in said
    if least is None:
        assert "loss: none" in said
    else:
        decibels = float(said.split("loss: ")[1].split(" dB")[0])
        assert least < decibels < 119
    assert len(load(out)) == 300


def test_colour_is_cut_and_axes_are_turned(source, capsys):
    out = source.with_name("b.ply")
    words = ["--sh-degree", "1", "--axes", "RUB", "--no-loss"]
    main(["convert", str(source), str(out), *words])
    assert "loss" not in capsys.readouterr().out
    a, b = load(source), load(out)
    assert b.sh_degree == 1
    torch.testing.assert_close(b.means, a.means * torch.tensor([1.0, -1.0, -1.0]))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["a.ply"], "name two files"),
        (["a.ply", "b.xyz"], "expected a name that ends in .ply"),
        (["none.ply", "b.ply"], "none.ply"),
        (["a.ply", "a.ply"], "overwrite its own input"),
        (["a.ply", "b.sog", "--level", "1"], "only a lod-meta.json has levels"),
        (["a.ply", "b.sog", "--axes", "XYZ"], "axes"),
        (["a.ply", "no/such/../folder"], "expected a name that ends in"),
    ],
)
def test_wrong_words_are_one_line(source, monkeypatch, capsys, words, why):
    monkeypatch.chdir(source.parent)
    before = {p.name for p in source.parent.iterdir()}
    with pytest.raises(SystemExit) as stop:
        main(["convert", *words])
    assert stop.value.code == 2
    said = capsys.readouterr().err.strip()
    assert why in said
    assert "\n" not in said
    assert {p.name for p in source.parent.iterdir()} == before


def test_an_unknown_ending_is_refused_before_torch_is_loaded(source):
    words = f"sys.argv = ['newtongs', 'convert', {str(source)!r}, 'b.xyz']"
    check = f"""import sys; {words}
from newtongs.cli import main
try: main()
except SystemExit as stop: print(stop.code, 'torch' in sys.modules)"""
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert done.stdout == "2 False\n", done.stderr


def test_every_ending_that_is_named_has_a_writer():
    assert set(WRITERS) == set(WRITABLE)
