"""What `fit` does with its options: it trains in memory, on a store in rounds or on a cluster, measures the model and writes its file."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from dualgap import __version__
from dualgap.app.fit_display import live_gap
from dualgap.app.model_file import ModelError, SavedModel, load_model, save_model
from dualgap.app.options import is_given
from dualgap.app.tasks import TASKS
from dualgap.app.terminal import warn
from dualgap.core import counted, needs
from dualgap.data import Samples, TableOptions
from dualgap.estimators import ConvergenceWarning
from dualgap.store import Store

__all__ = ["ClusterOptions", "checked_cluster", "refuse_of_store", "train"]

FIRST_ROUND, ROUND, LONGEST_ROUND = 30.0, 60.0, 600.0  # seconds; a round ends with a checkpoint
ROUNDS_SHARE = 0.1  # share of the time that the beginnings and ends of rounds may take
CV_SECONDS = 60.0  # a cross-validation that would take longer is left out unless it was asked for


class ClusterOptions(NamedTuple):
    """Where a fit on a cluster runs: the address of the scheduler, and the options of the estimator that are for a cluster."""

    scheduler: str
    checkpoint: str | None = None
    partitions: int | None = None
    patience: float = 60.0


def checked_cluster(
    samples: Samples | Store,
    name: str,
    scheduler: str | None,
    checkpoint: str | None,
    partitions: int | None,
    patience: float | None,
) -> ClusterOptions | None:
    """Return where a fit on a cluster runs; refuse a cluster without a store, and options of a cluster without one."""
    if scheduler is None:
        for option, value in (("--checkpoint", checkpoint), ("--partitions", partitions), ("--patience", patience)):
            if value is not None:
                raise ValueError(
                    f"{option} goes with --scheduler; a fit here keeps its own checkpoint beside the model, and has no workers"
                )
        return None
    if not isinstance(samples, Store):
        raise ValueError(f"--scheduler trains on a store, and {name} is none: make one with `dualgap convert {name} FOLDER` first")
    return ClusterOptions(scheduler, checkpoint, partitions, 60.0 if patience is None else patience)


def refuse_of_store(store: Store, table: TableOptions, of_rows: dict[str, Any]) -> None:
    """Refuse options that need the rows in memory, and those that `convert` has decided."""
    for option, value in of_rows.items():
        if value:
            raise ValueError(f"{option} {value} needs the rows in memory, and {store.folder} is a store; leave it out")
    if table.task not in ("", store.task):
        raise ValueError(
            f"{store.folder} was converted for a {store.task}, and --task or --loss says {table.task}: convert the data again with "
            f"--task {table.task}"
        )
    given = {
        "--target": table.target,
        "--drop": table.drop,
        "--as": table.kinds,
        "--above": table.above,
        "--missing": table.missing,
        "--standardise": table.standardise,
        "--no-prepare": not table.prepare,
        "--header": table.header,
    }
    for option, value in given.items():
        if is_given(value):
            raise ValueError(
                f"{option} with a store: a store keeps the columns as `dualgap convert` made them; give the option there"
            )


def train(
    samples: Samples | Store,
    y: Any,
    out: Path,
    cluster: ClusterOptions | None,
    quiet: bool,
    cv: int | None,
    parameters: dict[str, Any],
) -> SavedModel:
    """Train a model on rows in memory, in a store or on the workers of a scheduler; measure it, and write its file."""
    task, began, checkpoint = TASKS[samples.task], time.perf_counter(), out.with_name(f"{out.name}.checkpoint")
    problems = len(set(y.tolist())) if task.name == "classification" else 1
    store = samples if isinstance(samples, Store) and cluster is None else None  # the workers of a cluster read their parts
    with (
        warnings.catch_warnings(),
        live_gap(1 if problems == 2 else problems, quiet, store) as listen,
    ):
        warnings.simplefilter("ignore", ConvergenceWarning)  # the status is printed below
        X: Any = samples
        if not isinstance(samples, Store):
            encoder = samples.learn()
            X = samples.features(encoder)
            estimator: Any = task.estimator(**parameters, callbacks=None if listen is None else [listen]).fit(X, y)
            known = {"data": samples.name, "above": samples.above}
        else:
            encoder, known = samples.encoder, {"data": str(samples.folder)}
            if cluster is None:
                estimator = _with_checkpoints(samples, checkpoint, listen, parameters)
            else:
                estimator = _on_cluster(samples, cluster, listen, parameters)
        estimator.callbacks = None
        about = {**known, "rows": samples.shape[0], "columns": samples.shape[1], "dualgap": __version__, **task.facts(estimator)}
        made = SavedModel(estimator, encoder, about)
        save_model(made, out)  # before anything else that may be stopped
        about["training"] = task.measured(estimator, X, y)
        if isinstance(samples, Store):
            checkpoint.unlink(missing_ok=True)
            about["seconds"] = time.perf_counter() - began  # reading included
        else:
            folds = 5 if cv is None else cv
            if folds and about["status"] != "interrupted" and (cv is not None or about["seconds"] * folds < CV_SECONDS):
                validated = task.cross_validated(samples, folds, None if cv is not None else CV_SECONDS, **parameters)
                about |= {} if validated is None else {"cross_validation": validated}
            if samples.test is not None:
                X_test, y_test = samples.test
                about["test"] = task.measured(estimator, encoder.of_array(samples.name, X_test, X.shape[1]), y_test)
    about["features"] = task.important_features(made, X.matrix(0) if isinstance(X, Store) else X)
    save_model(made, out)
    return made


def _with_checkpoints(store: Store, checkpoint: Path, listen: Any, parameters: dict[str, Any]) -> Any:
    """Train in rounds that start where the last one ended; after each that was not the last, write the checkpoint."""
    limit, began = parameters["max_time"], time.monotonic()
    # A checkpoint belongs to the data and to what is minimised; how long and how closely may differ when a fit is gone on with.
    asked = {name: value for name, value in parameters.items() if name not in ("tol", "max_time", "solver", "random_state")}
    parts = [[part.name, part.rows, {name: record.crc32 for name, record in sorted(part.files.items())}] for part in store.parts]
    digest = hashlib.sha256(json.dumps([asked, parts], sort_keys=True, default=str).encode()).hexdigest()
    svc, epochs = _resumed(store, checkpoint, digest, parameters)
    svc.set_params(warm_start=True, callbacks=None if listen is None else [listen])
    seconds = FIRST_ROUND
    while True:
        left = None if limit is None else limit - (time.monotonic() - began)
        svc.max_time = seconds if left is None else max(min(seconds, left), 1e-3)
        if listen is not None:
            listen.begin(epochs)
        started = time.monotonic()
        svc.fit(store)
        around = time.monotonic() - started - TASKS[store.task].facts(svc)["seconds"]
        epochs += svc.n_iter_
        svc.n_iter_ = epochs
        if svc.status_ != "max_seconds" or (left is not None and left <= seconds):
            svc.set_params(warm_start=False, max_time=limit)
            return svc
        callbacks, svc.callbacks = svc.callbacks, None
        save_model(SavedModel(svc, about={"fingerprint": digest, "epochs": epochs}), checkpoint)
        svc.callbacks = callbacks
        seconds = min(max(ROUND, around / ROUNDS_SHARE), LONGEST_ROUND)


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


def _on_cluster(store: Store, cluster: ClusterOptions, listen: Any, parameters: dict[str, Any]) -> Any:
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
