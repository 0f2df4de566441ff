"""LinearSVC: what it promises about objective, gap and status, its parameters, weights, warm starts, callbacks and streams."""

import logging
import pickle
import re
import warnings
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
import sklearn.exceptions
import sklearn.svm
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import scale
from sklearn.utils._param_validation import InvalidParameterError

import dualgap
from dualgap import LinearSVC
from dualgap.estimators import ConvergenceWarning
from dualgap.estimators.fitting import warn_unless_converged
from dualgap.run import SUCCESSES, Status


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:500] / 16, y[:500]


LOSSES = {
    "hinge": lambda m: np.maximum(0, 1 - m),
    "squared_hinge": lambda m: np.maximum(0, 1 - m) ** 2,
    "log_loss": lambda m: np.logaddexp(0, -m),
}


def objective(model, X, signs, weights, C, j=0, penalised=False):
    """scikit-learn's objective for model j, in NumPy."""
    w, b = np.asarray(model.coef_)[j], np.atleast_1d(model.intercept_)[j]
    losses = LOSSES[model.loss](signs * (X @ w + b))
    return C * np.sum(weights * losses) + 0.5 * (w @ w + (b * b if penalised else 0.0))


# ------------------------------------------------------------------------------------------------- the problem and its answer


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "log_loss"])
def test_objective_is_that_of_the_model(cancer, loss):
    X, y = cancer
    weights = np.linspace(0.5, 2, len(y))
    model = LinearSVC(C=0.3, loss=loss, tol=1e-5, random_state=0).fit(X, y, weights)
    signs = np.where(y == 1, 1, -1)
    total = 0.3 * weights.sum()
    assert model.objective_ * total == pytest.approx(objective(model, X, signs, weights, 0.3), rel=1e-10)
    assert model.certificate_.primal == model.objective_
    assert model.dual_gap_ <= 1e-5 * model.objective_
    assert model.status_ == "converged"
    # dual_coef_ are the signed dual variables of scikit-learn's problem: they make a model as good as the gap says.
    w = model.dual_coef_ @ X[model.support_]
    np.testing.assert_allclose(w, model.coef_, atol=0.05 * np.abs(model.coef_).max())
    assert model.n_support_.sum() == len(model.support_)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("C", [0.01, 1.0])
def test_same_c_as_scikit_learn(cancer, loss, C):
    X, y = cancer
    signs, ones = np.where(y == 1, 1, -1), np.ones(len(y))
    ours = LinearSVC(C=C, loss=loss, intercept="penalised", tol=1e-6, random_state=0).fit(X[::2], y[::2])
    theirs = sklearn.svm.LinearSVC(C=C, loss=loss, tol=1e-10, max_iter=1_000_000, random_state=0).fit(X[::2], y[::2])
    best = objective(theirs, X[::2], signs[::2], ones[::2], C, penalised=True)
    assert objective(ours, X[::2], signs[::2], ones[::2], C, penalised=True) <= best * (1 + 1e-6)
    assert np.mean(ours.predict(X[1::2]) == theirs.predict(X[1::2])) >= 0.995


def test_intercept_scaling_is_that_of_scikit_learn(cancer):
    X, y = cancer
    params = {"C": 0.1, "intercept_scaling": 5.0, "random_state": 0}
    ours = LinearSVC(intercept="penalised", tol=1e-9, **params).fit(X, y)
    theirs = sklearn.svm.LinearSVC(tol=1e-10, max_iter=1_000_000, **params).fit(X, y)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-3)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 3.0, 2: 0.25}])
def test_class_weights_are_those_of_scikit_learn(digits, class_weight):
    X, y = digits
    few = y < 4
    X, y = X[few], y[few]
    ours = LinearSVC(C=0.1, class_weight=class_weight, intercept="penalised", tol=1e-9, random_state=0).fit(X, y)
    theirs = sklearn.svm.LinearSVC(C=0.1, class_weight=class_weight, tol=1e-10, max_iter=100_000, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)


def test_l1_gives_zeros_and_the_objective_of_scikit_learn(cancer):
    X, y = cancer
    ours = LinearSVC(l1_ratio=1.0, C=0.05, fit_intercept=False, tol=1e-5, max_iter=20_000, random_state=0).fit(X, y)
    theirs = sklearn.svm.LinearSVC(penalty="l1", dual=False, C=0.05, fit_intercept=False, tol=1e-8, max_iter=100_000).fit(X, y)
    signs = np.where(y == 1, 1, -1)

    def total(model):
        w = model.coef_[0]
        return np.abs(w).sum() + 0.05 * np.sum(np.maximum(0, 1 - signs * (X @ w)) ** 2)

    assert 0 < np.count_nonzero(ours.coef_) < X.shape[1]
    assert total(ours) <= total(theirs) * (1 + 1e-5)
    same = LinearSVC(penalty="l1", C=0.05, fit_intercept=False, tol=1e-5, max_iter=20_000, random_state=0).fit(X, y)
    np.testing.assert_array_equal(same.coef_, ours.coef_)


def test_one_against_rest_is_one_problem_a_class(digits):
    X, y = digits
    model = LinearSVC(C=0.1, random_state=0).fit(X, y)
    alone = LinearSVC(C=0.1, random_state=0).fit(X, y == 3)
    np.testing.assert_allclose(model.coef_[3], alone.coef_[0], atol=1e-10)
    assert model.certificate_[3] == alone.certificate_
    assert model.dual_coef_.shape == (10, len(model.support_))
    assert len(model.history_) == 10
    threads = LinearSVC(C=0.1, random_state=0, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(threads.coef_, model.coef_)


@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")  # before 1.9 the count of iterations is uninitialised
@pytest.mark.parametrize("intercept", ["free", "penalised"])
def test_crammer_singer_reaches_the_objective_of_scikit_learn(digits, intercept):
    X, y = digits
    ours = LinearSVC(C=0.05, multi_class="crammer_singer", intercept=intercept, tol=1e-4, random_state=0).fit(X, y)
    theirs = sklearn.svm.LinearSVC(C=0.05, multi_class="crammer_singer", tol=1e-8, max_iter=100_000, random_state=0).fit(X, y)

    def total(model):
        scores = X @ model.coef_.T + model.intercept_
        own = scores[np.arange(len(y)), y]
        losses = (scores + 1 - (y[:, None] == np.arange(10))).max(axis=1) - own
        squares = np.sum(model.coef_**2) + (np.sum(model.intercept_**2) if intercept == "penalised" else 0.0)
        return (0.5 * squares + 0.05 * losses.sum()) / (0.05 * len(y))

    assert ours.objective_ == pytest.approx(total(ours), rel=1e-10)
    assert total(ours) <= total(theirs) * (1 + 1e-4)
    assert ours.certificate_.dual <= total(theirs)
    assert ours.dual_coef_.shape == (10, len(ours.support_))
    again = LinearSVC(**{**ours.get_params(), "warm_start": True})
    again.fit(X, y)
    before = again.n_iter_
    assert again.fit(X, y).n_iter_ < before


@pytest.mark.parametrize("answer", [True, np.True_])
def test_a_callback_ends_crammer_and_singers_problem(digits, answer):
    X, y = digits
    stop = [lambda progress: answer if progress.epoch == 3 else None]
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = LinearSVC(multi_class="crammer_singer", tol=1e-9, callbacks=stop, random_state=0).fit(X, y)
    assert (model.status_, model.n_iter_) == ("interrupted", 3)
    assert {"passes", "cpu_seconds", "wall_seconds", "primal", "dual", "gap", "relative_gap"} <= set(model.history_.columns)


def test_ctrl_c_in_crammer_and_singers_problem(digits):
    X, y = digits

    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = LinearSVC(multi_class="crammer_singer", tol=1e-9, callbacks=[interrupt], random_state=0).fit(X, y)
    assert model.history_["epoch"].tolist() == [1]
    assert 0 < model.dual_gap_ < model.objective_


def test_the_whole_mix(digits):
    X, y = digits
    rows = sparse.csr_array(X.astype(np.float32))
    rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    weights = np.linspace(0.1, 3, len(y))
    names = np.array([f"digit {k}" for k in y])
    model = LinearSVC(loss="hinge", C=0.1, tol=1e-3, warm_start=True, random_state=0, n_jobs=2).fit(rows, names, weights)
    assert model.status_ == "converged"
    dense = LinearSVC(loss="hinge", C=0.1, tol=1e-3, random_state=0).fit(X.astype(np.float32).astype(np.float64), names, weights)
    np.testing.assert_allclose(model.objective_, dense.objective_, rtol=2e-3)
    total = 0.1 * weights.sum()
    for j in (0, 7):
        signs = np.where(y == j, 1, -1)
        value = objective(model, rows.toarray().astype(float), signs, weights, 0.1, j)
        assert value == pytest.approx(model.objective_[j] * total, rel=1e-9)
    first = model.n_iter_
    model.fit(rows, names, weights)
    assert model.n_iter_ <= first
    assert set(model.predict(rows)) <= set(names)
    np.testing.assert_array_equal(model.predict(rows), model.predict(rows.toarray()))


# -------------------------------------------------------------------------------------------------- the truth about convergence


@pytest.mark.parametrize("solver", ["auto", "sdca", "saga"])
@pytest.mark.parametrize("max_iter", [1, 3, 40])
def test_converged_means_certified(cancer, solver, max_iter):
    X, y = cancer
    model = LinearSVC(solver=solver, max_iter=max_iter, tol=1e-3, loss="log_loss", intercept="penalised", random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    certified = model.dual_gap_ <= 1e-3 * model.objective_
    assert (model.status_ == "converged") == certified
    assert bool(caught) != certified


def test_a_fit_that_ends_early_says_how_far_it_came(cancer):
    X, y = cancer
    with pytest.warns(ConvergenceWarning) as caught:
        model = LinearSVC(solver="sdca", max_iter=2, random_state=0).fit(X, y)
    (warning,) = caught
    assert warning.filename == __file__
    assert issubclass(warning.category, sklearn.exceptions.ConvergenceWarning)
    assert issubclass(warning.category, dualgap.ConvergenceWarning)
    text = str(warning.message)
    percent = float(re.search(r"at most ([\d.e+]+) % above the optimum", text).group(1))
    assert percent == pytest.approx(100 * model.dual_gap_ / model.certificate_.dual, rel=1e-2)
    assert "tol=1.0e-04" in text
    assert f"{model.certificate_.relative_gap:.1e}" in text
    assert "raise max_iter" in text
    assert model.status_ == "max_epochs"
    assert model.n_iter_ == 2


@pytest.mark.parametrize("status", [status for status in get_args(Status) if status not in SUCCESSES])
def test_every_status_of_a_run_has_its_words(status):
    result = SimpleNamespace(status=status, certificate=dualgap.Certificate(1.0, 0.5, "solver"), epochs=3)
    done = SimpleNamespace(status="converged", certificate=dualgap.Certificate(1.0, 1.0, "solver"), epochs=3)
    with pytest.warns(ConvergenceWarning, match=f"status '{status}'.*What to try: "):
        assert warn_unless_converged("LinearSVC", [done, result], tol=1e-4) == status


def test_max_time(cancer):
    X, y = cancer
    with pytest.warns(ConvergenceWarning, match="raise max_time"):
        model = LinearSVC(solver="sdca", C=1e4, tol=1e-12, max_iter=10**6, max_time=0.05, random_state=0).fit(X, y)
    assert model.status_ == "max_seconds"


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_interrupt_keeps_the_best_model(digits, n_jobs):
    X, y = digits
    calls = []

    def interrupt(progress):
        calls.append(progress.epoch)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = LinearSVC(solver="sdca", C=100, tol=1e-9, callbacks=[interrupt], n_jobs=n_jobs, random_state=0).fit(X, y)
    assert model.status_ == "interrupted"
    assert all(c.relative_gap < 1 for c in model.certificate_)
    assert model.score(X, y) > 0.8


# --------------------------------------------------------------------------------------------------------- parameters, errors


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"C": 0}, "C=0 must be a positive number"),
        ({"C": "1"}, "C='1' must be"),
        ({"tol": -1e-3}, "tol=-0.001 must be"),
        ({"max_iter": 2.5}, "max_iter=2.5 must be a whole number"),
        ({"max_time": 0}, "max_time=0 must be"),
        ({"l1_ratio": 1.5}, "l1_ratio=1.5 must be"),
        ({"penalty": "l3"}, "penalty='l3' is unknown"),
        ({"penalty": "l2", "l1_ratio": 0.5}, "contradict each other"),
        ({"intercept": "none"}, "intercept='none' is unknown"),
        ({"intercept": "penalised", "l1_ratio": 1}, "intercept='penalised' needs an l2 penalty"),
        ({"multi_class": "ovo"}, "multi_class='ovo' is unknown"),
        ({"multi_class": "crammer_singer", "l1_ratio": 0.5}, "l2 penalty alone"),
        ({"loss": "square"}, "loss='square' is unknown"),
        ({"delta": 0.5}, "delta=0.5 belongs to loss='smooth_hinge'"),
        ({"solver": "adam"}, "solver='adam' is unknown"),
        ({"class_weight": "even"}, "class_weight='even' is unknown"),
        ({"class_weight": {7: 1.0}}, "class_weight has the label 7"),
    ],
)
def test_errors_name_the_parameter(params, message):
    with pytest.raises(InvalidParameterError, match=re.escape(message)):
        LinearSVC(**params).fit([[0.0], [1.0]], [0, 1])


def test_errors_on_data():
    X = [[0.0], [1.0], [2.0]]
    with pytest.raises(ValueError, match="sample_weight is 0 for all rows but those of class 'a'"):
        LinearSVC().fit(X, ["a", "a", "b"], sample_weight=[1, 1, 0])
    with pytest.raises(ValueError, match=r"sample_weight\[1\] is -1"):
        LinearSVC().fit(X, ["a", "a", "b"], sample_weight=[1, -1, 1])
    with pytest.raises(ValueError, match="Input X contains NaN at row 1"):
        LinearSVC().fit([[0.0], [np.nan], [1.0]], [0, 1, 1])


def test_probabilities_belong_to_the_log_loss(cancer):
    X, y = cancer
    with pytest.raises(AttributeError, match="predict_proba"):
        LinearSVC().predict_proba  # noqa: B018
    model = LinearSVC(loss="log_loss", random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-model.decision_function(X))), atol=1e-12)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))


def test_warm_start_begins_where_the_last_fit_ended(cancer):
    X, y = cancer
    model = LinearSVC(solver="sdca", loss="hinge", C=0.1, tol=1e-5, warm_start=True, random_state=0).fit(X, y)
    cold = model.n_iter_
    assert model.fit(X, y).n_iter_ <= 2 < cold
    assert model.set_params(C=0.11).fit(X, y).n_iter_ < cold
    model.fit(X[:300], y[:300])  # other rows: the weights alone are reused
    assert model.status_ == "converged"


def test_same_seed_same_model(digits):
    X, y = digits
    fits = [LinearSVC(solver="sdca", C=0.1, random_state=seed).fit(X, y).coef_ for seed in (3, 3, 4)]
    np.testing.assert_array_equal(fits[0], fits[1])
    assert not np.array_equal(fits[0], fits[2])


# ------------------------------------------------------------------------------------------------------- callbacks and logging


def test_callbacks_see_progress_and_can_stop(cancer):
    X, y = cancer
    seen = []

    def stop_at_fifth(progress):
        seen.append((progress.epoch, progress.certificate.relative_gap))
        return len(seen) == 5

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = LinearSVC(solver="sdca", tol=1e-9, callbacks=[stop_at_fifth], random_state=0).fit(X, y)
    assert len(seen) == 5 == len(model.history_)
    assert model.status_ == "interrupted"


def test_log(cancer, caplog, capsys):
    X, y = cancer
    with caplog.at_level(logging.INFO, logger="dualgap"):
        LinearSVC(verbose=1, random_state=0).fit(X, y)
    assert all("gap" in message for message in caplog.messages)
    assert caplog.messages
    caplog.clear()
    LinearSVC(random_state=0).fit(X, y)
    assert not caplog.messages


def test_scikit_learn_callbacks(digits):
    pytest.importorskip("sklearn.callback", reason="scikit-learn's callbacks came with 1.9")
    X, y = digits
    events, scores = [], []

    class Recorder:
        def setup(self, estimator, context):
            events.append("setup")

        def on_fit_task_begin(self, estimator, context):
            events.append("begin")

        def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
            events.append("end")
            if fitted_estimator is not None:
                scores.append(fitted_estimator.score(X, y))

        def teardown(self, estimator, context):
            events.append("teardown")

    LinearSVC(random_state=0).set_callbacks(Recorder()).fit(X, y > 4)
    assert events[0] == "setup"
    assert events[-1] == "teardown"
    assert events.count("begin") == events.count("end") > 1
    assert max(scores) > 0.8
    events.clear()
    LinearSVC(random_state=0, n_jobs=2).set_callbacks(Recorder()).fit(X, y)
    assert events.count("begin") == events.count("end") == 11  # the fit and ten classes


# -------------------------------------------------------------------------------------------------------------------- streams


def test_a_stream_is_learnt(digits):
    X, y = digits
    model = LinearSVC(random_state=0)
    for start in range(0, 400, 40):
        model.partial_fit(X[start : start + 40], y[start : start + 40], classes=np.arange(10))
    assert model.status_ == "converged"
    assert model.score(X[400:], y[400:]) > 0.8
    assert not hasattr(model, "certificate_")


def test_a_batch_is_solved_as_promised(cancer):
    X, y = cancer
    signs = np.where(y == 1, 1.0, -1.0)
    model = LinearSVC(C=0.1, tol=1e-9, fit_intercept=False, random_state=0).partial_fit(X[:50], y[:50], classes=[0, 1])
    before = model.coef_[0].copy()
    model.partial_fit(X[50:90], y[50:90])

    def value(w):
        return 0.5 * np.sum((w - before) ** 2) + 0.1 * np.sum(np.maximum(0, 1 - signs[50:90] * (X[50:90] @ w)) ** 2)

    from scipy.optimize import minimize

    best = minimize(value, before, method="BFGS", options={"gtol": 1e-9})
    assert value(model.coef_[0]) <= best.fun * (1 + 1e-6)


def test_a_stream_may_bring_one_class_at_a_time():
    model = LinearSVC().partial_fit([[1.0]], [1], classes=[0, 1])
    model.partial_fit([[-1.0]], [0], sample_weight=[2.0])
    np.testing.assert_array_equal(model.predict([[-3.0], [3.0]]), [0, 1])
    kept = model.coef_.copy()
    model.partial_fit([[5.0]], [0], sample_weight=[1e-300])
    np.testing.assert_allclose(model.coef_, kept)


def test_a_stream_goes_on_from_a_fit(cancer):
    X, y = cancer
    model = LinearSVC(C=0.1, l1_ratio=0.2, tol=1e-6, random_state=0).fit(X, y)
    before = model.coef_.copy()
    model.partial_fit(X[:1], y[:1])
    assert np.abs(model.coef_ - before).max() < 0.2 * np.abs(before).max()


def test_ctrl_c_leaves_a_stream_as_it_was(cancer, monkeypatch):
    """And reaches the caller, whose loop over batches it is to end."""
    X, y = cancer
    model = LinearSVC(random_state=0).partial_fit(X[:50], y[:50], classes=[0, 1])
    before = model.coef_.copy(), model.intercept_.copy()

    def interrupt(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dualgap.estimators.streaming.BatchRun.step", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X[50:100], y[50:100])
    np.testing.assert_array_equal(model.coef_, before[0])
    np.testing.assert_array_equal(model.intercept_, before[1])
    model.partial_fit(X[50:100], y[50:100])
    assert model.status_ == "converged"


def test_errors_of_streams():
    with pytest.raises(ValueError, match="classes must be given at the first call"):
        LinearSVC().partial_fit([[1.0]], [1])
    with pytest.raises(ValueError, match="y has the label 3"):
        LinearSVC().partial_fit([[1.0]], [3], classes=[0, 1])
    with pytest.raises(ValueError, match="class weights that are known"):
        LinearSVC(class_weight="balanced").partial_fit([[1.0]], [1], classes=[0, 1])
    with pytest.raises(AttributeError, match="has no attribute 'partial_fit'"):
        LinearSVC(multi_class="crammer_singer").partial_fit  # noqa: B018


@pytest.mark.parametrize("solver", ["sgd", "sdca", "subgradient"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_warm_fit_does_not_end_worse_than_it_began(cancer, solver, loss):
    """One epoch of a method on the primal, or of one that ascends on the dual, may raise the objective; the better model is kept."""
    X, y = cancer
    model = LinearSVC(loss=loss, tol=1e-8, warm_start=True, random_state=0).fit(X, y)
    began = model.objective_
    model.set_params(solver=solver, max_iter=1, tol=0.0).fit(X, y)
    assert model.objective_ <= began
    assert model.certificate_.primal == model.objective_
    check = dualgap.certify(dualgap.Problem(X, y, loss, l2=1 / len(y), intercept="free"), model.coef_, model.intercept_)
    assert check.primal == pytest.approx(model.objective_, rel=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
def test_arrays_that_need_no_check_are_scored_as_others(digits, classes):
    X, y = digits[0], digits[1] % classes
    model = LinearSVC(random_state=0).fit(X, y)
    for given in (X.tolist(), np.asfortranarray(X), sparse.csr_matrix(X)):
        np.testing.assert_allclose(model.decision_function(X), model.decision_function(given), atol=1e-12)
        np.testing.assert_array_equal(model.predict(X), model.predict(given))
    for rows in (X, X[:20]):  # few values are checked in another way
        missing = rows.copy()
        missing[3, 5] = np.nan
        with pytest.raises(ValueError, match="NaN"):
            model.predict(missing)
        huge = np.where(rows > 0, 1e200, 0.0)  # finite, though squares overflow
        assert np.isfinite(model.decision_function(huge)).all()
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :-1])
    with pytest.raises(sklearn.exceptions.NotFittedError):
        LinearSVC().predict(X)


def test_labels_come_from_the_scores_of_a_subclass(cancer):
    class Shifted(LinearSVC):
        def decision_function(self, X):
            return super().decision_function(X) + 1e6

    X, y = cancer
    model = Shifted().fit(X, y)
    for rows in (X, X.tolist()):
        assert (model.predict(rows) == model.classes_[1]).all()


def test_a_vector_of_coefficients_scores_as_a_matrix_of_one_row(cancer):
    X, y = cancer
    model = LinearSVC().fit(X, y)
    scores = model.decision_function(X)
    model.coef_ = model.coef_.ravel()
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-12)


def test_an_attribute_that_was_assigned_stays(cancer):
    X, y = cancer
    model = LinearSVC().fit(X, y)
    model.dual_coef_ = np.zeros((1, 3))
    assert len(model.support_) > 3
    assert pickle.loads(pickle.dumps(model)).dual_coef_.shape == (1, 3)
