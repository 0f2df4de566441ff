"""ProxNewton beside other solvers, what it refuses, and its working set."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_classification

import dualgap

X, y = make_classification(150, 80, n_informative=6, random_state=1)


@pytest.mark.parametrize("intercept", ["none", "free"])
@pytest.mark.parametrize("l2", [0.0, 0.02])
def test_certified_and_as_apg(intercept, l2):
    problem = dualgap.Problem(X, y, loss="logistic", l1=0.02, l2=l2, intercept=intercept)
    result = dualgap.solve(problem, "prox_newton", tol=1e-9, max_epochs=50)
    other = dualgap.solve(problem, "apg", tol=1e-6, max_epochs=20_000)
    assert result.status == "converged"
    assert result.certificate.primal <= other.certificate.primal * (1 + 1e-9)
    assert result.certificate.dual <= other.certificate.primal
    assert 0 < np.count_nonzero(result.coef) < problem.d


def test_penalised_intercept_weights_and_sparse_rows_agree():
    weights = np.linspace(0.1, 2, len(y))
    options = {"loss": "squared_hinge", "l1": 0.03, "l2": 0.01, "intercept": "penalised", "sample_weight": weights}
    runs = [dualgap.solve(dualgap.Problem(A, y, **options), "prox_newton", tol=1e-10) for A in (X, sparse.csr_array(X))]
    np.testing.assert_allclose(runs[0].coef, runs[1].coef, atol=1e-6)
    assert runs[0].intercept == pytest.approx(runs[1].intercept, abs=1e-6)
    other = dualgap.solve(dualgap.Problem(X, y, **options), "sdca", tol=1e-7, max_epochs=50_000)
    assert runs[0].certificate.primal <= other.certificate.primal * (1 + 1e-10)


def test_a_penalty_too_strong_for_any_feature():
    result = dualgap.solve(dualgap.Problem(X, y, loss="logistic", l1=10.0, l2=0.0, intercept="free"), "prox_newton")
    assert result.status == "converged"
    assert not result.coef.any()


@pytest.mark.parametrize("seed", [0, 1])
def test_features_that_no_loss_needs_any_more_go_back_to_zero(seed):
    """Rare features whose rows have all passed their margins: the penalty alone still moves them."""
    rng = np.random.default_rng(seed)
    rare = sparse.csr_array((rng.random((300, 40)) < 0.05).astype(float))
    labels = rare @ rng.standard_normal(40) + 0.1 * rng.standard_normal(300) > 0
    problem = dualgap.Problem(rare, labels, loss="smooth_hinge", l1=1e-4, l2=1e-4)
    assert dualgap.solve(problem, "prox_newton", tol=1e-6, max_epochs=100).converged


def test_warm_start():
    problem = dualgap.Problem(X, y, loss="squared_hinge", l1=0.01, l2=0.0, intercept="free")
    first = dualgap.solve(problem, "prox_newton", tol=1e-8)
    assert dualgap.solve(problem, "prox_newton", tol=1e-8, warm_start=first).epochs < first.epochs


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"loss": "hinge", "l1": 0.1}, "the hinge has a kink"),
        ({"loss": "logistic"}, "without an l1 part"),
        ({"loss": "logistic", "kernel": "rbf"}, "single features"),
    ],
)
def test_refuses_with_a_reason(options, reason):
    with pytest.raises(dualgap.NotSupported, match=reason):
        dualgap.solve(dualgap.Problem(X, y, **options), "prox_newton")


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="sweeps=0 must be"):
        dualgap.ProxNewton(sweeps=0)
