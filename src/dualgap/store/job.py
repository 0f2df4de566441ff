"""The state of a conversion: what has been read, the parts written, the classes found.

progress.jsonl has a line for each step, with what it changed, and first one with the settings. A last line that was cut short by a stop is
left out: its part is made again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.core import write_atomically
from dualgap.data import DataError, integer_labels
from dualgap.store.manifest import PROGRESS, Manifest, read_progress
from dualgap.store.part_files import Part, StoreError, check_size, part_from

__all__ = ["Job"]

MIXED_AT_ONCE = 128  # raw parts that one final part takes slices of: more mix better and open more files
MOST_CLASSES = 10_000


@dataclass
class Job:
    """What has been done of a conversion.

    Order of calls: `begin` or `resume`; then `codes` of the labels of each block and `note` after each step; `finish`.
    """

    folder: Path
    settings: dict[str, Any]
    stage: str = "read"  # then "mix", or "adopt" where raw parts are final as they are, then "done"
    source: int = 0  # the file being read
    pieces: int = 0  # of it, done
    rows: int = 0
    features: int = 0
    classes: list[Any] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    raw: list[Part] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)

    @classmethod
    def begin(cls, folder: Path, settings: dict[str, Any]) -> Job:
        """Start in an empty folder, or in one of a conversion that wrote no settings."""
        folder.mkdir(parents=True, exist_ok=True)
        left = (".npy", ".partial", ".tmp")
        foreign = [path.name for path in folder.iterdir() if path.suffix not in left and path.name != "preparation.json"]
        if foreign:
            raise StoreError(f"{folder} is not empty (it holds {foreign[0]!r}); give a folder of its own to the store")
        write_atomically(folder / PROGRESS, json.dumps({"settings": settings}) + "\n")
        return cls(folder, settings)

    @classmethod
    def resume(cls, folder: Path, settings: dict[str, Any]) -> Job | None:
        """Go on where a conversion with the same settings stopped; None where there is none."""
        path = folder / PROGRESS
        if not path.exists():
            return None
        try:
            content = read_progress(path)
            begun = content.pop("settings")
            raw, parts = ([part_from(entry) for entry in content.pop(name)] for name in ("raw", "parts"))
            job = cls(folder, begun, **content, raw=raw, parts=parts)
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{path} is damaged ({error}): delete {folder} and convert the data again") from None
        different = [key for key in settings if begun.get(key) != settings[key]]
        if different:
            raise StoreError(
                f"{folder} is half-converted from other data or with other options ({', '.join(different)}): give the same command "
                "as before to go on, or delete the folder to start afresh"
            )
        for part in [*job.parts, *(job.raw if job.stage == "read" else [])]:
            for array in part.files:
                check_size(folder, part, array)
        whole_lines = path.read_bytes()
        write_atomically(path, whole_lines[: whole_lines.rfind(b"\n") + 1])
        return job

    @property
    def task(self) -> str:
        """What the labels are for."""
        return str(self.settings["task"])

    def note(self, raw: Part | None = None, part: Part | None = None, **fields: Any) -> None:
        """Take in a step: a raw part, a final part, fields with other values. Append it to the file as one line."""
        if raw is not None:
            self.raw.append(raw)
        if part is not None:
            self.parts.append(part)
        for name, value in fields.items():
            setattr(self, name, value)
        new = {name: [asdict(each)] for name, each in (("raw", raw), ("parts", part)) if each is not None}
        with open(self.folder / PROGRESS, "a", encoding="utf-8") as stream:
            stream.write(json.dumps({**fields, **new}) + "\n")

    def groups(self) -> list[list[Part]]:
        """Return the groups of raw parts that are mixed with each other; a group spans the whole input."""
        count = -(-len(self.raw) // MIXED_AT_ONCE)
        return [self.raw[k::count] for k in range(count)]

    def codes(self, labels: np.ndarray) -> np.ndarray:
        """Return the place of each label in the list of classes, which grows as new ones turn up; of a regression the targets."""
        if self.task == "regression":
            return _targets(labels, self.rows)
        found, inverse = _distinct(labels)
        known = {label: k for k, label in enumerate(self.classes)}
        places = []
        for label in found.tolist():
            if label not in known:
                if self.classes and isinstance(label, str) != isinstance(self.classes[0], str):
                    raise DataError(f"labels mix numbers and text: {self.classes[0]!r} and {label!r}")
                if len(self.classes) >= MOST_CLASSES:
                    raise DataError(
                        f"more than {MOST_CLASSES:,} different labels: is the label column a measured quantity? Then convert it with "
                        "task='regression' (--task regression)"
                    )
                known[label] = len(self.classes)
                self.classes.append(label)
                self.counts.append(0)
            places.append(known[label])
        for place, count in zip(places, np.bincount(inverse, minlength=len(places)).tolist(), strict=True):
            self.counts[place] += count
        return np.array(places, dtype=np.uint16)[inverse]

    def finish(self, n_features: int | None) -> None:
        """Write the manifest."""
        features, s = self.features if n_features is None else n_features, self.settings
        if not features:
            raise DataError("no sample has a feature: there is nothing to train on")
        classes, seed = integer_labels(np.asarray(self.classes)).tolist(), s["seed"] if s["shuffle"] else None
        made = Manifest(
            s["storage"], s["dtype"], self.rows, features, classes, self.counts, self.parts, seed, s["sources"], self.task
        )
        made.save(self.folder)
        (self.folder / PROGRESS).unlink()


def _distinct(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (the different labels, the place of each label among them); whole numbers close together need no sorting."""
    if labels.dtype.kind in "iu" and labels.size:
        low, high = labels.min(), labels.max()
        if int(high) - int(low) < MOST_CLASSES:
            moved = (labels - low).astype(np.intp)
            there = np.bincount(moved) > 0
            return np.flatnonzero(there).astype(labels.dtype) + low, (np.cumsum(there) - 1)[moved]
    found, inverse = np.unique(labels, return_inverse=True)
    return found, inverse


def _targets(labels: np.ndarray, before: int) -> np.ndarray:
    """Return the targets of some rows, which must be finite numbers; `before` is how many rows came before them."""
    if labels.dtype.kind not in "iufb":
        raise DataError(f"row {before + 1:,}: the target {labels.tolist()[0]!r} is not a number, which a regression needs")
    values = labels.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise DataError(f"row {before + int(bad[0]) + 1:,}: the target is {values[bad[0]]}; it must be a finite number")
    return values
