"""Text-like sparse data: column frequencies by Zipf's law, tf-idf values, rows of length one; fast for tens of millions of non-zeros."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from dualgap.core import count, kernel, number
from dualgap.data.dataset import DataSet
from dualgap.data.generators import generated

__all__ = ["text_like"]


def text_like(
    n: int = 20_000,
    d: int = 50_000,
    nonzeros: int = 80,
    seed: int = 0,
    exponent: float = 1.0,
    flip: float = 0.05,
    dtype: str = "float64",
) -> DataSet:
    """Return a sparse matrix that looks like documents: Zipf column frequencies, tf-idf values, rows normalised to length one.

    A row has about `nonzeros` distinct terms (from half to one and a half times as many). A third of the thousand most common words
    lean towards one class; the label is the sign of what a document's words say together, and the share `flip` of the labels is then
    turned round. Columns are in random order, as in a real vocabulary: frequency does not tell the place.
    """
    for value, name in ((n, "n"), (d, "d"), (nonzeros, "nonzeros")):
        count(name, value)
    if nonzeros > max(d // 8, 1):
        raise ValueError(f"nonzeros is {nonzeros}; at most d/8 = {max(d // 8, 1)} distinct terms a row can be drawn quickly")
    number("flip", flip, "[0, 0.5)")
    number("exponent", exponent)
    rng = np.random.default_rng(seed)
    low = max(nonzeros // 2, 1)
    lengths = rng.integers(low, 2 * nonzeros - low + 1, size=n)
    indptr = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(lengths, out=indptr[1:])
    index_type = np.int32 if max(d, int(indptr[-1])) < 2**31 else np.int64
    column_of = rng.permutation(d).astype(index_type)
    meaning, idf = np.empty(d), np.empty(d)  # by column, while the formulas below go by rank
    meaning[column_of] = _word_meanings(rng, d)
    idf[column_of] = _inverse_frequencies(n, d, nonzeros, exponent)
    indices = np.empty(indptr[-1], dtype=index_type)
    data = np.empty(indptr[-1], dtype=dtype)
    score = np.empty(n)
    _draw_documents(indptr, column_of, idf, (indices, data), (meaning, score), exponent, np.uint64(rng.integers(2**63)))
    y = np.where(score > np.median(score), 1, -1)
    turned = rng.random(n) < flip
    y[turned] = -y[turned]
    X = sparse.csr_matrix((data, indices, indptr.astype(index_type)), shape=(n, d), copy=False)
    X.has_sorted_indices = True
    X.has_canonical_format = True
    text = f"text-like sparse data: Zipf columns, tf-idf values, about {nonzeros} non-zeros a row"
    return generated("text-like", X, y, text)


def _word_meanings(rng: np.random.Generator, d: int) -> np.ndarray:
    """Return the weight of each rank's word for the positive class: a third of the common words have one, no rare word has."""
    meaning = np.zeros(d)
    common = min(d, 1000)
    meaning[:common] = np.where(rng.random(common) < 1 / 3, rng.standard_normal(common), 0.0)
    if not meaning.any():
        meaning[0] = 1.0
    return meaning


# Zipf–Mandelbrot: rank r has probability ∝ 1/(r + SHIFT)^exponent; without the shift, the first words would be in every row.
SHIFT = 10.0


def _inverse_frequencies(n: int, d: int, nonzeros: int, exponent: float) -> np.ndarray:
    """Return the smoothed idf of each rank, from its expected document frequency."""
    probability = (np.arange(1, d + 1) + SHIFT) ** -exponent
    probability /= probability.sum()
    documents = n * -np.expm1(nonzeros * np.log1p(-np.minimum(probability, 1 - 1e-12)))
    return np.log((1 + n) / (1 + documents)) + 1


@kernel
def _next(state):
    """splitmix64: a stream that starts anywhere, so every row has its own and the result does not depend on the order of rows."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state, z ^ (z >> np.uint64(31))


@kernel
def _draw_rank(u, d, exponent):
    """Rank in 0…d−1 by inverting the distribution's integral; exact to the rounding of ranks, which is all text-like asks."""
    low, high = 1.0 + SHIFT, d + 1.0 + SHIFT
    if exponent == 1.0:
        r = low * math.exp(u * math.log(high / low))
    else:
        power = 1.0 - exponent
        r = (low**power + u * (high**power - low**power)) ** (1.0 / power)
    return min(max(int(r - low), 0), d - 1)


@kernel
def _draw_documents(indptr, column_of, idf, out, labels, exponent, seed):
    # A row draws words until it has its number of distinct ones; how often each came up is its term frequency. The words seen so
    # far sit in a small hash table (open addressing), emptied by walking the row's own columns.
    indices, data = out
    meaning, score = labels
    d = column_of.shape[0]
    longest = 1
    for i in range(indptr.shape[0] - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    size = 8
    while size < 4 * longest:
        size *= 2
    mask = size - 1
    word = np.full(size, -1, dtype=np.int64)
    count = np.zeros(size, dtype=np.int64)
    for i in range(indptr.shape[0] - 1):
        start, stop = indptr[i], indptr[i + 1]
        state = seed + np.uint64(i) * np.uint64(0xD1342543DE82EF95)
        k = start
        while k < stop:
            state, bits = _next(state)
            u = (bits >> np.uint64(11)) * (1.0 / 9007199254740992.0)
            j = column_of[_draw_rank(u, d, exponent)]
            place = (j * 0x9E3779B1) & mask
            while word[place] >= 0 and word[place] != j:
                place = (place + 1) & mask
            if word[place] < 0:
                word[place] = j
                indices[k] = j
                k += 1
            count[place] += 1
        indices[start:stop].sort()
        norm = 0.0
        total = 0.0
        for k in range(start, stop):
            j = int(indices[k])
            place = (j * 0x9E3779B1) & mask
            while word[place] != j:
                place = (place + 1) & mask
            value = (1.0 + math.log(count[place])) * idf[j]
            data[k] = value
            norm += value * value
            total += value * meaning[j]
        scale = 1.0 / math.sqrt(norm)
        score[i] = total * scale
        for k in range(start, stop):
            data[k] *= scale
        word[:] = -1
        count[:] = 0
