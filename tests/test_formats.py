"""Files of Gaussians: every reader against files made here byte by byte, and round trips."""

import os
import struct
import warnings
import zipfile

import numpy as np
import pytest
import torch
from test_scene import assert_same, random_scene

from newtongs.base.errors import InputError
from newtongs.formats import load, save
from newtongs.formats.files import from_lgm, to_lgm
from newtongs.scene import GaussianScene

TYPES = {"f4": "float", "f8": "double", "u1": "uchar", "i4": "int", "i2": "int16", "u4": "uint32"}
FORMATS = {"<": "binary_little_endian", ">": "binary_big_endian", "": "ascii"}


def ply(*elements, order="<", newline="\n", comments=()):
    """A PLY of elements ``(name, {property: array})``, written the slow and obvious way."""
    lines = ["ply", f"format {FORMATS[order]} 1.0", *(f"comment {c}" for c in comments)]
    body = b""
    for name, columns in elements:
        arrays = {k: np.asarray(x) for k, x in columns.items()}
        count = len(next(iter(arrays.values())))
        lines += [f"element {name} {count}"]
        lines += [f"property {TYPES[x.dtype.str[1:]]} {k}" for k, x in arrays.items()]
        for row in zip(*arrays.values(), strict=True):
            if order:
                body += b"".join(np.array(x, x.dtype.newbyteorder(order)).tobytes() for x in row)
            else:
                body += " ".join(repr(x.item()) for x in row).encode() + newline.encode()
    return newline.join([*lines, "end_header", ""]).encode() + body


def inria(scene, *, normals=True):
    """Columns of a scene as INRIA names them, one loop a coefficient."""
    x = scene.numpy()
    columns = {"xyz"[i]: x["means"][:, i] for i in range(3)}
    if normals:
        columns |= {f"n{axis}": np.zeros(len(scene), np.float32) for axis in "xyz"}
    columns |= {f"f_dc_{c}": x["sh"][:, 0, c] for c in range(3)}
    rest = x["sh"].shape[1] - 1
    for c in range(3):
        for k in range(rest):
            columns[f"f_rest_{c * rest + k}"] = x["sh"][:, 1 + k, c]
    columns["opacity"] = x["logits"]
    columns |= {f"scale_{i}": x["log_scales"][:, i] for i in range(3)}
    return columns | {f"rot_{i}": x["quats"][:, i] for i in range(4)}


def without_ids(scene):
    return scene.replace(ids=torch.full((len(scene),), -1))


@pytest.fixture
def written(tmp_path):
    def write(content, name="scene.ply"):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write


# .ply, INRIA


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("order", ["<", ">", ""])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_inria_in_any_order_of_properties_and_bytes(written, degree, order, newline):
    scene = without_ids(random_scene(20, degree))
    columns = list(inria(scene, normals=degree % 2 == 0).items())
    shuffled = {columns[i][0]: columns[i][1] for i in torch.randperm(len(columns))}
    path = written(ply(("vertex", shuffled), order=order, newline=newline))
    assert_same(load(path), scene)


@pytest.mark.parametrize("order", ["<", ">", ""])
def test_property_types_extra_columns_and_other_elements(written, order):
    scene = without_ids(random_scene(20, 1))
    columns = inria(scene)
    columns["x"] = columns["x"].astype(np.float64)
    columns["rot_1"] = columns["rot_1"].astype(np.float64)
    extra = {"red": np.arange(20, dtype=np.uint8), "label": np.arange(20, dtype=np.int16)}
    before = {"a": np.arange(3, dtype=np.uint8), "b": np.arange(3, dtype=np.float64)}
    path = written(
        ply(
            ("camera", before), ("vertex", extra | columns), ("chunk", before), order=order,
            comments=["end_header is not here", "element vertex 9"],
        )
    )  # fmt: skip
    assert_same(load(path), scene)


def test_integer_properties_are_numbers_too(written):
    columns = inria(without_ids(random_scene(5, 0)))
    columns["opacity"] = np.array([0, 1, 2, 3, 255], np.uint8)
    scene = load(written(ply(("vertex", columns))))
    assert scene.logits.tolist() == [0, 1, 2, 3, 255]


@pytest.mark.parametrize("order", ["<", ">"])
def test_lists_before_the_gaussians_are_skipped(written, order):
    scene = without_ids(random_scene(4, 0))
    faces = b"".join(
        struct.pack(f"{order}B{n}i", n, *range(n)) + struct.pack(f"{order}f", 1) for n in (3, 0, 4)
    )
    content = ply(("vertex", inria(scene)), order=order)
    head, body = content.split(b"end_header\n", 1)
    first, rest = head.split(b"element vertex")
    first += b"element face 3\nproperty list uchar int v\nproperty float area\nelement vertex"
    assert_same(load(written(first + rest + b"end_header\n" + faces + body)), scene)


def test_quaternions_are_made_unit_and_keep_their_rotation(written):
    scene = without_ids(random_scene(20, 0))
    columns = inria(scene)
    for i in range(4):
        columns[f"rot_{i}"] = columns[f"rot_{i}"] * np.float32(37)
    quats = load(written(ply(("vertex", columns)))).quats
    torch.testing.assert_close(quats, scene.quats, rtol=0, atol=1e-6)


@pytest.mark.parametrize("gone", [["opacity"], ["rot_0", "rot_3"], ["f_dc_1"], ["scale_0", "x"]])
def test_a_mesh_or_point_cloud_is_told_what_is_missing(written, gone):
    columns = inria(random_scene(3, 0))
    path = written(ply(("vertex", {k: x for k, x in columns.items() if k not in gone})))
    with pytest.raises(InputError, match="contains no Gaussians") as caught:
        load(path)
    assert all(name in str(caught.value) for name in gone)


def test_f_rest_of_a_wrong_count(written):
    columns = inria(random_scene(3, 1))
    del columns["f_rest_4"]
    with pytest.raises(InputError, match="found 8 f_rest"):
        load(written(ply(("vertex", columns))))


def test_2dgs_discs_are_thin_across_their_third_axis(written):
    scene = without_ids(random_scene(30, 0))
    columns = inria(scene)
    del columns["scale_2"]
    read = load(written(ply(("vertex", columns))))
    assert torch.equal(read.log_scales[:, :2], scene.log_scales[:, :2])
    ratio = read.scales[:, 2] / read.scales[:, :2].amin(-1)
    torch.testing.assert_close(ratio, torch.full((30,), 1e-3), rtol=1e-5, atol=0)


def test_what_cannot_be_drawn_is_dropped_with_one_warning(written):
    scene = without_ids(random_scene(20, 1))
    x = {name: getattr(scene, name).clone() for name in ("means", "log_scales", "logits", "sh")}
    x["means"][3, 1], x["sh"][5, 2, 0], x["log_scales"][7, 0] = np.nan, np.inf, 99.0
    x["logits"][9], x["logits"][10], x["logits"][11] = np.nan, np.inf, -np.inf
    x["log_scales"][12, 2] = -np.inf
    with pytest.warns(UserWarning, match="dropped 4 of 20") as caught:
        read = load(written(ply(("vertex", inria(scene.replace(**x))))))
    assert len(caught) == 1
    keep = torch.ones(20, dtype=torch.bool)
    keep[[3, 5, 7, 9]] = False
    assert torch.equal(read.means, scene.means[keep])
    opacity = torch.full((20,), -1.0)
    opacity[keep] = read.opacities
    assert opacity[10] == 1
    assert 0 <= opacity[11] < 1e-40
    for field in (read.logits, read.log_scales, read.covariances, read.quats):
        assert torch.isfinite(field).all()


def test_a_file_of_nothing_but_nan_is_an_error(written):
    columns = inria(random_scene(3, 0)) | {"y": np.full(3, np.nan, np.float32)}
    with pytest.raises(InputError, match="all 3 Gaussians contain NaN"):
        load(written(ply(("vertex", columns))))


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_ply_round_trip_is_exact(tmp_path, degree):
    scene = random_scene(500, degree)
    save(scene, tmp_path / "scene.ply")
    assert_same(load(tmp_path / "scene.ply"), scene)


@pytest.mark.parametrize("n", [0, 1])
def test_smallest_scenes_round_trip(tmp_path, n):
    """One white unit sphere, half opaque, is what an LGM file might look like: never guessed."""
    scene = GaussianScene.make(
        means=torch.zeros(n, 3), scales=torch.full((n, 3), 2.0), opacities=torch.full((n,), 0.6),
        colors=torch.full((n, 3), 0.7),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save(scene, tmp_path / "scene.ply")
        assert_same(load(tmp_path / "scene.ply"), scene)


def test_written_layout_is_inrias(tmp_path):
    save(without_ids(random_scene(7, 3)), tmp_path / "a.ply")
    header, body = (tmp_path / "a.ply").read_bytes().split(b"end_header\n")
    names = [line.split()[2] for line in header.decode().splitlines() if "property" in line]
    assert names == list(inria(random_scene(7, 3)))
    assert len(body) == 7 * 62 * 4
    save(random_scene(7, 3), tmp_path / "b.ply")
    assert b"property int object_id\n" in (tmp_path / "b.ply").read_bytes()


def test_ids_out_of_range_are_refused(tmp_path):
    with pytest.raises(InputError, match="32-bit"):
        save(random_scene(2, 0, ids=torch.tensor([0, 2**40])), tmp_path / "scene.ply")


# LGM


def lgm_tensor(*shape):
    """Random activated channels."""
    q = torch.nn.functional.normalize(torch.randn(*shape, 4), dim=-1)
    x = [torch.randn(*shape, 3), torch.rand(*shape, 1), 0.1 * torch.rand(*shape, 3) + 1e-4]
    return torch.cat([*x, q, torch.rand(*shape, 3)], -1)


def lgm_columns(x):
    names = [*"xyz", "opacity", *(f"scale_{i}" for i in range(3)), *(f"rot_{i}" for i in range(4))]
    names += [f"f_dc_{i}" for i in range(3)]
    return dict(zip(names, x.numpy().T, strict=True))


def test_lgm_tensor_there_and_back():
    x = lgm_tensor(100)
    torch.testing.assert_close(to_lgm(from_lgm(x)), x, rtol=0, atol=2e-6)


def test_activated_ply_is_recognised_and_can_be_decided(written):
    x = lgm_tensor(100)
    path = written(ply(("vertex", lgm_columns(x))))
    with pytest.warns(UserWarning, match="activated=False"):
        guessed = load(path)
    assert_same(guessed, from_lgm(x))
    assert_same(load(path, activated=True), guessed)
    raw = load(path, activated=False)
    assert torch.equal(raw.logits, x[:, 3])
    assert torch.equal(raw.log_scales, x[:, 4:7])


def test_compatible_lgm_ply_is_not_taken_for_activated(written):
    scene = from_lgm(lgm_tensor(100))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(load(written(ply(("vertex", inria(scene, normals=False))))), scene)


@pytest.mark.parametrize("spoil", [("opacity", 1.01), ("scale_1", -0.1), ("f_dc_0", 1.2)])
def test_one_value_outside_its_range_decides(written, spoil):
    columns = lgm_columns(lgm_tensor(50))
    columns[spoil[0]] = columns[spoil[0]].copy()
    columns[spoil[0]][17] = spoil[1]
    scene = load(written(ply(("vertex", columns))))
    assert scene.logits[0] == columns["opacity"][0]


def save_tensor(path, x):
    if path.suffix == ".npy":
        np.save(path, x.numpy())
    elif path.suffix == ".pt":
        torch.save({"step": 3, "gaussians": x}, path)
    else:
        from safetensors.torch import save_file

        save_file({"gaussians": x, "other": torch.zeros(3)}, path)


@pytest.mark.parametrize("ending", [".npy", ".pt", ".safetensors"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_lgm_files_and_their_frames(tmp_path, ending, dtype):
    x = lgm_tensor(1, 3, 40).to(dtype)
    path = tmp_path / f"scene{ending}"
    save_tensor(path, x)
    for frame in range(3):
        assert_same(load(path, frame=frame), from_lgm(x[0, frame]))
    assert_same(load(path), from_lgm(x[0, 0]))
    with pytest.raises(InputError, match="no frame 3; there are 3"):
        load(path, frame=3)


@pytest.mark.parametrize(
    ("x", "match"),
    [
        (torch.zeros(5, 13), "expected shape"),
        (torch.zeros(14), "expected shape"),
        (lgm_tensor(5) * 30, "activated"),
        ("words", "expected an array"),
    ],
)
def test_what_is_no_lgm_tensor(x, match):
    with pytest.raises(InputError, match=match):
        from_lgm(x)


def test_code_in_a_torch_file_does_not_run(tmp_path):
    class Bad:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "was here"),)

    for name, content in (("a.pt", Bad()), ("b.pt", {"gaussians": Bad()})):
        torch.save(content, tmp_path / name)
        with pytest.raises(InputError):
            load(tmp_path / name)
    np.save(tmp_path / "c.npy", np.array([Bad()], dtype=object), allow_pickle=True)
    with pytest.raises(InputError):
        load(tmp_path / "c.npy")
    assert not (tmp_path / "was here").exists()


def test_a_torch_file_cannot_claim_more_than_it_holds(tmp_path):
    torch.save(lgm_tensor(10), tmp_path / "good.pt")
    with (
        zipfile.ZipFile(tmp_path / "good.pt") as good,
        zipfile.ZipFile(tmp_path / "bad.pt", "w") as bad,
    ):
        for name in good.namelist():
            content = good.read(name)
            content = content.replace(b"K\x8c", b"J\x00\x00\x00\x7f")  # 140 numbers: 2 billion
            bad.writestr(name, content.replace(b"K\nK\x0e", b"J\x00\x00\x00\x08K\x0e"))
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path / "bad.pt")


# Choosing, and writing


def test_content_counts_before_the_ending(tmp_path):
    scene = random_scene(10, 0)
    save(scene, tmp_path / "a.ply")
    for name in ("b.splat", "c.spz", "d", "e.npy"):
        (tmp_path / name).write_bytes((tmp_path / "a.ply").read_bytes())
        assert_same(load(tmp_path / name), scene)


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("a.ply", b"", "is empty"),
        ("a.ply", b"solid cube", "is not a .ply file"),
        ("a.glb", b"glTF\x02\x00", "not a binary glTF 2.0"),
        ("a.obj", b"v 0 0 0\n", "readable: .ply"),
        ("a.spz", b"nothing", "is not a .spz file"),
        ("a.ply", b"ply\nformat binary_middle_endian 1.0\n", "line 2 of the PLY header"),
        ("a.ply", b"ply\nformat ascii 1.0\nelement vertex -1\n", "line 3"),
        ("a.ply", b"ply\nformat ascii 1.0\nproperty float x\n", "line 3"),
        ("a.ply", b"ply\nformat ascii 1.0\nelement vertex 10\n", "does not end"),
        ("a.ply", b"ply\nend_header\n", "line 2"),
        ("a.pt", b"PK\x03\x04", "cannot be read as a pt file"),
        # Two volumes, which zipfile refuses even when only asked whether this is a zip file.
        ("a.pt", b"PK\3\4PK\6\7" + bytes(12) + b"\2\0\0\0PK\5\6" + bytes(18), "multiple disks"),
        ("a.ply", b"ply\nformat ascii 1.0\nend_header\n", "contains no Gaussians"),
    ],
)
def test_what_cannot_be_read_is_one_clear_line(written, name, content, match):
    with pytest.raises(InputError, match=match) as caught:
        load(written(content, name))
    assert "\n" not in str(caught.value)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*No such file"):
        load(tmp_path / "none.ply")
    with pytest.raises(InputError, match="is a folder"):
        load(tmp_path)
    with pytest.raises(InputError, match="cannot read"):
        load("a\0b")
    os.mkfifo(tmp_path / "pipe.ply")
    with pytest.raises(InputError, match="not a regular file"):
        load(tmp_path / "pipe.ply")


@pytest.mark.parametrize("order", ["<", ""])
def test_a_count_the_file_cannot_hold(written, order):
    content = ply(("vertex", inria(random_scene(3, 3))), order=order)
    huge = content.replace(b"element vertex 3", b"element vertex 1000000000000")
    with pytest.raises(InputError, match="declares 1,000,000,000,000 rows"):
        load(written(huge))


def test_unknown_ending(tmp_path):
    with pytest.raises(InputError, match=r"ends in \.ply"):
        save(random_scene(3), tmp_path / "a.obj")


@pytest.mark.parametrize("ending", [".ply", ".splat"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, ending, monkeypatch):
    path = tmp_path / f"a{ending}"
    save(random_scene(3), path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InputError, match="No space left"):
        save(random_scene(5), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


def test_folders_are_made_and_a_file_in_their_place_is_reported(tmp_path):
    save(random_scene(3), tmp_path / "new" / "folder" / "a.ply")
    with pytest.raises(InputError, match="cannot write"):
        save(random_scene(3), tmp_path / "new" / "folder" / "a.ply" / "b.ply")
