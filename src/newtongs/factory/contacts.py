"""Contacts of films that MuJoCo has no part in: the paper's floor, and the named motions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from .. import motions
from ..actors import RATE
from ..dynamics.floor import support_radius
from ..dynamics.interface import Dynamics
from ..dynamics.rollout import intervals, substeps
from ..dynamics.surfaces import Surface, touch
from ..state import State
from ..types import StateTensor, Times
from ..world.bodies import Body
from ..world.contacts import SCENE, Contacts


@torch.no_grad()
def floor_contacts(
    dynamics: Dynamics, bodies: Sequence[Body], surfaces: Sequence[Surface], times: Times
) -> Contacts:
    """The paper's events, substep by substep: momentum after the event minus that before it."""
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
    """A row for each object whose velocity the event changed."""
    a, b = State(before.double()), State(after.double())
    impulse = b.m * (b.v - a.v)
    up = np.array([0.0, 1.0, 0.0])
    return [
        (frame, time, h, SCENE, i, b.p[i].numpy() * (1 - up), up, impulse[i].numpy())
        for i in torch.nonzero(impulse.abs().sum(-1)).flatten().tolist()
    ]


def merged(rows: Sequence[tuple[Any, ...]]) -> Contacts:
    """Rows of one pair in one frame as one."""
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
    """What the generator of a named motion says of its contacts, at the object's size and mass.

    They are the motion's labels: with the floor or a wall that it has in mind.
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
        along = made.normal[0, t].double()
        axis = along.abs()  # the impulse is signed along the positive axis
        push = float(made.impulse[0, t]) * scale * axis
        now = body.track.at(time) if body.track is not None else z[t]
        point = State(now).p - float(support_radius(now)) * along
        frame = max(int(np.ceil(time * fps - 1e-9)) - 1, 0)
        rows.append((frame, time, 0.0, SCENE, index, point.numpy(), along.numpy(), push.numpy()))
    return merged(rows)


def joined(*parts: Contacts) -> Contacts:
    """Several tables as one, in order."""
    columns = [np.concatenate(x) for x in zip(*parts, strict=True)]
    order = np.lexsort((columns[4], columns[3], columns[0]))
    return Contacts(*(x[order] for x in columns))
