"""The bias column of an intercept: the same rows, norms and b as with a column written out."""

import numpy as np
import pytest

import dualgap
from conftest import make_data
from dualgap.solvers.coordinate.ascent import Ascent
from dualgap.solvers.coordinate.bias import BiasColumn, free_scale
from reference import REFERENCE_LOSSES


def problem_with(intercept):
    X, y = make_data(30, 4, seed=3)
    return dualgap.Problem(X, y, l2=0.1, intercept=intercept, intercept_scale=2.0, sample_weight=np.arange(1.0, 31.0))


@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
def test_the_column_is_one_more_entry_of_each_row(intercept):
    problem = problem_with(intercept)
    bias = BiasColumn.of(problem, 0.25)
    assert bias.width == (intercept != "none")
    written_out = np.hstack([problem.X, np.full((30, bias.width), bias.scale)])
    np.testing.assert_allclose(bias.squares(problem.sqnorms), (written_out**2).sum(axis=1))
    v = np.linspace(-1.0, 1.0, 4 + bias.width)
    rows, b = bias.rows(problem.rows), bias.value(v[-1])
    np.testing.assert_allclose([rows.dot(i, v) for i in range(30)], problem.X @ v[:4] + b)
    np.testing.assert_allclose(b, bias.centre + (written_out[0, 4:] @ v[4:]))


def test_only_a_free_intercept_has_a_scale_of_its_own_and_a_centre_that_moves():
    for intercept, centre in (("none", 0.0), ("penalised", 0.0), ("free", 0.25)):
        bias = BiasColumn.of(problem_with(intercept), 0.25)
        assert bias.centre == centre
        bias.move_centre(3.0)
        assert bias.centre == centre + (3.0 * bias.scale if intercept == "free" else 0.0)
    problem = problem_with("free")
    assert BiasColumn.of(problem).scale == pytest.approx(0.3 * np.sqrt(np.average(problem.sqnorms, weights=problem.c)))
    assert BiasColumn.of(problem_with("penalised")).scale == 2.0


def test_rows_of_zeros_have_a_column_too():
    assert free_scale(0.0, l2=0.5) > 0.0


def test_a_strong_penalty_lets_b_move_by_about_a_margin_in_a_pass():
    """Σ cβy, at most 1, moves b by scale²/l2 times itself: 80 passes of it would not take b from 0 to 1 at the scale of the rows alone."""
    for l2 in (1e-4, 1.0, 1e4, 1e8):
        assert free_scale(1.0, l2) ** 2 / l2 >= 1.0


@pytest.mark.parametrize("loss", ["smooth_hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("positive", [3, 15, 28])
def test_the_first_centre_of_a_free_intercept_is_the_best_b_of_no_model(loss, positive):
    delta = 0.5 if loss == "smooth_hinge" else None
    problem = dualgap.Problem(np.eye(30), np.arange(30) < positive, loss=loss, delta=delta, l2=0.1, intercept="free")
    slopes = REFERENCE_LOSSES[loss].slope(problem.y * BiasColumn.of(problem).centre)
    assert np.mean(problem.y * slopes) == pytest.approx(0.0, abs=1e-12)


def test_the_first_centre_for_a_hinge_goes_from_one_class_to_the_other_without_a_jump():
    centres = [
        BiasColumn.of(dualgap.Problem(np.eye(100), np.arange(100) < k, l2=0.1, intercept="free")).centre for k in range(1, 100)
    ]
    assert (np.diff(centres) > 0.0).all()
    assert centres[49] == pytest.approx(0.0, abs=1e-12)
    assert -1.0 < centres[0] < -0.95
    assert np.diff(centres).max() < 0.05


def test_there_may_be_one_centre_for_each_class():
    bias = BiasColumn.of(problem_with("free"), np.zeros(3))
    start = bias.centre
    bias.move_centre(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(bias.centre, bias.scale * np.array([1.0, 2.0, 3.0]))
    assert not start.any()  # the array that was given is not written to


def penalised_ascent(scale):
    """Return an ascent on orthogonal rows at a dual point inside its box."""
    y = np.where(np.arange(30) % 3 == 0, 1.0, -1.0)
    problem = dualgap.Problem(np.eye(30), y, l2=1e-3, intercept="penalised", intercept_scale=scale)
    return Ascent(problem, np.linspace(0.1, 0.9, 30))


def test_a_penalised_column_is_shortened_at_the_same_b():
    ascent = penalised_ascent(2.0)
    b = ascent.intercept()
    ascent.shorten_column()
    assert ascent.bias.scale < 0.5
    assert ascent.intercept() == pytest.approx(b)
    assert ascent.intercept_terms() == pytest.approx((0.0, 0.0), abs=1e-12)
    ascent.move_centre()  # b follows from β: the proximal-point loop has ended
    assert ascent.intercept() == pytest.approx(b)


def test_a_penalised_column_is_never_longer_than_its_penalty_makes_it():
    ascent = penalised_ascent(1e-3)
    ascent.shorten_column()
    assert (ascent.bias.scale, ascent.bias.share, ascent.bias.centre) == (1e-3, 0.0, 0.0)


@pytest.mark.parametrize(
    ("rows", "l2", "slow"), [(1.0, 1e-3, True), (2.0, 1e-3, False), (1.0, 1.0, False)], ids=["as long", "short", "strong"]
)
def test_a_penalised_column_stays_where_it_does_not_slow_the_sweeps(rows, l2, slow):
    problem = dualgap.Problem(rows * np.eye(30), np.resize([1.0, -1.0, -1.0], 30), l2=l2, intercept="penalised")
    ascent = Ascent(problem, np.linspace(0.1, 0.9, 30))
    ascent.shorten_column()
    assert (ascent.bias.scale < 1.0) == slow
    assert (ascent.bias.share > 0.0) == slow


def test_the_proximal_point_loop_brings_a_penalised_b_to_the_one_of_its_dual_point():
    ascent = penalised_ascent(2.0)
    ascent.shorten_column()
    wanted = 4.0 * float(ascent.problem.c * ascent.problem.y @ ascent.beta) / ascent.problem.l2
    ascent.set_intercept(wanted + 1.0)
    errors = []
    for _ in range(4):
        ascent.move_centre()
        errors.append(ascent.intercept() - wanted)
    np.testing.assert_allclose(errors, ascent.bias.share ** np.arange(1, 5), rtol=1e-6)


def test_the_gap_of_a_penalised_b_and_the_terms_of_the_rows_are_the_gap():
    ascent = penalised_ascent(2.0)
    ascent.shorten_column()
    ascent.set_intercept(0.3)
    problem, beta, loss = ascent.problem, ascent.beta, REFERENCE_LOSSES["hinge"]
    w, margins = ascent.v[:-1], problem.y * (ascent.v[:-1] + 0.3)
    rows = float(problem.c @ (loss.value(margins) - beta + beta * margins))  # ψ(β) = β for the hinge
    total = float(problem.c * problem.y @ beta)
    dual = float(problem.c @ beta) - 0.5 * problem.l2 * float(w @ w) - 0.5 * 4.0 * total**2 / problem.l2
    gap, objective = ascent.intercept_terms()
    assert rows + gap == pytest.approx(problem.objective(w, 0.3) - dual)
    assert float(problem.c @ (loss.value(margins) + 0.5 * beta * margins)) + objective == pytest.approx(problem.objective(w, 0.3))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_a_penalised_intercept_is_a_column_of_ones_to_dca(loss, scale):
    X, y = make_data(80, 6, seed=5)
    y = np.where(X[:, 0] > 0.8, 1.0, -1.0)
    shown = dualgap.Problem(np.column_stack([X, np.full(len(X), scale)]), y, loss=loss, l2=1e-3)
    hidden = dualgap.Problem(X, y, loss=loss, l2=1e-3, intercept="penalised", intercept_scale=scale)
    best = dualgap.solve(shown, "auto", tol=1e-8)
    found = dualgap.solve(hidden, "dca", tol=1e-6, max_epochs=20_000)
    assert found.status == "converged"
    assert found.certificate.primal == pytest.approx(best.certificate.primal, rel=2e-6)
