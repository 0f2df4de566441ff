"""Rows left out and rows forgotten: bounds contain what near-exact solves without those rows find, for every loss, intercept and kernel."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse

from dualgap import Problem, Result, certify
from dualgap.answers import evidence_of, left_out_scores
from dualgap.proof import certify_pair, dual_point
from dualgap.run import minimise

LOSSES = ["hinge", "smooth_hinge", "squared_hinge", "logistic"]
INTERCEPTS = ["none", "penalised", "free"]
CASES = list(itertools.product(LOSSES, INTERCEPTS))
KERNELS = [("rbf", {"gamma": 0.5}), ("poly", {"degree": 2, "coef0": 1.0}), ("linear", {})]


def data(rng, n):
    """Rows of several scales, zero rows, a row twice, both classes."""
    X = rng.normal(size=(n, 4)) * 10.0 ** rng.uniform(-1, 1, 4) + 10.0 * rng.normal() * (rng.random() < 0.3)
    X[rng.random(n) < 0.1] = 0.0
    X[0] = X[-1]
    y = np.where(X[:, 0] + rng.normal(size=n) * np.abs(X[:, 0]).max() / 3 > 0, 1, 0)
    y[:4] = (0, 1, 0, 1)
    return X, y


def weights_of(rng, n):
    return (
        rng.exponential(size=n) * (np.arange(n) < 4) + rng.exponential(size=n) * (rng.random(n) < 0.9)
        if rng.random() < 0.5
        else None
    )


def without(problem, rows):
    c = problem.c.copy()
    c[rows] = 0.0
    return problem.replace(sample_weight=c, c=c)


def near_exact(problem, warm):
    found = minimise(problem, "auto", 1e-12, 500, warm_start=warm)
    return found if found.certificate.relative_gap < 1e-9 else None


def pairs(problem, result, rng):
    """The model and dual point of a fit, and worse ones."""
    yield result.coef, result.intercept, result.dual
    share = 10.0 ** rng.uniform(-5, -1)
    coef = result.coef + share * rng.normal(size=problem.size) * np.abs(result.coef).max()
    beta = np.clip(result.dual + share * rng.normal(size=problem.n), 0.0, problem.loss.upper_bound())
    yield coef, result.intercept + share * rng.normal() * (problem.intercept != "none"), beta


def check_left_out(problem, rng):
    result = Result.of(minimise(problem, "auto", 10.0 ** rng.uniform(-10, -1), 2000))
    bounds = [left_out_scores(evidence_of(problem, *pair)) for pair in pairs(problem, result, rng)]
    for i in rng.choice(problem.n, 3, replace=False):
        small = without(problem, i)
        if problem.intercept == "free" and not all((small.c[small.y == sign] > 0).any() for sign in (1, -1)):
            # One class is left: its label, whatever the score.
            assert all(low[i] > 0 if problem.y[i] < 0 else high[i] <= 0 for low, high in bounds)
            continue
        exact = near_exact(small, (result.coef, result.intercept, result.dual * (small.c > 0)))
        if exact is None:
            continue
        least, most = (end[i] for end in exact.ball.training_bounds())
        (own_low,), (own_high,) = left_out_scores(evidence_of(small, exact.coef, exact.intercept, exact.dual), np.array([i]))
        for low, high in [*((low[i], high[i]) for low, high in bounds), (own_low, own_high)]:
            assert low <= most
            assert least <= high


@pytest.mark.parametrize(("loss", "intercept"), CASES, ids=str)
@settings(max_examples=3)
@given(draw=st.integers(0, 10**9))
def test_linear_rows_left_out(loss, intercept, draw):
    rng = np.random.default_rng(draw)
    X, y = data(rng, int(rng.integers(6, 24)))
    l2 = 10.0 ** rng.uniform(-4, 1)
    form = sparse.csr_matrix if draw % 2 else np.asarray
    l1 = 0.1 * l2 * (rng.random() < 0.3)
    check_left_out(Problem(form(X), y, loss, None, l2, l1, weights_of(rng, len(y)), intercept, intercept_scale=2.0), rng)


@pytest.mark.parametrize(("loss", "intercept"), CASES, ids=str)
@settings(max_examples=2)
@given(draw=st.integers(0, 10**9))
def test_kernel_rows_left_out(loss, intercept, draw):
    rng = np.random.default_rng(draw)
    X, y = data(rng, int(rng.integers(6, 24)))
    kernel, parameters = KERNELS[draw % len(KERNELS)]
    l2, weights = 10.0 ** rng.uniform(-3, 0), weights_of(rng, len(y))
    check_left_out(Problem(X, y, loss, l2=l2, sample_weight=weights, intercept=intercept, kernel=kernel, **parameters), rng)


@pytest.mark.parametrize(("loss", "intercept"), CASES, ids=str)
@settings(max_examples=2)
@given(draw=st.integers(0, 10**9))
@example(draw=179)  # the dropped dual point proves less than β = 0
def test_forgotten_rows(loss, intercept, draw):
    rng = np.random.default_rng(draw)
    n = int(rng.integers(20, 60))
    X, y = data(rng, n)
    l2 = 10.0 ** rng.uniform(-4, 1)
    form = sparse.csr_matrix if draw % 2 else np.asarray
    problem = Problem(
        form(X), y, loss, None, l2, 0.1 * l2 * (rng.random() < 0.3), weights_of(rng, n), intercept, intercept_scale=2.0
    )
    result = Result.of(minimise(problem, "auto", 10.0 ** rng.uniform(-10, -1), 2000))
    left, limit = np.arange(4, n), rng.choice([1e-3, 1e-2, 1.0, np.inf])
    for _ in range(3):
        rows = rng.choice(left, int(rng.choice([1, 3, n // 10])), replace=False)
        left = np.setdiff1d(left, rows)
        result, receipt = result.forget(rows, limit)
        check_receipt(result, receipt, limit)


def check_receipt(result, receipt, limit):
    problem, own = result.problem, receipt.certificate
    again = certify(problem, result.coef, result.intercept, dual=result.dual)
    assert own.primal >= again.primal * (1 - 1e-9)
    assert own.dual <= again.primal
    assert receipt.retrained or own.relative_gap <= limit
    exact = near_exact(problem, result)
    if exact is None:
        return
    assert own.dual <= exact.certificate.primal
    distance = np.linalg.norm(result.coef - exact.coef)
    if problem.intercept == "penalised":
        distance = np.hypot(distance, (result.intercept - exact.intercept) / problem.intercept_scale)
    assert distance <= receipt.distance + 2.0 * exact.ball.radius
    low, high = exact.ball.intercept
    assert receipt.intercept[0] <= high
    assert low <= receipt.intercept[1]


def test_little_is_lost_where_the_forgotten_rows_have_no_weight_in_the_model():
    rng = np.random.default_rng(0)
    X, y = data(rng, 200)
    result = Result.of(minimise(Problem(X, y, "hinge", l2=0.1, intercept="free"), "auto", 1e-8, 2000))
    rows = np.flatnonzero(result.dual == 0.0)[:5]
    after, receipt = result.forget(rows)
    assert not receipt.retrained
    assert receipt.certificate.relative_gap < 1e-6
    assert np.array_equal(after.coef, result.coef)
    assert not after.problem.c[rows].any()


@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
def test_where_zero_is_the_better_bound_the_dual_point_is_zero(intercept):
    """A poor model's β without a row can bound less than β = 0; the receipt, its distance and its dual point are then those of β = 0."""
    zeros = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, y = data(rng, 20)
        problem = Problem(X, y, "smooth_hinge", 0.5, 10.0 ** rng.uniform(-7, -3), intercept=intercept, intercept_scale=2.0)
        after, receipt = Result.of(minimise(problem, "auto", 1e-9, 1)).forget(rng.choice(20, 3, replace=False), np.inf)
        own = certify_pair(after.problem, after.coef, after.intercept, dual_point(after.problem, after.dual), "given").certificate
        assert own.gap <= receipt.certificate.gap * (1 + 1e-9) + 1e-15
        assert receipt.certificate.dual <= max(own.dual, 0.0) + 1e-9 * receipt.certificate.primal
        check_receipt(after, receipt, np.inf)
        zeros += not after.dual.any()
    assert zeros > 0
