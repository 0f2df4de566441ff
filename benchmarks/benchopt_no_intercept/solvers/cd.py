"""Dual coordinate ascent in cyclic order (Hsieh et al. 2008), without shrinking: aᵢ in [0, C], w = Σ aᵢyᵢxᵢ."""

import numba
import numpy as np
from benchopt import BaseSolver
from benchopt.stopping_criterion import SufficientProgressCriterion
from scipy import sparse


@numba.njit
def cycles(indptr, indices, values, y, C, a, w, count):
    for _ in range(count):
        for i in range(len(y)):
            margin, square = 0.0, 0.0
            for k in range(indptr[i], indptr[i + 1]):
                margin += values[k] * w[indices[k]]
                square += values[k] * values[k]
            if square == 0.0:
                continue
            new = min(max(a[i] + (1.0 - y[i] * margin) / square, 0.0), C)
            step = (new - a[i]) * y[i]
            if step != 0.0:
                for k in range(indptr[i], indptr[i + 1]):
                    w[indices[k]] += step * values[k]
                a[i] = new


class Solver(BaseSolver):
    name = "cd"
    sampling_strategy = "iteration"
    # benchopt's own patience ends a solver while two or three settings in a row give one model.
    stopping_criterion = SufficientProgressCriterion(eps=1e-10, patience=10, strategy="iteration")

    def set_objective(self, X, y, C):
        self.X, self.y, self.C = sparse.csr_matrix(X, dtype=np.float64), y, C

    def warm_up(self):
        self.run_once(2)

    def run(self, n_iter):
        a, self.w = np.zeros(len(self.y)), np.zeros(self.X.shape[1])
        cycles(self.X.indptr, self.X.indices, self.X.data, self.y, float(self.C), a, self.w, n_iter)

    def get_result(self):
        return {"beta": self.w}
