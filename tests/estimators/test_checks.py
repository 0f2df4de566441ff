"""scikit-learn's own checks on every estimator."""

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from dualgap import SVC, LinearSVC

# Weight 2 is a row twice up to the tolerance of the two fits; the check compares to seven digits.
EXACT = {"tol": 0, "max_iter": 20_000}
COMPARED_CLOSELY = {"check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"}


# Some checks train on data whose mean is a hundred times its spread, and do not mind how far a fit comes.
@pytest.mark.filterwarnings("ignore::dualgap.estimators.ConvergenceWarning")
@parametrize_with_checks([LinearSVC(), LinearSVC(multi_class="crammer_singer"), SVC(), SVC(kernel="precomputed")])
def test_sklearn_checks(estimator, check):
    if check.func.__name__ in COMPARED_CLOSELY:
        estimator = clone(estimator).set_params(**EXACT)
    check(estimator)
