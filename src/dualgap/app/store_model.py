"""Models from a store, trained here or by the workers of a Dask cluster."""

from __future__ import annotations

from typing import Any

from dualgap.app.model_file import SavedModel
from dualgap.estimators import LinearSVC, fit_on_cluster
from dualgap.store import Store

__all__ = ["fit_store_model"]


def fit_store_model(store: Store, scheduler: str | None = None, **parameters: Any) -> SavedModel:
    """Train a LinearSVC on a store; with a scheduler's address its workers do, and the store is on a disk that they see.

    Examples
    --------
    >>> import os, tempfile
    >>> from dualgap.data import load
    >>> from dualgap.app.store_model import fit_store_model
    >>> from dualgap.store import write_store
    >>> data = load("breast-cancer")
    >>> store = write_store([(data.X / data.X.max(axis=0), data.y)], os.path.join(tempfile.mkdtemp(), "store"))
    >>> fit_store_model(store, loss="hinge", tol=1e-2, random_state=0).estimator.status_
    'converged'
    """
    from sklearn.pipeline import Pipeline

    model = LinearSVC(**parameters)
    if scheduler is None:
        model.fit(store)
    else:
        try:
            from distributed import Client
        except ImportError:
            raise ImportError("--scheduler needs Dask: pip install 'dualgap[dask]'") from None
        with Client(scheduler):
            fit_on_cluster(model, store)
    return SavedModel(Pipeline([("svc", model)]), None)
