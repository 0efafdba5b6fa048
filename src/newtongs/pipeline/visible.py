"""What is drawn in addition to the capture: assumed floors, and given planes and boxes."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..base.state import State
from ..base.types import StateTensor
from ..dynamics.surfaces import Box, Plane
from ..physics.bodies import Body, lowest
from ..physics.colliders import within_any
from ..scene.frames import ALWAYS
from ..scene.gaussians import BACKGROUND, GaussianScene, join
from ..scene.similarity import extent, floor_disc, panel
from ..scene.world_frame import WorldFrame
from .pick import Layout
from .spec import SceneSpec
from .surroundings import Fixed

DISC = 3.0  # margin of the visible floor around the path, in heights of the object
NEAR = 0.02  # fraction of an object's size: coming this close to the lower floor makes it visible


def presence_of(layout: Layout, count: int) -> Tensor | None:
    """When each of ``count`` Gaussians is visible; those added to the layout always are."""
    if layout.presence is None:
        return None
    added = count - len(layout.presence)
    return torch.nn.functional.pad(layout.presence, (0, added), value=ALWAYS)


def with_visible_floors(
    layout: Layout,
    bodies: Sequence[Body],
    fixed: Fixed,
    states: Sequence[StateTensor],
    spec: SceneSpec,
) -> GaussianScene:
    """Add a disc for an assumed floor, and panels for the given planes and boxes.

    ``states`` holds the states of each object ``(T, 22)``, in scene coordinates.
    """
    frame, objects = layout.frame, layout.scene[layout.scene.ids != BACKGROUND]
    low, high = extent(objects, frame.up)
    path = torch.cat([State(z).p for z in states])
    ends = path.amin(0), path.amax(0)
    middle, reach = (ends[0] + ends[1]) / 2, float((ends[1] - ends[0]).norm()) / 2
    radius = reach + DISC * (high - low)
    drawn = []
    if layout.alone and layout.endless and layout.floor_origin.assumed:
        drawn.append(floor_disc(frame, middle, radius))
    elif fixed.lower is not None and _reaches(layout, bodies, states, fixed.lower):
        below = WorldFrame.of_floor(
            frame.up, frame.floor + fixed.lower / frame.scale, scale=frame.scale
        )
        drawn.append(_beside(floor_disc(below, middle, radius), frame, fixed))
    center = frame.to_physics(middle)
    drawn += [panel(frame, *_patch(plane, center, radius * frame.scale)) for plane in spec.planes]
    drawn += [panel(frame, *face) for box in spec.boxes for face in _faces(box)]
    return join(layout.scene, *drawn) if drawn else layout.scene


def _reaches(
    layout: Layout, bodies: Sequence[Body], states: Sequence[StateTensor], y: float
) -> bool:
    """Whether any object comes down to height ``y``, physics units."""
    return any(
        float(lowest(body, layout.frame.state_to_physics(z)).min()) < y + NEAR * body.shape.size
        for body, z in zip(bodies, states, strict=True)
        if body.shape is not None
    )


def _beside(disc: GaussianScene, frame: WorldFrame, fixed: Fixed) -> GaussianScene:
    """The part of a disc not covered by anything solid, through which it would show."""
    assert fixed.solid is not None
    x = frame.to_physics(disc.means).numpy()[:, ::2].astype(float)
    return disc[torch.from_numpy(~within_any(x, fixed.solid.boxes[:, :, ::2]))]


def _patch(plane: Plane, near: Tensor, radius: float) -> tuple[Tensor, Tensor, Tensor]:
    """Centre and half edges of the drawn part of a plane."""
    normal = torch.tensor(plane.normal).double()
    middle = near.double() - (near.double() @ normal - plane.offset) * normal
    helper = torch.eye(3, dtype=torch.float64)[int(normal.abs().argmin())]
    a = torch.linalg.cross(normal, helper)
    a = a / torch.linalg.vector_norm(a)
    return middle, 0.7 * radius * a, 0.7 * radius * torch.linalg.cross(normal, a)


def _faces(box: Box) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Centre and half edges of the six faces of a box."""
    low, high = np.array(box.low), np.array(box.high)
    middle, half = torch.tensor((low + high) / 2), torch.tensor((high - low) / 2)
    eye = torch.eye(3, dtype=torch.float64)
    return [
        (middle + sign * half[k] * eye[k], half[a] * eye[a], half[b] * eye[b])
        for k, a, b in ((0, 1, 2), (1, 2, 0), (2, 0, 1))
        for sign in (-1, 1)
    ]
