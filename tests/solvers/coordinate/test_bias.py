"""The bias column of an intercept: the same rows, norms and b as with a column written out."""

import numpy as np
import pytest

import dualgap
from conftest import make_data
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
