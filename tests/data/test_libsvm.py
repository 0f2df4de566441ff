"""The LIBSVM parser: numbers as Python reads them, files as scikit-learn writes them, errors with line and column."""

import bz2
import gzip
import lzma
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from dualgap.data import DataError, iter_libsvm, libsvm, read, read_libsvm
from dualgap.data.libsvm import EXACT, NOT_A_NUMBER, UNDECIDED, parse_decimal, powers_of_ten

POWERS = powers_of_ten()


def parse(word):
    text = np.frombuffer(word.encode() + b"\n", dtype=np.uint8)
    return parse_decimal(text, 0, POWERS)


def agrees(word):
    status, value, end = parse(word)
    assert end == len(word)
    assert status in (EXACT, UNDECIDED)
    if status == EXACT:
        assert struct.pack("<d", value) == struct.pack("<d", float(word))
    return status


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_shortest_decimals(x):
    ordinary = x == 0 or 1e-250 < abs(x) < 1e250
    assert agrees(repr(x)) == EXACT or not ordinary


@given(st.integers(0, 10**19 - 1), st.integers(-360, 330), st.sampled_from("eE"), st.sampled_from(["", "+", "-"]))
def test_any_digits_and_exponent(digits, exponent, e, sign):
    agrees(f"{sign}{digits}{e}{exponent}")


@given(st.integers(2**52, 2**53 - 1), st.integers(-4, 22))
def test_half_way_goes_to_even(mantissa, power):
    """2m + 1 lies exactly between two floats of twice the spacing."""
    agrees(str(2 * mantissa + 1))
    agrees(f"{2 * mantissa + 1}e{power}")


@pytest.mark.parametrize(
    "word",
    ["0", "-0", "+5", "1.", "-.5", "00012.500", "0.000000000000000000000000001", "10000000000000000000000", "9007199254740992"],
)
def test_forms_of_numbers(word):
    assert agrees(word) == EXACT


@pytest.mark.parametrize(
    "word", ["123456789012345678901234567890", "1e-400", "1e400", "4.9e-324", "0.12345678901234567890123", "9007199254740993"]
)
def test_left_to_python(word):
    assert agrees(word) == UNDECIDED


@pytest.mark.parametrize("word", ["", ".", "-", "e5", "1e", "1e+", "nan", "inf", "x"])
def test_not_numbers(word):
    assert parse(word)[0] == NOT_A_NUMBER


# ------------------------------------------------------------------------------------------------------------------ round trips


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 60)) * 10.0 ** rng.integers(-12, 12, size=(200, 60)) * (rng.random((200, 60)) < 0.15)
    X[3:6] = 0
    return sparse.csr_matrix(X), rng.choice([-1.0, 1.0], size=200)


OPENERS = {"": open, ".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


@pytest.mark.parametrize("ending", OPENERS)
@pytest.mark.parametrize("zero_based", [True, False])
def test_round_trip(samples, tmp_path, ending, zero_based):
    X, y = samples
    path = tmp_path / f"data.svm{ending}"
    with OPENERS[ending](path, "wb") as stream:
        dump_svmlight_file(X, y, stream, zero_based=zero_based)
    for asked in (zero_based, "auto"):
        found, labels = read_libsvm(path, n_features=60, zero_based=asked)
        assert found.shape == X.shape
        assert found.toarray() == pytest.approx(X.toarray(), rel=1e-15)  # 16 digits are written
        assert np.array_equal(labels, y)
    with OPENERS[ending](path, "rb") as stream:  # scikit-learn does not know xz by itself
        theirs, _ = load_svmlight_file(stream, n_features=60, zero_based=zero_based)
    assert np.array_equal(found.toarray(), theirs.toarray())  # to the last bit


def test_small_chunks_change_nothing(samples, tmp_path, monkeypatch):
    X, y = samples
    path = tmp_path / "data.svm"
    dump_svmlight_file(X, y, str(path))
    whole, _ = read_libsvm(path)
    for chunk in (1, 97, 4096):
        monkeypatch.setattr(libsvm, "CHUNK", chunk)
        found, labels = read_libsvm(path)
        assert (found != whole).nnz == 0
        assert np.array_equal(labels, y)


@pytest.mark.parametrize("block_rows", [1, 7, 100, 200, 1000])
def test_blocks(samples, tmp_path, block_rows, monkeypatch):
    monkeypatch.setattr(libsvm, "CHUNK", 2000)
    X, y = samples
    path = tmp_path / "data.svm"
    dump_svmlight_file(X, y, str(path), zero_based=False)
    blocks = list(iter_libsvm(path, block_rows, zero_based=False))
    assert all(len(block.y) == block_rows for block in blocks[:-1])
    assert sum(len(block.y) for block in blocks) == 200
    whole, _ = read_libsvm(path, n_features=60, zero_based=False)
    assert np.array_equal(sparse.vstack([block.to_csr(60) for block in blocks]).toarray(), whole.toarray())


def write(tmp_path, text):
    path = tmp_path / "data.svm"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_comments_queries_blanks_and_line_ends(tmp_path):
    text = "# head\n\n+1 qid:7 1:0.5\t3:2 # tail\r\n   \n-1\n  2.5 2:1e2 5:0\n-1 4:123456789012345678901234567890"
    X, y = read_libsvm(write(tmp_path, text))
    expected = np.zeros((4, 5))
    expected[0, [0, 2]] = 0.5, 2
    expected[2, 1] = 100
    expected[3, 3] = 123456789012345678901234567890
    assert np.array_equal(X.toarray(), expected)
    assert X.nnz == 4  # the explicit zero is gone, its column counts
    assert y.tolist() == [1, -1, 2.5, -1]


def test_many_undecided_numbers(tmp_path):
    """More than the room that is first made for them."""
    values = [f"0.1234567890123456789{k:05d}" for k in range(1, 500)]
    line = " ".join(f"{j}:{v}" for j, v in enumerate(values, start=1))
    X, y = read_libsvm(write(tmp_path, f"12345678901234567890123 {line}\n"))
    assert X.toarray()[0].tolist() == [float(v) for v in values]
    assert y[0] == 12345678901234567890123.0


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("1 1:1\nx 1:1\n", "line 2, column 1: a label must be a number, followed by a space, found 'x'"),
        ("1:2 3:4\n", "line 1, column 1: a label"),
        ("\n\n1,2 3:4\n", "line 3, column 1: more than one label"),
        ("1 1:1 b:2\n", "line 1, column 7: a column must be a whole number, found 'b:2'"),
        ("1 -1:2\n", "line 1, column 3: a column"),
        ("1 1:1 2\n", "line 1, column 7: a colon must follow the column, found '2'"),
        ("1 1:1 2:\n", "line 1, column 9: a value must be a number, found the end of the line"),
        ("1 1:1 2:3x\n", "line 1, column 9: a value must be a number, found '3x'"),
        ("1 1:nan\n", "line 1, column 5: a value must be a number, found 'nan'"),
        ("1 1:1e999\n", "line 1, column 5: a number must be finite, found '1e999'"),
        ("1 3:1 2:1\n", "line 1, column 7: columns must ascend"),
        ("1 3:1 3:1\n", "line 1, column 7: columns must ascend"),
        (b"1 1:1\n\x00\xff\x12", "line 2, column 1: a label"),
        ("# nothing\n\n", "has no samples"),
        ("", "is empty"),
    ],
)
def test_errors_say_where(tmp_path, text, match, monkeypatch):
    for chunk in (4, 1 << 20):  # the line is counted across chunks
        monkeypatch.setattr(libsvm, "CHUNK", chunk)
        with pytest.raises(DataError, match=match):
            read_libsvm(write(tmp_path, text))


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz"])
def test_truncated_compression(samples, tmp_path, ending):
    X, y = samples
    path = tmp_path / f"data.svm{ending}"
    with OPENERS[ending](path, "wb") as stream:
        dump_svmlight_file(X, y, stream)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match="cut short"):
        read_libsvm(path)


def test_corrupt_compression(samples, tmp_path):
    X, y = samples
    path = tmp_path / "data.svm.gz"
    with gzip.open(path, "wb") as stream:
        dump_svmlight_file(X, y, stream)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"data\.svm\.gz"):
        read_libsvm(path)


def test_columns_and_their_base(tmp_path):
    path = write(tmp_path, "1 1:1\n-1 2:1\n1 0:1\n")
    assert read_libsvm(path)[0].shape == (3, 3)
    with pytest.raises(DataError, match="give zero_based=True"):
        read_libsvm(path, zero_based=False)
    with pytest.raises(DataError, match="give zero_based=True"):
        list(iter_libsvm(path, 2))  # the first block looked one-based
    with pytest.raises(DataError, match="more than n_features=2"):
        read_libsvm(path, n_features=2)
    with pytest.raises(ValueError, match="zero_based is 'yes'"):
        read_libsvm(path, zero_based="yes")
    with pytest.raises(ValueError, match="block_rows=0 must be"):
        list(iter_libsvm(path, 0))
    assert read_libsvm(path, dtype=np.float32)[0].dtype == np.float32


@pytest.mark.parametrize("column", [2**31 + 1, 10**10, 10**18])
def test_a_column_that_would_take_all_memory(tmp_path, column):
    """A line of twenty characters asked for a model of 80 GB and more."""
    path = write(tmp_path, f"1 1:1 {column}:1\n-1 1:2\n")
    with pytest.raises(DataError, match=rf"column {column} occurs, and a model has a weight for every column .*hash them"):
        read_libsvm(path)
    assert read_libsvm(path, n_features=column)[0].shape == (2, column)  # the one who asks for it gets it


def test_read_gives_whole_labels(tmp_path):
    data = read(write(tmp_path, "+1 1:1\n-1 2:0.5\n"))
    assert data.y.dtype == np.int64
    assert data.name == "data"
    with pytest.raises(DataError, match="leave target out"):
        read(tmp_path / "data.svm", target="y")


@pytest.mark.data
def test_real_files_as_scikit_learn_reads_them(shared_data):
    for name in ("heart_scale", "german.numer", "rcv1_small_train.dat"):
        X, y = read_libsvm(shared_data(name))
        theirs, labels = load_svmlight_file(str(shared_data(name)))
        assert X.shape == theirs.shape
        assert np.array_equal(X.toarray(), theirs.toarray())
        assert np.array_equal(y, labels)
