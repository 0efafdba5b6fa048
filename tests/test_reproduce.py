"""``newtongs reproduce``: every section at a tiny size, the page, going on after a stop."""

import base64
import io
import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from newtongs import motions
from newtongs.base.errors import InputError
from newtongs.cli import main
from newtongs.dynamics import GaussianNND, NNDConfig
from newtongs.dynamics.baselines import BASELINES, physics_prior_se3
from newtongs.dynamics.weights import save_model
from newtongs.paper.datasets import state32
from newtongs.paper.datasets.state32 import State32
from newtongs.paper.evaluation import evaluate
from newtongs.paper.evaluation.metrics import sequence_terms
from newtongs.paper.evaluation.table import number
from newtongs.paper.report import Table, Value, measure, report_run, reproduce, specs
from newtongs.paper.report.content import section_from_json, unexplained, within
from newtongs.paper.report.report_run import ReportRun

RESULTS = Path(__file__).parent.parent / "src" / "newtongs" / "paper" / "results"
TINY = 4  # sequences of each motion
# What rests on states alone; sections that draw Gaussians take longer and have a test of their own.
FAST = (
    "overview", "table1", "table2", "initialisation", "branches", "ablations", "motions",
    "trajectories", "response", "pis3d",
)  # fmt: skip
CHROMIUM = os.environ.get("NEWTONGS_CHROMIUM") or shutil.which("chromium") or ""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A report of all fast sections, and what the run said."""
    out, said = tmp_path_factory.mktemp("report"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "RESAMPLES", 20)
        reproduce(out, only=FAST, per_motion=TINY, results=RESULTS, say=said.append)
    return out, said


def records(out):
    return {name: json.loads((out / "json" / f"{name}.json").read_text()) for name in FAST}


# --- the report -----------------------------------------------------------------------------------


def test_every_record_and_the_page_say_where_they_come_from(made):
    out, _ = made
    page = (out / "index.html").read_text()
    footer = page[page.index("<footer") :]
    ledger = json.loads((out / "json" / "claims.json").read_text())
    for record in (*records(out).values(), ledger):
        assert {"commit", "date", "machine", "torch", "seconds"} <= record["made"].keys()
    about = ledger["made"]
    assert all(str(about[key]) in footer for key in ("commit", "date", "machine", "torch"))
    measured = [json.loads(p.read_text()) for p in (out / "json" / "measured").glob("*.json")]
    spent = [x["made"]["seconds"] for x in (*measured, *records(out).values())]
    assert about["seconds"] == pytest.approx(sum(spent), abs=0.01 * len(spent))


def test_the_ledger_stands_above_the_sections(made):
    out, _ = made
    page = (out / "index.html").read_text()
    ledger = json.loads((out / "json" / "claims.json").read_text())
    assert page.index('class="verdict"') < page.index('id="claims"') < page.index('id="overview"')
    assert page.count('<tr id="claim-') == ledger["claims"] == sum(ledger["counts"].values())
    waiting = {x["id"] for x in ledger["ledger"] if x["verdict"] == "not measured in this run"}
    assert waiting  # sections that this run did not make
    assert not waiting & {"lowest-six", "same32-quat", "gains-id", "init-lower"}


def test_every_section_is_made_and_kept(made):
    out, said = made
    assert re.search(r"to make: overview, table1, .*; about \d+ (s|min)", said[0])
    for name, record in records(out).items():
        section = section_from_json(record["section"])
        assert section.as_json() == record["section"]
        assert section.tables or section.missing or section.figures, name
        assert record["note"].startswith("Quick run"), name


def test_the_page_holds_everything_and_fetches_nothing(made):
    out, _ = made
    page = (out / "index.html").read_text()
    assert all(x.startswith("data:image/") for x in re.findall(r'src="([^"]*)"', page))
    assert all(x.startswith("#") for x in re.findall(r'href="([^"]*)"', page))
    outside = base64_free(page)
    assert not re.search(r"<script|<link|@import|url\(|https?:", outside)
    figures = [f for r in records(out).values() for f in r["section"]["figures"]]
    assert page.count("<img ") == len(figures) == 8
    assert "nan" not in re.findall(r"<td[^>]*>.*?</td>", outside)
    for name in FAST:
        assert f'<section id="{name}">' in page


def base64_free(page):
    return re.sub(r"base64,[A-Za-z0-9+/=]+", "", page)


def test_every_caption_says_that_the_run_was_quick(made):
    page = base64_free((made[0] / "index.html").read_text())
    captions = re.findall(r"<(?:fig)?caption>(.*?)</(?:fig)?caption>", page)
    assert len(captions) > 15
    assert all("Quick run" in caption for caption in captions)
    table2 = page[page.index('id="table2"') : page.index('id="initialisation"')]
    assert "the same in a full run" in table2  # Same-32 is not made smaller


def test_no_figure_is_empty(made):
    pillow = pytest.importorskip("PIL.Image")
    paths = sorted((made[0] / "figures").glob("*.png"))
    assert len(paths) == 8
    for path in paths:
        pixels = np.asarray(pillow.open(path).convert("L"), float)
        assert min(pixels.shape) > 300
        assert 0.005 < (pixels < 200).mean() < 0.9, path  # ink, but not all ink
        drawing = path.with_suffix(".svg").read_text()
        assert drawing.count("<path") > 50
        assert "NaN" not in drawing
        assert not re.search(r"href=\"http", drawing)


def test_tables_have_no_hole(made):
    for name, record in records(made[0]).items():
        for table in section_from_json(record["section"]).tables:
            assert all(len(row) == len(table.columns) for row in table.rows), name
            assert all(np.isfinite(x.ours) for _, x in table.values()), name


def test_figures_of_the_paper_stand_beside_ours(made):
    found = {
        name: sum(x.paper is not None for t in section.tables for _, x in t.values())
        for name, section in (
            (n, section_from_json(r["section"])) for n, r in records(made[0]).items()
        )
    }
    assert found.pop("initialisation") in (6, 12)  # without and with the weights of zero-all
    assert found == {
        "overview": 0, "table1": 72 + 6, "table2": 24, "branches": 40, "ablations": 0,
        "motions": 192 + 4, "trajectories": 12, "response": 6,
        "pis3d": 2,
    }  # fmt: skip


def test_structured_model_answers_exactly_as_the_analytic_law(made):
    numbers = records(made[0])["response"]["section"]["numbers"]
    e, mu = numbers["restitution"], numbers["attenuation"]
    assert e["structured"] == pytest.approx(e["values"], abs=1e-6)
    assert mu["structured"] == pytest.approx([1 - x for x in mu["values"]], abs=1e-6)
    assert numbers["mass"]["full"][-1] == pytest.approx(1.0056, abs=1e-4)
    assert e["full"][0] == pytest.approx(-0.0284, abs=0.003)
    assert mu["full"][-1] == pytest.approx(0.0855, abs=0.003)


@pytest.mark.skipif(not CHROMIUM, reason="needs chromium, or NEWTONGS_CHROMIUM")
def test_a_browser_shows_the_page(made, tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    shot = tmp_path / "shot.png"
    subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1200,9000",
            f"--screenshot={shot}", f"file://{made[0] / 'index.html'}",
        ],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    pixels = np.asarray(pillow.open(shot).convert("L"), float)
    bands = pixels[:8000].reshape(8, -1)
    assert (bands.std(1) > 10).all()  # something stands in every part of the page


# --- going on, bad input --------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(measure, "RESAMPLES", 5)


@pytest.mark.slow
def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path, monkeypatch, small):
    said, measured = [], []
    original = ReportRun.predictor

    def predictor(self, method):
        measured.append(method)
        if len(measured) == 4:
            raise KeyboardInterrupt
        return original(self, method)

    monkeypatch.setattr("newtongs.paper.report.run.estimate", lambda *_: 0.0)
    monkeypatch.setattr(ReportRun, "predictor", predictor)
    settings = {"only": ("response", "motions", "pis3d"), "per_motion": 2, "results": RESULTS}
    with pytest.raises(KeyboardInterrupt):
        reproduce(tmp_path, **settings)
    kept = sorted(p.name for p in (tmp_path / "json" / "measured").iterdir())
    assert len(kept) == 3
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "json" / "measured").iterdir()}
    reproduce(tmp_path, **settings, say=said.append)
    assert len(measured) == 4 + 12 - 3  # six methods on two splits, three of them kept
    assert all(path.stat().st_mtime_ns == then for path, then in before.items())
    reproduce(tmp_path, **settings, say=said.append)
    assert "nothing to make, 3 done already" in said[-1]
    assert len(measured) == 13


def test_a_section_is_made_anew_when_its_input_changes(tmp_path, small):
    results, said = tmp_path / "results", []
    shutil.copytree(RESULTS / "training", results / "training")
    settings = {"only": ("ablations", "response"), "per_motion": 2, "results": results}
    reproduce(tmp_path / "out", **settings)
    page = tmp_path / "out" / "index.html"
    assert "newtongs ablations" in page.read_text()  # what to run, since there is no record
    (results / "ablations").mkdir()
    shutil.copy(RESULTS / "state32_seed7301.json", results)
    report = json.loads((RESULTS / "state32_seed7301.json").read_text())
    scores = {split: report[split]["newtongs"] for split in ("val_id", "val_ood")}
    record = {"name": "no_contact", "label": "no contact event", "size": "paper", **scores}
    (results / "ablations" / "no_contact.json").write_text(json.dumps(record))
    reproduce(tmp_path / "out", **settings, say=said.append)
    assert said[0].startswith("to make (1 done already): ablations;")
    assert "no contact event" in page.read_text()


def test_a_measurement_is_kept_for_its_data_and_its_device(tmp_path):
    """Other sequences of the same size, or another device, are measured again."""
    for name, seed in (("a", 0), ("b", 9)):
        state32.build(tmp_path / name, splits=("val_id",), per_motion=2)
        content = torch.load(tmp_path / name / "val_id.pt", weights_only=True)
        content["states"][:, 0, 0] += seed
        torch.save(content, tmp_path / name / "val_id.pt")
    run = ReportRun(tmp_path / "out", data=tmp_path / "a", per_motion=2)
    keys = run._made_with("hold_z0", "val_id")
    report_run.write_json(run.measured_path("hold_z0", "val_id"), {"made_with": keys})
    assert run.record("hold_z0", "val_id") is not None
    assert replace(run, data=tmp_path / "b").record("hold_z0", "val_id") is None
    assert replace(run, device="cuda").record("hold_z0", "val_id") is None
    shutil.copytree(tmp_path / "a", tmp_path / "c")  # the content counts, not its place
    assert replace(run, data=tmp_path / "c").record("hold_z0", "val_id") is not None


def test_pictures_of_our_model_alone_do_not_depend_on_clips(tmp_path):
    plain, clips = ReportRun(tmp_path), ReportRun(tmp_path, videos=tmp_path)
    for name in ("main_figure", "panels", "gallery"):
        assert specs()[name].inputs(plain) == specs()[name].inputs(clips)
    assert specs()["strips"].inputs(plain) != specs()["strips"].inputs(clips)


def test_a_folder_called_results_changes_nothing(tmp_path, monkeypatch):
    """The records come with the package; one in the working directory emptied the report."""
    (tmp_path / "results").mkdir()
    monkeypatch.chdir(tmp_path)
    reproduce(tmp_path / "out", only=["ablations"], per_motion=2)
    record = json.loads((tmp_path / "out" / "json" / "ablations.json").read_text())
    assert not record["section"]["missing"]
    assert len(record["section"]["numbers"]["rows"]) > 8


def test_without_training_records_the_section_says_what_to_run(tmp_path):
    (tmp_path / "nothing").mkdir()
    reproduce(tmp_path / "out", only=["initialisation"], per_motion=2, results=tmp_path / "nothing")
    page = (tmp_path / "out" / "index.html").read_text()
    assert "--model.init zero-all" in page
    assert "metrics.jsonl" in page


def test_with_the_weights_of_zero_all_everything_is_measured(tmp_path, monkeypatch, small):
    shutil.copytree(report_run.CHECKPOINTS, tmp_path / "weights")
    weights = tmp_path / "weights" / "state32_zero_all_seed7301.safetensors"
    save_model(weights, GaussianNND(NNDConfig(init="zero-all")), {})
    monkeypatch.setattr(report_run, "CHECKPOINTS", tmp_path / "weights")
    reproduce(tmp_path / "out", only=["initialisation"], per_motion=2, results=RESULTS)
    record = json.loads((tmp_path / "out" / "json" / "initialisation.json").read_text())
    section = section_from_json(record["section"])
    assert not section.missing
    assert sum(x.paper is not None for t in section.tables for _, x in t.values()) == 12
    measured = json.loads((tmp_path / "out/json/measured/zero_all_val_ood.json").read_text())
    ours = json.loads((tmp_path / "out/json/measured/newtongs_7301_val_ood.json").read_text())
    before, after = (x["scores"]["fde"] for x in (measured, ours))
    reduction = section.numbers["reduction_percent"]["val_ood"]["fde"]
    assert reduction == pytest.approx(100 * (before - after) / before)


def test_splits_of_another_size_are_told_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr("newtongs.paper.report.run.estimate", lambda *_: 0.0)
    state32.build(tmp_path / "data", splits=("val_id",), per_motion=1)
    settings = {"per_motion": 2, "data": tmp_path / "data", "results": RESULTS}
    with pytest.raises(InputError, match=r"val_id.pt has 32 sequences, 64 were requested"):
        reproduce(tmp_path / "out", only=["response", "motions"], **settings)
    assert not (tmp_path / "out" / "json").exists()


@pytest.mark.slow
def test_bad_input_of_one_section_spares_the_others(tmp_path, capsys):
    training = tmp_path / "results" / "training"
    training.mkdir(parents=True)
    (training / "zero_all_seed7301.jsonl").write_text("no json\n")
    (training / "seed7301.jsonl").write_text("{}\n")
    with pytest.raises(SystemExit) as stop:
        main(
            [
                "reproduce", "--out", str(tmp_path / "out"), "--only", "initialisation", "response",
                "--results", str(tmp_path / "results"),
            ]
        )  # fmt: skip
    assert stop.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "zero_all_seed7301.jsonl is not a record of newtongs train" in lines[0]
    page = (tmp_path / "out" / "index.html").read_text()
    assert "could not be made" in page
    assert (tmp_path / "out" / "json" / "response.json").is_file()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--only", "tabel1"], "did you mean table1"),
        (["--l4gm", "nowhere"], "--l4gm: no folder nowhere"),
        (["--device", "gpu7"], "gpu7"),
    ],
)
def test_wrong_words_are_one_line_before_any_work(tmp_path, capsys, words, expected):
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "--out", str(tmp_path / "out"), *words])
    assert stop.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert expected in lines[0]
    assert not (tmp_path / "out").exists()


def test_the_list_names_every_section_in_the_papers_order(capsys):
    main(["reproduce", "--list"])
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == list(specs())
    assert [n for n in names if n in FAST] == list(FAST)


def test_a_small_page_has_the_same_pictures_in_fewer_bytes(tmp_path):
    pages = {}
    for small in (False, True):
        reproduce(tmp_path, only=["strips"], quick=True, results=RESULTS, small=small)
        pages[small] = (tmp_path / "index.html").read_text()
    assert pages[True].count("<img ") == pages[False].count("<img ") > 0
    assert len(pages[True]) < 0.9 * len(pages[False])
    plain, small = (
        [np.asarray(Image.open(io.BytesIO(base64.b64decode(x))).convert("RGB")) for x in found]
        for found in (re.findall(r"base64,([A-Za-z0-9+/=]+)", pages[k]) for k in (False, True))
    )
    for a, b in zip(plain, small, strict=True):
        assert (a == b).all()  # no colour changes by a single step
    assert "lossless" in pages[True][pages[True].index("<footer") :]


def test_the_three_runs_on_the_terminal(made, capsys):
    from rich.console import Console

    from newtongs.paper.report.run import kept_tables

    for table in kept_tables(made[0], "table1"):
        Console(width=200).print(table)
    said = capsys.readouterr().out
    runs = records(made[0])["table1"]["section"]["tables"][0]["rows"][5]
    assert runs[1] == "NewtonGS"
    assert f"{runs[2]['ours']:.4f}* ±{runs[2]['spread']:.4f}" in said
    assert "3.1669" in said  # the paper's
    assert said.count("run 7302") == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in specs() if n not in FAST])
def test_sections_that_draw_gaussians(tmp_path, name):
    reproduce(tmp_path, only=[name], quick=True, results=RESULTS)
    page = (tmp_path / "index.html").read_text()
    section = json.loads((tmp_path / "json" / f"{name}.json").read_text())["section"]
    assert "Quick run" in page
    drawn = re.findall(r"<img [^>]*?data:image/\w+;base64,([^\"]+)", page)
    assert len(drawn) == len(section["figures"])
    for picture in drawn:
        with Image.open(io.BytesIO(base64.b64decode(picture))) as opened:
            low, high = opened.convert("L").getextrema()
        assert high - low > 50  # something is in it
    for table in section["tables"]:
        assert table["rows"]
        assert all(str(row[0]) in page for row in table["rows"])
    assert section["figures"] or section["tables"]


# --- measuring ------------------------------------------------------------------------------------


def split_of(n):
    made = [motions.generate(name, n, seed=5) for name in motions.STATE32]
    # As a file has them: shard by shard, and in a shard motion by motion.
    states = torch.stack([x.states for x in made], 1).flatten(0, 1)
    index = torch.arange(32).repeat(n)
    return State32(Path("x"), "val_id", states, index, tuple(motions.STATE32), motions.DT)


def test_measuring_by_shards_is_evaluating(monkeypatch):
    monkeypatch.setattr(measure, "RESAMPLES", 3)
    split = split_of(5)
    names = ("hold_z0", "physics_prior_se3")
    report = evaluate({"val_id": split}, splits=("val_id",), methods=names)["val_id"]
    for name in names:
        found = measure.measure(split, BASELINES[name])
        for metric, value in found["scores"].items():
            assert value == pytest.approx(report[name][metric], rel=1e-12, abs=1e-15)
        for motion, row in report[name]["per_motion"].items():
            for metric, value in row.items():
                assert found["per_motion"][motion][metric] == pytest.approx(value, rel=1e-12)


def test_lowest_sequences_are_the_lowest():
    split = split_of(6)
    found = measure.measure(split, physics_prior_se3)["lowest"]
    predicted = physics_prior_se3(split.states[:, 0], split.times)
    traj = sequence_terms(predicted, split.states)["traj"].sqrt()
    for i, name in enumerate(motions.STATE32):
        row = found[name]
        assert traj[int(row["index"])].item() == pytest.approx(row["traj"])
        assert row["traj"] == pytest.approx(traj[split.motion_indices == i].min().item())


def test_resampling_gives_the_standard_error(monkeypatch):
    """Against the delta method, over sequences drawn motion by motion."""
    split = split_of(32)
    found = measure.measure(split, physics_prior_se3)["error"]["traj"]
    predicted = physics_prior_se3(split.states[:, 0], split.times)
    rows = sequence_terms(predicted, split.states)["traj"].view(32, 32)  # shard, motion
    error = (rows.var(0).mean() / rows.numel()).sqrt() / (2 * rows.mean().sqrt())
    assert found == pytest.approx(error.item(), rel=0.35)


# --- words ----------------------------------------------------------------------------------------


def test_deviations():
    x = Value(1.01, 1.0, error=0.001)
    assert x.percent == pytest.approx(1)
    assert x.errors == pytest.approx((0.01 - 0.00005) / 0.001)
    assert Value(1.0).percent is None
    assert Value(1.0, 0.0).percent is None
    assert number(-1.5, 2) == "−1.50"


def test_sentences_tell_near_from_far():
    near, far = Value(1.001, 1.0, error=0.01), Value(1.1, 1.0, error=0.01)
    assert "1 of 2 figures lie within 0.5 %" in within([("a", near), ("b", far)], "figures")
    assert "b with +10.00 %" in within([("a", near), ("b", far)], "figures")
    assert "that explains them" in unexplained([("a", near)], "Because.")[0]
    assert unexplained([("a", near), ("b", far)], "Because.")[0].endswith("Because.")
    assert unexplained([("a", replace(near, error=None))], "Because.") == []


def test_a_table_names_its_figures():
    table = Table("t", ["Split", "Method", "Traj"], [["ID", "Hold", Value(1.0, 2.0)]])
    assert table.values() == [("ID Hold Traj", Value(1.0, 2.0))]


def test_a_table_on_the_terminal_and_on_a_page():
    """Best figures are marked, a row without a name continues the one above, text is escaped."""
    values = [Value(1.0, 2.0, best=True), Value(3.0, spread=0.5), Value(10.0, 8.0, 1, unit="%")]
    rows = [["[a] <b>", *values], ["", "+1.00 %", "", "failed"]]
    table = Table("[t]", ["Name", "x", "y", "z"], rows, "<note>")
    shown = table.terminal(title="[other]")
    cells = [[*column.cells] for column in shown.columns]
    assert [column.justify for column in shown.columns] == ["left", "right", "right", "right"]
    assert cells[0] == [r"\[a] <b>", ""]
    assert cells[1] == ["[bold]1.0000*[/]\n[dim]2.0000 -50.00%[/] ", "+1.00 %"]
    assert cells[2][0] == "3.0000  ±0.5000"
    assert cells[3] == ["10.0 \n[dim]8.0 +2.0 points[/] ", "failed"]
    page = table.html("quick")
    assert "[t]. quick" in page
    assert "&lt;note&gt;" in page
    assert '<td class="text">[a] &lt;b&gt;</td>' in page
    assert '<span class="ours best">1.0000</span>' in page


def test_an_embedded_picture_is_the_one_on_disk(made):
    out, _ = made
    page = (out / "index.html").read_text()
    embedded = {base64.b64decode(x) for x in re.findall(r"base64,([A-Za-z0-9+/=]+)", page)}
    assert (out / "figures" / "pis3d.svg").read_bytes() in embedded


def test_a_report_needs_room_to_write(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "--out", str(tmp_path / "file")])
    assert stop.value.code == 2
