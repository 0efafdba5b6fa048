"""A film from one place, by ``ewa``: what never changes is projected, sorted and drawn once.

A frame begins as the picture of the still Gaussians. Those that move are projected for each frame,
and only the tiles that they touch, or in which a still one lies in the shadow, are drawn again:
there both are merged by depth, so that every pixel is blended as if all had been sorted together.
The pictures are those of :func:`newtongs.render.render`, bit for bit.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from ..scene import Camera
from ..scene.frames import AnimatedScene, Frame
from ..threads import Share, sharing
from . import ewa, ewa_tiles
from .ewa_project import Splats
from .ewa_records import BLUE, RECORD, RED, Array, Indices, Layer, compiled
from .prepare import prepare
from .rendering import Rendering

COLOR = slice(RED, BLUE + 1)


def pictures(scenes: AnimatedScene, camera: Camera, background: Any) -> Iterator[Rendering]:
    """Frame after frame; each picture is the caller's to keep."""
    with sharing() as share:
        film = Film(scenes, camera, background, share)
        for t, frame in enumerate(film.moving):
            yield ewa.rendering(film.draw(t, frame))


class Film:
    """The still part of an animated scene as one camera sees it."""

    @torch.no_grad()
    def __init__(
        self, scenes: AnimatedScene, camera: Camera, background: Any, share: Share
    ) -> None:
        rows, self.moving = scenes.moving()
        self.moving_rows, self.shade = rows.int().numpy(), scenes.shade
        self.share, self.view = share, ewa.view_of(camera)
        splat = prepare(
            scenes.scene, camera, background, covariances=scenes.covariances(),
            opacities=scenes.scene.opacities.index_fill(0, rows, 0),
        )  # fmt: skip
        self.background = ewa.array(splat.background)
        layer = ewa.projected(ewa.splats_of(splat), self.view, share)
        drawn = ewa.draw_layer(layer, camera, self.background, share)
        still, self.lists = needed(layer, drawn.lists)
        self.pixels, self.still = drawn.pixels, len(still.rows)
        # The records of the still ones, and behind them room for those that move.
        self.records = np.concatenate([still.records, np.empty((len(rows), RECORD), np.float32)])
        self.rows = np.concatenate([still.rows, self.moving_rows])
        self.colors = still.records[:, COLOR].copy()
        self.place = np.full(len(scenes.scene), -1, np.int32)  # of each row among the still
        self.place[still.rows] = np.arange(self.still, dtype=np.int32)

    @torch.no_grad()
    def draw(self, t: int, frame: Frame) -> Array:
        """Pixels ``(H, W, 5)`` of frame ``t``, in which the moving rows are as in ``frame``."""
        rows, factors = self._shadow(t)
        changed = np.zeros(self.still, np.bool_)
        _shade(self.records, self.colors, self.place, rows, factors, changed)
        out = self._redrawn(self._project(frame, rows, factors), changed)
        _shade(self.records, self.colors, self.place, rows, np.ones_like(factors), changed)
        return out

    def _shadow(self, t: int) -> tuple[Indices, Array]:
        """Rows in the shadow, and the factors on their colours."""
        if self.shade is None:
            return np.empty(0, np.int32), np.empty(0, np.float32)
        rows, factors = self.shade(t)
        return rows.int().cpu().numpy(), ewa.array(factors)

    def _project(self, frame: Frame, shaded: Indices, factors: Array) -> int:
        """Put what moves behind the still records, near to far; returns how many are seen."""
        shade = np.ones(len(self.moving_rows), np.float32)
        if len(shade):
            at = np.searchsorted(self.moving_rows, shaded).clip(max=len(shade) - 1)
            its = self.moving_rows[at] == shaded
            shade[at[its]] = factors[its]
        none = np.empty((0, 3), np.float32)
        splats = Splats(
            means=ewa.array(frame.means), quats=none, scales=none,
            covariances=ewa.array(frame.covariances), opacities=ewa.array(frame.opacities),
            sh=ewa.array(frame.sh), colors=none, shade=shade,
        )  # fmt: skip
        layer = ewa.projected(splats, self.view, self.share)
        behind = slice(self.still, self.still + len(layer.rows))
        self.records[behind], self.rows[behind] = layer.records, self.moving_rows[layer.rows]
        return len(layer.rows)

    def _redrawn(self, moving: int, changed: Any) -> Array:
        """The still picture with what moves, and what has changed, drawn again."""
        out, strips = self.pixels.copy(), range(len(self.lists))
        behind = self.records[self.still : self.still + moving]
        start, members = ewa_tiles.bin_strips(behind, len(strips))
        members += self.still

        def redraw(s: int) -> None:
            its, (at, lists) = members[start[s] : start[s + 1]], self.lists[s]
            ewa_tiles.redraw_strip(
                self.records, self.rows, at, lists, changed, its, s, self.background, out
            )

        self.share(redraw, strips)
        return out


@compiled()
def _shade(
    records: Array, colors: Array, place: Indices, rows: Indices, factors: Array, changed: Any
) -> None:
    """Give the records of some rows their colours times a factor, and mark them as changed."""
    for i in range(len(rows)):
        at = place[rows[i]]
        if at >= 0:
            changed[at] = True
            for channel in range(3):
                records[at, RED + channel] = colors[at, channel] * factors[i]


def needed(layer: Layer, lists: list[tuple[Any, Indices]]) -> tuple[Layer, list[tuple[Any, Any]]]:
    """The part of a layer that a picture's lists name, and the lists that name it there.

    Of millions of Gaussians most are hidden: what is kept for the film is small.
    """
    used = np.zeros(len(layer.rows), np.bool_)
    for _, its in lists:
        used[its] = True
    place = np.cumsum(used, dtype=np.int32) - 1
    return Layer(layer.records[used], layer.rows[used]), [(at, place[its]) for at, its in lists]
