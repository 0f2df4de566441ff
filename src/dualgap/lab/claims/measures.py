"""What a statement measures of the runs of a solver: one number a run, and what is not known of it.

Distances from the optimum are measured from the best lower bound that any solver found on the same problem, so that "converged" never means
"stopped moving". Times are processor seconds of the updates. Three things keep a run's number from being known exactly:

- An error is a count of rows: one row more or less is its smallest step.
- Of a measured time, calls and clock took a part: the overhead of an epoch, measured where the study ran, times its epochs.
- A run that never came so near took at least what it spent. One that was not evaluated after each epoch came there after one of those since
  the evaluation before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dualgap.lab.columns import ended, named, shown_number
from dualgap.lab.results import RESOLUTION, Group, Results

__all__ = ["LOOKS", "WRONG", "Measured", "Quantity", "Spread", "Untold", "percent", "placed", "times"]

LOOKS = 5  # how often a study may judge its claims before it stops: after 5, 10, 20, 40 and 80 runs
WRONG = 0.05 / LOOKS  # the chance, at one look, of a wrong verdict on a claim whose quantities lie on the borders of their ranges
COSTS = {"epoch": "epochs", "passes": "passes", "cpu_seconds": "CPU seconds"}
NEVER = "a run that never came so near took at least what it spent, which does not decide it"
BETWEEN = "the runs were not evaluated often enough to tell"
OVERHEAD = "times so short that calls and clock, {least} to {most} µs an epoch, could reverse it"


class Untold(Exception):
    """The results cannot decide a claim; the message says what is missing."""


# --------------------------------------------------------------------------------------------------------------- over the runs


@dataclass(frozen=True)
class Spread:
    """The mean over runs of a quantity, and its standard error. `below` and `above` widen its interval by what was not measured.

    step : the interval is at least so wide on either side; slack : why it is widened, as the end of a sentence
    """

    mean: float
    error: float
    runs: int
    below: float = 0.0
    above: float = 0.0
    step: float = 0.0
    slack: str = ""

    def interval(self, wrong: float = WRONG) -> tuple[float, float]:
        """Return the interval that misses the mean with that probability; all numbers for one run."""
        if self.runs < 2:
            return -np.inf, np.inf
        half = max(quantile(1.0 - wrong / 2, self.runs - 1) * max(self.error, self.step / self.runs**0.5), self.step)
        return self.mean - half - self.below, self.mean + half + self.above

    def bare(self) -> Spread:
        """Return the spread over the runs alone."""
        return Spread(self.mean, self.error, self.runs, step=self.step)

    def after(self, times: int) -> Spread:
        """Return the interval that a multiple of the runs would give at the same mean."""
        return self if self.runs < 2 else replace(self, error=self.error / times**0.5, runs=self.runs * times)

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.interval()[0]

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.interval()[1]

    def in_words(self, show: Callable[[float], str] = shown_number, within: tuple[float, float] = (-np.inf, np.inf)) -> str:
        """Return the mean and the interval as text; the interval ends where the quantity does."""
        if self.runs < 2:
            return f"{show(self.mean)} (one run)"
        low, high = max(self.low, within[0]), min(self.high, within[1])
        if np.isfinite(low) and np.isfinite(high):
            return f"{show(self.mean)} ({show(low)} to {show(high)})"
        end = f"at least {show(low)}" if np.isfinite(low) else f"at most {show(high)}" if np.isfinite(high) else "not known"
        return f"{show(self.mean)} ({end})"

    def __str__(self) -> str:
        return self.in_words()


@lru_cache(maxsize=256)
def quantile(share: float, freedom: int) -> float:
    """Return a quantile of Student's t."""
    from scipy.stats import t

    return float(t.ppf(share, freedom))


@dataclass(frozen=True)
class Measured:
    """One number a run, and the range in which it is known to lie.

    step : the smallest difference that two such numbers can show; why : what keeps the range from being narrower, as the end of a sentence
    """

    runs: tuple[int, ...]
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    step: float = 0.0
    why: str = ""

    def _at(self, runs: list[int]) -> Measured:
        places = [self.runs.index(run) for run in runs]
        return Measured(tuple(runs), self.value[places], self.low[places], self.high[places], self.step, self.why)

    def __sub__(self, other: Measured) -> Measured:
        """Return the differences run by run: runs of one number share their draw. A single run goes with every run of the other."""
        a, b = self, other
        if len(a.runs) > 1 and len(b.runs) > 1:
            common = [run for run in a.runs if run in b.runs]
            if not common:
                raise Untold("The solvers have no run in common")
            a, b = a._at(common), b._at(common)
        runs = max(a.runs, b.runs, key=len)
        why = NEVER if NEVER in (a.why, b.why) else a.why or b.why
        return Measured(runs, a.value - b.value, a.low - b.high, a.high - b.low, max(a.step, b.step), why)

    def spread(self) -> Spread:
        """Return the mean over the runs with its error."""
        n = len(self.value)
        error = float(self.value.std(ddof=1) / np.sqrt(n)) if n > 1 else np.inf
        below, above = float(np.mean(self.value - self.low)), float(np.mean(self.high - self.value))
        return Spread(float(self.value.mean()), error, n, below, above, self.step, self.why)


# ------------------------------------------------------------------------------------------------------------------- quantities


@dataclass(frozen=True)
class Quantity:
    """What is measured of each run of a group, what it is called, and how a number of it is shown.

    factor : the numbers are logarithms; two of them are compared by a factor
    """

    name: str
    of: Callable[[Group], Measured]
    show: Callable[[float], str] = shown_number
    factor: bool = False
    within: tuple[float, float] = (-np.inf, np.inf)

    def __sub__(self, other: Quantity) -> Quantity:
        """Return how much this quantity exceeds another one of the same run; of logarithms, how many times as large it is."""
        word = "over" if self.factor else "above"
        return Quantity(f"{self.name} {word} {other.name}", lambda group: self.of(group) - other.of(group), self.show)


def times(value: float) -> str:
    """Return a logarithm as the factor that it is."""
    return shown_number(float(np.exp(value)))


def percent(value: float) -> str:
    """Return a share as a percentage."""
    if 0.0 < abs(value) < RESOLUTION:
        return f"below {100 * RESOLUTION:g} %"
    return f"{100 * value:.3g} %" if abs(value) < 9.995 else f"{shown_number(float(round(100 * value)))} %"


def exactly(group: Group, values: np.ndarray, step: float = 0.0) -> Measured:
    """Return numbers that are known; one number where all runs of the group are the same run, whose repetition says nothing of a spread."""
    if not len(values) or not np.isfinite(values).all():
        raise Untold(f"{group.solver.label or group.solver.id} has no finite number in every run")
    traces = group.traces("primal")
    same = all(len(trace) == len(traces[0]) and np.array_equal(trace, traces[0], equal_nan=True) for trace in traces)
    kept = values[:1] if same else values
    return Measured(tuple(row["run"] for row in group.rows[: len(kept)]), kept, kept, kept, step)


SHARES = ("accuracy", "error", "auc", "recall", "precision")


def one_row(results: Results, group: Group, column: str) -> float:
    """Return by how much a column changes where one row is scored otherwise; 0 for what is no share of rows."""
    if not any(word in column for word in SHARES):
        return RESOLUTION if "primal" in column or column == "bound" else 0.0
    about = results.store.data().get(group.data.partition("~")[0], {})
    rows, positive = ("rows", "positive") if "train" in column else ("test_rows", "test_positive")
    if not about.get(rows):
        return 0.0
    rare = min(about[positive], 1.0 - about[positive]) or 0.5
    of_class = "balanced" in column or not ("accuracy" in column or "error" in column)
    return float(1.0 / (about[rows] * (2.0 * rare if of_class else 1.0)))


def level(results: Results, column: str) -> Quantity:
    """Return how runs end in a column, or "column@passes": what it is after so many passes."""
    share = any(word in column for word in SHARES)

    def of(group: Group) -> Measured:
        return exactly(group, ended(group, column), one_row(results, group, column))

    return Quantity(named(column), of, within=(0.0, 1.0) if share else (-np.inf, np.inf))


def above_bound(column: str, bounds: list[float]) -> Quantity:
    """Return how far an objective ends above given bounds, relative to them; one that overflowed is far above."""

    def of(group: Group) -> Measured:
        values = ended(group, column)
        if len(values) != len(bounds):
            raise Untold(f"Not every run of {group.solver.label or group.solver.id} has ended")
        return exactly(group, np.where(np.isfinite(values), values / np.array(bounds) - 1.0, 1e9), RESOLUTION)

    return Quantity("objective above the best bound", of, percent)


def placed(column: str, after: float, unit: str) -> str:
    """Return the name of a column after a number of passes or of the text's iterations; at the end where that is infinite."""
    return column if np.isinf(after) else f"{column}@{after:g}{':' if unit == 'iteration' else ''}"


def distance(after: float, unit: str = "passes", column: str = "suboptimality") -> Quantity:
    """Return the logarithm to base 10 of the distance from the best bound at a place; of the dual objective where the column is its."""

    def of(group: Group) -> Measured:
        return exactly(group, np.log10(np.clip(ended(group, placed(column, after, unit)), 1e-12, 1e12)))

    what = "distance from the best bound" + (" of the dual objective" if column.startswith("dual") else "")
    return Quantity(what, of, lambda value: percent(float(10**value)))


def wobble(results: Results, column: str) -> Quantity:
    """Return the mean rise of a column an epoch over the later half of the epochs, relative to it.

    An error is taken as it is: relative to errors near 0 every rise would be large.
    """

    def of(group: Group) -> Measured:
        found, counts = [], []
        for values in group.traces(column):
            late = values[len(values) // 2 :]
            rises = np.maximum(np.diff(late), 0.0)
            scale = max(float(np.median(late)), 1e-300) if column == "primal" else 1.0
            found.append(float(np.mean(rises) / scale) if len(rises) else np.nan)
            counts.append(max(len(rises), 1))
        return exactly(group, np.array(found), one_row(results, group, column) / min(counts))

    what = "relative rise of the objective" if column == "primal" else f"rise of {named(column)}"
    return Quantity(f"{what} an epoch in the later half", of, percent)


def first_best(column: str, close: float, largest: bool, unit: str = "passes") -> Quantity:
    """Return the logarithm of the passes (or iterations) after which a run is first within `close` of the best value that it ever has."""

    def of(group: Group) -> Measured:
        found = []
        for values, passes in zip(group.traces(column), group.traces(unit), strict=True):
            best = values.max() if largest else values.min()
            found.append(float(passes[np.flatnonzero(np.abs(values - best) <= close)[0]]))
        return exactly(group, np.log(found))

    count = "passes" if unit == "passes" else "epochs"
    return Quantity(f"{count} to within {shown_number(close)} of the best {named(column)}", of, times, factor=True)


def cost(results: Results, within: float | None, unit: str = "cpu_seconds", scale: float = 1.0) -> Quantity:
    """Return the logarithm of what runs cost: to come within a share of the best bound or, where that is None, a pass of them.

    scale : of how many passes, where `within` is None
    """
    overhead = results.store.epoch_overhead() if unit == "cpu_seconds" else (0.0, 0.0)
    if overhead is None:
        raise Untold(
            "The overhead of an epoch was not measured with these results; the command that made them, given again, does so"
        )

    def of(group: Group) -> Measured:
        least, most, known, reached, skipped = [], [], [], True, False
        for near, spent, epochs, passes in zip(*map(group.traces, ("suboptimality", unit, "epoch", "passes")), strict=True):
            places = np.flatnonzero(near <= within) if within is not None else [-1]
            at = int(places[0]) if len(places) else -1
            value, after, share = float(spent[at]), float(epochs[at]), scale / float(passes[at]) if within is None else 1.0
            low = value
            if len(places) and within is not None and at > 0 and after > epochs[at - 1] + 1:
                step = (value - float(spent[at - 1])) / (after - float(epochs[at - 1]))
                low, skipped = float(spent[at - 1]) + step, True
            known.append(share * max(value, 1e-9))
            least.append(share * max(low - after * overhead[1], 0.0))
            most.append(share * max(value - after * overhead[0], 0.0) if len(places) else np.inf)
            reached = reached and bool(len(places))
        words = OVERHEAD.format(least=shown_number(1e6 * overhead[0]), most=shown_number(1e6 * overhead[1]))
        why = NEVER if not reached else words if overhead[1] else BETWEEN if skipped else ""
        runs = tuple(row["run"] for row in group.rows)
        if unit != "cpu_seconds":
            runs = exactly(group, np.array(known)).runs  # the same run repeated is one run; its seconds would differ
        with np.errstate(divide="ignore"):
            logs = [np.log(column)[: len(runs)] for column in (known, least, most)]
        return Measured(runs, logs[0], logs[1], logs[2], why=why)

    what = f"{COSTS[unit]} a pass" if within is None else f"{COSTS[unit]} to within {percent(within)} of the best bound"
    return Quantity(what, of, times, factor=True)
