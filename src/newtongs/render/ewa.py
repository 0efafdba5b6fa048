"""Gaussians with their true covariance on the CPU, by the method and the numbers of gsplat.

Each Gaussian is projected by the Jacobian of the camera at its centre (EWA), sorted once by depth,
binned into tiles of 16 x 16 pixels and blended front to back. Strips of tiles are shared among
threads. ``tests/render_reference.py`` says the same without tiles, slowly, in float64.

In a film with a fixed camera, static Gaussians are projected, sorted and drawn once. A frame starts
as their picture. Moving Gaussians are projected in each frame, and only the tiles that they touch,
or in which a static one lies in a shadow, are drawn again: there both lists are merged by depth, so
that every pixel is blended as if all had been sorted together. The pictures are those of
:func:`newtongs.render.render`, bit for bit.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..base.jit import compiled
from ..base.process import Share, give_back_freed, sharing
from ..base.types import Array
from ..scene import Camera, GaussianScene
from ..scene.frames import AnimatedScene, Frame
from . import ewa_project, ewa_tiles
from .ewa_project import BLUE, RECORD, RED, Indices, Layer, Pinhole, Splats, depth_slopes
from .labels import Labelling, Labels
from .splat import Rendering, Splat, make_splat, splat_of_frame

CHUNK = 4096  # Gaussians projected at a time
COLOR = slice(RED, BLUE + 1)
NO_ROWS, NO_FACTORS = np.empty(0, np.int32), np.empty(0, np.float32)


@torch.no_grad()
def draw(splat: Splat) -> Rendering:
    """The picture, on the device of the means."""
    return draw_counting(splat)[0]


@torch.no_grad()
def draw_counting(splat: Splat) -> tuple[Rendering, int, int]:
    """The picture and its cost: pairs of a tile and a Gaussian drawn in it, and blended pixels."""
    with sharing() as share:
        layer = projected(splats_of(splat), view_of(splat.camera), share)
        drawn = draw_layer(layer, splat.camera, array(splat.background), share)
    picture = rendering(drawn.pixels, splat.means.device)
    return picture, sum(len(x) for _, x in drawn.lists), drawn.blended


class Drawn(NamedTuple):
    """A picture, and which Gaussians made it."""

    pixels: Array
    """``(H, W, 5)``: red, green, blue, depth, alpha."""
    lists: list[tuple[Any, Indices]]
    """For each strip where its tiles' lists start, and the lists, see ``ewa_tiles.draw_strip``."""
    blended: int
    """Number of blended pixels, summed over Gaussians."""


def projected(splats: Splats, view: Pinhole, share: Share) -> Layer:
    """The Gaussians that a camera sees, near to far."""
    n = len(splats.means)
    records, seen = np.empty((n, RECORD), np.float32), np.empty(n, np.bool_)
    share(
        lambda i: ewa_project.project(splats, view, i, min(i + CHUNK, n), records, seen),
        range(0, n, CHUNK),
    )
    rows = ewa_tiles.by_depth(records, seen)
    return Layer(records[: len(rows)], rows)


def draw_layer(
    layer: Layer,
    camera: Camera,
    background: Array,
    share: Share,
    labelling: Labelling | None = None,
) -> Drawn:
    """All strips of tiles, and their labels if there is a ``labelling``."""
    out = np.empty((camera.height, camera.width, 5), np.float32)
    strips = range(-(-camera.height // ewa_tiles.TILE))
    start, members = ewa_tiles.bin_strips(layer.records, len(strips))
    done = share(
        lambda s: ewa_tiles.draw_strip(
            layer.records, members[start[s] : start[s + 1]], s, background, out, labelling
        ),
        strips,
    )
    return Drawn(out, [(at, its) for at, its, _ in done], sum(blended for *_, blended in done))


def rendering(pixels: Array, device: torch.device | str = "cpu") -> Rendering:
    """Pixels ``(H, W, 5)`` as a picture."""
    x = torch.from_numpy(pixels).to(device)
    return Rendering(x[..., :3], x[..., 3], x[..., 4])


def splats_of(splat: Splat) -> Splats:
    """Arrays for compiled code; those that are replaced by another are empty."""
    scene, none = splat.scene, np.empty((0, 6), np.float32)
    return Splats(
        means=array(splat.means),
        quats=array(scene.quats),
        scales=array(scene.scales),
        covariances=none if splat.covariances is None else array(splat.covariances),
        opacities=array(splat.opacities),
        sh=array(splat.sh if splat.colors is None else splat.sh[:0]),
        colors=array(scene.means[:0] if splat.colors is None else splat.colors),
        shade=array(scene.means[:0, 0] if splat.shade is None else splat.shade),
    )


def view_of(camera: Camera) -> Pinhole:
    """A camera for compiled code."""
    K = camera.K.double()
    return Pinhole(
        w2c=camera.w2c[:3].double().cpu().contiguous().numpy(),
        position=torch.linalg.inv(camera.w2c.double())[:3, 3].cpu().contiguous().numpy(),
        fx=float(K[0, 0]),
        fy=float(K[1, 1]),
        cx=float(K[0, 2]),
        cy=float(K[1, 2]),
        width=camera.width,
        height=camera.height,
    )


def array(x: Tensor) -> Array:
    """A contiguous float32 array on the CPU, without a copy where it is one already."""
    return x.detach().to("cpu", torch.float32).contiguous().numpy()


# --- films ----------------------------------------------------------------------------------------


def pictures(scenes: AnimatedScene, camera: Camera, background: Any) -> Iterator[Rendering]:
    """Frame after frame; each picture is the caller's to keep."""
    with sharing() as share:
        film = EwaFilm(scenes, camera, background, share)
        give_back_freed()  # of a large scene, before as much is taken for the moving part
        for t, frame in enumerate(film.moving):
            yield rendering(film.draw(t, frame))


def labelled(
    scenes: AnimatedScene,
    cameras: Camera | Sequence[Camera],
    background: Any,
    slots: Any,
    objects: int,
) -> Iterator[tuple[Rendering, Labels]]:
    """Frame after frame with its labels, one camera for all or one a frame.

    ``slots (N,)`` int16 has the slot of each Gaussian: 0 to ``objects - 1``, or ``objects`` if it
    belongs to the rest.
    """
    with sharing() as share:
        if isinstance(cameras, Camera):
            film = EwaFilm(scenes, cameras, background, share, slots, objects)
            for t, frame in enumerate(film.moving):
                picture = rendering(film.draw(t, frame))
                yield picture, film.labels
        else:
            for frame, camera in zip(scenes, cameras, strict=True):
                yield _drawn_whole(scenes, frame, camera, background, share, slots, objects)


def labels_alone(
    scenes: AnimatedScene,
    cameras: Camera | Sequence[Camera],
    background: Any,
    slots: Any,
    objects: int,
) -> Iterator[Labels]:
    """The labels of :func:`labelled`, bit for bit, for pictures that something else draws.

    With a fixed camera only the tiles that a moving Gaussian touches are drawn.
    """
    if isinstance(cameras, Camera):
        with sharing() as share:
            film = EwaFilm(scenes, cameras, background, share, slots, objects)
            for frame in film.moving:
                yield film.label(frame)
    else:
        everywhere = labelled(scenes, cameras, background, slots, objects)
        yield from (labels for _, labels in everywhere)


@torch.no_grad()
def visible_slots(scene: GaussianScene, camera: Camera, slots: Any, objects: int) -> Array:
    """The slot ``(H, W)`` that each pixel shows, see :class:`Labels`; of a scene at rest."""
    splat, labels = make_splat(scene, camera, (0.0, 0.0, 0.0)), Labels.empty(camera)
    with sharing() as share:
        layer = projected(splats_of(splat), view_of(camera), share)
        flat = np.zeros((len(layer.rows), 2), np.float32)  # depths are not asked for
        labelling = Labelling(slots[layer.rows], flat, objects, *labels)
        draw_layer(layer, camera, array(splat.background), share, labelling)
    return np.asarray(labels.slot)


@torch.no_grad()
def _drawn_whole(
    scenes: AnimatedScene,
    frame: Frame,
    camera: Camera,
    background: Any,
    share: Share,
    slots: Any,
    objects: int,
) -> tuple[Rendering, Labels]:
    """A frame from a moving camera: nothing can be reused."""
    splat = splat_of_frame(scenes.scene, frame, camera, background)
    view, labels = view_of(camera), Labels.empty(camera)
    layer = projected(splats_of(splat), view, share)
    slopes = _slopes(frame.means, frame.covariances, layer.rows, view)
    labelling = Labelling(slots[layer.rows], slopes, objects, *labels)
    drawn = draw_layer(layer, camera, array(splat.background), share, labelling)
    return rendering(drawn.pixels), labels


def _slopes(means: Tensor, covariances: Tensor, rows: Indices, view: Pinhole) -> Array:
    """See :func:`newtongs.render.ewa_project.depth_slopes`."""
    slopes = np.empty((len(rows), 2), np.float32)
    depth_slopes(array(means), array(covariances), rows, view, slopes)
    return slopes


class EwaFilm:
    """Draws frames from a fixed camera, and their labels if ``slots`` are given.

    The picture of the static Gaussians is kept. In each frame only the tiles that a moving Gaussian
    touches are drawn again.
    """

    @torch.no_grad()
    def __init__(
        self,
        scenes: AnimatedScene,
        camera: Camera,
        background: Any,
        share: Share,
        slots: Any = None,
        objects: int = 0,
    ) -> None:
        rows, self.moving = scenes.moving()
        self.moving_rows, self.shade = rows.int().numpy(), scenes.shade
        self.share, self.view = share, view_of(camera)
        covariances = scenes.covariances()
        splat = make_splat(
            scenes.scene, camera, background, covariances=covariances,
            opacities=scenes.scene.opacities.index_fill(0, rows, 0),
        )  # fmt: skip
        self.background = array(splat.background)
        layer = projected(splats_of(splat), self.view, share)
        self.labelling: Labelling | None = None
        if slots is not None:
            slopes = _slopes(scenes.scene.means, covariances, layer.rows, self.view)
            self.labelling = Labelling(slots[layer.rows], slopes, objects, *Labels.empty(camera))
        drawn = draw_layer(layer, camera, self.background, share, self.labelling)
        used, self.lists = needed(len(layer.rows), drawn.lists)
        self.pixels, self.still = drawn.pixels, int(used.sum())
        # Records of the static Gaussians, followed by room for the moving ones.
        self.records = np.concatenate(
            [layer.records[used], np.empty((len(rows), RECORD), np.float32)]
        )
        self.rows = np.concatenate([layer.rows[used], self.moving_rows])
        self.colors = self.records[: self.still, COLOR].copy()
        self.place = np.full(len(scenes.scene), -1, np.int32)  # of each row among the static ones
        self.place[self.rows[: self.still]] = np.arange(self.still, dtype=np.int32)
        if self.labelling is not None:
            self.slots = slots
            slopes = np.concatenate([slopes[used], np.zeros((len(rows), 2), np.float32)])
            self.labelling = self.labelling._replace(slots=slots[self.rows], slopes=slopes)
            self.labels = self.still_labels = Labels(*self.labelling[-4:])

    @torch.no_grad()
    def draw(self, t: int, frame: Frame) -> Array:
        """Pixels ``(H, W, 5)`` of frame ``t``, in which the moving rows are as in ``frame``."""
        rows, factors = self._shadow(t)
        changed, out = np.zeros(self.still, np.bool_), self.pixels.copy()
        _shade(self.records, self.colors, self.place, rows, factors, changed)
        self._redraw(self._project(frame, rows, factors), changed, out)
        _shade(self.records, self.colors, self.place, rows, np.ones_like(factors), changed)
        return out

    @torch.no_grad()
    def label(self, frame: Frame) -> Labels:
        """The labels of a frame whose picture is not needed; shadows change only colours."""
        moving = self._project(frame, NO_ROWS, NO_FACTORS)
        self._redraw(moving, np.zeros(self.still, np.bool_), self.pixels)
        return self.labels

    def _shadow(self, t: int) -> tuple[Indices, Array]:
        """Rows in shadows, and the factors on their colours."""
        if self.shade is None:
            return NO_ROWS, NO_FACTORS
        rows, factors = self.shade(t)
        return rows.int().cpu().numpy(), array(factors)

    def _project(self, frame: Frame, shaded: Indices, factors: Array) -> int:
        """Write the moving records after the static ones, near to far; returns their number."""
        shade = np.ones(len(self.moving_rows), np.float32)
        if len(shade):
            at = np.searchsorted(self.moving_rows, shaded).clip(max=len(shade) - 1)
            its = self.moving_rows[at] == shaded
            shade[at[its]] = factors[its]
        none = np.empty((0, 3), np.float32)
        splats = Splats(
            means=array(frame.means), quats=none, scales=none,
            covariances=array(frame.covariances), opacities=array(frame.opacities),
            sh=array(frame.sh), colors=none, shade=shade,
        )  # fmt: skip
        layer = projected(splats, self.view, self.share)
        behind = slice(self.still, self.still + len(layer.rows))
        self.records[behind], self.rows[behind] = layer.records, self.moving_rows[layer.rows]
        if self.labelling is not None:
            self.labelling.slots[behind] = self.slots[self.rows[behind]]
            its = _slopes(frame.means, frame.covariances, layer.rows, self.view)
            self.labelling.slopes[behind] = its
        return len(layer.rows)

    def _redraw(self, moving: int, changed: Any, out: Array) -> None:
        """Draw the moving and the ``changed`` records into the static picture ``out``."""
        strips = range(len(self.lists))
        behind = self.records[self.still : self.still + moving]
        start, members = ewa_tiles.bin_strips(behind, len(strips))
        members += self.still
        labelling = self.labelling
        if labelling is not None:
            self.labels = self.still_labels.copy()
            labelling = Labelling(*labelling[:3], *self.labels)

        def redraw(s: int) -> None:
            its, (at, lists) = members[start[s] : start[s + 1]], self.lists[s]
            ewa_tiles.redraw_strip(
                self.records, self.rows, at, lists, changed, its, s, self.background, out, labelling
            )

        self.share(redraw, strips)


@compiled()
def _shade(
    records: Array, colors: Array, place: Indices, rows: Indices, factors: Array, changed: Any
) -> None:
    """Multiply the colours of some rows' records by a factor, and mark them as changed."""
    for i in range(len(rows)):
        at = place[rows[i]]
        if at >= 0:
            changed[at] = True
            for channel in range(3):
                records[at, RED + channel] = colors[at, channel] * factors[i]


def needed(count: int, lists: list[tuple[Any, Indices]]) -> tuple[Any, list[tuple[Any, Any]]]:
    """Mask ``(count,)`` of the records that a picture's lists name, and the lists among these.

    Most of a scene's Gaussians are hidden, so what the film keeps is small.
    """
    used = np.zeros(count, np.bool_)
    for _, its in lists:
        used[its] = True
    place = np.cumsum(used, dtype=np.int32) - 1
    return used, [(at, place[its]) for at, its in lists]
