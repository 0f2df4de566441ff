"""Models that travel: clone, pickle, skops, ONNX."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import dualgap
from dualgap import SVC, SVR, LinearSVC, LinearSVR, NuSVC, NuSVR, OneClassSVM

X, CODES = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])
MODELS = {
    "linear": LinearSVC(random_state=0),
    "logistic": LinearSVC(loss="log_loss", random_state=0),
    "crammer_singer": LinearSVC(multi_class="crammer_singer", C=0.1, random_state=0),
    "rbf": SVC(random_state=0),
    "poly": SVC(kernel="poly", coef0=1.0, degree=2, decision_function_shape="ovo", random_state=0),
    "ties": SVC(kernel="linear", break_ties=True, random_state=0),
}


def scores(model, X):
    values = model.predict_proba(X) if hasattr(model, "predict_proba") else model.decision_function(X)
    return values if values.ndim == 2 else values[:, None]


@pytest.mark.parametrize("name", MODELS)
def test_pickle(name):
    model = clone(MODELS[name]).fit(X, NAMES[CODES])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert again.status_ == model.status_
    assert again.certificate_ == model.certificate_
    assert len(pickle.dumps(model)) < 200_000  # the training data stay behind


@pytest.mark.parametrize("model", [LinearSVC(random_state=0), LinearSVR(random_state=0)])
def test_attributes_that_are_made_on_demand(model):
    """A copy that was saved before anybody has asked for them has them; a model that is not fitted has none, and another fit new ones."""
    assert not any(hasattr(clone(model), name) for name in ("support_", "n_support_", "dual_coef_"))
    first, second = clone(model).fit(X, CODES), clone(model).fit(X, CODES)
    again = pickle.loads(pickle.dumps(first))
    for name in ("support_", "n_support_", "dual_coef_"):
        values = [getattr(each, name) for each in (again, second)]
        np.testing.assert_array_equal(*(v.toarray() if sparse.issparse(v) else v for v in values))
        assert getattr(second, name) is getattr(second, name)
    np.testing.assert_allclose(second.dual_coef_ @ X[second.support_], np.atleast_2d(second.coef_), atol=1e-2)
    assert second.fit(X[:100], CODES[:100]).support_.max() < 100


@pytest.mark.parametrize("name", ["linear", "rbf"])
def test_skops(name):
    sio = pytest.importorskip("skops.io", reason="skops is not installed")
    model = clone(MODELS[name]).fit(X, NAMES[CODES])
    data = sio.dumps(model)
    types = sio.get_untrusted_types(data=data)
    assert all(t.startswith(("dualgap.", "scipy.sparse.")) for t in types)
    again = sio.loads(data, trusted=types)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert [c.gap for c in again.certificate_] == [c.gap for c in model.certificate_]


def test_skops_after_a_stream():
    sio = pytest.importorskip("skops.io", reason="skops is not installed")
    model = LinearSVC(random_state=0).partial_fit(X[:50], CODES[:50], classes=[0, 1, 2])
    data = sio.dumps(model)
    again = sio.loads(data, trusted=sio.get_untrusted_types(data=data))
    np.testing.assert_allclose(again.partial_fit(X[50:], CODES[50:]).coef_, model.partial_fit(X[50:], CODES[50:]).coef_)


def test_clone_keeps_parameters_and_objects():
    model = LinearSVC(solver=dualgap.SDCA(order="cyclic"), loss=dualgap.SmoothHinge(0.5), callbacks=[print], class_weight={0: 2.0})
    copy = clone(model)
    assert copy.get_params()["solver"] == dualgap.SDCA(order="cyclic")
    assert copy.get_params()["loss"] == dualgap.SmoothHinge(0.5)
    assert not hasattr(clone(MODELS["linear"].fit(X, CODES)), "coef_")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("labels", [CODES, NAMES[CODES], NAMES[(CODES > 0).astype(int)]], ids=["three", "names", "two"])
def test_onnx(name, dtype, labels):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    from dualgap.estimators.onnx import to_onnx

    data = X.astype(dtype)
    model = make_pipeline(StandardScaler(), clone(MODELS[name])).fit(data, labels)
    session = runtime.InferenceSession(to_onnx(model, data).SerializeToString(), providers=["CPUExecutionProvider"])
    predicted, values = session.run(None, {session.get_inputs()[0].name: data})
    np.testing.assert_array_equal(predicted, model.predict(data))
    np.testing.assert_allclose(values, scores(model, data), atol=1e-4 if dtype == np.float32 else 1e-10)


def test_onnx_of_a_model_alone_and_of_what_it_cannot_say():
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    from dualgap.estimators.onnx import to_onnx

    model = SVC(random_state=0).fit(sparse.csr_array(X), CODES)
    session = runtime.InferenceSession(to_onnx(model, X).SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(None, {session.get_inputs()[0].name: X})[0], model.predict(X))
    with pytest.raises(ValueError, match="cannot be exported"):
        to_onnx(SVC(kernel="precomputed").fit(X @ X.T, CODES), X @ X.T)
    for calibrated in (SVC(probability=True), NuSVC(nu=0.2, probability=True), LinearSVC(probability=True)):
        with pytest.raises(ValueError, match="probability=True has no ONNX form"):
            to_onnx(calibrated.fit(X, CODES), X)


TARGETS = np.stack([X[:, 3] + 0.1 * X[:, 0], X[:, 2]], axis=1)
REGRESSIONS = {"linear": LinearSVR(random_state=0), "rbf": SVR(), "poly": SVR(kernel="poly", coef0=1.0, degree=2), "nu": NuSVR()}


@pytest.mark.parametrize("name", REGRESSIONS)
def test_skops_and_pickle_of_a_regression(name):
    sio = pytest.importorskip("skops.io", reason="skops is not installed")
    model = clone(REGRESSIONS[name]).fit(X[:, :2], TARGETS)
    data = sio.dumps(model)
    types = sio.get_untrusted_types(data=data)
    assert all(t.startswith(("dualgap.", "scipy.sparse.")) for t in types)
    for again in (sio.loads(data, trusted=types), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict(X[:, :2]), model.predict(X[:, :2]))
        if hasattr(model, "prediction_bounds"):
            np.testing.assert_array_equal(again.prediction_bounds(X[:, :2]), model.prediction_bounds(X[:, :2]))
        assert [c.gap for c in again.certificate_] == [c.gap for c in model.certificate_]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", REGRESSIONS)
@pytest.mark.parametrize("targets", [TARGETS, TARGETS[:, 0]], ids=["two", "one"])
def test_onnx_of_a_regression(name, dtype, targets):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    from dualgap.estimators.onnx import to_onnx

    data = X[:, :2].astype(dtype)
    model = make_pipeline(StandardScaler(), clone(REGRESSIONS[name])).fit(data, targets)
    session = runtime.InferenceSession(to_onnx(model, data).SerializeToString(), providers=["CPUExecutionProvider"])
    (predicted,) = session.run(None, {session.get_inputs()[0].name: data})
    expected = model.predict(data).reshape(len(data), -1)
    np.testing.assert_allclose(predicted, expected, atol=1e-4 if dtype == np.float32 else 1e-10)


@pytest.mark.parametrize("labels", [NAMES[CODES], (CODES > 0).astype(int)], ids=["three", "two"])
@pytest.mark.parametrize("model", [LinearSVC(), LinearSVC(loss="log_loss"), SVC(), NuSVC(nu=0.2), LinearSVR(), SVR()], ids=str)
def test_skl2onnx_itself_converts_registered_models(model, labels):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    from dualgap.estimators.onnx import register_onnx_converters

    register_onnx_converters()
    regression = isinstance(model, (LinearSVR, SVR))
    model = make_pipeline(StandardScaler(), clone(model)).fit(X, TARGETS[:, 0] if regression else labels)
    session = runtime.InferenceSession(skl2onnx.to_onnx(model, X[:1]).SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {session.get_inputs()[0].name: X})
    if regression:
        np.testing.assert_allclose(found[0].ravel(), model.predict(X), atol=1e-8)
    else:
        np.testing.assert_array_equal(found[0], model.predict(X))
        np.testing.assert_allclose(found[1], scores(model, X), atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "model",
    [NuSVC(nu=0.2), NuSVC(nu=0.2, gamma=0.5, decision_function_shape="ovo"), OneClassSVM(nu=0.1), OneClassSVM(kernel="linear")],
    ids=["NuSVC", "NuSVC ovo", "OneClassSVM", "OneClassSVM linear"],
)
def test_onnx_of_nu_machines(model, dtype):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    from dualgap.estimators.onnx import to_onnx

    data = X.astype(dtype)
    fitted = make_pipeline(MinMaxScaler(), clone(model)).fit(data, CODES)
    session = runtime.InferenceSession(to_onnx(fitted, data).SerializeToString(), providers=["CPUExecutionProvider"])
    labels, values = session.run(None, {session.get_inputs()[0].name: data})
    expected = fitted.decision_function(data).reshape(len(data), -1)
    # Within rounding of the threshold a row's label may be either.
    clear = (np.abs(expected) > 1e-3).all(axis=1)
    assert clear.sum() > len(data) // 2
    np.testing.assert_array_equal(labels[clear], fitted.predict(data)[clear])
    np.testing.assert_allclose(values, expected, atol=1e-3 if dtype == np.float32 else 1e-9)
