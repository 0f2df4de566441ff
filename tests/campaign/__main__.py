"""Draw cases, run them, judge their claims; keep and reduce what is false. See the package's docstring for the command."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

from campaign.attempts import attempt, reduced
from campaign.cases import GROUP, Case, draw, from_json, has_targets

KEPT = Path(__file__).parents[1] / "proof" / "false_proofs.jsonl"  # a test replays its cases


class Tally:
    """Counts of what was tried, by kind."""

    def __init__(self) -> None:
        self.problems = self.claims = self.false = self.refused = 0
        self.by: dict[str, Counter[str]] = {}
        self.kinds: dict[str, Counter[str]] = {}  # problems, claims, refused and false of each kind
        self.refusals: Counter[str] = Counter()

    def of(self, case: Case, **counts: int) -> None:
        """Add to the counts of a kind: of a ν-problem that of its machine, of a regression its own."""
        kind = case["machine"] if case["kind"] == "nu" else case["kind"] + (", targets" if has_targets(case.settings) else "")
        bounds = ", bounds" if case.settings.get("bounds") else ""
        self.kinds.setdefault(kind + bounds, Counter()).update(counts)

    def add(self, case: Case, judged: list[str], wrong: list[str]) -> None:
        """Count a case, the names of its claims and what is wrong."""
        self.problems += 1
        self.claims += len(judged)
        self.of(case, problems=1, claims=len(judged), false=int(bool(wrong)))
        penalty = "l1" if case["l2"] == 0 else "elastic net" if case["l1"] > 0 else "l2"
        one = {"loss": case["loss"] if case["kind"] != "joint" else "crammer_singer", "penalty": penalty}
        one |= {"intercept": case["intercept"], "kernel": str(case["kernel"]), "storage": case["storage"]}
        one |= {"solver": case["solver"]} if case["kind"] == "solve" else {}
        for name, value in one.items():
            self.by.setdefault(name, Counter())[value] += 1

    def show(self) -> str:
        lines = [f"{self.problems} problems, {self.claims} claims judged, {self.refused} problems refused, {self.false} false"]
        lines += [f"  {name}: " + ", ".join(f"{k} {v}" for k, v in sorted(counter.items())) for name, counter in self.by.items()]
        lines += [
            f"  {kind}: {c['problems']} problems, {c['claims']} claims judged, {c['refused']} refused, {c['false']} false"
            for kind, c in sorted(self.kinds.items())
        ]
        lines += [f"  refused {count} times: {text}" for text, count in self.refusals.most_common(12)]
        return "\n".join(lines)

    def json(self) -> str:
        """Return the counts as one line."""
        return json.dumps({name: value for name, value in vars(self).items() if name != "refusals"})


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
    case = draw(seed)
    try:
        judged, wrong = attempt(case)
    except ValueError as error:
        tally.refused += 1
        tally.of(case, refused=1)
        text = f"{type(error).__name__}: {str(error)[:110]}"
        if text not in tally.refusals:
            print(f"refused, seed {seed}: {text}", flush=True)  # whether these words are clear, a reader has to judge
        tally.refusals[text] += 1
        return
    tally.add(case, judged, wrong)
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
