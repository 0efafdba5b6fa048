"""Captions: a film in one sentence."""

import math
from collections.abc import Sequence

import numpy as np

from ..base.state import State
from ..physics.contacts import SCENE
from ..samples import TEMPLATES
from .film import Film
from .scenes import SceneSource

THINGS = {
    "bowling": ("bowling ball", *["bowling pin"] * 10),
    "kitchen_table": ("cereal box", "tin", "mug", "orange"),
}
PLACES = {"bowling": "bowling lane", "kitchen_table": "kitchen table"}
MOVED = 0.05  # metres: smaller displacements are not mentioned
PATHS = {"still": "a still camera", "orbit": "a camera that goes around it",
         "follow": "a camera that follows it"}  # fmt: skip
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def thing(source: SceneSource, select: str) -> str:
    """The name of an object, as far as it is known."""
    if source.source in TEMPLATES:
        return TEMPLATES[source.source].thing
    names = THINGS.get(source.source, ())
    word, _, number = select.partition(":")
    if word == "id" and int(number) < len(names):
        return names[int(number)]
    return "whole scene" if select == "all" else "object"


def place(source: SceneSource) -> str:
    """The name of the place."""
    if source.source in TEMPLATES:
        return TEMPLATES[source.source].place
    return PLACES.get(source.source, source.id.replace("_", " "))


def caption(film: Film, source: SceneSource) -> str:
    """What is thrown, what it hits, what falls, and how the camera moves."""
    names = [thing(source, select) for select in film.cast.selects]
    pushed = film.cast.setup.layout.pushed
    starts = [f"{one_each([name])} {_motion(film, i)}" for i, name in enumerate(names[:pushed])]
    said = " and ".join(starts)
    said = said[0].upper() + said[1:]
    hit = _hit(film, names)
    more = [hit] if hit else []
    fallen = _count(_moved(film)[pushed:])
    if fallen:
        more.append(f"{fallen} of the other things moves" if fallen == "one"
                    else f"{fallen} of the other things move")  # fmt: skip
    views = sorted({PATHS[view.path] for view in film.draw.views})
    seen = f"seen by {' and '.join(views)}"
    return f"{', '.join([said, *more])}; the place is: {place(source)}; {seen}."


def one_each(names: Sequence[str]) -> str:
    """The names joined, each with its article."""
    return " and ".join(f"{'an' if name[0] in 'aeiou' else 'a'} {name}" for name in names)


def _motion(film: Film, index: int) -> str:
    """How an object starts to move."""
    if film.draw.motion is not None:
        return f"moves in {film.draw.motion.replace('_', ' ')}"
    v = State(film.states[0, index]).v.numpy()
    speed = float(np.linalg.norm(v))
    steep = math.degrees(math.atan2(v[1], math.hypot(v[0], v[2])))
    way = "thrown up" if steep > 55 else "tossed" if steep > 20 else "pushed"
    return f"is {way} at {speed:.1f} metres a second"


def _hit(film: Film, names: list[str]) -> str:
    """What the pushed objects hit."""
    first, second = film.contacts.first, film.contacts.second
    pushed = film.cast.setup.layout.pushed
    met = {int(b) for a, b in zip(first, second, strict=True) if a != SCENE and a < pushed <= b}
    if met:
        words = sorted({names[i] for i in met})
        return f"{'hits' if pushed == 1 else 'they hit'} {one_each(words)}"
    if film.draw.motion is not None or not len(first):
        return ""
    return "touches down" if pushed == 1 else "they touch down"


def _moved(film: Film) -> np.ndarray:
    """Which objects ``(K,)`` end up elsewhere."""
    p = State(film.states).p
    return ((p[-1] - p[0]).norm(dim=-1) > MOVED).numpy()


def _count(mask: np.ndarray) -> str:
    """How many, in words; empty for none."""
    n = int(mask.sum())
    return "" if not n else NUMBERS[n] if n < len(NUMBERS) else str(n)
