"""C Σ max(0, 1 − yᵢ xᵢ·w) + ½‖w‖², without an intercept."""

import numpy as np
from benchopt import BaseObjective


class Objective(BaseObjective):
    name = "SVM Binary Classification (no intercept)"
    min_benchopt_version = "1.10"
    parameters = {"C": [0.01, 1.0]}

    def set_data(self, X, y):
        self.X, self.y = X, np.asarray(y, dtype=np.float64)

    def get_objective(self):
        return {"X": self.X, "y": self.y, "C": self.C}

    def evaluate_result(self, beta):
        hinge = np.maximum(1.0 - self.y * (self.X @ beta), 0.0)
        return {"value": self.C * float(hinge.sum()) + 0.5 * float(beta @ beta)}

    def get_one_result(self):
        return {"beta": np.zeros(self.X.shape[1])}
