"""Torch on one thread, and on as many as before when everyone is done."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from newtongs.base.process import one_thread


@pytest.fixture(autouse=True)
def _three():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def on_a_new_thread(f):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(f).result()


def test_one_inside_and_as_before_outside():
    with one_thread():
        assert torch.get_num_threads() == on_a_new_thread(torch.get_num_threads) == 1
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == on_a_new_thread(torch.get_num_threads) == 3


def test_an_error_is_no_way_to_keep_it():
    with pytest.raises(ZeroDivisionError), one_thread():
        _ = 1 / 0
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize("first_out", ["a", "b"])
def test_two_that_overlap(first_out):
    """Neither leaves the other, itself or a later thread with the one thread it found."""
    with ThreadPoolExecutor(1) as a, ThreadPoolExecutor(1) as b:
        pools, held = {"a": a, "b": b}, {"a": one_thread(), "b": one_thread()}
        for name in ("a", "b"):
            pools[name].submit(held[name].__enter__).result()
            assert pools[name].submit(torch.get_num_threads).result() == 1
        last_out = "b" if first_out == "a" else "a"
        pools[first_out].submit(held[first_out].__exit__, None, None, None).result()
        assert pools[last_out].submit(torch.get_num_threads).result() == 1
        pools[last_out].submit(held[last_out].__exit__, None, None, None).result()
        for pool in pools.values():
            assert pool.submit(torch.get_num_threads).result() == 3
    assert torch.get_num_threads() == on_a_new_thread(torch.get_num_threads) == 3


def test_a_threads_own_number_comes_back():
    with ThreadPoolExecutor(1) as pool:
        for f, *given in ((torch.get_num_threads,), (torch.set_num_threads, 2)):
            pool.submit(f, *given).result()  # torch knows a thread from its first question on
        with one_thread():
            pool.submit(one_thread()(torch.get_num_threads)).result()
        assert pool.submit(torch.get_num_threads).result() == 2


def test_many_at_once():
    start, seen = threading.Barrier(8), []

    def work(_):
        start.wait()
        for _ in range(100):
            with one_thread():
                seen.append(torch.get_num_threads())
        return torch.get_num_threads()

    with ThreadPoolExecutor(8) as pool:
        after = list(pool.map(work, range(8)))
    assert set(seen) == {1}
    assert set(after) == {3}
    assert torch.get_num_threads() == on_a_new_thread(torch.get_num_threads) == 3
