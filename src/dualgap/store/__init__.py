"""Stores: training data on disk in blocks, made by `convert` from files of any size, trained on without being read into memory."""

from dualgap.store.convert import convert, write_store
from dualgap.store.manifest import Manifest, StoreError
from dualgap.store.problem import StoreProblem
from dualgap.store.store import Store

__all__ = ["Manifest", "Store", "StoreError", "StoreProblem", "convert", "write_store"]
