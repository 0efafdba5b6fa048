"""What ``newtongs inspect`` says about a scene: as text, and as json."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .console import print_table

if TYPE_CHECKING:
    import torch

    from ..scene.gaussians import GaussianScene
    from ..scene.world_frame import WorldFrame
    from ..segment.floor.finding import FloorPlane
    from ..views.inventory import Entry

LISTED = 20  # things in the table; the json has all


def report_gaussians(scene: "GaussianScene") -> None:
    """Print how many Gaussians there are, where, and how large they are."""
    from ..scene.gaussians import quantiles
    from ..scene.similarity import VISIBLE

    low, high = scene.bounds()
    print(f"{len(scene):,} Gaussians, colour of SH degree {scene.sh_degree}")
    print(f"bounds {numbers(low)} to {numbers(high)}")
    faint = (scene.opacities < VISIBLE).float().mean().item()
    sizes = quantiles(scene.scales.amax(-1), (0.05, 0.5, 0.95))
    print(f"largest radius of a Gaussian: {numbers(sizes)} (5, 50, 95 %); {faint:.0%} faint")
    marked = [i for i in scene.object_ids if i >= 0]
    if marked:
        print(f"marked objects: {marked}; use --select id:{marked[0]}")


def gaussians_json(scene: "GaussianScene") -> dict[str, Any]:
    """The same as json."""
    return {
        "gaussians": len(scene), "sh_degree": scene.sh_degree,
        "bounds": [x.tolist() for x in scene.bounds()],
        "marked_objects": [i for i in scene.object_ids if i >= 0],
    }  # fmt: skip


def report_floors(floors: "Sequence[FloorPlane]") -> None:
    """Print up and floor, and, if they are in doubt, how to choose another."""
    from ..views.floor_flags import flags_for

    floor, *others = floors
    print(f"floor: {floor.description}; at {floor.height:.4g} along up, score {floor.score:.2f}")
    if floor.doubt:
        print(f"doubt: {floor.doubt}")
        for other in others:
            score = f"score {other.score:.2f}" if other.score else other.description
            print(f"  or {' '.join(flags_for(other, floor))} ({score})")


def report_unit(metres: float | None, doubt: str) -> None:
    """Print where the unit comes from, and what speaks against it."""
    if metres is None:
        print("unit: not told by the scene; the main object is taken to be half a metre large")
    else:
        print(f"unit: a scene unit is {metres:.3g} m, by the height of ceiling and furniture")
    if doubt:
        print(f"uncertain: {doubt}")


def floors_json(floors: "Sequence[FloorPlane]") -> dict[str, Any]:
    """The same as json; the alternatives always."""
    from ..views.floor_flags import flags_for

    best, doubt = floors[0], floors[0].doubt
    each = [
        {
            "up": floor.up.tolist(), "floor": floor.height, "score": floor.score,
            "kind": floor.kind, "flags": " ".join(flags_for(floor, best)),
        }
        for floor in floors
    ]  # fmt: skip
    told = None if doubt is None else {"about": doubt.about, "text": doubt.text, "do": doubt.advice}
    del each[0]["flags"]
    return {**each[0], "doubt": told, "alternatives": each[1:]}


def report_things(
    entries: "Sequence[Entry]", world: "WorldFrame", names: "Mapping[str, str]"
) -> None:
    """Print a table of the things with the selectors to pass to --select, and known names."""
    from rich.table import Table
    from rich.text import Text

    for selector, name in names.items():
        if selector.startswith("id:"):  # the table has clusters only
            print(f"--select {selector}: {name}")
    if not entries:
        return
    named = any(e.select in names for e in entries)
    print(f"metres, with {world.scale:.3g} of them in a scene unit; y is above the floor")
    table = Table(title="object-like clusters, best first", title_justify="left")
    for heading in ("--select", "Gaussians", "centre x y z", "size x y z", "stands on", "score"):
        table.add_column(heading, justify="left" if heading in LEFT else "right")
    if named:
        table.add_column("name")
    for e in entries[:LISTED]:
        center, size = (" ".join(f"{v:.2f}" for v in x) for x in (e.center, e.size))
        last = [Text(names.get(e.select, ""))] if named else []  # a name is no markup
        table.add_row(
            e.select, f"{e.gaussians:,}", center, size, standing(e), f"{e.score:.3f}", *last
        )
    print_table(table)
    if len(entries) > LISTED:
        print(f"and {len(entries) - LISTED} more that are less object-like; --json lists all")


LEFT = ("--select", "stands on")


def standing(entry: "Entry") -> str:
    """What a thing stands on, in words."""
    if entry.stands_on == "floor":
        return "floor"
    if entry.stands_on == "nothing":
        return f"nothing, {entry.above_floor:.2f} up"
    return f"{entry.stands_on} at {entry.above_floor:.2f}"


def things_json(
    entries: "Sequence[Entry]", numbered: dict[str, bool], names: "Mapping[str, str]"
) -> list[dict[str, Any]]:
    """The things; ``numbered`` says which have their number in the picture, if one was drawn.

    Those that a namer has named have a name.
    """
    from ..views.inventory import to_json

    return [
        to_json(e)
        | {"numbered": numbered.get(e.select, False)}
        | ({"name": names[e.select]} if e.select in names else {})
        for e in entries
    ]


def numbers(x: "torch.Tensor") -> str:
    """Format a few numbers briefly."""
    return " ".join(f"{v:.3g}" for v in x.tolist())
