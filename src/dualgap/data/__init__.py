"""Data sets: generators, readers, any table to features, the registry of named sets, splits and scaling.

`load` finds a data set by its name, `read` reads a file; both give a `DataSet`. Whatever needs more than the core's dependencies
(polars, pyarrow, pooch) is imported when it is first used.
"""

from __future__ import annotations

from dualgap.data.catalogue import CATALOGUE, Entry
from dualgap.data.columns import MISSING, frame_of
from dualgap.data.compressed import COMPRESSED, unpacked, write_arrays
from dualgap.data.csv_parquet import (
    all_finite,
    choose_target,
    columns_of_frame,
    columns_of_table,
    csv_engine,
    csv_first_line,
    open_csv,
    read_csv,
    read_parquet,
    separator_of,
    split_columns,
    table_from_columns,
    typed_csv,
)
from dualgap.data.csv_text import csv_text
from dualgap.data.dataset import DataError, DataSet, MissingFile, integer_labels
from dualgap.data.example_table import write_example
from dualgap.data.generators import generated
from dualgap.data.known_files import File, data_cache, find
from dualgap.data.libsvm import LibsvmBlock, iter_libsvm, read_libsvm
from dualgap.data.named_data import named_files, open_features, open_samples
from dualgap.data.preparation import Notes, Preparation
from dualgap.data.preprocess import Scaler, class_weights, fit_scaler, hold_out, split_indices, standardise, undersample
from dualgap.data.readers import read, read_mat, read_npz, write_npz
from dualgap.data.registry import describe, entry, load, names
from dualgap.data.remote import fetch, is_url
from dualgap.data.samples import ArraySamples, Encoder, Samples, TableOptions, TableSamples
from dualgap.data.table_files import (
    TABLE_KINDS,
    Table,
    column_names,
    files_of,
    find_header,
    first_record,
    kind_of,
    read_table,
    spooled_input,
)
from dualgap.data.target import (
    TASKS,
    LabelRule,
    Labels,
    NumberRule,
    doubtful_labels,
    grouped,
    labels_of,
    learn_labels,
    learn_target,
    target_of,
)
from dualgap.data.text import text_like
from dualgap.data.unpacking import check_zip

__all__ = [
    "CATALOGUE",
    "COMPRESSED",
    "MISSING",
    "TABLE_KINDS",
    "TASKS",
    "ArraySamples",
    "DataError",
    "DataSet",
    "Encoder",
    "Entry",
    "File",
    "LabelRule",
    "Labels",
    "LibsvmBlock",
    "MissingFile",
    "Notes",
    "NumberRule",
    "Preparation",
    "Samples",
    "Scaler",
    "Table",
    "TableOptions",
    "TableSamples",
    "all_finite",
    "check_zip",
    "choose_target",
    "class_weights",
    "column_names",
    "columns_of_frame",
    "columns_of_table",
    "csv_engine",
    "csv_first_line",
    "csv_text",
    "data_cache",
    "describe",
    "doubtful_labels",
    "entry",
    "fetch",
    "files_of",
    "find",
    "find_header",
    "first_record",
    "fit_scaler",
    "frame_of",
    "generated",
    "grouped",
    "hold_out",
    "integer_labels",
    "is_url",
    "iter_libsvm",
    "kind_of",
    "labels_of",
    "learn_labels",
    "learn_target",
    "load",
    "named_files",
    "names",
    "open_csv",
    "open_features",
    "open_samples",
    "read",
    "read_csv",
    "read_libsvm",
    "read_mat",
    "read_npz",
    "read_parquet",
    "read_table",
    "separator_of",
    "split_columns",
    "split_indices",
    "spooled_input",
    "standardise",
    "table_from_columns",
    "target_of",
    "text_like",
    "typed_csv",
    "undersample",
    "unpacked",
    "write_arrays",
    "write_example",
    "write_npz",
]
