"""LeaveOneOut: the leave-one-out error of the exact model, from one fit. Bounds for all rows at once, and runs for the rows left open.

    1) bounds     the score that each row gets from the exact model of all other rows, by (2) of changed.py: right, wrong or open
    2) base fit   if the gap of the fit, and not the row itself, leaves many rows open, the fit is continued and 1) repeated
    3) runs       for each open row a run without it, from the dual variables of the fit, until the bounds of its own score have one sign

With several classes, one against the rest, the label is the class with the largest score, and a row's run is over all classes in question.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from dualgap.answers.changed import LEAST_LEFT, UP, Evidence, Reservoir, Step, evidence_of, largest_excess, products, without_rows
from dualgap.answers.settled import feature_status
from dualgap.answers.votes import labels_by_class
from dualgap.core import ROUNDOFF, Bounded, blas_alone, is_sparse, is_whole, kept, one_processor, slopes
from dualgap.problem import Problem
from dualgap.run import SolverRun, drive, minimise, prepare_solver
from dualgap.solvers import LocalAscent, Warm

__all__ = ["Fitted", "LeaveOneOut", "left_out_scores"]

FINEST = 1e-13  # relative gap at which a run without a row ends in any case: float64 has no more digits
EPOCHS = 5000  # of a run without a row, at most
FURTHER = 1e-2  # factor on the relative gap when the base fit is continued …
TIMES = 4  # … at most this number of times
NEARLY = 1e-4  # factor on the gap that counts as a nearly exact fit
CHECKS = 8  # times that the bounds are computed in a run over some rows, before one over all rows takes its place
SWEEPS = 25  # over these rows, at most, before the first of those, and twice as many before each further one
SURE = 0.8  # estimated uncertainty of a score / the score, below which the bounds are computed
NEAR = 0.1  # distance from the kink, in units of the margin, within which a row at its bound is visited from the start
FEW = 0.5  # share of the rows that a run over some of them may visit
VISIT = 0.1  # rows whose part of the gap exceeds this share of the mean are visited from then on
WORTH = 10  # … while it may settle this number of rows or more: a continued fit costs about as much as some runs


@dataclass(frozen=True)
class Fitted:
    """A problem of two sides with a model and a dual point."""

    problem: Problem
    coef: np.ndarray
    intercept: float
    dual: np.ndarray

    @cached_property
    def scores(self) -> np.ndarray:
        """x·w of every row"""
        return self.problem.scores(self.problem.stored(self.coef))


class LeaveOneOut:
    """The leave-one-out error of the exact model at fixed C: each row left out in turn, all others with the weights that they have.

    Attributes
    ----------
    low, high : float
        Bounds of the error: the share of rows that the exact model of all other rows gives a wrong label. Rows count alike.
    status : array of n words
        "right", "wrong", or "open" where the label is not proven yet.
    scores : (low, high)
        Bounds of the score that each row gets from the exact model of all other rows; for several classes a line for each.
    limited : array of row numbers
        Open rows whose runs came to the limit of float64: their score is zero, or two scores are equal, to rounding.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> result = dualgap.solve(dualgap.Problem(scale(X), y, l2=1e-2, intercept="free"), tol=1e-4)
    >>> found = result.leave_one_out()
    >>> found.low <= found.high
    True
    >>> found.exact()
    LeaveOneOut(569 rows: error 2.11 %, 12 wrong)
    """

    def __init__(self, fits: Sequence[Any], codes: np.ndarray | None = None) -> None:
        self._fits = [Fitted(each.problem, each.coef, float(each.intercept), each.dual) for each in fits]
        problem = self._fits[0].problem
        self._codes = (problem.y > 0.0).astype(np.intp) if codes is None else codes
        self.limited = np.zeros(0, dtype=np.intp)
        self._bound()

    def _bound(self) -> None:
        evidence = [evidence_of(each.problem, each.coef, each.intercept, each.dual) for each in self._fits]
        self._low, self._high = _stacked([left_out_scores(each) for each in evidence])
        # How many rows would stay open if the fit were exact, or nearly.
        low, high = _stacked([left_out_scores(replace(each, base=NEARLY * each.base)) for each in evidence])
        self._at_best = int(np.count_nonzero(_status(low, high, self._codes) == "open"))

    # -------------------------------------------------------------------------------------------------------------- answers

    @property
    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        return (self._low[0], self._high[0]) if len(self._low) == 1 else (self._low, self._high)

    @property
    def status(self) -> np.ndarray:
        return _status(self._low, self._high, self._codes)

    @property
    def low(self) -> float:
        return float(np.mean(self.status == "wrong"))

    @property
    def high(self) -> float:
        return float(np.mean(self.status != "right"))

    def __repr__(self) -> str:
        status, n = self.status, len(self._codes)
        wrong, unsettled = np.count_nonzero(status == "wrong"), np.count_nonzero(status == "open")
        if not unsettled:
            return f"LeaveOneOut({n} rows: error {100 * self.low:.3g} %, {wrong} wrong)"
        return f"LeaveOneOut({n} rows: error between {100 * self.low:.3g} and {100 * self.high:.3g} %, {unsettled} open)"

    # ----------------------------------------------------------------------------------------------------------------- runs

    def exact(self, n_jobs: int | None = None, progress: Callable[[int, int], Any] | None = None) -> LeaveOneOut:
        """Settle the open rows, so that `low` = `high`, by a run without each of them that ends as soon as its label is proven.

        Ctrl-C ends it early and keeps what is done; another call goes on from there. A row whose score is zero to rounding stays open:
        `limited` has its number.

        Parameters
        ----------
        n_jobs : int, optional
            Threads; −1 for all processors. None is 1.
        progress : function of two numbers, optional
            Called with the rows done and all open rows, after each row.

        Returns
        -------
        self
        """
        if n_jobs is not None and (not is_whole(n_jobs) or n_jobs == 0):
            raise ValueError(f"n_jobs={n_jobs!r} must be a whole number that is not 0, or None for one thread")
        if progress is not None and not callable(progress):
            raise TypeError(f"progress={progress!r} must be a function of two numbers: the rows done and all of them")
        # Many small products, one after the other: threads of the BLAS would take longer to begin than to multiply.
        with kept() as ctrl_c, blas_alone:
            ctrl_c.begin()
            try:
                with ctrl_c.raised():
                    self._sharpen()
                rows = np.setdiff1d(np.flatnonzero(self.status == "open"), self.limited)
                self._settle(rows, effective_n_jobs(n_jobs), progress, ctrl_c)
            except KeyboardInterrupt:
                if not ctrl_c.answer():
                    raise
            ctrl_c.take()
        return self

    def _sharpen(self) -> None:
        """Continue the fit while its gap leaves many more rows open than an exact fit would."""
        for _ in range(TIMES):
            unsettled = int(np.count_nonzero(self.status == "open"))
            if unsettled - self._at_best < WORTH:
                return
            before = self._fits
            self._fits = [_continued(each) for each in before]
            self._bound()
            if int(np.count_nonzero(self.status == "open")) > 0.9 * unsettled:
                return

    def _settle(self, rows: np.ndarray, threads: int, progress: Any, ctrl_c: Any) -> None:
        if not len(rows):
            return
        for each in self._fits:
            _prepare(each)
        stop = threading.Event()
        done = 0

        def report() -> None:
            nonlocal done
            done += 1
            if progress is not None:
                with ctrl_c.raised():
                    progress(done, len(rows))

        if threads == 1 or len(rows) == 1:
            for i in rows.tolist():
                if not self._settle_row(i, stop) or ctrl_c.pressed():
                    return
                report()
            return
        with ThreadPoolExecutor(min(threads, len(rows)), thread_name_prefix="dualgap") as pool:

            def settle(i: int) -> bool:
                with one_processor():
                    return not stop.is_set() and self._settle_row(i, stop)

            futures = [pool.submit(settle, i) for i in rows.tolist()]
            try:
                with ctrl_c.raised():
                    for future in as_completed(futures):
                        future.result()
                        report()
            except BaseException:
                stop.set()  # the runs at work end after their present epoch
                raise

    def _settle_row(self, i: int, stop: threading.Event) -> bool:
        """Run without row i until its label is proven; return False where that was interrupted."""
        limited = False
        while not limited:
            low, high = self._low[:, i], self._high[:, i]
            k = _in_question(low, high, int(self._codes[i]))
            if k is None:
                return True
            # One problem: until its label is proven. Several: until the widest interval in question is much narrower, then the next.
            target = 0.0 if len(self._fits) == 1 else 0.1 * (high[k] - low[k])
            ended = _run_without(self._fits[k], i, target, stop)
            self._low[k, i], self._high[k, i] = max(low[k], ended.low), min(high[k], ended.high)
            if ended.status == "interrupted":
                return False
            limited = ended.status != "decided"
        if _in_question(self._low[:, i], self._high[:, i], int(self._codes[i])) is not None:
            self.limited = np.union1d(self.limited, [i]).astype(np.intp)
        return True


# ------------------------------------------------------------------------------------------------------------------- bounds


def left_out_scores(
    evidence: Evidence, which: np.ndarray | None = None, sides: tuple[float, ...] = (-1.0, 1.0)
) -> tuple[np.ndarray, np.ndarray]:
    """Bound, for each row, the score that it gets from the exact model of all other rows: (2) with q = x and D = cβyx.

    `which` has the rows that are wanted, `sides` the bounds: −1 is the lower one, 1 the upper one. The other one is infinite.
    """
    problem = evidence.problem
    rows = np.arange(problem.n) if which is None else np.asarray(which)
    if not math.isfinite(evidence.base):
        return np.full(len(rows), -np.inf), np.full(len(rows), np.inf)
    fixed = rows == evidence.fixed
    r = problem.c[rows] * evidence.point.beta[rows] * problem.y[rows]
    taken = Bounded(r, 4.0 * ROUNDOFF * np.abs(r) + np.where(fixed, evidence.moved, 0.0))
    base = np.maximum(evidence.base - np.where(fixed, 0.0, evidence.gaps[rows]), 0.0) * UP
    # A row whose β is 0 takes no mass with it: the moves to the other side are then of no use.
    steps = _steps(evidence, rows, along=evidence.apart_along(rows), sides=(-1.0, 1.0) if r.any() else sides, some=bool(r.any()))
    here, off = evidence.scores[rows], evidence.off[rows]
    low, high = (np.full(len(rows), np.inf) for _ in range(2))
    for side in sides:
        excess = largest_excess(base, taken, steps, side)
        bound = side * here + (off + 8.0 * ROUNDOFF * np.abs(here)) * UP + excess + 64.0 * ROUNDOFF * np.abs(excess)
        low, high = (bound, high) if side < 0.0 else (low, bound)
    empty = _rows_of_zeros(problem, rows)
    if problem.intercept == "none" and empty.any():
        low, high = np.where(empty, 0.0, low), np.where(empty, 0.0, high)  # x·w is 0 for every w
    lonely = _one_class_left(problem, rows)
    if lonely.any():
        # One class is left, and b is free: every minimiser, or sequence towards the infimum, ends at scores of that class's sign.
        low = np.where(lonely & (problem.y[rows] > 0.0), np.inf, low)
        high = np.where(lonely & (problem.y[rows] < 0.0), np.inf, high)
        low[lonely & (problem.y[rows] < 0.0)] = -np.finfo(float).tiny
        high[lonely & (problem.y[rows] > 0.0)] = 0.0
    return -low, high


def _steps(evidence: Evidence, rows: np.ndarray, along: Bounded, sides: tuple[float, ...], some: bool) -> list[Step]:
    """Return what each reservoir brings into the rows' bounds; `some`: rows with a mass are among them, `along`: e·x."""
    problem = evidence.problem
    if problem.intercept == "free":
        return [_step(evidence, rows, along, at) for side in sides for at in evidence.reservoirs(side, some)]
    scale = problem.intercept_scale if problem.intercept == "penalised" else 0.0
    curvature = _curvature(np.hypot(problem.norms[rows], scale) * UP, problem.l2)
    return [Step(side, 0.5 * (-side * along).upper, curvature, np.full(len(rows), np.inf)) for side in sides]


def _curvature(distances: np.ndarray, l2: float) -> np.ndarray:
    return distances**2 / (4.0 * l2) * UP


def _step(evidence: Evidence, rows: np.ndarray, along: Bounded, at: Reservoir) -> Step:
    """Return what a reservoir brings into the rows' bounds: z = side·τ(x̄ − x). A row that is in it is taken out."""
    problem, mean, lengths = evidence.problem, at.mean, evidence.problem.norms[rows]
    product = products(problem, mean.vector, rows)
    squared = lengths**2 - 2.0 * product.value + mean.length**2 + 2.0 * product.radius
    squared += 16.0 * ROUNDOFF * (lengths + mean.length) ** 2
    distances = np.sqrt(np.maximum(squared, 0.0)) * UP + mean.drift
    masses, costs = at.shares(rows)
    left = (at.mass - masses) * (1.0 - 1e-12)
    usable = left > LEAST_LEFT * at.whole
    left = np.where(usable, left, at.mass)
    factor = np.where(usable, at.mass / left, 1.0)  # of x̄ − x once x is taken out
    slope = (at.cost - costs) / left
    slope = slope + 2e-12 * (np.abs(slope) + abs(at.cost) / left)
    difference = (evidence.apart_at(at) - along) * (at.side * factor)
    slope = np.where(usable, slope + 0.5 * difference.upper, np.inf)
    return Step(at.side, slope, _curvature(distances * factor, problem.l2), np.where(usable, left, 0.0))


def _rows_of_zeros(problem: Problem, rows: np.ndarray) -> np.ndarray:
    """Return which rows of data are zero in every feature; no row with a kernel."""
    found = np.zeros(len(rows), dtype=bool)
    if problem.kernel is None and problem.X is not None:
        short = np.flatnonzero(problem.sqnorms[rows] == 0.0)  # squares of small numbers underflow, so this is not enough
        if len(short):
            X = problem.X[rows[short]]
            found[short] = (X != 0).sum(axis=1).reshape(-1) == 0 if not hasattr(X, "toarray") else (X != 0).getnnz(axis=1) == 0
    return found


def _one_class_left(problem: Problem, rows: np.ndarray) -> np.ndarray:
    """Return which rows leave one class alone behind, if the intercept is free: then the exact model has no finite score."""
    if problem.intercept != "free":
        return np.zeros(len(rows), dtype=bool)
    weighted = problem.c > 0.0
    single = {sign: np.count_nonzero(weighted & (problem.y == sign)) for sign in (-1.0, 1.0)}
    alone = np.where(problem.y[rows] > 0.0, single[1.0], single[-1.0]) - weighted[rows]
    return np.asarray(alone <= 0)


# --------------------------------------------------------------------------------------------------------------- labels, runs


def _stacked(bounds: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    return np.stack([low for low, _ in bounds]), np.stack([high for _, high in bounds])


def _status(low: np.ndarray, high: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return "right", "wrong" or "open" for each row, from bounds of its scores, a line for each problem."""
    right, wrong = labels_by_class(codes, low.T, high.T)
    return np.where(right, "right", np.where(wrong, "wrong", "open"))


def _in_question(low: np.ndarray, high: np.ndarray, code: int) -> int | None:
    """Return the problem whose score is to be bounded better for one row, the one with the widest interval; None once it is settled."""
    if _status(low[:, None], high[:, None], np.array([code]))[0] != "open":
        return None
    if len(low) == 1:
        return 0
    rivals = high >= low.max()
    rivals[code] = True
    return int(np.argmax(np.where(rivals, high - low, -np.inf)))


@dataclass(frozen=True)
class _Ended:
    low: float
    high: float
    status: str  # "decided", "interrupted" or "limited"


def _run_without(fit: Fitted, i: int, width: float, stop: threading.Event) -> _Ended:
    """Minimise without row i until the bounds of its score have one sign (width = 0) or are at most `width` apart."""
    problem = without_rows(fit.problem, np.array([i])).remembering()
    judge = _Judge(problem, i, width)
    beta = fit.dual.copy()
    beta[i] = 0.0
    if problem.kernel is None and _run_locally(fit, i, problem, beta, judge, stop):
        return judge.ended(stop.is_set())
    solver, _ = prepare_solver(problem, "auto")
    run = SolverRun(problem, solver, np.random.default_rng(0), FINEST, Warm(fit.coef, fit.intercept, beta))

    def decided(_: Any) -> bool:
        best = run.best
        return judge.decides(best.coef, best.intercept, np.zeros(problem.n) if best.beta is None else best.beta)

    ended = drive(run, FINEST, EPOCHS, evaluate="epoch", callbacks=[decided], halt=stop.is_set)
    return judge.ended(ended.status == "interrupted")


class _Judge:
    """The bounds of the score of a row that was left out, from every model and dual point that is shown; `decides` is called first."""

    def __init__(self, problem: Problem, i: int, width: float) -> None:
        self.problem, self.row, self.width = problem, np.array([i]), width
        self.low, self.high = -math.inf, math.inf
        self.evidence: Evidence | None = None

    def decides(self, coef: np.ndarray, intercept: float, beta: np.ndarray) -> bool:
        self.evidence = evidence_of(self.problem, coef, intercept, beta)
        score = float(self.evidence.scores[self.row[0]])
        # Where the sign alone is wanted, only one of the bounds can tell it.
        sides = (-1.0, 1.0) if self.width > 0.0 or score == 0.0 else (-math.copysign(1.0, score),)
        low, high = (float(end[0]) for end in left_out_scores(self.evidence, self.row, sides))
        if score == 0.0 and self._is_zero(coef, intercept, beta):
            low = high = 0.0
        self.low, self.high = max(low, self.low), min(high, self.high)
        return self.decided

    def _is_zero(self, coef: np.ndarray, intercept: float, beta: np.ndarray) -> bool:
        """Return whether the exact score is 0 for certain: every feature of the row has the coefficient 0, and there is no intercept."""
        problem = self.problem
        if problem.kernel is not None or problem.intercept != "none":
            return False
        X: Any = problem.X
        row = X[self.row]
        features = row.indices if is_sparse(row) else np.flatnonzero(row[0])
        return bool((feature_status(problem, coef, intercept, beta)[features] == "zero").all())

    @property
    def decided(self) -> bool:
        return self.high - self.low <= self.width if self.width > 0.0 else self.low > 0.0 or self.high <= 0.0

    def ended(self, interrupted: bool) -> _Ended:
        return _Ended(self.low, self.high, "decided" if self.decided else "interrupted" if interrupted else "limited")


def _run_locally(fit: Fitted, i: int, problem: Problem, beta: np.ndarray, judge: _Judge, stop: threading.Event) -> bool:
    """Visit the rows whose β is free or may become so, and those found to violate the KKT conditions.

    Return whether that decides, or was interrupted. Where most rows can move, a method over all rows is faster: then nothing is done.
    """
    free = _movable(problem.loss, problem.y * (fit.scores + fit.intercept), beta)
    free[i] = False
    if free.mean() > FEW:
        return False
    ascent = LocalAscent(problem, beta, fit.intercept, np.flatnonzero(free), np.random.default_rng(0))
    length, gap = float(problem.norms[i]), math.inf
    for check in range(CHECKS):
        for _ in range(SWEEPS << check):
            before, gap = gap, ascent.sweep()
            # How far the exact score may be from the present one, by the gap over the visited rows, which lags a sweep behind.
            reach = length * math.sqrt(max(gap, 0.0) * min(gap / before, 1.0) / problem.l2) if before > 0.0 else 0.0
            if math.isfinite(before) and reach <= SURE * (judge.width or abs(ascent.score(i))):
                break
            if stop.is_set():
                return True
        if judge.decides(ascent.model(), ascent.intercept, ascent.beta.copy()):
            return True
        assert judge.evidence is not None
        ascent.visit(np.flatnonzero(judge.evidence.gaps > VISIT * judge.evidence.base / problem.n))
    return False


def _movable(loss: Any, margins: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """Return which rows have a β inside its box, or one at a bound with a small gradient."""
    inside = (beta > 0.0) & (beta < loss.upper_bound())
    near = np.abs(beta - _slopes(loss, margins + NEAR)) + np.abs(beta - _slopes(loss, margins - NEAR))
    return np.asarray(inside | (near > 0.0))


def _slopes(loss: Any, margins: np.ndarray) -> np.ndarray:
    out = np.empty(len(margins))
    slopes(loss, margins, out)
    return out


def _continued(fit: Fitted) -> Fitted:
    """Continue a fit to a smaller relative gap."""
    problem = fit.problem
    now = minimise(problem, "auto", 0.1, 1, warm_start=(fit.coef, fit.intercept, fit.dual)).certificate.relative_gap
    found = minimise(problem, "auto", max(FURTHER * now, FINEST), EPOCHS, warm_start=(fit.coef, fit.intercept, fit.dual))
    return Fitted(problem, found.coef, float(found.intercept), found.dual)


def _prepare(fit: Fitted) -> None:
    """Compile what the runs need, and compute what they share, before threads begin."""
    problem = fit.problem
    _ = problem.norms, problem.longest, fit.scores
    if problem.kernel is not None and not problem.blocked:
        _ = problem.rows
    prepare_solver(without_rows(problem, np.array([0])), "auto")
