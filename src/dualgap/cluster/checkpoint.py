"""Checkpoints: β of every partition and the number of the round, in a folder that all workers see."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.cluster.partition import SAVED
from dualgap.cluster.worker_pool import WorkerPool

__all__ = ["Checkpoint", "CheckpointError"]

STATE = "state.json"


class CheckpointError(ValueError):
    """A checkpoint that is missing, damaged, or of another run."""


class Checkpoint:
    """Writes β of all partitions once `every` seconds have passed; `restored` says where it is. Without a folder it does nothing."""

    def __init__(self, folder: str | os.PathLike[str] | None, every: float, how: str = "go on from it with resume=True") -> None:
        self.folder = None if folder is None else Path(folder).absolute()
        self.every, self.how = every, how
        self.round = 0
        self.centre = 0.0
        self.meta: dict[str, Any] = {}
        self._last = time.monotonic()

    def begin(self, meta: dict[str, Any]) -> None:
        """A new run: what an earlier one left behind is removed, so that no lost partition is given another run's β."""
        self.meta = meta
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            for path in [self.folder / STATE, *self.folder.glob("beta-*.npy")]:
                path.unlink(missing_ok=True)

    def resume_or_begin(self, meta: dict[str, Any]) -> None:
        """Go on from what the folder holds; without a checkpoint there, a new run begins."""
        if self.folder is not None and (self.folder / STATE).exists():
            self.resume(meta)
        else:
            self.begin(meta)

    def resume(self, meta: dict[str, Any]) -> None:
        """Go on from what the folder holds, if it is of the same problem."""
        if self.folder is None:
            raise CheckpointError("resume=True needs checkpoint=, the folder of the run to go on with")
        self.meta = meta
        path = self.folder / STATE
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
            self.round, self.centre, saved = int(state["round"]), float(state["centre"]), state["meta"]
        except FileNotFoundError:
            raise CheckpointError(f"{self.folder} holds no checkpoint: leave resume out to start afresh") from None
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path} is damaged ({error}): leave resume out to start afresh") from None
        rows, wanted = saved.get("rows"), meta["rows"]
        other_partitions = rows != wanted and isinstance(rows, list) and sum(rows) == sum(wanted)
        different = [key for key in meta if saved.get(key) != meta[key] and not (key == "rows" and other_partitions)]
        if different:
            key = different[0]
            raise CheckpointError(
                f"{self.folder} is of another problem: its {key} is {saved.get(key)!r}, not {meta[key]!r}; give another folder, or "
                "delete it"
            )
        if other_partitions:
            self._divide_again(rows, wanted)

    def _divide_again(self, rows: list[int], wanted: list[int]) -> None:
        """Cut the saved β, one file a partition, anew for another number of partitions. The rows are in the same order."""
        assert self.folder is not None
        paths = [self.folder / SAVED.format(k) for k in range(len(rows))]
        missing = [path.name for path in paths if not path.exists()]
        if missing:
            raise CheckpointError(
                f"{self.folder} has no {missing[0]}, so that its {len(rows)} partitions cannot be cut into {len(wanted)} others: give "
                f"partitions={len(rows)}, or leave resume out to start afresh"
            )
        saved = [np.load(path, mmap_mode="r") for path in paths]
        starts, first = np.cumsum([0, *rows]), 0
        for k, count in enumerate(wanted):
            pieces = [
                part[max(first - start, 0) : max(first + count - start, 0)]
                for part, start, length in zip(saved, starts, rows, strict=False)
                if start < first + count and start + length > first
            ]
            np.save(self.folder / f"new-{k:05d}.npy", np.concatenate(pieces) if pieces else np.empty(0))
            first += count
        for k in range(max(len(rows), len(wanted))):
            (self.folder / SAVED.format(k)).unlink(missing_ok=True)
        for k in range(len(wanted)):
            os.replace(self.folder / f"new-{k:05d}.npy", self.folder / SAVED.format(k))
        self._write()

    def restored(self, k: int) -> str | None:
        """The file with the last saved β of partition k, if there is one."""
        if self.folder is None:
            return None
        path = self.folder / SAVED.format(k)
        return str(path) if path.exists() else None

    def save(self, pool: WorkerPool, number: int, centre: float, now: bool = False) -> bool:
        """Save if it is time."""
        if self.folder is None or not (now or time.monotonic() - self._last >= self.every):
            return False
        pool.call("save", str(self.folder))  # one that is lost meanwhile begins again from the file before
        self.round, self.centre, self._last = number, centre, time.monotonic()
        self._write()
        return True

    def _write(self) -> None:
        """Write the state, whole or not at all."""
        assert self.folder is not None
        partial = self.folder / f"{STATE}.partial"
        partial.write_text(json.dumps({"round": self.round, "centre": self.centre, "meta": self.meta}), encoding="utf-8")
        os.replace(partial, self.folder / STATE)

    def where(self) -> str:
        """For error messages: what there is to go on from."""
        if self.folder is None:
            return "no checkpoint was asked for, so that the run is lost; give checkpoint=FOLDER next time"
        if not (self.folder / STATE).exists():
            return f"{self.folder} has no checkpoint yet: start afresh"
        return f"the last checkpoint is of round {self.round}, in {self.folder}: {self.how}"
