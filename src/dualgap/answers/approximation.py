"""Kernel problems made linear by an explicit choice: Nyström or random Fourier features, for any linear solver.

A feature map z with z(x)·z(x') ≈ k(x, x') turns the kernel problem into a linear one of m columns, which trains in time linear in n. That
is another problem: its certificate proves how well *it* was solved, and says so. `Approximation.certify` certifies the outcome as a
model of the kernel problem itself, for one pass over n × support vectors kernel values.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dualgap.answers.result import Result
from dualgap.answers.solving import solve
from dualgap.core import count, kept, one_of
from dualgap.kernels import FEATURE_BLOCK, METHODS, Fourier, Nystroem
from dualgap.problem import Problem, as_features
from dualgap.proof import Certificate, best_intercept, certify_pair, dual_point
from dualgap.solvers import Solver

__all__ = ["ApproximateResult", "Approximation", "approximate"]


@dataclass(frozen=True)
class Approximation:
    """A kernel problem and the linear one that stands in for it.

    Attributes
    ----------
    kernel_problem : the problem that was given
    problem : the linear problem on the features; same loss, penalty, weights and intercept
    method, features : how many of which features
    """

    kernel_problem: Problem
    problem: Problem
    method: str
    features: int
    transform: Any

    def describe(self) -> str:
        """Say what the certificate is for."""
        return f"the problem on {self.features} {METHODS[self.method]} features, not the kernel problem"

    def solve(self, solver: str | Solver = "auto", tol: float = 1e-4, **options: Any) -> ApproximateResult:
        """Train on the features; arguments as of `dualgap.solve`."""
        with kept() as ctrl_c:
            found = solve(self.problem, solver, tol, **options)
            certificate = replace(found.certificate, source=f"{found.certificate.source}; for {self.describe()}")
            status = "interrupted" if ctrl_c.take() else found.status
            return ApproximateResult.of(found, status=status, certificate=certificate, approximation=self, result=found)

    def certify(self, result: Result) -> Certificate:
        """Certify, for the kernel problem itself, the kernel model that belongs to the dual variables found."""
        problem = self.kernel_problem
        point = dual_point(problem, result.dual)
        assert point.coef is not None
        assert point.stored is not None
        return certify_pair(problem, point.coef, best_intercept(problem, point.stored), point, "approximation").certificate


@dataclass(frozen=True, kw_only=True, repr=False)
class ApproximateResult(Result):
    """A model on features, for samples as the kernel problem has them; its certificate names the problem that it is for.

    Attributes
    ----------
    approximation : the kernel problem and the linear one
    result : the Result on the features
    Further attributes as of `dualgap.Result`, on the features.
    """

    approximation: Approximation = field(repr=False)
    result: Result = field(repr=False)

    def decision(self, X: object) -> np.ndarray:
        """Scores of new samples, positive for the second class."""
        matrix = as_features(X, columns=self.approximation.kernel_problem.d)
        step = max(1, FEATURE_BLOCK // self.approximation.features)
        parts = [self.result.decision(self.approximation.transform(matrix[i : i + step])) for i in range(0, matrix.shape[0], step)]
        return np.concatenate(parts)

    def predict(self, X: object) -> np.ndarray:
        """Labels of new samples."""
        return self.approximation.kernel_problem.classes[(self.decision(X) > 0).astype(int)]


def approximate(problem: Problem, method: str = "nystroem", features: int = 500, seed: int = 0) -> Approximation:
    """Make the linear problem on features whose inner products approximate the kernel.

    Parameters
    ----------
    problem : Problem with a kernel
    method : {"nystroem", "fourier"}
        Nyström features come from `features` rows of the data and suit every kernel; random Fourier features know nothing of the data
        and suit the RBF kernel. For the same number Nyström features are nearly always the closer ones.
    features : int
        Columns of the linear problem.
    seed : int

    Examples
    --------
    >>> import dualgap
    >>> from dualgap.answers.approximation import approximate
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(2000, noise=0.2, random_state=0)
    >>> problem = dualgap.Problem(X, y, l2=1e-3, kernel="rbf", gamma=1.0, intercept="free")
    >>> result = approximate(problem, "nystroem", features=50).solve(tol=1e-4)
    >>> result.certificate.source
    'solver; for the problem on 50 Nyström features, not the kernel problem'
    >>> result.approximation.certify(result).relative_gap < 0.1
    True
    """
    if problem.kernel is None or problem.kernel.name == "precomputed":
        raise ValueError(
            "approximate needs a problem with a kernel that is a function of samples; this one has none to approximate"
        )
    one_of("method", method, sorted(METHODS))
    features = count("features", features)
    rng = np.random.default_rng(seed)
    transform = (Nystroem if method == "nystroem" else Fourier)(problem.kernel, problem.X, features, rng)
    Z = transform(problem.X)
    linear = problem.replace(X=np.ascontiguousarray(Z), d=Z.shape[1], kernel=None)
    return Approximation(problem, linear, method, Z.shape[1], transform)
