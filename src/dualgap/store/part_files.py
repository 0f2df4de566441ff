"""The arrays of a part on disk, each a plain .npy file: written complete or not at all, read whole with a checksum, or a stretch of it.

A store may come from somebody else. Compiled code reads its rows without bounds checks, so nothing of a file is believed: its size and its
header must be those of the shape and type that the manifest gives, and names stay within the folder.
"""

from __future__ import annotations

import json
import math
import os
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.core import is_whole
from dualgap.data import DataError

__all__ = [
    "ARRAYS",
    "LABELS",
    "MANIFEST",
    "Layout",
    "Part",
    "StoreError",
    "array_path",
    "check_size",
    "layout_of",
    "npy_header",
    "part_from",
    "read_array",
    "read_slice",
    "whole",
    "write_part",
]

MANIFEST = "manifest.json"
ARRAYS = {"csr": ("labels", "origin", "sqnorms", "indptr", "indices", "data"), "dense": ("labels", "origin", "sqnorms", "x")}
LABELS = {"classification": np.uint16, "regression": np.float64}  # types of the array of labels
PART_NAME = re.compile(r"[A-Za-z0-9_-]+")
Layout = tuple[tuple[int, ...], np.dtype[Any]]  # the shape and the type of an array


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


def part_from(entry: dict[str, Any]) -> Part:
    """Return a part from its entry in a manifest; raise ValueError for a name that leads out of the folder and for impossible sizes."""
    name = entry["name"]
    if not isinstance(name, str) or not PART_NAME.fullmatch(name):
        raise ValueError(f"a part is called {name!r}; a name has letters, digits, - and _ alone")
    files = {array: FileRecord(**record) for array, record in entry["files"].items()}
    if set(files) not in [set(arrays) for arrays in ARRAYS.values()]:
        raise ValueError(f"{name} has the arrays {sorted(files)}; a part has those of sparse or of dense rows")
    for array, record in files.items():
        whole(f"{name}: bytes of {array}", record.bytes)
        whole(f"{name}: crc32 of {array}", record.crc32, 0, 2**32 - 1)
    return Part(name, whole(f"{name}: rows", entry["rows"]), whole(f"{name}: stored", entry["stored"]), files)


def whole(name: str, value: Any, least: int = 0, most: int = 2**62) -> int:
    """Return a whole number of a range; raise ValueError for anything else."""
    if not is_whole(value) or not least <= value <= most:
        raise ValueError(f"{name} is {value!r}; it must be a whole number from {least} to {most}")
    return int(value)


def layout_of(part: Part, array: str, dtype: str, features: int, task: str) -> Layout:
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


def npy_header(layout: Layout) -> bytes:
    """Return what stands before the values in the .npy file of an array."""
    text = repr({"descr": layout[1].str, "fortran_order": False, "shape": layout[0]}).encode()
    length = 64 * -(-(len(text) + 11) // 64)  # values start at a multiple of 64
    return b"\x93NUMPY\x01\x00" + (length - 10).to_bytes(2, "little") + text.ljust(length - 11) + b"\n"


# ----------------------------------------------------------------------------------------------------------------------- writing


def array_path(folder: Path, part: str, array: str) -> Path:
    """Return where an array of a part is kept."""
    return folder / f"{part}.{array}.npy"


def write_part(folder: Path, name: str, arrays: dict[str, np.ndarray]) -> Part:
    """Write the arrays of a part."""
    files = {array: _write(array_path(folder, name, array), values) for array, values in arrays.items()}
    return Part(name, len(arrays["labels"]), int(arrays["data" if "data" in arrays else "x"].size), files)


def _write(path: Path, values: np.ndarray) -> FileRecord:
    partial = path.with_suffix(".partial")
    values = np.ascontiguousarray(values)
    header, content = npy_header((values.shape, values.dtype)), values.reshape(-1).view(np.uint8).data
    with open(partial, "wb") as stream:
        stream.write(header)
        stream.write(content)
    os.replace(partial, path)
    return FileRecord(len(header) + len(content), zlib.crc32(content, zlib.crc32(header)))


# ----------------------------------------------------------------------------------------------------------------------- reading


def check_size(folder: Path, part: Part, array: str) -> None:
    """Raise unless a part's file is there and as long as the manifest says."""
    path, record = array_path(folder, part.name, array), part.files[array]
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise StoreError(f"{path} is missing: {_mending(folder)}") from None
    if size != record.bytes:
        cut = "truncated" if size < record.bytes else "too long"
        raise StoreError(f"{path} is {cut}: {size:,} bytes where the manifest says {record.bytes:,}; {_mending(folder)}")


def _mending(folder: Path) -> str:
    """Return what to do about a store with a file that is wrong."""
    try:
        sources = [source["path"] for source in json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["sources"]]
    except (OSError, ValueError, KeyError, TypeError):
        sources = []
    data = " ".join(sources) if sources else "DATA"
    return f"copy the file from a backup, or delete the folder and run `dualgap convert {data} {folder}` again"


def read_array(folder: Path, part: Part, array: str, layout: Layout, verify: bool) -> np.ndarray:
    """Return the values of an array, with the checksum compared where asked."""
    check_size(folder, part, array)
    path, header, values = array_path(folder, part.name, array), npy_header(layout), np.empty(*layout)
    content, wrong = values.reshape(-1).view(np.uint8).data, ""
    with open(path, "rb") as stream:
        if stream.read(len(header)) != header:
            wrong = f"it is no array of shape {layout[0]} and type {layout[1]}"
        elif stream.readinto(content) != values.nbytes:
            wrong = "it ends too early"
    if not wrong and verify and zlib.crc32(content, zlib.crc32(header)) != part.files[array].crc32:
        wrong = "its checksum is not the manifest's"
    if wrong:
        raise StoreError(f"{path} is corrupted ({wrong}): {_mending(folder)}")
    return values


def read_slice(path: Path, layout: Layout, first: int, last: int) -> np.ndarray:
    """Return the rows first…last of the array in a file that this process has written or checked."""
    shape, dtype = layout
    width = math.prod(shape[1:])
    offset, count = len(npy_header(layout)) + first * width * dtype.itemsize, (last - first) * width
    values = np.fromfile(path, dtype, count, offset=offset) if path.exists() else np.empty(0)
    if values.size != count:
        raise StoreError(f"{path} became shorter while it was in use; delete {path.parent} and convert the data again")
    return values.reshape(last - first, *shape[1:])
