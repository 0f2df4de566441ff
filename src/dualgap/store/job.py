"""The state of a conversion: what has been read, the parts written, the classes found; saved after every part.

progress.jsonl has a line a save, and a line has only what is new: so the cost of a save does not grow with the parts before it. The first
line has the settings. A last line that was cut short by a stop is left out: its part is made again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.core import write_atomically
from dualgap.data import DataError, integer_labels
from dualgap.store.manifest import PROGRESS, Manifest, Part, StoreError, check_size, part_from, read_progress, write_array

__all__ = ["Job"]

MIXED_AT_ONCE = 128  # raw parts that one final part takes slices of: more mix better and open more files
MOST_CLASSES = 10_000
NUMBERS = ("stage", "source", "pieces", "rows", "features", "counts")  # saved whole where they have changed
LISTS = ("classes", "raw", "parts")  # of which what is new is saved


@dataclass
class Job:
    """What has been done of a conversion; saved after every part, so that it can go on from there."""

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
    _saved: dict[str, Any] = field(default_factory=dict, repr=False)  # what the file has: small fields, and the lengths of lists

    @classmethod
    def begin(cls, folder: Path, settings: dict[str, Any]) -> Job:
        folder.mkdir(parents=True, exist_ok=True)
        foreign = [
            path.name
            for path in folder.iterdir()
            if path.suffix not in (".npy", ".partial", ".tmp") and path.name != "preparation.json"
        ]
        if foreign:
            raise StoreError(f"{folder} is not empty (it holds {foreign[0]!r}); give a folder of its own to the store")
        job = cls(folder, settings)
        (folder / PROGRESS).write_text(json.dumps({"settings": settings}) + "\n", encoding="utf-8")
        job.save()
        return job

    @classmethod
    def resume(cls, folder: Path, settings: dict[str, Any]) -> Job | None:
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
        waiting = [part for part in job.raw if not job.released(part)]
        for part in [*job.parts, *(waiting if job.stage in ("read", "mix") else [])]:
            for array in part.files:
                check_size(folder, part, array)
        job._saved = job._marks()
        job._rewrite()
        return job

    def released(self, part: Part) -> bool:
        """Return whether a raw part has been mixed into final ones and deleted."""
        return self.stage == "mix" and any(part in group for group in self.groups()[: self.groups_done()])

    def groups(self) -> list[list[Part]]:
        """Return the groups of raw parts that are mixed with each other; a group spans the whole input."""
        count = -(-len(self.raw) // MIXED_AT_ONCE)
        return [self.raw[k::count] for k in range(count)]

    def groups_done(self) -> int:
        done, parts = 0, len(self.parts)
        for group in self.groups():
            if parts < len(group):
                break
            parts -= len(group)
            done += 1
        return done

    def save(self) -> None:
        """Append what is new since the last save to the file, as one line."""
        new = {name: self._new(name) for name in (*NUMBERS, *LISTS)}
        line = json.dumps({name: value for name, value in new.items() if value is not None})
        with open(self.folder / PROGRESS, "a", encoding="utf-8") as stream:
            stream.write(line + "\n")
        self._saved = self._marks()

    def _marks(self) -> dict[str, Any]:
        numbers = {name: getattr(self, name) for name in NUMBERS}
        return {**numbers, "counts": list(self.counts), **{name: len(getattr(self, name)) for name in LISTS}}

    def _new(self, name: str) -> Any:
        """Return what a field has beyond what was saved; None where that is nothing."""
        value = getattr(self, name)
        if name not in LISTS:
            return (list(value) if name == "counts" else value) if self._saved.get(name) != value else None
        new = value[self._saved.get(name, 0) :]
        return [asdict(each) if isinstance(each, Part) else each for each in new] or None

    def _rewrite(self) -> None:
        """Write the file anew with two lines, without what a stop has cut short."""
        fields = {name: getattr(self, name) for name in (*NUMBERS, "classes")}
        parts = {name: [asdict(part) for part in getattr(self, name)] for name in ("raw", "parts")}
        write_atomically(self.folder / PROGRESS, json.dumps({"settings": self.settings}) + "\n" + json.dumps(fields | parts) + "\n")

    def codes(self, labels: np.ndarray) -> np.ndarray:
        """Return the place of each label in the list of classes, which grows as new ones turn up; of a regression the targets."""
        if self.settings.get("task") == "regression":
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

    def write(self, name: str, arrays: dict[str, np.ndarray], final: bool) -> Part:
        """Write the arrays of a part; one that will be mixed into others gets no checksums."""
        files = {key: write_array(self.folder, name, key, value, final) for key, value in arrays.items()}
        values = arrays["data" if "data" in arrays else "x"]
        return Part(name, len(arrays["labels"]), int(values.size), files)

    def finish(self, n_features: int | None) -> None:
        features = self.features if n_features is None else n_features
        s = self.settings
        seed = s["seed"] if s["shuffle"] else None
        if not features:
            raise DataError("no sample has a feature: there is nothing to train on")
        classes = integer_labels(np.asarray(self.classes)).tolist()
        task = s.get("task", "classification")
        made = Manifest(s["storage"], s["dtype"], self.rows, features, classes, self.counts, self.parts, seed, s["sources"], task)
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
