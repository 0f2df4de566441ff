"""Bounds on the coefficients of LinearSVC: `positive`, `bounds`, `monotonic_cst`, and what keeps them."""

import numpy as np
import pytest
from scipy.optimize import nnls
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification

import dualgap
from conftest import make_data
from dualgap import LinearSVC, LinearSVR
from dualgap.store import write_store

X, y = make_data(80, 4, seed=2)


def fitted(**options):
    return LinearSVC(tol=1e-8, random_state=0, **options).fit(X, y)


@pytest.mark.parametrize(("loss", "l1_ratio"), [("hinge", 0.0), ("squared_hinge", 0.0), ("squared_hinge", 0.2), ("log_loss", 0.2)])
def test_positive_coefficients(loss, l1_ratio):
    model, plain = (fitted(loss=loss, l1_ratio=l1_ratio, positive=positive) for positive in (True, False))
    assert model.status_ == "converged"
    assert (model.coef_ >= 0.0).all()
    assert (plain.coef_ < 0.0).any()
    assert model.objective_ > plain.objective_


def test_the_three_ways_say_the_same():
    by_sign = fitted(monotonic_cst=[1, 0, -1, 1])
    by_bounds = fitted(bounds=([0, -np.inf, -np.inf, 0], [np.inf, np.inf, 0, np.inf]))
    both = fitted(bounds=([0, -np.inf, -np.inf, -1], [np.inf, np.inf, 0, np.inf]), monotonic_cst=[0, 0, 0, 1])
    assert by_sign.objective_ == pytest.approx(by_bounds.objective_, rel=1e-7)
    assert by_sign.objective_ == pytest.approx(both.objective_, rel=1e-7)
    assert (by_sign.coef_[0] * [1, 0, -1, 1] >= 0.0).all()
    assert fitted(positive=True).objective_ == pytest.approx(fitted(bounds=(0, None)).objective_, rel=1e-7)


def test_signs_by_the_names_of_features():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["income", "debt", "age", "years"])
    model = LinearSVC(monotonic_cst={"income": 1, "debt": -1, "age": 0}, tol=1e-8).fit(frame, y)
    assert model.coef_[0, 0] >= 0.0 >= model.coef_[0, 1]
    assert model.objective_ == pytest.approx(fitted(monotonic_cst=[1, -1, 0, 0]).objective_, rel=1e-7)
    with pytest.raises(ValueError, match="has the feature 'wealth', which X does not have; its features are"):
        LinearSVC(monotonic_cst={"wealth": 1}).fit(frame, y)
    with pytest.raises(ValueError, match="monotonic_cst of feature 'debt' is 2; it must be -1, 0 or 1"):
        LinearSVC(monotonic_cst={"debt": 2}).fit(frame, y)
    with pytest.raises(ValueError, match="monotonic_cst and the other bounds of feature 'debt' contradict each other"):
        LinearSVC(monotonic_cst={"debt": -1}, bounds=(0.5, None)).fit(frame, y)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"positive": "yes"}, "positive='yes' must be True or False"),
        ({"positive": True, "bounds": (None, -1.0)}, "positive and the other bounds of feature 0 contradict each other: no coeff"),
        ({"bounds": (1.0, 0.0)}, "no coefficient of feature 0"),
        ({"bounds": ([0.0, 0.0], None)}, r"bounds\[0\] has shape \(2,\)"),
        ({"monotonic_cst": [1, 0]}, r"monotonic_cst has shape \(2,\), but X has 4 features"),
        ({"monotonic_cst": [1, 0, 0.5, 0]}, "monotonic_cst of feature 2 is 0.5; it must be -1, 0 or 1"),
        ({"monotonic_cst": [np.nan, 0, 0, 0]}, "monotonic_cst of feature 0 is nan"),
        ({"monotonic_cst": {"income": 1}}, "a dict by feature names, but X has none"),
        ({"positive": True, "l1_ratio": 1.0}, "need an l2 penalty"),
        ({"positive": True, "multi_class": "crammer_singer"}, "positive: multi_class='crammer_singer' keeps no bounds"),
        ({"positive": True, "loss": "log_loss", "solver": "saga"}, "keep no bounds on coefficients; these can: "),
    ],
)
def test_what_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        LinearSVC(**options).fit(X, y)


def test_a_batch_of_a_stream_is_refused():
    model = LinearSVC(bounds=(0, None), monotonic_cst=[1, 0, 0, 0])
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError) as refusal:
        model.partial_fit(X, y, classes=[-1.0, 1.0])
    assert "bounds and monotonic_cst: partial_fit keeps no bounds" in str(refusal.value.__cause__)


def test_several_classes():
    iris, species = load_iris(return_X_y=True)
    model = LinearSVC(bounds=(-0.5, [1.0, 0.0, 1.0, 1.0]), tol=1e-6).fit(iris, species)
    assert ((model.coef_ >= -0.5) & (model.coef_ <= [1.0, 0.0, 1.0, 1.0])).all()
    assert all(certificate.relative_gap <= 1e-6 for certificate in model.certificate_)
    with pytest.raises(ValueError, match="monotonic_cst with 3 classes"):
        LinearSVC(monotonic_cst=[1, 0, 0, 0]).fit(iris, species)


def test_a_copy_and_a_warm_start():
    model = LinearSVC(positive=True, warm_start=True, tol=1e-8)
    assert clone(model).get_params() == model.get_params()
    first = model.fit(X, y).objective_
    assert model.set_params(C=0.5).fit(X, y).status_ == "converged"
    assert model.set_params(C=1.0, positive=False).fit(X, y).objective_ < first
    assert model.set_params(positive=True).fit(X, y).objective_ == pytest.approx(first, rel=1e-7)


def test_proofs_bounds_of_scores_and_rows_left_out(tmp_path):
    """What is built on certificates keeps the bounds: proof files, the ball, the status of features, rows left out."""
    wide, labels = make_classification(120, 12, n_informative=4, random_state=1)
    model = LinearSVC(positive=True, tol=1e-6, C=0.1).fit(wide, labels)
    fine = LinearSVC(positive=True, tol=1e-12, C=0.1).fit(wide, labels)
    low, high = model.decision_bounds(wide)
    scores = fine.decision_function(wide)
    assert ((low <= scores) & (scores <= high)).all()
    status = model.proof_.features()
    assert (fine.coef_[0][status == "zero"] == 0.0).all()
    assert (fine.coef_[0][status == "nonzero"] > 0.0).all()
    assert {"zero", "nonzero"} <= set(status.tolist())
    model.proof_.save(tmp_path / "model.proof", data=tmp_path / "data")
    assert dualgap.proof.verify.main([str(tmp_path / "model.proof"), str(tmp_path / "data")]) == 0
    model.proof_.forget([0, 5])
    again = LinearSVC(positive=True, tol=1e-9, C=0.1).fit(np.delete(wide, [0, 5], axis=0), np.delete(labels, [0, 5]))
    assert (model.coef_ >= 0.0).all()
    np.testing.assert_allclose(model.coef_, again.coef_, atol=2e-3)


def test_the_error_of_leaving_one_out_is_enclosed():
    few, labels = X[:30], y[:30]
    found = LinearSVC(positive=True, tol=1e-6, C=0.1).fit(few, labels).proof_.leave_one_out()
    wrong = 0
    for i in range(len(labels)):
        rest = np.delete(few, i, axis=0), np.delete(labels, i)
        wrong += LinearSVC(positive=True, tol=1e-9, C=0.1).fit(*rest).predict(few[[i]])[0] != labels[i]
    assert found.low <= wrong / len(labels) <= found.high


def test_regression_within_bounds():
    """Non-negative least squares as SciPy solves it, with the ridge as rows of its own; signs by name for each target."""
    targets = X @ [1.0, -2.0, 0.5, 0.0] + 0.1 * np.random.default_rng(0).normal(size=len(X))
    model = LinearSVR(loss="squared_error", C=0.5, fit_intercept=False, positive=True, tol=1e-10).fit(X, targets)
    best, _ = nnls(np.vstack([X, np.eye(4)]), np.append(targets, np.zeros(4)))  # C·Σ r² + ‖w‖²/2
    np.testing.assert_allclose(model.coef_, best, atol=1e-6)
    both = LinearSVR(monotonic_cst=[0, 1, -1, 0], bounds=(-1, None), tol=1e-6).fit(X, np.stack([targets, -targets], axis=1))
    assert both.status_ == "converged"
    assert (both.coef_[:, 1] >= 0.0).all()
    assert (both.coef_[:, 2] <= 0.0).all()
    assert (both.coef_ >= -1.0).all()
    with pytest.raises(ValueError, match="monotonic_cst has shape"):
        LinearSVR(monotonic_cst=[1]).fit(X, targets)


def test_a_store_keeps_bounds(tmp_path):
    store = write_store([(X[:40], y[:40]), (X[40:], y[40:])], tmp_path / "store")
    model = LinearSVC(bounds=(0.0, 0.2), tol=1e-6).fit(store)
    assert model.status_ == "converged"
    assert ((model.coef_ >= 0.0) & (model.coef_ <= 0.2)).all()
    assert model.objective_ == pytest.approx(fitted(bounds=(0.0, 0.2)).objective_, rel=2e-6)
