"""Training on a cluster: CoCoA+ over Dask. The rounds themselves know nothing of Dask, which is imported when a cluster is used."""

from dualgap.distributed.checkpoint import CheckpointError
from dualgap.distributed.cluster import ClusterLost, DaskTeam
from dualgap.distributed.partition import Objective, Partition
from dualgap.distributed.pose import pose
from dualgap.distributed.rounds import RoundsResult, run_rounds
from dualgap.distributed.team import InProcess
from dualgap.distributed.train import train

__all__ = [
    "CheckpointError",
    "ClusterLost",
    "DaskTeam",
    "InProcess",
    "Objective",
    "Partition",
    "RoundsResult",
    "pose",
    "run_rounds",
    "train",
]
