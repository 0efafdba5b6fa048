"""glTF with Gaussians: ours come back as they were, others' through every kind of node."""

import json
import struct

import export_samples
import numpy as np
import pytest
import torch
from test_scene import random_scene

from newtongs.base import rotations
from newtongs.base.errors import InputError
from newtongs.exports.glb import write_glb
from newtongs.formats import load, save
from newtongs.formats.files import axes_of
from newtongs.scene.sh import basis

LUF = torch.tensor([-1.0, -1.0, 1.0])


def glb(tree, data=b""):
    text = json.dumps(tree).encode()
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<I4s", len(text), b"JSON") + text
    chunks += struct.pack("<I4s", len(data), b"BIN\0") + data
    return b"glTF" + struct.pack("<II", 2, 12 + len(chunks)) + chunks


class Document:
    """A file of one mesh, as another program would write it."""

    def __init__(self, scene, node=None):
        self.data = b""
        self.tree = {
            "asset": {"version": "2.0", "generator": "other"},
            "scenes": [{"nodes": [0]}],
            "nodes": [{"mesh": 0} | (node or {})],
            "meshes": [{"primitives": [{"attributes": {}, "extensions": {}}]}],
            "accessors": [],
            "bufferViews": [],
        }
        self.primitive["extensions"]["KHR_gaussian_splatting"] = {"kernel": "ellipse"}
        self.add("POSITION", scene.means)
        self.add("KHR_gaussian_splatting:ROTATION", scene.quats.roll(-1, -1))
        self.add("KHR_gaussian_splatting:SCALE", scene.scales)
        self.add("KHR_gaussian_splatting:OPACITY", scene.opacities[:, None])
        slots = [(d, i) for d in range(scene.sh_degree + 1) for i in range(2 * d + 1)]
        for k, (d, i) in enumerate(slots):
            self.add(f"KHR_gaussian_splatting:SH_DEGREE_{d}_COEF_{i}", scene.sh[:, k])

    @property
    def primitive(self):
        return self.tree["meshes"][0]["primitives"][0]

    def add(self, name, x, kind="<f4", code=5126, **more):
        rows = np.ascontiguousarray(np.asarray(x, kind))
        view = {"buffer": 0, "byteOffset": len(self.data), "byteLength": rows.nbytes}
        width = {1: "SCALAR", 3: "VEC3", 4: "VEC4"}[rows.shape[1]]
        at = {"bufferView": len(self.tree["bufferViews"]), "count": len(rows)}
        self.tree["accessors"].append(at | {"componentType": code, "type": width} | more)
        self.tree["bufferViews"].append(view)
        self.primitive["attributes"][name] = len(self.tree["accessors"]) - 1
        self.data += rows.tobytes() + bytes(-rows.nbytes % 4)

    def write(self, path):
        self.tree["buffers"] = [{"byteLength": len(self.data)}]
        path.write_bytes(glb(self.tree, self.data))
        return path


@pytest.fixture(scope="module")
def scene():
    return random_scene(60, 3)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.glb"


def apart(a, b):
    """Largest difference of covariances ``(N, 3, 3)`` over the size of each."""
    norm = torch.linalg.matrix_norm
    return (norm(a.double() - b.double()) / norm(b.double())).max()


def assert_placed(read, scene, A, b):
    """Everything under ``A x + b`` and then glTF's axes; colour by A's rotation."""
    T = torch.diag(LUF).double()
    A, b = T @ A, T @ b
    expected = scene.means.double() @ A.mT + b
    torch.testing.assert_close(read.means.double(), expected, rtol=1e-6, atol=1e-6)
    expected = A @ scene.covariances.double() @ A.mT
    assert apart(read.covariances, expected) < 1e-5
    d = torch.nn.functional.normalize(torch.randn(9, 3, dtype=torch.float64), dim=-1)
    U, _, Vh = torch.linalg.svd(A)
    before = torch.einsum("dk,nkc->dnc", basis(d), scene.sh.double())
    after = torch.einsum("dk,nkc->dnc", basis(d @ (U @ Vh).mT), read.sh.double())
    torch.testing.assert_close(after, before, rtol=0, atol=1e-5)
    torch.testing.assert_close(read.opacities, scene.opacities, rtol=0, atol=1e-5)


def test_others_are_left_up_front(scene, path):
    Document(scene).write(path)
    assert_placed(load(path), scene, torch.eye(3).double(), torch.zeros(3).double())
    assert axes_of(path) == "LUF"
    assert torch.equal(load(path, axes="RDF").means, scene.means)


@pytest.mark.parametrize("scale", [[2.0, 2, 2], [0.5, 1, 3], [1.0, 1, -1], [1e-3, 1e-3, 1e-3]])
def test_translation_rotation_and_scale_of_a_node(scene, path, scale):
    q = [0.1, 0.7, -0.2, 0.4]  # xyzw, not unit
    Document(scene, {"translation": [1, 2, 3], "rotation": q, "scale": scale}).write(path)
    w = torch.tensor([q[3], *q[:3]]).double()
    A = rotations.to_matrix(w / w.norm()) @ torch.diag(torch.tensor(scale).double())
    assert_placed(load(path), scene, A, torch.tensor([1.0, 2, 3]).double())


def test_matrices_multiply_down_the_tree(scene, path):
    outer = torch.tensor([[0.0, -2, 0, 5], [2, 0, 0, 6], [0, 0, 2, 7], [0, 0, 0, 1]])
    file = Document(scene)
    file.tree["nodes"] = [
        {"matrix": outer.mT.flatten().tolist(), "children": [1]},
        {"translation": [0, 0, 1], "mesh": 0},
    ]
    A, b = outer[:3, :3].double(), outer[:3, 3].double() + torch.tensor([0, 0, 2.0])
    assert_placed(load(file.write(path)), scene, A, b)


def test_two_nodes_may_show_one_mesh(scene, path):
    file = Document(scene)
    file.tree["nodes"].append({"mesh": 0, "translation": [9, 0, 0]})
    file.tree["scenes"][0]["nodes"] = [0, 1]
    assert len(load(file.write(path))) == 2 * len(scene)


def test_normalised_integers_and_strides(scene, path):
    file = Document(scene)
    q = (scene.quats.roll(-1, -1) * 32767).round()
    file.add("KHR_gaussian_splatting:ROTATION", q, "<i2", 5122, normalized=True)
    opacity = (scene.opacities[:, None] * 255).round()
    file.add("KHR_gaussian_splatting:OPACITY", opacity, "<u1", 5121, normalized=True)
    read = load(file.write(path))
    assert (read.opacities - scene.opacities).abs().max() <= 0.5 / 255 + 1e-6
    turned = torch.diag(LUF) @ scene.covariances @ torch.diag(LUF)
    assert apart(read.covariances, turned) < 1e-3


def test_a_primitive_packed_as_spz(path, tmp_path):
    pytest.importorskip("gsply", reason="needs newtongs[formats]")
    scene = random_scene(100, 1)
    save(scene, tmp_path / "a.spz")
    raw, file = (tmp_path / "a.spz").read_bytes(), Document(scene)
    packed = {"KHR_gaussian_splatting_compression_spz_2": {"bufferView": 0}}
    file.primitive["extensions"]["KHR_gaussian_splatting"] = {"extensions": packed}
    file.tree["bufferViews"] = [{"buffer": 0, "byteLength": len(raw)}]
    file.data = raw
    read = load(file.write(path), axes="RUB")
    assert (read.means - scene.means).abs().max() < 1e-3


@pytest.mark.parametrize("seed", [0, 1])
def test_our_own_files_give_the_scene_back(path, seed):
    animation = export_samples.park() if seed else export_samples.two_objects()
    write_glb(animation, path)
    read, scene = load(path), animation.scene
    moving = torch.isin(scene.ids, torch.tensor([*animation.states]))
    scene = scene.replace(ids=torch.where(moving, scene.ids, -1))
    scene = scene[scene.ids.argsort(stable=True)]  # objects stay together, in any order
    read = read[read.ids.argsort(stable=True)]
    assert axes_of(path) == "RDF"
    assert torch.equal(read.ids, scene.ids)
    torch.testing.assert_close(read.means, scene.means, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(read.covariances, scene.covariances, rtol=1e-4, atol=1e-8)
    torch.testing.assert_close(read.sh, scene.sh, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_the_program_takes_a_glb(path, tmp_path, capsys):
    from newtongs.cli import main

    write_glb(export_samples.park(), path)
    main(["inspect", str(path), "--plain"])
    assert "marked objects: [3]" in capsys.readouterr().out
    words = f"animate {path} --out {tmp_path / 'out'} --formats json --up 0 1 0 --seconds 0.2"
    main(words.split())
    assert (tmp_path / "out" / "a.json").is_file()


# Damage


def broken(file, change):
    change(file.tree)
    return file


CHANGES = {
    "reaches beyond": lambda t: t["accessors"][0].update(count=10**9),
    "beyond its": lambda t: t["bufferViews"][0].update(byteLength=10**9),
    "does not have 3 numbers": lambda t: t["accessors"][0].update(type="VEC4"),
    "lacks POSITION": lambda t: t["meshes"][0]["primitives"][0]["attributes"].pop("POSITION"),
    "form a loop": lambda t: t["nodes"][0].update(children=[0]),
    "nodes\\[7\\] is missing": lambda t: t["scenes"][0].update(nodes=[7]),
    "no Gaussians": lambda t: t["meshes"][0]["primitives"][0].update(extensions={}),
    "differ in length": lambda t: t["accessors"][1].update(count=3),
    "sparse": lambda t: t["accessors"][0].update(sparse={}),
    "flattens": lambda t: t["nodes"][0].update(scale=[1, 0, 1]),
    "16 numbers": lambda t: t["nodes"][0].update(matrix=[1, 2]),
    "meshopt": lambda t: t["bufferViews"][0].update(extensions={"EXT_meshopt_compression": {}}),
    "other files": lambda t: t["bufferViews"][0].update(buffer=1),
}


@pytest.mark.parametrize("message", CHANGES)
def test_what_cannot_be_is_told_in_one_line(scene, path, message):
    with pytest.raises(InputError, match=message):
        load(broken(Document(scene), CHANGES[message]).write(path))


def test_many_nodes_cannot_multiply_a_mesh_without_end(path):
    file = Document(random_scene(20_000))
    file.tree["nodes"] = [{"mesh": 0}] * 5_000
    file.tree["scenes"][0]["nodes"] = list(range(5_000))
    with pytest.raises(InputError, match="declares Gaussians again and again"):
        load(file.write(path))


def test_linear_light_is_warned_of(scene, path):
    file = Document(scene)
    file.primitive["extensions"]["KHR_gaussian_splatting"]["colorSpace"] = "lin_rec709_display"
    with pytest.warns(UserWarning, match="are linear"):
        load(file.write(path))
