"""Training on a cluster: CoCoA+ over Dask.

The rounds know nothing of Dask, which is imported when a cluster is used. Rows on one machine's disk belong in `store`.
"""

from __future__ import annotations

from dualgap.cluster.checkpoint import CheckpointError
from dualgap.cluster.dask_workers import ClusterLost, DaskTeam
from dualgap.cluster.objective import Whole, pose
from dualgap.cluster.partition import Objective, Partition
from dualgap.cluster.rounds import RoundsResult, run_rounds
from dualgap.cluster.train import make_team, train
from dualgap.cluster.worker_pool import InProcess

__all__ = [
    "CheckpointError",
    "ClusterLost",
    "DaskTeam",
    "InProcess",
    "Objective",
    "Partition",
    "RoundsResult",
    "Whole",
    "make_team",
    "pose",
    "run_rounds",
    "train",
]
