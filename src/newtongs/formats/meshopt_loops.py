"""The compiled loops of :mod:`newtongs.formats.meshopt`, which loads them when it needs them."""

import numpy as np

from ..base.jit import njit
from ..base.types import Array


@njit(nogil=True)
def pack(x: Array, block: int, tail: int, out: Array) -> int:
    """Fill ``out``; returns the number of bytes."""
    n, width = x.shape
    out[0] = 0xA0
    at = 1
    folded = np.zeros(256, np.uint8)
    for first in range(0, n, block):
        last = min(first + block, n)
        groups = (last - first + 15) // 16
        for k in range(width):
            before = x[max(first - 1, 0), k]
            folded[:] = 0
            for i in range(first, last):
                d = np.uint8(x[i, k] - before)
                folded[i - first] = np.uint8((d << 1) ^ (255 if d & 128 else 0))
                before = x[i, k]
            head = at
            at += (groups + 3) // 4
            out[head:at] = 0
            for g in range(groups):
                bits, end = pack_group(folded[16 * g : 16 * g + 16], out, at)
                out[head + g // 4] |= np.uint8(bits << (2 * (g % 4)))
                at = end
    out[at : at + tail] = 0
    out[at + tail - width : at + tail] = x[0]
    return at + tail


@njit(nogil=True)
def pack_group(d: Array, out: Array, at: int) -> tuple[int, int]:
    """Write 16 differences in as few bytes as possible; returns the width code and the end."""
    over2, over4, any_ = 0, 0, False
    for v in d:
        any_ |= v > 0
        over2 += v >= 3
        over4 += v >= 15
    if not any_:
        return 0, at
    size2, size4 = 4 + over2, 8 + over4
    if min(size2, size4) >= 16:
        out[at : at + 16] = d
        return 3, at + 16
    bits = 2 if size2 <= size4 else 4
    most = (1 << bits) - 1
    rest = at + 2 * bits
    for i in range(16):
        byte, shift = at + i * bits // 8, 8 - bits - (i * bits) % 8
        if (i * bits) % 8 == 0:
            out[byte] = 0
        out[byte] |= np.uint8(min(d[i], most) << shift)
        if d[i] >= most:
            out[rest] = d[i]
            rest += 1
    return (1 if bits == 2 else 2), rest


@njit(nogil=True)
def unpack(data: Array, block: int, tail: int, out: Array) -> int:
    """Fill ``out``; returns the bytes used before the tail, or -1 if there are too few."""
    n, width = out.shape
    end = len(data) - tail
    at = 1
    before = data[len(data) - width :].copy()
    group = np.zeros(16, np.uint8)
    for first in range(0, n, block):
        last = min(first + block, n)
        groups = (last - first + 15) // 16
        for k in range(width):
            head = at
            at += (groups + 3) // 4
            if at > end:
                return -1
            for g in range(groups):
                at = unpack_group(data, at, end, data[head + g // 4] >> (2 * (g % 4)) & 3, group)
                if at < 0:
                    return -1
                for i in range(16 * g, min(16 * g + 16, last - first)):
                    v = group[i - 16 * g]
                    before[k] += np.uint8((v >> 1) ^ (255 if v & 1 else 0))
                    out[first + i, k] = before[k]
    return at


@njit(nogil=True)
def unpack_group(data: Array, at: int, end: int, code: int, group: Array) -> int:
    """Read 16 differences; returns where they end, or -1 beyond ``end``."""
    if code == 0:
        group[:] = 0
        return at
    if code == 3:
        if at + 16 > end:
            return -1
        group[:] = data[at : at + 16]
        return at + 16
    bits = 2 * code
    most, rest = (1 << bits) - 1, at + 2 * bits
    if rest > end:
        return -1
    for i in range(16):
        v = data[at + i * bits // 8] >> (8 - bits - (i * bits) % 8) & most
        if v == most:
            if rest >= end:
                return -1
            v = data[rest]
            rest += 1
        group[i] = v
    return rest
