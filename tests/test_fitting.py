"""Shapes that overlap are cut to fit, and things that touch stay where they are."""

import numpy as np
import pytest
import torch

from newtongs import make_state
from newtongs.base.state import State, replace
from newtongs.physics import Body, Shape, Simulation, Surroundings
from newtongs.physics.fitting import fitted

FAR = np.array([10.0, 0.0, 0.0])


def box_at(x, half=0.1, *, asleep=True, shape=None):
    z = replace(make_state(p=torch.tensor([x, half, 0.0])), v=(0, 0, 0), w=(0, 0, 0), e=0.3)
    return Body(z, shape or Shape.box((half,) * 3), asleep=asleep)


def ends(body, axis=0):
    p = State(body.z0).p[axis].item()
    corners = np.concatenate(body.shape.pieces)[:, axis]
    return p + corners.min(), p + corners.max()


def test_neighbours_share_what_both_claim():
    """Two equal boxes that overlap by a tenth of their width are cut in the middle."""
    one, other = fitted([box_at(0.0), box_at(0.18)])
    assert ends(one) == pytest.approx((-0.1, 0.09), abs=1e-6)
    assert ends(other) == pytest.approx((0.09, 0.28), abs=1e-6)
    assert ends(one, axis=1) == pytest.approx((0, 0.2), abs=1e-6)


def test_the_wider_one_loses_more():
    small, large = fitted([box_at(0.0, 0.1), box_at(0.38, 0.3)])  # widths 0.2 and 0.6
    assert ends(small)[1] == pytest.approx(0.1 - 0.02 / 4, abs=1e-6)
    assert ends(large)[0] == pytest.approx(0.08 + 0.02 * 3 / 4, abs=1e-6)


def test_mass_and_inertia_are_kept():
    before = [box_at(0.0), box_at(0.18)]
    for was, now in zip(before, fitted(before), strict=True):
        assert np.array_equal(was.shape.inertia, now.shape.inertia)
        assert np.array_equal(was.shape.center, now.shape.center)
        assert torch.equal(was.z0, now.z0)


def test_what_does_not_overlap_is_not_touched():
    before = [box_at(0.0), box_at(0.2), box_at(1.0)]
    assert all(was.shape is now.shape for was, now in zip(before, fitted(before), strict=True))


def test_a_ball_keeps_its_form_and_the_box_yields():
    ball = box_at(0.0, shape=Shape.ball(0.1))
    kept, cut = fitted([ball, box_at(0.18)])
    assert kept.shape is ball.shape
    assert ends(cut)[0] == pytest.approx(0.1, abs=1e-6)


def test_a_body_inside_another_keeps_a_shape():
    inner, outer = box_at(0.0, 0.05), box_at(0.0, 0.3)
    for body in fitted([inner, outer]):
        assert len(np.concatenate(body.shape.pieces)) >= 4


@pytest.mark.parametrize("fit", [True, False])
def test_a_row_of_sleepers_stays_when_one_end_is_pushed_away(fit):
    """Overlaps would throw the row apart: with shapes that fit, only the pushed one leaves."""
    row = [box_at(0.19 * i, asleep=i > 0) for i in range(5)]
    row[0] = Body(replace(row[0].z0, v=(-1.0, 0.0, 0.0)), row[0].shape)
    bodies = fitted(row) if fit else row
    states = Simulation(bodies, surroundings=Surroundings()).run(torch.arange(49) / 24)
    moved = (states[-1, :, :3] - states[0, :, :3]).norm(dim=-1)
    assert float(moved[0]) > 0.05
    assert (float(moved[1:].max()) < 1e-3) == fit
