"""SOG, PlayCanvas's planes: a writer made here, bits laid by hand, captures, files that lie."""

import copy
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from test_scene import assert_same, random_scene

from newtongs.base.errors import InputError
from newtongs.base.files import SMALL
from newtongs.formats import load, spz
from newtongs.formats.ply import read_header

Image = pytest.importorskip("PIL.Image", reason="needs newtongs[formats]")

ASSETS = Path(__file__).resolve().parents[2] / "shared" / "assets"
REST = (0, 3, 8, 15)
BIG = 300  # Gaussians, more than a label's low byte can tell apart


# A writer


def webp(pixels):
    out = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(out, "WEBP", lossless=True, exact=True)
    return out.getvalue()


def plane(rows, width=20):
    """Bytes ``(N, 3 or 4)`` as a picture, with one row of pixels that mean nothing after them."""
    n, channels = rows.shape
    pixels = np.full((-(-n // width) + 1, width, channels), 7, np.uint8)
    pixels.reshape(-1, channels)[:n] = rows
    return webp(pixels)


def evenly(x, steps=255):
    """Numbers ``(N, C)`` as whole numbers up to ``steps`` between their extremes in each column."""
    low, high = x.min(0), x.max(0)
    return np.round((x - low) / (high - low) * steps).astype(int), low.tolist(), high.tolist()


def in_codebook(x):
    """Bytes of numbers, and an even codebook for all of them."""
    book = np.linspace(x.min(), x.max(), 256)
    return np.abs(x[..., None] - book).argmin(-1), book.tolist()


def packed_quats(q):
    rows = []
    for components in q:
        largest = int(np.abs(components).argmax())
        small = np.delete(components * np.sign(components[largest]), largest)
        rows.append([*np.round(255 * (small / 2**0.5 + 0.5)), 252 + largest])
    return np.array(rows)


def sog(scene, version=2):
    """``meta.json`` as a dictionary, and the planes by name, as splat-transform lays them out."""
    x = {name: a.astype(float) for name, a in scene.numpy().items()}
    codes, low, high = evenly(np.sign(x["means"]) * np.log1p(np.abs(x["means"])), 65535)
    means = {"mins": low, "maxs": high, "files": ["means_l.webp", "means_u.webp"]}
    files = {"means_l.webp": plane(codes & 255), "means_u.webp": plane(codes >> 8)}
    files["quats.webp"] = plane(packed_quats(x["quats"]))
    meta = {"means": means, "quats": {"files": ["quats.webp"]}}
    meta |= {key: {"files": [f"{key}.webp"]} for key in ("scales", "sh0")}
    if version == 2:
        meta |= {"version": 2, "count": len(scene)}
        scales, meta["scales"]["codebook"] = in_codebook(x["log_scales"])
        colors, meta["sh0"]["codebook"] = in_codebook(x["sh"][:, 0])
        opacity = np.round(255 * scene.opacities.numpy()[:, None])
        colors = np.concatenate([colors, opacity], 1)
    else:
        meta["means"]["shape"] = [len(scene), 3]
        meta["quats"]["encoding"] = "quaternion_packed"
        scales, meta["scales"]["mins"], meta["scales"]["maxs"] = evenly(x["log_scales"])
        both = np.concatenate([x["sh"][:, 0], x["logits"][:, None]], 1)
        colors, meta["sh0"]["mins"], meta["sh0"]["maxs"] = evenly(both)
    files |= {"scales.webp": plane(scales), "sh0.webp": plane(colors)}
    if scene.sh_degree:
        meta["shN"], more = palette(x["sh"][:, 1:], scene.sh_degree, version)
        files |= more
    return meta, files


def palette(rest, degree, version):
    """Every Gaussian's coefficients ``(N, C, 3)`` as an entry, in another order than theirs."""
    n, c, _ = rest.shape
    order = np.random.default_rng(0).permutation(n)
    codes, book = in_codebook(rest)
    pixels = np.zeros((-(-n // 64), 64 * c, 3), np.uint8)
    for label, gaussian in enumerate(order):
        row, column = divmod(label, 64)
        pixels[row, column * c : (column + 1) * c] = codes[gaussian]
    labels = np.argsort(order)
    names = ["shN_centroids.webp", "shN_labels.webp"]
    part = {"files": names, "mins": book[0], "maxs": book[-1], "quantization": 8}
    if version == 2:
        part = {"files": names, "count": n, "bands": degree, "codebook": book}
    rows = np.stack([labels & 255, labels >> 8, 0 * labels], 1)
    return part, {names[0]: webp(pixels), names[1]: plane(rows)}


def bundle(meta, files, *, root="", method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(root + name, content)
        text = meta if isinstance(meta, bytes) else json.dumps(meta).encode()
        archive.writestr(root + "meta.json", text)
    return out.getvalue()


def folder(path, meta, files):
    path.mkdir()
    for name, content in {**files, "meta.json": json.dumps(meta).encode()}.items():
        (path / name).write_bytes(content)
    return path


@pytest.fixture
def written(tmp_path):
    def write(content, name="scene.sog"):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write


# What is right


def step(x, steps=255):
    return (x.max() - x.min()) / steps


def assert_within_rounding(read, scene):
    """Half a step of each quantisation, and the rounding of float32."""
    assert len(read) == len(scene)
    log = scene.means.sign() * scene.means.abs().log1p()
    slack = (1 + scene.means.abs()) * step(log, 65535) / 2
    assert ((read.means - scene.means).abs() <= 1.001 * slack + 1e-6).all()
    fields = {"log_scales": lambda s: s.log_scales, "sh0": lambda s: s.sh[:, 0]}
    fields |= {"shN": lambda s: s.sh[:, 1:]} if scene.sh_degree else {}
    for name, field in fields.items():
        worst = (field(read) - field(scene)).abs().max()
        assert worst <= step(field(scene)) / 2 + 1e-5, name
    worst = (read.opacities - scene.opacities).abs().max()
    assert worst <= max(0.5 / 255, step(scene.logits) / 8) + 1e-6
    # Three components off by at most 2^0.5 / 510 each; the fourth, at least 1/2, follows them.
    off = 3**0.5 * 2**0.5 / 510
    assert ((read.quats * scene.quats).sum(-1).abs() >= 1 - 4 * off**2 / 2 * 1.05).all()


@pytest.mark.parametrize("place", ["bundle", "deflated", "nested", "folder", "meta.json"])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("degree", range(4))
def test_round_trip_is_within_its_rounding(tmp_path, written, degree, version, place):
    scene = random_scene(BIG, degree)
    parts = sog(scene, version)
    if place in ("folder", "meta.json"):
        path = folder(tmp_path / "scene", *parts)
        path = path if place == "folder" else path / "meta.json"
    else:
        method = zipfile.ZIP_DEFLATED if place == "deflated" else zipfile.ZIP_STORED
        path = written(bundle(*parts, root="a/b/" if place == "nested" else "", method=method))
    assert_within_rounding(load(path), scene)
    assert_within_rounding(load(str(path)), scene)


def test_quaternion_bits(written):
    meta, files = sog(random_scene(5, 0))
    rows = [[128, 128, 128, 252 + k] for k in range(4)] + [[255, 0, 128, 254]]
    files["quats.webp"] = plane(np.array(rows))
    quats = load(written(bundle(meta, files))).quats
    half = 0.5**0.5
    expected = torch.cat([torch.eye(4), torch.tensor([[half, -half, 0, 0]])])
    # The last has w and x of full length, so nothing is left for y.
    torch.testing.assert_close(quats, expected, rtol=0, atol=2**0.5 / 255)


def test_order_of_coefficients_and_channels(written):
    meta, files = sog(random_scene(2, 3))
    pixels = np.zeros((2, 64 * 15, 3), np.uint8)
    pixels[0, 15 : 2 * 15] = 1 + np.arange(45).reshape(15, 3)  # the second entry of the first row
    pixels[1, :15] = 101 + np.arange(45).reshape(15, 3)  # the first of the second
    files["shN_centroids.webp"] = webp(pixels)
    files["shN_labels.webp"] = plane(np.array([[1, 0, 9], [64, 0, 9]]))
    meta["shN"] |= {"count": 65, "codebook": list(range(256))}
    sh = load(written(bundle(meta, files))).sh[:, 1:]
    counted = torch.arange(45.0).reshape(15, 3)
    assert torch.equal(sh, torch.stack([1 + counted, 101 + counted]))


def test_all_65536_labels_are_told_apart(written):
    meta, files = sog(random_scene(3, 1))
    pixels = np.zeros((1024, 64 * 3, 3), np.uint8)
    pixels[-1, -3:] = 200
    pixels[4, :3] = 100  # label 256
    files["shN_centroids.webp"] = webp(pixels)
    files["shN_labels.webp"] = plane(np.array([[255, 255, 0], [0, 1, 0], [1, 0, 0]]))
    meta["shN"] |= {"count": 65536, "codebook": list(range(256))}
    assert load(written(bundle(meta, files))).sh[:, 1, 0].tolist() == [200, 100, 0]


def test_opacity_of_all_and_nothing_is_finite(written):
    scene = random_scene(3, 0, logits=torch.tensor([-200.0, 0.0, 200.0]))
    read = load(written(bundle(*sog(scene))))
    assert read.opacities[0] < 1e-40
    assert read.opacities[2] == 1
    assert torch.isfinite(read.logits).all()


def test_a_codebook_that_begins_with_null_is_continued_downwards(written):
    """Writers meet NaN there; PlayCanvas continues the codebook by its mean step."""
    meta, files = sog(random_scene(3, 0))
    files["scales.webp"] = plane(np.array([[0, 1, 255]] * 3))
    meta["scales"]["codebook"] = [None, *np.linspace(-5, -1, 255).tolist()]
    read = load(written(bundle(meta, files)))
    torch.testing.assert_close(read.log_scales[0], torch.tensor([-5 - 4 / 255, -5, -1]))


def test_a_short_codebook_will_do_when_no_byte_exceeds_it(written):
    meta, files = sog(random_scene(3, 0))
    files["scales.webp"] = plane(np.array([[0, 1, 1]] * 3))
    meta["scales"]["codebook"] = [-3, -2]
    assert load(written(bundle(meta, files))).log_scales[0].tolist() == [-3, -2, -2]


def test_no_gaussians_and_no_bands(written):
    meta, files = sog(random_scene(3, 1))
    meta["shN"] = {"bands": 0}
    assert load(written(bundle(meta, files))).sh_degree == 0
    assert len(load(written(bundle(meta | {"count": 0, "shN": None}, files)))) == 0


def test_a_zip_by_another_name_and_a_version_said(written):
    scene = random_scene(5, 0)
    meta, files = sog(scene, 1)
    path = written(bundle(meta | {"version": 1}, files), "scene.zip")
    assert_within_rounding(load(path), scene)


@pytest.mark.slow
def test_missing_pillow_is_named(written):
    path = written(bundle(*sog(random_scene(3, 0))))
    code = (
        "import sys; sys.modules['PIL'] = None\n"
        "from newtongs.formats.files import load\n"
        "from newtongs.base.errors import InputError\n"
        f"try: load({str(path)!r})\n"
        "except InputError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "SOG needs Pillow; install it with: pip install 'newtongs[formats]'\n"


# What is wrong


def refused(path, match):
    with pytest.raises(InputError, match=match) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(path))


def put(*keys, value):
    """A change of one entry of the description."""

    def change(meta, _):
        for key in keys[:-1]:
            meta = meta[key]
        meta[keys[-1]] = value

    return change


def without(*keys):
    def change(meta, _):
        for key in keys[:-1]:
            meta = meta[key]
        del meta[keys[-1]]

    return change


def picture(name, content):
    def change(_, files):
        files[name] = content(files[name])

    return change


def sized(width, height):
    """The header of a lossless WebP changed."""

    def change(content):
        bits = struct.unpack_from("<I", content, 21)[0] >> 28 << 28
        bits |= (width - 1) | (height - 1) << 14
        return content[:21] + struct.pack("<I", bits) + content[25:]

    return change


def lossy(_):
    out = io.BytesIO()
    Image.fromarray(np.full((20, 20, 4), 90, np.uint8)).save(out, "WEBP", quality=80)
    return out.getvalue()


def small(_):
    return webp(np.full((17, 17, 4), 255))  # 289 pixels for 300 Gaussians


NAN, INF = float("nan"), float("inf")
BOOK = [0.0] * 256
WRONG = {
    "future": (put("version", value=3), "SOG version 3 is not known"),
    "version": (put("version", value=[2]), "SOG version"),
    "no count": (without("count"), "expected a number of Gaussians, got None"),
    "text count": (put("count", value="300"), "expected a number of Gaussians"),
    "negative count": (put("count", value=-1), "expected a number of Gaussians, got -1"),
    "odd count": (put("count", value=1.5), "expected a number of Gaussians"),
    "true count": (put("count", value=True), "expected a number of Gaussians, got True"),
    "huge count": (put("count", value=10**9), "declares 1,000,000,000 Gaussians"),
    "absurd count": (put("count", value=10**4000), "expected a number of Gaussians, got 1000"),
    "lying count": (put("count", value=341), "for 341 Gaussians"),
    "no means": (without("means"), "is not a SOG"),
    "list means": (put("means", value=[]), "is not a SOG"),
    "no scales": (without("scales"), "has no 'scales'"),
    "list quats": (put("quats", value=[]), "has no 'quats'"),
    "text shN": (put("shN", value="a"), "has no 'shN'"),
    "no files": (without("means", "files"), r"means\.files\[0\]"),
    "one file": (put("means", "files", value=["means_l.webp"]), r"means\.files\[1\]"),
    "text files": (put("quats", "files", value="quats.webp"), r"quats\.files\[0\]"),
    "number files": (put("quats", "files", value=[1]), r"quats\.files\[0\]"),
    "missing plane": (lambda _, files: files.pop("scales.webp"), r"scales\.webp"),
    "missing label": (lambda _, files: files.pop("shN_labels.webp"), r"shN_labels\.webp"),
    "other name": (put("sh0", "files", value=["none.webp"]), r"none\.webp"),
    "two mins": (put("means", "mins", value=[0, 0]), r"3 finite numbers as means\.mins"),
    "text mins": (put("means", "mins", value=["0", 0, 0]), r"3 finite numbers as means\.mins"),
    "nan mins": (put("means", "mins", value=[NAN, 0, 0]), r"finite numbers as means\.mins"),
    "null maxs": (put("means", "maxs", value=None), r"finite numbers as means\.maxs"),
    "huge maxs": (put("means", "maxs", value=[10**400, 0, 0]), r"finite numbers as means\.maxs"),
    "nan book": (put("scales", "codebook", value=[*BOOK[1:], NAN]), r"scales\.codebook"),
    "inf book": (put("sh0", "codebook", value=[INF, *BOOK[1:]]), r"sh0\.codebook"),
    "null book": (put("sh0", "codebook", value=[0.0, None, *BOOK[2:]]), r"sh0\.codebook"),
    "nulls book": (put("sh0", "codebook", value=[None] * 256), r"sh0\.codebook"),
    "text book": (put("shN", "codebook", value=["a"] * 256), r"shN\.codebook"),
    "true book": (put("shN", "codebook", value=[True] * 256), r"shN\.codebook"),
    "deep book": (put("shN", "codebook", value=[BOOK]), r"shN\.codebook"),
    "long book": (put("shN", "codebook", value=[0.0] * 257), r"shN\.codebook"),
    "empty book": (put("scales", "codebook", value=[]), r"scales\.codebook"),
    "short book": (put("scales", "codebook", value=[0.0] * 9), "of a codebook of 9"),
    "no bands": (without("shN", "bands"), "bands of shN, got None"),
    "many bands": (put("shN", "bands", value=4), "0 to 3 in meta.json, got 4"),
    "other bands": (put("shN", "bands", value=3), "960 pixels wide, got 512"),
    "text bands": (put("shN", "bands", value="2"), "bands of shN"),
    "no palette count": (without("shN", "count"), "entries of shN, got None"),
    "small palette": (put("shN", "count", value=299), "colour 299 of a palette of 299"),
    "quats": (put("quats", "encoding", value="raw"), "'raw' are not known"),
    "tags": (picture("quats.webp", lambda _: webp(np.full((20, 20, 4), 9))), "got 9"),
    "small plane": (picture("means_u.webp", small), "17 x 17 pixels for 300"),
    "small quats": (picture("quats.webp", small), "17 x 17 pixels for 300"),
    "small labels": (picture("shN_labels.webp", small), "17 x 17 pixels for 300"),
    "short palette": (
        picture("shN_centroids.webp", lambda _: webp(np.zeros((4, 512, 3)))),
        "palette of 256",
    ),
    "giant plane": (
        picture("means_l.webp", sized(16384, 16384)),
        "declares 16,384 x 16,384 pixels of means",
    ),
    "giant palette": (
        picture("shN_centroids.webp", sized(512, 16384)),
        "declares 512 x 16,384 pixels of shN",
    ),
    "cut plane": (picture("sh0.webp", lambda x: x[: len(x) // 2]), "cannot be read as lossless"),
    "cut header": (picture("sh0.webp", lambda x: x[:20]), r"sh0\.webp is not a lossless WebP"),
    "empty plane": (picture("sh0.webp", lambda _: b""), r"sh0\.webp is not a lossless WebP"),
    "text plane": (picture("sh0.webp", lambda _: b"no" * 99), r"sh0\.webp is not a lossless WebP"),
    "lossy plane": (picture("sh0.webp", lossy), r"sh0\.webp is not a lossless WebP"),
    "larger header": (picture("sh0.webp", sized(900, 900)), "cannot be read as lossless"),
}
NAMES = ["../out.webp", "/etc/passwd", "a/b.webp", "..", ".", "", "..\\a.webp", "C:a.webp", "a\0b"]


@pytest.fixture(scope="module")
def degree_2():
    torch.manual_seed(0)
    return sog(random_scene(BIG, 2))


@pytest.mark.parametrize("place", ["bundle", "folder"])
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_line(tmp_path, written, degree_2, name, place):
    change, match = WRONG[name]
    meta, files = copy.deepcopy(degree_2)
    change(meta, files)
    parts = meta, files
    refused(written(bundle(*parts)) if place == "bundle" else folder(tmp_path / "f", *parts), match)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", ["bundle", "folder"])
def test_names_stay_in_their_folder(tmp_path, written, degree_2, name, place):
    meta, files = copy.deepcopy(degree_2)
    (tmp_path / "out.webp").write_bytes(files["quats.webp"])
    meta["quats"]["files"] = [name]
    path = folder(tmp_path / "f", meta, files)
    if place == "bundle":
        if "\0" not in name and name:
            files[name] = files["quats.webp"]  # even where the zip has such a file
        path = written(bundle(meta, files))
    refused(path, r"expected the name of a file beside it as quats\.files")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (without("means", "shape"), "expected a number of Gaussians, got None"),
        (put("means", "shape", value=[]), "expected a number of Gaussians"),
        (put("means", "shape", value="300"), "expected a number of Gaussians"),
        (put("means", "shape", value=[10**9, 3]), "declares 1,000,000,000 Gaussians"),
        (put("scales", "mins", value=[0]), r"3 finite numbers as scales\.mins"),
        (put("sh0", "maxs", value=[0, 0, 0]), r"4 finite numbers as sh0\.maxs"),
        (put("shN", "mins", value=[0, 0]), r"1 finite numbers as shN\.mins"),
        (
            picture("shN_centroids.webp", lambda _: webp(np.zeros((4, 500, 3)))),
            "192 or 512 or 960 pixels wide, got 500",
        ),
    ],
)
def test_what_is_wrong_with_version_1(written, change, match):
    meta, files = sog(random_scene(BIG, 1), 1)
    change(meta, files)
    refused(written(bundle(meta, files)), match)


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"7", b"null", b"\xff\xfe\x00", b"[" * 100_000, b"9" * 5000, b'"means"'],
)
def test_a_description_that_is_none(tmp_path, written, degree_2, text):
    _, files = degree_2
    refused(written(bundle(text, files)), "invalid JSON|is not a SOG")
    refused(written(text, "meta.json"), "invalid JSON|is not a SOG|is empty")


def test_bundles_that_are_damaged(written, degree_2):
    whole = bundle(*degree_2)
    for cut in (1, len(whole) // 2, len(whole) - 200, len(whole) - 1):
        refused(written(whole[:cut]), "cannot be read as SOG|by its first bytes")
    refused(written(b""), "is empty")
    refused(written(b"no zip at all"), r"is not a \.sog file by its first bytes")
    refused(written(bundle(*degree_2, root="a/").replace(b"meta.json", b"beta.json")), "found 0")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a/meta.json", "{}")
        archive.writestr("b/meta.json", "{}")
    refused(written(out.getvalue()), "expected one meta.json in it, found 2")
    changed = whole.replace(b"WEBPVP8L", b"WEBPVP8X", 1)
    refused(written(changed), "Bad CRC-32")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_stored_and_deflated_bundles(written, degree_2, method):
    refused(written(bundle(*degree_2, method=method)), "unsupported compression")


def peak(path, match):
    """Bytes of Python and numpy at the most while a file is refused."""
    tracemalloc.start()
    try:
        refused(path, match)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_zip_bombs_unfold_to_a_limit(written, degree_2):
    meta, files = copy.deepcopy(degree_2)
    files["sh0.webp"] = b"RIFF\0\0\0\0WEBP" + bytes(100 << 20)
    path = written(bundle(meta, files, method=zipfile.ZIP_DEFLATED))
    assert path.stat().st_size < 1 << 20
    # What may always unfold, put together from pieces.
    assert peak(path, "not a lossless WebP") < 2.2 * SMALL
    text = json.dumps(degree_2[0]).encode() + b" " * (50 << 20)
    path = written(bundle(text, degree_2[1], method=zipfile.ZIP_DEFLATED))
    assert peak(path, "up to 4,194,304 bytes of JSON") < 16 << 20


def test_folders_that_are_none(tmp_path, degree_2):
    path = folder(tmp_path / "a", *degree_2)
    os.unlink(path / "quats.webp")
    os.mkfifo(path / "quats.webp")
    refused(path, "not a regular file")
    os.unlink(path / "quats.webp")
    (path / "quats.webp").mkdir()
    refused(path, "is a folder; give a WebP picture")
    os.unlink(path / "meta.json")
    refused(path, "is a folder; give a file of Gaussians")
    (path / "lod-meta.json").write_text("{}")
    refused(path, "is not a streamed SOG")


@pytest.mark.filterwarnings("ignore")
def test_200_damaged_bundles(tmp_path):
    """The damage of the other formats, to the bundle and to what is within it."""
    from test_formats_fuzz import DAMAGE, MEMORY, check_scene, peak_memory, read

    rng = np.random.default_rng([3, *b"sog"])
    meta, files = sog(random_scene(30, 1))
    texts = {**files, "meta.json": json.dumps(meta).encode()}
    path = tmp_path / "scene.sog"
    path.write_bytes(whole := bundle(meta, files))
    load(path)
    before, outcomes = peak_memory(restart=True), []
    for i in range(200):
        damage = DAMAGE[i % len(DAMAGE)]
        if i // len(DAMAGE) % 2:
            name = [*texts][int(rng.integers(len(texts)))]
            changed = {**texts, name: damage(rng, texts[name])}
            content = bundle(changed.pop("meta.json"), changed)
        else:
            content = damage(rng, whole)
        path.write_bytes(content)
        result = read(load, path)
        outcomes.append(result is not None)
        if result is not None and len(result):
            check_scene(result)
    assert peak_memory() - before < MEMORY
    assert np.mean(outcomes) < 0.6, "the damage should be noticed"


# Captures


def asset(name):
    if not (ASSETS / name).exists():
        pytest.skip(f"needs the capture {name}")
    return ASSETS / name


def test_a_capture_is_the_same_as_compressed_ply():
    """The compressed .ply was made of the .sog: they differ by half a step of the former."""
    pytest.importorskip("gsply", reason="needs newtongs[formats]")
    spatial = pytest.importorskip("scipy.spatial")
    ours, path = load(asset("narcissus.sog")), asset("narcissus.compressed.ply")
    other = load(path)
    assert len(ours) == 101_275

    def features(s):
        parts = 300 * s.means, 3 * s.log_scales, 50 * s.opacities[:, None], 50 * s.colors
        return torch.cat(parts, 1).numpy()

    _, match = spatial.cKDTree(features(other)).query(features(ours))
    assert len({*match.tolist()}) == len(ours)
    other = other[match]
    bounds, *_ = spz._checked_parts(path, read_header(path))
    bounds = torch.from_numpy(bounds.reshape(-1, 3, 2, 3))[match // 256]  # means, scales, colours
    half = (bounds[:, :, 1] - bounds[:, :, 0]) / 2
    for name, k, steps in (
        ("means", 0, torch.tensor([2047, 1023, 2047])),
        ("log_scales", 1, torch.tensor([2047, 1023, 2047])),
        ("colors", 2, torch.tensor([255, 255, 255])),
    ):
        off = (getattr(ours, name) - getattr(other, name)).abs()
        assert (off <= 1.002 * half[:, k] / steps + 1e-6).all(), name
    assert (ours.opacities - other.opacities).abs().max() < 1e-4
    # Three components of 10 bits each, the fourth follows: as in the round trip above.
    off = 3**0.5 * 2**0.5 / 2 / 1023
    cosines = (ours.quats * other.quats).sum(-1).abs()
    assert (cosines >= 1 - 4 * off**2 / 2 - 1e-6).all()


def test_a_capture_with_view_dependent_colour():
    scene = load(asset("playbot.sog"))
    assert (len(scene), scene.sh_degree) == (500_000, 2)
    low, high = scene.bounds()
    expected = torch.tensor([[-1.0307, -1.0823, -1.0383], [1.0329, 0.0497, 1.0410]])
    torch.testing.assert_close(torch.stack([low, high]), expected, rtol=0, atol=1e-4)
    assert 0.01 < scene.sh[:, 1:].square().mean().sqrt() < 1


def test_a_folder_unpacked_from_a_capture_is_the_same(tmp_path):
    path = asset("narcissus.sog")
    shutil.unpack_archive(path, tmp_path, "zip")
    assert_same(load(tmp_path), load(path))
