"""NuSVR: against scikit-learn's, and its certificate in exact fractions."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
import sklearn.svm
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import scale

from dualgap import SVR, NuSVR

X, Y = scale(load_diabetes().data)[:200], load_diabetes().target[:200]


def objective(model, K, y, weights):
    """scikit-learn's, divided by C·Σs, at the model's own ε."""
    a = model._over_all_rows()[:, 0]
    excess = np.maximum(np.abs(K @ a + model.intercept_[0] - y) - model.epsilon_, 0.0)
    share = weights / weights.sum()
    return a @ K @ a / (2 * model.C * weights.sum()) + model.nu * model.epsilon_ + share @ excess


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("C", [1.0, 100.0])
@pytest.mark.parametrize("nu", [0.1, 0.5, 0.9, 1.0])
def test_model_is_scikit_learns(nu, C, kernel):
    settings = {"nu": nu, "C": C, "kernel": kernel, "gamma": 0.05}
    ours, theirs = NuSVR(tol=1e-7, **settings).fit(X, Y), sklearn.svm.NuSVR(tol=1e-6, **settings).fit(X, Y)
    assert ours.status_ == "converged"
    assert ours.certificate_.relative_gap <= 1e-7
    # Without the intercept, which is not unique where no support vector is free. Scores are up to 70, and the gap leaves them that much.
    np.testing.assert_allclose(ours.predict(X) - ours.intercept_, theirs.predict(X) - theirs.intercept_, atol=0.2)
    K = X @ X.T if kernel == "linear" else np.exp(-0.05 * ((X[:, None] - X) ** 2).sum(axis=2))
    assert objective(ours, K, Y, np.ones(len(Y))) == pytest.approx(ours.objective_, rel=1e-7)
    residuals = np.abs(ours.predict(X) - Y)
    assert np.mean(residuals > ours.epsilon_ + 0.1) <= nu  # ν bounds the share of rows outside of the tube
    assert ours.n_support_[0] >= nu * len(Y) * (1 - 1e-6)  # and, from below, that of the support vectors


def test_model_is_that_of_svr_with_its_epsilon():
    model = NuSVR(nu=0.4, C=10.0, tol=1e-9).fit(X, Y)
    same = SVR(epsilon=model.epsilon_, C=10.0, tol=1e-9).fit(X, Y)
    np.testing.assert_allclose(same.predict(X), model.predict(X), atol=0.05)


@pytest.mark.parametrize("seed", range(4))
def test_certificate_holds_in_exact_arithmetic(seed):
    rng = np.random.default_rng(seed)
    rows = np.round(rng.normal(size=(12, 2)), 1)
    y, weights = np.round(rows @ [1.0, -2.0] + rng.normal(size=12), 1), rng.integers(1, 4, 12).astype(float)
    model = NuSVR(nu=0.4, C=0.7, kernel="linear", tol=1e-6).fit(rows, y, sample_weight=weights)
    exact = [[Fraction(v) for v in row] for row in rows.tolist()]
    a, b, epsilon = [Fraction(v) for v in model._over_all_rows()[:, 0]], Fraction(model.intercept_[0]), Fraction(model.epsilon_)
    total, C, nu = Fraction(weights.sum()), Fraction(model.C), Fraction(model.nu)
    w = [sum(ai * row[k] for ai, row in zip(a, exact, strict=True)) for k in range(2)]
    residuals = [abs(row[0] * w[0] + row[1] * w[1] + b - Fraction(t)) for row, t in zip(exact, y.tolist(), strict=True)]
    losses = sum(Fraction(s) * max(r - epsilon, 0) for s, r in zip(weights.tolist(), residuals, strict=True))
    primal = (w[0] ** 2 + w[1] ** 2) / (2 * C * total) + nu * epsilon + losses / total
    assert primal <= Fraction(model.certificate_.primal) * (1 + Fraction(1, 10**13))  # c = s/Σs and l2 = 1/(C·Σs) are rounded
    # Any feasible β bounds the optimum from below: that of a = C·s·β, scaled into the box, made to balance, and to Σ c|β| ≤ ν.
    beta = [ai / (C * Fraction(s)) for ai, s in zip(a, weights.tolist(), strict=True)]
    c = [Fraction(s) / total for s in weights.tolist()]
    up, down = (sum(ci * abs(bi) for ci, bi in zip(c, beta, strict=True) if bi * sign > 0) for sign in (1, -1))
    factors = {1: min(1, down / up) if up else 0, -1: min(1, up / down) if down else 0}
    beta = [bi * factors[1 if bi > 0 else -1] for bi in beta]
    size = sum(ci * abs(bi) for ci, bi in zip(c, beta, strict=True))
    largest = max(abs(bi) for bi in beta)
    beta = [bi * min(1, nu / size, 1 / largest) for bi in beta]
    u = [sum(ci * bi * row[k] for ci, bi, row in zip(c, beta, exact, strict=True)) for k in range(2)]
    dual = sum(ci * bi * Fraction(t) for ci, bi, t in zip(c, beta, y.tolist(), strict=True)) - C * total / 2 * (
        u[0] ** 2 + u[1] ** 2
    )
    assert dual <= primal
    assert float(primal - dual) <= model.certificate_.gap * (1 + 1e-6) + 1e-12
    assert Fraction(model.certificate_.dual) <= dual + Fraction(1, 10**12)


def test_weights_targets_and_persistence():
    twice = np.arange(len(Y)) % 4 == 0
    weighted = NuSVR(tol=1e-8, gamma=0.05).fit(X, Y, sample_weight=np.where(twice, 2.0, 1.0))
    repeated = NuSVR(tol=1e-8, gamma=0.05).fit(np.vstack([X, X[twice]]), np.concatenate([Y, Y[twice]]))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=0.05)
    both = NuSVR(tol=1e-6, C=10.0).fit(X, np.stack([Y, -2 * Y], axis=1))
    assert both.epsilon_.shape == (2,)
    one = NuSVR(tol=1e-6, C=10.0).fit(X, Y)
    np.testing.assert_allclose(both.predict(X)[:, 0], one.predict(X), atol=0.5)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(one)).predict(X), one.predict(X))
    assert clone(one).get_params() == one.get_params()


def test_refusals():
    for nu in (0.0, 1.5):
        with pytest.raises(ValueError, match="nu="):
            NuSVR(nu=nu).fit(X, Y)
    with pytest.raises(ValueError, match="fit_intercept=False: NuSVR needs an intercept"):
        NuSVR(fit_intercept=False).fit(X, Y)
    model = NuSVR().fit(X, Y)  # its ε is not known exactly, so that nothing is proven of the exact model; SVR with epsilon_ proves
    assert not hasattr(model, "proof_")
    assert not hasattr(model, "prediction_bounds")


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_targets_that_a_constant_fits(value):
    model = NuSVR().fit(X, np.full(len(Y), value))
    assert model.status_ == "zero_optimum"
    assert model.fit_status_ == 0
    assert model.epsilon_ == 0.0
    np.testing.assert_allclose(model.predict(X), value, atol=1e-9)
