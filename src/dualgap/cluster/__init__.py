"""Training on a cluster: CoCoA+ over Dask.

The rounds know nothing of Dask, which is imported when a cluster is used. Rows on one machine's disk belong in `store`.
"""

from __future__ import annotations

from dualgap.cluster.checkpoint import Checkpoint, CheckpointError
from dualgap.cluster.dask_workers import DaskPool
from dualgap.cluster.inputs import has_words, prepare_frame, to_polars
from dualgap.cluster.objective import DataStatistics, make_objective
from dualgap.cluster.partition import Objective, Partition
from dualgap.cluster.rounds import RoundsResult, run_rounds
from dualgap.cluster.stored import newton_on_store, newton_suits
from dualgap.cluster.train import CHECKPOINT_SECONDS, checkpoint_meta, current_client, make_pool, train
from dualgap.cluster.worker_pool import ClusterLost, InProcess

__all__ = [
    "CHECKPOINT_SECONDS",
    "Checkpoint",
    "CheckpointError",
    "ClusterLost",
    "DaskPool",
    "DataStatistics",
    "InProcess",
    "Objective",
    "Partition",
    "RoundsResult",
    "checkpoint_meta",
    "current_client",
    "has_words",
    "make_objective",
    "make_pool",
    "newton_on_store",
    "newton_suits",
    "prepare_frame",
    "run_rounds",
    "to_polars",
    "train",
]
