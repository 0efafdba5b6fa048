"""Make Gaussian-splatting objects move.

The pipeline: the Gaussians of an object in a **scene** are lifted to a 22-number **state**
(:class:`State`), which a hybrid **dynamics** model (:class:`GaussianNND`) advances, in a **world**
(:class:`Simulation`) where objects meet each other and the scene; poses and scales move the
Gaussians, which **render** draws and **exports** writes. :func:`animate` is all of it in one call.
Beside it stand the **motions** that give ground truth, the **datasets** made of
them, **training** and **evaluation**.

>>> import newtongs, torch
>>> z0 = newtongs.make_state(p=(0, 2, 0), v=(1, 0, 0), s=(0.3, 0.3, 0.3))
>>> states = newtongs.GaussianNND().rollout(z0, torch.arange(64) / 24)
>>> newtongs.State(states).p.shape
torch.Size([64, 3])
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .lazy import hook

if TYPE_CHECKING:
    from . import (
        datasets,
        dynamics,
        evaluation,
        exports,
        figures,
        motions,
        render,
        rotations,
        scene,
        templates,
        training,
        world,
    )
    from .animator import animate
    from .dynamics import GaussianNND, NNDConfig
    from .dynamics.weights import load_model, load_pretrained
    from .errors import InputError
    from .exports import export
    from .pushes import Physics, Push
    from .scene import Camera, GaussianScene
    from .scene.io.formats import load as load_scene
    from .scene.io.formats import save as save_scene
    from .state import State, as_states, project
    from .state import make as make_state
    from .world import Simulation

__version__ = "0.1.0"

_MODULES = (
    "datasets", "dynamics", "evaluation", "exports", "figures", "motions", "render", "rotations",
    "scene", "templates", "training", "world",
)  # fmt: skip
_NAMES = {
    "Camera": ("scene", "Camera"),
    "GaussianNND": ("dynamics", "GaussianNND"),
    "GaussianScene": ("scene", "GaussianScene"),
    "InputError": ("errors", "InputError"),
    "NNDConfig": ("dynamics", "NNDConfig"),
    "Physics": ("pushes", "Physics"),
    "Push": ("pushes", "Push"),
    "Simulation": ("world", "Simulation"),
    "State": ("state", "State"),
    "animate": ("animator", "animate"),
    "as_states": ("state", "as_states"),
    "export": ("exports", "export"),
    "load_model": ("dynamics.weights", "load_model"),
    "load_pretrained": ("dynamics.weights", "load_pretrained"),
    "load_scene": ("scene.io.formats", "load"),
    "make_state": ("state", "make"),
    "project": ("state", "project"),
    "save_scene": ("scene.io.formats", "save"),
}

# A scene's layer knows no exports; the top, which knows both, says who shows an animation.
hook("animation as html", f"{__name__}.exports.notebook", "shown")

__all__ = [
    "Camera",
    "GaussianNND",
    "GaussianScene",
    "InputError",
    "NNDConfig",
    "Physics",
    "Push",
    "Simulation",
    "State",
    "animate",
    "as_states",
    "datasets",
    "dynamics",
    "evaluation",
    "export",
    "exports",
    "figures",
    "load_model",
    "load_pretrained",
    "load_scene",
    "make_state",
    "motions",
    "project",
    "render",
    "rotations",
    "save_scene",
    "scene",
    "templates",
    "training",
    "world",
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
