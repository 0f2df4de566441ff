"""The ruler for boundaries: a straight one is straight, a bent one is not."""

from types import SimpleNamespace

import numpy as np
import pytest

from dualgap.lab.studies.convergence.measures import MEASURES


class Plane:
    """A problem whose model has a boundary of its own: a line, bent by `bend` times the square of the first column."""

    def __init__(self, bend):
        self.bend = bend

    def decision(self, X, coef, intercept):
        """Return on which side of the boundary each row is."""
        return X @ coef + intercept + self.bend * X[:, 0] ** 2


@pytest.mark.parametrize("seed", range(5))
def test_a_straight_boundary_has_no_row_off_a_line(seed):
    rng = np.random.default_rng(seed)
    data, coef = SimpleNamespace(X_test=rng.normal(size=(300, 2))), rng.normal(size=2)
    for intercept in (0.0, 0.3, 50.0):  # the last has all rows on one side
        assert MEASURES["error_off_line"](Plane(0.0), data, coef, intercept) == 0.0
    assert MEASURES["error_off_line"](Plane(1.0), data, np.array([0.0, 1.0]), -1.0) > 0.02
