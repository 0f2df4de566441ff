"""The second half of a run: averages over its iterates, or a draw from them, for a run whose length nobody knows beforehand.

A solver hands over a running sum at the end of each epoch. With T epochs done, T₀ = ⌊T/2⌋, and the difference of the sums at T and at T₀
belongs to the iterates of the epochs T₀+1, …, T. The sums of the second half are kept for this.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["SecondHalf"]

MOST_BYTES = (
    2**28
)  # of the sums that are kept; beyond, only every second, fourth, … epoch's is, and T₀ is the last of these before T/2


class SecondHalf:
    """What was seen at the ends of the epochs T₀, …, T.

    Order of calls: `add` at the end of each epoch, then `first` or `since` for T₀.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self.kept: dict[int, tuple[Any, ...]] = {}  # epoch -> what was handed over
        self.every = 1  # epochs from one that is kept to the next
        self.epochs = 0
        self.last: tuple[Any, ...] | None = None  # the newest, kept or not

    def add(self, *seen: Any) -> None:
        """Keep what is known after one more epoch; arrays are copied."""
        self.epochs += 1
        self.last = tuple(np.copy(value) for value in seen)
        if self.epochs % self.every == 0:
            self.kept[self.epochs] = self.last
        first = self.first
        self.kept = {epoch: value for epoch, value in self.kept.items() if epoch >= first}
        size = sum(np.asarray(value).nbytes for value in seen)
        while len(self.kept) > 2 and len(self.kept) * size > self.most_bytes:
            self.every *= 2
            self.kept = {epoch: value for epoch, value in self.kept.items() if epoch % self.every == 0 or epoch == first}

    @property
    def first(self) -> int:
        """T₀: half of the epochs, or the last epoch before it whose sums are kept; 0 where none are."""
        return max((epoch for epoch in self.kept if epoch <= self.epochs // 2), default=0)

    def since(self) -> tuple[int, tuple[Any, ...] | None]:
        """Return T₀ and what was handed over at its end; None at T₀ = 0, where every sum is zero."""
        return self.first, self.kept.get(self.first)
