"""Every number is what its caption says: recomputed from stored traces and kept models, by the words of the column."""

import json

import numpy as np
import pytest

from dualgap.lab import parse_study, run_study
from dualgap.lab.columns import ended
from dualgap.lab.plan import cells_of
from dualgap.lab.prepare import prepare
from dualgap.lab.run_one import make_problem
from dualgap.lab.study import FigureSpec
from dualgap.lab.tables import make_table

SOLVERS = [
    {"id": "last", "solver": "pegasos", "label": "last", "params": {"sampling": "random"}},
    {"id": "average", "solver": "pegasos", "label": "average", "params": {"sampling": "random", "output": "average"}},
    {"id": "drawn", "solver": "sdca", "label": "drawn", "params": {"output": "random"}},
    {"id": "kernel", "solver": "sdca", "label": "kernel", "problem": {"kernel": "rbf", "gamma": 0.5}},
]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A study whose l2 is so small that the last iterate of Pegasos is worse than w = 0, and the best so far another."""
    data = [
        {"id": "cloud", "name": "overlapping", "label": "cloud", "options": {"n": 90}, "standardise": False, "redraw": "data"},
        {"id": "cancer", "name": "breast-cancer", "label": "cancer", "redraw": "split"},
    ]
    race = {"id": "main", "data": ["cloud", "cancer"], "solvers": [s["id"] for s in SOLVERS], "problem": {"l2": 1e-5}}
    race |= {"budget": {"epochs": 6}, "keep_models": True, "reference": False, "value_by": {"l2": 1e-2}, "watch": True}
    race["solvers"] = ["last", "average", "drawn"]
    kernels = {**race, "id": "kernels", "data": ["cloud"], "solvers": ["kernel"], "value_by": {}}
    study = parse_study({"name": "t", "title": "T", "runs": 3, "data": data, "solvers": SOLVERS, "races": [race, kernels]})
    return run_study(study, tmp_path_factory.mktemp("captions"), jobs=1)


def models(results):
    """Cell, row and kept output of the first run of each solver."""
    for cell in cells_of(results.study):
        row = results.rows[cell.key]
        if row.get("coef") is not None:
            yield cell, row, np.array(row["coef"]), row["intercept"]


def test_the_output_is_the_last_evaluated_model_and_not_the_best(ran):
    differ = 0
    for row in ran.results.rows.values():
        trace = {name.removeprefix("trace_"): values for name, values in row.items() if name.startswith("trace_") and values}
        for column in ("primal", "gap", "relative_gap", "train_error", "test_error", "nonzeros", "support_vectors", "passes"):
            assert row[column] == pytest.approx(trace[column][-1], rel=1e-12), column
        best = int(np.argmin(trace["primal"]))
        assert row["best_primal"] == trace["primal"][best]
        assert row["best_epoch"] == trace["epoch"][best]
        assert row["best_test_error"] == trace["test_error"][best]
        assert row["best_train_error"] == trace["train_error"][best]
        assert row["best_relative_gap"] == pytest.approx((min(trace["primal"]) - max(trace["dual"])) / min(trace["primal"]))
        assert row["accuracy"] == pytest.approx(1 - row["test_error"], rel=1e-12)
        assert row["nonzeros"] > 0, "w = 0 is no output of a run that trained"
        differ += row["best_epoch"] != trace["epoch"][-1]
    assert differ, "the last and the best are not always the same here"


def test_measures_of_the_kept_model(ran):
    checked = 0
    for cell, row, coef, intercept in models(ran.results):
        data = prepare(cell.data)
        problem = make_problem(data, cell.problem)
        scores = problem.decision(data.X_test, coef, intercept)
        truth = data.y_test == 1
        said = scores > 0
        assert row["test_error"] == pytest.approx(np.mean(said != truth))
        assert row["recall"] == pytest.approx(np.mean(said[truth]))
        assert row["balanced_accuracy"] == pytest.approx((np.mean(said[truth]) + np.mean(~said[~truth])) / 2)
        assert row["majority_accuracy"] == pytest.approx(max(np.mean(truth), 1 - np.mean(truth)))
        assert row["train_error"] == pytest.approx(np.mean((problem.decision(data.X, coef, intercept) > 0) != (data.y == 1)))
        assert row["primal"] == pytest.approx(problem.objective(coef, intercept))
        if cell.value_by:
            assert row["common_primal"] == pytest.approx(make_problem(data, cell.value_by).objective(coef, intercept))
        checked += 1
    assert checked == 7


def test_b_star_is_read_off_the_support_vectors(ran):
    """w is the output's; which rows are support vectors is told by the dual point, whose bounds decide the interval checked here."""
    found = [row for row in ran.results.rows.values() if row.get("b_star") is not None]
    assert found
    for cell, row, coef, _ in models(ran.results):
        if row.get("b_star") is None:
            continue
        scores = np.asarray(prepare(cell.data).X @ coef)
        y = prepare(cell.data).y
        assert np.isclose(row["b_star_train_error"], np.mean((scores + row["b_star"] > 0) != (y == 1)))
        halves = -0.5 * (scores[y == 1][:, None] + scores[y == 0][None, :])
        assert np.isclose(halves, row["b_star"]).any(), "half the sum of a positive row's score and a negative one's"


def test_tables_are_means_over_runs_of_what_their_heads_say(ran):
    columns = ["test_error", "best_test_error", "primal", "cpu_seconds"]
    spec = FigureSpec("t", "measures", options={"race": "main", "columns": columns})
    table = make_table(ran.results, spec)
    assert table.columns == ("data", "solver", "test error", "test error, best so far", "objective", "CPU seconds (updates only)")
    for data, solver, *cells in table.rows:
        keys = [
            run.key
            for run in ran.results.runs
            if run.race == "main" and run.solver == solver and run.data == ("cloud" if data == "cloud" else "cancer")
        ]
        rows = [ran.results.rows[key] for key in keys]
        assert len(rows) == 3
        traces = {"test_error": "trace_test_error", "primal": "trace_primal", "cpu_seconds": "trace_cpu_seconds"}
        for column, cell in zip(columns, cells, strict=True):
            values = [row[traces[column]][-1] if column in traces else row[column] for row in rows]
            assert cell == pytest.approx(np.mean(values))


def test_the_texts_table_has_means_deviations_and_factors(ran):
    options = {"race": "main", "data": ["cloud"], "column": "accuracy", "claimed": {"last": 0.8}, "baseline": 0.5}
    options |= {"solvers": ["last", "average"], "averaged": {"last": "average"}, "claimed_averaged": {"last": 0.9}}
    table = make_table(ran.results, FigureSpec("t", "claimed", options=options))
    last, average = (ended(ran.results.select("main", "cloud", [id])[0], "accuracy") for id in ("last", "average"))
    (_, name, said, mean, deviation, factor, *averaged), baseline = table.rows
    assert (name, said, mean, deviation) == ("last", 0.8, pytest.approx(last.mean()), pytest.approx(last.std(ddof=1)))
    assert factor == pytest.approx(last.mean() / 0.8)
    assert averaged == [0.9, pytest.approx(average.mean()), pytest.approx(average.std(ddof=1)), pytest.approx(average.mean() / 0.9)]
    assert baseline[1] == "always the commoner class"


def test_runs_draw_data_and_split_anew(ran):
    cells = [cell for cell in cells_of(ran.results.study) if cell.race == "main" and cell.solver.id == "last"]
    for id in ("cloud", "cancer"):
        drawn = [prepare(cell.data) for cell in cells if cell.data.id == id]
        assert len(drawn) == 3
        assert not np.array_equal(drawn[0].X, drawn[1].X)
    same = {cell.data.split_seed for cell in cells_of(ran.results.study) if cell.run == 1}
    assert len(same) == 1, "all solvers of a run share its draw"


def test_what_is_watched(ran):
    results = ran.results
    watched = [results.store.watch(key) for key in results.rows]
    found = [seen for seen in watched if seen]
    assert len(found) == 6  # the first run of three solvers on two data sets; a kernel model has no line
    for seen in found:
        assert [look["epoch"] for look in seen["looks"]] == [1, 2, 3, 4, 5, 6]
        assert len(seen["points"]) == len(seen["y"])
        assert max(place for look in seen["looks"] for place in look["inside"]) < len(seen["points"])
    flat = next(seen for seen in found if seen["names"] == ["x₁", "x₂"])
    row = next(row for row in results.rows.values() if row.get("coef") is not None and len(row["coef"]) == 2)
    assert json.dumps(flat["looks"][-1]["line"][:2]) == json.dumps(row["coef"])
