"""NuSVC and OneClassSVM against scikit-learn's, and what a user meets: attributes, kinds of X, errors, warnings."""

import pickle

import numpy as np
import pytest
import sklearn.svm
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_blobs, make_circles, make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import minmax_scale, scale

from dualgap import SVC, NuSVC, OneClassSVM
from dualgap.estimators import ConvergenceWarning

TOL = 1e-6


def two_of(X, y):
    return X[y < 2], y[y < 2]


DATA = {
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: (scale(load_wine().data), load_wine().target),
    "cancer": lambda: (scale(load_breast_cancer().data), load_breast_cancer().target),
    "digits": lambda: two_of(load_digits().data / 16.0, load_digits().target),
    "digits, some": lambda: (load_digits().data[:300] / 16.0, load_digits().target[:300] % 3),
    "moons": lambda: make_moons(300, noise=0.1, random_state=0),
    "circles": lambda: make_circles(300, noise=0.1, factor=0.5, random_state=0),
    "blobs": lambda: make_blobs(300, 5, centers=2, cluster_std=4.0, random_state=0),
    "three blobs": lambda: make_blobs(240, 3, centers=3, cluster_std=3.0, random_state=1),
    "noise": lambda: (np.random.default_rng(0).normal(size=(200, 8)), np.arange(200) % 2),
}
# Not a multiple of 1/n: there all thresholds of an interval may be optimal.
NUS = [0.0533, 0.3711]
ATOL = 1e-14  # objectives of NuSVC may be 1e-10, where rounding leaves less than the digits of TOL


def one_class_objective(model, X, nu):
    """½‖f‖² − νnρ + Σ max(0, ρ − f(x)) of a fitted one-class machine, ½‖f‖² from its expansion over the support vectors."""
    a, scores = np.asarray(model.dual_coef_).ravel(), model.score_samples(X)
    rho = float(np.ravel(model.offset_)[0])
    return 0.5 * a @ scores[model.support_] - nu * len(X) * rho + np.maximum(rho - scores, 0.0).sum()


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("name", DATA)
def test_one_class_is_not_above_scikit_learn(name, kernel):
    X, _ = DATA[name]()
    X = minmax_scale(X) + 0.1 if kernel == "linear" else X
    for nu in NUS:
        ours = OneClassSVM(nu=nu, kernel=kernel, tol=TOL, random_state=0).fit(X)
        theirs = sklearn.svm.OneClassSVM(nu=nu, kernel=kernel, tol=1e-7).fit(X)
        assert ours.status_ == "converged"
        assert ours.certificate_.relative_gap <= TOL
        value, other = one_class_objective(ours, X, nu), one_class_objective(theirs, X, nu)
        assert value <= other + 1.01 * TOL * abs(other)
        assert ours.objective_ == pytest.approx(value / len(X) ** 2, rel=1e-8)
        assert ours.dual_coef_.sum() == pytest.approx(nu * len(X), rel=1e-9)
        # ‖f − f*‖² ≤ 2·gap: |f(x) − f*(x)| ≤ √(2·gap·k(x, x)), for both models; ρ moves by as much
        reach = np.sqrt(2 * TOL * abs(other) * (1.0 if kernel == "rbf" else np.square(X).sum(axis=1).max()))
        assert np.abs(ours.score_samples(X) - theirs.score_samples(X)).max() <= 2.0 * reach
        assert np.abs(ours.decision_function(X) - theirs.decision_function(X)).max() <= 4.0 * reach
        assert np.mean(ours.decision_function(X) < -4.0 * reach) <= nu


@pytest.mark.parametrize("name", DATA)
def test_nu_svc_is_not_above_scikit_learn(name):
    X, y = DATA[name]()
    for nu in NUS:
        ours = NuSVC(nu=nu, tol=TOL, atol=ATOL, decision_function_shape="ovo", random_state=0).fit(X, y)
        theirs = sklearn.svm.NuSVC(nu=nu, tol=1e-7, decision_function_shape="ovo").fit(X, y)
        assert ours.status_ == "converged"
        certificates = np.atleast_1d(np.array(ours.certificate_, dtype=object))
        assert all(c.relative_gap <= TOL or c.gap <= ATOL for c in certificates)
        d, e = ours.decision_function(X), theirs.decision_function(X)
        assert np.abs(d - e).max() <= 0.02 * max(1.0, np.abs(e).max())
        assert np.mean(ours.predict(X) == theirs.predict(X)) >= 0.99
        if len(ours.classes_) == 2:
            # The model of SVC at C_, whose objective is ½‖f‖² + C·Σ loss; theirs may be at a slightly different C.
            signs = np.where(y == ours.classes_[1], 1.0, -1.0)
            values = [
                0.5 * m.dual_coef_.ravel() @ (s - m.intercept_)[m.support_] + ours.C_ * np.maximum(1 - signs * s, 0).sum()
                for m, s in ((ours, d), (theirs, e))
            ]
            assert values[0] <= values[1] * (1.0 + 100.0 * TOL)


def test_nu_svc_is_svc_at_its_own_C():
    X, y = make_moons(300, noise=0.25, random_state=0)
    model = NuSVC(nu=0.2311, gamma=1.0, tol=1e-10).fit(X, y)
    same = SVC(C=model.C_, gamma=1.0, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), same.decision_function(X), atol=1e-4)
    assert model.rho_ == pytest.approx([1.0 / model.C_])
    assert np.abs(model.dual_coef_).sum() * model.rho_[0] == pytest.approx(0.2311 * len(y))


@pytest.mark.parametrize("estimator", [NuSVC, OneClassSVM])
def test_every_kind_of_rows_gives_the_same_model(estimator):
    X, y = make_moons(120, noise=0.25, random_state=0)
    K = rbf_kernel(X, gamma=0.7)
    options = {"nu": 0.3137, "tol": 1e-10, "random_state": 0}
    dense = estimator(gamma=0.7, **options).fit(X, y)
    values = dense.decision_function(X)
    others = [
        (estimator(gamma=0.7, **options).fit(sparse.csr_matrix(X), y), sparse.csr_matrix(X)),
        (estimator(kernel="precomputed", **options).fit(K, y), K),
        (estimator(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.7), **options).fit(X, y), X),
    ]
    for model, rows in others:
        np.testing.assert_allclose(model.decision_function(rows), values, atol=1e-3)
    with pytest.raises(ValueError, match="dca cannot solve ν-problems, which are trained by working sets"):
        estimator(gamma=0.7, solver="dca", **options).fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(dense)).decision_function(X), values)


@pytest.mark.parametrize("estimator", [NuSVC, OneClassSVM])
def test_a_linear_kernel_has_coefficients(estimator):
    X, y = make_blobs(200, 3, centers=2, cluster_std=2.0, random_state=0)
    X = X - X.min(axis=0) + 1.0
    model = estimator(nu=0.2533, kernel="linear").fit(X, y)
    assert model.coef_.shape == (1, 3)
    np.testing.assert_allclose(X @ model.coef_[0] + model.intercept_, model.decision_function(X), rtol=1e-9, atol=1e-9)
    with pytest.raises(AttributeError, match="kernel='linear'"):
        _ = estimator(nu=0.2533).fit(X, y).coef_


def test_an_infeasible_nu_names_the_largest_feasible_one():
    X, y = make_blobs([60, 30, 10], 2, random_state=0)
    with pytest.raises(ValueError, match=r"nu=0.5 is infeasible .* largest feasible value is 0.285714, .* classes 0 and 2"):
        NuSVC().fit(X, y)
    largest = 2 * 10 / 70
    assert NuSVC(nu=largest, tol=1e-5).fit(X, y).status_ == "converged"
    with pytest.raises(ValueError, match="infeasible"):
        NuSVC(nu=largest + 1e-6).fit(X, y)
    assert NuSVC(nu=0.9, class_weight="balanced").fit(X, y).status_ == "converged"


@pytest.mark.parametrize("nu", [0.0, -0.1, 1.5, np.nan, "half"])
def test_a_nu_that_is_no_share_is_refused(nu):
    X, y = make_moons(20, random_state=0)
    for estimator in (NuSVC, OneClassSVM):
        with pytest.raises((ValueError, TypeError), match="nu="):
            estimator(nu=nu).fit(X, y)


def test_weights_of_zero_leave_rows_out():
    X = np.random.default_rng(0).normal(size=(60, 2))
    weights = np.where(np.arange(60) < 50, 1.0, 0.0)
    model = OneClassSVM(nu=0.213, gamma=0.5, tol=1e-9).fit(X, sample_weight=weights)
    alone = OneClassSVM(nu=0.213, gamma=0.5, tol=1e-9).fit(X[:50])
    assert model.support_.max() < 50
    np.testing.assert_allclose(model.decision_function(X), alone.decision_function(X), atol=1e-3)


def test_centred_rows_have_the_zero_model_and_a_warning():
    X = scale(np.random.default_rng(0).normal(size=(100, 2)))
    with pytest.warns(
        UserWarning, match=r"for nu=0.5 the objective is 0 up to rounding, or atol: .* no other objective is below -"
    ):
        model = OneClassSVM(kernel="linear").fit(X)
    assert model.status_ == "zero_optimum"
    assert model.fit_status_ == 0
    assert len(model.support_) == 0
    assert not model.decision_function(X).any()
    assert (model.predict(X) == 1).all()


def test_a_fit_that_ends_early_says_so():
    X, y = make_moons(300, noise=0.3, random_state=0)
    for estimator in (NuSVC, OneClassSVM):
        with pytest.warns(ConvergenceWarning, match=f"{estimator.__name__} did not converge: status 'max_epochs'"):
            model = estimator(nu=0.2, tol=1e-12, max_iter=1).fit(X, y)
        assert model.status_ == "max_epochs"
        assert model.certificate_.gap > 0.0
        assert model.predict(X).shape == y.shape


def test_steps_are_logged(caplog):
    with caplog.at_level("INFO", logger="dualgap"):
        OneClassSVM(nu=0.2, verbose=1).fit(np.random.default_rng(0).normal(size=(50, 2)))
    assert caplog.messages[0].startswith("fit: epoch 1, primal -")


@pytest.mark.parametrize("size", [1e80, 1e140])
def test_rows_whose_squares_leave_little_room_in_float64(size):
    X = np.random.default_rng(3).normal(size=(6, 2)) + 3.0
    small = OneClassSVM(kernel="precomputed").fit(X @ X.T)
    large = OneClassSVM(kernel="precomputed").fit((size * X) @ (size * X).T)
    assert large.status_ == small.status_ == "converged"
    assert large.certificate_.primal / size**2 == pytest.approx(small.certificate_.primal, rel=1e-3)


@pytest.mark.parametrize(
    "estimator", [NuSVC(nu=0.2, kernel="precomputed"), OneClassSVM(kernel="precomputed")], ids=["NuSVC", "OneClassSVM"]
)
def test_rows_of_another_width_are_refused_in_the_estimators_own_name(estimator):
    X, y = load_iris(return_X_y=True)
    X = X[50:]
    model = estimator.fit(X @ X.T, y[50:])
    for width in (len(model.support_), 99):
        with pytest.raises(ValueError, match=f"{type(model).__name__} is expecting 100 features"):
            model.predict(X @ X[:width].T)


def test_names_of_columns_are_compared():
    X, y = load_iris(return_X_y=True, as_frame=True)
    for model in (NuSVC(nu=0.2).fit(X, y), OneClassSVM().fit(X)):
        assert len(model.predict(X)) == 150
        with pytest.raises(ValueError, match="feature names"):
            model.predict(X[X.columns[::-1]])
