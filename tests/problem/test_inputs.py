"""From what a user has to what kernels read: conversions, no needless copies, and errors that name the place."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from conftest import make_data
from dualgap.problem.inputs import as_features, as_labels, as_vector, as_weights, encode_labels, is_dask

X = np.arange(12.0).reshape(4, 3) - 5.0


# ------------------------------------------------------------------------------------------------------------------ features


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_copy_of_float_arrays(dtype):
    x = X.astype(dtype)
    assert np.shares_memory(as_features(x), x)
    x.flags.writeable = False
    assert np.shares_memory(as_features(x), x)


def test_no_copy_of_a_memory_map(tmp_path):
    np.save(tmp_path / "x.npy", X)
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert np.shares_memory(as_features(x), x)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_copy_of_csr(kind, dtype):
    x = kind(X.astype(dtype))
    matrix = as_features(x)
    for part in ("indptr", "indices", "data"):
        assert np.shares_memory(getattr(matrix, part), getattr(x, part))


def test_unsorted_csr_is_used_as_it_is():
    x = sparse.csr_matrix((np.array([1.0, 2.0, 3.0]), np.array([2, 0, 1]), np.array([0, 2, 3])), shape=(2, 3))
    matrix = as_features(x)
    assert np.shares_memory(matrix.data, x.data)
    np.testing.assert_array_equal(matrix.indices, [2, 0, 1])


with warnings.catch_warnings():
    warnings.simplefilter("ignore", PendingDeprecationWarning)  # users have them all the same
    MATRIX = np.matrix(X)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize(
    "given",
    [
        np.asfortranarray(X),
        X.tolist(),
        X.astype(int),
        X.astype(np.int8),
        X.astype(np.float16),
        X.astype(np.longdouble),
        X.astype(">f8"),
        X.astype(">f4"),
        X.astype(object),
        X.astype(str),
        MATRIX,
        np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2],
        X[::-1][::-1],
        np.ma.masked_array(X, mask=False),
        pd.DataFrame(X),
        pd.DataFrame(X).astype("Int64"),
        pd.DataFrame(X).astype({0: object, 1: "float32"}),
        pl.DataFrame(X),
        pl.DataFrame(X).cast(pl.Int32),
        *(getattr(sparse, f"{name}_matrix")(X) for name in ("csc", "coo", "lil", "dok", "dia", "bsr")),
        *(getattr(sparse, f"{name}_array")(X) for name in ("csc", "coo", "lil", "dok", "dia", "bsr")),
        sparse.csr_matrix(X.astype(int)),
    ],
    ids=lambda given: f"{type(given).__name__}-{getattr(given, 'dtype', '')}",
)
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_conversions(given):
    matrix = as_features(given)
    assert matrix.dtype in (np.float32, np.float64)
    assert matrix.dtype.isnative
    if sparse.issparse(given):
        assert matrix.format == "csr"
        np.testing.assert_array_equal(matrix.toarray(), X)
    else:
        assert type(matrix) is np.ndarray
        assert matrix.flags.c_contiguous
        np.testing.assert_array_equal(matrix, X)


def test_bools_are_numbers():
    np.testing.assert_array_equal(as_features(X > 0), (X > 0).astype(float))
    frame = pd.DataFrame({"a": [True, False], "b": [1.5, 2.0]})
    np.testing.assert_array_equal(as_features(frame), [[1.0, 1.5], [0.0, 2.0]])


def test_an_unaligned_array_is_aligned():
    buffer = np.zeros(X.nbytes + 1, dtype=np.uint8)
    x = buffer[1:].view(np.float64).reshape(X.shape)
    x[...] = X
    assert not x.flags.aligned
    assert as_features(x).flags.aligned
    np.testing.assert_array_equal(as_features(x), X)


def test_duplicate_columns_are_summed_in_a_copy():
    x = sparse.csr_matrix((np.array([1.0, 2.0, 4.0, 8.0]), np.array([1, 1, 0, 2]), np.array([0, 3, 4])), shape=(2, 3))
    matrix = as_features(x)
    assert matrix.nnz == 3
    np.testing.assert_array_equal(matrix.toarray(), [[4.0, 3.0, 0.0], [0.0, 0.0, 8.0]])
    np.testing.assert_array_equal(x.data, [1.0, 2.0, 4.0, 8.0])
    x.has_canonical_format = True  # a matrix that is wrong about itself
    assert as_features(x).nnz == 3


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (2, 1), (3, 2)])
def test_a_value_that_is_not_finite_is_located(value, place):
    x = X + 10.0
    x[place] = value
    what = "NaN" if np.isnan(value) else "infinity"
    words = f"X contains {what} at row {place[0]}, column {place[1]};"
    for given in (x, x.astype(np.float32), np.asfortranarray(x), sparse.csr_matrix(x), sparse.csc_array(x)):
        with pytest.raises(ValueError, match=words):
            as_features(given)
    frame = pd.DataFrame(x, columns=["age", "height", "weight"])
    for given in (frame, pl.from_pandas(frame)):
        with pytest.raises(ValueError, match=f"row {place[0]}, column '{frame.columns[place[1]]}'"):
            as_features(given)


def test_a_value_deep_in_a_large_array_is_located():
    x = np.ones((1000, 13))
    x[777, 11] = np.nan
    with pytest.raises(ValueError, match="row 777, column 11"):
        as_features(x)


def test_missing_values_of_frames_are_located():
    with pytest.raises(ValueError, match="NaN at row 1, column 'b'"):
        as_features(pl.DataFrame({"a": [1.0, 2.0], "b": [3.0, None]}))
    for values in (pd.array([3, None], dtype="Int64"), np.array([3, None], dtype=object)):
        with pytest.raises(ValueError, match="NaN at row 1, column 'b'"):
            as_features(pd.DataFrame({"a": [1.0, 2.0], "b": values}))


def test_text_is_named_by_its_column():
    frame = {"age": [1.0, 2.0], "town": ["Ulm", "Bonn"], "street": ["a", "b"]}
    for given in (pd.DataFrame(frame), pl.DataFrame(frame)):
        with pytest.raises(ValueError, match=r"X holds values that are not numbers \(column 'town'\).*encode them"):
            as_features(given)
    with pytest.raises(ValueError, match="X holds values that are not numbers"):
        as_features([["a", "b"]])


@pytest.mark.parametrize("given", [np.zeros((2, 2), "M8[s]"), np.zeros((2, 2), "m8[s]")])
def test_dates_are_no_numbers(given):
    with pytest.raises(ValueError, match=r"not numbers.*dates or durations"):
        as_features(given)
    with pytest.raises(ValueError, match=r"not numbers.*'when'"):
        as_features(pd.DataFrame({"when": given[:, 0]}))


def test_masked_values_are_not_used():
    with pytest.raises(ValueError, match="masked array"):
        as_features(np.ma.masked_array(X, mask=X > 0))


@pytest.mark.parametrize("given", [X + 1j, sparse.csr_matrix(X + 1j), pd.DataFrame(X + 1j)])
def test_complex_is_refused(given):
    with pytest.raises(ValueError, match="Complex data not supported: X"):
        as_features(given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.ones(3), r"X has 1 dimension\(s\).*Expected 2D array.*reshape\(-1, 1\)"),
        (1.0, r"X has 0 dimension"),
        (np.ones((2, 2, 2)), r"X has 3 dimension"),
        (np.ones((0, 3)), r"0 sample\(s\).*shape=\(0, 3\)"),
        (np.ones((3, 0)), r"0 feature\(s\).*shape=\(3, 0\)"),
        (sparse.csr_matrix((0, 3)), r"0 sample"),
        (sparse.csr_matrix((3, 0)), r"0 feature"),
        (sparse.coo_array(np.ones(3)), r"X has 1 dimension"),
        ([[1.0, 2.0], [3.0]], "X holds values that are not numbers"),
        ([], r"X has 1 dimension"),
        (None, r"X "),
        ("X.csv", r"X "),
        ({"a": 1}, r"X "),
    ],
)
def test_shapes_that_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        as_features(given)


def test_another_width_is_refused():
    with pytest.raises(ValueError, match="test X has 3 features, but the model was trained on 4"):
        as_features(X, "test X", columns=4)


def damaged(**parts):
    x = sparse.csr_matrix(np.ones((3, 2)))
    for name, values in parts.items():
        setattr(x, name, np.array(values, dtype=np.int32))
    return x


@pytest.mark.parametrize(
    ("given", "row"),
    [
        (damaged(indices=[0, 1, 0, 2, 0, 1]), 1),
        (damaged(indices=[0, 1, 0, 1, -1, 1]), 2),
        (damaged(indices=[0, 1, 0, 1, 0, 2**31 - 1]), 2),
        (damaged(indptr=[0, 4, 2, 6]), 1),
        (damaged(indptr=[0, 2, 4, 9]), 0),
        (damaged(indptr=[0, 99, 4, 6]), 0),
        (damaged(indptr=[-3, 2, 4, 6]), 0),
        (damaged(indptr=[0, 2, 6]), 0),
        (damaged(indices=[0, 1, 0]), 0),
    ],
)
def test_a_damaged_csr_is_refused(given, row):
    """Kernels do not check their indices: a bad one would read, and write, another's memory."""
    with pytest.raises(ValueError, match=f"X is a damaged CSR matrix: row {row} "):
        as_features(given)


def test_what_lies_beyond_the_last_row_of_a_csr_is_no_data():
    x = sparse.csr_matrix(np.ones((3, 2)))
    x.data, x.indices = np.append(x.data, np.nan), np.append(x.indices, np.int32(7))
    np.testing.assert_array_equal(as_features(x).indptr, [0, 2, 4, 6])


def test_index_types_set_by_hand():
    x = sparse.csr_matrix(np.ones((3, 2)))
    x.indices = x.indices.astype(np.int64)
    matrix = as_features(x)
    assert matrix.indices.dtype == matrix.indptr.dtype
    x.indices = np.repeat(x.indices, 2)[::2].astype(np.int32)
    assert as_features(x).indices.flags.c_contiguous


# -------------------------------------------------------------------------------------------------------- vectors and weights


def test_vectors():
    np.testing.assert_array_equal(as_vector([[1, 2, 3]], "coef", 3), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(as_vector(pl.Series([1, 2]), "coef", 2), [1.0, 2.0])
    np.testing.assert_array_equal(as_vector(pd.Series([1, 2]), "coef", 2), [1.0, 2.0])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([1.0, 2.0], "coef has 2 values where 3 are needed"),
        (np.ones((3, 3)), "coef has 2 dimensions; a vector of 3"),
        ([1.0, np.nan, 2.0], r"coef\[1\] is nan; every value must be finite"),
        (["a", "b", "c"], "coef holds values that are not numbers"),
        ([1, 2, 3j], "Complex data not supported: coef"),
        (None, "coef"),
        (5.0, "coef has 1 values where 3 are needed"),
    ],
)
def test_vectors_that_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        as_vector(given, "coef", 3)


def test_weights():
    np.testing.assert_array_equal(as_weights([0, 1, 2], 3), [0.0, 1.0, 2.0])
    np.testing.assert_array_equal(as_weights(2, 3), [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(as_weights(pd.Series([True, False, True]), 3), [1.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([1.0, -2.0, 1.0], r"sample_weight\[1\] is -2.0; weights must not be negative"),
        ([0.0, 0.0, 0.0], "sample_weight is zero for every sample"),
        (0.0, "sample_weight is zero for every sample"),
        (-1.0, "weights must not be negative"),
        ([1.0, 2.0], "sample_weight has 2 values where 3 are needed"),
        ([1.0, np.inf, 2.0], r"sample_weight\[1\] is inf"),
        (np.inf, r"sample_weight\[0\] is inf"),
        (np.nan, r"sample_weight\[0\] is nan"),
        ("balanced", "sample_weight holds values that are not numbers"),
    ],
)
def test_weights_that_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        as_weights(given, 3)


# -------------------------------------------------------------------------------------------------------------------- labels


@pytest.mark.parametrize(
    ("given", "classes"),
    [
        ([0, 1, 1, 0], [0, 1]),
        ([-1, 1, 1, -1], [-1, 1]),
        ([7, 3, 3, 7], [3, 7]),
        ([2.5, -1e300, -1e300, 2.5], [-1e300, 2.5]),
        ([False, True, True, False], [False, True]),
        (np.array([0, 255, 255, 0], dtype=np.uint8), [0, 255]),
        (["well", "ill", "ill", "well"], ["ill", "well"]),
        (np.array(["b", "a", "a", "b"], dtype=object), ["a", "b"]),
        ([b"x", b"y", b"y", b"x"], [b"x", b"y"]),
        (pd.Series(["b", "a", "a", "b"], index=[9, 3, 1, 4]), ["a", "b"]),
        (pd.Series(["b", "a", "a", "b"], dtype="category"), ["a", "b"]),
        (pd.Series([2, 1, 1, 2], dtype="Int64"), [1, 2]),
        (pl.Series(["b", "a", "a", "b"]), ["a", "b"]),
        (pl.Series([True, False, False, True]), [False, True]),
        (pd.DataFrame({"y": [0, 1, 1, 0]}), [0, 1]),
        (np.array([[0], [1], [1], [0]]), [0, 1]),
    ],
    ids=str,
)
def test_labels_of_any_two_values(given, classes):
    found, signs = encode_labels(as_labels(given, 4))
    assert found.tolist() == classes
    values = np.asarray(given).reshape(-1).tolist()
    assert signs.tolist() == [1.0 if value == classes[1] else -1.0 for value in values]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "requires y to be passed"),
        ([0, 1, 1], "y has 3 labels but X has 4 rows"),
        (np.ones((4, 2)), r"y has shape \(4, 2\)"),
        (1, r"y has shape \(\)"),
        ([0.0, 1.0, np.nan, 1.0], r"y\[2\] is nan"),
        ([0.0, 1.0, np.inf, 1.0], r"y\[2\] is inf"),
        (["a", "b", None, "b"], r"y\[2\] is missing"),
        (pd.Series(["a", "b", pd.NA, "b"], dtype="string"), r"y\[2\] is missing"),
        (pd.Series([1, 2, pd.NA, 2], dtype="Int64"), r"y\[2\] is"),
        (pd.Series([True, False, None, True], dtype="boolean"), r"y\[2\] is missing"),
        (pl.Series(["a", "b", None, "b"]), r"y\[2\] is missing"),
        (np.array([1, "a", 1, "a"], dtype=object), "y mixes strings and other values"),
    ],
    ids=str,
)
def test_labels_that_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        as_labels(given, 4)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([1, 1, 1], "y has one class only, .*1"),
        (["a", "a"], "y has one class only, .*'a'"),
        ([0, 1, 2], r"y has 3 classes .*0.*1.*2.*a Problem has two"),
        (list("abcdefg"), r"y has 7 classes .*…\)"),
    ],
)
def test_not_two_classes(given, words):
    with pytest.raises(ValueError, match=words):
        encode_labels(as_labels(given, None))


def test_labels_that_cannot_be_sorted():
    with pytest.raises(ValueError, match="y"):
        encode_labels(as_labels(np.array([object(), object()], dtype=object), None))


def test_small_data_have_both_classes():
    assert set(make_data()[1]) == {-1.0, 1.0}


def test_threads_find_what_one_finds(monkeypatch):
    rng = np.random.default_rng(0)
    good = sparse.random(999, 50, 0.2, format="csr", random_state=rng)
    monkeypatch.setattr("dualgap.problem.inputs.READING", 400)
    monkeypatch.setattr("dualgap.core.threads.processors", lambda: 3)
    assert as_features(good) is good
    for row in (0, 332, 333, 500, 666, 998):
        X = good.copy()
        X.indices[X.indptr[row + 1] - 1] = 50
        with pytest.raises(ValueError, match=f"row {row} has a column outside"):
            as_features(X)
        X = good.copy()
        X.data[X.indptr[row]] = np.nan
        with pytest.raises(ValueError, match=f"NaN at row {row}, column"):
            as_features(X)
        X = good.copy()
        X.indices[X.indptr[row] + 1] = X.indices[X.indptr[row]]
        assert as_features(X).nnz == good.nnz - 1
        dense = good.toarray()
        dense[row, 7] = np.inf
        with pytest.raises(ValueError, match=f"infinity at row {row}, column 7"):
            as_features(dense)


@pytest.mark.parametrize("width", [60, 300_000])
@pytest.mark.parametrize("length", [3, 40])
def test_rows_whose_columns_descend_are_checked(width, length):
    down = np.arange(length)[::-1]
    empty_first = np.array([0, 0, length, length, 2 * length])  # rows 0 and 2 are empty
    X = sparse.csr_matrix((np.ones(2 * length), np.tile(down, 2), empty_first), shape=(4, width))
    assert as_features(X) is X
    for row, place in ((1, 0), (3, 2 * length - 1)):
        bad = X.copy()
        bad.indices[place] = width
        with pytest.raises(ValueError, match=f"row {row} has a column outside"):
            as_features(bad)
        twice = X.copy()
        twice.indices[place] = 1
        found = as_features(twice)
        assert found.nnz == X.nnz - 1
        np.testing.assert_array_equal(found.sum(axis=1), X.sum(axis=1))


def test_plain_inputs_are_not_dask_collections():
    for given in ([[1.0, 2.0]], [], (1.0,), X, sparse.csr_matrix(X)):
        assert not is_dask(given)
