"""The two kinds of model that the commands train, of classes and of numbers, with the same methods; what is alike stands in `Task`."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler

from dualgap.answers import labels_by_class
from dualgap.app.model_file import ModelError, SavedModel
from dualgap.app.terminal import print_table, say
from dualgap.data import DataError, Samples, learn_target
from dualgap.estimators import LinearSVC, LinearSVR
from dualgap.proof import Ball, Certificate, ProofError, ball_of
from dualgap.run import certify_with_dual
from dualgap.store import Store

if TYPE_CHECKING:
    import polars as pl
    from scipy import sparse

    Fitted = LinearSVC | LinearSVR
    Features = np.ndarray | sparse.csr_matrix | Store
    Truth = np.ndarray | pl.Series | None

__all__ = ["TASKS", "Task", "certificate_facts", "task_of"]

CV_TOL = 1e-3  # relative gap of the models in it: the labels they predict do not change by more than a few in ten thousand
IMPORTANT = 10  # features that are shown
MOST_CLASSES = 12  # of a confusion matrix that is shown
DEFAULT_LOSS = "squared_error"  # the loss of a regression whose C does not depend on the units of the target
LINEAR_TAILS = ("epsilon_insensitive", "huber", "absolute", "quantile")  # C goes with the units of the target
TAKES = {  # the losses of a regression that each option is for
    "epsilon": ("epsilon_insensitive", "squared_epsilon_insensitive"),
    "delta": ("huber",),
    "quantile": ("quantile",),
}
HUBER = 1.35  # delta of the Huber loss, in standard deviations of the target


def certificate_facts(problem: str, certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as plain data."""
    numbers = {name: float(getattr(certificate, name)) for name in ("primal", "dual", "gap", "relative_gap")}
    return {"problem": problem, **numbers, "text": str(certificate)}


def in_order(method: Callable[[Any], Any], X: Features) -> np.ndarray:
    """Return what a method of an estimator says of rows; of the rows of a store in the order of its input."""
    if not isinstance(X, Store):
        return np.asarray(method(X))
    return np.concatenate([method(X.matrix(k)) for k in range(len(X.parts))])[np.argsort(X.origin())]


def proven(method: Callable[[Any], Any], X: Features) -> Any:
    """Return what a method proves of rows; None for a model that proves nothing, such as one that was trained on a store."""
    try:
        return method(X)
    except ProofError:
        return None


class Task(ABC):
    """What the commands do for one kind of target."""

    name: ClassVar[str]
    estimator: ClassVar[type]
    score: ClassVar[str]  # the measure that is told of each fold
    proves: ClassVar[str]  # what `predict` lacks for a model that proves nothing

    @abstractmethod
    def parameters(
        self, y: np.ndarray, loss: str | None, C: float | None, balanced: bool, delta: float | None, **others: float | None
    ) -> dict[str, Any]:
        """Return the parameters of the estimator that the options of `fit` say."""

    @abstractmethod
    def described(self, samples: Samples) -> list[str]:
        """Return the target in words, and perhaps a line on what it may be else."""

    @abstractmethod
    def problems(self, estimator: Fitted) -> list[str]:
        """Return what the problems of a fit are called."""

    @abstractmethod
    def own_facts(self, estimator: Fitted) -> dict[str, Any]:
        """Return what is known of this kind of model alone."""

    @abstractmethod
    def direction(self, estimator: Fitted, k: int, weight: float) -> dict[str, str]:
        """Return where a feature of this weight in model k takes the prediction."""

    @abstractmethod
    def splits(self, y: np.ndarray, folds: int, seed: int | None) -> Any:
        """Return (training rows, held-out rows) of each fold; None for too few rows."""

    @abstractmethod
    def answers(self, estimator: Fitted, X: Features) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the predictions for rows in memory, and which are proven or how far each is at most from the exact model's."""

    @abstractmethod
    def compared(self, y: np.ndarray, said: np.ndarray, proofs: np.ndarray | None, classes: np.ndarray | None) -> dict[str, Any]:
        """Compare predictions with the truth."""

    @abstractmethod
    def show(self, about: dict[str, Any], counted: np.ndarray | None) -> None:
        """Print how good a model is; `counted` has the targets of the training rows."""

    @abstractmethod
    def predictions(self, model: SavedModel, X: Features, truth: Truth) -> tuple[tuple[str, ...], list[Any], dict[str, Any], str]:
        """Return the heads and rows of the answer, the same as plain data, and a sentence on how good the predictions are."""

    @abstractmethod
    def proven_in_training(self, estimator: Fitted, X: Features, balls: list[Ball]) -> tuple[str, dict[str, Any]]:
        """Return what balls prove of the predictions for their own rows, as a sentence and as plain data."""

    def labels_for(self, model: SavedModel, samples: Samples | Store) -> np.ndarray:
        """Return the targets of data, as the model has them."""
        return samples.labels() if isinstance(samples, Store) else samples.y

    def facts(self, estimator: Fitted) -> dict[str, Any]:
        """Return what is known of a fit as plain data: task, status, epochs, the certificates by class."""
        found = estimator.certificate_ if isinstance(estimator.certificate_, list) else [estimator.certificate_]
        traces = estimator.history_ if isinstance(estimator.history_, list) else [estimator.history_]
        return {
            "task": self.name,
            "status": str(estimator.status_),
            "epochs": int(estimator.n_iter_),
            "tol": float(estimator.tol),
            "seconds": float(sum(trace["wall_seconds"][-1] for trace in traces if len(trace))),  # no compilation, no evaluation
            **self.own_facts(estimator),
            "certificates": [certificate_facts(*each) for each in zip(self.problems(estimator), found, strict=True)],
        }

    def measured(self, estimator: Fitted, X: Features, y: np.ndarray) -> dict[str, Any]:
        """Compare a model with the targets of rows, or of a store."""
        classes = getattr(estimator, "classes_", None)
        if isinstance(X, Store):
            return self.compared(y[np.argsort(X.origin())], in_order(estimator.predict, X), None, classes)
        return self.compared(y, *self.answers(estimator, X), classes)

    def cross_validated(self, samples: Samples, folds: int, seconds: float | None, **parameters: Any) -> dict[str, Any] | None:
        """Predict each row by a model that was trained without it, preparation included; None where there are too few rows for it.

        Without a limit of `seconds` all folds are done; with one, None says that they would take longer.
        """
        y = samples.y
        folds = min(folds, len(y))
        splits = self.splits(y, folds, parameters.get("random_state", 0))
        if splits is None:
            return None
        parameters = parameters | {"tol": max(parameters.get("tol", CV_TOL), CV_TOL)}
        classes = None if self.name == "regression" else np.unique(y)
        said, proofs, scores = np.empty(len(y), dtype=y.dtype), np.zeros(len(y)), []
        began = time.perf_counter()
        for k, (train, held) in enumerate(splits):
            encoder, sure = samples.learn(train), None
            if classes is not None and len(np.unique(y[train])) == 1:  # all rows of one class: no model is trained
                said[held] = y[train][0]
            else:
                model = self.estimator(**parameters).fit(samples.features(encoder, train), y[train])
                if model.status_ == "interrupted":
                    raise KeyboardInterrupt
                said[held], sure = self.answers(model, samples.features(encoder, held))
                proofs[held] = sure if sure is not None else 0.0 if classes is not None else np.nan
            scores.append(self.compared(y[held], said[held], None, classes)[self.score])
            if seconds is not None and k == 0 and (time.perf_counter() - began) * folds > seconds:
                return None
        return self.compared(y, said, proofs, classes) | {"folds": scores}

    def important_features(self, model: SavedModel, X: np.ndarray | sparse.csr_matrix) -> list[dict[str, Any]]:
        """Return the features whose values move the scores most: |coefficient| × deviation of the feature, for each class."""
        deviation = np.sqrt(StandardScaler(with_mean=False).fit(X).var_)
        weight = np.atleast_2d(model.estimator.coef_) * deviation
        largest, names, found = np.abs(weight).max(axis=0), model.feature_names, []
        for j in np.argsort(-largest, kind="stable")[:IMPORTANT]:
            if largest[j] > 0:
                k = int(np.argmax(np.abs(weight[:, j])))
                value = float(weight[k, j])
                found.append({"feature": names[j], "weight": value, **self.direction(model.estimator, k, value)})
        return found

    def certified(self, model: SavedModel, samples: Samples | Store) -> tuple[list[tuple[str, Certificate]], str, dict[str, Any]]:
        """Return a certificate of the model's objective on some data, with more than two classes one for each class; a sentence on what
        is proven of the predictions, and the same as plain data (nothing for a store)."""
        estimator, y = model.estimator, self.labels_for(model, samples)
        X, names, coef = model.features_of(samples), self.problems(estimator), np.atleast_2d(estimator.coef_)
        on_disk, made, balls = isinstance(X, Store), [], []
        for k, (problem, kept) in enumerate(estimator._objectives(X, y)):
            certificate, dual = certify_with_dual(problem, coef[k], estimator.intercept_[k], kept if on_disk else None)
            made.append((names[k], certificate))
            if not on_disk:
                balls.append(ball_of(problem, coef[k], float(estimator.intercept_[k]), dual))
        return (made, "", {}) if on_disk else (made, *self.proven_in_training(estimator, X, balls))


# ------------------------------------------------------------------------------------------------------------------------ classes


class Classification(Task):
    """LinearSVC on labels."""

    name = "classification"
    estimator = LinearSVC
    score = "accuracy"
    proves = "column 'proven'"

    def parameters(
        self, y: np.ndarray, loss: str | None, C: float | None, balanced: bool, delta: float | None, **others: float | None
    ) -> dict[str, Any]:
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

    def described(self, samples: Samples) -> list[str]:
        classes, counts = np.unique(samples.y, return_counts=True)
        shares = ", ".join(f"{label} {count:,}" for label, count in zip(classes.tolist()[:8], counts.tolist(), strict=False))
        more = ", …" if len(classes) > 8 else ""
        kinds = "1 class" if len(classes) == 1 else f"{len(classes)} classes"
        lines = [f"{kinds} ({shares}{more})"]
        if classes.dtype.kind in "iu" and len(classes) > 10:
            lines.append("The numbers are taken as classes; --task regression predicts the number itself")
        return lines

    def problems(self, estimator: Fitted) -> list[str]:
        classes = [str(label) for label in estimator.classes_.tolist()]
        return [f"{classes[1]} against {classes[0]}"] if len(classes) == 2 else [f"{name} against the rest" for name in classes]

    def own_facts(self, estimator: Fitted) -> dict[str, Any]:
        return {"classes": list(map(str, estimator.classes_.tolist()))}

    def direction(self, estimator: Fitted, k: int, weight: float) -> dict[str, str]:
        classes = estimator.classes_.tolist()
        if len(classes) == 2:
            return {"class": str(classes[int(weight > 0)]), "speaks": "for"}
        return {"class": str(classes[k]), "speaks": "for" if weight > 0 else "against"}

    def splits(self, y: np.ndarray, folds: int, seed: int | None) -> Any:
        _, counts = np.unique(y, return_counts=True)
        if folds < 2 or counts.max() < 2:
            return None
        kind = StratifiedKFold if counts.min() >= folds else KFold
        return kind(folds, shuffle=True, random_state=seed).split(np.zeros(len(y)), y)

    def answers(self, estimator: Fitted, X: Features) -> tuple[np.ndarray, np.ndarray | None]:
        found = proven(estimator.predict_proven, X)
        return estimator.predict(X), None if found is None else found[1]

    def compared(self, y: np.ndarray, said: np.ndarray, proofs: np.ndarray | None, classes: np.ndarray | None) -> dict[str, Any]:
        """Return accuracy, mean recall of the classes, the confusion matrix (rows are the truth) and the share of proven labels."""
        assert classes is not None
        matrix = np.zeros((len(classes), len(classes)), dtype=np.int64)
        np.add.at(matrix, (np.searchsorted(classes, y), np.searchsorted(classes, said)), 1)
        there = matrix.sum(axis=1) > 0
        recall = np.diag(matrix)[there] / matrix.sum(axis=1)[there]
        accuracy = float(np.trace(matrix) / max(matrix.sum(), 1))
        found = {"accuracy": accuracy, "balanced_accuracy": float(recall.mean()), "confusion": matrix.tolist()}
        return found if proofs is None else found | {"proven": float(proofs.mean())}

    def show(self, about: dict[str, Any], counted: np.ndarray | None) -> None:
        training, validated = about["training"], about.get("cross_validation")
        say(f"Accuracy on the training rows: {training['accuracy']:.4f} (mean over classes {training['balanced_accuracy']:.4f})")
        if "proven" in training:
            say(_share(training["proven"]))
        if validated is not None:
            folds = validated["folds"]
            spread = f" (mean over classes {validated['balanced_accuracy']:.4f}; folds from {min(folds):.4f} to {max(folds):.4f})"
            say(f"Accuracy in {len(folds)}-fold cross-validation: {validated['accuracy']:.4f}{spread}")
            say(_share(validated["proven"]))
        if "test" in about:
            say(f"Accuracy on the test part of the data set: {about['test']['accuracy']:.4f}")
        if counted is not None:
            classes, counts = np.unique(counted, return_counts=True)
            commonest = str(classes.tolist()[int(counts.argmax())])
            say(f"Always saying {commonest!r} would have: {counts.max() / counts.sum():.4f}")
        say()
        title = f"Confusion {'on the training rows' if validated is None else 'in cross-validation'}"
        names, matrix = about["classes"], (validated or training)["confusion"]
        if len(names) > MOST_CLASSES:
            say(f"{title}: not shown for {len(names)} classes; --json has it")
            return
        say(title)
        rows = ((name, *(f"{count:,}" for count in row)) for name, row in zip(names, matrix, strict=True))
        print_table(("truth \\ said", *names), rows, right=range(1, len(names) + 1))

    def predictions(self, model: SavedModel, X: Features, truth: Truth) -> tuple[tuple[str, ...], list[Any], dict[str, Any], str]:
        svc = model.estimator
        scores = in_order(svc.decision_function, X).reshape(X.shape[0], -1)
        labels = svc.classes_[(scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)]
        found = None if isinstance(X, Store) else proven(svc.predict_proven, X)
        told: dict[str, Any] = {"classes": svc.classes_, "labels": labels, "scores": scores}
        heads = ("label", "score") if scores.shape[1] == 1 else ("label", *(f"score {name}" for name in svc.classes_))
        rows: list[Any] = [(label, *map(float, row)) for label, row in zip(labels.tolist(), scores, strict=True)]
        accuracy, sentence = _accuracy(svc.classes_, labels, truth, model.about.get("above"))
        told |= {} if accuracy is None else {"accuracy": accuracy}
        if found is not None:
            told["proven"] = found[1]
            heads, rows = (*heads, "proven"), [(*row, sure) for row, sure in zip(rows, found[1].tolist(), strict=True)]
        return heads, rows, told, sentence

    def proven_in_training(self, estimator: Fitted, X: Features, balls: list[Ball]) -> tuple[str, dict[str, Any]]:
        low, high = (np.stack(ends, axis=1) for ends in zip(*(ball.training_bounds() for ball in balls), strict=True))
        codes = np.searchsorted(estimator.classes_, estimator.predict(X))
        share = float(labels_by_class(codes, low, high)[0].mean())
        return _share(share), {"proven": share}

    def labels_for(self, model: SavedModel, samples: Samples | Store) -> np.ndarray:
        """Return the labels of data, as text where the model has text; refuse other ones than the model's."""
        svc, y = model.estimator, super().labels_for(model, samples)
        if svc.multi_class != "ovr":
            raise ModelError(f"a model with multi_class={svc.multi_class!r} cannot be certified; 'ovr' can")
        if svc.classes_.dtype.kind == "U" and y.dtype.kind != "U" and not isinstance(samples, Store):
            y = y.astype(str)  # 1 in one file may be "1" in another
        unknown = sorted(set(np.unique(y).tolist()) - set(svc.classes_.tolist()), key=str)
        if unknown:
            name = samples.folder if isinstance(samples, Store) else samples.name
            raise DataError(f"{name}: the label {unknown[0]!r} is not one of the model's: {', '.join(map(str, svc.classes_))}")
        return y


def _share(share: float) -> str:
    return f"  {100 * share:.4g} % of these labels are proven to be those of the exact model"


def _accuracy(classes: np.ndarray, labels: np.ndarray, truth: Truth, above: float | None) -> tuple[float | None, str]:
    """Return the share of right labels and a sentence, where true ones are known; None for unknown or empty labels."""
    if truth is None:
        return None, ""
    if not isinstance(truth, np.ndarray):
        try:
            truth, rows = learn_target(truth, "labels", above, "classification").apply(truth)
        except DataError:
            return None, ""
        labels = labels[rows]
    known = np.isin(truth.astype(str), classes.astype(str))
    if not known.any():
        return None, ""
    share = float(np.mean(truth.astype(str)[known] == labels.astype(str)[known]))
    strange = "" if known.all() else f"; {int((~known).sum()):,} rows have a label that the model does not know"
    return share, f"accuracy {share:.4f} on {int(known.sum()):,} rows with a label{strange}"


# ------------------------------------------------------------------------------------------------------------------------ numbers


class Regression(Task):
    """LinearSVR on numbers."""

    name = "regression"
    estimator = LinearSVR
    score = "r2"
    proves = "column 'low' or 'high'"

    def parameters(
        self, y: np.ndarray, loss: str | None, C: float | None, balanced: bool, delta: float | None, **others: float | None
    ) -> dict[str, Any]:
        """Return the parameters of the estimator that the options of `fit` say.

        Losses that grow linearly depend on the units of the target through C and delta. Their defaults are in standard deviations of it.
        """
        if balanced:
            raise ValueError("--balanced weighs classes, and a regression has none; leave it out")
        loss = loss or DEFAULT_LOSS
        for option, value in {"delta": delta, **others}.items():
            if value is not None and loss not in TAKES[option]:
                raise ValueError(f"--{option} {value:g} belongs to --loss {' or '.join(TAKES[option])}, and the loss is {loss}")
        deviation = float(np.std(y)) or 1.0
        return {
            "loss": loss,
            "C": C if C is not None else deviation if loss in LINEAR_TAILS else 1.0,
            "delta": HUBER * deviation if loss == "huber" and delta is None else delta,
            **{name: value for name, value in others.items() if value is not None},
        }

    def described(self, samples: Samples) -> list[str]:
        y, target = samples.y, f" {samples.target!r}" if samples.target else ""
        return [f"a regression on{target or ' numbers'} from {y.min():g} to {y.max():g} (median {np.median(y):g})"]

    def problems(self, estimator: Fitted) -> list[str]:
        return ["regression"]

    def own_facts(self, estimator: Fitted) -> dict[str, Any]:
        own = {name: getattr(estimator, name) for name, losses in TAKES.items() if estimator.loss in losses}
        return {"loss": estimator.loss, "C": float(estimator.C), **own}

    def direction(self, estimator: Fitted, k: int, weight: float) -> dict[str, str]:
        return {"speaks": "raises" if weight > 0 else "lowers", "class": "the prediction"}

    def splits(self, y: np.ndarray, folds: int, seed: int | None) -> Any:
        return None if folds < 2 or len(y) < 2 * folds else KFold(folds, shuffle=True, random_state=seed).split(np.zeros(len(y)))

    def answers(self, estimator: Fitted, X: Features) -> tuple[np.ndarray, np.ndarray | None]:
        said, bounds = estimator.predict(X), proven(estimator.prediction_bounds, X)
        return said, None if bounds is None else np.maximum(bounds[1] - said, said - bounds[0])

    def compared(self, y: np.ndarray, said: np.ndarray, proofs: np.ndarray | None, classes: np.ndarray | None) -> dict[str, Any]:
        """Return R² (not a number where all targets are the same), the mean absolute error, and how far the exact model's may be."""
        off, spread = y - said, y - y.mean()
        total = float(spread @ spread)
        found: dict[str, Any] = {"r2": 1.0 - float(off @ off) / total if total > 0.0 else np.nan, "mae": float(np.abs(off).mean())}
        return found | ({} if proofs is None else _farthest(proofs))

    def show(self, about: dict[str, Any], counted: np.ndarray | None) -> None:
        options = ", ".join(f"{name} {about[name]:g}" for name in ("C", *TAKES) if about.get(name) is not None)
        say(f"Loss {about['loss']}, {options}")
        say(f"On the training rows: {_measures(about['training'])}")
        if "within" in about["training"]:
            say(_within(about["training"]))
        validated = about.get("cross_validation")
        if validated is not None:
            folds = validated["folds"]
            spread = f"(R² of the folds from {min(folds):.4f} to {max(folds):.4f})"
            say(f"In {len(folds)}-fold cross-validation: {_measures(validated)} {spread}")
            if "within" in validated:
                say(_within(validated))
        if "test" in about:
            say(f"On the test part of the data set: {_measures(about['test'])}")
        if counted is not None:
            median = float(np.median(counted))
            always = self.compared(counted, np.full(len(counted), median), None, None)
            say(f"Always saying the median, {median:g}, would have: {_measures(always)}")

    def predictions(self, model: SavedModel, X: Features, truth: Truth) -> tuple[tuple[str, ...], list[Any], dict[str, Any], str]:
        said = in_order(model.estimator.predict, X)
        bounds = None if isinstance(X, Store) else proven(model.estimator.prediction_bounds, X)
        between = {} if bounds is None else {"low": bounds[0], "high": bounds[1]}
        told, sentence = {"predictions": said, **between}, ""
        found = _known_targets(truth)
        if found is not None and len(found[0]):
            measured = self.compared(found[0], said[found[1]], None, None)
            told |= measured
            sentence = f"{_measures(measured)} on {len(found[0]):,} rows with a target"
        return (
            ("prediction", *between),
            list(zip(said.tolist(), *map(np.ndarray.tolist, between.values()), strict=True)),
            told,
            sentence,
        )

    def proven_in_training(self, estimator: Fitted, X: Features, balls: list[Ball]) -> tuple[str, dict[str, Any]]:
        (low, high), said = balls[0].training_bounds(), estimator.predict(X)
        found = _farthest(np.maximum(high - said, said - low))
        return _within(found), found


def _farthest(distances: np.ndarray) -> dict[str, Any]:
    """Return how far predictions are at most from those of the exact model: half of them, and all; nothing where it is not known."""
    return {"within": {"half": float(np.median(distances)), "all": float(distances.max())}} if np.isfinite(distances).all() else {}


def _measures(measured: dict[str, Any]) -> str:
    return f"R² {measured['r2']:.4f}, mean absolute error {measured['mae']:.6g}"


def _within(measured: dict[str, Any]) -> str:
    found = measured["within"]
    return f"  half of these predictions are proven to be within {found['half']:.3g} of the exact model's, all within {found['all']:.3g}"


def _known_targets(truth: Truth) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the targets of rows to predict and the rows that have one, or None if no row has a target."""
    if isinstance(truth, np.ndarray):
        return (truth.astype(float), np.arange(len(truth))) if truth.dtype.kind in "iufb" else None
    try:
        return None if truth is None else learn_target(truth, "targets", task="regression").apply(truth)
    except DataError:
        return None


TASKS: dict[str, Task] = {task.name: task for task in (Classification(), Regression())}


def task_of(estimator: Fitted) -> Task:
    """Return the kind of a fitted estimator."""
    return next(task for task in TASKS.values() if isinstance(estimator, task.estimator))
