"""The rule of `auto`, at its borders, and the change of method in the middle of a run."""

import numpy as np
import pytest
from scipy import sparse

import dualgap
from conftest import make_data, random_sparse
from dualgap.data import text_like
from dualgap.solvers import auto
from dualgap.solvers.auto import Auto, choose, successor, wants_gram
from dualgap.solvers.linear_program import solver as solver_of_programs
from dualgap.solvers.newton import SSNAL
from dualgap.solvers.newton.newton import Newton
from dualgap.solvers.newton.newton_cg import NewtonCG
from dualgap.solvers.precomputed import forming_passes, reduced
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
        ((2000, 10), {"l2": 0.0, "l1": 0.1}, "linear_program"),
        ((2001, 10), {"l2": 0.0, "l1": 0.1}, "ssnal"),
        ((300, 101), {"l2": 0.0, "l1": 0.1}, "ssnal"),
        ((300, 10), {"kernel": "rbf"}, "working_set"),
        ((300, 10), {"kernel": "rbf", "loss": "logistic"}, "dca"),
        ((300, 10), {"kernel": "linear"}, "linear_kernel"),
        ((300, 10), {"kernel": "linear", "loss": "logistic"}, "linear_kernel"),
        ((100, 399), {}, "dca"),
        ((200, 300), {"density": 0.02}, "dca"),
        ((20_000, 20), {"density": 0.3}, "newton"),
        ((50, 5000), {"density": 0.01}, "dca"),
    ],
)
def test_first_method(shape, options, expected):
    assert choose(problem_of(*shape, **options)).method.name == expected


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


def test_slow_coordinate_steps_on_a_smooth_loss_hand_over_at_once(monkeypatch):
    X, y = make_data(6000, 20, seed=3)
    X = X @ np.random.default_rng(0).standard_normal((20, 20)) + 3.0  # correlated columns
    problem = dualgap.Problem(X, y, loss="logistic", l2=1e-4)
    monkeypatch.setattr(auto, "STRONG_SMOOTH", 1e9)
    monkeypatch.setattr(auto, "NEWTON_SHARE", 5.0)  # the passes after which it would hand over anyway are many
    result = dualgap.solve(problem, "auto", tol=1e-8)
    assert result.converged
    (_, reason), *_ = result.trace.handovers
    assert reason.startswith("dca → newton")
    assert reason.endswith("more passes would be needed")


@pytest.mark.parametrize(("loss", "first"), [("hinge", "dca"), ("logistic", "prox_newton")])
def test_ssnal_takes_over_at_a_weak_penalty_with_an_l1_part(monkeypatch, loss, first):
    X, y = make_data(300, 8, seed=1)
    X *= 10.0 ** np.linspace(-2, 2, 8)  # which coordinate steps dislike
    monkeypatch.setattr(auto, "SWEEP_PASSES", 20.0)
    problem = dualgap.Problem(X, y, loss=loss, l1=1e-6, l2=1e-6, intercept="free")
    result = dualgap.solve(problem, "auto", tol=1e-8, max_epochs=400)
    assert result.converged
    assert [text.split(":")[0] for _, text in result.trace.handovers] == [f"{first} → ssnal"]


def test_ssnal_that_stalls_gives_way(monkeypatch):
    monkeypatch.setattr(SSNAL, "stall_steps", -1)
    X, y = make_data(200, 6, seed=2)
    with pytest.warns(dualgap.ConvergenceWarning):
        with_l2 = dualgap.solve(dualgap.Problem(X, y, l1=1e-5, l2=1e-5), "auto", tol=1e-14, max_epochs=60)
    assert "ssnal → dca" in [text.split(":")[0] for _, text in with_l2.trace.handovers]
    monkeypatch.setattr(solver_of_programs, "ALL_ROWS", 10)
    with pytest.warns(dualgap.ConvergenceWarning):
        without = dualgap.solve(dualgap.Problem(X, y, l1=1e-2, l2=0.0), "auto", tol=1e-14, max_epochs=3)
    assert [text.split(":")[0] for _, text in without.trace.handovers] == ["ssnal → apg"]


def test_the_gram_matrix_pays_from_four_features_a_row_on():
    assert wants_gram(problem_of(100, 400))
    assert not wants_gram(problem_of(100, 399))
    assert not wants_gram(problem_of(100, 400, density=0.1))
    assert not wants_gram(problem_of(100, 400, l1=0.1))


def test_wide_dense_data_go_through_the_gram_matrix():
    problem = problem_of(60, 400, l2=0.1)
    assert wants_gram(problem)
    result = dualgap.solve(problem, "auto", tol=1e-8, max_epochs=5000)
    assert result.converged
    assert result.coef.shape == (400,)
    assert result.trace["passes"][0] >= forming_passes(problem) + 1  # the matrix is paid for
    plain = dualgap.solve(problem, "sdca", tol=1e-8, max_epochs=5000)
    np.testing.assert_allclose(result.coef, plain.coef, atol=1e-6)


@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
def test_newton_takes_over_from_coordinate_steps(monkeypatch, intercept):
    X, y = make_data(300, 6, seed=1)
    X[np.abs(X) < 0.7] = 0.0
    problem = dualgap.Problem(sparse.csr_array(X), y, l2=1e-5, intercept=intercept)
    monkeypatch.setattr(auto, "SPARSE_PASSES", 0.0)
    monkeypatch.setattr(auto, "NEWTON_SHARE", 0.05)
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


def test_what_takes_over_from_coordinate_steps_at_the_border(monkeypatch):
    few, many = {"density": 0.01}, {"n": 200, "d": 4001, "density": 0.01}
    assert successor(problem_of(**many, loss="logistic")) == (NewtonCG(), auto.CG_PASSES)
    assert successor(problem_of(**many, loss="squared_hinge")) == (NewtonCG(), auto.CG_PASSES_FLAT)
    assert successor(problem_of(**many, loss="smooth_hinge")) == (NewtonCG(), auto.CG_PASSES_FLAT)
    assert successor(problem_of(**many)) == (WorkingSet(), auto.SET_PASSES)
    assert successor(problem_of(**many, l1=0.1))[1] == np.inf
    assert successor(problem_of(**many, bounds=(0.0, 1.0)))[1] == np.inf
    assert successor(problem_of(**many, loss="logistic", l1=0.1))[1] == np.inf
    with monkeypatch.context() as changed:
        changed.setattr(auto, "SET_ROWS", 199)
        assert successor(problem_of(**many))[1] == np.inf
    problem = problem_of(200, 400, **few, loss="logistic")
    dca_pass, newton_run = auto.costs(problem)
    for patience, expected in ((29.9, "newton"), (30.1, "newton_cg")):
        monkeypatch.setattr(auto, "NEWTON_SHARE", patience * dca_pass / newton_run)
        method, after = successor(problem)
        assert method.name == expected
        assert after == pytest.approx(min(patience, 30.0))


@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
@pytest.mark.parametrize("loss", ["smooth_hinge", "squared_hinge", "logistic"])
def test_conjugate_gradients_take_over_from_coordinate_steps(loss, intercept):
    problem = correlated(loss=loss, intercept=intercept)
    share = successor(problem)[1]
    solver, rng = Auto(), np.random.default_rng(0)
    state = solver.start(problem, rng)
    state.tol = 1e-8
    while state.method.name == "dca":
        assert state.passes <= share
        dca, before = state.inner, state.passes
        solver.epoch(problem, state, rng)
    assert state.method == NewtonCG()
    assert before <= share
    assert share < state.passes or "not fallen" in state.handovers[0][1]  # rule a, or c
    beta = dca.ascent.beta
    np.testing.assert_allclose(solver.model(problem, state)[0], problem.combine(problem.c * problem.y * beta / problem.l2))
    # Coordinate steps alone are nowhere near within the same passes.
    result = dualgap.solve(problem, "auto", tol=1e-8, max_epochs=1000)
    assert result.converged
    budget = int(result.trace["passes"][-1]) + 1
    with pytest.warns(dualgap.ConvergenceWarning):
        alone = dualgap.solve(problem, "dca", tol=1e-8, max_epochs=budget, stall=False)
    assert alone.certificate.relative_gap > 1e-6


@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
def test_working_sets_take_over_from_coordinate_steps_on_the_hinge(monkeypatch, intercept):
    monkeypatch.setattr(auto, "SET_PASSES", 3.0)
    problem = correlated(intercept=intercept)
    result = dualgap.solve(problem, tol=1e-6, max_epochs=500)
    assert result.converged
    (epoch, reason), *others = result.trace.handovers
    assert reason == "dca → working_set: 3 passes are spent"
    assert not others
    assert epoch < result.epochs
    again = dualgap.certify(problem, result.coef, result.intercept, result.dual)
    assert again.relative_gap <= 1e-6


@pytest.mark.parametrize(
    ("passes", "before", "now", "hands_over"),
    [
        (3.0, 1e-1, 1e-2, ""),  # needs four more passes at this rate; switch_at allows four
        (3.0, 1e-1, 2e-2, "more passes"),
        (5.0, 1e-3, 1e-4, ""),  # past switch_at, but done after two more
        (5.0, 1e-2, 1e-3, ""),  # done after three more, the most that are allowed
        (5.0, 1e-2, 2e-3, "passes are spent"),
        (5.0, 1e-3, 2e-3, "passes are spent"),  # no rate
        (9.0, 1e-3, 5e-7, ""),  # done: the certificate follows
    ],
)
def test_a_steady_rate_tells_whether_newton_takes_over(passes, before, now, hands_over):
    state = auto.AutoState(
        method=auto.DCA(),
        inner=auto.State(),
        problem=problem_of(50, 5, loss="logistic"),
        successor=Newton(),
        switch_at=4.0,
        passes=passes,
        before=(passes - 1.0, before),
        latest=(passes, now),
        steps=int(passes),
        least_at=int(passes),
    )
    state.tol = 1.001e-6
    reason = Auto()._reason_to_hand_over(state)
    assert hands_over in reason
    assert bool(reason) == bool(hands_over)


def test_coordinate_steps_that_will_soon_be_done_go_on(monkeypatch):
    data = text_like(600, 4500, 30, seed=5)
    problem, solver, rng = dualgap.Problem(data.X, data.y, loss="logistic", l2=1e-6), Auto(), np.random.default_rng(0)
    monkeypatch.setattr(auto, "CG_PASSES", 6.0)
    methods = {}
    for tol, soon in ((1e-6, 1.0), (1e-6, 0.01), (0.0, 1.0)):
        monkeypatch.setattr(auto, "EXTRA_PASSES", soon)
        state = solver.start(problem, rng)
        state.tol = tol
        for _ in range(9):
            solver.epoch(problem, state, rng)
        methods[tol, soon] = state.method.name
    assert methods == {(1e-6, 1.0): "dca", (1e-6, 0.01): "newton_cg", (0.0, 1.0): "newton_cg"}


def test_a_stalled_run_of_conjugate_gradients_hands_over_to_coordinate_steps(monkeypatch):
    problem, solver, rng = correlated(loss="logistic", l2=1e-4), Auto(), np.random.default_rng(0)
    monkeypatch.setattr(NewtonCG, "stall_steps", 0)
    state = solver.start(problem, rng)
    methods = []
    for _ in range(60):
        solver.epoch(problem, state, rng)
        methods.append(state.method.name)
    assert "newton_cg" in methods
    assert methods[-1] == "dca"


def test_a_stalled_newton_run_hands_over_to_coordinate_steps(monkeypatch):
    X, y = make_data(300, 6, seed=2)
    problem, solver, rng = dualgap.Problem(X, y, l2=1e-2), Auto(), np.random.default_rng(0)
    monkeypatch.setattr(Newton, "stall_steps", 0)
    state = solver.start(problem, rng)
    for _ in range(60):
        solver.epoch(problem, state, rng)
    assert state.method.name == "dca"
    assert dualgap.certify(problem, problem.combine(problem.c * y * solver.dual(problem, state) / problem.l2)).relative_gap < 1e-3


def test_rows_read_from_disk_have_one_method(monkeypatch):
    problem = problem_of(30, 3)
    assert Auto().chosen(problem) == Auto()
    monkeypatch.setattr(dualgap.Problem, "streaming", True)
    assert Auto().chosen(problem) == dualgap.Blocks()
    assert choose(problem).method == dualgap.Blocks()


def test_the_gram_matrix_is_limited_by_the_time_to_form_it_and_by_memory(monkeypatch):
    monkeypatch.setattr(auto, "GRAM_PASSES", 1.5)  # of which n = 100 takes all
    assert wants_gram(problem_of(100, 404))
    assert not wants_gram(problem_of(101, 404))
    monkeypatch.setattr(auto, "LARGEST", 99)
    assert not wants_gram(problem_of(100, 404))


@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
@pytest.mark.parametrize("loss", ["hinge", "smooth_hinge", "squared_hinge", "logistic"])
def test_coordinate_steps_on_a_bad_gram_matrix_hand_over_to_newton_on_the_span_of_the_rows(loss, intercept):
    """A column of 1000 makes the rows nearly parallel: coordinate steps alone do not move."""
    problem = problem_of(16, 64, loss=loss, l2=1e-4, intercept=intercept)
    problem.X[:, 0] = 1000.0
    result = dualgap.solve(problem, "auto", tol=1e-6, max_epochs=1000)
    assert result.converged
    assert [text.split(":")[0] for _, text in result.trace.handovers] == ["dca → newton"]
    assert 0 < result.trace.handovers[0][0] <= result.epochs
    assert "dca → newton" in repr(result.trace)
    best = dualgap.solve(problem, "newton", tol=1e-9, max_epochs=1000)
    assert result.certificate.primal <= best.certificate.primal * (1.0 + 2e-6)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_problem_in_the_coordinates_of_its_rows_is_the_same_problem(dtype):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 50)).astype(dtype)
    X[3] = X[4]  # the span has fewer dimensions than there are rows
    problem = dualgap.Problem(X, np.arange(12) % 2, l2=0.1)
    small, basis = reduced(problem)
    z = rng.standard_normal(12)
    assert small.d == 12
    np.testing.assert_allclose(basis.T @ basis, np.eye(12), atol=1e-12)
    np.testing.assert_allclose(small.scores(z), problem.scores(basis @ z), atol=1e-6 if dtype == "float32" else 1e-12)
    assert small.objective(z) == pytest.approx(problem.objective(basis @ z), rel=1e-6 if dtype == "float32" else 1e-12)


def test_takes_every_problem_there_is():
    X, y = make_data(40, 3)
    for loss in ("hinge", "smooth_hinge", "squared_hinge", "logistic"):
        for l2, l1 in ((0.1, 0.0), (0.1, 0.1), (0.0, 0.1)):
            for intercept in ("none", "free"):
                assert Auto().supports(dualgap.Problem(X, y, loss=loss, l2=l2, l1=l1, intercept=intercept))


def test_what_is_compiled_beforehand_depends_on_the_methods_it_may_come_to():
    shapes = {"few features": (2000, 10, None), "many": (500, 3000, 0.01), "too many": (500, 9000, 0.01)}
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
    vars(state).update(method=auto.DCA(), inner=auto.DCA().start(problem, rng))
    Auto().epoch(problem, state, rng)
    Auto()._hand_over(state, Newton(), "a test", rng)
    warm = taken[-1]

    def losses(b):
        return problem.c @ [problem.loss.value(m) for m in problem.y * (X @ warm.coef + b)]

    assert all(losses(warm.intercept) <= losses(warm.intercept + shift) + 1e-12 for shift in (-0.5, -0.01, 0.01, 0.5))
