"""LinearSVR and SVR: against scikit-learn's on ten data sets, several targets, weights, bounds of the exact predictions, refusals."""

import pickle

import numpy as np
import pytest
import sklearn.svm
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_iris,
    load_linnerud,
    make_friedman1,
    make_friedman2,
    make_friedman3,
    make_regression,
    make_sparse_uncorrelated,
)
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import r2_score
from sklearn.preprocessing import scale

import dualgap
from dualgap import SVR, LinearSVR
from dualgap.proof import ProofError

TOL = 1e-6


def _sparse_rows():
    rng = np.random.default_rng(3)
    X = sparse.random(300, 400, 0.03, format="csr", random_state=0)
    return X, X @ rng.normal(size=400) + 0.1 * rng.normal(size=300)


def _from_rest(X, j):
    """Predict column j of a table from the others."""
    X = scale(X)
    return np.delete(X, j, axis=1), X[:, j]


SETS = {
    "diabetes": lambda: (scale(load_diabetes().data), load_diabetes().target / 10),
    "linnerud": lambda: (scale(load_linnerud().data), load_linnerud().target[:, 0] / 10),
    "friedman1": lambda: make_friedman1(300, noise=1.0, random_state=0),
    "friedman2": lambda: (lambda X, y: (scale(X), y / 100))(*make_friedman2(300, noise=10.0, random_state=0)),
    "friedman3": lambda: (lambda X, y: (scale(X), y))(*make_friedman3(300, noise=0.1, random_state=0)),
    "linear": lambda: (lambda X, y: (X, y / 50))(*make_regression(300, 20, noise=20.0, random_state=0)),
    "uncorrelated": lambda: make_sparse_uncorrelated(200, 12, random_state=0),
    "sparse": _sparse_rows,
    "iris": lambda: _from_rest(load_iris().data, 3),
    "cancer": lambda: _from_rest(load_breast_cancer().data[:300], 0),
}


def penalised_objective(coef, b, X, y, loss, C, epsilon):
    """scikit-learn's: LIBLINEAR's intercept is a coefficient, and is penalised."""
    excess = np.maximum(np.abs(X @ coef + b - y) - epsilon, 0.0)
    return 0.5 * (coef @ coef + b * b) + C * np.sum(excess**2 if loss.startswith("squared") else excess)


@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("name", SETS)
def test_linear_objective_is_not_above_scikit_learns(name, loss):
    X, y = SETS[name]()
    settings = {"C": 0.5, "epsilon": 0.1, "loss": loss, "random_state": 0}
    ours = LinearSVR(intercept="penalised", tol=TOL, **settings).fit(X, y)
    theirs = sklearn.svm.LinearSVR(tol=1e-8, max_iter=20_000, **settings).fit(X, y)
    assert ours.status_ == "converged"
    own, other = (penalised_objective(m.coef_, m.intercept_[0], X, y, loss, 0.5, 0.1) for m in (ours, theirs))
    assert own <= other * (1 + TOL)
    assert ours.objective_ == pytest.approx(own / (0.5 * len(y)), rel=1e-9)
    assert ours.objective_ - ours.dual_gap_ <= other / (0.5 * len(y)) * (1 + 1e-12)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=0.02 * np.std(y))


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("name", SETS)
def test_kernel_objective_is_not_above_scikit_learns(name, kernel):
    X, y = SETS[name]()
    settings = {"kernel": kernel, "C": 2.0, "gamma": 0.05, "coef0": 1.0, "epsilon": 0.1}
    ours, theirs = SVR(tol=TOL, **settings).fit(X, y), sklearn.svm.SVR(tol=1e-6, **settings).fit(X, y)
    assert ours.status_ == "converged"
    problem = dualgap.Problem(
        X, y, "epsilon_insensitive", l2=1 / (2.0 * len(y)), intercept="free", kernel=kernel, gamma=0.05, coef0=1.0
    )
    other = np.zeros(len(y))
    other[theirs.support_] = np.ravel(theirs.dual_coef_.toarray() if sparse.issparse(theirs.dual_coef_) else theirs.dual_coef_)
    assert ours.objective_ <= problem.objective(other, theirs.intercept_[0]) * (1 + TOL)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=0.02 * np.std(y))
    assert ours.score(X, y) == pytest.approx(r2_score(y, ours.predict(X)))


def table(seed=0, n=120, d=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=(d, 3)) + rng.standard_t(3, size=(n, 3)) * 0.3 + [5.0, -2.0, 0.0]


@pytest.mark.parametrize("make", [lambda: LinearSVR(tol=1e-9), lambda: SVR(tol=1e-9), lambda: SVR(kernel="linear", tol=1e-9)])
def test_several_targets_are_the_targets_one_by_one(make):
    X, Y = table()
    model = make().fit(X, Y)
    assert len(model.certificate_) == 3
    assert model.predict(X).shape == Y.shape == model.prediction_bounds(X)[0].shape == model.proof_.support().shape
    for j in range(3):
        one = make().fit(X, Y[:, j])
        np.testing.assert_allclose(model.predict(X)[:, j], one.predict(X), atol=1e-3)
        assert one.predict(X).shape == (len(X),)
        assert model.objective_[j] == pytest.approx(one.objective_, rel=1e-8)
    low, high = model.prediction_bounds(X)
    assert (low <= high).all()
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
        column = make().fit(X, Y[:, :1])
    assert column.predict(X).shape == (len(X),)
    assert np.array_equal(column.predict(X), make().fit(X, Y[:, 0]).predict(X))


def test_free_intercept_makes_a_shift_of_the_targets_a_shift_of_the_model():
    X, Y = table()
    for make in (lambda: LinearSVR(epsilon=0.1, tol=1e-10), lambda: SVR(tol=1e-10)):
        here, there = make().fit(X, Y[:, 0]), make().fit(X, Y[:, 0] + 1000.0)
        np.testing.assert_allclose(there.predict(X) - 1000.0, here.predict(X), atol=1e-3)


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": 0.2},
        {"loss": "squared_epsilon_insensitive", "epsilon": 0.2},
        {"loss": "huber", "delta": 0.5},
        {"loss": "absolute"},
        {"loss": "quantile", "quantile": 0.8},
        {"loss": "squared_error"},
    ],
    ids=lambda s: s.get("loss", "epsilon_insensitive"),
)
@pytest.mark.parametrize("make", [LinearSVR, SVR], ids=["linear", "rbf"])
def test_bounds_hold_the_predictions_of_a_much_more_exact_model(make, settings):
    X, Y = table()
    new = table(seed=1)[0]
    rough = make(tol=1e-3, **settings).fit(X[:, :5], Y[:, 0])
    exact = make(tol=2e-12, max_iter=5000, **settings).fit(X[:, :5], Y[:, 0])
    for rows in (X[:, :5], new[:, :5]):
        low, high = rough.prediction_bounds(rows)
        far = 1e-5 * (1 + np.abs(exact.predict(rows)))  # the exact one is known to its own tolerance
        assert (low - far <= exact.predict(rows)).all()
        assert (exact.predict(rows) <= high + far).all()
    assert np.isfinite(low).all()
    # what the rough one is sure of is true of the exact one
    beta = np.zeros(len(X))
    beta[exact.support_] = np.ravel(exact.dual_coef_) / exact.C
    loss, status = exact._loss(), rough.proof_.support()
    assert (np.abs(beta[status == "out"]) < 1e-3).all()
    at_bound = np.minimum(np.abs(beta - loss.high), np.abs(beta + loss.low))
    assert (at_bound[status == "bound"] < 1e-3).all()
    again = pickle.loads(pickle.dumps(rough))
    np.testing.assert_array_equal(again.prediction_bounds(new[:, :5]), rough.prediction_bounds(new[:, :5]))


def test_quantiles_are_quantiles():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = X @ [1.0, -1.0] + rng.exponential(size=2000)
    for q in (0.1, 0.5, 0.9):
        model = LinearSVR(loss="quantile", quantile=q, C=10.0, tol=1e-6).fit(X, y)
        assert np.mean(y <= model.predict(X) + 1e-9) == pytest.approx(q, abs=0.01)


@pytest.mark.parametrize("make", [lambda: LinearSVR(tol=1e-9), lambda: SVR(tol=1e-9, gamma=0.1)])
def test_weight_two_is_a_row_twice(make):
    X, Y = table(n=60)
    y, twice = Y[:, 0], np.arange(60) % 3 == 0
    weighted = make().fit(X, y, sample_weight=np.where(twice, 2.0, 1.0))
    repeated = make().fit(np.vstack([X, X[twice]]), np.concatenate([y, y[twice]]))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-3)


def test_storages_agree():
    X, Y = table()
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    for make in (lambda: LinearSVR(epsilon=0.1, tol=1e-9), lambda: SVR(tol=1e-9)):
        dense = make().fit(X, Y[:, 0]).predict(X)
        np.testing.assert_allclose(make().fit(sparse.csr_array(X), Y[:, 0]).predict(X), dense, atol=1e-3)
        np.testing.assert_allclose(make().fit(X.astype(np.float32), Y[:, 0]).predict(X.astype(np.float32)), dense, atol=1e-3)


def test_kernels_of_any_kind_agree():
    X, Y = table()
    y, K = Y[:, 0], np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(axis=2))
    named = SVR(gamma=0.1, tol=1e-9).fit(X, y)
    matrix = SVR(kernel="precomputed", tol=1e-9).fit(K, y)
    function = SVR(kernel=lambda A, B: np.exp(-0.1 * ((A[:, None] - B) ** 2).sum(axis=2)), tol=1e-9).fit(X, y)
    np.testing.assert_allclose(matrix.predict(K), named.predict(X), atol=1e-4)
    np.testing.assert_allclose(function.predict(X), named.predict(X), atol=1e-4)
    low, high = matrix.prediction_bounds(K, np.ones(len(K)))
    assert (low <= named.predict(X) + 1e-4).all()
    assert (named.predict(X) - 1e-4 <= high).all()
    with pytest.raises(ProofError, match="function as kernel"):
        function.prediction_bounds(X)


def test_indefinite_kernel_is_clipped_and_certified():
    X, Y = table()
    with pytest.raises(dualgap.CertificateError, match="not positive semidefinite"):
        SVR(kernel="sigmoid", gamma=1.0, coef0=-2.0).fit(X, Y[:, 0])
    model = SVR(kernel="sigmoid", gamma=1.0, coef0=-2.0, indefinite="clip").fit(X, Y[:, 0])
    assert (model.status_, model.indefinite_.treatment) == ("converged", "clip")
    low, high = model.prediction_bounds(X)
    assert ((low <= model.predict(X) + 1e-9) & (model.predict(X) - 1e-9 <= high)).all()
    with pytest.raises(ValueError, match="indefinite='uncertified' is unknown"):
        SVR(indefinite="uncertified").fit(X, Y[:, 0])


@pytest.mark.parametrize("make", [LinearSVR, SVR])
def test_warm_start_goes_on_from_the_last_fit(make):
    X, Y = table()
    model = make(tol=1e-6, warm_start=True, random_state=0).fit(X, Y)
    cold = np.max(model.n_iter_)
    first = model.predict(X)
    model.fit(X, Y)
    assert np.max(model.n_iter_) <= min(cold, 2)
    np.testing.assert_allclose(model.predict(X), first, atol=1e-2)
    assert model.set_params(C=2.0).fit(X, Y[:, 0]).predict(X).shape == (len(X),)


def test_l1_penalty_proves_features_zero():
    X, Y = table()
    X = np.hstack([X, np.random.default_rng(5).normal(size=(len(X), 4))])
    model = LinearSVR(loss="squared_error", l1_ratio=0.95, C=0.02, tol=1e-9).fit(X, Y[:, 0])
    status = model.proof_.features()
    assert set(status[6:]) == {"zero"}
    assert (model.coef_[status == "zero"] == 0.0).all()
    assert (status[:6] == "nonzero").any()


def test_clone_and_fitted_attributes():
    X, Y = table()
    for model in (LinearSVR(epsilon=0.5, loss=dualgap.ResidualLoss(epsilon=0.2)), SVR(kernel="linear")):
        assert clone(model).get_params() == model.get_params()
        model.fit(X, Y[:, 0])
        np.testing.assert_allclose(np.ravel(model.dual_coef_ @ X[model.support_]), np.ravel(model.coef_), atol=1e-3)
        assert model.n_support_.tolist() == [len(model.support_)]


def test_refusals_say_what_is_wrong():
    X, Y = table()
    with pytest.raises(ValueError, match="loss='hinge' is a loss of classification; LinearSVR takes"):
        LinearSVR(loss="hinge").fit(X, Y)
    with pytest.raises(ValueError, match=r"quantile=0\.3 with loss='huber'"):
        LinearSVR(loss="huber", quantile=0.3).fit(X, Y)
    with pytest.raises(ValueError, match="epsilon"):
        LinearSVR(epsilon=-1.0).fit(X, Y)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        SVR().fit(X, np.where(Y > 1, np.nan, Y))
    with pytest.raises(ValueError, match="give y beside X"):
        LinearSVR().fit(X, Y).proof_.support(X)
    with pytest.raises(ProofError, match="needs the training data"):
        pickle.loads(pickle.dumps(LinearSVR().fit(X, Y))).proof_.support()


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 1.0, 1.0, 2.0, 1.0]])
@pytest.mark.parametrize(
    "make", [lambda: LinearSVR(C=0.01, epsilon=0.1), lambda: SVR(C=0.01), lambda: SVR(C=0.01, kernel="linear")]
)
def test_of_all_best_intercepts_the_middle_is_taken(make, weights):
    X = np.array([[-2.0, 0.0], [-1.0, -1.0], [0.0, -2.0], [0.0, 2.0], [1.0, 1.0], [2.0, 0.0]])
    model = make().fit(X, [1.0, 1.0, 1.0, 2.0, 2.0, 2.0], sample_weight=weights)
    assert model.intercept_[0] == pytest.approx(1.5)


@pytest.mark.parametrize("make", [LinearSVR, SVR, lambda: SVR(kernel="linear")])
def test_targets_that_a_constant_fits(make):
    X, _ = table(n=30)
    for value in (0.0, 7.0):
        model = make().fit(X, np.full(30, value))
        assert model.status_ == "zero_optimum"
        np.testing.assert_allclose(model.predict(X), value, atol=0.11)


@pytest.mark.parametrize("seed", range(12))
def test_targets_without_noise_converge_with_a_free_intercept(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(int(rng.integers(9, 60)), int(rng.integers(1, 5))))
    y = X @ rng.normal(size=X.shape[1]) + 0.05 * rng.normal(size=len(X)) * (seed % 2)
    for C in (3.0, 30.0, 300.0):
        for epsilon in (0.1, 0.5):
            model = LinearSVR(C=C, epsilon=epsilon, random_state=0).fit(X, y)
            assert model.status_ == "converged"
