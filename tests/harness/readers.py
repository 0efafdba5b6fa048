"""Every reader of the project: an original to damage, what reads it, what must come out."""

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from harness.damage import (
    any_damage,
    within_gzip,
    within_header,
    within_json,
    within_toml,
    within_zip,
)
from newtongs.base.errors import InputError

PIXELS = 32


@dataclass(frozen=True)
class Reader:
    """One kind of file."""

    write: Callable[[Path], list[Path]]
    """Makes a valid original in a folder; the files that are damaged, by turns."""
    read: Callable[[Path], Any]
    """From the folder."""
    within: Callable[[np.random.Generator, bytes], bytes] = any_damage
    """Damage to what the container holds, for half of the files."""
    check: Callable[[Any], None] = lambda result: None
    """What was read must be sound."""


def sound_scene(scene: Any) -> None:
    """Finite, and of unit quaternions."""
    for field in (scene.means, scene.quats, scene.covariances, scene.opacities, scene.sh):
        assert torch.isfinite(field).all()
    assert ((scene.quats.norm(dim=-1) - 1).abs() < 1e-5).all()


def sound_cameras(cameras: Any) -> None:
    """Finite."""
    for camera in cameras:
        assert torch.isfinite(camera.K).all()
        assert torch.isfinite(camera.w2c).all()


def sound_animation(animation: Any) -> None:
    """Every frame can be drawn."""
    assert all(torch.isfinite(z).all() for z in animation.states.values())
    sound_scene(animation.scene)


def scene_file(name: str, within=any_damage, make=None, first: str | None = None) -> Reader:
    """A splat file of one of the formats."""

    def write(folder: Path) -> list[Path]:
        from test_scene import random_scene

        from newtongs.formats import save

        path = folder / name
        (make or (lambda p: save(random_scene(60, 1), p)))(path)
        return [path]

    def read(folder: Path) -> Any:
        from newtongs.formats import load

        return load(folder / (first or name))

    return Reader(write, read, within, sound_scene)


def plain_ply(order: str):
    """As the tests of the formats write it."""

    def make(path: Path) -> None:
        from test_formats import inria, ply
        from test_scene import random_scene

        path.write_bytes(ply(("vertex", inria(random_scene(30, 1))), order=order))

    return make


def tensor(path: Path) -> None:
    """An LGM tensor."""
    from test_formats import lgm_tensor, save_tensor

    save_tensor(path, lgm_tensor(2, 30))


def glb(path: Path) -> None:
    from test_formats_fuzz import glb_file

    glb_file(path)


def ksplat(path: Path) -> None:
    from test_formats_fuzz import ksplat_file

    ksplat_file(path)


def sog_folder(folder: Path) -> list[Path]:
    """A SOG unpacked: its description and its planes."""
    import zipfile

    from test_scene import random_scene

    from newtongs.formats import save

    save(random_scene(60, 1), folder / "x.sog")
    with zipfile.ZipFile(folder / "x.sog") as archive:
        archive.extractall(folder / "s")
    (folder / "x.sog").unlink()
    return sorted((folder / "s").iterdir())


def streamed(folder: Path) -> list[Path]:
    """Two SOG folders with a description of their levels of detail."""
    for name in ("a", "b"):
        (folder / name).mkdir()
        sog_folder(folder / name)
    leaves = [
        {"lods": {str(k): {"file": i, "offset": 0, "count": n} for k, n in enumerate((60, 9))}}
        for i in range(2)
    ]
    meta = {"filenames": ["a/s/meta.json", "b/s/meta.json"], "tree": {"children": leaves}}
    (folder / "lod-meta.json").write_text(json.dumps(meta))
    return [folder / "lod-meta.json", folder / "lod-meta.json", folder / "a" / "s" / "meta.json"]


def load_in(name: str):
    """A scene of the folder."""

    def read(folder: Path) -> Any:
        from newtongs.formats import load

        return load(folder / name)

    return read


def dump(name: str) -> Reader:
    """Moving Gaussians of another program."""

    def write(folder: Path) -> list[Path]:
        from test_formats import lgm_tensor, save_tensor

        x = lgm_tensor(3, 20)
        if name.endswith(".npz"):
            np.savez_compressed(folder / name, **{f"frame_{i}": f for i, f in enumerate(x.numpy())})
        else:
            save_tensor(folder / name, x)
        return [folder / name]

    def read(folder: Path) -> Any:
        from newtongs.formats.dumps import open_dump

        return [x.float().isfinite().all() for x in open_dump(folder / name).frames()]

    within = {".npz": within_zip, ".pt": within_zip, ".safetensors": within_header}
    return Reader(write, read, within.get(Path(name).suffix, any_damage))


def replay_files(folder: Path) -> list[Path]:
    from export_samples import park

    from newtongs.exports import save_animation

    save_animation(park(3), folder / "a.json")
    return [folder / "a.json", folder / "a.npz"]


def vouched(folder: Path) -> Any:
    """An animation whose json vouches for its damaged archive."""
    from newtongs.exports import load_animation
    from newtongs.exports.replay import _entry

    try:
        tree = json.loads((folder / "a.json").read_text())
        tree["numbers"] = _entry(folder / "a.npz", folder / "a.json")
        (folder / "a.json").write_text(json.dumps(tree))
    except (ValueError, TypeError, KeyError, RecursionError):
        pass  # it is the json that is damaged
    return load_animation(folder / "a.json")


def project_files(folder: Path) -> list[Path]:
    """A project of the studio; beside it a json without its recipe would be an animation."""
    from export_samples import park

    from newtongs import ObjectSpec
    from newtongs.studio import Kick, Recipe, project

    pushes = (ObjectSpec("id:0", velocity=(1, 2, 0)), ObjectSpec("cluster:0+1", mass=2.0))
    recipe = Recipe("sunny_park", pushes, up=(0, 1, 0), kicks=(Kick(0.5, 0, (0, 1, 0)),))
    project.save(recipe, park(3), folder / "a.json")
    return [folder / "a.json"]


def read_project(folder: Path) -> Any:
    from newtongs.studio import project

    recipe = project.read(folder / "a.json")
    return recipe.spec if recipe.pushes else recipe.physics


def track_files(folder: Path) -> list[Path]:
    """Positions as text, and states as arrays."""
    z = torch.ones(5, 22)
    (folder / "a.json").write_text(json.dumps({"p": z[:, :3].tolist(), "q": [[1, 0, 0, 0]] * 5}))
    np.savez_compressed(folder / "b.npz", states=z.numpy(), fps=24.0)
    return [folder / "a.json", folder / "b.npz"]


def read_tracks(folder: Path) -> Any:
    """Both; the first that is refused is reported after the other was read."""
    from newtongs.forecast.continuation import read_track

    return each_read(read_track, [folder / "a.json", folder / "b.npz"])


def sound_tracks(tracks: Any) -> None:
    """Finite states at increasing times."""
    for track in tracks:
        assert torch.isfinite(track.states).all()
        assert (track.times.diff() > 0).all()


def each_read(read: Callable[[Any], Any], these: Sequence[Any]) -> list[Any]:
    """What each was read as; an error is raised after the others were tried."""
    found, said = [], []
    for one in these:
        try:
            found.append(read(one))
        except InputError as error:
            said.append(error)
    if said:
        raise said[0]
    return found


def camera_files(folder: Path) -> list[Path]:
    from test_formats_fuzz import camera_json

    camera_json(folder / "transforms.json")
    return [folder / "transforms.json"]


def colmap_files(folder: Path) -> list[Path]:
    from test_formats_fuzz import colmap

    colmap(folder / "m")
    return [folder / "m" / "cameras.txt", folder / "m" / "images.txt"]


def read_cameras(name: str):
    def read(folder: Path) -> Any:
        from newtongs.formats import load_cameras

        return load_cameras(folder / name)

    return read


def mask_files(folder: Path) -> list[Path]:
    from PIL import Image

    picture = Image.fromarray(np.eye(PIXELS, dtype=np.uint8) * 255)
    picture.save(folder / "0.png")
    picture.convert("RGB").save(folder / "1.jpg")
    return [folder / "0.png", folder / "1.jpg"]


def read_masks(folder: Path) -> Any:
    from newtongs.scene import Camera
    from newtongs.segment.objects.selection import _picture

    camera = Camera(torch.eye(3), torch.eye(4), PIXELS, PIXELS)
    return [_picture(path, camera) for path in sorted(folder.iterdir())]


def checkpoint_file(folder: Path) -> list[Path]:
    from newtongs import GaussianNND, NNDConfig
    from newtongs.dynamics.weights import save_model

    save_model(folder / "a.safetensors", GaussianNND(NNDConfig(hidden=8)), {"note": "x"})
    return [folder / "a.safetensors"]


def read_checkpoint(folder: Path) -> Any:
    from newtongs.dynamics.weights import load_model

    return load_model(folder / "a.safetensors")


def context_file(folder: Path) -> list[Path]:
    from newtongs.forecast.weights import save_context

    save_context(folder / "a.safetensors", tiny_context(), {"note": "x"})
    return [folder / "a.safetensors"]


def tiny_context():
    from newtongs.forecast import ContextConfig, ContextNND

    return ContextNND(ContextConfig(width=8, blocks=1, hidden=8, layers=1, hypotheses=2))


def read_context(folder: Path) -> Any:
    from newtongs.forecast import load_context

    return load_context(folder / "a.safetensors")


def context_run(folder: Path) -> list[Path]:
    """A run of ContextNND that is to go on."""
    from newtongs.forecast.training.loop import RunFolder, save

    save(RunFolder(folder), *context_parts(folder))
    return [folder / "last.safetensors"]


def context_parts(folder: Path):
    from newtongs.forecast.training import ContextTrainConfig
    from newtongs.forecast.training.loop import Run

    model, average = tiny_context(), tiny_context()
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 1, 22), [0.0, 0.1]).states.sum().backward()
    optimizer.step()
    config = ContextTrainConfig(out=folder, model=model.config)
    return Run(model, average, optimizer, torch.Generator(), 3), config


def resume_context(folder: Path) -> Any:
    from newtongs.forecast.training.loop import RunFolder, resume

    run, config = context_parts(folder)
    resume(RunFolder(folder), run, config)
    return run.done


def run_folder(folder: Path) -> list[Path]:
    """A training run that is to go on."""
    from newtongs.base.runs import RunFolder, identity
    from newtongs.paper.training.loop import Position, save

    model, optimizer, schedule, config = run_parts(folder)
    model.rollout(torch.ones(2, 22), [0.0, 0.1]).sum().backward()
    optimizer.step()
    (folder / "metrics.jsonl").write_text('{"epoch": 1}\n{"epoch": 2}\n')
    about = {"training": identity(config), "data": "f"}
    save(RunFolder(folder), model, optimizer, schedule, about, Position())
    return [folder / "last.safetensors", folder / "last.safetensors", folder / "metrics.jsonl"]


def run_parts(folder: Path):
    from newtongs import GaussianNND, NNDConfig
    from newtongs.paper.training.config import TrainConfig

    config = TrainConfig(data=folder, out=folder, model=NNDConfig(hidden=8))
    model = GaussianNND(config.model)
    optimizer = torch.optim.AdamW(model.parameters())
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
    return model, optimizer, schedule, config


def resume(folder: Path) -> Any:
    from newtongs.base.runs import RunFolder
    from newtongs.paper.training import loop

    model, optimizer, schedule, config = run_parts(folder)
    return loop.resume(RunFolder(folder), model, optimizer, schedule, config, "f")


def state32_file(folder: Path) -> list[Path]:
    from newtongs.paper.datasets import state32

    state32.build(folder, splits=["val_id"], per_motion=1)
    return [folder / "val_id.pt"]


def read_state32(folder: Path) -> Any:
    from newtongs.paper.datasets import state32

    data = state32.load(folder, "val_id")
    return state32.fingerprint(data), [x.sum() for x, _ in data.batches(8)]


def sample_file(folder: Path) -> list[Path]:
    """A Gaussian-32 sample; a thirtieth of it is damaged at the beginning and at the end."""
    from newtongs.paper.datasets import gaussian32

    item = gaussian32.items(["sunny_park"], ["free_fall"])[0]
    from newtongs.paper.datasets.gaussian_sample import save

    save(folder / "a.pt", gaussian32.make_sample(item, None), store="compact")
    return [folder / "a.pt"]


def read_sample(folder: Path) -> Any:
    from newtongs.paper.datasets.gaussian_sample import read

    return read(folder / "a.pt")["states"].sum()


def manifests(folder: Path) -> list[Path]:
    from newtongs.paper.datasets import common12

    rows = "sample_id,motion_type,source_path,dt\nx,free_fall,s/x.pt,0.04\n"
    (folder / "manifest_same32.csv").write_text(rows)
    (folder / "manifest.csv").write_text(rows)
    common12.write_manifest(folder)
    return [folder / "manifest_same32.csv", folder / common12.MANIFEST, folder / "manifest.csv"]


def read_manifests(folder: Path) -> Any:
    """All three; the first that is refused is reported after the others were read."""
    from newtongs.cli.inspect import describe_manifest
    from newtongs.paper.datasets import common12, same32

    readers = (describe_manifest, same32.selected, common12.read_manifest)
    return each_read(lambda read: read(folder), readers)


def animated_glb(folder: Path) -> list[Path]:
    from export_samples import bouncing, random_scene

    from newtongs.exports import write_glb
    from newtongs.scene.animation import Animation

    t, z = bouncing(4)
    write_glb(Animation(random_scene(40, ids=0), t, {0: z}), folder / "a.glb")
    return [folder / "a.glb"]


def read_animated_glb(folder: Path) -> Any:
    from newtongs.formats.files import load

    return load(folder / "a.glb")


def page_file(folder: Path) -> list[Path]:
    from export_samples import bouncing, random_scene

    from newtongs.exports import write_html
    from newtongs.scene.animation import Animation

    t, z = bouncing(4)
    write_html(Animation(random_scene(40, ids=0), t, {0: z}), folder / "a.html", compress=False)
    return [folder / "a.html"]


def read_page(folder: Path) -> Any:
    from newtongs.exports import read_html

    return read_html(folder / "a.html")


def upload(folder: Path) -> Any:
    """What a browser sends, under a name of its own choice."""
    from newtongs.formats import load
    from newtongs.studio.guard import Uploads

    uploads = Uploads(1.0)
    try:
        return load(uploads.store("../../etc/x.spz", (folder / "x.spz").read_bytes()))
    finally:
        uploads.close()


def progress_file(folder: Path) -> list[Path]:
    """The record of an interrupted build, and its parts."""
    from newtongs.paper.datasets import state32

    class Stop(Exception):  # noqa: N818
        pass

    def stop(*_: object) -> None:
        raise Stop

    with suppress(Stop):
        state32.build(folder, splits=["val_id"], per_motion=64, progress=stop)
    return [folder / ".val_id.progress.json", folder / ".manifest_val_id.csv.part"]


def go_on(folder: Path) -> Any:
    """Whether a build can go on, or begins anew."""
    from newtongs.paper.datasets.state32 import SplitPlan, _Files, _resume_point

    return _resume_point(_Files(folder, "val_id"), SplitPlan("val_id", 64))


SPEC = """
name = "x"
scenes = ["bowling", "sunny_park", "park.ply"]
count = 40
size = [64, 48]
rgb = "webp"
[objects]
select = ["id:0", "cluster:1"]
loose = "all"
[pushes]
speed = {log = [0.5, 4.0]}
spin = {normal = [0.0, 3.0]}
heading = 90
[materials]
mass = {choice = [1, 2.5]}
[dynamics]
kinds = ["world", "motions"]
motions = ["free_fall"]
[cameras]
paths = ["still", "orbit"]
[splits]
train = 0.8
test = 0.2
"""


def spec_file(folder: Path) -> list[Path]:
    """A spec with a bit of everything, and a file that it names."""
    (folder / "park.ply").write_bytes(b"ply")
    (folder / "a.toml").write_text(SPEC)
    return [folder / "a.toml"]


def read_spec(folder: Path) -> Any:
    """The plan: what is drawn for the first films, and the shards."""
    from newtongs.factory.draws import draw
    from newtongs.factory.run import check_motions
    from newtongs.factory.scenes import find_scenes, set_digest
    from newtongs.factory.shards import shards_of
    from newtongs.factory.spec import load_spec

    spec, home = load_spec(folder / "a.toml")
    check_motions(spec)
    scenes = find_scenes(spec, home)
    drawn = [draw(spec, scenes, number, 0) for number in range(3)]
    return set_digest(spec, scenes), shards_of(spec, scenes), drawn


def set_files(folder: Path) -> list[Path]:
    """The records of a data set of one shard: its description, its part, its thumbnails."""
    from newtongs.factory.scenes import find_scenes, set_digest
    from newtongs.factory.shards import COLUMNS, Sample, fingerprint, shards_of, write_thumbs
    from newtongs.factory.spec import described

    spec = tiny_spec()
    scenes = find_scenes(spec, folder)
    (shard,) = shards_of(spec, scenes)
    failure = {"scene": "bowling", "reason": "hardly seen", "line": "seen in 3 % of the frames"}
    made = {name: "x" if kind == "string" else 1 for name, kind in COLUMNS.items()}
    rows = [made | {"made": True, "failures": [failure]}, {"made": False, "failures": [failure]}]
    (folder / "parts").mkdir()
    (folder / f"{shard.name}.tar").write_bytes(b"x" * 512)
    part = {"digest": set_digest(spec, scenes), "films": 2, "rows": rows}
    part["tar"] = fingerprint(folder / f"{shard.name}.tar")
    place = folder / "parts" / f"{shard.name}.json"
    place.write_text(json.dumps(part))
    write_thumbs(place.with_suffix(".png"), [Sample("x", {}, row, None) for row in rows])
    (folder / "spec.json").write_text(json.dumps(described(spec, {"bowling": ""})))
    return [place, folder / "spec.json", place, place.with_suffix(".png")]


def tiny_spec() -> Any:
    from newtongs.factory.spec import Spec

    return Spec(name="x", scenes=("bowling",), count=2)


def read_set(folder: Path) -> Any:
    """What a rerun reads, and the index and the page that it writes."""
    from newtongs.factory.run import check_same_spec
    from newtongs.factory.scenes import find_scenes, set_digest
    from newtongs.factory.shards import all_rows, is_done, shards_of, write_index
    from newtongs.factory.statistics import write_statistics

    spec = tiny_spec()
    scenes = find_scenes(spec, folder)
    shards = shards_of(spec, scenes)
    check_same_spec(folder, spec, {"bowling": ""})
    done = is_done(folder, shards[0], set_digest(spec, scenes))
    rows = all_rows(folder, shards)
    write_index(folder, rows)
    write_statistics(folder, spec, rows, shards, {})
    return done


READERS = {
    "ply": scene_file("a.ply", make=plain_ply("<")),
    "ply-big-endian": scene_file("a.ply", make=plain_ply(">")),
    "ply-text": scene_file("a.ply", make=plain_ply("")),
    "compressed-ply": scene_file("a.compressed.ply"),
    "spz": scene_file("a.spz", within_gzip),
    "splat": scene_file("a.splat"),
    "ksplat": scene_file("a.ksplat", make=ksplat),
    "glb": scene_file("a.glb", within_header, glb),
    "compressed-glb": scene_file("a.compressed.glb", within_header),
    "sog": scene_file("a.sog", within_zip),
    "sog-folder": Reader(sog_folder, load_in("s/meta.json"), any_damage, sound_scene),
    "lod-meta": Reader(streamed, load_in("lod-meta.json"), within_json, sound_scene),
    "npy": scene_file("a.npy", make=tensor),
    "pt": scene_file("a.pt", within_zip, tensor),
    "safetensors": scene_file("a.safetensors", within_header, tensor),
    "dump-npz": dump("a.npz"),
    "dump-npy": dump("a.npy"),
    "dump-pt": dump("a.pt"),
    "dump-safetensors": dump("a.safetensors"),
    "replay-json": Reader(lambda f: replay_files(f)[:1], vouched, within_json, sound_animation),
    "replay-npz": Reader(lambda f: replay_files(f)[1:], vouched, within_zip, sound_animation),
    "project": Reader(project_files, read_project, within_json),
    "track": Reader(track_files, read_tracks, any_damage, sound_tracks),
    "cameras-json": Reader(
        camera_files, read_cameras("transforms.json"), within_json, sound_cameras
    ),
    "cameras-colmap": Reader(colmap_files, read_cameras("m"), any_damage, sound_cameras),
    "masks": Reader(mask_files, read_masks),
    "checkpoint": Reader(checkpoint_file, read_checkpoint, within_header),
    "run": Reader(run_folder, resume, any_damage),
    "context": Reader(context_file, read_context, within_header),
    "context-run": Reader(context_run, resume_context, within_header),
    "state32": Reader(state32_file, read_state32, within_zip),
    "state32-progress": Reader(progress_file, go_on, any_damage),
    "gaussian32": Reader(sample_file, read_sample, any_damage),
    "manifests": Reader(manifests, read_manifests, any_damage),
    "animated-glb": Reader(animated_glb, read_animated_glb, within_header),
    "page": Reader(page_file, read_page, any_damage),
    "spec": Reader(spec_file, read_spec, within_toml),
    "set": Reader(set_files, read_set, within_json),
    "upload": Reader(lambda f: scene_file("x.spz").write(f), upload, within_gzip, sound_scene),
}  # fmt: skip
