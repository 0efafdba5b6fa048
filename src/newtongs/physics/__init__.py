"""Simulating many objects: bodies, shapes, surroundings, and the time step."""

from .bodies import Body, Surroundings, Track
from .shapes import Shape
from .simulation import Simulation, Snapshot

__all__ = ["Body", "Shape", "Simulation", "Snapshot", "Surroundings", "Track"]
