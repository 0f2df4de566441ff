"""The algorithms as printed: where the print is right they find the optimum, and where it is wrong they do not."""

import numpy as np
import pytest

import dualgap
from conftest import make_data
from dualgap.lab.plan import LINEUP
from dualgap.lab.studies import algorithms
from dualgap.run import minimise
from dualgap.solvers import REGISTRY

X, Y = make_data(120, 5, 3)


def run(solver, problem, epochs):
    seen = []
    minimise(problem, solver, tol=0.0, max_epochs=epochs, callbacks=[seen.append], stall=False)
    return seen[-1].certificate.primal, dualgap.solve(problem, tol=1e-8, max_epochs=20_000).certificate.primal


def problem(c=1.0, **options):
    """With c of the sum of losses: l2 = c/n."""
    return dualgap.Problem(X, Y, l2=c / len(Y), **options)


def test_the_coordinate_step_is_right_for_c_equal_to_one_alone():
    for c, factor in ((1.0, 1.0), (0.1, None), (10.0, None)):
        found, best = run(LINEUP["printed_coordinate"](misprint="diagonal"), problem(c), 300)
        if factor:
            assert found == pytest.approx(best, rel=1e-3)
        else:
            assert found > 1.02 * best, c


def test_the_coordinate_step_with_the_other_sign_does_nothing_right():
    found, best = run(LINEUP["printed_coordinate"](misprint="sign"), problem(), 100)
    assert found > 1.5 * best


@pytest.mark.parametrize("misprint", ["one-sided", "label-outside"])
def test_the_misprinted_sdca_steps_miss_the_optimum(misprint):
    found, best = run(LINEUP["printed_sdca"](misprint=misprint), problem(), 100)
    assert found > 1.1 * best


def test_the_label_outside_is_right_for_one_class():
    """With y = 1 for every row but one, only that row's step is wrong; the formulas agree on the others."""
    solver = LINEUP["printed_sdca"](misprint="label-outside")
    p = problem()
    state = solver.start(p, np.random.default_rng(0))
    solver.epoch(p, state, np.random.default_rng(0))
    beta = state.alpha * p.y
    assert (beta >= 0).all()
    assert (beta <= 1).all()
    np.testing.assert_allclose(state.w, p.X.T @ state.alpha / (p.l2 * p.n), atol=1e-12)


def test_the_misprinted_pegasos_step_stays_short():
    found, best = run(LINEUP["printed_pegasos"](batch_size=20, misprint="all"), problem(5.0), 100)
    right, _ = run(dualgap.Pegasos(batch_size=20), problem(5.0), 100)
    assert found > 1.03 * best
    assert found - best > 3 * (right - best)


NET = {"loss": "smooth_hinge", "delta": 1.0, "l1": 0.02, "intercept": "free"}


def test_the_texts_sgd_comes_near_with_short_steps():
    found, best = run(LINEUP["text_sgd"](rate=0.05, batch_size=60), problem(2.0, **NET), 2000)
    assert best <= found < 1.05 * best
    assert run(LINEUP["text_sgd"](rate=1.5), problem(2.0, **NET), 200)[0] > found


def test_saga_and_svrg_as_printed_minimise_something_else():
    """The penalty divided by n, or given by its value: with a strong penalty the model is far from the optimum."""
    for name, epochs in (("printed_saga", 60), ("printed_svrg", 300)):
        found, best = run(LINEUP[name](rate=0.02, misprint="all"), problem(20.0, **NET), epochs)
        assert found > 1.1 * best, name


@pytest.mark.parametrize(
    ("solver", "epochs", "within"),
    [
        (LINEUP["printed_sdca"](), 300, 1e-3),
        (LINEUP["printed_coordinate"](), 300, 1e-3),
        (LINEUP["printed_pegasos"](batch_size=20), 300, 0.05),
        (LINEUP["printed_saga"](rate=0.002), 400, 0.05),
        (LINEUP["printed_svrg"](rate=0.002), 5000, 0.05),
    ],
)
def test_without_a_misprint_the_same_code_finds_the_optimum(solver, epochs, within):
    """For c other than 1, too. With sign(w) in place of the prox a method with a constant rate comes near and no nearer."""
    found, best = run(solver, problem(10.0, **(NET if hasattr(solver, "rate") else {})), epochs)
    assert best * (1 - 1e-7) <= found < (1 + within) * best


def test_they_are_for_the_studies_alone():
    assert not set(algorithms()) & set(REGISTRY)
    assert not set(algorithms()) & set(dualgap.solvers())
