"""Attributes of fitted estimators from the results of their problems, and the way back: where a warm start begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from dualgap.estimators.labelled import Labelled
from dualgap.proof import ProofError
from dualgap.run import Result

__all__ = [
    "Kept",
    "Later",
    "as_csr",
    "complete",
    "forget",
    "keep",
    "keep_uncertified",
    "linear_dual",
    "linear_support",
    "rebuilt",
    "refuse_uncertified",
    "row_of",
    "signed_dual",
    "signed_duals",
    "support",
    "warm_of",
]


# What describes one fit; a later fit of another kind does not have it all.
OF_ONE_FIT = (
    "certificate_",
    "history_",
    "objective_",
    "dual_gap_",
    "support_",
    "n_support_",
    "dual_coef_",
    "_n_rows",
    "_streams",
    "_kept",
    "_balls",
    "_later",
)


@dataclass(frozen=True)
class Kept:
    """What `fit` was given, by reference, and the dual variables of its problems. It is not pickled with the model."""

    X: Any
    y: Any
    sample_weight: Any
    duals: Sequence[Any] | None
    treated: Any = None  # of an indefinite kernel: the matrix trained on, see `indefinite`


class Later:
    """Compute a fitted attribute on first access. `fit` sets `_later`, a function that returns all of them.

    A value that the user assigns is kept. A search over parameters fits many small models and reads few of their attributes.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self
        complete(model)
        if self.name not in vars(model):
            raise AttributeError(f"{type(model).__name__!r} object has no attribute {self.name!r}")
        return vars(model)[self.name]


def complete(model: Any) -> None:
    """Make the attributes that nobody has asked for yet."""
    make = vars(model).get("_later")
    if make is not None:
        for name, value in make().items():
            vars(model).setdefault(name, value)
        vars(model).pop("_later", None)


def forget(model: Any) -> None:
    """Remove the attributes of an earlier fit."""
    for name in OF_ONE_FIT:
        model.__dict__.pop(name, None)


def keep(model: Any, classes: np.ndarray | None, results: Sequence[Result], **attributes: Any) -> None:
    """Set the attributes that every fitted estimator has from the results of its problems, and those given; a regression has no classes."""
    forget(model)
    certificates, traces = [r.certificate for r in results], [r.trace for r in results]
    primals, gaps = [c.primal for c in certificates], [c.gap for c in certificates]
    one = len(results) == 1
    vars(model).update(
        certificate_=certificates[0] if one else certificates,
        history_=traces[0] if one else traces,
        objective_=primals[0] if one else np.array(primals),
        dual_gap_=gaps[0] if one else np.array(gaps),
        intercept_=np.array([r.intercept for r in results]),
        n_iter_=max([r.epochs for r in results]),
    )
    if classes is not None:
        model.classes_ = classes
    vars(model).update(attributes)


def keep_uncertified(model: Any, classes: np.ndarray, **attributes: Any) -> None:
    """Set the attributes of a fitted classifier that has no certificate: None stands for every number that would be part of a proof."""
    forget(model)
    nothing = dict.fromkeys(("certificate_", "history_", "objective_", "dual_gap_"))
    for name, value in ({"classes_": classes} | nothing | attributes).items():
        setattr(model, name, value)


def refuse_uncertified(model: Any, what: str) -> None:
    """Raise ProofError where a model was trained without a certificate: nothing about the exact model can be proven from it."""
    if getattr(model, "status_", None) == "uncertified":
        raise ProofError(
            f"{what} cannot be had from an uncertified model: its kernel is not positive semidefinite, and it was trained with "
            "indefinite='uncertified'; fit with indefinite='clip', or with another kernel"
        )


def support(signed: np.ndarray, codes: np.ndarray) -> dict[str, Any]:
    """Make support_, n_support_ and dual_coef_ (dense) from signed dual variables, a row for each problem."""
    found = np.flatnonzero(signed.any(axis=0))
    return {"support_": found, "n_support_": np.bincount(codes[found], minlength=codes.max() + 1), "dual_coef_": signed[:, found]}


def linear_support(signed: np.ndarray, codes: np.ndarray) -> dict[str, Any]:
    """Make those attributes of linear models, one against the rest."""
    found = support(signed, codes)
    if len(signed) > 1:
        found["dual_coef_"] = as_csr(found["dual_coef_"])
    return found


def signed_duals(results: Sequence[Result], C: float) -> np.ndarray:
    """Return yᵢ·C·sᵢ·βᵢ of all rows, a line for each problem."""
    # c / l2 is C·s up to the share of l2, whatever the weights were.
    signed = np.empty((len(results), len(results[0].dual)))
    for row, r in zip(signed, results, strict=True):
        np.multiply(r.problem.y, r.dual, out=row)
        if r.problem.sample_weight is not None:
            row *= r.problem.c * float(r.problem.sample_weight.sum())
    signed *= C
    return signed


def as_csr(dense: np.ndarray) -> sparse.csr_matrix:
    """Return the non-zeros of a dense matrix; SciPy's own conversion goes through coordinates and takes three times as long."""
    rows, columns = np.nonzero(dense)
    indptr = np.zeros(len(dense) + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=len(dense)), out=indptr[1:])
    return sparse.csr_matrix((dense[rows, columns], columns.astype(np.int32), indptr), dense.shape)


def rebuilt(data: Labelled, progress: Any) -> dict[str, Any]:
    """What makes an estimator ready to predict as if the fit had ended at this evaluation."""
    return {
        "coef_": np.atleast_2d(progress.coef).copy(),
        "intercept_": np.atleast_1d(progress.intercept),
        "classes_": data.classes,
        "n_iter_": progress.epoch,
    }


def warm_of(model: Any, data: Labelled, j: int, k: int, C: float) -> Any:
    """Return the model of problem j of the last fit, with its dual variables if the number of rows is the same."""
    if not model.warm_start or not hasattr(model, "coef_"):
        return None
    if model.coef_.shape[1] != data.X.shape[1] or not np.array_equal(model.classes_, data.classes):
        return None
    return row_of(model.coef_, j), float(model.intercept_[j]), linear_dual(model, data, j, k, C)


def linear_dual(model: Any, data: Labelled, j: int, k: int, C: float) -> np.ndarray | None:
    """The dual variables of problem j, class k against the rest, to rounding; None if the number of rows has changed."""
    if getattr(model, "_n_rows", None) != data.n or model.dual_coef_.shape[0] != model.coef_.shape[0]:
        return None
    side = data.one_against_rest(k)
    return side.signs * signed_dual(model, j, side.weights, C)


def signed_dual(model: Any, j: int, weights: np.ndarray | None, C: float) -> np.ndarray:
    """Return yᵢβᵢ of all training rows for problem j of a fitted model, from its dual_coef_."""
    scale = C * (np.ones(model._n_rows) if weights is None else weights)[model.support_]
    dual = np.zeros(model._n_rows)
    dual[model.support_] = np.divide(row_of(model.dual_coef_, j), scale, out=np.zeros(len(scale)), where=scale > 0)
    return dual


def row_of(matrix: Any, j: int) -> np.ndarray:
    """Return a row of a matrix, dense or sparse, as a vector."""
    row = matrix[[j]]
    return np.asarray(row.toarray() if sparse.issparse(matrix) else row, dtype=np.float64).ravel()
