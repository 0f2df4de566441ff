"""Estimators that train on the workers of a Dask cluster: `from dualgap.dask import LinearSVC, LinearSVR`."""

from __future__ import annotations

from dualgap.estimators.on_cluster import LinearSVC, LinearSVR

__all__ = ["LinearSVC", "LinearSVR"]
