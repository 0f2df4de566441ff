"""Stepper: what the driver steps. One problem with its method, and the best model and bound found so far."""

from __future__ import annotations

from typing import Any, NamedTuple

from dualgap.proof import Certificate

__all__ = ["STALL_EVALUATIONS", "Evaluation", "Stepper"]

STALL_EVALUATIONS = 20  # evaluations over which a gap that falls by less than 1 % counts as stalled; trades patience for time


class Evaluation(NamedTuple):
    """What one evaluation found of the present model: it becomes a row of the trace and is shown to the callbacks."""

    certificate: Certificate
    coef: Any
    intercept: Any
    passes: float  # rows touched so far / n
    columns: dict[str, float]  # further columns of the trace


class Stepper:
    """One run, as the driver sees it: two-class, joint multi-class, a batch of a stream, rounds on a cluster.

    Order of calls: `start`, then for every epoch `step`, `gap_estimate` and, where the driver decides so, `evaluate`; at last `finish`.
    The driver's clock runs in `start`, `step` and `gap_estimate` alone. After Ctrl-C `evaluate` may follow a `step` that was cut short.
    """

    at_zero: float  # the objective of w = 0, against which divergence is measured
    stall_evaluations: int = STALL_EVALUATIONS
    restarted_at: int = 0  # epoch at which progress was last lost: evaluations before it do not tell whether the run has stalled

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
        raise NotImplementedError

    def finish(self) -> None:
        """Complete what the best model needs, after the last evaluation."""
