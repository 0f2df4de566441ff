"""What a store says of itself: manifest.json, its parts with sizes and checksums, and how far a conversion has come.

store/
  manifest.json              written last, in one move: a folder without it is not a store
  preparation.json           what turned the rows of a table or an array into features
  part-00000.labels.npy      the place of each row's label in the manifest's list of classes; of a regression the targets
  part-00000.origin.npy      which row of the input it was
  part-00000.sqnorms.npy     ‖x‖² of each row
  part-00000.indptr.npy  .indices.npy  .data.npy      sparse rows, or
  part-00000.x.npy                                    dense rows
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dualgap.core import is_number, write_atomically
from dualgap.store.part_files import ARRAYS, LABELS, MANIFEST, Part, StoreError, check_size, layout_of, npy_header, part_from, whole

__all__ = ["PROGRESS", "Manifest", "read_progress", "save_json"]

PROGRESS = "progress.jsonl"
FORMAT, VERSION = "dualgap-store", 1
MOST_FEATURES = 2**31 - 1  # columns are 32-bit numbers


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
