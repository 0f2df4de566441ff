"""`load`, `names` and `describe`: data sets by name.

A file is looked for in the user's folder, in the cache, then at its source. For a missing file the error says what to fetch;
a stand-in has a name of its own and is never loaded instead.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from typing import Any

from dualgap.data.catalogue import CATALOGUE, Entry
from dualgap.data.dataset import DataError, DataSet
from dualgap.data.known_files import find, locate

__all__ = ["describe", "entry", "load", "names"]


def names() -> list[str]:
    """Return the names that `load` knows, real data first.

    Examples
    --------
    >>> import dualgap.data
    >>> dualgap.data.names()[:3]
    ['breast-cancer', 'digits', 'creditcard']
    """
    return list(CATALOGUE)


def entry(name: str, catalogue: Mapping[str, Entry] = CATALOGUE) -> Entry:
    """Return what is known of a data set without loading it."""
    if name not in catalogue:
        near = difflib.get_close_matches(str(name), catalogue, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise DataError(f"there is no data set {name!r}; {hint}dualgap.data.names() lists them all")
    return catalogue[name]


def load(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    download: bool = True,
    catalogue: Mapping[str, Entry] = CATALOGUE,
    **options: Any,
) -> DataSet:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        One of `names()`.
    folder : path, optional
        Where to look for its files first; by default the folder that the environment variable DUALGAP_DATA names.
    download : bool
        Whether a file that is neither there nor in the cache may be fetched from its public source.
    catalogue : names to entries
        The data sets that there are.
    **options
        What the data set takes: `seed` and sizes for a generator, `drop_duplicates` for creditcard, …

    Examples
    --------
    >>> from dualgap.data.registry import load
    >>> load("breast-cancer")
    DataSet('breast-cancer', 569 × 30, 2 classes)
    >>> load("parabolic", n=300, seed=7)
    DataSet('parabolic', 300 × 2, 2 classes, generated)
    """
    known = entry(name, catalogue)
    paths = [find(name, file, folder, download) for file in known.files]
    try:
        data = known.make(paths, **options) if paths else known.make(**options)
    except TypeError as error:
        unknown = _unknown_options(error)
        if unknown is None:
            raise
        raise DataError(f"data set {name!r} has no option {unknown!r}") from None
    if known.generated:
        return data.with_(name=name)
    return data.with_(name=name, description=known.description, source=known.source, licence=known.licence)


def _unknown_options(error: TypeError) -> str | None:
    """Return the name in Python's own complaint about a keyword argument; None for any other TypeError."""
    text = str(error)
    return text.split("'")[1] if "unexpected keyword argument" in text else None


def describe(folder: str | os.PathLike[str] | None = None, catalogue: Mapping[str, Entry] = CATALOGUE) -> list[dict[str, Any]]:
    """Return a table of all data sets, one dict a row; `found` says whether it can be loaded at once, and from where."""
    return [
        {
            "name": known.name,
            "rows": known.shape[0],
            "columns": known.shape[1],
            "test_rows": known.test_rows,
            "classes": known.classes,
            "generated": known.generated,
            "found": _found(known, folder),
            "description": known.description,
            "licence": known.licence,
            "source": known.source,
            "notes": known.notes,
            "checksums": {file.name: file.checksum for file in known.files},
        }
        for known in catalogue.values()
    ]


def _found(known: Entry, folder: str | os.PathLike[str] | None) -> str:
    missing = [file for file in known.files if locate(file, folder) is None]
    if not missing:
        return "yes"
    return "download" if all(file.url for file in missing) else "by hand"
