"""Files at an address such as s3://bucket/data.parquet: copied to a local folder by fsspec, in whatever file system it opens.

A copy, and no stream: a conversion reads its input twice, and may go on after a stop.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from dualgap.core import needs
from dualgap.data.dataset import DataError
from dualgap.data.table_files import ENDINGS, ending_of

__all__ = ["fetch", "is_url"]

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(://|::)")


def is_url(word: Any) -> bool:
    """Return whether a word is the address of a file in another file system.

    Examples
    --------
    >>> from dualgap.data import is_url
    >>> [is_url(word) for word in ("s3://bucket/a.csv", "simplecache::s3://bucket/a.csv", "a.csv", "C:/a.csv")]
    [True, True, False, False]
    """
    return isinstance(word, str) and URL.match(word) is not None


def fetch(url: str, folder: Path) -> dict[Path, str]:
    """Copy a file, or the tables in a folder, to a local folder; return the copies with the address of each.

    A copy that is there already with the size of the original is kept. Credentials and options are those of the file system: its
    environment variables and fsspec's configuration.
    """
    if url.startswith("file://"):
        return {Path(url.removeprefix("file://")): url}
    system, path = _open_system(url)
    try:
        entries = _files_at(system, path, url)
        folder.mkdir(parents=True, exist_ok=True)
        copies = {}
        for number, entry in enumerate(entries):
            copy = folder / f"{number:05d}" / PurePosixPath(entry["name"]).name
            _copy(system, entry, copy)
            copies[copy] = url if len(entries) == 1 else system.unstrip_protocol(entry["name"])
        return copies
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{url}: there is no such file") from None
    except DataError:
        raise
    except Exception as error:  # every file system has its own errors
        raise DataError(f"{url} cannot be read: {type(error).__name__}: {' '.join(str(error).split())[:200]}") from None


def _open_system(url: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError:
        raise DataError(needs(f"{url}: reading from an address", "fsspec")) from None
    try:
        system, path = fsspec.core.url_to_fs(url)
    except ImportError as error:  # the file system has a package of its own
        raise DataError(f"{url}: {' '.join(str(error).split())[:200]}; install the package that it names with pip") from None
    except ValueError as error:
        raise DataError(f"{url}: {' '.join(str(error).split())[:200]}; fsspec.available_protocols() lists what there is") from None
    return system, path


def _files_at(system: Any, path: str, url: str) -> Sequence[dict[str, Any]]:
    found = system.info(path)
    if found["type"] != "directory":
        return [found]
    inside = sorted((each for each in system.ls(path, detail=True) if each["type"] == "file"), key=lambda each: each["name"])
    names = [PurePosixPath(each["name"]) for each in inside]
    tables = [
        each
        for each, name in zip(inside, names, strict=True)
        if not name.name.startswith((".", "_")) and ending_of(Path(name.name)) in ENDINGS
    ]
    if not tables:
        raise DataError(f"{url} is a folder without a table (.parquet, .csv, …) in it")
    return tables


def _copy(system: Any, entry: dict[str, Any], copy: Path) -> None:
    """Copy a file, complete or not at all."""
    if copy.exists() and copy.stat().st_size == entry.get("size"):
        return
    copy.parent.mkdir(parents=True, exist_ok=True)
    partial = copy.with_name(f"{copy.name}.partial")
    system.get_file(entry["name"], str(partial))
    os.utime(partial, (0, 0))  # the same for every copy, so that a conversion goes on with another one
    os.replace(partial, copy)
