"""Settings of all tests, shared data, and a limit on what an unmarked test may take."""

import os

# As the command does: threads that spin while they wait make every small operation wait on a busy
# machine. Beside other test processes, one thread each is quickest. Both must be set before torch
# is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import settings
from numba.core import event

from newtongs.paper.datasets import state32

SECONDS = 5.0  # of processor time: a test that takes more is marked slow or long

# Property tests draw the same examples on every run: a failure seen once is seen again.
settings.register_profile("newtongs", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("newtongs")


class Compiling(event.Listener):
    """Adds up the time that numba compiles: the first test to need a kernel is not to blame."""

    def __init__(self):
        self.seconds, self.began = 0.0, []

    def on_start(self, event):
        self.began.append(spent())

    def on_end(self, event):
        began = self.began.pop()
        if not self.began:
            self.seconds += spent() - began


COMPILING = Compiling()
event.register("numba:compile", COMPILING)


def spent():
    """Processor seconds of this process and of those it waited for."""
    x = os.times()
    return x.user + x.system + x.children_user + x.children_system


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """In `make check`, fail an unmarked test that takes long: everyday work waits for it."""
    start, compiled = spent(), COMPILING.seconds
    result = yield
    seconds = spent() - start - (COMPILING.seconds - compiled)
    marked = any(item.get_closest_marker(name) for name in ("slow", "long"))
    everyday = "not slow" in item.config.option.markexpr
    if everyday and seconds > SECONDS and not marked and not torch.cuda.is_available():
        pytest.fail(f"took {seconds:.1f} s of processor time; make it quicker, or mark it slow")
    return result


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def small_state32(tmp_path_factory):
    """State-32 with 40 sequences a motion in every split: more than one, less than two a shard."""
    folder = tmp_path_factory.mktemp("state32")
    state32.build(folder, per_motion=40)
    return folder
