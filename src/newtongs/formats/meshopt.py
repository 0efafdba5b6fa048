"""``EXT_meshopt_compression`` of glTF: rows of bytes as differences to the previous, and filters.

Rows are divided into blocks of up to 256. A block stores its columns of bytes one after the other,
each in groups of 16 rows: two bits say whether a group's differences take 0, 2, 4 or 8 bits; with 2
or 4 bits the largest number refers to a byte after the group. Differences are zigzag-encoded. A
stream ends with the first row. This is version 0 of the codec, which every decoder supports.

Filters convert the decoded rows to numbers: EXPONENTIAL to floats ``m 2^e`` from 24 and 8 bits,
QUATERNION to four normalised shorts from the three smaller components.
"""

import math

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError
from ..base.types import Array

NAME = "EXT_meshopt_compression"
ATTRIBUTES, EXPONENTIAL, QUATERNION, NO_FILTER = "ATTRIBUTES", "EXPONENTIAL", "QUATERNION", "NONE"
HEADER = 0xA0
GROUP = 16  # rows with the same number of bits
BLOCK_BYTES, BLOCK_ROWS = 8192, 256
LEAST_TAIL = 32  # bytes
WIDEST = 256  # bytes of a row
LONGEST = 0x7FFFFF  # of a mantissa

Bytes = npt.NDArray[np.uint8]


def encode(rows: Array) -> Bytes:
    """Encode rows ``(n, k)`` of any type, with a multiple of 4 bytes per row."""
    x = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)
    n, width = x.shape
    if not n or width % 4 or width > WIDEST:
        raise ValueError(f"cannot pack {n} rows of {width} bytes")
    groups = -(-n // GROUP) + n // _block_rows(width) + 1
    out = np.empty(1 + width * groups * (GROUP + 2) + WIDEST, np.uint8)
    from .meshopt_loops import pack

    return out[: pack(x, _block_rows(width), max(width, LEAST_TAIL), out)].copy()


def decode(data: bytes | memoryview, n: int, width: int) -> Bytes:
    """Decode the rows ``(n, width)`` of a stream; rejects a stream that does not contain them."""
    stream = np.frombuffer(data, np.uint8)
    tail = max(width, LEAST_TAIL)
    if not 0 < width <= WIDEST or width % 4 or len(stream) < 1 + tail:
        raise InputError(f"a meshopt stream of {len(stream):,} bytes holds no rows of {width}")
    if stream[0] != HEADER:
        raise InputError(f"meshopt: expected version 0 of vertex data, got byte {stream[0]:#x}")
    # A group takes at least two bits, which bounds the memory for a small file.
    if n * width > 64 * len(stream):
        raise InputError(f"meshopt: {len(stream):,} bytes cannot hold {n:,} rows of {width}")
    from .meshopt_loops import unpack

    out = np.empty((n, width), np.uint8)
    if unpack(stream, _block_rows(width), tail, out) != len(stream) - tail:
        raise InputError("a meshopt stream is damaged: it ends too early or too late")
    return out


def to_floats(rows: Bytes) -> npt.NDArray[np.float32]:
    """EXPONENTIAL: rows with 4 bytes per number as floats."""
    x = rows.view("<i4")
    return np.ldexp((x << 8 >> 8).astype(np.float32), x >> 24)


def fixed_point(x: Array, exponent: int) -> npt.NDArray[np.int32]:
    """Numbers rounded to multiples of ``2^exponent``, for EXPONENTIAL."""
    m = np.rint(np.ldexp(x.astype(np.float64), -exponent)).clip(-LONGEST, LONGEST)
    return _joined(m, np.full(x.shape, exponent))


def floating_point(x: Array, bits: int) -> npt.NDArray[np.int32]:
    """Numbers rounded to ``bits`` significant bits, for EXPONENTIAL."""
    exponent = np.frexp(x)[1] - bits
    exponent = np.where(x == 0, exponent.min(), exponent).clip(-127, 127)
    m = np.rint(np.ldexp(x.astype(np.float64), -exponent)).clip(-LONGEST, LONGEST)
    return _joined(m, exponent)


def _joined(mantissa: Array, exponent: Array) -> npt.NDArray[np.int32]:
    joined = (exponent.astype(np.int64) << 24) | (mantissa.astype(np.int64) & 0xFFFFFF)
    return joined.astype(np.uint32).view("<i4").reshape(mantissa.shape)


def from_quaternions(q: Array, bits: int) -> npt.NDArray[np.int16]:
    """Unit quaternions ``(n, 4)``, x y z w, for QUATERNION; 4 to 16 ``bits`` per component."""
    largest = np.abs(q).argmax(1)
    rows = np.arange(len(q))
    q = q * np.where(q[rows, largest] < 0, -1, 1)[:, None]
    others = (largest[:, None] + np.arange(1, 4)) & 3
    one = (1 << (bits - 1)) - 1
    out = np.empty((len(q), 4), "<i2")
    out[:, :3] = np.rint(q[rows[:, None], others] * (math.sqrt(2) * one)).clip(-one, one)
    out[:, 3] = (one & ~3) | largest
    return out


def to_quaternions(rows: Bytes) -> npt.NDArray[np.int16]:
    """QUATERNION: rows of 8 bytes as x y z w in units of 1/32767."""
    x = rows.view("<i2").astype(np.float64)
    tag = rows.view("<i2")[:, 3]
    small = x[:, :3] / (math.sqrt(2) * np.maximum(tag | 3, 1))[:, None]
    w = np.sqrt(np.maximum(0, 1 - (small**2).sum(1)))
    out = np.empty((len(x), 4), "<i2")
    others = ((tag & 3)[:, None] + np.arange(4)) & 3
    np.put_along_axis(out, others, np.rint(np.column_stack([w, small]) * 32767).astype("<i2"), 1)
    return out


def unfiltered(rows: Bytes, filter: str) -> Bytes:
    """Decoded rows with their filter applied, as the bytes to which accessors refer."""
    n, width = rows.shape
    if filter == NO_FILTER:
        return rows
    if filter == EXPONENTIAL:
        return to_floats(rows).view(np.uint8).reshape(n, width)
    if filter == QUATERNION and width == 8:
        return to_quaternions(rows).view(np.uint8).reshape(n, width)
    raise InputError(f"meshopt: filter {filter!r:.20} of rows of {width} bytes is not known")


def _block_rows(width: int) -> int:
    return min(BLOCK_BYTES // width & ~(GROUP - 1), BLOCK_ROWS)
