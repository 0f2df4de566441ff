"""The Newton system of ssnal: a diagonal plus the rows that have curvature, in the smaller of its two forms, or by conjugate gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dualgap.core import factor_and_solve, factor_of, gram_of_rows, is_sparse, solve_with
from dualgap.core import rows as storage

__all__ = ["Bias", "System"]

# The origin of the values is unknown; the comments say what they trade off.
DIRECT = 2500  # unknowns of a system that is factored; a larger one, which takes about a second, is solved by conjugate gradients
CG_STEPS = 200  # of these at most …
CG_RESIDUAL = 1e-3  # … and the part of the right side at which they end: fewer steps here are more Newton steps


class Bias(NamedTuple):
    """The constant column of the intercept, 0 where there is none, and its entry of the diagonal."""

    scale: float
    diagonal: float


class System(NamedTuple):
    """(diag(diagonal) + Σ weightᵢ xᵢxᵢᵀ)·step = rhs over the features of the working set; the intercept is the last unknown.

    With q = −weight·(X·step) over the rows of positive weight, diagonal·step − Xᵀq = rhs. The rows' form of the system is therefore
    (1/weight + X·diagonal⁻¹·Xᵀ)·q = −X·rhs/diagonal.
    """

    matrix: Any  # X of the working set, dense or CSR
    rows: Any  # the same with the bias column, as kernels read it
    weight: np.ndarray  # of all rows
    diagonal: np.ndarray  # of the features; positive
    bias: Bias

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """Return the step."""
        curved, features = int(np.count_nonzero(self.weight)), len(self.diagonal)
        if curved == 0 or len(rhs) == 0:
            right, bias = self._split(rhs)
            return self._joined(right / self.diagonal, bias / self.bias.diagonal if self.bias.scale > 0.0 else 0.0)
        if min(curved, features) > DIRECT:
            return self._by_conjugate_gradients(rhs)
        return self._by_rows(rhs) if curved < features else self._by_features(rhs)

    def _split(self, rhs: np.ndarray) -> tuple[np.ndarray, float]:
        d = len(self.diagonal)
        return rhs[:d], float(rhs[d]) if self.bias.scale > 0.0 else 0.0

    def _joined(self, step: np.ndarray, shift: float) -> np.ndarray:
        return np.append(step, shift) if self.bias.scale > 0.0 else step

    def _by_features(self, rhs: np.ndarray) -> np.ndarray:
        H = gram_of_rows(self.rows, self.weight, len(rhs))
        H[np.diag_indices(len(H))] += self._joined(self.diagonal, self.bias.diagonal)
        unit = 1.0 / np.sqrt(H.diagonal())  # to a unit diagonal: features may have lengths of many orders of magnitude
        H *= unit
        H *= unit[:, None]
        return unit * factor_and_solve(H, unit * rhs)[1]

    def _by_rows(self, rhs: np.ndarray) -> np.ndarray:
        right, bias = self._split(rhs)
        curved = np.flatnonzero(self.weight)
        X: Any = self.matrix[curved]
        columns = X.T.tocsr() if is_sparse(X) else np.ascontiguousarray(X.T)
        G = gram_of_rows(storage.of_matrix(columns), 1.0 / self.diagonal, len(curved))
        G[np.diag_indices(len(G))] += 1.0 / self.weight[curved]
        factor = factor_of(G)
        q, shift = solve_with(factor, -np.asarray(X @ (right / self.diagonal)).reshape(-1)), 0.0
        if self.bias.scale > 0.0:
            scale = self.bias.scale
            of_bias = solve_with(factor, np.full(len(q), scale))
            curvature = self.bias.diagonal + scale * float(of_bias.sum())  # 0 where 1 / diagonal overflows
            shift = (bias + scale * float(q.sum())) / curvature if curvature > 0.0 else 0.0
            q = q - shift * of_bias
        return self._joined((right + np.asarray(X.T @ q).reshape(-1)) / self.diagonal, shift)

    def _by_conjugate_gradients(self, rhs: np.ndarray) -> np.ndarray:
        """Return the step, with the system's diagonal as preconditioner."""
        curved = np.flatnonzero(self.weight)
        X: Any = self.matrix[curved]
        weight, scale, own = self.weight[curved], self.bias.scale, self._joined(self.diagonal, self.bias.diagonal)
        squares = np.asarray((X.multiply(X) if is_sparse(X) else X * X).T @ weight).reshape(-1)
        full = own + self._joined(squares, scale * scale * float(weight.sum()))

        def product(p: np.ndarray) -> np.ndarray:
            step, shift = self._split(p)
            z = weight * (np.asarray(X @ step).reshape(-1) + scale * shift)
            return own * p + self._joined(np.asarray(X.T @ z).reshape(-1), scale * float(z.sum()))

        x, r = np.zeros(len(rhs)), rhs.copy()
        z = r / full
        p, size = z.copy(), float(r @ z)
        end = CG_RESIDUAL**2 * size
        for _ in range(CG_STEPS):
            if not size > end:
                break
            image = product(p)
            t = size / float(p @ image)
            x += t * p
            r -= t * image
            z = r / full
            before, size = size, float(r @ z)
            p = z + (size / before) * p
        return x
