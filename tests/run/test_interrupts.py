"""Ctrl-C at single lines of every solver and estimator: no model is lost, no certificate is wrong, nothing is left behind.

tools/interrupts.py does the same at thousands of lines.
"""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import presses
from conftest import make_data
from dualgap import LinearSVC, Problem, solve
from dualgap.core import interrupts, kept
from dualgap.run import driver, minimise_nu
from dualgap.solvers.auto import Auto
from dualgap.solvers.newton import Newton, NewtonCG, heuristics

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals to oneself are of another kind there")
X, Y = make_data(60, 4, seed=1)


@pytest.fixture(autouse=True)
def _default_handler():
    """A background job inherits an ignored SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def ctrl_c(times=1):
    for _ in range(times):
        signal.raise_signal(signal.SIGINT)


# ------------------------------------------------------------------------------------------------------------------ at single lines

# One run of each solver, the first that it takes; the others are the campaign's.
CASES = {case.name.split(":")[0]: case for case in reversed(presses.solver_cases() + presses.estimator_cases())}


@pytest.mark.parametrize("name", sorted(CASES))
def test_no_model_is_lost(name):
    lines, first = presses.lines_of(CASES[name])
    for at in [1, first + 1, len(lines), *presses.choose(lines, 6, seed=1, first=first)]:
        presses.press(CASES[name], at, len(lines))


def test_no_model_is_lost_on_a_store(tmp_path):
    (case,) = presses.store_cases(tmp_path)
    lines, first = presses.lines_of(case)
    for at in presses.choose(lines, 8, seed=1, first=first):
        presses.press(case, at, len(lines))


@pytest.mark.parametrize("function", [heuristics.shrink, heuristics.unshrink], ids=lambda function: function.__name__)
def test_every_line_of_newtons_shrinking(function):
    """Its arrays change their length together: an interrupt between two of them left a state that could not be evaluated."""
    X, y = make_data(4500, 4, seed=0)  # more rows than a small problem has, whose steps are one call
    problem = Problem(X, y, l2=1e-3, intercept="free")
    case = presses.Case("newton", lambda: solve(problem, "newton", tol=1e-10), presses.judge_result)
    lines, _ = presses.lines_of(case)
    code = function.__code__
    own = {number for *_, number in code.co_lines() if number}
    places = {}
    for at, (file, number) in enumerate(lines, 1):
        if file == code.co_filename and number in own:
            places[number] = at
    assert len(places) > 2, "the run did not come to it"
    evaluated = 0
    for at in places.values():
        presser = presses.Presser(at)
        result = presser.watch(case.run)
        assert result.status == "interrupted"
        evaluated += result.trace["epoch"][-1] == result.epochs  # the epoch that was cut short could be evaluated
    assert evaluated == len(places)


@pytest.mark.filterwarnings("ignore::dualgap.ConvergenceWarning")  # a run of one epoch may find nothing better than w = 0
def test_a_hand_over_is_not_without_a_model(monkeypatch):
    """While the next method of `auto` starts, the last one's model is still the run's."""
    X, y = make_data(60, 4, seed=1)
    problem = Problem(X, y, loss="squared_hinge", l2=1e-3)
    seen = []

    def start(self, problem, rng, warm=None):
        seen.append(warm)
        raise KeyboardInterrupt

    monkeypatch.setattr(Newton, "stall_steps", -1)
    solve(problem, "auto", tol=0, max_epochs=1)  # compiles
    monkeypatch.setattr("dualgap.solvers.coordinate.dca.DCA.start", start)
    result = solve(problem, Auto(), tol=1e-12)
    assert len(seen) == 1
    assert (result.status, result.epochs) == ("interrupted", 1)
    np.testing.assert_array_equal(result.coef, seen[0].coef)
    assert result.certificate.primal < problem.objective(np.zeros(4))


def test_a_state_beyond_evaluation_leaves_the_best_model(monkeypatch):
    problem = Problem(X, Y, l2=1e-2)
    reference = solve(problem, "sdca", tol=0, max_epochs=2, evaluate="epoch")
    epochs = []

    def epoch(self, problem, state, rng, original=presses.REGISTRY["sdca"].epoch):
        original(self, problem, state, rng)
        epochs.append(1)
        if problem.n > 4 and state.epochs == 3:
            state.ascent.beta = np.zeros(7)
            raise KeyboardInterrupt

    monkeypatch.setattr(presses.REGISTRY["sdca"], "epoch", epoch)
    result = solve(problem, "sdca", tol=0, evaluate="epoch")
    assert (result.status, result.epochs, len(result.trace)) == ("interrupted", 3, 2)
    assert result.certificate == reference.certificate
    np.testing.assert_array_equal(result.coef, reference.coef)


@pytest.mark.parametrize(
    "place", ["nu_dual.NuRun.start", "nu_dual.NuRun.step", "nu_linear.ThresholdColumns.start", "nu_linear.minimise"]
)
@pytest.mark.parametrize("task", ["classes", "one class", "regression"])
def test_a_nu_run_has_a_model_from_its_start(task, place, monkeypatch):
    """Before its first evaluation, too: that of the β that it starts from."""

    def pressed(*args, **kwargs):
        ctrl_c()

    solver = "auto" if "linear" in place else "working_set"
    monkeypatch.setattr(f"dualgap.run.{place}", pressed)
    if task == "regression":
        result = minimise_nu(Problem(X, X[:, 0], "epsilon_insensitive", intercept="free"), 0.3, solver, 1e-6, 100)
    else:
        free = task == "classes"
        y = Y if free else np.ones(len(X))
        result = minimise_nu(Problem(X, y, intercept="free" if free else "none", classes=(-1, 1)), 0.3, solver, 1e-6, 100)
    assert result.status == "interrupted"
    assert np.isfinite(result.coef).all()
    assert -np.inf < result.certificate.dual <= result.certificate.primal < np.inf


# ----------------------------------------------------------------------------------------------------------- pressed more than once


def pressed_in_evaluation(times, monkeypatch, finished):
    """A run with the given number of Ctrl-C during its second evaluation; `finished` gets a 1 at its end."""
    original, calls = driver.SolverRun.evaluate, []

    def evaluate(self):
        calls.append(1)
        if len(calls) == 2:
            ctrl_c(times)
        return original(self)

    problem = Problem(X, Y, l2=1e-2)
    solve(problem, "sdca", max_epochs=1, tol=0)  # compiles
    monkeypatch.setattr(driver.SolverRun, "evaluate", evaluate)
    monkeypatch.setattr(driver.SolverRun, "finish", lambda self: finished.append(1))
    return solve(problem, "sdca", tol=0, evaluate="epoch"), calls


def test_once_in_an_evaluation(monkeypatch):
    result, calls = pressed_in_evaluation(1, monkeypatch, [])
    assert (result.status, result.epochs, len(result.trace), len(calls)) == ("interrupted", 2, 2, 2)


@pytest.mark.parametrize("times", [2, 3])
def test_more_often(times, monkeypatch):
    """The second one is raised when the run is over, the third one at once."""
    finished = []
    with pytest.raises(KeyboardInterrupt):
        pressed_in_evaluation(times, monkeypatch, finished)
    assert finished == ([1] if times == 2 else [])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    monkeypatch.undo()
    assert solve(Problem(X, Y, l2=1e-2), "sdca", tol=1e-2).converged  # nothing stays behind


def test_before_there_is_a_model():
    with pytest.raises(KeyboardInterrupt), kept():
        ctrl_c()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_callers_own():
    """It is called in place of KeyboardInterrupt, and is there again afterwards."""
    heard = []

    def handler(number, frame):
        heard.append(number)

    signal.signal(signal.SIGINT, handler)
    result = solve(Problem(X, Y, l2=1e-2), "sdca", tol=0, max_epochs=3, callbacks=[lambda progress: ctrl_c()])
    assert (result.status, heard) == ("max_epochs", [signal.SIGINT] * 3)
    assert signal.getsignal(signal.SIGINT) is handler


def test_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    result = solve(Problem(X, Y, l2=1e-2), "sdca", tol=0, max_epochs=3, callbacks=[lambda progress: ctrl_c()])
    assert result.status == "max_epochs"
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_run_within_a_callback():
    """Ctrl-C ends the inner run, whose model comes back; the outer one goes on, and hears the next."""
    problem, inner, rounds = Problem(X, Y, l2=1e-2), [], []

    def callback(progress):
        rounds.append(progress.epoch)
        if progress.epoch == 2:
            pressing = [lambda p: ctrl_c() if p.epoch == 3 else None]
            inner.append(solve(problem, "sdca", tol=0, evaluate="epoch", callbacks=pressing))
        if progress.epoch == 4:
            ctrl_c()

    result = solve(problem, "sdca", tol=0, evaluate="epoch", callbacks=[callback])
    assert (inner[0].status, inner[0].epochs) == ("interrupted", 3)
    assert (result.status, rounds) == ("interrupted", [1, 2, 3, 4])


def test_other_threads_leave_the_handler_alone():
    found = []

    def work():
        listen = [lambda progress: found.append(signal.getsignal(signal.SIGINT))]
        found.append(solve(Problem(X, Y, l2=1e-2), "sdca", tol=0, max_epochs=2, callbacks=listen).status)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler] * 2 + ["max_epochs"]


def test_the_threads_of_a_pass_are_waited_for():
    """Ctrl-C within `held` is raised at its end, when nobody writes to shared arrays any more."""
    done = []

    def section():
        with interrupts.held():
            ctrl_c()
            done.append(1)
        done.append(2)

    with kept() as run:
        run.begin()
        with pytest.raises(KeyboardInterrupt), run.raised():
            section()
    assert done == [1]


def test_a_batch_moves_all_models_or_none():
    X, y = make_data(80, 4, seed=2)
    y = np.where(X[:, 0] > 0.7, 2, np.where(y > 0, 1, 0))
    model = LinearSVC(random_state=0, tol=1e-6).partial_fit(X[:40], y[:40], classes=[0, 1, 2])
    before = model.coef_.copy(), [stream.v.copy() for stream in model._fit.streams]
    calls = []
    with pytest.MonkeyPatch.context() as patch:
        original = interrupts.kept.begin

        def begin(self):
            original(self)
            calls.append(1)
            if len(calls) == 2:
                ctrl_c()

        patch.setattr(interrupts.kept, "begin", begin)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X[40:], y[40:])
    assert len(calls) == 2
    np.testing.assert_array_equal(model.coef_, before[0])
    for stream, v in zip(model._fit.streams, before[1], strict=True):
        np.testing.assert_array_equal(stream.v, v)


TWO = """
import os, signal, threading, time
import numpy as np
import dualgap
from dualgap.run import driver, minimise_nu
signal.signal(signal.SIGINT, signal.default_int_handler)
original = driver.SolverRun.evaluate
def evaluate(self):
    if self.tol == 0.0 and self.problem.n > 4:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
    return original(self)
X = np.random.default_rng(0).normal(size=(500, 5))
problem = dualgap.Problem(X, X[:, 0] > 0, l2=1e-6)
dualgap.solve(problem, "sdca", tol=1e-1, max_epochs=2)
driver.SolverRun.evaluate = evaluate
print(dualgap.solve(problem, "sdca", tol=0, max_epochs=10**9).status, signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_a_real_signal_in_an_evaluation():
    run = subprocess.run([sys.executable, "-c", TWO], capture_output=True, text=True, timeout=120, check=False, env=os.environ)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["interrupted", "True"]


# ------------------------------------------------------------------------------------------------------------------------ a stall


def test_a_method_that_is_stuck_is_told():
    """Nearly separable rows of 1e8: the estimate stays at 1, and only evaluations can tell that nothing moves."""
    rng = np.random.default_rng(0)
    X = 1e8 * rng.normal(size=(60, 10))
    y = np.where(X @ rng.normal(size=10) + 1e7 * rng.normal(size=60) > 0, 1, -1)
    y[:2] = 1, -1
    problem = Problem(X, y, loss="squared_hinge", l2=1e-6, intercept="free")
    with pytest.warns(UserWarning, match="stalled"):
        result = solve(problem, NewtonCG(), tol=1e-6, max_epochs=1000)
    assert result.status == "stalled"
    assert result.epochs < 900
