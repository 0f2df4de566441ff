"""Problem: one objective over any storage; labels and weights; what it refuses; new data."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import dualgap
from conftest import make_data
from dualgap import Problem
from dualgap.core.rows import CSR, Dense, Gram
from reference import REFERENCE_LOSSES, Model, loss_of, primal_value

X, Y = make_data(30, 4)
LOSSES = list(REFERENCE_LOSSES)


def build(loss="hinge", X=X, y=Y, **options):
    return Problem(X, y, loss=loss_of(loss), delta=0.5 if loss == "smooth_hinge" else None, **options)


# ------------------------------------------------------------------------------------------------------------- the objective


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("intercept", "l1", "l2"),
    [
        (b, l1, l2)
        for b in ("none", "penalised", "free")
        for l1, l2 in ((0.0, 0.3), (0.2, 0.3), (0.2, 0.0))
        if (b, l2) != ("penalised", 0.0)
    ],
)
def test_objective_is_the_formula(loss, intercept, l1, l2):
    rng = np.random.default_rng(0)
    s, w, b = rng.random(30), rng.normal(size=4), 0.7 * (intercept != "none")
    problem = build(loss, l1=l1, l2=l2, intercept=intercept, intercept_scale=1.5, sample_weight=s)
    model = Model(X, Y, s / s.sum(), REFERENCE_LOSSES[loss], l2, l1, intercept, 1.5)
    assert problem.objective(w, b) == pytest.approx(primal_value(model, w, b), rel=1e-13)


def test_storages_have_one_objective():
    w = np.arange(4.0)
    value = build(l2=0.1).objective(w, 0.0)
    for form in (sparse.csr_matrix(X), sparse.csc_array(X), np.asfortranarray(X), pd.DataFrame(X), pl.DataFrame(X)):
        assert build(X=form, l2=0.1).objective(w) == pytest.approx(value, rel=1e-14)
    # In the kernel's space w is an expansion over the rows: w = Xᵀa.
    a = np.linspace(-1, 1, 30)
    kernel = build(l2=0.1, kernel="linear")
    assert kernel.objective(a) == pytest.approx(build(l2=0.1).objective(X.T @ a), rel=1e-13)


def test_rows_follow_the_data():
    assert isinstance(build().rows, Dense)
    assert isinstance(build(X=sparse.csr_array(X)).rows, CSR)
    assert isinstance(build(kernel="rbf").rows, Gram)


def test_scores_and_combinations():
    for problem in (build(), build(X=sparse.csr_matrix(X))):
        w, a = np.arange(4.0), np.arange(30.0)
        np.testing.assert_allclose(problem.scores(w), X @ w, rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(problem.combine(a), X.T @ a, rtol=1e-13)
        np.testing.assert_allclose(problem.sqnorms, np.sum(X**2, axis=1), rtol=1e-13)
        assert problem.stored(w) is w
        assert problem.size == 4
    problem, K = build(kernel="rbf", gamma=0.5), build(kernel="rbf", gamma=0.5).rows.k
    np.testing.assert_allclose(problem.stored(np.arange(30.0)), K @ np.arange(30.0), rtol=1e-12)
    assert problem.size == 30


@given(seed=st.integers(0, 10_000))
def test_the_data_stay_as_they_are(seed):
    x, y = make_data(20, 3, seed)
    s = np.random.default_rng(seed).random(20)
    copies = x.copy(), y.copy(), s.copy()
    problem = Problem(x, y, l2=0.1, sample_weight=s, intercept="free")
    dualgap.solve(problem, "sdca", tol=1e-2)
    dualgap.certify(problem, np.ones(3), 0.5)
    for before, after in zip(copies, (x, y, s), strict=True):
        np.testing.assert_array_equal(before, after)


def test_read_only_and_mapped_data_train_without_a_copy(tmp_path):
    x, y = make_data(40, 3)
    expected = dualgap.solve(Problem(x, y, l2=0.1), "sdca").coef
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    frozen = x.copy()
    frozen.flags.writeable = False
    y.flags.writeable = False
    matrix = sparse.csr_matrix(x)
    for part in (matrix.data, matrix.indices, matrix.indptr):
        part.flags.writeable = False
    for form, memory in ((mapped, mapped), (frozen, frozen), (matrix, matrix.data)):
        problem = Problem(form, y, l2=0.1)
        assert np.shares_memory(problem.rows[-1], memory)
        np.testing.assert_allclose(dualgap.solve(problem, "sdca").coef, expected, rtol=1e-9)


# --------------------------------------------------------------------------------------------------------- labels and weights


@pytest.mark.parametrize(
    "names", [("ill", "well"), (0, 1), (-1, 1), (False, True), (2.5, 7.0)], ids=lambda names: "-".join(map(str, names))
)
@pytest.mark.parametrize("wrap", [list, np.array, pd.Series, pl.Series])
def test_labels_go_there_and_back(names, wrap):
    labels = wrap([names[1] if sign > 0 else names[0] for sign in Y])
    problem = Problem(X, labels, l2=0.1)
    np.testing.assert_array_equal(problem.y, Y)
    assert problem.classes.tolist() == list(names)
    w = np.array([1.0, -2.0, 0.5, 1.0])
    expected = [names[1] if score > 0 else names[0] for score in X @ w]
    assert problem.predict(X, w).tolist() == expected
    np.testing.assert_array_equal(problem.signs(labels, 30), Y)


def test_weights_are_normalised():
    s = np.linspace(0, 3, 30)
    np.testing.assert_allclose(build(sample_weight=s).c, s / s.sum(), rtol=1e-14)
    np.testing.assert_allclose(build(sample_weight=3e307 * (s + 0.1)).c, (s + 0.1) / (s + 0.1).sum(), rtol=1e-13)
    np.testing.assert_allclose(build().c, 1 / 30)
    np.testing.assert_allclose(build(sample_weight=5).c, 1 / 30)


# ------------------------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"l2": -1.0}, r"l2=-1\.0 must be a finite number that is not negative"),
        ({"l1": -0.5}, r"l1=-0\.5 must be"),
        ({"l2": 0.0}, "l2=0 and l1=0"),
        ({"loss": "hing"}, "loss='hing' is unknown"),
        ({"intercept": "yes"}, r"intercept='yes' is unknown; choose one of .*penalised"),
        ({"intercept": True}, "intercept=True is unknown"),
        ({"intercept": "penalised", "l2": 0.0, "l1": 0.1}, "intercept='penalised' needs l2 > 0"),
        ({"intercept_scale": 0.0}, "intercept_scale=0.0 must be a positive"),
        ({"intercept_scale": float("nan")}, "intercept_scale=nan must be"),
        ({"intercept_scale": "1"}, "intercept_scale='1' must be a positive"),
        ({"loss": "smooth_hinge", "delta": "1"}, "delta='1' must be a positive number"),
        ({"y": np.ones(30)}, "y has one class only"),
        ({"y": Y[:-1]}, "y has 29 labels but X has 30 rows"),
        ({"y": np.arange(30)}, "y has 30 classes"),
        ({"y": None}, "requires y"),
        ({"sample_weight": np.ones(29)}, "sample_weight has 29 values where 30 are needed"),
        ({"sample_weight": -np.ones(30)}, r"sample_weight\[0\] is -1\.0; weights must not be negative"),
        ({"sample_weight": np.zeros(30)}, "sample_weight is zero for every sample"),
        ({"sample_weight": (Y > 0).astype(float)}, "sample_weight is zero for every sample of class .*-1"),
        ({"sample_weight": np.where(Y > 0, 1e200, 1e-200)}, "nothing beside the other class's in float64 .* class .*-1"),
        ({"classes": [1, 1]}, r"classes=\[1, 1\] must be two different labels"),
        ({"X": X[:, 0]}, r"X has 1 dimension"),
        ({"X": X[:0], "y": []}, r"0 sample\(s\)"),
        ({"kernel": "rbf", "l1": 0.1}, r"l1=0\.1 with a kernel"),
        ({"kernel": "precomputed"}, "kernel='precomputed' takes X as a square array"),
        ({"kernel": "precomputed", "X": sparse.csr_matrix(X @ X.T)}, "kernel='precomputed' takes X as a square array"),
        ({"kernel": "precomputed", "X": np.triu(X @ X.T)}, "is not symmetric"),
        ({"kernel": X @ X.T}, "is unknown"),
        ({"kernel": "rbf", "gamma": -1.0}, r"gamma=-1\.0"),
        ({"kernel": lambda a, b: np.full((len(a), len(b)), np.nan)}, "returned nan at row 0, column 0"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(ValueError, match=words):
        Problem(**{"X": X, "y": Y, **options})


def test_objective_checks_its_model():
    with pytest.raises(ValueError, match="coef has 3 values where 4 are needed"):
        build().objective(np.ones(3))
    with pytest.raises(ValueError, match=r"coef\[1\] is nan"):
        build().objective([1.0, np.nan, 1.0, 1.0])


# ------------------------------------------------------------------------------------------------------------------ new data


def test_decision_on_new_data():
    new, w = np.random.default_rng(5).normal(size=(7, 4)), np.arange(4.0)
    for form in (new, sparse.csr_matrix(new), sparse.csc_array(new), pd.DataFrame(new)):
        np.testing.assert_allclose(build().decision(form, w, 0.5), new @ w + 0.5, rtol=1e-13)
    with pytest.raises(ValueError, match="X has 3 features, but the model was trained on 4"):
        build().decision(new[:, :3], w)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csr_array])
def test_decision_of_a_kernel_machine(kind):
    new, a = np.random.default_rng(5).normal(size=(7, 4)), np.linspace(-1, 1, 30)
    a[3:20] = 0.0  # only support vectors are read
    K = np.exp(-0.5 * ((new[:, None] - X[None]) ** 2).sum(axis=2))
    problem = build(X=kind(X), kernel="rbf", gamma=0.5)
    np.testing.assert_allclose(problem.decision(kind(new), a, -0.25), K @ a - 0.25, rtol=1e-11)
    np.testing.assert_allclose(problem.decision(kind(new), np.zeros(30), -0.25), np.full(7, -0.25))
    precomputed = build(X=X @ X.T, kernel="precomputed")
    np.testing.assert_allclose(precomputed.decision(new @ X.T, a), new @ X.T @ a, rtol=1e-11)


def test_unknown_labels_of_new_data():
    problem = Problem(X, np.where(Y > 0, "yes", "no"), l2=0.1)
    with pytest.raises(ValueError, match=r"y\[1\] is .*'maybe'.*training data \['no', 'yes'\]"):
        problem.signs(["yes", "maybe"], 2)
    with pytest.raises(ValueError, match=r"y\[0\]"):
        problem.signs([1, 0], 2)
    with pytest.raises(ValueError, match="y has 2 labels but X has 3 rows"):
        problem.signs(["yes", "no"], 3)


def test_head_is_of_the_same_kind():
    for problem in (
        build(l1=0.1, l2=0.1, intercept="free", sample_weight=np.arange(30.0)),
        build(kernel="rbf"),
        build(X=sparse.csr_matrix(X)),
    ):
        small = problem.head(4)
        assert small.n == 4
        assert type(small.rows) is type(problem.rows)
        assert (small.loss, small.penalty, small.intercept) == (problem.loss, problem.penalty, problem.intercept)
        assert set(small.y) == {-1.0, 1.0}
        assert len(small.sqnorms) == 4
        assert problem.n == 30
        assert len(problem.sqnorms) == 30


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "Problem(30 × 4 dense, hinge, l2=0.0001, intercept='none')"),
        (
            {"loss": "smooth_hinge", "X": sparse.csr_matrix(X), "l1": 0.5, "sample_weight": 2, "intercept": "free"},
            "Problem(30 × 4 sparse, smooth_hinge(delta=0.5), l2=0.0001, l1=0.5, intercept='free', weighted)",
        ),
        ({"kernel": "rbf"}, "Problem(30 × 4 rbf kernel, hinge, l2=0.0001, intercept='none')"),
    ],
)
def test_repr(options, text):
    assert repr(build(**options)) == text


# ------------------------------------------------------------------------------------------------------ immutable, and copies


def test_attributes_cannot_be_set():
    problem = build(l2=0.1)
    for name in ("l2", "y", "rows", "sqnorms", "something"):
        with pytest.raises(AttributeError, match=rf"Problem is immutable; problem\.replace\({name}=…\) returns a copy"):
            setattr(problem, name, 1.0)
    with pytest.raises(AttributeError, match="immutable"):
        del problem.l2
    assert problem.l2 == 0.1


def test_replace_changes_what_follows_and_nothing_else():
    problem = build(l2=0.1, intercept="free", sample_weight=np.arange(1.0, 31.0))
    before = dict(vars(problem))
    other = problem.replace(l1=0.2, loss=dualgap.Logistic())
    assert repr(other) == "Problem(30 × 4 dense, logistic, l2=0.1, l1=0.2, intercept='free', weighted)"
    assert other.penalty == dualgap.core.make_penalty(0.1, 0.2)
    even = problem.replace(sample_weight=None)
    np.testing.assert_array_equal(even.c, np.full(30, 1 / 30))
    few = problem.replace(y=problem.y[:10], sample_weight=np.ones(10), X=problem.X[:10])
    assert (few.n, len(few.c), few.rows.length(), len(few.sqnorms)) == (10, 10, 10, 10)
    assert all(vars(problem)[name] is value for name, value in before.items())
    with pytest.raises(ValueError, match="needs l2 > 0"):
        problem.replace(l2=0.0, l1=0.1, intercept="penalised")
    with pytest.raises(TypeError, match="has no 'lambda2' to replace"):
        problem.replace(lambda2=1.0)


@pytest.mark.parametrize("options", [{}, {"kernel": "rbf"}, {"kernel": "sigmoid", "gamma": 0.01}])
def test_copies_over_the_same_rows_share_what_is_computed(options):
    problem = build(l2=0.1, **options)
    other = problem.variant(-Y, l2=0.5).replace(loss=dualgap.Logistic())
    assert other.shared is problem.shared
    assert other.sqnorms is problem.sqnorms
    assert other.rows is problem.rows
    assert problem.replace(X=problem.X.copy()).shared is not problem.shared
    assert problem.head(4).shared is not problem.shared


def test_a_subset_is_weighted():
    """Its weights are not uniform, and what asks whether a problem is weighted must be told."""
    problem = build(l2=0.1, intercept="free")
    places, weights = np.array([3, 4, 8, 20, 21, 22, 28]), np.array([1.0, 2.0, 1.0, 5.0, 1.0, 1.0, 3.0])
    small = problem.subset(places, weights)
    same = Problem(X[places], Y[places], l2=0.1, sample_weight=weights, intercept="free")
    assert repr(small) == repr(same)
    np.testing.assert_allclose(small.c, same.c, rtol=1e-15)
    scores = np.linspace(-2, 2, 7)
    assert dualgap.proof.best_intercept(small, scores) == dualgap.proof.best_intercept(same, scores)


@pytest.mark.parametrize("options", [{}, {"kernel": "rbf"}, {"kernel": "rbf", "kernel_memory": 30 * 8 * 5}])
def test_pickles_and_copies(options):
    problem = build(l2=0.1, **options)
    a = np.linspace(0, 1, problem.size)
    value = problem.objective(a)
    for same in (pickle.loads(pickle.dumps(problem)), copy.copy(problem), copy.deepcopy(problem)):
        assert repr(same) == repr(problem)
        assert same.objective(a) == pytest.approx(value, rel=1e-12)


def test_replace_takes_only_what_fits_together():
    problem = Problem(X, Y, l2=0.1)
    with pytest.raises(ValueError, match=r"X has shape \(2, "):
        problem.replace(X=X[:2].copy())
    with pytest.raises(ValueError, match="but y has"):
        problem.replace(X=X[:, :1].copy())
    with pytest.raises(ValueError, match="make a new Problem"):
        Problem(X, Y, kernel="rbf", kernel_memory=2000).replace(X=X.copy())
    for name in ("n", "penalty"):
        with pytest.raises(TypeError, match=f"{name} follows from other attributes"):
            problem.replace(**{name: 5})
    assert problem.replace(loss="logistic").loss == dualgap.Logistic()
