"""Data sets: generators, readers, any table to features, named sets, splits and scaling.

`load` finds a data set by its name, `read` reads a file; both give a `DataSet`. Whatever needs more than the core's dependencies
(polars, pyarrow, pooch) is imported when it is first used.
"""

from __future__ import annotations

from dualgap.data.catalogue import CATALOGUE, Entry, describe, entry, load, names
from dualgap.data.columns import frame_of
from dualgap.data.csv_text import csv_text
from dualgap.data.dataset import (
    DataError,
    DataSet,
    MissingFile,
    hold_out,
    integer_labels,
    split_indices,
    standardise,
    undersample,
)
from dualgap.data.example_table import write_example
from dualgap.data.generators import generated
from dualgap.data.known_files import File, data_cache, find
from dualgap.data.libsvm import iter_libsvm, read_libsvm
from dualgap.data.packed import check_zip, write_arrays
from dualgap.data.preparation import Notes, Preparation
from dualgap.data.readers import read, write_npz
from dualgap.data.remote import fetch, is_url
from dualgap.data.samples import (
    ArraySamples,
    Encoder,
    Samples,
    TableOptions,
    TableSamples,
    named_files,
    open_features,
    open_samples,
)
from dualgap.data.table_files import (
    TABLE_KINDS,
    Rows,
    Table,
    TableFile,
    check_same_columns,
    files_of,
    kind_of,
    open_table,
    read_table,
    spooled_input,
    stacked,
)
from dualgap.data.target import TASKS, TargetRule, doubtful_labels, learn_target, plain_target, target_of
from dualgap.data.text import text_like

__all__ = [
    "CATALOGUE",
    "TABLE_KINDS",
    "TASKS",
    "ArraySamples",
    "DataError",
    "DataSet",
    "Encoder",
    "Entry",
    "File",
    "MissingFile",
    "Notes",
    "Preparation",
    "Rows",
    "Samples",
    "Table",
    "TableFile",
    "TableOptions",
    "TableSamples",
    "TargetRule",
    "check_same_columns",
    "check_zip",
    "csv_text",
    "data_cache",
    "describe",
    "doubtful_labels",
    "entry",
    "fetch",
    "files_of",
    "find",
    "frame_of",
    "generated",
    "hold_out",
    "integer_labels",
    "is_url",
    "iter_libsvm",
    "kind_of",
    "learn_target",
    "load",
    "named_files",
    "names",
    "open_features",
    "open_samples",
    "open_table",
    "plain_target",
    "read",
    "read_libsvm",
    "read_table",
    "split_indices",
    "spooled_input",
    "stacked",
    "standardise",
    "target_of",
    "text_like",
    "undersample",
    "write_arrays",
    "write_example",
    "write_npz",
]
