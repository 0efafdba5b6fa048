"""Dynamics of the 22-number state: Gaussian-NND, the analytic baselines, or a model of yours."""

from .analytic import Coefficients
from .baselines import BASELINES, Predictor, get_baseline
from .gaussian_nnd import GaussianNND, NNDConfig
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
