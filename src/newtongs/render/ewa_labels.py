"""Which object each pixel shows, and how far that is: the labels of an ``ewa`` film.

Every Gaussian belongs to a slot: an object, or the rest. A pixel belongs to the slot with the
largest share of its light, or to none where most of it comes from the background colour. Its depth
is the mean over that slot alone, weighted as the colours are: at an edge it is the depth of what
the pixel shows, not of a place between two things. The depth of its flow likewise, by the square of
the transmittance.

A Gaussian's depth differs from pixel to pixel: it is where the pixel's ray meets the most of it,
not the depth of its centre as in a renderer's depth. On a curved surface the front one of two that
overlap always lies nearer to the camera's axis, and its centre nearer than the surface: centres
would put a ball's skin too far forward by some part of a Gaussian's width, and flow with it.

Numba's cache knows this file's own text alone: after changing a constant that is imported here,
remove the ``__pycache__`` beside it.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ..scene import Camera
from ..scene.frames import AnimatedScene, Frame
from ..threads import Share, sharing
from . import ewa
from .ewa_depths import depth_slopes
from .ewa_film import Film
from .ewa_records import (
    DEPTH,
    EXT_X,
    EXT_Y,
    HX,
    HY,
    IX,
    IY,
    OPACITY,
    A,
    Array,
    B,
    G,
    Indices,
    compiled,
)  # fmt: skip
from .ewa_tiles import (
    ALL,
    BLOCK,
    BLOCK_X,
    BLOCK_Y,
    CAP,
    CHECK_EVERY,
    E0,
    E1,
    E2,
    E3,
    E4,
    E5,
    FAINT,
    GRID_X,
    GRID_Y,
    HIGH,
    LOW,
    MANTISSA,
    MARGIN,
    ONE,
    ROUND,
    STOP,
    TILE,
    UNIT_BITS,
    WIDE,
    ZERO,
    bin_strips,
    bin_tiles,
)  # fmt: skip
from .labels import Labels, decide
from .prepare import prepare
from .rendering import Rendering

NO_INDICES = np.empty(0, np.int32)
NO_FACTORS = np.empty(0, np.float32)
PLANE = np.uint64(TILE * TILE)  # pixels of a tile, of one slot


def pictures(
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
            film = LabelledFilm(scenes, cameras, background, share, slots, objects)
            for t, frame in enumerate(film.moving):
                picture = ewa.rendering(film.draw(t, frame))
                yield picture, film.labels
        else:
            yield from _from_everywhere(scenes, cameras, background, slots, objects, share)


def labels_alone(
    scenes: AnimatedScene,
    cameras: Camera | Sequence[Camera],
    background: Any,
    slots: Any,
    objects: int,
) -> Iterator[Labels]:
    """The labels of :func:`pictures`, bit for bit, for pictures that something else draws.

    Before a still camera no frame is drawn. A camera that moves needs the picture for its lists of
    what is seen in each tile.
    """
    with sharing() as share:
        if isinstance(cameras, Camera):
            film = LabelledFilm(scenes, cameras, background, share, slots, objects)
            for frame in film.moving:
                yield film.label(frame)
        else:
            everywhere = _from_everywhere(scenes, cameras, background, slots, objects, share)
            yield from (labels for _, labels in everywhere)


class LabelledFilm(Film):
    """A film from one place that knows the labels of the frame drawn last."""

    def __init__(
        self,
        scenes: AnimatedScene,
        camera: Camera,
        background: Any,
        share: Share,
        slots: Any,
        objects: int,
    ) -> None:
        super().__init__(scenes, camera, background, share)
        self.slots, self.objects = slots, objects
        self.slopes = np.zeros((len(self.records), 2), np.float32)
        its = self.rows[: self.still]
        means, covariances = ewa.array(scenes.scene.means), ewa.array(scenes.covariances())
        depth_slopes(means, covariances, its, self.view, self.slopes)
        self.still_labels = Labels.empty(camera)
        self.labels = self.still_labels
        self._label(self.still_labels, NO_INDICES, np.zeros(len(self.lists) + 1, np.int64), True)

    def _project(self, frame: Frame, shaded: Indices, factors: Array) -> int:
        moving = super()._project(frame, shaded, factors)
        behind = slice(self.still, self.still + moving)
        its = np.searchsorted(self.moving_rows, self.rows[behind]).astype(np.int32)
        means, covariances = ewa.array(frame.means), ewa.array(frame.covariances)
        depth_slopes(means, covariances, its, self.view, self.slopes[behind])
        return moving

    @torch.no_grad()
    def label(self, frame: Frame) -> Labels:
        """The labels of a frame that is not drawn; shadows change colours alone."""
        self._relabel(self._project(frame, NO_INDICES, NO_FACTORS))
        return self.labels

    def _redrawn(self, moving: int, changed: Any) -> Array:
        out = super()._redrawn(moving, changed)
        self._relabel(moving)
        return out

    def _relabel(self, moving: int) -> None:
        """The still labels, and those of the tiles that something touches which moves."""
        behind = self.records[self.still : self.still + moving]
        start, members = bin_strips(behind, len(self.lists))
        members += self.still
        self.labels = self.still_labels.copy()
        self._label(self.labels, members, start, False)

    def _label(self, out: Labels, members: Indices, start: Any, everywhere: bool) -> None:
        """Label all tiles, or those that ``members`` touch."""

        def label(s: int) -> None:
            at, lists = self.lists[s]
            its = members[start[s] : start[s + 1]]
            label_strip(
                self.records, self.slopes, self.rows, self.slots, self.objects, at, lists, its, s,
                everywhere, *out,
            )  # fmt: skip

        self.share(label, range(len(self.lists)))


def _from_everywhere(
    scenes: AnimatedScene,
    cameras: Sequence[Camera],
    background: Any,
    slots: Any,
    objects: int,
    share: Share,
) -> Iterator[tuple[Rendering, Labels]]:
    """A camera a frame: everything is drawn anew."""
    for frame, camera in zip(scenes, cameras, strict=True):
        splat = prepare(
            scenes.scene, camera, background, frame.means, frame.covariances, frame.sh,
            opacities=frame.opacities, shade=frame.shade,
        )  # fmt: skip
        with torch.no_grad():
            layer = ewa.projected(ewa.splats_of(splat), ewa.view_of(camera), share)
            drawn = ewa.draw_layer(layer, camera, ewa.array(splat.background), share)
        out, slopes = Labels.empty(camera), np.empty((len(layer.rows), 2), np.float32)
        means, covariances = ewa.array(frame.means), ewa.array(frame.covariances)
        depth_slopes(means, covariances, layer.rows, ewa.view_of(camera), slopes)
        _label_lists(layer.records, slopes, layer.rows, slots, objects, drawn.lists, out, share)
        yield ewa.rendering(drawn.pixels), out


def _label_lists(
    records: Array,
    slopes: Array,
    rows: Indices,
    slots: Any,
    objects: int,
    lists: list[Any],
    out: Labels,
    share: Share,
) -> None:
    """Label a whole picture from the lists that drew it."""

    def label(s: int) -> None:
        at, its = lists[s]
        label_strip(records, slopes, rows, slots, objects, at, its, NO_INDICES, s, True, *out)

    share(label, range(len(lists)))


# --- compiled -------------------------------------------------------------------------------------


class Sums(NamedTuple):
    """Of a tile's pixels, a plane a slot, one slot after the other."""

    weight: Array
    depth: Array  # times the weight
    weight_twice: Array  # by the square of the transmittance: of light that goes through twice
    depth_twice: Array


@compiled("contract", "nsz")
def _weigh(
    records: Array,
    slopes: Array,
    n: int,
    hx: np.float32,
    hy: np.float32,
    at: Any,
    base: Any,
    light: Array,
    sums: Sums,
) -> None:
    """As ``ewa_tiles._blend``, but what is added up is the weight of one slot, and its depth.

    A sheet that takes the light from ``t`` to ``left`` takes its square from ``t^2`` to ``left^2``.
    """
    weight, depth, weight_twice, depth_twice = sums
    ux, vy, o, slope = (
        records[n, A],
        records[n, B],
        records[n, OPACITY],
        -records[n, G] * records[n, A],
    )
    z, zx, zy = records[n, DEPTH], slopes[n, 0], slopes[n, 1]
    for k in range(BLOCK):
        dx, dy = GRID_X[k] + hx, GRID_Y[k] + hy
        u, v = ux * dx + slope * dy, vy * dy
        p = u * u + v * v
        p = p if p < FAINT else FAINT
        shifted = ROUND - p
        f = (ROUND - shifted) - p
        e = ((((E5 * f + E4) * f + E3) * f + E2) * f + E1) * f + E0
        power = np.int32((np.float32(shifted).view(np.int32) << MANTISSA) + UNIT_BITS)
        alpha = o * (e * power.view(np.float32))
        alpha = alpha if alpha < CAP else CAP
        alpha = alpha if alpha >= LOW else ZERO
        t = light[at + k]
        left = t - alpha * t
        w = t - left if left > STOP else ZERO
        light[at + k] = left if left > STOP else -abs(t)
        here = z + zx * dx + zy * dy
        weight[base + k] += w
        depth[base + k] += w * here
        w *= t + left
        weight_twice[base + k] += w
        depth_twice[base + k] += w * here


@compiled()
def _add(
    records: Array,
    slopes: Array,
    n: int,
    x0: int,
    y0: int,
    slot: int,
    light: Array,
    sums: Sums,
    closed: int,
) -> None:
    """One Gaussian, in the blocks that its box touches, see ``ewa_tiles._splat``."""
    first = np.uint64(slot) * PLANE
    hx, hy = (
        np.float32(x0 - records[n, IX]) + records[n, HX],
        np.float32(y0 - records[n, IY]) + records[n, HY],
    )
    reach_x, reach_y = (
        records[n, EXT_X] + np.float32(MARGIN),
        records[n, EXT_Y] + np.float32(MARGIN),
    )
    for j in range(HIGH):
        dy = hy + np.float32(j * BLOCK_Y)
        if dy > reach_y or dy < -reach_y - np.float32(BLOCK_Y - 1):
            continue
        for i in range(WIDE):
            dx = hx + np.float32(i * BLOCK_X)
            if dx > reach_x or dx < -reach_x - np.float32(BLOCK_X - 1):
                continue
            if (closed >> (j * WIDE + i)) & 1:
                continue
            at = np.uint64(j * WIDE + i) * BLOCK
            _weigh(records, slopes, n, dx, dy, at, first + at, light, sums)


@compiled()
def _dark(light: Array, closed: int) -> int:
    """Blocks, as bits, behind which nothing can be seen any more."""
    for block in range(WIDE * HIGH):
        if (closed >> block) & 1:
            continue
        at, hidden = np.uint64(block) * BLOCK, 1
        for k in range(BLOCK):
            if light[at + k] > ZERO:
                hidden = 0
                break
        closed |= hidden << block
    return closed


@compiled()
def _place(x: int, y: int) -> Any:
    """Where a pixel of a tile stands in its planes."""
    block = (y // BLOCK_Y) * WIDE + x // BLOCK_X
    return np.uint64(block) * BLOCK + np.uint64((y % BLOCK_Y) * BLOCK_X + x % BLOCK_X)


@compiled()
def _weigh_lists(
    records: Array,
    slopes: Array,
    rows: Indices,
    slots: Any,
    a: Indices,
    b: Indices,
    x0: int,
    y0: int,
    light: Array,
    sums: Sums,
) -> None:
    """Two lists of records, each near to far, as if they had been sorted together."""
    i, j, closed = 0, 0, 0
    while i < len(a) or j < len(b):
        if (i + j) % CHECK_EVERY == 0:
            closed = _dark(light, closed)
            if closed == ALL:
                break
        first = j == len(b)
        if not first and i < len(a):
            near, far = records[a[i], DEPTH], records[b[j], DEPTH]
            first = near < far or (near == far and rows[a[i]] < rows[b[j]])
        at = a[i] if first else b[j]
        i, j = i + first, j + (not first)
        _add(records, slopes, at, x0, y0, slots[rows[at]], light, sums, closed)


@compiled()
def _decide(
    objects: int,
    x0: int,
    y0: int,
    light: Array,
    sums: Sums,
    slot: Any,
    z: Array,
    share: Array,
    flow_z: Array,
) -> None:
    """What each pixel of a tile shows."""
    for y in range(min(TILE, slot.shape[0] - y0)):
        for x in range(min(TILE, slot.shape[1] - x0)):
            k = _place(x, y)
            best, at, part = decide(objects, abs(light[k]), sums.weight, k, PLANE)
            far, flow_far = ZERO, ZERO
            if best >= 0:
                far = sums.depth[at] / sums.weight[at]
                flow_far = sums.depth_twice[at] / sums.weight_twice[at]
            slot[y0 + y, x0 + x], share[y0 + y, x0 + x] = best, part
            z[y0 + y, x0 + x], flow_z[y0 + y, x0 + x] = far, flow_far


@compiled()
def label_strip(
    records: Array,
    slopes: Array,
    rows: Indices,
    slots: Any,
    objects: int,
    start: Any,
    lists: Indices,
    members: Indices,
    strip: int,
    everywhere: bool,
    slot: Any,
    z: Array,
    share: Array,
    flow_z: Array,
) -> None:
    """Label the tiles of a strip that ``members`` touch, or all; see ``ewa_tiles.redraw_strip``."""
    y0, tiles = strip * TILE, -(-slot.shape[1] // TILE)
    begin, filled = bin_tiles(records, members, y0, tiles)
    light = np.empty(TILE * TILE, np.float32)
    planes = (objects + 1) * TILE * TILE
    sums = Sums(
        np.empty(planes, np.float32), np.empty(planes, np.float32), np.empty(planes, np.float32),
        np.empty(planes, np.float32),
    )  # fmt: skip
    for t in range(tiles):
        its, new = lists[start[t] : start[t + 1]], filled[begin[t] : begin[t + 1]]
        if not (everywhere or len(new)):
            continue
        light[:], sums.weight[:], sums.depth[:] = ONE, ZERO, ZERO
        sums.weight_twice[:], sums.depth_twice[:] = ZERO, ZERO
        _weigh_lists(records, slopes, rows, slots, its, new, t * TILE, y0, light, sums)
        _decide(objects, t * TILE, y0, light, sums, slot, z, share, flow_z)
