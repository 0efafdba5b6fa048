"""A film from one place, by ``steady``: tiles in which nothing changes are not drawn again.

What may change a tile is what moves and what lies in the shadow; of these, what differs between
this frame and the one before, since things come to rest, and so do shadows. The pictures are those
of :func:`newtongs.render.render`, bit for bit.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from ..scene import Camera, GaussianScene
from ..scene.frames import AnimatedScene, Frame
from ..threads import Share, sharing
from . import ewa, steady
from .ewa_records import Array, Layer
from .ewa_tiles import TILE, bin_strips, bin_tiles
from .prepare import Splat, prepare
from .rendering import Rendering
from .steady_tiles import Naming


def pictures(scenes: AnimatedScene, camera: Camera, background: Any) -> Iterator[Rendering]:
    """Frame after frame; each picture is the caller's to keep."""
    with sharing() as share:
        film = Film(scenes, camera, background, share)
        for frame in scenes:
            yield ewa.rendering(film.draw(frame))


class Part(NamedTuple):
    """Some of the Gaussians that a camera sees, as they are drawn."""

    rows: Any
    records: Array
    lines: Any

    def unlike(self, other: "Part") -> Array:
        """Records of those that the other has not, or not so."""
        _, here, there = np.intersect1d(
            self.rows, other.rows, assume_unique=True, return_indices=True
        )
        same = (self.records[here] == other.records[there]).all(1)
        same &= (self.lines[here] == other.lines[there]).all(1)
        return np.delete(self.records, here[same], 0)


class Film:
    """The frame drawn last, and the tiles in which the next one may differ from it."""

    def __init__(
        self, scenes: AnimatedScene, camera: Camera, background: Any, share: Share
    ) -> None:
        self.scene, self.camera, self.background, self.share = (
            scenes.scene, camera, background, share,
        )  # fmt: skip
        self.moves = ~scenes.still.numpy()
        self.pixels = np.zeros((camera.height, camera.width, 5), np.float32)
        self.before: Part | None = None

    @torch.no_grad()
    def draw(self, frame: Frame) -> Array:
        """Pixels ``(H, W, 5)`` of the next frame, the caller's to keep."""
        splat = splat_of(self.scene, frame, self.camera, self.background)
        layer, lines = steady.projected(splat, self.share)
        changing = self.moves
        if frame.shade is not None:
            changing = changing | (ewa.array(frame.shade) != 1)
        seen = changing[layer.rows]
        now = Part(layer.rows[seen], layer.records[seen], lines[seen])
        background, naming = ewa.array(splat.background), self.naming(layer)
        steady.draw_tiles(
            layer, lines, background, self.unlike(now), self.pixels, self.share, naming
        )
        self.before = now
        return self.pixels.copy()

    def unlike(self, now: Part) -> Any:
        """Mask ``(strips, tiles)`` of the tiles that may differ from those of the frame before."""
        if self.before is None:
            return steady.all_tiles(self.camera)
        came, left = now.unlike(self.before), self.before.unlike(now)
        return touched(came, self.camera) | touched(left, self.camera)

    def naming(self, layer: Layer) -> Naming | None:
        """What the frame's labels need, if it is to have any."""
        return None


def splat_of(scene: GaussianScene, frame: Frame, camera: Camera, background: Any) -> Splat:
    """What is drawn of a frame."""
    return prepare(
        scene, camera, background, frame.means, frame.covariances, frame.sh,
        opacities=frame.opacities, shade=frame.shade,
    )  # fmt: skip


def touched(records: Array, camera: Camera) -> Any:
    """Mask ``(strips, tiles)`` of the tiles that some Gaussians touch."""
    out = steady.all_tiles(camera)
    start, members = bin_strips(records, len(out))
    for s, row in enumerate(out):
        its = members[start[s] : start[s + 1]]
        row[:] = np.diff(bin_tiles(records, its, s * TILE, len(row))[0]) > 0
    return out
