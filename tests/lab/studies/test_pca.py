"""Principal components of pictures, beside those of scikit-learn."""

import numpy as np
import pytest
from sklearn.decomposition import PCA as SklearnPCA

from dualgap.lab.studies.blood_cells import pca
from dualgap.lab.studies.blood_cells.pca import fit_pca


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
