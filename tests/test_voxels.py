"""Solid bodies of filled voxels: closing, filling, specks."""

import numpy as np
import pytest

from newtongs.segment.voxels import grown, solid_body, without_specks


def shell(n=16, hole=0):
    """A hollow cube of voxels inside a larger grid, with an opening of ``hole`` voxels on top."""
    x = np.zeros((n, n, n), bool)
    x[4:-4, 4:-4, 4:-4] = True
    x[5:-5, 5:-5, 5:-5] = False
    middle = slice(n // 2 - hole // 2, n // 2 - hole // 2 + hole)
    x[middle, -5, middle] = False
    return x


@pytest.mark.parametrize(("gap", "hole"), [(0, 0), (1, 2), (2, 4)])
@pytest.mark.parametrize("padded", [True, False])
def test_a_shell_becomes_a_solid_cube(gap, hole, padded):
    whole = np.zeros((16, 16, 16), bool)
    whole[4:-4, 4:-4, 4:-4] = True
    assert (solid_body(shell(hole=hole), gap, padded=padded) == whole).all()


def test_a_hole_wider_than_the_gap_stays_open():
    x = shell(hole=4)
    assert (solid_body(x, 1) == x).all()


def test_a_plug_closes_but_is_no_part_of_the_body():
    x = shell(hole=4)
    plug = np.zeros_like(x)
    plug[:, -5] = True
    body = solid_body(x, 0, plug=lambda _: plug)
    assert body[5:-5, 5:-5, 5:-5].all()
    assert not body[6:10, -5, 6:10].any()
    assert not body[:4].any()


def test_layers_are_closed_each_by_itself():
    rng = np.random.default_rng(0)
    x = rng.random((9, 7, 9)) < 0.3
    whole = solid_body(x, 1, axes=(0, 2))
    for y in range(7):
        assert (whole[:, y] == solid_body(x[:, y : y + 1], 1, axes=(0, 2))[:, 0]).all()


def test_an_empty_grid_stays_empty():
    x = np.zeros((4, 5, 6), bool)
    assert not solid_body(x, 2).any()
    assert not without_specks(x, share=0.5, least=3).any()


def test_closing_never_loses_a_voxel_and_is_idempotent():
    rng = np.random.default_rng(1)
    for _ in range(20):
        x = rng.random((8, 9, 10)) < 0.2
        once = solid_body(x, 2)
        assert once[x].all()
        assert (solid_body(once, 2) == once).all()
        assert (x <= grown(x, 1)).all()


def test_specks_are_told_by_count_and_by_share():
    x = np.zeros((12, 12, 12), bool)
    x[:4, :4, :4] = True  # 64
    x[6:8, 6:8, 6:8] = True  # 8
    x[10, 10, 10] = True
    assert without_specks(x, least=2).sum() == 72
    assert without_specks(x, share=0.2).sum() == 64
    assert without_specks(x).sum() == x.sum()
