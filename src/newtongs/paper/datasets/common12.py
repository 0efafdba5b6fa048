"""Common-12: the manifest of 84 videos, 12 motions times 7 methods.

``OUT/common12.json`` gives for each video its motion, the corresponding Same-32 motion, the path of
the clip, and for generated clips the prompt, the seed and the sampling options. The clips
themselves are rendered (NewtonGS), generated (CogVideoX, Wan, NewtonGen) or released by others
(PhyT2V, Sora, Veo 3); none of them comes with the package.

The paper hashes "the manifest strings" into a row's seed but does not print them. Ours are the
method's file name, the motion's folder name, and that name in lower case as the prompt's
identifier: the rule is the paper's, the resulting numbers may differ.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from ...base.errors import InputError
from ...base.files import write_atomically

FORMAT = "newtongs common12 v1"
MANIFEST = "common12.json"
BASE_SEED = 7301

Source = Literal["rendered", "generated", "released"]
DEEPEST = 3  # folders from a copy of the release down to its motions: static/videos/motions
RELEASE_LAYOUT = (
    "expected the twelve folders 3D_Motion, Acceleration, ... with "
    "{Sora,PhysT2V,Veo3,our,CogVideoX,Wan}.mp4 in them, here or up to three folders down"
)


@dataclass(frozen=True)
class Motion:
    """One category: its folder, its Same-32 motion, its prompt."""

    folder: str
    """Also the manifest's name of the motion."""
    label: str
    """Motion family of Same-32."""
    prompt: str

    @property
    def category(self) -> str:
        """As printed in the paper's table."""
        first, *rest = self.folder.split("_")
        return " ".join([first, *(word.lower() for word in rest)])

    @property
    def prompt_id(self) -> str:
        """Identifier of the prompt, which is hashed into the seeds."""
        return self.folder.lower()


# In the paper's order; prompts verbatim, including the joined pair of the eighth.
_MOTIONS = (
    Motion(
        "Uniform_Motion",
        "3d_uniform_motion",
        "A small metal cube sliding steadily along a smooth laboratory bench, reflections visible "
        "on the surface, scattered tools in the background, captured from a fixed side camera.",
    ),
    Motion(
        "Acceleration",
        "3d_acceleration_gravity",
        "A red sedan accelerating in a straight line on a clean highway, the road flat and clear, "
        "with only a pale sky and distant horizon in the background, captured from a fixed "
        "roadside camera.",
    ),
    Motion(
        "Deceleration",
        "sliding_then_stop",
        "A red sedan brakes and decelerates in a straight line on a wet city street, with lights "
        "reflecting on the road and buildings in the background, captured by a fixed side-view "
        "camera.",
    ),
    Motion(
        "Parabolic_Motion",
        "projectile_motion",
        "A single apple is thrown at an angle with an initial speed. The camera captures the "
        "motion from the side, showing the apple rising, reaching its peak, and then descending "
        "under gravity. The scene takes place in a bright open field under a clear blue sky, with "
        "soft sunlight casting gentle shadows on the ground. The background shows green grass and "
        "distant trees, adding depth and realism.",
    ),
    Motion(
        "Circular_Motion",
        "circular_orbital_motion",
        "A comet with a glowing tail orbits a distant star along a stable circular path. A "
        "top-down perspective emphasizes the symmetrical orbit and the stationary central star.",
    ),
    Motion(
        "3D_Motion",
        "airplane_flight",
        "A small metal cube slides from the distance along a laboratory bench towards the camera, "
        "reflections visible on the surface, scattered tools in the background, captured from a "
        "fixed oblique side camera.",
    ),
    Motion(
        "Rotation",
        "3d_rotation",
        "A metal rod spinning on a concrete floor, faint scratches and dust visible, captured from "
        "a fixed top-down camera.",
    ),
    Motion(
        "Parabolic_Motion_with_Rotation",
        "tumbling_fall",
        "A thin cylindrical rod gently tossed, rotating along its long axis, fixed side camera, "
        "realistic reflections, ground shadows visible, subtle motion blur."
        "A chalkboard eraser spinning while falling in a tilted arc, side camera captures, "
        "scattered chalk pieces in the classroom background, realistic shadows and lighting.",
    ),
    Motion(
        "Slope_Sliding",
        "slope_sliding",
        "A small metal cube sliding down a laboratory ramp, shiny reflections on its surface, "
        "scattered tools and wires in the background, captured from a fixed side camera parallel "
        "to the ramp.",
    ),
    Motion(
        "Damped_Oscillation",
        "pendulum_damped_oscillation",
        "A realistic pendulum with a spherical bob swinging from a fixed pivot. The fixed camera "
        "captures the entire motion.",
    ),
    Motion(
        "Size_Changing",
        "size_changing",
        "A red helium balloon gradually inflating in a sunny park, children playing in the "
        "background, trees casting soft shadows, captured from a stationary side camera.",
    ),
    Motion(
        "Deformation",
        "non_rigid_deformation",
        "A piece of soft dough is evenly flattened on a workbench, captured by a fixed overhead "
        "camera.",
    ),
)
MOTIONS = {motion.folder: motion for motion in _MOTIONS}


@dataclass(frozen=True)
class Sampling:
    """Options of a generator, by default the paper's."""

    repository: str
    """Name of the weights on the Hugging Face hub."""
    pipeline: str
    """Class name of the pipeline in diffusers."""
    width: int
    height: int
    frames: int
    fps: int
    steps: int
    guidance: float


COGVIDEOX = Sampling("THUDM/CogVideoX-5b", "CogVideoXPipeline", 720, 480, 49, 8, 30, 6.0)
WAN = Sampling("Wan-AI/Wan2.1-T2V-1.3B-Diffusers", "WanPipeline", 832, 480, 49, 16, 30, 5.0)
LORA = "T2V5B_blendnorm_i18000_DATASET"  # of NewtonGen
DEGRADATION = 0.5  # of NewtonGen's warped noise


@dataclass(frozen=True)
class Method:
    """One column of the manifest."""

    name: str
    """Key, as in ``paper.json``."""
    title: str
    """As printed in tables."""
    stem: str
    """File name of its clips without suffix."""
    source: Source
    released: str | None = None
    """File name in the public comparison release, if it has one."""
    sampling: Sampling | None = None


_METHODS = (
    Method("newtongs", "NewtonGS", "NewtonGS", "rendered"),
    Method("cogvideox", "CogVideoX", "CogVideoX", "generated", "CogVideoX", COGVIDEOX),
    Method("phyt2v", "PhyT2V", "PhyT2V", "released", "PhysT2V"),
    Method("sora", "Sora", "Sora", "released", "Sora"),
    Method("veo3", "Veo 3", "Veo3", "released", "Veo3"),
    Method("wan", "Wan", "Wan", "generated", "Wan", WAN),
    Method("newtongen", "NewtonGen", "NewtonGen", "generated", "our", COGVIDEOX),
)
METHODS = {method.name: method for method in _METHODS}


def method_of(stem: str) -> str:
    """The method whose clips have this file name; an unknown name is a method of its own."""
    for method in _METHODS:
        if stem.lower() in {method.stem.lower(), (method.released or method.stem).lower()}:
            return method.name
    return stem


def row_seed(method: str, motion: str, prompt_id: str) -> int:
    """``7301 + int(SHA1("method|motion|prompt_id")[:8], 16) mod 10^6``."""
    digest = hashlib.sha1(f"{method}|{motion}|{prompt_id}".encode()).hexdigest()
    return BASE_SEED + int(digest[:8], 16) % 10**6


@dataclass(frozen=True)
class Row:
    """One of the 84 videos."""

    method: str
    motion: str
    newtongs_label: str
    source: Source
    clip: str
    """Path of the clip, relative to the manifest's folder."""
    prompt_id: str | None
    prompt: str | None
    seed: int | None
    """Seed of the generator; None where there is none or it is unknown."""


def rows(methods: tuple[str, ...] = tuple(METHODS)) -> list[Row]:
    """The rows of the manifest by method, motions in the paper's order."""
    return [_row(METHODS[name], motion) for name in methods for motion in _MOTIONS]


def _row(method: Method, motion: Motion) -> Row:
    generated = method.source == "generated"
    return Row(
        method=method.name,
        motion=motion.folder,
        newtongs_label=motion.label,
        source=method.source,
        clip=f"{motion.folder}/{method.stem}.mp4",
        prompt_id=motion.prompt_id if generated else None,
        prompt=motion.prompt if generated else None,
        seed=row_seed(method.stem, motion.folder, motion.prompt_id) if generated else None,
    )


def write_manifest(out: Path | str, *, released: Path | str | None = None) -> Path:
    """Write ``OUT/common12.json`` and return its path.

    Args:
        out: folder of the manifest, and of rendered and generated clips.
        released: folder with the public comparison release, ``<Motion>/{Sora,PhysT2V,...}.mp4``;
            its clips stay where they are and the manifest refers to them.
    """
    clips = {} if released is None else released_clips(Path(released))
    made = [asdict(row) for row in rows()]
    for row in made:
        row["released_clip"] = clips.get((row["method"], row["motion"]))
    content = {
        "format": FORMAT,
        "methods": {m.name: asdict(m) for m in _METHODS},
        "labels": {motion.folder: motion.label for motion in _MOTIONS},
        "prompts": {motion.prompt_id: motion.prompt for motion in _MOTIONS},
        "seed_rule": f'{BASE_SEED} + int(sha1("method|motion|prompt_id")[:8], 16) % 10**6',
        "newtongen": {"lora": LORA, "degradation": DEGRADATION},
        "rows": made,
    }
    text, path = json.dumps(content, indent=1), Path(out) / MANIFEST
    write_atomically(path, lambda f: f.write(text.encode()))
    return path


def folder_of_motions(folder: Path) -> Path:
    """The folder itself, or the one below it that holds the motions' folders or a manifest.

    So a copy of the public release can be named as it is. Without such a folder it is the one
    named, for whose content the caller has words.
    """
    level = [folder]
    for _ in range(DEEPEST + 1):
        found = [f for f in level if _holds_motions(f)]
        if len(found) > 1:
            raise InputError(
                f"{folder} has two folders of clips by motion, {found[0]} and {found[1]}; name one"
            )
        if found:
            return found[0]
        level = [x for f in level for x in sorted(f.iterdir()) if x.is_dir() and x.name[0] != "."]
    return folder


def _holds_motions(folder: Path) -> bool:
    names = {motion.lower() for motion in MOTIONS}
    inside = (x for x in folder.iterdir() if x.name.lower() in names and x.is_dir())
    return (folder / MANIFEST).exists() or any(any(x.iterdir()) for x in inside)


def released_clips(folder: Path) -> dict[tuple[str, str], str]:
    """Clips of the public release by method and motion; all twelve of a method or none.

    The release also has clips of CogVideoX, Wan and NewtonGen (``our.mp4``), which are not the
    paper's: it made its own. A ``prompt.txt`` beside them has the prompts of the release; some
    equal the paper's. Seeds are not on record.
    """
    if not folder.is_dir():
        raise InputError(f"no folder {folder}; {RELEASE_LAYOUT}")
    folder = folder_of_motions(folder)
    found: dict[tuple[str, str], str] = {}
    for method in (m for m in _METHODS if m.released):
        paths = {m: folder / m / f"{method.released}.mp4" for m in MOTIONS}
        missing = [path for path in paths.values() if not path.is_file()]
        if missing and len(missing) < len(paths):
            raise InputError(
                f"{folder} lacks {len(missing)} of 12 clips of {method.title}, first {missing[0]}; "
                "add them, or remove the other clips of this method"
            )
        if not missing:
            found |= {(method.name, m): str(p.resolve()) for m, p in paths.items()}
    if not found:
        raise InputError(f"{folder} has no released clips; {RELEASE_LAYOUT}")
    return found


def read_manifest(folder: Path) -> list[dict[str, Any]]:
    """The rows of a folder's manifest."""
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found: list[dict[str, Any]] = content["rows"]
        usable = content["format"] == FORMAT and len(found) > 0
        usable = usable and all({"method", "motion", "clip"} <= row.keys() for row in found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        usable = False
    if not usable:
        raise InputError(
            f"{path} is not a Common-12 manifest; make it again with: "
            f"newtongs data common12 --out {folder}"
        )
    return found
