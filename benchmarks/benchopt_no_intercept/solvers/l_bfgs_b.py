"""SciPy's L-BFGS-B on the dual: minimise ½‖Σ aᵢyᵢxᵢ‖² − Σ aᵢ over 0 ≤ a ≤ C."""

import numpy as np
from benchopt import BaseSolver
from benchopt.stopping_criterion import SufficientProgressCriterion
from scipy.optimize import minimize


class Solver(BaseSolver):
    name = "l_bfgs_b"
    sampling_strategy = "iteration"
    # benchopt's own patience ends a solver while two or three settings in a row give one model.
    stopping_criterion = SufficientProgressCriterion(eps=1e-10, patience=10, strategy="iteration")

    def set_objective(self, X, y, C):
        self.X, self.y, self.C = X, y, C

    def run(self, n_iter):
        def value_and_gradient(a):
            w = self.X.T @ (a * self.y)
            return 0.5 * float(w @ w) - float(a.sum()), self.y * (self.X @ w) - 1.0

        a = np.zeros(len(self.y))
        if n_iter > 0:
            options = {"maxiter": n_iter, "maxfun": 20 * n_iter, "ftol": 0.0, "gtol": 0.0}
            a = minimize(value_and_gradient, a, jac=True, method="L-BFGS-B", bounds=[(0.0, self.C)] * len(a), options=options).x
        self.w = np.asarray(self.X.T @ (a * self.y)).ravel()

    def get_result(self):
        return {"beta": self.w}
