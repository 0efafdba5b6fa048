"""The page's numbers, the default camera, and several formats at once."""

import html
import json
import os
import re
import subprocess
import sys
import zlib

import numpy as np
import pytest
import torch
from export_samples import bouncing, park, random_scene, two_objects

from newtongs import exports as exporting
from newtongs.base.errors import InputError
from newtongs.exports import FORMATS, default_camera, export, write_html
from newtongs.exports.html import read_html
from newtongs.exports.page_data import from_text, to_text
from newtongs.exports.parts import parts
from newtongs.scene import join
from newtongs.scene.animation import Animation


def blanks_of(path):
    """What was filled into the player: its description and its numbers."""
    text = path.read_text()
    meta = re.search(r'id="meta">(.*?)</script>', text, re.S)[1]
    data = re.search(r'id="data">(.*?)</script>', text, re.S)[1]
    meta = json.loads(meta)
    return meta, zlib.decompress(from_text(data.encode())[: meta["bytes"]])


def unpack(meta, data):
    n, k = meta["count"], meta["sh"]["coefficients"]
    out, at = {}, 0
    for name, kind, width in (
        ("means", "<f4", 3), ("quats", "<i2", 4), ("logs", "<u2", 3), ("rgba", "u1", 4),
        ("sh", "i1", 3 * k),
    ):  # fmt: skip
        out[name] = np.frombuffer(data, kind, n * width, at).reshape(n, width)
        at += n * width * np.dtype(kind).itemsize
    assert at == len(data)
    return out


@pytest.mark.parametrize("degree", [0, 1, 3])
def test_the_pages_numbers_are_the_scene(tmp_path, degree):
    animation = two_objects()
    write_html(animation, tmp_path / "a.html", sh_degree=degree)
    meta, data = blanks_of(tmp_path / "a.html")
    got = unpack(meta, data)
    assert [g["count"] for g in meta["groups"]] == [91, 40 + 7, 40 + 2]
    ids = animation.scene.ids
    order = torch.cat(
        [((ids == -1) | (ids == 5)).nonzero(), *((ids == i).nonzero() for i in (7, 2))]
    )
    scene = animation.scene[order.squeeze(-1)]
    np.testing.assert_array_equal(got["means"], scene.means.numpy())
    np.testing.assert_allclose(got["quats"] / 32767, scene.quats, atol=2e-5)
    low, high = meta["log_scales"]
    scales = np.exp(low + (high - low) * got["logs"] / 65535)
    np.testing.assert_allclose(scales, scene.scales, rtol=5e-4)
    np.testing.assert_allclose(got["rgba"][:, 3] / 255, scene.opacities, atol=2.1e-3)
    np.testing.assert_allclose(got["rgba"][:, :3] / 255, scene.colors.clamp(0, 1), atol=2.1e-3)
    rest = scene.sh[:, 1 : (degree + 1) ** 2].flatten(1)
    assert meta["sh"]["coefficients"] == (degree + 1) ** 2 - 1
    np.testing.assert_allclose(got["sh"] * meta["sh"]["step"], rest, atol=0.51 * meta["sh"]["step"])


def test_the_pages_tracks_are_the_placement(tmp_path):
    animation = two_objects()
    write_html(animation, tmp_path / "a.html")
    meta, _ = blanks_of(tmp_path / "a.html")
    assert meta["groups"][0]["track"] is None
    place = animation.node_track(2)
    for name, wanted in (("p", place.translation), ("q", place.rotation), ("s", place.scale)):
        np.testing.assert_allclose(meta["groups"][2]["track"][name], wanted, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(meta["times"], animation.times, atol=1e-6)
    np.testing.assert_allclose(meta["up"], animation.world.up)


def test_the_page_needs_no_network_and_keeps_the_title_in_its_place(tmp_path):
    title = '<script>alert("x")</script> %%META%% & co'
    write_html(park(3), tmp_path / "a.html", title=title)
    text = (tmp_path / "a.html").read_text()
    assert "http://" not in text
    assert "https://" not in text
    assert "default-src 'none'" in text
    assert "<script>alert" not in text
    assert html.escape('<script>alert("x")</script>') in text


def test_60k_gaussians_make_a_page_under_4_mb(tmp_path):
    times, z = bouncing(49)
    scene = join(random_scene(10_000, degree=0), random_scene(50_000, ids=1, degree=0, seed=1))
    write_html(Animation(scene, times, {1: z}), tmp_path / "a.html")
    assert (tmp_path / "a.html").stat().st_size < 2.6e6


@pytest.mark.parametrize("size", [(512, 512), (640, 200), (200, 640)])
def test_the_default_camera_sees_all_of_the_motion(size):
    for animation in (park(), two_objects()):
        camera = default_camera(animation, size)
        assert (camera.width, camera.height) == size
        for index in animation.states:
            rows = animation.scene.ids == index
            for t in range(0, len(animation), 3):
                pixels, depth = camera.project(animation.frames()[t].means[rows])
                assert (depth > 0).all()
                assert (pixels >= 0).all()
                assert (pixels <= torch.tensor(size)).all()
        down = camera.w2c[1, :3].double()
        assert float(down @ animation.world.up) < -0.8


def test_every_format_at_once(tmp_path):
    pytest.importorskip("pxr", reason="needs newtongs[usd]")
    animation, seen = park(5), []
    out = export(
        animation, tmp_path / "new" / "out", FORMATS, name="ball", size=(64, 48),
        progress=lambda *x: seen.append(x),
    )  # fmt: skip
    assert list(out) == list(FORMATS)
    for name, path in out.items():
        assert path.exists(), name
        assert path.name == f"ball{FORMATS[name].ending}"
    assert len(list(out["ply"].iterdir())) == 5
    assert [x for x in seen if x[0] == "frames"] == [("frames", i, 5) for i in range(1, 6)]
    assert [x[0] for x in seen if x[1:] == (1, 1)] == list(FORMATS)
    assert not list(tmp_path.rglob(".*"))


def test_frames_are_drawn_once_and_are_the_renderers(tmp_path, monkeypatch):
    pytest.importorskip("imageio_ffmpeg", reason="needs newtongs[video]")
    from newtongs.render import render, video
    from newtongs.render.video import to_bytes

    animation = park(4)
    camera = default_camera(animation, (48, 32))
    seen = {}
    for name in ("write_video", "contact_sheet"):
        real = getattr(video, name)

        def spy(*args, real=real, name=name):
            frames = next(a for a in args if not isinstance(a, int | float | str | os.PathLike))
            seen.setdefault(name, []).append(np.array([to_bytes(f) for f in frames]))
            real(*args)

        monkeypatch.setattr(exporting, name, spy)
    calls = []
    real_frames = exporting.films.render_frames
    monkeypatch.setattr(
        exporting.films, "render_frames", lambda *a, **k: calls.append(1) or real_frames(*a, **k)
    )
    export(animation, tmp_path, "mp4,gif png", camera=camera, background=(0.2, 0.4, 0.6))
    assert len(calls) == 1
    mp4, gif = seen["write_video"]
    assert (mp4 == gif).all()
    wanted = render(animation.frames()[2], camera, background=(0.2, 0.4, 0.6))
    assert np.abs(mp4[2].astype(int) - to_bytes(wanted)).max() <= 1
    assert (seen["contact_sheet"][0] == mp4).all()


def test_no_frames_are_drawn_for_files_of_gaussians(tmp_path, monkeypatch):
    monkeypatch.setattr(exporting.films, "render_frames", None)
    assert set(export(park(3), tmp_path, ["glb", "html", "json"])) == {"glb", "html", "json"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"formats": "mp5"}, "did you mean mp4"),
        ({"formats": ["glb", "hmtl"]}, "did you mean html"),
        ({"formats": []}, "no format given"),
        ({"formats": "glb", "name": "a/b"}, "without folders"),
        ({"formats": "glb", "name": ""}, "without folders"),
        ({"formats": "png", "backend": "ewq"}, "did you mean ewa"),
        ({"formats": "glb", "sh_degree": 7}, "sh_degree"),
    ],
)
def test_bad_requests_are_told(tmp_path, options, said):
    with pytest.raises(InputError, match=said):
        export(park(2), tmp_path / "out", **options)


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write into"):
        export(park(2), tmp_path / "file", "glb")
    with pytest.raises(InputError, match="cannot write into"):
        export(park(2), tmp_path / "file" / "below", "glb")


@pytest.mark.parametrize(
    ("blocked", "format", "extra"),
    [("imageio_ffmpeg", "mp4", "video"), ("PIL", "gif", "video"), ("pxr", "usd", "usd")],
)
def test_a_missing_extra_is_named_before_any_work(tmp_path, monkeypatch, blocked, format, extra):
    monkeypatch.setitem(sys.modules, blocked, None)
    with pytest.raises(InputError, match=rf"pip install 'newtongs\[{extra}\]'"):
        export(park(2), tmp_path / "out", ["json", format])
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_export_imports_nothing_optional():
    optional = ["numba", "imageio", "imageio_ffmpeg", "PIL", "pxr", "gsply", "gsplat", "matplotlib"]
    code = f"import sys, newtongs.exports\nprint([m for m in {optional} if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_text_holds_any_bytes_and_nothing_that_html_changes():
    rng = np.random.default_rng(0)
    for n in (0, 1, 6, 7, 8, 5000):
        data = rng.integers(0, 256, n, np.uint8).tobytes()
        text = to_text(data)
        assert not {0, 13, ord("<")} & set(text)
        assert from_text(text)[:n] == data
        assert len(text.decode("utf-8")) == -(-n // 7) * 8


@pytest.mark.parametrize(("compress", "finest"), [(False, 1e-3), (True, 5e-2)])
@pytest.mark.parametrize("degree", [0, 1, 3])
def test_a_page_reads_back_as_the_ellipsoids_it_was_made_of(tmp_path, compress, finest, degree):
    animation = two_objects()
    write_html(animation, tmp_path / "a.html", sh_degree=degree, compress=compress)
    back = read_html(tmp_path / "a.html")
    scene = join(*(part.scene for part in parts(animation, sh_degree=degree)))
    nearest = torch.cdist(scene.means.double(), back.means.double()).min(1)
    assert nearest.values.max() < (3e-4 if compress else 1e-9)  # 16 bits an axis
    assert torch.equal(nearest.indices.sort().values, torch.arange(len(scene)))
    back = back[nearest.indices]
    size = scene.covariances.diagonal(dim1=1, dim2=2).sum(1)
    off = (back.covariances - scene.covariances).abs().amax((1, 2)) / size
    assert off.max() < finest
    assert (back.opacities - scene.opacities).abs().max() < 0.0021
    assert (back.colors - scene.colors.clamp(0, 1)).abs().max() < 0.0021
    assert (back.sh[:, 1:] - scene.sh[:, 1:]).abs().max() < 0.01 if degree else True


def test_a_large_page_is_compressed_by_itself(tmp_path, monkeypatch):
    from newtongs.exports import html as pages

    animation = two_objects()
    sizes = []
    for many in (len(animation.scene) + 1, len(animation.scene)):
        monkeypatch.setattr(pages, "MANY", many)
        write_html(animation, tmp_path / "a.html")
        sizes.append("codes" in blanks_of(tmp_path / "a.html")[0] if many else None)
    assert sizes == [False, True]


def test_a_strangers_page_is_refused(tmp_path):
    (tmp_path / "a.html").write_text("<!doctype html><p>hello")
    with pytest.raises(InputError, match="not a page that newtongs wrote"):
        read_html(tmp_path / "a.html")
