"""What the benchmarks of the model share: timing, the arithmetic limit, the field in JAX."""

import os
import platform
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from newtongs import GaussianNND
from newtongs.base.state import LAYOUT
from newtongs.base.types import GRAVITY

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # torch needs the card too

FRAMES, SUBSTEPS, H = 64, 2, 1 / 48  # a 24 Hz frame takes two substeps
TIMES = torch.arange(FRAMES, dtype=torch.float64) * SUBSTEPS * H
EVALUATIONS = 4 * SUBSTEPS * (FRAMES - 1)  # of the vector field, by RK4


class NotHereError(Exception):
    """Why a row cannot run on this machine."""


def synchronize(device: torch.device) -> None:
    """Wait for the device; the CPU is never behind."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(
    work: Callable[[], object], device: torch.device, *, at_least: float = 1.0, runs: int = 3
) -> float:
    """Shortest of at least ``runs`` runs after a first one, on one thread or on all.

    Both, because on small work torch's threads cost more than they give.
    """
    all_threads, times = torch.get_num_threads(), []
    for threads in {all_threads} if device.type == "cuda" else sorted({1, all_threads}):
        torch.set_num_threads(threads)
        work()
        synchronize(device)
        start, done = time.perf_counter(), 0
        while done < runs or time.perf_counter() - start < at_least:
            before, done = time.perf_counter(), done + 1
            work()
            synchronize(device)
            times.append(time.perf_counter() - before)
    torch.set_num_threads(all_threads)
    return min(times)


def gemm_rate(device: torch.device, dtype: torch.dtype = torch.float32) -> float:
    """Attainable operations a second: the product of two large matrices."""
    n = 8192 if device.type == "cuda" else 2048
    a, b = torch.rand(2, n, n, device=device, dtype=dtype)
    out = torch.empty_like(a)
    return 2 * n**3 / seconds(lambda: torch.mm(a, b, out=out), device, at_least=0.3)


def peak_gb(work: Callable[[], Tensor], device: torch.device) -> tuple[Tensor, str]:
    """What ``work`` returns, and the device memory torch held at most meanwhile."""
    if device.type != "cuda":
        return work(), ""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    out = work()
    synchronize(device)
    return out, f"{torch.cuda.max_memory_allocated(device) / 1e9:.1f}"


def flops(model: GaussianNND) -> int:
    """Operations of f_theta for one state; all else is small beside them."""
    return sum(2 * layer.weight.numel() for layer in model.f_theta if isinstance(layer, nn.Linear))


def hardware(device: torch.device) -> str:
    """The machine in a few words."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{torch.get_num_threads()} threads of {platform.machine()}"


def jax_solve(model: GaussianNND) -> tuple[Callable[[Any, Any], Any], Any]:
    """``solve(parameters, z0)`` by diffrax with RK4's tableau, and the parameters.

    The same field over the same substeps, without floor and without projections; states of shape
    (T, B, 22).
    """
    try:
        import diffrax
        import jax
        import jax.numpy as jnp
        import numpy as np
    except ImportError as error:
        raise NotHereError("not installed") from error
    # As float32 as torch is; by default XLA may use TF32 on a GPU.
    jax.config.update("jax_default_matmul_precision", "highest")

    class RK4(diffrax.AbstractERK):  # type: ignore[misc]
        """The classical scheme, which diffrax does not bring."""

        tableau = diffrax.ButcherTableau(
            a_lower=(np.array([0.5]), np.array([0.0, 0.5]), np.array([0.0, 0.0, 1.0])),
            b_sol=np.array([1 / 6, 1 / 3, 1 / 3, 1 / 6]),
            b_error=np.array([0.0, 0.0, 0.0, 0.0]),
            c=np.array([0.5, 0.5, 1.0]),
        )
        interpolation_cls = diffrax.ThirdOrderHermitePolynomialInterpolation.from_k

        def order(self, terms: Any) -> int:
            return 4

    def field(t: Any, z: Any, p: Any) -> Any:
        q, v, w, s, u, m = (z[:, LAYOUT[name]] for name in ("q", "v", "w", "s", "u", "m"))
        c_v, c_w, k_s, c_s = jnp.abs(p["scalars"][:4])
        x = z
        for weight, bias in p["layers"][:-1]:
            x = jax.nn.silu(x @ weight.T + bias)
        weight, bias = p["layers"][-1]
        r_v, r_w, r_s = jnp.split(p["scalars"][4] * jnp.tanh(x @ weight.T + bias), 3, 1)
        turn = jnp.cross(q[:, 1:], w) + q[:, :1] * w
        return jnp.concatenate(
            [
                v,
                -0.5 * (q[:, 1:] * w).sum(1, keepdims=True),
                0.5 * turn,
                jnp.array(GRAVITY) - c_v * v / m + r_v,
                -c_w * w + r_w,
                u,
                -k_s * (s - 1) - c_s * u + r_s,
                jnp.zeros((len(z), 3)),
            ],
            1,
        )

    def solve(p: Any, z0: Any) -> Any:
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(field), RK4(), 0.0, float(TIMES[-1]), None, z0, args=p,
            saveat=diffrax.SaveAt(ts=jnp.asarray(TIMES.numpy(), jnp.float32)),
            stepsize_controller=diffrax.StepTo(np.arange(SUBSTEPS * (FRAMES - 1) + 1) * H),
        )  # fmt: skip
        return solution.ys

    def array(x: Tensor) -> Any:
        return jnp.asarray(x.detach().cpu().numpy())

    layers = [x for x in model.f_theta if isinstance(x, nn.Linear)]
    scalars = torch.stack([model.c_v, model.c_w, model.k_s, model.c_s, model.alpha])
    parameters = {
        "layers": [(array(x.weight), array(x.bias)) for x in layers],
        "scalars": array(scalars),
    }
    return solve, parameters
