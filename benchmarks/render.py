"""How long a picture takes, and how far that is from the arithmetic of blending it.

The limit counts the operations of every blended pixel (ewa) or of blurring every pixel (light) at
the rate of a large matrix product. Projecting, sorting and binning come on top, and blending uses
half of the register width that a matrix product does.

With ``--device cuda``, gsplat draws the same pictures there; the last column says how well they
agree with ewa's.

Run with: python benchmarks/render.py [--gaussians 5000 60000] [--files a.ply b.ply] [--size 512]
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import torch
from common import gemm_rate, hardware, seconds
from rich.console import Console
from rich.table import Table
from torch import Tensor

from newtongs.base.errors import InputError
from newtongs.formats import load
from newtongs.render import render
from newtongs.render.light import SIGMA, render_light
from newtongs.render.splat import make_splat
from newtongs.scene import Camera, GaussianScene, orbit

CPU = torch.device("cpu")
BLEND = 44  # operations a blended pixel, a fused multiply-add counted as two
BLUR = 5 * 2 * (2 * 8 + 1)  # a pixel: five channels, two passes over nine weights in mirrored pairs
FRAMES, VIEWS, GAUSSIANS32 = 49, 4, 4736  # one sample of Gaussian-32, at 128 x 128


def ball(n: int) -> GaussianScene:
    """Lumps of all shapes and opacities that fill a ball, with colour from every side."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(n, 3, generator=g)
    x *= 1.5 * torch.rand(n, 1, generator=g) ** (1 / 3) / x.norm(dim=-1, keepdim=True)
    return GaussianScene.make(
        means=x,
        scales=0.9 * n ** (-1 / 3) * (0.7 * torch.randn(n, 3, generator=g) - 0.9).exp(),
        quats=torch.randn(n, 4, generator=g),
        opacities=0.05 + 0.95 * torch.rand(n, generator=g),
        sh=0.3 * torch.randn(n, 16, 3, generator=g),
    )


def filling(scene: GaussianScene, size: int) -> Camera:
    """A camera that sees the whole scene, which captures have upside down."""
    low, high = scene.bounds()
    reach = float((high - low).max())
    return orbit(
        (low + high) / 2, radius=1.2 * reach, elevation=0.25 * reach, width=size, height=size,
        up=(0, -1, 0),
    )[0]  # fmt: skip


def psnr(a: Tensor, b: Tensor) -> float:
    """Decibels between two pictures whose white is 1."""
    return -10 * float((a.cpu() - b.cpu()).square().mean().log10())


def add_gsplat(table: Table, name: str, scene: GaussianScene, camera: Camera) -> None:
    """The same picture by gsplat."""
    there, cuda = scene.to("cuda"), torch.device("cuda")
    work = partial(render, there, camera, backend="gsplat")
    s, pixels = seconds(work, cuda), camera.width * camera.height
    decibels = psnr(render(scene, camera, backend="ewa").color, work().color)
    table.add_row(
        f"{name} ({len(scene):,})", f"gsplat, {hardware(cuda)}", f"{1e3 * s:.2f}",
        f"{pixels / s / 1e6:.0f}", "", "", "", f"{decibels:.1f}",
    )  # fmt: skip


def add_rows(table: Table, name: str, scene: GaussianScene, camera: Camera, rate: float) -> None:
    """The CPU renderers on one scene; of steady's arithmetic there is no count."""
    pixels = camera.width * camera.height
    work: list[tuple[str, str, str, float]] = [("light", "", "", BLUR * pixels)]
    try:
        from newtongs.render.ewa import draw_counting

        _, pairs, blended = draw_counting(make_splat(scene, camera, (1, 1, 1)))
        work.append(("ewa", f"{pairs:,}", f"{blended / 1e6:.1f}", BLEND * blended))
        work.append(("steady", "", "", 0))
    except InputError as missing:
        table.add_row(name, "ewa", str(missing))
    for backend, pairs_, blended_, operations in work:
        s = seconds(lambda backend=backend: render(scene, camera, backend=backend), CPU)  # type: ignore[misc]
        table.add_row(
            f"{name} ({len(scene):,})", backend, f"{1e3 * s:.1f}", f"{pixels / s / 1e6:.1f}",
            pairs_, blended_, f"{s * rate / operations:.1f}" if operations else "",
        )  # fmt: skip


def add_gaussian32(table: Table, rate: float) -> None:
    """All frames and views of one sample at once."""
    torch.manual_seed(0)
    means, colors = torch.randn(FRAMES, GAUSSIANS32, 3), torch.rand(GAUSSIANS32, 3)
    cameras = orbit((0, 0, 0), views=VIEWS, width=128, height=128)
    opacities = 0.1 + 0.9 * torch.rand(GAUSSIANS32)
    s = seconds(lambda: render_light(means, colors, opacities, cameras), CPU)
    pixels = FRAMES * VIEWS * 128 * 128
    table.add_row(
        f"Gaussian-32, {FRAMES} x {VIEWS} views ({GAUSSIANS32:,})", "light", f"{1e3 * s:.0f}",
        f"{pixels / s / 1e6:.1f}", "", "", f"{s * rate / (BLUR * pixels):.1f}",
    )  # fmt: skip


FIRST_CALL = """
import time
from newtongs.render import render
from newtongs.scene import GaussianScene, orbit
scene = GaussianScene.make(means=[[0.0, 0, 0]], scales=[1.0])
camera, start = orbit((0, 0, 0))[0], time.perf_counter()
render(scene, camera, backend="ewa")
print(time.perf_counter() - start)
"""


def first_calls() -> list[float]:
    """Seconds of a new process's first picture, with an empty JIT cache and with a full one."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        command = [sys.executable, "-c", FIRST_CALL]
        return [
            float(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
            for _ in range(2)
        ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gaussians", type=int, nargs="+", default=[5000, 60000])
    parser.add_argument("--files", type=Path, nargs="*", default=[])
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    args = parser.parse_args()
    rate = gemm_rate(CPU)
    table = Table(title=f"one picture of {args.size} x {args.size} on {hardware(CPU)}")
    headings = ["scene", "renderer", "ms", "Mpixel/s", "pairs", "M blended", "times the limit"]
    for heading in headings + ["dB"] * (args.device == "cuda"):
        table.add_column(heading, justify="left" if heading in headings[:2] else "right")
    camera = orbit((0, 0, 0), width=args.size, height=args.size)[0]
    pictures = [("ball", ball(n), camera) for n in args.gaussians]
    for path in args.files:
        scene = load(path)
        pictures.append((path.stem, scene, filling(scene, args.size)))
    for picture in pictures:
        add_rows(table, *picture, rate)
        if args.device == "cuda":
            add_gsplat(table, *picture)
        table.add_section()
    add_gaussian32(table, rate)
    console = Console(width=110)
    console.print(table)
    console.print(
        f"limit: {BLEND} operations a blended pixel (ewa), {BLUR} a pixel (light, sigma {SIGMA}), "
        f"at {rate / 1e9:.0f} GFlop/s (torch.mm)\n"
        "pairs: of a 16 x 16 tile and a Gaussian that touches it"
    )
    try:
        cold, cached = first_calls()
        console.print(f"first picture by ewa: {cold:.1f} s cold, {cached:.1f} s from the cache")
    except subprocess.CalledProcessError:
        console.print("first picture by ewa: numba is not installed")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    console.print(f"torch {torch.__version__}, peak {peak:.2f} GB")


if __name__ == "__main__":
    main()
