"""The Gaussians of a scene: container, cameras, files, grouping, lifting, transform."""

from .cameras import Camera, orbit
from .gaussians import BACKGROUND, GaussianScene, join

__all__ = ["BACKGROUND", "Camera", "GaussianScene", "join", "orbit"]
