"""Pairs of classes solved and certified in one compiled call: the certificates, and what is left to `minimise`."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.preprocessing import scale

import dualgap
from dualgap.kernels import make_kernel
from dualgap.run import minimise_pairs, pairs, pairs_of

CODES = np.array([2, 0, 1, 1, 0, 2, 2, 1, 0, 0, 3, 3])


def solved(kernel, X, codes, C=1.0, tol=1e-4):
    every = pairs_of(codes, int(codes.max()) + 1)
    sizes = np.diff(every.starts)
    return every, minimise_pairs(kernel, X, codes, every, np.repeat(1.0 / sizes, sizes), 1.0 / (C * sizes), tol, 100)


def problem_of(every, k, kernel, X, C=1.0):
    own = slice(every.starts[k], every.starts[k + 1])
    l2 = 1.0 / (C * (own.stop - own.start))
    return dualgap.Problem(X[every.rows[own]], every.signs[own], l2=l2, kernel=kernel, intercept="free")


def test_the_rows_of_all_pairs():
    found = pairs_of(CODES, 4)
    for k, (i, j) in enumerate(combinations(range(4), 2)):
        own = slice(found.starts[k], found.starts[k + 1])
        rows = np.flatnonzero((i == CODES) | (j == CODES))
        np.testing.assert_array_equal(found.rows[own], rows)
        np.testing.assert_array_equal(found.signs[own], np.where(CODES[rows] == i, 1.0, -1.0))
        np.testing.assert_array_equal(found.lines[own], np.where(CODES[rows] == i, j - 1, i))


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("name", ["rbf", "linear", "poly"])
def test_each_pair_has_the_certificate_of_its_problem(name, C):
    X, y = make_blobs(90, centers=6, n_features=4, cluster_std=3.0, random_state=1)
    kernel = make_kernel(name, X, "scale", 3, 1.0)
    every, results = solved(kernel, X, y, C)
    assert sum(result is not None for result in results) >= 12
    for k, result in enumerate(results):
        if result is None:
            continue
        problem = problem_of(every, k, kernel, X, C)
        again = dualgap.certify(problem, result.coef, result.intercept, result.dual)
        best = dualgap.solve(problem, tol=1e-6).certificate
        assert result.status == "converged"
        assert result.certificate.relative_gap <= 1e-4
        assert result.certificate.primal == pytest.approx(again.primal, rel=1e-9)
        assert result.certificate.dual <= best.primal
        assert result.certificate.primal >= best.dual
        rounding = 2.0 * result.certificate.radius
        assert result.certificate.primal - rounding - result.certificate.gap <= best.primal
        assert result.trace["gap"][-1] == result.certificate.gap
        assert result.trace["support_vectors"][-1] == np.count_nonzero(result.dual)


def test_bounds_hold_in_exact_fractions():
    """The linear kernel of whole numbers has no rounding: P(w, b) is a fraction."""
    rng = np.random.default_rng(3)
    codes = np.arange(36) % 3
    X = rng.integers(-9, 9, (36, 3)).astype(float) + 4.0 * codes[:, None]
    every, results = solved(make_kernel("linear"), X, codes, C=0.1, tol=1e-6)
    for k, result in enumerate(results):
        problem = problem_of(every, k, make_kernel("linear"), X, C=0.1)
        rows = [[Fraction(value) for value in row] for row in problem.X.tolist()]
        a, b, l2 = [Fraction(value) for value in result.coef.tolist()], Fraction(result.intercept), Fraction(problem.l2)
        w = [sum(weight * row[j] for weight, row in zip(a, rows, strict=True)) for j in range(3)]
        scores = [sum(p * q for p, q in zip(w, row, strict=True)) + b for row in rows]
        losses = [max(0, 1 - int(sign) * score) for sign, score in zip(problem.y, scores, strict=True)]
        primal = sum(Fraction(c) * loss for c, loss in zip(problem.c.tolist(), losses, strict=True)) + l2 / 2 * sum(
            v * v for v in w
        )
        assert Fraction(result.certificate.primal) >= primal
        assert Fraction(result.certificate.primal) - 2 * Fraction(result.certificate.radius) <= primal
        best = dualgap.solve(problem, tol=1e-9).certificate
        assert Fraction(best.primal) >= primal - Fraction(result.certificate.gap)
        assert best.primal >= result.certificate.dual


@pytest.mark.parametrize("weighted", [False, True])
def test_the_model_is_that_of_one_problem_after_the_other(monkeypatch, weighted):
    X, y = load_digits(return_X_y=True)
    X, y = X[:400], y[:400]
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y)) if weighted else None
    model = dualgap.SVC(tol=1e-6, class_weight="balanced" if weighted else None)
    together = model.fit(X, y, weights)
    scores, labels, certificates = together.decision_function(X), together.predict(X), together.certificate_
    assert not any("train_error" in trace.columns for trace in together.history_)
    monkeypatch.setattr(pairs, "certificates_of", lambda sums, *_: [None] * len(sums))  # all are left
    apart = model.fit(X, y, weights)
    assert all("train_error" in trace.columns for trace in apart.history_)
    np.testing.assert_allclose(apart.decision_function(X), scores, atol=0.01)
    assert (apart.predict(X) == labels).mean() > 0.99
    for one, other in zip(certificates, apart.certificate_, strict=True):
        assert one.primal == pytest.approx(other.primal, rel=2e-6)


def test_a_pair_that_does_not_get_there_is_left():
    X, y = make_blobs(90, centers=6, n_features=4, cluster_std=3.0, random_state=1)
    kernel = make_kernel("rbf", X)
    assert all(result is None for result in solved(kernel, X, y, tol=1e-16)[1])
    far = 1e9 + X  # the distances of these rows have no digits
    assert all(result is None or result.certificate.radius < 1e-4 for result in solved(make_kernel("linear"), far, y)[1])


def test_listeners_hear_of_every_pair():
    X, y = make_blobs(60, centers=3, random_state=0)
    heard = []
    dualgap.SVC(callbacks=[lambda progress: heard.append(progress.epoch)]).fit(X, y)
    assert len(heard) >= 3


@pytest.mark.parametrize("weight", [None, "balanced"])
def test_a_flat_minimum_of_the_intercept_is_left_at_its_middle(weight):
    """With classes of one size and a small C all dual variables are at a bound, and a whole interval of intercepts is optimal."""
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    model = dualgap.SVC(C=0.01, class_weight=weight, tol=1e-8).fit(X, y)
    kernel = make_kernel("rbf", X, "scale", 3, 0.0)
    every = pairs_of(y, 3)
    for k, intercept in enumerate(model.intercept_):
        alone = dualgap.solve(problem_of(every, k, kernel, X, C=0.01), tol=1e-8)
        assert alone.dual.min() == pytest.approx(1.0)
        assert intercept == pytest.approx(alone.intercept, abs=1e-6)
    assert model.score(X, y) > 0.85


def test_a_pair_that_needs_many_steps_is_left_to_other_methods():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 4)), rng.integers(0, 3, 300)
    assert solved(make_kernel("linear", X, "scale", 3, 0.0), X, y, C=1e3)[1] == [None] * 3
    assert dualgap.SVC(kernel="linear", C=1e3).fit(X, y).status_ == "converged"
