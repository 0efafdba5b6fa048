"""Triton kernels of the physics between two network evaluations, one thread per object.

Forward they are ``analytic.rates``, ``state.project``, ``floor.gap`` and ``floor.jump``; backward
their adjoints, worked out by hand. Mass, restitution and attenuation come from the initial state
alone, so no gradient is carried for them: an adjoint has the 19 channels before them.

States are stored channel by channel, (22, rows), so that neighbouring threads read neighbouring
numbers; in a kernel a state is a tuple of its 22 channels in the order of ``state.LAYOUT``. The
learned scalars stand at ``c``: |c_v|, |c_w|, |k_s|, |c_s|, alpha, alpha_imp; their gradients are
summed per block of rows.
"""

import triton
import triton.language as tl


@triton.jit
def _load(pointer, rows, n, COUNT: tl.constexpr):
    """The first COUNT channels of a channel-major matrix, as a tuple of vectors."""
    out = ()
    for i in tl.static_range(COUNT):
        out = out + (tl.load(pointer + i * n + rows, rows < n, other=0.0),)
    return out


@triton.jit
def _store(pointer, rows, n, values):
    for i in tl.static_range(len(values)):
        tl.store(pointer + i * n + rows, values[i], rows < n)


@triton.jit
def _spin(q, w):
    """``1/2 q (x) [0, w]``."""
    return (
        -0.5 * (q[1] * w[0] + q[2] * w[1] + q[3] * w[2]),
        0.5 * (q[0] * w[0] + q[2] * w[2] - q[3] * w[1]),
        0.5 * (q[0] * w[1] - q[1] * w[2] + q[3] * w[0]),
        0.5 * (q[0] * w[2] + q[1] * w[1] - q[2] * w[0]),
    )


@triton.jit
def _rate(z, r, c, PRIOR: tl.constexpr):
    """Rates of the 19 moving channels; without the prior no gravity, and the coefficients are 0."""
    c_v, c_w, k_s, c_s = tl.load(c), tl.load(c + 1), tl.load(c + 2), tl.load(c + 3)
    alpha = tl.load(c + 4)
    gravity: tl.constexpr = -9.81 if PRIOR else 0.0
    drag = c_v / z[19]
    kq = _spin((z[3], z[4], z[5], z[6]), (z[10], z[11], z[12]))
    return (
        z[7], z[8], z[9], kq[0], kq[1], kq[2], kq[3],
        -drag * z[7] + alpha * r[0],
        gravity - drag * z[8] + alpha * r[1],
        -drag * z[9] + alpha * r[2],
        -c_w * z[10] + alpha * r[3], -c_w * z[11] + alpha * r[4], -c_w * z[12] + alpha * r[5],
        z[16], z[17], z[18],
        -k_s * (z[13] - 1) - c_s * z[16] + alpha * r[6],
        -k_s * (z[14] - 1) - c_s * z[17] + alpha * r[7],
        -k_s * (z[15] - 1) - c_s * z[18] + alpha * r[8],
    )  # fmt: skip


@triton.jit
def _ahead(z, k, h):
    """``z + h k``; the material stays."""
    out = ()
    for i in tl.static_range(19):
        out = out + (z[i] + h * k[i],)
    return out + (z[19], z[20], z[21])


@triton.jit
def _norm(y):
    square = y[3] * y[3] + y[4] * y[4] + y[5] * y[5] + y[6] * y[6]
    return tl.sqrt(tl.maximum(square, 1e-16))


@triton.jit
def _project(y):
    n = _norm(y)
    return (
        y[0], y[1], y[2], y[3] / n, y[4] / n, y[5] / n, y[6] / n,
        y[7], y[8], y[9], y[10], y[11], y[12],
        tl.maximum(y[13], 1e-4), tl.maximum(y[14], 1e-4), tl.maximum(y[15], 1e-4),
        y[16], y[17], y[18],
        tl.maximum(y[19], 1e-4), tl.minimum(tl.maximum(y[20], 0.0), 1.0),
        tl.minimum(tl.maximum(y[21], 0.0), 1.0),
    )  # fmt: skip


@triton.jit
def _project_adjoint(y, g):
    """Gradient before the projection of ``y``, given the one after it."""
    n = _norm(y)
    # Above the floor the component along q is lost; at the floor the division is by a constant.
    along = (y[3] * g[3] + y[4] * g[4] + y[5] * g[5] + y[6] * g[6]) / (n * n)
    along = tl.where(n > 1e-8, along, 0.0)
    return (
        g[0], g[1], g[2],
        (g[3] - y[3] * along) / n, (g[4] - y[4] * along) / n,
        (g[5] - y[5] * along) / n, (g[6] - y[6] * along) / n,
        g[7], g[8], g[9], g[10], g[11], g[12],
        tl.where(y[13] >= 1e-4, g[13], 0.0), tl.where(y[14] >= 1e-4, g[14], 0.0),
        tl.where(y[15] >= 1e-4, g[15], 0.0),
        g[16], g[17], g[18],
    )  # fmt: skip


@triton.jit
def _rate_adjoint(z, a, c):
    """Gradient of ``z`` through ``_rate``, given the gradient ``a`` of the rates."""
    c_v, c_w, k_s, c_s = tl.load(c), tl.load(c + 1), tl.load(c + 2), tl.load(c + 3)
    drag = c_v / z[19]
    gq = _spin_adjoint_q((a[3], a[4], a[5], a[6]), (z[10], z[11], z[12]))
    gw = _spin_adjoint_w((a[3], a[4], a[5], a[6]), (z[3], z[4], z[5], z[6]))
    zero = 0.0 * a[0]
    return (
        zero, zero, zero, gq[0], gq[1], gq[2], gq[3],
        a[0] - drag * a[7], a[1] - drag * a[8], a[2] - drag * a[9],
        gw[0] - c_w * a[10], gw[1] - c_w * a[11], gw[2] - c_w * a[12],
        -k_s * a[16], -k_s * a[17], -k_s * a[18],
        a[13] - c_s * a[16], a[14] - c_s * a[17], a[15] - c_s * a[18],
    )  # fmt: skip


@triton.jit
def _spin_adjoint_q(a, w):
    return (
        0.5 * (a[1] * w[0] + a[2] * w[1] + a[3] * w[2]),
        0.5 * (-a[0] * w[0] - a[2] * w[2] + a[3] * w[1]),
        0.5 * (-a[0] * w[1] + a[1] * w[2] - a[3] * w[0]),
        0.5 * (-a[0] * w[2] - a[1] * w[1] + a[2] * w[0]),
    )


@triton.jit
def _spin_adjoint_w(a, q):
    return (
        0.5 * (-a[0] * q[1] + a[1] * q[0] + a[2] * q[3] - a[3] * q[2]),
        0.5 * (-a[0] * q[2] - a[1] * q[3] + a[2] * q[0] + a[3] * q[1]),
        0.5 * (-a[0] * q[3] + a[1] * q[2] - a[2] * q[1] + a[3] * q[0]),
    )


@triton.jit
def _add_scalar_gradients(sums, z, r, a, inside):
    """Add this block's gradients of c_v, c_w, k_s, c_s and alpha to its row of ``sums``."""
    to_c_v = -(z[7] * a[7] + z[8] * a[8] + z[9] * a[9]) / z[19]
    to_c_w = -(z[10] * a[10] + z[11] * a[11] + z[12] * a[12])
    to_k_s = -((z[13] - 1) * a[16] + (z[14] - 1) * a[17] + (z[15] - 1) * a[18])
    to_c_s = -(z[16] * a[16] + z[17] * a[17] + z[18] * a[18])
    to_alpha = (
        r[0] * a[7] + r[1] * a[8] + r[2] * a[9] + r[3] * a[10] + r[4] * a[11] + r[5] * a[12]
        + r[6] * a[16] + r[7] * a[17] + r[8] * a[18]
    )  # fmt: skip
    _add_sum(sums, to_c_v, inside)
    _add_sum(sums + 1, to_c_w, inside)
    _add_sum(sums + 2, to_k_s, inside)
    _add_sum(sums + 3, to_c_s, inside)
    _add_sum(sums + 4, to_alpha, inside)


@triton.jit
def _add_sum(pointer, x, inside):
    # Kernels run one after the other and a block owns its row: no atomics, a fixed order.
    tl.store(pointer, tl.load(pointer) + tl.sum(tl.where(inside, x, 0.0)))


@triton.jit
def _residual_gradient(a, c):
    """Gradient of the network's nine outputs."""
    alpha = tl.load(c + 4)
    return (
        alpha * a[7], alpha * a[8], alpha * a[9], alpha * a[10], alpha * a[11], alpha * a[12],
        alpha * a[16], alpha * a[17], alpha * a[18],
    )  # fmt: skip


@triton.jit
def stage_forward(
    z_ptr, x_ptr, r_ptr, sum_in, sum_out, next_ptr, c, n, h, ahead, weight,
    FIRST: tl.constexpr, PRIOR: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """A stage before the last: ``sum + weight k`` and the next state ``project(z + ahead h k)``."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = rows < n
    z = _load(z_ptr, rows, n, 22)
    k = _rate(_load(x_ptr, rows, n, 22), _load(r_ptr, rows, n, 9), c, PRIOR)
    for i in tl.static_range(19):
        total = weight * k[i]
        if not FIRST:
            total += tl.load(sum_in + i * n + rows, inside)
        tl.store(sum_out + i * n + rows, total, inside)
    _store(next_ptr, rows, n, _project(_ahead(z, k, ahead * h)))


@triton.jit
def stage_backward(
    z_ptr, x_ptr, r_ptr, g_next, g_next_net, g_sum, g_z, g_x, g_r, c, sums, n, h, ahead, weight,
    FIRST: tl.constexpr, PRIOR: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Adjoint of :func:`stage_forward`.

    The next state's gradient comes in two parts (its own stage's and its network's); ``g_z`` is
    added to; ``g_x`` is what reaches this stage's state beside its network. In the first stage
    that state is ``z``, so both go to ``g_z``.
    """
    block = tl.program_id(0)
    rows = block * ROWS + tl.arange(0, ROWS)
    inside = rows < n
    z = _load(z_ptr, rows, n, 22)
    x = _load(x_ptr, rows, n, 22)
    r = _load(r_ptr, rows, n, 9)
    g = ()
    for i in tl.static_range(19):
        both = tl.load(g_next + i * n + rows, inside, other=0.0)
        g = g + (both + tl.load(g_next_net + i * n + rows, inside, other=0.0),)
    gy = _project_adjoint(_ahead(z, _rate(x, r, c, PRIOR), ahead * h), g)
    a = ()
    for i in tl.static_range(19):
        at = i * n + rows
        a = a + (ahead * h * gy[i] + weight * tl.load(g_sum + at, inside, other=0.0),)
    gx = _rate_adjoint(x, a, c)
    for i in tl.static_range(19):
        at = i * n + rows
        total = tl.load(g_z + at, inside, other=0.0) + gy[i]
        if FIRST:
            total += gx[i]
        else:
            tl.store(g_x + at, gx[i], inside)
        tl.store(g_z + at, total, inside)
    _store(g_r, rows, n, _residual_gradient(a, c))
    _add_scalar_gradients(sums + block * 8, x, r, a, inside)


@triton.jit
def _jump(z):
    keep, turn = 1 - z[21], 1 - 0.5 * z[21]
    return (
        z[0], tl.maximum(tl.abs(z[14]), 1e-3), z[2], z[3], z[4], z[5], z[6],
        keep * z[7], -z[20] * z[8], keep * z[9], turn * z[10], turn * z[11], turn * z[12],
        z[13], z[14], z[15], z[16], z[17], z[18], z[19], z[20], z[21],
    )  # fmt: skip


@triton.jit
def _jump_adjoint(z, b):
    """Gradient before the floor's response to ``z``, given the one after it."""
    keep, turn = 1 - z[21], 1 - 0.5 * z[21]
    lifted = tl.where(tl.abs(z[14]) >= 1e-3, b[1], 0.0)
    return (
        b[0], 0.0 * b[1], b[2], b[3], b[4], b[5], b[6],
        keep * b[7], -z[20] * b[8], keep * b[9], turn * b[10], turn * b[11], turn * b[12],
        b[13], b[14] + lifted, b[15], b[16], b[17], b[18],
    )  # fmt: skip


@triton.jit
def last_stage_forward(
    z_ptr, x_ptr, r_ptr, sum_ptr, out_ptr, after_ptr, c, n, h,
    DIVISOR: tl.constexpr, PRIOR: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The last stage: the substep's state, and the state after the floor's response.

    Without the prior the floor leaves it unchanged; only the contact network responds.
    """
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = rows < n
    z = _load(z_ptr, rows, n, 22)
    k = _rate(_load(x_ptr, rows, n, 22), _load(r_ptr, rows, n, 9), c, PRIOR)
    total = ()
    for i in tl.static_range(19):
        total = total + (tl.load(sum_ptr + i * n + rows, inside, other=0.0) + k[i],)
    out = _project(_ahead(z, total, h / DIVISOR))
    _store(out_ptr, rows, n, out)
    if PRIOR:
        out = _jump(out)
    _store(after_ptr, rows, n, out)


@triton.jit
def last_stage_backward(
    z_ptr, x_ptr, r_ptr, sum_ptr, out_ptr, g_out, g_after, g_after_net, g_sum, g_z, g_x, g_r,
    c, sums, n, h, DIVISOR: tl.constexpr, PRIOR: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Adjoint of :func:`last_stage_forward`; ``g_z`` and ``g_sum`` are set, not added to."""
    block = tl.program_id(0)
    rows = block * ROWS + tl.arange(0, ROWS)
    inside = rows < n
    z = _load(z_ptr, rows, n, 22)
    x = _load(x_ptr, rows, n, 22)
    r = _load(r_ptr, rows, n, 9)
    out = _load(out_ptr, rows, n, 22)
    k = _rate(x, r, c, PRIOR)
    total, b = (), ()
    for i in tl.static_range(19):
        at = i * n + rows
        total = total + (tl.load(sum_ptr + at, inside, other=0.0) + k[i],)
        both = tl.load(g_after + at, inside, other=0.0)
        b = b + (both + tl.load(g_after_net + at, inside, other=0.0),)
    if PRIOR:
        b = _jump_adjoint(out, b)
    g = ()
    for i in tl.static_range(19):
        g = g + (tl.load(g_out + i * n + rows, inside, other=0.0) + b[i],)
    gy = _project_adjoint(_ahead(z, total, h / DIVISOR), g)
    a = ()
    for i in tl.static_range(19):
        a = a + (h / DIVISOR * gy[i],)
    _store(g_z, rows, n, gy)
    _store(g_sum, rows, n, a)
    _store(g_x, rows, n, _rate_adjoint(x, a, c))
    _store(g_r, rows, n, _residual_gradient(a, c))
    _add_scalar_gradients(sums + block * 8, x, r, a, inside)


@triton.jit
def _corrected(after, d, c):
    """The state after a hit with the learned change of its velocities."""
    alpha = tl.load(c + 5)
    return (
        after[0], after[1], after[2], after[3], after[4], after[5], after[6],
        after[7] + alpha * d[0], after[8] + alpha * d[1], after[9] + alpha * d[2],
        after[10] + alpha * d[3], after[11] + alpha * d[4], after[12] + alpha * d[5],
        after[13], after[14], after[15], after[16], after[17], after[18],
        after[19], after[20], after[21],
    )  # fmt: skip


@triton.jit
def _hit(z):
    return (z[1] - tl.maximum(tl.abs(z[14]), 1e-3) <= 0) & (z[8] < 0)


@triton.jit
def land_forward(z_ptr, after_ptr, d_ptr, out_ptr, c, n, ROWS: tl.constexpr):
    """Apply the floor's response where it was hit."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = rows < n
    z = _load(z_ptr, rows, n, 22)
    after = _load(after_ptr, rows, n, 22)
    landed = _project(_corrected(after, _load(d_ptr, rows, n, 6), c))
    hit = _hit(z)
    for i in tl.static_range(22):
        tl.store(out_ptr + i * n + rows, tl.where(hit, landed[i], z[i]), inside)


@triton.jit
def land_backward(
    z_ptr, after_ptr, d_ptr, g_ptr, g_more, g_z, g_after, g_d, c, sums, n, ROWS: tl.constexpr
):
    """Adjoint of :func:`land_forward`; the gradient coming in is ``g + g_more``."""
    block = tl.program_id(0)
    rows = block * ROWS + tl.arange(0, ROWS)
    inside = rows < n
    z = _load(z_ptr, rows, n, 22)
    after = _load(after_ptr, rows, n, 22)
    d = _load(d_ptr, rows, n, 6)
    hit = _hit(z)
    g = ()
    for i in tl.static_range(19):
        at = i * n + rows
        both = tl.load(g_ptr + at, inside, other=0.0) + tl.load(g_more + at, inside, other=0.0)
        tl.store(g_z + at, tl.where(hit, 0.0, both), inside)
        g = g + (tl.where(hit, both, 0.0),)
    g = _project_adjoint(_corrected(after, d, c), g)
    _store(g_after, rows, n, g)
    alpha = tl.load(c + 5)
    to_alpha = 0.0 * g[0]
    for i in tl.static_range(6):
        tl.store(g_d + i * n + rows, alpha * g[7 + i], inside)
        to_alpha += d[i] * g[7 + i]
    _add_sum(sums + block * 8 + 5, to_alpha, inside)
