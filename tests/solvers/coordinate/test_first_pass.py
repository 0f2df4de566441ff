"""The first pass of DCA under a strong penalty: modified SGD, in threads that take parts of the rows."""

import numpy as np
import pytest
from scipy import sparse

import dualgap
from conftest import make_data
from dualgap.core import natural_order
from dualgap.proof import lower_bound
from dualgap.solvers.coordinate import first_pass
from dualgap.solvers.coordinate.ascent import Ascent
from dualgap.solvers.coordinate.dca import DCA
from dualgap.solvers.coordinate.first_pass import pass_in_threads, pays_off
from reference import REFERENCE_LOSSES, Model, modified_sgd_epoch


def strong_problem(rare=None, **options):
    """A strong penalty; `rare` is the share of the positive class, where it is given."""
    X, y = make_data(600, 6, seed=1)
    if rare is not None:
        score = X @ np.arange(1.0, 7.0)
        y = np.where(score > np.quantile(score, 1.0 - rare), 1.0, -1.0)
    return dualgap.Problem(sparse.csr_array(X), y, l2=1.0, **options)


RARE = {"intercept": "free", "rare": 0.05}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("options", [{}, {"intercept": "penalised"}, RARE, {"l1": 0.05}, {"sample_weight": np.arange(600) % 4}])
def test_beta_is_feasible_and_v_belongs_to_it(monkeypatch, threads, options):
    monkeypatch.setattr("dualgap.core.threads.processors", lambda: threads)
    monkeypatch.setattr(first_pass, "rows_per_thread", lambda rows: 100)
    problem = strong_problem(**options)
    assert pays_off(problem)
    ascent = Ascent(problem)
    pass_in_threads(problem, ascent, natural_order(600))
    assert 0.0 <= ascent.beta.min() < ascent.beta.max() <= 1.0
    v = ascent.v.copy()
    ascent.rebuild()
    np.testing.assert_allclose(v, ascent.v, atol=1e-12)


def test_one_thread_makes_the_pass_of_the_paper():
    problem = strong_problem()
    ascent, order = Ascent(problem), np.random.default_rng(3).permutation(600).astype(np.uint32)
    pass_in_threads(problem, ascent, order)
    X, y = problem.X.toarray(), problem.y
    beta, w = modified_sgd_epoch(Model(X, y, np.full(600, 1 / 600), REFERENCE_LOSSES["hinge"], 1.0), order)
    np.testing.assert_allclose(ascent.beta, beta, atol=1e-10)
    np.testing.assert_allclose(ascent.v, w, atol=1e-10)


@pytest.mark.parametrize("threads", [1, 4])
def test_it_comes_nearer_to_the_optimum_than_a_sweep(monkeypatch, threads):
    monkeypatch.setattr("dualgap.core.threads.processors", lambda: threads)
    monkeypatch.setattr(first_pass, "rows_per_thread", lambda rows: 100)
    problem = strong_problem()
    started, swept = Ascent(problem), Ascent(problem)
    order = np.random.default_rng(0).permutation(600).astype(np.uint32)
    pass_in_threads(problem, started, order)
    swept.epoch(order)
    values = [problem.objective(point.v) - lower_bound(problem, point.beta) for point in (started, swept)]
    assert values[0] < values[1]


def test_threads_have_rows_enough_for_a_strong_penalty(monkeypatch):
    """The penalty is as strong for a part of the rows only if the part is large."""
    pieces = []
    monkeypatch.setattr(first_pass, "rows_per_thread", lambda rows: 1)
    monkeypatch.setattr(first_pass, "share_sum", lambda work, count, least, out: pieces.append(count // least))
    X, y = make_data(600, 6, seed=1)
    for l2 in (0.1, 0.2, 1.0):
        problem = dualgap.Problem(X, y, l2=l2)
        pass_in_threads(problem, Ascent(problem), natural_order(600))
        mean_q = float(problem.c @ problem.sqnorms) / (600 * l2)
        assert pieces[-1] * mean_q <= first_pass.LARGEST_Q * 1.01 or pieces[-1] <= 1
    assert pieces == sorted(pieces)
    assert pieces[-1] > 2


@pytest.mark.parametrize("options", [{"intercept": "free"}, {"loss": "logistic"}, {"kernel": "rbf"}])
def test_where_it_is_not_made(options):
    X, y = make_data(600, 6, seed=1)
    assert not pays_off(dualgap.Problem(X, y, l2=1.0, **options))
    assert not pays_off(dualgap.Problem(X, y, l2=1e-4))


def test_with_a_free_intercept_one_of_two_classes_must_be_rare():
    assert pays_off(strong_problem(**RARE))
    assert not pays_off(strong_problem(intercept="free", rare=0.3))
    X, target = make_data(600, 6, seed=1)
    assert not pays_off(dualgap.Problem(X, target, loss="absolute", l2=1.0, intercept="free"))


@pytest.mark.parametrize("threads", [1, 3])
def test_the_pass_nearly_balances_a_rare_class(monkeypatch, threads):
    """What is left of Σ cβy is what keeps b off its centre: BALANCE = 10 makes that a tenth of the rare class for each unit of b."""
    monkeypatch.setattr("dualgap.core.threads.processors", lambda: threads)
    monkeypatch.setattr(first_pass, "rows_per_thread", lambda rows: 100)
    problem = strong_problem(**RARE)
    ascent = Ascent(problem)
    centre = ascent.bias.centre
    pass_in_threads(problem, ascent, np.random.default_rng(0).permutation(600).astype(np.uint32))
    imbalance = float(problem.c @ (problem.y * ascent.beta))
    kappa = min(first_pass.BALANCE / 0.05, first_pass.LARGEST_Q * 600)
    assert ascent.intercept() - centre == pytest.approx(kappa * imbalance, rel=1e-9)
    assert abs(imbalance) < 0.05


@pytest.mark.parametrize("options", [{}, {"intercept": "penalised"}, {"loss": "absolute"}, RARE])
def test_dca_goes_on_from_it(monkeypatch, options):
    made, whole = [], DCA._first_pass
    monkeypatch.setattr(DCA, "_first_pass", lambda *given: made.append(given[1].n) or whole(*given))
    problem = strong_problem(**options)
    result = dualgap.solve(problem, "dca", tol=1e-8, max_epochs=2000)
    assert result.converged
    assert made.count(600) == 1
    again = dualgap.solve(problem, "dca", tol=1e-8, warm_start=result)
    assert again.epochs <= 2
    assert made.count(600) == 1
