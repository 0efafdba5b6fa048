"""Parity of the fused CUDA path with the reference, in value and gradient.

On a machine with a GPU the kernels run there; elsewhere Triton's interpreter runs the same kernels
on the CPU, in a process of its own because it must be told before Triton is imported.
"""

import json
import os
import subprocess
import sys

import pytest
import torch
from ablated_models import ABLATED

pytest.importorskip("triton", reason="Triton is available on Linux only")

PARITY = """
import json
import sys
import torch
from dataclasses import replace
from newtongs import GaussianNND, NNDConfig, make_state
from newtongs.dynamics.backends.triton_rollout import TritonRollout

device = "cuda" if torch.cuda.is_available() else "cpu"

def measured(passes, rows, config, frames=2):
    torch.manual_seed(0)
    model = GaussianNND(NNDConfig(**config)).to(device)
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.15)
    reference = GaussianNND(model.config).to(device).double()
    reference.load_state_dict(model.state_dict())

    # Just above the floor and falling: with probability one half an object lands in these frames.
    r = torch.rand(rows, 16)
    above = torch.tensor([1.0, 0.2, 1.0]), torch.tensor([0.0, 0.3, 0.0])
    z0 = make_state(
        p=r[:, :3] * above[0] + above[1], q=r[:, 3:7] - 0.4, v=4 * r[:, 7:10] - 3,
        w=6 * r[:, 10:13] - 3, s=0.2 + 0.2 * r[:, 13:], u=r[:, :3] - 0.5, m=0.5 + r[:, 5],
        e=r[:, 6], mu=r[:, 7],
    ).to(device)
    times = torch.arange(frames) * 0.045  # two substeps a frame
    cotangent = torch.randn(rows, frames, 22, device=device)
    cotangent[..., 19:] = 0  # the material is constant

    fused = TritonRollout(model, times, rows=rows, passes=passes, scale=1.0)
    out = fused(z0)
    (out * cotangent).sum().backward()
    fused.collect()
    expected = reference.rollout(z0.double(), times)
    (expected * cotangent).sum().backward()

    reference.config = replace(reference.config, contact=False)
    hits = (reference.rollout(z0.double(), times) != expected).any(-1).any(-1).sum().item()
    assert all(  # what the model does not use has no gradient
        p.grad is None or not p.grad.any()
        for p, q in zip(model.parameters(), reference.parameters()) if q.grad is None
    )
    error = max(
        ((p.grad - q.grad).norm() / q.grad.norm()).item()
        for p, q in zip(model.parameters(), reference.parameters()) if q.grad is not None
    )
    return hits, (out - expected).abs().max().item(), error, type(fused.f).__name__

print(json.dumps([measured(*case) for case in json.loads(sys.argv[1])]))
"""


# A program takes several blocks of rows, of which a GPU has 132 at a time and the interpreter one.
ROWS, WIDTHS = (40_000, (128, 256)) if torch.cuda.is_available() else (300, (128,))


INTERPRET = not torch.cuda.is_available()


def program(code, *words, interpret=INTERPRET):
    """What a program prints, run in a process of its own, in Triton's interpreter if asked."""
    environment = {**os.environ} | ({"TRITON_INTERPRET": "1"} if interpret else {})
    command = [sys.executable, "-W", "ignore", "-c", code, *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def measured(*cases):
    """Landings, and errors of value and gradient, of ``(passes, rows, config)`` in one process."""
    found = json.loads(program(PARITY, json.dumps(cases)))
    for (passes, rows, _), (*_, network) in zip(cases, found, strict=True):
        at_best = hopper() and passes == 3 and rows % 4 == 0
        assert network == ("HopperNetwork" if at_best else "TritonNetwork")
    return [numbers for *numbers, _ in found]


FEWER = ROWS if torch.cuda.is_available() else 60  # objects for ablated models


@pytest.fixture(scope="module")
def three_passes():
    """What :func:`measured` finds for the full model by width and for every ablation by name."""
    cases = {hidden: (3, ROWS, {"hidden": hidden}) for hidden in WIDTHS}
    cases |= {str(config): (3, FEWER, {"hidden": 128, **config}) for config in ABLATED}
    return dict(zip(cases, measured(*cases.values()), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("hidden", WIDTHS)
def test_three_passes_agree_with_float64(three_passes, hidden):
    """States to float32 rounding; weight gradients to the rounding of their half-precision factors.

    A product of two halves carries a relative error of 2^-11 = 5e-4 a term; over the few terms
    here little of it averages out.
    """
    hits, value, gradient = three_passes[hidden]
    assert 0.1 * ROWS < hits < 0.9 * ROWS
    assert value < 1e-5
    assert gradient < 1e-3


@pytest.mark.slow
def test_fewer_passes_are_coarser():
    """One pass rounds weights and activations to 2^-12: visible, and still a gradient."""
    ((_, value, gradient),) = measured((1, 20, {"hidden": 128}))
    assert 1e-6 < value < 1e-2
    assert gradient < 2e-2


@pytest.mark.slow
@pytest.mark.parametrize("config", ABLATED, ids=str)
def test_every_ablation_agrees_with_float64(three_passes, config):
    """The same bounds as for the full model, at fewer objects."""
    hits, value, gradient = three_passes[str(config)]
    assert (hits > 0.1 * FEWER) == config.get("contact", True)
    assert value < 1e-5
    assert gradient < 2e-3


def hopper():
    nvidia = torch.cuda.is_available() and torch.version.hip is None
    return nvidia and torch.cuda.get_device_capability() == (9, 0)


@pytest.mark.skipif(not hopper(), reason="needs a Hopper GPU")
def test_blocks_that_are_not_full_agree_with_float64():
    """One group without rows, a few rows over, half a block; 1001 are left to Triton's kernels."""
    cases = [(3, n, {"hidden": h}) for n in (64, 68, 1000, 1001) for h in (128, 256)]
    for case, (_, value, gradient) in zip(cases, measured(*cases), strict=True):
        assert value < 1e-5, case
        assert gradient < 2e-3, case


TWICE = """
import torch
from newtongs import load_pretrained, make_state
from newtongs.dynamics.backends.gluon_networks import HopperNetwork
from newtongs.dynamics.backends.triton_rollout import TritonRollout

torch.manual_seed(0)
model = load_pretrained().to("cuda")
z0 = torch.rand(60_000, 22, device="cuda") + 0.2
fused = TritonRollout(model, torch.arange(4) / 24, rows=len(z0), passes=3, scale=1.0)
assert type(fused.f) is HopperNetwork

def gradients():
    model.zero_grad()
    fused(z0).square().mean().backward()
    fused.collect()
    return [p.grad.clone() for p in model.parameters()]

first = gradients()
for _ in range(20):
    assert all(torch.equal(a, b) for a, b in zip(first, gradients()))
"""


@pytest.mark.skipif(not hopper(), reason="needs a Hopper GPU")
def test_groups_of_warps_give_the_same_bits_every_time():
    """A copy that was not waited for would show as a result that changes."""
    program(TWICE)


HOPPER = """
from triton.backends.compiler import GPUTarget
from triton.compiler import compile
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from newtongs.dynamics.backends import gluon_networks as kernels
from newtongs.dynamics.backends.gluon_networks import BOTTOM, FORWARD, ONE_LAYER

def blocks(*shape, kind="fp16"):
    dtype = {"fp16": gl.float16, "fp32": gl.float32}[kind]
    layout = gl.NVMMASharedLayout.get_default_for([*shape], dtype)
    return f"tensordesc<{kind}{[*shape]},{layout!r}>"

def compile_all(hidden):
    common = {"x": blocks(32, 64, kind="fp32"), "n": "i32", "scale": "fp32"}

    def columns(*names, rows, chunk):
        return {name + half: blocks(rows, chunk) for name in names for half in ("_hi", "_lo")}

    def forward(chunk):
        second = {"w2_hi": blocks(chunk, hidden), "w2_lo": blocks(chunk, hidden)}
        narrow = columns("w1", rows=32, chunk=chunk) | columns("w3", rows=hidden, chunk=16)
        return {"kept": blocks(64, hidden)} | second | narrow

    def bottom(chunk):
        tiles = {"d2": blocks(64, hidden), "w2t": blocks(hidden, chunk), "h1": blocks(64, chunk)}
        return tiles | columns("w1", rows=32, chunk=chunk)

    def one_layer(chunk):
        return columns("w1", rows=32, chunk=chunk) | columns("w2t", rows=16, chunk=chunk)

    saved = {"OUT": 9, "SAVE": True, "TANH": True}
    for kernel, given, choices in (
        (kernels.two_layer_forward, forward(FORWARD["CHUNK"]), FORWARD | saved),
        (kernels.two_layer_forward, forward(FORWARD["CHUNK"]), FORWARD | saved | {"SAVE": False}),
        (kernels.two_layer_backward_bottom, bottom(BOTTOM["CHUNK"]), BOTTOM | {"STATE": 22}),
        (kernels.one_layer_backward, one_layer(ONE_LAYER["CHUNK"]),
         ONE_LAYER | {"STATE": 22, "OUT": 6, "TANH": True}),
    ):
        names, choices = kernel.arg_names, choices | {"HIDDEN": hidden}
        kinds = common | given | dict.fromkeys(choices, "constexpr")
        signature = {name: kinds.get(name, "*fp32") for name in names}
        aligned = {
            (i,): [["tt.divisibility", 16]]
            for i, name in enumerate(names) if signature[name] in ("*fp32", "i32")
        }
        constants = {(names.index(name),): value for name, value in choices.items()}
        made = compile(
            GluonASTSource(kernel, signature, constexprs=constants, attrs=aligned),
            target=GPUTarget("cuda", 90, 32), options={"num_warps": 4},
        )
        print(made.metadata.shared, made.asm["ptx"].count("wgmma.mma_async"))

for hidden in (128, 256):
    compile_all(hidden)
"""


@pytest.mark.slow
def test_kernels_compile_for_hopper_within_its_shared_memory():
    """No card is needed for that; the interpreter knows nothing of these kernels."""
    pytest.importorskip("triton.experimental.gluon")
    said = program(HOPPER, interpret=False)
    lines = [[int(x) for x in line.split()] for line in said.splitlines()]
    assert len(lines) == 2 * 4
    for shared, products in lines:
        assert 0 < shared <= 227 * 1024
        assert products > 0


LOSS = """
import torch
from newtongs.base.state import project
from newtongs.paper.training.config import LossWeights
from newtongs.paper.training.cuda import objective_and_gradient
from newtongs.paper.training.loss import objective

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
heavy = LossWeights(material=0.3, smooth=1.0, penetration=2.0, q=3.0)
for rows, frames, weights in ((150, 5, LossWeights()), (128, 4, heavy), (7, 9, heavy)):
    a, b = (project(torch.randn(rows, frames, 22, device=device)) for _ in range(2))
    a[0, 0, 3:7] = b[0, 0, 3:7]  # alignments of one, to rounding
    a[..., 14] *= torch.randn(rows, frames, device=device).sign()
    a = a.permute(1, 2, 0).contiguous().permute(2, 0, 1)  # as the rollout leaves it
    terms, gradient = objective_and_gradient(a, b, weights)
    exact = a.double().requires_grad_()
    expected = objective(exact, b.double(), weights)
    expected["total"].backward()
    assert list(terms) == list(expected)
    for name, term in terms.items():
        torch.testing.assert_close(term, expected[name].detach(), rtol=1e-6, atol=0)
    moving = exact.grad[..., :19]
    error = (gradient[..., :19] - moving).norm() / moving.norm()
    assert error < 1e-6, error
    assert not gradient[..., 19:].any()  # the material is the initial state's
"""


@pytest.mark.slow
def test_the_objective_agrees_with_float64_in_value_and_gradient():
    program(LOSS)


class Noting:
    """Stands for a kernel: notes what is asked of it."""

    def __init__(self):
        self.noted = []

    def __getitem__(self, grid):
        return lambda *values, **options: self.noted.append(("run", grid, values, options))

    def warmup(self, *values, grid, **options):
        self.noted.append(("compile", grid, values, options))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 130])
def test_the_predictor_takes_any_number_of_objects(rows):
    """Hopper's kernels want a multiple of four rows: what is added does not come back."""
    from newtongs import load_pretrained, make_state
    from newtongs.dynamics.backends import predictor

    model, times = load_pretrained().cuda(), torch.arange(9) / 24
    r = torch.rand(rows, 3, generator=torch.Generator().manual_seed(rows))
    ones = torch.ones(rows)
    z0 = make_state(
        p=r + torch.tensor([0.0, 0.5, 0.0]), q=torch.tensor([[1.0, 0, 0, 0]]).expand(rows, 4),
        v=r - 0.5, w=r, s=0.2 + 0.1 * r, u=torch.zeros(rows, 3), m=ones, e=0.5 * ones,
        mu=0.3 * ones,
    ).cuda()  # fmt: skip
    with torch.no_grad():
        expected = model.rollout(z0, times)
    found = predictor(model)(z0, times)
    assert found.shape == (rows, 9, 22)
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=0)


def test_kernels_are_compiled_and_not_run_ahead():
    from newtongs.dynamics.backends.precompile import launch, precompile

    kernel = Noting()
    launch(kernel, (3,))(1, ROWS=2)
    with precompile():
        launch(kernel, (3,))(1, ROWS=2)
    launch(kernel, (3,))(1, ROWS=2)
    assert [what for what, *_ in kernel.noted] == ["run", "compile", "run"]
    assert len({str(rest) for _, *rest in kernel.noted}) == 1


def test_two_frames_need_the_kernels_of_any_number(monkeypatch):
    """What is compiled ahead is all that an update and a validation launch."""
    from newtongs import GaussianNND
    from newtongs.dynamics.backends import triton_rollout

    def launched(frames, run):
        noted = set()
        monkeypatch.setattr(
            triton_rollout,
            "launch",
            lambda kernel, grid: (
                lambda *values, **options: noted.add(
                    (kernel.fn.__name__, grid, tuple(sorted(options.items())))
                )
            ),
        )
        times = torch.arange(frames) / 24
        run(triton_rollout.TritonRollout(GaussianNND(), times, rows=100))
        return noted

    def update_and_validation(rollout):
        z0, c = torch.zeros(100, 22), rollout.model.scalars.detach()
        frames, tape = rollout.run(z0, c, save=True)
        rollout.gradient(c, tape, frames)
        rollout.run(z0, c)

    ahead = launched(2, lambda rollout: rollout.compile())
    assert ahead == launched(6, update_and_validation)
    assert len({name for name, *_ in ahead}) == 11


def test_rows_beyond_half_precision_are_made_again():
    from newtongs.dynamics.backends import repaired

    states = torch.zeros(4, 3, 22)
    states[1, 2, 7], states[3, 0, 0] = torch.nan, torch.inf
    found = repaired(states, lambda rows: torch.full((int(rows.sum()), 3, 22), 5.0))
    assert found.amax((1, 2)).tolist() == [0, 5, 0, 5]
