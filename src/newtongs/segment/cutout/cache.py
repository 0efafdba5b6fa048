"""A cache of clusters and extracted objects: the next object is often picked in the same scene.

Scenes and floors are replaced, never modified, so identical tensors mean an identical scene; a
tensor that was written to all the same is detected by its version.
"""

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import torch
from torch import Tensor

from ...base.types import Vec3
from ...scene.gaussians import GaussianScene

if TYPE_CHECKING:
    from ..floor.finding import FloorPlane
    from .extraction import Extraction

P = ParamSpec("P")
T = TypeVar("T")

FIELDS = ("means", "quats", "log_scales", "logits", "sh", "ids")
MOST_KEPT = 12  # objects of a scene that are kept


class _Key(NamedTuple):
    """Weak references to the inputs of a result, and their versions."""

    things: tuple[Any, ...]
    versions: tuple[int, ...]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Key)
            and self.versions == other.versions
            and len(self.things) == len(other.things)
            and all(
                a() is not None and a() is b()
                for a, b in zip(self.things, other.things, strict=True)
            )
        )


def _key(scene: GaussianScene, *others: Any, gone: Callable[[Any], None] | None = None) -> _Key:
    tensors = [getattr(scene, name) for name in FIELDS]
    things = tuple(weakref.ref(x, gone) for x in (*tensors, *others))
    return _Key(things, tuple(0 if x.is_inference() else x._version for x in tensors))


def last_of(
    find: Callable[Concatenate[GaussianScene, P], T],
) -> Callable[Concatenate[GaussianScene, P], T]:
    """``find(scene, ...)`` with its last result cached while its arguments are alive."""
    kept: list[tuple[_Key, T]] = []

    def remembered(scene: GaussianScene, /, *others: P.args, **none: P.kwargs) -> T:
        for key, result in kept[:1]:
            if key == _key(scene, *others):
                return result
        result = find(scene, *others, **none)
        kept[:] = [(_key(scene, *others, gone=lambda _: kept.clear()), result)]
        return result

    return remembered


class _Kept(NamedTuple):
    """An extracted object, and its inputs besides scene and floor."""

    mask: Tensor
    object: int
    taken: Tensor
    """Which nearby Gaussians belonged to other objects; of all Gaussians if ``near`` is None."""
    result: "Extraction"

    def answers(self, mask: Tensor, object: int, taken: Tensor) -> bool:
        """Whether extracting again would give the same result."""
        near = self.result.near
        theirs = taken if near is None else taken[near]
        same = self.object == object and torch.equal(self.mask, mask)
        return same and torch.equal(self.taken, theirs)


class Memory:
    """The objects extracted from one scene.

    The Gaussians of other objects matter only near the extracted one.
    """

    def __init__(self) -> None:
        self._key: _Key | None = None
        self._kept: list[_Kept] = []

    def take_out(
        self,
        scene: GaussianScene,
        mask: Tensor,
        floor: "FloorPlane",
        *,
        taken: Tensor,
        points: Vec3 | None = None,
        object: int = 0,
    ) -> "Extraction":
        """As :func:`newtongs.segment.cutout.extraction.take_out`, from the cache if possible."""
        from .extraction import take_out  # numba takes a moment to import

        key = _key(scene, floor)
        if self._key != key:
            self._key, self._kept = key, []
        for kept in self._kept:
            if kept.answers(mask, object, taken):
                return kept.result
        found = take_out(scene, mask, floor, taken=taken, points=points, object=object)
        theirs = taken if found.near is None else taken[found.near]
        self._kept = [*self._kept[1 - MOST_KEPT :], _Kept(mask, object, theirs.clone(), found)]
        return found
