"""On a9a and w8a: SDCA converges, plain SciPy recomputes its certificate, and LIBLINEAR's optimum lies inside it."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.datasets import load_svmlight_file
from sklearn.svm import LinearSVC

import dualgap

L2 = 1e-4

pytestmark = pytest.mark.data


@pytest.fixture(scope="module", params=["a9a", "w8a"])
def solved(request, shared_data):
    X, y = load_svmlight_file(str(shared_data(request.param)))
    problem = dualgap.Problem(X, y, l2=L2)
    return request.param, X, y, problem, dualgap.solve(problem, "sdca", tol=1e-3)


def test_weights_that_are_not_negative(shared_data):
    """a9a with w ≥ 0: certified to 1e-6, and the squared hinge as SciPy's L-BFGS-B has it."""
    X, y = load_svmlight_file(str(shared_data("a9a")))
    n, d = X.shape
    for loss in ("hinge", "squared_hinge"):
        result = dualgap.solve(dualgap.Problem(X, y, loss, l2=1 / n, intercept="free", bounds=(0, None)), tol=1e-6)
        assert result.status == "converged"
        assert (result.coef >= 0.0).all()

    def objective(x):
        short = np.maximum(1.0 - y * (X @ x[:d] + x[d]), 0.0)
        slope = -2.0 * short * y / n
        return short @ short / n + 0.5 / n * x[:d] @ x[:d], np.append(X.T @ slope + x[:d] / n, slope.sum())

    box = [(0.0, None)] * d + [(None, None)]
    settings = {"maxiter": 20_000, "maxfun": 20_000, "ftol": 1e-14, "gtol": 1e-8}
    other = minimize(objective, np.zeros(d + 1), jac=True, method="L-BFGS-B", bounds=box, options=settings)
    assert result.certificate.dual <= other.fun <= result.certificate.primal * (1.0 + 1e-6)


def hinge_objective(X, y, w):
    return np.mean(np.maximum(0.0, 1.0 - y * (X @ w))) + 0.5 * L2 * (w @ w)


def test_the_certificate_can_be_recomputed(solved):
    name, X, y, problem, result = solved
    assert result.status == "converged"
    assert result.certificate.relative_gap <= 1e-3
    n = len(y)
    beta, w = result.dual, result.coef
    assert beta.shape == (n,)
    assert (beta >= 0).all()
    assert (beta <= 1).all()
    u = X.T @ (beta * y) / n
    assert hinge_objective(X, y, w) == pytest.approx(result.certificate.primal, abs=1e-10)
    assert beta.mean() - u @ u / (2 * L2) == pytest.approx(result.certificate.dual, abs=1e-10)
    # Zero-copy: the solver read the caller's arrays.
    assert np.shares_memory(problem.rows.data, X.data)
    if name == "w8a":
        empty = np.diff(X.indptr) == 0
        assert empty.sum() == 4203
        assert (beta[empty] == 1.0).all()  # a margin of 0 is short of 1 whatever w is


def test_the_gap_closes_along_the_trace(solved):
    trace = solved[4].trace
    assert (trace["primal"] - trace["dual"] >= 0).all()
    assert (np.diff(trace["dual"]) >= 0).all()
    assert trace["gap"][-1] < 0.1 * trace["gap"][0]


def test_liblinear_lies_inside(solved):
    _, X, y, problem, result = solved
    svc = LinearSVC(loss="hinge", C=1 / (L2 * len(y)), fit_intercept=False, tol=1e-6, max_iter=3000, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own stopping rule may not be met; its objective counts here
        narrow = sparse.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
        svc.fit(narrow, y)  # it takes 32-bit indices only
    w = svc.coef_.ravel()
    theirs, c = hinge_objective(X, y, w), result.certificate
    assert theirs >= c.dual
    assert theirs <= c.primal * (1 + 1e-9)
    # And what certify says of their model bounds its true suboptimality, whatever our own run found.
    verdict = dualgap.certify(problem, svc.coef_)
    assert verdict.primal == pytest.approx(theirs, abs=1e-12)
    assert verdict.gap >= theirs - c.primal
    assert verdict.relative_gap < 0.01


def test_certify_a_rough_model(solved):
    """Weights of a model nobody would call trained: the difference of the class means."""
    _, X, y, problem, result = solved
    w = np.asarray(X[y > 0].mean(axis=0) - X[y < 0].mean(axis=0)).ravel()
    verdict = dualgap.certify(problem, w)
    assert verdict.gap >= hinge_objective(X, y, w) - result.certificate.primal > 0
