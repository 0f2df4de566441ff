"""LinearSVCPath and its cross-validation: the same models as one by one, certified; screening that changes nothing."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_classification
from sklearn.utils.estimator_checks import parametrize_with_checks

from conftest import SKLEARN
from dualgap import LinearSVC, LinearSVCPath, LinearSVCPathCV
from dualgap.estimators import ConvergenceWarning


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(120, 60, n_informative=5, random_state=0)
    return X, np.where(y == 1, "yes", "no")


def test_every_point_is_the_model_of_its_c_and_ratio(data):
    X, y = data
    weights = np.linspace(0.5, 1.5, len(y))
    path = LinearSVCPath(Cs=6, l1_ratios=[1.0, 0.3], tol=1e-7, random_state=0).fit(X, y, weights)
    assert path.status_ == "converged"
    assert (path.dual_gaps_ <= 1e-7 * path.objectives_).all()
    for i, ratio in enumerate(path.l1_ratios_):
        for j, C in list(enumerate(path.Cs_))[::2]:
            alone = LinearSVC(C=C, l1_ratio=ratio, tol=1e-7, solver="prox_newton", random_state=0).fit(X, y, weights)
            assert path.objectives_[i, j] == pytest.approx(alone.objective_, rel=2e-7)
            np.testing.assert_allclose(path.coefs_[i, j], alone.coef_[0], atol=2e-3 * max(1, np.abs(alone.coef_).max()))
    assert not path.coefs_[0, 0].any()  # the grid begins where the first feature comes in
    assert path.coefs_[0, 1].any()
    np.testing.assert_array_equal(path.coef_[0], path.coefs_[0, -1])
    assert path.score(X, y) > 0.8


def test_screening_proves_zeros_and_changes_nothing(data):
    X, y = data
    Cs = np.geomspace(0.002, 0.02, 12)
    with_it = LinearSVCPath(Cs=Cs, l1_ratios=1.0, tol=1e-6, random_state=0).fit(X, y)
    without = LinearSVCPath(Cs=Cs, l1_ratios=1.0, tol=1e-6, screen=False, random_state=0).fit(X, y)
    assert with_it.screened_.max() > 0
    assert not without.screened_.any()
    np.testing.assert_allclose(with_it.objectives_, without.objectives_, rtol=2e-6)
    np.testing.assert_allclose(with_it.coefs_, without.coefs_, atol=1e-3)


def test_features_left_out_are_zero_at_the_optimum(data):
    from dualgap import Problem
    from dualgap.estimators.path_grid import features_left
    from dualgap.run import minimise

    X, y = data
    problem = Problem(X, y, loss="squared_hinge", l1=0.05, l2=0.0, intercept="free")
    exact = minimise(problem, "prox_newton", 1e-10, 200)
    rough = minimise(problem, "prox_newton", 1e-3, 200)
    kept = features_left(problem, rough)
    assert 0 < np.count_nonzero(kept) < problem.d
    assert not exact.coef[~kept].any()


def test_l2_alone_hinge_and_sparse_rows(data):
    X, y = data
    path = LinearSVCPath(Cs=[0.1, 0.001, 0.01], l1_ratios=0.0, loss="hinge", intercept="penalised", random_state=0)
    path.fit(sparse.csr_array(X), y)
    np.testing.assert_array_equal(path.Cs_, [0.001, 0.01, 0.1])
    assert path.status_ == "converged"
    alone = LinearSVC(C=0.01, loss="hinge", intercept="penalised", random_state=0).fit(sparse.csr_array(X), y)
    assert path.objectives_[0, 1] == pytest.approx(alone.objective_, rel=2e-4)


def test_a_path_that_ends_early_warns(data):
    X, y = data
    with pytest.warns(ConvergenceWarning, match=r"did not converge on \d of 3 problems"):
        path = LinearSVCPath(Cs=np.array([1.0, 10.0, 100.0]), l1_ratios=1.0, max_iter=1, random_state=0).fit(X, y)
    assert set(path.statuses_.ravel()) >= {"max_epochs"}


def test_cross_validation_chooses_and_keeps(data):
    X, y = data
    model = LinearSVCPathCV(Cs=5, l1_ratios=[1.0, 0.5], cv=3, n_jobs=2, scoring="roc_auc", random_state=0).fit(X, y)
    assert model.scores_.shape == (3, 2, 5)
    mean = model.scores_.mean(axis=0)
    i, j = list(model.l1_ratios_).index(model.l1_ratio_), list(model.Cs_).index(model.C_)
    assert mean[i, j] == mean.max()
    np.testing.assert_array_equal(model.coef_[0], model.coefs_[i, j])


def test_plot(data):
    plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")
    X, y = data
    figure, ax = plt.subplots()
    path = LinearSVCPath(Cs=4, l1_ratios=[1.0, 0.5], random_state=0).fit(X, y)
    assert path.plot_path(0.5, ax) is ax
    assert len(ax.lines) == X.shape[1] + 1
    assert "0.5" in ax.get_title()
    plt.close(figure)


def test_errors(data):
    X, y = data
    with pytest.raises(ValueError, match=r"l1_ratios=1\.2 must be"):
        LinearSVCPath(l1_ratios=[0.5, 1.2]).fit(X, y)
    with pytest.raises(ValueError, match=r"Cs=-1\.0 must be"):
        LinearSVCPath(Cs=[1.0, -1.0]).fit(X, y)


EXACT = {"check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"}


def expected_failures(estimator):
    """For scikit-learn 1.6: its check makes binary labels from the first row's label after it has shuffled one of its two data sets."""
    return dict.fromkeys(EXACT, "the check gives its two data sets different labels") if SKLEARN < (1, 7) else {}


@pytest.mark.filterwarnings("ignore::dualgap.estimators.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:The least populated class in y")
@parametrize_with_checks(
    [LinearSVCPath(Cs=2), LinearSVCPathCV(Cs=2, cv=2), LinearSVCPath(Cs=[0.1, 1.0], l1_ratios=0.0, guarantee=0.05)],
    expected_failed_checks=expected_failures,
)
def test_sklearn_checks(estimator, check):
    if check.func.__name__ in EXACT:
        if getattr(estimator, "guarantee", None) is not None:
            pytest.skip("asks for equal models; those of a path with a guarantee are within it of the optimum")
        estimator.set_params(tol=1e-13, Cs=[0.01, 0.1])
    check(estimator)


# --------------------------------------------------------------------------------------------------------------- several classes


@pytest.fixture(scope="module")
def three():
    return make_classification(150, 20, n_informative=6, n_classes=3, n_clusters_per_class=1, random_state=0)


def test_several_classes_are_the_models_one_by_one(three):
    X, y = three
    path = LinearSVCPath(Cs=4, l1_ratios=[1.0, 0.4], class_weight="balanced", tol=1e-7, random_state=0).fit(X, y)
    assert path.coefs_.shape == (2, 4, 3, 20)
    assert path.intercepts_.shape == path.dual_gaps_.shape == path.statuses_.shape == (2, 4, 3)
    assert len(path.certificates_[1][2]) == 3
    assert not path.coefs_[0, 0].any()  # for no class has a feature come in
    for i, ratio in enumerate(path.l1_ratios_):
        alone = LinearSVC(C=path.Cs_[2], l1_ratio=ratio, class_weight="balanced", tol=1e-7, random_state=0).fit(X, y)
        np.testing.assert_allclose(path.objectives_[i, 2], alone.objective_, rtol=2e-7)
        assert [c.primal for c in path.certificates_[i][2]] == path.objectives_[i, 2].tolist()
        np.testing.assert_allclose(path.coefs_[i, 2], alone.coef_, atol=2e-3)
    np.testing.assert_array_equal(path.coef_, path.coefs_[0, -1])
    assert path.score(X, y) > 0.8


def test_several_classes_are_chosen_from_and_drawn(three):
    plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")
    X, y = three
    names = np.array(["ash", "birch", "cedar"])[y]
    model = LinearSVCPathCV(Cs=3, l1_ratios=0.5, cv=3, tol=1e-3, random_state=0).fit(X, names)
    assert model.scores_.shape == (3, 1, 3)
    assert model.coef_.shape == (3, 20)
    assert model.score(X, names) > 0.7
    figure, ax = plt.subplots()
    assert "birch against the rest" in model.plot_path(ax=ax, label="birch").get_title()
    with pytest.raises(ValueError, match="label"):
        model.plot_path(ax=ax, label="oak")
    plt.close(figure)
