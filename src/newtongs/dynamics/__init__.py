"""Dynamics of the 22-number state: Gaussian-NND and the analytic baselines."""

from .analytic import Coefficients
from .baselines import BASELINES, Predictor, get_baseline
from .gaussian_nnd import GaussianNND, NNDConfig

__all__ = ["BASELINES", "Coefficients", "GaussianNND", "NNDConfig", "Predictor", "get_baseline"]
