"""Physical prompt search: finds an initial state that makes an object reach a goal.

As in the paper's appendix F, 65,536 pseudorandom candidates with seed 7302 are rolled out and
scored; the lowest score wins. To save time all are first scored with the model's longest substeps,
1/30 s, and the best 2,048 again with those of the final animation. If the object will move in a
world that the model does not know, the best 32 are then simulated there.

The paper's score targets a displacement of 0.72 along +x in two seconds and penalises vertical and
lateral drift and change of scale; it gives no weights, so those below are ours. Lengths are in
units of the physics frame.

    score = |miss|^2 + 0.25 drift^2 + 0.25 |log(s_T / s_0)|^2
"""

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from ..base.errors import InputError, argument
from ..base.state import State, StateLike, make, project, replace
from ..base.types import Progress, StateTensor, Times, Vec3, Y
from . import floor
from .backends import predictor
from .gaussian_nnd import GaussianNND
from .interface import Dynamics
from .rollout import check_initial, substeps

CANDIDATES, SEED, SECONDS = 65_536, 7302, 2.0
DRIFT_WEIGHT, SCALE_WEIGHT = 0.25, 0.25
LOOKS = 12  # frames of a candidate's path that are scored, at most; first and last included
BATCH = 2048
SCREENED = 2048  # best candidates by the longest substeps, rolled out again with the final ones
PLAYED = 32  # best candidates by the model, simulated in the world

Interval: TypeAlias = tuple[float, float]
# Simulates candidates (k, 22): their paths (k, T, 22), and how far each extends below its centre at
# the end (k,).
Play: TypeAlias = Callable[[StateTensor], tuple[StateTensor, Tensor]]
# Paths (N, T, 22) of candidates (N, 22) at times (T,).
Predict: TypeAlias = Callable[[StateTensor, Times], StateTensor]


@dataclass(frozen=True)
class SearchRanges:
    """Uniform intervals of the candidates: those of State-32."""

    p_xz: Interval = (-0.8, 0.8)
    v_xz: Interval = (-3.2, 3.2)
    v_y: Interval = (0.4, 4.8)
    w: Interval = (-4.0, 4.0)
    s: Interval = (0.18, 0.36)
    m: Interval = (0.45, 3.625)
    e: Interval = (0.35, 0.96)
    mu: Interval = (0.12, 0.75)


@dataclass(frozen=True)
class Goal:
    """What the object should do: ``Goal.parse("displace 0.72 0 0")``."""

    kind: Literal["displace", "land"]
    """``displace``: move by ``target`` on a straight path. ``land``: be on the floor there."""
    target: tuple[float, ...]
    """``(dx, dy, dz)``, or ``(x, z)``, in the physics frame."""

    @classmethod
    def parse(cls, text: str) -> "Goal":
        """From ``"displace dx dy dz"`` or ``"land at x z"``."""
        number = r"[\s,]*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
        for kind, words, count in (("displace", "displace", 3), ("land", r"land\s+at", 2)):
            found = re.fullmatch(rf"\s*{words}\b{number * count}\s*", text, re.IGNORECASE)
            if found:
                return cls("land" if kind == "land" else "displace", _numbers(found.groups()))
        raise InputError(
            f"{argument('goal', repr(text))}: expected 'displace dx dy dz' or 'land at x z' with "
            "numbers in the physics frame, such as 'displace 0.72 0 0'"
        )

    def miss(self, z: StateTensor) -> Tensor:
        """Distance ``(...)`` of the ends of paths ``(..., T, 22)`` from the goal."""
        p = State(z).p
        reached = p[..., -1, ::2] if self.kind == "land" else p[..., -1, :] - p[..., 0, :]
        return torch.linalg.vector_norm(reached - torch.tensor(self.target).to(z), dim=-1)

    def score(self, z: StateTensor, radius: Tensor | None = None) -> Tensor:
        """Scores ``(...)`` of paths ``(..., T, 22)``, lower is better; infinite if not finite.

        ``radius (...)`` is the extent of the object below its centre at the end; default the
        paper's proxy.
        """
        x = State(z)
        path = x.p - x.p[..., :1, :]
        stretch = (x.s[..., -1, :] / x.s[..., 0, :]).log().square().sum(-1)
        if self.kind == "land":
            below = floor.support_radius(z[..., -1, :]) if radius is None else radius
            at = torch.tensor(self.target).to(z)
            miss = (x.p[..., -1, ::2] - at).square().sum(-1)
            miss = miss + (x.p[..., -1, Y] - below.to(z)).square()
            total = miss + SCALE_WEIGHT * stretch
        else:
            target = torch.tensor(self.target).to(z)
            miss = (path[..., -1, :] - target).square().sum(-1)
            drift = _across(path, target).square().sum(-1).mean(-1)
            total = miss + DRIFT_WEIGHT * drift + SCALE_WEIGHT * stretch
        return torch.where(total.isfinite(), total, torch.inf)


def _numbers(groups: Sequence[str]) -> tuple[float, ...]:
    return tuple(float(x) for x in groups)


def _across(path: Vec3, target: Vec3) -> Vec3:
    """The component of ``path`` perpendicular to ``target``; all of it if ``target`` is zero."""
    length = torch.linalg.vector_norm(target)
    along = target / length.clamp_min(1e-12) * (length > 1e-6)
    return path - (path @ along).unsqueeze(-1) * along


PAPER_GOAL = Goal("displace", (0.72, 0.0, 0.0))


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The best candidates, best first."""

    states: StateTensor
    """Initial states ``(k, 22)``."""
    scores: Tensor
    """``(k,)``, increasing."""
    misses: Tensor
    """Distance ``(k,)`` of each from the goal, in physics units."""

    @property
    def z0(self) -> StateTensor:
        """The winner ``(22,)``."""
        return self.states[0]

    @property
    def score(self) -> float:
        """Its score."""
        return float(self.scores[0])

    @property
    def miss(self) -> float:
        """Distance by which the winner misses the goal, in physics units."""
        return float(self.misses[0])


def search(
    model: Dynamics,
    goal: Goal | str = PAPER_GOAL,
    *,
    base: StateLike | None = None,
    vary: Sequence[str] | None = None,
    ranges: SearchRanges | None = None,
    candidates: int = CANDIDATES,
    seed: int = SEED,
    seconds: float = SECONDS,
    fps: float = 24.0,
    top: int = 8,
    play: Play | None = None,
    predict: Predict | None = None,
    progress: Progress | None = None,
) -> SearchResult:
    """Find the initial states that come closest to a goal.

    Args:
        model: the candidates are made on its device.
        goal: a :class:`Goal`, or the text of one. Default the paper's.
        base: state ``(22,)`` of the object, from which fields that are not varied are taken.
            Default: an object of State-32 on the floor, with every field varied.
        vary: fields to search. Default: velocity and spin if there is a ``base``.
        ranges: intervals of the candidates. Default: State-32's.
        candidates: their number.
        seed: of the candidates, which do not depend on the model.
        seconds: time at which the goal should be reached.
        fps: frames per second of the final animation, whose substeps the best are rolled out with.
        top: how many to return.
        play: simulates the best 32 in the final world; the scores there decide.
        predict: predicts the candidates' paths instead of the model.
        progress: called with ("search", candidates done, candidates in all).
    """
    goal = Goal.parse(goal) if isinstance(goal, str) else goal
    for name, count in (("candidates", candidates), ("top", top)):
        if count < 1:
            raise InputError(f"{argument(name)}: expected at least 1, got {count}")
    if not (seconds * fps >= 1):
        raise InputError(
            f"{argument('seconds')}: expected at least one frame, 1/{fps:g} s, got {seconds:g}"
        )
    z0 = draw(candidates, seed=seed, base=base, vary=vary, ranges=ranges or SearchRanges())
    z0 = z0.to(model.like)
    times, played = _looks(model, seconds, fps)
    if candidates > SCREENED:
        scores, _ = _scored(predict or predictor(model), goal, z0, times, progress)
        z0 = z0[scores.argsort(stable=True)[:SCREENED]]
    scores, misses = _scored(predict or predictor(played), goal, z0, times)
    if play is not None:
        z0 = z0[scores.argsort(stable=True)[:PLAYED]]
        paths, radius = play(z0)
        scores, misses = goal.score(paths, radius), goal.miss(paths)
    best = scores.argsort(stable=True)[:top]
    return SearchResult(z0[best], scores[best], misses[best])


def _scored(
    predict: Predict,
    goal: Goal,
    z0: StateTensor,
    times: Times,
    progress: Progress | None = None,
) -> tuple[Tensor, Tensor]:
    """Scores and misses ``(N,)`` of candidates, in batches."""
    scores, misses = [], []
    for start in range(0, len(z0), BATCH):
        batch = z0[start : start + BATCH]
        paths = predict(batch, times)
        scores.append(goal.score(paths))
        misses.append(goal.miss(paths))
        if progress is not None:
            progress("search", start + len(batch), len(z0))
    return torch.cat(scores), torch.cat(misses)


def _looks(model: Dynamics, seconds: float, fps: float) -> tuple[Times, Dynamics]:
    """Times at which candidates are scored, and a model that takes the substeps of every frame.

    Fewer times save memory and cost no accuracy: the substeps are the same.
    """
    frames = round(seconds * fps)
    every = max(1, frames // LOOKS)
    at = [*range(0, frames, every), frames]
    times = torch.tensor(at, dtype=torch.float64) / fps
    if not isinstance(model, GaussianNND):
        return times, model
    h = 1 / fps / substeps(1 / fps, model.max_dt)
    model = copy.deepcopy(model)
    model.config = changed(model.config, max_dt=h)
    return times, model


def draw(
    n: int,
    *,
    seed: int = SEED,
    base: StateLike | None = None,
    vary: Sequence[str] | None = None,
    ranges: SearchRanges | None = None,
) -> StateTensor:
    """Candidates ``(n, 22)``: ``base`` with the fields ``vary`` drawn at random.

    A smaller draw is a prefix of a larger one, and fields are drawn independently.
    """
    ranges = ranges or SearchRanges()
    u = torch.rand(n, 16, generator=torch.Generator().manual_seed(seed))
    drawn = {
        "p": _between(u[:, 0:3], ranges.p_xz),
        "v": _between(u[:, 3:6], ranges.v_xz),
        "w": _between(u[:, 6:9], ranges.w),
        "s": _between(u[:, 9:12], ranges.s),
        "m": _between(u[:, 12:13], ranges.m),
        "e": _between(u[:, 13:14], ranges.e),
        "mu": _between(u[:, 14:15], ranges.mu),
    }
    drawn["v"][:, Y] = _between(u[:, 4], ranges.v_y)
    fields = tuple(vary) if vary is not None else (*drawn,) if base is None else ("v", "w")
    unknown = [name for name in fields if name not in drawn]
    if unknown:
        raise InputError(f"cannot search {unknown[0]!r}; fields: {', '.join(drawn)}")
    z = make(s=drawn["s"][0]) if base is None else project(check_initial(base).float())
    if z.dim() != 1:
        raise InputError(f"base: expected the state of one object (22,), got {tuple(z.shape)}")
    z = replace(z.expand(n, -1), **{name: drawn[name] for name in fields})
    if "p" in fields or base is None:  # on the floor: the height is not searched
        State(z).p[:, Y] = floor.support_radius(z)
    return z


def _between(u: Tensor, interval: Interval) -> Tensor:
    low, high = interval
    return low + (high - low) * u
