"""What the estimators share: class weights, the scale of C, the warning of a fit that ended early."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning as SklearnConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dualgap.answers import ConvergenceWarning as RunWarning
from dualgap.answers import strong_penalty
from dualgap.core import counted, is_sparse, is_whole, number
from dualgap.problem import all_finite, as_features, from_C, is_dask
from dualgap.run import SUCCESSES

__all__ = [
    "ConvergenceWarning",
    "check_fitted",
    "finite_C",
    "fit_seed",
    "invalid_parameters",
    "keep_parameters",
    "linear_rows",
    "penalties",
    "plain_rows",
    "refuse_dask",
    "small_as_dense",
    "validated",
    "validated_rows",
    "warn_unless_converged",
    "weights_by_class",
    "worst_status",
]


class ConvergenceWarning(RunWarning, SklearnConvergenceWarning):
    """A fit ended before its certified gap was as small as asked; both dualgap's and scikit-learn's ConvergenceWarning.

    Examples
    --------
    >>> import sklearn.exceptions
    >>> from dualgap.estimators.common import ConvergenceWarning
    >>> issubclass(ConvergenceWarning, sklearn.exceptions.ConvergenceWarning)
    True
    """


# ---------------------------------------------------------------------------------------------------------------- parameters


@contextmanager
def invalid_parameters() -> Iterator[None]:
    """Raise the ValueErrors of checks of parameters as scikit-learn's InvalidParameterError, which is one."""
    try:
        yield
    except ValueError as error:
        raise InvalidParameterError(str(error)) from None


def keep_parameters(model: Any, given: dict[str, Any]) -> None:
    """Set the parameters of a constructor, from its `locals()`."""
    for name, value in given.items():
        if name not in ("self", "__class__"):
            setattr(model, name, value)


def fit_seed(random_state: Any) -> int:
    """The seed of a fit: the number given, or one drawn from the generator given (scikit-learn's convention)."""
    if is_whole(random_state) and random_state >= 0:
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def finite_C(C: Any) -> float:
    """Check C; say of C=inf, scikit-learn's hard margin, what comes to the same."""
    if isinstance(C, (float, np.floating)) and np.inf == C:
        raise ValueError(
            "C=inf must be finite. With the hinge loss, any C above the largest |dual_coef_| has the hard-margin model. Give C=1e3, or up "
            "to 1e6; with a much larger C the objective of separable rows is too near to 0 for a relative gap in float64"
        )
    return number("C", C)


def penalties(C: float, l1_ratio: float, total: float) -> tuple[float, float]:
    """(l2, l1) of the mean-of-losses objective for scikit-learn's C, where `total` is the sum of the sample weights."""
    strengths = from_C(C, total, l1_ratio)
    return strengths["l2"], strengths["l1"]


SMALL = 32_768  # values of a table: 256 kB
# Problem looks for NaN and infinity, and says where they are.
_ACCEPTED = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C", "ensure_all_finite": False}


def validated(estimator: Any, X: Any, y: Any, *, reset: bool = True, **options: Any) -> tuple[Any, Any]:
    """Return X and y as kernels can take them, after scikit-learn's checks; n_features_in_ and feature_names_in_ are set or compared.

    `options` are those of scikit-learn's `check_X_y`.

    Plain arrays that those checks would return as they are do not go through them: on a small problem they take a fifth of a fit.
    """
    if not (reset and _is_plain(X, y)):
        refuse_dask(estimator, X)
        return validate_data(estimator, X, y, reset=reset, **_ACCEPTED, **options)
    estimator.n_features_in_ = X.shape[1]
    vars(estimator).pop("feature_names_in_", None)
    return X, y


def small_as_dense(X: Any) -> Any:
    """Return a small sparse table as an array, so that its model has the same bits as that of an array; other X as they are.

    The smallest dense tables have a method of their own, see `solvers.newton`. It is faster than those for sparse rows, too.
    """
    return X.toarray() if is_sparse(X) and X.shape[0] * X.shape[1] <= SMALL else X


def validated_rows(estimator: Any, X: Any, **options: Any) -> Any:
    """Return new rows as scikit-learn checks them: names and number of the columns must be those of training.

    `options` are those of scikit-learn's `check_array`. Plain arrays are not looked at for NaN.
    """
    if _is_plain_table(estimator, X):
        return X
    refuse_dask(estimator, X)
    return validate_data(estimator, X, reset=False, **{**_ACCEPTED, **options})


def refuse_dask(estimator: Any, X: Any) -> None:
    """Raise where X is a Dask collection: it would be drawn into this process without a word."""
    if is_dask(X):
        name = type(estimator).__name__
        own = f"dualgap.dask.{name}" if name in ("LinearSVC", "LinearSVR") else "LinearSVC or LinearSVR of dualgap.dask"
        raise TypeError(
            f"X is a Dask collection, and {name} works on rows in this process: train and predict on a cluster's workers with {own}, "
            "or bring the rows here with X.compute()"
        )


def linear_rows(estimator: Any, X: Any, diagonal: Any = None) -> Any:
    """Return new rows of a linear model as features, checked."""
    if diagonal is not None:
        raise ValueError("diagonal goes with kernel='precomputed' alone; the rows of a linear model say what k(x, x) is")
    return as_features(validated_rows(estimator, X), columns=estimator.n_features_in_)


def plain_rows(estimator: Any, X: Any) -> np.ndarray | None:
    """Return new rows that scikit-learn's checks would return as they are; None for others, which have to go through them."""
    return X if _is_plain_table(estimator, X) and all_finite(X.reshape(-1)) else None


def check_fitted(estimator: Any) -> None:
    """Raise NotFittedError unless fitted. scikit-learn's check builds all tags first, so it runs only if `intercept_` is missing."""
    if "intercept_" not in vars(estimator):
        check_is_fitted(estimator)


def _is_plain_table(estimator: Any, X: Any) -> bool:
    """Return whether X is a plain table with the columns of training, which had no names."""
    return _is_table(X) and X.shape[1] == getattr(estimator, "n_features_in_", -1) and "feature_names_in_" not in vars(estimator)


def _is_plain(X: Any, y: Any) -> bool:
    """Return whether X is a C-ordered array of floats that is not empty, and y an array of as many labels of a plain type."""
    if not _is_table(X) or type(y) is not np.ndarray or y.ndim != 1 or len(X) != len(y):
        return False
    return y.dtype.kind in "iub" or (y.dtype.kind == "f" and bool(np.isfinite(y).all()))


def _is_table(X: Any) -> bool:
    """Return whether X is a C-ordered array of floats that is not empty."""
    if type(X) is not np.ndarray or X.ndim != 2 or X.size == 0 or X.dtype not in (np.float64, np.float32):
        return False
    return bool(X.dtype.isnative and X.flags.c_contiguous and X.flags.aligned)


def check_labels(y: np.ndarray) -> None:
    """Refuse targets of a regression. Most labels are told by their type; scikit-learn's slower check takes the rest."""
    if y.dtype.kind in "iubSU" or (y.dtype.kind == "f" and np.array_equal(y, np.trunc(y))):
        return
    check_classification_targets(y)


@invalid_parameters()
def weights_by_class(
    class_weight: Any, classes: np.ndarray, codes: np.ndarray, sample_weight: np.ndarray | None
) -> np.ndarray | None:
    """One weight a class: None, "balanced" (total weight / (number of classes · the class's weight)), or a mapping of labels."""
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(f"class_weight={class_weight!r} is unknown; give 'balanced', a dict of weights by label, or None")
        counts = np.bincount(codes, weights=sample_weight, minlength=len(classes))
        if not (counts > 0).all():
            raise ValueError("class_weight='balanced' needs every class to have some sample of positive weight")
        return counts.sum() / (len(classes) * counts)
    if not hasattr(class_weight, "items"):
        raise ValueError(f"class_weight={class_weight!r} must be 'balanced', a dict of weights by label, or None")
    weights, given = np.ones(len(classes)), np.zeros(len(classes), dtype=bool)
    absent = []
    for label, value in class_weight.items():
        checked = number(f"class_weight[{label!r}]", value, "[0, inf)")
        place = np.flatnonzero(classes == label)
        if len(place) == 0:
            absent.append(label)
        weights[place], given[place] = checked, True
    if absent and not given.all():  # perhaps misspelt; a part of the rows may lack a class, as scikit-learn allows
        raise ValueError(
            f"class_weight has the label {absent[0]!r}, which is not one of the classes {classes.tolist()}, and no weight for "
            f"{classes[~given].tolist()[0]!r}"
        )
    return weights


# ------------------------------------------------------------------------------------------------------------------- outcome

_BADNESS: tuple[str, ...] = (*SUCCESSES, "max_epochs", "max_seconds", "rounding_limit", "stalled", "interrupted", "diverged")
_TRY = {
    "max_epochs": "raise max_iter",
    "max_seconds": "raise max_time",
    "stalled": "the gap has stopped falling: raise tol or choose another solver",
    "rounding_limit": "float64 cannot tell better models from this one: raise tol, or give atol if the objective is near 0",
    "interrupted": "let it run to its end",
    "diverged": "the objective blew up: scale the features, or choose another solver",
}


def worst_status(statuses: Sequence[str]) -> str:
    """The status of a fit of several problems: converged only where all are, decided only where all are decided or converged."""
    return max(statuses, key=_BADNESS.index)


def warn_unless_converged(name: str, results: Sequence[Any], tol: float, stacklevel: int = 3) -> str:
    """The status of the fit; unless it is a success, warn with gap, tolerance, distance from optimal and what to try."""
    status = worst_status([r.status for r in results])
    if status in SUCCESSES or (tol == 0.0 and status in ("max_epochs", "max_seconds", "stalled", "rounding_limit")):
        return status  # with tol=0 the budget, or the last bit of precision, is the end that was asked for
    late = [r for r in results if r.status not in SUCCESSES]
    worst = max((r.certificate for r in late), key=lambda c: c.relative_gap)
    which = f" on {len(late)} of {len(results)} problems" if len(results) > 1 else ""
    above = f"at most {100 * worst.gap / worst.dual:.3g} % above" if worst.dual > 0 else f"at most {worst.gap:.3g} above"
    easier = "larger" if strong_penalty(getattr(late[0], "problem", None)) else "smaller"
    warnings.warn(
        f"{name} did not converge{which}: status {status!r} after {counted(max(r.epochs for r in late), 'epoch')}, relative gap "
        f"{worst.relative_gap:.1e} (gap {worst.gap:.3g}) over tol={tol:.1e}; the objective is {above} the optimum. "
        f"What to try: {_TRY[status]}; standardise the features; use a {easier} C.",
        ConvergenceWarning,
        stacklevel=stacklevel,
    )
    return status
