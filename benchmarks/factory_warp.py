"""How well a film's flow carries one picture to the next, and what keeps it from doing better.

Frame t + 1 is fetched along the flow and compared with frame t, view by view, in dB. The pictures
are those that are drawn, before an mp4 loses anything; the flow is the stored one. A cubic spline
interpolates. First on all object pixels that the labels call visible, which is what the line of
35 dB asks for. Then:

- mp4, mp4_full: the same pixels of the decoded film, by the spec's rgb.
- mixed: on those too of which the next frame shows more or less, a tenth of the pixel's light or
  more, because something else covers them in part. "asked, %" and "inside, %" are parts of these.
- colours: no flow at all, on the pixels asked for: this frame against itself in the colours that
  its Gaussians have in the next one. Colours hang on the side from which things are seen; what
  changes so no motion carries.
- inside: where an object has 99 percent of a pixel's light in both frames, by the stored shares.

And on the pixels inside, without one cause after the other:

- shadow: without the contact shadows that move over things.
- side: with colours that are the same from all sides, spherical harmonics of degree 0.
- grid: sampled four times as densely and not rounded to bytes. The samples lie between those of the
  picture, drawn with the same low-pass, so that this is the same picture known better.
- order: frame t + 1 drawn in the order, front to back, of frame t. Gaussians are sorted by their
  centres; when a thing turns, those that overlap change places, and the colour between them jumps.
- none: without all four.

Run with: python benchmarks/factory_warp.py [--renderer ewa] [--without-gloss]
[--scenes bowling ...] [--every 4] [--quick] [--json FILE]. steady has no order to keep: with it,
order is the same as inside. --quick leaves the causes out.

With --depths, in place of all this: the flow of points at other depths, on the pixels inside. At
the mean depth of the light; then at that of the labels, and so many percent of the object's size
before (-) or behind it; its size is half its largest extent. With --shares: the pixels whose share
of the light changes by less than this.

The rules of the labels were chosen with these figures for film 0 in sight; --film 1 was not.

With --made 83 98 ..., in place of one film of each scene: these films of the spec as the factory
makes them, with --seed and --size, and of their views those that have less than is asked for.
factory_films.py names them.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from scipy.ndimage import map_coordinates

from newtongs.base.process import sharing
from newtongs.base.types import Array
from newtongs.factory import encode
from newtongs.factory.casts import prepare_casts, without_gloss
from newtongs.factory.draws import draw
from newtongs.factory.film import make_film
from newtongs.factory.labels import SAME_SHARE, ViewLabels, each, label_view
from newtongs.factory.pool import prepared_or_why
from newtongs.factory.renderers import pictures_by
from newtongs.factory.sample import Clock, Load, cameras_of, make_sample
from newtongs.factory.scenes import SceneSource, find_scenes
from newtongs.factory.spec import CameraPath, Renderer, Rgb, Spec, load_spec
from newtongs.render import ewa, steady
from newtongs.render.ewa_project import Layer
from newtongs.render.labels import Labels
from newtongs.render.splat import make_splat
from newtongs.render.video import film_library
from newtongs.scene import sh as harmonics
from newtongs.scene.animation import Animation
from newtongs.scene.cameras import Camera
from newtongs.scene.frames import Frame

PATHS: tuple[CameraPath, ...] = ("still", "follow")
FRAMES = 25
ASKED = 35.0  # dB
SURE = 253  # of 255, or 99 percent of a pixel's light, of what counts as inside an object
SAME = 100.0  # dB
DENSER = 4  # samples a pixel and direction, without the grid


@dataclass(frozen=True)
class Causes:
    """What may make two pictures differ though the flow is right."""

    shadow: bool = True
    side: bool = True
    grid: bool = True
    order: bool = True


VARIANTS = {
    "shadow": Causes(shadow=False),
    "side": Causes(side=False),
    "grid": Causes(grid=False),
    "order": Causes(order=False),
    "none": Causes(False, False, False, False),
}

ABOUT = ("flow, px", "asked, %", "inside, %")
NO_WORDS = ("",) * len(ABOUT)
CODED: tuple[Rgb, ...] = ("mp4", "mp4_full")
COLUMNS = ("asked", *CODED, "mixed", "colours", "inside", *VARIANTS)
# Whether at the depth of the light, and how far behind that depth, in sizes of the object.
DEPTHS = {"light": (True, 0.0)} | {
    f"{100 * behind:+.0f} %": (False, behind)
    for behind in (-0.04, -0.02, -0.01, 0, 0.01, 0.02, 0.04)
}

SHARES = {f"{share:g}": share for share in (0.05, SAME_SHARE, 0.2, 0.3)} | {"any": np.inf}


class Seen(NamedTuple):
    """A film from one side."""

    animation: Animation
    given: Camera | list[Camera]
    cameras: list[Camera]
    color: tuple[float, float, float]
    labels: ViewLabels
    mixed: Array
    """``visible`` however much of a point the next frame shows."""
    renderer: Renderer
    drawn: "Recorded"


class Matches(NamedTuple):
    """Pixels of a frame and where they go in the next one, in rows and columns ``(n,)``."""

    row: Array
    column: Array
    to_row: Array
    to_column: Array

    def where(self, kept: Array) -> "Matches":
        """Some of them."""
        return Matches(*(x[kept] for x in self))

    @property
    def lengths(self) -> Array:
        """Pixels ``(n,)`` that each goes."""
        return np.hypot(self.to_row - self.row, self.to_column - self.column)


# --- films ----------------------------------------------------------------------------------------


def films(spec: Spec, home: Path, names: list[str], number: int) -> Iterator[tuple[str, Seen]]:
    """One film of each scene, by its number, from two sides."""
    for source in find_scenes(spec, home):
        if names and source.id not in names:
            continue
        one = replace(spec, scenes=(source.source,), splits={"train": 1.0}, frames=FRAMES)
        one = replace(one, objects=replace(one.objects, casts=1))
        drawn = draw(one, [source], number, 0)
        cast = drawn.cast_of(prepare_casts(one, source).casts[drawn.kind])
        animation = make_film(cast, drawn, one).animation
        for path, view in zip(PATHS, drawn.views, strict=True):
            cameras = cameras_of(animation, replace(view, path=path), one)
            yield f"{source.id}, {path}", seen(animation, cameras, source, spec.renderer)


def loader(spec: Spec, scenes: list[SceneSource]) -> Load:
    """What prepares each scene once."""
    return lru_cache(lambda name: prepared_or_why(spec, next(x for x in scenes if x.id == name)))


def made(spec: Spec, home: Path, numbers: list[int], every: int) -> Iterator[tuple[str, Seen]]:
    """Films as the factory makes them, from those sides from which less than asked is reached."""
    scenes = find_scenes(spec, home)
    load = loader(spec, scenes)
    for number in numbers:
        sample = make_sample(spec, scenes, number, load, Clock(), keep=True)
        if not sample.row["made"]:
            continue
        drawn = draw(spec, scenes, number, sample.row["attempt"])
        scene = load(drawn.scene)
        assert not isinstance(scene, str)  # or the film would not have been made
        cast = drawn.cast_of(scene.casts[drawn.kind])
        animation = make_film(cast, drawn, spec).animation
        for i, (view, labels) in enumerate(zip(drawn.views, sample.views, strict=True)):
            if asked_of(labels, every) < ASKED:
                cameras = cameras_of(animation, view, spec)
                name = f"{number}, {drawn.scene}, {i} {view.path}"
                yield name, seen(animation, cameras, scene.source, spec.renderer)


def asked_of(labels: ViewLabels, every: int) -> float:
    """PSNR of the pixels asked for, as drawn; infinite if there are none."""
    tally = Tally()
    for t in range(1 % every, len(labels.flow), every):
        matches = matches_of(labels, labels.visible, t)
        tally.add("asked", off_in(labels.rgb[t : t + 2] / 255.0, 0, matches))
    return tally.decibels().get("asked", np.inf)


def size_of(animation: Animation, i: int) -> float:
    """Half the largest extent of an object."""
    means = animation.scene.means[animation.scene.ids == i]
    return float((means.amax(0) - means.amin(0)).max()) / 2


class Recorded:
    """A film that is drawn once and may be labelled again, with another depth of its flow."""

    def __init__(self, renderer: Renderer, animation: Animation) -> None:
        self.by, self.frames = pictures_by(renderer), list[tuple[Any, Labels]]()
        self.sizes = np.array([size_of(animation, i) for i in sorted(animation.states)] + [0, 0])
        self.light, self.behind = False, 0.0

    def __call__(self, *given: Any) -> Iterator[tuple[Any, Labels]]:
        """As the renderer's own pictures with labels."""
        self.frames = self.frames or [*self.by(*given)]
        for picture, labels in self.frames:
            depth = labels.depth if self.light else labels.flow_depth
            size = self.sizes[labels.slot]  # of what stands still, or is nothing: 0
            yield picture, labels._replace(flow_depth=(depth + self.behind * size).astype("f4"))


def seen(
    animation: Animation, cameras: Camera | list[Camera], source: SceneSource, renderer: Renderer
) -> Seen:
    """Draw and label."""
    drawn = Recorded(renderer, animation)
    given = animation, cameras, source.color, drawn
    labels, mixed = label_view(*given), label_view(*given, same_share=np.inf).visible
    views = each(cameras, len(animation))
    return Seen(animation, cameras, views, source.color, labels, mixed, renderer, drawn)


# --- pictures -------------------------------------------------------------------------------------


def pairs(animation: Animation, every: int) -> Iterator[tuple[int, Frame, Frame]]:
    """Frames ``t`` and ``t + 1``, for some ``t``."""
    kept: Frame | None = None
    for t, frame in enumerate(animation.frames()):
        if kept is not None:
            yield t - 1, kept, frame
        kept = None
        if t % every == 1 % every:  # the buffers are overwritten by the next frame
            kept = frame._replace(
                means=frame.means.clone(), covariances=frame.covariances.clone(),
                sh=frame.sh.clone(),
            )  # fmt: skip


@torch.no_grad()
def colors_of(frame: Frame, camera: Camera) -> torch.Tensor:
    """What the Gaussians' spherical harmonics say to a camera ``(N, 3)``."""
    eye = -camera.w2c[:3, :3].T @ camera.w2c[:3, 3]
    towards = torch.nn.functional.normalize(frame.means - eye.to(frame.means), dim=-1)
    functions = harmonics.basis(towards, int(frame.sh.shape[1] ** 0.5) - 1)
    return (0.5 + torch.einsum("nk,nkc->nc", functions, frame.sh)).clamp_min(0)


@torch.no_grad()
def picture(
    view: Seen,
    frame: Frame,
    camera: Camera,
    causes: Causes,
    order: Any = None,
    colors: torch.Tensor | None = None,
) -> Array:
    """Colours ``(H, W, 3)``; ``order (N,)`` sorts the Gaussians in place of their depth.

    ``colors (N, 3)`` are in place of their own.
    """
    scene, sh = view.animation.scene, frame.sh
    if not causes.side:
        sh, scene = sh[:, :1].contiguous(), without_gloss(scene)
    splat = make_splat(
        scene, camera, view.color, frame.means, frame.covariances, sh, opacities=frame.opacities,
        shade=frame.shade if causes.shadow else None, colors=colors,
    )  # fmt: skip
    if view.renderer == "steady":  # which has no order that could be kept
        return steady.draw(splat).color.double().numpy()
    with sharing() as share:
        layer = ewa.projected(ewa.splats_of(splat), ewa.view_of(camera), share)
        if order is not None:
            at = np.argsort(order[layer.rows], kind="stable")
            layer = Layer(layer.records[at], layer.rows[at])
        drawn = ewa.draw_layer(layer, camera, ewa.array(splat.background), share)
    return drawn.pixels[..., :3].astype(float)


def between(view: Seen, frame: Frame, camera: Camera, causes: Causes, order: Any) -> Array:
    """A picture ``(nH, nW, 3)`` with samples between the pixels, which shifted cameras take."""
    n = DENSER
    out = np.empty((n * camera.height, n * camera.width, 3))
    for down in range(n):
        for right in range(n):
            K = camera.K.clone()
            K[:2, 2] -= K.new_tensor([right, down]) / n
            out[down::n, right::n] = picture(view, frame, replace(camera, K=K), causes, order)
    return out


def fetched(image: Array, matches: Matches, denser: int = 1) -> Array:
    """Colours ``(n, 3)`` of the next picture where pixels go."""
    at = [denser * matches.to_row, denser * matches.to_column]
    planes = (map_coordinates(image[..., c], at, order=3, mode="nearest") for c in range(3))
    return np.stack([*planes], -1)


def decoded(frames: Array, fps: float, kind: Rgb, folder: Path) -> Array:
    """Frames ``(T, H, W, 3)`` as they come out of the mp4 that a sample holds."""
    path = folder / "film.mp4"
    path.write_bytes(encode.rgb(frames, fps, kind)[1])
    reader = film_library("imageio_ffmpeg").read_frames(str(path))
    next(reader)  # about the film
    return np.stack([np.frombuffer(x, np.uint8).reshape(frames.shape[1:]) for x in reader])


# --- the comparison -------------------------------------------------------------------------------


def matches_of(labels: ViewLabels, visible: Array, t: int) -> Matches:
    """Object pixels that the next frame shows, by the stored labels."""
    row, column = np.nonzero((labels.ids[t] > 0) & visible[t])
    right, down = labels.flow[t][row, column].astype(float).T
    return Matches(row, column, row + down, column + right)


def inside(labels: ViewLabels, matches: Matches, t: int) -> Array:
    """Whether the pixel, and all four around where it goes, are one object's to 99 percent."""
    height, width = labels.ids.shape[1:]
    here = t, matches.row, matches.column
    out = labels.share[here] >= SURE
    for down in (0, 1):
        for right in (0, 1):
            row = (np.floor(matches.to_row).astype(int) + down).clip(0, height - 1)
            column = (np.floor(matches.to_column).astype(int) + right).clip(0, width - 1)
            there = t + 1, row, column
            out &= (labels.ids[there] == labels.ids[here]) & (labels.share[there] >= SURE)
    return out


def off_in(film: Array, t: int, matches: Matches) -> Array:
    """Differences ``(n, 3)`` of the next picture of a film, warped, and this one."""
    return fetched(film[t + 1], matches) - film[t][matches.row, matches.column]


def off_without(
    view: Seen, t: int, here: Frame, there: Frame, matches: Matches, causes: Causes
) -> Array:
    """Differences ``(n, 3)`` of the warped picture and the true one, drawn without some causes."""
    camera, after = view.cameras[t], view.cameras[t + 1]
    order = None if causes.order else here.means.double().numpy() @ camera.w2c[2, :3].numpy()
    if causes.grid:
        ahead = np.rint(255 * picture(view, there, after, causes, order).clip(0, 1)) / 255
        now = np.rint(255 * picture(view, here, camera, causes).clip(0, 1)) / 255
        return fetched(ahead, matches) - now[matches.row, matches.column]
    ahead = between(view, there, after, causes, order).clip(0, 1)
    now = picture(view, here, camera, causes).clip(0, 1)
    return fetched(ahead, matches, DENSER) - now[matches.row, matches.column]


def off_by_colors(view: Seen, t: int, here: Frame, there: Frame, matches: Matches) -> Array:
    """Differences ``(n, 3)`` of this picture in the next one's colours and in its own."""
    camera, causes = view.cameras[t], Causes()
    drawn = (
        picture(view, here, camera, causes, colors=colors_of(frame, at))
        for frame, at in ((there, view.cameras[t + 1]), (here, camera))
    )
    after, now = (x.clip(0, 1)[matches.row, matches.column] for x in drawn)
    return after - now


class Tally:
    """Squares of differences, summed by name."""

    def __init__(self) -> None:
        self.sums: dict[str, list[float]] = {}

    def add(self, name: str, off: Array) -> None:
        """Differences of any shape."""
        total = self.sums.setdefault(name, [0.0, 0.0])
        total[0] += float((off**2).sum())
        total[1] += off.size

    def decibels(self) -> dict[str, float]:
        """PSNR by name."""
        return {k: float(10 * np.log10(n / max(s, 1e-12))) for k, (s, n) in self.sums.items() if n}


def breakdown(view: Seen, every: int, folder: Path, causes_too: bool) -> dict[str, float]:
    """PSNR of one view, by what is left out; and how far and how many its pixels go."""
    tally, length, total, kept, more = Tally(), 0.0, 0, 0, 0
    drawn = view.labels.rgb / 255.0
    coded: dict[Rgb, Array] = {
        kind: decoded(view.labels.rgb, view.animation.fps, kind, folder) / 255.0 for kind in CODED
    }
    for t, here, there in pairs(view.animation, every):
        matches = matches_of(view.labels, view.labels.visible, t)
        mixed = matches_of(view.labels, view.mixed, t)
        tally.add("mixed", off_in(drawn, t, mixed))
        more += len(mixed.row)
        if not len(matches.row):
            continue
        within = matches.where(inside(view.labels, matches, t))
        tally.add("asked", off_in(drawn, t, matches))
        for kind, film in coded.items():
            tally.add(kind, off_in(film, t, matches))
        tally.add("colours", off_by_colors(view, t, here, there, matches))
        tally.add("inside", off_in(drawn, t, within))
        for name, causes in VARIANTS.items() if causes_too else ():
            tally.add(name, off_without(view, t, here, there, within, causes))
        total, kept = total + len(matches.row), kept + len(within.row)
        length += matches.lengths.sum()
    about = length / max(total, 1), 100 * total / max(more, 1), 100 * kept / max(more, 1)
    return tally.decibels() | dict(zip(ABOUT, about, strict=True)) | {"pixels": more}


def by_depth(view: Seen, every: int) -> dict[str, float]:
    """PSNR inside, by the depth at which the flow is taken."""
    tally, drawn = Tally(), view.labels.rgb / 255.0
    for name, (light, behind) in DEPTHS.items():
        view.drawn.light, view.drawn.behind = light, behind
        labels = label_view(view.animation, view.given, view.color, view.drawn)
        for t in range(1 % every, len(drawn) - 1, every):
            matches = matches_of(view.labels, view.labels.visible, t)
            matches = matches.where(inside(view.labels, matches, t))
            right, down = labels.flow[t][matches.row, matches.column].astype(float).T
            to = matches._replace(to_row=matches.row + down, to_column=matches.column + right)
            tally.add(name, off_in(drawn, t, to))
    return tally.decibels()


def by_share(view: Seen, every: int) -> dict[str, float]:
    """PSNR of what is visible, by how much a point's share of the light may change."""
    tally, drawn = Tally(), view.labels.rgb / 255.0
    for name, same_share in SHARES.items():
        given = view.animation, view.given, view.color, view.drawn
        visible = label_view(*given, same_share=same_share).visible
        for t in range(1 % every, len(drawn) - 1, every):
            tally.add(name, off_in(drawn, t, matches_of(view.labels, visible, t)))
    return tally.decibels()


def shown(rows: dict[str, dict[str, float]], names: tuple[str, ...]) -> Table:
    """A row a view."""
    table = Table(title=f"dB of a frame warped by the flow; asked: {ASKED:g}")
    for name in ("view", *ABOUT, *names):
        table.add_column(name, justify="left" if name == "view" else "right")
    for view, row in rows.items():
        cells = (shown_decibels(row.get(name)) for name in names)
        about = (f"{row[name]:.1f}" if name in row else "" for name in ABOUT)
        table.add_row(view, *about, *cells)
    reached = (str(sum(r.get(name, 0) >= ASKED for r in rows.values())) for name in names)
    table.add_row(f"of {len(rows)}, reached by", *NO_WORDS, *reached)
    table.add_row("all together", *NO_WORDS, *(together(rows, name) for name in names))
    return table


def shown_decibels(value: float | None) -> str:
    """One number; a difference of rounding alone is none."""
    if value is None:
        return "-"
    return f"{value:.1f}" if value < SAME else "same"


def together(rows: dict[str, dict[str, float]], name: str) -> str:
    """Decibels of the mean squared error of all views, each counting alike."""
    errors = [10 ** (-row[name] / 10) for row in rows.values() if name in row]
    return shown_decibels(float(-10 * np.log10(np.mean(errors))) if errors else None)


def chosen_size(spec: Spec, seed: int | None, size: int | None) -> Spec:
    """With another seed or size, if they are given."""
    spec = spec if seed is None else replace(spec, seed=seed)
    return spec if size is None else replace(spec, size=(size, size))


def measured(view: Seen, args: argparse.Namespace, folder: Path) -> dict[str, float]:
    """What the options ask for."""
    if args.depths:
        return by_depth(view, args.every)
    if args.shares:
        return by_share(view, args.every)
    return breakdown(view, args.every, folder, not args.quick)


def columns_of(args: argparse.Namespace) -> tuple[str, ...]:
    """Of the table."""
    return tuple(DEPTHS if args.depths else SHARES if args.shares else COLUMNS)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", default="small")
    parser.add_argument("--renderer", default="steady", choices=["steady", "ewa"])
    parser.add_argument("--without-gloss", action="store_true", help="gloss = false in the spec")
    parser.add_argument("--scenes", nargs="*", default=[], help="ids; default: all of the spec")
    parser.add_argument("--quick", action="store_true", help="nothing drawn without some cause")
    parser.add_argument("--depths", action="store_true", help="flow at other depths, see above")
    parser.add_argument("--shares", action="store_true", help="other rules of visible, see above")
    parser.add_argument("--film", type=int, default=0, help="its number")
    parser.add_argument("--made", type=int, nargs="*", help="films of the factory, see above")
    parser.add_argument("--seed", type=int, help="default: the spec's")
    parser.add_argument("--size", type=int, help="pixels a side; default: the spec's")
    parser.add_argument("--every", type=int, default=4, help="of how many frames one is compared")
    parser.add_argument("--json", type=Path, help="write the figures there")
    args = parser.parse_args()
    torch.set_num_threads(1)
    spec, home = load_spec(args.spec, renderer=args.renderer, gloss=not args.without_gloss)
    spec = chosen_size(spec, args.seed, args.size)
    rows, console = {}, Console()
    with tempfile.TemporaryDirectory() as folder:
        chosen = films(spec, home, args.scenes, args.film)
        if args.made:
            chosen = made(spec, home, args.made, args.every)
        for name, view in chosen:
            rows[name] = measured(view, args, Path(folder))
            console.print(name, {k: round(x, 2) for k, x in rows[name].items()})
    console.print(shown(rows, columns_of(args)))
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
