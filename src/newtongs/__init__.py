"""Make Gaussian-splatting objects move.

The pipeline: an object's 22-number **state** (:class:`State`) is advanced by a hybrid **dynamics**
model (:class:`GaussianNND`), whose poses and scales move the object's Gaussians. Beside it stand
the **motions** that give ground truth, the **datasets** made of them, and **evaluation**.

>>> import newtongs, torch
>>> z0 = newtongs.make_state(p=(0, 2, 0), v=(1, 0, 0), s=(0.3, 0.3, 0.3))
>>> states = newtongs.GaussianNND().rollout(z0, torch.arange(64) / 24)
>>> newtongs.State(states).p.shape
torch.Size([64, 3])
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import datasets, dynamics, evaluation, motions, rotations, training
    from .dynamics import GaussianNND, NNDConfig
    from .dynamics.weights import load_model, load_pretrained
    from .errors import InputError
    from .state import State, as_states, project
    from .state import make as make_state

__version__ = "0.1.0"

_MODULES = ("datasets", "dynamics", "evaluation", "motions", "rotations", "training")
_NAMES = {
    "GaussianNND": ("dynamics", "GaussianNND"),
    "InputError": ("errors", "InputError"),
    "NNDConfig": ("dynamics", "NNDConfig"),
    "State": ("state", "State"),
    "as_states": ("state", "as_states"),
    "load_model": ("dynamics.weights", "load_model"),
    "load_pretrained": ("dynamics.weights", "load_pretrained"),
    "make_state": ("state", "make"),
    "project": ("state", "project"),
}

__all__ = [
    "GaussianNND",
    "InputError",
    "NNDConfig",
    "State",
    "as_states",
    "datasets",
    "dynamics",
    "evaluation",
    "load_model",
    "load_pretrained",
    "make_state",
    "motions",
    "project",
    "rotations",
    "training",
]


def __getattr__(name: str) -> object:
    """Import public names on first use, so that ``import newtongs`` stays quick."""
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name in _NAMES:
        module, attribute = _NAMES[name]
        return getattr(import_module(f".{module}", __name__), attribute)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
