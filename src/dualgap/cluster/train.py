"""`train`: a model from data on a cluster."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from dualgap.answers import ConvergenceWarning
from dualgap.cluster.checkpoint import Checkpoint
from dualgap.cluster.dask_workers import PATIENCE, DaskPool
from dualgap.cluster.inputs import loaders_for
from dualgap.cluster.objective import DataStatistics, make_objective
from dualgap.cluster.partition import Objective
from dualgap.cluster.rounds import RoundsResult, run_rounds
from dualgap.core import kept, make_loss, needs, number, whole_number

__all__ = ["checkpoint_meta", "current_client", "make_pool", "train"]

CHECKPOINT_SECONDS = 60.0


def current_client(client: Any = None) -> Any:
    """The client given, or the one that is current; an error says how to make one."""
    try:
        from distributed import Client, get_client, get_worker, secede
    except ImportError:
        raise ImportError(needs("training on a cluster", "dask[distributed]")) from None
    if isinstance(client, str):
        client = Client(client)
    try:
        client = get_client() if client is None else client
    except ValueError:
        raise ValueError(
            "no Dask client is active: make one with distributed.Client(ADDRESS), or distributed.Client() for a local cluster"
        ) from None
    if client.asynchronous:
        raise ValueError(
            "the Dask client is asynchronous, and a fit waits for its rounds: give client=ADDRESS or a client made without "
            "asynchronous=True, and call fit in a thread, as in await asyncio.to_thread(model.fit, X, y)"
        )
    with contextlib.suppress(ValueError):  # not in a task
        get_worker()
        secede()  # the fit waits in this task, and its rows need the worker's threads
    return client


def make_pool(
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    client: Any = None,
    partitions: int | None = None,
    patience: float = PATIENCE,
) -> DaskPool:
    """Load data onto a cluster's workers, one partition a thread of a worker unless told."""
    most = None if partitions is None else whole_number("partitions", partitions)
    return DaskPool(
        current_client(client), lambda threads: loaders_for(X, y, sample_weight, most or threads), number("patience", patience)
    )


def train(
    X: Any,
    y: Any = None,
    loss: Any = "hinge",
    delta: float | None = None,
    l2: float = 1e-4,
    l1: float = 0.0,
    sample_weight: Any = None,
    intercept: str = "none",
    *,
    intercept_scale: float = 1.0,
    client: Any = None,
    partitions: int | None = None,
    tol: float = 1e-4,
    max_rounds: int = 1000,
    max_seconds: float | None = None,
    local_epochs: int | str = "auto",
    seed: int = 0,
    callbacks: Iterable[Callable[[Any], Any]] = (),
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    resume: bool = False,
    patience: float = PATIENCE,
    solver: str = "auto",
    bounds: Any = None,
    epsilon: float | None = None,
    quantile: float | None = None,
) -> RoundsResult:
    """Train on the workers of a Dask cluster until the certified relative gap is at most `tol`.

    Parameters
    ----------
    X : Dask array or data frame, list of delayed parts, or Store
        Delayed parts give (X, y) or (X, y, sample_weight), X an array or a CSR matrix. A store must be on a disk that all workers see.
    y, sample_weight : Dask array or series, or an array
        Left out for delayed parts and stores, which have their own.
    loss, delta, epsilon, quantile, l2, l1, intercept, intercept_scale, bounds
        As for `dualgap.Problem`; l2 must be above 0. With a loss of regression y holds targets.
    client : distributed.Client or the address of a scheduler, optional
        The current client by default.
    partitions : int, optional
        By default one a thread of a worker.
    max_rounds, max_seconds
        The budget.
    local_epochs : "auto" or int
        Passes of each worker over its rows between two messages. "auto" is one for several partitions, which gain little from more. One
        partition alone takes as many as make a round work as long as it waits; there, a fixed number makes the run the same every time.
    callbacks : functions of a `dualgap.Progress`
        Called every round; the record has bytes_sent, local_epochs and lost beside the gap. One that returns True ends the run.
    checkpoint : folder, optional
        Where the workers save their dual variables every `checkpoint_seconds`; all must see it. A worker that dies then costs what was
        done since; without it, all that its rows had gained.
    resume : bool
        Go on from the checkpoint of an earlier run of the same problem, on the same or another number of partitions.
    patience : float
        Seconds to wait for a worker once none is left, or once Dask has paused those that are.
    solver : {"auto", "newton", "newton_cg", "cocoa"}
        "newton" adds up Newton's matrix over the partitions: few rounds for few features. "newton_cg" solves Newton's systems by conjugate
        gradients, one product a round, for many features and smooth losses; its rounds do not grow with the partitions. "cocoa" is
        CoCoA+, for any number of features, any loss, and an l1 part or bounds. "auto" takes the first for up to 2000 features, the second
        for a smooth loss where partitions are many or the tolerance is tight, and else the third.

    Examples
    --------
    >>> import dask.array
    >>> from distributed import Client
    >>> from sklearn.datasets import make_classification
    >>> from dualgap.cluster.train import train
    >>> X, y = make_classification(400, random_state=0)
    >>> with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
    ...     result = train(dask.array.from_array(X, chunks=(100, -1)), y, l2=0.01, local_epochs=2, client=client)
    >>> result.status, result.partitions
    ('converged', 2)
    """
    with kept(), make_pool(X, y, sample_weight, client, partitions, patience) as pool:
        saved = Checkpoint(checkpoint, checkpoint_seconds)
        pool.where = saved.where
        made = make_loss(loss, delta, epsilon, quantile)
        data = DataStatistics(pool.call("describe", made))
        options = {"intercept_scale": intercept_scale, "statistics": data, "bounds": bounds}
        objective, classes = make_objective(pool, made, None, l2, l1, intercept, **options)
        (saved.resume if resume else saved.begin)(checkpoint_meta(data, objective, classes))
        result = run_rounds(
            pool,
            objective,
            classes,
            tol,
            max_rounds,
            max_seconds,
            local_epochs=local_epochs,
            seed=seed,
            callbacks=(*callbacks, pool.listener()),
            checkpoint=saved,
            solver=solver,
        )
        if result.status not in ("converged", "interrupted") and tol > 0:
            warnings.warn(
                f"training ended with status {result.status!r} after {result.rounds} rounds at a relative gap of "
                f"{result.certificate.relative_gap:.1e}, above the tolerance {tol:.1e}; raise max_rounds, standardise the features, or use "
                f"a larger l2 ({l2:g} now)",
                ConvergenceWarning,
                stacklevel=2,
            )
        return result


def checkpoint_meta(data: DataStatistics, objective: Objective, classes: np.ndarray) -> dict[str, Any]:
    """Return what a checkpoint must agree in with the run that goes on from it."""
    # Sums over the rows are rounded in another way on another number of partitions.
    weights = {label: float(f"{weight:.9g}") for label, weight in objective.class_weight.items()}
    ends = [value for value in objective.penalty if isinstance(value, np.ndarray)]  # NumPy writes out short arrays alone
    penalty = objective.penalty._replace(low=ends[0].tolist(), high=ends[1].tolist()) if ends else objective.penalty
    whole = repr(
        replace(
            objective,
            partitions=0,
            scale=float(f"{objective.scale:.9g}"),
            class_weight=weights,
            penalty=penalty,
            unit=1.0,
            at_zero=None,
        )
    )
    return {"rows": data.rows, "features": data.features, "classes": classes.tolist(), "objective": whole}
