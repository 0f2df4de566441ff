"""What a statement names is what is used: its unit, its place, its pair; and what decides nothing is told as open."""

import re
from dataclasses import replace

import numpy as np
import pytest

from dualgap.lab import load_study, parse_study, run_study, study_names
from dualgap.lab.claims.measures import LOOKS
from dualgap.lab.claims.verdicts import judge
from dualgap.lab.columns import ended
from dualgap.lab.plan import cells_of, named_places
from dualgap.lab.runner import more_draws
from dualgap.lab.studies import algorithms
from dualgap.lab.study import Claim

NET = {"loss": "smooth_hinge", "delta": 0.5, "l1": 1e-3, "l2": 1e-2, "intercept": "none"}


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    """SAGA, SVRG and a batch method, evaluated seldom, with claims that name places between these evaluations."""
    solvers = [
        {"id": "saga", "solver": "saga"},
        {"id": "svrg", "solver": "svrg", "iterations": 5, "params": {"inner": 4.0}},
        {"id": "batch", "solver": "text_sgd", "params": {"batch_size": 7, "rate": 0.1}},
    ]
    race = {"id": "main", "data": ["plane"], "solvers": ["saga", "svrg", "batch"], "problem": NET, "reference": False}
    race |= {"budget": {"epochs": 900, "passes": 100, "evaluate": "geometric"}}
    on = {"race": "main", "data": ["plane"]}
    claims = [
        {"id": "a", "says": "a", "check": "reached", "options": {**on, "solvers": ["svrg"], "within": 0.1, "after": 75}},
        {
            "id": "b",
            "says": "b",
            "check": "improves",
            "options": {**on, "solvers": ["saga"], "column": "accuracy_test", "early": 37},
        },
        {"id": "c", "says": "c", "check": "alike", "options": {**on, "solvers": ["saga", "svrg"], "columns": {"primal@55": 0.1}}},
    ]
    claims.append({**claims[0], "id": "d", "options": {**claims[0]["options"], "after": 93, "unit": "iteration"}})
    data = [{"id": "plane", "name": "overlapping", "options": {"n": 90}, "redraw": "data"}]
    table = {"name": "t", "title": "T", "runs": 2, "data": data, "solvers": solvers, "races": [race], "claims": claims}
    return run_study(parse_study(table), tmp_path_factory.mktemp("raced"), jobs=1).results


def test_a_run_is_evaluated_at_every_place_that_is_named(raced):
    assert named_places(raced.study, "main") == {(75.0, "passes"), (37.0, "passes"), (55.0, "passes"), (93.0, "iteration")}
    for group in raced.select("main"):
        epoch = {"saga": 1.0, "svrg": 5.0, "batch": 7 / 60}[group.solver.id]  # passes, as the driver counts them
        for place in (37, 55, 75):
            for at, passes in zip(group.places(place), group.traces("passes"), strict=True):
                assert at is not None, (group, place)
                assert place - epoch < passes[at] <= place * (1 + 1e-9)
        for at, iterations in zip(group.places(93, "iteration"), group.traces("iteration"), strict=True):
            unit = 5 if group.solver.id == "svrg" else 1  # an epoch of SVRG is five of the text's iterations
            assert at is not None
            assert 93 - unit < iterations[at] <= 93
        last = np.array([passes[-1] for passes in group.traces("passes")])
        assert ((last <= 100 * (1 + 1e-9)) & ((last > 100 - epoch) | (group.solver.id == "batch"))).all()
        assert np.isnan(ended(group, "primal@1000")).all(), "nobody was there"


def test_a_sentence_says_the_unit_of_its_place(raced):
    asked = [judge(raced, claim).asked for claim in raced.study.claims]
    assert "after 75 passes" in asked[0]
    assert "after 37 passes" in asked[1]
    assert "after 55 passes" in asked[2]
    assert "after 93 iterations of the text" in asked[3]


@pytest.mark.parametrize("name", study_names())
def test_statements_that_compare_solvers_count_passes(name):
    """An iteration of one method is not that of another: only a statement on one method, or on each one's own, counts in them."""
    study = load_study(name)
    for claim in study.claims:
        options = claim.options
        if options.get("unit") == "iteration":
            compared = {options.get("who"), *options.get("rivals", ())} - {None}
            kinds = {study.solver_spec(id).solver for id in compared}
            assert len(kinds) <= 1, claim.id
        for count, unit in re.findall(r"[Aa]fter (\d+) (passes|iterations)", f"{claim.note} {claim.says}"):
            given = {options.get("after"), options.get("early")} - {None}
            if claim.check in ("reached", "extreme", "improves") and given:
                assert float(count) in {*map(float, given), 1500.0}, claim.id
                if claim.check == "reached" and "iterations" in unit:
                    assert options.get("unit") == "iteration", claim.id
    for shown in (*study.figures, *study.tables):
        assert shown.options.get("x") not in ("epoch", "iteration"), shown.id


@pytest.mark.parametrize("name", study_names())
def test_a_misprint_is_one_line_beside_the_corrected_method(name):
    """The two lines of each panel: one class, one order of the rows, one start, one budget; they differ in `misprint` alone."""
    study = load_study(name)
    panels = [figure for figure in study.figures if figure.title.startswith("What the misprint costs")]
    for figure in panels:
        right, wrong = (study.solver_spec(id) for id in figure.options["solvers"])
        assert right.solver == wrong.solver
        assert right.solver in algorithms()
        assert "misprint" not in right.params
        assert wrong.params == {**right.params, "misprint": wrong.params["misprint"]}
        assert right.problem == wrong.problem
        assert right.by_data == wrong.by_data
        race = study.race(figure.options["race"])
        cells = [cell for cell in cells_of(study.with_(races=(race,))) if cell.solver.id in (right.id, wrong.id)]
        assert len({cell.seed for cell in cells}) == len({(cell.data.id, cell.run) for cell in cells})
        assert len({cell.budget for cell in cells}) == 1
    misprinted = {spec.id for spec in study.solvers if spec.params.get("misprint") not in (None, "all")}
    assert misprinted == {figure.options["solvers"][1] for figure in panels}, "a panel for each"


ON = {"race": "main", "data": ["plane"], "who": "pegasos", "rivals": ["sdca"], "column": "test_error"}


@pytest.mark.parametrize("runs", [2, 5, 40])
@pytest.mark.parametrize("rows", [0, 1])
def test_a_tie_or_one_row_or_no_spread_cannot_be_told(tiny, made_up, rows, runs):
    """In every run the two differ by so many of the 20 test rows: no run differs from another, and that is no certainty."""

    def outcome(cell):
        error = 0.2 - (rows / 20 if cell.solver.id == "pegasos" else 0.0)
        return {"test_error": error, "primal": 1.0 + 1e-6 * np.arange(3) * (1 + cell.run)}

    results = made_up(tiny(runs=runs), outcome)
    results.store.add_data("plane", {**results.store.data()["plane"], "test_rows": 20})
    found = judge(results, Claim("c", "it is better", "extreme", options=ON))
    assert found.verdict == "cannot be told"
    assert not found.more, "more such runs would not help"


# -------------------------------------------------------------------------------------------------------------- run until decided


def growing(tiny, made_up, gap, runs=5, seconds=1e9, **changes):
    """Results in which one solver is better by `gap` standard deviations of the runs' differences, and each run took a second."""
    noise = np.random.default_rng(0).normal(size=200)
    claim = {"id": "c", "says": "it is", "check": "extreme", "options": ON}

    def outcome(cell):
        error = 0.2 + 0.01 * (noise[cell.run] - gap if cell.solver.id == "pegasos" else 0.0)
        return {"test_error": error, "spent_seconds": 1.0, "primal": 1.0 + 1e-6 * np.arange(3) * (1 + cell.run)}

    return made_up(tiny(runs=runs, seconds=seconds, claims=[claim], **changes), outcome)


def test_draws_go_on_until_a_statement_is_decided(tiny, made_up):
    results, counts = growing(tiny, made_up, 0.6), [5]
    first = results.study
    while (more := more_draws(results, first)) is not None:
        counts.append(more.races[0].runs)
        results = growing(tiny, made_up, 0.6, races=[{**tiny()["races"][0], "runs": counts[-1]}])
    assert counts == [5 * 2**look for look in range(len(counts))]
    assert 1 < len(counts) <= LOOKS
    assert judge(results, results.study.claims[0]).verdict == "holds"


def test_draws_end_with_the_budget_the_looks_or_the_hope(tiny, made_up):
    def more(*changes, runs=0, **others):
        first = growing(tiny, made_up, *changes, **others).study
        races = [{**tiny()["races"][0], "runs": runs}]
        return more_draws(growing(tiny, made_up, *changes, races=races, **others), first)

    assert more(0.6, seconds=0.0) is None, "a user's --runs counts"
    assert more(0.6, seconds=25.0) is None, "20 seconds are spent, 20 more are not there"
    assert more(0.6, seconds=45.0) is not None
    assert more(50.0) is None, "decided"
    assert more(0.2, runs=40) is not None
    assert more(0.2, runs=80) is None, "the last look"
    own = [{**tiny()["races"][0], "runs": 3}]
    grown = growing(tiny, made_up, 0.2, races=[{**own[0], "runs": 48}])
    assert more_draws(grown, grown.study) is not None, "the first look"
    assert more_draws(grown, growing(tiny, made_up, 0.2, races=own).study) is None, "the last look of a race that began with 3"


# -------------------------------------------------------------------------------------------------------- settings of ours


def test_a_setting_of_ours_that_decides_is_tried_at_half_and_twice(tiny, made_up):
    """The kernel's γ is ours. Where half of it turns the verdict, the text's sentence cannot be told."""
    solvers = [*tiny()["solvers"], {"id": "rbf", "solver": "pegasos", "problem": {"kernel": "rbf", "gamma": 1.0}}]
    race = {**tiny()["races"][0], "solvers": ["sdca", "rbf"], "data": ["plane"]}
    claim = {"id": "c", "says": "it is", "check": "extreme", "varied": ["rbf~gamma=1"], "options": {**ON, "who": "rbf"}}

    def world(errors):
        def outcome(cell):
            error = errors.get(cell.problem.get("gamma"), 0.2)
            return {"test_error": error + 1e-4 * cell.run, "primal": 1.0 + 1e-6 * np.arange(3) * (1 + cell.run)}

        return made_up(tiny(runs=5, solvers=solvers, races=[race], claims=[claim]), outcome)

    same = world({0.5: 0.1, 1.0: 0.1, 2.0: 0.1})
    found = judge(same, same.study.claims[0])
    assert (found.verdict, found.readings) == ("holds", "At half of gamma = 1: holds; at twice: holds")
    turned = world({0.5: 0.3, 1.0: 0.1, 2.0: 0.1})
    found = judge(turned, turned.study.claims[0])
    assert found.verdict == "cannot be told"
    assert "It depends on gamma = 1, which the text does not give." in found.why
    assert {group.solver.id for group in turned.select("main")} == {"sdca", "rbf"}, "variants are shown nowhere"
    assert {cell.problem.get("gamma") for cell in cells_of(turned.study)} == {None, 0.5, 1.0, 2.0}
    assert replace(turned.study.claims[0], varied=()) != turned.study.claims[0]
