"""The compiled CPU rollout for many objects: large matrix products by torch, the rest compiled.

A few rows are quickest in one piece of compiled code (``fast_cpu``); from some hundred rows on the
products are worth a call to torch's matrix library, which uses wider registers than numba does.
"""

import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..state import DIM
from .fast_cpu import (
    WIDTH,
    Array,
    Plain,
    U,
    V,
    W,
    _compiled,
    _floor,
    _moved,
    _rates,
    _silu,
    _sum_stages,
)

BLOCK = 256  # rows at a time on a thread: enough for the products, few enough for the cache

_one_at_a_time = threading.Lock()


def advance_many(
    z: Array, n: npt.NDArray[Any], h: npt.NDArray[Any], model: Plain, out: Array
) -> None:
    """``fast_cpu._advance`` for many rows, on all of torch's threads."""
    layers = [(torch.from_numpy(w).t(), torch.from_numpy(b)) for w, b in model.f_theta]
    threads = torch.get_num_threads()
    starts = range(0, len(z), BLOCK)

    def block(i: int) -> None:
        _advance(z[i : i + BLOCK], n, h, model, layers, out[i : i + BLOCK])

    with _one_thread_each(), ThreadPoolExecutor(threads) as pool:
        list(pool.map(block, starts))  # list() waits and raises what a thread raised


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Each of our threads calls torch; none of them is to start others.

    The setting belongs to the process, so that only one caller at a time may change it.
    """
    with _one_at_a_time:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def _advance(
    z0: Array,
    n: npt.NDArray[Any],
    h: npt.NDArray[Any],
    model: Plain,
    layers: list[tuple[Tensor, Tensor]],
    out: Array,
) -> None:
    """``rollout`` of one block, the steps in Python."""
    z = np.zeros((len(z0), WIDTH), np.float32)
    z[:, :DIM] = z0
    for t in range(len(n)):
        for _ in range(n[t]):
            z = _step(z, h[t], model, layers)
            if model.contact:
                _floor(z, model)
        out[:, t + 1] = z[:, :DIM]


def _step(z: Array, h: float, model: Plain, layers: list[tuple[Tensor, Tensor]]) -> Array:
    """``fast_cpu._step``."""
    whole, half, sixth = np.float32(h), np.float32(h / 2), np.float32(h / 6)
    k1 = _field(z, model, layers)
    if not model.rk4:
        return _moved(z, whole, k1)
    k2 = _field(_moved(z, half, k1), model, layers)
    k3 = _field(_moved(z, half, k2), model, layers)
    k4 = _field(_moved(z, whole, k3), model, layers)
    _sum_stages(k1, k2, k3, k4)
    return _moved(z, sixth, k1)


def _field(z: Array, model: Plain, layers: list[tuple[Tensor, Tensor]]) -> Array:
    """``fast_cpu._field``, its residual always on."""
    x = torch.from_numpy(z)
    for depth, (w, b) in enumerate(layers):
        x = torch.addmm(b, x, w)
        if depth + 1 < len(layers):
            _silu(x.numpy())
    dz = np.zeros_like(z)
    _all_rates(z, x.numpy(), model, dz)
    return dz


@_compiled("contract")
def _all_rates(z: Array, r: Array, model: Plain, dz: Array) -> None:
    """The rates with the residual ``r`` before its tanh."""
    for row in range(len(z)):
        _rates(z[row], model, dz[row])
        for i in range(3):
            dz[row, V + i] += model.alpha * math.tanh(r[row, i])
            dz[row, W + i] += model.alpha * math.tanh(r[row, 3 + i])
            dz[row, U + i] += model.alpha * math.tanh(r[row, 6 + i])
