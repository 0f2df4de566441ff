"""Gaussian kernel values of rows far from zero, against long doubles."""

import numpy as np
import pytest
from scipy import sparse

import dualgap
from dualgap.kernels import KernelBlocks, distance_error, expansion, make_kernel, origin_of, own_expansion
from dualgap.kernels import distances as module
from dualgap.proof.bounded_scores import exact_scores, kernel_scores

RNG = np.random.default_rng(0)
N, D, GAMMA = 300, 6, 0.2
NEAR = RNG.normal(size=(N, D))
Y = np.where(np.sin(2.0 * NEAR[:, 0]) + 0.3 * RNG.normal(size=N) > 0, 1, -1)
A = RNG.normal(size=N)

PLACES = {
    "near zero": np.zeros(D),
    "at 1e4": np.full(D, 1e4),
    "at 1e8": np.full(D, 1e8),
    "at -1e12": np.full(D, -1e12),
    "each column elsewhere": np.array([1e8, 0.0, 1e3, -1e9, 5.0, 1e6]),
    "two clusters": np.where(RNG.random(N) < 0.5, 1e7, -1e7)[:, None],
}


@pytest.fixture(params=PLACES)
def rows(request):
    return NEAR + PLACES[request.param]


def gaussian(left, right):
    """exp(−γ‖x − z‖²) from differences in long double: at least as precise as float64 everywhere, and more where there is more."""
    total = np.zeros((len(left), len(right)), dtype=np.longdouble)
    for j in range(left.shape[1]):
        total += (left[:, j].astype(np.longdouble)[:, None] - right[:, j].astype(np.longdouble)[None, :]) ** 2
    return np.exp(-np.longdouble(GAMMA) * total)


def test_every_way_to_a_value_is_exact_far_from_zero(rows):
    kernel, expected = make_kernel("rbf", gamma=GAMMA), gaussian(rows, rows)
    sums = expected @ A
    np.testing.assert_allclose(kernel(rows, rows), expected.astype(np.float64), atol=1e-13)
    np.testing.assert_allclose(kernel(rows[:9], rows), expected[:9].astype(np.float64), atol=1e-13)
    np.testing.assert_allclose(expansion(kernel, rows, rows, A), sums.astype(np.float64), atol=1e-11)
    np.testing.assert_allclose(expansion(kernel, rows[5:6], rows, A), sums[5:6].astype(np.float64), atol=1e-11)
    np.testing.assert_allclose(own_expansion(kernel, rows, A), sums.astype(np.float64), atol=1e-11)
    blocks, store = KernelBlocks(kernel, rows, np.float64), np.zeros((2, N))
    blocks.write_rows(blocks.own(np.array([5, 250])), store, np.array([1, 0]))
    np.testing.assert_allclose(store, expected[[250, 5]].astype(np.float64), atol=1e-13)
    some = blocks.take(np.arange(0, N, 3))
    out = np.zeros(len(range(0, N, 3)))
    some.add_sums(blocks.other(rows[:20]), A[:20], out)
    np.testing.assert_allclose(out, (expected[:20, ::3].T @ A[:20]).astype(np.float64), atol=1e-12)


def test_a_full_sparse_matrix_far_from_zero():
    rows = NEAR + 1e8
    kernel, sums = make_kernel("rbf", gamma=GAMMA), gaussian(rows, rows) @ A
    for left in (rows, sparse.csr_matrix(rows)):
        for right in (rows, sparse.csr_matrix(rows)):
            np.testing.assert_allclose(expansion(kernel, left, right, A), sums.astype(np.float64), atol=1e-11)


def test_svc_trains_and_predicts_far_from_zero(rows):
    """Distances lost in rounding, so that the certificate crossed the bound and the fit ended in an error."""
    model = dualgap.SVC(gamma=GAMMA, tol=1e-5).fit(rows, Y)
    assert model.status_ == "converged"
    expected = gaussian(rows, rows[model.support_]) @ model.dual_coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(rows), expected.astype(np.float64), atol=1e-10)
    one_by_one = [float(model.decision_function(row[None])[0]) for row in rows[:5]]
    np.testing.assert_allclose(one_by_one, expected[:5].astype(np.float64), atol=1e-10)


def test_the_same_model_wherever_the_rows_are():
    """Whole numbers move by 2²⁶ without rounding, and distances stay what they were."""
    rows = np.round(NEAR * 4.0)
    models = [dualgap.SVC(gamma=GAMMA / 16, tol=1e-8).fit(rows + shift, Y) for shift in (0.0, 2.0**26)]
    scores = [model.decision_function(rows + shift) for model, shift in zip(models, (0.0, 2.0**26), strict=True)]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-3)
    assert models[0].objective_ == pytest.approx(models[1].objective_, rel=1e-7)


def test_onnx_moves_the_rows_too():
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("skl2onnx")
    from dualgap.estimators.onnx import to_onnx

    rows = NEAR + 1e6
    model = dualgap.SVC(gamma=GAMMA).fit(rows, Y)
    session = onnxruntime.InferenceSession(to_onnx(model, rows[:1]).SerializeToString())
    found = session.run(None, {session.get_inputs()[0].name: rows})[1]
    np.testing.assert_allclose(np.ravel(found), model.decision_function(rows), atol=1e-9)


def test_which_columns_are_moved():
    rows = NEAR + PLACES["each column elsewhere"]
    origin = origin_of(rows)
    assert (origin != 0.0).tolist() == [True, False, True, True, True, True]
    assert (np.abs(rows - origin)[:, origin != 0.0] < 6.0).all()
    assert origin_of(NEAR) is None
    assert origin_of(np.empty((0, 3))) is None
    moved = rows[:, 0] - origin[0]  # Sterbenz: exact
    assert (moved.astype(np.longdouble) == rows[:, 0].astype(np.longdouble) - origin[0]).all()


def test_products_are_kept_where_they_are_precise_enough():
    """Differences take several times as long: ordinary data do not need them, nor does a shift remove the need."""
    kernel = make_kernel("rbf", gamma=GAMMA)
    for place, name in (("near zero", "_Dense"), ("at 1e8", "_Dense"), ("two clusters", "_Differences")):
        assert type(KernelBlocks(kernel, NEAR + PLACES[place], np.float64).right).__name__ == name


@pytest.mark.parametrize("spread", [1.0, 1e2, 1e4])
def test_the_bound_on_exponents_holds(spread, monkeypatch):
    monkeypatch.setattr(module, "MOST_DELTA", np.inf)
    rows = NEAR * spread
    close = rows + 0.5 * RNG.normal(size=rows.shape)
    delta = distance_error(GAMMA, float(max((rows**2).sum(axis=1).max(), (close**2).sum(axis=1).max())), D)
    found = make_kernel("rbf", gamma=GAMMA)(rows, close)
    exact = gaussian(rows, close)
    assert (np.abs(found - exact) <= (np.expm1(delta) + 1e-15) * exact + 1e-300).all()


def with_two_rows_near_zero():
    rows = NEAR + 1e8
    rows[:2] = NEAR[:2]
    return rows


ROWS = {
    "at 1e8": NEAR + 1e8,
    "at 1e8, two rows near zero": with_two_rows_near_zero(),
    "two clusters": NEAR + PLACES["two clusters"],
    "whole numbers at 1000": np.round(NEAR) + 1000.0,
    "wide": NEAR * 1e3,
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("formed", [True, False], ids=["matrix", "sums"])
def test_radii_of_scores_hold(name, storage, formed):
    """The radius of a certificate counts distances from the origin that they are computed with, not from zero."""
    rows = ROWS[name]
    problem = dualgap.Problem(storage(rows), Y, kernel="rbf", gamma=GAMMA)
    if formed:
        assert problem.rows is not None
    exact = gaussian(rows, rows) @ A
    scores = kernel_scores(problem, A)
    assert (np.abs(scores.values - exact) <= scores.radius).all()
    if storage is np.asarray:
        assert (scores.radius <= 1e-6 * np.abs(A).sum()).all()  # and says something
    some = np.flatnonzero(np.arange(N) % 3 > 0)
    np.testing.assert_array_less(np.abs(exact_scores(problem, A, some) - exact[some]), scores.radius[some] + 1e-300)
