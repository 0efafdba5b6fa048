"""Blending by depth without popping, on the CPU.

``ewa`` sorts Gaussians by their centres. When an object turns, two that overlap swap places, and
the colour between them jumps. Here each Gaussian has an interval of depth on a pixel's ray, centred
where its density along the ray is largest (exact for a flat one), with its standard deviation along
the ray as length. Its optical depth is spread evenly over the interval; where intervals overlap,
their light is mixed, as in the exact rendering of ellipsoids by Mai et al. (EVER, 2024). The result
is continuous in the Gaussians' positions. Disjoint intervals give ordinary blending, in the order
along the ray instead of that of the centres: a large Gaussian of a floor no longer covers the
object that stands on it.

Depth, in labels and pictures, is where the light comes from: for a single Gaussian it lies in front
of the centre, the farther the more opaque the Gaussian is.

Footprints, colours and cut-offs are those of ``ewa``, except that the Gaussian that makes a pixel
opaque is drawn.

In a film with a fixed camera a tile is drawn again if it is touched by a Gaussian that moves or
lies in a shadow and that differs from the previous frame: objects come to rest, and so do their
shadows. The pictures are those of :func:`newtongs.render.render`, bit for bit.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ..base.process import Share, sharing
from ..base.types import Array
from ..scene import Camera
from ..scene.frames import AnimatedScene, Frame
from ..scene.transform import pack_symmetric
from . import ewa, ewa_project, steady_meet, steady_tiles
from .ewa_project import Layer
from .ewa_tiles import TILE, bin_strips, bin_tiles
from .labels import Labelling, Labels
from .splat import Rendering, Splat, splat_of_frame

NO_SLOPES = np.empty((0, 2), np.float32)  # depth comes from intervals here


@torch.no_grad()
def draw(splat: Splat) -> Rendering:
    """The picture, on the device of the means."""
    camera = splat.camera
    pixels = np.empty((camera.height, camera.width, 5), np.float32)
    with sharing() as share:
        layer, lines = projected(splat, share)
        background = ewa.array(splat.background)
        draw_tiles(layer, lines, background, all_tiles(camera), pixels, share)
    return ewa.rendering(pixels, splat.means.device)


def projected(splat: Splat, share: Share) -> tuple[Layer, Any]:
    """The visible Gaussians, and how their depth changes over the picture: lines ``(n, 4)``."""
    view, given = ewa.view_of(splat.camera), splat.covariances
    layer = ewa.projected(ewa.splats_of(splat), view, share)
    covariances = ewa.array(pack_symmetric(splat.scene.covariances) if given is None else given)
    lines = np.zeros((len(layer.rows), steady_meet.COLUMNS))
    ewa_project.depth_lines(ewa.array(splat.means), covariances, layer.rows, view, lines)
    steady_meet.make_lines(layer.records, lines)
    return layer, lines


def all_tiles(camera: Camera) -> Any:
    """Mask ``(strips, tiles)`` of all tiles of a picture."""
    return np.ones((-(-camera.height // TILE), -(-camera.width // TILE)), np.bool_)


def draw_tiles(
    layer: Layer,
    lines: Any,
    background: Array,
    wanted: Any,
    pixels: Array,
    share: Share,
    labelling: Labelling | None = None,
) -> None:
    """Draw the tiles of a mask into ``pixels (H, W, 5)``: red, green, blue, depth, alpha.

    Their labels go to ``labelling``, if it is given.
    """
    start, members = bin_strips(layer.records, len(wanted))

    def draw_strip(s: int) -> None:
        its = members[start[s] : start[s + 1]]
        steady_tiles.draw_strip(
            layer.records, lines, its, s, wanted[s], background, pixels, labelling
        )  # fmt: skip

    share(draw_strip, range(len(wanted)))


# --- films ----------------------------------------------------------------------------------------


def pictures(scenes: AnimatedScene, camera: Camera, background: Any) -> Iterator[Rendering]:
    """Frame after frame; each picture is the caller's to keep."""
    with sharing() as share:
        film = SteadyFilm(scenes, camera, background, share)
        for frame in scenes:
            yield ewa.rendering(film.draw(frame))


def labelled(
    scenes: AnimatedScene,
    cameras: Camera | Sequence[Camera],
    background: Any,
    slots: Any,
    objects: int,
) -> Iterator[tuple[Rendering, Labels]]:
    """Frame after frame with its labels; called as :func:`ewa.labelled` is."""
    with sharing() as share:
        if isinstance(cameras, Camera):
            film = SteadyFilm(scenes, cameras, background, share, slots, objects)
            for frame in scenes:
                picture = ewa.rendering(film.draw(frame))
                yield picture, film.labels.copy()  # the film reuses its arrays
        else:
            for frame, camera in zip(scenes, cameras, strict=True):
                yield _drawn_whole(scenes, frame, camera, background, share, slots, objects)


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
    layer, lines = projected(splat, share)
    pixels = np.empty((camera.height, camera.width, 5), np.float32)
    labels = Labels.empty(camera)
    labelling = Labelling(slots[layer.rows], NO_SLOPES, objects, *labels)
    background = ewa.array(splat.background)
    draw_tiles(layer, lines, background, all_tiles(camera), pixels, share, labelling)
    return ewa.rendering(pixels), labels


class DrawnSplats(NamedTuple):
    """The moving or shaded Gaussians of a frame, as they are drawn."""

    rows: Any
    records: Array
    lines: Any

    def unlike(self, other: "DrawnSplats") -> Array:
        """Records that the other does not have, or has with other values."""
        _, here, there = np.intersect1d(
            self.rows, other.rows, assume_unique=True, return_indices=True
        )
        same = (self.records[here] == other.records[there]).all(1)
        same &= (self.lines[here] == other.lines[there]).all(1)
        return np.delete(self.records, here[same], 0)


class SteadyFilm:
    """Draws frames from a fixed camera, and their labels if ``slots`` are given.

    The last frame is kept. Only the tiles in which the next one may differ are drawn again.
    """

    def __init__(
        self,
        scenes: AnimatedScene,
        camera: Camera,
        background: Any,
        share: Share,
        slots: Any = None,
        objects: int = 0,
    ) -> None:
        self.scene, self.camera, self.background, self.share = (
            scenes.scene, camera, background, share,
        )  # fmt: skip
        self.moves = ~scenes.still.numpy()
        self.pixels = np.zeros((camera.height, camera.width, 5), np.float32)
        self.before: DrawnSplats | None = None
        self.slots, self.objects, self.labels = slots, objects, Labels.empty(camera)

    @torch.no_grad()
    def draw(self, frame: Frame) -> Array:
        """Pixels ``(H, W, 5)`` of the next frame, the caller's to keep."""
        splat = splat_of_frame(self.scene, frame, self.camera, self.background)
        layer, lines = projected(splat, self.share)
        changing = self.moves
        if frame.shade is not None:
            changing = changing | (ewa.array(frame.shade) != 1)
        seen = changing[layer.rows]
        now = DrawnSplats(layer.rows[seen], layer.records[seen], lines[seen])
        labelling = None
        if self.slots is not None:  # tiles that are not drawn keep their labels
            labelling = Labelling(self.slots[layer.rows], NO_SLOPES, self.objects, *self.labels)
        background = ewa.array(splat.background)
        draw_tiles(layer, lines, background, self.unlike(now), self.pixels, self.share, labelling)
        self.before = now
        return self.pixels.copy()

    def unlike(self, now: DrawnSplats) -> Any:
        """Mask ``(strips, tiles)`` of the tiles that may differ from the previous frame."""
        if self.before is None:
            return all_tiles(self.camera)
        came, left = now.unlike(self.before), self.before.unlike(now)
        return touched(came, self.camera) | touched(left, self.camera)


def touched(records: Array, camera: Camera) -> Any:
    """Mask ``(strips, tiles)`` of the tiles that some Gaussians touch."""
    out = all_tiles(camera)
    start, members = bin_strips(records, len(out))
    for s, row in enumerate(out):
        its = members[start[s] : start[s + 1]]
        row[:] = np.diff(bin_tiles(records, its, s * TILE, len(row))[0]) > 0
    return out
