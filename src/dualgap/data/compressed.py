"""Open a file that may be compressed, with errors in words for the user; write a NumPy archive, complete or not at all."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from dualgap.data.dataset import DataError
from dualgap.data.unpacking import bounded

__all__ = ["COMPRESSED", "open_bytes", "unpacked", "write_arrays"]

COMPRESSED = (".gz", ".bz2", ".xz")
MAGIC: tuple[tuple[bytes, Any], ...] = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Yield a stream of a file's bytes, decompressed if need be; raise DataError if it is missing, broken or too large."""
    try:
        with open(path, "rb") as raw:
            start = raw.read(8)
        if not start:
            raise DataError(f"{path} is empty")
        opener = next((opener for magic, opener in MAGIC if start.startswith(magic)), open)
        with opener(path, "rb") as stream:
            yield stream if opener is open else bounded(stream, path)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a folder; give a file") from None
    except EOFError:
        raise DataError(f"{path} is cut short: the compressed data end too early; fetch it again") from None
    except (OSError, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Yield the path of a file's plain bytes: the file itself, or a temporary file of the same name where it is compressed."""
    with open(path, "rb") as raw:
        start = raw.read(8)
    if not start.startswith(tuple(magic for magic, _ in MAGIC)):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="dualgap-") as folder:
        plain = Path(folder) / (path.stem if path.suffix.lower() in COMPRESSED else path.name)
        with open_bytes(path) as packed, open(plain, "wb") as stream:
            shutil.copyfileobj(packed, stream)
        yield plain


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Write a NumPy archive under a temporary name and move it into place."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as stream:
            np.savez(stream, **arrays)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
