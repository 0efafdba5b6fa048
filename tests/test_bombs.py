"""Small files that ask for much memory or time: one line, before anything is made for them."""

import io
import json
import re
import struct
import time
import zipfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from export_samples import park
from harness import bombs
from test_formats import lgm_tensor

from newtongs import GaussianNND
from newtongs.base.checkpoints import load_tensors, save_tensors
from newtongs.base.errors import InputError
from newtongs.base.files import load_torch
from newtongs.dynamics.weights import load_model, save_model
from newtongs.exports import load_animation, save_animation, write_glb
from newtongs.exports.replay import _entry
from newtongs.forecast import ContextConfig, ContextNND, load_context
from newtongs.formats import load
from newtongs.formats.dumps import open_dump
from newtongs.paper.datasets import gaussian_sample, state32

MEMORY = 300 << 20


def peak_memory(*, restart=False):
    """Peak resident bytes of this process, since the last restart."""
    if restart:
        Path("/proc/self/clear_refs").write_text("5")
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])


def refused(read, path, said):
    """One line, quickly, and in little memory."""
    before, start = peak_memory(restart=True), time.process_time()
    with pytest.raises(InputError, match=said) as caught:
        read(path)
    assert "\n" not in str(caught.value)
    assert peak_memory() - before < MEMORY
    assert time.process_time() - start < 5


def pickled(path, program):
    """A torch file with a pickle of one's own."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", program)
        archive.writestr("x/version", "3\n")
        archive.writestr("x/byteorder", "little")


EXPANDED = {"expanded": lambda: torch.rand(1, 1, 14).expand(1, 250_000_000, 14)}
EXPANDED["strided"] = lambda: torch.rand(10_014).as_strided((10_000, 10_000, 14), (1, 0, 1))
EXPANDED["list"] = lambda: [torch.rand(1, 14).expand(1_000_000, 14) for _ in range(5)]


@pytest.mark.parametrize("kind", EXPANDED)
@pytest.mark.parametrize("read", [load, open_dump])
def test_tensors_that_span_more_than_they_store(tmp_path, kind, read):
    torch.save(EXPANDED[kind](), tmp_path / "a.pt")
    refused(read, tmp_path / "a.pt", "declares tensors of .* bytes but has only .* it is damaged")


def test_a_still_scene_repeated_for_every_frame_is_read(tmp_path):
    torch.save(lgm_tensor(1, 30).expand(50, -1, -1), tmp_path / "a.pt")
    assert len(list(open_dump(tmp_path / "a.pt").frames())) == 50


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (lambda: torch.sparse_coo_tensor([[0], [0]], [1.0], (10**6, 14)), "sparse"),
        (lambda: torch.quantize_per_tensor(torch.rand(3, 14), 0.1, 0, torch.quint8), "qtensor"),
        (lambda: torch.empty(10**9, 14, device="meta"), "meta"),
        (lambda: bytearray(7), "bytearray"),
    ],
)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("read", [load, open_dump, state32.load, gaussian_sample.read])
def test_torch_files_of_anything_but_tensors(tmp_path, made, name, read):
    torch.save([made()], tmp_path / "a.pt")
    refused(read, tmp_path / "a.pt", f"{name}.*; only plain tensors are read")


def test_a_byte_array_of_any_size_is_not_made(tmp_path):
    program = b"\x80\x02cbuiltins\nbytearray\n\x8a\x05" + (8 << 30).to_bytes(5, "little")
    pickled(tmp_path / "a.pt", program + b"\x85R.")
    refused(load_torch, tmp_path / "a.pt", "bytearray; only plain tensors are read")


@pytest.mark.parametrize(
    ("program", "named"),
    [
        (b"\x80\x02ctorch\n_utils._rebuild_sparse_tensor\n.", "_rebuild_sparse_tensor"),
        (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2.x\n.", "_rebuild_tensor_v2.x"),
        (b"\x80\x02ccollections \nOrderedDict\n.", "OrderedDict"),
        (b"\x80\x04\x8c\x08builtins\x8c\x09bytearray\x93.", "STACK_GLOBAL"),
        (b"\x80\x02(ibuiltins\nbytearray\n.", "bytearray"),
    ],
)
def test_no_way_of_naming_passes_the_list_of_names(tmp_path, program, named):
    pickled(tmp_path / "a.pt", program)
    refused(load_torch, tmp_path / "a.pt", f"{named}.*; only plain tensors are read")


CLAIMS = [{"width": 10_000}, {"blocks": 10**9}, {"hidden": 30_000}, {"hypotheses": 10**7}]


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_a_small_file_that_claims_a_large_context_model(tmp_path, claim):
    """Alone, and beside the tensors of a small model."""
    config = ContextConfig(width=8, blocks=1, hidden=8, layers=1, hypotheses=2)
    model, description = ContextNND(config), {"kind": "ContextNND", "model": {**claim}}
    for name, tensors in (("alone", {"mean": torch.zeros(9)}), ("beside", model.state_dict())):
        path = tmp_path / f"{name}.safetensors"
        save_tensors(path, tensors, description)
        refused(load_context, path, "does not hold the weights of")


@pytest.mark.parametrize("spoil", [lambda t: t["read.weight"].fill_(torch.nan),
                                   lambda t: t.update(mean=t["mean"].int())])  # fmt: skip
def test_context_weights_that_are_no_numbers(tmp_path, spoil):
    config = ContextConfig(width=8, blocks=1, hidden=8, layers=1, hypotheses=2)
    tensors = dict(ContextNND(config).state_dict())
    spoil(tensors)
    save_tensors(tmp_path / "a.safetensors", tensors, {"model": asdict(config)})
    refused(load_context, tmp_path / "a.safetensors", "contain non-finite values")


def test_text_that_looks_like_a_name_is_text(tmp_path):
    torch.save({"note": "c\nabc\ncollections of\nthings\n", "x": torch.ones(3)}, tmp_path / "a.pt")
    assert load_torch(tmp_path / "a.pt")["x"].sum() == 3


def npy_header(shape, dtype="<f4"):
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        out, {"descr": dtype, "fortran_order": False, "shape": shape}
    )
    return out.getvalue()


@pytest.mark.parametrize("shape", [(10**7, 10, 14), (1, 10**9, 14), (10**12, 0, 14)])
def test_dumps_that_promise_more_than_they_hold(tmp_path, shape):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", npy_header(shape) + bytes(1000))
    refused(open_dump, tmp_path / "a.npz", "declares")


def rewritten(folder, change):
    """A saved animation whose archive was changed, and vouched for again."""
    save_animation(park(3), folder / "a.json")
    with np.load(folder / "a.npz") as file:
        arrays = dict(file)
    change(arrays)
    with zipfile.ZipFile(folder / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, x in arrays.items():
            with archive.open(f"{name}.npy", "w") as f:
                if callable(x):
                    x(f)
                else:
                    np.lib.format.write_array(f, x)
    tree = json.loads((folder / "a.json").read_text())
    tree["numbers"] = _entry(folder / "a.npz", folder / "a.json")
    (folder / "a.json").write_text(json.dumps(tree))
    return folder / "a.json"


def large(shape, dtype="<f8", filled=400 << 20):
    def write(f):
        f.write(npy_header(shape, dtype))
        for _ in range(filled >> 20):
            f.write(bytes(1 << 20))

    return write


def test_an_array_that_nobody_asked_for_is_left_alone(tmp_path):
    path = rewritten(tmp_path, lambda x: x.update(extra=large((50 << 20,))))
    before = peak_memory(restart=True)
    assert len(load_animation(path)) == 3
    assert peak_memory() - before < MEMORY


@pytest.mark.parametrize(
    "change",
    [
        {"times": large((50 << 20,)), "states_3": large((50 << 20, 22), filled=0)},
        {"ids": large((50 << 20,), "<i8")},
        {"presence": large((400 << 20,), "|u1")},
        {"states_3": large((50, 22), "<f8", 0)},
        {"times": large((3,), "|S100000000", 300)},
    ],
)
def test_arrays_of_another_size_are_refused_before_they_are_read(tmp_path, change):
    path = rewritten(tmp_path, lambda x: x.update(change))
    refused(load_animation, path, "of shape|at most 600,001 frames|changed by hand")


def test_more_states_than_an_archive_can_mean(tmp_path):
    path = rewritten(tmp_path, lambda x: x.update({f"states_{i}": x["states_3"] for i in range(9)}))
    assert len(load_animation(path).states) == 1
    tree = json.loads(path.read_text())
    path.write_text(json.dumps(tree | {"objects": [{"id": 3}] * 1_000_000}))
    refused(load_animation, path, "declares 1,000,000 objects' states")


def changed_glb(path, change):
    """The JSON of an animated .glb changed."""
    write_glb(park(5), path)
    raw = path.read_bytes()
    (size,) = struct.unpack_from("<I", raw, 12)
    tree = json.loads(raw[20 : 20 + size])
    change(tree)
    text = json.dumps(tree).encode()
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<I4s", len(text), b"JSON") + text + raw[20 + size :]
    path.write_bytes(raw[:8] + struct.pack("<I", 12 + len(chunks)) + chunks)


def twice_as_many_at_every_level(tree):
    """A tree of 30 nodes with a billion ways through it."""
    n = len(tree["nodes"])
    tree["nodes"] += [{"children": [n + i + 1] * 2} for i in range(30)] + [{}]
    tree["scenes"][0]["nodes"] = [n]


def test_a_glb_file_that_says_the_same_again_and_again(tmp_path):
    changed_glb(tmp_path / "a.glb", twice_as_many_at_every_level)
    refused(load, tmp_path / "a.glb", "again and again|loop")


def no_stride(tree):
    """Rows that all lie at one place: any number of them in a few bytes."""
    for view in tree["bufferViews"]:
        view["byteStride"] = 0
    for accessor in tree["accessors"]:
        accessor["count"] = 300_000_000


def test_rows_without_a_stride(tmp_path):
    changed_glb(tmp_path / "a.glb", no_stride)
    refused(load, tmp_path / "a.glb", "reaches beyond its view")


def test_a_checkpoint_that_claims_a_large_model(tmp_path):
    path = tmp_path / "a.safetensors"
    save_model(path, GaussianNND(), {})
    tensors, about = load_tensors(path)
    from newtongs.base.checkpoints import save_tensors

    about["model"]["hidden"] = 30_000
    save_tensors(path, tensors, about)
    refused(load_model, path, "does not hold the weights of a Gaussian-NND with 30000 hidden")


def test_lists_before_the_gaussians_are_counted_over_all_elements(tmp_path):
    head = b"ply\nformat binary_little_endian 1.0\n"
    for i in range(9):
        head += b"element other%d 900000\nproperty list uchar uchar x\n" % i
    head += b"element vertex 1\nproperty float x\nend_header\n"
    (tmp_path / "a.ply").write_bytes(head + bytes(9 * 900_000 + 4))
    from newtongs.formats.ply import read_columns, read_header

    header = read_header(tmp_path / "a.ply")
    refused(lambda _: read_columns(header, "vertex", {"x": ["x"]}), None, "8,100,000 rows of lists")


def test_a_mask_of_another_size_is_not_unpacked(tmp_path):
    image = pytest.importorskip("PIL.Image")
    from newtongs.scene import Camera
    from newtongs.segment.objects.selection import _picture

    image.new("1", (9_000, 9_000)).save(tmp_path / "0.png")
    assert (tmp_path / "0.png").stat().st_size < 100_000
    camera = Camera(torch.eye(3), torch.eye(4), 64, 48)
    refused(
        lambda path: _picture(path, camera), tmp_path / "0.png", "9000 x 9000 pixels, its camera"
    )


def test_a_streamed_scene_names_one_file_in_many_ways(tmp_path):
    names = ["a/meta.json", "./a/meta.json", "a//meta.json"]
    (tmp_path / "lod-meta.json").write_text(json.dumps({"filenames": names, "tree": {}}))
    refused(load, tmp_path / "lod-meta.json", "lists a file twice")


@pytest.mark.slow
@pytest.mark.parametrize("name", bombs.BOMBS)
def test_every_bomb_is_refused_or_read_within_the_rule(name):
    """20 times its size and 1 GB, 20 s; each in a process of its own."""
    found = bombs.defused(name)
    assert not found.wrong, bombs.row(name, found)


def test_names_in_files_are_no_orders_to_the_terminal(tmp_path):
    from newtongs.base.files import array_headers

    np.savez(tmp_path / "a.npz", **{"red\x1b[31m\x07\n\u202eframe_1": np.zeros((3, 14))})
    assert len(array_headers(tmp_path / "a.npz")) == 1
    with zipfile.ZipFile(tmp_path / "b.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("red\x1b[31m\n\u202e.npy", b"x")
    with pytest.raises(InputError) as caught:
        array_headers(tmp_path / "b.npz")
    assert r"red\x1b[31m\n\u202e.npy uses unsupported" in str(caught.value)
    assert str(caught.value).isprintable()
