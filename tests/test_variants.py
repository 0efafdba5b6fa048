"""What a choice of dynamics changes, and above all what it leaves as it was."""

import pytest
import torch

from newtongs import GaussianNND, InputError, State, load_pretrained, make_state
from newtongs.base.state import LAYOUT
from newtongs.dynamics.backends import predictor
from newtongs.dynamics.variants import choose, rigid, rigid_state
from newtongs.dynamics.weights import remove_branches

TIMES = torch.arange(25, dtype=torch.float64) / 24
DYNAMICS = ("learned", "structured", "analytic")


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def some_states(n=24):
    r = torch.rand(n, 22)
    return make_state(
        p=2 * r[:, :3],
        q=2 * r[:, 3:7] - 1,
        v=6 * r[:, 7:10] - 3,
        w=8 * r[:, 10:13] - 4,
        s=0.18 + 0.18 * r[:, 13:16],
        u=r[:, 16:19] - 0.5,
        m=0.5 + 3 * r[:, 19],
        e=0.3 + 0.6 * r[:, 20],
        mu=r[:, 21],
    )


@torch.no_grad()
def test_choices_are_what_they_are_called():
    z0 = some_states()
    trained = load_pretrained(7302)
    assert torch.equal(choose("learned", seed=7302).rollout(z0, TIMES), trained.rollout(z0, TIMES))
    removed = remove_branches(load_pretrained(7302), "continuous", "contact")
    structured = choose("structured", seed=7302)
    assert torch.equal(structured.rollout(z0, TIMES), removed.rollout(z0, TIMES))
    assert structured.c_v == trained.c_v
    assert torch.equal(choose("analytic").rollout(z0, TIMES), GaussianNND().rollout(z0, TIMES))


def test_choosing_leaves_random_numbers_alone():
    before = torch.random.get_rng_state()
    choose("analytic")
    assert torch.equal(torch.random.get_rng_state(), before)


@torch.no_grad()
@pytest.mark.parametrize("dynamics", DYNAMICS)
def test_a_rigid_scale_stays_bit_for_bit(dynamics):
    model, z0 = choose(dynamics, "rigid"), rigid_state(some_states())
    for rolled in (model.rollout(z0, TIMES), predictor(model)(z0, TIMES)):
        x = State(rolled)
        assert torch.equal(x.s, x.s[:, :1].expand_as(x.s))
        assert not x.u.any()
        assert (x.p[:, -1] != x.p[:, 0]).all()  # and it moves


@torch.no_grad()
@pytest.mark.parametrize("dynamics", DYNAMICS)
def test_a_rigid_model_has_the_same_equations(dynamics):
    """Any state, also one whose scale moves: every rate but the scale's acceleration is equal."""
    free, stiff, z = choose(dynamics), choose(dynamics, "rigid"), some_states(200)
    a, b = free.field(z), stiff.field(z)
    for name, channels in LAYOUT.items():
        if name != "u":
            assert torch.equal(a[:, channels], b[:, channels]), name
    assert not b[:, LAYOUT["u"]].any()
    assert a[:, LAYOUT["u"]].abs().min() > 0
    assert torch.equal(free.jump(z), stiff.jump(z))


def test_the_models_given_stay_as_they_are():
    model, z0 = load_pretrained(), some_states()
    before = {k: x.clone() for k, x in model.state_dict().items()}
    rigid(model)
    assert all(torch.equal(x, before[k]) for k, x in model.state_dict().items())
    moving = z0.clone()
    assert not State(rigid_state(z0)).u.any()
    assert torch.equal(z0, moving)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"dynamics": "learnd"}, "did you mean learned"),
        ({"scale": "rigd"}, "did you mean rigid"),
        ({"seed": 1}, "seeds: 7301, 7302, 7303"),
    ],
)
def test_errors_name_the_way_out(given, hint):
    with pytest.raises(InputError, match=hint):
        choose(**given)
