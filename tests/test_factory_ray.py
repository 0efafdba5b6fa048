"""A Ray cluster of three nodes on the loopback address, one of which is killed halfway."""

import hashlib
import os
import threading
import time
from dataclasses import replace

import pytest
import torch

from newtongs.base.errors import InputError
from newtongs.factory.cluster import cluster as joined
from newtongs.factory.renderers import GPU_SHARE
from newtongs.factory.run import produce
from newtongs.factory.spec import load_spec

os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # believes that 127.0.0.1 is meant
ray = pytest.importorskip("ray")

SPEC = """
name = "ray"
scenes = ["playroom_floor", "desk_blue_sphere"]
count = 16
films_a_shard = 2
frames = 5
size = [48, 48]
[cameras]
count = 1
"""

pytestmark = pytest.mark.long


NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "node_ip_address": "127.0.0.1"}


@pytest.fixture
def cluster(monkeypatch):
    """Three nodes with a core each."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_health_check_period_ms", "500")
    monkeypatch.setenv("RAY_health_check_failure_threshold", "3")
    head = NODE | {"num_gpus": 0, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head, connect=False)
    nodes = [made.add_node(wait=False, **NODE) for _ in range(2)]
    yield made, nodes
    ray.shutdown()
    made.shutdown()


def digests(folder):
    """Of all that must be the same."""
    names = [*folder.glob("*.tar"), *folder.glob("parts/*"), folder / "index.parquet"]
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in names}


def listening():
    """Addresses on which any process of Ray listens."""
    import psutil

    ours = [
        p for p in psutil.process_iter(["cmdline"]) if "ray" in " ".join(p.info["cmdline"] or [])
    ]
    found = set()
    for process in ours:
        try:
            connections = process.net_connections(kind="inet")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        found |= {c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN}
    return found


def test_a_killed_node_costs_time_and_no_byte(cluster, tmp_path):
    made, nodes = cluster
    path = tmp_path / "spec.toml"
    path.write_text(SPEC)
    spec, folder = load_spec(path)
    seen, killed = [], threading.Event()
    kill_at = 6

    def told(what, done, of):
        if what == "films" and done >= kill_at and not killed.is_set():
            killed.set()
            addresses.update(listening())
            made.remove_node(nodes[0], allow_graceful=False)
        seen.append((what, done, of))

    addresses = set()
    begun = time.monotonic()
    outcome = produce(spec, folder, tmp_path / "ray", ray=made.address, progress=told)
    assert killed.is_set()
    assert outcome.films == 16
    assert time.monotonic() - begun < 600
    alone = produce(spec, folder, tmp_path / "alone", workers=1)
    assert alone.films == 16
    assert digests(tmp_path / "ray") == digests(tmp_path / "alone")
    assert len(digests(tmp_path / "ray")) == 3 * 8 + 1
    assert ("films", 16, 16) in seen
    assert addresses, "no process of Ray was found to listen"
    assert addresses <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}, addresses
    assert os.path.exists(outcome.page)


@pytest.fixture
def small_cluster(monkeypatch, request):
    """One node that says it has some GPUs."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    head = NODE | {"num_gpus": request.param, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head, connect=False)
    yield made.address
    ray.shutdown()
    made.shutdown()


def gsplat_spec(folder):
    path = folder / "spec.toml"
    path.write_text('renderer = "gsplat"\n' + SPEC)
    return load_spec(path)


@pytest.mark.parametrize("small_cluster", [0], indirect=True)
def test_gsplat_on_a_cluster_without_a_gpu_is_refused_rather_than_waited_for(
    small_cluster, tmp_path
):
    spec, home = gsplat_spec(tmp_path)
    with pytest.raises(InputError, match="needs a node with a GPU") as error:
        produce(spec, home, tmp_path / "films", ray=small_cluster)
    assert "\n" not in str(error.value)
    assert "has none; add one with: ray start" in str(error.value)
    assert not (tmp_path / "films").exists()
    assert not ray.is_initialized()


@pytest.mark.parametrize("small_cluster", [1], indirect=True)
def test_gsplat_tasks_ask_for_a_part_of_a_card_and_others_for_none(small_cluster, tmp_path):
    spec, home = gsplat_spec(tmp_path)
    assigned = lambda: ray.get_runtime_context().get_assigned_resources()  # noqa: E731
    with joined(spec, small_cluster) as working:
        assert ray.get(working.drawing()(assigned).remote()) == {"CPU": 1.0, "GPU": GPU_SHARE}
        assert ray.get(working.task()(assigned).remote()) == {"CPU": 1.0}
    with joined(replace(spec, renderer="ewa"), small_cluster) as working:
        assert ray.get(working.drawing()(assigned).remote()) == {"CPU": 1.0}
    if not torch.cuda.is_available():  # a node that promised what it has not
        with pytest.raises(InputError, match="expected a machine with a CUDA device"):
            produce(spec, home, tmp_path / "films", ray=small_cluster)
        assert not (tmp_path / "films").exists()
