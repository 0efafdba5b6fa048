import os

# As the command does: threads that spin while they wait make every small operation wait on a busy
# machine. It must be set before torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import pytest
import torch
from hypothesis import settings

from newtongs.datasets import state32

# Property tests draw the same examples on every run: a failure seen once is seen again.
settings.register_profile("newtongs", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("newtongs")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def small_state32(tmp_path_factory):
    """State-32 with 40 sequences a motion in every split: more than one, less than two a shard."""
    folder = tmp_path_factory.mktemp("state32")
    state32.build(folder, per_motion=40)
    return folder
