"""Comparisons: which solvers race on a problem, and the solvers of other packages among them."""

import numpy as np
import pytest

import dualgap
from dualgap.lab import Comparison, advice, parse_study, rankings
from dualgap.lab.compare import solvers_for
from dualgap.lab.plan import LINEUP
from dualgap.problem import Problem
from dualgap.run import minimise


def test_solvers_that_support_a_problem():
    able, refused = solvers_for({"loss": "logistic", "l2": 0.1})
    assert {"sdca", "auto", "liblinear", "sklearn_sgd"} <= set(able)
    assert refused["pegasos"] == "Pegasos is made for the hinge; SGD takes any loss"


def test_the_solvers_that_were_asked_for():
    study = Comparison(solvers=["sdca", "liblinear"], losses=["hinge"]).study()
    assert [race.solvers for race in study.races] == [("sdca", "liblinear")]


def test_the_default_has_an_intercept_that_every_solver_can_have():
    study = Comparison().study()
    assert {race.problem["intercept"] for race in study.races} == {"penalised"}
    raced = {name for race in study.races for name in race.solvers}
    assert {"auto", "sdca", "pegasos", "pegasos_batch", "asdca", "liblinear", "sklearn_sgd"} <= raced
    assert study.solver_spec("pegasos_batch").params == {"batch_size": 50}
    assert not any("intercept='penalised'" in why for why in study.left_out)
    assert {line.partition(":")[0] for line in study.left_out}.isdisjoint(spec.label for spec in study.solvers)
    free = Comparison(intercept="free").study()
    assert any(line.startswith("Pegasos: its step") for line in free.left_out)


def test_kernels_race_libsvm():
    study = Comparison(losses=["hinge"], kernel="rbf", gamma=0.5).study()
    assert {"libsvm", "auto"} <= set(study.races[0].solvers)
    assert study.races[0].problem["gamma"] == 0.5


@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
@pytest.mark.parametrize(
    ("name", "loss"),
    [
        *(("liblinear", loss) for loss in ("hinge", "squared_hinge", "logistic")),
        ("sklearn_sgd", "hinge"),
        ("sklearn_sgd", "logistic"),
    ],
)
def test_linear_solvers_of_others_minimise_the_same_objective(small, name, loss, intercept):
    X, y = small
    weights = np.linspace(0.5, 2.0, len(y))
    problem = Problem(X, y, loss=loss, l2=0.1, intercept=intercept, intercept_scale=2.0, sample_weight=weights)
    best = dualgap.solve(problem, tol=1e-8, max_epochs=5000).certificate.primal
    params = {"tol": 1e-8} if name == "liblinear" else {"average": True}
    last = []
    minimise(
        problem, LINEUP[name](**params), tol=0.0, max_epochs=1 if name == "liblinear" else 300, callbacks=[last.append], stall=False
    )
    assert last[-1].certificate.primal == pytest.approx(best, rel=5e-3 if name == "liblinear" else 0.05)
    assert last[-1].certificate.relative_gap < 0.06  # certified: the bound is not theirs, but holds for their model


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_libsvm_minimises_the_same_objective(small, kernel):
    X, y = small
    problem = Problem(X, y, l2=0.1, intercept="free", kernel=kernel, gamma=0.5, coef0=1.0)
    best = dualgap.solve(problem, tol=1e-6, max_epochs=5000).certificate.primal
    last = []
    minimise(problem, LINEUP["libsvm"](tol=1e-8), tol=0.0, max_epochs=1, callbacks=[last.append], stall=False)
    assert last[-1].certificate.primal == pytest.approx(best, rel=1e-4)
    assert last[-1].certificate.relative_gap < 1e-3


def test_a_model_no_better_than_the_majority_is_said_to_be_so(tiny, made_up):
    """Always the commoner class errs on 0.4 of the rows; the classes are balanced, so that weights would not help."""
    results = made_up(tiny(), lambda cell: {"test_error": 0.4 if cell.data.id == "plane" else 0.1})
    lines = advice(results, rankings(results))
    [said] = [line for line in lines if "no model is better" in line]
    assert said.startswith("plane: no model is better than always saying the commoner class, whose error is 0.4.")
    assert "balance" not in said
    assert any(line.startswith("cloud: use ") for line in lines)


@pytest.mark.parametrize("balance", ["none", "class_weight"])
def test_advice_on_rare_classes_is_by_balanced_accuracy(tiny, made_up, balance):
    data = [{**each, "balance": balance} for each in tiny()["data"]]
    rare = {"test_error": 0.01, "majority_accuracy": 0.99}
    results = made_up(tiny(data=data), lambda cell: {**rare, "balanced_accuracy": 0.9 if cell.data.id == "plane" else 0.5})
    lines = advice(results, rankings(results))
    assert "its balanced accuracy is 0.9" in lines[0]
    assert lines[-1].startswith("cloud: no model is better than chance")
    assert ("balance" in lines[-1].partition("What may help")[2]) == (balance == "none")


def test_advice_is_over_all_races_and_names_the_loss(tiny, made_up):
    """The second race, with a kernel, has far fewer errors; a third has one row fewer still, which is no difference."""
    main = tiny()["races"][0]
    kernels = {**main, "id": "kernels", "title": "kernels", "problem": {"l2": 0.01, "kernel": "rbf"}, "solvers": ["sdca"]}
    smooth = {**kernels, "id": "smooth", "title": "smooth", "problem": {**kernels["problem"], "loss": "smooth_hinge", "delta": 0.5}}

    def outcome(cell):
        return {"test_error": {"main": 0.3, "kernels": 0.04, "smooth": 0.04 - 1e-6}[cell.race]}

    results = made_up(tiny(races=[main, kernels, smooth]), outcome)
    lines = advice(results, rankings(results))
    assert lines[0].startswith("plane: use SDCA, on the hinge with the rbf kernel. ")
    assert lines[0].endswith("its test error is 0.04, and none of the 3 problems raced has a clearly better one.")


def test_medians_are_over_runs_that_all_have(tiny, made_up):
    """A run that one solver lacks counts for none: SDCA's slow first run has no partner."""
    table = tiny(runs=3)

    def outcome(cell):
        if cell.solver.id == "pegasos" and cell.run == 0:
            return {"status": "failed", "error": "x"}
        return {"test_error": 0.9 if cell.run == 0 else 0.1}

    results = made_up(table, outcome)
    ranking = next(r for r in rankings(results) if r.data == "plane")
    assert (ranking.runs, [row.test_error for row in ranking.rows]) == (2, [0.1, 0.1])
    assert parse_study(table).runs == 3
