"""Models on disk: fit, save with skops, load only types that are known to be safe, predict, certify.

A model file holds the scikit-learn pipeline and the names of the columns it was trained on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dualgap.data import DataError, DataSet, check_zip, open_csv, read
from dualgap.estimators import LinearSVC, fit_on_cluster, weights_by_class
from dualgap.problem import Problem, from_C
from dualgap.proof import Certificate
from dualgap.run import certify
from dualgap.store import Store

__all__ = [
    "ModelError",
    "SavedModel",
    "certify_model",
    "features_of",
    "fit_model",
    "fit_store_model",
    "load_model",
    "preparation_of",
    "save_model",
]

# The types in a model file. skops builds no object of any other type, so opening a file of a stranger runs none of the stranger's code.
TRUSTED = (
    "dualgap.proof.certificate.Certificate",
    "dualgap.estimators.linear.LinearSVC",
    "dualgap.run.result.Trace",
    "dualgap.certificate.Certificate",  # the same two in a file that version 0.1 wrote
    "dualgap.result.Trace",
)


class ModelError(ValueError):
    """A file that is not a model of dualgap, or that holds other types than a model has."""


class SavedModel:
    """A trained pipeline with the names of its columns."""

    def __init__(self, pipeline: Any, columns: tuple[str, ...] | None) -> None:
        self.pipeline, self.columns = pipeline, columns

    @property
    def estimator(self) -> LinearSVC:
        """The classifier at the end of the pipeline."""
        return self.pipeline[-1]

    def transformed(self, X: Any) -> Any:
        """Return samples as the classifier sees them."""
        return self.pipeline[:-1].transform(X) if len(self.pipeline) > 1 else X


def fit_model(data: DataSet, standardise: bool | None = None, **parameters: Any) -> SavedModel:
    """Train a LinearSVC, on standardised columns where the data are dense (or as asked)."""
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    dense = not data.is_sparse
    if standardise and not dense:
        raise DataError(f"{data.name}: to standardise would fill a sparse matrix; leave --standardise out")
    steps: list[tuple[str, Any]] = [("scale", StandardScaler())] if (dense if standardise is None else standardise) else []
    pipeline = Pipeline([*steps, ("svc", LinearSVC(**parameters))])
    return SavedModel(pipeline.fit(data.X, data.y), data.feature_names)


def preparation_of(model: SavedModel) -> list[str]:
    """Return what the pipeline does to the data before the classifier, a step each, in words and numbers."""
    from sklearn.preprocessing import StandardScaler

    steps = []
    for _, step in model.pipeline.steps[:-1]:
        if isinstance(step, StandardScaler):
            mean, scale = ([] if x is None else x.tolist() for x in (step.mean_, step.scale_))
            steps.append(
                f"StandardScaler: each column minus its mean, then divided by its scale, in float64; mean {mean}, scale {scale}"
            )
        else:
            steps.append(repr(step))
    return steps


def fit_store_model(store: Store, scheduler: str | None = None, **parameters: Any) -> SavedModel:
    """Train a LinearSVC on a store: here, or on the workers of a Dask scheduler, which must see the store's folder."""
    from sklearn.pipeline import Pipeline

    model = LinearSVC(**parameters)
    if scheduler is None:
        model.fit(store)
    else:
        try:
            from distributed import Client
        except ImportError:
            raise ImportError("--scheduler needs Dask: pip install 'dualgap[dask]'") from None
        with Client(scheduler):
            fit_on_cluster(model, store)
    return SavedModel(Pipeline([("svc", model)]), None)


def save_model(model: SavedModel, path: Path) -> None:
    """Write a model. After a crash the file is the old one or the new one, never a part."""
    import skops.io

    from dualgap.lab import write_atomically

    columns = list(model.columns) if model.columns else []
    write_atomically(path, skops.io.dumps({"format": "dualgap-model-1", "pipeline": model.pipeline, "columns": columns}))


def load_model(path: str | Path) -> SavedModel:
    """Return the model in a file; refuse a file with other types than a model has, before any object is built."""
    path = Path(path)
    if not path.is_file():
        raise ModelError(f"{path} does not exist")
    import zipfile

    import skops.io
    from sklearn.pipeline import Pipeline

    unreadable = (zipfile.BadZipFile, LookupError, ValueError, TypeError, AttributeError, ImportError, MemoryError, RecursionError)
    try:
        check_zip(path)
        strange = sorted(set(skops.io.get_untrusted_types(file=path)) - set(TRUSTED))
        content = None if strange else skops.io.load(path, trusted=list(TRUSTED))
    except DataError:
        raise
    except unreadable as error:
        raise ModelError(f"{path} is not a model that dualgap fit wrote: {error}") from error
    if strange:
        raise ModelError(f"{path} holds types that a model of dualgap does not have, so it is not opened: {', '.join(strange)}")
    if not isinstance(content, dict) or content.get("format") != "dualgap-model-1" or not {"pipeline", "columns"} <= content.keys():
        raise ModelError(f"{path} is not a model that dualgap fit wrote")
    pipeline, columns = content["pipeline"], content["columns"]
    if not isinstance(pipeline, Pipeline) or not pipeline.steps or not isinstance(pipeline[-1], LinearSVC):
        raise ModelError(f"{path} holds a {type(pipeline).__name__} that is not a pipeline of dualgap's LinearSVC")
    return SavedModel(pipeline, tuple(columns) or None)


def features_of(model: SavedModel, path: str, target: str | None = None) -> Any:
    """Return the samples of a file, by the model's column names where it is a table; a label column is optional."""
    if model.columns is not None and Path(path).suffix.lower() in (".csv", ".tsv", ".parquet"):
        table = _table(path)
        missing = [name for name in model.columns if name not in table.columns]
        if missing:
            raise DataError(f"{path}: there is no column {missing[0]!r}, which the model was trained on")
        return table.select(model.columns).to_numpy().astype(np.float64)
    data = read(path, target)
    if data.shape[1] != model.pipeline.n_features_in_:
        raise DataError(f"{path}: {data.shape[1]} columns, but the model was trained on {model.pipeline.n_features_in_}")
    return data.X


def _table(path: str) -> Any:
    import polars as pl

    try:
        if path.lower().endswith(".parquet"):
            return pl.read_parquet(path, glob=False)
        with open_csv(Path(path)) as (stream, _):
            text = stream.read()
        return pl.read_csv(text, separator="\t" if path.lower().endswith(".tsv") else ",", infer_schema_length=None)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error


def certify_model(model: SavedModel, data: DataSet) -> list[tuple[str, Certificate]]:
    """Return a certificate of the model's objective on some data; with more than two classes, one for each class."""
    svc = model.estimator
    if svc.multi_class != "ovr":
        raise ModelError(f"a model with multi_class={svc.multi_class!r} cannot be certified; 'ovr' can")
    unknown = sorted(set(data.counts) - set(svc.classes_.tolist()))
    if unknown:
        raise DataError(f"{data.name}: the label {unknown[0]!r} is not one of the model's: {', '.join(map(str, svc.classes_))}")
    X = model.transformed(data.X)
    if len(svc.classes_) == 2:
        return [("", certify(_objective(svc, X, data.y, 1), svc.coef_[0], svc.intercept_[0]))]
    return [
        (f"class {name} against the rest", certify(_objective(svc, X, data.y, k), svc.coef_[k], svc.intercept_[k]))
        for k, name in enumerate(svc.classes_)
    ]


def _objective(svc: LinearSVC, X: Any, y: np.ndarray, k: int) -> Problem:
    """Return the problem that the classifier solves for class k against the rest."""
    codes = np.searchsorted(svc.classes_, y)
    weights = weights_by_class(svc.class_weight, svc.classes_, codes, None)
    if weights is not None and len(svc.classes_) > 2:
        weights = np.where(
            np.arange(len(svc.classes_)) == k, weights, 1.0
        )  # as LIBLINEAR: the class has its weight, the rest has weight 1
    sample_weight = None if weights is None else weights[codes]
    total = float(len(y)) if sample_weight is None else float(sample_weight.sum())
    settings: dict[str, Any] = from_C(svc.C, total)
    return Problem(
        X,
        np.where(codes == k, 1, -1),
        "logistic" if svc.loss == "log_loss" else svc.loss,
        svc.delta if svc.loss == "smooth_hinge" else None,
        sample_weight=sample_weight,
        intercept=svc.intercept if svc.fit_intercept else "none",
        intercept_scale=svc.intercept_scaling,
        **settings,
    )
