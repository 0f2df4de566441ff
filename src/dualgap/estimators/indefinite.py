"""Kernels that are not positive semidefinite in SVC: the semidefinite kernel trained on in their place, or a model without certificate."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualgap.core import number, one_of
from dualgap.estimators.fitting import ConvergenceWarning
from dualgap.kernels import (
    WHOLE_SPECTRUM,
    Kernel,
    SpectrumClip,
    SpectrumShift,
    extreme_eigenvalues,
    is_semidefinite,
    rounding_of,
)
from dualgap.problem import Problem
from dualgap.solvers.working_set import StationaryPoint, stationary_point

__all__ = ["NO_NEW_ROWS", "IndefiniteKernel", "Treated", "stationary_points", "treat"]

TREATMENTS: dict[str, type[SpectrumClip] | type[SpectrumShift]] = {"clip": SpectrumClip, "shift": SpectrumShift}
NO_NEW_ROWS = (
    "indefinite='shift' changes the kernel of the training rows alone, so that the exact model's scores of other rows have no bound; "
    "indefinite='clip' has a kernel of all rows"
)


@dataclass(frozen=True)
class IndefiniteKernel:
    """What a fitted SVC says of a kernel that is not positive semidefinite on the training rows.

    Attributes
    ----------
    treatment : "clip", "shift" or "uncertified"
    lowest, highest : the extreme eigenvalues of the kernel matrix (beyond 2000 rows, with "uncertified", bounds from inside)
    change : ‖K̃ − K‖ / ‖K‖ in the Frobenius norm, K̃ the matrix trained on; 0 for "uncertified"

    Examples
    --------
    >>> from dualgap import SVC
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SVC(kernel="sigmoid", gamma=0.01, indefinite="clip").fit(X, y)
    >>> model.indefinite_.treatment, model.indefinite_.lowest < 0, model.status_
    ('clip', True, 'converged')
    """

    treatment: str
    lowest: float
    highest: float
    change: float

    def __str__(self) -> str:
        kernel = f"the kernel matrix is not positive semidefinite (eigenvalues from {self.lowest:.3g} to {self.highest:.3g})"
        if self.treatment == "uncertified":
            return f"{kernel}; the model is a stationary point without a certificate"
        how = "its negative eigenvalues set to 0" if self.treatment == "clip" else f"{-self.lowest:.3g} added to its diagonal"
        return f"{kernel}; trained and certified with {how}, which changes it by {100 * self.change:.2g} % in the Frobenius norm"


@dataclass(frozen=True)
class Treated:
    """An indefinite kernel in a fit: what the model says of it, the matrix to train on, and the spectrum unless uncertified."""

    said: IndefiniteKernel
    matrix: np.ndarray
    spectrum: SpectrumClip | SpectrumShift | None = None

    @property
    def certified(self) -> bool:
        """Whether the matrix trained on is positive semidefinite."""
        return self.spectrum is not None

    @property
    def clipped(self) -> SpectrumClip | None:
        """The spectrum, where the matrix trained on is that of a kernel of all rows."""
        return self.spectrum if isinstance(self.spectrum, SpectrumClip) else None


def treat(how: str, kernel: Kernel, X: Any, is_matrix: bool) -> Treated | None:
    """Return what to train on where the kernel is not positive semidefinite on the rows X; None where it is, or is to be refused.

    `is_matrix` says that X is the kernel matrix itself.
    """
    one_of("indefinite", how, ("error", "clip", "shift", "uncertified"))
    if how == "error" or (kernel.semidefinite and not is_matrix):
        return None
    matrix = _checked_matrix(X) if is_matrix else kernel(X, X)
    rounding = rounding_of(matrix)
    if how == "uncertified":
        n = len(matrix)
        low, high = extreme_eigenvalues(matrix if n <= WHOLE_SPECTRUM else None, n, matrix.dot)
        return None if is_semidefinite(low, high, rounding) else Treated(IndefiniteKernel(how, low, high, 0.0), matrix)
    spectrum = TREATMENTS[how](matrix, rounding)
    if spectrum.is_semidefinite(rounding):
        return None
    if not spectrum.matrix.any():
        raise ValueError(
            f"the kernel matrix has no positive eigenvalue (they go from {spectrum.lowest:.3g} to {spectrum.highest:.3g}): "
            "indefinite='clip' leaves nothing of it to train on; use another kernel or other parameters"
        )
    return Treated(IndefiniteKernel(how, spectrum.lowest, spectrum.highest, spectrum.change), spectrum.matrix, spectrum)


def _checked_matrix(X: np.ndarray) -> np.ndarray:
    if X.shape[0] != X.shape[1]:
        raise ValueError(f"the kernel matrix must be square, one row and one column a sample; it has shape {X.shape}")
    if not np.allclose(X, X.T, rtol=1e-6, atol=1e-8 * np.abs(X).max()):
        raise ValueError("the kernel matrix is not symmetric")
    return X


def stationary_points(name: str, problems: list[Problem], tol: float, max_epochs: int) -> list[StationaryPoint]:
    """Return a stationary point for each problem; warn where the KKT conditions are not satisfied to 2·tol."""
    number("tol", tol, "[0, 1]")
    points = [stationary_point(problem, tol, max_epochs) for problem in problems]
    late = [point for point in points if point.violation > 2.0 * tol]
    if late and tol > 0.0:
        worst = max(point.violation for point in late)
        warnings.warn(
            f"{name} did not converge on {len(late)} of {len(points)} problems: a KKT condition is violated by {worst:.1e}, "
            f"more than 2·tol={2.0 * tol:.1e}, after {max(point.epochs for point in late)} epochs. What to try: raise max_iter or tol; "
            "use a smaller C.",
            ConvergenceWarning,
            stacklevel=5,
        )
    return points
