"""Evaluate your own predictor against the paper's baselines on a small State-32.

Run with: python examples/02_your_own_predictor.py
"""

import tempfile

import torch
from torch import Tensor

from newtongs.base.state import State, replace
from newtongs.dynamics import BASELINES
from newtongs.paper.datasets import state32
from newtongs.paper.evaluation import evaluate


def moon(z0: Tensor, times: Tensor) -> Tensor:
    """Free flight under a sixth of gravity: ``(B, 22), (T,) -> (B, T, 22)``."""
    x, t = State(z0[:, None]), times[:, None]
    gravity = torch.tensor([0.0, -9.81 / 6, 0.0])
    return replace(z0[:, None], p=x.p + t * x.v + 0.5 * t**2 * gravity, v=x.v + t * gravity)


with tempfile.TemporaryDirectory() as folder:
    state32.build(folder, splits=["val_id"], per_motion=32)
    report = evaluate(folder, splits=["val_id"], methods={**BASELINES, "moon": moon})

print(f"{'method':20}  traj    fde    vel")
for name, scores in report["val_id"].items():
    print(f"{name:20} {scores['traj']:6.3f} {scores['fde']:6.3f} {scores['vel']:6.3f}")
