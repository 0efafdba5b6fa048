"""The cameras that the flags ask for, and a warning if they do not see the object."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from ..scene.animation import Animation
    from ..scene.cameras import Camera
    from ..views.viewpoints import Viewpoint

FilmCamera: TypeAlias = "Camera | list[Camera]"  # one for the whole film, or one per frame
CameraPath: TypeAlias = Literal["still", "orbit", "follow"]
LEAST_FRAMES = 1 / 3  # fraction of the frames in which an object must be visible


def fitting_view(
    animation: "Animation",
    size: tuple[int, int],
    path: CameraPath,
    azimuth: float | None,
    elevation: float | None,
) -> FilmCamera:
    """Cameras that see the motion; if no angle is given, picks an unobstructed direction."""
    from ..views.framing import default_camera, follow_path, orbit_path
    from ..views.viewpoints import Viewpoint, clear_viewpoint

    if azimuth is None and elevation is None:
        view = clear_viewpoint(animation, size)
        if view[:3] != Viewpoint()[:3]:
            print(f"camera at {angles(view)}: the default view would not show the object")
    else:
        given = {"azimuth": azimuth, "elevation": elevation}
        view = Viewpoint(**{k: x for k, x in given.items() if x is not None})
    make: Any = {"still": default_camera, "orbit": orbit_path, "follow": follow_path}[path]
    made: FilmCamera = make(
        animation, size, azimuth=view.azimuth, elevation=view.elevation, fov=view.fov
    )
    return made


def angles(view: "Viewpoint") -> str:
    """A viewpoint as flags."""
    from ..views.viewpoints import Viewpoint

    usual, above = Viewpoint(), f" --elevation {view.elevation:g}"
    return f"--azimuth {view.azimuth:g}" + (above if view.elevation != usual.elevation else "")


def hidden(animation: "Animation", views: Sequence[FilmCamera]) -> list[tuple[int, float]]:
    """Views that show the object in too few frames, each with its fraction of frames."""
    from ..views.viewpoints import frames_seen

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
    """A warning in one line: in how many frames the object is visible, and which flag helps.

    ``fixed`` is the flag that fixes the camera, ``json`` the file to replay.
    """
    from ..views.framing import FIELD
    from ..views.viewpoints import SHOWN, clear_viewpoint

    which = (
        ""
        if of == 1
        else f" in view{'s' * (len(found) > 1)} " + ", ".join(str(i) for i, _ in found)
    )
    message = f"the object is seen in {max(part for _, part in found):.0%} of the frames{which}"
    best = clear_viewpoint(animation, size)
    if best.seen < SHOWN:
        return f"{message}; no better direction was found: try --camera-path follow"
    flags = angles(best) if best.fov == FIELD else "--camera-path still without angles"
    if fixed == "--paper":
        file = json or "a json of it (--formats json)"
        return f"{message}; --paper fixes the cameras: newtongs replay {file} {flags} shows it"
    return f"{message}; {flags} shows it" + (f", without {fixed}" if fixed else "")
