"""LinearSVC and LinearSVR on a Dask cluster's workers. Imported by a fit that is given Dask data, so that no other fit waits for it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_regressor

from dualgap.cluster import (
    CHECKPOINT_SECONDS,
    Checkpoint,
    DaskPool,
    DataStatistics,
    RoundsResult,
    checkpoint_meta,
    current_client,
    has_words,
    make_objective,
    make_pool,
    prepare_frame,
    run_rounds,
)
from dualgap.estimators.coefficients import coefficient_bounds
from dualgap.estimators.common import warn_unless_converged, weights_by_class
from dualgap.estimators.fitted import keep
from dualgap.estimators.multiclass import TimeShare
from dualgap.estimators.parameters import Parameters, checked
from dualgap.estimators.progress import log_to_screen, logged

__all__ = ["fit_on_cluster"]


def fit_on_cluster(
    model: Any, X: Any, y: Any = None, sample_weight: Any = None, parameters: Parameters | None = None, stacklevel: int = 2
) -> None:
    """Fit a LinearSVC or a LinearSVR on the workers of the current client; sets the fitted attributes that need no single row."""
    parameters = parameters or checked(model)
    with log_to_screen(model.verbose):
        results = _run(model, X, y, sample_weight, parameters)
    model.status_ = warn_unless_converged(type(model).__name__, results, parameters.budget.tol, stacklevel=stacklevel + 1)


def _run(model: Any, X: Any, y: Any, sample_weight: Any, parameters: Parameters) -> list[RoundsResult]:
    budget = parameters.budget
    if not (isinstance(budget.solver, str) and budget.solver in ("auto", "newton", "newton_cg", "cocoa")):
        raise ValueError(
            f"solver={budget.solver!r} on a cluster: its solvers are 'newton', 'newton_cg' and 'cocoa'; leave solver='auto'"
        )
    if getattr(model, "multi_class", "ovr") != "ovr":
        raise ValueError(f"multi_class={model.multi_class!r} needs all rows in memory; a cluster takes 'ovr'")
    if model.warm_start:
        raise ValueError("warm_start=True on a cluster: give checkpoint=FOLDER, from which a later fit of the same problem goes on")
    client, preparation = current_client(), None
    if has_words(X):
        task = "regression" if is_regressor(model) else "classification"
        X, preparation = prepare_frame(X, y, sample_weight, client, budget.seed, task)
        y = sample_weight = None
    with make_pool(X, y, sample_weight, client, model.partitions, model.patience) as pool:
        results = _run_on(pool, model, parameters)
    model.__dict__.pop("preparation_", None)
    if preparation is not None:
        model.preparation_ = preparation
    return results


def _run_on(pool: DaskPool, model: Any, parameters: Parameters) -> list[RoundsResult]:
    """Run one problem for each class, or one for the targets, over the same partitions, and keep the fitted attributes."""
    budget, loss = parameters.budget, model._loss()
    statistics = DataStatistics(pool.call("describe", loss))
    labels = statistics.classes.tolist()
    model._check_on_cluster(len(labels))
    positives = [None] if not labels else labels[1:] if len(labels) == 2 else labels
    results: list[RoundsResult] = []
    seconds = TimeShare(budget.max_seconds, len(positives))
    for label in positives:
        factors = _factors(getattr(model, "class_weight", None), statistics, label)
        l2, l1 = parameters.strengths(sum(factor * statistics.weights[each] for each, factor in factors.items()))
        options: dict[str, Any] = {
            "intercept_scale": parameters.scale,
            "class_weight": factors,
            "positive": label,
            "statistics": statistics,
        }
        options["bounds"] = coefficient_bounds(model, statistics.features)
        objective, classes = make_objective(pool, loss, None, l2, l1, parameters.intercept, **options)
        name = "fit" if len(positives) == 1 else f"class {label!r}"
        checkpoint = _checkpoint_of(model.checkpoint, len(results), len(positives))
        checkpoint.resume_or_begin(checkpoint_meta(statistics, objective, classes))
        pool.where = checkpoint.where
        results.append(
            run_rounds(
                pool,
                objective,
                classes,
                budget.tol,
                budget.max_epochs,
                seconds.next(),
                seed=budget.seed,
                solver=budget.solver,
                callbacks=[*(model.callbacks or ()), logged(name, model.verbose), pool.listener(name)],
                checkpoint=checkpoint,
                halt=lambda: any(r.status == "interrupted" for r in results),  # one round each for the classes that are left
            )
        )
    model.__dict__.pop("feature_names_in_", None)  # of an earlier fit
    coef, rounds = np.stack([r.coef for r in results]), max(r.rounds for r in results)
    found: dict[str, Any] = {"coef_": coef} if labels else {"coef_": coef[0], "_flat": True}
    keep(model, statistics.classes if labels else None, results, n_iter_=rounds, n_features_in_=statistics.features, **found)
    return results


def _checkpoint_of(folder: Any, number: int, problems: int) -> Checkpoint:
    """Return the checkpoint of one of the problems of a fit, in a folder of its own where there are several."""
    if folder is None:
        return Checkpoint(None, math.inf)
    return Checkpoint(
        Path(folder) / f"class-{number:03d}" if problems > 1 else folder, CHECKPOINT_SECONDS, "fit again with the same folder"
    )


def _factors(class_weight: Any, statistics: DataStatistics, label: Any) -> dict[Any, float]:
    """The weight of each label: with more than two classes the rest keeps weight 1, as LIBLINEAR has it."""
    labels = statistics.classes.tolist()
    if not labels:
        return dict.fromkeys(statistics.weights, 1.0)  # targets
    counts = np.array([statistics.weights[each] for each in labels])
    weights = weights_by_class(class_weight, statistics.classes, np.arange(len(labels)), counts)
    if weights is None:
        return dict.fromkeys(labels, 1.0)
    by_class = dict(zip(labels, weights.tolist(), strict=True))
    return by_class if len(labels) == 2 else {each: by_class[each] if each == label else 1.0 for each in labels}
