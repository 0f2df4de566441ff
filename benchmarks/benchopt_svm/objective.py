"""The l2-penalised linear classifier without an intercept, as a benchopt objective."""

from benchopt import BaseObjective

import dualgap


class Objective(BaseObjective):
    """Σ cᵢ φ(yᵢ xᵢ·w) + (l2/2)·‖w‖², and the certificate of each model."""

    name = "Linear SVM"
    min_benchopt_version = "1.6"
    parameters = {"loss": ["hinge"], "l2": [1e-4, "1/n"]}

    def set_data(self, X, y):
        self.X, self.y = X, y
        self.strength = 1.0 / len(y) if self.l2 == "1/n" else self.l2
        self.problem = dualgap.Problem(X, y, loss=self.loss, l2=self.strength)

    def get_objective(self):
        return {"X": self.X, "y": self.y, "loss": self.loss, "l2": self.strength}

    def evaluate_result(self, coef):
        certificate = dualgap.certify(self.problem, coef)
        return {"value": certificate.primal, "certified_gap": certificate.relative_gap}

    def get_one_result(self):
        import numpy as np

        return {"coef": np.zeros(self.problem.d)}
