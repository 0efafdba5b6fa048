"""L4GM on Same-32: clips for it, its dumps as states, its row of Table 2."""

import csv
import json
import math
import pickle

import imageio_ffmpeg
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from newtongs import InputError, cli
from newtongs.base import rotations
from newtongs.base.state import State
from newtongs.formats.dumps import open_dump
from newtongs.paper.datasets import gaussian32, gaussian_sample, same32
from newtongs.paper.evaluation.l4gm import dump_states, export_l4gm, l4gm_states, on_white
from newtongs.paper.evaluation.same32 import run_same32, sample_ids, table2
from newtongs.render.light import render_light
from newtongs.scene.lifting import lift_sequence

FRAMES, DT, REAL = 49, 1 / 24, 65_536


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Same-32 without pictures."""
    out = tmp_path_factory.mktemp("same32")
    same32.build_same32(out, render=None, store="compact")
    return out


# --- dumps with a known state --------------------------------------------------------------------


def path_of_states():
    """Centres, orientations and scales ``(T, .)`` whose axes are named as lifting names them."""
    t = torch.arange(FRAMES, dtype=torch.float64) * DT
    zero, one = torch.zeros_like(t), torch.ones_like(t)
    p = torch.stack([0.4 * t - 0.4, 0.3 * (2 * t).sin(), 0.1 * t**2], -1)
    q = torch.stack([(0.15 * t).cos(), zero, zero, (0.15 * t).sin()], -1)  # under 45 degrees
    s = torch.stack([0.5 + 0.1 * t, 0.3 * one, 0.12 - 0.02 * t], -1)
    return p, q, s


def cloud(p, q, s, n, dtype, generator):
    """``(n, 14)`` whose opacity-weighted centre is ``p`` and whose axes and scales are q, s."""
    x = torch.randn(n, 3, dtype=torch.float64, generator=generator).clamp(-2, 2)
    opacity = (0.1 + 0.9 * torch.rand(n, 1, dtype=torch.float64, generator=generator)).to(dtype)
    w = opacity.double() / opacity.double().sum()
    x = x - (w * x).sum(0)
    C = (w * x).T @ x
    white = torch.linalg.solve_triangular(torch.linalg.cholesky(C), x.T, upper=False).T
    means = white * (s / 2) @ rotations.to_matrix(q).T + p
    turned = torch.tensor([1.0, 0, 0, 0, 0.5, 0.5, 0.5], dtype=torch.float64).expand(n, 7)
    small = torch.full((n, 3), 0.01, dtype=torch.float64)
    return torch.cat([means, opacity.double(), small, turned], -1).to(dtype)


def frames_of(dtype, sizes):
    generator = torch.Generator().manual_seed(1)
    rows = zip(*path_of_states(), sizes, strict=True)
    return [cloud(p, q, s, n, dtype, generator) for p, q, s, n in rows]


def write(path, frames, batch=False):
    """A dump in the layout that its ending and its frames ask for."""
    named = {f"frame_{t:03d}": x for t, x in enumerate(frames)}
    if len({len(x) for x in frames}) == 1:
        whole = torch.stack(frames)
        whole = whole.unsqueeze(0) if batch else whole
        named, frames = {"gaussians": whole}, whole
    match path.suffix:
        case ".npy":
            np.save(path, frames.numpy())
        case ".npz":
            np.savez(path, **{k: x.numpy() for k, x in named.items()})
        case ".safetensors":
            save_file(named, path)
        case ".pt":
            torch.save(frames, path)
    return path


def varied(n):
    """N that differs by frame."""
    return [n - 977 * (t % 5) for t in range(FRAMES)]


@pytest.mark.parametrize(
    ("ending", "dtype", "sizes"),
    [
        (".npy", torch.float32, [REAL] * FRAMES),
        (".npy", torch.float16, [REAL] * FRAMES),
        (".safetensors", torch.float32, varied(REAL)),
        (".npz", torch.float16, varied(REAL)),
        (".pt", torch.float16, varied(REAL)),
    ],
    ids=lambda x: str(x) if not isinstance(x, list) else f"N={min(x)}..{max(x)}",
)
def test_a_dump_of_real_size_gives_the_known_states(ending, dtype, sizes, tmp_path):
    dump = open_dump(write(tmp_path / f"x{ending}", frames_of(dtype, sizes)))
    assert dump.frame_sizes == tuple(sizes)
    assert next(dump.frames()).dtype == dtype
    z = State(dump_states(dump))
    p, q, s = path_of_states()
    close = 2e-6 if dtype == torch.float32 else 2e-5  # half precision: 2e-4 a point, averaged
    torch.testing.assert_close(z.p.double(), p, rtol=0, atol=close)
    torch.testing.assert_close(z.s.double(), s, rtol=0, atol=3 * close)
    assert rotations.discrepancy(z.q.double(), q).max() < close
    v = torch.stack([(p[1] - p[0]) / DT, *((p[2:] - p[:-2]) / (2 * DT)), (p[-1] - p[-2]) / DT])
    torch.testing.assert_close(z.v.double(), v, rtol=0, atol=2 * close / DT)
    spin = torch.tensor([0.0, 0.0, 0.3])
    torch.testing.assert_close(z.w, spin.expand(FRAMES, 3), rtol=0, atol=50 * close / DT)
    for channel, value in ((z.m, 1.0), (z.e, 0.75), (z.mu, 0.2)):
        assert channel.flatten().tolist() == pytest.approx([value] * FRAMES)


@pytest.mark.parametrize("ending", [".npy", ".npz", ".safetensors", ".pt"])
def test_every_file_reads_the_same(ending, tmp_path):
    """Frame by frame from any container as all at once from memory."""
    frames = frames_of(torch.float32, [500] * FRAMES)
    x = torch.stack(frames)
    whole = lift_sequence(x[..., :3], x[..., 3])
    for batch in (False, True):
        found = dump_states(open_dump(write(tmp_path / f"x{ending}", frames, batch)))
        torch.testing.assert_close(found, whole, rtol=0, atol=1e-5)
    if ending != ".npy":
        path = write(tmp_path / f"y{ending}", frames_of(torch.float32, varied(9000)))
        other = dump_states(open_dump(path))
        torch.testing.assert_close(State(other).p, State(whole).p, rtol=0, atol=1e-5)


def test_frames_are_ordered_by_number_and_not_by_name(tmp_path):
    frames = frames_of(torch.float32, varied(5000))
    np.savez_compressed(tmp_path / "x.npz", **{f"f{t}": x.numpy() for t, x in enumerate(frames)})
    p = State(dump_states(open_dump(tmp_path / "x.npz"))).p
    torch.testing.assert_close(p.double(), path_of_states()[0], rtol=0, atol=1e-5)


# --- Table 2 -------------------------------------------------------------------------------------


def write_dumps(out, folder, shift=(0.0, 0.0, 0.0), n=300):
    """Dumps whose centres are the labelled positions, moved by ``shift``."""
    out.mkdir(exist_ok=True)
    generator = torch.Generator().manual_seed(0)
    states, _ = same32.states(folder)
    for name, z in zip(sample_ids(folder), states.double(), strict=True):
        p, s = State(z).p + torch.tensor(shift), torch.tensor([0.6, 0.4, 0.2]).double()
        q = torch.tensor([1.0, 0, 0, 0]).double()
        frames = [cloud(x, q, s, n, torch.float32, generator) for x in p]
        write(out / f"{name}.npy", frames, batch=True)
    return out


@pytest.mark.slow
def test_nothing_is_aligned(folder, tmp_path):
    """A reconstruction shifted by one unit scores one unit, a perfect one zero."""
    exact = run_same32(folder, models=[], l4gm=write_dumps(tmp_path / "a", folder))["l4gm"][0]
    assert exact["traj"] < 1e-5
    assert exact["fde"] < 1e-5
    shifted = write_dumps(tmp_path / "b", folder, shift=(0.0, 0.6, -0.8))
    moved = run_same32(folder, models=[], l4gm=shifted)["l4gm"][0]
    assert moved["traj"] == pytest.approx(1, abs=1e-5)
    assert moved["fde"] == pytest.approx(1, abs=1e-5)
    assert moved["vel"] == pytest.approx(exact["vel"], abs=1e-4)


def test_table_2_with_dumps(folder, tmp_path, capsys):
    dumps, figures = write_dumps(tmp_path / "dumps", folder, shift=(1.0, 0.0, 0.0)), tmp_path / "f"
    cli.main(["evaluate", "--same32", str(folder), "--l4gm", str(dumps), "--json", str(figures)])
    out = capsys.readouterr().out
    assert "L4GM video-to-4DGS" in out
    assert "2.9884" in out
    assert "give its dumps" not in out
    content = json.loads(figures.read_text())
    assert content["same32"]["l4gm"]["traj"] == pytest.approx(1, abs=1e-5)
    rows = content["table2"]["rows"]
    assert content["table2"]["missing"] == {}
    assert rows["l4gm"]["percent"]["traj"] == pytest.approx(100 * (1 / 2.9884 - 1), abs=1e-3)
    assert rows["l4gm"]["std"] is None
    assert rows["newtongs"]["runs"] == 3
    assert 0 < max(rows["newtongs"]["std"].values()) < 0.05


def test_table_2_as_data(folder):
    runs = run_same32(folder)
    content = table2(runs)
    assert "docs/l4gm.md" in content["missing"]["l4gm"]
    ours = [run["traj"] for run in runs["newtongs"]]
    row = content["rows"]["newtongs"]
    assert row["ours"]["traj"] == pytest.approx(sum(ours) / 3)
    assert row["std"]["traj"] == pytest.approx(np.std(ours, ddof=1))
    assert row["paper"]["traj"] == 2.5751
    assert content["rows"]["hold_z0"]["std"] is None
    json.dumps(content)


# --- what can be wrong with a dump ---------------------------------------------------------------


@pytest.fixture(scope="module")
def dumps(folder, tmp_path_factory):
    return write_dumps(tmp_path_factory.mktemp("dumps"), folder, n=40)


def thirteen(x):
    return x[..., :13]


def not_a_number(x):
    x[0, 12, 7, 5] = math.nan
    return x


def infinite(x):
    x[0, 48, 3, 0] = math.inf
    return x


def one_short(x):
    return x[:, :48]


def logits(x):
    x[0, 3, :, 3] = 5
    return x


def transparent(x):
    x[0, 3, :, 3] = 0
    return x


def two_batches(x):
    return np.concatenate([x, x])


def whole_numbers(x):
    return x.astype(int)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (thirteen, "(xyz, opacity, scale, quaternion, rgb), got 13"),
        (not_a_number, "frame 12 holds 1 numbers that are not finite, the first in Gaussian 7"),
        (infinite, "frame 48 holds 1 numbers that are not finite"),
        (one_short, "expected 49 frames, got 48"),
        (logits, "LGM channels are activated"),
        (transparent, "no visible Gaussian"),
        (two_batches, "expected one array (T, N, 14)"),
        (whole_numbers, "expected float16 or float32"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)  # fmt: skip
def test_a_damaged_dump_is_one_line(damage, said, dumps, folder, tmp_path, capsys):
    for path in dumps.iterdir():
        (tmp_path / path.name).symlink_to(path)
    victim = tmp_path / f"{sample_ids(folder)[5]}.npy"
    x = damage(np.load(victim))
    victim.unlink()
    np.save(victim, x)
    figures = tmp_path / "figures.json"
    words = ["evaluate", "--same32", str(folder), "--l4gm", str(tmp_path), "--json", str(figures)]
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert said in error
    assert victim.name in error
    assert error.count("\n") == 1
    assert not figures.exists()


def test_missing_dumps_and_folders_are_named(dumps, folder, tmp_path):
    names = sample_ids(folder)
    for name in names[:-2]:
        (tmp_path / f"{name}.npy").symlink_to(dumps / f"{name}.npy")
    with pytest.raises(InputError, match=rf"lacks the dumps of 2 of 32 samples, first {names[-2]}"):
        l4gm_states(tmp_path, names)
    (tmp_path / f"{names[0]}.pt").write_bytes(b"")
    with pytest.raises(InputError, match="keep one"):
        l4gm_states(tmp_path, names[:1])
    with pytest.raises(InputError, match="no folder"):
        l4gm_states(tmp_path / "none", names)
    with pytest.raises(InputError, match="--l4gm requires --same32"):
        cli.parse(["evaluate", "--data", "x", "--l4gm", "y"]).run()


class Harm:
    def __reduce__(self):
        return (open, ("harm", "w"))


def test_no_stranger_is_unpickled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.pt").write_bytes(pickle.dumps(Harm()))
    torch.save([Harm()], tmp_path / "y.pt")
    np.save(tmp_path / "x.npy", np.array([Harm()], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "x.npz", a=np.array([Harm()], dtype=object))
    (tmp_path / "x.safetensors").write_bytes(b"nothing of the kind")
    for name in ("x.pt", "y.pt", "x.npy", "x.npz", "x.safetensors"):
        with pytest.raises(InputError, match=name):
            open_dump(tmp_path / name)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("ending", [".npy", ".npz", ".safetensors", ".pt"])
def test_a_dump_cut_short_is_one_line(ending, tmp_path):
    path = write(tmp_path / f"x{ending}", frames_of(torch.float32, [500] * FRAMES))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InputError, match=r"cannot be read|expected"):
        dump_states(open_dump(path))


# --- the clips -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pictured(tmp_path_factory):
    """A Same-32 folder with two motions and their pictures, listed against the alphabet."""
    out = tmp_path_factory.mktemp("pictured")
    items = gaussian32.items([same32.SCENE], ["tumbling_fall", "free_fall"])
    for item in items:
        sample = gaussian32.make_sample(item, render_light)
        gaussian_sample.save(out / item.path, sample, store="compact")
    rows = [[i.sample_id, i.motion.name, i.path.as_posix(), gaussian32.DT] for i in items]
    rows.sort(key=lambda row: row[1], reverse=True)
    with (out / same32.MANIFEST).open("w", newline="") as f:
        csv.writer(f).writerows([same32.COLUMNS, *rows])
    return out


def read_clip(path):
    frames = imageio_ffmpeg.read_frames(str(path))
    meta = next(frames)
    return meta, np.stack([np.frombuffer(x, np.uint8).reshape(256, 256, 3) for x in frames])


def test_clips_are_the_labelled_pictures_on_white(pictured, tmp_path, capsys):
    cli.main(["l4gm", "export", "--same32", str(pictured), "--out", str(tmp_path)])
    assert "videos" in capsys.readouterr().out
    rows = list(csv.DictReader((tmp_path / "manifest_l4gm.csv").open()))
    assert [row["motion_type"] for row in rows] == ["free_fall", "tumbling_fall"]
    for row in rows:
        meta, clip = read_clip(tmp_path / row["video"])
        assert meta["fps"] == 24
        assert clip.shape == (FRAMES, 256, 256, 3)
        made = gaussian32.load(pictured / "samples" / f"{row['sample_id']}.pt")["render"]
        wanted = 255 * on_white(made["rgb"][:, 0], made["mask"][:, 0]).numpy()
        assert np.abs(clip - wanted).mean() < 1  # what H.264 leaves of it
        seen = np.repeat(np.repeat(made["mask"][:, 0].numpy(), 2, 1), 2, 2) > 0
        assert np.median(clip[~seen]) == 255
        assert sorted(p.name for p in (tmp_path / "workspace").glob(f"{row['sample_id']}*")) == [
            f"{row['sample_id']}_{v:03d}.png" for v in range(4)
        ]


def test_mask_is_resized_bilinearly():
    """A hard edge becomes the ramp 1/4, 3/4 of bilinear doubling; outside is white."""
    rgb, mask = torch.zeros(1, 128, 128, 3), torch.zeros(1, 128, 128)
    mask[:, :, 64:] = 1
    row = on_white(rgb, mask)[0, 100, :, 0]
    assert row[126:130].tolist() == [1.0, 0.75, 0.25, 0.0]
    assert (row[:126] == 1).all()


def test_export_says_what_is_missing(folder, pictured, tmp_path):
    with pytest.raises(InputError, match="has no pictures; make it with"):
        export_l4gm(folder, tmp_path / "x")
    assert not (tmp_path / "x").exists()
    with pytest.raises(InputError, match="did you mean free_fall"):
        export_l4gm(pictured, tmp_path / "x", motions=["free_fal"])
    with pytest.raises(InputError, match="newtongs data same32"):
        export_l4gm(tmp_path, tmp_path / "x")


def test_one_repeat_a_motion_is_selected(tmp_path):
    """Sorted by motion, then sample id; of two repeats the first."""
    rows = [("b-0001", "spin"), ("a-0000", "fall"), ("b-0000", "spin")]
    with (tmp_path / same32.MANIFEST).open("w", newline="") as f:
        csv.writer(f).writerows([same32.COLUMNS, *[(i, m, "x", DT) for i, m in rows]])
    assert [row["sample_id"] for row in same32.selected(tmp_path)] == ["a-0000", "b-0000"]
