"""LinearSVCPath with a guarantee: at every C its model is within ε of the optimum, by solves that are far more precise."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_classification

import dualgap
from dualgap import LinearSVC, LinearSVCPath
from dualgap.answers import path as guaranteed_path
from dualgap.answers.ranges import reach
from dualgap.estimators import ConvergenceWarning
from dualgap.proof import ProofError, verify_proof

LOSSES = ("hinge", "smooth_hinge", "squared_hinge", "logistic")


def data_of(seed, n=80, d=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-0.5, 0.5, d)
    y = np.where(X @ rng.normal(size=d) + rng.normal(size=n) + 0.5 > 0, "yes", "no")
    return X, y


def assert_within(path, X, y, epsilon, Cs, weights=None, ratio=0.0, intercept="free", side=None):
    """The objective of model_at(C) is at most 1 + ε times the optimum, which lies between its certificate's bounds."""
    for C in Cs:
        model = path.model_at(C)
        total = len(y) if weights is None else weights.sum()
        problem = dualgap.Problem(
            X, y, path.loss, path.delta, (1 - ratio) / (C * total), ratio / (C * total), weights, intercept, intercept_scale=2.0
        )
        exact = dualgap.solve(problem, tol=1e-9, max_epochs=5000)
        k = 0 if side is None else side
        found = model.certificate_ if side is None else model.certificate_[side]
        assert model.status_ == "converged"
        assert found.within(model.tol)
        objective = problem.objective(model.coef_[k], model.intercept_[k])
        assert objective <= (1 + epsilon) * exact.certificate.primal
        assert objective <= found.primal * (1 + 1e-12)
        assert found.dual <= exact.certificate.primal
        assert found.gap <= epsilon * found.dual * (1 + 1e-9)


@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
@pytest.mark.parametrize(("loss", "ratio"), [*((loss, 0.0) for loss in LOSSES), ("squared_hinge", 0.5)])
def test_every_c_has_a_model_within_the_guarantee(loss, ratio, intercept):
    X, y = data_of(LOSSES.index(loss))
    rng = np.random.default_rng(7)
    weights = rng.uniform(0.2, 2.0, len(y)) if intercept != "none" else None
    path = LinearSVCPath(
        Cs=[10.0, 1e-2],  # in any order
        l1_ratios=ratio,
        loss=loss,
        fit_intercept=intercept != "none",
        intercept="free" if intercept == "none" else intercept,
        intercept_scaling=2.0,
        guarantee=0.02,
        random_state=0,
    ).fit(X, y, weights)
    assert path.status_ == "converged"
    assert path.guarantee_ <= 0.02 * (1 + 1e-9)
    assert path.breakpoints_[0, 0] == 1e-2
    assert path.breakpoints_[-1, 1] == 10.0
    np.testing.assert_array_equal(path.breakpoints_[1:, 0], path.breakpoints_[:-1, 1])
    assert len(path.breakpoints_) == len(path.mixes_) == len(path.certificates_)
    assert len(path.Cs_) == len(path.coefs_) == len(path.intercepts_)
    Cs = [1e-2, 10.0, *path.breakpoints_[1:3, 0], *10.0 ** rng.uniform(-2, 1, 8)]
    assert_within(path, X, y, 0.02, Cs, weights, ratio, intercept)


@pytest.mark.parametrize("seed", range(4))
def test_bends_where_features_come_in_are_covered(seed):
    # With an l1 part the path bends where a feature comes in; a mix beside the middle of two solved models may then be a bad one.
    X, y = data_of(seed)
    path = LinearSVCPath(Cs=[2e-4, 0.05], l1_ratios=0.8, loss="hinge", guarantee=0.01, random_state=0).fit(X, y)
    assert path.uncovered_ == []
    assert_within(path, X, y, 0.01, 10.0 ** np.random.default_rng(seed).uniform(-3.6, -1.4, 5), ratio=0.8)


def test_a_mix_that_is_proven_up_to_its_own_c_alone_is_not_made_again(monkeypatch):
    # Such a mix adds nothing beyond where the walk is: a model is trained there instead.
    made = []

    def no_further(pair, strengths, epsilon, C, limit):
        made.append(C)
        assert len(made) < 2000
        first, second, _ = pair.parts
        return C if first is not second and limit > C else reach(pair, strengths, epsilon, C, limit)

    monkeypatch.setattr(guaranteed_path, "reach", no_further)
    X, y = data_of(0)
    path = LinearSVCPath(Cs=[1e-2, 10.0], l1_ratios=0.0, guarantee=0.02, random_state=0).fit(X, y)
    assert path.uncovered_ == []


def test_fewer_solves_than_a_grid_would_need():
    X, y = make_classification(300, 20, random_state=0)
    path = LinearSVCPath(Cs=[1e-3, 10.0], l1_ratios=0.0, guarantee=0.01, random_state=0).fit(X, y)
    assert len(path.Cs_) <= 15
    finer = LinearSVCPath(Cs=[1e-3, 10.0], l1_ratios=0.0, guarantee=0.001, random_state=0).fit(X, y)
    assert len(path.Cs_) < len(finer.Cs_) <= 4 * len(path.Cs_)


def test_several_classes_sparse_rows_and_pickles():
    X, y = make_classification(150, 10, n_informative=5, n_classes=3, random_state=0)
    X[np.abs(X) < 0.5] = 0.0
    path = LinearSVCPath(Cs=[0.01, 1.0], l1_ratios=0.0, loss="hinge", guarantee=0.02, random_state=0).fit(sparse.csr_array(X), y)
    assert [len(each) for each in path.breakpoints_] == [len(each) for each in path.mixes_]
    for k in range(3):
        assert_within(path, X, np.where(y == k, 1, 0), 0.02, [0.05, 0.7], side=k)
    again = pickle.loads(pickle.dumps(path))
    model = again.model_at(0.2)
    assert model.coef_.shape == (3, 10)
    assert model.predict(X).shape == (150,)
    np.testing.assert_array_equal(model.coef_, path.model_at(0.2).coef_)
    assert again.predict(X).shape == (150,)


def test_the_proof_file_has_both_ends_of_every_range(tmp_path):
    X, y = data_of(3, n=30)
    path = LinearSVCPath(Cs=[0.05, 0.5], l1_ratios=0.0, loss="hinge", guarantee=0.05, random_state=0).fit(X, y)
    path.proof_.save(tmp_path / "path.proof", data=tmp_path / "path.data")
    _, values = verify_proof((tmp_path / "path.proof").read_bytes(), (tmp_path / "path.data").read_bytes())
    assert len(values) == 2 * len(path.breakpoints_)
    for primal, dual in values:  # in exact fractions
        assert primal <= (1 + 0.05) * dual
    with pytest.raises(ProofError, match="fit it again"):
        pickle.loads(pickle.dumps(path)).proof_.save(tmp_path / "again.proof", X, y)


def test_where_the_walk_ends_early_the_path_says_what_is_not_covered():
    X, y = data_of(1)
    path = LinearSVCPath(Cs=[1e-2, 1e3], l1_ratios=0.0, guarantee=0.001, solver="sdca", max_iter=6, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"no proven model for some C between .* and 1000 .*'max_epochs'.*raise max_iter"):
        path.fit(X, y)
    assert path.status_ == "max_epochs"
    assert path.guarantee_ == np.inf
    high = path.uncovered_[-1][1]
    assert high == 1e3
    with pytest.raises(ValueError, match=r"C=999.0 has no proven model: .* except \["):
        path.model_at(999.0)
    if len(path.breakpoints_):
        assert_within(path, X, y, 0.001, [path.breakpoints_[0, 0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = LinearSVCPath(Cs=[1e-2, 1.0], l1_ratios=0.0, guarantee=0.01, random_state=0).fit(X, y)
    assert again.uncovered_ == []


def test_a_guarantee_below_rounding_is_not_claimed():
    X, y = data_of(1)
    path = LinearSVCPath(Cs=[0.1, 1.0], l1_ratios=0.0, guarantee=1e-15, random_state=0)
    with pytest.warns(ConvergenceWarning, match="no proven model"):
        path.fit(X, y)
    assert path.guarantee_ == np.inf
    assert path.status_ != "converged"


@pytest.mark.parametrize("guarantee", [0, 0.0, 1.0, 2, -0.01, np.nan, "1 %", True])
def test_bad_guarantees(guarantee):
    X, y = data_of(0)
    with pytest.raises(ValueError, match=r"guarantee=.* must be a number between 0 and 1"):
        LinearSVCPath(guarantee=guarantee).fit(X, y)


def test_bad_ranges_and_ratios():
    X, y = data_of(0)
    for Cs in ([1.0], [2.0, 2.0], 1):
        with pytest.raises(ValueError, match="no two different values"):
            LinearSVCPath(Cs=Cs, l1_ratios=0.0, guarantee=0.1).fit(X, y)
    for Cs in ([0.0, 1.0], [-1.0, 1.0], [1.0, np.inf], [np.nan, 1.0]):
        with pytest.raises(ValueError, match=r"Cs=.* must be a positive number"):
            LinearSVCPath(Cs=Cs, l1_ratios=0.0, guarantee=0.1).fit(X, y)
    for ratios in (1.0, [0.0, 0.5], -0.1, np.nan):
        with pytest.raises(ValueError, match="must be one number in"):
            LinearSVCPath(Cs=[0.1, 1.0], l1_ratios=ratios, guarantee=0.1).fit(X, y)
    with pytest.raises(ValueError, match="one class only"):
        LinearSVCPath(Cs=[0.1, 1.0], l1_ratios=0.0, guarantee=0.1).fit(X, np.ones(len(y)))


def test_model_at_asks_for_a_guarantee_and_a_c_of_the_range():
    X, y = data_of(0)
    grid = LinearSVCPath(Cs=[0.1, 1.0], l1_ratios=0.0, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="without a guarantee"):
        grid.model_at(0.5)
    path = LinearSVCPath(Cs=[0.1, 1.0], l1_ratios=0.0, guarantee=0.05, random_state=0).fit(X, y)
    for C in (0.0999, 1.001):
        with pytest.raises(ValueError, match=r"has no proven model: the models cover C from 0.1.* to 1"):
            path.model_at(C)
    with pytest.raises(ValueError, match="C=-1 must be a positive number"):
        path.model_at(-1)
    exact = LinearSVC(C=1.0, tol=1e-9, random_state=0).fit(X, y)
    labels, proven = path.predict_proven(X)  # predictions are those of the largest C
    assert proven.any()
    np.testing.assert_array_equal(labels[proven], exact.predict(X)[proven])
    path.set_params(guarantee=None).fit(X, y)
    assert not hasattr(path, "breakpoints_")


def test_the_figure_has_the_band_and_the_guarantee():
    pytest.importorskip("matplotlib").use("Agg")
    X, y = data_of(0)
    path = LinearSVCPath(Cs=[1e-2, 10.0], l1_ratios=0.0, guarantee=0.02, random_state=0).fit(X, y)
    axes = path.plot_guarantee()
    heights = axes.get_lines()[0].get_ydata()
    assert 0 < heights.max() <= 5.0 * (1 + 1e-9)
    axes.figure.clf()
