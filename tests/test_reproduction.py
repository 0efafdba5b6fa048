"""The paper's State-32 baseline table and its per-motion Physics-Prior column.

Both sides are random draws: ours of ``N`` sequences a motion, the paper's of 4,096. The tolerance
of every comparison is Z standard errors of that difference, measured on our draw (delta method for
the root), plus half a unit of the last printed digit. With Z = 4.5 the 124 comparisons would raise
a false alarm once in a thousand seeds.
"""

from dataclasses import replace

import pytest
import torch

from newtongs import motions
from newtongs.dynamics import BASELINES
from newtongs.motions import registry
from newtongs.paper.evaluation.metrics import ROOTED, sequence_terms
from newtongs.paper.evaluation.tables import paper

pytestmark = pytest.mark.slow

N, PAPER_N, Z = 1024, 4096, 4.5
TIMES = torch.arange(64) / 24
COLUMNS = {"traj": 4, "fde": 4, "vel": 4, "quat": 4, "scale": 4, "plane_violation": 6}


def terms_of(name, ood, method):
    """Sequence terms (N,) of one motion under one method."""
    states = motions.generate(name, N, seed=2026, ood=ood).states
    return sequence_terms(BASELINES[method](states[:, 0], TIMES), states)


@pytest.fixture(scope="module")
def terms():
    """``{(split, method): {metric: (32, N)}}``."""
    out = {}
    for split, ood in (("val_id", False), ("val_ood", True)):
        rows = {method: [] for method in BASELINES}
        for name in motions.STATE32:
            states = motions.generate(name, N, seed=2026, ood=ood).states
            for method, predict in BASELINES.items():
                rows[method].append(sequence_terms(predict(states[:, 0], TIMES), states))
        for method, parts in rows.items():
            out[split, method] = {k: torch.stack([p[k] for p in parts]) for k in COLUMNS}
    return out


def value_and_error(metric, rows):
    """A metric over equally many sequences of each of C motions ``(C, N)``, and the standard
    error of its difference to a draw of the paper's size."""
    mean = rows.mean().item()
    variance = rows.var(dim=1).mean().item() / len(rows) * (1 / N + 1 / PAPER_N)
    error = variance**0.5
    if metric not in ROOTED:
        return mean, error
    return mean**0.5, error / (2 * mean**0.5)


def deviation(metric, rows, published, digits):
    """How far apart, as a fraction of the tolerance."""
    value, error = value_and_error(metric, rows)
    return abs(value - published) / (Z * error + 0.5 * 10**-digits + 1e-9)


@pytest.mark.parametrize("method", BASELINES)
@pytest.mark.parametrize("split", ["val_id", "val_ood"])
def test_table_1(terms, split, method):
    for metric, digits in COLUMNS.items():
        published = paper()["state32"][split][method][metric]
        rows = terms[split, method][metric]
        assert deviation(metric, rows, published, digits) < 1, (metric, rows.mean(), published)


@pytest.mark.parametrize("split", ["val_id", "val_ood"])
def test_physics_prior_per_motion(terms, split):
    for index, name in enumerate(motions.STATE32):
        published = paper()["per_motion_traj"][name][split]["physics_prior_se3"]
        rows = terms[split, "physics_prior_se3"]["traj"][index : index + 1]
        assert deviation("traj", rows, published, 3) < 1, (name, rows.mean().sqrt(), published)


def test_tolerances_are_tight(terms):
    """At this size the totals are known to about one percent, not to ten."""
    for metric in ("traj", "fde", "vel", "quat", "scale"):
        value, error = value_and_error(metric, terms["val_id", "physics_prior_se3"][metric])
        assert Z * error < 0.015 * value


@pytest.mark.parametrize("name", ["pendulum_damped_oscillation", "nonlinear_force_field"])
def test_another_reading_of_the_paper_is_rejected(monkeypatch, name):
    """On the floor, where the text alone might put them, these two would miss the table."""
    family = registry.get(name)
    monkeypatch.setitem(registry._FAMILIES, name, replace(family, height=None))
    rows = terms_of(name, False, "physics_prior_se3")["traj"][None]
    published = paper()["per_motion_traj"][name]["val_id"]["physics_prior_se3"]
    assert deviation("traj", rows, published, 3) > 3


def test_hold_violates_the_plane_in_exactly_two_motions(terms):
    violating = terms["val_id", "hold_z0"]["plane_violation"].mean(1)
    names = [n for n, share in zip(motions.STATE32, violating, strict=True) if share > 0]
    assert names == ["size_changing", "scale_pulse"]
    assert violating.sum() == 2
