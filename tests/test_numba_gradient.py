"""The compiled rollout's gradient against autograd through the reference in float64."""

import copy

import pytest
import torch
from ablated_models import ABLATED

from newtongs import GaussianNND, NNDConfig, State, make_state
from newtongs.ranks import Ranks
from newtongs.training.config import TrainConfig
from newtongs.training.update import ReferenceUpdate, make_update

pytest.importorskip("numba")
from newtongs.dynamics.backends.numba_gradient import CompiledRollout
from newtongs.training.compiled import CompiledUpdate


def some_model(**config):
    model = GaussianNND(NNDConfig(**{"hidden": 37, **config}))
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.15)
    with torch.no_grad():
        model.alpha.fill_(-1.5)
        model.alpha_imp.fill_(0.5)
        model.k_s.fill_(-0.4)  # its absolute value counts, and so does the sign of its gradient
    return model


def some_states(n):
    """Just above the floor and falling: about half of them land; some shrink to the floor's."""
    r = torch.rand(n, 16)
    return make_state(
        p=r[:, :3] * torch.tensor([1.0, 0.4, 1.0]) + torch.tensor([0.0, 0.3, 0.0]),
        q=r[:, 3:7] - 0.4, v=4 * r[:, 7:10] - 3, w=6 * r[:, 10:13] - 3, s=0.1 + 0.3 * r[:, 13:],
        u=2 * r[:, :3] - 1.5, m=0.5 + r[:, 5], e=r[:, 6], mu=r[:, 7],
    )  # fmt: skip


def cotangent(n, frames):
    g = torch.randn(n, frames, 22)
    g[..., 19:] = 0  # the material is constant
    return g


def exact(model, z0, times, g):
    """States and gradients in float64."""
    reference = copy.deepcopy(model).double()
    out = reference.rollout(z0.double(), times)
    (out * g).sum().backward()
    return out, [p.grad for p in reference.parameters()]


@pytest.mark.parametrize(
    ("n", "times"),
    [(1, torch.arange(8) / 24), (50, torch.arange(8) / 24), (33, [0.0, 0.01, 0.1, 0.105, 0.3])],
    ids=["one", "many", "uneven"],
)
def test_values_and_gradients(n, times):
    model, z0 = some_model(), some_states(n)
    times = torch.as_tensor(times, dtype=torch.float64)
    g = cotangent(n, len(times))
    rollout = CompiledRollout(model, times)
    out = rollout.forward(z0)
    rollout.backward(g)
    rollout.collect()
    expected, gradients = exact(model, z0, times, g)
    if n > 1:
        bounced = (State(expected).v[:, 1:, 1] > State(expected).v[:, :-1, 1] + 0.5).any(1)
        assert 0.2 * n < bounced.sum() < 0.98 * n
        assert (State(expected).s == 1e-4).any()
    assert (out - expected).abs().max() < 1e-5
    for p, q in zip(model.parameters(), gradients, strict=True):
        assert (p.grad - q).norm() < 3e-5 * q.norm() + 1e-6


def test_gradients_add_up_and_the_weights_are_read_anew():
    times, z0, g = torch.arange(5) / 24, some_states(20), cotangent(20, 5)
    model = some_model()
    rollout = CompiledRollout(model, times)
    for _ in range(2):
        rollout.forward(z0)
        rollout.backward(g)
    rollout.collect()
    _, once = exact(model, z0, times, g)
    for p, q in zip(model.parameters(), once, strict=True):
        assert (p.grad - 2 * q).norm() < 6e-5 * q.norm() + 2e-6
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(0.7)
    model.zero_grad()
    out = rollout.forward(z0[:7])  # fewer rows: other room
    rollout.backward(g[:7])
    rollout.collect()
    expected, gradients = exact(model, z0[:7], times, g[:7])
    assert (out - expected).abs().max() < 1e-5
    for p, q in zip(model.parameters(), gradients, strict=True):
        assert (p.grad - q).norm() < 3e-5 * q.norm() + 1e-6


@pytest.mark.parametrize("micro_batch", [None, 7])
def test_an_update_is_the_references(tmp_path, micro_batch):
    times, group = torch.arange(6) / 24, Ranks(0, 1, torch.device("cpu"))
    config = TrainConfig(data=tmp_path, out=tmp_path, micro_batch=micro_batch)
    target = some_model(hidden=8).rollout(some_states(20), times).detach()
    models = [some_model(), None]
    models[1] = copy.deepcopy(models[0])
    made = make_update(models[0], times, config, group)
    assert isinstance(made, CompiledUpdate)
    terms = made(target, 40)
    expected = ReferenceUpdate(models[1], times, config, group)(target, 40)
    # The orientation's term is one minus a cosine near one: rounding of 1e-7 a sequence.
    assert terms == pytest.approx(expected, rel=1e-5, abs=1e-8)
    for p, q in zip(*(m.parameters() for m in models), strict=True):
        assert torch.allclose(p.grad, q.grad, rtol=1e-4, atol=1e-6)
    assert torch.allclose(
        made.predict(target[:, 0]), models[1].rollout(target[:, 0], times), atol=1e-5
    )


@pytest.mark.parametrize("config", ABLATED, ids=str)
def test_every_ablation(config):
    """The same bounds as for the full model; what a model does not use has no gradient."""
    model, z0, times = some_model(**config), some_states(50), torch.arange(8) / 24
    g = cotangent(50, 8)
    rollout = CompiledRollout(model, times)
    out = rollout.forward(z0)
    rollout.backward(g)
    rollout.collect()
    expected, gradients = exact(model, z0, times, g)
    assert (out - expected).abs().max() < 1e-5
    for p, q in zip(model.parameters(), gradients, strict=True):
        if q is None:
            assert p.grad is None or not p.grad.any()
        else:
            assert (p.grad - q).norm() < 3e-5 * q.norm() + 1e-6


@pytest.mark.parametrize("config", ABLATED, ids=str)
def test_every_ablation_is_trained_by_compiled_code(tmp_path, config):
    times, group = torch.arange(6) / 24, Ranks(0, 1, torch.device("cpu"))
    settings = TrainConfig(data=tmp_path, out=tmp_path, backend="fused")
    target = some_model(hidden=8).rollout(some_states(20), times).detach()
    model = some_model(**config)
    reference = copy.deepcopy(model)
    made = make_update(model, times, settings, group)
    assert isinstance(made, CompiledUpdate)
    terms = made(target, 40)
    expected = ReferenceUpdate(reference, times, settings, group)(target, 40)
    assert terms == pytest.approx(expected, rel=1e-5, abs=1e-7)  # one minus a cosine, as above
    assert torch.allclose(
        made.predict(target[:, 0]), reference.rollout(target[:, 0], times), atol=1e-5
    )


def test_a_subclass_is_left_to_the_reference(tmp_path):
    class Other(GaussianNND):
        """It might have changed an equation."""

    group, settings = Ranks(0, 1, torch.device("cpu")), TrainConfig(data=tmp_path, out=tmp_path)
    made = make_update(Other(NNDConfig(hidden=8)), torch.arange(3) / 24, settings, group)
    assert isinstance(made, ReferenceUpdate)


def test_several_threads_give_the_same_bits_again(tmp_path):
    """Whichever thread is quicker: a resumed run must end in the same bytes."""
    times, group = torch.arange(6) / 24, Ranks(0, 1, torch.device("cpu"))
    settings = TrainConfig(data=tmp_path, out=tmp_path, micro_batch=3)
    target, model = some_model(hidden=8).rollout(some_states(40), times).detach(), some_model()
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        update = CompiledUpdate(model, times, settings, group)
        found = []
        for _ in range(4):
            model.zero_grad()
            terms = update(target, 40)
            found.append(([p.grad.clone() for p in model.parameters()], terms))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    for gradients, terms in found[1:]:
        assert terms == found[0][1]
        assert all(torch.equal(a, b) for a, b in zip(gradients, found[0][0], strict=True))
