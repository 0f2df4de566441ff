"""LIBLINEAR, through scikit-learn."""

import warnings

from benchopt import BaseSolver
from benchopt.stopping_criterion import SufficientProgressCriterion
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC


class Solver(BaseSolver):
    name = "sklearn"
    sampling_strategy = "iteration"
    # benchopt's own patience ends a solver while two or three settings in a row give one model.
    stopping_criterion = SufficientProgressCriterion(eps=1e-10, patience=10, strategy="iteration")

    def set_objective(self, X, y, C):
        self.X, self.y = X, y
        self.model = LinearSVC(C=C, loss="hinge", fit_intercept=False, tol=1e-12, random_state=0)

    def run(self, n_iter):
        self.model.max_iter = max(n_iter, 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a number of iterations was asked for
            self.model.fit(self.X, self.y)

    def get_result(self):
        return {"beta": self.model.coef_.ravel()}
