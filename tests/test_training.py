"""The objective against a slow loop, and runs that survive every kind of interruption."""

import copy
import json
import math
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from newtongs import GaussianNND, NNDConfig, load_model, load_pretrained, motions
from newtongs.base.checkpoints import load_tensors
from newtongs.base.errors import InputError
from newtongs.base.ranks import Ranks
from newtongs.base.runs import identity
from newtongs.base.state import LAYOUT
from newtongs.cli import app, main
from newtongs.dynamics.weights import remove_branches
from newtongs.paper.training import LossWeights, TrainConfig, loop, objective, train
from newtongs.paper.training.loop import permutation
from newtongs.paper.training.loss import term_names
from newtongs.paper.training.update import CompiledUpdate, ReferenceUpdate, make_update

SMALL = NNDConfig(hidden=16)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two sequences of each motion, eight frames long."""
    folder = tmp_path_factory.mktemp("short")
    names = list(motions.STATE32)
    for split, seed in (("train", 1), ("val_id", 2)):
        states = [motions.generate(name, 2, seed=seed).states[:, :8] for name in names]
        content = {
            "states": torch.cat(states).contiguous(),
            "motion_indices": torch.arange(32).repeat_interleave(2),
            "motion_type_names": names,
            "dt": 1 / 24,
            "split": split,
        }
        torch.save(content, folder / f"{split}.pt")
    return folder


def config(data, out, **changes):
    settings = {"epochs": 3, "updates_per_epoch": 4, "lr": 2e-3, "checkpoint_every": 2}
    return TrainConfig(data=data, out=out, **{"model": SMALL, **settings, **changes})


# --- objective -----------------------------------------------------------------------------------


def test_objective_against_a_slow_loop():
    g = torch.Generator().manual_seed(0)
    predicted, target = (torch.randn(3, 5, 22, generator=g, dtype=torch.float64) for _ in range(2))
    p, t = predicted.numpy(), target.numpy()
    terms = dict.fromkeys(("p", "v", "w", "s", "u", "q", "penetration", "material"), 0.0)
    for b in range(3):
        for k in range(5):
            for name in ("p", "v", "w", "s", "u"):
                d = p[b, k, LAYOUT[name]] - t[b, k, LAYOUT[name]]
                terms[name] += (d @ d) / (3 * 5 * 3)
            a, c = (x[b, k, LAYOUT["q"]] / np.linalg.norm(x[b, k, LAYOUT["q"]]) for x in (p, t))
            terms["q"] += (1 - abs(a @ c) ** 2) / 15
            terms["penetration"] += max(0.0, abs(p[b, k, 14]) - p[b, k, 1]) ** 2 / 15
            material = p[b, k, 19:] - t[b, k, 19:]
            terms["material"] += (material @ material) / (3 * 5 * 3)
    curvature = {
        name: np.mean((x[:, 2:] - 2 * x[:, 1:-1] + x[:, :-2]) ** 2)
        for name, x in ((n, p[..., LAYOUT[n]]) for n in ("p", "s"))
    }
    terms["smooth"] = curvature["p"] + 0.1 * curvature["s"]
    weights = {"p": 1, "q": 0.25, "v": 0.5, "w": 0.2, "s": 0.2, "u": 0.1}
    weights |= {"penetration": 0.05, "smooth": 0.01}
    total = sum(weight * terms[name] for name, weight in weights.items())
    ours = objective(predicted, target, LossWeights())
    assert list(ours) == term_names(LossWeights())
    for name in weights:
        assert ours[name].item() == pytest.approx(terms[name], rel=1e-12), name
    assert ours["total"].item() == pytest.approx(total, rel=1e-12)
    heavy = objective(predicted, target, LossWeights(material=2.0))
    assert heavy["total"].item() == pytest.approx(total + 2 * terms["material"], rel=1e-12)


def test_objective_is_blind_to_the_sign_of_a_quaternion():
    z = motions.generate("tumbling_fall", 4, seed=1).states
    flipped = z.clone()
    flipped[..., LAYOUT["q"]] *= -1
    assert objective(z, flipped, LossWeights())["total"].item() < 1e-2
    torch.testing.assert_close(
        objective(flipped, z, LossWeights())["q"], objective(z, z, LossWeights())["q"]
    )


# --- the loop ------------------------------------------------------------------------------------


def test_defaults_are_the_papers(tmp_path):
    c = TrainConfig(data=tmp_path, out=tmp_path)
    assert (c.seed, c.epochs, c.updates_per_epoch, c.lr, c.lr_min) == (7301, 100, 16, 1e-4, 1e-6)
    assert (c.weight_decay, c.checkpoint_every) == (0.01, 5)
    assert c.loss == LossWeights(1.0, 0.25, 0.5, 0.2, 0.2, 0.1, 0.0, 0.05, 0.01)
    assert c.model == NNDConfig()


def read_metrics(out):
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


def test_a_run_learns_and_records(data, tmp_path):
    best = train(config(data, tmp_path, epochs=5))
    rows = read_metrics(tmp_path)
    assert [r["epoch"] for r in rows] == [1, 2, 3, 4, 5]
    assert rows[-1]["total"] < rows[0]["total"]
    assert [r["epoch"] for r in rows if "val_total" in r] == [1, 2, 4, 5]
    for e in range(5):  # cosine from lr to lr_min over the epochs
        expected = 1e-6 + (2e-3 - 1e-6) * (1 + math.cos(math.pi * e / 5)) / 2
        assert rows[e]["lr"] == pytest.approx(expected, rel=1e-9)
    kept = sorted(p.name for p in tmp_path.glob("epoch_*.safetensors"))
    assert kept == [f"epoch_00{e}.safetensors" for e in (1, 2, 4, 5)]
    tensors, info = load_tensors(best)
    lowest = min((r["val_total"], r["epoch"]) for r in rows if "val_total" in r)
    assert (info["metrics"]["val_total"], info["metrics"]["epoch"]) == lowest
    assert info["training"] == json.loads(json.dumps(identity(config(data, tmp_path, epochs=5))))
    model = load_model(best)
    assert model.config == SMALL
    assert all(torch.equal(tensors[k], x) for k, x in model.state_dict().items())


def test_every_sequence_is_seen_once_an_epoch():
    order = permutation(64, 7301 + 3)
    assert sorted(order.tolist()) == list(range(64))
    assert torch.equal(order, permutation(64, 7304))
    assert not torch.equal(order, permutation(64, 7305))


def test_micro_batches_give_the_whole_batch(data, tmp_path):
    train(config(data, tmp_path / "a", epochs=1))
    train(config(data, tmp_path / "b", epochs=1, micro_batch=5))
    a, b = (load_model(tmp_path / x / "best.safetensors").state_dict() for x in "ab")
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=1e-3, atol=1e-5)


class StopError(Exception):
    pass


@pytest.mark.slow
def test_stopped_anywhere_it_ends_bit_identical(data, tmp_path):
    """Killed after every possible update, a run ends in the bytes of the uninterrupted one."""
    whole = tmp_path / "whole"
    train(config(data, whole))
    out = tmp_path / "parts"

    def bomb(limit):
        calls = []

        def progress(*_):
            calls.append(1)
            if len(calls) == limit:
                raise StopError

        return progress

    for limit in (1, 3, 4, 6, 2, 5, 7):
        try:
            train(config(data, out), progress=bomb(limit))
            break
        except StopError:
            pass
    train(config(data, out))
    for name in ("best", "last", "epoch_001", "epoch_002", "epoch_003"):
        a, b = (load_tensors(folder / f"{name}.safetensors") for folder in (whole, out))
        assert a[1] == b[1], name
        assert a[0].keys() == b[0].keys()
        assert all(torch.equal(a[0][k], b[0][k]) for k in a[0]), name
    assert read_metrics(whole) == read_metrics(out)


RUN = """
import sys
from pathlib import Path
from newtongs import NNDConfig
from newtongs.paper.training import Interrupted, TrainConfig, train
data, out, epochs = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
config = TrainConfig(data=data, out=out, epochs=epochs, updates_per_epoch=4, lr=2e-3,
                     checkpoint_every=2, model=NNDConfig(hidden=16), **dict(
                         word.split("=") for word in sys.argv[4:]))
try:
    train(config, progress=lambda at, terms, c: print(at.epoch, at.update, flush=True))
except Interrupted:
    sys.exit(130)
"""


def start(data, out, epochs):
    command = [sys.executable, "-c", RUN, str(data), str(out), str(epochs)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 130), (signal.SIGKILL, -9)])
def test_signals_leave_a_run_that_resumes(data, tmp_path, number, code):
    whole = tmp_path / "whole"
    train(config(data, whole, epochs=6))
    process = start(data, tmp_path / "cut", 6)
    for line in process.stdout:
        if line.split() == ["3", "2"]:
            process.send_signal(number)
            break
    process.stdout.read()
    assert process.wait(60) == code
    if number == signal.SIGTERM:  # saved at once, in the middle of an epoch
        position = load_tensors(tmp_path / "cut" / "last.safetensors")[1]["position"]
        assert (position["epoch"], position["update"]) in ((3, 2), (3, 3), (3, 4), (4, 0))
    time.sleep(0.1)
    train(config(data, tmp_path / "cut", epochs=6))
    a, b = (load_tensors(tmp_path / x / "last.safetensors")[0] for x in ("whole", "cut"))
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert read_metrics(whole) == read_metrics(tmp_path / "cut")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_two_ranks_give_the_one_rank_result(data, tmp_path, backend):
    train(config(data, tmp_path / "one", epochs=2, backend=backend))
    script = tmp_path / "run.py"
    script.write_text(RUN)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    command += ["--master-port=29617", str(script), str(data), str(tmp_path / "two"), "2"]
    command.append(f"backend={backend}")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-8000:]
    one, two = (read_metrics(tmp_path / x) for x in ("one", "two"))
    assert len(one) == len(two) == 2
    for a, b in zip(one, two, strict=True):
        for name in a:
            assert a[name] == pytest.approx(b[name], rel=1e-4), name
    models = [load_model(tmp_path / x / "last.safetensors").state_dict() for x in ("one", "two")]
    for name in models[0]:
        torch.testing.assert_close(models[0][name], models[1][name], rtol=1e-3, atol=1e-5)


# --- what can go wrong ---------------------------------------------------------------------------


def test_another_run_in_the_folder_is_refused(data, tmp_path):
    train(config(data, tmp_path, epochs=1))
    with pytest.raises(InputError, match=r"holds a run with lr = 0\.002, this one has 0\.02"):
        train(config(data, tmp_path, epochs=1, lr=2e-2))


def test_other_data_are_refused(data, tmp_path):
    train(config(data, tmp_path / "run", epochs=1))
    content = torch.load(data / "train.pt", weights_only=True)
    content["states"] = content["states"] + 1
    torch.save(content, tmp_path / "train.pt")
    (tmp_path / "val_id.pt").write_bytes((data / "val_id.pt").read_bytes())
    with pytest.raises(InputError, match="other training data"):
        train(config(tmp_path, tmp_path / "run", epochs=1))


def test_steps_that_are_too_large_stop_the_run(data, tmp_path):
    with pytest.raises(InputError, match=r"at epoch 1, update \d: not finite"):
        train(config(data, tmp_path, lr=1e30))
    assert not list(tmp_path.glob("*.safetensors"))


class Spoiled:
    """An update that yields no number the sixth time, in the loss or in the gradient."""

    def __init__(self, update, model, what):
        self.update, self.model, self.what, self.calls = update, model, what, 0
        self.predict = update.predict

    def __call__(self, target, batch):
        terms = self.update(target, batch)
        self.calls += 1
        if self.calls == 6 and self.what == "loss":
            return {**terms, "total": math.nan}
        if self.calls == 6:
            next(self.model.parameters()).grad.fill_(math.inf)
        return terms


@pytest.mark.slow
@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_a_run_stopped_by_what_is_no_number_keeps_the_epoch_before(data, tmp_path, what):
    def spoiled(model, *given):
        return Spoiled(make_update(model, *given), model, what)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "make_update", spoiled)
        with pytest.raises(InputError, match=r"at epoch 2, update 2: not finite; .*last\."):
            train(config(data, tmp_path / "spoiled"))
    tensors, info = load_tensors(tmp_path / "spoiled" / "last.safetensors")
    assert (info["position"]["epoch"], info["position"]["update"]) == (2, 0)
    assert all(torch.isfinite(x.float()).all() for x in tensors.values())
    ends = [load_model(train(config(data, tmp_path / x))) for x in ("spoiled", "whole")]
    for a, b in zip(*(model.parameters() for model in ends), strict=True):
        assert torch.equal(a, b)


def fake_tensorboard(monkeypatch):
    """As if the package were installed; every scalar written is kept, and every file opened."""
    written, opened = [], []

    class SummaryWriter:
        def __init__(self, folder):
            self.folder = folder
            opened.append(folder)

        def flush(self):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def add_scalar(self, *what):
            written.append((Path(self.folder).name, *what))

    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = SummaryWriter
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    monkeypatch.setattr(loop, "find_spec", lambda name: name)
    return written, opened


def test_tensorboard_is_written_only_when_asked_for(data, tmp_path, monkeypatch, capsys):
    if find_spec("tensorboard") is None:
        words = ["train", "--data", str(data), "--out", str(tmp_path / "none"), "--tensorboard"]
        with pytest.raises(SystemExit):
            main(words)
        assert "pip install tensorboard" in capsys.readouterr().err
        assert not (tmp_path / "none").exists()
    written, opened = fake_tensorboard(monkeypatch)
    train(config(data, tmp_path / "a", epochs=1))
    assert not written
    train(config(data, tmp_path / "b", epochs=2, tensorboard=True))
    assert ("tensorboard", "total", read_metrics(tmp_path / "b")[1]["total"], 2) in written
    assert len(opened) == 1  # one file of events for a run, not one for each epoch


def test_settings_that_cannot_work(data, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="fewer than the 100 updates"):
        train(config(data, tmp_path, updates_per_epoch=100))
    with pytest.raises(InputError, match="the cuda backend needs a CUDA device"):
        train(config(data, tmp_path, backend="cuda"))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(InputError, match="the compile backend needs a C"):
        train(config(data, tmp_path, backend="compile"))


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"contact": False, "solver": "euler"}], ids=str)
def test_a_compiled_update_is_the_references(tmp_path, changes, monkeypatch):
    """Against float64: of its gradient 3e-5 are rounding, as for the reference in float32."""
    monkeypatch.setattr(CompiledUpdate, "WORTHWHILE", 0)
    times, group = torch.arange(6) / 24, Ranks(0, 1, torch.device("cpu"))
    settings = config(tmp_path, tmp_path, backend="compile", micro_batch=16)
    model = GaussianNND(NNDConfig(hidden=37, **changes))
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.15)
    exact = copy.deepcopy(model).double()
    states = [motions.generate(name, 1, seed=3).states[:, :6] for name in motions.STATE32]
    target = torch.cat(states)
    made = make_update(model, times, settings, group)
    assert isinstance(made, CompiledUpdate)
    terms = made(target, 40)
    expected = ReferenceUpdate(exact, times, settings, group)(target.double(), 40)
    assert terms == pytest.approx(expected, rel=1e-5, abs=1e-7)
    for p, q in zip(model.parameters(), exact.parameters(), strict=True):
        if q.grad is not None:
            assert (p.grad - q.grad).norm() < 3e-5 * q.grad.norm() + 1e-6
    with torch.no_grad():
        predicted = model.rollout(target[:, 0], times)
    torch.testing.assert_close(made.predict(target[:, 0]), predicted, atol=1e-5, rtol=0)


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_flag_wins_over_the_preset(place):
    """Also one whose value is the paper's: 100 epochs were silently 6."""
    words = ["train", "--data", "d", "--out", "o"]
    preset, flags = ["--preset", "laptop"], ["--epochs", "100", "--seed", "5"]
    plain = app.parse([*words, *preset])
    assert (plain.epochs, plain.lr, plain.lr_min) == (6, 2e-3, 1e-4)
    chosen = app.parse([*words, *(preset + flags if place == "before" else flags + preset)])
    assert (chosen.epochs, chosen.lr, chosen.seed) == (100, 2e-3, 5)
    assert app.parse([*words, "--preset=laptop", "--lr", "1e-4"]).lr == 1e-4
    assert app.parse([*words, "--preset", "paper"]).epochs == app.parse(words).epochs == 100


@pytest.mark.parametrize("changes", [{"epochs": 0}, {"lr": 0.0}, {"micro_batch": 0}])
def test_bad_settings(tmp_path, changes):
    with pytest.raises(InputError, match="must be"):
        config(tmp_path, tmp_path, **changes)


def test_checkpoints_that_are_none(tmp_path, small_state32):
    with pytest.raises(InputError, match="no checkpoint"):
        load_model(tmp_path / "nothing.safetensors")
    for content in (b"", b"12345678{}", (small_state32 / "val_id.pt").read_bytes()[:4000]):
        (tmp_path / "x.safetensors").write_bytes(content)
        with pytest.raises(InputError, match="not a newtongs checkpoint"):
            load_model(tmp_path / "x.safetensors")


# --- the shipped weights -------------------------------------------------------------------------


def test_pretrained_beats_the_physics_prior(small_state32):
    from newtongs.dynamics import BASELINES
    from newtongs.paper.evaluation import evaluate

    model = load_pretrained()
    methods = {"physics_prior_se3": BASELINES["physics_prior_se3"], "newtongs": model.rollout}
    report = evaluate(small_state32, splits=["val_id"], methods=methods)["val_id"]
    for metric in ("traj", "fde", "vel", "quat", "scale"):
        assert report["newtongs"][metric] < report["physics_prior_se3"][metric], metric


def test_unknown_pretrained_seed_lists_the_shipped_ones():
    with pytest.raises(InputError, match="seeds: 7301, 7302, 7303"):
        load_pretrained(1)


def test_branch_removal_is_the_configuration_switch():
    z0 = motions.generate("bouncing_on_plane", 4, seed=1).states[:, 0]
    times = torch.arange(20) / 24
    model = load_pretrained()
    for branch, switch in (("continuous", "continuous_residual"), ("contact", "contact_residual")):
        zeroed = remove_branches(load_pretrained(), branch)
        switched = GaussianNND(NNDConfig(**{switch: False}))
        switched.load_state_dict(model.state_dict())
        torch.testing.assert_close(zeroed.rollout(z0, times), switched.rollout(z0, times))
        assert not torch.equal(zeroed.rollout(z0, times), model.rollout(z0, times))
    with pytest.raises(InputError, match="unknown branch"):
        remove_branches(model, "floor")
