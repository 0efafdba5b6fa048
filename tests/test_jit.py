"""Machine code on disk: used again as long as nothing that it was made from has changed."""

import os
import subprocess
import sys

import pytest

IMPORTED = "from newtongs.base.jit import njit\n"
FILES = {
    "constants.py": "SIZE = 2.0\nTABLE = (1.0, 2.0)\n",
    "inner.py": f"{IMPORTED}FACTOR = 3.0\n\n@njit()\ndef tripled(x):\n    return FACTOR * x\n",
    "outer.py": f"{IMPORTED}from . import constants\nfrom .constants import SIZE, TABLE\n"
    "from .inner import tripled\n\n@njit()\ndef f(x):\n    return tripled(x) * SIZE + TABLE[1]\n",
}


def called(folder):
    """What the function returns in a new process, and how often it was compiled."""
    code = "from kernels.outer import f; print(f(1.0), sum(f.stats.cache_misses.values()))"
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.pathsep.join(
        [str(folder), *sys.path])}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    value, compiled = done.stdout.split()
    return float(value), int(compiled)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "__init__.py").touch()
    for name, text in FILES.items():
        (tmp_path / "kernels" / name).write_text(text)
    return tmp_path


@pytest.mark.slow
def test_imported_constants_and_functions_count(folder):
    """Numba looks at the text of a function's own file alone."""
    assert called(folder) == (8.0, 1)
    assert called(folder) == (8.0, 0)
    for name, before, after, expected in (
        ("constants.py", "SIZE = 2.0", "SIZE = 5.0", 17.0),
        ("constants.py", "(1.0, 2.0)", "(1.0, 4.0)", 19.0),
        ("inner.py", "FACTOR * x", "FACTOR + x", 24.0),
    ):
        path = folder / "kernels" / name
        path.write_text(path.read_text().replace(before, after))
        assert called(folder) == (expected, 1), (name, after)
    assert len(list((folder / "kernels").glob("__pycache__/outer.f*.nbi"))) == 1  # nothing is left


@pytest.mark.slow
def test_a_renamed_type_makes_the_cache_stale_and_nothing_else(tmp_path):
    """Numba unpickles its index before it compares what made it stale."""
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "__init__.py").touch()
    text = (
        f"from typing import NamedTuple\n{IMPORTED}\nclass Room(NamedTuple):\n    x: float\n\n"
        "@njit()\ndef inside(room):\n    return room.x\n\ndef f(x):\n    return inside(Room(x))\n"
        "\nf.stats = inside.stats\n"
    )
    (folder / "outer.py").write_text(text)
    assert called(tmp_path) == (1.0, 1)
    (folder / "outer.py").write_text(text.replace("Room", "Hall"))
    assert called(tmp_path) == (1.0, 1)
