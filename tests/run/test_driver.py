"""The driver: it solves every loss × penalty × intercept on any storage, and answers whatever happens with a status."""

import itertools
import math
import os
import subprocess
import sys
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import dualgap
from conftest import make_data
from dualgap import SDCA, ConvergenceWarning, Pegasos, Problem, SmoothHinge, certify
from dualgap.answers import solve
from dualgap.proof import lower_bound
from dualgap.run.driver import _Due
from dualgap.run.stepper import Best, Stepper
from dualgap.solvers import State, Support
from reference import REFERENCE_LOSSES, Model, dual_value, loss_of, optimum, primal_value

LOSSES = list(REFERENCE_LOSSES)
PENALTIES = {"l2": (0.0, 0.05), "elastic_net": (0.03, 0.05)}
INTERCEPTS = ["none", "penalised", "free"]
X, Y = make_data(40, 4, 11)


def build(loss="hinge", penalty="l2", intercept="none", X=X, y=Y, **options):
    l1, l2 = PENALTIES[penalty]
    return Problem(X, y, loss_of(loss), 0.5 if loss == "smooth_hinge" else None, l2, l1, intercept=intercept, **options)


# ----------------------------------------------------------------------------------------------------------------- it solves


@pytest.mark.parametrize(("loss", "penalty", "intercept"), list(itertools.product(LOSSES, PENALTIES, INTERCEPTS)), ids=str)
@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), weighted=st.booleans(), size=st.sampled_from([0.1, 1.0, 10.0]))
def test_the_gap_is_never_negative_and_closes(loss, penalty, intercept, seed, weighted, size):
    x, y = make_data(20, 3, seed)
    weights = np.random.default_rng(seed).random(20) + 0.05 if weighted else None
    problem = build(loss, penalty, intercept, size * x, y, sample_weight=weights)
    tol = 1e-5 if loss == "hinge" else 1e-6  # SDCA converges sublinearly on a loss with a kink
    result = solve(problem, "sdca", tol=tol, max_epochs=20_000, seed=seed, stall=False)
    assert result.status == "converged"
    trace = result.trace
    assert (trace["primal"] - trace["dual"] >= -1e-12 * trace["primal"]).all()
    assert (np.diff(trace["dual"]) >= 0).all()
    assert 0 <= result.certificate.relative_gap <= tol
    # The numbers are those of plain NumPy, and the optimum lies between them.
    c = np.full(20, 0.05) if weights is None else weights / weights.sum()
    l1, l2 = PENALTIES[penalty]
    model = Model(size * x, y, c, REFERENCE_LOSSES[loss], l2, l1, intercept)
    assert primal_value(model, result.coef, result.intercept) == pytest.approx(result.certificate.primal, rel=1e-11)
    assert dual_value(model, result.dual) == pytest.approx(result.certificate.dual, rel=1e-11)
    if intercept == "free":
        assert abs(np.sum(c * result.dual * y)) <= 1e-15 * max(1.0, result.dual.max())


@pytest.mark.parametrize(("loss", "penalty", "intercept"), list(itertools.product(LOSSES, PENALTIES, INTERCEPTS)), ids=str)
def test_the_optimum_is_the_interior_points(loss, penalty, intercept):
    result = solve(build(loss, penalty, intercept), "sdca", tol=1e-8, max_epochs=20_000, stall=False)
    l1, l2 = PENALTIES[penalty]
    best = optimum(Model(X, Y, np.full(40, 1 / 40), REFERENCE_LOSSES[loss], l2, l1, intercept), loss)
    assert result.certificate.dual - 1e-11 <= best <= result.certificate.primal + 1e-11
    assert result.certificate.primal == pytest.approx(best, rel=1e-8)


def test_a_loss_object_is_taken():
    assert solve(Problem(X, Y, loss=SmoothHinge(2.0), l2=0.1), "sdca").status == "converged"


# ------------------------------------------------------------------------------------------------- one path, whatever holds it


def forms(sparse_like):
    x, y = sparse_like
    matrix = sparse.csr_matrix(x)
    wide = matrix.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    backwards = matrix.copy()
    for first, last in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        backwards.indices[first:last] = matrix.indices[first:last][::-1]
        backwards.data[first:last] = matrix.data[first:last][::-1]
    backwards.has_sorted_indices = False
    return y, {"dense": x, "csr": matrix, "csr64": wide, "unsorted": backwards, "gram": x}


@pytest.mark.parametrize("order", ["cyclic", "permutation"])
@pytest.mark.parametrize(("loss", "intercept"), [("hinge", "none"), ("smooth_hinge", "free")])
def test_storages_share_their_traces(sparse_like, order, loss, intercept):
    y, matrices = forms(sparse_like)
    traces = {}
    for name, matrix in matrices.items():
        problem = build(loss, "l2", intercept, matrix, y, kernel="linear" if name == "gram" else None)
        traces[name] = solve(problem, SDCA(order=order), tol=0, max_epochs=25, evaluate="epoch", stall=False).trace
    for name, trace in traces.items():
        for column in ("primal", "dual", "gap"):
            np.testing.assert_allclose(trace[column], traces["dense"][column], rtol=1e-9, atol=1e-10, err_msg=name)
        np.testing.assert_array_equal(trace["support_vectors"], traces["dense"]["support_vectors"])


def test_elastic_net_traces_of_csr_and_dense(sparse_like):
    y, matrices = forms(sparse_like)
    traces = [
        solve(build("hinge", "elastic_net", "penalised", matrices[name], y), "sdca", tol=0, max_epochs=25, evaluate="epoch").trace
        for name in ("dense", "csr", "unsorted")
    ]
    for trace in traces[1:]:
        np.testing.assert_allclose(trace["primal"], traces[0]["primal"], rtol=1e-9)
        np.testing.assert_allclose(trace["dual"], traces[0]["dual"], rtol=1e-9)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("intercept", ["none", "free"])
def test_float32_data_reach_a_tight_gap_on_themselves(kind, intercept):
    x, y = make_data(300, 10, 2)
    x32 = x.astype(np.float32)
    result = solve(Problem(kind(x32), y, l2=1e-2, intercept=intercept), "sdca", tol=1e-6, max_epochs=20_000, stall=False)
    assert result.status == "converged"
    # The certificate is about the float32 numbers taken as they are, in float64 arithmetic.
    model = Model(x32.astype(np.float64), y, np.full(300, 1 / 300), REFERENCE_LOSSES["hinge"], 1e-2)
    assert primal_value(model, result.coef, result.intercept) == pytest.approx(result.certificate.primal, rel=1e-11)
    assert dual_value(model, result.dual) == pytest.approx(result.certificate.dual, rel=1e-11)


# ------------------------------------------------------------------------------------------------------------------- weights


@pytest.mark.parametrize(("loss", "intercept"), [("hinge", "free"), ("logistic", "penalised"), ("squared_hinge", "none")])
def test_weight_two_is_a_row_twice_and_weight_zero_is_absence(loss, intercept):
    weights = np.random.default_rng(0).integers(0, 3, 40)
    weights[:2] = 1
    times = np.repeat(np.arange(40), weights)
    weighted = build(loss, "elastic_net", intercept, sample_weight=weights)
    repeated = build(loss, "elastic_net", intercept, X[times], Y[times])
    one, other = (solve(p, "sdca", tol=1e-9, max_epochs=50_000, stall=False) for p in (weighted, repeated))
    assert one.certificate.primal == pytest.approx(other.certificate.primal, rel=2e-9)
    np.testing.assert_allclose(one.coef, other.coef, atol=2e-4)
    # The same model has the same objective, and the same dual variables the same bound.
    model, dual = (one.coef, one.intercept), one.dual
    assert weighted.objective(*model) == pytest.approx(repeated.objective(*model), rel=1e-13)
    first, second = certify(weighted, *model, dual=dual), certify(repeated, *model, dual=dual[times])
    assert first.primal == pytest.approx(second.primal, rel=1e-13)
    assert first.dual == pytest.approx(second.dual, rel=1e-12)


def test_only_the_proportions_of_weights_matter():
    weights = np.random.default_rng(0).random(40)
    one, other = (solve(build(sample_weight=k * weights), "sdca", max_epochs=2000) for k in (1.0, 1024.0))
    np.testing.assert_array_equal(one.coef, other.coef)


# ----------------------------------------------------------------------------------------------------- seeds and warm starts


def test_the_seed_decides():
    def path(seed):
        return solve(build(intercept="free"), "sdca", tol=0, max_epochs=8, seed=seed, evaluate="epoch").trace["primal"]

    np.testing.assert_array_equal(path(3), path(3))
    assert (path(3) != path(4)).any()
    np.testing.assert_array_equal(path(np.random.default_rng(3)), path(3))


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_a_warm_start_begins_where_the_result_ended(intercept, kernel):
    problem = build("smooth_hinge", "l2", intercept, kernel=kernel)
    first = solve(problem, "sdca", tol=1e-7, max_epochs=20_000, stall=False)
    again = solve(problem, "sdca", tol=0, max_epochs=1, warm_start=first)
    assert again.certificate.gap <= 5 * first.certificate.gap + 1e-15
    by_parts = solve(problem, "sdca", tol=0, max_epochs=1, warm_start=(None, first.intercept, first.dual))
    assert by_parts.certificate.gap <= 5 * first.certificate.gap + 1e-15
    cold = solve(problem, "sdca", tol=0, max_epochs=1)
    assert cold.certificate.gap > 100 * again.certificate.gap


def test_a_warm_start_on_another_penalty_saves_epochs():
    first = solve(build("smooth_hinge"), "sdca", tol=1e-6, max_epochs=2000)
    harder = Problem(X, Y, "smooth_hinge", 0.5, l2=0.045)
    cold, warm = (
        solve(harder, "sdca", tol=1e-5, max_epochs=2000),
        solve(harder, "sdca", tol=1e-5, max_epochs=2000, warm_start=first),
    )
    assert warm.epochs <= cold.epochs
    assert warm.trace["gap"][0] < 0.1 * cold.trace["gap"][0]


@pytest.mark.parametrize(
    ("warm", "words"),
    [
        ((np.ones(3), 0.0, None), "warm_start coef has 3 values where 4 are needed"),
        ((None, None, np.ones(3)), "warm_start dual has 3 values where 40 are needed"),
        ((None, None, np.full(40, np.nan)), r"warm_start dual\[0\] is nan"),
        ((np.ones(4),), r"warm_start=.* must be a Result or a tuple \(coef, intercept, dual\)"),
        (3, "warm_start=3 must be a Result or a tuple"),
    ],
)
def test_warm_starts_that_are_refused(warm, words):
    with pytest.raises(ValueError, match=words):
        solve(build(), "sdca", warm_start=warm)


# -------------------------------------------------------------------------------------------------------------- fake solvers


@dataclass
class FakeState(State):
    step: int = 0
    value: float = 0.0


@dataclass(frozen=True)
class Fake:
    """A solver that does what a test says: `act(step)` is called in every epoch and returns every coefficient of the model."""

    act: Any
    name: ClassVar[str] = "fake"
    work: float = 1.0

    def label(self):
        return self.name

    def supports(self, problem):
        return Support(True)

    def start(self, problem, rng, warm=None):
        return FakeState()

    def epoch(self, problem, state, rng):
        if problem.n > 4:  # not where the driver compiles
            state.step += 1
            state.value = self.act(state.step)
        state.passes += self.work

    def model(self, problem, state):
        return np.full(problem.size, state.value), None

    def dual(self, problem, state):
        return None


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e200])
def test_divergence(value):
    with pytest.warns(ConvergenceWarning, match="diverged.*scale the features"):
        result = solve(build(), Fake(lambda step: 0.01 if step < 3 else value), tol=1e-12, max_epochs=50, evaluate="epoch")
    assert result.status == "diverged"
    assert result.epochs < 20
    assert np.isfinite(result.coef).all()
    assert result.coef.tolist() == [0.01] * 4
    assert result.certificate.primal == pytest.approx(build().objective(np.full(4, 0.01)), rel=1e-13)
    assert np.isfinite(result.certificate.gap)


def test_divergence_at_once():
    with pytest.warns(ConvergenceWarning, match="diverged"):
        result = solve(build(intercept="free"), Fake(lambda step: np.nan), max_epochs=50)
    assert (result.status, result.epochs) == ("diverged", 1)
    assert result.coef.tolist() == [0.0] * 4
    assert np.isfinite(result.certificate.gap)


def test_divergence_of_a_dual_point():
    class Lost(Fake):
        def model(self, problem, state):
            return None, None

        def dual(self, problem, state):
            return np.full(problem.n, np.nan)

    with pytest.warns(ConvergenceWarning, match="diverged"):
        assert solve(build(), Lost(lambda step: 0.0)).status == "diverged"


def test_the_best_model_is_kept():
    """A solver that wanders off: the result is the best model on the way, and its certificate is of that model."""
    with pytest.warns(ConvergenceWarning):
        result = solve(build(), Fake(lambda step: 0.05 * abs(step - 6)), tol=1e-12, max_epochs=30, evaluate="epoch", stall=False)
    trace = result.trace
    best = int(np.argmin(trace["primal"]))
    assert 0 < best < 29
    assert result.coef[0] == pytest.approx(0.05 * abs(best + 1 - 6))
    assert result.certificate.primal == trace["primal"][best] == pytest.approx(build().objective(result.coef), rel=1e-13)
    assert result.certificate.dual == trace["dual"].max()


def test_a_stall():
    with pytest.warns(ConvergenceWarning, match="stalled.*gap has stopped falling.*another solver"):
        result = solve(build(), Fake(lambda step: 0.01), tol=1e-6, max_epochs=10_000)
    assert result.status == "stalled"
    assert result.epochs < 10_000
    with pytest.warns(ConvergenceWarning, match="max_epochs"):
        assert solve(build(), Fake(lambda step: 0.01), tol=1e-6, max_epochs=200, stall=False).status == "max_epochs"


def test_epochs_without_an_estimate_are_not_all_evaluated():
    """A method that knows its gap now and then may be on its way: each evaluation costs as much as an epoch or two."""
    stepper = Stepper()
    stepper.tol, stepper.best = 1e-6, Best(np.zeros(1), 0.0, 1.0)
    due = _Due("auto", stepper)
    evaluated = [epoch for epoch in range(1, 1001) if due(epoch, 1e-3 if epoch == 10 else math.inf)]
    assert 20 <= len(evaluated) <= 150
    due = _Due("auto", stepper)
    assert all(due(epoch, 1e-3) for epoch in range(1, 1001) if epoch > 50)


def test_slow_progress_is_no_stall():
    with pytest.warns(ConvergenceWarning):
        result = solve(build(), Fake(lambda step: 0.1 * (1 - 1 / (1 + 0.05 * step))), tol=1e-9, max_epochs=60, evaluate="epoch")
    assert result.status in ("max_epochs", "stalled")
    assert result.epochs > 40


def test_passes_are_the_solvers_to_count():
    with pytest.warns(ConvergenceWarning):
        trace = solve(build(), Fake(lambda step: 0.0, work=2.5), max_epochs=4, evaluate="epoch").trace
    np.testing.assert_allclose(trace["passes"], [2.5, 5.0, 7.5, 10.0])


# --------------------------------------------------------------------------------------------------------------- being stopped


def test_ctrl_c_in_a_callback():
    def callback(progress):
        if progress.epoch == 3:
            raise KeyboardInterrupt

    result = solve(build(), "sdca", tol=1e-12, max_epochs=1000, callbacks=[callback])
    assert (result.status, result.epochs) == ("interrupted", 3)
    assert result.trace["epoch"].tolist() == [1, 2, 3]
    assert result.certificate.relative_gap < 1
    assert certify(build(), result.coef, dual=result.dual).gap == pytest.approx(result.certificate.gap, rel=1e-12)


def test_ctrl_c_in_an_epoch():
    """What the epochs before achieved is evaluated and returned."""
    result = solve(build(), Fake(lambda step: interrupt() if step == 4 else 0.01), evaluate=lambda epoch: False)
    assert result.status == "interrupted"
    assert result.coef.tolist() == [0.01] * 4
    assert len(result.trace) == 1
    assert result.certificate.primal == pytest.approx(build().objective(np.full(4, 0.01)), rel=1e-13)


def test_ctrl_c_in_the_first_epoch_and_before():
    assert solve(build(), Fake(interrupt)).coef.tolist() == [0.0] * 4

    class Slow(Fake):
        def start(self, problem, rng, warm=None):
            return FakeState() if problem.n <= 4 else interrupt()

    result = solve(build(), Slow(lambda step: 1.0))
    assert (result.status, result.epochs, len(result.trace)) == ("interrupted", 0, 0)
    assert "interrupted" in repr(result)


CTRL_C = """
import os, signal, threading, time
import numpy as np
import dualgap
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits an ignored one
rng = np.random.default_rng(0)
X = rng.normal(size=(5000, 20))
problem = dualgap.Problem(X, X[:, 0] + rng.normal(size=5000) > 0, l2=1e-6)
begun = threading.Event()
def press():
    begun.wait()
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=press, daemon=True).start()
result = dualgap.solve(problem, "sdca", tol=0, max_epochs=10**9, stall=False, callbacks=[lambda progress: begun.set()])
print(result.status, result.epochs > 1, 0 <= result.certificate.gap < 1, bool(np.abs(result.coef).max() > 0))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals to oneself are of another kind there")
def test_a_real_ctrl_c():
    run = subprocess.run([sys.executable, "-c", CTRL_C], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["interrupted", "True", "True", "True"]


def test_a_callback_that_has_seen_enough():
    for answer in (True, np.True_):
        result = solve(
            build(), "sdca", tol=1e-12, callbacks=[lambda progress, answer=answer: answer if progress.epoch == 2 else None]
        )
        assert (result.status, result.epochs) == ("interrupted", 2)
    for answer in (1, "stop", [True], None, False):  # only True means stop: a callback may return what it likes
        result = solve(build(), "sdca", tol=1e-3, max_epochs=2000, callbacks=[lambda progress, answer=answer: answer])
        assert result.status == "converged"


def test_every_callback_is_called():
    calls = []
    callbacks = [lambda progress: calls.append("a") or True, lambda progress: calls.append("b")]
    solve(build(), "sdca", callbacks=(callback for callback in callbacks))
    assert calls == ["a", "b"]


def test_progress():
    seen = []
    result = solve(build(), "sdca", tol=1e-3, max_epochs=2000, callbacks=[seen.append])
    assert [p.epoch for p in seen] == result.trace["epoch"].tolist()
    last = seen[-1]
    assert last.record == result.trace.last()
    assert (last.tol, last.max_epochs) == (1e-3, 2000)
    assert last.certificate.gap == result.trace["gap"][-1]


def test_an_error_in_a_callback_is_the_callers():
    def callback(progress):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        solve(build(), "sdca", callbacks=[callback])


def test_max_seconds():
    with pytest.warns(ConvergenceWarning, match="max_seconds.*raise max_seconds"):
        result = solve(build(), Fake(lambda step: 0.01), tol=1e-9, max_epochs=10**9, max_seconds=0.05, stall=False)
    assert result.status == "max_seconds"
    assert result.trace["epoch"][-1] == result.epochs  # the last epoch is evaluated


# ----------------------------------------------------------------------------------------------------------------- what it says


def test_the_warning_says_all():
    with pytest.warns(ConvergenceWarning) as caught:
        result = solve(build(), SDCA(order="cyclic"), tol=1e-9, max_epochs=3)
    assert len(caught) == 1
    assert caught[0].filename == __file__  # it points at the caller's line
    text = str(caught[0].message)
    c = result.certificate
    for part in (
        "sdca(order='cyclic')",
        "'max_epochs'",
        "after 3 epochs",
        f"relative gap of {c.relative_gap:.1e}",
        f"gap {c.gap:.3g}",
        "tolerance 1.0e-09",
        "What to try: raise max_epochs",
        "standardise",
        "larger l2 (0.05 now)",
    ):
        assert part in text


def test_no_warning_where_nothing_is_wrong():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert solve(build(), "sdca", tol=1e-3, max_epochs=2000).converged
        assert solve(build(), "sdca", tol=0, max_epochs=3).status == "max_epochs"  # the budget was what was asked for
        assert solve(build(), "sdca", callbacks=[lambda progress: True]).status == "interrupted"


def test_compile_time_is_off_the_clock():
    """A loss of this test's own: its kernels are new to the process and are not in the disk cache either."""
    code = """
from typing import NamedTuple
import numpy as np
import dualgap
from dualgap.core.jit import compiled

@compiled
class Mine(NamedTuple):
    delta: float = 1.0
    value = dualgap.SmoothHinge.value
    slope = dualgap.SmoothHinge.slope
    psi = dualgap.SmoothHinge.psi
    dual_step = dualgap.SmoothHinge.dual_step
    gradient = dualgap.SmoothHinge.gradient
    curvature_at = dualgap.SmoothHinge.curvature_at
    upper_bound = dualgap.SmoothHinge.upper_bound
    curvature = dualgap.SmoothHinge.curvature

X = np.random.default_rng(0).normal(size=(40, 3))
problem = dualgap.Problem(X, X[:, 0] > 0, loss=Mine(0.5), l2=0.1)
first, second = dualgap.solve(problem, "sdca"), dualgap.solve(problem, "sdca")
same = dualgap.solve(dualgap.Problem(X, X[:, 0] > 0, loss="smooth_hinge", delta=0.5, l2=0.1), "sdca")
print(first.compile_seconds > 10 * first.wall_seconds, second.compile_seconds == 0.0, bool((first.coef == same.coef).all()))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False, env=os.environ)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["True", "True", "True"]


def test_the_clock_runs_forward_and_only_in_epochs():
    result = solve(build(), "sdca", tol=1e-4, max_epochs=2000, evaluate="epoch")
    for column in ("wall_seconds", "cpu_seconds", "passes", "epoch"):
        assert (np.diff(result.trace[column]) >= 0).all()
    assert result.trace["wall_seconds"][-1] == result.wall_seconds
    assert result.trace["cpu_seconds"][-1] == result.cpu_seconds


# ----------------------------------------------------------------------------------------------- schedules and held-out data


def test_schedules():
    def epochs(evaluate, count=60):
        fake = Fake(lambda step: 0.01)
        return solve(build(), fake, tol=0, max_epochs=count, evaluate=evaluate, stall=False).trace["epoch"].astype(int).tolist()

    assert epochs("epoch", 12) == list(range(1, 13))
    assert epochs(lambda epoch: epoch % 25 == 0) == [25, 50, 60]  # the last is always evaluated
    geometric = epochs("geometric", 200)
    assert geometric[:5] == [1, 2, 3, 4, 5]
    assert geometric[-1] == 200
    assert len(geometric) < 40
    assert max(b / a for a, b in itertools.pairwise(geometric[5:])) < 1.6
    with pytest.raises(ValueError, match=r"evaluate='sometimes' is unknown; choose 'auto', 'geometric', 'epoch' or a function"):
        solve(build(), "sdca", evaluate="sometimes")


@pytest.mark.filterwarnings("ignore::dualgap.ConvergenceWarning")
def test_watched_data():
    labels = np.where(Y > 0, "yes", "no")
    new, truth = make_data(50, 4, 12)
    names = np.where(truth > 0, "yes", "no")
    problem = Problem(X, labels, l2=0.05, intercept="free")
    watch = {"test": (new, names), "sparse": (sparse.csr_matrix(new), names), "one": (new[truth > 0], names[truth > 0])}
    result = solve(problem, "sdca", tol=0, max_epochs=4, evaluate="epoch", watch=watch)
    trace = result.trace
    wrong = result.predict(new) != names
    balanced = np.mean([np.mean(~wrong[names == name]) for name in ("yes", "no")])
    best = int(np.argmin(trace["primal"]))
    assert trace["test_error"][best] == pytest.approx(wrong.mean())
    assert trace["test_balanced_accuracy"][best] == pytest.approx(balanced)
    np.testing.assert_array_equal(trace["test_error"], trace["sparse_error"])
    np.testing.assert_allclose(trace["one_balanced_accuracy"], 1 - trace["one_error"])
    assert trace["train_error"][best] == pytest.approx(np.mean(result.predict(X) != labels))
    # All scores are 0, and `predict` says "no" to them.
    zero = solve(problem, Fake(lambda step: 0.0), max_epochs=1, tol=0, watch=(X, labels)).trace
    assert zero["train_error"][0] == zero["test_error"][0] < 1.0
    alone = solve(problem, "sdca", tol=0, max_epochs=4, evaluate="epoch", watch=(new, names)).trace
    np.testing.assert_array_equal(alone["test_error"], trace["test_error"])
    assert set(alone.to_pandas().columns) == set(alone.columns)


@pytest.mark.parametrize(
    ("watch", "words"),
    [
        ((X[:, :2], Y), "test X has 2 features, but the model was trained on 4"),
        ((X, Y[:-1]), "test y has 39 labels but X has 40 rows"),
        ((X, np.full(40, 7.0)), r"test y\[0\] is .*7.*not a label of the training data"),
        ((X, np.full(40, "a")), r"test y\[0\] is .*'a'.*not a label"),
        ({"valid": X}, r"watch: 'valid' must be a pair \(X, y\); got ndarray"),
        ((np.where(X > 1, np.nan, X), Y), "test X contains NaN at row"),
    ],
)
def test_watched_data_that_are_refused(watch, words):
    with pytest.raises(ValueError, match=words):
        solve(build(), "sdca", watch=watch)


# ------------------------------------------------------------------------------------------------------------------ arguments


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"tol": -1e-3}, ValueError, r"tol=-0\.001 must be a number in \[0, 1\)"),
        ({"tol": 1.0}, ValueError, "tol=1.0 must be a number in"),
        ({"tol": np.nan}, ValueError, "tol=nan must be a number in"),
        ({"max_epochs": 0}, ValueError, "max_epochs=0 must be a whole number"),
        ({"max_epochs": 2.5}, ValueError, r"max_epochs=2\.5 must be"),
        ({"max_seconds": 0.0}, ValueError, "max_seconds=0.0 must be a positive"),
        ({"max_seconds": np.nan}, ValueError, "max_seconds=nan must be"),
        ({"solver": "sdac"}, ValueError, r"solver='sdac' is unknown; choose one of .*sdca"),
        ({"solver": 3}, TypeError, "solver=3 is neither a name from .* nor a solver object"),
        ({"tol": "1e-3"}, ValueError, "tol='1e-3' must be a number in"),
        ({"max_seconds": "60"}, ValueError, "max_seconds='60' must be a positive number of seconds"),
        ({"problem": X}, TypeError, r"must be a dualgap\.Problem"),
        ({"solver": dict}, TypeError, r"nor a solver object \(it lacks \['supports', 'start'"),
    ],
)
def test_arguments_that_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        solve(**{"problem": build(), **options})


def test_solvers_by_name_class_and_object():
    traces = [solve(build(), solver, tol=0, max_epochs=3).trace["primal"] for solver in ("pegasos", Pegasos, Pegasos())]
    np.testing.assert_array_equal(traces[0], traces[1])
    np.testing.assert_array_equal(traces[0], traces[2])


def test_a_solver_without_a_label_goes_by_its_class():
    class Nameless(Fake):
        label = None

    with pytest.warns(ConvergenceWarning, match="^Nameless ended with status 'max_epochs'"):
        result = solve(build(), Nameless(lambda step: 0.01), max_epochs=1)
    assert repr(result).startswith("Result(Nameless: max_epochs")


def test_pegasos_begins_afresh_and_sdca_looks_at_dual_variables_only():
    problem = build()
    best = solve(problem, "sdca", tol=1e-6, max_epochs=1000)
    for solver, warm in (("pegasos", best), ("sdca", (best.coef, best.intercept, None))):
        cold, started = (solve(problem, solver, tol=0, max_epochs=3, warm_start=start).trace for start in (None, warm))
        np.testing.assert_array_equal(cold["primal"], started["primal"])


def test_two_rows_are_enough():
    for intercept in INTERCEPTS:
        problem = Problem([[1.0], [-1.0]], ["b", "a"], l2=0.1, intercept=intercept)
        result = solve(problem, "sdca", tol=1e-6, max_epochs=5000)
        assert result.status == "converged"
        assert result.predict([[2.0], [-2.0]]).tolist() == ["b", "a"]


def test_columns_of_nothing():
    """All features zero: no w helps, and the free intercept alone is the model."""
    problem = Problem(np.zeros((10, 2)), [0] * 3 + [1] * 7, l2=0.1, intercept="free")
    result = solve(problem, "sdca", tol=1e-6, max_epochs=5000)
    assert result.status == "converged"
    assert result.certificate.primal == pytest.approx(0.6)
    assert not result.coef.any()


def test_result():
    result = solve(build(), "sdca", tol=1e-3, max_epochs=2000)
    assert result.converged
    assert "sdca: converged after" in repr(result)
    assert (result.trace["gap"] >= 0).all()
    with pytest.raises(KeyError, match="no column 'loss'"):
        result.trace["loss"]
    np.testing.assert_allclose(result.decision(X), X @ result.coef + result.intercept)
    assert repr(dualgap.Trace()) == "Trace(empty)"
    assert repr(result.trace).startswith(f"Trace({len(result.trace)} evaluations to epoch")


def test_a_solver_may_go_on_writing_to_its_dual_variables():
    class Careless(dualgap.SDCA):
        def dual(self, problem, state):
            return state.ascent.beta

    problem = dualgap.Problem([[1.0, 0.3], [-1.0, 0.2], [0.4, -1.0], [0.3, 0.8]], [1, 0, 0, 1], l2=0.05)
    result = dualgap.solve(problem, Careless(), tol=0.0, max_epochs=7, evaluate=lambda epoch: epoch == 2)
    assert lower_bound(problem, result.dual) == pytest.approx(result.certificate.dual, rel=1e-12)


def test_notebooks_show_the_proof():
    from dualgap import Problem, solve

    result = solve(Problem([[1.0], [-1.0]], [1, 0], l2=0.5), "sdca")
    page = result._repr_html_()
    assert f"{result.status} after {result.epochs} epoch" in page
    assert f"<td>{result.certificate.relative_gap:.1e}</td>" in page
    assert page.count("<table>") == page.count("</table>") == 1


@pytest.mark.parametrize("tol", [0.0, 1e-4])
def test_a_run_that_returns_zero_says_so(tol):
    """Two epochs of Pegasos at a weak penalty: each model is far worse than w = 0."""
    X, y = make_data(40, 3)
    problem = dualgap.Problem(100.0 * X, np.where(np.arange(40) % 2, y, -y), l2=1e-9)
    with pytest.warns(dualgap.ConvergenceWarning, match="No model that the run found has a lower objective than w = 0"):
        result = dualgap.solve(problem, "pegasos", tol=tol, max_epochs=2)
    assert not result.coef.any()
