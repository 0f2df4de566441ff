"""Preparing a study's data: two classes, a held-out part, standardised, balanced, reduced; and sharing it with the workers.

Everything is fitted on the training rows alone. Each step leaves a note that the report shows.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from dualgap.data import (
    TABLE_KINDS,
    DataError,
    DataSet,
    TableOptions,
    TableSamples,
    files_of,
    hold_out,
    kind_of,
    open_samples,
    read,
    split_indices,
    standardise,
    undersample,
)
from dualgap.lab.plan import data_fingerprint
from dualgap.lab.studies import load
from dualgap.lab.study import DataSpec

__all__ = ["Prepared", "loaded", "open_prepared", "prepare", "share_prepared"]


@dataclass(frozen=True, eq=False)
class Prepared:
    """Training and test rows as solvers get them, and what was done to them."""

    name: str
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray
    sample_weight: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    about: dict[str, Any] = field(default_factory=dict)


def prepare(spec: DataSpec) -> Prepared:
    """Load a data set and prepare it as its entry in the study says."""
    table = _table(spec)
    data = _in_floats(loaded(spec)) if table is None else _numbered_rows(table, spec)
    name = spec.label or (spec.name if spec.path and spec.name else data.label)
    options = ", ".join(f"{option} = {value}" for option, value in spec.options.items())
    notes = [f"loaded with {options}"] if options else []
    data = _two_classes(data, spec, notes)
    if spec.max_rows and data.shape[0] > spec.max_rows:
        _, kept = split_indices(data.y, spec.max_rows / data.shape[0], spec.split_seed)
        data = data.with_(X=data.X[kept], y=data.y[kept])
        notes.append(f"cut to {len(kept):,} rows, drawn at random within each class")
    if data.has_test and spec.ignore_test:
        data = data.with_(X_test=None, y_test=None)
        notes.append("the source's own test part is left aside; the rows held out come from its training part")
    if data.has_test and spec.redraw == "split":
        share = len(data.y_test) / (len(data.y) + len(data.y_test))
        data, spec = _pooled(data), replace(spec, test_size=share)
        notes.append("the source's own training and test rows are put together and split anew, in the same sizes")
    if data.has_test:
        notes.append("tested on the part that the source sets apart")
    else:
        data = _held_out(data, spec, notes)
    data = _scaled(data, spec, notes) if table is None else _encoded(table, data, spec, notes)
    data, weight = _balanced(data, spec, notes)
    about = {
        "rows": data.shape[0],
        "test_rows": int(data.X_test.shape[0]),
        "features": data.shape[1],
        "sparse": data.is_sparse,
        "positive": float(np.mean(data.y == 1)),
        "test_positive": float(np.mean(data.y_test == 1)),
        "source": data.source,
        "licence": data.licence,
        "description": data.description,
        "generated": data.generated,
    }
    return Prepared(name, data.X, data.y, data.X_test, data.y_test, weight, tuple(notes), about)


def loaded(spec: DataSpec) -> DataSet:
    """Return a data set as its source has it; the last one is remembered, for draws that differ only in how they split it."""
    if spec.path:
        return read(spec.path, spec.target or None, **_reading(spec))
    return _loaded(spec.name, json.dumps(spec.options, sort_keys=True))


@lru_cache(maxsize=1)
def _loaded(name: str, options: str) -> DataSet:
    return load(name, **json.loads(options))


# ----------------------------------------------------------------------------------------------------------------------- tables

TABLE_KEYS = (
    "drop",
    "kinds",
    "prepare",
    "header",
    "above",
    "missing",
)  # options of a table; others go to the reader of LIBSVM text


def _reading(spec: DataSpec) -> dict[str, Any]:
    """Return what the reader of a file is told; options of tables are refused."""
    given = {key: value for key, value in spec.options.items() if key in TABLE_KEYS}
    TableOptions(**given).refuse(spec.label or spec.path)
    return {key: value for key, value in spec.options.items() if key not in TABLE_KEYS}


def _table(spec: DataSpec) -> TableSamples | None:
    """Return the rows of a table, whose columns are not yet prepared; None for data of another kind."""
    if not spec.path:
        return None
    path = Path(spec.path)
    if not path.exists():
        raise DataError(f"{path}: there is no such file")
    if kind_of(files_of([path])[0]) not in TABLE_KINDS:
        return None
    standardise = None if spec.standardise == "auto" else bool(spec.standardise)
    unknown = [key for key in spec.options if key not in TABLE_KEYS]
    if unknown:
        raise DataError(f"{path}: a table has no option {unknown[0]!r}; it has {', '.join(TABLE_KEYS)}")
    samples = open_samples([spec.path], TableOptions(spec.target, standardise=standardise, **spec.options))
    assert isinstance(samples, TableSamples)
    return samples


def _numbered_rows(table: TableSamples, spec: DataSpec) -> DataSet:
    """Return the labels of a table; X holds the numbers of the rows until it is known which of them are for training."""
    numbers = np.arange(len(table.y))[:, None]
    return DataSet(table.name, numbers, table.y, source=spec.path, description=f"read from {Path(spec.path).name}")


def _encoded(table: TableSamples, data: DataSet, spec: DataSpec, notes: list[str]) -> DataSet:
    """Return the features of the rows, by a preparation that is learned from the training rows."""
    train, test = data.X[:, 0], data.X_test[:, 0]
    encoder = table.learn(train)
    assert encoder.preparation is not None
    notes.append("columns prepared by what the training rows show:")
    notes += encoder.preparation.doubts()
    notes += [f"column {name!r}: {says}" for name, _, _, says in encoder.preparation.table()]
    X, X_test = table.features(encoder, train), table.features(encoder, test)
    data = data.with_(X=X, X_test=X_test, feature_names=tuple(encoder.preparation.feature_names))
    return _unit_rows(data, notes) if spec.scale_rows else data


# ------------------------------------------------------------------------------------------------------------------------ steps


def _pooled(data: DataSet) -> DataSet:
    X: Any = sparse.vstack([data.X, data.X_test]).tocsr() if data.is_sparse else np.vstack([data.X, data.X_test])
    return data.with_(X=X, y=np.concatenate([data.y, data.y_test]), X_test=None, y_test=None)


def _in_floats(data: DataSet) -> DataSet:
    return data.with_(X=_floats(data.X), X_test=_floats(data.X_test))


def _floats(X: Any) -> Any:
    if X is None or sparse.issparse(X):
        return X
    return np.ascontiguousarray(X, dtype=X.dtype if X.dtype in (np.float32, np.float64) else np.float64)


def _two_classes(data: DataSet, spec: DataSpec, notes: list[str]) -> DataSet:
    """Return labels as 0 and 1; 1 is the larger of two labels, or those that the study calls positive."""
    classes = data.classes
    shown = ", ".join(str(label) for label in classes[:8]) + (", …" if len(classes) > 8 else "")
    if spec.positive:
        unknown = [label for label in spec.positive if label not in [str(known) for known in classes]]
        if unknown:
            raise DataError(f"{data.name}: there is no class {unknown[0]!r}; the labels are {shown}")
        positive = [label for label in classes if str(label) in spec.positive]
        notes.append(f"positive: {', '.join(map(str, positive))}; negative: every other class")
    elif len(classes) == 2:
        positive = [classes[1]]
        notes.append(f"positive class: {classes[1]}, negative class: {classes[0]}")
    elif len(classes) < 2:
        raise DataError(f"{data.name}: every label is {shown or 'missing'}; two classes are needed")
    else:
        raise DataError(
            f"{data.name}: {len(classes)} classes ({shown}), and a race has two; say which of them are positive, such as --positive "
            f'{classes[0]} (in the file of a study: positive = ["{classes[0]}"])'
        )
    y_test = None if data.y_test is None else np.isin(data.y_test, positive).astype(np.int64)
    return data.with_(y=np.isin(data.y, positive).astype(np.int64), y_test=y_test)


def _held_out(data: DataSet, spec: DataSpec, notes: list[str]) -> DataSet:
    rarest = min(data.counts.values())
    if rarest < 2:
        raise DataError(f"{data.name}: one class has {rarest} row; a stratified split needs at least two of each")
    share = "a third" if abs(spec.test_size - 1 / 3) < 5e-3 else f"{100 * spec.test_size:.3g} %"
    notes.append(f"{share} of the rows held out for testing, stratified by class")
    return hold_out(data, spec.test_size, spec.split_seed)


def _scaled(data: DataSet, spec: DataSpec, notes: list[str]) -> DataSet:
    if spec.scale_rows:
        return _unit_rows(data, notes)
    if spec.standardise is False:
        return data
    if data.is_sparse:
        if spec.standardise is True:
            raise DataError(f"{data.name}: to standardise would fill a sparse matrix; use scale_rows, or leave it out")
        notes.append("not standardised: that would fill a sparse matrix")
        return data
    notes.append("standardised: each feature has mean 0 and variance 1 on the training rows")
    return standardise(data)


def _unit_rows(data: DataSet, notes: list[str]) -> DataSet:
    from sklearn.preprocessing import normalize

    notes.append("every row scaled to length 1")
    return data.with_(X=normalize(data.X), X_test=normalize(data.X_test))


def _balanced(data: DataSet, spec: DataSpec, notes: list[str]) -> tuple[DataSet, np.ndarray | None]:
    from sklearn.utils import compute_sample_weight

    if spec.balance in ("undersample", "both"):
        data = undersample(data, spec.per_positive, spec.split_seed)
        notes.append(f"training rows undersampled to {data.counts[1]:,} positive and {data.counts[0]:,} negative ones")
    if spec.balance in ("class_weight", "both"):
        notes.append("class weights: both classes weigh alike in the training objective")
        return data, compute_sample_weight("balanced", data.y)
    return data, None


# --------------------------------------------------------------------------------------------------------- sharing with workers


def share_prepared(spec: DataSpec, folder: Path) -> Path:
    """Prepare a data set and write it where the workers can map it into memory, once for all of them."""
    place = folder / data_fingerprint(spec)
    if place.exists():
        return place
    data = prepare(spec)
    temporary = folder / f".{place.name}.{uuid.uuid4().hex[:8]}"
    temporary.mkdir(parents=True)
    try:
        parts: dict[str, Any] = {"X": data.X, "X_test": data.X_test}
        for part, X in parts.items():
            if data.about["sparse"]:
                sparse.save_npz(temporary / f"{part}.npz", X, compressed=False)
            else:
                np.save(temporary / f"{part}.npy", X)
        labels: dict[str, Any] = {"y": data.y, "y_test": data.y_test}
        if data.sample_weight is not None:
            labels["weight"] = data.sample_weight
        np.savez(temporary / "y.npz", **labels)
        about = {"name": data.name, "notes": data.notes, "about": data.about}
        (temporary / "about.json").write_text(json.dumps(about), encoding="utf-8")
        os.replace(temporary, place)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return place


def open_prepared(place: Path) -> Prepared:
    """Return the data that `share_prepared` wrote; dense arrays are mapped, not read."""
    parts = {}
    for part in ("X", "X_test"):
        dense = place / f"{part}.npy"
        parts[part] = np.asarray(np.load(dense, mmap_mode="r")) if dense.exists() else sparse.load_npz(place / f"{part}.npz")
    with np.load(place / "y.npz") as labels:
        y, y_test, weight = labels["y"], labels["y_test"], labels["weight"] if "weight" in labels.files else None
    about = json.loads((place / "about.json").read_text(encoding="utf-8"))
    return Prepared(about["name"], parts["X"], y, parts["X_test"], y_test, weight, tuple(about["notes"]), about["about"])
