"""Interactive use: click an object, drag its arrow, watch it fall, download the result.

:class:`Session` does all of it without a browser; :mod:`.page` shows a session in a browser, with
viser. Neither implements physics, picking or export: a session calls what :func:`newtongs.animate`,
:class:`newtongs.Simulation` and :func:`newtongs.exports.export` call, and prints the code that does
the same.
"""

from typing import TYPE_CHECKING

from ..base.lazy import lazy

if TYPE_CHECKING:
    from .recipe import Kick, Recipe
    from .session import Session

__all__ = ["Kick", "Recipe", "Session"]

__getattr__ = lazy(__name__, {"Kick": "recipe", "Recipe": "recipe", "Session": "session"})
