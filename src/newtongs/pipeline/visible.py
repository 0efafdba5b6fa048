"""What is drawn in addition to the capture: floors it does not show, given planes and boxes.

A given floor may be far from anything captured. It is drawn where an object comes down to it and no
Gaussian is near.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..base.state import State
from ..base.types import StateTensor, Y
from ..dynamics.floor import support_radius
from ..dynamics.surfaces import Box, Plane
from ..physics.bodies import Body, lowest
from ..physics.colliders import within_any
from ..scene.frames import ALWAYS
from ..scene.gaussians import BACKGROUND, GaussianScene, join
from ..scene.similarity import VISIBLE, extent, floor_disc, panel
from ..scene.world_frame import WorldFrame
from .pick import Layout
from .spec import FloorOrigin, SceneSpec
from .surroundings import Fixed

DISC = 3.0  # margin of the visible floor around the path, in heights of the object
TOUCHING = 0.02  # fraction of an object's size: coming this close to a floor, it touches it
SHOWN = 0.5  # fraction of it: so near along a given floor, a Gaussian shows where the floor is
FLUSH = 0.1  # fraction of it: so near to the height of such a floor, a Gaussian is part of it


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
    """Add a disc for a floor that is not visible, and panels for the given planes and boxes.

    ``states`` holds the states of each object ``(T, 22)``, in scene coordinates.
    """
    frame, objects = layout.frame, layout.scene.plain[layout.scene.ids != BACKGROUND]
    low, high = extent(objects, frame.up)
    path = torch.cat([State(z).p for z in states])
    ends = path.amin(0), path.amax(0)
    middle, reach = (ends[0] + ends[1]) / 2, float((ends[1] - ends[0]).norm()) / 2
    radius = reach + DISC * (high - low)
    drawn = []
    given = layout.floor_origin is FloorOrigin.GIVEN
    assumed = layout.floor_origin.assumed  # then nothing of the floor is captured
    if layout.endless and (assumed or (layout.alone and given)):
        drawn.append(floor_disc(frame, middle, radius))
    elif given:
        drawn.append(_missing(floor_disc(frame, middle, radius), layout, bodies, states))
    elif fixed.lower is not None and _reaches(layout, bodies, states, fixed.lower):
        below = WorldFrame.of_floor(
            frame.up, frame.floor + fixed.lower / frame.scale, scale=frame.scale
        )
        drawn.append(_beside(floor_disc(below, middle, radius), frame, fixed))
    center = frame.to_physics(middle)
    drawn += [panel(frame, *_patch(plane, center, radius * frame.scale)) for plane in spec.planes]
    drawn += [panel(frame, *face) for box in spec.boxes for face in _faces(box)]
    drawn = [each for each in drawn if len(each)]
    return join(layout.scene, *drawn) if drawn else layout.scene


def _missing(
    disc: GaussianScene, layout: Layout, bodies: Sequence[Body], states: Sequence[StateTensor]
) -> GaussianScene:
    """The part of a disc in an invisible floor that is not captured, if an object lands there."""
    from scipy.spatial import cKDTree

    rest = layout.scene.plain[layout.static]
    x = layout.frame.to_physics(rest.means[rest.opacities >= VISIBLE]).double().numpy()
    for body, z in zip(bodies, map(layout.frame.state_to_physics, states), strict=True):
        p = State(z).p.double()
        low = p[:, Y] - support_radius(z) if body.shape is None else lowest(body, z)
        size = 2 * float(support_radius(z[0])) if body.shape is None else body.shape.size
        floor = cKDTree(x[abs(x[:, Y]) < FLUSH * size][:, ::2])
        landed = p[low < TOUCHING * size][:, ::2].numpy()
        if (floor.query(landed)[0] > SHOWN * size).any():
            at = layout.frame.to_physics(disc.means).double().numpy()[:, ::2]
            return disc[torch.from_numpy(floor.query(at)[0] > SHOWN * size)]
    return disc[:0]


def _reaches(
    layout: Layout, bodies: Sequence[Body], states: Sequence[StateTensor], y: float
) -> bool:
    """Whether any object comes down to height ``y``, physics units."""
    return any(
        float(lowest(body, layout.frame.state_to_physics(z)).min()) < y + TOUCHING * body.shape.size
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
