"""Which motions the figures show unless others are named."""

# The paper shows 14 motions and does not name them. These stand for what its text says of them:
# ballistic, bouncing, rolling, oscillating and orbiting motion, with contact and without.
MAIN_MOTIONS = (
    "free_fall", "throw_and_land", "vertical_launch", "tumbling_fall", "wind_drag_projectile",
    "bouncing_on_plane", "damped_bouncing", "rolling_with_friction", "rolling_then_collision",
    "sliding_then_stop", "pendulum_damped_oscillation", "spring_oscillation",
    "circular_orbital_motion", "spiral_orbit_decay",
)  # fmt: skip
PANEL_MOTIONS = ("bouncing_on_plane", "vertical_launch", "throw_and_land")
