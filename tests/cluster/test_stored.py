"""Newton's method on a store: the same optimum as in memory, in as many readings as it has steps."""

import numpy as np
import pytest
from scipy import sparse

import dualgap
from dualgap.store import write_store


def sample(kind, n=3000, d=12):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1, 1, d)
    if kind == "sparse":
        X = sparse.csr_matrix(np.where(rng.random((n, d)) < 0.4, X, 0.0))
    y = np.where(X @ rng.normal(size=d) + 3.0 * rng.normal(size=n) > 1.0, "b", "a")
    return X, y


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "log_loss"])
def test_same_optimum_in_few_readings(tmp_path, kind, loss):
    X, y = sample(kind)
    store = write_store([(X[k::3], y[k::3]) for k in range(3)], tmp_path / "store", block_bytes=30_000)
    assert len(store.parts) == 3
    readings = 0
    stream = type(store).stream

    def counted(self, order=None):
        nonlocal readings
        readings += 1
        return stream(self, order)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(store), "stream", counted)
        model = dualgap.LinearSVC(loss=loss, C=0.1, tol=1e-6, class_weight="balanced", random_state=0).fit(store)
    alone = dualgap.LinearSVC(loss=loss, C=0.1, tol=1e-8, class_weight="balanced", random_state=0).fit(X, y)
    assert model.status_ == "converged"
    assert model.objective_ == pytest.approx(alone.objective_, rel=2e-6)
    assert model.objective_ - model.dual_gap_ <= alone.objective_
    assert readings <= model.n_iter_ + 12  # one for each step, and certificates
    assert model.n_iter_ <= (80 if loss == "hinge" else 20)


def test_a_warm_start_begins_where_the_last_fit_ended(tmp_path):
    X, y = sample("dense")
    store = write_store([(X, y)], tmp_path / "store", block_bytes=100_000)
    model = dualgap.LinearSVC(C=0.1, tol=1e-6, warm_start=True).fit(store)
    first = model.n_iter_
    model.fit(store)
    assert model.status_ == "converged"
    assert model.n_iter_ < first


def test_bounds_on_coefficients_are_kept(tmp_path):
    """Newton's method takes no bounds: such a fit is left to the solver of blocks."""
    X, y = sample("dense", n=600, d=5)
    store = write_store([(X, y)], tmp_path / "store")
    model = dualgap.LinearSVC(C=0.01, tol=1e-2, bounds=(0.0, None), random_state=0).fit(store)
    assert model.coef_.min() >= 0.0
