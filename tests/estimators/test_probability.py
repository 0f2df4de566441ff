"""predict_proba: it agrees with the labels, its temperature is the best one, and its scores are those of rows held out."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import scale

from dualgap import SVC, LinearSVC
from dualgap.estimators.probability import agreed, best_temperature

MODELS = {
    "svc": SVC(probability=True, random_state=0),
    "svc, ties broken": SVC(probability=True, break_ties=True, random_state=0),
    "svc, pairs": SVC(probability=True, decision_function_shape="ovo", random_state=0),
    "svc, clipped": SVC(probability=True, kernel="sigmoid", indefinite="clip", random_state=0),
    "linear": LinearSVC(probability=True, random_state=0),
    "joint": LinearSVC(probability=True, multi_class="crammer_singer", tol=0.01, random_state=0),
    "logistic": LinearSVC(loss="log_loss", random_state=0),
    "multinomial": LinearSVC(loss="log_loss", multi_class="multinomial", random_state=0),
}


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("kind", MODELS)
def test_the_most_probable_class_is_the_label(kind, classes):
    X, y = make_classification(150, 6, n_informative=4, n_classes=classes, flip_y=0.2, random_state=0)
    model = clone(MODELS[kind]).fit(X, np.array(list("abcd"))[y])
    new = np.vstack([X, 1e3 * X, 1e-9 * X, np.random.default_rng(0).normal(size=(3000, 6))])
    found = model.predict_proba(new)
    assert found.shape == (len(new), classes)
    assert (model.classes_[found.argmax(axis=1)] == model.predict(new)).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(new)), found)
    assert ((found >= 0) & (found <= 1)).all()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(new), found)
    np.testing.assert_allclose(found[:150], clone(model).fit(X, np.array(list("abcd"))[y]).predict_proba(X), rtol=1e-9)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), K=st.integers(2, 5))
def test_probabilities_agree_with_any_labels(seed, K):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(K), 20)
    p[:5] = 1.0 / K
    codes = rng.integers(K, size=20)
    found = agreed(p, codes)
    assert (found.argmax(axis=1) == codes).all()
    np.testing.assert_allclose(np.sort(found, axis=1), np.sort(p, axis=1), rtol=1e-15)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), K=st.integers(2, 4))
def test_the_temperature_has_the_least_log_loss(seed, K):
    rng = np.random.default_rng(seed)
    codes = np.r_[np.arange(K), rng.integers(K, size=40)]
    scores = 10.0 ** rng.uniform(-3, 3) * (rng.normal(size=(len(codes), K)) + np.eye(K)[codes])
    weights = rng.uniform(0.5, 2.0, len(codes))
    N = weights.sum()
    targets = np.where(np.eye(K)[codes] > 0, (N + 1) / (N + 2), 1 / (N + 2) / (K - 1))

    def loss(T):
        return -float(weights @ (targets * log_softmax(T * scores, axis=1)).sum(axis=1))

    T = best_temperature(scores, codes, weights)
    other = minimize_scalar(lambda t: loss(np.exp(t)), bounds=(np.log(T) - 3, np.log(T) + 3), method="bounded")
    assert loss(T) <= other.fun + 1e-9 * abs(other.fun)


def test_the_scores_are_those_of_rows_held_out():
    X, y = load_breast_cancer(return_X_y=True)
    X, y, weights = scale(X)[:200], y[:200], np.random.default_rng(0).uniform(0.5, 2.0, 200)
    model = SVC(C=10.0, probability=True, random_state=3).fit(X, y, weights)
    scores = np.empty(200)
    for train, test in StratifiedKFold(5, shuffle=True, random_state=3).split(X, y):
        scores[test] = SVC(C=10.0, random_state=3).fit(X[train], y[train], weights[train]).decision_function(X[test])
    assert model.temperature_ == best_temperature(np.column_stack([np.zeros(200), scores]), y, weights)
    f = model.decision_function(X)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-model.temperature_ * f)), rtol=1e-9)


def test_they_are_about_as_good_as_scikit_learns_calibration():
    X, y = make_classification(1200, 10, n_informative=4, n_classes=3, flip_y=0.1, random_state=1)
    ours = SVC(probability=True, random_state=0).fit(X[:600], y[:600])
    theirs = CalibratedClassifierCV(SVC(random_state=0), ensemble=False).fit(X[:600], y[:600])
    assert log_loss(y[600:], ours.predict_proba(X[600:])) <= 1.2 * log_loss(y[600:], theirs.predict_proba(X[600:]))


def test_all_kinds_of_input():
    X, y = load_iris(return_X_y=True, as_frame=True)
    values = X.to_numpy()
    plain = SVC(gamma=0.5, probability=True, random_state=0).fit(values, y)
    K = np.exp(-0.5 * np.square(values[:, None] - values[None]).sum(axis=2))
    matrix = SVC(kernel="precomputed", probability=True, random_state=0).fit(K, y)
    np.testing.assert_allclose(matrix.predict_proba(K), plain.predict_proba(values), atol=1e-3)
    frame = SVC(gamma=0.5, probability=True, random_state=0).fit(X, pd.Series(y))
    np.testing.assert_array_equal(frame.predict_proba(X), plain.predict_proba(values))
    thin = LinearSVC(probability=True, random_state=0, class_weight={0: 2.0}).fit(sparse.csr_array(values), y)
    assert thin.predict_proba(sparse.csr_array(values)).shape == (150, 3)


def test_it_is_off_unless_asked_for():
    X, y = load_iris(return_X_y=True)
    for model in (SVC(), LinearSVC()):
        assert not hasattr(model, "predict_proba")
        with pytest.raises(AttributeError, match="predict_proba"):
            model.predict_proba  # noqa: B018
        model.fit(X, y)
        assert not hasattr(model, "temperature_")
        with pytest.raises(NotFittedError, match="not available when fitted with probability=False"):
            model.set_params(probability=True).predict_proba(X)
        model.fit(X, y).set_params(probability=False).fit(X, y)
        assert not hasattr(model, "temperature_")
    with pytest.raises(ValueError, match="two rows of every class"):
        SVC(probability=True).fit(X[:101], y[:101])
    assert not hasattr(LinearSVC(probability=True), "partial_fit")  # a batch that is forgotten cannot be held out
