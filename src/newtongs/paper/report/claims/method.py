"""Facts that the implementation itself answers: sizes, and properties of the method."""

from functools import cache

import torch

from .... import motions
from ....base import state
from ....base.state import DIM, State
from ....dynamics import GaussianNND, floor
from ....dynamics.config import NNDConfig
from ....dynamics.rollout import substeps as substeps_of
from ....dynamics.variants import without_residuals
from ....motions.sampling import IN_DISTRIBUTION, VELOCITY_SHIFT
from ....samples import select
from ....scene.transform import affine64
from ...datasets import common12, state32
from ...evaluation.ablations import ABLATIONS
from ...evaluation.metrics import sequence_terms
from ...training.config import LossWeights
from ...training.loss import objective
from .evidence import constant

SECOND = torch.arange(25) / 24


@constant
def channels() -> float:
    """Channels of a state."""
    return DIM


@constant
def parameters() -> float:
    """Trainable numbers of the model."""
    return sum(p.numel() for p in GaussianNND(NNDConfig()).parameters())


@constant
def substeps() -> float:
    """Substeps of a frame at 24 Hz."""
    return substeps_of(motions.DT, NNDConfig().max_dt)


@cache
def _starts() -> torch.Tensor:
    """Eight initial states of every motion ``(256, 22)``."""
    made = [motions.generate(name, 8, seed=1).states[:, 0] for name in motions.STATE32]
    return torch.cat(made)


@constant
@torch.no_grad()
def initial_residual() -> float:
    """Largest difference that the networks of an untrained model make to its rollouts."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = GaussianNND().eval()
    full, plain = (m.rollout(_starts(), SECOND) for m in (model, without_residuals(model)))
    return float((full - plain).abs().max())


@cache
def _turned() -> tuple[torch.Tensor, torch.Tensor]:
    """Initial and later states ``(256, 22)`` with random orientations and scales."""
    generator = torch.Generator().manual_seed(0)

    def drawn() -> torch.Tensor:
        q = torch.randn(256, 4, generator=generator, dtype=torch.float64)
        s = 0.2 + torch.rand(256, 3, generator=generator, dtype=torch.float64)
        p = torch.zeros(256, 3, dtype=torch.float64)
        return state.make(p=p, q=q / q.norm(dim=-1, keepdim=True), s=s)

    return drawn(), drawn()


@constant
def identity_gap() -> float:
    """Largest entry of ``A_0 - I``."""
    z0, _later = _turned()
    return float((affine64(z0, z0, "main") - torch.eye(3, dtype=torch.float64)).abs().max())


@constant
def smallest_eigenvalue() -> float:
    """Smallest eigenvalue of random covariances after the transformation."""
    a = affine64(*_turned(), "main")
    root = torch.randn(256, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    moved = a @ (root @ root.mT) @ a.mT
    return float(torch.linalg.eigvalsh(moved).min())


@constant
def affine_forms_gap() -> float:
    """Largest difference between the main text's and the appendix's affine matrix."""
    return float((affine64(*_turned(), "main") - affine64(*_turned(), "impl")).abs().max())


@constant
def sign_gap() -> float:
    """What loss and metric make of the sign of the predicted quaternions."""
    target = torch.cat([motions.generate(name, 2, seed=2).states for name in motions.STATE32])
    predicted = target.roll(1, 0)
    turned = predicted.clone()
    State(turned).q.neg_()
    weights = LossWeights()
    losses = [objective(z, target, weights)["total"] for z in (predicted, turned)]
    errors = [sequence_terms(z, target)["quat"] for z in (predicted, turned)]
    return max(float((losses[0] - losses[1]).abs()), float((errors[0] - errors[1]).abs().max()))


@constant
def material_weight() -> float:
    """Weight of mass, restitution and attenuation in the objective."""
    return LossWeights().material


@constant
def wall_response() -> float:
    """Change of the contact test of the paper's engine when every object moves sideways."""
    aside = _starts().clone()
    State(aside).p[:, 0] += 10.0
    here, there = floor.gap(_starts()), floor.gap(aside)
    falls = here.isfinite()
    return float((here[falls] - there[falls]).abs().max())


@constant
def sequences(split: str) -> float:
    """Sequences of a split at the paper's size."""
    return state32.get_split(split).per_motion * len(motions.STATE32)


@constant
def families() -> float:
    """Motion families."""
    return len(motions.STATE32)


@constant
def frames() -> float:
    """States of a sequence."""
    return state32.SplitPlan("train", 32).frames


@constant
def gibibytes(split: str) -> float:
    """Size of a split's states."""
    return sequences(split) * frames() * DIM * 4 / 2**30


@constant
def velocity_shift() -> float:
    """Factor of the OOD split's velocity limits; zero if they do not share one."""
    shifts = {
        round(getattr(VELOCITY_SHIFT, name)[1] / getattr(IN_DISTRIBUTION, name)[1], 9)
        for name in ("horizontal", "vertical", "angular")
    }
    return shifts.pop() if len(shifts) == 1 else 0.0


@constant
def templates() -> float:
    """Object-scene templates of Gaussian-32."""
    return len(select(None))


@constant
def scene_gaussians() -> float:
    """Gaussians of a full scene, if all templates have the same number; else zero."""
    counts = {len(t.object) + len(t.background) for t in select(None)}
    return counts.pop() if len(counts) == 1 else 0


@constant
def common_seeds(a: str, b: str) -> float:
    """Shards of split ``b`` that have the seed of a shard of split ``a``."""
    seeds = [
        {state32.shard_seed(state32.get_split(name), i) for i in range(state32.SHARDS)}
        for name in (a, b)
    ]
    return len(seeds[0] & seeds[1])


@constant
def manifest_rows() -> float:
    """Videos of Common-12's manifest."""
    return len(list(common12.rows()))


@constant
def ablations() -> float:
    """Ablations that can be trained."""
    return len(ABLATIONS)
