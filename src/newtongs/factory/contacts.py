"""Contacts of films made without MuJoCo: on the paper's floor, and of the named motions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from .. import motions
from ..base.state import State
from ..base.types import StateTensor, Times
from ..dynamics.floor import support_radius
from ..dynamics.interface import Dynamics
from ..dynamics.rollout import intervals, substeps
from ..dynamics.surfaces import Surface, touch
from ..physics.bodies import Body
from ..physics.contacts import SCENE, Contacts
from ..pipeline.track import RATE


@torch.no_grad()
def floor_contacts(
    dynamics: Dynamics, bodies: Sequence[Body], surfaces: Sequence[Surface], times: Times
) -> Contacts:
    """The paper's floor events: for each substep, the change of momentum at the event."""
    z, rows, start = torch.stack([b.z0.to(dynamics.like) for b in bodies]), [], 0.0
    for frame, dt in enumerate(intervals(times)):
        n = substeps(dt, dynamics.max_dt)
        for k in range(1, n + 1):
            free = dynamics.step(z, dt / n)
            z = touch(free, surfaces, dynamics.jump)
            rows += _events(free, z, frame, start + k * dt / n, dt / n)
        start += dt
    return merged(rows)


def _events(
    before: StateTensor, after: StateTensor, frame: int, time: float, h: float
) -> list[tuple[Any, ...]]:
    """One row for each object whose velocity the event changed."""
    a, b = State(before.double()), State(after.double())
    impulse = b.m * (b.v - a.v)
    up = np.array([0.0, 1.0, 0.0])
    return [
        (frame, time, h, SCENE, i, b.p[i].numpy() * (1 - up), up, impulse[i].numpy())
        for i in torch.nonzero(impulse.abs().sum(-1)).flatten().tolist()
    ]


def merged(rows: Sequence[tuple[Any, ...]]) -> Contacts:
    """Merge the rows of each pair within a frame."""
    out: dict[tuple[Any, ...], list[Any]] = {}
    for row in rows:
        frame, start, h, a, b, point, normal, impulse = row
        key = frame, a, b
        if key in out:
            out[key][2] += h
            out[key][7] = out[key][7] + impulse
        else:
            out[key] = [frame, start, h, a, b, point, normal, impulse]
    return Contacts.of_rows([tuple(row) for row in out.values()])


def motion_contacts(
    name: str, body: Body, index: int, seed: int, seconds: float, fps: float
) -> Contacts:
    """The contacts that a named motion's generator reports, scaled to the object's size and mass.

    They are the motion's labels, of contacts with the floor or wall that the motion assumes.
    """
    frames = len(body.track.times) if body.track is not None else 4
    made = motions.generate(name, 1, seed=seed, frames=frames)
    z = made.states[0].double()
    start = State(body.z0.double())
    factor = float(start.s.mean() / State(z).s[0].mean())
    scale = factor * float(start.m / State(z).m[0])
    rows = []
    for t in torch.nonzero(made.collision[0]).flatten().tolist():
        time = t / RATE
        if time > seconds or t == 0:
            continue
        normal = made.normal[0, t].double()
        axis = normal.abs()  # the impulse is signed along the positive axis
        push = float(made.impulse[0, t]) * scale * axis
        now = body.track.at(time) if body.track is not None else z[t]
        point = State(now).p - float(support_radius(now)) * normal
        frame = max(int(np.ceil(time * fps - 1e-9)) - 1, 0)
        rows.append((frame, time, 0.0, SCENE, index, point.numpy(), normal.numpy(), push.numpy()))
    return merged(rows)


def joined(*parts: Contacts) -> Contacts:
    """Several tables joined and sorted."""
    columns = [np.concatenate(x) for x in zip(*parts, strict=True)]
    order = np.lexsort((columns[4], columns[3], columns[0]))
    return Contacts(*(x[order] for x in columns))
