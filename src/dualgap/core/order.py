"""Random orders of rows: permutations and independent draws, by a generator that is fast beside a step on a short row."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence

from dualgap.core.checks import is_whole
from dualgap.core.jit import kernel, sequential

__all__ = ["draw", "fresh_seed", "generator", "natural_order", "shuffle", "shuffle_blocks"]


@sequential
def _stir(x):
    """Return the next state of a 64-bit xorshift generator. A call of NumPy's generator costs more than a step on a short row."""
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    return x


@sequential
def _below(x, n):
    """Return a number from 0…n−1 for a generator's state: the upper half of the state, scaled."""
    return np.int64(((x * np.uint64(2685821657736338717)) >> np.uint64(32)) * np.uint64(n) >> np.uint64(32))


@kernel
def shuffle(order, seed):
    """Permute `order` at random, in place (Fisher–Yates)."""
    x = np.uint64(seed) | np.uint64(1)
    for k in range(order.shape[0] - 1, 0, -1):
        x = _stir(x)
        j = _below(x, k + 1)
        order[k], order[j] = order[j], order[k]


@kernel
def shuffle_blocks(order, size, seed):
    """Permute the blocks of `size` entries at random, in place; entries after the last whole block stay at the end."""
    x = np.uint64(seed) | np.uint64(1)
    for k in range(order.shape[0] // size - 1, 0, -1):
        x = _stir(x)
        a, b = k * size, _below(x, k + 1) * size
        for m in range(size):
            order[a + m], order[b + m] = order[b + m], order[a + m]


@kernel
def draw(order, n, seed):
    """Fill `order` with independent draws from 0…n−1."""
    x = np.uint64(seed) | np.uint64(1)
    for k in range(order.shape[0]):
        x = _stir(x)
        order[k] = _below(x, n)


def natural_order(n: int) -> np.ndarray:
    """Return 0…n−1 in the smallest unsigned type that kernels take."""
    return np.arange(n, dtype=np.uint32 if n < 2**32 else np.uint64)


def fresh_seed(rng: np.random.Generator) -> np.int64:
    """Return a seed for `shuffle` and `draw`."""
    return np.int64(rng.random() * 2**62)  # rng.integers() takes twenty times as long, which shows on small problems


class _Hashed(ISeedSequence):
    """The first state of NumPy's default generator for a seed. To hash a seed takes as long as to choose a method for a small problem."""

    def __init__(self, seed: int) -> None:
        self.seed, self.state = seed, np.random.SeedSequence(seed).generate_state(4, np.uint64)

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        if n_words == len(self.state) and np.dtype(dtype) == self.state.dtype:
            return self.state
        return np.random.SeedSequence(self.seed).generate_state(n_words, dtype)


_hashed = lru_cache(maxsize=16)(_Hashed)


def generator(seed: int | None) -> np.random.Generator:
    """Return a new `np.random.default_rng(seed)`; of a seed that was asked for before in a tenth of the time."""
    if not is_whole(seed) or seed < 0:
        return np.random.default_rng(seed)
    return np.random.Generator(np.random.PCG64(_hashed(int(seed))))  # type: ignore[arg-type]
