"""Packed files: opened with errors in words for the user, and with bounds on what they may unpack to; NumPy archives, complete or absent.

The bounds keep a small file of a stranger from filling the memory or the disk. A file may unpack to FREE bytes whatever its size, to RATIO
times its size beyond that, and to MOST bytes at all. The environment variable DUALGAP_MAX_UNPACKED sets another bound in their place.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from dualgap.core import number_of_bytes
from dualgap.data.dataset import DataError

__all__ = ["COMPRESSED", "bounded", "check_mat", "check_zip", "open_bytes", "unpacked", "write_arrays"]

COMPRESSED = (".gz", ".bz2", ".xz")
MAGIC: tuple[tuple[bytes, Any], ...] = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))
VARIABLE = "DUALGAP_MAX_UNPACKED"
FREE = 250_000_000  # bytes
RATIO = 100  # bytes unpacked / bytes of the file: text of 0/1 features comes to 20
MOST = 200_000_000_000  # bytes
CHUNK = 1 << 20


def most_unpacked(path: Path) -> int:
    """Return the number of bytes that a file may unpack to."""
    asked = os.environ.get(VARIABLE)
    if asked:
        return number_of_bytes(VARIABLE, asked)
    return min(max(FREE, RATIO * path.stat().st_size), MOST)


def _too_large(path: Path, most: int) -> DataError:
    size = path.stat().st_size
    return DataError(
        f"{path} unpacks to more than {most:,} bytes from {size:,}, which may be meant to fill the memory. If you trust the file, let the "
        f"environment variable {VARIABLE} give the bytes that it may unpack to, such as '50 GB', or unpack it yourself"
    )


class _Bounded(io.RawIOBase):
    """The bytes of a stream; reading beyond `most` of them raises DataError."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self.stream, self.path, self.most, self.count = stream, path, most_unpacked(path), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self.stream.read(len(buffer))
        self.count += len(piece)
        if self.count > self.most:
            raise _too_large(self.path, self.most)
        buffer[: len(piece)] = piece
        return len(piece)

    def readall(self) -> bytes:
        out = bytearray()
        while piece := self.read(CHUNK):  # in pieces: a bomb is found before it is in memory
            out += piece
        return bytes(out)


def bounded(stream: IO[bytes], path: Path) -> IO[bytes]:
    """Return a stream of the same bytes that raises DataError where a compressed file unpacks to more than it may."""
    return io.BufferedReader(_Bounded(stream, path), CHUNK)


def check_zip(path: Path) -> None:
    """Raise DataError if the members of a zip file unpack to more than they may. Python reads no member beyond the size it declares."""
    with zipfile.ZipFile(path) as archive:
        total = sum(info.file_size for info in archive.infolist())
    most = most_unpacked(path)
    if total > most:
        raise _too_large(path, most)


MAT_HEADER, MAT_ORDER, COMPRESSED_ELEMENT = 128, slice(126, 128), 15


def check_mat(path: Path) -> None:
    """Raise DataError if the compressed variables of a MAT file (version 5 to 7) unpack to more than they may."""
    most, total = most_unpacked(path), 0
    with open(path, "rb") as stream:
        order = {b"IM": "<", b"MI": ">"}.get(stream.read(MAT_HEADER)[MAT_ORDER])
        while order and len(tag := stream.read(8)) == 8:
            kind, length = struct.unpack(order + "II", tag)
            if kind != COMPRESSED_ELEMENT:
                stream.seek(length, os.SEEK_CUR)
                continue
            unpacker, end = zlib.decompressobj(), stream.tell() + length
            while total <= most and not unpacker.eof and (piece := stream.read(min(CHUNK, end - stream.tell()))):
                total += len(unpacker.decompress(piece, CHUNK))
                while total <= most and unpacker.unconsumed_tail:
                    total += len(unpacker.decompress(unpacker.unconsumed_tail, CHUNK))
            if total > most:
                raise _too_large(path, most)
            stream.seek(end)


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
