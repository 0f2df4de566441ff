"""warm_up: its cases are fits that work, and its argument is checked. The processes are those of `tests/core/test_jit.py`."""

import pytest

import dualgap
from dualgap.estimators import warming


def test_a_case_is_a_fit_that_works_and_says_what_it_is():
    warming.fit_case(0)
    assert str(warming.CASES[0]) == "squared_hinge, small dense X, intercept free"
    assert len(set(warming.CASES)) == len(warming.CASES)


def test_a_number_of_jobs_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="jobs=0 must be a whole number of at least 1"):
        dualgap.warm_up(jobs=0)
