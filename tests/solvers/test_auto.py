"""The rule of `auto`, at its borders, and the change of method in the middle of a run."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits

import dualgap
from conftest import make_data, random_sparse
from dualgap.solvers import auto
from dualgap.solvers.auto import Auto, Candidate, choose, is_wide, options
from dualgap.solvers.newton import SSNAL
from dualgap.solvers.newton.newton import Newton
from dualgap.solvers.newton.newton_cg import NewtonCG
from dualgap.solvers.precomputed import forming_passes, inner_products, on_span
from dualgap.solvers.working_set import WorkingSet


def problem_of(n, d, *, density=None, **options):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) if density is None else random_sparse(n, d, density, rng)
    return dualgap.Problem(X, np.arange(n) % 2, **options)


@pytest.mark.parametrize(
    ("shape", "options", "expected"),
    [
        ((2000, 10), {}, "newton"),
        ((2000, 10), {"loss": "logistic"}, "newton"),
        ((2000, 10), {"l1": 0.1}, "dca"),
        ((2000, 10), {"l1": 0.1, "loss": "logistic"}, "prox_newton"),
        ((2000, 10), {"l2": 0.0, "l1": 0.1, "loss": "smooth_hinge"}, "prox_newton"),
        ((2000, 10), {"l2": 0.0, "l1": 0.1}, "ssnal"),
        ((300, 101), {"l2": 0.0, "l1": 0.1}, "ssnal"),
        ((300, 10), {"kernel": "rbf"}, "working_set"),
        ((300, 10), {"kernel": "rbf", "loss": "logistic"}, "dca"),
        ((300, 10), {"kernel": "linear"}, "linear_kernel"),
        ((300, 10), {"kernel": "linear", "loss": "logistic"}, "linear_kernel"),
        ((100, 400), {}, "dca"),
        ((100, 400), {"loss": "logistic"}, "dca"),
        ((200, 300), {"density": 0.02}, "dca"),
        ((20_000, 20), {"density": 0.3}, "newton"),
        ((50, 5000), {"density": 0.01}, "dca"),
    ],
)
def test_first_method(shape, options, expected):
    assert choose(problem_of(*shape, **options))[0].method.name == expected


@pytest.mark.parametrize("density", [None, 0.3])
@pytest.mark.parametrize(
    ("loss", "intercept", "weak", "strong"),
    # ‖x‖² is about 20 for dense rows and 6 for sparse ones: n·l2 = ‖x‖²·(curvature of the loss, or 1)/limit lies between the two
    [("hinge", "free", 1e-4, 1e-1), ("logistic", "none", 1e-4, 1e-1), ("squared_hinge", "penalised", 1e-3, 1.0)],
)
def test_a_strong_penalty_starts_with_coordinate_steps(loss, intercept, weak, strong, density):
    problem = problem_of(20_000, 20, density=density, loss=loss, intercept=intercept, l2=weak)
    at_weak, at_strong = Auto().start(problem, np.random.default_rng(0)), problem.variant(l2=strong)
    assert at_weak.method.name == "newton"
    assert Auto().start(at_strong, np.random.default_rng(0)).method.name == "dca"
    result = dualgap.solve(at_strong, "auto", tol=1e-6)
    assert result.converged
    assert "dca" in Auto().plan(at_strong)
    assert "dca" not in Auto().plan(problem)


def test_a_smooth_loss_with_a_free_intercept_starts_with_newton_at_any_penalty():
    problem = problem_of(20_000, 20, loss="logistic", intercept="free", l2=10.0)
    assert Auto().start(problem, np.random.default_rng(0)).method.name == "newton"


@pytest.mark.parametrize(("loss", "first"), [("hinge", "dca"), ("logistic", "prox_newton")])
def test_ssnal_takes_over_at_a_weak_penalty_with_an_l1_part(monkeypatch, loss, first):
    X, y = make_data(300, 8, seed=1)
    X *= 10.0 ** np.linspace(-2, 2, 8)  # which coordinate steps dislike
    monkeypatch.setattr(auto, "SWEEPS", 20.0)
    problem = dualgap.Problem(X, y, loss=loss, l1=1e-6, l2=1e-6, intercept="free")
    result = dualgap.solve(problem, "auto", tol=1e-8, max_epochs=400)
    assert result.converged
    assert [text.split(":")[0] for _, text in result.trace.handovers] == [f"{first} → ssnal"]


def test_ssnal_that_stalls_gives_way(monkeypatch):
    monkeypatch.setattr(SSNAL, "stall_steps", -1)
    monkeypatch.setattr(auto, "ELASTIC", (4.0, 4.0))
    X, y = make_data(200, 6, seed=2)
    with pytest.warns(dualgap.ConvergenceWarning):
        with_l2 = dualgap.solve(dualgap.Problem(X, y, l1=1e-5, l2=1e-5), "auto", tol=1e-14, max_epochs=60)
    assert "ssnal → dca" in [text.split(":")[0] for _, text in with_l2.trace.handovers]
    with pytest.warns(dualgap.ConvergenceWarning):
        without = dualgap.solve(dualgap.Problem(X, y, l1=1e-2, l2=0.0), "auto", tol=1e-14, max_epochs=3)
    assert [text.split(":")[0] for _, text in without.trace.handovers] == ["ssnal → apg"]


def test_the_span_of_the_rows_pays_from_four_features_a_row_on():
    assert is_wide(problem_of(100, 400))
    assert not is_wide(problem_of(100, 399))
    assert not is_wide(problem_of(100, 400, density=0.1))
    assert not is_wide(problem_of(100, 400, l1=0.1))


def test_wide_dense_data_go_through_the_span_of_the_rows(monkeypatch):
    problem = problem_of(60, 400, l2=1e-3, loss="logistic")
    monkeypatch.setattr(auto, "LEAST_COST", 0.0)
    monkeypatch.setattr(auto, "SHARE", 0.0)
    result = dualgap.solve(problem, "auto", tol=1e-8, max_epochs=5000)
    assert result.converged
    assert result.coef.shape == (400,)
    assert [text.split(":")[0] for _, text in result.trace.handovers] == ["dca → newton"]
    assert result.trace["passes"][-1] >= forming_passes(problem) + 1  # the matrix is paid for
    plain = dualgap.solve(problem, "sdca", tol=1e-8, max_epochs=5000)
    np.testing.assert_allclose(result.coef, plain.coef, atol=1e-3)


@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
def test_newton_takes_over_from_coordinate_steps(monkeypatch, intercept):
    X, y = make_data(300, 6, seed=1)
    X[np.abs(X) < 0.7] = 0.0
    problem = dualgap.Problem(sparse.csr_array(X), y, l2=1e-5, intercept=intercept)
    monkeypatch.setattr(auto, "FIRST", (0.0, 0.0))
    monkeypatch.setattr(auto, "SHARE", 0.05)
    solver, rng = Auto(), np.random.default_rng(0)
    state = solver.start(problem, rng)
    methods = set()
    for _ in range(60):
        methods.add(state.method.name)
        solver.epoch(problem, state, rng)
    assert methods == {"dca", "newton"}
    assert dualgap.solve(problem, "auto", tol=1e-8).converged


def correlated(n=600, d=60, columns=4500, l2=1e-5, **options):
    """A sparse problem with too many columns for a matrix, all but a few of them empty, on which coordinate steps are slow."""
    rng = np.random.default_rng(6)
    X, y = make_data(n, d, seed=6)
    X = X + 3.0 * rng.standard_normal((n, 1))
    wide = sparse.csr_array((X.ravel(), np.tile(np.arange(d), n), d * np.arange(n + 1)), shape=(n, columns))
    return dualgap.Problem(wide, y, l2=l2, **options)


def names(problem):
    return [candidate.method.name for candidate in choose(problem)]


def test_what_takes_over_from_coordinate_steps_at_the_border(monkeypatch):
    few, many = {"density": 0.01}, {"n": 200, "d": 4001, "density": 0.01}
    assert names(problem_of(**many, loss="logistic")) == ["dca", "newton_cg"]
    assert names(problem_of(**many, loss="squared_hinge")) == ["dca", "working_set", "dca", "newton_cg"]
    assert names(problem_of(**many)) == ["dca", "working_set"]
    assert names(problem_of(**many, l1=0.1)) == ["dca", "ssnal"]
    assert names(problem_of(**many, bounds=(0.0, 1.0))) == ["dca"]
    with monkeypatch.context() as changed:
        changed.setattr(auto, "SET_ROWS", 199)
        assert names(problem_of(**many)) == ["dca"]
        assert choose(problem_of(**many))[0].passes == np.inf
    problem = problem_of(200, 400, **few, loss="logistic")
    costs = {candidate.method.name: cost for cost, candidate in options(problem)}
    for cost, expected in ((0.99 * costs["newton"], "newton_cg"), (1.01 * costs["newton"], "newton")):
        monkeypatch.setattr(auto, "CG_COST", cost)
        first, second, *_ = choose(problem)
        assert second.method.name == expected
        assert first.passes == pytest.approx(auto.SHARE * min(cost, costs["newton"]))


@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
@pytest.mark.parametrize(
    ("loss", "following"), [("hinge", "working_set"), ("squared_hinge", "working_set"), ("logistic", "newton_cg")]
)
def test_another_method_takes_over_from_slow_coordinate_steps(loss, following, intercept):
    problem = correlated(loss=loss, intercept=intercept)
    solver, rng = Auto(), np.random.default_rng(0)
    state = solver.start(problem, rng)
    state.tol = 1e-8
    budget = state.candidate.passes
    while state.method.name == "dca":
        assert state.spent <= budget
        dca = state.inner
        solver.epoch(problem, state, rng)
    assert state.method.name == following
    (epoch, reason), *others = state.handovers
    assert (epoch, reason) == (state.steps, f"dca → {following}: {budget:.3g} passes are spent")
    beta = dca.ascent.beta
    if following == "newton_cg":
        w = problem.combine(problem.c * problem.y * beta / problem.l2)
        np.testing.assert_allclose(solver.model(problem, state)[0], w)
    # Coordinate steps alone are nowhere near within the same passes.
    result = dualgap.solve(problem, "auto", tol=1e-6, max_epochs=1000)
    assert result.converged
    assert not others
    with pytest.warns(dualgap.ConvergenceWarning):
        alone = dualgap.solve(problem, "dca", tol=1e-6, max_epochs=result.epochs + 50, stall=False)
    assert alone.certificate.relative_gap > 1e-5


@pytest.mark.parametrize(
    ("passes", "before", "now", "hands_over"),
    [
        (3.0, 1e-1, 1e-2, False),  # within the budget of four
        (5.0, 1e-3, 1e-4, False),  # past it, but done after two more
        (5.0, 1e-2, 1e-3, False),  # done after three more, the most that are allowed
        (5.0, 1e-2, 2e-3, True),
        (5.0, 1e-3, 2e-3, True),  # no rate
        (7.0, 1e-3, 5e-7, False),  # done: the certificate follows
    ],
)
def test_a_method_that_will_soon_be_done_goes_on(passes, before, now, hands_over):
    state = auto.AutoState(
        candidates=(Candidate(auto.DCA(), 4.0), Candidate(Newton())),
        method=auto.DCA(),
        inner=auto.State(),
        problem=problem_of(50, 5, loss="logistic"),
        spent=passes,
        estimates=[(1.0, 1.0), (passes - 1.0, before), (passes, now)],
        steps=int(passes),
    )
    state.tol = 1.001e-6
    assert (Auto()._reason_to_hand_over(state) == "4 passes are spent") == hands_over
    state.turn = 2  # once the list has been gone through, budgets are twice as large
    assert not Auto()._reason_to_hand_over(state)


@pytest.mark.parametrize(("method", "loss"), [(NewtonCG, "logistic"), (WorkingSet, "hinge")])
def test_a_stalled_method_hands_over_and_has_another_turn(monkeypatch, method, loss):
    """The list is gone through again and again, and a hand-over that does not pay is taken back."""
    problem, solver, rng = correlated(loss=loss, l2=1e-4), Auto(), np.random.default_rng(0)
    monkeypatch.setattr(method, "stall_steps", 0)
    state = solver.start(problem, rng)
    for _ in range(400):
        solver.epoch(problem, state, rng)
    changes = [text.split(":")[0] for _, text in state.handovers]
    assert changes[:2] == [f"dca → {method.name}", f"{method.name} → dca"]
    assert changes.count(f"dca → {method.name}") > 1
    assert dualgap.certify(problem, problem.combine(problem.c * problem.y * solver.dual(problem, state) / problem.l2)).gap < 1.0


def test_a_stalled_newton_run_hands_over_to_coordinate_steps(monkeypatch):
    X, y = make_data(300, 6, seed=2)
    problem, solver, rng = dualgap.Problem(X, y, l2=1e-2), Auto(), np.random.default_rng(0)
    monkeypatch.setattr(Newton, "stall_steps", 0)
    state = solver.start(problem, rng)
    for _ in range(60):
        solver.epoch(problem, state, rng)
    assert state.method.name == "dca"
    assert dualgap.certify(problem, problem.combine(problem.c * y * solver.dual(problem, state) / problem.l2)).relative_gap < 1e-3


class StandsStill(dualgap.SDCA):
    """A method that never moves."""

    def epoch(self, problem, state, rng):
        state.passes += 0.01


def test_a_run_that_stalls_goes_on_while_a_method_is_untried(monkeypatch):
    problem = problem_of(200, 5, l2=1e-2)
    plan = Candidate(StandsStill()), Candidate(StandsStill()), Candidate(Newton())
    monkeypatch.setattr(auto, "choose", lambda problem: plan)
    result = dualgap.solve(problem, "auto", tol=1e-6, max_epochs=1000, evaluate="epoch")
    assert result.converged
    assert [text for _, text in result.trace.handovers] == [
        "sdca → sdca: its gap stands still",
        "sdca → newton: its gap stands still",
    ]
    plan = Candidate(StandsStill()), Candidate(StandsStill())
    with pytest.warns(dualgap.ConvergenceWarning, match="stalled"):
        ended = dualgap.solve(problem_of(200, 5, l2=1e-2), "auto", tol=1e-6, max_epochs=1000, evaluate="epoch")
    assert ended.status == "stalled"
    assert len(ended.trace.handovers) == 1


@pytest.mark.parametrize("C", [1e-4, 1e-5, 1e-6])
def test_a_strong_penalty_with_a_free_intercept_does_not_stall(C):
    """Coordinate steps on nearly equal β alone stop at a gap of 1e-3 there."""
    X, y = load_digits(return_X_y=True)
    for n in (500, 1500):
        problem = dualgap.Problem(X[:n], y[:n] >= 5, l2=1.0 / (C * n), intercept="free")
        assert dualgap.solve(problem, "auto", tol=1e-4).converged


def test_rows_read_from_disk_have_one_method(monkeypatch):
    problem = problem_of(30, 3)
    assert Auto().chosen(problem) == Auto()
    monkeypatch.setattr(dualgap.Problem, "streaming", True)
    assert Auto().chosen(problem) == dualgap.Blocks()
    assert choose(problem)[0].method == dualgap.Blocks()


@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
@pytest.mark.parametrize("loss", ["hinge", "smooth_hinge", "squared_hinge", "logistic"])
def test_nearly_parallel_rows_of_wide_data_are_solved(loss, intercept):
    """A column of 1000 makes the rows nearly parallel: coordinate steps alone do not move."""
    X = np.random.default_rng(0).standard_normal((16, 64))
    X[:, 0] = 1000.0
    problem = dualgap.Problem(X, np.arange(16) % 2, loss=loss, l2=1e-4, intercept=intercept)
    result = dualgap.solve(problem, "auto", tol=1e-6, max_epochs=1000)
    assert result.converged
    best = dualgap.solve(problem, "newton", tol=1e-6, max_epochs=1000)
    assert result.certificate.primal <= best.certificate.primal * (1.0 + 2e-6)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_problem_in_the_coordinates_of_its_rows_is_the_same_problem(dtype):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 50)).astype(dtype)
    X[3] = X[4]  # the span has fewer dimensions than there are rows
    problem = dualgap.Problem(X, np.arange(12) % 2, l2=0.1)
    small = on_span(problem)
    assert small.d <= 12
    np.testing.assert_allclose(inner_products(small), inner_products(problem), atol=1e-12)
    whole, short = (dualgap.solve(form, "dca", tol=1e-10, max_epochs=5000) for form in (problem, small))
    np.testing.assert_allclose(short.dual, whole.dual, atol=1e-4)
    assert short.certificate.primal == pytest.approx(whole.certificate.primal, rel=1e-9)


def test_takes_every_problem_there_is():
    X, y = make_data(40, 3)
    for loss in ("hinge", "smooth_hinge", "squared_hinge", "logistic"):
        for l2, l1 in ((0.1, 0.0), (0.1, 0.1), (0.0, 0.1)):
            for intercept in ("none", "free"):
                assert Auto().supports(dualgap.Problem(X, y, loss=loss, l2=l2, l1=l1, intercept=intercept))


def test_what_is_compiled_beforehand_depends_on_the_methods_it_may_come_to():
    shapes = {"few features": (2000, 10, None), "many": (5000, 1000, 0.01), "too many": (500, 9000, 0.01)}
    plans = {name: Auto().plan(problem_of(n, d, density=density)) for name, (n, d, density) in shapes.items()}
    assert len(set(plans.values())) == 3
    assert "newton" in plans["many"]
    assert "newton" not in plans["too many"]
    assert "newton_cg" not in Auto().plan(problem_of(500, 9000, density=0.01, loss="logistic"))


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_a_hand_over_takes_the_best_free_intercept_of_its_w(monkeypatch, loss):
    taken, start = [], Newton.start
    monkeypatch.setattr(Newton, "start", lambda *given: taken.append(given[3]) or start(*given))
    rng = np.random.default_rng(1)
    X = random_sparse(400, 60, 0.2, rng)
    problem = dualgap.Problem(X, np.arange(400) % 10 == 0, loss=loss, l2=1e-4, intercept="free")
    state = Auto().start(problem, rng)
    state.candidates = (Candidate(auto.DCA()), Candidate(Newton()))
    state.method, state.inner = auto.DCA(), auto.DCA().start(problem, rng)
    Auto().epoch(problem, state, rng)
    Auto()._hand_over(problem, state, "a test", rng)
    warm = taken[-1]

    def losses(b):
        return problem.c @ [problem.loss.value(m) for m in problem.y * (X @ warm.coef + b)]

    assert all(losses(warm.intercept) <= losses(warm.intercept + shift) + 1e-12 for shift in (-0.5, -0.01, 0.01, 0.5))
