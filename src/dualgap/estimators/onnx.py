"""Export to ONNX: converters for skl2onnx, so that a model goes out alone or as a step of a pipeline.

Decision values are computed by elementary operators in the precision of the input, float32 or float64, with the model's coefficients
rounded to it. Needs the extra `dualgap[onnx]`.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from dualgap.estimators.kernel import SVC
from dualgap.estimators.kernel_svr import SVR
from dualgap.estimators.linear import LinearSVC
from dualgap.estimators.linear_svr import LinearSVR
from dualgap.estimators.nu_svc import NuSVC
from dualgap.estimators.nu_svr import NuSVR
from dualgap.estimators.one_class import OneClassSVM
from dualgap.estimators.probability import wants_probability
from dualgap.kernels import origin_of

__all__ = ["register_onnx_converters", "to_onnx"]


def to_onnx(model: Any, X: Any, **options: Any) -> Any:
    """A fitted model, or a pipeline that ends in one, as an ONNX model with the outputs "label" and "probabilities".

    The second output holds what `decision_function` returns (a column even where there is one number a sample), or for
    loss="log_loss" what `predict_proba` returns. A regression has one output, "variable": a column for each target. The second output of a
    OneClassSVM is named "scores".

    Parameters
    ----------
    model : a fitted LinearSVC, SVC, NuSVC, OneClassSVM, LinearSVR, SVR or NuSVR, or a Pipeline
    X : array, a few rows of which tell the type of the input: float32 or float64
    options : passed to `skl2onnx.to_onnx`, such as target_opset

    Examples
    --------
    >>> import numpy as np
    >>> from dualgap import LinearSVC
    >>> from dualgap.estimators.onnx import to_onnx
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> onnx_model = to_onnx(LinearSVC(random_state=0).fit(X, y), X)  # doctest: +SKIP
    >>> open("model.onnx", "wb").write(onnx_model.SerializeToString())  # doctest: +SKIP
    """
    import skl2onnx

    register_onnx_converters()
    return skl2onnx.to_onnx(model, X[:1], **options)


def register_onnx_converters() -> None:
    """Make the estimators known to skl2onnx, so that its own functions convert whatever contains them.

    The outputs are tensors, as those of `to_onnx`. skl2onnx's option `zipmap`, a dictionary a row, has no effect: it needs a column for
    each class, and the scores of two classes are one column.
    """
    from skl2onnx import update_registered_converter

    flags = {"zipmap": [True, False, "columns"], "nocl": [True, False], "output_class_labels": [True, False]}
    kinds: list[tuple[type, Any, Any, dict[str, Any]]] = [
        (LinearSVC, _shapes, _convert_linear, {"options": flags, "parser": _parse_classifier}),
        (SVC, _shapes, _convert_kernel, {"options": flags, "parser": _parse_classifier}),
        (NuSVC, _shapes, _convert_kernel, {"options": flags, "parser": _parse_classifier}),
        (OneClassSVM, _one_class_shapes, _convert_one_class, {}),
        (LinearSVR, _regression_shape, _convert_linear_regression, {}),
        (SVR, _regression_shape, _convert_kernel_regression, {}),
        (NuSVR, _regression_shape, _convert_kernel_regression, {}),
    ]
    for kind, shapes, convert, options in kinds:
        update_registered_converter(kind, f"Dualgap{kind.__name__}", shapes, convert, overwrite=True, **options)


def _parse_classifier(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare the outputs of a classifier. `_shapes` sets their types."""
    from skl2onnx.common.data_types import Int64TensorType

    operator = scope.declare_local_operator(f"Dualgap{type(model).__name__}", model)
    operator.inputs.append(inputs[0])
    operator.outputs.append(scope.declare_local_variable("label", Int64TensorType()))
    operator.outputs.append(scope.declare_local_variable("probabilities", type(inputs[0].type)()))
    return operator.outputs


def _shapes(operator: Any) -> None:
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType

    model, data = operator.raw_operator, operator.inputs[0]
    rows, K = data.get_first_dimension(), len(model.classes_)
    columns = 1 if K == 2 else K
    if isinstance(model, LinearSVC) and model.loss in ("log_loss", "logistic"):
        columns = K
    elif isinstance(model, (SVC, NuSVC)) and K > 2 and model.decision_function_shape == "ovo":
        columns = K * (K - 1) // 2
    numeric = model.classes_.dtype.kind in "iub"
    operator.outputs[0].type = (Int64TensorType if numeric else StringTensorType)([rows])
    operator.outputs[1].type = type(data.type)([rows, columns])


def _one_class_shapes(operator: Any) -> None:
    from skl2onnx.common.data_types import Int64TensorType

    data = operator.inputs[0]
    rows = data.get_first_dimension()
    operator.outputs[0].type = Int64TensorType([rows])
    operator.outputs[1].type = type(data.type)([rows, 1])


def _regression_shape(operator: Any) -> None:
    data = operator.inputs[0]
    operator.outputs[0].type = type(data.type)([data.get_first_dimension(), len(operator.raw_operator.intercept_)])


class _Graph:
    """Nodes and constants of one model, added to skl2onnx's container under names of their own."""

    def __init__(self, scope: Any, operator: Any, container: Any) -> None:
        from skl2onnx.common.data_types import DoubleTensorType

        self.scope, self.operator, self.container = scope, operator, container
        self.dtype = np.float64 if isinstance(operator.inputs[0].type, DoubleTensorType) else np.float32
        self.x = operator.inputs[0].full_name

    def node(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        name = output or self.scope.get_unique_variable_name(kind.lower())
        label = self.scope.get_unique_operator_name(kind)
        self.container.add_node(kind, list(inputs), [name], name=label, **attributes)
        return name

    def constant(self, values: Any, dtype: Any = None) -> str:
        from onnx import TensorProto

        array = np.asarray(values, dtype=dtype or self.dtype)
        kinds = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64}
        kind = kinds.get(array.dtype.name, TensorProto.STRING)
        content = [str(v).encode() for v in array.ravel()] if kind == TensorProto.STRING else array.ravel().tolist()
        name = self.scope.get_unique_variable_name("constant")
        self.container.add_initializer(name, kind, list(array.shape), content)
        return name

    def as_float(self, truth: str) -> str:
        from onnx import TensorProto

        return self.node("Cast", truth, to=TensorProto.DOUBLE if self.dtype == np.float64 else TensorProto.FLOAT)

    def finish(self, codes: str, scores: str) -> None:
        """Labels from class codes, and the scores, as the operator's outputs."""
        classes = self.operator.raw_operator.classes_
        table = self.constant(classes, np.int64 if classes.dtype.kind in "iub" else np.str_)
        self.node("Gather", table, codes, output=self.operator.outputs[0].full_name, axis=0)
        self.node("Identity", scores, output=self.operator.outputs[1].full_name)

    def positive(self, scores: str) -> str:
        """1 where the only column is above 0, else 0."""
        from onnx import TensorProto

        above = self.node("Cast", self.node("Greater", scores, self.constant([0.0])), to=TensorProto.INT64)
        return self.node("Reshape", above, self.constant([-1], np.int64))

    def largest(self, scores: str) -> str:
        return self.node("ArgMax", scores, axis=1, keepdims=0)


def _linear_scores(graph: _Graph, model: Any) -> str:
    coef = np.atleast_2d(model.coef_.toarray() if hasattr(model.coef_, "toarray") else model.coef_)
    return graph.node("Add", graph.node("MatMul", graph.x, graph.constant(coef.T)), graph.constant(model.intercept_))


def _kernel_scores(graph: _Graph, model: Any) -> str:
    sums = graph.node("MatMul", _kernel_values(graph, model), graph.constant(model._expansion_over()[2]))
    return graph.node("Add", sums, graph.constant(model.intercept_))


def _convert_linear_regression(scope: Any, operator: Any, container: Any) -> None:
    graph = _Graph(scope, operator, container)
    graph.node("Identity", _linear_scores(graph, operator.raw_operator), output=operator.outputs[0].full_name)


def _convert_kernel_regression(scope: Any, operator: Any, container: Any) -> None:
    graph = _Graph(scope, operator, container)
    graph.node("Identity", _kernel_scores(graph, operator.raw_operator), output=operator.outputs[0].full_name)


def _refuse_calibrated(model: Any) -> None:
    """Raise for a model whose probabilities the graph does not have: the output of that name would hold scores."""
    if wants_probability(model) and getattr(model, "loss", "hinge") not in ("log_loss", "logistic"):
        raise ValueError("probability=True has no ONNX form: the output would hold scores; set probability=False and fit again")


def _convert_linear(scope: Any, operator: Any, container: Any) -> None:
    graph, model = _Graph(scope, operator, container), operator.raw_operator
    _refuse_calibrated(model)
    scores = _linear_scores(graph, model)
    codes = graph.positive(scores) if len(model.classes_) == 2 else graph.largest(scores)
    if model.loss in ("log_loss", "logistic") and model.multi_class == "multinomial" and len(model.classes_) > 2:
        scores = graph.node("Softmax", scores, axis=1)
    elif model.loss in ("log_loss", "logistic"):
        scores = graph.node("Sigmoid", scores)
        if len(model.classes_) == 2:
            scores = graph.node("Concat", graph.node("Sub", graph.constant([1.0]), scores), scores, axis=1)
        else:
            total = graph.node("ReduceSum", scores, graph.constant([1], np.int64), keepdims=1)
            scores = graph.node("Div", scores, total)
    graph.finish(codes, scores)


def _convert_one_class(scope: Any, operator: Any, container: Any) -> None:
    from onnx import TensorProto

    graph = _Graph(scope, operator, container)
    scores = _kernel_scores(graph, operator.raw_operator)
    inside = graph.node("Cast", graph.node("GreaterOrEqual", scores, graph.constant([0.0])), to=TensorProto.INT64)
    codes = graph.node("Reshape", inside, graph.constant([-1], np.int64))
    graph.node("Gather", graph.constant([-1, 1], np.int64), codes, output=operator.outputs[0].full_name, axis=0)
    graph.node("Identity", scores, output=operator.outputs[1].full_name)


def _convert_kernel(scope: Any, operator: Any, container: Any) -> None:
    graph, model = _Graph(scope, operator, container), operator.raw_operator
    _refuse_calibrated(model)
    K = len(model.classes_)
    pairs = _kernel_scores(graph, model)
    if K == 2:
        graph.finish(graph.positive(pairs), pairs)
        return
    first, second = np.zeros((2, K * (K - 1) // 2, K))
    for k, (i, j) in enumerate(combinations(range(K), 2)):
        first[k, i] = second[k, j] = 1.0
    votes = _votes(graph, graph.node("Greater", pairs, graph.constant([0.0])), first, second)
    scores = pairs
    if model.decision_function_shape == "ovr":
        # scikit-learn's: the votes, and confidences squeezed into a third of a vote
        sums = graph.node("MatMul", pairs, graph.constant(first - second))
        room = graph.node("Mul", graph.constant([3.0]), graph.node("Add", graph.node("Abs", sums), graph.constant([1.0])))
        kept = _votes(graph, graph.node("GreaterOrEqual", pairs, graph.constant([0.0])), first, second)
        scores = graph.node("Add", kept, graph.node("Div", sums, room))
    graph.finish(graph.largest(scores if model.break_ties else votes), scores)


def _votes(graph: _Graph, won: str, first: np.ndarray, second: np.ndarray) -> str:
    """A vote for the first class of each pair that was won, for the second of each that was not."""
    lead = graph.node("MatMul", graph.as_float(won), graph.constant(first - second))
    return graph.node("Add", lead, graph.constant(second.sum(axis=0)))


def _kernel_values(graph: _Graph, model: Any) -> str:
    kernel = model._kernel
    if kernel.function is not None or kernel.name == "precomputed":
        raise ValueError(
            f"kernel={model.kernel!r} cannot be exported: ONNX has no operator for it; use rbf, linear, poly or sigmoid"
        )
    vectors = model._expansion_over()[0]
    vectors = np.asarray(vectors.toarray() if hasattr(vectors, "toarray") else vectors, dtype=np.float64)
    x = graph.x
    if kernel.name == "rbf" and (origin := origin_of(vectors)) is not None:
        x, vectors = graph.node("Sub", x, graph.constant(origin)), vectors - origin  # as in training: distances keep their digits
    products = graph.node("MatMul", x, graph.constant(vectors.T))
    if kernel.name == "linear":
        return products
    if kernel.name == "rbf":
        squares = graph.node("ReduceSum", graph.node("Mul", x, x), graph.constant([1], np.int64), keepdims=1)
        distances = graph.node("Add", squares, graph.constant(np.sum(vectors**2, axis=1)))
        distances = graph.node("Sub", distances, graph.node("Mul", products, graph.constant([2.0])))
        distances = graph.node("Max", distances, graph.constant([0.0]))
        return graph.node("Exp", graph.node("Mul", distances, graph.constant([-kernel.gamma])))
    inner = graph.node("Add", graph.node("Mul", products, graph.constant([kernel.gamma])), graph.constant([kernel.coef0]))
    return (
        graph.node("Tanh", inner) if kernel.name == "sigmoid" else graph.node("Pow", inner, graph.constant([float(kernel.degree)]))
    )
