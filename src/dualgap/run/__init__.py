"""Running a solver: the driver loop, evaluation, stopping rules, the trace, `Result`, and `certify` for models from elsewhere.

The arithmetic of a method belongs in `solvers`; what scikit-learn expects belongs in `estimators`.
"""

from __future__ import annotations

from dualgap.run import result
from dualgap.run.approximation import ApproximateResult, Approximation, approximate
from dualgap.run.certifying import certify
from dualgap.run.driver import Progress, drive, minimise, solve
from dualgap.run.forgetting import Forgettable, Receipt, row_numbers
from dualgap.run.leave_one_out import LeaveOneOut
from dualgap.run.result import ConvergenceWarning, Result, Status, Trace
from dualgap.run.stepper import Best, Evaluation, Stepper

__all__ = [
    "ApproximateResult",
    "Approximation",
    "Best",
    "ConvergenceWarning",
    "Evaluation",
    "Forgettable",
    "LeaveOneOut",
    "Progress",
    "Receipt",
    "Result",
    "Status",
    "Stepper",
    "Trace",
    "approximate",
    "certify",
    "drive",
    "minimise",
    "result",
    "row_numbers",
    "solve",
]
