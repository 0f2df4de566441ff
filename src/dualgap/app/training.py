"""Train, measure and certify: what `dualgap fit`, `predict` and `certify` compute, as plain values that the terminal or JSON shows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dualgap import __version__
from dualgap.app.model_file import ModelError, SavedModel
from dualgap.app.proven import proven_labels, winners_proven
from dualgap.data import DataError, Samples
from dualgap.estimators import LinearSVC, coefficient_bounds, weights_by_class
from dualgap.problem import Problem, from_C
from dualgap.proof import Certificate, ball_of, forget_scores
from dualgap.run import certify_with_dual
from dualgap.store import Store, StoreProblem

__all__ = [
    "Measures",
    "certify_model",
    "confusion",
    "cross_validate",
    "fit_samples",
    "important_features",
    "score_labels",
    "scores_of",
]

CV_SECONDS = 60.0  # a cross-validation that would take longer is left out unless it was asked for
CV_TOL = 1e-3  # relative gap of the models in it: the labels they predict do not change by more than a few in ten thousand
BLOCK_ROWS = 65_536


@dataclass(frozen=True, eq=False)
class Measures:
    """How well labels are predicted: accuracy, mean recall of the classes, and the confusion matrix (rows are the truth)."""

    accuracy: float
    balanced: float
    matrix: np.ndarray
    folds: list[float] = field(default_factory=list)
    proven: float | None = None  # share of labels that are proven to be those of the exact model

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        made = {"accuracy": self.accuracy, "balanced_accuracy": self.balanced, "confusion": self.matrix.tolist()}
        made |= {} if self.proven is None else {"proven": self.proven}
        return made | ({"folds": self.folds} if self.folds else {})


def confusion(classes: np.ndarray, y: np.ndarray, said: np.ndarray, folds: list[float] | None = None) -> Measures:
    """Compare predicted labels with true ones."""
    k = len(classes)
    matrix = np.zeros((k, k), dtype=np.int64)
    np.add.at(matrix, (np.searchsorted(classes, y), np.searchsorted(classes, said)), 1)
    there = matrix.sum(axis=1) > 0
    recall = np.diag(matrix)[there] / matrix.sum(axis=1)[there]
    return Measures(float(np.trace(matrix) / max(matrix.sum(), 1)), float(recall.mean()), matrix, folds or [])


# --------------------------------------------------------------------------------------------------------------------- training


def fit_samples(samples: Samples, listen: Callable[[Any], Any] | None, **parameters: Any) -> tuple[SavedModel, Any]:
    """Train a LinearSVC on prepared rows; return the model and the features of the training rows."""
    encoder = samples.learn()
    X = samples.features(encoder)
    svc = LinearSVC(**parameters, callbacks=None if listen is None else [listen]).fit(X, samples.y)
    svc.callbacks = None
    about = {
        "data": samples.name,
        "rows": samples.shape[0],
        "columns": samples.shape[1],
        "above": samples.above,
        "dualgap": __version__,
    }
    return SavedModel(svc, encoder, {**about, **fit_facts(svc)}), X


def fit_facts(svc: LinearSVC) -> dict[str, Any]:
    """Return what is known of a fit as plain data: status, epochs, the certificates by class."""
    found = svc.certificate_ if isinstance(svc.certificate_, list) else [svc.certificate_]
    traces = svc.history_ if isinstance(svc.history_, list) else [svc.history_]
    classes = [str(label) for label in svc.classes_.tolist()]
    against = [f"{name} against the rest" for name in classes] if len(found) > 1 else [f"{classes[1]} against {classes[0]}"]
    return {
        "status": str(svc.status_),
        "epochs": int(svc.n_iter_),
        "tol": float(svc.tol),
        "seconds": float(sum(trace["wall_seconds"][-1] for trace in traces if len(trace))),  # without compilation and evaluation
        "classes": classes,
        "certificates": [certificate_facts(name, each) for name, each in zip(against, found, strict=True)],
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


def cross_validate(samples: Samples, folds: int, seconds: float | None, **parameters: Any) -> Measures | None:
    """Predict each row by a model that was trained without it, preparation included; None where there are too few rows for it.

    Without a limit of `seconds` all folds are done; with one, None says that they would take longer.
    """
    from sklearn.model_selection import KFold, StratifiedKFold

    y = samples.y
    classes, counts = np.unique(y, return_counts=True)
    folds = min(folds, len(y))
    if folds < 2 or counts.max() < 2:
        return None
    seed = parameters.get("random_state", 0)
    kind = StratifiedKFold if counts.min() >= folds else KFold
    splits = kind(folds, shuffle=True, random_state=seed).split(np.zeros(len(y)), y)
    parameters = parameters | {"tol": max(parameters.get("tol", CV_TOL), CV_TOL)}
    said, accuracies, began = np.empty(len(y), dtype=y.dtype), [], time.perf_counter()
    proven = np.zeros(len(y), dtype=bool)
    for k, (train, held) in enumerate(splits):
        encoder = samples.learn(train)
        if len(np.unique(y[train])) < 2:
            said[held] = y[train][0]
        else:
            svc = LinearSVC(**parameters).fit(samples.features(encoder, train), y[train])
            if svc.status_ == "interrupted":
                raise KeyboardInterrupt
            X = samples.features(encoder, held)
            found = proven_labels(svc, X)
            said[held], proven[held] = svc.predict(X), False if found is None else found
        accuracies.append(float(np.mean(said[held] == y[held])))
        if seconds is not None and k == 0 and (time.perf_counter() - began) * folds > seconds:
            return None
    return replace(confusion(classes, y, said, accuracies), proven=float(proven.mean()))


def important_features(model: SavedModel, X: Any, count: int = 10) -> list[dict[str, Any]]:
    """Return the features whose values move the scores most: |coefficient| × deviation of the feature, for each class."""
    svc = model.estimator
    mean = np.asarray(X.mean(axis=0)).ravel()
    squares = X.multiply(X) if hasattr(X, "multiply") else X * X
    deviation = np.sqrt(np.maximum(np.asarray(squares.mean(axis=0)).ravel() - mean**2, 0.0))
    weight = np.asarray(svc.coef_) * deviation
    largest = np.abs(weight).max(axis=0)
    order = [j for j in np.argsort(-largest, kind="stable")[:count] if largest[j] > 0]
    names, classes = model.feature_names, [str(label) for label in svc.classes_.tolist()]
    found = []
    for j in order:
        k = int(np.argmax(np.abs(weight[:, j])))
        towards = classes[int(weight[0, j] > 0)] if len(classes) == 2 else classes[k]
        sign = "for" if len(classes) == 2 or weight[k, j] > 0 else "against"
        found.append({"feature": names[j], "weight": float(weight[k, j]), "class": towards, "speaks": sign})
    return found


# ------------------------------------------------------------------------------------------------------------ scores and labels


def scores_of(svc: LinearSVC, X: Any) -> np.ndarray:
    """Return the scores of rows, a column for each model; rows of a store in the order of its input."""
    if not isinstance(X, Store):
        return np.asarray(svc.decision_function(X)).reshape(X.shape[0], -1)
    found = [svc.decision_function(X.matrix(k)).reshape(X.parts[k].rows, -1) for k in range(len(X.parts))]
    scores = np.concatenate(found)
    return scores[np.argsort(X.origin())]


def score_labels(svc: LinearSVC, scores: np.ndarray) -> np.ndarray:
    """Return the labels of scores."""
    if scores.shape[1] == 1:
        return svc.classes_[(scores[:, 0] > 0).astype(np.int64)]
    return svc.classes_[scores.argmax(axis=1)]


# -------------------------------------------------------------------------------------------------------------------- certifying


def certify_model(model: SavedModel, samples: Samples | Store) -> tuple[list[tuple[str, Certificate]], float | None]:
    """Return a certificate of the model's objective on some data, with more than two classes one for each class; and the share of the
    rows whose labels are proven to be those of the exact model for these data (None for a store)."""
    svc = model.estimator
    if svc.multi_class != "ovr":
        raise ModelError(f"a model with multi_class={svc.multi_class!r} cannot be certified; 'ovr' can")
    on_disk = isinstance(samples, Store)
    y = samples.labels() if isinstance(samples, Store) else _known_labels(svc, samples)
    unknown = sorted(set(np.unique(y).tolist()) - set(svc.classes_.tolist()), key=str)
    if unknown:
        known = ", ".join(map(str, svc.classes_.tolist()))
        name = samples.folder if isinstance(samples, Store) else samples.name
        raise DataError(f"{name}: the label {unknown[0]!r} is not one of the model's: {known}")
    X: Any = samples if isinstance(samples, Store) else samples.features_for(model.encoder, svc.n_features_in_)
    if X.shape[1] != svc.n_features_in_:
        raise DataError(f"it has {X.shape[1]} columns, but the model was trained on {svc.n_features_in_}")
    made, balls = [], []
    for j, k in enumerate([1] if len(svc.classes_) == 2 else range(len(svc.classes_))):
        problem = _objective(svc, X, y, k)
        dual = _kept_dual(svc, problem, j) if on_disk else None
        certificate, dual = certify_with_dual(problem, svc.coef_[j], svc.intercept_[j], dual)
        if not on_disk:
            balls.append(ball_of(problem, svc.coef_[j], float(svc.intercept_[j]), dual))
            forget_scores(problem)
        rest = str(svc.classes_.tolist()[0]) if len(svc.classes_) == 2 else "the rest"
        made.append((f"{svc.classes_.tolist()[k]} against {rest}", certificate))
    if on_disk:
        return made, None
    codes = np.searchsorted(svc.classes_, svc.predict(X))
    return made, float(winners_proven(codes, balls).mean())


def _known_labels(svc: LinearSVC, samples: Samples) -> np.ndarray:
    """Return the labels, as text where the model has text: 1 in one file may be "1" in another."""
    y = np.asarray(samples.y)
    return y.astype(str) if svc.classes_.dtype.kind == "U" and y.dtype.kind != "U" else y


def _kept_dual(svc: LinearSVC, problem: Problem, j: int) -> np.ndarray | None:
    """Return the dual variables of the fit, where the model has them for as many rows. Any values give a valid bound, these a close one."""
    if getattr(svc, "_n_rows", None) != problem.n or not hasattr(svc, "dual_coef_"):
        return None
    row = svc.dual_coef_[[j]]
    signed = np.zeros(problem.n)
    signed[svc.support_] = np.asarray(row.toarray() if hasattr(row, "toarray") else row).ravel()
    scale = problem.c * problem.y / problem.l2  # y·C·s, as dual_coef_ was made
    return np.clip(np.divide(signed, scale, out=np.zeros(problem.n), where=scale != 0), 0.0, problem.loss.upper_bound())


def _objective(svc: LinearSVC, X: Any, y: np.ndarray, k: int) -> Problem:
    """Return the problem that the classifier solves for class k against the rest."""
    codes = np.searchsorted(svc.classes_, y)
    weights = weights_by_class(svc.class_weight, svc.classes_, codes, None)
    if weights is not None and len(svc.classes_) > 2:
        # as LIBLINEAR: the class has its weight, the rest has weight 1
        weights = np.where(np.arange(len(svc.classes_)) == k, weights, 1.0)
    sample_weight = None if weights is None else weights[codes]
    total = float(len(y)) if sample_weight is None else float(sample_weight.sum())
    settings: dict[str, Any] = {
        **from_C(svc.C, total),
        "delta": svc.delta if svc.loss == "smooth_hinge" else None,
        "sample_weight": sample_weight,
        "intercept": svc.intercept if svc.fit_intercept else "none",
        "intercept_scale": svc.intercept_scaling,
        "bounds": coefficient_bounds(svc, svc.n_features_in_),
    }
    signs, loss = np.where(codes == k, 1, -1), "logistic" if svc.loss == "log_loss" else svc.loss
    if isinstance(X, Store):
        return StoreProblem(X, loss, y=signs, **settings)
    return Problem(X, signs, loss, **settings)
