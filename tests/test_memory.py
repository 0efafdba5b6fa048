"""The commands on large captures stay within 4 GB for 4 million Gaussians."""

import subprocess
import sys

import pytest
from furnished_rooms import densified
from peaks import command_peak

from newtongs.formats.files import save

GAUSSIANS = 500_000
# Bytes for each Gaussian, and for what does not grow: libraries, grids of up to 32 million cells,
# and the gigabyte of freed memory that is kept. Together 4 GB for 4 million.
EACH, ELSE = 671, 1.31e9


@pytest.fixture(scope="module")
def lawn(tmp_path_factory):
    path = tmp_path_factory.mktemp("lawn") / "lawn.ply"
    save(densified("two_tables_outdoors", GAUSSIANS), path)
    return path


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems count memory otherwise")
@pytest.mark.parametrize("more", [(), ("--select", "all"), ("--loose",)], ids=" ".join)
def test_animate_takes_few_bytes_for_each_gaussian(lawn, tmp_path, more):
    """All default formats; the length of the film does not matter."""
    film = ("--seconds", "0.1", "--size", "96", "96")
    used = peak("animate", lawn, "--out", tmp_path, *film, *more)
    assert used < ELSE + EACH * GAUSSIANS


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems count memory otherwise")
def test_inspect_takes_few_bytes_for_each_gaussian(lawn, tmp_path):
    used = peak("inspect", lawn, "--plain", "--thumbnail", tmp_path / "seen.png")
    assert used < ELSE + EACH * GAUSSIANS


def peak(*words):
    """The most bytes that a command held."""
    code, _, held = command_peak(*words)
    assert code == 0
    return held


THREADS = """
import re, sys, threading
from concurrent.futures import ThreadPoolExecutor
from newtongs.base.process import keep_freed
keep_freed()
import numpy as np

def work(_):
    return sum(x.sum() for x in [np.ones(200_000) for _ in range(30)])  # 48 MB

pool, all_of_them = ThreadPoolExecutor(16), threading.Barrier(16)
list(pool.map(lambda _: all_of_them.wait(), range(16)))
for k in range(64):
    pool.submit(work, k).result()
print(int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc")
def test_memory_that_is_freed_is_kept_once_and_not_by_every_thread():
    found = subprocess.run(
        [sys.executable, "-c", THREADS], capture_output=True, text=True, check=True
    )
    assert int(found.stdout) < 200
