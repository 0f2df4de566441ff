"""What bounds of the exact scores prove about labels: of classes against the rest, or of pairs of classes, which vote.

Bounds have a row for each sample and a column for each problem. Each function takes the codes of labels and returns two masks: where the
exact models certainly give that label, and where they certainly give another one. A code of −1 is a label that they do not know.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

__all__ = ["Certain", "Pairs", "labels_by_class"]

Certain = tuple[np.ndarray, np.ndarray]  # masks: the label given is certain, another one is


def labels_by_class(codes: np.ndarray, low: np.ndarray, high: np.ndarray) -> Certain:
    """Return what is certain where the class with the largest score wins.

    With two classes there is one column, positive for class 1; a score of 0 is class 0.
    """
    unknown = codes < 0
    if low.shape[1] == 1:
        positive, negative = low[:, 0] > 0.0, high[:, 0] <= 0.0
        right, wrong = np.where(codes == 1, positive, negative), np.where(codes == 1, negative, positive)
        return right & ~unknown, wrong | unknown
    rows, others = np.arange(len(codes)), np.arange(low.shape[1]) != codes[:, None]
    right = low[rows, codes] > np.where(others, high, -np.inf).max(axis=1)
    return right & ~unknown, (np.where(others, low, -np.inf).max(axis=1) > high[rows, codes]) | unknown


class Pairs:
    """Bounds of the votes for K classes from bounds of the scores of all their pairs, positive for the first of a pair.

    Votes that are certain count for both ends of a class's votes, those that are open for its upper end alone.
    """

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

    def labels(self, codes: np.ndarray, break_ties: bool = False) -> Certain:
        """Return what is certain where the class with most votes wins: of equals the first, or with break_ties that of the largest sum."""
        rows, K = np.arange(len(codes)), self.least.shape[1]
        right, wrong = codes >= 0, codes < 0
        for j in range(K):
            ahead, behind = self.least[rows, codes] - self.most[:, j], self.least[:, j] - self.most[rows, codes]
            tie = self.low[rows, codes] > self.high[:, j] if break_ties else codes < j
            lost = self.low[:, j] > self.high[rows, codes] if break_ties else codes > j
            right &= (codes == j) | (ahead > 0) | ((ahead == 0) & tie)
            wrong |= (codes != j) & ((behind > 0) | ((behind == 0) & lost))
        return right, wrong

    def by_class(self) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds of scikit-learn's score of each class: its votes plus s/(3(|s| + 1)) of the sum s of its pairs' scores."""

        def squeezed(s: np.ndarray) -> np.ndarray:
            return s / (3.0 * (np.abs(s) + 1.0))

        with np.errstate(invalid="ignore"):
            low = np.where(np.isfinite(self.low), squeezed(self.low), -1.0 / 3.0)
            high = np.where(np.isfinite(self.high), squeezed(self.high), 1.0 / 3.0)
        return self.least + low - 1e-12, self.most + high + 1e-12
