"""Add your own motion family: stones that skip over the floor.

Run with: python examples/05_your_own_motion.py
"""

import torch
from torch import Tensor

import newtongs
from newtongs import motions


@motions.family("skipping_stone", "collision")
def skipping_stone(z: motions.Draw, t: Tensor) -> motions.Path:
    """Thrown flat and fast over the floor."""
    p = z.p + z.vec(0.0, 0.3, 0.0)
    v = z.vec(4.0 + z.v[0].abs(), 0.5, 0.2 * z.v[2])
    keep = 1 - 0.2 * z.mu  # fraction of the velocity along the floor kept per hit

    def gravity(t: Tensor, p: Tensor, v: Tensor) -> Tensor:
        return z.vec(0.0, -9.81, 0.0)

    def skip(p: Tensor, v: Tensor) -> tuple[Tensor, Tensor, motions.Events]:
        return motions.floor(z, p, v, height=z.s[1], keep=(keep, keep))

    p, v, events = motions.march(t, p, v, gravity, skip)
    return motions.Path(p, v, w=z.vec(0.0, 12.0, 0.0), events=events)


# Sampled like the other 32: initial values from the paper's ranges, reproducible by seed.
stones = motions.generate("skipping_stone", 512, seed=7)
x = newtongs.State(stones.states)
assert torch.equal(x.z, motions.generate("skipping_stone", 512, seed=7).states)

print("restitution   stones  hits in a second  distance")
e, hits = x.e[:, 0, 0], stones.collision[:, :24].sum(1).float()
for low, high in ((0.35, 0.55), (0.55, 0.75), (0.75, 0.96)):
    chosen = (e >= low) & (e < high)
    way = (x.p[chosen, 24, 0] - x.p[chosen, 0, 0]).mean()
    print(f"{low:.2f} to {high:.2f}  {chosen.sum():6}  {hits[chosen].mean():16.2f}  {way:8.2f}")

# The impulse is the change of momentum; gravity acts until the hit.
k = int(stones.collision[0].nonzero()[0])
before = x.v[0, k - 1, 1] - 9.81 * motions.DT
change = x.m[0, k, 0] * (x.v[0, k, 1] - before)
print(f"first hit of the first stone: impulse {stones.impulse[0, k]:.4f}, m dv {change:.4f}")

# How well does the model trained on State-32 predict a motion it has never seen?
times = torch.arange(motions.FRAMES) * motions.DT
with torch.no_grad():
    predicted = newtongs.State(newtongs.load_pretrained().rollout(x.z[:, 0], times))
error = (predicted.p - x.p).square().sum(-1).mean().sqrt()
still = (x.p[:, :1] - x.p).square().sum(-1).mean().sqrt()
print(f"position error of the trained model {error:.2f}, of standing still {still:.2f}")
print(f"{len(motions.names())} motions are registered; State-32 still has {len(motions.STATE32)}")
