"""Reading and writing files of Gaussians and of cameras."""

from typing import TYPE_CHECKING

from ..base.lazy import lazy

if TYPE_CHECKING:
    from .camera_files import load_cameras
    from .files import load, save
    from .lgm import to_lgm

__all__ = ["load", "load_cameras", "save", "to_lgm"]

__getattr__ = lazy(__name__, {
    "load": "files", "load_cameras": "camera_files", "save": "files", "to_lgm": "lgm",
})  # fmt: skip
