"""scikit-learn estimators over `Problem` and the driver. Importing this package imports scikit-learn; `import dualgap` does not."""

from __future__ import annotations

from dualgap.estimators.fitting import ConvergenceWarning
from dualgap.estimators.kernel import SVC
from dualgap.estimators.kernel_path import SVCPath, SVCPathCV
from dualgap.estimators.kernel_svr import SVR
from dualgap.estimators.linear import LinearSVC
from dualgap.estimators.linear_path import LinearSVCPath, LinearSVCPathCV, LinearSVRPath, LinearSVRPathCV
from dualgap.estimators.linear_svr import LinearSVR
from dualgap.estimators.model import Fit, fit_of
from dualgap.estimators.nu_svc import NuSVC
from dualgap.estimators.nu_svr import NuSVR
from dualgap.estimators.one_class import OneClassSVM
from dualgap.estimators.warming import warm_up

__all__ = [
    "SVC",
    "SVR",
    "ConvergenceWarning",
    "Fit",
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
    "fit_of",
    "warm_up",
]
