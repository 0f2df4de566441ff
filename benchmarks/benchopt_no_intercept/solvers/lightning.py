"""sklearn-contrib-lightning, if it is installed."""

from importlib.util import find_spec

from benchopt import BaseSolver
from benchopt.stopping_criterion import SufficientProgressCriterion


class Solver(BaseSolver):
    name = "lightning"
    sampling_strategy = "iteration"
    # benchopt's own patience ends a solver while two or three settings in a row give one model.
    stopping_criterion = SufficientProgressCriterion(eps=1e-10, patience=10, strategy="iteration")
    requirements = ["pip::sklearn-contrib-lightning"]

    def skip(self, X, y, C):
        return (True, "sklearn-contrib-lightning is not installed") if find_spec("lightning") is None else (False, None)

    def set_objective(self, X, y, C):
        from lightning.classification import LinearSVC

        self.X, self.y = X, y
        self.model = LinearSVC(C=C, loss="hinge", criterion="accuracy", tol=1e-15, random_state=0)

    def run(self, n_iter):
        self.model.max_iter = max(n_iter, 1)
        self.model.fit(self.X, self.y)

    def get_result(self):
        return {"beta": self.model.coef_.ravel()}
