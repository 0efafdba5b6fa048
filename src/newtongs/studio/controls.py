"""The base class of the panels of a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from .page import Page

Wired: TypeAlias = Iterable[tuple[Any, Callable[[Any], None]]]  # controls and their callbacks


class Controls:
    """One group of controls of a page; its callbacks run one at a time."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def updates(self) -> Wired:
        """Controls with a value, and what to call when it changes."""
        return ()

    def clicks(self) -> Wired:
        """Buttons, and what to call when one is pressed."""
        return ()
