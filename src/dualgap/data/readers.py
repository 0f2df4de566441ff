"""`read`: a DataSet from a file of the user's own, by its ending: LIBSVM text, CSV (also zipped), Parquet, NPZ, MAT.

Named data sets are the registry's business. Every error says which file, where in it, and what would be right.
"""

from __future__ import annotations

import inspect
import os
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from dualgap.core import is_sparse
from dualgap.data.columns import clean, holds_flags
from dualgap.data.dataset import DataError, DataSet, integer_labels
from dualgap.data.libsvm import read_libsvm
from dualgap.data.packed import COMPRESSED, check_mat, check_zip, unpacked, write_arrays
from dualgap.data.preparation import Preparation
from dualgap.data.table_files import TABLE_KINDS, kind_of, read_table
from dualgap.data.target import learn_target, plain_target, target_of

__all__ = ["read", "read_mat", "read_npz", "write_npz"]

LIBSVM_ENDINGS = (".libsvm", ".svm", ".svmlight", ".dat", ".txt", ".t", ".scale", ".binary", ".numer")


def read(path: str | os.PathLike[str], target: str | int | None = None, *, prepare: bool = True, **options: Any) -> DataSet:
    """Read a data set from a file; the ending of its name tells the format, or else its first line.

    Parameters
    ----------
    path : path
        `.csv`, `.tsv` (also compressed, or alone in a `.zip`), `.parquet`, `.arrow`, `.feather`, `.npz`, `.mat`; LIBSVM text as
        `.libsvm`, `.svm`, or with no known ending at all (compressed by gz, bz2, xz or not). A compressed file may unpack to 250 MB or
        100 times its size; the environment variable DUALGAP_MAX_UNPACKED, such as "50 GB", sets another bound.
    target : str or int, optional
        The column of the labels in a table, by name or by number (negative from the end). Without it, a column called target,
        label, class or y is taken. NPZ and MAT hold the labels in a variable of their own; there, `target` may name it.
    prepare : bool
        Whether text, categories, dates and missing values in a table are turned into numbers, by what `Preparation` learns from all
        its rows, and its numbers standardised; False refuses them. A table of numbers alone is read as it is. It needs polars.
    **options
        For LIBSVM text `n_features`, `zero_based` and `dtype`, see `read_libsvm`. For a prepared table `drop` and `kinds`, see
        `Preparation`.

    Examples
    --------
    >>> import os, tempfile
    >>> from dualgap.data.readers import read
    >>> path = os.path.join(tempfile.mkdtemp(), "pets.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("weight,height,animal\\n4.1,25,cat\\n30.5,60,dog\\n3.8,24,cat\\n")
    >>> data = read(path, target="animal")
    >>> data, data.feature_names, data.y.tolist()
    (DataSet('pets', 3 × 2, 2 classes), ('weight', 'height'), ['cat', 'dog', 'cat'])
    """
    path = Path(path)
    if not path.exists():
        raise DataError(f"{path} does not exist")
    if path.is_dir():
        raise DataError(f"{path} is a folder; give a file")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty")
    kind = kind_of(path)
    if kind in TABLE_KINDS:
        data = _read_table(path, target, prepare, options)
    elif kind in ("npz", "mat"):
        with unpacked(path) as plain:
            data = read_npz(plain, target, **options) if kind == "npz" else read_mat(plain, target, **options)
    else:
        if target not in (None, ""):
            raise DataError(f"{path} is read as LIBSVM text, where the label comes first on a line; leave target out")
        X, y = read_libsvm(path, **options)
        data = DataSet(_stem(path), X, integer_labels(y))
    return data.with_(source=str(path), description=data.description or f"read from {path.name}")


def _read_table(path: Path, target: str | int | None, prepare: bool, options: dict[str, Any]) -> DataSet:
    """Read a table: as it is where every column holds numbers, or true and false, else prepared."""
    table = read_table(path)
    chosen = target_of(replace(table, name=str(path)), target)
    if table.frame.width < 2:
        raise DataError(f"{path} has no column besides the labels in {chosen!r}")
    series = table.frame[chosen]
    rule = learn_target(series, chosen, task="classification") if prepare else plain_target(series, chosen, "classification")
    y, rows = rule.apply(series)
    if len(rows) < len(series) and not prepare:
        row = np.setdiff1d(np.arange(len(series)), rows)[0] + 1
        raise DataError(f"{path}: column {chosen!r} has a missing value in row {row}; fill it or leave the row out")
    frame = table.frame if len(rows) == len(series) else table.frame[rows]
    as_is = not prepare or (not options and all(_is_plain(clean(frame[name])) for name in frame.columns if name != chosen))
    made = Preparation(chosen, named=table.named, standardise=not as_is, prepare=not as_is, **options)
    try:
        X = made.fit_transform(frame)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    return DataSet(table.name, X, y, feature_names=tuple(made.feature_names) if table.named or not as_is else None)


def _is_plain(column: Any) -> bool:
    return (column.dtype.is_float() or holds_flags(column)) and not column.null_count()


def _stem(path: Path) -> str:
    """Return the name of a file without its endings."""
    name = path.name
    for ending in (*COMPRESSED, ".zip"):
        name = name.removesuffix(ending)
    known = (".csv", ".tsv", ".parquet", ".pq", ".npz", ".mat", *LIBSVM_ENDINGS)
    return Path(name).stem if Path(name).suffix.lower() in known else name


# ------------------------------------------------------------------------------------------------------------------------- NPZ

SPARSE_KEYS = ("data", "indices", "indptr", "shape")


def read_npz(path: str | os.PathLike[str], target: str | int | None = None) -> DataSet:
    """Read X and y (and X_test, y_test) from a NumPy archive; a sparse X is stored as scipy.sparse.save_npz stores it."""
    path = Path(path)
    try:
        if zipfile.is_zipfile(path):
            check_zip(path)
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise DataError(f"{path} is a single array, not an archive; save X and y together with numpy.savez")
            arrays = {name: archive[name] for name in archive.files}
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, MemoryError) as error:
        raise DataError(f"{path} is not a whole NPZ file ({error}); it may be cut short") from None
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} holds objects rather than numbers, or is no NPZ file ({error})") from None
    for prefix in ("", "X_", "X_test_"):  # files of `write_npz` prefix the parts of a sparse X; files of SciPy do not
        if all(prefix + key in arrays for key in SPARSE_KEYS):
            arrays[(prefix or "X_").rstrip("_")] = _sparse_from(arrays, prefix, path)
    return _from_variables(path, arrays, target)


def _sparse_from(arrays: dict[str, Any], prefix: str, path: Path) -> Any:
    data, indices, indptr, shape = (arrays.pop(prefix + key) for key in SPARSE_KEYS)
    kind = arrays.pop(prefix + "format", np.array("csr")).item()
    kind = kind.decode() if isinstance(kind, bytes) else str(kind)
    makers = {"csr": sparse.csr_matrix, "csc": sparse.csc_matrix}
    if kind not in makers:
        raise DataError(f"{path}: sparse format {kind!r} is not supported; save the matrix as CSR")
    try:
        return _as_csr(path, makers[kind]((data, indices, indptr), shape=tuple(int(s) for s in shape)))
    except (ValueError, IndexError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: the sparse matrix is damaged ({error})") from None


def _as_csr(path: Path, given: Any) -> Any:
    """Return a sparse matrix as CSR. SciPy converts without bounds checks, so offsets and places are checked first."""
    try:
        given.check_format(full_check=True)
        return sparse.csr_matrix(given)
    except ValueError as error:
        raise DataError(f"{path}: the sparse matrix is damaged ({error})") from None


def write_npz(data: DataSet, path: str | os.PathLike[str]) -> None:
    """Write the samples and labels of a data set so that `read_npz` reads them back; a file is complete or absent."""
    arrays: dict[str, Any] = {}
    for name in ("X", "y", "X_test", "y_test"):
        value: Any = getattr(data, name)
        if is_sparse(value):
            value = sparse.csr_matrix(value)
            arrays.update({f"{name}_{key}": getattr(value, key) for key in SPARSE_KEYS}, **{f"{name}_format": np.array("csr")})
        elif value is not None:
            arrays[name] = value
    write_arrays(Path(path), arrays)


# ------------------------------------------------------------------------------------------------------------------------- MAT


def read_mat(path: str | os.PathLike[str], target: str | int | None = None) -> DataSet:
    """Read X and y (or Xtrain, ytrain, Xtest, ytest) from a MATLAB file of version 7 or older."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    path = Path(path)
    try:
        check_mat(path)
        # SciPy 1.15 asks which of its two sparse types to make; either will do here.
        told: Any = {"spmatrix": False} if "spmatrix" in inspect.signature(loadmat).parameters else {}
        variables = {name: value for name, value in loadmat(path, **told).items() if not name.startswith("__")}
    except DataError:
        raise
    except NotImplementedError:
        raise DataError(f"{path} is a MATLAB 7.3 file; save it with save('-v7', …)") from None
    except (MatReadError, ValueError, TypeError, OSError, zlib.error, EOFError, LookupError, MemoryError) as error:
        raise DataError(f"{path} is not a whole MAT file ({error}); it may be cut short") from None
    return _from_variables(path, variables, target)


X_NAMES = ("x", "xtrain", "x_train", "features")
Y_NAMES = ("y", "ytrain", "y_train", "labels", "label", "target", "targets")


def _from_variables(path: Path, variables: dict[str, Any], target: str | int | None) -> DataSet:
    """X and y (and a test part) among named arrays, whatever the case of their names."""
    by_name = {name.lower(): value for name, value in variables.items()}

    def pick(names: tuple[str, ...], what: str, hint: str) -> Any:
        for name in names:
            if name in by_name:
                return by_name[name]
        have = ", ".join(sorted(variables)) or "nothing"
        raise DataError(f"{path} has no variable for {what} (looked for {', '.join(names)}); it holds {have}. {hint}")

    X = pick(X_NAMES, "the samples", "Call it X.")
    wanted = (target.lower(),) if isinstance(target, str) and target else Y_NAMES
    y = pick(wanted, "the labels", "Call it y, or give target=")
    X_test = next((by_name[name] for name in ("xtest", "x_test") if name in by_name), None)
    y_test = next((by_name[name] for name in ("ytest", "y_test") if name in by_name), None)
    parts = [_matrix(path, X, "X"), _labels(path, y, "y")]
    parts += [_matrix(path, X_test, "X_test"), _labels(path, y_test, "y_test")] if X_test is not None and y_test is not None else []
    try:
        return DataSet(_stem(path), *parts)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def _matrix(path: Path, given: Any, name: str) -> Any:
    X: Any = _as_csr(path, given) if is_sparse(given) else np.asarray(given)
    if X.dtype.kind not in "fiub":
        raise DataError(f"{path}: {name} has dtype {X.dtype}; it must hold real numbers")
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    return X if is_sparse(X) else np.ascontiguousarray(X)


def _labels(path: Path, given: Any, name: str) -> np.ndarray:
    y = np.asarray(_as_csr(path, given).toarray() if is_sparse(given) else given)
    if y.ndim == 2 and 1 in y.shape:
        y = y.reshape(-1)
    if y.dtype.kind not in "fiubU":
        raise DataError(f"{path}: {name} has dtype {y.dtype}; labels must be numbers or text")
    return integer_labels(y.astype(np.int64) if y.dtype.kind in "iub" else y)
