"""LinearSVRPath and LinearSVRPathCV: against single fits, with several targets, with a guarantee for every C."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_regression
from sklearn.linear_model import ElasticNet
from sklearn.model_selection import KFold, cross_val_score

import dualgap
from dualgap import LinearSVR, LinearSVRPath, LinearSVRPathCV

LOSSES = ("squared_error", "huber", "epsilon_insensitive", "quantile")


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return 20.0 * X, y


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("ratio", [0.0, 0.5])
def test_points_are_single_fits(diabetes, loss, ratio):
    X, y = diabetes
    weights = 1.0 + np.arange(len(y)) % 3
    path = LinearSVRPath(Cs=[10.0, 0.01, 1.0], l1_ratios=ratio, loss=loss, tol=1e-6, random_state=0).fit(X, y, weights)
    assert path.status_ == "converged"
    assert path.Cs_.tolist() == [0.01, 1.0, 10.0]
    for j, C in enumerate(path.Cs_):
        single = LinearSVR(C=C, l1_ratio=ratio, loss=loss, tol=1e-8, random_state=0).fit(X, y, weights)
        assert path.objectives_[0, j] == pytest.approx(single.objective_, rel=2e-6)
    assert path.coef_.shape == (10,)
    assert np.allclose(path.predict(X), X @ path.coef_ + path.intercept_)


def test_screened_features_are_zero():
    X, y = make_regression(80, 60, n_informative=4, noise=1.0, random_state=0)
    path = LinearSVRPath(Cs=24, l1_ratios=1.0, tol=1e-8, random_state=0).fit(X, y)
    assert path.screened_[0].max() > 0
    plain = LinearSVRPath(Cs=path.Cs_, l1_ratios=1.0, screen=False, tol=1e-8, random_state=0).fit(X, y)
    assert np.allclose(path.objectives_, plain.objectives_, rtol=1e-7)
    assert not path.coefs_[0, 0].any()  # the grid starts where the first feature comes in
    j = 12
    lasso = ElasticNet(alpha=1.0 / (2.0 * path.Cs_[j] * len(y)), l1_ratio=1.0, tol=1e-10).fit(X, y)
    assert np.allclose(path.coefs_[0, j], lasso.coef_, atol=1e-3 * np.abs(lasso.coef_).max())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("ratio", [0.0, 0.5])
def test_a_model_for_every_C(diabetes, loss, ratio):
    X, y = diabetes
    path = LinearSVRPath(Cs=[0.01, 10.0], l1_ratios=ratio, loss=loss, guarantee=0.01, random_state=0).fit(X, y)
    assert path.status_ == "converged"
    assert path.guarantee_ <= 0.01
    for C in (0.01, 0.0357, 0.31, 1.7, 10.0):
        model = path.model_at(C)
        exact = LinearSVR(C=C, l1_ratio=ratio, loss=loss, tol=1e-7, random_state=0).fit(X, y)
        scale = 1.0 / (C * len(y))
        problem = dualgap.Problem(X, y, exact._loss(), l2=(1 - ratio) * scale, l1=ratio * scale, intercept="free")
        value = problem.objective(model.coef_, float(model.intercept_[0]))
        assert value <= 1.01 * exact.certificate_.primal
        assert model.certificate_.primal == pytest.approx(value, rel=1e-6)
        assert model.certificate_.dual <= exact.certificate_.primal
        assert np.allclose(model.predict(X), X @ model.coef_ + model.intercept_)


def test_several_targets_and_figures(diabetes):
    plt = pytest.importorskip("matplotlib.pyplot")
    X, y = diabetes
    Y = np.stack([y, np.log(y)], axis=1)
    path = LinearSVRPath(Cs=[0.1, 1.0], l1_ratios=[0.0, 0.5], random_state=0).fit(sparse.csr_array(X), Y)
    assert path.coefs_.shape == (2, 2, 2, 10)
    assert path.predict(X).shape == Y.shape
    alone = LinearSVRPath(Cs=[0.1, 1.0], l1_ratios=[0.0, 0.5], random_state=0).fit(X, Y[:, 1])
    assert np.allclose(path.objectives_[..., 1], alone.objectives_, rtol=1e-3)
    assert "target 1" in path.plot_path(label=1, ax=plt.figure().gca()).get_title()
    made = LinearSVRPath(Cs=[0.1, 1.0], l1_ratios=0.0, guarantee=0.05, random_state=0).fit(X, Y)
    assert made.model_at(0.3).predict(X).shape == Y.shape
    assert "target 0: " in made.plot_guarantee(ax=plt.figure().gca()).get_title()
    plt.close("all")
    low, high = made.prediction_bounds(X)  # of the exact models at the largest C, from models within 5 % of them
    exact = LinearSVR(C=1.0, loss="squared_error", tol=1e-9).fit(X, Y)
    assert (low <= exact.predict(X)).all()
    assert (exact.predict(X) <= high).all()


def test_cross_validation_chooses_as_by_hand(diabetes):
    X, y = diabetes
    folds = KFold(4, shuffle=True, random_state=0)
    Cs = [1e-4, 1e-2, 1.0]
    model = LinearSVRPathCV(Cs=Cs, l1_ratios=0.0, cv=folds, tol=1e-6, random_state=0).fit(X, y)
    by_hand = [cross_val_score(LinearSVR(C=C, loss="squared_error", tol=1e-6), X, y, cv=folds) for C in Cs]
    assert np.allclose(model.scores_[:, 0], np.transpose(by_hand), atol=1e-5)
    assert Cs[int(np.argmax(np.mean(by_hand, axis=1)))] == model.C_
    best = LinearSVR(C=model.C_, loss="squared_error", tol=1e-6).fit(X, y)
    assert np.allclose(model.predict(X), best.predict(X), rtol=1e-3)
    low, high = model.prediction_bounds(X)
    assert (low <= best.predict(X)).all()
    assert (best.predict(X) <= high).all()
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.prediction_bounds(X)[0], low)
    assert clone(model).get_params().keys() == model.get_params().keys()
    other = LinearSVRPathCV(Cs=Cs, l1_ratios=0.0, cv=3, scoring="neg_mean_absolute_error", n_jobs=2, random_state=0).fit(X, y)
    assert (other.scores_ < 0).all()


def test_refusals(diabetes):
    X, y = diabetes
    with pytest.raises(ValueError, match="loss of classification; LinearSVRPath takes"):
        LinearSVRPath(loss="hinge").fit(X, y)
    with pytest.raises(ValueError, match="was fitted without a guarantee"):
        LinearSVRPath(Cs=[1.0]).fit(X, y).model_at(1.0)
    with pytest.raises(ValueError, match=r"one number in \[0, 1\) with a guarantee"):
        LinearSVRPath(l1_ratios=1.0, guarantee=0.1).fit(X, y)
    with pytest.warns(dualgap.ConvergenceWarning, match="LinearSVRPath did not converge") as seen:
        LinearSVRPath(Cs=[1.0], l1_ratios=0.5, max_iter=1, tol=1e-12).fit(X, y)
    assert seen[0].filename == __file__


def test_a_weight_of_two_is_a_row_twice(diabetes):
    X, y = diabetes[0][:60], diabetes[1][:60]
    weights = np.arange(60) % 3
    twice = np.repeat(np.arange(60), weights)
    weighted = LinearSVRPath(Cs=[0.1, 1.0], l1_ratios=0.0, tol=1e-10).fit(X, y, sample_weight=weights)
    repeated = LinearSVRPath(Cs=[0.1, 1.0], l1_ratios=0.0, tol=1e-10).fit(X[twice], y[twice])
    assert np.allclose(weighted.predict(X), repeated.predict(X), rtol=1e-3)
