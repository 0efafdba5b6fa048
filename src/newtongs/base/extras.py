"""Libraries of optional extras."""

from importlib import import_module
from typing import Any

from .errors import InputError


def optional(module: str, need: str, extra: str) -> Any:
    """Import a library, or say how to install it; ``need`` is such as "films need imageio"."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(f"{need}; install it with: pip install 'newtongs[{extra}]'") from error
