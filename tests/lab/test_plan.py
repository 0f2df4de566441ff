"""Cells: which runs a study has, and that each has a seed and a key of its own."""

from dualgap.lab import parse_study
from dualgap.lab.plan import REFERENCE, cells_of


def cells(table):
    return cells_of(parse_study(table))


def test_every_cell_has_its_own_key_and_parameters_share_a_seed(tiny):
    race = {**tiny()["races"][0], "grid": {"l2": [0.1, 0.01]}}
    made = cells(tiny(races=[race]))
    assert len(made) == 2 * 2 * 2 * 2
    assert len({cell.key for cell in made}) == len(made)
    assert len({cell.seed for cell in made}) == len(made) / 2, "one order of the rows for both values of l2"


def test_seeds_do_not_depend_on_names_order_or_budget(tiny):
    before = {(c.data.id, c.solver.id, c.run): c for c in cells(tiny())}
    race = {**tiny()["races"][0], "id": "other", "title": "Other", "budget": {"epochs": 50}, "solvers": ["pegasos", "sdca"]}
    for cell in cells(tiny(name="another", races=[race])):
        old = before[cell.data.id, cell.solver.id, cell.run]
        assert cell.seed == old.seed
        assert cell.key != old.key  # a longer run is another result


def test_two_races_share_a_run(tiny):
    race = tiny()["races"][0]
    made = cells(tiny(races=[race, {**race, "id": "again"}]))
    assert len({cell.key for cell in made}) == len(made) / 2


def test_a_study_seed_changes_every_run(tiny):
    one, two = ({cell.seed for cell in cells(tiny(seed=seed))} for seed in (0, 1))
    assert not one & two


def test_settings_of_the_solver_win(tiny):
    solver = {"id": "sdca", "solver": "sdca", "problem": {"loss": "hinge"}}
    race = {**tiny()["races"][0], "solvers": ["sdca"], "problem": {"loss": "smooth_hinge", "delta": 0.5, "l2": 0.1}}
    assert cells(tiny(solvers=[solver], races=[race]))[0].problem == {"loss": "hinge", "l2": 0.1}
    solver["problem"] = {"sum_lambda": 2.0}
    assert cells(tiny(solvers=[solver], races=[race]))[0].problem == {"loss": "smooth_hinge", "delta": 0.5, "sum_lambda": 2.0}


def test_one_reference_a_problem(tiny):
    race = {**tiny()["races"][0], "reference": True, "grid": {"l2": [0.1, 0.01]}}
    made = [cell for cell in cells(tiny(races=[race])) if cell.solver is REFERENCE]
    assert [(c.data.id, c.settings["l2"]) for c in made].sort() == [
        (d, l2) for d in ("plane", "cloud") for l2 in (0.1, 0.01)
    ].sort()
    assert len(made) == 4


def test_a_reference_keeps_to_the_time_limit(tiny):
    race = {**tiny()["races"][0], "reference": True}
    study = parse_study(tiny(races=[race]))
    for limit, expected in ((None, 20.0), (1.5, 1.5), (100.0, 20.0)):
        made = [cell for cell in cells_of(study.limited(limit)) if cell.solver is REFERENCE]
        assert {cell.budget.seconds for cell in made} == {expected}
