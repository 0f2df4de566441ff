"""The two kinds of model that the commands train, classes or numbers, with the same methods; and what is computed of both alike."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from dualgap.app.classification import Classification
from dualgap.app.model_file import SavedModel
from dualgap.app.regression import Regression
from dualgap.data import Samples
from dualgap.proof import Certificate

__all__ = ["TASKS", "certificate_facts", "cross_validate", "fit_facts", "important_features", "task_of"]

CV_TOL = 1e-3  # relative gap of the models in it: the labels they predict do not change by more than a few in ten thousand

TASKS: dict[str, Any] = {kind.name: kind() for kind in (Classification, Regression)}


def task_of(estimator: Any) -> Any:
    """Return the kind of a fitted estimator."""
    return next(task for task in TASKS.values() if isinstance(estimator, task.estimator))


def fit_facts(estimator: Any) -> dict[str, Any]:
    """Return what is known of a fit as plain data: task, status, epochs, the certificates by class."""
    task = task_of(estimator)
    found = estimator.certificate_ if isinstance(estimator.certificate_, list) else [estimator.certificate_]
    traces = estimator.history_ if isinstance(estimator.history_, list) else [estimator.history_]
    return {
        "task": task.name,
        "status": str(estimator.status_),
        "epochs": int(estimator.n_iter_),
        "tol": float(estimator.tol),
        "seconds": float(sum(trace["wall_seconds"][-1] for trace in traces if len(trace))),  # without compilation and evaluation
        **task.facts(estimator),
        "certificates": [certificate_facts(*each) for each in zip(task.certificate_names(estimator), found, strict=True)],
    }


def certificate_facts(problem: str, certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as plain data."""
    return {
        "problem": problem,
        "primal": float(certificate.primal),
        "dual": float(certificate.dual),
        "gap": float(certificate.gap),
        "relative_gap": float(certificate.relative_gap),
        "text": str(certificate),
    }


def cross_validate(samples: Samples, folds: int, seconds: float | None, **parameters: Any) -> dict[str, Any] | None:
    """Predict each row by a model that was trained without it, preparation included; None where there are too few rows for it.

    Without a limit of `seconds` all folds are done; with one, None says that they would take longer.
    """
    task, y = TASKS[samples.task], samples.y
    folds = min(folds, len(y))
    splits = task.splits(y, folds, parameters.get("random_state", 0))
    if splits is None:
        return None
    parameters = parameters | {"tol": max(parameters.get("tol", CV_TOL), CV_TOL)}
    said, measured, proven, began = np.empty(len(y), dtype=y.dtype), [], np.zeros(len(y)), time.perf_counter()
    for k, (train, held) in enumerate(splits):
        encoder, constant = samples.learn(train), task.constant(y[train])
        if constant is not None:
            said[held] = constant
            measured.append(float(np.mean(said[held] == y[held])))
        else:
            model = task.estimator(**parameters).fit(samples.features(encoder, train), y[train])
            if model.status_ == "interrupted":
                raise KeyboardInterrupt
            said[held], proven[held], score = task.fold(model, samples.features(encoder, held), y[held])
            measured.append(score)
        if seconds is not None and k == 0 and (time.perf_counter() - began) * folds > seconds:
            return None
    found: dict[str, Any] = task.validated(y, said, proven, measured)
    return found


def important_features(model: SavedModel, X: Any, count: int = 10) -> list[dict[str, Any]]:
    """Return the features whose values move the scores most: |coefficient| × deviation of the feature, for each class."""
    estimator = model.estimator
    task = task_of(estimator)
    mean = np.asarray(X.mean(axis=0)).ravel()
    squares = X.multiply(X) if hasattr(X, "multiply") else X * X
    deviation = np.sqrt(np.maximum(np.asarray(squares.mean(axis=0)).ravel() - mean**2, 0.0))
    weight = np.atleast_2d(estimator.coef_) * deviation
    largest = np.abs(weight).max(axis=0)
    order = [j for j in np.argsort(-largest, kind="stable")[:count] if largest[j] > 0]
    found = []
    for j in order:
        k = int(np.argmax(np.abs(weight[:, j])))
        value = float(weight[k, j])
        found.append({"feature": model.feature_names[j], "weight": value, **task.direction(estimator, k, value)})
    return found
