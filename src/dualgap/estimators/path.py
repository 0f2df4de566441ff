"""Path: the models of an estimator over C, in one mechanism for classes, targets and kernels.

A path has the models of a grid of C and l1_ratio, or for every C of a range, each started from the one before. Subclasses say how rows
become machines and how models become a fitted estimator. Predictions, and what is proven of them, are those of one fitted estimator, which
is chosen. Cross-validation chooses another one: `path_choice`.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dualgap.answers import SOLVED_SHARE, GuaranteedPath, mixed_coef, walk, zero_features
from dualgap.core import is_sparse, kept, number, slopes, whole_number
from dualgap.estimators.fitting import ConvergenceWarning, Fit, Kept, warn_unless_converged, worst_status
from dualgap.estimators.parameters import fit_seed, penalties
from dualgap.problem import Problem
from dualgap.proof import best_intercept, scores_of
from dualgap.run import Trace, Trained, certify, minimise

__all__ = ["Given", "Limits", "Machine", "Path", "Point", "trace"]


class Limits:
    """What the runs of a fit may cost: epochs for each, seconds for all of them, shared out; and their seed."""

    def __init__(self, max_epochs: int, max_seconds: float | None, seed: int) -> None:
        self.max_epochs, self.seed = max_epochs, seed
        self.end = None if max_seconds is None else time.perf_counter() + number("max_time", max_seconds)

    def share(self, parts: int) -> float | None:
        """Return until when the next of so many parts may take."""
        now = time.perf_counter()
        return None if self.end is None else now + max(self.end - now, 0.0) / max(parts, 1)


@dataclass(frozen=True)
class Machine:
    """The problem that certificates are for, the one that solvers work on, and the sum of the weights of the samples.

    The two differ for a kernel whose matrix is held: solvers take it as a precomputed one, and certificates take their sums from it,
    with bounds on the rounding that are those of the kernel.
    """

    proven: Problem
    solved: Problem
    total: float
    solver: Any

    def strengths(self, C: float, ratio: float = 0.0) -> tuple[float, float]:
        """Return (l2, l1) for a C and a share of l1."""
        return penalties(C, ratio, self.total)

    def problem(self, C: float, ratio: float = 0.0) -> Problem:
        """Return the problem that certificates are for."""
        l2, l1 = self.strengths(C, ratio)
        return self.proven.variant(l2=l2, l1=l1)

    def solve(
        self,
        C: float,
        ratio: float,
        warm: Any,
        tol: float,
        limits: Limits,
        until: float | None = None,
        halt: Callable[[], bool] | None = None,
        features: np.ndarray | None = None,
    ) -> Trained:
        """Solve for one C and share of l1; with `features`, a mask, over these columns alone."""
        l2, l1 = self.strengths(C, ratio)
        seconds = None if until is None else max(until - time.perf_counter(), 1e-9)
        solved = self.solved.variant(l2=l2, l1=l1)
        if features is not None:
            columns = solved.X[:, np.flatnonzero(features)]
            columns = columns if is_sparse(columns) else np.ascontiguousarray(columns)
            solved = solved.replace(X=columns, d=columns.shape[1])
        result = minimise(solved, self.solver, tol, limits.max_epochs, seconds, limits.seed, warm_start=warm, halt=halt)
        return result if self.solved is self.proven else Trained.of(result, problem=self.proven.variant(l2=l2, l1=l1))


DRAWN = 40  # points of each range that the figure of a guarantee shows


class Given(NamedTuple):
    """What `fit` was given, the checked training data made of it, and their labels or targets."""

    X: Any
    y: Any
    sample_weight: Any
    data: Any
    labels: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Point(Trained):
    """One model of a grid."""

    screened: int = 0  # features that were proved to be zero before it was trained


class Path(BaseEstimator):
    """Tracing, fitted attributes and figures of a path.

    Sets: `fit` sets `_chosen`, the fitted estimator that predicts; `_fit`, what `fit` was given with the dual variables, which is not
    pickled; for a guarantee `_paths`, a GuaranteedPath for each machine.
    """

    Cs: Any
    tol: float
    max_iter: int
    max_time: float | None
    random_state: Any
    guarantee: float | None = None
    screen: bool = False
    l1_ratios: Any = 0.0
    _chosen: Any
    _coefs = "coefs_"  # the fitted attribute that has the coefficients of the trained models

    # ----------------------------------------------------------------------------------------------------- what subclasses change

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> Given:
        """Check the data; set n_features_in_, feature_names_in_ and what tells classes or targets."""
        raise NotImplementedError

    def _machines(self, data: Any) -> list[Machine]:
        """Return the machines, one for each class, pair of classes or target."""
        raise NotImplementedError

    def _model(self, given: Given | None, C: float, ratio: float, results: Sequence[Trained]) -> Any:
        """Return a fitted estimator with these models of the machines; without the training data one that only predicts."""
        raise NotImplementedError

    def _titles(self) -> tuple[list[Any], list[str]]:
        """Return the labels that select one of several machines, and what a figure calls it."""
        raise NotImplementedError

    # -------------------------------------------------------------------------------------------------------------------- fitting

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train every model of the path.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d); for kernel="precomputed" the kernel matrix
        y : n labels or targets
        sample_weight : n numbers, optional; used in training, not in scoring
        """
        for name in [name for name in vars(self) if name in ("_chosen", "_paths") or name[0] != "_" == name[-1]]:
            delattr(self, name)  # of an earlier fit: a grid and a guarantee have different attributes
        given = self._checked(X, y, sample_weight)
        limits = Limits(whole_number("max_iter", self.max_iter), self.max_time, fit_seed(self.random_state))
        with kept() as ctrl_c:
            self._run(given, limits)
            if ctrl_c.take():
                self.status_ = "interrupted"
            return self

    def _run(self, given: Given, limits: Limits) -> None:
        """Train, and set the fitted attributes."""
        if self.guarantee is not None:
            self._run_every_C(given, limits)
        else:
            self._run_grid(given, limits)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        assert isinstance(state, dict)
        return {**state, "_fit": Fit()} if "_fit" in state else state

    # ----------------------------------------------------------------------------------------------------------------------- grid

    def _run_grid(self, given: Given, limits: Limits, stacklevel: int = 5) -> list[list[list[Point]]]:
        """Train the models of a grid, and keep the one of the largest C with the first ratio; return all, for each machine."""
        machines = self._grid(given.data)
        points = trace(machines, self.Cs_, self.l1_ratios_, number("tol", self.tol, "[0, 1]"), limits, self.screen)
        self._keep_grid(points)
        self._use(given, points, 0, len(self.Cs_) - 1)
        flat = [p for grid in points for row in grid for p in row]
        self.n_iter_ = max(p.epochs for p in flat)
        self.status_ = warn_unless_converged(type(self).__name__, flat, self.tol, stacklevel)
        self._fit = Fit(kept=Kept(*given[:3], [[[p.dual for p in row] for row in grid] for grid in points]))
        return points

    def _grid(self, data: Any) -> list[Machine]:
        """Set the grid, and return the machines."""
        self.l1_ratios_ = np.atleast_1d(np.asarray(self.l1_ratios, dtype=float))
        for ratio in self.l1_ratios_:
            number("l1_ratios", float(ratio), "[0, 1]")
        machines = self._machines(data)
        self.Cs_ = min((grid_of(machine, self.Cs, self.l1_ratios_) for machine in machines), key=lambda Cs: float(Cs[0]))
        return machines

    def _keep_grid(self, points: list[list[list[Point]]]) -> None:
        def gathered(of: Callable[[Point], Any]) -> np.ndarray:
            values = np.array([[[of(p) for p in row] for row in grid] for grid in points])
            return values[0] if len(points) == 1 else np.moveaxis(values, 0, 2)

        self.coefs_ = gathered(lambda p: p.coef)
        self.intercepts_ = gathered(lambda p: p.intercept)
        self.objectives_ = gathered(lambda p: p.certificate.primal)
        self.dual_gaps_ = gathered(lambda p: p.certificate.gap)
        self.n_iters_ = gathered(lambda p: p.epochs)
        self.screened_ = gathered(lambda p: p.screened)
        self.statuses_ = gathered(lambda p: p.status)
        alike = [[[p.certificate for p in each] for each in zip(*rows, strict=True)] for rows in zip(*points, strict=True)]
        self.certificates_ = [[each[0] if len(points) == 1 else each for each in row] for row in alike]

    def _use(self, given: Given, points: list[list[list[Point]]], i: int, j: int) -> None:
        """Predict by the point of ratio i and value j of C from now on."""
        self._choose(self._model(given, float(self.Cs_[j]), float(self.l1_ratios_[i]), [grid[i][j] for grid in points]))

    def _choose(self, model: Any) -> None:
        self._chosen = model
        for name in ("coef_", "intercept_"):
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))

    # -------------------------------------------------------------------------------------------------------------------- every C

    def _run_every_C(self, given: Given, limits: Limits) -> None:
        """Train models such that at every C of the range one is proven to be within the guarantee."""
        wanted = "a number between 0 and 1, such as 0.01: the relative distance from the optimum to be proven at every C"
        epsilon = number("guarantee", self.guarantee, "(0, 1)", wanted)
        self.l1_ratios_ = np.atleast_1d(np.asarray(self.l1_ratios, dtype=float))
        if len(self.l1_ratios_) != 1 or not 0.0 <= self.l1_ratios_[0] < 1.0:
            raise ValueError(
                f"l1_ratios={self.l1_ratios!r} must be one number in [0, 1) with a guarantee: each ratio has ranges of its own, and with "
                "l1_ratio=1 no dual point of one C is feasible at a larger one"
            )
        ratio = float(self.l1_ratios_[0])
        machines = self._machines(given.data)
        Cs = np.concatenate([grid_of(machine, self.Cs, self.l1_ratios_) for machine in machines])
        low, high = float(np.min(Cs)), float(np.max(Cs))
        if not low < high:
            raise ValueError(
                f"Cs={Cs.tolist()} has no two different values; a guarantee is for a range of C, such as Cs=[1e-3, 10]"
            )
        found: list[tuple[GuaranteedPath, list[Trained]]] = []
        for machine in machines:
            until = limits.share(len(machines) - len(found))

            def solve(C: float, warm: Any, machine: Machine = machine, until: float | None = until) -> Trained:
                return machine.solve(C, ratio, warm, SOLVED_SHARE * epsilon, limits, until)

            found.append(walk(solve, partial(machine.strengths, ratio=ratio), low, high, epsilon))
        self._paths = [path for path, _ in found]
        self._fit = Fit(kept=Kept(*given[:3], [[result.dual for result in results] for _, results in found]))
        self._keep_every_C([result for _, results in found for result in results])
        if any(path.uncovered and path.uncovered[-1][1] >= high for path in self._paths):  # the walk has not come to the largest C
            self._choose(self._model(None, high, ratio, [results[-1] for _, results in found]))
        else:
            ends = zip(machines, found, strict=True)
            self._choose(self._model(given, high, ratio, [_proven_at(machine, *each, high, ratio) for machine, each in ends]))

    def _keep_every_C(self, results: Sequence[Trained]) -> None:
        paths = self._paths

        def each(values: list[Any]) -> Any:
            return values[0] if len(values) == 1 else values

        self.guarantee_ = max(path.guarantee for path in paths)
        self.breakpoints_ = each([path.breakpoints for path in paths])
        self.Cs_ = each([path.Cs for path in paths])
        setattr(self, self._coefs, each([path.coefs for path in paths]))
        self.intercepts_ = each([path.intercepts for path in paths])
        self.mixes_ = each([path.mixes for path in paths])
        self.certificates_ = each([path.ranges for path in paths])
        self.uncovered_ = each([path.uncovered for path in paths])
        self.n_iter_ = max(result.epochs for result in results)
        self.status_ = self._status(results)

    def _status(self, results: Sequence[Trained]) -> str:
        """Return "converged" where nothing is uncovered; else why the walk ended, with a warning."""
        status = worst_status([result.status for result in results])
        holes = [hole for path in self._paths for hole in path.uncovered]
        if not holes:
            return "converged"
        if status == "converged":
            status = "rounding_limit"  # the solves came to their tolerance, and rounding has used up the rest of the guarantee
        if status != "interrupted":
            low, high = min(low for low, _ in holes), max(high for _, high in holes)
            tried = {"max_epochs": "raise max_iter", "max_seconds": "raise max_time"}.get(status, "standardise the features")
            warnings.warn(
                f"{type(self).__name__} has no proven model for some C between {low:.6g} and {high:.6g} (attribute uncovered_): status "
                f"{status!r}. What to try: {tried}; a larger guarantee ({self.guarantee:g} now); a smaller range of C.",
                ConvergenceWarning,
                stacklevel=6,
            )
        return status

    def model_at(self, C: float) -> Any:
        """Return the model that is proven at C, as a fitted estimator with its certificate; needs `guarantee`, which is its `tol`.

        Parameters
        ----------
        C : float
            Any value from the least to the largest of `Cs`.
        """
        paths, C = self._guaranteed(), number("C", C)
        results = [_result_at(path, C, self.n_iter_) for path in paths]
        model = self._model(None, C, float(self.l1_ratios_[0]), results)
        model.tol = self.guarantee  # what "converged" means for it
        return model

    def _guaranteed(self) -> list[GuaranteedPath]:
        check_is_fitted(self)
        if "_paths" not in vars(self):
            raise ValueError(
                f"this {type(self).__name__} was fitted without a guarantee and has models at the values Cs_ alone; set guarantee=0.01 "
                "for a model at every C"
            )
        return self._paths

    # -------------------------------------------------------------------------------------------------------------------- figures

    def plot_guarantee(self, ax: Any = None, label: Any = None) -> Any:
        """Draw how far from the optimum the models are at most, over C; returns matplotlib's axes. Needs `guarantee`.

        With several problems, `label` says which is drawn, the first one unless told: a class, "0 or 2" for a pair, the number of a target.
        """
        import matplotlib.pyplot as plt

        paths = self._guaranteed()
        k, title = self._drawn(label, len(paths))
        path, ax = paths[k], ax or plt.gca()
        Cs, bounds = [], []
        for each in path.ranges:
            for C in np.geomspace(each.Cs[0], each.Cs[-1], DRAWN)[1:-1]:
                found = each.at(float(C))
                Cs.append(C)
                bounds.append(100.0 * found.gap / found.dual if found.dual > 0.0 else math.inf)
        ax.fill_between(Cs, 0.0, bounds, alpha=0.3, linewidth=0.0, label="where the exact optimum can be, below the model")
        ax.plot(Cs, bounds, linewidth=1.0)
        percent = 100.0 * float(self.guarantee or 0.0)
        ax.axhline(percent, color="0.4", linestyle="--", linewidth=0.8, label=f"guarantee: {percent:g} %")
        ax.plot(path.Cs, np.zeros(len(path.Cs)), "k|", markersize=10, clip_on=False, label=f"trained at {len(path.Cs)} values of C")
        for low, high in path.uncovered:
            ax.axvspan(low, high, color="tab:red", alpha=0.3)
        ax.set_xscale("log")
        ax.set_xlabel("C")
        ax.set_ylabel("above the optimum, at most [%]")
        ax.set_title(f"{title}{': ' if title else ''}{len(path.ranges)} models, one for every C")
        return ax

    def plot_path(self, l1_ratio: float | None = None, ax: Any = None, label: Any = None) -> Any:
        """Draw the coefficients over C for one l1_ratio (the first one unless told); returns matplotlib's axes.

        With several problems, `label` says which is drawn (the first one unless told): a class, or the number of a target.
        """
        import matplotlib.pyplot as plt

        check_is_fitted(self)
        i = 0 if l1_ratio is None else int(np.argmin(np.abs(self.l1_ratios_ - l1_ratio)))
        coefs, gaps = self.coefs_[i], self.dual_gaps_[i] / self.objectives_[i]
        k, title = self._drawn(label, 1 if coefs.ndim == 2 else coefs.shape[1])
        if coefs.ndim == 3:
            coefs, gaps = coefs[:, k], gaps[:, k]
        ax = ax or plt.gca()
        ax.semilogx(self.Cs_, coefs)
        ax.axhline(0.0, color="0.7", linewidth=0.8)
        ax.set_xlabel("C")
        ax.set_ylabel("coefficient")
        of_class = f"{title}, " if title else ""
        ax.set_title(f"{of_class}l1_ratio = {self.l1_ratios_[i]:g}; relative gaps at most {float(np.max(gaps)):.0e}")
        return ax

    def _drawn(self, label: Any, machines: int) -> tuple[int, str]:
        """Return the number and the title of the machine that a figure shows."""
        if machines == 1:
            return 0, ""
        labels, titles = self._titles()
        if label is not None and label not in labels:
            raise ValueError(f"label={label!r} is unknown; choose one of {labels}")
        k = 0 if label is None else labels.index(label)
        return k, titles[k]

    # ---------------------------------------------------------------------------------------------------------------- predictions

    def predict(self, X: Any) -> Any:
        """Predict by the model that is chosen."""
        check_is_fitted(self)
        return self._chosen.predict(X)


def grid_of(machine: Machine, Cs: Any, ratios: np.ndarray) -> np.ndarray:
    """Return values of C in rising order: those given, or so many from where the first feature comes in, over three decades."""
    if np.ndim(Cs) > 0:
        if np.ndim(Cs) != 1 or len(Cs) == 0:
            raise ValueError(f"Cs={Cs!r} must be a list of positive numbers, such as [0.01, 100]")
        return np.sort([number("Cs", float(C) if isinstance(C, (int, np.integer)) else C) for C in Cs])
    count = whole_number("Cs", Cs)
    positive = ratios[ratios > 0]
    if len(positive) == 0:
        return np.geomspace(1e-4, 1e2, count)
    # At w = 0 the first feature comes in where l1 = ratio/(C·Σs) has come down to the largest |u|.
    base = machine.proven
    beta = np.empty(base.n)
    scores = base.offset.added(np.zeros(base.n))
    slopes(base.loss, base.y * (scores + best_intercept(base, scores)), beta)
    largest = float(np.abs(base.combine(base.c * base.y * beta)).max())
    lowest = float(positive.min()) / (machine.total * max(largest, 1e-300))
    return np.geomspace(lowest, 1e3 * lowest, count)


def trace(
    machines: Sequence[Machine], Cs: np.ndarray, ratios: np.ndarray, tol: float, limits: Limits, screen: bool
) -> list[list[list[Point]]]:
    """Train the models of a grid: for each machine and ratio those of every C, each started from the one before."""
    left, stop = len(machines) * len(ratios) * len(Cs), Event()
    found = []
    for machine in machines:
        grid = []
        for ratio in ratios:
            row: list[Point] = []
            for C in Cs:
                run = partial(
                    machine.solve, float(C), float(ratio), tol=tol, limits=limits, until=limits.share(left), halt=stop.is_set
                )
                row.append(_point(machine.problem(float(C), float(ratio)), row[-1] if row else None, run, tol, screen))
                left -= 1
                if row[-1].status == "interrupted":
                    stop.set()  # one epoch each for the points that are left
            grid.append(row)
        found.append(grid)
    return found


def _point(problem: Problem, last: Point | None, run: Callable[..., Trained], tol: float, screen: bool) -> Point:
    """Return the next model. With `screen`, features that the last model and dual point prove to be zero are left out of the run."""
    if last is None:
        return Point.of(run(warm=None))
    keep = features_left(problem, last) if screen else np.ones(problem.d, dtype=bool)
    if keep.all() or not keep.any():
        return Point.of(run(warm=(last.coef, last.intercept, last.dual)))
    screened = problem.d - int(np.count_nonzero(keep))
    result = run(warm=(last.coef[keep], last.intercept, last.dual), features=keep)
    coef = np.zeros(problem.d)
    coef[keep] = result.coef
    certificate = certify(problem, coef, result.intercept, result.dual)
    if result.converged and certificate.relative_gap > tol:  # nearly never: go on with all features
        return Point.of(run(warm=(coef, result.intercept, result.dual)), screened=screened)
    dual = result.dual if certificate.dual > 0.0 else np.zeros(problem.n)  # β of the bound, for a proof
    return Point.of(result, problem=problem, coef=coef, dual=dual, certificate=certificate, screened=screened)


def features_left(problem: Problem, last: Trained) -> np.ndarray:
    """Return which features may be other than zero in the minimiser, by what another model and dual point prove."""
    problem = problem.remembering()
    b = best_intercept(problem, scores_of(problem, last.coef))
    return ~zero_features(problem, last.coef, b, last.dual)


def _result_at(path: GuaranteedPath, C: float, epochs: int, **proof: Any) -> Trained:
    """Return the model that is proven at C as a result."""
    coef, intercept = path.model(path.index(C))
    return Trained(
        coef=coef,
        intercept=intercept,
        certificate=path.certificate(C),
        status="converged",
        trace=Trace(),
        epochs=epochs,
        cpu_seconds=0.0,
        wall_seconds=0.0,
        **proof,
    )


def _proven_at(machine: Machine, path: GuaranteedPath, results: Sequence[Trained], C: float, ratio: float) -> Trained:
    """Return that model with its problem and its dual variables: the mix of those of two trained models, as the model is."""
    i, j, t = path.mixes[path.index(C)]
    loss = machine.proven.loss
    dual = np.clip(mixed_coef(results[i].dual, results[j].dual, t), loss.lower_bound(), loss.upper_bound())
    return _result_at(path, C, max(result.epochs for result in results), problem=machine.problem(C, ratio), dual=dual)
