"""What the subjects of a page have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from .page import Page

Wired: TypeAlias = Iterable[tuple[Any, Callable[[Any], None]]]  # a control, and what it does


class Part:
    """One subject of a page; its callbacks are called one at a time."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def updates(self) -> Wired:
        """Controls that have a value."""
        return ()

    def clicks(self) -> Wired:
        """Buttons."""
        return ()
