"""Dual coordinate ascent with shrinking: it ends where SDCA does, and the rows it leaves out come back."""

import numpy as np
import pytest
from scipy import sparse

import dualgap
from conftest import make_data
from dualgap.core.order import shuffle_blocks
from dualgap.proof import lower_bound
from dualgap.solvers.coordinate import dca
from dualgap.solvers.coordinate.dca import DCA
from dualgap.solvers.coordinate.extrapolation import extrapolate


def run_epochs(problem, epochs, solver=None, seed=0):
    solver, rng = solver or DCA(), np.random.default_rng(seed)
    state = solver.start(problem, rng)
    history = []
    for _ in range(epochs):
        solver.epoch(problem, state, rng)
        history.append((state.active, solver.gap_estimate(problem, state)))
    return state, history


@pytest.mark.parametrize("loss", ["hinge", "smooth_hinge"])
@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
def test_shrinks_and_checks_all_rows_again(loss, intercept):
    X, y = make_data(400, 6, seed=1)
    problem = dualgap.Problem(X, y, l2=1e-2, l1=0.0, loss=loss, intercept=intercept)
    solver, rng = DCA(), np.random.default_rng(0)
    state = solver.start(problem, rng)
    counts, full_passes = [], 0
    for _ in range(100):
        counts.append(state.active)
        solver._sweep(problem, state, rng)
        if state.scores is None:
            continue
        full_passes += 1
        ascent, b = state.ascent, solver.intercept(problem, state)
        np.testing.assert_allclose(state.scores, X @ ascent.v[:6], atol=1e-12)
        margins = y * (state.scores + b)
        slope = 1.0 - margins - (ascent.beta if loss == "smooth_hinge" else 0.0)
        rests = ((ascent.beta == 0) & (slope < 0)) | ((ascent.beta == 1) & (slope > 0))
        rests &= np.abs(slope) > state.bound
        np.testing.assert_array_equal(state.order[: state.active], np.flatnonzero(~rests))
        if intercept != "free":
            primal = problem.objective(ascent.v[:6], b)
            gap = (primal - lower_bound(problem, ascent.beta)) / primal
            assert solver.gap_estimate(problem, state) == pytest.approx(gap, rel=1e-6, abs=1e-13)
    assert min(counts) < 200
    assert full_passes > 1


def test_rows_shrunk_by_mistake_come_back():
    X, y = make_data(400, 6, seed=1)
    problem = dualgap.Problem(X, y, l2=1e-2)
    solver, rng = DCA(), np.random.default_rng(0)
    state = solver.start(problem, rng)
    for _ in range(3):
        solver._sweep(problem, state, rng)
    state.active = 40  # whatever the others would have had to say
    for _ in range(300):
        solver.epoch(problem, state, rng)
    assert dualgap.certify(problem, state.ascent.v, dual=state.ascent.beta).relative_gap < 1e-6


def test_the_certificate_takes_the_scores_that_a_full_pass_computed(monkeypatch):
    X, y = make_data(400, 6, seed=1)
    problem = dualgap.Problem(X, y, l2=1e-2)
    dualgap.solve(problem, "dca", tol=0.5)  # compiled
    asked, scores = [], dualgap.Problem.scores
    monkeypatch.setattr(dualgap.Problem, "scores", lambda self, stored: asked.append(self.n) or scores(self, stored))
    result = dualgap.solve(problem, "dca", tol=1e-6, max_epochs=1000)
    full_passes = len(asked)
    certificate = dualgap.certify(problem, result.coef, dual=result.dual)
    assert certificate.primal == pytest.approx(result.certificate.primal, rel=1e-12)
    assert certificate.dual == pytest.approx(result.certificate.dual, rel=1e-12)
    monkeypatch.setattr(DCA, "scores", lambda self, problem, state: None)
    asked.clear()
    dualgap.solve(problem, "dca", tol=1e-6, max_epochs=1000)
    assert len(asked) > full_passes


def test_an_epoch_is_at_most_about_a_pass():
    X, y = make_data(400, 6, seed=1)
    state, _ = run_epochs(dualgap.Problem(X, y, l2=1e-2), 50)
    assert state.passes <= 2 * 50


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_follows_the_objective_and_its_gap(loss):
    X, y = make_data(300, 5, seed=2)
    problem = dualgap.Problem(X, y, l2=1e-2, loss=loss)
    state, history = run_epochs(problem, 100)
    certificate = dualgap.certify(problem, problem.combine(problem.c * y * state.ascent.beta / problem.l2), dual=state.ascent.beta)
    assert state.primal == pytest.approx(certificate.primal, rel=1e-4)
    assert certificate.relative_gap < 1e-5
    assert min(estimate for _, estimate in history) < 1e-4


@pytest.mark.parametrize("intercept", ["none", "penalised"])
def test_an_extrapolation_step_keeps_v_in_step_and_never_lowers_the_dual(intercept):
    X, y = make_data(400, 8, seed=6)
    problem = dualgap.Problem(X, y, l2=1e-4, intercept=intercept)
    solver, rng = DCA(), np.random.default_rng(0)
    state = solver.start(problem, rng)
    ascent, gains = state.ascent, []
    for _ in range(30):
        before, v = ascent.beta.copy(), ascent.v.copy()
        for _ in range(3):
            solver._sweep(problem, state, rng)
        value = lower_bound(problem, ascent.beta)
        gain = extrapolate(ascent.rows, problem.loss, ascent.coords, ascent.beta, ascent.v, problem.l2, 0.0, before, v)
        gains.append(gain)
        assert lower_bound(problem, ascent.beta) - value == pytest.approx(gain, abs=1e-13)
        np.testing.assert_allclose(ascent.v[:8], problem.combine(ascent.beta * ascent.coords.factor), atol=1e-11)
        assert 0.0 <= ascent.beta.min() <= ascent.beta.max() <= 1.0
    assert max(gains) > 0.0


def test_an_extrapolation_step_with_a_free_intercept_raises_what_the_steps_raise():
    X, y = make_data(300, 8, seed=6)
    problem = dualgap.Problem(X, y, l2=1e-4, intercept="free")
    solver, rng = DCA(), np.random.default_rng(0)
    state = solver.start(problem, rng)
    ascent, gains = state.ascent, []

    def raised():
        balance = np.sum(problem.c * y * ascent.beta)
        return problem.c @ ascent.beta - 0.5 * problem.l2 * ascent.v @ ascent.v - ascent.bias.centre * balance

    for _ in range(30):
        before, v = ascent.beta.copy(), ascent.v.copy()
        for _ in range(3):
            solver._sweep(problem, state, rng)
        value = raised()
        slope_of_centre = ascent.bias.centre * problem.l2 / ascent.bias.scale
        gains.append(
            extrapolate(ascent.rows, problem.loss, ascent.coords, ascent.beta, ascent.v, problem.l2, slope_of_centre, before, v)
        )
        assert raised() - value == pytest.approx(gains[-1], abs=1e-13)
    assert max(gains) > 0.0


def test_blocks_are_shuffled_whole():
    order = np.arange(100, dtype=np.uint32)
    shuffle_blocks(order, 16, 7)
    assert sorted(order) == list(range(100))
    blocks = order[:96].reshape(6, 16)
    assert (np.diff(blocks.astype(int), axis=1) == 1).all()
    assert (order[96:] == [96, 97, 98, 99]).all()
    assert (blocks[:, 0] != np.arange(0, 96, 16)).any()


@pytest.mark.parametrize("options", [{}, {"intercept": "free"}, {"l1": 0.01}, {"loss": "squared_hinge"}, {"loss": "logistic"}])
def test_reaches_what_sdca_reaches(options):
    X, y = make_data(150, 5, seed=3)
    problem = dualgap.Problem(X, y, l2=0.02, **options)
    fast, plain = (dualgap.solve(problem, name, tol=1e-7, max_epochs=20_000) for name in ("dca", "sdca"))
    assert fast.converged
    assert plain.converged
    assert fast.certificate.primal == pytest.approx(plain.certificate.primal, rel=3e-7)


def test_empty_rows_and_zero_weights_do_no_harm():
    X, y = make_data(100, 4, seed=4)
    X[10:20] = 0.0
    weights = np.ones(100)
    weights[20:30] = 0.0
    result = dualgap.solve(
        dualgap.Problem(sparse.csr_array(X), y, l2=0.01, sample_weight=weights), "dca", tol=1e-7, max_epochs=10_000
    )
    assert result.converged


def test_a_warm_start_is_certified_at_once():
    X, y = make_data(200, 5, seed=5)
    problem = dualgap.Problem(X, y, l2=0.01)
    first = dualgap.solve(problem, "dca", tol=1e-6, max_epochs=10_000)
    again = dualgap.solve(problem, "dca", tol=1e-6, warm_start=first)
    assert again.epochs <= 2


def test_a_free_intercept_is_not_thrown_off_its_way():
    # Few rows and a small l2: slow drifts, on which an extrapolation step that left b out of D would move it back and forth for ever.
    X, y = make_data(20, 5, seed=7)
    for seed in range(3):
        problem = dualgap.Problem(X, y, l2=1.5e-4, intercept="free")
        assert dualgap.solve(problem, "dca", tol=1e-8, max_epochs=3000, seed=seed).converged


@pytest.mark.parametrize("loss", ["hinge", "smooth_hinge"])
def test_an_interrupted_sweep_leaves_no_scores_of_another_model(monkeypatch, loss):
    # A Ctrl-C that comes while compiled code runs is raised when that returns: v has moved, and nothing after the call is done.
    X, y = make_data(500, 20, seed=3)
    problem = dualgap.Problem(X, y, l2=1e-2, loss=loss)
    dualgap.solve(problem, "dca", tol=0.5)
    whole = dca.sweep
    for stop in range(5, 40, 3):
        calls = []

        def sweep(*arguments, calls=calls, stop=stop):
            sums = whole(*arguments)
            calls.append(1)
            if len(calls) == stop:
                raise KeyboardInterrupt
            return sums

        monkeypatch.setattr(dca, "sweep", sweep)
        result = dualgap.solve(problem, "dca", tol=0.0, max_epochs=300)
        assert result.status == "interrupted"
        assert result.certificate.primal == pytest.approx(problem.objective(result.coef), rel=1e-12)


def test_extrapolation_does_not_keep_a_badly_scaled_problem_from_its_optimum():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((217, 261)) * 10 ** rng.uniform(-2, 2, 261)
    y = np.where(X @ rng.standard_normal(261) > 0, 1, -1)
    assert dualgap.solve(dualgap.Problem(X, y, l2=0.03), "dca", tol=1e-8, max_epochs=2000).converged
