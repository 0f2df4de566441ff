"""Data as a study prepares them, and the problems made of them."""

from dualgap.lab.prepare import prepare
from dualgap.lab.run_one import make_problem
from dualgap.lab.study import DataSpec


def test_prepared_data_say_what_was_done():
    data = prepare(DataSpec(id="bc", name="breast-cancer"))
    assert (data.X.shape, data.X_test.shape) == ((379, 30), (190, 30))
    assert data.notes[-1] == "standardised: each feature has mean 0 and variance 1 on the training rows"
    assert make_problem(data, {"sum_c": 3.79}).l2 == 0.01
