"""Make Gaussian-splatting objects move.

:func:`animate` runs the whole pipeline. It lifts the Gaussians of an object to a 22-number state
(:class:`State`). A hybrid dynamics model (:class:`GaussianNND`) advances that state in a
:class:`Simulation`, where objects collide with each other and with the scene. The resulting poses
and scales move the Gaussians, which :mod:`render` draws and :mod:`exports` writes. The paper's part
(:mod:`motions` as ground truth, data sets, training, evaluation) stands beside it.

>>> import newtongs, torch
>>> z0 = newtongs.make_state(p=(0, 2, 0), v=(1, 0, 0), s=(0.3, 0.3, 0.3))
>>> states = newtongs.GaussianNND().rollout(z0, torch.arange(64) / 24)
>>> newtongs.State(states).p.shape
torch.Size([64, 3])
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .base.lazy import hook

if TYPE_CHECKING:
    from . import (
        dynamics,
        exports,
        forecast,
        formats,
        motions,
        paper,
        physics,
        render,
        samples,
        scene,
        segment,
        views,
    )
    from .base.errors import InputError
    from .base.state import State, as_states, project
    from .base.state import make as make_state
    from .dynamics import GaussianNND, NNDConfig
    from .dynamics.weights import load_model, load_pretrained
    from .formats.files import load as load_scene
    from .formats.files import save as save_scene
    from .physics import Simulation
    from .pipeline.run import animate
    from .pipeline.spec import ObjectSpec, Physics, Place
    from .scene import Camera, GaussianScene

__version__ = "0.1.0"

_MODULES = (
    "dynamics", "exports", "forecast", "formats", "motions", "paper", "physics", "render",
    "samples", "scene", "segment", "views",
)  # fmt: skip
_NAMES = {
    "Camera": ("scene", "Camera"),
    "GaussianNND": ("dynamics", "GaussianNND"),
    "GaussianScene": ("scene", "GaussianScene"),
    "InputError": ("base.errors", "InputError"),
    "NNDConfig": ("dynamics", "NNDConfig"),
    "ObjectSpec": ("pipeline.spec", "ObjectSpec"),
    "Physics": ("pipeline.spec", "Physics"),
    "Place": ("pipeline.spec", "Place"),
    "Simulation": ("physics", "Simulation"),
    "State": ("base.state", "State"),
    "animate": ("pipeline.run", "animate"),
    "as_states": ("base.state", "as_states"),
    "load_model": ("dynamics.weights", "load_model"),
    "load_pretrained": ("dynamics.weights", "load_pretrained"),
    "load_scene": ("formats.files", "load"),
    "make_state": ("base.state", "make"),
    "project": ("base.state", "project"),
    "save_scene": ("formats.files", "save"),
}

# Saving, showing and drawing an animation belong to layers above its own; they are registered here.
hook("animation as html", f"{__name__}.exports.notebook", "notebook_html")
hook("animation saved", f"{__name__}.exports", "save")
hook("animation shown", f"{__name__}.exports.notebook", "show")
hook("animation drawn", f"{__name__}.views.viewpoints", "picture_at")

__all__ = [
    "Camera",
    "GaussianNND",
    "GaussianScene",
    "InputError",
    "NNDConfig",
    "ObjectSpec",
    "Physics",
    "Place",
    "Simulation",
    "State",
    "animate",
    "as_states",
    "dynamics",
    "exports",
    "forecast",
    "formats",
    "load_model",
    "load_pretrained",
    "load_scene",
    "make_state",
    "motions",
    "paper",
    "physics",
    "project",
    "render",
    "samples",
    "save_scene",
    "scene",
    "segment",
    "views",
]


def __getattr__(name: str) -> object:
    """Import public names on first use, so that ``import newtongs`` is fast."""
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name in _NAMES:
        module, attribute = _NAMES[name]
        return getattr(import_module(f".{module}", __name__), attribute)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
