"""Rotation laws, over all magnitudes and close to the identity."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from newtongs.base import rotations as R

component = st.floats(-1, 1, width=32)
vectors = st.tuples(component, component, component).map(
    lambda x: torch.tensor(x, dtype=torch.float64)
)
# Angles from rounding level to just below a half turn.
angles = st.one_of(st.floats(1e-12, 1e-3), st.floats(1e-3, 3.14))


def unit(x):
    n = x.norm()
    return x / n if n > 1e-3 else torch.tensor([0.0, 0.0, 1.0], dtype=x.dtype)


quaternions = st.tuples(vectors, angles).map(lambda a: R.exp(a[1] * unit(a[0])))


@given(quaternions, quaternions, quaternions)
def test_product_is_associative(a, b, c):
    left, right = R.multiply(R.multiply(a, b), c), R.multiply(a, R.multiply(b, c))
    torch.testing.assert_close(left, right, rtol=0, atol=1e-14)


@given(quaternions)
def test_conjugate_is_inverse(q):
    one = R.multiply(q, R.conjugate(q))
    torch.testing.assert_close(one, R.identity(like=q), rtol=0, atol=1e-14)


@given(quaternions, quaternions, vectors)
def test_product_composes_rotations(a, b, x):
    torch.testing.assert_close(
        R.rotate(R.multiply(a, b), x), R.rotate(a, R.rotate(b, x)), rtol=0, atol=1e-14
    )


@given(quaternions, vectors)
def test_matrix_and_quaternion_agree(q, x):
    m = R.to_matrix(q)
    torch.testing.assert_close(m @ x, R.rotate(q, x), rtol=0, atol=1e-14)
    torch.testing.assert_close(m @ m.T, torch.eye(3, dtype=m.dtype), rtol=0, atol=1e-14)
    assert math.isclose(torch.linalg.det(m).item(), 1, abs_tol=1e-13)


@given(quaternions)
def test_matrix_round_trip_up_to_sign(q):
    back = R.from_matrix(R.to_matrix(q))
    # Half the entries of a matrix near a half turn cancel: the pivot must be well chosen.
    torch.testing.assert_close((back * q).sum().abs(), q.new_tensor(1.0), rtol=0, atol=1e-14)


@given(vectors, angles)
def test_log_inverts_exp(axis, angle):
    phi = angle * unit(axis)
    torch.testing.assert_close(R.log(R.exp(phi)), phi, rtol=1e-9, atol=1e-15)
    torch.testing.assert_close(R.log(-R.exp(phi)), phi, rtol=1e-9, atol=1e-15)


@given(vectors, angles)
def test_axis_angle_is_exp(axis, angle):
    n = unit(axis)
    q = R.from_axis_angle(3 * n, torch.tensor(angle, dtype=n.dtype))
    torch.testing.assert_close(q, R.exp(angle * n), rtol=0, atol=1e-15)


def test_axis_angle_without_a_direction_is_the_identity():
    q = R.from_axis_angle(torch.tensor([[1e-7, 0, 0], [0, 0, 0]]), torch.tensor([2.0, 3.0]))
    assert torch.equal(q, R.identity(2, like=q))


@given(quaternions, vectors)
def test_kinematics_are_the_derivative_of_body_rotation(q, w):
    """q' = 1/2 q (x) [0, w] against a central difference of q (x) exp(w t)."""
    h = 1e-5
    ahead, behind = R.multiply(q, R.exp(h * w)), R.multiply(q, R.exp(-h * w))
    torch.testing.assert_close(R.derivative(q, w), (ahead - behind) / (2 * h), rtol=0, atol=1e-9)


@given(quaternions, quaternions)
def test_discrepancy_is_bounded_and_blind_to_sign_and_length(a, b):
    d = R.discrepancy(a, b)
    assert 0 <= d <= 1
    torch.testing.assert_close(R.discrepancy(-a, 3 * b), d, rtol=0, atol=1e-14)
    assert R.discrepancy(a, a) < 1e-14


def test_normalize_has_a_floor():
    tiny = torch.tensor([1e-9, 0.0, 0.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(R.normalize(tiny), tiny / 1e-8)
    assert torch.equal(R.normalize(torch.zeros(4)), torch.zeros(4))


def test_gradients():
    q = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    w = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    assert gradcheck(R.normalize, q)
    assert gradcheck(R.multiply, (q, R.pure(w)))
    assert gradcheck(lambda w: R.exp(w), w)
    zero = torch.zeros(3, requires_grad=True)
    R.from_axis_angle(zero, torch.tensor(1.0)).sum().backward()
    assert torch.isfinite(zero.grad).all()
