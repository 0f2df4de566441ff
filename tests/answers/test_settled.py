"""What a gap settles of rows and features agrees with much more precise solves, from any model and any dual point."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dualgap import Hinge, Logistic, Problem, Result, SmoothHinge, SquaredHinge, solve
from dualgap.answers import bounds_of_margins, feature_status, row_status, zero_features
from dualgap.proof import ball_of
from dualgap.run import minimise

LOSSES = ["hinge", "smooth_hinge", "squared_hinge", "logistic"]
CASES = list(itertools.product(LOSSES, [0.0, 0.3, 3.0], ["none", "penalised", "free"]))


def data(rng, n=30, d=6):
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1, 1, d)
    y = np.where(X[:, 0] / np.abs(X[:, 0]).max() + 0.3 * rng.normal(size=n) > 0, 1, 0)
    y[:2] = (0, 1)
    return X, y


def agree(found, precise):
    """No answer differs from a precise one, unless one of them is open."""
    assert ((found == "open") | (precise == "open") | (found == precise)).all()


@pytest.mark.parametrize(("loss", "l1", "intercept"), CASES, ids=str)
@settings(max_examples=4)
@given(draw=st.integers(0, 10**9))
def test_rows_and_features(loss, l1, intercept, draw):
    rng = np.random.default_rng(draw)
    X, y = data(rng)
    l2 = 10.0 ** rng.uniform(-3, 0)
    form = sparse.csr_matrix if draw % 2 else np.asarray
    problem = Problem(form(X), y, loss, None, l2, l1 * l2, rng.exponential(size=len(y)), intercept)
    exact = Result.of(minimise(problem, "auto", 0.0, 2000))
    if exact.certificate.relative_gap > 1e-10:
        return
    rows, features = exact.support_status(), exact.feature_status()
    for share in (1.0, 1e-3, 1e-6):
        coef = exact.coef + share * rng.normal(size=problem.size) * np.abs(exact.coef).max()
        beta = np.clip(exact.dual + share * rng.normal(size=problem.n), 0.0, problem.loss.upper_bound())
        bounds = ball_of(problem, coef, exact.intercept, beta).training_bounds()
        agree(row_status(problem.loss, *bounds_of_margins(problem.y, *bounds)), rows)
        found = feature_status(problem, coef, exact.intercept, beta)
        agree(found, features)
        assert (features[zero_features(problem, coef, exact.intercept, beta)] != "nonzero").all()
        # What is certainly zero is tiny in the precise solution, whatever that one's own status says.
        assert (np.abs(exact.coef[found == "zero"]) <= exact.ball.radius).all()


def test_most_is_settled_by_a_small_gap():
    X, y = data(np.random.default_rng(0), 200, 20)
    for loss in LOSSES:
        result = solve(Problem(X, y, loss, l2=1e-2, l1=5e-2, intercept="free"), tol=1e-9, max_epochs=5000)
        assert (result.support_status() != "open").mean() > 0.85
        if loss != "hinge":  # whose rows at the kink leave every coordinate of the gradient open
            assert (result.feature_status() != "open").mean() > 0.85
            assert (result.feature_status() == "zero").any()


def test_features_of_rows_that_are_out_are_zero():
    # The third feature is that of one row alone, far on its side; the fourth that of one row without weight.
    X = np.array([[1, 0.5, 0, 0], [-1, -0.5, 0, 0], [0.5, 1, 0, 0], [8, 0, 0.1, 0], [-1, 0, 0, 3.0]])
    for data in (X, sparse.csr_matrix(X)):
        problem = Problem(data, [1, 0, 1, 1, 0], l2=0.1, intercept="free", sample_weight=[1, 1, 1, 1, 0.0])
        rough, fine = solve(problem, tol=0.5), solve(problem, tol=1e-10)
        assert list(fine.feature_status()) == ["nonzero", "nonzero", "zero", "zero"]
        assert rough.feature_status()[3] == "zero"
        agree(rough.feature_status(), fine.feature_status())
        assert fine.coef[2] == fine.coef[3] == 0.0


def test_features_without_an_l2_penalty():
    X, y = data(np.random.default_rng(1), 100, 10)
    result = solve(Problem(X, y, "squared_hinge", l2=0.0, l1=0.3), "apg", tol=1e-7, max_epochs=20_000)
    status = result.feature_status()
    assert (status == "zero").any()
    assert not result.coef[status == "zero"].any()
    with pytest.raises(ValueError, match="l2 > 0"):
        result.support_status()


@pytest.mark.parametrize(
    ("loss", "low", "high", "status"),
    [
        (Hinge(), 1.1, 2.0, "out"),
        (Hinge(), 1.0, 2.0, "open"),  # at the kink β* may be anything
        (Hinge(), -1.0, 0.9, "bound"),
        (Hinge(), -1.0, 1.0, "open"),
        (SquaredHinge(), -5.0, 0.9, "free"),
        (SquaredHinge(), 1.1, np.inf, "out"),
        (SquaredHinge(), -np.inf, 0.9, "free"),
        (SmoothHinge(0.5), 0.6, 0.9, "free"),
        (SmoothHinge(0.5), -1.0, 0.4, "bound"),
        (SmoothHinge(0.5), 0.4, 0.9, "open"),
        (Logistic(), 800.0, 900.0, "free"),  # where its slope underflows
        (Hinge(), -np.inf, np.inf, "open"),
    ],
)
def test_intervals_of_margins(loss, low, high, status):
    assert row_status(loss, np.array([low]), np.array([high])).tolist() == [status]


def test_rows_without_weight_are_out():
    X, y = data(np.random.default_rng(2))
    weights = np.ones(len(y))
    weights[3] = 0.0
    assert solve(Problem(X, y, l2=0.1, sample_weight=weights), tol=1e-6).support_status()[3] == "out"


def test_a_kernel_machine_has_no_features():
    X, y = data(np.random.default_rng(3))
    with pytest.raises(ValueError, match="no coefficients of features"):
        solve(Problem(X, y, l2=0.1, kernel="rbf"), tol=1e-3).feature_status()
