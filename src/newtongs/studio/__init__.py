"""A scene in hand: click an object, pull an arrow, watch it fall, take it home.

:class:`Session` is all of it without a browser; :mod:`.page` shows one in a browser with viser.
Neither has physics, picking or export of its own: what a session does, :func:`newtongs.animate`,
:class:`newtongs.Simulation` and :func:`newtongs.export` do, and it tells the lines that do it.
"""

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .recipe import Kick, Recipe
    from .session import Session

__all__ = ["Kick", "Recipe", "Session"]

__getattr__ = lazy(__name__, {"Kick": "recipe", "Recipe": "recipe", "Session": "session"})
