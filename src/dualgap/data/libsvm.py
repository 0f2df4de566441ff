"""LIBSVM text: `label column:value column:value …`, a sample a line; plain, gz, bz2 or xz; read whole or block by block.

The parser works on bytes in a compiled kernel and rounds numbers as Python does. Explicit zeros are dropped: they change nothing but
the time that training takes.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from dualgap.core import count, kernel, strict
from dualgap.data.dataset import DataError
from dualgap.data.packed import open_bytes

__all__ = ["LibsvmBlock", "iter_libsvm", "read_libsvm"]

CHUNK = 1 << 22  # bytes of text that are parsed at a time
MOST_COLUMNS = 2**31 - 1  # that a file may have unless n_features says so: one line of it must not ask for all memory
ZeroBased = bool | Literal["auto"]


class LibsvmBlock(NamedTuple):
    """Consecutive samples of a file, with columns counted from 0; `to_csr` makes them a matrix."""

    y: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray

    def to_csr(self, n_features: int) -> Any:
        """Return the block as a CSR matrix with `n_features` columns."""
        small = max(n_features, len(self.data)) < 2**31
        kind = np.int32 if small else np.int64
        arrays: Any = (self.data, self.indices.astype(kind, copy=False), self.indptr.astype(kind, copy=False))
        X: Any = sparse.csr_matrix(arrays, shape=(len(self.y), n_features), copy=False)
        X.has_sorted_indices = X.has_canonical_format = True  # the parser guarantees it
        return X


def read_libsvm(
    path: str | os.PathLike[str], n_features: int | None = None, zero_based: ZeroBased = "auto", dtype: Any = np.float64
) -> tuple[Any, np.ndarray]:
    """Read a LIBSVM file: (CSR matrix, labels as float64).

    Parameters
    ----------
    path : path
        Plain text, or compressed by gzip, bzip2 or xz; the contents tell, not the name.
    n_features : int, optional
        The number of columns; by default the largest that occurs. Needed where a test file lacks the last columns.
    zero_based : {"auto", True, False}
        Whether the first column is 0 in the file. "auto": yes if a column 0 occurs anywhere.
    dtype : float64 or float32
    """
    _check_zero_based(zero_based)
    blocks, lowest, highest = [], np.iinfo(np.int64).max, -1
    for block, low, high in _raw_blocks(Path(path), None, dtype):
        blocks.append(block)
        lowest, highest = min(lowest, low), max(highest, high)
    first = _first_column(path, lowest, zero_based)
    width = _width(path, highest + 1 - first, n_features)
    if n_features is None and width > MOST_COLUMNS:
        raise DataError(
            f"{path}: column {highest} occurs, and a model has a weight for every column up to it; number the columns without gaps, "
            "hash them to fewer, or give n_features"
        )
    whole = blocks[0] if len(blocks) == 1 else _join(blocks)
    return _shifted(whole, first).to_csr(width), whole.y


def iter_libsvm(
    path: str | os.PathLike[str],
    block_rows: int,
    n_features: int | None = None,
    zero_based: ZeroBased = "auto",
    dtype: Any = np.float64,
) -> Iterator[LibsvmBlock]:
    """Read a LIBSVM file in blocks of `block_rows` samples (the last may be shorter), holding no more than one in memory.

    Here "auto" decides by the first block alone; where a column 0 turns up only later, an error says to give zero_based=True. With
    `n_features`, a column beyond it is an error at once.
    """
    _check_zero_based(zero_based)
    for block, low, high in _raw_blocks(Path(path), count("block_rows", block_rows), dtype):
        first = _first_column(path, low, zero_based)
        if zero_based == "auto":
            zero_based = first == 0  # every block after this one is counted the same way
        _width(path, high + 1 - first, n_features)
        yield _shifted(block, first)


def _check_zero_based(zero_based: ZeroBased) -> None:
    if zero_based not in (True, False, "auto"):
        raise ValueError(f"zero_based is {zero_based!r}; it must be True, False or 'auto'")


def _first_column(path: Any, lowest: int, zero_based: ZeroBased) -> int:
    if zero_based == "auto":
        return 0 if lowest == 0 else 1
    if not zero_based and lowest == 0:
        raise DataError(f"{path}: column 0 occurs, so columns are counted from 0; give zero_based=True")
    return 0 if zero_based else 1


def _width(path: Any, needed: int, n_features: int | None) -> int:
    if n_features is None:
        return max(needed, 0)
    if needed > n_features:
        raise DataError(f"{path}: has {needed} columns, more than n_features={n_features}")
    return n_features


def _shifted(block: LibsvmBlock, first: int) -> LibsvmBlock:
    if first:
        np.subtract(block.indices, first, out=block.indices)
    return block


def _join(blocks: list[LibsvmBlock]) -> LibsvmBlock:
    starts = np.cumsum([0] + [len(block.data) for block in blocks[:-1]])
    indptr = [block.indptr[:-1] + start for block, start in zip(blocks, starts, strict=True)]
    end = starts[-1] + len(blocks[-1].data)
    y, indices, data = (np.concatenate([getattr(block, part) for block in blocks]) for part in ("y", "indices", "data"))
    return LibsvmBlock(y, np.concatenate([*indptr, [end]]), indices, data)


# --------------------------------------------------------------------------------------------------------------- text to blocks


class _Scratch:
    """Buffers for the most that one chunk of text can hold: a row takes at least two bytes, an entry four."""

    def __init__(self, size: int) -> None:
        self.labels = np.empty(size // 2 + 2)
        self.indptr = np.empty(size // 2 + 3, dtype=np.int64)
        self.indices = np.empty(size // 4 + 2, dtype=np.int64)
        self.values = np.empty(size // 4 + 2)
        self.undecided = np.empty((64, 3), dtype=np.int64)

    def views(self) -> tuple[np.ndarray, ...]:
        return self.labels, self.indptr, self.indices, self.values, self.undecided


def _raw_blocks(path: Path, block_rows: int | None, dtype: Any) -> Iterator[tuple[LibsvmBlock, int, int]]:
    """Yield blocks with columns as the file counts them, and the lowest and highest column of each. None: one block a chunk of text."""
    parts: list[LibsvmBlock] = []
    rows, low, high, found = 0, np.iinfo(np.int64).max, -1, False
    for text, lines in _chunks(path):
        position = 0
        while position < len(text):
            limit = block_rows - rows if block_rows else len(text)
            part, position, low_part, high_part = _parse(path, text, position, lines, limit, dtype)
            parts.append(part)
            rows, low, high = rows + len(part.y), min(low, low_part), max(high, high_part)
            if rows and (block_rows is None or rows == block_rows):
                yield (parts[0] if len(parts) == 1 else _join(parts)), low, high
                parts, rows, low, high, found = [], 0, np.iinfo(np.int64).max, -1, True
    if rows:
        yield _join(parts), low, high
    elif not found:
        raise DataError(f"{path} has no samples: every line is blank or a comment")


def _chunks(path: Path) -> Iterator[tuple[np.ndarray, int]]:
    """Yield pieces of the text that end at a line's end, each with the number of lines before it."""
    lines = 0
    with open_bytes(path) as stream:
        rest = b""
        while True:
            piece = stream.read(CHUNK)
            if not piece:
                break
            cut = piece.rfind(b"\n") + 1
            if not cut:
                rest += piece  # a line longer than a chunk
                continue
            text = rest + piece[:cut]
            rest = piece[cut:]
            yield np.frombuffer(text, dtype=np.uint8), lines
            lines += text.count(b"\n")
        if rest:
            yield np.frombuffer(rest + b"\n", dtype=np.uint8), lines


def _parse(path: Path, text: np.ndarray, start: int, lines: int, limit: int, dtype: Any) -> tuple[LibsvmBlock, int, int, int]:
    scratch = _Scratch(len(text) - start)
    while True:
        out = _parse_rows(text, start, limit, scratch.views(), powers_of_ten())
        if out.code:
            raise _bad_line(path, text, out, lines)
        if out.undecided <= len(scratch.undecided):
            break
        scratch.undecided = np.empty((out.undecided, 3), dtype=np.int64)
    for kind, slot, begin in scratch.undecided[: out.undecided].tolist():
        word = bytes(text[begin : begin + 4096]).split(None, 1)[0].split(b"#")[0]
        value = float(word)
        if not np.isfinite(value):
            raise _bad_line(path, text, out._replace(code=NOT_FINITE, place=begin), lines)
        (scratch.labels if kind == 0 else scratch.values)[slot] = value
    # Copies, which free the worst-case buffers; indices are narrowed to 32 bits where all blocks are sure to fit.
    index_type = np.int32 if out.high < 2**31 - 1 else np.int64
    block = LibsvmBlock(
        scratch.labels[: out.rows].copy(),
        scratch.indptr[: out.rows + 1].copy(),
        scratch.indices[: out.entries].astype(index_type),
        scratch.values[: out.entries].astype(dtype),
    )
    return block, out.position, out.low, out.high


# -------------------------------------------------------------------------------------------------------------------- numbers

EXACT, UNDECIDED, NOT_A_NUMBER = 0, 1, 2
MAX_DIGITS = 19  # 10¹⁹ − 1 fits in 64 bits
SMALLEST, LARGEST = -270, 270  # powers of ten of which both halves, and their products with 64 bits, are normal numbers
WHOLE = np.uint64(1 << 53)  # whole numbers up to here are float64
LOW_BITS = np.uint64((1 << 11) - 1)
UNSURE = 2.0**-89  # relative error of a product in two halves: 2⁻⁹² at most


@functools.cache
def powers_of_ten() -> np.ndarray:
    """10^q for q = −270 … 270, each as the sum of two float64."""
    exact = [Fraction(10) ** q for q in range(SMALLEST, LARGEST + 1)]
    table = np.array([(float(power), float(power - Fraction(float(power)))) for power in exact])
    table.flags.writeable = False
    return table


@strict
def _times_power(w, high, low):
    """Return (whether it is certain, the float64 nearest to w·(high + low)): Dekker's product, rounded if that is beyond doubt."""
    a, b = np.float64(w), 0.0
    if w >= WHOLE:
        b = np.float64(w & LOW_BITS)
        a = np.float64(w - (w & LOW_BITS))
    product = a * high
    split = 134217729.0 * a
    a1 = split - (split - a)
    split = 134217729.0 * high
    h1 = split - (split - high)
    error = ((a1 * h1 - product) + a1 * (high - h1) + (a - a1) * h1) + (a - a1) * (high - h1)
    rest = error + (a * low + b * high)
    value = product + rest
    rest -= value - product
    doubt = UNSURE * value if low != 0.0 or b != 0.0 else 0.0  # where the power is a float64, the error is exact
    return value + (rest - doubt) == value and value + (rest + doubt) == value, value


@kernel
def _scan(text, p):
    """Read the number at text[p] as w·10^q: (w, q, its status, whether it is negative, the place after it)."""
    negative = text[p] == 45  # -
    if negative or text[p] == 43:  # +
        p += 1
    w, digits, seen, q, status = np.uint64(0), 0, 0, 0, EXACT
    fraction = False
    while True:
        c = text[p]
        if c >= 48 and c <= 57:
            seen += 1
            if digits < MAX_DIGITS:
                w = w * np.uint64(10) + np.uint64(c - 48)
                if w > np.uint64(0):  # leading zeros do not count as digits
                    digits += 1
                q -= fraction
            else:
                q += not fraction
                if c != 48:
                    status = UNDECIDED
        elif c == 46 and not fraction:  # .
            fraction = True
        else:
            break
        p += 1
    if seen == 0:
        status = NOT_A_NUMBER
    elif text[p] == 101 or text[p] == 69:  # e, E
        p += 1
        down = text[p] == 45
        if down or text[p] == 43:
            p += 1
        if text[p] < 48 or text[p] > 57:
            status = NOT_A_NUMBER
        e = 0
        while text[p] >= 48 and text[p] <= 57:
            e = min(e * 10 + (text[p] - 48), 100000)
            p += 1
        q += -e if down else e
    return w, q, status, negative, p


@kernel
def parse_decimal(text, p, powers):
    """Read the number at text[p], rounded as Python rounds: (EXACT, UNDECIDED or NOT_A_NUMBER; the number; the place after it).

    `text` holds bytes and must end in something that is no part of a number. What follows the number is the caller's to judge. Python
    must read the rare number that is undecided: of more digits than 64 bits hold, near half-way between two others, tiny or huge.
    """
    # One exit, and helpers that take numbers: numba counts references to an array that is handed to a function with several exits.
    w, q, status, negative, p = _scan(text, p)
    value = 0.0
    if w != np.uint64(0) and status == EXACT:
        row = min(max(q, SMALLEST), LARGEST) - SMALLEST
        certain, value = _times_power(w, powers[row, 0], powers[row, 1])
        if not certain or q < SMALLEST or q > LARGEST:
            status = UNDECIDED
    return status, -value if negative else value, p


# ------------------------------------------------------------------------------------------------------------------- the kernel

BAD_LABEL, BAD_COLUMN, NO_COLON, BAD_VALUE, NOT_ASCENDING, MANY_LABELS, NOT_FINITE = 1, 2, 3, 4, 5, 6, 7
COMPLAINTS = {
    BAD_LABEL: "a label must be a number, followed by a space",
    BAD_COLUMN: "a column must be a whole number",
    NO_COLON: "a colon must follow the column",
    BAD_VALUE: "a value must be a number",
    NOT_ASCENDING: "columns must ascend along a line, each at most once",
    MANY_LABELS: "more than one label a sample is not supported",
    NOT_FINITE: "a number must be finite",
}


class Parsed(NamedTuple):
    """What the kernel hands back: where it stopped, how much it read, and what was wrong (code 0: nothing)."""

    position: int
    rows: int
    entries: int
    undecided: int
    low: int
    high: int
    code: int
    place: int


def _bad_line(path: Path, text: np.ndarray, out: Parsed, lines: int) -> DataError:
    before = text[: out.place].tobytes()
    line = lines + before.count(b"\n") + 1
    column = out.place - (before.rfind(b"\n") + 1) + 1
    words = bytes(text[out.place : out.place + 40]).split(b"\n")[0].split()
    found = repr(words[0].decode("utf-8", "replace")) if words else "the end of the line"
    return DataError(f"{path}, line {line}, column {column}: {COMPLAINTS[out.code]}, found {found}")


@kernel
def _is_space(c):
    return c == 32 or c == 9 or c == 13


@kernel
def _ends_word(c):
    return c == 32 or c == 10 or c == 9 or c == 13 or c == 35  # space, line feed, tab, carriage return, #


@kernel
def _skip_spaces(text, p):
    while _is_space(text[p]):
        p += 1
    return p


@kernel
def _read_column(text, p):
    """Return (column, place after it); column −1 if there is no digit."""
    if text[p] < 48 or text[p] > 57:
        return -1, p
    j = 0
    while text[p] >= 48 and text[p] <= 57 and j < 1 << 58:
        j = 10 * j + (text[p] - 48)
        p += 1
    return j, p


@kernel
def _note(undecided, count, kind, slot, place):
    """Note the place of a number that Python must read. The count goes on when the buffer is full, so the caller can enlarge it."""
    if count < undecided.shape[0]:
        undecided[count, 0] = kind
        undecided[count, 1] = slot
        undecided[count, 2] = place
    return count + 1


@kernel
def _parse_rows(text, p, limit, out, powers):
    labels, indptr, indices, values, undecided = out
    rows, k, noted, low, high = 0, 0, 0, 2**62, -1
    indptr[0] = 0
    end = text.shape[0]
    while p < end and rows < limit:
        p = _skip_spaces(text, p)
        start = p
        if text[p] != 10 and text[p] != 35:
            status, value, p = parse_decimal(text, p, powers)
            if status == NOT_A_NUMBER or not _ends_word(text[p]):
                return Parsed(
                    p, rows, k, noted, low, high, MANY_LABELS if text[p] == 44 and status != NOT_A_NUMBER else BAD_LABEL, start
                )
            if status == UNDECIDED:
                noted = _note(undecided, noted, 0, rows, start)
            labels[rows] = value
            p = _skip_spaces(text, p)
            if text[p] == 113 and text[p + 1] == 105 and text[p + 2] == 100 and text[p + 3] == 58:  # qid:
                while not _ends_word(text[p]):
                    p += 1
                p = _skip_spaces(text, p)
            previous = -1
            while text[p] != 10 and text[p] != 35:
                start = p
                j, p = _read_column(text, p)
                if j < 0 or text[p] != 58:  # :
                    return Parsed(p, rows, k, noted, low, high, BAD_COLUMN if j < 0 or not _ends_word(text[p]) else NO_COLON, start)
                if j <= previous:
                    return Parsed(p, rows, k, noted, low, high, NOT_ASCENDING, start)
                if previous < 0:
                    low = min(low, j)
                previous = j
                start = p + 1
                if text[start] == 49 and _ends_word(text[start + 1]):  # a bare 1, as in every file of 0/1 features
                    status, value, p = EXACT, 1.0, start + 1
                else:
                    status, value, p = parse_decimal(text, start, powers)
                if status == NOT_A_NUMBER or not _ends_word(text[p]):
                    return Parsed(p, rows, k, noted, low, high, BAD_VALUE, start)
                if status == UNDECIDED:
                    noted = _note(undecided, noted, 1, k, start)
                if status != EXACT or value != 0.0:
                    indices[k] = j
                    values[k] = value
                    k += 1
                p = _skip_spaces(text, p)
            high = max(high, previous)
            rows += 1
            indptr[rows] = k
        while text[p] != 10:
            p += 1
        p += 1
    return Parsed(p, rows, k, noted, low, high, 0, 0)
