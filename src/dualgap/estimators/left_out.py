"""leave_one_out and forget of the estimators: the problems of a fit, made again from the data, without some of their rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from dualgap.core import number, round_up
from dualgap.estimators.fitted import keep, linear_support, refuse_uncertified
from dualgap.estimators.joint_fit import is_joint
from dualgap.estimators.labelled import Labelled
from dualgap.estimators.on_store import is_store
from dualgap.estimators.proving import Kept
from dualgap.proof import Certificate, ProofError
from dualgap.run import Forgettable, LeaveOneOut, Receipt, Result, Trace, row_numbers
from dualgap.solvers import get_solver

__all__ = ["ForgettingMixin", "LeaveOneOutMixin"]


class LeaveOneOutMixin:
    """`leave_one_out`. `fit` sets `_kept`; `_parts` (of ProvableMixin) makes the problems again."""

    classes_: np.ndarray

    def leave_one_out(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> LeaveOneOut:
        """Bound the leave-one-out error of the exact model at the C of the fit, from this one fit.

        Parameters
        ----------
        X, y, sample_weight : the training data, optional
            What `fit` was given, unless told. They must be given for a model that was loaded from a file.

        Returns
        -------
        LeaveOneOut
            `low` and `high` bound the error, `status` says for each row whether its label is proven "right" or "wrong" or is "open", and
            `exact()` settles the open rows.
        """
        fits, data = _fits(self, "leave_one_out", X, y, sample_weight)
        return LeaveOneOut(fits, data.codes)


class ForgettingMixin(LeaveOneOutMixin):
    """`forget` and `leave_one_out`, for linear models."""

    def forget(self, rows: Any, max_relative_gap: float = 0.01) -> Receipt | list[Receipt]:
        """Forget training rows: certify the model on the rows that stay, and return a receipt of how far retraining could take it.

        The certificate and the distance take time proportional to the rows forgotten and their features. Coefficients and intercept are
        kept while the certified relative gap is at most `max_relative_gap`; beyond it the model is trained again on the rows that stay,
        from where it is, to the relative gap `tol`. C and the weights of the rows that stay are those of the fit. Attributes such as
        `certificate_`, `support_` and `dual_coef_` are then about the rows that stay, but `support_` keeps the row numbers of the fit.

        The caller's arrays are not changed: delete the rows there, too.

        Parameters
        ----------
        rows : numbers of rows, or a mask
            Rows of the data that `fit` was given. Later calls use the same numbers.
        max_relative_gap : float
            0 trains again in any case, infinity never.

        Returns
        -------
        Receipt, or a list of them, one for each class against the rest
        """
        number("max_relative_gap", max_relative_gap, "[0, inf]")
        began = time.perf_counter()
        state = self._forgetting()
        prepared = 0.0 if isinstance(vars(self).get("_kept"), KeptRemaining) else time.perf_counter() - began
        found = row_numbers(rows, state.data.n, state.gone)
        stays = ~state.gone
        stays[found] = False
        left = np.bincount(state.data.codes[stays], minlength=len(state.data.classes))
        if not left.all():
            label = state.data.classes.tolist()[int(np.argmin(left))]
            raise ValueError(f"rows has all that is left of class {label!r}; every class must stay")
        tol, receipts, fits = float(self.tol), [], []  # type: ignore[attr-defined]
        for fit, label in zip(state.fits, state.labels, strict=True):
            after, receipt = fit.forget(found, max_relative_gap, tol, label)
            fits.append(after)
            receipts.append(receipt)
        state = _Forgetting(state.kept, state.data, state.labels, state.C, fits, ~stays)
        _attributes(self, state)
        prepared += sum(each.preparation_seconds for each in receipts)
        seconds = time.perf_counter() - began - prepared
        receipts = [
            replace(each, certificate=_scaled(each.certificate, state.scale(k)), seconds=seconds, preparation_seconds=prepared)
            for k, each in enumerate(receipts)
        ]
        return receipts[0] if len(receipts) == 1 else receipts

    def _forgetting(self) -> _Forgetting:
        """Return the state of earlier calls, or that of a fit."""
        before = vars(self).get("_kept")
        if isinstance(before, KeptRemaining):
            return before.state
        model: Any = self
        check_is_fitted(model)
        if model.class_weight == "balanced":
            raise ProofError(
                "class_weight='balanced' makes the weights of all rows depend on those that are forgotten; give class_weight as numbers"
            )
        fits, data = _fits(model, "forget", None, None, None)
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


def _fits(model: Any, method: str, X: Any, y: Any, sample_weight: Any) -> tuple[list[Result], Labelled]:
    """Return a result for each problem of a fit, and the training data."""
    check_is_fitted(model)
    refuse_uncertified(model, method)
    if (said := getattr(model, "indefinite_", None)) is not None:
        raise ProofError(
            f"{method} is not there for indefinite={said.treatment!r}: the kernel trained on was made from all training rows, "
            "those left out among them"
        )
    duals = None
    if X is None:
        kept = vars(model).get("_kept")
        if kept is None:
            again = "fit it again" if method == "forget" else "fit it again, or give X, y and sample_weight as in fit"
            raise ProofError(
                f"{method} needs the training data, which this model has not any more: it was loaded from a file, or trained on a cluster "
                f"or by partial_fit; {again}"
            )
        X, y, sample_weight, duals = kept.X, kept.y, kept.sample_weight, kept.duals
    if is_store(X):
        raise ProofError(f"{method} needs the rows in memory; these are in a store")
    if not hasattr(model, "certificate_"):
        raise ProofError(
            f"{method} needs a certificate for all training data; this model was trained by partial_fit or on a cluster"
        )
    if is_joint(model, len(model.classes_)):
        raise ProofError(
            f"{method} is not there for multi_class={model.multi_class!r}, which trains the classes jointly; use 'ovr'"
        )
    if not hasattr(model, "multi_class") and len(model.classes_) > 2:
        raise ProofError(
            f"{method} of an SVC is for two classes; this one has {len(model.classes_)}, which pairs of classes vote on. LinearSVC has it "
            "for several classes"
        )
    table, parts = model._parts(X, y, sample_weight, duals)
    if parts[0].problem.l2 == 0.0:
        raise ProofError(
            f"{method} needs an l2 penalty: without one a gap does not bound the distance from the exact model; l1_ratio is 1"
        )
    certificates = model.certificate_ if isinstance(model.certificate_, list) else [model.certificate_]
    fits = [
        Result(
            problem=part.problem,
            solver=get_solver("auto"),
            coef=part.coef,
            intercept=part.intercept,
            dual=part.dual,
            certificate=certificate,
            status="converged",
            trace=Trace(),
            epochs=0,
            cpu_seconds=0.0,
            wall_seconds=0.0,
        )
        for part, certificate in zip(parts, certificates, strict=True)
    ]
    return fits, Labelled(table.X, np.asarray(table.classes)[table.codes], None, None)


def _attributes(model: Any, state: _Forgetting) -> None:
    """Set the fitted attributes for the rows that stay."""
    results = [each.result for each in state.fits]
    signed = np.stack([r.problem.y * r.dual * r.problem.c / r.problem.l2 for r in results]) * _share(model)
    found = linear_support(signed, state.data.codes)
    scaled = [Result.of(r, certificate=_scaled(r.certificate, state.scale(k))) for k, r in enumerate(results)]
    history, epochs = model.history_, model.n_iter_
    keep(
        model,
        state.data.classes,
        scaled,
        coef_=np.stack([r.coef for r in results]),
        _n_rows=int(np.count_nonzero(~state.gone)),
        **found,
    )
    model.history_, model.n_iter_ = history, max(epochs, *(r.epochs for r in results))
    model._kept = KeptRemaining(state)


def _share(model: Any) -> float:
    """Return the share of l2, by which C·s differs from c/l2."""
    return 1.0 - (1.0 if model.penalty == "l1" else 0.0 if model.penalty == "l2" else float(model.l1_ratio))


def _scaled(c: Certificate, scale: float) -> Certificate:
    """Return a certificate in units of another sum of weights."""
    up, down = round_up(c.primal * scale), c.dual * scale
    radius = round_up(c.radius * scale) + (up - c.primal * scale)
    return Certificate(up, 2.0 * down - round_up(down), c.source, radius, round_up(c.pair_gap * scale))
