"""Stepper: what the driver steps. One problem with its method, and the best model and bound found so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from dualgap.proof import Certificate, certificate_of

__all__ = ["STALL_EVALUATIONS", "Best", "Evaluation", "Stepper"]

STALL_EVALUATIONS = 20  # evaluations over which a gap that falls by less than 1 % counts as stalled; trades patience for time


class Evaluation(NamedTuple):
    """What one evaluation found of the present model: it becomes a row of the trace and is shown to the callbacks."""

    certificate: Certificate
    coef: Any
    intercept: Any
    passes: float  # rows touched so far / n
    columns: dict[str, float]  # further columns of the trace


class Best(NamedTuple):
    """The best model and the best dual bound so far; together they make the certificate. β = 0 bounds every objective by 0.

    `primal` is an upper bound of the model's objective and `dual` a lower bound of the optimum; the radii are those of the certificates
    they came from. It is replaced and never changed, so that Ctrl-C finds a model and a bound that belong to one `pair_gap`.
    """

    coef: Any
    intercept: Any
    primal: float
    source: str = "solver"  # where the bound came from
    beta: Any = None  # that of the bound; None: zeros
    dual: float = 0.0
    radius: float = 0.0
    dual_radius: float = 0.0
    pair_gap: float = math.inf  # of this model and this bound, where one certificate was of both

    def after(self, coef: Any, intercept: Any, beta: Any, found: Certificate) -> Best:
        """Return the best after another certificate: its model where the objective is lower, its bound where that is higher, or both
        where the two together prove more.
        """
        lower, higher = found.primal < self.primal, found.dual > self.dual
        apart = (found.primal if lower else self.primal) - (found.dual if higher else self.dual)
        together = found.dual >= 0.0 and found.gap < (apart if lower or higher else min(apart, self.pair_gap))
        if together or (lower and higher):
            pair_gap = found.pair_gap if together else math.inf
            return Best(coef, intercept, found.primal, found.source, beta, found.dual, found.radius, found.radius, pair_gap)
        if lower:
            return self._replace(coef=coef, intercept=intercept, primal=found.primal, radius=found.radius, pair_gap=math.inf)
        if higher:
            return self._replace(beta=beta, source=found.source, dual=found.dual, dual_radius=found.radius, pair_gap=math.inf)
        return self

    def certificate(self, primal: float | None = None) -> Certificate:
        """Certify the best model, or one of another objective, by the best bound."""
        radius = self.radius + self.dual_radius
        if primal is not None and primal != self.primal:
            return certificate_of(primal, self.dual, self.source, radius)
        return certificate_of(self.primal, self.dual, self.source, radius, self.pair_gap)


class Stepper:
    """One run, as the driver sees it: two-class, joint multi-class, a batch of a stream, rounds on a cluster.

    Order of calls: `start`, then for every epoch `step`, `gap_estimate` and, where the driver decides so, `evaluate`; at last `finish`.
    The driver's clock runs in `start`, `step` and `gap_estimate` alone. After Ctrl-C `evaluate` may follow a `step` that was cut short.
    """

    best: Best  # set by the constructor, changed by `evaluate`
    at_zero: float  # the objective of w = 0, or of a first model within the bounds, against which divergence is measured
    floor: float = -math.inf  # the objective that float64 cannot tell from 0, where 0 is the least possible one: it ends the run
    recorded: bool = True  # whether the trace and the CPU seconds are wanted: on a batch of 100 rows they take a tenth of the time
    stall_evaluations: int = STALL_EVALUATIONS
    tol: float = 0.0  # the relative gap that ends the run
    atol: float = 0.0  # the absolute gap that ends it, too
    resolution: float = 0.0  # absolute gap below which float64 cannot tell one model from another; set by `evaluate`
    deciding: Any = None  # rows whose proven labels end the run, a `Deciding`; set by the constructor
    decided: bool = False  # whether all of them are proven; set by `evaluate`
    # epoch at which progress was last lost, or the method changed: what was before does not tell whether it stalls
    restarted_at: int = 0
    handovers: Sequence[tuple[int, str]] = ()  # epoch and reason of each change of method; changed by `step`

    def start(self) -> None:
        """Make the first state."""

    def step(self) -> None:
        """Run one epoch: about one pass over the data, or one round."""
        raise NotImplementedError

    def gap_estimate(self) -> float | None:
        """Estimate the relative gap for free; None where there is no estimate."""
        return None

    def evaluate(self) -> Evaluation:
        """Certify the present model; remember it, or its bound, where it is the best so far."""
        raise NotImplementedError

    def certificate(self) -> Certificate:
        """Return the certificate of the best model so far with the best bound so far."""
        return self.best.certificate()

    def reached(self, certificate: Certificate) -> bool:
        """Whether a certificate proves what was asked for."""
        return certificate.within(self.tol, self.atol)

    def at_floor(self, certificate: Certificate) -> bool:
        """Whether float64 cannot tell the optimum from 0."""
        return certificate.primal <= self.floor

    def relative_tolerance(self) -> float:
        """The larger of the relative tolerance and what the absolute one is in terms of the best objective so far."""
        return max(self.tol, self.atol / self.best.primal if self.best.primal > 0.0 else 0.0)

    def decide(self) -> dict[str, float]:
        """Look at the rows that end the run, if there are any, and return the column of the trace for them."""
        if self.deciding is None:
            return {}
        self.decided = self.deciding.update(self.best, self.certificate().relative_gap)
        return {"decided": self.deciding.share}

    def change_method(self) -> bool:
        """Go on with another method because the present one is stalled; return whether there was one."""
        return False

    def finish(self) -> None:
        """Complete what the best model needs, after the last evaluation."""
