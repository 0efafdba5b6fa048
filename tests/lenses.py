"""A camera as formulas of its own, to check labels by."""

from typing import NamedTuple

import numpy as np


class Lens(NamedTuple):
    """A camera in float64."""

    K: np.ndarray
    R: np.ndarray
    t: np.ndarray

    @classmethod
    def of(cls, camera):
        """Its numbers."""
        w2c = camera.w2c.double().numpy()
        return cls(camera.K.double().numpy(), w2c[:3, :3], w2c[:3, 3])

    def points(self, x, y, depth):
        """Points ``(n, 3)`` behind pixel coordinates."""
        f, c = self.K.diagonal()[:2], self.K[:2, 2]
        seen = np.stack([(x - c[0]) / f[0], (y - c[1]) / f[1], np.ones_like(x)], -1)
        return (depth[:, None] * seen - self.t) @ self.R

    def pixels(self, points):
        """Pixel coordinates ``(n, 2)`` and depth ``(n,)`` of points."""
        x = points @ self.R.T + self.t
        f, c = self.K.diagonal()[:2], self.K[:2, 2]
        return f * x[:, :2] / x[:, 2:] + c, x[:, 2]
