"""The example table of the tutorial: customers with text, dates, categories, gaps and three classes, drawn by a seed."""

from __future__ import annotations

import csv
from datetime import date, timedelta
from pathlib import Path

import numpy as np

__all__ = ["write_example"]

CITIES = ("Lisbon", "Lyon", "Oslo", "Porto", "Rome", "Turin")
PLANS = ("basic", "family", "premium")
WORDS = {
    "stays": ("great service thank you", "all good here", "happy with the support"),
    "downgrades": ("the bill is too high", "is there a cheaper plan", "i use it less than before"),
    "leaves": ("please cancel my contract", "no connection again", "i have had enough of the outages"),
}
OPENINGS = ("hello team", "dear support", "good morning", "to whom it may concern", "hi there")
NAMES = ("customer_id", "age", "city", "plan", "since", "spend", "last_message", "outcome")


def write_example(folder: str | Path = ".", rows: int = 1500, seed: int = 0) -> tuple[Path, Path]:
    """Write customers.csv, and new-customers.csv without the outcome and in another order of columns; return both paths.

    Examples
    --------
    >>> import tempfile
    >>> from dualgap.data.example_table import write_example
    >>> known, new = write_example(tempfile.mkdtemp(), rows=10)
    >>> known.name, len(known.read_text().splitlines())
    ('customers.csv', 11)
    """
    folder = Path(folder)
    known, new = folder / "customers.csv", folder / "new-customers.csv"
    rng = np.random.default_rng(seed)
    people = [_customer(rng, k) for k in range(rows + 20)]
    people[rows + 3]["city"] = "Ghent"  # a city that the training table does not have
    _write(known, NAMES, people[:rows])
    _write(new, ("city", "last_message", "spend", "age", "since", "plan", "customer_id"), people[rows:])
    return known, new


def _customer(rng: np.random.Generator, k: int) -> dict[str, str]:
    age, spend = rng.normal(45, 13), rng.lognormal(3.2, 0.5)
    city, plan = rng.choice(CITIES), rng.choice(PLANS)
    since = date(2016, 1, 1) + timedelta(days=int(rng.integers(3000)))
    scores = {
        "stays": 0.9 * (2020 - since.year) / 3 + 0.04 * (age - 45) + 0.3,
        "downgrades": 0.06 * (spend - 25) + (plan == "premium"),
        "leaves": 0.8 * (city in ("Oslo", "Rome")) - 0.03 * (age - 45) + 0.2,
    }
    outcome = max(scores, key=lambda name: scores[name] + rng.gumbel(0, 0.6))
    said = outcome if rng.random() < 0.55 else str(rng.choice(list(WORDS)))
    return {
        "customer_id": f"C{100_000 + 7919 * k % 899_981}",
        "age": "" if rng.random() < 0.08 else f"{age:.0f}",
        "city": "?" if rng.random() < 0.04 else str(city),
        "plan": str(plan),
        "since": since.isoformat(),
        "spend": f"{spend:.2f}",
        "last_message": f"{rng.choice(OPENINGS)}, {rng.choice(WORDS[said])}, {rng.choice(OPENINGS)} {int(rng.integers(99))}",
        "outcome": outcome,
    }


def _write(path: Path, names: tuple[str, ...], people: list[dict[str, str]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(people)
