"""Random orders and the generators that they are drawn by."""

import numpy as np
import pytest

from dualgap.core import generator


@pytest.mark.parametrize("seed", [0, 7, np.int64(3), 2**40, None])
def test_a_generator_draws_what_numpys_own_does(seed):
    drawn = generator(seed).random(5)
    if seed is not None:
        assert np.array_equal(drawn, np.random.default_rng(seed).random(5))
        assert np.array_equal(generator(seed).permutation(9), np.random.default_rng(seed).permutation(9))


def test_generators_of_one_seed_are_independent_objects():
    first, second = generator(5), generator(5)
    first.random(10)
    assert second.random() == generator(5).random()


@pytest.mark.parametrize("seed", [-1, 1.5, "0"])
def test_what_is_no_seed_is_refused_as_numpy_refuses_it(seed):
    with pytest.raises((TypeError, ValueError)):
        generator(seed)
