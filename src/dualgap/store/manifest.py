"""What a store says of itself: its parts with sizes and checksums, in manifest.json; and how far a conversion has come, in progress.jsonl.

store/
  manifest.json              written last, in one move: a folder without it is not a store
  preparation.json           what turned the rows of a table or an array into features
  part-00000.labels.npy      the place of each row's label in the manifest's list of classes; of a regression the targets
  part-00000.origin.npy      which row of the input it was
  part-00000.sqnorms.npy     ‖x‖² of each row
  part-00000.indptr.npy  .indices.npy  .data.npy      sparse rows, or
  part-00000.x.npy                                    dense rows

While a conversion lasts, progress.jsonl has a line for each step, with what it changed, and first one with the settings. A last line that
was cut short by a stop is left out: its part is made again.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.core import is_number, write_atomically
from dualgap.data import DataError, integer_labels
from dualgap.store.part_files import ARRAYS, LABELS, MANIFEST, Part, StoreError, check_size, layout_of, npy_header, part_from, whole

__all__ = ["PROGRESS", "Job", "Manifest", "save_json"]

PROGRESS = "progress.jsonl"
FORMAT, VERSION = "dualgap-store", 1
MOST_FEATURES = 2**31 - 1  # columns are 32-bit numbers
MIXED_AT_ONCE = 128  # raw parts that one final part takes slices of: more mix better and open more files
MOST_CLASSES = 10_000


@dataclass(frozen=True)
class Manifest:
    """The contents of a store."""

    storage: str  # "csr" or "dense"
    dtype: str
    rows: int
    features: int
    classes: list[Any]
    counts: list[int]
    parts: list[Part]
    seed: int | None
    sources: list[dict[str, Any]] = field(default_factory=list)
    task: str = "classification"  # or "regression": the labels are targets, and there are no classes

    def save(self, folder: Path) -> None:
        """Write manifest.json, whole or not at all."""
        save_json(folder / MANIFEST, {"format": FORMAT, "version": VERSION, **asdict(self)})

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read and check manifest.json; sizes of the parts are compared, contents are checked when they are first read."""
        if not folder.is_dir():
            what = "is a file" if folder.exists() else "does not exist"
            raise StoreError(f"{folder} {what}: give the folder of a store, made by `dualgap convert DATA FOLDER`")
        path = folder / MANIFEST
        if not path.exists():
            raise _unfinished(folder)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content.pop("format") != FORMAT:
                raise KeyError("format")
            version = content.pop("version")
            parts = [part_from(entry) for entry in content.pop("parts")]
            manifest = cls(parts=parts, **content)
            manifest._check_fields()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(f"{path} is damaged ({_short(error)}): delete {folder} and convert the data again") from None
        if version != VERSION:
            raise StoreError(f"{path} has version {version}, this dualgap reads version {VERSION}: convert the data again")
        counted = manifest.rows if manifest.task == "regression" else sum(manifest.counts)
        if sum(part.rows for part in parts) != manifest.rows or counted != manifest.rows:
            raise StoreError(f"{path} contradicts itself on the number of rows: convert the data again")
        for part in parts:
            for array in ARRAYS[manifest.storage]:
                check_size(folder, part, array)
        return manifest

    def _check_fields(self) -> None:
        """Raise ValueError unless every field has a type and a range that a store can have."""
        if self.storage not in ARRAYS:
            raise ValueError(f"storage is {self.storage!r}; it must be 'csr' or 'dense'")
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f"dtype is {self.dtype!r}; it must be 'float32' or 'float64'")
        if self.task not in LABELS:
            raise ValueError(f"task is {self.task!r}; it must be 'classification' or 'regression'")
        whole("features", self.features, 1, MOST_FEATURES)
        whole("rows", self.rows)
        if not isinstance(self.classes, list) or not isinstance(self.counts, list) or len(self.classes) != len(self.counts):
            raise ValueError("classes and counts must be lists of one length")
        if self.task == "regression" and self.classes:
            raise ValueError("a regression has no classes")
        if not all(isinstance(label, str) for label in self.classes) and not all(is_number(label) for label in self.classes):
            raise ValueError("classes must all be text, or all be numbers")
        for count in self.counts:
            whole("a count", count)
        for part in self.parts:
            for array in ARRAYS[self.storage]:
                shape, dtype = layout = layout_of(part, array, self.dtype, self.features, self.task)
                if part.files[array].bytes != len(npy_header(layout)) + math.prod(shape) * dtype.itemsize:
                    raise ValueError(f"{part.name}: {array} of shape {shape} does not take {part.files[array].bytes:,} bytes")


def _unfinished(folder: Path) -> StoreError:
    try:
        progress = read_progress(folder / PROGRESS)
        rows, sources = int(progress["rows"]), [source["path"] for source in progress["settings"]["sources"]]
    except FileNotFoundError:
        return StoreError(f"{folder}: it has no {MANIFEST}, so it is no store: make one with `dualgap convert DATA {folder}`")
    except (OSError, ValueError, KeyError, TypeError) as error:
        return StoreError(f"{folder / PROGRESS} is damaged ({_short(error)}): delete the folder and convert the data again")
    if not sources:
        return StoreError(
            f"{folder} is half-written ({rows:,} rows): write_store was stopped, and cannot go on from there. "
            "Delete the folder and call it again"
        )
    return StoreError(
        f"{folder} is half-converted ({rows:,} rows so far): run `dualgap convert {' '.join(sources)} {folder}` again with the same "
        "options, and it goes on from there"
    )


def read_progress(path: Path) -> dict[str, Any]:
    """Return the state of a conversion that the lines of its progress file add up to; a last line that was cut short is left out."""
    content: dict[str, Any] = {"rows": 0, "raw": [], "parts": []}
    for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
        for name, value in json.loads(line).items():
            content[name] = [*content[name], *value] if name in ("raw", "parts") else value
    return content


def save_json(path: Path, content: dict[str, Any]) -> None:
    """Write JSON, whole or not at all."""
    write_atomically(path, json.dumps(content, indent=1))


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


# --------------------------------------------------------------------------------------------------------------- a conversion


@dataclass
class Job:
    """What has been done of a conversion.

    Order of calls: `begin` or `resume`; then `codes` of the labels of each block and `note` after each step; `finish`.
    """

    folder: Path
    settings: dict[str, Any]
    stage: str = "read"  # then "mix", unless rows keep their order, then "done"
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
