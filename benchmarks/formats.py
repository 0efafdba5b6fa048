"""How fast splat files are read and written, and how far that is from moving their bytes.

The limit is `np.fromfile` of the whole file for reading, and one `write` of its bytes for writing.
All rows end with the same contiguous fields (means, quaternions, log scales, logits, harmonics) or
the same file content; gsply by itself returns views, so its row is also timed with their copies.

Run with: python benchmarks/formats.py [--gaussians 100000] [--degree 3]
"""

import argparse
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from newtongs.base.errors import InputError
from newtongs.formats import load, save
from newtongs.scene import GaussianScene

Fields = dict[str, np.ndarray]
NAMES = ("means", "quats", "log_scales", "logits", "sh")


class NotHereError(Exception):
    """Why a row cannot run on this machine."""


def make_scene(n: int, degree: int) -> GaussianScene:
    """Random Gaussians with random colour from every side."""
    torch.manual_seed(0)
    return GaussianScene(
        means=torch.randn(n, 3),
        quats=torch.nn.functional.normalize(torch.randn(n, 4), dim=-1),
        log_scales=torch.randn(n, 3) - 4,
        logits=torch.randn(n),
        sh=0.2 * torch.randn(n, (degree + 1) ** 2, 3),
    )


def seconds(work: Callable[[], object], at_least: float = 1.0) -> float:
    """Shortest of at least five runs after a first one, on one thread or on all.

    Both, because on small work torch's threads may cost more than they give.
    """
    all_threads, times = torch.get_num_threads(), []
    for threads in sorted({1, all_threads}):
        torch.set_num_threads(threads)
        work()
        start, runs = time.perf_counter(), 0
        while runs < 5 or time.perf_counter() - start < at_least:
            before, runs = time.perf_counter(), runs + 1
            work()
            times.append(time.perf_counter() - before)
    torch.set_num_threads(all_threads)
    return min(times)


def ours(path: Path) -> Fields:
    """What `newtongs.scene.load` gives."""
    return dict(load(path).numpy())


def plyfile_columns(path: Path) -> Fields:
    """Through plyfile, column by column, as INRIA's own loader does it."""
    try:
        from plyfile import PlyData
    except ImportError as error:
        raise NotHereError("not installed") from error
    vertex = PlyData.read(path)["vertex"]

    def take(*names: str) -> np.ndarray:
        return np.stack([np.asarray(vertex[name]) for name in names], axis=1)

    rest = sorted(
        (p.name for p in vertex.properties if p.name.startswith("f_rest_")),
        key=lambda name: int(name.split("_")[-1]),
    )
    dc = take("f_dc_0", "f_dc_1", "f_dc_2")[:, None]
    higher = take(*rest).reshape(len(dc), 3, -1).transpose(0, 2, 1) if rest else dc[:, :0]
    return {
        "means": take("x", "y", "z"),
        "quats": take("rot_0", "rot_1", "rot_2", "rot_3"),
        "log_scales": take("scale_0", "scale_1", "scale_2"),
        "logits": np.asarray(vertex["opacity"]),
        "sh": np.concatenate([dc, higher], axis=1),
    }


def gsply_views(path: Path) -> Fields:
    """Through gsply as it comes: views into the rows of the file, harmonics in two parts."""
    try:
        import gsply
    except ImportError as error:
        raise NotHereError("not installed") from error
    data = gsply.plyread(path)
    return {
        "means": data.means,
        "quats": data.quats,
        "log_scales": data.scales,
        "logits": data.opacities,
        "sh0": data.sh0,
        "shN": data.shN,
    }


def gsply_copies(path: Path) -> Fields:
    """The same made contiguous, as a renderer needs it."""
    x = gsply_views(path)
    sh = np.concatenate([x.pop("sh0")[:, None], x.pop("shN")], axis=1)
    return {name: np.ascontiguousarray(value) for name, value in x.items()} | {"sh": sh}


READERS: dict[str, Callable[[Path], Fields]] = {
    "ours": ours,
    "plyfile": plyfile_columns,
    "gsply, views": gsply_views,
    "gsply, contiguous": gsply_copies,
}


def write_plyfile(scene: GaussianScene, path: Path) -> Callable[[], object]:
    """Through plyfile, whose rows are put together column by column."""
    try:
        from plyfile import PlyData, PlyElement
    except ImportError as error:
        raise NotHereError("not installed") from error
    x = scene.numpy()
    names = [p.name for p in PlyData.read(path)["vertex"].properties]
    rest = x["sh"][:, 1:].transpose(0, 2, 1).reshape(len(scene), -1)
    parts = [x["means"], np.zeros_like(x["means"]), x["sh"][:, 0], rest]
    parts += [x["logits"][:, None], x["log_scales"], x["quats"]]

    def run() -> None:
        rows = np.empty(len(scene), [(name, "f4") for name in names])
        columns = (part[:, i] for part in parts for i in range(part.shape[1]))
        for name, column in zip(names, columns, strict=True):
            rows[name] = column
        PlyData([PlyElement.describe(rows, "vertex")]).write(path.with_suffix(".plyfile.ply"))

    return run


def write_gsply(scene: GaussianScene, path: Path) -> Callable[[], object]:
    """Gsply, which writes no normals: 5 % fewer bytes at degree 3."""
    try:
        import gsply
    except ImportError as error:
        raise NotHereError("not installed") from error
    x = scene.numpy()
    rest = x["sh"][:, 1:] if scene.sh_degree else None
    fields = (x["means"], x["log_scales"], x["quats"], x["logits"], x["sh"][:, 0], rest)
    return lambda: gsply.plywrite(path.with_suffix(".gsply.ply"), *fields)


WRITERS: dict[str, Callable[[GaussianScene, Path], Callable[[], object]]] = {
    "ours": lambda scene, path: lambda: save(scene, path.with_suffix(".ours.ply")),
    "plyfile": write_plyfile,
    "gsply": write_gsply,
}


def same(a: Fields, b: Fields) -> str:
    """Whether every field agrees bit for bit, where both have it."""
    names = [name for name in NAMES if name in a and name in b]
    return "yes" if all(np.array_equal(a[name], b[name]) for name in names) else "no"


def add_row(table: Table, what: str, s: float, limit: float, first: float, note: str) -> None:
    """Milliseconds, and how many times ours and the limit."""
    table.add_row(what, f"{1e3 * s:,.1f}", f"{s / first:.1f}", f"{s / limit:.1f}", note)


def add_readers(table: Table, path: Path) -> None:
    """Time every reader on the file."""
    limit = seconds(lambda: np.fromfile(path, np.uint8))
    expected, first = ours(path), seconds(lambda: ours(path))
    add_row(table, "read: limit, np.fromfile", limit, limit, first, "")
    for what, reader in READERS.items():
        try:
            fields = reader(path)
        except NotHereError as reason:
            table.add_row(f"read: {what}", str(reason))
            continue
        s = first if what == "ours" else seconds(lambda reader=reader: reader(path))  # type: ignore[misc]
        add_row(table, f"read: {what}", s, limit, first, same(fields, expected))


def add_writers(table: Table, scene: GaussianScene, path: Path) -> None:
    """Time every writer of the scene."""
    content, bare = path.read_bytes(), path.with_suffix(".bare")
    limit = seconds(lambda: bare.write_bytes(content))
    first = seconds(WRITERS["ours"](scene, path))
    add_row(table, "write: limit, one write", limit, limit, first, "")
    for what, writer in WRITERS.items():
        try:
            s = first if what == "ours" else seconds(writer(scene, path))
        except NotHereError as reason:
            table.add_row(f"write: {what}", str(reason))
            continue
        add_row(table, f"write: {what}", s, limit, first, "")


def add_packed(table: Table, scene: GaussianScene, folder: Path) -> None:
    """The other formats, read and written by us; sizes against the plain .ply."""
    for ending in (".splat", ".compressed.ply", ".spz"):
        path = folder / f"packed{ending}"
        try:
            writing = seconds(lambda path=path: save(scene, path))  # type: ignore[misc]
        except InputError:
            table.add_row(ending, "not installed")
            continue
        reading = seconds(lambda path=path: load(path))  # type: ignore[misc]
        size = f"{path.stat().st_size / 1e6:.1f} MB"
        table.add_row(f"{ending}: read", f"{1e3 * reading:,.1f}", "", "", size)
        table.add_row(f"{ending}: write", f"{1e3 * writing:,.1f}", "", "", size)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gaussians", type=int, default=100_000)
    parser.add_argument("--degree", type=int, default=3, choices=range(4))
    args = parser.parse_args()
    scene = make_scene(args.gaussians, args.degree)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "scene.ply"
        save(scene, path)
        size = path.stat().st_size / 1e6
        table = Table(title=f"{len(scene):,} Gaussians, SH {args.degree}, {size:.1f} MB as .ply")
        for heading in ("what", "ms", "times ours", "times the limit", "same values, size"):
            table.add_column(heading, justify="left" if heading == "what" else "right")
        add_readers(table, path)
        table.add_section()
        add_writers(table, scene, path)
        table.add_section()
        add_packed(table, scene, Path(name))
    console = Console(width=100)
    console.print(table)
    console.print(
        f"{platform.machine()}, {torch.get_num_threads()} threads, numpy {np.__version__}"
    )


if __name__ == "__main__":
    main()
