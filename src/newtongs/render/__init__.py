"""Pictures of Gaussian scenes: four renderers behind one call, and films.

``light`` is the paper's point splat, ``ewa`` draws true covariances on the CPU, ``gsplat`` does so
on CUDA; ``reference`` is the slow specification of the last two. ``steady`` draws what ``ewa`` does
without an order that jumps when things turn.
"""

from .rendering import Rendering
from .scenes import render, render_frames
from .video import contact_sheet, write_png, write_video

__all__ = ["Rendering", "contact_sheet", "render", "render_frames", "write_png", "write_video"]
