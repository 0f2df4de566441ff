"""LinearSVC on the workers of a Dask cluster. Imported by a fit that is given Dask data, so that no other fit waits for it."""

from __future__ import annotations

import logging
import time
from typing import Any

import numpy as np

from dualgap.cluster import RoundsResult, Whole, make_team, pose, run_rounds
from dualgap.core import number
from dualgap.estimators.common import penalties, warn_unless_converged, weights_by_class
from dualgap.estimators.multiclass import Budget
from dualgap.estimators.progress import log_to_screen

__all__ = ["fit_on_cluster"]

LOGGER = logging.getLogger("dualgap")


def fit_on_cluster(estimator: Any, X: Any, y: Any = None, sample_weight: Any = None, stacklevel: int = 2) -> None:
    """Fit on the workers of the current client; sets the fitted attributes that need no single row."""
    C, ratio, budget = number("C", estimator.C), estimator._ratio(), estimator._budget()
    with log_to_screen(estimator.verbose):
        results = _run(estimator, X, y, sample_weight, budget, C, ratio)
    name = type(estimator).__name__
    estimator.status_ = warn_unless_converged(name, results, budget.tol, stacklevel=stacklevel + 1)


def _run(estimator: Any, X: Any, y: Any, sample_weight: Any, budget: Budget, C: float, ratio: float) -> list[RoundsResult]:
    if not (isinstance(budget.solver, str) and budget.solver == "auto"):
        raise ValueError(f"solver={budget.solver!r} on a cluster: its solver is CoCoA+; leave solver='auto'")
    if estimator.multi_class != "ovr":
        raise ValueError(f"multi_class={estimator.multi_class!r} needs all rows in memory; a cluster takes 'ovr'")
    if estimator.warm_start:
        raise ValueError("warm_start=True on a cluster: use dualgap.cluster.train with checkpoint= and resume=True")
    intercept = estimator._intercept_kind(ratio)
    team = make_team(X, y, sample_weight)
    whole = Whole(team.call("describe"))
    labels = whole.classes.tolist()
    two = len(labels) == 2
    results = []
    began = time.perf_counter()
    for j, label in enumerate([labels[1]] if two else labels):
        factors = _factors(estimator.class_weight, whole, label)
        total = sum(factors[each] * whole.weights[each] for each in labels)
        l2, l1 = penalties(C, ratio, total)
        options = {"intercept_scale": estimator.intercept_scaling, "class_weight": factors, "positive": label, "whole": whole}
        objective, classes = pose(team, estimator.loss, estimator.delta, l2, l1, intercept, **options)
        callbacks = [*(estimator.callbacks or ()), _logged("fit" if two else f"class {label!r}", bool(estimator.verbose))]
        seconds = None
        if budget.max_seconds is not None:
            left = budget.max_seconds - (time.perf_counter() - began)
            seconds = max(left / ((1 if two else len(labels)) - j), 1e-3)
        results.append(
            run_rounds(team, objective, classes, budget.tol, budget.max_epochs, seconds, seed=budget.seed, callbacks=callbacks)
        )
    _keep(estimator, whole, results)
    return results


def _factors(class_weight: Any, whole: Whole, label: Any) -> dict[Any, float]:
    """The weight of each label: with more than two classes the rest keeps weight 1, as LIBLINEAR has it."""
    labels = whole.classes.tolist()
    counts = np.array([whole.weights[each] for each in labels])
    weights = weights_by_class(class_weight, whole.classes, np.arange(len(labels)), counts)
    if weights is None:
        return dict.fromkeys(labels, 1.0)
    by_class = dict(zip(labels, weights.tolist(), strict=True))
    return by_class if len(labels) == 2 else {each: by_class[each] if each == label else 1.0 for each in labels}


def _keep(estimator: Any, whole: Whole, results: list[RoundsResult]) -> None:
    single = len(results) == 1
    estimator.n_features_in_ = whole.features
    for name in ("feature_names_in_", "support_", "n_support_", "dual_coef_", "_n_rows", "_streams"):
        estimator.__dict__.pop(name, None)  # of an earlier fit; the dual variables of this one stay with the workers
    estimator.classes_ = whole.classes
    estimator.coef_ = np.stack([r.coef for r in results])
    estimator.intercept_ = np.array([r.intercept for r in results])
    estimator.n_iter_ = max(r.rounds for r in results)
    estimator.certificate_ = results[0].certificate if single else [r.certificate for r in results]
    estimator.history_ = results[0].trace if single else [r.trace for r in results]
    estimator.objective_ = results[0].certificate.primal if single else np.array([r.certificate.primal for r in results])
    estimator.dual_gap_ = results[0].certificate.gap if single else np.array([r.certificate.gap for r in results])


def _logged(label: str, verbose: bool) -> Any:
    level = logging.INFO if verbose else logging.DEBUG

    def log(progress: Any) -> None:
        r = progress.record
        text = "%s: round %d, relative gap %.2e, %.3g MB sent, %d local epochs"
        LOGGER.log(level, text, label, progress.epoch, r["relative_gap"], r["bytes_sent"] / 1e6, r["local_epochs"])

    return log
