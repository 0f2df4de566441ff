"""Nyström and random Fourier features: inner products near the kernel, linear problems, certificates that say what they are for."""

import numpy as np
import pytest
from scipy import sparse

import dualgap
from dualgap.answers.approximation import approximate

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
y = np.where(X[:, 0] * X[:, 1] + 0.2 * RNG.normal(size=400) > 0, "in", "out")
WEIGHTS = RNG.uniform(0.5, 2.0, 400)


def build(**options):
    return dualgap.Problem(
        X, y, **{"l2": 1e-2, "kernel": "rbf", "gamma": 0.5, "intercept": "free", "sample_weight": WEIGHTS, **options}
    )


@pytest.mark.parametrize(("method", "errors"), [("nystroem", (2e-2, 1e-6)), ("fourier", (0.2, 0.03))])
def test_inner_products_approach_the_kernel(method, errors):
    problem = build()
    K = problem.kernel(X, X)
    for features, error in zip((40, 1500), errors, strict=True):
        Z = approximate(problem, method, features).problem.X
        assert Z.shape[1] <= min(features, 400 if method == "nystroem" else features)
        assert np.abs(Z @ Z.T - K).mean() < error


def test_with_every_row_a_landmark_it_is_the_kernel_problem():
    problem = build()
    exact = dualgap.solve(problem, "working_set", tol=1e-6, max_epochs=1000)
    found = approximate(problem, features=400)
    result = found.solve("dca", tol=1e-6, max_epochs=20_000)
    assert result.result.certificate.primal == pytest.approx(exact.certificate.primal, rel=1e-5)
    np.testing.assert_allclose(result.decision(X[:20]), exact.decision(X[:20]), atol=1e-2)
    judged = found.certify(result)
    assert judged.relative_gap < 1e-3
    assert judged.dual <= exact.certificate.primal


def test_a_certificate_says_what_it_is_for():
    problem = build()
    result = approximate(problem, features=4).solve("dca", tol=1e-3, max_epochs=5000)
    assert result.status == "converged"
    assert result.certificate.relative_gap <= 1e-3
    assert "for the problem on 4 Nyström features, not the kernel problem" in str(result.certificate)
    # Four features are a poor stand-in, and only the certificate of the kernel problem tells.
    assert result.approximation.certify(result).relative_gap > 0.05
    assert set(result.predict(X)) <= {"in", "out"}


def test_same_seed_same_features_and_sparse_rows():
    dense, again = (approximate(build(), "fourier", 16, seed=3).problem.X for _ in range(2))
    np.testing.assert_array_equal(dense, again)
    rows = dualgap.Problem(sparse.csr_matrix(X), y, l2=1e-2, kernel="rbf", gamma=0.5)
    np.testing.assert_allclose(
        approximate(rows, features=16, seed=3).problem.X, approximate(build(), features=16, seed=3).problem.X, atol=1e-8
    )


@pytest.mark.parametrize(
    ("options", "arguments", "words"),
    [
        ({"kernel": None}, {}, "needs a problem with a kernel"),
        ({}, {"method": "magic"}, "method='magic' is unknown"),
        ({}, {"features": 0}, "features=0 must be a whole number"),
        ({"kernel": "poly"}, {"method": "fourier"}, "is for kernel='rbf'"),
    ],
)
def test_refusals(options, arguments, words):
    with pytest.raises(ValueError, match=words):
        approximate(build(**options), **arguments)
