"""Path: the models of an estimator over C, in one mechanism for classes, targets and kernels.

A path has the models of a grid of C and l1_ratio, or for every C of a range, each started from the one before. Subclasses say how rows
become machines and how models become a fitted estimator. Predictions, and what is proven of them, are those of one fitted estimator, which
is chosen. Cross-validation chooses another one: `path_choice`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dualgap.answers import SOLVED_SHARE, Fold, GuaranteedPath, mixed_coef, walk
from dualgap.core import kept, number, whole_number
from dualgap.estimators.fitting import ConvergenceWarning, Start, warn_unless_converged, worst_status
from dualgap.estimators.model import Fit, Kept, Model
from dualgap.estimators.parameters import Loss, estimator, fit_seed
from dualgap.estimators.path_grid import Limits, Machine, Point, grid_of, trace
from dualgap.estimators.samples import Targets
from dualgap.run import Trained
from dualgap.solvers import Solver

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Given", "Path", "Values"]


DRAWN = 40  # points of each range that the figure of a guarantee shows


Values = Sequence[float] | np.ndarray


class Given(NamedTuple):
    """What `fit` was given, the checked training data made of it, and their labels or targets."""

    kept: Kept
    data: Targets
    labels: np.ndarray


@estimator
class Path(BaseEstimator):
    """Tracing, fitted attributes and figures of a path.

    Sets: `fit` sets `_chosen`, the fitted estimator that predicts; `_fit`, what `fit` was given with the dual variables, which is not
    pickled; for a guarantee `_paths`, a GuaranteedPath for each machine.

    Parameters
    ----------
    Cs : int or array
        Values of C, or how many to take.
    loss, delta, fit_intercept, intercept, tol, max_iter, solver, random_state
        As in the estimator of one C.
    max_time : float, optional
        Seconds for the whole path, shared out among the points.
    """

    Cs: int | Values = field(default=20, kw_only=False)
    loss: Loss = "squared_hinge"
    delta: float | None = None
    fit_intercept: bool = True
    intercept: str = "free"
    tol: float = 1e-4
    max_iter: int = 1000
    max_time: float | None = None
    solver: str | Solver = "auto"
    random_state: int | np.random.RandomState | None = None

    # parameters of some paths alone
    guarantee: float | None = field(default=None, init=False)
    screen: bool = field(default=False, init=False)
    l1_ratios: float | Values = field(default=0.0, init=False)
    cv: object = field(default=None, init=False)
    n_jobs: int | None = field(default=None, init=False)
    scoring: str | Callable[..., float] | None = field(default=None, init=False)
    certified: bool = field(default=False, init=False)

    Cs_: Any = field(init=False)  # with a guarantee and several problems a list
    l1_ratios_: np.ndarray = field(init=False)
    C_: float = field(init=False)
    l1_ratio_: float = field(init=False)
    n_iter_: int = field(init=False)
    winners_: list[Any] = field(init=False)
    intervals_: np.ndarray = field(init=False)
    gaps_: np.ndarray = field(init=False)
    _chosen: Model = field(init=False)
    _coefs: ClassVar[str] = "coefs_"  # the fitted attribute that has the coefficients of the trained models

    # ----------------------------------------------------------------------------------------------------- what subclasses change

    def _checked(self, X: object, y: object, sample_weight: ArrayLike | None) -> Given:
        """Check the data; set n_features_in_, feature_names_in_ and what tells classes or targets."""
        raise NotImplementedError

    def _machines(self, data: Targets) -> list[Machine]:
        """Return the machines, one for each class, pair of classes or target."""
        raise NotImplementedError

    def _model(self, given: Given | None, C: float, ratio: float, results: Sequence[Trained]) -> Any:
        """Return a fitted estimator with these models of the machines; without the training data one that only predicts."""
        raise NotImplementedError

    def _titles(self) -> tuple[list[Any], list[str]]:
        """Return the labels that select one of several machines, and what a figure calls it."""
        raise NotImplementedError

    def _fold(
        self, given: Given, train: np.ndarray, test: np.ndarray, points: Sequence[tuple[float, float]], limits: Limits
    ) -> Fold:
        """Return a fold of the contest of a certified choice."""
        raise NotImplementedError

    # -------------------------------------------------------------------------------------------------------------------- fitting

    def fit(self, X: object, y: object, sample_weight: ArrayLike | None = None) -> Self:
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
        self._fit = Fit(kept=replace(given.kept, duals=[[[p.dual for p in row] for row in grid] for grid in points]))
        return points

    def _grid(self, data: Targets) -> list[Machine]:
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

    def _columns(self) -> dict[str, Any]:
        """Return the fitted attributes that tell the columns of X; a function as kernel takes rows without columns."""
        return {name: getattr(self, name) for name in ("n_features_in_", "feature_names_in_") if hasattr(self, name)}

    def _choose(self, model: Model) -> None:
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

            def solve(C: float, warm: Start, machine: Machine = machine, until: float | None = until) -> Trained:
                return machine.solve(C, ratio, warm, SOLVED_SHARE * epsilon, limits, until)

            found.append(walk(solve, partial(machine.strengths, ratio=ratio), low, high, epsilon))
        self._paths = [path for path, _ in found]
        self._fit = Fit(kept=replace(given.kept, duals=[[result.dual for result in results] for _, results in found]))
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

    def plot_guarantee(self, ax: Axes | None = None, label: object = None) -> Axes:
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

    def plot_path(self, l1_ratio: float | None = None, ax: Axes | None = None, label: object = None) -> Axes:
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

    def _drawn(self, label: object, machines: int) -> tuple[int, str]:
        """Return the number and the title of the machine that a figure shows."""
        if machines == 1:
            return 0, ""
        labels, titles = self._titles()
        if label is not None and label not in labels:
            raise ValueError(f"label={label!r} is unknown; choose one of {labels}")
        k = 0 if label is None else labels.index(label)
        return k, titles[k]

    # ---------------------------------------------------------------------------------------------------------------- predictions

    def predict(self, X: object) -> Any:
        """Predict by the model that is chosen."""
        check_is_fitted(self)
        return self._chosen.predict(X)


def _result_at(path: GuaranteedPath, C: float, epochs: int, **proof: Any) -> Trained:
    """Return the model that is proven at C as a result."""
    coef, intercept = path.model(path.index(C))
    return Trained(
        coef=coef,
        intercept=intercept,
        certificate=path.certificate(C),
        status="converged",
        epochs=epochs,
        **proof,
    )


def _proven_at(machine: Machine, path: GuaranteedPath, results: Sequence[Trained], C: float, ratio: float) -> Trained:
    """Return that model with its problem and its dual variables: the mix of those of two trained models, as the model is."""
    i, j, t = path.mixes[path.index(C)]
    loss = machine.proven.loss
    dual = np.clip(mixed_coef(results[i].dual, results[j].dual, t), loss.lower_bound(), loss.upper_bound())
    return _result_at(path, C, max(result.epochs for result in results), problem=machine.problem(C, ratio), dual=dual)
