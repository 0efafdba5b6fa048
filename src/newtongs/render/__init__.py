"""Pictures of Gaussian scenes and films: four renderers behind one call.

``light`` is the paper's point splat, ``ewa`` draws true covariances on the CPU, ``gsplat`` does so
on CUDA; ``reference`` is the slow specification of the last two. ``steady`` is ``ewa``
without popping when objects turn.
"""

from .scenes import render, render_frames
from .splat import Rendering
from .video import contact_sheet, write_png, write_video

__all__ = ["Rendering", "contact_sheet", "render", "render_frames", "write_png", "write_video"]
