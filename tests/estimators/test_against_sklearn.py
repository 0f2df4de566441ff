"""Same C, same data, penalised intercept: our objective is not above scikit-learn's, and the predictions agree on held-out rows."""

import numpy as np
import pytest
import sklearn.svm
from sklearn.datasets import load_breast_cancer, load_digits, load_svmlight_file
from sklearn.preprocessing import normalize, scale

from dualgap import LinearSVC

TOL = 1e-5


def a9a(shared_data):
    return load_svmlight_file(str(shared_data("a9a")), n_features=123)


def w8a(shared_data):
    return load_svmlight_file(str(shared_data("w8a")), n_features=300)


def news20(shared_data):
    X, y = load_svmlight_file(str(shared_data("news20.bz2")))
    return normalize(X)[:5000], y[:5000]


def cancer(shared_data):
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


def digits(shared_data):
    X, y = load_digits(return_X_y=True)
    return X / 16, y


CASES = [
    pytest.param(cancer, "hinge", 1.0),
    pytest.param(cancer, "squared_hinge", 0.1),
    pytest.param(digits, "squared_hinge", 1.0),
    pytest.param(a9a, "squared_hinge", 1.0, marks=pytest.mark.data),
    pytest.param(w8a, "squared_hinge", 0.1, marks=pytest.mark.data),
    pytest.param(a9a, "hinge", 0.01, marks=pytest.mark.data),
    pytest.param(news20, "squared_hinge", 1.0, marks=pytest.mark.data),
]


def objective(model, X, y, loss, C, j, label):
    w, b = model.coef_[j], model.intercept_[j]
    short = np.maximum(0, 1 - np.where(y == label, 1, -1) * (X @ w + b))
    return C * np.sum(short**2 if loss == "squared_hinge" else short) + 0.5 * (w @ w + b * b)


@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")
@pytest.mark.parametrize(("data", "loss", "C"), CASES)
def test_objective_and_predictions(data, loss, C, shared_data):
    X, y = data(shared_data)
    rng = np.random.default_rng(0)
    held_out = rng.random(len(y)) < 0.25
    rows, labels = X[~held_out], y[~held_out]
    ours = LinearSVC(C=C, loss=loss, intercept="penalised", tol=TOL, n_jobs=2, random_state=0).fit(rows, labels)
    theirs = sklearn.svm.LinearSVC(C=C, loss=loss, tol=1e-6, max_iter=2000, random_state=0).fit(rows, labels)
    assert ours.status_ == "converged"
    sides = [(0, ours.classes_[1])] if len(ours.classes_) == 2 else list(enumerate(ours.classes_))
    for j, label in sides:
        assert objective(ours, rows, labels, loss, C, j, label) <= objective(theirs, rows, labels, loss, C, j, label) * (1 + TOL)
    assert np.mean(ours.predict(X[held_out]) == theirs.predict(X[held_out])) >= 0.995
