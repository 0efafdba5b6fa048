"""What a scene contains: its floor and the objects on it, detected or selected."""

from typing import TYPE_CHECKING

from ..base.lazy import lazy

if TYPE_CHECKING:
    from .floor.finding import FloorPlane, find_floor, find_floors
    from .objects.clusters import Cluster, cluster, label
    from .objects.grouping import (
        assign,
        group_by_masks,
        membership,
        remove,
        select_box,
        select_circle,
        select_sphere,
    )
    from .objects.selection import Selection, select

__all__ = [
    "Cluster",
    "FloorPlane",
    "Selection",
    "assign",
    "cluster",
    "find_floor",
    "find_floors",
    "group_by_masks",
    "label",
    "membership",
    "remove",
    "select",
    "select_box",
    "select_circle",
    "select_sphere",
]

__getattr__ = lazy(__name__, {
    "Cluster": "objects.clusters", "FloorPlane": "floor.finding", "Selection": "objects.selection",
    "assign": "objects.grouping", "cluster": "objects.clusters", "find_floor": "floor.finding",
    "find_floors": "floor.finding", "group_by_masks": "objects.grouping",
    "label": "objects.clusters", "membership": "objects.grouping", "remove": "objects.grouping",
    "select": "objects.selection", "select_box": "objects.grouping",
    "select_circle": "objects.grouping", "select_sphere": "objects.grouping",
})  # fmt: skip
