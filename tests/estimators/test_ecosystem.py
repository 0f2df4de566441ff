"""Ours among scikit-learn's: pipelines, searches, calibration, stacking, routing of weights, data frames; and a light import."""

import subprocess
import sys

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import StackingClassifier
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dualgap import SVC, LinearSVC


@pytest.fixture(scope="module")
def cancer():
    return load_breast_cancer(return_X_y=True)


def test_import_of_dualgap_leaves_scikit_learn_alone():
    there = "print('sklearn' in sys.modules)"
    code = f"import sys, dualgap; assert 'LinearSVC' in dir(dualgap); {there}; dualgap.SVC; {there}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.split() == ["False", "True"]


def test_grid_search_in_processes(cancer):
    X, y = cancer
    pipe = make_pipeline(StandardScaler(), LinearSVC(random_state=0))
    search = GridSearchCV(pipe, {"linearsvc__C": [0.01, 1.0], "linearsvc__loss": ["squared_hinge"]}, cv=2, n_jobs=2).fit(X, y)
    assert search.best_score_ > 0.95
    assert search.best_estimator_[-1].status_ == "converged"


def test_calibration_and_stacking(cancer):
    X, y = cancer
    X = StandardScaler().fit_transform(X)
    calibrated = CalibratedClassifierCV(LinearSVC(random_state=0), cv=3).fit(X, y)
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1)
    stack = StackingClassifier([("linear", LinearSVC(random_state=0)), ("rbf", SVC(random_state=0))], LogisticRegression(), cv=3)
    assert stack.fit(X, y).score(X, y) > 0.95


def test_weights_are_routed(cancer):
    X, y = cancer
    X = StandardScaler().fit_transform(X)
    weights = np.where(y == 1, 5.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = LinearSVC(random_state=0).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        result = cross_validate(model, X, y, params={"sample_weight": weights}, cv=2, return_estimator=True)
    first = result["estimator"][0]
    assert first.status_ == "converged"
    alone = LinearSVC(random_state=0)
    train = np.setdiff1d(np.arange(len(y)), first_test_rows(y))
    np.testing.assert_allclose(first.coef_, alone.fit(X[train], y[train], weights[train]).coef_, atol=1e-10)


def first_test_rows(y):
    from sklearn.model_selection import StratifiedKFold

    return next(iter(StratifiedKFold(2).split(np.zeros(len(y)), y)))[1]


def test_pandas(cancer):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    X, y = cancer
    frame = pd.DataFrame(X, columns=[f"column {k}" for k in range(X.shape[1])])
    pipe = make_pipeline(StandardScaler(), LinearSVC(random_state=0)).set_output(transform="pandas")
    pipe.fit(frame, pd.Series(np.where(y, "benign", "malignant")))
    assert list(pipe[-1].feature_names_in_) == list(frame.columns)
    assert set(pipe.predict(frame)) == {"benign", "malignant"}
    with pytest.raises(ValueError, match="feature names"):
        pipe.predict(frame[frame.columns[::-1]])
    picked = SelectFromModel(LinearSVC(C=0.01, l1_ratio=0.9, random_state=0)).set_output(transform="pandas")
    kept = picked.fit_transform(pipe[:-1].transform(frame), y)
    assert 0 < kept.shape[1] < X.shape[1]
    assert set(kept.columns) < set(frame.columns)


def test_polars(cancer):
    pl = pytest.importorskip("polars", reason="polars is not installed")
    X, y = cancer
    X = StandardScaler().fit_transform(X)
    frame = pl.DataFrame({f"column {k}": X[:, k] for k in range(X.shape[1])})
    model = LinearSVC(random_state=0).fit(frame, pl.Series(y))
    np.testing.assert_array_equal(model.predict(frame), LinearSVC(random_state=0).fit(X, y).predict(X))
    assert list(model.feature_names_in_) == frame.columns


def test_sparsify(cancer):
    X, y = cancer
    X = StandardScaler().fit_transform(X)
    model = LinearSVC(C=0.01, l1_ratio=0.9, warm_start=True, random_state=0).fit(X, y)
    expected = model.decision_function(X)
    model.sparsify()
    assert sparse.issparse(model.coef_)
    np.testing.assert_allclose(model.decision_function(X), expected)
    assert model.fit(X, y).status_ == "converged"
