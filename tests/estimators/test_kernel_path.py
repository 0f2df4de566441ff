"""SVCPath: at every C its model is within the guarantee, by solves that are far more precise; kernel values are computed once."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris, make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

import dualgap
from dualgap import SVCPath
from dualgap.kernels import Kernel

LOSSES = ("hinge", "smooth_hinge", "squared_hinge", "logistic")


def assert_within(path, problem, C, epsilon):
    model = path.model_at(C)
    assert model.status_ == "converged"
    assert model.certificate_.within(model.tol)
    problem = problem.variant(l2=1 / (C * problem.n))
    exact = dualgap.solve(problem, tol=1e-8, max_epochs=5000)
    a = np.zeros(problem.n)
    a[model.support_] = model.dual_coef_[0]
    objective = problem.objective(a, model.intercept_[0])
    assert objective <= (1 + epsilon) * exact.certificate.primal
    assert objective <= model.certificate_.primal * (1 + 1e-12)
    assert model.certificate_.dual <= exact.certificate.primal
    assert model.certificate_.gap <= epsilon * model.certificate_.dual * (1 + 1e-9)


@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
@pytest.mark.parametrize(("loss", "kernel"), [*((loss, "rbf") for loss in LOSSES), ("hinge", "poly"), ("hinge", "linear")])
def test_every_c_has_a_model_within_the_guarantee(loss, kernel, intercept):
    X, y = make_moons(60, noise=0.3, random_state=1)
    options = {"kernel": kernel, "gamma": 0.5, "degree": 2, "coef0": 1.0}
    kind = {"fit_intercept": intercept != "none", "intercept": "free" if intercept == "none" else intercept}
    path = SVCPath(Cs=[10.0, 0.1], guarantee=0.02, loss=loss, **options, **kind, random_state=0).fit(X, y)
    assert path.status_ == "converged"
    assert path.guarantee_ <= 0.02 * (1 + 1e-9)
    assert (path.breakpoints_[0, 0], path.breakpoints_[-1, 1]) == (0.1, 10.0)
    np.testing.assert_array_equal(path.breakpoints_[1:, 0], path.breakpoints_[:-1, 1])
    problem = dualgap.Problem(X, y, loss, l2=1.0, intercept=intercept, **options)
    for C in (0.1, path.breakpoints_[0, 1], 0.77, 3.3, 10.0):
        assert_within(path, problem, C, 0.02)


@pytest.mark.parametrize("cache_size", [1000, 0.01])
def test_kernel_values_are_computed_once_if_they_fit(cache_size, monkeypatch):
    X, y = make_moons(80, noise=0.3, random_state=1)
    shapes = []
    call = Kernel.__call__
    monkeypatch.setattr(Kernel, "__call__", lambda self, A, B, *args: (shapes.append((len(A), len(B))), call(self, A, B, *args))[1])
    path = SVCPath(Cs=[0.1, 10.0], cache_size=cache_size, random_state=0).fit(X, y)
    assert path.status_ == "converged"
    assert len(path.Cs_) > 3
    assert shapes.count((80, 80)) == (1 if cache_size == 1000 else 0)
    assert_within(path, dualgap.Problem(X, y, kernel="rbf", l2=1.0, intercept="free"), 1.7, 0.01)


def test_pairs_of_classes_sparse_rows_matrices_functions_and_pickles():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    options = {"Cs": [0.1, 5.0], "guarantee": 0.05, "random_state": 0}
    path = SVCPath(gamma=0.5, **options).fit(X, names)
    K = rbf_kernel(X, gamma=0.5)
    others = [
        SVCPath(gamma=0.5, **options).fit(sparse.csr_array(X), names),
        SVCPath(kernel="precomputed", **options).fit(K, names),
        SVCPath(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.5), **options).fit(X, names),
    ]
    assert len(path.breakpoints_) == len(path.certificates_) == 3
    model = path.model_at(1.3)
    assert model.score(X, names) > 0.9
    for other, rows in zip(others, (sparse.csr_array(X), K, X), strict=True):
        assert (other.model_at(1.3).predict(rows) == model.predict(X)).mean() > 0.97
    again = pickle.loads(pickle.dumps(path))
    np.testing.assert_array_equal(again.model_at(1.3).decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(again.predict(X), path.predict(X))
    assert path.decision_function(X).shape == (150, 3)
    pytest.importorskip("matplotlib").use("Agg")
    axes = path.plot_guarantee(label="setosa or virginica")
    assert "setosa or virginica" in axes.get_title()
    axes.figure.clf()
    with pytest.raises(ValueError, match="label='roses' is unknown"):
        path.plot_guarantee(label="roses")


def test_bad_arguments():
    X, y = make_moons(30, noise=0.3, random_state=1)
    for Cs in (3, [], [1.0], [2.0, 2.0], [0.0, 1.0], [np.nan, 1.0], ["a", 1.0], [[0.1, 1.0]]):
        with pytest.raises(ValueError, match="Cs"):
            SVCPath(Cs=Cs).fit(X, y)
    for guarantee in (0, 1, np.nan, None, "1 %"):
        with pytest.raises(ValueError, match=r"guarantee=.* must be a number between 0 and 1"):
            SVCPath(guarantee=guarantee).fit(X, y)
    with pytest.raises(ValueError, match="one class only"):
        SVCPath().fit(X, np.zeros(30))
    with pytest.raises(ValueError, match="must be square"):
        SVCPath(kernel="precomputed").fit(np.ones((30, 7)), y)
    with pytest.raises(dualgap.CertificateError, match="not positive semidefinite"):
        SVCPath(kernel="sigmoid", gamma=3.0, coef0=-2.0).fit(X, y)


@parametrize_with_checks([SVCPath(Cs=[0.1, 1.0])])
def test_sklearn_checks(estimator, check):
    if check.func.__name__.startswith("check_sample_weight_equivalence"):
        pytest.skip("asks for equal models; those of a path with a guarantee are within it of the optimum")
    check(estimator)
