"""Certificates of regression for any model and any dual point, at any scale, against P and D in fractions."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import dualgap
from dualgap.proof import certificate_of_pair, certify_pair, dual_from_margins, dual_point, enclose
from reference.regression import primal_and_dual, psi


def a_problem(seed):
    """A small problem with rows, targets, loss and penalty of any size."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 9)), int(rng.integers(1, 4))
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-6, 6)
    scale = 10.0 ** rng.uniform(-6, 6)
    t = scale * (rng.standard_normal(n) + rng.choice([0.0, 1e6]))
    quadratic = rng.random() < 0.5
    low, high = (np.inf, np.inf) if quadratic and rng.random() < 0.5 else rng.random(2)
    loss = dualgap.ResidualLoss(scale * rng.choice([0.0, 0.5]), scale * rng.random() if quadratic else 0.0, low, high)
    intercept = str(rng.choice(["none", "penalised", "free"]))
    weights = None if rng.random() < 0.5 else rng.random(n) + 0.01
    problem = dualgap.Problem(
        X,
        t,
        loss,
        l2=10.0 ** rng.uniform(-6, 3),
        intercept=intercept,
        intercept_scale=10.0 ** rng.uniform(-2, 2),
        sample_weight=weights,
    )
    return problem, rng


def exact_dual(problem, coef, b, beta):
    """The largest D over the β that differ from the given one in one row which balances a free intercept."""
    primal, dual, rest = primal_and_dual(problem, coef, b, beta)
    if problem.intercept != "free" or rest == 0:
        return primal, dual
    c, found = [Fraction(float(x)) for x in problem.c], []
    X, t, l2 = (
        [[Fraction(float(x)) for x in row] for row in problem.X],
        [Fraction(float(x)) for x in problem.targets],
        Fraction(problem.l2),
    )
    u = [sum(c[i] * Fraction(float(beta[i])) * X[i][j] for i in range(problem.n)) for j in range(problem.d)]
    square = sum(v * v for v in u)
    for k in range(problem.n):
        old = Fraction(float(beta[k]))
        new = old - rest / c[k]
        if psi(problem.loss, new) is not None:
            moved = [v - rest * x for v, x in zip(u, X[k], strict=True)]
            change = c[k] * (psi(problem.loss, new) - psi(problem.loss, old) + (new - old) * t[k])
            found.append(dual + change - (sum(v * v for v in moved) - square) / (2 * l2))
    return primal, max(found, default=None)


@given(seed=st.integers(0, 10**9))
def test_pairs_are_enclosed(seed):
    problem, rng = a_problem(seed)
    coef = (
        rng.standard_normal(problem.d)
        * float(np.abs(problem.targets).max() / np.sqrt(problem.sqnorms.max()))
        * 10.0 ** rng.uniform(-2, 1)
    )
    b = 0.0 if problem.intercept == "none" else float(rng.choice(problem.targets))
    low, high = max(problem.loss.lower_bound(), -40.0), min(problem.loss.upper_bound(), 40.0)
    given_beta = dual_point(problem, rng.uniform(low, high, problem.n) * (rng.random(problem.n) < 0.8))
    for point in (given_beta, dual_from_margins(problem, problem.scores(coef) + b)):
        primal, dual = exact_dual(problem, coef, b, point.beta)
        for certificate in (
            certify_pair(problem, coef, b, point, "given").certificate,
            certificate_of_pair(enclose(problem, coef, b, point, precise=True), "given"),
        ):
            assert Fraction(certificate.primal) >= primal
            if math.isfinite(certificate.dual):
                assert dual is not None
                assert Fraction(certificate.dual) <= dual
                assert Fraction(certificate.gap) >= primal - dual
            if problem.intercept != "free" and math.isfinite(certificate.gap):
                assert primal - dual >= Fraction(certificate.gap) - 2 * Fraction(certificate.radius)
