"""Which object each pixel of a ``steady`` film shows, and how far that is.

Slots, and how a pixel is decided, are those of ``ewa_labels``; the light is that of the picture,
and is weighed while it is drawn.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from ..scene import Camera
from ..scene.frames import AnimatedScene
from ..threads import Share, sharing
from . import ewa
from .ewa_records import Layer
from .labels import Labels
from .rendering import Rendering
from .steady_film import Film
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
        film = None
        for t, frame in enumerate(scenes):
            if film is None or not isinstance(cameras, Camera):
                camera = cameras if isinstance(cameras, Camera) else cameras[t]
                film = LabelledFilm(scenes, camera, background, share, slots, objects)
            picture = ewa.rendering(film.draw(frame))
            yield picture, film.labels


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
        self.labels = self.labels.copy()  # those of the frame before are the caller's
        return Naming(self.slots[layer.rows], self.objects, *self.labels)
