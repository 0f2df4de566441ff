"""Every number that depends on the machine: cache sizes, work that is worth a thread, and nanoseconds of operations.

All were measured on virtual machines with 2 cores of an AMD EPYC (32 kB first-level, 512 kB second-level cache per core, 32 MB shared) and
numba 0.61 or later. `python -m benchmarks.calibrate` measures them again and prints them beside these. None changes an answer; each
only decides which of two ways to the same answer is taken.
"""

from __future__ import annotations

__all__ = ["OWN_CACHE", "SHARED_CACHE"]

# Caches, in bytes
OWN_CACHE = 1_000_000  # a core's own: beyond it, rows are worth reading in the order in which they are stored
SHARED_CACHE = 16_000_000  # near a core: beyond it, asking for a row ahead of its use pays
