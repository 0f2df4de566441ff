"""Attributes of a fitted linear classifier from the results of its problems, and the way back: where a warm start begins."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from dualgap.estimators.labelled import Labelled
from dualgap.problem import Problem
from dualgap.run import Result

__all__ = ["keep", "rebuilt", "warm_of"]


def keep(model: Any, data: Labelled, results: list[Result], C: float) -> None:
    """Fitted attributes from the results of the fit's problems."""
    single = len(results) == 1
    model.classes_ = data.classes
    model.coef_ = np.stack([r.coef for r in results])
    model.intercept_ = np.array([r.intercept for r in results])
    model.n_iter_ = max(r.epochs for r in results)
    model.certificate_ = results[0].certificate if single else [r.certificate for r in results]
    model.history_ = results[0].trace if single else [r.trace for r in results]
    model.objective_ = results[0].certificate.primal if single else np.array([r.certificate.primal for r in results])
    model.dual_gap_ = results[0].certificate.gap if single else np.array([r.certificate.gap for r in results])
    # c / l2 is C·s up to the share of l2, whatever the weights were.
    signed = [r.problem.y * r.dual * r.problem.c * (C * _total(r.problem)) for r in results]
    model.support_ = np.flatnonzero(np.any([a != 0 for a in signed], axis=0)) if not single else np.flatnonzero(signed[0])
    kept = [a[None, model.support_] for a in signed]
    model.dual_coef_ = kept[0] if single else sparse.vstack([sparse.csr_matrix(a) for a in kept], format="csr")
    model.n_support_ = np.bincount(data.codes[model.support_], minlength=len(data.classes))


def rebuilt(data: Labelled, progress: Any) -> dict[str, Any]:
    """What makes an estimator ready to predict as if the fit had ended at this evaluation."""
    return {
        "coef_": np.atleast_2d(progress.coef).copy(),
        "intercept_": np.atleast_1d(progress.intercept),
        "classes_": data.classes,
        "n_iter_": progress.epoch,
    }


def warm_of(model: Any, data: Labelled, j: int, k: int, C: float) -> Any:
    """The last model for problem j, with its dual variables where the rows are as many as they were."""
    if not model.warm_start or not hasattr(model, "coef_"):
        return None
    if model.coef_.shape[1] != data.X.shape[1] or not np.array_equal(model.classes_, data.classes):
        return None
    coef = _row(model.coef_, j)
    dual = None
    if getattr(model, "_n_rows", None) == data.n and model.dual_coef_.shape[0] == model.coef_.shape[0]:
        side = data.one_against_rest(k)
        scale = C * (np.ones(len(side.signs)) if side.weights is None else side.weights)[model.support_]
        dual = np.zeros(data.n)
        signed = _row(model.dual_coef_, j) * side.signs[model.support_]
        dual[model.support_] = np.divide(signed, scale, out=np.zeros(len(scale)), where=scale > 0)
    return coef, float(model.intercept_[j]), dual


def _row(matrix: Any, j: int) -> np.ndarray:
    row = matrix[[j]]
    return np.asarray(row.toarray() if sparse.issparse(matrix) else row, dtype=np.float64).ravel()


def _total(problem: Problem) -> float:
    return float(problem.n if problem.sample_weight is None else problem.sample_weight.sum())
