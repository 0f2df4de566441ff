"""SVC with kernels that are not positive semidefinite: the kernel that it trains on, and its certificate."""

import pickle
import warnings

import numpy as np
import pytest
import sklearn.svm
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale

from dualgap import SVC, CertificateError, LinearSVC
from dualgap.estimators import ConvergenceWarning
from dualgap.proof import ProofError, verify_proof

GAMMA = 0.1


@pytest.fixture(scope="module")
def flowers():
    X, y = load_iris(return_X_y=True)
    return scale(X)[:120], y[:120], scale(X)[120:]


def sigmoid(A, B):
    return np.tanh(GAMMA * A @ B.T)


def machine(how, **options):
    return SVC(kernel="sigmoid", gamma=GAMMA, indefinite=how, random_state=0, **options)


def two(flowers):
    X, y, new = flowers
    return X[y != 0], y[y != 0], new


def test_the_error_names_both_ways(flowers):
    X, y, _ = flowers
    with pytest.raises(CertificateError, match=r"SVC\(indefinite='clip'\) or 'shift', .* SVC\(indefinite='uncertified'\)"):
        machine("error").fit(X, y)
    with pytest.raises(ValueError, match="indefinite='flip'"):
        machine("flip").fit(X, y)


@pytest.mark.parametrize("how", ["clip", "shift"])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_certificate_is_for_the_nearest_kernel(flowers, how, classes):
    X, y, new = two(flowers) if classes == 2 else flowers
    values, vectors = np.linalg.eigh(sigmoid(X, X))
    nearest = (vectors * np.maximum(values, 0.0)) @ vectors.T if how == "clip" else sigmoid(X, X) - values[0] * np.eye(len(X))
    model = machine(how, tol=1e-8, decision_function_shape="ovo").fit(X, y)
    exact = SVC(kernel="precomputed", tol=1e-8, decision_function_shape="ovo", random_state=0).fit(nearest, y)
    assert model.status_ == exact.status_ == "converged"
    np.testing.assert_allclose(model.objective_, exact.objective_, rtol=1e-7)
    project = vectors[:, values > 0] @ vectors[:, values > 0].T if how == "clip" else np.eye(len(X))
    np.testing.assert_allclose(model.decision_function(new), exact.decision_function(sigmoid(new, X) @ project), atol=2e-3)
    said = model.indefinite_
    assert (said.treatment, said.lowest) == (how, pytest.approx(values[0]))
    assert "not positive semidefinite" in str(said)


def test_bounds_hold_for_the_exact_model_of_the_clipped_kernel(flowers):
    X, y, new = two(flowers)
    values, vectors = np.linalg.eigh(sigmoid(X, X))
    kept = values > 1e-10 * values[-1]
    features = vectors[:, kept] / np.sqrt(values[kept])  # of x: this applied to its kernel values
    exact = LinearSVC(loss="hinge", tol=1e-10, max_iter=20_000, random_state=0).fit(sigmoid(X, X) @ features, y)
    scores = exact.decision_function(sigmoid(new, X) @ features)
    for tol in (1e-1, 1e-3, 1e-6):
        model = machine("clip", tol=tol).fit(X, y)
        low, high = model.decision_bounds(new)
        assert (low <= scores + 1e-4).all()
        assert (scores - 1e-4 <= high).all()
        labels, proven = model.predict_proven(new)
        assert (labels[proven] == exact.predict(sigmoid(new, X) @ features)[proven]).all()
    assert proven.mean() > 0.8
    assert set(model.proof_.support()) >= {"out", "bound"}


def test_a_proof_of_the_clipped_matrix_is_checked_in_exact_arithmetic(flowers, tmp_path):
    X, y, _ = two(flowers)
    model = machine("clip", tol=1e-3).fit(X[::2], y[::2])
    model.proof_.save(tmp_path / "proof", data=tmp_path / "data")
    verify_proof((tmp_path / "proof").read_bytes(), (tmp_path / "data").read_bytes())
    loaded = pickle.loads(pickle.dumps(model))
    loaded.proof_.save(tmp_path / "again", X[::2], y[::2])
    assert loaded.indefinite_ == model.indefinite_
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("kernel", ["precomputed", "function"])
def test_matrices_and_functions_are_treated_alike(flowers, kernel):
    X, y, new = flowers
    model = machine("clip").fit(X, y)
    given, seen = (sigmoid(X, X), sigmoid(new, X)) if kernel == "precomputed" else (X, new)
    other = SVC(kernel="precomputed" if kernel == "precomputed" else sigmoid, indefinite="clip", random_state=0).fit(given, y)
    np.testing.assert_allclose(other.decision_function(seen), model.decision_function(new), atol=1e-2)
    if kernel == "precomputed":
        assert (other.predict_proven(seen)[1] == model.predict_proven(new)[1]).mean() > 0.9
    else:
        with pytest.raises(ProofError, match="a function as kernel"):
            other.predict_proven(seen)


def test_sparse_rows_train_as_dense_ones_do(flowers):
    X, y, new = flowers
    dense, thin = machine("clip").fit(X, y), machine("clip").fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(thin.decision_function(sparse.csr_array(new)), dense.decision_function(new), atol=1e-2)


@pytest.mark.parametrize("classes", [2, 3])
def test_an_uncertified_model_is_a_stationary_point_near_libsvms_and_claims_nothing(flowers, classes, tmp_path):
    X, y, new = two(flowers) if classes == 2 else flowers
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    model = machine("uncertified", tol=1e-6, decision_function_shape="ovo").fit(X, y, weights)
    theirs = sklearn.svm.SVC(kernel="sigmoid", gamma=GAMMA, tol=1e-6, decision_function_shape="ovo").fit(X, y, weights)
    np.testing.assert_allclose(model.decision_function(new), theirs.decision_function(new), atol=1e-3)
    assert model.status_ == model.indefinite_.treatment == "uncertified"
    assert [model.certificate_, model.objective_, model.dual_gap_, model.history_] == [None] * 4
    for refused in (
        lambda: model.proof_.save(tmp_path / "proof"),
        lambda: model.proof_.save(tmp_path / "proof", X, y),
        lambda: model.predict_proven(new),
        lambda: model.decision_bounds(new),
        model.proof_.support,
        model.proof_.leave_one_out,
    ):
        with pytest.raises(ProofError, match="uncertified"):
            refused()
    assert "without a certificate" in str(model.indefinite_)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(new), model.decision_function(new))
    model.set_params(kernel="rbf").fit(X, y)  # nothing of it is left after another fit
    assert model.status_ == "converged"
    assert model.indefinite_ is None
    model.predict_proven(new)


def test_an_uncertified_fit_that_ends_early_warns():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 4)), np.arange(80) % 2
    with pytest.warns(ConvergenceWarning, match="a KKT condition is violated by"):
        assert machine("uncertified", C=1e3, tol=1e-9, max_iter=1).fit(X, y).status_ == "uncertified"


@pytest.mark.parametrize("how", ["clip", "shift", "uncertified"])
@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_a_semidefinite_kernel_is_trained_as_ever(flowers, how, kernel):
    X, y, _ = flowers
    given = X @ X.T if kernel == "precomputed" else X
    plain, other = (SVC(kernel=kernel, random_state=0, indefinite=name).fit(given, y) for name in ("error", how))
    assert other.indefinite_ is None
    assert other.status_ == "converged"
    np.testing.assert_array_equal(other.dual_coef_, plain.dual_coef_)
    clone(other)


def test_what_cannot_be_had_is_refused(flowers):
    X, y, new = flowers
    with pytest.raises(ProofError, match="indefinite='clip' has a kernel of all rows"):
        machine("shift").fit(X, y).decision_bounds(new)
    with pytest.raises(ProofError, match="made from all training rows"):
        machine("clip").fit(*two(flowers)[:2]).proof_.leave_one_out()
    with pytest.raises(ValueError, match="decide does not go with a kernel that is not positive semidefinite"):
        machine("clip").fit(X, y, decide=new)
    with pytest.raises(ValueError, match="no positive eigenvalue"):
        SVC(kernel="precomputed", indefinite="clip").fit(-np.eye(len(y)), y)
    with pytest.raises(ValueError, match="not symmetric"):
        SVC(kernel="precomputed", indefinite="clip").fit(np.triu(np.ones((len(y), len(y)))), y)
    with pytest.raises(ValueError, match="must be square"):
        SVC(kernel="precomputed", indefinite="clip").fit(X, y)


def test_onnx_predicts_what_a_clipped_model_does(flowers):
    pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    from dualgap.estimators.onnx import to_onnx

    X, y, new = flowers
    model = machine("clip").fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = runtime.InferenceSession(to_onnx(model, X).SerializeToString(), providers=["CPUExecutionProvider"])
    labels, scores = session.run(None, {"X": new})
    assert np.array_equal(labels, model.predict(new))
    np.testing.assert_allclose(scores, model.decision_function(new), atol=1e-9)
