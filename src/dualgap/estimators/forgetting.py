"""Without some training rows: the leave-one-out error of a fitted classifier, and rows that are forgotten. Called by `Proof`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from dualgap.answers import Forgettable, LeaveOneOut, Receipt, row_numbers
from dualgap.core import number, round_up
from dualgap.estimators.fitting import keep
from dualgap.estimators.model import Fit, Kept, Model, fit_of
from dualgap.estimators.samples import Labelled, class_support
from dualgap.proof import Certificate, ProofError, Table
from dualgap.run import Trained
from dualgap.solvers import get_solver

__all__ = ["forget_rows", "leave_one_out"]

Parts = Callable[[], tuple[Table, list[Any]]]


def leave_one_out(model: Model, table: Table, parts: list[Any]) -> LeaveOneOut:
    """Return the leave-one-out error of the exact model; the parts are the problems of the fit."""
    fits, data = _fits(model, "leave_one_out", table, parts)
    return LeaveOneOut(fits, data.codes)


def forget_rows(model: Model, rows: ArrayLike, max_relative_gap: float, parts: Parts) -> Receipt | list[Receipt]:
    """Forget training rows of a linear classifier, set its fitted attributes, and return the receipts."""
    number("max_relative_gap", max_relative_gap, "[0, inf]")
    began = time.perf_counter()
    state = _state_of(model, parts)
    prepared = 0.0 if isinstance(fit_of(model).kept, KeptRemaining) else time.perf_counter() - began
    found = row_numbers(rows, state.data.n, state.gone)
    stays = ~state.gone
    stays[found] = False
    left = np.bincount(state.data.codes[stays], minlength=len(state.data.classes))
    if not left.all():
        label = state.data.classes.tolist()[int(np.argmin(left))]
        raise ValueError(f"rows has all that is left of class {label!r}; every class must stay")
    tol, receipts, fits = float(model.tol), [], []
    for fit, label in zip(state.fits, state.labels, strict=True):
        after, receipt = fit.forget(found, max_relative_gap, tol, label)
        fits.append(after)
        receipts.append(receipt)
    state = _Forgetting(state.kept, state.data, state.labels, state.C, fits, ~stays)
    _attributes(model, state)
    prepared += sum(each.preparation_seconds for each in receipts)
    seconds = time.perf_counter() - began - prepared
    receipts = [
        replace(each, certificate=_scaled(each.certificate, state.scale(k)), seconds=seconds, preparation_seconds=prepared)
        for k, each in enumerate(receipts)
    ]
    return receipts[0] if len(receipts) == 1 else receipts


def _state_of(model: Model, parts: Parts) -> _Forgetting:
    """Return the state of earlier calls, or that of a fit."""
    check_is_fitted(model)
    before = fit_of(model).kept
    if isinstance(before, KeptRemaining):
        return before.state
    if hasattr(model, "kernel"):
        raise ProofError(
            "forget is for linear models; the expansion of a kernel machine is over its training rows, so fit it again"
        )
    if model.class_weight == "balanced":
        raise ProofError(
            "class_weight='balanced' makes the weights of all rows depend on those that are forgotten; give class_weight as numbers"
        )
    fits, data = _fits(model, "forget", *parts())
    labels = [""] if len(fits) == 1 else [f"class {label!r}" for label in data.classes.tolist()]
    return _Forgetting(before, data, labels, float(model.C), [Forgettable(each) for each in fits], np.zeros(data.n, dtype=bool))


@dataclass(frozen=True)
class _Forgetting:
    """A fit some of whose rows are forgotten."""

    kept: Any  # what `fit` was given
    data: Labelled
    labels: list[str]
    C: float
    fits: list[Forgettable]
    gone: np.ndarray

    def scale(self, k: int) -> float:
        """Return 1/Σ c over the rows that stay: the objective of an estimator is divided by the sum of their weights."""
        return 1.0 / float(self.fits[k].result.problem.c.sum())


class KeptRemaining(Kept):
    """What `fit` was given without the rows that were forgotten, made when it is first asked for."""

    def __init__(self, state: _Forgetting) -> None:
        object.__setattr__(self, "state", state)

    state: _Forgetting

    @property
    def _stays(self) -> np.ndarray:
        return np.flatnonzero(~self.state.gone)

    @cached_property
    def X(self) -> Any:  # type: ignore[override]
        return _safe_indexing(self.state.kept.X, self._stays)

    @cached_property
    def y(self) -> Any:  # type: ignore[override]
        return _safe_indexing(self.state.kept.y, self._stays)

    @cached_property
    def sample_weight(self) -> Any:  # type: ignore[override]
        weights = self.state.kept.sample_weight
        return None if weights is None else _safe_indexing(weights, self._stays)

    @cached_property
    def duals(self) -> Sequence[Any]:  # type: ignore[override]
        return [each.result.dual[self._stays] for each in self.state.fits]


def _fits(model: Model, method: str, table: Table, parts: list[Any]) -> tuple[list[Trained], Labelled]:
    """Return a result for each problem of a fit, and the training data."""
    if (reason := model._keeps_all_rows()) is not None:
        raise ProofError(f"{method} {reason}")
    if parts[0].problem.l2 == 0.0:
        raise ProofError(
            f"{method} needs an l2 penalty: without one a gap does not bound the distance from the exact model; l1_ratio is 1"
        )
    certificates = model.certificate_ if isinstance(model.certificate_, list) else [model.certificate_]
    fits = [
        Trained(
            problem=part.problem,
            solver=get_solver("auto"),
            coef=part.coef,
            intercept=part.intercept,
            dual=part.dual,
            certificate=certificate,
            status="converged",
        )
        for part, certificate in zip(parts, certificates, strict=True)
    ]
    return fits, Labelled(table.X, np.asarray(table.classes)[table.codes], None, None)


def _attributes(model: Model, state: _Forgetting) -> None:
    """Set the fitted attributes for the rows that stay."""
    results = [each.result for each in state.fits]
    signed = np.stack([r.problem.y * r.dual * r.problem.c / r.problem.l2 for r in results]) * _share(model)
    found = class_support(signed, state.data.codes)
    scaled = [Trained.of(r, certificate=_scaled(r.certificate, state.scale(k))) for k, r in enumerate(results)]
    fit = Fit(int(np.count_nonzero(~state.gone)), kept=KeptRemaining(state))
    found |= {name: getattr(model, name) for name in ("history_", "status_", "temperature_") if hasattr(model, name)}
    found["n_iter_"] = max(model.n_iter_, *(r.epochs for r in results))
    keep(model, scaled, fit, classes_=state.data.classes, coef_=np.stack([r.coef for r in results]), **found)


def _share(model: Model) -> float:
    """Return the share of l2, by which C·s differs from c/l2."""
    return 1.0 - (1.0 if model.penalty == "l1" else 0.0 if model.penalty == "l2" else float(model.l1_ratio))


def _scaled(c: Certificate, scale: float) -> Certificate:
    """Return a certificate in units of another sum of weights."""
    up, down = round_up(c.primal * scale), c.dual * scale
    radius = round_up(c.radius * scale) + (up - c.primal * scale)
    return Certificate(up, 2.0 * down - round_up(down), c.source, radius, round_up(c.pair_gap * scale))
