"""A study: which data, which solvers, which settings, how often, and what to make of the results. Read from TOML.

This module holds what a study says. `plan` lists its runs; `runner` executes them.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from dualgap.core import suggest
from dualgap.lab.schema import StudyError, Where, check_kind, choice, in_range, read_table
from dualgap.lab.studies import study_names, table_of

__all__ = [
    "Claim",
    "Correction",
    "DataSpec",
    "Explain",
    "FigureSpec",
    "Race",
    "RunBudget",
    "SolverSpec",
    "Study",
    "StudyError",
    "half_and_twice",
    "load_study",
    "parse_study",
]

PROBLEM_KEYS = (
    "loss",
    "delta",
    "l2",
    "l1",
    "intercept",
    "intercept_scale",
    "kernel",
    "gamma",
    "degree",
    "coef0",
    # for texts that sum the losses instead of averaging them; both are mapped to l2
    "sum_lambda",  # Σφ + λ‖w‖²        l2 = 2λ/n
    "sum_c",  # Σφ + (c/2)‖w‖²    l2 = c/n
)

TRACED = (  # what the traces of a run have
    *("epoch", "iteration", "passes", "cpu_seconds", "wall_seconds", "primal", "dual", "gap", "relative_gap", "best_gap"),
    *("suboptimality", "dual_suboptimality", "train_error", "test_error", "accuracy_train", "accuracy_test"),
    *("support_vectors", "nonzeros"),
)

FOLDER_NAME = re.compile(r"\w[\w .-]{0,99}(?<![ .])")  # no separator, no ../, nothing that a file system strips or reserves


def _read_problem(value: Any, where: Where) -> dict[str, Any]:
    check_kind(value, dict, where)
    for key in value:
        if key not in PROBLEM_KEYS:
            raise where.error(f"unknown key {key!r}; {suggest(key, PROBLEM_KEYS)}")
    return dict(value)


def _read_grid(value: Any, where: Where) -> dict[str, tuple[Any, ...]]:
    check_kind(value, dict, where)
    for key, values in value.items():
        if not isinstance(values, list) or not values:
            raise where.key(key).error(f"{values!r} is not a list of at least one value")
    return {key: tuple(values) for key, values in value.items()}


# The type of a field says how it is read from a file; where the type alone does not, it is annotated with a reader.
ProblemTable = Annotated[dict[str, Any], _read_problem]
Grid = Annotated[dict[str, tuple[Any, ...]], _read_grid]
AtLeastOne = Annotated[int, in_range(1, 10**9, "a whole number of at least 1", int)]
Share = Annotated[float, in_range(0.01, 0.99, "a share between 0.01 and 0.99")]
RelativeGap = Annotated[float, in_range(0.0, 1.0, "a relative gap between 0 (never stop on it) and 1")]
PerPositive = Annotated[float, in_range(1.0, 1e6, "a number of at least 1: rows of the common class kept for each of the rare one")]
Balance = Annotated[str, choice("none", "class_weight", "undersample", "both")]


@dataclass(frozen=True)
class DataSpec:
    """One data set of a study and how it is prepared.

    Attributes
    ----------
    id : what races, figures and claims call it
    name : a name that `dualgap.data` knows, or with `path` what figures show
    path, target : a file of the user's, and its label column
    options : passed to the loader or the generator; of a table: drop, kinds, prepare, header, above, see `dualgap.data.TableOptions`
    test_size : the part held out, stratified by class, where the source sets none apart
    standardise : "auto" means dense data yes, sparse data no
    balance : "none", "class_weight", "undersample" (`per_positive` rows of the common class for each of the rare one) or "both";
        it changes training rows only
    ignore_test : split the training part at random even where the source sets a test part apart
    redraw : what each run draws anew, by a seed of its own: "data" (the generator's seed, and the split), "split" (which rows are held
        out), or "none": all runs then share one draw, and what varies from run to run is the solver's seed alone
    calibrated : what was set so that the data fit a sentence of the text, and which sentence; the report shows it
    positive : with more than two classes, the labels that make up the positive class; all others are the negative one
    """

    id: str
    name: str = ""
    label: str = ""
    path: str = ""
    target: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    test_size: Share = 1 / 3
    split_seed: int = 0
    standardise: Annotated[Any, choice("auto", True, False)] = "auto"
    balance: Balance = "none"
    per_positive: PerPositive = 1.0
    scale_rows: bool = False
    max_rows: Annotated[int, in_range(0, 10**12, "a number of rows, 0 for all", int)] = 0
    ignore_test: bool = False
    redraw: Annotated[str, choice("none", "split", "data")] = "none"
    calibrated: str = ""
    positive: tuple[str, ...] = ()


@dataclass(frozen=True)
class SolverSpec:
    """A solver with parameters, under the name and in the family that figures show; `about` says in a line what it is.

    `by_data` has parameters for single data sets, by their ids: those that a text tunes.
    `iterations` is how many iterations, as the text counts them, an epoch has: for what a statement says of iterations. Everything that
    compares solvers counts passes over the data.
    """

    id: str
    solver: str
    label: str = ""
    family: str = ""
    about: str = ""
    iterations: float = 1.0
    params: dict[str, Any] = field(default_factory=dict)
    by_data: dict[str, Any] = field(default_factory=dict)
    problem: ProblemTable = field(default_factory=dict)


@dataclass(frozen=True)
class RunBudget:
    """When a run ends: a certified relative gap (0 for never), epochs, passes over the data, processor seconds of updates.

    The gap and the seconds are looked at when it is evaluated: by a schedule, and at the places (epochs, passes) that statements name;
    with "named" at these epochs alone.
    """

    tol: RelativeGap = 0.0
    epochs: AtLeastOne = 50
    passes: Annotated[float | None, in_range(1e-3, 1e9, "a positive number of passes over the data")] = None
    seconds: Annotated[float | None, in_range(1e-3, 1e9, "a positive number of seconds")] = None
    evaluate: Annotated[str, choice("epoch", "geometric", "named")] = "epoch"
    at_epochs: tuple[float, ...] = ()
    at_passes: tuple[float, ...] = ()


@dataclass(frozen=True)
class Race:
    """Some solvers on some data, over a grid of settings; every combination is run `runs` times.

    With `reference`, each problem is also solved once to a tiny gap, by the solver that dualgap itself would choose. That run is not
    shown; distances from the optimum are measured from its bound. With `value_by`, the output of every run is also valued by that
    objective, for solvers that minimise different ones. With `watch`, the first run keeps its models along the way. `measures` are names of
    functions of a study's folder; each is a column of the results, of the output of every run.
    """

    id: str
    data: tuple[str, ...]
    solvers: tuple[str, ...]
    title: str = ""
    problem: ProblemTable = field(default_factory=dict)
    grid: Grid = field(default_factory=dict)
    budget: RunBudget = RunBudget()
    runs: Annotated[int, in_range(0, 10**6, "a number of runs, 0 for the study's", int)] = 0
    keep_models: bool = False
    reference: bool = True
    value_by: ProblemTable = field(default_factory=dict)
    watch: bool = False
    measures: tuple[str, ...] = ()


@dataclass(frozen=True)
class FigureSpec:
    """A figure or a table: its kind, and the options of that kind."""

    id: str
    kind: str
    title: str = ""
    caption: str = ""
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """What the text says, and the check that judges it from the results.

    Attributes
    ----------
    says : the sentence
    check : a name of `dualgap.lab.claims`; without one the statement is not judged, and `note` says why
    source, note : where the text says it; how the check reads it
    calibrated : where the data were set by this very sentence, what was set: the verdict then neither supports nor refutes it
    varied : settings of ours that may decide it, as "id~name=value" with the id of a solver or a data set; half and twice are tried as well
    ours : the sentence is not the text's
    given : options whose number is the sentence's own; of all other thresholds half and twice are tried as well
    figure : id of the figure or table that shows what decides it
    """

    id: str
    says: str
    check: str = ""
    source: str = ""
    note: str = ""
    calibrated: str = ""
    varied: tuple[str, ...] = ()
    ours: bool = False
    given: tuple[str, ...] = ()
    figure: str = ""
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Explain:
    """A number of the text, and what the text leaves unsaid of how it came about; see `dualgap.lab.explain`.

    Attributes
    ----------
    id : of the statement
    numbers : solver -> the text's number; column : of the results or the traces
    within : how near to each number counts
    knobs : name -> values to try: "data.…" for a field of the data's entry or an option of theirs, "epochs", else a part of the problem
        or a parameter of the solvers
    best_of : the number is not the column's, but the value of this knob at which the column is smallest
    means : what the settings that give the numbers have in common
    """

    id: str
    numbers: dict[str, Any]
    column: str
    data: str
    within: float
    knobs: Grid
    problem: ProblemTable = field(default_factory=dict)
    epochs: AtLeastOne = 30
    evaluate: Annotated[str, choice("epoch", "geometric", "named")] = "named"
    runs: AtLeastOne = 2
    best_of: str = ""
    means: str = ""


@dataclass(frozen=True)
class Misprint:
    """The name of a misprint in an algorithm, in which race it runs beside the corrected line, and what the figure shows."""

    race: str
    solver: str
    label: str
    name: str
    params: dict[str, Any] = field(default_factory=dict)
    title: str = ""
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Correction:
    """A formula that the text prints wrongly: as printed, as it must be, and what the difference does.

    With a `misprint`, two runs of one algorithm show its cost: all but this one line is the same.
    """

    id: str
    where: str
    printed: str
    right: str
    cost: str = ""
    misprint: Misprint | None = None

    def pair(self) -> tuple[SolverSpec, SolverSpec]:
        """Return the corrected method and the one with the line as printed."""
        assert self.misprint is not None
        m = self.misprint
        right = SolverSpec(
            f"{m.solver}-right",
            m.solver,
            f"{m.label}, corrected",
            about=f"Corrected, in the code of what the text prints. {NO_METHOD}",
        )
        wrong = SolverSpec(f"{m.solver}-{m.name}", m.solver, f"{m.label}, {m.name} as printed", about=f"{self.where}. {NO_METHOD}")
        return replace(right, params=m.params), replace(wrong, params={**m.params, "misprint": m.name})

    def panel(self) -> FigureSpec:
        """Return the figure that shows what the misprint costs."""
        assert self.misprint is not None
        options = {"race": self.misprint.race, "solvers": [spec.id for spec in self.pair()], "y": ["primal", "test_error"]}
        title = f"What the misprint costs: {self.misprint.title}"
        return FigureSpec(
            f"misprint-{self.id}", "convergence", title, ONE_LINE, {**options, "y_log": True, **self.misprint.options}
        )


NO_METHOD = "Not a method to use."
ONE_LINE = "Apart from this line both have the same steps, order of the rows, start and passes."


def _with_misprints(study: Study) -> Study:
    """Return a study with the two solvers and the figure of each misprint; what is there already stays."""
    for each in (correction for correction in study.corrections if correction.misprint is not None):
        assert each.misprint is not None
        known = {spec.id for spec in study.solvers}
        new = tuple(spec for spec in each.pair() if spec.id not in known)
        ids = tuple(spec.id for spec in each.pair())
        races = tuple(
            replace(race, solvers=tuple(dict.fromkeys((*race.solvers, *ids)))) if race.id == each.misprint.race else race
            for race in study.races
        )
        figures = study.figures if each.panel().id in {f.id for f in study.figures} else (*study.figures, each.panel())
        study = study.with_(solvers=study.solvers + new, races=races, figures=figures)
    return study


@dataclass(frozen=True)
class Study:
    """Everything that a study's file says; `left_out` are solvers that a comparison cannot race, each with the reason.

    Without a number of runs from the user, draws are added to the first `runs` until each statement is decided, or until the runs have
    taken `seconds` processor seconds.
    """

    name: str
    title: str
    about: str = ""
    text: str = ""
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    runs: AtLeastOne = 5
    seconds: Annotated[float, in_range(0.0, 1e9, "a number of processor seconds, 0 for no more draws than `runs`")] = 0.0
    seed: Annotated[int, in_range(0, 2**63 - 1, "a whole number of at least 0", int)] = 0
    data: tuple[DataSpec, ...] = ()
    solvers: tuple[SolverSpec, ...] = ()
    races: tuple[Race, ...] = ()
    figures: tuple[FigureSpec, ...] = ()
    tables: tuple[FigureSpec, ...] = ()
    claims: tuple[Claim, ...] = ()
    corrections: tuple[Correction, ...] = ()
    explain: tuple[Explain, ...] = ()

    def data_spec(self, id: str) -> DataSpec:
        """Return the data set of that id, or a variant of it: "id~option=value" has another value of an option."""
        id, _, change = id.partition("~")
        spec = next(spec for spec in self.data if spec.id == id)
        if not change:
            return spec
        name, value = _changed(change)
        label = f"{spec.label or id}, {name} = {value:g}"
        return replace(spec, id=f"{id}~{change}", label=label, options={**spec.options, name: value})

    def solver_spec(self, id: str) -> SolverSpec:
        """Return the solver of that id, or a variant of it: "id~name=value" has another value of a parameter, its own or the problem's."""
        id, _, change = id.partition("~")
        spec = next(spec for spec in self.solvers if spec.id == id)
        if not change:
            return spec
        name, value = _changed(change)
        spec = replace(spec, id=f"{id}~{change}", label=f"{spec.label or id}, {name} = {value:g}")
        if name in PROBLEM_KEYS:
            return replace(spec, problem={**spec.problem, name: value})
        return replace(spec, params={**spec.params, name: value})

    def variants(self, race: Race, known: tuple[str, ...]) -> tuple[str, ...]:
        """Return the variants of some ids that claims about a race ask for: half and twice of a setting."""
        found = [text for claim in self.claims if claim.options.get("race") == race.id for text in claim.varied]
        return tuple(dict.fromkeys(id for text in found if text.partition("~")[0] in known for id in half_and_twice(text)))

    def race(self, id: str) -> Race:
        """Return the race of that id."""
        return next(race for race in self.races if race.id == id)

    def with_(self, **changes: Any) -> Study:
        """Return a copy with some fields replaced."""
        return replace(self, **changes)

    def limited(self, seconds: float | None) -> Study:
        """Return a copy in which no run takes more processor seconds than `seconds`."""
        if seconds is None:
            return self
        shorter = (min(seconds, race.budget.seconds or seconds) for race in self.races)
        races = (replace(race, budget=replace(race.budget, seconds=s)) for race, s in zip(self.races, shorter, strict=True))
        return self.with_(races=tuple(races))

    def to_json(self) -> str:
        """Return the study as JSON text that `parse_study` reads back."""

        def clean(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: clean(inner) for key, inner in value.items() if inner is not None}
            return [clean(inner) for inner in value] if isinstance(value, list | tuple) else value

        return json.dumps(clean(asdict(self)), indent=1, ensure_ascii=False)


def half_and_twice(setting: str) -> tuple[str, str]:
    """Return "id~name=value" with half and with twice the value."""
    id, _, change = setting.partition("~")
    name, value = _changed(change)
    return f"{id}~{name}={value / 2:g}", f"{id}~{name}={value * 2:g}"


def _changed(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    return name, float(value)


def parse_study(table: dict[str, Any], file: str = "study") -> Study:
    """Return a study from a table as TOML or JSON gives it; `file` is what errors call it."""
    where = Where(file)
    study = _with_misprints(read_table(Study, table, where))
    if not FOLDER_NAME.fullmatch(study.name):
        raise where.key("name").error(
            f"{study.name!r} names the folder of the results; use letters, digits, spaces and . - _ , with a letter or digit first"
        )
    for i, data in enumerate(study.data):
        if not (data.name or data.path):
            raise where.key("data").key(i).error("needs a name that dualgap.data knows, or a path to a file")
    for i, claim in enumerate(study.claims):
        if not (claim.check or claim.note):
            raise where.key("claims").key(i).error("needs a check, or a note that says why the statement is not judged")
    for i, entry in enumerate(study.explain):
        _check_explain(study, entry, where.key("explain").key(i))
    for i, race in enumerate(study.races):
        here = where.key("races").key(i)
        for kind, wanted, known in (("data", race.data, study.data), ("solvers", race.solvers, study.solvers)):
            ids = [entry.id for entry in known]
            for j, id in enumerate(wanted):
                if id not in ids:
                    raise here.key(kind).key(j).error(f"there is no {kind.rstrip('s')} {id!r} in this study; {suggest(id, ids)}")
            if not wanted:
                raise here.key(kind).error("an empty list; name at least one")
    return study


def _check_explain(study: Study, entry: Explain, here: Where) -> None:
    """Raise an error where an `[[explain]]` table names an unknown column, data set or solver."""
    column, _, rest = entry.column.partition("@")[0].partition(":")
    if column == "peak" or not rest:
        column = rest or column
        if column not in TRACED:
            raise here.key("column").error(f"no run is evaluated for {column!r}; {suggest(column, TRACED)}")
    elif column not in ("gap", "near", "settles") or not _is_number(rest):
        raise here.key("column").error(f"{entry.column!r} is none of gap:…, near:…, settles:… (with a number) and peak:…")
    data, solvers = [spec.id for spec in study.data], [spec.id for spec in study.solvers]
    if entry.data not in data:
        raise here.key("data").error(f"there is no data {entry.data!r} in this study; {suggest(entry.data, data)}")
    for solver in entry.numbers:
        if solver not in solvers:
            raise here.key("numbers").error(f"there is no solver {solver!r} in this study; {suggest(solver, solvers)}")
    if entry.best_of and entry.best_of not in entry.knobs:
        raise here.key("best_of").error(f"there is no knob {entry.best_of!r}; {suggest(entry.best_of, entry.knobs)}")


def _is_number(text: str) -> bool:
    try:
        return float(text) > 0
    except ValueError:
        return False


def load_study(source: str | Path) -> Study:
    """Return a study by its name (see `study_names`) or from a TOML or JSON file of yours.

    Examples
    --------
    >>> from dualgap.lab import load_study, study_names
    >>> study = load_study(study_names()[-1])
    >>> study.runs > 1, len(study.claims) > 5
    (True, True)
    """
    if str(source) in study_names():
        return parse_study(table_of(str(source)), str(source))
    path = Path(source)
    if path.suffix not in (".toml", ".json"):
        raise StudyError(f"there is no study {str(source)!r}; {suggest(str(source), study_names())} A file of yours ends in .toml")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise StudyError(f"{path}: cannot be read: {error.strerror or error}") from error
    try:
        table = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        raise StudyError(f"{path}: not valid {path.suffix[1:].upper()}: {error}") from error
    return parse_study(table, str(path))
