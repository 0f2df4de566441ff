"""A study's results: the store on disk, runs grouped by what they have in common, curves, and the best bound on each problem.

The store has one Parquet part a run, complete or absent, joined into one file when the study is done. A killed run leaves no part. A failed
run leaves a part that says so, and is run again next time.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np
import polars as pl

from dualgap.core import write_atomically
from dualgap.lab.palette import Style, styles_for
from dualgap.lab.plan import Planned, planned
from dualgap.lab.study import SolverSpec, Study
from dualgap.run import Status

__all__ = ["RESOLUTION", "Curve", "Group", "ResultStore", "Results", "file_name"]


def file_name(id: str) -> str:
    """Return an id as a file name: special characters are replaced, and a digest keeps two ids apart."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", id)[:40]
    return plain if plain == id else f"{plain}-{hashlib.sha256(id.encode()).hexdigest()[:8]}"


# However a run ended, it is done; only one that was interrupted, failed or was refused is tried again.
FINAL = tuple(status for status in get_args(Status) if status != "interrupted")


class ResultStore:
    """Results of a study in a folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.parts = self.folder / "parts"
        self.joined = self.folder / "results.parquet"
        self.parts.mkdir(parents=True, exist_ok=True)

    def add(self, record: dict[str, Any]) -> None:
        """Keep the result of a run, in place of an earlier one of the same key."""
        buffer = io.BytesIO()
        pl.DataFrame([record]).write_parquet(buffer)
        write_atomically(self.parts / f"{record['key']}.parquet", buffer.getvalue())

    def read(self, keys: Iterable[str] | None = None) -> pl.DataFrame:
        """Return all results, or those of some keys, one row a run; a part is newer than the joined file."""
        frames = [pl.read_parquet(path) for path in sorted(self.parts.glob("*.parquet"))]
        newer = {frame["key"][0] for frame in frames}
        if self.joined.exists():
            old = pl.read_parquet(self.joined)
            frames.insert(0, old.filter(~pl.col("key").is_in(list(newer))))
        if not frames:
            return pl.DataFrame({"key": [], "status": []}, schema={"key": pl.String, "status": pl.String})
        table = pl.concat(frames, how="diagonal_relaxed")
        return table if keys is None else table.filter(pl.col("key").is_in(list(keys)))

    def finished(self) -> set[str]:
        """Keys of runs that came to an end and need no repetition."""
        done: set[str] = set()
        if self.joined.exists():
            done |= _finished_of(pl.read_parquet(self.joined, columns=["key", "status"]))
        for path in self.parts.glob("*.parquet"):
            part = pl.read_parquet(path, columns=["key", "status"])
            done = (done - set(part["key"])) | _finished_of(part)
        return done

    def join(self) -> None:
        """Join all parts in one file. Nothing is lost if this is killed."""
        table = self.read()
        if not len(table):
            return
        buffer = io.BytesIO()
        table.sort("key").write_parquet(buffer, compression="zstd")
        write_atomically(self.joined, buffer.getvalue())
        for path in self.parts.glob("*.parquet"):
            path.unlink()

    def add_environment(self, environment: dict[str, Any]) -> str:
        """Keep the description of a machine; return the name by which results refer to it."""
        text = json.dumps(environment, indent=1, sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()[:12]
        write_atomically(self.folder / "environments" / f"{name}.json", text)
        return name

    def add_points(self, key: str, X: Any, y: Any) -> None:
        """Keep the training rows of a run in the plane, to draw its model over; nothing for more than two features."""
        if X.shape[1] == 2:
            buffer = io.BytesIO()
            np.savez_compressed(buffer, X=np.asarray(X, dtype=np.float64), y=y)
            write_atomically(self.folder / "points" / f"{key}.npz", buffer.getvalue())

    def points(self, key: str) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the training rows of a run in the plane, and their labels; None where they were not kept."""
        path = self.folder / "points" / f"{key}.npz"
        if not path.exists():
            return None
        with np.load(path) as kept:
            return kept["X"], kept["y"]

    def add_watch(self, key: str, seen: dict[str, Any] | None) -> None:
        """Keep the models of a run along the way."""
        if seen is not None:
            write_atomically(self.folder / "watch" / f"{key}.json", json.dumps(seen))

    def watch(self, key: str) -> dict[str, Any] | None:
        """Return the models of a run along the way; None where they were not kept."""
        path = self.folder / "watch" / f"{key}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def add_plan(self, runs: list[Planned]) -> None:
        """Keep which runs belong to the study, by the keys they are stored under."""
        write_atomically(self.folder / "plan.json", json.dumps([asdict(run) for run in runs]))

    def plan(self) -> list[Planned] | None:
        """Return the runs of the study as they were planned; None for a folder from before plans were kept."""
        path = self.folder / "plan.json"
        return [Planned(**run) for run in json.loads(path.read_text(encoding="utf-8"))] if path.exists() else None

    def add_epoch_overhead(self, least: float, most: float) -> None:
        """Keep what calls and clock take of an epoch where runs were made; several measurements are joined to one range."""
        known = self.epoch_overhead() or (least, most)
        seconds = {"least": min(least, known[0]), "most": max(most, known[1])}
        write_atomically(self.folder / "overhead.json", json.dumps(seconds))

    def epoch_overhead(self) -> tuple[float, float] | None:
        """Return the processor seconds that calls and clock take of an epoch, at least and at most; None where they were not measured."""
        path = self.folder / "overhead.json"
        if not path.exists():
            return None
        seconds = json.loads(path.read_text(encoding="utf-8"))
        return float(seconds["least"]), float(seconds["most"])

    def add_command(self, command: str) -> None:
        """Keep the command that the results were made with, if it was one."""
        if not command:
            return
        write_atomically(self.folder / "command.txt", command)

    def command(self) -> str:
        """Return the command that the results were made with; "" where no command made them."""
        path = self.folder / "command.txt"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def add_data(self, id: str, about: dict[str, Any]) -> None:
        """Keep what was done to a data set."""
        write_atomically(self.folder / "data" / f"{file_name(id)}.json", json.dumps({"id": id, **about}, indent=1))

    def data(self) -> dict[str, dict[str, Any]]:
        """Return what is known of the data sets, by id."""
        tables = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((self.folder / "data").glob("*.json"))]
        return {table["id"]: table for table in tables}

    def explanations(self) -> dict[str, dict[str, Any]]:
        """Return what was found of how numbers of the text can come about, by the id of the statement."""
        folder = self.folder / "explain"
        return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}

    def environments(self) -> dict[str, dict[str, Any]]:
        """Return the machines that results were made on, by name."""
        return {path.stem: json.loads(path.read_text()) for path in sorted((self.folder / "environments").glob("*.json"))}


def _finished_of(table: pl.DataFrame) -> set[str]:
    return set(table.filter(pl.col("status").is_in(list(FINAL)))["key"])


# Distances from the optimum are measured from a lower bound that is within 1e-6 of it; smaller ones than this mean nothing.
RESOLUTION = 1e-7
# Columns of the store that runs.csv leaves out, or has in other words.
NOT_IN_TABLE = ("params", "problem", "budget", "data", "solver", "traceback", "coef")


@dataclass(frozen=True)
class Curve:
    """What lies in the middle of the runs at each evaluation, and a band around it."""

    x: np.ndarray
    middle: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Group:
    """The runs that differ in nothing but their number."""

    def __init__(self, run: Planned, solver: SolverSpec, rows: list[dict[str, Any]], bounds: list[float]) -> None:
        self.race, self.data, self.solver, self.settings = run.race, run.data, solver, run.settings
        self.problem, self.params = run.problem, run.params
        self.all_rows = rows
        final = [row["status"] in FINAL for row in rows]
        self.rows = [row for row, ended in zip(rows, final, strict=True) if ended]
        # For each run, the best lower bound that any solver found for its problem: runs that draw their data have one each.
        self.bounds = [bound for bound, ended in zip(bounds, final, strict=True) if ended]

    def setting(self, name: str) -> Any:
        """Return the value of a name of the grid or, where the race has none of that name, of the problem."""
        return self.settings.get(name, self.problem.get(name))

    def values(self, column: str) -> np.ndarray:
        """Return a column of the results, one number a run."""
        return np.array([row.get(column) for row in self.rows], dtype=float)  # None becomes nan

    def traces(self, column: str) -> list[np.ndarray]:
        """Return a column of the traces, one array a run; "suboptimality" is the objective above the best bound that any solver found."""
        if column == "suboptimality":
            pairs = zip(self.traces("primal"), self.bounds, strict=True)
            return [np.maximum((trace - bound) / max(abs(bound), 1e-300), RESOLUTION) for trace, bound in pairs]
        if column == "dual_suboptimality":
            pairs = zip(self.traces("dual"), self.bounds, strict=True)
            return [np.maximum((bound - trace) / max(abs(bound), 1e-300), RESOLUTION) for trace, bound in pairs]
        if column == "iteration":
            return [trace * self.solver.iterations for trace in self.traces("epoch")]
        if column == "best_gap":
            # the certificate of the best model so far, relative to its objective
            best = [np.minimum.accumulate(trace) for trace in self.traces("primal")]
            return [np.maximum(b - d, 0.0) / b for b, d in zip(best, self.traces("dual"), strict=True)]
        if column.startswith("accuracy"):
            name = "trace_train_error" if column == "accuracy_train" else "trace_test_error"
            return [1.0 - np.array(row[name], dtype=float) for row in self.rows]
        return [np.array(row[f"trace_{column}"], dtype=float) for row in self.rows]

    def has(self, column: str) -> bool:
        """Return whether the traces have a column."""
        try:
            return bool(self.rows) and all(np.isfinite(trace).any() for trace in self.traces(column))
        except (KeyError, TypeError):
            return False

    def curve(self, x: str, y: str, quantiles: bool = False) -> Curve:
        """Return the mean over runs of x and of y, lined up by epoch, as far as all runs go.

        The band is one standard deviation, within what was seen. With `quantiles` it is the median of y between its quartiles.
        """
        epochs = [trace.round().astype(int) for trace in self.traces("epoch")]
        grid = np.unique(np.concatenate(epochs))
        grid = grid[grid <= min(each[-1] for each in epochs)]
        xs = np.stack([np.interp(grid, e, v) for e, v in zip(epochs, self.traces(x), strict=True)])
        ys = np.stack([np.interp(grid, e, v) for e, v in zip(epochs, self.traces(y), strict=True)])
        with np.errstate(invalid="ignore", over="ignore"):
            if quantiles:
                low, middle, high = np.quantile(ys, [0.25, 0.5, 0.75], axis=0)
                return Curve(xs.mean(axis=0), middle, low, high)
            mean, spread = ys.mean(axis=0), ys.std(axis=0)
        return Curve(xs.mean(axis=0), mean, np.maximum(mean - spread, ys.min(axis=0)), np.minimum(mean + spread, ys.max(axis=0)))

    def places(self, place: float, unit: str = "passes") -> list[int | None]:
        """Return for each run the evaluation at the end of the last epoch within a place; None where the run was not evaluated there."""
        found: list[int | None] = []
        for passed, epochs, row in zip(self.traces(unit), self.traces("epoch"), self.rows, strict=True):
            at = int(np.sum(passed <= place * (1 + 1e-9))) - 1
            step = (passed[at] - passed[at - 1]) / (epochs[at] - epochs[at - 1]) if at > 0 else passed[0]
            there = at >= 0 and (passed[at] + step > place * (1 + 1e-9) or (at + 1 == len(passed) and row["status"] == "converged"))
            found.append(at if there else None)
        return found

    def first(self, column: str, level: float, cost: str = "cpu_seconds") -> np.ndarray:
        """Return the cost at which each run first had the column at or below a level; infinity where it never did."""
        costs = []
        for values, spent in zip(self.traces(column), self.traces(cost), strict=True):
            reached = np.flatnonzero(values <= level)
            costs.append(spent[reached[0]] if len(reached) else np.inf)
        return np.array(costs)

    def last(self, column: str) -> np.ndarray:
        """Return the last value of a trace column, one number a run."""
        return np.array([trace[-1] for trace in self.traces(column)])

    def __repr__(self) -> str:
        return f"Group({self.race}: {self.data}, {self.solver.id}, {self.settings}, {len(self.rows)} runs)"


class Results:
    """All runs of a study that are in its store."""

    def __init__(
        self, study: Study, store: ResultStore, rows: dict[str, dict[str, Any]], runs: list[Planned] | None = None
    ) -> None:
        self.study, self.store, self.rows = study, store, rows
        self.runs = planned(study) if runs is None else runs

    @classmethod
    def load(cls, study: Study, store: ResultStore) -> Results:
        """Read the store, by the keys that the run of the study wrote there."""
        runs = store.plan() or planned(study)
        rows = {row["key"]: row for row in store.read([run.key for run in runs]).to_dicts()}
        return cls(study, store, rows, runs)

    @cached_property
    def groups(self) -> list[Group]:
        """Every group of the study that has at least one result, in the study's order."""
        collected: dict[str, list[Planned]] = {}
        for run in self.runs:
            if run.key in self.rows and not run.is_reference:
                name = json.dumps([run.race, run.data, run.solver, run.settings], sort_keys=True)
                collected.setdefault(name, []).append(run)
        return [
            Group(
                runs[0],
                self.study.solver_spec(runs[0].solver),
                [self.rows[run.key] for run in runs],
                [self._bounds.get(run.problem_name, -np.inf) for run in runs],
            )
            for runs in collected.values()
        ]

    @cached_property
    def _bounds(self) -> dict[str, float]:
        """The best lower bound found on each problem, whoever found it."""
        bounds: dict[str, float] = {}
        for run in self.runs:
            row = self.rows.get(run.key)
            if row is not None and row["status"] in FINAL:
                bounds[run.problem_name] = max(bounds.get(run.problem_name, -np.inf), row["dual"])
        return bounds

    def select(
        self,
        race: str | None = None,
        data: str | Iterable[str] | None = None,
        solvers: Iterable[str] | None = None,
        settings: dict[str, Any] | None = None,
    ) -> list[Group]:
        """Return groups with a finished run: of a race, of some data sets, of some solvers, at a point of the grid.

        Variants (see `Study.data_spec`) are among them only by name.
        """
        names = None if data is None else {data} if isinstance(data, str) else set(data)
        wanted = None if solvers is None else list(solvers)
        found = [
            group
            for group in self.groups
            if (race is None or group.race == race)
            and (group.data in names if names is not None else "~" not in group.data)
            and (group.solver.id in wanted if wanted is not None else "~" not in group.solver.id)
            and (settings is None or all(group.setting(k) == v for k, v in settings.items()))
            and group.rows
        ]
        return found if wanted is None else sorted(found, key=lambda group: wanted.index(group.solver.id))

    @cached_property
    def styles(self) -> dict[str, Style]:
        """A style for each solver id of the study."""
        return styles_for(spec.id for spec in self.study.solvers)

    def label(self, solver: SolverSpec | str) -> str:
        """Return what figures and tables call a solver, given itself or its id."""
        spec = self.study.solver_spec(solver) if isinstance(solver, str) else solver
        return spec.label or spec.id

    def data_name(self, id: str) -> str:
        """Return what figures and tables call a data set."""
        known = self.store.data().get(id)
        spec = self.study.data_spec(id)
        return spec.label or (known["name"] if known else spec.name or spec.id)

    def spent_on(self, race: str = "") -> float:
        """Return the processor seconds that the runs of one race, or of all, took with their evaluation."""
        keys = {run.key for run in self.runs if race in ("", run.race)}
        return float(sum(row.get("spent_seconds") or 0.0 for key, row in self.rows.items() if key in keys))

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Runs that failed or that a solver refused, with the error."""
        return [row for row in self.rows.values() if row["status"] not in FINAL]

    def table(self) -> pl.DataFrame:
        """One row a run, without traces and models: what is written to runs.csv."""
        rows = []
        for group in self.groups:
            for row in group.all_rows:
                named = {"race": group.race, "data": self.data_name(group.data), "solver": self.label(group.solver)}
                settings = {name: str(value) for name, value in group.settings.items()}
                plain = {k: v for k, v in row.items() if k not in NOT_IN_TABLE and not isinstance(v, list | dict)}
                rows.append({**named, **settings, **plain})
        return pl.DataFrame(rows, infer_schema_length=None) if rows else pl.DataFrame()
