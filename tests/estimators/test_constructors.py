"""Constructors made from fields: parameters in the signature, in the docstring and in get_params."""

import inspect
import re

import numpy as np
import pytest
from sklearn.base import clone

import dualgap
from dualgap.estimators.model import Model
from dualgap.estimators.parameters import estimator

CLASSES = [dualgap.LinearSVC, dualgap.LinearSVR, dualgap.SVC, dualgap.SVR, dualgap.NuSVC, dualgap.NuSVR, dualgap.OneClassSVM]


@pytest.mark.parametrize("kind", CLASSES)
def test_help_describes_every_parameter_and_no_other(kind):
    section = re.search(r"Parameters\n-+\n(.*?)\n\n\S", inspect.cleandoc(kind.__doc__), re.S)[1]
    described = [name for line in section.split("\n") if line[:1].strip() for name in line.split(" : ")[0].split(", ")]
    assert sorted(described) == sorted(inspect.signature(kind).parameters)


@pytest.mark.parametrize("kind", CLASSES)
def test_a_clone_has_the_parameters_and_defaults_are_those_of_the_signature(kind):
    model = kind()
    assert model.get_params() == {name: p.default for name, p in inspect.signature(kind).parameters.items()}
    changed = clone(model.set_params(tol=1e-3, max_iter=7))
    assert (changed.tol, changed.max_iter, kind().tol) == (1e-3, 7, 1e-4)
    assert model != kind()  # two estimators are two, whatever their parameters


def test_penalty_and_loss_may_be_given_by_place_as_in_scikit_learn():
    model = dualgap.LinearSVC("l2", "hinge")
    assert (model.penalty, model.loss) == ("l2", "hinge")
    with pytest.raises(TypeError, match="positional"):
        dualgap.SVC(1.0)


def test_a_subclass_of_a_user_may_have_a_constructor_of_its_own():
    class Mine(dualgap.LinearSVC):
        def __init__(self, C=2.0, extra=1):
            super().__init__(C=C, loss="hinge")
            self.extra = extra

    model = clone(Mine(C=3.0)).fit(np.array([[0.0], [1.0], [2.0]]), [0, 1, 1])
    assert (model.get_params(), model.status_) == ({"C": 3.0, "extra": 1}, "converged")


def test_a_field_without_a_description_is_refused():
    with pytest.raises(AssertionError, match=r"\['odd'\] are not described"):

        @estimator
        class Odd(Model):
            """Nothing.

            Parameters
            ----------
            tol : float
            """

            odd: int = 0
