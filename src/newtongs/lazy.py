"""Public names of a package that are imported when they are first used."""

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy(package: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of a package whose parts are slow to import.

    ``names`` says in which module each public name stands; the package's modules themselves are
    found too, as if it had imported them.
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


_HOOKS: dict[str, tuple[str, str]] = {}


def hook(name: str, module: str, attribute: str) -> None:
    """Say who does something that a lower layer only asks for: it is imported when it is asked."""
    _HOOKS[name] = module, attribute


def hooked(name: str) -> Callable[..., object]:
    """What :func:`hook` named."""
    module, attribute = _HOOKS[name]
    found: Callable[..., object] = getattr(import_module(module), attribute)
    return found
