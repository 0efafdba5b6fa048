"""Public names and functions that are imported when they are first used."""

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def lazy(package: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of a package whose modules are slow to import.

    ``names`` maps each public name to its module. The package's modules themselves are found too,
    as if it had imported them.
    """

    def find(name: str) -> object:
        if name in names:
            return getattr(import_module(f".{names[name]}", package), name)
        missing = AttributeError(f"module {package!r} has no attribute {name!r}")
        if name.startswith("_"):
            raise missing
        try:
            return import_module(f".{name}", package)
        except ModuleNotFoundError as error:
            if error.name != f"{package}.{name}":
                raise
            raise missing from None

    return find


def imported_apart(name: str) -> ModuleType:
    """A module, imported in a thread of its own.

    A module that keeps an error of its import keeps with the traceback every frame that was running
    then, and so all that its callers held, such as a scene of a gigabyte.
    """
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(import_module, name).result()


_HOOKS: dict[str, tuple[str, str]] = {}


def hook(name: str, module: str, attribute: str) -> None:
    """Register a function that a lower layer calls by name; it is imported when it is called."""
    _HOOKS[name] = module, attribute


def hooked(name: str) -> Callable[..., Any]:
    """The function that :func:`hook` registered."""
    module, attribute = _HOOKS[name]
    return getattr(import_module(module), attribute)
