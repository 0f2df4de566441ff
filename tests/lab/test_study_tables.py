"""Every number of every table of the five studies, recomputed from the stored traces by the words above it.

The runs are made up: random traces, from which the stored columns are derived as the words say. How a real run fills these columns is
checked in test_captions.
"""

import hashlib
import json
import re

import numpy as np
import pytest

from dualgap.lab import load_study, study_names
from dualgap.lab.plan import named_places
from dualgap.lab.ranking import LEVELS, problems, rankings
from dualgap.lab.study import parse_study
from dualgap.lab.tables import make_table, ranking_table

RUNS, EPOCHS = 3, 9
STORED = {
    "balanced accuracy": "balanced_accuracy",
    "PR-AUC": "pr_auc",
    "ROC-AUC": "roc_auc",
    "recall": "recall",
    "precision": "precision",
    "b*": "b_star",
    "training error with b*": "b_star_train_error",
    "objective, by the common one": "common_primal",
    "relative noise of a batch's subgradient": "gradient_noise",
}


def made(cell):
    """The record of a run: random traces, and what a run stores beside them."""
    rng = np.random.default_rng(int(hashlib.sha256(cell.key.encode()).hexdigest()[:12], 16))
    primal = 1.0 + rng.random(EPOCHS)
    dual = np.sort(primal.min() * (1.0 - 10.0 ** -rng.uniform(0, 9, EPOCHS)))
    errors = {name: rng.random(EPOCHS) for name in ("train_trace", "test_trace")}
    best = int(np.argmin(primal))
    return {
        "primal": primal,
        "dual": dual,
        "seconds": float(rng.random()) + 0.1,
        **errors,
        "accuracy": 1.0 - errors["test_trace"][-1],
        "test_error": errors["test_trace"][-1],
        "train_error": errors["train_trace"][-1],
        "best_epoch": best + 1,
        "best_test_error": errors["test_trace"][best],
        "best_train_error": errors["train_trace"][best],
        "majority_accuracy": 0.5 + float(rng.random()) / 2,
        **{column: float(rng.random()) for column in STORED.values()},
    }


def by_its_words(head, row):
    """The number that a column's head names, from the traces of one run."""
    trace = {name.removeprefix("trace_"): np.array(values) for name, values in row.items() if name.startswith("trace_")}
    best = int(np.argmin(trace["primal"]))
    words = {
        "test accuracy": 1.0 - trace["test_error"][-1],
        "test error": trace["test_error"][-1],
        "training error": trace["train_error"][-1],
        "objective": trace["primal"][-1],
        "lower bound": trace["dual"].max(),
        "relative duality gap": (trace["primal"][-1] - trace["dual"][-1]) / trace["primal"][-1],
        "CPU seconds (updates only)": trace["cpu_seconds"][-1],
        "epochs": trace["epoch"][-1],
        "support vectors (β > 0)": trace["support_vectors"][-1],
        "objective, best so far": trace["primal"].min(),
        "test error, best so far": trace["test_error"][best],
        "training error, best so far": trace["train_error"][best],
        "epoch of the best so far": trace["epoch"][best],
        "relative duality gap, best so far": (trace["primal"].min() - trace["dual"].max()) / trace["primal"].min(),
    }
    return words[head] if head in words else row[STORED[head]]


@pytest.fixture(params=study_names())
def results(request, made_up):
    table = json.loads(load_study(request.param).to_json())
    return made_up({**table, "runs": RUNS}, made)


def runs_of(results, race, data, solver, setting=None):
    """The records of the runs that a row of a table speaks of."""
    found = [
        results.rows[run.key]
        for run in results.runs
        if run.race == race
        and not run.is_reference
        and results.label(run.solver) == solver
        and (data is None or results.data_name(run.data) == data)
        and (setting is None or {**run.problem, **run.params, **run.settings}[setting[0]] == setting[1])
    ]
    assert len(found) == (results.study.race(race).runs or RUNS)
    return found


def cells_by_head(table, row):
    return dict(zip(table.columns, row, strict=True))


def test_measures(results):
    """A row a solver: the mean over the runs of what each head says."""
    specs = [spec for spec in results.study.tables if spec.kind == "measures"]
    assert specs
    for spec in specs:
        table, by = make_table(results, spec), spec.options.get("by")
        name = {"l2": "l2", "sum_c": "c", "rate": "learning rate"}.get(by)
        for row in table.rows:
            cells = cells_by_head(table, row)
            data, solver = cells.pop("data", None), cells.pop("solver")
            if solver == "always the commoner class":
                continue
            rows = runs_of(results, spec.options["race"], data, solver, (by, cells.pop(name)) if by else None)
            for head, cell in cells.items():
                assert cell == pytest.approx(np.mean([by_its_words(head, run) for run in rows])), (spec.id, head)


def test_the_texts_tables(results):
    """The text's number, the mean here, its standard deviation over the runs, and the factor; the same for averages and seconds."""
    for spec in (spec for spec in results.study.tables if spec.kind == "claimed"):
        options, table = spec.options, make_table(results, spec)
        by, head = options.get("by"), table.columns[2 + bool(options.get("by"))].removesuffix(", text")
        labels = {results.label(solver): solver.id for solver in results.study.solvers}
        ids = {results.data_name(data.id): data.id for data in results.study.data}
        assert len(table.rows) > 1
        for row in table.rows:
            cells = cells_by_head(table, row)
            if cells["solver"] == "always the commoner class":
                rows = [results.rows[run.key] for run in results.runs if run.race == options["race"] and not run.is_reference]
                assert cells["test accuracy, text"] == options["baseline"]
                means = [np.mean([r["majority_accuracy"] for r in rows[i : i + RUNS]]) for i in range(0, len(rows), RUNS)]
                assert any(cells["here, mean"] == pytest.approx(mean) for mean in means)
                continue
            setting = (by, cells[{"delta": "δ"}[by]]) if by else None
            rows = runs_of(results, options["race"], cells["data"], cells["solver"], setting)
            key = f"{setting[1]:g}" if by else labels[cells["solver"]]
            of_data = options.get("claimed_by_data", {}).get(ids[cells["data"]], {})
            said = options.get("claimed", {}).get(key, of_data.get(key, of_data.get("all")))
            check_beside(cells, (f"{head}, text", "here, mean", "here, s.d. over runs", "here / text"), said, head, rows)
            if "averaged" in options:
                twin = next(label for label, id in labels.items() if id == options["averaged"][key])
                heads = ("averaged, text", "averaged, here", "averaged, s.d.", "averaged, here / text")
                averaged = runs_of(results, options["race"], cells["data"], twin)
                check_beside(cells, heads, options["claimed_averaged"][key], head, averaged)
            if key in options.get("seconds_of", {}):
                assert options["seconds_of"][key] == "cpu_seconds@100", "the text's 100 iterations, a pass each"
            elif key in options.get("seconds", {}):
                took = np.mean([run["trace_cpu_seconds"][-1] for run in rows])
                assert cells["seconds, text"] == options["seconds"][key]
                assert cells["CPU seconds here"] == pytest.approx(took)
                assert cells["times faster"] == pytest.approx(options["seconds"][key] / took)


def check_beside(cells, heads, said, head, rows):
    values = [by_its_words(head, run) for run in rows]
    assert cells[heads[0]] == said
    assert cells[heads[1]] == pytest.approx(np.mean(values))
    assert cells[heads[2]] == pytest.approx(np.std(values, ddof=1))
    assert cells[heads[3]] == (pytest.approx(np.mean(values) / said) if said else None)


def test_rankings(results):
    """Medians over the runs; seconds until the best model so far had a certified gap of a level."""
    reached = 0
    for place, (ranking, (_, groups)) in enumerate(zip(rankings(results), problems(results), strict=True)):
        table = ranking_table(ranking, place)
        runs_by_label = {results.label(group.solver): group.rows for group in groups}
        for row in table.rows:
            cells = cells_by_head(table, row)
            runs = runs_by_label[cells["solver"]]
            assert cells["CPU s"] == pytest.approx(np.median([run["trace_cpu_seconds"][-1] for run in runs]))
            for head in ("test error", "balanced accuracy", "recall"):
                assert cells[head] == pytest.approx(np.median([by_its_words(head, run) for run in runs]))
            for level, head in zip(LEVELS, table.columns[1:4], strict=True):
                assert cells[head] == np.median([first_within(run, level) for run in runs])
                reached += np.isfinite(cells[head])
    assert reached, "some runs come so near"


def first_within(run, level):
    primal, dual = np.minimum.accumulate(run["trace_primal"]), np.array(run["trace_dual"])
    near = np.flatnonzero((primal - dual) / primal <= level)
    return run["trace_cpu_seconds"][near[0]] if len(near) else np.inf


@pytest.mark.parametrize("name", study_names())
def test_what_a_caption_says_of_the_budget_is_the_budget(name):
    """ "After 200 epochs" stands where the race has 200; a number of the text's own is in a sentence that says so."""
    study = load_study(name)
    races = {race.id: race for race in study.races}
    checked = 0
    for shown in (*study.figures, *study.tables, *study.claims):
        race = races.get(shown.options.get("race", ""))
        words = f"{shown.title}. {shown.caption}" if hasattr(shown, "title") else shown.note
        for sentence in re.split(r"(?<=\.) ", words):
            for count in re.findall(r"after ([\d,]+) (?:epochs|passes|iterations)", sentence, re.IGNORECASE):
                places = {int(place) for place, _ in named_places(study, race.id)}
                given = {race.budget.epochs, race.budget.passes, *places}
                assert int(count.replace(",", "")) in given or "text" in sentence, (shown.id, sentence)
                checked += 1
    assert checked or name == "credit-fraud"
    assert parse_study(json.loads(study.to_json())) == study
