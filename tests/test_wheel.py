"""The wheel, installed in an empty environment outside the repository, runs what it promises."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LARGEST = 2 << 20  # bytes of all but the weights, to notice data that does not belong there

pytestmark = pytest.mark.long


def run(*words, cwd, **options):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "NEWTONGS"))}
    done = subprocess.run(
        [*map(str, words)], cwd=cwd, env=environment, capture_output=True, text=True, check=False,
        **options,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy: setuptools would leave folders behind, and take over what is in them."""
    folder = tmp_path_factory.mktemp("wheel")
    files = run("git", "ls-files", "-z", cwd=ROOT).split("\0")
    for name in filter(lambda name: (ROOT / name).is_file(), files):
        if name.startswith(("src/", "pyproject.toml", "README.md", "LICENSE")):
            (folder / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "copy" / name).write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, cwd=folder / "copy")
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A folder with an environment that holds the wheel and its dependencies, nothing else."""
    folder = tmp_path_factory.mktemp("elsewhere")
    run(sys.executable, "-m", "venv", "env", cwd=folder)
    pip = folder / "env" / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-compile"
    run(*pip, "-c", ROOT / "constraints.txt", f"{wheel}[figures,formats,studio,video]", cwd=folder)
    return folder


def test_the_wheel_holds_the_data_and_no_tests(wheel):
    with zipfile.ZipFile(wheel) as archive:
        sizes = {info.filename: info.compress_size for info in archive.infolist()}
    names = [*sizes]
    for needed in (
        r"newtongs/py\.typed", r"newtongs/checkpoints/.*\.safetensors",
        r"newtongs/factory/specs/.*", r"newtongs/paper/results/.*\.json",
        r"newtongs/exports/player\.html",
    ):  # fmt: skip
        assert any(re.fullmatch(needed, name) for name in names), needed
    tracked = run("git", "ls-files", "src/newtongs", cwd=ROOT).split()
    assert {name.removeprefix("src/") for name in tracked if (ROOT / name).is_file()} <= {*names}
    assert not [name for name in names if name.startswith(("tests", "benchmarks"))]
    rest = [size for name, size in sizes.items() if not name.endswith(".safetensors")]
    assert sum(rest) < LARGEST


def test_newtongs_comes_from_the_wheel(environment):
    code = "import newtongs; print(newtongs.__file__)"
    found = run(environment / "env" / "bin" / "python", "-c", code, cwd=environment)
    assert found.startswith(str(environment / "env"))


def test_animate(environment):
    run(
        environment / "env" / "bin" / "newtongs", "animate", "bowling", "--out", "demo", "--loose",
        "--velocity", 6, 0, 0.15, "--seconds", 0.25, "--size", 128, 72, cwd=environment,
    )  # fmt: skip
    made = {path.name for path in (environment / "demo").iterdir()}
    assert {"bowling.mp4", "bowling.png", "bowling.html", "bowling.glb"} <= made


def test_reproduce_finds_the_recorded_results(environment):
    newtongs = environment / "env" / "bin" / "newtongs"
    words = "reproduce", "--quick", "--only", "response", "ablations", "--out", "report"
    said = run(newtongs, *words, cwd=environment)
    assert "response: done" in said
    assert "ablations: done" in said
    assert (environment / "report" / "index.html").is_file()


def test_the_studio_answers(environment):
    newtongs = environment / "env" / "bin" / "newtongs"
    studio = subprocess.Popen(
        [newtongs, "studio", "bowling", "--no-open", "--port", "0"], cwd=environment,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        url = re.search(r"http://\S+", studio.stdout.readline())[0]
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert answer.status == 200
            assert b"<html" in answer.read().lower()
    finally:
        studio.send_signal(signal.SIGINT)
        studio.wait(60)


def test_what_is_not_installed_is_named(environment):
    words = "animate", "bowling", "--velocity", "1", "0", "0", "--out", "o", "--formats", "usd"
    done = subprocess.run(
        [environment / "env" / "bin" / "newtongs", *words], cwd=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "pip install 'newtongs[usd]'" in done.stderr
    python = environment / "env" / "bin" / "python"
    listed = json.loads(run(python, "-m", "pip", "list", "--format", "json", cwd=environment))
    assert not {"diffusers", "transformers", "ray", "datasets"} & {x["name"] for x in listed}
