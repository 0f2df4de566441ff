"""Ctrl-C at single executed lines of dualgap: what is run, how Ctrl-C is pressed, and what must hold afterwards.

A trace function counts the lines of src/dualgap that a run executes and raises SIGINT at the k-th. tests/run/test_interrupts.py does so
at some lines of every solver, tools/interrupts.py at thousands.
"""

import logging
import random
import signal
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

import dualgap
from conftest import make_data, random_sparse
from dualgap import LinearSVC, Problem, WorkingSet, solve
from dualgap.answers.approximation import approximate
from dualgap.cluster import InProcess, Partition, make_objective, run_rounds
from dualgap.core import interrupts, threads
from dualgap.solvers import REGISTRY
from dualgap.solvers.base import can
from dualgap.store import write_store
from reference import REFERENCE_LOSSES, Model, dual_value, primal_value

SOURCE = str(Path(dualgap.__file__).parent)
BEGUN = "core/interrupts.py", "begin"  # when it has returned, Ctrl-C is held back: from then on no model may be lost
ROUNDING = 1e-9  # of P: what a certificate of these small, well-scaled problems may be off by
EXACT = np.longdouble
ENDING = "core/interrupts.py"  # where a run puts the caller's handler back; in threads its distance from the end varies
LAST = 30  # lines at the end of a run in which Ctrl-C comes after the status was written


# ------------------------------------------------------------------------------------------------------------------- what is run


@dataclass(frozen=True)
class Case:
    """A run, and what must hold of its outcome: `judge` raises an AssertionError where a certificate is not true."""

    name: str
    run: Callable[[], Any]
    judge: Callable[[Any], None]
    status: Callable[[Any], str] = lambda result: result.status


X, Y = make_data(150, 6, seed=3)
SPARSE = random_sparse(120, 40, 0.2, np.random.default_rng(2))
PROBLEMS = {
    "hinge": {"loss": "hinge", "l2": 1e-2},
    "hinge, free": {"loss": "hinge", "l2": 1e-3, "intercept": "free"},
    "squared hinge, penalised": {"loss": "squared_hinge", "l2": 1e-3, "intercept": "penalised"},
    "logistic, l1, free": {"loss": "logistic", "l2": 1e-3, "l1": 1e-2, "intercept": "free"},
    "logistic, free, sparse": {"loss": "logistic", "l2": 1e-5, "intercept": "free"},
    "hinge, rbf": {"loss": "hinge", "l2": 1e-3, "kernel": "rbf", "gamma": 0.3, "intercept": "free"},
    "hinge, rbf in blocks": {"loss": "hinge", "l2": 1e-2, "kernel": "rbf", "gamma": 0.3, "kernel_memory": 30_000},
}
OTHERS = {"working_set": WorkingSet(size=16, cache_size=0.1)}  # small sets, so that rows are shrunk and the cache evicts


def _problem(name: str) -> Problem:
    y = np.where(SPARSE @ np.linspace(-1, 1, 40) > 0, 1.0, -1.0)
    return Problem(SPARSE, y, **PROBLEMS[name]) if "sparse" in name else Problem(X, Y, **PROBLEMS[name])


def judge_result(result: Any) -> None:
    """P and D of the model and the dual variables, in long double, must be what the certificate says."""
    problem, c = result.problem, result.certificate
    assert np.isfinite(result.coef).all()
    assert np.isfinite(result.intercept)
    dense = problem.X.toarray() if sparse.issparse(problem.X) else np.asarray(getattr(problem, "dense", problem.X))
    loss = REFERENCE_LOSSES[{"SquaredHinge": "squared_hinge"}.get(type(problem.loss).__name__, type(problem.loss).__name__.lower())]
    if loss is REFERENCE_LOSSES["logistic"]:
        loss = loss._replace(psi=lambda b: -_entropy(b) - _entropy(1 - b))  # SciPy's xlogy has no long double
    y, weights, beta = (v.astype(EXACT) for v in (problem.y, problem.c, result.dual))
    coef, b, l2 = result.coef.astype(EXACT), EXACT(result.intercept), EXACT(problem.l2)
    if problem.kernel is not None:
        rows = dense.astype(EXACT)
        K = np.exp(-EXACT(problem.kernel.gamma) * np.square(rows[:, None, :] - rows[None, :, :]).sum(axis=2))
        primal = np.sum(weights * loss.value(y * (K @ coef + b))) + l2 / 2 * (coef @ K @ coef)
        a = weights * beta * y / l2
        dual = np.sum(weights * loss.psi(beta)) - l2 / 2 * (a @ K @ a)
    else:
        model = Model(dense.astype(EXACT), y, weights, loss, l2, EXACT(problem.l1), problem.intercept, problem.intercept_scale)
        primal, dual = primal_value(model, coef, b), dual_value(model, beta)
    if problem.intercept == "free":
        assert abs(np.sum(weights * beta * y)) <= 1e-12
    assert abs(float(primal) - c.primal) <= ROUNDING * c.primal, (primal, c)
    assert float(dual) >= c.dual - ROUNDING * c.primal, (dual, c)


def _entropy(b: np.ndarray) -> np.ndarray:
    return b * np.log(np.where(b > 0, b, 1))


def _judge_fit(model: Any) -> None:
    certificates = model.certificate_ if isinstance(model.certificate_, list) else [model.certificate_]
    assert all(0 <= c.gap <= c.primal * (1 + ROUNDING) for c in certificates)
    assert len(model.predict(X[:5])) == 5
    assert model.status_


def _judge_rounds(result: Any) -> None:
    model = Model(
        X.astype(EXACT), Y, np.full(len(Y), EXACT(1) / len(Y)), REFERENCE_LOSSES["hinge"], EXACT(1e-2), EXACT(0), "none", 1.0
    )
    assert abs(primal_value(model, result.coef.astype(EXACT)) - result.certificate.primal) <= ROUNDING
    assert result.certificate.gap >= 0


def _judge_stream(model: Any) -> None:
    assert np.isfinite(model.coef_).all()
    assert model.predict(X[:5]).shape == (5,)


def _rounds() -> Any:
    pool = InProcess([Partition(X[k::3], Y[k::3]) for k in range(3)])
    return run_rounds(pool, *make_objective(pool, "hinge", l2=1e-2), tol=1e-6, max_rounds=12, local_epochs=2)


def solver_cases() -> list[Case]:
    """Every solver of the registry on every problem that it takes."""
    cases = []
    for name in PROBLEMS:
        for key in sorted(REGISTRY):
            solver = OTHERS.get(key, REGISTRY[key]())
            if can(solver, _problem(name)):
                cases.append(Case(f"{key}: {name}", lambda s=solver, p=name: solve(_problem(p), s, 1e-9, 40), judge_result))
    return cases


def store_cases(folder: Path) -> list[Case]:
    """Rows that are read from disk."""
    store = write_store([(X, Y)], folder / "store", block_bytes=40 * X[0].nbytes, shuffle=False)

    def run() -> Any:
        problem = store.problem(l2=1e-2, intercept="free")
        vars(problem)["dense"] = X  # for the judge
        return solve(problem, "auto", 1e-9, 12)

    return [Case("auto: store", run, judge_result)]


def estimator_cases() -> list[Case]:
    """Fits of several problems, joint ones, paths, approximations, streams, and rounds of a cluster."""
    three = np.where(X[:, 0] > 0.7, 2, np.where(Y > 0, 1, 0))
    fits = {
        "LinearSVC, one against the rest": LinearSVC(tol=1e-8, max_iter=30, random_state=0),
        "LinearSVC, in threads": LinearSVC(tol=1e-8, max_iter=30, random_state=0, n_jobs=2),
        "LinearSVC, joint": LinearSVC(multi_class="crammer_singer", tol=1e-8, max_iter=30, random_state=0),
        "SVC, pairs": dualgap.SVC(tol=1e-8, max_iter=30, gamma=0.3, random_state=0),
    }
    cases = [Case(name, lambda m=m: clone(m).fit(X, three), _judge_fit, lambda m: m.status_) for name, m in fits.items()]
    path = dualgap.LinearSVCPath(Cs=4, l1_ratios=(0.5,), loss="logistic", tol=1e-7, max_iter=20, random_state=0)
    cases.append(Case("path", lambda: clone(path).fit(X, Y), _judge_stream, lambda m: m.status_))
    kernel = {"kernel": "rbf", "gamma": 0.3, "l2": 1e-3}
    cases.append(
        Case(
            "approximation",
            lambda: approximate(Problem(X, Y, **kernel), features=20).solve(tol=1e-9, max_epochs=20),
            _judge_features,
        )
    )
    cases.append(Case("rounds", _rounds, _judge_rounds))
    return cases


def _judge_features(result: Any) -> None:
    judge_result(result.result)


# -------------------------------------------------------------------------------------------------------------- how it is pressed


class Presser:
    """Counts executed lines of dualgap; at line number `at` of the run it presses Ctrl-C."""

    def __init__(self, at: int = 0) -> None:
        self.at, self.count, self.begun = at, 0, False
        self.place = ""  # where Ctrl-C was pressed
        self.seen: list[tuple[str, int]] = []  # without `at`: the lines
        self.first = 0  # the number of the first line after the run has begun

    def __call__(self, frame: Any, event: str, arg: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(SOURCE):
            return None
        if not self.begun and (name[len(SOURCE) + 1 :].replace("\\", "/"), frame.f_code.co_name) == BEGUN:
            return self.begin
        return self.line

    def begin(self, frame: Any, event: str, arg: Any) -> Any:
        self.line(frame, event, arg)
        if event == "return" and not self.begun:
            self.begun, self.first = True, self.count
        return self.begin

    def line(self, frame: Any, event: str, arg: Any) -> Any:
        if event == "line":
            self.count += 1
            if not self.at:
                self.seen.append((frame.f_code.co_filename, frame.f_lineno))
            elif self.count == self.at:
                self.place = f"{frame.f_code.co_filename[len(SOURCE) + 1 :]}:{frame.f_lineno}"
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return self.line

    def watch(self, run: Callable[[], Any]) -> Any:
        """Return what the run returns, with the lines counted or Ctrl-C pressed."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            return quietly(run)
        finally:
            sys.settrace(before)


def quietly(run: Callable[[], Any]) -> Any:
    """Return what a run returns, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run()


def lines_of(case: Case) -> tuple[list[tuple[str, int]], int]:
    """Return the executed lines of a run that nobody interrupts, and the number of the first one after it has begun."""
    quietly(case.run)  # compiles
    presser = Presser()
    case.judge(presser.watch(case.run))
    assert presser.begun
    return presser.seen, presser.first


def choose(lines: list[tuple[str, int]], count: int, seed: int, first: int = 0) -> list[int]:
    """Return numbers of lines to press at: half of them different lines of the source, as far as there are, the others at random."""
    draw = random.Random(seed)
    places: dict[tuple[str, int], list[int]] = {}
    for number, place in enumerate(lines[first:], first + 1):
        places.setdefault(place, []).append(number)
    distinct = [draw.choice(numbers) for numbers in places.values()]
    draw.shuffle(distinct)
    distinct = distinct[: count // 2]
    return distinct + [draw.randint(first + 1, len(lines)) for _ in range(count - len(distinct))]


def press(case: Case, at: int, total: int) -> str:
    """Press Ctrl-C at one line of `total`, and check what must hold; return "interrupted", "setup" or "late"."""
    errors, handler = np.geterr(), signal.getsignal(signal.SIGINT)
    level = logging.getLogger("dualgap").level
    presser = Presser(at)
    outcome = "setup"
    try:
        result = presser.watch(case.run)
    except KeyboardInterrupt:
        assert not presser.begun, f"{case.name}: the model was lost at line {at}, {presser.place}"
    else:
        assert presser.place, f"{case.name}: line {at} was not executed"
        case.judge(result)
        outcome = "interrupted" if case.status(result) == "interrupted" else "late"
        # When the outermost `kept` ends, the status is written.
        assert outcome == "interrupted" or at > total - LAST or ENDING in str(presser.place), (
            f"{case.name}: {case.status(result)} after {presser.place}"
        )
    where = f"{case.name}: after Ctrl-C at line {at}, {presser.place}"
    assert np.geterr() == errors, where
    assert signal.getsignal(signal.SIGINT) is handler, where
    assert not interrupts._handler.installed, where
    assert interrupts._handler.holds == 0, where
    assert threads.blas_alone.inside == 0, where
    assert logging.getLogger("dualgap").level == level, where
    return outcome
