"""What must not change a model: a weight of 2 for a row twice, other names, other orders, other units."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualgap import LinearSVC

PARAMS = {"tol": 1e-9, "max_iter": 20_000, "random_state": 0}
SEEDS = st.integers(0, 2**32 - 1)


def draw_data(seed, classes=2, n=30, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.argmax(X @ rng.normal(size=(d, classes)) + 0.5 * rng.normal(size=(n, classes)), axis=1)
    y[:classes] = np.arange(classes)
    return X, y, rng


def fitted(X, y, weights=None, **params):
    return LinearSVC(**{**PARAMS, **params}).fit(X, y, weights)


@given(seed=SEEDS, loss=st.sampled_from(["squared_hinge", "hinge"]))
@settings(max_examples=20)
def test_weight_two_is_a_row_twice(seed, loss):
    X, y, rng = draw_data(seed)
    times = rng.integers(0, 4, size=len(y))
    times[:2] = 1
    weighted = fitted(X, y, times, loss=loss)
    repeated = fitted(np.repeat(X, times, axis=0), np.repeat(y, times), loss=loss)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=2e-9)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-3)


@given(seed=SEEDS)
@settings(max_examples=10)
def test_weights_and_c_trade_places(seed):
    X, y, rng = draw_data(seed)
    factor = float(rng.uniform(0.1, 10))
    np.testing.assert_allclose(fitted(X, y, np.full(len(y), factor), C=1.0).coef_, fitted(X, y, C=factor).coef_, atol=1e-4)


@given(seed=SEEDS, multi_class=st.sampled_from(["ovr", "crammer_singer"]))
@settings(max_examples=12)
def test_other_names_permute_the_classes(seed, multi_class):
    X, y, rng = draw_data(seed, classes=3)
    names = rng.permutation(3)
    tol = 1e-9 if multi_class == "ovr" else 1e-6
    model = fitted(X, y, multi_class=multi_class, C=0.3, tol=tol)
    renamed = fitted(X, names[y], multi_class=multi_class, C=0.3, tol=tol)
    np.testing.assert_allclose(renamed.coef_[names], model.coef_, atol=1e-2)
    np.testing.assert_allclose(np.sort(np.atleast_1d(renamed.objective_)), np.sort(np.atleast_1d(model.objective_)), rtol=2 * tol)


@given(seed=SEEDS)
@settings(max_examples=10)
def test_two_classes_may_change_sides(seed):
    X, y, _ = draw_data(seed)
    np.testing.assert_allclose(fitted(X, 1 - y).coef_, -fitted(X, y).coef_, atol=1e-4)


@given(seed=SEEDS)
@settings(max_examples=10)
def test_order_of_features_and_rows(seed):
    X, y, rng = draw_data(seed)
    columns, rows = rng.permutation(X.shape[1]), rng.permutation(len(y))
    model = fitted(X, y)
    np.testing.assert_allclose(fitted(X[:, columns], y).coef_, model.coef_[:, columns], atol=1e-4)
    np.testing.assert_allclose(fitted(X[rows], y[rows]).coef_, model.coef_, atol=1e-4)


@given(seed=SEEDS, factor=st.sampled_from([1e-3, 0.5, 7.0, 1e3]))
@settings(max_examples=12)
def test_other_units(seed, factor):
    """X in other units is w in the inverse ones, with C to match: ½‖w/a‖² + C/a²·Σ is (½‖w‖² + C·Σ)/a²."""
    X, y, _ = draw_data(seed)
    model = fitted(X, y, C=1.0)
    scaled = fitted(factor * X, y, C=1.0 / factor**2)
    np.testing.assert_allclose(factor * scaled.coef_, model.coef_, atol=1e-4)
    np.testing.assert_allclose(scaled.intercept_, model.intercept_, atol=1e-4)


@given(seed=SEEDS)
@settings(max_examples=10)
def test_a_free_intercept_takes_up_a_shift(seed):
    X, y, rng = draw_data(seed)
    shift = rng.normal(size=X.shape[1])
    model, shifted = fitted(X, y), fitted(X + shift, y)
    np.testing.assert_allclose(shifted.coef_, model.coef_, atol=1e-4)
    np.testing.assert_allclose(shifted.intercept_, model.intercept_ - model.coef_ @ shift, atol=1e-3)
