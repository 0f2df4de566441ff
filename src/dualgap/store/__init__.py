"""Training data on disk in blocks, larger than memory: made by `convert` from files of any size, read a block at a time.

File formats belong in `data`; many machines belong in `cluster`.
"""

from __future__ import annotations

from dualgap.store.conversion import convert, write_store
from dualgap.store.part_files import StoreError
from dualgap.store.problem import StoreProblem
from dualgap.store.store import Store

__all__ = [
    "Store",
    "StoreError",
    "StoreProblem",
    "convert",
    "write_store",
]
