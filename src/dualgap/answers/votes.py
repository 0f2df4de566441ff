"""What bounds of the exact scores prove about a label: one class against the rest, or votes of pairs of classes.

- one against the rest: the lower end of the winner is above the upper end of every other class;
- pairs: the votes that are certain are counted for the winner, those that are open for the other class, which must then have fewer (or
  as many, if the tie goes to the winner; with break_ties, if the sums of scores that decide the tie are certain, too).
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

__all__ = ["Pairs", "class_winners_proven"]


def class_winners_proven(codes: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return in which rows the lower end of the class given is above the upper ends of all others."""
    rows = np.arange(len(codes))
    others = high.copy()
    others[rows, codes] = -np.inf
    return low[rows, codes] > others.max(axis=1)


class Pairs:
    """Bounds of the scores of all pairs of K classes, positive for the first of a pair, and what they prove about votes."""

    def __init__(self, low: np.ndarray, high: np.ndarray, K: int) -> None:
        self.least, self.most = np.zeros((len(low), K), dtype=np.intp), np.zeros((len(low), K), dtype=np.intp)
        self.low, self.high = np.zeros((len(low), K)), np.zeros((len(low), K))
        for k, (i, j) in enumerate(combinations(range(K), 2)):
            # A score of exactly 0 is a vote for one class in `predict` and for the other in `decision_function`: it counts as open.
            first, second = low[:, k] > 0.0, high[:, k] < 0.0
            self.least[:, i] += first
            self.least[:, j] += second
            self.most[:, i] += ~second
            self.most[:, j] += ~first
            for at, down, up in ((i, low[:, k], high[:, k]), (j, -high[:, k], -low[:, k])):
                self.low[:, at] += down
                self.high[:, at] += up
        slack = 4.0 * K * 2.0**-52 * np.maximum(np.abs(self.low), np.abs(self.high))
        self.low, self.high = self.low - slack, self.high + slack

    def proven(self, codes: np.ndarray, break_ties: bool) -> np.ndarray:
        """Return in which rows the class given wins, however the open pairs fall."""
        rows, K = np.arange(len(codes)), self.least.shape[1]
        found = np.ones(len(codes), dtype=bool)
        for j in range(K):
            ahead = self.least[rows, codes] - self.most[:, j]
            tie = self.low[rows, codes] > self.high[:, j] if break_ties else codes < j
            found &= (codes == j) | (ahead > 0) | ((ahead == 0) & tie)
        return found

    def by_class(self) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds of scikit-learn's score of each class: its votes plus s/(3(|s| + 1)) of the sum s of its pairs' scores."""

        def squeezed(s: np.ndarray) -> np.ndarray:
            return s / (3.0 * (np.abs(s) + 1.0))

        with np.errstate(invalid="ignore"):
            low = np.where(np.isfinite(self.low), squeezed(self.low), -1.0 / 3.0)
            high = np.where(np.isfinite(self.high), squeezed(self.high), 1.0 / 3.0)
        return self.least + low - 1e-12, self.most + high + 1e-12
