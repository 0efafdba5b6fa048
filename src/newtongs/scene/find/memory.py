"""What was found of a scene, for those who ask again: another object is picked from the same one.

Scenes and floors are never changed but replaced, so the same tensors mean the same scene; a tensor
that somebody did write to says so by its version.
"""

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor

from ...types import Vec3
from ..gaussians import GaussianScene
from .floor import Floor

if TYPE_CHECKING:
    from .extraction import Extraction

T = TypeVar("T")
Find: TypeAlias = Callable[[GaussianScene, Floor], T]

FIELDS = ("means", "quats", "log_scales", "logits", "sh", "ids")
MOST = 12  # objects of a scene that are remembered


class _Key(NamedTuple):
    """What a result hangs on, without keeping it alive, and how often it was written to."""

    things: tuple[Any, ...]
    versions: tuple[int, ...]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Key)
            and self.versions == other.versions
            and all(
                a() is not None and a() is b()
                for a, b in zip(self.things, other.things, strict=True)
            )
        )


def _key(scene: GaussianScene, floor: Floor, gone: Callable[[Any], None] | None = None) -> _Key:
    tensors = [getattr(scene, name) for name in FIELDS]
    things = tuple(weakref.ref(x, gone) for x in (*tensors, floor))
    return _Key(things, tuple(0 if x.is_inference() else x._version for x in tensors))


def last_of(find: Find[T]) -> Find[T]:
    """The function ``find``, whose last result is kept while its scene and floor are in use."""
    kept: list[tuple[_Key, T]] = []

    def remembered(scene: GaussianScene, floor: Floor) -> T:
        for key, result in kept[:1]:
            if key == _key(scene, floor):
                return result
        result = find(scene, floor)
        kept[:] = [(_key(scene, floor, lambda _: kept.clear()), result)]
        return result

    return remembered


class _Kept(NamedTuple):
    """An object that was taken out, and what that hung on besides scene and floor."""

    mask: Tensor
    object: int
    taken: Tensor
    """Which of the Gaussians that were looked at were others'; of all, where none was."""
    result: "Extraction"

    def answers(self, mask: Tensor, object: int, taken: Tensor) -> bool:
        """Whether this is what would be found again."""
        near = self.result.near
        theirs = taken if near is None else taken[near]
        same = self.object == object and torch.equal(self.mask, mask)
        return same and torch.equal(self.taken, theirs)


class Memory:
    """Objects that were taken out of one scene.

    What others own matters only where an object was looked for: one far away changes nothing.
    """

    def __init__(self) -> None:
        self._key: _Key | None = None
        self._kept: list[_Kept] = []

    def take_out(
        self,
        scene: GaussianScene,
        mask: Tensor,
        floor: Floor,
        *,
        taken: Tensor,
        points: Vec3 | None = None,
        object: int = 0,
    ) -> "Extraction":
        """As :func:`newtongs.scene.find.extraction.take_out`, or what that gave before."""
        from .extraction import take_out  # numba takes a moment to import

        key = _key(scene, floor)
        if self._key != key:
            self._key, self._kept = key, []
        for kept in self._kept:
            if kept.answers(mask, object, taken):
                return kept.result
        found = take_out(scene, mask, floor, taken=taken, points=points, object=object)
        theirs = taken if found.near is None else taken[found.near]
        self._kept = [*self._kept[1 - MOST :], _Kept(mask, object, theirs.clone(), found)]
        return found
