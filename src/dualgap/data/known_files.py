"""Where the file of a named data set is found: the user's folder, the cache, its public source; and whether it is the right file.

`loaders` turns a file into a data set.
"""

from __future__ import annotations

import functools
import hashlib
import os
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.core import cache_folder, needs
from dualgap.data.dataset import DataError, MissingFile
from dualgap.data.readers import read, read_mat

__all__ = ["File", "data_cache", "find", "locate", "spam_digest", "user_folder", "verify"]


@dataclass(frozen=True)
class File:
    """A file that a data set is made from.

    `names` are the names it goes by, the first being ours; `checksum` is "sha256:…" of the file, "csv-md5:…" of the one CSV inside
    it (zipped or not), or "KIND:…" of what the function `digest` makes of it, so that a file packed anew still counts. Where `url` is
    None, a person fetches the file from `page`, and `by_hand` says why.
    """

    names: tuple[str, ...]
    checksum: str
    page: str
    url: str | None = None
    by_hand: str = "it cannot be downloaded without an account there"
    digest: Callable[[Path], str] | None = None

    @property
    def name(self) -> str:
        return self.names[0]


def user_folder(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the folder that the user names: the argument, else the environment variable DUALGAP_DATA, else none."""
    named = folder if folder is not None else os.environ.get("DUALGAP_DATA") or None
    if named is None:
        return None
    path = Path(named).expanduser()
    if path.exists() and not path.is_dir():
        raise DataError(f"{'the folder' if folder is not None else 'DUALGAP_DATA'} is {str(named)!r}, which is not a folder")
    return path


def data_cache() -> Path | None:
    """Return the folder for downloaded and prepared data, beside that of the compiled kernels; None where nothing can be written."""
    kernels = cache_folder()
    if kernels is None:
        return None
    folder = kernels.parent / "data"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder


def locate(file: File, folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Return where the file lies on this machine, in the user's folder or in the cache; None if it lies in neither."""
    for place in (user_folder(folder), data_cache()):
        for name in file.names if place is not None else ():
            path = Path(place, name)  # type: ignore[arg-type]
            if path.is_file():
                return path
    return None


def find(dataset: str, file: File, folder: str | os.PathLike[str] | None = None, download: bool = True) -> Path:
    """Return the path of a file of `dataset`, verified: from the user's folder, else the cache, else fetched from its source.

    Raises MissingFile with one message that says what to fetch, from where, and where to put it.
    """
    path = locate(file, folder)
    if path is not None:
        verify(path, file)
        return path
    if file.url is None:
        raise _missing(dataset, file, folder, file.by_hand)
    if not download:
        raise _missing(dataset, file, folder, "downloading was not allowed")
    return _download(dataset, file, folder)


def _missing(dataset: str, file: File, folder: str | os.PathLike[str] | None, reason: str) -> MissingFile:
    chosen, cache = user_folder(folder), data_cache()
    places = [str(place) for place in (chosen, cache) if place is not None]
    put = f"put it in {' or '.join(places)}" if places else "name its folder in the environment variable DUALGAP_DATA"
    if chosen is None and places:
        put += ", or in a folder of yours that the environment variable DUALGAP_DATA names"
    other = f" (as {' or '.join(file.names)})" if len(file.names) > 1 else ""
    fetch = file.url or file.page
    return MissingFile(f"data set {dataset!r} needs the file {file.name}: fetch it from {fetch} and {put}{other}; {reason}")


def _download(dataset: str, file: File, folder: str | os.PathLike[str] | None) -> Path:
    cache = data_cache()
    if cache is None:
        raise _missing(dataset, file, folder, "there is no cache folder to download it to")
    try:
        import pooch
    except ImportError:
        raise _missing(dataset, file, folder, needs("downloading", "pooch")) from None
    pooch.get_logger().setLevel("WARNING")
    # The download is verified under a temporary name: no later call finds a broken file.
    partial = f"{file.name}.{os.getpid()}.partial"
    (cache / partial).unlink(missing_ok=True)
    try:
        by_http = pooch.HTTPDownloader(timeout=30)
        fetched = Path(pooch.retrieve(file.url, known_hash=None, fname=partial, path=cache, downloader=by_http))
    except Exception as error:  # whatever the network, a proxy or the server raises
        reason = f"downloading failed: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}".rstrip(": ")
        raise _missing(dataset, file, folder, reason[:300]) from error
    try:
        verify(fetched, file)
    except DataError:
        fetched.unlink(missing_ok=True)
        raise
    target = cache / file.name
    os.replace(fetched, target)
    return target


# ------------------------------------------------------------------------------------------------------------------ checksums


def verify(path: Path, file: File) -> None:
    """Raise DataError unless `path` holds what `file.checksum` says."""
    kind, _, expected = file.checksum.partition(":")
    stat = path.stat()
    actual = _digest(path, kind, file.digest, stat.st_size, stat.st_mtime_ns)
    if actual != expected:
        raise DataError(
            f"{path} is not the expected file: its {kind} is {actual} and should be {expected}. The download may be broken or "
            f"the source may have changed; fetch it again from {file.url or file.page}, or read it as it is with dualgap.data.read"
        )


@functools.lru_cache(maxsize=256)
def _digest(path: Path, kind: str, own: Callable[[Path], str] | None, size: int, mtime: int) -> str:
    """Return the digest of a file; `size` and `mtime` are part of the cache's key, so a changed file is read again."""
    try:
        if own is not None:
            return own(path)
        if kind == "sha256":
            with open(path, "rb") as stream:
                return hashlib.file_digest(stream, "sha256").hexdigest()
        if kind == "csv-md5":
            return _csv_md5(path)
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path} is a damaged zip file ({error}); fetch it again") from None
    raise ValueError(f"checksum kind {kind!r} is unknown; use sha256 or csv-md5, or give the function of its digest")


def _csv_md5(path: Path) -> str:
    if not zipfile.is_zipfile(path):
        with open(path, "rb") as stream:
            return _md5(stream)
    with zipfile.ZipFile(path) as archive:
        tables = [info for info in archive.infolist() if info.filename.lower().endswith(".csv")]
        if len(tables) != 1:
            return f"of no single CSV ({len(tables)} in the zip)"
        with archive.open(tables[0]) as stream:
            return _md5(stream)


def _md5(stream: Any) -> str:
    return hashlib.file_digest(stream, functools.partial(hashlib.md5, usedforsecurity=False)).hexdigest()


def spam_digest(path: Path) -> str:
    """Return a digest of the rows of spambase, in whatever file and order: their values to three decimals and whether they are spam."""
    X, is_spam = spam_rows(path)
    rows = np.column_stack([np.round(X * 1000), is_spam]).astype("<i8")
    return hashlib.sha256(rows[np.lexsort(rows.T[::-1])].tobytes()).hexdigest()


def spam_rows(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the e-mails and whether each is spam, from UCI's spambase.data (CSV without header) or a MAT file; training rows first."""
    if path.suffix.lower() == ".mat":
        data = read_mat(path)
        X = np.vstack([data.X, data.X_test]) if data.has_test else data.X
        y = np.concatenate([data.y, data.y_test]) if data.has_test else data.y
    else:
        data = read(path, target=-1, prepare=False)
        X, y = data.X, data.y
    return X, y > 0
