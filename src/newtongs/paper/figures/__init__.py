"""Pictures of the data sets and of the paper, and which motions they show by default."""

# The paper shows 14 motions without naming them. These represent the kinds its text mentions:
# ballistic, bouncing, rolling, oscillating and orbiting motion, with and without contact.
MAIN_MOTIONS = (
    "free_fall", "throw_and_land", "vertical_launch", "tumbling_fall", "wind_drag_projectile",
    "bouncing_on_plane", "damped_bouncing", "rolling_with_friction", "rolling_then_collision",
    "sliding_then_stop", "pendulum_damped_oscillation", "spring_oscillation",
    "circular_orbital_motion", "spiral_orbit_decay",
)  # fmt: skip
PANEL_MOTIONS = ("bouncing_on_plane", "vertical_launch", "throw_and_land")
