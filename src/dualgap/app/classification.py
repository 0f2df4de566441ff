"""What the commands do for classes: parameters, accuracy, confusion, predicted labels and the certificates of each class."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualgap.answers import labels_by_class
from dualgap.app import fit_display as show
from dualgap.app.model_file import ModelError, SavedModel
from dualgap.app.terminal import say
from dualgap.data import DataError, Samples, learn_target
from dualgap.estimators import LinearSVC
from dualgap.proof import Ball, Certificate, ProofError, ball_of
from dualgap.run import certify_with_dual
from dualgap.store import Store

__all__ = ["Classification", "measures", "score_labels", "scores_of"]


def measures(classes: np.ndarray, y: np.ndarray, said: np.ndarray) -> dict[str, Any]:
    """Compare predicted labels with true ones: accuracy, mean recall of the classes, and the confusion matrix (rows are the truth)."""
    matrix = np.zeros((len(classes), len(classes)), dtype=np.int64)
    np.add.at(matrix, (np.searchsorted(classes, y), np.searchsorted(classes, said)), 1)
    there = matrix.sum(axis=1) > 0
    recall = np.diag(matrix)[there] / matrix.sum(axis=1)[there]
    accuracy = float(np.trace(matrix) / max(matrix.sum(), 1))
    return {"accuracy": accuracy, "balanced_accuracy": float(recall.mean()), "confusion": matrix.tolist()}


class Classification:
    """LinearSVC on labels."""

    name = "classification"
    proves = "column 'proven'"
    estimator = LinearSVC

    # ------------------------------------------------------------------------------------------------------------------ training

    def parameters(
        self, y: Any, loss: str | None, C: float | None, balanced: bool, delta: float | None, **others: float | None
    ) -> dict[str, Any]:
        """Return the parameters of the estimator that the options of `fit` say."""
        for option, value in others.items():
            if value is not None:
                raise ValueError(f"--{option} {value:g} is for losses of regression; leave it out, or give --task regression")
        loss = loss or "squared_hinge"
        if delta is not None and loss != "smooth_hinge":
            raise ValueError(f"--delta {delta:g} is the width of smooth_hinge, and the loss is {loss}; leave it out")
        return {
            "loss": "log_loss" if loss == "logistic" else loss,
            "C": 1.0 if C is None else C,
            "class_weight": "balanced" if balanced else None,
            "delta": delta,
        }

    def problems(self, y: np.ndarray) -> int:
        """Return how many problems a fit solves."""
        classes = len(np.unique(y))
        return 1 if classes == 2 else classes

    def described(self, samples: Samples) -> list[str]:
        """Return the classes in words, and a line on whole numbers that may be a measured quantity."""
        classes, counts = np.unique(samples.y, return_counts=True)
        shares = ", ".join(f"{label} {count:,}" for label, count in zip(classes.tolist()[:8], counts.tolist(), strict=False))
        more = ", …" if len(classes) > 8 else ""
        kinds = "1 class" if len(classes) == 1 else f"{len(classes)} classes"
        lines = [f"{kinds} ({shares}{more})"]
        if classes.dtype.kind in "iu" and len(classes) > 10:
            lines.append("The numbers are taken as classes; --task regression predicts the number itself")
        return lines

    def certificate_names(self, svc: LinearSVC) -> list[str]:
        """Return what the problems of a fit are called."""
        classes = [str(label) for label in svc.classes_.tolist()]
        return [f"{classes[1]} against {classes[0]}"] if len(classes) == 2 else [f"{name} against the rest" for name in classes]

    def facts(self, svc: LinearSVC) -> dict[str, Any]:
        """Return what is known of this kind of model alone."""
        return {"classes": [str(label) for label in svc.classes_.tolist()]}

    def measured(self, svc: LinearSVC, X: Any, y: np.ndarray) -> dict[str, Any]:
        """Compare a model with the labels of rows, or of a store."""
        if isinstance(X, Store):
            return measures(svc.classes_, y[np.argsort(X.origin())], score_labels(svc, scores_of(svc, X)))
        proven = proven_labels(svc, X)
        return measures(svc.classes_, y, svc.predict(X)) | ({} if proven is None else {"proven": float(proven.mean())})

    def direction(self, svc: LinearSVC, k: int, weight: float) -> dict[str, str]:
        """Return which class a feature of this weight in model k speaks for or against."""
        classes = [str(label) for label in svc.classes_.tolist()]
        if len(classes) == 2:
            return {"class": classes[int(weight > 0)], "speaks": "for"}
        return {"class": classes[k], "speaks": "for" if weight > 0 else "against"}

    # ---------------------------------------------------------------------------------------------------------- cross-validation

    def splits(self, y: np.ndarray, folds: int, seed: Any) -> Any:
        """Return (training rows, held-out rows) of each fold, stratified if every class has enough rows; None for too few rows."""
        from sklearn.model_selection import KFold, StratifiedKFold

        _, counts = np.unique(y, return_counts=True)
        if folds < 2 or counts.max() < 2:
            return None
        kind = StratifiedKFold if counts.min() >= folds else KFold
        return kind(folds, shuffle=True, random_state=seed).split(np.zeros(len(y)), y)

    def constant(self, y: np.ndarray) -> Any:
        """Return the label of all rows where they have one alone, and no model is trained; else None."""
        return y[0] if len(np.unique(y)) < 2 else None

    def fold(self, svc: LinearSVC, X: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the labels of held-out rows, which are proven, and the accuracy."""
        found, said = proven_labels(svc, X), svc.predict(X)
        return said, np.zeros(len(y), dtype=bool) if found is None else found, float(np.mean(said == y))

    def validated(self, y: np.ndarray, said: np.ndarray, proven: np.ndarray, folds: list[float]) -> dict[str, Any]:
        """Return the measures of a cross-validation."""
        return measures(np.unique(y), y, said) | {"proven": float(proven.mean()), "folds": folds}

    # ------------------------------------------------------------------------------------------------------------------- showing

    def show(self, about: dict[str, Any], counted: np.ndarray | None) -> None:
        """Print accuracy and confusion."""
        training, validated = about["training"], about.get("cross_validation")
        say(f"Accuracy on the training rows: {training['accuracy']:.4f} (mean over classes {training['balanced_accuracy']:.4f})")
        if training.get("proven") is not None:
            say(share_words(training["proven"]))
        if validated is not None:
            folds = validated["folds"]
            spread = f" (mean over classes {validated['balanced_accuracy']:.4f}; folds from {min(folds):.4f} to {max(folds):.4f})"
            say(f"Accuracy in {len(folds)}-fold cross-validation: {validated['accuracy']:.4f}{spread}")
            if validated.get("proven") is not None:
                say(share_words(validated["proven"]))
        if "test" in about:
            say(f"Accuracy on the test part of the data set: {about['test']['accuracy']:.4f}")
        if counted is not None:
            classes, counts = np.unique(counted, return_counts=True)
            commonest = str(classes.tolist()[int(counts.argmax())])
            say(f"Always saying {commonest!r} would have: {counts.max() / counts.sum():.4f}")
        say()
        where = "the training rows" if validated is None else "cross-validation"
        matrix = np.array((training if validated is None else validated)["confusion"])
        show.print_confusion(about["classes"], matrix, f"Confusion {'on' if validated is None else 'in'} {where}")

    # ---------------------------------------------------------------------------------------------------------------- predicting

    def predictions(self, model: SavedModel, X: Any, truth: Any) -> tuple[tuple[Any, ...], list[Any], dict[str, Any], str]:
        """Return the heads and rows of the answer, the same as plain data, and a sentence on the accuracy."""
        svc = model.estimator
        scores = scores_of(svc, X)
        labels = score_labels(svc, scores)
        proven = None if isinstance(X, Store) else proven_labels(svc, X)
        accuracy = _accuracy(svc.classes_, labels, truth, model.about.get("above"))
        told: dict[str, Any] = {"classes": svc.classes_, "labels": labels, "scores": scores}
        told |= {"accuracy": accuracy[0]} if accuracy else {}
        told |= {} if proven is None else {"proven": proven}
        heads = ("label", "score") if scores.shape[1] == 1 else ("label", *(f"score {name}" for name in svc.classes_))
        rows: list[Any] = [(label, *map(float, row)) for label, row in zip(labels.tolist(), scores, strict=True)]
        if proven is not None:
            heads, rows = (*heads, "proven"), [(*row, sure) for row, sure in zip(rows, proven.tolist(), strict=True)]
        return heads, rows, told, accuracy[1] if accuracy else ""

    # ---------------------------------------------------------------------------------------------------------------- certifying

    def certified(self, model: SavedModel, samples: Samples | Store) -> tuple[list[tuple[str, Certificate]], str, dict[str, Any]]:
        """Return a certificate of the model's objective on some data, with more than two classes one for each class; a sentence on what
        is proven of the labels, and the same as plain data (nothing for a store)."""
        svc = model.estimator
        if svc.multi_class != "ovr":
            raise ModelError(f"a model with multi_class={svc.multi_class!r} cannot be certified; 'ovr' can")
        X, y = _rows_for(model, samples)
        made, balls = [], []
        for j, (problem, kept) in enumerate(svc._objectives(X, y)):
            certificate, dual = certify_with_dual(problem, svc.coef_[j], svc.intercept_[j], kept if isinstance(X, Store) else None)
            if not isinstance(X, Store):
                balls.append(ball_of(problem, svc.coef_[j], float(svc.intercept_[j]), dual))
            made.append((self.certificate_names(svc)[j], certificate))
        if isinstance(X, Store):
            return made, "", {}
        codes = np.searchsorted(svc.classes_, svc.predict(X))
        share = float(winners_proven(codes, balls).mean())
        return made, share_words(share), {"proven": share}


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


def proven_labels(svc: LinearSVC, X: Any) -> np.ndarray | None:
    """Return which labels of rows are proven; None for a model that proves none, such as one that was trained on a store."""
    try:
        return svc.predict_proven(X)[1]
    except ProofError:
        return None


def share_words(share: float) -> str:
    """Return the share of proven labels in words."""
    return f"  {100 * share:.4g} % of these labels are proven to be those of the exact model"


def winners_proven(labels: np.ndarray, balls: list[Ball]) -> np.ndarray:
    """Return which training rows of some balls have the labels with these codes for certain."""
    low, high = (np.stack(ends, axis=1) for ends in zip(*(ball.training_bounds() for ball in balls), strict=True))
    return labels_by_class(labels, low, high)[0]


def _accuracy(classes: Any, labels: Any, truth: Any, above: float | None) -> tuple[float, str] | None:
    """Return the share of right labels with a sentence, where the true ones are known; None for an unknown or an empty label."""
    if truth is None:
        return None
    if not isinstance(truth, np.ndarray):
        try:
            truth, rows = learn_target(truth, "labels", above, "classification").apply(truth)
        except DataError:
            return None
        labels = labels[rows]
    known = np.isin(truth.astype(str), classes.astype(str))
    if not known.any():
        return None
    share = float(np.mean(truth.astype(str)[known] == labels.astype(str)[known]))
    strange = "" if known.all() else f"; {int((~known).sum()):,} rows have a label that the model does not know"
    return share, f"accuracy {share:.4f} on {int(known.sum()):,} rows with a label{strange}"


# -------------------------------------------------------------------------------------------------------------------- objectives


def _rows_for(model: SavedModel, samples: Samples | Store) -> tuple[Any, np.ndarray]:
    """Return the features and labels of data for a model; refuse labels and columns that it does not have."""
    svc = model.estimator
    y = samples.labels() if isinstance(samples, Store) else _known_labels(svc, samples)
    unknown = sorted(set(np.unique(y).tolist()) - set(svc.classes_.tolist()), key=str)
    if unknown:
        known = ", ".join(map(str, svc.classes_.tolist()))
        name = samples.folder if isinstance(samples, Store) else samples.name
        raise DataError(f"{name}: the label {unknown[0]!r} is not one of the model's: {known}")
    return model.features_of(samples), y


def _known_labels(svc: LinearSVC, samples: Samples) -> np.ndarray:
    """Return the labels, as text where the model has text: 1 in one file may be "1" in another."""
    y = np.asarray(samples.y)
    return y.astype(str) if svc.classes_.dtype.kind == "U" and y.dtype.kind != "U" else y
