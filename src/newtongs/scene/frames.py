"""A scene in motion, frame by frame; only the objects' Gaussians are written."""

import copy
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from ..base import rotations
from ..base.errors import InputError
from ..base.process import one_thread
from ..base.types import Quat, StateTensor, Vec3
from . import sh as harmonics
from .gaussians import AT_A_TIME, GaussianScene
from .transform import (
    Form,
    Objects,
    States,
    affine64,
    congruence,
    homogeneous,
    mean_matrices,
    moving,
    pack_symmetric,
    relative,
    rows_of,
    shift,
    transform,
)

# When a Gaussian is visible: repairs behind an object must not change frame 0, the capture itself.
ALWAYS, FIRST, LATER = 0, 1, 2  # in all frames, in frame 0 only, from frame 1
FEW = 20_000  # Gaussians that one thread moves as fast as two
MOST = 0.5  # share of the Gaussians

Shade: TypeAlias = Callable[[int], tuple[Tensor, Tensor]]
"""The rows ``(n,)`` in shadow in a frame, and the factors ``(n,)`` on their colours."""


class Frame(NamedTuple):
    """One frame of an animated scene; the next one overwrites its tensors: clone to keep."""

    means: Vec3
    """``(N, 3)``."""
    covariances: Tensor
    """``(N, 6)``, see :func:`pack_symmetric`."""
    sh: Tensor
    """``(N, K, 3)``, rotated with the objects."""
    turns: dict[int, Tensor]
    """Rotation ``(3, 3)`` of each object since the start, float64."""
    opacities: Tensor
    """``(N,)``, zero for invisible Gaussians."""
    shade: Tensor | None = None
    """Factors ``(N,)`` on the colours, from 0 to 1: shadows."""


class AnimatedScene:
    """A scene whose objects follow their states; the background is never copied.

    Iterating yields a :class:`Frame` each, whose tensors the next one overwrites (so ``list`` would
    repeat the last one); indexing returns one frame as a :class:`GaussianScene`.
    """

    def __init__(
        self,
        scene: GaussianScene,
        z0: States | None,
        z: States,
        *,
        object: Objects = None,
        form: Form = "main",
        presence: Tensor | None = None,
        shade: Shade | None = None,
    ) -> None:
        """Arguments as for :func:`transform`, with states ``(T, 22)`` per object in ``z``.

        ``presence (N,)`` says in which frames each Gaussian is visible, ``shade`` which are
        darkened in a frame.
        """
        self.scene, self.form, self.shade = scene, form, shade
        self.presence = None if presence is None else presence.to(scene.device)
        self.states = moving(scene, z0, z, object, dim=2)
        lengths = {len(b) for _, b in self.states.values()}
        if len(lengths) != 1:
            raise InputError(f"all objects need the same number of frames, got {sorted(lengths)}")
        self.length = lengths.pop()

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, t: int) -> GaussianScene:
        """Frame ``t`` as given by :func:`transform`, without invisible Gaussians."""
        if not -self.length <= t < self.length:
            raise IndexError(t)
        t %= self.length
        z0s, zs = ({i: pair[k] for i, pair in self.states.items()} for k in (0, 1))
        frame = transform(self.scene, z0s, {i: z[t] for i, z in zs.items()}, form=self.form)
        if self.shade is not None:
            rows, factors = self.shade(t)
            sh = frame.sh.clone()
            sh[rows] = harmonics.darkened(sh[rows], factors.to(sh))
            frame = frame.replace(sh=sh)
        return frame if self.presence is None else frame[~self._hidden(t)]

    def to(self, device: torch.device | str) -> "AnimatedScene":
        """The same on another device; shadows are computed where they were."""
        moved = copy.copy(self)
        moved.scene = self.scene.to(device)
        moved.states = {i: (a.to(device), b.to(device)) for i, (a, b) in self.states.items()}
        moved.presence = None if self.presence is None else self.presence.to(device)
        return moved

    @property
    def still(self) -> Tensor:
        """Mask ``(N,)`` of Gaussians that are the same in all frames, apart from shadows."""
        out = torch.ones(len(self.scene), dtype=torch.bool, device=self.scene.means.device)
        for index, pair in self.states.items():
            if not unmoved(*pair, self.form).all():
                out[rows_of(self.scene, index)] = False
        return out if self.presence is None else out & (self.presence == ALWAYS)

    def moving(self) -> tuple[Tensor, "AnimatedScene"]:
        """Rows ``(n,)`` that are not still, in order, and an animated scene of only these.

        If most move, all are taken: a copy of most of the scene would cost more than it saves.
        """
        moves = ~self.still
        if moves.sum() > MOST * len(moves):
            moves[:] = True
        rows = moves.nonzero().squeeze(-1)
        part = copy.copy(self)
        part.scene, part.shade = _kept(self.scene, moves), None
        part.presence = None if self.presence is None else self.presence[rows]
        ids = part.scene.object_ids
        part.states = {i: pair for i, pair in self.states.items() if i in ids}
        return rows, part

    def covariances(self) -> Tensor:
        """``(N, 6)`` at the start, see :func:`pack_symmetric`; computed in parts to save memory."""
        fields = self.scene.quats.split(AT_A_TIME), self.scene.scales.split(AT_A_TIME)
        out = self.scene.quats.new_empty(len(self.scene), 6)
        for into, quats, scales in zip(out.split(AT_A_TIME), *fields, strict=True):
            into.copy_(_packed(quats, scales))
        return out

    def _hidden(self, t: int) -> Tensor:
        """Mask ``(N,)`` of Gaussians that are invisible in frame ``t``."""
        assert self.presence is not None
        return self.presence == (LATER if t == 0 else FIRST)

    def _opacities(self, t: int) -> Tensor:
        opacities = self.scene.opacities
        return opacities if self.presence is None else opacities.masked_fill(self._hidden(t), 0)

    def _factors(self, t: int) -> Tensor | None:
        if self.shade is None:
            return None
        rows, factors = self.shade(t)
        out = torch.ones(len(self.scene), device=self.scene.means.device)
        out[rows] = factors.to(out)
        return out

    def __iter__(self) -> Iterator[Frame]:
        """Frames in order, in buffers in which only the objects' rows change."""
        scene = self.scene
        buffers = scene.means.clone(), self.covariances(), scene.sh.clone()
        tracks = [_Track(scene, i, z0, z, self.form) for i, (z0, z) in self.states.items()]
        opacities, few = scene.opacities, sum(len(track.rows) for track in tracks) < FEW
        for t in range(self.length):
            with one_thread() if few else nullcontext():
                for track in tracks:
                    track.write(t, *buffers)
            turns = {track.index: track.turns[t] for track in tracks}
            opacities = self._opacities(t) if t < 2 else opacities  # constant from then on
            yield Frame(*buffers, turns, opacities, self._factors(t))


class _Track:
    """An object's matrices over all frames, and its Gaussians in the form they multiply."""

    def __init__(
        self,
        scene: GaussianScene,
        index: int,
        z0: StateTensor,
        z: StateTensor,
        form: Form,
    ) -> None:
        self.index, self.rows, self.scene = index, rows_of(scene, index), scene
        A = affine64(z0, z, form)
        self.unmoved = unmoved(z0, z, form).tolist()
        self.turns = rotations.to_matrix(relative(z0, z))
        self.mean_matrices = mean_matrices(A, z0, z).to(scene.means)
        self.sigma, self.congruence = _covariances64(scene, self.rows), congruence(A, packed=True)

    def write(self, t: int, means: Vec3, covariances: Tensor, sh: Tensor) -> None:
        """Overwrite the object's rows with frame ``t``; an unmoved object keeps its bits."""
        moves = not self.unmoved[t]
        turns = moves and not torch.equal(self.turns[t], torch.eye(3).to(self.turns))
        fields = self.rows.split(AT_A_TIME), self.sigma.split(AT_A_TIME)
        for rows, sigma in zip(*fields, strict=True):
            g, c = self.scene.means[rows], self.scene.sh[rows]
            means[rows] = homogeneous(g) @ self.mean_matrices[t] if moves else g
            if moves:
                covariances[rows] = (sigma @ self.congruence[t]).to(covariances)
            else:
                covariances[rows] = _packed(self.scene.quats[rows], self.scene.scales[rows])
            sh[rows] = harmonics.rotate(c, self.turns[t]) if turns and sh.shape[1] > 1 else c


def _covariances64(scene: GaussianScene, rows: Tensor) -> Tensor:
    """Packed ``(n, 6)`` in float64: needles under extreme ratios would lose their short axes."""
    out = scene.means.new_empty(len(rows), 6, dtype=torch.float64)
    for its, into in zip(rows.split(AT_A_TIME), out.split(AT_A_TIME), strict=True):
        into.copy_(_packed(scene.quats[its].double(), scene.log_scales[its].double().exp()))
    return out


def _packed(quats: Quat, scales: Tensor) -> Tensor:
    """Packed covariances ``(n, 6)``."""
    m = rotations.to_matrix(quats) * scales.unsqueeze(-2)
    return pack_symmetric(m @ m.mT)


def _kept(scene: GaussianScene, mask: Tensor) -> GaussianScene:
    """The rows of a mask, with the activated values of the whole scene.

    Recomputed in a shorter tensor they may differ in the last bit: its end is not vectorised.
    """
    part = scene[mask]
    if part is not scene:
        vars(part).update(scales=scene.scales[mask], opacities=scene.opacities[mask])
    return part


def unmoved(z0: StateTensor, z: StateTensor, form: Form) -> Tensor:
    """Mask ``(T,)`` of states ``(T, 22)`` that leave an object unmoved bit for bit."""
    A = affine64(z0, z, form)
    return (torch.eye(3).to(A) == A).flatten(1).all(-1) & (shift(z0, z) == 0).all(-1)


def frames(
    scene: GaussianScene,
    z0: States | None,
    z: States,
    *,
    object: Objects = None,
    form: Form = "main",
) -> Iterator[Frame]:
    """The frames of :class:`AnimatedScene`, one by one, in reused buffers."""
    return iter(AnimatedScene(scene, z0, z, object=object, form=form))
