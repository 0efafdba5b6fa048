"""Import layering, lazy imports, examples, and what the package says of itself."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import newtongs

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "newtongs"
LAYERS = [
    {"errors", "types"}, {"rotations"}, {"state"}, {"motions", "dynamics", "scene"},
    {"render", "datasets"}, {"training", "evaluation", "export", "animate"}, {"studio", "cli"},
]  # fmt: skip
LEVEL = {name: i for i, layer in enumerate(LAYERS) for name in layer}


def imported_units(path):
    """Top-level units of the package that a file imports, as ``(unit, line)``."""
    depth = len(path.relative_to(SOURCE).parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            names = [node.module] if node.module else [alias.name for alias in node.names]
            yield from ((name.split(".")[0], node.lineno) for name in names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("newtongs."):
            yield node.module.split(".")[1], node.lineno


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.stem)
def test_imports_go_strictly_downward(path):
    unit = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if unit in ("__init__", "__main__"):
        return
    for other, line in imported_units(path):
        allowed = other == unit or LEVEL[other] < LEVEL[unit]
        assert allowed, f"{path}:{line}: {unit} must not import {other}"


def test_ground_truth_never_imports_the_model():
    assert LEVEL["motions"] == LEVEL["dynamics"]


def run_python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_import_is_lazy():
    optional = ["matplotlib", "rich", "tyro", "safetensors", "numba", "scipy", "imageio"]
    code = (
        "import sys, newtongs, newtongs.dynamics, newtongs.motions, newtongs.datasets.state32\n"
        f"print([m for m in {optional} if m in sys.modules])"
    )
    assert run_python(code).strip() == "[]"


def test_missing_extra_is_named():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from newtongs.cli import main\n"
        "main(['figure', 'motions'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'newtongs[figures]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_public_names_resolve():
    assert newtongs.__version__ in (ROOT / "CHANGELOG.md").read_text()
    for name in newtongs.__all__:
        assert getattr(newtongs, name) is not None
    assert set(newtongs.__all__) == set(dir(newtongs))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = newtongs.nothing


def test_docstring_example():
    import doctest

    assert doctest.testmod(newtongs).failed == 0


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_examples_run(path):
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 5
    assert len(path.read_text().splitlines()) < 80


def test_notation_page_names_things_that_exist():
    """Every `newtongs.…` name in the notation table can be imported."""
    import importlib
    import re

    names = re.findall(r"`(newtongs\.[\w.]+)`", (ROOT / "docs" / "notation.md").read_text())
    assert len(names) > 20
    for name in names:
        module, _, attribute = name.rpartition(".")
        try:
            owner = importlib.import_module(module)
        except ModuleNotFoundError:
            outer, _, inner = module.rpartition(".")
            owner = getattr(importlib.import_module(outer), inner)
        instance = owner() if name.startswith("newtongs.GaussianNND.") else owner
        assert hasattr(instance, attribute), name
