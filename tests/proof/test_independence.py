"""No number of a solver enters a certificate: liars are caught, or certified for what their model truly is."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import dualgap
from conftest import make_data
from dualgap import SDCA, Problem, certify
from dualgap.store import write_store
from dualgap.store.problem import StoreProblem

X, Y = make_data(60, 4, 3)


@dataclass(frozen=True)
class Liar(SDCA):
    """SDCA that hands over something else than it has."""

    name: ClassVar[str] = ""
    lie: str = ""

    def dual(self, problem, state):
        beta = super().dual(problem, state)
        if self.lie == "beta of another problem":
            return np.random.default_rng(0).random(problem.n)
        if self.lie == "beta outside of its box":
            return 1e6 * beta - 3.0
        if self.lie == "NaN":
            return np.full(problem.n, np.nan)
        return beta

    def model(self, problem, state):
        coef, intercept = super().model(problem, state)
        coef = np.zeros(problem.size) if coef is None else coef
        if self.lie == "model":
            return coef + 1.0, intercept
        if self.lie == "NaN":
            return np.full(problem.size, np.nan), intercept
        if self.lie == "changed afterwards":
            self.handed_over.append(coef)
        return coef, intercept

    handed_over: ClassVar[list] = []

    # Sums that a solver could hand over; nothing asks for them.
    def scores(self, problem, state):
        return 5.0 * problem.y

    def combine(self, problem, state, a):
        return np.zeros(problem.size)

    def gap_estimate(self, problem, state):
        return 0.0 if self.lie == "gap estimate" else None

    def epoch(self, problem, state, rng):
        for array in self.handed_over:
            array[:] = 7.0
        self.handed_over.clear()
        super().epoch(problem, state, rng)


LIES = ["", "beta of another problem", "beta outside of its box", "model", "NaN", "gap estimate", "changed afterwards"]


@pytest.mark.parametrize("intercept", ["none", "free"])
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.filterwarnings("ignore::dualgap.ConvergenceWarning")
def test_a_liar_is_certified_for_what_its_model_is(lie, intercept):
    problem = Problem(X, Y, l2=0.05, intercept=intercept)
    best = dualgap.solve(problem, "newton", tol=1e-9).certificate
    result = dualgap.solve(problem, Liar(lie=lie), tol=1e-6, max_epochs=40)
    c = result.certificate
    assert c.primal >= problem.objective(result.coef, result.intercept) * (1 - 1e-12)
    assert c.dual <= best.primal
    assert c.gap >= problem.objective(result.coef, result.intercept) - best.primal
    again = certify(problem, result.coef, result.intercept, dual=result.dual)
    assert c.gap == pytest.approx(again.gap, rel=1e-6, abs=1e-12)
    if lie in ("beta of another problem", "model", "NaN"):
        assert result.status != "converged"


@pytest.mark.parametrize("method", ["dual", "model"])
def test_arrays_of_a_wrong_size_are_refused(method, monkeypatch):
    """Compiled loops over rows would read beyond their end."""
    short = (lambda *_: np.zeros(7)) if method == "dual" else (lambda *_: (np.zeros(7), None))
    monkeypatch.setattr(Liar, method, short)
    with pytest.raises(ValueError, match=rf"{method} returned an array of shape \(7,\)"):
        dualgap.solve(Problem(X, Y, l2=0.05), Liar(), max_epochs=3)


def test_a_callback_cannot_change_the_model():
    def vandal(progress):
        progress.coef[:] = 7.0

    with pytest.raises(ValueError, match="read-only"):
        dualgap.solve(Problem(X, Y, l2=0.05), "sdca", callbacks=[vandal])


def test_a_store_certifies_the_model_that_it_is_given(tmp_path):
    """A solver that changes its w after a pass over the store has foreseen its scores must not have the old ones certified."""
    store = write_store([(X, Y)], tmp_path / "store")
    problem = StoreProblem(store, l2=0.05)
    w = np.ones(4)
    problem.foresee(w)
    problem.combine(problem.c)
    w += 1.0
    np.testing.assert_array_equal(dualgap.proof.scores_of(problem, w), StoreProblem(store, l2=0.05).scores(w))


def test_scores_that_were_kept_belong_to_their_model():
    """A certificate may use scores that were computed before, but of the same w alone."""
    problem = Problem(X, Y, l2=0.05).remembering()
    scores = dualgap.proof.scores_of(problem, np.ones(4))
    with pytest.raises(ValueError, match="read-only"):
        scores[0] = 1e9
    w = np.ones(4)
    w[0] = np.nextafter(1.0, 2.0)
    np.testing.assert_array_equal(dualgap.proof.scores_of(problem, w), problem.scores(w))
    assert problem.replace(l2=0.1).memory.scores is None
