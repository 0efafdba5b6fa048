"""Several processes that share one evaluation or training, and how they end."""

import glob
import json
import os
import subprocess
import sys
from contextlib import nullcontext

import pytest
import torch

from newtongs import InputError, cli, motions
from newtongs.base.locks import alone
from newtongs.base.ranks import Ranks
from newtongs.paper.evaluation import evaluate


def torchrun(port, *words, ranks=2):
    """Run ``python words`` in ranks of its own on the CPU."""
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}"]
    command += [f"--master-port={port}", *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def numbers(report, prefix=""):
    """Every figure of a report by its path; not where it comes from."""
    for key, x in report.items():
        if key == "made":
            continue
        if isinstance(x, dict):
            yield from numbers(x, f"{prefix}{key} ")
        else:
            yield prefix + key, x


def evaluation(data, json_file, *more):
    return ["-m", "newtongs", "evaluate", "--data", data, "--json", json_file, *more]


@pytest.mark.slow
def test_two_ranks_have_the_sums_of_one(small_state32, tmp_path):
    """Every figure to 1e-12, per motion too; batches of 300 make five, so the shares differ."""
    options = ["--batch-size", "300", "--checkpoint", "pretrained"]
    words = [sys.executable, *evaluation(small_state32, tmp_path / "one", *options)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    one = subprocess.run(list(map(str, words)), capture_output=True, text=True, env=environment)
    assert one.returncode == 0, one.stderr
    two = torchrun(29661, *evaluation(small_state32, tmp_path / "two", *options))
    assert two.returncode == 0, two.stderr[-4000:]
    assert two.stdout.replace("/two", "/one") == one.stdout  # and only one rank has printed
    a, b = (dict(numbers(json.loads((tmp_path / n).read_text()))) for n in ("one", "two"))
    assert len(a) > 2 * 7 * 32 * 9
    assert a.keys() == b.keys()
    assert a == pytest.approx(b, rel=1e-12, abs=1e-300)


@pytest.mark.slow
def test_more_ranks_than_batches(small_state32, tmp_path):
    """Ranks without work add nothing."""
    options = ["--methods", "hold_z0", "--splits", "val_id"]
    done = torchrun(29662, *evaluation(small_state32, tmp_path / "f", *options), ranks=3)
    assert done.returncode == 0, done.stderr[-4000:]
    alone = evaluate(small_state32, splits=["val_id"], methods=["hold_z0"])
    a, b = dict(numbers(alone)), dict(numbers(json.loads((tmp_path / "f").read_text())))
    assert a == pytest.approx(b, rel=1e-12, abs=1e-300)


@pytest.mark.slow
def test_bad_input_of_one_rank_is_said_once(small_state32, tmp_path):
    """A number missing in the second rank's batch: one line, no traceback, nothing written."""
    content = torch.load(small_state32 / "val_id.pt", weights_only=True)
    content["states"][500, 3, 2] = torch.nan
    torch.save(content, tmp_path / "val_id.pt")
    options = ["--methods", "hold_z0", "--splits", "val_id", "--batch-size", "300"]
    done = torchrun(29663, *evaluation(tmp_path, tmp_path / "figures", *options))
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if line.startswith("newtongs: ")]
    assert len(lines) == 1
    assert "500" in lines[0]
    assert "[rank" not in done.stderr  # torch's mark on a rank's traceback
    assert not (tmp_path / "figures").exists()


@pytest.fixture(scope="module")
def training_data(tmp_path_factory):
    """One sequence of each motion, eight frames long."""
    folder = tmp_path_factory.mktemp("short")
    names = list(motions.STATE32)
    for split, seed in (("train", 1), ("val_id", 2)):
        content = {
            "states": torch.cat([motions.generate(x, 1, seed=seed).states[:, :8] for x in names]),
            "motion_indices": torch.arange(32),
            "motion_type_names": names,
            "dt": 1 / 24,
            "split": split,
        }
        torch.save(content, folder / f"{split}.pt")
    return folder


def training(data, out, *more):
    words = ["-m", "newtongs", "train", "--data", data, "--out", out, "--model.hidden", "16"]
    return [*words, "--epochs", "2", "--updates-per-epoch", "4", *more]


@pytest.mark.slow
def test_the_command_trains_on_two_ranks(training_data, tmp_path):
    """Only rank 0 locks the folder, writes and prints; the figures are those of one process."""
    cli.main([str(x) for x in training(training_data, tmp_path / "one")[2:]])
    done = torchrun(29665, *training(training_data, tmp_path / "two"))
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == f"best weights: {tmp_path / 'two' / 'best.safetensors'}\n"
    one, two = (
        [json.loads(line) for line in (tmp_path / x / "metrics.jsonl").read_text().splitlines()]
        for x in ("one", "two")
    )
    assert len(one) == len(two) == 2
    for a, b in zip(one, two, strict=True):
        assert {**a, "seconds": 0} == pytest.approx({**b, "seconds": 0}, rel=1e-4)
    assert not (tmp_path / "two" / ".newtongs.lock").exists()


@pytest.mark.slow
@pytest.mark.parametrize("problem", ["locked", "missing", "device"])
def test_no_rank_trains_without_the_lock_or_the_data(training_data, tmp_path, problem):
    """One line of rank 0, no traceback of another rank, nothing trained."""
    data = tmp_path / "nowhere" if problem == "missing" else training_data
    with alone(tmp_path / "out") if problem == "locked" else nullcontext():
        more = ["--device", "cuda:99"] if problem == "device" else []
        done = torchrun(29666, *training(data, tmp_path / "out", *more))
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if line.startswith("newtongs: ")]
    assert len(lines) == 1
    expected = {"locked": "another process", "missing": "no State-32 file",
                "device": "device 'cuda:99' is not available"}  # fmt: skip
    assert expected[problem] in lines[0]
    assert "[rank" not in done.stderr
    assert not (tmp_path / "out" / "metrics.jsonl").exists()


LEAVE = """
import glob
import sys
import torch
from newtongs.base.ranks import ranks
with ranks("cpu") as group:
    model = torch.nn.Linear(3, 3)
    model(torch.ones(2, 3)).sum().backward()
    group.sum(model.weight.grad)
    torch.optim.AdamW(model.parameters()).step()  # loads half of torch
names = sorted(open(path).read().strip() for path in glob.glob("/proc/self/task/*/comm"))
sys.stdout.write(f"left {names}\\n")
"""


@pytest.mark.slow
@pytest.mark.skipif(not glob.glob("/proc/self/task/*/comm"), reason="threads are listed on Linux")
def test_no_thread_outlives_the_group(tmp_path):
    """A gloo thread that lives when the interpreter ends can abort the process."""
    (tmp_path / "leave.py").write_text(LEAVE)
    done = torchrun(29664, tmp_path / "leave.py")
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.count("left [") == 2
    assert "gloo" not in done.stdout, done.stdout


def test_alone_an_error_is_itself():
    with pytest.raises(InputError, match="as it was"), Ranks(0, 1, torch.device("cpu")).agreed():
        raise InputError("as it was")
