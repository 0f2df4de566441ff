"""Store: training data on disk, as a user sees it."""

from __future__ import annotations

from typing import Any

from dualgap.data import Encoder, Preparation
from dualgap.store.encoding import kept_encoder
from dualgap.store.folder import Parts
from dualgap.store.problem import StoreProblem

__all__ = ["Store"]


class Store(Parts):
    """Training data on disk, read block by block; made by `dualgap convert` or `dualgap.store.conversion`.

    Labels are held in memory (two bytes a row, or eight for the targets of a regression), rows never are. Sizes are checked when the
    store is opened, and checksums the first time each block is read. `fit` and `solve` take it
    as it is: `LinearSVC().fit(store)`, `solve(store.problem(l2=1e-5))`.

    Parameters
    ----------
    folder : path

    Examples
    --------
    >>> import os, tempfile
    >>> import dualgap
    >>> from dualgap.store.store import Store
    >>> from dualgap.store.conversion import convert
    >>> folder = tempfile.mkdtemp()
    >>> path = os.path.join(folder, "tiny.svm")
    >>> with open(path, "w") as file:
    ...     _ = file.write("+1 1:0.5 3:2\\n-1 2:1\\n" * 50)
    >>> store = convert(path, os.path.join(folder, "store"))
    >>> store
    Store(100 × 3 sparse float64, 2 classes, 1 part)
    >>> dualgap.solve(store.problem(l2=0.01)).status
    'converged'
    """

    @property
    def preparation(self) -> Preparation | None:
        """What was done to the columns of the tables that the store was made from; None for other data."""
        return self.encoder.preparation

    @property
    def encoder(self) -> Encoder:
        """What turned rows into features, so that a model can read other data: a preparation of columns, a scaler, or neither."""
        return kept_encoder(self.folder)

    def problem(self, loss: Any = "hinge", **options: Any) -> StoreProblem:
        """Return a problem over the store; options as for `dualgap.Problem`, save `kernel`."""
        return StoreProblem(self, loss, **options)
