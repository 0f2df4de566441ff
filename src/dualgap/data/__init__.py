"""Data sets: generators, readers, the registry of named sets, the blood-cell pipeline, splits and scaling.

`load` finds a data set by its name, `read` reads a file; both give a `DataSet`. Whatever needs more than the core's dependencies
(OpenCV, polars, pyarrow, pooch) is imported when it is first used.
"""

from __future__ import annotations

from dualgap.data.dataset import DataError, DataSet, MissingFile
from dualgap.data.libsvm import LibsvmBlock, iter_libsvm, read_libsvm
from dualgap.data.pca import PCA, fit_pca
from dualgap.data.preprocess import Scaler, class_weights, fit_scaler, hold_out, split_indices, standardise, undersample
from dualgap.data.readers import read, read_mat, read_npz, write_npz
from dualgap.data.registry import describe, entry, load, names
from dualgap.data.tables import read_csv, read_parquet
from dualgap.data.text import text_like

__all__ = [
    "PCA",
    "DataError",
    "DataSet",
    "LibsvmBlock",
    "MissingFile",
    "Scaler",
    "class_weights",
    "describe",
    "entry",
    "fit_pca",
    "fit_scaler",
    "hold_out",
    "iter_libsvm",
    "load",
    "names",
    "read",
    "read_csv",
    "read_libsvm",
    "read_mat",
    "read_npz",
    "read_parquet",
    "split_indices",
    "standardise",
    "text_like",
    "undersample",
    "write_npz",
]
