"""scikit-learn estimators over `Problem` and the driver. Importing this package imports scikit-learn; `import dualgap` does not."""

from dualgap.estimators.common import ConvergenceWarning
from dualgap.estimators.kernel import SVC
from dualgap.estimators.linear import LinearSVC
from dualgap.estimators.path import LinearSVCPath
from dualgap.estimators.path_cv import LinearSVCPathCV

__all__ = ["SVC", "ConvergenceWarning", "LinearSVC", "LinearSVCPath", "LinearSVCPathCV"]
