"""Certificates: weak duality for any dual point and any model, feasibility, intercepts, and models that others trained."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC

import dualgap
from conftest import make_data
from dualgap import Certificate, CertificateError, Problem, certify
from dualgap.proof import best_intercept, certificate_of, dual_from_margins, dual_point, lower_bound
from dualgap.proof.intercepts import intercept_from_support_vectors
from reference import REFERENCE_LOSSES, Model, dual_value, loss_of, optimum, primal_value, w_of_beta

LOSSES = list(REFERENCE_LOSSES)
PENALTIES = {"l2": (0.0, 0.05), "elastic_net": (0.02, 0.05), "l1": (0.02, 0.0)}
INTERCEPTS = ["none", "penalised", "free"]
CASES = [c for c in itertools.product(LOSSES, PENALTIES, INTERCEPTS) if c[1:] != ("l1", "penalised")]
every_case = pytest.mark.parametrize(("loss", "penalty", "intercept"), CASES, ids=str)

SETS = {seed: make_data(24, 3, seed) for seed in range(3)}


def twins(loss, penalty, intercept, seed=0, weighted=False):
    """The same problem for dualgap and in plain NumPy."""
    X, y = SETS[seed]
    l1, l2 = PENALTIES[penalty]
    weights = np.random.default_rng(seed).integers(0, 4, len(y)).astype(float) if weighted else None
    if weights is not None:
        weights[:2] = 1.0
    delta = 0.5 if loss == "smooth_hinge" else None
    problem = Problem(X, y, loss_of(loss), delta, l2, l1, weights, intercept, intercept_scale=1.5)
    c = np.full(len(y), 1 / len(y)) if weights is None else weights / weights.sum()
    return problem, Model(X, y, c, REFERENCE_LOSSES[loss], l2, l1, intercept, 1.5)


def imbalance(problem, beta):
    """|Σ cβy| in ulps of Σ cβ: zero but for the rounding of that sum."""
    mass = float(np.sum(problem.c * beta))
    return abs(float(np.sum(problem.c * beta * problem.y))) / (2**-53 * mass) if mass > 0 else 0.0


_optima = {}


def optimum_of(loss, penalty, intercept, seed=0, weighted=False):
    key = (loss, penalty, intercept, seed, weighted)
    if key not in _optima:
        _optima[key] = optimum(twins(*key)[1], loss)
    return _optima[key]


# -------------------------------------------------------------------------------------------------------------- weak duality


@every_case
@settings(max_examples=25)
@given(
    seed=st.sampled_from(list(SETS)), weighted=st.booleans(), draw=st.integers(0, 10**6), size=st.sampled_from([0.01, 1.0, 30.0])
)
def test_any_dual_point_bounds_any_model(loss, penalty, intercept, seed, weighted, draw, size):
    problem, model = twins(loss, penalty, intercept, seed, weighted)
    rng = np.random.default_rng(draw)
    size = min(size, 1.0) if loss == "cubic_hinge" else size  # D is P(w(β)) less the gap, and this P would be 1e9
    beta = size * rng.normal(size=problem.n)  # nothing is asked of it: the certificate makes it feasible
    w, b = size * rng.normal(size=problem.d), size * rng.normal() * (intercept != "none")
    best = optimum_of(loss, penalty, intercept, seed, weighted)
    point = dual_point(problem, beta)
    assert lower_bound(problem, beta) <= best + 1e-11
    assert (point.beta >= 0).all()
    assert (point.beta <= problem.loss.upper_bound()).all()
    if intercept == "free":
        assert imbalance(problem, point.beta) <= 4
    assert dual_value(model, point.beta) == pytest.approx(lower_bound(problem, beta), rel=1e-10, abs=1e-10)
    certificate = certify(problem, w, b, dual=beta)
    assert certificate.primal == pytest.approx(primal_value(model, w, b), rel=1e-12)
    assert certificate.gap >= certificate.primal - best - 1e-11
    from_margins = certify(problem, w, b, epochs=0)
    assert from_margins.dual <= best + 1e-11
    assert from_margins.gap >= certificate.primal - best - 1e-11


@pytest.mark.parametrize(("loss", "intercept"), list(itertools.product(LOSSES, INTERCEPTS)), ids=str)
@settings(max_examples=10)
@given(draw=st.integers(0, 10**6), size=st.sampled_from([0.01, 1.0, 30.0]))
def test_certify_raises_its_bound_and_stays_below_the_optimum(loss, intercept, draw, size):
    problem, model = twins(loss, "elastic_net", intercept, seed=1, weighted=True)
    rng = np.random.default_rng(draw)
    w, b = size * rng.normal(size=problem.d), size * rng.normal() * (intercept != "none")
    best = optimum_of(loss, "elastic_net", intercept, 1, True)
    quick, long = certify(problem, w, b, epochs=0), certify(problem, w, b, epochs=40)
    assert quick.dual <= long.dual <= best + 1e-11
    assert quick.source == "margins"
    true = primal_value(model, w, b) - best
    assert long.gap >= true - 1e-11
    # By then what it reports is mostly the model's own distance from the optimum.
    assert long.gap <= 1.1 * true + 0.05 * best


@pytest.mark.parametrize("penalty", list(PENALTIES))
def test_a_bound_is_never_below_the_trivial_one(penalty):
    """β = 0 is feasible and D(0) = 0: whatever the model, no certificate says less."""
    problem, _ = twins("squared_hinge", penalty, "free")
    assert certify(problem, np.full(3, 1e3), -50.0, epochs=0).dual >= 0.0
    assert certify(problem, np.full(3, 1e3), -50.0, epochs=1).dual >= 0.0


@pytest.mark.parametrize(("loss", "penalty"), list(itertools.product(LOSSES, ["l2", "elastic_net"])), ids=str)
def test_the_model_of_a_dual_point(loss, penalty):
    problem, model = twins(loss, penalty, "none", weighted=True)
    beta = np.random.default_rng(0).random(problem.n)
    point = dual_point(problem, beta)
    np.testing.assert_allclose(point.coef, w_of_beta(model, beta), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(point.stored, point.coef)


def test_dual_point_leaves_what_it_was_given():
    problem, _ = twins("hinge", "l1", "free")
    beta = np.linspace(-1, 3, problem.n)
    dual_point(problem, beta)
    np.testing.assert_array_equal(beta, np.linspace(-1, 3, problem.n))


def test_balance_moves_free_variables_alone_where_these_are_enough():
    """D then changes in second order of what is off; a class scaled as a whole costs the first order."""
    X, y = make_data(200, 3, 3)
    problem = Problem(X, y, "hinge", l2=1e-2, intercept="free")
    best = dualgap.solve(problem, "newton", tol=1e-10)
    beta = best.dual.copy()
    free = np.flatnonzero((beta > 0.2) & (beta < 0.8))
    beta[free[0]] += 1e-3
    point = dual_point(problem, beta)
    at_bound = (beta == 0.0) | (beta == 1.0)
    np.testing.assert_allclose(point.beta[at_bound], beta[at_bound], atol=1e-12)  # one of them takes up rounding
    assert ((point.beta > 0.0) & (point.beta < 1.0))[~at_bound].all()
    heavier = problem.y * (problem.c @ (problem.y * beta)) > 0.0
    scaled = np.where(heavier, beta * (problem.c[~heavier] @ beta[~heavier]) / (problem.c[heavier] @ beta[heavier]), beta)
    optimum = best.certificate.dual
    assert optimum - lower_bound(problem, beta) < 0.2 * (optimum - lower_bound(problem, scaled))


def test_balance_scales_a_class_where_free_variables_are_too_few():
    X, y = make_data(40, 2, 3)
    problem = Problem(X, y, "hinge", l2=0.1, intercept="free")
    beta = np.where(problem.y > 0.0, 1.0, 0.0)
    beta[np.flatnonzero(problem.y < 0.0)[0]] = 0.5
    point = dual_point(problem, beta)
    assert imbalance(problem, point.beta) <= 4
    np.testing.assert_allclose(point.beta[problem.y > 0.0], 0.5 / np.count_nonzero(problem.y > 0.0))


@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=30)
@given(draw=st.integers(0, 10**6), spread=st.sampled_from([0.0, 8.0, 14.0]))
def test_balance_is_exact_for_weights_of_any_size(loss, draw, spread):
    rng = np.random.default_rng(draw)
    X, y = make_data(40, 2, 3)
    problem = Problem(X, y, loss_of(loss), l2=0.1, sample_weight=10.0 ** rng.uniform(-spread, 0, 40), intercept="free")
    beta = dual_point(problem, rng.random(40)).beta
    assert imbalance(problem, beta) <= 4
    assert (beta >= 0).all()
    assert (beta <= problem.loss.upper_bound()).all()


def test_a_class_without_mass_leaves_the_zero_point():
    problem, _ = twins("hinge", "l2", "free")
    point = dual_point(problem, (problem.y > 0).astype(float))
    assert not point.beta.any()
    assert lower_bound(problem, (problem.y > 0).astype(float)) == pytest.approx(0.0, abs=1e-12)


def test_l1_alone_is_scaled_into_its_box():
    problem, model = twins("hinge", "l1", "none")
    point = dual_point(problem, np.ones(problem.n))
    assert np.abs(model.X.T @ (model.c * model.y * point.beta)).max() <= model.l1
    assert point.coef is None


def test_storages_give_one_certificate():
    X, y = SETS[0]
    w, beta = np.arange(3.0), np.linspace(0, 1, len(y))
    dense = Problem(X, y, l2=0.05, intercept="free")
    expected, raised = [certify(dense, w, 0.3, dual=beta), certify(dense, w, 0.3, epochs=0)], certify(dense, w, 0.3)
    for form in (sparse.csr_matrix(X), sparse.coo_array(X)):
        problem = Problem(form, y, l2=0.05, intercept="free")
        for found, wanted in zip([certify(problem, w, 0.3, dual=beta), certify(problem, w, 0.3, epochs=0)], expected, strict=True):
            assert found.primal == pytest.approx(wanted.primal, rel=1e-13)
            assert found.dual == pytest.approx(wanted.dual, rel=1e-9)
        # The method that raises a bound may be another one; each stops where a tenth of the gap can be due to the bound.
        assert certify(problem, w, 0.3).dual == pytest.approx(raised.dual, abs=0.1 * raised.gap)
    kernel = Problem(X, y, l2=0.05, intercept="free", kernel="linear")
    a = np.linalg.lstsq(X.T, w, rcond=None)[0]
    assert certify(kernel, a, 0.3).primal == pytest.approx(expected[1].primal, rel=1e-12)
    assert certify(kernel, a, 0.3, dual=beta).dual == pytest.approx(expected[0].dual, rel=1e-12)


# ---------------------------------------------------------------------------------------------------------------- intercepts


@pytest.mark.parametrize(("loss", "intercept"), list(itertools.product(LOSSES, ["penalised", "free"])), ids=str)
@settings(max_examples=40)
@given(draw=st.integers(0, 10**6), size=st.sampled_from([0.0, 1e-3, 1.0, 1e3, 1e8]), weighted=st.booleans())
def test_best_intercept(loss, intercept, draw, size, weighted):
    problem, model = twins(loss, "l2", intercept, seed=2, weighted=weighted)
    rng = np.random.default_rng(draw)
    scores = size * rng.normal(size=problem.n)
    scores[rng.random(problem.n) < 0.3] = 0.0  # many kinks in one place
    b = best_intercept(problem, scores)

    def cost(b):
        b = np.atleast_1d(b)
        values = model.loss.value(model.y * (scores + b[:, None])) @ model.c
        return values + (model.l2 / 2 * (b / model.scale) ** 2 if intercept == "penalised" else 0.0)

    reach = 2.0 + 2.0 * np.abs(scores).max()
    others = np.concatenate(
        [np.linspace(-reach, reach, 4001), model.y - scores, b + np.geomspace(1e-9, reach, 80), b - np.geomspace(1e-9, reach, 80)]
    )
    least = cost(b)[0]
    assert least <= np.min(cost(others)) + 1e-10 * (1 + abs(least))


def test_no_intercept_is_zero():
    problem, _ = twins("hinge", "l2", "none")
    assert best_intercept(problem, np.arange(24.0)) == 0.0


def test_intercept_from_support_vectors():
    # 1-D, separable: the plane halfway between the nearest of the two classes.
    X = np.array([[-3.0], [-1.0], [2.0], [5.0]])
    problem = Problem(X, [0, 0, 1, 1], l2=1e-4, intercept="none")
    assert intercept_from_support_vectors(problem, np.array([2.0]), np.array([0.0, 1.0, 1.0, 0.0])) == pytest.approx(-1.0)
    with pytest.raises(ValueError, match="both classes have a support vector"):
        intercept_from_support_vectors(problem, np.array([2.0]), np.array([0.0, 0.0, 1.0, 0.0]))


# ----------------------------------------------------------------------------------------------------- models of other makers


@pytest.mark.parametrize("tol", [1e-1, 1e-6])
@pytest.mark.parametrize("C", [0.05, 5.0])
@pytest.mark.parametrize(("loss", "name"), [("hinge", "hinge"), ("squared_hinge", "squared_hinge")])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_linear_svc_models(tol, C, loss, name):
    X, y = make_data(60, 4, 5)
    svc = LinearSVC(C=C, loss=loss, tol=tol, intercept_scaling=2.0, random_state=0, max_iter=5 if tol > 1e-3 else 100_000).fit(X, y)
    problem = Problem(X, y, loss, l2=1 / (C * 60), intercept="penalised", intercept_scale=2.0)
    best = optimum(Model(X, y, np.full(60, 1 / 60), REFERENCE_LOSSES[loss], problem.l2, 0.0, "penalised", 2.0), name)
    certificate = certify(problem, svc.coef_, svc.intercept_, epochs=200)
    assert certificate.gap >= certificate.primal - best - 1e-12
    assert certificate.dual <= best + 1e-12
    if tol < 1e-3:
        assert certificate.relative_gap < 1e-3


@pytest.mark.parametrize(
    ("sgd_loss", "loss", "penalty"),
    [("hinge", "hinge", "l2"), ("log_loss", "logistic", "elasticnet"), ("squared_hinge", "squared_hinge", "l2")],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_sgd_classifier_models(sgd_loss, loss, penalty):
    X, y = make_data(60, 4, 6)
    alpha, ratio = 0.05, 0.3 if penalty == "elasticnet" else 0.0
    sgd = SGDClassifier(loss=sgd_loss, penalty=penalty, alpha=alpha, l1_ratio=ratio, max_iter=30, tol=None, random_state=0).fit(
        X, y
    )
    problem = Problem(X, y, loss, l2=alpha * (1 - ratio), l1=alpha * ratio, intercept="free")
    best = optimum(Model(X, y, np.full(60, 1 / 60), REFERENCE_LOSSES[loss], problem.l2, problem.l1, "free"), loss)
    certificate = certify(problem, sgd.coef_, sgd.intercept_, epochs=200)
    true = certificate.primal - best
    assert true > 0
    assert true - 1e-12 <= certificate.gap <= 1.02 * true + 0.02 * best


def test_certify_reports_an_optimal_model_as_such():
    problem, _ = twins("logistic", "elastic_net", "free")
    result = dualgap.solve(problem, "sdca", tol=1e-9, max_epochs=5000)
    certificate = certify(problem, result.coef, result.intercept, epochs=0)
    assert certificate.relative_gap < 1e-6
    assert certify(problem, result.coef, result.intercept, dual=result.dual).relative_gap <= 1e-9


# --------------------------------------------------------------------------------------------------------- exact, or no number


def test_a_kernel_that_is_none_raises():
    """Not positive semidefinite: the primal has no minimum, and "bounds" cross it."""
    _, y = make_data(20, 2)
    rng = np.random.default_rng(0)
    K = rng.normal(size=(20, 20))
    K = K + K.T
    problem = Problem(K, y, l2=1e-3, kernel="precomputed")
    with pytest.raises(CertificateError, match="not positive semidefinite"):
        certify(problem, 1e7 * np.linalg.eigh(K)[1][:, 0], dual=np.zeros(20))
    assert issubclass(CertificateError, ArithmeticError)


def test_no_negative_gap_is_clipped():
    assert certificate_of(1.0, 1.0, "given").gap == 0.0
    with pytest.raises(CertificateError, match=r"is at most 1\.0, and no objective is below 1\.0000000000000002"):
        certificate_of(1.0, 1.0 + 2**-52, "given")


@pytest.mark.parametrize("offset", [1e3, 1e6])
@pytest.mark.parametrize("loss", LOSSES)
def test_data_far_from_the_origin(loss, offset):
    """Sums of large terms cancel in u(β) and in Σ cβy: what rounding leaves there must not turn the gap negative."""
    X, y = make_data(60, 3, 4)
    problem = Problem(X + offset, y, loss_of(loss), l2=0.1, intercept="free")
    rng = np.random.default_rng(0)
    for _ in range(20):
        w = rng.normal(size=3)
        b = best_intercept(problem, problem.scores(w))
        assert np.isfinite(certify(problem, w, b).gap)
        point = dual_from_margins(problem, problem.y * (problem.scores(w) + b))
        assert imbalance(problem, point.beta) <= 4


def test_huge_models_have_huge_gaps():
    problem, _ = twins("squared_hinge", "l2", "penalised")
    certificate = certify(problem, np.full(3, 1e100), 1e100)
    assert certificate.gap > 1e100
    assert certificate.dual >= 0.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"coef": np.ones(2)}, "coef has 2 values where 3 are needed"),
        ({"coef": np.ones((2, 3))}, "coef has 2 dimensions"),
        ({"coef": [1.0, np.inf, 0.0]}, r"coef\[1\] is inf"),
        ({"coef": np.ones(3), "intercept": 1.0}, "intercept=1 but the problem has none"),
        ({"coef": np.ones(3), "intercept": [0.0, 0.0]}, "intercept has 2 values where 1 are needed"),
        ({"coef": np.ones(3), "intercept": np.nan}, r"intercept\[0\] is nan"),
        ({"coef": np.ones(3), "dual": np.ones(5)}, "dual has 5 values where 24 are needed"),
        ({"coef": np.ones(3), "dual": np.full(24, np.nan)}, r"dual\[0\] is nan"),
        ({"coef": np.ones(3), "epochs": -1}, "epochs=-1"),
    ],
)
def test_certify_refuses(arguments, words):
    problem, _ = twins("hinge", "l2", "none")
    with pytest.raises(ValueError, match=words):
        certify(problem, **arguments)


@pytest.mark.parametrize(
    ("certificate", "words"),
    [
        (Certificate(0.5, 0.4995, "solver"), "primal 0.5, dual 0.4995, gap 5.0e-04: at most 0.1 % above the optimum"),
        (Certificate(0.5, 0.0, "margins"), "gap 5.0e-01: at most 0.5 above the optimum"),
        (Certificate(0.5, 0.5, "given"), "gap 0.0e+00: at most 0 % above the optimum"),
    ],
)
def test_text(certificate, words):
    assert words in str(certificate)


def test_relative_gap_of_a_worthless_bound():
    assert Certificate(0.0, -1.0, "given").relative_gap == np.inf
    assert Certificate(2.0, 1.0, "given").relative_gap == pytest.approx(0.5, rel=1e-12)
    assert Certificate(1.0, -1.0, "given", radius=0.25).relative_gap >= 4.0  # the exact objective may be as small as 0.5
    assert Certificate(np.inf, 1.0, "given").relative_gap == np.inf


def test_certify_is_deterministic():
    problem, _ = twins("hinge", "l2", "free")
    assert certify(problem, np.ones(3), 0.1, seed=3) == certify(problem, np.ones(3), 0.1, seed=3)


def test_zero_model_counts_weights_that_were_replaced():
    problem = dualgap.Problem(np.zeros((4, 1)), [1, -1, -1, -1], l2=1.0, intercept="free").replace(c=np.array([0.7, 0.1, 0.1, 0.1]))
    result = dualgap.solve(problem, tol=1e-6)
    assert result.certificate.primal == pytest.approx(0.6)  # b = 1: the three other rows have a loss of 2 each
    assert result.converged


def test_a_balance_that_underflows_is_not_taken_for_exact():
    problem = dualgap.Problem(np.ones((3, 1)), [1, -1, 1], l2=1.0, intercept="free").replace(c=np.array([0.5, 0.5, 5e-311]))
    exact = dualgap.certify(problem, np.zeros(1), 0.0, dual=np.array([1.0, 1.0, 1e-20]))
    assert exact.gap >= exact.primal - exact.dual >= 0.0
