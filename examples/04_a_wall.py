"""Throw a ball against a wall with both engines, then down a ramp onto a box.

Planes and boxes are in physics units: x to the right, y up, the object about half a unit.

Run with: python examples/04_a_wall.py
"""

import newtongs
from newtongs import Physics, State
from newtongs.dynamics import Box, Plane

# Everything with n . x < d is solid: this wall is at x = 2 and faces left.
wall = Plane(normal=(-1, 0, 0), offset=-2)
ramp = Plane(normal=(0.4, 1, 0), offset=-0.5)
step = Box(low=(1.5, 0, -1), high=(2.5, 0.4, 1))

for contact in ("world", "paper"):
    animation = newtongs.animate(
        "desk_blue_sphere",
        velocity=(4, 1, 0),
        spin=(0, 0, 0),
        attenuation=0.02,  # paper engine only: fraction of the floor speed lost per bounce
        seconds=1.5,
        solids=[wall],
        physics=Physics(contact=contact),
    )
    x = State(animation.world.state_to_physics(animation.states[0])).p[:, 0]
    for t, at in zip(animation.times[::12].tolist(), x[::12].tolist(), strict=True):
        print(f"{contact}: {t:.1f} s  x = {at:5.2f}")
    assert x.max() < 2
    assert x[-1] < x.max() - 0.1

animation = newtongs.animate(
    "desk_blue_sphere", velocity=(1, 2, 0), solids=[ramp, step], seconds=1.0
)
print(f"with the ramp and the box: {len(animation.scene):,} Gaussians")
