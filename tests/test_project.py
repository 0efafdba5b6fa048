"""Import layering, lazy imports, examples, and what the package says of itself."""

import ast
import importlib
import re
import subprocess
import sys
from importlib.util import resolve_name
from pathlib import Path

import pytest

import newtongs

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "newtongs"
LAYERS = [
    {"base"}, {"motions", "dynamics", "scene", "paper.__init__"}, {"samples", "formats", "segment"},
    {"physics", "render", "paper.datasets", "forecast"}, {"views", "paper.training"},
    {"pipeline", "exports", "paper.evaluation"}, {"paper.figures", "factory"},
    {"paper.report", "studio"}, {"assistant"}, {"cli"}, {"__init__", "__main__"},
]  # fmt: skip
LEVEL = {name: i for i, layer in enumerate(LAYERS) for name in layer}
FILES = {path: path.relative_to(SOURCE) for path in sorted(SOURCE.rglob("*.py"))}


def unit_of(file):
    """The package of a file or of a dotted name; the paper's packages are units of their own."""
    parts = file.with_suffix("").parts
    return ".".join(parts[: 2 if parts[0] == "paper" and len(parts) > 1 else 1])


def imported_units(source, package):
    """Top-level units that source text of ``package`` imports in any form, as ``(unit, line)``."""
    for node in ast.walk(ast.parse(source)):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            modules = [f"{base}.{alias.name}" for alias in node.names]
        for module in modules:
            top, name, *inner = *module.split("."), "__init__"
            name, _ = newtongs._NAMES.get(name, (name, None))  # a class stands for its module
            unit = unit_of(Path(*name.split("."), *inner))
            if top == "newtongs" and unit in LEVEL:  # otherwise a constant such as __version__
                yield unit, node.lineno


def test_every_unit_has_a_layer():
    assert {unit_of(file) for file in FILES.values()} <= LEVEL.keys()


def test_imports_go_strictly_downward():
    wrong = []
    for path, file in FILES.items():
        unit = unit_of(file)
        for other, line in imported_units(
            path.read_text(), ".".join(("newtongs", *file.parts[:-1]))
        ):
            if other != unit and LEVEL[other] >= LEVEL[unit]:
                wrong.append(f"{file}:{line}: {unit} must not import {other}")
    assert not wrong


@pytest.mark.parametrize(
    "line",
    [
        "from .. import dynamics", "from ..dynamics.floor import gap", "import newtongs.dynamics",
        "import newtongs.dynamics.analytic as a", "from newtongs import dynamics as d",
        "from newtongs.dynamics import floor", "from newtongs import GaussianNND",
        "def f():\n    from ..dynamics import floor",
    ],
)  # fmt: skip
def test_every_form_of_import_is_seen(line):
    assert {unit for unit, _ in imported_units(line, "newtongs.motions")} == {"dynamics"}


PARTS = {
    "pick", "settle", "set_into_place", "make_bodies", "make_surroundings", "raise_for_motions",
    "with_copies", "solid_rest", "static_rest",
}  # fmt: skip


def test_the_pipeline_is_assembled_in_one_place():
    """Everyone else asks for a Setup."""
    found = []
    for path, file in FILES.items():
        if unit_of(file) == "pipeline":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and "pipeline" in (node.module or ""):
                found += [f"{file}: {a.name}" for a in node.names if a.name in PARTS]
    assert not found
    prepare = (SOURCE / "pipeline" / "prepare.py").read_text()
    assert all(f"{name}(" in prepare for name in PARTS)


def run_python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.slow
def test_ground_truth_never_imports_the_model():
    """Neither in its source nor, by whatever way, while it makes every family."""
    for path in (SOURCE / "motions").glob("*.py"):
        units = {unit for unit, _ in imported_units(path.read_text(), "newtongs.motions")}
        assert not units & {"dynamics", "__init__"}, path
    code = (
        "import sys\nfrom newtongs import motions\n"
        "print(sum(len(motions.generate(name, 1).states) for name in motions.names()))\n"
        "print([m for m in sys.modules if m.startswith('newtongs.dynamics')])"
    )
    assert run_python(code).split() == ["32", "[]"]


@pytest.mark.slow
def test_import_is_lazy():
    optional = ["matplotlib", "rich", "tyro", "safetensors", "numba", "scipy", "imageio"]
    code = (
        "import sys, newtongs, newtongs.dynamics, newtongs.motions\n"
        "import newtongs.paper.datasets.state32\n"
        f"print([m for m in {optional} if m in sys.modules])"
    )
    assert run_python(code).strip() == "[]"


HEAVY = ["torch", "numba", "scipy", "matplotlib", "mujoco", "numpy", "rich", "imageio"]
COMMANDS = [
    ["animate"], ["studio"], ["mcp"], ["inspect"], ["collider"], ["convert"], ["replay"],
    ["gallery"], ["factory"],
    ["data", "state32"],
    ["data", "gaussian32"], ["data", "same32"], ["data", "common12"], ["data", "scene"],
    ["evaluate"], ["train"], ["train-context"], ["continue"], ["reproduce"],
    ["figure", "context"], ["figure", "motions"], ["figure", "gaussian32"],
    ["figure", "main"], ["figure", "panels"], ["figure", "strip"], ["figure", "first-frame"],
    ["ablations"], ["generate"], ["l4gm", "export"],
]  # fmt: skip


def test_help_and_misspelt_words_load_nothing_heavy():
    """One process for all: what any of them imports is seen at the end."""
    helps = [[*words, "--help"] for words in ([], ["data"], ["figure"], ["l4gm"], *COMMANDS)]
    wrong = [
        [], ["animat"], ["data", "stat32"], ["animate", "x.ply", "--velocty", "1", "2", "3"],
        ["animate", "x.ply"], ["animate", "x.ply", "--velocity", "1", "b", "3"], ["animate"],
        ["inspect", "x.ply"], ["collider", "x.ply"], ["replay", "x.json"],
        ["figure", "first-frame", "x.ply"],
        ["train", "--data", "d", "--out", "o", "--epochs", "0"],
        *([*words, "--no-such-flag"] for words in COMMANDS),
    ]  # fmt: skip
    code = (
        "import contextlib, io, sys\n"
        "from newtongs.cli import main\n"
        "codes = []\n"
        f"for words in {[['--version'], *helps, *wrong]}:\n"
        "    quiet = io.StringIO()\n"
        "    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):\n"
        "        try:\n"
        "            main(words)\n"
        "        except SystemExit as stop:\n"
        "            codes.append(stop.code)\n"
        f"print([m for m in {HEAVY} if m in sys.modules], codes)"
    )
    assert run_python(code).strip() == f"[] {[0] * (len(helps) + 1) + [2] * len(wrong)}"


def test_every_command_is_in_the_list():
    from newtongs.cli.apps import App, app

    found = []
    for name, member in app.members.items():
        inner = [[name, each] for each in member.members] if isinstance(member, App) else [[name]]
        found += inner
    assert sorted(found) == sorted(COMMANDS)


def test_defaults_of_flags_are_those_of_the_modules():
    """The command line repeats a few constants, in order not to import what defines them."""
    from newtongs.cli import evaluate, first_frame
    from newtongs.dynamics import config, search, solvers
    from newtongs.paper import evaluation
    from newtongs.paper.evaluation.evaluate import SEEN_METHODS
    from newtongs.segment.objects import grouping

    assert evaluate.METHODS == evaluation.METHODS
    assert evaluate.SEEN_METHODS == SEEN_METHODS
    assert first_frame.CANDIDATES == search.CANDIDATES
    assert first_frame.FOOTPRINT == grouping.FOOTPRINT
    assert list(config.get_args(config.Solver)) == list(solvers.SOLVERS)


@pytest.mark.slow
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
        assert getattr(newtongs, name).__doc__
    assert set(newtongs.__all__) == set(dir(newtongs))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = newtongs.nothing


def test_docstring_example():
    import doctest

    from newtongs.physics import simulation

    for module in (newtongs, simulation):
        found = doctest.testmod(module)
        assert found.attempted > 0
        assert found.failed == 0


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_examples_run(path):
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 5
    assert len(path.read_text().splitlines()) < 80


def test_make_bench_runs_every_benchmark():
    recipe = (ROOT / "Makefile").read_text().partition("bench: $(DEV)")[2].partition("; do")[0]
    listed = recipe.replace("\\\n", " ").split("for part in ")[1].split()
    found = {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - {"common"}
    assert sorted(listed) == sorted(found)


def test_notation_page_names_things_that_exist():
    """Every `newtongs.…` name in the notation table can be imported."""
    names = re.findall(r"`(newtongs\.[\w.]+)`", (ROOT / "docs" / "notation.md").read_text())
    assert len(names) > 20
    for name in names:
        if (SOURCE.parent / Path(*name.split("."))).with_suffix(".py").is_file():
            continue  # a module
        module, _, attribute = name.rpartition(".")
        try:
            owner = importlib.import_module(module)
        except ModuleNotFoundError:
            outer, _, inner = module.rpartition(".")
            owner = getattr(importlib.import_module(outer), inner)
        instance = owner() if name.startswith("newtongs.GaussianNND.") else owner
        assert hasattr(instance, attribute), name


def defined(path):
    """Functions, classes and constants of a module, and the members of its classes."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        names |= bound(node)
        if isinstance(node, ast.ClassDef):
            members = set().union(*map(bound, node.body))
            names |= members | {f"{node.name}.{member}" for member in members}
    return names


def bound(node):
    """The names that a statement gives a value."""
    targets = getattr(node, "targets", [getattr(node, "target", node)])
    return {getattr(x, "name", None) or getattr(x, "id", None) for x in targets} - {None}


def test_the_three_walks_name_functions_that_exist():
    page = (ROOT / "CONTRIBUTING.md").read_text()
    walks = re.findall(r"`([\w/]+\.py):([\w.]+)`", page)
    assert len(walks) > 25
    for file, name in walks:
        assert name in defined(SOURCE / file), f"{file}:{name}"


def test_how_to_add_names_what_exists():
    """Every "`name` of `file.py`" of the table."""
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("## How to add")[2]
    places = re.findall(r"((?:`\w+`(?:, | and ))*`\w+`) of `([\w/]+\.py)`", table)
    assert len(places) > 8
    for names, file in places:
        path = SOURCE / file if (SOURCE / file).exists() else ROOT / file
        for name in re.findall(r"\w+", names.replace(" and ", " ")):
            assert name in defined(path), f"{file}: {name}"


def test_the_drawing_of_the_house_is_the_one_of_the_source():
    """Otherwise: python docs/house.py."""
    code = "import house; print(house.PAGE.read_text().count(house.drawing()))"
    assert run_python(f"import sys; sys.path.insert(0, {str(ROOT / 'docs')!r}); {code}") == "1\n"
