"""Spherical harmonics: the basis against its definition, and the laws of its rotation."""

import math

import pytest
import torch

from newtongs.base import rotations
from newtongs.base.errors import InputError
from newtongs.scene import sh


def random_rotations(*shape):
    return rotations.to_matrix(rotations.normalize(torch.randn(*shape, 4, dtype=torch.float64)))


def random_directions(*shape):
    d = torch.randn(*shape, 3, dtype=torch.float64)
    return d / d.norm(dim=-1, keepdim=True)


def legendre(degree, m, x):
    """Associated Legendre function with the Condon-Shortley phase, by the Rodrigues formula."""
    p = torch.tensor([1.0], dtype=torch.float64)  # coefficients of (x^2 - 1)^l, lowest first
    for _ in range(degree):
        low, high = torch.zeros(2), p
        p = torch.cat([-p, torch.zeros(2)]) + torch.cat([low, high])
    for _ in range(degree + m):
        p = p[1:] * torch.arange(1, len(p))
    value = sum(c * x**i for i, c in enumerate(p)) / (2**degree * math.factorial(degree))
    return (-1) ** m * (1 - x * x) ** (m / 2) * value


def textbook_basis(d):
    """Real harmonics from their definition: sqrt(2) N P_l^m(cos t) cos or sin of m phi."""
    x, y, z = d.unbind(-1)
    phi, columns = torch.atan2(y, x), []
    for degree in range(4):
        for m in range(-degree, degree + 1):
            a = abs(m)
            norm = (2 * degree + 1) / (4 * math.pi)
            norm *= math.factorial(degree - a) / math.factorial(degree + a)
            angle = torch.sin(a * phi) if m < 0 else torch.cos(a * phi)
            root = math.sqrt(norm * (2 if m else 1))
            columns.append(root * legendre(degree, a, z) * angle)
    return torch.stack(columns, dim=-1)


def test_basis_is_the_textbook_one():
    d = random_directions(500)
    torch.testing.assert_close(sh.basis(d), textbook_basis(d), atol=1e-13, rtol=0)


def test_signs_are_those_of_gaussian_splatting():
    """Values of the constants every splat viewer uses, at a direction without symmetries."""
    x, y, z = torch.tensor([0.36, 0.48, 0.8], dtype=torch.float64)
    b = sh.basis(torch.stack([x, y, z]))
    expected = {
        0: 0.28209479177387814,
        1: -0.4886025119029199 * y, 2: 0.4886025119029199 * z, 3: -0.4886025119029199 * x,
        4: 1.0925484305920792 * x * y, 5: -1.0925484305920792 * y * z,
        6: 0.31539156525252005 * (2 * z * z - x * x - y * y),
        7: -1.0925484305920792 * x * z, 8: 0.5462742152960396 * (x * x - y * y),
        9: -0.5900435899266435 * y * (3 * x * x - y * y), 10: 2.890611442640554 * x * y * z,
        11: -0.4570457994644658 * y * (4 * z * z - x * x - y * y),
        12: 0.3731763325901154 * z * (2 * z * z - 3 * x * x - 3 * y * y),
        13: -0.4570457994644658 * x * (4 * z * z - x * x - y * y),
        14: 1.445305721320277 * z * (x * x - y * y),
        15: -0.5900435899266435 * x * (x * x - 3 * y * y),
    }  # fmt: skip
    for k, value in expected.items():
        assert b[k] == pytest.approx(float(value), abs=1e-15), k


def test_lower_degrees_are_prefixes():
    d = random_directions(7)
    for degree in range(4):
        assert torch.equal(sh.basis(d, degree), sh.basis(d)[:, : (degree + 1) ** 2])


def test_basis_turns_by_the_matrices():
    R, d = random_rotations(20), random_directions(50)
    turned, before = sh.basis(d @ R.mT), sh.basis(d)
    for k, D in enumerate(sh.rotation_matrices(R)):
        block = slice(k * k, (k + 1) ** 2)
        torch.testing.assert_close(turned[..., block], before[:, block] @ D.mT, atol=1e-12, rtol=0)


def test_matrices_are_orthogonal_and_a_homomorphism():
    R, S = random_rotations(2, 20)
    for a, b, ab in zip(*map(sh.rotation_matrices, (R, S, R @ S)), strict=True):
        torch.testing.assert_close(ab, a @ b, atol=1e-12, rtol=0)
        torch.testing.assert_close(a @ a.mT, torch.eye(a.shape[-1]).to(a).expand_as(a))


def test_degree_1_block_is_the_rotation_in_other_axes():
    """Degree 1 is (-y, z, -x), so its block is R with rows and columns moved and signed."""
    R = random_rotations(10)
    axes, sign = [1, 2, 0], torch.tensor([-1.0, 1.0, -1.0], dtype=torch.float64)
    expected = sign[:, None] * R[:, axes][:, :, axes] * sign
    torch.testing.assert_close(sh.rotation_matrices(R)[1], expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("degree", range(4))
def test_colour_turns_with_the_object(degree):
    """Seen along R d after turning, the colour is the one seen along d before."""
    K = (degree + 1) ** 2
    coefficients = torch.randn(30, K, 3, dtype=torch.float64)
    R, d = random_rotations(4), random_directions(25)
    before = torch.einsum("dk,nkc->dnc", sh.basis(d, degree), coefficients)
    for r, turned in zip(R, sh.rotate(coefficients, R), strict=True):
        after = torch.einsum("dk,nkc->dnc", sh.basis(d @ r.T, degree), turned)
        torch.testing.assert_close(after, before, atol=1e-12, rtol=0)
        torch.testing.assert_close(turned, sh.rotate(coefficients, r), atol=1e-14, rtol=0)


def test_degree_0_keeps_its_bits():
    coefficients = torch.randn(1000, 16, 3)
    assert torch.equal(sh.rotate(coefficients, random_rotations())[:, 0], coefficients[:, 0])


def test_float32_loses_no_more_than_rounding():
    coefficients, R = torch.randn(100, 16, 3), random_rotations()
    exact = sh.rotate(coefficients.double(), R)
    assert (sh.rotate(coefficients, R) - exact).abs().max() < 2e-6


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (2 * torch.eye(3), "not a rotation"),
        (-torch.eye(3), "not a rotation"),
        (torch.full((3, 3), torch.nan), "not a rotation"),
        (torch.eye(4), r"expected shape \(..., 3, 3\)"),
    ],
)
def test_what_is_no_rotation_is_refused(bad, says):
    with pytest.raises(InputError, match=says):
        sh.rotate(torch.zeros(1, 4, 3), bad)


def test_bad_shapes_are_refused():
    with pytest.raises(InputError, match="K one of"):
        sh.rotate(torch.zeros(2, 5, 3), torch.eye(3))
    with pytest.raises(InputError, match="degree 0 to 3"):
        sh.basis(torch.zeros(3), 4)
