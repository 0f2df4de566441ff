"""A tiny study to run, and results made up by hand for what only reads them."""

import json

import numpy as np
import pytest

from dualgap.lab import parse_study
from dualgap.lab.plan import REFERENCE, cells_of
from dualgap.lab.results import Results, ResultStore

TINY = {
    "name": "tiny",
    "title": "Tiny",
    "runs": 2,
    "data": [
        {"id": "plane", "name": "separable", "label": "plane", "options": {"n": 60}, "standardise": False},
        {"id": "cloud", "name": "overlapping", "label": "cloud", "options": {"n": 60}, "standardise": False},
    ],
    "solvers": [
        {"id": "sdca", "solver": "sdca", "label": "SDCA", "family": "dual"},
        {"id": "pegasos", "solver": "pegasos", "label": "Pegasos", "family": "primal"},
    ],
    "races": [
        {
            "id": "main",
            "data": ["plane", "cloud"],
            "solvers": ["sdca", "pegasos"],
            "problem": {"l2": 0.01},
            "budget": {"epochs": 5},
            "keep_models": True,
            "reference": False,
        }
    ],
}


@pytest.fixture
def tiny():
    """A function that gives the tiny study's table with some keys replaced."""

    def make(**changes):
        return {**json.loads(json.dumps(TINY)), **changes}

    return make


@pytest.fixture
def made_up(tmp_path):
    """A function from a study's table and a function of a cell to Results, as if the runs had been made."""

    def make(table, outcome):
        study = parse_study(table)
        store = ResultStore(tmp_path / "made-up")
        for spec in study.data:
            about = {"rows": 10**6, "test_rows": 10**6, "features": 2, "sparse": False, "positive": 0.5, "test_positive": 0.5}
            store.add_data(
                spec.id, {"name": spec.label, "notes": ["a note"], "source": "", "licence": "", "description": "", **about}
            )
        store.add_epoch_overhead(5e-6, 1e-5)
        rows = {}
        for cell in cells_of(study):
            found = outcome(cell)
            if found is not None:
                rows[cell.key] = record(cell, **found)
        return Results(study, store, rows)

    return make


def record(cell, primal=(1.0, 0.5, 0.4), dual=(0.1, 0.3, 0.39), seconds=0.1, status="converged", error="", **columns):
    """What a run leaves in the store; `primal` and `dual` are its trace, an epoch each taking `seconds`."""
    primal, dual = np.asarray(primal, float), np.asarray(dual, float)
    epochs = np.arange(1.0, len(primal) + 1)
    last, best = float(primal[-1]), float(primal.min())
    traces = {
        "epoch": epochs,
        "passes": epochs,
        "cpu_seconds": seconds * epochs,
        "primal": primal,
        "dual": np.maximum.accumulate(dual),
        "gap": primal - dual,
        "relative_gap": (primal - dual) / primal,
        "train_error": columns.pop("train_trace", 0.1 / epochs),
        "test_error": columns.pop("test_trace", 0.2 / epochs),
        "support_vectors": 50 / epochs,
        "nonzeros": 2 + 0 * epochs,
    }
    ended = {
        "epochs": len(primal),
        "cpu_seconds": seconds * len(primal),
        "primal": last,
        "dual": float(dual.max()),
        "gap": last - float(dual.max()),
        "relative_gap": (last - float(dual.max())) / last,
        "best_primal": best,
        "best_relative_gap": (best - float(dual.max())) / best,
        "best_test_error": 0.1,
        "accuracy": 0.9,
        "test_error": 0.1,
        "train_error": 0.05,
        "balanced_accuracy": 0.9,
        "pr_auc": 0.8,
        "recall": 0.9,
        "majority_accuracy": 0.6,
        "l2": 0.01,
        **columns,
    }
    problem = json.dumps(cell.problem, sort_keys=True)
    head = {
        "key": cell.key,
        "status": status,
        "error": error,
        "run": cell.run,
        "data": cell.data.id,
        "problem": problem,
        "seed": cell.seed,
    }
    head["solver"] = "reference" if cell.solver is REFERENCE else cell.solver.solver
    return {**head, **ended, **{f"trace_{name}": np.asarray(values).tolist() for name, values in traces.items()}}
