"""leave_one_out and forget of the estimators."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import scale

from dualgap import SVC, LinearSVC
from dualgap.proof import ProofError


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X)[:150], y[:150]


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return scale(X)[::2], y[::2]


@pytest.mark.parametrize("model", [LinearSVC(C=0.1), LinearSVC(C=0.1, loss="hinge"), SVC(C=1.0)], ids=str)
def test_two_classes_left_out(model, cancer):
    X, y = cancer[0][:60], cancer[1][:60]
    found = model.fit(X, y).proof_.leave_one_out().exact()
    model.set_params(tol=1e-9)
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        assert (found.status[i] == "right") == (model.fit(X[others], y[others]).predict(X[[i]])[0] == y[i])


def test_several_classes_left_out(iris):
    X, y = iris
    found = LinearSVC(C=0.05, loss="hinge", tol=1e-2).fit(X, y).proof_.leave_one_out()
    assert (found.status == "open").any()
    found.exact(n_jobs=2)
    assert found.low == found.high
    model = LinearSVC(C=0.05, loss="hinge", tol=1e-9)
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        assert (found.status[i] == "right") == (model.fit(X[others], y[others]).predict(X[[i]])[0] == y[i])


def test_forget_keeps_the_model_and_certifies_it_on_the_rest(cancer):
    X, y = cancer
    model = LinearSVC(C=0.01, loss="hinge", tol=1e-6).fit(X, y)
    coef = model.coef_.copy()
    receipt = model.proof_.forget([3, 77], max_relative_gap=0.2)
    assert not receipt.retrained
    assert (model.coef_ == coef).all()
    assert (receipt.forgotten, receipt.remaining) == (2, 148)
    stays = np.setdiff1d(np.arange(150), [3, 77])
    exact = LinearSVC(C=0.01, loss="hinge", tol=1e-9, max_iter=5000).fit(X[stays], y[stays])
    assert np.linalg.norm(exact.coef_ - model.coef_) <= receipt.distance
    assert receipt.intercept[0] <= exact.intercept_[0] <= receipt.intercept[1]
    assert model.certificate_ == receipt.certificate
    assert model.certificate_.dual <= exact.certificate_.primal <= model.certificate_.primal * (1 + 1e-9)
    assert not np.isin([3, 77], model.support_).any()
    assert "2 rows forgotten" in str(receipt)
    assert receipt.to_dict()["rows"] == [3, 77]
    # What is asked of the model later is about the rows that stay.
    assert len(model.proof_.leave_one_out().status) == 148


def test_forget_trains_again_where_the_promise_is_exceeded(cancer):
    X, y = cancer
    model = LinearSVC(C=1.0, tol=1e-6, random_state=0).fit(X, y)
    first = model.proof_.forget(np.arange(150) == 5, max_relative_gap=np.inf)
    second = model.proof_.forget([9], max_relative_gap=0.0)
    assert (first.retrained, second.retrained, second.forgotten) == (False, True, 2)
    stays = np.setdiff1d(np.arange(150), [5, 9])
    exact = LinearSVC(C=1.0, tol=1e-10, random_state=0).fit(X[stays], y[stays])
    assert np.allclose(model.coef_, exact.coef_, atol=1e-3)
    assert np.linalg.norm(exact.coef_ - model.coef_) <= second.distance
    assert second.distance < 1e-2 * second.length  # a gap of 1e-6 allows a sixth of that


def test_forget_with_several_classes(iris):
    X, y = iris
    model = LinearSVC(C=0.1).fit(X, y)
    receipts = model.proof_.forget([0, 40, 60])
    assert [receipt.label for receipt in receipts] == ["class 0", "class 1", "class 2"]
    assert [c.relative_gap <= 0.01 for c in model.certificate_] == [True] * 3


def test_rows_that_cannot_be_forgotten(cancer):
    X, y = cancer
    model = LinearSVC(C=0.1).fit(X, y)
    for rows, error, words in [
        (np.flatnonzero(y == 1), ValueError, "all that is left of class 1"),
        ([1, 1], ValueError, "1 twice"),
        ([150], IndexError, "150, which is not a row"),
        ([-1], IndexError, "-1, which is not a row"),
        (np.ones(3, dtype=bool), ValueError, "a mask with 3 entries"),
        ([0.5], TypeError, "float64"),
        ([[1]], ValueError, "shape"),
        (3, ValueError, "shape"),
    ]:
        with pytest.raises(error, match=words):
            model.proof_.forget(rows)
    assert model.proof_.forget([]).forgotten == 0
    assert model.proof_.forget([4]).forgotten == 1
    with pytest.raises(ValueError, match="forgotten already"):
        model.proof_.forget([4])
    with pytest.raises(ValueError, match="max_relative_gap"):
        model.proof_.forget([6], max_relative_gap=-1)


def test_models_that_cannot(cancer, iris):
    X, y = cancer
    for model in (LinearSVC(), SVC()):
        with pytest.raises(NotFittedError):
            model.proof_.leave_one_out()
    with pytest.raises(NotFittedError):
        LinearSVC().proof_.forget([0])
    loaded = pickle.loads(pickle.dumps(LinearSVC(C=0.1, random_state=0).fit(X, y)))
    with pytest.raises(ProofError, match="loaded from a file"):
        loaded.proof_.forget([0])
    with pytest.raises(ProofError, match="give X, y"):
        loaded.proof_.leave_one_out()
    assert loaded.proof_.leave_one_out(X, y).low <= loaded.proof_.leave_one_out(X, y).high
    with pytest.raises(ProofError, match="balanced"):
        LinearSVC(class_weight="balanced", random_state=0).fit(X, y).proof_.forget([0])
    with pytest.raises(ProofError, match="crammer_singer"):
        LinearSVC(multi_class="crammer_singer", random_state=0).fit(*iris).proof_.forget([0])
    with pytest.raises(ProofError, match="two classes"):
        SVC(random_state=0).fit(*iris).proof_.leave_one_out()
    with pytest.raises(ProofError, match="l2 penalty"):
        LinearSVC(l1_ratio=1.0, C=0.1, random_state=0).fit(X, y).proof_.leave_one_out()
    with pytest.raises(ProofError, match="partial_fit"):
        LinearSVC(random_state=0).partial_fit(X, y, classes=[0, 1]).proof_.leave_one_out()
