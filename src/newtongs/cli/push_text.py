"""Parse the text of --push, and print a report of an animation."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from ..base.errors import InputError

if TYPE_CHECKING:
    from ..pipeline.spec import ObjectSpec
    from ..scene.animation import Animation

UNITS = {  # where the unit comes from, in words
    "object": ", by the main object, taken to be half a metre large",
    "room": ", by the height of ceiling and furniture",
    "given": ", as given",
    "scene": "",
}
STILL = 0.02  # units or radians per second; slower motion is reported as rest


def parse_push(text: str) -> "ObjectSpec":
    """Parse a push such as "select=cluster:0 velocity=1,3,0 restitution=0.8"."""
    from ..pipeline.spec import ObjectSpec

    known = {f.name for f in fields(ObjectSpec)}
    given: dict[str, Any] = {}
    for word in _split(text):
        key, equals, value = word.partition("=")
        if key in given:
            raise InputError(f"push: {key} is given twice")
        if not equals or key not in known:
            raise InputError(
                f"push: expected NAME=VALUE such as velocity=1,3,0, NAME one of "
                f"{', '.join(sorted(known))}; got {word!r}"
            )
        try:
            given[key] = _value(key, value)
        except ValueError:
            wanted = "three numbers x,y,z" if key in ("velocity", "spin") else "one number"
            raise InputError(f"push: {key}: expected {wanted}, got {value!r}") from None
    return ObjectSpec(**given)


def _split(text: str) -> list[str]:
    """Split as a shell would."""
    try:
        return shlex.split(text)
    except ValueError as error:  # an unclosed quote
        raise InputError(f"push: {str(error).lower()} in {text!r}") from None


def _value(key: str, value: str) -> Any:
    if key in ("select", "motion"):
        return value
    if key in ("velocity", "spin"):
        return tuple(float(x) for x in value.split(","))
    return float(value)


def report(animation: "Animation") -> None:
    """Print what was found and done, so that the user can check it."""
    from ..base.state import State
    from ..base.types import GRAVITY, Y

    about, up = animation.about, [round(x, 3) + 0.0 for x in animation.world.up.tolist()]
    pushed = [one for one in about.objects if not one.loose and one.copy_of is None]
    for one in pushed:
        count = int((animation.scene.ids == one.id).sum())
        selected = re.sub(r"^object (\d+)", r"id \1 of the scene", one.selected.split(",")[0])
        print(f"object {one.id}: {selected}; {count:,} of {len(animation.scene):,} Gaussians move")
        at = animation.world.to_physics(State(animation.states[one.id][0]).p)
        push = f"--velocity {short(one.velocity)} --spin {short(one.spin)}"
        push = f"--motion {one.motion}" if one.motion else push
        print(f"  starts at {short(at.tolist())} in physics units; {push}")
        print(f"  {ending(animation, one.id)}")
    copies = sum(one.copy_of is not None for one in about.objects)
    if copies:
        print(f"copies: {copies} added above the original")
    if any(one.loose for one in about.objects):
        loose = sum(one.loose for one in about.objects)
        print(f"loose: {loose} more objects, asleep until hit")
    gravity = "" if about.gravity == -GRAVITY[Y] else f", gravity {about.gravity:g}"
    print(
        f"floor {about.floor_is}: {animation.world.floor + 0.0:.4g} along up {up}; "
        f"a scene unit is {animation.world.scale:.3g} physics units"
        f"{UNITS.get(about.unit_is, '')}; dynamics {about.dynamics}{gravity}"
    )
    if about.floor_doubt:
        print(f"uncertain: {about.floor_doubt}; run newtongs inspect to see the alternatives")
    if about.unit_doubt:
        print(f"uncertain: {about.unit_doubt}")
    if about.solid_boxes:
        print(f"the scene is solid: {about.solid_boxes:,} boxes")
    for one, miss in zip(pushed, about.goal_missed_by, strict=False):
        print(f"goal: object {one.id} misses it by {miss:.3g} physics units")


def ending(animation: "Animation", index: int) -> str:
    """Where an object ends, and whether it still moves; physics units."""
    from ..base.state import State

    x = State(animation.world.state_to_physics(animation.states[index][-1]))
    speed, turn = float(x.v.norm()), float(x.w.norm())
    at_rest = speed < STILL and turn < STILL
    state = "at rest" if at_rest else f"still moving, {speed:.2g} units/s and {turn:.2g} rad/s"
    return f"ends at {short(x.p.tolist())}, {state}"


def short(numbers: Sequence[float]) -> str:
    """Format numbers briefly, as the flags accept them."""
    return " ".join(f"{round(x, 4) + 0:.3g}" for x in numbers)
