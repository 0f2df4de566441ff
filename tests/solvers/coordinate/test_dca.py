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
from dualgap.solvers.coordinate.extrapolation import Extrapolation, Point


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
def test_shrinks_and_checks_all_rows_again(monkeypatch, loss, intercept):
    X, y = make_data(400, 6, seed=1)
    problem = dualgap.Problem(X, y, l2=1e-2, l1=0.0, loss=loss, intercept=intercept)
    solver, rng = DCA(), np.random.default_rng(0)
    state = solver.start(problem, rng)
    counts, full_passes, seen, full_pass = [], 0, [], DCA._full_pass
    monkeypatch.setattr(DCA, "_full_pass", lambda *given: seen.append(1) or full_pass(*given))
    for _ in range(100):
        counts.append(state.active)
        seen.clear()
        solver._sweep(problem, state, rng)
        if not seen:
            continue
        full_passes += 1
        ascent, b = state.ascent, solver.intercept(problem, state)
        margins = y * (X @ ascent.v[:6] + b)
        slope = 1.0 - margins - (ascent.beta if loss == "smooth_hinge" else 0.0)
        rests = ((ascent.beta == 0) & (slope < 0)) | ((ascent.beta == 1) & (slope > 0))
        rests &= np.abs(slope) > state.bound
        np.testing.assert_array_equal(state.order[: state.active], np.flatnonzero(~rests))
        if intercept != "free":
            primal = problem.objective(ascent.v[:6], b)
            gap = (primal - lower_bound(problem, ascent.beta)) / primal
            assert solver.gap_estimate(problem, state) == pytest.approx(gap, rel=1e-6, abs=1e-11)
    assert min(counts) < 200
    assert full_passes > 1


@pytest.mark.parametrize("intercept", ["none", "penalised"])
def test_gap_of_a_sample_is_near_that_of_all_rows(intercept):
    """The logistic loss has no sums in its sweeps: the estimate is above the exact gap on average, and not by much."""
    X, y = make_data(20_000, 8, seed=1)
    problem = dualgap.Problem(X, y, l2=1e-2, loss="logistic", intercept=intercept)
    solver, rng = DCA(), np.random.default_rng(0)
    state, ratios = solver.start(problem, rng), []
    for _ in range(6):
        solver.epoch(problem, state, rng)
        primal = problem.objective(state.ascent.v[:8], solver.intercept(problem, state))
        ratios.append(solver.gap_estimate(problem, state) * primal / (primal - lower_bound(problem, state.ascent.beta)))
    assert min(ratios) > 0.7
    assert max(ratios) < 2.0
    assert np.mean(ratios) > 1.0


def test_a_sample_that_misses_the_largest_gaps_is_checked():
    """A few rows are a thousand times as long as the others, and make most of the gap: after one wrong estimate no other one counts."""
    X, y = make_data(4000, 6, seed=0)
    X[::500] *= 1000.0
    problem = dualgap.Problem(X, y, l2=1e2, loss="logistic")
    solver, rng = DCA(), np.random.default_rng(0)
    state, small = solver.start(problem, rng), 0
    state.tol = 1e-4
    for _ in range(20):
        solver.epoch(problem, state, rng)
        if state.checked and state.gap <= state.tol:
            primal = problem.objective(state.ascent.v[:6], 0.0)
            exact = (primal - lower_bound(problem, state.ascent.beta)) / primal
            assert state.gap == pytest.approx(exact, rel=1e-3, abs=1e-10)
            small += 1
    assert small > 0


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
    """The last pass over all rows is at the model that is certified: its scores are computed once."""
    X, y = make_data(400, 6, seed=1)
    problem = dualgap.Problem(X, y, l2=1e-2)
    dualgap.solve(problem, "dca", tol=0.5)  # compiled
    asked, products = [], dualgap.Problem.bounded_products
    monkeypatch.setattr(dualgap.Problem, "bounded_products", lambda self, w: asked.append(w.copy()) or products(self, w))
    result = dualgap.solve(problem, "dca", tol=1e-6, max_epochs=1000)
    assert result.status == "converged"
    assert sum(np.array_equal(w, result.coef) for w in asked) == 1


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


def sweeps_between_extrapolations(problem, rounds):
    """Yield a state after three sweeps each, and the Extrapolation whose step is due; the solver's own are left out."""
    solver, rng = DCA(), np.random.default_rng(0)
    state = solver.start(problem, rng)
    own = Extrapolation()
    own.count(problem, state.ascent, state.order[: problem.n])
    for _ in range(rounds):
        for _ in range(3):
            state.extrapolation.restart()
            solver._sweep(problem, state, rng)
        yield state.ascent, own


def raised_by_steps(problem, ascent):
    """Return D with the column and the centre that the steps have at present."""
    value, bias = lower_bound(problem.replace(intercept="none"), ascent.beta), ascent.bias
    return value - bias.width * problem.l2 * ascent.v[-1] * (0.5 * ascent.v[-1] + bias.centre / bias.scale)


@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_an_extrapolation_step_keeps_v_in_step_and_never_lowers_the_dual(intercept, loss):
    X, y = make_data(400, 8, seed=6)
    problem = dualgap.Problem(X, y, l2=1e-4, intercept=intercept, loss=loss)
    gains = []
    for ascent, own in sweeps_between_extrapolations(problem, 30):
        value = raised_by_steps(problem, ascent)
        gains.append(own.step(problem, ascent))
        assert raised_by_steps(problem, ascent) - value == pytest.approx(gains[-1], abs=1e-9)
        for beta, v in ((ascent.beta, ascent.v), *own.points):
            np.testing.assert_allclose(v[:8], problem.combine(beta * ascent.coords.factor), atol=1e-10)
        np.testing.assert_array_equal(own.points[0].beta, ascent.beta)
        assert ascent.beta.min() >= problem.loss.lower_bound()
        assert ascent.beta.max() <= problem.loss.upper_bound()
    assert max(gains) > 0.0


def test_an_extrapolation_step_finds_the_best_point_of_the_plane():
    """Compare with a least-squares solution in the plane, where no variable meets a bound."""
    rng = np.random.default_rng(2)
    X = np.eye(6) + 0.05 * rng.standard_normal((6, 6))
    problem = dualgap.Problem(X, [1, -1, 1, -1, 1, -1], l2=0.5 / 6)  # the optimum is near β = ½
    ascent = DCA().start(problem, rng).ascent
    last, before = (0.5 + 0.01 * rng.standard_normal(6) for _ in range(2))
    ascent.beta[:] = 0.5 + 0.01 * rng.standard_normal(6)
    factor, beta = ascent.coords.factor, ascent.beta.copy()
    ascent.rebuild()
    own = Extrapolation()
    own.which = np.arange(6)
    own.points = tuple(Point(point.copy(), problem.combine(point * factor)) for point in (last, before))
    own.step(problem, ascent)

    moves = np.stack([beta - last, last - before], axis=1)
    w = (X.T * factor) @ moves  # what a unit of each move adds to v
    rise = problem.c @ moves - problem.l2 * problem.combine(beta * factor) @ w
    best = beta + moves @ np.linalg.solve(problem.l2 * w.T @ w, rise)
    assert 0.0 < best.min() < best.max() < 1.0
    np.testing.assert_allclose(ascent.beta, best, atol=1e-9)


def test_an_extrapolation_step_with_a_free_intercept_raises_what_the_steps_raise():
    X, y = make_data(300, 8, seed=6)
    problem = dualgap.Problem(X, y, l2=1e-4, intercept="free")
    gains = []

    def raised(ascent):
        balance = np.sum(problem.c * y * ascent.beta)
        return problem.c @ ascent.beta - 0.5 * problem.l2 * ascent.v @ ascent.v - ascent.bias.centre * balance

    for ascent, own in sweeps_between_extrapolations(problem, 30):
        value = raised(ascent)
        gains.append(own.step(problem, ascent))
        assert raised(ascent) - value == pytest.approx(gains[-1], abs=1e-13)
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
