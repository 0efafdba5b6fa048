"""ContextNND: laws of what it predicts, what it reads, training, evaluation, the commands."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from newtongs import motions
from newtongs.base import state as states
from newtongs.base.checkpoints import load_tensors, save_tensors
from newtongs.base.errors import InputError, Interrupted
from newtongs.base.state import State
from newtongs.cli import app, main
from newtongs.forecast import SEEN, ContextConfig, ContextNND, load_context, load_pretrained_context
from newtongs.forecast.continuation import read_track
from newtongs.forecast.dual import Dual, exp, saturated, silu, sine_cosine, tanh
from newtongs.forecast.fitting import Fitting, continued, interpolated, predict, predict_many
from newtongs.forecast.model import prepared
from newtongs.forecast.reading import add_noise
from newtongs.forecast.tracks import FEATURES, G, clock, landing, tracks
from newtongs.forecast.training import LAPTOP, ContextTrainConfig, train
from newtongs.forecast.training.loop import make_step, of_round, start
from newtongs.forecast.weights import save_context
from newtongs.paper.evaluation.bayes_bound import BayesBound
from newtongs.paper.evaluation.metrics import MetricSums

RESULTS = Path(__file__).parent.parent / "src" / "newtongs" / "paper" / "results" / "context"
TIMES = torch.arange(64) / 24
SMALL = ContextConfig(width=32, blocks=1, hidden=16, layers=2, hypotheses=3)


def drawn(per_motion, *, ood=False, seed=41):
    return torch.cat([
        motions.generate(name, per_motion, seed=seed, stream=9, ood=ood).states
        for name in motions.STATE32
    ])  # fmt: skip


@pytest.fixture(scope="module")
def truth():
    return drawn(2)


@pytest.fixture(scope="module")
def pretrained():
    return load_pretrained_context()


def wild(config=SMALL, dtype=torch.float64):
    """A model whose every output matters."""
    torch.manual_seed(3)
    model = ContextNND(config).to(dtype)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.standardise(drawn(1).to(dtype))
    return model


# --- numbers with their rate ------------------------------------------------------------------


@pytest.mark.parametrize("function", [tanh, exp, silu, saturated, lambda a: sine_cosine(a)[1]])
def test_rates_are_those_of_autograd(function):
    t = torch.linspace(0.1, 2, 9, dtype=torch.float64)
    inner = Dual(t**2, 2 * t)
    value, rate = torch.func.jvp(
        lambda x: function(Dual(x**2, 2 * x)).x, (t,), (torch.ones_like(t),)
    )
    assert torch.allclose(function(inner).x, value)
    assert torch.allclose(function(inner).dx, rate)


def test_tracks_have_their_true_rates(truth):
    z0 = truth[:, 0].double()
    t = TIMES.double() + 0.0031
    made = tracks(z0, t)
    assert made.features.x.shape[-1] == FEATURES
    for name in ("features", "bounce", "rest", "drag", "turn"):
        _, rate = torch.func.jvp(
            lambda x, name=name: getattr(tracks(z0, x), name).x, (t,), (torch.ones_like(t),)
        )
        assert torch.allclose(getattr(made, name).dx, rate, atol=1e-6), name


def test_bouncing_in_closed_form_is_that_of_events():
    """Against a simulation that goes from contact to contact."""
    z0 = states.make(p=(0.0, 2.0, 0.0), v=(1.0, 3.0, 0.0), s=(0.2, 0.2, 0.2), e=0.6, mu=0.3)
    z0, t = z0.double(), torch.linspace(0, 2.4, 200, dtype=torch.float64)
    made = landing(z0, clock(t))
    y, v, x, speed, now = 1.8, 3.0, 0.0, 1.0, 0.0
    heights, distances = [], []
    for time in t.tolist():
        while True:
            hit = now + (v + (v * v + 2 * G * y) ** 0.5) / G
            if hit > time:
                break
            x, y, v = x + speed * (hit - now), 0.0, 0.6 * (G * (hit - now) - v)
            speed, now = 0.7 * speed, hit
        past = time - now
        heights.append(y + v * past - 0.5 * G * past**2)
        distances.append(x + speed * past)
    assert torch.allclose(made.height.x, torch.tensor(heights).double(), atol=2e-3)
    assert torch.allclose(made.travel.x, torch.tensor(distances).double(), atol=2e-3)


# --- the model's laws --------------------------------------------------------------------------


def test_velocity_is_the_derivative_of_position(truth):
    model, observed = wild(), truth[:, :4].double()
    t, h = torch.cat([torch.zeros(1), TIMES[1:] + 0.0101]).double(), 1e-5
    at = State(model(observed, t).states)
    inside = slice(1, None)  # the first time is that of Z_0
    later = State(model(observed, torch.cat([t[:1], t[1:] + h])).states)
    sooner = State(model(observed, torch.cat([t[:1], t[1:] - h])).states)
    for value, rate in (("p", "v"), ("s", "u")):
        slope = (getattr(later, value) - getattr(sooner, value)) / (2 * h)
        difference = (slope - getattr(at, rate))[:, :, inside].abs().flatten()
        assert difference.quantile(0.999) < 1e-5  # kinks at contacts excepted


def test_states_are_valid_and_start_as_observed(truth):
    mixture = wild()(truth[:, :4].double(), TIMES.double())
    assert torch.allclose(mixture.probability.sum(-1), torch.ones(len(truth)).double())
    x = State(mixture.states)
    assert torch.allclose(x.q.norm(dim=-1), torch.ones(1).double(), atol=1e-6)
    assert (x.s > 0).all()
    assert torch.allclose(mixture.states[:, :, 0], truth[:, None, 0].double(), atol=1e-6)
    assert torch.allclose(mixture.mean()[:, 0], truth[:, 0].double(), atol=1e-6)


def test_the_likeliest_alone_is_that_of_the_mixture(truth):
    model = wild()
    observed = truth[:, :3].double()
    assert torch.allclose(
        model.likeliest(observed, TIMES), model(observed, TIMES).likeliest(), atol=1e-9
    )


def test_what_is_not_shown_does_not_count(truth):
    model, observed = wild(), truth[:, :SEEN].double()
    spoiled = observed.clone()
    spoiled[:, 4:] += 7
    a = model(spoiled, TIMES, seen=4).states
    assert torch.allclose(a, model(observed[:, :4], TIMES).states)
    assert not torch.allclose(a, model(observed[:, :5], TIMES).states)


def test_orientation_of_the_start_only_turns_the_result(truth):
    model, z0 = wild(), truth[:, 0].double()
    turned = states.replace(z0, q=(0.5, 0.5, 0.5, 0.5))
    a, b = (State(model(z, TIMES).states) for z in (z0, turned))
    assert torch.allclose(a.p, b.p)
    assert not torch.allclose(a.q, b.q)


@pytest.mark.slow
def test_any_time_can_be_asked_for(pretrained, truth):
    fine = torch.arange(640) / 240
    a = pretrained(truth[:, :4], TIMES).mean()
    b = pretrained(truth[:, :4], fine).mean()
    assert torch.allclose(a, b[:, ::10], atol=1e-4)


@pytest.mark.parametrize("shape", [(4, 21), (2, 3, 4, 22), (4, 0, 22)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(InputError, match="expected states"):
        prepared(torch.zeros(shape), None)


@pytest.mark.parametrize("seen", [0, 17])
def test_other_counts_are_refused(seen, truth):
    with pytest.raises(InputError, match="expected 1 to 16"):
        wild()(truth[:, :SEEN].double(), TIMES, seen=seen)


# --- the shipped weights -----------------------------------------------------------------------


def traj(model, z, seen, noise=0.0):
    sums = MetricSums(32)
    index = torch.arange(32).repeat_interleave(len(z) // 32)
    observed = z[:, :seen]
    if noise:
        normal = torch.randn(observed.shape, generator=torch.Generator().manual_seed(1))
        observed = add_noise(observed, torch.full((len(z),), noise), model.std, normal)
    with torch.no_grad():
        sums.add(torch.cat([model(x, TIMES).mean() for x in observed.split(128)]), z, index)
    return sums.total()["traj"]


def test_shipped_weights_reach_the_promised_errors(pretrained):
    inside, shifted = drawn(8), drawn(8, ood=True)
    assert traj(pretrained, inside, 4) < 0.04
    assert traj(pretrained, shifted, 4) < 0.40
    assert traj(pretrained, inside, 4, noise=0.01) < 0.08
    assert traj(pretrained, shifted, 4, noise=0.01) < 0.50
    assert traj(pretrained, inside, 1) < 1.0  # few sequences, of which some are ambiguous


def test_doubling_the_velocity_doubles_the_way(pretrained):
    z = motions.generate("3d_uniform_motion", 8, seed=2).states[:, :4]
    x = State(z)
    fast = states.replace(z, p=x.p + x.v[:, :1] * TIMES[:4, None], v=2 * x.v)
    with torch.no_grad():
        a, b = (State(pretrained(y, TIMES).mean()).p[:, -1] for y in (z, fast))
    way, double = b - x.p[:, 0], 2 * (a - x.p[:, 0])
    assert ((way - double).norm(dim=-1) < 0.02 * way.norm(dim=-1)).all()


# --- noise -------------------------------------------------------------------------------------


def test_noise_is_of_the_size_told(pretrained):
    z = drawn(16)[:, :4]
    normal = torch.randn(z.shape, generator=torch.Generator().manual_seed(0))
    level = torch.full((len(z),), 0.01)
    level[0] = 0
    noisy = add_noise(z, level, pretrained.std, normal)
    assert torch.equal(noisy[0], z[0])
    ratio = (State(noisy).v - State(z).v)[1:].std((0, 1)) / pretrained.std[3:6]
    assert torch.allclose(ratio, torch.full((3,), 0.01), rtol=0.1)
    assert torch.allclose(State(noisy).q.norm(dim=-1), torch.ones(1), atol=1e-5)


# --- training ----------------------------------------------------------------------------------


def tiny(out, **more):
    small = {"updates": 6, "pool": 4, "batch": 16, "save_every": 3, "model": SMALL}
    return ContextTrainConfig(out=out, **{**LAPTOP, **small, **more})


def test_every_parameter_learns(tmp_path):
    config = tiny(tmp_path)
    run = start(config)
    step = make_step(run, config)
    before = {k: x.clone() for k, x in run.model.named_parameters()}
    for batch, _ in zip(of_round(run, config), range(4), strict=False):
        step(batch)
    for name, parameter in run.model.named_parameters():
        assert parameter.grad.abs().max() > 0, name
        assert not torch.equal(parameter, before[name]), name


@pytest.mark.slow
def test_an_interrupted_run_goes_on_as_if_it_had_not_been(tmp_path, monkeypatch):
    whole = train(tiny(tmp_path / "whole"))
    calls = []

    def stopped():
        calls.append(1)
        return len(calls) == 3

    from contextlib import contextmanager

    from newtongs.base import runs as checkpoint

    @contextmanager
    def flag():
        yield stopped

    monkeypatch.setattr(checkpoint, "stop_flag", flag)
    with pytest.raises(Interrupted, match="update 3"):
        train(tiny(tmp_path / "cut"))
    assert whole.read_bytes() == train(tiny(tmp_path / "cut")).read_bytes()
    with pytest.raises(InputError, match="holds a run with batch = 16"):
        train(tiny(tmp_path / "cut", batch=8))


@pytest.mark.parametrize("lost", ["tensor", "description", "position", "generator"])
def test_a_damaged_run_folder_is_one_line(tmp_path, capsys, lost):
    """A last.safetensors that lacks something cannot go on: exit code 2, no traceback."""
    train(tiny(tmp_path))
    last = tmp_path / "last.safetensors"
    tensors, info = load_tensors(last)
    if lost == "tensor":
        del tensors["average.read.weight"]
    elif lost == "generator":
        tensors["optimizer.generator"] = torch.zeros(3)
    else:
        info |= {"training": 7} if lost == "description" else {"done": "soon"}
    save_tensors(last, tensors, info)
    with pytest.raises(
        InputError, match=r"last\.safetensors is damaged: its run cannot be resumed"
    ):
        train(tiny(tmp_path))
    words = ["train-context", "--out", str(tmp_path), "--updates", "6", "--batch", "16"]
    words += ["--pool", "4", "--frames", "8", "--rounds", "1", "--warm-up", "100"]
    for name in ("width", "blocks", "hidden", "layers", "hypotheses"):
        words += [f"--model.{name}", str(getattr(SMALL, name))]
    with pytest.raises(SystemExit) as stop:
        main([*words, "--average", "0.99"])
    assert stop.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_flag_wins_over_the_preset():
    """Also one whose value is the full run's, and a part of the model's sizes."""
    words = ["train-context", "--out", "o", "--preset", "laptop"]
    full, laptop = ContextTrainConfig(out=Path("o")), app.parse(words)
    assert (laptop.updates, laptop.model.width, laptop.batch) == (3000, 256, 256)
    chosen = app.parse([*words, "--updates", str(full.updates), "--model.width", "64"])
    assert (chosen.updates, chosen.model.width, chosen.model.hidden) == (full.updates, 64, 64)


def test_training_never_sees_the_shift(monkeypatch, tmp_path):
    """Every sequence drawn is in distribution."""
    asked = []
    generate = motions.generate
    monkeypatch.setattr(
        motions, "generate", lambda *a, **k: asked.append(k.get("ood", False)) or generate(*a, **k)
    )
    train(tiny(tmp_path))
    assert asked
    assert not any(asked)


def test_weights_survive_the_disk(tmp_path, truth):
    model = wild(dtype=torch.float32)
    save_context(tmp_path / "m.safetensors", model, {})
    again = load_context(tmp_path / "m.safetensors")
    a, b = (m(truth[:, :4], TIMES).states for m in (model, again))
    assert (a - b).abs().quantile(0.99) < 0.05
    assert torch.equal(model.low, again.low)
    with pytest.raises(InputError, match="does not hold the weights of a ContextNND"):
        load_context(Path(sys.modules["newtongs"].__file__).parent
                     / "checkpoints/state32_seed7301.safetensors")  # fmt: skip


# --- evaluation --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    from newtongs.paper.datasets import state32

    folder = tmp_path_factory.mktemp("state32")
    state32.build(folder, splits=("val_id",), per_motion=2)
    return folder


def test_evaluate_has_rows_for_all_and_for_unseen_frames(data, tmp_path, capsys):
    words = ["evaluate", "--data", str(data), "--splits", "val_id", "--methods", "context"]
    main([*words, "--seen", "4", "--json", str(tmp_path / "a.json")])
    rows = json.loads((tmp_path / "a.json").read_text())["val_id"]
    assert set(rows) == {"context", "context_unseen"}
    assert rows["context"]["fde"] == rows["context_unseen"]["fde"]
    assert rows["context"]["traj"] < rows["context_unseen"]["traj"] < 0.1
    assert "ContextNND" in capsys.readouterr().out
    main([*words, "--seen", "4", "--noise", "0.01", "--json", str(tmp_path / "b.json")])
    noisy = json.loads((tmp_path / "b.json").read_text())["val_id"]
    assert noisy["context"]["traj"] > rows["context"]["traj"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--methods", "context", "--seen", "0"], "from 1 to 16"),
        (["--methods", "context", "--seen", "17"], "from 1 to 16"),
        (["--methods", "context", "--noise", "-1"], "noise: expected"),
        (["--seen", "4"], "requires --methods context"),
        (["--methods", "contxt"], "did you mean context?"),
        (["--methods", "limit"], "unknown method 'limit'; it is called bayes_bound now"),
        (["--methods", "context", "--context", "no.safetensors"], "no checkpoint"),
    ],
)
def test_evaluate_refuses(data, words, said, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["evaluate", "--data", str(data), "--splits", "val_id", *words])
    assert stop.value.code == 2
    assert said in capsys.readouterr().err


def test_the_bayes_bound_knows_what_follows(monkeypatch):
    """Two states tell every family apart; one leaves a blend where two families fit."""
    names = ("projectile_motion", "3d_acceleration_gravity", "free_fall")
    monkeypatch.setattr(motions, "STATE32", names)
    z = torch.cat([motions.generate(name, 6, seed=8, stream=9).states for name in names])
    exact = BayesBound()(z[:, :2], TIMES)
    assert (State(exact).p - State(z).p).abs().max() < 2e-3
    one = BayesBound()(z[:, :1], TIMES)
    off = (State(one).p - State(z).p).square().sum(-1).mean(-1).sqrt()
    assert off[12:].max() < 2e-3  # free fall is like nothing else
    assert (off[:12] > 1).any()
    assert (off[:12] < 2e-3).any()


@pytest.mark.parametrize("seen", [4, 16])
def test_the_bayes_bound_is_no_higher_for_states_with_contacts_among_them(monkeypatch, seen):
    names = ("hybrid_collision_impulse", "object_wall_collision", "free_fall")
    monkeypatch.setattr(motions, "STATE32", names)
    z = torch.cat([motions.generate(name, 6, seed=8, stream=9).states for name in names])
    exact = BayesBound()(z[:, :seen], TIMES)
    assert (State(exact).p - State(z).p).abs().max() < 2e-3


# --- objects of any size, and tracks ------------------------------------------------------------


def test_fitting_there_and_back():
    z = drawn(1)[:, :4].flatten(0, 1).double()
    z = states.replace(z, q=torch.nn.functional.normalize(torch.randn(len(z), 4).double(), dim=-1))
    big = states.replace(z[0], s=(2.0, 2.0, 2.0), p=(19.0, 1.0, 3.0))
    fit = Fitting.of(big, floor=0.5)
    assert fit.size > 5
    assert torch.allclose(fit.to_world(fit.to_model(z)), z, atol=1e-9)
    assert State(fit.to_model(big[None])).p[0, 0].abs() < 1e-9


def test_what_is_of_training_size_is_shown_as_it_is(pretrained):
    z = motions.generate("damped_bouncing", 1, seed=5).states[0]
    a = predict(pretrained, z[0].double(), TIMES)
    with torch.no_grad():
        b = pretrained.likeliest(z[:1], TIMES)[0]
    assert torch.allclose(State(a).p.float(), State(b).p, atol=1e-4)


def test_a_track_is_kept_where_it_was_seen_and_joined(pretrained):
    z = motions.generate("helical_flight", 1, seed=5).states[0].double()
    at = TIMES.double()
    misfit, made = continued(pretrained, z[:8], at[:8], at)
    assert misfit < 0.01
    assert torch.allclose(made[:8], z[:8], atol=1e-6)
    step = (State(made).p.diff(dim=0)).norm(dim=-1)
    assert step.max() < 1.3 * State(z).p.diff(dim=0).norm(dim=-1).max()
    assert (State(made).p - State(z).p).norm(dim=-1).max() < 0.05


def test_a_long_track_is_read_from_its_beginning(pretrained):
    """From the middle on the model does not know a motion, and says so."""
    z, at = motions.generate("bouncing_on_plane", 1, seed=5).states[0].double(), TIMES.double()
    misfit, made = continued(pretrained, z[:40], at[:40], at)
    assert (State(made).p - State(z).p).norm(dim=-1)[40:].mean() < 0.3
    assert misfit < 0.2


def test_a_motion_that_it_does_not_know_is_told(tmp_path, capsys):
    t = np.arange(16) / 24
    path = np.stack([6 * np.abs(t % 0.3 - 0.15), 1 + 0 * t, t], -1)
    (tmp_path / "zigzag.json").write_text(json.dumps({"fps": 24, "p": path.tolist()}))
    main(["continue", str(tmp_path / "zigzag.json"), "--out", str(tmp_path), "--formats", "json"])
    assert "cannot explain this motion" in capsys.readouterr().err


def test_in_between_states():
    z = drawn(1)[0, :4].double()
    at = torch.arange(4).double() / 24
    assert torch.allclose(interpolated(z, at, at), z)
    half = interpolated(z, at, at[:1] + 1 / 48)
    assert torch.allclose(State(half).p[0], (State(z).p[0] + State(z).p[1]) / 2)


@pytest.fixture
def track(tmp_path):
    z = motions.generate("projectile_motion", 1, seed=6).states[0, :8]
    path = tmp_path / "throw.json"
    path.write_text(json.dumps({"fps": 24, "states": z.tolist()}))
    return path


def test_continue_writes_an_animation(track, tmp_path, capsys):
    from newtongs.exports.replay import load_animation

    main(["continue", str(track), "--out", str(tmp_path / "out"), "--formats", "json",
          "--seconds", "1"])  # fmt: skip
    assert "8 states over 0.292 s, 1 s more" in capsys.readouterr().out
    made = load_animation(tmp_path / "out" / "throw_continued.json")
    assert float(made.times[-1]) == pytest.approx(1.29, abs=0.05)
    assert made.about.dynamics == "context"
    # and what was made is a track again
    main(["continue", str(tmp_path / "out" / "throw_continued.json"), "--out",
          str(tmp_path / "more"), "--formats", "json", "--seconds", "0.5"])  # fmt: skip


def test_continue_reads_positions_alone_and_dumps(tmp_path):
    from newtongs.formats.lgm import to_lgm
    from newtongs.samples.objects import red_cube

    z = motions.generate("projectile_motion", 1, seed=6).states[0, :6]
    np.savez(tmp_path / "p.npz", p=State(z).p.numpy(), times=TIMES[:6].numpy())
    seen = read_track(tmp_path / "p.npz")
    assert torch.allclose(State(seen.states).v[2].float(), State(z).v[2], atol=0.05)
    frames = to_lgm(red_cube()).repeat(5, 1, 1)
    frames[..., 0] += torch.arange(5)[:, None] * 0.1
    np.save(tmp_path / "dump.npy", frames.numpy())
    seen = read_track(tmp_path / "dump.npy")
    assert torch.allclose(State(seen.states).v[2, 0], torch.tensor(2.4).double(), atol=1e-3)
    assert seen.scene is not None


def test_a_track_cannot_expand_without_limit(tmp_path):
    """Zeros that shrink a thousandfold, under a name that is read and under one that is not."""
    zeros = np.zeros((3_500_000, 3))
    np.savez_compressed(tmp_path / "a.npz", p=zeros)
    with pytest.raises(InputError, match="10,500,000 numbers"):
        read_track(tmp_path / "a.npz")
    np.savez_compressed(tmp_path / "b.npz", p=zeros[:2] + 1, more=zeros)
    assert len(read_track(tmp_path / "b.npz").states) == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}", 'expected "states"'),
        ("[1", "invalid JSON"),
        ("[" + " " * (64 << 20), "expected up to 67,108,864 bytes of JSON"),
        ('{"p": [[0, 1]], "fps": 24}', "p: expected shape (1, 3)"),
        ('{"p": [[0, 1, 0], [0, 1, 0]], "times": [1, 1]}', "increasing times"),
        ('{"p": [[0, 1, 0], [0, 1, 0]], "fps": 0}', "fps: expected"),
        ('{"states": [[1, 2]]}', "expected shape"),
        ('{"states": []}', "states: expected a row for each time, got the shape (0,)"),
        ('{"states": 3}', "states: expected a row for each time, got the shape ()"),
        ('{"p": [0, 1, 0]}', "p: expected a row for each time, got the shape (3,)"),
        ('{"p": []}', "p: expected a row for each time"),
        ('{"p": [[]]}', "p: expected a row for each time, got the shape (1, 0)"),
        ('{"p": [[0, 1, 0]], "fps": [24, 25]}', "fps: expected"),
        ('{"p": [[0, 1, 0]], "fps": "24"}', "fps: expected"),
        ('{"p": [[0, 1, 0], [0, 1, 0]], "times": [0, 601]}', "up to 600 s, got 601 s"),
    ],
)
def test_continue_refuses(content, said, tmp_path, capsys):
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(SystemExit) as stop:
        main(["continue", str(path), "--out", str(tmp_path / "out")])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1


def test_animate_follows_the_prediction():
    from newtongs import animate
    from newtongs.pipeline.spec import Physics
    from newtongs.samples.objects import red_cube

    made = animate(red_cube(), select="all", velocity=(1.0, 0.0, 0.0), seconds=0.5,
                   physics=Physics("context"))  # fmt: skip
    assert made.about.dynamics == "context"
    z = made.world.state_to_physics(made.states[0].double())
    expected = predict(load_pretrained_context(), z[0], made.times)
    assert torch.allclose(State(z).p, State(expected).p, atol=1e-3)


def test_many_starts_of_an_object_are_predicted_as_each_alone(pretrained):
    z0 = states.make(p=(3.0, 0.9, -1.0), s=(0.5, 0.6, 0.4), v=(1.0, 2.0, 0.0), w=(0.0, 1.0, 0.0))
    starts = torch.stack([z0, states.replace(z0, v=(0, 3, 1)), states.replace(z0, w=(2, 0, 1))])
    times = torch.linspace(0, 2, 13, dtype=torch.float64)
    many = predict_many(pretrained, starts, times)
    alone = torch.stack([predict(pretrained, one, times) for one in starts])
    torch.testing.assert_close(many, alone, atol=1e-5, rtol=1e-5)
    assert (State(many[1]).p - State(many[0]).p).norm(dim=-1).max() > 0.1
    late = predict_many(pretrained, starts, times[4:])  # the start counts, not the first time
    torch.testing.assert_close(late, many[:, 4:], atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_a_goal_is_searched_among_predictions():
    from newtongs import animate
    from newtongs.pipeline.spec import Physics
    from newtongs.samples.objects import red_cube

    made = animate(
        red_cube(), select="all", up=(0, 1, 0), floor_height=-0.6, goal="displace 0.7 0 0",
        physics=Physics("context"),
    )  # fmt: skip
    z = made.world.state_to_physics(made.states[0])
    missed = State(z).p[-1] - State(z).p[0] - torch.tensor([0.7, 0.0, 0.0])
    assert made.about.goal_missed_by == pytest.approx((float(missed.norm()),), abs=2e-3)
    assert missed.norm() < 0.2
    expected = predict(load_pretrained_context(), z[0], made.times)
    assert (State(expected).p - State(z).p).abs().max() < 0.02  # nothing else moved it
