"""Pushes as a person writes them, and an animation as it is told to one."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:
    from ..pushes import Push
    from ..scene.animation import Animation

STILL = 0.02  # units or radians a second: slower than this is rest to the eye


def parse_push(text: str) -> "Push":
    """A push in words: "select=cluster:0 velocity=1,3,0 restitution=0.8"."""
    from ..pushes import Push

    known = {f.name for f in fields(Push)}
    given: dict[str, Any] = {}
    for word in _words(text):
        key, equals, value = word.partition("=")
        if key in given:
            raise InputError(f"push: {key} is given twice")
        if not equals or key not in known:
            raise InputError(
                f'push: expected words such as velocity=1,3,0 of {sorted(known)}, got "{word}"'
            )
        try:
            given[key] = _value(key, value)
        except ValueError:
            need = "three numbers x,y,z" if key in ("velocity", "spin") else "one number"
            raise InputError(f"push: {key} needs {need}, got {value!r}") from None
    return Push(**given)


def _words(text: str) -> list[str]:
    """As a shell would cut them."""
    try:
        return shlex.split(text)
    except ValueError as error:  # a quote that does not end
        raise InputError(f"push: {str(error).lower()} in {text!r}") from None


def _value(key: str, value: str) -> Any:
    if key in ("select", "motion"):
        return value
    if key in ("velocity", "spin"):
        return tuple(float(x) for x in value.split(","))
    return float(value)


def tell(animation: "Animation") -> None:
    """What was found, for the person to judge."""
    from ..state import State

    about, up = animation.about, [round(x, 3) + 0.0 for x in animation.world.up.tolist()]
    pushed = [one for one in about.objects if not one.loose]
    for one in pushed:
        count = int((animation.scene.ids == one.id).sum())
        said = re.sub(r"^object (\d+)", r"id \1 of the scene", one.selected.split(",")[0])
        print(f"object {one.id}: {said}; {count:,} of {len(animation.scene):,} Gaussians move")
        at = animation.world.to_physics(State(animation.states[one.id][0]).p)
        how = f"--motion {one.motion}" if one.motion else f"--velocity {short(one.velocity)} "
        how += "" if one.motion else f"--spin {short(one.spin)}"
        print(f"  at {short(at.tolist())} in physics units; {how}")
        print(f"  {ending(animation, one.id)}")
    if len(about.objects) > len(pushed):
        print(f"loose: {len(about.objects) - len(pushed)} more objects, still until they are hit")
    print(
        f"floor {about.floor_is}: {animation.world.floor + 0.0:.4g} along up {up}; "
        f"a scene unit is {animation.world.scale:.3g} physics units; dynamics {about.dynamics}"
    )
    if about.floor_doubt:
        print(f"doubt: {about.floor_doubt}; newtongs inspect draws both")
    if about.solid_boxes:
        print(f"the scene is solid: {about.solid_boxes:,} boxes")
    for one, miss in zip(pushed, about.goal_missed_by, strict=False):
        print(f"goal: object {one.id} misses it by {miss:.3g} physics units")


def ending(animation: "Animation", index: int) -> str:
    """Where an object is at the end, and whether it still moves; physics units."""
    from ..state import State

    x = State(animation.world.state_to_physics(animation.states[index][-1]))
    speed, turn = float(x.v.norm()), float(x.w.norm())
    still = speed < STILL and turn < STILL
    how = "at rest" if still else f"still moving, {speed:.2g} units/s and {turn:.2g} rad/s"
    return f"ends at {short(x.p.tolist())}, {how}"


def short(numbers: Sequence[float]) -> str:
    """Numbers for the eye, and for the next command."""
    return " ".join(f"{round(x, 4) + 0:.3g}" for x in numbers)
