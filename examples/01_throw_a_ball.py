"""Throw a ball: build a state, roll it out, and read the result by name.

Run with: python examples/01_throw_a_ball.py
"""

import torch

import newtongs

# A ball of radius 0.3, two units above the floor, thrown forwards and spinning.
z0 = newtongs.make_state(
    p=(0.0, 2.0, 0.0),
    v=(1.5, 2.0, 0.0),
    w=(0.0, 0.0, -4.0),
    s=(0.3, 0.3, 0.3),
    m=1.0,
    e=0.8,
    mu=0.2,
)

# An untrained model is exactly its analytic part: gravity, damping, floor contact.
model = newtongs.GaussianNND()
times = torch.arange(64) / 24
with torch.no_grad():
    states = newtongs.State(model.rollout(z0, times))
    softer = newtongs.State(model.rollout(z0, times, restitution=0.3))

print("  t/s    x      y      y with restitution 0.3")
for k in range(0, 64, 6):
    x, y, _ = states.p[k].tolist()
    print(f"{times[k]:5.2f} {x:6.2f} {y:6.2f} {softer.p[k][1]:6.2f}")
