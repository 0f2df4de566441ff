"""The user's cache folder: where it is, and files in it that nobody else can have written. Knows nothing of kernels.

A compiled kernel is machine code, and loading it runs it, in whatever format it is kept. So the format is not what protects: a file is
read only if nobody but this user, or root, can have written it. This is checked on the opened file, after which nobody can exchange it.
A secret key with a signature in each file would prove no more, because who can write this user's files can also read the key.
On Windows the folders of a user are closed to others by default, and nothing is checked.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import sys
import tempfile
import uuid
import warnings
from pathlib import Path

__all__ = ["cache_folder", "read_own", "warn_once", "write_own"]

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
WRITE_OTHERS, WRITE_ALL = stat.S_IWGRP | stat.S_IWOTH, stat.S_IWOTH
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
BINARY = getattr(os, "O_BINARY", 0)


class Unsafe(OSError):
    """A folder or file that somebody else can have written; its text says why."""


def cache_folder() -> Path | None:
    """Return the folder of compiled kernels: in DUALGAP_CACHE_DIR, else the user's cache, else a temporary folder; None to do without."""
    return _cache_folder(os.environ.get("DUALGAP_CACHE_DIR"))


@functools.lru_cache
def _cache_folder(asked: str | None) -> Path | None:
    user = os.path.expanduser("~/Library/Caches" if sys.platform == "darwin" else "~/.cache")  # unchanged where there is no home
    folders = [os.environ.get("LOCALAPPDATA"), os.environ.get("XDG_CACHE_HOME") or user]
    usual = [Path(folder) / "dualgap" for folder in folders if folder and not folder.startswith("~")]
    owner = os.geteuid() if hasattr(os, "geteuid") else os.environ.get("USERNAME", "user")
    readable = None
    for base in [Path(asked)] if asked else [*usual, Path(tempfile.gettempdir()) / f"dualgap-{owner}"]:
        folder = base / "kernels"
        try:
            _make_private(base)
            _make_private(folder)
            readable = readable or folder
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except Unsafe as error:
            warn_once(
                f"compiled kernels are not kept on disk: {error}. To keep them, let DUALGAP_CACHE_DIR name a folder of your own."
            )
            return None
        except OSError:
            continue
    return readable  # a full disk: what is there is still of use


def _make_private(folder: Path) -> None:
    """Make a folder for this user alone; raise Unsafe if it is there already and others can write in it, or replace it."""
    for missing in [path for path in (*reversed(folder.parents), folder) if not path.exists()]:
        with contextlib.suppress(FileExistsError):
            missing.mkdir(PRIVATE_FOLDER)
    found = os.lstat(folder)
    if stat.S_ISLNK(found.st_mode) and not _trusted(found.st_uid):
        raise Unsafe(f"{folder} is a link that another user has made")
    if not stat.S_ISDIR(os.stat(folder).st_mode):
        raise NotADirectoryError(f"{folder} is not a folder")
    if (reason := _reason(os.stat(folder))) is not None:
        raise Unsafe(f"{folder} {reason}")
    for above in folder.resolve().parents:
        mode = os.stat(above).st_mode
        if os.name == "posix" and mode & WRITE_ALL and not mode & stat.S_ISVTX:
            raise Unsafe(f"{folder} is inside {above}, where everybody can replace it")


def _reason(found: os.stat_result) -> str | None:
    """Return why others can have written something, or None if only this user and root can."""
    if os.name != "posix":
        return None
    if not _trusted(found.st_uid):
        return f"belongs to another user (number {found.st_uid})"
    if found.st_mode & WRITE_OTHERS:
        return "can be written by other users (chmod go-w changes that)"
    return None


def _trusted(owner: int) -> bool:
    return not hasattr(os, "geteuid") or owner in (os.geteuid(), 0)


def read_own(path: Path) -> bytes:
    """Return the bytes of a file that only this user, or root, can have written; raise Unsafe for any other, and for a link."""
    descriptor = os.open(path, os.O_RDONLY | NO_LINK | BINARY)
    with open(descriptor, "rb", buffering=0) as stream:
        found = os.fstat(descriptor)
        reason = "is not a plain file" if not stat.S_ISREG(found.st_mode) else _reason(found)
        if reason is not None:
            raise Unsafe(f"{path} {reason}")
        return stream.read()


def write_own(path: Path, content: bytes) -> None:
    """Write a file for this user alone. A reader sees the old file or the new one; a failure leaves nothing behind."""
    partial = path.with_name(f"{uuid.uuid4().hex}.tmp")
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, PRIVATE_FILE), "wb") as stream:
            stream.write(content)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


@functools.cache
def warn_once(text: str) -> None:
    """Warn, each text once. No filter makes an error of it: the cache saves time, and must not stop a fit."""
    with contextlib.suppress(RuntimeWarning):
        warnings.warn(text, RuntimeWarning, stacklevel=2)
