"""The first-frame path of Appendix F: Gaussians of a pretrained LGM, moved by Gaussian-NND.

A circle and a depth interval in the reference view select the object. Other Gaussians in a smaller
footprint of that circle are removed at any depth: the layers of such a reconstruction contain a
second copy of the object, which would stay behind. Everything else is static.

The first state is found without a scene, among 65,536 objects of State-32 on the model's own floor,
all their fields drawn with seed 7302: the one that moves by +0.72 in x within two seconds with the
least drift and change of scale. Its rollout is applied as displacements ``p_t - p_0``, one scene
unit per physics unit, at the centroid of the object's Gaussians, with the relative rotation and
scale. So the first frame is the scene itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...base.errors import InputError
from ...base.files import write_atomically
from ...base.state import State, replace
from ...base.types import Progress, StateTensor
from ...dynamics.backends import predictor
from ...dynamics.search import CANDIDATES, SearchResult, search
from ...dynamics.weights import load_pretrained
from ...formats.lgm import to_lgm
from ...render import render
from ...render.video import to_bytes
from ...samples.bowling import DUSK, bowling
from ...scene.cameras import Camera, look_at
from ...scene.frames import AnimatedScene
from ...scene.gaussians import GaussianScene
from ...segment.objects.grouping import FOOTPRINT, assign, remove, select_circle
from .panels import FORMATS, DrawnFigure, PictureGrid, Pixels, frame_index, padded, page
from .strips import ENDS, RELEASED, clips_in, film_strip

Color = tuple[float, float, float]

FRAMES, FPS = 49, 24
SHOWN = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
LGM_FIELD, LGM_RADIUS = 49.1, 1.5  # degrees and scene units of LGM's own cameras
WHITE: Color = (1.0, 1.0, 1.0)
MARK = (235, 120, 20)  # outline of the magnified region
REGION_MARGIN = 0.8  # around the object in that region, in units of its size
SMALLEST = 0.02  # fraction of the picture that such a region covers
VIDEO_FOLDER = "Acceleration"
PROMPT = (
    "A dark gray sports car accelerating in a straight line on an empty road at dusk, wet road "
    "reflecting light, orange sunset casting colors on the car, slight wind rustling the grass "
    "along the roadside, viewed from a stationary side-angle camera."
)
PAPER_COUNTS = {"gaussians": 62_710, "foreground": 347, "ghosts": 273, "static": 62_090}


@dataclass(frozen=True)
class Region:
    """The paper's "fixed circular image region and depth interval"."""

    circle: tuple[float, float, float]
    """Centre (from the left, from the top) and radius, in pixels of the reference view."""
    depth: tuple[float, float]
    """Nearest and farthest depth of the object, in scene units."""
    footprint: float = FOOTPRINT
    """Radius of the circle in which ghosts are removed, as a fraction of the circle's."""
    ghost_depth: tuple[float, float] | None = None
    """Remove ghosts between these depths only; the paper names no such limit."""


@dataclass(frozen=True, eq=False)
class FirstFrame:
    """A scene whose foreground moves."""

    scene: GaussianScene
    """Foreground (object 0) and static Gaussians, without ghosts."""
    states: StateTensor
    """``(49, 22)`` in scene coordinates."""
    camera: Camera
    counts: Mapping[str, int]
    """gaussians = foreground + ghosts + static."""
    found: SearchResult
    """The search's best candidates, in the physics frame."""

    def frame(self, f: float) -> GaussianScene:
        """The scene at normalised time ``f``."""
        moving = AnimatedScene(self.scene, self.states[0], self.states, object=0, form="impl")
        return moving[frame_index(f, len(self.states))]


def lgm_camera(size: int = 512) -> Camera:
    """LGM's input view: it looks along -z from 1.5, y up, x to the right."""
    return look_at((0, 0, LGM_RADIUS), (0, 0, 0), width=size, height=size, fov=LGM_FIELD)


def first_frame(
    scene: GaussianScene,
    region: Region,
    *,
    camera: Camera | None = None,
    seed: int = 7301,
    candidates: int = CANDIDATES,
    progress: Progress | None = None,
) -> FirstFrame:
    """Select, search, and anchor the rollout at the foreground's centroid.

    Args:
        scene: Gaussians as reconstructed.
        region: which of them are the object.
        camera: the reference view; default LGM's.
        seed: which trained model.
        candidates: number of first states to try.
        progress: called with ("search", candidates done, number of candidates).
    """
    camera = camera or lgm_camera()
    scene, counts = grouped(scene, camera, region)
    model = load_pretrained(seed)
    seconds = (FRAMES - 1) / FPS
    found = search(model, candidates=candidates, fps=FPS, seconds=seconds, progress=progress)
    z = predictor(model)(found.z0.unsqueeze(0), torch.arange(FRAMES) / FPS)[0]
    return FirstFrame(scene, anchored(z, scene.object(0).means), camera, counts, found)


def grouped(
    scene: GaussianScene, camera: Camera, region: Region
) -> tuple[GaussianScene, dict[str, int]]:
    """The scene without ghosts, its foreground as object 0, and the number of each kind."""
    u, v, radius = region.circle
    found = select_circle(
        scene, camera, (u, v), radius, depth=region.depth, footprint=region.footprint,
        ghost_depth=region.ghost_depth,
    )  # fmt: skip
    foreground, ghosts = int(found.foreground.sum()), int(found.ghost.sum())
    plain = scene.replace(ids=torch.full_like(scene.ids, -1))
    marked = remove(assign(plain, found.foreground, 0), found.ghost)
    counts = {
        "gaussians": len(scene), "foreground": foreground, "ghosts": ghosts,
        "static": len(marked) - foreground,
    }  # fmt: skip
    return marked, counts


def anchored(z: StateTensor, means: Tensor) -> StateTensor:
    """States ``(T, 22)`` with positions ``centroid + (p_t - p_0)``, otherwise unchanged."""
    x = State(z)
    return replace(z, p=means.double().mean(0).to(z) + (x.p - x.p[:1]))


def zoom_windows(moving: FirstFrame) -> list[tuple[float, float, float, float]]:
    """The magnified region of each frame shown: left, top, width and height in pixels.

    All have the same size and the picture's aspect ratio, with the object in the middle.
    """
    width, height = moving.camera.width, moving.camera.height
    spots = [moving.camera.project(moving.frame(f).object(0).means)[0] for f in SHOWN]
    ends = [(x.quantile(0.01, dim=0), x.quantile(0.99, dim=0)) for x in spots]
    extent = torch.stack([high - low for low, high in ends]).amax(0)
    share = float(((1 + 2 * REGION_MARGIN) * extent / extent.new_tensor([width, height])).amax())
    share = min(max(share, SMALLEST), 1.0)
    w, h = share * width, share * height
    middles = [((low + high) / 2).tolist() for low, high in ends]
    return [(_within(u, w, width), _within(v, h, height), w, h) for u, v in middles]


def _within(middle: float, length: float, whole: int) -> float:
    """Start of a window around ``middle``, shifted so that it stays inside the whole."""
    return min(max(middle - length / 2, 0.0), whole - length)


def zoomed(camera: Camera, window: Sequence[float], width: int, height: int) -> Camera:
    """The camera of a window of the picture, with ``width`` x ``height`` pixels."""
    left, top, w, h = window
    K = camera.K.clone()
    K[0, 2] -= left
    K[1, 2] -= top
    K[0] *= width / w
    K[1] *= height / h
    return Camera(K, camera.w2c, width, height)


def outlined(picture: Pixels, window: Sequence[float], ratio: float) -> Pixels:
    """A copy with the window's outline; ``ratio`` is the picture's pixels per camera pixel."""
    out = picture.copy()
    left, top, w, h = (round(x * ratio) for x in window)
    inner = np.s_[top + 2 : top + h - 2, left + 2 : left + w - 2]
    out[top : top + h, left : left + w] = MARK
    out[inner] = picture[inner]
    return out


def strip_block(
    moving: FirstFrame,
    *,
    width: int,
    background: Sequence[float],
    progress: Progress | None = None,
) -> PictureGrid:
    """Six full frames, and below each the region in which the object moves."""
    camera = moving.camera
    height = max(1, round(width * camera.height / camera.width))
    whole = zoomed(camera, (0, 0, camera.width, camera.height), width, height)
    full, large = [], []
    for f, window in zip(SHOWN, zoom_windows(moving), strict=True):
        scene, near = moving.frame(f), zoomed(camera, window, width, height)
        pictures = [to_bytes(render(scene, c, background=background)) for c in (whole, near)]
        full.append(outlined(pictures[0], window, width / camera.width))
        large.append(pictures[1])
        if progress:
            progress("pictures", len(full), len(SHOWN))
    return PictureGrid(
        [full, large], columns=[f"t = {f:g}" for f in SHOWN], rows=["whole scene", "magnified"],
        ours=frozenset((i, j) for i in (0, 1) for j in range(len(SHOWN))),
    )  # fmt: skip


def first_frame_figure(
    path: Path | str,
    moving: FirstFrame,
    *,
    width: int = 210,
    background: Sequence[float] = WHITE,
    source: str = "an LGM file",
    captioned: bool = True,
    formats: Sequence[str] = FORMATS,
    progress: Progress | None = None,
) -> DrawnFigure:
    """Six full frames with the magnified region below.

    Args:
        path: where to write; the suffix is replaced by each of ``formats``.
        moving: the result of :func:`first_frame`.
        width: of one picture, in pixels.
        background: background colour.
        source: where the Gaussians come from, for the caption.
        captioned: whether the caption is written into the picture.
        formats: suffixes of the files.
        progress: called with ("pictures", times done, number of times).
    """
    block = strip_block(moving, width=width, background=background, progress=progress)
    caption = _caption(moving, source)
    written = page(path, [[block]], caption=caption if captioned else "", formats=formats)
    return DrawnFigure(written, caption, facts(moving) | {"source": source})


def juxtaposed_figure(
    path: Path | str,
    moving: FirstFrame,
    *,
    clips: Path | str | None = None,
    width: int = 210,
    background: Sequence[float] = WHITE,
    source: str = "an LGM file",
    captioned: bool = True,
    formats: Sequence[str] = FORMATS,
    progress: Progress | None = None,
) -> DrawnFigure:
    """The strip above first and final frames of public videos of one prompt.

    ``clips`` is a folder with the released clips, or one that contains ``Acceleration/``; without
    it the figure is the strip alone and its caption says what is missing. The other arguments are
    those of :func:`first_frame_figure`.
    """
    films = {} if clips is None else clips_in(clips, VIDEO_FOLDER)
    strip = strip_block(moving, width=width, background=background, progress=progress)
    rows = [[strip]]
    if films:
        rows.append([_ends_block({name: film_strip(p, ENDS) for name, p in films.items()}, width)])
    missing = [f"{stem}.mp4" for stem, name in RELEASED.items() if name not in films]
    caption = _caption(moving, source) + _videos_caption(list(films), missing)
    written = page(path, rows, caption=caption if captioned else "", formats=formats)
    known = {"source": source, "videos": list(films), "missing": missing}
    return DrawnFigure(written, caption, facts(moving) | known)


def _ends_block(ends: Mapping[str, Sequence[Pixels]], width: int) -> PictureGrid:
    """First frames above final ones, one column per method."""
    height = round(width * 2 / 3)
    cells = [[padded(pair[i], width, height) for pair in ends.values()] for i in (0, 1)]
    return PictureGrid(cells, columns=list(ends), rows=["first frame", "final frame"])


def facts(moving: FirstFrame) -> dict[str, Any]:
    """What was selected, what the search found, and the object's final state."""
    x = State(moving.states)
    return {
        "counts": dict(moving.counts),
        "paper_counts": PAPER_COUNTS,
        "search": {"score": moving.found.score, "missed_by": moving.found.miss},
        "z0": moving.found.z0.tolist(),
        "displacement": (x.p[-1] - x.p[0]).tolist(),
        "scale_ratio": (x.s[-1] / x.s[0]).tolist(),
        "frames": len(moving.states),
    }


def _caption(moving: FirstFrame, source: str) -> str:
    n, x = moving.counts, State(moving.states)
    dx, dy, dz = (x.p[-1] - x.p[0]).tolist()
    return (
        f"First-frame Gaussians ({source}) followed by Gaussian-NND. Of {n['gaussians']:,} "
        f"Gaussians {n['foreground']:,} are the foreground, {n['ghosts']:,} ghosts are left out "
        f"and {n['static']:,} stay as they are (paper: 62,710 = 347 + 273 + 62,090). The object "
        f"moves by ({dx:+.2f}, {dy:+.2f}, {dz:+.2f}) in two seconds; asked for was +0.72 in x. "
        "The lower row shows what the orange outlines hold, larger, from the same fixed camera."
    )


def _videos_caption(shown: Sequence[str], missing: Sequence[str]) -> str:
    text = ""
    if shown:
        text = (
            " Bottom: first and final frames of the public videos given; the paper's are of the "
            f'prompt "{PROMPT}" NewtonGS is not among them: it is given a scene and a state.'
        )
    return f"{text} {videos_wanted(missing)}" if missing else text


def videos_wanted(missing: Sequence[str] | None = None) -> str:
    """Which public videos to provide for the comparison, and where; by default all of them."""
    missing = [f"{stem}.mp4" for stem in RELEASED] if missing is None else missing
    return (
        f"Public videos not given: {', '.join(missing)}; put them into a folder, or into "
        f"{VIDEO_FOLDER}/ in it, and name that folder with --clips."
    )


# --- a stand-in for the paper's bowling alley ----------------------------------------------------

STAND_IN_SCALE = 0.3  # scene units of LGM's cube per unit of our bowling scene
STAND_IN_MIDDLE = (-0.45, 1.15, 0.0)  # point in the middle of the picture
GHOST_SIZE, GHOST_BEHIND = 0.7, 0.10  # relative size, and additional distance in scene units
STAND_IN_COLOR = DUSK


def stand_in() -> tuple[Tensor, Region]:
    """Our bowling scene in LGM's layout ``(N, 14)``, with a ghost of the ball, and its region.

    The paper's asset is not public. This one has the same parts: a ball, lane, pins and walls, and
    behind the ball a smaller second copy of it, which must be removed.
    """
    scene = bowling()
    everything = _into_cube(to_lgm(scene))
    ball = everything[scene.ids == 0]
    region = _region_of(ball[:, :3])
    return torch.cat([everything, _ghost_of(ball)]), region


def _ghost_of(ball: Tensor) -> Tensor:
    """A smaller, thinned copy of LGM rows ``(n, 14)``, right behind them as seen by the camera."""
    centre = (ball[:, :3].amin(0) + ball[:, :3].amax(0)) / 2
    ray = centre - centre.new_tensor([0.0, 0.0, LGM_RADIUS])
    ghost = ball[::3].clone()
    ghost[:, :3] = centre + GHOST_SIZE * (ghost[:, :3] - centre) + GHOST_BEHIND * ray / ray.norm()
    ghost[:, 4:7] *= GHOST_SIZE
    return ghost


def _region_of(means: Tensor) -> Region:
    """The circle and depth interval that contain all ``means (n, 3)`` in LGM's view."""
    pixels, depth = lgm_camera().project(means)
    middle = (pixels.amin(0) + pixels.amax(0)) / 2
    radius = float((pixels - middle).norm(dim=-1).amax())
    near, far = float(depth.amin()), float(depth.amax())
    u, v = middle.tolist()
    # Only right behind the object; the paper's rule would cut through the far wall.
    return Region((u, v, 1.01 * radius), (near, far), ghost_depth=(near, far + (far - near)))


def _into_cube(x: Tensor) -> Tensor:
    """LGM rows ``(N, 14)`` of our bowling scene, smaller and around the origin."""
    out = x.clone()
    out[:, :3] = STAND_IN_SCALE * (x[:, :3] - x.new_tensor(STAND_IN_MIDDLE))
    out[:, 4:7] *= STAND_IN_SCALE
    return out


def write_stand_in(path: Path) -> Region:
    """Write :func:`stand_in` as an LGM .npy; returns its region."""
    tensor, region = stand_in()
    if path.suffix != ".npy":
        raise InputError(f"cannot write {path}: the name must end in .npy")
    write_atomically(path, lambda f: np.save(f, tensor.numpy(), allow_pickle=False))
    return region
