"""LossSums: what second-order methods ask of the rows, which are in memory. A store and a cluster ask it of one block of rows at a time.

value Σ cᵢMᵢ(mᵢ),   gradient −u = −Σ cᵢβᵢyᵢxᵢ,   Hessian Σ wᵢxᵢxᵢᵀ, its diagonal, or its product with a vector   (M, β: `proximal`)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dualgap.core import WithBias, add_in_threads, gram_of_rows, kernel, rows_per_thread, scores_in_threads, share_sum
from dualgap.problem import Problem, Samples
from dualgap.solvers.newton.proximal import Descent, Prox, Values, curvatures, dual_points, predicted_changes

__all__ = ["LossSums", "bias_column"]


def bias_column(problem: Problem, rows: Any) -> Any:
    """Return the rows with the column of the intercept, where there is one."""
    return rows if problem.intercept == "none" else WithBias(rows, problem.intercept_scale, 0.0)


@dataclass
class LossSums:
    """Rows, their margins at an x, and their β.

    Order of calls: `go_to` an x, or `along` a direction and `step`; then `update`. The others may come at any time after it.
    """

    loss: Any
    rows: Any  # with the bias column
    samples: Samples
    prox: Prox
    margins: np.ndarray
    beta: np.ndarray
    work: np.ndarray  # scratch: what the last call says; the margin step from `along` to `step`

    @classmethod
    def of(cls, problem: Problem, rows: Any, prox: Prox) -> LossSums:
        """Return the sums over all rows of a problem, as these have them; β is zero, the margins are not set."""
        n = problem.n
        return cls(problem.loss, bias_column(problem, rows), problem.samples, prox, np.empty(n), np.zeros(n), np.empty(n))

    def go_to(self, x: np.ndarray) -> None:
        """Set the margins to yᵢ·(xᵢ·x + oᵢ). At x = 0 no row is read."""
        if x.any():
            scores_in_threads(self.rows, x, self.margins)
        else:
            self.margins[:] = 0.0
        self.samples.offset.add_to(self.margins)
        self.margins *= self.samples.y

    def along(self, direction: np.ndarray, x: np.ndarray, ridge: np.ndarray) -> Descent:
        """Return −dF/dt along a direction from x. Sets: work, the margin step."""
        scores_in_threads(self.rows, direction, self.work)
        self.work *= self.samples.y
        linear, quadratic = float(ridge * x @ direction), float(ridge * direction @ direction)
        return Descent(self.loss, self.margins, self.work, self.prox, self.samples, linear, quadratic)

    def step(self, t: float) -> None:
        """Take t times the step of `along`."""
        self.margins += t * self.work

    def dual(self) -> Values:
        """Set β to β⁺ of the margins. Sets: work, what that changes of cᵢβᵢyᵢ."""
        return Values(*dual_points(self.loss, self.margins, self.prox, self.samples, self.beta, self.work))

    def update(self, u: np.ndarray) -> Values:
        """Set β to β⁺ of the margins, and add what that changes of Σ cβyx to u."""
        values = self.dual()
        add_in_threads(self.rows, self.work, u)
        return values

    def predicted(self) -> np.ndarray:
        """Return the changes of cᵢβᵢyᵢ that tangents at the centre predict; they are in `work`."""
        predicted_changes(self.loss, self.margins, self.prox, self.samples, self.work)
        return self.work

    def weigh(self, out: np.ndarray) -> np.ndarray:
        """Set `out`, which may be `work`, to the weights of the rows in the Hessian: cᵢ times their curvature at β."""
        curvatures(self.loss, self.beta, self.prox.delta, self.samples.c, out)
        return out

    def hessian(self, weight: np.ndarray, size: int, products: Any = np.float64) -> np.ndarray:
        """Return the lower triangle of Σ weightᵢ xᵢxᵢᵀ."""
        return gram_of_rows(self.rows, weight, size, products)

    def add_with_diagonal(self, weight: np.ndarray, out: np.ndarray) -> None:
        """Add Σ workᵢxᵢ to out[0], after `dual` thus what has changed of Σ cβyx, and the diagonal of Σ weightᵢ xᵢxᵢᵀ to out[1]."""
        self._add(add_with_squares, np.flatnonzero((self.work != 0.0) | (weight != 0.0)), out, self.work, weight)

    def add_product(self, curved: np.ndarray, weight: np.ndarray, v: np.ndarray, out: np.ndarray) -> None:
        """Add Σ weightᵢ xᵢ(xᵢ·v), a sum over the rows `curved`, whose weight is not zero."""
        self._add(add_products, curved, out, weight, v)

    def _add(self, part: Any, which: np.ndarray, out: np.ndarray, *args: Any) -> None:
        def work(first: int, last: int, sums: np.ndarray) -> None:
            part(self.rows, which[first:last], *args, sums)

        share_sum(work, len(which), rows_per_thread(self.rows), out)


@kernel
def add_with_squares(rows, which, a, weight, out):
    """out[0] += Σ aᵢxᵢ and out[1] += Σ weightᵢ xᵢ² over some rows, each of them read once."""
    for i in which:
        rows.add(i, a[i], out[0])
        if weight[i] != 0.0:
            rows.add_squares(i, weight[i], out[1])


@kernel
def add_products(rows, which, weight, v, out):
    """out += Σ weightᵢ xᵢ(xᵢ·v) over some rows, each of them read once."""
    for i in which:
        rows.add(i, weight[i] * rows.dot(i, v), out)
