"""Threads: a range in pieces, sums of pieces, and passes over rows."""

import numpy as np
import pytest
from scipy import sparse

from dualgap.core import threads
from dualgap.core.rows import Some, WithBias, csr, dense
from dualgap.core.threads import add_in_threads, one_processor, scores_in_threads, share, share_sum, sqnorms_in_threads


def test_share_covers_the_range_once():
    seen = np.zeros(1001, dtype=int)

    def work(first, last):
        seen[first:last] += 1

    share(work, len(seen), least=10)
    assert (seen == 1).all()

    def fail(first, last):
        raise KeyError(first)

    with pytest.raises(KeyError):
        share(fail, 1000, least=10)


@pytest.mark.parametrize("processors", [1, 2, 5])
def test_results_come_in_the_order_of_the_pieces(monkeypatch, processors):
    monkeypatch.setattr(threads, "processors", lambda: processors)
    pieces = share(lambda first, last: (first, last), 1001, least=10)
    assert len(pieces) == processors
    assert [first for first, _ in pieces] == [0, *(last for _, last in pieces[:-1])]
    assert pieces[-1][1] == 1001


@pytest.mark.parametrize(("processors", "least", "pieces"), [(1, 1, 1), (2, 6, 1), (2, 5, 2), (8, 1, 8), (8, 3, 3), (8, 0, 8)])
def test_a_sum_of_pieces(monkeypatch, processors, least, pieces):
    monkeypatch.setattr(threads, "processors", lambda: processors)
    out = np.array([100.0])

    def work(first, last, sums):
        sums[0] += sum(range(first, last))
        return last - first

    counts = share_sum(work, 11, least, out)
    assert len(counts) == pieces
    assert sum(counts) == 11
    assert out[0] == 155.0


def test_a_sum_longer_than_a_cache_has_two_pieces(monkeypatch):
    monkeypatch.setattr(threads, "processors", lambda: 8)
    monkeypatch.setattr(threads, "OWN_CACHE", 16)
    out = np.zeros(3)
    assert share_sum(lambda first, last, sums: np.add(sums, last - first, out=sums).size, 11, 1, out) == [3, 3]
    assert (out == 11).all()


def test_one_processor_is_one_piece():
    with one_processor():
        assert share(lambda first, last: last, 1000, least=1) == [1000]


@pytest.mark.parametrize("kind", ["dense", "csr", "some", "biased"])
def test_threads_give_what_one_gives(monkeypatch, kind):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1000, 7)) * (rng.random((1000, 7)) < 0.5)
    rows = csr(sparse.csr_array(x)) if kind == "csr" else dense(x)
    if kind == "some":
        rows, x = Some(rows, np.arange(0, 1000, 2, dtype=np.uint32)), x[::2]
    w, a = rng.standard_normal(7), rng.standard_normal(len(x))
    if kind == "biased":
        rows, x, w = WithBias(rows, 2.0, 0.0), np.hstack([x, np.full((1000, 1), 2.0)]), rng.standard_normal(8)
    monkeypatch.setattr(threads, "READING", 1000)
    monkeypatch.setattr(threads, "processors", lambda: 2)
    out, total = np.empty(len(x)), np.ones(len(w))
    scores_in_threads(rows, w, out)
    add_in_threads(rows, a, total)
    norms = np.empty(len(x))
    sqnorms_in_threads(rows, norms)
    np.testing.assert_allclose(norms, (x * x).sum(1))
    np.testing.assert_allclose(out, x @ w, atol=1e-12)
    np.testing.assert_allclose(total, 1.0 + x.T @ a, atol=1e-11)
