"""Words of a command line turned into data: a store, or what `dualgap.data` opens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dualgap.data import ArraySamples, DataError, Samples, TableOptions, names
from dualgap.data import open_samples as open_rows
from dualgap.store import Store

__all__ = ["is_store_folder", "open_samples"]

STORE_FILES = ("manifest.json", "progress.jsonl")


def is_store_folder(name: str) -> bool:
    """Return whether a word names the folder of a store, or of one that is half made."""
    return Path(name).is_dir() and any((Path(name) / each).exists() for each in STORE_FILES)


def open_samples(data: Sequence[str], options: TableOptions, known_target: str = "") -> Samples | Store:
    """Return the data that the words of a command name: a store, a data set by name, or the rows of files."""
    if len(data) == 1 and is_store_folder(data[0]):
        return Store(data[0])
    if len(data) == 1 and data[0] not in names() and not Path(data[0]).exists():
        from dualgap.lab import catalogue, load

        if data[0] in catalogue():  # a data set that only a study has
            return ArraySamples(load(data[0]), options)
    try:
        return open_rows(data, options, known_target)
    except DataError as error:
        for folder in filter(Path.is_dir, map(Path, data)):
            if any(str(error).startswith(str(each)) for each in folder.iterdir()):
                raise DataError(f"{error}; it is one of the files in the folder {folder}") from None
        raise
