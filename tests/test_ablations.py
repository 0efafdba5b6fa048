"""Ablations: what each changes, the command that trains them, and their table."""

import json
from dataclasses import asdict, fields

import pytest
import torch

from newtongs import GaussianNND, cli, load_model, load_pretrained
from newtongs.base.checkpoints import save_tensors
from newtongs.base.errors import InputError
from newtongs.base.runs import DivergedError
from newtongs.cli.ablations import SIZES, Size, settings
from newtongs.dynamics import NNDConfig
from newtongs.dynamics.weights import ablated, describe, save_model
from newtongs.paper import training
from newtongs.paper.evaluation.ablations import ABLATIONS, FULL, ablation_table, table
from newtongs.paper.evaluation.tables import RECORDS, paper
from newtongs.paper.training import LossWeights, objective

METRICS = ("traj", "fde", "vel", "quat", "scale", "plane_violation", "penetration_mse")


# --- which there are -----------------------------------------------------------------------------


@pytest.mark.parametrize("ablation", ABLATIONS.values(), ids=ABLATIONS)
def test_an_ablation_changes_what_it_says_and_nothing_else(tmp_path, ablation):
    plain, changed = (
        asdict(settings(a, "paper", tmp_path, tmp_path, "cpu")) for a in (FULL, ablation)
    )
    for part, default in (("model", NNDConfig()), ("loss", LossWeights())):
        before, after = plain.pop(part), changed.pop(part)
        assert before == asdict(default)
        assert {k: v for k, v in after.items() if v != before[k]} == dict(getattr(ablation, part))
    assert plain == changed
    assert ablation.model or ablation.loss


def test_every_term_of_the_loss_has_its_ablation():
    removed = {name for a in ABLATIONS.values() for name in a.loss}
    assert removed == {f.name for f in fields(LossWeights)} - {"material"}


@pytest.mark.parametrize(
    "ablation", [a for a in ABLATIONS.values() if a.loss], ids=lambda a: a.name
)
def test_a_removed_term_has_no_part_in_the_gradient(ablation):
    g = torch.Generator().manual_seed(0)
    target = torch.randn(3, 6, 22, generator=g, dtype=torch.float64)
    z = torch.randn(3, 6, 22, generator=g, dtype=torch.float64, requires_grad=True)

    def gradient(weights, name="total"):
        return torch.autograd.grad(objective(z, target, weights)[name], z)[0]

    ((name, weight),) = ablation.loss.items()
    assert weight == 0
    whole, without = gradient(LossWeights()), gradient(LossWeights(**ablation.loss))
    part = getattr(LossWeights(), name) * gradient(LossWeights(), name)
    assert part.abs().max() > 1e-4
    torch.testing.assert_close(whole - part, without)


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """The laptop's size, made smaller still, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    small = Size(1, {"epochs": 2, "updates_per_epoch": 2, "lr": 1e-3})
    monkeypatch.setitem(SIZES, "laptop", small)
    full = {split: {"newtongs": scores(2.0)} for split in ("val_id", "val_ood")}
    write(tmp_path / "full.json", full)
    return ["ablations", "--size", "laptop", "--full", "full.json"]


def scores(value):
    return dict.fromkeys(METRICS, value)


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


@pytest.mark.slow
def test_the_command_trains_evaluates_and_goes_on(tiny, tmp_path, capsys, monkeypatch):
    trained = []
    train = training.train

    def noted(config, **options):
        trained.append(config.out.name)
        return train(config, **options)

    monkeypatch.setattr(training, "train", noted)
    cli.main([*tiny, "--only", "euler"])
    assert trained == ["full", "euler"]
    result = json.loads((tmp_path / "runs/ablations/results/laptop/euler.json").read_text())
    assert (result["name"], result["size"], result["epochs"]) == ("euler", "laptop", 2)
    assert result["sequences"] == 32
    assert result["changes"] == {"model": {"solver": "euler"}, "loss": {}}
    assert result["training"]["model"]["solver"] == "euler"
    assert result["failed"] is None
    assert result["seconds"] > 0
    assert result["best_epoch"] in (1, 2)
    for split in ("val_id", "val_ood"):
        assert 0 < result[split]["traj"] < 100
        assert len(result[split]["per_motion"]) == 32
    said = capsys.readouterr().out
    assert "Euler in place of RK4 (laptop)" in said
    cli.main([*tiny, "--only", "euler", "no_penetration"])
    assert trained == ["full", "euler", "no_penetration"]  # what is finished stays
    again = json.loads((tmp_path / "runs/ablations/results/laptop/euler.json").read_text())
    assert again == result


@pytest.mark.slow
def test_a_run_that_diverges_is_a_result(tiny, tmp_path, monkeypatch):
    def diverging(config, **options):
        raise DivergedError("loss nan at epoch 1")

    train = training.train
    cli.main([*tiny, "--only", "full"])
    monkeypatch.setattr(training, "train", diverging)
    cli.main([*tiny, "--only", "no_prior"])
    monkeypatch.setattr(training, "train", train)
    row = table(tmp_path / "runs/ablations/results", tmp_path / "full.json")[-1]
    assert (row["name"], row["failed"]) == ("no_prior", "loss nan at epoch 1")
    assert row["change"] == {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "no_friction"], "unknown ablation 'no_friction'"),
        (["--full", "nothing.json"], "cannot read nothing.json"),
        (["--out", "full.json"], "is not a writable folder"),
    ],
)
def test_what_cannot_work_is_said_before_the_work(tiny, capsys, words, message):
    with pytest.raises(SystemExit) as stop:
        cli.main([*tiny, *words])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_listing_and_showing_create_nothing(capsys, tmp_path, monkeypatch):
    """Neither the folder of the results nor a lock; shown are the shipped records."""
    monkeypatch.chdir(tmp_path)
    cli.main(["ablations", "--list"])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(ABLATIONS)
    cli.main(["ablations", "--show"])
    said = capsys.readouterr().out
    assert "full model" in said
    assert ABLATIONS["no_contact"].label in said
    cli.main(["reproduce", "--list"])
    assert not list(tmp_path.iterdir())


def test_own_results_come_before_the_shipped_ones(tmp_path):
    write(tmp_path / "euler.json", row("euler", "paper", 7.0))
    rows = {r["name"]: r for r in table(tmp_path, shipped=RECORDS) if r["size"] == "paper"}
    shipped = {r["name"]: r for r in table() if r["size"] == "paper"}
    assert rows.keys() == shipped.keys()
    assert rows["euler"]["val_id"]["traj"] == 7.0
    assert rows["no_contact"] == shipped["no_contact"]
    for name in ("full", "no_contact"):
        write(tmp_path / "laptop" / f"{name}.json", row(name, "laptop", 3.0))
    small = [r["name"] for r in table(tmp_path, shipped=RECORDS) if r["size"] == "laptop"]
    assert small == ["full", "no_contact"]


# --- without training anew -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("event", {"contact": False}),
        ("euler", {"solver": "euler"}),
        ("max_dt=1/15", {"max_dt": 1 / 15}),
        ("max_dt=0.02", {"max_dt": 0.02}),
    ],
)
def test_a_part_taken_from_a_trained_model_is_a_setting(name, change):
    model = load_pretrained()
    weights = {k: x.clone() for k, x in model.state_dict().items()}
    assert ablated(model, name).config == NNDConfig(**change)
    assert all(torch.equal(x, weights[k]) for k, x in model.state_dict().items())


def test_several_parts_at_once():
    model = ablated(load_pretrained(), "contact", "euler", "event")
    assert model.config == NNDConfig(solver="euler", contact=False)
    assert not any(p.any() for p in model.h_phi.parameters())
    assert all(p.any() for p in model.f_theta.parameters())
    for wrong in ("floor", "max_dt=x", "max_dt=1/0", "max_dt=-1", "max_dt=nan"):
        with pytest.raises(InputError):
            ablated(load_pretrained(), wrong)


PLAIN = ["evaluate", "--splits", "val_id", "--methods", "hold_z0", "--checkpoint", "pretrained"]


@pytest.mark.parametrize(
    ("removed", "variant"),
    [
        ("contact", "no_contact_residual"),
        ("continuous", "no_continuous_residual"),
        ("contact,continuous", "no_residual_branches"),
    ],
)
@pytest.mark.slow
def test_compared_with_the_papers_branch_table(small_state32, capsys, removed, variant):
    words = ["--data", str(small_state32), "--compare", "--per-motion"]
    cli.main([*PLAIN, *words, "--ablate", removed])
    said = capsys.readouterr().out
    branch = paper()["branches"]["val_id"][variant]
    assert all(f"{branch[metric]:.4f}" in said for metric in ("traj", "fde", "vel"))
    full = paper()["state32"]["val_id"]["newtongs"]
    assert not any(f"{full[metric]:.4f}" in said for metric in ("traj", "fde", "vel"))
    assert "10.282" not in said  # the full model on projectiles
    assert f"ablated, not retrained: {removed.replace(',', ', ')}" in said


def test_what_the_paper_has_no_figures_for_is_compared_with_nothing(small_state32, capsys):
    cli.main([*PLAIN, "--data", str(small_state32), "--compare", "--ablate", "event"])
    said = capsys.readouterr().out
    assert "NewtonGS, ablated" in said
    assert said.count("%") == 6  # of the baseline


# --- checkpoints ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ablation", [a for a in ABLATIONS.values() if a.model], ids=lambda a: a.name
)
def test_a_checkpoint_carries_its_configuration(tmp_path, ablation):
    model = GaussianNND(NNDConfig(hidden=8, **ablation.model))
    save_model(tmp_path / "x.safetensors", model, {})
    assert load_model(tmp_path / "x.safetensors").config == model.config
    # A file from before a setting existed is of a model that had its default.
    description = describe(model, {})
    del description["model"]["prior"], description["model"]["bounded"]
    save_tensors(tmp_path / "old.safetensors", model.state_dict(), description)
    old = load_model(tmp_path / "old.safetensors").config
    assert (old.prior, old.bounded, old.solver) == (True, True, model.config.solver)


# --- the table -----------------------------------------------------------------------------------


def row(name, size, value):
    label = (FULL if name == "full" else ABLATIONS[name]).label
    both = {split: scores(value) for split in ("val_id", "val_ood")}
    return {"name": name, "label": label, "size": size, "failed": None, **both}


def test_the_table(tmp_path):
    full = tmp_path / "full.json"
    write(full, {s: {"newtongs": scores(2.0) | {"per_motion": {}}} for s in ("val_id", "val_ood")})
    for name, size, value in (
        ("euler", "paper", 2.2), ("no_prior", "paper", 3.0), ("full", "laptop", 4.0),
        ("euler", "laptop", 5.0), ("no_scale", "laptop", 3.0),
    ):  # fmt: skip
        folder = tmp_path / "out" if size == "paper" else tmp_path / "out" / "laptop"
        write(folder / f"{name}.json", row(name, size, value))
    rows = table(tmp_path / "out", full)
    assert [(r["name"], r["size"]) for r in rows] == [
        ("full", "paper"), ("no_prior", "paper"), ("euler", "paper"),
        ("full", "laptop"), ("no_scale", "laptop"),
    ]  # fmt: skip
    change = [r["change"]["val_ood"]["traj"] for r in rows]
    assert change == pytest.approx([0, 50, 10, 0, -25])
    assert json.loads(json.dumps(rows)) == rows
    shown = ablation_table(rows, "val_id").rows
    assert [name for name, *_ in shown if name] == [
        "full model", ABLATIONS["no_prior"].label, "Euler in place of RK4", "full model (laptop)",
        ABLATIONS["no_scale"].label + " (laptop)",
    ]  # fmt: skip
    assert [cells[1] for cells in shown if not cells[0]] == ["+50.00 %", "+10.00 %", "-25.00 %"]


def test_a_table_without_its_files(tmp_path):
    with pytest.raises(InputError, match="no metrics of the full model"):
        table(tmp_path, tmp_path / "full.json")
    write(tmp_path / "full.json", {})
    assert [r["name"] for r in table(tmp_path / "none", tmp_path / "full.json")] == ["full"]
    (tmp_path / "euler.json").write_text("{")
    with pytest.raises(InputError, match=r"euler\.json is not a result"):
        table(tmp_path, tmp_path / "full.json")
