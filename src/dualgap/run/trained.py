"""Trained: a model as a run leaves it, with its certificate and how the run went."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from html import escape
from typing import Any, Self

import numpy as np

from dualgap.core import counted
from dualgap.proof import Ball, Certificate, ProofError, ball_of
from dualgap.run.trace import Status, Trace

__all__ = ["Trained"]


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A trained model with its certificate and how the run went; `Result`, which `solve` returns, describes the fields."""

    problem: Any = field(default=None, repr=False)
    solver: Any = None
    coef: np.ndarray
    intercept: Any  # a number; for a joint problem one a class
    dual: Any = None
    certificate: Certificate
    status: Status
    trace: Trace = field(default_factory=Trace)
    epochs: int = 0
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    compile_seconds: float = 0.0

    @classmethod
    def of(cls, result: Trained, /, **changes: Any) -> Self:
        """Make a result of this class from another one, with some fields changed or added."""
        return cls(**{each.name: getattr(result, each.name) for each in fields(result)} | changes)

    @property
    def converged(self) -> bool:
        """Whether the certified relative gap is at most the `tol`, or the gap at most the `atol`, that was asked for."""
        return self.status == "converged"

    @cached_property
    def ball(self) -> Ball:
        """Where the exact model is: a ball that contains w*, and an interval of b*. It is computed when it is first asked for.

        Examples
        --------
        >>> import dualgap
        >>> from sklearn.datasets import make_classification
        >>> problem = dualgap.Problem(*make_classification(100, random_state=0), l2=0.1, intercept="free")
        >>> ball = dualgap.solve(problem, tol=1e-6).ball
        >>> ball.radius < 0.01, ball.intercept[0] < ball.intercept[1]
        (True, True)
        """
        self.require_own_dual("the ball")
        return ball_of(self.problem, self.coef, self.intercept, self.dual)

    def require_own_dual(self, what: str) -> None:
        """Refuse what needs one problem and its dual variables."""
        if self.dual is None:
            raise ProofError(f"the dual variables of this result stayed with the workers of a cluster; {what} needs them")
        if np.ndim(self.coef) != 1:
            raise ProofError(
                f"this result is of several classes jointly, for which there is no {what}; use proof_ of the estimator"
            )

    def decision(self, X: object) -> np.ndarray:
        """Scores of new samples, positive for the second class; predictions of a regression."""
        return np.asarray(self.problem.decision(X, self.coef, self.intercept))

    def predict(self, X: object) -> np.ndarray:
        """Labels of new samples, as they were given in training; predictions of a regression."""
        return np.asarray(self.problem.predict(X, self.coef, self.intercept))

    def __repr__(self) -> str:
        c = self.certificate
        return (
            f"{type(self).__name__}({self.solver.label()}: {self.status} after {counted(self.epochs, 'epoch')}, "
            f"{self.cpu_seconds:.3g} s CPU; primal {c.primal:.6g}, relative gap {c.relative_gap:.1e})"
        )

    def _repr_html_(self) -> str:
        """Return the result as notebooks show it: how the run ended, and the certificate."""
        name = getattr(self.solver, "name", "")
        by = f" of {name}" if name else ""
        ended = f"{self.status} after {counted(self.epochs, 'epoch')}{by}, {self.wall_seconds:.3g} s"
        return f"<p>{escape(ended)}</p>{self.certificate._repr_html_()}"
