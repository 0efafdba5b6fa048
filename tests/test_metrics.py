"""Metrics against a slow loop in float64, and PIS-3D branch by branch."""

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from newtongs import make_state, motions
from newtongs.base.errors import InputError
from newtongs.base.state import LAYOUT, State
from newtongs.dynamics import BASELINES
from newtongs.paper.datasets import state32
from newtongs.paper.evaluation import evaluate
from newtongs.paper.evaluation import pis3d as P
from newtongs.paper.evaluation.metrics import METRICS, MetricSums

B, T, H = 23, 11, 1 / 24


@pytest.fixture
def pair():
    g = torch.Generator().manual_seed(1)
    return torch.randn(B, T, 22, generator=g), torch.randn(B, T, 22, generator=g)


def slow_metrics(predicted, target):
    """Appendix A with nested loops over plain float64 numbers."""
    p, t = predicted.double().numpy(), target.double().numpy()
    total = dict.fromkeys(METRICS, 0.0)
    for b in range(len(p)):
        for k in range(T):
            f = {n: (p[b, k, s], t[b, k, s]) for n, s in LAYOUT.items()}
            total["traj"] += sum((a - c) ** 2 for a, c in zip(*f["p"], strict=True)) / (len(p) * T)
            total["vel"] += sum((a - c) ** 2 for a, c in zip(*f["v"], strict=True)) / (len(p) * T)
            for name, field in (("scale", "s"), ("ang_vel", "w")):
                squares = sum((a - c) ** 2 for a, c in zip(*f[field], strict=True))
                total[name] += squares / (3 * len(p) * T)
            a, c = (q / np.linalg.norm(q) for q in f["q"])
            total["quat"] += (1 - abs(a @ c) ** 2) / (len(p) * T)
            depth = max(0.0, abs(f["s"][0][1]) - f["p"][0][1])
            total["penetration_mse"] += depth**2 / (len(p) * T)
            total["plane_violation"] += (depth > 1e-6) / (len(p) * T)
        total["fde"] += np.linalg.norm(p[b, -1, :3] - t[b, -1, :3]) / len(p)
    for name in ("traj", "vel", "scale", "ang_vel"):
        total[name] = math.sqrt(total[name])
    return total


def test_metrics_against_the_slow_loop(pair):
    motion = torch.arange(B) % 3
    sums = MetricSums(3)
    for rows in torch.arange(B).split(7):  # streaming over uneven batches
        sums.add(pair[0][rows], pair[1][rows], motion[rows])
    for name, value in slow_metrics(*pair).items():
        assert sums.total()[name] == pytest.approx(value, rel=1e-6), name
    for c in range(3):
        rows = motion == c
        for name, value in slow_metrics(pair[0][rows], pair[1][rows]).items():
            assert sums.motion(c)[name] == pytest.approx(value, rel=1e-6), (c, name)


def test_violation_threshold():
    z = make_state(p=(0.0, 0.3, 0.0), s=(1.0, 0.3, 1.0)).double()
    for depth, violated in ((0.0, 0), (5e-7, 0), (2e-6, 1)):
        moved = z.clone()
        State(moved).p[1] -= depth
        sums = MetricSums(1)
        sums.add(moved.expand(1, 4, 22), z.expand(1, 4, 22), torch.zeros(1).long())
        assert sums.total()["plane_violation"] == violated


# --- PIS-3D --------------------------------------------------------------------------------------

EXPECTED = {
    "3d_uniform_motion": P.Uniform,
    "3d_acceleration_gravity": P.Ballistic,
    "projectile_motion": P.Ballistic,
    "wind_drag_projectile": P.Ballistic,
    "circular_orbital_motion": P.Orbital,
    "3d_rotation": P.Rotation,
    "bouncing_on_plane": P.Bouncing,
    "object_wall_collision": P.Bouncing,
    "hybrid_collision_impulse": P.Bouncing,
    "damped_bouncing": P.Bouncing,
    "rolling_then_collision": P.Bouncing,
    "slope_sliding": P.Slope,
    "size_changing": P.Size,
    "non_rigid_deformation": P.Deformation,
}


@pytest.mark.parametrize("name", motions.STATE32)
def test_dispatch(name):
    assert type(P.diagnostic(name)) is EXPECTED.get(name, P.Unmatched)


def slow_error(name, z):
    """The paper's table of class errors with numpy, one whole class at once."""
    x = {k: z[..., s].double().numpy() for k, s in LAYOUT.items()}
    norm = lambda v: np.sqrt((v**2).sum(-1))  # noqa: E731
    var = lambda v: v.var(axis=1, ddof=1).mean()  # noqa: E731
    a = (x["v"][:, 2:] - x["v"][:, :-2]) / (2 * H)
    kind = EXPECTED.get(name, P.Unmatched)
    if kind is P.Uniform:
        speed = norm(x["v"])
        return var(speed) / (speed.mean() ** 2 + 1e-6)
    if kind is P.Ballistic:
        return var(x["v"][..., 0]) + var(x["v"][..., 2]) + np.abs(a[..., 1] + 9.81).mean()
    if kind is P.Orbital:
        return var(norm(x["p"] - x["p"].mean(1, keepdims=True))) + var(norm(x["w"]))
    if kind is P.Rotation:
        return var(norm(x["w"]))
    if kind is P.Bouncing:
        error = np.maximum(0, np.abs(x["s"][..., 1]) - x["p"][..., 1]).mean()
        ratios = [
            after / -before
            for row in x["v"][..., 1]
            for before, after in pairwise(row)
            if before < 0 < after
        ]
        return error + (abs(np.mean(ratios) - x["e"].mean()) if ratios else 0)
    if kind is P.Slope:
        s, c = math.sin(math.radians(22)), math.cos(math.radians(22))
        return np.abs(a[..., 0] - (9.81 * s - x["mu"].mean() * 9.81 * c) * c).mean()
    if kind is P.Size:
        return var(norm(x["u"]))
    if kind is P.Deformation:
        volume = x["s"].prod(-1)
        return var(volume) / (volume.mean() ** 2 + 1e-6)
    return norm(a).mean()


@pytest.mark.parametrize("name", motions.STATE32)
def test_pis3d_against_numpy(name, pair):
    z = motions.generate(name, 30, seed=2).states
    for sequences in (z, 0.1 * pair[0]):
        diagnostic = P.diagnostic(name)
        for rows in sequences.split(8):
            diagnostic.add(State(rows), H)
        assert diagnostic.error() == pytest.approx(slow_error(name, sequences), rel=1e-4, abs=1e-7)


def test_bouncing_without_a_bounce_counts_penetration_only():
    z = make_state(p=(0, 0.1, 0), s=(0.3, 0.3, 0.3)).expand(2, 9, 22)
    diagnostic = P.Bouncing()
    diagnostic.add(State(z), H)
    assert diagnostic.error() == pytest.approx(0.2)


def test_score_is_the_class_frequency_weighted_mean(pair):
    names = ("3d_rotation", "free_fall")
    sums = P.PisSums(names, H)
    motion = torch.tensor([0] * 5 + [1] * (B - 5))
    sums.add(0.1 * pair[0], motion)
    scores = [math.exp(-slow_error(n, 0.1 * pair[0][motion == i])) for i, n in enumerate(names)]
    assert sums.total() == pytest.approx((5 * scores[0] + (B - 5) * scores[1]) / B, rel=1e-5)


def test_standing_still_scores_high(small_state32):
    """The paper's own warning: the diagnostic rewards a stationary prediction."""
    report = evaluate(small_state32, splits=["val_id"])["val_id"]
    assert report["hold_z0"]["pis3d"] > report["oracle"]["pis3d"]
    assert report["hold_z0"]["traj"] > 3


# --- the evaluator -------------------------------------------------------------------------------


@pytest.mark.slow
def test_report_has_the_published_schema(small_state32):
    report = evaluate(small_state32, batch_size=97)
    assert list(report) == ["val_id", "val_ood"]
    for methods in report.values():
        assert list(methods) == [*BASELINES, "oracle"]
        for scores in methods.values():
            assert list(scores) == [*METRICS, "pis3d", "per_motion"]
            assert list(scores["per_motion"]) == list(motions.STATE32)
            for motion in scores["per_motion"].values():
                assert list(motion) == [*METRICS, "pis3d"]


@pytest.mark.slow
def test_oracle_is_perfect_and_batch_size_does_not_matter(small_state32):
    a, b = (evaluate(small_state32, splits=["val_id"], batch_size=n) for n in (37, 5000))
    oracle = a["val_id"]["oracle"]
    # float32 rounding of <q, q> leaves 1e-8 of the quaternion term
    assert all(oracle[k] < 1e-6 for k in ("traj", "fde", "vel", "quat", "scale", "ang_vel"))
    for method, scores in a["val_id"].items():
        for name in (*METRICS, "pis3d"):
            assert scores[name] == pytest.approx(b["val_id"][method][name], rel=1e-5, abs=1e-9)


def test_own_predictor(small_state32):
    own = {"still": lambda z0, times: z0[:, None].expand(-1, len(times), -1)}
    report = evaluate(small_state32, splits=["val_id"], methods=own)
    reference = evaluate(small_state32, splits=["val_id"], methods=["hold_z0"])
    assert report["val_id"]["still"]["traj"] == reference["val_id"]["hold_z0"]["traj"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"methods": ["hold"]}, "did you mean hold_z0"),
        ({"methods": ["limit"]}, "it is called bayes_bound now"),
        ({"methods": ["context"]}, "seen_predictors.context_methods"),
        ({"methods": []}, "no method given"),
        ({"methods": {}}, "no method given"),
        ({"splits": []}, "no split given"),
        ({"splits": ["val"]}, "unknown split 'val'"),
        ({"batch_size": 65_535}, "65,534"),
    ],
)
def test_bad_arguments(small_state32, arguments, message):
    with pytest.raises(InputError, match=message):
        evaluate(small_state32, **arguments)


def test_a_prediction_that_is_not_a_number(small_state32):
    broken = {"broken": lambda z0, times: z0[:, None].expand(-1, len(times), -1) * math.nan}
    with pytest.raises(InputError, match=r"method 'broken': channel p_x at index \(0, 0\) is nan"):
        evaluate(small_state32, splits=["val_id"], methods=broken)


def test_not_a_number_is_reported_with_its_place_in_the_file(small_state32):
    data = state32.load(small_state32, "val_id")
    states = data.states.clone()
    states[700, 3, 8] = math.nan
    opened = {"val_id": replace(data, states=states)}
    with pytest.raises(InputError, match=r"v_y at index \(700, 3\) is nan"):
        evaluate(opened, splits=["val_id"], methods=["hold_z0"], batch_size=97)

    def late(z0, times):
        """Wrong in the third batch only."""
        late.calls += 1
        out = z0[:, None].repeat(1, len(times), 1)
        out[5, 2, 14] = math.inf if late.calls == 3 else 1
        return out

    late.calls = 0
    with pytest.raises(InputError, match=r"method 'late': channel s_y at index \(199, 2\) is inf"):
        evaluate({"val_id": data}, splits=["val_id"], methods={"late": late}, batch_size=97)


def test_a_predictor_cannot_change_what_it_is_measured_by(small_state32):
    def spoil(z0, times):
        out = z0[:, None].repeat(1, len(times), 1)
        z0.zero_()
        times.zero_()
        return out

    methods = {"spoil": spoil, "after": BASELINES["physics_prior_se3"], "oracle": None}
    report = evaluate(small_state32, splits=["val_id"], methods=methods)["val_id"]
    clean = evaluate(small_state32, splits=["val_id"])["val_id"]
    assert report["spoil"]["traj"] == clean["hold_z0"]["traj"]
    assert report["after"]["traj"] == clean["physics_prior_se3"]["traj"]
    assert report["oracle"] == clean["oracle"]


@pytest.mark.parametrize(
    ("predict", "message"),
    [
        (lambda z0, times: z0.numpy(), "expected a tensor of states, got ndarray"),
        (lambda z0, times: None, "expected a tensor of states, got NoneType"),
        (
            lambda z0, times: z0,
            r"expected states \(B, T, 22\) = \(1280, 64, 22\), got \(1280, 22\)",
        ),
        (lambda z0, times: z0[:, None].repeat(1, 63, 1), r"got \(1280, 63, 22\)"),
        (lambda z0, times: z0[:1, None].repeat(1, 64, 1), r"got \(1, 64, 22\)"),
        (lambda z0, times: z0[:, None].repeat(1, 64, 1) * 1e300, "is inf"),
        (lambda z0, times: z0[:, None].repeat(1, 64, 1).to("meta"), "on cpu as z0 is, got meta"),
        (lambda z0, times: z0[:, None].repeat(1, 64, 1) + 3e25, "predictions too large"),
    ],
)
def test_predictions_that_cannot_be_measured(small_state32, predict, message):
    with pytest.raises(InputError, match=f"method 'mine': .*{message}"):
        evaluate(small_state32, splits=["val_id"], methods={"mine": predict})


@pytest.mark.parametrize("device", ["meta", "hpu", "cuda:99", "warp", ""])
def test_devices_that_are_not_here(small_state32, device):
    with pytest.raises(InputError, match=f"device '{device}' is not available here; use cpu"):
        evaluate(small_state32, device=device)


@pytest.mark.parametrize("target", ["", "file/x.png", "x.xyz"])
def test_pictures_that_cannot_be_written(tmp_path, monkeypatch, target):
    from newtongs.paper.figures.motions import import_pyplot, save_figure

    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    figure = import_pyplot().figure()
    with pytest.raises(InputError, match="cannot write picture"):
        save_figure(figure, Path(target))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
