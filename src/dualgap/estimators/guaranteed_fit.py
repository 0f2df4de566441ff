"""What LinearSVCPath and SVCPath share where they have a guarantee: checks, solves, fitted attributes, the figure."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from dualgap.core import number
from dualgap.estimators.common import ConvergenceWarning, worst_status
from dualgap.estimators.guaranteed_path import GuaranteedPath
from dualgap.problem import Problem
from dualgap.proof import Certificate, Strengths
from dualgap.run import Result, minimise

__all__ = [
    "Deadline",
    "check_guarantee",
    "check_range",
    "draw_guarantee",
    "fitted_at",
    "forget_path",
    "guaranteed_paths",
    "keep_guaranteed",
    "known_label",
    "solve_at",
]

OF_A_PATH = (
    "guarantee_",
    "breakpoints_",
    "mixes_",
    "uncovered_",
    "Cs_",
    "coefs_",
    "dual_coefs_",
    "intercepts_",
    "certificates_",
    "objectives_",
    "dual_gaps_",
    "n_iters_",
    "screened_",
    "statuses_",
    "_paths",
    "_kept",
)
DRAWN = 40  # points of each range that the figure shows


def check_guarantee(guarantee: Any) -> float:
    """Check the relative distance from the optimum that is to be proven."""
    wanted = "a number between 0 and 1, such as 0.01: the relative distance from the optimum to be proven at every C"
    return number("guarantee", guarantee, "(0, 1)", wanted)


def check_range(Cs: np.ndarray) -> tuple[float, float]:
    """Return the least and the largest of some values of C, which must differ."""
    low, high = float(np.min(Cs)), float(np.max(Cs))
    if not low < high:
        raise ValueError(f"Cs={Cs.tolist()} has no two different values; a guarantee is for a range of C, such as Cs=[1e-3, 10]")
    return low, high


class Deadline:
    """Seconds for a whole fit, shared out among its parts."""

    def __init__(self, max_time: float | None, parts: int) -> None:
        self.end = None if max_time is None else time.perf_counter() + number("max_time", max_time)
        self.parts = parts

    def next(self) -> float | None:
        """Return until when the next part may take."""
        if self.end is None:
            return None
        now = time.perf_counter()
        until = now + max(self.end - now, 0.0) / max(self.parts, 1)
        self.parts -= 1
        return until


def solve_at(
    base: Problem,
    strengths: Strengths,
    solver: Any,
    tol: float,
    max_epochs: int,
    until: float | None,
    seed: int,
    C: float,
    warm: Any,
) -> Result:
    """Solve the problem of one C."""
    l2, l1 = strengths(C)
    seconds = None if until is None else max(until - time.perf_counter(), 1e-9)
    return minimise(base.variant(l2=l2, l1=l1), solver, tol, max_epochs, seconds, seed, warm_start=warm)


def forget_path(model: Any) -> None:
    """Remove what an earlier fit has set: a grid and a guaranteed path have different attributes."""
    for name in OF_A_PATH:
        vars(model).pop(name, None)


def keep_guaranteed(model: Any, paths: list[GuaranteedPath], results: Sequence[Result], stacklevel: int = 4) -> None:
    """Set the fitted attributes of a path with a guarantee, and warn where a part of the range has no proven model."""
    model._paths = paths

    def each(values: list[Any]) -> Any:
        return values[0] if len(values) == 1 else values

    model.guarantee_ = max(path.guarantee for path in paths)
    model.breakpoints_ = each([path.breakpoints for path in paths])
    model.Cs_ = each([path.Cs for path in paths])
    model.mixes_ = each([path.mixes for path in paths])
    model.certificates_ = each([path.ranges for path in paths])
    model.uncovered_ = each([path.uncovered for path in paths])
    model.intercepts_ = each([path.intercepts for path in paths])
    model.n_iter_ = max(result.epochs for result in results)
    model.status_ = _status(model, paths, results, stacklevel + 1)


def _status(model: Any, paths: list[GuaranteedPath], results: Sequence[Result], stacklevel: int) -> str:
    status = worst_status([result.status for result in results])
    holes = [hole for path in paths for hole in path.uncovered]
    if not holes:
        return "converged"
    if status == "converged":
        status = "rounding_limit"  # the solves came to their tolerance, and rounding has used up the rest of the guarantee
    if status != "interrupted":
        low, high = min(low for low, _ in holes), max(high for _, high in holes)
        tried = {"max_epochs": "raise max_iter", "max_seconds": "raise max_time"}.get(status, "standardise the features")
        warnings.warn(
            f"{type(model).__name__} has no proven model for some C between {low:.6g} and {high:.6g} (attribute uncovered_): status "
            f"{status!r}. What to try: {tried}; a larger guarantee ({model.guarantee:g} now); a smaller range of C.",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
    return status


def guaranteed_paths(model: Any) -> list[GuaranteedPath]:
    """Return the paths of a fitted model; refuse one without a guarantee."""
    paths = vars(model).get("_paths")
    if paths is None:
        raise ValueError(
            f"this {type(model).__name__} was fitted without a guarantee and has models at the values Cs_ alone; set guarantee=0.01 for "
            "a model at every C"
        )
    return paths


def fitted_at(model: Any, path: Any, certificates: list[Certificate]) -> None:
    """Set what the estimator of one C has in common with the path that it is taken from."""
    for name in ("classes_", "n_features_in_", "feature_names_in_"):
        if hasattr(path, name):
            setattr(model, name, getattr(path, name))
    one = len(certificates) == 1
    model.certificate_ = certificates[0] if one else certificates
    model.objective_ = certificates[0].primal if one else np.array([c.primal for c in certificates])
    model.dual_gap_ = certificates[0].gap if one else np.array([c.gap for c in certificates])
    model.status_ = "converged"  # to the guarantee


def draw_guarantee(model: Any, ax: Any, label: Any, labels: list[Any], titles: Sequence[str]) -> Any:
    """Draw the bound on the distance from the optimum over C, the guarantee, and the C of the trained models."""
    import matplotlib.pyplot as plt

    paths = guaranteed_paths(model)
    k, of_class = 0, ""
    if len(paths) > 1:
        k = labels.index(labels[0] if label is None else known_label(label, labels))
        of_class = f"{titles[k]}: "
    path, ax = paths[k], ax or plt.gca()
    Cs, bounds = [], []
    for each in path.ranges:
        for C in np.geomspace(each.Cs[0], each.Cs[-1], DRAWN)[1:-1]:
            found = each.at(float(C))
            Cs.append(C)
            bounds.append(100.0 * found.gap / found.dual if found.dual > 0.0 else math.inf)
    ax.fill_between(Cs, 0.0, bounds, alpha=0.3, linewidth=0.0, label="where the exact optimum can be, below the model")
    ax.plot(Cs, bounds, linewidth=1.0)
    ax.axhline(100.0 * model.guarantee, color="0.4", linestyle="--", linewidth=0.8, label=f"guarantee: {100 * model.guarantee:g} %")
    ax.plot(path.Cs, np.zeros(len(path.Cs)), "k|", markersize=10, clip_on=False, label=f"trained at {len(path.Cs)} values of C")
    for low, high in path.uncovered:
        ax.axvspan(low, high, color="tab:red", alpha=0.3)
    ax.set_xscale("log")
    ax.set_xlabel("C")
    ax.set_ylabel("above the optimum, at most [%]")
    ax.set_title(f"{of_class}{len(path.ranges)} models, one for every C")
    return ax


def known_label(label: Any, labels: list[Any]) -> Any:
    """Return the label, if it is one of those."""
    if label not in labels:
        raise ValueError(f"label={label!r} is unknown; choose one of {labels}")
    return label
