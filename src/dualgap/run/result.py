"""What a run gives back: Result, Trace, Status."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from html import escape
from typing import Any, Literal, Self, TypeVar

import numpy as np

from dualgap.core import counted, inner
from dualgap.proof import (
    Ball,
    BinaryPart,
    Certificate,
    ProofError,
    Table,
    TargetPart,
    ball_of,
    feature_status,
    forget_scores,
    make_proof,
    row_status,
)

__all__ = ["SUCCESSES", "ConvergenceWarning", "Result", "Status", "Trace", "action", "advice", "of_zero", "strong_penalty"]

Status = Literal[
    "converged", "zero_optimum", "decided", "max_epochs", "max_seconds", "interrupted", "diverged", "stalled", "rounding_limit"
]
SUCCESSES: tuple[Status, ...] = ("converged", "zero_optimum", "decided")  # the ends of a run that no warning is given for


Action = TypeVar("Action", bound=Callable[..., Any])
# What methods of Result do that run solvers. A solver's run makes a Result, so their modules import this one and enter themselves here.
_actions: dict[str, Callable[..., Any]] = {}


def action(name: str) -> Callable[[Action], Action]:
    """Return a decorator for the function behind the method `name` of Result."""

    def enter(function: Action) -> Action:
        _actions[name] = function
        return function

    return enter


class ConvergenceWarning(UserWarning):
    """A run ended before its certified gap was as small as asked.

    Examples
    --------
    >>> import warnings, dualgap
    >>> problem = dualgap.Problem([[1.0], [2.0], [0.5]], [0, 1, 1], l2=1e-3)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     result = dualgap.solve(problem, "pegasos", tol=1e-9, max_epochs=2)
    >>> caught[0].category.__name__, result.status
    ('ConvergenceWarning', 'max_epochs')
    """


class Trace:
    """A table of what was seen at each evaluation, kept as columns.

    epoch, passes, cpu_seconds and wall_seconds (updates only), primal, dual (best bound so far), gap, relative_gap, train_error,
    support_vectors (β > 0), nonzeros (of w), for each watched set NAME_error and NAME_balanced_accuracy, and where rows are to be decided
    the share of them with a proven label, decided.

    `handovers` lists the changes of method in a run of "auto": pairs of the epoch and a text such as "dca → newton: …", with the reason.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import make_classification
    >>> problem = dualgap.Problem(*make_classification(100, random_state=0), l2=0.1)
    >>> trace = dualgap.solve(problem, "sdca").trace
    >>> bool((trace["gap"] >= 0).all())
    True
    """

    def __init__(self) -> None:
        self._columns: dict[str, list[float]] = {}
        self.handovers: list[tuple[int, str]] = []

    def append(self, record: dict[str, float]) -> None:
        """Add a row; all rows of a run have the same columns. A row that Ctrl-C cut short is replaced."""
        if not self._columns:
            self._columns = {name: [value] for name, value in record.items()}
            return
        columns, rows = self._columns, len(self)
        for name, value in record.items():
            columns.setdefault(name, [])[rows:] = (value,)

    def __len__(self) -> int:
        return min(map(len, self._columns.values()), default=0)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._columns:
            raise KeyError(f"the trace has no column {name!r}; it has {self.columns}")
        return np.asarray(self._columns[name], dtype=float)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self._columns)

    def last(self) -> dict[str, float]:
        """The newest row."""
        return {name: column[-1] for name, column in self._columns.items()}

    def note(self, name: str, value: float) -> None:
        """Set a further column of the newest row; rows before it that do not have the column get NaN."""
        column = self._columns.setdefault(name, [])
        column += [math.nan] * (max(map(len, self._columns.values())) - len(column))
        column[-1:] = [value]

    def followed_by(self, later: Trace) -> Trace:
        """Return the trace of a run that another one went on with: epochs, passes and seconds are counted from the first one's start."""
        joined, last = Trace(), self.last() if len(self) else {}
        for name in dict.fromkeys([*self.columns, *later.columns]):
            before = self._columns.get(name, [math.nan] * len(self))
            offset = last.get(name, 0.0) if name in ("epoch", "passes", "cpu_seconds", "wall_seconds") else 0.0
            joined._columns[name] = before + [offset + value for value in later._columns.get(name, [math.nan] * len(later))]
        return joined

    def to_dict(self) -> dict[str, np.ndarray]:
        """Columns as arrays."""
        return {name: self[name] for name in self._columns}

    def to_pandas(self) -> Any:
        """The trace as a pandas data frame (needs pandas)."""
        import pandas as pd

        return pd.DataFrame(self.to_dict())

    def __repr__(self) -> str:
        if not len(self):
            return "Trace(empty)"
        last = self.last()
        changes = "".join(f"; after epoch {epoch} {text}" for epoch, text in self.handovers)
        return f"Trace({counted(len(self), 'evaluation')} to epoch {last['epoch']:.0f}, relative gap {last['relative_gap']:.1e}{changes})"


@dataclass(frozen=True, kw_only=True)
class Result:
    """A trained model with the proof of its quality.

    Attributes
    ----------
    coef, intercept : the model w, b; for a kernel problem coef holds the n coefficients of the kernel expansion
    dual : one dual variable β a sample, feasible; `certificate.dual` is its value. None where they stayed with the workers of a cluster
    certificate : primal, dual, gap, relative_gap, source
    status : "converged", "zero_optimum", "decided", "max_epochs", "max_seconds", "interrupted", "diverged", "stalled" or "rounding_limit"
    trace : what was seen along the way
    epochs, cpu_seconds, wall_seconds : the cost of the updates; evaluation is not counted
    compile_seconds : spent on compiling or loading kernels before the clock started
    problem, solver : what was solved, and by what

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(100, random_state=0)
    >>> result = dualgap.solve(dualgap.Problem(X, y, l2=0.1), "sdca")
    >>> result.certificate.relative_gap <= 1e-4, result.predict(X).shape
    (True, (100,))
    """

    problem: Any = field(default=None, repr=False)
    solver: Any = None
    coef: np.ndarray
    intercept: Any  # a number; for a joint problem one a class
    dual: Any = None
    certificate: Certificate
    status: Status
    trace: Trace
    epochs: int
    cpu_seconds: float
    wall_seconds: float
    compile_seconds: float = 0.0

    @classmethod
    def of(cls, result: Result, /, **changes: Any) -> Self:
        """Make a result of this class from another one, with some fields changed or added."""
        return cls(**{each.name: getattr(result, each.name) for each in fields(result)} | changes)

    @property
    def converged(self) -> bool:
        """Whether the certified relative gap is at most the `tol`, or the gap at most the `atol`, that was asked for."""
        return self.status == "converged"

    def _repr_html_(self) -> str:
        """Return the result as notebooks show it: how the run ended, and the certificate."""
        name = getattr(self.solver, "name", "")
        ended = (
            f"{self.status} after {counted(self.epochs, 'epoch')}"
            + (f" of {name}" if name else "")
            + f", {self.wall_seconds:.3g} s"
        )
        return f"<p>{escape(ended)}</p>{self.certificate._repr_html_()}"

    def decision(self, X: Any) -> np.ndarray:
        """Scores of new samples, positive for the second class; predictions of a regression."""
        return np.asarray(self.problem.decision(X, self.coef, self.intercept))

    def predict(self, X: Any) -> np.ndarray:
        """Labels of new samples, as they were given in training; predictions of a regression."""
        return np.asarray(self.problem.predict(X, self.coef, self.intercept))

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
        if self.dual is None:
            raise ProofError("the dual variables of this result stayed with the workers of a cluster; its ball needs them")
        if np.ndim(self.coef) != 1:
            raise ProofError("this result is of several classes jointly; use the methods of the estimator")
        try:
            return ball_of(self.problem, self.coef, self.intercept, self.dual)
        finally:
            forget_scores(self.problem)

    def decision_bounds(self, X: Any, diagonal: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Bound the scores that the exact model gives to new samples: a lower and an upper bound of each.

        Examples
        --------
        >>> import dualgap
        >>> from sklearn.datasets import make_classification
        >>> X, y = make_classification(100, random_state=0)
        >>> result = dualgap.solve(dualgap.Problem(X, y, l2=0.1), tol=1e-6)
        >>> low, high = result.decision_bounds(X)
        >>> float((high - low).max()) < 0.1
        True
        """
        return self.ball.bounds(X, diagonal)

    def predict_proven(self, X: Any, diagonal: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Return labels of new samples, and which of them are proven to be those of the exact model.

        Examples
        --------
        >>> import dualgap
        >>> from sklearn.datasets import make_classification
        >>> X, y = make_classification(100, random_state=0)
        >>> labels, proven = dualgap.solve(dualgap.Problem(X, y, l2=0.1), tol=1e-6).predict_proven(X)
        >>> bool(proven.mean() > 0.9)
        True
        """
        self._require_labels("predict_proven", "decision_bounds gives an interval of each exact prediction")
        low, high = self.decision_bounds(X, diagonal)
        labels = np.asarray(self.predict(X))
        positive = labels == self.problem.classes[1]
        return labels, np.where(positive, low > 0.0, high <= 0.0)

    def support_status(self) -> np.ndarray:
        """Say for each training row what is certain of its dual variable β* at the optimum.

        "out": β* = 0, no support vector. "bound": β* is at its upper bound, which the hinge and the smooth hinge have. "free": a support
        vector below its bound. "open": this gap does not tell. Rows of weight 0 are "out".

        Examples
        --------
        >>> import dualgap
        >>> from sklearn.datasets import make_classification
        >>> problem = dualgap.Problem(*make_classification(100, random_state=0), l2=0.1)
        >>> status = dualgap.solve(problem, tol=1e-8).support_status()
        >>> bool((status == "out").any()), bool((status == "bound").any())
        (True, True)
        """
        problem = self.problem
        found = row_status(problem.loss, *self.ball.training_margins())
        forget_scores(problem)
        found[problem.c == 0.0] = "out"
        return found

    def feature_status(self) -> np.ndarray:
        """Say for each feature whether its coefficient is "zero" or "nonzero" in the exact model; "open" where this gap does not tell.

        An l1 penalty or a bound of 0 makes coefficients zero. With any penalty, a feature has the coefficient zero if only rows have it
        that are no support vectors. Without an l2 penalty the loss must have a curvature (not the hinge).

        Examples
        --------
        >>> import dualgap
        >>> from sklearn.datasets import make_classification
        >>> X, y = make_classification(100, random_state=0)
        >>> problem = dualgap.Problem(X, y, "squared_hinge", l2=0.05, l1=0.05)
        >>> status = dualgap.solve(problem, tol=1e-8).feature_status()
        >>> bool((status == "zero").any()), bool((status == "nonzero").any())
        (True, True)
        """
        if self.dual is None or np.ndim(self.coef) != 1:
            raise ProofError("this result is of several classes jointly, or of a cluster; what it settles needs its dual variables")
        try:
            return feature_status(self.problem, self.coef, self.intercept, self.dual)
        finally:
            forget_scores(self.problem)

    def leave_one_out(self) -> Any:
        """Bound the leave-one-out error of the exact model at fixed C: `low`, `high`, the `status` of each row; `exact()` makes it exact.

        Returns
        -------
        LeaveOneOut

        Examples
        --------
        >>> import dualgap
        >>> from sklearn.datasets import make_classification
        >>> problem = dualgap.Problem(*make_classification(100, random_state=0), l2=0.1, intercept="free")
        >>> found = dualgap.solve(problem, tol=1e-6).leave_one_out().exact()
        >>> found.low == found.high
        True
        """
        self._require_labels("leave_one_out", "it counts wrong labels")
        self._require_own_dual("leave_one_out")
        return _actions["leave_one_out"](self)

    def forget(self, rows: Any, max_relative_gap: float = 0.01, tol: float = 1e-4) -> tuple[Result, Any]:
        """Forget rows of a linear model: return the result for the rows that stay, and a receipt of what is proven of it.

        The model is kept, and certified on the rows that stay, in time proportional to the rows forgotten. It is trained again, from
        where it is, if the certified relative gap is above `max_relative_gap`. The rows that stay keep their weights c, so C is fixed.

        Parameters
        ----------
        rows : numbers of rows, or a mask
            As they were numbered in the problem at first; later calls use the same numbers.
        max_relative_gap : float
            The certified relative gap above which the model is trained again.
        tol : float
            The relative gap to which it is trained then.

        Returns
        -------
        result, receipt : Result, Receipt

        Examples
        --------
        >>> import dualgap
        >>> from sklearn.datasets import make_classification
        >>> problem = dualgap.Problem(*make_classification(1000, random_state=0), l2=0.1)
        >>> result, receipt = dualgap.solve(problem, tol=1e-6).forget([0, 1, 2])
        >>> receipt.retrained, receipt.remaining, receipt.relative_distance < 0.1
        (False, 997, True)
        """
        self._require_labels("forget", "train on the rows that stay")
        found: tuple[Result, Any] = _actions["forget"](self, rows, max_relative_gap, tol)
        return found

    def _require_labels(self, method: str, instead: str) -> None:
        """Refuse what is about classes for a regression."""
        if self.problem.is_regression:
            raise ProofError(f"{method} is for classification, and this problem is a regression; {instead}")

    def _require_own_dual(self, method: str) -> None:
        """Refuse what needs one problem of two classes with its rows in memory and its dual variables."""
        if self.dual is None:
            raise ProofError(f"the dual variables of this result stayed with the workers of a cluster; {method} needs them")
        if np.ndim(self.coef) != 1:
            raise ProofError(f"this result is of several classes jointly, for which there is no {method}")
        if self.problem.streaming:
            raise ProofError(f"{method} needs the rows in memory; these are in a store")
        if self.problem.l2 == 0.0:
            raise ProofError(
                f"l2=0: {method} needs an l2 penalty, without which a gap does not bound the distance from the exact model"
            )

    def save_proof(
        self,
        path: str | os.PathLike[str],
        *,
        data: str | os.PathLike[str] | None = None,
        preparation: Sequence[str] = (),
        check: bool = True,
    ) -> None:
        """Write a proof of the certified gap that anybody can check without dualgap.

        `dualgap verify PROOF DATA` checks it, and so does dualgap/proof/verify.py, a single file for plain Python, in exact arithmetic.

        Parameters
        ----------
        path : path
            The file to write; docs/proof-format.md describes it. It holds the model and the dual variables, and a digest of the data.
        data : path, optional
            Write the data there too, in the format's own canonical text.
        preparation : sequence of str
            How the training data were made from what others have, a step each, in words. The proof is about the data after it.
        check : bool
            Whether to evaluate the claim in exact arithmetic first, which takes some seconds for each million non-zeros.

        Examples
        --------
        >>> import dualgap, tempfile
        >>> from pathlib import Path
        >>> X, y = [[1.0, 0.5], [0.25, 2.0], [3.0, 1.0]], [0, 1, 0]
        >>> result = dualgap.solve(dualgap.Problem(X, y, l2=0.1, intercept="free"))
        >>> path = Path(tempfile.mkdtemp()) / "model.proof"
        >>> result.save_proof(path)
        >>> path.read_text().splitlines()[0]
        'dualgap-proof 1'
        """
        if self.dual is None:
            raise ProofError("the dual variables of this result stayed with the workers of a cluster; a proof needs them")
        problem, gap = self.problem, self.certificate.gap
        if np.ndim(self.coef) != 1 or problem.X is None:
            raise ProofError("this result is not of one problem with its data in memory; use save_proof of the estimator")
        if problem.is_regression:
            table = Table(problem.X, problem.targets[:, None], [])
            part: Any = TargetPart(problem, self.coef, self.intercept, self.dual, gap)
        else:
            table = Table(problem.X, (problem.y > 0).astype(np.int64), list(problem.classes))
            part = BinaryPart(problem, self.coef, self.intercept, self.dual, gap)
        make_proof(table, [part], preparation, check).save(path, data)

    def __repr__(self) -> str:
        c = self.certificate
        return (
            f"{type(self).__name__}({self.solver.label()}: {self.status} after {counted(self.epochs, 'epoch')}, "
            f"{self.cpu_seconds:.3g} s CPU; "
            f"primal {c.primal:.6g}, relative gap {c.relative_gap:.1e})"
        )


def advice(result: Result, tol: float) -> str:
    """What to say of a run that ended above its tolerance: how far from optimal at most, and what to try."""
    c = result.certificate
    if result.status == "rounding_limit":
        return (
            f"{result.solver.label()} ended with status 'rounding_limit' after {counted(result.epochs, 'epoch')}: proven is a gap of "
            f"at most {c.gap:.3g} (relative {c.relative_gap:.1e}), above the tolerance {tol:.1e}, and float64 cannot tell better models "
            f"from this one. What to try: standardise or centre the features; {_other_penalty(result.problem)}; "
            "a larger tol; or, if the optimum is near 0, an absolute tolerance atol."
        )
    tried = {
        "max_epochs": "raise max_epochs",
        "max_seconds": "raise max_seconds",
        "stalled": "the gap has stopped falling: try another solver, or a larger tol",
        "diverged": "the objective blew up: scale the features, lower the step, or try another solver",
    }[result.status]
    return (
        f"{result.solver.label()} ended with status {result.status!r} after {counted(result.epochs, 'epoch')} at a relative gap of "
        f"{c.relative_gap:.1e} (gap {c.gap:.3g}), above the tolerance {tol:.1e}; the model is at most "
        f"{100 * c.gap / c.primal:.3g} % of its objective from optimal. "
        f"What to try: {tried}; standardise the features; or use {_other_penalty(result.problem)}.{of_zero(result)}"
    )


def _other_penalty(problem: Any) -> str:
    """Return which penalty is easier."""
    if strong_penalty(problem):
        return f"a smaller l2 ({problem.l2:g} now), that is a larger C: the penalty is so strong that w stays near 0"
    return f"a larger l2 ({problem.l2:g} now), that is a smaller C"


def strong_penalty(problem: Any) -> bool:
    """Return whether l2 exceeds the mean ‖x‖², so that w stays near 0: a smaller l2 is then the easier problem, else a larger one."""
    squares = getattr(problem, "sqnorms", None)
    return squares is not None and 0.0 < float(inner(problem.c, squares)) < problem.l2


def of_zero(result: Result) -> str:
    """What to say of a run whose best model is w = 0 although it trained; nothing of other runs."""
    if result.status in (*SUCCESSES, "interrupted") or result.epochs == 0 or result.coef.any():
        return ""
    return " No model that the run found has a lower objective than w = 0, which is returned."
