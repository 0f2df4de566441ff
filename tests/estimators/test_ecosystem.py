"""Ours among scikit-learn's: pipelines, searches, calibration, stacking, routing of weights, data frames; and a light import."""

import subprocess
import sys

import numpy as np
import pytest
import sklearn
import sklearn.svm
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, StackingClassifier
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dualgap
from dualgap import SVC, LinearSVC, NuSVC


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


@pytest.mark.parametrize("name", ["LinearSVC", "LinearSVR", "NuSVC", "NuSVR", "OneClassSVM", "SVC", "SVR"])
def test_takes_what_get_params_of_scikit_learn_returns_and_has_its_attributes(name):
    X, y = load_iris(return_X_y=True)
    own = {"NuSVC": {"nu": 0.2}, "LinearSVR": {"max_iter": 100_000}}.get(name, {})  # theirs warns at its own limit
    theirs = getattr(sklearn.svm, name)(**own).fit(X, y)
    ours = getattr(dualgap, name)(**theirs.get_params()).fit(X, y)
    varying = {"support_", "support_vectors_", "dual_coef_"}  # a row on the margin may be a support vector of one of them
    for attribute in dir(theirs):
        if (
            attribute.endswith("_")
            and not attribute.startswith("_")
            and attribute not in ("probA_", "probB_")
            and hasattr(theirs, attribute)
        ):
            assert attribute in varying or np.shape(getattr(ours, attribute)) == np.shape(getattr(theirs, attribute))


@pytest.mark.parametrize("model", [LinearSVC(), SVC(), NuSVC(nu=0.2)], ids=str)
def test_a_class_whose_rows_all_have_weight_0_is_left_out(model):
    X, y = load_iris(return_X_y=True)
    model.set_params(probability=True, tol=1e-8, random_state=0)
    if not isinstance(model, LinearSVC):
        model.set_params(gamma=0.5)  # "scale" looks at all rows
    weights = np.where(y == 1, 0.0, 1.0)
    model.fit(X, y, weights)
    assert model.classes_.tolist() == [0, 2]
    expected = model.decision_function(X)
    if isinstance(model, (LinearSVC, SVC)):
        assert (model.proof_.support()[y == 1] == "out").all()
        assert not set(model.predict_proven(X)[0]) - {0, 2}
    np.testing.assert_allclose(model.fit(X[y != 1], y[y != 1]).decision_function(X), expected, atol=1e-5)


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")  # AdaBoost takes logarithms of the weights
@pytest.mark.parametrize("ensemble", [BaggingClassifier, AdaBoostClassifier])
@pytest.mark.parametrize("model", [LinearSVC(), SVC()], ids=str)
def test_ensembles_may_give_a_class_no_weight(ensemble, model):
    X, y = make_classification(200, 5, random_state=0)
    y[0] = 7
    weights = np.where(y == 7, 0.0, 1.0)
    assert ensemble(model, n_estimators=5, random_state=0).fit(X, y, sample_weight=weights).score(X, y) > 0.9


@pytest.mark.parametrize("model", [LinearSVC, SVC])
def test_class_weight_may_name_a_class_that_a_fold_lacks(model):
    X, y = make_classification(200, 5, random_state=0)
    y[0] = 7
    assert cross_val_score(model(class_weight={0: 1, 1: 2, 7: 5}), X, y, cv=KFold(4), error_score="raise").min() > 0.8
    with pytest.raises(ValueError, match="class_weight has the label 6"):
        model(class_weight={0: 1, 6: 2}).fit(X, y)


@pytest.mark.parametrize(
    "model", [LinearSVC(loss="hinge"), SVC(kernel="linear"), dualgap.SVR(kernel="linear"), dualgap.LinearSVR()], ids=str
)
def test_small_tables_have_one_model_dense_and_sparse(cancer, model):
    X, y = cancer
    X = StandardScaler().fit_transform(X)
    dense = model.fit(X, y)
    support, dual = dense.support_, dense.dual_coef_
    model.fit(sparse.csr_array(X), y)
    np.testing.assert_array_equal(model.support_, support)
    np.testing.assert_allclose(
        model.dual_coef_.toarray() if sparse.issparse(model.dual_coef_) else model.dual_coef_, dual, rtol=1e-9
    )


@pytest.mark.parametrize(
    "model",
    [
        SVC(kernel="linear"),
        SVC(),
        dualgap.NuSVC(nu=0.1, kernel="linear"),
        dualgap.SVR(kernel="linear"),
        dualgap.NuSVR(kernel="linear"),
    ],
    ids=str,
)
def test_kernel_machines_train_the_same_model_each_time(model):
    """As scikit-learn's, whose SVR has no random_state; of few sparse rows, whose model is that of an array."""
    rng = np.random.default_rng(0)
    X, y = rng.poisson(0.2, size=(80, 36)).astype(float), rng.integers(0, 3, 80)
    first, again = model.fit(X, y).dual_coef_, model.fit(X, y).dual_coef_
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(model.fit(sparse.csr_array(X), y).dual_coef_.toarray(), first, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("model", [LinearSVC, SVC, dualgap.SVR, dualgap.LinearSVR])
def test_an_infinite_C_says_what_to_give_instead(cancer, model):
    with pytest.raises(ValueError, match=r"C=inf must be finite\. With the hinge or the epsilon-insensitive loss"):
        model(C=np.inf).fit(*cancer)


def test_a_finite_C_has_the_hard_tube():
    """All residuals are within ε, no dual variable is at C, and a larger C has the same model."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = X @ [1.0, -2.0, 0.5] + rng.uniform(-0.05, 0.05, 40)
    models = [dualgap.SVR(kernel="linear", epsilon=0.1, C=C, tol=1e-8).fit(X, y) for C in (1e3, 1e5)]
    for model in models:
        assert np.abs(model.predict(X) - y).max() <= 0.1 + 1e-5
        assert np.abs(model.dual_coef_).max() < 1e3
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, atol=1e-3)


def test_a_finite_C_has_the_hard_margin_model():
    X, y = load_iris(return_X_y=True)
    X, y = X[:100], y[:100]
    first, second = (SVC(kernel="linear", C=C, tol=1e-8).fit(X, y) for C in (1e3, 1e5))
    assert np.abs(first.dual_coef_).max() < 1e3
    np.testing.assert_allclose(first.coef_, second.coef_, rtol=1e-3)
