"""Dynamics of the 22-number state: Gaussian-NND, the analytic baselines, or a model of yours."""

from typing import TYPE_CHECKING

from ..base.lazy import lazy
from .config import NNDConfig

if TYPE_CHECKING:
    from .analytic import Coefficients
    from .baselines import BASELINES, Predictor, get_baseline
    from .gaussian_nnd import GaussianNND
    from .interface import Dynamics
    from .surfaces import FLOOR, Box, Plane, Surface

__all__ = [
    "BASELINES",
    "FLOOR",
    "Box",
    "Coefficients",
    "Dynamics",
    "GaussianNND",
    "NNDConfig",
    "Plane",
    "Predictor",
    "Surface",
    "get_baseline",
]

# The settings alone, which the command line's help shows, must not cost an import of torch.
__getattr__ = lazy(__name__, {
    "BASELINES": "baselines", "FLOOR": "surfaces", "Box": "surfaces", "Coefficients": "analytic",
    "Dynamics": "interface", "GaussianNND": "gaussian_nnd", "Plane": "surfaces",
    "Predictor": "baselines", "Surface": "surfaces", "get_baseline": "baselines",
})  # fmt: skip
