"""Data sets: generators, readers, the registry of named sets, the blood-cell pipeline, splits and scaling.

`load` finds a data set by its name, `read` reads a file; both give a `DataSet`.
"""

from __future__ import annotations

from dualgap.data.dataset import DataError, DataSet, MissingFile
from dualgap.data.text import text_like

__all__ = ["DataError", "DataSet", "MissingFile", "text_like"]
