"""Write your own dynamics model: a ball in syrup on the moon, with a wind.

A model returns the rate of every channel of the 22-number state, gravity included. `Dynamics`
provides the rest: an RK4 step, the paper's response at the floor, the longest step. The model works
wherever the built-in ones do: in `animate`, in a `Simulation`, in a search.

Run with: python examples/06_your_own_dynamics.py
"""

import torch
from torch import Tensor

import newtongs
from newtongs import Physics, State
from newtongs.dynamics import Dynamics


class Syrup(Dynamics):
    """Lunar gravity, strong drag, and a wind along z."""

    def rates(self, z: Tensor) -> Tensor:
        """Time derivative of the states ``(B, 22)``."""
        x, dz = State(z), torch.zeros_like(z)
        rate = State(dz)
        rate.p.copy_(x.v)
        rate.q.copy_(newtongs.base.rotations.derivative(x.q, x.w))
        rate.v.copy_(torch.tensor([0.0, -1.62, 0.5]).to(z) - 0.8 * x.v / x.m)
        rate.w.copy_(-0.8 * x.w)
        return dz


for name, model in (("earth", "analytic"), ("syrup", Syrup())):
    animation = newtongs.animate(
        "desk_blue_sphere", velocity=(2, 3, 0), seconds=1.0, physics=Physics(model)
    )
    path = State(animation.world.state_to_physics(animation.states[0])).p
    for t, (x, y, z) in zip(animation.times[::8].tolist(), path[::8].tolist(), strict=True):
        print(f"{name}: {t:.2f} s  x {x:5.2f}  y {y:5.2f}  z {z:5.2f}")

# The same model in a simulation stepped by hand.
ball = newtongs.physics.Body(
    newtongs.make_state(p=(0, 2, 0), s=(0.2, 0.2, 0.2)), newtongs.physics.Shape.ball(0.2)
)
simulation = newtongs.Simulation([ball], Syrup())
simulation.step(1.0)
fallen = 2 - float(State(simulation.states).p[0, 1])
print(f"fallen in one second: {fallen:.2f} units")
assert 0.5 < fallen < 0.81  # 1.62 / 2 without drag
