"""Place the objects in their scene, on a support, and set the physics frame and its unit.

The physics unit is the metre: gravity is 9.81. A capture has no unit. If none is given and no room
tells it (:mod:`newtongs.segment.metres`), the unit is chosen so that the scene's main object, the
one that "auto" selects, is about half a metre large. So a velocity means the same throw and a
position the same point, whichever objects are selected.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace as changed

import torch

from ..base.errors import InputError, InputWarning, argument
from ..scene.gaussians import BACKGROUND, GaussianScene, join, quantiles
from ..scene.similarity import VISIBLE, extent, moved, set_into
from ..scene.world_frame import WorldFrame
from ..segment.drop_site import share_inside, support_height
from ..segment.floor.finding import find_floor
from ..segment.metres import metres_per_unit, width
from .pick import NEW, Layout, lifted_scale, main_object, seen_later
from .source import on_cpu, open_source
from .spec import FloorOrigin, Place, SceneSpec, UnitOrigin

TYPICAL_SCALE = 0.27  # lifted scale in physics units: the middle of the model's training range
SUNK = 0.25  # fraction of its height an object may reach below an estimated floor, which then sinks
# Height from which a lone object drops onto the floor assumed below it, over its own height. A film
# shows all of the way: a fall by the whole height would leave a third of the picture to the object.
FALL = 0.5
OUR_SIZE = 0.9  # size of an object placed in a built-in scene, like that scene's own objects
OUTSIDE = 0.02  # fraction of the background at either end that does not count for its extent
TOO_WIDE = 12.0  # metres: a scene as wide around an object of half a metre may be of another scale
INSIDE = 0.01  # fraction of an object inside other objects above which a warning is given


def set_into_place(layout: Layout, place: Place, meters_per_unit: float | None) -> Layout:
    """Put the objects, without their surroundings, above the support in another scene."""
    source = open_source(place.scene, place.axes)
    background = on_cpu(source.scene)
    given = None if place.up is None else WorldFrame.of_floor(place.up, place.floor_height or 0.0)
    if source.ours and given is None:
        given = WorldFrame.identity()
    floor = find_floor(background, up=None if given is None else given.up)
    if given is None and floor.kind == "virtual":
        raise InputError(
            "no floor found in the background; give it with "
            f"{argument('Place(up=..., floor_height=...)')}, or use a built-in scene"
        )
    doubt = floor.doubt if given is None else None
    if doubt is not None:
        doubt = doubt._replace(
            text=f"background: {doubt.text}", advice="give --ground UX UY UZ HEIGHT"
        )
    frame = given or WorldFrame.of_floor(floor.up, floor.height)
    main = main_object(background, floor.carrying)
    reference = None if main is None else lifted_scale(background.plain[main.mask])
    marked = background.ids != BACKGROUND
    if marked.any() and not marked.all():
        background = background[~marked]  # the background's own object is removed
    layout = seen_later(layout)
    movable = layout.scene.ids != BACKGROUND
    objects = layout.scene[movable]
    size = OUR_SIZE if source.ours and place.up is None else None
    sized = set_into(
        objects, layout.frame.up, background, frame, height=place.height, size=size, turn=place.turn
    )
    metres, wide = None, None
    if not source.ours and meters_per_unit is None:
        metres, wide = metres_per_unit(background, floor), width(background)
    scale = (
        meters_per_unit or metres or TYPICAL_SCALE / (reference or lifted_scale(sized.object(0)))
    )
    shifted = _shifted(sized, frame, scale, place.at)
    if place.at is not None:
        _warn_outside(shifted, background, frame, scale, place.at)
    placed = _on_support(shifted, background, frame, place.lift)
    plain = background.replace(ids=torch.full_like(background.ids, BACKGROUND))
    return changed(
        layout, scene=join(placed, plain), frame=frame, floor=changed(floor, doubt=doubt),
        rows=torch.cat([layout.rows[movable], torch.full((len(plain),), NEW)]),
        floor_origin=FloorOrigin.FOUND if given is None else FloorOrigin.KNOWN, moved=True,
        reference=reference, metres=metres, width=wide,
    )  # fmt: skip


def _shifted(
    objects: GaussianScene, frame: WorldFrame, scale: float, at: Sequence[float] | None
) -> GaussianScene:
    """Move the centre of the objects to ``at``, physics units along x and z."""
    if at is None:
        return objects
    middle = frame.to_physics(objects.means.double().mean(0))
    x, z = (float(v) / scale for v in at)
    offset = torch.tensor([x - float(middle[0]), 0.0, z - float(middle[2])], dtype=torch.float64)
    return moved(objects, shift=frame.to_scene(offset) - frame.to_scene(torch.zeros(3).double()))


def _warn_outside(
    objects: GaussianScene, background: GaussianScene, frame: WorldFrame, scale: float,
    at: Sequence[float],
) -> None:  # fmt: skip
    """Warn if the objects are outside the background, with nothing of it above or below them."""
    visible = background.opacities >= VISIBLE
    x = frame.to_physics(background.means[visible] if visible.any() else background.means)
    x = scale * x.double()[:, ::2]
    own = scale * frame.to_physics(objects.means).double()[:, ::2]
    low, high = quantiles(x, (OUTSIDE, 1 - OUTSIDE))
    first, last = own.amin(0), own.amax(0)
    outside = ((last < low) | (first > high)).any()
    if not outside or ((x >= first) & (x <= last)).all(-1).any():
        return
    (x0, z0), (x1, z1) = low.tolist(), high.tolist()
    message = f"the object is at x {at[0]:g}, z {at[1]:g}, outside the background, which extends "
    message += (
        f"from {x0:.3g} to {x1:.3g} in x and from {z0:.3g} to {z1:.3g} in z (physics units); "
    )
    message += f"change {argument('at', 'X Z')}"
    warnings.warn(InputWarning(message), stacklevel=2)


def _on_support(
    objects: GaussianScene, background: GaussianScene, frame: WorldFrame, lift: float
) -> GaussianScene:
    """Put the objects above their support; warn if they start inside other objects."""
    low, high = extent(objects, frame.up)
    support = support_height(objects, background, frame)
    rise = support + lift * (high - low) - low
    placed = moved(objects, shift=(rise * frame.up).float())
    share = share_inside(placed, background, frame)
    if share > INSIDE:
        message = f"{share:.0%} of the object starts inside other objects; move it with "
        message += f"{argument('at', 'X Z')}, or make it smaller with {argument('height')}"
        warnings.warn(InputWarning(message), stacklevel=2)
    return placed


def settle(layout: Layout, spec: SceneSpec) -> Layout:
    """Set the physics frame: the floor as given or found, and the unit.

    A scene unit is ``meters_per_unit`` physics units. By default it is 1 in the paper's mode; else
    as a room tells it; else it gives the main object the typical size of the training data.
    """
    height = spec.floor_height if spec.place is None else None
    pushed = (layout.scene.ids != BACKGROUND) & (layout.scene.ids < layout.pushed)
    low, high = extent(layout.scene.plain[pushed], layout.frame.up)
    size, found = high - low, layout.frame.floor
    origin, endless = layout.floor_origin, False
    if height is not None:
        floor, origin, endless = height, FloorOrigin.GIVEN, True
    elif origin is FloorOrigin.KNOWN:
        floor = found
    elif layout.floor.kind == "virtual" and layout.alone:
        floor, origin, endless = (
            low - (1.0 if spec.physics.literal else FALL) * size,
            FloorOrigin.BELOW_OBJECT,
            True,
        )
    else:
        if layout.floor.kind == "virtual" and not layout.moved:
            origin, endless = FloorOrigin.ASSUMED, layout.floor.plinth is None
        else:
            origin = FloorOrigin.FOUND
        floor = min(found, low) if low > found - SUNK * size else found
    if low < floor - SUNK * size and (endless or origin is FloorOrigin.FOUND):
        raise InputError(
            f"the object reaches {floor - low:.3g} below the floor at {floor:.3g} (scene units "
            f"along up {[round(x, 3) for x in layout.frame.up.tolist()]}); "
            f"give {argument('floor_height')} and {argument('up')}, or select less of it"
        )
    scale, unit_origin = _chosen_unit(layout, spec)
    frame = WorldFrame.of_floor(layout.frame.up, floor, scale=scale)
    return changed(
        layout, frame=frame, floor_origin=origin, endless=endless, unit_origin=unit_origin
    )


def _chosen_unit(layout: Layout, spec: SceneSpec) -> tuple[float, UnitOrigin]:
    """Physics units per scene unit, and where they come from."""
    if spec.meters_per_unit is not None:
        return spec.meters_per_unit, UnitOrigin.GIVEN
    if spec.physics.literal:
        return 1.0, UnitOrigin.SCENE
    if layout.metres is not None:
        return layout.metres, UnitOrigin.ROOM
    main = layout.reference or lifted_scale(layout.scene.plain.object(0))
    return TYPICAL_SCALE / main, UnitOrigin.OBJECT


def unit_doubt(width: float | None, scale: float) -> str:
    """Why a unit that an object set may be wrong; empty if nothing speaks against it.

    Args:
        width: of the scene, in its units; None if it says nothing.
        scale: physics units per scene unit.
    """
    if width is None or width * scale < TOO_WIDE:
        return ""
    return (
        f"with the main object half a metre large, the scene is {width * scale:.3g} metres wide "
        f"({width:.3g} units); if it is not, give --meters-per-unit"
    )
