"""The fast CUDA path: rollout and its gradient as a sequence of Triton kernels.

It has no semantics of its own: it computes ``GaussianNND.rollout``, and parity with it, in value
and gradient, is a test. One kernel evaluates a whole network, another does the arithmetic between
two evaluations; nothing else runs. The backward kernels sum up the gradients of the narrow layers;
that of the wide one is a large matrix product over factors that they write.
"""

import math
import os
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from ...base.state import DIM, project
from ...base.types import StateTensor, Times
from ..gaussian_nnd import GaussianNND
from ..rollout import intervals, substeps
from ..solvers import SCHEMES
from . import triton_networks as kernels
from . import triton_physics as physics
from .precompile import launch

INPUTS, OUTPUTS = 32, 16  # state and network outputs, padded to what tensor cores take
SLABS = 32  # pieces a weight-gradient product is cut into, so that it fills the GPU
ROWS = 128  # objects per block of a physics kernel
ROWS_ALIGNED = 4  # Hopper cards copy blocks of states whose channels start at multiples of 16 bytes


@dataclass(frozen=True)
class KernelBlock:
    """Block sizes of a network's kernel."""

    rows: int
    chunk: int  # hidden units at a time
    warps: int
    stages: int  # of the loads' pipeline
    programs: int = 0  # per multiprocessor, each taking several blocks of rows; if zero, one

    def options(self) -> dict[str, int]:
        """For the launch."""
        shape = {"ROWS": self.rows, "CHUNK": self.chunk}
        return shape | {"num_warps": self.warps, "num_stages": self.stages}


# Measured fastest on an H200 with three passes.
DEEP = {
    "forward": KernelBlock(64, 32, warps=4, stages=3),
    "top": KernelBlock(32, 128, warps=4, stages=3, programs=2),
    "bottom": KernelBlock(128, 64, warps=8, stages=2, programs=1),
}
SHALLOW = {
    "forward": KernelBlock(64, 64, warps=4, stages=2),
    "bottom": KernelBlock(128, 64, warps=4, stages=2, programs=2),
}


@cache
def multiprocessors(device: torch.device) -> int:
    """Number of multiprocessors of the card; one in Triton's interpreter."""
    if device.type != "cuda":
        return 1
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def nvidia(device: torch.device) -> bool:
    """Whether kernels may use the card's own instructions; the interpreter has none."""
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    return device.type == "cuda" and torch.version.hip is None and not interpreted


def halves(w: Tensor) -> tuple[Tensor, Tensor]:
    """``w = hi + lo`` to about 22 bits, both in half precision."""
    hi = w.half()
    return hi.contiguous(), (w - hi.float()).half().contiguous()


def padded(w: Tensor, *shape: int) -> Tensor:
    """``w`` in the corner of a zero matrix."""
    out = w.new_zeros(shape)
    out[tuple(slice(n) for n in w.shape)] = w
    return out


class TritonNetwork:
    """One residual network: its kernels, and the gradients of its weights.

    ``tanh`` says whether its outputs are bounded. ``slots`` backward calls write the factors of
    W2's gradient side by side before one product takes them all; the other gradients are summed up
    by the kernels.
    """

    def __init__(
        self,
        network: nn.Sequential,
        *,
        rows: int,
        passes: int,
        scale: float,
        slots: int,
        tanh: bool,
    ) -> None:
        self.layers = [layer for layer in network if isinstance(layer, nn.Linear)]
        self.deep = len(self.layers) == 3
        self.out, self.hidden = self.layers[-1].out_features, self.layers[0].out_features
        self.rows, self.passes, self.scale, self.slots = rows, passes, scale, slots
        self.tanh = tanh
        self.device = self.layers[0].weight.device
        self.blocks = DEEP if self.deep else SHALLOW
        self.padded_rows = -(-rows // 128) * 128
        self.factors: dict[str, Tensor] = {}
        self.sums: dict[str, Tensor] = {}
        self.prepare()

    @torch.no_grad()
    def prepare(self) -> None:
        """Copy the parameters' current values."""
        first, *middle, last = (layer.weight for layer in self.layers)
        self.w1 = halves(padded(first.T, INPUTS, self.hidden))
        self.w1t = padded(first, self.hidden, INPUTS).half()
        self.w_out = halves(padded(last.T, self.hidden, OUTPUTS))
        self.w_out_t = halves(padded(last, OUTPUTS, self.hidden))
        self.w2 = halves(middle[0].T) if self.deep else ()
        self.w2t = middle[0].half().contiguous() if self.deep else None
        self.b1 = self.layers[0].bias.detach()
        self.b2 = (self.layers[1].bias.detach(),) if self.deep else ()
        self.b_out = padded(self.layers[-1].bias, OUTPUTS)

    def _options(self, part: str) -> dict[str, int]:
        """Of the forward pass, or of the backward pass's ``top`` or ``bottom``."""
        common = {"HIDDEN": self.hidden, **self.blocks[part].options()}
        common["PTX"] = nvidia(self.device)
        if self.blocks[part].programs:
            common["TURNS"] = -(-self._blocks(part) // self._programs(part))
        if not (self.deep and part == "bottom"):  # that kernel does not see the outputs
            common["TANH"] = self.tanh
        if part != "top":  # which does not see the inputs
            common["STATE"] = DIM
        return common | ({"PASSES": self.passes} if part == "forward" else {})

    def _blocks(self, part: str) -> int:
        return -(-self.rows // self.blocks[part].rows)

    def _programs(self, part: str) -> int:
        """The number of blocks, or as many as the card runs at once."""
        at_once = self.blocks[part].programs * multiprocessors(self.device)
        return min(self._blocks(part), at_once) if at_once else self._blocks(part)

    def activations(self) -> Tensor:
        """Room for what ``slots`` calls of the deep network keep: (slots, rows, hidden)."""
        shape = (self.slots, self.rows, self.hidden)
        return torch.empty(shape, dtype=torch.float16, device=self.device)

    def forward(self, x: StateTensor, kept: Tensor | None = None) -> Tensor:
        """``GaussianNND.bounded(network(x))``, (outputs, rows), for float32 ``x`` (22, rows).

        ``kept``, (rows, hidden), receives what the backward pass of a deep network needs.
        """
        r = x.new_empty(self.out, self.rows)
        if self.deep:
            self._two_layers(x, r, kept)
        else:
            launch(kernels.one_layer_forward, (self._programs("forward"),))(
                x, r, self.rows, *self.w1, self.b1, *self.w_out, self.b_out, OUT=self.out,
                **self._options("forward"),
            )  # fmt: skip
        return r

    def _two_layers(self, x: StateTensor, r: Tensor, kept: Tensor | None) -> None:
        launch(kernels.two_layer_forward, (self._programs("forward"),))(
            x, r, r if kept is None else kept, self.rows, *self.w1, self.b1, *self.w2,
            *self.b2, *self.w_out, self.b_out, SAVE=kept is not None, OUT=self.out,
            **self._options("forward"),
        )  # fmt: skip

    def backward(
        self, x: StateTensor, r: Tensor, g: Tensor, slot: int = 0, kept: Tensor | None = None
    ) -> Tensor:
        """Gradient of ``x`` given that of ``r``; the weights' are summed up or go to ``slot``."""
        gx = torch.empty_like(x)
        if self.deep:
            assert kept is not None
            d2, h1 = (self._factors()[k][slot] for k in ("d2", "h1"))
            self._top(r, g, kept, d2)
            self._bottom(x, d2, h1, gx)
        else:
            self._one_layer_back(x, r, g, gx)
        return gx

    def _top(self, r: Tensor, g: Tensor, kept: Tensor, d2: Tensor) -> None:
        """From the outputs' gradient to the second layer's."""
        sums, parts = self._sums(), self.hidden // self.blocks["top"].chunk
        launch(kernels.two_layer_backward_top, (self._programs("top"), parts))(
            r, g, kept, self.rows, self.scale, *self.w_out_t, d2, sums["w_out"], sums["b_out"],
            sums["b2"], OUT=self.out, AHEAD=self.blocks["top"].stages, **self._options("top"),
        )  # fmt: skip

    def _bottom(self, x: StateTensor, d2: Tensor, h1: Tensor, gx: Tensor) -> None:
        """From there to the inputs' gradient; the first layer's activations go to ``h1``."""
        launch(kernels.two_layer_backward_bottom, (self._programs("bottom"),))(
            x, d2, gx, self.rows, self.scale, *self.w1, self.w1t, self.b1, self.w2t, h1,
            self._sums()["w1"], **self._options("bottom"),
        )  # fmt: skip

    def _one_layer_back(self, x: StateTensor, r: Tensor, g: Tensor, gx: Tensor) -> None:
        sums = self._sums()
        launch(kernels.one_layer_backward, (self._programs("bottom"),))(
            x, r, g, gx, self.rows, self.scale, *self.w1, self.w1t, self.b1, *self.w_out_t,
            sums["w1"], sums["w_out"], sums["b_out"], OUT=self.out, **self._options("bottom"),
        )  # fmt: skip

    def _owners(self, part: str) -> int:
        """Number of separate gradient sums in a part of the backward pass."""
        return self._programs(part)

    def _sums(self) -> dict[str, Tensor]:
        """Gradients summed up so far, one part per program."""
        if not self.sums:
            bottom = self._owners("bottom")
            top = self._owners("top") if self.deep else bottom
            shapes = {
                "w1": (bottom, self.hidden, INPUTS),
                "w_out": (top, OUTPUTS, self.hidden),
                "b_out": (top, OUTPUTS),
            }
            if self.deep:
                shapes |= {"b2": (top, self.hidden), "w2": (SLABS, self.hidden, self.hidden)}
            self.sums = {k: torch.zeros(n, device=self.device) for k, n in shapes.items()}
        return self.sums

    def _factors(self) -> dict[str, Tensor]:
        """Factors of W2's gradient, (slots, rows, hidden); rows beyond the batch stay zero."""
        if not self.factors:
            shape = (self.slots, self.padded_rows, self.hidden)
            make = partial(torch.zeros, shape, dtype=torch.float16, device=self.device)
            self.factors = {"d2": make(), "h1": make()}
        return self.factors

    def accumulate(self) -> None:
        """Add ``d2^T h1`` over all slots and rows, cut into slabs, to the sums."""
        d, h = (self.factors[k].reshape(SLABS, -1, self.hidden) for k in ("d2", "h1"))
        if d.is_cuda:
            torch.baddbmm(
                self.sums["w2"], d.transpose(1, 2), h, out_dtype=torch.float32, out=self.sums["w2"]
            )
        else:
            self.sums["w2"].baddbmm_(d.transpose(1, 2).float(), h.float())

    @torch.no_grad()
    def collect(self) -> None:
        """Add the accumulated gradients to the parameters', and reset them."""
        total = {k: x.sum(0) / self.scale for k, x in self.sums.items()}
        w1 = total["w1"]
        gradients = [(w1[:, :DIM], w1[:, -1])]  # the column of ones stands for the bias
        if self.deep:
            gradients.append((total["w2"], total["b2"]))
        gradients.append((total["w_out"][: self.out], total["b_out"][: self.out]))
        for layer, (weight, bias) in zip(self.layers, gradients, strict=True):
            layer.weight.grad = _added(layer.weight.grad, weight)
            layer.bias.grad = _added(layer.bias.grad, bias)
        for x in self.sums.values():
            x.zero_()


def _added(total: Tensor | None, more: Tensor) -> Tensor:
    return more.clone() if total is None else total.add_(more)


def _network_for(device: torch.device, rows: int, passes: int) -> type[TritonNetwork]:
    """The class with the fastest kernels for the card."""
    hopper = nvidia(device) and torch.cuda.get_device_capability(device) == (9, 0)
    if not hopper or passes != 3 or rows == 0 or rows % ROWS_ALIGNED:
        return TritonNetwork
    try:  # Gluon is experimental: names change between versions of Triton
        from .gluon_networks import HopperNetwork
    except (ImportError, AttributeError):
        return TritonNetwork
    return HopperNetwork


@dataclass
class Substep:
    """What the backward pass needs of one substep."""

    h: float
    x: list[Tensor] = field(default_factory=list)  # states at the stages
    r: list[Tensor] = field(default_factory=list)  # network outputs there
    total: Tensor = field(
        default_factory=lambda: torch.empty(0)
    )  # rates but the last: k1 + 2 k2 ..
    out: Tensor = field(default_factory=lambda: torch.empty(0))  # after the solver's step
    after: Tensor = field(default_factory=lambda: torch.empty(0))  # after the floor's answer
    d: Tensor = field(default_factory=lambda: torch.empty(0))  # the contact network's output
    kept: Tensor | None = None  # the deep network's activations


class TritonRollout:
    """``GaussianNND.rollout`` of ``rows`` objects over a fixed time grid.

    Gradients reach the six scalars through autograd; those of the networks' weights wait until
    :meth:`collect`. ``scale`` lifts gradients into the range of half precision.
    """

    def __init__(
        self, model: GaussianNND, times: Times, *, rows: int, passes: int = 3, scale: float = 1.0
    ) -> None:
        self.model, self.config, self.rows = model, model.config, rows
        self.scheme = SCHEMES[model.config.solver]
        common = {"rows": rows, "passes": passes, "scale": scale, "tanh": model.config.bounded}
        stages = len(self.scheme.stages) + 1
        network = _network_for(model.c_v.device, rows, passes)
        self.f = network(model.f_theta, slots=stages, **common)  # type: ignore[arg-type]
        self.h = network(model.h_phi, slots=1, **common)  # type: ignore[arg-type]
        self.kernel = {"PRIOR": model.config.prior, "ROWS": ROWS}
        # Stands for the output, or the gradient, of a part that the model does not have.
        self.nothing = torch.zeros(DIM, rows, device=model.c_v.device)
        self.grid = (-(-rows // ROWS),)
        self.steps = [
            [dt / n] * n for dt in intervals(times) for n in (substeps(dt, model.config.max_dt),)
        ]

    def prepare(self) -> None:
        """Copy the parameters' current values."""
        self.f.prepare()
        self.h.prepare()

    def collect(self) -> None:
        """Add the networks' accumulated gradients to their parameters'."""
        for network in (self.f, self.h):
            if network.sums:  # otherwise the model does not use it
                network.collect()

    def compile(self) -> None:
        """Launch every kernel of a rollout and its gradient once; for :func:`precompile`."""
        c = self.model.scalars.detach()
        z0 = c.new_zeros(self.rows, DIM)
        self.run(z0, c)
        frames, tape = self.run(z0, c, save=True)
        self.gradient(c, tape, frames)

    def __call__(self, z0: StateTensor) -> StateTensor:
        """States ``(rows, T, 22)`` from float32 ``z0`` (rows, 22).

        Inside, states stand channel by channel: (22, rows).
        """
        scalars = self.model.scalars
        if torch.is_grad_enabled() and scalars.requires_grad:
            return _Rollout.apply(scalars, z0, self)  # type: ignore[no-untyped-call]
        return self.run(z0, scalars.detach())[0]

    def run(
        self, z0: StateTensor, c: Tensor, *, save: bool = False
    ) -> tuple[Tensor, list[Substep]]:
        """Frames ``(rows, T, 22)`` and, with ``save``, the record of every substep."""
        z = project(z0).T.contiguous()
        frames, tape = [z], []
        for substeps_of_frame in self.steps:
            for h in substeps_of_frame:
                z, record = self._forward(z, c, h, save)
                if save:
                    tape.append(record)
            frames.append(z)
        return torch.stack(frames).permute(2, 0, 1), tape

    def _forward(self, z: Tensor, c: Tensor, h: float, save: bool) -> tuple[Tensor, Substep]:
        s = Substep(h, kept=self.f.activations() if save and self._residual else None)
        x, total = z, torch.empty_like(z) if self.scheme.stages else self.nothing
        for i, (ahead, weight) in enumerate(self.scheme.stages):
            r = self._evaluate(s, x)
            x = torch.empty_like(z)
            launch(physics.stage_forward, self.grid)(
                z, s.x[i], r, total, total, x, c, self.rows, h, ahead, weight, FIRST=i == 0,
                **self.kernel,
            )  # fmt: skip
        r = self._evaluate(s, x)
        s.total, s.out, s.after = total, torch.empty_like(z), torch.empty_like(z)
        launch(physics.last_stage_forward, self.grid)(
            z, x, r, total, s.out, s.after, c, self.rows, h, DIVISOR=self.scheme.divisor,
            **self.kernel,
        )  # fmt: skip
        return (self._land(s, c) if self.config.contact else s.out), s

    @property
    def _residual(self) -> bool:
        return self.config.continuous_residual

    def _evaluate(self, s: Substep, x: Tensor) -> Tensor:
        """The continuous residual at the next stage's state; records both."""
        kept = None if s.kept is None else s.kept[len(s.x)]
        s.x.append(x)
        s.r.append(self.f.forward(x, kept) if self._residual else self.nothing[: self.f.out])
        return s.r[-1]

    def _land(self, s: Substep, c: Tensor) -> Tensor:
        """The state after the floor's response, where it was hit."""
        n, landed = self.rows, torch.empty_like(s.out)
        corrects = self.config.contact_residual
        s.d = self.h.forward(s.after) if corrects else self.nothing[: self.h.out]
        launch(physics.land_forward, self.grid)(s.out, s.after, s.d, landed, c, n, ROWS=ROWS)
        return landed

    def gradient(self, c: Tensor, tape: list[Substep], g_frames: Tensor) -> Tensor:
        """Gradient of the scalars ``(6,)`` given that of the frames; networks accumulate theirs."""
        sums = c.new_zeros(self.grid[0], 8)
        g, more = torch.zeros_like(tape[0].out), torch.zeros_like(tape[0].out)
        ends = [frame for frame, hs in enumerate(self.steps, start=1) for _ in hs]
        last = math.inf
        for s, frame in zip(reversed(tape), reversed(ends), strict=True):
            if frame != last:
                g.add_(g_frames[:, frame].T)
                last = frame
            g, more = self._backward(s, c, g, more, sums)
        return sums.sum(0)[:6]

    def _backward(
        self, s: Substep, c: Tensor, g: Tensor, more: Tensor, sums: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Backward through a substep; its start's gradient comes in two parts, like its end's."""
        n = self.rows
        g_out, g_after, g_net = self._land_back(s, c, g, more, sums)
        # Only the 19 moving channels are written and read; the others are uninitialised.
        g_z, g_x, g_sum = (torch.empty_like(g) for _ in range(3))
        g_r = torch.empty_like(s.r[0])
        last = len(self.scheme.stages)
        launch(physics.last_stage_backward, self.grid)(
            s.x[0], s.x[last], s.r[last], s.total, s.out, g_out, g_after, g_net, g_sum, g_z, g_x,
            g_r, c, sums, n, s.h, DIVISOR=self.scheme.divisor, **self.kernel,
        )  # fmt: skip
        for i in reversed(range(last)):
            g_net = self._residual_back(s, i + 1, g_r)
            g_next, g_x, g_r = g_x, torch.empty_like(g), torch.empty_like(g_r)
            ahead, weight = self.scheme.stages[i]
            launch(physics.stage_backward, self.grid)(
                s.x[0], s.x[i], s.r[i], g_next, g_net, g_sum, g_z, g_x, g_r, c, sums, n, s.h,
                ahead, weight, FIRST=i == 0, **self.kernel,
            )  # fmt: skip
        g_net = self._residual_back(s, 0, g_r)
        if self._residual:
            self.f.accumulate()
        # A single stage's state is the start itself; with several, the first stage has added it.
        return (g_z if last else g_z.add_(g_x)), g_net

    def _land_back(
        self, s: Substep, c: Tensor, g: Tensor, more: Tensor, sums: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of the step's end, of the state after contact, and through its network."""
        if not self.config.contact:
            return g + more, self.nothing, self.nothing
        g_out, g_after, g_d = torch.empty_like(g), torch.empty_like(g), torch.empty_like(s.d)
        launch(physics.land_backward, self.grid)(
            s.out, s.after, s.d, g, more, g_out, g_after, g_d, c, sums, self.rows, ROWS=ROWS
        )
        corrects = self.config.contact_residual
        return g_out, g_after, self.h.backward(s.after, s.d, g_d) if corrects else self.nothing

    def _residual_back(self, s: Substep, stage: int, g_r: Tensor) -> Tensor:
        """Gradient of a stage's state through the continuous residual."""
        if not self._residual:
            return self.nothing
        assert s.kept is not None
        return self.f.backward(s.x[stage], s.r[stage], g_r, stage, s.kept[stage])


class _Rollout(torch.autograd.Function):
    """The rollout as a node of the scalars' autograd graph."""

    @staticmethod
    def forward(ctx: Any, c: Tensor, z0: Tensor, rollout: TritonRollout) -> Tensor:
        frames, ctx.tape = rollout.run(z0, c, save=True)
        ctx.rollout = rollout
        ctx.save_for_backward(c)
        return frames

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None]:
        (c,) = ctx.saved_tensors
        gradient = ctx.rollout.gradient(c, ctx.tape, g)
        ctx.tape = None
        return gradient, None, None
