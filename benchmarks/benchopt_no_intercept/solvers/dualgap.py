"""dualgap, stopped by its own certificate at the tolerance that benchopt asks for."""

from benchopt import BaseSolver
from benchopt.stopping_criterion import SufficientProgressCriterion

import dualgap as library


class Solver(BaseSolver):
    name = "dualgap"
    sampling_strategy = "tolerance"
    # benchopt's own patience ends a solver while two or three settings in a row give one model.
    stopping_criterion = SufficientProgressCriterion(eps=1e-10, patience=10, strategy="tolerance")
    parameters = {"method": ["auto"]}

    def set_objective(self, X, y, C):
        self.problem = library.Problem(X, y, l2=1.0 / (C * len(y)))

    def warm_up(self):
        library.solve(self.problem, self.method, tol=0.0, max_epochs=2)

    def run(self, tolerance):
        tol = min(max(tolerance, 1e-9), 0.5)
        self.beta = library.solve(self.problem, self.method, tol=tol, max_epochs=100_000, stall=False).coef

    def get_result(self):
        return {"beta": self.beta}
