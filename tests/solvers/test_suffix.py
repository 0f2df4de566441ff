"""The second half of a run of unknown length: T₀ is half of the epochs, and memory is bounded."""

import numpy as np

from dualgap.solvers.suffix import SecondHalf


def test_the_half_begins_after_half_of_the_epochs():
    half, total = SecondHalf(), np.zeros(3)
    for epoch in range(1, 60):
        total += epoch
        half.add(total)
        first, then = half.since()
        assert first == epoch // 2
        late = total - (0 if then is None else then[0])
        np.testing.assert_array_equal(late, np.full(3, sum(range(epoch // 2 + 1, epoch + 1))))


def test_memory_is_bounded_and_then_the_half_begins_a_little_earlier():
    half = SecondHalf(most_bytes=8 * 3 * 16)
    for epoch in range(1, 1000):
        half.add(np.full(3, float(epoch)))
        assert len(half.kept) <= 16
        assert 0.4 * epoch - 1 <= half.first <= epoch / 2
