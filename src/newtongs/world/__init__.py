"""Many objects in time: bodies, their shapes, what surrounds them, and the step."""

from .bodies import Body, Track
from .shapes import Shape
from .simulation import Simulation, Snapshot
from .surroundings import Surroundings

__all__ = ["Body", "Shape", "Simulation", "Snapshot", "Surroundings", "Track"]
