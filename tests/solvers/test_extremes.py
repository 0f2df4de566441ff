"""Data at the edge of float64, on every solver: whatever happens, no certificate is wrong and nothing that is not a number comes back."""

import warnings

import numpy as np
import pytest

import dualgap
from conftest import make_data

X, y = make_data(12, 3, seed=5)
TOL = 1e-3

CASES = {
    "huge features": (1e140 * X, y, {}),
    "tiny features": (1e-200 * X, y, {}),
    "columns 240 orders of magnitude apart": (X * np.array([1e120, 1.0, 1e-120]), y, {}),
    "float32 near its end": ((1e30 * X).astype(np.float32), y, {}),
    "equal rows with both labels": (np.repeat(X[:3], 4, axis=0), np.tile([1.0, -1.0, 1.0, 1.0], 3), {}),
    "no features but zeros": (np.zeros((6, 2)), np.tile([1.0, -1.0], 3), {}),
    "one column": (X[:, :1].copy(), y, {}),
    "one row a class": (np.array([[1.0, 2.0], [1.5, -1.0]]), np.array([1.0, -1.0]), {}),
    "the same row in both classes": (np.ones((2, 2)), np.array([1.0, -1.0]), {}),
    "one positive": (X, np.where(np.arange(12) == 4, 1.0, -1.0), {}),
    "weights over 12 orders of magnitude": (X, y, {"sample_weight": 10.0 ** np.linspace(-6, 6, 12)}),
    "hardly a penalty": (X, y, {"l2": 1e-12}),
    "a penalty at the end of float64": (X, y, {"l2": 1e-310}),
    "nothing but penalty": (X, y, {"l2": 1e300}),
}
FLOAT32 = ["auto", "pegasos", "saga", "sdca"]  # enough of them to compile for another type of data
# The first kind of problem that a solver takes: a free intercept asks the most of a certificate.
KINDS = [
    {"loss": "hinge", "intercept": "free"},
    {"loss": "hinge", "intercept": "penalised"},
    {"loss": "smooth_hinge", "intercept": "free"},
    {"loss": "smooth_hinge", "intercept": "penalised"},
    {"loss": "hinge", "intercept": "free", "kernel": "linear"},
    {"loss": "smooth_hinge", "intercept": "free", "l1": 1e-3},
    {"loss": "hinge", "intercept": "free", "l2": 0.0, "l1": 1e-3},
]


def runs(case):
    """(kind, result) for each solver, on the first kind of problem that it takes."""
    features, labels, options = CASES[case]
    problems = [dualgap.Problem(features, labels, **{"l2": 1e-3, **options, **kind}) for kind in KINDS]
    for name in FLOAT32 if features.dtype == np.float32 else sorted(dualgap.solvers.REGISTRY):
        solver = dualgap.solvers.get_solver(name)
        kind = next(k for k, problem in enumerate(problems) if solver.supports(problem))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dualgap.ConvergenceWarning)
            yield kind, dualgap.solve(problems[kind], solver, tol=TOL, max_epochs=30)


@pytest.mark.parametrize("case", list(CASES))
def test_no_certificate_is_wrong(case):
    best, bound = {}, {}
    for kind, result in runs(case):
        certificate, trace, name = result.certificate, result.trace, result.solver.label()
        assert np.isfinite(result.coef).all(), name
        assert np.isfinite([result.intercept, certificate.primal, certificate.dual]).all(), name
        assert ((result.dual >= 0) & (result.dual <= 1)).all(), name
        for column in ("gap", "relative_gap", "dual"):
            assert not np.isnan(trace[column]).any(), (name, column)
        assert (trace["gap"] >= 0).all(), name
        assert result.converged == (certificate.relative_gap <= TOL), name
        best[kind] = min(best.get(kind, np.inf), certificate.primal)
        bound[kind] = max(bound.get(kind, 0.0), certificate.dual)
    # What one solver proves to be out of reach, no other has reached.
    for kind, dual in bound.items():
        assert dual <= best[kind] * (1 + 1e-9), KINDS[kind]


def test_rows_beyond_float64_are_named():
    problem = dualgap.Problem(np.array([[1.0], [-1e200], [2.0]]), [1, 0, 1])
    for solver in ("sdca", "sgd", "subgradient", "auto"):
        with pytest.raises(ValueError, match=r"row 1 of X is too large: its squared length is inf"):
            dualgap.solve(problem, solver)
