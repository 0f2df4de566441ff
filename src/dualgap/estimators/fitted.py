"""Attributes of fitted estimators from the results of their problems, and the way back: where a warm start begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from dualgap.proof import ProofError
from dualgap.run import Trained

__all__ = [
    "Fit",
    "Kept",
    "Later",
    "complete",
    "fit_of",
    "keep",
    "keep_attributes",
    "refuse_uncertified",
    "row_of",
    "signed_dual",
    "signed_duals",
]


@dataclass(frozen=True)
class Kept:
    """What `fit` was given, by reference, and the dual variables of its problems."""

    X: Any
    y: Any
    sample_weight: Any
    duals: Sequence[Any] | None
    treated: Any = None  # of an indefinite kernel: the matrix trained on, see `indefinite`


@dataclass
class Fit:
    """What a fit leaves behind besides its public attributes; the attribute `_fit` of an estimator, new with each fit."""

    n_rows: int = 0  # of the data of `support_` and `dual_coef_`; 0 where no dual variables were found
    later: Callable[[], dict[str, Any]] | None = None  # makes the attributes that nobody has asked for yet
    kept: Kept | None = None  # the training data; not pickled
    balls: Any = None  # of the exact models, once made; or the reason why a saved model has none
    streams: Sequence[Any] = ()  # of partial_fit


class Later:
    """Compute a fitted attribute on first access. `fit` sets `_fit.later`, a function that returns all of them.

    A value that the user assigns is kept. A search over parameters fits many small models and reads few of their attributes.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self
        complete(model)
        if self.name not in model.__dict__:
            raise AttributeError(f"{type(model).__name__!r} object has no attribute {self.name!r}")
        return model.__dict__[self.name]


def complete(model: Any) -> None:
    """Make the attributes that nobody has asked for yet."""
    fit = fit_of(model)
    if fit.later is not None:
        for name, value in fit.later().items():
            model.__dict__.setdefault(name, value)
        fit.later = None


def fit_of(model: Any) -> Fit:
    """Return what the last fit has left behind; nothing before the first one."""
    fit: Fit = getattr(model, "_fit", None) or Fit()
    return fit


def keep(model: Any, results: Sequence[Trained], fit: Fit, **attributes: Any) -> None:
    """Set the attributes that every fitted estimator has from the results of its problems, and those given."""
    certificates, traces = [r.certificate for r in results], [r.trace for r in results]
    primals, gaps = [c.primal for c in certificates], [c.gap for c in certificates]
    one = len(results) == 1
    found = {
        "certificate_": certificates[0] if one else certificates,
        "history_": traces[0] if one else traces,
        "objective_": primals[0] if one else np.array(primals),
        "dual_gap_": gaps[0] if one else np.array(gaps),
        "intercept_": np.array([r.intercept for r in results]),
        "n_iter_": max([r.epochs for r in results]),
    }
    keep_attributes(model, fit, found | attributes)


def keep_attributes(model: Any, fit: Fit, attributes: dict[str, Any]) -> None:
    """Set the attributes of a fit, and remove those of an earlier one, all but what tells the columns of X."""
    for name in [
        name for name in model.__dict__ if name[-1] == "_" != name[0] and name not in ("n_features_in_", "feature_names_in_")
    ]:
        delattr(model, name)
    model._fit = fit
    for name, value in attributes.items():
        setattr(model, name, value)


def refuse_uncertified(model: Any, what: str) -> None:
    """Raise ProofError where a model was trained without a certificate: nothing about the exact model can be proven from it."""
    if getattr(model, "status_", None) == "uncertified":
        raise ProofError(
            f"{what} cannot be had from an uncertified model: its kernel is not positive semidefinite, and it was trained with "
            "indefinite='uncertified'; fit with indefinite='clip', or with another kernel"
        )


def signed_duals(results: Sequence[Trained], C: float) -> np.ndarray:
    """Return yᵢ·C·sᵢ·βᵢ of all rows, a line for each problem."""
    # c / l2 is C·s up to the share of l2, whatever the weights were.
    signed = np.empty((len(results), len(results[0].dual)))
    for row, r in zip(signed, results, strict=True):
        np.multiply(r.problem.y, r.dual, out=row)
        if r.problem.sample_weight is not None:
            row *= r.problem.c * float(r.problem.sample_weight.sum())
    signed *= C
    return signed


def signed_dual(model: Any, j: int, weights: np.ndarray | None, C: float) -> np.ndarray:
    """Return yᵢβᵢ of all training rows for problem j of a fitted model, from its dual_coef_."""
    n = model._fit.n_rows
    scale = C * (np.ones(n) if weights is None else weights)[model.support_]
    dual = np.zeros(n)
    dual[model.support_] = np.divide(row_of(model.dual_coef_, j), scale, out=np.zeros(len(scale)), where=scale > 0)
    return dual


def row_of(matrix: Any, j: int) -> np.ndarray:
    """Return a row of a matrix, dense or sparse, as a vector."""
    row = matrix[[j]]
    return np.asarray(row.toarray() if sparse.issparse(matrix) else row, dtype=np.float64).ravel()
