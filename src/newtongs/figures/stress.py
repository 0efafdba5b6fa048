"""The twelve background stress tests of Appendix F: the trained model in procedural scenes.

The model is given the first state of a Gaussian-32 sequence and predicts the others; the object's
Gaussians follow, the background stays, and nothing is retouched. An object that leaves the picture
or sinks into the floor is shown doing so.
"""

from collections.abc import Callable
from pathlib import Path

import torch

from ..datasets import gaussian32
from ..dynamics.backends import predictor
from ..dynamics.weights import load_pretrained
from ..templates import template
from ..types import StateTensor
from .gallery import FRAMES_SHOWN, enlarged, ewa_frames, sheet

# Common category: motion family (the paper's mapping) and the scene whose object suits it.
STRESS_TESTS = {
    "3D motion": ("airplane_flight", "lab_table_cylinder"),
    "acceleration": ("3d_acceleration_gravity", "living_room_table"),
    "circular motion": ("circular_orbital_motion", "orbit_space"),
    "damped oscillation": ("pendulum_damped_oscillation", "desk_blue_sphere"),
    "deceleration": ("sliding_then_stop", "living_room_table"),
    "deformation": ("non_rigid_deformation", "playroom_floor"),
    "parabolic motion": ("projectile_motion", "sunny_park"),
    "parabolic motion\nwith rotation": ("tumbling_fall", "studio_tabletop"),
    "rotation": ("3d_rotation", "display_orange_pyramid"),
    "size changing": ("size_changing", "sunny_park"),
    "slope sliding": ("slope_sliding", "kitchen_counter"),
    "uniform motion": ("3d_uniform_motion", "construction_floor"),
}

Progress = Callable[[str, int, int], None]


def predicted(item: gaussian32.Item, *, seed: int = 7301) -> StateTensor:
    """The model's rollout ``(49, 22)`` from a sample's first state."""
    states = gaussian32.sequence(item).states[item.repeat]
    times = torch.arange(len(states)) * gaussian32.DT
    return predictor(load_pretrained(seed))(states[:1], times)[0]


def stress_gallery(
    path: Path | str, *, seed: int = 7301, size: int = 150, progress: Progress | None = None
) -> Path:
    """Six evenly spaced frames of each test, from the sample's own first camera."""
    rows = []
    for done, (motion, scene) in enumerate(STRESS_TESTS.values()):
        if progress:
            progress("gallery", done, len(STRESS_TESTS))
        item = gaussian32.items([scene], [motion])[0]
        labelled = gaussian32.sequence(item).states[item.repeat]
        camera = enlarged(gaussian32.cameras_for(labelled, template(scene))[0], size)
        states = predicted(item, seed=seed)
        shown = torch.linspace(0, len(states) - 1, FRAMES_SHOWN).round().long()
        rows.append(ewa_frames(template(scene), states[shown], [camera] * FRAMES_SHOWN))
    if progress:
        progress("gallery", len(STRESS_TESTS), len(STRESS_TESTS))
    times = [f"{k * gaussian32.DT:.2f} s" for k in shown.tolist()]
    return sheet(path, rows, titles=[times], labels=list(STRESS_TESTS))
