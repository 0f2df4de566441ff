"""One run in a worker process: open the data, solve, measure, store. `plan` decides what to run."""

from __future__ import annotations

import json
import os
import time
import traceback
import warnings
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.lab.plan import Cell
from dualgap.lab.prepare import Prepared, open_prepared
from dualgap.lab.result_store import ResultStore
from dualgap.problem import Problem, from_sum_of_losses
from dualgap.run import Progress, Result, minimise
from dualgap.solvers import REGISTRY, NotSupported

__all__ = ["Outcome", "execute", "make_problem"]

TELL_EVERY = 0.2  # seconds between two notes on a running run


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
    record: dict[str, Any] = {
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
    _tell(note, what)
    try:
        record |= _run(cell, place, note, what)
    except NotSupported as refusal:
        record |= {"status": "unsupported", "error": str(refusal)}
    except Exception as error:
        record |= {"status": "failed", "error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
    finally:
        note.unlink(missing_ok=True)
    if record["status"] == "interrupted":
        raise KeyboardInterrupt  # an interrupted run is not stored
    ResultStore(folder).add(record)
    shown = {name: record[name] for name in ("status", "error", "epochs", "cpu_seconds", "relative_gap") if name in record}
    return Outcome(key, what, **shown)


def _run(cell: Cell, place: Path, note: Path, what: str) -> dict[str, Any]:
    data = _data(place)
    problem = _problem(place, json.dumps(cell.problem, sort_keys=True))
    told = time.monotonic()

    def tell(progress: Progress) -> None:
        nonlocal told
        if time.monotonic() - told > TELL_EVERY:
            told = time.monotonic()
            _tell(note, f"{what}: epoch {progress.epoch}, gap {progress.certificate.relative_gap:.1e}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # overflow before divergence; the status says so
        result = minimise(
            problem,
            REGISTRY[cell.solver.solver](**cell.params),
            tol=cell.budget.tol,
            max_epochs=cell.budget.epochs,
            max_seconds=cell.budget.seconds,
            seed=cell.seed,
            watch=(data.X_test, data.y_test),
            evaluate=cell.budget.evaluate,
            callbacks=[tell],
            stall=cell.budget.tol > 0,
        )
    c = result.certificate
    record = {
        "status": str(result.status),
        "error": "",
        "epochs": result.epochs,
        "cpu_seconds": result.cpu_seconds,
        "wall_seconds": result.wall_seconds,
        "compile_seconds": result.compile_seconds,
        "primal": c.primal,
        "dual": c.dual,
        "gap": c.gap,
        "relative_gap": c.relative_gap,
        "bound_from": c.source,
        "l2": problem.l2,
        "n": problem.n,
        "d": problem.d,
        **_measures(result, data),
        **{f"trace_{name}": column.tolist() for name, column in result.trace.to_dict().items()},
    }
    if cell.keep_model:
        record |= {"coef": result.coef.tolist(), "intercept": result.intercept}
    return record


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


def _measures(result: Result, data: Prepared) -> dict[str, float]:
    """Return how the model does on the test rows, beside the model that always predicts the larger class."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    scores = result.decision(data.X_test)
    truth = data.y_test == 1
    said = scores > 0
    hits, alarms = int(np.sum(said & truth)), int(np.sum(said))
    recall, specificity = np.mean(said[truth]) if truth.any() else np.nan, np.mean(~said[~truth]) if (~truth).any() else np.nan
    finite = bool(np.isfinite(scores).all()) and truth.any() and not truth.all()
    return {
        "accuracy": float(np.mean(said == truth)),
        "test_error": float(np.mean(said != truth)),
        "balanced_accuracy": float((recall + specificity) / 2),
        "recall": float(recall),
        "precision": hits / alarms if alarms else float("nan"),
        "pr_auc": float(average_precision_score(truth, scores)) if finite else float("nan"),
        "roc_auc": float(roc_auc_score(truth, scores)) if finite else float("nan"),
        "majority_accuracy": float(max(np.mean(truth), 1 - np.mean(truth))),
        "train_error": float(np.mean((result.decision(data.X) > 0) != (data.y == 1))),
        "support_vectors": int(np.count_nonzero(result.dual > 0)),
        "nonzeros": int(np.count_nonzero(result.coef)),
    }
