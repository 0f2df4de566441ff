"""The best C, proven: intervals contain the errors of precise models, the winner is that of brute force, ties and open rows are said."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris, make_classification, make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from dualgap import SVC, LinearSVC, LinearSVCPathCV, SVCPathCV
from dualgap.answers import Fold, Pairs, contest, labels_by_class
from dualgap.estimators import ConvergenceWarning
from dualgap.estimators.path_choice import held_out
from dualgap.proof import verify_proof

CS = [0.001, 0.01, 0.1, 1.0, 10.0]


def brute_force(make, Cs, X, y, folds, weights=None):
    """Errors of precise models, an array of shape (folds, Cs)."""
    found = np.empty((len(folds), len(Cs)))
    for f, (train, test) in enumerate(folds):
        for j, C in enumerate(Cs):
            model = make(C).fit(X[train], y[train], None if weights is None else weights[train])
            found[f, j] = (model.predict(X[test]) != y[test]).mean()
    return found


def agrees(model, intervals, errors):
    assert (intervals[..., 0] - 1e-12 <= errors).all()
    assert (errors <= intervals[..., 1] + 1e-12).all()
    if model.proven_:
        assert model.Cs_[int(np.argmin(np.round(errors.mean(axis=0), 12)))] == model.C_


@pytest.mark.parametrize("loss", ["hinge", "smooth_hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
def test_linear_models_against_brute_force(loss, intercept):
    X, y = make_classification(120, 8, flip_y=0.2, random_state=LOSS_SEEDS[loss])
    weights = np.linspace(0.5, 1.5, len(y)) if intercept == "free" else None
    kind = {"fit_intercept": intercept != "none", "intercept": "free" if intercept == "none" else intercept}
    model = LinearSVCPathCV(Cs=CS, l1_ratios=0.0, loss=loss, cv=4, certified=True, random_state=0, **kind).fit(X, y, weights)
    folds = list(StratifiedKFold(4).split(X, y))

    def precise(C):
        return LinearSVC(C=C, loss=loss, tol=1e-10, max_iter=20_000, random_state=0, **kind)

    agrees(model, model.intervals_[:, 0], brute_force(precise, CS, X, y, folds, weights))
    assert model.proven_ or loss == "hinge"  # whose best intercept may be an interval
    assert model.status_ == "converged"
    assert model.certificate_.relative_gap <= 1e-4
    assert (model.C_, 0.0) in model.winners_
    if model.proven_:
        assert f"{model.C_:.6g}" in model.verdict_
        assert "proven best of 5 settings on these 4 folds" in model.verdict_


LOSS_SEEDS = {"hinge": 0, "smooth_hinge": 1, "squared_hinge": 2, "logistic": 3}


def test_several_classes_ratios_sparse_rows_and_a_proof(tmp_path):
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    options = {"Cs": [0.01, 0.1, 1.0], "l1_ratios": [0.0, 0.5], "cv": 3, "n_jobs": 2, "certified": True, "random_state": 0}
    model = LinearSVCPathCV(**options).fit(X, names)
    assert model.intervals_.shape == (3, 2, 3, 2)
    folds = list(StratifiedKFold(3).split(X, names))
    for i, ratio in enumerate([0.0, 0.5]):
        errors = brute_force(lambda C, r=ratio: LinearSVC(C=C, l1_ratio=r, tol=1e-9, max_iter=20_000), model.Cs_, X, names, folds)
        assert (model.intervals_[:, i, :, 0] - 1e-12 <= errors).all()
        assert (errors <= model.intervals_[:, i, :, 1] + 1e-12).all()
    other = LinearSVCPathCV(**options).fit(sparse.csr_array(X), names)
    assert (other.C_, other.l1_ratio_) == (model.C_, model.l1_ratio_)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert model.score(X, names) > 0.8
    model.proof_.save(tmp_path / "model.proof", data=tmp_path / "model.data")
    _, values = verify_proof((tmp_path / "model.proof").read_bytes(), (tmp_path / "model.data").read_bytes())
    assert len(values) == 3


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_kernel_machines_against_brute_force(loss):
    X, y = make_moons(100, noise=0.35, random_state=2)
    Cs = [0.1, 1.0, 10.0]
    model = SVCPathCV(Cs, gamma=0.7, loss=loss, cv=4, random_state=0).fit(X, y)
    folds = list(StratifiedKFold(4).split(X, y))
    K = rbf_kernel(X, gamma=0.7)
    if loss == "hinge":
        agrees(model, model.intervals_, brute_force(lambda C: SVC(C=C, gamma=0.7, tol=1e-10, max_iter=-1), Cs, X, y, folds))
    same = SVCPathCV(Cs, kernel="precomputed", loss=loss, cv=folds, random_state=0).fit(K, y)
    assert same.C_ == model.C_
    small = SVCPathCV(Cs, gamma=0.7, loss=loss, cv=folds, cache_size=0.01, random_state=0).fit(X, y)
    assert small.C_ == model.C_
    np.testing.assert_array_equal(model.predict(X), model.best_estimator_.predict(X))
    assert model.best_estimator_.C == model.C_
    assert model.decision_function(X).shape == (100,)


def test_pairs_of_classes_against_brute_force():
    X, y = load_iris(return_X_y=True)
    Cs = [0.01, 0.1, 1.0]
    model = SVCPathCV(Cs, gamma=0.3, cv=3, n_jobs=2, random_state=0).fit(X, y)
    folds = list(StratifiedKFold(3).split(X, y))
    errors = brute_force(lambda C: SVC(C=C, gamma=0.3, tol=1e-10, max_iter=-1), Cs, X, y, folds)
    assert (model.intervals_[..., 0] - 1e-12 <= errors).all()
    assert (errors <= model.intervals_[..., 1] + 1e-12).all()
    assert "folds" in model.verdict_


def test_a_tie_is_proven_and_the_smallest_c_taken():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(30, 2)) + 6, rng.normal(size=(30, 2)) - 6])
    y = np.repeat([1, 0], 30)
    model = LinearSVCPathCV(Cs=[0.1, 1.0, 10.0], l1_ratios=0.0, cv=3, certified=True, random_state=0).fit(X, y)
    assert model.proven_
    assert model.C_ == 0.1
    assert model.winners_ == [(0.1, 0.0), (1.0, 0.0), (10.0, 0.0)]
    assert model.verdict_.startswith("C = 0.1, C = 1, C = 10: proven best of 3 settings")
    assert "The first of them is taken" in model.verdict_


def test_rows_on_the_boundary_of_the_exact_model_stay_open():
    # By symmetry w* has no first coordinate and the score of (1, 0) is exactly 0 without an intercept, whatever C is: no gap decides it.
    X = np.array([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [0.3, 0.0], [0.5, 0.0]])
    y = np.array([1, 1, 0, 0, 1, 1])
    model = LinearSVCPathCV(Cs=[0.1, 1.0], l1_ratios=0.0, fit_intercept=False, cv=[(np.arange(4), [4, 5])], certified=True).fit(
        X, y
    )
    assert not model.proven_
    assert "cannot be told apart" in model.verdict_
    assert model.winners_ == [(0.1, 0.0), (1.0, 0.0)]
    np.testing.assert_array_equal(model.intervals_[0, 0], [[0.0, 1.0], [0.0, 1.0]])


def test_a_budget_that_ends_the_contest_warns():
    X, y = make_classification(200, 10, flip_y=0.3, random_state=0)
    model = LinearSVCPathCV(Cs=CS, l1_ratios=0.0, cv=3, certified=True, solver="sdca", max_iter=3, tol=0.5, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"cannot be told apart .*'max_epochs'.* raise max_iter"):
        model.fit(X, y)
    assert not model.proven_
    with pytest.warns(ConvergenceWarning, match="raise max_time"):
        SVCPathCV([0.1, 1.0, 10.0], cv=3, max_time=1e-6, random_state=0).fit(X, y)


def test_bad_arguments():
    X, y = make_classification(40, 5, random_state=0)
    with pytest.raises(ValueError, match=r"scoring='roc_auc' must be None"):
        LinearSVCPathCV(certified=True, l1_ratios=0.0, scoring="roc_auc").fit(X, y)
    with pytest.raises(ValueError, match=r"l1_ratios=1.0 must be a number in \[0, 1\) with certified=True"):
        LinearSVCPathCV(certified=True, l1_ratios=1.0).fit(X, y)
    for Cs in ([], [0.0], [np.nan], 3):
        with pytest.raises(ValueError, match="Cs"):
            SVCPathCV(Cs).fit(X, y)
    with pytest.raises(ValueError, match="one class only"):
        SVCPathCV().fit(X, np.ones(40))


def test_a_later_fit_without_certificates_forgets_the_proof():
    X, y = make_classification(60, 5, random_state=0)
    model = LinearSVCPathCV(Cs=[0.1, 1.0], l1_ratios=0.0, cv=3, certified=True, random_state=0).fit(X, y)
    model.set_params(certified=False).fit(X, y)
    assert not hasattr(model, "proven_")
    assert model.scores_.shape == (3, 1, 2)


def test_deciding_labels_from_intervals():
    low, high = np.array([0.1, -1.0, -1.0, 0.0, -2.0]), np.array([1.0, 0.0, 1.0, 1.0, -1.0])
    right, wrong = labels_by_class(np.array([1, 0, 1, 0, -1]), low[:, None], high[:, None])
    np.testing.assert_array_equal(right, [True, True, False, False, False])
    np.testing.assert_array_equal(wrong, [False, False, False, False, True])
    low, high, codes = np.array([[0.0, 2.0, 1.5]] * 4), np.array([[1.0, 3.0, 4.0]] * 4), np.array([0, 1, 2, -1])
    np.testing.assert_array_equal(labels_by_class(codes, low, high)[1], [True, False, False, True])
    # 0 beats 1 and 2 for sure: it has two votes, whatever 1 against 2 is.
    right, wrong = Pairs(np.array([[0.5, 0.5, -1.0]] * 4), np.array([[1.0, 1.0, 1.0]] * 4), 3).labels(codes)
    np.testing.assert_array_equal(right, [True, False, False, False])
    np.testing.assert_array_equal(wrong, [False, True, True, True])
    # One vote each: the first class wins.
    right, wrong = Pairs(np.array([[0.5, -1.0, 0.5]] * 4), np.array([[1.0, -0.5, 1.0]] * 4), 3).labels(codes)
    np.testing.assert_array_equal(right, [True, False, False, False])
    np.testing.assert_array_equal(wrong, [False, True, True, True])
    np.testing.assert_array_equal(held_out(np.array([2, 5]), np.array([5, 2, 3, 9])), [1, 0, -1, -1])


def test_a_contest_drops_what_cannot_win_and_stops():
    class Done:
        coef, intercept, dual, status, converged = None, 0.0, None, "converged", True

        class certificate:
            relative_gap = 0.0

    asked = []

    def fold(truth, size):
        """Setting k has truth[k] errors; each round decides another quarter of the rows."""

        def solve(k, warm, tol, seconds):
            asked.append((k, tol))
            solve.last = k, tol
            return [Done()]

        def decide(results):
            k, tol = solve.last
            known = np.arange(size) < size * round(-3.0 - np.log10(tol)) / 4
            wrong = np.arange(size) < truth[k]
            return known & ~wrong, known & wrong

        return Fold(size, solve, decide)

    outcome = contest([fold([90, 5, 6], 100), fold([90, 5, 4], 50)], 3)
    assert outcome.best == 2  # 6/100 + 4/50 < 5/100 + 5/50
    assert outcome.proven
    assert outcome.left == [2]
    assert max(tol for k, tol in asked if k == 0) == 1e-4
    assert len([1 for k, _ in asked if k == 0]) < len([1 for k, _ in asked if k == 1])
    assert outcome.mean_errors(2) == (0.07, 0.07)


@pytest.mark.filterwarnings("ignore::dualgap.estimators.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:The least populated class in y")
@parametrize_with_checks([LinearSVCPathCV(Cs=[1.0], l1_ratios=0.0, cv=2, certified=True), SVCPathCV([1.0], cv=2)])
def test_sklearn_checks(estimator, check):
    if check.func.__name__.startswith("check_sample_weight_equivalence"):
        pytest.skip("rows that are there twice are two rows of the folds; a weight of two is not")
    check(estimator)
