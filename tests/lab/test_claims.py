"""Claims on results made up by hand: every verdict can come out, and each has numbers and a sentence."""

import numpy as np
import pytest

from dualgap.lab.claims.judge import judge
from dualgap.lab.claims.verdicts import CHECKS, Answer, clearly_less, together
from dualgap.lab.schema import StudyError
from dualgap.lab.study import Claim


def verdict(results, check, **options):
    found = judge(results, Claim("c", "it is so", check, options=options))
    assert found.why.endswith(".")
    return found


@pytest.fixture
def quick_dual(tiny, made_up):
    """SDCA is at 0.40 after two epochs and steady; Pegasos needs three, costs ten times as much and rises at the end."""
    shapes = {
        "sdca": {"primal": (0.8, 0.401, 0.4, 0.4), "seconds": 0.01},
        "pegasos": {"primal": (2.0, 0.7, 0.402, 0.5), "seconds": 0.1},
    }

    def outcome(cell):
        noise = 1e-4 * cell.run
        shape = shapes[cell.solver.id]
        wrong = 0.10 + noise if cell.solver.id == "sdca" else 0.20 - noise
        return {
            "primal": np.array(shape["primal"]) + noise,
            "dual": (0.1, 0.2, 0.3, 0.4),
            "seconds": shape["seconds"],
            "accuracy": 1 - wrong,
            "test_error": wrong,
        }

    return made_up(tiny(), outcome)


ON = {"race": "main", "data": ["plane"]}
HOLDS = [
    ("near", {"solvers": ["sdca"], "column": "accuracy", "value": 0.9, "within": 0.01}),
    ("alike", {"solvers": ["sdca", "pegasos"], "columns": {"accuracy": 0.2}}),
    ("extreme", {"who": "pegasos", "column": "accuracy"}),
    ("first", {"winners": ["sdca"], "rivals": ["pegasos"], "within": 0.01}),
    ("ratio", {"slow": "pegasos", "quick": "sdca", "low": 5.0}),
    ("same_objective", {"solvers": ["sdca", "pegasos"], "within": 0.01}),
    ("wobbles", {"who": "pegasos", "rivals": ["sdca"], "least": 0.05}),
    ("best_after", {"column": "test_error", "epochs": {"sdca": [4, 4]}, "close": 0.001}),
    ("at_least", {"solvers": ["sdca", "pegasos"], "columns": {"accuracy": 0.85}}),
    ("first_epoch", {"ahead": "sdca", "behind": "pegasos", "column": "primal", "error": "test_error", "close": 0.2}),
    ("against_text", {"solver": "pegasos", "seconds": 5.0, "epochs": 10, "least": 10.0}),
]
FAILS = [
    ("near", {"solvers": ["sdca", "pegasos"], "column": "accuracy", "value": 0.9, "within": 0.01}),
    ("alike", {"solvers": ["sdca", "pegasos"], "columns": {"accuracy": 0.02}}),
    ("extreme", {"who": "sdca", "column": "accuracy"}),
    ("first", {"winners": ["pegasos"], "rivals": ["sdca"], "within": 0.01}),
    ("ratio", {"slow": "pegasos", "quick": "sdca", "low": 2.0, "high": 4.0}),
    ("same_objective", {"solvers": ["sdca", "pegasos"], "within": 1e-4}),
    ("wobbles", {"who": "sdca", "rivals": ["pegasos"], "least": 0.05}),
    ("best_after", {"column": "test_error", "epochs": {"sdca": [1, 2]}, "close": 0.001}),
    ("at_least", {"solvers": ["pegasos"], "columns": {"accuracy": 0.85}}),
    ("below_baseline", {"solvers": ["sdca"]}),
    ("against_text", {"solver": "pegasos", "seconds": 50_000.0, "epochs": 100, "least": 100.0}),
]


@pytest.mark.parametrize(("check", "options"), HOLDS, ids=[check for check, _ in HOLDS])
def test_holds(quick_dual, check, options):
    found = verdict(quick_dual, check, **ON, **options)
    assert (found.verdict, bool(found.numbers)) == ("holds", True), found.why


@pytest.mark.parametrize(("check", "options"), FAILS, ids=[check for check, _ in FAILS])
def test_does_not_hold(quick_dual, check, options):
    found = verdict(quick_dual, check, **ON, **options)
    assert (found.verdict, bool(found.numbers)) == ("does not hold", True), found.why


def test_cannot_be_told_within_the_spread(tiny, made_up):
    results = made_up(
        tiny(runs=4), lambda cell: {"accuracy": 0.9 + (0.01 if cell.solver.id == "sdca" else 0.0) + 0.1 * (cell.run % 2)}
    )
    found = verdict(results, "extreme", **ON, who="pegasos", column="accuracy")
    assert found.verdict == "cannot be told"
    assert "within the spread over runs" in found.why


def test_cannot_be_told_without_runs(tiny, made_up):
    results = made_up(tiny(), lambda cell: {"status": "failed", "error": "x"} if cell.solver.id == "pegasos" else {})
    found = verdict(results, "first", **ON, winners=["sdca"], rivals=["pegasos"], within=0.01)
    assert (found.verdict, found.why) == ("cannot be told", "There is no finished run of Pegasos on plane.")


def test_several_data_sets_must_all_agree(tiny, made_up):
    results = made_up(tiny(), lambda cell: {"accuracy": 0.9 if cell.data.id == "plane" else 0.7})
    options = {"solvers": ["sdca"], "column": "accuracy", "value": 0.9, "within": 0.01}
    assert verdict(results, "near", race="main", data=["plane"], **options).verdict == "holds"
    both = verdict(results, "near", race="main", data=["plane", "cloud"], **options)
    assert both.verdict == "does not hold"
    assert [line.split(":")[0] for line in both.why.splitlines()] == ["plane", "cloud"]


def test_trends_over_a_grid(tiny, made_up):
    race = {**tiny()["races"][0], "grid": {"l2": [0.1, 0.01, 0.001]}, "problem": {}}

    def outcome(cell):
        small = cell.problem["l2"] < 0.005
        late = (0.5, 0.7) if small and cell.solver.id == "pegasos" else (0.5, 0.5)
        return {"primal": (1.0, 0.6, *late), "dual": (0.1, 0.2, 0.3, 0.4), "accuracy": 0.5 + 4 * cell.problem["l2"]}

    results = made_up(tiny(races=[race]), outcome)
    options = {**ON, "x": "l2", "solvers": ["sdca"], "column": "accuracy"}
    assert verdict(results, "trend", **options, falls=False).verdict == "holds"
    assert verdict(results, "trend", **options, falls=True).verdict == "does not hold"
    assert verdict(results, "wobble_trend", **ON, x="l2", solvers=["pegasos"], steady=["sdca"]).verdict == "holds"
    assert verdict(results, "wobble_trend", **ON, x="l2", solvers=["sdca", "pegasos"]).verdict == "does not hold"


def test_a_claim_that_is_written_wrongly(quick_dual):
    with pytest.raises(StudyError, match=r"there is no check 'nera'; did you mean 'near'\?"):
        verdict(quick_dual, "nera")
    with pytest.raises(StudyError, match=r"the check near has no option 'colum'; did you mean 'column'\?"):
        verdict(quick_dual, "near", colum="accuracy")
    with pytest.raises(StudyError, match="missing a required argument"):
        verdict(quick_dual, "near", race="main")


def test_distances_are_from_the_best_bound_of_any_solver(tiny, made_up):
    """Pegasos alone would look converged: its own bound is its own value. SDCA's bound on the same problem tells."""
    results = made_up(tiny(), lambda cell: {"primal": (1.0, 1.0), "dual": (0.0, 0.9 if cell.solver.id == "sdca" else 0.1)})
    group = results.select("main", "plane", ["pegasos"])[0]
    assert group.bound == pytest.approx(0.9)
    assert group.traces("suboptimality")[0][-1] == pytest.approx(1 / 9)


def test_small_statistics():
    assert clearly_less(np.array([1.0]), np.array([2.0])) is True
    assert clearly_less(np.array([2.0]), np.array([1.0])) is False
    assert clearly_less(np.array([1.0, 1.1]), np.array([2.0, 2.1])) is True
    assert clearly_less(np.array([1.0, 2.0]), np.array([1.4, 1.9])) is None
    assert clearly_less(np.array([1.0, 1.0]), np.array([1.0, 1.0])) is False
    assert clearly_less(np.array([1.0, np.inf]), np.array([np.inf, np.inf])) is False
    assert clearly_less(np.array([1.0, 2.0]), np.array([np.inf, np.inf])) is True
    assert together({"a": Answer(True, "x."), "b": Answer(None, "y.")}).holds is None
    assert together({"a": Answer(False, "x."), "b": Answer(None, "y.")}).holds is False
    assert {"near", "first", "trend", "wobbles"} <= set(CHECKS)
