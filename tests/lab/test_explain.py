"""A number that was made by a setting is explained by that setting, and by no other."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dualgap.lab import Results, ResultStore, parse_study, run_study
from dualgap.lab.claims.verdicts import judge
from dualgap.lab.explain import explain_number, explanations, search
from dualgap.lab.plan import cells_of
from dualgap.lab.schema import StudyError

CLAIM = {"id": "c", "says": "the error is so", "check": "near"}
CLAIM["options"] = {"race": "main", "data": ["cloud"], "solvers": ["sdca"], "column": "train_error", "value": 0.5, "within": 1e-9}
KNOBS = {"data.distance": [0.5, 3.0, 6.0], "data.standardise": [False, True], "l2": [1e-3, 1e-1], "epochs": [1, 8]}


@pytest.fixture
def study(tiny):
    """A function from the text's number to a study that has something to explain."""

    def make(number, **changes):
        entry = {"id": "c", "numbers": {"sdca": number}, "column": "train_error", "data": "cloud", "within": 1e-9, "knobs": KNOBS}
        race = {**tiny()["races"][0], "data": ["cloud"], "solvers": ["sdca"], "budget": {"epochs": 8}}
        return parse_study(tiny(claims=[CLAIM], races=[race], explain=[{**entry, **changes}], runs=5))

    return make


def test_every_combination_is_tried_and_the_one_that_made_the_number_is_found(study, tmp_path):
    made = study(0.0)
    cells = cells_of(search(made, made.explain[0]))
    assert len(cells) == 3 * 2 * 2 * 2, "distance, scaling, l2, draws: one run gives all epochs"
    assert {(cell.data.options["distance"], cell.data.standardise, cell.problem["l2"]) for cell in cells} == {
        (d, s, l2) for d in KNOBS["data.distance"] for s in KNOBS["data.standardise"] for l2 in KNOBS["l2"]
    }
    own = replace(made, solvers=tuple(replace(spec, problem={"l2": 7.0}) for spec in made.solvers))
    assert {cell.problem["l2"] for cell in cells_of(search(own, made.explain[0]))} == set(KNOBS["l2"]), (
        "a knob beats a solver's own"
    )
    every = explain_number(made, "c", tmp_path / "all", jobs=1)[0]
    assert every.columns == ("distance", "standardise", "l2", "epochs", "SDCA, text 0", "furthest", "draws apart")
    row = every.rows[-1]
    found = explain_number(study(row[4]), "c", tmp_path / "all", jobs=1)[0]
    assert found.rows[0][-2] == 0.0
    assert found.rows[0][-1] > 0.0, "the draws differ"
    assert row[:4] in [each[:4] for each in found.rows[: len(found.best)]]
    assert [each[-2] for each in found.rows] == sorted(each[-2] for each in found.rows)
    assert f"{len(found.best)} of 24 settings" in found.caption


def test_a_number_that_can_come_about_is_no_refutation(study, tmp_path):
    made = study(0.25, within=0.2)
    results = run_study(made, tmp_path, jobs=1).results
    assert judge(results, made.claims[0]).verdict == "does not hold"
    explain_number(made, "c", tmp_path, jobs=1)
    results = Results.load(made, ResultStore(tmp_path / "results"))
    found = judge(results, made.claims[0])
    assert found.verdict == "cannot be told"
    assert "what the text does not give" in found.why
    assert explanations(results)["c"].rows
    explain_number(study(0.2513, within=0.0), "c", tmp_path, jobs=1)
    assert judge(results, made.claims[0]).verdict == "does not hold", "no setting gives it"


def test_the_best_value_of_a_knob(study, tmp_path):
    """The number may be a setting: here the l2 with the smallest training objective, which is the smallest one."""
    knobs = {"l2": [1.0, 1e-3], "epochs": [8]}
    made = study(1e-3, knobs=knobs, column="primal", best_of="l2", within=0.0, runs=1)
    found = explain_number(made, "c", tmp_path, jobs=1)[0]
    assert found.columns == ("SDCA, text 0.001", "furthest", "draws apart")
    assert [row[:2] for row in found.rows] == [(pytest.approx(1e-3), 0.0)]
    assert "of each number: the l2 at which the objective is smallest, mean of 1 draw. Throughout" in found.caption
    assert "  " not in found.caption
    assert np.isnan(found.rows[0][-1]), "one draw is not apart from another"
    assert "Throughout epochs: 8." in found.caption, "a knob with one value is no column"
    assert len(found.best) == 1


def test_nothing_of_a_search_is_left_in_the_study(study, tmp_path):
    made = study(0.25)
    explain_number(made, "c", tmp_path, jobs=1)
    assert json.loads((tmp_path / "results" / "explain" / "c.json").read_text())["near"] >= 0
    results = run_study(made, tmp_path, jobs=1).results
    assert {group.race for group in results.groups} == {"main"}
    assert np.isfinite(results.spent_on())
    with pytest.raises(StudyError, match="nothing to explain of 'd'"):
        explain_number(made, "d", tmp_path)


def test_a_setting_explains_a_claim_only_where_it_gives_the_number_of_every_solver_asked(study, tmp_path):
    made = study(0.25, within=0.2)
    results = run_study(made, tmp_path, jobs=1).results
    explain_number(made, "c", tmp_path, jobs=1)
    other = replace(made.explain[0], numbers={"pegasos": 0.25})
    assert judge(results, made.claims[0]).verdict == "cannot be told"
    assert judge(Results.load(made.with_(explain=(other,)), results.store), made.claims[0]).verdict == "does not hold"


def test_missing_data_are_told_and_no_empty_table(study, tmp_path):
    made = study(0.25)
    gone = made.with_(
        data=tuple(replace(spec, name="", path=str(tmp_path / "gone.csv"), target="y", options={}) for spec in made.data)
    )
    entry = replace(made.explain[0], knobs={"l2": (0.1,), "epochs": (2,)})
    with pytest.raises(StudyError, match=r"gone\.csv"):
        explain_number(gone.with_(explain=(entry,)), "c", tmp_path, jobs=1)
    assert not (tmp_path / "results" / "explain").exists()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"column": "test_eror"}, r"explain\[0\]\.column: no run is evaluated for 'test_eror'.*test_error"),
        ({"column": "peak:accuracy"}, r"no run is evaluated for 'accuracy'"),
        ({"column": "settles:most"}, "'settles:most' is none of"),
        ({"data": "clouds"}, r"explain\[0\]\.data: there is no data 'clouds'.*cloud"),
        ({"numbers": {"sdcaa": 0.1}}, r"explain\[0\]\.numbers: there is no solver 'sdcaa'.*sdca"),
        ({"best_of": "rate"}, r"explain\[0\]\.best_of: there is no knob 'rate'"),
    ],
)
def test_an_entry_that_names_what_is_not_there_is_refused_with_its_place(study, wrong, words):
    with pytest.raises(StudyError, match=words):
        study(0.1, **wrong)
