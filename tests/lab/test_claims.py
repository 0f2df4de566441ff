"""Claims on results made up by hand: each check comes out each way, with numbers, a sentence and what was asked."""

import numpy as np
import pytest

from dualgap.lab.claims.measures import WRONG, Measured, Spread
from dualgap.lab.claims.verdicts import CHECKS, Answer, Asked, all_of, decide, judge, tally, thresholds, together
from dualgap.lab.schema import StudyError
from dualgap.lab.study import Claim

RUNS = 5
NOISE = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])  # times a size: the spread of a quantity over the runs
EPOCHS = 8
ON = {"race": "main", "data": ["plane"]}


def verdict(results, check, calibrated="", given=(), **options):
    found = judge(results, Claim("c", "it is so", check, calibrated=calibrated, given=given, options=options))
    assert found.why.endswith(".")
    return found


@pytest.fixture
def world(tiny, made_up):
    """A function from what each solver does (a function of the run, and of the cell) to results of five runs."""

    def make(sdca=None, pegasos=None, runs=RUNS, race=None, **changes):
        shapes = {"sdca": sdca or (lambda run, cell: {}), "pegasos": pegasos or (lambda run, cell: {})}
        table = tiny(runs=runs, races=[{**tiny()["races"][0], **(race or {})}], **changes)

        def outcome(cell):
            # A little noise on the objective: runs that are the same run have no spread.
            made = dict(shapes[cell.solver.id](cell.run, cell))
            primal = np.asarray(made.pop("primal", np.full(EPOCHS, 1.0)), dtype=float)
            noise = made.pop("noise", 1e-7)
            made.setdefault("dual", np.full(len(primal), 1.0 - 1e-6))
            return {"primal": primal + noise * NOISE[cell.run % RUNS], **made}

        return made_up(table, outcome)

    return make


def ends(column, mean, noise):
    """Runs that end with `mean` in a column, spread by `noise`."""
    return lambda run, cell: {column: mean + noise * NOISE[run]}


def drawn(column, mean, noise):
    """The same, but spread in another order than the other solver's runs: differences have the spread too."""
    return lambda run, cell: {column: mean + noise * NOISE[(2 * run + 1) % RUNS]}


def falling(late, early=4.0, seconds=0.1, noise=0.0):
    """An objective that comes within 1 % of 1.0 at epoch `late`; `noise` moves the seconds of an epoch."""
    return lambda run, cell: {
        "primal": np.where(np.arange(1, EPOCHS + 1) >= late, 1.0001, early),
        "seconds": seconds * (1.0 + noise * NOISE[run]),
    }


def wobbling(rise, noise=0.0):
    """An objective that goes up and down by `rise` of itself in the later half."""
    return lambda run, cell: {"primal": 1.0 + (rise + noise * NOISE[run]) * (np.arange(EPOCHS) % 2)}


def errors_at(values, column="test_trace"):
    return lambda run, cell: {column: np.array(values) + 1e-4 * NOISE[run]}


L2 = {"grid": {"l2": [0.1, 0.01, 0.001]}, "problem": {}}


def along(column, values, noise=0.0):
    """Runs that end with values[i] at the i-th l2 of the grid, from 0.1 down."""
    places = {0.1: 0, 0.01: 1, 0.001: 2}
    return lambda run, cell: {
        column: values[places[cell.problem["l2"]]] + noise * NOISE[(run + 2 * places[cell.problem["l2"]]) % RUNS]
    }


def wobbling_along(rises, noise=0.0):
    places = {0.1: 0, 0.01: 1, 0.001: 2}
    return lambda run, cell: wobbling(rises[places[cell.problem["l2"]]], noise)(run, cell)


def settling(epochs):
    """An objective that falls to its level after epochs[i] at the i-th l2 of the grid."""
    places = {0.1: 0, 0.01: 1, 0.001: 2}
    return lambda run, cell: {"primal": np.where(np.arange(EPOCHS) >= epochs[places[cell.problem["l2"]]], 1.0, 4.0), "noise": 1e-6}


# check -> options, and three worlds: it holds, it does not, it cannot be told
CASES = {
    "near": (
        {"solvers": ["sdca"], "column": "accuracy", "value": 0.9, "within": 0.01},
        {"sdca": ends("accuracy", 0.902, 0.001)},
        {"sdca": ends("accuracy", 0.95, 0.001)},
        {"sdca": ends("accuracy", 0.91, 0.01)},
    ),
    "alike": (
        {"solvers": ["sdca", "pegasos"], "columns": {"accuracy": 0.02}},
        {"sdca": ends("accuracy", 0.9, 0.001), "pegasos": ends("accuracy", 0.91, 0.001)},
        {"sdca": ends("accuracy", 0.9, 0.001), "pegasos": ends("accuracy", 0.95, 0.001)},
        {"sdca": ends("accuracy", 0.9, 0.01), "pegasos": drawn("accuracy", 0.92, 0.01)},
    ),
    "extreme": (
        {"who": "pegasos", "column": "accuracy"},
        {"sdca": ends("accuracy", 0.95, 0.01), "pegasos": ends("accuracy", 0.90, 0.01)},
        {"sdca": ends("accuracy", 0.85, 0.001), "pegasos": drawn("accuracy", 0.90, 0.001)},
        {"sdca": ends("accuracy", 0.905, 0.02), "pegasos": drawn("accuracy", 0.90, 0.02)},
    ),
    "not_worse": (
        {"who": "sdca", "than": "pegasos", "column": "accuracy", "margin": 0.01},
        {"sdca": ends("accuracy", 0.95, 0.001), "pegasos": ends("accuracy", 0.90, 0.001)},  # better is fine
        {"sdca": ends("accuracy", 0.85, 0.001), "pegasos": ends("accuracy", 0.90, 0.001)},
        {"sdca": ends("accuracy", 0.89, 0.01), "pegasos": drawn("accuracy", 0.90, 0.01)},
    ),
    "below_baseline": (
        {"solvers": ["sdca"]},
        {"sdca": ends("accuracy", 0.5, 0.001)},
        {"sdca": ends("accuracy", 0.7, 0.001)},
        {"sdca": ends("accuracy", 0.6, 0.02)},
    ),
    "at_least": (
        {"solvers": ["sdca"], "columns": {"accuracy": 0.85}, "certified": 0.1},
        {"sdca": ends("accuracy", 0.9, 0.001)},
        {"sdca": ends("accuracy", 0.8, 0.001)},
        {"sdca": ends("accuracy", 0.85, 0.01)},
    ),
    "same_objective": (
        {"solvers": ["sdca"], "within": 0.01},
        {"sdca": falling(3)},
        {"sdca": falling(99)},
        {"sdca": lambda run, cell: {"primal": np.full(EPOCHS, 1.01 + 0.01 * NOISE[run])}},
    ),
    "first": (
        {"winners": ["sdca"], "rivals": ["pegasos"], "within": 0.01},
        {"sdca": falling(2, seconds=0.1, noise=0.05), "pegasos": falling(5, seconds=0.1)},
        {"sdca": falling(6, seconds=0.1, noise=0.05), "pegasos": falling(2, seconds=0.1)},
        {"sdca": falling(4, seconds=0.1, noise=0.3), "pegasos": falling(4, seconds=0.1)},
    ),
    "cost_ratio": (
        {"slow": "pegasos", "quick": "sdca", "low": 2.0, "within": 0.01},
        {"sdca": falling(2), "pegasos": falling(6, noise=0.05)},
        {"sdca": falling(6), "pegasos": falling(6, noise=0.05)},
        {"sdca": falling(3), "pegasos": falling(6, noise=0.3)},
    ),
    "between": (
        {"solvers": ["sdca"], "column": "accuracy", "low": 0.85},
        {"sdca": ends("accuracy", 0.9, 0.001)},
        {"sdca": ends("accuracy", 0.8, 0.001)},
        {"sdca": ends("accuracy", 0.85, 0.02)},
    ),
    "grows_at_most": (
        {"solvers": ["sdca"], "near": 0.01, "far": 0.03},
        {"sdca": lambda run, cell: {"primal": [1.5, 1.5, 1.02, 1.02, 1.0, 1.0]}},  # 3 passes, then 5
        {"sdca": lambda run, cell: {"primal": [1.02, 1.02, 1.02, 1.02, 1.02, 1.0]}},  # 1 pass, then 6
        {"sdca": lambda run, cell: {"primal": [1.02] * (2 + run % 2) + [1.0]}},  # 1 pass, then 3 or 4
    ),
    "reached": (
        {"solvers": ["sdca"], "within": 0.01, "after": 4},
        {"sdca": falling(3)},
        {"sdca": falling(6)},
        {"sdca": lambda run, cell: {"primal": np.full(EPOCHS, 1.01 + 0.004 * NOISE[run])}},
    ),
    "text_seconds": (
        {"solver": "sdca", "seconds": 100.0, "passes": 100, "within": 2.0},
        {"sdca": falling(3, seconds=0.9, noise=0.05)},
        {"sdca": falling(3, seconds=1e-4, noise=0.05)},
        {"sdca": falling(3, seconds=0.5, noise=0.3)},
    ),
    "best_after": (
        {"column": "test_error", "ranges": {"sdca": [1, 3]}, "close": 0.01},
        {"sdca": errors_at([0.5, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1])},
        {"sdca": errors_at([0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.1, 0.1])},
        {"sdca": lambda run, cell: {"test_trace": np.where(np.arange(1, EPOCHS + 1) >= 2 + run, 0.1, 0.5)}},
    ),
    "extreme after some passes": (
        {"who": "sdca", "rivals": ["pegasos"], "column": "test_error", "after": 1},
        {"sdca": errors_at([0.1] * EPOCHS), "pegasos": errors_at([0.3] * EPOCHS)},
        {"sdca": errors_at([0.3] * EPOCHS), "pegasos": errors_at([0.1] * EPOCHS)},
        {"sdca": lambda run, cell: {"test_trace": np.full(EPOCHS, 0.2 + 0.1 * NOISE[run])}, "pegasos": errors_at([0.21] * EPOCHS)},
    ),
    "improves": (
        {"solvers": ["sdca"], "column": "test_error", "early": 2, "largest": False},
        {"sdca": lambda run, cell: {"test_trace": np.linspace(0.5, 0.1, EPOCHS) + 0.001 * NOISE[run], "test_error": 0.1}},
        {"sdca": lambda run, cell: {"test_trace": np.linspace(0.1, 0.5, EPOCHS) + 0.001 * NOISE[run], "test_error": 0.5}},
        {"sdca": lambda run, cell: {"test_trace": np.full(EPOCHS, 0.3), "test_error": 0.3 + 0.05 * NOISE[run]}},
    ),
    "wobbles": (
        {"who": "pegasos", "rivals": ["sdca"], "least": 0.05},
        {"sdca": wobbling(0.01), "pegasos": wobbling(0.5, 0.01)},
        {"sdca": wobbling(0.5), "pegasos": wobbling(0.01, 0.001)},
        {"sdca": wobbling(0.3, 0.0), "pegasos": wobbling(0.3, 0.1)},
    ),
    "wobble_order": (
        {"tiers": [["sdca"], ["pegasos"]]},
        {"sdca": wobbling(0.01), "pegasos": wobbling(0.5, 0.01)},
        {"sdca": wobbling(0.5), "pegasos": wobbling(0.01, 0.001)},
        {"sdca": wobbling(0.3), "pegasos": wobbling(0.3, 0.1)},
    ),
}
GRID_CASES = {
    "trend": (
        {"x": "l2", "solvers": ["sdca"], "column": "accuracy", "falls": False},
        {"sdca": along("accuracy", [0.9, 0.8, 0.7], 0.001)},
        {"sdca": along("accuracy", [0.7, 0.8, 0.9], 0.001)},
        {"sdca": along("accuracy", [0.81, 0.8, 0.8], 0.02)},
    ),
    "constant": (
        {"x": "l2", "solvers": ["sdca"], "column": "accuracy", "within": 0.02},
        {"sdca": along("accuracy", [0.9, 0.901, 0.899], 0.001)},
        {"sdca": along("accuracy", [0.9, 0.8, 0.7], 0.001)},
        {"sdca": along("accuracy", [0.9, 0.91, 0.9], 0.02)},
    ),
    "same_speed": (
        {"x": "l2", "solvers": ["sdca"]},
        {"sdca": settling([3, 3, 4])},
        {"sdca": settling([1, 3, 7])},
        {"sdca": lambda run, cell: settling([2 + run % 2, 3 + run % 3, 2 + run])(run, cell)},
    ),
    "best_of_grid": (
        {"solver": "sdca", "x": "l2", "used": 0.01, "column": "test_error"},
        {"sdca": along("test_error", [0.3, 0.1, float("nan")], 0.001)},
        {"sdca": along("test_error", [0.1, 0.3, 0.4], 0.001)},
        {"sdca": along("test_error", [0.3, 0.3, 0.4], 0.05)},
    ),
    "wobble_trend": (
        {"x": "l2", "solvers": ["sdca"]},
        {"sdca": wobbling_along([0.01, 0.1, 0.5], 0.001)},
        {"sdca": wobbling_along([0.5, 0.1, 0.01], 0.001)},
        {"sdca": lambda run, cell: wobbling(0.3 + 0.1 * NOISE[(run + 2 * (cell.problem["l2"] > 0.05)) % RUNS])(run, cell)},
    ),
    "best_setting": (
        {"solver": "sdca", "x": "l2", "used": 0.01, "within": 0.01},
        {"sdca": lambda run, cell: falling({0.1: 2, 0.01: 6, 0.001: 7}[cell.problem["l2"]], noise=0.02)(run, cell)},
        {"sdca": lambda run, cell: falling({0.1: 7, 0.01: 2, 0.001: 7}[cell.problem["l2"]], noise=0.02)(run, cell)},
        {
            "sdca": lambda run, cell: falling(4, seconds=0.1 * (1 + 0.3 * NOISE[(run + int(1e3 * cell.problem["l2"])) % RUNS]))(
                run, cell
            )
        },
    ),
}
EXPECTED = ("holds", "does not hold", "cannot be told")


@pytest.mark.parametrize("way", range(3), ids=EXPECTED)
@pytest.mark.parametrize("check", [*CASES, *GRID_CASES])
def test_each_check_comes_out_each_way(world, check, way):
    options, *worlds = {**CASES, **GRID_CASES}[check]
    results = world(**worlds[way], race=L2 if check in GRID_CASES else None)
    found = verdict(results, check.split()[0], given=tuple(options), **ON, **options)
    assert found.verdict == EXPECTED[way], found.why
    assert found.numbers, "the numbers that decide it"
    assert found.asked, "the check and its threshold"


def test_checks_across_data(world):
    def error(mean_plane, mean_cloud, noise):
        return {
            "sdca": lambda run, cell: {"test_error": (mean_plane if cell.data.id == "plane" else mean_cloud) + noise * NOISE[run]}
        }

    options = {"race": "main", "smaller": "plane", "larger": "cloud", "solvers": ["sdca"], "column": "test_error"}
    assert verdict(world(**error(0.1, 0.2, 0.001)), "across_data", **options).verdict == "holds"
    assert verdict(world(**error(0.2, 0.1, 0.001)), "across_data", **options).verdict == "does not hold"
    noisy = {"sdca": lambda run, cell: {"test_error": 0.1 + 0.05 * NOISE[(run + 2 * (cell.data.id == "plane")) % RUNS]}}
    assert verdict(world(**noisy), "across_data", **options).verdict == "cannot be told"
    loose = {"sdca": lambda run, cell: {"dual": np.full(EPOCHS, 0.05), "status": "max_epochs"}}
    found = verdict(world(**loose), "across_data", converged=True, **options)
    assert (found.verdict, "relative gap of 0.95" in found.why) == ("cannot be told", True)
    assert verdict(world(**error(0.1, 0.2, 0.001)), "across_data", converged=True, **options).verdict == "holds"


def test_checks_of_facts(world):
    results = world()
    assert verdict(results, "data_fact", data="plane", features=2, rows=10**6).verdict == "holds"
    assert verdict(results, "data_fact", data="plane", features=3).verdict == "does not hold"
    assert verdict(results, "data_fact", data="plane", most_positive=0.1).verdict == "does not hold"
    assert verdict(results, "has_no", solver="sdca", words=["rate", "step"]).verdict == "holds"
    assert verdict(results, "has_no", solver="pegasos", words=["batch"]).verdict == "does not hold"
    assert verdict(results, "weak_duality").verdict == "holds"
    below = world(sdca=lambda run, cell: {"primal": np.full(EPOCHS, 1.0), "dual": np.full(EPOCHS, 1.2)})
    assert verdict(below, "weak_duality").verdict == "does not hold"


def test_a_sentence_names_what_it_measures(world):
    """Each number with its own quantity: the last one measured need not be the one that decides."""
    far = world(sdca=ends("accuracy", 0.7, 1e-3), pegasos=ends("accuracy", 0.9, 1e-3))
    claim = {"solvers": ["sdca", "pegasos"], "columns": {"accuracy": 0.02, "primal": 0.01}}
    assert verdict(far, "alike", **ON, **claim).why.startswith("Test accuracy: SDCA 0.7 against Pegasos 0.9")
    why = verdict(world(), "alike", **ON, **claim).why
    assert why.startswith("Test accuracy: SDCA 0.9 against Pegasos 0.9; Objective: SDCA 1 against Pegasos 1")


def test_a_factor_of_costs_is_one_over_the_other(world):
    found = verdict(world(sdca=CASES["grows_at_most"][1]["sdca"]), "grows_at_most", **ON, **CASES["grows_at_most"][0])
    assert found.why.startswith("Passes to within 1 % of the best bound over passes to within 3 % of the best bound: SDCA 1.667")


def test_a_mean_number_of_epochs_counts_as_the_nearest_whole_number(world):
    """Every other run is there after the 2nd epoch, the rest after the 3rd or the 1st: at most 2 epochs is no wall at 2.0."""
    at = [2, 2, 2, 2, 3]
    late = {"sdca": lambda run, cell: {"test_trace": np.where(np.arange(1, EPOCHS + 1) >= at[run], 0.1, 0.5)}}
    found = verdict(world(**late), "best_after", **ON, column="test_error", ranges={"sdca": [0, 2]}, close=0.01)
    assert found.verdict != "does not hold"
    never = {"sdca": lambda run, cell: {"test_trace": np.where(np.arange(1, EPOCHS + 1) >= 2, 0.1, 0.5)}}
    assert verdict(world(**never), "best_after", **ON, column="test_error", ranges={"sdca": [0, 2]}, close=0.01).verdict == "holds"
    assert verdict(world(**never), "best_after", **ON, column="test_error", ranges={"sdca": [0, 1]}, close=0.01).verdict != "holds"


def test_one_row_does_not_make_a_value_the_best_of_its_grid(world):
    """Of 20 test rows one more is wrong at each other value, in every run."""
    results = world(sdca=along("test_error", [0.15, 0.1, 0.15]), race=L2)
    results.store.add_data("plane", {**results.store.data()["plane"], "test_rows": 20})
    assert verdict(results, "best_of_grid", **ON, **GRID_CASES["best_of_grid"][0]).verdict == "cannot be told"


def test_every_check_has_a_case():
    covered = {
        *(name.split()[0] for name in CASES),
        *GRID_CASES,
        "across_data",
        "data_fact",
        "has_no",
        "weak_duality",
    }
    assert set(CHECKS) == covered


def test_one_run_is_clearly_nothing(world):
    for check, (options, holds, fails, _) in {**CASES, **GRID_CASES}.items():
        for shape in (holds, fails):
            results = world(**shape, runs=1, race=L2 if check in GRID_CASES else None)
            assert verdict(results, check.split()[0], given=tuple(options), **ON, **options).verdict == "cannot be told", check


def test_a_deterministic_solver_on_one_draw_is_one_run(world):
    same = {"noise": 0.0, "accuracy": 0.9}
    results = world(sdca=lambda run, cell: same, pegasos=lambda run, cell: {**same, "accuracy": 0.95})
    found = verdict(results, "extreme", **ON, who="pegasos", column="accuracy", least=False)
    assert (found.verdict, "one run has no spread" in found.why) == ("cannot be told", True)


def test_calibrated_data_cannot_make_a_claim_hold(world):
    near = {**ON, "solvers": ["sdca"], "column": "accuracy", "value": 0.9, "within": 0.01}
    results = world(sdca=ends("accuracy", 0.9, 0.001))
    assert verdict(results, "near", calibrated="the distance of the classes", **near).verdict == "calibrated"
    against = verdict(results, "near", calibrated="the distance", **{**near, "value": 0.5})
    assert against.verdict == "calibrated", "data made by a sentence refute it no more than they support it"
    assert "does not hold on data made by this sentence: the distance" in against.why


def test_a_statement_without_a_check_is_not_judged(world):
    claim = Claim("c", "It is a good choice.", note="A recommendation; its grounds are judged above.")
    found = judge(world(), claim)
    assert (found.verdict, found.why) == ("not judged", claim.note)
    counts = tally([found, judge(world(), Claim("d", "x", "weak_duality"))])
    assert (counts["statements"], counts["judged"], counts["holds"], counts["not judged"]) == (2, 1, 1, 1)


def test_what_was_slower_by_half_is_slower(world):
    """1.47 times as long is slower; only a claim that says twice as long asks for twice."""
    shape = {"sdca": falling(2, seconds=0.1, noise=0.01), "pegasos": falling(2, seconds=0.147, noise=0.01)}
    slower = {"slow": "pegasos", "quick": "sdca"}
    assert verdict(world(**shape), "cost_ratio", **ON, **slower).verdict == "holds"
    assert verdict(world(**shape), "cost_ratio", given=("low",), **ON, **slower, low=2.0).verdict == "does not hold"


def test_a_time_counts_as_far_as_it_exceeds_the_measured_overhead(world):
    """The overhead of the made-up results is 5 to 10 µs an epoch: 12 against 15 µs may be overhead alone, 1.2 against 1.5 ms are not."""
    for seconds, told in ((1.2e-5, "cannot be told"), (1.2e-3, "holds")):
        shape = {"sdca": falling(3, seconds=seconds, noise=0.001), "pegasos": falling(3, seconds=1.25 * seconds, noise=0.001)}
        for check, options in (("first", CASES["first"][0]), ("cost_ratio", {**CASES["cost_ratio"][0], "low": 1.0})):
            found = verdict(world(**shape), check, **ON, **options)
            assert (found.verdict, "calls and clock" in found.why) == (told, told != "holds"), found.why
    results = world(**shape)
    (results.store.folder / "overhead.json").unlink()
    found = verdict(results, "first", **ON, **CASES["first"][0])
    assert (found.verdict, "was not measured" in found.why) == ("cannot be told", True)


def test_a_small_fall_is_a_fall(world):
    """0.9401, 0.9401, 0.9168 falls, steadily, by less than 0.05; the sentence says which of the two was asked."""
    results = world(sdca=along("accuracy", [0.9168, 0.9401, 0.9401], 0.0005), race=L2)
    options = {**ON, "x": "l2", "solvers": ["sdca"], "column": "accuracy", "falls": True}
    found = verdict(results, "trend", **options)
    assert found.verdict == "holds"
    assert "0.9401, 0.9401, 0.9168, which falls by 0.0233" in found.why
    assert verdict(results, "trend", **options, least=0.05).verdict == "does not hold"


def test_never_reached_took_at_least_what_was_spent(world):
    """A run that never gets there took at least its budget; of one that spent less than the other needed, nothing is known."""
    shape = {"sdca": falling(2), "pegasos": falling(99)}
    assert verdict(world(**shape), "first", **ON, **CASES["first"][0]).verdict == "holds"
    other = {"winners": ["pegasos"], "rivals": ["sdca"], "within": 0.01}
    assert verdict(world(**shape), "first", **ON, **other).verdict == "does not hold"
    cheap = {"sdca": falling(6, seconds=0.1), "pegasos": falling(99, seconds=0.01)}
    found = verdict(world(**cheap), "first", **ON, **CASES["first"][0])
    assert (found.verdict, "at least what it spent" in found.why) == ("cannot be told", True)
    found = verdict(world(**shape), "cost_ratio", **ON, slow="pegasos", quick="sdca", low=10.0, within=0.01)
    assert (found.verdict, "at least 4 times" in found.why) == ("cannot be told", True)
    nobody = {"sdca": falling(99), "pegasos": falling(99)}
    assert verdict(world(**nobody), "first", **ON, **CASES["first"][0]).verdict == "cannot be told"


def test_cannot_be_told_without_runs(tiny, made_up):
    results = made_up(tiny(), lambda cell: {"status": "failed", "error": "x"} if cell.solver.id == "pegasos" else {})
    found = verdict(results, "first", **ON, winners=["sdca"], rivals=["pegasos"], within=0.01)
    assert (found.verdict, found.why) == ("cannot be told", "There is no finished run of Pegasos on plane.")


def test_several_data_sets_must_all_agree(world):
    results = world(sdca=lambda run, cell: {"accuracy": (0.9 if cell.data.id == "plane" else 0.7) + 1e-3 * NOISE[run]})
    options = {"solvers": ["sdca"], "column": "accuracy", "value": 0.9, "within": 0.01}
    both = verdict(results, "near", race="main", data=["plane", "cloud"], **options)
    assert both.verdict == "does not hold"
    assert [line.split(":")[0] for line in both.why.splitlines()] == ["plane", "cloud"]


def test_a_claim_that_is_written_wrongly(world):
    results = world()
    with pytest.raises(StudyError, match=r"there is no check 'nera'; did you mean 'near'\?"):
        verdict(results, "nera")
    with pytest.raises(StudyError, match=r"the check near has no option 'colum'; did you mean 'column'\?"):
        verdict(results, "near", colum="accuracy")
    with pytest.raises(StudyError, match="missing a required argument"):
        verdict(results, "near", race="main")


def test_distances_are_from_the_best_bound_of_any_solver(world):
    """Pegasos alone would look converged: its own bound is its own value. SDCA's bound on the same problem tells."""
    results = world(
        sdca=lambda run, cell: {"primal": np.full(2, 1.0), "dual": (0.0, 0.9), "noise": 0.0},
        pegasos=lambda run, cell: {"primal": np.full(2, 1.0), "dual": (0.0, 0.1), "noise": 0.0},
    )
    group = results.select("main", "plane", ["pegasos"])[0]
    assert group.bounds == [pytest.approx(0.9)] * RUNS
    assert group.traces("suboptimality")[0][-1] == pytest.approx(1 / 9)


def test_runs_that_draw_their_data_have_bounds_of_their_own(tiny, made_up):
    data = [{**entry, "redraw": "data"} for entry in tiny()["data"]]
    results = made_up(tiny(data=data, runs=3), lambda cell: {"dual": (0.0, 0.1, 0.1 * (1 + cell.run))})
    group = results.select("main", "plane", ["pegasos"])[0]
    assert group.bounds == [pytest.approx(0.1 * (1 + run)) for run in range(3)]


def spread(values, step=0.0):
    values = np.asarray(values, dtype=float)
    return Measured(tuple(range(len(values))), values, values, values, step).spread()


def test_small_statistics():
    found = spread([1.0, 2.0, 3.0])
    assert found.interval(0.05) == pytest.approx((2 - 2.484, 2 + 2.484), abs=1e-3)
    assert found.high == found.interval(WRONG)[1] == pytest.approx(2 + 9.925 / np.sqrt(3), abs=1e-3), "a fifth of 5 % a look"
    assert Asked(spread([1.0])).told() is None
    assert Asked(spread([1.0, 1.0]), low=1.0).told() is True
    assert Asked(spread([1.0, 1.0]), low=1.0, strict=True).told() is None, "a tie decides nothing"
    assert [all_of([True, None]), all_of([False, None]), all_of([True])] == [None, False, True]
    assert together({"a": Answer(True, "x."), "b": Answer(None, "y.")}).holds is None


def test_of_many_comparisons_one_lies_outside_by_chance():
    """Runs without any difference: of 40 comparisons some interval lies beyond zero often, and that is no contradiction."""
    wrong = alone = 0
    for seed in range(100):
        values = np.random.default_rng(seed).normal(size=(40, 5))
        parts = {str(i): Asked(spread(row), low=0.0) for i, row in enumerate(values)}
        alone += any(part.contradicted() for part in parts.values())
        wrong += decide([parts]) is False
    assert alone > wrong + 5
    assert wrong <= 4  # 1 % of 100 would be 1
    # what is clear stays clear among as many
    clear = {**parts, "clear": Asked(spread([-1.0, -1.01, -0.99, -1.0, -1.0]), low=0.0)}
    assert decide([clear]) is False


def test_a_claim_with_several_ways_holds_by_one_of_them():
    good, bad, open_ = (Asked(Spread(mean, 0.01, 5), low=0.0, strict=True) for mean in (1.0, -1.0, 0.0))
    assert decide([{"a": bad}, {"a": good, "b": good}]) is True
    assert decide([{"a": bad}, {"a": good, "b": bad}]) is False
    assert decide([{"a": bad}, {"a": open_}]) is None
    assert decide([{"a": good, "b": Asked(Spread(0.0, 0.01, 5), low=0.0, doubt=True)}]) is True
    assert decide([{"a": good, "b": Asked(Spread(-1.0, 0.01, 5), low=0.0, doubt=True)}]) is False
    assert decide([{"a": Asked(Spread(1.0, 0.01, 5), -0.5, 0.5, apart=True)}]) is True
    assert decide([{"a": Asked(Spread(0.0, 0.01, 5), -0.5, 0.5, apart=True)}]) is False


def test_a_threshold_that_is_the_studys_own_does_not_decide(world):
    """Accuracies 0.012 apart: similar at 0.02, not at 0.01; where the sentence itself says 0.02, it holds."""
    results = world(sdca=ends("accuracy", 0.9, 1e-4), pegasos=ends("accuracy", 0.912, 1e-4))
    claim = {"solvers": ["sdca", "pegasos"], "columns": {"accuracy": 0.02}}
    found = verdict(results, "alike", **ON, **claim)
    assert (found.verdict, "depends on the threshold" in found.why) == ("cannot be told", True)
    assert found.readings == "At half of the threshold: does not hold; at twice: holds"
    assert verdict(results, "alike", given=("columns",), **ON, **claim).verdict == "holds"
    near = world(sdca=ends("accuracy", 0.9, 1e-4), pegasos=ends("accuracy", 0.903, 1e-4))
    assert verdict(near, "alike", **ON, **claim).verdict == "holds"


def test_factors_are_halved_on_a_logarithmic_scale(world):
    three = Claim(
        "c", "about three times", "cost_ratio", options={"slow": "a", "quick": "b", "low": 2.0, "high": 4.5, "within": 0.01}
    )
    half, twice = (thresholds(CHECKS["cost_ratio"], three, by) for by in (0.5, 2.0))
    assert (half["within"], twice["within"]) == (0.005, 0.02)
    assert (half["low"], half["high"]) == (pytest.approx(3 / 1.5**0.5), pytest.approx(3 * 1.5**0.5))
    assert (twice["low"], twice["high"]) == (pytest.approx(3 / 1.5**2), pytest.approx(3 * 1.5**2))
    faster = Claim("c", "faster", "cost_ratio", options={"slow": "a", "quick": "b", "low": 1.0, "high": 4.0})
    assert thresholds(CHECKS["cost_ratio"], faster, 0.5) == {"slow": "a", "quick": "b", "low": 1.0, "high": 2.0}
    way = Claim("c", "way faster", "cost_ratio", options={"slow": "a", "quick": "b", "low": 4.0})
    assert [thresholds(CHECKS["cost_ratio"], way, by)["low"] for by in (0.5, 2.0)] == [2.0, 16.0]
