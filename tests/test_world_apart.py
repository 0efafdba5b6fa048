"""Whether a convex piece is surely away from a box: never wrongly, and nearly always when it is."""

import numpy as np
import pytest
from scipy.optimize import nnls

from newtongs.physics.gjk import is_apart, make_scratch

LOW, HIGH = np.array([-0.1, -2.0, -0.02]), np.array([0.1, 0.0, 0.02])  # long and thin
CORNERS = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)])


def distance(points, low, high):
    """Of a hull and a box: their difference's nearest point to zero, by least squares."""
    box = low + CORNERS * (high - low)
    difference = (points[:, None] - box[None]).reshape(-1, 3)
    heavy = 1e4  # the weights add up to one
    matrix = np.vstack([difference.T, np.full(len(difference), heavy)])
    weights, _ = nnls(matrix, np.array([0, 0, 0, heavy]), maxiter=10_000)
    return np.linalg.norm(weights @ difference / weights.sum())


def apart(points, limit):
    middle = 0.5 * (points.min(0) + points.max(0))
    return is_apart(points, LOW, HIGH, middle, limit, make_scratch())


@pytest.mark.parametrize("seed", range(40))
def test_it_tells_the_distance_of_odd_hulls(seed):
    random = np.random.default_rng(seed)
    points = random.normal(0, 0.1, (random.integers(4, 40), 3)) + random.uniform(-0.6, 0.6, 3)
    far = distance(points, LOW, HIGH)
    assert not apart(points, 1.001 * far + 1e-6)
    if far > 1e-3:
        assert apart(points, 0.99 * far)


def test_a_point_beside_an_edge():
    point = np.array([[0.4, 0.4, 0.0]])
    assert apart(point, 0.4999)
    assert not apart(point, 0.5001)


def test_what_reaches_into_the_box_is_never_apart():
    points = np.array([[-1.0, -1.0, 0.0], [1.0, -1.0, 0.0], [0.0, -1.0, 1.0], [0.0, 1.0, 0.0]])
    assert not apart(points, 0.0)
