"""One run in a worker process: open the data, solve, measure, store. `plan` decides what to run.

A run is measured by the model that its method puts out at the last evaluation: the last iterate, the averaged one, or the one drawn, as its
parameters say. The best model by objective, which no method knows without evaluating, is in columns of its own (best_…).
"""

from __future__ import annotations

import json
import os
import time
import traceback
import warnings
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from dualgap.lab.plan import LINEUP, Cell
from dualgap.lab.prepare import Prepared, open_prepared
from dualgap.lab.results import ResultStore
from dualgap.lab.studies import measures
from dualgap.lab.study import RunBudget
from dualgap.problem import Problem, from_sum_of_losses
from dualgap.run import Progress, Trained, minimise, schedule
from dualgap.solvers import NotSupported, Solver

__all__ = ["Outcome", "Watching", "execute", "make_problem"]


MOST_POINTS = 300  # rows that are shown
MOST_LOOKS = 40  # models that are shown
MOST_FEATURES = 2000  # of dense data whose components are computed


class Watching:
    """Collects, at each evaluation, the line score = 0 of the model on the plane, and which rows are inside the margin.

    With more than two features the plane passes through the mean of the rows along their first two principal components; the line is
    where the model's score is zero on that plane. Kernel models and wide or sparse data have no such picture: `seen` is then None.
    """

    def __init__(self, problem: Problem, data: Prepared) -> None:
        X = data.X
        self.able = problem.kernel is None and not sparse.issparse(X) and X.shape[1] <= MOST_FEATURES and X.shape[1] >= 2
        self.looks: list[dict[str, Any]] = []
        if not self.able:
            return
        d = X.shape[1]
        if d == 2:
            self.centre, self.axes, self.names = np.zeros(2), np.eye(2), ["x₁", "x₂"]
        else:
            self.centre = np.asarray(X.mean(axis=0), dtype=np.float64)
            covariance = np.cov(np.asarray(X, dtype=np.float64), rowvar=False)
            _, vectors = np.linalg.eigh(covariance)
            self.axes, self.names = vectors[:, ::-1][:, :2].T, ["first principal component", "second principal component"]
        chosen = np.sort(np.random.default_rng(0).permutation(len(data.y))[:MOST_POINTS])
        self.rows = np.asarray(X[chosen], dtype=np.float64)
        self.y = np.where(data.y[chosen] == 1, 1, -1)
        self.points = (self.rows - self.centre) @ self.axes.T
        self.problem = problem

    def look(self, progress: Progress) -> None:
        """Keep the model that was just evaluated."""
        if not self.able or not np.isfinite(progress.coef).all():
            return
        w, b = np.asarray(progress.coef, dtype=np.float64), float(progress.intercept)
        margins = self.y * (self.rows @ w + b)
        c = progress.certificate
        self.looks.append(
            {
                "epoch": progress.epoch,
                "line": [float(v) for v in self.axes @ w] + [float(w @ self.centre + b)],
                "inside": np.flatnonzero(margins <= 1.0 + 1e-9).tolist(),
                "primal": c.primal,
                "dual": c.dual,
                "test_error": progress.record.get("test_error"),
            }
        )

    def seen(self) -> dict[str, Any] | None:
        """Return what a page shows: the points, and at most MOST_LOOKS models, more of them early in the run."""
        if not self.able or not self.looks:
            return None
        count = len(self.looks)
        places = np.arange(count)
        if count > MOST_LOOKS:
            places = np.unique(np.round(np.geomspace(1, count, MOST_LOOKS)).astype(int)) - 1
        return {
            "names": self.names,
            "points": np.round(self.points, 4).tolist(),
            "y": self.y.tolist(),
            "looks": [self.looks[place] for place in places],
        }


TELL_EVERY = 0.2  # seconds between two notes on a running run
ROUNDED = 1.0 + 1e-9  # times a place in passes: sums of parts of a pass are rounded


@dataclass(frozen=True)
class Outcome:
    """What a worker reports of a run; the whole result is in the store."""

    key: str
    what: str
    status: str
    error: str = ""
    epochs: int = 0
    cpu_seconds: float = 0.0
    relative_gap: float = float("nan")


def execute(cell: Cell, key: str, place: Path, folder: Path, environment: str) -> Outcome:
    """Run a cell and store its result under a key. A failure is stored with its error, and the run is tried again next time.

    The parent computes the key: a worker's own would differ once the sources have been edited.
    """
    what = cell.describe()
    note = folder / "running" / key
    note.parent.mkdir(parents=True, exist_ok=True)
    record, began = described(cell, key, environment), time.process_time()
    _tell(note, what)
    try:
        record |= _run(cell, key, place, note, folder)
    except NotSupported as refusal:
        record |= {"status": "unsupported", "error": str(refusal)}
    except Exception as error:
        record |= {"status": "failed", "error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
    finally:
        note.unlink(missing_ok=True)
    if record["status"] == "interrupted":
        raise KeyboardInterrupt  # an interrupted run is not stored
    ResultStore(folder).add({**record, "spent_seconds": time.process_time() - began})
    shown = {name: record[name] for name in ("status", "error", "epochs", "cpu_seconds", "relative_gap") if name in record}
    return Outcome(key, what, **shown)


def described(cell: Cell, key: str, environment: str) -> dict[str, Any]:
    """Return what a record says of a run before it has run."""
    return {
        "key": key,
        "data": cell.data.id,
        "solver": cell.solver.solver,
        "params": json.dumps(cell.params, sort_keys=True),
        "problem": json.dumps(cell.problem, sort_keys=True),
        "budget": json.dumps(asdict(cell.budget), sort_keys=True),
        "run": cell.run,
        "seed": cell.seed,
        "environment": environment,
    }


@dataclass
class Follower:
    """The callback of a run: it remembers the newest model and the best one, tells how far the run is, and ends it in time.

    It says at which epochs the run is evaluated, too: the last one within each place that is counted in passes is known as the run goes.
    Sets: `newest` and `best` at each evaluation, `rate` from the second on, `out_of_time` once the budget of passes or seconds is spent.
    """

    note: Path
    what: str
    budget: RunBudget
    watching: Watching | None = None
    newest: Progress | None = None
    best: Progress | None = None
    rate: float = 0.0  # passes over the data in an epoch
    out_of_time: bool = False
    told: float = field(default_factory=time.monotonic)

    def due(self, epoch: int) -> bool:
        """Return whether to evaluate after an epoch."""
        if self.budget.evaluate == "named":
            return epoch in self.budget.at_epochs
        if self.newest is None or not self.rate or schedule(self.budget.evaluate)(epoch) or epoch in self.budget.at_epochs:
            return True
        here = self.newest.record["passes"] + self.rate * (epoch - self.newest.epoch)
        places = (*self.budget.at_passes, self.budget.passes or np.inf)
        return any(here <= place * ROUNDED < here + self.rate for place in places)

    def __call__(self, progress: Progress) -> bool:
        if self.newest is not None:
            epochs = progress.epoch - self.newest.epoch
            self.rate = (progress.record["passes"] - self.newest.record["passes"]) / max(epochs, 1)
        self.newest = progress
        if self.best is None or progress.certificate.primal < self.best.certificate.primal:
            self.best = progress
        if self.watching is not None:
            self.watching.look(progress)
        if time.monotonic() - self.told > TELL_EVERY:
            self.told = time.monotonic()
            _tell(self.note, f"{self.what}: epoch {progress.epoch}, gap {progress.certificate.relative_gap:.1e}")
        passes, seconds = self.budget.passes or np.inf, self.budget.seconds or np.inf
        over = progress.record["passes"] + self.rate > passes * ROUNDED
        self.out_of_time = progress.record["cpu_seconds"] >= seconds or over
        return self.out_of_time


def _run(cell: Cell, key: str, place: Path, note: Path, folder: Path) -> dict[str, Any]:
    data = _data(place)
    problem = _problem(place, json.dumps(cell.problem, sort_keys=True))
    solver: Solver = LINEUP[cell.solver.solver](**cell.params)
    watching = Watching(problem, data) if cell.watch else None
    follower = Follower(note, cell.describe(), cell.budget, watching)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # overflow before divergence; the status says so
        result = minimise(
            problem,
            solver,
            tol=cell.budget.tol,
            max_epochs=1 if getattr(solver, "one_shot", False) else cell.budget.epochs,
            seed=cell.seed,
            watch=(data.X_test, data.y_test),
            evaluate=follower.due,
            callbacks=[follower],
            stall=cell.budget.tol > 0,
        )
    assert follower.newest is not None
    assert follower.best is not None
    status = "max_seconds" if follower.out_of_time and result.status == "interrupted" else str(result.status)
    record = {"status": status, "error": "", **_ended(result, follower), **_measures(problem, data, follower)}
    if cell.value_by:
        other = make_problem(data, cell.value_by)
        record["common_primal"] = _valued(other, follower.newest)
    for name in cell.measures:
        record[name] = measures()[name](problem, data, follower.newest.coef, float(follower.newest.intercept))
    if cell.keep_model:
        record |= {"coef": follower.newest.coef.tolist(), "intercept": float(follower.newest.intercept)}
        ResultStore(folder).add_points(key, data.X, data.y)
    if watching is not None:
        ResultStore(folder).add_watch(key, watching.seen())
    return record


def _valued(problem: Problem, output: Progress) -> float:
    finite = np.isfinite(output.coef).all() and np.isfinite(output.intercept)
    return float(problem.objective(output.coef, output.intercept)) if finite else float("inf")


def _ended(result: Trained, follower: Follower) -> dict[str, Any]:
    """Return how a run ended: costs, the certificate of its output with the best bound that it found, the best model's, and the trace."""
    newest, best, problem = follower.newest, follower.best, result.problem
    assert newest is not None
    assert best is not None
    c = newest.certificate
    dual = float(np.max(result.trace["dual"]))
    # The best model's own row of the trace has the bound of its time; the bound at the end is at least as good.
    best_gap = max(best.certificate.primal - dual, 0.0)
    return {
        "epochs": result.epochs,
        "passes": newest.record["passes"],
        "cpu_seconds": result.cpu_seconds,
        "wall_seconds": result.wall_seconds,
        "compile_seconds": result.compile_seconds,
        "primal": c.primal,
        "dual": dual,
        "gap": c.gap,
        "relative_gap": c.relative_gap,
        "bound_from": c.source,
        "best_primal": best.certificate.primal,
        "best_relative_gap": best_gap / best.certificate.primal if best.certificate.primal > 0 else 0.0,
        "best_epoch": best.epoch,
        "best_test_error": best.record["test_error"],
        "best_train_error": best.record["train_error"],
        "support_vectors": newest.record["support_vectors"],
        "nonzeros": newest.record["nonzeros"],
        "l2": problem.l2,
        "n": problem.n,
        "d": problem.d,
        **_hyperplane(result, newest),
        **{f"trace_{name}": column.tolist() for name, column in result.trace.to_dict().items()},
    }


def _hyperplane(result: Trained, output: Progress) -> dict[str, float]:
    """Return b* = −½(min over y = 1, β > 0 of w·x + max over y = −1, β > 0 of w·x), and the training error with it, where b is absent."""
    problem, beta = result.problem, result.dual
    if problem.intercept != "none" or problem.kernel is not None or beta is None or not np.isfinite(output.coef).all():
        return {}
    scores = np.asarray(problem.X @ output.coef).reshape(-1)
    positive, negative = ((problem.y == sign) & (beta > 0) for sign in (1.0, -1.0))
    if not (positive.any() and negative.any()):
        return {}
    b = -0.5 * float(scores[positive].min() + scores[negative].max())
    return {"b_star": b, "b_star_train_error": float(np.mean((scores + b > 0) != (problem.y > 0)))}


def _tell(note: Path, text: str) -> None:
    note.write_text(f"{os.getpid()}\n{text}", encoding="utf-8")


@lru_cache(maxsize=2)
def _data(place: Path) -> Prepared:
    return open_prepared(place)


@lru_cache(maxsize=1)
def _problem(place: Path, settings: str) -> Problem:
    return make_problem(_data(place), json.loads(settings))


def make_problem(data: Prepared, settings: dict[str, Any]) -> Problem:
    """Return the problem of a cell. A study may give λ or c of a sum of losses; both are mapped to l2 here, where n is known."""
    settings = dict(settings)
    if "sum_lambda" in settings:
        settings |= from_sum_of_losses(settings.pop("sum_lambda"), len(data.y), half=False)
    if "sum_c" in settings:
        settings |= from_sum_of_losses(settings.pop("sum_c"), len(data.y), half=True)
    return Problem(data.X, data.y, sample_weight=data.sample_weight, **settings)


def _measures(problem: Problem, data: Prepared, follower: Follower) -> dict[str, float]:
    """Return how the output does on the test rows, beside the model that always predicts the larger class; NaN for one that diverged."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    output = follower.newest
    assert output is not None
    truth = data.y_test == 1
    nothing = float("nan")
    found = {"majority_accuracy": float(max(np.mean(truth), 1 - np.mean(truth))), "test_positive": float(np.mean(truth))}
    names = ("accuracy", "test_error", "balanced_accuracy", "recall", "precision", "pr_auc", "roc_auc", "train_error")
    if not (np.isfinite(output.coef).all() and np.isfinite(output.intercept)):
        return {**found, **dict.fromkeys(names, nothing)}
    scores = problem.decision(data.X_test, output.coef, output.intercept)
    said = scores > 0
    hits, alarms = int(np.sum(said & truth)), int(np.sum(said))
    recall, specificity = np.mean(said[truth]) if truth.any() else np.nan, np.mean(~said[~truth]) if (~truth).any() else np.nan
    ranked = bool(np.isfinite(scores).all()) and truth.any() and not truth.all()
    return {
        **found,
        "accuracy": float(np.mean(said == truth)),
        "test_error": float(np.mean(said != truth)),
        "balanced_accuracy": float((recall + specificity) / 2),
        "recall": float(recall),
        "precision": hits / alarms if alarms else nothing,
        "pr_auc": float(average_precision_score(truth, scores)) if ranked else nothing,
        "roc_auc": float(roc_auc_score(truth, scores)) if ranked else nothing,
        "train_error": output.record["train_error"],
    }
