"""Comparisons: which solvers race on a problem."""

from dualgap.lab import Comparison
from dualgap.lab.compare import solvers_for


def test_solvers_that_support_a_problem():
    able, refused = solvers_for({"loss": "logistic", "l2": 0.1})
    assert "sdca" in able
    assert refused["pegasos"] == "Pegasos is made for the hinge; SGD takes any loss"


def test_the_solvers_that_were_asked_for():
    study = Comparison(solvers=["sdca", "pegasos"], losses=["hinge"]).study()
    assert [race.solvers for race in study.races] == [("sdca", "pegasos")]
