"""How fast an object's Gaussians follow its states, and how far that is from copying the result.

The limit is the time numpy takes to copy means and covariances of the same shapes: nothing that
writes them out can be much faster. Two limits, because asking the system for new memory costs more
than the copy: into memory that was used before, and into new memory.

Run with: python benchmarks/transform.py [--gaussians 60000] [--frames 49]
"""

import argparse
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from newtongs.base import rotations
from newtongs.base.state import State, make, replace
from newtongs.scene import GaussianScene, affine, transform, transform_sequence
from newtongs.scene.frames import AnimatedScene
from newtongs.scene.transform import pack_symmetric, principal_axes

Work = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """One object of ``n`` Gaussians and ``T`` states of it."""

    n: int
    T: int

    @cached_property
    def scene(self) -> GaussianScene:
        """Random shapes with colour of degree 3."""
        return GaussianScene.make(
            means=torch.randn(self.n, 3),
            scales=0.02 * torch.exp(torch.randn(self.n, 3)),
            quats=rotations.normalize(torch.randn(self.n, 4)),
            sh=0.1 * torch.randn(self.n, 16, 3),
            ids=0,
        )

    @cached_property
    def z(self) -> Tensor:
        """States that move, turn and change their scale."""
        q = rotations.normalize(torch.randn(self.T, 4))
        return make(p=torch.randn(self.T, 3), q=q, s=torch.exp(0.3 * torch.randn(self.T, 3)))

    def memory(self, *covariance: int) -> list[np.ndarray]:
        """Arrays of the result's shapes, written to once."""
        shapes = (self.T, self.n, 3), (self.T, self.n, *covariance)
        return [np.ones(shape, np.float32) for shape in shapes]


def copies(case: Case, shape: tuple[int, ...], *, new: bool) -> Work:
    """The limit: numpy copies means and covariances."""
    source = case.memory(*shape)
    if new:
        return lambda: [x.copy() for x in source]
    target = case.memory(*shape)

    def run() -> None:
        for a, b in zip(source, target, strict=True):
            np.copyto(b, a)

    return run


def ours(case: Case, shape: tuple[int, ...], *, new: bool) -> Work:
    """All frames by one matrix product for the means and one for the covariances."""
    packed = shape == (6,)
    g, sigma, z = case.scene.means, case.scene.covariances, case.z
    sigma = pack_symmetric(sigma) if packed else sigma
    means, covariances = (torch.from_numpy(x) for x in case.memory(*shape))
    out = None if new else (means, covariances)
    return lambda: transform_sequence(g, sigma, z[0], z, packed=packed, out=out)


def torch_einsum(case: Case) -> Work:
    """What one would write first."""
    g, sigma, z = case.scene.means, case.scene.covariances, case.z
    p0, p = State(z[0]).p, State(z).p

    def run() -> tuple[Tensor, Tensor]:
        A = affine(z[0], z)
        means = torch.einsum("tij,nj->tni", A, g - p0) + p[:, None]
        return means, torch.einsum("tij,njk,tlk->tnil", A, sigma, A)

    return run


def torch_matmul(case: Case) -> Work:
    """The congruence as two broadcast products of little matrices."""
    g, sigma, z = case.scene.means, case.scene.covariances, case.z
    p0, p = State(z[0]).p, State(z).p

    def run() -> tuple[Tensor, Tensor]:
        A = affine(z[0], z)
        return (g - p0) @ A.mT + p[:, None], A[:, None] @ sigma @ A.mT[:, None]

    return run


def numpy_einsum(case: Case) -> Work:
    """The same in numpy, contracted in the best order it finds."""
    g, sigma, z = case.scene.means.numpy(), case.scene.covariances.numpy(), case.z
    A, p0, p = affine(z[0], z).numpy(), State(z[0]).p.numpy(), State(z).p.numpy()

    def run() -> tuple[Any, Any]:
        means = np.einsum("tij,nj->tni", A, g - p0, optimize=True) + p[:, None]
        return means, np.einsum("tij,njk,tlk->tnil", A, sigma, A, optimize=True)

    return run


def milliseconds(work: Work, at_least: float = 3.0, runs: int = 7) -> tuple[float, float]:
    """Shortest and median time of at least ``runs`` runs after a first one.

    On one thread or on all, whichever has the lower median: where other work shares the machine,
    torch's threads wait for each other longer than they compute.
    """
    all_threads, found = torch.get_num_threads(), list[list[float]]()
    for threads in sorted({1, all_threads}):
        torch.set_num_threads(threads)
        found.append(_times(work, at_least / 2, runs))
    torch.set_num_threads(all_threads)
    best = min(found, key=np.median)
    return 1e3 * min(best), 1e3 * float(np.median(best))


def _times(work: Work, at_least: float, runs: int) -> list[float]:
    work()
    start, times = time.perf_counter(), list[float]()
    while len(times) < runs or time.perf_counter() - start < at_least:
        before = time.perf_counter()
        work()
        times.append(time.perf_counter() - before)
    return times


def add_sequences(table: Table, case: Case, shape: tuple[int, ...]) -> None:
    """Ours against the two copies of the same shapes."""
    name = "(T,N,6)" if shape == (6,) else "(T,N,3,3)"
    for new, where in ((False, "memory reused"), (True, "new memory")):
        limit, middle = milliseconds(copies(case, shape, new=new))
        add(table, f"numpy copy, {name}, {where}", limit, middle, limit)
        add(table, f"ours, {name}, {where}", *milliseconds(ours(case, shape, new=new)), limit)
        if shape == (3, 3) and new:
            for what, peer in PEERS.items():
                add(table, f"{what}, {name}, {where}", *milliseconds(peer(case), runs=3), limit)
        table.add_section()


PEERS: dict[str, Callable[[Case], Work]] = {
    "torch einsum": torch_einsum,
    "torch matmul": torch_matmul,
    "numpy einsum": numpy_einsum,
}


def add(table: Table, what: str, best: float, middle: float, limit: float | None = None) -> None:
    """One row."""
    ratio = "" if limit is None else f"{best / limit:.1f}"
    table.add_row(what, f"{best:,.1f}", f"{middle:,.1f}", ratio)


def add_single_frames(table: Table, case: Case) -> None:
    """What one frame as a whole scene costs, and where the time goes."""
    scene, z = case.scene, case.z
    rigid = replace(z[1], s=State(z[0]).s)
    B = affine(z[0], z[1]).double() @ rotations.to_matrix(scene.quats.double())
    B = B * scene.scales.double().unsqueeze(-2)
    rows: dict[str, Work] = {
        "one frame as a scene, rigid": lambda: transform(scene, z[0], rigid),
        "one frame as a scene, with scaling": lambda: transform(scene, z[0], z[1]),
        "  of it: axes and scales of A Sigma A^T (ours)": lambda: principal_axes(B),
        "  peer: torch.linalg.svd, float64": lambda: torch.linalg.svd(B),
        "  peer: torch.linalg.eigh of A Sigma A^T, float64": lambda: torch.linalg.eigh(B @ B.mT),
    }
    for what, work in rows.items():
        add(table, what, *milliseconds(work, runs=3))
    animated = AnimatedScene(scene, z[0], z[:8])
    best, middle = milliseconds(lambda: sum(1 for _ in animated), runs=3)
    add(table, "frames(), a frame, SH 3 turned", best / 8, middle / 8)


@torch.no_grad()
def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gaussians", type=int, default=60_000)
    parser.add_argument("--frames", type=int, default=49)
    args = parser.parse_args()
    torch.manual_seed(0)
    case = Case(args.gaussians, args.frames)
    table = Table(title=f"{case.n:,} Gaussians x {case.T} frames, {platform.machine()} CPU")
    for heading in ("what", "best ms", "median ms", "times the copy"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for shape in ((3, 3), (6,)):
        add_sequences(table, case, shape)
    add_single_frames(table, case)
    Console(width=100).print(table)
    print(f"torch {torch.__version__}, numpy {np.__version__}, {torch.get_num_threads()} threads")


if __name__ == "__main__":
    main()
