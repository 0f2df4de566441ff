"""dualgap: train support vector machines, and prove how good the answer is."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dualgap import solvers
from dualgap.answers import ConvergenceWarning, Result, solve
from dualgap.core import Hinge, Logistic, ResidualLoss, SmoothHinge, SquaredHinge
from dualgap.problem import Problem, scaling
from dualgap.proof import Certificate, CertificateError
from dualgap.run import Progress, Trace, certify
from dualgap.solvers import Auto, NotSupported, Solver
from dualgap.solvers.coordinate import ASDCA, DCA, SDCA, Blocks, DualCoordinate
from dualgap.solvers.gradient import APG, SAGA, SGD, SVRG, DualGradient, Pegasos, Subgradient
from dualgap.solvers.newton import SSNAL, Newton, NewtonCG, ProxNewton
from dualgap.solvers.working_set import WorkingSet

if TYPE_CHECKING:
    from dualgap.estimators import (
        SVC,
        SVR,
        LinearSVC,
        LinearSVCPath,
        LinearSVCPathCV,
        LinearSVR,
        LinearSVRPath,
        LinearSVRPathCV,
        NuSVC,
        NuSVR,
        OneClassSVM,
        SVCPath,
        SVCPathCV,
        warm_up,
    )

__version__ = "0.1.0"

__all__ = [
    "APG",
    "ASDCA",
    "DCA",
    "SAGA",
    "SDCA",
    "SGD",
    "SSNAL",
    "SVC",
    "SVR",
    "SVRG",
    "Auto",
    "Blocks",
    "Certificate",
    "CertificateError",
    "ConvergenceWarning",
    "DualCoordinate",
    "DualGradient",
    "Hinge",
    "LinearSVC",
    "LinearSVCPath",
    "LinearSVCPathCV",
    "LinearSVR",
    "LinearSVRPath",
    "LinearSVRPathCV",
    "Logistic",
    "Newton",
    "NewtonCG",
    "NotSupported",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "Pegasos",
    "Problem",
    "Progress",
    "ProxNewton",
    "ResidualLoss",
    "Result",
    "SVCPath",
    "SVCPathCV",
    "SmoothHinge",
    "Solver",
    "SquaredHinge",
    "Subgradient",
    "Trace",
    "WorkingSet",
    "certify",
    "scaling",
    "solve",
    "solvers",
    "warm_up",
]

# scikit-learn takes longer to import than all the rest, so that the estimators come when they are first asked for.
_ESTIMATORS = {
    "SVC",
    "SVR",
    "LinearSVC",
    "LinearSVCPath",
    "LinearSVCPathCV",
    "LinearSVR",
    "LinearSVRPath",
    "LinearSVRPathCV",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "SVCPath",
    "SVCPathCV",
    "warm_up",
}


def __getattr__(name: str) -> Any:
    if name == "dask":  # its estimators import Dask where they need it
        return import_module("dualgap.dask")
    if name not in _ESTIMATORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module("dualgap.estimators"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
