"""Running a solver: the driver loop, evaluation, stopping rules, the trace, `Result`, and `certify` for models from elsewhere.

The arithmetic of a method belongs in `solvers`; what scikit-learn expects belongs in `estimators`.
"""

from __future__ import annotations

from dualgap.run.approximation import ApproximateResult, Approximation, approximate
from dualgap.run.certifying import certify, certify_with_dual
from dualgap.run.deciding import Deciding, decide_rows
from dualgap.run.driver import Progress, Trained, drive
from dualgap.run.forgetting import Forgettable, Receipt, row_numbers
from dualgap.run.leave_one_out import LeaveOneOut
from dualgap.run.nu import minimise_nu
from dualgap.run.nu_candidate import NuResult
from dualgap.run.nu_regression import minimise_nu_regression
from dualgap.run.result import Result
from dualgap.run.solving import ConvergenceWarning, minimise, solve, strong_penalty
from dualgap.run.stepper import Best, Evaluation, Stepper
from dualgap.run.trace import SUCCESSES, Status, Trace

__all__ = [
    "SUCCESSES",
    "ApproximateResult",
    "Approximation",
    "Best",
    "ConvergenceWarning",
    "Deciding",
    "Evaluation",
    "Forgettable",
    "LeaveOneOut",
    "NuResult",
    "Progress",
    "Receipt",
    "Result",
    "Status",
    "Stepper",
    "Trace",
    "Trained",
    "approximate",
    "certify",
    "certify_with_dual",
    "decide_rows",
    "drive",
    "minimise",
    "minimise_nu",
    "minimise_nu_regression",
    "row_numbers",
    "solve",
    "strong_penalty",
]
