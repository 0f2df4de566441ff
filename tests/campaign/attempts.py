"""Attempt: run a case and judge its claims; reduce a case whose claims are false."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from campaign.cases import Case
from campaign.judge import violations
from campaign.kinds import claims
from dualgap import CertificateError


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
            if not judged:
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
    return {" ".join(text.split()[:2]) for text in wrong}


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
    table = case["kernel"] == "precomputed" and case["kind"] != "nu"  # whose machines make their matrix themselves
    weights = case.weights
    size = n // 2
    while size >= 1:
        for first in range(0, n, size):
            keep = np.r_[0:first, first + size : n]
            if 0 < len(keep) < n:
                X = case.X[np.ix_(keep, keep)] if table else case.X[keep]
                yield case.change(X=X, y=case.y[keep], weights=None if weights is None else weights[keep])
        size //= 2
    if not table:
        for j in range(d if d > 1 else 0):
            bounds = case.settings.get("bounds")
            bounds = bounds and [np.delete(ends, j).tolist() for ends in bounds]
            yield case.change(X=np.delete(case.X, j, axis=1), bounds=bounds)
    if weights is not None:
        yield case.change(weights=None)
    if case["storage"] != "dense":
        yield case.change(storage="dense")
    if case["max_epochs"] > 1:
        yield case.change(max_epochs=case["max_epochs"] // 2)
