"""What a store says of itself: manifest.json, its parts with sizes and checksums, and the errors of a damaged store.

store/
  manifest.json              written last, in one move: a folder without it is not a store
  part-00000.labels.npy      the place of each row's label in the manifest's list of classes; of a regression the targets
  part-00000.origin.npy      which row of the input it was
  part-00000.sqnorms.npy     ‖x‖² of each row
  part-00000.indptr.npy  .indices.npy  .data.npy      sparse rows, or
  part-00000.x.npy                                    dense rows

A store may come from somebody else. Compiled code reads its rows without bounds checks, so nothing of it is believed: names stay within the
folder, types and shapes are those below, and `folder` checks the contents of each array.
"""

from __future__ import annotations

import io
import json
import os
import re
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.core import is_number, is_whole, write_atomically
from dualgap.data import DataError

__all__ = ["ARRAYS", "FileRecord", "Manifest", "Part", "StoreError", "layout_of", "read_array", "write_array"]

MANIFEST, PROGRESS = "manifest.json", "progress.jsonl"
FORMAT, VERSION = "dualgap-store", 1
ARRAYS = {"csr": ("labels", "origin", "sqnorms", "indptr", "indices", "data"), "dense": ("labels", "origin", "sqnorms", "x")}
LABELS = {"classification": np.uint16, "regression": np.float64}  # types of the array of labels
CHUNK = 1 << 24  # bytes read at a time
MOST_FEATURES = 2**31 - 1  # columns are 32-bit numbers
LONGEST_HEADER = 1 << 16  # bytes before the values in a .npy file
PART_NAME = re.compile(r"[A-Za-z0-9_-]+")


class StoreError(DataError):
    """A store that cannot be trusted or used; the message says what is wrong and how to mend it."""


@dataclass(frozen=True)
class FileRecord:
    """Size and CRC-32 of one file of a part."""

    bytes: int
    crc32: int


@dataclass(frozen=True)
class Part:
    """One block of rows on disk."""

    name: str
    rows: int
    stored: int  # values stored: non-zeros, or rows × features
    files: dict[str, FileRecord]

    @property
    def nbytes(self) -> int:
        """Size on disk."""
        return sum(record.bytes for record in self.files.values())


def layout_of(part: Part, array: str, dtype: str, features: int, task: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and type that an array of a part must have."""
    layouts: dict[str, tuple[tuple[int, ...], Any]] = {
        "labels": ((part.rows,), LABELS[task]),
        "origin": ((part.rows,), np.int64),
        "sqnorms": ((part.rows,), np.float64),
        "indptr": ((part.rows + 1,), np.int32),
        "indices": ((part.stored,), np.int32),
        "data": ((part.stored,), dtype),
        "x": ((part.rows, features), dtype),
    }
    shape, kind = layouts[array]
    return shape, np.dtype(kind)


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
        """Write manifest.json, whole or not at all. Versions before there was a task read classes."""
        content = asdict(self)
        if self.task == "classification":
            del content["task"]
        save_json(folder / MANIFEST, {"format": FORMAT, "version": VERSION, **content})

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
        manifest._check(folder)
        return manifest

    def _check_fields(self) -> None:
        """Raise ValueError unless every field has a type and a range that a store can have."""
        if self.storage not in ARRAYS:
            raise ValueError(f"storage is {self.storage!r}; it must be 'csr' or 'dense'")
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f"dtype is {self.dtype!r}; it must be 'float32' or 'float64'")
        if self.task not in LABELS:
            raise ValueError(f"task is {self.task!r}; it must be 'classification' or 'regression'")
        _whole("features", self.features, 1, MOST_FEATURES)
        _whole("rows", self.rows)
        if not isinstance(self.classes, list) or not isinstance(self.counts, list) or len(self.classes) != len(self.counts):
            raise ValueError("classes and counts must be lists of one length")
        if self.task == "regression" and self.classes:
            raise ValueError("a regression has no classes")
        if not all(isinstance(label, str) for label in self.classes) and not all(is_number(label) for label in self.classes):
            raise ValueError("classes must all be text, or all be numbers")
        for count in self.counts:
            _whole("a count", count)
        for part in self.parts:
            for array in ARRAYS[self.storage]:
                shape, dtype = layout_of(part, array, self.dtype, self.features, self.task)
                header = part.files[array].bytes - int(np.prod(shape, dtype=object)) * dtype.itemsize
                if not 0 < header <= LONGEST_HEADER:
                    raise ValueError(f"{part.name}: {array} of shape {shape} does not take {part.files[array].bytes:,} bytes")

    def _check(self, folder: Path) -> None:
        counted = self.rows if self.task == "regression" else sum(self.counts)
        if sum(part.rows for part in self.parts) != self.rows or counted != self.rows:
            raise StoreError(f"{folder / MANIFEST} contradicts itself on the number of rows: convert the data again")
        for part in self.parts:
            for array in ARRAYS[self.storage]:
                check_size(folder, part, array)


def check_size(folder: Path, part: Part, array: str) -> None:
    """Raise unless a part's file is there and as long as the manifest says."""
    path, record = array_path(folder, part.name, array), part.files[array]
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise StoreError(f"{path} is missing: {_mend(folder)}") from None
    if size != record.bytes:
        cut = "truncated" if size < record.bytes else "too long"
        raise StoreError(f"{path} is {cut}: {size:,} bytes where the manifest says {record.bytes:,}; {_mend(folder)}")


def array_path(folder: Path, part: str, array: str) -> Path:
    """Return where an array of a part is kept."""
    return folder / f"{part}.{array}.npy"


def write_array(folder: Path, part: str, array: str, values: np.ndarray, checksum: bool = True) -> FileRecord:
    """Write one array of a part as plain .npy, complete or absent; without a checksum, its record has 0."""
    path = array_path(folder, part, array)
    partial = path.with_suffix(".partial")
    values = np.ascontiguousarray(values)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(values))
    content = values.reshape(-1).view(np.uint8).data
    with open(partial, "wb", buffering=0) as stream:
        for piece in (header.getbuffer(), content):
            while len(piece):
                piece = piece[stream.write(piece) :]
    os.replace(partial, path)
    return FileRecord(header.tell() + len(content), zlib.crc32(content, zlib.crc32(header.getbuffer())) if checksum else 0)


def checked_record(folder: Path, part: str, array: str) -> FileRecord:
    """Return the size and the checksum of an array's file."""
    with open(array_path(folder, part, array), "rb") as stream:
        size, crc = 0, 0
        while piece := stream.read(CHUNK):
            size, crc = size + len(piece), zlib.crc32(piece, crc)
    return FileRecord(size, crc)


def read_array(folder: Path, part: Part, array: str, verify: bool) -> np.ndarray:
    """Read one array of a part into memory, with its checksum compared where asked."""
    check_size(folder, part, array)
    path, record = array_path(folder, part.name, array), part.files[array]
    try:
        with open(path, "rb") as stream:
            version = np.lib.format.read_magic(stream)
            read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read_header(stream)
            header = stream.tell()
            if fortran or dtype.hasobject:
                raise ValueError("not a plain C-ordered array")
            if header + int(np.prod(shape, dtype=object)) * dtype.itemsize != record.bytes:
                raise ValueError(f"an array of shape {shape} does not take {record.bytes:,} bytes")
            values = np.empty(shape, dtype)
            room = values.reshape(-1).view(np.uint8).data
            if stream.readinto(room) != values.nbytes:
                raise ValueError("it ends too early")
            if verify:
                stream.seek(0)
                crc = zlib.crc32(room, zlib.crc32(stream.read(header)))
                if crc != record.crc32:
                    raise ValueError("its checksum is not the manifest's")
    except ValueError as error:
        raise StoreError(f"{path} is corrupted ({_short(error)}): {_mend(folder)}") from None
    return values


def read_slice(folder: Path, part: Part, array: str, dtype: str, first: int, last: int) -> np.ndarray:
    """Return the values first…last of an array of a part that this process has written or checked."""
    count = {"x": part.stored, "indices": part.stored, "data": part.stored, "indptr": part.rows + 1}.get(array, part.rows)
    values = np.empty(last - first, dtype)
    path, record = array_path(folder, part.name, array), part.files[array]
    with open(path, "rb", buffering=0) as stream:
        stream.seek(record.bytes - (count - first) * values.itemsize)  # the values end where the file ends
        if values.size and stream.readinto(values.view(np.uint8).data) != values.nbytes:
            raise StoreError(f"{path} became shorter while it was in use; delete {folder} and convert the data again")
    return values


def part_from(entry: dict[str, Any]) -> Part:
    """Return a part from its entry in a manifest; raise ValueError for a name that leads out of the folder and for impossible sizes."""
    name = entry["name"]
    if not isinstance(name, str) or not PART_NAME.fullmatch(name):
        raise ValueError(f"a part is called {name!r}; a name has letters, digits, - and _ alone")
    files = {array: FileRecord(**record) for array, record in entry["files"].items()}
    if set(files) not in [set(arrays) for arrays in ARRAYS.values()]:
        raise ValueError(f"{name} has the arrays {sorted(files)}; a part has those of sparse or of dense rows")
    for array, record in files.items():
        _whole(f"{name}: bytes of {array}", record.bytes)
        _whole(f"{name}: crc32 of {array}", record.crc32, 0, 2**32 - 1)
    return Part(name, _whole(f"{name}: rows", entry["rows"]), _whole(f"{name}: stored", entry["stored"]), files)


def _whole(name: str, value: Any, least: int = 0, most: int = 2**62) -> int:
    if not is_whole(value) or not least <= value <= most:
        raise ValueError(f"{name} is {value!r}; it must be a whole number from {least} to {most}")
    return int(value)


def _mend(folder: Path) -> str:
    try:
        sources = [source["path"] for source in json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["sources"]]
    except (OSError, ValueError, KeyError, TypeError):
        sources = []
    data = " ".join(sources) if sources else "DATA"
    return f"copy the file from a backup, or delete the folder and run `dualgap convert {data} {folder}` again"


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
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    content: dict[str, Any] = {"classes": [], "raw": [], "parts": []}
    for line in lines:
        for name, value in json.loads(line).items():
            if name in ("classes", "raw", "parts"):
                content[name].extend(value)
            else:
                content[name] = value
    return content


def save_json(path: Path, content: dict[str, Any]) -> None:
    """Write JSON, whole or not at all."""
    write_atomically(path, json.dumps(content, indent=1))


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
