"""dualgap: train support vector machines, and prove how good the answer is."""

from __future__ import annotations

from dualgap.certificate import Certificate, CertificateError, certify
from dualgap.losses import Hinge, Logistic, SmoothHinge, SquaredHinge
from dualgap.problem import Problem
from dualgap.result import ConvergenceWarning, Result, Trace
from dualgap.solve import Progress, solve
from dualgap.solvers import SDCA, NotSupported, Pegasos, Solver

__version__ = "0.1.0"

__all__ = [
    "SDCA",
    "Certificate",
    "CertificateError",
    "ConvergenceWarning",
    "Hinge",
    "Logistic",
    "NotSupported",
    "Pegasos",
    "Problem",
    "Progress",
    "Result",
    "SmoothHinge",
    "Solver",
    "SquaredHinge",
    "Trace",
    "certify",
    "solve",
]
