"""Draw cases, run them, judge their claims; keep and reduce what is false. See the package's docstring for the command."""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from campaign.cases import GROUP, Case, draw, from_json
from campaign.judge import violations
from campaign.kinds import claims
from dualgap import CertificateError

KEPT = Path(__file__).parent / "kept.jsonl"


class Tally:
    """Counts of what was tried, by kind."""

    def __init__(self) -> None:
        self.problems = self.claims = self.false = self.refused = 0
        self.by: dict[str, Counter[str]] = {}
        self.refusals: Counter[str] = Counter()

    def add(self, case: Case, judged: list[str]) -> None:
        """Count a case and the names of its claims."""
        self.problems += 1
        self.claims += len(judged)
        penalty = "l1" if case["l2"] == 0 else "elastic net" if case["l1"] > 0 else "l2"
        one = {"kind": case["kind"], "loss": case["loss"] if case["kind"] != "joint" else "crammer_singer", "penalty": penalty}
        one |= {"intercept": case["intercept"], "kernel": str(case["kernel"]), "storage": case["storage"]}
        one |= {"solver": case["solver"]} if case["kind"] == "solve" else {}
        for name, value in one.items():
            self.by.setdefault(name, Counter())[value] += 1

    def show(self) -> str:
        lines = [f"{self.problems} problems, {self.claims} certificates judged, {self.refused} problems refused, {self.false} false"]
        lines += [f"  {name}: " + ", ".join(f"{k} {v}" for k, v in sorted(counter.items())) for name, counter in self.by.items()]
        lines += [f"  refused {count} times: {text}" for text, count in self.refusals.most_common(12)]
        return "\n".join(lines)

    def json(self) -> str:
        """Return the counts as one line."""
        return json.dumps({name: value for name, value in vars(self).items() if name != "refusals"})


def attempt(case: Case) -> tuple[list[str], list[str]]:
    """Run a case; return the names of its claims and what is wrong with them. A ValueError means that the problem is refused."""
    judged, wrong = [], []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            for claimed in claims(case):
                wrong += [f"{claimed.name}: {text}" for text in violations(claimed)]
                judged.append(claimed.name)
        except ValueError:
            raise
        except CertificateError as error:
            if "not positive semidefinite (eigenvalues" not in str(error):
                return judged, [*wrong, f"CertificateError: {error}"]
            raise ValueError(str(error)) from None
        except Exception as error:
            return judged, [*wrong, f"{type(error).__name__}: {error}"]
    return judged, wrong


def kind_of(wrong: list[str]) -> set[str]:
    """Return the kinds of what is wrong, without the numbers."""
    return {" ".join(text.split()[:3]) for text in wrong}


def reduced(case: Case, wrong: list[str]) -> Case:
    """Return a smaller case with one of the same faults: fewer rows and columns, no weights, simple settings."""
    wanted = kind_of(wrong)

    def fails(smaller: Case) -> bool:
        try:
            return bool(kind_of(attempt(smaller)[1]) & wanted)
        except ValueError:
            return False

    changed = True
    while changed:
        changed = False
        for smaller in _smaller(case):
            if fails(smaller):
                case, changed = smaller, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    n, d = case.X.shape
    weights = case.weights
    size = n // 2
    while size >= 1:
        for first in range(0, n, size):
            keep = np.r_[0:first, first + size : n]
            if 0 < len(keep) < n:
                X = case.X[np.ix_(keep, keep)] if case["kernel"] == "precomputed" else case.X[keep]
                yield case.change(X=X, y=case.y[keep], weights=None if weights is None else weights[keep])
        size //= 2
    if case["kernel"] != "precomputed":
        for j in range(d if d > 1 else 0):
            yield case.change(X=np.delete(case.X, j, axis=1))
    if weights is not None:
        yield case.change(weights=None)
    if case["storage"] != "dense":
        yield case.change(storage="dense")
    if case["max_epochs"] > 1:
        yield case.change(max_epochs=case["max_epochs"] // 2)


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign; return 1 where a claim was false."""
    parser = argparse.ArgumentParser(prog="campaign", description="Try to find a false certificate.")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--problems", type=int, default=10**9)
    parser.add_argument("--first", type=int, help="first seed [a random one]")
    parser.add_argument("--seed", type=int, help="one case again")
    parser.add_argument("--file", type=Path, help="cases of a file again")
    parser.add_argument("--out", type=Path, default=KEPT, help="file that reduced failures are added to")
    parser.add_argument("--counts", type=Path, help="file that the counts are written to")
    options = parser.parse_args(arguments)
    if options.seed is not None or options.file is not None:
        cases = [draw(options.seed)] if options.seed is not None else [from_json(x) for x in options.file.read_text().splitlines()]
        return int(any([_again(case) for case in cases]))
    first = int(np.random.default_rng().integers(10**6)) * GROUP if options.first is None else options.first
    print(f"seeds from {first}", flush=True)
    tally, until = Tally(), time.monotonic() + options.seconds
    for seed in range(first, first + options.problems):
        if time.monotonic() > until:
            break
        _one(seed, tally, options.out)
        if options.counts and tally.problems % 50 == 0:
            options.counts.write_text(tally.json())
    if options.counts:
        options.counts.write_text(tally.json())
    print(tally.show())
    return int(tally.false > 0)


def _one(seed: int, tally: Tally, out: Path) -> None:
    try:
        case = draw(seed)
        judged, wrong = attempt(case)
    except ValueError as error:
        tally.refused += 1
        tally.refusals[f"{type(error).__name__}: {str(error)[:110]}"] += 1
        return
    tally.add(case, judged)
    if wrong:
        tally.false += 1
        print(f"FALSE, seed {seed}: {'; '.join(wrong)}\n  again: PYTHONPATH=tests python -m campaign --seed {seed}", flush=True)
        small = reduced(case, wrong)
        with out.open("a") as stream:
            stream.write(small.json() + "\n")
        print(f"  reduced to {small.X.shape[0]} × {small.X.shape[1]}, {out}", flush=True)


def _again(case: Case) -> bool:
    print({name: value for name, value in case.settings.items()}, "X", case.X.shape)
    judged, wrong = attempt(case)
    print("\n".join(wrong) or f"{len(judged)} certificates are true")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
