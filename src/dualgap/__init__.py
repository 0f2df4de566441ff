"""dualgap: train support vector machines, and prove how good the answer is."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualgap import solvers
    from dualgap.answers import ConvergenceWarning, Result, solve
    from dualgap.core import Hinge, Logistic, ResidualLoss, SmoothHinge, SquaredHinge
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
    from dualgap.problem import Problem, scaling
    from dualgap.proof import Certificate, CertificateError
    from dualgap.run import Progress, Trace, certify
    from dualgap.solvers import Auto, NotSupported, Solver
    from dualgap.solvers.coordinate import ASDCA, DCA, SDCA, Blocks, DualCoordinate
    from dualgap.solvers.gradient import APG, SAGA, SGD, SVRG, DualGradient, Pegasos, Subgradient
    from dualgap.solvers.newton import SSNAL, Newton, NewtonCG, ProxNewton
    from dualgap.solvers.working_set import WorkingSet

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

# The rooms whose doors have these names, in the order in which one needs the other. They are entered when a name is first asked for:
# numba, SciPy and scikit-learn take a second to import.
_ROOMS = (
    "core",
    "problem",
    "proof",
    "solvers.coordinate",
    "solvers.gradient",
    "solvers.newton",
    "solvers.working_set",
    "solvers",
    "run",
    "answers",
    "estimators",
)


def __getattr__(name: str) -> Any:
    if name in __all__ and name != "solvers":
        doors = (import_module(f"dualgap.{room}") for room in _ROOMS)
        value = globals()[name] = next(getattr(door, name) for door in doors if name in door.__all__)
        return value
    if not name.startswith("_"):  # a room, such as dualgap.solvers or dualgap.data
        try:
            return import_module(f"dualgap.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"dualgap.{name}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
