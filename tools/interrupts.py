"""Press Ctrl-C at single executed lines of every solver and estimator, and count the models that are lost.

    python tools/interrupts.py --lines 5000

Half of the lines of a run are different lines of the source, the others are drawn at random among the executed ones after the run has
begun. tests/presses.py says what is run and what must hold. Prints a line for each run and the totals; exits with 1 if a model was lost,
a certificate was not true, or anything was left behind.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import presses


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=5000, help="lines at which Ctrl-C is pressed, over all runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="runs whose names contain this text")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits an ignored one
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        cases = presses.solver_cases() + presses.estimator_cases() + presses.store_cases(Path(folder))
        cases = [case for case in cases if options.only in case.name]
        total = sum((campaign(case, -(-options.lines // len(cases)), options.seed) for case in cases), Counter())
    print(f"{total.total()} lines in {len(cases)} runs: {dict(total)}")
    return int(total["wrong"] > 0)


def campaign(case: presses.Case, count: int, seed: int) -> Counter[str]:
    lines, first = presses.lines_of(case)
    found: Counter[str] = Counter()
    wrong = []
    for at in presses.choose(lines, count, seed, first):
        try:
            found[presses.press(case, at, len(lines))] += 1
        except Exception as error:
            found["wrong"] += 1
            wrong.append(f"  {type(error).__name__}: {error}")
    print(f"{case.name}: {len(set(lines[first:]))} lines of the source, {len(lines) - first} executed: {dict(found)}", flush=True)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return found


if __name__ == "__main__":
    sys.exit(main())
