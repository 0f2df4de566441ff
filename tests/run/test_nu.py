"""minimise_nu against a naive solution of the ν-problem, on rows that are odd, and at the end of its budget."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dualgap import Problem
from dualgap.run import minimise_nu
from reference.nu import nu_optimum, nu_primal


def one_class(X, l2=1.0, **options):
    return Problem(X, np.ones(len(X)), l2=l2, classes=(-1.0, 1.0), **options)


def value_of(result):
    """P_ν of the model in the scale of the ν-problem."""
    problem, l2 = result.problem, result.rho
    return nu_primal(problem.X, problem.y, problem.c, result.nu, l2 * result.coef, l2 * result.intercept, l2)


def check(result, tol):
    c = result.certificate
    assert result.status == "converged"
    assert c.relative_gap <= tol
    assert value_of(result) == pytest.approx(c.primal, rel=1e-9, abs=1e-13)
    assert result.problem.c @ result.dual == pytest.approx(result.nu * result.problem.c.sum(), rel=1e-12)


@pytest.mark.parametrize("nu", [0.05, 0.33, 0.8, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_class_is_the_reference_optimum(nu, weighted):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(25, 3)) + 1.5
    problem = one_class(X, sample_weight=rng.integers(1, 4, 25).astype(float) if weighted else None)
    result = minimise_nu(problem, nu, "auto", 1e-7, 1000)
    check(result, 1e-7)
    best = nu_optimum(X, problem.y, problem.c, nu, free=False)
    assert result.certificate.dual <= best + 1e-9 * abs(best)
    assert result.certificate.primal == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("nu", [0.1, 0.27, 0.4])
def test_two_classes_are_the_reference_optimum(nu):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(30, 3))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=30) > 0.3, 1.0, -1.0)
    problem = Problem(X, y, intercept="free", classes=(-1.0, 1.0))
    result = minimise_nu(problem, nu, "auto", 1e-7, 1000)
    best = nu_optimum(X, y, problem.c, nu, free=True)
    if result.zero:  # the classes overlap: the exact model is zero
        assert best == pytest.approx(0.0, abs=1e-8)
    else:
        check(result, 1e-7)
        assert result.certificate.primal == pytest.approx(best, rel=1e-6)


def test_every_scale_of_the_data_has_the_same_solution():
    X = np.random.default_rng(3).normal(size=(40, 2)) + 2.0
    gaps = []
    for factor in (1e-6, 1.0, 1e6):
        result = minimise_nu(one_class(factor * X), 0.2, "auto", 1e-8, 1000)
        check(result, 1e-8)
        gaps.append(result.certificate.primal / factor**2)
    assert gaps == pytest.approx([gaps[1]] * 3, rel=1e-7)


def test_a_start_at_any_penalty_ends_at_the_same_model():
    X = np.random.default_rng(4).normal(size=(60, 2))
    values = [
        minimise_nu(one_class(X, l2=l2, kernel="rbf", gamma=0.5), 0.15, "working_set", 1e-8, 1000).certificate.primal
        for l2 in (1e-6, 1.0, 1e6)
    ]
    assert values == pytest.approx([values[0]] * 3, rel=1e-7)


def test_weights_are_rows_repeated():
    rng = np.random.default_rng(5)
    X, times = rng.normal(size=(30, 2)), rng.integers(1, 4, 30)
    weighted = minimise_nu(
        one_class(X, sample_weight=times.astype(float), kernel="rbf", gamma=1.0), 0.25, "working_set", 1e-9, 1000
    )
    repeated = minimise_nu(one_class(np.repeat(X, times, axis=0), kernel="rbf", gamma=1.0), 0.25, "working_set", 1e-9, 1000)
    assert weighted.certificate.primal == pytest.approx(repeated.certificate.primal, rel=1e-8)


@pytest.mark.parametrize(
    "X",
    [
        np.array([[2.0, 1.0]]),
        np.array([[2.0, 1.0]] * 7),
        np.array([[1.0, 0.0], [0.0, 1.0]]),
        np.vstack([np.random.default_rng(6).normal(size=(12, 2)) + 4.0, np.full((3, 2), 1.0)]),
    ],
    ids=["one row", "the same row", "two rows", "duplicates"],
)
@pytest.mark.parametrize("nu", [0.01, 0.5, 1.0])
def test_few_and_equal_rows(X, nu):
    result = minimise_nu(one_class(X), nu, "auto", 1e-6, 1000)
    check(result, 1e-6)
    best = nu_optimum(X, np.ones(len(X)), result.problem.c, nu, free=False)
    assert result.certificate.primal == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("X", [np.zeros((4, 2)), np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])])
def test_the_origin_among_the_rows_leaves_the_zero_model(X):
    result = minimise_nu(one_class(X), 0.5, "auto", 1e-6, 1000)
    assert result.zero
    assert result.status == "zero_optimum"
    assert result.rho == 0.0
    assert not result.coef.any()
    assert result.certificate.primal == 0.0
    assert -1e-7 <= result.certificate.dual <= 0.0


def test_a_zero_row_among_others():
    X = np.vstack([np.random.default_rng(7).normal(size=(20, 2)) + 3.0, np.zeros((1, 2))])
    result = minimise_nu(one_class(X), 0.3, "auto", 1e-6, 1000)
    check(result, 1e-6)
    # ν below the part of the zero row: that row alone is u = 0
    assert minimise_nu(one_class(X), 0.04, "auto", 1e-6, 1000).zero


def test_a_budget_that_ends_early_still_gives_a_certificate():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(300, 4))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    problem = Problem(X, y, intercept="free", kernel="rbf", gamma=0.5, classes=(-1.0, 1.0))
    for options in ({"max_epochs": 1}, {"max_epochs": 1000, "max_seconds": 1e-6}):
        result = minimise_nu(problem, 0.3, "working_set", 1e-12, **options)
        assert result.status in ("max_epochs", "max_seconds")
        assert result.certificate.primal >= result.certificate.dual > -np.inf
        assert result.problem.c @ result.dual == pytest.approx(0.3, rel=1e-9)


def test_an_infeasible_nu_is_refused():
    problem = Problem(np.arange(10.0)[:, None], [1] * 8 + [-1] * 2, intercept="free")
    with pytest.raises(ValueError, match=r"nu=0.5 is infeasible: .* at most 0.4"):
        minimise_nu(problem, 0.5, "auto", 1e-3, 100)


def test_callbacks_are_told_of_evaluations():
    told = []
    problem = one_class(np.random.default_rng(9).normal(size=(50, 2)) + 2)
    result = minimise_nu(problem, 0.5, "auto", 1e-3, 100, callbacks=[lambda progress: told.append(progress.certificate)])
    assert len(told) == len(result.trace)
    assert told[-1].primal < 0.0


def overlapping(n, shift):
    """Two classes of 3 : 2, the first one shifted."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(n, 3)) + 1.0
    y = np.where(np.arange(n) % 5 < 3, 1.0, -1.0)
    X[y > 0, 0] += shift
    return Problem(X, y, intercept="free", kernel="rbf", gamma=0.3, classes=(-1.0, 1.0))


def random_labels(n):
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(n, 3)), np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return Problem(X, y, intercept="free", kernel="rbf", gamma=0.3, classes=(-1.0, 1.0))


@pytest.mark.parametrize("problem", [overlapping(400, 1.0), random_labels(120)], ids=["overlapping", "random labels"])
def test_a_flat_dual_ends_with_its_gap_and_a_true_status(problem):
    """The optimum is next to nothing beside ½ν², the size of the dual, and so is the gap; a relative one of 1e-4 is beyond pair steps."""
    nu = 0.2
    result = minimise_nu(problem, nu, "working_set", 1e-4, 1000)
    c = result.certificate
    assert result.status in ("converged", "rounding_limit", "zero_optimum", "stalled")
    assert result.converged == (c.relative_gap <= 1e-4)
    assert c.dual <= c.primal <= 0.0
    assert result.zero == (c.primal == 0.0)
    assert c.gap <= 1e-6 * 0.5 * nu**2
    if not result.zero:
        assert value_by_kernel(result) <= c.primal + 1e-13


def value_by_kernel(result):
    """P_ν of a kernel machine in the scale of the ν-problem, from its scores."""
    problem, l2 = result.problem, result.rho
    scores = problem.combine(result.coef)  # K·a
    own = 0.5 * float(scores @ result.coef)
    return l2 * (l2 * own - result.nu + problem.c @ np.maximum(1.0 - problem.y * (scores + result.intercept), 0.0))


def test_long_rows_whose_optimum_is_0_end_soon():
    """Each step of the proximal-point method is a run of its own: it may not aim below what float64 can tell from 0."""
    X, digit = load_digits(return_X_y=True)
    problem = Problem(X, np.where(digit < 5, 1.0, -1.0), intercept="free")
    result = minimise_nu(problem, 0.1, "auto", 1e-4, max_epochs=20)
    assert result.zero
    assert result.status in ("zero_optimum", "rounding_limit", "stalled")
    assert -1e-15 < result.certificate.dual <= result.certificate.primal == 0.0


def test_an_absolute_tolerance_ends_a_run_whose_objective_is_nearly_0():
    problem = random_labels(120)
    result = minimise_nu(problem, 0.2, "working_set", 1e-6, 1000, atol=1e-8)
    assert result.status == "converged"
    assert result.certificate.gap <= 1e-8


@pytest.mark.parametrize("nu", [0.1, 0.27, 0.4])
def test_working_sets_reach_the_reference_optimum(nu):
    rng = np.random.default_rng(12)
    X = rng.normal(size=(30, 3))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=30) > 0.2, 1.0, -1.0)
    problem = Problem(X @ X.T, y, intercept="free", kernel="precomputed", classes=(-1.0, 1.0))
    result = minimise_nu(problem, nu, "working_set", 1e-8, 1000)
    best = nu_optimum(X, y, problem.c, nu, free=True)
    assert result.status == ("zero_optimum" if result.zero else "converged")
    assert result.certificate.primal == pytest.approx(best, rel=1e-6, abs=1e-9)
    assert result.certificate.dual <= best + 1e-9


@pytest.mark.parametrize("n", [200, 2500])
def test_centred_rows_of_a_kernel_matrix_are_soon_known_to_leave_the_zero_model(n):
    X = np.random.default_rng(13).normal(size=(n, 4))
    X -= X.mean(axis=0)
    result = minimise_nu(one_class(X @ X.T, kernel="precomputed"), 0.3, "working_set", 1e-4, 100)
    assert result.zero
    assert result.status == "zero_optimum"
    assert result.epochs < 50
    assert -1e-9 < result.certificate.dual <= result.certificate.primal == 0.0
