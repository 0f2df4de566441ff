"""The dual of hinge and l1 over some rows and some features, as a linear program for HiGHS, and the model from its multipliers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dualgap.core import is_sparse
from dualgap.problem import Problem

__all__ = ["RestrictedDual", "solve_restricted"]

TOLERANCE = 1e-9  # of HiGHS' constraints and reduced costs, in units of the scaled program
METHODS = ("highs-ds", "highs-ipm")  # the simplex method, and the interior-point one should it fail


class RestrictedDual(NamedTuple):
    """maximise Σ weightᵢβᵢ subject to 0 ≤ β ≤ 1, |Σ weightᵢβᵢ·rowᵢ| ≤ l1 and, for a free intercept, Σ weightᵢβᵢyᵢ = 0.

    Its rows are those of the problem, times their labels, and last the mean rows of the classes whose rows share a β.
    """

    rows: np.ndarray  # numbers of the rows that have a β of their own
    groups: list[np.ndarray]  # those of the rows that share one
    columns: np.ndarray
    matrix: Any  # sparse
    weights: np.ndarray
    labels: np.ndarray

    @classmethod
    def of(cls, problem: Problem, own: np.ndarray, shared: np.ndarray, used: np.ndarray) -> RestrictedDual:
        """Return the program of the rows with a β of their own, those that share one, and the features in use, as masks."""
        rows, columns = np.flatnonzero(own), np.flatnonzero(used)
        groups = [g for g in (np.flatnonzero(shared & (problem.y == sign)) for sign in (1.0, -1.0)) if len(g)]
        X: Any = problem.X[: problem.n]
        chosen = X[rows][:, columns] if is_sparse(X) else sparse.csr_matrix(X[np.ix_(rows, columns)].astype(np.float64, copy=False))
        parts = [sparse.diags(problem.y[rows]) @ chosen.astype(np.float64, copy=False)]
        for group in groups:
            a = np.zeros(problem.n)
            a[group] = problem.c[group] * problem.y[group] / problem.c[group].sum()
            parts.append(sparse.csr_matrix(problem.combine(a)[columns]))
        weights = np.concatenate([problem.c[rows], [problem.c[g].sum() for g in groups]])
        labels = np.concatenate([problem.y[rows], [problem.y[g[0]] for g in groups]])
        return cls(rows, groups, columns, sparse.vstack(parts).tocsr(), weights, labels)

    def beta(self, values: np.ndarray, n: int) -> np.ndarray:
        """Return β of all rows from those of the program."""
        beta = np.zeros(n)
        beta[self.rows] = values[: len(self.rows)]
        for group, value in zip(self.groups, values[len(self.rows) :], strict=True):
            beta[group] = value
        return np.clip(beta, 0.0, 1.0)


def solve_restricted(problem: Problem, program: RestrictedDual) -> tuple[np.ndarray, float, np.ndarray] | None:
    """Return w, b and β; None if HiGHS fails.

    The variables are β and s = −u/l1 with |s| ≤ 1, the objective is n·Σ weightᵢβᵢ. A multiplier μ of u/l1 + s = 0 is −n·l1·w.
    """
    from scipy import optimize

    linprog: Any = optimize.linprog
    count, width, n = len(program.weights), len(program.columns), problem.n
    sums = sparse.hstack([(sparse.diags(program.weights / problem.l1) @ program.matrix).T, sparse.identity(width)])
    if problem.intercept == "free":
        balance = np.concatenate([n * program.weights * program.labels, np.zeros(width)])
        sums = sparse.vstack([sums, sparse.csr_matrix(balance)])
    constraints: Any = sums.tocsc()
    cost = np.concatenate([-n * program.weights, np.zeros(width)])
    bounds = np.repeat([[0.0, 1.0], [-1.0, 1.0]], [count, width], axis=0)
    options = {"primal_feasibility_tolerance": TOLERANCE, "dual_feasibility_tolerance": TOLERANCE}
    for method in METHODS:
        found = linprog(cost, A_eq=constraints, b_eq=np.zeros(sums.shape[0]), bounds=bounds, method=method, options=options)
        if found.status == 0:
            multipliers = -np.asarray(found.eqlin.marginals)
            coef = np.zeros(problem.d)
            coef[program.columns] = multipliers[:width] / (n * problem.l1)
            intercept = float(multipliers[width]) if problem.intercept == "free" else 0.0
            return coef, intercept, program.beta(found.x[:count], n)
    return None
