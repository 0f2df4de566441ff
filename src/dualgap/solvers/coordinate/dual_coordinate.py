"""Dual coordinate ascent in a box, on a precomputed Gram matrix (Hsieh et al. 2008, docs/references.md#hsieh-2008).

    Q = YKY with K = XXᵀ or a kernel matrix;   margins m = Q(cβ)/l2, kept up to date
    step on k:  β_k⁺ = dual_step(β_k, m_k, q_k),  q_k = c_k Q_kk/l2        hinge: clip(β_k + (1−m_k)/q_k, 0, 1)
    then        m += c_k(β_k⁺−β_k) Q_k / l2

A step that changes nothing costs one comparison, any other one row of Q: n, not d. On a kernel problem SDCA takes the same steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualgap.core import fresh_seed, natural_order, one_of, shuffle
from dualgap.problem import Problem
from dualgap.solvers.base import YES, Solver, State, Support, Warm, no, register
from dualgap.solvers.coordinate.ascent import Ascent
from dualgap.solvers.precomputed import LARGEST, forming_passes, matrix_bytes, on_gram

__all__ = ["DualCoordinate"]


@dataclass(kw_only=True)
class DualCoordinateState(State):
    """β and the margins (in `ascent`, whose rows are those of the Gram matrix); every epoch changes them and the order."""

    ascent: Ascent
    order: np.ndarray


@register
@dataclass(frozen=True)
class DualCoordinate(Solver):
    """Box-constrained coordinate ascent on the dual, with a precomputed Gram matrix and Qβ kept up to date.

    Parameters
    ----------
    order : {"permutation", "cyclic"}
        A fresh permutation of the dual variables each epoch, or as they come.

    Forming XXᵀ is counted in `passes`: (n+1)/2 of them. Made for at most 20 000 rows.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import make_classification
    >>> problem = dualgap.Problem(*make_classification(60, 200, random_state=0), l2=1e-1)
    >>> result = dualgap.solve(problem, "dual_coordinate", tol=1e-6)
    >>> result.status, int(result.trace["support_vectors"][-1]) <= 60
    ('converged', True)
    """

    order: str = "permutation"

    name: ClassVar[str] = "dual_coordinate"
    takes_blocks: ClassVar[bool] = True
    summary: ClassVar[str] = "box-constrained dual coordinate ascent on a precomputed Gram matrix"
    sparse_cost: ClassVar[str] = "n"

    def __post_init__(self) -> None:
        one_of("order", self.order, ("permutation", "cyclic"))

    def supports(self, problem: Problem) -> Support:
        if problem.l1 > 0:
            return no("a Gram matrix has no coordinates of w for an l1 part to act on")
        if problem.n > LARGEST:
            return no(
                f"it needs the n × n Gram matrix in memory, {matrix_bytes(problem.n)} for n = {problem.n}; its limit is {LARGEST} rows "
                f"({matrix_bytes(LARGEST)}). Use 'dca', which needs no matrix."
            )
        return YES

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> DualCoordinateState:
        dual, centre = (None, None) if warm is None else (warm.dual, warm.intercept)
        ascent = Ascent(on_gram(problem), dual, centre)
        return DualCoordinateState(passes=forming_passes(problem), ascent=ascent, order=natural_order(problem.n))

    def epoch(self, problem: Problem, state: DualCoordinateState, rng: np.random.Generator) -> None:
        if self.order == "permutation":
            shuffle(state.order, fresh_seed(rng))
        state.ascent.epoch(state.order)
        state.passes += 1.0

    def dual(self, problem: Problem, state: DualCoordinateState) -> np.ndarray:
        return state.ascent.beta.copy()
