"""Threads: a range of rows in pieces."""

import numpy as np
import pytest

from dualgap.core.threads import share


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
