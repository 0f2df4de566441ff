"""Splits, scaling, balance and principal components: fitted on the training part, applied to the rest."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import PCA as SklearnPCA
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from dualgap.data import (
    DataError,
    DataSet,
    class_weights,
    fit_pca,
    fit_scaler,
    hold_out,
    load,
    pca,
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
    scaled = fit_scaler(X).apply(X)
    assert scaled.dtype == np.float32
    assert abs(scaled[:, 1]).max() < 1e-6
    assert scaled[:, 0].std() == pytest.approx(1, abs=1e-5)


def test_sparse_data_stay_sparse(sparse_like):
    X, y = sparse_like
    data = DataSet("d", sparse.csr_matrix(X), y)
    assert standardise(data) is data
    scaled = standardise(data, "max-abs")
    assert scaled.X.toarray() == pytest.approx(MaxAbsScaler().fit_transform(X))
    assert scaled.X.nnz == data.X.nnz
    with pytest.raises(ValueError, match="use method='max-abs'"):
        fit_scaler(data.X)
    with pytest.raises(ValueError, match="make sparse data dense"):
        fit_scaler(X).apply(data.X)
    with pytest.raises(ValueError, match="method='minmax' is unknown"):
        fit_scaler(X, "minmax")
    with pytest.raises(ValueError, match="X has 3 columns, but the scaler was fitted on 12"):
        fit_scaler(X).apply(X[:, :3])


def test_undersample_leaves_the_test_part():
    data = hold_out(load("binary"), test=0.3)
    balanced = undersample(data, ratio=2.0, seed=1)
    least = data.counts[-1]
    assert balanced.counts == {-1: least, 1: 2 * least}
    assert balanced.X_test is data.X_test
    with pytest.raises(ValueError, match=r"ratio=0\.5 must be"):
        undersample(data, ratio=0.5)


def test_class_weights_give_classes_equal_say():
    y = np.repeat([-1, 1], [90, 10])
    weights = class_weights(y)
    assert weights.mean() == pytest.approx(1)
    assert weights[y == 1].sum() == pytest.approx(weights[y == -1].sum())
    assert class_weights(["a", "a", "a", "b"]) == pytest.approx([2 / 3, 2 / 3, 2 / 3, 2])


# ------------------------------------------------------------------------------------------------------------------------- PCA


def spread(n, d, seed=0):
    """Data whose singular values fall steadily, so that components are well defined; not centred."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, min(n, d))) @ (0.9 ** np.arange(min(n, d))[:, None] * rng.standard_normal((min(n, d), d))) + 3.0


@pytest.mark.parametrize("shape", [(80, 25), (25, 80)])
@pytest.mark.parametrize("direct", [True, False])
def test_pca_is_that_of_scikit_learn(shape, direct, monkeypatch):
    if not direct:  # the way of large matrices, on a small one
        monkeypatch.setattr(pca, "DIRECT_UP_TO", 0)
        monkeypatch.setattr(pca, "FEW", 1)
    X, X_new = np.split(spread(shape[0] + 10, shape[1]), [shape[0]])
    ours, theirs = fit_pca(X, 4, spectrum=6), SklearnPCA(6, svd_solver="full").fit(X)
    assert ours.singular_values == pytest.approx(theirs.singular_values_, rel=1e-7)
    signs = np.sign(np.sum(ours.components * theirs.components_[:4], axis=1))
    assert ours.components == pytest.approx(theirs.components_[:4] * signs[:, None], abs=1e-6)
    assert ours.apply(X_new) == pytest.approx(theirs.transform(X_new)[:, :4] * signs, abs=1e-5)
    assert abs(ours.apply(X).mean(axis=0)).max() < 1e-10  # centred on the training rows


def test_all_components_restore_the_data():
    X = spread(50, 4)
    fitted = fit_pca(X, 4)
    assert fitted.restore(fitted.apply(X)) == pytest.approx(X)
    assert fit_pca(np.array([[0.0, 0.0], [2.0, 2.0], [4.0, 4.0]]), 1).singular_values == pytest.approx([4.0])


def test_pca_in_float32_and_errors():
    X = spread(40, 20).astype(np.float32)
    fitted = fit_pca(X, 3)
    Z = fitted.apply(X)
    assert Z.dtype == np.float32
    assert np.linalg.norm(X - fitted.restore(Z)) < np.linalg.norm(X - X.mean(axis=0))
    assert (fitted.components[np.arange(3), abs(fitted.components).argmax(axis=1)] > 0).all()
    with pytest.raises(ValueError, match="n_components is 41; data of 40 × 20 have between 1 and 20"):
        fit_pca(X, 41)
