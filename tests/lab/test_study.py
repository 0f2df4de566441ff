"""Studies: what a file may say, and what its errors say."""

import json
from pathlib import Path

import pytest

from dualgap.lab import StudyError, load_study, parse_study, study_names
from dualgap.lab.claims.verdicts import judge
from dualgap.lab.figures import make_figure
from dualgap.lab.plan import LINEUP, PAPERS, cells_of
from dualgap.lab.results import Results, ResultStore
from dualgap.lab.tables import make_table

RACE = {"id": "r", "data": ["plane"], "solvers": ["sdca"]}

WRONG = [
    ({"rnus": 3}, "mine.toml: unknown key 'rnus'; did you mean 'runs'?"),
    ({"runs": 0}, "mine.toml: runs: 0 is not a whole number of at least 1"),
    ({"runs": 2.5}, "mine.toml: runs: 2.5 is not a whole number"),
    ({"title": 3}, "mine.toml: title: 3 is not a string"),
    *(
        ({"name": name}, f"mine.toml: name: {name!r} names the folder of the results; use letters")
        for name in ("../../elsewhere", "/elsewhere", "a/b", "a\\b", "..", ".", "", "C:x", "a\n", "~me", "x.", "-rf", "a" * 101)
    ),
    ({"races": [{"id": "r", "data": ["plane"]}]}, "mine.toml: races[0]: the key 'solvers' is missing"),
    (
        {"races": [{**RACE, "data": ["plain"]}]},
        "mine.toml: races[0].data[0]: there is no data 'plain' in this study; did you mean 'plane'?",
    ),
    ({"races": [{**RACE, "solvers": []}]}, "mine.toml: races[0].solvers: an empty list; name at least one"),
    ({"races": [{**RACE, "budget": {"tol": 2.0}}]}, "mine.toml: races[0].budget.tol: 2.0 is not a relative gap between 0"),
    ({"races": [{**RACE, "problem": {"C": 1}}]}, "mine.toml: races[0].problem: unknown key 'C'; known: coef0, degree, delta, "),
    ({"races": [{**RACE, "grid": {"l2": 3}}]}, "mine.toml: races[0].grid.l2: 3 is not a list of at least one value"),
    ({"races": [RACE, RACE]}, "mine.toml: races[1].id: 'r' is taken already"),
    ({"data": [{"id": "x"}]}, "mine.toml: data[0]: needs a name that dualgap.data knows, or a path to a file"),
    (
        {"data": [{"id": "x", "name": "a9a", "balance": "often"}]},
        "mine.toml: data[0].balance: 'often' is unknown; choose one of 'none'",
    ),
]


@pytest.mark.parametrize(
    ("change", "message"), WRONG, ids=[message.split(":")[1].strip()[:30] + str(i) for i, (_, message) in enumerate(WRONG)]
)
def test_errors_name_file_key_and_what_would_be_right(tiny, change, message):
    with pytest.raises(StudyError) as caught:
        parse_study(tiny(**change), "mine.toml")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", ["mine", "Blood cells 2", "étude-1.2", "A" * 100, "x"])
def test_names_that_are_folders(tiny, name):
    assert parse_study(tiny(name=name)).name == name


def test_unknown_solver_and_parameter(tiny):
    solver = {"id": "sdca", "solver": "sdac"}
    with pytest.raises(StudyError, match=r"there is no solver 'sdac'; did you mean 'sdca'\?"):
        cells_of(parse_study(tiny(solvers=[solver, tiny()["solvers"][1]])))
    with pytest.raises(StudyError, match=r"sdca has no parameter 'batch_size'"):
        cells_of(parse_study(tiny(races=[{**RACE, "grid": {"batch_size": [1, 2]}}])))


def test_files(tmp_path):
    with pytest.raises(StudyError, match=r"there is no study 'blood-cell'; did you mean 'blood-cells'\?"):
        load_study("blood-cell")
    with pytest.raises(StudyError, match=r"nowhere\.toml: cannot be read: No such file"):
        load_study("nowhere.toml")
    path = tmp_path / "broken.toml"
    path.write_text("name = \n")
    with pytest.raises(StudyError, match=r"broken\.toml: not valid TOML: .*line 1"):
        load_study(path)


def test_json_and_back(tiny, tmp_path):
    study = parse_study(tiny())
    (tmp_path / "study.json").write_text(study.to_json())
    assert load_study(tmp_path / "study.json") == study


@pytest.mark.parametrize("name", study_names())
def test_shipped_studies_are_sound(name, tmp_path):
    """Every figure, table and claim names races, data, solvers and options that exist; without runs no claim can be told."""
    study = load_study(name)
    assert json.loads(study.to_json())["name"] == name
    assert cells_of(study)
    results = Results(study, ResultStore(tmp_path), {})
    races, data, solvers = ({entry.id for entry in part} for part in (study.races, study.data, study.solvers))
    for shown in (*study.figures, *study.tables, *study.claims):
        options = shown.options
        assert options.get("race", study.races[0].id) in races, shown.id
        named = options.get("data", [])
        assert set([named] if isinstance(named, str) else named) <= data, shown.id
        for key in ("solvers", "winners", "rivals", "steady", "apart", "who", "than", "slow", "quick", "solver", "ahead", "behind"):
            ids = options.get(key, [])
            assert set([ids] if isinstance(ids, str) else ids) <= solvers, (shown.id, key)
    for figure in study.figures:
        if figure.kind in ("convergence", "sweep", "boundary"):
            assert make_figure(results, figure) is None
    for table in study.tables:
        assert make_table(results, table) is None
    for claim in study.claims:
        # A fact of a solver needs no run.
        expected = "not judged" if not claim.check else "holds" if claim.check == "has_no" else "cannot be told"
        assert judge(results, claim).verdict == expected, claim.id
    ids = [entry.id for entry in (*study.figures, *study.tables)]
    shown = set(ids)
    assert len(ids) == len(shown), "a claim names one figure or one table"
    assert {claim.figure for claim in study.claims} - {""} <= shown
    assert any("printed" in figure.id for figure in (*study.figures, *study.tables)), "one panel: what the misprint costs"
    for calibrated in (claim for claim in study.claims if claim.calibrated):
        where = calibrated.options.get("data") or [calibrated.options[key] for key in ("smaller", "larger")]
        assert any(study.data_spec(name).calibrated for name in where), calibrated.id


def test_papers_are_those_of_the_references():
    text = (Path(__file__).parents[2] / "docs" / "references.md").read_text(encoding="utf-8")
    for solver, (_, address) in PAPERS.items():
        assert solver in LINEUP
        assert f"]({address})" in text, solver
