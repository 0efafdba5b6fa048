"""Motion families by name: the 32 of the benchmark in the paper's order, and further ones."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import Tensor

from ..base.errors import InputError, unknown_name
from .operators import Path
from .sampling import Draw

Generator = Callable[[Draw, Tensor], Path]

# The benchmark's families. Data sets, tables and figures use only these, whatever is registered.
STATE32: tuple[str, ...] = (
    "3d_uniform_motion", "3d_acceleration_gravity", "free_fall", "projectile_motion",
    "airplane_flight", "helical_flight", "circular_orbital_motion", "3d_rotation", "size_changing",
    "pendulum_damped_oscillation", "slope_sliding", "rolling_with_friction", "bouncing_on_plane",
    "object_wall_collision", "nonlinear_force_field", "non_rigid_deformation",
    "hybrid_collision_impulse", "figure_eight_flight", "spiral_orbit_decay", "damped_bouncing",
    "rolling_then_collision", "sliding_then_stop", "throw_and_land", "vertical_launch",
    "wind_drag_projectile", "spring_oscillation", "stop_and_go_motion", "two_stage_motion",
    "banked_airplane_turn", "orbit_with_precession", "tumbling_fall", "scale_pulse",
)  # fmt: skip


@dataclass(frozen=True)
class Family:
    """One motion family."""

    name: str
    category: str
    height: float | None  # class height of an airborne family, None on the floor
    generate: Generator

    @property
    def index(self) -> int | None:
        """Position in the paper's list, 0 to 31; None outside State-32."""
        return STATE32.index(self.name) if self.name in STATE32 else None

    @property
    def entropy(self) -> int:
        """The family's part of a seed: its index, or outside State-32 a digest of its name.

        So its draws do not depend on other registered families.
        """
        if self.index is not None:
            return self.index
        return int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:8], "little")

    @property
    def summary(self) -> str:
        """First line of the generator's docstring."""
        return (self.generate.__doc__ or "").strip().partition("\n")[0]


_FAMILIES: dict[str, Family] = {}


def family(
    name: str, category: str = "other", height: float | None = None
) -> Callable[[Generator], Generator]:
    """Register the decorated function as the family ``name``.

    It takes the initial values of N objects and the times ``(T,)``, and returns their
    :class:`Path`. A family outside :data:`STATE32` can be generated like the others; it takes no
    part in the benchmark.

    Args:
        name: a name that no family has.
        category: what kind of motion it is.
        height: at about which the objects start; None for on the floor.
    """

    def register(generate: Generator) -> Generator:
        if name in _FAMILIES:
            raise InputError(
                f"motion {name!r} is already registered; choose another name, "
                "or remove your own with newtongs.motions.unregister"
            )
        _FAMILIES[name] = Family(name, category, height, generate)
        return generate

    return register


def unregister(name: str) -> None:
    """Remove a family of your own; those of State-32 stay."""
    if name in STATE32:
        raise InputError(f"motion {name!r} belongs to State-32 and stays registered")
    del _FAMILIES[get(name).name]


def get(name: str) -> Family:
    """The family called ``name``."""
    if name not in _FAMILIES:
        raise unknown_name("motion", name, names())
    return _FAMILIES[name]


def families() -> Iterator[Family]:
    """All families: State-32 in the paper's order, then others in order of registration."""
    return (_FAMILIES[name] for name in names())


def names() -> tuple[str, ...]:
    """All family names, in the order of :func:`families`."""
    return (*STATE32, *(name for name in _FAMILIES if name not in STATE32))
