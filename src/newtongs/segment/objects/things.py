"""The things of a scene with the numbers that pictures and lists show.

A file that marks its objects has named its things itself; in a capture they are the clusters.
"""

from typing import NamedTuple

from ...scene.gaussians import BACKGROUND, GaussianScene
from ..floor.finding import FloorPlane
from .clusters import Cluster, cluster


class Things(NamedTuple):
    """The things of a scene; the ``id`` of each is its number."""

    word: str
    """How selectors name them: ``id`` if the file marks its objects, else ``cluster``."""
    found: list[Cluster]

    def selector(self, number: int) -> str:
        """The selector of a thing by its number."""
        return f"{self.word}:{number}"


def things(scene: GaussianScene, floor: FloorPlane) -> Things:
    """The marked objects of a scene, or else its clusters above the ``floor``, best first."""
    marks = [i for i in scene.object_ids if i != BACKGROUND]
    if not marks:
        return Things("cluster", cluster(scene, floor))
    return Things("id", [_marked(scene, floor, i) for i in marks])


def _marked(scene: GaussianScene, floor: FloorPlane, number: int) -> Cluster:
    """A marked object, described as clusters are; what it stands on is not looked for."""
    rows = (scene.ids == number).nonzero().squeeze(-1)
    x = scene.means[rows]
    low, high = x.amin(0), x.amax(0)
    return Cluster(
        number, rows, len(scene), (low + high) / 2, high - low, len(rows),
        float(scene.opacities[rows].sum()), 0.0, float(floor.heights(x).amin()), 1.0,
    )  # fmt: skip
