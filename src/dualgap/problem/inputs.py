"""A user's inputs (arrays, sparse matrices, data frames, labels of any kind) checked and turned into the arrays that kernels read.

C-ordered float32 or float64 arrays and CSR matrices of such numbers are not copied. Anything else is converted once. Every error names the
argument, the place (row, column) and what would be right.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from dualgap.core import READING, is_number, kernel, share

__all__ = [
    "all_finite",
    "as_bounds",
    "as_features",
    "as_labels",
    "as_matrix",
    "as_vector",
    "as_weights",
    "check_finite",
    "encode_labels",
    "is_dask",
]

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def as_features(X: object, name: str = "X", columns: int | None = None) -> Any:
    """Return X as a C-ordered float array or a CSR matrix of floats, checked to be finite, two-dimensional and not empty."""
    matrix = as_matrix(X, name, columns)
    check_finite(matrix, name, X)
    return matrix


def as_matrix(X: object, name: str = "X", columns: int | None = None) -> Any:
    """Return X as `as_features` does, its values not looked at."""
    matrix = _as_csr(X, name) if sparse.issparse(X) else _as_array(X, name)
    rows, width = matrix.shape
    if rows == 0 or width == 0:
        # The wording "0 sample(s)" and "0 feature(s)" is what scikit-learn's own checks look for.
        what = "0 sample(s)" if rows == 0 else "0 feature(s)"
        raise ValueError(f"Found array with {what} (shape={matrix.shape}) for {name} while a minimum of 1 is required.")
    if columns is not None and width != columns:
        raise ValueError(f"{name} has {width} features, but the model was trained on {columns}")
    return matrix


def _as_csr(X: Any, name: str) -> Any:
    if X.ndim != 2:
        raise ValueError(f"{name} has {X.ndim} dimension(s); give a two-dimensional sparse matrix, one row a sample")
    if X.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} has dtype {X.dtype}")
    matrix = X if X.format == "csr" else X.tocsr()
    if matrix.data.dtype not in FLOATS:
        matrix = matrix.astype(np.float64)
    if matrix.indices.dtype != matrix.indptr.dtype:
        # SciPy keeps the two types equal, but arrays set by hand may differ, and kernels are compiled for one type.
        matrix = type(matrix)((matrix.data, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)), shape=matrix.shape)
    if not matrix.data.flags.c_contiguous:
        matrix = matrix.copy()
    rows, width = matrix.shape
    bad, ascending = _first_bad_pointer(matrix.indptr, rows, min(len(matrix.indices), len(matrix.data))), True
    least = int(READING * rows / max(matrix.indices.nbytes, 1)) + 1
    if bad < 0:
        # Threads look at ranges of rows of their own.
        ascending = all(
            share(lambda first, last: _is_canonical(matrix.indptr[first : last + 1], matrix.indices, width), rows, least)
        )
    if bad < 0 and not ascending:
        bad = _first_outside(matrix.indptr, matrix.indices, width)
    if bad >= 0:
        raise ValueError(f"{name} is a damaged CSR matrix: row {bad} has a column outside 0…{width - 1} or a bad indptr")
    if not ascending and _has_duplicates(matrix.indptr, matrix.indices, width):
        # A column given twice means the sum of its entries. ‖xᵢ‖² summed over entries would be too small, and dual steps too long.
        matrix = matrix.copy()
        matrix.has_canonical_format = False  # the flag of the caller's matrix may be out of date
        matrix.sum_duplicates()
    return matrix


def _first_bad_pointer(indptr: np.ndarray, rows: int, stored: int) -> int:
    """Return the first row whose offsets cannot be; −1 where there is none."""
    if indptr.shape[0] != rows + 1 or indptr[0] < 0 or stored < indptr[rows]:
        return 0
    bad = (indptr[1:] < indptr[:-1]) | (indptr[1:] > indptr[rows])
    return int(bad.argmax()) if bad.any() else -1


@kernel
def _is_canonical(indptr, indices, width):
    """Return whether the columns of every row ascend within 0…width − 1, so that none is there twice. For most matrices this is all."""
    canonical = True
    for i in range(indptr.shape[0] - 1):
        row = indices[indptr[i] : indptr[i + 1]]
        if row.shape[0] == 0:
            continue
        canonical &= row[0] >= 0 and row[row.shape[0] - 1] < width
        for k in range(1, row.shape[0]):  # a loop without branches, which the compiler vectorises
            canonical &= row[k - 1] < row[k]
        if not canonical:
            return False
    return True


def _first_outside(indptr: np.ndarray, indices: np.ndarray, width: int) -> int:
    """Return the first row with a column outside 0…width − 1; −1 where there is none."""
    used = indices[indptr[0] : indptr[-1]]
    if len(used) == 0 or (used.min() >= 0 and used.max() < width):
        return -1
    first = indptr[0] + int(((used < 0) | (used >= width)).argmax())
    return int(np.searchsorted(indptr, first, side="right")) - 1


@kernel
def _has_duplicates(indptr, indices, width):
    """Return whether a row has a column twice; all columns are within 0…width − 1."""
    # All pairs of a short row are compared faster than marks outside the cache are read.
    few = 32 if width > 250_000 else 0
    marks = np.zeros(width, np.int32)  # the last row, of those with marks, that has a column
    twice = False
    for i in range(indptr.shape[0] - 1):
        row = indices[indptr[i] : indptr[i + 1]]
        if row.shape[0] <= few:
            for k in range(1, row.shape[0]):
                for m in range(k):
                    twice |= row[m] == row[k]
        else:
            mark = np.int32(i % 2**30 + 1)
            for k in range(row.shape[0]):
                column = np.uint64(row[k])
                twice |= marks[column] == mark
                marks[column] = mark
        if twice:
            break
    return twice


def _as_array(X: Any, name: str) -> np.ndarray:
    if type(X) is np.ndarray and X.dtype in FLOATS and X.ndim == 2 and X.flags.c_contiguous and X.flags.aligned:
        return X
    frame = hasattr(X, "columns") and hasattr(X, "to_numpy")
    values = X.to_numpy() if frame else X
    if np.ma.is_masked(values):
        raise ValueError(f"{name} is a masked array with missing values; fill or drop them first")
    try:
        array = np.asarray(values)
        if array.dtype.kind in "mM":
            raise ValueError(f"dates or durations of dtype {array.dtype}")
        if array.dtype.kind in "OSUV":
            array = _object_to_float(array)
    except (TypeError, ValueError) as error:
        where = f" (column {_text_column(X)!r})" if frame else ""
        raise ValueError(f"{name} holds values that are not numbers{where}: {error}; encode them as numbers first") from None
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} has dtype {array.dtype}")
    if array.ndim != 2:
        hint = " Reshape your data with X.reshape(-1, 1) for one feature or X.reshape(1, -1) for one sample."
        shown = hint if array.ndim == 1 else ""
        raise ValueError(f"{name} has {array.ndim} dimension(s). Expected 2D array, one row a sample.{shown}")
    if array.dtype.newbyteorder("=") not in FLOATS or not array.dtype.isnative:
        array = array.astype(np.float32 if array.dtype.newbyteorder("=") == np.float32 else np.float64)
    return np.require(array, requirements=["C", "ALIGNED"])


def _object_to_float(array: np.ndarray) -> np.ndarray:
    try:
        return array.astype(np.float64)
    except TypeError:  # None and pandas' NA do not convert; NaN in their place is reported with row and column
        filled = array.copy()
        filled[np.asarray(np.frompyfunc(_is_missing, 1, 1)(array), dtype=bool)] = np.nan
        return filled.astype(np.float64)


def _text_column(frame: Any) -> Any:
    for column in frame.columns:
        values = np.asarray(frame[column].to_numpy())
        if values.dtype.kind in "mM":
            return column
        try:
            _object_to_float(values)
        except (TypeError, ValueError):
            return column
    return "?"


def check_finite(matrix: Any, name: str, given: object) -> None:
    """Refuse NaN and infinity, with the place; `given` is the matrix before its conversion, which may have names of columns."""
    is_sparse = sparse.issparse(matrix)
    flat = matrix.data[: matrix.indptr[-1]] if is_sparse else matrix.reshape(-1)
    found = share(lambda first, last: _located(flat, first, last), len(flat), READING // flat.itemsize)
    place = next((place for place in found if place >= 0), -1)
    if place < 0:
        return
    if is_sparse:
        row = int(np.searchsorted(matrix.indptr, place, side="right")) - 1
        column: Any = int(matrix.indices[place])
    else:
        row, column = divmod(int(place), matrix.shape[1])
    if hasattr(given, "columns") and hasattr(given, "to_numpy"):
        column = given.columns[column]
    what = "NaN" if math.isnan(flat[place]) else "infinity"
    raise ValueError(
        f"Input {name} contains {what} at row {row}, column {column!r}; fill or drop missing values and clip infinite ones first"
    )


def _located(flat: np.ndarray, first: int, last: int) -> int:
    place = int(_first_not_finite(flat[first:last]))
    return first + place if place >= 0 else -1


_ZEROS = {dtype: np.zeros(8192, dtype) for dtype in FLOATS}


@np.errstate(invalid="ignore")
def _first_not_finite(flat: np.ndarray) -> int:
    # x·0 is NaN only for NaN and infinity. The BLAS sums the products, in blocks so small that it uses one thread.
    zeros = _ZEROS[flat.dtype]
    for start in range(0, len(flat), len(zeros)):
        part = flat[start : start + len(zeros)]
        if np.isnan(np.dot(part, zeros[: len(part)])):
            return start + int(np.argmin(np.isfinite(part)))
    return -1


def all_finite(vector: np.ndarray) -> bool:
    """Return whether no value is NaN or infinite."""
    if len(vector) <= len(_ZEROS[FLOATS[0]]):  # one block: a mask of it costs less than the change of NumPy's error state
        return bool(np.isfinite(vector).all())
    return bool(_first_not_finite(vector) < 0)


def as_vector(values: object, name: str, length: int) -> np.ndarray:
    """Return values as a finite float64 vector of the given length."""
    vector = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    if vector.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} has dtype {vector.dtype}")
    try:
        vector = np.ascontiguousarray(vector, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} holds values that are not numbers") from None
    if vector.ndim == 2 and 1 in vector.shape:
        vector = vector.reshape(-1)
    if vector.ndim != 1:
        raise ValueError(f"{name} has {vector.ndim} dimensions; a vector of {length} numbers is needed")
    if vector.shape[0] != length:
        raise ValueError(f"{name} has {vector.shape[0]} values where {length} are needed")
    place = _first_not_finite(vector)
    if place >= 0:
        raise ValueError(f"{name}[{place}] is {vector[place]}; every value must be finite")
    return vector


def as_weights(weights: object, length: int) -> np.ndarray:
    """Return sample weights as a vector, checked to be finite, not negative and not all zero."""
    vector = as_vector(np.full(length, weights) if is_number(weights) else weights, "sample_weight", length)
    if vector.min() < 0:
        place = int(np.argmin(vector))
        raise ValueError(f"sample_weight[{place}] is {vector[place]}; weights must not be negative")
    if not vector.max() > 0:
        raise ValueError("sample_weight is zero for every sample; at least one of each class must count")
    return vector


def as_bounds(bounds: Any, length: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the least and the largest value of each coefficient, given as a pair of numbers or vectors; None where nothing is bounded."""
    if bounds is None:
        return None
    if not isinstance(bounds, (tuple, list, np.ndarray)) or len(bounds) != 2:
        raise ValueError(f"bounds={bounds!r} must be a pair (low, high), each a number or {length} numbers, one a feature; or None")
    low, high = (_ends(values, f"bounds[{k}]", length, -np.inf if k == 0 else np.inf) for k, values in enumerate(bounds))
    if (crossed := np.flatnonzero(low > high)).size:
        j = int(crossed[0])
        raise ValueError(
            f"bounds: no coefficient of feature {j} is at least {low[j]:g} and at most {high[j]:g}; low ≤ high is needed"
        )
    if not (np.isfinite(low).any() or np.isfinite(high).any()):
        return None
    return low, high


def _ends(values: object, name: str, length: int, none: float) -> np.ndarray:
    """Return one end of all intervals, read-only; `none`, −∞ or ∞, stands for no bound, and so does None."""
    if values is None or is_number(values):
        values = np.full(length, none if values is None else values)
    vector = np.array(values.to_numpy() if hasattr(values, "to_numpy") else values)
    if vector.shape != (length,) or vector.dtype.kind not in "fiu":
        raise ValueError(
            f"{name} has shape {vector.shape} and type {vector.dtype}; it must be a number or {length} numbers, one a feature"
        )
    vector = vector.astype(np.float64)
    wrong = np.flatnonzero(np.isnan(vector) | (vector == -none))
    if wrong.size:
        j = int(wrong[0])
        raise ValueError(f"{name} of feature {j} is {vector[j]}; give a finite number, or {none} where there is no such bound")
    vector.flags.writeable = False
    return vector


def as_labels(y: object, length: int | None, name: str = "y") -> np.ndarray:
    """Return labels as a one-dimensional array of numbers or strings."""
    if y is None:
        raise ValueError(f"requires {name} to be passed, but the target {name} is None")
    labels = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels.reshape(-1)
    if labels.ndim != 1:
        raise ValueError(f"{name} has shape {labels.shape}; it must be one-dimensional, one label a sample")
    if length is not None and labels.shape[0] != length:
        raise ValueError(f"{name} has {labels.shape[0]} labels but X has {length} rows; they must be of one length")
    if labels.dtype.kind == "O":
        missing = next((i for i, v in enumerate(labels) if _is_missing(v)), None)
        if missing is not None:
            raise ValueError(f"{name}[{missing}] is missing; every sample needs a label")
        strings = [isinstance(v, (str, bytes)) for v in labels]
        if any(strings) and not all(strings):
            raise ValueError(
                f"{name} mixes strings and other values ({labels[strings.index(False)]!r}); labels must be of one kind"
            )
        labels = np.array(labels.tolist())
    if labels.dtype.kind == "f" and labels.shape[0] and not np.isfinite(labels).all():
        place = int(np.flatnonzero(~np.isfinite(labels))[0])
        raise ValueError(f"{name}[{place}] is {labels[place]}; labels must not be NaN or infinity")
    return labels


def _is_missing(value: object) -> bool:
    # pandas' markers are recognised by the name of their type, because this module must not import pandas.
    return value is None or (isinstance(value, float) and math.isnan(value)) or type(value).__name__ in ("NAType", "NaTType")


def encode_labels(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the two classes in sorted order, and ±1 for each sample (+1 for the second class)."""
    numeric = labels.dtype.kind in "fiub"
    if numeric and labels.shape[0]:
        low, high = labels.min(), labels.max()
        upper = labels == high
        if low != high and np.count_nonzero(labels == low) + np.count_nonzero(upper) == labels.shape[0]:
            return np.array([low, high]), np.where(upper, 1.0, -1.0)
        classes = np.unique(labels)
    else:
        try:
            classes = np.unique(labels)
        except TypeError as error:
            raise ValueError(f"y holds labels that cannot be sorted ({error}); use numbers or strings") from None
    if classes.shape[0] == 1:
        raise ValueError(f"y has one class only, {classes[0]!r}; two are needed to train a classifier")
    if classes.shape[0] != 2:
        shown = ", ".join(repr(c) for c in classes[:4]) + (", …" if classes.shape[0] > 4 else "")
        raise ValueError(f"y has {classes.shape[0]} classes ({shown}); a Problem has two: use dualgap.LinearSVC for more")
    return classes, np.where(labels == classes[1], 1.0, -1.0)


def is_dask(X: object) -> bool:
    """Whether X is a Dask collection or a list of delayed parts; does not import Dask."""
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and all(type(part).__module__.startswith("dask.") for part in X)
    return any(cls.__module__.startswith(("dask.array", "dask.dataframe", "dask.delayed", "dask_expr")) for cls in type(X).__mro__)
