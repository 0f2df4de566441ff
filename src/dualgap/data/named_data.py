"""Words of a command turned into rows: files, standard input, folders and data sets by name.

`open_samples` gives labelled rows to train, race or certify on, `open_features` the rows to predict. What becomes of columns is decided in
`samples` and `preparation`.
"""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from dualgap.data.dataset import DataError, DataSet
from dualgap.data.preparation import Notes
from dualgap.data.readers import read
from dualgap.data.registry import load, names
from dualgap.data.remote import fetch, is_url
from dualgap.data.samples import ArraySamples, Encoder, Samples, TableOptions, TableSamples
from dualgap.data.table_files import TABLE_KINDS, Table, files_of, kind_of, read_table, spooled_input
from dualgap.data.target import target_of

__all__ = ["named_files", "open_features", "open_samples"]


@contextmanager
def named_files(data: Sequence[str]) -> Iterator[list[Path]]:
    """Yield the files that the words name; "-" is standard input, a folder stands for the tables in it.

    A file at an address (s3://…) is copied to a temporary folder.
    """
    with ExitStack() as stack:
        files: list[Path] = []
        for word in data:
            if is_url(word):
                files += fetch(word, Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dualgap-"))))
                continue
            path = stack.enter_context(spooled_input()) if word == "-" else Path(word)
            if not path.exists():
                raise _no_such_file(word)
            files += files_of([path])
        yield files


def _no_such_file(word: str) -> DataError:
    near = difflib.get_close_matches(word, names(), n=1)
    hint = f"did you mean the data set {near[0]!r}?" if near else "`dualgap datasets` lists the data sets that have a name"
    return DataError(f"{word}: there is no such file; {hint}")


def _is_name(data: Sequence[str]) -> bool:
    return len(data) == 1 and data[0] in names() and not Path(data[0]).exists()


def open_samples(data: Sequence[str], options: TableOptions, known_target: str = "") -> Samples:
    """Return the labelled rows that the words of a command name: a data set by name, or the rows of files, one after the other.

    `known_target` is the label column of a table where the options name none.
    """
    if _is_name(data):
        return ArraySamples(load(data[0]), options)
    with named_files(data) as files:
        if _tables(files):
            named = options if options.target != "" else replace(options, target=known_target)
            return TableSamples(_renamed(read_table(files, options.header), data), named)
        target = None if options.target == "" else options.target
        parts = [read(path, target) for path in files]
        return ArraySamples(_joined(_called(parts, data)), options)


def _tables(files: Sequence[Path]) -> bool:
    """Return whether the files are tables; some tables and some arrays cannot be joined."""
    kinds = [kind_of(path) in TABLE_KINDS for path in files]
    if any(kinds) and not all(kinds):
        raise DataError(f"{files[0]} and {files[kinds.index(not kinds[0])]} cannot be joined: only one of them is a table")
    return kinds[0]


def _renamed(table: Table, data: Sequence[str]) -> Table:
    return Table("standard input", table.frame, table.named) if list(data) == ["-"] else table


def _called(parts: list[DataSet], data: Sequence[str]) -> list[DataSet]:
    return [parts[0].with_(name="standard input")] if list(data) == ["-"] else parts


def _joined(parts: list[DataSet]) -> DataSet:
    """Return several data sets as one, row after row; sparse ones may differ in width."""
    first = parts[0]
    if len(parts) == 1:
        return first
    width = max(part.shape[1] for part in parts)
    if not all(part.is_sparse for part in parts):
        different = [part for part in parts if part.shape[1] != width or part.is_sparse]
        if different:
            raise DataError(f"{first.name} and {different[-1].name} do not have the same columns")
        X: Any = np.concatenate([part.X for part in parts])
    else:
        X = sparse.vstack([_widened(part.X, width) for part in parts], format="csr")
    return first.with_(X=X, y=np.concatenate([part.y for part in parts]), X_test=None, y_test=None)


def _widened(X: Any, width: int) -> Any:
    return sparse.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width))


# ------------------------------------------------------------------------------------------------------------------- to predict


def open_features(data: Sequence[str], encoder: Encoder, width: int, target: str, notes: Notes) -> tuple[Any, Any]:
    """Return (features as the classifier takes them, labels or None) of the rows to predict; a label column is optional."""
    if _is_name(data):
        found = load(data[0])
        return encoder.of_array(found.name, found.X, width), found.y
    with named_files(data) as files:
        if _tables(files):
            return _table_features(files, "standard input" if list(data) == ["-"] else str(files[0]), encoder, width, target, notes)
        columns = width if encoder.preparation is None else encoder.preparation.width - 1
        found = _joined([read(path, target or None, **_width_of(path, columns)) for path in files])
    return encoder.of_array(found.name, found.X, width), found.y


def _width_of(path: Path, width: int) -> dict[str, Any]:
    return {"n_features": width} if kind_of(path) == "libsvm" else {}


def _table_features(files: list[Path], name: str, encoder: Encoder, width: int, target: str, notes: Notes) -> tuple[Any, Any]:
    preparation = encoder.preparation
    known = [rule.name for rule in preparation.rules] if preparation is not None and preparation.named else []
    table = replace(read_table(files, expected=known), name=name)
    if preparation is None:
        label = "" if table.frame.width == width and not target else target_of(table, target or None)
        return encoder.of_table(table, width, label, notes), table.frame[label] if label else None
    X = encoder.of_table(table, width, "", notes)
    frame, label = preparation.with_names(table.frame, table.named), target or preparation.target
    return X, frame[label] if label in frame.columns else None
