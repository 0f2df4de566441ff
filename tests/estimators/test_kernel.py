"""SVC beside scikit-learn's: numbers, layout of the attributes, kernels of every kind, weights, warm starts."""

import numpy as np
import pytest
import sklearn.svm
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import scale

from dualgap import SVC
from dualgap.estimators import ConvergenceWarning
from dualgap.kernels import KernelBlocks
from dualgap.proof import CertificateError


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    _, kept = np.unique(X, axis=0, return_index=True)  # of two equal rows either may be the support vector
    return scale(X)[np.sort(kept)], y[np.sort(kept)]


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X)[:250], y[:250]


@pytest.mark.parametrize(
    "params", [{}, {"kernel": "linear", "C": 0.1}, {"kernel": "poly", "coef0": 1.0, "degree": 2, "gamma": "auto"}]
)
def test_scikit_learns_numbers_and_layout(iris, params):
    X, y = iris
    ours = SVC(tol=1e-9, random_state=0, decision_function_shape="ovo", **params).fit(X, y)
    theirs = sklearn.svm.SVC(tol=1e-9, decision_function_shape="ovo", **params).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_array_equal(ours.n_support_, theirs.n_support_)
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-3 * np.abs(theirs.dual_coef_).max())
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)
    np.testing.assert_array_equal(ours.support_vectors_, theirs.support_vectors_)
    assert max(c.relative_gap for c in ours.certificate_) <= 1e-9
    if params.get("kernel") == "linear":
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    ours.decision_function_shape = theirs.decision_function_shape = "ovr"
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)


def test_weights_are_those_of_scikit_learn(cancer):
    X, y = cancer
    weights = np.linspace(0.1, 2, len(y))
    params = {"C": 2.0, "gamma": 0.02, "class_weight": {0: 3.0}, "tol": 1e-9}
    ours = SVC(random_state=0, **params).fit(X, y, weights)
    theirs = sklearn.svm.SVC(**params).fit(X, y, weights)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)
    total = 2.0 * np.sum(weights * np.where(y == 0, 3.0, 1.0))
    m = np.where(y == 1, 1, -1) * ours.decision_function(X)
    expansion = np.zeros(len(y))
    expansion[ours.support_] = ours.dual_coef_[0]
    norm = expansion @ sklearn.metrics.pairwise.rbf_kernel(X, gamma=0.02) @ expansion
    value = 2.0 * np.sum(weights * np.where(y == 0, 3.0, 1.0) * np.maximum(0, 1 - m)) + 0.5 * norm
    assert ours.objective_ * total == pytest.approx(value, rel=1e-8)


def test_precomputed_callable_and_sparse_are_one_model(iris):
    X, y = iris
    model = SVC(kernel="linear", tol=1e-8, random_state=0).fit(X, y)
    precomputed = SVC(kernel="precomputed", tol=1e-8, random_state=0).fit(X @ X.T, y)
    called = SVC(kernel=lambda a, b: a @ b.T, tol=1e-8, random_state=0).fit(X, y)
    rows = SVC(kernel="linear", tol=1e-8, random_state=0).fit(sparse.csr_array(X), y)
    expected = model.decision_function(X)
    np.testing.assert_allclose(precomputed.decision_function(X @ X.T), expected, atol=1e-3)
    np.testing.assert_allclose(called.decision_function(X), expected, atol=1e-3)
    np.testing.assert_allclose(rows.decision_function(X), expected, atol=1e-3)
    assert sparse.issparse(rows.dual_coef_)
    assert sparse.issparse(rows.coef_)
    np.testing.assert_allclose(rows.coef_.toarray(), model.coef_, atol=1e-3)


def test_float32_and_threads(iris):
    X, y = iris
    model = SVC(random_state=0).fit(X.astype(np.float32), y)
    assert model.status_ == "converged"
    threads = SVC(random_state=0, n_jobs=2).fit(X.astype(np.float32), y)
    np.testing.assert_array_equal(threads.dual_coef_, model.dual_coef_)


def test_kernel_rows_within_a_memory_budget():
    X, y = make_moons(400, noise=0.2, random_state=0)
    whole = SVC(tol=1e-4, random_state=0).fit(X, y)
    blocks = SVC(tol=1e-4, cache_size=0.5, random_state=0).fit(X, y)
    assert blocks.status_ == "converged"
    assert blocks.objective_ <= whole.objective_ * (1 + 1e-4)


def test_warm_start_over_c(cancer):
    X, y = cancer
    cold = SVC(C=1.1, tol=1e-6, solver="sdca", random_state=0).fit(X, y)
    model = SVC(C=1.0, tol=1e-6, solver="sdca", warm_start=True, random_state=0).fit(X, y)
    model.set_params(C=1.1).fit(X, y)
    assert model.n_iter_[0] < cold.n_iter_[0]
    assert model.objective_ <= cold.objective_ * (1 + 1e-6)


def test_no_intercept(cancer):
    X, y = cancer
    model = SVC(fit_intercept=False, random_state=0).fit(X, y)
    assert model.intercept_ == 0
    assert model.status_ == "converged"


def test_early_end_warns(cancer):
    X, y = cancer
    with pytest.warns(ConvergenceWarning, match="% above the optimum"):
        model = SVC(solver="sdca", max_iter=1, random_state=0).fit(X, y)
    assert model.status_ == "max_epochs"


def test_errors(iris):
    X, y = iris
    with pytest.raises(TypeError, match="Sparse precomputed"):
        SVC(kernel="precomputed").fit(sparse.csr_array(X @ X.T), y)
    with pytest.raises(ValueError, match="must be square"):
        SVC(kernel="precomputed").fit(X, y)
    with pytest.raises(CertificateError, match="not positive semidefinite"):
        SVC(kernel="precomputed").fit(-X @ X.T, y)
    with pytest.raises(ValueError, match="kernel='rbv' is unknown"):
        SVC(kernel="rbv").fit(X, y)
    with pytest.raises(ValueError, match="gamma='big' is unknown"):
        SVC(gamma="big").fit(X, y)
    with pytest.raises(ValueError, match="scale the features"):
        SVC().fit(1e200 * X, y)
    with pytest.raises(ValueError, match="a column for each of the 149 training rows"):
        SVC(kernel=lambda a, b: a @ b.T if len(a) == 149 else np.zeros((len(a), 3))).fit(X, y).predict(X[:2])
    with pytest.raises(AttributeError, match="coef_ is there for kernel='linear' only"):
        SVC().fit(X, y).coef_  # noqa: B018


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kernel": lambda a, b: np.ones(3)}, r"returned shape \(3,\)"),
        ({"kernel": lambda a, b: 1.0}, r"returned shape \(\)"),
        ({"kernel": lambda a, b: np.full((len(a), len(b)), np.nan)}, "returned nan for samples 0 and 0"),
        ({"kernel": "poly", "degree": 2.5}, "degree=2.5 must be a whole number"),
        ({"class_weight": {1: 0.0}}, "class_weight is zero for class 1"),
    ],
)
def test_what_is_wrong_is_named(options, words):
    X = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(ValueError, match=words):
        SVC(**options).fit(X, (X[:, 0] > 0).astype(int))


def test_coef_before_fit_says_so():
    with pytest.raises(NotFittedError):
        _ = SVC(kernel="linear").coef_


@pytest.mark.parametrize("classes", [2, 3])
def test_precomputed_predicts_from_the_support_vectors_alone(iris, classes):
    X, y = iris
    X, y = X[y < classes], y[y < classes]
    model = SVC(kernel="precomputed", random_state=0).fit(X @ X.T, y)
    assert len(model.support_) < len(y)
    whole = X[::3] @ X.T
    short = np.zeros_like(whole)
    short[:, model.support_] = whole[:, model.support_]
    np.testing.assert_allclose(model.decision_function(short), model.decision_function(whole))
    assert np.array_equal(model.predict(short), model.predict(whole))
    with pytest.raises(ValueError, match="features"):
        model.predict(whole[:, : len(model.support_)])  # it cannot be told whether these are the columns of the support vectors


def test_a_linear_kernel_with_a_large_C_on_overlapping_classes_converges():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 4))
    y = X[:, 0] + 0.5 * X[:, 1] + 1.5 * rng.normal(size=800) > 0
    model = SVC(kernel="linear", C=1e6, random_state=0).fit(X, y)
    assert model.status_ == "converged"
    assert model.n_support_.sum() == len(model.support_) == model.dual_coef_.shape[1]
    np.testing.assert_allclose(model.coef_, model.dual_coef_ @ model.support_vectors_)
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_[0] + model.intercept_[0], atol=1e-6)
    assert np.abs(model.dual_coef_).max() <= 1e6 * (1 + 1e-12)
    assert abs(model.dual_coef_.sum()) <= 1e-6 * 1e6


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix])
def test_pairs_share_one_matrix_and_are_as_if_alone(iris, storage, monkeypatch):
    computed = []
    matrix = KernelBlocks.matrix
    monkeypatch.setattr(KernelBlocks, "matrix", lambda blocks: computed.append(blocks.count) or matrix(blocks))
    X, y = iris
    model = SVC(tol=1e-8, random_state=0, gamma=0.3, class_weight={0: 2.0}, decision_function_shape="ovo").fit(storage(X), y)
    assert computed[-1] == len(y)
    assert computed.count(len(y)) == 1  # and small ones, where kernels are compiled
    for k, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        rows = (y == i) | (y == j)
        alone = SVC(tol=1e-8, random_state=0, gamma=0.3, class_weight={0: 2.0} if i == 0 else None).fit(X[rows], y[rows])
        np.testing.assert_allclose(model.decision_function(X)[:, k], -alone.decision_function(X), atol=1e-3)
        ours, theirs = model.certificate_[k], alone.certificate_
        assert ours.relative_gap <= 1e-8
        assert max(ours.dual, theirs.dual) <= min(ours.primal, theirs.primal)


def test_rows_of_every_class_are_checked():
    X, y = load_iris(return_X_y=True)
    X[149, 2] = np.nan
    with pytest.raises(ValueError, match="NaN at row 149, column 2"):
        SVC().fit(X, y)
