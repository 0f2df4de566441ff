"""predict_proba by temperature scaling: probabilities exp(T·gₖ)/Σⱼ exp(T·gⱼ) of the scores g, with one number T fitted on held-out scores.

T > 0 keeps the order of the scores, so that the most probable class is the label that `predict` returns; with two classes the scores are
0 and f. Platt's sigmoid (1999) has a second number, which moves the threshold away from the label's. T minimises the log loss of the scores
that models trained on the other folds give to each row (the scores of a model on its own training rows are too far from 0). The targets of
the log loss are (N + 1)/(N + 2) for the row's class, with N the weight of all rows, and the other classes share 1/(N + 2): as if one row
more were there, with a wrong label. That keeps T finite where every held-out label is right, as Platt's targets do.
Guo et al. 2017 describe temperature scaling.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dualgap.estimators.model import Model
from dualgap.estimators.parameters import fit_seed
from dualgap.estimators.samples import is_store

__all__ = [
    "agreed",
    "best_temperature",
    "calibrate",
    "calibrated",
    "check_probability",
    "is_calibrated",
    "predict_log_proba",
    "predict_proba",
    "wants_probability",
]

FOLDS = 5
LEAST, MOST = 1e-9, 1e9  # T·(standard deviation of the scores): where the log loss still falls beyond these, T stays there


def wants_probability(estimator: BaseEstimator) -> bool:
    """Return whether `probability` is True; scikit-learn's default value of it, "deprecated", is False."""
    return bool(getattr(estimator, "probability", False)) and estimator.probability != "deprecated"


def is_calibrated(estimator: BaseEstimator) -> bool:
    """Return whether a classifier has probabilities; raise AttributeError with the way to them where not."""
    if wants_probability(estimator) or getattr(estimator, "loss", None) in ("log_loss", "logistic"):
        return True
    raise AttributeError(
        f"predict_proba needs probability=True{', or loss=' + repr('log_loss') if hasattr(estimator, 'loss') else ''}, before fit; "
        "sklearn.calibration.CalibratedClassifierCV has other kinds of calibration"
    )


def check_probability(model: Model, X: object) -> None:
    """Refuse what is neither True nor False, and probability=True where it cannot be had, before training."""
    given = model.probability
    if not isinstance(given, (bool, np.bool_)) and given != "deprecated":
        raise ValueError(f"probability={given!r} must be True or False")
    if wants_probability(model) and is_store(X):
        raise ValueError("probability=True needs the rows in memory, for fits on parts of them; these are in a store")


def calibrate(model: Model, X: object, y: np.ndarray, weights: np.ndarray | None) -> None:
    """Set `temperature_` if it is wanted, by FOLDS more fits. Rows of weight 0 have no part in it."""
    if not wants_probability(model) or getattr(model, "loss", None) in ("log_loss", "logistic"):
        return
    rows = np.arange(len(y)) if weights is None else np.flatnonzero(weights)
    codes = np.searchsorted(model.classes_, y[rows])
    counts = np.bincount(codes)
    if counts.min() < 2:
        label = model.classes_.tolist()[int(np.argmin(counts))]
        raise ValueError(f"probability=True needs two rows of every class, for fits on parts of them; class {label!r} has one")
    seed = fit_seed(model.random_state)
    one = clone(model)
    quiet = {"probability": False, "random_state": seed, "warm_start": False, "callbacks": None, "verbose": 0}
    known = one.get_params(deep=False)  # a subclass may have fewer
    one.set_params(**{name: value for name, value in quiet.items() if name in known})
    folds = StratifiedKFold(min(FOLDS, int(counts.min())), shuffle=True, random_state=seed % 2**32)
    scores = np.empty((len(rows), len(model.classes_)))
    for train, test in folds.split(codes, codes):
        at = rows[train]
        fitted = clone(one).fit(_chosen(model, X, at, at), y[at], None if weights is None else weights[at])
        scores[test] = _by_class(fitted, _chosen(model, X, rows[test], at))
    model.temperature_ = best_temperature(scores, codes, np.ones(len(rows)) if weights is None else weights[rows])


# Methods of the classifiers, without a base class for them.
@available_if(is_calibrated)
def predict_proba(self: Any, X: object) -> np.ndarray:
    """Return probabilities of the classes; the most probable class is the label that `predict` returns.

    They need probability=True before `fit`, which then fits on five folds, too. See docs/estimators.md.

    Parameters
    ----------
    X : samples, as of `predict`

    Returns
    -------
    array of shape (n, number of classes), in the order of `classes_`
    """
    check_is_fitted(self)
    return calibrated(self, X)


@available_if(is_calibrated)
def predict_log_proba(self: Any, X: object) -> np.ndarray:
    """Return the logarithms of the probabilities."""
    with np.errstate(divide="ignore"):
        return np.log(self.predict_proba(X))


def calibrated(model: Model, X: object) -> np.ndarray:
    """Return the probabilities of a fitted model by its temperature."""
    if not hasattr(model, "temperature_"):
        raise NotFittedError("predict_proba is not available when fitted with probability=False; fit the model again")
    labels = model.predict(X)
    return agreed(softmax(model.temperature_ * _by_class(model, X), axis=1), np.searchsorted(model.classes_, labels))


def _chosen(model: Model, X: Any, rows: np.ndarray, columns: np.ndarray) -> Any:
    """Return some rows of X; of a kernel matrix, their values with the rows trained on."""
    if getattr(model, "kernel", None) == "precomputed":
        return X[np.ix_(rows, columns)]
    return _safe_indexing(X, rows)


def _by_class(model: Model, X: object) -> np.ndarray:
    """Return a score for each class; the largest is the label's, up to ties."""
    scores = model._class_scores(X) if hasattr(model, "_class_scores") else model.decision_function(X)
    return np.column_stack([np.zeros(len(scores)), scores]) if scores.ndim == 1 else scores


def best_temperature(scores: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> float:
    """Return the T > 0 of least log loss Σ sᵢ Σₖ −tᵢₖ log softmax(T·gᵢ)ₖ for the targets t above; the loss is convex in T.

    Examples
    --------
    >>> import numpy as np
    >>> from dualgap.estimators.probability import best_temperature
    >>> scores = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    >>> round(best_temperature(scores, np.array([1, 1, 1, 0]), np.ones(4)), 3)  # the mean target is (3·5/6 + 1/6)/4 = 2/3
    0.693
    """
    n, K = scores.shape
    total = float(weights.sum())
    targets = np.full((n, K), 1.0 / ((total + 2.0) * (K - 1)))
    targets[np.arange(n), codes] = (total + 1.0) / (total + 2.0)
    centred = scores - scores.mean(axis=1, keepdims=True)
    size = float(np.sqrt(np.square(centred).mean()))
    if size == 0.0:
        return 1.0
    wanted = float(weights @ (targets * centred).sum(axis=1))

    def slope(T: float) -> float:
        return float(weights @ (softmax(T * centred, axis=1) * centred).sum(axis=1)) - wanted

    low, high = LEAST / size, MOST / size
    if slope(low) >= 0.0:
        return low
    if slope(high) <= 0.0:
        return high
    return float(np.exp(brentq(lambda t: slope(np.exp(t)), np.log(low), np.log(high), xtol=1e-12)))


def agreed(probabilities: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return probabilities whose largest one in each row is that of the class given.

    They are, but for ties: of votes, where the label is the first class and its probability is exchanged with the largest one; and of
    rounding, where it is raised by one unit of the last digit.
    """
    rows = np.flatnonzero(probabilities.argmax(axis=1) != codes)
    if len(rows):
        probabilities = probabilities.copy()
        own, top = codes[rows], probabilities[rows].argmax(axis=1)
        probabilities[rows, own], probabilities[rows, top] = probabilities[rows, top], probabilities[rows, own]
        rows = rows[probabilities[rows].argmax(axis=1) != own]
        probabilities[rows, codes[rows]] = np.nextafter(probabilities[rows, codes[rows]], 2.0)
    return probabilities
