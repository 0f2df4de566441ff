"""CSV as text: opened, unpacked and cut in pieces; its separator and its header found out; what is wrong with it, in words.

What the fields hold is the business of `table_files`, which has them parsed.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, cast

import numpy as np

from dualgap.data.columns import is_missing, is_number
from dualgap.data.dataset import DataError
from dualgap.data.packed import COMPRESSED, bounded, open_bytes

__all__ = ["column_names", "csv_texts", "find_header", "first_record", "record_ends", "separator_of", "table_name", "what_is_wrong"]

SEPARATORS = ",;\t|"
PIECE_BYTES = 1 << 24  # text parsed at a time
HEAD_BYTES = 1 << 20  # text that is looked at to find out how the rest is written
HEADER_ROWS = 200  # lines that decide whether the first one is a header
NEWLINE, QUOTE = 10, 34


# ------------------------------------------------------------------------------------------------------------------ file to text


@contextmanager
def open_csv(path: Path) -> Iterator[IO[bytes]]:
    """Yield a stream of the text of the table in UTF-8."""
    with _open_bytes(path) as stream:
        start = stream.peek(2)[:2] if hasattr(stream, "peek") else b""
        if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            stream = cast(IO[bytes], codecs.EncodedFile(stream, "utf-8", "utf-16"))
        yield stream


@contextmanager
def _open_bytes(path: Path) -> Iterator[IO[bytes]]:
    if not zipfile.is_zipfile(path):
        if path.suffix.lower() == ".zip":
            raise DataError(f"{path} is not a zip file, or is cut short")
        with open_bytes(path) as stream:
            yield stream
        return
    try:
        with zipfile.ZipFile(path) as archive, archive.open(_member(path, archive)) as member:
            yield bounded(member, path)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise DataError(f"{path} is a damaged zip file: {error}") from None
    except RuntimeError as error:
        raise DataError(f"{path} cannot be unpacked: {error}") from None  # encrypted


def _member(path: Path, archive: zipfile.ZipFile) -> str:
    """Return the one table in a zip file."""
    tables = [name for name in archive.namelist() if name.lower().endswith((".csv", ".tsv"))]
    if len(tables) != 1:
        raise DataError(f"{path} holds {len(tables)} CSV files; exactly one is needed, so unpack it and name the one")
    return tables[0]


def table_name(path: Path) -> str:
    """Return what a table is called: the name of its file, or of the one in a zip, without endings."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return Path(_member(path, archive)).stem
    return Path(path.stem).stem if path.suffix in COMPRESSED else path.stem


def csv_texts(path: Path, size: int = 0) -> Iterator[bytes]:
    """Yield pieces of the text that end at a line's end, and not inside quotes; empty lines are left out.

    `size` is how many bytes to read at a time.
    """
    with open_csv(path) as stream:
        rest, old_ends, first = b"", False, True
        while True:
            read = stream.read(size or PIECE_BYTES)
            old_ends = old_ends or (not rest and b"\r" in read and b"\n" not in read)
            rest += read.replace(b"\r", b"\n") if old_ends else read  # the line ends of old spreadsheets
            cut = rest.rfind(b"\n") + 1 if read else len(rest)
            while cut and read and rest.count(b'"', 0, cut) % 2:
                cut = rest.rfind(b"\n", 0, cut - 1) + 1
            if cut:
                piece, rest = rest[:cut], rest[cut:]
                if b"\x00" in piece[:4096]:
                    raise DataError(f"{path} is not text: it holds zero bytes")
                piece = piece.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n") if first else piece
                yield _without_blank_lines(piece if piece.endswith(b"\n") else piece + b"\n")
                first = False
            if not read:
                return


def _without_blank_lines(text: bytes) -> bytes:
    """Remove empty lines, which polars would take for rows of missing values; between quotes they stay."""
    if b'"' in text or not (text[:1] in b"\r\n" or re.search(rb"\n[ \r]*\n", text)):
        return text
    return re.sub(rb"\n([ \r]*\n)+", b"\n", text).lstrip(b" \r\n")


def record_ends(text: bytes) -> np.ndarray:
    """Return where each record ends: at a line end that is not between quotes."""
    signs = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(signs == NEWLINE)
    if b'"' in text:
        ends = ends[np.cumsum(signs == QUOTE, dtype=np.int32)[ends] % 2 == 0]
    return ends + 1


# ----------------------------------------------------------------------------------------------------------- how it is written


def separator_of(path: Path, text: bytes) -> str:
    """Return the sign between the fields of a CSV text; what is no such text is an error."""
    if not text.strip():
        raise DataError(f"{path} is empty")
    try:
        line = text.split(b"\n", 1)[0].decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text; {_as_utf8(path)}") from None
    return max(SEPARATORS, key=line.count)


def _as_utf8(path: Path) -> str:
    """Return how to turn a file of an old encoding into UTF-8."""
    return f"save it as UTF-8 (spreadsheets call it CSV UTF-8), or: iconv -f WINDOWS-1252 -t UTF-8 '{path}' > new.csv"


def first_record(text: bytes, separator: str) -> tuple[list[str], int]:
    """Return the fields of the first record of a CSV text, and the bytes that it takes; a field in quotes may have line ends."""
    end = text.find(b"\n") + 1 or len(text)
    while text.count(b'"', 0, end) % 2 and end < len(text):
        end = text.find(b"\n", end) + 1 or len(text)
    first = next(csv.reader(io.StringIO(text[:end].decode("utf-8", "replace"), newline=""), delimiter=separator), [])
    return first, end


def column_names(path: Path, found: Sequence[str]) -> list[str]:
    """Return the names of columns, without blanks around them; an empty one is called by its place. Two that are alike are an error."""
    names = [name.strip() or f"column {j}" for j, name in enumerate(found)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{path} has two columns called {twice!r}; rename one of them")
    return names


def what_is_wrong(path: Path, text: bytes, separator: str, width: int, header: bool, number: int) -> str:
    """Return what is wrong with a CSV text in words, where it is something common; `number` is how many pieces of it come before."""
    before = header + sum(piece.count(b"\n") for piece in islice(csv_texts(path), number)) - (header and number > 0)
    try:
        rows = csv.reader(io.StringIO(text.decode("utf-8"), newline=""), delimiter=separator)
        for row in rows:
            if row and len(row) != width:
                return f"line {before + rows.line_num} has {len(row)} fields, the first line has {width}"
    except UnicodeDecodeError as error:
        return f"line {before + text.count(bytes([NEWLINE]), 0, error.start) + 1} is not UTF-8 text; {_as_utf8(path)}"
    except csv.Error:
        pass
    return ""


def find_header(text: bytes, separator: str, expected: Sequence[str] = ()) -> bool:
    """Return whether the first line of a CSV text holds names, by a comparison with the lines below it.

    A name above numbers speaks for a header. A number above numbers, or a word that stands further down in the same column, speaks
    against one. A number that may be a year says nothing, and neither does an empty cell. Where nothing speaks, the first line is a header.
    """
    try:
        head = text[:HEAD_BYTES].decode("utf-8", "replace")
        rows = []
        for row in csv.reader(io.StringIO(head), delimiter=separator):
            rows.append([cell.strip() for cell in row])
            if len(rows) > HEADER_ROWS:
                break
    except csv.Error:
        return True
    first, body = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    if expected and set(first) & set(expected):
        return True
    if all(is_number(cell) for cell in first):
        return False
    votes = sum(_vote(cell, [row[j] for row in body]) for j, cell in enumerate(first))
    return votes > 0 or (votes == 0 and len(set(first)) == len(first) and not any(is_missing(cell) for cell in first if cell))


def _vote(cell: str, below: list[str]) -> int:
    """Return 1 if a cell of the first line looks like the name of the column below it, -1 if it looks like one of its values."""
    known = [value for value in below if not is_missing(value)]
    if not cell or not known:
        return 0
    if is_missing(cell):
        return -1
    if is_number(cell):
        return 0 if re.fullmatch(r"(19|20)\d\d", cell) else -1
    if sum(is_number(value) for value in known) > 0.9 * len(known):
        return 1
    return -1 if cell in known else 0
