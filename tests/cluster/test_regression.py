"""Regressions in rounds: partitions in this process, a store by Newton's method, and a Dask cluster."""

import numpy as np
import pytest
from scipy import sparse

import dualgap
from dualgap import LinearSVR
from dualgap.cluster import InProcess, Partition, make_objective, run_rounds, train
from dualgap.store import write_store

LOSSES = {
    "squared_error": {},
    "huber": {"delta": 2.0},
    "epsilon_insensitive": {"epsilon": 0.5},
    "quantile": {"quantile": 0.8},
}


def made_data(n=600):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6))
    return X, X @ rng.normal(size=6) * 5.0 + 30.0 + rng.normal(size=n), rng.uniform(0.5, 2.0, n)


@pytest.mark.parametrize("intercept", ["free", "penalised", "none"])
@pytest.mark.parametrize("loss", LOSSES)
def test_rounds_reach_the_optimum(loss, intercept):
    X, y, weights = made_data()
    exact = dualgap.solve(
        dualgap.Problem(X, y, loss, l2=0.01, sample_weight=weights, intercept=intercept, **LOSSES[loss]), tol=1e-8
    )
    for solver, rows in (("newton", X), ("cocoa", X), ("newton", sparse.csr_matrix(X))):
        pool = InProcess([Partition(rows[k::3], y[k::3], weights[k::3]) for k in range(3)])
        objective, classes = make_objective(pool, loss, l2=0.01, intercept=intercept, **LOSSES[loss])
        found = run_rounds(pool, objective, classes, tol=1e-3, solver=solver, local_epochs=3)
        assert found.status == "converged"
        assert found.certificate.dual <= exact.certificate.primal * (1 + 1e-9)
        assert exact.certificate.dual * (1 - 1e-9) <= found.certificate.primal <= 1.0011 * exact.certificate.primal
        assert np.allclose(found.predict(X), X @ found.coef + found.intercept)


def test_a_lost_partition():
    X, y, _ = made_data()
    pool = InProcess([Partition(X[k::3], y[k::3]) for k in range(3)])
    objective, classes = make_objective(pool, "huber", l2=0.01, intercept="free")
    rounds = []

    def lose(progress):
        rounds.append(progress)
        if len(rounds) == 2:
            pool.lose(1)

    found = run_rounds(pool, objective, classes, tol=1e-3, callbacks=[lose], solver="cocoa", local_epochs=2)
    assert found.status == "converged"
    assert found.losses


def test_newton_on_a_store(tmp_path):
    X, y, _ = made_data()
    store = write_store([(X, y)], tmp_path / "s", task="regression", block_bytes=8000)
    for loss, options in LOSSES.items():
        settings = {"loss": loss, "random_state": 0, **options}
        model = LinearSVR(solver="newton", tol=1e-4, **settings).fit(store)
        exact = LinearSVR(tol=1e-7, **settings).fit(X, y)
        assert model.status_ == "converged"
        assert model.objective_ == pytest.approx(exact.objective_, rel=1.1e-4)
        assert np.count_nonzero(model.dual_coef_) == model.n_support_[0]


def test_words_and_options():
    X, _, _ = made_data(60)
    pool = InProcess([Partition(X, np.array(["a", "b"] * 30))])
    with pytest.raises(ValueError, match="a regression needs numbers as targets"):
        make_objective(pool, "huber", l2=0.1)


def test_on_a_dask_cluster(client):
    array = pytest.importorskip("dask.array")
    X, y, _ = made_data()
    rows, targets = array.from_array(X, chunks=(150, -1)), array.from_array(y, chunks=150)
    model = dualgap.dask.LinearSVR(epsilon=0.5, tol=1e-3, random_state=0).fit(rows, targets)
    alone = LinearSVR(epsilon=0.5, tol=1e-6, random_state=0).fit(X, y)
    assert model.status_ == "converged"
    assert model.objective_ <= 1.0011 * alone.objective_
    assert model.coef_.shape == (6,)
    assert np.abs(model.predict(X) - alone.predict(X)).mean() < 0.5
    np.testing.assert_allclose(model.predict(rows).compute(), model.predict(X), rtol=1e-12)
    weights = array.from_array(np.arange(len(y)) % 3.0, chunks=150)
    assert model.score(rows, targets, weights) == pytest.approx(model.to_local().score(X, y, weights.compute()))
    found = train(rows, targets, loss="epsilon_insensitive", epsilon=0.5, l2=1 / len(y), intercept="free", tol=1e-3, client=client)
    assert found.certificate.primal <= 1.0011 * alone.objective_
    assert found.predict(X).shape == (len(y),)
