"""Splits, scaling and balance: learned from the training part, applied to the rest."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from dualgap.data import (
    DataError,
    DataSet,
    hold_out,
    load,
    split_indices,
    standardise,
    undersample,
)


def test_split_is_stratified_and_a_partition():
    y = np.repeat([0, 1, 2], [700, 200, 3])
    train, test = split_indices(y, test=0.3, seed=4)
    assert sorted([*train, *test]) == list(range(903))
    assert np.bincount(y[test]).tolist() == [210, 60, 1]
    assert np.array_equal(train, np.sort(train))
    again, other = split_indices(y, test=0.3, seed=4), split_indices(y, test=0.3, seed=5)
    assert np.array_equal(test, again[1])
    assert not np.array_equal(test, other[1])


def test_a_rare_class_is_in_both_parts():
    train, test = split_indices([0] * 100 + [1] * 2, test=0.1)
    assert 1 == sum(i >= 100 for i in train) == sum(i >= 100 for i in test)
    with pytest.raises(ValueError, match=r"test=1\.0 must be"):
        split_indices([0, 1], test=1.0)


def test_hold_out(sparse_like):
    X, y = sparse_like
    data = hold_out(DataSet("d", sparse.csr_matrix(X), y), test=0.25)
    assert data.X.shape[0] + data.X_test.shape[0] == 80
    assert data.is_sparse
    with pytest.raises(DataError, match="has a test part of its own"):
        hold_out(data)


def test_standardise_learns_from_the_training_part_alone():
    data = hold_out(load("breast-cancer"))
    before = data.X.copy()
    scaled = standardise(data)
    theirs = StandardScaler().fit(data.X)
    assert np.allclose(scaled.X, theirs.transform(data.X), atol=1e-10)
    assert np.allclose(scaled.X_test, theirs.transform(data.X_test), atol=1e-10)
    assert abs(scaled.X_test.mean(axis=0)).max() > 1e-3
    assert np.array_equal(data.X, before)


def test_constant_columns_and_float32():
    X = np.random.default_rng(0).random((20, 3)).astype(np.float32)
    X[:, 1] = 0.1
    scaled = standardise(DataSet("d", X, np.arange(20) % 2)).X
    assert scaled.dtype == np.float32
    assert abs(scaled[:, 1]).max() < 1e-6
    assert scaled[:, 0].std() == pytest.approx(1, abs=1e-5)


def test_sparse_data_stay_sparse(sparse_like):
    X, y = sparse_like
    data = DataSet("d", sparse.csr_matrix(X), y)
    assert standardise(data) is data


def test_undersample_leaves_the_test_part():
    data = hold_out(load("binary"), test=0.3)
    balanced = undersample(data, ratio=2.0, seed=1)
    least = data.counts[-1]
    assert balanced.counts == {-1: least, 1: 2 * least}
    assert balanced.X_test is data.X_test
    with pytest.raises(ValueError, match=r"ratio=0\.5 must be"):
        undersample(data, ratio=0.5)
