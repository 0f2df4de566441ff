"""What `solve` gives back: a trained model, the proof of its quality, and what follows from it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dualgap.answers.forgetting import Forgettable, Receipt
from dualgap.answers.leave_one_out import LeaveOneOut
from dualgap.answers.settled import feature_status, row_status
from dualgap.core import number
from dualgap.proof import BinaryPart, ProofError, Table, TargetPart, make_proof
from dualgap.run import Trained

__all__ = ["Result"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Result(Trained):
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

    forgettable: Forgettable | None = field(default=None, repr=False)  # of a result that `forget` returned

    def decision_bounds(self, X: object, diagonal: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
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

    def predict_proven(self, X: object, diagonal: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
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
        found = row_status(self.problem.loss, *self.ball.training_margins())
        found[self.problem.c == 0.0] = "out"
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
        self.require_own_dual("feature_status")
        return feature_status(self.problem, self.coef, self.intercept, self.dual)

    def leave_one_out(self) -> LeaveOneOut:
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
        self._require_rows("leave_one_out")
        return LeaveOneOut([self])

    def forget(self, rows: Any, max_relative_gap: float = 0.01, tol: float = 1e-4) -> tuple[Result, Receipt]:
        """Forget rows of a linear model: return the result for the rows that stay, and a receipt of what is proven of it.

        The model is kept, and certified on the rows that stay, in time proportional to the rows forgotten. It is trained again, from
        where it is, if the certified relative gap is above `max_relative_gap`. The rows that stay keep their weights c, so C is fixed. The
        status of a model that is kept is still about the run that trained it.

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
        number("max_relative_gap", max_relative_gap, "[0, inf]")
        number("tol", tol, "[0, 1)")
        state = self._forgettable
        after, receipt = state.forget(state.checked(rows), max_relative_gap, tol)
        return Result.of(after.result, forgettable=after), receipt

    @cached_property
    def _forgettable(self) -> Forgettable:
        if self.forgettable is not None:
            return self.forgettable
        self._require_rows("forget")
        if self.problem.kernel is not None:
            raise ProofError(
                "forget is for linear models; the expansion of a kernel machine is over its training rows, so fit it again"
            )
        return Forgettable(self)

    def _require_labels(self, method: str, instead: str) -> None:
        """Refuse what is about classes for a regression."""
        if self.problem.is_regression:
            raise ProofError(f"{method} is for classification, and this problem is a regression; {instead}")

    def _require_rows(self, method: str) -> None:
        """Refuse what needs one problem with its rows in memory, its dual variables and an l2 penalty."""
        self.require_own_dual(method)
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
        self.require_own_dual("a proof")
        problem, gap = self.problem, self.certificate.gap
        if problem.X is None:
            raise ProofError("a proof needs the rows in memory; this problem has none")
        if problem.is_regression:
            table = Table(problem.X, problem.targets[:, None], [])
            part: Any = TargetPart(problem, self.coef, self.intercept, self.dual, gap)
        else:
            table = Table(problem.X, (problem.y > 0).astype(np.int64), list(problem.classes))
            part = BinaryPart(problem, self.coef, self.intercept, self.dual, gap)
        make_proof(table, [part], preparation, check).save(path, data)
