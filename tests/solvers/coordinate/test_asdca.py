"""ASDCA: the sparse form against the algorithm as printed, θ, weights, and the multiplier that adapts."""

import numpy as np
import pytest
from scipy import sparse

import dualgap
from conftest import make_data
from dualgap.solvers.coordinate.asdca import TINY, proved_theta
from reference import REFERENCE_LOSSES, Model, dual_value

EPOCHS = 30


class Eager:
    """The algorithm as printed, with whole vectors v, w and z; the bias is a column of X."""

    def __init__(self, problem, X, loss):
        scale = problem.intercept_scale
        self.X = np.hstack([X, np.full((len(X), 1), scale)]) if problem.intercept == "penalised" else X
        self.y, self.c, self.l2, self.loss = problem.y, problem.c, problem.l2, loss
        self.beta, self.v, self.w = np.zeros(len(X)), np.zeros(self.X.shape[1]), np.zeros(self.X.shape[1])
        self.seen = []  # w and β after each batch

    def epoch(self, order, theta, batch):
        for first in range(0, len(order), batch):
            rows = order[first : first + batch]
            z = (1 - theta) * self.w + theta * self.v
            new = (1 - theta) * self.beta[rows] + theta * self.loss.slope(self.y[rows] * (self.X[rows] @ z))
            self.v = self.v + self.X[rows].T @ (self.c[rows] * (new - self.beta[rows]) * self.y[rows]) / self.l2
            self.beta[rows] = new
            self.w = (1 - theta) * self.w + theta * self.v
            self.seen.append((self.w, self.beta.copy()))


@pytest.mark.parametrize(("batch", "l2"), [(1, 0.5), (7, 0.02), (60, 2.0)])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_lazy_equals_eager(sparse_like, storage, batch, l2):
    X, y = sparse_like
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    problem = dualgap.Problem(
        storage(X), y, loss="smooth_hinge", delta=0.5, l2=l2, sample_weight=weights, intercept="penalised", intercept_scale=0.7
    )
    solver = dualgap.ASDCA(batch_size=batch, adaptive=False)
    rng = np.random.default_rng(1)
    state = solver.start(problem, rng)
    twin = Eager(problem, X, REFERENCE_LOSSES["smooth_hinge"])
    renormalised = 0
    for _ in range(EPOCHS):
        before = state.iterate.s[0]
        solver.epoch(problem, state, rng)
        renormalised += state.iterate.s[0] > before
        twin.epoch(state.order.astype(int), state.theta, batch)
    coef, intercept = solver.model(problem, state)
    np.testing.assert_allclose(np.append(coef, intercept / 0.7), twin.w, rtol=0, atol=1e-9 * np.abs(twin.w).max())
    np.testing.assert_allclose(state.iterate.v, twin.v, rtol=0, atol=1e-9 * np.abs(twin.v).max())
    np.testing.assert_allclose(solver.dual(problem, state), twin.beta, rtol=0, atol=1e-9)
    assert (renormalised > 0) == (EPOCHS * -(-len(y) // batch) * np.log(1 - state.theta) < np.log(TINY))


@pytest.mark.parametrize(("batch", "l2", "adaptive"), [(1, 0.5, False), (7, 0.02, False), (60, 2.0, True), (1, 50.0, True)])
def test_average_is_that_of_the_second_half(sparse_like, batch, l2, adaptive):
    X, y = sparse_like
    problem = dualgap.Problem(sparse.csr_array(X), y, loss="smooth_hinge", delta=0.5, l2=l2, intercept="penalised")
    solver = dualgap.ASDCA(batch_size=batch, adaptive=adaptive, output="average")
    rng = np.random.default_rng(1)
    state = solver.start(problem, rng)
    twin = Eager(problem, X, REFERENCE_LOSSES["smooth_hinge"])
    ends = [0]
    for epoch in range(1, EPOCHS + 1):
        theta = min(1.0, state.multiplier * state.theta)
        solver.epoch(problem, state, rng)
        twin.epoch(state.order.astype(int), theta, batch)
        ends.append(len(twin.seen))
        w, beta = (np.mean(part, axis=0) for part in zip(*twin.seen[ends[epoch // 2] :], strict=True))
        coef, intercept = solver.model(problem, state)
        np.testing.assert_allclose(np.append(coef, intercept), w, rtol=0, atol=1e-9 * np.abs(w).max())
        np.testing.assert_allclose(solver.dual(problem, state), beta, rtol=0, atol=1e-9)
    assert state.multiplier == (4.0 if adaptive else 1.0)  # no epoch was undone: another test has such


def test_average_leaves_out_what_was_undone():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 8)) + 3.0
    y = np.where(rng.random(100) < 0.5, 1.0, -1.0)
    problem = dualgap.Problem(X, y, loss="smooth_hinge", delta=0.1, l2=1e-3)
    solver, rng = dualgap.ASDCA(batch_size=10, output="average"), np.random.default_rng(1)
    state = solver.start(problem, rng)
    for _ in range(30):
        before = state.multiplier
        counted = state.sums.now[0]
        solver.epoch(problem, state, rng)
        assert state.sums.now[0] == counted + (10 if state.multiplier == before else 0)
        assert (solver.dual(problem, state) <= 1.0 + 1e-12).all()
    assert state.multiplier == 1.0


def test_some_case_renormalises(sparse_like):
    """The comparison above means little unless s was put back to scale in it: with θ = 1/4 it is, every 2000 batches."""
    X, y = sparse_like
    problem = dualgap.Problem(X, y, loss="smooth_hinge", delta=0.5, l2=0.5)
    assert EPOCHS * len(y) * np.log(1 - proved_theta(problem, 1)) < np.log(TINY)


def test_theta_one_is_the_dual_model(sparse_like):
    X, y = sparse_like
    problem = dualgap.Problem(X, y, loss="smooth_hinge", delta=0.5, l2=50.0)
    solver, rng = dualgap.ASDCA(batch_size=1), np.random.default_rng(0)
    state = solver.start(problem, rng)
    twin = Eager(problem, X, REFERENCE_LOSSES["smooth_hinge"])
    assert state.multiplier * state.theta == 1.0
    for _ in range(3):
        solver.epoch(problem, state, rng)
        twin.epoch(state.order.astype(int), 1.0, 1)
    assert state.multiplier == 4.0
    np.testing.assert_allclose(solver.model(problem, state)[0], twin.w, rtol=1e-9)


def test_theta_follows_its_formula(small):
    X, y = small
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    problem = dualgap.Problem(X, y, loss="logistic", l2=0.01, sample_weight=weights)
    longest = max(len(y) * w / weights.sum() * (x @ x) for w, x in zip(weights, X, strict=True))
    s = 4 * 0.01 * len(y) / longest
    for m in (1, 5, 60):
        expected = 0.25 * min(1, np.sqrt(s / m), s, s ** (2 / 3) / m ** (1 / 3))
        assert proved_theta(problem, m) == pytest.approx(expected, rel=1e-12)


def test_a_weight_of_two_is_a_row_twice():
    X, y = make_data(20, 3)
    twice = dualgap.Problem(np.vstack([X, X[:5]]), np.append(y, y[:5]), loss="logistic", l2=0.1)
    weighted = dualgap.Problem(X, y, loss="logistic", l2=0.1, sample_weight=[2.0] * 5 + [1.0] * 15)
    results = [dualgap.solve(p, "asdca", tol=1e-10, max_epochs=2000) for p in (twice, weighted)]
    np.testing.assert_allclose(results[0].coef, results[1].coef, rtol=1e-4)
    assert results[0].certificate.primal == pytest.approx(results[1].certificate.primal, rel=1e-9)


def test_a_fall_of_the_dual_is_undone_and_halves_the_multiplier():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 8)) + 3.0  # one long common direction: four times θ overshoots
    y = np.where(rng.random(100) < 0.5, 1.0, -1.0)
    problem = dualgap.Problem(X, y, loss="smooth_hinge", delta=0.1, l2=1e-3)
    solver, rng = dualgap.ASDCA(batch_size=10), np.random.default_rng(1)
    state = solver.start(problem, rng)
    model = Model(X, y, problem.c, REFERENCE_LOSSES["smooth_hinge"], problem.l2)
    model = Model(X, y, problem.c, model.loss._replace(psi=lambda b: b - 0.05 * b**2), problem.l2)
    multipliers, values = [state.multiplier], [0.0]
    for _ in range(30):
        guarded = state.multiplier > 1.0
        solver.epoch(problem, state, rng)
        multipliers.append(state.multiplier)
        values.append(dual_value(model, solver.dual(problem, state)))
        if guarded:
            assert values[-1] >= values[-2] - 1e-12
            if multipliers[-1] < multipliers[-2]:
                assert values[-1] == values[-2]
                assert multipliers[-1] == multipliers[-2] / 2
    assert multipliers[0] == 4.0
    assert multipliers[-1] == 1.0
    assert state.passes == 30.0 + 2.0  # epochs undone are paid for, and so are the two passes that rebuilt w


def test_runs_repeat_and_sampling_is_without_replacement(small):
    X, y = small
    problem = dualgap.Problem(X, y, loss="logistic", l2=0.1)
    solver = dualgap.ASDCA(batch_size=20, sampling="random")
    first, second = (dualgap.solve(problem, solver, tol=1e-6, max_epochs=500, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.coef, second.coef)
    rng = np.random.default_rng(0)
    state = solver.start(problem, rng)
    solver.epoch(problem, state, rng)
    batches = state.order.reshape(3, 20)
    assert all(len(set(batch)) == 20 for batch in batches)
    assert len(set(state.order)) < 60  # but anew for each batch


def test_warm_start_goes_on(small):
    X, y = small
    problem = dualgap.Problem(X, y, loss="logistic", l2=0.1)
    first = dualgap.solve(problem, "asdca", tol=1e-6, max_epochs=500)
    again = dualgap.solve(problem, "asdca", tol=1e-5, max_epochs=500, warm_start=first)
    assert again.epochs <= 2 < first.epochs


@pytest.mark.parametrize("bad", [{"batch_size": 0}, {"batch_size": 1.5}, {"sampling": "bag"}])
def test_parameters_are_checked(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        dualgap.ASDCA(**bad)
