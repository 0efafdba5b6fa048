"""ContextNND for one object on a CPU: numba for the tracks, numpy's products for the networks.

Torch takes longer to dispatch the three hundred small operations of one prediction than to do
them. The same numbers as :meth:`newtongs.dynamics.context.ContextNND.likeliest`, to rounding.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ...errors import InputError
from ...rotations import NORM_FLOOR
from ...state import LAYOUT, MASS_FLOOR, SCALE_FLOOR
from ...types import StateTensor, Times
from ..context import RATE, SEEN, ContextNND, reading
from ..context.model import GROWTH, SETTLING
from ..context.tracks import FEATURES, FREQUENCIES, ONSET, TINY, TURNS, G

try:
    from numba import njit
except ImportError as error:
    raise InputError(
        "the fast CPU path needs numba; install it with: pip install 'newtongs[fast]'"
    ) from error

Array = npt.NDArray[Any]
FIELDS = np.concatenate([np.arange(LAYOUT[k].start, LAYOUT[k].stop) for k in reading.FIELDS])
SMALL = np.concatenate(
    [np.full(LAYOUT[k].stop - LAYOUT[k].start, reading.SMALL[k]) for k in reading.FIELDS]
)
OMEGA, TURNING = np.array(FREQUENCIES), np.array(TURNS)
TRACKS = 5  # bounce, rest, drag, cosine less one, sine


@njit(cache=True)
def _tanh(f, df, size):  # type: ignore[no-untyped-def]
    y = math.tanh(f / size)
    return y, (1 - y * y) * df / size


@njit(cache=True)
def fill_tracks(z, times, x, dx, tr, dtr):  # type: ignore[no-untyped-def]
    """Features ``(T, F)`` and tracks ``(T, 5)`` with their rates, see ``context/tracks.py``."""
    px, py, pz, vx, vy, vz = z[0], z[1], z[2], z[7], z[8], z[9]
    spin, sy, e, mu = z[11], z[14], min(max(z[20], 0.02), 0.98), z[21]
    keep = 1 - min(max(mu, 0.0), 0.98)
    height = max(py - sy, 0.0)
    speed = math.sqrt(vy * vy + 2 * G * height + TINY**2)
    first, period = (vy + speed) / G, 2 * e * speed / G
    level = math.sqrt(vx * vx + vz * vz + TINY)
    slow = keep * e
    for k in range(len(times)):
        t = times[k]
        after = max(t - first, 0.0)
        share = 1 - after * (1 - e) / period
        left = max(share, TINY)
        n = math.floor(math.log(left) / math.log(e))
        power = e**n
        since = max(after - period * (1 - power) / (1 - e), 0.0)
        flight, fall = height + t * (vy - 0.5 * G * t), vy - G * t
        hop = since * (e * power * speed - 0.5 * G * since)
        if after <= 0:
            y, dy, rest, drest, travel, dtravel, dleft = flight, fall, flight, fall, t, 1.0, 0.0
        else:
            y, dy, rest, drest = 0.0, 0.0, 0.0, 0.0
            if left > TINY and hop >= 0:
                y, dy = hop, e * power * speed - G * since
            lost = period * keep * (1 - slow**n) / (1 - slow)
            travel, dtravel = since * keep ** (n + 1) + first + lost, keep ** (n + 1)
            dleft = -(1 - e) / period if left > TINY else 0.0
        i = 0
        x[k, i], dx[k, i] = 0.5 * t, 0.5
        i += 1
        for w in OMEGA:
            x[k, i], dx[k, i] = math.sin(w * t), w * math.cos(w * t)
            x[k, i + 1], dx[k, i + 1] = math.cos(w * t), -w * math.sin(w * t)
            i += 2
        for size in (0.15, 1.0, 4.0):
            x[k, i], dx[k, i] = _tanh(flight, fall, size)
            i += 1
        for p, v in ((px, vx), (pz, vz)):
            for size in (1.5, 6.0):
                x[k, i], dx[k, i] = _tanh(p + v * t, v, size)
                i += 1
        brake, near = G * mu / level, 1 / max(first, TINY)
        for rate in (brake, near):
            below = 1 / (1 + rate * t)
            x[k, i], dx[k, i] = rate * t * below, below * below * rate
            i += 1
        for rate in (brake, near):
            x[k, i], dx[k, i] = _tanh(rate * t, rate, 1.0)
            i += 1
        for size in (0.3, 2.0):
            x[k, i], dx[k, i] = _tanh(y, dy, size)
            i += 1
        x[k, i], dx[k, i] = left, dleft
        x[k, i + 1], dx[k, i + 1] = 0.5 * travel, 0.5 * dtravel
        i += 2
        for turn in TURNING:
            w = turn * spin
            x[k, i], dx[k, i] = math.sin(w * t), w * math.cos(w * t)
            x[k, i + 1], dx[k, i + 1] = math.cos(w * t), -w * math.sin(w * t)
            i += 2
        ahead = height + vy * t
        tr[k, 0], dtr[k, 0] = y - ahead, dy - vy
        tr[k, 1], dtr[k, 1] = rest - ahead, drest - vy
        tr[k, 2], dtr[k, 2] = travel - t, dtravel - 1
        tr[k, 3], dtr[k, 3] = math.cos(spin * t) - 1, -spin * math.sin(spin * t)
        tr[k, 4], dtr[k, 4] = math.sin(spin * t), spin * math.cos(spin * t)


@njit(cache=True)
def fill_states(z, times, tr, dtr, o, do, out):  # type: ignore[no-untyped-def]
    """States ``(T, 22)`` of the decoder's output ``(T, 31)``, see ``context/model.py``."""
    for k in range(len(times)):
        t = times[k]
        below = 1 / (t + ONSET)
        start, dstart = t * below, ONSET * below * below
        late, dlate = start * t, dstart * t + start
        for i in range(3):
            a, da = o[k, 9 + i], do[k, 9 + i]
            for j in range(3):
                a += o[k, 3 * i + j] * z[7 + j]
                da += do[k, 3 * i + j] * z[7 + j]
            p = z[i] + z[7 + i] * t + late * a
            v = z[7 + i] + dlate * a + late * da
            for j in range(2):
                c, dc = o[k, 16 + 2 * i + j], do[k, 16 + 2 * i + j]
                s, ds = start * tr[k, 3 + j], dstart * tr[k, 3 + j] + start * dtr[k, 3 + j]
                p += s * c
                v += ds * c + s * dc
            if i == 1:
                for j in range(2):
                    p += tr[k, j] * o[k, 12 + j]
                    v += dtr[k, j] * o[k, 12 + j] + tr[k, j] * do[k, 12 + j]
            else:
                c, dc = o[k, 14 + i // 2], do[k, 14 + i // 2]
                p += tr[k, 2] * c * z[7 + i]
                v += (dtr[k, 2] * c + tr[k, 2] * dc) * z[7 + i]
            out[k, i], out[k, 7 + i] = p, v
            out[k, 10 + i] = z[10 + i] + start * (o[k, 22 + i] * z[10 + i] + o[k, 25 + i])
            fade = math.exp(-SETTLING * t)
            ratio = z[16 + i] / z[13 + i]
            growth = t * fade * ratio + late * o[k, 28 + i]
            g = math.exp(min(max(growth, -GROWTH), GROWTH))
            dg = (1 - SETTLING * t) * fade * ratio + dlate * o[k, 28 + i] + late * do[k, 28 + i]
            out[k, 13 + i], out[k, 16 + i] = z[13 + i] * g, z[13 + i] * g * dg
        wx, wy, wz = t * out[k, 10], t * out[k, 11], t * out[k, 12]
        half = 0.5 * math.sqrt(wx * wx + wy * wy + wz * wz)
        s = 0.5 * (math.sin(half) / half if half > 1e-9 else 1.0)
        c, bx, by, bz = math.cos(half), s * wx, s * wy, s * wz
        q0, q1, q2, q3 = z[3], z[4], z[5], z[6]
        out[k, 3] = q0 * c - q1 * bx - q2 * by - q3 * bz
        out[k, 4] = q0 * bx + q1 * c + q2 * bz - q3 * by
        out[k, 5] = q0 * by - q1 * bz + q2 * c + q3 * bx
        out[k, 6] = q0 * bz + q1 * by - q2 * bx + q3 * c
        for i in range(19, 22):
            out[k, i] = z[i]


def valid(z: Array) -> Array:
    """States ``(k, 22)`` in the valid domain, in float64."""
    z = z.astype(np.float64)
    z[:, 3:7] /= np.maximum(np.sqrt((z[:, 3:7] ** 2).sum(1, keepdims=True)), NORM_FLOOR)
    z[:, 13:16] = np.maximum(z[:, 13:16], SCALE_FLOOR)
    z[:, 19] = np.maximum(z[:, 19], MASS_FLOOR)
    z[:, 20:] = np.clip(z[:, 20:], 0, 1)
    return z


class OneObject:
    """The likeliest future of one object; the model's present weights count."""

    def __init__(self, model: ContextNND) -> None:
        self.model = model
        self.weights = {k: x.detach().numpy() for k, x in model.state_dict().items()}

    def __call__(self, observed: StateTensor, times: Times) -> StateTensor:
        """States ``(1, T, 22)`` of observed ones ``(1, k, 22)``, as the model gives them."""
        z, t = valid(observed[0, :SEEN].numpy()), times.numpy().astype(np.float64)
        gains, offsets = self.read(self.readings(z))
        out = self.decode(z[0], t - t[0], gains, offsets)
        return torch.from_numpy(out.astype(np.float32)).unsqueeze(0)

    def readings(self, z: Array) -> Array:
        """What is read of states ``(k, 22)``, see ``context/reading.py``."""
        w, k = self.weights, len(z)
        x = z[:, FIELDS]
        scaled = (x[0] - w["mean"]) / w["std"]
        before = x[0, :3] - x[0, 3:6] / RATE
        places = np.concatenate([x[0, :3], before])
        later = x[1:] - x[0]
        later[:, :3] -= np.arange(1, k)[:, None] / RATE * x[0, 3:6]
        found = np.zeros(reading.WIDTH, np.float32)
        found[: reading.FIRST] = np.concatenate([
            np.tanh(scaled), np.tanh(scaled / 4), np.tanh((before - w["mean"][:3]) / w["std"][:3]),
            *(wave(n * places) for n in reading.WAVES for wave in (np.sin, np.cos)),
        ])  # fmt: skip
        end = reading.FIRST + (k - 1) * reading.CHANNELS
        found[reading.FIRST : end] = reading.BELOW * np.arcsinh(later / SMALL).ravel()
        found[reading.WIDTH - SEEN + k - 1] = 1.0
        return np.clip(found, w["low"], w["high"])

    def read(self, x: Array) -> tuple[Array, Array]:
        """Gains and offsets ``(layers, hidden)`` of the likeliest hypothesis."""
        w, c = self.weights, self.model.config
        x = w["read.weight"] @ x + w["read.bias"]
        for i in range(c.blocks):
            y = _normal(x, w[f"blocks.{i}.norm.weight"], w[f"blocks.{i}.norm.bias"])
            y = _silu(w[f"blocks.{i}.up.weight"] @ y + w[f"blocks.{i}.up.bias"])
            x = x + w[f"blocks.{i}.down.weight"] @ y + w[f"blocks.{i}.down.bias"]
        x = _silu(_normal(x, w["norm.weight"], w["norm.bias"]))
        best = int((w["logits.weight"] @ x + w["logits.bias"]).argmax())
        size = c.layers * 2 * c.hidden
        rows = slice(best * size, (best + 1) * size)  # the others' rows are never read
        found = w["context.weight"][rows] @ x + w["context.bias"][rows]
        found = found.reshape(c.layers, 2, c.hidden)
        return found[:, 0], found[:, 1]

    def decode(self, z: Array, t: Array, gains: Array, offsets: Array) -> Array:
        """States ``(T, 22)`` at the times ``t`` after the state ``z``, in float64."""
        n, w = len(t), self.weights
        f = np.empty((2, n, FEATURES), np.float32)
        tr = np.empty((2, n, TRACKS))
        fill_tracks(z, t, f[0], f[1], tr[0], tr[1])
        a = f.reshape(2 * n, FEATURES)
        for i in range(self.model.config.layers):
            b = (a @ w[f"decoder.hidden.{i}.weight"].T) * (1 + gains[i])
            x = b[:n] + offsets[i]
            sigma = 1 / (1 + np.exp(np.minimum(-x, 80.0)))
            a = np.concatenate([x * sigma, sigma * (1 + x * (1 - sigma)) * b[n:]])
        o = a @ w["decoder.out.weight"].T
        o[:n] += w["decoder.out.bias"]
        out = np.empty((n, 22))
        fill_states(z, t, tr[0], tr[1], o[:n], o[n:], out)
        return out


def _normal(x: Array, weight: Array, bias: Array) -> Array:
    x = x - x.mean()
    return x / np.sqrt((x @ x) / len(x) + 1e-5) * weight + bias


def _silu(x: Array) -> Array:
    return x / (1 + np.exp(np.minimum(-x, 80.0)))
