"""`fit` on a store: in rounds, with a checkpoint after each, so that the same command goes on after a kill."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

from dualgap.app.model_file import ModelError, SavedModel, load_model, save_model
from dualgap.app.tasks import TASKS
from dualgap.app.terminal import warn
from dualgap.core import counted, needs
from dualgap.store import Store

__all__ = ["ClusterOptions", "checkpoint_of", "on_cluster", "with_checkpoints"]

FIRST_ROUND, LONGEST_ROUND = 30.0, 600.0  # seconds; a round ends with a checkpoint


class ClusterOptions(NamedTuple):
    """Where a fit on a cluster runs: the address of the scheduler, and the options of the estimator that are for a cluster."""

    scheduler: str
    checkpoint: str | None = None
    partitions: int | None = None
    patience: float = 60.0


def checkpoint_of(out: Path) -> Path:
    """Return the file beside a model that a fit on a store goes on from."""
    return out.with_name(f"{out.name}.checkpoint")


def _fingerprint(store: Store, parameters: dict[str, Any]) -> str:
    """Return a digest of the data and of what is minimised; how long and how closely may differ when a fit is gone on with."""
    asked = {name: value for name, value in parameters.items() if name not in ("tol", "max_time", "solver", "random_state")}
    parts = [[part.name, part.rows, {name: record.crc32 for name, record in sorted(part.files.items())}] for part in store.parts]
    return hashlib.sha256(json.dumps([asked, parts], sort_keys=True, default=str).encode()).hexdigest()


def with_checkpoints(store: Store, checkpoint: Path, listen: Any, parameters: dict[str, Any]) -> Any:
    """Train in rounds that start where the last one ended; after each that was not the last, write the checkpoint."""
    limit, began = parameters["max_time"], time.monotonic()
    digest = _fingerprint(store, parameters)
    svc, epochs = _resumed(store, checkpoint, digest, parameters)
    svc.set_params(warm_start=True, callbacks=None if listen is None else [listen])
    seconds = FIRST_ROUND
    while True:
        left = None if limit is None else limit - (time.monotonic() - began)
        svc.max_time = seconds if left is None else max(min(seconds, left), 1e-3)
        if listen is not None:
            listen.begin(epochs)
        svc.fit(store)
        epochs += svc.n_iter_
        svc.n_iter_ = epochs
        if svc.status_ != "max_seconds" or (left is not None and left <= seconds):
            svc.set_params(warm_start=False, max_time=limit)
            return svc
        callbacks, svc.callbacks = svc.callbacks, None
        save_model(SavedModel(svc, about={"fingerprint": digest, "epochs": epochs}), checkpoint)
        svc.callbacks = callbacks
        seconds = min(2 * seconds, LONGEST_ROUND)


def _resumed(store: Store, checkpoint: Path, digest: str, parameters: dict[str, Any]) -> tuple[Any, int]:
    """Return the estimator of a checkpoint of the same problem with its epochs, or a new one."""
    fresh = TASKS[store.task].estimator(**parameters)
    if not checkpoint.exists():
        return fresh, 0
    try:
        saved = load_model(checkpoint)
    except ModelError as error:
        warn(f"the checkpoint is left aside: {error}")
        return fresh, 0
    if saved.about.get("fingerprint") != digest:
        warn(f"{checkpoint} is of other data or another objective; training starts afresh")
        return fresh, 0
    warn(f"going on from {checkpoint}, after {counted(saved.about['epochs'], 'epoch')}")
    return saved.estimator.set_params(**parameters), int(saved.about["epochs"])


def on_cluster(store: Store, cluster: ClusterOptions, listen: Any, parameters: dict[str, Any]) -> Any:
    """Train on the workers of a Dask scheduler."""
    try:
        from distributed import Client
    except ImportError:
        raise ImportError(needs("--scheduler", "dask[distributed]")) from None
    from dualgap.dask import LinearSVC, LinearSVR

    estimator = LinearSVR if store.task == "regression" else LinearSVC
    callbacks = None if listen is None else [listen]
    with Client(cluster.scheduler) as client:
        made = estimator(
            client=client,
            partitions=cluster.partitions,
            checkpoint=cluster.checkpoint,
            patience=cluster.patience,
            callbacks=callbacks,
            **parameters,
        )
        return made.fit(Store(store.folder.absolute())).to_local()  # a worker's own folder is another one
