"""Certificates of ν-problems, against exact fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualgap import Problem
from dualgap.proof import certify_pair, dual_mass, dual_point, largest_nu, nu_certificate, nu_threshold, zero_certificate
from reference.nu import exact_dual, exact_primal, nu_primal

SEEDS = st.integers(0, 2**32 - 1)


def drawn(seed, free):
    """A small problem with weights, and some β with more mass than ν asks for."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 12)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4) + rng.normal(size=d)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0) if free else np.ones(n)
    weights = rng.integers(1, 5, n).astype(float) if rng.random() < 0.5 else None
    problem = Problem(
        X,
        y,
        l2=float(10.0 ** rng.uniform(-3, 3)),
        sample_weight=weights,
        intercept="free" if free else "none",
        classes=(-1.0, 1.0),
    )
    return rng, problem, rng.random(n) ** 0.3


@pytest.mark.parametrize("free", [False, True])
@given(seed=SEEDS)
def test_certificates_hold_in_exact_arithmetic(free, seed):
    rng, problem, beta = drawn(seed, free)
    point = dual_point(problem, beta)
    mass = dual_mass(problem, point.beta)[0]
    nu = float(min(mass * rng.uniform(0.3, 1.0) * (1.0 - 1e-14), 1.0))
    w, b = point.coef * rng.uniform(0.5, 1.5), float(rng.normal()) if free else 0.0
    found = nu_certificate(problem, nu, point.beta, certify_pair(problem, w, b, point, "solver").certificate)
    primal = exact_primal(problem.X, problem.y, problem.c, nu, w, b, problem.l2)
    dual = exact_dual(problem.X, problem.y, problem.c, nu, point.beta, free)
    assert dual is not None
    assert Fraction(found.primal) >= primal
    assert Fraction(found.dual) <= dual
    assert Fraction(found.gap) >= primal - dual
    size = problem.l2 * (1.0 + 0.5 * problem.l2 * float(w @ w) + float(problem.norms.max() * np.abs(w).sum() + abs(b)))
    assert found.primal - float(primal) <= 1e-11 * size
    assert float(dual) - found.dual <= 1e-11 * (size + abs(float(dual)))
    if primal < 0:
        assert Fraction(found.relative_gap) >= (primal - dual) / -primal


def test_a_bound_needs_enough_mass():
    _, problem, beta = drawn(0, False)
    point = dual_point(problem, 0.5 * beta)
    proven = certify_pair(problem, point.coef, 0.0, point, "solver").certificate
    found = nu_certificate(problem, 1.0, point.beta, proven)
    assert found.dual == -math.inf
    assert found.relative_gap == math.inf
    assert zero_certificate(found).gap == math.inf


@pytest.mark.parametrize("free", [False, True])
@given(seed=SEEDS)
def test_the_threshold_is_the_best_one(free, seed):
    rng, problem, beta = drawn(seed, free)
    nu = float(rng.uniform(0.05, 1.0)) * largest_nu(problem)
    w = problem.X.T @ (problem.c * beta * problem.y)
    rho, b = nu_threshold(problem, nu, problem.X @ w)
    best = nu_primal(problem.X, problem.y, problem.c, nu, w, b, rho)
    for step in (1e-3, 0.1, 10.0):
        for other in ((rho + step * size, b + step * move) for size in (-1, 0, 1) for move in ((-1, 0, 1) if free else (0,))):
            value = nu_primal(problem.X, problem.y, problem.c, nu, w, other[1], other[0])
            assert value >= best - 1e-9 * (1.0 + abs(best) + abs(rho) + abs(b))


def test_the_largest_nu_is_twice_the_lighter_class():
    X, y = np.arange(8.0)[:, None], np.array([1, 1, 1, 1, 1, 1, -1, -1])
    assert largest_nu(Problem(X, y, intercept="free")) == pytest.approx(0.5)
    assert largest_nu(Problem(X, y, sample_weight=np.where(y > 0, 1.0, 3.0), intercept="free")) == pytest.approx(1.0)
    assert largest_nu(Problem(X, np.ones(8), classes=(-1, 1))) == 1.0
