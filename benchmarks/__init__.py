"""Speed against the peers. Outside the tests: `python -m benchmarks`, or `benchopt run benchmarks/benchopt_svm`.

Data sets come from the folder that the variable DUALGAP_DATA names. Without it, they come from shared/data beside the checkout, where there
is such a folder.
"""

import os
from pathlib import Path

__all__ = ["DATA"]

DATA = Path(os.environ.get("DUALGAP_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
if DATA.is_dir():
    os.environ["DUALGAP_DATA"] = str(DATA)  # for `dualgap.data`, and for processes that a benchmark starts
