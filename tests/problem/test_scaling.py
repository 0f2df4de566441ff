"""scaling: the mapped problem has the other objective's minimiser, and its value up to the factor that the docstring names."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.svm import LinearSVC

import dualgap
from conftest import SKLEARN, make_data
from dualgap import scaling

X, y = make_data(80, 4, seed=7)
WEIGHTS = np.random.default_rng(0).uniform(0.5, 2.0, len(y))


def solved(**options):
    return dualgap.solve(dualgap.Problem(X, y, **options), "sdca", tol=1e-9, max_epochs=20_000, stall=False)


@pytest.mark.parametrize("C", [0.05, 2.0])
def test_C_of_liblinear(C):
    model = LinearSVC(C=C, loss="squared_hinge", fit_intercept=False, tol=1e-10, max_iter=100_000).fit(X, y, sample_weight=WEIGHTS)
    ours = solved(loss="squared_hinge", sample_weight=WEIGHTS, **scaling.from_C(C, WEIGHTS.sum()))
    np.testing.assert_allclose(ours.coef, model.coef_[0], atol=1e-4)
    margins = y * (X @ ours.coef)
    theirs = 0.5 * ours.coef @ ours.coef + C * WEIGHTS @ np.maximum(0, 1 - margins) ** 2
    assert theirs == pytest.approx(C * WEIGHTS.sum() * ours.certificate.primal, rel=1e-10)


def test_C_with_an_l1_ratio():
    options = {"solver": "saga", "fit_intercept": False, "tol": 1e-12, "max_iter": 100_000}
    if SKLEARN < (1, 8):
        options["penalty"] = "elasticnet"  # from 1.8 on, l1_ratio alone says so
    model = LogisticRegression(C=0.5, l1_ratio=0.3, **options).fit(X, y)
    ours = solved(loss="logistic", **scaling.from_C(0.5, len(y), l1_ratio=0.3))
    np.testing.assert_allclose(ours.coef, model.coef_[0], atol=1e-4)


@pytest.mark.parametrize("l1_ratio", [0.0, 0.4])
def test_alpha_of_sgd_classifier(l1_ratio):
    model = SGDClassifier(
        loss="log_loss",
        penalty="elasticnet",
        alpha=0.05,
        l1_ratio=l1_ratio,
        fit_intercept=False,
        max_iter=3000,
        tol=None,
        random_state=0,
    ).fit(X, y)
    penalty = scaling.from_alpha(0.05, l1_ratio)
    ours = solved(loss="logistic", **penalty)
    problem = dualgap.Problem(X, y, loss="logistic", **penalty)
    assert problem.objective(model.coef_[0]) == pytest.approx(ours.certificate.primal, rel=2e-3)
    np.testing.assert_allclose(model.coef_[0], ours.coef, atol=0.03)


@pytest.mark.parametrize("half", [True, False])
def test_sum_of_losses(half):
    lam, l1 = 3.0, 0.7
    problem = dualgap.Problem(X, y, **scaling.from_sum_of_losses(lam, len(y), half=half, l1=l1))
    for w in np.random.default_rng(1).normal(size=(5, 4)):
        theirs = np.maximum(0, 1 - y * (X @ w)).sum() + (lam / 2 if half else lam) * w @ w + l1 * np.abs(w).sum()
        assert theirs == pytest.approx(len(y) * problem.objective(w), rel=1e-12)


def test_sgd_on_the_mapped_problem_beats_the_unmapped_one():
    """Σφ + λ‖w‖² is not (1/n)Σφ + (λ/2)‖w‖²: trained on the one, a model is far from optimal on the other."""
    lam, n = 4.0, len(y)
    mapped = dualgap.Problem(X, y, **scaling.from_sum_of_losses(lam, n))
    unmapped = dualgap.Problem(X, y, l2=lam)
    right, wrong = (dualgap.solve(p, dualgap.SGD(), tol=5e-3, max_epochs=3000) for p in (mapped, unmapped))
    assert mapped.objective(right.coef) <= right.certificate.dual * 1.01
    assert mapped.objective(wrong.coef) > 1.3 * right.certificate.dual


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: scaling.from_C(0.0, 10), "C=0.0 must be a positive number"),
        (lambda: scaling.from_C(1.0, -1), "total_weight=-1 must be a positive number"),
        (lambda: scaling.from_alpha(1.0, 1.5), r"l1_ratio=1.5 must be a number in \[0, 1\]"),
        (lambda: scaling.from_sum_of_losses(1.0, 2.5), "n=2.5 must be the number of samples"),
        (lambda: scaling.from_sum_of_losses(-1.0, 5), "lam=-1.0 must be a positive number"),
        (lambda: scaling.from_sum_of_losses(1.0, 5, l1=-1), "l1=-1 must be a finite number"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
