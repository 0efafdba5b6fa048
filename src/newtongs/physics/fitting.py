"""Make the shapes of neighbours fit together, so that none of them starts inside another.

A shape is a few convex pieces around the Gaussians of an object. Those of things that touch, such
as pots in a row, overlap by a little, and those of a bowl and its fruit by much. Contacts take an
overlap for a compressed spring: things that sleep would shoot apart when they are woken, and one
that is pushed would be wedged. So two pieces that overlap are cut along a plane between them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import mujoco
import numpy as np

from ..base.state import State
from ..base.types import Array
from .bodies import Body
from .shapes import clipped

TOLERATED = 1e-3  # depth of an overlap over the width of the narrower piece
ROUNDS = 3  # two pieces that meet with their edges may need more than one cut
PLANE_OF = (mujoco.mj_kinematics, mujoco.mj_comPos, mujoco.mj_collision)


@dataclass
class _Piece:
    """A convex piece in the physics frame: corners ``(K, 3)``, or a ball, which is not cut."""

    body: int
    corners: Array
    radius: float | None = None

    def span(self, normal: Array) -> tuple[float, float]:
        """Its lowest and highest point along a unit vector."""
        along, r = self.corners @ normal, self.radius or 0.0
        return float(along.min()) - r, float(along.max()) + r

    def cut(self, normal: Array, offset: float) -> None:
        """Keep what is below a plane; nothing, if that is too thin to be a body."""
        if self.radius is None:
            self.corners = clipped(self.corners, normal, offset)


def fitted(bodies: Sequence[Body]) -> tuple[Body, ...]:
    """The bodies, with the pieces of their shapes cut where they overlap other bodies' pieces.

    Mass, centre and inertia are kept. A body of which nothing would be left stays as it is.
    """
    pieces = [piece for index, body in enumerate(bodies) for piece in _pieces(index, body)]
    whole = dict(enumerate(bodies))
    cut: set[int] = set()
    for _ in range(ROUNDS):
        found = list(_overlaps([piece for piece in pieces if len(piece.corners)]))
        for one, other, normal in found:
            _part(one, other, normal)
        if not found:
            break
        cut |= {piece.body for pair in found for piece in pair[:2]}
    for index in cut:
        left = [piece.corners for piece in pieces if piece.body == index and len(piece.corners)]
        body = bodies[index]
        if left and body.shape is not None and body.shape.radius is None:
            p = State(body.z0).p.double().numpy()
            shape = replace(body.shape, pieces=tuple(corners - p for corners in left))
            whole[index] = replace(body, shape=shape)
    return tuple(whole.values())


def _pieces(index: int, body: Body) -> Iterator[_Piece]:
    if body.shape is None:
        return
    p = State(body.z0).p.double().numpy()
    if body.shape.radius is not None:
        yield _Piece(index, (p + body.shape.center)[None], body.shape.radius)
    for corners in body.shape.pieces:
        yield _Piece(index, p + corners)


def _part(one: _Piece, other: _Piece, normal: Array) -> None:
    """Cut two pieces along a plane between them; the wider one loses more, in proportion."""
    if not len(one.corners) or not len(other.corners):
        return  # an earlier cut has left nothing
    (low, top), (bottom, high) = one.span(normal), other.span(normal)
    widths = np.array([top - low, high - bottom])
    widths[[one.radius is not None, other.radius is not None]] = 0.0  # a ball loses nothing
    if top <= bottom or not widths.any():
        return
    offset = top - (top - bottom) * float(widths[0] / widths.sum())
    one.cut(normal, offset)
    other.cut(-normal, -offset)


def _overlaps(pieces: Sequence[_Piece]) -> Iterator[tuple[_Piece, _Piece, Array]]:
    """Pairs of pieces that overlap, and the direction from one to the other in which they do least.

    MuJoCo finds them; each pair is given once, by its deepest contact.
    """
    spec = mujoco.MjSpec()
    made = {}
    for k, piece in enumerate(pieces):
        if piece.body not in made:
            made[piece.body] = spec.worldbody.add_body()
            made[piece.body].add_freejoint()
        _add_geom(spec, made[piece.body], k, piece)
    if len(made) < 2:
        return
    model = spec.compile()
    data = mujoco.MjData(model)
    for step in PLANE_OF:
        step(model, data)
    names = [int(model.geom(g).name) for g in range(model.ngeom)]
    deepest: dict[tuple[int, int], tuple[float, Array]] = {}
    for contact in data.contact:
        a, b = (names[g] for g in contact.geom)
        if contact.dist < deepest.get((a, b), (0.0,))[0]:
            deepest[a, b] = float(contact.dist), contact.frame[:3].copy()
    for (a, b), (distance, normal) in deepest.items():
        narrower = min(np.ptp(pieces[k].span(normal)) for k in (a, b))
        if -distance > TOLERATED * narrower:
            yield pieces[a], pieces[b], normal


def _add_geom(spec: mujoco.MjSpec, body: mujoco.MjsBody, k: int, piece: _Piece) -> None:
    geom = mujoco.mjtGeom
    if piece.radius is not None:
        size = (piece.radius, 0, 0)
        body.add_geom(name=str(k), type=geom.mjGEOM_SPHERE, size=size, pos=piece.corners[0])
        return
    convex = mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX
    spec.add_mesh(name=str(k), uservert=piece.corners.ravel(), inertia=convex)
    body.add_geom(name=str(k), type=geom.mjGEOM_MESH, meshname=str(k))
