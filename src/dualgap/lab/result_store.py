"""The results of a study on disk: one Parquet part a run, complete or absent; joined into one file when the study is done.

A killed run leaves no part. A failed run leaves a part that says so, and is run again next time.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import numpy as np
import polars as pl

from dualgap.core import write_atomically
from dualgap.lab.files import file_name
from dualgap.lab.plan import Planned
from dualgap.run import Status

__all__ = ["ResultStore"]

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

    def environments(self) -> dict[str, dict[str, Any]]:
        """Return the machines that results were made on, by name."""
        return {path.stem: json.loads(path.read_text()) for path in sorted((self.folder / "environments").glob("*.json"))}


def _finished_of(table: pl.DataFrame) -> set[str]:
    return set(table.filter(pl.col("status").is_in(list(FINAL)))["key"])
