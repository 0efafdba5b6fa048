"""Simulate many objects step by step: push, step, inspect, go back, push again.

Run with: python examples/07_step_by_step.py
"""

import torch

import newtongs
from newtongs import Simulation, State
from newtongs.physics import Body, Shape

# A stack of four boxes, and a ball in front of it.
boxes = [
    Body(newtongs.make_state(p=(1.5, 0.2 + 0.4 * i, 0), e=0.2), Shape.box((0.2, 0.2, 0.2)))
    for i in range(4)
]
ball = Body(newtongs.make_state(p=(-1, 0.3, 0), m=3.0, e=0.4), Shape.ball(0.3))
simulation = Simulation([ball, *boxes])

simulation.step(1.0)
print("asleep after one second:", simulation.asleep.tolist())
before = simulation.snapshot()

simulation.push(0, velocity=(6, 1.5, 0))
path = simulation.run(simulation.time + torch.arange(1, 49) / 24)  # (48, 5, 22)
tops = State(path).p[:, 1:, 1].amax(1)
for t, top in zip(range(0, 48, 8), tops[::8].tolist(), strict=True):
    print(f"{t / 24:.2f} s  top of the stack: {top:.2f}")
assert tops[-1] < tops[0] - 0.3

simulation.restore(before)  # exactly, bit for bit
simulation.push(0, velocity=(2, 0, 0))
gentle = simulation.run(simulation.time + torch.arange(1, 49) / 24)
print(f"after a gentle push: {State(gentle).p[-1, 1:, 1].max():.2f}")
