"""Which object each pixel of a ``steady`` film shows, and how far that is.

Slots, and how a pixel is decided, are those of ``ewa_labels``; the light is that of the picture,
and is weighed while it is drawn.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ..scene import Camera
from ..scene.frames import AnimatedScene, Frame
from ..threads import Share, sharing
from . import ewa, steady
from .ewa_records import Layer
from .labels import Labels
from .rendering import Rendering
from .steady_film import Film, splat_of
from .steady_tiles import Naming


def pictures(
    scenes: AnimatedScene,
    cameras: Camera | Sequence[Camera],
    background: Any,
    slots: Any,
    objects: int,
) -> Iterator[tuple[Rendering, Labels]]:
    """Frame after frame with its labels; called as :func:`ewa_labels.pictures` is."""
    with sharing() as share:
        if isinstance(cameras, Camera):
            film = LabelledFilm(scenes, cameras, background, share, slots, objects)
            for frame in scenes:
                picture = ewa.rendering(film.draw(frame))
                yield picture, film.labels.copy()  # the film writes the next frame's into its own
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
    """A frame before a camera that moves: there is nothing to keep."""
    splat = splat_of(scenes.scene, frame, camera, background)
    layer, lines = steady.projected(splat, share)
    pixels = np.empty((camera.height, camera.width, 5), np.float32)
    labels = Labels.empty(camera)
    naming = Naming(slots[layer.rows], objects, *labels)
    all_tiles = steady.all_tiles(camera)
    steady.draw_tiles(layer, lines, ewa.array(splat.background), all_tiles, pixels, share, naming)
    return ewa.rendering(pixels), labels


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
        self.labels = Labels.empty(camera)

    def naming(self, layer: Layer) -> Naming:
        """Of tiles that are not drawn the labels of the frame before are kept."""
        return Naming(self.slots[layer.rows], self.objects, *self.labels)
