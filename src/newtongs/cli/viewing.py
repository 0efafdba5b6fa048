"""Cameras of a film as the flags ask for them, and a word where they do not see the object."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from ..render.viewpoints import Viewpoint
    from ..scene.animation import Animation
    from ..scene.cameras import Camera

View: TypeAlias = "Camera | list[Camera]"  # for the whole film, or one a frame
CameraPath: TypeAlias = Literal["still", "orbit", "follow"]
LEAST_FRAMES = 1 / 3  # in which an object must be seen


def fitting_view(
    animation: "Animation",
    size: tuple[int, int],
    path: CameraPath,
    azimuth: float | None,
    elevation: float | None,
) -> View:
    """Cameras that see the motion; where no angle is given, from a side where nothing hides it."""
    from ..render.viewpoints import Viewpoint, clear_viewpoint
    from ..scene.framing import default_camera, follow_path, orbit_path

    if azimuth is None and elevation is None:
        view = clear_viewpoint(animation, size)
        if view[:3] != Viewpoint()[:3]:
            print(f"camera at {angles(view)}: from the usual side the object would be hidden")
    else:
        given = {"azimuth": azimuth, "elevation": elevation}
        view = Viewpoint(**{k: x for k, x in given.items() if x is not None})
    make: Any = {"still": default_camera, "orbit": orbit_path, "follow": follow_path}[path]
    made: View = make(animation, size, azimuth=view.azimuth, elevation=view.elevation, fov=view.fov)
    return made


def angles(view: "Viewpoint") -> str:
    """As the flags have them."""
    from ..render.viewpoints import Viewpoint

    usual, above = Viewpoint(), f" --elevation {view.elevation:g}"
    return f"--azimuth {view.azimuth:g}" + (above if view.elevation != usual.elevation else "")


def hidden(animation: "Animation", views: Sequence[View]) -> list[tuple[int, float]]:
    """Views that show the object in too few frames, and in which part of the frames they do."""
    from ..render.viewpoints import frames_seen

    parts = [frames_seen(animation, view) for view in views]
    return [(i, part) for i, part in enumerate(parts) if part < LEAST_FRAMES]


def hidden_line(
    animation: "Animation",
    size: tuple[int, int],
    found: list[tuple[int, float]],
    of: int,
    *,
    fixed: str | None,
    json: Path | None,
) -> str:
    """One line that says what is not seen, and which flag helps.

    ``fixed`` is the flag that holds the camera where it is, ``json`` the file to replay.
    """
    from ..render.viewpoints import SHOWN, clear_viewpoint
    from ..scene.framing import FIELD

    which = (
        ""
        if of == 1
        else f" in view{'s' * (len(found) > 1)} " + ", ".join(str(i) for i, _ in found)
    )
    said = f"the object is seen in {max(part for _, part in found):.0%} of the frames{which}"
    best = clear_viewpoint(animation, size)
    if best.seen < SHOWN:
        return f"{said}; no better side was found: something surrounds it (--camera-path follow)"
    how = angles(best) if best.fov == FIELD else "--camera-path still without angles"
    if fixed == "--paper":
        where = json or "a json of it (--formats json)"
        return f"{said}; --paper fixes the cameras: newtongs replay {where} {how} shows it"
    return f"{said}; {how} shows it" + (f", without {fixed}" if fixed else "")
