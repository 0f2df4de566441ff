"""SDCA against its naive twin: orders, outputs, the first epoch; then that it solves every loss × penalty × intercept."""

import itertools

import numpy as np
import pytest
from scipy import sparse

import dualgap
from conftest import make_data
from dualgap import SDCA, NotSupported, Problem
from dualgap.core.order import draw, natural_order, shuffle
from reference import REFERENCE_LOSSES, Model, dual_value, loss_of, modified_sgd_epoch, sdca_epoch, w_of_beta

N = 25
X, Y = make_data(N, 3, 7)
LOSSES = list(REFERENCE_LOSSES)
PENALTIES = {"l2": (0.0, 0.05), "elastic_net": (0.03, 0.05)}
INTERCEPTS = ["none", "penalised", "free"]


def twins(loss="hinge", penalty="l2", intercept="none", weights=None, **options):
    l1, l2 = PENALTIES[penalty]
    delta = 0.5 if loss == "smooth_hinge" else None
    problem = Problem(X, Y, loss_of(loss), delta, l2, l1, weights, intercept, intercept_scale=1.5, **options)
    c = np.full(N, 1 / N) if weights is None else weights / weights.sum()
    return problem, Model(X, Y, c, REFERENCE_LOSSES[loss], l2, l1, intercept, 1.5)


# of the steps: those of the logistic loss are `ascent_step`, which is near the exact one
ERROR = {loss: 1e-4 if loss == "logistic" else 1e-9 for loss in LOSSES}


def epochs_of(problem, solver, count, seed=0):
    """The solver's β and the order used, after each epoch."""
    rng = np.random.default_rng(seed)
    state = solver.start(problem, rng)
    for _ in range(count):
        solver.epoch(problem, state, rng)
        yield solver.dual(problem, state), state.order.astype(int), state


# ---------------------------------------------------------------------------------------------------------------- the epochs


@pytest.mark.parametrize(("loss", "penalty", "intercept"), list(itertools.product(LOSSES, PENALTIES, INTERCEPTS)), ids=str)
def test_epochs_equal_the_naive_twin(loss, penalty, intercept):
    weights = np.random.default_rng(1).integers(0, 4, N).astype(float) + (np.arange(N) < 2)
    problem, model = twins(loss, penalty, intercept, weights)
    beta = np.zeros(N)
    centre = SDCA().start(problem, np.random.default_rng(0)).ascent.bias.centre  # see test_bias.py
    for found, order, state in epochs_of(problem, SDCA(), 3):
        scale = None if intercept == "none" else state.ascent.bias.scale
        sdca_epoch(model, beta, order, centre, scale)
        np.testing.assert_allclose(found, beta, rtol=ERROR[loss], atol=1e-11)
        if intercept == "free":  # the centre of the proximal-point loop moves to the b of the epoch's end
            centre += scale**2 * np.sum(model.c * beta * Y) / model.l2
            assert state.ascent.bias.centre == pytest.approx(centre, rel=ERROR[loss], abs=1e-11)


@pytest.mark.parametrize("loss", LOSSES)
def test_cyclic_order_is_as_given(loss):
    problem, model = twins(loss)
    beta = np.zeros(N)
    for found, _, _ in epochs_of(problem, SDCA(order="cyclic"), 4):
        sdca_epoch(model, beta, range(N))
        np.testing.assert_allclose(found, beta, rtol=ERROR[loss], atol=1e-12)


def test_every_step_ascends():
    """The dual value never falls, from step to step, with an l1 part too."""
    for loss, penalty in itertools.product(LOSSES, PENALTIES):
        _, model = twins(loss, penalty)
        values = [dual_value(model, beta) for beta in sdca_epoch(model, np.zeros(N), [*range(N), *range(N)])]
        assert (np.diff(values) >= -1e-15).all()


def test_orders():
    permuted = [order for _, order, _ in epochs_of(twins()[0], SDCA(), 6)]
    assert all(sorted(order) == list(range(N)) for order in permuted)
    assert len({tuple(order) for order in permuted}) == 6  # a fresh one each epoch
    drawn = np.concatenate([order for _, order, _ in epochs_of(twins()[0], SDCA(order="random"), 400)])
    counts = np.bincount(drawn, minlength=N)
    assert any(len(set(drawn[k : k + N])) < N for k in range(0, 400 * N, N))
    assert np.sum((counts - 400) ** 2 / 400) < 52.6  # chi-square, 24 degrees of freedom, p = 0.0007


def test_shuffles_are_uniform():
    """Each of the 24 orders of four things, about equally often."""
    rng = np.random.default_rng(0)
    seen = {}
    for _ in range(4800):
        order = natural_order(4)
        shuffle(order, np.int64(rng.integers(1, 2**62)))
        seen[tuple(order)] = seen.get(tuple(order), 0) + 1
    assert len(seen) == 24
    assert sum((count - 200) ** 2 / 200 for count in seen.values()) < 52  # 23 degrees of freedom


def test_draws_stay_in_range():
    order = natural_order(1000)
    for n in (1, 2, 7):
        draw(order, n, np.int64(12345))
        assert set(order.tolist()) == set(range(n))


# --------------------------------------------------------------------------------------------------------------- the outputs


def true_iterates(model, orders):
    """β before every step, and after the last, as a list over all epochs: entry t is the iterate after t steps."""
    beta, iterates = np.zeros(N), []
    for order in orders:
        iterates += sdca_epoch(model, beta, order)
    return [*iterates, beta]


@pytest.mark.parametrize("order", ["permutation", "random", "cyclic"])
def test_average_is_that_of_a_list(order):
    problem, model = twins("smooth_hinge", "elastic_net")
    found, orders = [], []
    for beta, rows, _ in epochs_of(problem, SDCA(order=order, output="average"), 16):
        found.append(beta)
        orders.append(rows)
    iterates = true_iterates(model, orders)
    for epochs in range(1, 17):
        since = epochs // 2
        expected = np.mean(iterates[since * N : epochs * N], axis=0)  # before each step since T₀
        np.testing.assert_allclose(found[epochs - 1], expected, rtol=1e-10, atol=1e-12)


def test_random_is_one_of_the_last_half():
    """At T = 1 … 8 epochs: the drawn β is an iterate since T₀, and every part of that stretch is drawn as often as it is long."""
    problem, model = twins("squared_hinge")
    solver = SDCA(order="cyclic", output="random")  # cyclic: the same iterates in every run
    iterates = np.array(true_iterates(model, [range(N)] * 8))
    places = {epochs: [] for epochs in range(1, 9)}
    for seed in range(250):
        for epochs, (beta, _, _) in enumerate(epochs_of(problem, solver, 8, seed), start=1):
            distance = np.abs(iterates - beta).max(axis=1)
            place = int(np.argmin(distance))
            assert distance[place] < 1e-9
            assert epochs // 2 * N <= place < epochs * N
            places[epochs].append(place)
    for epochs, found in places.items():
        first, last = epochs // 2 * N, epochs * N
        quarters = np.histogram(found, bins=np.linspace(first, last, 5))[0]
        assert np.sum((quarters - 62.5) ** 2 / 62.5) < 20, f"T = {epochs}: {quarters}"  # 3 degrees of freedom, p = 0.0002


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("output", ["average", "random"])
def test_outputs_converge(output, intercept):
    problem, _ = twins("smooth_hinge", "l2", intercept)
    result = dualgap.solve(problem, SDCA(output=output), tol=1e-4, max_epochs=3000)
    assert result.status == "converged"


def test_a_drawn_iterate_does_not_change_the_path():
    """output='random' looks at the iterates and leaves them alone, also where a free intercept moves between epochs."""
    problem, _ = twins("hinge", "l2", "free")
    solver = SDCA(order="cyclic", output="random")
    rng = np.random.default_rng(0)
    state = solver.start(problem, rng)
    for expected, _, other in epochs_of(problem, SDCA(order="cyclic"), 6):
        solver.epoch(problem, state, rng)
        np.testing.assert_array_equal(state.ascent.beta, expected)
        assert state.ascent.bias.centre == other.ascent.bias.centre


# ----------------------------------------------------------------------------------------------------------- the first epoch


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("order", ["permutation", "cyclic", "random"])
def test_first_epoch_of_sgd(loss, order):
    problem, model = twins(loss)
    found = list(epochs_of(problem, SDCA(order=order, first_epoch="sgd"), 2))
    rows = found[0][1] if order != "cyclic" else np.arange(N)
    assert sorted(rows) == list(range(N))  # every row once, even where later epochs draw
    beta, w = modified_sgd_epoch(model, rows)
    np.testing.assert_allclose(found[0][0], beta, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(w_of_beta(model, beta), w, rtol=1e-12)
    sdca_epoch(model, beta, found[1][1])  # and SDCA goes on from there
    np.testing.assert_allclose(found[1][0], beta, rtol=ERROR[loss], atol=1e-11)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("penalty", list(PENALTIES))
def test_first_epoch_of_sgd_leads_to_the_same_optimum(penalty, intercept):
    weights = np.random.default_rng(1).integers(0, 4, N).astype(float) + (np.arange(N) < 2)
    problem, _ = twins("smooth_hinge", penalty, intercept, weights)
    plain = dualgap.solve(problem, "sdca", tol=1e-8, max_epochs=3000)
    result = dualgap.solve(problem, SDCA(first_epoch="sgd"), tol=1e-8, max_epochs=3000)
    assert result.status == "converged"
    assert result.certificate.primal == pytest.approx(plain.certificate.primal, rel=2e-8)


def test_a_warm_start_skips_the_first_epoch_of_sgd():
    problem, _ = twins()
    beta = dualgap.solve(problem, "sdca", tol=1e-8, max_epochs=2000).dual
    result = dualgap.solve(problem, SDCA(first_epoch="sgd"), tol=0, max_epochs=1, warm_start=(None, None, beta))
    assert result.certificate.relative_gap < 1e-6


# ---------------------------------------------------------------------------------------------------------------- what it takes


def test_it_refuses_l1_alone():
    with pytest.raises(NotSupported, match=r"sdca cannot solve Problem\(.*dual coordinate steps need l2 > 0"):
        dualgap.solve(Problem(X, Y, l2=0, l1=0.1), "sdca")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"order": "cyclical"}, r"order='cyclical' is unknown; choose one of \['permutation', 'random', 'cyclic'\]"),
        ({"output": "best"}, "output='best' is unknown"),
        ({"first_epoch": "pegasos"}, "first_epoch='pegasos' is unknown"),
    ],
)
def test_parameters_that_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        SDCA(**options)


def test_label():
    assert SDCA().label() == "sdca"
    assert SDCA(order="cyclic", output="average").label() == "sdca(order='cyclic', output='average')"


def test_empty_rows_and_zero_weights_change_nothing():
    """q = 0 must not be divided by, and a weight of 0 moves nothing, whatever its row holds."""
    x = np.vstack([X, np.zeros((2, 3)), 1e3 * np.ones((1, 3))])
    y = np.append(Y, [1.0, -1.0, 1.0])
    weights = np.append(np.ones(N), [1.0, 1.0, 0.0])
    for loss in LOSSES:
        result = dualgap.solve(Problem(x, y, loss_of(loss), l2=0.05, sample_weight=weights), "sdca", tol=1e-7, max_epochs=3000)
        assert result.status == "converged"
        assert np.isfinite(result.dual).all()
        slope = REFERENCE_LOSSES[loss].slope if loss != "smooth_hinge" else lambda m: np.clip(1 - m, 0, 1)
        np.testing.assert_allclose(result.dual[N : N + 2], slope(np.zeros(2)), rtol=1e-12)


def test_duplicate_columns_are_one_column():
    """‖x‖² of x₁ + x₁ is 4x₁², not 2x₁²: with the latter, steps are twice too long and the dual falls."""
    doubled = sparse.csr_matrix(
        (np.repeat(X.ravel() / 4, 4), np.repeat(np.tile([0, 1, 2], N), 4), np.arange(0, 12 * N + 1, 12)), shape=(N, 3)
    )
    found = [beta for beta, _, _ in epochs_of(Problem(doubled, Y, l2=0.05), SDCA(), 5)]
    expected = [beta for beta, _, _ in epochs_of(twins()[0], SDCA(), 5)]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
